"""The command ``autograd-doctor``: ``check`` a Function, ``run`` a program, ``explain`` a rule.

This module imports PyTorch only when a command runs, which keeps ``--help`` and shell completion
fast.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

try:
    import typer
    from rich.console import Console
except ImportError as error:
    raise SystemExit(
        f"The command needs {error.name}. Run: pip install 'autograd-doctor[cli]'"
    ) from None

if TYPE_CHECKING:
    from autograd_doctor import Diagnosis


class Exit(IntEnum):
    """The exit code of a command. Scripts can rely on these codes."""

    DONE = 0
    NOT_SO = 1
    NOT_UNDERSTOOD = 2
    NOT_EXAMINED = 3


def end(message: str, code: Exit = Exit.NOT_SO) -> NoReturn:
    """Print the reason for a failure, and end the command."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


def _rules_beginning_with(incomplete: str) -> list[str]:
    """Return the rule names that start with the typed text."""
    pages = (Path(__file__).parent / "_rules").glob("*.md")
    return sorted(page.stem for page in pages if page.stem.startswith(incomplete))


class Level(StrEnum):
    """The values of the option ``--level``."""

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
        autocompletion=_rules_beginning_with,
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
Warnings = Annotated[bool, typer.Option("--warnings", help="Exit with code 1 for a warning too.")]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the report to this file as a web page."),
]


_CODES = """\
Exit codes: 0 no error, or --fix has removed every error;
1 an error, or a warning with --warnings; 2 invalid command;
3 the Function could not be examined."""
_CHECK_EPILOG = """\
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

Example: {program} check softplus.py:Softplus --inputs 'f64[5] 1.0'

"""


def check_epilog(program: str) -> str:
    """Return the end of the help text for ``check``.

    ``program`` is the program that offers the command.
    """
    return _CHECK_EPILOG.replace("{program}", program) + _CODES


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
    repair: Annotated[
        bool, typer.Option("--repair/--no-repair", help="Search for a change that fixes the code.")
    ] = True,
    warnings: Warnings = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    html: Html = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Search for a change that corrects the gradients, and show it "
            "as a diff. Ask before writing it to the file.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix, write without asking.")] = False,
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
        repair=repair,
    )
    _show(diagnosis, out, json, html)
    if fix and not json and _fix(diagnosis, out, yes, warnings=warnings):
        raise typer.Exit(Exit.DONE)
    if warnings and diagnosis.ok and not diagnosis.passes(warnings=True):
        typer.echo("With --warnings, a warning counts as an error.", err=True)
    raise typer.Exit(_exit(diagnosis, warnings=warnings))


def _exit(diagnosis: Diagnosis, *, warnings: bool) -> Exit:
    if diagnosis.passes(warnings=warnings):
        return Exit.DONE
    return Exit.NOT_EXAMINED if diagnosis.ok is None else Exit.NOT_SO


def _diagnosed(target: str, inputs: str | None, **options: Any) -> Diagnosis:
    """Return the diagnosis. If a diagnosis is impossible, print the reason and end the command."""
    with _without_garbage_collection():
        from autograd_doctor import CannotDiagnoseError
        from autograd_doctor._check import checked
        from autograd_doctor._targets import NotUnderstoodError

    try:
        return checked(target, inputs, **options)
    except NotUnderstoodError as error:
        end(str(error), Exit.NOT_UNDERSTOOD)
    except CannotDiagnoseError as error:
        end(str(error), Exit.NOT_EXAMINED)


def _show(diagnosis: Diagnosis, out: TextIO, json: bool, html: Path | None) -> None:
    from autograd_doctor._check import as_json, as_page

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


def _fix(diagnosis: Diagnosis, out: TextIO, yes: bool, *, warnings: bool) -> bool:
    """Show a repair, and write it to the file if the user agrees.

    Returns:
        Whether the file has changed and the Function now passes.
    """
    say = partial(print, file=out, flush=True)
    repair = diagnosis.repair
    if repair is None:
        if diagnosis.ok is False:
            say("No small change was found that makes every gradient right.")
        return False
    say(f"\n{repair.patch()}\n{repair.reason}")
    if not yes and not (sys.stdin.isatty() and typer.confirm("Write this change?", err=True)):
        say("Nothing was written. --fix --yes writes the change.")
        return False
    try:
        repair.apply()
    except (OSError, ValueError) as error:
        end(f"The change was not written: {error}", Exit.NOT_UNDERSTOOD)
    say(f"{repair.file} was changed.")
    warned = {it.rule for it in diagnosis.findings if it.severity == "warning"} - {repair.removes}
    return not repair.left and not (warnings and warned)


