"""Fixes for Functions that break autograd's contract, based on the advice on each rule's page.

The rule already names the mistake, so the search tries only a few fixes. A fix can change several
methods. For example, it can move a tensor from an attribute of ``ctx`` to ``save_for_backward``.
The table ``FIXES`` maps rules to fixes.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from autograd_doctor._repair.edits import Edit, Place, parse
from autograd_doctor._repair.source import Fix, Method
from autograd_doctor.finding import Finding

Node = tuple[Place, ast.AST]


@dataclass(frozen=True)
class Definition:
    """The methods of a Function as its author wrote them."""

    methods: Mapping[str, Method]

    def __getitem__(self, name: str) -> Method | None:
        return self.methods.get(name)

    @property
    def saving(self) -> Method | None:
        """The method that saves values for ``backward``: ``setup_context`` or ``forward``."""
        return self["setup_context"] or self["forward"]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the Function's arguments."""
        forward = self["forward"]
        if forward is None:
            return ()
        names = [arg.arg for arg in forward.tree.args.args]
        return tuple(names if self["setup_context"] else names[1:])


Generator = Callable[[Definition, Finding], Iterator[Fix]]


# --------------------------------------------------------------------------------------------------
# Helpers.
# --------------------------------------------------------------------------------------------------


def nodes_of(method: Method) -> Iterator[Node]:
    """Yield every node in the body of a method, with its place in the syntax tree."""
    for index, statement in enumerate(method.tree.body):
        yield from _below((method.tree, "body", index), statement)


def _below(place: Place, node: ast.AST) -> Iterator[Node]:
    yield place, node
    for field, value in ast.iter_fields(node):
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, ast.AST):
                at = index if isinstance(value, list) else None
                yield from _below((node, field, at), item)


def _statements(method: Method) -> Iterator[tuple[Place, ast.stmt]]:
    for place, node in nodes_of(method):
        if isinstance(node, ast.stmt):
            yield place, node


def _edit(place: Place, new: ast.AST | tuple[ast.AST, ...]) -> Edit:
    return Edit("the contract", 1.0, place, new)


def _statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


def _is_on(node: ast.AST, base: str, name: str = "") -> bool:
    """Return whether a node is an attribute with this base and name, like ``ctx.saved_tensors``."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == base
        and (not name or node.attr == name)
    )


def _calls_on_ctx(method: Method, name: str) -> Iterator[tuple[Place, ast.Expr, ast.Call]]:
    """Yield the statements that call a method of ctx, such as ``ctx.mark_dirty(x)``."""
    for place, node in _statements(method):
        match node:
            case ast.Expr(ast.Call(func) as call) if _is_on(func, method.ctx, name):
                yield place, node, call


def _unpackings(method: Method) -> Iterator[tuple[Place, ast.Assign]]:
    """Yield the statements that unpack all saved tensors."""
    for place, node in _statements(method):
        if isinstance(node, ast.Assign) and _is_on(node.value, method.ctx, "saved_tensors"):
            yield place, node


def _names_stored(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _returned(method: Method) -> Iterator[tuple[Place, int, ast.expr]]:
    """Yield each returned value and its position."""
    for place, node in nodes_of(method):
        parent = place[0]
        if not isinstance(parent, ast.Return) or not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Tuple):
            for position, value in enumerate(node.elts):
                yield (node, "elts", position), position, value
        else:
            yield place, 0, node


def _locals(method: Method) -> list[str]:
    stored = [
        node.id
        for _, node in nodes_of(method)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    return [*dict.fromkeys([*(arg.arg for arg in method.tree.args.args[1:]), *stored])]


def _position(definition: Definition, finding: Finding) -> int | None:
    named = str(finding.evidence.get("input", ""))
    names = definition.parameters
    return names.index(named) if named in names else None


# --------------------------------------------------------------------------------------------------
# Decorators.
# --------------------------------------------------------------------------------------------------


def make_static(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that adds ``@staticmethod`` to each method that lacks it."""
    fix = []
    for method in definition.methods.values():
        held = method.tree.decorator_list
        if not any(ast.unparse(it) in ("staticmethod", "classmethod") for it in held):
            place: Place = (method.tree, "decorator_list", None)
            fix.append((method, _edit(place, (parse("staticmethod"), *held))))
    if fix:
        yield tuple(fix)


