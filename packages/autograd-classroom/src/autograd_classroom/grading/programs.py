"""The programs that a run has judged. Answers that are the same program share a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autograd_classroom.gradebook import Score
from autograd_classroom.grading.anonymous import Anonymous, anonymous
from autograd_classroom.grading.canonical import canonical
from autograd_course.extraction import Answer


@dataclass
class Programs:
    """The verdicts on programs, and the answers that wait for a verdict.

    An answer passes if it is the same program as an answer that has passed. If a verdict quotes the
    code, later answers with the same program share the verdict on their anonymous form.
    """

    _forms: dict[str, str | None] = field(default_factory=dict)  # canonical forms, by hash of code
    _passed: dict[str, Score] = field(default_factory=dict)  # by canonical form
    _quoted: set[str] = field(default_factory=set)  # canonical forms whose verdict quotes the code
    _judged: dict[str, Score] = field(default_factory=dict)  # by hash of an anonymous form
    _waiting: dict[str, list[tuple[Anonymous, str]]] = field(default_factory=dict)  # likewise

    def find(self, answer: Answer) -> Score | Answer | None:
        """Return the verdict on an answer, or the code that the run must judge to get the verdict.

        Return ``None`` if a worker already judges this code. :meth:`verdicts` then returns the
        verdict.
        """
        form = self._forms[answer.hash] = canonical(answer)
        if form in self._passed:
            return replace(self._passed[form], hash=answer.hash, seconds=0.0)
        shared = anonymous(answer) if form in self._quoted else None
        if shared is None:
            return answer
        code = shared.answer.hash
        if code in self._judged:
            return shared.named(replace(self._judged[code], seconds=0.0), answer.hash)
        waiting = self._waiting.setdefault(code, [])
        waiting.append((shared, answer.hash))
        return shared.answer if len(waiting) == 1 else None

    def verdicts(self, score: Score) -> Iterator[Score]:
        """Note the verdict on some code, and yield the verdict on each answer with this code."""
        if waiting := self._waiting.pop(score.hash, None):
            self._judged[score.hash] = score
            for shared, code in waiting:
                yield shared.named(score, code)
            return
        yield score
        if form := self._forms.pop(score.hash, None):
            if score.status == "passed" and not score.evidence and not score.remarks:
                self._passed.setdefault(form, score)
            elif score.status in ("passed", "not attempted") or score.rule:
                self._quoted.add(form)
