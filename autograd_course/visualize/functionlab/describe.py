"""Write the lab's text: sentences about one x and about the whole range, and a summary."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from autograd_course.visualize.functionlab.lines import Listing, Step
from autograd_course.visualize.functionlab.trace import Kept, Position, Sweep, Verdict
from autograd_course.visualize.kit.formatting import number

_MOST_REGIONS = 3
_IF_MEANT = "right only as a surrogate gradient"
_NOWHERE: dict[Verdict, str] = {"jump": "jumps", "steep": "is infinitely steep"}


def slope(value: float | None) -> str:
    """Format a slope, rounding away the noise of finite differences."""
    if value is None:
        return "none"
    return number(round(value, 4) if math.isfinite(value) else value)


def by_backward(position: Position) -> str:
    """Return the slope from backward, as text."""
    if position.run is None or position.failure:
        return "none"
    return slope(position.slope)


def by_differences(position: Position) -> str:
    """Return the slope from finite differences, or both one-sided slopes if they differ."""
    if position.sides is None or position.verdict in _NOWHERE:
        return "none"
    if position.sides.bent:
        return f"{slope(position.sides.left)} | {slope(position.sides.right)}"
    return slope(position.sides.central)


def judged(position: Position, variable: str) -> str:
    """Return a sentence that compares backward's slope with forward's slope at one x."""
    at, claim = f"{variable} = {number(position.x)}", by_backward(position)
    if position.verdict == "open":
        return position.failure or (
            f"There is nothing to compare at {at}, because forward is not finite next to it."
        )
    if position.slope is None:
        return _without_gradient(position)
    if position.verdict in _NOWHERE:
        does = _NOWHERE[position.verdict]
        return f"◇ Forward {does} at {at} and has no slope there. Backward gives slope {claim}."
    if position.verdict == "kink" and position.sides:
        left, right = slope(position.sides.left), slope(position.sides.right)
        return (
            f"◇ Forward has a kink at {at}: slope {left} on the left, {right} on the right. "
            f"Backward gives slope {claim}."
        )
    found = by_differences(position)
    if position.verdict == "surrogate":
        return f"◇ Forward is flat at {at}, but backward gives slope {claim}: {_IF_MEANT}."
    verb = "✓ The slopes agree" if position.verdict == "agree" else "✗ The slopes differ"
    return f"{verb} at {at}: {claim} from backward, {found} from finite differences."


def _without_gradient(position: Position) -> str:
    returned = slope(position.run.gradient or 0.0) if position.run else "none"
    if position.verdict == "agree":
        return "✓ grad_output is 0, so backward must return 0, and it does."
    return (
        f"✗ grad_output is 0, but backward returned {returned}. "
        "Backward is linear in grad_output, so it must return 0."
    )


def sent_back(position: Position, grad_output: float) -> str:
    """Describe the gradients that backward received and returned, and the slope."""
    run, g = position.run, number(grad_output)
    if run is None:
        return "forward raised, so backward does not run"
    if position.failure:
        return f"grad_output ∂ {g} → backward → raised"
    chain = f"grad_output ∂ {g} → backward → ∂ {run.returned}"
    if position.slope is None or run.gradient is None or grad_output == 1:
        return chain
    return f"{chain}; slope = {slope(run.gradient)} / {g} = {slope(position.slope)}"


def overview(sweep: Sweep) -> str:
    """Summarize the comparison of both slopes over the range of x."""
    first, last = sweep.positions[0].x, sweep.positions[-1].x
    parts = [
        *_regions(sweep, "differ", "✗ the slopes differ"),
        *_regions(sweep, "surrogate", "◇ backward is not the derivative"),
        *_regions(sweep, "kink", "◇ kink"),
        *_regions(sweep, "jump", "◇ jump"),
        *_regions(sweep, "steep", "◇ infinitely steep"),
        *_regions(sweep, "open", "not comparable"),
    ]
    if any(position.verdict == "surrogate" for position in sweep.positions):
        parts.append(f"forward is a step function: {_IF_MEANT}")
    elif not any(position.verdict == "differ" for position in sweep.positions):
        some = any(position.verdict == "agree" for position in sweep.positions)
        parts.insert(0, "✓ the slopes agree" if some else "nothing to compare")
    return f"For {sweep.variable} from {number(first)} to {number(last)}: {'; '.join(parts)}."


def _regions(sweep: Sweep, verdict: Verdict, words: str) -> Iterator[str]:
    regions = spans_of(sweep.positions, verdict)
    if len(regions) > _MOST_REGIONS:
        count = sum(position.verdict == verdict for position in sweep.positions)
        yield f"{words} at {count} of {len(sweep.positions)} points"
    elif regions:
        yield f"{words} {' and '.join(_region(*region) for region in regions)}"


def _region(low: float, high: float) -> str:
    if low == high:
        return f"at {number(low)}"
    return f"from {number(low)} to {number(high)}"


def spans_of(positions: Sequence[Position], verdict: Verdict) -> list[tuple[float, float]]:
    """Return the first and last x of each interval that has this verdict."""
    stretches = groupby(positions, lambda position: position.verdict == verdict)
    found = [[position.x for position in stretch] for same, stretch in stretches if same]
    return [(stretch[0], stretch[-1]) for stretch in found]


def called(sweep: Sweep, x: float) -> str:
    """Format the call: the function's name, x, and the parameters."""
    given = [(sweep.variable, x), *sweep.parameters]
    return f"{sweep.name}({', '.join(f'{name} = {number(value)}' for name, value in given)})"


def noted(steps: Sequence[Step]) -> dict[int, str]:
    """For each line that ran, return its last effect, and how often it ran if it is in a loop."""
    found: dict[int, str] = {}
    for row in dict.fromkeys(step.row for step in steps):
        notes = [step.note for step in steps if step.row == row]
        last = next((note for note in reversed(notes) if note), "")
        found[row] = f"{last} ({len(notes)} times)" if len(notes) > 1 else last
    return found


def held(kept: Kept) -> str:
    """Format the name, value and role of something that ctx stores."""
    return f"{kept.name} = {kept.text} ({kept.what})"


def describe(sweep: Sweep, source: Listing, index: int) -> str:
    """Describe the picture in plain text."""
    position = sweep.positions[index]
    notes = noted(position.steps)
    lines = [f"Function lab: {called(sweep, position.x)}"]
    if position.run:
        lines.append(f"forward returns {number(position.run.y)}")
    lines += [f"  {row}" for row in _annotated(source, notes)]
    if position.run and source.own:
        kept = [held(one) for one in position.run.kept]
        lines.append("ctx stores " + ("; ".join(kept) or "nothing"))
    lines.append(sent_back(position, sweep.grad_output))
    return "\n".join([*lines, judged(position, sweep.variable), overview(sweep)])


def _annotated(source: Listing, notes: dict[int, str]) -> Iterator[str]:
    for part in source.parts:
        for index, row in enumerate(part.rows, part.first):
            yield f"{row}  # {notes[index]}" if notes.get(index) else row
    for heading in source.missing:
        yield f"{heading}: its source is not available"
