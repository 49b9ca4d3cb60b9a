"""``progress``: show the next exercise, the exercises passed per lesson, and topics to review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from autograd_doctor.card import as_html, as_text

from autograd_course.grader.review import review
from autograd_course.index import INDEX, LESSONS, Entry, exercises_of, known
from autograd_course.learner.overview import following, is_passed
from autograd_course.learner.state import Record, State
from autograd_course.learner.store import load, update
from autograd_course.quizzes import COURSE, QUIZZES, bank, draw
from autograd_course.quizzes import load as load_quiz

_CELL = "text-align: left; padding: 1px 16px 1px 0; background: none"
_BAR = (
    "display: inline-block; width: 6em; height: 0.7em; margin: 0 0.6em 0 0.2em; "
    "border: 1px solid #8a8f98; border-radius: 2px"
)
_DONE = "#2a9d57"  # the same color as the stripe that marks a passed exercise
_MARK = {"": "·", "not attempted": "·", "wrong": "✗", "passed": "✓"}


class Part(NamedTuple):
    """One line of the report and the rows below it. ``share`` is the filled fraction of the bar.

    Plain text shows the rows only for the ``current`` lesson.
    """

    title: str
    share: float | None
    told: str
    rows: tuple[tuple[str, str, str, str], ...]
    current: bool = False


@dataclass(frozen=True, repr=False)
class Progress:
    """The learner's progress: the next exercise, then the exercises passed in each lesson.

    The printed text lists the exercises in the lessons that the learner has started. A notebook
    shows HTML, and clicking a lesson lists its exercises.
    """

    state: State
    note: str = ""

    @property
    def passed(self) -> int:
        """The number of exercises that the learner has passed."""
        return sum(map(self._is_passed, INDEX.values()))

    @property
    def following(self) -> Entry | None:
        """The first exercise not yet passed, or ``None``. Optional exercises come last."""
        return following(self.state)

    @property
    def next_step(self) -> str:
        """A sentence that says what to do next, or that the learner has finished the course."""
        if self.following is None:
            return f"The course is complete: all {len(INDEX)} exercises are passed."
        exercise = self.following
        optional = "optional, " if exercise.optional else ""
        told = f"{optional}{exercise.difficulty}, {exercise.minutes} minutes"
        if exercise.needs:
            sections = " and ".join(f'"{section}"' for section in exercise.needs)
            told += f", needs {sections}"
        return f'Next: "{exercise.id}" in exercises/{exercise.lesson}.ipynb ({told})'

    def _is_passed(self, exercise: Entry) -> bool:
        return is_passed(self.state, exercise)

    def _lessons(self) -> Iterator[Part]:
        for lesson, title in LESSONS.items():
            exercises = exercises_of(lesson)
            if not exercises:
                continue
            passed = [e for e in exercises if self._is_passed(e)]
            points, possible = (sum(e.points for e in each) for each in (passed, exercises))
            told = f"{len(passed)} of {len(exercises)} passed · {points} of {possible} points"
            left = [e for e in exercises if not self._is_passed(e)]
            if left:
                told += f" · {sum(e.minutes for e in left)} minutes left"
            if optional := sum(e.minutes for e in left if e.optional):
                told += f", {optional} of them optional"
            begun = any(self.state[e.id].attempts for e in exercises)
            is_next = self.following is not None and self.following.lesson == lesson
            yield Part(
                f"{lesson[:2]} {title}",
                len(passed) / len(exercises),
                told,
                tuple(map(self._cells, exercises)),
                current=is_next or (begun and len(passed) < len(exercises)),
            )

    def __repr__(self) -> str:
        lines = []
        for part in self._lessons():
            lines.append(f"{part.title} · {part.told}")
            if part.current:
                lines += [f"  {'  '.join(cells)}".rstrip() for cells in part.rows]
        lines += ["Knowledge checks", *(f"  {'  '.join(cells)}" for cells in self._checks().rows)]
        if rows := list(review(self.state)):
            lines += ["To review", *_aligned(rows)]
        head = as_text(self.next_step, [("note", self.note)]).rstrip()
        return "\n".join([head, "", *lines])

    def _cells(self, exercise: Entry) -> tuple[str, str, str, str]:
        """Return an exercise's four cells: mark, id, title and state."""
        record = self.state[exercise.id]
        name = exercise.id.ljust(max(map(len, INDEX)))
        title = exercise.marked_title.ljust(max(len(e.marked_title) for e in INDEX.values()))
        return _MARK[record.status], name, title, _told(record)

    def _checks(self) -> Part:
        """Return a part with four cells for each knowledge check: mark, lesson, title, answers.

        For the course bank, the total is the number of questions in one draw, or the number of
        questions that the learner has answered if that number is larger. Votes do not affect the
        mark.
        """
        quizzes = [*map(load_quiz, QUIZZES), bank()]
        wide = max(len(quiz.title) for quiz in quizzes)
        longest = len(COURSE)
        rows, right, all_asked = [], 0, 0
        for quiz in quizzes:
            answers = [self.state.question(quiz.number, q.id) for q in quiz.choices]
            done = sum(answer.right for answer in answers)
            asked = len(answers)
            if quiz.number == COURSE:
                asked = max(len(draw().choices), sum(answer.attempts > 0 for answer in answers))
            mark = "✓" if done == asked else "·"
            told = f"{done} of {asked} right"
            votes = [self.state.question(quiz.number, vote.id) for vote in quiz.votes]
            if cast := [vote for vote in votes if vote.attempts]:
                told += f", votes: {sum(vote.right for vote in cast)} of {len(cast)} right"
            rows.append((mark, quiz.number.ljust(longest), quiz.title.ljust(wide), told))
            right, all_asked = right + done, all_asked + asked
        share, told = right / all_asked, f"{right} of {all_asked} right"
        return Part("Knowledge checks", share, told, tuple(rows))

    def _repr_html_(self) -> str:
        kind = "hint" if self.following else "passed"
        blocks = [as_html(self.next_step, [("note", self.note)], kind=kind)]
        blocks += map(_html_part, [*self._lessons(), self._checks()])
        if rows := tuple(review(self.state)):
            blocks.append(_html_part(Part("To review", None, str(len(rows)), rows)))
        return "".join(blocks)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the rows as lines of text. Pad each column except the last to a fixed width."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return [f"  {'  '.join([*map(str.ljust, row[:-1], wide), row[-1]])}" for row in rows]


