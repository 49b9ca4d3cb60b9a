"""Card: a tenth of the gradient

1. exp saves its output for backward, and sin does not. The message says that this output was
   modified. Was it?
2. The version counter of a tensor goes up when an operation writes into it, or when a Function
   declares that it did. Which line declares something?
3. mark_dirty(x) declares that forward has overwritten x. It has not. The attribute _version is the
   counter.
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
        "2": "A Function may return its input. PyTorch then makes a view of it for you.",
        "3": "A tenth of the gradient is what the author wants.",
    },
    experiment="d",
    experiments={
        "a": "The values of x do not change. That is exactly the point: something else says that "
        "they did.",
        "b": "The gradient doubles, as it should.",
        "c": "`sin` saves its input and not its output, so nothing goes wrong after it.",
    },
)
