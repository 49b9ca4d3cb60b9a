"""The five steps of a manual check: forward, contract, magnitudes, one element, gradcheck."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import torch
from torch import Tensor
from torch.autograd import gradcheck

from autograd_doctor._execution.session import subject_of
from autograd_doctor._numerics.tensors import as_tuple
from autograd_doctor._safe_repr import said
from autograd_doctor.formatting import quoted

# --------------------------------------------------------------------------------------------------
# The result of a step, and a table of all five results.
# --------------------------------------------------------------------------------------------------

TITLES = ("forward", "contract", "magnitudes", "one element", "gradcheck")
WIDTH = 88
_INDENT = 18  # "  3 magnitudes  ✗ "
_MARK = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True)
class Step:
    """The result of one step.

    ``parts`` holds observations, and ``means`` holds their interpretation.

    ``ok`` is ``None`` if the step had nothing to compare. ``parts`` then holds the reason.
    ``stops`` marks a step that raised an error, after which no later step can run.
    """

    title: str
    ok: bool | None
    parts: tuple[str, ...]
    means: str = ""
    stops: bool = False

    @property
    def seen(self) -> str:
        """The observations in one line."""
        return "; ".join(self.parts)

    @property
    def number(self) -> int:
        """The number of the step, from 1."""
        return TITLES.index(self.title) + 1

    @property
    def mark(self) -> str:
        """The step's mark: ✓, ✗, or – if there was nothing to compare."""
        return _MARK[self.ok]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self, *, explained: bool = True) -> Iterator[str]:
        """Yield the step as wrapped lines of text.

        If ``explained`` is false, omit the interpretation.
        """
        head = f"  {self.number} {self.title:<12}{self.mark} "
        *before, last = self.parts
        means = [self.means] if explained else []
        for text in (*(f"{part};" for part in before), last, *means):
            yield from _wrapped(text, head)
            head = ""


@dataclass(frozen=True)
class Steps:
    """The five steps for one Function, in order. Iterating yields each :class:`Step`."""

    subject: str
    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        """Whether all steps passed."""
        return self.first_broken is None

    @property
    def first_broken(self) -> Step | None:
        """The first step that failed. It is usually the cause of the later failures."""
        return next((step for step in self.steps if step.ok is False), None)

    @property
    def headline(self) -> str:
        """The outcome in one line."""
        broken = self.first_broken
        if broken is None:
            return f"✓ {self.subject} · no step fails"
        return f"✗ {self.subject} · step {broken.number} fails: {broken.title}"

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __str__(self) -> str:
        broken = self.first_broken
        lines = [self.headline]
        for step in self.steps:
            lines += step.lines(explained=step is broken)
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(text: str, head: str) -> list[str]:
    """Wrap a text after a label so that all lines start in the same column."""
    indent = " " * _INDENT
    lines = wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [head + line[_INDENT:] if head and k == 0 else line for k, line in enumerate(lines)]


# --------------------------------------------------------------------------------------------------
# A call prepared for the steps, with float64 copies, a random cotangent, and both gradients.
# --------------------------------------------------------------------------------------------------

EPS = 1e-5  # error: f'''·eps²/6 from the curvature, 1e-16/eps from rounding; about 1e-11 each


