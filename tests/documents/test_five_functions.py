"""The output of docs/five_functions.md is real, and its vote asks about its results."""

from __future__ import annotations

from typing import Any

import pytest
from autograd_doctor import diagnose
from pages import blocks
from repository import ROOT

from tools.book.live import LivePage
from tools.book.running import enlivened, run
from tools.book.votes import VOTES

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

PAGE = ROOT / "docs" / "five_functions.md"
TEXT = PAGE.read_text(encoding="utf-8")
VOTE = VOTES["one-of-five"]


@pytest.fixture(scope="module")
def ran() -> tuple[dict[str, Any], str]:
    """Run the page. Return its names and its output."""
    return run(TEXT, "five_functions.py")


def test_the_page_prints_what_it_shows(ran: tuple[dict[str, Any], str]) -> None:
    assert ran[1] == "".join(block.text for block in blocks(PAGE) if block.language == "text")


def test_the_vote_offers_the_functions_of_the_page(ran: tuple[dict[str, Any], str]) -> None:
    offered = [option.text.strip("`") for option in VOTE.options]

    assert offered == [function.__name__ for function in ran[0]["calls"]]


def test_the_right_vote_is_the_function_that_diagnose_rejects(
    ran: tuple[dict[str, Any], str],
) -> None:
    calls = ran[0]["calls"].items()
    rejected = {f"`{each.__name__}`" for each, inputs in calls if not diagnose(each, inputs).ok}

    assert rejected == {option.text for option in VOTE.options if option.right}


def test_in_the_book_the_vote_and_the_flow_are_live() -> None:
    live = LivePage("docs/five_functions.md", "https://colab.research.google.com/x")
    page = enlivened(TEXT, live)

    assert "<!--" not in page
    assert page.count('class="live"') == 2
    assert page.index('data-live="vote"') < page.index('data-live="flow"')
    assert '<noscript><img src="data:image/png;base64,' in page
    assert set(live.files) == {"five_functions-1.js", "five_functions-2.js"}
