"""Files like those that people hand in: real exercise notebooks with random damage."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from repository import ROOT

LESSONS = ("01_template", "05_straight_through", "04_debugging_clinic")

Saved = dict[str, Any]
Damage = Callable[[Saved, random.Random], Any]

ODD_VALUES: tuple[Any, ...] = (
    None, 3, -1.5, "", "x\x00\ud800", [], {}, [[]], [None, 3, "x"], {"a": {}}, True, "\n" * 99,
)  # fmt: skip
ODD_CODE = (
    *("(" * 5000, "%%bash\nrm", "!ls\n?x\n", "x = \x00", "\ud800 = 1", "class A(A): pass"),
    *("\t x", "from x import *", "def f(:\n", "1" * 5000, "# %%\n", "x\x0cy\x1c = 1\u2028"),
)


def _duplicated(saved: Saved, rng: random.Random) -> Any:
    saved["cells"] += rng.choices(saved["cells"], k=3)


def _shuffled(saved: Saved, rng: random.Random) -> Any:
    rng.shuffle(saved["cells"])


def _dropped(saved: Saved, rng: random.Random) -> Any:
    del saved["cells"][rng.randrange(len(saved["cells"]))]


def _retagged(saved: Saved, rng: random.Random) -> Any:
    one, other = rng.choices(saved["cells"], k=2)
    one["metadata"], other["metadata"] = other["metadata"], one["metadata"]


def _of_another_type(saved: Saved, rng: random.Random) -> Any:
    cell = rng.choice(saved["cells"])
    cell[rng.choice(["cell_type", "source", "metadata", "outputs"])] = rng.choice(ODD_VALUES)


def _odd_ids(saved: Saved, rng: random.Random) -> Any:
    cell = rng.choice(saved["cells"])
    cell["metadata"] = {"nbgrader": rng.choice([{"grade_id": rng.choice(ODD_VALUES)}, 3, []])}


def _other_format(saved: Saved, rng: random.Random) -> Any:
    saved["nbformat"] = rng.choice([1, 2, 3, 5, 99, "4", None])
    if rng.random() < 0.5:
        saved["worksheets"] = rng.choice([[{"cells": saved.pop("cells")}], *ODD_VALUES])


def _odd_code(saved: Saved, rng: random.Random) -> Any:
    rng.choice(saved["cells"])["source"] = rng.choice(ODD_CODE)


def _deep(saved: Saved, rng: random.Random) -> Any:
    saved["metadata"] = json.loads("[" * 500 + "]" * 500)


DAMAGES: tuple[Damage, ...] = (
    _duplicated, _shuffled, _dropped, _retagged, _of_another_type, _odd_ids, _other_format,
    _odd_code, _deep,
)  # fmt: skip
CODECS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "latin-1", "cp1252")


def _flipped(data: bytes, rng: random.Random) -> bytes:
    spoiled = bytearray(data)
    for _ in range(rng.randrange(1, 20)):
        spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
    return bytes(spoiled)


def _zipped(data: bytes, rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            rng.choice(["a.ipynb", "../a.ipynb", "b/a.py", "z.zip", "é\x01.ipynb"]), data
        )
    return packed.getvalue()


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda data, rng: data,
    _flipped,
    lambda data, rng: data[: rng.randrange(len(data))],
    lambda data, rng: data[rng.randrange(len(data)) :],
    lambda data, rng: data.replace(b"\n", b"\r\n"),
    lambda data, rng: data.replace(b" ", b"\x00", 5),
    lambda data, rng: data + data,
    lambda data, rng: b"\n" * 9999 + data,
    _zipped,
    lambda data, rng: _zipped(_zipped(data, rng), rng),
    lambda data, rng: _flipped(_zipped(data, rng), rng),
)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a file name and the bytes of the file."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    lesson = draw(st.sampled_from(LESSONS))
    if draw(st.booleans()):
        saved = json.loads((ROOT / "solutions" / f"{lesson}.ipynb").read_bytes())
        for damage in draw(st.lists(st.sampled_from(DAMAGES), max_size=3)):
            if saved.get("cells"):
                damage(saved, rng)
        text = json.dumps(saved, ensure_ascii=draw(st.booleans()))
    else:
        text = (ROOT / "solutions" / f"{lesson}.py").read_text(encoding="utf-8")
    data = text.encode(draw(st.sampled_from(CODECS)), "replace")
    data = draw(st.sampled_from(BYTES))(data, rng)
    suffix = draw(st.sampled_from(["ipynb", "py", "zip", "IPYNB"]))
    return f"{draw(st.sampled_from(['ann', lesson, 'é ö', '(1)']))}.{suffix}", data