def make_differentiable(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that let autograd record every operation in ``backward``."""
    method = definition["backward"]
    if method is None:
        return
    held = method.tree.decorator_list
    rest = tuple(it for it in held if "once_differentiable" not in ast.unparse(it))
    if len(rest) < len(held):
        yield ((method, _edit((method.tree, "decorator_list", None), rest)),)
    for place, node in nodes_of(method):
        match node:
            case ast.With([item], body) if "no_grad" in ast.unparse(item):
                yield ((method, _edit(place, tuple(body))),)
            case ast.Call(ast.Attribute(value, "detach")) | ast.Attribute(value, "data"):
                yield ((method, _edit(place, value)),)


def compute_in_backward(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield the fix that recomputes values in ``backward``.

    ``forward`` or ``setup_context`` passes these values to ``backward`` without a graph. The fix
    copies the statements that compute these values into ``backward``, directly after the line that
    unpacks the saved tensors.
    """
    saving, backward = definition.saving, definition["backward"]
    listed = finding.evidence.get("lost")
    if saving is None or backward is None or not saving.ctx or not isinstance(listed, list):
        return
    lost = [str(name) for name in listed]
    yield from _recomputed(definition, saving, backward, lost)
    graph = _with_a_graph(definition, saving).values()
    saved = (
        ast.unparse(arg)
        for _, _, call in _calls_on_ctx(saving, "save_for_backward")
        for arg in call.args
    )
    without_graph = [text for text in saved if text not in graph]
    if len(without_graph) > len(lost):
        yield from _recomputed(definition, saving, backward, without_graph)


def _recomputed(
    definition: Definition, saving: Method, backward: Method, listed: Sequence[str]
) -> Iterator[Fix]:
    """Yield the fix that recomputes these saved values or attributes of ``ctx``."""
    if all(name.startswith("ctx.") for name in listed):
        attributes, lost = [name.removeprefix("ctx.") for name in listed], []
    else:
        attributes, lost = [], [*listed]
    saves = [*_calls_on_ctx(saving, "save_for_backward")]
    unpackings = [*_unpackings(backward)]
    if len(saves) != 1 or len(unpackings) != 1:
        return
    (save_at, _, call), (unpack_at, unpacking) = saves[0], unpackings[0]
    saved, names = [ast.unparse(arg) for arg in call.args], _names_stored(unpacking.targets[0])
    if len(saved) != len(names) or not set(lost) <= set(saved):
        return
    known = dict(zip(saved, names, strict=True))
    known |= _handed_over(saving)
    computed = _Computed(saving, backward, _with_a_graph(definition, saving), lost, known)
    for attribute in attributes:
        computed.add_attribute(attribute)
    for name in lost:
        computed.add(name)
    if computed.failed:
        return
    pairs = [(s, n) for s, n in zip(saved, names, strict=True) if s not in lost]
    pairs += [(computed.with_graph[name], name) for name in computed.missing]
    fix: list[tuple[Method, Edit]] = []
    if [s for s, _ in pairs] != saved:
        args = ", ".join(s for s, _ in pairs)
        fix.append(
            (saving, _edit(save_at, (_statement(f"{saving.ctx}.save_for_backward({args})"),)))
        )
    held = ", ".join(n for _, n in pairs)
    targets = held if len(pairs) > 1 else f"({held},)"
    unpacked = _statement(f"{targets} = {ast.unparse(unpacking.value)}")
    made = tuple(map(_statement, computed.statements))
    fix.append((backward, _edit(unpack_at, (unpacked, *made))))
    for place, node in nodes_of(backward):
        if any(_is_on(node, backward.ctx, name) for name in attributes):
            fix.append((backward, _edit(place, parse(node.attr))))  # type: ignore[attr-defined]
    if pairs and made:
        yield tuple(fix)


def _with_a_graph(definition: Definition, saving: Method) -> Mapping[str, str]:
    """Return the names of the inputs and outputs, which keep their graph when saved.

    Each name maps to the expression to save, such as ``inputs[0]`` in ``setup_context``.
    """
    if saving is definition["forward"]:
        returned = [value.id for _, _, value in _returned(saving) if isinstance(value, ast.Name)]
        return {name: name for name in (*definition.parameters, *returned)}
    _, inputs, output = (arg.arg for arg in saving.tree.args.args)
    unpacked = [
        name
        for _, node in _statements(saving)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in (inputs, output)
        for name in _names_stored(node.targets[0])
    ]
    indexed = {name: f"{inputs}[{k}]" for k, name in enumerate(definition.parameters)}
    return indexed | {name: name for name in (*unpacked, output)}


def _handed_over(saving: Method) -> dict[str, str]:
    """Return the names whose values are stored on ``ctx``.

    Each name maps to its ``ctx`` attribute.
    """
    return {
        node.value.id: f"{saving.ctx}.{node.targets[0].attr}"  # type: ignore[attr-defined]
        for _, node in _statements(saving)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        if _is_on(node.targets[0], saving.ctx)
    }


class _Computed:
    """Statements copied into ``backward``, with the names that ``backward`` uses.

    ``lost`` contains the names or expressions to compute, and ``with_graph`` describes the inputs
    and outputs. ``known`` contains the names that ``backward`` uses for saved values.
    """

    def __init__(
        self,
        saving: Method,
        backward: Method,
        with_graph: Mapping[str, str],
        lost: Sequence[str],
        known: Mapping[str, str],
    ) -> None:
        self.saving, self.with_graph = saving, with_graph
        self.taken = _locals(backward)
        # computed values, each with its name in backward
        self.called = {name: known[name] for name in lost}
        self.at_hand = {
            name: known[text]
            for name, text in with_graph.items()
            if text in known and text not in lost
        }
        self.assigned: dict[str, list[ast.expr]] = {
            text: [parse(text)] for text in lost if not text.isidentifier()
        }
        for statement in saving.tree.body:
            match statement:
                case ast.Assign([ast.Name(name)], value):
                    self.assigned.setdefault(name, []).append(value)
                case ast.Assign([ast.Attribute(ast.Name(saving.ctx), name)], value):
                    self.assigned.setdefault(f"ctx.{name}", []).append(value)
        self.done: set[str] = set()
        self.statements: list[str] = []
        self.missing: list[str] = []
        self.failed = False

    def add_attribute(self, name: str) -> None:
        self.failed |= name in self.taken
        self.called[f"ctx.{name}"] = name
        self.add(f"ctx.{name}")

    def add(self, name: str) -> None:
        """Add the statement that assigns a value to a name.

        Before that, add the statements that compute the operands.
        """
        if name in self.done:
            return
        values = self.assigned.get(name, [])
        stores = [
            node
            for _, node in nodes_of(self.saving)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ]
        if len(values) != 1 or len(stores) > 1:
            self.failed = True
            return
        self.done.add(name)
        value = _with_graph(self._with_names(copy.deepcopy(values[0])))
        for node in ast.walk(value):
            if isinstance(node, ast.Name):
                node.id = self._in_backward(node.id)
        self.statements.append(f"{self.called.get(name, name)} = {ast.unparse(value)}")

    def _with_names(self, value: ast.expr) -> ast.expr:
        """Return an expression with names in place of items such as ``inputs[0]``."""
        names = {text: name for name, text in self.with_graph.items()}

        class Named(ast.NodeTransformer):
            def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
                name = names.get(ast.unparse(node))
                return ast.Name(name, ast.Load()) if name else self.generic_visit(node)

        named = Named().visit(value)
        assert isinstance(named, ast.expr)
        return named

    def _in_backward(self, name: str) -> str:
        if name in self.at_hand:
            return self.at_hand[name]
        if name in self.assigned and name not in self.with_graph:
            if name not in self.called and name in self.taken:
                self.failed = True
            self.add(name)
            return self.called.get(name, name)
        if name in self.with_graph and name not in self.missing:
            self.failed |= name in self.taken
            self.missing.append(name)
        return name


def _with_graph(value: ast.expr) -> ast.expr:
    """Return an expression without the calls that detach its result from the graph."""

    class Kept(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            match node:
                case ast.Call(ast.Attribute(inner, "item" | "detach"), []):
                    return inner
                case ast.Call(ast.Name("float"), [inner]):
                    return inner
                case ast.Call(ast.Attribute(ast.Name("math"), name), args):
                    return ast.Call(parse(f"torch.{name}"), args, [])
            return node

    kept = Kept().visit(value)
    assert isinstance(kept, ast.expr)
    return kept


# --------------------------------------------------------------------------------------------------
# Saving tensors and unpacking them.
# --------------------------------------------------------------------------------------------------


def unpack(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes for ``x = ctx.saved_tensors`` and for unpacking the wrong number of tensors."""
    method, saving = definition["backward"], definition.saving
    if method is None or saving is None:
        return
    saved = [ast.unparse(it) for _, _, call in _calls_on_ctx(saving, "save_for_backward")
             for it in call.args]  # fmt: skip
    for place, node in _unpackings(method):
        (target,) = node.targets
        if isinstance(target, ast.Name):
            one = ast.Tuple([target], ast.Store())
            yield ((method, _edit((node, "targets", 0), one)),)
        names = _names_stored(target)
        if len(saved) != len(names) and all(name.isidentifier() for name in saved):
            others = [name for name in saved if name not in names]
            wanted = [*names, *others][: len(saved)]
            if set(names) <= set(saved):
                wanted = saved
            targets = ", ".join(wanted) + "," * (len(wanted) == 1)
            new = _statement(f"{targets} = {ast.unparse(node.value)}")
            yield ((method, _edit(place, (new,))),)


def unpack_saved(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that save the tensors inside a tuple such as ``inputs``, not the tuple itself."""
    saving, position = definition.saving, finding.evidence["argument"]
    if saving is None or finding.evidence["type"] not in ("tuple", "list"):
        return
    for _, _, call in _calls_on_ctx(saving, "save_for_backward"):
        for _, node in _statements(saving):
            match node, call.args[position : position + 1]:
                case ast.Assign([ast.Name(name)], ast.Name()), [ast.Name(saved)] if name == saved:
                    target = ast.Tuple([ast.Name(name, ast.Store())], ast.Store())
                    yield ((saving, _edit((node, "targets", 0), target)),)
        for argument in call.args[position : position + 1]:
            starred = ast.Starred(argument, ast.Load())
            yield ((saving, _edit((call, "args", position), starred)),)


def unpack_once(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that unpacks the saved tensors only once, into a local tuple."""
    method = definition["backward"]
    if method is None:
        return
    ctx = method.ctx
    reads = [place for place, node in nodes_of(method) if _is_on(node, ctx, "saved_tensors")]
    if len(reads) > 1 and "saved" not in _locals(method):
        first = _at_start(method, f"saved = {ctx}.saved_tensors")
        yield ((method, first), *((method, _edit(place, parse("saved"))) for place in reads))


def save_on_ctx(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield the fix that uses ``save_for_backward`` instead of a ``ctx`` attribute."""
    saving = definition.saving
    if saving is not None:
        listed = finding.evidence.get("attributes") or ()
        attributes = [str(name).removeprefix("ctx.") for name in listed]
        yield from _saved(definition, saving.ctx, attributes)
        if len(attributes) > 1:
            for name in attributes:
                yield from _saved(definition, saving.ctx, [name])


def save_off_class(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that uses ``save_for_backward`` instead of a class attribute."""
    saving = definition.saving
    if saving is None:
        return
    stored = [
        node
        for _, node in nodes_of(saving)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    for base in dict.fromkeys(ast.unparse(node.value) for node in stored):
        if base != saving.ctx:
            names = [node.attr for node in stored if _is_on(node, base)]
            yield from _saved(definition, base, [*dict.fromkeys(names)])


def _saved(definition: Definition, base: str, names: Sequence[str]) -> Iterator[Fix]:
    """Yield the fix that replaces attributes of ``base`` with ``save_for_backward``."""
    saving, backward = definition.saving, definition["backward"]
    if saving is None or backward is None or not names:
        return
    fix: list[tuple[Method, Edit]] = []
    added: list[str] = []  # the saved expressions in forward
    stored: list[Place] = []
    for name in names:
        places = [
            (place, node)
            for place, node in _statements(saving)
            if isinstance(node, ast.Assign) and _is_on(node.targets[0], base, name)
        ]
        if len(places) != 1:
            yield from _saved_of_several(definition, base, names)
            return
        ((place, node),) = places
        stored.append(place)
        value = _undetached(node.value)
        if isinstance(value, ast.Name):
            fix.append((saving, _edit(place, ())))
            added.append(value.id)
        else:
            fix.append((saving, _edit((node, "targets", 0), ast.Name(name, ast.Store()))))
            added.append(name)
        for at, read in nodes_of(saving):
            if _is_on(read, base, name) and isinstance(read.ctx, ast.Load):  # type: ignore[attr-defined]
                fix.append((saving, _edit(at, parse(added[-1]))))
    calls = [*_calls_on_ctx(saving, "save_for_backward")]
    ctx = saving.ctx
    last = max(stored, key=lambda it: (it[0] is saving.tree, it[2] or 0))
    if calls:
        place, _, call = calls[0]
        args = ", ".join([*map(ast.unparse, call.args), *added])
        fix.append((saving, _edit(place, (_statement(f"{ctx}.save_for_backward({args})"),))))
    else:
        text = f"{ctx}.save_for_backward({', '.join(added)})"
        parent, field, index = last
        held = [pair for pair in fix if pair[1].place == last]
        if held:  # an edit already removes this statement
            fix.remove(held[0])
            fix.append((saving, _edit(last, (_statement(text),))))
        else:
            kept = getattr(parent, field)[index]
            fix.append((saving, _edit(last, (kept, _statement(text)))))
    fix += _unpacked_too(backward, names, f"{backward.ctx}" if base == ctx else base)
    yield tuple(fix)


def _undetached(node: ast.expr) -> ast.expr:
    """Return the expression that is detached or cloned, such as ``y`` in ``y.detach()``."""
    match node:
        case ast.Call(ast.Attribute(value, "detach" | "clone"), []) | ast.Attribute(value, "data"):
            return _undetached(value)
    return node


def _saved_of_several(definition: Definition, base: str, names: Sequence[str]) -> Iterator[Fix]:
    """Yield the fix for a statement that sets several attributes (``ctx.x, ctx.n = x, n``)."""
    saving, backward = definition.saving, definition["backward"]
    if saving is None or backward is None or any(_calls_on_ctx(saving, "save_for_backward")):
        return
    for place, node in _statements(saving):
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                pairs = [*zip(targets, values, strict=False)]
                kept = [p for p in pairs if not any(_is_on(p[0], base, name) for name in names)]
                saved = [
                    ast.unparse(v) for name in names for t, v in pairs if _is_on(t, base, name)
                ]
                if len(saved) != len(names):
                    continue
                new = [_statement(f"{saving.ctx}.save_for_backward({', '.join(saved)})")]
                if kept:
                    sides = zip(*kept, strict=True)
                    left, right = (", ".join(map(ast.unparse, side)) for side in sides)
                    new.append(_statement(f"{left} = {right}"))
                reads = _unpacked_too(backward, names, backward.ctx)
                yield (saving, _edit(place, tuple(new))), *reads


def _unpacked_too(method: Method, names: Sequence[str], base: str) -> Iterator[tuple[Method, Edit]]:
    """Yield the edits that make ``backward`` read saved tensors instead of attributes."""
    reads = [
        (place, node, node.targets[0].id)
        for place, node in _statements(method)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and any(_is_on(node.value, base, name) for name in names)
    ]
    called = {name: name for name in names}
    for _, node, local in reads:
        called[node.value.attr] = local  # type: ignore[attr-defined]
    local_names = [called[name] for name in names]
    targets = ", ".join(local_names) if len(names) > 1 else f"({local_names[0]},)"
    unpackings = [*_unpackings(method)]
    gone = [place for place, _, _ in reads]
    if unpackings:
        place, node = unpackings[0]
        held = ", ".join([*_names_stored(node.targets[0]), *local_names])
        yield method, _edit(place, (_statement(f"{held} = {ast.unparse(node.value)}"),))
    else:
        unpacking = _statement(f"{targets} = {method.ctx}.saved_tensors")
        if gone:  # the first statement that reads the attributes now unpacks the saved tensors
            yield method, _edit(gone.pop(0), (unpacking,))
        else:
            yield method, _at_start(method, ast.unparse(unpacking))
    for place in gone:
        yield method, _edit(place, ())
    read = {id(node.value) for _, node, _ in reads}
    for place, node_ in nodes_of(method):
        for name in names:
            if _is_on(node_, base, name) and id(node_) not in read:
                yield method, _edit(place, parse(called[name]))


@dataclass(frozen=True)
class Saved:
    """A value from ``forward`` that ``backward`` could use if it were saved too.

    ``position`` is the position of an input, or ``None`` for the output. ``name`` is its name in
    ``backward``, and ``fix`` saves and unpacks it. If ``shape`` is true, ``fix`` stores only the
    shape of the input, as an attribute of ``ctx``.
    """

    position: int | None
    name: str
    fix: Fix
    shape: bool = False


def more_saved(definition: Definition) -> Iterator[Saved]:
    """Yield the inputs and the output that ``forward`` does not save."""
    saving, backward = definition.saving, definition["backward"]
    if saving is None or backward is None:
        return
    calls, unpackings = [*_calls_on_ctx(saving, "save_for_backward")], [*_unpackings(backward)]
    if len(calls) != 1 or len(unpackings) != 1:
        return
    ((place, _, call),), ((at, unpacking),) = calls, unpackings
    args = [ast.unparse(arg) for arg in call.args]
    held = _names_stored(unpacking.targets[0])
    if len(held) != len(args):
        return
    known = {*_locals(backward)}
    for position, name, text in _values_of_forward(definition, saving):
        if text in args or name in known:
            continue
        save = _statement(f"{saving.ctx}.save_for_backward({', '.join([*args, text])})")
        unpack = _statement(f"{', '.join([*held, name])} = {ast.unparse(unpacking.value)}")
        edits = (saving, _edit(place, (save,))), (backward, _edit(at, (unpack,)))
        yield Saved(position, name, edits)


def shapes_kept(definition: Definition) -> Iterator[Saved]:
    """Yield the shapes of the inputs, with fixes that store them as new attributes of ``ctx``."""
    saving, backward = definition.saving, definition["backward"]
    if saving is None or backward is None:
        return
    simple = [
        (place, node)
        for place, node in _statements(saving)
        if place[0] is saving.tree and isinstance(node, ast.Assign | ast.Expr)
    ]
    if not simple:
        return
    place, last = simple[-1]
    for position, name, text in _values_of_forward(definition, saving):
        if position is not None:
            keep = _statement(f"{saving.ctx}.{name}_shape = {text}.shape")
            fix = ((saving, _edit(place, (last, keep))),)
            yield Saved(position, f"{backward.ctx}.{name}_shape", fix, shape=True)


def _values_of_forward(
    definition: Definition, saving: Method
) -> Iterator[tuple[int | None, str, str]]:
    """Yield the position, name and source code of each input and the output of ``forward``."""
    names = [arg.arg for arg in saving.tree.args.args[1:]]
    separate = definition["setup_context"] is not None
    unpacked = _locals(saving)[len(names) :] if separate else names
    for position, name in enumerate(definition.parameters):
        yield position, name, name if name in unpacked else f"{names[0]}[{position}]"
    returned = [node for _, _, node in _returned(saving)] if not separate else []
    if separate and len(names) > 1:
        yield None, "y", names[1]
    elif len(returned) == 1 and isinstance(returned[0], ast.Name):
        yield None, returned[0].id, returned[0].id


def keep_on_ctx(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that store a number as an attribute of ctx instead of saving it as a tensor."""
    saving, backward = definition.saving, definition["backward"]
    if saving is None or backward is None:
        return
    for (place, _, call), (at, unpacking) in zip(
        _calls_on_ctx(saving, "save_for_backward"), _unpackings(backward), strict=False
    ):
        names = _names_stored(unpacking.targets[0])
        if len(names) != len(call.args):
            continue
        for position, arg in enumerate(call.args):
            if not isinstance(arg, ast.Name):
                continue
            rest = [ast.unparse(it) for k, it in enumerate(call.args) if k != position]
            left = [name for k, name in enumerate(names) if k != position]
            local = names[position]
            save = _statement(f"{saving.ctx}.save_for_backward({', '.join(rest)})")
            keep = _statement(f"{saving.ctx}.{arg.id} = {arg.id}")
            take = _statement(f"{local} = {backward.ctx}.{arg.id}")
            targets = ", ".join(left) if len(left) > 1 else f"({''.join(left)},)"
            others = [_statement(f"{targets} = {ast.unparse(unpacking.value)}")] if left else []
            yield (
                (saving, _edit(place, (*([save] if rest else []), keep))),
                (backward, _edit(at, (*others, take))),
            )


# --------------------------------------------------------------------------------------------------
# In-place changes, and values that forward returns.
# --------------------------------------------------------------------------------------------------


def copy_first(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that compute a new tensor instead of changing one in place."""
    names = ("forward",) if finding.rule == "mutates-input" else ("backward",)
    for method in (definition[name] for name in names):
        if method is None:
            continue
        found = [*_out_of_place(method)]
        line = str(finding.evidence.get("line", ""))
        found.sort(key=lambda it: not line or ast.unparse(it[0]) not in line)
        yield from (((method, edit),) for _, edit in found)
        if len(found) > 1 and len({edit.place for _, edit in found}) == len(found):
            yield tuple((method, edit) for _, edit in found)


def _out_of_place(method: Method) -> Iterator[tuple[ast.AST, Edit]]:
    for place, node in nodes_of(method):
        match node:
            case ast.AugAssign(ast.Name(name), op, value):
                new = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                yield node, _edit(place, (_assigned(name, new),))
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), call))) if _is_in_place(call):
                outer = node.value
                assert isinstance(outer, ast.Call)
                func = ast.Attribute(ast.Name(name, ast.Load()), call[:-1], ast.Load())
                made = ast.Call(func, outer.args, outer.keywords)
                yield node, _edit(place, (_assigned(name, made),))
            case ast.Expr(ast.Call(func, [ast.Name(name), *_] as args, keywords)) if isinstance(
                func, ast.Attribute
            ) and _is_in_place(func.attr):  # a function, such as F.relu_(x)
                other = ast.Attribute(func.value, func.attr[:-1], ast.Load())
                yield node, _edit(place, (_assigned(name, ast.Call(other, args, keywords)),))
            case ast.Call(ast.Attribute(value, call)) if _is_in_place(call):
                if not isinstance(place[0], ast.Expr):
                    func = ast.Attribute(value, call[:-1], ast.Load())
                    yield node, _edit(place, ast.Call(func, node.args, node.keywords))
            case ast.Call(func, args, keywords) if any(it.arg == "inplace" for it in keywords):
                rest = [it for it in keywords if it.arg != "inplace"]
                yield node, _edit(place, ast.Call(func, args, rest))
            case ast.Assign([ast.Subscript(ast.Name(name))]) | ast.AugAssign(
                ast.Subscript(ast.Name(name))
            ):
                yield node, _edit(place, (_statement(f"{name} = {name}.clone()"), node))


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    return _statement(f"{name} = {ast.unparse(value)}")


def _is_in_place(call: str) -> bool:
    return call.endswith("_") and not call.endswith("__") and call != "requires_grad_"


def make_contiguous(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that make a method work for any memory layout of its arguments.

    They assign the result of ``contiguous`` to the argument, replace ``view`` with ``reshape``, or
    make an argument contiguous at the start of the method.
    """
    names = ("backward",) if finding.rule == "grad-output-layout" else ("forward", "backward")
    methods = [it for it in map(definition.__getitem__, names) if it is not None]
    for method in methods:
        for place, node in nodes_of(method):
            match node:
                case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "contiguous"))):
                    yield ((method, _edit(place, (_assigned(name, node.value),))),)
                case ast.Call(ast.Attribute(value, "view")):
                    func = ast.Attribute(value, "reshape", ast.Load())
                    yield ((method, _edit(place, ast.Call(func, node.args, node.keywords))),)
    copies = {name: [*_contiguous_arguments(definition[name])] for name in ("forward", "backward")}
    yield from ((it,) for name in names for it in copies[name])
    yield from product(copies["forward"], copies["backward"])


def _contiguous_arguments(method: Method | None) -> Iterator[tuple[Method, Edit]]:
    """Yield edits that each make one argument contiguous at the start of a method."""
    if method is None:
        return
    for arg in method.tree.args.args:
        if arg.arg != method.ctx:
            yield method, _at_start(method, f"{arg.arg} = {arg.arg}.contiguous()")


def mark_dirty(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that call ``mark_dirty`` for an input and return the input itself."""
    saving, forward = definition.saving, definition["forward"]
    if saving is None or forward is None:
        return
    returned = {value.id for _, _, value in _returned(forward) if isinstance(value, ast.Name)}
    for name in definition.parameters:
        if saving is not forward:
            continue
        mark = _before_return(saving, f"{saving.ctx}.mark_dirty({name})")
        if name in returned:
            yield ((saving, mark),)
        for place, _, value in _returned(forward):
            if ast.unparse(value) == f"{name}.clone()":
                yield (saving, mark), (forward, _edit(place, parse(name)))


def _first_statement(method: Method) -> ast.stmt:
    """Return the first statement after the docstring."""
    body = method.tree.body
    return body[-1 if len(body) == 1 else int(ast.get_docstring(method.tree) is not None)]


def _at_start(method: Method, text: str) -> Edit:
    """Return an edit that inserts a statement at the start of a method, after its docstring."""
    first = _first_statement(method)
    place: Place = (method.tree, "body", method.tree.body.index(first))
    kept = () if isinstance(first, ast.Pass) else (first,)
    return _edit(place, (_statement(text), *kept))


def _before_return(method: Method, text: str) -> Edit:
    *_, (place, node) = (pair for pair in _statements(method) if isinstance(pair[1], ast.Return))
    return _edit(place, (_statement(text), node))


def unmark(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that remove an incorrect mark, and that copy the output if needed.

    The mark is a call to ``mark_dirty`` or ``mark_non_differentiable``.
    """
    saving, forward = definition.saving, definition["forward"]
    if saving is None or forward is None:
        return
    call = "mark_dirty" if "dirty" in finding.rule else "mark_non_differentiable"
    for at, _, value in _returned(forward):
        match value:
            case ast.Call(ast.Attribute(inner, "clone")):
                yield ((forward, _edit(at, inner)),)
    for place, _, _ in _calls_on_ctx(saving, call):
        yield ((saving, _edit(place, ())),)
        for at, _, value in _returned(forward):
            if isinstance(value, ast.Name):
                yield (saving, _edit(place, ())), (forward, _edit(at, _cloned(value)))


def _cloned(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(node, "clone", ast.Load()), [], [])


def clone_output(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that return a copy if forward returns an input or a view."""
    forward = definition["forward"]
    if forward is None:
        return
    for place, _, value in _returned(forward):
        taken = isinstance(value, ast.Call | ast.Subscript)
        for name in definition.parameters if taken else ():
            if name in ast.unparse(value):  # replace x.view_as(x) or x[:] with x.clone()
                yield ((forward, _edit(place, parse(f"{name}.clone()"))),)
    edits = [(forward, _edit(place, _cloned(value))) for place, _, value in _returned(forward)]
    yield from ((edit,) for edit in edits)
    if len(edits) > 1:
        yield tuple(edits)


def mark_non_differentiable(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that mark an output as non-differentiable."""
    saving, forward = definition.saving, definition["forward"]
    if saving is None or forward is None or saving is not forward:
        return
    for _, _, value in _returned(forward):
        if isinstance(value, ast.Name):
            text = f"{saving.ctx}.mark_non_differentiable({value.id})"
            yield ((saving, _before_return(saving, text)),)


def save_for_forward(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that also saves the tensors for ``jvp``."""
    saving = definition.saving
    if saving is not None:
        for place, node, call in _calls_on_ctx(saving, "save_for_backward"):
            args = ", ".join(map(ast.unparse, call.args))
            more = _statement(f"{saving.ctx}.save_for_forward({args})")
            yield ((saving, _edit(place, (node, more))),)


def ask_other_flag(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that check ``needs_input_grad`` for a different input."""
    method = definition["backward"]
    if method is None:
        return
    flags: list[str] = []
    for _, node in _statements(method):
        if isinstance(node, ast.Assign) and _is_on(node.value, method.ctx, "needs_input_grad"):
            flags += _names_stored(node.targets[0])
    asked: list[tuple[Place, str]] = []
    for place, node_ in nodes_of(method):
        match node_:
            case ast.Subscript(_, ast.Constant(int(index))) if _is_flag(node_, method):
                asked.append(((node_, "slice", None), str(index)))
            case ast.Name(name, ast.Load()) if name in flags:
                asked.append((place, name))
    own = _own_positions(method)
    times = Counter(text for _, text in asked)  # a copied line may still have the old index
    numbers = [str(k) for k in range(len(definition.parameters))]
    pairs = [
        (place, text, other)
        for place, text in reversed(asked)
        for other in (flags if text in flags else numbers)
        if other != text
    ]

    def unlikely(pair: tuple[Place, str, str]) -> tuple[bool, int]:
        place, text, other = pair
        return own.get(id(place[0])) != other, times[other] - times[text]

    for place, _, other in sorted(pairs, key=unlikely):
        yield ((method, _edit(place, parse(other))),)


def _own_positions(method: Method) -> dict[int, str]:
    """Return the input position for each node in a line that computes a gradient."""
    returned = {node.id: str(k) for _, k, node in _returned(method) if isinstance(node, ast.Name)}
    return {
        id(node): returned[name]
        for _, statement in _statements(method)
        if isinstance(statement, ast.Assign)
        for name in _names_stored(statement.targets[0])
        if name in returned
        for node in ast.walk(statement)
    }


def renumber_flags(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that makes each block check the flag for the gradient that it computes."""
    method = definition["backward"]
    if method is None:
        return
    places = {node.id: k for _, k, node in _returned(method) if isinstance(node, ast.Name)}
    edits: list[tuple[Method, Edit]] = []
    for _, node in nodes_of(method):
        if not isinstance(node, ast.If):
            continue
        flags = [it for it in ast.walk(node.test) if _is_flag(it, method)]
        stored = {
            it.id
            for statement in node.body
            for it in ast.walk(statement)
            if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Store)
        }
        own = {places[name] for name in stored if name in places}
        match flags:
            case [ast.Subscript(_, ast.Constant(int(index))) as flag] if own and index not in own:
                new = ast.Constant(min(own))
                edits.append((method, _edit((flag, "slice", None), new)))
    if edits:
        yield tuple(edits)


def ask_other_flags(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes for a statement that unpacks some of the flags, such as the first three.

    The new statement assigns other flags to the same names, as in
    ``need_x, _, need_w = ctx.needs_input_grad``.
    """
    method, count = definition["backward"], len(definition.parameters)
    if method is None or count > MOST_ARGUMENTS:
        return
    for place, node in nodes_of(method):
        match node:
            case ast.Assign([ast.Tuple(names)], ast.Subscript(flags, ast.Slice())) if _is_on(
                flags, method.ctx, "needs_input_grad"
            ):
                texts, value = [*map(ast.unparse, names)], ast.unparse(flags)
                choices = combinations(range(count), len(names))
                for chosen in sorted(choices, key=lambda it: it[-1] - it[0]):
                    by_position = dict(zip(chosen, texts, strict=True))
                    first, last = chosen[0], chosen[-1] + 1
                    first = first if last - first == len(names) else 0
                    targets = ", ".join(by_position.get(k, "_") for k in range(first, last))
                    bounds = f"[{first or ''}:{last if last < count else ''}]"
                    new = f"{targets} = {value}{'' if bounds == '[:]' else bounds}"
                    if new != ast.unparse(node):
                        yield ((method, _edit(place, _statement(new))),)


MOST_ARGUMENTS = 6  # with 6 arguments, there are at most 20 ways to choose the flags


def _is_flag(node: ast.AST, method: Method) -> bool:
    """Return whether a node is an element of ``ctx.needs_input_grad``."""
    return isinstance(node, ast.Subscript) and _is_on(node.value, method.ctx, "needs_input_grad")


def enable_grad(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that enable grad mode where ``backward`` builds its own graph."""
    method = definition["backward"]
    body = method.tree.body if method else []
    asks = [k for k, node in enumerate(body) if "grad(" in ast.unparse(node)]
    if method is None or not asks:
        return
    last = asks[0]
    for first in range(last - 1, -1, -1):
        inner = [*body[first:last]]
        if any(isinstance(node, ast.Return) for node in inner):
            return
        item = ast.withitem(parse("torch.enable_grad()"))
        block = ast.With([item], inner)
        edits = [_edit((method.tree, "body", first), (block,))]
        edits += [_edit((method.tree, "body", k), ()) for k in range(first + 1, last)]
        yield tuple((method, edit) for edit in edits)


def materialize(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that makes autograd pass zeros instead of ``None`` to ``backward``."""
    saving = definition.saving
    if saving is not None:
        for place, _, _ in _calls_on_ctx(saving, "set_materialize_grads"):
            yield ((saving, _edit(place, ())),)


# --------------------------------------------------------------------------------------------------
# The returned gradients.
# --------------------------------------------------------------------------------------------------


def _gradients(
    definition: Definition, finding: Finding
) -> Iterator[tuple[Method, Place, ast.expr]]:
    """Yield the gradients that ``backward`` returns for the finding's input, or for all inputs."""
    method, wanted = definition["backward"], _position(definition, finding)
    if method is not None:
        for place, position, value in _returned(method):
            is_none = isinstance(value, ast.Constant)
            if not is_none and wanted in (None, position):
                yield method, place, value


FACTORIES = ("zeros", "ones", "empty", "full", "tensor", "eye", "arange", "linspace")


def cast_gradient(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that convert a gradient to the dtype and device of its input."""
    method = definition["backward"]
    what = "device" if "device" in finding.rule else "dtype"
    if method is None:
        return
    grad = method.tree.args.args[1].arg if len(method.tree.args.args) > 1 else ""
    for place, node in nodes_of(method):
        match node:
            case ast.Call(ast.Attribute(ast.Name("torch"), call), args, keywords) if (
                call in FACTORIES[:5] and what not in ("", *(it.arg for it in keywords))
            ):
                new = parse(f"{grad}.new_{call}({', '.join(map(ast.unparse, args))})")
                yield ((method, _edit(place, new)),)
            case ast.Call(ast.Attribute(value, "float" | "double" | "half" | "cpu")):
                yield ((method, _edit(place, value)),)
            case ast.Call(ast.Attribute(ast.Name("torch"), call), args, keywords) if (
                call in FACTORIES and not any(it.arg == what for it in keywords)
            ):
                added = ast.keyword(what, parse(f"{grad}.{what}"))
                yield ((method, _edit(place, ast.Call(node.func, args, [*keywords, added]))),)
    for _, place, value in _gradients(definition, finding):
        named = str(finding.evidence.get("input", ""))
        for name in sorted(_locals(method), key=lambda it: it != named)[:4]:
            to = ast.Call(ast.Attribute(value, "to", ast.Load()), [parse(f"{name}.{what}")], [])
            yield ((method, _edit(place, to)),)


def sum_gradient(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that sum a gradient over the dims that forward broadcast.

    One of them stores the input's shape on ``ctx``, in case ``backward`` does not know the shape.
    """
    named, saving = str(finding.evidence.get("input", "")), definition.saving
    for method, place, value in _gradients(definition, finding):

        def summed(call: str, place: Place = place, value: ast.expr = value) -> Edit:
            new = parse(f"_.{call}")
            assert isinstance(new, ast.Call)
            assert isinstance(new.func, ast.Attribute)
            new.func.value = value
            return _edit(place, new)

        names = sorted(_locals(method), key=lambda it: it != named)
        for name in names[:4]:
            yield ((method, summed(f"sum_to_size({name}.shape)")),)
        given = _with_a_graph(definition, saving).get(named) if saving else None
        if saving is not None and given is not None:
            store = _at_start(saving, f"{saving.ctx}.{named}_shape = {given}.shape")
            yield (saving, store), (method, summed(f"sum_to_size({method.ctx}.{named}_shape)"))
        yield ((method, summed("sum(0)")),)


def sum_to_shape(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that replace a sum over all dims with a sum to the shape of an input.

    Only if ``backward`` returns a number for an input with dims, such as a bias.
    """
    named, expected = str(finding.evidence.get("input", "")), finding.evidence.get("expected")
    if finding.evidence.get("actual") != [] or not expected:
        return
    for method, place, value in _gradients(definition, finding):
        names = sorted(_locals(method), key=lambda it: it != named)
        for name in names[:4]:
            new = ast.fix_missing_locations(_Summed(name).visit(copy.deepcopy(value)))
            if ast.unparse(new) != ast.unparse(value):
                yield ((method, _edit(place, new)),)


class _Summed(ast.NodeTransformer):
    """Replaces ``….sum()`` with ``….sum_to_size(name.shape)``."""

    def __init__(self, name: str) -> None:
        self._shape = parse(f"{name}.shape")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(ast.Attribute(value, "sum"), [], []):
                summed = ast.Attribute(self.visit(value), "sum_to_size", ast.Load())
                return ast.Call(summed, [self._shape], [])
            case _:
                return self.generic_visit(node)


def guard_gradient(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that compute each wasted gradient only if its input requires one."""
    backward, names = definition["backward"], definition.parameters
    wasted = [names.index(name) for name in finding.evidence["operations"] if name in names]
    if backward is None or not wasted:
        return
    flags = f"{backward.ctx}.needs_input_grad"
    if len(wasted) == 1:
        (position,) = wasted
        for at, node in nodes_of(backward):
            if ast.unparse(node) == f"any({flags})":
                yield ((backward, _edit(at, parse(f"{flags}[{position}]"))),)
        yield from _returned_early(backward, f"{flags}[{position}]")
    fix = []
    for place, position, value in _returned(backward):
        if position not in wasted or isinstance(value, ast.Constant):
            continue
        at = place
        if isinstance(value, ast.Name):  # an earlier statement computed it
            name = value.id
            stores = [
                node
                for node in backward.tree.body
                if isinstance(node, ast.Assign) and _names_stored(node.targets[0]) == [name]
            ]
            if len(stores) != 1:
                return
            at, value = (stores[0], "value", None), stores[0].value
        guarded = ast.IfExp(parse(f"{flags}[{position}]"), value, ast.Constant(None))
        fix.append((backward, _edit(at, guarded)))
    if fix:
        yield tuple(fix)


def _returned_early(backward: Method, flag: str) -> Iterator[Fix]:
    """Yield the fix that returns early if the only gradient in ``backward`` is not needed."""
    returns = [node for _, node in _statements(backward) if isinstance(node, ast.Return)]
    match returns:
        case [ast.Return(ast.Tuple(elts))] if _first_statement(backward) is not returns[0]:
            nothing = [ast.unparse(it) for it in elts if isinstance(it, ast.Constant)]
            if len(nothing) == len(elts) - 1 and {*nothing} == {"None"}:
                none = ", ".join(["None"] * len(elts))
                yield ((backward, _at_start(backward, f"if not {flag}:\n    return {none}")),)


def drop_gradient(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield the fix that returns ``None`` for an input that cannot have a gradient."""
    for method, place, _ in _gradients(definition, finding):
        yield ((method, _edit(place, ast.Constant(None))),)


def use_argument(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes that replace a number in ``backward`` with an argument such as ``dim``."""
    saving, method = definition.saving, definition["backward"]
    forward = definition["forward"]
    if saving is None or method is None or forward is None:
        return
    numbers: dict[str, list[Place]] = {}
    inside: set[int] = set()
    for place, node in nodes_of(method):
        if id(node) in inside:
            continue
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            inside.add(id(node.operand))
        elif not isinstance(node, ast.Constant):
            continue
        text = ast.unparse(node)
        if text.removeprefix("-").isdigit():
            numbers.setdefault(text, []).append(place)
    for name in sorted(definition.parameters, key=lambda it: f"`{it}`" not in finding.message):
        kept = [
            node.targets[0]
            for _, node in _statements(saving)
            if isinstance(node, ast.Assign)
            and _is_on(node.targets[0], saving.ctx)
            and ast.unparse(node.value) == name
        ]
        attribute = kept[0].attr if kept and isinstance(kept[0], ast.Attribute) else name
        first = _at_start(saving, f"{saving.ctx}.{attribute} = {name}")
        begin = () if kept else ((saving, first),)
        for places in numbers.values():
            uses = parse(f"{method.ctx}.{attribute}")
            yield (*begin, *((method, _edit(place, uses)) for place in places))


def take_any_dims(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that replace ``x[:]``, which fails for a 0-dim tensor, with ``x[...]``."""
    for method in definition.methods.values():
        for place, node in nodes_of(method):
            if isinstance(node, ast.Slice) and ast.unparse(node) == ":" and place[1] == "slice":
                yield ((method, _edit(place, ast.Constant(...))),)


def keep_dims(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes that add ``keepdim=True`` to a sum in ``backward`` or in a helper function."""
    for method in definition.methods.values():
        if method.name in ("forward", "setup_context", "vmap"):
            continue
        for place, node in nodes_of(method):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            named = {it.arg for it in node.keywords}
            if (
                node.func.attr in ("sum", "mean", "amax")
                and (node.args or named)
                and ("keepdim" not in named)
            ):
                keepdim = ast.keyword("keepdim", ast.Constant(True))
                kept = ast.Call(node.func, node.args, [*node.keywords, keepdim])
                yield ((method, _edit(place, kept)),)


def put_samples_first(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix that returns 0 as ``out_dims``, for a ``vmap`` with the batch dim first."""
    method = definition["vmap"]
    if method is None:
        return
    for _, node in _statements(method):
        match node:
            case ast.Return(ast.Tuple([_, out_dims]) as pair):
                yield ((method, _edit((pair, "elts", 1), _zeros_in(out_dims))),)


def _zeros_in(out_dims: ast.expr) -> ast.expr:
    if isinstance(out_dims, ast.Tuple):
        return ast.Tuple([ast.Constant(0) for _ in out_dims.elts], ast.Load())
    return ast.Constant(0)


def ask_for_own_flag(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield the fix for a ``ctx.needs_input_grad`` index that counts ``ctx`` as argument 0."""
    method = definition["backward"]
    if method is None:
        return
    flags = [node for _, node in nodes_of(method) if _is_flag(node, method)]
    shifted: list[tuple[Method, Edit]] = []
    for node in flags:
        match node:
            case ast.Subscript(_, ast.Constant(int(index))):
                shifted.append((method, _edit((node, "slice", None), ast.Constant(index - 1))))
    if shifted and len(shifted) == len(flags):
        yield tuple(shifted)


def ask_every_flag(definition: Definition, _finding: Finding) -> Iterator[Fix]:
    """Yield fixes for a condition that checks the flag of one input but controls all gradients."""
    method = definition["backward"]
    if method is None:
        return
    for _, statement in _statements(method):
        if isinstance(statement, ast.If):
            for place, node in _below((statement, "test", None), statement.test):
                if _is_flag(node, method):
                    new = parse(f"any({method.ctx}.needs_input_grad)")
                    yield ((method, _edit(place, new)),)


def copy_attribute(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield fixes for an attribute of ``ctx`` that ``backward`` changes.

    They copy the attribute before use, or store a list in it instead of an iterator.
    """
    method, copied = definition["backward"], str(finding.evidence.get("copy", ""))
    saving = definition.saving
    name = str(finding.evidence.get("attribute", "")).removeprefix("ctx.")
    if saving is not None and "copy" not in finding.evidence:
        for _, node in _statements(saving):
            if isinstance(node, ast.Assign) and _is_on(node.targets[0], saving.ctx, name):
                listed = parse(f"list({ast.unparse(node.value)})")
                yield ((saving, _edit((node, "value", None), listed)),)
    if method is None or not copied:
        return
    copied = copied.replace("ctx.", f"{method.ctx}.")
    reads = [
        place
        for place, node in nodes_of(method)
        if _is_on(node, method.ctx, name) and isinstance(node.ctx, ast.Load)  # type: ignore[attr-defined]
    ]
    yield from (((method, _edit(place, parse(copied))),) for place in reads)
    if len(reads) > 1:
        yield tuple((method, _edit(place, parse(copied))) for place in reads)


# --------------------------------------------------------------------------------------------------
# The table.
# --------------------------------------------------------------------------------------------------

FIXES: Mapping[str, Sequence[Generator]] = {
    "missing-staticmethod": (make_static,),
    "forward-raises": (make_static, keep_on_ctx),
    "backward-raises": (unpack, enable_grad),
    "non-tensor-saved": (unpack_saved, keep_on_ctx),
    "tensor-on-ctx": (save_on_ctx,),
    "ctx-cycle": (save_on_ctx, save_off_class),
    "shared-state": (save_off_class,),
    "saved-twice": (unpack_once,),
    "returns-view": (clone_output,),
    "mutates-input": (mark_dirty, copy_first),
    "mutates-saved": (copy_first,),
    "mutates-grad-output": (copy_first,),
    "wrong-mark-dirty": (unmark, mark_dirty),
    "wrong-non-differentiable": (mark_non_differentiable, unmark),
    "none-grad-output": (materialize,),
    "gradient-dtype": (cast_gradient,),
    "gradient-device": (cast_gradient,),
    "unreduced-broadcast": (sum_gradient,),
    "gradient-shape": (sum_to_shape,),
    "extra-gradient": (drop_gradient,),
    "wasted-gradient": (guard_gradient,),
    "once-differentiable-leak": (make_differentiable,),
    "no-double-backward": (make_differentiable,),
    "silent-double-backward": (compute_in_backward, make_differentiable),
    "dim-argument": (use_argument,),
    "frozen-input": (renumber_flags, ask_other_flags, ask_every_flag, ask_other_flag),
    "wrong-jvp": (save_for_forward,),
    "zero-dim": (take_any_dims,),
    "not-reentrant": (copy_attribute,),
    "grad-output-layout": (make_contiguous,),
    "input-layout": (make_contiguous,),
    "wrong-vmap": (put_samples_first,),
    "batch-dimension": (keep_dims,),
    "missing-gradient": (
        renumber_flags,
        ask_other_flags,
        ask_for_own_flag,
        ask_every_flag,
        ask_other_flag,
    ),
}


def fixes_for(definition: Definition, finding: Finding) -> Iterator[Fix]:
    """Yield the fixes for a finding, in order of likelihood."""
    kinds = FIXES.get(finding.rule, ())
    yield from chain.from_iterable(generate(definition, finding) for generate in kinds)
