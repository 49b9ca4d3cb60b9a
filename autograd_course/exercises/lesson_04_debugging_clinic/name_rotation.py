"""Locate: right until transposed

1. Both runs pass the same numbers to backward. What does a tensor have besides numbers, a shape and
   a dtype?
2. A tensor has strides. The gradient that comes back through a transpose is a transposed view.
3. as_strided reads the memory and ignores the strides of the gradient. Which experiment changes
   only the strides?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=9,
    section="What gradcheck does not ask",
    rule="grad-output-layout",
    wrong_lines="3",
    lines={
        "1": "A number belongs on `ctx` as an attribute.",
        "2": "The values are right, and so is their layout.",
        "4": "Rotating back by the same angle is the right gradient, if `rows` contains the right "
        "numbers.",
    },
    experiment="c",
    experiments={
        "a": "`gradcheck` uses a contiguous `grad_output`, for every angle.",
        "b": "`forward` reads `x` with its strides, so a transposed x does no harm.",
        "d": "The gradient doubles, as it should.",
    },
)
