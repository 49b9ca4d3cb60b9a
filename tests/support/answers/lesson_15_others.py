"""Answers to three exercises of lesson 15: translations to ONNX, eight-bit weights and sorters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim

from answers.making import Wrong, solved

SOLVED = solved("15_ship_it")


def op() -> Any:
    """Return ONNX's operators. The import is local, because onnxscript is an extra."""
    from onnxscript import opset18

    return opset18


# Translations


def translates_by_signs(x: Any, step: float) -> Any:
    """Use Python's arithmetic, and ONNX's Where for the sign."""
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
        "half up", "rounds negative halves up", lambda x, step: op().Floor(x / step + 0.5) * step
    ),
    wrong_translation(
        "floor", "multiples are below x", lambda x, step: op().Floor(x / step) * step
    ),
    wrong_translation(
        "no sign", "has lost the sign of x", lambda x, s: op().Floor(op().Abs(x) / s + 0.5) * s
    ),
    wrong_translation(
        "ceil",
        "Ceil makes every",
        lambda x, step: op().Sign(x) * op().Ceil(op().Abs(x) / step) * step,
    ),
    wrong_translation(
        "ceil after minus a half",
        "rounds halves toward zero",
        lambda x, step: op().Sign(x) * op().Ceil(op().Abs(x) / step - 0.5) * step,
    ),
    wrong_translation(
        "round after a half",
        "rounds twice",
        lambda x, step: op().Sign(x) * op().Round(op().Abs(x) / step + 0.5) * step,
    ),
    wrong_translation(
        "no half",
        "Floor cuts off",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) / step) * step,
    ),
    wrong_translation(
        "half first",
        "before you divide by step",
        lambda x, step: op().Sign(x) * op().Floor((op().Abs(x) + 0.5) / step) * step,
    ),
    wrong_translation(
        "times step",
        "Divide it by step",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) * step + 0.5) * step,
    ),
    wrong_translation(
        "over step",
        "You divide the number of steps",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) / step + 0.5) / step,
    ),
    wrong_translation(
        "half with the sign",
        "goes away from zero",
        lambda x, step: op().Floor(x / step + op().Sign(x) * 0.5) * step,
    ),
    wrong_translation(
        "sign twice",
        "Floor has already got",
        lambda x, step: op().Sign(x) * op().Floor(x / step + 0.5) * step,
    ),
    wrong_translation(
        "no step",
        "You do not use step",
        lambda x, step: op().Sign(x) * op().Floor(op().Abs(x) + 0.5),
    ),
    wrong_translation(
        "not multiplied",
        "Multiply it by step",
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


def straight_through(weight: Any, rounded: Any) -> Any:
    return weight + (rounded - weight).detach()


def eight_bits(weight: Any, whole: Any = torch.round, dim: int = 1, divisor: float = 127.5) -> Any:
    """Multiply by the inverse, and compute the magnitude from the maximum and the minimum."""
    largest = torch.maximum(weight.amax(dim, True), -weight.amin(dim, True))
    scales = (largest / divisor).clamp(min=torch.finfo(weight.dtype).eps).detach()
    return straight_through(weight, scales * whole(weight * (1 / scales)).clamp(-128, 127))


def of_the_whole_matrix(weight: Any) -> Any:
    scale = weight.abs().max() / 127.5
    return straight_through(weight, scale * (weight / scale).round().clamp(-128, 127))


def without_clamp(weight: Any) -> Any:
    scales = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=1e-16)
    return straight_through(weight, scales * (weight / scales + 1e-9).round())


def without_eps(weight: Any) -> Any:
    scales = weight.abs().amax(1, keepdim=True) / 127.5
    return straight_through(weight, scales * (weight / scales).round().clamp(-128, 127))


def by_the_largest_number(weight: Any) -> Any:
    scales = (weight.amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps)
    return straight_through(weight, scales * (weight / scales).round().clamp(-128, 127))


def scales_of(weight: Any) -> Any:
    return (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps)


def only_integers(weight: Any) -> Any:
    return (weight / scales_of(weight)).round().clamp(-128, 127)


def without_surrogate(weight: Any) -> Any:
    return (scales_of(weight) * only_integers(weight)).detach()


def through_the_scales(weight: Any) -> Any:
    """Detach only the integers, so that the gradient passes through the scales."""
    return scales_of(weight) * only_integers(weight).detach()


def rounding_straight_through(weight: Any) -> Any:
    levels = weight / scales_of(weight)
    return scales_of(weight) * straight_through(levels, levels.round()).clamp(-128, 127)


