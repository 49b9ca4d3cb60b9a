from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any, ClassVar, Self

import pytest
import torch
from answers import WRONG
from autograd_classroom.judge import judged, repairing
from autograd_classroom.judge.asked import Asked, UnansweredError
from autograd_classroom.judge.remote import RemoteFunction
from autograd_classroom.judge.repairing import Budget
from autograd_classroom.protocol import Frame, Malformed, read, write
from autograd_classroom.protocol.evidence import REPAIR, sound
from autograd_classroom.protocol.wire import pack, unpack
from autograd_classroom.sandbox import Limits, Trusted, choose
from autograd_classroom.sandbox.backend import NoSandboxError
from autograd_classroom.sandbox.running import Sandbox
from autograd_doctor.evidence import RANDOM, Cotangent, Evidence
from autograd_doctor.extension import collect_evidence
from sampling import first_rows
from submissions import IMPORTS, WRONG_SQUARES, square
from walls import WALLS, wall

from autograd_course.extraction import Answer
from autograd_course.functions import Square
from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader import verdict as verdicts
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.limits import VARIABLE

pytestmark = pytest.mark.slow

SQUARE = CATALOGUE["square"]
assert isinstance(SQUARE, FunctionExercise)
SEED = 90211
EXERCISES = [e for e in CATALOGUE.values() if isinstance(e, FunctionExercise)]


def answer(source: str) -> Answer:
    """Return the answer that a student would have handed in for the exercise."""
    return Answer("square", "ada", "Square", source, IMPORTS)


@pytest.fixture(scope="module", params=["the best here", *WALLS[1:]])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    try:
        backend = choose() if request.param == "the best here" else wall(request.param)
    except NoSandboxError:
        backend = Trusted()
    with Sandbox(backend) as running:
        yield running


# The verdict equals the verdict of ``grade``


def test_a_right_answer_passes(box: Sandbox) -> None:
    verdict = judged(SQUARE, answer(square()), box, SEED)

    assert verdict.status == "passed"
    assert verdict.message == grade("square", Square).message


@pytest.mark.parametrize("mistake", first_rows(WRONG_SQUARES, most=4))
def test_a_wrong_answer_is_told_as_grade_tells_it(box: Sandbox, mistake: str) -> None:
    wrong = next(w for w in WRONG if (w.exercise, w.mistake) == ("square", mistake))
    here = grade("square", wrong.answer)

    there = judged(SQUARE, answer(WRONG_SQUARES[mistake]), box, SEED)

    assert there.finding is not None, there
    assert here.finding is not None
    assert (there.status, there.finding.rule) == ("wrong", wrong.rule)
    assert there.finding.hint == here.finding.hint


def test_code_below_a_main_guard_runs_as_in_jupyter(box: Sandbox) -> None:
    source = f'if __name__ == "__main__":\n{indent(square(), "    ")}'

    assert judged(SQUARE, answer(source), box, SEED).status == "passed"


def test_an_answer_counts_although_later_code_in_its_cell_fails(box: Sandbox) -> None:
    tries = "x = torch.ones(3, requires_grad=True)\nSquare.apply(x).backward()"

    verdict = judged(SQUARE, answer(f"{square()}\n{tries}"), box, SEED)

    assert (verdict.status, verdict.remarks) == ("passed", ())


def test_a_wrong_answer_runs_with_the_code_around_it(box: Sandbox) -> None:
    tries = "x = torch.ones(3, requires_grad=True)\nSquare.apply(x).backward()"

    verdict = judged(SQUARE, answer(f"{WRONG_SQUARES['forgets the 2']}\n{tries}"), box, SEED)

    assert verdict.finding is not None
    assert verdict.finding.rule == "constant-factor"
    assert any(
        remark.startswith(
            "it fails after it has defined the answer: the cell raises RuntimeError: grad can be "
        )
        for remark in verdict.remarks
    ), verdict


