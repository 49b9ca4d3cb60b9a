"""The live picture, with controls to step, play, drag, unfold modules, and change the inputs."""

from collections.abc import Iterator, Mapping, Sequence
from operator import is_not
from typing import Any

import traitlets

from autograd_course.visualize.flow.describe import shape
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.view import Picture, Sweep, View, view_of
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.idle_task import IdleTask
from autograd_course.visualize.kit.inputs import whole_number
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live

# --- The code that one flow and several flows share -----------------------------------------------


class FlowWidget(Live):
    """Views of one or more functions that advance in step with each other.

    ``view`` is the content of the page, and ``numbers`` contains the parts that change with each
    trace. ``step`` is the current step, from 0 (the inputs) to ``steps``. ``inputs`` contains the
    values of the inputs with sliders. ``opened`` lists the groups of each view that are not folded.
    You can set ``step``, ``inputs`` and ``opened``. ``sweeps`` contains the text to show when a
    slider moves. After a new trace, the kernel computes ``sweeps`` while it is idle.
    """

    _esm = BUNDLES / "flow.js"
    _css = BUNDLES / "flow.css"

    view = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0, min=0).tag(**FROM_PAGE)
    inputs = traitlets.Dict().tag(**FROM_PAGE)
    opened = traitlets.List(traitlets.Any()).tag(**FROM_PAGE)
    sweeps = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(self, views: Sequence[View], step: int | None = None) -> None:
        self.views = tuple(views)
        at = self.steps if step is None else whole_number("step", step, 0)
        values = views[0].source.values()
        opened = [list(view.opened) for view in views]
        state = {"view": self._view_model(), "numbers": self._numbered(values)}
        super().__init__(**state, step=at, inputs=values, opened=opened)
        self._idle_task = IdleTask()
        for _ in self._swept():
            pass
        self._make_room()
        self.observe(self._follow, "inputs")
        self.observe(self._unfold, "opened")

    @property
    def phases(self) -> tuple[int, int]:
        """The number of forward steps and the number of backward steps in the longest view."""
        forward, back = zip(*(view.phases for view in self.views), strict=True)
        return max(forward), max(back)

    @property
    def steps(self) -> int:
        """The number of the last step, at which every gradient has arrived."""
        return sum(self.phases)

    def _content(self) -> dict[str, Any]:
        """Return the content of the page."""
        raise NotImplementedError

    def _texts(self) -> Sequence[Any]:
        """Return the strings that fill the slots of the page."""
        raise NotImplementedError

    def _frames(self, name: str, values: Sequence[float], at: Mapping[str, float]) -> Iterator[Any]:
        """Yield the content for each value of one input, or ``None`` if the graph is different."""
        raise NotImplementedError

    def _make_room(self) -> None:
        """Make each card wide enough for its widest number, so that sliders do not move cards."""
        frames = [texts for sweep in self.sweeps for texts in sweep["frames"] if texts]
        if not frames:
            return
        each = zip(*map(self._by_view, frames), strict=True)
        pairs = zip(self.views, each, strict=True)
        self.views = tuple(view.roomy(texts) for view, texts in pairs)
        self.view = self._view_model()

    def _by_view(self, texts: Any) -> Sequence[Sequence[str]]:
        """Return the strings of each view."""
        raise NotImplementedError

    def _view_model(self) -> dict[str, Any]:
        return {
            **self._content(),
            "shape": shape([view.picture.words for view in self.views]),
            "opened": [list(view.opened) for view in self.views],
        }

    def _numbered(self, at: Mapping[str, float]) -> dict[str, Any]:
        return {
            "texts": self._texts(),
            "sliders": self.views[0].source.sliders(at),
            "answers": dict(at),
            "notice": "",
            "turn": self.numbers.get("turn", 0) + 1,  # Send the answer even if it has not changed.
        }

    @traitlets.validate("step")
    def _within_the_steps(self, proposal: Any) -> int:
        return min(int(proposal["value"]), self.steps)

    def _follow(self, change: Any) -> None:
        at = {**self.views[0].source.values(), **change["new"]}
        before = [view.picture.drawing for view in self.views]
        phases = self.phases
        try:
            self.views = tuple(view.at(at) for view in self.views)
        except TraceError as error:
            turn = self.numbers["turn"] + 1
            self.numbers = {**self.numbers, "answers": at, "notice": str(error), "turn": turn}
            return
        drawn = [view.picture.drawing for view in self.views]
        self._update(at, phases, anew=any(map(is_not, before, drawn)))

    def _unfold(self, change: Any) -> None:
        asked = change["new"]
        now = [list(view.opened) for view in self.views]
        if asked == now or len(asked) != len(now):
            return
        pairs, before = zip(self.views, asked, strict=True), self.phases
        self.views = tuple(view.unfolded(opened) for view, opened in pairs)
        self._update(self.numbers["answers"], before)

    def _update(self, at: Mapping[str, float], before: tuple[int, int], anew: bool = True) -> None:
        with self.hold_sync():
            if anew:
                self.view = self._view_model()
                self.opened = self.view["opened"]
                self.step = moved(self.step, before, self.phases)
            self.numbers = self._numbered(at)
        self._idle_task.start(self._swept())

    def _swept(self) -> Iterator[None]:
        """Compute a sweep for each input, one value at a time. Keep sweeps that are still valid."""
        at, shape = self.numbers["answers"], self.view["shape"]
        sweeps = []
        for slider in self.numbers["sliders"]:
            name, values = slider["name"], slider["values"]
            others = {other: value for other, value in at.items() if other != name}
            sweep = {"name": name, "values": values, "others": others, "shape": shape}
            kept = [
                old for old in self.sweeps if {**old, "frames": None} == {**sweep, "frames": None}
            ]
            if not kept:
                frames = []
                for texts in self._frames(name, values, at):
                    frames.append(texts)
                    yield
                kept = [{**sweep, "frames": frames}]
            sweeps += kept
        self.sweeps = sweeps


