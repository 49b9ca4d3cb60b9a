"""Card: mean and spread

1. The two losses use the same Function. What does backward receive for an output that the loss
   does not use?
2. By default, backward receives zeros, and the formula works with zeros. One line in forward asks
   for something else.
3. After set_materialize_grads(False), backward receives None, and None cannot be multiplied. Which
   experiment leaves one output unused?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Zeros or None: set_materialize_grads",
    rule="none-grad-output",
    wrong_lines="51",
    lines={
        "2": "`backward` needs x, and `save_for_backward` is the right place for it.",
        "3": "Both outputs are new tensors with the right values.",
        "4": "This line unpacks the one tensor that `forward` saved.",
    },
    experiment="b",
    experiments={
        "a": "This loss uses both outputs, so both gradients arrive.",
        "c": "This loss uses both outputs, so both gradients arrive, with other values.",
        "d": "The shape of x does not change which gradients arrive.",
    },
)
