"""The wording of the rule branches that no first witness reaches: a row for each branch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from cases.first_order import TIED
from cases.making import Case, X, Y, draw, raw, saving
from cases.order import Exp, saved, split
from cases.state import cached

product = torch.mul
FROM_ZERO = torch.tensor([0.0, 0.5, 1.0, 2.0, 3.0, 0.7])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
SMALL = torch.tensor([1e-3, 2e-3, 3e-3, 4e-3, 5e-3])
TINY_FIRST = torch.tensor([1e-7, 1.0, 2.0, -3.0, 0.5])


def square(x: Tensor) -> Tensor:
    return x * x


def numpy_norm(x: Tensor) -> float:
    return float(np.linalg.norm(x.detach().numpy()))


def in_half(x: Tensor, w: Tensor) -> Tensor:
    return (x.half() @ w.half().T).to(x.dtype)


def none_unless(says_one) -> object:
    """A product whose second gradient is missing for some cotangents."""
    return saving(product, lambda x, y, g: (g * y, g * x if says_one(float(g.sum())) else None))


def none_where(sign: int) -> object:
    """A product whose second gradient is missing if two rows of grad_output are similar, or if they
    are not.
    """

    def given(g: Tensor) -> bool:
        return bool(sign * (g[0] * g[1]).sum() > 0)

    return saving(product, lambda x, y, g: (g * y, g * x if given(g) else None))


def with_one_tiny(rng: torch.Generator) -> tuple[Tensor]:
    return (torch.randn(5, generator=rng) * TINY_FIRST.sign() * torch.tensor([1e-7, 1, 1, 1, 1]),)


def optional(ctx, x, scale=1.0):
    ctx.save_for_backward(x)
    return scale * x


def mean_that_keeps_its_axis(ctx, x, axis):
    ctx.shape, ctx.axis = x.shape, axis
    return x.mean(axis, keepdim=True)


def restored(ctx, g):
    return g.unsqueeze(ctx.axis).expand(-1, *ctx.shape) / ctx.shape[ctx.axis], None


KEPT_MEAN = raw(mean_that_keeps_its_axis, restored)
AROUND_CLAMP = torch.tensor([-3.0, -2.0, -1.0, 0.5, 2.0, 3.0, 4.0])
PASSED = torch.tensor([True, False, True, False, False, False, False])
WITH_KINK = torch.tensor([0.0, 1.0, -2.0, 3.0])
GAIN = draw(3, 4, seed=7).requires_grad_()
Tangent = type("Tangent", (saving(torch.tan, lambda x, g: (1 + x.tan() ** 2) * g),), {})


def by_rows(x: Tensor) -> Tensor:
    return x.logsumexp(-1)


def one_row_alone(x: Tensor, g: Tensor) -> Tensor:
    return 2 * g if len(x) == 1 else refuse()


def none_and_another_order(ctx, g):
    CALLS.append(0)
    return None, (2 + len(CALLS) * 1e-15) * g if ctx.needs_input_grad[1] else None


def right_of_the_kink(ctx, g):
    (x,) = ctx.saved_tensors
    return None, torch.where(x >= 0, g, -g) if ctx.needs_input_grad[1] else None


def calls_and_forgets(ctx, g):
    grad = ctx.slope() * g
    ctx.slope = None
    return grad


def forgets_and_computes(ctx, g):
    ctx.slope = None
    return ctx.saved_tensors[0].cos() * g


def runs_once(ctx, g):
    if getattr(ctx, "gone", False):
        raise RuntimeError("gone already. Look elsewhere")
    ctx.gone = True
    return 2 * g * ctx.saved_tensors[0]


def keeps_input_and_itself(ctx, x):
    ctx.x = x
    ctx.slope = lambda: ctx.x.cos()
    return x.sin()


class Numbered(Function):
    """Works only if backward runs before the next call."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        Numbered.calls += 1
        ctx.number = Numbered.calls
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        if ctx.number != Numbered.calls:
            raise ValueError("too late")
        return 2 * ctx.saved_tensors[0] * g


class Forgetful(Numbered):
    """Returns no second gradient for calls before the last one."""

    @staticmethod
    def forward(ctx, x, y):
        Numbered.calls += 1
        ctx.number = Numbered.calls
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x if ctx.number == Numbered.calls else None


