"""Find code that leads to the process that grades it, or to code that the source does not show.

Some uses are forbidden. The others are remarks: the instructor should look at every module and
attribute that an ordinary answer does not need.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from types import ModuleType

from torch import Tensor

from autograd_course.grader.reading import tables
from autograd_course.grader.reading.libraries import (
    canonical,
    creator,
    derives,
    imported,
    is_submodule,
    module,
    public,
    value_at,
)
from autograd_course.grader.reading.meaning import LONGEST_CHAIN, Meaning
from autograd_course.grader.reading.vocabulary import ORDINARY_BASES, is_ordinary
from autograd_course.notebook_files import tree_of

_SAYS = tuple[str, bool]  # a description of the use and whether it is forbidden


def uses(node: ast.AST, names: Meaning) -> Iterator[_SAYS]:
    """Yield the uses in a syntax node that are suspicious in every exercise."""
    yield from _passed_on(node, names)
    if id(node) in names.annotations:
        yield from _annotation(node, names)
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from _imports(node, names)
            for name, _ in imported(node):
                yield from _ambiguous(name, names)
        case ast.Attribute() | ast.Name() if id(node) in names.shown:
            return
        case ast.Attribute(attr="__dict__", value=owner) if id(owner) in names.receivers:
            if id(node) not in names.named:
                yield _by_computed_name(owner)
        case ast.Attribute(attr=name, value=owner):
            own_object = id(owner) in names.receivers or (
                names.plain_bases and names.is_own_object(owner)
            )
            is_own = own_object and name in names.own_attributes
            if name.startswith("_") or not is_own:
                yield from _attribute(name)
            if is_long(node):
                yield f"it uses a chain of more than {LONGEST_CHAIN} attributes", True
                return
            if isinstance(node.ctx, ast.Store):
                yield from _set(node.value, name, names)
            if path := names.path(node):
                yield from _chain(path, stores=not isinstance(node.ctx, ast.Load))
            elif id(node) not in names.annotations:
                yield from _unknown(name, names, node.value)
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=owner) if path := names.path(owner):
            if canonical(path) in tables.GIVEN:
                return
            if id(owner) in names.shown:
                yield "sets an environment variable", False
                return
            yield f"it replaces a part of {path}, which is not part of the answer", True
        case ast.Name(id=name):
            yield from _name(node, name, names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield from _defined(name)
        case ast.ClassDef():
            yield from _bases(node, names)
        case ast.Constant(value=str(text)):
            yield from _defined(text)
            yield from _format(text)
        case ast.Call():
            yield from _call(node, names)
        case ast.MatchClass():
            yield from _pattern(node, names)


def compiles(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield code that compiles C++. The grader cannot see what native code does."""
    match node:
        case ast.Attribute() | ast.Name() | ast.Call():
            paths = [names.path(node)]
        case ast.Import() | ast.ImportFrom():
            paths = [path for _, path in imported(node)]
        case _:
            return
    for path in paths:
        if any(f"{path}.".startswith(f"{known}.") for known in tables.COMPILERS):
            yield f"it uses {path}, which compiles C++, but this exercise does not ask for C++"


