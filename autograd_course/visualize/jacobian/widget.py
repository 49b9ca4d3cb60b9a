"""The live view: three linked maps, a selected entry, and the gradient that backward returns."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

import traitlets
from autograd_doctor import CannotDiagnoseError, Diagnosis, diagnose
from autograd_doctor import jacobians as heatmap
from autograd_doctor.card import WIDTH

from autograd_course.visualize.jacobian.describe import WORDS, describe_finding
from autograd_course.visualize.jacobian.figure import draw
from autograd_course.visualize.jacobian.trace import capture
from autograd_course.visualize.jacobian.view import LEGEND, View, page, written_out
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live


class JacobianView(Live):
    """The Jacobians of forward and of backward. :func:`jacobian_view` creates this widget.

    Each pair of an output and an input has its own Jacobian. ``shown`` is the index of the current
    Jacobian, and ``cell`` is the selected ``[row, column]``. You can set both. ``finding`` is the
    first finding of ``diagnose``.
    """

    _esm = BUNDLES / "jacobian.js"
    _css = BUNDLES / "jacobian.css"

    # The type is in quotes because Colab's traitlets (5.7.1) cannot be subscripted at run time.
    views: "traitlets.List[dict[str, Any]]" = traitlets.List().tag(sync=True)
    finding = traitlets.Unicode("").tag(sync=True)
    words = traitlets.Dict(WORDS).tag(sync=True)
    legend = traitlets.List(LEGEND).tag(sync=True)
    shown = traitlets.Int(0, min=0).tag(**FROM_PAGE)
    cell = traitlets.List(traitlets.Int()).tag(**FROM_PAGE)

    def __init__(self, views: Sequence[View], finding: str = "") -> None:
        self._views = tuple(views)
        first = next((k for k, view in enumerate(views) if view.wrong), 0)
        super().__init__(
            views=[page(view) for view in views],
            finding=finding,
            shown=first,
            cell=list(views[first].cells.worst),
        )
        self.observe(self._to_its_start, "shown")

    @property
    def view(self) -> View:
        """The current Jacobian."""
        return self._views[self.shown]

    @traitlets.validate("shown")
    def _one_there_is(self, proposal: Any) -> int:
        return min(int(proposal["value"]), len(self._views) - 1)

    @traitlets.validate("cell")
    def _inside(self, proposal: Any) -> list[int]:
        limits = (len(self.view.cells.rows), len(self.view.cells.columns))
        places = (*proposal["value"], 0, 0)
        return [max(0, min(at, count - 1)) for at, count in zip(places, limits, strict=False)]

    def _to_its_start(self, _: Any) -> None:
        self.cell = list(self.view.cells.worst)

    @property
    def png(self) -> bytes:
        """The current maps with the selected cell."""
        row, column = self.cell
        return draw(self.view, self.finding, (row, column))

    def __repr__(self) -> str:
        found = [fill(self.finding, WIDTH)] if self.finding else []
        return "\n".join([*found, *map(str, self._views), *written_out(self.view, self.cell)])


def jacobian_view(
    fn: Any,
    *inputs: Any,
    of: int | None = None,
    reference: Callable[..., Any] | None = None,
) -> JacobianView:
    """Show two Jacobians of ``fn`` at ``inputs``: one from ``forward`` and one from ``backward``.

    Entry (i, j) is ∂output_i/∂input_j. Each run of ``backward`` with a one-hot ``grad_output``
    gives one row of the second matrix. Central differences of ``forward`` in float64 give the
    columns of the first matrix. A complex element counts as two elements. The first finding of
    :func:`~autograd_course.diagnose` appears above the maps.

    Args:
        fn: A Function class, any callable, or a :class:`~autograd_course.Diagnosis` that contains
            Jacobians.
        inputs: The arguments of the call. If ``fn`` is a diagnosis, omit them.
        of: The index of the output to show, if there are several.
        reference: A differentiable callable with the same arguments. Its Jacobian replaces the
            finite differences.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: An input or output has more than 512 elements, or a pass raises an error.

    Example:
        >>> import torch
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import jacobian_view
        >>> type(jacobian_view(Square, torch.randn(3))).__name__
        'JacobianView'
    """
    if isinstance(fn, Diagnosis):
        return _of_a_diagnosis(fn, inputs)
    captured = capture(fn, inputs, of, reference)
    truth = heatmap.TITLES[0] if reference is None else "reference by autograd"
    views = [View(pair, truth) for pair in captured.pairs]
    return JacobianView(
        views, describe_finding(_examined(fn, inputs, reference)) if captured.custom else ""
    )


def _of_a_diagnosis(diagnosis: Diagnosis, inputs: Sequence[Any]) -> JacobianView:
    if inputs:
        raise TraceError(
            "A diagnosis takes no inputs: call jacobian_view(diagnosis), or pass a function with "
            "its inputs, as in jacobian_view(fn, x)."
        )
    if diagnosis.jacobians is None:
        raise TraceError(
            f"The diagnosis of {diagnosis.subject} contains no Jacobians, because it found no "
            "wrong values; call jacobian_view(fn, x) to see them."
        )
    return JacobianView([View(diagnosis.jacobians)], describe_finding(diagnosis))


def _examined(
    fn: Any, inputs: Sequence[Any], reference: Callable[..., Any] | None
) -> Diagnosis | None:
    try:
        return diagnose(fn, inputs, reference=reference)
    except CannotDiagnoseError:  # in this case, no finding appears above the maps
        return None
