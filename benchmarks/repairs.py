"""How many repairs of honest mistakes change a wrong line, and how many are right?

    python -m benchmarks.repairs [--quick] [--only TEXT] [--show]

The benchmark uses the mistakes in ``benchmarks/mistakes``. ``answers`` contains wrong answers to
exercises, for ``grade``, and ``functions`` contains other Functions, for ``diagnose``. Each file
has a single author, who had not seen the rules. We later added edits and causes for mistakes that
the search had missed, so the files are no longer independent samples.

"Line" counts the repairs that change a wrong line. "Right" counts the repairs that pass an
independent check: gradcheck on new random inputs with the author's reference, or the grader on
inputs from another seed. "Wrong" counts the repairs that fail this check. "Clue" counts the
mistakes for which the search finds the step of ``forward`` that ``backward`` differentiates
incorrectly, or the expression of ``backward`` whose value is wrong. The times are search times.

In each file, every cell is a separate module. ``WRONG`` and ``RIGHT`` are the lines before and
after the repair. ``NAME`` is the name of the answer, and ``EXERCISE`` is its exercise. Without an
exercise, ``inputs`` and ``reference`` are the arguments of ``diagnose``.
"""

from __future__ import annotations

import ast
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from autograd_doctor import RULES, CannotDiagnoseError
from autograd_doctor.card import clue_rows
from autograd_doctor.repair import Repair, patched
from rich.console import Console
from rich.table import Table
from torch.autograd import gradcheck

from autograd_course import diagnose
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.pipeline import judge, result_of
from benchmarks._common import command_line, leaves, some

FOLDER = Path(__file__).parent / "mistakes"
HEAD = "# %% "  # begins a mistake's cell; the mistake's name follows
OTHER_SEED = 12345


@dataclass(frozen=True)
class Mistake:
    """The code of one cell: the mistake, its wrong lines, and the right lines."""

    subject: str
    name: str
    text: str

    def run(self, lines: Sequence[str] = ()) -> dict[str, Any]:
        """Run the code, or run ``lines`` instead, and return the names that it defines."""
        folder = Path(tempfile.mkdtemp(prefix="mistake-"))
        path = folder / f"{self.name}.py"
        path.write_text("".join(lines) or self.text, encoding="utf-8")
        module = ModuleType(self.name.replace("-", "_"))
        sys.modules[module.__name__] = module  # torch.compile looks for it
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
        return vars(module)


def mistakes() -> Iterator[Mistake]:
    """Yield all mistakes, in the order of their files."""
    for path in sorted(FOLDER.glob("*/*.py")):
        for cell in path.read_text(encoding="utf-8").split(HEAD)[1:]:
            name, _, text = cell.partition("\n")
            yield Mistake(f"{path.parent.name}/{path.stem}", name.strip(), text)


@dataclass(frozen=True)
class Outcome:
    """The result for one mistake. ``line`` and ``right`` describe the repair."""

    mistake: Mistake
    rule: str
    told: str
    clue: str
    shown: str  # the clue, or "" if the report shows only the repair
    repair: str
    line: bool
    right: bool | None  # None if there is no repair
    seconds: float


def outcome(mistake: Mistake) -> Outcome:
    """Diagnose or grade one mistake, and search for its repair."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    scope = mistake.run()
    answer = scope[scope["NAME"]]
    if "EXERCISE" in scope:
        exercise = CATALOGUE[scope["EXERCISE"]]
        result: Any = result_of(exercise, judge(exercise, answer), stage="repair")
        told, rule = result._text(), result.finding.rule if result.finding else result.status
        begun = time.perf_counter()
        finding = result.finding
        repair = result.repair if result.status == "wrong" else None
    else:
        options = {"reference": scope["reference"]} if "reference" in scope else {}
        try:
            result = diagnose(answer, scope["inputs"](), **options)
        except CannotDiagnoseError as refused:
            return Outcome(mistake, "refused", str(refused), "", "", "", False, None, 0.0)
        told = str(diagnose(answer, scope["inputs"](), repair=False, **options))
        rule = next((f.rule for f in result.findings), "nothing")
        begun = time.perf_counter()
        finding = next((it for it in result.findings if it.clue), None)
        repair = result.repair
    seconds = time.perf_counter() - begun
    said = finding.clue.sentence if finding and finding.clue else ""
    shown = " ".join(text for _, text in clue_rows(finding, repair)) if finding else ""
    if repair is None:
        return Outcome(mistake, rule, told, said, shown, "", False, None, seconds)
    changed = patched(
        Path(repair.file).read_text(encoding="utf-8").splitlines(True), repair.changes
    )
    return Outcome(
        mistake,
        rule,
        told,
        said,
        shown,
        str(repair),
        _is_on_line(repair, scope),
        _is_right(mistake, repair, changed),
        seconds,
    )


def _is_on_line(repair: Repair, scope: dict[str, Any]) -> bool:
    """Return whether the repair changes a wrong line or writes a right one."""
    before = {_plain(line) for change in repair.changes for line in change.before}
    after = {_plain(line) for change in repair.changes for line in change.after} - before
    wrong = {_plain(line) for text in scope["WRONG"] for line in text.splitlines()}
    right = {_plain(line) for text in scope["RIGHT"] for line in text.splitlines()}
    return bool(before & wrong or after & right)


def _plain(line: str) -> str:
    """Return a line without its comment and formatting."""
    code = line.split("  #")[0].strip()
    try:
        return ast.unparse(ast.parse(code))
    except SyntaxError:
        return "".join(code.split())


def _is_right(mistake: Mistake, repair: Repair, lines: Sequence[str]) -> bool:
    """Judge repaired code without using the search."""
    scope = mistake.run(lines)
    answer = scope[scope["NAME"]]
    if "EXERCISE" in scope:
        verdict = judge(CATALOGUE[scope["EXERCISE"]], answer, OTHER_SEED)
        rule = verdict.finding.rule if verdict.finding else ""
        if not repair.left:  # the repaired code may still violate a constraint of the exercise
            families = ("contract", "linearity", "values", "state")
            other = bool(rule) and RULES[rule].family not in families
            return verdict.status == "passed" or other
        return rule != repair.removes and _leaves(repair, [verdict.finding])
    options = {"reference": scope["reference"]} if "reference" in scope else {}
    if repair.left:
        left = diagnose(answer, scope["inputs"](), **options, seed=OTHER_SEED).findings
        return all(found.rule != repair.removes for found in left) and _leaves(repair, left)
    if not _has_a_derivative(mistake):  # gradcheck cannot check a straight-through estimator
        return bool(diagnose(answer, scope["inputs"](), **options, seed=OTHER_SEED).ok)
    return _agrees(answer, scope)


def _has_a_derivative(mistake: Mistake) -> bool:
    """Return whether the author's right version passes the check."""
    head, name, code = mistake.text.partition("\nNAME = ")  # the lines are listed in the head
    for wrong, right in zip(*_lines_of(mistake.run()), strict=True):
        code = code.replace(wrong, _indented(right, code.partition(wrong)[0].rpartition("\n")[2]))
    scope = mistake.run((head + name + code).splitlines(keepends=True))
    return _agrees(scope[scope["NAME"]], scope)


