"""A custom operator

1. Three promises of the decorator concern memory, and the routine breaks them all: read its
   docstring once more. What it works on, and what you return, must be yours. As to backward: in
   which windows does an element of x lie?
2. Copy before the call, and copy what comes out of it: a part of a row has the strides of the row.
   The fake: the same leading axes, and how many windows fit? Backward: an element receives
   grad_output of all windows that cover it, again a sum over neighbors, of a grad_output with zeros
   on both sides.
3. torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy()); x.new_empty((*x.shape[:-1],
   x.shape[-1] - width + 1)); and in backward window_sums(torch.nn.functional.pad(grad_output,
   (width - 1, width - 1)), width).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.library import opcheck

from autograd_course.errors import first_line
from autograd_course.grader.compiling import compile_whole, silence
from autograd_course.grader.execution import is_unfinished, said, unfinished_part
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, unfinished, wrong


def window_sums(x: Tensor, width: int) -> Tensor:
    """Return the sums of ``width`` neighbors along the last axis."""
    return x.unfold(-1, width, 1).sum(-1)


def series(rng: torch.Generator, width: int, *shape: int) -> tuple[Tensor, int]:
    """Return series and the width of a window."""
    return normal(rng, *shape), width


# What the tests of opcheck look for, the cause of a failure first.
PROMISES = {
    "test_schema": "mutates_args=() promises that no argument is changed and that what is returned "
    "is new memory.",
    "test_faketensor": "the fake must give the shape, the dtype and the strides of what the "
    "operator returns.",
    "test_autograd_registration": "gradients belong to register_autograd, not into the operator.",
    "test_aot_dispatch_dynamic": "the compiler traces fake and backward with tensors that have no "
    "values: in both only PyTorch operations, and operators, may work on tensors.",
}

NO_FAKE = (
    "no fake is registered, so nothing tells the compiler what comes out: put "
    "@window_sums.register_fake above a function of the same arguments."
)


def _example() -> tuple[Tensor, int]:
    x, width = series(torch.Generator().manual_seed(0), 3, 2, 6)
    return x.requires_grad_(), width


def is_an_operator(answer: Callable[..., Any]) -> Verdict | None:
    """Ask for what ``custom_op`` returns."""
    if isinstance(answer, torch._library.custom_ops.CustomOpDef | torch._ops.OpOverload):
        return None
    return wrong(
        "its values are right, but it is a plain function, which a compiler looks into: put "
        '@torch.library.custom_op("yours::window_sums", mutates_args=()) above it.'
    )


def keeps_its_arguments(answer: Callable[..., Any]) -> Verdict | None:
    """Call it on plain tensors and compare them with what they were."""
    x, width = _example()
    given = x.detach().clone()
    answer(given, width)
    if torch.equal(given, x):
        return None
    return wrong(
        "its values are right, but the tensor that was handed in holds other numbers afterwards. "
        f"That breaks a promise: {PROMISES['test_schema']}"
    )


def has_gradients(answer: Callable[..., Any]) -> Verdict | None:
    """Compare its gradient with the reference's, for a random ``grad_output``."""
    x, width = _example()
    g = normal(torch.Generator().manual_seed(1), *window_sums(x, width).shape)
    (right,) = torch.autograd.grad(window_sums(x, width), x, g)
    try:
        (came,) = torch.autograd.grad(answer(x, width), x, g)
    except RuntimeError as error:
        if "no autograd formula" in str(error) or "does not require grad" in str(error):
            return wrong(
                "its values are right, but no backward is registered: "
                "window_sums.register_autograd(backward, setup_context=setup_context)."
            )
        if "incorrect number of gradients" in str(error):
            return wrong(
                "its values are right, but backward does not return one gradient for each "
                "argument: x has one, width is a number and gets None."
            )
        raise
    if came.shape == right.shape and torch.allclose(came, right):
        return None
    return wrong(
        f"its values are right, the gradient is not: at [0, 0] it is {float(came[0, 0]):.4g}, "
        f"should be {float(right[0, 0]):.4g}. In which windows does an element of x lie, and "
        "which elements of grad_output are theirs?"
    )


def passes_opcheck(answer: Any) -> Verdict | None:
    """Run PyTorch's own checks of an operator; say of the first that fails what was promised."""
    with silence():
        results = opcheck(answer, _example(), raise_exception=False)
    for test, promise in PROMISES.items():
        if isinstance(failure := results[test], Exception):
            return _broken(promise, failure, answer)
    return None


def _broken(promise: str, failure: Exception, answer: Any) -> Verdict:
    cause: BaseException | None = failure
    while cause is not None:
        if is_unfinished(cause, answer):
            part = unfinished_part(cause)
            return unfinished(f"values and gradient are right; {part} is still to be written.")
        cause = cause.__cause__
    if "no fake impl" in str(failure):
        return wrong(f"values and gradient are right, but {NO_FAKE}")
    return wrong(f"values and gradient are right, but {promise} opcheck: {said(failure)}")


def differentiates_twice(answer: Any) -> Verdict | None:
    """Ask that backward has a graph of its own."""
    x, width = _example()
    g = torch.ones_like(window_sums(x, width)).requires_grad_()
    (gradient,) = torch.autograd.grad(answer(x, width), x, g, create_graph=True)
    if gradient.requires_grad and gradcheck(
        lambda g: torch.autograd.grad(answer(x, width), x, g, create_graph=True)[0],
        g,
        raise_exception=False,
    ):
        return None
    return wrong(
        "the gradient is right, but it has no graph: backward is itself a sum over windows, and "
        "the operator can compute it."
    )


def compiles_in_one_graph(answer: Any) -> Verdict | None:
    """Trace it together with other operations, forward and backward."""
    x, width = _example()
    right = answer(2 * x, width).tanh()
    (right_gradient,) = torch.autograd.grad(right.sum(), x)
    try:
        with silence():
            came = compile_whole(lambda x: answer(2 * x, width).tanh())(x)
            (gradient,) = torch.autograd.grad(came.sum(), x)
    except Exception as error:
        return wrong(f"opcheck passes, but fullgraph=True stops: {first_line(error)}")
    if torch.allclose(came, right) and torch.allclose(gradient, right_gradient):
        return None
    return wrong("compiled it gives other results than in eager mode: what does it depend on?")


SECONDS = 120.0  # the first opcheck of a session imports for half a minute on a busy machine

EXERCISE = RoutineExercise(
    answer="window_sums",
    points=4,
    difficulty="hard",
    minutes=15,
    section="A custom operator",
    constraints="it keeps its promises to opcheck, can be differentiated twice, and compiles into "
    "one graph",
    reference=window_sums,
    samplers={
        "3 series of 7, windows of 3": lambda rng: series(rng, 3, 3, 7),
        "one series": lambda rng: series(rng, 2, 5),
        "windows of width 1": lambda rng: series(rng, 1, 2, 4),
        "one window, as wide as the series": lambda rng: series(rng, 4, 2, 4),
    },
    trials=(
        is_an_operator,
        keeps_its_arguments,
        has_gradients,
        passes_opcheck,
        differentiates_twice,
        compiles_in_one_graph,
    ),
    seconds=SECONDS,
)
