"""The largest tensor that is ever made."""

from collections.abc import Mapping
from typing import Any

from autograd_doctor.memory.dispatch import Watching, name_of
from autograd_doctor.memory.storages import tensors


class Largest(Watching):
    """A block in which operations are counted, and the largest tensor they return is remembered.

    ``elements`` are the most that any tensor has. ``bytes`` are those of the largest storage behind
    one, so that a view counts as much as the memory it looks at; ``shape`` and ``operation`` tell
    which tensor that was, and what made it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = self.elements = self.bytes = 0
        self.shape: tuple[int, ...] = ()
        self.operation = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and measure what it returns."""
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for tensor in tensors(result):
            self.elements = max(self.elements, tensor.numel())
            if (size := tensor.untyped_storage().nbytes()) > self.bytes:
                self.bytes, self.shape = size, tuple(tensor.shape)
                self.operation = name_of(func)
        return result
