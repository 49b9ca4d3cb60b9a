"""Record one real forward and one real backward pass as a trace."""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from autograd_doctor.extension import own_source
from autograd_doctor.memory import DispatchMode
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._pytree import tree_leaves

from autograd_course.engine import run_backward
from autograd_course.visualize.flow.grouping import fold, regrouped
from autograd_course.visualize.flow.trace import (
    Edge,
    Group,
    Node,
    Reading,
    Role,
    Saved,
    Source,
    Summaries,
    Trace,
)
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import Summary, raised
from autograd_course.visualize.kit.graph import (
    GraphNode,
    in_forward_order,
    is_custom,
    is_leaf,
    operation,
    producers,
    unique,
)
from autograd_course.visualize.kit.inputs import (
    as_callable,
    captured_names,
    fresh_leaves,
    input_names,
    require_dense,
    require_values,
    title,
)

# --- Forward: the values that operations read -----------------------------------------------------


class ForwardValues(DispatchMode):
    """A dispatch mode that records the value of every differentiable tensor that operations read.

    The key of a value is the node that created the tensor. The mode records the value when the next
    operation reads the tensor, before later code can change the tensor in place. ``born`` maps each
    storage to the number of autograd's next node when the storage was filled
    (:func:`saved_tensors`).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of: dict[tuple[GraphNode, int], Summary] = {}
        self.born: dict[int, int] = {}
        self._tensors: dict[tuple[GraphNode, int], Tensor] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for leaf in given:
            self.note(leaf)
        result = func(*args, **(kwargs or {}))
        known = {address(leaf) for leaf in given}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and (at := address(leaf)) not in known:
                self.born[at] = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        return result

    def note(self, tensor: Tensor) -> None:
        """Record the tensor's value, unless it has no node or its value is already recorded."""
        if (node := tensor.grad_fn) is not None and (node, tensor.output_nr) not in self.of:
            self.of[node, tensor.output_nr] = Reading.of(tensor)
            self._tensors[node, tensor.output_nr] = tensor

    def hooks(self) -> dict[GraphNode, tuple[str, ...]]:
        """Return the names of each node's tensor hooks, and drop the references to the tensors."""
        found: dict[GraphNode, tuple[str, ...]] = {}
        for (node, _), tensor in self._tensors.items():
            found[node] = found.get(node, ()) + tensor_hooks(tensor)
        self._tensors.clear()
        return {node: names for node, names in found.items() if names}


def tensor_hooks(tensor: Tensor) -> tuple[str, ...]:
    """Return the names of the hooks that ``register_hook`` added to a tensor."""
    hooks = (tensor._backward_hooks or {}).values()
    return tuple(getattr(hook, "__name__", type(hook).__name__) for hook in hooks)


