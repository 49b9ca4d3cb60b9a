"""Compute an answer's outputs and gradients for an experiment that runs outside the sandbox."""

from __future__ import annotations

from typing import Any

import torch

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.worker.values import returned
from autograd_course.calls import as_tuple
from autograd_course.engine import run_backward
from autograd_course.execution import WHOLE, told


def pulled(answer: Any, said: dict[str, Any], _: tuple[Any, ...]) -> Frame:
    """Return the answer's outputs or, if the judge sent ``grad_outputs``, its gradients."""
    given, asking, sent = opened(said["parcel"])
    call: Any = getattr(answer, "apply", answer) if isinstance(answer, type) else answer
    try:
        leaves = {at: given[at].detach().requires_grad_() for at in asking}
        # An in-place Function overwrites its input, so it must not receive the leaf itself.
        outputs = as_tuple(call(*(
            leaves[at].clone() if at in leaves else value for at, value in enumerate(given)
        )))  # fmt: skip
        if sent is None:
            return returned(outputs)
        pairs = [(out, g) for out, g in zip(outputs, sent, strict=True) if g is not None]
        came = run_backward([out for out, _ in pairs], [g for _, g in pairs], [*leaves.values()])
        zeros = map(torch.zeros_like, leaves.values())
        return returned(tuple(z if g is None else g for g, z in zip(came, zeros, strict=True)))
    except (Exception, SystemExit) as error:
        method = ("backward" if sent else "forward") if isinstance(answer, type) else WHOLE
        return Frame({"text": str(error), "told": told(error, answer, method)})
