"""Locate: two masks

1. Pass ones to forward and ones to backward, and compare where the zeros are.
2. forward drew a mask and did not save it. What does the same call return in backward?
3. Every call to draw uses new random numbers. Which experiment compares the two masks of one run?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    optional=True,
    section="When forward draws random numbers",
    rule="rng-not-restored",
    wrong_lines="3",
    lines={
        "1": "A number belongs on `ctx` as an attribute.",
        "2": "`forward` draws a mask and scales the elements that it keeps, as dropout should. "
        "Which line needs the same mask?",
    },
    experiment="b",
    experiments={
        "a": "A correct Function sets about the same share of the outputs to zero.",
        "c": "Under the same seed, both runs draw the same two masks.",
        "d": "With p = 0, both masks keep everything.",
    },
)