# Code that the answer does not seem to need, and how it gives the factor 2 to the answer
GIVES = {
    "an argument": "z = torch.ones(1, requires_grad=True)\nC = torch.zeros(1)\n"
    "(z * z).backward()\ntorch.Tensor.copy_(C, z.grad)",
    "a default": "z = torch.ones(1, requires_grad=True)\nC = torch.zeros(1)\n(z * z).backward()\n"
    "def fill(c=C):\n    c.copy_(z.grad)\nfill()",
}


@pytest.mark.parametrize("what", GIVES)
def test_code_around_an_answer_cannot_make_it_pass_without_a_remark(
    what: str, box: Sandbox
) -> None:
    source = square(backward="(x,) = ctx.saved_tensors\nreturn C[0].to(x) * x * g")

    verdict = judged(SQUARE, answer(f"{GIVES[what]}\n{source}"), box, SEED)

    assert verdict.status == "passed"
    assert verdict.remarks[-1] == (
        "passes only if the code around it runs, too: see what this code gives to the answer"
    )


AROUND = {
    "an absent package": "from absent import progress",
    "an absent file": "rows = open('rows.csv').read()",
    "an endless loop": "while True: pass",
    "too much memory": "rows = [bytearray(1 << 26) for _ in range(1000)]",
}


