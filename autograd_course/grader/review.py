"""Find topics to review: rules that answers broke, and questions whose last answer was wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.sections import section_to_read
from autograd_course.index import INDEX
from autograd_course.learner.state import State
from autograd_course.quizzes import QUIZZES, Question, bank
from autograd_course.quizzes import load as load_quiz

MOST = 5  # at most this many rules are shown
STATEMENT = "the statement of the exercise"  # what to reread if forward is wrong


@dataclass(frozen=True)
class Missed:
    """A rule that answers broke, with how often and in which exercises not yet passed."""

    rule: str
    times: int
    exercises: tuple[str, ...]

    @property
    def read(self) -> str:
        """The sections to reread about this rule, or else the statements of the exercises."""
        sections = [section_to_read(CATALOGUE[name], self.rule) for name in self.exercises]
        return "; ".join(dict.fromkeys(section or STATEMENT for section in sections))

    @property
    def told(self) -> str:
        """A summary of how often answers broke the rule, in which exercises, and what to read."""
        times = "once" if self.times == 1 else f"{self.times} times"
        return f'missed {times} in {", ".join(self.exercises)}; explain("{self.rule}")'


def missed_rules(state: State) -> list[Missed]:
    """Return the rules broken most often in exercises not yet passed, at most :data:`MOST`."""
    tried = {name: state[name] for name in INDEX if state[name].status != "passed"}
    rules = dict.fromkeys(rule for record in tried.values() for rule in record.rules)
    every = []
    for rule in rules:
        times = {name: record.rules[rule] for name, record in tried.items() if rule in record.rules}
        every.append(Missed(rule, sum(times.values()), tuple(times)))
    return sorted(every, key=lambda missed: -missed.times)[:MOST]


def open_questions(state: State) -> dict[str, list[Question]]:
    """Return the questions whose last answer was wrong, grouped by lesson number."""
    found: dict[str, list[Question]] = {}
    for quiz in (*map(load_quiz, QUIZZES), bank()):
        for question in quiz.choices:
            answer = state.question(question.home, question.id)
            if answer.attempts and not answer.latest:
                found.setdefault(question.lesson, []).append(question)
    return dict(sorted(found.items()))


def review(state: State) -> Iterator[tuple[str, str, str, str]]:
    """Yield the topics to review, each with a mark, a name, a place to read, and details."""
    for missed in missed_rules(state):
        yield "✗", missed.rule, missed.read, missed.told
    for lesson, questions in open_questions(state).items():
        for home in dict.fromkeys(question.home for question in questions):
            names = ", ".join(q.id for q in questions if q.home == home)
            yield "✗", f"lesson {lesson}", f'knowledge_check("{home}")', f"not yet right: {names}"
