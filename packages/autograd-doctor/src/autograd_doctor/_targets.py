"""Load objects that a command line names as ``package.module:name`` or ``path/to/file.py:name``."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from autograd_doctor._safe_repr import first_line
from autograd_doctor.errors import AutogradDoctorError

_PATHS = sysconfig.get_paths()
_INSTALLED = (_PATHS["stdlib"], _PATHS["purelib"], _PATHS["platlib"])


class NotUnderstoodError(AutogradDoctorError, ValueError):
    """An error for a mistake in the command line. Its message is written for the user."""


def meant(name: str, known: Iterable[str], suffix: str = "") -> str:
    """Return the end of a sentence about an unknown name.

    It suggests the closest known name, if any.
    """
    close = get_close_matches(name, list(known), 1)
    return f". Did you mean {close[0]}{suffix}?" if close else "."


def raised(what: str, error: BaseException) -> NotUnderstoodError:
    """Return an error that describes an exception in the user's own code and names its line."""
    said = error.msg if isinstance(error, SyntaxError) else first_line(error)
    did = f"raised {type(error).__name__}: {said}"
    if isinstance(error, SystemExit):
        did = "called exit()"
    line = _users_line(error)
    return NotUnderstoodError(f"{what} {did}" + (f" ({line})." if line else "."))


def _users_line(error: BaseException) -> str:
    """Return the innermost line of code that is not part of an installed package."""
    if isinstance(error, SyntaxError):  # the line never ran, so it has no frame
        place = (error.filename, error.lineno, error.text)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames[1:] if f.line and not f.filename.startswith(_INSTALLED)]
        place = (own[-1].filename, own[-1].lineno, own[-1].line) if own else (None, None, None)
    filename, number, text = place
    return f"{Path(filename).name}:{number}: {text.strip()}" if filename and text else ""


_TARGET = re.compile(r"(?P<where>.+\.py|\w+(\.\w+)*):(?P<name>\w+(\.\w+)*)")


def is_target(text: str) -> bool:
    """Return whether a string has the form of a target."""
    return _TARGET.fullmatch(text) is not None


def load(target: str) -> Any:
    """Import the module of a target and return the object that the target names.

    Python searches the current folder first.

    Raises :class:`NotUnderstoodError` if the module, file or attribute does not exist, or if the
    import fails.
    """
    split = _TARGET.fullmatch(target)
    if split is None:
        raise NotUnderstoodError(
            f"{target!r} is not a target. Write it as package.module:Function or "
            "path/to/file.py:Function. To examine every Function that a program or a test suite "
            "calls, use autograd-doctor run or pytest --doctor."
        )
    where, name = split["where"], split["name"]
    _importable(Path.cwd())
    module = _from_file(Path(where)) if where.endswith(".py") else _imported(where, where)
    return _attribute(module, where, name)


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _from_file(path: Path) -> ModuleType:
    """Import a file as a module.

    If the file belongs to a package, import it as part of the package.
    """
    if not path.is_file():
        beside = [other.stem for other in path.parent.glob("*.py")]
        raise NotUnderstoodError(f"There is no file {path}" + meant(path.stem, beside, ".py"))
    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").is_file():
        folder, names = folder.parent, [folder.name, *names]
    _importable(folder)
    module = _imported(".".join(names), os.fspath(path))
    if not (module.__file__ and path.samefile(module.__file__)):
        raise NotUnderstoodError(
            f"{path} could not be imported, because another module is also named "
            f"{module.__name__}. Rename the file."
        )
    return module


def _imported(name: str, shown: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if f"{name}.".startswith(f"{missing}."):
            known = _modules_beside(missing)
            raise NotUnderstoodError(
                f"There is no module {missing}" + meant(missing, known)
            ) from None
        raise raised(f"Importing {shown}", error) from error
    except (Exception, SystemExit) as error:  # a script without a main guard may exit at import
        problem = raised(f"Importing {shown}", error)
        if isinstance(error, SyntaxError):
            raise problem from error
        raise NotUnderstoodError(f"{problem} {GUARD}") from error


GUARD = (
    'If the file calls its own code, put the calls below `if __name__ == "__main__":`, or examine '
    "the whole script with autograd-doctor run."
)


def _modules_beside(name: str) -> Iterator[str]:
    """Yield the names of the modules in the folder that lacks the given module."""
    parent, dot, _ = name.rpartition(".")
    folders = getattr(sys.modules.get(parent), "__path__", ["."] if not parent else [])
    for folder in map(Path, folders):
        for path in folder.iterdir():
            if path.suffix == ".py" or path.is_dir():
                yield f"{parent}{dot}{path.stem}"


def _attribute(module: ModuleType, where: str, name: str) -> Any:
    found, path = module, where
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotUnderstoodError(
                f"There is no {part} in {path}" + meant(part, dir(found))
            ) from None
        path = f"{path}:{part}" if path == where else f"{path}.{part}"
    return found
