"""Card: the skip connection

1. Rectify alone is right, but a sum of two branches is wrong. What do the two branches share?
2. Autograd passes the same tensor to both branches of a sum. Look for the line that writes into a
   tensor that backward did not create itself.
3. grad_output[~positive] = 0 also changes the tensor that the skip connection receives. The name of
   the rule begins with mutates-, as the names of three rules do.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What backward must not touch",
    section_is_on_backward=True,
    rule="mutates-grad-output",
    but={
        "mutates-saved": "What is saved here is a mask of its own, and nothing writes into it. "
        "Which other tensor does backward receive, and what does it do to it?",
        "mutates-input": "forward makes a new tensor; x keeps its values. The damage is done "
        "in backward.",
        "wrong-region": "The gradient that Rectify returns is right on both sides of 0. Wrong "
        "is what arrives at the branch beside it.",
        "extra-gradient": "No gradient is returned where none should be. One that was there "
        "already has been erased.",
        "missing-gradient": "Rectify returns all that it should. What is missing is missing at "
        "the branch that never went through it.",
        "not-reentrant": "It goes wrong on the very first backward. Compare what backward is "
        "given before and after.",
    },
)
