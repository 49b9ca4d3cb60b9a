"""Answers are extracted from submissions, even if a notebook was changed or damaged."""

from __future__ import annotations

import ast
import difflib
import json
import random
import time
from contextlib import suppress

import jupytext
import nbformat
import pytest
import torch
from handed_in import (
    IMPORTS,
    SIGMOID,
    SQUARE,
    STUB,
    cell,
    notebook,
    solution,
    worksheets,
)
from repository import ROOT

from autograd_course.extraction import Answer, extract
from autograd_course.extraction.statements import Statement
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.index import INDEX, LESSONS, exercises_of
from autograd_course.notebook_files import UnreadableError, read

pytestmark = pytest.mark.slow

EXERCISE = CATALOGUE["square"]
GRADE = cell('grade("square", Square)', "square-grade")
PLAIN = (cell(IMPORTS), cell(SQUARE, "square"), GRADE)


def answer(data: bytes, exercise: str = "square") -> Answer:
    (found,) = extract(read(data), "ann", [CATALOGUE[exercise]])
    return found


def runs(found: Answer) -> bool:
    """Whether the extracted answer runs and defines the requested name."""
    namespace: dict[str, object] = {"__name__": "answer"}
    exec(compile(found.preamble, "<preamble>", "exec", dont_inherit=True), namespace)
    exec(compile(found.source, "<answer>", "exec", dont_inherit=True), namespace)
    return found.name in namespace


def with_square(*others: object, source: str = SQUARE) -> bytes:
    return notebook(cell(IMPORTS), *others, cell(source, "square"), GRADE)  # type: ignore[arg-type]


BIG = [{"output_type": "stream", "name": "stdout", "text": ["spam\n"] * 200_000}]
MERGED = notebook(*PLAIN).replace(b'"nbformat"', b'<<<<<<< HEAD\n>>>>>>> theirs\n"nbformat"')
HELPER = "def double(x):\n    return 2 * x"
USES = SQUARE.replace("2 * x", "double(x)")

