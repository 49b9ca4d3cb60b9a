"""Odd forward methods that users should not write. Each name says what is odd."""

from __future__ import annotations

import contextlib
import random
import sys
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fuzz.odd_methods import ERRORS, Call, endless, raising, returning, right, tensor_of


def _printing(ctx: Any, *args: Any) -> Any:
    print("\x1b[2J printed")
    print("printed", file=sys.stderr)
    return right(ctx, *args)


def _warning(ctx: Any, *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.warn("meant", stacklevel=1)
    return tensor_of(args)


def _meddling(ctx: Any, *args: Any) -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    warnings.simplefilter("error")
    torch.set_grad_enabled(False)
    return right(ctx, *args)


def _in_place(ctx: Any, *args: Any) -> Any:
    ctx.count = len(args)
    for arg in args:
        if isinstance(arg, Tensor) and arg.is_floating_point():
            arg.mul_(2)
            ctx.mark_dirty(arg)
            return arg
    return torch.zeros(2)


def _view(ctx: Any, *args: Any) -> Any:
    ctx.count = len(args)
    return next((a.view(-1) for a in args if isinstance(a, Tensor)), torch.zeros(2))


def _branching(ctx: Any, *args: Any) -> Any:
    ctx.count = len(args)
    doubled = tensor_of(args)
    return doubled if float(doubled.sum()) > 0 else -doubled


_GROWN: list[Tensor] = []


def _growing(ctx: Any, *args: Any) -> Any:
    _GROWN.append(tensor_of(args))
    ctx.count = len(args)
    return _GROWN[-1] * len(_GROWN)


def _random(ctx: Any, *args: Any) -> Any:
    ctx.count = len(args)
    found = tensor_of(args)
    return found * torch.rand_like(found)


def _shrinking(ctx: Any, *args: Any) -> Any:
    """Return a different number of values at every second call."""
    right(ctx, *args)
    _GROWN.append(torch.zeros(1))
    return torch.zeros(1 + len(_GROWN) % 2) + tensor_of(args).sum()


def _saving(*things: Any) -> Call:
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.save_for_backward(*things)
        return right(ctx, *args)

    return forward


def _swallowing(ctx: Any, *args: Any) -> Any:
    with contextlib.suppress(BaseException):
        raise KeyboardInterrupt
    return right(ctx, *args)


def _with_graph(ctx: Any, *args: Any) -> Any:
    with torch.enable_grad():
        ctx.x = tensor_of(args).detach().requires_grad_()
        ctx.y = ctx.x.exp()
    ctx.count = len(args)
    return ctx.y.detach()


FORWARDS: dict[str, Call] = {
    "right": right,
    **{f"raises {name}": raising(error) for name, error in ERRORS.items()},
    **{
        f"returns {value!r:.30}": returning(value)
        for value in (None, 3, "x", (), [], {}, (None, None), ..., [torch.ones(2)], object)
    },
    "returns a constant": returning(torch.ones(2)),
    "returns integers": returning(torch.arange(3)),
    "returns a scalar and None": lambda ctx, *args: (tensor_of(args), None),
    "returns the same twice": lambda ctx, *args: (lambda y: (y, y))(tensor_of(args)),
    "returns its input": lambda ctx, *args: args[0] if args else None,
    "returns a generator": lambda ctx, *args: (tensor_of(args) for _ in range(2)),
    "returns nan": lambda ctx, *args: tensor_of(args) * float("nan"),
    "returns infinity": lambda ctx, *args: tensor_of(args) + float("inf"),
    "returns sparse": lambda ctx, *args: tensor_of(args).to_sparse(),
    "returns meta": lambda ctx, *args: tensor_of(args).to("meta"),
    "returns complex": lambda ctx, *args: tensor_of(args) + 0j,
    "returns half": lambda ctx, *args: tensor_of(args).half(),
    "returns a hundred": lambda ctx, *args: (tensor_of(args),) * 100,
    "returns much": lambda ctx, *args: tensor_of(args).sum() + torch.zeros(300, 300),
    "never ends in itself": endless,
    "prints": _printing,
    "makes a warning an error": _warning,
    "meddles": _meddling,
    "in place": _in_place,
    "view": _view,
    "branches": _branching,
    "grows": _growing,
    "random": _random,
    "shrinks": _shrinking,
    "saves None": _saving(None),
    "saves a number": _saving(3),
    "saves a module": _saving(torch.nn.Linear(2, 2)),
    "swallows": _swallowing,
    "keeps a graph": _with_graph,
    "marks nonsense dirty": lambda ctx, *args: (ctx.mark_dirty(3), tensor_of(args))[1],
    "marks nothing differentiable": lambda ctx, *args: (
        lambda y: (ctx.mark_non_differentiable(y), y)[1]
    )(tensor_of(args)),
    "takes nothing": lambda: torch.ones(2),
    "takes two": lambda ctx, x: x * 2,
    "takes keywords": lambda ctx, x, *, scale=2: x * scale,
    "takes a needed keyword": lambda ctx, x, *, scale: x * scale,
    "takes defaults": lambda ctx, x=None, y=3, **more: tensor_of((x,)),
    "is no routine": 3,  # type: ignore[dict-item]
}
