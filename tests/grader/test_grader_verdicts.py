"""Types determine the verdicts. No code parses a sentence, and every reason has one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from answers import RIGHT, WRONG
from answers.making import spoiled
from autograd_classroom.judge.plain import plain
from autograd_doctor import Finding
from sampling import first_rows
from torch.autograd import Function

from autograd_course import execution
from autograd_course.execution import WHOLE
from autograd_course.grader import CATALOGUE, verdict
from autograd_course.grader.comparison import Difference
from autograd_course.grader.kinds import function, routine
from autograd_course.grader.pipeline import judge
from autograd_course.grader.verdict import (
    BaseClassHandedIn,
    CannotExamine,
    CodeRaised,
    ExperimentIsBlind,
    ForbiddenCode,
    FunctionAgrees,
    GraderFailedBecause,
    Hindered,
    InternalError,
    LineIsRight,
    Located,
    Mispredicted,
    MissingRequirement,
    NoSuchChoice,
    NotAttemptedBecause,
    NothingHandedIn,
    OutOfTime,
    Predicted,
    Reason,
    ResultDiffers,
    RoutineAgrees,
    RuleBroken,
    Stopped,
    Unwritten,
    Verdict,
    WrongArguments,
    WrongBecause,
    WrongCount,
    WrongKind,
    describe,
)

SENTENCES: list[tuple[Reason, str]] = [
    (
        FunctionAgrees("reference", "", ("a matrix", "a vector"), "torch #1"),
        "`forward` and every gradient agree with the reference. Tried on: a matrix; a vector. "
        "Modeled on torch #1.",
    ),
    (
        FunctionAgrees("surrogate", "nothing is kept", ("a matrix",)),
        "`forward` agrees with the reference and every gradient with the declared surrogate. "
        "Nothing is kept. Tried on: a matrix.",
    ),
    (RoutineAgrees("it is fast", ()), "it passes every trial. It is fast."),
    (RoutineAgrees("", ("a row",)), "the results agree with the reference. Tried on: a row."),
    (
        Located("1", "a", "shared-state", "state is shared", ""),
        "line 1 is wrong, and experiment a shows it. `diagnose` calls the mistake "
        "`shared-state`: state is shared.",
    ),
    (
        NothingHandedIn("square", "class"),
        'there is no answer yet: write the class, then grade("square", YourClass).',
    ),
    (BaseClassHandedIn(), "this is torch.autograd.Function itself: write a subclass of it."),
    (
        Unwritten("forward", "forward(ctx, x)"),
        "you have not written `forward` yet: forward(ctx, x).",
    ),
    (Unwritten(WHOLE), "you have not written the function yet."),
    (Unwritten("vmap", forward="right"), "`forward` is right. You have not written `vmap` yet."),
    (
        Unwritten("backward", forward=CodeRaised("it raises.")),
        "you have not written `backward` yet. It raises.",
    ),
    (NotAttemptedBecause("no Square was handed in."), "no Square was handed in."),
    (RuleBroken(Finding("oversaved", "error", "It keeps x.")), "It keeps x."),
    (
        ResultDiffers(
            Difference("it is wrong.", evidence={"index": [1], "actual": 2.0, "expected": 3.0}),
            "Square it.",
        ),
        "it is wrong. At [1] it is 2, should be 3. Square it.",
    ),
    (
        WrongKind("apply", "Square", "square"),
        'hand in the class itself: grade("square", Square).',
    ),
    (
        WrongArguments(WHOLE, "(x)"),
        "the function does not take the arguments of this exercise: write (x).",
    ),
    (CodeRaised("`forward` raises.", in_float32=True), "in float32, `forward` raises."),
    (
        Stopped(5.0, " (line 3: `while True`)"),
        "stopped after 5 s in your code (line 3: `while True`), before it had a result to check. "
        "Is there an endless loop? If the code is only slow, make it faster.",
    ),
    (
        Stopped(5.0, " (line 3: `slow(x)`)", variable="LIMIT"),
        "stopped after 5 s in your code (line 3: `slow(x)`), before it had a result to check. "
        "Is there an endless loop? If the code is only slow, make it faster, or set LIMIT to a "
        "larger number of seconds.",
    ),
    (
        NoSuchChoice("1z", "4", "d"),
        '"1z" is not an answer. Hand in a line from 1 to 4 and an experiment from a to d, such as '
        '"1a".',
    ),
    (LineIsRight("2", "It saves x."), "line 2 is right. It saves x."),
    (Predicted((2.0, 0.5), ""), "the run gives 2 and 0.5."),
    (WrongCount(2, 3), "hand in 3 numbers, one for each question. These are 2."),
    (
        Mispredicted(2, 3.0, "There is one node."),
        "number 2 of your list: the run does not give 3. There is one node.",
    ),
    (Mispredicted(1, 200_000.0), "number 1 of your list: the run does not give 200000."),
    (Mispredicted(1, 0.25), "number 1 of your list: the run does not give 0.25."),
    (
        ExperimentIsBlind("1", "b", "Both return 2."),
        "line 1 is wrong, as you say, but experiment b does not show it. Both return 2.",
    ),
    (WrongBecause("the net is real."), "the net is real."),
    (
        ForbiddenCode(("it uses eval (line 1: `eval`)",)),
        "the values are right, but it uses eval (line 1: `eval`). An answer must not do that. If "
        "your answer does not need this code, remove it or move it to another cell.",
    ),
    (
        ForbiddenCode(("it uses eval (line 1: `eval`)", "it uses exec (line 2: `exec`)")),
        "the values are right, but it uses eval (line 1: `eval`). An answer must not do that. "
        "Also, it uses exec (line 2: `exec`). If your answer does not need this code, remove it or "
        "move it to another cell.",
    ),
    (
        OutOfTime(5.0, "LIMIT"),
        "grading took longer than 5 s. Set LIMIT to a larger number of seconds.",
    ),
    (CannotExamine("no input"), "`diagnose` could not examine this answer: no input"),
    (MissingRequirement("no compiler", in_sandbox=True), "in the sandbox: no compiler."),
    (InternalError("KeyError", "x"), "KeyError inside the grader: x"),
    (
        Hindered(OutOfTime(5.0)),
        "the grader cannot examine this answer, although it can examine a right one: grading took "
        "longer than "
        "5 s.",
    ),
    (GraderFailedBecause("no ONNX."), "no ONNX."),
]


@pytest.mark.parametrize(("reason", "sentence"), SENTENCES, ids=lambda row: type(row).__name__)
def test_each_reason_has_a_sentence(reason: Reason, sentence: str) -> None:
    assert describe(reason) == sentence


def leaves(kind: type[Reason]) -> Iterator[type[Reason]]:
    subclasses = kind.__subclasses__()
    if not subclasses:
        yield kind
    for each in subclasses:
        yield from leaves(each)


def test_the_table_has_every_reason() -> None:
    assert {type(reason) for reason, _ in SENTENCES} == {*leaves(Reason)}


# The same verdicts with different sentences


def stub(*_: Any) -> Any:
    raise NotImplementedError


def raises(*_: Any) -> Any:
    raise ValueError("a right answer is not attempted; forward is right; no compiler")


Square = RIGHT["square"]
ANSWERS: dict[str, tuple[str, Any]] = {
    "right": ("square", Square),
    "nothing": ("square", ...),
    "forward is a stub": ("square", spoiled(Square, forward=stub)),
    "backward is a stub": ("square", spoiled(Square, backward=stub)),
    "backward is a stub, and forward is wrong": (
        "square", spoiled(Square, forward=lambda ctx, x: 3 * x, backward=stub)
    ),
    "forward raises": ("square", spoiled(Square, forward=raises)),
    "backward raises": ("square", spoiled(Square, backward=raises)),
    "an instance": ("square", torch.nn.Linear(1, 1)),
    "the base class": ("square", Function),
    "other arguments": ("scaled-sigmoid", Square),
    "a routine is a stub": ("attention-forward", stub),
    "a routine raises": ("attention-forward", raises),
    "another line": ("name-dropout", "1b"),
    "another experiment": ("name-dropout", "3a"),
    "no line": ("name-dropout", "no-line"),
    **{
        f"{wrong.exercise}: {wrong.mistake}": (wrong.exercise, wrong.answer)
        for wrong in WRONG
        if wrong.exercise in ("square", "clipped-relu", "split-rms-norm", "attention-forward")
    },
}  # fmt: skip


def kind_of(found: Verdict) -> tuple[str, type[Reason], str]:
    return found.status, type(found.reason), found.finding.rule if found.finding else ""


@pytest.fixture
def in_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the sentences of all reasons, exceptions and differences by the same text."""
    monkeypatch.setattr(verdict, "describe", lambda reason: "…")
    monkeypatch.setattr(execution, "told", lambda *_: "…")
    for kind in (function, routine):
        compare = kind.difference
        monkeypatch.setattr(
            kind,
            "difference",
            lambda *args, compare=compare, **options: (
                (found := compare(*args, **options)) and replace(found, message="…", hint="…")
            ),
        )


