"""The live lab: choose a quantizer and a surrogate, move x, and train."""

from collections.abc import Callable, Iterator
from typing import Any

import traitlets

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.idle_task import IdleTask
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live
from autograd_course.visualize.stelab import view
from autograd_course.visualize.stelab.describe import describe
from autograd_course.visualize.stelab.estimators import (
    QUANTIZERS,
    Estimator,
    by_surrogate,
    find_quantizer,
    own,
)
from autograd_course.visualize.stelab.figure import draw
from autograd_course.visualize.stelab.trace import (
    Estimate,
    LabTrace,
    capture,
    checked,
    checked_width,
)
from autograd_course.visualize.stelab.training_comparison import (
    TrainingComparison,
    TrainingTrace,
    checked_place,
    not_started,
    train_to_the_end,
)


class STELab(Live):
    """The lab with its state. :func:`ste_lab` creates this widget.

    You can set ``quantizer``, ``surrogate``, ``x``, ``width``, ``place`` and ``seed``. ``width`` is
    half the width of the staircase's chord. Set ``training`` to ``True`` to train the nets, a few
    steps at a time on the kernel's event loop, and to ``False`` to stop. If no event loop is
    running, the nets train to the end at once. ``trace`` contains the sampled estimators, and
    ``comparison`` contains the state of the training.
    """

    _esm = BUNDLES / "stelab.js"
    _css = BUNDLES / "stelab.css"

    quantizer = traitlets.Unicode().tag(**FROM_PAGE)
    surrogate = traitlets.Unicode().tag(**FROM_PAGE)
    x = traitlets.Float().tag(**FROM_PAGE)
    width = traitlets.Float().tag(**FROM_PAGE)
    place = traitlets.Unicode("activations").tag(**FROM_PAGE)
    seed = traitlets.Int(0, min=0).tag(**FROM_PAGE)
    training = traitlets.Bool(False).tag(**FROM_PAGE)
    sweep = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    board = traitlets.Dict().tag(sync=True)

    def __init__(
        self, estimators: tuple[Estimator, ...], name: str, surrogate: str, x: float, width: float
    ) -> None:
        self._estimators, self._name = estimators, name
        self._choices = {q.name: q.label for q in QUANTIZERS.values()} if name in QUANTIZERS else {}
        self._trained: dict[tuple[str, str, int], TrainingTrace] = {}
        self.trace: LabTrace = capture(estimators, x)
        names = self.trace.names()
        self.comparison = not_started("activations", 0)
        self._idle_task = IdleTask()
        super().__init__(
            quantizer=name,
            surrogate=surrogate if surrogate in names else names[-1],
            x=x,
            width=width,
            sweep=view.build_view(self.trace, name, self._choices),
            progress=view.progress_of(self.comparison),
            board=view.board_of_task(),
        )
        self.observe(self._requantize, "quantizer")
        self.observe(self._move, "x")
        self.observe(self._restart, ["place", "seed"])
        self.observe(self._train_or_stop, "training")

    @property
    def estimate(self) -> Estimate:
        """The current estimator."""
        return next(each for each in self.trace.estimates if each.name == self.surrogate)

    def left(self) -> dict[str, str]:
        """Return the picture and the plain text of the state after the training."""
        if not self.training:
            self.train()
        return super().left()

    def train(self) -> None:
        """Train all nets to the end, and show the result."""
        self._show(self._finished())

    @property
    def png(self) -> bytes:
        """The static picture of the current state, after the training."""
        training = self._finished()
        return draw(self.trace, self._name, self.estimate, self.x, self.width, training)

    def __repr__(self) -> str:
        return describe(self.trace, self._name, self.estimate, self.x, self.width, self._finished())

    def _finished(self) -> TrainingTrace:
        if self._key not in self._trained:
            training = train_to_the_end(self._estimators, checked_place(self.place), self.seed)
            self._trained[self._key] = training
        return self._trained[self._key]

    @property
    def _key(self) -> tuple[str, str, int]:
        return self.quantizer, self.place, self.seed

    def _requantize(self, change: Any) -> None:
        self._name = change["new"]
        self._estimators = by_surrogate(find_quantizer(self._name))
        self._sample()
        self._restart()

    def _move(self, change: Any) -> None:
        if change["new"] not in self.trace.xs:
            self._sample()

    def _sample(self) -> None:
        self.trace = capture(self._estimators, self.x)
        self.sweep = view.build_view(self.trace, self._name, self._choices)

    def _restart(self, change: Any = None) -> None:
        self.training = False
        self._show(not_started(checked_place(self.place), self.seed))

    def _show(self, training: TrainingTrace) -> None:
        self.comparison = training
        self.progress = view.progress_of(training)

    def _train_or_stop(self, change: Any) -> None:
        if change["new"]:
            training = TrainingComparison(self._estimators, checked_place(self.place), self.seed)
            self._idle_task.start(self._steps(training))
        else:
            self._idle_task.stop()

    def _steps(self, training: TrainingComparison) -> Iterator[None]:
        while not training.done:
            training.advance()
            self._show(training.trace())
            yield
        self._ended()

    def _ended(self) -> None:
        self._trained[self._key] = self.comparison
        self.training = False

    def close(self) -> None:
        """Stop training, and remove the widget from its pages."""
        self.training = False
        super().close()

    @traitlets.validate("quantizer")
    def _one_of_the_quantizers(self, proposal: Any) -> str:
        if self._choices:
            return find_quantizer(proposal["value"]).name
        if proposal["value"] != self._name:
            raise TraceError("This lab shows your own Functions, so you cannot choose a quantizer.")
        return self._name

    @traitlets.validate("surrogate")
    def _one_of_the_estimators(self, proposal: Any) -> str:
        names = self.trace.names()
        if proposal["value"] not in names:
            raise TraceError(
                f"There is no surrogate {proposal['value']!r} here; "
                f"choose one of: {', '.join(names)}."
            )
        return str(proposal["value"])

    @traitlets.validate("x", "width", "place")
    def _checked(self, proposal: Any) -> Any:
        checks: dict[str, Callable[[Any], Any]] = {
            "x": checked,
            "width": checked_width,
            "place": checked_place,
        }
        return checks[proposal["trait"].name](proposal["value"])


