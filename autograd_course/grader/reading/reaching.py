"""Find code that accesses its own process or that lets autograd do the work."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograd_course.grader.reading import tables
from autograd_course.grader.reading.meaning import Meaning, imported, module

_SAYS = tuple[str, bool]  # a description of the use and whether it is forbidden


def uses(node: ast.AST, names: Meaning) -> Iterator[_SAYS]:
    """Yield the uses in a syntax node that are suspicious in every exercise."""
    yield from _passed_on(node, names)
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from _imports(node)
        case ast.Attribute(attr=name):
            yield from _attribute(name)
            yield from _chain(node, names)
        case ast.Name(id=name):
            yield from _name(node, name, names)
        case ast.Call(func=func, args=arguments):
            yield from _call(func, arguments, names)
        case ast.MatchClass(kwd_attrs=attributes):
            for name in attributes:
                yield from _attribute(name)


def hooks(node: ast.AST) -> Iterator[str]:
    """Yield each hook that a node registers. A class that defines its own ``apply`` also counts."""
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            targets = part.targets if isinstance(part, ast.Assign) else []
            names = [each.id for each in targets if isinstance(each, ast.Name)]
            if "apply" in [*names, getattr(part, "name", "")]:
                yield f"its class {node.name} defines apply, so your backward may never run"
    for name in _named(node):
        if name in tables.HOOKS:
            yield (
                f"it uses {name}, which can change what `backward` returns or what the grader "
                "sees of it"
            )


def differentiates(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield code that lets autograd compute a derivative. ``backward`` must be a formula."""
    what = ""
    for name in _named(node):
        if name in tables.DIFFERENTIATING:
            what = name
    if isinstance(node, ast.Attribute | ast.Name):
        path = names.path(node)
        if any(path == each or path.startswith(f"{each}.") for each in tables.DIFFERENTIATORS):
            what = path
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        what = node.attr if node.attr == "requires_grad" else what
    if isinstance(node, ast.keyword) and node.arg == "requires_grad":
        what = "requires_grad"
    if isinstance(node, ast.Call) and _is_backward_pass(node):
        what = "backward"
    if what:
        yield (
            f"it uses {what}, which lets autograd differentiate, but this exercise asks for the "
            "derivative as a formula"
        )


