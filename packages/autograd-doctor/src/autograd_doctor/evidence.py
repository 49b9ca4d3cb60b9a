"""The evidence that probes collect: plain data on which the rules base their verdicts.

Nothing in this module runs the user's code, and no class contains a graph, a node or a callable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

LARGE_FACTOR = 1000.0  # large enough to trigger clipping that smaller cotangents do not trigger
PLAIN_AUTOGRAD = "plain autograd"  # the kind of paired run without the Function
DIM_NAMES = ("dim", "axis")  # arguments that select a dim


@dataclass(frozen=True)
class Cotangent:
    """Identifies the ``grad_output`` of a backward pass.

    ``random`` and ``other`` are drawn at random. ``sum`` is their sum. ``double``, ``negative``,
    ``large`` and ``zero`` are multiples of ``random``. ``ones`` is 1 in every element. ``single``
    is ``random`` for the output at position ``output``, and None for all other outputs.
    """

    kind: Literal["random", "other", "sum", "double", "negative", "large", "zero", "ones", "single"]
    output: int = -1

    @property
    def is_compared(self) -> bool:
        """Whether the gradients are compared with expected ones.

        Other cotangents only test linearity.
        """
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
    """An error in the user's code: the type, the text, and the user's line that caused it.

    If ``runs_in_own_dtype`` is true, the call raised an error on float64 copies or in another dtype
    that the doctor tried, but not in the dtype of the caller's inputs.
    """

    kind: str
    text: str
    line: str
    runs_in_own_dtype: bool = False


@dataclass(frozen=True)
class OwnDtype:
    """The call in the dtype of the caller's inputs, and the error it raised."""

    dtype: str
    stage: str  # "forward" or "backward"
    failure: Failure


@dataclass(frozen=True)
class Forward:
    """One forward pass.

    ``outputs`` holds detached copies, and ``kinds`` holds the type name of each returned value.
    ``changed`` and ``dirty`` are positions among the arguments of the call. ``views`` and
    ``non_differentiable`` are positions among its outputs.
    """

    outputs: tuple[Tensor, ...] = ()
    kinds: tuple[str, ...] = ()
    requires_grad: tuple[bool, ...] = ()
    custom_node: bool = False
    # Whether the subject is a Function and its outputs come directly from its own node in the
    # graph.
    whole: bool = False
    changed: tuple[int, ...] = ()
    dirty: tuple[int, ...] = ()
    written: tuple[int, ...] = ()  # an operation writes to these, even if the values stay the same
    changing_line: str = ""  # the user's line that changed an argument
    versions_moved: tuple[int, ...] = ()  # arguments whose change autograd has noticed
    # (output, input) pairs that share memory without being marked as dirty
    views: tuple[tuple[int, int], ...] = ()
    marked_non_differentiable: tuple[int, ...] = ()
    saved: tuple[Tensor, ...] = ()
    read_saved: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class DirectBackward:
    """A direct call to ``backward``, before the engine adjusts the result."""

    count: int = 0
    grads: tuple[Tensor | None, ...] = ()  # in the order of the arguments
    kinds: tuple[str, ...] = ()
    changed_grad_outputs: tuple[int, ...] = ()
    changed_saved: tuple[int, ...] = ()
    changing_line: str = ""  # the user's line that changed a cotangent or a saved tensor
    nan_line: str = ""  # the user's line that produced the first nan, if a gradient contains nan
    # After ``backward`` changed its own saved tensors, the next call "returns the same" or
    # "raises".
    again: str = ""
    sparse: bool = False  # whether a gradient was sparse; ``grads`` are dense
    failure: Failure | None = None


