"""Card: the first share

1. All gradients are right. So look at the memory: which tensor should be free after forward, and
   which reference keeps it in memory?
2. A slice is a view, and it has no storage of its own. Which of the saved tensors is a view?
3. first is a view of exps, so the storage of exps stays in memory until backward. Which experiment
   counts whole storages?
"""

from autograd_course.grader.exercise import LocatingExercise

EXERCISE = LocatingExercise(
    answer="suspect",
    points=1,
    difficulty="easy",
    minutes=5,
    section="A view keeps the whole storage",
    rule="oversaved",
    wrong_lines="34",
    lines={
        "1": "This is a temporary result. Its memory is free after forward, unless a saved tensor "
        "refers to its storage.",
        "2": "A sum has a storage of its own, with one number for each row.",
        "5": "The output is a new tensor with one number for each row.",
        "6": "This line unpacks the three tensors that forward saved.",
        "7": "Backward recomputes exp(x) from x, which is already resident.",
        "8": "This is the second path of the first score, through the numerator.",
        "9": "The gradient is right.",
    },
    experiment="b",
    experiments={
        "a": "`.nbytes` of a view counts the elements of the view. A copy gives the same number.",
        "c": "The gradients are right. A view has the same values as a copy.",
        "d": "The number of saved tensors is the same with a copy.",
    },
)
