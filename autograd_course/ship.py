"""Helpers for lesson 15 that use packages that the rest of the course does not need.

This module reports missing packages, checks and runs ONNX files, and suppresses the exporters'
warnings.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from autograd_course.errors import CourseError

PACKAGES = ("onnx", "onnxruntime", "onnxscript", "torchao")
INSTALL = 'pip install "autograd-course[ship]"'


class MissingExtraError(CourseError, ImportError):
    """Raised if a package of the extra ``ship`` is missing. The message says how to install it."""


def missing(*names: str) -> tuple[str, ...]:
    """Return the names of the missing packages in ``names``. By default, check the whole extra."""
    return tuple(name for name in names or PACKAGES if find_spec(name) is None)


def require_packages(*names: str) -> None:
    """Raise an error that says what to install if a package is missing.

    Args:
        names: Names of packages. If you pass none, the function checks all packages that only
            lesson 15 needs.

    Returns:
        Nothing.

    Raises:
        MissingExtraError: A package is missing.

    Example:
        >>> require_packages("torch")
    """
    if absent := missing(*names):
        raise MissingExtraError(
            f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed: run "
            f"{INSTALL} (or pip install {' '.join(absent)}), then restart the kernel."
        )


def check_onnx(model: Any) -> Any:
    """Check a model with ``onnx.checker``, including its inferred shapes.

    Args:
        model: The result of ``torch.onnx.export``, an ``onnx.ModelProto``, or the path to a file.

    Returns:
        The model as an ``onnx.ModelProto``.

    Raises:
        onnx.checker.ValidationError: The model violates an ONNX rule.
        onnx.shape_inference.InferenceError: The model's shapes contradict each other.
        MissingExtraError: onnx is not installed.

    Example:
        >>> check_onnx("net.onnx").graph.output  # doctest: +SKIP
    """
    require_packages("onnx")
    onnx = import_module("onnx")
    proto = getattr(model, "model_proto", model)
    if not isinstance(proto, onnx.ModelProto):
        proto = onnx.load(proto)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run_onnx(model: Any, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Check a model with :func:`check_onnx`, and run it in ONNX Runtime on the CPU.

    Args:
        model: The model, in any form that :func:`check_onnx` accepts.
        inputs: The inputs, in the order that the model expects.

    Returns:
        The model's output, or a tuple if it has several outputs.

    Raises:
        MissingExtraError: onnx or onnxruntime is not installed.

    Example:
        >>> run_onnx("net.onnx", torch.zeros(8, 64)).shape  # doctest: +SKIP
        torch.Size([8, 10])
    """
    require_packages("onnx", "onnxruntime")
    session = import_module("onnxruntime").InferenceSession(
        check_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [given.name for given in session.get_inputs()]
    feed = {n: x.detach().cpu().numpy() for n, x in zip(names, inputs, strict=True)}
    outputs = tuple(torch.from_numpy(output) for output in session.run(None, feed))
    return outputs[0] if len(outputs) == 1 else outputs


# Each entry is a regular expression for the beginning of a warning's message, and the warning's
# category. The comment above the entry says why users can ignore the warning.
_WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    # torch.export and torch.onnx warn about a comparison in their own code.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
    # When PyTorch's helpers are first imported, PyTorch compiles them with its deprecated
    # torch.jit. This gives a DeprecationWarning, or a FutureWarning from PyTorch 2.14 on.
    (r"`torch\.jit\.script(_method)?` is deprecated", Warning),
    # torch.export.load in PyTorch 2.11 warns about the bytes that it has just read from the file.
    ("The given buffer is not writable", UserWarning),
    # The compiler's front end warns about a cache that only Python 3.13.0 lacks.
    (r"Guards may run slower on Python 3\.13\.0", RuntimeWarning),
    # The compiler's front end creates an instance to read a Function's code (strict=True).
    (r"<class 'torch\.autograd\.function\.Function'> should not be inst", DeprecationWarning),
)
_LOGGERS = (
    "torchao",  # torchao reports each of its files that is for a different GPU or Python version
    "torch.utils._pytree",  # torchao registers enums in a way that torch no longer requires
    "torch.onnx._internal.exporter._registration",  # torchvision's operators are missing
    "torch.fx.experimental.symbolic_shapes",  # repeats the message of the error that follows
)


@contextmanager
def quiet() -> Iterator[None]:
    """In a ``with`` block, suppress warnings about PyTorch's and torchao's own code.

    The source of this function lists each suppressed warning with the reason. All other warnings
    and all errors are still shown.

    Yields:
        Nothing.

    Example:
        >>> import warnings
        >>> with quiet():
        ...     warnings.warn("`torch.jit.script` is deprecated", DeprecationWarning)
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        for message, category in _WARNINGS:
            warnings.filterwarnings("ignore", message, category)
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def first_sentence(said: Warning | Exception | str) -> str:
    """Return the first sentence of a message, on one line.

    Args:
        said: A warning, an error or a text.

    Returns:
        The sentence.

    Example:
        >>> first_sentence(ValueError("Too long. Here is more."))
        'Too long.'
    """
    text = " ".join(str(said).split())
    sentence, stop, _ = text.partition(". ")
    return sentence + stop.strip()


checked, require = check_onnx, require_packages  # older versions of lesson 15 import these names
