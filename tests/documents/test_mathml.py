"""Formulas become MathML. docutils gets commands that it knows, and the source stays readable.

docutils and Sphinx are installed only in the book's environment, so a stand-in replaces them here.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from types import ModuleType
from unittest.mock import MagicMock

import pytest
from repository import ROOT

Converter = Callable[[str, bool], str]


@pytest.fixture
def mathml(monkeypatch: pytest.MonkeyPatch) -> Converter:
    """Return the converter with a fake docutils that only records its input."""
    for name in ("docutils", "docutils.utils", "docutils.utils.math", "sphinx"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    latex = ModuleType("latex2mathml")
    latex.tex2mathml = lambda tex, as_block: f"<math {as_block}>{tex}</math>"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "docutils.utils.math.latex2mathml", latex)
    monkeypatch.setitem(sys.modules, "sphinx.application", MagicMock())
    converter: Converter = runpy.run_path(str(ROOT / "docs" / "book" / "mathml.py"))["mathml"]
    return converter


@pytest.mark.parametrize(
    ("tex", "known"),
    [
        (r" x^2 ", "x^2"),
        (r"x_1, \dots, x_N", r"x_1, \ldots, x_N"),
        (r"a \dotsb b", r"a \dotsb b"),
        (r"\tfrac12 x", r"\tfrac{1}{2} x"),
        (r"\tfrac 1 2 x", r"\tfrac{1}{2} x"),
        (r"\textstyle \sum_i x_i", r"\sum_i x_i"),
    ],
)
def test_docutils_gets_words_that_it_knows(tex: str, known: str, mathml: Converter) -> None:
    assert mathml(tex, False).partition(">")[2] == f"{known}</math>"


def test_the_source_stays_in_the_formula_for_readers_who_copy_it(mathml: Converter) -> None:
    assert mathml(r'x < "y" \dots', True).startswith(
        r'<math data-tex="x &lt; &quot;y&quot; \dots" True>'
    )
