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
    typer.Argument(metavar="TARGET", help="The Function to check, or a callable that uses one."),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="INPUTS", help="The arguments of an example call, for example 'f64[3,4] 0.5'."
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        metavar="TARGET", help="A callable that takes a torch.Generator and returns inputs."
    ),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="TARGET", help="A differentiable callable that computes the same."),
]
Surrogate = Annotated[
    str | None,
    typer.Option(metavar="TARGET", help="A callable whose derivative backward returns on purpose."),
]
Intentional = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help="A rule that the Function breaks on purpose. You can repeat this option.",
        autocompletion=completing.rules,
    ),
]
DoubleBackward = Annotated[
    bool | None,
    typer.Option(
        "--double-backward/--no-double-backward",
        help="Require correct second derivatives, or do not check them.",
    ),
]
Look = Annotated[
    Level,
    typer.Option(help="How much to check. full adds slow checks and purely informative ones."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed for the inputs and all other random numbers.")]
TimeLimit = Annotated[
    float, typer.Option(min=0, help="Time limit in seconds for one pass. 0 means no limit.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings, too.")]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the report as a web page to this file."),
]
