"""Judge one exercise of each kind and feature in the sandbox. To judge all exercises, and see times
and differences, run:

python -m benchmarks.classroom_verdicts
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from answers.making import Wrong
from autograd_classroom.gradebook import Score
from autograd_classroom.grading.anonymous import anonymous
from autograd_classroom.grading.task import told
from autograd_classroom.judge import judged
from autograd_classroom.pictures import PICTURE, from_data
from autograd_classroom.sandbox import Trusted, choose
from autograd_classroom.sandbox.backend import NoSandboxError
from autograd_classroom.sandbox.running import Sandbox
from behind_the_wall import handed_in, mistaken, named, wrongs
from sampling import first_rows
from submissions import IMPORTS, square

from autograd_course.extraction import Answer
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import (
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
)
from autograd_course.grader.kinds.function import passed
from autograd_course.grader.kinds.routine import passed as routine_passed
from autograd_course.grader.reading import reader
from autograd_course.grader.verdict import Verdict

pytestmark = pytest.mark.slow

SEED = 31337


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    try:
        backend = choose()
    except NoSandboxError:
        backend = Trusted()
    with Sandbox(backend) as running:
        yield running


def verdict(box: Sandbox, answer: Answer) -> Verdict:
    return judged(CATALOGUE[answer.exercise], answer, box, SEED)


def of(exercise: str, source: str, name: str) -> Answer:
    return Answer(exercise, "ada", name, source, IMPORTS)


EVERYDAY = {
    "a surrogate, and a float that asks for no gradient": "gumbel-hard",
    "two outputs": "to-polar",
    "what is no tensor, and a rule that is asked": "strided-gain",
    "second derivatives": "cube-twice",
    "methods": "split-rms-norm",
    "a routine that takes models, and trials": "per-sample-gradients",
    "a routine of two results": "eight-bits",
    "a line and an experiment": "name-temperature",
    "numbers": "predict-ratios",
}


@pytest.mark.parametrize("exercise", first_rows(EVERYDAY.values()), ids=EVERYDAY)
def test_a_solution_passes_as_it_does_in_grade(box: Sandbox, exercise: str) -> None:
    found = verdict(box, handed_in("solutions", exercise))

    assert (found.status, found.remarks) == ("passed", ()), found
    match CATALOGUE[exercise]:
        case FunctionExercise() as asked:
            assert found.message == passed(asked).message
        case RoutineExercise() as asked:
            assert found.message == routine_passed(asked).message
        case LocatingExercise() as asked:
            assert f"`{asked.rule}`" in found.message
        case PredictionExercise():
            assert found.message.startswith("the run gives ")


@pytest.mark.parametrize("exercise", first_rows(EVERYDAY.values()), ids=EVERYDAY)
def test_a_stub_is_not_attempted(box: Sandbox, exercise: str) -> None:
    assert verdict(box, handed_in("exercises", exercise)).status == "not attempted"


PREDICTIONS = ["[8, -1, 0.2]", "'8, -1, 0.2'", "torch.tensor(8.0), -1, 1 / 5"]


@pytest.mark.parametrize("typed", PREDICTIONS)
def test_numbers_are_taken_as_grade_takes_them(box: Sandbox, typed: str) -> None:
    answer = of("predict-ratios", f"prediction = {typed}", "prediction")

    assert verdict(box, answer).status == "passed"


WRONG = {
    "a routine": wrongs("per-sample-gradients")[0],
    "a line": wrongs("name-temperature")[0],
    "numbers": wrongs("predict-ratios")[0],
    "no gradient to ask for, by a rule that is asked": next(
        wrong for wrong in wrongs("sort-with-indices") if wrong.mistake == "marks the values too"
    ),
    "what the doctor only warns of, by a check of the exercise": next(
        wrong for wrong in wrongs("maximum-by-mask") if wrong.mistake == "neither at a tie"
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_told_by_its_rule(box: Sandbox, wrong: Wrong) -> None:
    found = verdict(box, mistaken(wrong))

    assert found.status == "wrong", found
    assert named(found, wrong), found


BUILT_IN = square(
    backward="(x,) = ctx.saved_tensors\nwith torch.enable_grad():\n"
    "    x = x.detach().requires_grad_()\n    return torch.autograd.grad(x**2, x, g)[0]"
)


def score(answer: Answer, verdict: Verdict) -> Score:
    """Return the record of a verdict, without points."""
    said = json.loads(told(verdict, 0.0))
    return Score("", answer.exercise, points=0.0, hash=answer.hash, **said | {
        "remarks": tuple(said["remarks"])
    })  # fmt: skip


MISTAKES = {
    "a constant": square(backward="(x,) = ctx.saved_tensors\nreturn 3 * x * g"),
    "another argument is differentiated": square(backward="(x,) = ctx.saved_tensors\nreturn x"),
    "an exception": square(backward="(y,) = ctx.saved_tensors\nreturn 2 * y @ g.nothing"),
    "a name that is not defined": square(backward="(y,) = ctx.saved_tensors\nreturn 2 * x * g"),
    "a change of the input": square("ctx.save_for_backward(x)\nreturn x.mul_(x)"),
    "autograd, which is forbidden": BUILT_IN,
    "a remark": square("ctx.save_for_backward(x)\nexec('')\nreturn x * x"),
}


@pytest.mark.parametrize("source", MISTAKES.values(), ids=MISTAKES)
def test_an_anonymous_answer_gets_the_same_verdict(box: Sandbox, source: str) -> None:
    own = of("square", source, "Square")
    hidden = anonymous(own)
    assert hidden is not None
    assert {"x", "g"} & {*hidden.names}

    recorded, shared = (score(it, verdict(box, it)) for it in (own, hidden.answer))

    assert hidden.named(shared, own.hash) == recorded


# TorchDynamo inlines methods of the judge's model, and reads the globals that they use.
SHIPPED = {
    "exported strictly": "torch.export.export(own, (example,), dynamic_shapes=shapes, strict=True)",
    "exported after a compilation": "compiled(own, example, shapes)",
}


@pytest.mark.parametrize("program", SHIPPED.values(), ids=SHIPPED)
def test_an_answer_may_give_the_judges_model_to_the_compiler(box: Sandbox, program: str) -> None:
    source = f"""
