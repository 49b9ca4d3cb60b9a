"""How large a gradient is beside the loss's own, as a mark to draw and as a word.

Its measure is the Euclidean norm divided by the norm of the gradient at the loss, which is 1 for a
scalar loss. A gradient *vanishes* below a millionth (``VANISHING``), where float32 parameters of
ordinary size no longer move, and *explodes* above ten thousand (``EXPLODING``), where one step
of an ordinary learning rate throws them away. Zero and nan or infinity are told apart from both.
"""

import math

from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.kit.formatting import Summary, number

VANISHING, EXPLODING = 1e-6, 1e4
_LEAST, _MOST = 1e-8, 1e2  # drawn from nothing to full length, logarithmically
_THIN, _THICK = 1.0, 4.0  # pixels of an edge
LOOKS = {"+": "plus", "-": "minus", "±": "mixed", "0": "zero", "!": "broken"}


def mark(gradient: Summary | None, unit: float) -> str:
    """Write sign and length, in percent: ``+80`` is a positive gradient as large as the loss's."""
    if not isinstance(gradient, Reading) or gradient.sign == "0":
        return "0"
    if gradient.sign == "!":
        return "!100"
    share = math.log(max(gradient.norm / unit, _LEAST) / _LEAST) / math.log(_MOST / _LEAST)
    return f"{gradient.sign}{round(100 * min(1.0, share))}"


def length(written: str) -> float:
    """Return the length of a mark, from 0 to 1."""
    return int(written[1:] or 0) / 100


def look(written: str) -> str:
    """Return the name of a mark's look."""
    return LOOKS[written[0]]


def thickness(written: str) -> float:
    """Return how thick an edge with this mark is drawn, in pixels."""
    return round(_THIN + (_THICK - _THIN) * length(written), 2)


def flag(gradient: Summary | None, unit: float) -> str:
    """Name what is wrong with a gradient's size in a word or two, or nothing."""
    if not isinstance(gradient, Reading):
        return ""
    if gradient.sign == "!":
        return "✕ nan or inf"
    share = gradient.norm / unit
    if share > EXPLODING:
        return "▲ exploding"
    return "▼ vanishing" if 0 < share < VANISHING else ""


def size(gradient: Summary | None, unit: float) -> str:
    """Tell in a phrase how large a gradient is beside the loss's."""
    if gradient is None:
        return "no gradient arrives: nothing before it learns from this path"
    if not isinstance(gradient, Reading):
        return "unknown"
    if gradient.sign == "!":
        things = f"{gradient.broken} element{'s' * (gradient.broken != 1)}"
        return f"{things} nan or infinite: whatever it is added to is spoiled"
    if gradient.sign == "0":
        return "zero in every element: nothing before it learns from this path"
    told = f"|∂| is {number(gradient.norm / unit, 3)} × the loss's"
    word = flag(gradient, unit)
    return f"{told}: {word[2:]}" if word else told
