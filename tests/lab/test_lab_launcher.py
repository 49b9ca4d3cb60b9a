"""The launcher without a browser: its folder, its port, what it serves, and how it stops."""

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from jupyterlab_server.workspaces_handler import WorkspacesManager
from labdrive import RunningLab, running_lab, stop
from repository import SUPPORT
from sampling import first_rows
from tornado.websocket import websocket_connect

from autograd_course.lab import nodelay
from autograd_course.lab.folder import (
    FIRST_NOTEBOOK,
    OVERVIEW,
    LabError,
    course_folder,
    notebook_in,
)
from autograd_course.lab.launcher import arrange_first_window, write_overview

pytestmark = pytest.mark.slow

EMPTY_NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
PAIRED = '[tool.jupytext]\nformats = "ipynb,py:percent"\n'


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the smallest possible course folder, which jupytext pairs as in the real course."""
    folder = tmp_path_factory.mktemp("course").resolve()
    for name in ("notebooks/00_start_here.ipynb", "exercises/01 first.ipynb"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(json.dumps(EMPTY_NOTEBOOK))
    (folder / "exercises" / "01 first.py").write_text("# %%\n# the source\n")
    (folder / "pyproject.toml").write_text(PAIRED)
    return folder


# --- which folder, which notebook ---------------------------------------------------------------


@pytest.mark.parametrize("start", [".", "notebooks", "exercises"])
def test_the_course_is_found_from_anywhere_inside_it(course: Path, start: str) -> None:
    assert course_folder(course / start, repository=Path("/nowhere")) == course


def test_the_installed_repository_is_the_course_elsewhere(course: Path, tmp_path: Path) -> None:
    assert course_folder(tmp_path, repository=course) == course


def test_no_course_folder_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"There is no course in .*: change into your copy .* git clone https"
    ):
        course_folder(tmp_path, repository=tmp_path)


@pytest.mark.parametrize("typed_in", [".", "exercises"])
def test_a_notebook_is_named_from_here_or_from_the_course_folder(
    course: Path, monkeypatch: pytest.MonkeyPatch, typed_in: str
) -> None:
    monkeypatch.chdir(course / typed_in)
    typed = Path("exercises", "01 first.ipynb") if typed_in == "." else Path("01 first.ipynb")
    assert notebook_in(course, typed) == Path("exercises", "01 first.ipynb")
    assert notebook_in(course, FIRST_NOTEBOOK) == FIRST_NOTEBOOK


def test_a_notebook_that_cannot_be_opened_is_refused(course: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="There is no notebook"):
        notebook_in(course, Path("notebooks/99_missing.ipynb"))
    outside = tmp_path / "mine.ipynb"
    outside.write_text("{}")
    with pytest.raises(LabError, match="copy it into the course"):
        notebook_in(course, outside)


# --- the server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    home = tmp_path_factory.mktemp("home")
    enabled = home / "config" / "jupyter_server_config.d"
    enabled.mkdir(parents=True)
    extensions = {"ServerApp": {"jpserver_extensions": {"nodelay_probe": True}}}
    (enabled / "probe.json").write_text(json.dumps(extensions))
    notebook = ("--notebook", "01 first.ipynb", "--port", "0")
    with running_lab(course / "exercises", home, *notebook, PYTHONPATH=str(SUPPORT)) as running:
        yield running
    assert running.process.returncode == 0


def ask(lab: RunningLab, path: str, method: str = "GET", body: Any = None) -> Any:
    """Send a request to Jupyter's REST API and return the decoded answer."""
    token = parse_qs(urlsplit(lab.url).query)["token"][0]
    request = urllib.request.Request(
        urlsplit(lab.url)._replace(path=path, query="").geturl(),
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Authorization": f"token {token}"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def test_the_printed_url_opens_the_notebook_and_little_else_is_printed(lab: RunningLab) -> None:
    assert urlsplit(lab.url).hostname == "127.0.0.1"
    assert urlsplit(lab.url).path == "/lab/tree/exercises/01%20first.ipynb"
    with urllib.request.urlopen(lab.url, timeout=20) as page:
        assert page.status == 200
    assert lab.printed == f"JupyterLab is ready. Press Ctrl-C to stop it.\n\n    {lab.url}\n\n"


def test_without_the_token_nothing_is_served(lab: RunningLab) -> None:
    api = urlsplit(lab.url)._replace(path="/api/contents", query="").geturl()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(api, timeout=20)


def test_the_whole_course_folder_is_served(lab: RunningLab) -> None:
    entries = ask(lab, "/api/contents/")["content"]
    assert {"notebooks", "exercises"} <= {entry["name"] for entry in entries}


def test_the_overview_is_written_into_the_course_folder(lab: RunningLab, course: Path) -> None:
    assert (course / OVERVIEW).read_text().startswith("# Your course\n")


def test_the_overview_is_written_again_only_if_it_has_changed(tmp_path: Path) -> None:
    write_overview(tmp_path, lambda: "one")
    os.utime(tmp_path / OVERVIEW, (0, 0))

    write_overview(tmp_path, lambda: "one")
    assert (tmp_path / OVERVIEW).stat().st_mtime == 0
    write_overview(tmp_path, lambda: "two")
    assert (tmp_path / OVERVIEW).read_text() == "two"


def test_a_folder_that_cannot_be_written_has_no_overview(tmp_path: Path) -> None:
    write_overview(tmp_path / "missing", lambda: "one")

    assert list(tmp_path.iterdir()) == []


def test_the_window_that_a_learner_has_arranged_is_kept(tmp_path: Path) -> None:
    workspaces = WorkspacesManager(str(tmp_path))
    arrange_first_window(FIRST_NOTEBOOK, tmp_path)
    first = workspaces.load("default")
    arranged = json.dumps({"data": {"mine": {}}, "metadata": {"id": "default"}})
    workspaces.save("default", arranged)
    arrange_first_window(FIRST_NOTEBOOK, tmp_path)

    assert first["data"]["notebook:notebooks/00_start_here.ipynb"]
    assert workspaces.load("default")["data"] == {"mine": {}}


def test_saving_a_notebook_leaves_the_source_beside_it_alone(lab: RunningLab, course: Path) -> None:
    code = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "id": "one"}
    content = EMPTY_NOTEBOOK | {"cells": [code | {"execution_count": None}]}
    path = "/api/contents/exercises/01%20first.ipynb"
    ask(lab, path, "PUT", {"type": "notebook", "format": "json", "content": content})
    saved = json.loads((course / "exercises" / "01 first.ipynb").read_text())
    assert saved["cells"][0]["source"] == ["1"]
    assert (course / "exercises" / "01 first.py").read_text() == "# %%\n# the source\n"


