"""Find the step of ``forward`` that ``backward`` differentiates incorrectly.

``forward`` runs once with autograd, which records its steps and can differentiate them. Then the
derivative of one step at a time is replaced by a typical mistake: it is 0, as if an operand were a
constant, or 1, as if the step were not there. If the result equals the author's wrong gradient, the
mistake is in this step. The code of ``backward`` does not matter for this.

Only a gradient that agrees on the example and on other inputs counts. If ``forward`` cannot run
with autograd, or if autograd does not return the expected gradient, nothing is found.
"""

from __future__ import annotations

import ast
import linecache
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from autograd_doctor._execution.calls import USERS, is_users_file
from autograd_doctor._execution.passes import gradients
from autograd_doctor._execution.session import Session, Subject
from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.tensors import as_tuple
from autograd_doctor._probes.comparison import as_ordinary_code
from autograd_doctor._repair.runner import is_right
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import RANDOM, Evidence, Expected
from autograd_doctor.finding import Clue, Finding
from autograd_doctor.formatting import listed

SAMPLES = 2  # sets of inputs on which a mistake must explain the gradient
MOST_NODES = 1000
MOST_MISTAKES = 400
MOST_LINES = 2  # if more lines explain the gradient, the mistake could be in any of them
LONGEST = 60  # characters of an expression in a sentence
CLOSE = 1e-7  # relative difference of two equal gradients

Grads = tuple[Tensor | None, ...]

Key = tuple[str, int, str]
"""The file, the line and the description of a mistake."""


@dataclass(frozen=True)
class Code:
    """The expression in the author's source that executed a step.

    ``call`` repeats the step with another tensor in the place of ``argument``, its first operand.
    ``operands`` are in the order of the step, in which ``2 * x`` starts with ``x``.
    """

    file: str
    line: int
    tree: ast.expr
    operands: Sequence[ast.expr]
    call: Callable[[Tensor], Any]
    argument: Any

    @property
    def text(self) -> str:
        """The source of the expression."""
        return ast.unparse(self.tree)

    def operand(self, number: int) -> str:
        """Return the source of an operand, or ``""`` if unknown."""
        return ast.unparse(self.operands[number]) if number < len(self.operands) else ""


def _operands(tree: ast.expr, args: Sequence[Any], frame: FrameType) -> Sequence[ast.expr]:
    """Return the operands of a step in the order of its arguments, if this order is known."""
    match tree:
        case ast.BinOp(left, _, right):
            if len(args) > 1 and isinstance(args[1], Tensor):
                return [left, right]
            left_is_tensor = _is_tensor(left, frame)
            if left_is_tensor is None:
                right_is_tensor = _is_tensor(right, frame)
                left_is_tensor = None if right_is_tensor is None else not right_is_tensor
            return [] if left_is_tensor is None else [left, right][:: 1 if left_is_tensor else -1]
        case ast.Call(ast.Attribute(ast.Name("torch" | "F"), _), given):
            return given
        case ast.Call(ast.Attribute(owner, _), given):
            return [owner, *given]
    return []


def _is_tensor(node: ast.expr, frame: FrameType) -> bool | None:
    """Whether the value of an expression is a tensor, or ``None`` if unknown."""
    match node:
        case ast.Constant():
            return False
        case ast.Name(name) if name in frame.f_locals:
            return isinstance(frame.f_locals[name], Tensor)
        case ast.Name(name):
            return isinstance(frame.f_globals.get(name), Tensor)
        case ast.UnaryOp(_, operand):
            return _is_tensor(operand, frame)
        case ast.BinOp(left, _, right):
            parts = _is_tensor(left, frame), _is_tensor(right, frame)
            return True if True in parts else None if None in parts else False
        case ast.Call(ast.Attribute(ast.Name("math"), _)):
            return False
        case ast.Call(ast.Attribute(owner, _)):
            return _is_tensor(owner, frame) or None
    return None


