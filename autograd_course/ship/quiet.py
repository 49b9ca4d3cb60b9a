"""Exporters talk: what they say that is of no use to their user is held back, and nothing else."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Message (a regular expression, from its beginning), category, and why it says nothing to the user.
_WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    # torch.export and torch.onnx, about a comparison in their own code
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
    # torch's own helpers are compiled by its deprecated torch.jit, at the first import of them; it
    # is a DeprecationWarning, or from PyTorch 2.14 on a FutureWarning
    (r"`torch\.jit\.script(_method)?` is deprecated", Warning),
    # torch.export.load of PyTorch 2.11, about the bytes that it has just read from the file
    ("The given buffer is not writable", UserWarning),
    # the compiler's front end, about a cache that Python 3.13.0 alone lacks
    (r"Guards may run slower on Python 3\.13\.0", RuntimeWarning),
    # the compiler's front end makes one to read a Function's code (strict=True)
    (r"<class 'torch\.autograd\.function\.Function'> should not be inst", DeprecationWarning),
)
_LOGGERS = (
    "torchao",  # compiled for other GPUs and Pythons too, it names each library that does not fit
    "torch.utils._pytree",  # torchao registers enumerations in a way that torch no longer needs
    "torch.onnx._internal.exporter._registration",  # torchvision's operators are not there
    "torch.fx.experimental.symbolic_shapes",  # says first what the error then says
)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress what PyTorch and torchao say about their own code inside a ``with`` block.

    The source of this function lists each suppressed warning with the reason. You see every other
    warning, and every error.

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
