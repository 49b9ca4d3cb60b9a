"""The GPU kernels are interpreted on the CPU, compiled for many GPUs, and run on a GPU here.

triton decides on import whether it interprets kernels, so each kind of test has its own process.
"""

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch
from attentions import grouped, qkv
from packaging.version import Version
from repository import ROOT, SUPPORT
from torch import Tensor

from autograd_course.functions.attention import TiledAttention
from autograd_course.functions.attention.triton_attention import TritonAttention, usable

pytestmark = pytest.mark.slow

NEEDS_TRITON = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed; it comes with the builds of PyTorch for CUDA",
)
NEEDS_INTERPRETER = pytest.mark.skipif(
    importlib.util.find_spec("triton") is not None
    and Version(version("triton")) < Version("3.7")
    and Version(version("numpy")) >= Version("2.4"),
    reason="the interpreter of triton 3.6 cannot read an index out of an array of NumPy 2.4",
)
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


def run(name: str, **environment: str) -> list[str]:
    """Run a script in ``support/kernels`` and return the lines that it prints."""
    paths = SUPPORT, ROOT, os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, SUPPORT / "kernels" / f"{name}.py"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@NEEDS_TRITON
@NEEDS_INTERPRETER
def test_interpreted_kernels_say_what_the_tiles_say() -> None:
    assert run("interpreted", TRITON_INTERPRET="1") == ["24 calls agree"]


@NEEDS_TRITON
def test_kernels_compile_and_fit_into_the_memory_of_small_gpus() -> None:
    # On a T4 (compute capability 7.5), a program has 64 KiB of shared memory.
    for line in run("compiled"):
        kernel, shared = line.split()
        assert int(shared) <= 64 * 1024, kernel


@pytest.mark.gpu
@NEEDS_TRITON
@NEEDS_GPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("given", [qkv(100, 130, 40, 64), grouped(70, 40)], ids=["heads", "groups"])
def test_kernels_say_what_the_tiles_say(
    dtype: torch.dtype, causal: bool, dropout_p: float, given: list[Tensor]
) -> None:
    inputs = [x.detach().to("cuda", dtype).requires_grad_() for x in given]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    found, truth = (
        fn.apply(*xs, *rest, causal, None, dropout_p, 5)
        for fn, xs, rest in ((TritonAttention, inputs, ()), (TiledAttention, exact, (None,)))
    )
    found = *found, *torch.autograd.grad(found[0].float().square().sum(), inputs)
    truth = *truth, *torch.autograd.grad(truth[0].square().sum(), exact)

    for one, other in zip(found, truth, strict=True):
        assert (one - other).abs().max() <= 16 * torch.finfo(dtype).eps * other.abs().max()


def test_without_a_gpu_the_tiles_serve() -> None:
    q, _, v = qkv()

    assert not usable(q.float(), v.float(), None)
