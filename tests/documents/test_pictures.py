"""The pictures in README match their scripts, and their content is correct."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

import pytest
import torch
from pages import tags
from PIL import Image
from repository import ROOT

from autograd_course import grade
from autograd_course.visualize.flow.trace import Trace
from docs.pictures.flow import GROUNDS, animated, loss, traced
from docs.pictures.grader import ANSWER, EXERCISE, SAID, THEMES

pytestmark = [pytest.mark.slow, pytest.mark.checkout]

HERE = ROOT / "docs" / "pictures"
ALTS = {tag["src"]: tag["alt"] for tag in tags(ROOT / "README.md") if tag[""] == "img"}
REPAIR = "the committed picture is another: make pictures"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return traced()


def committed(scheme: str) -> str:
    return (HERE / f"gradient_flow_{scheme}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", GROUNDS)
def test_the_animation_is_what_the_script_makes_of_a_real_run(scheme: str, trace: Trace) -> None:
    assert committed(scheme) == animated(trace, scheme), REPAIR


def test_its_numbers_are_autograd_s() -> None:
    x, y = (torch.tensor(value, requires_grad=True) for value in (3.0, 2.0))
    result = loss(x, y)
    result.backward()

    shown = "".join(ElementTree.fromstring(committed("light")).itertext())
    said = ALTS["docs/pictures/gradient_flow_light.svg"]
    assert f"loss is {result.item():g}." in shown
    assert f"The forward pass computes the value {result.item():g}." in said
    for text in (f"x has gradient ∂ 12 + 1 = {x.grad:g}", f"y has gradient ∂ {y.grad:g}"):
        assert text in shown
    assert f"12 + 1 = {x.grad:g}" in said


@pytest.mark.parametrize("scheme", GROUNDS)
def test_it_needs_nothing_else_and_stands_still_for_those_who_ask(scheme: str) -> None:
    picture = committed(scheme)
    still, _, moving = picture.partition("@media (prefers-reduced-motion: no-preference){")

    assert "animation" not in still
    assert "animation" in moving
    assert not re.search(r"<script|@import|url\(|href=|http(?!://www\.w3\.org/2000/svg)", picture)
    assert len(picture.encode()) < 60_000


def test_its_moments_are_in_order() -> None:
    for name, frames in re.findall(
        r"@keyframes (\w+)\{((?:[^{}]*\{[^}]*\})*)\}", committed("light")
    ):
        moments = [float(moment) for moment in re.findall(r"([\d.e-]+)%\{", frames)]
        assert moments == sorted(moments), name
        assert (moments[0], moments[-1]) == (0, 100), name


# --- the screenshot -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the grader's report on the answer, whose source is in a file, as in a notebook."""
    file = tmp_path_factory.mktemp("answer") / "answer.py"
    file.write_text(ANSWER, encoding="utf-8")
    return str(grade(EXERCISE, run_path(str(file), {"torch": torch})["Swish"]))


@pytest.mark.parametrize("scheme", THEMES)
def test_the_grader_says_today_what_it_says_in_the_picture(scheme: str, said: str) -> None:
    path = Path(HERE, f"grader_{scheme}.png")
    with Image.open(path) as picture:
        assert picture.info[SAID] == said, REPAIR
    assert path.stat().st_size < 250_000


def test_the_words_beside_the_screenshot_are_the_grader_s(said: str) -> None:
    alt, one_line = ALTS["docs/pictures/grader_light.png"], " ".join(said.split())

    for words in (
        "missing-dependency",
        "does not include every path from",
        "grad_output * s",
    ):
        assert words in alt
        assert words in one_line
