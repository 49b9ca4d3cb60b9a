"""A layer that several processes on this machine train with DistributedDataParallel.

This code is in a module, because the processes can run only code that they can import, and they
cannot import notebook cells.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from autograd_course.functions import Linear

LIMIT = 90.0  # seconds for the whole run; starting the processes takes most of the time
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # the loopback network interface


class Returned(nn.Module):
    """Compute y = (gain·x) wᵀ with a Function that takes the weight and returns its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))
        self.weight = nn.Parameter(torch.tensor([[0.5, -1.0, 2.0]]))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(gain·x) wᵀ``."""
        return Linear.apply(self.gain * x, self.weight)  # type: ignore[no-any-return,no-untyped-call]


class Written(Returned):
    """Compute the same values. Backward reads the weight and writes its ``.grad`` directly."""

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(gain·x) wᵀ``. Autograd does not see the weight, which is not an argument."""
        return _Writing.apply(self.gain * x, self)  # type: ignore[no-any-return,no-untyped-call]


class _Writing(torch.autograd.Function):
    """Compute y = x wᵀ. Backward is wrong by design, because ∂L/∂w bypasses autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, owner: Returned) -> Tensor:
        ctx.save_for_backward(x)
        ctx.owner = owner
        return x @ owner.weight.T

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        ctx.owner.weight.grad = grad_output.T @ x
        return grad_output @ ctx.owner.weight, None


def gradients(layers: list[type[nn.Module]], shards: list[Tensor]) -> list[list[Tensor]]:
    """For each layer, return the gradient of its weight in each process after one step.

    Each shard of the batch has its own process, and DistributedDataParallel connects the processes.
    The loss is the mean of y² over the shard. A layer is an importable class with a parameter
    ``weight``. The function raises RuntimeError if a process fails or has not finished after
    ``LIMIT`` seconds. All processes have exited when the call returns.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = (folder, layers, shards)
        started = start_processes(_work, work, len(shards), join=False, start_method="spawn")
        _wait(started)
        found = [torch.load(_result(folder, rank)) for rank in range(len(shards))]
    return [list(of_layer) for of_layer in zip(*found, strict=True)]


def step(layer: type[nn.Module], shard: Tensor) -> Tensor:
    """Run one step in one of the processes, and return the gradient of ``layer().weight``."""
    model = DistributedDataParallel(layer())
    model(shard).square().mean().backward()
    gradient: Tensor = model.module.weight.grad
    return gradient


def _work(rank: int, folder: str, layers: list[type[nn.Module]], shards: list[Tensor]) -> None:
    torch.set_num_threads(1)
    if sys.platform in LOOPBACK:
        os.environ["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    meeting = (Path(folder) / "meeting").as_uri()
    wait = timedelta(seconds=LIMIT)
    dist.init_process_group("gloo", meeting, wait, world_size=len(shards), rank=rank)
    try:
        found = [step(layer, shards[rank]) for layer in layers]
        torch.save(found, _result(folder, rank))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _result(folder: str, rank: int) -> Path:
    return Path(folder) / f"{rank}.pt"


def _wait(started: Any) -> None:
    deadline = time.monotonic() + LIMIT
    try:
        while not started.join(timeout=1):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the processes have not finished within {LIMIT:.0f} seconds")
    finally:
        for process in started.processes:
            if process.is_alive():
                process.kill()
            process.join()
