"""The source of a function, where Python has the function's own."""

from __future__ import annotations

import inspect
import re
from types import CodeType
from typing import Any


def own_source(function: Any) -> tuple[list[str], int] | None:
    """Return the lines of a function's source and the number of the first, or ``None``.

    What Python gives need not be the function's: 3.13 takes the text behind ``python -c`` for the
    source of all that ``exec`` makes, there and in the workers of a test run.

    Args:
        function: A function, which may be wrapped.

    Returns:
        The lines and the number of the first.
    """
    try:
        function = inspect.unwrap(function)  # once_differentiable and custom_fwd wrap
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):  # made by exec, or by C
        return None
    code = getattr(function, "__code__", None)
    return (lines, first) if isinstance(code, CodeType) and _defines(lines, code.co_name) else None


# What a class, in its docstring and comments or by a name, says that its gradient is by design.
DESIGNS = {
    "a natural gradient": r"natural[\s_-]+gradient|natural_grad",
    "a straight-through estimator": r"straight[\s_-]*through",
    "a surrogate gradient": r"surrogate",
    "a reversed gradient": r"gradient[\s_-]+reversal|revers\w+ (the )?gradient|grad_?reverse",
    "a clipped gradient": r"(clip|clamp)\w*[\s_-]+(the |of )*grad|grad(ient)?s?[\s_-]+(clip|clamp)",
}


def stated_design(function: type) -> str:
    """Return what the source of a class says that its gradient is by design, ``""`` if nothing."""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return ""
    found = (what for what, words in DESIGNS.items() if re.search(words, text, re.IGNORECASE))
    return next(found, "")


def _defines(lines: list[str], name: str) -> bool:
    """Tell whether a function of this name is made in the lines."""
    maker = "lambda" if name == "<lambda>" else rf"def\s+{re.escape(name)}"
    return re.search(rf"\b{maker}\b", "".join(lines)) is not None
