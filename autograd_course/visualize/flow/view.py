"""What one flow and several ones have in common as a widget."""

from collections.abc import Iterator, Mapping, Sequence
from operator import is_not
from pathlib import Path
from typing import Any

import traitlets

from autograd_course.visualize.flow.scene import Scene
from autograd_course.visualize.flow.script import shape
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.idle_task import IdleTask
from autograd_course.visualize.kit.inputs import whole_number
from autograd_course.visualize.kit.live import FROM_PAGE, KIT, Live, script, sheet

HERE = Path(__file__).parent
_PARTS = ("marks", "stage", "details", "sliders", "scene", "gradient_flow")


class FlowView(Live):
    """Scenes on stage, stepped together.

    ``story`` is what is told, ``numbers`` what comes anew with every trace. ``step`` is where the
    story stands, from 0 (inputs given) to ``steps``; setting it moves the picture. ``inputs`` holds
    the values of the inputs that have sliders; setting it traces anew. ``opened`` lists for each
    scene the groups that are not folded. ``sweeps`` holds what to show as a slider moves; after a
    new trace it follows as soon as the kernel has time.
    """

    _esm = script(KIT / "player.js", *(HERE / f"{part}.js" for part in _PARTS))
    _css = sheet(HERE / "picture.css", HERE / "gradient_flow.css")

    story = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0, min=0).tag(**FROM_PAGE)
    inputs = traitlets.Dict().tag(**FROM_PAGE)
    opened = traitlets.List(traitlets.Any()).tag(**FROM_PAGE)
    sweeps = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(self, scenes: Sequence[Scene], step: int | None = None) -> None:
        self.scenes = tuple(scenes)
        at = self.steps if step is None else whole_number("step", step, 0)
        values = scenes[0].source.values()
        opened = [list(scene.opened) for scene in scenes]
        told = {"story": self._story(), "numbers": self._numbered(values)}
        super().__init__(**told, step=at, inputs=values, opened=opened)
        self._idle_task = IdleTask()
        for _ in self._swept():
            pass
        self._make_room()
        self.observe(self._follow, "inputs")
        self.observe(self._unfold, "opened")

    @property
    def phases(self) -> tuple[int, int]:
        """How many steps go forward and back; of several scenes, in the longest."""
        forward, back = zip(*(scene.phases for scene in self.scenes), strict=True)
        return max(forward), max(back)

    @property
    def steps(self) -> int:
        """The number of the last step, at which every gradient has arrived."""
        return sum(self.phases)

    def _content(self) -> dict[str, Any]:
        """Return the story of the scenes."""
        raise NotImplementedError

    def _texts(self) -> Sequence[Any]:
        """Return the texts that fill the slots of the story."""
        raise NotImplementedError

    def _frames(self, name: str, values: Sequence[float], at: Mapping[str, float]) -> Iterator[Any]:
        """Yield what to show at each value of one input, ``None`` where the graph is another."""
        raise NotImplementedError

    def _make_room(self) -> None:
        """Let the cards be as wide as any number that a slider brings, or they would move then."""
        frames = [texts for sweep in self.sweeps for texts in sweep["frames"] if texts]
        if not frames:
            return
        each = zip(*map(self._by_scene, frames), strict=True)
        pairs = zip(self.scenes, each, strict=True)
        self.scenes = tuple(scene.roomy(texts) for scene, texts in pairs)
        self.story = self._story()

    def _by_scene(self, texts: Any) -> Sequence[Sequence[str]]:
        """Return the texts of each scene."""
        raise NotImplementedError

    def _story(self) -> dict[str, Any]:
        return {
            **self._content(),
            "shape": shape([scene.picture.words for scene in self.scenes]),
            "opened": [list(scene.opened) for scene in self.scenes],
        }

    def _numbered(self, at: Mapping[str, float]) -> dict[str, Any]:
        return {
            "texts": self._texts(),
            "sliders": self.scenes[0].source.sliders(at),
            "answers": dict(at),
            "notice": "",
            "turn": self.numbers.get("turn", 0) + 1,  # an answer is news even if it says the same
        }

    @traitlets.validate("step")
    def _within_the_story(self, proposal: Any) -> int:
        return min(int(proposal["value"]), self.steps)

    def _follow(self, change: Any) -> None:
        at = {**self.scenes[0].source.values(), **change["new"]}
        before = [scene.picture.drawing for scene in self.scenes]
        phases = self.phases
        try:
            self.scenes = tuple(scene.at(at) for scene in self.scenes)
        except TraceError as error:
            turn = self.numbers["turn"] + 1
            self.numbers = {**self.numbers, "answers": at, "notice": str(error), "turn": turn}
            return
        drawn = [scene.picture.drawing for scene in self.scenes]
        self._retell(at, phases, anew=any(map(is_not, before, drawn)))

    def _unfold(self, change: Any) -> None:
        asked = change["new"]
        now = [list(scene.opened) for scene in self.scenes]
        if asked == now or len(asked) != len(now):
            return
        pairs, before = zip(self.scenes, asked, strict=True), self.phases
        self.scenes = tuple(scene.unfolded(opened) for scene, opened in pairs)
        self._retell(self.numbers["answers"], before)

    def _retell(self, at: Mapping[str, float], before: tuple[int, int], anew: bool = True) -> None:
        with self.hold_sync():
            if anew:
                self.story = self._story()
                self.opened = self.story["opened"]
                self.step = moved(self.step, before, self.phases)
            self.numbers = self._numbered(at)
        self._idle_task.start(self._swept())

    def _swept(self) -> Iterator[None]:
        """Sweep the story on stage, one value at a time; a sweep that still holds is kept."""
        at, shape = self.numbers["answers"], self.story["shape"]
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
    """Return where a step stands when the phases have become longer or shorter; ends stay ends."""
    (forward, back), (longer, further) = before, after
    if step in (0, forward + back):
        return sum(after) if step else 0
    if step <= forward:
        return round(step / forward * longer)
    return longer + round((step - forward) / back * further)
