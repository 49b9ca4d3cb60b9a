"""Programs that differ only in local names, comments and layout have the same canonical form."""

from __future__ import annotations

import pytest
from autograd_classroom.grading.canonical import canonical

from autograd_course.extraction import Answer

FORWARD = "ctx.save_for_backward(x)\n        return x * x"
BACKWARD = "(x,) = ctx.saved_tensors\n        return 2 * x * g"


def square(
    forward: str = FORWARD,
    backward: str = BACKWARD,
    takes: tuple[str, str] = ("ctx, x", "ctx, g"),
    before: str = "",
) -> str:
    return f"""{before}
class Square(torch.autograd.Function):
    @staticmethod
    def forward({takes[0]}):
        {forward}
    @staticmethod
    def backward({takes[1]}):
        {backward}
"""


def form(source: str, preamble: str = "import torch", exercise: str = "square") -> str | None:
    return canonical(Answer(exercise, "", "Square", source, preamble))


SAME = {
    "arguments": square(
        "c.save_for_backward(y)\n        return y * y",
        "(y,) = c.saved_tensors\n        return 2 * y * grad",
        ("c, y", "c, grad"),
    ),
    "comments": square(f"# the square\n        {FORWARD}  # done"),
    "layout": square(FORWARD.replace("x * x", "(\n            x\n            *x\n        )")),
    "docstrings": square(f'"""Square x."""\n        {FORWARD}'),
}


@pytest.mark.parametrize("source", SAME.values(), ids=SAME)
def test_these_are_the_same_program(source: str) -> None:
    assert form(source) == form(square()) is not None


HELPER = "def half(x):\n    return x / 2"
DIFFERENT = {
    "another formula": (square(), square(backward=BACKWARD.replace("2", "3"))),
    "a number of another type": (square(), square(backward=BACKWARD.replace("2", "2.0"))),
    "another attribute": (square(), square(backward=BACKWARD.replace("saved_tensors", "saved"))),
    "exchanged names": (
        square(backward="(x,) = ctx.saved_tensors\n        return x - g"),
        square(backward="(x,) = ctx.saved_tensors\n        return g - x"),
    ),
    "one name for two variables": (
        square(backward="(x,) = ctx.saved_tensors\n        y = 2 * x\n        return y * g"),
        square(backward="(x,) = ctx.saved_tensors\n        x = 2 * x\n        return x * g"),
    ),
    "a name that is never defined": (
        square(backward=BACKWARD),
        square(backward=BACKWARD.replace("(x,)", "(y,)")),
    ),
    "a name that hides a builtin": (
        square("s = 1\n        return sum(x)"),
        square("sum = 1\n        return sum(x)"),
    ),
    "a keyword of a helper": (
        square("return half(x=x)", before=HELPER),
        square("return half(x=x)", before=HELPER.replace("x", "y")),
    ),
    "a name in a string": (
        square("y = x\n        return eval('y * y')"),
        square("z = x\n        return eval('y * y')"),
    ),
    "a name that an import may define": (
        square("mean = x\n        return mean", before="from torch import *"),
        square("total = x\n        return total", before="from torch import *"),
    ),
    "an attribute of a local class": (
        square("class A:\n            b = 1\n        return x * A.b"),
        square("class A:\n            c = 1\n        return x * A.b"),
    ),
    "a name that selects a dim": (
        square("return x.sum(k)", takes=("ctx, x, k", "ctx, g")),
        square("return x.sum(dim)", takes=("ctx, x, dim", "ctx, g")),
    ),
    "a global": (
        square("return k * x", before="k = 1"),
        square("return k * x", before="j = 1"),
    ),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_these_are_different_programs(one: str, other: str) -> None:
    assert form(one) is not None
    assert form(one) != form(other)


def test_the_exercise_and_the_cells_count() -> None:
    forms = {
        form(square()),
        form(square(), preamble="import torch, math"),
        form(square(), exercise="linear"),
    }
    assert len(forms) == 3


@pytest.mark.parametrize("source", [
    "def f(a, b): return a\nf(**{chr(97): 1, 'b': 2})",
    "def f(): 'a docstring'\nf.__doc__",
    "def f(): 'a docstring'\ngetattr(f, '__doc__')",
    "def f():\n    try: x; x = 1\n    except NameError as error: str(error)",
    "class C:\n    def __exit__(self, kind, error, trace): print(error)",
    "import inspect\ndef f(a): pass\ninspect.signature(f)",
    "from warnings import catch_warnings\nwith catch_warnings(record=True) as seen: pass",
    "import numpy\nnumpy.testing.assert_raises_regex(NameError, 'x', f)",
])  # fmt: skip
def test_code_that_may_read_its_names_has_no_form(source: str) -> None:
    assert form(source) is None


def test_a_name_that_python_changes_in_a_class_stays() -> None:
    inside = "    class Q:\n        def g(): return __n\n    return Q.g()"
    source = "def f():\n    {} = 2; {} = 7\n" + inside
    assert form(source.format("_Q__n", "other")) != form(source.format("other", "_Q__n"))


@pytest.mark.parametrize("source", ["def", "(" * 5000, f"x = {'1 + ' * 6000}1", "\0"])
def test_what_cannot_be_compared_has_no_form(source: str) -> None:
    assert form(source) is None
