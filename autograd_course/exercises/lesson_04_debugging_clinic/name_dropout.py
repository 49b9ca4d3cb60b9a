"""Locate: two masks

1. Put ones in, send ones back, and compare where the zeros are.
2. forward drew a mask and threw it away. What does the same call do in backward?
3. Every call of draw uses new random numbers. Which experiment compares the two masks of one run?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="When the gradient is an estimate",
    rule="rng-not-restored",
    wrong_lines="3",
    lines={
        "1": "A number belongs on ctx as an attribute.",
        "2": "forward draws a mask and scales what it keeps, as dropout should. Which line needs "
        "the same mask?",
    },
    experiment="b",
    experiments={
        "a": "About the right share of the outputs is zero.",
        "c": "Under the same seed, both runs draw the same two masks.",
        "d": "With p = 0 both masks keep everything.",
    },
)