@pytest.mark.parametrize("what", AROUND)
@pytest.mark.parametrize("before", [True, False], ids=["before the answer", "after the answer"])
def test_an_answer_counts_although_the_code_around_it_fails(
    what: str, before: bool, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    parts = AROUND[what], square()

    verdict = judged(SQUARE, answer("\n".join(parts if before else parts[::-1])), box, SEED)

    assert verdict.status == "passed"


def test_what_failed_around_a_wrong_answer_is_remarked_on(box: Sandbox) -> None:
    wrong = WRONG_SQUARES["forgets the 2"]

    verdict = judged(SQUARE, answer(f"from absent import progress\n{wrong}"), box, SEED)

    assert verdict.finding is not None
    assert verdict.finding.rule == "constant-factor"
    assert (
        "was graded without the code around it, which fails: the cell raises ModuleNotFoundError: "
        "No module named 'absent' (line 1: `from absent import progress`). The grader has only the "
        "packages of the course"
    ) in verdict.remarks


def test_code_that_the_answer_needs_is_not_left_out(box: Sandbox) -> None:
    needed = square().replace("x * x", "power(x, 2)")

    verdict = judged(SQUARE, answer(f"from absent import power\n{needed}"), box, SEED)

    assert "No module named 'absent'" in verdict.message


def test_a_default_dtype_is_reset_without_a_remark(box: Sandbox) -> None:
    source = f"torch.set_default_dtype(torch.float64)\n{square()}"

    verdict = judged(SQUARE, answer(source), box, SEED)

    assert (verdict.status, verdict.remarks) == ("passed", ())


FUTURE = "from __future__ import annotations\n"


@pytest.mark.parametrize(("before", "raises"), [("", True), (FUTURE, False)])
def test_a_cell_inherits_future_imports_from_earlier_cells_as_in_jupyter(
    before: str, raises: bool, box: Sandbox
) -> None:
    source = square().replace("def forward(ctx, x)", "def forward(ctx, x: Undefined)")

    verdict = judged(SQUARE, replace(answer(source), preamble=before + IMPORTS), box, SEED)

    assert ("NameError: name 'Undefined'" in verdict.message) is raises


OTHER_WORDS = {
    "right": square(),
    "forward is a stub": square("raise NotImplementedError"),
    "backward is a stub": square(backward="raise NotImplementedError"),
    "forward raises": square("raise ValueError"),
    "the cell raises": "1 / 0",
    "no class": "Square = 3",
    "keeps x on ctx": WRONG_SQUARES["keeps x on ctx"],
}


@pytest.mark.parametrize("what", OTHER_WORDS)
def test_other_words_do_not_change_a_verdict(
    what: str, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = judged(SQUARE, answer(OTHER_WORDS[what]), box, SEED)

    monkeypatch.setattr(verdicts, "describe", lambda reason: "…")
    after = judged(SQUARE, answer(OTHER_WORDS[what]), box, SEED)

    assert (after.status, type(after.reason), after.message) == (
        before.status,
        type(before.reason),
        "…",
    )


def test_every_wrong_square_is_handed_in_here_too() -> None:
    assert set(WRONG_SQUARES) == {w.mistake for w in WRONG if w.exercise == "square"}


UNFINISHED = {
    "ou have not written `backward` yet": square(backward="raise NotImplementedError"),
    "ou have not written `forward` yet": square("raise NotImplementedError"),
    "there is no answer yet": "Square = ...",
}


@pytest.mark.parametrize(("said", "source"), UNFINISHED.items(), ids=UNFINISHED)
def test_an_unfinished_answer_is_not_attempted(box: Sandbox, said: str, source: str) -> None:
    verdict = judged(SQUARE, answer(source), box, SEED)

    assert verdict.status == "not attempted"
    assert said in verdict.message


TEXTLESS = "class E(Exception):\n  def __str__(self): raise RuntimeError\nraise E"
UNRUN = {
    "the cell raises E: without a message (line 3: `raise E`)": TEXTLESS,
    "the cell defines no Square": "class Sqare: pass",
    "this is a plain function": "def Square(x): return x",
    "the cell is not Python": "class Square(",
    "the cell raises ZeroDivisionError: division by zero (line 2: `1 / 0`)": "x = 1\n1 / 0",
}


@pytest.mark.parametrize(("said", "source"), UNRUN.items(), ids=UNRUN)
def test_what_is_no_answer_is_wrong_with_the_reason(box: Sandbox, said: str, source: str) -> None:
    verdict = judged(SQUARE, answer(source), box, SEED)

    assert (verdict.status, verdict.finding) == ("wrong", None)
    assert said in verdict.message


def test_code_that_is_too_long_to_be_sent_is_told_so(box: Sandbox) -> None:
    verdict = judged(SQUARE, answer(f"{square()}\n# {'x' * (1 << 20)}"), box, SEED)

    assert verdict.status == "wrong"
    assert verdict.message.startswith("the code that the answer needs has more than 1 MiB.")


CHEATS = {
    "rebinds gradcheck and allclose": "torch.autograd.gradcheck = torch.allclose = torch.isclose = "
    "torch.equal = lambda *a, **k: True",
    "rebinds the rules": "import autograd_doctor._judge as j\nj.judge = lambda *a, **k: ()",
    "rebinds what was handed in": "import autograd_course.submitted as s\n"
    "s.forward_takes = lambda *a: True\ns.lacking_method = lambda *a: None",
    "leaves gradients out": "import autograd_classroom.worker.functions as d\n"
    "from dataclasses import replace\nplain = d.collect_evidence\ndef some(*a, **k):\n"
    "    return [replace(e, values=replace(e.values, vjps={})) for e in plain(*a, **k)]\n"
    "d.collect_evidence = some",
    "finds kinks everywhere": "import autograd_doctor._probes.core as p\n"
    "import autograd_doctor._numerics.finite_differences as d\nplain = d.jacobian\n"
    "def lies(*a, **k):\n    from dataclasses import replace\n"
    "    return tuple(replace(c, smooth=c.smooth & False) for c in plain(*a, **k))\n"
    "p.jacobian = lies",
    "answers for other inputs": "import autograd_classroom.worker.functions as d\n"
    "plain = d.collect_evidence\n"
    "d.collect_evidence = lambda fn, inputs, **k: plain(fn, (inputs[0] * 0,), **k)",
}


@pytest.mark.parametrize("before", first_rows(CHEATS.values()), ids=CHEATS)
def test_patching_the_grader_in_there_makes_no_wrong_answer_right(
    box: Sandbox, before: str
) -> None:
    source = square(backward="(x,) = ctx.saved_tensors\nreturn 3 * x * g", before=before)

    verdict = judged(SQUARE, answer(source), box, SEED)

    assert verdict.status == "wrong", verdict
    assert judged(SQUARE, answer(square()), box, SEED).status == "passed"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_what_is_asked_about_can_travel(exercise: FunctionExercise) -> None:
    for inputs in exercise.samples(SEED).values():
        again = unpack(pack(inputs))
        for one, other in zip(inputs, again, strict=True):
            assert type(one) is type(other)
            same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert same


# What may arrive instead of an answer


def forged(answer: Frame | Malformed) -> RemoteFunction:
    class Child:
        def ask(self, question: Frame) -> Frame | Malformed:
            return answer

    return RemoteFunction(SQUARE, Asked(Child()), SEED)  # type: ignore[arg-type]


def with_vjps(seen: Evidence, vjps: Any) -> Evidence:
    return replace(seen, values=replace(seen.values, vjps=vjps))


def lied(change: Callable[[Any], Any]) -> Frame:
    return Frame({}, pack(change(tuple(collect_evidence(Square, INPUTS, seed=SEED)))))


INPUTS = (torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64),)
LIES = {
    "nothing": lambda: Frame({}),
    "no tensors": lambda: Frame({}, b"\x80\x04."),
    "no evidence": lambda: Frame({}, pack(("passed",))),
    "no pieces": lambda: Frame({}, pack(())),
    "a number for an output": lambda: lied(lambda e: (replace(e[0], parameters=(1,)),)),
    "other inputs": lambda: lied(lambda e: (replace(e[0], inputs=(INPUTS[0] * 0,)),)),
    "keys with the same hash": lambda: lied(
        lambda e: (with_vjps(e[0], {k * (2**61 - 1): () for k in range(99)}),)
    ),
    "cotangents with the same hash": lambda: lied(
        lambda e: (with_vjps(e[0], {Cotangent("single", k << 40): () for k in range(99)}),)
    ),
    "a long header": lambda: Frame({}, pack(" " * (9 << 20))),
    "no gradients": lambda: lied(lambda e: (with_vjps(e[0], {}),)),
    "gradients left out": lambda: lied(
        lambda e: (with_vjps(e[0], {RANDOM: e[0].values.vjps[RANDOM]}),)
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_is_no_evidence_is_no_answer(lie: Callable[[], Frame]) -> None:
    with pytest.raises(UnansweredError, match=r"^the answer "):
        forged(lie()).diagnosed(INPUTS, varied=True)


def test_a_finding_of_no_rule_is_no_answer() -> None:
    with pytest.raises(UnansweredError, match="names no rule"):
        forged(Frame({"found": {"rule": "weather"}})).checked(0, INPUTS)


@dataclass(frozen=True)
class Saying:
    """A sandbox whose children give the same reply to every question, or raise it."""

    said: Frame | Malformed | Exception
    limits: ClassVar = Limits()

    def child(self, limits: Limits) -> AbstractContextManager[Self]:
        return nullcontext(self)

    def ask(self, question: Frame) -> Frame | Malformed:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


FAILED = "grader failed"
LACKS = "there is no compiler"
LATE = f"{Limits().question:g} s"
SAID: dict[str, tuple[Frame | Malformed | Exception, str, str]] = {
    "nothing": (Malformed("never came"), "wrong", "never came"),
    "a problem": (Frame({"problem": "no such name"}), "wrong", "no such name"),
    "a stub": (Frame({"submitted": "nothing"}), "not attempted", "there is no answer yet"),
    "no kind of answer": (Frame({"submitted": "gold"}), "wrong", "the answer is of no kind"),
    "too late": (
        Frame({"stopped": " (line 3)"}), "wrong", f"stopped after {LATE} in your code (line 3)",
    ),
    "too late, nobody knows where": (
        Frame({"stopped": ""}), FAILED, f"grading took longer than {LATE}.",
    ),
    "unexamined": (
        Frame({"unexamined": "no"}), FAILED, "`diagnose` could not examine this answer: no",
    ),
    "a fault of ours": (Frame({"failed": "KeyError: 3"}), FAILED, "KeyError: 3"),
    "what is not there": (
        Frame({"problem": "it raised", "raised": True, "lacking": f"{LACKS}."}),
        FAILED, f"in the sandbox: {LACKS}.",
    ),
    "a fault on this side": (
        ZeroDivisionError("oops\nat 0x1"), FAILED, "ZeroDivisionError inside the grader: oops",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "status", "message"), SAID.values(), ids=SAID)
def test_what_is_no_verdict_on_the_answer_says_so(
    said: Frame | Malformed | Exception, status: str, message: str
) -> None:
    verdict = judged(SQUARE, answer(square()), Saying(said), SEED)  # type: ignore[arg-type]

    assert (verdict.status, verdict.message[: len(message)]) == (status, message)
    assert verdict.message.isprintable()


def test_evidence_with_invented_gradients_is_disproved() -> None:
    def invented(seen: Any) -> Any:
        wrong = {
            cotangent: replace(vjp, grads=tuple(3 * g for g in vjp.grads))
            for cotangent, vjp in seen[0].values.vjps.items()
        }
        return (with_vjps(seen[0], wrong),)

    findings = forged(lied(invented)).diagnosed(INPUTS, varied=True)

    assert findings[0].severity == "error"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "never came"),
        (struct.pack("!II", 1 << 31, 0), "is longer than 1 MiB"),
        (struct.pack("!II", 2, 1 << 31) + b"{}", "is longer than 64 MiB"),
        (struct.pack("!II", 2, 0) + b"{]", "is no JSON"),
        (struct.pack("!II", 2, 0) + b"[]", "is no JSON object"),
        (struct.pack("!II", 200000, 0) + b"[" * 200000, "is no JSON"),
        (struct.pack("!II", 9, 0) + b"{}", "never came"),
    ],
)
def test_what_is_no_frame_is_a_value_that_says_so(data: bytes, reason: str) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.settimeout(5)
            theirs.sendall(data)
        came = read(ours, 5)

    assert isinstance(came, Malformed)
    assert came.reason == reason


