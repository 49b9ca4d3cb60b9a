"""The knowledge check in a real browser, on a bare page: what a learner reads and presses."""

from collections.abc import Iterator

import pytest
from barepage import hold_the_clock, showing
from playwright.sync_api import Browser, Locator, Page, expect
from sampling import first_rows

from autograd_course.quizzes import load
from autograd_course.quizzes.reading import read
from autograd_course.visualize.quiz.widget import KnowledgeCheck, knowledge_check

pytestmark = pytest.mark.browser

QUIZ = load("01")
VJP, SEVERAL = QUIZ["vjp"], QUIZ["what-goes-where"]


@pytest.fixture
def check() -> KnowledgeCheck:
    return knowledge_check("01")


@pytest.fixture
def page(browser: Browser, check: KnowledgeCheck) -> Iterator[Page]:
    with showing(browser, check) as page:
        yield page


def question(page: Page) -> Locator:
    return page.locator("fieldset:visible")


def choose(page: Page, letters: str) -> None:
    for letter in letters:
        question(page).locator(f"input[value={letter}]").check()


def press(page: Page, name: str) -> None:
    question(page).get_by_role("button", name=name).click()


def go(page: Page, number: int) -> None:
    page.get_by_role("button", name=f"Question {number},").click()


def reply(page: Page, check: KnowledgeCheck) -> None:
    """Handle the page's saved changes as the kernel does."""
    check.answers = page.evaluate("saved.at(-1).answers")
    page.evaluate("kept => model.set('kept', kept)", check.kept)


def explained(page: Page) -> list[str]:
    return [
        letter
        for letter in "abcd"
        if question(page)
        .locator(f".ac-quiz-option:has(input[value={letter}]) .ac-quiz-why")
        .is_visible()
    ]


right = "".join(VJP.right)
wrong = next(c for c in "abcd" if c != right)


def test_one_question_is_shown_at_a_time(page: Page) -> None:
    expect(question(page)).to_have_count(1)
    expect(question(page)).to_contain_text("Question 1 Choose one.")
    page.get_by_role("button", name="Next question").click()
    expect(question(page)).to_contain_text("Question 2")
    expect(question(page).locator("pre")).to_have_text(
        "(y,) = ctx.saved_tensors\nreturn 1 / (1 + 3 * y**2)"
    )


def test_all_can_be_shown(page: Page) -> None:
    page.get_by_role("button", name="Show all").click()
    expect(question(page)).to_have_count(len(QUIZ.questions))
    page.get_by_role("button", name="One at a time").click()
    expect(question(page)).to_have_count(1)


def test_a_wrong_choice_is_explained_and_gives_nothing_away(page: Page) -> None:
    choose(page, wrong)
    press(page, "Check")

    expect(question(page).get_by_role("status")).to_have_text("✗ Not right. Try again.")
    assert explained(page) == [wrong]
    press(page, "Explain every option")
    assert explained(page) == list("abcd")


def test_a_second_wrong_choice_explains_every_option(page: Page) -> None:
    one, other, _ = (c for c in "abcd" if c != right)
    for letter in (one, one):  # checking the same answer again is not a second guess
        choose(page, letter)
        press(page, "Check")
        assert explained(page) == [one]
    choose(page, other)
    press(page, "Check")

    expect(question(page).get_by_role("status")).to_have_text("✗ Not right.")
    assert explained(page) == list("abcd")
    expect(question(page).get_by_role("button", name="Explain every option")).to_be_hidden()


def test_a_right_choice_explains_every_option(page: Page) -> None:
    choose(page, right)
    press(page, "Check")

    expect(question(page).get_by_role("status")).to_have_text("✓ Right.")
    assert explained(page) == list("abcd")
    expect(question(page).get_by_text("✓ right", exact=True)).to_have_count(1)


def test_another_choice_takes_the_verdict_back(page: Page) -> None:
    choose(page, wrong)
    press(page, "Check")
    choose(page, right)

    expect(question(page).get_by_role("status")).to_have_text("")
    assert explained(page) == []


def test_nothing_chosen_is_not_judged(page: Page) -> None:
    press(page, "Check")

    expect(question(page).get_by_role("status")).to_have_text("Choose an answer first.")
    assert page.evaluate("saved") == []


def test_where_several_are_right_there_are_boxes(page: Page) -> None:
    go(page, QUIZ.questions.index(SEVERAL) + 1)
    expect(question(page).get_by_role("checkbox")).to_have_count(4)
    letters = "".join(sorted(SEVERAL.right))
    choose(page, letters[0])
    press(page, "Check")
    expect(question(page).get_by_role("status")).to_contain_text("at least one answer is missing")
    choose(page, letters[1])
    press(page, "Check")
    expect(question(page).get_by_role("status")).to_have_text("✓ Right.")


def test_the_kernel_keeps_an_answer_and_counts_it(page: Page, check: KnowledgeCheck) -> None:
    choose(page, right)
    press(page, "Check")
    reply(page, check)

    expect(page.get_by_text("1 of 12 right, essay not written")).to_be_visible()
    expect(page.get_by_role("button", name="Question 1, right")).to_have_text("1 ✓")
    assert knowledge_check("01").answers["vjp"] == {"chosen": right, "text": ""}


def test_two_answers_in_a_row_are_both_kept(page: Page, check: KnowledgeCheck) -> None:
    choose(page, right)
    press(page, "Check")
    go(page, 2)
    choose(page, "a")
    press(page, "Check")
    assert len(page.evaluate("saved")) == 1, "one at a time"
    reply(page, check)
    reply(page, check)

    assert set(check.answers) == {"vjp", "why-grad-output"}


