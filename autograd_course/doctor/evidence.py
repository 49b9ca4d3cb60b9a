"""What a probe brings back: plain data, on which rules decide.

Nothing here runs the user's code, and nothing here holds a graph, a node or a callable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Failure:
    """The user's code raised: the exception's type and text, and the user's line that led to it."""

    kind: str
    text: str
    line: str


@dataclass(frozen=True)
class Forward:
    """One forward pass.

    ``outputs`` are detached copies, ``kinds`` the type name of everything that was returned.
    Positions count the call's arguments (``changed``, ``dirty``) or its outputs (``views``,
    ``non_differentiable``).
    """

    outputs: tuple[Tensor, ...] = ()
    kinds: tuple[str, ...] = ()
    requires_grad: tuple[bool, ...] = ()
    custom_node: bool = False
    whole: bool = False  # the outputs come straight from one custom node, the inputs go straight in
    changed: tuple[int, ...] = ()
    dirty: tuple[int, ...] = ()
    dirty_returned: tuple[int, ...] = ()
    views: tuple[tuple[int, int], ...] = ()  # (output, input) pairs that share memory, not dirty
    marked_non_differentiable: tuple[int, ...] = ()
    saved: tuple[Tensor, ...] = ()
    read_saved: bool = False
    failure: Failure | None = None


@dataclass(frozen=True)
class Raw:
    """One direct call of ``backward``, as the engine makes it, before the engine mends anything."""

    count: int = 0
    grads: tuple[Tensor | None, ...] = ()  # in the order of the arguments
    kinds: tuple[str, ...] = ()
    changed_grad_outputs: tuple[int, ...] = ()
    changed_saved: tuple[int, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Pull:
    """One backward pass through the engine: cotangents in, a gradient for each wanted input out."""

    grad_outputs: tuple[Tensor | None, ...]
    grads: tuple[Tensor | None, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Variant:
    """The same call in another dtype or on another device: what the raw gradients were."""

    name: str
    wanted: tuple[str, ...] = ()
    got: tuple[str | None, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, eq=False)
class Twin:
    """One call made in two ways that must agree: what came the other way, and the plain way.

    ``kind`` groups twins that ask the same question; ``how`` says in words what was different, so
    that "the gradient of x changes" + how is a sentence. ``names`` says what each tensor is ("the
    output", "the gradient of x"). ``tolerance`` is relative to the larger of the two. Where the
    other way raised, ``failure`` says so and ``stage`` where: ``"forward"`` or ``"backward"``.
    """

    kind: str
    how: str
    names: tuple[str, ...] = ()
    came: tuple[Tensor | None, ...] = ()
    should: tuple[Tensor | None, ...] = ()
    tolerance: float = 1e-9
    failure: Failure | None = None
    stage: str = ""


@dataclass(frozen=True)
class Slopes:
    """Derivatives of all outputs along random directions, by differences: one column for each.

    ``vectors`` holds, for each wanted input, its part of every direction as a column. Complex
    tensors count as pairs of reals.
    """

    vectors: tuple[Tensor, ...]
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class Columns:
    """Columns of the Jacobian of all outputs with respect to one input, by differences.

    Complex tensors count as pairs of reals. ``index`` holds the flat positions examined,
    ``matrix`` one column for each, ``error`` its estimated error, ``smooth`` whether the
    differences behave as those of a differentiable function there.
    """

    index: Tensor
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class Expected:
    """The true gradient of one input for one pull: NaN where it is not known."""

    value: Tensor
    tolerance: Tensor


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class Evidence:
    """Everything seen of one Function on one set of inputs.

    ``expected`` maps a pull's name to the truth for each wanted input; ``reference_outputs`` and
    ``reference_grads`` come from ``reference=`` (the latter with its kink conventions).
    """

    subject: str
    inputs: tuple[Any, ...]
    parameters: tuple[str, ...]
    wanted: tuple[int, ...]
    is_function: bool
    instance_methods: tuple[str, ...]
    backward_source: str
    forward: Forward
    omitted: tuple[str, ...] = ()
    raw: Raw | None = None
    pulls: Mapping[str, Pull] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    slopes: Slopes | None = None
    jacobian: tuple[Columns, ...] = ()  # only where the slopes do not settle the matter
    expected: Mapping[str, tuple[Expected, ...]] = field(default_factory=dict)
    twins: tuple[Twin, ...] = ()
    interleaved: Pull | None = None  # "random" again, but with another forward in between
    held_fixed: Mapping[str, tuple[Tensor | None, ...]] = field(default_factory=dict)
    reference_outputs: tuple[Tensor, ...] | None = None
    reference_grads: tuple[Tensor, ...] | None = None
    surrogate: bool = False

    def name(self, position: int) -> str:
        """Return the argument's name at a position."""
        return self.parameters[position]
