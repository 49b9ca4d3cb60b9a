"""The two pages of a review: the table of all scores, and the page for one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.protocol.evidence import REPAIR
from autograd_classroom.reports.pages.code import highlighted
from autograd_classroom.reports.pages.feedback import MARKS, part
from autograd_classroom.reports.pages.rendering import rendered
from autograd_classroom.reports.wording import names
from autograd_classroom.review.order import FILTERS, Cell, Matrix


@dataclass(frozen=True)
class Form:
    """The values in the form: the stored values, or rejected values that the user typed."""

    points: str
    comment: str
    problem: str = ""


def matrix_page(book: Gradebook, root: str, show: str) -> str:
    """Return the page with a table of students and exercises. Each score links to its answer."""
    matrix = Matrix.of(book)
    wanted = matrix.wanted(show)
    shown = {student for student, _ in wanted}
    everybody = show == "all"
    page = rendered(
        "matrix.html",
        matrix=matrix,
        students=[s for s in matrix.students if everybody or s in shown],
        exercises=matrix.exercises,
        wanted=len(wanted),
        first=wanted[0] if wanted else None,
        marks=MARKS,
        everybody=everybody,
        **_about(root, show),
    )
    return "".join(page)


def answer_page(book: Gradebook, root: str, cell: Cell, show: str, form: Form | None = None) -> str:
    """Return the page for one answer.

    Raises SettlingError if the student or the exercise is unknown.
    """
    score = book.score_of(*cell)
    before, after = Matrix.of(book).around(cell, show)
    events = book.history(*cell)
    earlier = dict.fromkeys(event.hash for event in events if event.hash not in ("", score.hash))
    settled = score.settlement
    stored = Form(f"{settled.points:g}", settled.comment) if settled else Form("", "")
    page = rendered(
        "review.html",
        reviewing=True,
        late=(),
        name=names(book).get(score.student, score.student),
        score=score,
        part=part(book, score),
        repair=(score.evidence.get(REPAIR) or {}).get("summary", ""),
        problems=book.problems(cell[0]) if not score.hash else (),
        events=list(reversed(events)),
        earlier=[(digest, highlighted(book.code(digest)[2])) for digest in reversed(earlier)],
        before=before,
        after=after,
        form=form or stored,
        action=address(root, cell, show, "settle"),
        **_about(root, show),
    )
    return "".join(page)


def address(root: str, cell: Cell, show: str, place: str = "answer") -> str:
    """Return the URL of an answer's page. With ``place="settle"``, the URL stores the points."""
    student, exercise = cell
    return f"{root}{place}?{urlencode({'student': student, 'exercise': exercise, 'show': show})}"


def _about(root: str, show: str) -> dict[str, object]:
    to: Callable[[Cell], str] = lambda cell: address(root, cell, show)  # noqa: E731
    return {"root": root, "show": show, "filters": FILTERS, "to": to}
