"""A repair makes every gradient right, because the search has tested it."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import logging
import pickle
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import repairable
import torch
from autograd_doctor import CannotDiagnoseError, Diagnosis, diagnose, explain
from autograd_doctor._repair import edits, formulas, runner, search, source, verification
from autograd_doctor.extension import collect_evidence
from autograd_doctor.repair import Repair, patched
from autograd_doctor.repair_search import Question, edited, run_edits, search_repair_elsewhere
from repairable import (
    MISTAKES,
    Bessel,
    Mistake,
    ProductOfItsInputs,
    ProductUnlessXIsFrozen,
    Square,
    SquareOfItsInputs,
    Wave,
    draw,
)
from running_pages import BLOCK, sections
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function, gradcheck

SOURCE = Path(inspect.getfile(repairable))


@pytest.fixture(autouse=True)
def the_search_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the search enough time on a busy machine. A benchmark measures how long it takes."""
    logged = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("autograd_doctor")
    logger.addHandler(logged)
    logger.setLevel(logging.DEBUG)
    monkeypatch.setattr(search, "SECONDS", 4.0)
    monkeypatch.setattr(verification, "SECONDS", 20.0)
    yield
    logger.removeHandler(logged)
    logger.setLevel(logging.NOTSET)
    assert logged.stream.getvalue() == ""


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


DTYPES = (torch.float64, torch.complex128)


def passes(function: Any, inputs: tuple[Any, ...]) -> bool:
    leaves = [
        it.requires_grad_() if isinstance(it, torch.Tensor) and it.dtype in DTYPES else it
        for it in inputs
    ]
    try:
        return gradcheck(function.apply, leaves)
    except RuntimeError:
        return False


@pytest.mark.parametrize("mistake", first_rows(MISTAKES, most=8), ids=lambda it: it.what)
def test_the_line_of_the_mistake_is_changed_and_the_gradient_is_right(mistake: Mistake) -> None:
    repair = found(mistake)

    assert repair.file == str(SOURCE)
    assert [line.strip() for it in repair.changes for line in it.before] == mistake.before
    assert [line.strip() for it in repair.changes for line in it.after] == mistake.after
    assert not passes(mistake.wrong, mistake.inputs())
    assert passes(repaired(mistake.wrong, repair), mistake.inputs())


@pytest.mark.parametrize("mistake", first_rows(MISTAKES, most=2), ids=lambda it: it.what)
def test_what_is_right_on_the_example_alone_is_not_told(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_one = [
        torch.ones_like(it) if isinstance(it, torch.Tensor) else it for it in mistake.inputs()
    ]
    question_of = runner.question_of
    seen: list[Any] = []

    def of_the_example(evidence: Any) -> Any:
        seen.append(evidence)
        return question_of(evidence) if evidence is seen[0] else None

    monkeypatch.setattr(runner, "question_of", of_the_example)
    try:
        repair = diagnose(mistake.wrong, at_one).repair
    except CannotDiagnoseError:  # the deviation of ones is 0, so a division by it fails
        repair = None

    assert repair is None or passes(repaired(mistake.wrong, repair), mistake.inputs())


def test_of_two_independent_mistakes_one_is_repaired_and_the_other_is_told() -> None:
    repair = diagnose(Wave, (draw(4), draw(4, seed=1))).repair
    assert repair is not None

    assert [line.strip() for it in repair.changes for line in it.after] == [
        "return grad_output * torch.cos(x), grad_output * torch.asinh(y)"
    ]
    assert "the gradient of `x` is right. Still wrong after it: The gradient of `y`" in str(repair)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: it.what)
def test_every_edit_is_complete_enough_to_be_compiled(mistake: Mistake) -> None:
    method = source.method_of(mistake.wrong, "backward")
    assert method is not None
    scope = edits.scope_of(method.tree, method.ctx, method.free)

    for edit in edits.edits_of(scope, edits.COMPUTING):
        with edit.made(), contextlib.suppress(SyntaxError, ValueError):
            compile(ast.Module([method.tree], []), "edited", "exec")


def test_a_learner_can_be_told_what_each_edit_is_about() -> None:
    kinds = {kind.name for kind in (*edits.COMPUTING, *edits.SAVING)}

    assert kinds == edits.SAID.keys()


