"""Lesson 15's helpers name missing packages, list hidden warnings and count a model's bytes."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from autograd_doctor.memory import stored_bytes
from torch import Tensor, nn

from autograd_course.ship import (
    MissingExtraError,
    check_onnx,
    first_sentence,
    missing,
    quiet,
    require_packages,
    run_onnx,
)

pytestmark = pytest.mark.slow

needs_onnx = pytest.mark.skipif(
    bool(missing("onnx", "onnxruntime")), reason="the extra ship is not installed"
)


# Packages


def test_what_is_not_installed_is_named_in_one_sentence_that_says_what_installs_it() -> None:
    require_packages("torch")
    with pytest.raises(MissingExtraError) as caught:
        require_packages("torch", "no_such_package", "nor_this")

    assert str(caught.value) == (
        'no_such_package and nor_this are not installed: run pip install "autograd-course[ship]" '
        "(or pip install no_such_package nor_this), then restart the kernel."
    )
    assert isinstance(caught.value, ImportError)


# Hidden warnings


def speak() -> None:
    with quiet():
        assert not logging.getLogger("torchao").isEnabledFor(logging.WARNING)
        warnings.warn("`torch.jit.script` is deprecated. Switch.", DeprecationWarning, stacklevel=1)
        warnings.warn("yours", UserWarning, stacklevel=1)


def test_quiet_holds_back_what_is_listed_and_lets_everything_else_through() -> None:
    level = logging.getLogger("torchao").level
    with pytest.warns(UserWarning, match="yours"):
        speak()

    assert logging.getLogger("torchao").level == level


def test_quiet_puts_the_loggers_back_after_an_error() -> None:
    logger = logging.getLogger("torchao")
    before = logger.level
    with pytest.raises(ValueError, match="yours"), quiet():
        raise ValueError("yours")

    assert logger.level == before


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("One. Two.", "One."),
        ("no stop", "no stop"),
        ("a\n  b. c", "a b."),
        (ValueError("x 1.5 is wrong. Repair it."), "x 1.5 is wrong."),
    ],
)
def test_the_first_sentence_stands_on_one_line(said: str | Exception, first: str) -> None:
    assert first_sentence(said) == first


# ONNX files


def model(operator: str = "Relu", domain: str = "") -> object:
    helper = pytest.importorskip("onnx.helper")
    floats = pytest.importorskip("onnx").TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(name, floats, [None, 2]) for name in "xy")
    node = helper.make_node(operator, ["x"], ["y"], domain=domain)
    editions = [helper.make_opsetid("", 18), helper.make_opsetid("course", 1)]
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=editions, ir_version=10)


@needs_onnx
def test_an_onnx_file_is_checked_and_run() -> None:
    x = torch.tensor([[-1.0, 2.0]], requires_grad=True)

    torch.testing.assert_close(run_onnx(model(), x), torch.tensor([[0.0, 2.0]]))


@needs_onnx
def test_a_file_that_breaks_the_rules_is_refused() -> None:
    with pytest.raises(Exception, match="No Op registered for NoSuchOperator"):
        check_onnx(model("NoSuchOperator"))


@needs_onnx
def test_the_checker_passes_a_foreign_domain_and_the_runtime_does_not() -> None:
    foreign = check_onnx(model("Levels", domain="course"))

    with pytest.raises(Exception, match=r"course:Levels.* is not a registered function/op"):
        run_onnx(foreign, torch.zeros(1, 2))


# Bytes


def test_a_models_bytes_are_those_of_parameters_and_buffers_each_storage_once() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    assert stored_bytes(net) == 4 * (12 + 3 + 4 * 3) + 8

    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    assert stored_bytes(tied) == 4 * 16


class Pair(Tensor):
    """A tensor that wraps two tensors."""

    @staticmethod
    def __new__(cls, one: Tensor, other: Tensor) -> Pair:
        made: Pair = Tensor._make_wrapper_subclass(cls, one.shape)  # type: ignore[attr-defined]
        made.one, made.other = one, other  # type: ignore[attr-defined]
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["one", "other"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0]  # a state dict only calls detach


def test_a_tensor_that_wraps_others_counts_as_what_it_wraps() -> None:
    net = nn.Module()
    net.register_buffer("w", Pair(torch.zeros(5, dtype=torch.int8), torch.zeros(2)))

    assert stored_bytes(net) == 5 + 8
