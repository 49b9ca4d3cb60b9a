"""Card: a copied pattern

1. The first derivative is right, but the gradient of a penalty is not. So the second derivative is
   wrong. The double backward of Swish is the backward of SwishBackward.
2. SwishBackward computes v = g · f′(x). It has two inputs, so its backward returns two gradients.
   For a leaky ReLU, f′(x) is constant on each side of 0. Is it constant for the swish?
3. The gradient of v with respect to x is h · g · f″(x), and line 5 returns None for it. Which
   experiment differentiates v with respect to x?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=10,
    section="A second Function for backward",
    section_is_on_backward=True,
    rule="silent-double-backward",
    wrong_lines="52",
    lines={
        "1": "This is the derivative of the swish.",
        "3": "This is the product of the upstream gradient and the derivative.",
        "4": "This line unpacks the tensor that line 2 saved. Is this tensor enough?",
        "6": "`backward` needs x, and an input has a graph.",
        "7": "This line computes the swish.",
        "8": "This line unpacks the tensor that line 6 saved. It has a graph.",
        "9": "`backward` may call a second Function, and this line passes everything on which the "
        "gradient depends.",
    },
    experiment="c",
    experiments={
        "a": "gradcheck compares first derivatives only, and those are right for every input.",
        "b": "The derivative with respect to `grad_output` is f′(x), and line 5 returns it "
        "correctly.",
        "d": "The gradient doubles, as it should. This tests the first derivative.",
    },
)
