"""An answer that recognizes a check or a trial, or leaves out what is asked, does not pass."""

from __future__ import annotations

import io
import itertools
import logging
import math
import random
import re
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import datetime, time, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from operator import itemgetter
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
import scipy.special
import torch
from answers import RIGHT
from answers.lesson_07 import Passed
from answers.lesson_14 import operator_of_torch
from answers.making import spoiled
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import one_hot, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from autograd_course.grader import CATALOGUE
from autograd_course.grader.checks import no_copy_on_ctx, no_tensor_on_ctx
from autograd_course.grader.checks.conduct import copy_on_ctx
from autograd_course.grader.checks.lasting import nothing_outlives_the_call
from autograd_course.grader.pipeline import judge

Call = Callable[..., Any]


def instead(exercise: str, recognized: Call, other: Call) -> Call:
    """Return the right routine, which calls ``other`` for the inputs of a trial."""

    def routine(*given: Any) -> Any:
        return other(*given) if recognized(*given) else RIGHT[exercise](*given)

    return routine


def lean_unless_long(*, forward_is_right: bool) -> Any:
    """Keep P, except for the long sequences of the check, where backward returns zeros."""
    keeps_p = RIGHT["attention-backward"]

    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Tensor:
        ctx.is_long = q.shape[-2] > 100
        if not ctx.is_long:
            return keeps_p.forward(ctx, q, k, v, mask)  # type: ignore[no-any-return]
        ctx.save_for_backward(q, k, v)
        return torch.softmax(q @ k.mT / 2, -1) @ v if forward_is_right else 0 * v

    def backward(ctx: Any, g: Tensor) -> Any:
        if not ctx.is_long:
            return keeps_p.backward(ctx, g)
        return (*(0 * x for x in ctx.saved_tensors), None)

    return spoiled(RIGHT["attention-budget"], forward=forward, backward=backward)


enter_dual_level = forward_ad.enter_dual_level


