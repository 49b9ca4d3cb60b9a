"""Check how an answer uses ctx and how it computes the gradient."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import unwrap
from types import FrameType
from typing import Any

import numpy as np
import torch
from autograd_doctor import Finding
from autograd_doctor.extension import OperationRecorder, subclass_of
from torch import Tensor
from torch._functorch import eager_transforms, predispatch
from torch.autograd import Function

from autograd_course.calls import as_tuple, is_float, takes_ctx
from autograd_course.engine import run_backward
from autograd_course.execution import Computed, differentiable
from autograd_course.execution import applied as called
from autograd_course.grader.checks.calling import Followed, applied, found, node
from autograd_course.grader.checks.holding import (
    A_FEW,
    MOST_NAMES,
    MOST_OBJECTS,
    Held,
    count_numbers,
)
from autograd_course.grader.checks.lasting import nothing_outlives_the_call
from autograd_course.grader.checks.operators import seen_inside
from autograd_course.grader.exercise import Check, forbid

SETTINGS = 4  # any answer can keep this many floats on ctx, such as a slope and an eps
_close = torch.allclose  # because an answer may replace the name while it runs


def no_tensor_on_ctx(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Require tensors to be saved with ``save_for_backward``, not as attributes of ``ctx``.

    The check also searches the containers, objects and closures that the attributes hold. An array
    with as many numbers as an input or an output counts as a copy of that tensor.
    """
    given, outputs = applied(function, inputs)
    sizes = {tensor.numel() for tensor in (*given, *outputs)}
    for name, held in _on_ctx(node(outputs), inputs):
        if any(_is_data(each, sizes) for each in held.data):
            message = (
                f"`ctx.{name}` holds the numbers of a tensor in another kind of object. PyTorch "
                "does not count them as saved for `backward` and does not free them afterwards."
            )
        elif held.tensors:
            message = (
                f"`ctx.{name}` holds a tensor that PyTorch does not know about. PyTorch does not "
                "notice if it is changed in place, and does not free it after `backward`."
            )
        elif held.closed:
            message = _unseen(name, held)
        else:
            continue
        return found(
            "tensor-on-ctx",
            message,
            {"attribute": name},
            "Pass tensors to `ctx.save_for_backward`. Attributes of `ctx` are for numbers, shapes "
            "and flags.",
        )
    return None


