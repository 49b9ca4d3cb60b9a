"""Prepare the page's content: the sampled numbers as text, the curves and the sentences."""

import math
from typing import Any

from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.stelab import describe
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, LabTrace, Staircase
from autograd_course.visualize.stelab.training_comparison import (
    CELLS,
    EVERY,
    REACH,
    STEPS,
    Run,
    TrainingTrace,
    points,
)


def build_view(trace: LabTrace, name: str, quantizers: dict[str, str]) -> dict[str, Any]:
    """Return the data that the sliders and the surrogate menu need for one quantizer.

    ``name`` is the name of the quantizer, and ``quantizers`` contains the labels to choose from.
    """
    return {
        "name": name,
        "quantizers": list(quantizers.items()),
        "view": list(VIEW),
        "heights": heights(trace),
        "steepest": steepest(trace),
        "xs": list(trace.xs),
        "labels": [number(x) for x in trace.xs],
        "widths": list(WIDTHS),
        "staircases": [_staircase(stairs) for stairs in trace.staircases],
        "estimates": [_estimate(estimate, trace) for estimate in trace.estimates],
        "words": _words(),
    }


def heights(trace: LabTrace) -> list[float]:
    """Return the range of the y axis for the staircases, with some margin."""
    values = [value for stairs in trace.staircases for value in stairs.values]
    low, high = min(values), max(values)
    room = max(0.5, 0.12 * (high - low))
    return [low - room, high + room]


def steepest(trace: LabTrace) -> list[float]:
    """Return the range of the y axis for the gradients, with some margin."""
    values = [value for estimate in trace.estimates for value in estimate.gradients]
    return [min(-0.25, 1.15 * min(values)), max(1.4, 1.15 * max(values))]


def progress_of(training: TrainingTrace) -> dict[str, Any]:
    """Return the state of the training: the curves, maps and results so far."""
    return {
        "place": training.place,
        "seed": training.seed,
        "step": training.step,
        "steps": STEPS,
        "notice": training.notice,
        "told": f"step {training.step} of {STEPS}" if training.step else "",
        "rest": describe.REST[training.place],
        "runs": [_run(run) for run in training.runs],
    }


def board_of_task() -> dict[str, Any]:
    """Return the task: the points [x, y, class] and the size of the maps."""
    positions, labels = points()
    rows = zip(positions.tolist(), labels.tolist(), strict=True)
    marks = [[round(x, 3), round(y, 3), int(label)] for (x, y), label in rows]
    return {"reach": REACH, "cells": CELLS, "points": marks}


def _staircase(stairs: Staircase) -> dict[str, Any]:
    return {
        "curve": stairs.curve,
        "values": [describe.tidy(value) for value in stairs.values],
        "slopes": [[None if s is None else describe.tidy(s) for s in row] for row in stairs.slopes],
        "feet": [[round(foot, 4) for foot in row] for row in stairs.feet],
        "slopeCurves": stairs.slope_curves,
        "jumps": [x for x, y in stairs.curve if y is None],
    }


def _estimate(estimate: Estimate, trace: LabTrace) -> dict[str, Any]:
    return {
        "name": estimate.name,
        "label": estimate.label,
        "about": _about(estimate),
        "staircase": estimate.staircase,
        "line": estimate.line,
        "curve": estimate.gradient_curve,
        "gradients": [describe.tidy(gradient) for gradient in estimate.gradients],
        "turns": [describe.turn(gradient) for gradient in estimate.gradients],
        "climbs": describe.climbs(estimate, trace),
        "gaps": [describe.gap(estimate, j) for j in range(len(WIDTHS))],
    }


def _about(estimate: Estimate) -> str:
    if not estimate.formula:
        return "The Function has its own backward."
    return f"Backward multiplies grad_output by {estimate.formula} ({estimate.source})."


def _words() -> dict[str, Any]:
    return {
        "at": describe.at("{x}", "{y}", "{gradient}", "{became}"),
        "chords": [describe.chord(width, "{slope}", "{judged}") for width in WIDTHS],
        "jump": describe.JUMP,
        "turns": list(describe.TURNS),
        "verdicts": describe.VERDICTS,
        "widths": [describe.half_width(width) for width in WIDTHS],
        "steps": STEPS,
    }


def _run(run: Run) -> dict[str, Any]:
    finite = [float(f"{loss:.3g}") if math.isfinite(loss) else None for loss in run.losses]
    return {
        "name": run.name,
        "losses": [[i * EVERY, loss] for i, loss in enumerate(finite)],
        "result": describe.result(run),
        "shades": run.shades,
    }