def address(tensor: Tensor) -> int:
    """Return the memory address of a tensor's storage, or 0 if it has none."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


# --- Backward: gradients between nodes ------------------------------------------------------------

# Elementwise operations, for which gradient / grad_output is the derivative.
ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Add", "Asin", "Atan", "Celu", "Clamp", "ClampMax", "ClampMin", "Clone", "Cos"}
    | {"Cosh", "Div", "Elu", "Erf", "Erfc", "Exp", "Expm1", "Gelu", "Hardswish", "Hardtanh"}
    | {"LeakyRelu", "Log", "Log10", "Log1P", "Log2", "LogSigmoid", "Maximum", "Minimum", "Mul"}
    | {"Neg", "Pow", "Reciprocal", "Relu", "Rsqrt", "Rsub", "Sigmoid", "Silu", "Sin", "Sinh"}
    | {"Softplus", "Sqrt", "Sub", "Tan", "Tanh", "Threshold", "ToCopy", "Where"}
)


class BackwardGradients:
    """The gradients that each node receives and sends, and the order in which the nodes run.

    ``before`` has an entry for each gradient that a hook changed. PyTorch does not list the hooks
    of a node, so this class compares the sent gradients with the received gradient.
    """

    def __init__(self) -> None:
        self.received: dict[GraphNode, Summaries] = {}
        self.sent: dict[GraphNode, Summaries] = {}
        self.factors: dict[GraphNode, Summaries] = {}
        self.before: dict[GraphNode, Summaries] = {}
        self.running: GraphNode | None = None
        self._arrived: list[Tensor | None] = []
        self._waiting: dict[GraphNode, dict[int, Tensor]] = {}

    @contextmanager
    def watching(self, nodes: Sequence[GraphNode]) -> Iterator[None]:
        """Keep hooks on all nodes during a ``with`` block."""
        handles = []
        for node in (node for node in nodes if not is_leaf(node)):
            handles.append(node.register_prehook(partial(self._receive, node)))
            handles.append(node.register_hook(partial(self._send, node)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._arrived = []

    @torch.no_grad()
    def add(self, node: GraphNode, output: int, gradient: Tensor | None) -> None:
        """Add a gradient to the sum of the gradients that were sent to a node's output."""
        if gradient is not None:
            there = self._waiting.setdefault(node, {})
            there[output] = there[output] + gradient if output in there else gradient

    def arrive(self, node: GraphNode, gradients: Sequence[Tensor | None]) -> None:
        """Compare the gradient that a node received with the gradients that were sent to it."""
        sent = self._waiting.pop(node, {})
        pairs = [(sent.get(output), gradient) for output, gradient in enumerate(gradients)]
        if any(changed(was, now) for was, now in pairs):
            self.before[node] = summaries(
                [was if changed(was, now) else None for was, now in pairs]
            )

    def _receive(self, node: GraphNode, grad_outputs: Sequence[Tensor | None]) -> None:
        # Copy the gradients before backward runs, because backward can change them in place.
        self.running = node
        self._arrived = [None if g is None else g.detach().clone() for g in grad_outputs]
        self.received[node] = summaries(grad_outputs)
        self.arrive(node, grad_outputs)

    def _send(self, node: GraphNode, grad_inputs: Sequence[Tensor | None], _: Any) -> None:
        self.sent[node] = summaries(grad_inputs)
        self.factors[node] = tuple(local_factor(node, g, self._arrived) for g in grad_inputs)
        self._arrived = []
        for argument, source, output in producers(node):
            self.add(source, output, grad_inputs[argument] if argument < len(grad_inputs) else None)


@torch.no_grad()
def changed(was: Tensor | None, now: Tensor | None) -> bool:
    """Return whether two gradients differ by more than rounding errors.

    Rounding errors vary with the order of summation.
    """
    if was is None or now is None:
        return was is not now and was is not None
    if was.layout != now.layout or was.shape != now.shape:
        return True
    if was is now or (was.layout == torch.strided and torch.equal(was, now)):
        return False
    was, now = (was.to_dense(), now.to_dense()) if was.is_sparse else (was, now)
    tolerance = 8 * torch.finfo(now.dtype).eps
    largest = float(now.abs().nan_to_num(0, 0, 0).max()) if now.numel() else 0.0
    return not torch.allclose(was, now, tolerance, tolerance * largest, equal_nan=True)


def summaries(tensors: Sequence[Tensor | None]) -> Summaries:
    """Summarize each tensor. ``None`` stays ``None``."""
    return tuple(None if tensor is None else Reading.of(tensor) for tensor in tensors)


@torch.no_grad()
def local_factor(
    node: GraphNode, sent: Tensor | None, received: Sequence[Tensor | None]
) -> Summary | None:
    """Return ``sent / received`` if this is the node's local derivative, else ``None``."""
    if sent is None or len(received) != 1 or (grad_output := received[0]) is None:
        return None
    single = sent.numel() == grad_output.numel() == 1
    elementwise = operation(node) in ELEMENTWISE and sent.shape == grad_output.shape
    usable = single or elementwise
    if not usable or not _divides(grad_output):
        return None
    return Reading.of(sent / grad_output.reshape(sent.shape))


def _divides(gradient: Tensor) -> bool:
    """Return whether every element is finite and nonzero, which makes division safe."""
    if gradient.numel() == 1 and not gradient.is_complex():
        return math.isfinite(value := gradient.item()) and value != 0
    return bool(torch.all(gradient.isfinite() & (gradient != 0)))


