"""Start JupyterLab for the course. It listens only on the loopback interface.

JupyterLab runs in the process that calls :func:`serve`. JupyterLab therefore receives Ctrl-C and
SIGTERM, and its token does not appear in the process list.

The launcher turns off Jupytext's server extension and menus. They would rewrite the ``.py`` file
next to a notebook each time the learner saves it, and the learner's answers would end up in the
course's sources. Authors edit the ``.py`` file and build the notebook.
"""

import json
import logging
import secrets
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import platformdirs
import zmq
from jupyterlab.labapp import LabApp
from jupyterlab_server.workspaces_handler import WorkspacesManager
from tornado.ioloop import PeriodicCallback
from traitlets.config import Config

from autograd_course.lab.folder import OVERVIEW

DISTRACTIONS = (
    "@jupyterlab/apputils-extension:announcements",  # fetches news and checks for newer versions
    "jupyterlab-jupytext",
)

REWRITE_MS = 5000  # how often to rewrite the progress page if the progress has changed

Say = Callable[[str], None]


def serve(
    folder: Path,
    notebook: Path,
    overview: Callable[[], str],
    *,
    port: int,
    open_browser: bool,
    say: Say,
) -> None:
    """Serve ``folder`` on ``127.0.0.1`` until Ctrl-C or SIGTERM, and open ``notebook``.

    ``notebook`` is relative to ``folder``. ``overview`` returns a page in Markdown, which the first
    window shows next to the notebook. If ``port`` is in use, the server takes the next free port.
    With port 0, it takes any free port. The function calls ``say`` with each line that the user
    should see. As soon as the server answers requests, the function passes the URL with its token
    to ``say``. Before the function returns, it shuts down all kernels.
    """
    token = secrets.token_hex(24)
    opened_at = f"/lab/tree/{quote(notebook.as_posix())}"
    config = lab_config(folder, opened_at, token=token, port=port, open_browser=open_browser)
    server = LabApp.initialize_server(argv=[], config=config)
    _stop_at_once(server)
    write_overview(folder, overview)
    if (folder / OVERVIEW).is_file():
        arrange_first_window(notebook, Path(config.LabApp.workspaces_dir))
        PeriodicCallback(partial(write_overview, folder, overview), REWRITE_MS).start()
    if port and server.port != port:
        say(f"Port {port} is already in use. Using port {server.port} instead.")
    url = f"{server.connection_url.rstrip('/')}{opened_at}?token={token}"
    # An earlier callback in the loop binds the socket, so this one runs once the server answers.
    server.io_loop.add_callback(
        say, f"JupyterLab is ready. Press Ctrl-C to stop it.\n\n    {url}\n"
    )
    server.start()
    say("JupyterLab and all kernels have stopped.")


def lab_config(
    folder: Path, opened_at: str, *, token: str, port: int, open_browser: bool
) -> Config:
    """Return JupyterLab's settings, which override the user's own configuration files."""
    return Config(
        ServerApp={
            "ip": "127.0.0.1",
            "port": port,
            "root_dir": str(folder),
            "default_url": opened_at,
            "open_browser": open_browser,
            "allow_root": True,  # containers run as root, and the server listens only on loopback
            "jpserver_extensions": {
                "autograd_course.lab.nodelay": True,
                "jupyterlab_jupytext": False,
            },
            "tornado_settings": {"page_config_hook": _without_distractions},
        },
        IdentityProvider={"token": token},
        # The course installs no language server, and looking for one would start npm.
        LanguageServerManager={"autodetect": False},
        # Without encryption, ipykernel prints a warning in the terminal.
        MappingKernelManager={"transport_encryption": "auto" if zmq.has("curve") else "disabled"},
        LabApp={
            "extension_manager": "readonly",  # the default extension manager asks PyPI
            # Keep other projects' tabs out of the course's window.
            "workspaces_dir": str(platformdirs.user_state_path("autograd-course") / "workspaces"),
        },
        Application={"log_level": logging.ERROR},
    )


def write_overview(folder: Path, overview: Callable[[], str]) -> None:
    """Write the page into the course folder if it has changed and the folder is writable."""
    path, text = folder / OVERVIEW, overview()
    with suppress(OSError):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def arrange_first_window(notebook: Path, workspaces: Path) -> None:
    """Show the page to the left of ``notebook``, unless JupyterLab restores an earlier layout.

    The page is in the sidebar, so it stays visible when the learner clicks a link that opens a
    notebook.
    """
    manager = WorkspacesManager(str(workspaces))
    if manager.load("default")["data"]:
        return
    lesson, page = f"notebook:{notebook.as_posix()}", f"markdownviewer-widget:{OVERVIEW}"
    layout = {
        "main": {
            "dock": {"type": "tab-area", "currentIndex": 0, "widgets": [lesson]},
            "current": lesson,
        },
        "left": {
            "collapsed": False,
            "visible": True,
            "current": page,
            "widgets": [page, "filebrowser", "running-sessions", "@jupyterlab/toc:plugin"],
        },
        "right": {"collapsed": True, "visible": True, "widgets": []},
        "relativeSizes": [0.28, 0.72, 0],
    }
    data = {
        "layout-restorer:data": layout,
        "file-browser-filebrowser:cwd": {"path": notebook.parent.as_posix()},
        lesson: {"data": {"path": notebook.as_posix(), "factory": "Notebook"}},
        page: {"data": {"path": str(OVERVIEW), "factory": "Markdown Preview"}},
    }
    manager.save("default", json.dumps({"data": data, "metadata": {"id": "default"}}))


def _without_distractions(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    page_config["disabledExtensions"] = [*page_config.get("disabledExtensions", ()), *DISTRACTIONS]
    return page_config


def _stop_at_once(server: Any) -> None:
    """Replace Jupyter's signal handlers, which ask for confirmation or leave kernels running."""

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C stops at once
        server.stop(from_signal=True)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
