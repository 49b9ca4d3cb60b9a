"""The widgets on ipywidgets 7.7.1, which Colab has: their Python side, in a second environment.

``make test`` puts that version into ``build/ipywidgets7``; before everything else on the path it
hides the one that is installed. What the marker ``ipywidgets7`` names is run there: what makes a
widget, moves it, or saves it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ELDER = TESTS.parent / "build" / "ipywidgets7"
WIDGETS = sorted(
    path.name
    for path in TESTS.glob("test_*.py")
    if "mark.ipywidgets7" in path.read_text(encoding="utf-8") and path != Path(__file__)
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ELDER), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=TESTS.parent,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture(scope="module")
def elder() -> None:
    if not ELDER.exists() and os.environ.get("CI"):
        pytest.fail("CI must test ipywidgets 7.7.1: run `make test`, which puts it there.")
    if not ELDER.exists():
        pytest.skip("no build/ipywidgets7: `make build/ipywidgets7` puts ipywidgets 7.7.1 there")


@pytest.mark.usefixtures("elder")
def test_the_second_environment_has_the_version_of_colab() -> None:
    done = run("-W", "ignore", "-c", "import ipywidgets; print(ipywidgets.__version__)")

    assert done.stdout == "7.7.1\n", done.stderr


@pytest.mark.usefixtures("elder")
@pytest.mark.timeout(900)
def test_the_widgets_hold_their_tests_there() -> None:
    files = [str(TESTS / name) for name in WIDGETS]
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "ipywidgets7")
    # It uses traitlets' old ways, about which newer traitlets warn.
    done = run("-m", "pytest", *options, "-W", "ignore::DeprecationWarning", *files)

    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
