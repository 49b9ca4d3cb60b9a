"""Evidence as bytes, and back: safetensors for the tensors, JSON for the rest, never pickle.

What arrives may come from a process that ran untrusted code, so reading builds nothing but the
dataclasses of :mod:`autograd_course.doctor.evidence`, tensors and plain values.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from autograd_course.doctor import evidence as schema
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.shown import shown
from autograd_course.doctor.truth.differences import as_real

_RECORDS = {
    record.__name__: record
    for record in (
        schema.Captured, schema.Columns, schema.Cost, schema.Evidence, schema.Expected,
        schema.Extreme, schema.Failure, schema.Forward, schema.Kept, schema.OnCtx, schema.Pull,
        schema.Raw, schema.Rows, schema.SecondDerivative, schema.SecondOrder, schema.Slopes,
        schema.Twin, schema.Unasked, schema.Variant,
    )
}  # fmt: skip


def to_bytes(evidence: Evidence) -> bytes:
    """Return evidence as one safetensors file whose metadata holds the JSON."""
    return pack(evidence)


def from_bytes(data: bytes) -> Evidence:
    """Return the evidence that :func:`to_bytes` wrote; ``ValueError`` for anything else."""
    try:
        found = unpack(data)
    except ValueError as error:
        raise ValueError(f"this is no evidence: {error}") from error
    if not isinstance(found, Evidence):
        raise ValueError(f"this is no evidence but {type(found).__name__}")
    return found


def pack(value: Any) -> bytes:
    """Return plain data as bytes: tensors, evidence, numbers, text, and collections of these."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_plain(value, tensors), allow_nan=True)
    return safetensors.torch.save(tensors, {"evidence": text})


def unpack(data: bytes) -> Any:
    """Return what :func:`pack` wrote; ``ValueError`` for anything else."""
    try:
        tensors = safetensors.torch.load(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        return _built(json.loads(header["__metadata__"]["evidence"]), tensors)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _plain(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON data, tensors moved aside under a number each."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        real = as_real(value.detach()).cpu()
        tensors[name] = real.clone(memory_format=torch.contiguous_format)
        return {"tensor": name, "complex": value.is_complex()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _plain(getattr(value, f.name), tensors) for f in fields(value)}
        return {"record": type(value).__name__, "fields": parts}
    if isinstance(value, tuple | list):
        return {"items": [_plain(item, tensors) for item in value], "list": isinstance(value, list)}
    if isinstance(value, dict):
        return {"entries": [[key, _plain(item, tensors)] for key, item in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {"other": shown(value, 200)}  # an argument of a type of its own is only shown, not used


def _built(data: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(data, dict):
        return data
    if "tensor" in data:
        tensor = tensors[data["tensor"]]
        return torch.view_as_complex(tensor) if data["complex"] else tensor
    if "record" in data:
        parts = {name: _built(part, tensors) for name, part in data["fields"].items()}
        return _RECORDS[data["record"]](**parts)
    if "items" in data:
        items = [_built(item, tensors) for item in data["items"]]
        return items if data["list"] else tuple(items)
    if "entries" in data:
        return {key: _built(item, tensors) for key, item in data["entries"]}
    return data["other"]
