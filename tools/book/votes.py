"""Votes on the book's own pages. The votes in lessons are in `autograd_course/quizzes`."""

from __future__ import annotations

from types import MappingProxyType

from autograd_course.quizzes import Option, Vote

_ONE_OF_FIVE = Vote(
    id="one-of-five",
    home="book",
    belief="If `gradcheck` passes, my `backward` is right.",
    holds=False,
    text="Four of these five Functions are right. Which one is wrong?",
    options=tuple(
        Option(f"`{name}`", right=name == "Relu", explanation="")
        for name in ("Reciprocal", "Scale", "Relu", "Center", "LogSumExp")
    ),
    explanation="`Relu` is wrong, although `gradcheck` accepts all five. It writes into "
    "`grad_output`, and another branch of the graph may use the same tensor. The next section "
    "shows what happens then. `Reciprocal` returns −y², which is the derivative of 1 / x. `Scale` "
    "returns None for the number. `Center` subtracts the mean again, because its Jacobian is "
    "symmetric. The gradient of `LogSumExp` is the softmax, exp(x − y).",
)
VOTES = MappingProxyType({vote.id: vote for vote in (_ONE_OF_FIVE,)})
