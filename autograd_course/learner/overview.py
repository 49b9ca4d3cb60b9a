"""Write the page that ``make lab`` shows next to the first lesson."""

from __future__ import annotations

from collections.abc import Iterator

from autograd_course.index import INDEX, LAST_OF_THE_CORE_PATH, LESSONS, Entry, exercises_of
from autograd_course.learner.state import State
from autograd_course.quizzes import load as load_quiz


def following(state: State) -> Entry | None:
    """Return the first exercise that the learner has not passed. Optional exercises come last."""
    left = [exercise for exercise in INDEX.values() if not is_passed(state, exercise)]
    return next((e for e in left if not e.optional), left[0] if left else None)


def is_passed(state: State, exercise: Entry) -> bool:
    """Return whether the learner has passed an exercise."""
    return state[exercise.id].status == "passed"


def overview(state: State) -> str:
    """Return the page as Markdown. The links are relative to the course folder."""
    passed = sum(is_passed(state, exercise) for exercise in INDEX.values())
    lines = [
        "# Your course",
        "",
        f"You have passed {passed} of {len(INDEX)} exercises. {_next_step(state)}",
        "",
        "| | Lesson | Passed |",
        "| --- | --- | --- |",
        *_rows(state),
        "",
        "The numbers in the last column open the exercises. Reload the page in your browser to see "
        "what you have passed since you opened it, or call `progress()` in a notebook.",
        "",
        "To look things up, open the [cheat sheet](docs/cheat_sheet.html), or call `explain` with "
        "the text of an error.",
    ]
    return "\n".join(lines) + "\n"


def _next_step(state: State) -> str:
    exercise = following(state)
    if exercise is None:
        return "The course is complete."
    link = f"[{exercise.title}](exercises/{exercise.lesson}.ipynb)"
    return f"Next exercise: {link} ({exercise.difficulty}, {exercise.minutes} minutes)"


def _rows(state: State) -> Iterator[str]:
    yield "| | **Core path** | |"
    yield f"| 00 | [{load_quiz('00').title}](notebooks/00_start_here.ipynb) | |"
    electives = False
    for lesson, title in LESSONS.items():
        number = lesson.partition("_")[0]
        if number > LAST_OF_THE_CORE_PATH and not electives:
            electives = True
            yield "| | **Electives** | |"
        exercises = exercises_of(lesson)
        passed = sum(is_passed(state, exercise) for exercise in exercises)
        mark = "✓ " if passed == len(exercises) else ""
        told = f"[{mark}{passed} of {len(exercises)}](exercises/{lesson}.ipynb)"
        yield f"| {number} | [{title}](notebooks/{lesson}.ipynb) | {told} |"
