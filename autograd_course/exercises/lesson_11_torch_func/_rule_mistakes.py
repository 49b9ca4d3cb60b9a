"""Find mistakes in a vmap rule for ``solve`` by calling the rule directly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import found
from autograd_course.grader.sampling import normal

BATCH = 5  # no sample of the exercise has a dim of this size
NAMES = ("a", "b")
Dims = tuple[int | None, int | None]


def rule_mistake(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Call the rule with the batch at different dims, and describe the first mistake."""
    sentence = _sentence(function, inputs)
    return found("wrong-vmap", "The vmap rule is wrong.", {}, sentence) if sentence else None


@dataclass(frozen=True)
class _Call:
    """A call to the rule: the batched tensors, and what the rule passed to forward and returned."""

    dims: Dims
    given: tuple[Tensor, Tensor]
    passed: list[tuple[Any, ...]]  # the arguments of each call to forward
    returned: Any
    error: Exception | None
    info: Any


def _sentence(function: type[Function], inputs: tuple[Any, ...]) -> str:
    try:
        inspect.signature(function.vmap).bind(None, None, *inputs)
    except TypeError:
        return "PyTorch calls the rule with info, in_dims, a and b, in this order and without ctx."
    calls = [_call(function, inputs, dims) for dims in _layouts(inputs)]
    for call in calls:
        if said := _about_return(call) or _about_passed(call) or _about_error(call, calls):
            return said
    return ""


def _layouts(inputs: tuple[Any, ...]) -> Iterator[Dims]:
    yield 0, 0
    yield 0, inputs[1].ndim
    yield inputs[0].ndim, inputs[1].ndim
    yield inputs[0].ndim, None
    yield None, inputs[1].ndim


def _call(function: type[Function], inputs: tuple[Any, ...], dims: Dims) -> _Call:
    rng = torch.Generator().manual_seed(0)
    given = tuple(_batched(rng, each, dim) for each, dim in zip(inputs, dims, strict=True))
    passed: list[tuple[Any, ...]] = []
    forward = function.forward

    def noted(*arguments: Any) -> Any:
        passed.append(arguments)
        return forward(*arguments)

    info = SimpleNamespace(batch_size=BATCH, randomness="error")
    returned, error = None, None
    with patch.object(function, "forward", staticmethod(noted)):
        try:
            returned = function.vmap(info, dims, *given)
        except Exception as raised:
            error = raised
    return _Call(dims, (given[0], given[1]), passed, returned, error, info)


def _batched(rng: torch.Generator, sample: Tensor, dim: int | None) -> Tensor:
    """Return random samples with the batch at ``dim``. Square matrices are well-conditioned."""
    size = () if dim is None else (BATCH,)
    drawn = normal(rng, *size, *sample.shape).to(sample.device)
    if sample.ndim > 1 and sample.shape[-1] == sample.shape[-2]:
        drawn = drawn + 3 * sample.shape[-1] * torch.eye(sample.shape[-1], device=sample.device)
    return drawn if dim is None else drawn.movedim(0, dim)


def _about_error(call: _Call, calls: list[_Call]) -> str:
    """Describe the layouts for which the rule raises an error, if they reveal the cause."""
    if call.error is None:
        return ""
    if isinstance(call.error, RecursionError):
        return (
            "The rule calls itself without end, because vmap of this Function calls its rule. "
            "Rearrange the dims of the whole tensors, and call apply on them."
        )
    if isinstance(call.error, AttributeError) and type(call.info).__name__ in str(call.error):
        return "info has two attributes: info.batch_size and info.randomness."
    for place, name in enumerate(NAMES):
        shared = call.dims[place] is None
        if shared and not any(each.error for each in calls if None not in each.dims):
            shape = tuple(call.given[place].shape)
            return (
                f"The rule fails where in_dims[{place}] is None: all samples share {name}, and its "
                f"shape is {shape}. Do not move a dim there. Put a new dim for the batch in front, "
                f"however many dims {name} has."
            )
    shapes = " and ".join(
        f"{name} {tuple(t.shape)}" for name, t in zip(NAMES, call.given, strict=True)
    )
    if call is calls[0]:
        if call.given[0].ndim == 3:
            return ""
        return (
            f"The rule fails where each sample is itself a batch of systems. The shapes are "
            f"{shapes}. Move only the batch of vmap, and keep all dims of a sample."
        )
    if None in call.dims or calls[0].error:
        return ""
    return (
        f"The rule fails for in_dims={call.dims}, but not for (0, 0). The shapes are {shapes}. "
        "Move the batch dim to the front, wherever it is."
    )


