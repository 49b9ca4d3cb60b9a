"""State and memory: what a call saves, draws, captures and leaves behind."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from cases.making import IDX, TABLE, Case, X, Y, draw, raw, saving


def keep(ctx: Any, **things: Any) -> None:
    vars(ctx).update(things)


def save(ctx: Any, *tensors: Tensor) -> None:
    ctx.save_for_backward(*tensors)


# Random numbers, and differences between calls

GENERATOR = torch.Generator().manual_seed(5)


def cropped_without_zeros(x: Tensor, g: Tensor) -> Tensor:
    grad = g.new_empty(x.shape)
    grad[:, :3] = g
    return grad


def cropped_with_zeros(x: Tensor, g: Tensor) -> Tensor:
    grad = g.new_empty(x.shape)
    grad[:, :3], grad[:, 3:] = g, 0
    return grad


class Annealed(Function):
    """Noise that decreases with the number of calls."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Annealed.calls += 1
        ctx.factor = 1 + 1 / Annealed.calls
        return ctx.factor * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return ctx.factor * g


def unseeded(ctx: Any, x: Tensor) -> Tensor:
    ctx.keep = torch.from_numpy(np.random.default_rng().random(x.shape) < 0.5)
    return x * ctx.keep.to(x)


def by_the_clock(ctx: Any, x: Tensor) -> Tensor:
    ctx.tick = 1 + time.perf_counter_ns() % 1000 / 1000
    return x * ctx.tick


