"""Convert a TOML file to a checked :class:`Quiz`. Errors name the file and say how to fix it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from autograd_course.index import LESSONS, STAR
from autograd_course.quizzes.quiz import COURSE, Option, Question, Quiz, QuizError, Vote

FOLDER = Path(__file__).parent
QUIZZES: Mapping[str, Path] = {
    path.stem.removeprefix("lesson_"): path for path in sorted(FOLDER.glob("lesson_*.toml"))
}
# A lesson with exercises takes its title from the index.
_TITLES = {lesson.partition("_")[0]: title for lesson, title in LESSONS.items()}
_MOST_OPTIONS = 8
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@cache
def load(lesson: str) -> Quiz:
    """Return the knowledge check of a lesson, named ``"01"`` or ``"01_template"``, for example.

    Raises :class:`QuizError` if the lesson has no knowledge check.
    """
    number = str(lesson).partition("_")[0].zfill(2)
    if number not in QUIZZES:
        raise QuizError(
            f"There is no knowledge check for lesson {lesson!r}; there is one for "
            f"{', '.join(QUIZZES)}, as in knowledge_check({next(iter(QUIZZES))!r})."
        )
    return read(QUIZZES[number].read_text(encoding="utf-8"), number, _TITLES.get(number, ""))


def read(text: str, number: str, title: str = "") -> Quiz:
    """Read and check the text of a file that contains ``[[question]]`` and ``[[vote]]`` tables.

    If the index has no title for the check, the file contains a ``title``.

    A question has an ``id`` and a ``text``. A choice also has ``[[question.option]]`` tables with
    ``text``, ``right`` and ``explanation``. An essay instead has a ``rubric`` that lists the points
    of a good essay. A question may name the ``section`` of the lesson that teaches the answer. If
    this is an extra section, ``extra = true`` gives the question a star. In the course's bank, a
    question names its ``lesson`` instead, and the file lists the ``essays`` that every draw
    contains.

    A vote has ``id``, ``belief``, ``holds``, ``text`` and ``explanation``, and ``[[vote.option]]``
    tables with ``text`` and ``right``. The course's bank has no votes.
    """
    where = file_name(number)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise QuizError(f"{where} is not TOML: {error}.") from None
    known = {"question"} if title else {"question", "title"}
    _only(data, known | {"essays" if number == COURSE else "vote"}, where)
    questions = tuple(_question(entry, number, where) for entry in data.get("question", ()))
    if not questions:
        raise QuizError(f"{where} asks nothing; begin a question with [[question]].")
    votes = tuple(_vote(entry, number, where) for entry in data.get("vote", ()))
    ids = Counter(asked.id for asked in (*questions, *votes))
    if twice := [name for name, count in ids.items() if count > 1]:
        raise QuizError(f"{where} has two questions {twice[0]!r}; an id is given once.")
    call = f'knowledge_check("{number}")'
    return Quiz(number, title or _text(data, "title", where), questions, call, votes)


def file_name(number: str) -> str:
    """Return the name of the file that contains a check."""
    return f"{COURSE}.toml" if number == COURSE else f"lesson_{number}.toml"


def _question(data: Mapping[str, Any], number: str, where: str) -> Question:
    name, where = _named(data, "question", where)
    banked = number == COURSE
    of_its_kind = {"lesson"} if banked else {"section", "extra"}
    _only(data, {"id", "text", "option", "rubric"} | of_its_kind, where)
    lesson = _text(data, "lesson", where) if banked else number
    options = tuple(_option(entry, where) for entry in data.get("option", ()))
    rubric = tuple(data.get("rubric", ()))
    for problem in _problems(options, rubric):
        raise QuizError(f"{where} {problem}.")
    text = _text(data, "text", where)
    section = _text(data, "section", where) if "section" in data else ""
    extra = data.get("extra", False)
    if extra:
        text = f'{text}\n\n{STAR} Read the extra section "{section}" of lesson {lesson} first.'
    order = _shuffled(options, name, number)
    return Question(name, text, order, rubric, lesson, number, section, extra)


def _vote(data: Mapping[str, Any], number: str, where: str) -> Vote:
    name, where = _named(data, "vote", where)
    _only(data, {"id", "belief", "holds", "text", "option", "explanation"}, where)
    if not isinstance(data.get("holds"), bool):
        raise QuizError(f"{where} does not say if the belief is true; write holds = true or false.")
    options = tuple(_option(entry, where, explains=False) for entry in data.get("option", ()))
    for problem in _problems(options, None):
        raise QuizError(f"{where} {problem}.")
    if sum(option.right for option in options) > 1:
        raise QuizError(f"{where} has several right options; the learner can choose only one.")
    belief = _text(data, "belief", where)
    if "\n\n" in belief:
        raise QuizError(f"{where} has a belief of several paragraphs; write one sentence.")
    return Vote(
        name,
        _text(data, "text", where),
        _shuffled(options, name, number),
        lesson=number,
        home=number,
        belief=belief,
        holds=data["holds"],
        explanation=_text(data, "explanation", where),
    )


def _named(data: Mapping[str, Any], kind: str, where: str) -> tuple[str, str]:
    """Return the id of a question or a vote, and a description of where it is."""
    name = _text(data, "id", f"{where}, a {kind}")
    where = f"{where}, {kind} {name!r}"
    if not _ID.fullmatch(name):
        raise QuizError(f"{where}: an id is kebab-case, as in why-grad-output.")
    return name, where


def _problems(options: tuple[Option, ...], rubric: tuple[Any, ...] | None) -> Iterator[str]:
    """Yield a description of each problem in a question. For a vote, ``rubric`` is None."""
    if rubric:
        if options:
            yield "has options and a rubric; it is either a choice or an essay"
        if not all(isinstance(point, str) and point.strip() for point in rubric):
            yield "has an empty point in its rubric; each is a sentence"
        return
    if not 2 <= len(options) <= _MOST_OPTIONS:
        other = "" if rubric is None else ", or a rubric"
        yield f"has {len(options)} options; give it 2 to {_MOST_OPTIONS}{other}"
    if not any(option.right for option in options):
        yield "has no right option; set right = true where one is"
    if len({option.text for option in options}) < len(options):
        yield "has the same option twice"


def _option(data: Mapping[str, Any], where: str, explains: bool = True) -> Option:
    text = _text(data, "text", f"{where}, an option")
    where = f"{where}, option {text[:40]!r}"
    _only(data, {"text", "right"} | ({"explanation"} if explains else set()), where)
    if not isinstance(data.get("right"), bool):
        raise QuizError(f"{where} does not say whether it is right; write right = true or false.")
    return Option(text, data["right"], _text(data, "explanation", where) if explains else "")


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise QuizError(f"{where} has no {key}; write {key} = a text that is not empty.")
    return value.strip()


def _only(data: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(data) - known):
        raise QuizError(f"{where} has {unknown[0]!r}; known are {', '.join(sorted(known))}.")


def _shuffled(options: tuple[Option, ...], name: str, number: str) -> tuple[Option, ...]:
    """Shuffle the options. The order is the same on every machine."""

    def place(k: int) -> bytes:
        return sha256(f"{number}/{name}/{k}".encode()).digest()

    return tuple(options[k] for k in sorted(range(len(options)), key=place))