# --- The module that created each node ------------------------------------------------------------
# Autograd numbers nodes in the order in which it creates them. The next node numbers at the start
# and end of a module's forward therefore bound the numbers of the nodes that the module created.


@dataclass
class ModuleCall:
    """A module call. Its nodes have numbers from ``begin`` up to, but not including, ``end``."""

    path: str
    kind: str
    parent: int | None
    begin: int
    end: int = 0


class ModuleCalls:
    """The module calls in a ``with`` block. ``paths`` maps ids to module names."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self.made: list[ModuleCall] = []
        self._paths = paths
        self._running: list[tuple[int, int]] = []  # the id of a module, and its call

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep hooks on all modules during a ``with`` block."""
        before = register_module_forward_pre_hook(self._enter)
        after = register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def _enter(self, module: nn.Module, _: Any) -> None:
        kind = type(module).__name__
        parent = self._running[-1][1] if self._running else None
        path = self._paths.get(id(module), kind)
        self.made.append(ModuleCall(path, kind, parent, _next_number()))
        self._running.append((id(module), len(self.made) - 1))

    def _leave(self, module: nn.Module, _: Any, __: Any) -> None:
        while self._running:
            entered, call = self._running.pop()
            self.made[call].end = _next_number()
            if entered == id(module):
                return


def _next_number() -> int:
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def innermost(calls: Sequence[ModuleCall], number: int) -> int | None:
    """Return the innermost module call in which the node with this number was created."""
    return max((i for i, c in enumerate(calls) if c.begin <= number < c.end), default=None)


def reached_modules(fn: Any, given: Mapping[str, Any]) -> dict[str, nn.Module]:
    """Name the modules that ``fn`` uses or receives as arguments, including ``fn`` itself."""
    owner = getattr(fn, "__self__", fn)
    reached: dict[str, Any] = {"": owner}
    if inspect.isfunction(fn):
        variables = inspect.getclosurevars(fn)
        reached |= {**variables.globals, **variables.nonlocals}
    return {n: m for n, m in {**reached, **given}.items() if isinstance(m, nn.Module)}


def module_paths(roots: Mapping[str, nn.Module]) -> dict[int, str]:
    """Return the paths of all modules inside the roots, keyed by the ``id`` of the module."""
    paths: dict[int, str] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            joined = ".".join(part for part in (name, path) if part)
            paths.setdefault(id(module), joined or type(root).__name__)
    return paths


# --- The contents of a custom Function's ctx, and its source --------------------------------------

_LONGEST = 60  # the maximum length of a non-tensor attribute, in characters
_MOST_LINES = 60  # the maximum number of source lines
# Finding the source is the slowest part of a trace, and a sweep creates a hundred traces.
_SOURCES: WeakKeyDictionary[type, Source] = WeakKeyDictionary()


def saved_tensors(node: GraphNode, born: Mapping[int, int]) -> tuple[Saved, ...]:
    """Return the tensors that a custom Function passed to ``save_for_backward``, and their roles.

    ``born`` maps the address of each storage to the number of autograd's next node when the storage
    was filled. A storage that was filled before the Function's node is an input. A storage that was
    filled later was computed inside the Function.
    """
    if not is_custom(node):
        return ()
    kept = [tensor for tensor in node.saved_tensors if tensor is not None]
    return tuple(_saved(node, tensor, born) for tensor in kept)


def _saved(node: GraphNode, tensor: Tensor, born: Mapping[int, int]) -> Saved:
    role, argument = _role(node, tensor, born)
    return Saved(Reading.of(tensor), tensor.nbytes, role, argument)


def _role(node: GraphNode, tensor: Tensor, born: Mapping[int, int]) -> tuple[Role, int | None]:
    if tensor.grad_fn is node:
        return "output", None
    for argument, source, output in producers(node):
        leaf = getattr(source, "variable", None)
        same = leaf is not None and leaf.data_ptr() == tensor.data_ptr()
        if same or (tensor.grad_fn is source and tensor.output_nr == output):
            return "input", argument
    inside = born.get(tensor.untyped_storage().data_ptr(), 0) > node._sequence_nr()
    return "intermediate" if inside else "input", None


