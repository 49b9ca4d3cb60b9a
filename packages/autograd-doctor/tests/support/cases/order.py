"""Higher order and transforms: second derivatives, forward mode, vmap, torch.compile, torch.func."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from cases.making import CPLX, IDX, POSITIVE, TABLE, Call, Case, W, X, Y, draw, raw, saving

FULL = {"level": "full"}
ASKED = {"double_backward": True}
WITH_ZERO = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)

# Second order


def keeping(make: Call, output: Call, backward: Call) -> type[Function]:
    """Return a Function of one input that saves the input and an intermediate result."""

    def forward(ctx: Any, x: Tensor) -> Any:
        between = make(x)
        ctx.save_for_backward(x, between)
        return output(x, between)

    return raw(forward, lambda ctx, *gs: backward(*ctx.saved_tensors, *gs))


def swish_gradient(x: Tensor, s: Tensor, g: Tensor) -> Tensor:
    return g * (s + x * s * (1 - s))


def mlp(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w.T)


def on_detached_inputs(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        y = mlp(*leaves)
    return torch.autograd.grad(y, leaves, g)


def sinc_gradient(x: Tensor, g: Tensor) -> Tensor:
    """Replace 0/0 by its limit. The first derivative is right, but its graph contains 0 · nan."""
    return g * torch.where(x == 0, 0.0, (x * x.cos() - x.sin()) / x.square())


def bump(x: Tensor) -> Tensor:
    """exp(-1/x) for positive x, otherwise 0. The function is smooth everywhere."""
    return torch.where(x > 0, (-1 / x.where(x > 0, 1.0)).exp(), 0.0)


def bump_gradient(x: Tensor, g: Tensor) -> Tensor:
    return g * bump(x) / x.where(x > 0, 1.0).square()


def on_the_inputs(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        views = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in (x, w)]
        y = mlp(*views)
    return torch.autograd.grad(y, views, g, create_graph=torch.is_grad_enabled())


def polar(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Save direction cosines, and compute them a second time for the output."""
    r = torch.hypot(x, y)
    ctx.save_for_backward(r, x / r, y / r)
    return r, x / r, y / r


