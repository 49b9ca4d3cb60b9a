"""The path of a gradient through a graph, as plain data."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from autograd_course.visualize.kit.formatting import Summary, number

# --- The summary of one tensor --------------------------------------------------------------------

Sign = Literal["+", "-", "±", "0", "!"]
_FEWEST, _MOST = 4, 64  # a tensor has a heat map if its number of elements is in this range
_ROWS, _COLUMNS = 8, 16


@dataclass(frozen=True)
class Heat:
    """A small tensor as a grid, row by row. Leading dims are stacked."""

    columns: int
    cells: tuple[float, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.cells) // self.columns


@dataclass(frozen=True)
class Reading(Summary):
    """A summary with a ``heat`` map (up to 64 elements), ``std``, and the fraction of ``zeros``.

    ``sign`` is ``+`` or ``-`` if no element has the opposite sign, and ``±`` if both signs occur or
    the numbers are complex. It is ``0`` if all elements are zero, and ``!`` if any element is nan
    or infinite. ``broken`` counts the elements that are nan or infinite.
    """

    sign: Sign = "0"
    heat: Heat | None = None
    std: float | None = None
    zeros: float = 0.0
    broken: int = 0

    @classmethod
    def of(cls, tensor: Tensor) -> "Reading":
        """Summarize any tensor. The summary does not keep the tensor alive."""
        tensor = tensor if tensor.layout == torch.strided else tensor.detach().to_dense()
        seen = Summary.of(tensor)
        given = (seen.shape, seen.dtype, seen.values, seen.statistics)
        if tensor.is_complex() or not tensor.numel():
            return cls(*given, sign="±" if tensor.numel() else "0")
        if seen.statistics:
            return cls(*given, **_of_many(tensor.detach(), dict(seen.statistics)))
        flat = _flat(seen.values)
        broken = sum(not math.isfinite(value) for value in flat)
        sign = _sign(min(flat), max(flat), broken)
        return cls(*given, sign=sign, heat=_heat(seen, flat), broken=broken)

    @property
    def text(self) -> str:
        """The whole summary as one line of text."""
        if not self.statistics or self.std is None:
            return super().text
        figures = dict(self.statistics)
        largest = max(abs(figures["min"]), abs(figures["max"]))
        shown = {"mean": figures["mean"], "std": self.std, "|max|": largest, "norm": self.norm}
        texts = [f"{name} {number(value, 3)}" for name, value in shown.items()]
        texts += [f"{number(100 * self.zeros, 3)} % zeros"] if self.zeros else []
        return f"[{self.size}] {', '.join(texts)}"


def _flat(values: Any) -> list[float]:
    if not isinstance(values, list):
        return [values]
    return [leaf for value in values for leaf in _flat(value)]


def _of_many(tensor: Tensor, figures: dict[str, float]) -> dict[str, Any]:
    size = tensor.numel()
    broken = 0 if math.isfinite(figures["norm"]) else size - int(tensor.isfinite().sum())
    seen = Summary(tuple(tensor.shape), "")
    return {
        "sign": _sign(figures["min"], figures["max"], broken),
        "heat": _heat(seen, tensor.flatten().tolist()) if size <= _MOST else None,
        "std": tensor.double().std().item(),
        "zeros": 1 - int(torch.count_nonzero(tensor)) / size,
        "broken": broken,
    }


def _sign(low: float, high: float, broken: int) -> Sign:
    if broken:
        return "!"
    if low < 0 < high:
        return "±"
    return "-" if low < 0 else "+" if high > 0 else "0"


def _heat(seen: Summary, flat: list[float]) -> Heat | None:
    if not _FEWEST <= len(flat) <= _MOST or seen.few:
        return None
    columns = seen.shape[-1]
    if not (1 < columns <= _COLUMNS and len(flat) <= _ROWS * columns):
        return None
    return Heat(columns, tuple(float(value) for value in flat))


# --- The trace ------------------------------------------------------------------------------------

Kind = Literal["input", "op", "custom", "module", "output"]
Role = Literal["input", "output", "intermediate"]
Summaries = tuple[Summary | None, ...]


@dataclass(frozen=True)
class Saved:
    """A tensor that a custom Function saves for backward.

    ``role`` says whether the tensor is an input, an output or an intermediate result. For a
    differentiable input, ``argument`` is its index.
    """

    summary: Summary
    bytes: int
    role: Role = "intermediate"
    argument: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the tensor as JSON-compatible data."""
        return {**self.summary.to_dict(), "bytes": self.bytes, "role": self.role}


@dataclass(frozen=True)
class Source:
    """The source code of a custom Function's forward and backward, or empty strings."""

    forward: str
    backward: str


@dataclass(frozen=True)
class Group:
    """A module call or a run of consecutive operations that can be drawn as one card.

    ``parent`` is the group that contains this group. ``name`` is the path of the module. From the
    second call on, the path is followed by a number. ``kind`` is the class of the module.
    """

    name: str
    kind: str
    parent: int | None


