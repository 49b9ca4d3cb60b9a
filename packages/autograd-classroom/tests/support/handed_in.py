"""Notebooks as people hand them in, made by damaging the released notebooks."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from repository import ROOT

LESSON = "01_template"
SQUARE = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output
"""
STUB = """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        # YOUR CODE HERE
        raise NotImplementedError
"""
SIGMOID = SQUARE.replace("Square", "ScaledSigmoid")
IMPORTS = "import torch\nfrom torch import Tensor"


@functools.cache
def solution(lesson: str = LESSON) -> bytes:
    return (ROOT / "solutions" / f"{lesson}.ipynb").read_bytes()


def cell(source: str, grade_id: str = "", kind: str = "code", **more: Any) -> dict[str, Any]:
    """Return a cell in the format of nbformat 4."""
    nbgrader = {"grade_id": grade_id, "solution": True, "grade": False, "locked": False}
    metadata = {"nbgrader": nbgrader | {"schema_version": 3}} if grade_id else {}
    lines = source.splitlines(keepends=True)
    code = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": metadata, "source": lines} | code | more


def notebook(*cells: dict[str, Any]) -> bytes:
    """Return the bytes of an nbformat 4 notebook."""
    return json.dumps(
        {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1
    ).encode()


def worksheets(cells: Sequence[dict[str, Any]]) -> bytes:
    """Return the bytes of an nbformat 3 notebook."""
    code = {"language": "python"}
    old = [{**each, **code, "input": each["source"]} for each in cells]
    sheet = {"cells": old, "metadata": {}}
    return json.dumps({"worksheets": [sheet], "metadata": {}, "nbformat": 3}).encode()
