"""Export a learner's model, save the program, load it, and check the result."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.grader.verdict import Verdict, wrong
from autograd_course.ship import first_sentence, quiet

EXAMPLE = 8  # the number of images in the example batch


class Applied(nn.Module):
    """A layer that calls a function of one tensor, such as the ``apply`` method of a Function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Call the function and return its result."""
        return self.function(x)


def exported(model: nn.Module, example: Tensor) -> nn.Module:
    """Export the model and return the exported program as a module."""
    with quiet():
        module: nn.Module = torch.export.export(model, (example,)).module()
    return module


def delivered(program: Any) -> nn.Module | Verdict:
    """Save a program to bytes, load the bytes, and return the loaded program."""
    if not isinstance(program, torch.export.ExportedProgram):
        return wrong(
            f"the function returns {described(program)}, but this exercise asks for the program "
            "that `torch.export.export` returns, because it can be saved."
        )
    file = io.BytesIO()
    with quiet():
        torch.export.save(program, file)
        file.seek(0)
        module: nn.Module = torch.export.load(file).module()
    return module


def refused(shipped: nn.Module, batch: Tensor) -> Verdict | None:
    """Return a verdict if a loaded program raises an error for a different batch size."""
    try:
        with torch.no_grad():
            shipped(batch)
    except Exception as error:
        said = first_sentence(error).rstrip(".")
        why = (
            "A dim keeps its size from the example unless `dynamic_shapes` declares it as dynamic."
        )
        if re.search(r"size\(\)\[0\] <= \d", said):
            why = "The dim is dynamic, but it has an upper bound. Leave out the max of the Dim."
        return wrong(
            f"the loaded program raises an error for a batch of {len(batch)}: {said}. {why}"
        )
    return None


def described(value: Any) -> str:
    """Describe the object that a learner returned instead of an exported program."""
    if value is None:
        return "None"
    if isinstance(value, torch.jit.ScriptModule):
        return "a module of torch.jit"
    if isinstance(value, torch.fx.GraphModule):
        return "a GraphModule, as .module() makes one of a program"
    return f"something of type {type(value).__name__}"