def test_answers_given_before_are_there_again(browser: Browser, check: KnowledgeCheck) -> None:
    check.answer("vjp", right)
    with showing(browser, knowledge_check("01")) as page:
        expect(question(page)).to_contain_text("Question 2")
        go(page, 1)
        expect(question(page).locator(f"input[value={right}]")).to_be_checked()
        expect(question(page).get_by_role("status")).to_have_text("✓ Right.")


def test_an_essay_is_compared_with_its_rubric(page: Page, check: KnowledgeCheck) -> None:
    go(page, len(QUIZ.questions))
    press(page, "Compare")
    expect(question(page).get_by_role("status")).to_have_text("Write a few sentences first.")
    question(page).get_by_role("textbox").fill("Because of the version check.")
    press(page, "Compare")

    expect(question(page).get_by_role("listitem")).to_have_count(len(QUIZ.questions[-1].rubric))
    reply(page, check)
    assert check.answers["essay-only-tensors"]["text"] == "Because of the version check."


def test_an_essay_that_was_not_compared_is_there_again(
    browser: Browser, page: Page, check: KnowledgeCheck
) -> None:
    go(page, len(QUIZ.questions))
    question(page).get_by_role("textbox").fill("Because of")
    check.drafts = page.evaluate("saved.at(-1).drafts")
    with showing(browser, check) as again:
        go(again, len(QUIZ.questions))
        expect(question(again).get_by_role("textbox")).to_have_value("Because of")
        expect(question(again).get_by_role("status")).to_have_text("")


def test_a_dead_kernel_is_said(page: Page) -> None:
    hold_the_clock(page)
    choose(page, right)
    press(page, "Check")
    page.clock.run_for(6_000)

    expect(page.get_by_text("this answer may not be saved")).to_be_visible()


def test_the_same_answer_again_waits_for_nothing(page: Page, check: KnowledgeCheck) -> None:
    choose(page, right)
    press(page, "Check")
    reply(page, check)
    hold_the_clock(page)
    press(page, "Check")
    page.clock.run_for(6_000)

    expect(page.get_by_text("this answer may not be saved")).to_have_count(0)


def test_it_is_answered_by_keyboard_alone(page: Page) -> None:
    question(page).get_by_role("radio").first.focus()
    for key in ("Space", *("ArrowDown" for _ in range("abcd".index(right))), "Tab", "Enter"):
        page.keyboard.press(key)

    expect(question(page).get_by_role("status")).to_have_text("✓ Right.")
    page.keyboard.press("d")
    assert page.evaluate("escaped") == []


def test_a_question_is_named_for_who_cannot_see(page: Page) -> None:
    expect(
        page.get_by_role("group", name="Let y = f(x), and let J be its Jacobian")
    ).to_be_visible()
    names = page.evaluate("[...document.querySelectorAll('[type=radio]')].map(r => r.name)")

    assert len(set(names)) == sum(not q.several for q in QUIZ.choices)


def test_the_view_opens_on_the_first_open_question(browser: Browser) -> None:
    check = knowledge_check("01")
    for q in QUIZ.choices[:3]:
        check.answer(q.id, "a")
    with showing(browser, knowledge_check("01")) as page:
        expect(question(page)).to_contain_text("Question 4")
        expect(page.get_by_role("button", name="Question 1, not right yet")).to_have_text("1 ✗")


@pytest.mark.parametrize("dark", first_rows([False, True], most=1))
def test_words_are_legible(browser: Browser, check: KnowledgeCheck, dark: bool) -> None:
    with showing(browser, check, dark=dark) as page:
        choose(page, right)
        press(page, "Check")
        colors = page.evaluate(
            """() => ['.ac-quiz-summary', '.ac-quiz-why b', '.ac-quiz-verdict', '.ac-quiz-letter',
                 'legend']
                 .map(name => getComputedStyle(document.querySelector(name)).color)"""
        )
    ground = (17, 17, 17) if dark else (255, 255, 255)
    assert min(contrast(color, ground) for color in colors) >= 4.5


def contrast(color: str, ground: tuple[int, ...]) -> float:
    ink = [float(c) for c in color.partition("(")[2].rstrip(")").split(",")[:3]]
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: list[float] | tuple[int, ...]) -> float:
    linear = [
        c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_nothing_is_cut_off_where_it_is_narrow(browser: Browser, check: KnowledgeCheck) -> None:
    with showing(browser, check) as page:
        page.set_viewport_size({"width": 480, "height": 900})
        page.get_by_role("button", name="Show all").click()

        assert page.evaluate("document.documentElement.scrollWidth") <= 480


def test_what_a_question_brings_is_shown_as_text(browser: Browser) -> None:
    harmful = "<img src=x onerror=alert(1)> [click](javascript:alert(1))"
    options = "".join(
        f'[[question.option]]\ntext = "{harmful} {right}"\nright = {right}\n'
        f'explanation = "{harmful}"\n'
        for right in ("true", "false")
    )
    file = f'title = "{harmful}"\n[[question]]\nid = "q"\ntext = "{harmful}"\n{options}'

    with showing(browser, KnowledgeCheck(read(file, "01"))) as page:
        choose(page, "a")
        press(page, "Check")

        expect(page.locator(".ac-quiz-why:visible").first).to_contain_text(harmful)
        expect(page.locator(".ac-quiz").locator("img, a, script")).to_have_count(0)
