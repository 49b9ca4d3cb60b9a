"""Write the text of a knowledge check, for the page and for readers without a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill, indent
from typing import Any

from autograd_doctor.card import WIDTH, as_text

from autograd_course.learner.state import State
from autograd_course.quizzes import Question, Quiz
from autograd_course.visualize.quiz.markdown import blocks, escape, safe_markdown

TRIES = 2  # the number of wrong answers after which all options are explained

WORDS: Mapping[str, Any] = {
    "tries": TRIES,
    "one": "Choose one.",
    "several": "Choose all that are right.",
    "essay": "Answer in your own words, then compare.",
    "right": "✓ Right.",
    "wrong": "✗ Not right.",
    "again": "Try again.",
    "part": "✗ What you chose is right, but at least one answer is missing.",
    "nothing": "Choose an answer first.",
    "empty": "Write a few sentences first.",
    "written": "Compare your answer: a good one makes these points.",
    "isRight": "✓ right",
    "isWrong": "✗ not right",
    "silence": "The kernel has not answered, so this answer may not be saved. If the kernel was "
    "restarted, run the cell again.",
}


def page(quiz: Quiz) -> dict[str, Any]:
    """Return the page's content as JSON."""
    return {
        "title": quiz.heading,
        "questions": [_question(question) for question in quiz.questions],
        "words": dict(WORDS),
    }


def _question(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": _kind(question),
        "text": blocks(question.text),
        "right": "".join(sorted(question.right)),
        "rubric": [blocks(point) for point in question.rubric],
        "options": [
            {
                "letter": letter,
                "right": option.right,
                "text": blocks(option.text),
                "explanation": blocks(option.explanation),
            }
            for letter, option in question.lettered.items()
        ],
    }


def _kind(question: Question) -> str:
    return "essay" if question.essay else "several" if question.several else "one"


def summary(quiz: Quiz, state: State) -> str:
    """Say how many questions have been answered correctly."""
    done = sum(state.question(q.home, q.id).right for q in quiz.choices)
    essays = [question for question in quiz.questions if question.essay]
    written = sum(state.question(q.home, q.id).right for q in essays)
    said = f"{done} of {len(quiz.choices)} right"
    if len(essays) > 1:
        return f"{said}, {written} of {len(essays)} essays written"
    if not essays:
        return said
    return f"{said}, essay {'written' if written else 'not written'}"


@dataclass(frozen=True, repr=False)
class Outcome:
    """The result of an answer: whether it is ``right``, and the explanations as text.

    ``tries`` counts the answers so far. After a correct answer or a second answer, every option is
    explained. Before that, only the chosen options are explained.
    """

    question: Question
    chosen: str
    right: bool
    tries: int

    @property
    def verdict(self) -> str:
        """The first sentence of the explanation."""
        if self.question.essay:
            return str(WORDS["written"])
        if self.right:
            return str(WORDS["right"])
        wrong = WORDS["part"] if set(self.chosen) <= self.question.right else WORDS["wrong"]
        return str(wrong) if self._explains_all else f"{wrong} {WORDS['again']}"

    @property
    def _explains_all(self) -> bool:
        return self.right or self.tries >= TRIES

    def __repr__(self) -> str:
        if self.question.essay:
            return as_text(self.verdict, [("–", point) for point in self.question.rubric])
        explained = self.question.lettered if self._explains_all else self.chosen
        rows = [
            (f"{'✓' if option.right else '✗'} {letter}", " ".join(option.explanation.split()))
            for letter, option in self.question.lettered.items()
            if letter in explained
        ]
        return as_text(f"{self.question.id}: {self.verdict}", rows)


def plain(quiz: Quiz) -> str:
    """Return the questions and their options as plain text."""
    lines = [quiz.heading]
    for number, question in enumerate(quiz.questions, 1):
        lines += ["", f"{number}. {question.id} – {WORDS[_kind(question)]}"]
        lines += [indented(block, "   ") for block in blocks(question.text)]
        for letter, option in question.lettered.items():
            text = " ".join(" ".join(map(as_line, blocks(option.text))).split())
            lines.append(
                fill(text, WIDTH, initial_indent=f"   {letter}) ", subsequent_indent="      ")
            )
    return "\n".join([*lines, "", _how(quiz)])


def markdown(quiz: Quiz) -> str:
    """Return the questions as Markdown, which GitHub, JupyterLab and nbconvert show."""
    parts = [f"**{escape(quiz.heading)}**"]
    for number, question in enumerate(quiz.questions, 1):
        parts.append(f"**{number}.** `{question.id}` – *{WORDS[_kind(question)]}*")
        parts.append(safe_markdown(question.text))
        options = [
            f"- **{letter}** {safe_markdown(o.text)}" for letter, o in question.lettered.items()
        ]
        parts += ["\n".join(options)] if options else []
    call, _, rest = _how(quiz).partition(": ")
    return "\n\n".join([*parts, f"*{call}:* `{rest}`"])


def _how(quiz: Quiz) -> str:
    first = quiz.choices[0].id
    return f'Without the widget: {quiz.call}.answer("{first}", "a")'


def indented(block: Mapping[str, Any], margin: str) -> str:
    """Return a block of a question's text as indented lines of plain text."""
    if "code" in block:
        return indent(block["code"], margin + "    ")
    return fill(as_line(block), WIDTH, initial_indent=margin, subsequent_indent=margin)


def as_line(block: Mapping[str, Any]) -> str:
    """Return a block of a question's text as plain text that keeps the Markdown markup."""
    if "code" in block:
        return str(block["code"])
    marks = {"": "", "code": "`", "em": "*"}
    return "".join(f"{marks[kind]}{text}{marks[kind]}" for kind, text in block["spans"])
