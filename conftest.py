"""The environment of every test. Tests never touch the learner's own progress and profile."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tools.execution import notebook_environment

sys.path.insert(0, str(Path(__file__).parent / "tests" / "support"))
from warmkernels import FORKS, WarmKernels

_KERNELS = pytest.StashKey[WarmKernels]()
_SCRATCH = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--quick``, for a short run between two edits."""
    parser.addoption(
        "--quick", action="store_true", help="some rows of each table, none of the slow"
    )


def choose_notebooks(config: pytest.Config) -> None:
    """If ``--nbval`` or ``--nbval-lax`` is given without a path, run only the notebooks.

    Their kernel is the Python that runs pytest, unless ``--nbval-kernel-name`` names another
    kernel.
    """
    runs_notebooks = config.option.nbval or config.option.nbval_lax
    if runs_notebooks and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args[:] = [folder for folder in config.args if not folder.endswith("tests")]
    if config.option.nbval_kernel_name:
        config.option.nbval_current_env = False


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tests, and replace the progress file, the profile and the thread count for the
    run.
    """
    choose_notebooks(config)
    scratch = tempfile.TemporaryDirectory(prefix="autograd-course-tests-")
    config.stash[_SCRATCH] = scratch
    config.stash[_KERNELS] = WarmKernels()
    # Tracing creates a lot of garbage, and the tests are many objects.
    gc.set_threshold(20_000, 20, 50)
    os.environ |= notebook_environment(Path(scratch.name))


@pytest.fixture(scope="session")
def warm_kernels(pytestconfig: pytest.Config) -> WarmKernels:
    """Return the processes from which the notebooks' kernels are forked."""
    return pytestconfig.stash[_KERNELS]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the processes that the run started, and delete the files that it wrote."""
    config.stash[_KERNELS].close()
    config.stash[_SCRATCH].cleanup()


def pytest_collection_finish() -> None:
    """Exclude the modules and tests, which remain in memory, from later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Restore coverage's tracer, which Python drops after errors such as RecursionError."""
    before = sys.gettrace()
    result = yield
    if sys.gettrace() is not before:
        sys.settrace(before)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Give each notebook that nbval runs its own progress file, as the build does."""
    scratch, is_notebook = Path(item.config.stash[_SCRATCH].name), item.path.suffix == ".ipynb"
    if is_notebook:
        scratch = scratch / item.path.parent.name / item.path.stem
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ |= notebook_environment(scratch)
    forks = is_notebook and FORKS and item.config.option.nbval_current_env
    with item.config.stash[_KERNELS].used() if forks else nullcontext():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """If a notebook's outputs have changed, print the command that saves the new ones."""
    failed = terminalreporter.getreports("failed")
    if any(".ipynb" in report.nodeid for report in failed):
        terminalreporter.write_line(
            "A notebook's outputs are no longer the saved ones. If the new ones are right: "
            "make notebooks FORCE=1"
        )


# An untouched notebook shows little besides "not attempted". These two notebooks represent all of
# them. One asks for Functions, and the other asks for lines, experiments and predictions.
UNTOUCHED = ("01_template", "04_debugging_clinic")
BUILDS = ("14_external_code",)  # the outputs of these notebooks need a C++ compiler
# These notebooks take as long as a slow test file.
SLOW = ("12_compile_and_operators", "15_ship_it")
ROWS = 3  # number of rows per table in a quick run


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run most of the untouched exercises only in a thorough run."""
    path = item.path
    if path.suffix == ".ipynb" and path.parent.name == "exercises" and path.stem not in UNTOUCHED:
        item.add_marker(pytest.mark.thorough)


def spread(table: list[pytest.Item]) -> list[pytest.Item]:
    """Return a few evenly spaced rows of a table."""
    return table[:: max(1, len(table) // ROWS)][:ROWS]


def sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return a few rows of each test's table. Slow tests are left out."""
    rows: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(map(item.get_closest_marker, ("slow", "browser", "thorough"))):
            rows[item.nodeid.partition("[")[0]].append(item)
    return [item for table in rows.values() for item in spread(table)]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the tests that need a process without compiled code, then run the slow files.

    Of the tests in the first group, those that compile code themselves come last. They are marked
    as slow. If a slow file began late, its process would still be busy after the others have
    finished. This hook runs last, so a quick run chooses its rows from the tests that -m and -k
    select. Workers take the files in this order if pytest-xdist does not reorder them.
    """
    from autograd_course.external import compiler_missing  # imports PyTorch; only workers need it

    if (missing := compiler_missing()) is not None and "CI" not in os.environ:
        for item in items:
            if item.path.suffix == ".ipynb" and item.path.stem in BUILDS:
                item.add_marker(pytest.mark.skip(reason=missing))
    if config.option.quick:
        items[:] = sampled(items)
    size = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        slow = item.get_closest_marker("slow") is not None
        notebook = item.path.stem in SLOW and item.path.suffix == ".ipynb"
        begins = slow or notebook or item.get_closest_marker("browser") is not None
        if item.get_closest_marker("uncompiled") is not None:
            return False, slow, -size[item.path]
        return True, not begins, -size[item.path]

    items.sort(key=place)