def registers(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield code that registers an operator. The checks do not see what an operator calls."""
    path = canonical(names.path(node)) if isinstance(node, ast.expr) else ""
    home, _, name = path.rpartition(".")
    if any(f"{home}.".startswith(f"{each}.") for each in tables.OPERATORS) and name != "opcheck":
        yield f"it uses {path}, but this exercise does not ask for an operator"


def exports(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield code that makes a program. The checks do not see what a program calls."""
    path = canonical(names.path(node)) if isinstance(node, ast.expr) else ""
    if any(f"{path}.".startswith(f"{each}.") for each in tables.PROGRAMS):
        yield f"it uses {path}, but this exercise does not ask for a program"


def built_in(node: ast.AST, names: Meaning, operations: Collection[str]) -> Iterator[str]:
    """Yield functions of libraries that do what the learner should write."""
    path = names.path(node) if isinstance(node, ast.expr) else ""
    library, *parts = canonical(path).split(".")
    of_library = library in ("numpy", "scipy", "torch") and any(
        part in operations for part in parts
    )
    if isinstance(node, ast.Attribute) and not path and node.attr in operations:
        path = f".{node.attr}"
        of_library = hasattr(Tensor, node.attr) and node.attr not in names.own_attributes
    if of_library:
        yield f"it uses {path}, but in this exercise you write it yourself"


def unmeasured(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield uses of arrays, lists and bytes. The grader measures only the memory of tensors."""
    what = ""
    if isinstance(node, ast.Attribute) and node.attr == "numpy":
        what = "computes with NumPy"
    elif isinstance(node, ast.Attribute) and node.attr == "tolist":
        what = "converts a tensor to a list"
    elif isinstance(node, ast.Attribute) and node.attr in tables.OF_MEMORY:
        what = f"uses {node.attr}"
    elif isinstance(node, ast.ListComp) and any(map(_is_item, ast.walk(node))):
        what = "collects numbers in a list"
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_list(node):
        what = "repeats a list"
    elif isinstance(node, ast.Name) and node.id in ("bytearray", "memoryview"):
        what = f"uses a {node.id}"
    elif isinstance(node, ast.expr):
        library = canonical(names.path(node)).partition(".")[0]
        what = {"numpy": "computes with NumPy", "array": "creates an array"}.get(library, "")
    if what:
        yield f"{what}, whose memory the grader does not measure"


def _is_item(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "item"


def _is_list(node: ast.BinOp) -> bool:
    """Return whether code repeats a list with more in it than ``None``."""
    lists = [part for part in (node.left, node.right) if isinstance(part, ast.List)]
    return not all(ast.unparse(item) == "None" for part in lists for item in part.elts)


def _annotation(node: ast.AST, names: Meaning) -> Iterator[_SAYS]:
    """Yield the uses in a string annotation, which some functions run as code."""
    match node:
        case ast.Constant(value=str(text)):
            for inner in ast.walk(tree_of(text) or ast.Module([], [])):
                yield from uses(inner, names)
        case ast.JoinedStr() | ast.Call() | ast.BinOp(op=ast.Add() | ast.Mod() | ast.Mult()):
            if names.runs_annotations:
                yield "it computes an annotation, which PyTorch runs if it is a string", True
            else:
                yield "computes an annotation", False
        case ast.Attribute() if names.runs_annotations and not names.path(node):
            text = ast.unparse(node)
            yield f"it uses {text} as an annotation, which PyTorch runs if it is a string", True
        case ast.Name(id=name) if names.runs_annotations and not names.is_type(node):
            yield f"it uses {name} as an annotation, which PyTorch runs if it is a string", True


def _bases(node: ast.ClassDef, names: Meaning) -> Iterator[_SAYS]:
    """Yield remarks about a metaclass, and about bases that are no ordinary base classes.

    Also yield what the class inherits under the names that it annotates.
    """
    if node.keywords:
        yield f"defines {node.name} with {node.keywords[0].arg or '**'}=", False
    for base in node.bases:
        if not _shows_class(base, names):
            what = f"derives {node.name} from {ast.unparse(base)}"
            if isinstance(base, ast.Name):
                yield what, False
            else:
                yield f"it {what}, so the source does not show what it inherits", True
    for name in inherited(node, names):
        yield from _attribute(name)
    for path in filter(None, map(names.path, node.bases)):
        if not derives(path, ORDINARY_BASES) and not names.is_made_to_derive(path):
            yield f"derives {node.name} from {path}", False


def _shows_class(base: ast.expr, names: Meaning) -> bool:
    """Return whether a base is a class of a library or of the answer, or what makes a class."""
    match base:
        case ast.Name(id=name):
            known = name in names.defined | names.imports.keys() or names.is_builtin(base)
            return known and name not in names.stored
        case ast.Attribute():
            return bool(names.path(base)) or _shows_class(base.value, names)
        case ast.Subscript(value=generic):
            return _shows_class(generic, names)
        case ast.Call(func=maker):
            return names.path(maker).rpartition(".")[2] in ("NamedTuple", "namedtuple")
    return False


def inherited(node: ast.AST, names: Meaning) -> Iterator[str]:
    """Yield the names that a class annotates and may inherit, as a dataclass reads them."""
    if not isinstance(node, ast.ClassDef):
        return
    bases = [base for base in node.bases if not names.is_own_class(base)]
    known = [value_at(names.path(base)) if names.path(base) else None for base in bases]
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), value=None):
                if any(base is None or hasattr(base, name) for base in known):
                    yield name


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a tree, but only the end of a chain of attributes that is too long."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        if not is_long(node):
            left.extend(ast.iter_child_nodes(node))


def is_long(node: ast.AST) -> bool:
    """Return whether a node is a chain of attributes with more than ``LONGEST_CHAIN`` of them."""
    length = 0
    while isinstance(node, ast.Attribute) and length <= LONGEST_CHAIN:
        node, length = node.value, length + 1
    return length > LONGEST_CHAIN


def _imports(node: ast.Import | ast.ImportFrom, names: Meaning) -> Iterator[_SAYS]:
    if id(node) in names.in_class:
        yield "it imports inside of a class, so the source does not show what its names mean", True
    if isinstance(node, ast.ImportFrom):
        home = node.module or ""
        paths = [path for _, path in imported(node) if not _is_given(path)]
        if node.level:
            yield "imports its own files", False
        elif paths and (said := _module(home, "imports") or list(_closed(home, "imports"))):
            yield from said
        elif node.names[0].name == "*":
            if not public(home):
                yield f"it imports * from {home}, so the source does not show its names", True
        else:
            for path in paths:
                yield from _module(canonical(path), "imports") or _chain(path)
    for alias in node.names if isinstance(node, ast.Import) else ():
        if alias.name not in tables.PARTLY_GIVEN:
            yield from _module(alias.name, "imports") or _closed(alias.name, "imports")
    whole = "" if isinstance(node, ast.Import) else f"{node.module}."
    for alias in node.names:
        if re.fullmatch(r"_.*__.*[^_]", alias.asname or ""):
            yield f"it imports {alias.asname}, a name that Python changes in a class", True
        for part in f"{whole}{alias.name}".split(".")[1:]:
            yield from _attribute(part)


def _is_given(path: str) -> bool:
    """Return whether an answer may use this part of a module that is forbidden otherwise."""
    values = tables.GIVEN_VALUES
    return path in tables.GIVEN or any(f"{path}.".startswith(f"{value}.") for value in values)


@lru_cache(10_000)
def _module(path: str, verb: str) -> list[_SAYS]:
    """Return a description if the path leads to a forbidden or suspicious module or part of one."""
    if not path or _is_given(path):
        return []
    for table, is_forbidden in ((tables.FORBIDDEN_MODULES, True), (tables.REMARKABLE, False)):
        for known, why in table.items():
            if f"{path}.".startswith(f"{known}."):
                return [(
                    f"it {verb} {known}, {why}" if is_forbidden else f"{verb} {known}: {why}",
                    is_forbidden,
                )]  # fmt: skip
    return []


def _closed(path: str, verb: str) -> Iterator[_SAYS]:
    """Yield a remark if answers do not use the module with this path."""
    if path not in tables.OPEN_MODULES:
        yield f"{verb} {path}: no answer needs it", False


def _ambiguous(name: str, names: Meaning) -> Iterator[_SAYS]:
    if name in names.ambiguous:
        yield f"it gives several objects the name {name}, so the source does not show which", True


def _attribute(name: str) -> Iterator[_SAYS]:
    if name in tables.REACHING:
        yield f"it uses {name}, which leads to the process that grades it", True
    if name in tables.OF_FILES:
        yield f"it uses {name}, which keeps values in a file", True


def _defined(name: str) -> Iterator[_SAYS]:
    if name in tables.SPECIAL:
        yield f"it defines {name}, which reaches what the source does not show", True


def _chain(path: str, *, stores: bool = False) -> Iterator[_SAYS]:
    """Yield the suspicious uses in a chain of attributes that begins at an import."""
    if stores:
        yield f"it replaces {path}, which is not part of the answer", True
        return
    if f"{path}.".startswith(f"{tables.OWN_OPERATORS}."):
        return
    if said := _module(path, "reaches") or _module(canonical(path), "reaches"):
        yield from said
        return
    owner, _, name = path.rpartition(".")
    if made := creator(path):
        if made == owner:
            yield f"uses {path}, which {made} creates when code reads it", False
        else:
            yield f"it uses {path}, but {made} hides what this is", True
    if name == "test" and path.partition(".")[0] in ("numpy", "scipy"):
        yield f"it uses {path}, which runs files", True
    if name.startswith("fetch_"):
        yield f"uses {path}: objects from a file", False
    found = module(path)
    if found is not None:
        if owner:
            home = found.__name__
            yield from _module(home, "reaches") or _closed(home, "reaches")
    elif name.startswith("_"):
        if not name.startswith(("_check", "_assert")) and not is_ordinary(name, ()):
            yield f"uses {path}, which is private", False
    elif owner in tables.OPEN_MODULES and is_submodule(path):
        yield from _closed(path, "reaches")


def _name(node: ast.Name, name: str, names: Meaning) -> Iterator[_SAYS]:
    if name.startswith("__") and not name.endswith("__"):
        yield f"it uses the name {name}, which Python changes in a class", True
    if not isinstance(node.ctx, ast.Load):
        yield from _defined(name)  # a class is allowed to define __slots__
        yield from _ambiguous(name, names)
    elif name.startswith("__") and name.endswith("__") and name not in tables.DUNDER_NAMES:
        yield f"it uses {name}, which leads to the process that grades it", True
    elif name in tables.EVALUATING and not names.is_own(node):
        yield f"it uses {name}, which reaches what the source does not show", True
    elif name in names.starred and (path := names.path(node)):
        yield from _chain(path)


def _format(text: str) -> Iterator[_SAYS]:
    """Yield the attributes that a format string reads, as in ``"{0.gi_frame}".format(x)``."""
    for field in re.findall(r"\{([^{}]*)", text):
        for name in re.findall(r"[.\[](\w+)", field):
            yield from _attribute(name)


def _pattern(node: ast.MatchClass, names: Meaning) -> Iterator[_SAYS]:
    for name in node.kwd_attrs:
        yield from _by_name(name, names)
    plain = names.is_builtin(node.cls) and ast.unparse(node.cls) in tables.PLAIN_CLASSES
    if node.patterns and not plain:
        yield "matches attributes whose names the pattern does not show", False


def _passed_on(node: ast.AST, names: Meaning) -> Iterator[_SAYS]:
    """Yield functions that access attributes by name, and modules, if other code gets them."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and names.path(node):
        return  # as getattr(torch, "mul"), which is torch.mul
    for child in ast.iter_child_nodes(node):
        if child is called or id(child) in names.inspected:
            continue
        name = child.id if isinstance(child, ast.Name) else ""
        path = names.path(child) if isinstance(child, ast.expr) else ""
        if (name in tables.COMPUTED and not names.is_own(child)) or (
            path in tables.COMPUTED_OPERATORS
        ):
            yield f"it hands on {path or name}, which can reach anything in the process", True
        elif not path or isinstance(node, ast.Attribute):
            continue
        elif path in tables.PARTLY_GIVEN:
            yield from _module(path, "hands on")
        elif path in tables.READERS and child not in getattr(node, "decorator_list", ()):
            yield f"it hands on {path}, which reads attributes by name", True
        elif module(path) is not None and (id(node) in names.in_class or not renames(node, child)):
            yield f"hands on the module {path}", False


def renames(node: ast.AST, value: ast.AST) -> bool:
    """Return whether a statement only gives a value another name, such as ``F = nn.functional``."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=None)):
            return True  # the name of a module that is absent
        case ast.Assign(targets=[ast.Name()]) | ast.AnnAssign(target=ast.Name()) | ast.NamedExpr():
            return node.value is value
        case ast.Expr() | ast.Name() | ast.Delete():
            return True
    return not isinstance(getattr(value, "ctx", None), ast.Load)


def _call(call: ast.Call, names: Meaning) -> Iterator[_SAYS]:
    func, arguments, keywords = call.func, call.args, call.keywords
    if names.path(func) in tables.COMPUTED_OPERATORS:
        read = arguments[:1] if names.path(func) == "operator.methodcaller" else arguments
        if not all(isinstance(each, ast.Constant) for each in read):
            yield f"it calls {names.path(func)} with a computed name", True
        for each in arguments:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                for part in each.value.split("."):
                    yield from _by_name(part, names)
    match func:
        case ast.Attribute(attr="format" | "format_map", value=text):
            if not isinstance(text, ast.Constant) and not names.is_text(text):
                yield "formats a text that the source does not show", False
        case ast.Attribute(attr=name) | ast.Name(id=name) if name in names.setters:
            for each in (*arguments, *(keyword.value for keyword in keywords)):
                for inner in ast.walk(each):
                    if isinstance(inner, ast.Name) and inner.id in names.defined:
                        yield f"hands {inner.id} to {name}, which sets attributes of it", False
    plain = len(arguments) == 1 and isinstance(arguments[0], ast.Name | ast.Attribute)
    if names.path(func) == "functools.wraps" and (
        not plain or keywords or id(call) not in names.decorators
    ):
        yield "it calls functools.wraps other than as @wraps(f), so it can read any attribute", True
    written = [each.arg for each in keywords if each.arg in (None, "filename", "handlers")]
    if written and canonical(names.path(func)) == "logging.basicConfig":
        yield "it calls logging.basicConfig with a file, which keeps values", True
    if canonical(names.path(func)) == "numpy.ndarray":
        yield "it calls numpy.ndarray, which can read any memory", True
    starred = any(isinstance(each, ast.Starred) for each in arguments)
    if names.path(func) == "inspect.signature" and (len(arguments) != 1 or keywords or starred):
        yield "it calls inspect.signature with options, which can run code from strings", True
    match call:
        case ast.Call(func=ast.Name(id="vars"), args=[owner]) if id(func) in names.shown:
            if id(call) not in names.named:
                yield _by_computed_name(owner)
    match func:
        case ast.Call(func=ast.Name(id="type") as own) if id(own) not in names.shown:
            yield (
                "it calls the type of an object, so the source does not show which class it calls",
                True,
            )
    if not isinstance(func, ast.Name) or names.is_own(func):
        return
    if func.id in tables.ODD_NAMES:
        yield f"calls {func.id}: it {tables.ODD_NAMES[func.id]}", False
    if func.id == "type" and len(arguments) > 1:
        yield "calls type to create a class", False
    if func.id not in tables.COMPUTED:
        return
    match arguments:
        case [owner, ast.Constant(value=str(name)), *_]:
            changes = func.id in ("setattr", "delattr")
            if changes:
                yield from _set(owner, name, names)
            if path := names.path(owner):
                yield from _attribute(name)
                yield from _chain(f"{path}.{name}", stores=changes)
            elif id(owner) in names.receivers:
                yield from _attribute(name)
            else:
                yield from _by_name(name, names)
        case [owner, _, *_] if id(owner) in names.receivers:
            yield _by_computed_name(owner)
        case _:
            yield (
                (
                    f"it calls {func.id} with a computed name, which can reach anything in the "
                    "process"
                ),
                True,
            )


def _by_computed_name(owner: ast.expr) -> _SAYS:
    return f"uses attributes of {ast.unparse(owner)} whose names the source does not show", False


def _set(owner: ast.expr, name: str, names: Meaning) -> Iterator[_SAYS]:
    """Yield the uses of code that changes an object that may be a class or module of a library."""
    is_direct, attribute = isinstance(owner, ast.Name), name
    while isinstance(owner, ast.Attribute | ast.Subscript) and name not in tables.DATA:
        owner, name = owner.value, f"….{name}"
    if name == "data" and id(owner) not in names.locals:
        return
    known = isinstance(owner, ast.Name) and (
        id(owner) in names.receivers
        or (is_direct and owner.id in names.classes and owner.id not in names.stored)
        or (
            is_direct
            and owner.id in (names.plain_functions & names.defined) - names.stored.keys()
            and attribute[:1] != "_"
        )
        or (is_direct and attribute[:1] != "_" and _is_new(owner, names))
    )
    if known or names.path(owner):
        return
    origins = [owner]
    if isinstance(owner, ast.Name):
        origins = [*names.origins.get(owner.id, ()), *names.passed.get(owner.id, ())]
    is_described = attribute in tables.DESCRIBING and id(owner) not in names.late
    if is_described and isinstance(owner, ast.Name) and owner.id in names.defined | names.bound:
        return
    special = (
        attribute in tables.OF_NODES
        or (names.reads_nodes and attribute in tables.ALSO_OF_OTHERS)
        or (attribute.startswith("__") and attribute not in tables.DESCRIBING)
    )
    if special or (origins and all(_holds_library(each, names) for each in origins)):
        what = f"{ast.unparse(owner)}.{name}"
        yield f"it sets {what}, which may change a library for all other code", True
    elif name not in tables.DATA:
        yield f"sets {ast.unparse(owner)}.{name}", False


def _holds_library(value: ast.expr, names: Meaning) -> bool:
    """Return whether an expression contains a library's module or class, which it does not call."""
    left: list[ast.AST] = [value]
    while left:
        node = left.pop()
        if isinstance(node, ast.expr) and (path := names.path(node)):
            if isinstance(value_at(path), ModuleType | type):
                return True
        elif not isinstance(node, ast.Call):
            left.extend(ast.iter_child_nodes(node))
    return False


def _is_new(node: ast.expr, names: Meaning) -> bool:
    """Return whether an expression surely is an object that has only the answer's attributes."""
    return names.plain_bases and names.is_new(node)


def _by_name(name: str, names: Meaning) -> Iterator[_SAYS]:
    yield from _attribute(name)
    yield from _unknown(name, names)


def _unknown(name: str, names: Meaning, owner: ast.expr | None = None) -> Iterator[_SAYS]:
    is_own = name in names.own_attributes
    if name.startswith("_"):  # the answer's own object must have it, and not one of a library
        is_own &= isinstance(owner, ast.Name) and (
            id(owner) in names.locals or owner.id in names.classes
        )
    else:
        is_own |= name in names.fields or (owner is not None and _is_new(owner, names))
    if not is_own and not is_ordinary(name, names.modules):
        yield f"uses .{name}, which no tensor and no class of the answer has", False
