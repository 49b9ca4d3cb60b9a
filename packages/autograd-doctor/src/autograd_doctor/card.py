"""Render a headline and sections of labeled rows as plain text, colored text or HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Self

from autograd_doctor.finding import Finding
from autograd_doctor.formatting import distinguish, element, number, sentence

if TYPE_CHECKING:
    from rich.text import Text

    from autograd_doctor.repair import Repair

WIDTH = 88
LABEL = 9
# Stripe colors with a contrast of at least 3:1 on both of JupyterLab's backgrounds.
_STRIPE = {
    "passed": "#2a9d57",
    "wrong": "#d9534f",
    "not attempted": "#8a8f98",
    "grader failed": "#c77d0a",
    "not examined": "#c77d0a",
    "hint": "#3b82c4",
}
# In a terminal, use the colors of the user's own palette, because they are readable.
_INK = {
    "passed": "green",
    "wrong": "red",
    "not attempted": "blue",
    "grader failed": "yellow",
    "not examined": "yellow",
    "warning": "yellow",
    "info": "cyan",
}
_CODE = ("example", "at", "call")
BEFORE, AFTER = "before", "after"  # the labels of the lines that a repair changes
_LOOK = {
    BEFORE: "background: #d9534f40; text-decoration: line-through",
    AFTER: "background: #2a9d5740; font-weight: 600",
}
_NAMES = {"with": "input", "at": "line"}  # other names for labels that appear outside of their rows
_COLUMN = "max-width: 52em"  # the width of text that is easy to read; a figure may be wider
_TEXT = "var(--jp-content-font-color1, var(--vscode-editor-foreground, inherit))"
_FAINT = "var(--jp-content-font-color2, var(--vscode-descriptionForeground, inherit))"

Rows = Iterable[tuple[str, str]]
Spans = tuple[tuple[int, int], ...]


class Link(str):
    """A piece of text with an optional ``address``. With an address, the HTML shows a link."""

    __slots__ = ("address",)
    address: str

    def __new__(cls, text: str, address: str = "") -> Self:
        """Return the text with its address."""
        link = super().__new__(cls, text)
        link.address = address
        return link


class Heading(Link):
    """A label, such as a rule's name, that precedes the row's text on the same line."""

    __slots__ = ()


class Comparison(str):
    """A sentence about two numbers that differ at a ``place``.

    In HTML, the numbers appear side by side.

    ``numbers`` holds the numbers with their labels.
    """

    __slots__ = ("numbers", "place")
    place: str
    numbers: tuple[tuple[str, str], ...]

    def __new__(cls, text: str, place: str = "", numbers: tuple[tuple[str, str], ...] = ()) -> Self:
        """Return the sentence with its place and its numbers."""
        comparison = super().__new__(cls, text)
        comparison.place, comparison.numbers = place, numbers
        return comparison


class Code(str):
    """Lines of source code, which are never wrapped.

    ``marks`` holds the spans that a change affects.
    """

    __slots__ = ("marks",)
    marks: Spans

    def __new__(cls, text: str, marks: Spans = ()) -> Self:
        """Return the text with its marks."""
        code = super().__new__(cls, text)
        code.marks = marks
        return code


def as_text(headline: str, *sections: Rows) -> str:
    """Return the headline, followed by all rows that have text. The labels are on the left."""
    blocks = [[_text_row(label, text) for label, text in rows if text] for rows in sections]
    return headline + "\n" + "\n\n".join("\n".join(block) for block in blocks if block)


def _text_row(label: str, text: str, width: int = WIDTH) -> str:
    if isinstance(label, Heading):
        text, label = f"{label}: {text}", ""
    indent = " " * (2 + LABEL if label else 2)
    if isinstance(text, Code):
        return f"  {label:<{LABEL}}" + f"\n{indent}".join(text.split("\n"))
    lines = wrap(
        text,
        width,
        subsequent_indent=indent,
        initial_indent=indent,
        break_on_hyphens=False,
        break_long_words=label != "declare",  # the user may copy it
    )
    return "\n".join([f"  {label:<{LABEL}}{lines[0].strip()}" if label else lines[0], *lines[1:]])


def as_rich(headline: str, *sections: Rows, kind: str, width: int) -> Text:
    """Return the same text in color, for a terminal that may be narrower than the text."""
    from rich.text import Text

    width = max(2 * LABEL, min(width, WIDTH))
    blocks = [[_rich_row(*row, kind, width) for row in rows if row[1]] for rows in sections]
    body = Text("\n\n").join(Text("\n").join(block) for block in blocks if block)
    return Text("\n").join([Text(headline, f"bold {_INK[kind]}"), body])


def _rich_row(label: str, text: str, kind: str, width: int) -> Text:
    from rich.text import Text

    row = Text(_text_row(label, text, width))
    style = "dim"
    if isinstance(label, Heading):  # the heading names the severity, unless it is an error
        style = f"bold {_INK.get(label.partition(',')[0], _INK[kind])}"
    elif label in _CODE or isinstance(text, Code):
        row.stylize("cyan", 2 + LABEL)
    row.stylize(style, 2, 2 + len(label))
    return row


def as_html(headline: str, *sections: Rows, kind: str, figure: str = "", folded: Rows = ()) -> str:
    """Return the card as an HTML block with a colored stripe. All text is escaped.

    ``figure`` is HTML that appears after the first section. The rows in ``folded`` come last. They
    are collapsed until the user clicks their labels.
    """
    blocks = [_html_rows(rows) for rows in sections]
    blocks[:1] = [block + figure for block in blocks[:1]]
    body = "".join(f'<div style="margin-bottom: 6px">{block}</div>' for block in blocks if block)
    return (
        f'<div style="border-left: 4px solid {_STRIPE[kind]}; padding: 2px 0 2px 12px; '
        f'color: {_TEXT}; line-height: 1.5">'
        f'<div style="font-weight: 600">{escape(headline)}</div>{body}{_html_details(folded)}</div>'
    )


def _html_details(rows: Rows) -> str:
    """Return HTML that hides the rows below a line with their labels.

    A click on this line shows the rows.
    """
    shown = [(label, text) for label, text in rows if text]
    if not shown:
        return ""
    labels = ", ".join(dict.fromkeys(_NAMES.get(label, label) for label, _ in shown))
    look = f"cursor: pointer; color: {_FAINT}"
    return (
        f'<details style="margin-bottom: 6px"><summary style="{look}">more: {escape(labels)}'
        f"</summary>{_html_rows(shown)}</details>"
    )


def _html_rows(rows: Rows) -> str:
    return "".join(_html_row(label, text) for label, text in rows if text)


def _html_row(label: str, text: str) -> str:
    if isinstance(label, Heading):
        name = linked(f'<code style="color: inherit">{escape(label)}</code>', label.address)
        return f'<div style="{_COLUMN}">{name} – {_marked(text)}</div>'
    if not label:
        return f'<div style="{_COLUMN}">{_marked(text)}</div>'
    style = f"flex: 0 0 5em; margin-right: 0.8em; color: {_FAINT}"
    return (
        f'<div style="display: flex; {_COLUMN}"><span style="{style}">{escape(label)}</span>'
        f"{_value(label, text)}</div>"
    )


def _value(label: str, text: str) -> str:
    if isinstance(text, Code):
        return f'<code style="white-space: pre-wrap">{_changed(text, _LOOK[label])}</code>'
    if isinstance(text, Comparison):
        return _compared(text)
    if isinstance(text, Link):
        return linked(f"<span>{_marked(text)}</span>", text.address)
    return f"<code>{escape(text)}</code>" if label in _CODE else f"<span>{_marked(text)}</span>"


def linked(html: str, address: str) -> str:
    """Wrap HTML in a link that opens in a new tab.

    Without an address, return the HTML unchanged.
    """
    return f'<a href="{escape(address)}" target="_blank">{html}</a>' if address else html


def _compared(comparison: Comparison) -> str:
    """Return the place, followed by the numbers side by side. Each number is below its label."""
    numbers = "".join(
        f'<div><div style="font-size: 0.9em; color: {_FAINT}">{escape(label)}</div>'
        f'<code style="font-weight: 600">{escape(text)}</code></div>'
        for label, text in comparison.numbers
    )
    return (
        f"<div><code>{escape(comparison.place)}</code>"
        f'<div style="display: flex; flex-wrap: wrap; gap: 0 24px">{numbers}</div></div>'
    )


def _changed(code: Code, look: str) -> str:
    """Return code as HTML. The marked spans are recognizable even without color."""
    parts, end = [], 0
    for start, stop in code.marks:
        changed = f'<span style="{look}">{escape(code[start:stop])}</span>'
        parts += [escape(code[end:start]), changed]
        end = stop
    return "".join([*parts, escape(code[end:])])


def _marked(text: str) -> str:
    """Return a sentence as HTML. Text in backticks is formatted as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


