"""Card: the skip connection

1. The gradient of Rectify alone is right, but the gradient of a sum of two branches is wrong. What
   do the two branches share?
2. Autograd gives both branches of a sum the same gradient tensor. Look for the line that writes
   into a tensor that backward did not create.
3. grad_output[~positive] = 0 also changes the tensor that the skip connection receives. Which
   experiment looks at that tensor after the call?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What backward must not touch",
    section_is_on_backward=True,
    rule="mutates-grad-output",
    wrong_lines="4",
    lines={
        "1": "A mask is enough for this backward, and `save_for_backward` is the right place for "
        "it.",
        "2": "`clamp` computes the ReLU and returns a new tensor.",
        "3": "This line unpacks the one tensor that `forward` saved.",
        "5": "The gradient that this line returns has the right values. What else did backward "
        "change?",
    },
    experiment="c",
    experiments={
        "a": "gradcheck passes a fresh `grad_output` to each call and never looks at it again.",
        "b": "`Rectify` returns the gradient of a ReLU. The mistake is somewhere else.",
        "d": "Each of these calls receives its own `grad_output` and returns the right gradient.",
    },
)
