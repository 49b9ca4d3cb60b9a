"""Run the ``check`` command: load the target, diagnose it, and write the report."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection
from html import escape
from typing import Any

import numpy as np
import torch

from autograd_doctor import RULES, Diagnosis, diagnose
from autograd_doctor._example_call import example
from autograd_doctor._report import five_steps
from autograd_doctor._report.report import as_html
from autograd_doctor._targets import NotUnderstoodError, load, meant


def checked(
    target: str,
    inputs: str | None,
    *,
    sampler: str | None = None,
    reference: str | None = None,
    surrogate: str | None = None,
    intentional: Collection[str] = (),
    seed: int = 0,
    **options: Any,
) -> Diagnosis:
    """Load a target and diagnose it. Pass the remaining options to ``diagnose``.

    Raises :class:`NotUnderstoodError` if the target or one of the options cannot be loaded, and
    ``CannotDiagnoseError`` if the target cannot be examined.
    """
    _require_rules(intentional)
    _seed(seed)
    fn, draw = load(target), _callable("--sampler", sampler)
    return diagnose(
        fn,
        example(target, fn, inputs, draw, seed),
        sampler=draw,
        reference=_callable("--reference", reference),
        surrogate=_callable("--surrogate", surrogate),
        intentional=intentional,
        seed=seed,
        **options,
    )


def _require_rules(names: Collection[str]) -> None:
    for name in names:
        if name not in RULES:
            raise NotUnderstoodError(f"There is no rule named {name}" + meant(name, RULES))


def _seed(seed: int) -> None:
    """Seed the random number generators, because user modules may draw from them during import."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _callable(option: str, target: str | None) -> Callable[..., Any] | None:
    found = None if target is None else load(target)
    if found is not None and not callable(found):
        kind = type(found).__name__
        raise NotUnderstoodError(f"{option} needs a callable, but {target} is of type {kind}.")
    return found


# --------------------------------------------------------------------------------------------------
# A diagnosis as a JSON document or an HTML page.
# --------------------------------------------------------------------------------------------------

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
    """Return the diagnosis as JSON.

    Convert infinity and nan to strings, because JSON numbers cannot represent them.
    """
    return json.dumps(_plain(diagnosis.to_dict()), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def as_page(diagnosis: Diagnosis) -> str:
    """Return the report and the five steps as an HTML page without scripts.

    The page adapts to the reader's light or dark mode.
    """
    title = escape(f"{diagnosis.subject}: gradients")
    steps = five_steps.as_html(diagnosis.steps) if diagnosis.steps else ""
    return _PAGE.format(title=title, body=as_html(diagnosis) + steps)