class Overwritten(Forgetful):
    """Loses some elements of the second gradient for calls before the last one."""

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        late = ctx.number != Numbered.calls
        lost = torch.zeros_like(x, dtype=torch.bool)
        if late:
            lost[1:, 2:3] = True
        return g * y, (g * x).masked_fill(lost, torch.nan)


class Opaque:
    """An argument that is not a tensor and that cannot be copied."""


ONE_FOR_THREE = raw(lambda ctx, x, y, tool: x * y, lambda ctx, g: (g,))
OF_ANOTHER_SHAPE = raw(lambda ctx, x, tool: x.sum(0), lambda ctx, g: (g.new_ones(7), None))


ALWAYS_RAISES = raw(lambda ctx, x, tool: 2 * x, lambda ctx, g: refuse())


def refuse():
    raise ValueError("no")


CALLS = []


def in_another_order(ctx, x):
    CALLS.append(0)
    return (2 + len(CALLS) * 1e-15) * x


def with_a_closure(ctx, x):
    ctx.save_for_backward(x)
    ctx.slope = lambda: ctx.saved_tensors[0].cos()
    return x.sin()


def refuse_an_object():
    raise TypeError(f"not with {object()}")


def times_ones(ctx, grad_output):
    ones = torch.ones(grad_output.shape, dtype=grad_output.dtype)
    return 2 * ctx.saved_tensors[0] * ones * grad_output


def times_ones_with_a_comment(ctx, grad_output):
    ones = torch.ones(grad_output.shape, dtype=grad_output.dtype)  # as in numpy
    return 2 * ctx.saved_tensors[0] * ones * grad_output


def returns_what_is_returned(ctx, g):
    returned = 3 * ctx.saved_tensors[0] * g
    return returned


def times_ones_twice(ctx, g):
    row, all_ones = torch.ones(g.shape[-1:], dtype=g.dtype), torch.ones(g.shape, dtype=g.dtype)
    return 2 * ctx.saved_tensors[0] * row * all_ones * g


def zeros_alone(ctx, g):
    return torch.zeros(g.shape, dtype=g.dtype)


def saves(ctx, x):
    ctx.save_for_backward(x)
    return x * x


class BothOfInstances(Function):
    def forward(self, ctx, x):
        return x

    def backward(self, ctx, g):
        return g


class Buffered(Function):
    """Returns the square in a buffer of the default dtype."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        kept = torch.ones(x.shape, dtype=x.dtype)
        y = torch.empty(x.shape)  # the buffer
        y[...] = kept * x.square()
        return x.sin(), y

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return x.cos() * g + 2 * x * h


def saves_a_number(ctx, x):
    ctx.save_for_backward(x, 3)
    return 2 * x


def marks_the_other(ctx, x, y):
    ctx.mark_dirty(y)
    return x * y.mul_(2)


def counts(ctx, x, m):
    m.add_(x.detach().mean(0))
    return 2 * x


def marks_both(ctx, x):
    outputs = 2 * x, 3 * x
    ctx.mark_non_differentiable(*outputs)
    return outputs


def keeps_a_result(ctx, x):
    ctx.kept = x.exp()
    return 1 * ctx.kept


def keeps_the_output(ctx, x):
    ctx.y = x.exp()
    return ctx.y


def all_three(x, y, w, g):
    return g * y * w, g * x * w, g * x * y


def not_in_float32(x, g):
    if g.dtype is torch.float32:
        raise TypeError("no such dtype")
    return 2 * x * g


def leave():
    raise SystemExit(3)


def say_nothing():
    raise ValueError


def softmax_along(ctx, x, dim):
    y = x.softmax(dim)
    ctx.save_for_backward(y)
    ctx.dim = dim
    return y


def minus_along_the_last(ctx, g):
    (y,) = ctx.saved_tensors
    return y * ((g * y).sum(-1, keepdim=True) - g), None


def sine(x):
    return x.sin()


def times_cosine(x, g):
    return x.cos() * g


def save_more_for_forward(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs, output)


def save_for_backward_only(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


class Sum(Function):
    """Saves more than it needs."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x + y

    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors  # noqa: B018
        return tuple(g if needed else None for needed in ctx.needs_input_grad)


