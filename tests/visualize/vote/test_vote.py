"""A vote without a browser: which answers are stored, and what a notebook keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autograd_course.learner.state import State
from autograd_course.learner.store import load, update
from autograd_course.lesson import vote
from autograd_course.quizzes import load as load_quiz
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.quiz.widget import knowledge_check
from autograd_course.visualize.vote.widget import VoteView

pytestmark = pytest.mark.colab

ID = "saved-as-attribute"
VOTE = load_quiz("02").vote(ID)
(RIGHT,) = VOTE.right
WRONG = next(letter for letter in VOTE.lettered if letter != RIGHT)
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def ballot() -> VoteView:
    return vote("02", ID)


# Voting


@pytest.mark.parametrize("letter", VOTE.lettered)
def test_a_vote_is_saved_like_the_answer_to_a_question(
    ballot: VoteView, letter: str, progress_file: Path
) -> None:
    said = repr(ballot.answer(letter))

    assert said == f"You voted for {letter}, and your vote is saved: run the next cell."
    right = letter == RIGHT
    assert json.loads(progress_file.read_text(encoding="utf-8"))["questions"] == {
        f"02/{ID}": {
            "chosen": letter,
            "text": "",
            "right": right,
            "latest": right,
            "attempts": 1,
        }
    }


def test_the_first_vote_counts(ballot: VoteView) -> None:
    ballot.answer(WRONG)

    assert f"You voted for {WRONG}" in repr(ballot.answer(RIGHT))
    assert f"You voted for {WRONG}" in repr(vote("02", ID).answer(RIGHT))
    assert load().state.question("02", ID).attempts == 1


def test_the_first_vote_of_two_open_notebooks_counts(ballot: VoteView) -> None:
    other = vote("02", ID)
    ballot.answer(WRONG)
    other.answer(RIGHT)

    assert other.kept["chosen"] == WRONG
    assert "not right" in repr(other.explain())


def test_a_new_session_finds_the_vote(ballot: VoteView) -> None:
    ballot.answer(RIGHT)
    again = vote("02", ID)

    assert (again.chosen, again.kept["chosen"]) == (RIGHT, RIGHT)
    assert "your vote is saved" in again.kept["said"]


def test_looking_writes_nothing(ballot: VoteView, progress_file: Path) -> None:
    ballot.explain()

    assert not progress_file.exists()
    assert (ballot.chosen, ballot.kept["chosen"], ballot.kept["said"]) == ("", "", "")


def test_a_vote_for_an_option_that_is_gone_can_be_cast_again() -> None:
    update(lambda state: state.answered("02", ID, right=True, chosen="z"))
    again = vote("02", ID)

    assert again.kept["chosen"] == ""
    again.answer(RIGHT)
    assert again.kept["chosen"] == RIGHT


def test_what_an_older_page_sends_is_dropped(ballot: VoteView) -> None:
    ballot.chosen = "z"

    assert ballot.chosen == ballot.kept["chosen"] == ""


def test_where_nothing_can_be_saved_the_note_says_so(
    ballot: VoteView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("AUTOGRAD_COURSE_PROGRESS", str(tmp_path / "file" / "progress.json"))
    said = repr(ballot.answer("a"))

    assert said == "You voted for a: run the next cell."
    assert "Progress cannot be saved" in ballot.kept["note"]


@pytest.mark.parametrize("letter", ["", "z", "ab", None])
def test_what_is_no_option_is_refused_in_a_sentence(
    ballot: VoteView, letter: str, progress_file: Path
) -> None:
    words = f"Vote '{ID}' has the options a, b, c; vote for one of them, as in vote("
    with pytest.raises(TraceError, match=re.escape(words)):
        ballot.answer(letter)

    assert not progress_file.exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("02", "nope"), "Lesson 02 has no vote 'nope'; it has ctx-after-backward, saved-as-"),
        (("77", ID), "There is no knowledge check for lesson '77'"),
    ],
)
def test_a_vote_that_there_is_not_is_refused_in_a_sentence(
    call: tuple[str, str], words: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(words)):
        vote(*call)


@pytest.mark.parametrize("first", ["vote", "check"])
def test_votes_and_the_knowledge_check_share_a_file_and_neither_loses(first: str) -> None:
    check, ballot = knowledge_check("02"), vote("02", ID)
    steps = [lambda: ballot.answer(RIGHT), lambda: check.answer("what-is-ctx", "a")]
    for step in steps if first == "vote" else steps[::-1]:
        step()

    assert vote("02", ID).kept["chosen"] == RIGHT
    assert list(knowledge_check("02").answers) == ["what-is-ctx"]
    assert State.from_json(load().state.to_json()) == load().state


# What is shown


@pytest.mark.parametrize(
    ("letter", "verdict"),
    [
        (RIGHT, "✓ Your vote is right. The belief is false."),
        (WRONG, "✗ Your vote is not right. The belief is false."),
    ],
)
def test_the_answer_names_the_right_option_and_says_why(
    ballot: VoteView, letter: str, verdict: str
) -> None:
    ballot.answer(letter)
    text = " ".join(repr(ballot.explain()).split())

    assert text.startswith(f"{verdict} {RIGHT}) {VOTE.lettered[RIGHT].text} Autograd compares")


def test_a_true_belief_is_called_true() -> None:
    assert repr(vote("02", "ctx-after-backward").explain()).startswith("The belief is true.\n")


def test_a_saved_notebook_keeps_the_question_as_text(ballot: VoteView) -> None:
    data, _ = ballot._repr_mimebundle_()
    plain = " ".join(data["text/plain"].split())

    assert VIEW in data
    assert not {"text/html", "image/svg+xml"} & set(data)
    for text in (VOTE.belief, VOTE.text, *(option.text for option in VOTE.options)):
        assert text in data["text/markdown"]
        assert text in plain
    assert "Autograd compares" not in data["text/markdown"] + plain


def test_what_is_saved_does_not_depend_on_who_voted(ballot: VoteView) -> None:
    before = ballot.left()
    ballot.answer(RIGHT)

    assert ballot.left() == vote("02", ID).left() == before


def test_the_text_says_how_to_vote_without_the_widget(ballot: VoteView) -> None:
    call = repr(ballot).splitlines()[-1].removeprefix("Without the widget: ")

    assert call in ballot.left()["text/markdown"]
    assert repr(eval(call, {"vote": vote})).startswith("You voted for a")


def test_what_is_sent_to_the_page_is_json_and_small(ballot: VoteView) -> None:
    state = ballot.get_state()
    sent = json.dumps(state, allow_nan=False, default=lambda _: "widget")

    assert len(sent) - len(str(state["_esm"])) - len(str(state["_css"])) < 4_000
