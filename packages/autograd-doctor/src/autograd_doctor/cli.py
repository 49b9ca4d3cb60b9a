"""The command ``check``: its output and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console

from autograd_course.check.options import (
    DoubleBackward,
    Html,
    Inputs,
    Intentional,
    Level,
    Look,
    Reference,
    Sampler,
    Seed,
    Strict,
    Surrogate,
    Target,
    TimeLimit,
)
from autograd_course.check.stdout import own_stdout
from autograd_course.shell.arguments import Json
from autograd_course.shell.exits import Exit, end, epilog
from autograd_course.shell.importing import importing

if TYPE_CHECKING:
    from autograd_doctor import Diagnosis

CODES = """\
Exit codes: 0 no error; 1 an error, or a warning with --strict;
2 invalid command; 3 the Function could not be examined."""
EPILOG = f"""\
Write TARGET as package.module:name or path/to/file.py:name. The current
folder is searched first.

INPUTS describes the arguments of an example call, separated by spaces:
  f64[3,4]        a tensor of standard normal numbers
  f64[]           a tensor without dimensions
  f64[3]>0        positive numbers
  f64[3]<1        numbers below 1
  f64[3](-1,1)    numbers between -1 and 1
  i64[5]          integers from 0 to 9
  i64[5]<4        integers from 0 to 3
  i64[5](2,6)     integers from 2 to 5
  bool[3]         true or false
  const f64[3]    a tensor that is not differentiated
  0.5 'sum' (2,2) None    numbers, strings, tuples and other literals
The dtypes are f16 f32 f64 bf16 c64 c128 i32 i64 bool.

INPUTS can also name a tuple of arguments, or a callable that returns one.
Write this name in the same form as TARGET.

The output of your own code goes to stderr, so stdout contains only the
report.

{epilog("check softplus.py:Softplus --inputs 'f64[5] 1.0'", CODES)}
"""


def check(
    target: Target,
    inputs: Inputs = None,
    sampler: Sampler = None,
    reference: Reference = None,
    surrogate: Surrogate = None,
    intentional: Intentional = None,
    double_backward: DoubleBackward = None,
    level: Look = Level.standard,
    seed: Seed = 0,
    time_limit: TimeLimit = 30.0,
    strict: Strict = False,
    json: Json = False,
    html: Html = None,
) -> None:
    """Check your own autograd Function and report its errors."""
    out = own_stdout()
    diagnosis = _diagnosed(
        target,
        inputs,
        sampler=sampler,
        reference=reference,
        surrogate=surrogate,
        intentional=intentional or (),
        double_backward=double_backward,
        level=level.value,
        seed=seed,
        time_limit=time_limit,
    )
    _show(diagnosis, out, json, html)
    if strict and diagnosis.ok and not diagnosis.passes(warnings=True):
        typer.echo("With --strict, a warning counts as an error.", err=True)
    raise typer.Exit(_exit(diagnosis, strict))


def _exit(diagnosis: Diagnosis, strict: bool) -> Exit:
    if diagnosis.passes(warnings=strict):
        return Exit.DONE
    return Exit.NOT_EXAMINED if diagnosis.ok is None else Exit.NOT_SO


def _diagnosed(target: str, inputs: str | None, **options: Any) -> Diagnosis:
    """Return the diagnosis, or print why there is none and end the command."""
    with importing():
        from autograd_doctor import CannotDiagnoseError

        from autograd_course.check.errors import NotUnderstoodError
        from autograd_course.check.running import checked

    try:
        return checked(target, inputs, **options)
    except NotUnderstoodError as error:
        end(str(error), Exit.NOT_UNDERSTOOD)
    except CannotDiagnoseError as error:
        end(str(error), Exit.NOT_EXAMINED)


def _show(diagnosis: Diagnosis, out: TextIO, json: bool, html: Path | None) -> None:
    from autograd_course.check.documents import as_json, as_page

    if json:
        print(as_json(diagnosis), file=out, flush=True)
    else:
        Console(file=out, soft_wrap=True).print(diagnosis)
    if html is None:
        return
    try:
        html.write_text(as_page(diagnosis), encoding="utf-8")
    except OSError as error:
        end(f"{html} could not be written: {error.strerror}.", Exit.NOT_UNDERSTOOD)
