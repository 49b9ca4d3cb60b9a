"""Decode text that may come from any editor.

Encodings declared in a file are ignored, because Python also supports unusual ones.
"""

from __future__ import annotations

import codecs

# The UTF-32 byte-order mark begins with the UTF-16 mark, so the longer mark comes first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = ("cp1252", "latin-1")  # latin-1 can decode any bytes
_LOOKED_AT = 400


def decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the decoded text. If the encoding was not UTF-8, also return a sentence about it."""
    codec = _by_mark(data) or _by_zeros(data) or "utf-8"
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return _guessed(data, codec)
    if codec in ("utf-8", "utf-8-sig"):
        return text, ()
    return text, (f"the file is encoded as {codec}, not as UTF-8",)


def _by_mark(data: bytes) -> str:
    return next((codec for mark, codec in _MARKS if data.startswith(mark)), "")


def _by_zeros(data: bytes) -> str:
    """Recognize UTF-16 without a byte-order mark.

    In Latin text, nearly every second byte is zero.
    """
    head = data[:_LOOKED_AT]
    for start, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 1 and head[start::2].count(0) > 0.8 * len(head[start::2]):
            return codec
    return ""


def _guessed(data: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    if codec != "utf-8":
        problem = f"parts of the file are no {codec}, and are replaced by �"
        return data.decode(codec, "replace"), (problem,)
    for legacy in _LEGACY:
        try:
            return data.decode(legacy), (f"the file is not UTF-8; it is read as {legacy}",)
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes every byte")
