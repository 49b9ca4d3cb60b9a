"""The class roster. It identifies the students and links them to their submissions.

A roster is a CSV file with one row per student. The columns can have the names from a Canvas or
Moodle gradebook export, or simple names such as ``name,id,email,group``.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from autograd_classroom.gradebook.opening import GradebookError

_HEADERS = {
    "name": ("name", "full name", "student", "student name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "lastname", "surname", "family name"),
    "id": ("id number", "sis user id", "student id", "student number", "id", "sid"),
    "site": ("id",),  # Canvas's own id, which differs from the "SIS User ID"
    "login": ("username", "user name", "login", "sis login id", "login id"),
    "email": ("email address", "email", "e-mail", "e-mail address", "mail"),
    "group": ("group", "groups", "section", "sections"),
}
_NUMBERED = re.compile(r"(?P<name>.+)_(?P<number>\d+)")  # a name from Moodle, Canvas or Gradescope


class RosterError(GradebookError):
    """Raised when a roster cannot be used. The message is a single sentence."""


@dataclass(frozen=True)
class Person:
    """A student on the roster. ``site`` is the student's account number on a course site."""

    name: str = ""
    id: str = ""
    login: str = ""
    email: str = ""
    group: str = ""
    site: str = ""

    @property
    def label(self) -> str:
        """Return the student's display name."""
        return self.name or self.login or self.email or self.id

    def words(self) -> Iterator[str]:
        """Yield the names under which the student may have submitted files."""
        last, comma, first = self.name.partition(",")
        flipped = (
            f"{first} {last}"
            if comma
            else " ".join(self.name.split()[-1:] + self.name.split()[:-1])
        )
        known = (self.id, self.site, self.login, self.email, self.email.partition("@")[0])
        yield from filter(None, map(_folded, (*known, self.name, flipped)))


Roster = tuple[Person, ...]


