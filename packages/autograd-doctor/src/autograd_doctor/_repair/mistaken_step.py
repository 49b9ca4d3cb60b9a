"""Find the step in ``forward`` that ``backward`` differentiates incorrectly.

``forward`` runs once with autograd, which records its steps and can differentiate them. Then the
search makes a typical mistake in the derivative of one step at a time. For example, the derivative
is 0, as if an operand were a constant, or 1, as if the step did not exist. If the result equals
the author's wrong gradient, the mistake is in this step. The search does not need the source of
``backward``.

A mistake must explain the gradient on the example and on other inputs. If ``forward`` cannot run
with autograd, or if autograd does not return the expected gradient, the search finds nothing.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import USERS
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.passes import gradients, sample_cotangents
from autograd_doctor._execution.session import Session, Subject
from autograd_doctor._numerics.closeness import size
from autograd_doctor._repair.recorded_forward import Code, Grads, Record, RecordedForward, shortened
from autograd_doctor._repair.runner import is_right
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import RANDOM, Evidence, Expected, VjpResult
from autograd_doctor.finding import Clue, Finding
from autograd_doctor.formatting import listed

SAMPLES = 2  # sets of inputs on which a mistake must explain the gradient
MOST_MISTAKES = 400
MOST_LINES = 2  # if more lines explain the gradient, the mistake could be in any of them
FEWEST = 4  # elements of a gradient that is compared up to a factor
CLOSE = 1e-7  # maximum relative difference of gradients that count as equal


@dataclass(frozen=True)
class Key:
    """The file, the line and the description of a mistake.

    If ``scaled`` is true, the gradient is also wrong by a constant factor.
    """

    file: str
    line: int
    what: str
    scaled: bool = False


@dataclass(frozen=True)
class Mistake:
    """A typical mistake in the derivative of a step.

    ``what`` completes a sentence that starts with "backward". ``grads`` takes the correct gradients
    of the operands and the gradient of the result. It returns the gradients with the mistake.
    """

    node: Any
    what: str
    grads: Callable[[Grads, Tensor], Grads]

    def hook(self, grad_inputs: Grads, grad_outputs: Grads) -> Grads | None:
        """Return the gradients with the mistake. Autograd calls this hook on a graph node."""
        (sent, *_) = grad_outputs
        return None if sent is None else self.grads(grad_inputs, sent)


def _mistakes(recorded: RecordedForward) -> Mapping[Key, Sequence[Mistake]]:
    """Return typical mistakes for all steps, from the outputs to the inputs.

    A step in a loop runs several times and has the same mistake each time.
    """
    found: dict[Key, list[Mistake]] = {}
    for node, code in recorded.steps():
        for mistake in mistakes_in(node, code):
            found.setdefault(Key(code.file, code.line, mistake.what), []).append(mistake)
    return {} if len(found) > MOST_MISTAKES else {**found, **_in_two_gates(found)}


def _in_two_gates(found: Mapping[Key, Sequence[Mistake]]) -> Mapping[Key, Sequence[Mistake]]:
    """Return mistakes in which ``backward`` ignores two clamps, such as one of x and one of y."""
    gates = [key for key in found if key.what.startswith(AS_IF_NOTHING)]
    pairs = combinations(gates, 2) if len(gates) <= MOST_GATES else ()
    return {
        replace(one, what=f"{one.what} and {other.what.removeprefix(AS_IF_NOTHING)}"): [
            *found[one],
            *found[other],
        ]
        for one, other in pairs
    }


# --------------------------------------------------------------------------------------------------
# Typical mistakes in the derivative of one step.
# --------------------------------------------------------------------------------------------------

AS_IF_NOTHING = "passes on the whole gradient, as if nothing happened in "
MOST_GATES = 6
# Operations that either pass a gradient through or block it.
GATES = ("clamp", "relu", "hardtanh", "threshold", "round", "floor", "ceil", "where", "maskedfill")
OF_VARIANCE = ("var", "std", "varmean", "stdmean")
FALLING = ("cos", "acos", "neg", "reciprocal", "rsub", "erfc")  # the derivative has a minus sign


def mistakes_in(node: Any, code: Code) -> Iterator[Mistake]:
    """Yield typical mistakes in the derivative of a step, most specific first."""
    name = node.name().rstrip("0123456789").removesuffix("Backward").lower()
    step = f"`{shortened(code.text)}`"
    operands = [k for k, (parent, _) in enumerate(node.next_functions) if parent is not None]
    for k in operands:
        for what, grad in _typical(node, name, k, code):
            yield Mistake(node, f"{what} {step}", _with(k, grad))
    if name in ("minimum", "maximum") and operands == [0, 1]:
        which = "smaller" if name == "minimum" else "larger"
        for k in operands:
            if operand := code.operand(k):
                what = (
                    f"follows only `{shortened(operand)}`, as if it were always the {which} one, in"
                )
                yield Mistake(node, f"{what} {step}", _only(k))
    if operands == [0]:
        yield Mistake(node, f"takes 1 as the derivative of {step}", _with(0, _unchanged))
        yield Mistake(node, f"takes -1 as the derivative of {step}", _with(0, _minus))
        yield Mistake(node, f"treats {step} as a constant", _with(0, _nothing))
        return
    for k in operands:
        if operand := code.operand(k):
            part = f"`{shortened(operand)}` in {step}"
            yield Mistake(node, f"treats {part} as a constant", _with(k, _nothing))
            yield Mistake(node, f"has the wrong sign for {part}", _with(k, _opposite))


Grad = Callable[[Tensor, Tensor], Tensor]
"""A function of an operand's correct gradient and the gradient of the result.

