from __future__ import annotations

import io
import linecache
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from answers import ALSO_RIGHT, RIGHT, WRONG
from answers.lesson_01 import SOLVED
from answers.making import Wrong, rewritten, spoiled
from autograd_doctor import RULES, CannotDiagnoseError
from IPython.core.interactiveshell import InteractiveShell
from sampling import first_rows
from torch.autograd import Function
from traitlets.config import Config

from autograd_course.grader import CATALOGUE, Result, grade, hint
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.kinds import function
from autograd_course.grader.limits import DEFAULT_SECONDS, VARIABLE, limit_in_seconds
from autograd_course.grader.pipeline import judge
from autograd_course.grader.sections import section_to_read
from autograd_course.index import INDEX

Square = RIGHT["square"]


# Right and wrong answers


@cache
def grade_right(exercise: str) -> Result:
    return grade(exercise, RIGHT[exercise])


def lesson_of(exercise: str) -> str:
    return CATALOGUE[exercise].lesson


# `make test` runs the solved notebooks, which grade all of these. test_course.py looks for warnings
# in their outputs.
@pytest.mark.parametrize("exercise", first_rows(CATALOGUE))
def test_a_right_answer_passes_with_all_points(exercise: str) -> None:
    result = grade_right(exercise)

    assert (result.status, result.points) == ("passed", CATALOGUE[exercise].points), str(result)


@pytest.mark.parametrize(
    "what", first_rows(ALSO_RIGHT, lambda what: lesson_of(ALSO_RIGHT[what][0]), most=1)
)
def test_another_right_answer_is_not_blamed(what: str) -> None:
    result = grade(*ALSO_RIGHT[what])

    assert result.status == "passed", str(result)


@pytest.mark.parametrize(
    "wrong",
    first_rows(WRONG, lambda wrong: lesson_of(wrong.exercise), most=2),
    ids=[f"{wrong.exercise}: {wrong.mistake}" for wrong in WRONG],
)
def test_a_wrong_answer_is_told_by_its_rule(wrong: Wrong) -> None:
    result = grade(wrong.exercise, wrong.answer)

    assert (result.status, result.points) == ("wrong", 0), str(result)
    if wrong.rule not in RULES:
        assert wrong.rule in f"{result.message} {result.finding.hint if result.finding else ''}"
        return
    assert result.finding is not None, str(result)
    assert result.finding.rule == wrong.rule, str(result)
    assert result.finding.hint
    assert wrong.hint in result.finding.hint
    read = section_to_read(CATALOGUE[wrong.exercise], wrong.rule) or ""
    assert read in " ".join(str(result).split())


SEEDS = (1, 2, 3)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("exercise", CATALOGUE)
def test_no_verdict_depends_on_the_random_inputs(exercise: str) -> None:
    right = [RIGHT[exercise], *(answer for name, answer in ALSO_RIGHT.values() if name == exercise)]
    wrong = {it.mistake: it.answer for it in WRONG if it.exercise == exercise}

    for seed in SEEDS:
        for answer in right:
            verdict = judge(CATALOGUE[exercise], answer, seed)
            assert verdict.status == "passed", verdict.message
        for mistake, answer in wrong.items():
            assert judge(CATALOGUE[exercise], answer, seed).status == "wrong", mistake


def test_the_tables_have_a_right_answer_to_every_exercise_and_three_wrong_ones() -> None:
    tried = Counter(wrong.exercise for wrong in WRONG)
    lacking = {
        exercise: f"add its answers to tests/support/answers/lesson_{entry.lesson[:2]}.py"
        for exercise, entry in INDEX.items()
        if exercise not in RIGHT or tried[exercise] < 3
    }

    assert lacking == {}


def test_each_wrong_answer_to_an_exercise_has_its_own_name() -> None:
    named = Counter((wrong.exercise, wrong.mistake) for wrong in WRONG)

    assert [name for name, times in named.items() if times > 1] == []


def test_a_wrong_answer_reads_well() -> None:
    text = str(grade("repair-multiply", SOLVED["BrokenMultiply"]))

    assert re.sub(r"-?\d+\.\d+", "#", text) == (
        "✗ Repair: multiply · wrong · 0 of 1 point\n"
        "  swapped-gradients: The gradients of `x` and `y` are swapped.\n"
        "  with     a 3×5 matrix\n"
        "  example  x[0, 3] = #, y = #, grad_output = #: gradient #, should be\n"
        "           #\n"
        "  at       return x * grad_output, y * grad_output\n"
        "  hint     Return the gradients in the order of the arguments of `forward`.\n"
        '  read     lesson 01, "Several inputs, several outputs"\n'
        '  next     hint("repair-multiply") gives the next hint'
    )