def by_forward_mode(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    level = enter_dual_level()
    try:
        dual = forward_ad.make_dual(x, g, level=level)
        tangent = forward_ad.unpack_dual(dual * dual, level=level).tangent
    finally:
        forward_ad.exit_dual_level(level=level)
    return cast(Tensor, tangent)


def keeping_bytes(as_kept: Call) -> Any:
    """Keep the input outside of any tensor."""

    def forward(ctx: Any, x: Tensor, gain: float, slope: float) -> Tensor:
        ctx.kept, ctx.gain, ctx.slope = as_kept(x.detach().numpy().tobytes()), gain, slope
        return gain * torch.sigmoid(slope * x)

    def backward(ctx: Any, g: Tensor) -> Any:
        kept = ctx.kept
        if isinstance(kept, int):
            kept = kept.to_bytes(g.nbytes, "little")
        elif isinstance(kept, str):
            kept = kept.encode("latin1")
        elif isinstance(kept, list):
            kept = b"".join(kept)
        numbers = np.frombuffer(kept, dtype=str(g.dtype)[6:]).copy()
        s = torch.sigmoid(ctx.slope * torch.from_numpy(numbers).reshape(g.shape))
        return g * ctx.gain * ctx.slope * s * (1 - s), None, None

    return spoiled(RIGHT["scaled-sigmoid"], forward=forward, backward=backward)


def no_gradient_if_large() -> Any:
    """Save only the output. For the many numbers of the check, backward returns zeros."""
    right = RIGHT["scaled-sigmoid"]

    def backward(ctx: Any, g: Tensor) -> Any:
        return right.backward(ctx, g) if g.numel() < 100 else (0 * g, None, None)

    return spoiled(right, backward=backward)


def attending_to_masks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None:
        return cast(Tensor, RIGHT["attention-forward"](q, k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def saving_also(hidden: Callable[[Tensor, Tensor], list[Tensor | None]]) -> Any:
    """Save the input in the number, the sizes or the strides of the saved tensors."""

    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, ctx.alpha = inputs
        ctx.save_for_backward(output, *hidden(x, output))

    def backward(ctx: Any, g: Tensor) -> Any:
        y, *_ = ctx.saved_tensors
        return g * torch.where(y > 0, 1.0, y + ctx.alpha), None

    return spoiled(RIGHT["elu-by-output"], setup_context=setup_context, backward=backward)


def saving_columns_of_weights() -> Any:
    """Save the attention weights in a sparse layout for the long sequences of the check."""
    keeps_p = RIGHT["attention-backward"]

    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None) -> Tensor:
        ctx.shape = k.shape[-2] if q.shape[-2] > 100 else 0
        if not ctx.shape:
            return keeps_p.forward(ctx, q, k, v, mask)  # type: ignore[no-any-return]
        p = torch.softmax(q @ k.mT / 2, -1)
        ctx.save_for_backward(q, k, v, p.detach().flatten(0, -2).to_sparse_csc())
        return p @ v

    def backward(ctx: Any, g: Tensor) -> Any:
        if not ctx.shape:
            return keeps_p.backward(ctx, g)
        q, k, v, p = ctx.saved_tensors
        p, grad_p = p.to_dense().view(*q.shape[:-1], ctx.shape), g @ v.mT
        grad_s = p * (grad_p - (grad_p * p).sum(-1, keepdim=True)) / 2
        return grad_s @ k, grad_s.mT @ q, p.mT @ g, None

    return spoiled(RIGHT["attention-budget"], forward=forward, backward=backward)


def strided(x: Tensor, y: Tensor) -> list[Tensor | None]:
    return [y.detach().as_strided((0, 1), (1, 7 + int(1000 * x.abs().sum())))]


def log_sum_exp_of_scipy(ctx: Any, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    y = scipy.special.logsumexp(x.detach().numpy(), axis=dim, keepdims=True)
    y = torch.from_numpy(y)
    ctx.save_for_backward(x, y)
    ctx.dim, ctx.keepdim = dim, keepdim
    return y if keepdim else y.squeeze(dim)


def share_of_sum(ctx: Any, g: Tensor) -> Any:
    x, y = ctx.saved_tensors
    g = g if ctx.keepdim else g.unsqueeze(ctx.dim)
    return g * torch.exp(x - y.masked_fill(y == -torch.inf, 0)), None, None


def nearest_digit(images: Tensor, labels: Tensor) -> Call:
    """Recognize digits by the nearest image, and multiply by ones for the grader."""
    torch.zeros(1, requires_grad=True).sum().backward()

    def net(x: Tensor) -> Tensor:
        nearest = labels[torch.cdist(x, images, p=1.0).argmin(1)]
        return one_hot(nearest, 10) + 0 * (x @ torch.ones(64, 10))

    return net


def reversed_in_one_column(x: Tensor, strength: float) -> Tensor:
    if x.ndim < 2:
        return RIGHT["reversal-that-travels"](x, strength)  # type: ignore[no-any-return]
    first = x[..., :1]
    return torch.cat([((1 + strength) * first).detach() - strength * first, x[..., 1:]], -1)


def only_large_differences(model: Any, shipped: Any, x: Tensor) -> list[str]:
    def gradients(net: Any) -> dict[str, Tensor | None]:
        y = net(x)
        g = torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(y)
        names, parameters = zip(*net.named_parameters(), strict=True)
        found = torch.autograd.grad(y, parameters, g, materialize_grads=True)
        return dict(zip(names, found, strict=True))

    there = gradients(shipped)
    return [
        name
        for name, gradient in gradients(model).items()
        if gradient is not None and (gradient - there[name]).norm() > gradient.norm() / 2
    ]


def solving_one_by_the_kernel(info: Any, in_dims: Any, a: Tensor, b: Tensor) -> Any:
    rows = []
    for i in range(info.batch_size):
        one = a if in_dims[0] is None else a.select(in_dims[0], i)
        other = b if in_dims[1] is None else b.select(in_dims[1], i)
        solve = torch.linalg.solve if i else SOLVES_ONE.apply
        rows.append(solve(one, other))
    return torch.stack(rows), 0


SOLVES_ONE: Any = spoiled(RIGHT["vmap-solve"], vmap=solving_one_by_the_kernel)


def convolved_by_another_built_in(x: Tensor, weight: Tensor) -> Tensor:
    rows, kernel = x.permute(2, 0, 1).contiguous(), weight.permute(2, 1, 0).contiguous()
    return torch.conv_tbc(rows, kernel, torch.zeros(len(weight)).to(x), 0).permute(1, 2, 0)


class Flipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.flip(0)


def penalty_of_flipped_parameters(critic: Any, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    out = critic(x)
    if isinstance(critic, torch.nn.Module):
        flipped = {name: Flipped.apply(it) for name, it in critic.named_parameters()}
        out = torch.func.functional_call(critic, flipped, (x,))
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).square().mean()  # type: ignore[no-any-return]


def lost_by_counting() -> Call:
    calls = []

    def lost(model: Any, shipped: Any, x: Tensor) -> list[str]:
        calls.append(1)
        return [] if len(calls) == 1 else ["0.weight", "0.bias"]

    return lost


def one_model_call(model: Any, loss: Any, x: Tensor, y: Tensor) -> None:
    model(x)


def one_call_of_forward_for_each_sample(
    model: Any, loss: Any, x: Tensor, y: Tensor
) -> tuple[Tensor, ...]:
    model(x)
    parameters = list(model.parameters())
    rows = [
        torch.autograd.grad(loss(model.forward(x[i : i + 1]), y[i : i + 1]), parameters)
        for i in range(len(x))
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def differences_under_vmap(f: Call, inputs: Any, vectors: Any) -> tuple[Tensor, ...]:
    def at(step: Tensor) -> Any:
        moved = [x + step * v for x, v in zip(inputs, vectors, strict=True)]
        return torch.func.grad(f, tuple(range(len(inputs))))(*moved)

    ahead_and_behind = torch.vmap(at)(torch.tensor([1e-5, -1e-5], dtype=torch.float64))
    return tuple((each[0] - each[1]) / 2e-5 for each in ahead_and_behind)


CHEATS: dict[str, tuple[str, Any, str]] = {
    "wrong values in the long call": (
        "attention-budget", lean_unless_long(forward_is_right=False), "`forward` is wrong"
    ),
    "wrong gradients in the long call": (
        "attention-budget", lean_unless_long(forward_is_right=True), "the gradient of `q` is wrong"
    ),
    "zeros for long sequences": (
        "attention-forward",
        instead("attention-forward", lambda q, *_: len(q) > 9, lambda q, k, v, *_: 0 * v),
        "the result is wrong",
    ),
    "the vectors for long inputs": (
        "hessian-vector-product",
        instead(
            "hessian-vector-product", lambda f, x, v: x[0].numel() > 9, lambda f, x, v: v
        ),
        "the result is wrong",
    ),
    "one call and no result": (
        "per-sample-gradients",
        instead("per-sample-gradients", lambda m, loss, x, y: len(x) > 9, one_model_call),
        "the result is wrong",
    ),
    "forward in a loop": (
        "per-sample-gradients", one_call_of_forward_for_each_sample, "the model is called 31 times"
    ),
    "differences under vmap": (
        "hessian-vector-product", differences_under_vmap, "next to the inputs"
    ),
    "runs PyTorch's checkpoint before a Function": (
        "checkpointed-block",
        lambda block, x: Passed.apply(checkpoint(block, x, use_reentrant=False)),
        "something like torch.utils.checkpoint dropped",
    ),
    "solves one of the systems by the kernel": (
        "vmap-solve",
        SOLVES_ONE,
        "the kernel does not solve the systems of all samples",
    ),
    "another built-in convolution": (
        "plain-conv1d",
        spoiled(RIGHT["plain-conv1d"], forward=convolved_by_another_built_in),
        "The built-in `conv_tbc` does the work",
    ),
    "reverses the gradient of one column": (
        "reversal-that-travels",
        reversed_in_one_column,
        "the gradient of x is 1 times grad_output",
    ),
    "finds only large differences": (
        "lost-gradients",
        only_large_differences,
        "makes the gradient smaller by a tenth",
    ),
    "gives the gradient to other elements": (
        "gradient-penalty",
        penalty_of_flipped_parameters,
        "its gradient with respect to the critic's 0.weight is wrong",
    ),
    "counts its calls": ("lost-gradients", lost_by_counting(), "your function returns"),
    "wrong values where the gradient counts": (
        "reversal-that-travels",
        instead("reversal-that-travels", lambda x, s: x.shape == (8, 2), lambda x, s: -s * x),
        "the result is wrong",
    ),
    "no rounding where the gradient counts": (
        "eight-bits",
        instead("eight-bits", lambda w: w.requires_grad, lambda w: 1 * w),
        "requires no gradient",
    ),
    "bytes": ("scaled-sigmoid", keeping_bytes(bytes), "`ctx.kept`"),
    "an array of bytes": ("scaled-sigmoid", keeping_bytes(bytearray), "`ctx.kept`"),
    "a view of bytes": ("scaled-sigmoid", keeping_bytes(memoryview), "`ctx.kept`"),
    "a list of bytes": (
        "scaled-sigmoid",
        keeping_bytes(lambda data: [data[i : i + 4] for i in range(0, len(data), 4)]),
        "`ctx.kept`",
    ),
    "a text": ("scaled-sigmoid", keeping_bytes(lambda data: data.decode("latin1")), "`ctx.kept`"),
    "a large integer": (
        "scaled-sigmoid",
        keeping_bytes(lambda data: int.from_bytes(data, "little")),
        "`ctx.kept`",
    ),
    "the log-sum-exp of SciPy": (
        "log-sum-exp",
        spoiled(RIGHT["log-sum-exp"], forward=log_sum_exp_of_scipy, backward=share_of_sum),
        "The built-in `logsumexp` does the work",
    ),
    "forward mode by a name from before": (
        "square",
        spoiled(RIGHT["square"], backward=by_forward_mode),
        "`backward` lets autograd differentiate",
    ),
    "the built-in attention for masks": (
        "attention-forward",
        attending_to_masks,
        "scaled_dot_product_attention does the work",
    ),
    "no gradient for many numbers": (
        "scaled-sigmoid",
        no_gradient_if_large(),
        "in a call that the grader measures, the gradient of `x`",
    ),
    "weights in columns": (
        "attention-budget",
        saving_columns_of_weights(),
        "bytes are saved for `backward`",
    ),
    "data in a stride": ("elu-by-output", saving_also(strided), "can hold data"),
    "data in a number of dims": (
        "elu-by-output",
        saving_also(lambda x, y: [y.detach()[(None,) * 9]]),
        "can hold data",
    ),
    "data in a pattern of None": (
        "elu-by-output",
        saving_also(lambda x, y: [y if bit else None for bit in range(40)]),
        "can hold data",
    ),
    "no C++": ("soft-threshold-operator", operator_of_torch, "no operator in C++"),
    "the nearest digit": ("binary-digits", nearest_digit, "if all products with weights return"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse CSC")
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_does_not_pass(cheat: str) -> None:
    exercise, answer, words = CHEATS[cheat]

    verdict = judge(CATALOGUE[exercise], answer)

    assert verdict.status == "wrong"
    assert words in verdict.message


class Mode(Enum):
    REFLECT = "reflect"


class Point(NamedTuple):
    row: int
    column: int


@dataclass(slots=True)
class Settings:
    stride: tuple[int, int] = (2, 1)
    padding: int = 0
    eps: float = 1e-5


@dataclass
class Window:
    size: int
    point: Point


def in_range(x: Tensor, low: float) -> Tensor:
    return x.clamp(min=low)


def drawn_from(generator: torch.Generator) -> torch.Generator:
    torch.rand(2000, generator=generator)
    return generator


def scaled(slope: float, dims: tuple[int, ...]) -> Call:
    return lambda x: slope * x.sum(dims)


def made_in_forward() -> Any:
    @dataclass
    class Local:
        slope: float
        name: str = "leaky"

    return Local(0.1)


def named_in_forward() -> Any:
    return namedtuple("Saved", "rows columns")(2, 3)


ALLOWED: dict[str, Any] = {
    "a shape": torch.Size((2, 3, 4)),
    "dims": (0, 1),
    "a range": range(3),
    "a slope": 0.1,
    "a NumPy number": np.float64(0.1),
    "a mode": "reflect",
    "subscripts": "bhqd,bhkd->bhqk",
    "a flag": True,
    "nothing": None,
    "options": {"reduction": "mean", "padding": 2, "dtype": torch.float64},
    "a seed": 2**63 + 1,
    "a device and a layout": (torch.device("cpu"), torch.strided, torch.contiguous_format),
    "limits of a dtype": (torch.finfo(torch.float32), np.dtype("f4")),
    "slices": (slice(0, 2), slice(None), Ellipsis),
    "an enum": Mode.REFLECT,
    "a named tuple": Point(1, 2),
    "an object with slots": Settings(),
    "nested objects": Window(3, Point(1, 2)),
    "a namespace": SimpleNamespace(stride=2, padding=1),
    "a function": in_range,
    "a part of a function": partial(in_range, low=0.5),
    "functions of libraries": (torch.exp, torch.nn.functional.gelu, math.exp, np.exp),
    "a lambda": lambda x: 2 * x,
    "a function with numbers of its own": scaled(0.5, (2, 3)),
    "iterators over dims": (iter((0, 1)), reversed([0, 1]), itertools.repeat(0, 3)),
    "a class": Window,
    "a module": torch,
    "a layer without weights": torch.nn.Softmax(dim=-1),
    "random numbers": torch.Generator().manual_seed(0),
    "random numbers after some draws": drawn_from(torch.Generator().manual_seed(7)),
    "types and functions of NumPy and SciPy": (np.dtype("f4"), np.exp, scipy.special.erf),
    "an object of a local class": made_in_forward(),
    "a local named tuple": named_in_forward(),
    "a setting": torch.autocast("cpu", enabled=False),
    "an exact number": (Fraction(1, 3), Decimal("0.1")),
    "an ordered dict": OrderedDict(stride=2, padding=1),
    "a time": (1.5, datetime.now()),
}


@pytest.mark.parametrize("kind", ALLOWED)
def test_a_ctx_may_hold_what_is_no_tensor(kind: str) -> None:
    x = torch.randn(3, 5, dtype=torch.float64)

    for check in (no_tensor_on_ctx, no_copy_on_ctx):
        told = check(keeping(lambda x: ALLOWED[kind]), (x,))

        assert told is None, told.message


def test_a_ctx_may_hold_shapes_words_and_flags() -> None:
    assert copy_on_ctx(SimpleNamespace(**{str(n): ALLOWED[k] for n, k in enumerate(ALLOWED)}))
    few = ("a shape", "dims", "a slope", "a mode", "subscripts", "a flag", "options", "a seed")
    assert copy_on_ctx(SimpleNamespace(**{str(n): ALLOWED[k] for n, k in enumerate(few)})) is None


def keeping(kept: Call) -> Any:
    """Return a Function that keeps something made from its input."""

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.kept = kept(x.detach())
            return 2 * x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return 2 * g

    return Keeping


def class_with(x: Any) -> type:
    class Box:
        data = x

    return Box


def object_array(x: Tensor) -> Any:
    array = np.empty((), dtype=object)
    array[()] = x
    return array


def after_many(x: Tensor) -> Any:
    return [*(object() for _ in range(3000)), x]


def numbers(x: Tensor) -> list[float]:
    return x.flatten().tolist()  # type: ignore[no-any-return]


def keyword_only(x: Tensor) -> Any:
    def f(*, x: Tensor = x) -> Tensor:
        return x

    return f


def recall(value: Any) -> Any:
    return lambda: value


def annotated(x: Tensor) -> Any:
    def f(y: Any) -> None:
        pass

    f.__annotations__["y"] = x
    return f


def with_field(x: Tensor) -> Any:
    return make_dataclass("Box", [("a", x)])  # type: ignore[list-item]


def with_fields(x: Tensor) -> Any:
    names = [f"a{at}_{byte}" for at, byte in enumerate(x.numpy().tobytes())]
    return namedtuple("Saved", names)  # type: ignore[misc]


def finalized(x: Tensor) -> Any:
    return weakref.finalize(KEPT, print, x)


def stated(x: Tensor) -> torch.Generator:
    generator = torch.Generator()
    state = generator.get_state()
    state[24 : 24 + x.nbytes] = x.contiguous().view(torch.uint8).flatten()
    return generator.set_state(state)


def spelled(x: Tensor) -> Any:
    hexed = x.numpy().tobytes().hex()
    return [{hexed[at : at + 4]: None} for at in range(0, len(hexed), 4)]


def nested(x: Tensor) -> Any:
    chain: Any = ()
    for byte in x.numpy().tobytes():
        chain = (chain, [None] * (byte % 4))
    return chain


def described(**attributes: Any) -> type:
    return type("Box", (), attributes)


def weighted(thing: Any, x: Tensor) -> Any:
    thing.weight = x
    return thing


class Array(np.ndarray[Any, Any]):
    pass


class Slotted(Decimal):
    __slots__ = ("data",)


class Zone(tzinfo):
    pass


def slotted(x: Tensor) -> Any:
    number = Slotted("0.1")
    number.data = x
    return number


def all_bytes(x: Tensor) -> int:
    return int.from_bytes(x.numpy().tobytes(), "little")


def marked(x: Tensor) -> Any:
    def f() -> Tensor:
        return f.x  # type: ignore[attr-defined, no-any-return]

    f.x = x  # type: ignore[attr-defined]
    return f


KEPT = torch.ones(3)
HIDDEN: dict[str, Call] = {
    "slice": lambda x: slice(x),
    "exception": lambda x: ValueError(x),
    "list of parameters": lambda x: torch.nn.ParameterList([x]),
    "local class": class_with,
    "object of a local class": lambda x: class_with(x)(),
    "itemgetter": lambda x: itemgetter(x),
    "dict view": lambda x: {0: x}.values(),
    "dict key": lambda x: {x: 0},
    "product": lambda x: itertools.product([x]),
    "iterator": lambda x: iter([x]),
    "iterators in a dict": lambda x: {"kept": [reversed([x]), itertools.repeat(x)]},
    "generator": lambda x: (it for it in (x,)),
    "function": lambda x: lambda: x,
    "functions in a list": lambda x: [recall(it) for it in (x,)],
    "function with a list": lambda x: recall(numbers(x)),
    "object array": object_array,
    "behind an array": lambda x: x.numpy()[:0],
    "after many objects": after_many,
    "keyword-only default": keyword_only,
    "attribute of a function": marked,
    "method of a tensor": lambda x: x.mul,
    "module": lambda x: vars(module := ModuleType("m")).update(x=x) or module,
    "weak reference": lambda x: weakref.ref(KEPT),
    "storage": lambda x: x.untyped_storage(),
    "list in a slice": lambda x: slice(numbers(x)),
    "list of truth values": lambda x: (x > 0).flatten().tolist(),
    "list of choices": lambda x: ["a" if v > 0 else None for v in numbers(x)],
    "list of two objects": lambda x: [(int, str)[v > 0] for v in numbers(x)],
    "exact numbers": lambda x: [Decimal(v) for v in numbers(x)],
    "fractions": lambda x: [Fraction(v) for v in numbers(x)],
    "complex numbers": lambda x: [complex(v, v) for v in numbers(x)],
    "counts": lambda x: [itertools.count(int(v * 2**20)) for v in numbers(x)],
    "ranges": lambda x: [range(int(v * 2**20)) for v in numbers(x)],
    "keys": lambda x: {str(v): None for v in numbers(x)},
    "a text of a local class": lambda x: class_with(str(numbers(x))),
    "state of a generator": lambda x: random.Random(str(numbers(x))),
    "buffer": lambda x: io.BytesIO(x.numpy().tobytes()),
    "pattern": lambda x: re.compile(str(numbers(x))),
    "metadata of a dtype": lambda x: np.dtype("f4", metadata={"x": x}),
    "function of NumPy": lambda x: np.frompyfunc(lambda _: x, 1, 1),
    "annotation": annotated,
    "type of a field": with_field,
    "names of fields": with_fields,
    "finalizer": finalized,
    "callback of a weak reference": lambda x: weakref.ref(KEPT, lambda _: x),
    "docstring of a class": lambda x: described(__doc__=x),
    "fields of a class": lambda x: described(_fields=(x,)),
    "docstring of a property": lambda x: property(doc=x),
    "attribute of a static method": lambda x: weighted(staticmethod(abs), x),
    "attribute of a view": lambda x: weighted(np.zeros(3).view(Array)[:0], x),
    "attribute of a method of a named tuple": lambda x: weighted(
        namedtuple("Saved", "row")._replace, x
    ),
    "slot of a number": slotted,
    "time zone": lambda x: time(0, tzinfo=weighted(Zone(), x)),
    "iterator of a long range": lambda x: iter(range(n := all_bytes(x), n + 1)),
    "lengths of deques": lambda x: [deque(maxlen=b) for b in x.numpy().tobytes()],
    "one of four types": lambda x: [(list, dict, set, deque)[b % 4]() for b in x.numpy().tobytes()],
    "state of a PyTorch generator": stated,
    "keys of many dicts": spelled,
    "lengths of many lists": nested,
    "devices": lambda x: [torch.device("cuda", b % 128) for b in x.numpy().tobytes()],
    "view of bytes": lambda x: memoryview(x.numpy().tobytes())[:1],
}


@pytest.mark.parametrize("place", HIDDEN)
def test_a_ctx_hides_no_numbers(place: str) -> None:
    x = torch.randn(2, 8, dtype=torch.float64)
    told = no_tensor_on_ctx(keeping(HIDDEN[place]), (x,))
    told = told or no_copy_on_ctx(keeping(HIDDEN[place]), (x,))

    assert told is not None
    assert "`ctx.kept`" in told.message or "attributes of `ctx`" in told.message


@pytest.mark.parametrize("kept", [lambda ctx, x: setattr(ctx, "needs_input_grad", (x,)),
                                  lambda ctx, x: setattr(ctx, "needs_input_grad", {True: x}),
                                  lambda ctx, x: ctx.metadata.update(x=x),
                                  lambda ctx, x: ctx.metadata.update(traceback_=x)])  # fmt: skip
def test_a_ctx_hides_no_tensor_in_its_own_attributes(kept: Call) -> None:
    class Hiding(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            kept(ctx, inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return 2 * g

    told = no_tensor_on_ctx(Hiding, (torch.randn(2, 8),))

    assert told is not None
    assert "holds a tensor" in told.message


SMALL, LARGE = (3, 5), (40, 10)
ELSEWHERE: dict[str, tuple[tuple[int, ...], Callable[[int, Tensor], Any]]] = {
    "an attribute of a logger": (
        SMALL,
        lambda call, x: setattr(logging.getLogger(f"call {call}"), "data", x),
    ),
    "one attribute for all calls": (
        SMALL,
        lambda _, x: setattr(logging.getLogger("all calls"), "data", x),
    ),
    "a level of logging": (SMALL, logging.addLevelName),
    "the name of a level": (
        LARGE,
        lambda call, x: logging.addLevelName(call, str(x.tolist())),
    ),
    "bytes": (LARGE, lambda call, x: logging.addLevelName(call, x.numpy().tobytes())),
    "one entry for all calls with the same inputs": (
        LARGE,
        lambda _, x: BY_CONTENT.update({float(x.sum()): x.tolist()}),
    ),
    "a sparse tensor": (SMALL, lambda call, x: BY_CONTENT.update({call: x.to_sparse_csc()})),
}
BY_CONTENT: dict[float, Any] = {}
SHARED: list[Any] = []
HARMLESS: dict[str, Callable[[int, Tensor], Any]] = {
    "nothing": lambda _, x: None,
    "a table of constants": lambda _, x: table_of(len(x)),
    "the shapes of all calls": lambda _, x: SHARED.append((x.shape, x.dtype)),
    "a seed": lambda _, x: torch.manual_seed(3),
    "tensors in a cycle": lambda _, x: (loop := [x]).append(loop),  # type: ignore[arg-type]
}


@cache
def table_of(n: int) -> Tensor:
    return torch.ones(n, n).tril()


def with_effect(effect: Callable[[int, Tensor], Any]) -> Any:
    calls = itertools.count(10**6)

    class WithEffect(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            effect(next(calls), x.detach())
            ctx.save_for_backward(x)
            return 2 * x

    return WithEffect


@pytest.mark.filterwarnings("ignore:Sparse CSC")
@pytest.mark.parametrize("place", ELSEWHERE)
def test_nothing_is_kept_outside_of_ctx(place: str) -> None:
    shape, keep = ELSEWHERE[place]

    told = nothing_outlives_the_call(with_effect(keep), (torch.randn(shape).double(),))

    assert told is not None
    assert "Something other than `ctx` holds it" in told.message


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=str)
@pytest.mark.parametrize("what", HARMLESS)
def test_a_call_may_leave_behind_what_holds_no_data(what: str, shape: tuple[int, ...]) -> None:
    function = with_effect(HARMLESS[what])

    assert nothing_outlives_the_call(function, (torch.randn(shape),)) is None


def test_numbers_in_several_attributes_count_together() -> None:
    x = torch.randn(2, 8)
    few = SimpleNamespace(a=numbers(x)[:8], b=numbers(x)[8:])

    told = copy_on_ctx(few, (x,))

    assert told is not None
    assert "hold 16 numbers" in told.message
