"""A knowledge check on a page that no kernel stands behind: the questions, the answers folded."""

from __future__ import annotations

from autograd_course.quizzes import COURSE, Question, Quiz, draw, load

_HINT = "*In the notebook this check is interactive, and your answers are kept.*"


def answered(number: str) -> str:
    """Return the check of a lesson, or the one on the course, as MyST Markdown."""
    quiz = draw() if number == COURSE else load(number)
    return "\n\n".join([f"**{quiz.heading}**", _HINT, *_questions(quiz)])


def _questions(quiz: Quiz) -> list[str]:
    return [_question(n, question) for n, question in enumerate(quiz.questions, 1)]


def _question(number: int, question: Question) -> str:
    options = [f"- **{letter}** {o.text.strip()}" for letter, o in question.lettered.items()]
    several = " *(More than one is right.)*" if question.several else ""
    parts = [f"**{number}.** {question.text.strip()}{several}", "\n".join(options)]
    return "\n\n".join([*filter(None, parts), _answer(question)])


def _answer(question: Question) -> str:
    if question.essay:
        points = [f"- {point.strip()}" for point in question.rubric]
        return _folded("What a good answer mentions", "\n".join(points))
    reasons = [
        f"- **{letter}** {'✓' if option.right else '✗'} {option.explanation.strip()}"
        for letter, option in question.lettered.items()
    ]
    return _folded("Answer", "\n".join(reasons))


def _folded(title: str, text: str) -> str:
    return f":::{{dropdown}} {title}\n{text}\n:::"
