"""Card: a tenth of the gradient

1. exp saves its output for backward, and sin does not. The message says that this output was
   modified. Was it?
2. The version counter of a tensor increases when an operation changes the tensor in place, or when
   a Function declares an in-place change. Which line declares such a change?
3. mark_dirty(x) declares that forward has overwritten x, but forward did not. Which experiment
   looks at the version counter?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=8,
    section="Writing in place: mark_dirty",
    rule="wrong-mark-dirty",
    wrong_lines="1",
    lines={
        "2": "A copy would be better, but this line does not cause the error: PyTorch takes the "
        "input and makes a view of it.",
        "3": "The author wants a tenth of the gradient.",
    },
    experiment="d",
    experiments={
        "a": "The values of x do not change, and they would not change in a correct Function.",
        "b": "The gradient doubles, as it should.",
        "c": "`sin` saves its input and not its output, so nothing goes wrong after it.",
    },
)