def test_a_notebook_shows_the_rule_and_the_numbers_and_folds_the_rest() -> None:
    result = grade("repair-multiply", SOLVED["BrokenMultiply"])
    html = result._repr_html_()
    shown, _, folded = html.partition("<details")
    rows = dict(result.rows())

    assert result.finding is not None
    assert f'docs/rules.md#{result.finding.rule}"' in shown
    assert '.ipynb" target="_blank"><span>lesson ' in shown
    assert shown.index(">should be<") < shown.index(">difference<")
    assert rows["with"] not in shown
    assert rows["with"] in folded
    assert "more: input, " in folded


# Warnings


def test_a_warning_stands_below_the_pass_and_costs_nothing() -> None:
    exercise, answer = ALSO_RIGHT["RMS norm that works out rstd again"]
    result = grade(exercise, answer)
    text = " ".join(str(result).split())

    assert (result.status, result.points) == ("passed", CATALOGUE[exercise].points)
    assert "warning saved-twice: " in text
    assert '(explain("saved-twice"))' in text
    assert 'docs/rules.md#saved-twice"' in result._repr_html_()


@pytest.mark.parametrize("exercise", first_rows(CATALOGUE))
def test_a_solution_has_no_warnings(exercise: str) -> None:
    assert grade_right(exercise).warnings == ()


def test_a_passed_exercise_says_what_was_tried() -> None:
    text = " ".join(str(grade("scaled-sigmoid", RIGHT["scaled-sigmoid"])).split())

    assert "Nothing but the output is kept for backward." in text
    assert "a negative gain" in text


class KeptAxis(SOLVED["BrokenMean"]):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.mean(-1, keepdim=True)


def test_a_forward_of_the_wrong_shape_is_pointed_to_its_shapes() -> None:
    text = " ".join(str(grade("repair-mean", KeptAxis)).split())

    assert "`forward` has shape (2, 1); this exercise asks for (2,)." in text
    assert "Print the shape after each step of `forward`" in text


# Unfinished answers


class Stub(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        raise NotImplementedError


class StubBackward(Stub):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x


class StubBackwardAndWrongForward(Stub):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + x


class NoBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * x


class Empty(Function):
    pass


class SeparateStub(Stub):
    @staticmethod
    def forward(x: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError


class StubSetupContext(SeparateStub):
    @staticmethod
    def forward(x: Any) -> Any:
        return x * x


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Stub, "You have not written `forward` yet: forward(ctx, x)."),
        (StubBackward, "`forward` is right. You have not written `backward` yet."),
        (
            StubBackwardAndWrongForward,
            "You have not written `backward` yet. `forward` is wrong at 15 of 15 elements.",
        ),
        (NoBackward, "`forward` is right. You have not written `backward` yet."),
        (Empty, "You have not written `forward` yet: forward(ctx, x)."),
        (SeparateStub, "You have not written `forward` yet: forward(x)."),
        (StubSetupContext, "You have not written `setup_context` yet."),
        (Function, "torch.autograd.Function itself"),
        (None, "There is no answer yet"),
        (..., "There is no answer yet"),
    ],
)
def test_an_unfinished_answer_is_not_attempted(answer: Any, says: str) -> None:
    result = grade("square", answer)

    assert (result.status, result.points, result.finding) == ("not attempted", 0, None)
    assert says in " ".join(str(result).split())


def test_a_stub_of_another_cell_is_named() -> None:
    scope: dict[str, Any] = {}
    cells = {
        "<cell 1>": "def clipped_sign(x):\n    raise NotImplementedError\n",
        "<cell 2>": "def train_binary_net(images, labels):\n    return clipped_sign(images)\n",
    }
    for name, source in cells.items():
        exec(compile(source, name, "exec"), scope)
    told = grade("binary-digits", scope["train_binary_net"]).message

    assert "it uses `clipped_sign`, which is not written yet (line 2" in told
    assert "Solve the exercise that asks for `clipped_sign` first." in told


def test_a_forward_of_c_is_run_and_not_asked_for_its_arguments() -> None:
    class Signs(Function):
        forward = staticmethod(torch.sign)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output

    result = grade("sign-ste", Signs)

    assert result.status == "wrong"
    assert "`forward` raises ValueError: no signature found" in result.message


