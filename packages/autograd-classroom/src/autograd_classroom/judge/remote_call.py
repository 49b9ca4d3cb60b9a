"""Wrap an answer in the sandbox as a local callable.

Some experiments compare the answer with the course's own answer, which must not enter the sandbox.
These experiments run outside the sandbox, and only the calls to the answer run inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_classroom.judge.asked import Asked, UnansweredError, returned, text
from autograd_classroom.judge.parcels import packed
from autograd_course.calls import is_float


class RemoteError(RuntimeError):
    """Raised when the answer raised an exception.

    ``told`` is the sentence to show to the learner.
    """

    def __init__(self, said: str, told: str) -> None:
        super().__init__(said)
        self.told = told


def remote_class(asked: Asked) -> type[Function]:
    """Return a Function whose ``forward`` and ``backward`` call the answer in the sandbox."""

    class Answer(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = inputs
            outputs = _pulled(asked, inputs, (), None)
            return outputs if len(outputs) != 1 else outputs[0]

        @staticmethod
        def backward(ctx: Any, *sent: Tensor) -> Any:
            asking = [at for at, need in enumerate(ctx.needs_input_grad) if need]
            came = iter(_pulled(asked, ctx.inputs, asking, sent))
            return tuple(_fitting(next(came, None), ctx.inputs[at]) if at in asking else None
                         for at in range(len(ctx.inputs)))  # fmt: skip

    return Answer


def remote_routine(asked: Asked) -> Callable[..., Any]:
    """Return a plain function that calls the answer in the sandbox.

    Autograd can differentiate it.
    """
    call: Callable[..., Any] = remote_class(asked).apply
    return call


def _pulled(
    asked: Asked, given: Sequence[Any], asking: Sequence[int], sent: Sequence[Tensor] | None
) -> tuple[Any, ...]:
    detached = tuple(value.detach() if isinstance(value, Tensor) else value for value in given)
    came = asked.ask_code({"ask": "pull"}, packed((detached, list(asking), sent)))
    if "told" in came.said:
        raise RemoteError(text(came.said.get("text")), text(came.said["told"]))
    return returned(came)


def _fitting(gradient: Any, given: Tensor) -> Tensor:
    """Return the gradient if autograd accepts it for an input.

    Raises UnansweredError if the gradient has the wrong shape or is not a float tensor.
    """
    if not is_float(gradient) or gradient.shape != given.shape:
        raise UnansweredError("the answer returns no gradient in the shape of its input.")
    checked: Tensor = gradient
    return checked
