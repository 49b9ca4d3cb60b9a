"""The knowledge check without a browser: its answers, their storage, and what a notebook keeps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autograd_course.grader import grade, progress
from autograd_course.learner.state import Answered, State
from autograd_course.quizzes import QUIZZES, draw, load
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.quiz.markdown import blocks
from autograd_course.visualize.quiz.widget import KnowledgeCheck, knowledge_check

pytestmark = pytest.mark.colab

LESSONS = len(QUIZZES) - 1  # the course asks one question of each lesson except 00
RIGHT = {q.id: "".join(sorted(q.right)) for q in load("01").choices}


@pytest.fixture
def check() -> KnowledgeCheck:
    return knowledge_check("01")


def saved(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def wrong_letter(question_id: str) -> str:
    return next(c for c in "abcd" if c not in RIGHT[question_id])


# Answering


@pytest.mark.parametrize("question_id", RIGHT)
def test_a_right_answer_explains_every_option(check: KnowledgeCheck, question_id: str) -> None:
    outcome = check.answer(question_id, RIGHT[question_id])

    assert outcome.right
    assert f"{question_id}: ✓ Right." in str(outcome)
    assert str(outcome).count("✓ ") + str(outcome).count("✗ ") == 1 + 4


@pytest.mark.parametrize("question_id", RIGHT)
def test_a_wrong_answer_explains_what_was_chosen_and_gives_nothing_away(
    check: KnowledgeCheck, question_id: str
) -> None:
    letter = wrong_letter(question_id)
    outcome = check.answer(question_id, letter)
    text = " ".join(str(outcome).split())

    assert not outcome.right
    options = load("01")[question_id].lettered
    shown = [k for k, o in options.items() if " ".join(o.explanation.split()) in text]
    assert shown == [letter]


def test_a_second_wrong_answer_explains_every_option(check: KnowledgeCheck) -> None:
    one, other = (letter for letter in "abc" if letter not in RIGHT["vjp"])
    first, same, second = (str(check.answer("vjp", letter)) for letter in (one, one, other))

    assert first == same
    assert "✗ Not right. Try again." in first
    assert first.count("✗ ") == 2
    assert "✗ Not right.\n" in second
    assert second.count("✓ ") + second.count("✗ ") == 1 + 4


def test_a_part_of_the_right_options_is_not_all(check: KnowledgeCheck) -> None:
    outcome = check.answer("what-goes-where", RIGHT["what-goes-where"][0])

    assert not outcome.right
    assert "at least one answer is missing" in str(outcome)


@pytest.mark.parametrize("given", [("ab",), ("a", "b"), ("B, A",), ("b", "A")])
def test_letters_are_read_as_they_are_typed(check: KnowledgeCheck, given: tuple[str, ...]) -> None:
    assert RIGHT["what-goes-where"] == "ab"
    assert check.answer("what-goes-where", *given).right


def test_an_essay_is_compared_by_its_author(check: KnowledgeCheck) -> None:
    outcome = check.answer("essay-only-tensors", "Because of the version check.")

    assert "records the version of each tensor" in " ".join(str(outcome).split())
    assert check.score == "0 of 12 right, essay written"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("vjp", "e"), "has the options a, b, c, d"),
        (("vjp",), 'as in .answer("vjp", "a")'),
        (("nope", "a"), "no question 'nope'; it has vjp"),
        (("essay-only-tensors", " "), "needs an answer in your own words"),
    ],
)
def test_what_is_no_answer_is_refused_in_a_sentence(
    check: KnowledgeCheck, call: tuple[str, ...], words: str, progress_file: Path
) -> None:
    with pytest.raises(TraceError, match=re.escape(words)):
        check.answer(*call)

    assert not progress_file.exists()


def test_a_lesson_without_a_check_is_refused() -> None:
    with pytest.raises(TraceError, match="there is one for 00, 01"):
        knowledge_check("77")


# Remembering


def test_answers_are_found_again_in_a_new_session(check: KnowledgeCheck) -> None:
    check.answer("vjp", RIGHT["vjp"])
    check.answer("why-float64", wrong_letter("why-float64"))
    check.answer("essay-only-tensors", "So that …")

    again = knowledge_check("01")

    assert again.answers == check.answers
    assert again.answers["essay-only-tensors"]["text"] == "So that …"
    assert again.kept["right"] == ["vjp", "essay-only-tensors"]
    assert again.score == "1 of 12 right, essay written"


def test_what_was_once_right_stays_right(check: KnowledgeCheck, progress_file: Path) -> None:
    for letter in (wrong_letter("vjp"), RIGHT["vjp"], wrong_letter("vjp")):
        check.answer("vjp", letter)

    assert saved(progress_file) == {
        "schema": 1,
        "exercises": {},
        "questions": {
            "01/vjp": {
                "chosen": wrong_letter("vjp"),
                "text": "",
                "right": True,
                "latest": False,
                "attempts": 3,
            }
        },
    }


def test_looking_writes_nothing(progress_file: Path) -> None:
    knowledge_check("01")

    assert not progress_file.exists()


def test_exercises_and_questions_share_a_file_and_neither_loses(check: KnowledgeCheck) -> None:
    grade("square", None)
    check.answer("vjp", RIGHT["vjp"])
    grade("square", None)

    assert "1 of 12 right" in str(progress())
    assert knowledge_check("01").answers.keys() == {"vjp"}


def test_an_old_file_is_read_and_what_is_unknown_in_it_is_kept(progress_file: Path) -> None:
    old = {"schema": 1, "exercises": {"square": {"status": "passed"}}, "later": {"more": [1]}}
    progress_file.write_text(json.dumps(old), encoding="utf-8")

    knowledge_check("01").answer("vjp", RIGHT["vjp"])
    now = saved(progress_file)

    assert now["later"] == {"more": [1]}
    assert now["exercises"]["square"]["status"] == "passed"
    assert list(now["questions"]) == ["01/vjp"]


DAMAGED = [
    [],
    {"01/vjp": 3},
    {"01/vjp": {"grade": "A"}},
    {"01/vjp": {"chosen": 1}},
    {"01/vjp": {"right": "yes"}},
    {"01/vjp": {"attempts": "many"}},
]


@pytest.mark.parametrize("questions", DAMAGED)
def test_damaged_answers_are_set_aside_with_their_file(progress_file: Path, questions: Any) -> None:
    content = json.dumps({"schema": 1, "exercises": {}, "questions": questions})
    progress_file.write_text(content, encoding="utf-8")

    check = knowledge_check("01")
    assert "is damaged" in check.kept["note"]
    check.answer("vjp", "a")

    assert "The grader renamed it to" in check.kept["note"]
    aside = progress_file.with_name("progress.json.set-aside-1")
    assert aside.read_text(encoding="utf-8") == content


def test_what_an_older_page_sends_is_dropped(check: KnowledgeCheck) -> None:
    check.answers = {
        "gone": {"chosen": "a", "text": ""},
        "vjp": {"chosen": "z", "text": ""},
        "why-float64": "b",
        "unused-output": {"chosen": "a", "text": ""},
    }

    assert list(check.answers) == ["unused-output"]


def test_a_state_goes_through_json_and_back() -> None:
    state = State().graded("square", "passed", "").answered("01", "vjp", right=True, chosen="a")

    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert state.without("square").question("01", "vjp").right


@pytest.mark.parametrize(
    ("lesson", "question_id", "kept_as"),
    [
        ("04", "bisection", "08/bisection"),
        ("05", "surrogate", "04/surrogate"),
        ("08", "empty-row", "07/empty-row"),
        ("09", "empty-row", "03/empty-row"),
        ("13", "noise", "08/noise"),
    ],
)
def test_an_answer_counts_under_the_new_number_of_its_lesson(
    lesson: str, question_id: str, kept_as: str
) -> None:
    old = State(questions={kept_as: Answered(right=True, latest=True, attempts=2)})

    assert old.question(lesson, question_id).attempts == 2
    now = old.answered(lesson, question_id, right=False)
    assert now.question(lesson, question_id) == Answered(right=True, latest=False, attempts=3)


# The knowledge checks of the course


def test_an_essay_written_in_a_lesson_is_written_in_the_course(check: KnowledgeCheck) -> None:
    check.answer("essay-only-tensors", "So that …")
    course = knowledge_check("course")

    assert course.answers["essay-only-tensors"]["text"] == "So that …"
    assert course.score == f"0 of {LESSONS} right, 1 of 3 essays written"


def test_a_draw_is_remembered_question_by_question(progress_file: Path) -> None:
    course = knowledge_check("course", seed="ada")
    first = course.quiz["questions"][0]["id"]
    course.answer(first, *draw("ada")[first].right)

    assert list(saved(progress_file)["questions"]) == [f"course/{first}"]
    assert knowledge_check("course", seed="ada").score.startswith(f"1 of {LESSONS} right")
    assert f"1 of {LESSONS} right" in str(progress()).splitlines()[-1]


def test_the_course_is_headed_without_a_number() -> None:
    text = repr(knowledge_check("course"))

    assert text.startswith("Knowledge check · The whole course\n")
    assert 'knowledge_check("course").answer("' in text.splitlines()[-1]


# What is shown


def test_progress_has_a_line_for_each_knowledge_check(check: KnowledgeCheck) -> None:
    zero = knowledge_check("00")
    for question in load("00").choices:
        zero.answer(question.id, *question.right)
    check.answer("vjp", RIGHT["vjp"])

    lines = [" ".join(line.split()) for line in str(progress()).splitlines()]
    begin = lines.index("Knowledge checks")

    assert lines[begin + 1 : begin + 3] == [
        "✓ 00 Start here 2 of 2 right",
        "· 01 A Function from end to end 1 of 12 right",
    ]
    assert "1 of 12 right" in progress()._repr_html_()


def test_a_saved_notebook_keeps_the_questions_as_text(check: KnowledgeCheck) -> None:
    data, _ = check._repr_mimebundle_()

    assert data["text/plain"] == repr(check)
    assert "application/vnd.jupyter.widget-view+json" in data
    assert not {"text/html", "image/svg+xml"} & set(data)
    for question in load("01").questions:
        assert f"`{question.id}`" in data["text/markdown"]
        assert f" {question.id} – " in data["text/plain"]
        for letter, option in question.lettered.items():
            assert f"- **{letter}** {option.text}" in data["text/markdown"]
            assert option.explanation not in data["text/markdown"]


def test_what_is_saved_does_not_depend_on_who_answered(check: KnowledgeCheck) -> None:
    before = check._repr_mimebundle_()[0]["text/markdown"], repr(check)
    check.answer("vjp", RIGHT["vjp"])

    assert (check._repr_mimebundle_()[0]["text/markdown"], repr(check)) == before


def test_the_text_says_how_to_answer_without_the_widget(check: KnowledgeCheck) -> None:
    call = repr(check).splitlines()[-1].removeprefix("Without the widget: ")

    assert repr(eval(call, {"knowledge_check": knowledge_check})).startswith("vjp: ✗ Not right.")


def test_what_is_sent_to_the_page_is_json_and_small(check: KnowledgeCheck) -> None:
    state = check.get_state()
    sent = json.dumps(state, allow_nan=False, default=lambda _: "widget")

    assert len(sent) - len(str(state["_esm"])) - len(str(state["_css"])) < 40_000


def test_markdown_becomes_blocks_and_spans() -> None:
    assert blocks(
        "Look at `g * 2`\nand *this*:\n\n```python\na = 1\n\nb = 2\n```\n\nEnd, 2 * 3 * 4."
    ) == [
        {"spans": [["", "Look at "], ["code", "g * 2"], ["", " and "], ["em", "this"], ["", ":"]]},
        {"code": "a = 1\n\nb = 2"},
        {"spans": [["", "End, 2 * 3 * 4."]]},
    ]
