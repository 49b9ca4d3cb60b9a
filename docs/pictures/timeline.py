"""When what is seen, as CSS: the animation of a drawing that is complete without it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FADE, RESET = 0.3, 0.5  # seconds: of a change, and of all that lasts to the end of the loop
Window = tuple[float, float]


@dataclass(frozen=True)
class Change:
    """What a selector's elements look like outside and inside some windows of time, in seconds.

    ``over`` is how long it takes, from a window's begin, to get in.
    """

    selector: str
    outside: str
    inside: str
    windows: Sequence[Window]
    over: float = FADE


def css(changes: Iterable[Change], seconds: float) -> str:
    """Return the style sheet of a loop; who asked for less motion sees none of it."""
    rules = "".join(_rule(change, f"t{n}", seconds) for n, change in enumerate(changes))
    return f"@media (prefers-reduced-motion: no-preference){{{rules}}}"


def _rule(change: Change, name: str, seconds: float) -> str:
    moments = [(0.0, change.outside), *_moments(change, seconds), (seconds, change.outside)]
    stops = "".join(f"{100 * at / seconds:.4g}%{{{look}}}" for at, look in moments)
    frames = f"@keyframes {name}{{{stops}}}"
    return f"{frames}{change.selector}{{animation:{name} {seconds:g}s linear infinite}}"


def _moments(change: Change, seconds: float) -> Iterator[tuple[float, str]]:
    """Yield when a change begins or is complete; what lasts to the end goes out with the loop."""
    for begin, end in change.windows:
        yield begin, change.outside
        yield begin + change.over, change.inside
        if end < seconds:
            yield end - FADE, change.inside
            yield end, change.outside
        else:
            yield seconds - RESET, change.inside
