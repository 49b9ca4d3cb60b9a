"""Odd Functions that users should not write, with an odd forward, backward or combination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd import Function

from fuzz.odd_backwards import BACKWARDS
from fuzz.odd_forwards import FORWARDS
from fuzz.odd_methods import raising

ODDITIES = ("static", "no backward", "not static", "class methods", "setup_context", "bad setup")


def made(forward: str, backward: str = "right", oddity: str = "static") -> type[Function]:
    """Return a Function with these methods."""
    kind: Callable[[Any], Any] = {"not static": lambda f: f, "class methods": classmethod}.get(
        oddity, staticmethod
    )
    methods = {"forward": kind(FORWARDS[forward]), "backward": kind(BACKWARDS[backward])}
    if oddity == "no backward":
        del methods["backward"]
    if oddity == "setup_context":
        methods["forward"] = staticmethod(without_ctx(forward))
        methods["setup_context"] = staticmethod(_set_up)
    if oddity == "bad setup":
        methods["setup_context"] = staticmethod(raising(ValueError("in setup")))
    return type("Odd", (Function,), methods)


def without_ctx(forward: str) -> Callable[..., Any]:
    """Return a forward without its ctx parameter, as a routine of the other arguments."""
    return lambda *args: FORWARDS[forward](AnyCtx(), *args)


class AnyCtx:
    """A stand-in for ctx if forward does not get one."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def _set_up(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.count = len(inputs)
