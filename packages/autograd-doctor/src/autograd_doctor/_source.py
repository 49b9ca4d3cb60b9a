"""The source code of a function, if Python can find the correct source."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tokenize import TokenError
from types import CodeType
from typing import Any, TypeGuard

# Python raises these errors for code without a file, and for code whose file has changed.
NO_SOURCE = (OSError, TypeError, SyntaxError, TokenError)


def own_source(function: Any) -> tuple[list[str], int] | None:
    """Return the lines of a function's source and the number of its first line, or ``None``.

    Python sometimes returns the wrong source. After ``python -c``, Python 3.13 returns the source
    of the command for all code that ``exec`` creates. This also happens in the worker processes of
    a test run. In such cases, return ``None``.

    Args:
        function: A function, possibly wrapped by decorators.

    Returns:
        The lines, and the number of the first line.
    """
    try:
        function = inspect.unwrap(function)  # once_differentiable and custom_fwd wrap the function
        lines, first = inspect.getsourcelines(function)
    except NO_SOURCE:
        return None
    code = getattr(function, "__code__", None)
    return (lines, first) if isinstance(code, CodeType) and _defines(lines, code.co_name) else None


@dataclass(frozen=True)
class SavedArguments:
    """The source of the arguments in a call to ``save_for_backward``, and the call's first line."""

    names: tuple[str, ...]
    line: str


def saved_arguments(function: type) -> SavedArguments | None:
    """Return the source of the arguments that a Function passes to ``save_for_backward``.

    The result is ``None`` unless the source contains exactly one call to ``save_for_backward``.

    Args:
        function: A Function. The search covers its ``setup_context`` and its ``forward``.

    Returns:
        The arguments of the call, none of which are starred.
    """
    found = []
    for text in _sources(function, ("setup_context", "forward")):
        for node in ast.walk(_tree_of(text)):
            match node:
                case ast.Call(ast.Attribute(_, "save_for_backward"), args):
                    found.append((node, args, text))
    if len(found) != 1 or any(isinstance(arg, ast.Starred) for arg in found[0][1]):
        return None
    node, args, text = found[0]
    line = text.splitlines()[node.lineno - 1].strip()
    return SavedArguments(tuple(ast.unparse(arg) for arg in args), line)


def line_with(
    function: type, words: str, methods: Sequence[str] = ("setup_context", "forward")
) -> str:
    """Return the first line in a class's methods that contains these words, or ``""``.

    The search includes the functions in the same module that these methods call.
    """
    found = re.compile(r"(?<![\w.])" * words[0].isalpha() + re.escape(words))
    for text in _sources(function, methods):
        for line in text.splitlines():
            code = line.split("#")[0].strip()
            if found.search(code):
                return code
    return ""


def shared_helper(function: type, line: str) -> str:
    """Return the function that contains this line and that ``forward`` and ``backward`` both call.

    Return ``""`` if there is none.
    """
    in_forward = dict(_helpers(function, "forward"))
    for name, text in _helpers(function, "backward"):
        inside = any(it.split("#")[0].strip() == line for it in text.splitlines())
        if inside and name in in_forward:
            return name
    return ""


# Functions of ``torch`` that create a tensor in the default dtype, unless the call passes a dtype.
CREATORS = ("zeros", "ones", "empty", "full", "eye", "rand", "randn", "linspace")


def line_without_dtype(function: type) -> str:
    """Return the first line in a Function that creates a tensor without a dtype, or ``""``.

    The search covers ``forward``, ``setup_context`` and the functions in the same module that they
    call.
    """
    for text in _sources(function, ("forward", "setup_context")):
        found = [node.lineno for node in ast.walk(_tree_of(text)) if _is_without_dtype(node)]
        if found:
            return text.splitlines()[min(found) - 1].split("#")[0].strip()
    return ""


def _is_without_dtype(node: ast.AST) -> TypeGuard[ast.Call]:
    match node:
        case ast.Call(ast.Attribute(ast.Name("torch"), name), _, keywords) if name in CREATORS:
            # ``**kwargs`` may contain a dtype
            return not any(keyword.arg in ("dtype", "out", None) for keyword in keywords)
    return False


def _sources(function: type, methods: Sequence[str]) -> Iterator[str]:
    """Yield the source of some methods, and of the functions in the same module that they call."""
    for name in methods:
        method = inspect.unwrap(getattr(function, name))
        known = own_source(method)
        if known is None:
            continue
        yield "".join(known[0])
        yield from (text for _, text in _helpers(function, name))


def _helpers(function: type, method: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the source of the functions in the same module that a method calls."""
    caller = inspect.unwrap(getattr(function, method))
    if own_source(caller) is None:
        return
    around = getattr(caller, "__globals__", {})
    for name in caller.__code__.co_names:
        held = inspect.unwrap(it) if callable(it := around.get(name)) else None
        if getattr(held, "__globals__", None) is around and (found := own_source(held)):
            yield name, "".join(found[0])


def _tree_of(text: str) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


# Deliberate gradient designs that a class may mention in its docstring, its comments or a name.
DESIGNS = {
    "a natural gradient": r"natural[\s_-]+gradient|natural_grad",
    "a straight-through estimator": r"straight[\s_-]*through",
    "a surrogate gradient": r"surrogate",
    "a reversed gradient": r"gradient[\s_-]+reversal|revers\w+ (the )?gradient|grad_?reverse",
    "a clipped gradient": r"(clip|clamp)\w*[\s_-]+(the |of )*grad|grad(ient)?s?[\s_-]+(clip|clamp)",
}


def stated_design(function: type) -> str:
    """Return the deliberate gradient design that a class's source mentions, or ``""`` if none."""
    try:
        text = inspect.getsource(function)
    except NO_SOURCE:
        return ""
    found = (what for what, words in DESIGNS.items() if re.search(words, text, re.IGNORECASE))
    return next(found, "")


def _defines(lines: list[str], name: str) -> bool:
    """Return whether the lines define a function with this name."""
    maker = "lambda" if name == "<lambda>" else rf"def\s+{re.escape(name)}"
    return re.search(rf"\b{maker}\b", "".join(lines)) is not None