# what was handed in → words that the answer's problems must contain ("": no problem)
ODD = {
    "as released and solved": (notebook(*PLAIN), ""),
    "UTF-8 with a mark": (b"\xef\xbb\xbf" + notebook(*PLAIN), ""),
    "reordered cells": (notebook(GRADE, cell(SQUARE, "square"), cell(IMPORTS)), "only below"),
    "nbformat 3": (worksheets(PLAIN), ""),
    "nbformat 4.0": (notebook(*PLAIN).replace(b'"nbformat_minor": 5', b'"nbformat_minor": 0'), ""),
    "metadata lost": (notebook(cell(IMPORTS), cell(SQUARE)), "another cell"),
    "tagged as another exercise": (
        notebook(cell(IMPORTS), cell(SQUARE, "scaled-sigmoid")), "another cell"),
    "two ids swapped": (
        notebook(cell(IMPORTS), cell(SIGMOID, "square"), cell(SQUARE, "scaled-sigmoid")),
        "another cell"),
    "id in capitals": (notebook(cell(IMPORTS), cell(SQUARE, "SQUARE")), ""),
    "id with a homoglyph": (
        notebook(cell(IMPORTS), cell(SQUARE, "squ\u0430re")),
        "it has a cyrillic small letter a; the cell is taken for 'square'"),
    "the same id twice": (
        notebook(cell(IMPORTS), cell("Square = 7", "square"), cell(SQUARE, "square")),
        "2 cells have the same id; the last"),
    "the same id twice, the last a stub": (
        notebook(cell(IMPORTS), cell(SQUARE, "square"), cell(STUB, "square")), "not empty"),
    "answered in a new cell, the stub left": (
        notebook(cell(IMPORTS), cell(STUB, "square"), cell(SQUARE)), "another cell"),
    "answered in a new cell, its own deleted": (
        notebook(cell(IMPORTS), cell("", "square"), cell(SQUARE)), "another cell"),
    "no imports": (notebook(cell(SQUARE, "square")), "torch is imported nowhere"),
    "a helper above": (with_square(cell(HELPER), source=USES), ""),
    "a helper below": (
        notebook(cell(IMPORTS), cell(USES, "square"), cell(HELPER)), "is defined only below"),
    "a helper of a helper": (
        with_square(cell("two = 2"), cell("def double(x):\n    return two * x"), source=USES), ""),
    "a helper that is filled step by step": (
        with_square(cell("table = []"), cell("table.append(2)"),
                    source=SQUARE.replace("2 * x", "table[0] * x")), ""),
    "a helper in the grader's cell's neighbour": (
        notebook(cell(IMPORTS), cell("double = lambda x: 2 * x"), cell(USES, "square"), GRADE), ""),
    "magics": (with_square(cell("%matplotlib inline\n!pip install torch\nfiles = !ls")), ""),
    "a magic in the answer's cell": (with_square(source=f"%load_ext autoreload\n{SQUARE}"), ""),
    "a cell magic on the answer": (with_square(source=f"%%time\n{SQUARE}"), ""),
    "a shell cell": (with_square(cell("%%bash\nrm -rf /")), ""),
    "a question mark": (with_square(cell("torch.sum?")), ""),
    "calls of the course": (with_square(source=f'{SQUARE}\ngrade("square", Square)'), ""),
    "a question to the person": (with_square(cell('input("go on?")')), ""),
    "an endless loop in a cell of its own": (with_square(cell("while True:\n    pass")), ""),
    "an exit in a cell of its own": (with_square(cell("import sys\nsys.exit()")), ""),
    "another cell that is not Python": (with_square(cell("def (")), ""),
    "100 MB of output would be no different": (
        notebook(cell(IMPORTS), cell(SQUARE, "square", outputs=BIG)), ""),
    "the marks of a merge": (MERGED, ""),
    "cells that are none": (notebook(None, 7, *PLAIN, {"cell_type": []}), ""),  # type: ignore[arg-type]
    "lone surrogates": (with_square(cell("x = '\ud800'")), ""),
    "Windows line ends": (with_square(source=SQUARE.replace("\n", "\r\n")), ""),
    "a renamed class, handed to grade": (
        notebook(cell(IMPORTS), cell(SQUARE.replace("Square", "MySquare"), "square"),
                 cell('grade("square", MySquare)', "square-grade")), "Square is asked for"),
    "a script with cells": (
        f"# %%\n{IMPORTS}\n# %% nbgrader={{\"grade_id\": \"square\"}}\n{SQUARE}".encode(), ""),
    "a script exported by nbconvert": (
        f"#!/usr/bin/env python\n# In[1]:\n\n{IMPORTS}\n\n# In[ ]:\n{SQUARE}".encode(), "another"),
    "a script without cells": (
        f"{IMPORTS}\n{SIGMOID}\n{SQUARE}\nwhile True: pass".encode(), "another cell"),
    "a script in Latin-1": (f"# caf\u00e9\n{IMPORTS}\n{SQUARE}".encode("latin-1"), "another cell"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_the_answer_is_found(what: str) -> None:
    data, said = ODD[what]
    found = answer(data)

    assert runs(found)
    assert "2 * x" in found.source or "double" in found.source or "table" in found.source
    assert said in "; ".join(found.problems)
    assert bool(said) == bool(found.problems)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_another_encoding_is_read_and_named(codec: str) -> None:
    data = notebook(cell("# caf\u00e9"), *PLAIN).decode().replace("\\u00e9", "\u00e9")
    found = read(data.encode(codec))

    assert runs(answer(data.encode(codec)))
    assert "UTF-8" in found.problems[0]


NOT_THERE = {
    "no cell of it": (notebook(cell(IMPORTS)), "there is no cell with the id 'square'"),
    "code in Markdown": (
        notebook(cell(IMPORTS), cell(SQUARE, "square", kind="markdown")), "is not a code cell"),
    "a class with a homoglyph in its name": (
        notebook(cell(IMPORTS), cell(SQUARE.replace("Square", "Squ\u0430re"))),
        "what looks like it is no Square: it has a cyrillic small letter a"),
    "written into the grader's cell": (notebook(cell(SQUARE, "square-grade")), "there is no cell"),
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_THERE)
def test_a_missing_answer_says_why(what: str) -> None:
    data, said = NOT_THERE[what]
    found = answer(data)

    assert not found.found
    assert said in found.problems[0]


@pytest.mark.parametrize(
    ("source", "said"),
    [(STUB, ""), ("x = 1", "does not define Square"), ("class Square(:", "")],
    ids=["a stub", "something else", "broken"],
)
def test_what_stands_in_the_cell_is_graded_as_it_is(source: str, said: str) -> None:
    found = answer(notebook(cell(IMPORTS), cell(source, "square")))

    assert found.source.strip() == source.strip()
    assert said in "; ".join(found.problems)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no code"), (b"  \n", "no code"), (b"{", "JSON is broken"), (b"{}", "no code"),
        (b'{"cells": {}}', "no code"), (b"[1, 2]", ""), (b"PK\x03\x04...", "a zip archive"),
        (b"%PDF-1.7", "a PDF"), (b"<!DOCTYPE html><html>", "a web page"),
        (b'{"cells": ' + b"[" * 100_000, "JSON is broken"),
    ],
)  # fmt: skip
def test_what_is_no_notebook_is_refused_in_a_sentence(data: bytes, said: str) -> None:
    if not said:
        assert not answer(data).found
        return
    with pytest.raises(UnreadableError, match=said):
        read(data)


def test_a_notebook_cut_off_keeps_its_whole_cells() -> None:
    data = notebook(*PLAIN, cell("x = 1"))
    found = read(data[: data.index(b"x = 1")])

    assert [each.source for each in found.cells][1] == SQUARE
    assert "JSON is broken" in found.problems[0]


def test_a_preamble_takes_what_is_needed_and_nothing_else() -> None:
    others = cell("data = load()\nunused = train(data)"), cell(HELPER), cell("double(3)")

    assert answer(with_square(*others, source=USES)).preamble == f"import torch\n{HELPER}"


TWO = "def two():\n    return math.sqrt(BASE)"
BASE = "import math\nBASE = 4.0"
CALLS = SQUARE.replace("2 * x", "two() * x")
BELOW = "two is defined only below the answer"
TWO_FUNCTION = """\
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * grad_output + 0 * one(grad_output)
"""

# the cells before and after the answer, the answer, and its problems
ORDERS = {
    "a helper below that needs what is above": ([BASE], CALLS, [TWO], [BELOW]),
    "an import above for a helper below": (
        [], CALLS, ["def two():\n    return torch.tensor(2.0)"], [BELOW]),
    "a value above for a value below": ([BASE], CALLS, [TWO, "BASE = 9.0"], [BELOW]),
    "a value above and beside a helper below": (
        ["BASE = 9.0", "import math"], CALLS, ["BASE = 4.0", f"{TWO}\nBASE = 7.0"], [BELOW]),
    "a list above that is filled beside a helper below": (
        ["BASE = []"], CALLS, ["BASE.append(2)", "def two():\n    return BASE[0]"], [BELOW]),
    "a call below that is not needed": (
        [], CALLS, ["torch.no_method()", "def two():\n    return 2 * torch.e ** 0"], [BELOW]),
    "a value above of a helper below": (
        ["BASE = one() + 3.0\nimport math", TWO], CALLS, ["def one():\n    return 1"], []),
    "a value above of a helper between": (
        ["BASE = one() + zero()", "def zero():\n    return 0", "import math",
         "def one():\n    return 4 + zero()", TWO], CALLS, [], []),
    "a value that is set again": (
        ["BASE = 1.0", "FIRST = BASE", "BASE = 9.0",
         "def two():\n    return 2 * FIRST"], CALLS, [], []),
    "a value set after its function": (
        ["def two(most=3):\n    return min(most, TABLE[0])", "def filled(call):\n    return [2]",
         "TABLE = filled(two)"], CALLS, [], []),
    "a list above that is made below": (["BASE.append(2)", "def two():\n    return BASE[0]"],
        CALLS, ["BASE = []"], []),
    "a class above whose base is below": (
        ["class Two(Base):\n    def __call__(self):\n        return self.value", "two = Two()"],
        CALLS, ["class Base:\n    value = 2"], []),
    "a name of the answer below": (
        [], SQUARE.replace("2 * x", "two(x)"),
        [TWO_FUNCTION, "one = Square.apply", "two = Two.apply"], [BELOW]),
    "a star above": (["from math import *"], CALLS, ["def two():\n    return sqrt(4.0)"], []),
    "a star above for a value below": (["from math import *"], CALLS,
        ["ROOT = sqrt(4.0)", "def two():\n    return ROOT"], []),
    "a star's name again below": (
        ["from math import *", "def two():\n    return sqrt(4.0)"], CALLS, ["sqrt = None"], []),
    "a star below": (["def sqrt(x):\n    return 2", "def two():\n    return sqrt(3)"], CALLS,
        ["from math import *"], []),
    "a future below": (
        [], CALLS, ["from __future__ import annotations", "def two():\n    return 2"], [BELOW]),
}  # fmt: skip


@pytest.mark.parametrize("what", ORDERS)
def test_no_order_of_the_cells_makes_an_answer_wrong(what: str) -> None:
    above, source, below, problems = ORDERS[what]
    cells = [*map(cell, [IMPORTS, *above]), cell(source, "square"), *map(cell, below)]
    found = answer(notebook(*cells))

    namespace: dict[str, object] = {"__name__": "answer"}
    for code in found.cells:
        exec(compile(code, "<cell>", "exec", dont_inherit=True), namespace)
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    namespace["Square"].apply(x).sum().backward()  # type: ignore[attr-defined]
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 6.0]
    assert list(found.problems) == problems


