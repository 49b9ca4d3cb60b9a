"""The pages that people read. Their content is complete, and no submitted text becomes HTML."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from autograd_classroom.gradebook import Gradebook, Score
from autograd_classroom.ingest import Rejected, Submission
from autograd_classroom.pictures import PICTURE, as_data, from_data
from autograd_classroom.reports import files, gradescope_results
from autograd_classroom.reports.pages import class_page, feedback, feedback_name, links
from autograd_classroom.reports.pages.code import highlighted, offending
from autograd_doctor import RULES
from autograd_doctor.jacobians import Axis, Jacobians
from barepage import running_browser
from handed_in import SQUARE
from repository import ROOT
from test_classroom_similarity import OWN, others

from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.notebook_files import Notebook
from tools.settings import read_settings

pytestmark = pytest.mark.slow

EXERCISES = [CATALOGUE[name] for name in ("square", "scaled-sigmoid", "weighted-sum", "to-polar")]
VOID = {"meta", "img", "br", "input"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)",
    "</code></pre><iframe src=//evil.example>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "</title></style><svg/onload=alert(1)>",
    "\u202etxt.exe\x00\x1b[31m",
    "&lt;b&gt;&#x3c;",
    "\ud800",
)
HALF = SQUARE.replace("2 * x * grad_output", "x * grad_output")
PAIR = Jacobians(
    output="the output", input="x", whole=(2, 2),
    differences=((1.0, 0.0), (0.0, float("nan"))), backward=((2.0, 0.0), (0.0, 2.0)),
    off=((1.0, 0.0), (0.0, float("nan"))),
    rows=Axis("output", (2,), (0, 1)), columns=Axis("x", (2,), (0, 1)),
)  # fmt: skip
WITNESS = {
    "input": "x", "index": [1, 1], "at": -1.5, "grad_output": 2.0, "expected": 6.0, "actual": "nan",
    "line": "return x * grad_output", "hint": "Which constant is missing?", "with": "a matrix",
    "repair": {
        "summary": "`x` instead of `2 * x` in the return statement of `backward`",
        "changes": [{"line": 9, "before": ["return x * g"], "after": ["return 2 * x * g"]}],
    },
}  # fmt: skip


class Page(HTMLParser):
    """A page's tags and text. Raises an error if a tag is not closed as it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self._open[-1:] == ["style"] else data


def handed_in(book: Gradebook, student: str, code: str, *problems: str) -> list[Answer]:
    answers = [Answer(e.id, student, "X", code, "import torch", problems) for e in EXERCISES]
    submission = Submission(student, "01_template", f"{student}.py", Notebook(()), "0", problems)
    book.hand_in(submission, answers)
    return answers


def wrong(answer: Answer, **more: Any) -> Score:
    given: dict[str, Any] = {
        "hash": answer.hash,
        "rule": "constant-factor",
        "message": "too small.",
    }
    return Score(answer.student, answer.exercise, "wrong", 0.0, **(given | more))


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Gradebook]:
    """Provide a gradebook that has a run but no submissions yet."""
    with Gradebook(tmp_path / "grades.sqlite") as book:
        yield book


@pytest.fixture
def small(book: Gradebook) -> Gradebook:
    """Return a gradebook in which ann has one answer of each status, and bob's are all wrong."""
    run = book.begin(EXERCISES, "1")
    first, second, third, _ = handed_in(book, "ann", HALF, "the cell has no id")
    evidence = {**WITNESS, PICTURE: as_data(PAIR)}
    book.record(run, wrong(first, evidence=evidence, seed="4711", remarks=("imports os (line 1)",)))
    book.record(run, Score("ann", second.exercise, "passed", 2.0, hash=second.hash))
    book.record(run, Score("ann", third.exercise, "grader failed", 0.0, message="/our/own/path",
                           hash=third.hash))  # fmt: skip
    for answer in handed_in(book, "bob", SQUARE):
        book.record(run, wrong(answer, rule="", message="it raised KeyError."))
    book.reject(Rejected("eve", "eve.zip", "the zip is broken"))
    return book


