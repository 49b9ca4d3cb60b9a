"""The book's widgets work in a browser alone, without a kernel, a server or any other host."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from repository import ROOT
from shown_widgets import SHOWN, built

from autograd_course.quizzes import load
from autograd_course.visualize import ste_lab
from tools.book.answers import answers, spread
from tools.book.light import labeled, lighten, used_rules
from tools.book.live import LivePage, changes, record, recorded, scripts
from tools.book.recording import kind, state

STATIC = ROOT / "docs" / "book" / "_static"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
OUTCOME = 24.0
LIVE = [name for name in SHOWN if name not in ("knowledge-check", "vote")]
PLAYED = ["gradient-flow", "compared-flows", "function-lab", "memory-timeline", "attention-tiles"]
# The STE lab trains a network for each answer, so only seeds 0 to 2 are included.
ANSWERS = {"ste-lab": 3}
APART = 2000  # pixels, so that no page loads more widgets than its test scrolls to
COLAB = "https://colab.research.google.com/x"

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.checkout]


def states() -> dict[int, list[dict[str, Any]]]:
    """Return the data that the book loads for each widget, by the widget's position on the page."""
    shown = {}
    for place, name in enumerate(LIVE):
        widget = built()[name]
        widget.left()
        saved = json.loads(json.dumps(state(widget)))
        some = list(islice(answers(widget), ANSWERS.get(name)))
        shown[place] = [{"kind": kind(widget), "state": saved, "answers": some}]
    return shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with every widget as the book loads it, and return the page's path."""
    root = tmp_path_factory.mktemp("site")
    # In another test's process, torch.compile may have disabled something that the lab records.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        shown = pool.submit(states).result()
    shown[len(LIVE)] = [{"kind": "predict", "state": {"outcome": OUTCOME}, "answers": []}]
    live = LivePage("notebooks/page.ipynb", COLAB, shown)
    cells = []
    for place, name in enumerate([*LIVE, "predict"]):
        (element,) = live.widgets(place)
        cells.append(
            f'<div id="{name}" class="cell_output"><div class="output">{element}</div>'
            f'<img src="{PICTURE}" alt="{name}" width="40" height="40"></div>'
        )
    for name, element in (
        ("knowledge-check", live.knowledge_check("01")),
        ("vote", live.vote("02", "saved-as-attribute")),
    ):
        questions = '<div class="questions">The questions.</div>'
        cells.append(f'<div id="{name}">{element}{questions}</div>')
    head = (
        "<!doctype html><meta charset=utf-8><link rel=stylesheet href=../_static/book.css>"
        f"<style>[id] {{ min-height: {APART}px }}</style>"
        "<script defer src=../_static/live.js></script>"
    )
    shutil.copytree(STATIC, root / "_static")
    for folder in ("notebooks", "live"):
        (root / folder).mkdir()
    page = root / "notebooks" / "page.html"
    page.write_text(head + "".join(cells), encoding="utf-8")
    for name, text in {**scripts(ROOT), **live.files}.items():
        (root / "live" / name).write_text(text, encoding="utf-8")
    return page


@contextmanager
def opened(browser: Browser, site: Path, still: bool = True, **options: object) -> Iterator[Page]:
    """Open the page. It must not load anything from elsewhere, and no error may occur."""
    motion = "reduce" if still else "no-preference"
    context = browser.new_context(reduced_motion=motion, **options)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type != "log" else None)
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:")) else wrong.append(asked.url),
    )
    page.goto(site.as_uri())
    yield page
    context.close()
    assert wrong == []


@pytest.mark.parametrize("name", LIVE)
def test_a_widget_takes_the_place_of_its_picture_and_follows_keys(
    name: str, browser: Browser, site: Path
) -> None:
    shown = SHOWN[name]
    with opened(browser, site) as page:
        cell = page.locator(f"#{name}")
        cell.scroll_into_view_if_needed()
        expect(cell.locator(shown.root)).to_contain_text(shown.opens)
        expect(cell.locator("img")).to_be_hidden()
        cell.locator(shown.control).first.press(shown.key)
        expect(cell.locator(shown.root)).to_contain_text(shown.visible or shown.says)