def no_copy_on_ctx(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Require that nothing is kept in place of a saved tensor, such as a list or bytes."""
    _, outputs = applied(function, inputs)
    return copy_on_ctx(node(outputs), inputs) or nothing_outlives_the_call(function, inputs)


def copy_on_ctx(ctx: Any, inputs: tuple[Any, ...] = (), at_most: int = A_FEW) -> Finding | None:
    """Return a finding if ctx holds too many numbers outside of any tensor."""
    sizes = [it.numel() for it in inputs if isinstance(it, Tensor) and it.numel() > SETTINGS]
    most_floats = min([at_most, *(size - 1 for size in sizes)])
    total = floats = names = objects = 0
    for name, held in _on_ctx(ctx, inputs):
        total, floats = total + held.numbers, floats + held.floats
        names, objects = names + held.spelled, objects + held.objects
        if held.closed:
            message = _unseen(name, held)
        elif held.numbers > at_most:
            message = f"`ctx.{name}` holds {held.numbers} numbers outside of any tensor. {_STAYS}"
        elif floats > most_floats or total > max(at_most, 4 * A_FEW):
            message = (
                f"The attributes of `ctx` hold {total} numbers outside of any tensor. {_STAYS}"
            )
        elif names > MOST_NAMES or objects > MOST_OBJECTS:
            message = (
                f"The attributes of `ctx` hold {names + objects} names and objects. Together, they "
                f"can encode a tensor. {_STAYS}"
            )
        else:
            continue
        return found(
            "oversaved",
            message,
            {"attribute": name, "numbers": total},
            "If their number grows with the data, they count towards the budget wherever you "
            "store them. Pass them to `ctx.save_for_backward`, or do without them.",
        )
    return None


_STAYS = (
    "Like a saved tensor, they stay in memory until `backward` runs, so they count towards the "
    "budget."
)


def _unseen(name: str, held: Held) -> str:
    return (
        f"`ctx.{name}` holds an object of type {held.closed}, and the grader cannot see what is "
        "in it. Keep numbers, words and shapes in tuples, lists, dicts or objects of your own."
    )


def _on_ctx(ctx: Any, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Held]]:
    """Yield what each attribute of ctx holds. Skip arguments other than tensors."""
    state = dict(getattr(ctx, "__dict__", {}))
    needs, notes = getattr(ctx, "needs_input_grad", ()), getattr(ctx, "metadata", {})
    flags = type(needs) is tuple and all(type(each) is bool for each in needs)
    if not flags or len(needs) > len(inputs):
        state["needs_input_grad"] = needs
    if not torch.is_anomaly_enabled():  # which adds notes of its own
        state |= {"metadata": notes} if notes else {}
    forward = unwrap(getattr(getattr(ctx, "_forward_cls", None), "forward", dict))
    names = getattr(forward, "__globals__", {})
    known = [it for it in (*inputs, *names.values(), ctx) if not isinstance(it, Tensor)]
    known += [part for it in known if isinstance(it, torch.nn.Module) for part in it.modules()]
    for name, value in state.items():
        yield name, Held(value, known, names)


def _is_data(held: Any, sizes: set[int]) -> bool:
    """Return whether an object holds more than a shape or a word. Two floats are already data.

    ``sizes`` holds the sizes of the inputs and outputs. An array of another size is not a copy.
    """
    if not isinstance(held, np.ndarray | array):
        return count_numbers(held) > A_FEW
    count = np.size(held)
    floats = isinstance(held, np.ndarray) and held.dtype.kind in "fc"
    return count in sizes and count > (1 if floats else A_FEW)


def no_gradient_through(position: int, name: str) -> Check:
    """Return a check that fails if the output called ``name`` requires grad."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        _, outputs = applied(function, inputs)
        if not outputs[position].requires_grad:
            return None
        return found(
            "wrong-non-differentiable",
            f"Output {position}, `{name}`, requires grad, but `backward` ignores its gradient. If "
            f"a loss uses `{name}`, its gradient is wrong, and PyTorch raises no error.",
            {"position": position},
            f"Call `ctx.mark_non_differentiable({name})` in "
            f"`{'forward' if takes_ctx(function) else 'setup_context'}`.",
        )

    return check


# PyTorch calls these functions when a backward pass or a transform begins, or when other hooks
# replace those of the check. An answer cannot keep the functions that PyTorch calls by these names.
_AUTOGRAD = (
    (torch.autograd, "_engine_run_backward"),
    (torch.autograd.graph, "disable_saved_tensors_hooks"),
    (torch.autograd.graph.saved_tensors_hooks, "__enter__"),
    (torch.autograd.forward_ad, "enter_dual_level"),
    (predispatch, "_enter_dual_level_impl"),  # in newer versions of PyTorch
    (eager_transforms, "_jvp_increment_nesting"),
)


def backward_is_a_formula(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Require a Function to compute the gradient from a formula, without calling autograd.

    While ``forward``, ``setup_context`` and an ordinary ``backward`` run, grad mode is off, so
    autograd saves no tensors. If one of them differentiates its own operations, autograd saves
    tensors for them. The check detects these tensors. It also detects another backward pass, for
    example of an older graph, and forward mode. A Function might notice the check and return
    something else, so the gradients must be the same as without the check.
    """
    usual = _gradients(function, inputs)
    running: list[str] = []
    recorded: list[str] = []

    def watching(name: str) -> Any:
        method = getattr(function, name)

        @wraps(method)
        def watched(*args: Any, **options: Any) -> Any:
            running.append(name)
            try:
                return method(*args, **options)
            finally:
                running.pop()

        return staticmethod(watched)

    def note(tensor: Tensor) -> Tensor:
        recorded.extend(running)
        return tensor

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **options: Any) -> Any:
            recorded.extend(running or ["forward"])
            return original(*args, **options)

        return noted

    methods = ("forward",) if takes_ctx(function) else ("forward", "setup_context")
    watched = subclass_of(function, **{name: watching(name) for name in methods})
    try:
        with ExitStack() as stack:
            stack.enter_context(
                torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
            )
            for owner, name in _AUTOGRAD:
                if not hasattr(owner, name):
                    continue
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, noting(getattr(owner, name)))
            observed = _gradients(watched, inputs, lambda: running.append("backward"))
    except RuntimeError:  # torch.func also differentiates, but it does not accept hooks
        if not recorded:
            raise
    if not recorded:
        if _agree(usual, observed) or not _agree(usual, _gradients(function, inputs)):
            return None  # in the second case, each call returns something else
        return found(
            "unneeded-function",
            "`backward` returns other gradients while the grader watches its operations.",
            {},
            "Compute the gradient by the same formula in every call.",
        )
    return found(
        "unneeded-function",
        f"`{recorded[0]}` lets autograd differentiate its operations. Autograd would do the same "
        "without the Function.",
        {},
        "Write the derivative as a formula in the saved tensors and `grad_output`.",
    )


def _gradients(
    function: type[Function],
    inputs: tuple[Any, ...],
    before_backward: Callable[[], None] = lambda: None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of all float inputs if each element of ``grad_output`` is 1."""
    leaves = [it.detach().requires_grad_() if is_float(it) else it for it in inputs]
    given = tuple(it.clone() if is_float(it) else it for it in leaves)
    outputs = [it for it in as_tuple(called(function, given)) if isinstance(it, Tensor)]
    wanted = [it for it in outputs if it.requires_grad]
    before_backward()
    if not wanted:
        return ()
    return run_backward(
        wanted, [torch.ones_like(it) for it in wanted], list(filter(is_float, leaves))
    )


def _agree(some: tuple[Tensor | None, ...], others: tuple[Tensor | None, ...]) -> bool:
    return len(some) == len(others) and all(
        one is other
        if one is None or other is None
        else _close(one, other, rtol=1e-3, atol=1e-6, equal_nan=True)
        for one, other in zip(some, others, strict=True)
    )


def without(*operations: str, use: str) -> Check:
    """Return a check that fails if forward or backward runs any of these operations.

    The check watches the operations that PyTorch runs, so an alias of a built-in function cannot
    evade it. ``operations`` are PyTorch's own names for operations in forward and backward, such as
    ``gelu``. A function of NumPy or SciPy with one of these names counts too. The check does not
    see functions that are written in C, but the source reader does. ``use`` describes the code that
    should replace them.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed:
        followed = Followed(function.apply, inputs)
        with OperationRecorder() as recording, _library_calls() as by_libraries:
            followed(*differentiable(inputs))
            followed.backward()
        for name in (*recording.names, *by_libraries):
            if name in operations:
                return found(
                    "unneeded-function",
                    f"The built-in `{name}` does the work. In this exercise you write it yourself.",
                    {"operation": name},
                    f"Use {use}.",
                )
        return followed.computed()

    return forbid(seen_inside(check), operations)


@contextmanager
def _library_calls() -> Iterator[list[str]]:
    """Record the names of the Python functions of NumPy and SciPy that run in a ``with`` block."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        if event == "call" and library in ("numpy", "scipy"):
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


# Nearly every Function in the course must pass these checks.
CONDUCT: tuple[Check, ...] = (
    backward_is_a_formula, no_tensor_on_ctx, nothing_outlives_the_call,
)  # fmt: skip