def page(book: Gradebook, student: str = "") -> Page:
    return Page("".join(feedback(book, student) if student else class_page(book)))


def plain(page: Page) -> str:
    return " ".join(page.text.split())


# A student's page


def test_a_student_reads_what_grade_would_have_said(small: Gradebook) -> None:
    read = page(small, "ann")
    text = plain(read)

    for said in (
        "Feedback for ann", "2 of 8 points so far", "constant-factor", "Too small.", "a matrix",
        "x[1, 1] = -1.5, grad_output = 2: gradient nan, should be 6", "Which constant is missing?",
        'lesson 01, "What backward is asked for"', "The 2 × 2 Jacobian of the output",
        "The grader failed, and your answer is not the cause.", "not graded yet",
        "the cell has no id",
    ):  # fmt: skip
        assert said in text
    assert read.tags["img"] == 3
    assert f"{links.to_rule('constant-factor')}" in read.links
    assert any(link.endswith("/notebooks/01_template.ipynb") for link in read.links)


def test_the_offending_line_is_marked(small: Gradebook) -> None:
    html = "".join(feedback(small, "ann"))
    marked = re.findall(r'class="line marked">(.*?)\n?</span>(?=<span class="line|</code>)', html)

    assert [re.sub("<.*?>", "", line).strip() for line in marked] == ["return x * grad_output"]


# code that makes a highlighter try the same characters again and again → the end of what is shown
SLOW = {
    "lines with a space": (" \n" * 19_000 + "x = 1", "x = 1"),
    "blank lines": ("\n" * 39_000 + "x = 1", "x = 1"),
    "a long format": ("x = '%" + "0" * 39_000, "000"),
    "formats": (("x = '%" + "0" * 180 + "\n") * 210, "000"),
    "brackets": ("'''\n" + "{a[\n" * 9_000, "{a["),
    "tags": ("<b>" * 13_000, "&lt;b&gt;"),
}


@pytest.mark.parametrize("what", SLOW)
def test_any_code_is_shown_fast(what: str) -> None:
    source, end = SLOW[what]
    begun = time.process_time()
    html = highlighted(source)

    assert time.process_time() - begun < 3
    assert re.sub("</?span.*?>", "", html).removesuffix("</code></pre>").rstrip().endswith(end)


@pytest.mark.parametrize("secret", ["4711", "imports os", "bob", "eve", "/our/own/path", "seed"])
def test_what_is_for_others_is_on_no_student_s_page(small: Gradebook, secret: str) -> None:
    assert secret not in "".join(feedback(small, "ann"))


@pytest.mark.parametrize("secret", ["4711", "imports os", "seed"])
def test_what_is_for_others_is_in_no_student_s_file(small: Gradebook, secret: str) -> None:
    assert secret not in json.dumps(gradescope_results(small, "ann"))


def test_a_student_whose_file_could_not_be_read_is_told_why(small: Gradebook) -> None:
    said = plain(page(small, "eve"))

    assert "eve.zip: the zip is broken" in said
    assert "None of your answers could be read" in said
    assert "of 0 points" not in said


def test_the_class_page_counts_what_makes_wrong_answers_right(small: Gradebook) -> None:
    change = "x instead of 2 * x in the return statement of backward"

    assert f"{change}1 student" in plain(page(small))
    assert RULES["constant-factor"].title in plain(page(small))
    assert change not in plain(page(small, "ann")), "a student reads it nowhere"


def test_the_class_page_tells_exceptions_of_the_same_rule_apart(book: Gradebook) -> None:
    run = book.begin(EXERCISES, "1")
    for student, said in (("ann", "sizes"), ("bob", "sizes"), ("cyd", "dtypes")):
        answer, *_ = handed_in(book, student, HALF)
        message = f"`backward` raises RuntimeError: the {said} differ."
        book.record(run, wrong(answer, rule="backward-raises", message=message))
    text = plain(page(book))

    assert "the sizes differ.2 students" in text
    assert "the dtypes differ.1 student" in text