@dataclass(frozen=True)
class Inside:
    """The contents of a folded group: its operations and the gradients of its parameters."""

    group: int
    operations: int
    custom: tuple[str, ...]
    parameters: tuple[tuple[str, Summary | None], ...]


@dataclass(frozen=True)
class Node:
    """One node of the graph, or one input or output.

    ``name`` is unique in its trace. ``op`` is the operation: PyTorch's own name without
    ``Backward0``, or the class of a custom Function. ``values`` contains its outputs in forward.
    ``gradients`` contains the gradients that arrived for these outputs in backward
    (``grad_output``). Most nodes have one value and one gradient. A value is ``None`` if no later
    operation read it, and a gradient is ``None`` if none arrived. ``saved``, ``attributes`` and
    ``source`` describe the internals of a custom Function. If the node is a chain of reshapes,
    ``folded`` lists its operations from first to last.

    ``hooks`` contains the names of the tensor hooks on the node's outputs. If a hook of any kind
    changed a gradient, ``before`` contains the gradient before the hook. ``group`` is the innermost
    group around the node. A node of kind ``module`` represents a folded group, which ``inside``
    describes.
    """

    id: int
    name: str
    op: str
    kind: Kind
    values: Summaries
    gradients: Summaries
    saved: tuple[Saved, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    folded: tuple[str, ...] = ()
    source: Source | None = None
    hooks: tuple[str, ...] = ()
    before: Summaries = ()
    group: int | None = None
    inside: Inside | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the node as JSON-compatible data."""
        return {
            "id": self.id,
            "name": self.name,
            "op": self.op,
            "kind": self.kind,
            "values": [value and value.to_dict() for value in self.values],
            "gradients": [gradient and gradient.to_dict() for gradient in self.gradients],
            "saved": [saved.to_dict() for saved in self.saved],
            "attributes": dict(self.attributes),
            "folded": list(self.folded),
            "hooks": list(self.hooks),
            "before": [before and before.to_dict() for before in self.before],
            "group": self.group,
        }


@dataclass(frozen=True)
class Edge:
    """A connection. A value flows from ``source`` to ``target``, and its gradient flows back.

    ``output`` is the index of the value among the outputs of ``source``. ``argument`` is its index
    among the differentiable arguments of ``target``. ``gradient`` is the gradient that ``target``
    sends back. ``factor`` is the local derivative, ``gradient / grad_output``. It is ``None``
    unless this quotient *is* the derivative. For this, the operation must be elementwise, or
    ``gradient`` and ``grad_output`` must have a single element. In addition, all elements of
    ``grad_output`` must be finite and nonzero.
    """

    source: int
    target: int
    output: int
    argument: int
    gradient: Summary | None
    factor: Summary | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the edge as JSON-compatible data."""
        return {
            "source": self.source,
            "target": self.target,
            "output": self.output,
            "argument": self.argument,
            "gradient": self.gradient and self.gradient.to_dict(),
            "factor": self.factor and self.factor.to_dict(),
        }


@dataclass(frozen=True)
class Trace:
    """One real forward and backward pass.

    ``nodes`` is in forward order, and ``nodes[i].id == i``. ``backward`` lists ids in the order in
    which the autograd engine reached the nodes. ``summed`` is true if the output is not a scalar.
    In this case, the loss is the sum of its elements. ``groups`` contains the modules that ran,
    outer modules first. ``unit`` is the norm of the gradient at the loss. All other gradient sizes
    are relative to it.
    """

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    backward: tuple[int, ...]
    summed: bool = False
    groups: tuple[Group, ...] = ()
    unit: float = 1.0

    @cached_property
    def _ends(self) -> tuple[dict[int, list[Edge]], dict[int, list[Edge]]]:
        into: dict[int, list[Edge]] = {}
        out_of: dict[int, list[Edge]] = {}
        for edge in self.edges:
            into.setdefault(edge.target, []).append(edge)
            out_of.setdefault(edge.source, []).append(edge)
        return into, out_of

    def into(self, node: int) -> Sequence[Edge]:
        """Return the edges that lead to a node, in the order of its arguments."""
        return self._ends[0].get(node, [])

    def out_of(self, node: int) -> Sequence[Edge]:
        """Return the edges that start at a node's outputs."""
        return self._ends[1].get(node, [])

    def around(self, group: int | None) -> list[int]:
        """Return a group and the groups around it, innermost first."""
        chain = []
        while group is not None:
            chain.append(group)
            group = self.groups[group].parent
        return chain

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as JSON-compatible data."""
        return {
            "title": self.title,
            "summed": self.summed,
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [edge.to_dict() for edge in self.edges],
            "backward": list(self.backward),
            "groups": [asdict(group) for group in self.groups],
        }
