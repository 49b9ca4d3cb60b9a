"""Serialize a callable and the code that the worker in the sandbox cannot import.

The sandbox does not contain the exercises. However, some experiments must run in the same process
as the answer, for example to find out which tensors it saves, which operations it runs, or whether
it compiles. The judge sends only the required experiment and the models in its inputs. A parcel
contains their code and the parts of the course that they use. The worker imports all other modules.

A parcel never contains anything that must stay outside the sandbox: see :func:`kept_out`.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import io
import marshal
import pickle
import textwrap
import types
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from autograd_classroom.protocol import parcel
from autograd_classroom.worker import replies
from autograd_classroom.worker.inside import has
from autograd_course.grader import verdict
from autograd_course.grader.checks import calling
from autograd_course.grader.exercise import Exercise, FunctionExercise, Sampled

_OURS = ("autograd_classroom.", "autograd_course.")
_CACHED = functools._lru_cache_wrapper
# In the worker, these functions replace parts of the grader. They create data but do not judge.
_STANDS_FOR: dict[int, tuple[str, str]] = {
    id(judging): (replies.__name__, standing)
    for judging, standing in (
        (verdict.wrong, "wrong"),
        (verdict.unfinished, "unfinished"),
        (verdict.failed, "failed"),
        (verdict.Verdict, "Said"),
        (calling.found, "found"),
    )
}
# Types that cannot be found by name in their ``__module__``.
_STANDS_FOR |= {id(getattr(types, name)): ("types", name) for name in types.__all__}


class KeptOutError(Exception):
    """Raised when a parcel would contain something that must stay outside the sandbox."""


def kept_out(exercise: Exercise) -> tuple[Any, ...]:
    """Return the objects that no parcel may contain: the course's own answers to the exercise."""
    if not isinstance(exercise, Sampled):
        return ()
    found: list[Any] = [exercise.reference, *exercise.suspects.values()]
    if isinstance(exercise, FunctionExercise):
        found += [exercise.surrogate, *exercise.gradient_suspects.values()]
    return tuple(each for each in found if each is not None)


def packed(value: Any, never: Collection[Any] = ()) -> bytes:
    """Serialize a value for the worker.

    Raises KeptOutError if the value uses an object in ``never``.
    """
    file = io.BytesIO()
    _Packer(file, never).dump(value)
    return file.getvalue()


class _Space:
    """A placeholder for a module's globals. A parcel contains only the globals that it uses."""


class _Packer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, never: Collection[Any]) -> None:
        super().__init__(file, protocol=5)
        self._never = {id(each) for each in never if _travels(each)}
        self._spaces: dict[str, _Space] = {}

    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        """Return the module and the name under which the worker finds an object.

        This applies only to objects that pickle itself cannot look up by name.
        """
        if id(value) in _STANDS_FOR:
            return _STANDS_FOR[id(value)]
        if isinstance(value, ModuleType):
            if not has(value.__name__):
                raise KeptOutError(f"the module {value.__name__} stays outside")
            return value.__name__, ""
        return None

    def reducer_override(self, value: Any) -> Any:
        """Return instructions for rebuilding an object that the worker cannot import."""
        if id(value) in self._never:
            raise KeptOutError(f"{getattr(value, '__qualname__', value)} stays outside")
        if isinstance(value, _Space):
            return parcel.namespace, ()
        if isinstance(value, _CACHED) and _travels(value):
            return parcel.cached, (value.__wrapped__, value.cache_parameters())
        if isinstance(value, FunctionType) and _travels(value):
            return self._function(value)
        if isinstance(value, type) and _travels(value):
            return self._class(value)
        return NotImplemented

    def _space(self, module: str) -> _Space:
        return self._spaces.setdefault(module, _Space())

    def _function(self, function: FunctionType) -> Any:
        code = function.__code__
        names = {n: function.__globals__[n] for n in _used(code) if n in function.__globals__}
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
        attributes = {
            "__defaults__": function.__defaults__,
            "__kwdefaults__": function.__kwdefaults__,
            "__qualname__": function.__qualname__,
            "__annotations__": _evaluated(function.__annotations__),
        }
        made = (
            self._space(function.__globals__["__name__"]),
            marshal.dumps(_without_path(code)),
            function.__name__,
            len(contents),
        )
        return parcel.function, made, (names, contents, attributes), None, None, parcel.complete

    def _class(self, cls: type) -> Any:
        if "<locals>" in cls.__qualname__:
            raise TypeError(f"{cls.__qualname__} is defined in a function")
        module = inspect.getmodule(cls)
        assert module is not None
        source, names = textwrap.dedent(inspect.getsource(cls)), vars(module)
        first, later = _names(ast.parse(source).body[0])
        space = self._space(module.__name__)
        postponed = "from __future__ import annotations" in inspect.getsource(module)
        made = functools.partial(parcel.defined, postponed=postponed)
        arguments = space, {n: names[n] for n in first if n in names}, source, cls.__name__
        state = space, {n: names[n] for n in later if n in names and n != cls.__name__}
        return made, arguments, state, None, None, parcel.complete_class


def _travels(value: Any) -> bool:
    """Return whether the judge must send a value because the worker cannot import it."""
    module = getattr(value, "__module__", None) or ""
    if f"{module}.".startswith(_OURS):
        return not has(module) or "<" in getattr(value, "__qualname__", "")
    return False


def _used(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals that a function and its nested functions use."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used(constant)


def _names(cls: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the names that a class definition uses, and the names that its methods use."""
    first: set[str] = set()
    later: set[str] = set()
    pending: list[tuple[ast.AST, set[str]]] = [(cls, first)]
    while pending:
        node, found = pending.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        for field, value in ast.iter_fields(node):
            body = isinstance(node, ast.FunctionDef | ast.Lambda) and field == "body"
            children = value if isinstance(value, list) else [value]
            pending += [(n, later if body else found) for n in children if isinstance(n, ast.AST)]
    return first, later


def _evaluated(annotations: dict[str, Any]) -> dict[str, Any]:
    """Return a function's annotations, or ``{}`` if any of them is a string.

    PyTorch reads the annotations when it registers an operator.
    """
    return {} if any(isinstance(each, str) for each in annotations.values()) else annotations


def _without_path(code: CodeType) -> CodeType:
    inner = [_without_path(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_filename=parcel.FILE, co_consts=tuple(inner))
