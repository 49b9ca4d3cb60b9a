"""What the command ``check`` takes: each argument and option with its help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autograd_course.shell import completing


class Level(StrEnum):
    """How far ``diagnose`` looks."""

    standard = "standard"
    full = "full"


Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A Function, or a callable built on some.")
]
Inputs = Annotated[
    str | None, typer.Option(metavar="INPUTS", help="An example call, as 'f64[3,4] 0.5'.")
]
Sampler = Annotated[
    str | None,
    typer.Option(metavar="TARGET", help="Draws further inputs with a torch.Generator."),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="TARGET", help="The same in operations that PyTorch differentiates."),
]
Surrogate = Annotated[
    str | None, typer.Option(metavar="TARGET", help="What backward is the derivative of.")
]
Intentional = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RULE",
        help="A rule that is by design; repeatable.",
        autocompletion=completing.rules,
    ),
]
DoubleBackward = Annotated[
    bool | None,
    typer.Option(
        "--double-backward/--no-double-backward",
        help="Whether second derivatives must be right.",
    ),
]
Look = Annotated[
    Level, typer.Option(help="full: also what is slow to find out or only worth knowing.")
]
Seed = Annotated[int, typer.Option(min=0, help="Draws the inputs and all else.")]
TimeLimit = Annotated[
    float, typer.Option(min=0, help="Seconds for one pass; 0: as long as it takes.")
]
Strict = Annotated[bool, typer.Option("--strict", help="A warning fails as well.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the report as a web page.")
]