def attributes(node: GraphNode) -> tuple[tuple[str, str], ...]:
    """Return the attributes that a custom Function stored on its ctx, as text."""
    if not is_custom(node):
        return ()
    return tuple((name, _written(value)) for name, value in vars(node).items())


def _written(value: Any) -> str:
    if hasattr(value, "detach"):
        return f"tensor {Reading.of(value).text}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def source_of(node: GraphNode) -> Source | None:
    """Return the source code of a custom Function's ``forward`` and ``backward``, if available."""
    if not is_custom(node):
        return None
    function = node._forward_cls
    if function not in _SOURCES:
        _SOURCES[function] = Source(_text(function, "forward"), _text(function, "backward"))
    known = _SOURCES[function]
    return known if known.forward or known.backward else None


def _text(function: type, name: str) -> str:
    try:
        known = own_source(inspect.getattr_static(function, name).__func__)
    except AttributeError:  # the method has a different name
        return ""
    if known is None:
        return ""
    lines = textwrap.dedent("".join(known[0])).rstrip().splitlines()
    more = ["    …"] if len(lines) > _MOST_LINES else []
    return "\n".join(lines[:_MOST_LINES] + more)


# --- From the records to a trace ------------------------------------------------------------------


@dataclass(frozen=True)
class Passes:
    """Both passes, with the nodes of PyTorch's graph. ``nodes`` is in forward order."""

    nodes: Sequence[GraphNode]
    roots: Sequence[tuple[GraphNode, int]]
    leaves: Mapping[GraphNode, Tensor]
    outputs: Sequence[Summary]
    seeds: Sequence[Summary]
    values: Mapping[tuple[GraphNode, int], Summary]
    gradients: BackwardGradients
    collected: Mapping[GraphNode, Summary | None]
    hooks: Mapping[GraphNode, tuple[str, ...]]
    born: Mapping[int, int]
    calls: Sequence[ModuleCall]


@dataclass(frozen=True)
class Names:
    """The names of the traced function, and of tensors by ``id``.

    ``given`` contains the names of the arguments. ``whole`` is true if ``fn`` is a module rather
    than a function that calls modules.
    """

    title: str
    tensors: Mapping[int, str]
    given: Sequence[str]
    whole: bool


def assemble(passes: Passes, names: Names) -> Trace:
    """Build the trace, fold chains of reshaping nodes, and group nodes by module."""
    ids = {node: index for index, node in enumerate(passes.nodes)}
    called = unique([*(_name(node, passes, names.tensors) for node in ids), *_output_names(passes)])
    inner = [_node(node, index, called[index], passes) for node, index in ids.items()]
    rim = [
        Node(len(ids) + i, called[len(ids) + i], "output", "output", (value,), (seed,))
        for i, (value, seed) in enumerate(zip(passes.outputs, passes.seeds, strict=True))
    ]
    edges = [edge for node in ids for edge in _edges(node, ids, passes)]
    edges += [
        Edge(ids[node], end.id, output, 0, end.gradients[0])
        for end, (node, output) in zip(rim, passes.roots, strict=True)
    ]
    summed = len(rim) > 1 or passes.outputs[0].shape != ()
    trace = Trace(
        title=names.title,
        nodes=(*inner, *rim),
        edges=tuple(edges),
        backward=_order(ids, rim, passes),
        summed=summed,
        groups=tuple(Group(call.path, call.kind, call.parent) for call in passes.calls),
        unit=math.hypot(*(seed.norm for seed in passes.seeds)) or 1.0,  # 0 for empty outputs
    )
    return regrouped(fold(trace), names.given, names.whole)


def _name(node: GraphNode, passes: Passes, names: Mapping[int, str]) -> str:
    if node in passes.leaves:
        return names.get(id(passes.leaves[node]), "captured")
    return operation(node)


