"""Forward and backward passes through autograd, and direct calls to ``backward``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, run_engine
from autograd_doctor._execution.lines import line_that_changes, line_with_nan
from autograd_doctor._execution.operations import memory
from autograd_doctor._execution.session import Arrange, Move, Run, Session, stay
from autograd_doctor._numerics.tensors import as_tuple, changed, is_float, same_bytes
from autograd_doctor.evidence import DirectBackward, Failure, VjpResult

# --------------------------------------------------------------------------------------------------
# Forward and backward passes through the engine, and their parts.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """The result of a forward and a backward pass: the outputs and gradients, or the failure."""

    outputs: tuple[Tensor, ...] = ()  # the floating-point outputs
    grads: tuple[Tensor | None, ...] = ()
    failure: Failure | None = None
    stage: str = ""  # the stage that failed, "forward" or "backward"


Cotangents = Sequence[Tensor | None] | Callable[[Sequence[Tensor]], Sequence[Tensor | None]]


def both_ways(
    session: Session,
    cotangents: Cotangents,
    move: Move = stay,
    *,
    inputs: Sequence[Any] | None = None,
    wanted: Sequence[int] | None = None,
    arrange: Arrange | None = None,
    between: Callable[[Run], object] | None = None,
) -> Pass:
    """Run forward, then pass cotangents to autograd's backward pass.

    Ignore outputs whose cotangent is ``None``. If ``cotangents`` is a function, it computes the
    cotangents from the outputs. If ``cotangents`` is a sequence of tensors, copy them first. Call
    ``between`` after forward and before backward, with the run as its argument.

    If the call raises an error on float64 copies, repeat it in the dtypes of the caller's inputs.
    If the second call succeeds, the failure records this.
    """
    done = _both_ways(session, cotangents, move, inputs, wanted, arrange, between)
    own = session.in_own_dtypes(inputs) if done.failure and move is stay else None
    if own is None or done.failure is None:
        return done
    sent = cotangents if callable(cotangents) else partial(fitting, grad_outputs=cotangents)
    again = _both_ways(session, sent, stay, own, wanted, arrange, between)
    return done if again.failure else replace(done, failure=runs_in_own_dtype(done.failure))


def runs_in_own_dtype(failure: Failure) -> Failure:
    """Mark a failure as one that does not occur in the dtypes of the caller's inputs."""
    return replace(failure, runs_in_own_dtype=True)


def _both_ways(
    session: Session,
    cotangents: Cotangents,
    move: Move,
    inputs: Sequence[Any] | None,
    wanted: Sequence[int] | None,
    arrange: Arrange | None,
    between: Callable[[Run], object] | None,
) -> Pass:
    run = attempt(lambda: session.run(move, inputs=inputs, wanted=wanted, arrange=arrange))
    if isinstance(run, Failure):
        return Pass(failure=run, stage="forward")
    outputs = tuple(out.detach().clone() for out in run.floats)
    if between is not None:
        between(run)
    gs = cotangents(run.floats) if callable(cotangents) else copies(cotangents)
    grads = attempt(lambda: gradients(run, gs))
    if isinstance(grads, Failure):
        return Pass(outputs, failure=grads, stage="backward")
    return Pass(outputs, tuple(g if g is None else g.detach() for g in grads))


