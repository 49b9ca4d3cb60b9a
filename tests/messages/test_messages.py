"""Each page of the index causes its message, the message leads to the page, and the repair runs."""

from __future__ import annotations

import copy
import gc
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from autograd_doctor import RULES
from running_pages import BLOCK, run, sections
from sampling import first_rows

from autograd_course import explain
from autograd_course.explaining import NothingToExplainError
from autograd_course.index import LESSONS
from autograd_course.messages import MESSAGES, find, page
from autograd_course.messages.pages import FAMILIES, MessageError, read
from tools.page_books import _GIVEN as GIVEN
from tools.page_books import messages_book

pytestmark = pytest.mark.slow

# Warnings from PyTorch's own code: its forward mode compiles, and its compiler makes instances.
PYTORCHS_OWN = (r".*torch\.jit", r"<class 'torch\.autograd\.function\.Function'> should not be")
each_message = pytest.mark.parametrize("name", MESSAGES)


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def provoked(code: str, names: dict[str, Any]) -> tuple[set[str], str, str]:
    """Run a block of code. Return its kinds of errors and warnings, their text, and its output.

    The kinds are the names of the exception's classes, because a test also accepts a parent class.
    """
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            _, printed = run(code, names)
        except Exception as error:
            return {kind.__name__ for kind in type(error).__mro__}, one_line(error), ""
    said = [w for w in seen if not any(re.match(own, str(w.message)) for own in PYTORCHS_OWN)]
    kinds = {kind.__name__ for w in said for kind in w.category.__mro__}
    return kinds, " ".join(one_line(w.message) for w in said), printed


def checked(text: str, names: dict[str, Any], run_block: Callable[..., Any]) -> list[Any]:
    """Run a section's blocks in order. The output must equal the output on the page."""
    results: list[Any] = []
    for kind, body in BLOCK.findall(text):
        if kind == "python":
            results.append(run_block(body, names))
        else:
            assert results[-1][-1].strip() == body.strip()
    return results


@pytest.mark.parametrize("name", first_rows(MESSAGES, lambda name: MESSAGES[name].lesson, most=2))
def test_a_page_provokes_its_message_and_repairs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, text = MESSAGES[name], sections(page(name))
    module = types.ModuleType("page_of_messages")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # the compiler imports this module
    names = module.__dict__
    exec(GIVEN, names)

    *_, (kinds, said, printed) = checked(text[""], names, provoked)

    if message.silent:
        assert not said
        assert printed
    else:
        assert message.kind in kinds, f"{kinds}: {said}"
        match = find(f"Traceback (most recent call last):\n{message.kind}: {said}")
        assert match is not None
        assert match.exact
        assert match.message.name == name, said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for own in PYTORCHS_OWN:
            warnings.filterwarnings("ignore", message=own, category=DeprecationWarning)
        assert checked(text["Repair"], names, run), "a repair is shown by code that runs"
    gc.collect()


@each_message
def test_a_page_is_complete(name: str) -> None:
    message, text = MESSAGES[name], page(name)

    assert list(sections(text)) == ["", "Repair"]
    assert message.lesson in LESSONS
    own = message.text.splitlines()
    assert max(map(len, own)) <= 100
    assert all(pattern == pattern.strip() for pattern in message.patterns)


def test_there_are_messages_of_every_family_and_pages_enough() -> None:
    assert {message.family for message in MESSAGES.values()} == set(FAMILIES)
    assert len([m for m in MESSAGES.values() if not m.silent]) >= 50
    assert all(m.silent == (m.family == FAMILIES[-1]) for m in MESSAGES.values())


def test_no_pattern_stands_in_two_pages() -> None:
    patterns = [pattern for m in MESSAGES.values() for pattern in m.patterns]

    assert len(set(patterns)) == len(patterns)


PASTED = {
    "other names and numbers": (
        "RuntimeError: function FlashAttentionBackward returned an incorrect number of gradients "
        "(expected 11, got 10)",
        "incorrect-number-of-gradients",
    ),
    "a traceback with frames": (
        "Traceback (most recent call last):\n"
        '  File "/home/ada/train.py", line 31, in step\n'
        "    loss.backward()  # grad can be implicitly created only for scalar outputs\n"
        "RuntimeError: Trying to backward through the graph a second time (or directly access\n"
        "saved tensors after they have already been freed).",
        "second-time-backward",
    ),
    "a message broken into lines": (
        "Output 0 of GradientReversal\nis a view and is being modified inplace. This view was\n"
        "created inside a custom Function (or because an input was returned as-is)",
        "view-of-custom-function",
    ),
    "the wording of an older release": (
        "RuntimeError: One of the differentiated Tensors appears to not have been used in the "
        "graph. Set allow_unused=True if this is the desired behavior.",
        "not-used-in-graph",
    ),
    "a symptom": ("x.grad is None after backward and nothing was raised", "grad-stays-none"),
}


