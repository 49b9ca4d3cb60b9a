"""Answers to the exercises of lesson 06."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from answers.making import Rewriting, Spoiling, Wrong, combined, double, rewritten, solved
from autograd_course import functions

SOLVED = solved("06_double_backward")
RIGHT = {
    "cube-twice": SOLVED["Cube"],
    "exp-twice": SOLVED["Exp"],
    "sinh-by-output": SOLVED["Sinh"],
    "logsumexp-hessian": SOLVED["LogSumExp"],
    "hessian-vector-product": SOLVED["hvp"],
    "gradient-penalty": SOLVED["gradient_penalty"],
    "repair-hessian": SOLVED["CrossEntropy"],
    "predict-second-derivative": [6, 18],
    "card-second-function": "5c",
}


class LogSumExpFromInput(Function):
    """Computes the softmax again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.logsumexp(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.softmax(x, -1) * g[..., None]


class CubeBackward(Function):
    @staticmethod
    def forward(ctx: Any, g: Any, x: Any) -> Any:
        ctx.save_for_backward(g, x)
        return 3 * x * x * g

    @staticmethod
    def backward(ctx: Any, h: Any) -> Any:
        g, x = ctx.saved_tensors
        return 3 * x * x * h, 6 * x * g * h


class CubeByTwoFunctions(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return CubeBackward.apply(g, x)


class CrossEntropyByScatter(SOLVED["BrokenCrossEntropy"]):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any) -> Any:
        ctx.save_for_backward(logits, target)
        return torch.nn.functional.cross_entropy(logits, target, reduction="none")

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        logits, target = ctx.saved_tensors
        minus = torch.full_like(target, -1, dtype=logits.dtype)[:, None]
        p = torch.softmax(logits, -1).scatter_add(1, target[:, None], minus)
        return p * g[:, None], None


def hvp_of_the_manual(f: Any, inputs: Any, vectors: Any) -> Any:
    return torch.autograd.functional.hvp(f, inputs, vectors)[1]


def hvp_forward_over_reverse(f: Any, inputs: Any, vectors: Any) -> Any:
    gradient = torch.func.grad(f, argnums=tuple(range(len(inputs))))
    return torch.func.jvp(gradient, tuple(inputs), tuple(vectors))[1]


def hvp_by_grad_outputs(f: Any, inputs: Any, vectors: Any) -> Any:
    inputs = [x.clone().requires_grad_() for x in inputs]
    grads = torch.autograd.grad(f(*inputs), inputs, create_graph=True)
    used = [(g, v) for g, v in zip(grads, vectors, strict=True) if g.requires_grad]
    products = torch.autograd.grad(
        [g for g, _ in used], inputs, grad_outputs=[v for _, v in used], allow_unused=True
    )
    pairs = zip(products, inputs, strict=True)
    return tuple(torch.zeros_like(x) if p is None else p for p, x in pairs)


def hvp_as_a_list(f: Any, inputs: Any, vectors: Any) -> Any:
    return list(hvp_by_grad_outputs(f, inputs, vectors))


def _as_one_vector(f: Any, inputs: Any, vectors: Any) -> Any:
    """Return the product for a batch of long vectors, the long vector, and a way to split it."""

    def parts(vector: Any) -> Any:
        pieces = vector.split([x.numel() for x in inputs])
        return tuple(piece.view_as(x) for piece, x in zip(pieces, inputs, strict=True))

    at, v = (torch.cat([x.flatten() for x in given]) for given in (inputs, vectors))
    gradient = torch.func.grad(lambda vector: f(*parts(vector)))
    return torch.vmap(lambda v: torch.func.jvp(gradient, (at,), (v,))[1]), v, parts


def hvp_of_stacked_vectors(f: Any, inputs: Any, vectors: Any) -> Any:
    products, v, parts = _as_one_vector(f, inputs, vectors)
    return parts(products(torch.stack([v, -v, 2 * v]))[0])


def hvp_linearized(f: Any, inputs: Any, vectors: Any) -> Any:
    gradient = torch.func.grad(f, argnums=tuple(range(len(inputs))))
    return torch.func.linearize(gradient, *inputs)[1](*vectors)


def penalty_with_epsilon(critic: Any, x: Any) -> Any:
    x = x.clone().requires_grad_(True)
    scores = critic(x)
    gradient = torch.autograd.grad(
        scores, x, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
    )[0].view(x.size(0), -1)
    return (((gradient**2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()


ALSO_RIGHT = {
    "derivatives as floats": ("predict-second-derivative", (6.0, 18.0)),
    "cube, backward a Function of its own": ("cube-twice", CubeByTwoFunctions),
    "hyperbolic sine of the package": ("sinh-by-output", functions.Sinh),
    "log-sum-exp from the input alone": ("logsumexp-hessian", LogSumExpFromInput),
    "Hessian-vector product of the library": ("hessian-vector-product", hvp_of_the_manual),
    "forward over reverse": ("hessian-vector-product", hvp_forward_over_reverse),
    "linearized": ("hessian-vector-product", hvp_linearized),
    "products with stacked vectors": ("hessian-vector-product", hvp_of_stacked_vectors),
    "product by grad_outputs": ("hessian-vector-product", hvp_by_grad_outputs),
    "penalty with an epsilon under the root": ("gradient-penalty", penalty_with_epsilon),
    "cross entropy by scatter": ("repair-hessian", CrossEntropyByScatter),
    "the line that does not save g": ("card-second-function", "2c"),
}


spoiling = Spoiling(RIGHT)
backward, forward = spoiling.backward, spoiling.forward


class CubeOfIntermediate(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        square = x * x
        ctx.save_for_backward(square)
        return square * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (square,) = ctx.saved_tensors
        return 3 * square * g


class CubeOnce(SOLVED["Cube"]):  # type: ignore[misc]
    backward = staticmethod(once_differentiable(SOLVED["Cube"].backward))


class CubeWithoutGradMode(SOLVED["Cube"]):  # type: ignore[misc]
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            return 3 * x * x * g


class CubeByAutograd(SOLVED["Cube"]):  # type: ignore[misc]
    """The first and second derivatives are right, but they do not come from a formula."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            return torch.autograd.grad(x**3, x, g, create_graph=True)[0]


class CubeOfOutput(Function):
    """3 |y|^(2/3): the first derivative is right, but this has no slope at 0."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x**3
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return 3 * y.abs() ** (2 / 3) * g


class CubeOnCtx(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.x**2 * g


class ExpOfACopy(combined(SOLVED["Exp"])):  # type: ignore[misc]
    """Saves the right values in a different tensor from the one that it returns."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.exp())
        return x.exp()


class ExpOfInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return x.exp() * g


class SinhOfInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sinh()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return x.cosh() * g


class SinhOfSlope(SinhOfInput):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.cosh())
        return x.sinh()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (slope,) = ctx.saved_tensors
        return slope * g


class SavedSoftmax(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(torch.softmax(x, -1))
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (p,) = ctx.saved_tensors
        return p * g.unsqueeze(-1)


class NaiveLogSumExp(LogSumExpFromInput):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.exp().sum(-1).log()


class KeptAxis(LogSumExpFromInput):
    """Saves the output with keepdim. The values are right, but it is not the returned tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.logsumexp(x, -1, keepdim=True)
        ctx.save_for_backward(x, y)
        return y.squeeze(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return torch.exp(x - y) * g.unsqueeze(-1)


def _leaves(inputs: Any) -> Any:
    return tuple(x.detach().clone().requires_grad_() for x in inputs)


def hvp_by_two_halves(f: Any, inputs: Any, vectors: Any) -> Any:
    """Compute the Hessian's rows in two parts, whatever its size."""
    products, v, parts = _as_one_vector(f, inputs, vectors)
    halves = zip(torch.eye(len(v), dtype=v.dtype).chunk(2), v.chunk(2), strict=True)
    return parts(sum(of_half @ products(half) for half, of_half in halves))


def hvp_by_matrix(f: Any, inputs: Any, vectors: Any) -> Any:
    blocks = torch.autograd.functional.hessian(f, inputs)
    return tuple(
        sum(torch.tensordot(block, v, v.dim()) for block, v in zip(row, vectors, strict=True))
        for row in blocks
    )


def hvp_by_rows(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    products = [torch.zeros_like(x) for x in inputs]
    for g, v in zip(grads, vectors, strict=True):
        for element, weight in zip(g.reshape(-1), v.reshape(-1), strict=True):
            if element.requires_grad:
                rows = torch.autograd.grad(
                    element, leaves, retain_graph=True, materialize_grads=True
                )
                products = [p + weight * row for p, row in zip(products, rows, strict=True)]
    return tuple(products)


def hvp_by_differences(f: Any, inputs: Any, vectors: Any) -> Any:
    def gradient(side: int) -> Any:
        moved = [x + side * 1e-5 * v for x, v in zip(inputs, vectors, strict=True)]
        leaves = _leaves(moved)
        return torch.autograd.grad(f(*leaves), leaves)

    pairs = zip(gradient(1), gradient(-1), strict=True)
    return tuple((ahead - behind) / 2e-5 for ahead, behind in pairs)


def hvp_without_create_graph(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves)
    dot = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
    return torch.autograd.grad(dot, leaves)


def hvp_of_ones(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    return torch.autograd.grad(sum(g.sum() for g in grads), leaves, materialize_grads=True)


def hvp_that_trips_over_zero(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dot = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
    return torch.autograd.grad(dot, leaves)


def hvp_by_blocks(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    return tuple(
        torch.autograd.grad((g * v).sum(), x, retain_graph=True)[0]
        if g.requires_grad
        else torch.zeros_like(x)
        for g, v, x in zip(grads, vectors, leaves, strict=True)
    )


def hvp_on_the_callers_tensors(f: Any, inputs: Any, vectors: Any) -> Any:
    for x in inputs:
        x.requires_grad_()
    grads = torch.autograd.grad(f(*inputs), inputs, create_graph=True)
    dot = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
    return torch.autograd.grad(dot, inputs, materialize_grads=True)


def hvp_of_every_gradient(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    return torch.autograd.grad(grads, leaves, vectors)


def hvp_with_none(f: Any, inputs: Any, vectors: Any) -> Any:
    leaves = _leaves(inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dot = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
    return torch.autograd.grad(dot, leaves, allow_unused=True)


def _input_gradient(critic: Any, x: Any, **options: Any) -> Any:
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(critic(x).sum(), x, **options)[0]


def penalty_as_a_float(critic: Any, x: Any) -> Any:
    return float(penalty_with_epsilon(critic, x))


def penalty_without_create_graph(critic: Any, x: Any) -> Any:
    return (_input_gradient(critic, x).flatten(1).norm(dim=1) - 1).square().mean()


def penalty_with_retain_graph(critic: Any, x: Any) -> Any:
    g = _input_gradient(critic, x, retain_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).square().mean()


def penalty_of_the_batch(critic: Any, x: Any) -> Any:
    return (_input_gradient(critic, x, create_graph=True).norm() - 1).square()


def penalty_of_rows_of_images(critic: Any, x: Any) -> Any:
    return (_input_gradient(critic, x, create_graph=True).norm(dim=1) - 1).square().mean()


def penalty_without_leaf(critic: Any, x: Any) -> Any:
    (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (g.flatten(1).norm(dim=1) - 1).square().mean()


def penalty_of_the_callers_x(critic: Any, x: Any) -> Any:
    (gradient,) = torch.autograd.grad(critic(x.requires_grad_()).sum(), x, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()


def penalty_of_a_steep_root(critic: Any, x: Any) -> Any:
    g = _input_gradient(critic, x, create_graph=True)
    return (g.flatten(1).square().sum(1).sqrt() - 1).square().mean()


def penalty_by_backward(critic: Any, x: Any) -> Any:
    x = x.detach().clone().requires_grad_()
    critic(x).sum().backward(create_graph=True)
    return (x.grad.flatten(1).norm(dim=1) - 1).square().mean()


def penalty_half_detached(critic: Any, x: Any) -> Any:
    """Detaches the norm that it multiplies by."""
    norm = _input_gradient(critic, x, create_graph=True).flatten(1).norm(dim=1)
    return (norm * norm.detach() - 2 * norm + 1).mean()


def _repaired_by(method: Any) -> Any:
    class Repaired(CrossEntropyByScatter):
        backward = staticmethod(method)

    return Repaired


def subtracting_in_place(ctx: Any, g: Any) -> Any:
    logits, target = ctx.saved_tensors
    p = torch.softmax(logits, -1)
    p[torch.arange(len(p)), target] -= 1
    return p * g[:, None], None


def _one_hot(ctx: Any) -> Any:
    logits, target = ctx.saved_tensors
    return torch.nn.functional.one_hot(target, logits.shape[-1])


def changed(name: str, *changes: tuple[str, str]) -> Any:
    """Return a solved answer of this lesson with other source code."""
    return rewritten("06_double_backward", name, *changes)


# Mistakes whose cause the exercise names
CAUSES = [
    Wrong(
        "sinh-by-output",
        "leaves out the root",
        "gradient-mismatch",
        changed("Sinh", ("(1 + y ** 2).sqrt()", "(1 + y ** 2)")),
        "The root is missing",
    ),
    Wrong(
        "sinh-by-output",
        "takes the root of each term",
        "gradient-mismatch",
        changed("Sinh", ("(1 + y ** 2).sqrt()", "(1 + y.abs())")),
        "is not the sum of the roots",
    ),
    Wrong(
        "logsumexp-hessian",
        "saves the output in another shape",
        "silent-double-backward",
        changed(
            "LogSumExp", ("(x, output)", "(x, output.unsqueeze(-1))"), ("y.unsqueeze(-1)", "y")
        ),
        "Save y itself",
    ),
    Wrong(
        "repair-hessian",
        "lets one_hot count the classes",
        "backward-raises",
        changed("CrossEntropy", ("one_hot(target, logits.shape[-1])", "one_hot(target)")),
        "works only if the last class",
    ),
    Wrong(
        "hessian-vector-product",
        "multiplies two sums",
        "summed separately",
        changed("hvp", ("(g * v).sum()", "g.sum() * v.sum()")),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "multiplies after the second pass",
        "The vectors come too late",
        changed(
            "hvp",
            (
                "directional = sum(((g * v).sum() for g, v in zip(grads, vectors, strict=True)))",
                "directional = sum(g.sum() for g in grads)",
            ),
            (
                "return torch.autograd.grad(directional, leaves, materialize_grads=True)",
                "rows = torch.autograd.grad(directional, leaves, materialize_grads=True)\n"
                "return tuple(row * v for row, v in zip(rows, vectors))",
            ),
        ),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "leaves out the vectors",
        "The vectors are missing",
        changed("hvp", ("(g * v).sum()", "g.sum()")),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "does not differentiate again",
        "element by element. It contains no second",
        changed(
            "hvp",
            (
                "return torch.autograd.grad(directional, leaves, materialize_grads=True)",
                "return tuple(g * v for g, v in zip(grads, vectors))",
            ),
        ),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "adds up in .grad",
        "the product plus the gradient",
        changed(
            "hvp",
            (
                "grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)",
                "f(*leaves).backward(create_graph=True)\ngrads = [x.grad for x in leaves]",
            ),
            (
                "return torch.autograd.grad(directional, leaves, materialize_grads=True)",
                "directional.backward()\nreturn tuple(x.grad for x in leaves)",
            ),
        ),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "multiplies the gradient by a number",
        "by a number",
        changed(
            "hvp",
            (
                "return torch.autograd.grad(directional, leaves, materialize_grads=True)",
                "return tuple(g * directional for g in grads)",
            ),
        ),
        "",
    ),
    Wrong(
        "hessian-vector-product",
        "squares the gradient",
        "by itself",
        changed("hvp", ("g * v", "g * g")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the norms over dim 1",
        "only over dim 1",
        changed(
            "gradient_penalty",
            ("gradient.flatten(1).norm(dim=1)", "torch.linalg.vector_norm(gradient, dim=1)"),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the norms over the last dim",
        "only over the last dim",
        changed("gradient_penalty", ("gradient.flatten(1).norm(dim=1)", "gradient.norm(dim=-1)")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the norms over dims 2 and 3",
        "over dims 2 and 3",
        changed(
            "gradient_penalty",
            (
                "gradient.flatten(1).norm(dim=1)",
                "(gradient.norm(dim=(2, 3)) if gradient.dim() == 4 else gradient.norm(dim=1))",
            ),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes one norm",
        "for the whole batch",
        changed("gradient_penalty", ("gradient.flatten(1).norm(dim=1)", "gradient.norm()")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the norms over the samples",
        "over the samples",
        changed(
            "gradient_penalty",
            ("gradient.flatten(1).norm(dim=1)", "gradient.flatten(1).norm(dim=0)"),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the mean of the norms first",
        "before 1 is subtracted",
        changed(
            "gradient_penalty",
            (
                "(gradient.flatten(1).norm(dim=1) - 1).square().mean()",
                "(gradient.flatten(1).norm(dim=1).mean() - 1).square()",
            ),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "squares the norms",
        "The square root is missing",
        changed(
            "gradient_penalty",
            ("gradient.flatten(1).norm(dim=1)", "gradient.flatten(1).square().sum(1)"),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the absolute value",
        "the mean of its absolute value",
        changed("gradient_penalty", (".square().mean()", ".abs().mean()")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "does not subtract 1",
        "1 is not subtracted",
        changed(
            "gradient_penalty",
            ("gradient.flatten(1).norm(dim=1) - 1", "gradient.flatten(1).norm(dim=1)"),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the sum",
        "the sum over the samples",
        changed("gradient_penalty", (".square().mean()", ".square().sum()")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "penalizes one side",
        "Only norms above 1",
        changed("gradient_penalty", (" - 1)", " - 1).clamp(min=0)")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "adds absolute values",
        "sums of absolute values",
        changed("gradient_penalty", ("norm(dim=1)", "norm(p=1, dim=1)")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the mean of the squares",
        "the mean of the squares",
        changed(
            "gradient_penalty",
            ("gradient.flatten(1).norm(dim=1)", "gradient.flatten(1).square().mean(1).sqrt()"),
        ),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "takes the mean of the scores",
        "the mean of the scores",
        changed("gradient_penalty", ("critic(x).sum()", "critic(x).mean()")),
        "",
    ),
    Wrong(
        "gradient-penalty",
        "returns a number",
        "a Python number",
        changed("gradient_penalty", (".mean()", ".mean().item()")),
        "",
    ),
]

edited = Rewriting("06_double_backward")
EDITED = [
    edited(
        "sinh-by-output",
        "forgets both squares",
        "gradient-mismatch",
        ("(1 + y**2).sqrt()", "(1 + y)"),
        hint="This is 1 + y.",
    ),
    edited(
        "sinh-by-output",
        "forgets the square of y",
        "gradient-mismatch",
        ("(1 + y**2).sqrt()", "(1 + y.abs()).sqrt()"),
        hint="not squared under the root",
    ),
    edited(
        "sinh-by-output",
        "takes the sinh of y",
        "gradient-mismatch",
        ("(1 + y**2).sqrt()", "y.sinh()"),
        hint="the sinh of y",
    ),
    edited(
        "repair-hessian",
        "subtracts the class number",
        "gradient-mismatch",
        ("- onehot)", "- target.unsqueeze(-1))"),
        hint="number of the class",
    ),
    edited(
        "hessian-vector-product",
        "multiplies on both sides",
        "on both sides of the Hessian",
        (
            "return torch.autograd.grad(directional, leaves, materialize_grads=True)",
            "products = torch.autograd.grad(directional, leaves, materialize_grads=True)\n"
            "    pairs = zip(products, vectors, strict=True)\n"
            "    return tuple((p * v).sum() for p, v in pairs)",
        ),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "subtracts 1 from each element",
        "from each element",
        (
            "return (gradient.flatten(1).norm(dim=1) - 1).square().mean()",
            "return (gradient - 1).square().mean()",
        ),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "takes the largest element",
        "largest absolute value",
        (
            "return (gradient.flatten(1).norm(dim=1) - 1).square().mean()",
            "return (gradient.flatten(1).abs().amax(1) - 1).square().mean()",
        ),
        hint="",
    ),
    edited(
        "gradient-penalty", "adds 1", "1 is added", ("norm(dim=1) - 1", "norm(dim=1) + 1"), hint=""
    ),
    edited(
        "gradient-penalty",
        "takes the root",
        "root of the penalty",
        (".square().mean()", ".square().mean().sqrt()"),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "forgets the mean",
        "one penalty for each sample",
        (".square().mean()", ".square()"),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "keeps a column",
        "in a column",
        (
            "return (gradient.flatten(1).norm(dim=1) - 1).square().mean()",
            "return (gradient.flatten(1).norm(dim=1, keepdim=True) - 1).square()",
        ),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "differentiates the first score",
        "a single score",
        ("critic(x).sum()", "critic(x)[0].sum()"),
        hint="",
    ),
    edited(
        "gradient-penalty",
        "differentiates the largest score",
        "a single score",
        ("critic(x).sum()", "critic(x).max()"),
        hint="",
    ),
]

WRONG = [
    *EDITED,
    Wrong("card-second-function", "the formula", "the derivative of the swish", "1c"),
    Wrong("card-second-function", "the second call", "may call a second Function", "9c"),
    Wrong("card-second-function", "gradcheck", "compares first derivatives only", "5a"),
    Wrong("card-second-function", "the first path", "line 5 returns it", "5b"),
    Wrong("card-second-function", "twice grad_output", "tests the first derivative", "5d"),
    Wrong("predict-second-derivative", "the cube alone", "The loss is its square", [3, 18]),
    Wrong("predict-second-derivative", "the true one", "one of the paths to x is", [6, 30]),
    Wrong("predict-second-derivative", "nothing left", "also depends on x", [6, 0]),
    Wrong("predict-second-derivative", "the other path", "Which path remains", [6, 12]),
    Wrong(
        "hessian-vector-product", "returns a list", "this exercise asks for a tuple", hvp_as_a_list
    ),
    Wrong("cube-twice", "keeps an intermediate", "silent-double-backward", CubeOfIntermediate),
    Wrong("cube-twice", "once differentiable", "once-differentiable-leak", CubeOnce),
    Wrong("cube-twice", "under no_grad", "silent-double-backward", CubeWithoutGradMode),
    Wrong("cube-twice", "lets autograd differentiate", "unneeded-function", CubeByAutograd),
    Wrong("cube-twice", "keeps x on ctx", "tensor-on-ctx", CubeOnCtx),
    backward(
        "cube-twice",
        "detaches",
        "silent-double-backward",
        lambda ctx, x, g: 3 * x.detach() ** 2 * g,
    ),
    backward(
        "cube-twice",
        "writes the second derivative",
        "gradient-mismatch",
        lambda ctx, x, g: 6 * x * g,
    ),
    Wrong("cube-twice", "a broken power of the output", "silent-double-backward", CubeOfOutput),
    backward(
        "cube-twice",
        "goes through NumPy",
        "silent-double-backward",
        lambda ctx, x, g: torch.as_tensor(3 * np.asarray(x.detach().cpu()) ** 2).to(g) * g,
    ),
    Wrong("exp-twice", "saves a second exponential", "silent-double-backward", ExpOfACopy),
    Wrong("exp-twice", "saves the input", "oversaved", ExpOfInput),
    backward("exp-twice", "uses .data", "silent-double-backward", lambda ctx, y, g: y.data * g),
    backward("exp-twice", "works in place", "mutates-grad-output", lambda ctx, y, g: g.mul_(y)),
    Wrong("sinh-by-output", "saves the input", "oversaved", SinhOfInput),
    Wrong("sinh-by-output", "saves cosh", "silent-double-backward", SinhOfSlope),
    backward(
        "sinh-by-output",
        "the identity of the circle",
        "gradient-mismatch",
        lambda ctx, y, g: (1 - y**2).abs().sqrt() * g,
    ),
    backward(
        "sinh-by-output",
        "takes it for its own derivative",
        "gradient-mismatch",
        lambda ctx, y, g: y * g,
    ),
    backward(
        "sinh-by-output",
        "forgets the root",
        "gradient-mismatch",
        lambda ctx, y, g: (1 + y**2) * g,
    ),
    backward(
        "sinh-by-output",
        "takes the cosh of the output",
        "gradient-mismatch",  # one element is huge, so all others seemed to agree
        lambda ctx, y, g: y.cosh() * g,
    ),
    Wrong("logsumexp-hessian", "saves the softmax", "silent-double-backward", SavedSoftmax),
    Wrong("logsumexp-hessian", "keeps the axis", "silent-double-backward", KeptAxis),
    Wrong("logsumexp-hessian", "overflows", "overflow", NaiveLogSumExp),
    backward(
        "logsumexp-hessian",
        "detaches the output",
        "silent-double-backward",
        lambda ctx, x, y, g: torch.exp(x - y.detach().unsqueeze(-1)) * g.unsqueeze(-1),
    ),
    backward(
        "logsumexp-hessian",
        "forgets the lost axis",
        "backward-raises",
        lambda ctx, x, y, g: torch.softmax(x, -1) * g,
    ),
    Wrong("hessian-vector-product", "builds the matrix", "the Hessian", hvp_by_matrix),
    Wrong("hessian-vector-product", "builds two halves", "a part of it", hvp_by_two_halves),
    Wrong("hessian-vector-product", "by differences", "next to the inputs", hvp_by_differences),
    Wrong("hessian-vector-product", "goes by rows", "a loop over", hvp_by_rows),
    Wrong(
        "hessian-vector-product",
        "forgets create_graph",
        "does not require grad",
        hvp_without_create_graph,
    ),
    Wrong("hessian-vector-product", "forgets the vectors", "is wrong at", hvp_of_ones),
    Wrong(
        "hessian-vector-product",
        "trips over a zero",
        "no gradient depends on this input. Return zeros for it",
        hvp_that_trips_over_zero,
    ),
    Wrong(
        "hessian-vector-product",
        "differentiates a constant",
        "the gradient of this input is a constant and has no graph",
        hvp_of_every_gradient,
    ),
    Wrong("hessian-vector-product", "each by itself", "diagonal blocks", hvp_by_blocks),
    Wrong(
        "hessian-vector-product",
        "turns the caller's tensors into leaves",
        "the caller's own tensors require grad",
        hvp_on_the_callers_tensors,
    ),
    Wrong("hessian-vector-product", "returns None for zero", "is None", hvp_with_none),
    Wrong("gradient-penalty", "forgets create_graph", "has no graph", penalty_without_create_graph),
    Wrong("gradient-penalty", "returns a float", "has no graph", penalty_as_a_float),
    Wrong("gradient-penalty", "retains only", "has no graph", penalty_with_retain_graph),
    Wrong("gradient-penalty", "one norm for all", "the result is wrong", penalty_of_the_batch),
    Wrong("gradient-penalty", "rows of images", "the result is wrong", penalty_of_rows_of_images),
    Wrong("gradient-penalty", "x asks for nothing", "require grad", penalty_without_leaf),
    Wrong(
        "gradient-penalty",
        "asks x itself",
        "the caller's own tensors require grad",
        penalty_of_the_callers_x,
    ),
    Wrong("gradient-penalty", "a steep root", "infinitely steep", penalty_of_a_steep_root),
    Wrong("gradient-penalty", "by backward", "has filled the .grad", penalty_by_backward),
    Wrong("gradient-penalty", "detaches a factor", "cut off", penalty_half_detached),
    Wrong("repair-hessian", "unrepaired", "silent-double-backward", SOLVED["BrokenCrossEntropy"]),
    Wrong(
        "repair-hessian",
        "subtracts in place",
        "no-double-backward",
        _repaired_by(subtracting_in_place),
        "in-place",
    ),
    Wrong(
        "repair-hessian",
        "computes it from a detached input",
        "silent-double-backward",
        _repaired_by(
            lambda ctx, g: (
                (torch.softmax(ctx.saved_tensors[0].detach(), -1) - _one_hot(ctx)) * g[:, None],
                None,
            )
        ),
    ),
    Wrong(
        "repair-hessian",
        "forgets the target's place",
        "wrong-arity",
        _repaired_by(
            lambda ctx, g: (torch.softmax(ctx.saved_tensors[0], -1) - _one_hot(ctx)) * g[:, None]
        ),
    ),
    Wrong(
        "repair-hessian",
        "forgets the label",
        "gradient-mismatch",
        _repaired_by(lambda ctx, g: (torch.softmax(ctx.saved_tensors[0], -1) * g[:, None], None)),
    ),
    *CAUSES,
]


KNOWN = [
    ("cube-twice", (double(-2, 0.5),), double(-8, 0.125)),
    ("exp-twice", (double(0, math.log(3)),), double(1, 3)),
    ("sinh-by-output", (double(0, math.log(2)),), double(0, 0.75)),
    ("logsumexp-hessian", (double(0, 0, math.log(2)),), double(math.log(4))[0]),
    (
        "hessian-vector-product",
        (lambda x, y: (x**2 * y).sum(), (double(1), double(2)), (double(1), double(1))),
        (double(6), double(2)),
    ),
    (
        "gradient-penalty",
        (lambda x: x @ double(3, 4), double(1, 2, 3, 4).reshape(2, 2)),
        double(16)[0],
    ),
    (
        "repair-hessian",
        (double(0, math.log(3)).reshape(1, 2), torch.tensor([1])),
        double(math.log(4 / 3)),
    ),
]
