"""The knowledge check on the whole course. A seed selects its questions from a bank."""

from __future__ import annotations

import tomllib
from functools import cache
from hashlib import sha256

from autograd_course.quizzes.quiz import COURSE, Question, Quiz
from autograd_course.quizzes.reading import FOLDER, file_name, load, read

DRAWN = 15  # the number of questions that are drawn, in addition to the essays


@cache
def bank() -> Quiz:
    """Return all questions in the bank, including its own essay."""
    return read(_file(), COURSE)


@cache
def essays() -> tuple[Question, ...]:
    """Return the essays in every draw. An essay from a lesson is saved under that lesson."""
    return tuple(map(_named, tomllib.loads(_file())["essays"]))


@cache
def draw(seed: int | str = 0) -> Quiz:
    """Return the check for a seed, which is a number or a name. The essays follow the questions.

    Every lesson contributes one question before any lesson contributes a second one. The questions
    are in the order of the lessons.
    """
    drawn = sorted(_in_turns(str(seed))[:DRAWN], key=lambda question: question.lesson)
    argument = f", seed={seed!r}" if seed else ""
    call = f'knowledge_check("{COURSE}"{argument})'
    return Quiz(COURSE, bank().title, (*drawn, *essays()), call)


def _in_turns(seed: str) -> list[Question]:
    """Return the whole bank in shuffled rounds. Each round has at most one question per lesson."""

    def place(name: str) -> bytes:
        return sha256(f"{seed}/{name}".encode()).digest()

    shuffled = sorted(bank().choices, key=lambda question: place(question.id))
    turn = {q: sum(r.lesson == q.lesson for r in shuffled[:k]) for k, q in enumerate(shuffled)}
    return sorted(shuffled, key=lambda question: (turn[question], place(question.lesson)))


def _named(path: str) -> Question:
    home, _, question_id = path.partition("/")
    return (bank() if home == COURSE else load(home))[question_id]


def _file() -> str:
    return (FOLDER / file_name(COURSE)).read_text(encoding="utf-8")
