"""The book contains all pages of the course. Its links work, and its pictures have descriptions.

Sphinx itself runs only in ``make book``, because it takes too long for a test.
"""

from __future__ import annotations

import json
import posixpath
import re
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
import torch
from autograd_doctor.jacobians import as_html, compute_jacobians
from nbformat import NotebookNode
from PIL import Image
from playwright.sync_api import Browser
from repository import ROOT
from shown_widgets import SHOWN

from autograd_course.quizzes import QUIZZES, Vote, load
from tools.book.__main__ import stage
from tools.book.front import fronted
from tools.book.links import Places, linked_html, relinked
from tools.book.notebook_pages import page
from tools.book.pages import FRONT, Book, book
from tools.book.pictures import WIDGETS, alternative
from tools.book.questions import answered, voted
from tools.book.site import problems
from tools.errors import AuthoringError
from tools.settings import Settings

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

SETTINGS = ROOT / "docs" / "book"


@pytest.fixture(scope="module")
def made() -> Book:
    """Return the book that is made from this course."""
    return book(ROOT)


# The table of contents


def listed(made: Book, page: str) -> set[str]:
    """Return the pages in the table of contents, starting from ``page``."""
    found = {page}
    for tree in re.findall(
        r"^```\{toctree\}\n(.*?)^```", made.texts[page], re.DOTALL | re.MULTILINE
    ):
        for line in filter(None, tree.splitlines()):
            if not line.startswith(":"):
                stem = posixpath.normpath(posixpath.join(posixpath.dirname(page), line))
                (child,) = {f"{stem}.md", f"{stem}.ipynb"} & made.texts.keys()
                found |= listed(made, child)
    return found


def test_every_page_stands_in_the_table_of_contents(made: Book) -> None:
    assert listed(made, FRONT) == made.texts.keys()


@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("notebooks/*.ipynb", "notebooks/{}.ipynb"),
        ("exercises/*.ipynb", "exercises/{}.ipynb"),
        ("docs/*.md", "docs/{}.md"),
        ("packages/autograd-doctor/src/autograd_doctor/_rules/*.md", "docs/rules/{}.md"),
        ("autograd_course/messages/*.md", "docs/error_messages/{}.md"),
    ],
)
def test_everything_to_read_is_a_page(pattern: str, place: str, made: Book) -> None:
    stems = [path.stem for path in ROOT.glob(pattern)]

    assert stems
    assert {place.format(stem) for stem in stems} <= made.texts.keys()


def test_solutions_are_no_pages(made: Book) -> None:
    assert not any("solutions" in place for place in made.texts)
    assert "BEGIN SOLUTION" not in "".join(
        text for place, text in made.texts.items() if place.endswith(".ipynb")
    )


# Links

HERE = "notebooks/02_ctx_rules.ipynb"
PLACES = Places(
    ROOT,
    Settings("someone/a_course", "trunk"),
    files={"index.md", "docs/cheat_sheet.md", "notebooks/01_template.ipynb", HERE},
    names={"zero-dim": "docs/rules/zero-dim.md", "01_template": "notebooks/01_template.ipynb"},
    split={"docs/rules.md": {"zero-dim": "docs/rules/zero-dim.md"}},
)


@pytest.mark.parametrize(
    ("written", "linked"),
    [
        ("[a](01_template.ipynb)", "[a](01_template.ipynb)"),
        ("[a](01_template.ipynb#anatomy)", "[a](01_template.ipynb#anatomy)"),
        ("[a](../README.md)", "[a](../index.md)"),
        ("[a](../docs/cheat_sheet.html)", "[a](../docs/cheat_sheet.md)"),
        ("[a](../docs/rules.md#zero-dim)", "[a](../docs/rules/zero-dim.md)"),
        ("[a](../LICENSE)", "[a](https://github.com/someone/a_course/blob/trunk/LICENSE)"),
        ("[a](../tests)", "[a](https://github.com/someone/a_course/tree/trunk/tests)"),
        ("[a](https://pytorch.org)", "[a](https://pytorch.org)"),
        ("`zero-dim` says", "[`zero-dim`](../docs/rules/zero-dim.md) says"),
        ("in `01_template`", "in [](01_template.ipynb)"),
        ("| a | 01_template |", "| a | [](01_template.ipynb) |"),
        ("[`zero-dim`](#anatomy)", "[`zero-dim`](#anatomy)"),
        ("```\n`zero-dim` [a](b)\n```", "```\n`zero-dim` [a](b)\n```"),
        ("# `zero-dim`", "# `zero-dim`"),
        ("`ctx.save` and `two-words`", "`ctx.save` and `two-words`"),
    ],
)
def test_a_link_leads_to_the_book_s_page_or_to_github(written: str, linked: str) -> None:
    assert relinked(written, HERE, PLACES) == linked


