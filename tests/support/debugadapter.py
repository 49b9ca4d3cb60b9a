"""A minimal client for debugpy that counts how often a program stops at a line breakpoint."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

LIMIT = 60.0  # seconds


def stops(program: Path, line: int, *arguments: str) -> int:
    """Run a program under debugpy, and continue at each stop. Return the number of stops."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        [*command, "--wait-for-client", str(program), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            with _connection(port) as connection, connection.makefile("rwb") as stream:
                return _count(stream, program, line)
        finally:
            process.kill()


def _count(stream: Any, program: Path, line: int) -> int:
    found = 0
    _send(stream, "initialize", adapterID="tests")
    _send(stream, "attach", justMyCode=False)
    while (message := _receive(stream)) is not None:
        match message.get("event"):
            case "initialized":
                place = {"source": {"path": str(program)}, "breakpoints": [{"line": line}]}
                _send(stream, "setBreakpoints", **place)
                _send(stream, "configurationDone")
            case "stopped":
                found += 1
                _send(stream, "continue", threadId=message["body"]["threadId"])
            case "terminated" | "exited":
                break
    return found


def _connection(port: int) -> socket.socket:
    end = time.monotonic() + LIMIT
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _send(stream: BinaryIO, command: str, **arguments: Any) -> None:
    request = {"seq": 1, "type": "request", "command": command, "arguments": arguments}
    body = json.dumps(request).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()


def _receive(stream: BinaryIO) -> dict[str, Any] | None:
    size = 0
    while (header := stream.readline().strip()) != b"":
        if header.lower().startswith(b"content-length:"):
            size = int(header.partition(b":")[2])
    return json.loads(stream.read(size)) if size else None
