"""What a probe brings back: plain data, on which rules decide.

Nothing here runs the user's code, and nothing here holds a graph, a node or a callable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

LARGE_FACTOR = 1000.0  # a cotangent this much larger shows a clip that others stay under
PLAIN_AUTOGRAD = "plain autograd"  # the kind of paired run without the Function
DIM_NAMES = ("dim", "axis")  # arguments that name a dim


@dataclass(frozen=True)
class Cotangent:
    """Which ``grad_output`` a backward pass got.

    ``random`` and ``other`` are drawn at random. ``sum`` is their sum; ``double``, ``negative``,
    ``large`` and ``zero`` are multiples of ``random``. ``ones`` is 1 in every element. ``single``
    is ``random`` for one output, whose position is ``output``, and None for all others.
    """

    kind: Literal["random", "other", "sum", "double", "negative", "large", "zero", "ones", "single"]
    output: int = -1

    @property
    def is_compared(self) -> bool:
        """Whether its gradients are compared with expected ones; others only show linearity."""
        return self.kind in ("random", "other", "ones", "single")


RANDOM = Cotangent("random")
OTHER = Cotangent("other")
SUM = Cotangent("sum")
DOUBLE = Cotangent("double")
NEGATIVE = Cotangent("negative")
LARGE = Cotangent("large")
ZERO = Cotangent("zero")
ONES = Cotangent("ones")


@dataclass(frozen=True)
class Failure:
    """The user's code raised: the exception's type and text, and the user's line that led to it.

    ``runs_in_own_dtype``: the call raised on float64 copies, or in another dtype that the doctor
    tried. The same call in the dtype of the caller's inputs does not raise.
    """

    kind: str
    text: str
    line: str
    runs_in_own_dtype: bool = False


@dataclass(frozen=True)
class OwnDtype:
    """The call in the dtype of the caller's inputs: how forward or backward raised there."""

    dtype: str
    stage: str  # "forward" or "backward"
    failure: Failure


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
    # The subject is a Function, and its outputs come straight from its own node in the graph.
    whole: bool = False
    changed: tuple[int, ...] = ()
    dirty: tuple[int, ...] = ()
    written: tuple[int, ...] = ()  # to which an operation writes, be it the same value
    changing_line: str = ""  # the user's line that changed an argument
    versions_moved: tuple[int, ...] = ()  # arguments of which autograd knows that they changed
    views: tuple[tuple[int, int], ...] = ()  # (output, input) pairs that share memory, not dirty
    marked_non_differentiable: tuple[int, ...] = ()
    saved: tuple[Tensor, ...] = ()
    read_saved: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class DirectBackward:
    """One direct call of ``backward``, as the engine makes it, before the engine mends anything."""

    count: int = 0
    grads: tuple[Tensor | None, ...] = ()  # in the order of the arguments
    kinds: tuple[str, ...] = ()
    changed_grad_outputs: tuple[int, ...] = ()
    changed_saved: tuple[int, ...] = ()
    changing_line: str = ""  # the user's line that changed a cotangent or a saved tensor
    nan_line: str = ""  # the user's line that got the first nan, if a gradient has any
    # With saved tensors of its own changed: the next call "returns the same" or "raises".
    again: str = ""
    sparse: bool = False  # some gradient came as a sparse tensor; ``grads`` are dense
    failure: Failure | None = None


@dataclass(frozen=True)
class VjpResult:
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
class Comparison:
    """One call made in two ways that must agree: what came the other way, and the plain way.

    ``kind`` groups comparisons that ask the same question. ``how`` says in words what was
    different, so that "the gradient of x changes" + how is a sentence. ``names`` says what each
    tensor is ("the output", "the gradient of x"). ``tolerance`` is relative to the larger of the
    two, ``floor`` is what rounding leaves of terms that cancel. Where the other way raised,
    ``failure`` says so and ``stage`` where: ``"forward"`` or ``"backward"``. ``line`` is the user's
    line at which the two ways part, where that is known.
    """

    kind: str
    how: str
    names: tuple[str, ...] = ()
    actual: tuple[Tensor | None, ...] = ()
    expected: tuple[Tensor | None, ...] = ()
    tolerance: float = 1e-9
    failure: Failure | None = None
    stage: str = ""
    floor: float = 0.0
    line: str = ""


@dataclass(frozen=True)
class DirectionalDerivatives:
    """Derivatives of all outputs along random directions, by differences: one column for each.

    ``vectors`` holds, for each wanted input, its part of every direction as a column. Complex
    tensors count as pairs of reals.
    """

    vectors: tuple[Tensor, ...]
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class JacobianColumns:
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
class JacobianRows:
    """Rows of the Jacobian of all outputs as backward has it: one for each one-hot cotangent.

    ``index`` holds the flat positions among the outputs, ``matrices`` one matrix for each wanted
    input. Complex tensors count as pairs of reals.
    """

    index: Tensor
    matrices: tuple[Tensor, ...]