def test_equal_code_has_an_equal_hash_whoever_wrote_it() -> None:
    first, other = (extract(read(solution()), name, [EXERCISE])[0] for name in ("ann", "bob"))
    changed = answer(with_square(source=SQUARE.replace("2 *", "3 *")))

    assert first.hash == other.hash
    assert changed.hash not in (first.hash, answer(notebook(*PLAIN)).hash)


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_solution_is_extracted_whole_from_both_its_files(lesson: str) -> None:
    exercises = [e for e in CATALOGUE.values() if e.lesson == lesson]
    script = (ROOT / "solutions" / f"{lesson}.py").read_bytes()
    saved, text = (extract(read(each), "ann", exercises) for each in (solution(lesson), script))

    assert [a.problems for a in saved] == [()] * len(exercises)
    assert [a.hash for a in saved] == [a.hash for a in text]
    assert all(map(runs, saved))


def test_the_asked_names_are_those_of_the_released_grader_cells() -> None:
    asked = {}
    for path in (ROOT / "exercises").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="grade"),
                    args=[ast.Constant(value=str(exercise)), ast.Name(id=name)],
                ):
                    asked[exercise] = name

    assert asked == {entry.id: entry.answer for entry in INDEX.values()}


@pytest.mark.parametrize("lesson", LESSONS)
def test_cells_are_those_that_nbformat_and_jupytext_read(lesson: str) -> None:
    saved = nbformat.reads(solution(lesson).decode(), as_version=4)
    path = ROOT / "solutions" / f"{lesson}.py"
    text = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")

    for data, oracle in ((solution(lesson), saved), (path.read_bytes(), text)):
        ours = [c.source.strip() for c in read(data).cells if c.is_code]
        assert ours == [c.source.strip() for c in oracle.cells if c.cell_type == "code"]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes after a cut, a hole, a repetition or flipped bits."""
    begin, end = sorted(rng.randrange(len(data)) for _ in range(2))
    kind = rng.randrange(4)
    if kind == 3:
        flipped = bytearray(data)
        for _ in range(rng.choice([1, 10, 1000])):
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    return [data[:begin], data[:begin] + data[end:], data[:end] + data[begin:]][kind]


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_crashes_or_hangs_the_reader(seed: int) -> None:
    rng = random.Random(seed)
    exercises = [e for e in CATALOGUE.values() if e.lesson == "01_template"]
    for data in [solution(), (ROOT / "solutions" / "01_template.py").read_bytes()] * 12:
        began = time.perf_counter()
        try:
            found = extract(read(damaged(data, rng)), "ann", exercises)
        except UnreadableError:
            continue
        assert len(found) == len(exercises)
        assert json.dumps([a.source for a in found], ensure_ascii=False).encode()
        assert time.perf_counter() - began < 20


SCRIPT = f"""{IMPORTS}