def from_file(path: Path) -> Roster:
    """Read a roster from a CSV file. Raises RosterError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RosterError(f"{path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise RosterError(f"{path} is not UTF-8 text: save it as CSV UTF-8.") from None
    try:
        return _people(text)
    except RosterError as error:
        raise RosterError(f"{path}: {error}") from None


def _people(text: str) -> Roster:
    first = text.partition("\n")[0]
    delimiter = max((",", ";", "\t"), key=first.count)
    rows = list(_rows(text, delimiter))
    if not rows:
        raise RosterError("it is empty: give it a row of column names and a row for each student.")
    header = rows[0][1]
    columns = _columns(header)
    if len(rows) == 1:
        raise RosterError("it names no students: give each of them a row below the column names.")
    people: list[tuple[int, Person]] = []
    for line, row in rows[1:]:
        if any(row[len(header) :]):
            raise RosterError(
                f"line {line} has {len(row)} fields, but there are {len(header)} column names: put "
                f'a field that contains "{delimiter}" in quotes.'
            )
        found = {what: row[at].strip() if at < len(row) else "" for what, at in columns.items()}
        if any("\n" in value for value in found.values()):
            raise RosterError(f"line {line} has a field with a line break: check its quotes.")
        first, last = found.pop("first", ""), found.pop("last", "")
        found["name"] = found.get("name") or f"{first} {last}".strip()
        person = Person(**found)
        if not person.label:
            raise RosterError(
                f"line {line} has no name, no id and no e-mail address: add one of them."
            )
        if "Points Possible" not in person.name:  # the second row of a Canvas export
            people.append((line, person))
    _refuse_duplicates(people)
    return tuple(person for _, person in people)


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty, with the number of its first line. Raises RosterError."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if any(row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error:
        raise RosterError(
            f"line {line} has a quote at one end of a field: put one at both ends, or at neither."
        ) from None


def _columns(header: Sequence[str]) -> dict[str, int]:
    names = [name.strip().casefold() for name in header]
    found = {
        what: next((names.index(name) for name in known if name in names), -1)
        for what, known in _HEADERS.items()
    }
    if found["site"] == found["id"]:
        found["site"] = -1
    if all(found[what] < 0 for what in ("name", "first", "last", "id", "login", "email")):
        raise RosterError(
            "no column is called name, id, login or email: the first row has to name the columns."
        )
    for at in found.values():
        if at >= 0 and names.count(names[at]) > 1:
            raise RosterError(f"two columns are called {names[at]}: keep one of them.")
    return {what: at for what, at in found.items() if at >= 0}


def _refuse_duplicates(people: Iterable[tuple[int, Person]]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for line, person in people:
        unique = [(what, getattr(person, what)) for what in ("id", "site", "login", "email")]
        given = [(what, value) for what, value in unique if value] or [("name", person.name)]
        for what, value in given:
            if (before := seen.setdefault((what, value.casefold()), line)) != line:
                fix = (
                    "give each of the students an id of their own in a column called id."
                    if what == "name"
                    else f"give each student a single line and a different {what}."
                )
                raise RosterError(f"lines {before} and {line} have the {what} {value}: {fix}")


def matched(students: Iterable[str], roster: Roster, own: Container[str] = ()) -> dict[str, Person]:
    """Map each student in the gradebook to the matching person on the roster.

    Omit students without a unique match. For a name with a number, such as ``Ann B_123``, the name
    takes precedence over the number, because sites such as Moodle use numbers of their own. Omit
    the students in :func:`conflicting`. ``own`` contains the students whose files no site named.
    """
    found = _found(students, roster)
    return {student: who for student, who, fits in found if fits or student in own}


def conflicting(
    students: Iterable[str], roster: Roster, own: Container[str] = ()
) -> dict[str, Person]:
    """Map each student to the person on the roster who has the same number but a different name."""
    found = _found(students, roster)
    return {student: who for student, who, fits in found if not fits and student not in own}


def _found(students: Iterable[str], roster: Roster) -> Iterator[tuple[str, Person, bool]]:
    """Yield each student, the person with the name or the number, and whether the names fit."""
    owners: defaultdict[str, set[Person]] = defaultdict(set)
    for person in roster:
        for key in person.words():
            owners[key].add(person)
    for student in students:
        match = _NUMBERED.fullmatch(student)
        name, number = match.groups() if match else (student, "")
        head, _, tail = student.rpartition("_")
        if not match and owners.get(_folded(head), set()) & owners.get(_folded(tail), set()):
            name, number = head, _folded(tail)  # the site's number contains letters
        named = owners.get(_folded(student)) or owners.get(_folded(name), set())
        numbered = owners.get(number, set())
        if len(named) == 1 == len(numbered) and named != numbered and _is_joined(name):
            (person,) = numbered
            yield student, person, False  # on Canvas, the number is the student's own
        elif len(named) == 1:
            (person,) = named
            yield student, person, True
        elif len(numbered) == 1:
            (person,) = numbered
            yield student, person, person in named if named else _shares_a_word(name, person)


def _shares_a_word(name: str, person: Person) -> bool:
    """Return whether a name and a person's name share a word, or the person has no name.

    Canvas writes a name in lowercase and without spaces, so all words must be somewhere in it.
    """
    words = list(_split(person.name))
    if _is_joined(name):
        return all(word in _folded(name) for word in words)
    return not words or not set(words).isdisjoint(_split(name))


def _is_joined(name: str) -> bool:
    """Return whether a name is in the form of Canvas, such as ``boellann``."""
    return name.islower() and " " not in name


def _split(name: str) -> Iterator[str]:
    """Yield the words of a name without the initials."""
    words = map(_folded, re.split(r"[\s,.-]+", name))
    return (word for word in words if word and (len(word) > 1 or not word.isascii()))


def _folded(text: str) -> str:
    """Return a name in lowercase without accents, spaces or punctuation, as Canvas writes it."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in letters if c.isalnum())


def as_text(roster: Roster) -> str:
    """Convert a roster to the format that the gradebook stores."""
    return json.dumps([asdict(person) for person in roster])


def from_text(data: Any) -> Roster:
    """Parse a stored roster, and omit invalid entries."""
    names = {field.name for field in fields(Person)}
    rows = data if isinstance(data, list) else []
    return tuple(
        Person(**{k: v for k, v in row.items() if k in names and isinstance(v, str)})
        for row in rows
        if isinstance(row, dict)
    )