It returns a wrong gradient for the operand.
"""


def _typical(node: Any, name: str, k: int, code: Code) -> Iterator[tuple[str, Grad]]:
    """Yield typical mistakes in the derivative of an operation with respect to operand ``k``.

    Each mistake comes with a function that reproduces it.
    """
    other = code.operand(1 - k) if isinstance(code.tree, ast.BinOp) else ""
    if name == "mul" and other and other != code.operand(k):
        yield f"leaves out the factor `{shortened(other)}` of", _plain
    elif name == "div" and other and k == 0:
        yield f"leaves out the division by `{shortened(other)}` in", _plain
    elif name == "div" and other:
        yield (
            "forgets to square the denominator in the derivative of",
            lambda g, sent: _plain(g, -sent * node._saved_self / node._saved_other),
        )
    elif name.startswith(GATES):
        yield AS_IF_NOTHING.rstrip(), _plain
    elif name in ("mean", "var", "std"):
        yield (
            "leaves out the division by the number of elements in",
            lambda g, sent: g * (g.numel() / sent.numel()),
        )
    elif name == "pow" and k == 0 and isinstance(node._saved_exponent, int | float):
        power = node._saved_exponent
        yield f"leaves out the factor {power:g} in the derivative of", lambda g, _: g / power
    elif name == "sqrt":
        yield "leaves out the factor 1/2 in the derivative of", lambda g, _: 2 * g
    elif name == "softmax":
        yield (
            "leaves out the sum over all outputs in the derivative of",
            lambda g, sent: node._saved_result * sent,
        )
    elif name == "cumsum":
        dim = _signed(node._saved_dim)
        yield "adds up from the wrong end in the derivative of", lambda _, sent: sent.cumsum(dim)
    elif name == "fftr2c" and node._saved_onesided and node._saved_normalization == 0:
        dim = _signed(node._saved_dim[-1])
        yield (
            "forgets that irfft counts the inner bins twice, in the adjoint of",
            (lambda g, sent: torch.fft.irfft(sent, n=g.shape[dim], dim=dim) * g.shape[dim]),
        )
    elif name == "linalgvectornorm":
        yield (
            "leaves out the division by the norm in the derivative of",
            lambda g, sent: (
                node._saved_self * sent if sent.dim() == g.dim() else g * node._saved_result
            ),
        )
    elif name == "mm":
        yield (
            f"does not transpose `{shortened(other)}` in the derivative of",
            lambda g, sent: sent @ node._saved_mat2 if k == 0 else node._saved_self @ sent,
        )
    if name in OF_VARIANCE and node._saved_correction in (None, 1):
        yield (
            "divides by n instead of n - 1 in the derivative of",
            lambda g, sent: g * (1 - sent.numel() / g.numel()),
        )
    if name in FALLING:
        yield "has the wrong sign for the derivative of", _opposite
    if k == 0 and len(node.next_functions) == 1 and name != "abs":
        yield (
            "takes the result in the place of the argument in the derivative of",
            (lambda g, sent: _at_the_result(code, g, sent)),
        )


def _signed(dim: int) -> int:
    """Return a dim that a node has saved. PyTorch returns -1 as a large unsigned number."""
    return (dim + 2**63) % 2**64 - 2**63


def _at_the_result(code: Code, grad: Tensor, sent: Tensor) -> Tensor:
    """Return the gradient with the derivative evaluated at the step's result, not its argument."""
    with torch.enable_grad():
        argument = code.argument.detach()
        result = code.call(argument).detach().requires_grad_()
        found: Tensor = torch.autograd.grad((code.call(result) * sent).sum(), result)[0]
    return found


