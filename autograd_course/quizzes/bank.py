"""The knowledge check on the whole course. A seed selects questions from a bank."""

from __future__ import annotations

import tomllib
from functools import cache
from hashlib import sha256
from itertools import groupby

from autograd_course.quizzes.quiz import COURSE, Question, Quiz
from autograd_course.quizzes.reading import FOLDER, file_name, load, read


@cache
def bank() -> Quiz:
    """Return all questions in the bank, including its own essay."""
    return read(_file(), COURSE)


@cache
def essays() -> tuple[Question, ...]:
    """Return the essays that every draw contains. A lesson's essay is saved under that lesson."""
    return tuple(map(_named, tomllib.loads(_file())["essays"]))


@cache
def draw(seed: int | str = 0) -> Quiz:
    """Return the check for a seed, which is a number or a name. The essays follow the questions.

    Each lesson contributes one question, in the order of the lessons.
    """

    def place(question: Question) -> bytes:
        return sha256(f"{seed}/{question.id}".encode()).digest()

    by_lesson = groupby(sorted(bank().choices, key=lambda q: q.lesson), key=lambda q: q.lesson)
    drawn = (min(questions, key=place) for _, questions in by_lesson)
    argument = f", seed={seed!r}" if seed else ""
    call = f'knowledge_check("{COURSE}"{argument})'
    return Quiz(COURSE, bank().title, (*drawn, *essays()), call)


def _named(path: str) -> Question:
    home, _, question_id = path.partition("/")
    return (bank() if home == COURSE else load(home))[question_id]


def _file() -> str:
    return (FOLDER / file_name(COURSE)).read_text(encoding="utf-8")