def exercise_of(what: str) -> str:
    """Return the exercise that a wrong answer belongs to."""
    return what.partition(":")[0]


@pytest.mark.parametrize("what", first_rows(ANSWERS, exercise_of))
def test_other_words_do_not_change_a_verdict(what: str, request: pytest.FixtureRequest) -> None:
    exercise, answer = ANSWERS[what]
    before = judge(CATALOGUE[exercise], answer)

    request.getfixturevalue("in_other_words")
    after = judge(CATALOGUE[exercise], answer)

    assert after.message == "…"
    assert kind_of(after) == kind_of(before)


@pytest.mark.usefixtures("in_other_words")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (spoiled(Square, forward=raises), MissingRequirement),
        (spoiled(Square, backward=raises), MissingRequirement),
        (spoiled(Square, forward=lambda ctx, x: 3 * x), RuleBroken),
        (Square, FunctionAgrees),
    ],
)
def test_a_missing_requirement_is_known_by_the_exception(answer: Any, kind: type[Reason]) -> None:
    exercise = replace(CATALOGUE["square"], needs=lambda: "a compiler")

    assert type(judge(exercise, answer).reason) is kind


STEERS = "\x1b[2J\u202e"
QUOTING: list[Reason] = [
    WrongBecause(STEERS),
    CodeRaised(STEERS),
    ResultDiffers(Difference(STEERS), STEERS),
    RuleBroken(Finding("oversaved", "error", STEERS, {"line": STEERS}, STEERS)),
    Hindered(WrongBecause(STEERS)),
]


@pytest.mark.parametrize("reason", QUOTING, ids=lambda reason: type(reason).__name__)
def test_what_a_reason_quotes_from_the_sandbox_can_be_printed(reason: Reason) -> None:
    shown = plain(Verdict(reason, remarks=(STEERS,)))

    finding = shown.finding
    quoted = [finding.message, finding.hint, finding.evidence["line"]] if finding else []
    assert "".join([shown.message, *shown.remarks, *quoted]).isprintable()