def _indented(lines: str, indent: str) -> str:
    """Indent all lines except the first, unless they are already indented."""
    first, *rest = lines.split("\n")
    return "\n".join([first, *(it if it.startswith(indent) else indent + it for it in rest)])


def _lines_of(scope: dict[str, Any]) -> tuple[list[str], list[str]]:
    wrong, right = scope["WRONG"], scope["RIGHT"]
    return (wrong, right) if len(wrong) == len(right) else ([], [])


def _agrees(answer: Any, scope: dict[str, Any]) -> bool:
    """Compare an answer with the reference on new inputs, and with finite differences."""
    inputs = [*map(_redrawn, _listed(scope["inputs"]()))]
    reference = scope.get("reference")

    def copied(*args: Any) -> Any:  # PyTorch does not let a Function change a leaf in place
        return answer.apply(
            *(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)
        )

    try:
        if reference is not None:
            ours, theirs = (_listed(call(*leaves(inputs))) for call in (copied, reference))
            if not all(
                torch.allclose(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True)
            ):
                return False
        return gradcheck(copied, leaves(inputs))
    except Exception:
        return False


def _leaves(repair: Repair, findings: Iterable[Any]) -> bool:
    """Return False if a finding names an input whose gradient the repair corrects."""
    named = [name for it in findings if it for name in it.evidence.get("inputs", [])]
    return not set(named) & set(repair.right)


def _redrawn(value: Any) -> Any:
    """Return new values of a similar size, by mixing a tensor with a permutation of itself."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return value
    torch.manual_seed(OTHER_SEED)
    order = torch.randperm(value.numel())
    other = value.detach().double().flatten()[order].reshape(value.shape)
    return (0.7 * value.detach().double() + 0.3 * other).requires_grad_(value.requires_grad)


def _listed(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, tuple | list) else [value]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--part", type=int, choices=(0, 1), help="every other one, from this on")
    parser.add_argument("--show", action="store_true", help="each report and repair")
    options = parser.parse_args()
    chosen = [it for it in mistakes() if options.only in f"{it.subject}/{it.name}"]
    if options.part is not None:
        chosen = chosen[options.part :: 2]
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        outcomes = list(pool.map(outcome, some(chosen, options.quick, count=6)))
    if options.show:
        for it in outcomes:
            title = f"{it.mistake.subject}/{it.mistake.name}"
            print(f"\n{'=' * 100}\n{title}\n{it.mistake.text}\n{it.told}")
            print(
                it.shown or "no clue",
                it.repair or "no repair",
                f"· line {it.line} · right {it.right} · {it.seconds:.2f} s",
                sep="\n",
            )
    table = Table(
        "subject",
        "mistakes",
        "clue",
        "repaired",
        "line",
        "right",
        "wrong",
        "median, s",
        "largest, s",
    )
    subjects = [*dict.fromkeys(it.mistake.subject for it in outcomes)]
    for subject in [*subjects, "answers/", "functions/", ""]:
        rows = [it for it in outcomes if it.mistake.subject.startswith(subject)]
        if not rows:
            continue
        repaired = [it for it in rows if it.right is not None]
        seconds = [it.seconds for it in rows]
        counts = (
            len(rows),
            sum(map(bool, (it.clue for it in rows))),
            len(repaired),
            sum(it.line for it in rows),
        )
        judged = sum(it.right is True for it in rows), sum(it.right is False for it in rows)
        times = f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}"
        table.add_row(subject.strip("/") or "all", *map(str, (*counts, *judged)), *times)
    Console().print(table)
    for it in outcomes:
        if it.right is False:
            print(f"wrong: {it.mistake.subject}/{it.mistake.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