def ste_lab(
    quantizer: Any = "sign", surrogate: str = "clipped", x: float = 0.4, *, width: float = 1.0
) -> STELab:
    """Show a quantizer, its surrogate gradient in backward, and how networks train with both.

    The dashed line shows the slope of the quantizer over ``x ± width``, or the quantizer's
    derivative if ``width`` is 0. The lab trains a net with each surrogate when you click *Train*,
    and when it saves its picture. The training takes about a second.

    Args:
        quantizer: One of sign, ternary, uniform-2, uniform-3, uniform-4 (bits), round and floor. It
            can also be your own elementwise Function with one tensor argument, or a dict such as
            ``{"mine": MySTE, "other": "clipped"}``. A surrogate that the dict names uses the
            quantizer of the first Function.
        surrogate: One of zero, identity, clipped, tanh and sigmoid.
        x: The x at which the lab shows the value and the gradient, from -3 to 3.
        width: Half the width of the interval over which the slope is computed.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: The quantizer or the surrogate is unknown, or the lab cannot show your Function.

    Example:
        >>> from autograd_course.visualize import ste_lab
        >>> type(ste_lab("round", "identity")).__name__
        'STELab'
    """
    at = checked(x)
    if not isinstance(quantizer, str):
        estimators = own(quantizer)
        return STELab(estimators, estimators[0].name, surrogate, at, checked_width(width))
    chosen = find_quantizer(quantizer)
    estimators = by_surrogate(chosen)
    names = [estimator.name for estimator in estimators]
    if surrogate not in names:
        raise TraceError(f"There is no surrogate {surrogate!r}; choose one of: {', '.join(names)}.")
    return STELab(estimators, chosen.name, surrogate, at, checked_width(width))