def five(a, b, c, d, e):
    return a * b * c * d * e


def all_five(a, b, c, d, e, g):
    return (
        g * b * c * d * e,
        g * a * c * d * e,
        g * a * b * d * e,
        g * a * b * c * e,
        g * a * b * c * d,
    )


# The mistake, the Function, its inputs, options, the rule, and words from its message or evidence.
SAID = [
    Case("wrong-region", "0/0 avoided by a hair", saving(lambda x: 2 * x, lambda x, g: 2 * g * x / (x + 1e-30)), (FROM_ZERO,)),
    Case("wrong-region", "each of equal maxima gets the whole gradient", saving(
        lambda x: x.amax(1, keepdim=True), lambda x, g: g * (x == x.amax(1, keepdim=True))), (TIED,)),
    Case("wrong-region", "a mask without its bound", saving(lambda x: 2 * x, lambda x, g: 2 * g * (x > 0)), (FROM_ZERO * SIGNS,)),
    Case("missing-dependency", "the norm of the whole, by NumPy, held fixed", saving(lambda x: x / numpy_norm(x), lambda x, g: g / numpy_norm(x)), (X,)),
    Case("nonlinear-in-grad-output", "no gradient for the negative", none_unless(lambda total: total > 0), (X, Y)),
    Case("nonlinear-in-grad-output", "no gradient for the first cotangent", none_unless(lambda total: abs(total) < 3), (X, Y)),
    Case("nonlinear-in-grad-output", "nan where grad_output is negative", saving(square, lambda x, g: torch.where(g > 0, 2 * x * g, torch.nan)), (X,)),
    Case("ignores-grad-output", "something is added", saving(square, lambda x, g: 2 * x * g + 1), (X,)),
    Case("ignores-grad-output", "something endless is added", saving(square, lambda x, g: 2 * x * g + (0 if g.any() else torch.inf)), (X,)),
    Case("nonlinear-in-grad-output", "nan where grad_output exceeds 1", saving(square, lambda x, g:
        torch.where(g < 1, 2 * x * g, torch.nan)), (X,)),
    Case("nonlinear-in-grad-output", "nan where grad_output is zero", saving(product, lambda x, y, g:
        (torch.where(x > 0, torch.inf, y) * g, g * x * g / g)), (X, Y)),
    Case("nonlinear-in-grad-output", "no gradient where two rows are alike", none_where(1), (X, Y)),
    Case("nonlinear-in-grad-output", "no gradient where two rows are not alike", none_where(-1), (X, Y)),
    Case("nonlinear-in-grad-output", "no gradient for the first cotangent, in a sentence", none_unless(lambda total: abs(total) < 3), (X, Y)),
    Case("ignores-grad-output", "of the second input, where the first has none", saving(product, lambda x, y, g: (0 * g, 1 * x)), (X, Y)),
    Case("uniform-grad-output", "of the second input, the first is wrong otherwise", saving(product, lambda x, y, g: (-g * y, x * g.mean())), (X, Y)),
    Case("uniform-grad-output", "of the second input, the first is one number", saving(product, lambda a, y, g: (2 * (g * y).sum(), a * g.mean() * torch.ones_like(y))), (draw(), Y)),
    Case("nondeterministic", "a sum in no fixed order", raw(in_another_order, lambda ctx, g: 2 * g), (X,)),
    Case("nondeterministic", "a gradient in no fixed order, beside an input that nothing depends on", raw(lambda ctx, y, x: 2 * x, none_and_another_order), (Y, X)),
    Case("not-reentrant", "where backward does not come", raw(with_a_closure, calls_and_forgets), (X,)),
    Case("kink-convention", "the other side of a kink", saving(torch.abs, lambda x, g: torch.where(x >= 0, g, -g)), (WITH_KINK,), {"reference": lambda x: torch.where(x > 0, x, -x)}),
    Case("kink-convention", "the other side of a kink, beside an input that nothing depends on", raw(lambda ctx, y, x: (ctx.save_for_backward(x), x.abs())[1], right_of_the_kink), (X, WITH_KINK), {"reference": lambda y, x: torch.where(x > 0, x, -x)}),
    Case("gradient-device", "ones that one call creates", raw(saves, times_ones), (X,)),
    Case("gradient-device", "ones that one call creates, with a comment", raw(saves, times_ones_with_a_comment), (X,)),
    Case("constant-factor", "a variable whose name begins like a statement", raw(saves, returns_what_is_returned), (X,)),
    Case("gradient-device", "ones that two calls create", raw(saves, times_ones_twice), (X,)),
    Case("gradient-device", "zeros as the gradient", raw(lambda ctx, x: 0 * x + 1, zeros_alone), (X,)),
    Case("not-reentrant", "a message of two sentences", raw(saves, runs_once), (X,)),
    Case("shared-state", "an exception when another call came between", Numbered, (X,)),
    Case("shared-state", "nan when another call came between, for the second input", Overwritten, (X, Y)),
    Case("shared-state", "no gradient when another call came between", Forgetful, (X, Y)),
    Case("shared-state", "a cache without one number in its key", cached(lambda x, width: len(x)), (X, 3.0)),
    Case("tensor-on-ctx", "an input, and a function that leads to ctx", raw(keeps_input_and_itself,
        lambda ctx, g: ctx.slope() * g), (X,)),
    Case("ctx-cycle", "until backward comes", raw(with_a_closure, forgets_and_computes), (X,)),
    Case("captured-tensor", "a tensor that moves little", raw(lambda ctx, x: 2 * x + 0.01 * GAIN, lambda ctx, g: 2 * g), (X,)),
    Case("mutates-input", "a change inside a callable", lambda x, m: Exp.apply(x) * m.add_(1), (X.clone().requires_grad_(), Y.clone())),
    Case("unreduced-broadcast", "an axis restored that was kept", KEPT_MEAN, (X, 0)),
    Case("gradient-mismatch", "passed on where a clamp stops it, between elements where it does not",
         saving(lambda x: x.clamp(0, 1), lambda x, g: g * (((x > 0) & (x < 1)) | PASSED)),
         (AROUND_CLAMP,)),
    Case("unreduced-broadcast", "an axis more", saving(torch.add, lambda x, b, g: (g, g.sum(0, keepdim=True))), (X, X[0])),
    Case("overflow", "a gradient at -inf", saving(by_rows, lambda x, g: x.softmax(-1) * g[..., None] + 0 * x), (X,), {"reference": by_rows}),
    Case("unneeded-function", "a copy", split(lambda x: x.clone(), lambda ctx, g: g, setup=lambda ctx, inputs, output: None), (X,), {"level": "full"}),
    Case("func-incompatible", "two Functions", lambda x: Exp.apply(Tangent.apply(x)), (X,), {"level": "full"}),
    Case("batch-dimension", "a batch that backward does not take", saving(lambda x: 2 * x, one_row_alone), (X[:1],)),
    Case("not-reentrant", "until backward", raw(with_a_closure, lambda ctx, g: ctx.__dict__.pop("slope")() * g), (X,)),
    Case("wasted-gradient", "four gradients", saving(lambda a, b, c, d: a * b * c * d, lambda a, b, c, d, g:
        (g * b * c * d, g * a * c * d, g * a * b * d, g * a * b * c)), (X, Y, X + 1, Y + 1)),
    Case("wasted-gradient", "two operations", saving(product, lambda b, x, g: ((g * x).sum(0), g * b)), (X[0], Y)),
    Case("wasted-gradient", "the second gradient alone", saving(product, lambda x, y, g: (g * y, g * x)), (X.clone().requires_grad_(), Y)),
    Case("forward-raises", "an exception that names an object", saving(lambda x: refuse_an_object(), lambda x, g: g), (X,)),
    Case("uniform-grad-output", "one entry, neither the mean nor the first", saving(square, lambda x, g: 2 * x * g[-1, -1]), (X,)),
    Case("flipped-sign", "a huge element beside which the others are lost", saving(lambda x: 1 / x, lambda x, g: g / x**2), (TINY_FIRST,), {"sampler": with_one_tiny}),
    Case("uniform-grad-output", "a huge element of the first input, one number for the second", saving(lambda x, y: 1 / x + y.sin(), lambda x, y, g: (g / x**2, y.cos() * g.mean())), (TINY_FIRST, draw(5))),
    Case("wrong-arity", "a gradient for an argument that was left out", raw(optional, lambda ctx, g: (g, g.sum())), (X,)),
    Case("wrong-arity", "one gradient too many", raw(lambda ctx, x: 2 * x, lambda ctx, g: (g, g)), (X,)),
    Case("wrong-arity", "a Function inside, whose own call cannot be made again", lambda x, y: ONE_FOR_THREE.apply(x, y, Opaque()) * 1, (X, Y)),
    Case("gradient-shape", "a Function inside, whose own call cannot be made again", lambda x: OF_ANOTHER_SHAPE.apply(x, Opaque()) * 1, (X,)),
    Case("backward-raises", "a Function inside, whose own call cannot be made again", lambda x: ALWAYS_RAISES.apply(x, Opaque()) * 1, (X,)),
    Case("backward-raises", "the tuple itself", raw(saves, lambda ctx, g: 2 * g * ctx.saved_tensors), (X,)),
    Case("backward-raises", "autograd, where nothing is recorded", saving(square, lambda x, g: torch.autograd.grad(x * x, x, g)[0]), (X,)),
    Case("backward-raises", "a mask minus a number", saving(torch.relu, lambda x, g: g * ((x > 0) - 1)), (X,)),
    Case("backward-raises", "the mean of a mask", saving(torch.relu, lambda x, g: g * (x > 0).mean()), (X,)),
    Case("backward-raises", "a matrix of another dtype", saving(square, lambda x, g: 2 * g * x @ torch.eye(x.shape[1], dtype=torch.int64)), (X,)),
    Case("backward-raises", "a call that fits no signature", saving(square, lambda x, g: g.movedim(None, 0)), (X,)),
    Case("backward-raises", "what no hint is known of", saving(square, lambda x, g: g[99]), (X,)),
    Case("unreduced-broadcast", "the larger shape, and wrong", saving(torch.add, lambda x, b, g: (g, 2 * g)), (X, X[0])),
    Case("missing-staticmethod", "both methods", BothOfInstances, (X,)),
    Case("non-tensor-saved", "an int", raw(saves_a_number, lambda ctx, g: 2 * g), (X,)),
    Case("wrong-mark-dirty", "an input, marked, and another tensor returned", raw(marks_the_other, lambda ctx, g: (g, g)), (X, Y)),
    Case("mutates-input", "running statistics", raw(counts, lambda ctx, g: (2 * g, None)), (X.clone().requires_grad_(), X[0].clone())),
    Case("backward-never-called", "no return", raw(lambda ctx, x: None, lambda ctx, g: g), (X,)),
    Case("backward-never-called", "a list", raw(lambda ctx, x: [x * 2, x * 3], lambda ctx, g, h: g), (X,)),
    Case("backward-never-called", "detached", lambda x: (2 * x).detach(), (X,)),
    Case("wrong-non-differentiable", "all outputs", raw(marks_both, lambda ctx, g, h: g), (X,)),
    Case("returns-view", "the second output", raw(lambda ctx, x: (2 * x, x.view_as(x)), lambda ctx, g, h: 2 * g + h), (X,)),
    Case("default-dtype", "one output of two", Buffered, (X,)),
    Case("gradient-dtype", "a dtype that backward does not take", saving(square, not_in_float32), (X,)),
    Case("gradient-dtype", "complex for a real", saving(square, lambda x, g: torch.complex(2 * x * g, g)), (X,)),
    Case("forward-mismatch", "another number of outputs than the reference's", saving(square, lambda x, g: 2 * x * g), (X,), {"reference": lambda x: (x * x, x)}),
    Case("forward-mismatch", "one output of two", saving(lambda x: (x * x, 2 * x), lambda x, g, h: 2 * x * g + 2 * h), (X,), {"reference": lambda x: (x * x, 3 * x)}),
    Case("constant-factor", "parallel to one number, as the true one is", saving(lambda x: x.sum().expand(4), lambda x, g: 2 * g.sum().expand(3, 4)), (X,)),
    Case("extra-gradient", "held fixed by the reference", saving(product, lambda x, y, g: (g * y, g * x)), (X, Y), {"reference": lambda x, y: x * y.detach()}),
    Case("extra-gradient", "not in the surrogate", saving(lambda x, y: x.round() * y, lambda x, y, g: (g, g)), (X, Y), {"surrogate": lambda x, y: 1 * x}),
    Case("missing-gradient", "zeros where the surrogate has a slope", saving(torch.round, lambda x, g: 0 * g), (X,), {"surrogate": lambda x: 1 * x}),
    Case("non-finite", "infinite", saving(torch.sqrt, lambda x, g: g / torch.zeros_like(x)), (X.abs(),)),
    Case("transposed-gradient", "a cumulative sum the same way round", saving(lambda x: x.cumsum(0), lambda x, g: g.cumsum(0)), (X[0],)),
    Case("gradient-mismatch", "elements side by side, which a bound separates by chance",
         saving(lambda x: x**2, lambda x, g: 2 * x * g * torch.tensor([1.0, 0.5, 0.5, 1.0, 1.0])),
         (torch.tensor([0.1, 0.9, 0.8, 0.3, -0.5], dtype=torch.float64),)),
    Case("gradient-mismatch", "another factor for each column",
         saving(lambda x: x.sum(0).sin(), lambda x, g: g * x.sum(0).cos() * (2 + torch.arange(4)) * torch.ones_like(x)), (X,)),
    Case("gradient-mismatch", "one output's part", saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: g * x.exp() + h), (X,)),
    Case("tensor-on-ctx", "an intermediate result", raw(keeps_a_result, lambda ctx, g: g * ctx.kept), (X,), {"double_backward": False}),
    Case("tensor-on-ctx", "the output", raw(keeps_the_output, lambda ctx, g: g * ctx.y), (X,)),
    Case("wasted-gradient", "five gradients", saving(five, all_five), (X, Y, X + 1, Y + 1, X + Y)),
    Case("oversaved", "two tensors for nothing", Sum, (X, Y)),
    Case("backward-raises", "it leaves", saving(square, lambda x, g: leave()), (X,)),
    Case("backward-raises", "without a word", saving(square, lambda x, g: say_nothing()), (X,)),
    Case("forward-raises", "beside a number", saving(lambda x, c: refuse(), lambda x, c, g: g), (X, 2.5)),
    Case("gradient-shape", "the right shape, once it is turned, and wrong", saving(square, lambda x, g: (g * x.exp()).T), (X,)),
    Case("backward-never-called", "no tensors at all", raw(lambda ctx, x: (None, None), lambda ctx, g, h: g), (X,)),
    Case("uniform-grad-output", "of two elements", saving(torch.exp, lambda x, g: x.exp() * g.mean()), (draw(2),)),
    Case("flipped-sign", "a wrong sign, and a wrong axis for another dim", raw(softmax_along, minus_along_the_last), (X, -1)),
    Case("returns-view", "the second output's view", saving(
            lambda x: (x.exp(), (x * x).sum(-1, keepdim=True).squeeze(-1)),
            lambda x, g, h: g * x.exp() + 2 * x * h[:, None],
        ), (X,), {"level": "full"}),
    Case("precision", "in 16 bits", saving(square, lambda x, g: (2 * x.bfloat16() * g.bfloat16()).to(g.dtype)), (X,)),
    Case("precision", "a forward in 32 bits", saving(lambda x: (x.float() ** 2).to(x.dtype), lambda x, g: 2 * x * g), (X,)),
    Case("precision", "a sum of which a part is in 32 bits", saving(lambda x: 0.25 * x + (3 * x).float(), lambda x, g:
        (3.25 * g).to(x.dtype)), (X,)),
    Case("precision", "beside a reference that is sound on the example", saving(lambda x: 1 - x.cos(), lambda x, g: x.sin() * g), (SMALL,), {"reference": lambda x: 2 * (x / 2).sin() ** 2}),
    Case("precision", "a slope in 32 bits, of declared steps", saving(
            lambda x: (4 * x.sin()).round() / 4, lambda x, g: (g * x.float().cos()).to(g.dtype)
        ), (X,), {"surrogate": torch.sin}),
    Case("wrong-jvp", "jvp reads what was saved for backward only", split(sine, saved(times_cosine), setup=save_for_backward_only, jvp=saved(times_cosine)), (X,), {"level": "full"}),
    Case("wrong-jvp", "jvp raises", split(sine, saved(times_cosine), jvp=lambda ctx, t: refuse()), (X,)),
    Case("wrong-vmap", "saved otherwise for both modes", split(
            sine, saved(times_cosine), setup=save_more_for_forward, generate_vmap_rule=True
        ), (X,)),
    Case("wrong-vmap", "vmap raises", split(sine, saved(times_cosine), vmap=lambda info, dims, x: refuse()), (X,)),
    Case("wrong-vmap", "vmap sums", split(
            sine, saved(times_cosine), vmap=lambda info, dims, x: (x.sin().sum(-1), 0)
        ), (X,)),
    Case("wasted-gradient", "three gradients", saving(lambda x, y, w: x * y * w, all_three), (X, Y, X + Y)),
]  # fmt: skip

