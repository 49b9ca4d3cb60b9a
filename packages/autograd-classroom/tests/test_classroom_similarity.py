"""Disguised copies count as similar. Code that every student must write does not."""

from __future__ import annotations

import time

import pytest
from autograd_classroom.similarity import Handed, alike, fingerprints, side_by_side
from autograd_classroom.similarity.groups import LONG
from behind_the_wall import handed_in
from handed_in import SQUARE, STUB

from autograd_course.grader import CATALOGUE

pytestmark = pytest.mark.slow

FORWARD = """\
    @staticmethod
    def forward(ctx, x, y):
        squared = x * x + y * y
        radius = torch.where(squared > 1e-12, squared.sqrt(), squared.abs() ** 0.5)
        ctx.save_for_backward(x, y, radius)
        return radius.clone(), torch.arctan2(y, x).add(0.0)
"""
BACKWARD = """\
    @staticmethod
    def backward(ctx, g_radius, g_angle):
        a, b, r = ctx.saved_tensors
        inverse = torch.reciprocal(r)
        normal = torch.stack([a * inverse, b * inverse])
        tangent = torch.stack([-normal[1], normal[0]]) * inverse
        total = normal * g_radius.unsqueeze(0) + tangent * g_angle.unsqueeze(0)
        return total.select(0, 0), total.select(0, 1)
"""
OWN = f"class ToPolar(Function):\n{FORWARD}\n{BACKWARD}"
COMMON = """\
class ToPolar(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        r = torch.hypot(x, y)
        ctx.save_for_backward(x, y)
        return r, torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y = ctx.saved_tensors
        r = torch.hypot(x, y)
        grad_x = x / r * grad_r - y / r**2 * grad_theta
        grad_y = y / r * grad_r + x / r**2 * grad_theta
        return grad_x, grad_y
"""
CLOTHES = {
    "the same text": OWN,
    "names": OWN.replace("squared", "s").replace("normal", "unit").replace("(ctx, x", "(c, u"),
    "layout": OWN.replace("= torch", "=  torch").replace("    ", "  "),
    "comments": OWN.replace("inverse\n", "inverse  # 1/r\n"),
    "types and docstrings": OWN.replace("y):", 'y: Tensor) -> Any:\n        """Mine."""'),
    "the order of methods": f"class ToPolar(Function):\n{BACKWARD}\n{FORWARD}",
    "a line of one's own": OWN.replace("        inv", "        assert r.dtype\n        inv", 1),
}


def others(count: int) -> list[Handed]:
    """Return the answers of a class that learned from one lesson. Each is a little different."""
    return [
        Handed(f"other {n}", COMMON.replace("r**2", ["r**2", "r * r", "r.square()"][n % 3]))
        for n in range(count)
    ]


@pytest.mark.parametrize("clothes", CLOTHES)
@pytest.mark.parametrize("size", [15, 150])
def test_a_copy_in_other_clothes_is_found_and_the_class_is_not(clothes: str, size: int) -> None:
    found = alike([*others(size), Handed("one", OWN), Handed("two", CLOTHES[clothes])])

    assert [set(group.codes) for group in found] == [{"one", "two"}]
    assert found[0].share > 0.8


def test_one_code_of_several_students_is_a_group_of_its_own() -> None:
    found = alike([*others(30), Handed("one", OWN, students=3)])

    assert [group.codes for group in found] == [("one",)]


PUBLISHED = {
    "of 12": [*others(5), Handed("one", OWN, 4), Handed("two", CLOTHES["comments"], 3)],
    "of 200": [*others(193), Handed("one", OWN, 4), Handed("two", CLOTHES["names"], 3)],
    "but for one, who changed a line": [
        *others(4), Handed("one", OWN, 4), Handed("two", CLOTHES["comments"], 3),
        Handed("three", OWN.replace("radius.clone()", "radius.detach().clone()")),
    ],
    "all": [Handed("one", OWN, 4), Handed("two", CLOTHES["names"], 3)],
}  # fmt: skip


