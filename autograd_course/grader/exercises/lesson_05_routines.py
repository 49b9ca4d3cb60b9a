"""The routines of lesson 05: a Hessian-vector product, and a penalty on gradients."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.exercise import RoutineExercise, Sampler
from autograd_course.grader.exercises.lesson_05_trials import (
    leaves_gradients_alone,
    leaves_inputs_alone,
    leaves_samples_alone,
    never_builds_the_hessian,
    reaches_the_parameters,
    stays_at_the_point,
    stays_finite_where_flat,
)
from autograd_course.grader.sampling import normal

LESSON = "05_double_backward"
Tensors = tuple[Tensor, ...]


def hvp(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the product of the Hessian of ``f`` at ``inputs`` with ``vectors``."""
    product: Any = torch.autograd.functional.hvp(f, inputs, vectors)[1]
    return tuple(product)


def hvp_of_blocks(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return what is left of the product without the blocks that couple two inputs."""
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    gradients = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dots = [(g * v).sum() for g, v in zip(gradients, vectors, strict=True)]
    return tuple(
        torch.autograd.grad(dot, x, retain_graph=True, materialize_grads=True)[0]
        if dot.requires_grad
        else torch.zeros_like(x)
        for dot, x in zip(dots, leaves, strict=True)
    )


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the mean over the samples of ``(‖∂critic/∂x‖ - 1)²``."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return (norms - 1).square().mean()


def quadratic(rng: torch.Generator) -> tuple[Any, ...]:
    """Return ``½ xᵀAx + bᵀx``, whose Hessian is the symmetric part of A."""
    matrix, b = normal(rng, 4, 4), normal(rng, 4)

    def f(x: Tensor) -> Tensor:
        return x @ matrix @ x / 2 + b @ x

    return f, (normal(rng, 4),), (normal(rng, 4),)


def layer(rng: torch.Generator) -> tuple[Any, ...]:
    """Return the mean squared error of a layer, as a function of weight and bias."""
    x, target = normal(rng, 6, 3), normal(rng, 6, 2)

    def f(weight: Tensor, bias: Tensor) -> Tensor:
        return (torch.tanh(x @ weight.t() + bias) - target).square().mean()

    return f, (normal(rng, 2, 3), normal(rng, 2)), (normal(rng, 2, 3), normal(rng, 2))


def partly_linear(rng: torch.Generator) -> tuple[Any, ...]:
    """Return a function that is linear in its second tensor: its Hessian has rows of zeros."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.pow(3).sum() + 2 * y.sum()

    return f, (normal(rng, 2, 3), normal(rng, 4)), (normal(rng, 2, 3), normal(rng, 4))


def critic(rng: torch.Generator, *shape: int, column: bool = False) -> tuple[Any, ...]:
    """Return a small critic and a batch of samples for it."""
    count = torch.Size(shape[1:]).numel()
    weight, last = normal(rng, count, 7), normal(rng, 7, 1)

    def score(x: Tensor) -> Tensor:
        scores = torch.tanh(x.flatten(1) @ weight) @ last
        return scores if column else scores.squeeze(1)

    return score, normal(rng, *shape)


PRODUCTS: Mapping[str, Sampler] = {
    "a quadratic form": quadratic,
    "weight and bias of a layer": layer,
    "a second input that acts linearly": partly_linear,
}

CRITICS: Mapping[str, Sampler] = {
    "a batch of 6 rows": lambda rng: critic(rng, 6, 4),
    "a critic that returns a column": lambda rng: critic(rng, 5, 3, column=True),
    "a batch of images": lambda rng: critic(rng, 3, 2, 2, 2),
    "a batch of one": lambda rng: critic(rng, 1, 4),
}

ROUTINES: tuple[RoutineExercise, ...] = (
    RoutineExercise(
        id="hessian-vector-product",
        lesson=LESSON,
        title="Hessian-vector product",
        points=3,
        reference=hvp,
        container=tuple,
        samplers=PRODUCTS,
        trials=(never_builds_the_hessian, stays_at_the_point, leaves_inputs_alone),
        suspects={
            "It is what the Hessian's diagonal blocks give: each gradient was differentiated by "
            "its own input alone. Add the products of all inputs up first, then differentiate.": (
                hvp_of_blocks
            ),
        },
        bounds="its cost is that of two backward passes, whatever the size, f is evaluated at the "
        "inputs alone, and the inputs stay as they are",
        hints=(
            "The Hessian is the Jacobian of the gradient. You know an operation that multiplies a "
            "Jacobian by a vector without building it. (On which side does not matter here: why?)",
            "Get all gradients in one call with create_graph=True. Multiply each by its vector, "
            "add all up to one number, and differentiate that. (Handed over one by one, with "
            "grad_outputs, a gradient that is constant raises: it has no graph. In a sum it does "
            "no harm.) An input on which no gradient depends has the product zero.",
            "leaves = tuple(x.detach().requires_grad_() for x in inputs); grads = "
            "torch.autograd.grad(f(*leaves), leaves, create_graph=True). The product is the "
            "gradient of sum((g * v).sum() for …) by leaves, with materialize_grads=True.",
        ),
        read='lesson 05, "Never build it: Hessian-vector products"',
    ),
    RoutineExercise(
        id="gradient-penalty",
        lesson=LESSON,
        title="Gradient penalty",
        points=3,
        reference=gradient_penalty,
        samplers=CRITICS,
        trials=(
            leaves_gradients_alone,
            leaves_samples_alone,
            reaches_the_parameters,
            stays_finite_where_flat,
        ),
        bounds="its gradient reaches the critic's parameters, finite also where the critic is "
        "flat, and the samples stay as they are",
        hints=(
            "The gradient is one with respect to the samples, not to the parameters. Samples ask "
            "for no gradient of their own accord. And what must be true of this gradient, so that "
            "the penalty can be differentiated by the parameters?",
            "A leaf of your own from x; torch.autograd.grad of the summed scores by it, with "
            "create_graph=True; one norm for each sample, over all its other axes; the mean of "
            "(norm - 1)².",
            "gradient.flatten(1).norm(dim=1) is the norm of each sample, and is careful at zero, "
            "where the derivative of a square root is infinite. Do not call .backward(): it would "
            "add to the parameters' .grad.",
        ),
        read='lesson 05, "A gradient penalty"',
    ),
)
