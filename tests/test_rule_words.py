"""What a rule says in those of its branches that no first witness takes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from cases.making import X, Y, raw, saving
from torch import Tensor
from torch.autograd import Function

from autograd_course import diagnose
from autograd_course.functions import LeakyReLUInPlace

product = torch.mul
FROM_ZERO = torch.tensor([0.0, 0.5, 1.0, 2.0, 3.0, 0.7])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
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


def with_one_tiny(rng: torch.Generator) -> tuple[Tensor]:
    return (torch.randn(5, generator=rng) * TINY_FIRST.sign() * torch.tensor([1e-7, 1, 1, 1, 1]),)


def optional(ctx, x, scale=1.0):
    ctx.save_for_backward(x)
    return scale * x


class Opaque:
    """What a Function is given beside tensors, and nobody can copy."""


ONE_FOR_THREE = raw(lambda ctx, x, y, tool: x * y, lambda ctx, g: (g,))
OF_ANOTHER_SHAPE = raw(lambda ctx, x, tool: x.sum(0), lambda ctx, g: (g.new_ones(7), None))


ALWAYS_RAISES = raw(lambda ctx, x, tool: 2 * x, lambda ctx, g: refuse())


def refuse():
    raise ValueError("no")


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


# What is wrong, the Function, its inputs, options, the rule, and words of its message or evidence.
SAID = [
    (
        "0/0 avoided by a hair", saving(lambda x: 2 * x, lambda x, g: 2 * g * x / (x + 1e-30)),
        (FROM_ZERO,), {}, "wrong-region", "wrong where args[0] is 0 (it is zero there)",
    ),
    (
        "a mask without its bound", saving(lambda x: 2 * x, lambda x, g: 2 * g * (x > 0)),
        (FROM_ZERO * SIGNS,), {}, "wrong-region", "wrong where args[0] <= 0 (it is zero there)",
    ),
    (
        "a cast to 16 bits", saving(in_half, lambda x, w, g: (g @ w, g.T @ x)), (X, Y), {},
        "undeclared-surrogate", "forward returns numbers of float16, which stand still",
    ),
    (
        "the norm of the whole, by NumPy, held fixed",
        saving(lambda x: x / numpy_norm(x), lambda x, g: g / numpy_norm(x)), (X,), {},
        "missing-dependency", "in the whole tensor a multiple of",
    ),
    (
        "no gradient for the negative",
        none_unless(lambda total: total > 0), (X, Y), {}, "nonlinear-in-grad-output",
        "0 for -1 · grad_output, should be 4.845",
    ),
    (
        "no gradient for the first cotangent",
        none_unless(lambda total: abs(total) < 3), (X, Y), {}, "nonlinear-in-grad-output",
        "gradient 0 for grad_output, -5.887 for the sum, should be -1.042",
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
        "for 0 · grad_output, should be 0",
    ),
    (
        "something endless is added",
        saving(square, lambda x, g: 2 * x * g + (0 if g.any() else torch.inf)),
        (X,), {}, "ignores-grad-output", "inf for 0 · grad_output, should be 0",
    ),
    (
        "one entry, neither the mean nor the first",
        saving(square, lambda x, g: 2 * x * g[-1, -1]), (X,), {}, "uniform-grad-output",
        "only through one number: it is right",
    ),
    (
        "a huge element beside which the others are lost",
        saving(lambda x: 1 / x, lambda x, g: g / x**2), (TINY_FIRST,),
        {"sampler": with_one_tiny}, "flipped-sign", "wrong sign everywhere",
    ),
    (
        "a gradient for an argument that was left out",
        raw(optional, lambda ctx, g: (g, g.sum())), (X,), {}, "wrong-arity",
        "a gradient for scale, which this call left out: None belongs in its place then.",
    ),
    (
        "one gradient too many", raw(lambda ctx, x: 2 * x, lambda ctx, g: (g, g)), (X,), {},
        "wrong-arity", "backward returned 2 gradients; forward takes 1 argument (x).",
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x, y: ONE_FOR_THREE.apply(x, y, Opaque()) * 1, (X, Y), {}, "wrong-arity",
        'a backward returned 1 gradient where 3 were needed. {"returned": 1, "expected": 3}',
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x: OF_ANOTHER_SHAPE.apply(x, Opaque()) * 1, (X,), {}, "gradient-shape",
        "a backward returned a gradient of shape [7] for an input of shape [3, 4].",
    ),
    (
        "a Function inside, whose own call cannot be made again",
        lambda x: ALWAYS_RAISES.apply(x, Opaque()) * 1, (X,), {}, "backward-raises",
        "backward raised ValueError: no {",
    ),
    (
        "the tuple itself", raw(saves, lambda ctx, g: 2 * g * ctx.saved_tensors), (X,), {},
        "backward-raises", "ctx.saved_tensors is a tuple, also for a single tensor",
    ),
    (
        "what no hint is known of", saving(square, lambda x, g: g[99]), (X,), {},
        "backward-raises", "Read the line that raised; print the shapes",
    ),
    (
        "the larger shape, and wrong", saving(torch.add, lambda x, b, g: (g, 2 * g)), (X, X[0]), {},
        "unreduced-broadcast", "error: backward returned a gradient of shape (3, 4) for args[1], "
        "which has shape (4,): the engine sums it silently, and the sum is wrong.",
    ),
    (
        "both methods", BothOfInstances, (X,), {}, "missing-staticmethod",
        "error: forward and backward are instance methods; a Function's methods are static.",
    ),
    (
        "an int", raw(saves_a_number, lambda ctx, g: 2 * g), (X,), {}, "non-tensor-saved",
        "was given an int as argument 1 (counted from 0)",
    ),
    (
        "an input, marked, and another tensor returned",
        raw(marks_the_other, lambda ctx, g: (g, g)), (X, Y), {}, "wrong-mark-dirty",
        "an input was marked dirty, but forward does not return it.",
    ),
    (
        "running statistics", raw(counts, lambda ctx, g: (2 * g, None)),
        (X.clone().requires_grad_(), X[0].clone()), {}, "mutates-input",
        "warning: forward changed m in place, which asks for no gradient, and did not say so. "
        '{"input": "m"} Running statistics may be updated so',
    ),
    (
        "no return", raw(lambda ctx, x: None, lambda ctx, g: g), (X,), {}, "backward-never-called",
        "forward returned NoneType where a tensor or a tuple of tensors is needed. "
        '{"returned": "NoneType"} Is the return statement of forward missing?',
    ),
    (
        "a list", raw(lambda ctx, x: [x * 2, x * 3], lambda ctx, g, h: g), (X,), {},
        "backward-never-called",
        '{"returned": "list"} Return several outputs as a tuple: return r, theta.',
    ),
    (
        "detached", lambda x: (2 * x).detach(), (X,), {}, "backward-never-called",
        "no output requires grad: the result is cut off from the graph.",
    ),
    (
        "all outputs", raw(marks_both, lambda ctx, g, h: g), (X,), {}, "wrong-non-differentiable",
        "warning: output 0 is marked non-differentiable but changes smoothly with the inputs: "
        "no gradient comes back through any output.",
    ),
    (
        "the second output",
        raw(lambda ctx, x: (2 * x, x.view_as(x)), lambda ctx, g, h: 2 * g + h), (X,), {},
        "returns-view", "output 1 shares memory with the input x.",
    ),
    (
        "a dtype that backward does not take", saving(square, not_in_float32), (X,), {},
        "gradient-dtype", "error: backward runs in float64 and bfloat16 but raises TypeError in "
        'float32: no such dtype {"exception": "TypeError", "text": "no such dtype", "line": "not',
    ),
    (
        "complex for a real", saving(square, lambda x, g: torch.complex(2 * x * g, g)), (X,), {},
        "gradient-dtype", "error: backward returned a complex gradient for args[0], which is real; "
        "the engine raises an error that does not say so. "
        '{"input": "args[0]", "expected": "real", "actual": "complex"} A real input cannot move',
    ),
    (
        "another number of outputs than the reference's", saving(square, lambda x, g: 2 * x * g),
        (X,), {"reference": lambda x: (x * x, x)}, "forward-mismatch",
        "forward returns 1 tensor, the reference 2.",
    ),
    (
        "one output of two", saving(lambda x: (x * x, 2 * x), lambda x, g, h: 2 * x * g + 2 * h),
        (X,), {"reference": lambda x: (x * x, 3 * x)}, "forward-mismatch",
        'output 1 of forward is wrong at 12 of 12 elements. {"input": "output 1", "index": [0, 0]',
    ),
    (
        "parallel to one number, as the true one is",
        saving(lambda x: x.sum().expand(4), lambda x, g: 2 * g.sum().expand(3, 4)), (X,), {},
        "constant-factor", "2 times the true one, everywhere",
    ),
    (
        "held fixed by the reference", saving(product, lambda x, y, g: (g * y, g * x)),
        (X, Y), {"reference": lambda x, y: x * y.detach()}, "extra-gradient",
        "the input args[1] gets a gradient, but the reference holds it fixed.",
    ),
    (
        "not in the surrogate", saving(lambda x, y: x.round() * y, lambda x, y, g: (g, g)),
        (X, Y), {"surrogate": lambda x, y: 1 * x}, "extra-gradient",
        "the input args[1] gets a gradient, but the declared surrogate does not depend on it.",
    ),
    (
        "zeros where the surrogate has a slope", saving(torch.round, lambda x, g: 0 * g),
        (X,), {"surrogate": lambda x: 1 * x}, "missing-gradient",
        "is zero everywhere, but the declared surrogate depends on it.",
    ),
    (
        "infinite", saving(torch.sqrt, lambda x, g: g / torch.zeros_like(x)), (X.abs(),), {},
        "non-finite", "the gradient of args[0] is inf where the true one is finite.",
    ),
    (
        "a cumulative sum the same way round",
        saving(lambda x: x.cumsum(0), lambda x, g: g.cumsum(0)), (X[0],), {},
        "transposed-gradient", "forward's own linear map was applied, not its transpose.",
    ),
    (
        "one output's part", saving(lambda x: (x.exp(), x.sin()), lambda x, g, h: g * x.exp() + h),
        (X,), {}, "gradient-mismatch", "only what comes back through the second output is wrong.",
    ),
    (
        "an intermediate result", raw(keeps_a_result, lambda ctx, g: g * ctx.kept), (X,), {},
        "tensor-on-ctx", "ctx.kept keeps an intermediate result as an attribute: it is not freed "
        "after backward, and no saved-tensor hook sees it.",
    ),
    (
        "the output", raw(keeps_the_output, lambda ctx, g: g * ctx.y), (X,), {}, "tensor-on-ctx",
        "error: ctx.y keeps the output as an attribute, in a reference cycle: the gradient of x "
        "changes when the output is changed in place after forward, and nothing raises.",
    ),
    (
        "three gradients", saving(lambda x, y, w: x * y * w, all_three), (X, Y, X + Y), {},
        "wasted-gradient", "the gradient of args[0] is computed (2 operations: mul twice) even "
        "where args[0] asks for none; likewise that of args[1] and args[2].",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "inputs", "options", "rule", "words"),
    [row[1:] for row in SAID], ids=[f"{row[4]}: {row[0]}" for row in SAID],
)  # fmt: skip
def test_a_rule_says_which_of_its_cases_it_is(fn, inputs, options, rule, words) -> None:
    found = diagnose(fn, inputs, **options).findings[0]

    evidence = json.dumps(found.to_dict()["evidence"], ensure_ascii=False)
    assert found.rule == rule
    assert words in f"{found.severity}: {found.message} {evidence} {found.hint}"


def sums_to_one(x: Tensor) -> Tensor:
    return x.softmax(-1).sum(-1)


def rounding_alone(x: Tensor, g: Tensor) -> Tensor:
    y = x.softmax(-1)
    return y * (g[:, None] - (g[:, None] * y).sum(-1, keepdim=True))


# A right Function, and what about it might pass for a mistake.
CLEAN = [
    ("grad_output is rounded to float32", lambda x: x.float() ** 2, lambda x, g: 2 * x * g),
    ("of terms that cancel, rounding is left", sums_to_one, rounding_alone),
]


@pytest.mark.parametrize(("forward", "backward"), [r[1:] for r in CLEAN], ids=[r[0] for r in CLEAN])
def test_a_rule_does_not_take_rounding_for_a_mistake(forward, backward) -> None:
    diagnosis = diagnose(saving(forward, backward), (X,))

    assert diagnosis.ok, str(diagnosis)


def test_a_callable_may_change_the_input_that_it_returns() -> None:
    assert diagnose(lambda x: LeakyReLUInPlace.apply(x, 0.5), (X,)).ok