def test_both_methods_copy_their_argument_if_both_read_its_memory() -> None:
    repair = diagnose(repairable.ReversedMemory, draw(3, 4)).repair
    assert repair is not None

    assert [line.strip() for it in repair.changes for line in it.after] == [
        "x = x.contiguous()",
        "return reversed_memory(x)",
        "grad_output = grad_output.contiguous()",
        "return reversed_memory(grad_output)",
    ]
    assert not repair.left


def test_no_edit_is_right_only_because_two_lengths_are_equal() -> None:
    assert diagnose(repairable.GroupedHeads, (draw(4, 3), draw(2, 3))).repair is None


def test_the_variable_of_a_loop_is_not_used_after_the_loop() -> None:
    repair = diagnose(repairable.FirstFrame, (draw(5, 3), draw(1))).repair

    assert repair is None or not any(" t *" in text for it in repair.changes for text in it.after)


@pytest.mark.parametrize(
    ("text", "is_pure"),
    [
        ("torch.exp(x / 2)", True),
        ("x.clamp(min=0).sum(-1, keepdim=True)", True),
        ("math.sqrt(2)", True),
        ("x.mul_(2)", False),
        ("torch.nn.functional.dropout(x)", False),
        ("torch.bernoulli(x)", False),
        ("ctx.save_for_backward(x)", False),
        ("helper(x)", False),
        ("x.item()", False),
    ],
)
def test_a_formula_contains_no_call_with_an_effect(text: str, is_pure: bool) -> None:
    method = ast.parse(f"def forward(ctx, x):\n    return {text}").body[0]
    assert isinstance(method, ast.FunctionDef)

    assert (text in formulas.formulas_in([method])) is is_pure


def test_what_is_not_found_in_time_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SECONDS", 0.0)

    assert diagnose(MISTAKES[0].wrong, MISTAKES[0].inputs()).repair is None


@pytest.mark.parametrize("mistake", first_rows(MISTAKES[:4], most=1), ids=lambda it: it.what)
def test_another_process_can_run_the_edits(mistake: Mistake) -> None:
    inputs = mistake.inputs()
    evidence = collect_evidence(mistake.wrong, inputs)
    (finding, *_) = diagnose(mistake.wrong, inputs, repair=False).findings
    asked: list[int] = []

    def ask(edits: Any, question: Question) -> Any:
        asked.append(len(edits))
        return run_edits(mistake.wrong, edits, question)

    def verified(sources: Any) -> Repair | None:
        right = diagnose(edited(mistake.wrong, sources), inputs, repair=False).ok
        return Repair("", (), ("inputs",)) if right else None

    cells = ["import torch", SOURCE.read_text(encoding="utf-8")]
    repair = search_repair_elsewhere(
        cells, mistake.wrong.__name__, finding, evidence, ask, verified, seconds=20
    )
    assert repair is not None

    assert repair.file == "<cell 2>"
    assert [line.strip() for it in repair.changes for line in it.after] == mistake.after
    assert max(asked) > 1, "many edits go in one question"


def test_what_repaired_the_code_of_others_is_tried_first() -> None:
    inputs = MISTAKES[0].inputs()
    found_first = found(MISTAKES[0])
    evidence = collect_evidence(MISTAKES[0].wrong, inputs)
    (finding, *_) = diagnose(MISTAKES[0].wrong, inputs, repair=False).findings
    tried: list[int] = []

    def ask(edits: Any, question: Question) -> Any:
        tried.append(len(edits))
        return run_edits(MISTAKES[0].wrong, edits, question)

    repair = search_repair_elsewhere(
        [SOURCE.read_text(encoding="utf-8")],
        "Square",
        finding,
        evidence,
        ask,
        lambda sources: Repair("", (), ("inputs",)),
        known=found_first.signatures,
    )

    assert repair is not None
    assert repair.changes == found_first.changes
    assert sum(tried) < 10


def test_a_summary_fits_the_same_mistake_of_others() -> None:
    assert found(MISTAKES[0]).summary == "`y` instead of `x` in `save_for_backward`"


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


def test_nothing_is_searched_if_the_caller_does_not_ask() -> None:
    diagnosis = diagnose(MISTAKES[0].wrong, MISTAKES[0].inputs(), repair=False)

    assert (diagnosis.ok, diagnosis.repair) == (False, None)
    assert "repair" not in str(diagnosis)


