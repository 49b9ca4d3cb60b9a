"""The arguments and options of the command ``check``, with their help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autograd_course.shell import completing


class Level(StrEnum):
    """How much ``diagnose`` checks."""

    standard = "standard"
    full = "full"


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="The Function to check, or a callable that uses a Function."
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="INPUTS", help="Call the Function with these arguments, for example 'f64[3,4] 0.5'."
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="Get the arguments from this callable, which takes a torch.Generator.",
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="Compare outputs and gradients with those of this differentiable callable.",
    ),
]
Surrogate = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET",
        help="Compare the gradients with the derivative of this differentiable callable.",
    ),
]
Intentional = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help="Allow the Function to break this rule. You can repeat this option.",
        autocompletion=completing.rules,
    ),
]
DoubleBackward = Annotated[
    bool | None,
    typer.Option(
        "--double-backward/--no-double-backward",
        help="Require correct second derivatives, or skip checking them.",
    ),
]
Look = Annotated[
    Level,
    typer.Option(
        help="Choose how much to check. 'full' adds slow checks and informational findings."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Use this seed for all random numbers.")]
TimeLimit = Annotated[
    float, typer.Option(min=0, help="Time limit for one pass in seconds (0 means no limit).")
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the report to this file as a web page."),
]
