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
# Whether a callable itself runs the ``backward`` of a Function, for example in
# ``torch.autograd.grad``, and whether it does so with ``create_graph=True``.
BackwardInside = Literal["", "once", "with create_graph"]

PLAIN_AUTOGRAD = "plain autograd"  # the kind of a comparison with a call without the Function
REFUSED = "refused"  # the kind of a comparison with a call that ``forward`` may well refuse
DIM_NAMES = ("dim", "axis")  # arguments that select a dim


@dataclass(frozen=True)
class Cotangent:
    """An identifier for the ``grad_output`` of a backward pass.

    ``random`` and ``other`` are drawn at random. ``sum`` is their sum. ``double``, ``negative``,
    ``large`` and ``zero`` are multiples of ``random``. In ``ones``, every element is 1. ``single``
    is ``random`` for the output at position ``output``, and None for all other outputs.
    """

    kind: Literal["random", "other", "sum", "double", "negative", "large", "zero", "ones", "single"]
    output: int = -1

    @property
    def is_compared(self) -> bool:
        """Whether the gradients for this cotangent are compared with the expected gradients.

        The remaining cotangents only test linearity.
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
    """An error in the user's code: its type, its message, and the line of user code that raised it.

    If ``runs_in_own_dtype`` is true, the call raised an error on float64 copies or in another
    dtype, but not in the dtype of the caller's inputs.
    """

    kind: str
    text: str
    line: str
    runs_in_own_dtype: bool = False


@dataclass(frozen=True)
class OwnDtype:
    """The error of a call in the dtype of the caller's inputs, and the stage that raised it."""

    dtype: str
    stage: str  # "forward" or "backward"
    failure: Failure


@dataclass(frozen=True)
class DefaultDtype:
    """An output whose dtype is PyTorch's default dtype instead of the dtype of the inputs.

    If the default dtype changes, ``forward`` returns this output in the new default dtype. ``line``
    is the first line of user code that creates a tensor without a dtype, or ``""`` if there is
    none.
    """

    output: int
    line: str = ""


# Fragments of two errors that PyTorch raises after ``forward`` has returned.
DIRTY_NOT_RETURNED = "marked as dirty"
RETURNED_AND_SAVED = "returned as-is as output is being saved"


@dataclass(frozen=True)
class Forward:
    """Observations from one forward pass.

    ``outputs`` holds detached copies, and ``kinds`` holds the type name of each returned value.
    ``changed`` and ``dirty`` are positions among the arguments of the call. If the call raises an
    error, they are known only for the errors that PyTorch raises after ``forward`` has returned.
    ``marked_non_differentiable`` holds positions among its outputs.
    """

    outputs: tuple[Tensor, ...] = ()
    kinds: tuple[str, ...] = ()
    requires_grad: tuple[bool, ...] = ()
    custom_node: bool = False
    backward_inside: BackwardInside = ""
    # Whether the subject is a Function and its outputs come directly from its own node in the
    # graph.
    whole: bool = False
    changed: tuple[int, ...] = ()
    dirty: tuple[int, ...] = ()
    written: tuple[int, ...] = ()  # an operation writes to these, even if the values stay the same
    changing_line: str = ""  # the line of user code that changed an argument
    versions_moved: tuple[int, ...] = ()  # arguments whose modification autograd has detected
    # (output, input) pairs that share memory without being marked as dirty
    views: tuple[tuple[int, int], ...] = ()
    marked_non_differentiable: tuple[int, ...] = ()
    # an output in PyTorch's default dtype, even though the inputs are in double precision
    default_dtype: DefaultDtype | None = None
    saved: tuple[Tensor, ...] = ()
    read_saved: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class DirectBackward:
    """The result of a direct call to ``backward``, before autograd adjusts the result."""

    count: int = 0
    grads: tuple[Tensor | None, ...] = ()  # in the order of the arguments
    kinds: tuple[str, ...] = ()
    changed_grad_outputs: tuple[int, ...] = ()
    changed_saved: tuple[int, ...] = ()
    changing_line: str = ""  # the line of user code that changed a cotangent or a saved tensor
    nan_line: str = ""  # the line of user code that produced the first nan in a gradient, if any
    nan_cause: str = ""  # what this line computes there, such as "0 / 0"
    # After ``backward`` changed its own saved tensors, the next call "returns the same" or
    # "raises".
    again: str = ""
    sparse: bool = False  # whether a gradient was sparse; ``grads`` are dense
    failure: Failure | None = None


