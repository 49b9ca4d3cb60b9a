"""The live picture: step, play, scrub, look into nodes, unfold modules, move the inputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autograd_course.visualize.flow.base import FlowView
from autograd_course.visualize.flow.picture import Picture
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.view import Sweep, scene


class GradientFlow(FlowView):
    """A trace on stage. Made by :func:`gradient_flow`.

    ``trace`` is the trace with all its nodes and ``picture`` its static picture, modules folded.
    """

    @property
    def trace(self) -> Trace:
        """The trace on stage."""
        return self.scenes[0].trace

    @property
    def picture(self) -> Picture:
        """The static picture."""
        return self.scenes[0].picture

    def _content(self) -> dict[str, Any]:
        return self.scenes[0].told()

    def _texts(self) -> Sequence[Any]:
        return self.scenes[0].texts

    def _frames(self, name: str, values: Sequence[float], at: Mapping[str, float]) -> Iterator[Any]:
        return self.scenes[0].frames(name, values, at)

    def _by_scene(self, texts: Any) -> Sequence[Sequence[str]]:
        return [texts]

    @property
    def png(self) -> bytes:
        """The static picture."""
        return self.picture.png

    def __repr__(self) -> str:
        return repr(self.picture)


def gradient_flow(
    fn: Any,
    *inputs: Any,
    names: Sequence[str] | None = None,
    sweep: Sweep = True,
    step: int | None = None,
    depth: int | None = None,
) -> GradientFlow:
    """Show how values flow forward through ``fn(*inputs)``, and gradients back.

    Values and gradients come from one real forward and one real backward pass on copies of the
    inputs.

    Args:
        fn: A Function class, a module, or any callable that returns a tensor or a tuple of tensors.
            The loss is the sum of their elements.
        inputs: The arguments of the call.
        names: Names for the inputs; by default those of the parameters of ``fn``.
        sweep: Which scalar inputs get a slider, with its range, as in ``{"x": (-3.0, 3.0)}``. By
            default each scalar input of a small graph has one; with ``False`` none has.
        step: The step that is shown first. By default it is the last one, where all values and
            gradients are known.
        depth: Modules nested at least this deep are folded into one card each. By default as many
            are folded as it takes to show at most sixty cards.

    Returns:
        A widget, which a notebook shows. Printed, it describes the graph in words.

    Raises:
        TraceError: ``fn`` cannot be traced. The message is one sentence that says why.

    Example:
        >>> import torch
        >>> from autograd_course import gradient_flow
        >>> flow = gradient_flow(lambda x, y: (x * y) ** 2, torch.tensor(2.0), torch.tensor(3.0))
        >>> type(flow).__name__
        'GradientFlow'
    """
    return GradientFlow([scene(fn, inputs, names, sweep, depth)], step)
