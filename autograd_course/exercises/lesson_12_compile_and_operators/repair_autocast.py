"""Repair: a loss under autocast

1. Which operation of forward computes in bfloat16 under autocast, even though its inputs are
   float32? How large are the scores, and how far apart are neighboring numbers of that size in
   bfloat16?
2. Both methods should compute in float32, with autocast off. torch.amp has one decorator for each
   of them. One of the decorators takes the dtype to which it casts the inputs of forward.
3. Put @custom_fwd(device_type="cpu", cast_inputs=torch.float32) on forward and
   @custom_bwd(device_type="cpu") on backward, each below @staticmethod.
"""

from collections.abc import Iterator
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.amp import custom_bwd
from torch.autograd import Function
from torch.utils._python_dispatch import TorchDispatchMode

from autograd_course.calls import is_float
from autograd_course.execution import Computed, told
from autograd_course.grader.checks import on
from autograd_course.grader.checks.calling import applied, farthest, found, node
from autograd_course.grader.exercise import Check, FunctionExercise
from autograd_course.grader.sampling import normal


def contrast(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    """Return each query's cross entropy against all keys. The target is the query's own key."""
    scores = q @ k.t() / temperature
    return torch.logsumexp(scores, 1) - scores.diagonal()


def pairs(rng: torch.Generator, n: int, d: int, temperature: float) -> tuple[Tensor, Tensor, float]:
    """Return queries, keys that are similar to the queries, and a temperature."""
    q = normal(rng, n, d)
    return q, q + 0.5 * normal(rng, n, d), temperature


def sharp(rng: torch.Generator, n: int = 12, d: int = 8) -> tuple[Tensor, Tensor, float]:
    """Return float32 queries and keys with norm 1, and a low temperature."""
    normalize = torch.nn.functional.normalize
    q = normalize(normal(rng, n, d))
    return q.float(), normalize(q + normal(rng, n, d)).float(), 0.02


Tensors = tuple[Tensor, ...]
Way = tuple[str, tuple[Any, ...], bool, float]


def same_under_autocast(close: float = 2e-3) -> Check:
    """Return a check that autocast to bfloat16 loses no precision.

    The inputs are float32 tensors. The check compares the outputs and the gradients of their sum
    with those of a run without autocast. It repeats the comparison with backward inside the
    autocast block. It also tests bfloat16 inputs, because an earlier layer can return bfloat16
    under autocast.
    """

    def check(function: type[Function], values: tuple[Any, ...]) -> Finding | Computed:
        inputs = tuple(v.bfloat16().float() if is_float(v) else v for v in values)
        try:
            right = _run(function, inputs, block=False)
        except Exception as error:
            return _clash(f"without autocast, with float32 inputs, {told(error, function)}")
        for how, given, inside, share in _ways(inputs, close):
            try:
                came = _run(function, given, block=True, inside=inside)
            except Exception as error:
                return _clash(
                    f"under autocast, {how}, {told(error, function)}", _saved(function, given)
                )
            for name, one, other in zip(_names(right), came, right, strict=True):
                if float((one - other).abs().max()) > share * float(other.abs().max()):
                    return _imprecise(how, name, one, other, _cause(function, given, inside))
        output, *gradients = right
        return Computed(inputs, (output,), (torch.ones_like(output),), (*gradients, None))

    return check


def _ways(inputs: tuple[Any, ...], close: float) -> Iterator[Way]:
    """Yield each run's name and inputs, whether backward is in the block, and the tolerance."""
    low = tuple(v.bfloat16() if is_float(v) else v for v in inputs)
    yield "with float32 inputs", inputs, False, close
    yield "with backward inside the block", inputs, True, close
    yield "with bfloat16 inputs", low, False, 4 * close  # their gradients are rounded to bfloat16


def _run(
    function: type[Function], inputs: tuple[Any, ...], block: bool, inside: bool = False
) -> Tensors:
    """Return the outputs and the gradients, converted to float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=block):
        given, outputs = applied(function, inputs)
        total = torch.stack([output.float().sum() for output in outputs]).sum()
        leaves = [tensor for tensor in given if tensor.requires_grad]
        grads = torch.autograd.grad(total, leaves) if inside else ()
    grads = grads or torch.autograd.grad(total, leaves)
    return tuple(tensor.detach().float() for tensor in (*outputs, *grads))


def _names(results: Tensors) -> list[str]:
    return ["the output", *(f"gradient {i}" for i in range(len(results) - 1))]


def _clash(message: str, cause: str = "") -> Finding:
    return found(
        "autocast",
        message,
        {},
        cause
        or "The saved tensors and `grad_output` have different dtypes. Which dtype does each "
        "tensor have in `backward`, and what casts it?",
    )


def _imprecise(how: str, name: str, came: Tensor, right: Tensor, cause: str) -> Finding:
    one, other = farthest(came, right)
    return found(
        "autocast",
        f"under autocast to bfloat16, {how}, {name} loses precision: it is {one:.4g}, but "
        f"{other:.4g} without autocast.",
        {"actual": one, "expected": other},
        cause
        or "Inside the block, every matrix product runs in bfloat16, whatever the dtype of its "
        "factors. Both methods must fix the dtype that they run in.",
    )


LOW = (torch.bfloat16, torch.float16)
SAVES_LOW = (
    "forward computes in float32, but it saves bfloat16 tensors. Save the tensors that forward "
    "uses, after the cast."
)


class _Products(TorchDispatchMode):
    """A dispatch mode that records the dtype of each matrix product."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(
        self, operation: Any, types: Any, given: Any = (), options: Any = None
    ) -> Any:
        if operation in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            self.dtypes.append(given[-1].dtype)
        return operation(*given, **(options or {}))