def gradients(
    run: Run,
    grad_outputs: Sequence[Tensor | None],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Run backward on a graph with the given cotangents, and return the gradients of its leaves."""
    pairs = [
        (out, g)
        for out, g in zip(run.floats, grad_outputs, strict=True)
        if g is not None and out.requires_grad
    ]
    if not pairs or not run.leaves:
        return tuple(None for _ in run.leaves)
    outputs, gs = zip(*pairs, strict=True)
    kept = retain_graph or create_graph
    try:
        grads = run_engine(outputs, gs, run.leaves, retain_graph=kept, create_graph=create_graph)
    except RuntimeError as error:
        if ".grad()" not in str(error):
            raise
        # A reentrant checkpoint runs a backward pass inside backward and supports only this call.
        torch.autograd.backward(outputs, gs, kept, create_graph)
        return _taken_from(run.leaves)
    return tuple(map(dense, grads))


def _taken_from(leaves: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients that a backward pass has stored in ``.grad``, and clear ``.grad``."""
    grads = tuple(dense(leaf.grad) for leaf in leaves)
    for leaf in leaves:
        leaf.grad = None
    return grads


def dense(grad: Tensor | None) -> Tensor | None:
    """Convert a sparse gradient, such as the gradient of an embedding, to a dense tensor.

    Return a dense gradient unchanged.
    """
    return grad if grad is None or grad.layout is torch.strided else grad.to_dense()


def fitting(
    outputs: Sequence[Tensor], grad_outputs: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Return copies of the cotangents that match the outputs in dtype and device.

    If an output and its cotangent differ in shape, draw a new cotangent.
    """
    fresh = sample_cotangents(outputs, torch.Generator().manual_seed(0))
    return [
        g if g is None else like(g, out) if g.shape == out.shape else new
        for out, g, new in zip(outputs, grad_outputs, fresh, strict=True)
    ]


def like(cotangent: Tensor, output: Tensor) -> Tensor:
    """Return a copy of a cotangent in the dtype of an output.

    If the output is on the meta device, the copy is too.
    """
    copy = cotangent.to(output.dtype, copy=True)
    return copy.to("meta") if output.is_meta else copy


def copies(tensors: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Copy tensors so that a ``backward`` that changes ``grad_output`` does not change the
    originals.
    """
    return tuple(None if t is None else t.clone() for t in tensors)


def _holds_integers(value: Any) -> bool:
    return isinstance(value, Tensor) and not is_float(value)


def backward_pass(
    session: Session, grad_outputs: tuple[Tensor | None, ...], *, interleaved: bool = False
) -> VjpResult:
    """Run autograd's backward pass with the given cotangents, and record the gradients.

    If ``interleaved`` is true, forward runs a second time with other values before backward runs.
    If the Function stores numbers on its class or in global variables, ``backward`` then reads the
    numbers from the second run.
    """

    def again(run: Run) -> None:
        before = session.subject.numbers_left
        for other in session.on_cpu().others_in_form() if before else ():
            if (
                not isinstance(attempt(other.run), Failure)
                and session.subject.numbers_left != before
            ):
                return
        other = session.other()
        # Reversed integers may be invalid indices, which would make every later GPU call fail.
        safe = session.on_cpu() is session and any(map(_holds_integers, session.inputs))
        if not safe or isinstance(attempt(other.with_other_integers().run), Failure):
            attempt(other.run)

    done = both_ways(session, grad_outputs, between=again if interleaved else None)
    return VjpResult(grad_outputs, done.grads, done.failure)


def sample_cotangents(outputs: Sequence[Tensor], rng: torch.Generator) -> tuple[Tensor, ...]:
    """Draw a contiguous standard normal cotangent for each output."""
    return tuple(
        torch.randn(out.shape, dtype=out.dtype, generator=rng).to(out.device) for out in outputs
    )


# --------------------------------------------------------------------------------------------------
# A direct call to backward, like the engine's call but without the engine's corrections.
# --------------------------------------------------------------------------------------------------


def direct_call(
    session: Session, grad_outputs: Sequence[Tensor], move: Move = stay, run: Run | None = None
) -> DirectBackward:
    """Call ``backward`` directly on the graph node, before autograd corrects the result."""
    run = run or session.run(move)
    node = own_node(run)
    gs = list(handed_over(run.returned, grad_outputs))
    saved = attempt(lambda: [t for t in node.saved_tensors if isinstance(t, Tensor)])
    held = [] if isinstance(saved, Failure) else saved
    gs_before = [g if g is None else g.clone() for g in gs]
    held_before = [t.detach().clone() for t in held]
    callers = [t for t in (*run.args, *run.tensors) if isinstance(t, Tensor)]
    callers_before = [t.detach().clone() for t in callers]
    with torch.no_grad():
        got = attempt(lambda: node.apply(*gs))
    if isinstance(got, Failure):
        runs = move is stay and runs_directly(session, grad_outputs, session.in_own_dtypes())
        return DirectBackward(failure=runs_in_own_dtype(got) if runs else got)
    grads: tuple[Any, ...] = got if isinstance(got, tuple) else (got,)
    changed_saved = changed(held_before, held)
    changed_outputs, line = changed(gs_before, gs), ""
    if (changed_outputs or changed_saved) and move is stay:
        line = _changing_line(session, grad_outputs)
    kept = [g.detach().clone() if isinstance(g, Tensor) else g for g in grads]
    found_nan = move is stay and _have_nan(grads)
    nan_line, nan_cause = _nan_line(session, grad_outputs) if found_nan else ("", "")
    returned = memory([held[i] for i in changed_saved]) & memory(grads)
    seen_by_caller = bool(returned or changed(callers_before, callers))
    return DirectBackward(
        count=len(grads),
        grads=tuple(dense(g.detach()) if isinstance(g, Tensor) else None for g in grads),
        kinds=tuple(type(g).__name__ for g in grads),
        changed_grad_outputs=changed_outputs,
        changing_line=line,
        nan_line=nan_line,
        nan_cause=nan_cause,
        changed_saved=changed_saved,
        again=_again(node, gs_before, kept) if changed_saved and not seen_by_caller else "",
        sparse=any(isinstance(g, Tensor) and g.layout is not torch.strided for g in grads),
    )


def _have_nan(grads: Sequence[Any]) -> bool:
    return any(
        isinstance(g, Tensor) and is_float(g) and not g.is_meta and bool(g.to_dense().isnan().any())
        for g in grads
    )


def _nan_line(session: Session, grad_outputs: Sequence[Tensor]) -> tuple[str, str]:
    """Re-run ``backward``, and return the line that produces the first nan and its cause."""
    backward, _ = _call_again(session, grad_outputs)
    return line_with_nan(backward)


def _changing_line(session: Session, grad_outputs: Sequence[Tensor]) -> str:
    """Re-run ``backward``, and return the line that changes a cotangent or a saved tensor."""
    return line_that_changes(*_call_again(session, grad_outputs))


def _call_again(
    session: Session, grad_outputs: Sequence[Tensor]
) -> tuple[Callable[[], object], list[Tensor]]:
    """Return a function that calls ``backward`` on a new graph, and the tensors to watch.

    These are the cotangents and the saved tensors.
    """
    run = session.run()
    gs = list(handed_over(run.returned, grad_outputs))
    saved = [t for t in own_node(run).saved_tensors if isinstance(t, Tensor)]

    def backward() -> None:
        with torch.no_grad():
            own_node(run).apply(*gs)  # in PyTorch 2.11, the node lives only as long as the run

    return backward, [*(g for g in gs if g is not None), *saved]


def _again(node: Any, gs: Sequence[Tensor | None], first: Sequence[Any]) -> str:
    """Call ``backward`` a second time, and describe the result.

    Return ``"returns the same"`` if the result is identical, ``"raises"`` if autograd detects a
    modified tensor, and ``""`` otherwise.
    """
    with torch.no_grad():
        again = attempt(lambda: as_tuple(node.apply(*copies(gs))))
    if isinstance(again, Failure):
        return "raises" if "modified by an inplace operation" in again.text else ""
    same = all(
        same_bytes(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a is b
        for a, b in zip(first, again, strict=True)
    )
    return "returns the same" if same else ""


def runs_directly(
    session: Session, grad_outputs: Sequence[Tensor], inputs: Sequence[Any] | None
) -> bool:
    """Whether a direct call to ``backward`` works for these inputs."""

    def both() -> Any:
        run = session.run(inputs=inputs, watched=False)
        return call_backward(run, fitting(run.floats, grad_outputs))

    return inputs is not None and not isinstance(attempt(both), Failure)


def call_backward(run: Run, grad_outputs: Sequence[Tensor | None]) -> Any:
    """Pass cotangents to the Function's graph node, and return the result of ``backward``."""
    gs = tuple(handed_over(run.returned, grad_outputs))
    with torch.no_grad():
        return own_node(run).apply(*gs)


def own_node(run: Run) -> Any:
    """Return the graph node whose ``apply`` runs the ``backward`` that is being examined."""
    return next(out.grad_fn for out in run.tensors if out.grad_fn is not None)


def handed_over(
    returned: Sequence[Any], grad_outputs: Sequence[Tensor | None]
) -> Iterator[Tensor | None]:
    """Yield the arguments that autograd passes to ``backward``: a cotangent for each floating-point
    output, zeros for each integer output, and ``None`` for each value that is not a tensor.

    A cotangent has the dtype and device of its output, regardless of the inputs' dtypes.
    """
    given = iter(grad_outputs)
    for output in returned:
        if is_float(output):
            g = next(given, None)  # an edited forward may return more outputs
            yield g if g is None else like(g, output)
        else:
            yield torch.zeros_like(output) if isinstance(output, Tensor) else None
