"""Diagnose a program's Functions, using their recorded calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    ExitStack,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field, replace
from io import TextIOBase
from pathlib import Path
from typing import Any

from torch import Tensor

from autograd_doctor import card
from autograd_doctor._declaration import Declaration, declaration_of
from autograd_doctor._execution.calls import USERS
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._programs.project import DeclarationError, Project
from autograd_doctor._programs.recording import (
    MOST_CALLS,
    RecordedCall,
    RecordedFunction,
    Recorder,
)
from autograd_doctor._rules import RULES
from autograd_doctor._safe_repr import first_line
from autograd_doctor.api import diagnose, is_right_for
from autograd_doctor.diagnosis import Diagnosis
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.finding import Finding, without_search
from autograd_doctor.program import ELSEWHERE, SECONDS, FunctionVerdict, ProgramDiagnosis

PART = 1 / 4  # share of the time for one Function

# These mistakes silently affect a program that differentiates twice.
SILENT = ("silent-double-backward", "once-differentiable-leak")

# Families of rules about results that may be wrong for only some cotangents.
OF_VALUES = ("linearity", "values")
UNREDUCED = "unreduced-broadcast"
RIGHT_HERE = (
    "No error shows where this program runs `backward` of `{}`. The gradient is wrong for other "
    "inputs or other values of `grad_output`."
)

Claim = Callable[[str], bool]


class Recording:
    """The calls that a program made to its Functions inside a ``with recording()`` block."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def diagnose(self, *, seconds: float = SECONDS) -> ProgramDiagnosis:
        """Examine every recorded Function, using its recorded calls.

        Args:
            seconds: The time limit for the whole examination. Each Function may use a quarter of
                it.

        Returns:
            A table with one row for each Function. Its ``rows`` hold the findings. Its ``ok`` is
            ``False`` if a Function is wrong, or ``None`` if a Function could not be examined.
        """
        return examine(self._recorder, seconds=seconds)


@contextmanager
def recording() -> Iterator[Recording]:
    """Record the calls to every custom autograd Function inside a block.

    For each Function, the recording keeps a few small calls in which at least one input requires
    grad. The program computes the same results and draws the same random numbers as without
    recording, and takes at most 10% longer.

    Yields:
        The recording. Its ``diagnose()`` examines each Function that was called.

    Example:
        >>> import torch
        >>> from autograd_doctor import recording
        >>> class Half(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad_output):
        ...         (x,) = ctx.saved_tensors
        ...         return x * grad_output
        >>> with recording() as calls:
        ...     Half.apply(torch.ones(3, requires_grad=True)).sum().backward()
        >>> print(calls.diagnose().rows[0].verdict)
        ✗ constant-factor
    """
    recorder = Recorder()
    recorder.start()
    try:
        yield Recording(recorder)
    finally:
        recorder.stop()


def examine(
    recorder: Recorder,
    *,
    seconds: float = SECONDS,
    folder: Path | None = None,
    claim: Claim = lambda name: True,
) -> ProgramDiagnosis:
    """Diagnose each recorded Function.

    Start with the best call to each Function, and examine the other calls while time remains.

    Args:
        recorder: The recorder that watched the program.
        seconds: The time limit.
        folder: The folder with the pyproject.toml that holds the declarations. If the folder has
            none, ``examine`` uses the nearest parent folder that has one.
        claim: A callable that takes a Function's name and returns whether this process must examine
            the Function.

    Returns:
        The result, with notes and one row for each Function.
    """
    project = Project(folder or Path.cwd())
    patients = [_Patient(it, project, seconds * PART) for it in recorder.functions]
    interrupted = False
    try:
        _examine_in_rounds(patients, time.monotonic() + seconds, claim)
    except KeyboardInterrupt:
        interrupted = True
    rows = [patient.row(seconds, interrupted) for patient in patients]
    left_out = sum(row.left_out for row in rows if row.examined)
    notes = (
        *([project.failure] if project.failure else project.unknown()),
        *([f"autograd-doctor failed while it recorded calls ({recorder.failure})."]
          if recorder.failure else []),
        *(RIGHT_HERE.format(_split(it.seen)[1]) for it in patients if it.wrong_elsewhere),
        *([f"For lack of time, {left_out} recorded calls were not examined."] if left_out else []),
    )  # fmt: skip
    broken = bool(project.failure or recorder.failure) or any(it.misdeclared for it in patients)
    rows.sort(key=lambda row: (row.function, row.where))
    return ProgramDiagnosis(tuple(rows), notes, broken)


def _examine_in_rounds(patients: Sequence[_Patient], deadline: float, claim: Claim) -> None:
    for turn in range(MOST_CALLS):
        for patient in patients:
            if turn == 0 and patient.calls and not claim(patient.seen.name):
                patient.claimed = False
            if not patient.waits_for(turn):
                continue
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            patient.examine_next(remaining)


