"""Packages that only lesson 11 needs: the extra ``ship``."""

from importlib.util import find_spec

from autograd_course.errors import CourseError

PACKAGES = ("onnx", "onnxruntime", "onnxscript", "torchao")
INSTALL = 'pip install "autograd-course[ship]"'


class MissingExtraError(CourseError, ImportError):
    """A package of the extra ``ship`` is not installed; the message says what installs it."""


def missing(*names: str) -> tuple[str, ...]:
    """Return which of the packages ``names`` (default: all of the extra) are not installed."""
    return tuple(name for name in names or PACKAGES if find_spec(name) is None)


def require_packages(*names: str) -> None:
    """Raise an error that says what to install if one of the packages is missing.

    Args:
        names: Names of packages. Without names: all packages that only lesson 11 needs.

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
