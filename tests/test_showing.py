"""Errors and warnings as a lesson displays them."""

from __future__ import annotations

import warnings
import weakref

import pytest
import torch

from autograd_course.errors import CourseError
from autograd_course.lesson import show_error, show_warning


def shown(capsys: pytest.CaptureFixture[str], error: BaseException, characters: int = 300) -> str:
    with show_error(characters):
        raise error
    return capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("not a number"), "ValueError: not a number"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (CourseError("as it is"), "autograd_course.errors.CourseError: as it is"),
        (StopIteration(), "StopIteration"),
        (ValueError("one\n  two\n\nthree"), "ValueError: one\n  two\n\nthree"),
    ],
)
def test_an_error_is_shown_as_python_prints_it(
    capsys: pytest.CaptureFixture[str], error: Exception, words: str
) -> None:
    assert shown(capsys, error) == words


def test_an_error_of_pytorch_is_wrapped_and_says_that_it_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = torch.ones(2, requires_grad=True)
    h = 1 * x
    y = h.sin().sum()
    h += 1
    with show_error():
        y.backward()
    lines = capsys.readouterr().out.splitlines()

    assert len(lines) > 1
    assert lines[0].startswith("RuntimeError: one of the variables needed for gradient")
    assert max(map(len, lines)) <= 100
    assert " ".join(lines).endswith("expected version 0 instead. […]")


@pytest.mark.parametrize(
    ("message", "characters", "left"),
    [
        ("123456", 18, "ValueError: 123456"),
        ("one two three", 22, "ValueError: one two […]"),
        ("one two three", 19, "ValueError: one two […]"),
        ("One. Two three four", 24, "ValueError: One. […]"),
        (
            "One. Two three four five six seven eight",
            40,
            "ValueError: One. Two three four five six […]",
        ),
        ("version 1.5 is too old", 30, "ValueError: version 1.5 is too […]"),
        (40 * "x", 30, f"ValueError: {18 * 'x'} […]"),
    ],
)
def test_a_long_message_is_cut_behind_a_sentence_or_a_word(
    capsys: pytest.CaptureFixture[str], message: str, characters: int, left: str
) -> None:
    assert shown(capsys, ValueError(message), characters) == left


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("at 0x7f3a90c0", "at 0x…"),
        ("in /home/ada/course/a.py:3", "in …/a.py:3"),
        ("in '/tmp/ipykernel_17/8.py'", "in '…/8.py'"),
        (r"in C:\Users\ada\a.py", "in …/a.py"),
        ("x (Triggered internally at /pytorch/torch/csrc/a.cpp:12.)", "x"),
        ("x\nException raised from f at /a/b.cpp:1 (most recent call first):\nframe 0", "x"),
        ("see https://pytorch.org/docs/a/b.html", "see https://pytorch.org/docs/a/b.html"),
        ("1/2, and/or, torch/nn/a.py", "1/2, and/or, torch/nn/a.py"),
    ],
)
def test_what_differs_between_machines_is_left_out(
    capsys: pytest.CaptureFixture[str], message: str, left: str
) -> None:
    assert shown(capsys, ValueError(message)) == f"ValueError: {left}"
    with show_warning():
        warnings.warn(message, stacklevel=1)
    assert capsys.readouterr().out == f"UserWarning: {left}\n"


def test_a_block_without_an_error_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with show_error():
        print("done")

    assert capsys.readouterr().out == "done\nNo error was raised.\n"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_not_caught(stop: type[BaseException]) -> None:
    with pytest.raises(stop), show_error():
        raise stop


def test_an_error_keeps_nothing_of_its_block_alive() -> None:
    def block() -> None:
        tensor = torch.ones(2)
        alive.append(weakref.ref(tensor))
        raise ValueError

    alive: list[weakref.ref[torch.Tensor]] = []
    with show_error():
        block()

    assert alive[0]() is None


def test_every_warning_of_a_block_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with show_warning():
        warnings.warn("first", stacklevel=1)
        warnings.warn("second", DeprecationWarning, stacklevel=1)

    assert capsys.readouterr().out == "UserWarning: first\nDeprecationWarning: second\n"


def test_a_block_without_a_warning_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with show_warning():
        pass

    assert capsys.readouterr().out == "No warning was given.\n"


def test_an_error_in_a_block_of_warnings_is_raised() -> None:
    with pytest.raises(ValueError, match="x"), show_warning():
        raise ValueError("x")
