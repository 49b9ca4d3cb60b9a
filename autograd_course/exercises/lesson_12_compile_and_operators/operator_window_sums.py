"""A custom operator

1. The decorator promises that no argument changes and that the result is in new memory. Read the
   docstring of the routine, which breaks both promises. Which copies do you need? For backward,
   find out which windows contain a given element of x.
2. Copy the array before the call. Also copy the result, because a part of a row has the strides of
   the whole row. The result of the fake has the same leading dims as x. How many windows fit into a
   row? In backward, each element receives the grad_output of all windows that contain it. This is
   again a sum over neighboring elements, now those of grad_output with zeros on both sides.
3. The operator returns torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy()). The fake
   returns x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1)). backward returns
   window_sums(torch.nn.functional.pad(grad_output, (width - 1, width - 1)), width), and None for
   width.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck
from torch.library import opcheck
from torch.nn.functional import pad

from autograd_course.errors import first_line
from autograd_course.execution import is_unfinished, said, unfinished_part
from autograd_course.grader.compiling import compile_whole, silence
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.verdict import Verdict, unfinished, wrong


def window_sums(x: Tensor, width: int) -> Tensor:
    """Return the sum of every ``width`` neighboring elements along the last dim."""
    return x.unfold(-1, width, 1).sum(-1)


def series(rng: torch.Generator, width: int, *shape: int) -> tuple[Tensor, int]:
    """Return random time series and the width of a window."""
    return normal(rng, *shape), width


# The promises that opcheck tests. The test that reveals the cause comes first.
PROMISES = {
    "test_schema": "mutates_args=() promises that the operator changes no argument and returns new "
    "memory. An array from .numpy() has the memory of the tensor, so copy it before you change it.",
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
    x, width = series(generator(), 3, 2, 6)
    return x.requires_grad_(), width


def is_an_operator(answer: Callable[..., Any]) -> Verdict | None:
    """Check that the answer is an operator created by ``custom_op``."""
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


# Numbers of leading dims to test. The statement allows any number.
LEADING = {"no leading dims": (), "one leading dim": (2,), "two leading dims": (2, 3)}
RIGHT_SO_FAR = "values and gradient are right, but"


def _spread(g: Tensor, width: int, left: int) -> Tensor:
    """Return a wrong gradient, in which each element gets only one window's ``grad_output``."""
    return pad(g, (left, width - 1 - left))


def _continued(g: Tensor, by: int) -> Tensor:
    """Pad ``g`` with ``by`` copies of its first and last elements at the start and the end."""
    return g[..., torch.arange(-by, g.shape[-1] + by).clamp(0, g.shape[-1] - 1)]


def _gradient(g: Tensor, width: int) -> Tensor:
    return window_sums(pad(g, (width - 1, width - 1)), width)


# Common wrong gradients of x, each with an explanation of the mistake.
GRADIENTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "Each element of x gets the grad_output of one window only, the one that begins there. Add "
    "those of all windows that contain the element.": lambda g, width: _spread(g, width, 0),
    "Each element of x gets the grad_output of one window only, the one that ends there. Add those "
    "of all windows that contain the element.": lambda g, width: _spread(g, width, width - 1),
    "Each element of x gets the grad_output of one window only, the one around it. Add those of "
    "all windows that contain the element.": lambda g, width: _spread(g, width, (width - 1) // 2),
    "It is divided by width. forward adds the elements of a window, and does not average them.": (
        lambda g, width: _gradient(g, width) / width
    ),
    "It is multiplied by width. Each window counts once for each of its elements.": (
        lambda g, width: _gradient(g, width) * width
    ),
    "All zeros are at the end. Half of them belong in front, because the first elements of x are "
    "in few windows too.": lambda g, width: window_sums(pad(g, (0, 2 * width - 2)), width),
    "All zeros are in front. Half of them belong at the end, because the last elements of x are in "
    "few windows too.": lambda g, width: window_sums(pad(g, (2 * width - 2, 0)), width),
    "grad_output is continued at both ends with copies of its elements. Continue it with zeros.": (
        lambda g, width: window_sums(_continued(g, width - 1), width)
    ),
    "The row is reversed. The windows that contain x[t] begin at t - width + 1 up to t.": (
        lambda g, width: _gradient(g, width).flip(-1)
    ),
    "It is the running sum of grad_output. A window ends after width elements.": (
        lambda g, width: pad(g, (0, width - 1)).cumsum(-1)
    ),
}


def has_gradients(answer: Callable[..., Any]) -> Verdict | None:
    """Compare the operator's gradients with the reference's for a random ``grad_output``."""
    for dims, lead in (("one leading dim", (2,)), *LEADING.items()):
        if told := _wrong_gradient(answer, dims, lead):
            return wrong(f"its values are right, but {told}")
    return None


