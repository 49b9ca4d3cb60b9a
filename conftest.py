"""The environment of every test: the learner's own progress and profile are never touched."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tools.execution import notebook_environment

sys.path.insert(0, str(Path(__file__).parent / "tests"))
from quick import left_out, sampled
from warmkernels import FORKS, WarmKernels

_KERNELS = pytest.StashKey[WarmKernels]()
_SCRATCH = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--quick``, for the minute between two edits."""
    parser.addoption("--quick", action="store_true", help="some rows of each table, no processes")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what takes long where it is to be quick."""
    return True if config.option.quick and left_out(collection_path) else None


def choose_notebooks(config: pytest.Config) -> None:
    """Run the notebooks alone if ``--nbval`` or ``--nbval-lax`` is given and no path is.

    Their kernel is the Python that runs pytest, unless ``--nbval-kernel-name`` names another.
    """
    runs_notebooks = config.option.nbval or config.option.nbval_lax
    if runs_notebooks and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args[:] = [folder for folder in config.args if not folder.endswith("tests")]
    if config.option.nbval_kernel_name:
        config.option.nbval_current_env = False


def pytest_configure(config: pytest.Config) -> None:
    """Choose what is run; replace progress file, profile and thread count for the whole run."""
    choose_notebooks(config)
    scratch = tempfile.TemporaryDirectory(prefix="autograd-course-tests-")
    config.stash[_SCRATCH] = scratch
    config.stash[_KERNELS] = WarmKernels()
    os.environ |= notebook_environment(Path(scratch.name))


@pytest.fixture(scope="session")
def warm_kernels(pytestconfig: pytest.Config) -> WarmKernels:
    """Return what the notebooks' kernels are forked from."""
    return pytestconfig.stash[_KERNELS]


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the run has started, remove what it has written."""
    config.stash[_KERNELS].close()
    config.stash[_SCRATCH].cleanup()


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage the modules and tests that are there to stay."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Give every notebook that nbval runs, as the build does, a progress file of its own."""
    scratch, is_notebook = Path(item.config.stash[_SCRATCH].name), item.path.suffix == ".ipynb"
    if is_notebook:
        scratch = scratch / item.path.parent.name / item.path.stem
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ |= notebook_environment(scratch)
    forks = is_notebook and FORKS and item.config.option.nbval_current_env
    with item.config.stash[_KERNELS].used() if forks else nullcontext():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the repair where a notebook shows something else than it did."""
    failed = terminalreporter.getreports("failed")
    if any(".ipynb" in report.nodeid for report in failed):
        terminalreporter.write_line(
            "A notebook's outputs are no longer the saved ones. If the new ones are right: "
            "make notebooks FORCE=1"
        )


BUILDS = ("10_external_code",)  # what these notebooks show needs a C++ compiler

# They trace lines of Python, which hangs where torch.compile has run before (functionlab/lines.py).
FIRST = ("test_function_lab.py", "test_function_lab_js.py", "test_opening.py")

# A few tests that each take long: begun late, they would keep one process busy after the others.
LONG = (
    "test_lab_browser.py",
    "test_visualizers_browser.py",
    "test_authoring.py",
    "test_gradient_flow_js.py",
    "test_progress.py",
    "test_classroom_platforms.py",
    "test_classroom_grading.py",
    "test_watch.py",
    "test_facts_11.py",
    "test_run.py",
    "test_pytest_plugin.py",
    "test_classroom_command.py",
    "test_classroom_sandbox.py",
    "test_practice.py",
    "test_building.py",
    "test_attention_memory.py",
    "09_beyond_eager.ipynb",
    "11_ship_it.ipynb",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what must have a process in which nothing is compiled yet, then the longest files.

    Last, so that of what -m and -k leave a quick run takes its rows.
    Workers take files in this order where pytest-xdist is told not to reorder them.
    """
    from autograd_course.external import compiler_missing  # brings PyTorch, which only workers need

    if (missing := compiler_missing()) is not None and "CI" not in os.environ:
        for item in items:
            if item.path.suffix == ".ipynb" and item.path.stem in BUILDS:
                item.add_marker(pytest.mark.skip(reason=missing))
    if config.option.quick:
        items[:] = sampled(items)
    size = Counter(item.path for item in items)
    items.sort(key=lambda i: (i.path.name not in FIRST, i.path.name not in LONG, -size[i.path]))
