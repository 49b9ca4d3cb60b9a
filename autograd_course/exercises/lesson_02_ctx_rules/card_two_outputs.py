"""Card: mean and spread

1. The same Function gets two losses. What does backward receive for an output that the loss does
   not use?
2. By default, backward receives zeros, and the formula would be right for them. One line in forward
   asks for something else.
3. set_materialize_grads(False) asks for None, and None * 2 raises a TypeError. The name of the rule
   says what backward receives.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Zeros or None: set_materialize_grads",
    rule="none-grad-output",
    but={
        "wrong-arity": "backward returns one value for the one input, as it should. It is what "
        "comes in that it cannot cope with.",
        "backward-raises": "It does raise, but a rule says when and why: look at what it was "
        "given when it did.",
        "missing-gradient": "Where it runs, the gradient is right and complete.",
        "wrong-non-differentiable": "Both outputs are smooth and rightly have gradients; "
        "nothing is marked.",
        "frozen-input": "The one input asks for its gradient in both cases. What differs is "
        "which output the loss uses.",
    },
)
