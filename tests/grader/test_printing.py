"""The output that an answer or an examined Function prints is shown once, in order."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stdout
from pdb import Pdb
from typing import Any

import pytest
import torch
from answers import RIGHT
from answers.making import spoiled
from autograd_doctor import CannotDiagnoseError, diagnose
from autograd_doctor._execution.isolation import MOST, Bounded, show_output_once
from torch.autograd import Function

from autograd_course.grader import grade
from autograd_course.grader.result import PRINTED

Square = RIGHT["square"]


def chatty(factor: float) -> type[Function]:
    """Return a square that prints in both methods and whose gradient is wrong by a factor."""

    def forward(ctx: Any, x: Any) -> Any:
        print("x:", tuple(x.shape), x.dtype)
        return Square.forward(ctx, x)

    def backward(ctx: Any, grad_output: Any) -> Any:
        print("g:", tuple(grad_output.shape))
        return factor * Square.backward(ctx, grad_output)

    return spoiled(Square, forward=forward, backward=backward)


# grade


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_grade_shows_one_forward_and_one_backward_pass(
    factor: float, capsys: pytest.CaptureFixture[str]
) -> None:
    result = grade("square", chatty(factor))

    assert result.printed == "x: (3, 5) torch.float64\ng: (3, 5)\n"
    assert str(result).endswith(f"{PRINTED}\n    x: (3, 5) torch.float64\n    g: (3, 5)")
    assert "<pre" in result._repr_html_()
    assert capsys.readouterr().out == ""


def test_grade_shows_what_was_printed_for_the_input_that_failed() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        print("axes:", x.dim())
        return Square.forward(ctx, x) + (x.dim() == 3)

    result = grade("square", spoiled(Square, forward=forward))

    assert result.sample == "three dims, one of size 1"
    assert result.printed == "axes: 3\n"


def test_grade_shows_what_was_printed_before_code_raised_or_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raising(ctx: Any, x: Any) -> Any:
        print("<before>")
        raise ValueError

    def endless(ctx: Any, x: Any) -> Any:
        print("round")
        while True:
            pass

    result = grade("square", spoiled(Square, forward=raising))
    assert result.printed == "<before>\n"
    assert "&lt;before&gt;" in result._repr_html_()
    monkeypatch.setenv("AUTOGRAD_COURSE_TIME_LIMIT", "0.3")
    assert grade("square", spoiled(Square, forward=endless)).printed == "round\n"


def test_grade_shows_what_a_routine_printed() -> None:
    def eight_bits(weight: Any) -> Any:
        print("weight:", tuple(weight.shape))
        return RIGHT["eight-bits"](weight)

    assert grade("eight-bits", eight_bits).printed.count("weight:") == 1


def test_much_output_is_cut_and_counted() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        print("x" * 3 * MOST)
        return Square.forward(ctx, x)

    printed = grade("square", spoiled(Square, forward=forward)).printed

    assert printed == "x" * MOST + "\n… (4,001 more characters)\n"


# diagnose


def test_diagnose_shows_one_pass_on_the_callers_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    diagnose(chatty(1.5), torch.ones(2))

    assert capsys.readouterr().out == "x: (2,) torch.float32\ng: (2,)\n"


def test_diagnose_shows_it_also_where_it_cannot_judge(capsys: pytest.CaptureFixture[str]) -> None:
    def undefined(x: Any) -> Any:
        print("called")
        return x * float("nan")

    with pytest.raises(CannotDiagnoseError, match="returned nan"):
        diagnose(undefined, torch.ones(2))
    assert capsys.readouterr().out == "called\n"


def test_code_that_prints_nothing_runs_no_further_time() -> None:
    calls = []
    with show_output_once(lambda: calls.append(1)):
        pass
    assert calls == []


def test_what_other_threads_print_is_not_held_back() -> None:
    said, out = threading.Event(), io.StringIO()

    def other() -> None:
        said.wait(10)
        print("from elsewhere")

    with redirect_stdout(out):
        thread = threading.Thread(target=other)
        thread.start()
        with show_output_once(lambda: print("once")):
            print("many times")
            said.set()
            thread.join()

    assert out.getvalue() == "from elsewhere\nonce\n"


def test_a_debuggers_prompt_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("p 6 * 7\nq\n"))
    with redirect_stdout(out), show_output_once(lambda: None):
        print("many times")
        Pdb(nosigint=True).run("0")

    assert "42" in out.getvalue()
    assert "many times" not in out.getvalue()


def test_a_bounded_stream_says_what_it_left_out() -> None:
    stream = Bounded(3)
    print("abcdef", end="", file=stream)

    assert stream.text == "abc\n… (3 more characters)\n"