def moved(step: int, before: tuple[int, int], after: tuple[int, int]) -> int:
    """Map a step to phases of new lengths. The first step stays first, and the last stays last."""
    (forward, back), (longer, further) = before, after
    if step in (0, forward + back):
        return sum(after) if step else 0
    if step <= forward:
        return round(step / forward * longer)
    return longer + round((step - forward) / back * further)


# --- One flow -------------------------------------------------------------------------------------


class GradientFlow(FlowWidget):
    """A trace, step by step. :func:`gradient_flow` creates this widget.

    ``trace`` is the trace with all nodes, and ``picture`` is the static picture with folded
    modules.
    """

    @property
    def trace(self) -> Trace:
        """The trace that is shown."""
        return self.views[0].trace

    @property
    def picture(self) -> Picture:
        """The static picture."""
        return self.views[0].picture

    def _content(self) -> dict[str, Any]:
        return self.views[0].to_dict()

    def _texts(self) -> Sequence[Any]:
        return self.views[0].texts

    def _frames(self, name: str, values: Sequence[float], at: Mapping[str, float]) -> Iterator[Any]:
        return self.views[0].frames(name, values, at)

    def _by_view(self, texts: Any) -> Sequence[Sequence[str]]:
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
    """Show how values flow forward through ``fn(*inputs)`` and how gradients flow back.

    Values and gradients come from one real forward and one real backward pass on copies of the
    inputs.

    Args:
        fn: A Function class, a module, or any callable that returns a tensor or a tuple of tensors.
            The loss is the sum of all elements of the result.
        inputs: The arguments of the call.
        names: Names for the inputs. By default, these are the parameter names of ``fn``.
        sweep: The scalar inputs that get a slider, each with the range of its slider, such as
            ``{"x": (-3.0, 3.0)}``. By default, each scalar input of a small graph gets a slider.
            ``False`` means no sliders.
        step: The first step to show. The default is the last step, where all values and gradients
            are known.
        depth: Each module nested at least this deep is folded into one card. By default, modules
            are folded until there are at most sixty cards.

    Returns:
        A widget for display in a notebook. Printing it describes the graph in words.

    Raises:
        TraceError: ``fn`` cannot be traced. The message gives the reason in one sentence.

    Example:
        >>> import torch
        >>> from autograd_course import gradient_flow
        >>> flow = gradient_flow(lambda x, y: (x * y) ** 2, torch.tensor(2.0), torch.tensor(3.0))
        >>> type(flow).__name__
        'GradientFlow'
    """
    return GradientFlow([view_of(fn, inputs, names, sweep, depth)], step)