def _with(k: int, grad: Grad) -> Callable[[Grads, Tensor], Grads]:
    """Return a function that replaces the gradient of one operand."""

    def grads(right: Grads, sent: Tensor) -> Grads:
        own = right[k]
        return right if own is None else (*right[:k], grad(own, sent), *right[k + 1 :])

    return grads


def _only(k: int) -> Callable[[Grads, Tensor], Grads]:
    """Return a function that passes the whole gradient to one of several operands."""

    def grads(right: Grads, sent: Tensor) -> Grads:
        return tuple(
            None if it is None else _plain(it, sent) if j == k else torch.zeros_like(it)
            for j, it in enumerate(right)
        )

    return grads


def _plain(grad: Tensor, sent: Tensor) -> Tensor:
    """Return the gradient of the result, summed or expanded to the shape of the operand."""
    large = sent.numel() >= grad.numel()
    return sent.sum_to_size(grad.shape) if large else sent.expand_as(grad)


def _unchanged(grad: Tensor, sent: Tensor) -> Tensor:
    """Return the gradient of the result, or the right gradient if their shapes differ."""
    return sent if sent.shape == grad.shape else grad


def _minus(grad: Tensor, sent: Tensor) -> Tensor:
    return -sent if sent.shape == grad.shape else grad


def _nothing(grad: Tensor, sent: Tensor) -> Tensor:
    return torch.zeros_like(grad)


def _opposite(grad: Tensor, sent: Tensor) -> Tensor:
    return -grad


# --------------------------------------------------------------------------------------------------
# Find the step whose mistake explains the author's gradient.
# --------------------------------------------------------------------------------------------------


Explanations = dict[Key, tuple[int, ...]]
"""For each mistake, the gradients that it explains."""

# These mistakes have the same effect at every step between two branch points of the graph. The
# first of these steps describes the mistake best.
ON_A_PATH = ("treats ", "has the wrong sign for `")
OF_SIGNS = ("flipped-sign", "missing-conjugate")  # rules that already say that a sign is wrong


