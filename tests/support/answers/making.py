"""The building blocks for the tables of answers."""

from __future__ import annotations

import ast
import linecache
import re
import zlib
from collections.abc import Callable
from functools import cache
from inspect import signature
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from repository import ROOT
from torch import Tensor
from torch.autograd import Function

from tools.percent import read

SOLUTIONS = ROOT / "solutions"
DEFINING = ("import", "from", "class", "def", "@")
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (*IMPORTS, ast.FunctionDef, ast.ClassDef)
PLACEHOLDER = re.compile(r"^(\w+ = \.\.\.|### (BEGIN|END) SOLUTION)\n", re.MULTILINE)


class Wrong(NamedTuple):
    """A wrong answer to an exercise: what is wrong with it, and the rule that must report it.

    If none of the doctor's rules fits, ``rule`` is a part of the message or hint that must appear.
    If the exercise has its own hint for this mistake, ``hint`` is a part of this hint.
    """

    exercise: str
    mistake: str
    rule: str
    answer: Any
    hint: str = ""


@cache
def solved(lesson: str) -> dict[str, Any]:
    """Run the definitions in a lesson's solved notebook. Return the defined objects by name.

    No other code of the notebook runs, and only the modules that a definition uses are imported.
    """
    defined: dict[str, Any] = {}
    for filename, definitions in _definitions(lesson):
        exec(compile(definitions, filename, "exec"), defined)
    return defined


def _definitions(lesson: str) -> list[tuple[str, ast.Module]]:
    """Return the definitions of each cell that begins with one. Their source lines can be found."""
    found = []
    for cell in read(SOLUTIONS / f"{lesson}.py").cells:
        source = PLACEHOLDER.sub("", cell.source).lstrip()
        if cell.is_code and source.startswith(DEFINING):
            filename = f"<{lesson}:{cell.line}>"
            lines = source.splitlines(keepends=True)
            linecache.cache[filename] = (len(source), None, lines, filename)
            defining = takewhile(lambda each: isinstance(each, DEFINITIONS), ast.parse(source).body)
            found.append((filename, ast.Module(list(defining), type_ignores=[])))
    used = {each.id for _, cell in found for each in ast.walk(cell) if isinstance(each, ast.Name)}
    return [(filename, _without_unused(cell, used)) for filename, cell in found]


def _without_unused(cell: ast.Module, used: set[str]) -> ast.Module:
    for each in cell.body:
        if isinstance(each, IMPORTS):
            each.names = [n for n in each.names if (n.asname or n.name).split(".")[0] in used]
    body = [each for each in cell.body if not isinstance(each, IMPORTS) or each.names]
    return ast.Module(body, type_ignores=[])


def rewritten(lesson: str, name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer with other source code.

    Each change is a piece of the source, as ``ast.unparse`` writes it, and its replacement. The
    replacement may have several lines. They get the indentation of the replaced line.
    """
    nodes = [node for _, cell in _definitions(lesson) for node in cell.body]
    (node,) = (it for it in nodes if getattr(it, "name", "") == name)
    source = ast.unparse(node)
    for before, after in changes:
        assert before in source, f"{name} does not contain {before!r}:\n{source}"
        line = source[source[: source.index(before)].rfind("\n") + 1 :]
        indent = " " * (len(line) - len(line.lstrip()))
        source = source.replace(before, after.replace("\n", f"\n{indent}"))
    return _run(lesson, name, source)[name]


def _run(lesson: str, name: str, source: str) -> dict[str, Any]:
    """Run code after the solved cells of a lesson. Return all names. The code keeps its source."""
    filename = f"<{lesson}:{name}:{zlib.crc32(source.encode())}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = dict(solved(lesson))
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def spoiled(right: type[Function], **methods: Callable[..., Any]) -> type[Function]:
    """Return a right answer in which some methods are replaced.

    A ``forward`` whose first parameter is called ``ctx`` also replaces ``setup_context``.
    """
    forward = methods.get("forward")
    if forward and next(iter(signature(forward).parameters), "") == "ctx":
        methods = {"setup_context": Function.setup_context, **methods}
    return type(right.__name__, (right,), {k: staticmethod(v) for k, v in methods.items()})


def combined(right: type[Function]) -> type[Function]:
    """Return an answer with ``setup_context`` after converting it to a combined ``forward``."""

    class Combined(right):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            call = signature(right.forward).bind(*given)
            call.apply_defaults()
            output = right.forward(*given)
            right.setup_context(ctx, call.args, output)
            return output

        setup_context = staticmethod(Function.setup_context)

    return Combined


def made(forward: Callable[..., Any], backward: Callable[..., Any]) -> type[Function]:
    """Return a combined-form Function. Its backward gets the saved tensors after ctx."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(_with_saved(backward))}
    return type("Made", (Function,), methods)


def _with_saved(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ctx, *grads: method(ctx, *ctx.saved_tensors, *grads)


Definition = ast.ClassDef | ast.FunctionDef


class Rewriting:
    """Makes wrong answers from the source of the right answers of a lesson."""

    def __init__(self, lesson: str) -> None:
        cells = read(SOLUTIONS / f"{lesson}.py").cells
        self.lesson = lesson
        self.solved = solved(lesson)
        self.sources = {str((cell.nbgrader or {}).get("grade_id")): cell.source for cell in cells}

    def answer(self, exercise: str, *changes: tuple[str, str]) -> Any:
        """Return the right answer after replacing pieces of its source."""
        source = self.sources[exercise]
        for old, new in changes:
            assert old in source, f"{exercise} no longer says {old!r}"
            source = source.replace(old, new)
        # the index of the exercises is not known in a sandbox, and helpers come before the answer
        defined = [it for it in ast.parse(source).body if isinstance(it, Definition)]
        return _run(self.lesson, exercise, source)[defined[-1].name]

    def __call__(
        self, exercise: str, mistake: str, rule: str, *changes: tuple[str, str], hint: str = ""
    ) -> Wrong:
        """Return a wrong answer: the right one after replacing pieces of its source."""
        return Wrong(exercise, mistake, rule, self.answer(exercise, *changes), hint)


class Spoiling:
    """Makes wrong answers from the right answers of a lesson by replacing one method."""

    def __init__(self, right: dict[str, Any]) -> None:
        self.right = right

    def backward(
        self, exercise: str, mistake: str, rule: str, method: Callable[..., Any], hint: str = ""
    ) -> Wrong:
        """Return the right answer with this backward, which gets the saved tensors after ctx."""
        return Wrong(exercise, mistake, rule, self.answer(exercise, method), hint)

    def answer(self, exercise: str, method: Callable[..., Any]) -> type[Function]:
        """Return the right answer with this backward. The result may also be right."""
        return spoiled(self.right[exercise], backward=_with_saved(method))

    def forward(self, exercise: str, mistake: str, rule: str, method: Callable[..., Any]) -> Wrong:
        """Return the right answer with this forward. If forward takes ctx, it must save the
        tensors.
        """
        methods = {"forward": method}
        if next(iter(signature(method).parameters)) == "ctx":
            methods["setup_context"] = Function.setup_context
        return Wrong(exercise, mistake, rule, spoiled(self.right[exercise], **methods))

    def setup(self, exercise: str, mistake: str, rule: str, method: Callable[..., Any]) -> Wrong:
        """Return the right answer with this ``setup_context``."""
        return Wrong(exercise, mistake, rule, spoiled(self.right[exercise], setup_context=method))
