"""Questions from an untrusted file are saved as Markdown, in which they are only text."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import mistune
import pytest
from markdown_it import MarkdownIt

from autograd_course.quizzes import QUIZZES, Quiz, load
from autograd_course.quizzes.reading import read
from autograd_course.visualize.quiz.describe import markdown

HARMFUL = {
    "html": "<img src=x onerror=alert(1)>",
    "script": "<script>alert(1)</script>",
    "comment": "<!-- <b> -->",
    "link": "[click](javascript:alert(1))",
    "picture": "![click](https://example.org/pixel.png)",
    "angle brackets": "<javascript:alert(1)>",
    "reference": "[click][there]\n\n[there]: javascript:alert(1)",
    "nested link": "[click [here]](javascript:alert(1))",
    "entity": "&lt;img src=x onerror=alert(1)&gt; &#60;script&#62;",
    "formula": r"$\href{javascript:alert(1)}{click}$ and \(\href{javascript:alert(1)}{click}\)",
    "environment": r"\begin{equation}\href{javascript:alert(1)}{click}\end{equation}",
    "emphasis": "*<img src=x onerror=alert(1)>*",
    "stray backtick": "one ` <img src=x onerror=alert(1)> two",
    "code beside a formula": "$`<img src=x onerror=alert(1)>`$ `$` $",
    "no fence": "```js evil\n<img src=x onerror=alert(1)>\n```",
    "indented": "    <img src=x onerror=alert(1)>",
}
RENDERERS: dict[str, Callable[[str], str]] = {
    "mistune": mistune.create_markdown(escape=False, plugins=["table", "footnotes"]),
    "markdown-it": MarkdownIt().render,
}


def untrusted(text: str) -> Quiz:
    """Return a check that uses the same text as its title, questions, options and explanations."""
    first = json.dumps(text.splitlines()[0])
    options = [
        f"[[question.option]]\ntext = {json.dumps(text + mark)}\n"
        f"right = {right}\nexplanation = {json.dumps(text)}"
        for mark, right in ((" 1", "true"), (" 2", "false"))
    ]
    asked = f'title = {first}\n[[question]]\nid = "q"\ntext = {json.dumps(text)}'
    return read("\n".join([asked, *options]), "01")


class Shown(HTMLParser):
    """The contents of a page: its elements, its text, and its text outside of code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = self.prose = ""
        self._in_code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._in_code -= tag == "code"

    def handle_data(self, data: str) -> None:
        self.text += data
        self.prose += "" if self._in_code else data

    def handle_comment(self, data: str) -> None:
        self.tags.add("comment")


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", HARMFUL)
def test_a_question_brings_no_html_no_link_and_no_formula(name: str, renderer: str) -> None:
    shown = Shown(RENDERERS[renderer](markdown(untrusted(HARMFUL[name]))))

    assert shown.tags <= {"p", "ul", "li", "strong", "em", "code", "pre"}
    assert shown.attributes <= {"class"}
    assert not re.search(r"\$|\\[(\[b]", shown.prose), "MathJax would read it"


@pytest.mark.parametrize("name", HARMFUL)
def test_what_a_question_says_is_still_read(name: str) -> None:
    shown = Shown(RENDERERS["markdown-it"](markdown(untrusted(HARMFUL[name]))))

    words = re.findall(r"\w{3,}", HARMFUL[name])
    assert [word for word in words if word not in shown.text] == []


@pytest.mark.parametrize("number", QUIZZES)
def test_the_courses_own_questions_stay_as_they_are_written(number: str) -> None:
    quiz = load(number)
    saved = " ".join(markdown(quiz).split())

    for question in quiz.questions:
        for text in (question.text, *(option.text for option in question.options)):
            assert " ".join(text.split()) in saved
