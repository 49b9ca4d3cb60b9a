"""How estimators are told apart in the picture: by color and by dashes. The page has the same.

The colors are five of the kit's: soft, gradient, custom, right and rim. Of all fives of its style
sheet these stay furthest apart where a reader sees no red, no green or no blue.
"""

from typing import Any

INK, PAPER, FAINT, GRAY = "#22262b", "#ffffff", "#d9dce1", "#878f9a"
_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#5b636e", "linestyle": (0, (1, 1.6))},
    {"color": "#ad4300", "linestyle": (0, (6, 1.6))},
    {"color": "#7a3b8f", "linestyle": "-"},
    {"color": "#00724f", "linestyle": (0, (5, 1.5, 1, 1.5))},
    {"color": "#878f9a", "linestyle": (0, (2.5, 1.2))},
)
CLASSES = ("#a9cfea", "#f6c49f")  # the ground where a net says class 0, class 1


def look(i: int) -> dict[str, Any]:
    """Return the look of the estimator number ``i``."""
    return _LOOKS[i % len(_LOOKS)]
