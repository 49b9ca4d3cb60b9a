"""A Jupyter server extension for tests. It reports TCP_NODELAY for each open kernel websocket."""

import gc
import socket
from typing import Any

from jupyter_server.services.kernels.websocket import KernelWebsocketHandler
from tornado.web import RequestHandler


class Probe(RequestHandler):
    def get(self) -> None:
        handlers = (item for item in gc.get_objects() if isinstance(item, KernelWebsocketHandler))
        sockets = [handler.ws_connection.stream.socket for handler in handlers]
        self.write(
            {"nodelay": [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in sockets]}
        )


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    server.web_app.add_handlers(".*$", [("/nodelay-probe", Probe)])
