"""✓ means examined: a declaration turns off only one rule, and the report says what was not
examined.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from autograd_doctor import WrongGradientError, assert_gradients, diagnose
from cases.making import X, draw, raw, saving
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function

SINGLE = X.float()


def squared(backward: Any) -> type[Function]:
    """Return x² with a backward of ``x`` and ``grad_output``."""
    return saving(lambda x: x * x, backward)


def mutating_its_grad_output(x: Tensor, g: Tensor) -> Tensor:
    g.mul_(2)
    return 2 * x


def mutating_its_input(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x.clone())
    ctx.at = x.clone()
    x.data.mul_(0.5)
    return ctx.at**2


LINEAR, UNIFORM, IGNORES = (
    "nonlinear-in-grad-output",
    "uniform-grad-output",
    "ignores-grad-output",
)


@pytest.mark.parametrize(
    ("what", "fn", "declared", "ok", "says"),
    first_rows([
        ("clipped", squared(lambda x, g: 2 * x * g.clamp(-1, 1)), LINEAR, True, "about 0.001"),
        ("clipped low", squared(lambda x, g: 2 * x * g.clamp(-1e-4, 1e-4)), LINEAR, True, "1e-06"),
        ("clipped by norm", squared(lambda x, g: 2 * x * g / max(1.0, float(g.norm()))), LINEAR,
         True, "about 0.001"),
        ("guided", saving(torch.relu, lambda x, g: (x > 0) * g.relu()), LINEAR, True, "above 0"),
        ("inverted", saving(torch.relu, lambda x, g: (x > 0) * g.clamp(max=0)), LINEAR, True,
         "below 0"),
        ("a dead zone", squared(lambda x, g: 2 * x * g * (g.abs() > 0.5)), LINEAR, True,
         "of 1000 or more"),
        ("clipped and wrong", squared(lambda x, g: 7 * x * g.clamp(-1, 1)), LINEAR, False,
         "constant-factor: The gradient of `args[0]` is 7/2 times"),
        ("guided and wrong", saving(torch.relu, lambda x, g: g.relu()), LINEAR, False,
         "wrong-region"),
        ("normalized", squared(lambda x, g: 2 * x * g / g.norm()), LINEAR, None,
         "values: not examined"),
        ("the sign alone", squared(lambda x, g: 2 * x * g.sign()), LINEAR, None,
         "values: not examined"),
        ("a mean", squared(lambda x, g: 2 * x * g.mean()), UNIFORM, True, "are all equal"),
        ("a mean and wrong", squared(lambda x, g: 7 * x * g.mean()), UNIFORM, False, "7/2 times"),
        ("right for 1", squared(lambda x, g: 2 * x), IGNORES, True, "are all equal"),
        ("wrong for 1", squared(lambda x, g: 7 * x), IGNORES, None, "Where `grad_output` is 1"),
        ("grad_output is changed, and ignored", squared(mutating_its_grad_output),
         "mutates-grad-output", False, "ignores-grad-output"),
        ("the input is changed, and grad_output ignored",
         raw(mutating_its_input, lambda ctx, g: 2 * ctx.at), "mutates-input", False,
         "ignores-grad-output"),
        ("flipped, and not uniform at all", raw(lambda ctx, x: x.flip(0) * 1, lambda ctx, g: 1 * g),
         UNIFORM, False, "permuted-gradient"),
        ("zeros", saving(lambda x: x.softmax(-1), lambda x, g: 0 * g), UNIFORM, False,
         "missing-gradient"),
        ("the wrong sign, and grad_output is read", saving(torch.sin, lambda x, g: -g * x.cos()),
         IGNORES, False, "flipped-sign"),
        ("a loss that is never scaled", saving(lambda x: (x * x).sum(), lambda x, g: 3 * x),
         IGNORES, False, "3/2 times"),
        ("a term is added", squared(lambda x, g: 2 * x * g + 1), IGNORES, None, "adds something"),
        ("reversed", raw(lambda ctx, x: 1 * x, lambda ctx, g: -g), "flipped-sign", True,
         "flipped-sign, by design"),
        ("anything", squared(lambda x, g: x**3 * g), "gradient-mismatch", None,
         "values of `args[0]`: not examined. You declared `gradient-mismatch`, so `diagnose` does"),
        ("rounded", saving(torch.round, lambda x, g: g), "undeclared-surrogate", None,
         "Pass `surrogate=f`"),
    ], lambda row: row[2], unpack=True),
    ids=lambda value: value if isinstance(value, str) and " " in value else None,
)  # fmt: skip
def test_a_declared_rule_is_turned_off_and_nothing_else(what, fn, declared, ok, says) -> None:
    diagnosis = diagnose(fn, (X,), intentional=declared)

    assert diagnosis.ok is ok, str(diagnosis)
    assert declared not in [finding.rule for finding in diagnosis.findings]
    assert says in " ".join(str(diagnosis).split())
    assert bool(diagnosis.unexamined) == (ok is None)


def test_what_was_not_examined_is_no_check_mark_anywhere() -> None:
    anything = squared(lambda x, g: x**3 * g)

    diagnosis = diagnose(anything, (X,), intentional="gradient-mismatch")

    assert str(diagnosis).startswith("? Made · no error found, but values were not examined")
    assert "✓" not in diagnosis._repr_html_()
    assert json.loads(json.dumps(diagnosis.to_dict()))["ok"] is None
    assert not diagnosis.passes()
    with pytest.raises(WrongGradientError, match="not examined"):
        assert_gradients(anything, (X,), intentional="gradient-mismatch")


def single_alone(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError("float32 alone")
    return x.sin()


def high_bits(x: Tensor) -> Tensor:
    """Return x with the lower half of each number's 32 bits cleared."""
    return (x.contiguous().view(torch.int32) & -65536).view(torch.float32)


