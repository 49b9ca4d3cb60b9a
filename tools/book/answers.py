"""Operate every control of a widget, and record the kernel's answers.

A page without a kernel uses the recorded answers. Each answer makes the page larger, so each widget
has only a few recorded answers. For the same reason, a slider that needs the kernel has only a few
positions in the book.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from autograd_course.visualize.flow.widget import FlowWidget
from autograd_course.visualize.functionlab.widget import FunctionLab
from autograd_course.visualize.stelab.widget import STELab

Json = dict[str, Any]
Opened = tuple[tuple[int, ...], ...]

POSITIONS = 9  # the number of positions of a slider that needs the kernel
_MOST_FOLDINGS = 16
_SEEDS = range(5)  # the seeds that the STE lab offers
_PLACES = ("activations", "weights")


def answers(widget: Any) -> Iterator[Json]:
    """Yield each request that the page can send, and the traits that the kernel sends in response.

    Trying these requests changes ``widget``.
    """
    match widget:
        case FlowWidget():
            yield from _foldings(widget)
        case FunctionLab():
            yield from _choices(widget)
        case STELab():
            yield from _trainings(widget)


def _foldings(flow: FlowWidget) -> Iterator[Json]:
    """Expand and collapse one module after another, until no new state appears."""
    first = _opened(flow)
    known, waiting = {first}, [first]
    while waiting and len(known) < _MOST_FOLDINGS:
        here = waiting.pop(0)
        for place, group in _turnable(flow, here):
            turned = [
                set(groups) ^ {group} if i == place else groups for i, groups in enumerate(here)
            ]
            _unfold(flow, turned)
            if _opened(flow) not in known:
                known.add(_opened(flow))
                waiting.append(_opened(flow))
    if len(known) < 2:
        return
    for opened in sorted(known):
        _unfold(flow, opened)
        names = ("opened", "view", "numbers", "sweeps")
        yield {"asked": flow.opened, "sent": _sent(flow, *names)}


def _turnable(flow: FlowWidget, opened: Opened) -> list[tuple[int, int]]:
    """Return the groups that a reader can expand or collapse, as pairs (flow, group)."""
    _unfold(flow, opened)
    found = set()
    for place, view in enumerate(flow.views):
        for card in view.to_dict()["cards"]:
            groups = [*card["within"], *([] if card["opens"] is None else [card["opens"]])]
            found |= {(place, group) for group in groups}
    return sorted(found)


def _unfold(flow: FlowWidget, opened: Sequence[Iterable[int]]) -> None:
    flow.opened = [sorted(groups) for groups in opened]


def _opened(flow: FlowWidget) -> Opened:
    return tuple(view.opened for view in flow.views)


def _choices(lab: FunctionLab) -> Iterator[Json]:
    """Select each function, and move each of its sliders while the others stay in place."""
    for function in lab.scene["functions"]:
        lab.choice = {"function": function}
        first = copy.deepcopy(lab.scene["answers"])
        sliders = copy.deepcopy(lab.scene["sliders"])
        places = {each["name"]: spread(each["values"], each["index"]) for each in sliders}
        asked = [first["parameters"]]
        for name, values in places.items():
            asked += [{**first["parameters"], name: value} for value in values]
        for number, parameters in enumerate(asked):
            if number and parameters == first["parameters"]:
                continue
            lab.choice = {"function": function, "parameters": parameters}
            sent = _sent(lab, "scene", "x")
            sent["scene"]["sliders"] = [_fewer(s, places[s["name"]]) for s in lab.scene["sliders"]]
            yield {"asked": sent["scene"]["answers"], "first": not number, "sent": sent}
        lab.choice = first


def spread(values: Sequence[float], index: int) -> list[float]:
    """Return a few evenly spaced values of a slider, including both ends and the current one."""
    last, few = len(values) - 1, min(POSITIONS, len(values))
    chosen = {round(i * last / max(1, few - 1)) for i in range(few)}
    nearest = min(chosen - {0, last} or chosen, key=lambda i: (abs(i - index), i))
    if index not in chosen:
        chosen = chosen - {nearest} | {index}
    return [values[i] for i in sorted(chosen)]


def _fewer(slider: Json, values: Sequence[float]) -> Json:
    places = [slider["values"].index(value) for value in values]
    labels = [slider["labels"][i] for i in places]
    now = places.index(slider["index"])
    return {**slider, "values": list(values), "labels": labels, "index": now}


def _trainings(lab: STELab) -> Iterator[Json]:
    """Train from each starting point.

    For quantizers other than the current one, use only the first seed.
    """
    first = lab.quantizer
    offered = [name for name, _ in lab.sweep["quantizers"]] or [first]
    for name, place, seed in product(offered, _PLACES, _SEEDS):
        if seed and name != first:
            continue
        lab.quantizer = name
        lab.place, lab.seed = place, seed
        sent = _sent(lab, "sweep", "progress")
        sent["progress"]["place"], sent["progress"]["seed"] = place, seed
        lab.train()
        sent["trained"] = copy.deepcopy(lab.progress)
        asked = {"quantizer": name, "place": place, "seed": seed}
        yield {"asked": asked, "sent": sent}


def _sent(widget: Any, *names: str) -> Json:
    return {name: copy.deepcopy(getattr(widget, name)) for name in names}
