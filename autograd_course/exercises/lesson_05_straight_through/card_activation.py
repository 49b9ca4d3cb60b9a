"""Card: a two-bit activation

1. The unit that does not learn has x = 0.1. Which value does forward return there, and which
   tensors does backward use?
2. The masks of the surrogate compare the input of forward with 0 and alpha. Which tensor does
   backward compare with them?
3. Line 3 saves the output, which has been rounded. An x that rounds to 0 looks clipped, and so does
   an x that rounds to alpha. Which experiment uses such an x?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=8,
    section="Test what is wrong by design",
    rule="wrong-region",
    wrong_lines="3",
    lines={
        "1": "Four levels have three steps between them.",
        "2": "The clip comes first and then the rounding, as in the formula.",
        "4": "The two tensors are in the order in which they were saved. Is the first one what its "
        "name says?",
        "5": "The surrogate has the slope 1 between 0 and alpha, so this mask is right for x.",
        "6": "All elements share alpha, so its gradient is a sum over the clipped ones.",
    },
    experiment="d",
    experiments={
        "a": "`gradcheck` compares with the derivative of the steps, so it rejects a correct "
        "straight-through estimator as well.",
        "b": "At these x, the rounding changes nothing that the masks see: x and the output are "
        "on the same side of both bounds.",
        "c": "Both gradients double, as they should.",
    },
)
