"""Answers to the exercises of lesson 03."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from answers.making import Rewriting, Spoiling, Wrong, double, made, rewritten, solved
from autograd_course import functions

SOLVED = solved("03_gradient_patterns")
RIGHT = {
    "gelu": SOLVED["GELU"],
    "swish": SOLVED["Swish"],
    "learnable-swish": SOLVED["LearnableSwish"],
    "broadcast-multiply": SOLVED["BroadcastMultiply"],
    "max-with-ties": SOLVED["MaxWithTies"],
    "soft-rank": SOLVED["SoftRank"],
    "gather-rows": SOLVED["GatherRows"],
    "locate-mean-pooling": "5c",
    "predict-patterns": [6, 2, 0.75, 101, 0],
}
spoiling = Spoiling(RIGHT)
backward, forward, answer = spoiling.backward, spoiling.forward, spoiling.answer


# GELU and Swish


def gelu_by_normal(ctx: Any, x: Tensor) -> Tensor:
    cdf = torch.special.ndtr(x)
    ctx.save_for_backward(x, cdf)
    return x * cdf


def gelu_density(x: Tensor) -> Tensor:
    return (-0.5 * x**2).exp() / math.sqrt(2 * math.pi)


def gelu_by_tanh(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_built_in(ctx: Any, x: Tensor) -> Tensor:
    ctx.save_for_backward(x)
    return F.gelu(x)


def swish_saving(*kept: str) -> Any:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        all_of_them = {"x": x, "s": s, "y": x * s}
        y = all_of_them["y"]
        ctx.save_for_backward(*(all_of_them[name] for name in kept))
        return y

    return forward


def swish_by_steps(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
    y = x * x.sigmoid()
    return g * (y + x.sigmoid() * (1 - y))


def swish_saving_its_derivative(ctx: Any, x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    ctx.save_for_backward(s * (1 + x * (1 - s)))
    return x * s


# Learnable Swish and the broadcast product


def learnable(beta_gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, beta: Tensor, g: Tensor) -> Any:
        s = torch.sigmoid(beta * x)
        each = g * x**2 * s * (1 - s)
        return g * (s + beta * x * s * (1 - s)), beta_gradient(each, beta)

    return backward


def without_inner_beta(ctx: Any, x: Tensor, beta: Tensor, g: Tensor) -> Any:
    s = torch.sigmoid(beta * x)
    return g * (s + x * s * (1 - s)), (g * x**2 * s * (1 - s)).sum().reshape(beta.shape)


def product(reduce: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        return reduce(y * g, x), reduce(x * g, y)

    return backward


def over_leading_axes(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum(tuple(range(grad.dim() - like.dim()))) if grad.dim() > like.dim() else grad


def with_empty_dim(grad: Tensor, like: Tensor) -> Tensor:
    """Sum over the leading dimensions. If there are none, ``dim=()`` sums over all dimensions."""
    grad = grad.sum(tuple(range(grad.dim() - like.dim())))
    ones = [axis for axis, length in enumerate(like.shape) if length == 1]
    return grad.sum(ones, keepdim=True) if ones else grad


def without_keepdim(grad: Tensor, like: Tensor) -> Tensor:
    axes = [a for a, n in enumerate((1,) * (grad.dim() - like.dim()) + like.shape) if n == 1]
    return grad.sum(axes) if axes and grad.shape != like.shape else grad


def in_one_sum(grad: Tensor, like: Tensor) -> Tensor:
    shape = (1,) * (grad.dim() - like.dim()) + tuple(like.shape)
    axes = [a for a, n in enumerate(shape) if n == 1 and grad.shape[a] != 1]
    return (grad.sum(axes, keepdim=True) if axes else grad).reshape(like.shape)


# Maximum


def winners(share: Any) -> Any:
    def backward(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
        if not ctx.keepdim:
            y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
        return g * share(x, (x == y).to(g.dtype), ctx.dim), None, None

    return backward


def nearly_tied(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    if not ctx.keepdim:
        y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
    near = torch.isclose(x, y)
    return g * near / near.sum(ctx.dim, keepdim=True), None, None


def all_in_full(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask


def over_the_whole_axis(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask / x.shape[dim]


def over_all_winners(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return mask / mask.sum()


def first_alone(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    return torch.zeros_like(mask).scatter(dim, mask.argmax(dim, keepdim=True), 1.0)


def max_scattered(ctx: Any, x: Tensor, y: Tensor, g: Tensor) -> Any:
    """Share the gradient with ``torch.where`` and a count, as if the values were integers."""
    if not ctx.keepdim:
        y, g = y.unsqueeze(ctx.dim), g.unsqueeze(ctx.dim)
    count = (x == y).count_nonzero(ctx.dim).unsqueeze(ctx.dim)
    return torch.where(x == y, g / count, 0.0), None, None


# Soft rank


def ranking(gradient: Any) -> Any:
    def backward(ctx: Any, x: Tensor, g: Tensor) -> Any:
        s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / ctx.tau)
        return gradient(s * (1 - s) / ctx.tau, g, ctx.tau), None

    return backward


def with_all_pairs(ctx: Any, x: Tensor, tau: float) -> Tensor:
    s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau)
    ctx.save_for_backward(s)
    ctx.tau = tau
    return s.sum(-1) + 0.5


def from_all_pairs(ctx: Any, s: Tensor, g: Tensor) -> Any:
    slope = s * (1 - s) / ctx.tau
    return ((g[..., :, None] - g[..., None, :]) * slope).sum(-1), None


# Tables


def gathered(place: Any) -> Any:
    def backward(ctx: Any, index: Tensor, g: Tensor) -> Any:
        return place(g.new_zeros(ctx.shape), index, g), None

    return backward


def assigned(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    zeros[index] = g
    return zeros


def added_by_operator(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    zeros[index] += g
    return zeros


def accumulated(zeros: Tensor, index: Tensor, g: Tensor) -> Tensor:
    return zeros.index_put((index,), g, accumulate=True)


def by_one_hot(ctx: Any, index: Tensor, g: Tensor) -> Any:
    hot = F.one_hot(index.reshape(-1), ctx.shape[0]).to(g.dtype)
    return hot.t() @ g.reshape(-1, ctx.shape[1]), None


def in_single(ctx: Any, index: Tensor, g: Tensor) -> Any:
    rows = g.reshape(-1, ctx.shape[1])
    return torch.zeros(ctx.shape).index_add(0, index.reshape(-1), rows), None


def picked_again(ctx: Any, index: Tensor, g: Tensor) -> Any:
    return g.reshape(-1, ctx.shape[1])[index], None


ALSO_RIGHT = {
    "GELU of the package": ("gelu", functions.GELU),
    "Swish of the package": ("swish", functions.Swish),
    "learned Swish of the package": ("learnable-swish", functions.LearnedSwish),
    "product of the package": ("broadcast-multiply", functions.Multiply),
    "maximum of the package": ("max-with-ties", functions.Max),
    "soft rank of the package": ("soft-rank", functions.SoftRank),
    "lookup of the package": ("gather-rows", functions.Lookup),
    "GELU by the normal distribution function": (
        "gelu",
        made(gelu_by_normal, lambda ctx, x, cdf, g: g.mul(cdf + x * gelu_density(x))),
    ),
    "Swish's derivative by its own value": ("swish", made(swish_saving("x"), swish_by_steps)),
    "Swish that saves its derivative": (
        "swish",
        made(swish_saving_its_derivative, lambda ctx, slope, g: g * slope),
    ),
    "β's gradient by sum_to_size": (
        "learnable-swish",
        answer("learnable-swish", learnable(lambda e, beta: e.sum_to_size(beta.shape))),
    ),
    "broadcasting by sum_to_size": (
        "broadcast-multiply",
        answer(
            "broadcast-multiply",
            product(lambda grad, like: grad.sum_to_size(like.shape)),
        ),
    ),
    "broadcasting in one sum and a reshape": (
        "broadcast-multiply",
        answer("broadcast-multiply", product(in_one_sum)),
    ),
    "max by where and a count": (
        "max-with-ties",
        answer("max-with-ties", max_scattered),
    ),
    "soft rank by differences of g": (
        "soft-rank",
        answer(
            "soft-rank",
            ranking(lambda s, g, tau: (s * (g[..., :, None] - g[..., None, :])).sum(-1)),
        ),
    ),
    "rows by index_put": (
        "gather-rows",
        answer("gather-rows", gathered(accumulated)),
    ),
    "rows by a one-hot matrix": ("gather-rows", answer("gather-rows", by_one_hot)),
    "a line, typed freely": ("locate-mean-pooling", "line 5, C"),
    "numbers as text": ("predict-patterns", "6, 2, 0.75, 101, 0"),
}


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("03_gradient_patterns", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "learnable-swish",
        "forgets the slope for β",
        "gradient-mismatch",
        changed("LearnableSwish", ("x * x * slope * grad_output", "x * s * grad_output")),
        "β is inside the sigmoid",
    ),
    Wrong(
        "learnable-swish",
        "forgets an x for β",
        "gradient-mismatch",
        changed("LearnableSwish", ("x * x * slope * grad_output", "x * slope * grad_output")),
        "lacks a factor x",
    ),
    Wrong(
        "gather-rows",
        "lets one_hot count the rows",
        "gradient-shape",
        changed(
            "GatherRows",
            (
                "rows = grad_output",
                "hot = torch.nn.functional.one_hot(index.reshape(-1)).to(grad_output)\n"
                "rows = grad_output",
            ),
            (
                "grad_output.new_zeros(ctx.shape).index_add(0, index.reshape(-1), rows)",
                "hot.t() @ rows",
            ),
        ),
        "because the largest index is",
    ),
    Wrong(
        "gather-rows",
        "takes the shape of the output",
        "gradient-shape",
        changed(
            "GatherRows", ("grad_output.new_zeros(ctx.shape)", "torch.zeros_like(grad_output)")
        ),
        "as many as the output",
    ),
    Wrong(
        "gather-rows",
        "scatters with a column of indices",
        "gradient-mismatch",
        changed(
            "GatherRows",
            ("index_add(0, index.reshape(-1), rows)", "scatter_add(0, index.reshape(-1, 1), rows)"),
        ),
        "Only the first column",
    ),
    Wrong(
        "learnable-swish",
        "forgets β inside the sigmoid",
        "gradient-mismatch",
        changed("LearnableSwish", ("s = torch.sigmoid(beta * x)", "s = torch.sigmoid(x)")),
        "so β is missing",
    ),
    Wrong(
        "learnable-swish",
        "multiplies two sums",
        "gradient-mismatch",
        changed(
            "LearnableSwish",
            ("(x * x * slope * grad_output).sum()", "((x * x * slope).sum() * grad_output.sum())"),
        ),
        "summed separately",
    ),
    Wrong(
        "learnable-swish",
        "multiplies by β outside",
        "forward-mismatch",
        changed(
            "LearnableSwish",
            ("return x * torch.sigmoid(beta * x)", "return beta * x * torch.sigmoid(x)"),
        ),
        "β is outside",
    ),
    Wrong(
        "broadcast-multiply",
        "sums over an empty list of dims",
        "gradient-shape",
        changed(
            "BroadcastMultiply",
            (
                "while grad.dim() > len(shape):",
                "grad = grad.sum(tuple(range(grad.dim() - len(shape))))\n"
                "while grad.dim() > len(shape):",
            ),
        ),
        "summed over all dims",
    ),
    Wrong(
        "broadcast-multiply",
        "sums over dims of size 1 before the leading ones are gone",
        "gradient-shape",
        changed(
            "BroadcastMultiply",
            (
                "while grad.dim() > len(shape):",
                "for dim, size in enumerate(shape):\n"
                "    if size == 1:\n"
                "        grad = grad.sum(dim, keepdim=True)\n"
                "while grad.dim() > len(shape):",
            ),
        ),
        "so count from the last",
    ),
    Wrong(
        "broadcast-multiply",
        "compares the first dims",
        "batch-dimension",
        changed(
            "BroadcastMultiply",
            (
                "while grad.dim() > len(shape):",
                "dims = [k for k, (a, b) in enumerate(zip(grad.shape, shape)) if a != b]\n"
                "if dims:\n"
                "    grad = grad.sum(dims, keepdim=True)\n"
                "return grad.reshape(shape)\n"
                "while grad.dim() > len(shape):",
            ),
        ),
        "so count from the last",
    ),
    Wrong(
        "broadcast-multiply",
        "sums over an empty list of dims, then reshapes",
        "backward-raises",
        changed(
            "BroadcastMultiply",
            (
                "while grad.dim() > len(shape):",
                "extra = grad.dim() - len(shape)\n"
                "dims = [*range(extra), *(extra + k for k, n in enumerate(shape) if n == 1)]\n"
                "return grad.sum(dims, keepdim=True).reshape(shape)\n"
                "while grad.dim() > len(shape):",
            ),
        ),
        "summed over all dims",
    ),
    Wrong(
        "broadcast-multiply",
        "leaves a gradient alone that has as many elements",
        "unreduced-broadcast",
        changed(
            "BroadcastMultiply",
            (
                "while grad.dim() > len(shape):",
                "if grad.numel() == shape.numel():\n    return grad\n"
                "while grad.dim() > len(shape):",
            ),
        ),
    ),
    Wrong(
        "broadcast-multiply",
        "sums over one leading dim",
        "unreduced-broadcast",
        changed("BroadcastMultiply", ("while grad.dim()", "if grad.dim()")),
        "use `while` instead of `if`",
    ),
    Wrong(
        "broadcast-multiply",
        "sums over the last dims",
        "gradient-shape",
        changed("BroadcastMultiply", ("grad.sum(0)", "grad.sum(-1)")),
        "are the first ones",
    ),
    Wrong(
        "broadcast-multiply",
        "loses the dims of size 1",
        "batch-dimension",
        changed("BroadcastMultiply", ("keepdim=True", "keepdim=False")),
        "It must keep it",
    ),
    Wrong(
        "broadcast-multiply",
        "sums to the other shape",
        "gradient-shape",
        changed(
            "BroadcastMultiply",
            ("y * grad_output, x.shape", "y * grad_output, y.shape"),
            ("x * grad_output, y.shape", "x * grad_output, x.shape"),
        ),
        "to the shape of its own input",
    ),
    Wrong(
        "max-with-ties",
        "adds a second dim",
        "unreduced-broadcast",
        changed("MaxWithTies", ("if not ctx.keepdim:", "if True:")),
        "only if it was not kept",
    ),
    Wrong(
        "max-with-ties",
        "compares with the largest of all",
        "non-finite",
        changed("MaxWithTies", ("x == y", "x == x.max()")),
        "with its own maximum",
    ),
    Wrong(
        "max-with-ties",
        "ignores keepdim",
        "forward-mismatch",
        changed("MaxWithTies", ("keepdim=keepdim", "keepdim=False")),
        "ignores keepdim",
    ),
    Wrong(
        "max-with-ties",
        "takes the maximum of all",
        "forward-mismatch",
        changed("MaxWithTies", ("x.amax(dim, keepdim=keepdim)", "x.max()")),
        "of the whole tensor",
    ),
    Wrong(
        "max-with-ties",
        "ignores dim",
        "forward-mismatch",
        changed("MaxWithTies", ("x.amax(dim, keepdim", "x.amax(-1, keepdim")),
        "ignores dim",
    ),
    Wrong(
        "soft-rank",
        "forgets the half",
        "forward-mismatch",
        changed("SoftRank", ("0.5 + torch", "torch")),
        "is missing",
    ),
    Wrong(
        "soft-rank",
        "ranks the other way around",
        "forward-mismatch",
        changed(
            "SoftRank",
            (
                "difference = x.unsqueeze(-1) - x.unsqueeze(-2)",
                "difference = x.unsqueeze(-2) - x.unsqueeze(-1)",
            ),
        ),
        "wrong sign",
    ),
    Wrong(
        "soft-rank",
        "multiplies by the temperature",
        "forward-mismatch",
        changed("SoftRank", ("difference / tau", "difference * tau")),
        "divides by it",
    ),
    Wrong(
        "gelu",
        "gives x itself to erf",
        "forward-mismatch",
        changed(
            "GELU",
            (
                "return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))",
                "return 0.5 * x * (1 + torch.erf(x))",
            ),
        ),
        "erf gets x itself",
    ),
    Wrong(
        "gelu",
        "forgets the half of Φ",
        "forward-mismatch",
        changed("GELU", ("return 0.5 * x", "return x")),
        "½ of Φ",
    ),
]

edited = Rewriting("03_gradient_patterns")
EDITED = [
    edited(
        "gather-rows",
        "does not flatten the index",
        "backward-raises",
        ("index.reshape(-1), rows", "index, grad_output"),
        hint="This index has 2 dims",
    ),
    edited(
        "gather-rows",
        "regroups the rows",
        "batch-dimension",
        ("grad_output.reshape(-1, ctx.shape[1])", "grad_output.reshape(ctx.shape[1], -1).t()"),
        hint="only regroups",
    ),
    edited(
        "gather-rows",
        "reads columns",
        "forward-mismatch",
        ("return table[index]", "return table[:, index]"),
        hint="reads columns",
    ),
    edited(
        "gather-rows",
        "reads single numbers",
        "forward-mismatch",
        ("return table[index]", "return table.take(index)"),
        hint="single numbers",
    ),
    edited(
        "swish",
        "takes x for the first term",
        "gradient-mismatch",
        ("s * (1 + x * (1 - s))", "(x + s * (1 - s))"),
        hint="The first term is x",
    ),
    edited(
        "learnable-swish",
        "takes the mean of grad_output",
        "gradient-mismatch",
        ("(x * x * slope * grad_output).sum()", "((x * x * slope).sum() * grad_output.mean())"),
        hint="the mean of grad_output",
    ),
    edited(
        "broadcast-multiply",
        "sums before it multiplies",
        "unreduced-broadcast",
        (
            "return reduced(y * grad_output, x.shape), reduced(x * grad_output, y.shape)",
            "return y * reduced(grad_output, x.shape), x * reduced(grad_output, y.shape)",
        ),
        hint="summed before it is multiplied",
    ),
    edited(
        "broadcast-multiply",
        "takes means",
        "constant-factor",
        ("grad.sum(0)", "grad.mean(0)"),
        hint="This takes their mean",
    ),
    edited(
        "broadcast-multiply",
        "takes the first row",
        "batch-dimension",
        ("grad.sum(0)", "grad[0]"),
        hint="the first row",
    ),
    edited(
        "broadcast-multiply",
        "keeps the leading dim",
        "unreduced-broadcast",
        ("grad = grad.sum(0)", "return grad.sum_to_size(1, *grad.shape[1:])"),
        hint="without keepdim",
    ),
    edited(
        "broadcast-multiply",
        "compares the numbers of dims",
        "unreduced-broadcast",
        (
            "return reduced(y * grad_output, x.shape), reduced(x * grad_output, y.shape)",
            "of_x, of_y = y * grad_output, x * grad_output\n"
            "        of_x = of_x.sum_to_size(x.shape) if x.dim() < y.dim() else of_x\n"
            "        of_y = of_y.sum_to_size(y.shape) if y.dim() < x.dim() else of_y\n"
            "        return of_x, of_y",
        ),
        hint="A dim of size 1 was copied",
    ),
    edited(
        "max-with-ties",
        "divides by the length of the slice",
        "constant-factor",
        ("winners.sum(ctx.dim, keepdim=True)", "x.shape[ctx.dim]"),
        hint="the length of the slice",
    ),
    edited(
        "max-with-ties",
        "takes the softmax",
        "gradient-mismatch",
        (
            "return grad_output * winners / winners.sum(ctx.dim, keepdim=True), None, None",
            "return grad_output * x.softmax(ctx.dim), None, None",
        ),
        hint="softmax is the gradient of logsumexp",
    ),
    edited(
        "max-with-ties",
        "returns the indices, too",
        "non-tensor-saved",
        ("x.amax(dim, keepdim=keepdim)", "x.max(dim, keepdim=keepdim)"),
        hint="the values alone",
    ),
    edited(
        "max-with-ties",
        "returns the index",
        "forward-mismatch",
        ("x.amax(dim, keepdim=keepdim)", "x.argmax(dim, keepdim=keepdim).to(x)"),
        hint="index of the maximum",
    ),
    edited(
        "max-with-ties",
        "takes the minimum",
        "forward-mismatch",
        ("x.amax(", "x.amin("),
        hint="This is the minimum",
    ),
    edited(
        "max-with-ties",
        "forgets the dim of the maximum",
        "backward-raises",
        (
            "y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)",
            "grad_output = grad_output.unsqueeze(ctx.dim)",
        ),
        hint="works with keepdim=True",
    ),
    edited(
        "soft-rank",
        "counts the dims from the first",
        "backward-raises",
        (
            "s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2))",
            "s = torch.sigmoid((x[:, None] - x[None, :])",
        ),
        hint="works for a vector",
    ),
    edited(
        "soft-rank",
        "sums the gradients first",
        "gradient-mismatch",
        (
            "(grad_output.unsqueeze(-1) * slope).sum(-2)",
            "grad_output.sum(-1, keepdim=True) * slope.sum(-2)",
        ),
        hint="by the sum of the gradients",
    ),
    edited(
        "soft-rank",
        "compares without the sigmoid",
        "forward-mismatch",
        ("torch.sigmoid(difference / tau)", "(difference > 0).to(x)"),
        hint="counts 0 or 1",
    ),
]

WRONG = [
    *EDITED,
    backward(
        "gelu",
        "a float32 gradient",
        "gradient-dtype",
        lambda ctx, x, g: (g * (torch.special.ndtr(x) + x * gelu_density(x))).float(),
    ),
    forward("gelu", "approximates by tanh", "forward-mismatch", gelu_by_tanh),
    backward(
        "gelu",
        "lets torch.func differentiate",
        "unneeded-function",
        lambda ctx, x, g: torch.func.vjp(lambda x: x * torch.special.ndtr(x), x)[1](g)[0],
    ),
    forward("gelu", "calls the built-in", "unneeded-function", gelu_built_in),
    backward(
        "gelu",
        "takes Φ alone, as if it were a gate",
        "missing-dependency",
        lambda ctx, x, g: g * torch.special.ndtr(x),
    ),
    backward(
        "gelu",
        "forgets x before the density",
        "gradient-mismatch",
        lambda ctx, x, g: g * (torch.special.ndtr(x) + gelu_density(x)),
    ),
    backward(
        "gelu",
        "forgets that erf's argument was scaled",
        "gradient-mismatch",
        lambda ctx, x, g: g * (torch.special.ndtr(x) + x * (-(x**2)).exp() / math.sqrt(math.pi)),
    ),
    Wrong(
        "swish",
        "saves input and sigmoid",
        "oversaved",
        made(swish_saving("x", "s"), lambda ctx, x, s, g: g * s * (1 + x * (1 - s))),
    ),
    Wrong(
        "swish",
        "saves output and sigmoid",
        "oversaved",
        made(swish_saving("y", "s"), lambda ctx, y, s, g: g * (s + y * (1 - s))),
        "Can `backward` compute one of them",
    ),
    Wrong(
        "swish",
        "saves the sigmoid and goes back by logit",
        "overflow",
        made(swish_saving("s"), lambda ctx, s, g: g * s * (1 + s.logit() * (1 - s))),
    ),
    Wrong(
        "swish",
        "saves the output, as of a sigmoid",
        "gradient-mismatch",
        made(swish_saving("y"), lambda ctx, y, g: g * (y + y.sigmoid() * (1 - y))),
    ),
    backward(
        "swish", "takes the sigmoid alone", "missing-dependency", lambda ctx, x, g: g * x.sigmoid()
    ),
    forward(
        "swish",
        "calls the built-in",
        "unneeded-function",
        lambda ctx, x: ctx.save_for_backward(x) or F.silu(x),
    ),
    backward(
        "learnable-swish",
        "does not sum for β",
        "unreduced-broadcast",
        learnable(lambda each, beta: each),
    ),
    backward(
        "learnable-swish",
        "averages for β",
        "constant-factor",
        learnable(lambda each, beta: each.mean().reshape(beta.shape)),
    ),
    backward(
        "learnable-swish",
        "sums for β, and loses its axis",
        "gradient-shape",
        learnable(lambda each, beta: each.sum()),
    ),
    backward(
        "learnable-swish",
        "no gradient for β",
        "missing-gradient",
        learnable(lambda each, beta: None),
    ),
    backward(
        "learnable-swish",
        "forgets the inner β",
        "gradient-mismatch",
        without_inner_beta,
        hint="lacks the inner derivative",
    ),
    backward(
        "learnable-swish",
        "forgets the inner β, and loses the axis of β",
        "gradient-mismatch",
        lambda ctx, x, beta, g: (without_inner_beta(ctx, x, beta, g)[0], (x * g).sum()),
        hint="your gradient of β has no dim",
    ),
    backward(
        "broadcast-multiply",
        "does not sum",
        "unreduced-broadcast",
        product(lambda grad, like: grad),
    ),
    backward(
        "broadcast-multiply",
        "sums over leading axes only",
        "unreduced-broadcast",
        product(over_leading_axes),
    ),
    backward(
        "broadcast-multiply",
        "sums over dim=()",
        "gradient-shape",
        product(with_empty_dim),
    ),
    backward(
        "broadcast-multiply", "loses axes of length 1", "gradient-shape", product(without_keepdim)
    ),
    backward(
        "broadcast-multiply",
        "exchanges the factors",
        "swapped-gradients",
        lambda ctx, x, y, g: ((x * g).sum_to_size(x.shape), (y * g).sum_to_size(y.shape)),
    ),
    backward("max-with-ties", "gives every winner all of it", "wrong-region", winners(all_in_full)),
    backward(
        "max-with-ties", "gives the first winner all of it", "kink-convention", winners(first_alone)
    ),
    backward("max-with-ties", "takes what is close for a tie", "kink-convention", nearly_tied),
    backward(
        "max-with-ties",
        "divides by the length of the axis",
        "constant-factor",
        winners(over_the_whole_axis),
    ),
    backward(
        "max-with-ties",
        "counts the winners of all slices",
        "constant-factor",
        winners(over_all_winners),
    ),
    backward(
        "max-with-ties",
        "does not give g its axis back",
        "backward-raises",
        lambda ctx, x, y, g: (g * (x == y), None, None),
    ),
    backward(
        "soft-rank",
        "takes the row alone",
        "missing-dependency",
        ranking(lambda s, g, tau: g * s.sum(-1)),
    ),
    backward(
        "soft-rank",
        "takes the column alone",
        "missing-dependency",
        ranking(lambda s, g, tau: -(g[..., None] * s).sum(-2)),
    ),
    backward(
        "soft-rank",
        "adds the column",
        "gradient-mismatch",
        ranking(lambda s, g, tau: g * s.sum(-1) + (g[..., None] * s).sum(-2)),
    ),
    backward(
        "soft-rank",
        "forgets the temperature",
        "constant-factor",
        ranking(lambda s, g, tau: tau * (s * (g[..., :, None] - g[..., None, :])).sum(-1)),
    ),
    Wrong("soft-rank", "keeps all pairs", "oversaved", made(with_all_pairs, from_all_pairs)),
    backward("gather-rows", "assigns", "duplicate-index", gathered(assigned)),
    backward("gather-rows", "adds with +=", "duplicate-index", gathered(added_by_operator)),
    backward("gather-rows", "makes zeros of float32", "gradient-dtype", in_single),
    backward("gather-rows", "picks once more", "gradient-shape", picked_again),
    backward(
        "gather-rows",
        "returns one gradient",
        "wrong-arity",
        lambda ctx, index, g: by_one_hot(ctx, index, g)[0],
    ),
    Wrong("locate-mean-pooling", "the count of forward", "the right divisor", "1c"),
    Wrong("locate-mean-pooling", "the mask of the gradient", "its gradient is 0", "6d"),
    Wrong("locate-mean-pooling", "the values", "so are its values", "5a"),
    Wrong("locate-mean-pooling", "without padding", "is the number of tokens", "5b"),
    Wrong("locate-mean-pooling", "the padding", "Look at the real tokens", "5d"),
    Wrong("predict-patterns", "no copies", "the copies add up", [1, 2, 0.75, 101, 0]),
    Wrong("predict-patterns", "copies along one dim", "along dim 0", [3, 2, 0.75, 101, 0]),
    Wrong("predict-patterns", "all of it to each winner", "between", [6, 4, 0.75, 101, 0]),
    Wrong("predict-patterns", "a sum", "A mean also divides", [6, 2, 3, 101, 0]),
    Wrong("predict-patterns", "the mean of all", "not all 8", [6, 2, 0.375, 101, 0]),
    Wrong("predict-patterns", "the last read", "is read twice", [6, 2, 0.75, 100, 0]),
    Wrong("predict-patterns", "the diagonal", "the diagonal", [6, 2, 0.75, 101, 0.222]),
    Wrong("predict-patterns", "one number", "hand in 5 numbers", 6),
    *CAUSES,
]


KNOWN = [
    ("gelu", (double(-3, 0, 1),), F.gelu(double(-3, 0, 1))),
    ("swish", (double(-2, 0, math.log(3)),), F.silu(double(-2, 0, math.log(3)))),
    ("learnable-swish", (double(0, 1), double(0)), double(0, 0.5)),
    ("broadcast-multiply", (double(2, 3), double(5).reshape(1, 1)), double(10, 15).reshape(1, 2)),
    ("max-with-ties", (double(1, 4, 4).reshape(1, 3), -1, False), double(4)),
    ("soft-rank", (double(30, 10, 20), 0.1), double(3, 1, 2)),
    ("gather-rows", (double(5, 7).reshape(2, 1), torch.tensor([1, 1])), double(7, 7).reshape(2, 1)),
]