def dropped(ctx: Any, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    mask = (torch.rand(x.shape, generator=generator, device=x.device) < 0.5).to(x)
    save(ctx, x, mask)
    return mask * x.sin()


def dropped_by_mask(ctx: Any, g: Tensor) -> Tensor:
    x, mask = ctx.saved_tensors
    return mask * x.cos() * g


def noisy(x: Tensor) -> Tensor:
    return x * torch.from_numpy(np.random.standard_normal(x.shape)).to(x)


def dropped_lazily(ctx: Any, x: Tensor) -> Tensor:
    ctx.state = torch.get_rng_state()
    save(ctx, x)
    return F.dropout(x.sin(), 0.5)


def redropped(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return F.dropout(torch.ones_like(x), 0.5) * x.cos() * g


def redropped_from_the_same_state(ctx: Any, g: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(ctx.state)
        return redropped(ctx, g)


class DroppedByTheClass(Function):
    mask: Tensor

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        DroppedByTheClass.mask = torch.rand(x.shape) < 0.5
        return x * DroppedByTheClass.mask

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * DroppedByTheClass.mask


# Modules and captured tensors


class Observed(nn.Module):
    """A tanh that keeps a running range of its inputs, as quantization needs it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("largest", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.largest = 0.9 * self.largest + 0.1 * x.detach().abs().max()
        return x.tanh()


class Rerun(Function):
    """Runs a module or a function again in backward instead of saving its intermediate results."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Tensor, *weights: Tensor) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(x, *weights)
        return run(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, *weights = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        x = x.detach().requires_grad_(needs[0])
        with torch.enable_grad():
            y = ctx.run(x)
        by = [t for t, need in zip((x, *weights), needs, strict=True) if need]
        grads = iter(torch.autograd.grad(y, by, g))
        return None, *(next(grads) if need else None for need in needs)


class RerunQuietly(Rerun):
    """The same, but the second run does not change the module's state."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        kept = {name: buffer.clone() for name, buffer in ctx.run.named_buffers()}
        grads = Rerun.backward(ctx, g)
        ctx.run.load_state_dict(kept, strict=False)
        return grads


class RerunAccumulating(Rerun):
    """The same, but backward also accumulates the gradients of the parameters."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        torch.autograd.backward(y, g)
        return None, x.grad


def seeded(module: nn.Module, dtype: torch.dtype = torch.float32) -> nn.Module:
    for k, parameter in enumerate(module.parameters()):
        parameter.data = draw(*parameter.shape, seed=k).to(dtype)
    return module


LAYER, DOUBLE_LAYER = seeded(nn.Linear(4, 5)), seeded(nn.Linear(4, 5), torch.float64)
NORM, PLAIN_NORM = nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False)
SCALE = (draw(4, seed=9) + 2).requires_grad_()
THRESHOLD = torch.tensor(0.1, requires_grad=True)
FROZEN = draw(4, seed=9) + 2
Product = saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, g.T @ x))
Scaled = saving(lambda x: x * SCALE, lambda x, g: g * SCALE.detach())
Summed = raw(lambda ctx, x, ws: (keep(ctx, ws=ws), sum(x * w for w in ws))[1],
             lambda ctx, g: (sum(g * w for w in ctx.ws), None))  # fmt: skip

# Repeated backward passes


def accumulating(ctx: Any, g: Tensor) -> Tensor:
    ctx.total.add_(ctx.slope * g)
    return ctx.total.clone()


def averaging(ctx: Any, g: Tensor) -> Tensor:
    ctx.count /= ctx.rows
    return g.expand(ctx.rows, -1) * ctx.count


def replacing_a_number(ctx: Any, g: Tensor) -> Tensor:
    slope, ctx.slope = ctx.slope, torch.full_like(g, 5.0)
    return slope * g


def replacing_a_tensor(ctx: Any, g: Tensor) -> Tensor:
    slope, ctx.slope = ctx.slope, 5.0
    return slope * g


def replacing_a_list(ctx: Any, g: Tensor) -> Tensor:
    slopes, ctx.slopes = ctx.slopes, 5.0
    return slopes[0] * g if isinstance(slopes, list) else slopes * g


def remembering(ctx: Any, g: Tensor) -> Tensor:
    if not hasattr(ctx, "slope"):
        ctx.slope = ctx.saved_tensors[0].cos()
    return ctx.slope * g


def factor_by_factor(ctx: Any, g: Tensor) -> Tensor:
    for factor in ctx.factors:
        g = g * factor
    return g


def freeing(ctx: Any, g: Tensor) -> Tensor:
    mask = ctx.__dict__.pop("mask")
    if mask is None:
        raise RuntimeError("freed")
    return mask * g


def read_twice(ctx: Any, g: Tensor) -> Any:
    return ctx.saved_tensors[1] * g, ctx.saved_tensors[0] * g


def read_in_a_loop(ctx: Any, g: Tensor) -> Any:
    return tuple(
        g * torch.stack([ctx.saved_tensors[j] for j in range(2) if j != i]).prod(0)
        for i in range(2)
    )


def read_once(ctx: Any, g: Tensor) -> Any:
    x, y = ctx.saved_tensors
    return (y + 0 * x) * g, (x + 0 * y) * g


# The contents of ctx


def kept_output(ctx: Any, x: Tensor) -> Tensor:
    ctx.y = x.exp()
    return ctx.y


def kept_state(ctx: Any, x: Tensor) -> Tensor:
    ctx.state, ctx.scale, ctx.shape = torch.get_rng_state(), 2.0, x.shape
    return ctx.scale * x


class Solver:
    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx

    def solve(self, g: Tensor) -> Tensor:
        (a,) = self.ctx.saved_tensors
        return torch.linalg.solve(a.mT, g)


def solving(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
    x = torch.linalg.solve(a, b)
    ctx.solver, ctx.x = Solver(ctx), x.detach().clone().tolist()
    save(ctx, a)
    return x


def solved(ctx: Any, g: Tensor) -> Any:
    gb = ctx.solver.solve(g)
    return -gb @ gb.new_tensor(ctx.x).mT, gb


def with_a_closure(ctx: Any, x: Tensor) -> Tensor:
    save(ctx, x)
    ctx.slope = lambda: ctx.saved_tensors[0].cos()
    return x.sin()


def with_a_closure_of_numbers(ctx: Any, x: Tensor, factor: float) -> Tensor:
    ctx.slope = lambda g: factor * g
    return factor * x


MATRIX = draw(3, 3, seed=4) + 3 * torch.eye(3, dtype=torch.float64)


def keeps_the_output(ctx: Any, x: Tensor) -> Tensor:
    ctx.y = 2 * x
    return ctx.y


class GainOnTheClass(Function):
    """Backward uses the last call's gain, even if it belongs to an earlier call."""

    @staticmethod
    def forward(ctx, x, gain):
        GainOnTheClass.gain = gain
        ctx.save_for_backward(x)
        return torch.sin(gain * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * GainOnTheClass.gain * torch.cos(GainOnTheClass.gain * x), None


class LengthOnTheClass(Function):
    """Right if all calls use the same table, and wrong for two tables."""

    @staticmethod
    def forward(ctx, table, index):
        LengthOnTheClass.length = len(table)
        ctx.save_for_backward(index)
        return table[index]

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        return g.new_zeros(LengthOnTheClass.length, *g.shape[1:]).index_add(0, index, g), None


class MaskOnTheClass(Function):
    """Rows with different lengths. Backward reads the last call's mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor) -> Tensor:
        MaskOnTheClass.kept = torch.arange(x.shape[1]) < lengths[:, None]
        return x * MaskOnTheClass.kept

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * MaskOnTheClass.kept, None


class TupleOnTheClass(Function):
    """Keeps its input in a tuple on the class. Comparing two such tuples would give a tensor."""

    @staticmethod
    def forward(ctx, x):
        TupleOnTheClass.kept = (x, 2)
        return x**2

    @staticmethod
    def backward(ctx, g):
        x, power = TupleOnTheClass.kept
        return power * x * g


def cached(key: Any) -> type[Function]:
    """Multiply by a window that is kept under a key."""
    windows: dict[Any, Tensor] = {}

    def forward(ctx, x, width):
        window = windows.setdefault(key(x, width), torch.exp(-torch.arange(len(x)).to(x) / width))
        save(ctx, window)
        return (x.mT * window).mT

    return raw(forward, lambda ctx, g: ((g.mT * ctx.saved_tensors[0]).mT, None))


def cached_decay(ctx, x, rate, step):
    """Multiply by a factor that is kept under only one of the numbers it depends on."""
    factor = FACTORS.setdefault(step, torch.tensor(-rate * step, dtype=x.dtype).exp())
    save(ctx, factor)
    return factor * x


FACTORS: dict[float, Tensor] = {}
ROWS: dict[int, Tensor] = {}


def sparse_product(ctx, starts, values, x):
    """Keep the row of each element under the number of elements."""
    row = ROWS.setdefault(
        len(values), torch.arange(len(starts) - 1).repeat_interleave(starts.diff())
    )
    save(ctx, row, values, x)
    return x.new_zeros(len(starts) - 1).index_add(0, row, values * x)


def sparse_gradients(ctx, g):
    row, values, x = ctx.saved_tensors
    return None, g[row] * x, g[row] * values


class CallsOnTheClass(Function):
    """Counts its calls, but no gradient depends on the count."""

    calls = 0

    @staticmethod
    def forward(ctx, x, gain):
        CallsOnTheClass.calls += 1
        ctx.gain = gain
        return gain * x

    @staticmethod
    def backward(ctx, g):
        return ctx.gain * g, None


WITNESSES = [
    Case("shared-state", "a number kept on the class", GainOnTheClass, (X, 3.0)),
    Case("shared-state", "tensors in a tuple on the class", TupleOnTheClass, (X,)),
    Case("shared-state", "a length kept on the class", LengthOnTheClass, (X, torch.tensor([0, 2, 2]))),
    Case("shared-state", "a dropout mask kept on the class", DroppedByTheClass, (X,)),
    Case("shared-state", "a mask of integers kept on the class",
         MaskOnTheClass, (X, torch.tensor([1, 4, 2]))),
    Case("shared-state", "a cache without the width in its key",
         cached(lambda x, width: len(x)), (X, 3.0)),
    Case("shared-state", "a cache with one of two numbers in its key",
         raw(cached_decay, lambda ctx, g: (ctx.saved_tensors[0] * g, None, None)), (X, 0.7, 0.5)),
    Case("shared-state", "a cache without the indices in its key",
         raw(sparse_product, sparse_gradients), (torch.tensor([0, 1, 4]), draw(4), draw(4))),
    Case("nondeterministic", "a crop whose gradient is never zeroed",
         saving(lambda x: x[:, :3].clone(), cropped_without_zeros), (X,)),
    Case("nondeterministic", "annealed by a counter on the class", Annealed, (X,)),
    Case("nondeterministic", "a generator that the system seeds",
         raw(unseeded, lambda ctx, g: g * ctx.keep.to(g)), (X,)),
    Case("nondeterministic", "the clock", raw(by_the_clock, lambda ctx, g: ctx.tick * g), (X,)),
    Case("rng-not-restored", "dropout recomputed", raw(dropped_lazily, redropped), (X,)),
    Case("rng-not-restored", "NumPy's noise drawn once more",
         saving(noisy, lambda x, g: noisy(g)), (X,)),
    Case("rng-not-restored", "a generator of its own, drawn from again",
         saving(lambda x: x * torch.rand(x.shape, generator=GENERATOR),
                lambda x, g: g * torch.rand(x.shape, generator=GENERATOR)), (X,)),
    Case("recompute-side-effect", "batch statistics", Rerun, (PLAIN_NORM, X)),
    Case("recompute-side-effect", "a running range, in a callable",
         lambda x, module: Rerun.apply(module, x), (X, Observed())),
    Case("captured-tensor", "a weight from around the Function", Scaled, (X,)),
    Case("captured-tensor", "the weights of a ReLU network", Rerun,
         (seeded(nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 3))), X)),
    Case("captured-tensor", "weights in a list", Summed,
         (X.clone().requires_grad_(), [SCALE, FROZEN.clone().requires_grad_()])),
    Case("captured-tensor", "a module that is run again", Rerun, (LAYER, X)),
    Case("captured-tensor", "a layer in a callable", lambda x: Rerun.apply(LAYER, x).sum(-1), (X,)),
    Case("captured-tensor", "a function that closes over a layer, in a callable",
         lambda x: Rerun.apply(lambda x: LAYER(x).tanh(), x), (X,)),
    Case("not-reentrant", "a buffer on ctx that adds up",
         raw(lambda ctx, x: (keep(ctx, slope=3.0, total=torch.zeros_like(x)), 3 * x)[1],
             accumulating), (X,)),
    Case("not-reentrant", "a factor divided in place",
         raw(lambda ctx, x: (keep(ctx, rows=len(x), count=1.0), x.mean(0))[1], averaging), (X,)),
    Case("not-reentrant", "a number that becomes a tensor",
         raw(lambda ctx, x: (keep(ctx, slope=2.0), 2 * x)[1], replacing_a_number), (X,)),
    Case("not-reentrant", "a tensor that becomes a number",
         raw(lambda ctx, x: (keep(ctx, slope=torch.full_like(x, 2.0)), 2 * x)[1],
             replacing_a_tensor), (X,)),
    Case("not-reentrant", "a list that becomes a number",
         raw(lambda ctx, x: (keep(ctx, slopes=[2.0]), 2 * x)[1], replacing_a_list), (X,)),
    Case("not-reentrant", "an iterator that is read to its end",
         raw(lambda ctx, x: (keep(ctx, factors=iter((2.0, 3.0))), 6 * x)[1], factor_by_factor), (X,)),
    Case("not-reentrant", "what the first backward has taken away",
         raw(lambda ctx, x: (keep(ctx, mask=2.0), 2 * x)[1], freeing), (X,)),
    Case("tensor-on-ctx", "the input",
         raw(lambda ctx, x: (keep(ctx, x=x), x * x)[1], lambda ctx, g: 2 * ctx.x * g), (X,)),
    Case("tensor-on-ctx", "the output", raw(kept_output, lambda ctx, g: ctx.y * g), (X,)),
    Case("tensor-on-ctx", "an index",
         raw(lambda ctx, t, i: (keep(ctx, i=i, n=len(t)), t[i])[1],
             lambda ctx, g: (g.new_zeros(ctx.n, 3).index_add(0, ctx.i, g), None)), (TABLE, IDX)),
    Case("tensor-on-ctx", "an intermediate result, in a list",
         raw(lambda ctx, x: (keep(ctx, kept=[x.cos()]), x.sin())[1],
             lambda ctx, g: ctx.kept[0] * g), (X,)),
    Case("tensor-on-ctx", "an input, in a callable",
         lambda x: raw(lambda ctx, x: (keep(ctx, x=x), x.exp())[1],
                       lambda ctx, g: ctx.x.exp() * g).apply(2 * x), (X,)),
    Case("ctx-cycle", "a closure over ctx",
         raw(with_a_closure, lambda ctx, g: ctx.slope() * g), (X,)),
    Case("ctx-cycle", "a solver that was given ctx", raw(solving, solved), (MATRIX, draw(3, 2))),
    Case("saved-twice", "one tensor from each reading",
         raw(lambda ctx, x, y: (save(ctx, x, y), x * y)[1], read_twice), (X, Y)),
    Case("saved-twice", "in a loop",
         raw(lambda ctx, x, y: (save(ctx, x, y), x * y)[1], read_in_a_loop), (X, Y)),
]  # fmt: skip

LOOKALIKES = [
    Case("shared-state", "calls counted on the class", CallsOnTheClass, (X, 3.0)),
    Case("shared-state", "a cache with everything in its key",
         cached(lambda x, width: (len(x), width, x.dtype, x.device)), (X, 3.0)),
    Case("nondeterministic", "dropout with a generator of its own",
         raw(lambda ctx, x: dropped(ctx, x, GENERATOR), dropped_by_mask), (X,)),
    Case("nondeterministic", "empty memory that is filled",
         saving(lambda x: x[:, :3].clone(), cropped_with_zeros), (X,)),
    Case("rng-not-restored", "a saved mask", raw(dropped, dropped_by_mask), (X,)),
    Case("rng-not-restored", "dropout recomputed from the same state",
         raw(dropped_lazily, redropped_from_the_same_state), (X,)),
    Case("recompute-side-effect", "statistics held still", RerunQuietly, (PLAIN_NORM, X)),
    Case("recompute-side-effect", "a module in evaluation mode",
         lambda x: Rerun.apply(PLAIN_NORM.eval(), x), (X,)),
    Case("recompute-side-effect", "statistics advanced by forward alone",
         lambda x: NORM(Product.apply(x, LAYER.weight)[:, :4]), (X,)),
    Case("captured-tensor", "a module and its parameters",
         Rerun, (LAYER, X.float().requires_grad_(), *LAYER.parameters())),
    Case("captured-tensor", "a module and its parameters, in a callable",
         lambda x: Rerun.apply(LAYER, x, *LAYER.parameters()), (X,)),
    Case("captured-tensor", "a function and the weight that it closes over",
         lambda x: Rerun.apply(lambda x: (x * SCALE).sin(), x, SCALE), (X,)),
    Case("captured-tensor", "parameters that get theirs by a backward inside",
         RerunAccumulating, (DOUBLE_LAYER, X)),
    Case("captured-tensor", "a threshold that the output does not move with",
         saving(lambda x: torch.where(x > THRESHOLD, x, 0.0),
                lambda x, g: g * (x > THRESHOLD)), (X,)),
    Case("captured-tensor", "a weight around the Function",
         lambda x: Product.apply(x, LAYER.weight) + LAYER.bias, (X,)),
    Case("captured-tensor", "a frozen weight",
         saving(lambda x: x * FROZEN, lambda x, g: g * FROZEN), (X,)),
    Case("captured-tensor", "a teacher that learns nothing",
         lambda x: Product.apply(x, LAYER.weight.detach()), (X,)),
    Case("not-reentrant", "a slope computed once",
         raw(lambda ctx, x: (save(ctx, x), x.sin())[1], remembering), (X,)),
    Case("tensor-on-ctx", "numbers, a shape, the state of a generator",
         raw(kept_state, lambda ctx, g: ctx.scale * g), (X,)),
    Case("ctx-cycle", "a closure over numbers",
         raw(with_a_closure_of_numbers, lambda ctx, g: (ctx.slope(g), None)), (X, 3.0)),
    Case("ctx-cycle", "the output on ctx, which is told as such",
         raw(keeps_the_output, lambda ctx, g: 2 * g), (X,)),
    Case("ctx-cycle", "a saved output",
         raw(lambda ctx, x: (y := x.exp(), save(ctx, y))[0],
             lambda ctx, g: ctx.saved_tensors[0] * g), (X,)),
    Case("saved-twice", "unpacked once, used twice",
         raw(lambda ctx, x, y: (save(ctx, x, y), x * y)[1], read_once), (X, Y)),
]  # fmt: skip
