"""Functions composed of pieces. Some are right, and others have one planted bug in backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import Function

from fuzz.pieces import JOINS, PIECES, Join, Piece
from fuzz.tensors import SHAPES, tensors

Grads = tuple[Tensor | None, ...]


@dataclass(frozen=True, repr=False)
class Bug:
    """A change to the incoming grad_output, or to the outgoing gradients."""

    name: str
    coming: Callable[[Tensor], Tensor] = lambda g: g
    going: Callable[[Grads], Grads] = lambda grads: grads

    def __repr__(self) -> str:
        return self.name


def _first(change: Callable[[Tensor], Tensor | None]) -> Callable[[Grads], Grads]:
    return lambda grads: (change(grads[0]), *grads[1:])


def _one_dropped(grad: Tensor) -> Tensor:
    kept = torch.ones(grad.numel(), dtype=grad.dtype)
    kept[:1] = 0
    return grad * kept.view(grad.shape)


BUGS = (
    Bug("doubled", going=_first(lambda grad: 2 * grad)),
    Bug("a tenth too large", going=_first(lambda grad: 1.1 * grad)),
    Bug("negated", going=_first(lambda grad: -grad)),
    Bug("None", going=_first(lambda grad: None)),
    Bug("zero", going=_first(torch.zeros_like)),
    Bug("one element zero", going=_first(_one_dropped)),
    Bug("shifted", going=_first(lambda grad: grad + 0.01)),
    Bug("rolled", going=_first(lambda grad: grad.roll(1))),
    Bug("averaged", going=_first(lambda grad: grad.mean().expand_as(grad).clone())),
    Bug("summed", going=_first(lambda grad: grad.sum(0) if grad.dim() else grad[None])),
    Bug("swapped", going=lambda grads: grads[::-1]),
    Bug("one too many", going=lambda grads: (*grads, grads[0])),
    Bug("one too few", going=lambda grads: grads[1:]),
    Bug("clamped", coming=lambda g: g.clamp(-0.3, 0.3)),
    Bug("sign of grad_output", coming=torch.sign),
    Bug("absolute grad_output", coming=torch.abs),
    Bug("grad_output ignored", coming=torch.ones_like),
    Bug("squared grad_output", coming=torch.square),
)


@dataclass(frozen=True)
class Recipe:
    """A chain of pieces for the joined inputs. Backward leaves out the vjp of piece ``skipped``."""

    chain: tuple[Piece, ...]
    join: Join | None = None
    bug: Bug | None = None
    skipped: int | None = None
    new_style: bool = False
    both: bool = False  # the joined value is a second output

    def plain(self, *xs: Tensor) -> Any:
        """Compute forward with operations that PyTorch can differentiate."""
        states = self._states(xs)
        return (states[-1], states[0].clone()) if self.both else states[-1]

    def _states(self, xs: tuple[Tensor, ...]) -> list[Tensor]:
        states = [self.join.f(*xs) if self.join else xs[0]]
        for piece in self.chain:
            states.append(piece.f(states[-1]))
        return states

    def backward(self, xs: tuple[Tensor, ...], gs: tuple[Tensor, ...]) -> Grads:
        """Compute the gradients with the pieces' own vjps, and add the planted bug."""
        come = self.bug.coming if self.bug else lambda g: g
        g = come(gs[0])
        for i, (piece, x) in reversed(
            [*enumerate(zip(self.chain, self._states(xs), strict=False))]
        ):
            g = g if i == self.skipped else piece.vjp(x, g)
        g = g + come(gs[1]) if self.both else g
        grads: Grads = self.join.vjp(*xs, g) if self.join else (g,)
        return self.bug.going(grads) if self.bug else grads

    def function(self) -> type[Function]:
        """Return the recipe's Function, in the old style or with setup_context."""
        made = _new_style(self) if self.new_style else _old_style(self)
        made.backward = staticmethod(lambda ctx, *gs: self.backward(ctx.saved_tensors, gs))
        return made


def _old_style(recipe: Recipe) -> type[Function]:
    def forward(ctx: Any, *xs: Tensor) -> Any:
        ctx.save_for_backward(*xs)
        return recipe.plain(*xs)

    return type("Composed", (Function,), {"forward": staticmethod(forward)})


def _new_style(recipe: Recipe) -> type[Function]:
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    methods = {"forward": recipe.plain, "setup_context": setup_context}
    return type("Composed", (Function,), {k: staticmethod(f) for k, f in methods.items()})


@st.composite
def recipes(draw: st.DrawFn, *, wrong: bool) -> tuple[Recipe, tuple[Tensor, ...]]:
    """Draw a recipe and inputs for it."""
    shape = draw(SHAPES)
    xs = [draw(tensors(shape))]
    join = draw(st.none() | st.sampled_from(JOINS))
    if join:
        other = draw(st.sampled_from([shape, (), shape[-1:], (1,) * len(shape)]))
        xs.append(draw(tensors(other, xs[0].dtype)))
    chain: list[Piece] = []
    state = join.f(*xs) if join else xs[0]
    for _ in range(draw(st.integers(1, 3))):
        fits = [piece for piece in PIECES if piece.least <= state.dim()]
        chain.append(draw(st.sampled_from(fits)))
        state = chain[-1].f(state)
    styles = {"new_style": draw(st.booleans()), "both": draw(st.booleans())}
    flaw: dict[str, Any] = {}
    if wrong:
        same = [i for i, p in enumerate(chain) if p.name in _KEEP_SHAPE]
        skips = st.sampled_from([{"skipped": i} for i in same]) if same else st.nothing()
        flaw = draw(st.sampled_from([{"bug": bug} for bug in BUGS]) | skips)
    return Recipe(tuple(chain), join, **styles, **flaw), tuple(xs)


_KEEP_SHAPE = ("sin", "tanh", "square", "bell", "triple", "sigmoid", "relu", "abs", "softmax",
               "cumsum")  # fmt: skip
