"""The cards of lesson 02: four broken Functions, each with what was observed of it, to be named."""

from typing import Any

from autograd_course.grader.exercise import NamingExercise


def card(**described: Any) -> NamingExercise:
    """Return a card of one point."""
    return NamingExercise(lesson="02_ctx_rules", points=1, **described)


CARDS: tuple[NamingExercise, ...] = (
    card(
        id="card-skip-connection",
        title="Card: the skip connection",
        rule="mutates-grad-output",
        but={
            "mutates-saved": "What is saved here is a mask of its own, and nothing writes into it. "
            "Which other tensor does backward receive, and what does it do to it?",
            "mutates-input": "forward makes a new tensor; x keeps its values. The damage is done "
            "in backward.",
            "wrong-region": "The gradient that Rectify returns is right on both sides of 0. Wrong "
            "is what arrives at the branch beside it.",
            "extra-gradient": "No gradient is returned where none should be. One that was there "
            "already has been erased.",
            "missing-gradient": "Rectify returns all that it should. What is missing is missing at "
            "the branch that never went through it.",
            "not-reentrant": "It goes wrong on the very first backward. Compare what backward is "
            "given before and after.",
        },
        hints=(
            "Rectify alone is right, a sum of two branches is not. What do the two branches share?",
            "The engine gives both branches of a sum one and the same tensor. Look for the line "
            "that writes into something which backward did not make itself.",
            "grad_output[~positive] = 0 changes the tensor that the skip connection receives too. "
            "The rule begins with mutates-; three of them do.",
        ),
        read='lesson 02, "What backward must not touch"',
    ),
    card(
        id="card-two-outputs",
        title="Card: mean and spread",
        rule="none-grad-output",
        but={
            "wrong-arity": "backward returns one value for the one input, as it should. It is what "
            "comes in that it cannot cope with.",
            "backward-raises": "It does raise, but a rule says when and why: look at what it was "
            "given when it did.",
            "missing-gradient": "Where it runs, the gradient is right and complete.",
            "wrong-non-differentiable": "Both outputs are smooth and rightly have gradients; "
            "nothing is marked.",
            "frozen-input": "The one input asks for its gradient in both cases. What differs is "
            "which output the loss uses.",
        },
        hints=(
            "The same Function, two losses. What reaches backward for an output that the loss "
            "leaves out?",
            "Usually zeros, and then the formula would hold. One line in forward asks for "
            "something else instead.",
            "set_materialize_grads(False) asks for None, and None * 2 is a TypeError. The rule "
            "names what arrives.",
        ),
        read='lesson 02, "Zeros or None: set_materialize_grads"',
    ),
    card(
        id="card-gradient-scale",
        title="Card: a tenth of the gradient",
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
        hints=(
            "exp saves its output, sin does not. The message says that this output has been "
            "modified. Has it?",
            "A version counter moves when a tensor is written to, or when somebody declares that "
            "it was. Which line declares something?",
            "mark_dirty(x) says that x was overwritten. It was not.",
        ),
        read='lesson 02, "Writing in place: mark_dirty"',
    ),
    card(
        id="card-twins",
        title="Card: the twins",
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
        hints=(
            "One call, then its backward: right. Two calls, then backward: wrong for the first. "
            "What has the second call overwritten?",
            "Each call has a ctx of its own. How many places called Weigh.x are there?",
            "Weigh.x is one place for all calls; the second replaces what the first left there. "
            "The rule says that state is shared.",
        ),
        read='lesson 02, "What ctx is, and how long it lives"',
    ),
)