@pytest.mark.parametrize("name", PLAYED)
def test_a_widget_steps_plays_and_scrubs(name: str, browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        cell = page.locator(f"#{name}")
        cell.scroll_into_view_if_needed()
        scrubber, count = cell.get_by_label("step", exact=True), cell.locator(".ac-count")
        scrubber.press("Home")
        expect(count).to_contain_text("0 /")
        cell.get_by_label("Step forward (right arrow)").click()
        expect(count).to_contain_text("1 /")
        cell.get_by_label("Play (space)").click()
        expect(count).to_contain_text("3 /")
        cell.get_by_label("Pause (space)").click()
        scrubber.fill("2")
        expect(count).to_contain_text("2 /")


def test_sliders_of_a_flow_move_one_at_a_time(browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        flow = page.locator("#gradient-flow")
        flow.get_by_label("input x").fill("35")
        expect(flow.locator(".agf-sliders")).to_contain_text("x = 3")
        flow.get_by_label("input x").press("ArrowRight")
        page.wait_for_timeout(400)  # the widget asks when the pointer stops
        flow.get_by_label("input y").press("ArrowRight")
        expect(flow.locator(".ac-notice")).to_contain_text("one input moves at a time")
        expect(flow.locator(".agf-sliders")).to_contain_text("x = 2")


def test_a_module_unfolds(browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        flow = page.locator("#folded-flow")
        flow.scroll_into_view_if_needed()
        folded = flow.locator("[data-node]").count()
        flow.get_by_text("▸").first.click()
        expect(flow.locator("[data-node]")).not_to_have_count(folded)


def test_the_function_lab_answers_what_the_run_has_found_out(browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        lab = page.locator("#function-lab")
        lab.scroll_into_view_if_needed()
        lab.get_by_label("Function", exact=True).select_option("CalmSquare")
        expect(lab.locator(".ac-lab-verdict")).to_contain_text("1 from backward")
        lab.get_by_label("grad_output").press("End")
        expect(lab.locator(".ac-lab-sent")).to_contain_text("grad_output ∂ 3")


def test_the_nets_train_and_what_has_not_run_needs_python(browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        lab, needs = page.locator("#ste-lab"), page.locator("#ste-lab .needs-kernel")
        lab.scroll_into_view_if_needed()
        lab.get_by_label("Random start").select_option(label="2")
        expect(lab.locator(".ac-ste-train")).to_have_text("Train")
        lab.locator(".ac-ste-train").click()
        expect(lab.locator(".ac-ste-told")).to_have_text("step 150 of 150")
        expect(needs).to_be_hidden()
        lab.get_by_label("Forward", exact=True).select_option("round")
        expect(needs).to_have_text(
            "This control needs Python: open this page in Colab or in JupyterLab."
        )
        links = [link.get_attribute("href") for link in needs.get_by_role("link").all()]
        assert links == [COLAB, "../docs/installing.html"]
        expect(lab.get_by_label("Forward", exact=True)).to_have_value("sign")


@pytest.mark.thorough
def test_each_start_of_the_first_nets_is_trained_and_one_of_the_others() -> None:
    lab = ste_lab("sign", "clipped")
    others = [name for name, _ in lab.sweep["quantizers"] if name != "sign"]

    asked = [tuple(answer["asked"].values()) for answer in answers(lab)]

    starts = [("sign", place, seed) for place in ("activations", "weights") for seed in range(5)]
    firsts = [(name, place, 0) for name in others for place in ("activations", "weights")]
    assert asked == starts + firsts


def test_an_answer_is_kept_in_the_browser(browser: Browser, site: Path) -> None:
    first = load("01").questions[0]
    (letter,) = (name for name, option in first.lettered.items() if option.right)
    with opened(browser, site) as page:
        check, vote = page.locator("#knowledge-check"), page.locator("#vote")
        check.scroll_into_view_if_needed()
        check.locator(f"input[value={letter}]").first.check()
        check.get_by_role("button", name="Check", exact=True).first.click()
        expect(check.locator(".ac-quiz-summary")).to_contain_text("1 of 12 right")
        vote.scroll_into_view_if_needed()
        vote.locator(".ac-vote-option").first.click()
        guess = page.locator("#predict")
        guess.scroll_into_view_if_needed()
        guess.get_by_role("textbox").fill("23")
        guess.get_by_role("button").click()
        expect(guess).to_contain_text("It is not 23.")
        guess.get_by_role("textbox").fill("24")
        guess.get_by_role("button").click()
        expect(guess).to_contain_text("Yes: 24.")

        page.reload()
        for cell in (check, vote, guess):
            cell.scroll_into_view_if_needed()
            expect(cell.locator(".live-shown")).to_be_visible()

        expect(check.locator(".ac-quiz-summary")).to_contain_text("1 of 12 right")
        expect(check.locator(".questions")).to_be_hidden()
        expect(vote).to_contain_text("You voted for a, and your browser keeps your vote.")
        expect(guess).to_contain_text("Yes: 24.")


def test_a_widget_follows_the_page_into_the_dark(browser: Browser, site: Path) -> None:
    with opened(browser, site) as page:
        root = page.locator("#gradient-flow .agf")
        color = "element => getComputedStyle(element).getPropertyValue('--ac-value').trim()"
        assert root.evaluate(color) == "#00609a"
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.wait_for_function("document.querySelector('.live-shown')")
        assert root.evaluate(color) == "#7cc4f5"


def test_without_javascript_the_reader_sees_pictures_and_questions(
    browser: Browser, site: Path
) -> None:
    with opened(browser, site, java_script_enabled=False) as page:
        expect(page.get_by_alt_text("gradient-flow")).to_be_visible()
        expect(page.locator("#vote .questions")).to_be_visible()
        expect(page.locator(".needs-kernel").first).to_be_hidden()


def test_the_files_of_a_widget_are_the_same_each_time() -> None:
    made = [LivePage("notebooks/a.ipynb", COLAB) for _ in range(2)]

    first, second = (page.knowledge_check("01") for page in made)

    assert first == second
    assert made[0].files == made[1].files


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": {"=": 3}}),
        ([1, [2, 3]], [1, [2, 4]], {"1": {"1": {"=": 4}}}),
        ([1], [1, 2], {"=": [1, 2]}),
        ({"a": 1}, {"a": 1}, {}),
    ],
)
def test_an_answer_is_saved_as_its_changes(before: object, after: object, patch: object) -> None:
    assert changes(before, after) == patch


def test_a_slider_keeps_its_ends_and_its_place() -> None:
    values = [i / 10 for i in range(61)]

    assert spread(values, 31) == [0.0, 0.8, 1.5, 2.2, 3.1, 3.8, 4.5, 5.2, 6.0]


def test_a_lesson_runs_once_and_its_widgets_are_found_by_their_cells(tmp_path: Path) -> None:
    code = nbformat.v4.new_code_cell
    cells = [
        nbformat.v4.new_markdown_cell("# A"),
        code("import torch\nfrom autograd_course.visualize import gradient_flow"),
        code("from autograd_course.lesson import predict\npredict(..., 2.0)"),
        code("gradient_flow(torch.sin, torch.tensor(1.0))"),
    ]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "a.ipynb")
    (tmp_path / "tools").symlink_to(ROOT / "tools")

    assert recorded(tmp_path, "notebooks/a.ipynb") == {}
    assert record(tmp_path, ["notebooks/a.ipynb"]) == []

    found = recorded(tmp_path, "notebooks/a.ipynb")
    assert {place: shown[0]["kind"] for place, shown in found.items()} == {2: "predict", 3: "flow"}
    assert found[2][0]["state"] == {"outcome": 2.0}


# Remove from a page what it does not need


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".used{a:b}.other{c:d}", ".used{a:b}"),
        (".used,.other{a:b}", ".used{a:b}"),
        ("p:not(.other){a:b}", "p:not(.other){a:b}"),
        ("@media print{.other{a:b}}p{c:d}", "p{c:d}"),
        ("@font-face{src:url(a.woff)}", "@font-face{src:url(a.woff)}"),
        ('.used:before{content:"}"}.other{a:b}', '.used:before{content:"}"}'),
    ],
)
def test_a_style_sheet_keeps_what_a_page_uses(css: str, kept: str) -> None:
    assert used_rules(css, {"used"}) == kept


