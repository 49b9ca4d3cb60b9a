"""Sentences that several reports use."""

from __future__ import annotations

from collections import Counter

from autograd_classroom.gradebook import Gradebook, Settlement
from autograd_classroom.gradebook.roster import Person

CHANGED = "The code has changed since."


def out_of(points: float, possible: float) -> str:
    """Return the points and the possible points, as in ``0.5 of 1 point``."""
    return f"{points:g} of {possible:g} {'point' if possible == 1 else 'points'}"


def by_hand(settlement: Settlement) -> str:
    """Return a sentence with the comment, the date, and the person who set the points."""
    comment = f": {settlement.comment}" if settlement.comment else "."
    changed = f" {CHANGED}" if settlement.changed else ""
    return f"Settled by {settlement.by} on {settlement.at[:10]}{comment}{changed}"


def names(book: Gradebook) -> dict[str | Person, str]:
    """Map each student in the gradebook, and each absent person, to the name to show.

    If several have the same name, add the id or, without an id, what else tells them apart.
    """
    people = book.people()
    known: dict[str | Person, Person] = {
        student: people.get(student, Person(student)) for student in book.students()
    }
    known |= {person: person for person in book.absent()}
    shared = Counter(person.label for person in known.values())
    return {
        key: who.label if shared[who.label] == 1 else f"{who.label} ({_apart(key, who)})"
        for key, who in known.items()
    }


def _apart(key: str | Person, who: Person) -> str:
    return who.id or (key if isinstance(key, str) else who.login or who.email or who.site)
