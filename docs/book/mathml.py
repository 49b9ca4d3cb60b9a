"""Write formulas as MathML, which browsers display without a script."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

# LaTeX commands that the lessons use and docutils does not know, and their replacements.
_WORDS = (
    (re.compile(r"\\dots(?![a-z])"), r"\\ldots"),
    (re.compile(r"\\tfrac\s*(\d)\s*(\d)"), r"\\tfrac{\1}{\2}"),
    (re.compile(r"\\textstyle\s*"), ""),
)
_DEFINES = re.compile(r"<mo>[:∶]</mo>\s*<mo>=</mo>")  # docutils splits the sign ":="


def mathml(tex: str, display: bool) -> str:
    """Return a formula as MathML. It includes the TeX source, so that readers can copy it."""
    known = tex.strip()
    for pattern, word in _WORDS:
        known = pattern.sub(word, known)
    code = _DEFINES.sub("<mo>≔</mo>", str(tex2mathml(known, as_block=display)))
    return code.replace("<math", f'<math data-tex="{escape(tex.strip())}"', 1)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(f'<span class="math">{mathml(node.astext(), False)}</span>')
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{mathml(node.astext(), True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer, which ``html_math_renderer`` selects."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
