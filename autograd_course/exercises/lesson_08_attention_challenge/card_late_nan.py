"""Card: nan after twenty steps

1. forward is right, so the first nan is in a gradient. backward computes a number that is not
   finite. What grows while this model trains?
2. Training makes the softmax sharper, so the scores grow. One line of backward works for small
   scores but not for large ones.
3. torch.softmax subtracts the largest score of a row before it calls exp. One line of backward
   calls exp without that. In float32, exp overflows for inputs of 89 or more. Which experiment has
   such scores?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=6,
    section="Fully masked rows",
    rule="overflow",
    wrong_lines="5",
    lines={
        "1": "`torch.softmax` subtracts the largest score of each row, so it never overflows.",
        "2": "These are the inputs, and backward recomputes everything else from them.",
        "3": "The output is finite, because the weights are.",
        "4": "This line unpacks the three tensors that `forward` saved.",
        "6": "This line divides by the sum of the row, which is right. Are the numbers finite that "
        "it gets?",
        "7": "This is the derivative of a softmax. Are the weights right that it gets?",
        "8": "These are the gradients of the two matrix products. Are the weights right that they "
        "get?",
    },
    experiment="b",
    experiments={
        "a": "These scores are small, and for small scores backward is right.",
        "c": "`forward` is right for scores of any size.",
        "d": "`backward` is linear in `grad_output`, as it should be.",
    },
)
