"""Small changes to the source of a method that undo common mistakes.

An edit replaces one node of the syntax tree. The table ``KINDS`` lists all kinds of edits. Likely
kinds have a low cost: if several edits correct the gradient, the search reports the edit with the
lowest cost. An edit uses only PyTorch operations and names from the method's own scope. It keeps,
removes or replaces calls, but it never adds a call with a side effect.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from types import EllipsisType

Place = tuple[ast.AST, str, int | None]  # a parent, its field, and the index in a list


@dataclass(frozen=True)
class Edit:
    """The replacement of one node with another.

    A statement or a decorator can also be replaced with several nodes, or removed.
    """

    kind: str
    cost: float
    place: Place
    new: ast.AST | tuple[ast.AST, ...]

    @property
    def old(self) -> ast.AST:
        """The node that the edit replaces."""
        parent, field, index = self.place
        found: ast.AST = getattr(parent, field) if index is None else getattr(parent, field)[index]
        return found

    @property
    def is_idle(self) -> bool:
        """Whether the edit creates ``x - x`` or ``x / x``, whose value is always 0 or 1."""
        if not any(isinstance(node, ast.BinOp) for node in (self.place[0], self.new)):
            return False
        with self.made():
            return any(
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Sub | ast.Div)
                and type(node.left) is type(node.right)
                and ast.unparse(node.left) == ast.unparse(node.right)
                for node in (self.place[0], self.new)
            )

    @property
    def made_of(self) -> tuple[ast.AST, ...]:
        """The nodes that the edit inserts."""
        return self.new if isinstance(self.new, tuple) else (self.new,)

    @contextmanager
    def made(self) -> Iterator[None]:
        """Apply the edit inside the block, and undo it afterwards."""
        parent, field, index = self.place
        held = getattr(parent, field)
        for node in self.made_of:
            _locate(node)
        if isinstance(self.new, tuple):
            new = [*held[:index], *self.new, *held[index + 1 :]] if index is not None else self.new
            setattr(parent, field, list(new))
        elif index is None:
            setattr(parent, field, self.new)
        else:
            setattr(parent, field, [*held[:index], self.new, *held[index + 1 :]])
        try:
            yield
        finally:
            setattr(parent, field, held)


def _locate(new: ast.AST) -> None:
    """Give new nodes a line number, because Python cannot compile nodes without one.

    If a node already has a line number, all nodes below it have one too.
    """
    if hasattr(new, "lineno"):
        return
    if "lineno" in new._attributes:
        new.lineno = new.end_lineno = 1  # type: ignore[attr-defined]
        new.col_offset = new.end_col_offset = 0  # type: ignore[attr-defined]
    for node in ast.iter_child_nodes(new):
        _locate(node)


@contextmanager
def made_together(edits: Sequence[Edit]) -> Iterator[None]:
    """Apply several edits, starting at the end of each list, so that earlier places stay valid."""
    with ExitStack() as stack:
        for edit in sorted(edits, key=lambda it: -(it.place[2] or 0)):
            stack.enter_context(edit.made())
        yield


@dataclass(frozen=True)
class Scope:
    """A method and the names that its expressions may use."""

    method: ast.FunctionDef
    names: Sequence[str]  # tensors and numbers: arguments, locals, attributes of ctx
    tensors: Sequence[str]  # names that may be tensors
    numbers: Sequence[str] = ()  # numbers that appear in the other methods
    transpose: str = "mT"  # how the author writes a transpose
    text: str = ""  # the source of this method and the other methods
    calls: Sequence[ast.Call] = ()  # calls in the other methods
    assigned: Sequence[tuple[str, ast.expr]] = ()  # assignments in the other methods
    flags: Collection[str] = ()  # names that hold True or False

    def mentions(self, words: str) -> bool:
        """Return whether the source code of the class matches a regular expression.

        If no method mentions a concept such as conjugation, the author's mistake probably has
        nothing to do with that concept.
        """
        return re.search(words, self.text) is not None

    @property
    def dims(self) -> list[str]:
        """The expressions that can be a dim. Arguments that name a dim come first."""
        named = [name for name in self.names if re.search(r"dim|axis", name)]
        used = [name for name in _used_as_dims(self.method) if name in self.names]
        return [*dict.fromkeys([*named, *used]), "-1", "0", "1"]

    @property
    def loops(self) -> dict[str, set[int]]:
        """For each loop variable, the ids of the nodes in its loops."""
        inside: dict[str, set[int]] = {}
        for loop in ast.walk(self.method):
            if isinstance(loop, ast.For):
                for name in ast.walk(loop.target):
                    if isinstance(name, ast.Name):
                        inside.setdefault(name.id, set()).update(map(id, ast.walk(loop)))
        return inside

    @property
    def places(self) -> Iterator[tuple[Place, ast.AST]]:
        """Every node in the method's body, with its place. Statements appear in source order."""
        for index, statement in enumerate(self.method.body):
            yield from _below((self.method, "body", index), statement)


TAKE_A_DIM = ("flip", "cumsum", "sum", "mean", "amax", "unsqueeze", "softmax", "gather", "scatter")


