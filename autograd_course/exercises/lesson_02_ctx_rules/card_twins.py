"""Card: the twins

1. After one call, backward is right. After two calls, it is wrong for the first one. What has the
   second call overwritten?
2. Each call has its own ctx. How many places called Weigh.x are there?
3. Weigh.x is one place for all calls, and the second call replaces what the first one left there.
   Which experiment has two calls with different inputs?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What ctx is, and how long it lives",
    rule="shared-state",
    wrong_lines="13",
    lines={
        "2": "The values are right, and a product is a new tensor.",
    },
    experiment="a",
    experiments={
        "b": "Both calls have the same input, so it does not matter which of them wrote last.",
        "c": "gradcheck finishes each call before it starts the next one.",
        "d": "The gradient doubles, as it should.",
    },
)