class Call:
    """A call to ``fn`` with copies of its inputs.

    Floating-point copies are in float64, and the differentiated inputs are leaves.

    As in ``diagnose``, the steps differentiate all floating-point tensors. If some of them require
    grad, the steps differentiate only those. The loss is ``L = Σ g·y`` over all floating-point
    outputs, with a random ``g`` that is always the same.
    """

    def __init__(self, fn: Any, inputs: Any) -> None:
        given = as_tuple(inputs)
        subject = subject_of(fn, len(given))
        self.name, self.names = subject.name, subject.parameters
        self.function, self.call = subject.function, subject.call
        asking = [i for i, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad]
        self.wanted = asking or [i for i, value in enumerate(given) if is_real(value)]
        self.args = [_copy(value, i in self.wanted) for i, value in enumerate(given)]

    def outputs(self, args: Sequence[Any] | None = None) -> tuple[Tensor, ...]:
        """Call ``fn`` with copies, because a Function may write to its inputs."""
        passed = [a.clone() if isinstance(a, Tensor) else a for a in args or self.args]
        return tuple(out for out in as_tuple(self.call(*passed)) if isinstance(out, Tensor))

    def cotangents(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Return a random g for each output. If an output cannot have a gradient, its g is zero."""
        rng = torch.Generator().manual_seed(0)
        shapes = [
            (out, torch.randn(out.shape, generator=rng, dtype=torch.float64)) for out in outputs
        ]
        return [g.to(out.device) if is_real(out) else torch.zeros_like(out) for out, g in shapes]

    def loss(self, args: Sequence[Any]) -> float:
        """Compute L without recording a graph."""
        with torch.no_grad():
            outputs = self.outputs(args)
        pairs = zip(outputs, self.cotangents(outputs), strict=True)
        return sum(float((out * g).sum()) for out, g in pairs if is_real(out))

    def gradients(self) -> list[Tensor]:
        """Compute ∂L/∂x for each wanted input with ``backward``. Replace None with zeros."""
        outputs = [out for out in self.outputs() if is_real(out) and out.requires_grad]
        leaves = [self.args[i] for i in self.wanted]
        if not outputs:
            return [torch.zeros_like(leaf) for leaf in leaves]
        found = torch.autograd.grad(outputs, leaves, self.cotangents(outputs), allow_unused=True)
        pairs = zip(found, leaves, strict=True)
        return [torch.zeros_like(leaf) if g is None else g for g, leaf in pairs]

    def spread(self, grads: Sequence[Tensor]) -> list[Tensor | None]:
        """Return a value for each argument: its gradient, or None if no gradient is wanted."""
        found = dict(zip(self.wanted, grads, strict=True))
        return [found.get(i) for i in range(len(self.args))]

    def around(self, position: int, index: int, eps: float) -> tuple[float, float]:
        """Return the values of L after changing one input element by ``+eps`` and by ``-eps``."""
        above, below = (self._moved(position, index, by) for by in (eps, -eps))
        return self.loss(above), self.loss(below)

    def _moved(self, position: int, index: int, eps: float) -> list[Any]:
        args = list(self.args)
        args[position] = args[position].detach().clone(memory_format=torch.contiguous_format)
        args[position].view(-1)[index] += eps
        return args

    def differences(self, eps: float = EPS) -> list[Tensor]:
        """Return ∂L/∂x by central differences, with two calls to ``forward`` for each element."""
        found = [
            (torch.tensor([*self._slopes(i, eps)], dtype=torch.float64), self.args[i])
            for i in self.wanted
        ]
        return [slopes.to(leaf).reshape(leaf.shape) for slopes, leaf in found]

    def _slopes(self, position: int, eps: float) -> Iterator[float]:
        for index in range(self.args[position].numel()):
            above, below = self.around(position, index, eps)
            yield (above - below) / (2 * eps)


def is_real(value: object) -> bool:
    """Return whether a value is a tensor of real numbers."""
    return isinstance(value, Tensor) and value.is_floating_point()


def _copy(value: Any, wanted: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.is_complex():
        raise TypeError(
            "the five steps support only real tensors; diagnose supports complex ones too"
        )
    copy = value.detach().clone()
    return copy.double().requires_grad_(wanted) if value.is_floating_point() else copy


# --------------------------------------------------------------------------------------------------
# Pure functions that turn observations into results.
# --------------------------------------------------------------------------------------------------

RELATIVE = 1e-4  # between a gradient and differences with a step of 1e-5, far above their error
DIFFERENCES = "finite differences"
SAME = 1e-7  # between two ways to compute the same values in float64

REPAIR_FORWARD = (
    "Repair `forward` first: a gradient can be right only for the function that `forward` computes."
)
KEEP_THE_CONTRACT = (
    "Return one value for each argument of `forward`: None, or a tensor of its shape and dtype. "
    "Autograd silently sums or casts some wrong gradients, but other callers "
    "of `backward` get them unchanged."
)
READ_THE_RATIO = (
    "Change the input. If the ratio stays the same, a constant is missing or doubled: 2, N, 1/N, a "
    "scale. If the ratio changes, a term or a whole region is wrong."
)
BY_HAND = (
    "Insert these numbers into your formula, term by term, and find the term that does not fit."
)
READ_THE_ENTRIES = (
    "Compare the two matrices that gradcheck prints, and find where they differ: row j is input "
    "element j, and column i is output element i."
)


def describe_forward(outputs: Sequence[Tensor], right: Sequence[Tensor] | None) -> Step:
    """Compare the outputs of ``forward`` with the reference's outputs (``right``), if given."""
    if right is None:
        return Step("forward", None, ("no reference given, so `forward` is assumed to be correct",))
    if len(outputs) != len(right):
        counts = f"{_counted(len(outputs), 'output')}, but the reference has {len(right)}"
        return Step("forward", False, (counts,), REPAIR_FORWARD)
    for k, (mine, reference) in enumerate(zip(outputs, right, strict=True)):
        name = "output" if len(outputs) == 1 else f"output {k}"
        if differs := _difference(name, mine, reference):
            return Step("forward", False, differs, REPAIR_FORWARD)
    count = sum(out.numel() for out in outputs)
    match = "matches" if count == 1 else "match"
    return Step("forward", True, (f"{_counted(count, 'element')} {match} the reference",))


def _difference(name: str, mine: Tensor, reference: Tensor) -> tuple[str, ...]:
    if mine.shape != reference.shape:
        shapes = f"shape {tuple(mine.shape)}, but the reference has {tuple(reference.shape)}"
        return (f"{name} has {shapes}",)
    size = float(reference.abs().max()) if reference.numel() else 0.0
    close = {"rtol": SAME, "atol": 1e-9 * size if math.isfinite(size) else 0.0, "equal_nan": True}
    off = ~torch.isclose(mine.to(reference.dtype), reference, **close)  # type: ignore[arg-type]
    if not bool(off.any()):
        return ()
    where = off.nonzero()[0].tolist()
    actual, expected = mine[tuple(where)], reference[tuple(where)]
    place = f"{name}{where or ''} is {_number(actual)}, should be {_number(expected)}"
    count = int(off.sum())
    differ = "differs" if count == 1 else "differ"
    return f"{count} of {_counted(off.numel(), 'element')} {differ} from the reference", place


def describe_contract(
    names: Sequence[str],
    inputs: Sequence[object],
    returned: Sequence[object],
    wanted: Sequence[int],
) -> Step:
    """Check the number, shapes and dtypes of the gradients, and whether all of them are finite."""
    count = f"{_counted(len(returned), 'value')} for {_counted(len(inputs), 'argument')}"
    further = [value for value in returned[len(inputs) :] if value is not None]
    if len(returned) < len(inputs) or further:
        return Step("contract", False, (f"`backward` returns {count}",), KEEP_THE_CONTRACT)
    none = [names[i] for i in wanted if returned[i] is None]
    for i in wanted:
        if returned[i] is not None and (amiss := _misfit(names[i], inputs[i], returned[i])):
            return Step("contract", False, (amiss,), KEEP_THE_CONTRACT)
    without = "it" if len(none) == 1 else "them"
    claim = f"which claims that the output does not depend on {without}"
    fits = f"{count}, with matching shapes and dtypes, all finite"
    nones = [f"None for {', '.join(quoted(none))}, {claim}"] if none else []
    return Step("contract", True, (fits, *nones))


def _misfit(name: str, value: object, grad: object) -> str:
    """Describe how a gradient does not match its argument. Return ``""`` if it matches."""
    assert isinstance(value, Tensor)
    if not isinstance(grad, Tensor):
        return f"the gradient of `{name}` is of type {type(grad).__name__}"
    if grad.shape != value.shape:
        return (
            f"the gradient of `{name}` has shape {tuple(grad.shape)}, but `{name}` has shape "
            f"{tuple(value.shape)}"
        )
    if grad.dtype != value.dtype:
        actual, expected = (str(t.dtype).removeprefix("torch.") for t in (grad, value))
        return f"the gradient of `{name}` has dtype {actual}, but `{name}` has dtype {expected}"
    if grad.device != value.device:
        return f"the gradient of `{name}` is on {grad.device}, but `{name}` is on {value.device}"
    lost = int((~torch.isfinite(grad)).sum())
    if not lost:
        return ""
    count = f"{lost} of {_counted(grad.numel(), 'element')}"
    return f"{count} of the gradient of `{name}` {'is' if lost == 1 else 'are'} not finite"


def describe_raised(title: str, stage: str, kind: str, text: str) -> Step:
    """Return a step for a ``stage`` (forward or backward) that raised an exception.

    No later step runs.
    """
    line = next(iter(text.splitlines()), "no message")
    return Step(title, False, (f"`{stage}` raises {kind}: {line}",), stops=True)


def describe_never_called() -> Step:
    """Return a step for a graph that does not contain the Function. No later step runs."""
    return Step(
        "contract",
        False,
        ("no output requires grad, so autograd never calls `backward`",),
        stops=True,
    )


def describe_untaken(title: str, stopped: Step) -> Step:
    """Return a step that did not run because an earlier step stopped the sequence."""
    return Step(title, None, (f"skipped, because step {stopped.number} failed",))


def describe_magnitudes(
    whats: Sequence[str],
    grads: Sequence[Tensor | None],
    truths: Sequence[Tensor],
    truth: str = DIFFERENCES,
) -> Step:
    """Compare the norm of each gradient with the norm of the expected gradient, if it is known.

    ``whats`` describes each gradient, as in "gradient norm of x". ``truth`` names the source of the
    expected gradient.
    """
    told, fine = [], True
    for what, grad, right in zip(whats, grads, truths, strict=True):
        known = ~torch.isnan(right)
        actual = 0.0 if grad is None else float(torch.linalg.vector_norm(grad[known]))
        expected = float(torch.linalg.vector_norm(right[known]))
        same = _agree(actual, expected)
        fine, how = fine and same, f"backward {_number(actual)}, {truth} {_number(expected)}"
        ratio = f", ratio {actual / expected:.4g}" if expected else ""
        told.append(f"{what}: {how}{ratio}")
    return Step("magnitudes", fine, tuple(told), "" if fine else READ_THE_RATIO)


def describe_element(
    place: str, at: float, quotient: float, actual: float, how: str = "", truth: str = DIFFERENCES
) -> Step:
    """Show the difference quotient and the gradient from ``backward`` for one element.

    ``how`` is the formula for the quotient, or ``""`` if the quotient was computed earlier.
    """
    fine = _agree(actual, quotient)
    slope = f"{how} = {_number(quotient)}" if how else f"{truth} {_number(quotient)}"
    seen = f"{place} = {_number(at)}: {slope}, backward {_number(actual)}"
    return Step("one element", fine, (seen,), "" if fine else BY_HAND)


def furthest(grads: Sequence[Tensor | None], truths: Sequence[Tensor]) -> tuple[int, int]:
    """Return the tensor and flat index at which the gradient differs most from the expected one.

    If the two agree, return the position of the largest gradient so that the choice does not
    depend on rounding. Raises ``ValueError`` if no expected value is known.
    """
    worst, largest = (0.0, (-1, -1)), (-1.0, (-1, -1))
    for slot, (grad, right) in enumerate(zip(grads, truths, strict=True)):
        known = ~torch.isnan(right.reshape(-1))
        if not bool(known.any()):
            continue
        actual = (torch.zeros_like(right) if grad is None else grad).reshape(-1)
        off = (actual - right.reshape(-1)).abs().nan_to_num(math.inf)
        off[~known | _agreeing(actual, right.reshape(-1))] = 0.0
        size = right.reshape(-1).abs().masked_fill(~known, -1.0)
        worst = max(worst, _top(off, slot), key=lambda seen: seen[0])
        largest = max(largest, _top(size, slot), key=lambda seen: seen[0])
    if largest[0] < 0:
        raise ValueError("no element's derivative is known")
    return worst[1] if worst[0] else largest[1]


def _top(values: Tensor, slot: int) -> tuple[float, tuple[int, int]]:
    """Return the largest value and the first position at which it occurs."""
    at = int(values.argmax())
    return float(values[at]), (slot, at)


def describe_gradcheck(message: str) -> Step:
    """Show the result of ``gradcheck``. ``message`` is the first line of its error, or empty."""
    if not message:
        return Step("gradcheck", True, ("passes",))
    return Step("gradcheck", False, (message.rstrip(",:. "),), READ_THE_ENTRIES)


def _agree(one: complex, other: complex) -> bool:
    return bool(_agreeing(*(torch.tensor(v, dtype=torch.complex128) for v in (one, other))))


def _agreeing(ones: Tensor, others: Tensor) -> Tensor:
    """For each pair, return whether both are finite and agree up to the error of a 1e-5 step."""
    near = (ones - others).abs() <= RELATIVE * torch.maximum(ones.abs(), others.abs()) + 1e-7
    return near & torch.isfinite(ones) & torch.isfinite(others)


def _number(value: object) -> str:
    number = value.item() if isinstance(value, Tensor) else value
    return f"{number + 0.0:.4g}" if isinstance(number, float | complex) else f"{number}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


# --------------------------------------------------------------------------------------------------
# The five steps. Each step answers one question on float64 copies.
# --------------------------------------------------------------------------------------------------


def compare_forward(fn: Any, inputs: Any, reference: Callable[..., Any] | None = None) -> Step:
    """Step 1: do the outputs agree with the reference?

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.
        reference: A callable with the same arguments that returns the correct values.

    Returns:
        The result of the step, which prints as one or two lines.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import compare_forward
        >>> compare_forward(torch.exp, torch.ones(3), torch.exp).ok
        True
    """
    call = Call(fn, inputs)
    with torch.no_grad():
        outputs = call.outputs()
        right = Call(reference, inputs).outputs() if reference else None
    return describe_forward(outputs, right)


def run_backward(fn: Any, inputs: Any) -> Step:
    """Step 2: does ``backward`` run, and does its result satisfy the contract?

    The step calls a Function's ``backward`` directly on the graph node, before the engine sums,
    casts or fills in anything. For any other callable, only the engine's result is visible.

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.

    Returns:
        The result of the step, which prints as one or two lines.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import run_backward
        >>> run_backward(torch.exp, torch.ones(3)).ok
        True
    """
    call = Call(fn, inputs)
    outputs = call.outputs()
    node: Any = next((out.grad_fn for out in outputs if out.grad_fn is not None), None)
    if node is None:
        return describe_never_called()
    if call.function is None or not hasattr(node, "saved_tensors"):
        returned = call.spread(call.gradients())
    else:
        with torch.no_grad():
            grads = node.apply(*call.cotangents(outputs))
        returned = list(grads) if isinstance(grads, tuple) else [grads]
    return describe_contract(call.names, call.args, returned, call.wanted)


def compare_magnitudes(fn: Any, inputs: Any, eps: float = EPS) -> Step:
    """Step 3: does each gradient have the same norm as its central differences?

    The step compares the gradient of ``L = Σ g·y``, where ``g`` is random. This takes 2n calls to
    ``forward`` for n elements.

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.
        eps: The step size of the finite differences.

    Returns:
        The result of the step, which prints as one or two lines.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import compare_magnitudes
        >>> compare_magnitudes(torch.exp, torch.ones(3)).ok
        True
    """
    call = Call(fn, inputs)
    whats = [f"gradient norm of {call.names[i]}" for i in call.wanted]
    return describe_magnitudes(whats, call.gradients(), call.differences(eps))


def check_element(
    fn: Any, inputs: Any, place: tuple[int, int] | None = None, eps: float = EPS
) -> Step:
    """Step 4: show all numbers for one element.

    The step shows ``L = Σ g·y`` with a random ``g`` at ``x + eps`` and ``x − eps``, their
    difference quotient, and the gradient from ``backward``.

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.
        place: The element, as ``(argument, flat index)``. The default is the element with the
            largest difference between the two numbers. If they agree everywhere, it is the element
            with the largest gradient.
        eps: The step size of the finite differences.

    Returns:
        The result of the step, which prints as one or two lines.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import check_element
        >>> check_element(torch.exp, torch.ones(3), (0, 1)).ok
        True
    """
    call = Call(fn, inputs)
    grads = call.gradients()
    slot, index = place or furthest(grads, call.differences(eps))
    argument = slot if place else call.wanted[slot]
    above, below = call.around(argument, index, eps)
    quotient = (above - below) / (2 * eps)
    value = call.args[argument].detach()
    where = [int(k) for k in torch.unravel_index(torch.tensor(index), value.shape)]
    how = f"({above:.9g} − {below:.9g}) / {2 * eps:.0e}".replace("e-0", "e-")
    actual = float(grads[call.wanted.index(argument)].reshape(-1)[index])
    name = f"{call.names[argument]}{where or ''}"
    return describe_element(name, float(value.reshape(-1)[index]), quotient, actual, how)


def run_gradcheck(fn: Any, inputs: Any) -> Step:
    """Step 5: does :func:`torch.autograd.gradcheck` pass with its default tolerances?

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.

    Returns:
        The result of the step, which prints as one or two lines.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import run_gradcheck
        >>> run_gradcheck(torch.exp, torch.ones(3)).ok
        True
    """
    call = Call(fn, inputs)
    try:
        gradcheck(lambda *args: call.outputs(args), call.args)
    except RuntimeError as error:
        return describe_gradcheck(str(error).splitlines()[0])
    return describe_gradcheck("")


def five_steps(fn: Any, inputs: Any, reference: Callable[..., Any] | None = None) -> Steps:
    """Run all five steps in order. Printing the result explains only the first step that fails.

    If a step raises an error, it fails, and later steps that would raise the same error do not run.

    Args:
        fn: A ``torch.autograd.Function``, or a callable built on such Functions.
        inputs: The arguments of one call.
        reference: A callable with the same arguments that returns the correct values.

    Returns:
        The five steps, which print as a table.

    Raises:
        TypeError: An input is complex.

    Example:
        >>> import torch
        >>> from autograd_doctor.steps import five_steps
        >>> [step.mark for step in five_steps(torch.exp, torch.ones(3)).steps]
        ['–', '✓', '✓', '✓', '✓']
    """
    taken = [
        lambda: compare_forward(fn, inputs, reference),
        lambda: run_backward(fn, inputs),
        lambda: compare_magnitudes(fn, inputs),
        lambda: check_element(fn, inputs),
        lambda: run_gradcheck(fn, inputs),
    ]
    steps: list[Step] = []
    for title, take in zip(TITLES, taken, strict=True):
        stopped = next((step for step in steps if step.stops), None)
        steps.append(describe_untaken(title, stopped) if stopped else _attempt(title, take))
    return Steps(Call(fn, inputs).name, tuple(steps))


def _attempt(title: str, take: Callable[[], Step]) -> Step:
    try:
        return take()
    except Exception as error:  # any error in the user's code is part of the result
        stage = "forward" if title == "forward" else "backward"
        return describe_raised(title, stage, type(error).__name__, said(error))