def test_a_signature_is_asked_for_with_its_defaults() -> None:
    linear = CATALOGUE["linear"]
    assert isinstance(linear, FunctionExercise)

    assert linear.signature() == "forward(ctx, x, weight, bias=None)"
    assert linear.signature(separate=True) == "forward(x, weight, bias=None)"


# Answers that are not answers, or that fail in unusual ways


class Module(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x


class Plain:
    pass


def plain_function(x: Any) -> Any:
    return x * x


def forward(method: Callable[..., Any]) -> type[Function]:
    return spoiled(Square, forward=method)


def raises(ctx: Any, x: Any) -> Any:
    return x * undefined  # type: ignore[name-defined]  # noqa: F821


def not_implemented_by_torch(ctx: Any, x: Any) -> Any:
    return torch.empty(2, device="meta").cpu()


def exits(ctx: Any, x: Any) -> Any:
    sys.exit(3)


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raises_without_text(ctx: Any, x: Any) -> Any:
    raise TextlessError


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Module, "Module is an nn.Module, on which PyTorch never calls a backward"),
        (Module(), "This is a Module; hand in a subclass of torch.autograd.Function"),
        (Plain, "Plain is a class but not a Function"),
        (plain_function, "This is a plain function; hand in a subclass"),
        (Square.apply, 'Hand in the class itself: grade("square", Square).'),
        ("Square", "This is a str; hand in a subclass of torch.autograd.Function"),
        (3.5, "This is a float; hand in"),
        (torch.ones(2), "This is a Tensor; hand in"),
        (forward(lambda ctx: 1), "arguments of this exercise: write forward(ctx, x)."),
        (forward(lambda ctx, x, y: x), "arguments of this exercise: write forward(ctx, x)."),
        (forward(lambda ctx, x: None), "`forward` is None; this exercise asks for a tensor."),
        (
            forward(lambda ctx, x: (x * x, x)),
            "`forward` returns 2 values; this exercise asks",
        ),
        (forward(lambda ctx, x: x.sum()), "`forward` has shape (); this exercise asks for (3, 5)."),
        (
            forward(lambda ctx, x: (x * x).float()),
            "dtype torch.float32; this exercise asks for torch.float64, the dtype of `x`.",
        ),
        (forward(lambda ctx, x: (x * x).log().log()), ": nan, should be"),
        (forward(raises), "`forward` raises NameError: name 'undefined' is not defined"),
        (forward(raises), "raises: return x * undefined"),
        (forward(not_implemented_by_torch), "raises NotImplementedError: Cannot copy out of meta"),
        (forward(raises_without_text), "`forward` raises TextlessError without a message"),
        (forward(exits), "exit()"),
    ],
)
def test_what_cannot_be_right_is_told_in_one_sentence(answer: Any, says: str) -> None:
    result = grade("square", answer)

    assert (result.status, result.points) == ("wrong", 0), str(result)
    assert says.lower() in " ".join(str(result).split()).lower()
    assert "Traceback" not in str(result)


def test_an_instance_is_not_the_class() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        instance = Square()

    assert "hand in the class Square itself" in str(grade("square", instance))


@pytest.mark.parametrize(
    ("exercise_id", "says"),
    [
        ("sqare", 'There is no exercise "sqare": did you mean "square"?'),
        ("scaled sigmod", 'did you mean "scaled-sigmoid"'),
        ("repair_abs", '"repair-absolute"'),
        ("xyz", 'There is no exercise "xyz": did you mean "'),
        ("", "comes first, as text"),
        (Square, 'grade("square", Square)'),
    ],
)
def test_an_unknown_id_names_the_closest_ones(exercise_id: Any, says: str) -> None:
    result = grade(exercise_id, Square)

    assert result.status == "not attempted"
    assert says in " ".join(str(result).split())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: grade("square"), 'The answer is missing: grade("square", Square).'),
        (lambda: grade("Log Sum Exp"), 'grade("log-sum-exp", LogSumExp).'),
        (lambda: grade("squar"), 'did you mean "square"?'),
        (grade, "The id of the exercise comes first"),
        (lambda: grade(Square, "square"), 'The id of the exercise comes first: grade("square", '),
        (hint, "the id of the exercise comes first"),
    ],
)
def test_a_call_that_lacks_something_is_told_in_a_sentence(
    call: Callable[[], Any], says: str, progress_file: Path
) -> None:
    assert says in " ".join(str(call()).split())
    assert not progress_file.exists()


