"""The lab in words. Every sentence and number that the page shows is made here."""

import math

from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, LabTrace
from autograd_course.visualize.stelab.training_comparison import STEPS, Place, Run, TrainingTrace

SPAN = f"{VIEW[0]:g} to {VIEW[1]:g}"
PLACES: dict[Place, str] = {"activations": "the hidden activations", "weights": "the weights"}
# What a net still learns whose quantizer lets no gradient through.
REST: dict[Place, str] = {
    "activations": "Where ∂ is 0, only the last layer learns: nothing comes past the quantizer.",
    "weights": "Where ∂ is 0, only the biases learn: no gradient reaches a weight.",
}
_SAME = 1e-3  # a slope and a gradient that differ by less agree

# What becomes of a gradient of 1 on its way through backward.
TURNS = (
    "it is cut off",
    "it passes unchanged",
    "it passes, weakened",
    "it passes, amplified",
    "it passes with its sign reversed",
)
# A gradient beside the slope of the staircase's own chord.
VERDICTS = {
    "equal": "the two agree.",
    "above": "∂ is too large here.",
    "below": "∂ is too small here.",
    "jump": "",
}


def turn(gradient: float) -> int:
    """Return which of TURNS a gradient is, for ``grad_output`` 1."""
    if abs(gradient) < 1e-6:  # shown as it is, but nothing can be learned by it
        return 0
    if gradient < 0:
        return 4
    if abs(gradient - 1) < 1e-6:
        return 1
    return 2 if gradient < 1 else 3


def verdict(gradient: float, slope: float | None) -> str:
    """Return the key in VERDICTS for a gradient and a slope."""
    if slope is None:
        return "jump"
    if abs(gradient - slope) < _SAME:
        return "equal"
    return "above" if gradient > slope else "below"


def at(x: str, y: str, gradient: str, became: str) -> str:
    """Say what goes forward and what comes back."""
    return (
        f"Forward: x = {x} becomes {y}. Backward: a gradient of 1 becomes ∂ {gradient}; {became}."
    )


def chord(width: float, slope: str, judged: str) -> str:
    """Say how steep the staircase itself is."""
    if width == 0:
        return f"The derivative of the staircase at x is {slope}: {judged}"
    return f"Over x ± {width:g} the staircase itself has slope {slope}: {judged}"


def half_width(width: float) -> str:
    """Name what the slider of widths stands at."""
    return f"slope over x ± {width:g}" if width else "slope at x alone"


JUMP = "The staircase jumps at x: it has no derivative there."


def climbs(estimate: Estimate, trace: LabTrace) -> str:
    """Compare how far the staircase and the line that backward follows rise over the view."""
    own, line = tidy(trace.staircase_of(estimate).climb), tidy(estimate.climb)
    return f"From {SPAN} the staircase climbs {own}, the surrogate {line}."


def gap(estimate: Estimate, j: int) -> str:
    """Say how far gradient and slope are apart on average."""
    beside = f"the slope over x ± {WIDTHS[j]:g}" if WIDTHS[j] else "the derivative"
    return f"Mean distance of ∂ from {beside}: {estimate.gaps[j]:.2f}"


def tidy(value: float) -> str:
    """Write a number with three significant digits, and rounding noise as nothing."""
    return number(round(value, 4), 3)


def result(run: Run) -> str:
    """Say how a net does: its loss, and how many of the points are right."""
    if not run.losses:
        return ""
    loss = run.losses[-1]
    told = f"{loss:.2f}" if math.isfinite(loss) else "not finite"
    return f"loss {told}, {run.accuracy:.0%} right"


def headline(name: str, estimate: Estimate) -> str:
    """Name what runs forward, and what backward multiplies by."""
    if not estimate.formula:
        return f"STE lab: {estimate.label}."
    backward = f"{estimate.label} backward (it multiplies by {estimate.formula})"
    return f"STE lab: {name} forward, {backward}."


def describe(
    trace: LabTrace, name: str, estimate: Estimate, x: float, width: float, training: TrainingTrace
) -> str:
    """Tell all that the picture shows."""
    i, j, stairs = trace.xs.index(x), WIDTHS.index(width), trace.staircase_of(estimate)
    gradient, slope = estimate.gradients[i], stairs.slopes[j][i]
    beside = (
        JUMP if slope is None else chord(width, tidy(slope), VERDICTS[verdict(gradient, slope)])
    )
    return "\n".join(
        [
            headline(name, estimate),
            f"  {at(number(x), tidy(stairs.values[i]), tidy(gradient), TURNS[turn(gradient)])}",
            f"  {beside}",
            f"  {climbs(estimate, trace)}",
            f"  {gap(estimate, j)}.",
            *_trained(training),
        ]
    )


def _trained(training: TrainingTrace) -> list[str]:
    if training.notice:
        return [training.notice]
    head = f"Trained {training.step} of {STEPS} steps with {PLACES[training.place]} quantized, "
    width = max((len(run.label) for run in training.runs), default=0)
    rows = [f"  {run.label:<{width}}  {result(run)}" for run in training.runs]
    return [f"{head}start {training.seed + 1}:", *rows]