def clamped_last(weight: Any) -> Any:
    scales = scales_of(weight).detach()
    levels = weight / scales
    return scales * straight_through(levels, levels.round()).clamp(-128, 127)


class EightBits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Any) -> Any:
        return scales_of(weight) * only_integers(weight)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def into_the_weight(weight: Any) -> Any:
    rounded = eight_bits(weight.detach())
    weight.data.copy_(rounded)
    return straight_through(weight, rounded)


def wrong_bits(mistake: str, says: str, answer: Any) -> Wrong:
    return Wrong("eight-bits", mistake, says, answer)


WRONG_BITS = [
    wrong_bits("one scale", "All rows share one scale", of_the_whole_matrix),
    wrong_bits("columns", "Each column has a scale", lambda w: eight_bits(w, dim=0)),
    wrong_bits("no clamp", "Clamp after you round", without_clamp),
    wrong_bits("cut off", "cuts off the fraction", lambda w: eight_bits(w, torch.trunc)),
    wrong_bits("127", "asks for 127.5", lambda w: eight_bits(w, divisor=127.0)),
    wrong_bits("no abs", "absolute values first", by_the_largest_number),
    wrong_bits("no eps", "A row of zeros has the scale 0", without_eps),
    wrong_bits("integers only", "the scale of their row", only_integers),
    wrong_bits("in place", "changes the weight", into_the_weight),
    wrong_bits("no gradient", "is zero everywhere", without_surrogate),
    wrong_bits("through the scales", "unchanged", through_the_scales),
    wrong_bits("only the rounding", "skips only the rounding", rounding_straight_through),
    wrong_bits("not the clamp", "that the clamp cuts off", clamped_last),
    wrong_bits("a Function", "after torch.export", EightBits.apply),
]


ALSO_BITS = {"eight bits: by the inverse": ("eight-bits", eight_bits)}


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
    """Return a ``deliver`` that trains with ``levels``, and exports with ``after`` if given."""

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
    """Use the identity as the surrogate. The last digits of the levels differ."""
    return x + (Levels.apply(x) - x).detach()


class ThreeLayers(Net):
    def __init__(self, levels: Any) -> None:
        super().__init__(levels)
        self.second = nn.Linear(48, 48)

    def forward(self, x: Any) -> Any:
        return self.last(self.levels(self.second(self.levels(self.first(x)))))


def three_layers(images: Any, labels: Any) -> Any:
    """Train a deeper net by plain gradient descent with momentum, on small batches."""
    net = ThreeLayers(unclipped)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(20):
        for chosen in torch.randperm(len(images)).split(64):
            loss = nn.functional.cross_entropy(net(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return torch.export.export(net.eval(), (images[:8],), dynamic_shapes=({0: Dim("batch")},))


def almost_flat(x: Any) -> Any:
    """Return levels whose gradient is not zero, but too small to change any weight."""
    return 1e-12 * x.clamp(0, 1) + Levels.apply(x.detach())


def random_first_layer(images: Any, labels: Any) -> Any:
    """Train only the last layer of a wide net."""
    net = Net(almost_flat)
    net.first, net.last = nn.Linear(64, 400), nn.Linear(400, 10)
    optimizer = torch.optim.Adam(net.last.parameters(), lr=0.01)
    for _ in range(200):
        loss = nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.export.export(net, (images[:8],), dynamic_shapes=({0: Dim("batch")},))


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
    "sorter: three layers": ("the-sorter", three_layers),
}
WRONG_SORTERS = [
    wrong_sorter("a Function", "the gradient of first.weight is zero", sorter(Levels.apply)),
    wrong_sorter("a tiny slope", "of first.weight is zero or negligible", random_first_layer),
    wrong_sorter("frozen", "of first.weight and last.weight", sorter(detached, asking=False)),
    wrong_sorter("no levels", "asks for at most 4", sorter(lambda x: x.clamp(0, 1))),
    wrong_sorter("one batch", "an error for a batch of 400", sorter(detached, any_batch=False)),
    wrong_sorter("untrained", "Did you export the trained net?", sorter(detached, steps=0)),
    wrong_sorter(
        "trained without a surrogate",
        "Was it so during the training",
        sorter(lambda x: Levels.apply(x.detach()), steps=1),
    ),
    wrong_sorter(
        "the net itself", "something of type Net, but this exercise asks for", returns_the_net
    ),
    wrong_sorter("linear", "no hidden layer", linear_only),
]
