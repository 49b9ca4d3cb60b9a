"""Inputs as text: the result of each description, and the error for an invalid one."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from autograd_doctor._example_call import DTYPES, inputs_from
from autograd_doctor._targets import NotUnderstoodError
from torch import Tensor

MANY = 2000  # number of draws, enough to come close to both ends of a range


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        ("f64[3,4]", torch.float64, (3, 4)),
        ("f64[ 3, 4 ]", torch.float64, (3, 4)),
        ("f64[]", torch.float64, ()),
        ("f64[0,3]", torch.float64, (0, 3)),
        ("bf16[2]", torch.bfloat16, (2,)),
        ("c64[2]", torch.complex64, (2,)),
        ("float16[2]", torch.float16, (2,)),
        ("double[2]", torch.float64, (2,)),
        ("i32[5]<3", torch.int32, (5,)),
        ("bool[2,2]", torch.bool, (2, 2)),
    ],
)
def test_a_tensor_has_its_type_and_shape(spec: str, dtype: torch.dtype, shape: tuple[int]) -> None:
    (tensor,) = inputs_from(spec)

    assert (tensor.dtype, tensor.shape) == (dtype, shape)
    assert not tensor.requires_grad


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        (f"f64[{MANY}]>0", 0.0, None),
        (f"f64[{MANY}]>-2.5", -2.5, None),
        (f"f64[{MANY}]<1", None, 1.0),
        (f"bf16[{MANY}](-1,1)", -1.0, 1.0),
        (f"f32[{MANY}](1e-3, 2e-3)", 1e-3, 2e-3),
    ],
)
def test_real_numbers_lie_strictly_within_their_range(
    spec: str, low: float | None, high: float | None
) -> None:
    (tensor,) = inputs_from(spec)

    assert low is None or low < tensor.min() < low + 0.1
    assert high is None or high - 0.1 < tensor.max() < high


@pytest.mark.parametrize(
    ("spec", "drawn"),
    [
        (f"i64[{MANY}]", range(10)),
        (f"i64[{MANY}]<4", range(4)),
        (f"i32[{MANY}](2,6)", range(2, 6)),
        (f"i64[{MANY}](-3,0)", range(-3, 0)),
        (f"bool[{MANY}]", range(2)),
    ],
)
def test_integers_are_those_of_pythons_range(spec: str, drawn: range) -> None:
    (tensor,) = inputs_from(spec)

    assert set(tensor.tolist()) == set(drawn)


@pytest.mark.parametrize(
    "literal",
    ["0.5", "3", "-1e-3", "True", "None", "'a b'", '"f64[2]"', "(2,2)", "(2, 2)", "[1, (2, 3)]",
     "((1, 2), 3)"],
)  # fmt: skip
def test_a_literal_is_itself(literal: str) -> None:
    assert inputs_from(f"{literal} {literal}") == (ast.literal_eval(literal),) * 2


def values(spec: str, seed: int = 0) -> list[Any]:
    return [v.tolist() if isinstance(v, Tensor) else v for v in inputs_from(spec, seed)]


def test_the_seed_draws_and_nothing_else_does() -> None:
    state = torch.get_rng_state()

    assert values("f64[3] i64[3] 0.5") == values("f64[3] i64[3] 0.5")
    assert values("f64[3]") != values("f64[3]", seed=1)
    assert torch.equal(state, torch.get_rng_state())


def test_every_type_gets_the_same_numbers_rounded() -> None:
    (wide,), (narrow,) = inputs_from("f64[5]"), inputs_from("f16[5]")

    assert torch.equal(wide.half(), narrow)


def test_const_asks_for_the_gradient_of_the_other_tensors() -> None:
    const, x, index, z = inputs_from("const f64[3]>0 f64[3] const i64[3] c64[2]")

    assert [t.requires_grad for t in (const, x, index, z)] == [False, True, False, True]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("0.5 f65[3]", "`f65[3]`: f65 is not a dtype. Did you mean f64?"),
        ("flaot32[3]", "`flaot32[3]`: flaot32 is not a dtype. Did you mean float32?"),
        ("sqrt[3]", "`sqrt[3]`: sqrt is not a dtype."),
        ("f64[3,x]", "`f64[3,x]`: a shape consists of integers, as in f64[3,4] or f64[]."),
        ("f64[3,]", "`f64[3,]`: a shape consists of integers, as in f64[3,4] or f64[]."),
        ("f64[-1]", "`f64[-1]`: a shape consists of integers, as in f64[3,4] or f64[]."),
        ("f64", "`f64`: write the shape of a tensor in brackets, as in f64[3,4] or f64[]."),
        ("f64[3,4 0.5", "`f64[3,4`: write the shape of a tensor in brackets, as in f64[3,4] or "
         "f64[]."),
        ("const 0.5", "`const 0.5`: write the shape of a tensor in brackets, as in f64[3,4] or "
         "f64[]."),
        ("f64[9999,9999]", "`f64[9999,9999]`: this tensor is too large. A few elements are "
         "enough."),
        ("f64[3]!", "`f64[3]!`: ! is not a range. Write it as >0, <1 or (0,1)."),
        ("f64[3]>a", "`f64[3]>a`: a is not a valid float64 number."),
        ("f64[3]<nan", "`f64[3]<nan`: nan is not a valid float64 number."),
        ("i64[3]<2.5", "`i64[3]<2.5`: 2.5 is not a valid int64 number."),
        ("i32[3]<9999999999", "`i32[3]<9999999999`: 9999999999 is not a valid int32 number."),
        ("f64[3](1,0)", "`f64[3](1,0)`: there is no number between 1.0 and 0.0."),
        ("i64[3]<0", "`i64[3]<0`: there is no number between 0 and 0."),
        ("i64[3]>0", "`i64[3]>0`: a range of integers needs both ends, as in i64[5](1,10)."),
        ("c64[3]>0", "`c64[3]>0`: only real numbers and integers can have a range."),
        ("f64[3], 0.5", "`f64[3],`: separate arguments with spaces, not with commas."),
        ("mean", "`mean`: this is neither a tensor such as f64[3,4] nor a literal. Put strings in "
         "quotes. To call a function with this name, write the file as well: file.py:mean."),
        ("const f64[3] 1", "Every floating-point tensor is const. Remove const from at least one."),
        (" ", "--inputs is empty. Describe each argument, as in 'f64[3,4] 0.5'."),
    ],
)  # fmt: skip
def test_what_describes_nothing_is_quoted_and_refused(spec: str, says: str) -> None:
    with pytest.raises(NotUnderstoodError) as refused:
        inputs_from(spec)

    assert str(refused.value) == says


@pytest.mark.parametrize("name", DTYPES)
def test_the_command_s_help_names_every_type(name: str) -> None:
    pytest.importorskip("typer", reason="the command needs the extra cli")
    from autograd_doctor.cli import check_epilog

    assert f" {name}" in check_epilog("autograd-doctor")
    assert inputs_from(f"{name}[2]")[0].dtype == DTYPES[name]