def _output_names(passes: Passes) -> list[str]:
    alone = len(passes.outputs) == 1 and passes.outputs[0].shape == ()
    return ["loss"] if alone else ["output"] * len(passes.outputs)


def _node(node: GraphNode, index: int, name: str, passes: Passes) -> Node:
    if node in passes.leaves:
        value, gradient = Reading.of(passes.leaves[node]), passes.collected[node]
        return Node(
            id=index,
            name=name,
            op="input",
            kind="input",
            values=(value,),
            gradients=(gradient,),
            hooks=passes.hooks.get(node, ()),
            before=passes.gradients.before.get(node, ()),
        )
    return Node(
        id=index,
        name=name,
        op=operation(node),
        kind="custom" if is_custom(node) else "op",
        values=_values(node, passes),
        gradients=passes.gradients.received.get(node, (None,)),
        saved=saved_tensors(node, passes.born),
        attributes=attributes(node),
        source=source_of(node),
        hooks=passes.hooks.get(node, ()),
        before=passes.gradients.before.get(node, ()),
        group=innermost(passes.calls, node._sequence_nr()),
    )


def _values(node: GraphNode, passes: Passes) -> Summaries:
    count = len(passes.gradients.received.get(node, (None,)))
    return tuple(passes.values.get((node, output)) for output in range(count))


def _edges(node: GraphNode, ids: Mapping[Any, int], passes: Passes) -> list[Edge]:
    sent = passes.gradients.sent.get(node, ())
    factors = passes.gradients.factors.get(node, ())
    absent = (None,) * len(node.next_functions)
    return [
        Edge(ids[source], ids[node], output, i, (*sent, *absent)[i], (*factors, *absent)[i])
        for i, source, output in producers(node)
    ]


def _order(ids: Mapping[GraphNode, int], rim: Sequence[Node], passes: Passes) -> tuple[int, ...]:
    """Return the order in which backward ran.

    A leaf follows the last node that sends it a gradient.
    """
    waiting: dict[GraphNode, int] = dict.fromkeys(passes.leaves, 0)
    for node in ids:
        for _, source, _ in producers(node):
            if source in waiting:
                waiting[source] += 1
    order = [end.id for end in rim]
    order += [ids[leaf] for leaf, consumers in waiting.items() if not consumers]
    for node in passes.gradients.sent:
        order.append(ids[node])
        for _, source, _ in producers(node):
            if source in waiting:
                waiting[source] -= 1
                order += [ids[source]] if not waiting[source] else []
    return tuple(order)


# --- One real forward and one real backward -------------------------------------------------------


def trace_gradient_flow(fn: Any, *inputs: Any, names: Sequence[str] | None = None) -> Trace:
    """Run ``fn(*inputs)`` and its backward pass once, and record both.

    The loss is the sum of all elements of the result. Module calls become groups. The function
    preserves the caller's tensors, gradients, random state, grad mode and default dtype. It keeps
    no part of the graph alive.

    Args:
        fn: A ``torch.autograd.Function`` class (its ``.apply`` is called), or any callable that
            returns a tensor or a tuple of tensors.
        inputs: The arguments. Tensors are copied.
        names: The names of the inputs. By default, these are the parameter names of ``fn``.

    Returns:
        The trace: the nodes, edges and values of both passes, as plain data.

    Raises:
        TraceError: An input has no values, no input can have a gradient, no result depends on the
            inputs, or ``fn`` or a backward raises an error.

    Example:
        >>> import torch
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import trace_gradient_flow
        >>> trace_gradient_flow(Square, torch.tensor(3.0)).title
        'Square'
    """
    require_values(inputs)
    call, arguments = as_callable(fn, "gradient_flow"), fresh_leaves(inputs)
    called = input_names(fn, inputs, names)
    named = {id(x): name for x, name in _named_once(arguments, called)}
    modules = reached_modules(fn, dict(zip(called, arguments, strict=True)))
    calls = ModuleCalls(module_paths(modules))
    with _undisturbed():
        with calls.watching():
            outputs, values = _forward(call, arguments, title(fn))
        passes = _backward(outputs, values, calls, [x for x in arguments if id(x) in named])
    given = list(named.values())
    if any(id(leaf) not in named for leaf in passes.leaves.values()):
        named |= {**_parameters(modules), **captured_names(fn)}
    return assemble(passes, Names(title(fn), named, given, "" in modules))


