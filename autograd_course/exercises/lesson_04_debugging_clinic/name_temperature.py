"""Locate: the temperature that does not move

1. Which tensors does forward use, and which of them are its arguments?
2. Autograd only knows the tensors that you pass to apply. One tensor comes from somewhere else.
3. temperature is a global variable, so the node in the graph has no edge to it. Which experiment
   shows the edges of a node?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What gradcheck does not ask",
    rule="captured-tensor",
    wrong_lines="31",
    lines={
        "2": "`x` is an argument, and this line saves it as it should.",
        "4": "Given x and the temperature, this recomputes the output correctly.",
        "5": "This is the right gradient of `x`.",
    },
    experiment="b",
    experiments={
        "a": "The gradient of `x` is right, and its norm does not tell you about the temperature.",
        "c": "`gradcheck` varies the arguments, and the temperature is not one of them.",
        "d": "The values are right. What is missing is a gradient.",
    },
)
