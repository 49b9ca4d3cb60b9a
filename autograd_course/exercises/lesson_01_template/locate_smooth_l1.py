"""Which line: smooth L1

1. Sketch the slope of the loss against the error, once for beta = 1 and once for beta = 1/9. How
   large is the slope far away from 0?
2. The slope is error / beta inside and 1 or -1 outside. Which line of backward computes the slope,
   and which slopes does it give for beta = 1/9?
3. Line 7 is the slope of the Huber loss, which is beta times the smooth L1 loss. The two agree for
   beta = 1. Which experiment looks at the gradient for another beta?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=7,
    section="From the formula to the proof",
    rule="constant-factor",
    wrong_lines="7",
    lines={
        "1": "The loss depends on the difference only, so this is all that `backward` needs.",
        "2": "The error is a tensor, and `save_for_backward` is the right place for it.",
        "3": "A number is an attribute of `ctx`.",
        "4": "The loss is quadratic where the error is smaller than beta. That is the definition.",
        "5": "This line computes the formula. Does `backward` return the derivative of it?",
        "6": "This line unpacks the one tensor that `forward` saved.",
        "8": "The error grows with the prediction and falls with the target. Both signs are right.",
    },
    experiment="b",
    experiments={
        "a": "For beta = 1 the slope is right.",
        "c": "The gradient doubles, because the slope does not depend on `grad_output`.",
        "d": "`forward` is right, and so are its values.",
    },
)