# --------------------------------------------------------------------------------------------------
# The rows of a finding.
# --------------------------------------------------------------------------------------------------

# Rules whose hint explains how to search for the mistake. A repair makes this hint unnecessary.
SAYS_HOW_TO_SEARCH = ("gradient-mismatch", "missing-dependency")

# How to declare that a deviation is intended. Learners do not see this in an exercise.
BY_DESIGN = {
    "extra-gradient": "for a straight-through estimator, pass `surrogate=f`, where `f` is the "
    "differentiable function whose gradient `backward` returns",
    "flipped-sign": "for a gradient reversal, pass `intentional='flipped-sign'`",
    "ignores-grad-output": "for a loss that is never scaled, pass "
    "`intentional='ignores-grad-output'`",
    "nonlinear-in-grad-output": "for a clipped or guided `backward`, pass "
    "`intentional='nonlinear-in-grad-output'`",
    "rng-not-restored": "for a random gradient, pass `intentional='rng-not-restored'`",
    "undeclared-surrogate": "for a straight-through estimator, pass `surrogate=f`, where `f` is "
    "the differentiable function whose gradient `backward` returns",
}
HELD_FIXED = (
    "for elements that get no gradient by design, such as the padding of an embedding, pass "
    "`reference=f`, where `f` is a differentiable function that treats them as constants"
)
SCALED = (
    "for a gradient that you reverse or scale by design, pass the function that has this gradient, "
    "for example `surrogate=lambda x, strength: -strength * x`"
)
STATED = (
    "for {}, which the source mentions, pass `intentional={!r}`, or `surrogate=f`, where `f` is a "
    "differentiable function with this gradient"
)
DATA = "if `{}` is data, call `requires_grad_()` only on the inputs that you want to differentiate"