def _parameters(modules: Mapping[str, nn.Module]) -> dict[int, str]:
    return {
        id(parameter): f"{name}.{path}" if name else path
        for name, module in modules.items()
        for path, parameter in module.named_parameters()
    }


def _named_once(arguments: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[Any, str]]:
    seen: set[int] = set()
    for argument, name in zip(arguments, names, strict=True):
        if isinstance(argument, Tensor) and argument.requires_grad and id(argument) not in seen:
            seen.add(id(argument))
            yield argument, name


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Run a ``with`` block in grad mode, and then restore the random state and default dtype."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    dtype = torch.get_default_dtype()
    try:
        with (
            torch.random.fork_rng(devices=list(devices)),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            yield
    finally:
        torch.set_default_dtype(dtype)


def _forward(
    call: Callable[..., Any], arguments: Sequence[Any], name: str
) -> tuple[list[Tensor], ForwardValues]:
    with ForwardValues() as values:
        try:
            result = call(*arguments)
        except Exception as error:
            raise TraceError(f"{name} raised {raised(error)}.") from error
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    tensors = [output for output in outputs if isinstance(output, Tensor)]
    if not tensors:
        raise TraceError(f"{name} returned {type(result).__name__}, not a tensor; return the loss.")
    differentiable = [tensor for tensor in tensors if tensor.requires_grad]
    if not differentiable:
        raise TraceError(
            f"Autograd does not connect the output of {name} to its inputs; check whether "
            "detach(), no_grad(), .item() or a conversion to integers cuts the graph."
        )
    require_dense(differentiable, "Output", "return")
    for tensor in differentiable:
        values.note(tensor)
    return differentiable, values


def _backward(
    outputs: list[Tensor], values: ForwardValues, calls: ModuleCalls, arguments: Sequence[Tensor]
) -> Passes:
    roots = [(edge.node, edge.output_nr) for edge in map(get_gradient_edge, outputs)]
    first = [get_gradient_edge(argument).node for argument in arguments]
    nodes = in_forward_order([node for node, _ in roots], first)
    leaves = {node: node.variable for node in nodes if is_leaf(node)}
    hooks = {node: names for node, leaf in leaves.items() if (names := tensor_hooks(leaf))}
    gradients = BackwardGradients()
    seeds = [torch.ones_like(output) for output in outputs]
    for (node, output), seed in zip(roots, seeds, strict=True):
        gradients.add(node, output, seed)
    with gradients.watching(nodes):
        collected = _collected(outputs, seeds, leaves, gradients)
    return Passes(
        nodes=nodes,
        roots=roots,
        leaves=leaves,
        outputs=[Reading.of(output) for output in outputs],
        seeds=[Reading.of(seed) for seed in seeds],
        values=values.of,
        gradients=gradients,
        collected={leaf: g if g is None else Reading.of(g) for leaf, g in collected.items()},
        hooks=values.hooks() | hooks,
        born=values.born,
        calls=calls.made,
    )


def _collected(
    outputs: Sequence[Tensor],
    seeds: Sequence[Tensor],
    leaves: Mapping[Any, Tensor],
    gradients: BackwardGradients,
) -> dict[Any, Tensor | None]:
    """Run backward and return the gradient of each leaf."""
    try:
        # Do not call .backward(), which would write to the .grad of other tensors that fn can
        # reach.
        found = run_backward(outputs, seeds, list(leaves.values()), retain_graph=True)
    except Exception as error:
        where = "backward" if gradients.running is None else operation(gradients.running)
        raise TraceError(f"The backward of {where} raised {raised(error)}.") from error
    for leaf, gradient in zip(leaves, found, strict=True):
        gradients.arrive(leaf, [gradient])
    return dict(zip(leaves, found, strict=True))
