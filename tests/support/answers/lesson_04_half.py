"""Incomplete repairs of lesson 04's broken Functions, and wrong lines and experiments."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from answers.making import Spoiling, Wrong, spoiled

WRONG_LOCATIONS = {
    "name-temperature": {
        "5b": "the right gradient of `x`",
        "3a": "does not tell you about the temperature",
        "missing-gradient": "such as",
    },
    "name-floor-log": {
        "5d": "before any backward runs",
        "1a": "The values of the output are right",
        "9d": "such as",
    },
    "name-distance": {
        "5a": "what it claims to be",
        "4b": "any one of them will do",
        "4e": "such as",
    },
    "name-rotation": {
        "4c": "if `rows` contains the right numbers",
        "3a": "for every angle",
        "3b": "a transposed x does no harm",
    },
    "name-solver": {
        "5d": "Which line empties it",
        "6a": "its own tape",
        "6b": "The first gradient is right",
    },
    "name-dropout": {
        "2b": "needs the same mask",
        "3c": "draw the same two masks",
        "3d": "keep everything",
    },
}


def wrong(solved: dict[str, Any], right: dict[str, Any]) -> list[Wrong]:
    """Return all wrong answers. They are made from the broken classes and the right answers."""
    located = [
        Wrong(exercise, typed, told, typed)
        for exercise, locations in WRONG_LOCATIONS.items()
        for typed, told in locations.items()
    ]
    predicted = [
        Wrong("predict-ratios", "the other way round", "not the other way round", [1 / 8, -1, 5]),
        Wrong("predict-ratios", "the factor of the loss", "so it cancels", [40, -1, 0.2]),
        Wrong("predict-ratios", "no sign", "is −1/x²", [8, 1, 0.2]),
        Wrong("predict-ratios", "turned around", "not the other way round", [8, -1, 5]),
        Wrong("predict-ratios", "nothing forgotten", "contains this factor", [8, -1, 1]),
    ]
    return [*located, *predicted, *_backwards(right), *_as_given(solved), *_others(solved, right)]


def _as_given(solved: dict[str, Any]) -> list[Wrong]:
    """Return the broken classes unchanged if the repair takes the same arguments."""
    rules = {
        "repair-film": ("BrokenFiLM", "frozen-input"),
        "repair-floor-log": ("BrokenFloorLog", "mutates-input"),
        "repair-distance": ("BrokenDistance", "uniform-grad-output"),
        "repair-rotation": ("BrokenRotate", "grad-output-layout"),
        "repair-share": ("BrokenShare", "dim-argument"),
        "repair-color-table": ("BrokenLookUp", "gradient-dtype"),
        "repair-log-cosh": ("BrokenLogCosh", "overflow"),
        "repair-softsign": ("BrokenSoftsign", "tensor-on-ctx"),
        "repair-solver": ("BrokenSolve", "not-reentrant"),
        "repair-rms-norm": ("BrokenRMSNorm", "silent-double-backward"),
    }
    return [Wrong(i, "as given", rule, solved[broken]) for i, (broken, rule) in rules.items()]


def _backwards(right: dict[str, Any]) -> list[Wrong]:
    backward = Spoiling(right).backward
    return [
        backward(
            "repair-temperature",
            "takes it for a setting",
            "missing-gradient",
            lambda ctx, x, t, g: (g * (1 - torch.tanh(x / t) ** 2) / t, None),
        ),
        backward(
            "repair-temperature",
            "does not sum",
            "unreduced-broadcast",
            lambda ctx, x, t, g: _tempered(x, t, g, lambda along: along),
        ),
        backward(
            "repair-temperature",
            "averages",
            "constant-factor",
            lambda ctx, x, t, g: _tempered(x, t, g, torch.mean),
        ),
        backward(
            "repair-temperature",
            "forgets the minus",
            "flipped-sign",
            lambda ctx, x, t, g: _tempered(x, t, g, lambda along: -along.sum()),
        ),
        backward("repair-film", "None in front", "frozen-input", _none_in_front),
        backward("repair-film", "thinks of x only", "frozen-input", _x_only),
        backward(
            "repair-film",
            "does not sum",
            "unreduced-broadcast",
            lambda ctx, x, gamma, g: (g * gamma, g * x, g),
        ),
        backward(
            "repair-distance",
            "the mean of the weights",
            "uniform-grad-output",
            lambda ctx, x, t, g: ((x - t) * g.mean(), (t - x) * g.mean()),
        ),
        backward(
            "repair-distance",
            "no new axis",
            "backward-raises",
            lambda ctx, x, t, g: ((x - t) * g, (t - x) * g),
        ),
        backward(
            "repair-distance",
            "the target is data",
            "missing-gradient",
            lambda ctx, x, t, g: ((x - t) * g[..., None], None),
        ),
        backward(
            "repair-share",
            "forgets keepdim",
            "backward-raises",
            lambda ctx, x, g: _share(ctx, x, g, (g * x / x.sum(ctx.dim, True)).sum(ctx.dim)),
        ),
        backward(
            "repair-share",
            "the other of two axes",
            "dim-argument",
            lambda ctx, x, g: _share(ctx, x, g, (g * x / x.sum(ctx.dim, True)).sum(0, True)),
        ),
        backward(
            "repair-share",
            "sums over everything",
            "batch-dimension",
            lambda ctx, x, g: _share(ctx, x, g, (g * x / x.sum(ctx.dim, True)).sum()),
        ),
        backward(
            "repair-log-cosh",
            "half a repair: one sign",
            "overflow",
            lambda ctx, x, g: g * (1 - (-2 * x).exp()) / (1 + (-2 * x).exp()),
        ),
        backward(
            "repair-log-cosh",
            "clamps too early",
            "wrong-region",
            lambda ctx, x, g: g * torch.tanh(x.clamp(-1, 1)),
        ),
        backward(
            "repair-softsign",
            "forgets that y has a sign",
            "wrong-region",
            lambda ctx, y, g: g * (1 - y) ** 2,
        ),
    ]


def _tempered(x: Any, t: Any, g: Any, collect: Callable[[Any], Any]) -> Any:
    slope = g * (1 - torch.tanh(x / t) ** 2)
    return slope / t, -collect(slope * x) / t**2


def _none_in_front(ctx: Any, x: Any, gamma: Any, g: Any) -> Any:
    wanted = zip(ctx.needs_input_grad, (g * gamma, (g * x).sum(0), g.sum(0)), strict=True)
    gradients = [gradient for needed, gradient in wanted if needed]
    return (*[None] * (3 - len(gradients)), *gradients)


def _x_only(ctx: Any, x: Any, gamma: Any, g: Any) -> Any:
    needs_x, *others = ctx.needs_input_grad
    behind = zip(others, ((g * x).sum(0), g.sum(0)), strict=True)
    gradients = [gradient for needed, gradient in behind if needed]
    return g * gamma if needs_x else None, *gradients, *[None] * (2 - len(gradients))


def _share(ctx: Any, x: Any, g: Any, common: Any) -> Any:
    return (g - common) / x.sum(ctx.dim, keepdim=True), None


def _others(solved: dict[str, Any], right: dict[str, Any]) -> list[Wrong]:
    def half(exercise: str, mistake: str, rule: str, base: Any, **methods: Any) -> Wrong:
        return Wrong(exercise, mistake, rule, spoiled(base, **methods))

    broken = {name: solved[f"Broken{name}"] for name in ("FloorLog", "Rotate", "LookUp", "LogCosh")}
    rotated, dropped = broken["Rotate"].backward, right["repair-dropout"]
    return [
        half(
            "repair-floor-log",
            "saves the number after the floor",
            "wrong-region",
            broken["FloorLog"],
            forward=_floored,
        ),
        half(
            "repair-floor-log",
            "puts x back",
            "mutates-input",
            broken["FloorLog"],
            forward=_put_back,
        ),
        half(
            "repair-floor-log",
            "declares it",
            "wrong-mark-dirty",
            broken["FloorLog"],
            forward=_declared,
        ),
        half(
            "repair-floor-log",
            "multiplies by the mask",
            "non-finite",
            right["repair-floor-log"],
            backward=_masked_after_dividing,
        ),
        half(
            "repair-rotation",
            "clones",
            "grad-output-layout",
            broken["Rotate"],
            backward=lambda ctx, g: rotated(ctx, g.clone()),
        ),
        half(
            "repair-rotation",
            "insists",
            "grad-output-layout",
            broken["Rotate"],
            backward=lambda ctx, g: (rotated(ctx, g.view(-1, 2))[0].view(g.shape), None),
        ),
        half(
            "repair-rotation",
            "makes x contiguous",
            "grad-output-layout",
            broken["Rotate"],
            forward=lambda ctx, x, angle: broken["Rotate"].forward(ctx, x.contiguous(), angle),
        ),
        half(
            "repair-rotation",
            "turns on instead of back",
            "transposed-gradient",
            broken["Rotate"],
            backward=lambda ctx, g: (g @ solved["turn"](g, ctx.angle), None),
        ),
        half(
            "repair-color-table",
            "the first bug only",
            "duplicate-index",
            broken["LookUp"],
            backward=lambda ctx, g: _looked_up(ctx, g, torch.zeros_like),
        ),
        half(
            "repair-color-table",
            "the second bug only",
            "gradient-dtype",
            broken["LookUp"],
            backward=_summed_in_float32,
        ),
        half(
            "repair-log-cosh",
            "nan_to_num",
            "wrong-region",
            broken["LogCosh"],
            backward=lambda ctx, g: broken["LogCosh"].backward(ctx, g).nan_to_num(),
        ),
        half(
            "repair-softsign",
            "detached, on ctx",
            "tensor-on-ctx",
            right["repair-softsign"],
            forward=_detached_on_ctx,
            backward=lambda ctx, g: g * (1 - ctx.y.abs()) ** 2,
        ),
        half(
            "repair-softsign",
            "deletes it in backward",
            "tensor-on-ctx",
            solved["BrokenSoftsign"],
            backward=_deleting,
        ),
        half(
            "repair-softsign",
            "refers to it weakly",
            "tensor-on-ctx",
            right["repair-softsign"],
            forward=_weakly_on_ctx,
            backward=lambda ctx, g: g * (1 - ctx.y().abs()) ** 2,
        ),
        half(
            "repair-solver",
            "puts the tape on the class",
            "shared-state",
            right["repair-solver"],
            **_on_the_class(),
        ),
        half(
            "repair-solver",
            "turns the tape around",
            "not-reentrant",
            solved["BrokenSolve"],
            backward=_turned_around,
        ),
        half(
            "repair-solver",
            "differentiates with sin",
            "gradient-mismatch",
            right["repair-solver"],
            backward=_with_sin,
        ),
        half(
            "repair-rms-norm",
            "refuses",
            "once-differentiable-leak",
            right["repair-rms-norm"],
            backward=once_differentiable(right["repair-rms-norm"].backward),
        ),
        half(
            "repair-rms-norm",
            "computes r again under no_grad",
            "silent-double-backward",
            right["repair-rms-norm"],
            backward=lambda ctx, g: _normed(ctx, g, torch.no_grad()),
        ),
        half(
            "repair-rms-norm",
            "takes r for a constant",
            "missing-dependency",
            right["repair-rms-norm"],
            backward=_r_held_fixed,
        ),
        half(
            "repair-dropout",
            "the mask, and no scale",
            "constant-factor",
            dropped,
            backward=_unscaled,
        ),
        half(
            "repair-dropout",
            "seeds forward only",
            "rng-not-restored",
            dropped,
            backward=lambda ctx, g: (g * solved["draw"](g, ctx.p) / (1 - ctx.p), None, None),
        ),
        half(
            "repair-dropout",
            "keeps the generator",
            "gradient-mismatch",
            dropped,
            **_generator_on_ctx(solved["draw"]),
        ),
        half(
            "repair-dropout",
            "seeds PyTorch's generator",
            "rng-not-restored",
            dropped,
            **_seeding_all(solved["draw"]),
        ),
        half(
            "repair-dropout",
            "reads the mask off the output",
            "wrong-region",
            dropped,
            **_mask_of_the_output(dropped),
        ),
    ]


def _masked_after_dividing(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g / x * (x >= ctx.floor), None


def _weakly_on_ctx(ctx: Any, x: Any) -> Any:
    y = x / (1 + x.abs())
    ctx.y = weakref.ref(y)
    return y


def _floored(ctx: Any, x: Any, floor: float) -> Any:
    x = x.clamp(min=floor)
    ctx.save_for_backward(x)
    return x.log()


def _put_back(ctx: Any, x: Any, floor: float) -> Any:
    x.data = x.data.clamp(min=floor)
    ctx.save_for_backward(x)
    return x.log()


def _declared(ctx: Any, x: Any, floor: float) -> Any:
    x.clamp_(min=floor)
    ctx.mark_dirty(x)
    ctx.save_for_backward(x)
    return x.log()


def _looked_up(ctx: Any, g: Any, zeros: Callable[[Any], Any]) -> Any:
    table, index, fraction = ctx.saved_tensors
    grad_table = zeros(table)
    grad_table[index] += (1 - fraction) * g
    grad_table[index + 1] += fraction * g
    return grad_table, None, (table[index + 1] - table[index]) * g


def _summed_in_float32(ctx: Any, g: Any) -> Any:
    table, index, fraction = ctx.saved_tensors
    grad_table = torch.zeros(len(table))
    grad_table.index_put_((index,), ((1 - fraction) * g).float(), accumulate=True)
    grad_table.index_put_((index + 1,), (fraction * g).float(), accumulate=True)
    return grad_table, None, (table[index + 1] - table[index]) * g


def _detached_on_ctx(ctx: Any, x: Any) -> Any:
    y = x / (1 + x.abs())
    ctx.y = y.detach()
    return y


def _deleting(ctx: Any, g: Any) -> Any:
    gradient = g * (1 - ctx.y.abs()) ** 2
    del ctx.y
    return gradient


def _on_the_class() -> dict[str, Any]:
    tape: list[Any] = []

    def forward(ctx: Any, x: Any, steps: Any) -> Any:
        tape.clear()
        for h in steps:
            tape.append((h, x))
            x = x - h * x.sin()
        return x.clone()

    def backward(ctx: Any, g: Any) -> Any:
        for h, state in reversed(tape):
            g = g * (1 - h * state.cos())
        return g, None

    return {"forward": forward, "backward": backward}


def _turned_around(ctx: Any, g: Any) -> Any:
    ctx.tape.reverse()
    for i, h in ctx.tape:
        g = g * (1 - h * ctx.saved_tensors[i].cos())
    ctx.tape = ctx.tape[:-1]
    return g, None


def _with_sin(ctx: Any, g: Any) -> Any:
    for h, state in zip(ctx.steps, ctx.saved_tensors, strict=True):
        g = g * (1 - h * state.sin())
    return g, None


def _normed(ctx: Any, g: Any, around: Any) -> Any:
    (x,) = ctx.saved_tensors
    with around:
        r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return r * g - r**3 * x * (g * x).mean(-1, keepdim=True)


def _r_held_fixed(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _unscaled(ctx: Any, g: Any) -> Any:
    generator = torch.Generator(g.device).manual_seed(ctx.seed)
    return g * (torch.rand(g.shape, generator=generator, device=g.device) >= ctx.p), None, None


def _generator_on_ctx(draw: Any) -> dict[str, Any]:
    def forward(ctx: Any, x: Any, p: float, seed: int) -> Any:
        ctx.p, ctx.generator = p, torch.Generator(x.device).manual_seed(seed)
        return x * draw(x, p, ctx.generator) / (1 - p)

    def backward(ctx: Any, g: Any) -> Any:
        return g * draw(g, ctx.p, ctx.generator) / (1 - ctx.p), None, None

    return {"forward": forward, "backward": backward}


def _seeding_all(draw: Any) -> dict[str, Any]:
    def forward(ctx: Any, x: Any, p: float, seed: int) -> Any:
        torch.manual_seed(seed)
        kept = draw(x, p)
        ctx.save_for_backward(kept)
        ctx.p = p
        return x * kept / (1 - p)

    def backward(ctx: Any, g: Any) -> Any:
        (kept,) = ctx.saved_tensors
        return g * kept / (1 - ctx.p), None, None

    return {"forward": forward, "backward": backward}


def _mask_of_the_output(right: Any) -> dict[str, Any]:
    def forward(ctx: Any, x: Any, p: float, seed: int) -> Any:
        y = right.forward(ctx, x, p, seed)
        ctx.save_for_backward(y)
        ctx.p = p
        return y

    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (y != 0) / (1 - ctx.p), None, None

    return {"forward": forward, "backward": backward}
