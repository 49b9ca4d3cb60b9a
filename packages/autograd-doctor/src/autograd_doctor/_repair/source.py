"""A method in the author's source file, before and after an edit."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from torch.autograd import Function
from torch.autograd.function import once_differentiable

from autograd_doctor._execution.calls import subclass_of, takes_ctx
from autograd_doctor._repair.edits import Edit, Scope, made_together, scope_of
from autograd_doctor._source import own_source
from autograd_doctor.repair import Change, patched


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a Function, and its source code.

    ``first`` is the number of the method's first line in ``file``, and ``indent`` is the whitespace
    before that line. ``free`` holds the names in the method's closure. ``function`` is ``None`` if
    only the source is known. If this is a helper function in the same module, ``owners`` holds the
    methods that call it.
    """

    name: str
    file: str
    lines: tuple[str, ...]
    first: int
    indent: int
    tree: ast.FunctionDef
    ctx: str  # the method's name for ctx, or "" if it has no ctx
    function: FunctionType | None = None
    free: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()

    def compiled(self) -> FunctionType | None:
        """Compile the method from its syntax tree. Return ``None`` if Python rejects the tree."""
        free = self.free
        at: Any = {"lineno": 1, "col_offset": 0}
        tree = self.tree
        body: list[ast.stmt] = [ast.FunctionDef(tree.name, tree.args, tree.body, [], None, **at)]
        if free:  # an enclosing function turns these names into free variables again
            names = [ast.arg(name, **at) for name in free]
            around = ast.arguments([], names, None, [], [], None, [])
            body = [ast.FunctionDef("around", around, body, [], None, **at)]
        try:
            code = compile(ast.Module(body, []), self.file, "exec")
        except (SyntaxError, ValueError, TypeError):
            return None
        for name in ("around", self.tree.name) if free else (self.tree.name,):
            code = next(
                it for it in code.co_consts if isinstance(it, CodeType) and it.co_name == name
            )
        own: Any = self.function
        cells = dict(zip(free, own.__closure__ or (), strict=True))
        made = FunctionType(
            code,
            own.__globals__,
            own.__name__,
            own.__defaults__,
            tuple(cells[name] for name in code.co_freevars),
        )
        made.__kwdefaults__ = own.__kwdefaults__
        return made


Fix = tuple[tuple[Method, Edit], ...]
"""Edits that are applied together. Each edit comes with the method that it changes."""


def method_of(function: type[Function], name: str) -> Method | None:
    """Return a method of a Function, or ``None`` if its source is not a plain ``def``."""
    held = inspect.getattr_static(function, name, None)
    plain = inspect.unwrap(getattr(held, "__func__", held)) if held is not None else None
    if not isinstance(plain, FunctionType) or (plain.__module__ or "").startswith("torch."):
        return None
    with_ctx = name != "forward" or takes_ctx(function)
    return function_as_method(plain, name, with_ctx=with_ctx)


def function_as_method(function: Any, name: str, *, with_ctx: bool) -> Method | None:
    """Return a plain function as a :class:`Method`, or ``None`` if its source is unknown."""
    known = own_source(function) if isinstance(function, FunctionType) else None
    if known is None:
        return None
    lines, first = known
    try:
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.FunctionDef) or not tree.args.args:
        return None
    indent = len(lines[0]) - len(lines[0].lstrip())
    ctx = tree.args.args[0].arg if with_ctx else ""
    code = function.__code__
    return Method(
        name, code.co_filename, tuple(lines), first, indent, tree, ctx, function, code.co_freevars
    )


def helpers_of(methods: Mapping[str, Method]) -> Iterator[Method]:
    """Yield the functions in the same module that the methods call."""
    callers: dict[str, list[Method]] = {}
    for method in methods.values():
        for name in dict.fromkeys(_called_in(method.tree)):
            callers.setdefault(name, []).append(method)
    for name, owners in callers.items():
        function: Any = owners[0].function
        known = function.__globals__ if function else {}
        held = known.get(name)
        if held is None or getattr(held, "__globals__", None) is not known:
            continue
        found = function_as_method(held, name, with_ctx=False)
        if found is not None and name not in METHODS:
            yield replace(found, owners=tuple(owner.name for owner in owners))


