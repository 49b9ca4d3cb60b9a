"""Start JupyterLab on the course: loopback only, quiet, and nothing fetched from the network.

One process: JupyterLab runs in the one that calls :func:`serve`, so that Ctrl-C and SIGTERM reach
it, and its token appears in no process list.

Jupytext's server extension and its menus stay off here. They would rewrite the ``.py`` beside a
notebook at each save, and a learner's answer would land in the files the course is built from.
Authors edit the ``.py`` and build the notebooks.
"""

import logging
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import platformdirs
import zmq
from jupyterlab.labapp import LabApp
from traitlets.config import Config

DISTRACTIONS = (
    "@jupyterlab/apputils-extension:announcements",  # fetches news and asks for newer versions
    "jupyterlab-jupytext",
)

Say = Callable[[str], None]


def serve(folder: Path, notebook: Path, *, port: int, open_browser: bool, say: Say) -> None:
    """Serve ``folder`` at ``127.0.0.1``, opened at ``notebook``, until Ctrl-C or SIGTERM.

    ``notebook`` is relative to ``folder``. Where ``port`` is taken the next free one is used (0:
    any free one). ``say`` receives each line for the user, among them the URL with its token as
    soon as the server answers. Kernels are shut down before it returns.
    """
    token = secrets.token_hex(24)
    opened_at = f"/lab/tree/{quote(notebook.as_posix())}"
    config = lab_config(folder, opened_at, token=token, port=port, open_browser=open_browser)
    server = LabApp.initialize_server(argv=[], config=config)
    _stop_at_once(server)
    if port and server.port != port:
        say(f"Port {port} is already in use. Using port {server.port} instead.")
    url = f"{server.connection_url.rstrip('/')}{opened_at}?token={token}"
    # The socket is bound by a callback that stands in the loop before this one.
    server.io_loop.add_callback(
        say, f"JupyterLab is ready. Press Ctrl-C to stop it.\n\n    {url}\n"
    )
    server.start()
    say("JupyterLab and all kernels have stopped.")


def lab_config(
    folder: Path, opened_at: str, *, token: str, port: int, open_browser: bool
) -> Config:
    """Return the settings of the course's JupyterLab; they outrank the user's own files."""
    return Config(
        ServerApp={
            "ip": "127.0.0.1",
            "port": port,
            "root_dir": str(folder),
            "default_url": opened_at,
            "open_browser": open_browser,
            "allow_root": True,  # containers run as root, and only loopback can reach the server
            "jpserver_extensions": {
                "autograd_course.lab.nodelay": True,
                "jupyterlab_jupytext": False,
            },
            "tornado_settings": {"page_config_hook": _without_distractions},
        },
        IdentityProvider={"token": token},
        # Without it, ipykernel warns in the terminal that its traffic is plain text.
        # None is installed with the course; looking for some starts npm where there is one.
        LanguageServerManager={"autodetect": False},
        MappingKernelManager={"transport_encryption": "auto" if zmq.has("curve") else "disabled"},
        LabApp={
            "extension_manager": "readonly",  # the other one asks PyPI
            # Other projects' open tabs do not belong into the course's window.
            "workspaces_dir": str(platformdirs.user_state_path("autograd-course") / "workspaces"),
        },
        Application={"log_level": logging.ERROR},
    )


def _without_distractions(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    page_config["disabledExtensions"] = [*page_config.get("disabledExtensions", ()), *DISTRACTIONS]
    return page_config


def _stop_at_once(server: Any) -> None:
    """Replace Jupyter's own handlers: they ask for a confirmation, or leave kernels behind."""

    def stop(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C waits for nothing
        server.stop(from_signal=True)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, stop)
