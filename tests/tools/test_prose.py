"""The linter for prose: each of our rules, and the sources of the sentences."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from repository import ROOT

from tools.prose.linter import EXCEPTIONS, LONGEST, in_our_words, in_words_of_proselint
from tools.prose.sentences import Sentence, of_markdown, of_python, sentences
from tools.prose.wording import WORDINGS, Wording

PAGE, MODULE = Path("page.md"), Path("module.py")


def said(text: str) -> Sentence:
    return Sentence(PAGE, 1, text)


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.finds)
def test_a_rule_finds_its_example_and_leaves_a_similar_sentence(wording: Wording) -> None:
    found = [finding.instead for finding in in_our_words([said(wording.finds)])]

    assert found == [f"write: {wording.instead}"]
    assert not [*in_our_words([said(wording.leaves)])]


def test_a_rule_finds_nothing_in_code() -> None:
    assert not [*in_our_words([said("Call `in_order_to`, or `x  in order to y`.")])]


def test_a_sentence_is_too_long_from_one_word_on() -> None:
    longest = " ".join(["word"] * LONGEST)

    assert not [*in_our_words([said(f"{longest}.")])]
    (finding,) = in_our_words([said(f"{longest} word.")])
    assert finding.words == f"{LONGEST + 1} words"


def test_code_counts_as_one_word() -> None:
    words = " ".join(["word"] * (LONGEST - 1))

    assert not [*in_our_words([said(f"{words} `a longer call with (many, words)`.")])]


def test_proselint_finds_a_sentence_among_others() -> None:
    read = [said("It is fine."), said("This is the the sentence."), said("Fine it is.")]

    (finding,) = in_words_of_proselint(read)

    assert finding.sentence is read[1]
    assert finding.words == "the the"


def test_proselint_finds_no_repetition_across_two_sentences() -> None:
    assert not [*in_words_of_proselint([said("Use the file"), said("file of the page")])]


def test_a_finding_names_place_sentence_and_what_to_write() -> None:
    sentence = Sentence(PAGE, 7, "Save it in order to reuse it.")

    (finding,) = in_our_words([sentence])

    assert str(finding) == (
        "page.md:7: Save it in order to reuse it.\n    'in order to': write: to"
    )


def test_a_page_is_read_as_headings_paragraphs_items_and_cells() -> None:
    page = textwrap.dedent(
        """\
        +++
        kind = "not a sentence"
        +++
        # Title

        One `call(x. Y)` here. Two
        lines, e.g. These. "Three."

        - An item.

        | Head | Cell |
        | --- | --- |
        | First. | Second. Third. |

        ```python
        "No sentence."
        ```
        """
    )

    assert [(each.line, each.text) for each in of_markdown(page, PAGE)] == [
        (4, "Title"),
        (6, "One `call(x. Y)` here."),
        (6, "Two lines, e.g. These."),
        (7, '"Three."'),
        (9, "An item."),
        (11, "Head"),
        (11, "Cell"),
        (13, "First."),
        (13, "Second."),
        (13, "Third."),
    ]


def test_a_module_is_read_as_docstrings_and_as_what_it_prints() -> None:
    module = textwrap.dedent(
        '''\
        """Says one thing. Says another."""

        KEY = "a short key"


        def f(x):
            """Return it.

            Args:
                x: What it takes.

            Example:
                >>> f("this is not a sentence at all")
            """
            code = "x = 1\\ny = 2  # this is not a sentence"
            raise ValueError(f"{x} is too large for this. Take a smaller one.\\n\\nOr {code} too.")
        '''
    )

    assert [(each.line, each.text) for each in of_python(module, MODULE)] == [
        (1, "Says one thing."),
        (1, "Says another."),
        (7, "Return it."),
        (10, "x: What it takes."),
        (12, "Example:"),
        (16, "… is too large for this."),
        (16, "Take a smaller one."),
        (16, "Or … too."),
    ]


@pytest.fixture(scope="module")
def everything() -> list[Sentence]:
    return [*sentences(ROOT)]


def test_every_kind_of_text_is_read(everything: list[Sentence]) -> None:
    files = {str(sentence.path) for sentence in everything}

    assert {
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/checking.md",
        "autograd_course/grader/README.md",
        "autograd_course/messages/vmap-item.md",
        "autograd_course/practice/commands.py",
        "packages/autograd-doctor/README.md",
        "packages/autograd-doctor/src/autograd_doctor/_rules/oversaved.md",
        "packages/autograd-doctor/src/autograd_doctor/_rules/linearity.py",
    } <= files
    assert not {file for file in files if "tests" in Path(file).parts}


def test_there_are_few_exceptions_and_each_is_needed(everything: list[Sentence]) -> None:
    read = {sentence.text for sentence in everything}

    assert len(EXCEPTIONS) <= 10
    assert read >= EXCEPTIONS.keys()