{SQUARE}

def broken(:
    pass


@unused
class Cube(Function):
    pass
"""


def test_an_error_in_a_script_without_cells_affects_only_its_definition() -> None:
    found = answer(SCRIPT.encode())
    broken = answer(SCRIPT.replace("class Square(", "class Square((").encode())

    assert runs(found)
    assert broken.source.startswith("class Square((")
    assert [cell.source.split("\n")[0] for cell in read(SCRIPT.encode()).cells][1:] == [
        "class Square(torch.autograd.Function):", "def broken(:", "@unused",
    ]  # fmt: skip


DEEP = {
    "brackets": "(" * 90_000,
    "minus signs": "-" * 90_000 + "1",
    "attributes": "a" + ".b" * 40_000,
    "digits": "9" * 90_000,
    "a null byte": "x = \x00",
    "magics": "x?\n" * 30_000,
    "too long": "x = 1\n" * 50_000,
}


@pytest.mark.parametrize("what", DEEP)
def test_code_that_breaks_parsers_is_an_answer_like_any_other(what: str) -> None:
    found = answer(notebook(cell(DEEP[what], "square")))

    assert found.source
    assert not found.problems


def swap(one: str, other: str) -> str:
    left, right = (",".join(f"{it}{i:x}" for i in range(8_000)) for it in (one, other))
    return f"{left}=({right})"


ANSWERS = [CATALOGUE[it.id].answer for it in exercises_of("01_template")]

# Files that once took minutes to read
SLOW = {
    "decorators": b"@\n" * 200_000 + b"(",
    "empty lines": notebook(*[cell("(" + "\n" * 90_000 + str(i)) for i in range(5)]),
    "commas": notebook(cell("," * 90_000)),
    "cells with magics": notebook(*[cell(f"%a{i}\n" * 90 + "(") for i in range(400)]),
    "nested broken JSON": b'{"id":[' * 900 + b"1," * 10_000_000,
    "cells with an answer": notebook(*[cell("Square=1")] * 60_000),
    "names in a statement": notebook(
        *[cell(swap(*pair)) for pair in ("ab", "bc", "cd", "da")],
        *[cell(f"{name}=a0") for name in ANSWERS]),
}  # fmt: skip


@pytest.mark.parametrize("what", SLOW)
def test_no_file_takes_long_to_read(what: str) -> None:
    began = time.process_time()
    with suppress(UnreadableError):
        extract(read(SLOW[what]), "ann", exercises_of("01_template"))

    assert time.process_time() - began < 8


def test_a_wrong_id_is_not_compared_with_each_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "get_close_matches", None)

    assert answer(notebook(cell(SQUARE, "sqare"))).problems[0].startswith("there is no exercise")


def test_no_two_statements_of_a_cell_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Statement, "__eq__", None)

    assert answer(notebook(cell(f"{IMPORTS}\n{SQUARE}\n{SIGMOID}"))).found


@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_a_file_with_too_much_code_is_refused(kind: str) -> None:
    lines = "x = 1\n" * 10_000
    data = lines.encode() * 10 if kind == "script" else notebook(*[cell(lines)] * 10)

    with pytest.raises(UnreadableError, match="more than 500,000 characters of code"):
        read(data)
