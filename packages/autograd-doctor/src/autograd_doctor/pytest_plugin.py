"""``pytest --doctor``: examine every custom autograd Function that a test run calls.

Without ``--doctor``, this plugin does nothing and imports neither PyTorch nor the doctor. With
pytest-xdist, each worker records calls. At the end, each worker examines the Functions that no
other worker has claimed and sends the resulting rows to the controller, which prints a single
table.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from autograd_doctor.program import ProgramDiagnosis

_KEY = "autograd_doctor"
_SECONDS = 60.0
_STASH = pytest.StashKey["Doctor"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options of this plugin."""
    group = parser.getgroup("autograd-doctor", "custom autograd Functions")
    # These are two options, because a single option with an optional value would consume a path
    # after it.
    group.addoption(
        "--doctor",
        action="store_const",
        const="report",
        dest="doctor",
        help="Examine every custom autograd Function that the tests call, and print a table.",
    )
    group.addoption(
        "--doctor=strict",
        action="store_const",
        const="strict",
        dest="doctor",
        help="Do the same, and fail the run if a Function has an error that is not in the "
        "baseline.",
    )
    group.addoption(
        "--doctor-seconds",
        type=float,
        default=_SECONDS,
        metavar="SECONDS",
        help="Spend at most this long on the examination (default: 60). A Function may take a "
        "quarter of this time.",
    )
    group.addoption(
        "--doctor-json", type=Path, metavar="FILE", help="Write the result to this file as JSON."
    )
    group.addoption(
        "--doctor-baseline",
        type=Path,
        metavar="FILE",
        help="Do not report or fail on the errors listed in this file.",
    )
    group.addoption(
        "--doctor-update-baseline",
        action="store_true",
        help="Write this run's errors to the --doctor-baseline file.",
    )


def _wanted(options: Any) -> bool:
    names = ("doctor", "doctor_json", "doctor_baseline", "doctor_update_baseline")
    return any(getattr(options, name, None) for name in names)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start watching before pytest imports the first conftest.py."""
    if _wanted(early_config.known_args_namespace):
        _doctor_of(early_config)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Start watching, and register a :class:`Doctor` for this run."""
    if not _wanted(config.option):
        return
    if config.option.doctor_update_baseline and not config.option.doctor_baseline:
        raise pytest.UsageError("--doctor-update-baseline needs --doctor-baseline FILE.")
    config.pluginmanager.register(_doctor_of(config), "autograd-doctor-run")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop watching, even if the run ended before the first test."""
    if (doctor := config.stash.get(_STASH, None)) is not None:
        doctor.close()


def _doctor_of(config: pytest.Config) -> Doctor:
    if (doctor := config.stash.get(_STASH, None)) is None:
        doctor = config.stash[_STASH] = Doctor(config)
    return doctor


class Doctor:
    """The implementation of ``--doctor`` in one process of a test run."""

    def __init__(self, config: pytest.Config) -> None:
        from autograd_doctor._programs.watching import Watching

        self._config = config
        self._parts: list[ProgramDiagnosis] = []  # from the workers
        self._notes: list[str] = []
        self._result: ProgramDiagnosis | None = None
        self._claims: Path | None = None
        self._has_workers = self._fails = False
        self._watching = Watching()
        self._watching.start()

    def close(self) -> None:
        """Stop watching, and delete the folder shared with the workers."""
        self._watching.stop()
        if self._claims is not None:
            shutil.rmtree(self._claims, ignore_errors=True)

    # In the controller of pytest-xdist.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass a worker the path of the folder in which workers claim Functions."""
        self._has_workers = True
        if self._claims is None:
            self._claims = Path(tempfile.mkdtemp(prefix="autograd-doctor-"))
        node.workerinput[_KEY] = str(self._claims)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the results of a worker."""
        from autograd_doctor.program import unpacked

        try:
            self._parts.append(unpacked(node.workeroutput[_KEY]))
        except (AttributeError, KeyError, ValueError):
            name = node.gateway.id
            self._notes.append(f"Worker {name} ended early, so its calls were not examined.")

    # In every process.

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Examine the recorded calls, and fail the run if the options require it."""
        from autograd_doctor._programs.watching import claim_in
        from autograd_doctor.program import packed

        self._watching.stop()
        if not self._has_workers:
            worker = getattr(self._config, "workerinput", {})
            claim = {"claim": claim_in(Path(worker[_KEY]))} if _KEY in worker else {}
            self._parts.append(
                self._watching.diagnose(
                    self._config.option.doctor_seconds, self._config.rootpath, **claim
                )
            )
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_KEY] = packed(self._parts[0])
            return
        self._conclude(session)

    def _conclude(self, session: pytest.Session) -> None:
        from autograd_doctor._programs.watching import conclude
        from autograd_doctor.program import ProgramDiagnosis

        options = self._config.option
        self._result, fails = conclude(
            [*self._parts, ProgramDiagnosis(notes=tuple(self._notes), broken=bool(self._notes))],
            json=options.doctor_json,
            baseline=options.doctor_baseline,
            update=options.doctor_update_baseline,
        )
        self._fails = fails and options.doctor == "strict"
        if self._fails and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table and the reports."""
        if self._result is None:
            return
        terminalreporter.section("autograd-doctor")
        for line in self._result.lines():
            terminalreporter.write_line(line, **_color(line))
        if self._fails:
            from autograd_doctor._programs.baseline import why_it_fails

            why = why_it_fails(self._result, self._config.option.doctor_baseline)
            terminalreporter.write_line(f"With --doctor=strict the run fails: {why}.")


def _color(line: str) -> dict[str, bool]:
    return {"red": True, "bold": True} if line.startswith("✗ ") else {}
