"""Card: the twins

1. One call followed by its backward is right. With two calls before backward, the first gradient is
   wrong. What did the second call overwrite?
2. Each call has its own ctx. How many places called Weigh.x are there?
3. Weigh.x is one place for all calls, so the second call replaces what the first one stored there.
   The name of the rule says that the state is shared.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What ctx is, and how long it lives",
    rule="shared-state",
    but={
        "tensor-on-ctx": "Nothing is kept on ctx at all. That would at least give each call a "
        "place of its own.",
        "captured-tensor": "x is an argument and has its gradient. The question is which x "
        "backward reads.",
        "not-reentrant": "One backward pass is enough to see it. What matters is that forward "
        "ran twice before it.",
        "swapped-gradients": "There is one input, so nothing can be exchanged within a call. "
        "And the two calls are not exchanged either: both get the values of the second.",
        "mutates-saved": "Nothing is saved and nothing is written to in place; a name is "
        "assigned anew.",
        "ctx-cycle": "ctx is not used at all. Memory is not what went wrong here.",
    },
)
