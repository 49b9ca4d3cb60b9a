"""Animate a drawing with CSS. Without the animation, the drawing is complete."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FADE, RESET = 0.3, 0.5  # seconds: of a transition, and of the reset at the end of the loop
Window = tuple[float, float]


@dataclass(frozen=True)
class Change:
    """The styles of a selector's elements outside and inside some windows of time, in seconds.

    ``over`` is the duration of the transition that begins with a window.
    """

    selector: str
    outside: str
    inside: str
    windows: Sequence[Window]
    over: float = FADE


def css(changes: Iterable[Change], seconds: float) -> str:
    """Return the style sheet of a loop. Readers who prefer reduced motion see no animation."""
    rules = "".join(_rule(change, f"t{n}", seconds) for n, change in enumerate(changes))
    return f"@media (prefers-reduced-motion: no-preference){{{rules}}}"


def _rule(change: Change, name: str, seconds: float) -> str:
    moments = [(0.0, change.outside), *_moments(change, seconds), (seconds, change.outside)]
    stops = "".join(f"{100 * at / seconds:.4g}%{{{look}}}" for at, look in moments)
    frames = f"@keyframes {name}{{{stops}}}"
    return f"{frames}{change.selector}{{animation:{name} {seconds:g}s linear infinite}}"


def _moments(change: Change, seconds: float) -> Iterator[tuple[float, str]]:
    """Yield the times at which a transition begins or ends, each with the style at this time.

    A change that lasts to the end of the loop ends with the loop.
    """
    for begin, end in change.windows:
        yield begin, change.outside
        yield begin + change.over, change.inside
        if end < seconds:
            yield end - FADE, change.inside
            yield end, change.outside
        else:
            yield seconds - RESET, change.inside
