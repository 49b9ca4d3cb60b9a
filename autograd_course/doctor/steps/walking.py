"""The five steps: each looks at one thing, on float64 copies, and says what it saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import gradcheck

from autograd_course.doctor.shown import said
from autograd_course.doctor.steps.calling import EPS, Call
from autograd_course.doctor.steps.step import TITLES, Step, Steps
from autograd_course.doctor.steps.telling import (
    furthest,
    told_contract,
    told_element,
    told_forward,
    told_gradcheck,
    told_magnitudes,
    told_never_called,
    told_raised,
    told_untaken,
)


def compare_forward(fn: Any, inputs: Any, reference: Callable[..., Any] | None = None) -> Step:
    """Step 1: are the outputs those of ``reference``, a callable with the same arguments?"""
    call = Call(fn, inputs)
    with torch.no_grad():
        outputs = call.outputs()
        right = Call(reference, inputs).outputs() if reference else None
    return told_forward(outputs, right)


def run_backward(fn: Any, inputs: Any) -> Step:
    """Step 2: does backward run, and return what its contract asks for?

    A Function's ``backward`` is called directly on the graph's node, as the engine calls it, before
    the engine sums, casts or fills in anything. Of another callable only the engine's result shows.
    """
    call = Call(fn, inputs)
    outputs = call.outputs()
    node: Any = next((out.grad_fn for out in outputs if out.grad_fn is not None), None)
    if node is None:
        return told_never_called()
    if call.function is None or not hasattr(node, "saved_tensors"):
        returned = call.spread(call.gradients())
    else:
        with torch.no_grad():
            grads = node.apply(*call.cotangents(outputs))
        returned = list(grads) if isinstance(grads, tuple) else [grads]
    return told_contract(call.names, call.args, returned, call.wanted)


def compare_magnitudes(fn: Any, inputs: Any, eps: float = EPS) -> Step:
    """Step 3: does each gradient have the norm that central differences give?

    The gradient is that of ``L = Σ g·y`` with a random ``g``. 2n calls of forward for n elements.
    """
    call = Call(fn, inputs)
    whats = [f"gradient norm of {call.names[i]}" for i in call.wanted]
    return told_magnitudes(whats, call.gradients(), call.differences(eps))


def check_element(
    fn: Any, inputs: Any, place: tuple[int, int] | None = None, eps: float = EPS
) -> Step:
    """Step 4: one element, every number of it.

    ``L = Σ g·y`` with a random ``g``, at ``x + eps`` and ``x − eps``, their quotient, and what
    backward has there. ``place`` is ``(argument, flat index)``; without it, where the two are
    furthest apart, or where the gradient is largest if they agree everywhere.
    """
    call = Call(fn, inputs)
    grads = call.gradients()
    slot, index = place or furthest(grads, call.differences(eps))
    argument = slot if place else call.wanted[slot]
    above, below = call.around(argument, index, eps)
    quotient = (above - below) / (2 * eps)
    value = call.args[argument].detach()
    where = [int(k) for k in torch.unravel_index(torch.tensor(index), value.shape)]
    how = f"({above:.9g} − {below:.9g}) / {2 * eps:.0e}".replace("e-0", "e-")
    came = float(grads[call.wanted.index(argument)].reshape(-1)[index])
    name = f"{call.names[argument]}{where or ''}"
    return told_element(name, float(value.reshape(-1)[index]), quotient, came, how)


def run_gradcheck(fn: Any, inputs: Any) -> Step:
    """Step 5: what does :func:`torch.autograd.gradcheck` say, with its own tolerances?"""
    call = Call(fn, inputs)
    try:
        gradcheck(lambda *args: call.outputs(args), call.args)
    except RuntimeError as error:
        return told_gradcheck(str(error).splitlines()[0])
    return told_gradcheck("")


def five_steps(fn: Any, inputs: Any, reference: Callable[..., Any] | None = None) -> Steps:
    """Take all five steps in order; printed, only the first that breaks is explained.

    ``fn`` is a ``torch.autograd.Function`` or a callable built on some, ``inputs`` the arguments of
    one call, ``reference`` a callable with the same arguments and the right values. A step that
    raises is broken, and those that would raise the same are not taken.

    Raises ``TypeError`` for complex inputs.
    """
    taken = [
        lambda: compare_forward(fn, inputs, reference),
        lambda: run_backward(fn, inputs),
        lambda: compare_magnitudes(fn, inputs),
        lambda: check_element(fn, inputs),
        lambda: run_gradcheck(fn, inputs),
    ]
    steps: list[Step] = []
    for title, take in zip(TITLES, taken, strict=True):
        stopped = next((step for step in steps if step.stops), None)
        steps.append(told_untaken(title, stopped) if stopped else _attempt(title, take))
    return Steps(Call(fn, inputs).name, tuple(steps))


def _attempt(title: str, take: Callable[[], Step]) -> Step:
    try:
        return take()
    except Exception as error:  # whatever the user's code raises is what there is to tell
        stage = "forward" if title == "forward" else "backward"
        return told_raised(title, stage, type(error).__name__, said(error))
