"""Helpers that only the lessons use.

A lesson imports from four modules. ``autograd_course`` contains the functions for your own
projects, such as ``diagnose``. ``autograd_course.functions`` contains the reference Functions, and
``autograd_course.visualize`` contains the live pictures. This module contains the rest. Every name
has a docstring, which ``help`` shows, for example ``help(predict)``.

Start
    ``checkup`` checks the installation.
Predict
    ``predict`` compares the number that you expect with the result of a run. ``vote`` asks what
    the next cell will show.
Show a message
    ``show_error`` prints the error that a ``with`` block raises, and ``show_warning`` prints the
    warnings.
Draw
    ``figure`` and ``note`` draw in the course's style. ``BLUE``, ``ORANGE``, ``GREEN`` and ``GRAY``
    are the course's colors, which color-blind readers can tell apart.
Measure memory
    ``kept_bytes`` and ``kept_tensors`` measure the tensors that a call saves for backward.
    ``peak_bytes`` measures the peak memory, and ``stored_bytes`` measures a module's tensors.
Check a gradient by hand (lesson 04)
    ``five_steps`` runs all five steps: ``compare_forward``, ``run_backward``,
    ``compare_magnitudes``, ``check_element`` and ``run_gradcheck``.
Data and noise (lessons 05, 10 and 15)
    ``load_digits`` and ``split_digits`` return handwritten digits. ``gumbel_noise`` samples the
    noise of a Gumbel-softmax.
Attention (lesson 08)
    ``dropped`` computes a dropout mask from a seed. ``TritonAttention`` computes attention in GPU
    kernels. ``leaderboard`` compares your attention with PyTorch's own.
Several processes (lesson 12)
    ``replicas`` trains a layer with DistributedDataParallel.
External code (lesson 14)
    ``build`` compiles the C++ and CUDA files in ``SOURCES`` and raises a ``BuildError`` if that
    fails. ``triton_decayed_sum`` is a GPU kernel. ``benchmark_results`` shows stored timings.
Ship (lesson 15)
    ``require_packages`` says which packages are missing. ``quiet`` suppresses the exporters'
    warnings. ``check_onnx`` and ``run_onnx`` check and run an ONNX file.

Python imports each name on first use, so importing this module is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_doctor.memory import kept_bytes, kept_tensors, peak_bytes, stored_bytes
    from autograd_doctor.steps import (
        check_element,
        compare_forward,
        compare_magnitudes,
        five_steps,
        run_backward,
        run_gradcheck,
    )

    from autograd_course import replicas
    from autograd_course.checkup import checkup
    from autograd_course.digits import load_digits, split_digits
    from autograd_course.external.building import SOURCES, BuildError, build
    from autograd_course.external.stored import benchmark_results
    from autograd_course.external.triton_decayed_sum import triton_decayed_sum
    from autograd_course.functions.attention import TritonAttention, dropped
    from autograd_course.functions.noise import gumbel_noise
    from autograd_course.grader.leaderboard import leaderboard
    from autograd_course.grader.predict import predict
    from autograd_course.ship import (
        check_onnx,
        quiet,
        require_packages,
        run_onnx,
    )
    from autograd_course.showing import show_error, show_warning
    from autograd_course.visualize.kit.style import BLUE, GRAY, GREEN, ORANGE, figure, note
    from autograd_course.visualize.vote.widget import vote

__all__ = [
    "BLUE",
    "GRAY",
    "GREEN",
    "ORANGE",
    "SOURCES",
    "BuildError",
    "TritonAttention",
    "benchmark_results",
    "build",
    "check_element",
    "check_onnx",
    "checkup",
    "compare_forward",
    "compare_magnitudes",
    "dropped",
    "figure",
    "five_steps",
    "gumbel_noise",
    "kept_bytes",
    "kept_tensors",
    "leaderboard",
    "load_digits",
    "note",
    "peak_bytes",
    "predict",
    "quiet",
    "replicas",
    "require_packages",
    "run_backward",
    "run_gradcheck",
    "run_onnx",
    "show_error",
    "show_warning",
    "split_digits",
    "stored_bytes",
    "triton_decayed_sum",
    "vote",
]

HOMES = {
    "autograd_course.checkup": ("checkup",),
    "autograd_course.digits": ("load_digits", "split_digits"),
    "autograd_course.external.building": ("SOURCES", "BuildError", "build"),
    "autograd_course.external.stored": ("benchmark_results",),
    "autograd_course.external.triton_decayed_sum": ("triton_decayed_sum",),
    "autograd_course.functions.attention": ("TritonAttention", "dropped"),
    "autograd_course.functions.noise": ("gumbel_noise",),
    "autograd_course.grader.leaderboard": ("leaderboard",),
    "autograd_course.grader.predict": ("predict",),
    "autograd_course.ship": (
        "check_onnx",
        "quiet",
        "require_packages",
        "run_onnx",
    ),
    "autograd_course.showing": ("show_error", "show_warning"),
    "autograd_course.visualize.kit.style": ("BLUE", "GRAY", "GREEN", "ORANGE", "figure", "note"),
    "autograd_course.visualize.vote.widget": ("vote",),
    "autograd_doctor.memory": ("kept_bytes", "kept_tensors", "peak_bytes", "stored_bytes"),
    "autograd_doctor.steps": (
        "check_element",
        "compare_forward",
        "compare_magnitudes",
        "five_steps",
        "run_backward",
        "run_gradcheck",
    ),
}
_MODULE = {name: module for module, names in HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "replicas":
        value = import_module("autograd_course.replicas")
    elif name in _MODULE:
        value = getattr(import_module(_MODULE[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