def own_stdout() -> TextIO:
    """Return standard output, and redirect all later output from other code to standard error.

    The redirection also applies to native code, child processes and atexit handlers. It cannot be
    undone, so only commands that own the whole process can use this function.
    """
    out = sys.stdout
    out.flush()
    try:
        shared = out.fileno() == 1
    except io.UnsupportedOperation:  # a test has replaced standard output
        shared = False
    if shared:
        out = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors="replace")
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out


_RUN_EPILOG = """\
Put the options of autograd-doctor before the script. Everything after the
script is passed to the script.

The report goes to stderr, so the output of the script does not change.

Ctrl-C, SIGTERM, --seconds and --steps end the script, and you still get the
report.

Examples: autograd-doctor run train.py --epochs 1
          autograd-doctor run --steps 20 -m package.train

Exit codes: that of the script; 0 if --seconds or --steps ended it;
1 if the script ended with 0 and --strict found an error;
2 invalid command."""


def run(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT [ARGS]...", help="The script (with -m, the module) and its arguments."
        ),
    ],
    module: Annotated[bool, typer.Option("-m", help="Run a module, as python -m does.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Stop the script after this time."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Stop the script after N optimizer steps."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 1 if a Function has a new error.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result to this file as JSON.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Do not report the errors listed in this file."),
    ] = None,
    update_baseline: Annotated[
        bool,
        typer.Option("--update-baseline", help="Write this run's errors to the --baseline file."),
    ] = False,
    doctor_seconds: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Spend at most this long examining the Functions."
        ),
    ] = 60.0,
) -> None:
    """Run a script, and examine every custom autograd Function that it calls."""
    from autograd_doctor._programs.baseline import why_it_fails
    from autograd_doctor._programs.script import end_by, run_program
    from autograd_doctor._programs.watching import Watching, conclude

    if not module and not Path(command[0]).exists():
        known = [path.stem for path in Path(command[0]).parent.glob("*.py")]
        close = get_close_matches(Path(command[0]).stem, known, 1)
        meant = f" Did you mean {close[0]}.py?" if close else ""
        end(f"There is no file {command[0]}.{meant}", Exit.NOT_UNDERSTOOD)
    if update_baseline and baseline is None:
        end("--update-baseline needs --baseline FILE.", Exit.NOT_UNDERSTOOD)
    folder, number = Path.cwd(), 0
    end_by(lambda: number)
    watching = Watching()
    watching.start()
    ended = run_program(command, module=module, seconds=seconds, steps=steps)
    watching.stop()
    found, fails = conclude(
        [watching.diagnose(doctor_seconds, folder)],
        json=json and folder / json,
        baseline=baseline and folder / baseline,
        update=update_baseline,
    )
    sys.stdout.flush()
    for line in (*([ended.note] if ended.note else []), *found.lines()):
        print(line, file=sys.stderr)
    if strict and fails:
        print(f"With --strict the run fails: {why_it_fails(found, baseline)}.", file=sys.stderr)
    if ended.by_signal:
        number = ended.by_signal
        raise typer.Exit(128 + number)
    raise typer.Exit(Exit.NOT_SO if strict and fails and not ended.code else ended.code)


def explain(
    rule: Annotated[
        str,
        typer.Argument(
            help="The name of a rule. Without it, the command lists all rules.",
            autocompletion=_rules_beginning_with,
        ),
    ] = "",
) -> None:
    """Explain a rule, and show how to fix the code."""
    with _without_garbage_collection():
        from autograd_doctor import UnknownRuleError
        from autograd_doctor import explain as explanation

    try:
        show_markdown(str(explanation(rule)))
    except UnknownRuleError as unknown:
        end(str(unknown), Exit.NOT_UNDERSTOOD)


def show_markdown(text: str) -> None:
    """Print Markdown. Format it for a terminal, but not for a pipe."""
    # In a pipe, do not wrap, color or interpret the text, so that URLs stay intact.
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if not console.is_terminal:
        return console.print(text)
    from rich.markdown import Markdown

    return Console().print(Markdown(text))


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection, which takes a third of PyTorch's import time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


app = typer.Typer(
    help="Find out what is wrong with a custom autograd Function.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"autograd-doctor {version('autograd-doctor')}")
        raise typer.Exit


@app.callback()
def _doctor(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Find out what is wrong with a custom autograd Function."""


app.command(epilog=check_epilog("autograd-doctor"))(check)
app.command(epilog=_RUN_EPILOG, context_settings={"allow_interspersed_args": False})(run)
app.command()(explain)


if __name__ == "__main__":
    app()
