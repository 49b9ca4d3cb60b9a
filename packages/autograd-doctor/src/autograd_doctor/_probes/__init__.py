"""Probes: functions that run the user's code and record what happens.

A probe receives the session and the evidence collected so far. It returns this evidence with its
own results added. A probe does not judge the results. If the user's code raises an error, the probe
records the error as evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from autograd_doctor._execution.session import Session
from autograd_doctor._probes.call_variants import (
    batch_dimension,
    dim_argument,
    frozen_input,
    grad_output_layout,
    input_layout,
    zero_dim,
)
from autograd_doctor._probes.comparison import old_style, plain
from autograd_doctor._probes.memory import (
    cycles,
    kept,
    own_views,
    unpacking,
    wasted_gradients,
)
from autograd_doctor._probes.precision import extremes, float32_steps
from autograd_doctor._probes.second_order import require_second_order, second_order
from autograd_doctor._probes.state import (
    captured,
    earlier_calls,
    on_ctx,
    recomputation,
    repetition,
    second_backward,
)
from autograd_doctor._probes.transforms import (
    autocast,
    compiled,
    fake_implementation,
    forward_mode,
    reverse_over_forward,
    vmapped,
)
from autograd_doctor._probes.values import resized, rows, unused
from autograd_doctor.evidence import Evidence

Level = Literal["standard", "full"]
Probe = Callable[[Session, Evidence], Evidence]

# These probes run for every set of inputs, not only for the user's example.
ALWAYS: tuple[Probe, ...] = (repetition, rows, resized, unused, dim_argument, batch_dimension)
EXPLAINING: tuple[Probe, ...] = (resized, unused)  # these help to explain an incorrect gradient
STANDARD: tuple[Probe, ...] = (
    grad_output_layout,
    input_layout,
    frozen_input,
    zero_dim,
    extremes,
    float32_steps,
    captured,
    recomputation,
    second_backward,
    earlier_calls,
    on_ctx,
    cycles,
    unpacking,
    second_order,
    forward_mode,
    reverse_over_forward,
    vmapped,
    fake_implementation,
    wasted_gradients,
    kept,
)
FULL: tuple[Probe, ...] = (*STANDARD, autocast, compiled, own_views, old_style, plain)

# These probes examine a callable as a whole. They do not run for the Functions inside it.
ONLY_OF_A_CALLABLE: tuple[Probe, ...] = (
    second_order,
    forward_mode,
    reverse_over_forward,
    vmapped,
    compiled,
    old_style,
)

PROBES: dict[Level, tuple[Probe, ...]] = {"standard": STANDARD, "full": FULL}


def probes_for(level: Level, double_backward: bool | None) -> tuple[Probe, ...]:
    """Return the probes that run at the given level.

    If ``double_backward`` is true, the Function must support second derivatives. If it is false,
    omit the probe for second derivatives. If it is ``None``, examine second derivatives but do not
    require them.
    """
    instead = {True: (require_second_order,), False: (), None: (second_order,)}[double_backward]
    return tuple(
        probe
        for usual in PROBES[level]
        for probe in (instead if usual is second_order else (usual,))
    )
