"""Show several flows side by side, with one player that steps through all of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autograd_course.visualize.flow.describe import describe, each
from autograd_course.visualize.flow.differences import Described, Different, differences
from autograd_course.visualize.flow.figure import png_of_several
from autograd_course.visualize.flow.view import Sweep, View, view_of
from autograd_course.visualize.flow.widget import FlowWidget
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import input_names


class FlowComparison(FlowWidget):
    """Several flows that advance in step. :func:`compare_flows` creates this widget.

    All flows first step through forward and then through backward. Shorter flows wait for the
    longest one. ``views`` contains the flows. The symbol ≠ marks the differences between them.
    """

    def _content(self) -> dict[str, Any]:
        flows = [view.to_dict() for view in self.views]
        title = " and ".join(str(flow["name"]) for flow in flows)
        return {
            "title": f"Gradient flow compared: {title}",
            "flows": flows,
            "places": places([view.phases for view in self.views]),
        }

    def _texts(self) -> Sequence[Any]:
        return self._marked([view.texts for view in self.views])

    def _marked(self, texts: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the text of each flow, followed by the differences marked in it."""
        pairs = zip(texts, self._different(texts), strict=True)
        return [[*texts, different.code] for texts, different in pairs]

    def _different(self, texts: Sequence[Sequence[str]]) -> list[Different]:
        pictures = [view.picture for view in self.views]
        pairs = zip(pictures, texts, strict=True)
        return differences([Described(p.trace, replace(p.words, texts=tuple(t))) for p, t in pairs])

    def _by_view(self, texts: Any) -> Sequence[Sequence[str]]:
        return [of[:-1] for of in texts]

    def _frames(self, name: str, values: Sequence[float], at: Mapping[str, float]) -> Iterator[Any]:
        flows = (flow.frames(name, values, at) for flow in self.views)
        for texts in zip(*flows, strict=True):
            yield (None if None in texts else self._marked(texts))  # only if all flows have text

    @property
    def png(self) -> bytes:
        """A picture of all flows, each below its name."""
        named = [(s.name, s.picture.words, s.picture.layout) for s in self.views]
        return png_of_several(named, self._different([s.texts for s in self.views]))

    def __repr__(self) -> str:
        accounts = [f"{s.name}\n{describe(s.picture.trace)}" for s in self.views]
        different = self._different([view.texts for view in self.views])
        return "\n\n".join([*accounts, _verdict(self.views, different)])


def places(phases: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each flow, map every common step to a step of that flow.

    ``phases`` contains each flow's numbers of forward and backward steps, excluding the start.
    """
    forward, back = (max(counts) for counts in zip(*phases, strict=True))
    return [
        [min(step, f) for step in range(forward + 1)]
        + [f + min(step, b) for step in range(1, back + 1)]
        for f, b in phases
    ]


def _verdict(views: Sequence[View], different: Sequence[Different]) -> str:
    """Describe the differences, and list the gradients of the inputs that all flows share."""
    found = [
        {n.name: each(n.gradients, "brief") for n in s.trace.nodes if n.kind == "input"}
        for s in views
    ]
    shared = [name for name in found[0] if all(name in other for other in found)]
    lines = [
        f"  ∂ of {name}: "
        + "; ".join(f"{of[name]} {view.name}" for of, view in zip(found, views, strict=True))
        for name in shared
    ]
    marked = [_marks_of(view, d) for view, d in zip(views, different, strict=True) if any(d)]
    return "\n".join(["Side by side", *lines, *([f"  ≠ {'; '.join(marked)}"] * bool(marked))])


def _marks_of(view: View, different: Different) -> str:
    trace, words = view.picture.trace, view.picture.words
    nodes = [trace.nodes[node].name for node in sorted(different.nodes)]
    edges = [(trace.edges[edge], words.fill(words.factors[edge])) for edge in different.edges]
    ways = [f"{trace.nodes[e.target].name} to {trace.nodes[e.source].name} {f}" for e, f in edges]
    return f"{view.name}: {', '.join([*nodes, *sorted(ways)])}"


def compare_flows(
    flows: Mapping[str, Callable[..., Any]],
    *inputs: Any,
    names: Sequence[str] | None = None,
    sweep: Sweep = True,
    step: int | None = None,
    depth: int | None = None,
) -> FlowComparison:
    """Show how gradients flow through several functions of the same inputs, side by side.

    Each slider changes an input in all flows. The symbol ≠ marks operations and local factors that
    differ.

    Args:
        flows: A dictionary of two or more functions, such as ``{"without STE": f, "with STE": g}``.
        inputs: The arguments, as in :func:`gradient_flow`.
        names: Names for the inputs. By default, these are the first function's parameter names.
        sweep: The scalar inputs with sliders, as in :func:`gradient_flow`.
        step: The first step to show, as in :func:`gradient_flow`.
        depth: The depth at which modules are folded, as in :func:`gradient_flow`.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: A function cannot be traced, or there are fewer than two functions.

    Example:
        >>> import torch
        >>> from autograd_course.visualize import compare_flows
        >>> flows = {"sine": torch.sin, "line": lambda x: x}
        >>> type(compare_flows(flows, torch.tensor(0.5))).__name__
        'FlowComparison'
    """
    if not isinstance(flows, Mapping) or len(flows) < 2:
        raise TraceError(
            "compare_flows needs a dict of two or more functions, "
            'such as {"without": f, "with": g}.'
        )
    called = names or _names(flows, inputs)
    views = [_view(str(name), fn, inputs, called, sweep, depth) for name, fn in flows.items()]
    ranges = {n: r for n, r in views[0].source.ranges.items() if _movable(n, views)}
    same = [replace(s, source=replace(s.source, ranges=ranges)) for s in views]
    return FlowComparison(same, step)


def _movable(name: str, views: Sequence[View]) -> bool:
    return all(name in view.source.ranges for view in views)


def _names(flows: Mapping[str, Callable[..., Any]], inputs: Sequence[Any]) -> Sequence[str]:
    """Return the input names of the first function, which all flows use."""
    return input_names(next(iter(flows.values())), inputs, None)


def _view(
    name: str, fn: Any, inputs: Sequence[Any], names: Sequence[str], sweep: Sweep, depth: int | None
) -> View:
    try:
        return view_of(fn, inputs, names, sweep, depth, name)
    except TraceError as error:
        raise TraceError(f"{name}: {error}") from error