def test_what_no_edit_repairs_gets_none() -> None:
    diagnosis = diagnose(Bessel, draw(5))

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


CONTRACTS = {
    "backward-raises": ["(x,) = ctx.saved_tensors"],
    "dim-argument": ["return grad_output.flip(ctx.dim).cumsum(ctx.dim).flip(ctx.dim), None"],
    "extra-gradient": ["return kept, None, None"],
    "gradient-device": [
        "identity = torch.eye(y.shape[-1], dtype=y.dtype, device=grad_output.device)"
    ],
    "grad-output-layout": ["g = grad_output.reshape(-1)"],
    "gradient-dtype": ["grad = grad_output.new_zeros(ctx.shape)"],
    "gradient-shape": ["grad_gain = (grad_output * x).sum(0) if ctx.needs_input_grad[1] else None"],
    "mutates-grad-output": ["grad_output = grad_output.clone()", "grad_output[y == 0] = 0"],
    "mutates-input": ["scores = scores - scores.amax(-1, keepdim=True)"],
    "mutates-saved": ["return probs.mul(grad_output - total)"],
    "non-tensor-saved": [
        "ctx.save_for_backward(x)",
        "ctx.exponent = exponent",
        "(x,) = ctx.saved_tensors",
        "exponent = ctx.exponent",
    ],
    "none-grad-output": [],
    "returns-view": ["return hidden[:, -1].clone()"],
    "saved-twice": [
        "saved = ctx.saved_tensors",
        "grad_x = grad_y = None",
        "grad_x = grad_output / saved[1]",
        "x, y = saved",
    ],
    "shared-state": [
        "y = x.tanh()",
        "ctx.save_for_backward(y)",
        "return y.clone()",
        "(y,) = ctx.saved_tensors",
        "return grad_output * (1 - y.square())",
    ],
    "tensor-on-ctx": [
        "ctx.save_for_backward(x)",
        "ctx.exponent = exponent",
        "(x,) = ctx.saved_tensors",
        "return grad_output * ctx.exponent * x ** (ctx.exponent - 1), None",
    ],
    "wrong-arity": [
        "return (grad_output - y * (grad_output * y).sum(-1, keepdim=True)) / norm, None"
    ],
    "wrong-mark-dirty": ["return x.clone()"],
    "wrong-non-differentiable": ["ctx.mark_non_differentiable(mask)", "return x * mask, mask"],
    "zero-dim": ["grad_x[...] = grad_output * kept"],
}


@pytest.mark.parametrize(
    ("wrong", "count", "line"),
    [
        (SquareOfItsInputs, 1, "(x,) = inputs"),
        (ProductOfItsInputs, 2, "ctx.save_for_backward(*inputs)"),
    ],
)
def test_inputs_are_unpacked_before_they_are_saved(
    wrong: type[Function], count: int, line: str
) -> None:
    diagnosis = diagnose(wrong, tuple(draw(3, 4) for _ in range(count)))

    assert diagnosis.repair is not None
    assert [text.strip() for it in diagnosis.repair.changes for text in it.after] == [line]
    assert "Unpack it: `(x,) = inputs`." in diagnosis.findings[0].hint


def test_one_flag_does_not_decide_about_all_gradients() -> None:
    diagnosis = diagnose(ProductUnlessXIsFrozen, (draw(3, 4), draw(3, 4)))

    assert diagnosis.repair is not None
    assert [text.strip() for it in diagnosis.repair.changes for text in it.after] == [
        "if not any(ctx.needs_input_grad):"
    ]


@pytest.mark.parametrize("rule", first_rows(CONTRACTS, most=5))
def test_a_broken_contract_is_repaired_as_its_page_advises(rule: str, tmp_path: Path) -> None:
    wrong = written(rule, tmp_path / "wrong.py")
    finding = next(it for it in wrong.findings if it.rule == rule)
    repair = finding.repair
    assert repair is not None
    lines = (tmp_path / "wrong.py").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(patched(lines, repair.changes))

    assert [line.split("  #")[0].strip() for it in repair.changes for line in it.after] == (
        CONTRACTS[rule]
    )
    right = diagnosed(text, tmp_path / "right.py")
    assert rule not in {it.rule for it in right.findings}
    assert right.ok


