"""A repair is what makes every gradient right, because it was tried."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
import repairable
import torch
from autograd_doctor import diagnose
from autograd_doctor._repair import search
from autograd_doctor.repair import Repair, patched
from repairable import MISTAKES, Mistake, Running, Square, draw
from torch.autograd import Function, gradcheck

SOURCE = Path(inspect.getfile(repairable))


def found(mistake: Mistake) -> Repair:
    repair = diagnose(mistake.wrong, mistake.inputs()).repair
    assert repair is not None
    return repair


def repaired(wrong: type[Function], repair: Repair) -> Any:
    """Return the class that the file defines after the repair."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines(keepends=True)
    scope: dict[str, Any] = {"__name__": "repairable"}
    exec(compile("".join(patched(lines, repair.changes)), "repaired", "exec"), scope)
    return scope[wrong.__name__]


def passes(function: Any, inputs: tuple[Any, ...]) -> bool:
    leaves = [
        it.requires_grad_() if isinstance(it, torch.Tensor) and it.is_floating_point() else it
        for it in inputs
    ]
    try:
        return gradcheck(function.apply, leaves)
    except RuntimeError:
        return False


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: it.what)
def test_the_line_of_the_mistake_is_changed_and_the_gradient_is_right(mistake: Mistake) -> None:
    repair = found(mistake)

    assert repair.file == str(SOURCE)
    assert [line.strip() for it in repair.changes for line in it.before] == mistake.before
    assert [line.strip() for it in repair.changes for line in it.after] == mistake.after
    assert not passes(mistake.wrong, mistake.inputs())
    assert passes(repaired(mistake.wrong, repair), mistake.inputs())


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: it.what)
def test_what_is_right_on_the_example_alone_is_not_told(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_one = [
        torch.ones_like(it) if isinstance(it, torch.Tensor) else it for it in mistake.inputs()
    ]
    trial_of = search.trial_of
    seen: list[Any] = []

    def of_the_example(subject: Any, evidence: Any, seed: int) -> Any:
        seen.append(evidence)
        return trial_of(subject, evidence, seed) if evidence is seen[0] else None

    monkeypatch.setattr(search, "trial_of", of_the_example)
    repair = diagnose(mistake.wrong, at_one).repair

    assert repair is None or passes(repaired(mistake.wrong, repair), mistake.inputs())


def test_a_right_function_gets_no_repair() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return 3 * ctx.saved_tensors[0] ** 2 * grad_output

    diagnosis = diagnose(Cube, draw(3))

    assert (diagnosis.repair, diagnosis.patch()) == (None, "")


def test_what_no_edit_repairs_gets_none() -> None:
    diagnosis = diagnose(Running, draw(5))

    assert (diagnosis.ok, diagnosis.repair) == (False, None)


def test_nothing_is_written_to_the_class_or_its_file() -> None:
    before = SOURCE.read_bytes(), dict(vars(Square))
    found(MISTAKES[0])

    assert (SOURCE.read_bytes(), dict(vars(Square))) == before


def test_a_repair_is_text_data_and_a_patch() -> None:
    diagnosis = diagnose(MISTAKES[0].wrong, MISTAKES[0].inputs())
    repair = diagnosis.repair
    assert repair is not None
    (change,) = repair.changes

    assert str(repair).splitlines() == [
        f"line {change.line}",
        "- ctx.save_for_backward(y)",
        "+ ctx.save_for_backward(x)",
        "With this change, every gradient is right on your example, other values, inputs of shape "
        "(2, 4) and inputs of shape (3, 3).",
    ]
    assert repair.to_dict()["changes"] == [
        {"line": change.line, "before": list(change.before), "after": list(change.after)}
    ]
    assert diagnosis.patch().splitlines()[:2] == [f"--- {SOURCE}", f"+++ {SOURCE}"]
    assert "-        ctx.save_for_backward(y)\n+        ctx.save_for_backward(x)\n" in (
        diagnosis.patch()
    )


def test_a_diagnosis_goes_to_another_process_without_its_search() -> None:
    diagnosis = diagnose(Square, draw(3))

    copy = pickle.loads(pickle.dumps(diagnosis))

    assert (copy.ok, copy.repair) == (False, None)


def test_a_function_without_source_gets_none() -> None:
    scope: dict[str, Any] = {"Function": Function}
    exec(inspect.getsource(Square).replace("Tensor", "object").replace("Any", "object"), scope)

    assert diagnose(scope["Square"], draw(3)).repair is None


def test_what_a_function_prints_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Noisy(Square):
        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            print("backward")
            return 3 * x * grad_output

    diagnosis = diagnose(Noisy, draw(3) - 1.5)
    capsys.readouterr()

    assert diagnosis.repair is None or diagnosis.repair.changes
    assert capsys.readouterr().out == ""
