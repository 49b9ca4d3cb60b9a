"""Name: only the first loss trains

1. First right, then wrong, and forward ran once. So backward has changed something. What is left of
   ctx.tape after it?
2. An empty tape means: no step to walk back through, and grad_output leaves as it came.
3. A function that can be entered again, while the rest of its first run is still around, has a name
   in computer science.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="medium",
    minutes=9,
    section="What gradcheck does not ask",
    rule="not-reentrant",
    but={
        "shared-state": "Each call has a ctx, and a tape, of its own. There was only one call.",
        "mutates-saved": "No saved tensor is written to. But something beside them is.",
        "mutates-grad-output": "grad_output = … gives a new tensor the old name; nothing is "
        "written into the one that arrived.",
        "missing-gradient": "A gradient comes, and the first time it is right.",
        "tensor-on-ctx": "On ctx lies a list of numbers; the tensors are saved as they should be.",
        "nondeterministic": "It gives the same wrong number whenever it is asked a second time.",
    },
)