def written(rule: str, path: Path) -> Diagnosis:
    """Write the wrong code on a rule's page to a file, and return its diagnosis."""
    page = sections(explain(rule).markdown)["Wrong"]
    code = next(text for language, text in BLOCK.findall(page) if language == "python")
    return diagnosed(HEAD + code, path)


HEAD = "import torch\nfrom autograd_doctor import diagnose\nfrom torch.autograd import Function\n"


def diagnosed(text: str, path: Path) -> Diagnosis:
    path.write_text(text, encoding="utf-8")
    tree = ast.parse(text)
    call = tree.body.pop()
    assert isinstance(call, ast.Expr)
    scope: dict[str, Any] = {"__name__": path.stem}
    exec(compile(tree, str(path), "exec"), scope)
    diagnosis: Diagnosis = eval(compile(ast.Expression(call.value), str(path), "eval"), scope)
    return diagnosis


NORMALIZED = """
import torch
from autograd_doctor import diagnose
from torch.autograd import Function


class Normalized(Function):
    @staticmethod
    def forward(ctx, x):
        spread = x.var(-1, keepdim=True) + 1e-5
        y = (x - x.mean(-1, keepdim=True)) / spread.sqrt()
        ctx.save_for_backward(y, spread)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, spread = ctx.saved_tensors
        centered = grad_output - grad_output.mean(-1, keepdim=True)
        return (centered - y * (grad_output * y).mean(-1, keepdim=True)) / spread.sqrt()


diagnose(Normalized, torch.randn(3, 4), reference=lambda x: torch.layer_norm(x, x.shape[-1:]))
"""
BACKWARD = "y * (grad_output * y)"


@pytest.mark.parametrize(
    ("changes", "after", "said"),
    [
        ({}, "spread = x.var(-1, keepdim=True, correction=0) + 1e-5", "every gradient is right"),
        ({BACKWARD: "(grad_output * y)"}, "spread = x.var(-1, keepdim=True, correction=0) + 1e-5",
         "`forward-mismatch` is gone. Still wrong after it: "),
        ({"x.var(-1, keepdim=True)": "x.var(-1, keepdim=True, correction=0)",
          "x - x.mean(-1, ": "x - x.mean(0, "},
         "y = (x - x.mean(-1, keepdim=True)) / spread.sqrt()", "every gradient is right"),
        ({"x.var(-1, keepdim=True)": "x.var(-1, keepdim=True, correction=0)",
          "        return y": "        return 2 * y"}, "return y", "every gradient is right"),
    ],
    ids=["Bessel's correction", "and a wrong backward", "another dim", "a factor"],
)  # fmt: skip
def test_forward_is_repaired_against_the_reference(
    changes: dict[str, str], after: str, said: str, tmp_path: Path
) -> None:
    text = NORMALIZED
    for one, other in changes.items():
        text = text.replace(one, other)
    repair = diagnosed(text, tmp_path / "forward.py").repair
    assert repair is not None

    assert [line.strip() for it in repair.changes for line in it.after] == [after]
    assert said in str(repair)


DIVIDED = """
import torch
from autograd_doctor import diagnose
from torch.autograd import Function


class Decay(Function):
    @staticmethod
    def forward(ctx, x, decay):
        ctx.save_for_backward(x)
        ctx.decay = decay
        return decay * x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return REPLACED, None


diagnose(Decay, (torch.randn(4), 0.8))
"""


@pytest.mark.parametrize(
    "returned", ["ctx.decay * x * grad_output", "2 * ctx.decay**2 * x * grad_output"]
)
def test_a_repair_holds_for_other_numbers(returned: str, tmp_path: Path) -> None:
    repair = diagnosed(DIVIDED.replace("REPLACED", returned), tmp_path / "decay.py").repair
    assert repair is not None

    assert {"other numbers", "the number 0"} <= set(repair.checked_on)


ACCIDENTS = {
    "a quotient by a tensor that may be 0": """
import torch
from autograd_doctor import diagnose
from torch.autograd import Function


class Scale(Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = scale * x
        ctx.save_for_backward(scale, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        scale, y = ctx.saved_tensors
        return grad_output * scale, (grad_output * y).sum()


diagnose(Scale, (torch.randn(5), torch.tensor(0.7)))
""",
    "parts that are larger than the whole": """
import torch
from autograd_doctor import diagnose
from torch.autograd import Function


class Squares(Function):
    @staticmethod
    def forward(ctx, x, weight, part):
        total = x.new_full((), 5.0)
        for rows in x.split(part):
            total = total + (rows * rows @ weight).sum()
        ctx.save_for_backward(x, weight)
        ctx.part = part
        return total

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        for rows in x.split(ctx.part):
            grad_weight = (rows * rows).sum(0) * grad_output
        return 2 * x * weight * grad_output, grad_weight, None


diagnose(Squares, (torch.randn(4, 3), torch.rand(3), 2))
""",
}


