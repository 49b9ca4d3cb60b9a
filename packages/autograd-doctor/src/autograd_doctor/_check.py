"""One run of ``check``: load the target and diagnose it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from autograd_doctor import RULES, Diagnosis, diagnose

from autograd_course.check.errors import NotUnderstoodError, meant
from autograd_course.check.example import example
from autograd_course.check.targets import load


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
    """Load a target and diagnose it. The other options are passed on to ``diagnose``.

    Raises :class:`NotUnderstoodError` if something cannot be loaded, and ``CannotDiagnoseError`` if the
    target cannot be examined.
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
    """Seed the generators that the user's modules may use, also during import."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _callable(option: str, target: str | None) -> Callable[..., Any] | None:
    found = None if target is None else load(target)
    if found is not None and not callable(found):
        kind = type(found).__name__
        raise NotUnderstoodError(f"{option} needs a callable, but {target} is of type {kind}.")
    return found