# In float32, both are right. On float64 copies, one raises, and one computes a different function.


class PairsAsComplex(Function):
    """|z|² of pairs of neighboring numbers, which NumPy views as complex64."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        z = torch.from_numpy(x.numpy().view(np.complex64))
        return (z.real**2 + z.imag**2).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        assert g.shape == (len(x), x.shape[1] // 2), "one number for each pair"
        return (2 * x.unflatten(1, (-1, 2)) * g[..., None]).flatten(1)


def scattered(x: Tensor, g: Tensor) -> Tensor:
    return torch.zeros(x.shape, device=x.device).index_add_(
        0, torch.arange(len(x), device=x.device), 2 * x * g
    )


def in_single_all_along(x: Tensor, g: Tensor) -> Tensor:
    """Add a float32 cotangent to float32 zeros, for any dtype of the input."""
    zeros, places = (
        torch.zeros(x.numel(), device=x.device),
        torch.arange(x.numel(), device=x.device),
    )
    return zeros.index_add_(0, places, (2 * x.float() * g).flatten()).view_as(x).to(x.dtype)


def test_the_cotangent_has_the_outputs_dtype() -> None:
    """Forward returns float32 for any input, so autograd passes float32 to backward."""
    handed = set()

    def noting(x: Tensor, g: Tensor) -> Tensor:
        handed.add(g.dtype)
        return in_single_all_along(x, g)

    diagnosis = diagnose(saving(lambda x: (x * x).float(), noting), (SINGLE,))

    assert handed == {torch.float32}
    assert diagnosis.ok, str(diagnosis)


@pytest.mark.parametrize(
    ("fn", "rules", "says"),
    [
        (PairsAsComplex, [], "copies of the inputs. For these, forward returns other shapes"),
        (squared(scattered), ["gradient-dtype"], "On your inputs, `backward` runs."),
    ],
    ids=["another shape in float64", "a scatter into float32"],
)
def test_an_exception_counts_only_in_the_callers_own_dtype(fn, rules, says) -> None:
    single = diagnose(fn, (SINGLE,))
    double = diagnose(fn, (X,))

    assert [(f.rule, f.severity) for f in single.findings] == [(rule, "warning") for rule in rules]
    assert single.ok is None
    assert says in single.unexamined[0]
    assert [f.severity for f in double.findings] == ["error"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_an_argument_that_is_the_dtype_of_the_inputs_follows_them(dtype) -> None:
    handed = set()

    def squared(x: Tensor, like: torch.dtype) -> Tensor:
        handed.add((x.dtype, like))
        return x.to(like) ** 2

    fn = saving(squared, lambda x, like, g: (2 * x.conj() * g, None))

    assert diagnose(fn, (draw(3, dtype=dtype), dtype)).findings == ()
    assert not [pair for pair in handed if pair[0] != pair[1]]


def test_an_argument_that_is_another_dtype_stays() -> None:
    handed = set()

    def rounded(x: Tensor, like: torch.dtype) -> Tensor:
        handed.add(like)
        return x * x

    diagnose(saving(rounded, lambda x, like, g: (2 * x * g, None)), (X, torch.float16))

    assert handed == {torch.float16}


def test_a_call_that_fails_in_float64_alone_is_not_held_against_a_layout() -> None:
    """Backward rejects non-contiguous float64 cotangents but accepts float32 ones."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        if g.dtype == torch.float64 and not g.is_contiguous():
            raise RuntimeError("no kernel for strided float64")
        return 2 * x * g

    assert diagnose(squared(backward), (SINGLE,)).ok
    assert diagnose(squared(backward), (X,)).findings[0].rule == "grad-output-layout"


