"""A sandbox without isolation. Its child answers a question correctly, or lies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import safetensors.torch
import torch
from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.protocol.wire import _file
from autograd_classroom.sandbox import Limits
from autograd_classroom.worker.handlers import Handlers
from autograd_classroom.worker.tamper_check import TamperCheck
from hypothesis import strategies as st
from torch import Tensor

Lie = Callable[[Frame], Frame]


@dataclass(frozen=True)
class Liar:
    """A ``Sandbox`` with a submitted ``answer``. ``lie`` changes reply number ``at``."""

    answer: Any
    lie: Lie
    at: int
    limits: Limits = field(default_factory=Limits)

    @contextmanager
    def child(self, limits: Limits) -> Iterator[_Child]:
        yield _Child(self)


class _Child:
    def __init__(self, liar: Liar) -> None:
        self._liar, self._desk, self._asked = liar, None, 0
        self._lies = True

    def ask(self, question: Frame) -> Frame:
        came = self._answered(question)
        self._asked += 1
        return self._liar.lie(came) if self._lies and self._asked == self._liar.at else came

    def _answered(self, question: Frame) -> Frame:
        if self._desk is not None:
            return self._desk.answered(question)
        self._lies = not question.payload  # it contains the stand-in
        answer = self._liar.answer if self._lies else opened(question.payload)()
        self._desk = Handlers(question.said["kind"], answer, TamperCheck(()), 5.0)
        return Frame({"submitted": "right"})


# The kinds of lies

NUMBERS = (0, -1, 10**18, 2**1000, 1e308, -0.0, float("nan"), float("inf"))
TEXTS = ("", "x", "\ud800\x00\x1b[2J", "gradient-mismatch", "not attempted", "grader failed", "7")
JSON = st.recursive(
    st.sampled_from([None, True, False, *NUMBERS, *TEXTS]) | st.text(max_size=20),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["tensor", "items", "rule"]), part, max_size=3
        )
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        "failed", "found", "lacking", "message", "problem", "raised", "replaced", "status",
        "stopped", "text", "type", "types", "unexamined", "unwritten", "container", "lacks", "name",
        "submitted", "takes", "told",
    ]
)  # fmt: skip
FOUND = st.fixed_dictionaries(
    {"rule": JSON | st.sampled_from(["gradient-mismatch", "precision"])},
    optional={"message": JSON, "hint": JSON, "evidence": JSON, "severity": JSON},
)
SAID = st.dictionaries(KEYS, JSON | FOUND, min_size=1, max_size=3)

TENSORS: dict[str, Callable[[Tensor], Tensor]] = {
    "nan": lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else t,
    "infinite": lambda t: torch.full_like(t, float("inf")) if t.is_floating_point() else t,
    "huge": lambda t: t * 1e300 if t.is_floating_point() else t + 10**15,
    "flat": lambda t: t.reshape(-1),
    "empty": lambda t: t.new_empty(0),
    "deeper": lambda t: t[None],
    "scalar": lambda t: t.new_zeros(()),
    "longer": lambda t: torch.cat([t.reshape(-1)] * 3),
    **{
        str(dtype): lambda t, dtype=dtype: t.to(dtype)
        for dtype in (
            torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool,
            torch.float8_e4m3fn,
        )
    },
}  # fmt: skip


@st.composite
def lies(draw: st.DrawFn) -> Lie:
    kind = draw(st.sampled_from(["said", "bytes", "tree", "tensors", "tree", "tensors"]))
    if kind == "said":
        return _saying(draw(SAID))
    if kind == "bytes":
        return _sending(draw(st.binary(max_size=100)))
    if kind == "tree":
        return _replacing(draw(st.integers(0, 10**6)), draw(JSON))
    return _recasting(draw(st.integers(0, 10**6)), draw(st.sampled_from(sorted(TENSORS))))


def _saying(said: dict[str, Any]) -> Lie:
    return lambda came: replace(came, said=came.said | json.loads(json.dumps(said)))


def _sending(payload: bytes) -> Lie:
    return lambda came: replace(came, payload=payload)


def _replacing(place: int, value: Any) -> Lie:
    """Return a lie that replaces a value in the tree of a reply."""

    def lie(came: Frame) -> Frame:
        if not came.payload:
            return came
        tree, tensors = _opened(came.payload)
        places = list(_places(tree))
        holder, key = places[place % len(places)]
        holder[key] = value
        return replace(came, payload=_file(tensors, {"evidence": json.dumps(tree[0])}))

    return lie


def _recasting(place: int, how: str) -> Lie:
    """Return a lie that replaces one tensor in a reply."""

    def lie(came: Frame) -> Frame:
        if not came.payload:
            return came
        tree, tensors = _opened(came.payload)
        if names := sorted(tensors):
            name = names[place % len(names)]
            tensors[name] = TENSORS[how](tensors[name]).contiguous()
        return replace(came, payload=_file(tensors, {"evidence": json.dumps(tree[0])}))

    return lie


def _opened(payload: bytes) -> tuple[Any, dict[str, Tensor]]:
    length = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + length])
    return [json.loads(header["__metadata__"]["evidence"])], safetensors.torch.load(payload)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)
