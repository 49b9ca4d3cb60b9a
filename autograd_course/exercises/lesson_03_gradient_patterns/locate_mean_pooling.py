"""Which line: mean pooling

1. The Function is right if all sentences have the same length. Now take a short sentence in a
   batch with a longer one. Which lines count its real tokens, and which also count the padding?
2. forward divides by the number of real tokens. What does backward divide by?
3. mask.shape[1] is the length with padding, so the gradient of a short sentence is too small. If
   every token of a sentence moves by 1, the mean moves by 1. Which experiment uses this fact?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=6,
    section="Reductions",
    rule="gradient-mismatch",
    wrong_lines="5",
    lines={
        "1": "The number of real tokens of each sentence is the right divisor.",
        "2": "The mask removes the padding before the sum, so the output is the mean of the real "
        "tokens.",
        "3": "`backward` needs the mask, and `save_for_backward` is the right place for it.",
        "4": "This line unpacks the one tensor that `setup_context` saved.",
        "6": "Padding does not affect the output, so its gradient is 0. The mask gets `None`.",
    },
    experiment="c",
    experiments={
        "a": "`forward` is right, and so are its values.",
        "b": "Without padding, the length of the batch is the number of tokens.",
        "d": "The gradient of the padding is 0, as it should be. Look at the real tokens.",
    },
)