@pytest.mark.parametrize("codes", PUBLISHED.values(), ids=PUBLISHED)
def test_one_long_code_that_seven_handed_in_is_a_group_however_many_they_are_of(
    codes: list[Handed],
) -> None:
    group = alike(codes)[0]

    assert {"one", "two"} <= set(group.codes) <= {"one", "two", "three"}
    assert group.same == 7


CHANGED = OWN.replace("radius.clone()", "radius.detach().clone()")


@pytest.mark.parametrize("many", [4, 20, 60])
def test_a_copy_of_a_code_that_many_have_is_named_though_it_differs_in_one_line(many: int) -> None:
    codes = [*others(10), Handed("many", OWN, many), Handed("changed", CHANGED)]
    group = alike(codes)[0]

    assert set(group.codes) == {"many", "changed"}
    assert group.same == many


def test_sixty_copies_that_each_differ_in_one_line_are_named() -> None:
    lines = [OWN.replace("1e-12", f"1e-{n + 20}") for n in range(60)]
    codes = [Handed("many", OWN, 3), *(Handed(str(n), line) for n, line in enumerate(lines))]
    (group,) = alike(codes)

    assert len(group.codes) == 61


@pytest.mark.parametrize("exercise", CATALOGUE)
def test_what_a_notebook_gives_is_no_long_code(exercise: str) -> None:
    given = fingerprints(handed_in("exercises", exercise).source)
    solved = fingerprints(handed_in("solutions", exercise).source)

    assert len(given) < LONG, "alone"
    assert len(solved - given) >= LONG / 2 or len(solved) < LONG, "with a little of one's own"


SILENT = {
    "short answers": [Handed(f"{n}", SQUARE.replace("x * x", f"x * x + {n}")) for n in range(30)],
    "two short answers, of many": [*others(30), Handed("1", SQUARE), Handed("2", SQUARE + "\n")],
    "what all have": [Handed("all", COMMON, students=40)],
    "a class of two": [Handed("1", COMMON), Handed("2", COMMON + "\n")],
    "untouched stubs": [*others(30), Handed("1", STUB), Handed("2", STUB + "\n")],
    "what was given": [*others(30), Handed("1", OWN, 2, attempted=False)],
    "a given code, repaired by many": [
        Handed("0", OWN, 9, attempted=False), Handed("1", OWN.replace("0.0", "1.0"), 20)
    ],
    "a given code, repaired": [Handed("0", OWN, 30, attempted=False), Handed("1", OWN + "\n", 2)],
    "no Python": [Handed("1", "def ("), Handed("2", "def ( ")],
    "nothing": [],
}  # fmt: skip


@pytest.mark.parametrize("codes", SILENT.values(), ids=SILENT)
def test_what_must_be_alike_is_not_named(codes: list[Handed]) -> None:
    assert alike(codes) == []


HOSTILE = {
    "deep": "x = " + "-" * 50_000 + "1",
    "nested": "(" * 5_000,
    "long": "x = [" + "1, " * 100_000 + "]",
    "a null byte": "x = '\0'",
    "a lone surrogate": "x = '\ud800'",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_has_fingerprints_soon_or_none(source: str) -> None:
    begun = time.process_time()
    fingerprints(source)

    assert time.process_time() - begun < 5


def test_deep_code_has_fingerprints() -> None:
    assert fingerprints("x = " + "-" * 990 + "1")


def test_side_by_side_equal_lines_stand_beside_each_other() -> None:
    lines = list(side_by_side("a\nb\nc", "a\nx\ny\nc"))

    assert [(line.left, line.right) for line in lines] == [
        ("a", "a"), ("b", "x"), ("", "y"), ("c", "c"),
    ]  # fmt: skip
    assert [line.differs for line in lines] == [False, True, True, False]