@dataclass(frozen=True)
class Resized:
    """The call with another length or number: what the arguments and the output are then.

    ``ratios`` holds gradient over truth along one direction of each wanted input, ``None`` where
    that is not known.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    numbers: tuple[float | None, ...]
    output: tuple[int, ...]
    ratios: tuple[float | None, ...]


@dataclass(frozen=True)
class WastedGradient:
    """The operations that backward ran only for the gradient of an input that asked for none.

    All other inputs asked for theirs.
    """

    position: int
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """Saved tensors that share memory: what they are, and whether backward reads them.

    ``size`` is in bytes. ``unpacked``: backward took them out again; ``used``: a gradient depends
    on their values, or it cannot be told.
    """

    names: tuple[str, ...]
    size: int
    unpacked: bool
    used: bool


@dataclass(frozen=True)
class Cost:
    """What a call and its backward take: the operations of both, and what lives in between.

    ``sizes`` holds the bytes of each piece of memory, the smallest first.
    """

    sizes: tuple[int, ...]
    operations: int


@dataclass(frozen=True)
class Captured:
    """A tensor that forward takes besides its arguments, and to which no gradient comes.

    ``slope`` is the largest derivative of an output by it along random directions, by differences,
    and 0 where there is none for sure.
    """

    name: str
    slope: float


@dataclass(frozen=True)
class OnCtx:
    """A tensor that a Function keeps as an attribute of ctx.

    ``role`` is ``"input"`` or ``"output"`` where the tensor lies in such a one's memory, and
    ``owner`` its name where it is the call's. ``edited`` holds the gradients when that is changed
    in place between forward and backward, beside the plain ones.
    """

    name: str
    function: str
    role: str = ""
    owner: str = ""
    edited: Comparison | None = None


@dataclass(frozen=True)
class Expected:
    """The true gradient of one input in one backward pass: NaN where it is not known."""

    value: Tensor
    tolerance: Tensor


@dataclass(frozen=True)
class SecondDerivative:
    """The gradient of one input, differentiated once more along a random direction.

    ``of`` names the input, ``by`` what its gradient is differentiated by: an input, or
    ``"grad_output"``. ``came`` is what autograd finds, ``None`` where its graph does not lead
    there; ``expected`` is the truth, known to within ``error``.
    """

    of: str
    by: str
    actual: float | None
    expected: float
    error: float

    @property
    def wrong(self) -> bool:
        """Whether what came, zero if nothing did, is not the truth; ``nan`` never is."""
        known = math.isfinite(self.expected) and math.isfinite(self.error)
        return known and not abs((self.actual or 0.0) - self.expected) <= self.error


@dataclass(frozen=True)
class LostGraph:
    """Through what a gradient depends on an input, without a graph that autograd can follow.

    ``place`` is ``"saved"`` for saved tensors, ``"attribute"`` for attributes of ctx, and
    ``"backward"`` for calls in backward, such as ``.detach()``. ``names`` says which, as the source
    has them where it is known; ``line`` is the line of source that makes them so.
    """

    place: Literal["saved", "attribute", "backward"]
    names: tuple[str, ...]
    line: str = ""


@dataclass(frozen=True)
class SecondOrder:
    """Backward, differentiated in its turn.

    ``failure`` tells how that raised with a grad_output that requires grad, as it does inside a
    network. After a failure the derivatives are those with a grad_output that does not, as after
    ``.sum()``. ``lost`` is the cause of the first derivative that is wrong, where it was found.
    """

    derivatives: tuple[SecondDerivative, ...] = ()
    failure: Failure | None = None
    lost: LostGraph | None = None


@dataclass(frozen=True, eq=False)
class Extreme:
    """One call, far from the example or on it, that float32 or a mask of -inf spoils.

    ``how`` says in words where ("once |x| reaches 100"). ``inputs`` are all arguments, floating
    tensors in float64 but of values that float32 holds. ``names`` says what each tensor is:
    outputs, then the gradients for ``grad_outputs``. ``single`` and ``double`` are what came in
    either precision. ``error`` is the difference that rounding made, and ``noise`` what is to be
    expected of it; both are empty where there is no more. ``masked`` is the position of an input
    with -inf in it; ``single`` is empty then. ``right`` is what a reference gives in float64,
    empty or ``None`` where it tells nothing.
    """

    how: str
    names: tuple[str, ...]
    inputs: tuple[Any, ...]
    grad_outputs: tuple[Tensor, ...]
    single: tuple[Tensor | None, ...]
    double: tuple[Tensor | None, ...]
    error: tuple[Tensor | None, ...] = ()
    noise: tuple[Tensor | None, ...] = ()
    right: tuple[Tensor | None, ...] = ()
    masked: int | None = None
    is_example: bool = False


@dataclass(frozen=True, eq=False)
class Float32Steps:
    """One call in float64, the same with every number moved by a hair, and with a longer move.

    ``names`` says what each tensor is: outputs, then gradients. The moves go the same way;
    ``ratio`` is that of the short one to the long one.
    """

    names: tuple[str, ...]
    here: tuple[Tensor | None, ...]
    near: tuple[Tensor | None, ...]
    far: tuple[Tensor | None, ...]
    ratio: float


@dataclass(frozen=True, eq=False)
class Contract:
    """How the Function keeps autograd's contract, apart from values.

    ``stated_design`` is what its source says that its gradient is by design, in words.
    ``own`` is set only where the call raised in the dtype of the caller's inputs. ``rejected`` is
    how autograd rejected the number of gradients: all else was examined with the right number.
    ``own_views`` are the outputs that are views of what a Function's forward made, ``old_style``
    the Functions whose forward takes ctx itself.
    """

    instance_methods: tuple[str, ...] = ()
    backward_source: str = ""
    stated_design: str = ""
    own: OwnDtype | None = None
    direct: DirectBackward | None = None
    rejected: Failure | None = None
    own_views: tuple[int, ...] = ()
    old_style: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Values:
    """Gradients, and what they should be.

    ``piecewise`` are the slots of inputs in which forward changes only by jumps. ``structures``
    maps the name of an input to the structure that the gradient is right for, where it is right for
    changes alone that keep this. ``inexact`` is how far the gradient is off, relative to its size,
    where forward is too inexact to say more, and 0 elsewhere. ``cotangent_range`` says in words
    which cotangents were sent, where not all would do; ``None`` says that backward is linear for
    none. ``jacobian`` is there only where the slopes do not settle the matter, ``rows``,
    ``resized`` and ``unused`` where it is. ``unused`` holds, for each wanted input, the positions
    of the arguments that change its true gradient, but not what backward returns. ``expected``
    maps a cotangent to the truth for each wanted input; ``reference_outputs`` and
    ``reference_grads`` come from ``reference=`` (the latter with its kink conventions).
    """

    cotangent_range: str | None = ""
    vjps: Mapping[Cotangent, VjpResult] = field(default_factory=dict)
    slopes: DirectionalDerivatives | None = None
    piecewise: tuple[int, ...] = ()
    structures: Mapping[str, str] = field(default_factory=dict)
    inexact: float = 0.0
    jacobian: tuple[JacobianColumns, ...] = ()
    rows: JacobianRows | None = None
    resized: tuple[Resized, ...] = ()
    unused: tuple[tuple[int, ...], ...] = ()
    expected: Mapping[Cotangent, tuple[Expected, ...]] = field(default_factory=dict)
    held_fixed: Mapping[str, tuple[Tensor | None, ...]] = field(default_factory=dict)
    reference_outputs: tuple[Tensor, ...] | None = None
    reference_grads: tuple[Tensor, ...] | None = None
    surrogate: bool = False


@dataclass(frozen=True, eq=False)
class Memory:
    """What a call keeps, what it costs, and what it reaches besides its arguments.

    ``costs`` has the keys ``"function"`` and ``"plain"`` (autograd). ``unpacked`` is how often one
    backward unpacked the same saved tensor. ``outlived`` names the stages after which only the
    garbage collector frees a ctx.
    """

    kept: tuple[Kept, ...] = ()
    costs: Mapping[str, Cost] = field(default_factory=dict)
    captured: tuple[Captured, ...] = ()
    on_ctx: tuple[OnCtx, ...] = ()
    unpacked: int = 0
    outlived: tuple[str, ...] = ()
    wasted_gradients: tuple[WastedGradient, ...] = ()


@dataclass(frozen=True, eq=False)
class Variants:
    """The same call made in other ways.

    ``dtypes`` are other dtypes and devices. ``interleaved`` is ``RANDOM`` again, but with another
    forward pass in between.
    """

    dtypes: tuple[Variant, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    float32_steps: Float32Steps | None = None
    interleaved: VjpResult | None = None


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class Evidence:
    """Everything seen of one Function on one set of inputs.

    The first fields say what was called, and how forward ran; ``omitted`` are inputs that the call
    leaves to their defaults. ``second_order`` is ``None`` where it was not examined. ``left_out``
    names the probes for which there was no time.
    """

    subject: str
    inputs: tuple[Any, ...]
    parameters: tuple[str, ...]
    wanted: tuple[int, ...]
    is_function: bool
    forward: Forward
    omitted: tuple[str, ...] = ()
    contract: Contract = field(default_factory=Contract)
    values: Values = field(default_factory=Values)
    memory: Memory = field(default_factory=Memory)
    second_order: SecondOrder | None = None
    second_order_required: bool = False  # double_backward=True
    variants: Variants = field(default_factory=Variants)
    left_out: tuple[str, ...] = ()
    needs_device: bool = False  # it does not run on CPU copies of its inputs

    def name(self, position: int) -> str:
        """Return the argument's name at a position."""
        return self.parameters[position]

    def gradient_name(self, position: int) -> str:
        """Return what a message calls the gradient of an input."""
        return f"the gradient of `{self.name(position)}`"
