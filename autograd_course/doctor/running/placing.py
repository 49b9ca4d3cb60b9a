"""Can a subject put a tensor anywhere but where its inputs lie?

On the meta device that would show, but the first operation there imports ``torch._dynamo``, for a
second. So the subject is first watched where it is: if it names no device, asks for none, and
uses no tensors but those made from its inputs, its results lie where these lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from autograd_course.doctor.running.operations import memory
from autograd_course.measure.dispatch import Watching
from autograd_course.measure.storages import tensors

_MOVES = {Tensor.cpu, Tensor.cuda, Tensor.type, Tensor.get_device}
_ASKS = {vars(torch._C.TensorBase)[name].__get__ for name in ("device", "is_cpu", "is_cuda")}


class DevicesNamed(TorchFunctionMode):
    """A block in which calls that name a device, or ask for one, are noted.

    ``to`` and ``cpu`` do nothing to a tensor that is there already: no operation would tell.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call a function of PyTorch, and note whether a device plays a part."""
        kwargs = kwargs or {}
        moved = func is Tensor.to and not all(isinstance(a, torch.dtype | bool) for a in args[1:])
        self.found |= moved or kwargs.get("device") is not None or func in _MOVES | _ASKS
        return func(*args, **kwargs)


class Strangers(Watching):
    """A block in which tensors are noted that are not made from the ``given`` ones."""

    def __init__(self, given: Iterable[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False
        self._known = set(memory(given))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; what it makes is no stranger if what it reads is none."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.found:
            return result
        read = list(tensors([args, kwargs]))
        if read and kwargs.get("device") is None:
            self.meet(read)
            self._known |= memory([result])
        return result

    def meet(self, values: Iterable[Any]) -> None:
        """Note the strangers among values."""
        for tensor in tensors(list(values)):
            own = memory([tensor])
            self.found |= not own or not own <= self._known
