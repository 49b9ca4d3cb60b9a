"""Name: the silence that was not silent

1. The count changed without a backward. Which line of forward can be seen from outside?
2. x.data is x's memory without x's version counter. The underscore at the end of a method says what
   it does to it.
3. The rule begins with mutates-; ask whose tensor it is.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What gradcheck does not ask",
    rule="mutates-input",
    but={
        "mutates-saved": "What is saved is not changed after it was saved. When is it changed, "
        "and whose is it?",
        "mutates-grad-output": "The mask is wrong before any backward has run.",
        "returns-view": "log makes a new tensor. The damage is done a line before.",
        "wrong-mark-dirty": "Nothing is declared here. Something should have been, or rather "
        "should not have been done.",
        "wrong-region": "There may be a second bug of that kind; for the counts that the owner "
        "printed it does not take a backward.",
        "shared-state": "There is no state. But two parts of the program share a tensor.",
    },
)
