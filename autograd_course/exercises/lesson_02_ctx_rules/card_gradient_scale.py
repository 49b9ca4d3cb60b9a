"""Card: a tenth of the gradient

1. exp saves its output, sin does not. The message says that this output has been modified. Was it
   really modified?
2. A version counter increases when your code writes to a tensor, or when your code declares that it
   did. Which line declares something?
3. mark_dirty(x) says that x was overwritten. But forward did not overwrite it.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="medium",
    minutes=8,
    section="Writing in place: mark_dirty",
    rule="wrong-mark-dirty",
    but={
        "mutates-input": "Not a byte of x has changed, and nothing was left unsaid. Rather the "
        "contrary.",
        "returns-view": "That is what becomes of a bare return x. Here one line prevents it, "
        "and has an effect of its own: does it tell the truth?",
        "constant-factor": "The factor is the purpose of this layer, and the gradient is "
        "0.1 g, as its author wants it.",
        "mutates-saved": "Nothing writes into a saved tensor. Somebody only says so.",
        "extra-gradient": "The gradient, where it arrives, is the intended one.",
    },
)
