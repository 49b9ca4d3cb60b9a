"""``declare`` and the declarations in pyproject.toml: deliberate deviations of a Function."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_doctor import CannotDiagnoseError, assert_gradients, declare, diagnose, recording
from torch import Tensor
from torch.autograd import Function

X = torch.tensor([-1.5, 0.5, 2.0])


class Sign(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 1.0 * grad_output


@declare(surrogate=lambda x: x)
class Declared(Sign):
    pass


class Inherits(Declared):
    pass


class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 1.0 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return -grad_output


@declare(intentional="flipped-sign")
class Meant(Reversed):
    pass


@declare(intentional="flipped-sing")
class Misspelled(Reversed):
    pass


def identity(x: Tensor) -> Tensor:
    return x


def test_the_class_itself_is_returned() -> None:
    assert declare(intentional=())(Sign) is Sign
    assert isinstance(Declared, type)


@pytest.mark.parametrize(
    ("fn", "options", "ok"),
    [
        (Sign, {}, False),
        (Declared, {}, True),
        (Declared.apply, {}, True),
        (Meant, {}, True),
        (Reversed, {}, False),
        # The caller's arguments take precedence.
        (Declared, {"surrogate": lambda x: 2 * x}, False),
        (Meant, {"intentional": "constant-factor"}, False),
        (Declared, {"level": "full"}, True),
        # A subclass may behave differently.
        (Inherits, {}, False),
    ],
)
def test_diagnose_uses_what_is_declared(fn: Any, options: dict[str, Any], ok: bool) -> None:
    assert diagnose(fn, X, **options).ok is ok


def test_assert_gradients_uses_it_too() -> None:
    assert_gradients(Declared, X)


def test_a_rule_that_does_not_exist_is_told() -> None:
    with pytest.raises(CannotDiagnoseError, match="Did you mean 'flipped-sign'"):
        diagnose(Misspelled, X)


def test_declaring_imports_no_torch() -> None:
    code = (
        "import sys; from autograd_doctor import declare\n"
        "@declare(intentional='flipped-sign')\nclass Any: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# In a program

FUNCTIONS = "[tool.autograd-doctor.functions]\n"


def verdict(function: type[Function], folder: Path, pyproject: str) -> tuple[str, str]:
    """Return the verdict on a call to the Function, and everything that was printed."""
    (folder / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    with recording() as calls:
        function.apply(X.clone().requires_grad_()).sum().backward()
    result = calls.diagnose()
    return result.rows[0].verdict, str(result)


@pytest.mark.parametrize(
    ("function", "entry", "expected"),
    [
        (Declared, "", "✓ by design (declared: surrogate)"),
        (Meant, "", "✓ by design (declared: flipped-sign)"),
        (Sign, "", "✗ undeclared-surrogate"),
        (
            Sign,
            f'"{__name__}.Sign" = {{surrogate = "{__name__}:identity"}}',
            "✓ by design (declared: surrogate)",
        ),
        (
            Reversed,
            f'"{__name__}.Reversed" = {{intentional = ["flipped-sign"]}}',
            "✓ by design (declared: flipped-sign)",
        ),
        (
            Reversed,
            f'"{__name__}.Reversed" = {{intentional = "flipped-sing"}}',
            f"not examined: pyproject.toml declares {__name__}.Reversed with 'flipped-sing', which "
            "is not a rule. Did you mean 'flipped-sign'?",
        ),
        (
            Sign,
            f'"{__name__}.Sign" = {{surrogate = "no_such_module:f"}}',
            f"not examined: pyproject.toml declares {__name__}.Sign with an unusable surrogate: "
            "There is no module no_such_module",
        ),
        (
            Sign,
            f'"{__name__}.Sign" = {{surrogate = "{__name__}:X"}}',
            f"not examined: pyproject.toml declares {__name__}.Sign with the surrogate "
            f"{__name__}:X, which is not callable",
        ),
        (
            Sign,
            f'"{__name__}.Sign" = {{surogate = "a:b"}}',
            f"not examined: pyproject.toml declares {__name__}.Sign with the key surogate, but "
            "only surrogate and intentional are allowed",
        ),
        (
            Sign,
            f'"{__name__}.Sign" = 3',
            f"not examined: pyproject.toml declares {__name__}.Sign, but not as a table with "
            "surrogate or intentional",
        ),
    ],
)
def test_a_program_uses_what_is_declared(
    function: type[Function],
    entry: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert verdict(function, tmp_path, FUNCTIONS + entry)[0] == expected


def test_the_pyproject_of_a_folder_above_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    entry = f'"{__name__}.Reversed" = {{intentional = ["flipped-sign"]}}'

    assert verdict(Reversed, tmp_path, FUNCTIONS + entry)[0].startswith("✓ by design")


@pytest.mark.parametrize(
    ("pyproject", "note"),
    [
        ("[tool", "The declarations in {file} could not be read: "),
        ("[tool.autograd-doctor]\nfunctions = 3", "The declarations in {file} could not be read: "),
        (
            FUNCTIONS + f'"{__name__}.Sgn" = {{intentional = []}}',
            f"pyproject.toml declares {__name__}.Sgn, but {__name__} has no Sgn. Did you mean "
            f"{__name__}.Sign?",
        ),
    ],
)
def test_a_mistake_in_pyproject_is_a_sentence(
    pyproject: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said, text = verdict(Declared, tmp_path, pyproject)

    assert said == "✓ by design (declared: surrogate)"
    flat = " ".join(text.split())
    assert note.format(file=tmp_path / "pyproject.toml") in flat


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (Sign, "write `@autograd_doctor.declare(surrogate=f)` above the class"),
        (Reversed, "write `@autograd_doctor.declare(intentional='flipped-sign')` above the class"),
    ],
)
def test_a_report_of_what_may_be_meant_tells_how_to_declare_it(
    function: type[Function], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert how in " ".join(verdict(function, tmp_path, "")[1].split())


def test_a_report_names_the_surrogate_and_does_not_ask_for_another() -> None:
    report = " ".join(str(diagnose(Sign, X, surrogate=lambda x: 2 * x)).split())

    assert "times the gradient of the surrogate" in report
    assert ", the surrogate's gradient" in report
    assert "if meant" not in report
