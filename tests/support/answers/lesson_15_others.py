"""Answers to three exercises of lesson 15: translations to ONNX, eight bits, sorters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim

from answers.making import Wrong, solved

SOLVED = solved("15_ship_it")


def op() -> Any:
    """Return ONNX's operators; only where they are asked for, since onnxscript is an extra."""
    from onnxscript import opset18

    return opset18


# Translations


def translates_by_signs(x: Any, step: float) -> Any:
    """With the signs of arithmetic, and the sign by Where."""
    o = op()
    up = o.Floor(o.Abs(x) / step + 0.5) * step
    return o.Where(x < 0.0, -up, up)


def translates_by_ceil(x: Any, step: float) -> Any:
    o = op()
    v = o.Div(x, step)
    nearest = o.Where(o.GreaterOrEqual(v, 0.0), o.Floor(o.Add(v, 0.5)), o.Ceil(o.Sub(v, 0.5)))
    return o.Mul(nearest, o.Constant(value_float=step))


def wrong_translation(mistake: str, says: str, translation: Any) -> Wrong:
    return Wrong("round-away-in-onnx", mistake, says, translation)


WRONG_TRANSLATIONS = [
    wrong_translation(
        "Round", "to the even neighbor", lambda x, step: op().Mul(op().Round(x / step), step)
    ),
    wrong_translation(
        "half up", "takes negative halves up", lambda x, step: op().Floor(x / step + 0.5) * step
    ),
    wrong_translation("floor", "multiples below x", lambda x, step: op().Floor(x / step) * step),
    wrong_translation(
        "no sign", "sign of x has been lost", lambda x, s: op().Floor(op().Abs(x) / s + 0.5) * s
    ),
    wrong_translation(
        "no step",
        "step is not used",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) + 0.5),
    ),
    wrong_translation(
        "not multiplied",
        "still to be multiplied by step",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) / step + 0.5),
    ),
    wrong_translation("torch", "calls a function of torch", lambda x, s: torch.round(x / s) * s),
    wrong_translation("no such operator", "RoundAway", lambda x, s: op().RoundAway(x, s)),
    wrong_translation("nothing", "it returns None", lambda x, s: None),
]
ALSO_TRANSLATED = {
    "translation: with Where": ("round-away-in-onnx", translates_by_signs),
    "translation: with Ceil": ("round-away-in-onnx", translates_by_ceil),
}


# Eight bits


def eight_bits(weight: Any, whole: Any, axis: int = 1, divisor: float = 127.5) -> Any:
    """Multiplies by the inverse; takes maximum and minimum for the magnitude."""
    largest = torch.maximum(weight.amax(axis, True), -weight.amin(axis, True))
    scales = (largest / divisor).clamp(min=torch.finfo(weight.dtype).eps)
    return scales, whole(weight * (1 / scales)).clamp(-128, 127).to(torch.int8)


def of_the_whole_matrix(weight: Any) -> Any:
    scale = weight.abs().max() / 127.5
    return scale, (weight / scale).round().clamp(-128, 127).to(torch.int8)


def without_clamp(weight: Any) -> Any:
    scales = eight_bits(weight, torch.round)[0]
    whole = (weight / scales).round().to(torch.int32)  # a float beyond int8 converts as it likes
    return scales, whole.to(torch.int8)


def without_eps(weight: Any) -> Any:
    scales = weight.abs().amax(1, keepdim=True) / 127.5
    return scales, (weight / scales).round().clamp(-128, 127).nan_to_num(0).to(torch.int8)


def by_the_largest_number(weight: Any) -> Any:
    scales = (weight.amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps)
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)


def floats(weight: Any) -> Any:
    scales, whole = eight_bits(weight, torch.round)
    return scales, whole.double()


def into_the_weight(weight: Any) -> Any:
    scales = eight_bits(weight, torch.round)[0]
    return scales, weight.div_(scales).round_().clamp_(-128, 127).to(torch.int8)


def the_other_order(weight: Any) -> Any:
    return eight_bits(weight, torch.round)[::-1]


def wrong_bits(mistake: str, says: str, answer: Any) -> Wrong:
    return Wrong("eight-bits", mistake, says, answer)