# Witnesses that the daily run skips and whose message has its own wording.
OF_WITNESSES = [
    "silent-double-backward: a view of an output is saved",
    "not-reentrant: an iterator that is read to its end",
    "input-layout: only backward takes the input for dense",
    "input-layout: a view that forward cannot make",
    "batch-dimension: a weight that is right for a batch of 1",
    "batch-dimension: squeeze drops a batch of 1",
    "overflow: log-sum-exp of a row that is masked wholly",
    "tensor-on-ctx: an input, in a callable",
    "constant-factor: a factor near 1 beside a forward in float32",
    "constant-factor: a factor beside a forward in float32",
    "constant-factor: a mean in float32, divided by half of N",
    "compile-mismatch: another formula under torch.compile",
    "returns-view: a view of a sum that forward made",
    "missing-dependency: the norms of filters held fixed",
    "oversaved: a product that is never unpacked",
]  # fmt: skip


# Right Functions that the daily run would skip and that a rule could easily mistake for wrong.
OF_LOOKALIKES = [
    "precision: fine levels, declared",
    "precision: a cast to 16 bits, declared",
    "precision: a sign that may be either, as an eigenvector's",
    "precision: levels, on the edges of which the input lies",
    "precision: a solver that stops early in float32",
    "silent-double-backward: an output in 16 bits",
    "wrong-vmap: a rule that rounds otherwise",
    "input-layout: another layout rounds otherwise, in float32",
    "missing-gradient: None for an input that nothing depends on",
    "captured-tensor: a threshold that the output does not move with",
    "ctx-cycle: the output on ctx, which is told as such",
    "overflow: nan where the reference has nan, too",
    "forward-mismatch: nan where the reference has nan, too",
    "forward-mismatch: another dtype than the reference's",
    "unneeded-function: a view, for its node",
    "unneeded-function: another convention at a kink",
    "unneeded-function: a gradient that stays finite",
    "overflow: nan where a surrogate alone has a gradient",
]


