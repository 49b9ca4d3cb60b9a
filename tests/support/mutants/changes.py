"""Change a module's source in one place at a time, with the operators of mutmut."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import libcst as cst
from mutmut.mutation.file_mutation import create_mutations, deep_replace

KEPT = Path(__file__).with_name("kept.toml")
HOMES = (Path("autograd_course"), Path("packages/autograd-doctor/src/autograd_doctor"))


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its function, the lines before and after, and the whole source."""

    path: str
    function: str
    old: str
    new: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}: {self.function}\n    - {self.old}\n    + {self.new}"

    @property
    def change(self) -> tuple[str, str, str]:
        """A key that identifies the change, even if the lines around it have moved."""
        return self.path, self.old, self.new


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module's functions."""
    source = cst.parse_module(path.read_text(encoding="utf-8")).visit(_Bare()).code
    module, mutations, *_ = create_mutations(str(path), source)
    names = dict(_named(module.body))
    seen = set()
    for mutation in mutations:
        function = names.get(mutation.contained_by_top_level_function)
        mutated = deep_replace(module, mutation.original_node, mutation.mutated_node).code
        if function is None or mutated in seen:
            continue
        seen.add(mutated)
        old, new = _change(source, mutated)
        if not _is_idle(old, new):
            yield Mutant(str(path), function, old, new, mutated)


def kept() -> set[tuple[str, str, str]]:
    """Return the changes that are known to have no visible effect."""
    table = tomllib.loads(KEPT.read_text(encoding="utf-8"))
    assert all(row["because"] for row in table["kept"])
    return {(_home(row["path"]), row["old"], row["new"]) for row in table["kept"]}


def _home(path: str) -> str:
    """Return the full path of a module."""
    return next((str(home / path) for home in HOMES if (home / path).exists()), path)


def put_in(mutant: Mutant, functions: Iterable[FunctionType]) -> bool:
    """Put the changed code and defaults into existing functions. Return whether they differ."""
    changed = dict(_functions(compile(mutant.source, mutant.path, "exec", dont_inherit=True)))
    defaults = dict(_defaults(ast.parse(mutant.source)))
    differs = False
    for function in functions:
        before = function.__code__, function.__defaults__, function.__kwdefaults__
        code, (plain, named) = changed[function.__qualname__], defaults[function.__qualname__]
        function.__code__ = code.replace(co_filename=function.__code__.co_filename)
        function.__defaults__ = tuple(_value(each, function) for each in plain) or None
        function.__kwdefaults__ = {name: _value(e, function) for name, e in named.items()} or None
        differs = differs or before != (
            function.__code__, function.__defaults__, function.__kwdefaults__
        )  # fmt: skip
    return differs


def _named(body: Iterable[cst.CSTNode], within: str = "") -> Iterator[tuple[cst.CSTNode, str]]:
    for node in body:
        if isinstance(node, cst.FunctionDef):
            yield node, within + node.name.value
        elif isinstance(node, cst.ClassDef) and not within:
            yield from _named(node.body.body, f"{node.name.value}.")


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const.co_qualname, const
            yield from _functions(const)


def _defaults(
    tree: ast.AST, within: str = ""
) -> Iterator[tuple[str, tuple[list[ast.expr], dict[str, ast.expr]]]]:
    """Yield each function's default arguments: the positional ones, and those by name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _defaults(node, f"{within}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            by_name = {arg.arg: default for arg, default in named if default is not None}
            yield within + node.name, (node.args.defaults, by_name)


def _value(default: ast.expr, function: FunctionType) -> Any:
    return eval(compile(ast.Expression(default), "<default>", "eval"), function.__globals__)


def _is_idle(old: str, new: str) -> bool:
    """Whether a change has no effect, because only letter case or ``strict`` differs."""
    bare = [re.sub(r"(, )?strict=\w+", "", line).replace(", )", ")") for line in (old, new)]
    return bare[0].lower() == bare[1].lower()


class _Bare(cst.CSTTransformer):
    """Removes decorators, because mutmut does not change decorated functions."""

    def leave_FunctionDef(  # noqa: N802
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return updated_node.with_changes(decorators=())


def _change(old: str, new: str) -> tuple[str, str]:
    """Return the lines that differ before and after, each joined into one line."""
    before, after = old.splitlines(), new.splitlines()
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return " ".join(" ".join(before).split()), " ".join(" ".join(after).split())
