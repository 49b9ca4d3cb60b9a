"""What a rule says in those of its branches that no first witness takes: the words, a row for each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from cases.making import X, Y, draw, raw, saving
from cases.order import Exp, saved, split

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
    """A product whose second gradient is left out for some cotangents."""
    return saving(product, lambda x, y, g: (g * y, g * x if says_one(float(g.sum())) else None))


def none_where(sign: int) -> object:
    """A product whose second gradient is left out where two rows of grad_output are alike, or not."""

    def given(g: Tensor) -> bool:
        return bool(sign * (g[0] * g[1]).sum() > 0)

    return saving(product, lambda x, y, g: (g * y, g * x if given(g) else None))


def with_one_tiny(rng: torch.Generator) -> tuple[Tensor]:
    return (torch.randn(5, generator=rng) * TINY_FIRST.sign() * torch.tensor([1e-7, 1, 1, 1, 1]),)


def optional(ctx, x, scale=1.0):
    ctx.save_for_backward(x)
    return scale * x


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
    """Works in the order of calls alone."""

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
    """Has no second gradient for calls before the last."""

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
    """Has lost some elements of it for calls before the last."""

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        late = ctx.number != Numbered.calls
        lost = torch.zeros_like(x, dtype=torch.bool)
        if late:
            lost[1:, 2:3] = True
        return g * y, (g * x).masked_fill(lost, torch.nan)


class Opaque:
    """What a Function is given beside tensors, and nobody can copy."""


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


def saves(ctx, x):
    ctx.save_for_backward(x)
    return x * x


class BothOfInstances(Function):
    def forward(self, ctx, x):
        return x

    def backward(self, ctx, g):
        return g


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
    """Keeps more than it needs."""

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


# What is wrong, the Function, its inputs, options, the rule, and words of its message or evidence.
SAID = [
    (
        "0/0 avoided by a hair", saving(lambda x: 2 * x, lambda x, g: 2 * g * x / (x + 1e-30)),
        (FROM_ZERO,), {}, "wrong-region", "wrong only where args[0] is 0 (it is zero there)",
    ),
    (
        "a mask without its bound", saving(lambda x: 2 * x, lambda x, g: 2 * g * (x > 0)),
        (FROM_ZERO * SIGNS,), {}, "wrong-region", "wrong only where args[0] <= 0 (it is zero "
        "there)",
    ),
    (
        "the norm of the whole, by NumPy, held fixed",
        saving(lambda x: x / numpy_norm(x), lambda x, g: g / numpy_norm(x)), (X,), {},
        "missing-dependency", "across the whole tensor, the error in the gradient of args[0] is a "
        "multiple of the output.",
    ),
    (
        "no gradient for the negative",
        none_unless(lambda total: total > 0), (X, Y), {}, "nonlinear-in-grad-output",
        "0 for -1 · grad_output, should be 4.845",
    ),
    (
        "no gradient for the first cotangent",
        none_unless(lambda total: abs(total) < 3), (X, Y), {}, "nonlinear-in-grad-output",
        "gradient 0 for grad_output, -5.887 for the sum of two, should be -1.042",
    ),
    (
        "nan where grad_output is negative",
        saving(square, lambda x, g: torch.where(g > 0, 2 * x * g, torch.nan)),
        (X,), {}, "nonlinear-in-grad-output",
        "gradient 1.583 for grad_output, nan for -1 · grad_output, should be -1.583",
    ),
    (
        "something is added",
        saving(square, lambda x, g: 2 * x * g + 1), (X,), {}, "ignores-grad-output",
        "error: the gradient of args[0] is not zero when grad_output is zero, so backward adds "
        'something to it. {"input": "args[0]", "witness": "args[0][0, 0]: gradient 2.583 for '
        'grad_output, 1 for 0 · grad_output, should be 0"',
    ),
    (
        "something endless is added",
        saving(square, lambda x, g: 2 * x * g + (0 if g.any() else torch.inf)),
        (X,), {}, "ignores-grad-output", "inf for 0 · grad_output, should be 0",
    ),
    (
        "nan where grad_output exceeds 1", saving(square, lambda x, g:
        torch.where(g < 1, 2 * x * g, torch.nan)), (X,), {}, "nonlinear-in-grad-output",
        "args[0][0, 2]: gradient nan for grad_output, 9.69 for -1 · grad_output, should be nan",
    ),
    (
        "nan where grad_output is zero", saving(product, lambda x, y, g:
        (torch.where(x > 0, torch.inf, y) * g, g * x * g / g)), (X, Y), {},
        "nonlinear-in-grad-output", "error: the gradient of args[1] is nan where grad_output is "
        "zero. {…nan for 0 · grad_output, should be 0…} Do not divide by grad_output, or by",
    ),
    (
        "no gradient where two rows are alike", none_where(1), (X, Y), {}, "nonlinear-in-grad-output",
        "for the sum of two values of grad_output is not the sum of the two gradients. {…, 0 for the sum "
        "of two, should be",
    ),
    (
        "no gradient where two rows are not alike", none_where(-1), (X, Y), {},
        "nonlinear-in-grad-output", "gradient 0.5178 for grad_output, 1.833 for the sum of two, "
        "should be 0.5178",
    ),
    (
        "no gradient for the first cotangent, in a sentence",
        none_unless(lambda total: abs(total) < 3), (X, Y), {}, "nonlinear-in-grad-output",
        "error: the gradient of args[1] for the sum of two values of grad_output is not the sum of the "
        "two gradients. {",
    ),
    (
        "of the second input, where the first has none",
        saving(product, lambda x, y, g: (0 * g, 1 * x)), (X, Y), {}, "ignores-grad-output",
        "error: the gradient of args[1] does not change when grad_output doubles.",
    ),
    (
        "of the second input, the first is wrong otherwise",
        saving(product, lambda x, y, g: (-g * y, x * g.mean())), (X, Y), {}, "uniform-grad-output",
        "the gradient of args[1] depends on grad_output only through a single number, its mean",
    ),
    (
        "of the second input, the first is one number",
        saving(product, lambda a, y, g: (2 * (g * y).sum(), a * g.mean() * torch.ones_like(y))), (draw(), Y), {},
        "uniform-grad-output", "the gradient of args[1] depends on grad_output only through a "
        "single number",
    ),
    (
        "a sum in no fixed order", raw(in_another_order, lambda ctx, g: 2 * g), (X,), {},
        "nondeterministic", "info: the output differs in its last digits from one call to the "
        "next, because an operation does not add in a fixed order. {} Call "
        "torch.use_deterministic_algorithms(True) to find such",
    ),
    (
        "a gradient in no fixed order, beside an input that nothing depends on",
        raw(lambda ctx, y, x: 2 * x, none_and_another_order), (Y, X), {}, "nondeterministic",
        "info: the gradient of x differs in its last digits from one call to the next, because "
        "an operation",
    ),
    (
        "where backward does not come", raw(with_a_closure, calls_and_forgets), (X,), {},
        "not-reentrant", "warning: in a second backward pass through the same graph, backward "
        "raises TypeError: 'NoneType'",
    ),
    (
        "the other side of a kink", saving(torch.abs, lambda x, g: torch.where(x >= 0, g, -g)),
        (WITH_KINK,), {"reference": lambda x: torch.where(x > 0, x, -x)}, "kink-convention",
        "info: the gradient of args[0] differs from the reference only at a kink, where no "
        'derivative exists. {"input": "args[0]", "index": [0], "at": 0.0, "expected": '
        '-0.5135703845912293, "actual": 0.5135703845912293}',
    ),
    (
        "the other side of a kink, beside an input that nothing depends on",
        raw(lambda ctx, y, x: (ctx.save_for_backward(x), x.abs())[1], right_of_the_kink),
        (X, WITH_KINK), {"reference": lambda y, x: torch.where(x > 0, x, -x)}, "kink-convention",
        "the gradient of x differs from the reference only at a kink, where no derivative exists.",
    ),
    (
        "a message of two sentences", raw(saves, runs_once), (X,), {}, "not-reentrant",
        "warning: in a second backward pass through the same graph, backward raises "
        "RuntimeError: gone already {",
    ),
    (
        "an exception when another call came between", Numbered, (X,), {}, "shared-state",
        "error: when forward runs again before backward, backward raises ValueError: too late {",
    ),
    (
        "nan when another call came between, for the second input", Overwritten, (X, Y), {},
        "shared-state", 'before backward runs. {"input": "y", "witness": "y[1, 2]: gradient ',
    ),
    (
        "no gradient when another call came between", Forgetful, (X, Y), {}, "shared-state",
        "the gradient of y changes when forward runs again with other values before backward "
        'runs. {"input": "y", "witness": "y[0, 2]: gradient -4.845 after one call, None after a '
        'second call"}',
    ),
    (
        "an input, and a function that leads to ctx", raw(keeps_input_and_itself,
        lambda ctx, g: ctx.slope() * g), (X,), {}, "tensor-on-ctx",
        "error: ctx.x stores the argument x as an attribute. The gradient of x changes",
    ),
    (
        "until backward comes", raw(with_a_closure, forgets_and_computes), (X,), {}, "ctx-cycle",
        "If backward never runs, the graph and its saved tensors stay in memory until the "
        "garbage collector runs. {",
    ),
    (
        "a tensor that moves little", raw(lambda ctx, x: 2 * x + 0.01 * GAIN, lambda ctx, g: 2 * g),
        (X,), {}, "captured-tensor", "the output changes with GAIN at a rate of 0.01639, but the "
        "gradient",
    ),
    (
        "a change inside a callable", lambda x, m: Exp.apply(x) * m.add_(1),
        (X.clone().requires_grad_(), Y.clone()), {}, "mutates-input",
        "warning: forward changes m in place but does not mark it as dirty (m does not require "
        "grad).",
    ),
    (
        "an axis more", saving(torch.add, lambda x, b, g: (g, g.sum(0, keepdim=True))), (X, X[0]), {},
        "unreduced-broadcast", "the sum is right. But code that calls backward directly gets the "
        "wrong shape.",
    ),
    (
        "a gradient at -inf", saving(by_rows, lambda x, g: x.softmax(-1) * g[..., None] + 0 * x), (X,),
        {"reference": by_rows}, "overflow", "error: the gradient of args[0] is nan when "
        'args[0][0, 0] is -inf; it should be 0. {"witness": "args[0][0, 0] = -inf: nan, should be '
        '0"}',
    ),
    (
        "a copy", split(lambda x: x.clone(), lambda ctx, g: g, setup=lambda ctx, inputs, output: None),
        (X,), {"level": "full"}, "unneeded-function", "runs 1 operation. The Function saves 96 bytes and runs 1 operation.",
    ),
    (
        "two Functions", lambda x: Exp.apply(Tangent.apply(x)), (X,), {"level": "full"},
        "func-incompatible", "info: in Tangent and Made, forward takes ctx as an argument, so "
        "torch.func",
    ),
    (
        "a batch that backward does not take", saving(lambda x: 2 * x, one_row_alone), (X[:1],), {},
        "batch-dimension", "error: for a batch of 3, backward raises ValueError: no {",
    ),
    (
        "until backward", raw(with_a_closure, lambda ctx, g: ctx.__dict__.pop("slope")() * g), (X,),
        {}, "not-reentrant", "warning: in a second backward pass through the same graph, "
        "backward raises KeyError: 'slope' {",
    ),
    (
        "four gradients", saving(lambda a, b, c, d: a * b * c * d, lambda a, b, c, d, g:
        (g * b * c * d, g * a * c * d, g * a * b * d, g * a * b * c)), (X, Y, X + 1, Y + 1), {},
        "wasted-gradient", "The same holds for args[1], args[2] and args[3]. {",
    ),
    (
        "two operations", saving(product, lambda b, x, g: ((g * x).sum(0), g * b)), (X[0], Y), {},
        "wasted-gradient", "backward computes the gradient of args[0] (2 operations: mul, sum) "
        "even when args[0] does not require grad. The same holds for args[1]. {",
    ),
    (
        "the second gradient alone", saving(product, lambda x, y, g: (g * y, g * x)),
        (X.clone().requires_grad_(), Y), {}, "wasted-gradient", "even when args[1] does not "
        "require grad. {",
    ),
    (
        "an exception that names an object", saving(lambda x: refuse_an_object(), lambda x, g: g),
        (X,), {}, "forward-raises", 'forward raises TypeError: not with <object object> {"exception"',
    ),
    (
        "one entry, neither the mean nor the first",
        saving(square, lambda x, g: 2 * x * g[-1, -1]), (X,), {}, "uniform-grad-output",
        "only through a single number. It can be right",
    ),
    (
        "a huge element beside which the others are lost",
        saving(lambda x: 1 / x, lambda x, g: g / x**2), (TINY_FIRST,),
        {"sampler": with_one_tiny}, "flipped-sign", "wrong sign everywhere",
    ),
    (
        "a huge element of the first input, one number for the second",
        saving(lambda x, y: 1 / x + y.sin(), lambda x, y, g: (g / x**2, y.cos() * g.mean())),
        (TINY_FIRST, draw(5)), {}, "uniform-grad-output", "the gradient of args[1] depends on "
        "grad_output only through a single number",
    ),
    (
        "a gradient for an argument that was left out",
        raw(optional, lambda ctx, g: (g, g.sum())), (X,), {}, "wrong-arity",
        "a gradient for scale, which this call does not pass. It must return None for this argument.",
    ),
    (
        "one gradient too many", raw(lambda ctx, x: 2 * x, lambda ctx, g: (g, g)), (X,), {},
        "wrong-arity", "backward returns 2 gradients, but forward takes 1 argument (x).",
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x, y: ONE_FOR_THREE.apply(x, y, Opaque()) * 1, (X, Y), {}, "wrong-arity",
        "the backward of an inner Function returns 1 gradient, but autograd expects 3. "
        '{"returned": 1, "expected": 3}',
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x: OF_ANOTHER_SHAPE.apply(x, Opaque()) * 1, (X,), {}, "gradient-shape",
        "the backward of an inner Function returns a gradient of shape [7] for an input of "
        "shape [3, 4].",
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x: ALWAYS_RAISES.apply(x, Opaque()) * 1, (X,), {}, "backward-raises",
        "backward raises ValueError: no {",
    ),
    (
        "the tuple itself", raw(saves, lambda ctx, g: 2 * g * ctx.saved_tensors), (X,), {},
        "backward-raises", "Unpack ctx.saved_tensors, a tuple even for a single tensor",
    ),
    (
        "autograd, where nothing is recorded",
        saving(square, lambda x, g: torch.autograd.grad(x * x, x, g)[0]), (X,), {},
        "backward-raises", "Grad mode is off in backward, so PyTorch records no graph",
    ),
    (
        "a mask minus a number", saving(torch.relu, lambda x, g: g * ((x > 0) - 1)), (X,), {},
        "backward-raises", "Convert the mask to numbers first",
    ),
    (
        "a call that fits no signature", saving(square, lambda x, g: g.movedim(None, 0)), (X,), {},
        "backward-raises", "of arguments - got (NoneType, int) {",
    ),
    (
        "what no hint is known of", saving(square, lambda x, g: g[99]), (X,), {},
        "backward-raises", "Read the line that raises the exception, and print the shapes",
    ),
    (
        "the larger shape, and wrong", saving(torch.add, lambda x, b, g: (g, 2 * g)), (X, X[0]), {},
        "unreduced-broadcast", "error: backward returns a gradient of shape (3, 4) for args[1], "
        "which has shape (4,). Autograd silently sums it to that shape, and the sum is wrong.",
    ),
    (
        "both methods", BothOfInstances, (X,), {}, "missing-staticmethod",
        "error: forward and backward are instance methods, but they must be static methods.",
    ),
    (
        "an int", raw(saves_a_number, lambda ctx, g: 2 * g), (X,), {}, "non-tensor-saved",
        "got an int as argument 1 (counting from 0)",
    ),
    (
        "an input, marked, and another tensor returned",
        raw(marks_the_other, lambda ctx, g: (g, g)), (X, Y), {}, "wrong-mark-dirty",
        "forward marks an input as dirty but does not return it.",
    ),
    (
        "running statistics", raw(counts, lambda ctx, g: (2 * g, None)),
        (X.clone().requires_grad_(), X[0].clone()), {}, "mutates-input",
        "warning: forward changes m in place but does not mark it as dirty (m does not require "
        'grad). {"input": "m", "line": … Ignore this warning for running statistics',
    ),
    (
        "no return", raw(lambda ctx, x: None, lambda ctx, g: g), (X,), {}, "backward-never-called",
        'forward returns None, but it must return a tensor or a tuple of tensors. {"returned": '
        '"NoneType"} Return the result from forward: a return statement seems to be missing.',
    ),
    (
        "a list", raw(lambda ctx, x: [x * 2, x * 3], lambda ctx, g, h: g), (X,), {},
        "backward-never-called",
        '{"returned": "list"} Return several outputs as a tuple: return r, theta.',
    ),
    (
        "detached", lambda x: (2 * x).detach(), (X,), {}, "backward-never-called",
        "error: no output requires grad, so autograd never calls backward. {} Call F.apply",
    ),
    (
        "all outputs", raw(marks_both, lambda ctx, g, h: g), (X,), {}, "wrong-non-differentiable",
        "warning: output 0 changes smoothly with the inputs but is marked as non-differentiable, "
        "so no gradient flows back through any output.",
    ),
    (
        "the second output",
        raw(lambda ctx, x: (2 * x, x.view_as(x)), lambda ctx, g, h: 2 * g + h), (X,), {},
        "returns-view", "output 1 shares memory with x.",
    ),
    (
        "a dtype that backward does not take", saving(square, not_in_float32), (X,), {},
        "gradient-dtype", "warning: backward runs in float64 and bfloat16 but raises TypeError in "
        'float32: no such dtype {"exception": "TypeError", "text": "no such dtype", "line": "not',
    ),
    (
        "complex for a real", saving(square, lambda x, g: torch.complex(2 * x * g, g)), (X,), {},
        "gradient-dtype", "error: backward returns a complex gradient for args[0], which is "
        'real. Autograd rejects it with an error that does not name the cause. {"input": '
        '"args[0]", "expected": "real", "actual": "complex"} Return the real part: a real input '
        "cannot move",
    ),
    (
        "another number of outputs than the reference's", saving(square, lambda x, g: 2 * x * g),
        (X,), {"reference": lambda x: (x * x, x)}, "forward-mismatch",
        "forward returns 1 tensor, but the reference returns 2.",
    ),
    (
        "one output of two", saving(lambda x: (x * x, 2 * x), lambda x, g, h: 2 * x * g + 2 * h),
        (X,), {"reference": lambda x: (x * x, 3 * x)}, "forward-mismatch",
        'output 1 of forward differs from the reference at all 12 elements. {"input": "output '
        '1", "index": [0, 0]',
    ),
    (
        "parallel to one number, as the true one is",
        saving(lambda x: x.sum().expand(4), lambda x, g: 2 * g.sum().expand(3, 4)), (X,), {},
        "constant-factor", "2 times the true gradient",
    ),
    (
        "held fixed by the reference", saving(product, lambda x, y, g: (g * y, g * x)),
        (X, Y), {"reference": lambda x, y: x * y.detach()}, "extra-gradient",
        "backward returns a gradient for args[1], but the reference treats args[1] as a constant.",
    ),
    (
        "not in the surrogate", saving(lambda x, y: x.round() * y, lambda x, y, g: (g, g)),
        (X, Y), {"surrogate": lambda x, y: 1 * x}, "extra-gradient",
        "backward returns a gradient for args[1], but the declared surrogate does not depend on "
        "args[1].",
    ),
    (
        "zeros where the surrogate has a slope", saving(torch.round, lambda x, g: 0 * g),
        (X,), {"surrogate": lambda x: 1 * x}, "missing-gradient",
        "is zero everywhere, but the declared surrogate depends on args[0].",
    ),
    (
        "infinite", saving(torch.sqrt, lambda x, g: g / torch.zeros_like(x)), (X.abs(),), {},
        "non-finite", "the gradient of args[0] is inf where the true gradient is finite.",
    ),
    (
        "a cumulative sum the same way round",
        saving(lambda x: x.cumsum(0), lambda x, g: g.cumsum(0)), (X[0],), {},
        "transposed-gradient", "It should be the transpose of the Jacobian times grad_output.",
    ),
    (
        "one output's part", saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: g * x.exp() + h),
        (X,), {}, "gradient-mismatch", "The error comes only from the second output.",
    ),
    (
        "an intermediate result", raw(keeps_a_result, lambda ctx, g: g * ctx.kept), (X,), {"double_backward": False},
        "tensor-on-ctx", "ctx.kept stores an intermediate result as an attribute. PyTorch does "
        "not free this tensor after backward, and saved-tensor hooks do not see it.",
    ),
    (
        "the output", raw(keeps_the_output, lambda ctx, g: g * ctx.y), (X,), {}, "tensor-on-ctx",
        "error: ctx.y stores the output as an attribute, which creates a reference cycle. The "
        "gradient of x changes when the output is changed in place after forward, and PyTorch "
        "raises no error.",
    ),
    (
        "five gradients", saving(five, all_five), (X, Y, X + 1, Y + 1, X + Y), {}, "wasted-gradient",
        "info: backward computes the gradient of args[0] (4 operations: mul 4 times) even "
        "when args[0] does not require grad. The same holds for args[1], args[2] and 2 more. {",
    ),
    (
        "two tensors for nothing", Sum, (X, Y), {}, "oversaved",
        "info: forward saves x and y for backward (192 bytes in float64), but no gradient "
        "depends on their values. {",
    ),
    (
        "it leaves", saving(square, lambda x, g: leave()), (X,), {}, "backward-raises",
        "error: backward calls exit() {",
    ),
    (
        "without a word", saving(square, lambda x, g: say_nothing()), (X,), {}, "backward-raises",
        "error: backward raises ValueError without a message {",
    ),
    (
        "beside a number", saving(lambda x, c: refuse(), lambda x, c, g: g), (X, 2.5), {},
        "forward-raises", '"call": "args[0] float64[3, 4], args[1] 2.5"}',
    ),
    (
        "the right shape, once it is turned, and wrong", saving(square, lambda x, g: (g * x.exp()).T),
        (X,), {}, "gradient-shape", "backward returns a gradient of shape (4, 3) for args[0], which",
    ),
    (
        "no tensors at all", raw(lambda ctx, x: (None, None), lambda ctx, g, h: g), (X,), {},
        "backward-never-called", "error: forward returns values of type NoneType, NoneType, but "
        'it must return a tensor or a tuple of tensors. {"returned": "NoneType, NoneType"} Call '
        "F.apply",
    ),
    (
        "of two elements", saving(torch.exp, lambda x, g: x.exp() * g.mean()), (draw(2),), {},
        "uniform-grad-output", "depends on grad_output only through a single number, its mean",
    ),
    (
        "a wrong sign, and a wrong axis for another dim", raw(softmax_along, minus_along_the_last),
        (X, -1), {}, "flipped-sign", "wrong sign everywhere",
    ),
    (
        "the second output's view", saving(
            lambda x: (x.exp(), (x * x).sum(-1, keepdim=True).squeeze(-1)),
            lambda x, g, h: g * x.exp() + 2 * x * h[:, None],
        ), (X,), {"level": "full"}, "returns-view",
        "info: output 1 is a view of a tensor that forward created, so changing it in place, for "
        "example with relu_(), raises an error. {} If callers may change the output in place, "
        "compute it in its final shape (x.sum(-1) instead of x.sum(-1, keepdim=True).squeeze(-1)), or "
        "return a copy.",
    ),
    (
        "in 16 bits", saving(square, lambda x, g: (2 * x.bfloat16() * g.bfloat16()).to(g.dtype)), (X,),
        {}, "precision", "warning: backward computes the gradient of args[0] in bfloat16, "
        'whatever the dtype of args[0] is. {"input": "args[0]", "line": "return b(*args, *gs)"} '
        "Remove the cast from backward, or the tensor that it creates in a fixed dtype.",
    ),
    (
        "a forward in 32 bits", saving(lambda x: (x.float() ** 2).to(x.dtype), lambda x, g: 2 * x * g),
        (X,), {}, "precision", "warning: the output is less precise than float64: it changes in "
        'steps, as a float32 result does. {"witness": "output[0, 2] changes by 0 when every input '
        'changes by a billionth; it should change by -9.5e-09"} Find the line that casts to float32, '
        "for example .float() or a NumPy operation. To use float32 for 16-bit inputs and float64 for "
        "float64 inputs, cast to torch.promote_types(x.dtype, torch.float32). If you can compute only "
        "in float32, pass reference=f, where f computes the same in float64 with PyTorch operations: "
        "finite differences of a float32 forward cannot show small errors of backward.",
    ),
    (
        "a sum of which a part is in 32 bits", saving(lambda x: 0.25 * x + (3 * x).float(), lambda x, g:
        (3.25 * g).to(x.dtype)), (X,), {}, "precision", '{"witness": "output[0, 2] changes by 5.4e-10 when '
        'every input changes by a billionth; it should change by 7.1e-09"}',
    ),
    (
        "beside a reference that is sound on the example",
        saving(lambda x: 1 - x.cos(), lambda x, g: x.sin() * g), (SMALL,),
        {"reference": lambda x: 2 * (x / 2).sin() ** 2}, "precision",
        "warning: the output loses precision in float32 on your inputs: its error is about",
    ),
    (
        "a slope in 32 bits, of declared steps", saving(
            lambda x: (4 * x.sin()).round() / 4, lambda x, g: (g * x.float().cos()).to(g.dtype)
        ), (X,), {"surrogate": torch.sin}, "precision",
        'float32 result does. {"witness": "gradient of args[0][0, 2] changes by ',
    ),
    (
        "jvp reads what was saved for backward only",
        split(sine, saved(times_cosine), setup=save_for_backward_only, jvp=saved(times_cosine)), (X,),
        {"level": "full"}, "wrong-jvp", "Call ctx.save_for_forward with the tensors that jvp needs",
    ),
    (
        "jvp raises", split(sine, saved(times_cosine), jvp=lambda ctx, t: refuse()), (X,), {},
        "wrong-jvp", "error: for a tangent of x, forward mode raises ValueError: no {",
    ),
    (
        "jvp raises", split(sine, saved(times_cosine), jvp=lambda ctx, t: refuse()), (X,), {},
        "wrong-jvp", "} Return one tangent for each output from jvp.",
    ),
    (
        "saved otherwise for both modes", split(
            sine, saved(times_cosine), setup=save_more_for_forward, generate_vmap_rule=True
        ), (X,), {}, "wrong-vmap", "Call ctx.save_for_forward with the same tensors as "
        "ctx.save_for_backward, in the same order:",
    ),
    (
        "vmap raises", split(sine, saved(times_cosine), vmap=lambda info, dims, x: refuse()), (X,), {},
        "wrong-vmap", "} In vmap, move the batch dim of each tensor to the front.",
    ),
    (
        "vmap sums", split(
            sine, saved(times_cosine), vmap=lambda info, dims, x: (x.sin().sum(-1), 0)
        ), (X,), {}, "wrong-vmap", "error: the output changes under torch.func.vmap. "
        '{"witness": "the output: shape (',
    ),
    (
        "three gradients", saving(lambda x, y, w: x * y * w, all_three), (X, Y, X + Y), {},
        "wasted-gradient", "backward computes the gradient of args[0] (2 operations: mul twice) "
        "even when args[0] does not require grad. The same holds for args[1] and args[2].",
    ),
]  # fmt: skip

# Of witnesses that no daily run takes, whose message is one of its own.
OF_WITNESSES = {
    "input-layout: only backward takes the input for dense":
        "error: the gradient of args[0] changes when args[0] is laid out in memory as a transpose. {",
    "input-layout: a view that forward cannot make":
        "warning: when args[0] is laid out in memory as a transpose, forward raises RuntimeError: view size",
    "batch-dimension: a weight that is right for a batch of 1":
        "error: the gradient of args[1] for a batch of 3 differs from the one computed slice by "
        'slice. {"witness": "the gradient of args[1][1, 1]: 0.678, should be 3.048"}',
    "batch-dimension: squeeze drops a batch of 1":
        "error: when the slices along dim 0 are passed one at a time, backward raises "
        "IndexError: too",
    "overflow: log-sum-exp of a row that is masked wholly":
        "error: the output is nan when every element of args[0][0] is -inf; it should be -inf. "
        '{"witness": "output[0]: nan, should be -inf"}',
    "tensor-on-ctx: an input, in a callable":
        "warning: ctx.x in Made stores an input as an attribute. PyTorch does not check this tensor for "
        "in-place changes, and saved-tensor hooks do not see it.",
    "constant-factor: a factor near 1 beside a forward in float32":
        "error: the gradient of args[0] is about 1.003 times the true gradient. {",
    "constant-factor: a factor beside a forward in float32":
        "error: the gradient of args[0] is about 1.1 times the true gradient. {",
    "constant-factor: a mean in float32, divided by half of N":
        "error: the gradient of args[0] is about 2 times the true gradient. {",
    "compile-mismatch: another formula under torch.compile":
        'warning: the output changes under torch.compile. {"witness": "output[0, 2]: -0.455, should',
    "returns-view: a view of a sum that forward made":
        "info: the output is a view of a tensor that forward created, so",
    "missing-dependency: the norms of filters held fixed":
        "within each slice along dim 0, the error in the gradient of args[0] is a multiple of the "
        "output. forward probably reduces over these elements (a mean,",
    "oversaved: a product that is never unpacked":
        "info: forward saves the output for backward (96 bytes in float64), but backward "
        "never unpacks it.",
}  # fmt: skip


# Right Functions that no daily run takes otherwise, and that some rule nearly takes for wrong.
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


# A right Function, and what about it might pass for a mistake.
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
