"""A forked kernel looks new to a notebook, and ends when it should."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Empty

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from warmkernels import FORKS, WarmKernels

pytestmark = [
    pytest.mark.skipif(not FORKS, reason="kernels are forked on Linux alone"),
    pytest.mark.slow,
]

Kernel = tuple[KernelManager, BlockingKernelClient]


@contextmanager
def kernel(warm: WarmKernels, **options: object) -> Iterator[Kernel]:
    with warm.used():
        manager, client = start_new_kernel(kernel_name="python3", **options)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def said(client: BlockingKernelClient, code: str) -> str:
    printed: list[str] = []
    client.execute_interactive(
        code, timeout=60, output_hook=lambda m: printed.append(m["content"].get("text", ""))
    )
    return "".join(printed).strip()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def two(warm_kernels: WarmKernels) -> Iterator[tuple[BlockingKernelClient, ...]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(kernel(warm_kernels))[1] for _ in range(2))


@pytest.mark.parametrize(
    "drawn",
    [
        "import random; print(random.random())",
        "import numpy; print(numpy.random.rand())",
        "import tempfile; print(tempfile.mktemp())",
    ],
)
def test_what_is_drawn_without_a_seed_differs(
    two: tuple[BlockingKernelClient, ...], drawn: str
) -> None:
    assert said(two[0], drawn) != said(two[1], drawn)


def test_names_of_one_are_unknown_to_the_other(two: tuple[BlockingKernelClient, ...]) -> None:
    said(two[0], "own = 1")

    assert said(two[1], "print('own' in globals(), '__file__' in globals())") == "False False"


def test_folder_and_environment_are_those_asked_for(
    warm_kernels: WarmKernels, tmp_path: Path
) -> None:
    own = {**os.environ, "OF_THE_KERNEL": "yes"}
    with kernel(warm_kernels, cwd=str(tmp_path), env=own) as (_, client):
        printed = said(client, "import os; print(os.getcwd(), os.environ['OF_THE_KERNEL'])")

    assert printed == f"{tmp_path} yes"


def test_an_interrupt_reaches_the_cell_that_runs(warm_kernels: WarmKernels) -> None:
    with kernel(warm_kernels) as (manager, client):
        asked = client.execute("import time; print('begun', flush=True); time.sleep(60)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        reply = None
        for _ in range(30):  # an interrupt may arrive while the kernel still sends the output
            manager.interrupt_kernel()
            with suppress(Empty):
                reply = client.get_shell_msg(timeout=1)
            if reply and reply["parent_header"]["msg_id"] == asked:
                break

    assert reply
    assert reply["content"]["ename"] == "KeyboardInterrupt"


def test_a_kernel_is_gone_after_its_shutdown(warm_kernels: WarmKernels) -> None:
    with kernel(warm_kernels) as (_, client):
        process = int(said(client, "import os; print(os.getpid())"))
        assert is_running(process)

    deadline = time.monotonic() + 30
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(process)