@dataclass(frozen=True)
class Mistake:
    """A typical mistake in the derivative of a step.

    ``what`` is the rest of a sentence about ``backward``. ``grads`` takes the gradients that the
    step sends to its operands, and the gradient of its result. It returns the gradients with the
    mistake.
    """

    node: Any
    what: str
    grads: Callable[[Grads, Tensor], Grads]

    def hook(self, grad_inputs: Grads, grad_outputs: Grads) -> Grads | None:
        """The hook that makes the mistake in autograd's graph."""
        (sent, *_) = grad_outputs
        return None if sent is None else self.grads(grad_inputs, sent)


class _Lines(TorchFunctionMode):
    """A context manager that records which expression created each node of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.code: dict[Any, Code] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        frame = _users_frame(sys._getframe(1))
        if args and frame and (tree := _expression_of(frame)):
            rest, options = args[1:], kwargs or {}
            code = Code(
                frame.f_code.co_filename,
                frame.f_lineno,
                tree,
                _operands(tree, args, frame),
                lambda operand: func(operand, *rest, **options),
                args[0],
            )
            for made in as_tuple(result):
                if isinstance(made, Tensor):
                    self._record(made.grad_fn, code)
        return result

    def _record(self, node: Any, code: Code) -> None:
        if node is not None and node.next_functions and node not in self.code:
            self.code[node] = code
            for parent, _ in node.next_functions:  # one call can create several nodes
                self._record(parent, code)


def _users_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _expression_of(frame: FrameType) -> ast.expr | None:
    """Return the author's expression that a frame is evaluating."""
    file = frame.f_code.co_filename
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if position is None or None in position:
        return None
    first, last, left, right = position
    assert first is not None
    assert last is not None
    lines = [linecache.getline(file, number) for number in range(first, last + 1)]
    if not all(lines):
        return None
    lines[-1] = lines[-1].encode()[:right].decode(errors="ignore")
    lines[0] = lines[0].encode()[left:].decode(errors="ignore")
    try:
        return ast.parse(f"({''.join(lines)})", mode="eval").body
    except (SyntaxError, ValueError):
        return None


# --------------------------------------------------------------------------------------------------
# Forward with autograd.
# --------------------------------------------------------------------------------------------------


class _Recorded:
    """The graph of the author's ``forward`` for one set of inputs."""

    def __init__(self, subject: Subject, evidence: Evidence, seed: int) -> None:
        assert subject.function is not None
        forward, self._lines = as_ordinary_code(subject.function), _Lines()

        def recorded(*args: Any) -> Any:
            with self._lines:
                return forward(*args)

        plain = replace(subject, call=recorded, function=None)
        self._run = Session(plain, evidence.inputs, evidence.wanted, seed).run(watched=False)
        self._sent = evidence.values.vjps[RANDOM].grad_outputs

    def gradients(self) -> Grads:
        """Return the gradients that autograd computes."""
        return gradients(self._run, self._sent, retain_graph=True)

    def gradients_with(self, mistakes: Sequence[Mistake]) -> Grads | None:
        """Return the gradients with the same mistake in all repetitions of a step."""
        handles = [mistake.node.register_hook(mistake.hook) for mistake in mistakes]
        try:
            return self.gradients()
        except USERS:  # the mistake does not fit the shapes of this step
            return None
        finally:
            for handle in handles:
                handle.remove()

    def mistakes(self) -> Mapping[Key, Sequence[Mistake]]:
        """Return typical mistakes in all steps, from the outputs to the inputs.

        A step in a loop runs several times, and each repetition has the same mistake.
        """
        found: dict[Key, list[Mistake]] = {}
        copies = {it.grad_fn for it in self._run.args if isinstance(it, Tensor)}
        seen: set[Any] = {*copies}
        level = [out.grad_fn for out in self._run.floats]
        while level and len(seen) < MOST_NODES:
            new = [node for node in dict.fromkeys(level) if node and node not in seen]
            seen.update(new)
            for node in new:
                if (code := self._lines.code.get(node)) is None:
                    continue
                for mistake in mistakes_in(node, code):
                    found.setdefault((code.file, code.line, mistake.what), []).append(mistake)
            level = [parent for node in new for parent, _ in node.next_functions]
        if len(seen) >= MOST_NODES or len(found) > MOST_MISTAKES:
            return {}
        return {**found, **_in_two_gates(found)}


