"""The state of ``watch`` as immutable data. Each event creates a new state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograd_course.practice.reading import Reading, Task
from autograd_course.practice.running import Graded


@dataclass(frozen=True)
class View:
    """The answers in the file, the result of each answer, and what the screen shows.

    Each result is stored with the hash of the graded answer. ``pinned`` is the exercise on the
    screen. If ``pinned`` is empty, the screen shows the first exercise that has not passed.
    ``notice`` describes a problem with the file. ``first`` holds the hashes of the answers when
    ``watch`` started.
    """

    path: Path | None = None
    tasks: Mapping[str, Task] = field(default_factory=dict)
    results: Mapping[str, tuple[str, Graded]] = field(default_factory=dict)
    first: Mapping[str, str] = field(default_factory=dict)
    pinned: str = ""
    notice: str = ""
    hint: str = ""
    listed: bool = False

    @property
    def shown(self) -> str:
        """The exercise on the screen. If all exercises have passed, this is the last one."""
        if self.pinned in self.tasks:
            return self.pinned
        return next((each for each in self.tasks if not self.has_passed(each)), self._last)

    @property
    def _last(self) -> str:
        return next(reversed(list(self.tasks)), "")

    def result(self, exercise: str) -> Graded | None:
        """Return the latest result of an exercise, even if the answer has changed since then."""
        return self.results[exercise][1] if exercise in self.results else None

    def has_passed(self, exercise: str) -> bool:
        """Return whether the latest result of an exercise is ``passed``."""
        result = self.result(exercise)
        return result is not None and result.passed

    def is_current(self, exercise: str) -> bool:
        """Return whether the latest result belongs to the current answer."""
        known = self.results.get(exercise, ("", None))
        return known[0] == self.tasks[exercise].answer.hash

    @property
    def due(self) -> Task | None:
        """The next answer to grade. The exercise on the screen comes first, then edited answers."""
        if not self.tasks:
            return None
        edited = [e for e, task in self.tasks.items() if self.first.get(e) != task.answer.hash]
        seen = [e for e in self.tasks if e in self.results]
        waiting = (e for e in (self.shown, *edited, *seen) if not self.is_current(e))
        return next((self.tasks[e] for e in waiting), None)

    def read(self, found: Reading) -> View:
        """Return the view after the user saved the file."""
        tasks = {task.answer.exercise: task for task in found.tasks}
        first = self.first or {each: task.answer.hash for each, task in tasks.items()}
        notice = "; ".join(found.broken)
        return replace(self, path=found.path, tasks=tasks, first=first, notice=notice)

    def with_result(self, task: Task, result: Graded, pin: bool) -> View:
        """Return the view with a new result. With ``pin``, keep a failed exercise on the screen."""
        results = {**self.results, result.exercise: (task.answer.hash, result)}
        pinned = self.pinned or (self.shown if pin and not result.passed else "")
        return replace(self, results=results, pinned=pinned)

    def moved(self, step: int) -> View:
        """Return the view that shows the next or the previous exercise."""
        order = list(self.tasks)
        if not order:
            return self
        place = min(max(order.index(self.shown) + step, 0), len(order) - 1)
        return replace(self, pinned=order[place], hint="", listed=False)