@pytest.mark.parametrize("what", ACCIDENTS)
def test_an_edit_that_is_right_by_accident_is_not_told(what: str, tmp_path: Path) -> None:
    repair = diagnosed(ACCIDENTS[what], tmp_path / "accident.py").repair

    told = "".join("".join(it.after) for it in repair.changes) if repair else ""
    assert not any(wrong in told for wrong in ("/ scale", "ctx.part = total", "(ctx.part"))


MISNAMED = """
import torch
from autograd_doctor import diagnose
from torch.autograd import Function


class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x.sin() * y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y.cos() * x, grad_output * y.sin()


diagnose(Product, (torch.randn(4), torch.randn(4)))
"""


def test_tensors_that_are_unpacked_as_they_were_saved_are_not_renamed(tmp_path: Path) -> None:
    repair = diagnosed(MISNAMED, tmp_path / "product.py").repair

    assert repair is None or not any("saved_tensors" in line for line in repair.changes[0].after)


def test_a_notebook_shows_the_verdict_and_then_the_repair_with_its_jacobians(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda it, raw: shown.append(it))
    diagnose(MISTAKES[0].wrong, MISTAKES[0].inputs())._ipython_display_()

    verdict, repair = shown
    assert "repair" not in verdict["text/plain"]
    assert verdict["text/html"].count("<img") == 3
    assert repair["text/plain"].startswith("Square · a repair\n  repair   change line ")
    assert '<span style="background: #2a9d5740; font-weight: 600">x</span>' in repair["text/html"]
    assert repair["text/html"].count("<img") == 3


def test_a_passed_function_is_shown_as_anything_else() -> None:
    with pytest.raises(NotImplementedError):
        diagnose(torch.square, draw(3))._ipython_display_()


def test_no_edit_adds_a_dim_in_code_that_runs_repeatedly() -> None:
    """Otherwise, each round of a solver could add a dim, until no memory is left."""
    (method,) = ast.parse(
        "def backward(ctx, g):\n"
        "    w = ctx.saved_tensors[0]\n"
        "    for _ in range(200):\n"
        "        g = g + g @ w\n"
        "    h = solved(lambda u: g + u @ w, g)\n"
        "    return h * 2\n"
    ).body
    assert isinstance(method, ast.FunctionDef)

    found = edits.missing_shapes(edits.scope_of(method, "ctx"))
    changed = {ast.unparse(edits.Edit("", 0, place, new).old) for place, new in found}

    assert "h * 2" in changed
    assert not changed & {"g @ w", "g + g @ w", "u @ w", "g + u @ w", "u"}


def test_a_condition_that_becomes_a_factor_gets_parentheses() -> None:
    (method,) = ast.parse(
        "def backward(ctx, g):\n    g = torch.where(g > 0, g, 0.5 * g)\n    return g.sum()\n"
    ).body
    assert isinstance(method, ast.FunctionDef)

    found = edits.missing_conditions(edits.scope_of(method, "ctx"))

    assert [ast.unparse(new) for _, new in found if isinstance(new, ast.AST)] == [
        "g * (g > 0)",
        "g * (g > 0).unsqueeze(-1)",
        "torch.where(g > 0, g, 0.5 * g) * ~(g > 0)",
        "torch.where(g > 0, g, 0.5 * g) * (g > 0)",
        "g * ~(g > 0)",
        "g * (g > 0)",
        "g.sum() * ~(g > 0)",
        "g.sum() * (g > 0)",
    ]


class Weighted(Function):
    """The product of ``x`` and ``scale``, which computes both gradients in any case."""

    @staticmethod
    def forward(x: Tensor, scale: Tensor) -> Tensor:
        return x * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, scale = ctx.saved_tensors
        grad_x = grad_output * scale
        grad_scale = (grad_output * x).sum(0)
        return grad_x, grad_scale


