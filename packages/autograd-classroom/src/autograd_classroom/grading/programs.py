"""The programs that a run has judged. Answers that are the same program share a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autograd_classroom.gradebook import Score
from autograd_classroom.grading.anonymous import Anonymous, anonymous
from autograd_classroom.grading.canonical import canonical
from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.reading import read


@dataclass
class Programs:
    """The verdicts on programs, and the answers that wait for a verdict.

    An answer passes if it is the same program as an answer that has passed. If a verdict quotes the
    code, later answers with the same program share the verdict on their anonymous form. An answer
    shares a verdict only if its own source contains nothing to report.

    ``left`` are the answers that waited in vain, because the verdict on their anonymous form is not
    the one that the program has got before.
    """

    left: list[Answer] = field(default_factory=list)
    _forms: dict[str, str | None] = field(default_factory=dict)  # canonical forms, by hash of code
    _passed: dict[str, Score] = field(default_factory=dict)  # by canonical form
    _quoted: dict[str, tuple[str, str]] = field(default_factory=dict)  # status and rule, likewise
    _alone: set[str] = field(default_factory=set)  # those whose answers share no such verdict
    _judged: dict[str, Score] = field(default_factory=dict)  # by hash of an anonymous form
    _waiting: dict[str, list[tuple[Anonymous, Answer]]] = field(default_factory=dict)  # likewise

    def find(self, answer: Answer) -> Score | Answer | None:
        """Return the verdict on an answer, or the code that the run must judge to get the verdict.

        Return ``None`` if a worker already judges this code. :meth:`verdicts` then returns the
        verdict.
        """
        form = self._forms[answer.hash] = canonical(answer)
        known = form in self._passed or form in self._quoted.keys() - self._alone
        if form is None or not known or not _is_plain(answer):
            return answer
        if form in self._passed:
            return replace(self._passed[form], hash=answer.hash, seconds=0.0)
        if (shared := anonymous(answer)) is None:
            return answer
        code = shared.answer.hash
        if code in self._judged:
            return shared.named(replace(self._judged[code], seconds=0.0), answer.hash)
        waiting = self._waiting.setdefault(code, [])
        waiting.append((shared, answer))
        return shared.answer if len(waiting) == 1 else None

    def verdicts(self, score: Score) -> Iterator[Score]:
        """Note the verdict on some code, and yield the verdict on each answer with this code."""
        if waiting := self._waiting.pop(score.hash, None):
            program = self._forms[waiting[0][1].hash] or ""
            if (score.status, score.rule) != self._quoted.get(program):
                self._alone.add(program)
                self.left += [answer for _, answer in waiting]
                return
            self._judged[score.hash] = score
            for shared, answer in waiting:
                yield shared.named(score, answer.hash)
            return
        yield score
        form = self._forms[score.hash]
        if form is None:
            return
        if score.status == "passed" and not score.evidence and not score.remarks:
            self._passed.setdefault(form, score)
        elif score.status in ("passed", "not attempted") or score.rule:
            self._quoted.setdefault(form, (score.status, score.rule))


def _is_plain(answer: Answer) -> bool:
    """Return whether the source of an answer contains nothing to report."""
    reading = read(answer.cells, CATALOGUE[answer.exercise], answer.name)
    return not (reading.forbidden or reading.remarks or reading.unread or reading.skipped)