def _cause(function: type[Function], inputs: tuple[Any, ...], inside: bool) -> str:
    """Say which method computes in low precision, and why."""
    with _Products() as forward, torch.autocast("cpu", dtype=torch.bfloat16):
        _, outputs = applied(function, inputs)
    ran = node(outputs)
    if any(dtype in LOW for dtype in forward.dtypes):
        return _cause_in_forward(ran, forward.dtypes, inputs)
    saved = [each.dtype for each in ran.saved_tensors]  # backward frees them
    with (
        _Products() as backward,
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside),
    ):
        outputs[0].backward(torch.ones_like(outputs[0]))
    if not any(dtype in LOW for dtype in backward.dtypes):
        return ""
    if any(dtype in LOW for dtype in saved):
        return SAVES_LOW
    if not inside:
        return ""
    if function.backward.__code__.co_filename == custom_bwd.__code__.co_filename:
        return (
            "forward is right. backward still runs with autocast, although custom_bwd decorates "
            "it: the device_type must be the device of the block, cpu."
        )
    return (
        "forward is right. backward runs inside the block too, so its matrix products are in "
        "bfloat16. Turn autocast off in backward too."
    )


def _saved(function: type[Function], inputs: tuple[Any, ...]) -> str:
    """Return a sentence if forward computes in float32 but saves tensors of low precision."""
    with _Products() as forward, torch.autocast("cpu", dtype=torch.bfloat16):
        _, outputs = applied(function, inputs)
    saved = [each.dtype for each in node(outputs).saved_tensors]
    computes_low = any(dtype in LOW for dtype in forward.dtypes)
    return SAVES_LOW if not computes_low and any(dtype in LOW for dtype in saved) else ""


def _cause_in_forward(ran: Any, dtypes: list[torch.dtype], inputs: tuple[Any, ...]) -> str:
    dtype = next(each for each in dtypes if each in LOW)
    decorated = hasattr(ran, "_fwd_used_autocast")
    if any(is_float(each) and each.dtype in LOW for each in inputs):
        return (
            f"With {dtype} inputs, forward computes in {dtype}. To turn autocast off is not enough "
            "for them. Cast them to float32 while autocast is on."
        )
    if decorated and ran._fwd_used_autocast:
        return (
            "custom_fwd alone leaves autocast on in forward, so that backward does the same. Its "
            "argument cast_inputs turns autocast off and casts the inputs."
        )
    if decorated and any(each.dtype == dtype for each in ran.saved_tensors):
        return f"forward casts its inputs to {dtype}, which rounds the scores. It needs float32."
    if decorated:
        return (
            "custom_fwd does not turn autocast off in forward: the device_type must be the device "
            "of the block, cpu."
        )
    return (
        f"The matrix product in forward runs in {dtype}. Inside the block, this happens whatever "
        "the dtype of its factors. Turn autocast off in both methods."
    )


def _in_float32(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    return contrast(q.float(), k.float(), temperature)


def _result_in_float32(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    return contrast(q, k, temperature).float()


EXERCISE = FunctionExercise(
    answer="Contrast",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Autocast",
    constraints="it loses no precision under autocast",
    reference=contrast,
    samplers={
        "5 pairs of 3 numbers, in float64, without autocast": lambda rng: pairs(rng, 5, 3, 0.5),
        "a single pair": lambda rng: pairs(rng, 1, 4, 1.0),
        "3 pairs, a low temperature": lambda rng: pairs(rng, 3, 4, 0.2),
    },
    suspects={
        "forward converts to float32 although autocast is off. Convert only where autocast is on, "
        "so that float64 stays float64.": _in_float32,
        "The result is converted to float32 although autocast is off. The products before lose the "
        "precision under autocast, so a cast at the end is too late.": _result_in_float32,
    },
    accepted=("gradient-dtype", "precision"),  # the exercise requires float32 for bfloat16 inputs
    checks=(on(sharp, same_under_autocast()),),
)
