"""Find mistakes in a ``jvp`` for the smooth maximum by calling the method directly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks.calling import found
from autograd_course.grader.sampling import normal

Part = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def tangent_mistake(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Call ``jvp`` on random tangents and compare its result with the results of known mistakes."""
    sentence = _sentence(function, *inputs)
    return found("wrong-jvp", "`jvp` is wrong.", {}, sentence) if sentence else None


def saved_in_another_order(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check what ``setup_context`` saves after the given backward has raised an exception."""
    ctx, y = _Context(), function.forward(*inputs)
    function.setup_context(ctx, inputs, y)
    if [*map(id, ctx.for_backward)] == [*map(id, (*inputs, y))]:
        return None
    return found(
        "backward-raises",
        "`setup_context` saves other tensors.",
        {},
        "The given backward unpacks x, t, y from ctx.saved_tensors. Pass the two inputs and the "
        "output to ctx.save_for_backward, in this order.",
    )


class _Context:
    """A replacement for ctx that records what ``setup_context`` saves."""

    def __init__(self) -> None:
        self.for_backward: tuple[Any, ...] = ()
        self.saved_tensors: tuple[Any, ...] = ()  # in jvp, these are the tensors for forward mode
        self.needs_input_grad = (True, True)
        self.materializes = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.for_backward = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materializes = value

    @property
    def has_other_order(self) -> bool:
        """Whether both modes save the same tensors in different orders."""
        one, other = [*map(id, self.for_backward)], [*map(id, self.saved_tensors)]
        return one != other and sorted(one) == sorted(other)


def _sentence(function: type[Function], x: Tensor, t: Tensor) -> str:
    jvp: Callable[..., Any] = function.jvp
    try:
        inspect.signature(jvp).bind(None, x, t)
    except TypeError:
        return "jvp takes ctx, and then one tangent for each input: x_tangent and t_tangent."
    ctx, y = _Context(), function.forward(x, t)
    function.setup_context(ctx, (x, t), y)
    if not ctx.materializes:
        return (
            "ctx.set_materialize_grads(False) makes PyTorch pass None for the tangent of an input "
            "without one. Remove this call, so that such a tangent is zero."
        )
    rng = torch.Generator().manual_seed(0)
    dx, dt = normal(rng, *x.shape), normal(rng)
    passed = dx.clone(), dt.clone()
    try:
        came = jvp(ctx, *passed)
        by_x, by_t = jvp(ctx, dx.clone(), 0 * dt), jvp(ctx, 0 * dx, dt.clone())
        of_zeros = jvp(ctx, 0 * dx, 0 * dt)
    except Exception as error:
        if ctx.has_other_order:
            return (
                "setup_context saves the tensors for forward mode in another order than for "
                "backward. jvp reads them in the order of ctx.save_for_forward. Use one order."
            )
        return _about_shapes(x, y) if ctx.saved_tensors and _is_about_shapes(error) else ""
    if not all(map(_same, passed, (dx, dt))):
        return ""  # another finding says that jvp changes a tangent in place
    if isinstance(came, tuple | list):
        return (
            f"jvp returns {len(came)} values. The Function has one output, so add the changes "
            "that x and the temperature cause, and return one tensor."
        )
    if not all(isinstance(each, Tensor) for each in (came, by_x, by_t, of_zeros)):
        return ""
    if came.shape != y.shape:
        return _about_result(came, (x, t, y), dx, dt)
    p = torch.softmax(x / t, -1)
    slope = (y - (p * x).sum(-1)) / t
    if _same(of_zeros, slope) and _same(by_t, slope):
        return "The contribution of the temperature is not multiplied by its tangent."
    if _same(of_zeros, torch.ones_like(y)) and _same(by_x, of_zeros):
        return "The contribution of x is not multiplied by its tangent."
    if not _same(of_zeros, torch.zeros_like(y)):
        return (
            "For tangents of zero, jvp does not return zero. Multiply each derivative by the "
            "tangent of its own input."
        )
    if _same(by_x, 0 * y) and _same(by_t, 0 * y) and not _same(came, 0 * y):
        return "jvp multiplies the contributions of x and of the temperature. Add them."
    for right, part, suspects, tangent in (
        ((p * dx).sum(-1), by_x, OF_X, dx),
        (dt * slope, by_t, OF_T, dt),
    ):
        if not _same(part, right):
            return _known(part, suspects, (x, t, y, tangent))
    return ""


OF_X: Mapping[str, Part] = {
    "The tangent of x has no effect. Add the sum over the row of p times the tangent of x.": (
        lambda x, t, y, v: 0 * y
    ),
    "The part of x is added over all rows. Each row has its own y, so sum over the last dim.": (
        lambda x, t, y, v: (_p(x, t) * v).sum().expand(y.shape)
    ),
    "The part of x is the sum of its tangent, without p. Multiply each element by p first.": (
        lambda x, t, y, v: v.sum(-1)
    ),
    "The part of x is the mean of p times its tangent over the row. Take the sum.": (
        lambda x, t, y, v: (_p(x, t) * v).mean(-1)
    ),
    "The part of x has the softmax of x where it needs the softmax of x / t.": (
        lambda x, t, y, v: (torch.softmax(x, -1) * v).sum(-1)
    ),
    "The part of x has a softmax over dim 0. Each row has its own softmax, so use the last dim.": (
        lambda x, t, y, v: (torch.softmax(x / t, 0) * v).sum(-1)
    ),
    "The part of x is divided by t. The derivative by x is p alone: the t in front of the log and "
    "the one in the exponent cancel.": lambda x, t, y, v: (_p(x, t) * v).sum(-1) / t,
    "The part of x is multiplied by t. The derivative by x is p alone: the t in front of the log "
    "and the one in the exponent cancel.": lambda x, t, y, v: (_p(x, t) * v).sum(-1) * t,
    "The part of x has the wrong sign.": lambda x, t, y, v: -(_p(x, t) * v).sum(-1),
    "The part of x has x / t where it needs p, the softmax of x / t.": (
        lambda x, t, y, v: (x / t * v).sum(-1)
    ),
}

OF_T: Mapping[str, Part] = {
    "The tangent of the temperature has no effect. Add its product with the derivative by t.": (
        lambda x, t, y, v: 0 * y
    ),
    "The part of the temperature is added over all rows, as in backward. A tangent goes forward, "
    "so each row keeps its own number.": lambda x, t, y, v: (
        _slope(x, t, y, v).sum().expand(y.shape)
    ),
    "The part of the temperature is multiplied by t where it must be divided by t.": (
        lambda x, t, y, v: _slope(x, t, y, v) * t * t
    ),
    "The part of the temperature is not divided by t.": lambda x, t, y, v: _slope(x, t, y, v) * t,
    "The part of the temperature is divided by t twice.": lambda x, t, y, v: _slope(x, t, y, v) / t,
    "The part of the temperature has the wrong sign.": lambda x, t, y, v: -_slope(x, t, y, v),
    "In the part of the temperature, the sum of p x must be subtracted from y, not added.": (
        lambda x, t, y, v: v * (y + (_p(x, t) * x).sum(-1)) / t
    ),
    "In the part of the temperature, only y is divided by t. Divide the whole difference.": (
        lambda x, t, y, v: v * (y / t - (_p(x, t) * x).sum(-1))
    ),
    "In the part of the temperature, only the sum of p x is divided by t. Divide the whole "
    "difference.": lambda x, t, y, v: v * (y - (_p(x, t) * x).sum(-1) / t),
    "In the part of the temperature, the sum of p x is missing. t is in the exponent too, not only "
    "in front of the log.": lambda x, t, y, v: v * y / t,
    "In the part of the temperature, y is missing. t is in front of the log too, not only in the "
    "exponent.": lambda x, t, y, v: -v * (_p(x, t) * x).sum(-1) / t,
    "In the part of the temperature, x is summed without p. Multiply each x by its p.": (
        lambda x, t, y, v: v * (y - x.sum(-1)) / t
    ),
    "In the part of the temperature, x has equal weights. Its weights are p.": (
        lambda x, t, y, v: v * (y - x.mean(-1)) / t
    ),
    "In the part of the temperature, y is subtracted from each p x, so once for each element of "
    "the row. Sum p x first, and subtract once.": (
        lambda x, t, y, v: (v * (y[..., None] - _p(x, t) * x) / t).sum(-1)
    ),
    "The part of the temperature has the softmax of x where it needs the softmax of x / t.": (
        lambda x, t, y, v: v * (y - (torch.softmax(x, -1) * x).sum(-1)) / t
    ),
}


def _p(x: Tensor, t: Tensor) -> Tensor:
    return torch.softmax(x / t, -1)


def _slope(x: Tensor, t: Tensor, y: Tensor, v: Tensor) -> Tensor:
    return v * (y - (_p(x, t) * x).sum(-1)) / t


def _known(came: Tensor, suspects: Mapping[str, Part], given: tuple[Any, ...]) -> str:
    """Return the sentence of the suspect with this result, if exactly one suspect matches."""
    told = [sentence for sentence, part in suspects.items() if _same(came, part(*given))]
    return told[0] if len(told) == 1 else ""


def _about_result(
    came: Tensor, given: tuple[Tensor, Tensor, Tensor], dx: Tensor, dt: Tensor
) -> str:
    x, t, y = given
    row = (_p(x, t) * dx).sum(-1, keepdim=True)
    kept = (row + _slope(x, t, y, dt), row + _slope(x, t, y, dt)[..., None])
    if any(_same(came, each) for each in kept):
        return (
            f"jvp returns a tensor of shape {tuple(came.shape)}, and y has the shape "
            f"{tuple(y.shape)}. The sum over the row must not keep its dim."
        )
    if came.shape == x.shape:
        return (
            "jvp returns a tensor of the shape of x. That is what backward does. jvp returns one "
            "number for each row: sum p times the tangent of x over the row."
        )
    return _about_shapes(x, y)


def _about_shapes(x: Tensor, y: Tensor) -> str:
    return (
        f"Print the shape of each term of jvp. x_tangent has the shape {tuple(x.shape)}, t_tangent "
        f"has (), and the result needs {tuple(y.shape)}. Which dim must the part of x sum over?"
    )


def _is_about_shapes(error: Exception) -> bool:
    return any(words in str(error) for words in ("size of tensor", "shapes cannot be", "expand"))


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other)