def finding_rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labeled rows for a finding: the rule and its message, followed by the details."""
    severity = "" if finding.severity == "error" else f"{finding.severity}, "
    yield Heading(severity + finding.rule), sentence(finding.message)
    yield from finding_details(finding)


def finding_details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labeled details of a finding: example, line of code, hint and lesson."""
    evidence = finding.evidence
    if "expected" in evidence and "actual" in evidence and "index" in evidence:
        yield "example", _example(evidence)
    elif evidence.get("witness"):
        yield "example", str(evidence["witness"])
    if evidence.get("line"):
        yield "at", str(evidence["line"])
    if evidence.get("call"):
        yield "call", str(evidence["call"])
    yield from search_rows(finding)
    found = finding.clue or (finding.repair and not finding.repair.left)
    if finding.hint and not (found and finding.rule in SAYS_HOW_TO_SEARCH):
        yield "hint", finding.hint
    # After the user has declared a surrogate, do not ask for another one.
    if not evidence.get("surrogate") and (how := _how_to_declare(finding)):
        yield "if meant", how
    if finding.lesson:
        yield "lesson", finding.lesson


# Evidence for a gradient that may deviate on purpose
INTENDED = ("acts_on_the_gradient_alone", "held_fixed", "passes_grad_output", "stated_design")