def _in_two_gates(found: Mapping[Key, Sequence[Mistake]]) -> Mapping[Key, Sequence[Mistake]]:
    """Return the mistake of an author who forgets two clamps, such as those of x and of y."""
    gates = [key for key in found if key[2].startswith(AS_IF_NOTHING)]
    pairs = combinations(gates, 2) if len(gates) <= MOST_GATES else ()
    return {
        (one[0], one[1], f"{one[2]} and {other[2].removeprefix(AS_IF_NOTHING)}"): [
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
# Operations that pass a gradient on or block it.
GATES = ("clamp", "relu", "hardtanh", "threshold", "round", "floor", "ceil", "where", "maskedfill")
FALLING = ("cos", "acos", "neg", "reciprocal", "rsub", "erfc")  # their derivatives have a minus


def mistakes_in(node: Any, code: Code) -> Iterator[Mistake]:
    """Yield typical mistakes in the derivative of a step, most specific first."""
    name = node.name().rstrip("0123456789").removesuffix("Backward").lower()
    step = f"`{_short(code.text)}`"
    operands = [k for k, (parent, _) in enumerate(node.next_functions) if parent is not None]
    for k in operands:
        for what, grad in _typical(node, name, k, code):
            yield Mistake(node, f"{what} {step}", _with(k, grad))
    if name in ("minimum", "maximum") and operands == [0, 1]:
        which = "smaller" if name == "minimum" else "larger"
        for k in operands:
            if operand := code.operand(k):
                what = f"follows only `{_short(operand)}`, as if it were always the {which} one, in"
                yield Mistake(node, f"{what} {step}", _only(k))
    if operands == [0]:
        yield Mistake(node, f"takes 1 as the derivative of {step}", _with(0, _unchanged))
        yield Mistake(node, f"takes -1 as the derivative of {step}", _with(0, _minus))
        yield Mistake(node, f"treats {step} as a constant", _with(0, _nothing))
        return
    for k in operands:
        if operand := code.operand(k):
            part = f"`{_short(operand)}` in {step}"
            yield Mistake(node, f"treats {part} as a constant", _with(k, _nothing))
            yield Mistake(node, f"has the wrong sign for {part}", _with(k, _opposite))


Grad = Callable[[Tensor, Tensor], Tensor]
"""A wrong gradient of an operand, from its right gradient and from the gradient of the result."""


def _typical(node: Any, name: str, k: int, code: Code) -> Iterator[tuple[str, Grad]]:
    """Yield mistakes that are typical of an operation, and how to make them for operand ``k``."""
    other = code.operand(1 - k) if isinstance(code.tree, ast.BinOp) else ""
    if name == "mul" and other and other != code.operand(k):
        yield f"leaves out the factor `{_short(other)}` of", _plain
    elif name == "div" and other and k == 0:
        yield f"leaves out the division by `{_short(other)}` in", _plain
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
            f"does not transpose `{_short(other)}` in the derivative of",
            lambda g, sent: sent @ node._saved_mat2 if k == 0 else node._saved_self @ sent,
        )
    if name in FALLING:
        yield "has the wrong sign for the derivative of", _opposite
    if k == 0 and len(node.next_functions) == 1:
        yield (
            "takes the result in the place of the argument in the derivative of",
            (lambda g, sent: _at_the_result(code, g, sent)),
        )


def _signed(dim: int) -> int:
    """Return a dim that a node has saved. PyTorch shows -1 as a large unsigned number."""
    return (dim + 2**63) % 2**64 - 2**63


def _at_the_result(code: Code, grad: Tensor, sent: Tensor) -> Tensor:
    """Return the gradient if the derivative is evaluated at the result of the step."""
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
    """Return a function that sends the whole gradient to one of several operands."""

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
    """Return the gradient of the result. The step must not change the shape."""
    return sent if sent.shape == grad.shape else grad


def _minus(grad: Tensor, sent: Tensor) -> Tensor:
    return -sent if sent.shape == grad.shape else grad


def _nothing(grad: Tensor, sent: Tensor) -> Tensor:
    return torch.zeros_like(grad)


def _opposite(grad: Tensor, sent: Tensor) -> Tensor:
    return -grad


def _short(text: str) -> str:
    return textwrap.shorten(text, LONGEST, placeholder=" …")


# --------------------------------------------------------------------------------------------------
# The step whose mistake explains the author's gradient.
# --------------------------------------------------------------------------------------------------


Explanations = dict[Key, tuple[int, ...]]
"""For each mistake, the gradients that it explains."""

# Everything on a path between two forks has the same effect, and the first one says it best.
ON_A_PATH = ("treats ", "has the wrong sign for `")
OF_SIGNS = ("flipped-sign", "missing-conjugate")  # rules that already say that a sign is wrong


def find_mistaken_step(
    subject: Subject, finding: Finding, seen: Sequence[Evidence], seed: int
) -> Clue | None:
    """Return the steps of ``forward`` that explain wrong gradients, or ``None`` if none does.

    Args:
        subject: A Function.
        finding: A finding about wrong values.
        seen: Evidence from the example and from other inputs, with the expected gradients.
        seed: The seed of the diagnosis.
    """
    known = [it for it in seen if RANDOM in it.values.expected and it.values.vjps[RANDOM].grads]
    named = finding.evidence.get("inputs") or [finding.evidence.get("input", "")]
    found: Explanations = {}
    for number, evidence in enumerate(known[:SAMPLES]):
        try:
            explained = _explanations(subject, evidence, seed, found if number else None)
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
    told = [*_likeliest(found)]
    if not told:
        return None
    sentences = (_sentence([names[slot] for slot in found[key]], key) for key in told)
    file, line, _ = told[0]
    return Clue(file, line, " ".join(sentences))


def _likeliest(found: Explanations) -> Iterator[Key]:
    """Yield the likeliest mistake for each wrong gradient. Start with one that explains several."""
    left = {slot for slots in found.values() for slot in slots}
    while left:
        most = max(len(left.intersection(slots)) for slots in found.values())
        best = [key for key, slots in found.items() if len(left.intersection(slots)) == most]
        best.sort(key=lambda key: key[2].startswith(ON_A_PATH))
        lines = {line for _, line, _ in best}
        if len(lines) <= MOST_LINES or best[0][2].startswith(ON_A_PATH):
            yield best[0]
        left -= set(found[best[0]])


def _sentence(inputs: Sequence[str], mistake: Key) -> str:
    _, line, what = mistake
    gradients = "gradients" if len(inputs) > 1 else "gradient"
    named = listed([f"`{name}`" for name in inputs])
    return f"For the {gradients} of {named}, `backward` {what} in line {line}."


def _fits(rule: str, mistake: Key) -> bool:
    """Whether a mistake says more than the rule does, and not the same in other words."""
    what = mistake[2]
    if rule == "constant-factor":
        return what.startswith(("leaves out", "forgets"))
    return rule not in OF_SIGNS or not what.startswith(("has the wrong sign", "takes -1"))


def _explanations(
    subject: Subject, evidence: Evidence, seed: int, only: Collection[Key] | None
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
    recorded = _Recorded(subject, evidence, seed)
    if not all(map(is_right, recorded.gradients(), expected)):
        return {}  # autograd does not see all that forward computes
    found: Explanations = {}
    for key, mistakes in recorded.mistakes().items():
        if only is not None and key not in only:
            continue
        made = recorded.gradients_with(mistakes)
        slots = tuple(k for k in wrong if made and _equal(made[k], grads[k], expected[k]))
        if slots:
            found[key] = slots
    return found


def _equal(made: Tensor | None, grad: Tensor | None, expected: Expected) -> bool:
    """Whether a mistake gives the author's gradient."""
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
