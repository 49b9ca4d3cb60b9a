"""From what a step saw to its answer: pure functions of numbers, the same for all who saw them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from autograd_course.doctor.steps.step import Step
from autograd_course.doctor.words import quoted

RELATIVE = 1e-4  # between a gradient and differences with a step of 1e-5: far above their error
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


def told_forward(outputs: Sequence[Tensor], right: Sequence[Tensor] | None) -> Step:
    """Say whether forward's outputs are the reference's; ``right`` is ``None`` without one."""
    if right is None:
        return Step("forward", None, "no reference given, so `forward` is assumed to be correct")
    if len(outputs) != len(right):
        counts = f"{_counted(len(outputs), 'output')}, but the reference has {len(right)}"
        return Step("forward", False, counts, REPAIR_FORWARD)
    for k, (mine, reference) in enumerate(zip(outputs, right, strict=True)):
        name = "output" if len(outputs) == 1 else f"output {k}"
        if differs := _difference(name, mine, reference):
            return Step("forward", False, differs, REPAIR_FORWARD)
    count = sum(out.numel() for out in outputs)
    match = "matches" if count == 1 else "match"
    return Step("forward", True, f"{_counted(count, 'element')} {match} the reference")


def _difference(name: str, mine: Tensor, reference: Tensor) -> str:
    if mine.shape != reference.shape:
        return (
            f"{name} has shape {tuple(mine.shape)}, but the reference has {tuple(reference.shape)}"
        )
    size = float(reference.abs().max()) if reference.numel() else 0.0
    close = {"rtol": SAME, "atol": 1e-9 * size if math.isfinite(size) else 0.0, "equal_nan": True}
    off = ~torch.isclose(mine.to(reference.dtype), reference, **close)  # type: ignore[arg-type]
    if not bool(off.any()):
        return ""
    where = off.nonzero()[0].tolist()
    came, should = mine[tuple(where)], reference[tuple(where)]
    place = f"{name}{where or ''} is {_number(came)}, should be {_number(should)}"
    count = int(off.sum())
    differ = "differs" if count == 1 else "differ"
    return f"{count} of {_counted(off.numel(), 'element')} {differ} from the reference; {place}"


def told_contract(
    names: Sequence[str],
    inputs: Sequence[object],
    returned: Sequence[object],
    wanted: Sequence[int],
) -> Step:
    """Say whether what backward returned fits the arguments: count, shapes, dtypes, finite."""
    count = f"{_counted(len(returned), 'value')} for {_counted(len(inputs), 'argument')}"
    further = [value for value in returned[len(inputs) :] if value is not None]
    if len(returned) < len(inputs) or further:
        return Step("contract", False, f"`backward` returns {count}", KEEP_THE_CONTRACT)
    none = [names[i] for i in wanted if returned[i] is None]
    for i in wanted:
        if returned[i] is not None and (amiss := _misfit(names[i], inputs[i], returned[i])):
            return Step("contract", False, amiss, KEEP_THE_CONTRACT)
    without = "it" if len(none) == 1 else "them"
    claim = f"which claims that the output does not depend on {without}"
    rest = f"; None for {', '.join(quoted(none))}, {claim}" if none else ""
    return Step("contract", True, f"{count}, with matching shapes and dtypes, all finite{rest}")


def _misfit(name: str, value: object, grad: object) -> str:
    """Say in what a gradient does not fit its argument, ``""`` where it does."""
    assert isinstance(value, Tensor)
    if not isinstance(grad, Tensor):
        return f"the gradient of `{name}` is of type {type(grad).__name__}"
    if grad.shape != value.shape:
        return (
            f"the gradient of `{name}` has shape {tuple(grad.shape)}, but `{name}` has shape "
            f"{tuple(value.shape)}"
        )
    if grad.dtype != value.dtype:
        came, should = (str(t.dtype).removeprefix("torch.") for t in (grad, value))
        return f"the gradient of `{name}` has dtype {came}, but `{name}` has dtype {should}"
    if grad.device != value.device:
        return f"the gradient of `{name}` is on {grad.device}, but `{name}` is on {value.device}"
    lost = int((~torch.isfinite(grad)).sum())
    if not lost:
        return ""
    count = f"{lost} of {_counted(grad.numel(), 'element')}"
    return f"{count} of the gradient of `{name}` {'is' if lost == 1 else 'are'} not finite"


def told_raised(title: str, stage: str, kind: str, text: str) -> Step:
    """Say that ``stage``, forward or backward, raised an exception; nothing further is taken."""
    line = next(iter(text.splitlines()), "no message")
    return Step(title, False, f"`{stage}` raises {kind}: {line}", stops=True)


def told_never_called() -> Step:
    """Say that the graph does not hold the Function; nothing further is taken."""
    return Step(
        "contract", False, "no output requires grad, so autograd never calls `backward`", stops=True
    )


def told_untaken(title: str, stopped: Step) -> Step:
    """Say that a step was not taken, because an earlier one stopped the walk."""
    return Step(title, None, f"skipped, because step {stopped.number} failed")


def told_magnitudes(
    whats: Sequence[str],
    grads: Sequence[Tensor | None],
    truths: Sequence[Tensor],
    truth: str = DIFFERENCES,
) -> Step:
    """Compare the norm of each gradient with the norm of the true one, where that is known.

    ``whats`` says what each is, as in "gradient norm of x"; ``truth`` says where the true
    one comes from.
    """
    told, fine = [], True
    for what, grad, right in zip(whats, grads, truths, strict=True):
        known = ~torch.isnan(right)
        came = 0.0 if grad is None else float(torch.linalg.vector_norm(grad[known]))
        should = float(torch.linalg.vector_norm(right[known]))
        same = _agree(came, should)
        fine, how = fine and same, f"backward {_number(came)}, {truth} {_number(should)}"
        ratio = f", ratio {came / should:.4g}" if should else ""
        told.append(f"{what}: {how}{ratio}")
    return Step("magnitudes", fine, "; ".join(told), "" if fine else READ_THE_RATIO)


def told_element(
    place: str, at: float, quotient: float, came: float, how: str = "", truth: str = DIFFERENCES
) -> Step:
    """Say what one element's difference quotient is, and what backward has there.

    ``how`` is the computation that led to the quotient, where it was made here and now.
    """
    fine = _agree(came, quotient)
    slope = f"{how} = {_number(quotient)}" if how else f"{truth} {_number(quotient)}"
    seen = f"{place} = {_number(at)}: {slope}, backward {_number(came)}"
    return Step("one element", fine, seen, "" if fine else BY_HAND)


def furthest(grads: Sequence[Tensor | None], truths: Sequence[Tensor]) -> tuple[int, int]:
    """Return the tensor and the flat index at which gradient and truth differ most.

    Where they agree, which rounding must not decide, the largest gradient stands for all. Raises
    ``ValueError`` if no element's truth is known.
    """
    worst, largest = (0.0, (-1, -1)), (-1.0, (-1, -1))
    for slot, (grad, right) in enumerate(zip(grads, truths, strict=True)):
        known = ~torch.isnan(right.reshape(-1))
        if not bool(known.any()):
            continue
        came = (torch.zeros_like(right) if grad is None else grad).reshape(-1)
        off = (came - right.reshape(-1)).abs().nan_to_num(math.inf)
        off[~known | _agreeing(came, right.reshape(-1))] = 0.0
        size = right.reshape(-1).abs().masked_fill(~known, -1.0)
        worst = max(worst, _top(off, slot), key=lambda seen: seen[0])
        largest = max(largest, _top(size, slot), key=lambda seen: seen[0])
    if largest[0] < 0:
        raise ValueError("no element's derivative is known")
    return worst[1] if worst[0] else largest[1]


def _top(values: Tensor, slot: int) -> tuple[float, tuple[int, int]]:
    """Return the largest value and where it is first met."""
    at = int(values.argmax())
    return float(values[at]), (slot, at)


def told_gradcheck(message: str) -> Step:
    """Say what gradcheck says: ``message`` is the first line of its error, or empty."""
    if not message:
        return Step("gradcheck", True, "passes")
    return Step("gradcheck", False, message.rstrip(",:. "), READ_THE_ENTRIES)


def _agree(one: complex, other: complex) -> bool:
    return bool(_agreeing(*(torch.tensor(v, dtype=torch.complex128) for v in (one, other))))


def _agreeing(ones: Tensor, others: Tensor) -> Tensor:
    """Tell for each pair whether they are finite and the same for differences by steps of 1e-5."""
    near = (ones - others).abs() <= RELATIVE * torch.maximum(ones.abs(), others.abs()) + 1e-7
    return near & torch.isfinite(ones) & torch.isfinite(others)


def _number(value: object) -> str:
    number = value.item() if isinstance(value, Tensor) else value
    return f"{number + 0.0:.4g}" if isinstance(number, float | complex) else f"{number}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