def _wrong_gradient(answer: Callable[..., Any], dims: str, lead: tuple[int, ...]) -> str:
    x, width = series(generator(), 3, *lead, 6)
    x.requires_grad_()
    g = normal(generator(), *window_sums(x, width).shape)
    (right,) = torch.autograd.grad(window_sums(x, width), x, g)
    try:
        (came,) = torch.autograd.grad(answer(x, width), x, g)
    except RuntimeError as error:
        if "no autograd formula" in str(error) or "does not require grad" in str(error):
            return (
                "no backward is registered: "
                "window_sums.register_autograd(backward, setup_context=setup_context)."
            )
        if "incorrect number of gradients" in str(error):
            return (
                "backward does not return one gradient for each argument. Return None for width, "
                "because it is a number."
            )
        if shape := re.search(r"invalid gradient at index 0 - got (\[.*?\])", str(error)):
            return _of_other_shape(shape[1], x, g, width)
        raise
    if came.shape == right.shape and torch.allclose(came, right):
        return ""
    for sentence, mistake in GRADIENTS.items():
        if torch.allclose(came, mistake(g, width)):
            return f"its gradient is wrong. {sentence}"
    at = int((came - right).abs().argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(at), x.shape)]
    return (
        f"with {dims}, its gradient at {place} is {float(came.flatten()[at]):.4g} and should be "
        f"{float(right.flatten()[at]):.4g}. In which windows does an element of x lie? Sum "
        "grad_output over these windows."
    )


def _of_other_shape(came: str, x: Tensor, g: Tensor, width: int) -> str:
    return (
        f"the gradient of x has the shape {came}, and x has {list(x.shape)}. The rows of "
        f"grad_output have {g.shape[-1]} numbers. How many zeros does each end need, so that "
        f"windows of {width} give {x.shape[-1]} numbers?"
    )


def fake_agrees(answer: Any) -> Verdict | None:
    """Compare the fake's results with the operator's for several numbers of leading dims."""
    for dims, lead in (("one leading dim", (2,)), *LEADING.items()):
        x, width = series(generator(), 3, *lead, 6)
        with silence():
            told = _wrong_fake(answer, x, width)
        if told:
            return wrong(f"{RIGHT_SO_FAR} {told.replace('DIMS', dims)}")
    return None


def _wrong_fake(answer: Any, x: Tensor, width: int) -> str:
    real = answer(x, width)
    with FakeTensorMode() as mode:
        given = mode.from_tensor(x)
        try:
            came = answer(given, width)
        except RecursionError:
            return (
                "the fake calls the operator, and for a tensor without values this is the fake "
                "again. Make an empty tensor of the right shape."
            )
        except Exception as error:
            if is_unfinished(error, answer) or "no fake impl" in str(error):
                return ""  # opcheck reports both
            return (
                f"the fake raises an exception: {said(error).rstrip('.')}. Its tensor has no "
                "values, so the fake can only make an empty tensor of the right shape."
            )
        if not isinstance(came, Tensor):
            return f"the fake returns {type(came).__name__}. Return an empty tensor."
        if came.untyped_storage()._cdata == given.untyped_storage()._cdata:
            return (
                "the fake returns a view of x. The operator returns new memory, so make a tensor."
            )
        if came.shape != real.shape:
            return (
                f"with DIMS, the fake returns the shape {tuple(came.shape)}, and the operator "
                f"returns {tuple(real.shape)}. x has {tuple(x.shape)}, and width is {width}."
            )
        if came.dtype != real.dtype:
            return (
                f"the fake returns {came.dtype}, and the operator returns {real.dtype}. Make the "
                "tensor with x.new_empty, which has the dtype of x."
            )
        if came.stride() != real.stride() and came.is_contiguous():
            return (
                f"the operator returns a part of a longer row: its strides are {real.stride()}. A "
                f"new tensor of this shape has {came.stride()}, as the fake says. Copy the result."
            )
    return ""


def passes_opcheck(answer: Any) -> Verdict | None:
    """Run PyTorch's ``opcheck``. For the first failure, explain the violated requirement."""
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
        return wrong(f"{RIGHT_SO_FAR} {NO_FAKE}")
    return wrong(f"{RIGHT_SO_FAR} {promise} opcheck: {said(failure)}")


def differentiates_twice(answer: Any) -> Verdict | None:
    """Check that the operator's backward is differentiable."""
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
    """Check that the operator and other operations compile into one graph, in both passes."""
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
        fake_agrees,
        passes_opcheck,
        differentiates_twice,
        compiles_in_one_graph,
    ),
    seconds=SECONDS,
)