def _about_return(call: _Call) -> str:
    """Say what is wrong with the pair that the rule returns."""
    if call.error:
        return ""
    if not isinstance(call.returned, tuple) or len(call.returned) != 2:
        return "Return two things from the rule: the result, and the position of its batch dim."
    result, at = call.returned
    if not isinstance(result, Tensor):
        return ""
    layout = f"For in_dims={call.dims}, "
    if at is None:
        return (
            "The rule returns None as out_dims, which says that the result has no batch dim. "
            "Return the position of its batch dim."
        )
    if not isinstance(at, int):
        return f"The result is one tensor, so out_dims must be one number. Your rule returns {at}."
    right = _solved(call)
    places = [dim for dim in range(result.ndim) if _same(result.movedim(dim, 0), right)]
    if places and at % result.ndim not in places:
        return (
            f"{layout}the batch is at dim {places[0]} of the result, but your rule returns {at} as "
            "out_dims. The result has its batch where apply has put it."
        )
    return ""


def _solved(call: _Call) -> Tensor:
    a, b = (
        each.expand(BATCH, *each.shape) if dim is None else each.movedim(dim, 0)
        for each, dim in zip(call.given, call.dims, strict=True)
    )
    y: Tensor = torch.linalg.solve(a, b[..., None])[..., 0]
    return y


def _about_passed(call: _Call) -> str:
    """Say how a tensor that the rule passes to ``apply`` differs from what the kernel expects."""
    if call.error and not call.passed:
        return ""
    for place, name in enumerate(NAMES):
        if len(call.passed) != 1 or len(call.passed[0]) != 2:
            return ""
        if _is_other_argument(call, place):
            return f"apply receives {NAMES[1 - place]} where it expects {name}."
        came, given, dim = call.passed[0][place], call.given[place], call.dims[place]
        if not isinstance(came, Tensor):
            return ""
        if dim is None:
            if _is_shared(came, given):
                continue
            return (
                f"Where all samples share {name}, apply receives it with the shape "
                f"{tuple(came.shape)}. The batch belongs in front of {tuple(given.shape)}."
            )
        if _same(came, given.movedim(dim, 0)):
            continue
        other = call.dims[1 - place]
        for sentence, moved in _movements(name, place, dim, other):
            if _is(came, moved, given):
                return f"For in_dims={call.dims}, {sentence}"
        return (
            f"For in_dims={call.dims}, {name} arrives at apply in the shape {tuple(came.shape)}, "
            f"and it differs from {name} with dim {dim} moved to the front."
        )
    return ""


def _is_shared(came: Tensor, given: Tensor) -> bool:
    """Return whether NumPy broadcasts a tensor to one copy of ``given`` for each sample."""
    right = given.expand(BATCH, *given.shape)
    return _is(right, lambda _: came.expand(right.shape), given)


def _is_other_argument(call: _Call, place: int) -> bool:
    """Return whether the rule passes the other tensor in this position."""
    came, given, dim = call.passed[0][place], call.given[1 - place], call.dims[1 - place]
    return isinstance(came, Tensor) and dim is not None and _same(came, given.movedim(dim, 0))


def _movements(
    name: str, place: int, dim: int, other: int | None
) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Yield wrong ways to arrange a tensor's dims, each with a sentence that explains it."""
    entry = f"in_dims[{place}]"
    yield (
        f"{name} is treated as shared, but {entry} is {dim}, not None. Python counts 0 as false, "
        "so compare with `is None`.",
        lambda each: each.expand(BATCH, *each.shape),
    )
    yield (
        f"apply receives {name} as it came, with its batch at dim {dim}. Move this dim to the "
        "front first.",
        lambda each: each,
    )
    if dim > 1:
        yield (
            f"{name} arrives at apply with the other dims in the wrong order. A transpose swaps "
            "two dims. Use movedim, which keeps the order of the others.",
            lambda each: each.transpose(dim, 0),
        )
        yield (
            f"{name} arrives at apply with dim 0 moved to dim {dim}. movedim takes the old place "
            "first, and then the new one.",
            lambda each: each.movedim(0, dim),
        )
    yield (
        f"apply receives {name} with the batch in the last dim. The kernel expects it in front.",
        lambda each: each.movedim(dim, -1),
    )
    if other is not None:
        yield (
            f"the rule moves dim {other} of {name}, but its batch is at dim {dim}. The entries of "
            "in_dims have the order of the arguments.",
            lambda each: each.movedim(other, 0),
        )
    yield (
        f"{name} is reshaped, which mixes the numbers of different samples. Move its dim {dim} to "
        "the front instead.",
        lambda each: each.reshape(each.movedim(dim, 0).shape),
    )


def _is(came: Tensor, moved: Callable[[Tensor], Tensor], given: Tensor) -> bool:
    try:
        return _same(came, moved(given))
    except (RuntimeError, IndexError):
        return False


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other)
