"""Locate: only the first loss trains

1. The gradient is right the first time and wrong the second time, and forward ran once. So backward
   changed something. What is left of ctx.tape after the first call?
2. If the tape is empty, the loop does not run, and backward returns grad_output unchanged.
3. pop() removes the entry that it returns. Which experiment looks at the tape before and after
   backward?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="medium",
    minutes=9,
    optional=True,
    section="What gradcheck does not ask",
    rule="not-reentrant",
    wrong_lines="6",
    lines={
        "1": "`backward` needs every state, and this line collects them.",
        "2": "The states are tensors, and `save_for_backward` is the right place for them.",
        "3": "Numbers belong on `ctx` as attributes. What happens to them later?",
        "4": "If there are no steps, `x` is still the input, so this line returns a copy.",
        "5": "The loop ends when the tape is empty. Which line empties it?",
        "7": "This is the derivative of one step.",
    },
    experiment="d",
    experiments={
        "a": "Each of the two results has its own `ctx` and its own tape, and backward runs once "
        "for each.",
        "b": "The first gradient is right.",
        "c": "The first gradient is right for other steps, too.",
    },
)
