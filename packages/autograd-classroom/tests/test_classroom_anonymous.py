"""The anonymous form of an answer, and the verdicts that answers with the same form share."""

from __future__ import annotations

import pytest
from autograd_classroom.gradebook import Score
from autograd_classroom.grading.anonymous import Anonymous, anonymous

from autograd_course.extraction import Answer

ANN = """\
class Square(Function):
    @staticmethod
    def forward(ctx, größe):
        # the square
        ctx.save_for_backward(größe)
        return größe * größe  # done

    @staticmethod
    def backward(ctx, grad):
        (größe,) = ctx.saved_tensors
        return sum(size for size in [größe]) * grad
"""
BOB = ANN.replace("größe", "x").replace("the square", "x * x").replace("grad", "upstream")


def hidden(source: str, preamble: str = "import torch") -> Anonymous:
    found = anonymous(Answer("square", "", "Square", source, preamble))
    assert found is not None
    return found


def test_answers_with_other_names_and_comments_have_the_same_form_with_the_same_lines() -> None:
    ann, bob = hidden(ANN), hidden(BOB)

    assert ann.answer == bob.answer
    assert ann.names == ("größe", "grad", "size")
    assert bob.names == ("x", "upstream", "size")
    for own, line in zip(ANN.split("\n"), ann.answer.source.split("\n"), strict=True):
        assert len(line) <= len(own)
    lines = ann.answer.source.split("\n")
    assert lines[2:4] == ["    def forward(ctx, \ua000):", ""]
    assert lines[5].endswith("return \ua000 * \ua000  # done")


DIFFERENT = {
    "another layout": ANN.replace(" * ", "*"),
    "another comment behind code": ANN.replace("# done", "# ready"),
    "another docstring": ANN.replace("# the square", '"""x"""'),
    "a name that tells what the argument is for": ANN.replace("größe", "scale"),
    "a name that says that it is not used": ANN.replace("größe", "_size"),
    "a name that selects a dim": ANN.replace("größe", "dim"),
    "another name for ctx": ANN.replace("ctx", "c"),
}


@pytest.mark.parametrize("source", DIFFERENT.values(), ids=DIFFERENT)
def test_answers_with_other_lines_or_telling_names_have_another_form(source: str) -> None:
    assert hidden(source).answer.hash != hidden(ANN).answer.hash


@pytest.mark.parametrize("source", [
    "def f(",
    "def f():\n    x = 1\n    return vars()['__doc__'], x",
    "def f():\n    \ua000 = 1\n    return \ua000",
    "def f():\n    x = 1\r    return x",
    "def f():\n    # a\u2028b\n    x = 1\n    return x",
    f"def f():\n    {'x' * 51} = 1",
    "def f():\n    x = 1\n    return '\ua000', x",
])  # fmt: skip
def test_some_answers_have_no_anonymous_form(source: str) -> None:
    assert anonymous(Answer("square", "", "f", source)) is None


def test_a_name_in_an_f_string_is_replaced_or_the_answer_has_no_form() -> None:
    """Python 3.11 does not say where in an f-string a name is."""
    found = anonymous(Answer("square", "", "f", "def f():\n    x = 1\n    return f'the {x + x}'"))

    assert found is None or found.answer.source.endswith("return f'the {\ua000 + \ua000}'")


def test_letters_that_code_has_written_itself_stay() -> None:
    told = "the text \ua000 \ua003 \ua300"
    named = hidden(BOB).named(Score("", "square", "wrong", 0.0, message=told), "")
    many = hidden(BOB).named(Score("", "square", "wrong", 0.0, message="\ua000" * 2000), "")

    assert named.message == "the text x \ua003 \ua300"
    assert many.message == "\ua000" * 2000


def test_a_shared_verdict_quotes_the_names_of_each_answer() -> None:
    score = Score(
        "", "square", "wrong", 0.0, "constant-factor", "half of `\ua000` (\ua0011)",
        {"with \ua001": [{"line": "\ua000 * \ua001"}, 0.5, None, ("\ua002",)]},
        remarks=("keeps \ua000",), seed="7",
    )  # fmt: skip

    named = hidden(BOB).named(score, "the hash")

    assert named.message == "half of `x` (upstream1)"
    assert named.evidence == {"with upstream": [{"line": "x * upstream"}, 0.5, None, ["size"]]}
    assert named.remarks == ("keeps x",)
    assert (named.hash, named.seed, named.rule) == ("the hash", "7", "constant-factor")
