r"""Convert formulas to HTML without scripts: ``$\sum g\,(n - v)$`` becomes ∑ *g* (*n* − *v*).

Symbols come from IPython's table of LaTeX names. The module also understands ``^`` and ``_``,
braces, ``\text``, ``\operatorname``, ``\sqrt`` and spaces. For anything else, it raises an error.
It never outputs TeX.
"""

from __future__ import annotations

import re
from html import escape

from IPython.core.latex_symbols import latex_symbols

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_']|[a-zA-Z]+|[\d.]+|\s+|.")
_SPACES = {"\\,": "\u2009", "\\;": " ", "\\quad": "  ", "\\ ": " ", "\\!": ""}
_UPRIGHT = {"\\max", "\\min", "\\log", "\\exp", "\\operatorname", "\\text", "\\mathrm"}
# Symbols whose usual printed form is not in IPython's table.
_SIGNS = {"\\sum": "∑", "\\top": "⊤", "-": "−", "'": "′", "\\le": "≤", "\\ge": "≥", "\\to": "→"}
_SIGNS |= {
    "\\langle": "⟨",
    "\\rangle": "⟩",
    "\\circ": "∘",
    "\\partial": "∂",
    "\\sigma": "σ",
    "\\|": "‖",
}
_SCRIPTS = {"^": "sup", "_": "sub"}


class FormulaError(ValueError):
    """Raised when a formula cannot be converted.

    The message is one sentence that names the unsupported part.
    """


def with_formulas(text: str) -> str:
    """Return Markdown in which every formula ``$…$`` outside code is converted to HTML."""
    return re.sub(r"(```.*?```|`[^`\n]*`)|\$([^$\n]+)\$", _replaced, text, flags=re.DOTALL)


def _replaced(match: re.Match[str]) -> str:
    return match[1] or f'<span class="formula">{as_html(match[2])}</span>'


def as_html(formula: str) -> str:
    """Convert a formula to HTML. Raises :class:`FormulaError`."""
    tokens = _TOKEN.findall(formula.strip())
    parts = []
    while tokens:
        parts.append(_next(tokens, formula))
    return "".join(parts)


def _next(tokens: list[str], formula: str) -> str:
    """Take one unit from the tokens: a symbol, a group, or ``^`` or ``_`` with its argument."""
    token = tokens.pop(0)
    if token == "{":
        return _group(tokens, formula)
    if token in _SCRIPTS:
        tag = _SCRIPTS[token]
        return f"<{tag}>{_argument(tokens, formula)}</{tag}>"
    if token == "\\sqrt":
        index = _index(tokens, formula)
        return f'{index}√<span class="root">{_argument(tokens, formula)}</span>'
    if token in ("\\operatorname", "\\text", "\\mathrm"):
        return re.sub(r"</?i>", "", _argument(tokens, formula))
    if token in _UPRIGHT:
        return token[1:]
    return _symbol(token, formula)


def _group(tokens: list[str], formula: str) -> str:
    parts = []
    while tokens and tokens[0] != "}":
        parts.append(_next(tokens, formula))
    if not tokens:
        raise FormulaError(f"a brace is not closed in the formula {formula!r}")
    tokens.pop(0)
    return "".join(parts)


def _index(tokens: list[str], formula: str) -> str:
    """Return the degree of a root as the author wrote it, such as the 3 in ``\\sqrt[3]{x}``."""
    if not tokens or tokens[0] != "[":
        return ""
    if "]" not in tokens:
        raise FormulaError(f"a bracket is not closed in the formula {formula!r}")
    end = tokens.index("]")
    index = "".join(_symbol(token, formula) for token in tokens[1:end])
    del tokens[: end + 1]
    return f"<sup>{index}</sup>"


def _argument(tokens: list[str], formula: str) -> str:
    """Return the argument of a command or script (``^``, ``_``): a group or the next unit."""
    while tokens and tokens[0].isspace():
        tokens.pop(0)
    if not tokens:
        raise FormulaError(f"something is missing at the end of the formula {formula!r}")
    if tokens[0][0].isalnum() and len(tokens[0]) > 1:  # in TeX, only the a in x^ab is an exponent
        tokens[:1] = [tokens[0][0], tokens[0][1:]]
    return _next(tokens, formula)


def _symbol(token: str, formula: str) -> str:
    if token in _SPACES:
        return _SPACES[token]
    if token in _SIGNS:
        return _SIGNS[token]
    if token.isalpha():
        return f"<i>{token}</i>"
    if token in ("\\{", "\\}"):
        return token[1]
    if token.startswith("\\"):
        if token not in latex_symbols:
            raise FormulaError(f"{token} is not understood in the formula {formula!r}")
        return escape(latex_symbols[token])
    return escape(" " if token.isspace() else token)