def test_news_updates_and_pairing_are_off_in_the_page(lab: RunningLab) -> None:
    with urllib.request.urlopen(lab.url, timeout=20) as page:
        html = page.read().decode()
    assert '"@jupyterlab/apputils-extension:announcements"' in html
    assert '"jupyterlab-jupytext"' in html.partition('"disabledExtensions"')[2]


def test_kernel_websockets_have_tcp_nodelay(lab: RunningLab) -> None:
    kernel = ask(lab, "/api/kernels", "POST", {})["id"]
    channels = urlsplit(lab.url)._replace(scheme="ws", path=f"/api/kernels/{kernel}/channels")

    async def connected() -> dict[str, list[int]]:
        connection = await websocket_connect(channels.geturl())
        try:
            return await asyncio.to_thread(ask, lab, "/nodelay-probe")
        finally:
            connection.close()

    assert asyncio.run(asyncio.wait_for(connected(), timeout=30)) == {"nodelay": [1]}


@pytest.mark.thorough
def test_a_second_instance_takes_the_next_port_and_says_so(
    lab: RunningLab, course: Path, tmp_path: Path
) -> None:
    taken = urlsplit(lab.url).port
    with running_lab(course, tmp_path, "--no-browser", PORT=str(taken)) as second:
        chosen = urlsplit(second.url).port
        assert chosen != taken
        assert second.printed.startswith(
            f"Port {taken} is already in use. Using port {chosen} instead.\n"
        )
        assert ask(second, "/api/kernels") == []
        assert ask(lab, "/api/status")["started"] != ask(second, "/api/status")["started"]


def test_ctrl_c_in_a_terminal_stops_kernels_and_server_without_a_question(
    course: Path, tmp_path: Path
) -> None:
    with running_lab(course, tmp_path, "--port", "0", terminal=True) as lab:
        ask(lab, "/api/kernels", "POST", {})
        kernels = psutil.Process(lab.process.pid).children(recursive=True)
        assert kernels
        assert stop(lab.process, by=signal.SIGINT) == 0
        assert not [kernel for kernel in kernels if kernel.is_running()]
        assert lab.printed.endswith("JupyterLab and all kernels have stopped.\n")


@pytest.mark.parametrize(
    ("options", "times"), first_rows([((), 1), (("--no-browser",), 0)], most=1, unpack=True)
)
def test_the_browser_of_the_user_is_opened_once_or_not_at_all(
    course: Path, tmp_path: Path, options: tuple[str, ...], times: int
) -> None:
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    opened.touch()
    with running_lab(
        course, tmp_path / "home", "--port", "0", *options, BROWSER=str(browser)
    ) as lab:
        ask(lab, "/api/status")
    assert opened.read_text().count("\n") == times


# --- a jupyter_server that has changed ------------------------------------------------------------


def test_an_unknown_websocket_api_is_one_logged_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[str] = []
    server = SimpleNamespace(log=SimpleNamespace(error=logged.append))
    module = "jupyter_server.services.kernels.websocket"
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(KernelWebsocketHandler=object))
    nodelay._load_jupyter_server_extension(server)
    assert len(logged) == 1
    assert "sliders work" in logged[0]
