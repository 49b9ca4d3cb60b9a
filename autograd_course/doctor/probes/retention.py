"""What becomes of a graph: are its tensors unpacked once, and does it go when nobody holds it?"""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.passes import copies, gradients
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.running.vault import Vault

WHILE = 0.02  # seconds after which the engine's own threads have let go of a graph


def unpacking(session: Session, evidence: Evidence) -> Evidence:
    """Count how often one backward pass of a custom node unpacks the same saved tensor."""
    vault = Vault()

    def most() -> int:
        with vault.hooks():
            run = session.run()
        numbers = [n for node in custom_nodes(run.tensors) for n in vault.numbers_of(node)]
        gradients(run, copies(evidence.pulls["random"].grad_outputs))
        times = Counter(vault.unpacked)
        return max((times[number] for number in numbers), default=0)

    counted = attempt(most)
    return replace(evidence, unpacked=counted) if isinstance(counted, int) else evidence


def cycles(session: Session, evidence: Evidence) -> Evidence:
    """Drop a graph, before and after backward, and look whether it is gone."""
    with _no_collector():
        outlived = tuple(
            stage
            for stage in ("forward", "backward")
            if _only_the_collector_frees(_dropped(session, evidence, stage == "backward"))
        )
    return replace(evidence, outlived=outlived)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Run a block without Python's cyclic garbage collector."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _dropped(session: Session, evidence: Evidence, backward: bool) -> list[weakref.ref[object]]:
    """Make a call, hold nothing of it, and return weak references to each ctx in its graph."""

    def call() -> list[weakref.ref[object]]:
        run = session.run(watched=False)  # a log would hold its tensors
        contexts = [weakref.ref(node) for node in custom_nodes(run.tensors)]
        if backward:
            gradients(run, copies(evidence.pulls["random"].grad_outputs))
        return contexts

    contexts = attempt(call)
    return contexts if isinstance(contexts, list) else []


def _only_the_collector_frees(contexts: list[weakref.ref[object]]) -> bool:
    """Whether something is alive that the garbage collector frees: it held itself."""
    if not _alive(contexts):
        return False
    time.sleep(WHILE)
    before = _alive(contexts)
    if not before:
        return False
    gc.collect()
    return _alive(contexts) < before


def _alive(contexts: list[weakref.ref[object]]) -> int:
    return sum(context() is not None for context in contexts)
