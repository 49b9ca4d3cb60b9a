"""Locate: one word decides for all

1. With the weights (0, 1, 1), every gradient is 0. With (1, 1, 1), every gradient is right. What do
   you expect with (1, 0, 0)? Guess, and then run it.
2. After a mean or a sum, all elements of grad_output are equal. Then it does not matter which one
   backward uses.
3. The line uses one element of grad_output for all rows. Which experiment has a different upstream
   gradient for each row?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=8,
    section="Step 5: gradcheck",
    rule="uniform-grad-output",
    wrong_lines="4",
    lines={
        "1": "`backward` needs both tensors, and this line saves both.",
        "2": "The values are right, as the owner says.",
        "3": "This line unpacks what `forward` saved, in the right order.",
        "5": "Each row is multiplied by `upstream`, which is what the chain rule asks for. Is "
        "`upstream` what it claims to be?",
    },
    experiment="a",
    experiments={
        "b": "After a sum, all elements of `grad_output` are 1, and any one of them will do.",
        "c": "The gradient doubles, as it should.",
        "d": "The values are right in both orders.",
    },
)
