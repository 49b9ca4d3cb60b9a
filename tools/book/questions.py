"""Knowledge checks and votes on a page without a kernel: questions with collapsed answers."""

from __future__ import annotations

from autograd_course.quizzes import COURSE, Question, Quiz, Vote, draw, load
from autograd_course.visualize.vote.describe import PEOPLE_SAY, TITLE, verdict

READ_ON = "Vote before you read on"
_HINT = "*In the notebook this check is interactive, and your answers are kept.*"


def answered(number: str) -> str:
    """Return the knowledge check for a lesson, or for the whole course, as MyST Markdown."""
    quiz = draw() if number == COURSE else load(number)
    return "\n\n".join([f"**{quiz.heading}**", _HINT, *_questions(quiz)])


def voted(number: str, vote_id: str) -> str:
    """Return a vote in a lesson as MyST Markdown."""
    return asked(load(number).vote(vote_id), TITLE)


def asked(vote: Vote, title: str = READ_ON) -> str:
    """Return a vote as MyST Markdown."""
    belief = f"{PEOPLE_SAY} “{vote.belief}”"
    return "\n\n".join([f"**{title}**", belief, vote.text, _options(vote), _outcome(vote)])


def _outcome(vote: Vote) -> str:
    right = "".join(sorted(vote.right))
    answer = f"**{right}** {vote.lettered[right].text}"
    return _folded("Answer", f"{answer}\n\n{verdict(vote, '')} {vote.explanation}")


def _questions(quiz: Quiz) -> list[str]:
    return [_question(n, question) for n, question in enumerate(quiz.questions, 1)]


def _question(number: int, question: Question) -> str:
    several = " *(More than one is right.)*" if question.several else ""
    parts = [f"**{number}.** {question.text.strip()}{several}", _options(question)]
    return "\n\n".join([*filter(None, parts), _answer(question)])


def _options(question: Question) -> str:
    options = question.lettered.items()
    return "\n".join(f"- **{letter}** {option.text.strip()}" for letter, option in options)


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
