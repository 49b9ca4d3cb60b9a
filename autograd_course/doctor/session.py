"""One subject on one set of inputs, ready to be run again and again in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from autograd_course.doctor.calls import as_tuple, fresh, is_float
from autograd_course.doctor.guard import reseed
from autograd_course.doctor.instrument import CtxLog, Watched
from autograd_course.doctor.subject import Subject

Move = Callable[[Tensor], Tensor]
Arrange = Callable[[list[Any]], list[Any]]


def stay(tensor: Tensor) -> Tensor:
    """Leave a tensor in its dtype and on its device."""
    return tensor


@dataclass(frozen=True)
class Run:
    """One call: the leaves that gradients are taken of, the arguments, and what came back."""

    leaves: list[Tensor]
    args: list[Any]
    returned: tuple[Any, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The outputs that are tensors."""
        return tuple(value for value in self.returned if isinstance(value, Tensor))

    @property
    def floats(self) -> tuple[Tensor, ...]:
        """The outputs that can carry a gradient."""
        return tuple(value for value in self.tensors if is_float(value))


class Session:
    """Runs a subject; every run has new copies of the inputs and the same random draws."""

    def __init__(
        self, subject: Subject, inputs: Sequence[Any], wanted: Sequence[int], seed: int
    ) -> None:
        self.subject, self.seed = subject, seed
        self.inputs, self.wanted = tuple(inputs), tuple(wanted)
        self._watched = Watched(subject.function) if subject.function else None

    def run(
        self,
        move: Move = stay,
        *,
        inputs: Sequence[Any] | None = None,
        wanted: Sequence[int] | None = None,
        arrange: Arrange | None = None,
    ) -> Run:
        """Call the subject on new copies of the inputs (its own, unless given), each moved first.

        ``arrange`` may lay the arguments out otherwise, by operations that autograd follows.
        """
        inputs = self.inputs if inputs is None else inputs
        leaves, args = fresh(inputs, self.wanted if wanted is None else wanted, move)
        args = args if arrange is None else arrange(args)
        return Run(leaves, args, self.call(args))

    def call(self, args: Sequence[Any], watched: bool = True) -> tuple[Any, ...]:
        """Call the subject on given arguments."""
        reseed(self.seed)
        call = self._watched if self._watched and watched else self.subject.call
        returned = call(*args)
        # A Function that returns a list has returned one thing that is no tensor; a callable may.
        whole = self.subject.function is not None and isinstance(returned, list)
        return (returned,) if whole else as_tuple(returned)

    @property
    def log(self) -> CtxLog:
        """What the last watched run told its ctx; empty for a callable."""
        return self._watched.log if self._watched else CtxLog()