import copy

def compiled(own, example, shapes):
    torch.compile(lambda x: own(x).sum(), backend="eager", fullgraph=True)(example)
    return torch.export.export(own, (example,), dynamic_shapes=shapes)

def ship(model, example):
    own, shapes = copy.deepcopy(model).eval(), ({{0: torch.export.Dim("batch")}},)
    return {program}
"""

    found = verdict(box, of("any-batch", source, "ship"))

    assert (found.status, found.remarks) == ("passed", ()), found


# What an answer may return

RETURNED = {
    "the result is None; this exercise asks for a tensor.": "None",
    "the result is of type set; this exercise asks for a tensor.": "{1}",
    "the result has 3 values; this exercise asks for 2.": "(w, w, w)",
    "output 0 of the result has shape (1,)": "(w.new_zeros(1), w)",
}


@pytest.mark.parametrize(("said", "value"), RETURNED.items(), ids=RETURNED)
def test_what_a_routine_returns_is_compared_outside(box: Sandbox, said: str, value: str) -> None:
    source = f"def merge(out_a, lse_a, out_b, lse_b):\n    w = lse_a\n    return {value}\n"

    assert (
        said.removesuffix("this exercise asks for a tensor.")
        in verdict(box, of("merge-halves", source, "merge")).message
    )


NO_SUSPECTS = {
    "this is of type int; hand in a line and an experiment as text": "suspect = 3",
    "no answer yet": "suspect = ...",
}


@pytest.mark.parametrize(("said", "source"), NO_SUSPECTS.items(), ids=NO_SUSPECTS)
def test_a_suspect_that_is_no_text_is_told(box: Sandbox, said: str, source: str) -> None:
    assert said in verdict(box, of("name-temperature", source, "suspect")).message


def test_what_the_sandbox_lacks_is_no_fault_of_the_answer(box: Sandbox) -> None:
    source = (
        "from autograd_course.external import building\n"
        "def f(x, threshold):\n"
        "    raise RuntimeError(building.compiler_missing() or 'a compiler is there')\n"
    )

    found = verdict(box, of("soft-threshold-operator", source, "f"))

    assert ("a compiler is there" in found.message) == (found.status == "wrong"), found
    assert found.status in ("wrong", "grader failed")


# What only the child can report

REPLACED = {
    "torch.allclose": "torch.allclose = lambda *a, **k: True",
    "torch.autograd.grad": "torch.autograd.grad = lambda *a, **k: ()",
    "torch.Tensor.__eq__": "torch.Tensor.__eq__ = lambda a, b: True",
    "builtins.isinstance": "import builtins\nbuiltins.isinstance = lambda a, b: True",
    "autograd_classroom.worker.handlers.Handlers._answered": (
        "from autograd_classroom.worker.handlers import Handlers\n"
        "Handlers._answered = lambda *a: None"
    ),
    "the code of opened": (
        "from autograd_classroom.protocol import parcel\n"
        "parcel.opened.__code__ = (lambda data: lambda *a: None).__code__"
    ),
}


def test_a_built_in_in_place_of_a_backward_is_seen_whatever_is_replaced(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "skip", lambda cells, *_: (tuple(cells), []))
    source = "\n".join([*REPLACED.values(), BUILT_IN])

    found = verdict(box, of("square", source, "Square"))

    assert found.status == "wrong", found
    assert found.finding is not None
    assert found.finding.rule == "unneeded-function", found
    assert {f"replaces {name} while it runs" for name in REPLACED} <= set(found.remarks)


def test_a_right_answer_that_replaces_something_earns_no_points(box: Sandbox) -> None:
    source = square("torch.allclose = None\nctx.save_for_backward(x)\nreturn x * x")

    found = verdict(box, of("square", source, "Square"))

    assert found.status == "wrong", found
    assert "replaces torch.allclose, which is not part of the answer (line 6: `" in found.message
    assert found.remarks[-1] == "replaces torch.allclose while it runs"


def test_wrong_values_come_with_their_picture(box: Sandbox) -> None:
    source = square(backward="(x,) = ctx.saved_tensors\nreturn x * g")

    found = verdict(box, of("square", source, "Square")).finding

    assert found is not None
    pair = from_data(found.evidence[PICTURE])
    assert pair is not None
    assert (pair.whole, pair.off[0][0]) == ((15, 15), -pair.backward[0][0])
