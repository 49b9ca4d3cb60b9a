"""Odd backward methods that users should not write. Each name says what is odd."""

from __future__ import annotations

import torch

from fuzz.odd_methods import ERRORS, Call, endless, raising, returning, right_back

BACKWARDS: dict[str, Call] = {
    "right": right_back,
    **{f"raises {name}": raising(error) for name, error in ERRORS.items()},
    **{
        f"returns {value!r:.30}": returning(value)
        for value in (None, 3, "x", (), [], {}, (None, None), ..., object)
    },
    "returns a list": lambda ctx, *gs: list(right_back(ctx, *gs)),
    "returns a generator": lambda ctx, *gs: (g for g in gs),
    "returns integers": lambda ctx, *gs: torch.ones(gs[0].shape, dtype=torch.int64),
    "returns complex": lambda ctx, *gs: gs[0] + 0j,
    "returns nan": lambda ctx, *gs: gs[0] * float("nan"),
    "returns another dtype": lambda ctx, *gs: gs[0].half(),
    "returns sparse": lambda ctx, *gs: (gs[0].to_sparse(), *[None] * (ctx.count - 1)),
    "returns meta": lambda ctx, *gs: gs[0].to("meta"),
    "returns an array": lambda ctx, *gs: gs[0].numpy(),
    "takes nothing": lambda: None,
    "takes too many": lambda ctx, g, h, i: g,
    "never ends in itself": endless,
    "prints": lambda ctx, *gs: (print("backward"), right_back(ctx, *gs))[1],
    "changes grad_output": lambda ctx, *gs: (gs[0].mul_(2), *[None] * (ctx.count - 1)),
    "reads what is not there": lambda ctx, *gs: ctx.missing * gs[0],
    "reads saved": lambda ctx, *gs: ctx.saved_tensors[0] * gs[0],
    "detached": lambda ctx, *gs: (gs[0].detach() * 2, *[None] * (ctx.count - 1)),
    "in no_grad": torch.no_grad()(right_back),
    "random": lambda ctx, *gs: torch.rand_like(gs[0]) * gs[0],
    "through the graph": lambda ctx, *gs: torch.autograd.grad(ctx.y, ctx.x, gs[0])[0],
    "twice through the graph": lambda ctx, *gs: ctx.y.backward(gs[0]),
    "is no routine": 3,  # type: ignore[dict-item]
}
