"""Name: the word that mutes the sentence

1. Set the weights to (0, 1, 1): no gradient. To (1, 1, 1): right. To (1, 0, 0)? Guess, then run.
2. With a mean or a sum behind it, all entries of grad_output are equal, and then it does not matter
   which one is used.
3. Right only for a grad_output that is the same everywhere: the rule has the word for that.
"""

from autograd_course.grader.exercise import NamingExercise

EXERCISE = NamingExercise(
    answer="name",
    points=1,
    difficulty="medium",
    minutes=8,
    section="Step 5: gradcheck",
    rule="uniform-grad-output",
    but={
        "ignores-grad-output": "Close: it does use grad_output, and twice the loss gives twice "
        "the gradient. How much of grad_output does it use?",
        "nonlinear-in-grad-output": "Twice the grad_output gives twice the gradient, and sums "
        "give sums: it is linear. But a linear map of what?",
        "missing-gradient": "With a first weight of 1 all gradients come. With 0 none does, "
        "not even those of rows whose weight is 1.",
        "constant-factor": "The ratio is another for every row: it is first weight to own weight.",
        "batch-dimension": "Rows do reach into each other, but not through x. Through what?",
        "unreduced-broadcast": "The shapes are right, and nothing is summed that should not "
        "be. Rather the contrary: one number is spread over everything.",
    },
)
