"""A vote in a real browser, on a bare page: what a learner reads and presses."""

from collections.abc import Iterator

import pytest
from barepage import contrast, hold_the_clock, showing
from playwright.sync_api import Browser, Locator, Page, expect
from repository import ROOT
from sampling import first_rows

from autograd_course.lesson import vote
from autograd_course.quizzes import load
from autograd_course.quizzes.reading import read
from autograd_course.visualize.vote.widget import VoteView

pytestmark = pytest.mark.browser

ID = "saved-as-attribute"
VOTE = load("02").vote(ID)
(RIGHT,) = VOTE.right
WRONG = next(letter for letter in VOTE.lettered if letter != RIGHT)


@pytest.fixture
def ballot() -> VoteView:
    return vote("02", ID)


@pytest.fixture
def page(browser: Browser, ballot: VoteView) -> Iterator[Page]:
    with showing(browser, ballot) as page:
        yield page


def option(page: Page, letter: str) -> Locator:
    return page.locator(".ac-vote-option").nth("abc".index(letter))


def reply(page: Page, ballot: VoteView) -> None:
    """Handle the page's saved changes as the kernel does."""
    ballot.chosen = page.evaluate("saved.at(-1).chosen")
    page.evaluate("kept => model.set('kept', kept)", ballot.kept)


def voted(page: Page, ballot: VoteView, letter: str) -> None:
    option(page, letter).click()
    reply(page, ballot)


def answer(page: Page) -> Locator:
    return page.locator(".ac-vote-answer")


def said(page: Page) -> Locator:
    return page.locator(".ac-vote-said")


def test_before_the_vote_the_answer_is_out_of_reach(page: Page) -> None:
    expect(page.get_by_role("button")).to_have_count(3)
    expect(answer(page)).to_be_hidden()
    expect(page.get_by_text(f"People say: “{VOTE.belief.replace('`', '')}”")).to_be_visible()


def test_one_click_votes_and_locks_every_option(page: Page, ballot: VoteView) -> None:
    voted(page, ballot, WRONG)

    expect(said(page)).to_have_text(
        f"You voted for {WRONG}, and your vote is saved: run the next cell."
    )
    expect(option(page, WRONG)).to_have_attribute("aria-pressed", "true")
    expect(option(page, WRONG)).to_contain_text("your vote")
    expect(page.locator(".ac-vote-option[aria-disabled=true]")).to_have_count(3)
    expect(page.get_by_text("✗", exact=False)).to_have_count(0)

    option(page, RIGHT).dispatch_event("click")
    assert len(page.evaluate("saved")) == 1
    expect(option(page, RIGHT)).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize(
    ("letter", "verdict"),
    [(RIGHT, "✓ Your vote is right."), (WRONG, "✗ Your vote is not right.")],
)
def test_the_answer_comes_by_a_button(
    page: Page, ballot: VoteView, letter: str, verdict: str
) -> None:
    voted(page, ballot, letter)
    button = page.get_by_role("button", name="Show the answer")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()

    expect(said(page)).to_have_text(f"{verdict} The belief is false.")
    expect(answer(page)).to_contain_text("Autograd compares only the versions")
    expect(option(page, RIGHT)).to_contain_text("✓ right")
    if letter != RIGHT:
        expect(option(page, letter)).to_contain_text("your vote · ✗ not right")
    expect(page.get_by_text("✗ not right")).to_have_count(int(letter != RIGHT))

    page.get_by_role("button", name="Hide the answer").click()
    expect(answer(page)).to_be_hidden()
    expect(page.get_by_text("✓ right")).to_have_count(0)


def test_a_vote_of_another_day_is_there_again(browser: Browser, ballot: VoteView) -> None:
    ballot.answer(WRONG)
    with showing(browser, vote("02", ID)) as page:
        expect(option(page, WRONG)).to_contain_text("your vote")
        expect(said(page)).to_contain_text("your vote is saved")
        page.get_by_role("button", name="Show the answer").click()
        expect(answer(page)).to_be_visible()


