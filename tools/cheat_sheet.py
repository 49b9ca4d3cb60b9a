"""The cheat sheet: the summary cells from the lessons on one sheet of paper.

The sheet contains each Markdown cell with the tag ``cheat-sheet``, below the title of its lesson.
It is one self-contained HTML file, which :mod:`~tools.printing` converts to a PDF.
"""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.errors import AuthoringError
from tools.formulas import FormulaError, with_formulas
from tools.lessons import title_of
from tools.percent import Cell, Source
from tools.settings import Settings

TAG = "cheat-sheet"
TITLE = "Custom autograd Functions in PyTorch"
_FORMATTER = HtmlFormatter(nowrap=True, style="friendly")


def cheat_sheet(lessons: list[Source], settings: Settings) -> str:
    """Return the sheet as HTML, or an empty string if no cell has the tag.

    Raises AuthoringError if a tagged cell is not Markdown, or if it contains a formula that cannot
    be written without TeX.
    """
    sections = [_section(source) for source in lessons]
    if not any(sections):
        return ""
    style = files(__package__).joinpath("cheat_sheet.css").read_text(encoding="utf-8")
    colors = _FORMATTER.get_style_defs("pre")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{TITLE} · cheat sheet</title>\n"
        "<!-- `make notebooks` writes this page from the lessons. Do not edit it. -->\n"
        f"<style>\n{colors}\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{TITLE}</h1><p>github.com/{escape(settings.repository)}</p></header>\n"
        f"<main>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _section(source: Source) -> str:
    tagged = [cell for cell in source.cells if TAG in cell.tags]
    if not tagged:
        return ""
    number = f'<span class="number">{source.path.stem.partition("_")[0]}</span>'
    body = "".join(_html(cell, source) for cell in tagged)
    return f"<section>\n<h2>{number} {escape(title_of(source))}</h2>\n{body}</section>\n"


def _html(cell: Cell, source: Source) -> str:
    if cell.is_code:
        raise AuthoringError(
            source.path, cell.line, f"a code cell is tagged {TAG}", "tag the summary, a text cell"
        )
    text = re.sub(r"^##+ .*\n", "", cell.source, flags=re.MULTILINE)
    try:
        text = with_formulas(text)
    except FormulaError as error:
        raise AuthoringError(
            source.path, cell.line, str(error), "write it in Unicode, or teach formulas.py"
        ) from None
    rules = MarkdownIt("commonmark", {"highlight": _highlighted}).enable("table")
    html = str(rules.render(text))
    return re.sub(r"<thead>\s*<tr>\s*(<th></th>\s*)+</tr>\s*</thead>\s*", "", html)


def _highlighted(code: str, language: str, _: str) -> str:
    """Return code as colored HTML.

    To save space, the comments are closer to the code than in a notebook.
    """
    nearer = re.sub(r"(?<=\S) {2,}#", "  #", code)
    return str(highlight(nearer, PythonLexer(), _FORMATTER))
