"""Name: the temperature that stays

1. Count: which tensors does forward compute with, and which ones was it handed?
2. The engine knows of the tensors that apply was given, and of no others. This one came in by
   another door.
3. The rule is called after what the body of a function does to a variable around it: it captures
   it.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What gradcheck does not ask",
    rule="captured-tensor",
    but={
        "missing-gradient": "That is what the owner sees. But backward returns all that it is "
        "asked for, one gradient for its one argument. Ask why the other is not asked for.",
        "backward-never-called": "It is called, and x gets its gradient.",
        "frozen-input": "temperature requires grad, nothing is frozen. And is it an input?",
        "tensor-on-ctx": "Nothing but x is kept, and by save_for_backward.",
        "shared-state": "A global, yes, but nothing writes to it between the passes. Who does "
        "not know of it?",
        "wrong-arity": "One argument, one gradient: the count is right. Is the argument list?",
    },
)