def test_a_page_loads_no_search_index_and_no_script_before_its_text(tmp_path: Path) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "documentation_options.js").write_text("const a = 1;")
    (tmp_path / "page.html").write_text(
        '<script src="_static/documentation_options.js?v=1"></script>'
        '<script src="_static/copybutton.js"></script><script src="searchindex.js"></script>'
        '<img src="_images/a.svg" alt="a"><img src="_images/b.svg" alt="b">'
    )

    lighten(tmp_path)

    assert (tmp_path / "page.html").read_text() == (
        "<script>const a = 1;</script>\n"
        '<script defer src="_static/copybutton.js"></script>\n'
        '<img src="_images/a.svg" alt="a" fetchpriority="high">'
        '<img src="_images/b.svg" alt="b" loading="lazy">'
    )


def test_a_narrow_page_shows_a_plot_large_enough_for_its_labels(tmp_path: Path) -> None:
    (tmp_path / "_images").mkdir()
    Image.new("L", (880, 330)).save(tmp_path / "_images" / "a.png", dpi=(110, 110))
    (tmp_path / "page.html").write_text('<img alt="a" class="plot" src="_images/a.png">')

    lighten(tmp_path)

    page = (tmp_path / "page.html").read_text()
    assert page.startswith('<div class="scrolls"><img alt="a" class="plot" src="_images/a.png"')
    assert 'style="--legible: 704px"' in page  # 88 for each inch


