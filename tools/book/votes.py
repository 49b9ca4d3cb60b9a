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
    explanation="`gradcheck` accepts all five. `Relu` writes into `grad_output`, and another "
    "branch of the graph may use the same tensor. The next section shows what happens then.",
)
VOTES = MappingProxyType({vote.id: vote for vote in (_ONE_OF_FIVE,)})
