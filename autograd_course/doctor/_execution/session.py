"""One subject on one set of inputs, ready to be run again and again in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.running.calls import as_tuple, fresh, is_float
from autograd_course.doctor.running.instrument import CtxLog, Watched
from autograd_course.doctor.running.subject import Subject
from autograd_course.doctor.world.randomness import reseed

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
    """Runs a subject; every run has new copies of the inputs and the same random draws.

    What else the subject reaches is, at the start of each, as the caller left it.
    """

    def __init__(
        self,
        subject: Subject,
        inputs: Sequence[Any],
        wanted: Sequence[int],
        seed: int,
        own_dtypes: Sequence[torch.dtype | None] = (),
    ) -> None:
        self.subject, self.seed = subject, seed
        self.inputs, self.wanted = tuple(inputs), tuple(wanted)
        self.own_dtypes = tuple(own_dtypes)
        self._watched = Watched(subject.function) if subject.function else None

    def run(
        self,
        move: Move = stay,
        *,
        inputs: Sequence[Any] | None = None,
        wanted: Sequence[int] | None = None,
        arrange: Arrange | None = None,
        watched: bool = True,
    ) -> Run:
        """Call the subject on new copies of the inputs (its own, unless given), each moved first.

        ``arrange`` may lay the arguments out otherwise, by operations that autograd follows. What
        the subject reaches besides is passed itself: a checkpoint tells it by its identity.
        """
        inputs = self.inputs if inputs is None else inputs
        wanted = self.wanted if wanted is None else wanted
        leaves, args = fresh(inputs, wanted, move)
        args = args if arrange is None else arrange(args)
        self._begin(args)
        for position, held in self.subject.passed.items():
            if args[position].is_meta:
                continue
            args[position] = held.tensor
            if position in wanted:
                leaves[sorted(wanted).index(position)] = held.tensor
        return Run(leaves, args, self._called(args, watched))

    def call(self, args: Sequence[Any], watched: bool = True) -> tuple[Any, ...]:
        """Call the subject on given arguments."""
        self._begin(args)
        return self._called(args, watched)

    def _begin(self, args: Sequence[Any]) -> None:
        reseed(self.seed)
        self.subject.around.begin(args, self.subject.passed)

    def _called(self, args: Sequence[Any], watched: bool) -> tuple[Any, ...]:
        call = self._watched if self._watched and watched else self.subject.call
        returned = call(*args)
        # A Function that returns a list has returned one thing that is no tensor; a callable may.
        whole = self.subject.function is not None and isinstance(returned, list)
        return (returned,) if whole else as_tuple(returned)

    def other(self) -> Session:
        """Return a session on other values, with other draws; what is reached besides is shared.

        Halved, and in reverse order: a mask or a maximum alone would survive a change of scale.
        """
        inputs = [
            0.5 * value.flip(tuple(range(value.dim())))
            if is_float(value) and position not in self.subject.passed
            else value
            for position, value in enumerate(self.inputs)
        ]
        return Session(self.subject, inputs, self.wanted, self.seed + 1, self.own_dtypes)

    def in_own_dtypes(self, inputs: Sequence[Any] | None = None) -> list[Any] | None:
        """Return inputs (the session's, unless given) in the dtypes of the caller's.

        ``None`` where they have these already, or where it is not known which dtype each has.
        """
        inputs = self.inputs if inputs is None else inputs
        if len(inputs) != len(self.own_dtypes):
            return None
        pairs = list(zip(inputs, self.own_dtypes, strict=True))
        if all(dtype is None or value.dtype == dtype for value, dtype in pairs):
            return None
        return [value if dtype is None else value.to(dtype) for value, dtype in pairs]

    def redraw(self) -> None:
        """Let the subject's generators draw what they drew since the call began once more."""
        reseed(self.seed)
        self.subject.around.redraw()

    @property
    def log(self) -> CtxLog:
        """What the last watched run told its ctx; empty for a callable."""
        return self._watched.log if self._watched else CtxLog()