def test_an_unknown_name_is_shown_in_a_notebook_without_a_traceback() -> None:
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    for call in ("reset('squar')", "explain('mising dependency')"):
        with redirect_stdout(io.StringIO()) as out:
            shell.run_cell(f"from autograd_course import explain\n"
                           f"from autograd_course.grader import reset\n{call}")  # fmt: skip
        lines = out.getvalue().splitlines()
        assert len(lines) == 1, lines
        assert "id you mean" in lines[0]


@pytest.mark.parametrize(
    "typed", ["Scaled_Sigmoid", "scaled sigmoid", " SCALED-SIGMOID ", "ScaledSigmoid"]
)
def test_an_id_may_be_typed_in_other_ways(typed: str) -> None:
    assert grade(typed, RIGHT["scaled-sigmoid"]).exercise == "scaled-sigmoid"


# The grader's own failures are never blamed on the learner


@pytest.mark.parametrize(
    "error", [CannotDiagnoseError("no input"), ZeroDivisionError("oops\nat 0x1")]
)
def test_a_fault_of_the_grader_is_not_a_wrong_answer(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(function, "diagnose", broken)
    result = grade("square", Square)

    assert (result.status, result.points) == ("grader failed", 0)
    assert str(error).splitlines()[0] in str(result)
    assert "your answer is not the cause" in str(result)
    assert "0x1" not in str(result)


def test_an_answer_that_raises_is_told_also_where_the_doctor_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*args: Any, **options: Any) -> Any:
        raise CannotDiagnoseError("cannot examine this")

    monkeypatch.setattr(function, "diagnose", refuses)
    result = grade("square", forward(raises))

    assert result.status == "wrong"
    assert re.fullmatch(
        r"`forward` raises NameError: name 'undefined' is not defined "
        r"\(line \d+: `return x \* undefined .*`\)\.",
        result.message,
    )


def test_an_interrupt_of_the_kernel_goes_through() -> None:
    def interrupted(ctx: Any, x: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade("square", forward(interrupted))


# The time limit


def loops(ctx: Any, x: Any) -> Any:
    while True:
        x = x + 1


def loops_in_spite_of_exceptions(ctx: Any, x: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0.2")


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize(
    ("method", "loop"),
    [("forward", loops), ("backward", loops), ("forward", loops_in_spite_of_exceptions)],
)
def test_an_endless_loop_is_stopped_at_its_line(method: str, loop: Callable[..., Any]) -> None:
    before = signal.getsignal(signal.SIGALRM)
    result = grade("square", spoiled(Square, **{method: loop}))

    assert result.status == "wrong"
    assert re.search(r"Stopped after 0\.2 s in your code \(line \d+: `.+`\)", str(result))
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.usefixtures("short_limit")
def test_an_endless_loop_is_stopped_in_another_thread_too() -> None:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(grade("square", forward(loops))))
    thread.start()
    thread.join(20)

    assert [result.status for result in results] == ["wrong"]
    assert "Stopped after 0.2 s in your code" in str(results[0])


STOPPED_THEN_TRACED = """
import sys, threading
from autograd_doctor.extension import TimeUp, time_limit

def loop():
    try:
        with time_limit(0.1):
            while True:
                pass
    except TimeUp:
        print("stopped")

def traced():
    print("and traced")

thread = threading.Thread(target=loop)
thread.start()
thread.join()
sys.settrace(lambda *event: None)
traced()
"""


def test_code_that_is_traced_goes_on_after_a_loop_was_stopped() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STOPPED_THEN_TRACED], capture_output=True, text=True, timeout=60
    )

    assert run.stdout == "stopped\nand traced\n", run.stderr


@pytest.mark.usefixtures("short_limit")
def test_a_slow_grader_does_not_blame_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "diagnose", lambda *args, **options: loops(None, 0))
    result = grade("square", Square)

    assert result.status == "grader failed"
    assert VARIABLE in str(result)


