"""Write the text of a vote, for the page and for readers without a kernel."""

from collections.abc import Mapping
from textwrap import fill
from typing import Any

from autograd_doctor.card import WIDTH

from autograd_course.quizzes import Vote
from autograd_course.visualize.quiz.describe import as_line, indented
from autograd_course.visualize.quiz.markdown import blocks, safe_markdown

TITLE = "Vote before you run the next cell"
PEOPLE_SAY = "People say:"
WORDS: Mapping[str, str] = {
    "say": PEOPLE_SAY,
    "yours": "your vote",
    "show": "Show the answer",
    "hide": "Hide the answer",
    "isRight": "✓ right",
    "isWrong": "✗ not right",
    "silence": "The kernel has not answered, so your vote may not be saved. If the kernel was "
    "restarted, run this cell again.",
}


def page(vote: Vote) -> dict[str, Any]:
    """Return the page's content as JSON."""
    return {
        "title": TITLE,
        "belief": blocks(vote.belief),
        "text": blocks(vote.text),
        "options": [
            {"letter": letter, "right": option.right, "text": blocks(option.text)}
            for letter, option in vote.lettered.items()
        ],
        "verdicts": {letter: verdict(vote, letter) for letter in vote.lettered},
        "explanation": blocks(vote.explanation),
        "words": dict(WORDS),
    }


def saved(chosen: str, note: str) -> str:
    """Confirm the vote, and say what to do next. ``note`` is not empty if saving failed."""
    if not chosen:
        return ""
    return f"You voted for {chosen}{'' if note else ', and your vote is saved'}: run the next cell."


def verdict(vote: Vote, chosen: str) -> str:
    """Return whether a vote is right and whether the belief is true, as text."""
    judged = {True: "✓ Your vote is right. ", False: "✗ Your vote is not right. "}
    belief = f"The belief is {'true' if vote.holds else 'false'}."
    return (judged[vote.is_right(chosen)] if chosen else "") + belief


def answer(vote: Vote, chosen: str) -> str:
    """Return the answer as plain text: the verdict, the right option, and the explanation."""
    parts = [verdict(vote, chosen)]
    parts += [_option(letter, o.text) for letter, o in vote.lettered.items() if o.right]
    return "\n".join([*parts, *(indented(block, "") for block in blocks(vote.explanation))])


def plain(vote: Vote) -> str:
    """Return the question and its options as plain text."""
    belief = as_line(blocks(vote.belief)[0])
    lines = [TITLE, "", fill(f"{PEOPLE_SAY} “{belief}”", WIDTH)]
    lines += [indented(block, "") for block in blocks(vote.text)]
    lines += [_option(letter, option.text) for letter, option in vote.lettered.items()]
    return "\n".join([*lines, "", f"Without the widget: {_how(vote)}"])


def _option(letter: str, text: str) -> str:
    line = " ".join(map(as_line, blocks(text)))
    return fill(line, WIDTH, initial_indent=f"   {letter}) ", subsequent_indent="      ")


def markdown(vote: Vote) -> str:
    """Return the question as Markdown, which GitHub, JupyterLab and nbconvert show."""
    options = [f"- **{letter}** {safe_markdown(o.text)}" for letter, o in vote.lettered.items()]
    return "\n\n".join(
        [
            f"**{TITLE}**",
            f"{PEOPLE_SAY} “{safe_markdown(vote.belief)}”",
            safe_markdown(vote.text),
            "\n".join(options),
            f"*Without the widget:* `{_how(vote)}`",
        ]
    )


def _how(vote: Vote) -> str:
    return f'{vote.call}.answer("a")'
