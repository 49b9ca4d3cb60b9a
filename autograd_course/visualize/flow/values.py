"""Catching values in forward, as operations read them."""

from collections.abc import Mapping
from typing import Any

import torch
from autograd_doctor.memory import DispatchMode
from torch import Tensor
from torch.utils._pytree import tree_leaves

from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.kit.formatting import Summary
from autograd_course.visualize.kit.graph import GraphNode


class ForwardValues(DispatchMode):
    """Notes every differentiable tensor that an operation reads, by the node that made it.

    A tensor between two nodes is read by the second one's forward, whoever wrote that; at this
    moment it still has the value that the graph means, whatever is done in place later. ``born``
    tells which of autograd's numbers was next when a storage was filled (:mod:`opened`).
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
        """Remember the tensor's value, unless it has no node or is known."""
        if (node := tensor.grad_fn) is not None and (node, tensor.output_nr) not in self.of:
            self.of[node, tensor.output_nr] = Reading.of(tensor)
            self._tensors[node, tensor.output_nr] = tensor

    def hooks(self) -> dict[GraphNode, tuple[str, ...]]:
        """Name the tensor hooks that were registered, by node; the tensors are let go."""
        found: dict[GraphNode, tuple[str, ...]] = {}
        for (node, _), tensor in self._tensors.items():
            found[node] = found.get(node, ()) + tensor_hooks(tensor)
        self._tensors.clear()
        return {node: names for node, names in found.items() if names}


def tensor_hooks(tensor: Tensor) -> tuple[str, ...]:
    """Name the hooks that ``tensor.register_hook`` put on a tensor."""
    hooks = (tensor._backward_hooks or {}).values()
    return tuple(getattr(hook, "__name__", type(hook).__name__) for hook in hooks)


def address(tensor: Tensor) -> int:
    """Return where a tensor's storage lies, 0 for one without any."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0
