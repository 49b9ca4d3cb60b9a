"""JUnit XML for CI systems. It has a test suite for each student and a test case for each exercise.

A wrong answer is a failure, and a missing answer is a skipped test. If the grader failed, the test
case is an error. An answer with points set by hand is a failure unless it has full points.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.records import Score
from autograd_classroom.pictures import PICTURE
from autograd_classroom.protocol.evidence import REPAIR
from autograd_classroom.reports.wording import by_hand

_TAGS = {"wrong": "failure", "grader failed": "error", "not attempted": "skipped", "": "skipped"}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(book: Gradebook) -> str:
    """Return the XML document for a class."""
    return "".join(junit_pieces(book))


def junit_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the XML document in pieces, one student at a time."""
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="autograd-course">\n'
    for student in book.students():
        suite = _suite(book, student)
        indent(suite, level=1)
        yield f"  {tostring(suite, encoding='unicode')}\n"
    yield "</testsuites>\n"


def _suite(book: Gradebook, student: str) -> Element:
    scores = book.scores(student)
    suite = Element("testsuite", {"name": _text(student), **_counts(scores)})
    for score in scores:
        _add_case(suite, score)
    if remarks := [f"{p.source}: {p.message}" for p in book.problems(student)]:
        SubElement(suite, "system-out").text = _text("\n".join(remarks))
    return suite


def _counts(scores: list[Score]) -> dict[str, str]:
    tags = [_tag(score) for score in scores]
    counted = {
        "tests": len(tags),
        "failures": tags.count("failure"),
        "errors": tags.count("error"),
        "skipped": tags.count("skipped"),
    }
    seconds = sum(score.seconds for score in scores)
    return {key: str(count) for key, count in counted.items()} | {"time": f"{seconds:.3f}"}


def _add_case(suite: Element, score: Score) -> None:
    case = SubElement(
        suite, "testcase", classname=score.lesson, name=score.exercise, time=f"{score.seconds:.3f}"
    )
    if tag := _tag(score):
        verdict = score.message or "not graded yet"
        message = by_hand(score.settlement) if score.settlement else verdict
        outcome = SubElement(case, tag, message=_text(message))
        if tag != "skipped":
            outcome.set("type", score.rule or score.outcome)
            outcome.text = _text("\n".join(_told(score, message)))


def _tag(score: Score) -> str | None:
    if score.settlement:
        return None if score.is_passed else "failure"
    return _TAGS.get(score.status)


def _told(score: Score, message: str) -> Iterable[str]:
    yield message
    if score.settlement and score.message:
        yield score.message
    yield from (
        f"{key}: {value}" for key, value in score.evidence.items() if key not in (PICTURE, REPAIR)
    )
    yield from score.problems


def _text(text: str) -> str:
    """Replace the characters that XML does not allow."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
