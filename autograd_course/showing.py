"""Show an error or a warning as Python prints it, with the same text on every machine."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill
from traceback import clear_frames, format_exception_only

WIDTH = 100
CUT = " […]"

# Patterns for text that differs between machines, and their replacements.
_VOLATILE = (
    (re.compile(r" ?\(Triggered internally at .*?\)\.?", re.DOTALL), ""),
    (re.compile(r"\n?Exception raised from .*", re.DOTALL), ""),  # the C++ stack
    (re.compile(r"\b0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"(?<![\w/:.…])(?:[A-Za-z]:)?(?:[\\/][^\s\\/:'\",()]+)+[\\/](?=[^\s\\/])"), "…/"),
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)")


@contextmanager
def show_error(characters: int = 300) -> Iterator[None]:
    """Print the error that a ``with`` block raises, and continue.

    A long message ends in ``[…]``. The function omits addresses and folders, because they differ
    between machines. It catches only subclasses of ``Exception``, so you can still interrupt the
    cell.

    Args:
        characters: The length of the longest message that is printed in full.

    Returns:
        A context manager for a ``with`` block.

    Example:
        >>> with show_error():
        ...     int("three")
        ValueError: invalid literal for int() with base 10: 'three'
        >>> with show_error():
        ...     int("3")
        3
        No error was raised.
    """
    try:
        yield
    except Exception as error:
        print(_shown("".join(format_exception_only(error)), characters))
        clear_frames(error.__traceback__)  # in Python 3.12, a reference cycle keeps the error alive
    else:
        print("No error was raised.")


@contextmanager
def show_warning(characters: int = 300) -> Iterator[None]:
    """Print the warnings from a ``with`` block in the same format as :func:`show_error`.

    The function does not catch errors that the block raises.

    Args:
        characters: The length of the longest message that is printed in full.

    Returns:
        A context manager for a ``with`` block.

    Example:
        >>> import warnings
        >>> with show_warning():
        ...     warnings.warn("This may be slow.")
        UserWarning: This may be slow.
    """
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    for warning in given:
        print(_shown(f"{warning.category.__name__}: {warning.message}", characters))
    if not given:
        print("No warning was given.")


def _shown(message: str, characters: int) -> str:
    for volatile, left in _VOLATILE:
        message = volatile.sub(left, message)
    lines = _shortened(message.strip(), characters).splitlines()
    return "\n".join(fill(line, WIDTH, break_on_hyphens=False) for line in lines)


def _shortened(message: str, characters: int) -> str:
    """Cut a long message after its last complete sentence, or after a word if there is none."""
    if len(message) <= characters:
        return message
    kept = message[: characters + 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(kept)]
    if ends and ends[-1] >= characters / 2:
        return kept[: ends[-1]] + CUT
    ends = [found.start() for found in re.finditer(r"\s", kept)]
    return kept[: ends[-1] if ends and ends[-1] >= characters / 2 else characters] + CUT
