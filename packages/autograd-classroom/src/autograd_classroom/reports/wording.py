"""Sentences that several reports use."""

from __future__ import annotations

from autograd_classroom.gradebook import Settlement

CHANGED = "The code has changed since."


def out_of(points: float, possible: float) -> str:
    """Return the points and the possible points, as in ``0.5 of 1 point``."""
    return f"{points:g} of {possible:g} {'point' if possible == 1 else 'points'}"


def by_hand(settlement: Settlement) -> str:
    """Return a sentence with the comment, the date, and the person who set the points."""
    comment = f": {settlement.comment}" if settlement.comment else "."
    changed = f" {CHANGED}" if settlement.changed else ""
    return f"Settled by {settlement.by} on {settlement.at[:10]}{comment}{changed}"