def test_a_link_to_no_file_is_an_error_that_names_its_page() -> None:
    with pytest.raises(AuthoringError, match=r"02_ctx_rules.ipynb:1: the link nowhere.md leads to"):
        relinked("[a](nowhere.md)", HERE, PLACES)


def test_a_rule_s_name_is_no_link_on_its_own_page() -> None:
    assert relinked("`zero-dim`", "docs/rules/zero-dim.md", PLACES) == "`zero-dim`"


def test_the_names_in_a_diagnosis_are_links() -> None:
    html = "<code>zero-dim</code> in <span>01_template</span>, not <code>x-y</code>"

    assert linked_html(html, HERE, PLACES) == (
        '<a href="../docs/rules/zero-dim.html"><code>zero-dim</code></a> in '
        '<a href="01_template.html"><span>01_template</span></a>, not <code>x-y</code>'
    )


# The front page


@pytest.mark.parametrize(
    ("readme", "front"),
    [
        ("[![Open](https://a.org/b.svg)](https://c.org)", "[Open](https://c.org)"),
        ("![A curve](docs/a.png)", "![A curve](docs/a.png)"),
        (
            '<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="d.svg">\n'
            '  <img src="l.svg" alt="A graph">\n</picture>',
            '\n<img class="only-light" src="l.svg" alt="A graph">\n'
            '<img class="only-dark" src="d.svg" alt="A graph">\n',
        ),
    ],
)
def test_the_front_page_fetches_no_badge_and_follows_the_switch(readme: str, front: str) -> None:
    assert fronted(readme) == front


def test_the_live_flow_comes_before_the_pictures_that_it_replaces(made: Book) -> None:
    live, pictures = (made.texts[FRONT].index(mark) for mark in ("data-live", "gradient_flow"))

    assert live < pictures
    assert "index-1.js" in made.scripts


# Notebooks


def test_what_only_a_kernel_needs_is_not_shown(made: Book) -> None:
    shown = json.loads(made.texts["notebooks/01_template.ipynb"])["cells"]
    texts = ["".join(cell["source"]) for cell in shown]

    assert not any("setup" in cell["metadata"].get("tags", ()) for cell in shown)
    assert not any("Open in Colab" in text.partition("\n")[0] for text in texts)
    assert texts[0].startswith("# 01 ·")
    assert "[Open in Colab](https://colab" in texts[0]
    assert "[The exercises](../exercises/01_template.ipynb)" in texts[0]


def test_the_notebook_itself_stays_as_it_is() -> None:
    given = nbformat.read(ROOT / HERE, as_version=4)
    kept = nbformat.writes(given)

    page(given, "notebooks/01_template.ipynb", PLACES)

    assert nbformat.writes(given) == kept


def test_every_picture_has_words(made: Book) -> None:
    for place in made.texts:
        for cell in json.loads(made.texts[place])["cells"] if place.endswith(".ipynb") else ():
            pictures = [o for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})]
            if pictures:
                assert len(pictures) == 1, f"{place}: one text alternative serves one picture"
                assert len(cell["metadata"]["mystnb"]["image"]["alt"]) > 20, place


VIEW = "application/vnd.jupyter.widget-view+json"
CALL = "gradient_flow(square, x)"


def shown(source: str, *outputs: dict[str, str]) -> NotebookNode:
    """Return a page with one cell as it is saved after a run."""
    made = [nbformat.v4.new_output("display_data", data=data) for data in outputs]
    code = nbformat.v4.new_code_cell(source, outputs=made)
    title = nbformat.v4.new_markdown_cell("# Title")
    return page(nbformat.v4.new_notebook(cells=[title, code]), HERE, PLACES)


@pytest.mark.parametrize(
    ("source", "outputs"),
    [
        (CALL, [{VIEW: "{}", "text/plain": "Flow."}]),
        (f"flow = {CALL}\nflow", [{VIEW: "{}", "text/plain": "Flow."}]),
        (CALL, [{"text/plain": "Flow."}]),
        (f"x = 2.0\nvisualize.{CALL}", []),
        ("gradient_flow(\n    square,\n    x,\n)", []),
    ],
)
def test_a_widget_without_its_picture_fails(source: str, outputs: list[dict[str, str]]) -> None:
    named = r"02_ctx_rules.ipynb:1: the line '.*flow.*' shows a widget, .* is not saved; run"
    with pytest.raises(AuthoringError, match=named):
        shown(source, *outputs)


