"""Which tensors does a ctx keep as attributes, where the engine does not know of them?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Failure, OnCtx, Twin
from autograd_course.doctor.probes.twins import output_names, twin
from autograd_course.doctor.running.calls import attempt, is_float, same_bytes
from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.operations import memory
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.shown import shown


def on_ctx(session: Session, evidence: Evidence) -> Evidence:
    """Look for tensors among the attributes of every ctx in the graph."""
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    known = memory(thing for _, thing in session.subject.around.things)
    found = {}
    for node in custom_nodes(run.tensors):
        if node._forward_cls.__module__.startswith("torch._"):  # PyTorch's own machinery
            continue
        for name, tensor in _tensors_on(node):
            whose = _whose(tensor, node, run)
            if whose.role or (tensor.numel() > 1 and not memory([tensor]) & known):
                found[node._forward_cls.__name__, name] = whose
    told = (
        OnCtx(name, function, whose.role, *_edited(session, evidence, whose))
        for (function, name), whose in sorted(found.items())
    )
    return replace(evidence, on_ctx=tuple(told))


@dataclass(frozen=True, order=True)
class _Whose:
    """Whose memory a tensor lies in: an ``"input"``'s or an ``"output"``'s, which one's if any's.

    Without a position it is no tensor of the call, but one between the call and a Function inside.
    """

    role: str
    position: int = -1


def _whose(tensor: Tensor, node: Any, run: Run) -> _Whose:
    """Return what of the call a tensor belongs to, as far as the graph tells."""
    own_output = tensor.grad_fn is node
    for role, among in (("input", run.args), ("output", run.tensors)):
        if own_output and role == "input":
            continue  # changed in place and returned
        for position, value in enumerate(among):
            if isinstance(value, Tensor) and memory([value]) == memory([tensor]):
                return _Whose(role, position)
    if own_output:
        return _Whose("output")
    return _Whose("input" if tensor.requires_grad else "")


def _edited(session: Session, evidence: Evidence, whose: _Whose) -> tuple[str, Twin | None]:
    """Change a tensor of the call between forward and backward, as the caller may."""
    k, as_input = whose.position, whose.role == "input"
    if k < 0:
        return "", None
    outputs = tuple(output_names(len(evidence.forward.outputs)))
    name = evidence.name(k) if as_input else outputs[k]

    def edit(run: Run) -> None:
        attempt(lambda: _exchange(run.args[k] if as_input else run.tensors[k]))

    plain = evidence.pulls["random"]
    came = replace(both_ways(session, plain.grad_outputs, between=edit), outputs=())
    shown = f"`{name}`" if as_input else name
    how = f"when {shown} is changed in place after `forward`"
    return name, twin(evidence, "edited", how, came, Pass(grads=plain.grads))


def _exchange(tensor: Tensor) -> None:
    """Give a tensor other values in place, that its values say are legal."""
    rolled = tensor.detach().flatten().roll(1).view(tensor.shape)
    if same_bytes(rolled, tensor.detach()) and is_float(tensor):
        rolled = 1.25 * tensor.detach()
    with torch.no_grad():
        tensor.copy_(rolled)


def _tensors_on(node: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors among a ctx's attributes, but for the states of generators."""
    for key, value in vars(node).items():
        for name, tensor in _tensors_in(f"ctx.{key}", value):
            if tensor.numel() and not _is_random_state(tensor):
                yield name, tensor


def _tensors_in(
    name: str, value: Any, inside: frozenset[int] = frozenset()
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a value, also those inside of lists, tuples and dictionaries.

    ``inside`` are the ids of those that are open, of which one may hold itself.
    """
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping | list | tuple) and id(value) not in inside:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _tensors_in(f"{name}[{shown(key)}]", item, inside | {id(value)})


def _is_random_state(tensor: Tensor) -> bool:
    """Whether a tensor is the state of a generator, which a recomputation keeps rightly."""
    sizes = (torch.default_generator.get_state().numel(), 16)  # on the CPU, of a CUDA device
    return tensor.dtype == torch.uint8 and tensor.dim() == 1 and tensor.numel() in sizes