def _called_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def with_helpers(function: FunctionType, helpers: Mapping[str, Any]) -> FunctionType:
    """Return a copy of a function that calls replacements for some of its helper functions."""
    made = FunctionType(
        function.__code__,
        {**function.__globals__, **helpers},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def methods_in(source: str, name: str, file: str) -> Mapping[str, Method]:
    """Extract the methods of a class from the source of its module, without running the source.

    Args:
        source: The source of a module or of a notebook cell.
        name: The name of the class. If it is defined several times, the last definition counts.
        file: Python's name for the file.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return {}
    classes = [it for it in body if isinstance(it, ast.ClassDef) and it.name == name]
    defined = [
        it for it in (classes[-1].body if classes else ()) if isinstance(it, ast.FunctionDef)
    ]
    found = {it.name: it for it in defined if it.name in METHODS and it.args.args}
    lines = source.splitlines(keepends=True)
    methods = {}
    for node in found.values():
        first = min([node.lineno, *(it.lineno for it in node.decorator_list)])
        own = lines[first - 1 : node.end_lineno]
        (tree,) = ast.parse(textwrap.dedent("".join(own))).body
        assert isinstance(tree, ast.FunctionDef)
        with_ctx = node.name != "forward" or "setup_context" not in found
        ctx = tree.args.args[0].arg if with_ctx else ""
        indent = len(own[0]) - len(own[0].lstrip())
        methods[node.name] = Method(node.name, file, tuple(own), first, indent, tree, ctx)
    return {known: methods[known] for known in METHODS if known in methods}


def with_sources(function: type[Function], sources: Mapping[str, str]) -> type[Function] | None:
    """Return a subclass whose methods are compiled from new source, or ``None`` if that fails."""
    made: dict[Method, FunctionType] = {}
    for name, text in sources.items():
        method = method_of(function, name)
        if method is None:
            return None
        try:
            (tree,) = ast.parse(text).body
        except (SyntaxError, ValueError):
            return None
        if not isinstance(tree, ast.FunctionDef):
            return None
        other = replace(method, tree=tree)
        compiled = other.compiled()
        if compiled is None:
            return None
        made[other] = compiled
    return with_methods(function, made)


METHODS = ("backward", "setup_context", "forward", "vmap")


def kept_on_ctx(methods: Sequence[Method]) -> tuple[str, ...]:
    """Return the attributes that some methods set on their ctx, such as ``gain``."""
    return tuple(
        node.attr
        for method in methods
        for node in ast.walk(method.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == method.ctx
    )


def scope_in(method: Method, methods: Sequence[Method]) -> Scope:
    """Return the scope of a method, including the attributes that forward stores on ctx."""
    others = [it for it in methods if it is not method and method.name == "backward"]
    on_ctx = kept_on_ctx(others) if method.ctx else ()
    known = [*method.free, *(f"{method.ctx}.{name}" for name in on_ctx)]
    return scope_of(method.tree, method.ctx, known, [it.tree for it in others])


def with_methods(
    function: type[Function], methods: Mapping[Method, FunctionType]
) -> type[Function]:
    """Return a subclass with some methods replaced. The original class does not change.

    Take the methods' decorators from their syntax trees.
    """
    subclass = subclass_of(function, __qualname__=function.__qualname__)
    for method, new in methods.items():
        name = function.__name__
        made: Any = new
        if name in new.__code__.co_names and new.__globals__.get(name) is function:
            made = with_helpers(new, {name: subclass})  # the class's name now means the subclass
        decorators = [ast.unparse(it) for it in method.tree.decorator_list]
        if any("once_differentiable" in it for it in decorators):
            made = once_differentiable(made)
        held = inspect.getattr_static(function, method.name)
        if isinstance(held, staticmethod) or "staticmethod" in decorators:
            made = staticmethod(made)
        setattr(subclass, method.name, made)
    return subclass


# --------------------------------------------------------------------------------------------------
# Edits as text: the author's lines, changed only where an edit applies.
# --------------------------------------------------------------------------------------------------

Span = tuple[int, int, int, int]  # first line and column, last line and column; lines count from 1


def changes_of(method: Method, edits: Sequence[Edit]) -> tuple[Change, ...]:
    """Return the changes to the source file, or ``()`` if the edits cannot be written into it."""
    written = [_written(method, edit) for edit in edits]
    known = sorted((it for it in written if it is not None), reverse=True)
    if len(known) < len(edits):
        return ()
    if any(a[0][:2] < b[0][2:] for a, b in pairwise(known) if a[0] != b[0]):
        return ()  # two spans overlap
    lines = [line.rstrip("\n") for line in method.lines]
    groups: list[list[tuple[Span, str]]] = []
    for span, text in known:  # from the last span to the first
        if groups and span[2] >= groups[-1][-1][0][0]:
            groups[-1].append((span, text))
        else:
            groups.append([(span, text)])
    changes = []
    for group in reversed(groups):
        top, bottom = group[-1][0][0], group[0][0][2]
        part = lines[top - 1 : bottom]
        for span, text in group:
            part = _replaced(part, span, text, top, method.indent)
        changes.append(Change(method.first + top - 1, tuple(lines[top - 1 : bottom]), tuple(part)))
    with made_together(edits):
        wanted = ast.dump(method.tree)
    return tuple(changes) if _means(method, changes, wanted) else ()


def _written(method: Method, edit: Edit) -> tuple[Span, str] | None:
    """Return the span that an edit replaces and the new code, or ``None`` if unknown."""
    with edit.made():
        wanted = ast.dump(method.tree)
    for span, text in _texts(method, edit):
        top, bottom = span[0], span[2]
        before = tuple(line.rstrip("\n") for line in method.lines[top - 1 : bottom])
        after = _replaced(list(before), span, text, top, method.indent)
        change = Change(method.first + top - 1, before, tuple(after))
        if _means(method, [change], wanted):
            return span, text
    return None


def _texts(method: Method, edit: Edit) -> Iterator[tuple[Span, str]]:
    """Yield the possible ways to write an edit, each as a span to replace and its new code."""
    if isinstance(edit.new, tuple):
        yield from _inserted(method, edit, edit.new)
        return
    is_expression = isinstance(edit.new, ast.expr | ast.stmt)
    old: Any = edit.old if is_expression else edit.place[0]
    if getattr(old, "end_lineno", None) is None:
        return
    with edit.made():
        text = ast.unparse(edit.new if is_expression else old)
    if any(node is edit.new for node in ast.walk(old)):  # in the author's style
        source = textwrap.dedent("".join(method.lines))
        text = ast.get_source_segment(source, edit.new) or text
    if isinstance(edit.new, ast.Constant) and method.lines[old.lineno - 1].count('"'):
        text = text.replace("'", '"')
    value = edit.new.value if isinstance(edit.new, ast.Return | ast.Assign) else edit.new
    without = text
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        inside = ast.unparse(value)
        without = text.removesuffix(inside) + inside[1:-1]
    for written in (without, text, f"({text})"):
        yield _span(old), written


def _inserted(method: Method, edit: Edit, new: tuple[ast.AST, ...]) -> Iterator[tuple[Span, str]]:
    """Yield the code that replaces a statement or decorator with other statements."""
    if edit.place[1] == "decorator_list":
        held = method.tree.decorator_list
        for it in held:
            if it not in new:
                first, left, last, right = _span(it)
                yield (first, left - 1, last, right), ""
        above = method.tree.lineno, method.tree.col_offset
        indent = f"\n{' ' * (above[1] + method.indent)}"
        lines = "".join(f"@{ast.unparse(it)}{indent}" for it in new if it not in held)
        yield (*above, *above), lines
        return
    old: Any = edit.old
    first, left, last, right = _span(old)
    indent = f"\n{' ' * (left + method.indent)}"
    others = [_unparsed(it).replace("\n", indent) for it in new if it is not old]
    if new and new[-1] is old:
        yield (first, left, first, left), "".join(f"{text}{indent}" for text in others)
    elif new and new[0] is old:
        end = len(method.lines[last - 1].rstrip("\n").encode()) - method.indent  # after a comment
        yield (last, end, last, end), "".join(f"{indent}{text}" for text in others)
    else:
        yield (first, left, last, right), indent.join(others)


def _unparsed(node: ast.AST) -> str:
    """Return the source code of a node. A tuple with one element keeps its parentheses."""
    return re.sub(r"^(\w+), = ", r"(\1,) = ", ast.unparse(node))


def _span(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _replaced(lines: list[str], span: Span, text: str, top: int, indent: int) -> list[str]:
    """Return the lines with a span replaced by a text. ``top`` is the number of the first line."""
    first, left, last, right = span
    head = lines[first - top].encode()[: left + indent].decode()  # Python counts columns in bytes
    tail = lines[last - top].encode()[right + indent :].decode()
    code = f"{head}{text}{tail}".strip()
    new = f"{head}{text}{tail}".split("\n") if code and (text or code[0] != "#") else []
    return [*lines[: first - top], *new, *lines[last - top + 1 :]]


def _means(method: Method, changes: Sequence[Change], wanted: str) -> bool:
    shifted = [replace(it, line=it.line - method.first + 1) for it in changes]
    try:
        (tree,) = ast.parse(textwrap.dedent("".join(patched(method.lines, shifted)))).body
    except (SyntaxError, ValueError):
        return False
    return ast.dump(tree) == wanted
