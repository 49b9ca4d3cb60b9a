"""Run ``forward`` once with autograd, and record the location and the result of each step."""

from __future__ import annotations

import ast
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch._C import DisableTorchFunctionSubclass
from torch.overrides import TorchFunctionMode

from autograd_doctor._execution.calls import USERS, is_users_file
from autograd_doctor._execution.passes import gradients
from autograd_doctor._execution.session import Session, Subject
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._repair.runner import is_right
from autograd_doctor.evidence import RANDOM, Evidence

LONGEST = 60  # characters of an expression in a sentence
MOST_NODES = 1000
MOST_ELEMENTS = 2**14  # of a result; larger results are not kept

Grads = tuple[Tensor | None, ...]
Hook = Callable[[Grads, Grads], Grads | None]


@dataclass(frozen=True)
class Code:
    """The expression in the author's source that performed a step.

    ``call`` repeats the step with another tensor in place of ``argument``, the first operand.
    ``operands`` follow the order of the step's arguments. For ``2 * x``, they start with ``x``.
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
        case ast.Call(ast.Attribute(ast.Name("torch"), "cat" | "stack"), [ast.List(parts), *_]):
            return parts
        case ast.Call(ast.Attribute(ast.Name("torch" | "F"), _), given):
            return given
        case ast.Call(ast.Attribute(owner, _), given):
            return [owner, *given]
    return []


def _is_tensor(node: ast.expr, frame: FrameType) -> bool | None:
    """Return whether the value of an expression is a tensor, or ``None`` if unknown."""
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
class Result:
    """A tensor that ``forward`` computed, and the expression that computed it.

    ``value`` is a copy, because ``forward`` may change the tensor later. ``version`` shows whether
    it did. ``item`` is the position of the tensor if the expression returned several tensors.
    """

    code: Code
    item: int | None
    tensor: Tensor
    value: Tensor
    version: int

    @property
    def text(self) -> str:
        """The source of the expression."""
        return self.code.text if self.item is None else f"{self.code.text}[{self.item}]"


class _Recorder(TorchFunctionMode):
    """A context manager that records each operation in the author's code.

    ``code`` maps each node of the graph to the expression that created it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.code: dict[Any, Code] = {}
        self.last: dict[tuple[str, int, str], Result] = {}
        self._trees: dict[tuple[CodeType, int], ast.expr | None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        frame = _users_frame(sys._getframe(1))
        if args and frame and (tree := self._expression_of(frame)):
            rest, options = args[1:], kwargs or {}
            code = Code(
                frame.f_code.co_filename,
                frame.f_lineno,
                tree,
                _operands(tree, args, frame),
                lambda operand: func(operand, *rest, **options),
                args[0],
            )
            several = isinstance(result, tuple | list)
            for item, made in enumerate(as_tuple(result)):
                if isinstance(made, Tensor):
                    self._record(made.grad_fn, code)
                    self._keep(made, code, item if several else None)
        return result

    def _expression_of(self, frame: FrameType) -> ast.expr | None:
        at = frame.f_code, frame.f_lasti
        if at not in self._trees:
            self._trees[at] = _expression_of(frame)
        return self._trees[at]

    def _record(self, node: Any, code: Code) -> None:
        if node is not None and node.next_functions and node not in self.code:
            self.code[node] = code
            for parent, _ in node.next_functions:  # one call can create several nodes
                self._record(parent, code)

    def _keep(self, made: Tensor, code: Code, item: int | None) -> None:
        if made.numel() <= MOST_ELEMENTS:
            with DisableTorchFunctionSubclass():
                kept = Result(code, item, made, made.detach().clone(), made._version)
            self.last[code.file, code.line, kept.text] = kept


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


class RecordedForward:
    """The steps of the author's ``forward`` for one set of inputs, and their graph.

    ``code`` is ``forward`` as a plain callable, or a reference or surrogate that replaces it.
    """

    def __init__(
        self, code: Callable[..., Any], subject: Subject, seed: int, evidence: Evidence
    ) -> None:
        self._recorder = _Recorder()

        def recorded(*args: Any) -> Any:
            with self._recorder:
                return code(*args)

        plain = replace(subject, call=recorded, function=None)
        self._run = Session(plain, evidence.inputs, evidence.wanted, seed).run(watched=False)
        outputs = zip(evidence.forward.outputs, evidence.forward.requires_grad, strict=True)
        asks = [asked for output, asked in outputs if is_float(output)]
        sent = evidence.values.vjps[RANDOM].grad_outputs
        # An output that the author marks as non-differentiable has no gradient.
        self._sent = [g if asked else None for g, asked in zip(sent, asks, strict=True)]
        self._expected = evidence.values.expected[RANDOM]

    @property
    def results(self) -> Sequence[Result]:
        """The last result of each of the author's expressions, ordered by when they first ran."""
        return [*self._recorder.last.values()]

    @cached_property
    def is_followed(self) -> bool:
        """Whether autograd returns the expected gradients, which shows that it sees every step."""
        return all(map(is_right, self.gradients(), self._expected))

    def gradients(self) -> Grads:
        """Return the gradients that autograd computes."""
        return gradients(self._run, self._sent, retain_graph=True)

    def gradients_of(self, tensors: Sequence[Tensor]) -> Grads:
        """Return the gradients with respect to some results, which must require grad."""
        return gradients(replace(self._run, leaves=[*tensors]), self._sent, retain_graph=True)

    def gradients_with(self, hooks: Iterable[tuple[Any, Hook]]) -> Grads | None:
        """Return the gradients with hooks on some nodes, or ``None`` if a hook causes an error."""
        handles = [node.register_hook(hook) for node, hook in hooks]
        try:
            return self.gradients()
        except USERS:
            return None
        finally:
            for handle in handles:
                handle.remove()

    def steps(self) -> Sequence[tuple[Any, Code]]:
        """Return the nodes of the author's steps with their expressions, starting at the outputs.

        Return an empty list if there are too many nodes.
        """
        found = []
        seen = {it.grad_fn for it in self._run.args if isinstance(it, Tensor)}
        level = [out.grad_fn for out in self._run.floats]
        while level and len(seen) < MOST_NODES:
            new = [node for node in dict.fromkeys(level) if node and node not in seen]
            seen.update(new)
            found += [
                (node, self._recorder.code[node]) for node in new if node in self._recorder.code
            ]
            level = [parent for node in new for parent, _ in node.next_functions]
        return [] if len(seen) >= MOST_NODES else found


Record = Callable[[Evidence], RecordedForward]
"""A function that runs and records the author's code with the inputs in the evidence."""


def shortened(text: str) -> str:
    """Shorten an expression to fit into a sentence."""
    return textwrap.shorten(text, LONGEST, placeholder=" …")
