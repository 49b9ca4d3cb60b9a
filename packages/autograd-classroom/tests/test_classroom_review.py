"""The review page: what it shows and stores, and who may use it. Some tests use a real browser."""

from __future__ import annotations

import http.client
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from autograd_classroom.gradebook import Gradebook, Score, opening
from autograd_classroom.gradebook.roster import Person
from autograd_classroom.ingest import Rejected
from autograd_classroom.pictures import PICTURE, as_data
from autograd_classroom.reports import files
from autograd_classroom.reports.pages import feedback_name
from autograd_classroom.review import Review
from barepage import running_browser
from playwright.sync_api import Browser, expect
from repository import ROOT
from test_classroom_pages import EXERCISES, HALF, HOSTILE, PAIR, WITNESS, Page, handed_in, wrong

pytestmark = pytest.mark.slow

SQUARE, SIGMOID, SUM, POLAR = (exercise.id for exercise in EXERCISES)
REMARKS = ("imports os (line 1)", "it reaches sys (line 2)")
NASTY = "".join(HOSTILE[:-1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ann's answers have all statuses. The answers of bob and of a hostile student are wrong."""
    path = tmp_path / "grades.sqlite"
    with Gradebook(path) as book:
        run = book.begin(EXERCISES, "1")
        for answer in handed_in(book, "ann", "# an earlier try\n" + HALF):
            book.record(run, wrong(answer, rule="flipped-sign"))
        first, second, third, _ = handed_in(book, "ann", HALF)
        evidence = {**WITNESS, PICTURE: as_data(PAIR)}
        book.record(run, wrong(first, evidence=evidence, remarks=REMARKS))
        book.record(run, Score("ann", second.exercise, "passed", 2.0, hash=second.hash))
        book.record(run, Score("ann", third.exercise, "grader failed", 0.0, message="It fell over.",
                               hash=third.hash))  # fmt: skip
        for student in ("bob", NASTY):
            for answer in handed_in(book, student, f'"""{NASTY}"""'):
                book.record(run, wrong(answer, message=NASTY, remarks=(NASTY,)))
        book.reject(Rejected("eve", f"eve{NASTY}.zip", "the zip is broken"))
    return path


@contextmanager
def serving(path: Path) -> Iterator[Review]:
    with Review(path, "Dr. Who") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server(path: Path) -> Iterator[Review]:
    with serving(path) as running:
        yield running


Reply = tuple[int, str, dict[str, str]]


def ask(server: Review, place: str, form: dict[str, str] | None = None, **headers: str) -> Reply:
    """Send a request as the server's own pages do, unless other headers are given."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    usual = {"Host": server.authority}
    if form is not None:
        usual |= {
            "Origin": f"http://{server.authority}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
    body = None if form is None else urlencode(form)
    sent = {name: value for name, value in (usual | headers).items() if value}
    connection.request("GET" if form is None else "POST", place, body, sent)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text, dict(reply.getheaders())


def answer(server: Review, student: str, exercise: str, show: str = "all") -> str:
    asked = urlencode({"student": student, "exercise": exercise, "show": show})
    status, page, _ = ask(server, f"{server.root}answer?{asked}")
    assert status == 200
    return page


def stamp(page: str) -> str:
    return page.partition('name="seen" value="')[2].partition('"')[0]


def typed(server: Review, **more: str) -> dict[str, str]:
    """Return the form for ann's first answer, filled in."""
    seen = stamp(answer(server, "ann", SQUARE))
    return {"seen": seen, "points": "0.5", "comment": "Nearly.", "do": "next"} | more


def send(server: Review, form: dict[str, str], **headers: str) -> Reply:
    """Send the form for ann's first answer."""
    place = f"{server.root}settle?{urlencode({'student': 'ann', 'exercise': SQUARE})}"
    return ask(server, place, form, **headers)


def points(path: Path, student: str = "ann", exercise: str = SQUARE) -> float | None:
    with Gradebook(path) as book:
        settled = book.score_of(student, exercise).settlement
    return settled.points if settled else None


# What the page shows


def test_the_matrix_links_each_answer(server: Review) -> None:
    _, text, _ = ask(server, server.root)
    page = Page(text)
    linked = [parse_qs(urlsplit(link).query) for link in page.links if "answer?" in link]

    cells = [(link["student"][0], link["exercise"][0]) for link in linked]
    assert len(set(cells)) == 4 * len(EXERCISES), "eve has no answers, and may be given points"
    assert ("eve", SQUARE) in cells
    assert not page.tags["script"]


@pytest.mark.parametrize(
    ("show", "count"),
    [("all", 16), ("not-passed", 12), ("not-settled", 10), ("not-attempted", 3), ("nonsense", 16)],
)
def test_a_filter_leads_from_one_answer_to_the_next(
    path: Path, server: Review, show: str, count: int
) -> None:
    with Gradebook(path) as book:
        book.settle("bob", SQUARE, 0.5, "", "me")
        run = book.begin(EXERCISES, "1", resume=True)
        for answer in handed_in(book, "dan", "the empty template"):
            book.record(run, Score("dan", answer.exercise, "not attempted", 0.0, hash=answer.hash))
        book.settle("dan", POLAR, 0.5, "An oral exam.", "me")
    _, text, _ = ask(server, f"{server.root}?show={show}")
    seen = []
    place = text.partition('class="go" href="')[2].partition('"')[0].replace("&amp;", "&")
    while place:
        seen.append(place)
        text = ask(server, place)[1]
        place = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")

    assert len(set(seen)) == len(seen) == count
    assert text.count('rel="prev"') == 1


def test_an_answer_is_shown_with_all_that_a_decision_needs(server: Review) -> None:
    page = answer(server, "ann", SQUARE)
    shown = " ".join(Page(page).text.split())

    for part in (
        "constant-factor", "Too small.", "Code", "The code imports os (line 1).",
        "The code reaches sys (line 2).",
        "The student wrote x instead of 2 * x", "Without this mistake, the answer is right.",
        "History",
        "wrong, flipped-sign (earlier code", "Earlier code", "an earlier try", "of 1",
    ):  # fmt: skip
        assert part in shown, part
    assert "data:image" in page, "the Jacobians are drawn"
    assert "The grader failed: It fell over." in Page(answer(server, "ann", SUM)).text


def test_a_page_without_an_answer_says_so(server: Review, path: Path) -> None:
    assert "The student has not answered this exercise." in answer(server, "eve", SQUARE)
    with Gradebook(path) as book:
        handed_in(book, "dan", HALF)
    assert "This answer is not graded yet." in answer(server, "dan", SQUARE)


@pytest.mark.parametrize("student", [NASTY, "eve"])
def test_nothing_that_was_handed_in_becomes_html(server: Review, student: str) -> None:
    for text in (ask(server, server.root)[1], answer(server, student, SQUARE)):
        page = Page(text)

        assert not {"script", "iframe", "svg"} & page.tags.keys()
        assert not [link for link in page.links if link.startswith("javascript:")]
        assert "7 * 7" in text or student == "eve"


def test_students_with_the_same_name_are_told_apart(path: Path, server: Review) -> None:
    with Gradebook(path) as book:
        for student in ("Kim Lee_1", "Kim Lee_2"):
            handed_in(book, student, HALF)
        people = (Person("Kim Lee", id="s-1", site="1"), Person("Kim Lee", site="2"), Person("Bob"))
        book.enroll((*people, Person("Zoe", id="s-8"), Person("Zoe", email="z@uni.example")))
        reports = path.parent / "reports"
        files.write(book, reports, ["html"])
    shown = {"Kim Lee_1": "Kim Lee (s-1)", "Kim Lee_2": "Kim Lee (Kim Lee_2)", "bob": "Bob"}
    for student, name in shown.items():
        feedback = (reports / "feedback" / feedback_name(student)).read_text()

        assert f"<h1><bdi>{name}</bdi></h1>" in answer(server, student, SQUARE)
        assert f"<h1>Feedback for <bdi>{name}</bdi></h1>" in feedback
    of_class = (reports / "class.html").read_text()
    assert "Zoe (s-8)" in of_class
    assert "Zoe (z@uni.example)" in of_class


# What the page stores


def test_saving_stores_who_and_why_and_leads_to_the_next_answer(path: Path, server: Review) -> None:
    status, _, headers = send(server, typed(server, points="0,5"))
    with Gradebook(path) as book:
        settled = book.score_of("ann", SQUARE).settlement

    assert settled is not None
    assert (settled.points, settled.comment, settled.by) == (0.5, "Nearly.", "Dr. Who")
    assert status == 303
    assert parse_qs(urlsplit(headers["Location"]).query)["student"] == ["bob"]
    assert "0.5 by Dr. Who: Nearly." in " ".join(Page(answer(server, "ann", SQUARE)).text.split())

    send(server, typed(server, do="withdraw"))
    assert points(path) is None


def test_two_pages_do_not_lose_a_settlement(path: Path, server: Review) -> None:
    one, other = typed(server, points="1"), typed(server, points="0", comment="No & <b>never</b>.")
    assert send(server, one)[0] == 303
    status, page, _ = send(server, other)

    assert (status, points(path)) == (409, 1.0)
    assert "has changed since you opened it" in Page(page).text
    assert "1 point given by hand" in Page(page).text, "the other's decision is shown"
    assert "No & <b>never</b>." in Page(page).text, "what was typed is kept"
    assert send(server, other | {"seen": stamp(page)})[0] == 303
    assert points(path) == 0.0


def test_a_comment_is_shown_again_if_another_program_writes_to_the_gradebook(
    path: Path, server: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = typed(server, comment="Half right <now>")
    monkeypatch.setattr(opening, "_WAIT", 0.1)

    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, page, _ = send(server, form)
        read, _, _ = ask(server, server.root)

    assert status == 503
    assert "close that program, then try again" in page
    assert "Half right &lt;now&gt;" in page
    assert read == 200, "reading does not wait"
    assert points(path) is None


def test_a_browser_that_leaves_early_is_no_error(
    server: Review, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise BrokenPipeError
    except BrokenPipeError:
        server.handle_error(None, None)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("entered", "said"),
    [
        ("", "the points are missing: give a number such as 0.5."),
        ("many", "'many' is not a number: give a number"),
        ("+1", "+1 does not add points: give a number"),
        *((entered, "give a number") for entered in ("-1", "7", "nan", "inf", "1e999")),
    ],
)
def test_points_that_are_none_are_told_beside_the_form(
    path: Path, server: Review, entered: str, said: str
) -> None:
    status, page, _ = send(server, typed(server, points=entered))

    assert (status, points(path)) == (400, None)
    assert said in Page(page).text
    assert f'value="{entered}"' in page


# Who may use the page


@pytest.mark.parametrize(
    ("place", "headers", "status"),
    [
        ("/", {}, 403),
        ("/wrong-token/", {}, 403),
        ("TOKEN", {"Host": "evil.example"}, 421),
        ("TOKEN", {"Host": "localhost:PORT"}, 421),
        ("TOKEN/../etc/passwd", {}, 404),
        ("TOKENanswer?student=nobody&exercise=square", {}, 404),
        ("TOKENanswer", {}, 404),
        ("TOKENsettle", {}, 404),
        ("http://[x]/", {}, 400),
    ],
)
def test_a_request_without_token_or_under_another_name_is_refused(
    server: Review, place: str, headers: dict[str, str], status: int
) -> None:
    port = str(server.server_address[1])
    sent = {name: value.replace("PORT", port) for name, value in headers.items()}
    found, page, _ = ask(server, place.replace("TOKEN", server.root), **sent)

    assert found == status
    assert server.token not in page
    assert "Traceback" not in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content-Length": "-5"}, 411),
        ({"Content-Length": "99999999"}, 413),
        ({"Content-Length": "9" * 5000}, 413),
    ],
    ids=str,
)
def test_only_a_page_of_the_server_writes(
    path: Path, server: Review, headers: dict[str, str], status: int
) -> None:
    form = typed(server)

    assert send(server, form, **headers)[0] == status
    assert ask(server, "/wrong-token/settle", form)[0] == 403
    link = urlencode(form | {"student": "ann", "exercise": SQUARE})
    assert ask(server, f"{server.root}settle?{link}")[0] == 404, "a link writes nothing"
    assert points(path) is None


def test_no_other_site_can_show_or_read_a_page(server: Review) -> None:
    assert server.server_address[0] == "127.0.0.1"
    _, page, headers = ask(server, server.root)

    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin", "links do not carry the token"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]
    assert not [link for link in Page(page).links if not link.startswith(("/", server.root))]


# Tests in a real browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 600])
def test_an_answer_is_settled_in_a_browser(
    browser: Browser, path: Path, server: Review, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, strays, errors = context.new_page(), [], []
    page.on("request", lambda it: strays.append(it.url) if server.authority not in it.url else None)
    page.on("console", lambda it: errors.append(it.text) if it.type == "error" else None)
    page.on("dialog", lambda it: errors.append(it.message))
    (ROOT / "artifacts").mkdir(exist_ok=True)

    page.goto(server.url)
    page.screenshot(path=ROOT / "artifacts" / f"review-matrix-{width}.png", full_page=True)
    page.get_by_role("link", name="Attempted, not passed, not settled").click()
    page.get_by_role("link", name="Start with the first one").click()
    page.get_by_role("link", name="Skip").click()
    expect(page.get_by_role("heading", name="ann")).to_be_visible()  # the page has changed
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.screenshot(path=ROOT / "artifacts" / f"review-answer-{width}.png", full_page=True)
    expect(page.get_by_label("Points", exact=True)).to_be_focused()
    page.keyboard.type("0.25")
    page.get_by_role("link", name="Skip").click()
    expect(page.get_by_role("heading", name="bob")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Points", exact=True)).to_have_value("0.25")
    second = context.new_page()  # the same answer in another tab
    second.goto(page.url)
    page.get_by_label("Points", exact=True).fill("0.5")
    page.get_by_label("Comment for the student").fill("Nearly: <b>see</b> the factor.")
    page.get_by_role("button", name="Save and next").click()

    expect(page.get_by_role("heading", name="bob")).to_be_visible()
    assert points(path) == 0.5
    second.get_by_label("Points", exact=True).fill("0")
    second.get_by_role("button", name="Save", exact=True).click()
    expect(second.get_by_role("alert")).to_contain_text("has changed since you opened it")
    second.screenshot(path=ROOT / "artifacts" / f"review-conflict-{width}.png", full_page=True)
    assert points(path) == 0.5
    second.get_by_role("button", name="Withdraw").click()
    expect(second.get_by_text("given by hand")).to_have_count(0)
    assert points(path) is None
    assert wide <= width, "nothing is cut off"
    assert (strays, [error for error in errors if "data:" not in error and "409" not in error]) == (
        [], [],
    )  # fmt: skip
    context.close()
