"""A custom operator

1. The decorator promises that no argument changes and that the result is new memory. Read the
   docstring of the routine: it breaks both promises. Which copies do you need? For backward, find
   out which windows contain a given element of x.
2. Copy the array before the call. Also copy the result, because a part of a row has the strides of
   the whole row. The result of the fake has the same leading dims as x. How many windows fit into a
   row? In backward, each element receives the grad_output of all windows that contain it. This is
   again a sum over neighbors: the neighbors in grad_output, with zeros on both sides.
3. The operator returns torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy()). The fake
   returns x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1)). backward returns
   window_sums(torch.nn.functional.pad(grad_output, (width - 1, width - 1)), width), and None for
   width.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.library import opcheck

from autograd_course.errors import first_line
from autograd_course.execution import is_unfinished, said, unfinished_part
from autograd_course.grader.compiling import compile_whole, silence
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, unfinished, wrong


def window_sums(x: Tensor, width: int) -> Tensor:
    """Return the sum of every ``width`` neighboring elements along the last dim."""
    return x.unfold(-1, width, 1).sum(-1)


def series(rng: torch.Generator, width: int, *shape: int) -> tuple[Tensor, int]:
    """Return random time series and the width of a window."""
    return normal(rng, *shape), width


# The promises that the tests of opcheck examine. The test that shows the cause comes first.
PROMISES = {
    "test_schema": "mutates_args=() promises that the operator changes no argument and returns new "
    "memory.",
    "test_faketensor": "the fake must return the shape, the dtype and the strides of what the "
    "operator returns.",
    "test_autograd_registration": "compute gradients in register_autograd, not in the operator.",
    "test_aot_dispatch_dynamic": "the compiler traces the fake and backward with tensors that have "
    "no values, so both may use only PyTorch operations and operators on tensors.",
}

NO_FAKE = (
    "no fake is registered, so the compiler does not know what the operator returns. Put "
    "@window_sums.register_fake above a function with the same arguments."
)


def _example() -> tuple[Tensor, int]:
    x, width = series(torch.Generator().manual_seed(0), 3, 2, 6)
    return x.requires_grad_(), width


def is_an_operator(answer: Callable[..., Any]) -> Verdict | None:
    """Check that the answer is an operator that ``custom_op`` has returned."""
    if isinstance(answer, torch._library.custom_ops.CustomOpDef | torch._ops.OpOverload):
        return None
    return wrong(
        "its values are right, but it is a plain function, and the compiler looks inside. Put "
        '@torch.library.custom_op("yours::window_sums", mutates_args=()) above it.'
    )


def keeps_its_arguments(answer: Callable[..., Any]) -> Verdict | None:
    """Call the operator on a plain tensor, and check that the tensor has not changed."""
    x, width = _example()
    given = x.detach().clone()
    answer(given, width)
    if torch.equal(given, x):
        return None
    return wrong(
        "its values are right, but the operator changes the tensor that it receives. "
        f"This breaks a promise: {PROMISES['test_schema']}"
    )


def has_gradients(answer: Callable[..., Any]) -> Verdict | None:
    """Compare the gradients of the operator and the reference for a random ``grad_output``."""
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
                "argument. Return None for width, because it is a number."
            )
        raise
    if came.shape == right.shape and torch.allclose(came, right):
        return None
    return wrong(
        f"its values are right, but its gradient at [0, 0] is {float(came[0, 0]):.4g} and should "
        f"be {float(right[0, 0]):.4g}. In which windows does an element of x lie? Sum grad_output "
        "over these windows."
    )


def passes_opcheck(answer: Any) -> Verdict | None:
    """Run PyTorch's ``opcheck``. For the first failure, explain which requirement is violated."""
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
    """Check that the backward of the operator is differentiable."""
    x, width = _example()
    g = torch.ones_like(answer(x, width)).requires_grad_()
    (gradient,) = torch.autograd.grad(answer(x, width), x, g, create_graph=True)
    if gradient.requires_grad and gradcheck(
        lambda g: torch.autograd.grad(answer(x, width), x, g, create_graph=True)[0],
        g,
        raise_exception=False,
    ):
        return None
    return wrong(
        "the gradient is right, but it has no graph. Backward is also a sum over windows, so call "
        "the operator in it."
    )


def compiles_in_one_graph(answer: Any) -> Verdict | None:
    """Check that the operator compiles into one graph with other operations, in both passes."""
    x, width = _example()
    right = answer(2 * x, width).tanh()
    (right_gradient,) = torch.autograd.grad(right.sum(), x)
    try:
        with silence():
            came = compile_whole(lambda x: answer(2 * x, width).tanh())(x)
            (gradient,) = torch.autograd.grad(came.sum(), x)
    except Exception as error:
        return wrong(f"opcheck passes, but fullgraph=True raises an error: {first_line(error)}")
    if torch.allclose(came, right) and torch.allclose(gradient, right_gradient):
        return None
    return wrong(
        "the compiled operator returns different results from the operator in eager mode. Which "
        "state do the results depend on?"
    )


SECONDS = 120.0  # on a busy machine, the imports of the first opcheck take half a minute

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