@dataclass
class _Patient:
    """A Function whose calls have not all been examined yet."""

    seen: RecordedFunction
    project: Project
    seconds: float  # seconds left for this Function
    claimed: bool = True
    done: int = 0  # examined calls
    diagnoses: list[tuple[RecordedCall, Diagnosis]] = field(default_factory=list)
    # A call with errors that no backward pass of the program triggers, and its diagnosis.
    wrong_elsewhere: tuple[RecordedCall, Diagnosis] | None = None
    failures: list[str] = field(default_factory=list)
    declaration: Declaration | None = None
    misdeclared: bool = False

    def __post_init__(self) -> None:
        self.calls = self.seen.best

    @property
    def wrong(self) -> tuple[RecordedCall, Diagnosis] | None:
        """The first call that shows an error, and its diagnosis."""
        return next((it for it in self.diagnoses if it[1].ok is False), None)

    def waits_for(self, turn: int) -> bool:
        """Return whether the Function's next call should be examined in this turn."""
        ready = self.claimed and self.done == turn < len(self.calls)
        return ready and not self.wrong and self.seconds > 0

    def examine_next(self, remaining: float) -> None:
        """Examine one more call.

        Keep its diagnosis, or the reason why a diagnosis was not possible.

        ``remaining`` is the number of seconds left for the program.
        """
        call, began = self.calls[self.done], time.monotonic()
        limit = min(remaining, self.seconds)
        self.done += 1
        try:
            with _silence(), time_limit(limit, patience=1):
                diagnosis = self._diagnosed(call)
        except TimeUp:
            self.failures.append(f"diagnose did not end within {limit:.0f} s")
            self.seconds = 0
        except (CannotDiagnoseError, DeclarationError) as error:
            self.misdeclared |= isinstance(error, DeclarationError)
            self.failures.append(str(error))
        except USERS as error:
            self.failures.append(f"diagnose failed: {type(error).__name__}: {first_line(error)}")
        else:
            self._take(call, diagnosis)
        self.seconds -= time.monotonic() - began

    def _diagnosed(self, call: RecordedCall) -> Diagnosis:
        declared = self.project.declaration_of(self.seen.name) or declaration_of(call.function)
        self.declaration = declared = declared or Declaration()
        return diagnose(
            call.function,
            _arguments(call),
            surrogate=declared.surrogate,
            intentional=declared.intentional,
            time_limit=0,  # a time limit for all passes is already in effect
        )

    def _take(self, call: RecordedCall, diagnosis: Diagnosis) -> None:
        raising = ("forward-raises", *(["backward-raises"] if call.shrunk else []))
        raised = next((it for it in diagnosis.findings if it.rule in raising), None)
        if raised is None:
            told = _of_second_order(diagnosis) if call.create_graph else diagnosis
            self.diagnoses.append((call, told))
            if self._is_right_for_the_program(call, told):
                self.diagnoses[-1] = self.wrong_elsewhere = call, _as_warnings(told)
        elif call.shrunk:
            self.failures.append(
                "its calls hold many numbers, and it raises an error on a smaller copy of one: "
                f"{raised.message}"
            )
        else:
            self.failures.append(f"its recorded call fails when it is made again: {raised.message}")

    def _is_right_for_the_program(self, call: RecordedCall, diagnosis: Diagnosis) -> bool:
        """Return whether the Function is correct for every backward pass that this program runs.

        Some outputs are not unique, such as an eigenvector or the square root of a matrix.
        ``backward`` can then be correct only for losses that do not depend on which solution
        ``forward`` returns. If all elements of a cotangent are equal, as in the backward pass of
        ``sum()``, the cotangent cannot show this.
        """
        errors = [it.rule for it in diagnosis.findings if it.severity == "error"]
        if not errors or any(RULES[it].family not in OF_VALUES for it in errors if it != UNREDUCED):
            return False
        if not call.backward_ran:
            return any(other.backward_ran for other, _ in self.diagnoses[:-1])
        if not any(g is not None and g.unique().numel() > 1 for g in call.grad_outputs):
            return False
        with suppress(CannotDiagnoseError):
            return is_right_for(call.function, _arguments(call), call.grad_outputs)
        return False

    def row(self, seconds: float, interrupted: bool) -> FunctionVerdict:
        """Return the Function's row in the table."""
        module, name = _split(self.seen)
        finding_lists = [diagnosis.findings for _, diagnosis in self.diagnoses]
        findings = tuple({it.rule: it for found in finding_lists for it in found}.values())
        order = {"error": 0, "warning": 1, "info": 2}
        report = self._report()  # searches for the repairs, which the findings then keep
        return FunctionVerdict(
            module,
            name,
            self.seen.where,
            self.seen.calls,
            self.seen.differentiated,
            without_search(sorted(findings, key=lambda it: order[it.severity])),
            report=report,
            declared=self.declaration.words if self.declaration else (),
            why_not=self._why_not(seconds, interrupted),
            examined=len(self.diagnoses),
            left_out=0 if self.wrong or not self.claimed else len(self.calls) - self.done,
        )

    def _why_not(self, seconds: float, interrupted: bool) -> str:
        if any(diagnosis.ok is not None for _, diagnosis in self.diagnoses):
            return ""
        for _, diagnosis in self.diagnoses:
            return diagnosis.unexamined[0].removeprefix("values: not examined. ").rstrip(".")
        if self.failures:
            return self.failures[0].rstrip(".")
        if not self.claimed:
            return ELSEWHERE
        if self.calls:
            return "you interrupted it" if interrupted else f"the {seconds:g} s were used up"
        return _why_nothing_was_kept(self.seen)

    def _wrong_on_other_inputs(self) -> tuple[RecordedCall, Diagnosis] | None:
        """Return the first diagnosis with a warning about wrong values for other inputs."""
        for call, diagnosis in self.diagnoses:
            warned = [it.rule for it in diagnosis.findings if it.severity == "warning"]
            twice = call.create_graph and any(rule in SILENT for rule in warned)
            if twice or any(RULES[rule].family in OF_VALUES for rule in warned):
                return call, diagnosis
        return None

    def _report(self) -> str:
        if not (shown := self.wrong or self.wrong_elsewhere or self._wrong_on_other_inputs()):
            return ""
        call, diagnosis = shown
        rows = [("seen on", "a smaller copy of a call with large tensors")] if call.shrunk else []
        if how := _how_to_declare(diagnosis.findings, self.seen.name):
            rows.append(("declare", how))
        return str(diagnosis) + card.as_text("", rows).rstrip("\n") * bool(rows)