def polar_outputs(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    r = torch.hypot(x, y)
    outputs = r, x / r, y / r
    ctx.save_for_backward(*outputs)
    return outputs


def polar_backward(ctx: Any, gr: Tensor, gc: Tensor, gs: Tensor) -> tuple[Tensor, Tensor]:
    r, c, s = ctx.saved_tensors
    across = (s * gc - c * gs) / r
    return c * gr + s * across, s * gr - c * across


def sinh_and_cosh(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    outputs = x.sinh(), x.cosh()
    ctx.save_for_backward(*outputs)
    return outputs


Exp = saving(torch.exp, lambda x, g: x.exp() * g)


def once(f: Call, b: Call) -> type[Function]:
    """Return a Function that saves its argument and has a once-differentiable backward."""

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return f(x)

    return raw(forward, once_differentiable(lambda ctx, g: b(*ctx.saved_tensors, g)))


def refusing(x: Tensor, g: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        raise NotImplementedError("Sine cannot be differentiated twice")
    return x.cos() * g


def refusing_every_call(*_: Any) -> None:
    raise NotImplementedError("not yet")


def refusing_the_second(x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if b.any():
        raise NotImplementedError("no tangent of y")
    return y * a


def distances_backward(x: Tensor, g: Tensor) -> Tensor:
    return torch.ops.aten._pdist_backward(g, x.contiguous(), 3.0, F.pdist(x, 3.0))


def from_the_end(g: Tensor) -> Tensor:
    return g.flip(-1).cumsum(-1).flip(-1)


# Forward without ctx


def split(
    forward: Call, backward: Call, *, setup: Call | None = None, **more: Any
) -> type[Function]:
    """Return a Function with a setup_context, which saves the tensors unless ``setup`` is given."""

    class Made(Function):
        generate_vmap_rule = more.get("generate_vmap_rule", False)

    Made.forward, Made.backward = staticmethod(forward), staticmethod(backward)
    Made.setup_context = staticmethod(setup or save_inputs)
    for name in ("jvp", "vmap"):
        if name in more:
            setattr(Made, name, staticmethod(more[name]))
    return Made


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def save_output(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)
    ctx.save_for_forward(output)


def with_slope(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    save_inputs(ctx, inputs, output)
    ctx.slope = inputs[0].cos()


def saved(backward: Call) -> Call:
    """Return a method that passes the saved tensors to ``backward`` before its other arguments."""
    return lambda ctx, *args: backward(*ctx.saved_tensors, *args)


def sine(jvp: Call) -> type[Function]:
    return split(lambda x: x.sin(), saved(lambda x, g: x.cos() * g), jvp=saved(jvp))


def product(jvp: Call) -> type[Function]:
    return split(lambda x, y: x * y, saved(lambda x, y, g: (y * g, x * g)), jvp=saved(jvp))


def norm_and_sum(jvp: Call) -> type[Function]:
    return split(
        lambda x: (x.square().sum(-1), x.sum(-1)),
        saved(lambda x, a, b: 2 * x * a[:, None] + b[:, None].expand_as(x)),
        jvp=saved(jvp),
    )


# Vmap


def softmax_gradient(y: Tensor, g: Tensor) -> Tensor:
    return y * (g - (g * y).sum(-1, keepdim=True))


def to_front(x: Tensor, dim: int | None, size: int) -> Tensor:
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def running_sum(vmap: Callable[..., tuple[Tensor, Any]]) -> type[Function]:
    """Return the running sum over the first axis of each slice, with a vmap rule."""

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g.flip(ctx.axis).cumsum(ctx.axis).flip(ctx.axis), None

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.axis = inputs[1]

    made = split(lambda x, axis: x.cumsum(axis), backward, setup=setup)
    made.vmap = staticmethod(lambda info, dims, x, axis: vmap(made, dims[0], x, axis))
    return made


def matrix_product(vmap: Callable[..., tuple[Tensor, Any]]) -> type[Function]:
    """Return ``x Wᵀ`` for matrices or stacks of matrices, with a vmap rule."""

    def backward(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return (g @ w).sum_to_size(x.shape), (g.mT @ x).sum_to_size(w.shape)

    made = split(lambda x, w: x @ w.mT, saved(backward))
    made.vmap = staticmethod(lambda info, dims, x, w: vmap(made, info.batch_size, dims, x, w))
    return made


def any_dims(made: type[Function], size: int, dims: Any, x: Tensor, w: Tensor) -> Any:
    return made.apply(to_front(x, dims[0], size), to_front(w, dims[1], size)), 0


def first_dims(made: type[Function], size: int, dims: Any, x: Tensor, w: Tensor) -> Any:
    stacks = (
        t if dim == 0 else t.expand(size, *t.shape) for t, dim in ((x, dims[0]), (w, dims[1]))
    )
    return made.apply(*stacks), 0


def rows_at(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


def rows_at_backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
    (index,) = ctx.saved_tensors
    return g.new_zeros(ctx.rows, *g.shape[1:]).index_add(0, index, g), None


def rows_at_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.rows = inputs[0].shape[0]


class RowsAt(Function):
    """Selects rows by index. Its vmap rule says that all slices must share the index."""

    forward, backward = staticmethod(rows_at), staticmethod(rows_at_backward)
    setup_context = staticmethod(rows_at_setup)

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor, index: Tensor) -> tuple[Tensor, int]:
        if dims[1] is not None:
            raise NotImplementedError("one index for all slices")
        return RowsAt.apply(x.movedim(dims[0], 1), index), 1


class RoundsOtherwise(Function):
    """A sine whose vmap rule is right to eight digits, as if it used a different kernel."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    setup_context = staticmethod(save_inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x.cos() * g

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return RoundsOtherwise.apply(x) * (1 + 1e-8), dims[0]


class NumpyCube(Function):
    """The cube, computed by NumPy. Its vmap rule computes it for the whole stack."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.as_tensor(x.detach().cpu().numpy() ** 3, device=x.device)

    setup_context = staticmethod(save_inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return NumpyCube.apply(x), dims[0]


def drop(x: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    keep = (torch.rand_like(x) > rate).to(x.dtype) / (1 - rate)
    return x * keep, keep


def drop_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


Dropout = split(
    drop, saved(lambda keep, g, _: (keep * g, None)), setup=drop_setup, generate_vmap_rule=True
)

# torch.compile


class Logging(Function):
    """Logs the values that pass through it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 1.0 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        logging.getLogger(__name__).debug("the gradient's norm is %g", g.norm().item())
        return 1.0 * g


class CountedOnTheClass(Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        CountedOnTheClass.calls += 1
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return ctx.saved_tensors[0].cos() * g


def skipping_zeros(x: Tensor, g: Tensor) -> Tensor:
    if not g.any():
        return torch.zeros_like(x)
    return x.cos() * g


def sorted_with(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    values, index = x.sort(-1)
    ctx.mark_non_differentiable(index)
    ctx.save_for_backward(index)
    return values, index


def traced_otherwise(x: Tensor) -> Tensor:
    return x.sin() if not torch.compiler.is_compiling() else x - x**3 / 6


def where_positive(choose: Callable[..., Tensor], otherwise: Callable[..., Tensor]) -> Any:
    """Choose by the sign of the first argument's sum, with torch.cond, which compiles itself."""
    return lambda *args: torch.cond(args[0].sum() > 0, choose, otherwise, args)


class Scaling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, 1.0, 2.0, -1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return product(lambda x, y, a, b: y * a + x * b).apply(x, self.scale.expand_as(x)).sum(-1)


def saves_a_view(ctx: Any, x: Tensor) -> Tensor:
    y = x.logsumexp(-1)
    ctx.save_for_backward(x, y[:, None])
    return y


def from_a_view(ctx: Any, g: Tensor) -> Tensor:
    x, y = ctx.saved_tensors
    return g[:, None] * (x - y).exp()


WITNESSES = [
    Case("silent-double-backward", "log-sum-exp saves its softmax",
         keeping(lambda x: x.softmax(-1), lambda x, p: x.logsumexp(-1), lambda x, p, g: g[:, None] * p), (X,)),
    Case("silent-double-backward", "swish saves its sigmoid, and second derivatives are wanted",
         keeping(torch.sigmoid, lambda x, s: x * s, swish_gradient), (X,), ASKED),
    Case("silent-double-backward", "a recomputation on detached inputs", saving(mlp, on_detached_inputs), (X, W)),
    Case("silent-double-backward", "what is saved is equal to an output, but is not one",
         raw(polar, polar_backward), (X, Y)),
    Case("silent-double-backward", "a view of an output is saved",
         raw(saves_a_view, from_a_view), (X,), ASKED),
    Case("silent-double-backward", "grad_output is detached",
         saving(lambda x: 2 * x, lambda x, g: 2 * g.detach()), (X,)),
    Case("silent-double-backward", "complex, one factor detached",
         saving(lambda z: z * z, lambda z, g: 2 * z.detach().conj() * g), (CPLX,)),
    Case("silent-double-backward", "0/0 is replaced by its limit, once",
         saving(lambda x: torch.sinc(x / torch.pi), sinc_gradient), (torch.tensor([0.0, 0.5, 2.0, -1.0]),), ASKED),
    Case("silent-double-backward", "a broken power of 0",
         saving(lambda x: x**3, lambda x, g: 3 * g * (x.abs() ** 3) ** (2 / 3)), (WITH_ZERO,), ASKED),
    Case("once-differentiable-leak", "exp", once(torch.exp, lambda x, g: x.exp() * g), (X,)),
    Case("once-differentiable-leak", "a squared norm, and second derivatives are wanted",
         once(lambda x: x.square().sum(-1), lambda x, g: 2 * x * g[:, None]), (X,), ASKED),
    Case("once-differentiable-leak", "inside a loss",
         lambda x: once(F.softplus, lambda x, g: x.sigmoid() * g).apply(x).square().sum(), (X,)),
    Case("no-double-backward", "it refuses", saving(torch.sin, refusing), (X,)),
    Case("no-double-backward", "it refuses what is wanted", saving(torch.sin, refusing), (X,), ASKED),
    Case("no-double-backward", "an operation without a second derivative",
         saving(lambda x: F.pdist(x, 3.0), distances_backward), (X,)),
    Case("no-double-backward", "a linear map that is once differentiable",
         raw(lambda ctx, x: x.cumsum(-1), once_differentiable(lambda ctx, g: from_the_end(g))), (X,)),
    # Transforms
    Case("wrong-jvp", "a sign", sine(lambda x, t: -x.cos() * t), (X,)),
    Case("wrong-jvp", "one of two tangents", product(lambda x, y, a, b: y * a), (X, Y)),
    Case("wrong-jvp", "the second of two outputs",
         norm_and_sum(lambda x, t: (2 * (x * t).sum(-1), t.mean(-1))), (X,)),
    Case("wrong-jvp", "it raises", sine(lambda x, t: x.cos() @ t), (X,)),
    Case("wrong-jvp", "an operation does not exist for a sparse tensor",
         sine(lambda x, t: x.cos().to_sparse().cumsum(0) * t), (X,)),
    Case("wrong-jvp", "conjugated",
         split(lambda z: z * z, saved(lambda z, g: 2 * z.conj() * g), jvp=saved(lambda z, t: 2 * z.conj() * t)), (CPLX,)),
    Case("wrong-jvp", "a tangent is changed in place", sine(lambda x, t: t.mul_(x.cos())), (X,)),
    Case("silent-reverse-over-forward", "a detached factor", sine(lambda x, t: x.detach().cos() * t), (X,)),
    Case("silent-reverse-over-forward", "one of two factors, and second derivatives are wanted",
         split(lambda x: x**3, saved(lambda x, g: 3 * x**2 * g), jvp=saved(lambda x, t: 3 * x * x.detach() * t)), (X,),
         ASKED),
    Case("silent-reverse-over-forward", "an intermediate that forward left on ctx",
         split(lambda x: x.sin(), saved(lambda x, g: x.cos() * g), setup=with_slope,
               jvp=lambda ctx, t: ctx.slope * t), (X,), {"intentional": "tensor-on-ctx"}),
    Case("wrong-vmap", "an axis that is another one in the stack",
         running_sum(lambda made, dim, x, axis: (made.apply(x, axis), dim)), (X, 0)),
    Case("wrong-vmap", "every stack is taken for one along the first dimension", matrix_product(first_dims), (X, W)),
    Case("wrong-vmap", "a wrong out_dim",
         running_sum(lambda made, dim, x, axis: (made.apply(x.movedim(dim, 0), axis + 1), dim + 1)), (X, 0)),
    Case("wrong-vmap", "a branch on values, and a rule to be generated",
         split(lambda x: x.square() if x.sum() > -99 else x, saved(lambda x, g: 2 * x * g), generate_vmap_rule=True), (X,)),
    Case("wrong-vmap", "the old style, and a rule to be generated",
         type("OldStyle", (saving(torch.sin, lambda x, g: x.cos() * g),), {"generate_vmap_rule": True}), (X,)),
    Case("compile-mismatch", "a branch on grad_output's values", saving(torch.sin, skipping_zeros), (X,), FULL),
    Case("compile-mismatch", "a log", Logging, (X,), FULL),
    Case("compile-mismatch", "a counter on the class", CountedOnTheClass, (X,), FULL),
    Case("compile-mismatch", "another formula under torch.compile",
         split(traced_otherwise, saved(lambda x, g: x.cos() * g)), (X,), FULL),
    Case("func-incompatible", "the old style", saving(torch.tan, lambda x, g: (1 + x.tan() ** 2) * g), (X,), FULL),
    Case("func-incompatible", "inside a callable",
         lambda x: 3 * Exp.apply(x).sum(-1), (X,), FULL),
]  # fmt: skip

LOOKALIKES = [
    Case("silent-double-backward", "the intermediate is one more output",
         raw(sinh_and_cosh, saved(lambda s, c, gs, gc: gs * c + gc * s)), (X,), ASKED),
    Case("silent-double-backward", "outputs are saved", raw(polar_outputs, polar_backward), (X, Y), ASKED),
    Case("silent-double-backward", "the intermediate is computed again",
         saving(lambda x: x * x.sigmoid(), lambda x, g: swish_gradient(x, x.sigmoid(), g)), (X,), ASKED),
    Case("silent-double-backward", "a broken power, where it has a slope",
         saving(lambda x: x**3, lambda x, g: 3 * g * (x.abs() ** 3) ** (2 / 3)), (WITH_ZERO + 0.5,), ASKED),
    Case("silent-double-backward", "a recomputation on the inputs themselves",
         saving(mlp, on_the_inputs), (X, W), ASKED),
    Case("silent-double-backward", "a division that is harmless on either side of where",
         saving(bump, bump_gradient), (torch.tensor([0.0, 0.5, 2.0, -1.0]),), ASKED),
    Case("silent-double-backward", "no second derivative", saving(torch.relu, lambda x, g: g * (x.detach() > 0)),
         (torch.tensor([-1.0, 0.0, 2.0]),), ASKED),
    Case("silent-double-backward", "a straight-through estimator",
         saving(torch.round, lambda x, g: g.clone()), (3 * X,), {"surrogate": lambda x: 1.0 * x, **ASKED}),
    Case("silent-double-backward", "an output in 16 bits",
         saving(lambda x: x.sin().bfloat16(), lambda x, g: x.cos() * g.to(x.dtype)), (X,),
         {"reference": lambda x: x.sin().bfloat16(), **ASKED}),
    Case("silent-double-backward", "it is not wanted",
         keeping(torch.sigmoid, lambda x, s: x * s, swish_gradient), (X,), {"double_backward": False}),
    Case("once-differentiable-leak", "nothing is dropped",
         once(torch.relu, lambda x, g: g * (x > 0)), (X,)),
    Case("once-differentiable-leak", "differentiable", Exp, (X,), ASKED),
    Case("no-double-backward", "a kink in the gradient",
         saving(lambda x: x * x.abs(), lambda x, g: 2 * x.abs() * g), (torch.tensor([-1.0, 0.0, 2.0]),), ASKED),
    Case("no-double-backward", "it refuses where nobody asks", saving(torch.sin, refusing), (X,),
         {"double_backward": False}),
    Case("wrong-jvp", "a sine", sine(lambda x, t: x.cos() * t), (X,)),
    Case("wrong-jvp", "two outputs", norm_and_sum(lambda x, t: (2 * (x * t).sum(-1), t.sum(-1))), (X,)),
    Case("wrong-jvp", "holomorphic",
         split(lambda z: z * z, saved(lambda z, g: 2 * z.conj() * g), jvp=saved(lambda z, t: 2 * z * t)), (CPLX,)),
    Case("wrong-jvp", "another convention at the kink",
         split(lambda x: x.relu(), saved(lambda x, g: g * (x > 0)), jvp=saved(lambda x, t: t * (x >= 0))),
         (torch.tensor([-1.0, 0.0, 2.0]),)),
    Case("wrong-jvp", "in a module", Scaling(), (X,)),
    Case("wrong-jvp", "it refuses", sine(refusing_every_call), (X,)),
    Case("wrong-jvp", "it refuses a tangent of the second input", product(refusing_the_second), (X, Y)),
    Case("wrong-vmap", "it refuses",
         split(lambda x: x.sin(), saved(lambda x, g: x.cos() * g), vmap=refusing_every_call), (X,)),
    Case("wrong-jvp", "the derivative is 0, its terms are not",
         split(lambda x: x.softmax(-1).sum(-1), saved(lambda x, g: softmax_gradient(x.softmax(-1), g[..., None])),
               jvp=saved(lambda x, t: softmax_gradient(x.softmax(-1), t).sum(-1))), (X,)),
    Case("silent-reverse-over-forward", "an output is saved",
         split(lambda x: x.exp(), saved(lambda y, g: y * g), setup=save_output, jvp=saved(lambda y, t: y * t)), (X,), ASKED),
    Case("silent-reverse-over-forward", "two inputs",
         product(lambda x, y, a, b: y * a + x * b), (X, Y), ASKED),
    Case("silent-reverse-over-forward", "a linear map",
         split(lambda x: 2 * x, saved(lambda x, g: 2 * g), jvp=saved(lambda x, t: 2 * t)), (X,), ASKED),
    Case("silent-reverse-over-forward", "backward has no graph either",
         split(lambda x: x.sin(), once_differentiable(saved(lambda x, g: x.cos() * g)),
               jvp=saved(lambda x, t: x.detach().cos() * t)), (X,)),
    Case("backward-raises", "both methods choose by torch.cond",
         saving(where_positive(torch.sin, lambda x: 3 * x),
                where_positive(lambda x, g: g * x.cos(), lambda x, g: 3 * g)), (X,)),
    Case("wrong-vmap", "a softmax with a generated rule",
         split(lambda x: x.softmax(-1), saved(softmax_gradient), setup=save_output, generate_vmap_rule=True), (X,)),
    Case("wrong-vmap", "a rule that rounds otherwise", RoundsOtherwise, (X,)),
    Case("wrong-vmap", "an axis counted from the front of a slice",
         running_sum(lambda made, dim, x, axis: (made.apply(x.movedim(dim, 0), axis + 1), 0)), (X, 0)),
    Case("wrong-vmap", "stacks along any dimension", matrix_product(any_dims), (X, W)),
    Case("wrong-vmap", "one index for all slices, as it says", RowsAt, (TABLE, IDX)),
    Case("wrong-vmap", "NumPy on the whole stack", NumpyCube, (POSITIVE,)),
    Case("wrong-vmap", "dropout with a generated rule", Dropout, (X, 0.3)),
    Case("compile-mismatch", "once differentiable", once(torch.exp, lambda x, g: x.exp() * g), (X,), FULL),
    Case("compile-mismatch", "two outputs, one an index",
         raw(sorted_with, saved(lambda i, g, _: torch.zeros_like(g).scatter(-1, i, g))), (X,), FULL),
    Case("compile-mismatch", "a step through NumPy", NumpyCube, (X,), FULL),
    Case("func-incompatible", "setup_context", sine(lambda x, t: x.cos() * t), (X,), FULL),
    Case("func-incompatible", "a callable around setup_context",
         lambda x: 2 * NumpyCube.apply(x).sum(), (draw(3),), FULL),
]  # fmt: skip