@pytest.mark.parametrize(("text", "name"), PASTED.values(), ids=PASTED)
def test_a_pasted_text_finds_its_page(text: str, name: str) -> None:
    match = find(text)

    assert match is not None
    assert (match.message.name, match.exact) == (name, True)


def test_a_changed_wording_finds_the_closest_page_and_says_so() -> None:
    said = "gradcheck wants at least one input tensor to require a gradient, none of 3 has it"
    match = find(said)

    assert match is not None
    assert (match.message.name, match.exact) == ("gradcheck-nothing-to-check", False)
    assert str(explain(said)).startswith("*This is the closest message with a page")


@pytest.mark.parametrize(
    "text",
    ["KeyError: 'weight'", "CUDA out of memory. Tried to allocate 2.00 GiB", "it does not work"],
)
def test_what_is_not_in_the_index_is_not_guessed_at(text: str) -> None:
    assert find(text) is None
    with pytest.raises(NothingToExplainError, match="No page is about a message like this one"):
        explain(text)


def test_a_text_with_two_messages_names_both() -> None:
    text = "\n".join(MESSAGES[name].patterns[0] for name in ("leaf-in-place", "jacobian-mismatch"))

    assert "The text also contains these messages: `" in str(explain(text))


@pytest.mark.parametrize(
    "typed", ["missing dependency", "Missing_Dependency", "MISSING-DEPENDENCY", "MissingDependency"]
)
def test_a_rule_may_be_typed_in_other_ways(typed: str) -> None:
    assert str(explain(typed)).startswith("# missing-dependency")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("inplace operation", "modified-by-inplace"),
        ("broadcast", "unreduced-broadcast"),
        ("linear", "nonlinear-in-grad-output"),
    ],
)
def test_a_few_words_find_the_only_page_about_them(words: str, name: str) -> None:
    assert str(explain(words)) == str(explain(name))


def test_a_few_words_list_the_pages_about_them_if_there_are_several() -> None:
    assert "- `no-jvp`: " in str(explain("jvp"))
    assert "- `wrong-jvp`: " in str(explain("jvp"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [("mising dependncy", "Did you mean missing-dependency"), (7, "not something of type int")],
)
def test_what_has_no_page_is_told_in_a_sentence(asked: Any, says: str) -> None:
    with pytest.raises(NothingToExplainError, match=says) as told:
        explain(asked)
    assert "\n" not in str(told.value)


def test_explain_takes_an_exception_a_rule_a_page_and_nothing() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        (2 * x).backward()

    assert str(explain(caught.value)).startswith("# scalar-outputs\n")
    assert str(explain("constant-factor")).startswith("# constant-factor\n")
    assert explain("leaf-in-place")._repr_markdown_() == page("leaf-in-place")
    listed = str(explain())
    assert all(f"`{name}`" in listed for name in (*RULES, *MESSAGES))


def test_the_book_holds_every_page_and_a_table_of_them() -> None:
    text = messages_book()

    for name in MESSAGES:
        assert f"[`{name}`](#{name})" in text
        assert f"\n## {name}\n" in text


HEAD = {
    "kind": '"E"',
    "family": '"engine"',
    "matches": '["what it says"]',
    "lesson": '"01_template"',
}
WRONG = {
    "no head": ("text", "must begin with a header"),
    "no lesson": ({"lesson": None}, "has no lesson"),
    "another key": ({"severity": '"error"'}, "unknown entry 'severity'"),
    "no words": ({"matches": '["…"]'}, "matches nothing"),
    "another family": ({"family": '"weather"'}, "'weather' is not a family"),
    "another rule": ({"rule": '"weather"'}, "'weather' is not a rule"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_page_is_said(change: str | dict[str, Any], words: str) -> None:
    text = change
    if isinstance(change, dict):
        head = copy.copy(HEAD) | change
        lines = "".join(f"{key} = {value}\n" for key, value in head.items() if value)
        text = f"+++\n{lines}+++\ntext"

    with pytest.raises(MessageError, match=words) as error:
        read("a-page", str(text))

    assert "messages/a-page.md" in str(error.value)