def _html_part(part: Part) -> str:
    """Return HTML for a line with a title and a bar. Clicking the line shows the rows below it."""
    rows = "".join(map(_html_row, part.rows))
    bar = ""
    if part.share is not None:
        done = f"display: block; height: 100%; width: {part.share:.0%}; background: {_DONE}"
        bar = f'<span style="{_BAR}"><span style="{done}"></span></span>'
    return (
        f'<details style="margin-top: 4px"><summary style="cursor: pointer">'
        f'{bar}<span style="font-weight: 600">{escape(part.title)}</span> · {escape(part.told)}'
        "</summary>"
        f'<table style="margin: 2px 0 6px 1em; border-collapse: collapse">{rows}</table></details>'
    )


def _html_row(cells: tuple[str, ...]) -> str:
    mark, name, title, told = (escape(cell.strip()) for cell in cells)
    texts = (mark, f"<code>{name}</code>", title, told)
    columns = "".join(f'<td style="{_CELL}">{text}</td>' for text in texts)
    return f"<tr>{columns}</tr>"


def _told(record: Record) -> str:
    """Describe the number of attempts and hints, and add a note if a later answer was wrong."""
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
    """Show the exercises that you have passed, your points, and the sections to reread.

    Returns:
        The progress recorded in your progress file. A notebook displays it as HTML.

    Example:
        >>> from autograd_course import progress
        >>> type(progress()).__name__
        'Progress'
    """
    kept = load()
    return Progress(kept.state, kept.note)


def reset(exercise_id: str) -> Progress:
    """Delete the attempts, the result and the hints recorded for one exercise.

    Raises :class:`~autograd_course.index.UnknownExerciseError` for an unknown id.
    """
    exercise = known(exercise_id)
    kept = update(lambda state: state.without(exercise.id))
    return Progress(kept.state, kept.note)
