"""Locate: the silence that disappears

1. The count changed although no backward ran. Which line of forward changes something that the
   caller can see?
2. x.data shares its memory with x, but not its version counter. What does an underscore at the end
   of a method's name mean?
3. clamp_ writes into the caller's tensor. Which experiment looks at this tensor?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What gradcheck does not ask",
    rule="mutates-input",
    wrong_lines="1",
    lines={
        "2": "Saving a tensor for backward is allowed. What happened to this tensor before?",
        "3": "`log` returns a new tensor with the right values.",
        "4": "This line unpacks the one tensor that `forward` saved.",
        "5": "There may be a second mistake here, but the owner's count changes before any "
        "backward runs.",
    },
    experiment="d",
    experiments={
        "a": "The values of the output are right.",
        "b": "Above the floor the gradient is right.",
        "c": "Both calls get an equal input, and both outputs are right.",
    },
)