def _is_backward_pass(call: ast.Call) -> bool:
    """Return whether a call is like ``y.backward()``, not ``Other.backward(ctx, grad_output)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return False
    given = call.args[0] if call.args else None
    return not (isinstance(given, ast.Name) and given.id == "ctx")


def _named(node: ast.AST) -> Iterator[str]:
    """Yield the attribute names that a node reads and the names that it imports from a module."""
    match node:
        case ast.Attribute(attr=name):
            yield name
        case ast.ImportFrom(names=aliases):
            yield from (alias.name for alias in aliases)
        case ast.Call(func=ast.Name(id=getter), args=[_, ast.Constant(value=str(name)), *_]):
            if getter in tables.COMPUTED:
                yield name
        case ast.MatchClass(kwd_attrs=attributes):
            yield from attributes


# --------------------------------------------------------------------------------------------------


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[_SAYS]:
    paths = [path for _, path in imported(node)]
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names if alias.name not in tables.PARTLY_GIVEN]
    elif node.level:
        yield "imports its own files", False
    elif any(alias.name == "*" for alias in node.names):
        paths = [node.module or ""]
    for path in paths:
        yield from _module(path, "imports") or _unusual(path)
        for part in path.split(".")[1:]:
            yield from _attribute(part)


def _module(path: str, verb: str) -> list[_SAYS]:
    """Return a description if the path leads to a forbidden or suspicious module or part of one."""
    if path in tables.GIVEN or not path:
        return []
    for table, is_forbidden in ((tables.FORBIDDEN_MODULES, True), (tables.REMARKABLE, False)):
        for known, why in table.items():
            if f"{path}.".startswith(f"{known}."):
                return [(
                    f"it {verb} {known}, {why}" if is_forbidden else f"{verb} {known}: {why}",
                    is_forbidden,
                )]  # fmt: skip
    return []


def _unusual(path: str) -> Iterator[_SAYS]:
    top = path.partition(".")[0]
    if top not in tables.USUAL:
        yield f"imports {top}: no answer needs it", False


def _attribute(name: str) -> Iterator[_SAYS]:
    if name in tables.REACHING:
        yield f"it uses {name}, which leads to the process that grades it", True


def _chain(node: ast.Attribute, names: Meaning) -> Iterator[_SAYS]:
    """Yield the suspicious uses in an attribute chain that begins at an import."""
    path = names.path(node)
    if not path:
        return
    if isinstance(node.ctx, ast.Store | ast.Del):
        yield f"it replaces {path}, which is not part of the answer", True
        return
    if said := _module(path, "reaches"):
        yield from said
        return
    top = path.partition(".")[0]
    found = module(path)
    if found is not None and path != top:
        home = found.__name__
        if said := _module(home, "reaches"):
            yield from said
        elif home.partition(".")[0].strip("_") != top:
            yield f"reaches {path}", False
        elif top == "torch" and home not in tables.OPEN_MODULES:
            yield f"reaches {home}: no answer needs it", False
    elif node.attr.startswith("_") and not node.attr.startswith(("__", "_check", "_assert")):
        yield f"uses {path}, which is private", False


def _name(node: ast.Name, name: str, names: Meaning) -> Iterator[_SAYS]:
    reads = isinstance(node.ctx, ast.Load)  # a class is allowed to define __slots__
    if reads and name.startswith("__") and name.endswith("__") and name not in tables.DUNDER_NAMES:
        yield f"it uses {name}, which leads to the process that grades it", True
    if name in names.bound | names.defined:
        return
    if name in tables.EVALUATING:
        yield f"it uses {name}, which reaches what the source does not show", True


def _passed_on(node: ast.AST, names: Meaning) -> Iterator[_SAYS]:
    """Yield functions that access attributes by name if they are passed to other code."""
    called = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if child is called:
            continue
        name = child.id if isinstance(child, ast.Name) else ""
        path = names.path(child) if isinstance(child, ast.Attribute | ast.Name) else ""
        if (name in tables.COMPUTED and name not in names.bound | names.defined) or (
            path in tables.COMPUTED_OPERATORS
        ):
            yield f"it hands on {path or name}, which can reach anything in the process", True
        elif path in tables.PARTLY_GIVEN and not isinstance(node, ast.Attribute):
            yield from _module(path, "hands on")


def _call(func: ast.expr, arguments: list[ast.expr], names: Meaning) -> Iterator[_SAYS]:
    if names.path(func) in tables.COMPUTED_OPERATORS:
        if not all(isinstance(each, ast.Constant) for each in arguments):
            yield f"it calls {names.path(func)} with a computed name", True
        for each in arguments:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                for part in each.value.split("."):
                    yield from _attribute(part)
    if not isinstance(func, ast.Name):
        return
    if func.id in tables.ODD_NAMES and func.id not in names.bound | names.defined:
        yield f"calls {func.id}: it {tables.ODD_NAMES[func.id]}", False
    if func.id not in tables.COMPUTED or func.id in names.bound | names.defined:
        return
    match arguments:
        case [owner, ast.Constant(value=str(name)), *_]:
            yield from _attribute(name)
            path = names.path(owner)
            if path:
                yield from _chain(ast.Attribute(owner, name, ast.Load()), names)
            if path and func.id in ("setattr", "delattr"):
                yield f"it replaces {path}.{name}, which is not part of the answer", True
        case _:
            yield (
                (
                    f"it calls {func.id} with a computed name, which can reach anything in the "
                    "process"
                ),
                True,
            )
