"""``progress``: what is passed, lesson by lesson, what to look at again, what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from autograd_doctor.card import as_html, as_text

from autograd_course.grader.review import review
from autograd_course.grader.state import Record, State
from autograd_course.grader.store import load, update
from autograd_course.index import INDEX, LESSONS, Entry, exercises_of, known
from autograd_course.quizzes import COURSE, DRAWN, QUIZZES, bank
from autograd_course.quizzes import load as load_quiz

_CELL = "text-align: left; padding: 1px 16px 1px 0; background: none"
_MARK = {"": "·", "not attempted": "·", "wrong": "✗", "passed": "✓"}


@dataclass(frozen=True, repr=False)
class Progress:
    """The learner's state, shown lesson by lesson: text when printed, a table in a notebook."""

    state: State
    note: str = ""

    @property
    def passed(self) -> int:
        """How many exercises of the course are passed."""
        return sum(map(self._is_passed, INDEX.values()))

    @property
    def following(self) -> Entry | None:
        """The first exercise that is not passed yet, ``None`` when all are."""
        return next((e for e in INDEX.values() if not self._is_passed(e)), None)

    @property
    def next_step(self) -> str:
        """One sentence: what to do next, or that the course is complete."""
        if self.following is None:
            return f"The course is complete: all {len(INDEX)} exercises are passed."
        return f'Next: "{self.following.id}" in exercises/{self.following.lesson}.ipynb'

    def _is_passed(self, exercise: Entry) -> bool:
        return self.state[exercise.id].status == "passed"

    def _lessons(self) -> Iterator[tuple[str, list[Entry]]]:
        for lesson, title in LESSONS.items():
            exercises = exercises_of(lesson)
            passed = [e for e in exercises if self._is_passed(e)]
            points, possible = (sum(e.points for e in each) for each in (passed, exercises))
            yield (
                f"{lesson[:2]} {title} · {len(passed)} of {len(exercises)} passed · "
                f"{points} of {possible} points",
                exercises,
            )

    def __repr__(self) -> str:
        lines = []
        for headline, exercises in self._lessons():
            lines.append(headline)
            lines += [f"  {'  '.join(self._cells(e))}".rstrip() for e in exercises]
        lines += ["Knowledge checks", *(f"  {'  '.join(cells)}" for cells in self._checks())]
        if rows := list(review(self.state)):
            lines += ["To review", *_aligned(rows)]
        return as_text("\n".join([*lines, self.next_step]), [("note", self.note)])

    def _cells(self, exercise: Entry) -> tuple[str, str, str, str]:
        """Return mark, id, title and state, in columns."""
        record = self.state[exercise.id]
        name = exercise.id.ljust(max(map(len, INDEX)))
        title = exercise.title.ljust(max(len(e.title) for e in INDEX.values()))
        return _MARK[record.status], name, title, _told(record)

    def _checks(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield a knowledge check's mark, lesson, title and how many are right, in columns.

        Of the course's bank, those count that were drawn and answered.
        """
        quizzes = [*map(load_quiz, QUIZZES), bank()]
        wide = max(len(quiz.title) for quiz in quizzes)
        longest = len(COURSE)
        for quiz in quizzes:
            answers = [self.state.question(quiz.number, q.id) for q in quiz.choices]
            done = sum(answer.right for answer in answers)
            asked = len(answers)
            if quiz.number == COURSE:
                asked = max(DRAWN, sum(answer.attempts > 0 for answer in answers))
            mark = "✓" if done == asked else "·"
            told = f"{done} of {asked} right"
            yield mark, quiz.number.ljust(longest), quiz.title.ljust(wide), told

    def _repr_html_(self) -> str:
        blocks = "".join(
            _html_block(headline, map(self._cells, exercises))
            for headline, exercises in self._lessons()
        )
        blocks += _html_block("Knowledge checks", self._checks())
        if rows := list(review(self.state)):
            blocks += _html_block("To review", rows)
        kind = "hint" if self.following else "passed"
        return blocks + as_html(self.next_step, [("note", self.note)], kind=kind)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows as lines, all columns but the last one padded."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [f"  {'  '.join([*map(str.ljust, row[:-1], wide), row[-1]])}" for row in rows]


def _html_block(headline: str, lines: Iterable[tuple[str, ...]]) -> str:
    rows = "".join(map(_html_row, lines))
    return (
        f'<div style="font-weight: 600; margin-top: 6px">{escape(headline)}</div>'
        f'<table style="margin: 2px 0; border-collapse: collapse">{rows}</table>'
    )


def _html_row(cells: tuple[str, ...]) -> str:
    mark, name, title, told = (escape(cell.strip()) for cell in cells)
    texts = (mark, f"<code>{name}</code>", title, told)
    columns = "".join(f'<td style="{_CELL}">{text}</td>' for text in texts)
    return f"<tr>{columns}</tr>"


def _told(record: Record) -> str:
    """Return the attempts, whether an answer after the one that passed was wrong, and the hints."""
    parts = []
    if record.attempts:
        parts.append(_plural(record.attempts, "attempt"))
    if record.status == "passed" and record.latest == "wrong":
        parts.append("latest answer wrong")
    if record.hints:
        parts.append(_plural(record.hints, "hint"))
    return ", ".join(parts)


def _plural(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def progress() -> Progress:
    """Show which exercises you have passed, your points, and what to reread.

    Returns:
        The progress in the learner's progress file, which a notebook shows.

    Example:
        >>> from autograd_course import progress
        >>> type(progress()).__name__
        'Progress'
    """
    kept = load()
    return Progress(kept.state, kept.note)


def reset(exercise_id: str) -> Progress:
    """Forget the attempts, the result and the hints of one exercise, to start it afresh.

    Raises :class:`~autograd_course.index.UnknownExerciseError` for an id that is none.
    """
    exercise = known(exercise_id)
    kept = update(lambda state: state.without(exercise.id))
    return Progress(kept.state, kept.note)
