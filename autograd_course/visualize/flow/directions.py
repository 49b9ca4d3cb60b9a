"""The two ways to draw a graph: from left to right, and from top to bottom.

A drawing is computed in two coordinates: *along* its flow, where rank follows rank, and *across*
it, where the places of one rank stand side by side. Only here it is known which of them is x.
"""

from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True)
class Flow:
    """A direction, and the distances in pixels that it needs.

    ``gap`` is the distance of two ranks without labels, ``beside`` that of a card from its
    neighbor in the rank. Edges arrive in the middle ``ports`` of a card's side, 1 being all of it.
    ``badge`` is where a custom Function's badge is centered on its card's upper rim, from 0 to 1.
    """

    downward: bool
    gap: float
    beside: float
    ports: float
    badge: float

    def turned(self, first: float, second: float) -> Point:
        """Turn (x, y) into (along, across), or (along, across) into (x, y)."""
        return (second, first) if self.downward else (first, second)


RIGHT = Flow(downward=False, gap=40.0, beside=22.0, ports=0.6, badge=0.5)
# Edges arrive at the upper rim here: the badge makes room for them.
DOWN = Flow(downward=True, gap=38.0, beside=34.0, ports=0.45, badge=1.0)
