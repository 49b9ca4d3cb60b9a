"""A lesson's questions, with an explanation for each option, and votes on common beliefs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from string import ascii_lowercase

from autograd_course.errors import CourseError

COURSE = "course"  # the "number" of the check on all lessons


class QuizError(CourseError, ValueError):
    """Raised if a knowledge check is incomplete or lacks the requested entry."""


@dataclass(frozen=True)
class Option:
    """One option of a question: its text, whether it is right, and an explanation."""

    text: str
    right: bool
    explanation: str


@dataclass(frozen=True)
class Question:
    """One question, which has either options in display order or, for an essay, a rubric.

    ``text`` is Markdown: paragraphs, fenced code, `code`, *emphasis*. ``rubric`` lists the points
    that a good essay mentions. Learners compare their essays with this list. ``lesson`` is the
    number of the question's lesson. ``home`` is the check under which the answer is saved, so
    learners answer a question only once, even if two checks contain it. ``section`` is the heading
    of the lesson section that teaches the answer. ``extra`` says whether this is an extra section.
    """

    id: str
    text: str
    options: tuple[Option, ...] = ()
    rubric: tuple[str, ...] = ()
    lesson: str = ""
    home: str = ""
    section: str = ""
    extra: bool = False

    @property
    def essay(self) -> bool:
        """Whether learners answer the question in their own words."""
        return bool(self.rubric)

    @property
    def several(self) -> bool:
        """Whether more than one option is right."""
        return sum(option.right for option in self.options) > 1

    @property
    def lettered(self) -> Mapping[str, Option]:
        """The options, by letter."""
        return dict(zip(ascii_lowercase, self.options, strict=False))

    @property
    def right(self) -> frozenset[str]:
        """The letters of the right options."""
        return frozenset(letter for letter, option in self.lettered.items() if option.right)

    def is_right(self, chosen: Collection[str]) -> bool:
        """Return whether the chosen options are exactly the right ones."""
        return frozenset(chosen) == self.right


@dataclass(frozen=True)
class Vote(Question):
    """A question about what the next cell shows. The learner votes once, before the cell runs.

    ``belief`` is a common belief as a sentence, and ``holds`` says whether it is true. Exactly one
    option is right. The options have no explanations of their own, because ``explanation`` covers
    all of them.
    """

    belief: str = ""
    holds: bool = False
    explanation: str = ""

    @property
    def call(self) -> str:
        """The Python call that shows this vote."""
        return f'vote("{self.home}", "{self.id}")'


@dataclass(frozen=True)
class Quiz:
    """A knowledge check. ``number`` is the lesson's number, such as ``"01"``, or ``"course"``.

    ``call`` is the Python call that shows the check. ``votes`` are part of the lesson, not of the
    check.
    """

    number: str
    title: str
    questions: tuple[Question, ...]
    call: str = ""
    votes: tuple[Vote, ...] = ()

    @property
    def heading(self) -> str:
        """The heading above the check."""
        number = "" if self.number == COURSE else f" {self.number}"
        return f"Knowledge check{number} · {self.title}"

    @property
    def choices(self) -> tuple[Question, ...]:
        """The questions that have options. Only these questions count toward the score."""
        return tuple(question for question in self.questions if not question.essay)

    def __getitem__(self, question_id: str) -> Question:
        for question in self.questions:
            if question.id == question_id:
                return question
        known = ", ".join(question.id for question in self.questions)
        whose = "the course" if self.number == COURSE else f"lesson {self.number}"
        raise QuizError(
            f"The knowledge check of {whose} has no question {question_id!r}; it has {known}."
        )

    def vote(self, vote_id: str) -> Vote:
        """Return a vote of the lesson. Raises :class:`QuizError` if the id is unknown."""
        for vote in self.votes:
            if vote.id == vote_id:
                return vote
        known = ", ".join(vote.id for vote in self.votes) or "none"
        raise QuizError(f"Lesson {self.number} has no vote {vote_id!r}; it has {known}.")
