"""The cheat sheet is built from tagged cells. It can be printed, and a check finds an old PDF."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from barepage import chromium_or_skip
from repository import ROOT

from tools import build as building
from tools import printing
from tools.build import build
from tools.cheat_sheet import TAG, cheat_sheet
from tools.check import drift
from tools.derived import LESSONS, SHEET
from tools.errors import AuthoringError
from tools.formulas import FormulaError, as_html, with_formulas
from tools.percent import parse, read
from tools.settings import Settings, read_settings

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

SETTINGS = Settings("someone/a_course", "trunk")
SAMPLE = f"""\
# %% [markdown]
# # 01 · Sample lesson
#
# **It takes** about 5 minutes.

# %% [markdown] tags=["{TAG}"]
# ## Summary
#
# ```python
# # the whole template
# y = F.apply(x)                    # never F(x)
# ```
#
# | | |
# | --- | --- |
# | backward | $g^\\top J$, not `$J$`; x < 0 |

# %% [markdown]
# ## Where next
"""


def sheet(text: str = SAMPLE) -> str:
    return cheat_sheet([parse(text, Path("01_sample.py"))], SETTINGS)


def test_a_tagged_cell_is_on_the_sheet_under_its_lessons_title() -> None:
    html = sheet()

    assert '<h2><span class="number">01</span> Sample lesson</h2>' in html
    assert "Summary" not in html
    assert "Where next" not in html
    assert "the whole template" in html
    assert "<i>g</i><sup>⊤</sup> <i>J</i>" in html
    assert "<code>$J$</code>; x &lt; 0" in html
    assert re.sub("<[^>]*>", "", html).count("F.apply(x)  # never F(x)") == 1


def test_without_a_tagged_cell_there_is_no_sheet() -> None:
    assert sheet(SAMPLE.replace(TAG, "other")) == ""


def test_the_sheet_needs_nothing_besides_itself() -> None:
    sources = [read(path) for path in sorted((ROOT / LESSONS).glob("*.py"))]
    html = cheat_sheet(sources, read_settings(ROOT))

    assert not re.search(r"\b(src|href)=|url\(|@import|<script|\$", html)
    numbers = re.findall(r'class="number">(\d\d)<', html)
    assert numbers == sorted(set(numbers))
    assert set(numbers) >= {f"{number:02}" for number in range(1, 8)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("$g^\\top J$", "$\\oint J$"), r"01_sample.py:\d+: \\oint is not understood"),
        (("$g^\\top J$", "$g^{2$"), "a brace is not closed"),
        (("# %% [markdown] tags", "# %% tags"), "a code cell is tagged cheat-sheet"),
    ],
    ids=["a symbol", "a brace", "code"],
)
def test_what_cannot_be_set_is_refused_with_its_line(change: tuple[str, str], words: str) -> None:
    with pytest.raises(AuthoringError, match=words):
        sheet(SAMPLE.replace(*change))


FORMULAS = {
    r"\sum g\,(n - v)": "∑ <i>g</i>\u2009(<i>n</i> − <i>v</i>)",
    r"f'(x)": "<i>f</i>′(<i>x</i>)",
    r"e^{m - m'}": "<i>e</i><sup><i>m</i> − <i>m</i>′</sup>",
    r"\operatorname{rowsum}(dO \circ O)": "rowsum(<i>dO</i> ∘ <i>O</i>)",
    r"\sqrt[3]{u}": '<sup>3</sup>√<span class="root"><i>u</i></span>',
    r"\sqrt n \le x_i": '√<span class="root"><i>n</i></span> ≤ <i>x</i><sub><i>i</i></sub>',
    r"x^ab < 1": "<i>x</i><sup><i>a</i></sup><i>b</i> &lt; 1",
    r"\tau": "τ",
}


@pytest.mark.parametrize(("formula", "html"), FORMULAS.items())
def test_formulas_become_letters_and_signs(formula: str, html: str) -> None:
    assert as_html(formula) == html


@pytest.mark.parametrize("formula", [r"\nosuch", "x^", "{x", r"\sqrt", r"\sqrt[3"])
def test_a_formula_that_is_not_understood_is_refused(formula: str) -> None:
    with pytest.raises(FormulaError, match="formula"):
        as_html(formula)


def test_code_keeps_its_dollars() -> None:
    assert with_formulas("`$a$` and\n```\n$b$\n```\n") == "`$a$` and\n```\n$b$\n```\n"


# The PDF


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a course with one lesson, whose only notebook is never executed here."""
    root = tmp_path / "course"
    (root / "notebooks").mkdir(parents=True)
    (root / "notebooks/01_sample.py").write_text(SAMPLE, encoding="utf-8")
    (root / "README.md").write_text("<!-- lessons -->\n<!-- /lessons -->\n", encoding="utf-8")
    table = '[tool.autograd-course]\nrepository = "someone/a_course"\nbranch = "trunk"\n'
    (root / "pyproject.toml").write_text(table, encoding="utf-8")
    return root


def built(root: Path) -> list[str]:
    said: list[str] = []
    build(root, run=lambda notebook, path: None, say=said.append)
    return [line for line in said if "cheat_sheet" in line]


def pretended(html: str, pdf: Path) -> bool:
    pdf.write_bytes(b"%PDF-1.4\n%%EOF\n" + printing.stamp(html) + b"\n")
    return True


def test_a_stale_print_is_drift_until_it_is_printed_again(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "print_pdf", pretended)
    assert built(course) == ["wrote docs/cheat_sheet.html", "printed docs/cheat_sheet.pdf"]
    assert built(course) == []
    lesson = course / "notebooks/01_sample.py"
    lesson.write_text(lesson.read_text().replace("never F(x)", "not F(x)"), encoding="utf-8")

    (stale,) = [line for line in drift(course) if "cheat_sheet.pdf" in line]
    assert stale == (
        "docs/cheat_sheet.pdf was not printed from cheat_sheet.html: run `make notebooks` "
        "where Chromium is installed"
    )

    built(course)
    assert not any("cheat_sheet" in line for line in drift(course))


def test_without_chromium_the_build_says_so_and_leaves_the_pdf(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printing, "find_chromium", lambda: None)
    old = course / SHEET.with_suffix(".pdf")
    old.parent.mkdir()
    old.write_bytes(b"old")

    assert built(course)[-1] == (
        "left docs/cheat_sheet.pdf as it was: there is no Chromium to print it with"
    )
    assert old.read_bytes() == b"old"


@pytest.mark.browser
def test_the_sheet_is_printed_on_two_pages_at_most(tmp_path: Path) -> None:
    chromium_or_skip()
    html = (ROOT / SHEET).read_text(encoding="utf-8")
    pdf = tmp_path / "sheet.pdf"

    assert printing.print_pdf(html, pdf)
    assert printing.is_current(pdf, html)
    assert not printing.is_current(pdf, html + " ")
    pages = re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())
    assert 1 <= len(pages) <= 2, "shorten a cell with the tag cheat-sheet, or split it"
