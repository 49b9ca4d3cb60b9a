"""Which custom Function is saving, and what it was given: hooks are told only the tensor."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from autograd_doctor.memory import storage_keys
from torch._C import _current_graph_task_id
from torch._C._autograd import _get_sequence_nr
from torch.autograd.function import FunctionMeta


class Applied:
    """The custom Function whose forward has ended, until the next node of the graph is made.

    ``apply`` looks up ``forward`` on the class, calls it, and then saves. Only the lookup is there
    to be seen: from PyTorch 2.14 on ``apply`` has no frame of Python, and one that is bound, as in
    ``cube = Cube.apply``, is older than whatever could be put in its place.
    """

    def __init__(self) -> None:
        self._name = ""
        self._inputs: set[int] = set()
        self._when = (-1, -1)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See every call of a custom forward inside a ``with`` block."""
        before = FunctionMeta.__getattribute__

        def looked_up(cls: type, name: str) -> Any:
            found = before(cls, name)
            return self._noting(cls, found) if name == "forward" else found

        FunctionMeta.__getattribute__ = looked_up  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            FunctionMeta.__getattribute__ = before  # type: ignore[method-assign]

    def saving(self) -> tuple[str, set[int]] | None:
        """Return its name and its inputs' storages, if it is what saves now."""
        return (self._name, self._inputs) if self._when == _now() else None

    def _noting(self, cls: type, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def noted(*args: Any, **kwargs: Any) -> Any:
            given = storage_keys((args, kwargs))
            result = forward(*args, **kwargs)
            # Not before: a forward can apply others, and can make nodes under enable_grad.
            self._name, self._inputs, self._when = cls.__name__, given, _now()
            return result

        return noted


def _now() -> tuple[int, int]:
    """Return the number of the newest node, and which backward runs."""
    return _get_sequence_nr(), _current_graph_task_id()