def test_an_earlier_vote_elsewhere_counts(page: Page, ballot: VoteView) -> None:
    vote("02", ID).answer(WRONG)
    voted(page, ballot, RIGHT)

    expect(option(page, WRONG)).to_contain_text("your vote")
    expect(option(page, RIGHT)).not_to_contain_text("your vote")


def test_it_is_voted_by_keyboard_alone(page: Page, ballot: VoteView) -> None:
    option(page, "a").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    reply(page, ballot)
    expect(option(page, "b")).to_be_focused()
    expect(said(page)).to_contain_text("You voted for b")

    for key in ("Tab", "Tab", "Space"):
        page.keyboard.press(key)
    expect(page.get_by_role("button", name="Hide the answer")).to_be_focused()
    expect(answer(page)).to_be_visible()
    page.keyboard.press("d")
    assert page.evaluate("escaped") == []


def test_a_dead_kernel_is_said_and_a_late_one_is_heard(page: Page, ballot: VoteView) -> None:
    hold_the_clock(page)
    option(page, RIGHT).click()
    expect(said(page)).to_have_text("")
    page.clock.run_for(6_000)
    expect(page.get_by_text("your vote may not be saved")).to_be_visible()

    reply(page, ballot)
    expect(page.get_by_text("may not be saved")).to_have_count(0)
    expect(said(page)).to_contain_text("your vote is saved")


def test_a_vote_is_announced_once(page: Page, ballot: VoteView) -> None:
    page.evaluate(
        """() => {
          window.heard = [];
          new MutationObserver(changes => {
            const live = changes.map(({target}) => (target.closest ? target : target.parentElement)
              .closest('[role=status]')).filter(Boolean);
            for (const region of new Set(live)) heard.push(region.textContent);
          }).observe(document.body, {subtree: true, childList: true, characterData: true});
        }"""
    )
    voted(page, ballot, WRONG)
    page.get_by_role("button", name="Show the answer").click()
    page.wait_for_function("heard.length >= 2")

    assert page.evaluate("heard") == [
        f"You voted for {WRONG}, and your vote is saved: run the next cell.",
        "✗ Your vote is not right. The belief is false.",
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", first_rows([320, 600, 1280], most=1))
def test_it_is_legible_and_nothing_is_cut_off(
    browser: Browser, ballot: VoteView, dark: bool, width: int
) -> None:
    with showing(browser, ballot, dark=dark) as page:
        page.set_viewport_size({"width": width, "height": 700})
        voted(page, ballot, WRONG)
        page.get_by_role("button", name="Show the answer").click()
        (ROOT / "artifacts").mkdir(exist_ok=True)
        name = f"vote-{'dark' if dark else 'light'}-{width}.png"
        page.screenshot(path=ROOT / "artifacts" / name)
        inks = page.evaluate(
            """() => [...document.querySelectorAll('.ac-vote *')]
                 .filter(e => e.checkVisibility({opacityProperty: true}) && e.textContent)
                 .map(e => [getComputedStyle(e).color, getComputedStyle(e).opacity])"""
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width

    ground = "rgb(17, 17, 17)" if dark else "rgb(255, 255, 255)"
    for ink, opacity in inks:
        assert opacity == "1"
        assert contrast(ink, ground) >= 4.5, ink


def test_what_a_vote_brings_is_shown_as_text(browser: Browser) -> None:
    harmful = "<img src=x onerror=alert(1)> [click](javascript:alert(1))"
    options = "".join(
        f'[[vote.option]]\ntext = "{harmful} {right}"\nright = {right}\n'
        for right in ("true", "false")
    )
    question = (
        '[[question]]\nid = "q"\ntext = "q"\nrubric = ["r"]\n[[vote]]\nid = "v"\nholds = true\n'
        f'belief = "{harmful}"\ntext = "{harmful}"\nexplanation = "{harmful}"\n{options}'
    )
    ballot = VoteView(read(question, "01", "title").vote("v"))

    with showing(browser, ballot) as page:
        voted(page, ballot, "a")
        page.get_by_role("button", name="Show the answer").click()
        expect(answer(page)).to_contain_text(harmful)
        expect(page.locator(".ac-vote").locator("img, a, script")).to_have_count(0)