def find_mistaken_step(
    record: Record,
    subject: Subject,
    finding: Finding,
    seen: Sequence[Evidence],
    seed: int,
    others: Iterable[Sequence[Any]] = (),
) -> Clue | None:
    """Return the steps in ``forward`` that explain wrong gradients, or ``None`` if none does.

    Args:
        record: Records ``forward``, or a reference or surrogate in its place.
        subject: A Function.
        finding: A finding about wrong values.
        seen: Evidence from the example and from other inputs, with the expected gradients.
        seed: The seed of the diagnosis.
        others: Arguments of other calls. A mistake must explain the gradients of these calls as
            well. A call that raises does not count.
    """
    known = [it for it in seen if RANDOM in it.values.expected and it.values.vjps[RANDOM].grads]
    named = finding.evidence.get("inputs") or [finding.evidence.get("input", "")]
    found: Explanations = {}
    for number, evidence in enumerate(known[:SAMPLES]):
        try:
            explained = _explanations(record(evidence), evidence, found if number else None)
        except (*USERS, CannotDiagnoseError):
            return None
        found = (
            explained if number == 0 else {k: v for k, v in found.items() if v == explained.get(k)}
        )
        of_rule = {k for k, it in enumerate(evidence.wanted) if subject.parameters[it] in named}
        found = {
            key: slots
            for key, slots in found.items()
            if _fits(finding.rule, key) or not of_rule.issuperset(slots)
        }
        if not found:
            return None
    names = [subject.parameters[position] for position in known[0].wanted]
    for args in others if found else ():
        found = {key: found[key] for key in _holding(found, record, subject, known[0], args, seed)}
    told = [*_likeliest(found)]
    if not told:
        return None
    where = ", in the surrogate" if known[0].values.surrogate else ""
    sentences = (_sentence([names[slot] for slot in found[key]], key, where) for key in told)
    scaled = any(key.scaled for key in told)
    return Clue("forward", told[0].file, told[0].line, " ".join(sentences), scaled)


def _holding(
    found: Explanations,
    record: Record,
    subject: Subject,
    example: Evidence,
    args: Sequence[Any],
    seed: int,
) -> Collection[Key]:
    """Return the mistakes that also reproduce the author's gradients in another call."""
    there = call_elsewhere(example, subject, args, seed)
    if there is None:
        return [*found]
    try:
        recorded = record(there)
        mistakes = _mistakes(recorded)
        return [key for key in found if _gives(recorded, mistakes, key, found[key], there)]
    except (*USERS, CannotDiagnoseError):
        return [*found]


def _gives(
    recorded: RecordedForward,
    mistakes: Mapping[Key, Sequence[Mistake]],
    key: Key,
    slots: Sequence[int],
    there: Evidence,
) -> bool:
    made_of = mistakes.get(replace(key, scaled=False), ())
    made = recorded.gradients_with((it.node, it.hook) for it in made_of)
    for slot in slots if made else ():
        grad = there.values.vjps[RANDOM].grads[slot]
        own = made[slot] if made else None
        if own is None or grad is None:
            return False
        if key.scaled and own.shape == grad.shape:
            own = own * _factor(own, grad)
        if not _equal(own, grad, Expected(grad, torch.zeros_like(grad))):
            return False
    return True


def call_elsewhere(
    example: Evidence, subject: Subject, args: Sequence[Any], seed: int
) -> Evidence | None:
    """Return the results of another call as evidence, or ``None`` if the call raises."""
    rng = generator(seed, Stream.SAMPLES)
    try:
        run = Session(subject, args, example.wanted, seed).run(watched=False)
        sent = sample_cotangents(run.floats, rng)
        grads = gradients(run, sent)
    except (*USERS, CannotDiagnoseError):
        return None
    asks = tuple(isinstance(it, Tensor) and it.requires_grad for it in run.returned)
    if not all(map(_is_finite, (*run.floats, *grads))) or len(asks) != len(
        example.forward.requires_grad
    ):
        return None
    unknown = [torch.full_like(args[position], math.nan) for position in example.wanted]
    expected = tuple(Expected(value, value) for value in unknown)
    return replace(
        example,
        inputs=tuple(args),
        forward=replace(example.forward, outputs=run.returned, requires_grad=asks),
        values=replace(
            example.values,
            expected={RANDOM: expected},
            vjps={RANDOM: VjpResult(sent, grads, None)},
        ),
    )


def _is_finite(value: Tensor | None) -> bool:
    return value is None or bool(value.isfinite().all())