def _of_second_order(diagnosis: Diagnosis) -> Diagnosis:
    """Report silently wrong second derivatives as warnings, because they may affect the program."""
    findings = (
        replace(finding, severity="warning") if finding.rule in SILENT else finding
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=tuple(findings))


def _as_warnings(diagnosis: Diagnosis) -> Diagnosis:
    """Convert the errors of a diagnosis to warnings, because the program does not trigger them."""
    findings = (
        replace(finding, severity="warning") if finding.severity == "error" else finding
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=tuple(findings))


def _split(seen: RecordedFunction) -> tuple[str, str]:
    return seen.module, seen.name.removeprefix(f"{seen.module}.")


def _why_nothing_was_kept(seen: RecordedFunction) -> str:
    if seen.compiled and not seen.differentiated:
        return "it ran only inside torch.compile; set TORCHDYNAMO_DISABLE=1 to examine it"
    for why, _ in seen.why_not.most_common(1):
        return why
    if not seen.differentiated:
        return "0 differentiated calls (no input required grad)"
    return "no call returned without an error"


def _how_to_declare(findings: Sequence[Finding], name: str) -> str:
    """If a deliberate design often causes one of the findings, explain how to declare it."""
    first = findings[0]
    meant = ("acts_on_the_gradient_alone", "passes_grad_output")
    stated = tuple(it.rule for it in findings if it.evidence.get("stated_design"))
    if first.rule in card.BY_DESIGN or any(first.evidence.get(key) for key in meant):
        takes_surrogate = "surrogate=" in card.BY_DESIGN.get(first.rule, card.SCALED)
        what = "surrogate=f" if takes_surrogate else f"intentional={first.rule!r}"
    elif stated:
        what = f"intentional={stated if len(stated) > 1 else stated[0]!r}"
    else:
        return ""
    return (
        f"write `@autograd_doctor.declare({what})` above the class, or the same below "
        f'`[tool.autograd-doctor.functions."{name}"]` in pyproject.toml'
    )


def _arguments(call: RecordedCall) -> list[Any]:
    """Return the arguments for examining a recorded call.

    The arguments are copies, except for parameters that the call can also reach in another way, for
    example in a checkpoint. The gradient of such a parameter must reach the original parameter.
    """
    args = list(call.args)
    live = {i: it for i, ref in call.parameters.items() if (it := ref()) is not None}
    if not live:
        return args
    hidden = [(str(i), value) for i, value in enumerate(args) if not isinstance(value, Tensor)]
    around = CapturedState(("", call.function), *hidden)
    known = {id(held.tensor) for held in around.held}
    for position, parameter in live.items():
        if id(parameter) in known and parameter.requires_grad:
            args[position] = parameter
    return args


class _Nowhere(TextIOBase):
    """A stream that discards all output, because the program has already printed it."""

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def _silence() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(_Nowhere()))
        stack.enter_context(redirect_stderr(_Nowhere()))
        yield