def may_be_intended(finding: Finding) -> bool:
    """Return whether a gradient may deviate on purpose."""
    return finding.rule in BY_DESIGN or any(key in finding.evidence for key in INTENDED)


def _how_to_declare(finding: Finding) -> str:
    """Explain how to declare that a deviation is intended. Return ``""`` if this is unlikely."""
    evidence = finding.evidence
    if finding.rule in BY_DESIGN:
        return BY_DESIGN[finding.rule]
    if evidence.get("acts_on_the_gradient_alone"):
        return SCALED
    if evidence.get("without_gradient"):
        return DATA.format(*evidence["without_gradient"])
    if evidence.get("held_fixed"):
        return HELD_FIXED
    if evidence.get("passes_grad_output"):
        return BY_DESIGN["undeclared-surrogate"]
    if evidence.get("stated_design"):
        return STATED.format(evidence["stated_design"], finding.rule)
    return ""


def search_rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the rows for the clue and the repair, if they are known."""
    yield from clue_rows(finding, finding.repair)
    if finding.repair:
        yield from repair_rows(finding.repair)


def clue_rows(finding: Finding, repair: Repair | None) -> Iterator[tuple[str, str]]:
    """Yield the clue unless the repair is more specific.

    A complete repair is more specific than a clue about ``backward`` or a clue that explains the
    gradient only up to a constant factor.
    """
    repaired, clue = repair is not None and not repair.left, finding.clue
    if clue and not (repaired and (clue.method == "backward" or clue.up_to_a_factor)):
        yield "because", clue.sentence


def repair_rows(repair: Repair) -> Iterator[tuple[str, str]]:
    """Yield the lines before and after a repair, and the inputs on which the repair was tested."""
    for change in repair.changes:
        yield "repair", f"change line {change.line} of {repair.where}"
        for label, text, marks in zip((BEFORE, AFTER), *change.compared(), strict=True):
            yield label, Code(text, marks)
    yield "tried", repair.reason


def _signed(value: Any) -> str:
    """Format a number. Keep the sign of -0.0, because ``forward`` can depend on it."""
    return "-0.0" if value == 0 and math.copysign(1.0, value) < 0 else number(value)


def _example(evidence: Mapping[str, Any]) -> Comparison:
    """Return one phrase with the example's place, inputs, actual result and expected result."""
    where = element(evidence["input"], evidence["index"])
    what = ""
    if "at" in evidence:
        where, what = f"{where} = {number(evidence['at'])}", "gradient "
    if evidence.get("given"):
        where += "".join(
            f", {name} = {_signed(value)}" for name, value in evidence["given"].items()
        )
    if "grad_output" in evidence:
        where += f", grad_output = {number(evidence['grad_output'])}"
    actual, expected = distinguish(evidence["actual"], evidence["expected"])
    numbers = [(what.strip() or "is", actual), ("should be", expected)]
    if difference := _difference(evidence["actual"], evidence["expected"]):
        numbers.append(("difference", difference))
    of_surrogate = ", the surrogate's gradient" if evidence.get("surrogate") else ""
    text = f"{where}: {what}{actual}, should be {expected}{of_surrogate}"
    return Comparison(text, where, tuple(numbers))


def _difference(actual: Any, expected: Any) -> str:
    """Format the difference between two real numbers.

    Return ``""`` if the difference is not a finite number.
    """
    if any(isinstance(it, bool) or not isinstance(it, int | float) for it in (actual, expected)):
        return ""
    difference = float(actual) - float(expected)
    return number(difference) if math.isfinite(difference) else ""
