"""What a Function is declared to be: a reference, or a surrogate, differentiated by autograd."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Columns, Evidence
from autograd_course.doctor.running.calls import USERS, as_tuple, fresh, is_float
from autograd_course.doctor.shown import first_line
from autograd_course.doctor.truth.differences import flat, jacobian
from autograd_course.doctor.words import nth
from autograd_course.doctor.world.randomness import generator, reseed

MOST_CUTS = 12  # interior nodes of a reference that are held fixed one by one and in pairs

Reference = Callable[..., Any]


class Declared:
    """A differentiable callable, run once on the evidence's inputs; its graph serves many pulls.

    ``role`` is the option by which the caller passed it: reference or surrogate.
    """

    def __init__(
        self, call: Reference, evidence: Evidence, seed: int, role: str = "reference"
    ) -> None:
        self.call, self.evidence, self.seed, self.role = call, evidence, seed, role
        self.leaves, args = fresh(evidence.inputs, evidence.wanted)
        reseed(seed)
        try:
            self.outputs = [o for o in as_tuple(call(*args)) if isinstance(o, Tensor)]
        except USERS as error:
            raise DoctorError(
                f"the {role} raised {type(error).__name__} on these inputs: {first_line(error)}"
            ) from error
        self._require_like(evidence.forward.outputs)
        self.floats = [out for out in self.outputs if is_float(out)]

    def _require_like(self, outputs: Sequence[Tensor]) -> None:
        """Refuse outputs that cannot be put beside forward's, number by number."""
        if any(out.layout is not torch.strided or out.is_meta for out in self.outputs):
            raise DoctorError(
                f"the {self.role} returned a sparse or meta tensor: return a dense one."
            )
        for right, out in zip(self.outputs, outputs, strict=False):
            if right.is_complex() != out.is_complex():
                kinds = f"{right.dtype}, but forward returned {out.dtype}"
                raise DoctorError(f"the {self.role} returned {kinds}: return the same kind.")

    def jacobian(self) -> tuple[Columns, ...]:
        """Differentiate the callable by differences: where is it smooth?"""

        def values(args: Sequence[Any]) -> Tensor:
            reseed(self.seed)
            with torch.no_grad():
                found = flat([out for out in as_tuple(self.call(*args)) if is_float(out)])
            return found if found.numel() == like.numel() else torch.full_like(like, torch.nan)

        rng, like = generator(self.seed), flat(self.floats).detach()
        return jacobian(values, self.evidence.inputs, self.evidence.wanted, rng)

    def gradients(self, grad_outputs: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the gradient of every leaf, zeros where the graph does not reach it."""
        pairs = [
            (out, g)
            for out, g in zip(self.floats, grad_outputs, strict=False)
            if g is not None and out.requires_grad and out.shape == g.shape
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in self.leaves]
        outputs, gs = zip(*pairs, strict=True)
        return [
            grad.detach()
            for grad in torch.autograd.grad(
                outputs, self.leaves, gs, retain_graph=True, materialize_grads=True
            )
        ]

    def held_fixed(
        self, grad_outputs: Sequence[Tensor | None]
    ) -> Iterator[tuple[str, tuple[Tensor | None, ...]]]:
        """Yield what the gradient would be if some interior results were constants."""
        nodes = list(self._interior())
        if len(nodes) > MOST_CUTS:
            return
        named = list(zip(_told_apart([_operation(node) for node in nodes]), nodes, strict=True))
        for cut in [*((one,) for one in named), *combinations(named, 2)]:
            handles = [node.register_prehook(_zeros) for _, node in cut]
            try:
                yield " and ".join(name for name, _ in cut), tuple(self.gradients(grad_outputs))
            finally:
                for handle in handles:
                    handle.remove()

    def _interior(self) -> Iterator[Any]:
        """Yield the graph's nodes below the outputs, leaves and their clones left out."""
        heads = dict.fromkeys(out.grad_fn for out in self.floats)
        seen = set(heads)
        level = [parent for node in heads if node for parent, _ in node.next_functions]
        while level:
            node = level.pop()
            if node is None or node in seen or not node.next_functions:
                continue
            seen.add(node)
            level += [parent for parent, _ in node.next_functions]
            if not any(hasattr(parent, "variable") for parent, _ in node.next_functions):
                yield node


def _zeros(grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if g is None else torch.zeros_like(g) for g in grads)


_IN_WORDS = {
    "add": "an addition",
    "sub": "a subtraction",
    "rsub": "a subtraction",
    "mul": "a multiplication",
    "div": "a division",
    "neg": "a negation",
    "pow": "a power",
    "mm": "a matrix multiplication",
    "bmm": "a matrix multiplication",
    "mean": "the mean",
    "sum": "the sum",
    "var": "the variance",
    "std": "the standard deviation",
    "linalgvectornorm": "the norm",
}


def _told_apart(names: Sequence[str]) -> Iterator[str]:
    """Yield the names; one that occurs again becomes ``the second mean``."""
    for place, name in enumerate(names):
        again = names[:place].count(name)
        bare = re.sub("^(the|an?) ", "", name)
        yield f"the {nth(again)} {bare}" if again else name


def _operation(node: Any) -> str:
    """Return a node's operation as the user wrote it: ``MeanBackward1`` is ``mean``."""
    name: str = node.name().rstrip("0123456789").removesuffix("Backward").lower()
    return _IN_WORDS.get(name, name)
