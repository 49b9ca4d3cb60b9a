"""Name: right until transposed

1. The two runs send the same numbers into backward. What else has a tensor but numbers, shape and
   dtype?
2. Strides. A gradient that comes back through a transpose is a transposed view.
3. The rule is called after what arrives, and after how it lies in memory.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="medium",
    minutes=9,
    section="What gradcheck does not ask",
    rule="grad-output-layout",
    but={
        "input-layout": "The transposed tensor comes after the Function, so x lies in memory "
        "as ever. What is transposed, seen from backward?",
        "transposed-gradient": "The gradient's axes are in order where nothing is transposed "
        "afterward; a formula does not know what follows it.",
        "permuted-gradient": "Right numbers of what, in wrong places? Close, but it happens "
        "only for some callers: say what they have in common.",
        "batch-dimension": "The batch may have any size. It depends on what is done with the "
        "output.",
        "dim-argument": "No axis is passed, and none is reduced.",
        "wrong-region": "The numbers in x do not matter, only how the gradient arrives.",
    },
)
