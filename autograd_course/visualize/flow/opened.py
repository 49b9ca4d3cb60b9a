"""A custom Function, opened: what its ctx keeps, and its source."""

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from autograd_doctor.extension import own_source
from torch import Tensor

from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.flow.trace import Role, Saved, Source
from autograd_course.visualize.kit.graph import GraphNode, is_custom, producers

_LONGEST = 60  # characters of an attribute that is no tensor
_MOST_LINES = 60  # of a source
# Finding a source takes longer than all else of a trace, and a sweep traces a hundred times.
_SOURCES: WeakKeyDictionary[type, Source] = WeakKeyDictionary()


def saved_tensors(node: GraphNode, born: Mapping[int, int]) -> tuple[Saved, ...]:
    """Return what a custom Function gave to ``save_for_backward``, and what each is.

    ``born`` tells for each storage, by address, which number was next when it was filled: what
    existed before the Function's node was given to it, what came after was computed inside.
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
    """Return what a custom Function put on its ctx by hand, as text."""
    if not is_custom(node):
        return ()
    return tuple((name, _written(value)) for name, value in vars(node).items())


def _written(value: Any) -> str:
    if hasattr(value, "detach"):
        return f"tensor {Reading.of(value).text}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def source_of(node: GraphNode) -> Source | None:
    """Return the source of a custom Function's ``forward`` and ``backward``, where it is known."""
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
    except AttributeError:  # another name's
        return ""
    if known is None:
        return ""
    lines = textwrap.dedent("".join(known[0])).rstrip().splitlines()
    more = ["    …"] if len(lines) > _MOST_LINES else []
    return "\n".join(lines[:_MOST_LINES] + more)