def sums_to_one(x: Tensor) -> Tensor:
    return x.softmax(-1).sum(-1)


def rounding_alone(x: Tensor, g: Tensor) -> Tensor:
    y = x.softmax(-1)
    return y * (g[:, None] - (g[:, None] * y).sum(-1, keepdim=True))


def up_to_a_thousand(x: Tensor, g: Tensor) -> Tensor:
    if bool((g.abs() > 1000).any()):
        raise ValueError("too large")
    return 2 * x * g


# A right Function, and the property that a rule could mistake for a mistake.
CLEAN = [
    ("grad_output is rounded to float32", lambda x: x.float() ** 2, lambda x, g: 2 * x * g),
    ("of terms that cancel, rounding is left", sums_to_one, rounding_alone),
    ("it refuses what is thousands of times as large", square, up_to_a_thousand),
    (
        "large terms cancel, and rounding is left",
        lambda x: 100 * (sums_to_one(x) - 1),
        lambda x, g: 100 * rounding_alone(x, g),
    ),
    ("zeros for zeros, without a calculation", square, lambda x, g: 2 * x * g if g.any() else None),
    (
        "a batch rounds otherwise than its slices",
        lambda x: x * (1 + 1e-15 * len(x)),
        lambda x, g: g * (1 + 1e-15 * len(x)),
    ),
    (
        "a batch rounds otherwise than its slices, in float32",
        lambda x: (x.float() * (1 + 2e-7 * len(x))).to(x.dtype),
        lambda x, g: (g.float() * (1 + 2e-7 * len(x))).to(g.dtype),
    ),
]