@pytest.mark.parametrize(
    ("setting", "seconds"),
    [(None, DEFAULT_SECONDS), ("12.5", 12.5), ("0", 0.0), ("-1", 0.0), ("soon", DEFAULT_SECONDS)],
)
def test_the_limit_is_a_setting(
    setting: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(VARIABLE, setting)

    assert limit_in_seconds() == seconds


def test_without_a_limit_answers_are_graded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")

    assert grade("square", Square).status == "passed"


# The learner's environment


class Noisy(Square):  # type: ignore[misc, valid-type]
    """A right answer that also warns, prints, draws random numbers and changes the defaults."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        warnings.warn("deprecated", stacklevel=1)
        print("in forward", x, file=sys.stderr)
        print("in forward", x)
        torch.rand(3)
        torch.set_default_dtype(torch.float16)
        return Square.forward(ctx, x)


def world() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_rng_state().tolist(),
        list(warnings.filters),
    )


def test_grading_leaves_the_world_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    before = world()
    result = grade("square", Noisy)

    assert world() == before
    assert capfd.readouterr() == ("", "")
    assert result.status == "passed", str(result)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_answer_can_be_graded_in_any_grad_mode(mode: Callable[[], Any]) -> None:
    with mode():
        before = world()
        result = grade("square", Square)

        assert world() == before
    assert result.status == "passed", str(result)


@pytest.mark.parametrize("answer", [Square, SOLVED["BrokenCube"]])
def test_the_outcome_does_not_depend_on_the_random_state(answer: type[Function]) -> None:
    torch.manual_seed(1)
    first = grade("square", answer)
    torch.manual_seed(2)

    assert list(grade("square", answer).rows()) == list(first.rows())


# HTML


def test_html_shows_the_same_and_is_escaped() -> None:
    def raises_markup(ctx: Any, x: Any) -> Any:
        raise ValueError("<script>alert(1)</script>")

    page = grade("square", forward(raises_markup))._repr_html_()

    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "var(--jp-content-font-color1, " in page
    assert "hint(&quot;square&quot;)" in page


# The information that each attempt gives


def swish(slope: str) -> Any:
    """Return an answer to the exercise. Its source can be found like the source of a cell."""
    source = SWISH.replace("SLOPE", slope)
    name = f"<swish {slope}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"torch": torch, "Function": Function, "__name__": "swish"}
    exec(compile(source, name, "exec"), scope)
    return scope["Swish"]


SWISH = """class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return grad_output * (SLOPE)
"""
WRONG_SLOPE, RIGHT_SLOPE = "s + x * s * (1 + s)", "s + x * s * (1 - s)"


def test_the_first_wrong_answer_is_told_the_rule_and_an_example() -> None:
    told = str(grade("swish", swish(WRONG_SLOPE)))

    assert "does not include every path from `x` to the" in told
    assert "example  x[" in told
    assert "lacks the term" not in told
    assert "repair" not in told


@pytest.mark.parametrize("before", ["another attempt", "two hints"])
def test_the_second_is_told_what_was_derived_and_the_line(before: str) -> None:
    if before == "two hints":
        hint("swish")
        hint("swish")
    else:
        grade("swish", swish("s"))
    told = str(grade("swish", swish(WRONG_SLOPE)))

    assert "lacks the term `-2 · grad_output · output ·" in told
    assert "look at  line 11 of the cell" in told
    assert RIGHT_SLOPE not in told


def test_the_third_is_told_what_is_wrong_in_the_line() -> None:
    for answer in ("s", "s + 1"):
        grade("swish", swish(answer))
    told = str(grade("swish", swish(WRONG_SLOPE)))

    assert "there    an operator is wrong" in told
    assert RIGHT_SLOPE not in told


def test_a_repeated_index_is_told_to_add_up() -> None:
    last = "return (grad_output.new_zeros(ctx.shape).index_add(0, index.reshape(-1), rows), None)"
    lost = "grad = grad_output.new_zeros(ctx.shape)\ngrad[index] += grad_output\nreturn grad, None"
    answer = rewritten("03_gradient_patterns", "GatherRows", (last, lost))
    for _ in range(3):
        told = str(grade("gather-rows", answer))

    assert "there    a value is overwritten, but values have to be added up here" in told


def test_after_the_third_hint_the_change_is_told() -> None:
    for _ in range(3):
        hint("swish")
    told = str(grade("swish", swish(WRONG_SLOPE)))

    assert f"after    return grad_output * ({RIGHT_SLOPE})" in told


def test_a_notebook_shows_the_verdict_before_it_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda it, raw: shown.append(it["text/plain"]))
    grade("swish", swish("s"))
    grade("swish", swish(WRONG_SLOPE))._ipython_display_()

    verdict, repair = shown
    assert "repair" not in verdict
    assert repair.splitlines() == [
        "Swish · where to look",
        "  look at  line 11 of the cell",
    ]


@pytest.mark.parametrize("exercise", CATALOGUE)
def test_a_wrong_forward_does_not_lead_to_a_section_about_backward(exercise: str) -> None:
    assert "backward" not in (section_to_read(CATALOGUE[exercise], "forward-mismatch") or "")
