"""The frame of Python in which a custom Function saves: it tells which, and its inputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.autograd import Function

_APPLY: Any = vars(Function)["apply"]
_HAS_FRAME = isinstance(_APPLY, classmethod)  # from PyTorch 2.14 on it is a function of C


def _apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    return _APPLY.__get__(None, cls)(*args, **kwargs)


CODE = _APPLY.__func__.__code__ if _HAS_FRAME else _apply.__code__


@contextmanager
def in_python() -> Iterator[None]:
    """Have each ``apply`` inside a ``with`` block run in a frame of ``CODE``."""
    if _HAS_FRAME:
        yield
        return
    Function.apply = classmethod(_apply)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Function.apply = _APPLY  # type: ignore[method-assign]
