"""One real forward and backward pass at a place of x, caught as it happens."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor
from torch.autograd import Function

from autograd_course.visualize.functionlab.ctx import held
from autograd_course.visualize.functionlab.lines import Lines, written
from autograd_course.visualize.functionlab.listing import Listing
from autograd_course.visualize.functionlab.subject import Subject
from autograd_course.visualize.functionlab.trace import Run, Step
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import raised
from autograd_course.visualize.kit.graph import in_forward_order, is_custom

_SCALAR = (
    "; x was a scalar, of shape (): if another shape is needed, pass a callable that makes it, "
    "such as {}."
)


class StoppedError(TraceError):
    """Forward did not come to its end; ``steps`` are the lines that ran."""

    def __init__(self, sentence: str, steps: tuple[Step, ...]) -> None:
        super().__init__(sentence)
        self.steps = steps


def run(
    subject: Subject, x: float, values: Mapping[str, float], grad_output: float, shown: Listing
) -> Run:
    """Run forward and backward once, on tensors of our own in float64.

    Raises :class:`StoppedError` if forward raises, or does not make one number out of x. A backward
    that raises is told in ``Run.failure``.
    """
    inputs = subject.inputs(x, values, graph=True)
    lines = Lines(shown)
    try:
        with lines.watching():
            y = _forward(subject, inputs)
    except TraceError as error:
        raise StoppedError(str(error), tuple(lines.steps)) from error.__cause__
    nodes = _custom_nodes(y)
    kept = tuple(kept for node in nodes for kept in held(node, y, inputs, subject.names))
    seed = torch.full_like(y, grad_output)
    gradient, failure = None, ""
    try:
        with _in_engine(nodes, lines), lines.watching():
            (gradient,) = torch.autograd.grad(y, inputs[:1], seed, allow_unused=True)
    except Exception as error:
        failure = f"The backward of {subject.name} raised {raised(error)}."
    return Run(
        y=y.item(),
        gradient=None if gradient is None else gradient.item(),
        returned=lines.returned or ("None" if gradient is None else written(gradient)),
        kept=kept,
        steps=tuple(lines.steps),
        failure=failure,
    )


def value(subject: Subject, x: float, values: Mapping[str, float]) -> float:
    """Run forward alone and return its value."""
    with preserve_global_state(0), torch.no_grad():
        result = subject.call(subject.inputs(x, values, graph=False))
    return float(result.item())


def functions_inside(subject: Subject, values: Mapping[str, float]) -> tuple[type[Function], ...]:
    """Return the custom Functions that run in a call, each once, in their order.

    Raises :class:`TraceError` if forward raises, or does not make one number out of x.
    """
    inputs = subject.inputs(subject.x, values, graph=True)
    try:
        y = _forward(subject, inputs)
    except TraceError as error:
        if error.__cause__ is None:
            raise
        raise TraceError(
            f"{str(error)[:-1]}{_SCALAR.format(subject.on_three)}"
        ) from error.__cause__
    return tuple(dict.fromkeys(node._forward_cls for node in _custom_nodes(y)))


def _custom_nodes(y: Tensor) -> list[Any]:
    return [node for node in in_forward_order([y.grad_fn], []) if is_custom(node)]


def _forward(subject: Subject, inputs: list[Any]) -> Tensor:
    try:
        with preserve_global_state(0):
            y = subject.call(inputs)
    except Exception as error:
        raise TraceError(f"{subject.name} raised {raised(error)}.") from error
    if not isinstance(y, Tensor) or y.numel() != 1 or y.is_complex():
        raise TraceError(
            f"function_lab draws one number over one number, and {subject.name} returned "
            f"{_what(y)}; pass a callable that makes one number of a scalar x, such as "
            f"{subject.on_three}."
        )
    if y.grad_fn is None:
        raise TraceError(
            f"The output of {subject.name} does not depend on x through autograd; "
            "look for detach(), no_grad(), .item() or a rounding to integers on the way."
        )
    return y


def _what(y: Any) -> str:
    if isinstance(y, tuple):
        return f"{len(y)} outputs"
    if isinstance(y, Tensor):
        return "a complex number" if y.is_complex() else f"a tensor of shape {tuple(y.shape)}"
    return f"an object of type {type(y).__name__}"


@contextmanager
def _in_engine(nodes: list[Any], lines: Lines) -> Iterator[None]:
    """Record lines in the engine's own thread too: that of a GPU runs backward there."""
    begun: list[bool] = []

    def start(_: Any) -> None:
        begun.append(lines.begin())

    def stop(*_: Any) -> None:
        if begun and begun.pop():
            lines.end()

    handles = [node.register_prehook(start) for node in nodes]
    handles += [node.register_hook(stop) for node in nodes]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
