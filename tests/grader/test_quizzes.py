"""Knowledge checks as data: the contents of the files, and the errors for an invalid file."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

from autograd_course.quizzes import (
    COURSE,
    QUIZZES,
    Question,
    QuizError,
    Vote,
    bank,
    draw,
    load,
)
from autograd_course.quizzes.reading import read

NOTEBOOKS = ROOT / "notebooks"
CHECKS = [*map(load, QUIZZES), bank()]
ALL = [(quiz.number, question) for quiz in CHECKS for question in quiz.questions]
each_question = pytest.mark.parametrize(
    ("number", "question"), ALL, ids=[f"{number}/{question.id}" for number, question in ALL]
)

OPTIONS = """
[[question.option]]
text = "yes"
right = true
explanation = "so it is"
[[question.option]]
text = "no"
right = false
explanation = "it is not"
"""
BALLOT = """
[[vote]]
id = "raises"
belief = "It raises."
holds = true
text = "What happens?"
explanation = "It does."
[[vote.option]]
text = "it raises"
right = true
[[vote.option]]
text = "nothing"
right = false
"""
GOOD = f"""
title = "A lesson"
[[question]]
id = "is-it"
text = "Is it?"
{OPTIONS}"""


# The course's own knowledge checks


def test_the_core_of_the_course_has_ten_questions_and_an_essay() -> None:
    quiz = load("01")

    assert len(quiz.choices) >= 10
    assert [q.essay for q in quiz.questions].count(True) == 1
    assert len(load("00").questions) == 2


@pytest.mark.parametrize("number", QUIZZES)
def test_a_lesson_shows_the_check_that_progress_counts(number: str) -> None:
    (lesson,) = NOTEBOOKS.glob(f"{number}_*.py")

    assert f'knowledge_check("{number}")' in lesson.read_text()


@each_question
def test_every_option_explains_itself_at_some_length(number: str, question: Question) -> None:
    for option in question.options:
        assert len(option.explanation.split()) >= 8, option.text
        assert option.explanation not in [o.text for o in question.options]


@each_question
def test_no_right_option_is_told_by_its_length(number: str, question: Question) -> None:
    if question.options:
        longest = max(question.options, key=lambda option: len(option.text))
        rivals = [len(o.text) for o in question.options if o is not longest]

        assert len(longest.text) <= 2 * max(rivals) + 20


def test_the_right_letters_follow_no_pattern() -> None:
    letters = [letter for _, question in ALL for letter in question.right]

    assert max(letters.count(letter) for letter in "abcd") <= len(letters) / 2
    assert set(letters) == set("abcd")


@pytest.mark.parametrize("name", ["01", "1", "01_template", 1])
def test_a_check_is_found_by_its_lesson(name: str) -> None:
    assert load(name).number == "01"


def test_of_a_lesson_without_a_check_the_others_are_named() -> None:
    with pytest.raises(QuizError, match=r"no knowledge check for lesson '77'; there is one for 00"):
        load("77")


def test_of_an_unknown_question_the_known_ones_are_named() -> None:
    with pytest.raises(QuizError, match="no question 'nope'; it has vjp, why-grad-output"):
        load("01")["nope"]


# The knowledge check on the whole course


def test_the_bank_asks_transfer_questions_of_every_lesson() -> None:
    lessons = [question.lesson for question in bank().choices]

    assert len(lessons) >= 36
    assert set(lessons) == {*QUIZZES} - {"00"}
    assert min(map(lessons.count, lessons)) >= 3
    others = {question.id for number in QUIZZES for question in load(number).questions}
    assert not others & {question.id for question in bank().questions}


@pytest.mark.parametrize("seed", [0, 1, 2, "ada", "grace"])
def test_a_draw_is_balanced_and_ends_with_three_essays(seed: int | str) -> None:
    quiz = draw(seed)
    lessons = [question.lesson for question in quiz.choices]

    assert lessons == [number for number in QUIZZES if number != "00"]
    assert [question.essay for question in quiz.questions] == [False] * len(lessons) + [True] * 3
    assert draw(seed) == draw.__wrapped__(seed)


def test_seeds_draw_differently_and_reach_the_whole_bank() -> None:
    drawn = {seed: frozenset(q.id for q in draw(seed).choices) for seed in range(40)}

    assert len(set(drawn.values())) == 40
    assert frozenset().union(*drawn.values()) == {q.id for q in bank().choices}


def test_essays_of_lessons_are_asked_again_but_kept_once() -> None:
    homes = {question.id: question.home for question in draw().questions if question.essay}

    assert homes == {
        "essay-only-tensors": "01",
        "essay-upstream": COURSE,
        "essay-biased-estimator": "05",
    }


def test_the_call_of_a_draw_says_its_seed() -> None:
    assert draw().call == 'knowledge_check("course")'
    assert draw("ada").call == "knowledge_check(\"course\", seed='ada')"


# The votes of the lessons

VOTES = [vote for number in QUIZZES for vote in load(number).votes]
VOTING = re.compile(r'^vote\("(\w+)", "([\w-]+)"\)$', re.MULTILINE)


def cells(number: str) -> list[str]:
    """Return the cells of a lesson, each with its marker line."""
    (lesson,) = NOTEBOOKS.glob(f"{number}_*.py")
    return re.split(r"^# %%", lesson.read_text(), flags=re.MULTILINE)


def test_the_course_has_votes() -> None:
    assert len(VOTES) >= 5


@pytest.mark.parametrize("number", QUIZZES)
def test_one_belief_of_three_holds(number: str) -> None:
    beliefs = [vote.holds for vote in load(number).votes]

    assert sum(beliefs) >= len(beliefs) // 3, "learners who see only false beliefs stop predicting"


@pytest.mark.parametrize("number", QUIZZES)
def test_a_lesson_asks_each_of_its_votes_once_and_no_others(number: str) -> None:
    asked = [found for cell in cells(number) for found in VOTING.findall(cell)]

    assert sorted(asked) == sorted((number, vote.id) for vote in load(number).votes)


@pytest.mark.parametrize("number", QUIZZES)
def test_the_cell_below_a_vote_runs_what_the_vote_is_about(number: str) -> None:
    every = cells(number)
    below = [every[k + 1] for k, cell in enumerate(every[:-1]) if VOTING.search(cell)]

    assert not [cell for cell in below if "[markdown]" in cell.splitlines()[0]]
    assert not [cell for cell in below if VOTING.search(cell) or "knowledge_check(" in cell]
    assert not VOTING.search(every[-1])


@pytest.mark.parametrize("vote", VOTES, ids=lambda vote: f"{vote.home}/{vote.id}")
def test_a_vote_is_explained_at_some_length(vote: Vote) -> None:
    assert len(vote.explanation.split()) >= 8
    assert len(vote.right) == 1


def test_of_an_unknown_vote_the_known_ones_are_named() -> None:
    quiz = read(GOOD + BALLOT, "01")

    with pytest.raises(QuizError, match="Lesson 01 has no vote 'nope'; it has raises"):
        quiz.vote("nope")
    with pytest.raises(QuizError, match="Lesson 01 has no vote 'raises'; it has none"):
        read(GOOD, "01").vote("raises")


# Reading a file


def test_the_order_of_options_is_always_the_same_and_not_the_files() -> None:
    many = "".join(
        f'\n[[question.option]]\ntext = "{k}"\nright = {str(k == 0).lower()}\nexplanation = "e"\n'
        for k in range(8)
    )
    text = f'title = "t"\n[[question]]\nid = "q"\ntext = "?"\n{many}'

    orders = {tuple(option.text for option in read(text, "01").questions[0].options) for _ in "ab"}

    assert orders == {tuple("07432651")}


def test_exactly_the_right_options_are_right() -> None:
    both = GOOD.replace("right = false", "right = true")
    (question,) = read(both, "01").questions

    assert question.several
    assert question.is_right("ba")
    assert not question.is_right("a")
    assert not question.is_right("")


WRONG = {
    "no TOML": ("title = ", "is not TOML"),
    "no questions": ('title = "t"', "asks nothing"),
    "no title": (GOOD.replace('title = "A lesson"', ""), "has no title"),
    "an empty text": (GOOD.replace("Is it?", " "), "question 'is-it' has no text"),
    "no id": (GOOD.replace('id = "is-it"', ""), "a question has no id"),
    "an id in capitals": (GOOD.replace("is-it", "Is_it"), "an id is kebab-case"),
    "an id twice": (GOOD + GOOD.replace('title = "A lesson"', ""), "two questions 'is-it'"),
    "one option": (GOOD.rpartition("[[question.option]]")[0], "has 1 options"),
    "nothing right": (GOOD.replace("right = true", "right = false"), "has no right option"),
    "no verdict": (GOOD.replace("right = false", ""), "option 'no' does not say whether"),
    "a verdict in words": (GOOD.replace("right = true", 'right = "yes"'), "write right = true"),
    "no explanation": (GOOD.replace("so it is", ""), "option 'yes' has no explanation"),
    "an option twice": (GOOD.replace('"no"', '"yes"'), "has the same option twice"),
    "a misspelled key": (GOOD.replace("text = ", "txet = "), "has 'txet'; known are"),
    "an essay with options": (
        GOOD.replace('id = "is-it"', 'id = "is-it"\nrubric = ["this"]'),
        "either a choice or an essay",
    ),
    "an empty point": (
        'title = "t"\n[[question]]\nid = "e"\ntext = "Why?"\nrubric = ["this", ""]',
        "an empty point in its rubric",
    ),
    "a vote without a belief": (
        GOOD + BALLOT.replace("It raises.", ""),
        "vote 'raises' has no belief",
    ),
    "a belief of two paragraphs": (
        GOOD + BALLOT.replace('"It raises."', '"It\\n\\nraises."'),
        "vote 'raises' has a belief of several paragraphs; write one sentence",
    ),
    "a belief that may hold": (
        GOOD + BALLOT.replace("holds = true", ""),
        "vote 'raises' does not say if the belief is true; write holds = true or false",
    ),
    "a vote without an explanation": (
        GOOD + BALLOT.replace("It does.", " "),
        "vote 'raises' has no explanation",
    ),
    "a vote with two right options": (
        GOOD + BALLOT.replace("right = false", "right = true"),
        "vote 'raises' has several right options; the learner can choose only one",
    ),
    "a vote with nothing right": (
        GOOD + BALLOT.replace("right = true", "right = false"),
        "vote 'raises' has no right option",
    ),
    "a vote with one option": (
        GOOD + BALLOT.rpartition("[[vote.option]]")[0],
        "vote 'raises' has 1 options; give it 2 to 8.",
    ),
    "a vote's option that explains itself": (
        GOOD + BALLOT.replace("right = true", 'right = true\nexplanation = "so it is"'),
        "option 'it raises' has 'explanation'; known are right, text",
    ),
    "a vote's id in capitals": (GOOD + BALLOT.replace('"raises"', '"Raises"'), "kebab-case"),
    "a vote with the id of a question": (
        GOOD + BALLOT.replace('"raises"', '"is-it"'),
        "two questions 'is-it'",
    ),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(QuizError, match=re.escape(words)) as error:
        read(text, "01")

    assert "lesson_01.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_plain_vote_is_read() -> None:
    vote = read(GOOD + BALLOT, "01").vote("raises")

    assert (vote.belief, vote.holds, vote.explanation) == ("It raises.", True, "It does.")
    assert [option.text for option in vote.options if option.right] == ["it raises"]
    assert (vote.lesson, vote.home, vote.call) == ("01", "01", 'vote("01", "raises")')


def test_the_bank_has_no_votes() -> None:
    with pytest.raises(QuizError, match=r"course\.toml has 'vote'"):
        read(GOOD.replace("[[question]]", '[[question]]\nlesson = "01"') + BALLOT, COURSE)


def test_the_plain_example_is_read() -> None:
    quiz = read(GOOD, "01")

    assert [o.text for o in quiz["is-it"].options if o.right] == ["yes"]
