"""Leaving the caller's random state and gradients as they were."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd.graph import Node


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Run a block under grad mode; give PyTorch's random states back afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)), torch.enable_grad():
        yield


@contextmanager
def gradients_lent(roots: Iterable[Tensor]) -> Iterator[None]:
    """Empty the ``.grad`` of all leaves behind some tensors for a block, and put it back."""
    before = [(leaf, leaf.grad) for leaf in leaves_behind(roots)]
    for leaf, _ in before:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in before:
            leaf.grad = gradient


def leaves_behind(roots: Iterable[Tensor]) -> list[Tensor]:
    """Return the leaves that a backward pass from ``roots`` accumulates gradients in."""
    nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
    leaves, seen = [root for root in roots if root.is_leaf and root.requires_grad], set[Node]()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        nodes += [behind for behind, _ in node.next_functions if behind is not None]
    return leaves