@dataclass(frozen=True)
class VjpResult:
    """The result of one backward pass through autograd: a gradient for each wanted input."""

    grad_outputs: tuple[Tensor | None, ...]
    grads: tuple[Tensor | None, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class Variant:
    """The gradients that ``backward`` returns in another dtype or on another device."""

    name: str
    wanted: tuple[str, ...] = ()
    got: tuple[str | None, ...] = ()
    failure: Failure | None = None


AN_ITERATOR = "an iterator"  # in `Comparison.altered`: the first pass exhausts it


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of making the same call in two ways, which should agree.

    ``kind`` groups comparisons that ask the same question. ``how`` describes how the second call
    differs. It completes a sentence that starts with "the gradient of x changes". ``names``
    describes each tensor ("the output", "the gradient of x"). ``tolerance`` is relative to the
    larger of the two results, and ``floor`` is the rounding error that remains when terms cancel.
    If the second call failed, ``failure`` contains the error, and ``stage`` is ``"forward"`` or
    ``"backward"``. ``line`` is the line of user code at which the two calls start to differ, if it
    is known. ``altered`` describes an attribute of ``ctx`` that the first of two backward passes
    changes: its name, how it changes (``""`` if it is deleted), and an expression that copies it
    (or ``""``).
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
    altered: tuple[str, ...] = ()


@dataclass(frozen=True)
class DirectionalDerivatives:
    """Derivatives of all outputs along random directions, by finite differences.

    Each direction has one column.

    ``vectors`` holds one matrix for each wanted input. Each column of the matrix is this input's
    part of a direction. Complex tensors count as pairs of real numbers.
    """

    vectors: tuple[Tensor, ...]
    matrix: Tensor
    error: Tensor
    smooth: Tensor

    def where_smooth(self) -> DirectionalDerivatives:
        """Return the part for the smooth directions, or everything if no direction is smooth."""
        kept = self.smooth
        if not bool(kept.any()):
            return self
        *vectors, matrix, error = (
            part[:, kept.to(part.device)] for part in (*self.vectors, self.matrix, self.error)
        )
        return DirectionalDerivatives(tuple(vectors), matrix, error, kept[kept])


@dataclass(frozen=True)
class JacobianColumns:
    """Some columns of the Jacobian of all outputs with respect to one input, by finite differences.

    A complex tensor counts as pairs of real numbers. ``index`` holds the examined flat positions.
    For each position, ``matrix`` holds a column, and ``error`` holds the estimated error of that
    column. ``smooth`` indicates whether the finite differences suggest a differentiable function.
    """

    index: Tensor
    matrix: Tensor
    error: Tensor
    smooth: Tensor


@dataclass(frozen=True)
class JacobianRows:
    """Some rows of the Jacobian of all outputs, computed by ``backward`` from one-hot cotangents.

    ``index`` holds flat positions in the outputs, and ``matrices`` holds one matrix for each wanted
    input. A complex tensor counts as pairs of real numbers.
    """

    index: Tensor
    matrices: tuple[Tensor, ...]


@dataclass(frozen=True)
class Resized:
    """A call with a changed length or a changed number: its arguments and its outputs.

    For each wanted input, ``ratios`` holds the actual gradient divided by the expected gradient,
    both projected onto one direction. The ratio is ``None`` if it is unknown.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    numbers: tuple[float | None, ...]
    output: tuple[int, ...]
    ratios: tuple[float | None, ...]


@dataclass(frozen=True)
class WastedGradient:
    """Operations that ``backward`` ran only for an input that does not need a gradient.

    In this call, all other inputs needed gradients.
    """

    position: int
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """Saved tensors that share memory, and whether ``backward`` reads them.

    ``size`` is in bytes. ``unpacked`` is true if ``backward`` unpacked the tensors. ``used`` is
    true if a gradient depends on their values, or if this is unknown.
    """

    names: tuple[str, ...]
    size: int
    unpacked: bool
    used: bool


@dataclass(frozen=True)
class Cost:
    """The operations of a call and its backward pass, and the memory that is held between the two.

    ``sizes`` holds the size in bytes of each block of memory, in ascending order.
    """

    sizes: tuple[int, ...]
    operations: int


@dataclass(frozen=True)
class Captured:
    """A tensor that ``forward`` uses without receiving it as an argument.

    The tensor gets no gradient.

    ``slope`` is the largest derivative of an output with respect to this tensor, by finite
    differences along random directions. It is 0 if the derivative is known to be 0.
    """

    name: str
    slope: float


@dataclass(frozen=True)
class OnCtx:
    """A tensor that a Function stores as an attribute of ``ctx``.

    ``role`` is ``"input"`` or ``"output"`` if the tensor shares memory with an input or an output,
    and ``owner`` is the name of this input or output. ``edited`` compares the original gradients
    with the gradients after an in-place change to this memory between forward and backward.
    """

    name: str
    function: str
    role: str = ""
    owner: str = ""
    edited: Comparison | None = None


@dataclass(frozen=True)
class Expected:
    """The expected gradient of one input for one cotangent, or NaN where it is unknown."""

    value: Tensor
    tolerance: Tensor


@dataclass(frozen=True)
class SecondDerivative:
    """The derivative of one input's gradient along a random direction.

    ``of`` is the input whose gradient autograd differentiates. ``by`` is the variable with respect
    to which it differentiates: an input, or ``"grad_output"``. ``actual`` is autograd's result, or
    ``None`` if the graph does not reach this variable. ``expected`` is the expected result, with an
    error of at most ``error``.
    """

    of: str
    by: str
    actual: float | None
    expected: float
    error: float

    @property
    def wrong(self) -> bool:
        """Whether the result is wrong.

        A missing result counts as zero. ``nan`` is always wrong.
        """
        known = math.isfinite(self.expected) and math.isfinite(self.error)
        return known and not abs((self.actual or 0.0) - self.expected) <= self.error


@dataclass(frozen=True)
class LostGraph:
    """Values that have no graph, even though a gradient depends on them.

    ``place`` is ``"saved"`` for saved tensors, ``"attribute"`` for attributes of ``ctx``, and
    ``"backward"`` for calls in ``backward``, such as ``.detach()``. ``names`` holds the names of
    the values, from the source if possible. ``line`` is the line of source code that causes the
    problem. If the value is a copy or a view of an input or output, ``copied`` is the name of this
    input or output. If the line is in a function that ``forward`` also calls, ``helper`` is the
    name of this function.
    """

    place: Literal["saved", "attribute", "backward"]
    names: tuple[str, ...]
    line: str = ""
    copied: str = ""
    helper: str = ""


@dataclass(frozen=True)
class SecondOrder:
    """The second derivatives of a Function.

    ``failure`` is the error that ``backward`` raised when ``grad_output`` required grad, as it does
    inside a network. In that case, the probe computed the derivatives with a ``grad_output`` that
    does not require grad, like the one that ``.sum()`` passes back. ``lost`` is the cause of the
    first wrong derivative, if the cause was found.
    """

    derivatives: tuple[SecondDerivative, ...] = ()
    failure: Failure | None = None
    lost: LostGraph | None = None


@dataclass(frozen=True, eq=False)
class Extreme:
    """A call in which float32 rounding or a mask with -inf can make the result wrong.

    The inputs can be far from the example.

    ``how`` describes the inputs in words ("once |x| reaches 100"). ``inputs`` holds all arguments.
    Floating-point tensors are in float64, with values that float32 can represent. ``names``
    describes each tensor: the outputs, then the gradients for ``grad_outputs``. ``single`` and
    ``double`` are the results in float32 and float64. ``error`` is the actual rounding error, and
    ``noise`` is the expected rounding error. Both are empty if they are unknown. ``masked`` is the
    position of an input that contains -inf. In this case, ``single`` is empty. ``right`` is the
    result of the reference in float64. It is empty or ``None`` if the reference does not provide a
    usable result. ``line`` is the line of user code that produces the first number that is not
    finite, and ``computes`` describes what this line computes.
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
    line: str = ""
    computes: str = ""


@dataclass(frozen=True, eq=False)
class Float32Steps:
    """The results of a float64 call after a tiny change to every number, and after a larger change.

    ``names`` describes each tensor: the outputs, then the gradients. Both changes have the same
    direction, and ``ratio`` is the ratio of the smaller change to the larger one.
    """

    names: tuple[str, ...]
    here: tuple[Tensor | None, ...]
    near: tuple[Tensor | None, ...]
    far: tuple[Tensor | None, ...]
    ratio: float


@dataclass(frozen=True)
class FakeCall:
    """A call to an operator's fake implementation, compared with a real call.

    ``differences`` holds the position of an output, what differs there (such as ``"dtype"``), its
    value in the fake call, and its value in the real call. ``failure`` is the error that the fake
    call raised.
    """

    differences: tuple[tuple[int, str, str, str], ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, eq=False)
class Contract:
    """Observations about autograd's contract, except for the values of gradients.

    ``stated_design`` names the deliberate gradient design that the source mentions. ``own`` is set
    only if the call raised an error in the dtype of the caller's inputs. ``rejected`` is autograd's
    error about a wrong number of gradients. All other evidence comes from calls with the correct
    number of gradients. ``own_views`` holds the outputs that are views of a tensor created in
    ``forward``, and ``old_style`` holds the Functions whose ``forward`` takes ``ctx``.
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
    ``structures`` maps the name of an input to a structure, if the gradient is correct only for
    changes that keep this structure. ``unread`` names the inputs that contain zeros that
    ``forward`` does not read, such as the upper triangle of a lower triangular matrix. ``inexact``
    is the relative error of the comparison if ``forward`` itself is inexact, and 0 otherwise.
    ``cotangent_range`` describes the cotangents that the probes used, if ``backward`` is linear
    only for some cotangents. ``None`` means that ``backward`` is not linear for any cotangents.
    ``jacobian`` exists only if the slopes along random directions were not sufficient for a
    verdict. ``ties`` holds derivatives along directions that move equal elements of an input
    together. ``rows``, ``resized`` and ``unused`` exist only together with ``jacobian``. For each
    wanted input, ``unused`` holds the positions of the arguments that affect its expected gradient
    but not the result of ``backward``. ``expected`` maps a cotangent to the expected gradient of
    each wanted input. ``reference_outputs`` and ``reference_grads`` come from ``reference=``.
    ``reference_grads`` follows the reference's convention at kinks.
    """

    cotangent_range: str | None = ""
    vjps: Mapping[Cotangent, VjpResult] = field(default_factory=dict)
    slopes: DirectionalDerivatives | None = None
    piecewise: tuple[int, ...] = ()
    structures: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    inexact: float = 0.0
    jacobian: tuple[JacobianColumns, ...] = ()
    ties: DirectionalDerivatives | None = None
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
    one backward pass unpacked the same saved tensor. ``outlived`` lists the stages after which a
    ``ctx`` stays alive until the garbage collector runs.
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
    """The results of the same call under other conditions.

    If calls with other numbers took too long, ``unfinished`` is the magnitude of their inputs.
    ``dtypes`` holds the variants in other dtypes and on other devices. ``interleaved`` repeats the
    backward pass for ``RANDOM``, with another forward pass between forward and backward.
    """

    dtypes: tuple[Variant, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    extremes: tuple[Extreme, ...] = ()
    float32_steps: Float32Steps | None = None
    fake_call: FakeCall | None = None
    unfinished: float | None = None
    interleaved: VjpResult | None = None


@dataclass(frozen=True, eq=False)  # tensors have no single truth value, so they cannot be compared
class Evidence:
    """All evidence about one Function for one set of inputs.

    The first fields describe the call and its forward pass. ``omitted`` holds the inputs for which
    the call uses the default values. ``second_order`` is ``None`` if no probe examined second
    derivatives. ``left_out`` holds the names of the probes that ``diagnose`` skipped for lack of
    time. ``others`` holds evidence about the same Function on other inputs. The pipeline adds it
    before it judges the evidence, so that a rule can test whether a statement is true for these
    inputs too.
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
    needs_device: bool = False  # whether the Function fails on CPU copies of its inputs
    others: tuple[Evidence, ...] = ()

    def name(self, position: int) -> str:
        """Return the name of the argument at a position."""
        return self.parameters[position]

    def gradient_name(self, position: int) -> str:
        """Return the name of an input's gradient, as it appears in messages."""
        return f"the gradient of `{self.name(position)}`"
