"""Name: two masks

1. Put ones in, send ones back, and compare the zeros.
2. forward drew a mask and threw it away. What does the same line do in backward?
3. Nobody set the random number generator back to where forward began.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="When the gradient is an estimate",
    rule="rng-not-restored",
    but={
        "nondeterministic": "Under a seed two runs give the same. It is the two passes of one "
        "run that differ.",
        "constant-factor": "You have seen something, and it is real. But it hides behind "
        "another one: look where the zeros are.",
        "wrong-region": "Wrong at some elements, yes, and at other ones in the next run. What "
        "decides at which?",
        "not-reentrant": "True, and a consequence: every backward draws anew. Name the cause.",
        "recompute-side-effect": "Nothing in a module is changed a second time. But something "
        "is done a second time that should give the same as the first.",
        "shared-state": "The generator is shared by all of PyTorch, as it should be. Who moves "
        "it on between the passes?",
    },
)
