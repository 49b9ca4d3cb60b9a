"""Sampled functions as the few points that draw them: broken where they jump."""

from collections.abc import Sequence

Curve = tuple[tuple[float, float | None], ...]
_EVERY = 5  # of the samples are enough where a function bends gently
_BEND = 0.02  # a change of the difference between neighbors that every sample is kept for


def drawn(xs: Sequence[float], ys: Sequence[float], jump: float = 0.2) -> Curve:
    """Return points of a curve through finite samples; ``None`` for y lifts the pen.

    Neighbors that differ by more than ``jump`` stand on the two sides of a jump.
    """
    points: list[tuple[float, float | None]] = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        jumped = i > 0 and abs(y - ys[i - 1]) > jump
        if jumped:
            points.append((round(x, 4), None))
        if jumped or _needed(i, ys):
            points.append((round(x, 4), float(f"{y:.4g}")))
    return tuple(points)


def _needed(i: int, ys: Sequence[float]) -> bool:
    """Whether a sample is an end, stands at a corner, or is one of some where the line bends."""
    if i in (0, len(ys) - 1):
        return True
    before, y, after = ys[i - 1 : i + 2]
    bend = abs(after - 2 * y + before)
    return bend > _BEND or (i % _EVERY == 0 and bend > 1e-9)