def _used_as_dims(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a method passes as the ``dim`` argument."""
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = [it.value for it in node.keywords if it.arg == "dim"]
            first = node.args[:1] if node.func.attr in TAKE_A_DIM else []
            for value in (*named, *first):
                if isinstance(value, ast.Name | ast.Attribute):
                    yield ast.unparse(value)


def _below(place: Place, node: ast.AST) -> Iterator[tuple[Place, ast.AST]]:
    yield place, node
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from _below((node, field, None), value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _below((node, field, index), item)


def scope_of(
    method: ast.FunctionDef,
    ctx: str,
    known: Sequence[str] = (),
    others: Sequence[ast.FunctionDef] = (),
) -> Scope:
    """Return the scope of a method.

    Args:
        method: The method.
        ctx: The method's name for ctx, or ``""`` if it has no ctx.
        known: Other names that the method can use.
        others: Other methods of the class. The numbers in these methods are good candidates.
    """
    args = [arg.arg for arg in method.args.args if arg.arg != ctx]
    stored = [
        node.id
        for node in ast.walk(method)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    on_ctx = [
        f"{ctx}.{node.attr}"
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == ctx
        and node.attr not in OF_CTX
    ]
    rest = [method.args.vararg.arg] if method.args.vararg else []
    names = dict.fromkeys([*args, *stored, *on_ctx, *known])
    nodes = [node for other in others for node in ast.walk(other)]
    negated = {id(node.operand) for node in nodes if isinstance(node, ast.UnaryOp)}
    numbers = dict.fromkeys(
        ast.unparse(node) for node in nodes if _is_number(node) and id(node) not in negated
    )
    tensors = [*dict.fromkeys([*args, *stored])]
    everything = [*nodes, *ast.walk(method)]
    written = any(isinstance(it, ast.Attribute) and it.attr == "T" for it in everything)
    constants = dict.fromkeys(
        it.id for it in everything if isinstance(it, ast.Name) and re.fullmatch(CONSTANT, it.id)
    )
    return Scope(
        method,
        [n for n in dict.fromkeys([*names, *constants]) if n not in rest],
        tensors,
        [*numbers],
        "T" if written else "mT",
        "\n".join(map(ast.unparse, (method, *others))),
        [it for it in nodes if isinstance(it, ast.Call)],
        [
            (it.targets[0].id, it.value)
            for it in nodes
            if isinstance(it, ast.Assign) and isinstance(it.targets[0], ast.Name)
        ],
        _flags([method, *others]),
    )


def _flags(methods: Sequence[ast.FunctionDef]) -> set[str]:
    """Return the names and expressions that hold True or False.

    These are arguments whose default is True or False, conditions, and operands of ``and`` or
    ``or``. A name also counts if the method assigns one of these values, or an element of
    ``needs_input_grad``, to it.
    """
    found: set[str] = set()
    assignments = []
    for method in methods:
        pairs = zip(reversed(method.args.args), reversed(method.args.defaults), strict=False)
        found.update(arg.arg for arg, default in pairs if _is_true_or_false(default))
        for node in ast.walk(method):
            match node:
                case ast.If(test) | ast.IfExp(test) | ast.UnaryOp(ast.Not(), test):
                    found.add(ast.unparse(test))
                case ast.BoolOp(values=values):
                    found.update(map(ast.unparse, values))
                case ast.Assign([target], value):
                    assignments.append((target, ast.unparse(value)))
    for target, text in assignments:
        if "needs_input_grad" in text:
            found.update(it.id for it in ast.walk(target) if isinstance(it, ast.Name))
        elif text in found:
            found.add(ast.unparse(target))
    return found


def _is_true_or_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


FORMULA = "a formula"  # the kind of the edits that ``formulas`` finds
CONSTANT = r"_?[A-Z][A-Z0-9_]+"  # names that look like module constants


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool)


OF_CTX = (
    "saved_tensors",
    "needs_input_grad",
    "save_for_backward",
    "mark_dirty",
    "mark_non_differentiable",
    "set_materialize_grads",
)

Generator = Callable[[Scope], Iterator[tuple[Place, ast.AST | tuple[ast.AST, ...]]]]


@dataclass(frozen=True)
class Kind:
    """A kind of edit: its name, its cost, and a function that yields places and replacements."""

    name: str
    cost: float
    generate: Generator


def edits_of(scope: Scope, kinds: Sequence[Kind]) -> Iterator[Edit]:
    """Yield every possible edit to a method. The most likely kinds come first.

    An edit never uses a loop variable outside its loop. The variable always has the same value
    there, so the edit could be correct by coincidence. An edit also never uses a flag as an operand
    of an operation.
    """
    loops = scope.loops
    for kind in kinds:
        for place, new in kind.generate(scope):
            edit = Edit(kind.name, kind.cost, place, new)
            if loops and not all(id(place[0]) in loops[name] for name in _added(edit, loops)):
                continue
            if not (scope.flags and _calculates_with(edit, scope.flags)):
                yield edit


def _calculates_with(edit: Edit, flags: Collection[str]) -> bool:
    """Return whether an edit adds an operation whose operand is a flag."""
    used = {name for node in edit.made_of for name in _operands(node) if name in flags}
    return bool(used and used.difference(_operands(edit.old)))


def _operands(node: ast.AST) -> Iterator[str]:
    """Yield the names that are operands of an operation."""
    for operation in ast.walk(node):
        if isinstance(operation, ast.BinOp):
            for operand in (operation.left, operation.right):
                match operand:
                    case ast.Name(name):
                        yield name
                    case ast.Attribute(ast.Name(name), attribute):
                        yield f"{name}.{attribute}"


def _added(edit: Edit, names: Collection[str]) -> set[str]:
    """Return the names in ``names`` that an edit adds to the code."""
    used = {it.id for node in edit.made_of for it in ast.walk(node) if isinstance(it, ast.Name)}
    before = {it.id for it in ast.walk(edit.old) if isinstance(it, ast.Name)}
    return (used - before).intersection(names)


# --------------------------------------------------------------------------------------------------
# Helpers.
# --------------------------------------------------------------------------------------------------


def parse(text: str) -> ast.expr:
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def _loads(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the expressions that a method evaluates, if they can be a tensor or a number."""
    for place, node in scope.places:
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            parent, field, _ = place
            if field in ("func", "annotation", "decorator_list", "returns", "slice"):
                continue
            if isinstance(parent, ast.Attribute | ast.FunctionDef):
                continue
            yield place, node


def _values(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the returned values, the assigned values, and the operands of both."""
    for place, node in _loads(scope):
        parent, field, _ = place
        returned = isinstance(parent, ast.Return) or _is_tuple_of_values(parent, scope)
        assigned = isinstance(parent, ast.Assign | ast.AugAssign) and field == "value"
        operand = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.IfExp) and field != "test"
        nothing = isinstance(node, ast.Constant) and node.value is None
        if (returned or assigned or operand) and not (nothing or isinstance(node, ast.Tuple)):
            yield place, node


def _inner(scope: Scope, also: type[ast.expr] | None = None) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the arguments of calls, and the objects whose methods are called.

    The expressions are names, operations and calls. ``also`` adds another type of expression.
    """
    for place, node in scope.places:
        parent, field, index = place
        called_on = isinstance(parent, ast.Attribute) and not is_module(parent.value)
        called_with = isinstance(parent, ast.Call) and field == "args"
        if called_with and _called(parent) in TAKE_NO_TENSORS:
            continue
        if called_on and _is_in_place(ast.unparse(parent)):
            continue  # the call would change a copy
        if called_with and not index and _is_in_place(_called(parent)):
            continue
        kinds = (ast.Name, ast.BinOp, ast.Call, *([also] if also else []))
        if (called_on or called_with) and isinstance(node, ast.expr) and isinstance(node, kinds):
            text = ast.unparse(node)
            if not isinstance(node, ast.Name) or text in scope.tensors:
                yield place, node


def _is_in_place(call: str) -> bool:
    return call.endswith("_") and not call.endswith("__")


TAKE_NO_TENSORS = ("reshape", "view", "expand", "sum", "mean", "flip", "range", "unsqueeze")


def value_places(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield each expression whose value can be a tensor and that a formula can replace."""
    seen = set()
    for place, node in [*_values(scope), *_inner(scope, ast.Subscript), *_indexed(scope)]:
        if id(node) not in seen and _tensors_of(node):
            seen.add(id(node))
            yield place, node


def number_places(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield each expression whose value can be a number and that a formula can replace."""
    kinds = (ast.Constant, ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript)
    for place, node in _loads(scope):
        parent, field, _ = place
        exponent = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow)
        computed = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Assign | ast.Call)
        named = isinstance(node, ast.Constant) and not _is_number(node)
        if (
            computed
            and isinstance(node, kinds)
            and not named
            and not (exponent and field == "right")
        ):
            yield place, node


def _indexed(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the names of tensors that the method indexes."""
    for _, node in scope.places:
        match node:
            case ast.Subscript(ast.Name(name) as value, _, ast.Load()) if name in scope.tensors:
                yield (node, "value", None), value


def _is_tuple_of_values(node: ast.AST, scope: Scope) -> bool:
    """Return whether the node is a tuple that the method returns or assigns to several names."""
    if not isinstance(node, ast.Tuple):
        return False
    holders = (it for it in ast.walk(scope.method) if isinstance(it, ast.Return | ast.Assign))
    return any(it.value is node for it in holders)


def _is_returned_tuple(node: ast.AST, scope: Scope) -> bool:
    returns = (it for it in ast.walk(scope.method) if isinstance(it, ast.Return))
    return isinstance(node, ast.Tuple) and any(it.value is node for it in returns)


def _tensors_of(node: ast.AST) -> bool:
    """Return whether an expression can be a tensor, rather than a shape, a flag or a string."""
    return not isinstance(node, ast.Constant | ast.Compare | ast.BoolOp | ast.Tuple | ast.List)


def _method(node: ast.expr, call: str) -> ast.expr:
    """Return the expression ``node.call``. ``call`` is source code, such as ``sum(0)``."""
    _locate(node)
    made = parse(f"_.{call}")
    for part in ast.walk(made):
        if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "_":
            part.value = node
    return made


# --------------------------------------------------------------------------------------------------
# Names, operators, numbers.
# --------------------------------------------------------------------------------------------------


def other_names(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace a name with another, such as the input with the output or another saved tensor."""
    for place, node in scope.places:
        text = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        if text not in scope.names or not isinstance(getattr(node, "ctx", None), ast.Load):
            continue
        if isinstance(place[0], ast.Attribute) and place[0].attr in ("shape", "dtype", "device"):
            continue
        for name in scope.names:
            if name != text:
                yield place, parse(name)


OPERATORS: tuple[tuple[type[ast.operator], ...], ...] = (
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.Mult, ast.Add),
    (ast.Mult, ast.MatMult),
    (ast.Mult, ast.Pow),
)


def other_operators(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``+`` with ``-``, or ``*`` with ``/``."""
    for _, node in scope.places:
        if isinstance(node, ast.BinOp):
            for pair in OPERATORS:
                if ast.MatMult in pair and not scope.mentions(MULTIPLY_MATRICES):
                    continue
                for one, other in (pair, pair[::-1]):
                    if isinstance(node.op, one):
                        yield (node, "op", None), other()


ORDERED = ("cross", "matmul", "mm", "bmm", "outer", "kron", "atan2", "sub", "div")  # of two tensors


def swapped_operands(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``a - b`` with ``b - a``.

    Also swap the operands of ``/`` and ``@``, and the two values of ``torch.where``.
    """
    for place, node in scope.places:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
            yield place, ast.BinOp(node.right, node.op, node.left)
        if isinstance(node, ast.Call) and _called(node) in ORDERED and len(node.args) > 1:
            one, other, *rest = node.args
            yield place, ast.Call(node.func, [other, one, *rest], node.keywords)
        if isinstance(node, ast.Call) and _called(node) == "where" and len(node.args) == 3:
            test, one, other = node.args
            yield place, ast.Call(node.func, [test, other, one], node.keywords)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            left, right = (_transposed(it, scope.transpose) for it in (node.left, node.right))
            yield place, ast.BinOp(right, node.op, left)


def quotients(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``a * b`` with ``b / a``."""
    for place, node in scope.places:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            yield place, ast.BinOp(node.right, ast.Div(), node.left)


def _transposed(node: ast.expr, attribute: str) -> ast.expr:
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        return node.value
    return ast.Attribute(node, attribute, ast.Load())


COMPARISONS: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def other_comparisons(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``>=`` or ``<`` with ``>``."""
    for _, node in scope.places:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            for other in COMPARISONS:
                if isinstance(node.ops[0], COMPARISONS) and not isinstance(node.ops[0], other):
                    yield (node, "ops", 0), other()


def known_numbers(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace a number with one from another method, such as the ``-1`` in ``dim=-1``."""
    for place, node in _numbers(scope):
        for text in scope.numbers:
            if text != ast.unparse(node):
                yield _as_sign(place, node, text) or (place, parse(text))


def named_numbers(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``y + 1`` with ``y + alpha``, because textbooks often set a parameter to 1."""
    floats = [
        name for name in scope.names if name not in scope.tensors or name in _parameters(scope)
    ]
    for place, _ in _numbers(scope):
        if isinstance(place[0], ast.BinOp | ast.Compare):
            for name in floats:
                yield place, parse(name)


def _parameters(scope: Scope) -> set[str]:
    """Return the names that probably belong to plain numbers, such as ``eps``."""
    return {name for name in scope.tensors if re.search(r"eps|alpha|beta|gamma|scale|gain", name)}


def factors_in_conditions(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x > threshold`` with ``beta * x > threshold``."""
    for _, node in scope.places:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides: list[tuple[Place, ast.expr]] = [
                ((node, "left", None), node.left),
                ((node, "comparators", 0), node.comparators[0]),
            ]
            for place, side in sides:
                if not _is_number(side):
                    for name in scope.names:
                        if name != ast.unparse(side):
                            yield place, ast.BinOp(side, ast.Mult(), parse(name))
                            yield place, ast.BinOp(side, ast.Div(), parse(name))


def other_numbers(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace a number with a neighboring number, its double or half, or another dim."""
    for place, node in _numbers(scope):
        number = ast.literal_eval(node)
        near = [number + 1, number - 1, 2 * number, number / 2, -number, 0, 1, 2, 3, 0.5]
        for other in dict.fromkeys(near):
            whole = int(other) if other == int(other) and type(number) is int else other
            idle = isinstance(place[0], ast.BinOp) and other in IDLE.get(type(place[0].op), ())
            if other != number and not idle:
                yield _as_sign(place, node, repr(whole)) or (place, parse(repr(whole)))


def _as_sign(place: Place, node: ast.expr, text: str) -> tuple[Place, ast.AST] | None:
    """Return the edit that turns ``x - 1`` into ``x + 1``, which reads better than ``x - -1``."""
    match place:
        case (ast.BinOp(op=ast.Add() | ast.Sub() as op) as parent, "right", _):
            if text == f"-{ast.unparse(node)}":
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                return (parent, "op", None), other
    return None


# Numbers that make an operator useless, as in ``x * 1``. It is simpler to remove the operator.
IDLE: Mapping[type[ast.operator], Sequence[float]] = {
    ast.Mult: (0, 1), ast.Div: (0, 1), ast.Add: (0,), ast.Sub: (0,), ast.Pow: (0, 1),
}  # fmt: skip


def other_lengths(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.shape[0]`` with ``x.numel()``, another length, or a product of lengths."""
    lengths = [_lengths_named(statement) for _, statement in scope.places]
    for place, node in scope.places:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            others = {name for group in lengths if node.id in group for name in group}
            yield from ((place, parse(name)) for name in sorted(others - {node.id}))
        match node:
            case ast.Subscript(ast.Attribute(value, "shape"), ast.Constant() | ast.UnaryOp()):
                whole = False
            case ast.Call(ast.Attribute(value, "numel" | "size")):
                whole = True
            case ast.Call(ast.Name("len"), [value]):
                whole = False
            case ast.Call(ast.Attribute(ast.Name("math"), "prod"), [value]):
                whole = True
            case _:
                continue
        text = ast.unparse(value)
        is_shape = isinstance(value, ast.Attribute) and value.attr == "shape"
        shape = text if is_shape else f"{text}.shape"
        count = f"{shape if shape in scope.names else text}.numel()"  # ctx.shape, but not ctx
        likely = sorted((0, 1, -1, -2), key=lambda dim: str(dim) not in scope.numbers)
        dims = [f"{shape}[{dim}]" for dim in likely]
        rest = [f"{count} // {shape}[{dim}]" for dim in (0, 1, -1)]
        known = [f"{it}[{dim}]" for it in scope.names if it.endswith("shape") for dim in likely]
        for length in dict.fromkeys((*([] if whole else [count]), *dims, *rest, *known)):
            if length != ast.unparse(node):
                yield place, parse(length)


def _lengths_named(node: ast.AST) -> list[str]:
    """Return the names to which a statement such as ``h, w = x.shape`` assigns lengths."""
    match node:
        case ast.Assign([ast.Tuple(elts=names)], ast.Attribute(attr="shape")):
            return [name.id for name in names if isinstance(name, ast.Name)]
    return []


def neighbors(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``y[t]`` with ``y[t - 1]``, or ``x[n:]`` with ``x[n - 1 : -1]``."""
    loops = _loop_targets(scope)
    for _, node in scope.places:
        for place, part in _index_parts(node) if isinstance(node, ast.Subscript) else ():
            for step in (-1, 1):
                if isinstance(part, ast.Slice):
                    if part.step is None and (part.lower or part.upper):
                        yield place, _moved(part, step)
                elif loops & _names_in([part]) or isinstance(part, ast.Name):
                    yield place, _plus(part, step)


def first_steps(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``h[t - 1]`` with ``h[t - 1] if t > 0 else h0``.

    In the first step, index ``t - 1`` would select the last element.
    """
    loops = _loop_targets(scope)
    for place, node in scope.places:
        if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)):
            continue
        indexed = ast.unparse(node.value)
        for _, part in _index_parts(node):
            match part:
                case ast.BinOp(ast.Name(step), ast.Sub(), ast.Constant(int(back))) if step in loops:
                    test = parse(f"{step} >= {back}" if back > 1 else f"{step} > 0")
                    for text in (*scope.tensors, f"torch.zeros_like({ast.unparse(node)})"):
                        if text not in (step, indexed):
                            yield place, ast.IfExp(test, node, parse(text))


def _loop_targets(scope: Scope) -> set[str]:
    return {ast.unparse(node.target) for _, node in scope.places if isinstance(node, ast.For)}


def _index_parts(node: ast.Subscript) -> Sequence[tuple[Place, ast.expr]]:
    """Return the index of each dim, and its place."""
    if isinstance(node.slice, ast.Tuple):
        return [((node.slice, "elts", k), it) for k, it in enumerate(node.slice.elts)]
    return [((node, "slice", None), node.slice)]


def inverse_orders(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``order`` with ``order.argsort()``, which undoes a permutation."""
    for _, node in scope.places if scope.mentions("sort|perm|order") else ():
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            yield (node, "slice", None), _method(node.slice, "argsort()")
    for place, node in scope.places if scope.mentions("sort") else ():
        if isinstance(node, ast.Name) and re.search("order|perm|ind|idx|rank", node.id):
            for dim in scope.dims if isinstance(node.ctx, ast.Load) else ():
                yield place, _method(node, f"argsort({dim})")
        if isinstance(node, ast.Call) and _called(node) == "argsort" and node.keywords:
            rest = [it for it in node.keywords if it.arg != "descending"]
            yield place, ast.Call(node.func, node.args, rest)


def exchanged_indices(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``out.index_add_(0, row, x[col])`` with ``out.index_add_(0, col, x[row])``."""
    for place, node in scope.places:
        if isinstance(node, ast.Assign | ast.Expr | ast.AugAssign | ast.Return):
            indices = dict.fromkeys(_names_as_indices(node))
            for pair in combinations(indices, 2):
                yield place, _exchanged(node, dict([pair, pair[::-1]]))


def other_equations(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Swap two letters in one term of an einsum equation."""
    for place, node in scope.places:
        match node:
            case ast.Constant(str(text)) if re.fullmatch(EQUATION, text):
                for found in re.finditer("[a-zA-Z]{2,}", text):
                    first, last = found.span()
                    for i, j in combinations(range(first, last), 2):
                        letters = [*text]
                        letters[i], letters[j] = letters[j], letters[i]
                        if letters[i] != letters[j]:
                            yield place, ast.Constant("".join(letters))


EQUATION = r"[a-zA-Z., ]+->[a-zA-Z. ]*"


def other_foldings(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``g.view(b, n, heads, d).sum(1)`` with ``g.view(b, heads, n, d).sum(2)``.

    ``repeat_interleave`` places the copies of an element next to each other, but ``repeat`` does
    not.
    """
    for place, node in scope.places:
        match node:
            case ast.Call(
                ast.Attribute(ast.Call(ast.Attribute(value, call), given), "sum" | "mean" as over),
                dims,
                keywords,
            ) if call in ("view", "reshape", "unflatten"):
                known = [*dims, *(it.value for it in keywords)]
                if len(known) == 1 and (dim := _number(known[0])) is not None:
                    name = "" if dims else "dim="
                    for sizes, other in _folded(call, given, dim):
                        text = f"{ast.unparse(value)}.{call}({sizes}).{over}({name}{other})"
                        yield place, parse(text)


def _folded(call: str, given: Sequence[ast.expr], dim: int) -> Iterator[tuple[str, int]]:
    """Yield new arguments for a view, each with the new dim for the sum that follows the view.

    The edit swaps the dim of the sum with a neighboring dim.
    """
    if call == "unflatten":
        match given:
            case [place, ast.Tuple([one, other])] if (first := _number(place)) is not None:
                first = first if first >= 0 else first - 1
                if dim in (first, first + 1):
                    sizes = f"{ast.unparse(place)}, ({ast.unparse(other)}, {ast.unparse(one)})"
                    yield sizes, 2 * first + 1 - dim
        return
    match given:
        case [ast.Tuple(elts)]:
            given = elts
    texts = [ast.unparse(it) for it in given]
    starred = [isinstance(it, ast.Starred) for it in given]
    at = dim if dim >= 0 else dim + len(given)
    if any(starred[: at + 2] if dim >= 0 else starred):
        return
    for neighbor in (at - 1, at + 1):
        if 0 <= neighbor < len(texts):
            swapped = [*texts]
            swapped[at], swapped[neighbor] = texts[neighbor], texts[at]
            yield ", ".join(swapped), dim + neighbor - at


def _number(node: ast.expr) -> int | None:
    """Return the value of an integer in the source, including its sign."""
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
            return -value
    return None


def _exchanged(statement: ast.stmt, names: Mapping[str, str]) -> ast.stmt:
    """Return a copy of a statement with some names replaced."""
    (made,) = ast.parse(ast.unparse(statement)).body
    for node in ast.walk(made):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return made


def _names_as_indices(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.Subscript(slice=ast.Name(name)):
                yield name
            case ast.Call(ast.Attribute(attr=call), [_, ast.Name(name), *_]) if "index" in call:
                yield name


def _moved(part: ast.Slice, step: int) -> ast.expr:
    """Return a slice of the same length, shifted by one."""
    lower = _plus(part.lower, step) if part.lower else None
    upper = _plus(part.upper, step) if part.upper else None
    if step < 0 and upper is None:
        upper = parse("-1")
    if step > 0 and lower is None:
        lower = parse("1")
    return ast.Slice(lower, upper)


def _plus(node: ast.expr, step: int) -> ast.expr:
    match node:
        case ast.Constant(int(value)):
            return parse(str(value + step))
        case ast.BinOp(left, ast.Sub() | ast.Add() as op, ast.Constant(1)):
            if isinstance(op, ast.Add) != (step > 0):
                return left
    return ast.BinOp(node, ast.Add() if step > 0 else ast.Sub(), ast.Constant(1))


def slices_from_the_end(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x[n:-n]``, which is empty if ``n`` is 0, with ``x[n : x.shape[-1] - n]``."""
    for _, node in scope.places:
        if not isinstance(node, ast.Subscript):
            continue
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        for dim, part in enumerate(parts, -len(parts)):
            match part:
                case ast.Slice(_, ast.UnaryOp(ast.USub(), ast.Name() | ast.Attribute() as end)):
                    length = f"{ast.unparse(node.value)}.shape[{dim if len(parts) > 1 else 0}]"
                    yield (part, "upper", None), parse(f"{length} - {ast.unparse(end)}")


def slices_of_a_spectrum(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``w[1:]`` with ``w[1 : (n + 1) // 2]``, the bins that occur twice in a spectrum.

    If ``n`` is even, the last bin in the result of ``rfft`` occurs only once.
    """
    if not scope.mentions("rfft"):
        return
    lengths = dict.fromkeys(
        ast.unparse(keyword.value)
        for _, node in scope.places
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "n"
    )
    for _, node in scope.places:
        for place, part in _index_parts(node) if isinstance(node, ast.Subscript) else ():
            if isinstance(part, ast.Slice) and part.lower is not None and part.step is None:
                for length in lengths:
                    end = parse(f"({length} + 1) // 2")
                    yield place, ast.Slice(part.lower, end)


def shifted_slices(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x[:length]`` with ``x[n : n + length]`` or ``x[-length:]``, to skip the start."""
    sliced = [
        (place, part)
        for _, node in scope.places
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        for place, part in _index_parts(node)
        if isinstance(part, ast.Slice) and part.step is None
    ]
    for place, part in sliced:
        if isinstance(part.upper, ast.Name) and part.lower is None:
            yield place, ast.Slice(ast.UnaryOp(ast.USub(), part.upper), None)
        ends = {ast.unparse(end) for end in (part.lower, part.upper) if end}
        for name in scope.names if ends else ():
            if name not in ends and "grad" not in name:
                lower, upper = (
                    ast.BinOp(parse(name), ast.Add(), end) if end else None
                    for end in (part.lower, part.upper)
                )
                yield place, ast.Slice(lower or parse(name), upper)


def unused_values(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace a shape, or an assigned value, with an unused attribute of ``ctx``."""
    own = ast.unparse(scope.method)
    unused = [it for it in scope.names if "." in it and not re.search(rf"{re.escape(it)}\b", own)]
    for _, statement in scope.places if unused else ():
        match statement:
            case ast.Assign([ast.Name()], ast.BinOp() | ast.Call()):
                yield from (((statement, "value", None), parse(name)) for name in unused)
    for place, node in _loads(scope):
        match node:
            case (
                ast.Attribute(attr="shape" | "dtype" | "device")
                | ast.Subscript(ast.Attribute(attr="shape"))
                | ast.Call(ast.Attribute(attr="size" | "numel"))
            ):
                yield from ((place, parse(name)) for name in unused)


def _numbers(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the numbers in the method, including their signs."""
    signed: set[int] = set()
    for place, node in scope.places:
        if _is_number(node) and id(node) not in signed:
            assert isinstance(node, ast.expr)
            signed.update(map(id, ast.iter_child_nodes(node)))
            yield place, node


# --------------------------------------------------------------------------------------------------
# Superfluous code.
# --------------------------------------------------------------------------------------------------


def dropped(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Remove an unnecessary operand, sign or call."""
    for place, node in scope.places:
        if isinstance(node, ast.BinOp):
            yield place, node.left
            yield place, node.right
        elif isinstance(node, ast.UnaryOp):
            yield place, node.operand
        elif isinstance(node, ast.Call) and place[1] != "func":
            if isinstance(node.func, ast.Attribute) and not is_module(node.func.value):
                yield place, node.func.value
            elif node.args:
                yield place, node.args[0]
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT", "mH", "H", "data"):
            yield place, node.value
        elif isinstance(node, ast.IfExp):
            yield place, node.body
            yield place, node.orelse


def unconditional(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``torch.where(condition, a, b)`` with ``b`` or ``a``, or remove a mask.

    The search tries these edits before it edits the condition. Otherwise, it could find a condition
    that is never true. The gradient would be right, but no author would write such code.
    """
    for place, node in scope.places:
        match node:
            case ast.Call(ast.Attribute(ast.Name("torch"), "where"), [_, chosen, other]):
                yield place, other
                yield place, chosen
            case ast.Call(ast.Attribute(value, "masked_fill")):
                yield place, value
            case ast.BinOp(left, ast.Mult(), right):
                if _compares(right):
                    yield place, left
                elif _compares(left):
                    yield place, right


def _compares(node: ast.expr) -> bool:
    """Return whether an expression is a comparison, such as ``x > 0`` or ``(x > 0).float()``."""
    match node:
        case ast.Call(ast.Attribute(value)):
            return _compares(value)
    return isinstance(node, ast.Compare)


def unused_results(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace the statement ``g.unsqueeze(0)`` with ``g = g.unsqueeze(0)``."""
    for place, node in scope.places:
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), call))):
                if name in scope.tensors and not _is_in_place(call):
                    yield place, ast.parse(f"{name} = {ast.unparse(node)}").body[0]


def is_module(node: ast.expr) -> bool:
    """Return whether an expression is the name of a Python module, such as ``torch``."""
    return ast.unparse(node) in ("torch", "F", "math", "torch.nn.functional", "np")


def _called(node: ast.AST) -> str:
    """Return the name of the called function, or ``""`` if the node is not a call."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else ast.unparse(func) if func else ""


# --------------------------------------------------------------------------------------------------
# A similar function, or another order.
# --------------------------------------------------------------------------------------------------

LIKE = (
    ("sin", "cos"),
    ("sinh", "cosh"),
    ("tanh", "sigmoid"),
    ("exp", "log"),
    ("sqrt", "rsqrt"),
    ("sqrt", "square"),
    ("mean", "sum"),
    ("amax", "amin"),
    ("maximum", "minimum"),
    ("triu", "tril"),
    ("cumsum", "cumprod"),
    ("scatter", "scatter_add"),
    ("scatter_", "scatter_add_"),
    ("index_copy", "index_add"),
    ("index_copy_", "index_add_"),
    ("softmax", "log_softmax"),
    ("log", "log1p"),
    ("exp", "expm1"),
    ("floor", "ceil"),
    ("abs", "sign"),
    ("ones_like", "zeros_like"),
    ("i0", "i0e"),
    ("i1", "i1e"),
    ("erf", "erfc"),
)


def other_functions(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``sin`` with ``cos``, ``mean`` with ``sum``, or ``scatter`` with ``scatter_add``."""
    for _, node in scope.places:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            for pair in LIKE:
                if node.func.attr in pair:
                    other = pair[1 - pair.index(node.func.attr)]
                    new = ast.Attribute(node.func.value, other, ast.Load())
                    yield (node, "func", None), new
    for place, node in scope.places:
        if isinstance(node, ast.Attribute) and node.attr in PARTS:
            other = PARTS[1 - PARTS.index(node.attr)]
            yield place, ast.Attribute(node.value, other, ast.Load())


PARTS = ("real", "imag")  # attributes of a complex number


def other_call_orders(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.mean().square()`` with ``x.square().mean()``."""
    for place, node in scope.places:
        match node:
            case ast.Call(ast.Attribute(ast.Call(ast.Attribute(value, one), a, k), other), b, l):
                if one != other and not is_module(value):
                    inner = ast.Call(ast.Attribute(value, other, ast.Load()), b, l)
                    yield place, ast.Call(ast.Attribute(inner, one, ast.Load()), a, k)


def other_brackets(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Move a misplaced parenthesis: replace ``a * (b - c) / 2`` with ``a * (b - c / 2)``."""
    for place, node in scope.places:
        match node:
            case ast.BinOp(ast.BinOp(a, one, b), other, c):
                yield place, ast.BinOp(a, one, ast.BinOp(b, other, c))
                match b:
                    # the last of three operands moves into the parentheses
                    case ast.BinOp(b1, inner, b2):
                        yield (
                            place,
                            ast.BinOp(a, one, ast.BinOp(b1, inner, ast.BinOp(b2, other, c))),
                        )
            case ast.BinOp(a, one, ast.BinOp(b, other, c)):
                yield place, ast.BinOp(ast.BinOp(a, one, b), other, c)


def scaled_returns(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Multiply every gradient by ``grad_output``."""
    grads = [arg.arg for arg in scope.method.args.args[1:]]
    for _, node in scope.places:
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and grads:
            values: list[ast.expr] = [
                it
                if isinstance(it, ast.Constant)
                else ast.BinOp(ast.Name(grads[0], ast.Load()), ast.Mult(), it)
                for it in node.value.elts
            ]
            yield (node, "value", None), ast.Tuple(values, ast.Load())


def simpler_functions(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``floor(x + 0.5)`` with ``round(x)``, or ``x / x.abs()`` with ``x.sign()``."""
    for place, node in scope.places:
        match node:
            case ast.Call(func, [ast.BinOp(value, ast.Add(), ast.Constant(0.5))]) if (
                _called(node) == "floor"
            ):
                yield (
                    place,
                    parse(f"{ast.unparse(func)[: -len('floor')]}round({ast.unparse(value)})"),
                )
            case ast.Call(func, [ast.BinOp(y, ast.Div(), x)]) if _called(node) in (
                "atan",
                "arctan",
            ):
                other = ast.Attribute(parse("torch"), "atan2", ast.Load())
                yield place, ast.Call(other, [y, x], [])
            case ast.BinOp(value, ast.Div(), ast.Call(ast.Attribute(_, "abs"), [])) if (
                ast.unparse(node.right) == f"{ast.unparse(value)}.abs()"
            ):
                yield place, _method(value, "sign()")
            case ast.BinOp(
                ast.BinOp(left, op, value), ast.Div(), ast.Call(ast.Attribute(_, "abs"))
            ):
                if ast.unparse(node.right) == f"{ast.unparse(value)}.abs()":
                    yield place, ast.BinOp(left, op, _method(value, "sign()"))


GRAPHS = ("create_graph", "retain_graph", "materialize_grads")


def missing_options(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add an option such as ``create_graph=True`` to a call to ``grad`` or ``backward``."""
    for place, node in scope.places:
        if isinstance(node, ast.Call) and _called(node) in ("grad", "backward"):
            given = {it.arg: it for it in node.keywords}
            for name in GRAPHS:
                rest = [it for it in node.keywords if it.arg != name]
                if name not in given or ast.unparse(given[name].value) != "True":
                    added = ast.keyword(name, parse("True"))
                    yield place, ast.Call(node.func, node.args, [*rest, added])
            if "retain_graph" in given and "create_graph" not in given:
                others = [it for it in node.keywords if it.arg != "retain_graph"]
                named = ast.keyword("create_graph", given["retain_graph"].value)
                yield place, ast.Call(node.func, node.args, [*others, named])


SPREADS = ("var", "std", "var_mean", "std_mean")


def other_options(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Change Bessel's correction of a variance, swap "mean" and "sum", or negate a flag."""
    for place, node in scope.places:
        match node:
            case ast.Call(func, args, keywords) if _called(node) in SPREADS:
                others = [it for it in keywords if it.arg not in ("correction", "unbiased")]
                for count in ("0", "1"):
                    new = ast.Call(func, args, [*others, ast.keyword("correction", parse(count))])
                    if ast.unparse(new) != ast.unparse(node):
                        yield place, new
            case ast.Constant("mean" | "sum" as name):
                yield place, ast.Constant("sum" if name == "mean" else "mean")
            case ast.Constant(True | False as flag):
                yield place, ast.Constant(not flag)


REDUCTIONS = ("sum", "mean", "norm", "amax", "amin", "prod", "cumsum", "logsumexp", "softmax")


def other_extents(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``sum()`` with ``sum(-1, keepdim=True)``, or ``sum(-1)`` with ``sum()``."""
    for place, node in scope.places:
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute):
            continue
        if func.attr not in REDUCTIONS or is_module(func.value):
            continue
        if node.args or node.keywords:  # other_numbers changes the dim
            yield place, _method(func.value, f"{func.attr}()")
            continue
        for dim in scope.dims:
            for extent in (dim, f"{dim}, keepdim=True"):
                yield place, _method(func.value, f"{func.attr}({extent})")


def kept_dims(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``sum(-1)`` or ``sum(-1, keepdim=False)`` with ``sum(-1, keepdim=True)``."""
    for place, node in scope.places:
        if (
            isinstance(node, ast.Call)
            and _called(node) in REDUCTIONS
            and (node.args or node.keywords)
        ):
            others = [it for it in node.keywords if it.arg != "keepdim"]
            kept = ast.Call(node.func, node.args, [*others, ast.keyword("keepdim", parse("True"))])
            if ast.unparse(kept) != ast.unparse(node):
                yield place, kept


def other_selections(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``gather`` with ``scatter`` or ``scatter_add``, which invert the selection.

    Also remove an index.
    """
    for place, node in scope.places:
        args = node.args if isinstance(node, ast.Call) else []
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr == "gather" and len(args) == 2:
            values, dim, index = map(ast.unparse, (func.value, *args))
            for call in ("scatter", "scatter_add"):
                yield place, parse(f"torch.zeros_like({values}).{call}({dim}, {index}, {values})")
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            for extent in ("", "[:, None]", "[..., None]", "[None]"):
                yield place, parse(f"{ast.unparse(node.value)}{extent}")


def summed_at_indices(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add up the values that an assignment writes to repeated indices."""
    for place, node in scope.places:
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            whole = not any(isinstance(it, ast.Slice) for it in ast.walk(target))
            if isinstance(target, ast.Subscript) and whole:
                into, index, values = map(ast.unparse, (target.value, target.slice, node.value))
                text = f"{into}.index_put_(({index},), {values}, accumulate=True)"
                yield place, ast.parse(text).body[0]


MOST_PERMUTED = 5


def _are_saved_so(names: ast.Tuple, scope: Scope) -> bool:
    """Return whether ``save_for_backward`` receives the same names in the same order."""
    arguments = r"\s*,\s*".join(re.escape(ast.unparse(it)) for it in names.elts)
    return scope.mentions(rf"save_for_backward\(\s*{arguments}\s*,?\s*\)")


def other_parts(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``torch.cat([a, b])`` with ``torch.cat([b, a])``, or permute the dims differently."""
    for place, node in scope.places:
        match node:
            case ast.List(parts) if _called(place[0]) in ("cat", "stack", "concat", "hstack"):
                for i, j in combinations(range(len(parts)), 2):
                    yield place, ast.List(_swapped(parts, i, j), ast.Load())
            case ast.Call(func, [*args]) if _called(node) in ("view", "reshape"):
                for i, j in combinations(range(len(args)), 2):
                    if ast.unparse(args[i]) != ast.unparse(args[j]):
                        yield place, ast.Call(func, _swapped(args, i, j), node.keywords)
            case ast.Call(func, args, keywords) if _called(node) == "permute":
                dims = [it for it in args if _is_number(it)]
                if len(dims) == len(args) and not keywords:
                    order = [ast.literal_eval(it) for it in dims]
                    if sorted(order) == [*range(len(order))]:
                        back = [parse(str(order.index(k))) for k in range(len(order))]
                        yield place, ast.Call(func, [*back], [])
                    for i, j in combinations(range(len(args)), 2):
                        yield place, ast.Call(func, _swapped(args, i, j), [])


def _swapped(nodes: Sequence[ast.expr], i: int, j: int) -> list[ast.expr]:
    others = [*nodes]
    others[i], others[j] = others[j], others[i]
    return others


def as_in_other_methods(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Copy arguments from a call to the same function in another method.

    For example, ``F.gelu(x)`` becomes ``F.gelu(x, approximate="tanh")``. Also copy the value that
    another method assigns to a name. For example, ``n = length`` becomes ``n = 2 * length``.
    """
    for place, node in scope.places:
        match node:
            case ast.Assign([ast.Name(name)]):
                for assigned, value in scope.assigned:
                    if assigned == name and ast.unparse(value) != ast.unparse(node.value):
                        yield (node, "value", None), _in_scope(value, scope)
        if not isinstance(node, ast.Call) or place[1] == "func":
            continue
        for other in scope.calls:
            if ast.unparse(other.func) != ast.unparse(node.func):
                continue
            more = [_in_scope(it, scope) for it in other.args[len(node.args) :]]
            given = {it.arg for it in node.keywords}
            named = [it for it in other.keywords if it.arg not in given]
            if more or named:
                yield place, ast.Call(node.func, [*node.args, *more], [*node.keywords, *named])
            if other.keywords and node.keywords:
                yield place, ast.Call(node.func, node.args, other.keywords)


def _in_scope(node: ast.expr, scope: Scope) -> ast.expr:
    """Rewrite an expression from another method with the names in this scope."""
    found: ast.expr = _InScope(scope).visit(parse(ast.unparse(node)))
    return found


class _InScope(ast.NodeTransformer):
    """A transformer for expressions that come from another method.

    It replaces ``dt`` with ``ctx.dt``, and ``x.dtype`` with ``grad_output.dtype``.
    """

    def __init__(self, scope: Scope) -> None:
        self._names = scope.names
        self._grads = [arg.arg for arg in scope.method.args.args[1:2]]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._names:
            return node
        return parse(next((it for it in self._names if it.split(".")[-1] == node.id), node.id))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match node:
            case ast.Attribute(ast.Name(name), "dtype" | "device") if name not in self._names:
                return parse(f"{self._grads[0]}.{node.attr}") if self._grads else node
        return self.generic_visit(node)


def other_orders(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Reorder the returned gradients or the saved tensors."""
    for place, node in scope.places:
        if not isinstance(node, ast.Tuple) or not 2 <= len(node.elts) <= MOST_PERMUTED:
            continue
        if not (_is_returned_tuple(node, scope) or isinstance(node.ctx, ast.Store)):
            continue
        if isinstance(node.ctx, ast.Store) and _are_saved_so(node, scope):
            continue  # another order would give the tensors the wrong names
        count = len(node.elts)
        orders = [list(range(count)) for _ in combinations(range(count), 2)]
        for order, (i, j) in zip(orders, combinations(range(count), 2), strict=True):
            order[i], order[j] = j, i
        orders += [[*range(k, count), *range(k)] for k in range(1, count) if count > 2]
        for order in orders:
            yield place, ast.Tuple([node.elts[i] for i in order], node.ctx)


# --------------------------------------------------------------------------------------------------
# Missing code.
# --------------------------------------------------------------------------------------------------


def opposite_signs(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing minus sign."""
    for place, node in _values(scope):
        if _tensors_of(node):
            yield place, ast.UnaryOp(ast.USub(), node)


def opposite_signs_inside(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing minus sign to an argument of a call."""
    for place, node in _inner(scope):
        yield place, ast.UnaryOp(ast.USub(), node)


def missing_factors_inside(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing factor or divisor to an argument of a call."""
    for place, node in _inner(scope):
        for name in scope.names:
            if name != ast.unparse(node):
                yield place, ast.BinOp(parse(name), ast.Mult(), node)
                yield place, ast.BinOp(node, ast.Div(), parse(name))


def missing_wide_factors(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing factor that has one dim fewer than the expression."""
    for place, node in _values(scope):
        if _tensors_of(node):
            for name in scope.tensors:
                yield place, ast.BinOp(node, ast.Mult(), parse(f"{name}.unsqueeze(-1)"))


def added_to(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x[i] = y`` with ``x[i] += y``, or ``s = y`` with ``s += y`` inside a loop."""
    in_loops = {
        id(statement)
        for _, node in scope.places
        if isinstance(node, ast.For | ast.While)
        for statement in ast.walk(node)
    }
    known: set[str] = set()  # names assigned before the loop, in source order
    for place, node in scope.places:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            yield place, ast.AugAssign(target, ast.Add(), node.value)
        elif isinstance(target, ast.Name) and id(node) not in in_loops:
            known.add(target.id)
        elif isinstance(target, ast.Name) and target.id in known:
            yield place, ast.AugAssign(target, ast.Add(), node.value)


def accumulated(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x[i] += y`` with ``x.index_put_((i,), y, accumulate=True)``.

    This call adds all values if an index occurs more than once.
    """
    for place, node in scope.places:
        match node:
            case ast.AugAssign(
                ast.Subscript(ast.Name(name), index), (ast.Add() | ast.Sub()) as operator, value
            ):
                if isinstance(operator, ast.Sub):
                    value = ast.UnaryOp(ast.USub(), value)
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                chosen = [k for k, it in enumerate(parts) if isinstance(it, ast.Name)]
                if len(chosen) == 1 and len(parts) > 1 and all(map(_is_whole, parts)):
                    (k,) = chosen
                    dim = k - len(parts) if isinstance(parts[0], ast.Constant) else k
                    rest = f"{ast.unparse(parts[k])}, {ast.unparse(value)}"
                    yield place, ast.Expr(parse(f"{name}.index_add_({dim}, {rest})"))
                if all(isinstance(part, ast.Name | ast.Call | ast.BinOp) for part in parts):
                    where = ast.unparse(ast.Tuple([*parts], ast.Load()))
                    call = f"{name}.index_put_({where}, {ast.unparse(value)}, accumulate=True)"
                    yield place, ast.Expr(parse(call))


def _is_whole(part: ast.expr) -> bool:
    """Return whether a part of an index is a name, ``:`` or ``...``."""
    match part:
        case ast.Name() | ast.Slice(None, None, None) | ast.Constant(value=EllipsisType()):
            return True
    return False


def missing_factors(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing factor or divisor: a small number such as 2, or a name in the scope."""
    for place, node in _values(scope):
        if not _tensors_of(node):
            continue
        for number in (2, 3, 0.5):
            yield place, multiplied(parse(repr(number)), node)
        for name in scope.names:
            yield place, ast.BinOp(node, ast.Mult(), parse(name))
            yield place, ast.BinOp(node, ast.Div(), parse(name))


def multiplied(factor: ast.expr, node: ast.expr) -> ast.expr:
    """Return a product with the new factor in front, as in ``2 * x * g``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return ast.BinOp(multiplied(factor, node.left), node.op, node.right)
    return ast.BinOp(factor, ast.Mult(), node)


def missing_composed_factors(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing factor or divisor, such as ``1 - y``, ``y ** 2`` or the number of elements."""
    for place, node in _values(scope):
        if not _tensors_of(node):
            continue
        for name in scope.names:
            for text in (f"(1 - {name})", f"(1 + {name})", f"{name} ** 2"):
                yield place, ast.BinOp(node, ast.Mult(), parse(text))
                yield place, ast.BinOp(node, ast.Div(), parse(text))
        for name in scope.tensors if scope.mentions("softplus") else ():
            yield place, ast.BinOp(node, ast.Mult(), parse(f"{name}.sigmoid()"))
        for name in scope.tensors if scope.mentions("abs|sign|sgn") else ():
            yield place, ast.BinOp(node, ast.Mult(), parse(f"{name}.sign()"))
        for name in scope.tensors if scope.mentions(REDUCE) else ():
            for count in ("numel()", "shape[-1]", "shape[0]"):
                yield place, ast.BinOp(node, ast.Div(), parse(f"{name}.{count}"))


# Some kinds of edits are plausible only if the source of the class contains one of these words.
REDUCE = r"sum|mean|norm|var|std|softmax|logsumexp|numel|shape|len\("
MULTIPLY_MATRICES = r"@|matmul|mm\(|\.T\b|mT|\bt\(\)|einsum|transpose|tri|solve|inv|chol|eye|outer"
ARE_COMPLEX = r"conj|complex|fft|real|imag|sgn|angle|polar|mH"
REORDER = r"flip|cum|roll|sort|pad|conv|scan|range\("

CONSTANTS = ("math.sqrt(2 * math.pi)", "math.sqrt(2)", "math.pi", "math.log(2)")


def missing_constants(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing constant, such as the normalization factor of the normal distribution."""
    if not any(is_module(node) for node in ast.walk(scope.method) if isinstance(node, ast.Name)):
        return
    for place, node in _values(scope):
        if _tensors_of(node):
            for text in CONSTANTS:
                yield place, ast.BinOp(node, ast.Div(), parse(text))
                yield place, ast.BinOp(node, ast.Mult(), parse(text))


def other_directions(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Run a loop in the opposite direction."""
    for _, node in scope.places:
        if isinstance(node, ast.For):
            match node.iter:
                case ast.Call(ast.Name("reversed"), [inner]):
                    yield (node, "iter", None), inner
                case plain:
                    yield (node, "iter", None), ast.Call(parse("reversed"), [plain], [])


def missing_complements(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``y`` with ``1 - y`` or ``y ** 2``."""
    for place, node in _loads(scope):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in scope.names:
            for text in ("1 - {}", "1 + {}", "{} ** 2", "{} ** 3"):
                yield place, parse(text.format(ast.unparse(node)))
            if scope.mentions("std|var"):
                yield place, parse(f"{ast.unparse(node)} - 1")


def opposite_flags(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace a flag with its opposite."""
    for place, node in _loads(scope):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in scope.flags:
            yield place, ast.UnaryOp(ast.Not(), node)


def exchanged_complements(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Swap ``u`` and ``1 - u`` everywhere in a statement."""
    if not scope.mentions("1.*-"):
        return
    for place, node in scope.places:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Return):
            for name in dict.fromkeys(_complemented(node)):
                (made,) = ast.parse(ast.unparse(node)).body
                yield place, _Complements(name).visit(made)


def _complemented(node: ast.AST) -> Iterator[str]:
    """Yield the expressions that a statement subtracts from 1."""
    for part in ast.walk(node):
        match part:
            case ast.BinOp(ast.Constant(1), ast.Sub(), ast.Name() | ast.Attribute() as right):
                yield ast.unparse(right)


class _Complements(ast.NodeTransformer):
    """A transformer that replaces ``1 - u`` with ``u``, and ``u`` with ``1 - u``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.BinOp(ast.Constant(1), ast.Sub(), right) if ast.unparse(right) == self._name:
                return right
            case ast.Name() | ast.Attribute() if ast.unparse(node) == self._name:
                store = isinstance(node.ctx, ast.Store)
                return node if store else parse(f"1 - {self._name}")
        return self.generic_visit(node)


def other_denominators(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``g.mean(-1)`` with ``g.sum(-1) / count``, as in a mean over the valid elements.

    If the class computes a variance or a standard deviation, the count can also be ``n - 1``.
    """
    grads = [arg.arg for arg in scope.method.args.args[1:2]]
    for place, node in scope.places:
        match node:
            case ast.Call(ast.Attribute(value, "mean"), args, keywords) if not is_module(value):
                total = ast.Call(ast.Attribute(value, "sum", ast.Load()), args, keywords)
                dims = [*args, *(it.value for it in keywords if it.arg == "dim")][:1]
                counts: list[ast.expr] = [parse(name) for name in scope.names]
                counts += [
                    ast.Call(ast.Attribute(parse(name), "sum", ast.Load()), args, keywords)
                    for name in scope.tensors
                ]
                if dims and grads and scope.mentions("std|var"):
                    counts.append(parse(f"({grads[0]}.shape[{ast.unparse(dims[0])}] - 1)"))
                for count in counts:
                    yield place, ast.BinOp(total, ast.Div(), count)


def missing_conditions(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Multiply a value by a condition from the method, or by the opposite condition.

    The method passes the condition to ``torch.where`` or uses it as a mask. For example, in a
    recurrence over padded rows, a step after the end of a row must not contribute.
    """
    calls = [node for _, node in scope.places if isinstance(node, ast.Call)]
    known = dict.fromkeys(
        ast.unparse(call.args[0])
        for call in calls
        if ast.unparse(call.func) == "torch.where" and len(call.args) == 3
    )
    for call in calls if known else ():
        match call.func:
            case ast.Attribute(value, "sum") if not is_module(value):
                for text in known:
                    for condition in (parse(text), _method(parse(text), "unsqueeze(-1)")):
                        yield (call.func, "value", None), multiplied(value, condition)
    for _, node in scope.places:
        match node:
            case ast.Subscript(slice=ast.UnaryOp(ast.Invert(), mask)):
                known[ast.unparse(mask)] = None
    for place, node in _values(scope) if known else ():
        if _tensors_of(node):
            for text in known:
                if text != ast.unparse(node):
                    yield place, ast.BinOp(node, ast.Mult(), ast.UnaryOp(ast.Invert(), parse(text)))
                    yield place, ast.BinOp(node, ast.Mult(), parse(text))


def missing_magnitudes(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x`` with ``x.abs()``."""
    for place, node in _loads(scope):
        if ast.unparse(node) in scope.names:
            yield place, _method(node, "abs()")


def missing_gradients(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Return a gradient instead of ``None``, or ``None`` instead of a gradient."""
    grads = [arg.arg for arg in scope.method.args.args[1:]]
    for place, node in scope.places:
        if not _is_returned_tuple(place[0], scope) or not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Constant) and node.value is None:
            for grad in grads:
                for text in ("{}", "-{}", "{}.sum(0)", "{}.sum()", "{}.sum(-1)"):
                    yield place, parse(text.format(grad))
                for name in scope.tensors:
                    yield place, parse(f"{grad}.sum_to_size({name}.shape)")
                    yield place, parse(f"{grad} * {name}")
        else:
            yield place, parse("None")


def other_counts(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add ``None`` before or after the returned gradients, or remove the last values."""
    for place, node in scope.places:
        if isinstance(place[0], ast.Return) and isinstance(node, ast.expr):
            values = node.elts if isinstance(node, ast.Tuple) else [node]
            for more in range(1, MOST_MISSING + 1):
                nothing = [parse("None") for _ in range(more)]
                yield place, ast.Tuple([*values, *nothing], ast.Load())
                yield place, ast.Tuple([*nothing, *values], ast.Load())
            if isinstance(node, ast.Call | ast.Name) and _may_be_a_tuple(node):
                several = ast.Starred(node, ast.Load())
                yield place, ast.Tuple([parse("None"), several], ast.Load())
                yield place, ast.Tuple([several, parse("None")], ast.Load())
            for fewer in range(1, len(values)):
                kept = values[:-fewer]
                yield place, kept[0] if len(kept) == 1 else ast.Tuple(kept, ast.Load())


MOST_MISSING = 4  # maximum number of ``None`` values to add


def _may_be_a_tuple(node: ast.expr) -> bool:
    called = _called(node) if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Name) or called in ("tuple", "split", "chunk", "unbind", "grad")


def conjugated_names(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``z`` with ``z.conj()`` in a formula with complex numbers."""
    if scope.mentions(ARE_COMPLEX):
        for place, node in _names(scope):
            if _tensors_of(node):
                yield place, _method(node, "conj()")


def missing_conjugates(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing conjugate."""
    seen = set()
    for place, node in [*_names(scope), *_values(scope)]:
        if _tensors_of(node) and id(node) not in seen:
            seen.add(id(node))
            yield place, _method(node, "conj()")


SOLVE = ("solve", "solve_triangular", "cholesky_solve", "lu_solve", "lstsq", "inv", "pinv")


def missing_transposes(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing transpose."""
    seen = set()
    for place, node in [*_values(scope), *_names(scope)]:
        if _tensors_of(node) and id(node) not in seen:
            seen.add(id(node))
            if scope.mentions(MULTIPLY_MATRICES):
                yield place, ast.Attribute(node, scope.transpose, ast.Load())
                if scope.mentions(ARE_COMPLEX):
                    yield place, ast.Attribute(node, "mH", ast.Load())
    for place, part in scope.places:
        if isinstance(part, ast.Attribute) and part.attr in ("T", "mT"):
            yield place, ast.Attribute(part.value, "mH", ast.Load())
        if isinstance(part, ast.Call) and part.args and _called(part) in SOLVE:
            yield (part, "args", 0), ast.Attribute(part.args[0], "mT", ast.Load())


def _names(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Yield the places where the method reads a name in the scope."""
    return ((place, node) for place, node in _loads(scope) if ast.unparse(node) in scope.names)


def changed_at_once(scope: Scope) -> Iterator[tuple[Place, ast.AST | tuple[ast.AST, ...]]]:
    """Transpose or conjugate a saved tensor everywhere it is used."""
    for place, node in scope.places:
        if not isinstance(node, ast.Assign) or ".saved_tensors" not in ast.unparse(node.value):
            continue
        target = node.targets[0]
        for part in target.elts if isinstance(target, ast.Tuple) else ():
            if isinstance(part, ast.Name):
                for text in (f"{part.id}.{scope.transpose}", f"{part.id}.conj()"):
                    statement = ast.parse(f"{part.id} = {text}").body[0]
                    yield place, (node, statement)


SCANS = ("cumsum", "cumprod", "logcumsumexp")


def reversed_scans(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Compute a running sum from the end instead of from the start."""
    for place, node in scope.places:
        match node:
            case ast.Call(ast.Attribute(value, call), args, keywords) if call in SCANS:
                dims = [*args, *(it.value for it in keywords if it.arg == "dim")]
                if is_module(value):
                    value, *dims = dims
                if dims:
                    dim = ast.unparse(dims[0])
                    yield place, _method(value, f"flip({dim}).{call}({dim}).flip({dim})")


def exclusive_scans(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.cumsum(0)`` with ``x.cumsum(0) - x``, to add up only earlier elements."""
    for place, node in scope.places:
        match node:
            case ast.Call(
                ast.Attribute(
                    ast.Call(ast.Attribute(ast.Call(ast.Attribute(value, "flip")), "cumsum")),
                    "flip",
                )
            ):
                yield place, ast.BinOp(node, ast.Sub(), value)
            case ast.Call(ast.Attribute(value, "cumsum"), args):
                yield place, ast.BinOp(node, ast.Sub(), args[0] if is_module(value) else value)


SUMS = (
    "sum(0)",
    "sum(-1)",
    "sum(-1, keepdim=True)",
    "sum(0, keepdim=True)",
    "sum(1)",
    "sum(1, keepdim=True)",
    "sum()",
    "flip(0)",
    "flip(-1)",
    "cumsum(0)",
    "cumsum(-1)",
)


def missing_sums(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add a missing sum over a dim that ``forward`` broadcast, or a missing flip."""
    for place, node in _values(scope):
        if not _tensors_of(node):
            continue
        for name in scope.tensors:
            yield place, _method(node, f"sum_to_size({name}.shape)")
        named = scope.dims[:-3]
        of_dims = [f"{call}({dim})" for dim in named for call in ("sum", "flip", "cumsum")]
        for call in (*of_dims, *SUMS):
            if call.startswith("sum") or scope.mentions(REORDER):
                yield place, _method(node, call)


def missing_shapes(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Add one or two dims of size 1 to make two shapes match.

    Skip code that can run repeatedly, such as loops and helper functions. Otherwise, a tensor could
    gain a dim on every run until memory runs out.
    """
    if scope.method.name != "backward":
        return
    repeated = {id(node) for loop in _repeated(scope) for node in ast.walk(loop)}
    for place, node in [*_values(scope), *_inner(scope)]:
        if not _tensors_of(node) or id(node) in repeated:
            continue
        named = [f"unsqueeze({dim})" for dim in scope.dims[:-3]]
        for call in (*named, "unsqueeze(-1)", "unsqueeze(0)"):
            yield place, _method(node, call)
        yield place, ast.Subscript(node, parse("(..., None, None)"), ast.Load())


def _repeated(scope: Scope) -> Iterator[ast.AST]:
    """Yield the loops in a method, and its nested functions, which a loop may call."""
    for _, node in scope.places:
        if isinstance(node, ast.For | ast.While | ast.Lambda | ast.FunctionDef | ast.comprehension):
            yield node


def missing_reshapes(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Reshape an expression to the shape of another tensor."""
    for place, node in [*_values(scope), *_inner(scope)]:
        if _tensors_of(node):
            for name in scope.tensors:
                yield place, _method(node, f"reshape({name}.shape)")


def flattened(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.norm(dim=1)`` with ``x.flatten(1).norm(dim=1)`` to get one number per sample."""
    for place, node in scope.places:
        reduces = _called(node) in ("norm", "vector_norm", "sum", "mean", "amax", "var", "std")
        match node:
            case ast.Call(ast.Attribute(value, call), [], []) if reduces and not is_module(value):
                inner = _method(value, "flatten(1)")
                yield place, _method(inner, f"{call}(dim=1)")
            case ast.Call(ast.Attribute(value)) if reduces and not is_module(value):
                yield (node.func, "value", None), _method(value, "flatten(1)")
            case ast.Call(_, [first, *_]) if reduces:
                yield (node, "args", 0), _method(first, "flatten(1)")


def same_along_another_dim(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.sum(0)`` with ``x.sum(0) - x.sum(1)`` or ``x.sum(0) + x.sum(1)``."""
    for place, node in _values(scope):
        match node:
            case ast.Call(ast.Attribute(value, "sum" | "mean" as call), args, keywords):
                keeps = any(it.arg == "keepdim" for it in keywords)
                for dim in (-1, -2, 0, 1) if args or keywords else ():
                    text = f"{call}({dim}, keepdim=True)" if keeps else f"{call}({dim})"
                    for op in (ast.Sub(), ast.Add()):
                        yield place, ast.BinOp(node, op, _method(value, text))


def missing_transposed_terms(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``a`` with ``a + a.mT`` or ``a - a.mT``, for a matrix that the formula uses twice."""
    for place, node in [*_values(scope), *_inner(scope)]:
        matrices = scope.mentions(MULTIPLY_MATRICES)
        if matrices and isinstance(node, ast.Name) and node.id in scope.tensors:
            other = ast.Attribute(node, scope.transpose, ast.Load())
            yield place, ast.BinOp(node, ast.Add(), other)
            yield place, ast.BinOp(node, ast.Sub(), other)


def missing_projections(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Subtract the mean, or the projection onto another tensor."""
    if not scope.mentions(REDUCE):
        return
    for place, node in _values(scope):
        if not _tensors_of(node):
            continue
        for dim in scope.dims:
            yield place, ast.BinOp(node, ast.Sub(), _method(node, f"mean({dim}, keepdim=True)"))
            yield place, ast.BinOp(node, ast.Sub(), _method(node, f"sum({dim}, keepdim=True)"))
            for name in scope.tensors:
                product = ast.BinOp(node, ast.Mult(), parse(name))
                for call in ("sum", "mean"):
                    total = _method(product, f"{call}({dim}, keepdim=True)")
                    yield place, ast.BinOp(node, ast.Sub(), total)
                    along = ast.BinOp(parse(name), ast.Mult(), total)
                    yield place, ast.BinOp(node, ast.Sub(), along)


# --------------------------------------------------------------------------------------------------
# Values that forward saves for backward.
# --------------------------------------------------------------------------------------------------


def inputs_or_outputs_saved(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Save an input or an output instead of another tensor."""
    names = {it.arg for it in scope.method.args.args} | {"output", "outputs"}
    for node in ast.walk(scope.method):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
            names.add(node.value.id)
    yield from (it for it in others_saved(scope) if ast.unparse(it[1]) in names)


def signed_integers(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``torch.uint8`` with ``torch.int8``, because uint8 cannot hold negative numbers."""
    simple = ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr
    return _rewritten(scope, simple, r"torch\.uint8\b", "torch.int8")


def out_of_place(scope: Scope) -> Iterator[tuple[Place, ast.AST]]:
    """Replace ``x.square_()`` with ``x.square()``, which does not change a saved tensor."""
    pattern = r"\.([a-z][a-z0-9_]*[a-z0-9])_\("
    return _rewritten(scope, (ast.Assign, ast.Return), pattern, r".\1(")


def _rewritten(
    scope: Scope, kinds: tuple[type[ast.stmt], ...], pattern: str, new: str
) -> Iterator[tuple[Place, ast.AST]]:
    """In statements of the given kinds, replace the text that matches a regular expression."""
    for place, node in scope.places:
        if isinstance(node, kinds):
            text = ast.unparse(node)
            if (changed := re.sub(pattern, new, text)) != text:
                yield place, ast.parse(changed).body[0]


def others_saved(scope: Scope) -> Iterator[tuple[Place, ast.expr]]:
    """Save a different tensor, or store a different value in an attribute of ``ctx``."""
    args = [arg.arg for arg in scope.method.args.args]
    of_inputs = [f"{args[1]}[{i}]" for i in range(4)] if scope.method.name != "forward" else []
    for place, node in scope.places:
        parent, field, _ = place
        saved = isinstance(parent, ast.Call) and _called(parent) == "save_for_backward"
        kept = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Attribute)
        if isinstance(node, ast.expr) and (
            (saved and field == "args") or (kept and field == "value")
        ):
            for name in (*scope.names, *of_inputs, *_joined_lists(scope)):
                if name != ast.unparse(node):
                    yield place, parse(name)


def _joined_lists(scope: Scope) -> Iterator[str]:
    """Yield ``torch.cat(parts)`` and ``torch.stack(parts)`` for each list in the method."""
    for _, node in scope.places:
        match node:
            case ast.Assign([target], ast.List([]) | ast.ListComp() | ast.Tuple() as value):
                pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = [*zip(target.elts, value.elts, strict=False)]
                for name, each in pairs:
                    if isinstance(name, ast.Name) and isinstance(each, ast.List | ast.ListComp):
                        yield f"torch.cat({name.id})"
                        yield f"torch.stack({name.id})"


SAVING = (
    Kind("another order", 1.0, other_orders),
    Kind("another dtype", 1.0, signed_integers),
    Kind("a new tensor", 1.0, out_of_place),
    Kind("an input or output saved", 1.0, inputs_or_outputs_saved),
    Kind("something else saved", 1.2, others_saved),
)
KINDS = (
    Kind("another count", 1.0, other_counts),
    Kind("an unused result", 1.0, unused_results),
    Kind("another order", 1.0, other_orders),
    Kind("other parts", 1.05, other_parts),
    Kind("as in forward", 1.05, as_in_other_methods),
    Kind("no condition", 0.95, unconditional),
    Kind("another name", 1.0, other_names),
    Kind("another operator", 1.2, other_operators),
    Kind("another comparison", 1.0, other_comparisons),
    Kind("a kept dim", 1.05, kept_dims),
    Kind("another extent", 1.1, other_extents),
    Kind("something dropped", 1.1, dropped),
    Kind("operands swapped", 1.2, swapped_operands),
    Kind("a sign", 1.3, opposite_signs),
    Kind("a number of forward", 1.2, known_numbers),
    Kind("a name for a number", 1.25, named_numbers),
    Kind("a factor in a condition", 1.3, factors_in_conditions),
    Kind("another number", 1.3, other_numbers),
    Kind("another function", 1.3, other_functions),
    Kind("another selection", 1.3, other_selections),
    Kind("sums at indices", 1.3, summed_at_indices),
    Kind("a gradient or none", 1.3, missing_gradients),
    Kind("a magnitude", 1.4, missing_magnitudes),
    Kind("a condition", 1.3, missing_conditions),
    Kind("another denominator", 1.25, other_denominators),
    Kind("the opposite flag", 1.1, opposite_flags),
    Kind("one minus, or a power", 1.5, missing_complements),
    Kind("complements exchanged", 1.2, exchanged_complements),
    Kind("a transpose", 1.5, missing_transposes),
    Kind("a conjugated name", 1.2, conjugated_names),
    Kind("a conjugate", 1.6, missing_conjugates),
    Kind("another bracket", 1.4, other_brackets),
    Kind("grad_output everywhere", 1.6, scaled_returns),
    Kind("another direction", 1.2, other_directions),
    Kind("another length", 1.3, other_lengths),
    Kind("a slice from the end", 1.2, slices_from_the_end),
    Kind("a slice of a spectrum", 1.2, slices_of_a_spectrum),
    Kind("a shifted slice", 1.35, shifted_slices),
    Kind("an unused value", 1.0, unused_values),
    Kind("a neighbor", 1.35, neighbors),
    Kind("the first step", 1.3, first_steps),
    Kind("an addition", 1.2, added_to),
    Kind("an accumulation", 1.1, accumulated),
    Kind("indices exchanged", 1.2, exchanged_indices),
    Kind("folded differently", 1.1, other_foldings),
    Kind("another equation", 1.1, other_equations),
    Kind("an inverse order", 1.2, inverse_orders),
    Kind("a sign inside", 1.5, opposite_signs_inside),
    Kind("another shape", 2.05, missing_reshapes),
    Kind("a shape", 2.1, missing_shapes),
    Kind("a simpler function", 1.4, simpler_functions),
    Kind("flattened", 1.4, flattened),
    Kind("the same along another dim", 1.9, same_along_another_dim),
    Kind("a transposed term", 1.8, missing_transposed_terms),
    Kind("a factor inside", 1.8, missing_factors_inside),
    Kind("a wide factor", 1.9, missing_wide_factors),
    Kind("a saved tensor", 1.5, changed_at_once),
    Kind("a constant", 1.7, missing_constants),
    Kind("an exclusive scan", 1.2, exclusive_scans),
    Kind("a scan", 1.5, reversed_scans),
    Kind("a factor", 1.5, missing_factors),
    Kind("a quotient", 1.25, quotients),
    Kind("a composed factor", 1.8, missing_composed_factors),
    Kind("a sum", 1.7, missing_sums),
    Kind("a projection", 2.0, missing_projections),
)
COMPUTING = (
    *KINDS,
    Kind("another option", 0.9, other_options),  # few edits, so they come first
    Kind("an option", 0.9, missing_options),
    Kind("another order of calls", 1.2, other_call_orders),
)

# The mistake that each kind of edit fixes, described for learners who repair the code themselves.
SAID = {
    "another count": "the number of returned gradients is wrong",
    "another order": "values are in the wrong order",
    "an unused result": "a call returns a new tensor, and the code ignores it",
    "another name": "another name is needed here",
    "other parts": "parts or dimensions are in the wrong order",
    "as in forward": "a call has other options than in `forward`",
    "a new tensor": "a saved tensor is changed in place",
    "another dtype": "the dtype cannot hold these values",
    "an input or output saved": "another value has to be saved",
    "something else saved": "another value has to be saved",
    "another operator": "an operator is wrong",
    "another comparison": "a comparison is wrong",
    "another extent": "a reduction runs over the wrong dimensions",
    "something dropped": "something is too much",
    "no condition": "a condition is too much",
    "operands swapped": "two operands are exchanged",
    "a sign": "a sign is wrong",
    "a sign inside": "a sign is wrong in an argument",
    "a number of forward": "a number is wrong",
    "another number": "a number is wrong",
    "a name for a number": "a parameter is needed instead of a number",
    "another function": "another function has to be called",
    "a simpler function": "another function has to be called",
    "another selection": "the wrong elements are selected",
    "sums at indices": "a value is overwritten, but values have to be added up here",
    "a gradient or none": "a gradient is None, or the other way around",
    "a magnitude": "an absolute value is missing",
    "the opposite flag": "a flag has to be replaced by its opposite",
    "one minus, or a power": "a value has to be replaced by one minus it, or by a power of it",
    "a transpose": "a transpose is missing",
    "a saved tensor": "a saved tensor has to be transposed or conjugated",
    "a conjugated name": "a conjugate is missing",
    "a conjugate": "a conjugate is missing",
    "another bracket": "a bracket is in the wrong place",
    "grad_output everywhere": "`grad_output` is missing",
    "another direction": "a loop runs in the wrong direction",
    "another length": "a length or a count is wrong",
    "a slice from the end": "a slice is empty if its end is 0",
    "a slice of a spectrum": "a bin of the spectrum does not occur twice",
    "a shifted slice": "a slice begins at the wrong element",
    "an unused value": "`backward` does not use a value that `forward` stores",
    "a neighbor": "an index is off by one",
    "the first step": "an index is -1 in the first step of a loop",
    "a kept dim": "a reduction drops a dimension that has to stay",
    "an exclusive scan": "a running sum includes one element too many",
    "an addition": "a value is overwritten, but values have to be added up here",
    "an accumulation": "a repeated index loses all values but one",
    "indices exchanged": "two indices are exchanged",
    "complements exchanged": "a share and the rest are exchanged",
    "another denominator": "a mean is over another number of elements",
    "a condition": "the terms of some steps do not count",
    "folded differently": "the copies to add up are in another dimension",
    "another equation": "two letters of an equation are exchanged",
    "an inverse order": "a permutation is not undone",
    "another shape": "a tensor has the wrong shape",
    "a shape": "a dimension is missing",
    "flattened": "a reduction leaves out some dimensions",
    "the same along another dim": "a sum along another dimension is missing",
    "a transposed term": "the transposed matrix is missing as a second term",
    "a factor in a condition": "a factor is missing in a condition",
    "a factor inside": "a factor is missing in an argument",
    "a factor": "a factor is missing",
    "a wide factor": "a factor is missing",
    "a composed factor": "a factor is missing",
    "a constant": "a constant factor is missing",
    "a quotient": "a product has to be a quotient",
    "a scan": "a running sum runs in the wrong direction",
    "a sum": "a sum over a dimension is missing, or a flip",
    "a projection": "a mean, or a part along a tensor, is not subtracted",
    "another option": "an option of a call is wrong",
    "an option": "a call lacks an option",
    "another order of calls": "two calls are in the wrong order",
}


def said_of(edit: Edit) -> str:
    """Describe the mistake that an edit fixes, without giving away the correction.

    Return ``""`` if there is no description for this mistake.
    """
    if edit.kind in SAID:
        return SAID[edit.kind]
    if edit.kind != FORMULA:
        return ""
    match edit.new:
        case ast.BinOp(left, ast.Mult() | ast.Div(), _) if left is edit.old:
            return "a factor is missing"
        case ast.BinOp(_, ast.Mult(), right) if right is edit.old:
            return "a factor is missing"
        case ast.BinOp(left, ast.Add() | ast.Sub(), _) if left is edit.old:
            return "a term is missing"
        case ast.Call(ast.Attribute(attr="where")):
            return "the slope is another one in some region"
    return "another formula is needed"


# For each rule, the kinds of edits that the search tries first.
LIKELY_FOR = {
    "constant-factor": (
        "another extent",
        "something dropped",
        "another operator",
        "another number",
        "a number of forward",
        "a factor",
        "a composed factor",
        "another length",
    ),
    "flipped-sign": ("a sign", "another operator", "something dropped"),
    "transposed-gradient": (
        "operands swapped",
        "something dropped",
        "a transpose",
        "a saved tensor",
    ),
    "missing-conjugate": (
        "something dropped",
        "a conjugated name",
        "a conjugate",
        "a saved tensor",
    ),
    "missing-dependency": (
        "another operator",
        "something dropped",
        "another number",
        "another name",
        "another length",
        "the same along another dim",
        "a transposed term",
        "a projection",
    ),
    "missing-cross-terms": ("another extent", "a sum", "a projection"),
    "missing-gradient": ("a gradient or none",),
    "gradient-shape": (
        "an unused value",
        "another extent",
        "another number",
        "a sum",
        "another shape",
        "a shape",
        "a slice from the end",
    ),
    "unreduced-broadcast": ("another extent", "a sum"),
    "batch-dimension": ("another extent", "another number", "a sum", "another shape", "a shape"),
    "backward-raises": (
        "an unused value",
        "a kept dim",
        "another shape",
        "a shape",
        "another extent",
        "a transpose",
    ),
    "permuted-gradient": ("another selection", "a scan", "another order", "a sign inside"),
    "duplicate-index": ("another selection", "sums at indices", "another function", "an addition"),
    "wrong-region": (
        "no condition",
        "another comparison",
        "operands swapped",
        "a magnitude",
        "another number",
        "a factor in a condition",
    ),
    "off-by-one": ("another number", "another comparison", "a neighbor"),
    "wrong-arity": ("another count",),
    "ignores-grad-output": ("a factor", "grad_output everywhere"),
    "uniform-grad-output": ("a factor", "another selection"),
}


def sooner(rule: str, what: Edit | Kind) -> float:
    """Return the cost of an edit or a kind of edit, which is lower if the rule makes it likely."""
    name = what.kind if isinstance(what, Edit) else what.name
    return what.cost - (name in LIKELY_FOR.get(rule, ()))


def concerning(method: ast.FunctionDef, wrong: Sequence[int]) -> Callable[[Edit], bool]:
    """Return a predicate for edits that can change the values returned at some positions.

    The predicate rejects edits to assignments that affect only other returned values.
    """
    returns = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)]
    tuples = [it for it in returns if isinstance(it, ast.Tuple)]
    starred = any(isinstance(part, ast.Starred) for it in tuples for part in it.elts)
    if len(tuples) < len(returns) or starred or not wrong:
        return lambda edit: True
    roots: list[ast.AST] = [it.elts[k] for it in tuples for k in wrong if k < len(it.elts)]
    others = [part for it in tuples for k, part in enumerate(it.elts) if k not in wrong]
    assigned = [
        it for it in ast.walk(method) if isinstance(it, ast.Assign | ast.AugAssign | ast.Expr)
    ]
    names = _names_in(roots)
    relevant: set[int] = set()
    grown = True
    while grown:
        grown = False
        for node in assigned:
            targets = _written_to(node)
            if id(node) not in relevant and names & _names_in(targets):
                relevant.add(id(node))
                names |= _names_in([node])
                grown = True
    idle = [*others, *(node for node in assigned if id(node) not in relevant)]
    passed_over = {
        id(part)
        for node in idle
        for part in ast.walk(node)
        if hasattr(part, "lineno")  # operator nodes are shared
    }
    return lambda edit: id(edit.old) not in passed_over and id(edit.place[0]) not in passed_over


def _written_to(node: ast.Assign | ast.AugAssign | ast.Expr) -> Sequence[ast.expr]:
    """Return the targets that a statement writes to. For ``x.add_(y)``, the target is ``x``."""
    match node:
        case ast.Assign(targets):
            return targets
        case ast.AugAssign(target):
            return [target]
        case ast.Expr(ast.Call(ast.Attribute(value), args)):
            return [value, *args[:1]]  # a function such as `F.relu_` writes to its first argument
    return []


def _names_in(nodes: Sequence[ast.AST]) -> set[str]:
    return {it.id for node in nodes for it in ast.walk(node) if isinstance(it, ast.Name)}