def test_a_frame_that_does_not_end_is_late() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\0\0")
        came = read(ours, 0.05)
        assert came == Malformed("did not come in time", late=True)
        assert write(theirs, Frame({"a": 1}, b"xyz")) is None


# A change that makes a wrong answer right


def spending(seconds: float) -> Budget:
    """Return a budget that is large enough even on a busy machine."""
    return Budget(seconds)


UNPACKED = "(x,) = ctx.saved_tensors\n"
REPAIRED = {
    "return 3 * x * g": "return 2 * x * g",
    "return 2 * x + g": "return 2 * x * g",
}
TRIPLED = square(backward=f"{UNPACKED}return 3 * x * g")


@pytest.mark.parametrize("wrong", REPAIRED)
def test_the_finding_on_a_wrong_answer_holds_its_repair(
    box: Sandbox, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairing, "LONGEST", 20.0)
    verdict = judged(SQUARE, answer(square(backward=UNPACKED + wrong)), box, SEED, spending(60.0))

    assert verdict.finding is not None
    repair = verdict.finding.evidence[REPAIR]
    (change,) = repair["changes"]
    assert [line.strip() for line in change["before"]] == [wrong]
    assert [line.strip() for line in change["after"]] == [REPAIRED[wrong]]
    assert sound(verdict.finding.evidence)[REPAIR] == repair
    assert "in the return statement of `backward`" in repair["summary"]


def test_the_verdict_is_the_same_without_a_repair(box: Sandbox) -> None:
    wrong = answer(TRIPLED)
    alone = judged(SQUARE, wrong, box, SEED)
    spent = judged(SQUARE, wrong, box, SEED, spending(0.0))

    assert alone == spent
    assert alone.finding is not None
    assert REPAIR not in alone.finding.evidence


def test_a_search_takes_its_time_off_the_budget(box: Sandbox) -> None:
    budget = spending(60.0)
    judged(SQUARE, answer(square()), box, SEED, budget)
    assert budget.left == 60.0, "a right answer costs nothing"

    judged(SQUARE, answer(TRIPLED), box, SEED, budget)
    assert budget.left < 60.0
    assert budget.known["square"], "what repaired one answer is tried first on the next"

    before = budget.left
    budget.earn(10.0)
    assert budget.left == pytest.approx(before + 10 * repairing.SHARE)


def test_an_answer_that_answers_no_edits_keeps_its_verdict(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(repairing, "_ask", refuses)
    wrong = answer(TRIPLED)

    assert judged(SQUARE, wrong, box, SEED, spending(60.0)) == judged(SQUARE, wrong, box, SEED)
