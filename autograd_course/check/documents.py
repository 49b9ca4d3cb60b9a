"""A diagnosis as a JSON document or an HTML page."""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

from autograd_doctor import Diagnosis
from autograd_doctor._report import five_steps
from autograd_doctor._report.report import as_html

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body style="margin: 2em; font-family: system-ui, sans-serif">
{body}
</body>
</html>
"""


def as_json(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as JSON. Infinities and nan become strings, because JSON lacks them."""
    return json.dumps(_plain(diagnosis.to_dict()), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def as_page(diagnosis: Diagnosis) -> str:
    """Return the report and the five steps as an HTML page without scripts.

    The page follows the reader's light or dark mode.
    """
    title = escape(f"{diagnosis.subject}: gradients")
    steps = five_steps.as_html(diagnosis.steps) if diagnosis.steps else ""
    return _PAGE.format(title=title, body=as_html(diagnosis) + steps)
