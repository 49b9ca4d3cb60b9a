"""Record the states of a lesson's widgets. This code runs in the lesson's kernel.

:mod:`tools.book.live` adds two cells: the cell before the lesson calls ``record``, and the cell
after the lesson calls ``write``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from IPython.core.getipython import get_ipython
from ipywidgets import DOMWidget

from autograd_course import lesson
from autograd_course.visualize.kit.live import Live
from tools.book.answers import answers

Json = dict[str, Any]

_noted: defaultdict[int, list[Json]] = defaultdict(list)  # by the number of the running cell
_first: list[int] = []  # IPython's number for the cell that calls record()
_NOT_OWN = frozenset(DOMWidget.class_trait_names(sync=True))


def record() -> None:
    """Record each widget that later cells display, and the outcome of each ``predict`` call."""
    _first.append(_count())
    display: Any = Live._repr_mimebundle_
    predict: Callable[..., Any] = lesson.predict

    def noted(widget: Live, **kwargs: Any) -> Any:
        bundle = display(widget, **kwargs)
        _note(shown(widget))
        return bundle

    def predicted(expected: Any, outcome: Any) -> Any:
        _note({"kind": "predict", "state": {"outcome": float(outcome)}, "answers": []})
        return predict(expected, outcome)

    setattr(Live, "_repr_mimebundle_", noted)  # noqa: B010
    setattr(lesson, "predict", predicted)  # noqa: B010


def write(path: str) -> None:
    """Write the displayed widgets to a file.

    The keys are the numbers of their code cells, from 1.
    """
    Path(path).write_text(json.dumps(_noted, allow_nan=False), encoding="utf-8")


def _note(one: Json) -> None:
    _noted[_count() - _first[0]].append(one)


def _count() -> int:
    shell: Any = get_ipython()
    return int(shell.execution_count)


def shown(widget: Live) -> Json:
    """Return the state of a widget, and the kernel's answers to the widget's controls."""
    kept = json.dumps(state(widget), allow_nan=False)
    found: list[Json] = []
    # A thread has no event loop, so the widget does all of its work at once.
    thread = Thread(target=lambda: found.extend(answers(widget)))
    with torch.random.fork_rng(devices=[]):
        thread.start()
        thread.join()
    return {"kind": kind(widget), "state": json.loads(kept), "answers": found}


def state(widget: Any) -> Json:
    """Return the state that a widget sends to its page, without traits that all widgets have."""
    own = [name for name in widget.trait_names(sync=True) if name not in _NOT_OWN]
    return {name: getattr(widget, name) for name in own if not name.startswith("_")}


def kind(widget: Live) -> str:
    """Return the name of the widget's folder, which is also the name of its bundle."""
    return type(widget).__module__.split(".")[2]