PNG = {"image/png": "iVBORw0KGgo=", "text/plain": "Flow."}
VOTE = 'vote("02", "saved-as-attribute")'


@pytest.mark.parametrize(
    ("source", "outputs"),
    [
        (CALL, [PNG]),
        (CALL, [{VIEW: "{}", **PNG}]),
        (CALL, [{"text/plain": "warned"}, PNG]),
        (f"flow = {CALL}", []),
        ('knowledge_check("01")', [{VIEW: "{}", "text/markdown": "1.", "text/plain": "1."}]),
        (VOTE, [{VIEW: "{}", "text/markdown": "1.", "text/plain": "1."}]),
        ("%matplotlib inline", []),
    ],
)
def test_a_page_has_the_picture_and_no_live_view(
    source: str, outputs: list[dict[str, str]]
) -> None:
    made = nbformat.writes(shown(source, *outputs))

    assert VIEW not in made
    pictured = any("image/png" in data for data in outputs)
    assert ("iVBORw0KGgo=" in made) == pictured
    assert ("This is a still picture." in made) == pictured
    asked = 'class=\\"live\\"' in made  # the text also names the place where its controls work
    assert made.count("trunk/notebooks/02_ctx_rules.ipynb") == 1 + pictured + asked


# The theme gives each output a light card and padding.
THEME = """html[data-theme=dark] body {background: #121212}
html[data-theme=dark] .bd-content div.cell_output img {background: #ced6dd; padding: 8px}"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("color", "seen"),
    [("#ffffff", "page"), ("#22262b", "light"), ("#00609a", "blue"), ("#ad4300", "red")],
)
def test_in_the_dark_a_picture_s_paper_is_the_page(browser: Browser, color: str, seen: str) -> None:
    file = BytesIO()
    Image.new("RGB", (40, 40), color).save(file, "PNG")
    source = "data:image/png;base64," + b64encode(file.getvalue()).decode()
    style = THEME + (SETTINGS / "_static" / "book.css").read_text("utf-8")
    page = browser.new_page()
    page.set_content(
        f"<html data-theme=dark><style>{style}</style><body><div class=bd-content>"
        f"<div class=bd-article><div class=cell_output><img src='{source}'></div></div></div>"
    )
    box = page.locator("img").bounding_box()
    shown = Image.open(BytesIO(page.screenshot())).convert("RGB")
    page.close()

    assert box
    assert (box["width"], box["height"]) == (40, 40)
    red, green, blue = shown.getpixel((round(box["x"]) + 20, round(box["y"]) + 20))
    assert {
        "page": (red, green, blue) == (0x12, 0x12, 0x12),
        "light": min(red, green, blue) > 180,
        "blue": blue > 130 and blue > red + 40,
        "red": red > 200 and red > blue + 60,
    }[seen], (red, green, blue)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "rows"), [(312, 3), (480, 1), (672, 1), (1200, 1)])
def test_the_maps_of_a_report_share_one_row_or_none(
    browser: Browser, width: int, rows: int
) -> None:
    (maps,) = compute_jacobians(torch.exp, [torch.ones(12)]).pairs
    page = browser.new_page()
    page.set_content(f"<div style='width: {width}px'>{as_html(maps)}</div>")
    tops = page.locator("img").evaluate_all("all => all.map((one) => one.offsetTop)")
    page.close()

    assert len(set(tops)) == rows


def test_every_widget_of_the_package_has_a_row_in_the_table_of_shown_widgets() -> None:
    rows = {shown.call.partition("(")[0] for shown in SHOWN.values()}

    assert rows == {*WIDGETS, "knowledge_check", "vote"}, "add it to tests/support/shown_widgets.py"


def test_every_widget_of_the_package_is_in_the_table_for_engineers() -> None:
    page = (ROOT / "docs" / "checking.md").read_text(encoding="utf-8")

    assert {*WIDGETS} == {*re.findall(r"^\| `(\w+)\(", page.partition("visualize import")[2], re.M)}


FIGURE = "<Figure size 880x396 with 2 Axes>"


@pytest.mark.parametrize(
    ("account", "source", "words"),
    [
        ("Slope 1.\n  They agree.", "", "Slope 1. They agree."),
        ("Flow.\n  x = 2.\n" + 200 * "-", "", "Flow. x = 2. The rest follows below, in words."),
        (
            FIGURE,
            "a.set(title='left')\nb.set_title(f'of {n}\\nin all')",
            "Figure: left; of … in all.",
        ),
        (FIGURE, "axes.plot(x)", "Figure, described in the text next to it."),
    ],
)
def test_a_text_alternative_is_the_beginning_of_the_account(
    account: str, source: str, words: str
) -> None:
    assert alternative(account, source) == words


@pytest.mark.parametrize("number", QUIZZES)
def test_a_knowledge_check_keeps_its_answers_folded(number: str) -> None:
    outside = re.sub(r"^:::\{dropdown\}.*?^:::$", "", answered(number), flags=re.DOTALL | re.M)

    for question in load(number).questions:
        assert question.text.strip() in outside
        for option in question.options:
            assert option.text.strip() in outside
            assert option.explanation.strip() not in outside
            assert option.explanation.strip() in answered(number)


@pytest.mark.parametrize("vote", [vote for number in QUIZZES for vote in load(number).votes])
def test_a_vote_keeps_its_answer_folded(vote: Vote) -> None:
    text = voted(vote.home, vote.id)
    outside = re.sub(r"^:::\{dropdown\}.*?^:::$", "", text, flags=re.DOTALL | re.M)

    for shown in (vote.belief, vote.text, *(option.text for option in vote.options)):
        assert shown in outside
    assert vote.explanation in text
    assert vote.explanation not in outside


def test_the_cell_of_a_vote_shows_its_question() -> None:
    made = shown(VOTE, {VIEW: "{}", "text/markdown": "1.", "text/plain": "1."}).cells

    assert made[-2].outputs == []
    assert voted("02", "saved-as-attribute") in made[-1].source


# The site


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="other.html#there">', ""),
        ('<a href="https://pytorch.org">', ""),
        ('<img src="a.png" alt="a curve">', ""),
        ('<a href="missing.html">', "the link missing.html leads nowhere"),
        ('<a href="other.html#gone">', "the link other.html#gone leads nowhere"),
        ('<a href="#gone">', "the link #gone leads nowhere"),
        ('<img src="a.png">', "the picture a.png has no text alternative"),
        ('<img src="b.png" alt="b">', "b.png is missing"),
        (
            f'<script type="{VIEW}">{{}}</script>',
            "a widget is on it without its picture: run `make book` again",
        ),
        ('<script src="https://a.org/a.js">', "fetches https://a.org/a.js from another host"),
        ('<link href="//a.org/a.css">', "fetches //a.org/a.css from another host"),
    ],
)
def test_what_is_wrong_on_a_page_is_named(body: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(body, encoding="utf-8")
    (tmp_path / "other.html").write_text('<p id="there">', encoding="utf-8")
    (tmp_path / "a.png").touch()

    assert list(problems(tmp_path)) == ([f"page.html: {problem}"] if problem else [])


def test_a_page_that_is_too_heavy_is_named_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link rel="next" href="other.html"><link rel="stylesheet" href="a.css">'
        '<img src="a.png" alt="a"><img src="a.png" alt="a">'
        '<div data-live="flow" data-state="page-1">'
    )
    (tmp_path / "other.html").write_text(" " * 900_000)
    (tmp_path / "live").mkdir()
    (tmp_path / "a.css").write_text('@font-face{src:url("a.woff2")}')
    loaded = ("a.png", "a.woff2", "live/flow.js", "live/page-1.js")
    for name, size in zip(loaded, (700_000, 200_000, 400_000, 300_000), strict=True):
        (tmp_path / name).write_bytes(bytes(size))

    assert list(problems(tmp_path)) == [
        "page.html: the page and its files have 1.60 MB, and the limit is 1.5 MB"
    ]


def test_a_style_that_fetches_a_font_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>", encoding="utf-8")
    (tmp_path / "a.css").write_text("@font-face { src: url(https://f.org/a.woff2) }", "utf-8")

    assert list(problems(tmp_path)) == ["a.css: fetches url(https://f.org/a.woff2)"]


def test_a_folder_without_pages_is_no_site(tmp_path: Path) -> None:
    assert list(problems(tmp_path)) == [f"{tmp_path} has no pages: run `make book`"]


def test_staging_leaves_nothing_of_an_earlier_book(tmp_path: Path, made: Book) -> None:
    (tmp_path / "old.md").touch()

    stage(made, ROOT, tmp_path)

    files = {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }
    scripts = {f".extra/live/{name}" for name in made.scripts}
    assert files == made.texts.keys() | set(made.copied) | scripts


def test_what_builds_the_book_is_pinned() -> None:
    lines = (SETTINGS / "requirements.txt").read_text(encoding="utf-8").splitlines()[1:]
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    asked = (SETTINGS / "requirements.in").read_text(encoding="utf-8")
    names = re.findall(r"^[\w.-]+", asked, re.MULTILINE)  # without comments and versions

    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert {name.lower() for name in names} <= pinned