ODD = {
    "a repair without lines": {"repair": {"summary": "`x`", "changes": [{"line": 1}]}},
    "a repair that is a text": {"repair": "<script>"},
    "a repair without a summary": {"repair": {"changes": []}},
    "no index of a witness": {"expected": 1, "actual": 2, "index": 3},
    "no numbers": {"expected": [], "actual": {}, "index": [0], "input": "x"},
    "another type everywhere": {key: [{}] for key in WITNESS},
    "a picture that is none": {PICTURE: {"whole": "ab"}},
    "a picture of no one size": {PICTURE: as_data(PAIR) | {"off": [[1.0], [1.0, 2.0]]}},
    "a picture of an infinite size": {PICTURE: as_data(PAIR) | {"whole": ["inf", 1]}},
    "a picture of nothing": {PICTURE: as_data(PAIR) | {"rows": {
        "name": "x", "shape": [0], "places": [0, 1], "pairs": False}}},
    "a picture of another tensor": {PICTURE: as_data(PAIR) | {"rows": {
        "name": "x", "shape": [2], "places": [0, 9], "pairs": False}}},
    "a huge picture": {PICTURE: as_data(PAIR) | {"off": [[1.0] * 5000] * 2}},
}  # fmt: skip


@pytest.mark.parametrize("evidence", ODD.values(), ids=ODD)
def test_evidence_of_any_kind_makes_a_page(book: Gradebook, evidence: dict[str, Any]) -> None:
    run = book.begin(EXERCISES, "1")
    first = handed_in(book, "ann", HALF)[0]
    book.record(run, wrong(first, evidence=evidence))

    assert "Too small." in page(book, "ann").text


