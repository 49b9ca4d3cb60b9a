"""What is examined beyond one call's contract and values: one module for each question.

A probe takes the session and the evidence found so far, and returns the evidence with its own part
filled in. It runs the user's code and judges nothing; whatever that code raises is evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.probes.autocast import autocast
from autograd_course.doctor.probes.batches import batch_dimension
from autograd_course.doctor.probes.capture import captured
from autograd_course.doctor.probes.compiled import compiled
from autograd_course.doctor.probes.ctx_attributes import on_ctx
from autograd_course.doctor.probes.definitions import old_style
from autograd_course.doctor.probes.dims import dim_argument
from autograd_course.doctor.probes.extremes import extremes
from autograd_course.doctor.probes.forward_mode import forward_mode
from autograd_course.doctor.probes.kept import kept
from autograd_course.doctor.probes.layouts import grad_output_layout, input_layout
from autograd_course.doctor.probes.masks import frozen_input
from autograd_course.doctor.probes.own_views import own_views
from autograd_course.doctor.probes.plain import plain
from autograd_course.doctor.probes.recomputation import recomputation
from autograd_course.doctor.probes.repetition import repetition, second_backward
from autograd_course.doctor.probes.resized import resized
from autograd_course.doctor.probes.retention import cycles, unpacking
from autograd_course.doctor.probes.reverse_over_forward import reverse_over_forward
from autograd_course.doctor.probes.rows import rows
from autograd_course.doctor.probes.second_order import second_order, second_order_asked
from autograd_course.doctor.probes.shapes import zero_dim
from autograd_course.doctor.probes.stairs import stairs
from autograd_course.doctor.probes.unasked import unasked
from autograd_course.doctor.probes.vmapped import vmapped
from autograd_course.doctor.running.session import Session

Level = Literal["standard", "full"]
Probe = Callable[[Session, Evidence], Evidence]

# On every set of inputs, not on the example alone.
ALWAYS: tuple[Probe, ...] = (repetition, rows, resized, dim_argument, batch_dimension)
STANDARD: tuple[Probe, ...] = (
    grad_output_layout,
    input_layout,
    frozen_input,
    zero_dim,
    extremes,
    stairs,
    captured,
    recomputation,
    second_backward,
    on_ctx,
    cycles,
    unpacking,
    second_order,
    forward_mode,
    reverse_over_forward,
    vmapped,
    unasked,
    kept,
)
FULL: tuple[Probe, ...] = (*STANDARD, autocast, compiled, own_views, old_style, plain)

# What is asked of a callable as a whole, not of the Functions inside it once more.
OF_THE_WHOLE: tuple[Probe, ...] = (
    second_order,
    forward_mode,
    reverse_over_forward,
    vmapped,
    compiled,
    old_style,
)

PROBES: dict[Level, tuple[Probe, ...]] = {"standard": STANDARD, "full": FULL}


def probes_for(level: Level, double_backward: bool | None) -> tuple[Probe, ...]:
    """Return a level's probes: second derivatives are asked for, left out, or just looked at."""
    instead = {True: (second_order_asked,), False: (), None: (second_order,)}[double_backward]
    return tuple(
        probe
        for usual in PROBES[level]
        for probe in (instead if usual is second_order else (usual,))
    )