@pytest.mark.parametrize(
    ("what", "fn", "inputs", "options", "says"),
    [
        ("forward takes float32 alone", saving(single_alone, lambda x, g: g * x.cos()), (SINGLE,),
         {}, "On these, `forward` raises TypeError: float32 alone. On your inputs, `forward`"),
        ("bits of float32", raw(lambda ctx, x: high_bits(x), lambda ctx, g: 1 * g), (SINGLE,),
         {"surrogate": lambda x: 1 * x}, "For these, forward returns other shapes"),
        ("a product in float16", saving(lambda x, w: (x.half() @ w.half().T).to(x.dtype),
                                        lambda x, w, g: (g @ w, g.T @ x)), (X, draw(5, 4, seed=2)),
         {}, "16-bit numbers"),
        ("bfloat16 comes out", saving(lambda x: x.bfloat16(), lambda x, g: g.to(x.dtype)), (X,), {},
         "16-bit numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else None,
)  # fmt: skip
def test_what_float64_copies_cannot_show_is_said(what, fn, inputs, options, says) -> None:
    diagnosis = diagnose(fn, inputs, **options)

    assert diagnosis.ok is None, str(diagnosis)
    assert says in diagnosis.unexamined[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_fails_in_the_callers_own_dtype_is_an_error(dtype) -> None:
    """Forward inverts the matrix in float32, but backward uses a dtype in which PyTorch cannot
    invert.
    """
    inverse = saving(
        lambda a: torch.linalg.inv(a.float()).to(a.dtype),
        lambda a, g: -torch.linalg.inv(a).mT @ g @ torch.linalg.inv(a).mT,
    )

    (finding,) = diagnose(inverse, ((draw(3, 3) + 3 * torch.eye(3)).to(dtype),)).findings[:1]

    assert (finding.rule, finding.severity) == ("backward-raises", "error")
    assert "the dtype of your inputs" in finding.message


class CountsInHalf(Function):
    """x². Its backward reads too many entries of needs_input_grad, but only for float16."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None if g.dtype == torch.float16 and ctx.needs_input_grad[1] else 2 * x * g


def test_what_fails_in_the_callers_own_dtype_has_its_line_and_hint() -> None:
    (finding,) = diagnose(CountsInHalf, (X.half(),)).findings

    assert finding.message.startswith("in float16, the dtype of your inputs, `backward` raises")
    assert finding.evidence["call"] == "x float16[3, 4]"
    assert "`ctx.needs_input_grad` has entries only for arguments" in finding.hint


def single_and_double(ctx, x: Tensor) -> Tensor:
    if x.dtype == torch.float16:
        raise ValueError("no float16")
    ctx.save_for_backward(x)
    return x * x


def test_a_forward_that_fails_in_the_callers_own_dtype_is_shown_in_it() -> None:
    fn = raw(single_and_double, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)

    (finding,) = diagnose(fn, (X.half(),)).findings

    assert finding.rule == "forward-raises"
    assert finding.message == (
        "in float16, the dtype of your inputs, `forward` raises ValueError: no float16"
    )
    assert finding.evidence["call"] == "x float16[3, 4]"


def rotated(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


COS, SIN = (f(draw(3, 2).repeat(1, 2)) for f in (torch.cos, torch.sin))


@pytest.mark.parametrize(
    ("what", "fn"),
    [
        ("a rotary embedding in float32", saving(
            lambda x: (x.float() * COS + rotated(x.float()) * SIN).type_as(x),
            lambda x, g: (g.float() * COS - rotated(g.float() * SIN)).type_as(g))),
        ("a cast cotangent", saving(torch.sin, lambda x, g: (g.float() * x.cos()).type_as(x))),
        ("float64 and float32", saving(lambda x: (x * x, x.float().sin()),
                                       lambda x, a, b: 2 * a * x + b.to(a.dtype) * x.cos())),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inputs", [X, SINGLE], ids=["float64", "float32"])
def test_rounding_to_float32_is_no_wrong_gradient(what, fn, inputs) -> None:
    assert diagnose(fn, (inputs,)).ok


@pytest.mark.parametrize(
    ("what", "fn", "inputs"),
    [
        ("|x|", saving(torch.abs, lambda x, g: g * x / x.abs()), torch.zeros(3)),
        ("a norm", saving(lambda x: x.norm(dim=-1), lambda x, g:
                          g[:, None] * x / x.norm(dim=-1, keepdim=True)),
         torch.tensor([[0.0, 0.0], [1.0, 2.0]])),
    ],
)  # fmt: skip
def test_nan_at_a_kink_of_the_example_is_found(what, fn, inputs) -> None:
    assert [finding.rule for finding in diagnose(fn, (inputs,)).findings] == ["non-finite"]


@pytest.mark.parametrize(
    ("what", "fn", "inputs", "origin"),
    [
        ("2 is the square root of 4", squared(lambda x, g: 4 * x * g), (draw(4, 5),), ""),
        ("2 is a length", squared(lambda x, g: x * g), (draw(2, 2),), ""),
        ("3 is a length", saving(lambda x: x**3, lambda x, g: x * x * g), (draw(3, 4),), ""),
        ("3 is an argument", saving(lambda x, s: 2 * x.sin(), lambda x, s, g:
                                    (6 * g * x.cos(), None)), (draw(4), 3), ""),
        ("an argument", saving(lambda x, s: s * x.sin(), lambda x, s, g: (g * x.cos(), None)),
         (draw(4), 3), "(3 is the value of `args[1]`)"),
        ("a mean", saving(torch.mean, lambda x, g: g.expand_as(x)), (draw(4, 5),),
         "(20 is the number of elements of `args[0]`)"),
        ("attention's scale", saving(lambda q, k: q @ k.T / math.sqrt(q.shape[1]),
                                     lambda q, k, g: (g @ k, g.T @ q)), (draw(3, 4), draw(6, 4)),
         "(2 is the square root of the size of dim 1 of `args[0]`)"),
    ],
)  # fmt: skip
def test_a_coincidence_of_numbers_is_not_named(what, fn, inputs, origin) -> None:
    message = diagnose(fn, inputs).findings[0].message

    assert origin in message
    assert origin or "(" not in message, message


@pytest.mark.parametrize(
    ("read", "backward", "asks"),
    [
        (torch.tril, lambda low, x, g: torch.outer(g, x), True),
        (torch.tril, lambda low, x, g: torch.outer(g, x).tril(), False),
        (torch.clone, lambda low, x, g: torch.outer(g, x), False),
    ],
)
def test_a_gradient_of_elements_that_forward_does_not_read_is_mentioned(
    read: Any, backward: Any, asks: bool
) -> None:
    class TriangularProduct(Function):
        @staticmethod
        def forward(ctx: Any, low: Tensor, x: Tensor) -> Tensor:
            ctx.save_for_backward(low, x)
            return read(low) @ x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            low, x = ctx.saved_tensors
            return backward(low, x, g), low.tril().mT @ g

    report = str(diagnose(TriangularProduct, (draw(3, 3).tril(), draw(3))))

    assert ("so their gradient should be 0" in " ".join(report.split())) is asks


@pytest.mark.parametrize(
    ("index", "mask", "said"),
    [
        ([0, 3, 1], [True, False, True], ["`index` only without equal values"]),
        ([0, 3, 3], [True, True, True], ["`mask` only with True everywhere"]),
        ([0, 3, 3], [False, False, False], ["`mask` only with False everywhere"]),
        ([0, 3, 3], [True, False, True], []),
    ],
)
def test_a_mask_or_an_index_that_hides_mistakes_is_mentioned(
    index: list[int], mask: list[bool], said: list[str]
) -> None:
    class Picked(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, index: Tensor, mask: Tensor) -> Tensor:
            ctx.save_for_backward(x, index, mask)
            return x[index] * mask

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
            x, index, mask = ctx.saved_tensors
            return torch.zeros_like(x).index_add(0, index, g * mask), None, None

    diagnosis = diagnose(Picked, (draw(4), torch.tensor(index), torch.tensor(mask)))

    assert diagnosis.ok
    assert [it.partition(",")[0] for it in diagnosis.limits if " only " in it] == said


# --------------------------------------------------------------------------------------------------
# What diagnose tried, but forward refuses or does not finish.
# --------------------------------------------------------------------------------------------------


def refuses_nothing(x: Tensor) -> Tensor:
    if not len(x):
        raise ValueError("no rows")
    return x.square()


def never_ends_for_large_numbers(x: Tensor) -> Tensor:
    while x.abs().max() > 50:
        x = x + 0
    return x.square()


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (refuses_nothing, "no empty batch, because `forward` raises an error for it"),
        (never_ends_for_large_numbers, "because a pass then takes more than 1 s"),
    ],
)
def test_a_call_that_forward_refuses_is_not_among_the_examined_ones(forward, says) -> None:
    diagnosis = diagnose(saving(forward, lambda x, g: 2 * x * g), X)

    assert diagnosis.ok
    assert any(says in limit for limit in diagnosis.limits)
