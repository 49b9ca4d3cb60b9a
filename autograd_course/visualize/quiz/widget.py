"""The live knowledge check: answer questions, read explanations, and save the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import traitlets

from autograd_course.learner.state import State
from autograd_course.learner.store import Kept, load, update
from autograd_course.quizzes import COURSE, Question, Quiz, QuizError, draw
from autograd_course.quizzes import load as load_quiz
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Saved
from autograd_course.visualize.quiz.describe import Outcome, markdown, page, plain, summary

Answer = dict[str, str]  # "chosen" contains letters, and "text" contains an essay
_LONGEST = 20_000  # the maximum number of characters saved from an essay


class KnowledgeCheck(Saved):
    """The questions of a lesson or of the course. :func:`knowledge_check` creates this widget.

    ``answers`` contains the chosen letters or the written text for each question. To answer a
    question, set ``answers``. ``drafts`` contains the texts that the page shows in essay questions,
    including texts that the learner has not compared yet. A saved notebook contains the questions
    as Markdown and as plain text. Readers can search this text, and GitHub, nbconvert and
    JupyterLab show it even if the notebook is not trusted.
    """

    _esm = BUNDLES / "quiz.js"
    _css = BUNDLES / "quiz.css"

    quiz: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)
    answers: traitlets.Dict[str, Answer] = traitlets.Dict().tag(**FROM_PAGE)
    drafts: traitlets.Dict[str, str] = traitlets.Dict().tag(**FROM_PAGE)
    kept: traitlets.Dict[str, Any] = traitlets.Dict().tag(sync=True)

    def __init__(self, quiz: Quiz) -> None:
        self._quiz = quiz
        remembered = load()
        super().__init__(
            quiz=page(quiz),
            answers=_remembered(quiz, remembered.state),
            kept=self._progress(remembered),
        )
        self.observe(self._keep, "answers")

    @property
    def score(self) -> str:
        """The number of questions answered correctly, as text."""
        return str(self.kept["summary"])

    def answer(self, question_id: str, *given: str) -> Outcome:
        """Answer a question from code, and return the verdict with its explanation.

        ``given`` contains option letters, such as ``"b"`` or ``"b", "d"``, or the text of an essay.
        Raises :class:`TraceError` if the question or the option does not exist.
        """
        question = self._question(question_id)
        answer = _essay(question, given) if question.essay else _choice(question, given)
        self.answers = {**self.answers, question.id: answer}
        tries = load().state.question(question.home, question.id).attempts
        return Outcome(question, answer["chosen"], _is_right(question, answer), tries)

    def _question(self, question_id: str) -> Question:
        try:
            return self._quiz[question_id]
        except QuizError as error:
            raise TraceError(str(error)) from None

    @traitlets.validate("answers")
    def _known_ones(self, proposal: Any) -> dict[str, Answer]:
        """Drop answers to questions that this check lacks, because the page may be outdated."""
        given, known = proposal["value"], {q.id: q for q in self._quiz.questions}
        return {
            name: {"chosen": str(answer["chosen"]), "text": str(answer["text"])[:_LONGEST]}
            for name, answer in given.items()
            if name in known
            and isinstance(answer, Mapping)
            and {"chosen", "text"} <= set(answer)
            and set(str(answer["chosen"])) <= set(known[name].lettered)
        }

    def _keep(self, change: Any) -> None:
        before, now = change["old"], change["new"]
        news = {name: answer for name, answer in now.items() if before.get(name) != answer}

        def answered(state: State) -> State:
            for name, answer in news.items():
                question = self._quiz[name]
                right = _is_right(question, answer)
                state = state.answered(question.home, name, right=right, **answer)
            return state

        self.kept = self._progress(update(answered) if news else load())

    def _progress(self, kept: Kept) -> dict[str, Any]:
        questions = self._quiz.questions
        return {
            "replies": self.kept.get("replies", -1) + 1 if self.trait_has_value("kept") else 0,
            "summary": summary(self._quiz, kept.state),
            "note": kept.note,
            "right": [q.id for q in questions if kept.state.question(q.home, q.id).right],
        }

    def __repr__(self) -> str:
        return plain(self._quiz)

    def left(self) -> dict[str, str]:
        """Return the questions as Markdown and as plain text."""
        return {"text/markdown": markdown(self._quiz), "text/plain": repr(self)}


def knowledge_check(lesson: str, seed: int | str = 0) -> KnowledgeCheck:
    """Show the knowledge check of a lesson, with your earlier answers.

    The answers are saved in your progress file, and ``progress()`` counts them. If the widget does
    not work, call ``knowledge_check("01").answer("vjp", "b")``. After your first wrong answer, you
    see the explanations of the options that you chose. After your second wrong answer, you see all
    explanations.

    Args:
        lesson: The number of a lesson, such as ``"01"``, or ``"course"`` for one question from each
            lesson and three essays.
        seed: For ``"course"``, a number or your name, which selects the questions from a bank.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: The lesson has no knowledge check.

    Example:
        >>> from autograd_course.visualize import knowledge_check
        >>> type(knowledge_check("01")).__name__
        'KnowledgeCheck'
    """
    if not isinstance(lesson, str | int) or not isinstance(seed, str | int):
        raise TraceError(
            'knowledge_check takes a lesson such as "01", or "course" and a seed: '
            'a number or a name, as in knowledge_check("course", seed=1).'
        )
    try:
        return KnowledgeCheck(draw(seed) if lesson == COURSE else load_quiz(lesson))
    except QuizError as error:
        raise TraceError(str(error)) from None


def _remembered(quiz: Quiz, state: State) -> dict[str, Answer]:
    found = {question.id: state.question(question.home, question.id) for question in quiz.questions}
    return {
        name: {"chosen": answered.chosen, "text": answered.text}
        for name, answered in found.items()
        if answered.attempts
    }


def _choice(question: Question, given: tuple[str, ...]) -> Answer:
    typed = {character for text in given for character in text.lower() if character.isalnum()}
    if not typed or not typed <= set(question.lettered):
        raise TraceError(
            f"Question {question.id!r} has the options {', '.join(question.lettered)}; "
            f'answer with their letters, as in .answer("{question.id}", "a").'
        )
    return {"chosen": "".join(sorted(typed)), "text": ""}


def _essay(question: Question, given: tuple[str, ...]) -> Answer:
    text = "\n\n".join(given).strip()
    if not text:
        raise TraceError(
            f"Question {question.id!r} needs an answer in your own words: "
            f'.answer("{question.id}", "…").'
        )
    return {"chosen": "", "text": text}


def _is_right(question: Question, answer: Answer) -> bool:
    return bool(answer["text"].strip()) if question.essay else question.is_right(answer["chosen"])
