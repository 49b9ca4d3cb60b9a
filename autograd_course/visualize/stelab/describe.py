"""Write all sentences and numbers that the STE lab shows."""

import math

from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, LabTrace
from autograd_course.visualize.stelab.training_comparison import STEPS, Place, Run, TrainingTrace

SPAN = f"{VIEW[0]:g} to {VIEW[1]:g}"
PLACES: dict[Place, str] = {"activations": "the hidden activations", "weights": "the weights"}
# The layers that still train if no gradient passes through the quantizer.
REST: dict[Place, str] = {
    "activations": "If ∂ is 0, only the last layer learns: no gradient passes the quantizer.",
    "weights": "If ∂ is 0, only the biases learn: no gradient reaches a weight.",
}
_SAME = 1e-3  # a slope and a gradient agree if their difference is smaller than this

# The effect of backward on a gradient of 1.
TURNS = (
    "the gradient is blocked",
    "the gradient passes unchanged",
    "the gradient is reduced",
    "the gradient is amplified",
    "the gradient changes its sign",
)
# Comparisons of a gradient with the slope of a chord across the staircase.
VERDICTS = {
    "equal": "∂ agrees with it.",
    "above": "∂ is too large here.",
    "below": "∂ is too small here.",
    "jump": "",
}


def turn(gradient: float) -> int:
    """Return the key in TURNS for the gradient that backward returns for ``grad_output`` 1."""
    if abs(gradient) < 1e-6:  # the page still shows it, but it is too small for training
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
    """Describe the results of forward and backward."""
    return f"Forward maps x = {x} to {y}. Backward maps grad_output = 1 to ∂ {gradient}: {became}."


def chord(width: float, slope: str, judged: str) -> str:
    """Return the slope of the chord across the staircase, as text."""
    if width == 0:
        return f"The derivative of the staircase at x is {slope}: {judged}"
    return f"The chord of the staircase over x ± {width:g} has slope {slope}: {judged}"


def half_width(width: float) -> str:
    """Return the label for the position of the width slider."""
    return f"slope over x ± {width:g}" if width else "slope at x"


JUMP = "The staircase jumps at x and has no derivative there."


def climbs(estimate: Estimate, trace: LabTrace) -> str:
    """Compare the rises of the staircase and of the surrogate within the view."""
    own, line = tidy(trace.staircase_of(estimate).climb), tidy(estimate.climb)
    return f"From {SPAN}, the staircase rises by {own} and the surrogate by {line}."


def gap(estimate: Estimate, j: int) -> str:
    """Return the mean difference between the gradient and the chord slope, as text."""
    beside = f"the slope over x ± {WIDTHS[j]:g}" if WIDTHS[j] else "the derivative"
    return f"Mean difference between ∂ and {beside}: {estimate.gaps[j]:.2f}"


def tidy(value: float) -> str:
    """Format a number with three significant digits, and rounding noise as 0."""
    return number(round(value, 4), 3)


def result(run: Run) -> str:
    """Format a net's loss and the share of points that it classifies correctly."""
    if not run.losses:
        return ""
    loss = run.losses[-1]
    told = f"{loss:.2f}" if math.isfinite(loss) else "not finite"
    return f"loss {told}, {run.accuracy:.0%} right"


def headline(name: str, estimate: Estimate) -> str:
    """Return a headline with the function in forward and the factor in backward."""
    if not estimate.formula:
        return f"STE lab: {estimate.label}."
    backward = f"{estimate.label} backward (it multiplies by {estimate.formula})"
    return f"STE lab: {name} forward, {backward}."


def describe(
    trace: LabTrace, name: str, estimate: Estimate, x: float, width: float, training: TrainingTrace
) -> str:
    """Describe the picture in plain text."""
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
    return [f"{head}random start {training.seed + 1}:", *rows]
