"""Grade the exercises of lessons 11 and 12: additional methods, and the parts of an operator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from answers import RIGHT
from answers.lesson_11 import RMSNorm, RMSOnTheClass, backward_only
from answers.lesson_12 import _back, _empty, _sums, operator
from answers.making import spoiled
from torch.library import custom_op

from autograd_course import diagnose
from autograd_course.grader import grade


def stub(*args: Any) -> Any:
    raise NotImplementedError


def vmap(info: Any, in_dims: Any, a: Any, b: Any) -> Any:
    raise NotImplementedError


def jvp(ctx: Any, x_tangent: Any, t_tangent: Any) -> Any:
    raise NotImplementedError


def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    raise NotImplementedError


def backward(*args: Any) -> Any:
    raise NotImplementedError


def fake(x: Any, width: int) -> Any:
    raise NotImplementedError


UNFINISHED = [
    ("vmap-solve", {"vmap": vmap}, "`forward` is right. You have not written `vmap` yet."),
    ("jvp-smooth-maximum", {"jvp": jvp}, "`forward` is right. You have not written `jvp` yet."),
    (
        "jvp-smooth-maximum",
        {"setup_context": setup_context, "jvp": jvp},
        "You have not written `setup_context` yet.",
    ),
    ("repair-graph-breaks", {"backward": backward}, "ou have not written `backward` yet."),
    (
        "split-rms-norm",
        {"forward": stub},
        "`forward` yet: forward(x, weight, eps).",
    ),
]


@pytest.mark.parametrize(("exercise", "methods", "says"), UNFINISHED)
def test_a_method_that_is_a_stub_is_named(
    exercise: str, methods: dict[str, Any], says: str
) -> None:
    result = grade(exercise, spoiled(RIGHT[exercise], **methods))

    assert result.status == "not attempted", str(result)
    assert says in " ".join(str(result).split())


def operator_with(**stubs: Any) -> Any:
    """Return the right operator with stubs for some of its parts."""
    parts = {"kernel": _sums, "fake": _empty, "backward": _back, **stubs}

    def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
        return parts["kernel"](x, width)  # type: ignore[no-any-return]

    types = {"x": torch.Tensor, "width": int, "return": torch.Tensor}
    window_sums.__annotations__ = types
    made = custom_op("tests::window_sums", window_sums, mutates_args=())
    made.register_fake(lambda x, width: parts["fake"](x, width))
    made.register_autograd(
        lambda ctx, g: (parts["backward"](made, ctx, g), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "width", inputs[1]),
    )
    return made


@pytest.mark.parametrize(
    ("stubs", "says"),
    [
        ({"kernel": stub}, "ou have not written `stub` yet."),
        ({"backward": backward}, "ou have not written `backward` yet."),
        ({"fake": fake}, "values and gradient are right; fake is still to be written."),
    ],
)
def test_a_part_of_an_operator_that_is_a_stub_is_named(stubs: dict[str, Any], says: str) -> None:
    result = grade("operator-window-sums", operator_with(**stubs))

    assert result.status == "not attempted", str(result)
    assert says in " ".join(str(result).split()).lower()


def test_a_jvp_that_finds_nothing_saved_is_told_where_to_save() -> None:
    answer = spoiled(RIGHT["jvp-smooth-maximum"], setup_context=backward_only)

    result = grade("jvp-smooth-maximum", answer)

    assert "`ctx.save_for_forward` with the tensors that `jvp` needs" in " ".join(
        str(result).split()
    )
    assert result.message.endswith("holds only the tensors passed to `ctx.save_for_forward`.")


def test_an_operator_is_told_without_paths_of_the_machine() -> None:
    result = grade("operator-window-sums", operator(lambda x, width: x))

    assert "site-packages" not in str(result)


def test_what_a_transform_left_on_a_class_does_not_trip_the_doctor() -> None:
    x, weight = torch.randn(2, 3).double(), torch.ones(3).double()
    torch.func.vmap(lambda x: RMSOnTheClass.apply(x, weight, 0.1)[0])(x)

    assert not diagnose(RMSOnTheClass, (x, weight, 0.1)).ok
    assert diagnose(RMSNorm, (x, weight, 0.1)).ok
