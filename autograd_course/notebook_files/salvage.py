"""Recover cells from broken notebook JSON.

The JSON may be truncated or contain merge conflict markers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

# Jupyter sorts the keys, so a cell begins with one of these.
_BEGINS = re.compile(r'\{\s*"(?:attachments|cell_type|execution_count|id|source)"\s*:')
_ATTEMPTS = 2_000  # in a malicious file, each attempt may parse 1,000 levels of nesting


def salvaged(text: str) -> Iterator[dict[str, Any]]:
    """Yield every complete cell in the text, in order."""
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_ATTEMPTS):
        begin = _BEGINS.search(text, position)
        if begin is None:
            return
        position = begin.end()
        try:
            found, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            continue
        if "cell_type" in found and ("source" in found or "input" in found):
            yield found
            position = end
