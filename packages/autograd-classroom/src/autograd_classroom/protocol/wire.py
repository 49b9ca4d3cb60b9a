"""Convert evidence to bytes and back, with tensors as safetensors and other data as JSON.

The bytes may come from a process that ran untrusted code. This module therefore never uses pickle.
It creates only tensors, plain values and the dataclasses in :mod:`autograd_doctor.evidence`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import safetensors.torch
import torch
from autograd_doctor import evidence as schema
from autograd_doctor.evidence import Cotangent, Evidence
from torch import Tensor

_RECORDS: Mapping[str, type[Any]] = {
    name: value
    for name, value in vars(schema).items()
    if isinstance(value, type) and is_dataclass(value)
}


_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint64: "U64", torch.uint32: "U32", torch.uint16: "U16", torch.uint8: "U8",
    torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
}  # fmt: skip
_KINDS = get_args(get_type_hints(Cotangent)["kind"])
_MOST_KEYS = 1 << 20
_LONGEST_HEADER = 8 << 20  # bytes; the header is much longer in memory
_SCALARS = (bool, int, float, str, type(None))


def to_bytes(evidence: Evidence) -> bytes:
    """Return evidence in the safetensors format, with the JSON data in the metadata."""
    return pack(evidence)


def from_bytes(data: bytes) -> Evidence:
    """Return the evidence that :func:`to_bytes` packed. Raises ``ValueError`` for other bytes."""
    try:
        found = unpack(data)
    except ValueError as error:
        raise ValueError(f"this is no evidence: {error}") from error
    if not isinstance(found, Evidence):
        raise ValueError(f"this is no evidence but {type(found).__name__}")
    return found


def pack(value: Any) -> bytes:
    """Convert numbers, strings, tensors, evidence, and collections of these to bytes."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_plain(value, tensors), allow_nan=True)
    return _file(tensors, {"evidence": text})


def _file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the contents of a safetensors file.

    For small data, this is five times faster than ``safetensors.torch.save``. The file consists of
    the header's length, the header as JSON, and the bytes of the tensors in the header's order.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    data, end = [], 0
    for name, tensor in tensors.items():
        data.append(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
        begin, end = end, end + len(data[-1])
        about = {"dtype": _DTYPES[tensor.dtype], "shape": [*tensor.shape]}
        header[name] = about | {"data_offsets": [begin, end]}
    told = json.dumps(header).encode()
    return b"".join((len(told).to_bytes(8, "little"), told, *data))


def unpack(data: bytes) -> Any:
    """Return the data that :func:`pack` packed. Raises ``ValueError`` for other bytes."""
    try:
        length = int.from_bytes(data[:8], "little")
        if length > _LONGEST_HEADER:
            raise ValueError(f"the header has more than {_LONGEST_HEADER >> 20} MiB")
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + length])
        return _built(json.loads(header["__metadata__"]["evidence"]), tensors)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _plain(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Convert a value to JSON data. Replace each tensor with its key in ``tensors``."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Tensor):
        name = str(len(tensors))
        value = value.detach().cpu()
        real = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
        tensors[name] = real.clone(memory_format=torch.contiguous_format)
        return {"tensor": name, "complex": value.is_complex()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            name: _plain(part, tensors)
            for name, default in _fields(type(value))
            if (part := getattr(value, name)) is not default
        }
        return {"record": type(value).__name__, "fields": parts}
    if isinstance(value, tuple | list):
        return {"items": [_plain(item, tensors) for item in value], "list": isinstance(value, list)}
    if isinstance(value, dict):
        return {"entries": [[_plain(part, tensors) for part in entry] for entry in value.items()]}
    if isinstance(value, _SCALARS):
        return value
    return {"other": _shown(value)}  # an argument of an unknown type is only shown, never used


@functools.cache
def _fields(record: type) -> tuple[tuple[str, Any], ...]:
    """Return the names and defaults of a record's fields. Most fields have their defaults."""
    return tuple((field.name, field.default) for field in fields(record))


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
        return {_key(key): _built(item, tensors) for key, item in data["entries"]}
    return data["other"]


def _key(data: Any) -> Any:
    """Return a dictionary key. Raises ``ValueError`` for a key that evidence does not contain.

    Untrusted code could choose integers with the same hash, which make a dictionary slow.
    """
    key = _built(data, {})
    whole = key.output if isinstance(key, Cotangent) else key
    named = isinstance(key, str) or (isinstance(key, Cotangent) and key.kind in _KINDS)
    if named and (isinstance(whole, str) or (type(whole) is int and abs(whole) < _MOST_KEYS)):
        return key
    raise ValueError("a key is neither a text nor a cotangent")


def _shown(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception:
        return f"a {type(value).__name__}"