@dataclass(frozen=True)
class VjpResult:
    """A backward pass through the engine. It holds a gradient for each wanted input."""

    grad_outputs: tuple[Tensor | None, ...]
    grads: tuple[Tensor | None, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Variant:
    """The raw gradients of the same call in another dtype or on another device."""

    name: str
    wanted: tuple[str, ...] = ()
    got: tuple[str | None, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of a call that was made in two ways, which must agree.

    ``kind`` groups comparisons that ask the same question. ``how`` describes the difference in
    words, so that "the gradient of x changes" + how is a sentence. ``names`` describes each tensor
    ("the output", "the gradient of x"). ``tolerance`` is relative to the larger of the two results,
    and ``floor`` is the rounding error that remains after terms cancel. If the second call raised,
    ``failure`` contains the error, and ``stage`` is ``"forward"`` or ``"backward"``. ``line`` is
    the user's line at which the two calls start to differ, if it is known.
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
    """Derivatives of all outputs along random directions, by finite differences.

    Each direction has one column.

    ``vectors`` holds one matrix for each wanted input. Its columns are the input's part of every
    direction. Complex tensors count as pairs of reals.
    """

    vectors: tuple[Tensor, ...]
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class JacobianColumns:
    """Columns of the Jacobian of all outputs with respect to one input, by finite differences.

    A complex tensor counts as pairs of real numbers. ``index`` holds the examined flat positions.
    For each position, ``matrix`` holds a column and ``error`` its estimated error. ``smooth`` says
    whether the finite differences suggest a differentiable function.
    """

    index: Tensor
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class JacobianRows:
    """Rows of the Jacobian of all outputs according to ``backward``, one for each one-hot
    cotangent.

    ``index`` holds flat positions in the outputs, and ``matrices`` holds one matrix for each wanted
    input. A complex tensor counts as pairs of real numbers.
    """

    index: Tensor
    matrices: tuple[Tensor, ...]


@dataclass(frozen=True)
class Resized:
    """A call with a different length or number, its arguments and its outputs.

    For each wanted input, ``ratios`` holds the actual gradient divided by the expected one along
    one direction, or ``None`` if this ratio is unknown.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    numbers: tuple[float | None, ...]
    output: tuple[int, ...]
    ratios: tuple[float | None, ...]


@dataclass(frozen=True)
class WastedGradient:
    """Operations that ``backward`` ran only for the gradient of an input that does not need one.

    All other inputs needed their gradients.
    """

    position: int
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """Saved tensors that share memory, and whether ``backward`` reads them.

    ``size`` is in bytes. ``unpacked`` says whether ``backward`` unpacked the tensors. ``used`` says
    whether a gradient depends on their values, and is also true if this is unknown.
    """

    names: tuple[str, ...]
    size: int
    unpacked: bool
    used: bool


@dataclass(frozen=True)
class Cost:
    """The operations of a call and its backward pass, and the memory alive between the two.

    ``sizes`` holds the size of each piece of memory in bytes, in ascending order.
    """

    sizes: tuple[int, ...]
    operations: int


@dataclass(frozen=True)
class Captured:
    """A tensor that ``forward`` uses although it is not an argument, and that gets no gradient.

    ``slope`` is the largest derivative of an output with respect to this tensor, by finite
    differences along random directions. It is 0 if the derivative is certainly 0.
    """

    name: str
    slope: float


@dataclass(frozen=True)
class OnCtx:
    """A tensor that a Function stores as an attribute of ``ctx``.

    ``role`` is ``"input"`` or ``"output"`` if the tensor shares memory with an input or an output,
    and ``owner`` is the name of this input or output. ``edited`` compares the gradients after an
    in-place change of this memory between forward and backward with the original gradients.
    """

    name: str
    function: str
    role: str = ""
    owner: str = ""
    edited: Comparison | None = None


@dataclass(frozen=True)
class Expected:
    """The expected gradient of one input in one backward pass, with NaN where it is unknown."""

    value: Tensor
    tolerance: Tensor


@dataclass(frozen=True)
class SecondDerivative:
    """The gradient of one input, differentiated again along a random direction.

    ``of`` is the input, and ``by`` is the variable of the second derivative: an input, or
    ``"grad_output"``. ``came`` is the result of autograd, or ``None`` if its graph does not reach
    this variable. ``expected`` is the expected result, with an error of at most ``error``.
    """

    of: str
    by: str
    actual: float | None
    expected: float
    error: float

    @property
    def wrong(self) -> bool:
        """Whether the result is wrong.

        A missing result counts as zero, and ``nan`` is always wrong.
        """
        known = math.isfinite(self.expected) and math.isfinite(self.error)
        return known and not abs((self.actual or 0.0) - self.expected) <= self.error


@dataclass(frozen=True)
class LostGraph:
    """The values that have no graph although a gradient depends on them.

    ``place`` is ``"saved"`` for saved tensors, ``"attribute"`` for attributes of ``ctx``, and
    ``"backward"`` for calls in ``backward``, such as ``.detach()``. ``names`` holds their names,
    from the source if possible, and ``line`` is the line of source that causes the problem.
    """

    place: Literal["saved", "attribute", "backward"]
    names: tuple[str, ...]
    line: str = ""


@dataclass(frozen=True)
class SecondOrder:
    """The second derivatives of a Function.

    ``failure`` is the error that ``backward`` raised for a ``grad_output`` that requires grad, as
    it does inside a network. After such an error, the derivatives belong to a ``grad_output`` that
    does not require grad, as after ``.sum()``. ``lost`` is the cause of the first wrong derivative,
    if it was found.
    """

    derivatives: tuple[SecondDerivative, ...] = ()
    failure: Failure | None = None
    lost: LostGraph | None = None


@dataclass(frozen=True, eq=False)
class Extreme:
    """A call in which float32 or a mask of -inf spoils the result.

    Its inputs may be far from the example.

    ``how`` describes the inputs in words ("once |x| reaches 100"). ``inputs`` holds all arguments.
    Floating-point tensors are in float64, with values that float32 can represent. ``names``
    describes each tensor: the outputs, then the gradients for ``grad_outputs``. ``single`` and
    ``double`` are the results in the two precisions. ``error`` is the actual rounding error, and
    ``noise`` is the expected rounding error. Both are empty if they are unknown. ``masked`` is the
    position of an input that contains -inf. In this case, ``single`` is empty. ``right`` is the
    result of the reference in float64. It is empty or ``None`` if the reference does not help.
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
    """A float64 call with a tiny change of every number, and with a larger change.

    ``names`` describes each tensor: the outputs, then the gradients. Both changes have the same
    direction, and ``ratio`` is the ratio of the smaller change to the larger one.
    """

    names: tuple[str, ...]
    here: tuple[Tensor | None, ...]
    near: tuple[Tensor | None, ...]
    far: tuple[Tensor | None, ...]
    ratio: float


@dataclass(frozen=True, eq=False)
class Contract:
    """Observations about autograd's contract, except for values.

    ``stated_design`` names the deliberate gradient design that the source mentions. ``own`` is set
    only if the call raised in the dtype of the caller's inputs. ``rejected`` is autograd's error
    about a wrong number of gradients. All other evidence was collected with the right number.
    ``own_views`` holds the outputs that are views of a tensor created in ``forward``, and
    ``old_style`` holds the Functions whose ``forward`` takes ``ctx``.
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
    """The gradients and their expected values.

    ``piecewise`` holds the positions of inputs for which ``forward`` is piecewise constant.
    ``structures`` maps the name of an input to a structure, if the gradient is right only for
    changes that keep this structure. ``inexact`` is the relative error of the gradient if
    ``forward`` is too inexact for a better comparison, and 0 otherwise. ``cotangent_range``
    describes the cotangents that were used, if not all cotangents are suitable. ``None`` means that
    ``backward`` is not linear for any cotangents. ``jacobian`` exists only if the slopes do not
    settle the matter, and ``rows``, ``resized`` and ``unused`` exist only with it. For each wanted
    input, ``unused`` holds the positions of the arguments that affect its expected gradient but not
    the result of ``backward``. ``expected`` maps a cotangent to the expected gradient of each
    wanted input. ``reference_outputs`` and ``reference_grads`` come from ``reference=``, and the
    latter includes its convention at kinks.
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
    """The memory and operations of a call, and the state that it can reach besides its arguments.

    ``costs`` has the keys ``"function"`` and ``"plain"`` (autograd). ``unpacked`` counts how often
    one backward pass unpacked the same saved tensor. ``outlived`` lists the stages after which only
    the garbage collector frees a ``ctx``.
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
    """The same call, made in other ways.

    ``dtypes`` holds the variants in other dtypes and on other devices. ``interleaved`` repeats
    ``RANDOM`` with another forward pass in between.
    """

    dtypes: tuple[Variant, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    float32_steps: Float32Steps | None = None
    interleaved: VjpResult | None = None


@dataclass(frozen=True, eq=False)  # tensors have no single truth value, so they cannot be compared
class Evidence:
    """All evidence about one Function on one set of inputs.

    The first fields describe the call and its forward pass. ``omitted`` holds inputs that the call
    leaves at their defaults. ``second_order`` is ``None`` if it was not examined. ``left_out``
    holds the names of the probes that were skipped because time ran out.
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
    needs_device: bool = False  # whether it fails on CPU copies of its inputs

    def name(self, position: int) -> str:
        """Return the name of the argument at a position."""
        return self.parameters[position]

    def gradient_name(self, position: int) -> str:
        """Return the name of an input's gradient for use in a message."""
        return f"the gradient of `{self.name(position)}`"
