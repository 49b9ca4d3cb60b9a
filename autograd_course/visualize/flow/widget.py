"""The live picture: step, play, scrub, look into nodes, unfold modules, move the inputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from autograd_course.visualize.flow.picture import Picture
from autograd_course.visualize.flow.scene import Sweep, scene
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.view import FlowView


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

    ``fn`` is a ``torch.autograd.Function`` class, a module, or any callable that returns a tensor
    (the loss is the sum of its elements) or a tuple of some. Values and gradients come from one
    real forward and one real backward pass on copies of the inputs. ``names`` are for the inputs.

    ``sweep`` gives scalar inputs a slider: ``{"x": (-3.0, 3.0)}``; by default each scalar input of
    a small graph has one, with ``False`` none. ``step`` is where the story stands at first; by
    default at its end, where all values and gradients are known. Modules nested at least ``depth``
    deep are folded into one card each; by default as many as it takes to show at most sixty cards.

    Raises :class:`TraceError`, a sentence, for what cannot be traced.
    """
    return GradientFlow([scene(fn, inputs, names, sweep, depth)], step)