class PartlyGuarded(Weighted):
    """The same, but the first gradient is already guarded."""

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, scale = ctx.saved_tensors
        grad_x = grad_output * scale if ctx.needs_input_grad[0] else None
        grad_scale = (grad_output * x).sum(0)
        return grad_x, grad_scale


@pytest.mark.parametrize(
    ("function", "guarded"), [(Weighted, ["x", "scale"]), (PartlyGuarded, ["scale"])]
)
def test_every_wasted_gradient_is_guarded_and_no_other(
    function: type[Function], guarded: list[str]
) -> None:
    args = torch.randn(4, 3), torch.randn(3)
    found = {it.rule: it for it in diagnose(function, args, level="full").findings}
    finding = found["wasted-gradient"]

    assert finding.repair is not None
    assert [change.after[0].split("=")[0].strip() for change in finding.repair.changes] == [
        f"grad_{name}" for name in guarded
    ]
    assert finding.repair.made is not None
    left = {it.rule for it in diagnose(finding.repair.made, args, level="full").findings}
    assert left == found.keys() - {"wasted-gradient"}


class Shifted(Function):
    """Adds a bias, whose gradient has the shape of the result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        return grad_output, grad_output


class ShiftedSeparately(Function):
    """The same, with a separate ``setup_context``."""

    @staticmethod
    def forward(x: Tensor, bias: Tensor) -> Tensor:
        return x + bias

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        return grad_output, grad_output


@pytest.mark.parametrize(
    ("function", "stored"), [(Shifted, "bias.shape"), (ShiftedSeparately, "inputs[1].shape")]
)
def test_the_sum_over_broadcast_dims_gets_a_shape_that_was_not_saved(
    function: type[Function], stored: str
) -> None:
    found = diagnose(function, (torch.randn(4, 3), torch.randn(3)), level="full").findings
    finding = next(it for it in found if it.rule == "unreduced-broadcast")

    assert finding.repair is not None
    first, second = (change.after[0].strip() for change in finding.repair.changes)
    assert first == f"ctx.bias_shape = {stored}"
    assert second == "return grad_output, grad_output.sum_to_size(ctx.bias_shape)"


class SummedAlongCopies(Function):
    """x·y. An edit of the condition of its loop never ends."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        def reduced(grad: Tensor, shape: torch.Size) -> Tensor:
            while grad.dim() > len(shape):
                grad = grad.sum(0)
            for dim, size in enumerate(shape):
                if size == 1:
                    grad = grad.sum(dim, keepdim=False)
            return grad

        x, y = ctx.saved_tensors
        return reduced(y * grad_output, x.shape), reduced(x * grad_output, y.shape)


def test_an_edit_that_never_ends_does_not_use_up_the_time_of_the_others() -> None:
    repair = diagnose(SummedAlongCopies, (torch.randn(3, 4), torch.randn(3, 1))).repair

    assert repair is not None
    assert [line.strip() for it in repair.changes for line in it.after] == [
        "grad = grad.sum(dim, keepdim=True)"
    ]


def test_another_process_gives_no_answer_for_an_edit_that_never_ends() -> None:
    inputs = (torch.randn(3, 4, requires_grad=True), torch.randn(3, 1, requires_grad=True))
    source = textwrap.dedent(inspect.getsource(SummedAlongCopies.backward)).partition("\n")[2]
    endless = {"backward": source.replace("grad.dim() > len(shape)", "True")}
    question = Question(inputs, (0, 1), ((torch.randn(3, 4),),), ())

    came = run_edits(SummedAlongCopies, [endless, {}], question)

    assert came[0] is None
    assert came[1] is not None


class SummedOverEverything(Function):
    """x + b; the gradient of b is a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(b)
        return x - 2 * b

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (b,) = ctx.saved_tensors
        return grad_output * torch.ones_like(b), -2 * grad_output.sum()


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_a_sum_over_everything_becomes_a_sum_to_the_shape(shape: tuple[int, ...]) -> None:
    repair = diagnose(SummedOverEverything, (torch.randn(shape), torch.randn(4))).repair

    assert repair is not None
    assert [line.strip() for it in repair.changes for line in it.after] == [
        "return grad_output * torch.ones_like(b), -2 * grad_output.sum_to_size(b.shape)"
    ]
