"""What two of lesson 08's repairs ask beyond right gradients."""

from __future__ import annotations

from typing import Any

import torch
from autograd_doctor import Finding
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.grader.checks.calling import applied, backward, found


def needs_no_output(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask for a gradient that comes also where nobody holds the output anymore."""
    _, outputs = applied(function, inputs)
    total = torch.stack([out.sum() for out in outputs]).sum()  # a sum keeps a shape, no output
    del outputs
    try:
        total.backward()
    except Exception as error:
        return found(
            "backward-raises",
            "The gradient is right as long as somebody holds the output. After apply(x).sum() "
            f"nobody does, and backward raises {type(error).__name__}: {first_line(error)}",
            {},
            "A weak reference holds nothing, and backward needs a tensor that is held: by the "
            "engine, in the place that PyTorch has for outputs.",
        )
    return None


def leaves_the_generator(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that PyTorch's common generator is where it was, before forward and after backward."""
    with torch.random.fork_rng(devices=[]):
        torch.rand(())  # on from where an earlier call may have set it
        before = torch.get_rng_state()
        _, outputs = applied(function, inputs)
        backward(outputs)
        if torch.equal(before, torch.get_rng_state()):
            return None
    return found(
        "rng-not-restored",
        "One mask for both passes, but PyTorch's common generator is moved: whoever draws after "
        "this call, the next layer or a shuffle, draws other numbers than without it.",
        {},
        "torch.manual_seed sets that generator for the whole program. Seed one of your own, "
        "torch.Generator(x.device).manual_seed(seed), and give it to draw.",
    )
