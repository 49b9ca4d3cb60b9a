"""Card: the twins

1. After one call, the gradient is right. After two calls, it is wrong for the first call. What did
   the second call overwrite?
2. Each call has its own ctx. Does each call also have its own Weigh.x?
3. All calls share Weigh.x, so the second call replaces the tensor that the first call stored. Which
   experiment makes two calls with different inputs?
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
        "2": "The values are right, and the product is a new tensor.",
    },
    experiment="a",
    experiments={
        "b": "Both calls have the same input, so it does not matter which one was the last.",
        "c": "gradcheck finishes each call before it starts the next one.",
        "d": "The gradient doubles, as it should.",
    },
)