def test_the_search_page_runs_its_scripts_in_the_order_of_the_page(tmp_path: Path) -> None:
    scripts = ["doctools.js", "searchtools.js", "searchindex.js"]
    (tmp_path / "search.html").write_text("".join(f'<script src="{s}"></script>' for s in scripts))

    lighten(tmp_path)

    found = re.findall(r'<script (\w+) src="([^"]*)"', (tmp_path / "search.html").read_text())
    assert found == [("defer", script) for script in scripts]


def test_without_javascript_a_page_has_a_theme(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<html lang="en"><body></body></html>')

    lighten(tmp_path)

    assert (tmp_path / "page.html").read_text().startswith('<html data-theme="light" lang="en">')


def test_each_cell_of_a_table_knows_the_name_of_its_column() -> None:
    head = "<thead><tr><th><p>Rule</p></th><th></th></tr></thead>"
    body = "<tr><td>a</td><td>b</td></tr><tr><td>c</td></tr>"

    assert labeled(f'<table class="table">{head}{body}</table>') == (
        f'<table class="table">{head}<tr><td data-label="Rule">a</td><td data-label="">b</td></tr>'
        '<tr><td data-label="Rule">c</td></tr></table>'
    )


def test_the_excerpt_of_a_search_result_comes_from_the_text_of_the_page(tmp_path: Path) -> None:
    script = tmp_path / "_static" / "searchtools.js"
    script.parent.mkdir()
    script.write_text("page.querySelector('[role=\"main\"]')")

    lighten(tmp_path)

    assert script.read_text() == "page.querySelector('.bd-article')"
