"""Rules of the contract: the dtype and the device of what backward returns."""

from __future__ import annotations

from autograd_course.doctor.evidence import Evidence, Variant
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import (
    raised,
)

# An operation of PyTorch has no kernel for the dtype.
UNSUPPORTED = (
    "not implemented for",
    "Low precision dtypes not supported",
    "Unsupported dtype",
    "is only supported for",
    "Expected both inputs to be Half, Float or Double",  # torch.complex
)


@rule(
    "gradient-dtype",
    "contract",
    "warning",
    "a gradient does not have the dtype of its input",
    hint="Create new tensors with the dtype of existing ones (`torch.zeros_like(x)`, "
    "`x.new_zeros(shape)`, `dtype=grad_output.dtype`), and convert masks with "
    "`.to(grad_output.dtype)`, not with `.float()`.",
    lesson="03_gradient_patterns",
)
def gradient_dtype(evidence: Evidence) -> Seen | None:
    if refused := _complex_for_a_real(evidence):
        return refused
    dtypes = [v for v in evidence.variants if v.name != "meta"]
    crashed = [v for v in dtypes if v.failure and not _unsupported(v.failure.text)]
    if crashed and len(crashed) < len(dtypes):
        failure = crashed[0].failure
        assert failure is not None
        runs = " and ".join(v.name for v in dtypes if not v.failure)
        return Seen(
            f"`backward` runs in {runs} but raises {failure.kind} in {crashed[0].name}: "
            f"{failure.text}",
            raised(failure),
            "warning" if failure.runs_in_own_dtype else "error",
            hint=_NUMPY if "unsupported ScalarType" in failure.text else "",
        )
    for variant in dtypes:
        for position, want, got in _unlike(evidence, variant):
            name = evidence.name(position)
            return Seen(
                f"for {want} inputs, `backward` returns a {got} gradient for `{name}`, which "
                "autograd silently converts.",
                {"input": name, "expected": want, "actual": got},
            )
    return None


_NUMPY = (
    "Write the formula in PyTorch operations: NumPy does not support bfloat16, and it records no "
    "graph. If you must use NumPy, call `.float()` first."
)


def _unsupported(text: str) -> bool:
    return any(words in text for words in UNSUPPORTED)


def _complex_for_a_real(evidence: Evidence) -> Seen | None:
    """Say which real input got a complex gradient, which autograd rejects without naming it."""
    grads = evidence.raw.grads if evidence.raw else ()
    for position in evidence.wanted:
        grad = grads[position] if position < len(grads) else None
        if grad is not None and grad.is_complex() and not evidence.inputs[position].is_complex():
            name = evidence.name(position)
            return Seen(
                f"`backward` returns a complex gradient for `{name}`, which is real. Autograd "
                "rejects it with an error that does not name the cause.",
                {"input": name, "expected": "real", "actual": "complex"},
                "error",
                "Return the real part: a real input cannot move in the imaginary direction.",
            )
    return None


def _unlike(evidence: Evidence, variant: Variant) -> list[tuple[int, str, str]]:
    grads = evidence.raw.grads if evidence.raw else ()  # from elsewhere it may be missing
    kept = [i for i in evidence.wanted if i < len(grads) and grads[i] is not None]
    rows = zip(kept, variant.wanted, variant.got, strict=False)
    return [(i, want, got) for i, want, got in rows if got is not None and got != want]


@rule(
    "gradient-device",
    "contract",
    "error",
    "backward creates tensors on a fixed device",
    hint="Create new tensors on the device of existing ones: `torch.zeros_like(x)`, "
    "`x.new_zeros(shape)`, `device=grad_output.device`.",
    lesson="03_gradient_patterns",
    after=("gradient-shape", "wrong-arity", "gradient-dtype"),
)
def gradient_device(evidence: Evidence) -> Seen | None:
    for variant in evidence.variants:
        if variant.name != "meta":
            continue
        if variant.failure and "device" in variant.failure.text.lower():
            return Seen(
                "`backward` mixes devices when its inputs are not on the CPU. It raises "
                f"{variant.failure.kind}: {variant.failure.text}",
                raised(variant.failure),
            )
        for position, _, got in _unlike(evidence, variant):
            name = evidence.name(position)
            return Seen(
                f"`backward` returns the gradient of `{name}` on the device {got}, whatever the "
                f"device of `{name}` is.",
                {"input": name, "actual": got},
            )
    return None
