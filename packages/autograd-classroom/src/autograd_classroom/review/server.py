"""A small web server for the review pages. A secret token in each address protects them.

The server listens only on 127.0.0.1. Each request must name this address as its host and must
contain the token. A request that changes points must also come from one of the review pages.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from autograd_classroom.gradebook import Gradebook, GradebookError
from autograd_classroom.gradebook.opening import GradebookInUseError
from autograd_classroom.gradebook.settling import ChangedMeanwhileError, SettlingError, total_from
from autograd_classroom.reports.pages.rendering import rendered
from autograd_classroom.review.order import FILTERS, Cell, Matrix
from autograd_classroom.review.pages import Form, address, answer_page, matrix_page


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Open a secret address in the browser, using a private file that redirects to it.

    All users of the machine can see the browser's command line, but it contains only the name of
    this file. The context manager deletes the file on exit.
    """
    with tempfile.TemporaryDirectory(prefix="autograd-course-") as folder:
        page = Path(folder) / "review.html"
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={url}">', "utf-8"
        )
        webbrowser.open(page.as_uri())
        yield


HOST = "127.0.0.1"
_LARGEST = 1 << 18  # maximum size of a form in bytes; each character can take up 12 bytes
_DIGITS = 20  # maximum length of a form's size; Python does not convert thousands of digits
_PATIENCE = 30.0  # seconds to wait for a request
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # a link to another site does not reveal the token
    "X-Content-Type-Options": "nosniff",
}


class Review(ThreadingHTTPServer):
    """The server for one gradebook. ``url`` is the address with the token."""

    daemon_threads = True

    def __init__(self, gradebook: Path, by: str, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.gradebook, self.by = gradebook, by
        self.token = secrets.token_urlsafe(24)
        self.authority = f"{HOST}:{self.server_address[1]}"
        self.root = f"/{self.token}/"
        self.url = f"http://{self.authority}{self.root}"

    def server_bind(self) -> None:
        """Bind to the address without looking up the name of this machine."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that closes the connection before it has read the page."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _RefusedError(Exception):
    """Raised when the server refuses a request."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Review
    server_version = "autograd-course"
    sys_version = ""
    timeout = _PATIENCE

    _typed = ""  # the comment in the form, which must not get lost

    def do_GET(self) -> None:  # http.server requires this name
        """Show the table of scores or one answer."""
        with self._answering():
            place, cell, show = self._asked()
            if place not in ("", "answer"):
                raise _RefusedError(HTTPStatus.NOT_FOUND)
            with Gradebook.existing(self.server.gradebook) as book:
                root = self.server.root
                self._send(
                    answer_page(book, root, cell, show) if place else matrix_page(book, root, show)
                )

    def do_POST(self) -> None:
        """Store or remove the points for an answer. If this fails, show the reason."""
        with self._answering():
            place, cell, show = self._asked()
            form = self._form()
            self._typed = form.get("comment", "")
            if place != "settle":
                raise _RefusedError(HTTPStatus.NOT_FOUND)
            with Gradebook.existing(self.server.gradebook) as book:
                self._settle(book, cell, show, form)

    def _settle(self, book: Gradebook, cell: Cell, show: str, form: dict[str, str]) -> None:
        what, typed = form.get("do", "save"), form.get("points", "").strip()
        comment, root = form.get("comment", ""), self.server.root
        book.score_of(*cell)
        try:
            points = None if what == "withdraw" else total_from(typed)
            book.settle(*cell, points, comment, self.server.by, seen=form.get("seen", ""))
        except SettlingError as error:
            changed = isinstance(error, ChangedMeanwhileError)
            status = HTTPStatus.CONFLICT if changed else HTTPStatus.BAD_REQUEST
            advice = " What you typed is still in the form." if changed else ""
            again = Form(typed, comment, f"{error}{advice}")
            self._send(answer_page(book, root, cell, show, again), status)
            return
        place = address(root, cell, show)
        if what == "next":
            _, after = Matrix.of(book).around(cell, show)
            place = address(root, after, show) if after else f"{root}?show={show}"
        self._headers(HTTPStatus.SEE_OTHER, {"Location": place})

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Respond to an invalid request with an error message."""
        try:
            yield
        except _RefusedError as refused:
            self._send(f"<!doctype html><title>{refused}</title><p>{refused}", refused.status)
        except GradebookError as error:
            in_use = isinstance(error, GradebookInUseError)
            status = HTTPStatus.SERVICE_UNAVAILABLE if in_use else HTTPStatus.NOT_FOUND
            self._send(_sentence(error, self._typed), status)

    def _asked(self) -> tuple[str, Cell, str]:
        """Return the path after the token, the requested answer, and the name of the filter.

        Raises _RefusedError if the host or the token is incorrect.
        """
        if self.headers.get("Host") != self.server.authority:
            raise _RefusedError(HTTPStatus.MISDIRECTED_REQUEST)
        try:
            parts = urlsplit(self.path)
        except ValueError:
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from None
        token, _, place = parts.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            raise _RefusedError(HTTPStatus.FORBIDDEN)
        asked = _fields(parts.query)
        show = asked.get("show", "all")
        cell = asked.get("student", ""), asked.get("exercise", "")
        return place, cell, show if show in FILTERS else "all"

    def _form(self) -> dict[str, str]:
        """Return the submitted form.

        Raises _RefusedError if the form is too large or does not come from a review page.
        """
        if self.headers.get("Origin") != f"http://{self.server.authority}":
            raise _RefusedError(HTTPStatus.FORBIDDEN)
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED)
        if len(length) > _DIGITS or int(length) > _LARGEST:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return _fields(self.rfile.read(int(length)).decode("ascii", "replace"))

    def _send(self, page: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = page.encode()
        self._headers(status, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _headers(self, status: HTTPStatus, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | more).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing, because addresses contain the token."""


def _fields(text: str) -> dict[str, str]:
    try:
        return {
            k: v[0] for k, v in parse_qs(text, keep_blank_values=True, max_num_fields=20).items()
        }
    except ValueError:
        raise _RefusedError(HTTPStatus.BAD_REQUEST) from None


def _sentence(error: GradebookError, typed: str) -> str:
    return "".join(rendered("sentence.html", sentence=str(error), typed=typed))
