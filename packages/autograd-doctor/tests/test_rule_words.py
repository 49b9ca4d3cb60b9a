"""The wording of the rule branches that no first witness reaches."""

from __future__ import annotations

import json
import re

import pytest
import torch
from autograd_doctor import RULES, diagnose
from autograd_doctor._rules.values import without_repeats
from autograd_doctor.formatting import elements, listed, nth, paragraph
from cases import LOOKALIKES, Case, said
from cases.making import X, raw, saving
from cases.order import split
from cases.worded import CLEAN, OF_LOOKALIKES
from right import LeakyReLUInPlace
from sampling import first_rows
from torch import Tensor

# Words that reports avoid, because the field uses different ones or readers stumble over them.
UNUSED = re.compile(
    r"\b(witness|axis|axes|cotangent|the engine|of yours|whoever|who calls|who writes|comes out|"
    r"asks? for none|once more|anew|is told|held fixed|stands|is no|by one)\b"
)
SAID_BY_RULES = json.loads(said.FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RULES)
def test_a_hint_says_in_plain_words_what_to_change(name: str) -> None:
    hint = RULES[name].hint

    assert re.match(r"[A-Z][a-z]+ .*\.$", hint)
    assert "?" not in hint
    assert not UNUSED.search(f"{hint} {RULES[name].title}")


@pytest.mark.parametrize("name", SAID_BY_RULES)
def test_a_message_is_in_plain_words(name: str) -> None:
    message = SAID_BY_RULES[name]["message"]

    assert not UNUSED.search(message)
    assert len(re.findall(r"[:;] ", message.partition("raises")[0])) <= 1


# A name from the user's code, or a method's name, that is not marked as code.
BARE = re.compile(
    r"\b(forward|backward)\b(?! (pass|mode))|\bargs\[\d|\b(grad_output|ctx|jvp|vmap)\b|\w\(\)"
)


@pytest.mark.parametrize("name", SAID_BY_RULES)
def test_a_message_marks_what_is_code(name: str) -> None:
    message = SAID_BY_RULES[name]["message"].partition("raises")[0]

    assert message.count("`") % 2 == 0
    assert not BARE.search(re.sub("`[^`]+`", "…", message))


@pytest.mark.parametrize("name", RULES)
def test_a_hint_marks_what_is_code(name: str) -> None:
    assert not BARE.search(re.sub("`[^`]+`", "…", RULES[name].hint))


def returns_it(input: Tensor) -> Tensor:
    return input.view_as(input)


def shrinks_it(input: Tensor) -> Tensor:
    return input.mul_(0.5)


def passes(ctx, g: Tensor) -> Tensor:
    return g


def keeps_it(ctx, input: Tensor) -> Tensor:
    ctx.kept = input
    return input.square()


@pytest.mark.parametrize(
    ("fn", "rule"),
    [
        (
            split(returns_it, lambda ctx, g: g, setup=lambda ctx, inputs, output: None),
            "returns-view",
        ),
        (
            split(shrinks_it, lambda ctx, g: g, setup=lambda ctx, inputs, output: None),
            "mutates-input",
        ),
        (raw(keeps_it, lambda ctx, g: 2 * ctx.kept * g), "tensor-on-ctx"),
        (raw(lambda ctx, input: 0 * input.detach() + 1, passes), "extra-gradient"),
    ],
)
def test_an_argument_called_input_is_named_once(fn, rule: str) -> None:
    found = diagnose(fn, (X,)).findings[0]

    assert found.rule == rule
    assert "`input`" in found.message
    assert "input input" not in found.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (elements(3, 12), "3 of 12 elements"),
        (elements(12, 12), "all 12 elements"),
        (elements(1, 1), "its only element"),
        (listed(["first"]), "first"),
        (listed([nth(k) for k in range(3)]), "first, second and third"),
        (listed(["a", "b", "c", "d"]), "a, b and 2 more"),
        (nth(8), "9th"),
        (paragraph(["the first"]), "the first."),
        (
            paragraph(["the first", "the second", "x is third"]),
            "the first. The second. x is third.",
        ),
    ],
)
def test_words_fit_their_number(text: str, words: str) -> None:
    assert text == words


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["x is 1. So is w", "y is 2. So is w"], ["x is 1", "y is 2", "So is w"]),
        (["x is 1. So is w", "y is 2"], ["x is 1. So is w", "y is 2"]),
        (["x is 1", "y is 2"], ["x is 1", "y is 2"]),
    ],
)
def test_what_follows_for_several_inputs_is_said_once(told: list[str], words: list[str]) -> None:
    assert without_repeats(told) == words


def only(name: str, cases: list[Case]) -> Case:
    (case,) = [case for case in cases if f"{case.rule}: {case.what}" == name]
    return case


@pytest.mark.parametrize("name", first_rows(OF_LOOKALIKES))
def test_a_rule_takes_this_for_no_fault(name: str) -> None:
    case = only(name, LOOKALIKES)
    diagnosis = diagnose(case.fn, case.inputs, **case.options)

    assert case.rule not in [finding.rule for finding in diagnosis.findings], str(diagnosis)


def test_what_float32_loses_is_told_by_the_element_that_loses_most() -> None:
    far_from_zero = saving(lambda x: 1 - x.cos(), lambda x, g: x.sin() * g)
    found = diagnose(far_from_zero, (torch.tensor([0, 0.5, 0.6, 0.7, 0.8, 0.9, 3]),)).findings[0]

    told = r"args\[0\]\[[1-5]\] = \d\S+: \d\S+, should be \d\S+, a relative error of \de-0[1-5]"
    assert found.rule == "precision"
    assert re.fullmatch(told, found.evidence["witness"]), found.evidence["witness"]


def test_a_gradient_in_a_shorter_dtype_is_told_once() -> None:
    narrow = saving(torch.sin, lambda x, g: (g * x.cos()).float())

    assert [found.rule for found in diagnose(narrow, (X,)).findings] == ["gradient-dtype"]


@pytest.mark.parametrize(("forward", "backward"), [r[1:] for r in CLEAN], ids=[r[0] for r in CLEAN])
def test_a_rule_does_not_take_rounding_for_a_mistake(forward, backward) -> None:
    diagnosis = diagnose(saving(forward, backward), (X,))

    assert diagnosis.ok, str(diagnosis)


def test_a_callable_may_change_the_input_that_it_returns() -> None:
    assert diagnose(lambda x: LeakyReLUInPlace.apply(x, 0.5), (X,)).ok


def saving_both(ctx, x: Tensor, w: Tensor) -> Tensor:
    ctx.save_for_backward(x, w)
    return x + w


@pytest.mark.parametrize(
    ("fn", "inputs", "says"),
    [
        (raw(saving_both, lambda ctx, g: (1 * g, 1 * g)), (X, X + 1),
         "`x` and `w` for `backward` (192 bytes in float64), but `backward` never "
         "unpacks them."),
        (raw(lambda ctx, x: float(x.sum()), lambda ctx, g: g), (X,),
         "`forward` returns a value of type float, but"),
        (raw(lambda ctx, x: (1.0, 2), lambda ctx, g: g), (X,),
         "`forward` returns values of type float, int, but"),
    ],
    ids=["two saved tensors", "one value", "two values"],
)  # fmt: skip
def test_one_thing_and_several_are_told_as_such(fn, inputs, says) -> None:
    messages = [finding.message for finding in diagnose(fn, inputs).findings]

    assert any(says in message for message in messages), messages