LINES = {
    "return x * grad_output": {10},
    "forward: return x * x": {5},
    "backward: (x,) = ctx.saved_tensors": {9},
    "not in it": set(),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_code_is_found_again(line: str) -> None:
    assert offending(HALF, "", {"line": line}) == LINES[line]


MESSAGES = {
    "the cell raises NameError: x (line 5: `return x * x`).": {5},
    "the cell raises NameError: x (line 5: `something else`).": set(),  # a line in a different cell
    "the cell is not Python: invalid syntax (line 7).": {7},
    "the cell is not Python: invalid syntax (line 700).": set(),
    "nothing of a line": set(),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_a_line_that_a_message_names_is_found(message: str) -> None:
    assert offending(HALF, message, {}) == MESSAGES[message]


def test_a_picture_comes_back_as_it_was_stored() -> None:
    assert repr(from_data(as_data(PAIR))) == repr(PAIR)


NAMES = {
    "Jürgen Müller": "jurgen-muller", "Zoë": "zoe", "Øyvind Groß": "oyvind-gross",
    "Łukasz": "lukasz",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_named_so_that_its_student_can_be_told(name: str) -> None:
    assert feedback_name(name).partition("~")[0] == NAMES[name]


def test_every_student_has_a_file_of_their_own_below_the_folder() -> None:
    names = [
        *HOSTILE[:-1],
        "ann",
        "Ann",
        "ANN",
        "../ann",
        "a/b",
        "a b",
        "",
        ".",
        "..",
        "ä" * 300,
        "con",
    ]
    made = [feedback_name(name) for name in names]

    assert len({name.lower() for name in made}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9._~-]{0,80}\.html", name) for name in made)


# The page of the class


def test_the_instructor_sees_what_the_class_believes(small: Gradebook) -> None:
    read = page(small)
    text = plain(read)

    for said in (
        "3 students", "4 exercises", "constant-factor", "no rule", "it raised KeyError.",
        "imports os (line 1)", "/our/own/path", "eve.zip", "the zip is broken",
    ):  # fmt: skip
        assert said in text
    assert links.to_rule("constant-factor") in read.links
    assert "feedback/ann.html" in read.links
    assert {f"feedback/ann.html#{entry.id}" for entry in EXERCISES} <= set(read.links)


@pytest.mark.browser
def test_the_counts_of_mistakes_are_seen_beside_rules_with_long_titles(book: Gradebook) -> None:
    run = book.begin(EXERCISES, "1")
    for answer in handed_in(book, "ann", HALF):
        book.record(run, wrong(answer, rule="kink-convention"))
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.set_content("".join(class_page(book)))
        place = page.locator(".matrix td.hot").nth(1).bounding_box()

    assert place is not None
    assert place["x"] + place["width"] < 400


def test_similar_submissions_are_laid_side_by_side(book: Gradebook) -> None:
    run = book.begin(EXERCISES, "1")
    codes = {code.hash: code.source for code in others(20)}
    mine = {"ann": OWN, "bob": OWN.replace("squared", "mine"), "cyd": OWN}
    for student, code in (codes | mine).items():
        for answer in handed_in(book, student, code):
            book.record(run, Score(student, answer.exercise, "passed", 1.0, hash=answer.hash))
    text = plain(page(book))

    assert "do not treat this as proof" in text
    assert "to-polar : ann, bob, cyd" in text.replace("to-polar:", "to-polar :")
    assert "(the same code handed in by 3)" in text
    assert "mine = x * x + y * y" in text


# Submitted text remains text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_handed_in_becomes_html(book: Gradebook, text: str) -> None:
    run = book.begin(EXERCISES, "1")
    name = text.encode("utf-8", "replace").decode()
    more = {"evidence": {"line": text, "witness": text, "hint": text, "with": text}}
    for student in (name, "ann"):
        for answer in handed_in(book, student, f"'''{text}'''\n{OWN}", text):
            rule = "backward-raises" if student == "ann" else name
            said = {"rule": rule, "message": text, "remarks": (text,), "seed": "1"}
            book.record(run, wrong(answer, **(said | more)))
    book.reject(Rejected(name, name, text))
    for read in (page(book, name), page(book)):
        assert not {"script", "iframe", "svg", "b"} & read.tags.keys()
        assert not [link for link in read.links if link.startswith(("javascript", "//", "x"))]
        assert "49" not in read.text
        assert not re.search("[\x00\x1b\u202e]", read.text)


def test_a_page_needs_nothing_besides_itself(small: Gradebook) -> None:
    for html in ("".join(feedback(small, "ann")), "".join(class_page(small))):
        assert not re.search(r"<script|<link|@import|url\(", html)
        assert "prefers-color-scheme: dark" in html
        assert all(src.startswith("data:image/png") for src in re.findall(r'src="([^"]*)', html))


def test_the_links_lead_where_the_course_is_published() -> None:
    settings = read_settings(ROOT)

    assert (settings.repository, settings.branch) == (links.REPOSITORY, links.BRANCH)
    assert "## constant-factor" in (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    for exercise in CATALOGUE.values():
        path = links.to_lesson(exercise.read).partition(f"blob/{settings.branch}/")[2]
        assert (ROOT / path).is_file(), exercise.read


# Files


def test_each_format_has_its_files_and_those_of_others_are_left(
    small: Gradebook, tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    files.write(small, folder, ["gradescope"])
    assert {p.name for p in (folder / "gradescope").iterdir()} == {f"{s}.json" for s in STUDENTS}
    assert not (folder / "class.html").exists()
    files.write(small, folder)
    (folder / "feedback" / "gone.html").write_text("of last week")
    (folder / "feedback" / "notes.txt").write_text("the instructor's")
    files.write(small, folder, ["html"])

    here = {str(p.relative_to(folder)) for p in folder.rglob("[!.]*") if p.is_file()}
    assert here == {
        "class.html", "grades.csv", "results.csv", "results.json", "junit.xml", "canvas.csv",
        "moodle.csv", "feedback.zip", "feedback/notes.txt",
        *(f"feedback/{s}.html" for s in STUDENTS),
        *(f"gradescope/{s}.json" for s in STUDENTS),
    }  # fmt: skip


STUDENTS = ("ann", "bob", "eve")