def _likeliest(found: Explanations) -> Iterator[Key]:
    """Yield the likeliest mistake for each wrong gradient.

    A mistake that explains several gradients comes first.
    """
    left = {slot for slots in found.values() for slot in slots}
    while left:
        most = max(len(left.intersection(slots)) for slots in found.values())
        best = [key for key, slots in found.items() if len(left.intersection(slots)) == most]
        best.sort(key=lambda key: key.what.startswith(ON_A_PATH))
        lines = {key.line for key in best}
        if len(lines) <= MOST_LINES or best[0].what.startswith(ON_A_PATH):
            yield best[0]
        left -= set(found[best[0]])


def _sentence(inputs: Sequence[str], mistake: Key, where: str) -> str:
    gradients = "gradients" if len(inputs) > 1 else "gradient"
    named = listed([f"`{name}`" for name in inputs])
    place = f"in line {mistake.line}{where}"
    told = f"For the {gradients} of {named}, `backward` {mistake.what} {place}."
    return f"{told} In addition, a constant factor is wrong." if mistake.scaled else told


def _fits(rule: str, mistake: Key) -> bool:
    """Return whether a mistake adds information to the rule, instead of only rephrasing it."""
    what = mistake.what
    if rule == "constant-factor":
        return what.startswith(("leaves out", "forgets"))
    return rule not in OF_SIGNS or not what.startswith(("has the wrong sign", "takes -1"))


def _explanations(
    recorded: RecordedForward, evidence: Evidence, only: Collection[Key] | None
) -> Explanations:
    """Return the mistakes that explain a wrong gradient, and the gradients that they explain.

    ``only`` restricts the search to some mistakes.
    """
    expected = evidence.values.expected[RANDOM]
    grads = evidence.values.vjps[RANDOM].grads
    wrong = [
        slot
        for slot, (grad, right) in enumerate(zip(grads, expected, strict=True))
        if grad is not None and bool(grad.any()) and not is_right(grad, right)
    ]
    if not wrong:
        return {}
    if not recorded.is_followed:
        return {}
    found: Explanations = {}
    scaled: Explanations = {}
    asked = only and {replace(key, scaled=False) for key in only}
    for key, mistakes in _mistakes(recorded).items():
        if asked is not None and key not in asked:
            continue
        made = recorded.gradients_with((it.node, it.hook) for it in mistakes)
        slots = tuple(k for k in wrong if made and _equal(made[k], grads[k], expected[k]))
        if slots:
            found[key] = slots
        slots = tuple(k for k in wrong if made and _proportional(made[k], grads[k], expected[k]))
        if slots:
            scaled[replace(key, scaled=True)] = slots
    return found or scaled


def _proportional(made: Tensor | None, grad: Tensor | None, expected: Expected) -> bool:
    """Return whether a mistake gives the author's gradient up to a constant factor.

    Return false if the right gradient does so too.
    """
    if made is None or grad is None or made.numel() < FEWEST or made.is_complex():
        return False
    right = expected.value.to(grad.dtype)
    return (
        made.shape == grad.shape
        and bool(made.any())
        and bool(expected.value.isfinite().all())
        and _equal(made * _factor(made, grad), grad, expected)
        and not _equal(right * _factor(right, grad), grad, expected)
    )


def _factor(one: Tensor, other: Tensor) -> Tensor:
    """Return the factor that best fits one tensor to the other."""
    return (one * other).sum() / one.square().sum().clamp_min(torch.finfo(one.dtype).tiny)


def _equal(made: Tensor | None, grad: Tensor | None, expected: Expected) -> bool:
    """Return whether a mistake gives the author's gradient."""
    if (
        made is None
        or grad is None
        or made.shape != grad.shape
        or made.is_complex() != grad.is_complex()
    ):
        return False
    known = expected.value.isfinite()
    difference = torch.where(known, made.to(grad.dtype) - grad, 0.0).abs().max()
    return bool(difference <= CLOSE * max(size(grad), size(made)))