WRONG_BITS = [
    wrong_bits("one scale", "has shape (); this exercise asks for (3, 1)", of_the_whole_matrix),
    wrong_bits("columns", "has shape (1, 5)", lambda w: eight_bits(w, torch.round, axis=0)),
    wrong_bits("no clamp", "has become the most negative", without_clamp),
    wrong_bits("cut off", "cuts off what is behind", lambda w: eight_bits(w, torch.trunc)),
    wrong_bits("127", "takes the largest", lambda w: eight_bits(w, torch.round, divisor=127.0)),
    wrong_bits("no abs", "absolute values first", by_the_largest_number),
    wrong_bits("no eps", "At [1, 0] it is 0, should be 2.22e-16.", without_eps),
    wrong_bits("floats", "has dtype torch.float64; this exercise asks for torch.int8", floats),
    wrong_bits("in place", "the weight itself is changed", into_the_weight),
    wrong_bits("the other order", "right, but in the wrong order", the_other_order),
    wrong_bits("integers only", "has 1 value;", lambda w: eight_bits(w, torch.round)[1]),
]


ALSO_BITS = {"eight bits: by the inverse": ("eight-bits", lambda w: eight_bits(w, torch.round))}


# Sorters


class Levels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward((x >= 0) & (x <= 1))
        return (x.clamp(0, 1) * 3).round() / 3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (inside,) = ctx.saved_tensors
        return g * inside


class Net(nn.Module):
    def __init__(self, levels: Any) -> None:
        super().__init__()
        self.levels = levels
        self.first, self.last = nn.Linear(64, 48), nn.Linear(48, 10)

    def forward(self, x: Any) -> Any:
        return self.last(self.levels(self.first(x)))


def sorter(levels: Any, after: Any = None, steps: int = 60, **exported: bool) -> Any:
    """Return a ``deliver`` that trains with these levels, and exports with those ``after``."""

    def deliver(images: Any, labels: Any) -> Any:
        net = Net(levels)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(steps):
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.levels = after or levels
        net.requires_grad_(exported.get("asking", True))
        shapes = ({0: Dim("batch")},) if exported.get("any_batch", True) else None
        return torch.export.export(net, (images[:8],), dynamic_shapes=shapes)

    return deliver


def detached(x: Any) -> Any:
    return x.clamp(0, 1) + (Levels.apply(x) - x.clamp(0, 1)).detach()


def unclipped(x: Any) -> Any:
    """The identity for a surrogate; the last digits of the levels differ."""
    return x + (Levels.apply(x) - x).detach()


def returns_the_net(images: Any, labels: Any) -> Any:
    return Net(detached)


def linear_only(images: Any, labels: Any) -> Any:
    shapes = ({0: Dim("batch")},)
    return torch.export.export(nn.Linear(64, 10), (images[:8],), dynamic_shapes=shapes)


def wrong_sorter(mistake: str, says: str, deliver: Any) -> Wrong:
    return Wrong("the-sorter", mistake, says, deliver)


ALSO_SORTERS = {
    "sorter: trained with a Function": ("the-sorter", sorter(Levels.apply, detached)),
    "sorter: straight through all of x": ("the-sorter", sorter(unclipped)),
}
WRONG_SORTERS = [
    wrong_sorter("a Function", "other than zeros arrives at first.weight.", sorter(Levels.apply)),
    wrong_sorter("frozen", "at first.weight and last.weight", sorter(detached, asking=False)),
    wrong_sorter("no levels", "this exercise asks for 4", sorter(lambda x: x.clamp(0, 1))),
    wrong_sorter("one batch", "an error for a batch of 400", sorter(detached, any_batch=False)),
    wrong_sorter("untrained", "the trained net that was exported?", sorter(detached, steps=0)),
    wrong_sorter(
        "trained without a surrogate",
        "did one arrive while the net was trained",
        sorter(lambda x: Levels.apply(x.detach()), steps=1),
    ),
    wrong_sorter(
        "the net itself", "something of type Net, but this exercise asks for", returns_the_net
    ),
    wrong_sorter("linear", "no hidden layer", linear_only),
]
