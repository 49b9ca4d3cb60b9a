"""Hessian-vector product

1. The Hessian is the Jacobian of the gradient. Which operation multiplies a Jacobian by a vector
   without building it? (Does it matter from which side you multiply a Hessian?)
2. Compute all gradients in one call with create_graph=True. Multiply each gradient by its vector,
   add up the results to get a single number, and differentiate this number. (If you pass the
   vectors as grad_outputs instead, a constant gradient raises an error, because it has no graph. In
   the sum, such a gradient does no harm.) If no gradient depends on an input, its part of the
   product is zero.
3. leaves = tuple(x.detach().requires_grad_() for x in inputs); grads =
   torch.autograd.grad(f(*leaves), leaves, create_graph=True). The product is the gradient of sum((g
   * v).sum() for …) with respect to leaves, with materialize_grads=True.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.memory import Largest
from torch import Tensor

from autograd_course.exercises.lesson_06_double_backward._arguments import ask_for_no_gradient
from autograd_course.grader.checks.operators import HINT, OwnOperators
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong

Tensors = tuple[Tensor, ...]


def hvp(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the product of the Hessian of ``f`` at ``inputs`` with ``vectors``."""
    product: Any = torch.autograd.functional.hvp(f, inputs, vectors)[1]
    return tuple(product)


def quadratic(rng: torch.Generator) -> tuple[Any, ...]:
    """Return ``½ xᵀAx + bᵀx``, whose Hessian is the symmetric part of A."""
    matrix, b = normal(rng, 4, 4), normal(rng, 4)

    def f(x: Tensor) -> Tensor:
        return x @ matrix @ x / 2 + b @ x

    return f, (normal(rng, 4),), (normal(rng, 4),)


def layer(rng: torch.Generator) -> tuple[Any, ...]:
    """Return the mean squared error of a layer as a function of its weight and bias."""
    x, target = normal(rng, 6, 3), normal(rng, 6, 2)

    def f(weight: Tensor, bias: Tensor) -> Tensor:
        return (torch.tanh(x @ weight.t() + bias) - target).square().mean()

    return f, (normal(rng, 2, 3), normal(rng, 2)), (normal(rng, 2, 3), normal(rng, 2))


def partly_linear(rng: torch.Generator) -> tuple[Any, ...]:
    """Return a function that is linear in its second tensor, so its Hessian has rows of zeros."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        return x.pow(3).sum() + 2 * y.sum()

    return f, (normal(rng, 2, 3), normal(rng, 4)), (normal(rng, 2, 3), normal(rng, 4))


def hvp_of_blocks(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the product with a Hessian that lacks the blocks between different inputs."""
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    gradients = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    dots = [(g * v).sum() for g, v in zip(gradients, vectors, strict=True)]
    return tuple(
        torch.autograd.grad(dot, x, retain_graph=True, materialize_grads=True)[0]
        if dot.requires_grad
        else torch.zeros_like(x)
        for dot, x in zip(dots, leaves, strict=True)
    )


def first_pass(f: Callable[..., Tensor], inputs: Tensors) -> tuple[Tensors, Tensors]:
    """Return new leaves and the gradients of ``f`` with respect to them."""
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    return leaves, torch.autograd.grad(f(*leaves), leaves, create_graph=True)


def second_pass(number: Tensor, leaves: Tensors) -> Tensors:
    """Return the gradient of a number that was computed from the gradients."""
    return tuple(torch.autograd.grad(number, leaves, materialize_grads=True))


def of_two_sums(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the result of summing the gradient and the vector before multiplying the sums."""
    leaves, gradients = first_pass(f, inputs)
    pairs = zip(gradients, vectors, strict=True)
    return second_pass(sum((g.sum() * v.sum() for g, v in pairs), torch.zeros(())), leaves)


def of_the_first_pass(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the products of the gradient with the vectors, without a second derivative."""
    return tuple(g * v for g, v in zip(first_pass(f, inputs)[1], vectors, strict=True))


def of_the_gradient(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the gradient itself."""
    return first_pass(f, inputs)[1]


def of_row_sums(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the row sums of the Hessian, without using the vectors."""
    leaves, gradients = first_pass(f, inputs)
    return second_pass(sum((g.sum() for g in gradients), torch.zeros(())), leaves)


def of_row_sums_times_vectors(
    f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors
) -> Tensors:
    """Return the row sums of the Hessian, multiplied by the vectors."""
    rows = of_row_sums(f, inputs, vectors)
    return tuple(row * v for row, v in zip(rows, vectors, strict=True))


def of_both_passes(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the product plus the gradient, which two calls of .backward() leave in .grad."""
    products = hvp(f, inputs, vectors)
    return tuple(p + g for p, g in zip(products, first_pass(f, inputs)[1], strict=True))


def of_squared_gradients(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the gradient of the sum of the squared gradients."""
    leaves, gradients = first_pass(f, inputs)
    return second_pass(sum((g.square().sum() for g in gradients), torch.zeros(())), leaves)


def of_gauss_newton(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the gradient times its product with the vectors."""
    gradients = first_pass(f, inputs)[1]
    total = sum((g * v).sum() for g, v in zip(gradients, vectors, strict=True))
    return tuple(g * total for g in gradients)


def of_quadratic_form(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Return the Hessian's product with the vectors on both sides, one number for each input."""
    pairs = zip(hvp(f, inputs, vectors), vectors, strict=True)
    return tuple((product * v).sum() for product, v in pairs)


def of_every_gradient(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Differentiate every gradient, even a constant one."""
    leaves, gradients = first_pass(f, inputs)
    return tuple(torch.autograd.grad(gradients, leaves, vectors, materialize_grads=True))


def of_used_inputs(f: Callable[..., Tensor], inputs: Tensors, vectors: Tensors) -> Tensors:
    """Expect that the gradients depend on every input."""
    leaves, gradients = first_pass(f, inputs)
    pairs = zip(gradients, vectors, strict=True)
    return torch.autograd.grad(sum(((g * v).sum() for g, v in pairs), torch.zeros(())), leaves)


SIZE = 100  # inputs of the function whose Hessian must not be built
FEW = 10  # inputs of the same function, to compare: two passes cost the same for any size


def valley(x: Tensor) -> Tensor:
    """Return the Rosenbrock function of a vector, which couples each element to its neighbor."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def gradient_of_valley(x: Tensor) -> Tensor:
    """Return the gradient of :func:`valley`."""
    gradient, apart = torch.zeros_like(x), x[1:] - x[:-1] ** 2
    gradient[1:] += 200 * apart
    gradient[:-1] += -400 * x[:-1] * apart - 2 * (1 - x[:-1])
    return gradient


def never_builds_the_hessian(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the routine never builds a 100 × 100 Hessian, at once, in parts or row by row."""
    small, watch = Largest(), Largest()
    if verdict := _watched(routine, FEW, small) or _watched(routine, SIZE, watch):
        return verdict
    if watch.elements > 2 * SIZE // FEW * small.elements:
        return wrong(
            f"right, but for {SIZE} inputs your function builds a tensor of {watch.elements:,} "
            "elements: the Hessian, or a part of it. Multiply the gradient by the vector first, "
            "and differentiate this single number."
        )
    if watch.operations > 2 * small.operations:
        return wrong(
            f"right, but it takes {small.operations:,} operations for {FEW} inputs and "
            f"{watch.operations:,} for {SIZE}. Two backward passes take the same number for both. "
            "Is there a loop over the elements of the gradient?"
        )
    return None


def _watched(routine: Callable[..., Any], size: int, watch: Largest) -> Verdict | None:
    rng = generator()
    x, vector = normal(rng, size), normal(rng, size)
    with watch, OwnOperators() as own:
        came = routine(valley, (x,), (vector,))
    if own.told:
        return wrong(f"{own.told} {HINT}")
    return _far_product(came, x, vector)


def _far_product(came: Any, x: Tensor, vector: Tensor) -> Verdict | None:
    """Compare the product for ``valley`` with a finite difference of its gradient."""
    step = 1e-4
    up, down = (gradient_of_valley(x + by * vector) for by in (step, -step))
    product = came[0] if isinstance(came, tuple) and len(came) == 1 else None
    return far_result(product, (up - down) / (2 * step), f"for {len(x)} inputs")


def leaves_inputs_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the caller's tensors still do not require grad after the call."""
    rng = generator()
    x, vector = normal(rng, SIZE), normal(rng, SIZE)
    came = routine(valley, (x,), (vector,))
    return ask_for_no_gradient(x, vector) or _far_product(came, x, vector)


def values(tensor: Tensor) -> Tensor:
    """Return the tensor that the tensors of ``torch.func`` wrap, with all batch dims in front."""
    inside: Any = torch._C._functorch
    while inside.is_functorch_wrapped_tensor(tensor):
        wrapped = inside.get_unwrapped(tensor)
        is_batch = inside.is_batchedtensor(tensor)
        tensor = wrapped.movedim(inside.maybe_get_bdim(tensor), 0) if is_batch else wrapped
    return tensor


def stays_at_the_point(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the routine evaluates ``f`` only at the inputs and uses no finite differences."""
    rng = generator()
    x, vector = normal(rng, SIZE), normal(rng, SIZE)
    seen: list[bool] = []

    def watched(at: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):  # tensors of a compiler have no values to compare
            seen.append(bool((values(at) == x).all()))
        return valley(at)

    came = routine(watched, (x.clone(),), (vector,))
    if all(seen):
        return _far_product(came, x, vector)
    return wrong(
        "right up to rounding, but your function also evaluates f next to the inputs. Finite "
        "differences lose digits, and more of them where f is strongly curved. Differentiate the "
        "gradient instead."
    )


EXERCISE = RoutineExercise(
    answer="hvp",
    points=3,
    difficulty="medium",
    minutes=10,
    section="Hessian-vector products",
    constraints="it costs two backward passes for any size, f is evaluated at the inputs alone, "
    "and the inputs stay as they are",
    reference=hvp,
    samplers={
        "a quadratic form": quadratic,
        "weight and bias of a layer": layer,
        "a function that is linear in its second input": partly_linear,
    },
    suspects={
        "It is the product with the diagonal blocks of the Hessian alone. First add up the "
        "products of all inputs, then differentiate the sum with respect to every input.": (
            hvp_of_blocks
        ),
        "The gradient and the vector are summed separately. Multiply them element by element "
        "first, and then sum the products.": of_two_sums,
        "This is the gradient times the vector, element by element. It contains no second "
        "derivative: differentiate the sum of these products again.": of_the_first_pass,
        "This is the gradient itself, the first derivative.": of_the_gradient,
        "This adds up each row of the Hessian. The vectors are missing: multiply the gradients by "
        "them before you differentiate again.": of_row_sums,
        "The vectors come too late. This adds up each row of the Hessian and then multiplies. "
        "Multiply the gradients by the vectors before you differentiate again.": (
            of_row_sums_times_vectors
        ),
        "This is the product plus the gradient. Each call of .backward() adds to .grad, so the "
        "first pass is still in it. torch.autograd.grad returns only what you ask for.": (
            of_both_passes
        ),
        "The vectors are multiplied on both sides of the Hessian, and each part is summed. The "
        "product with the vectors once is enough.": of_quadratic_form,
        "This multiplies the gradient by itself, not by the vectors.": of_squared_gradients,
        "This multiplies the gradient by a number. It contains no second derivative: differentiate "
        "this number with respect to the inputs.": of_gauss_newton,
    },
    raising={
        "f is linear in its second input, so the gradient of this input is a constant and has no "
        "graph. Leave it out of the second pass.": of_every_gradient,
        "f is linear in its second input, so no gradient depends on this input. Return zeros for "
        "it: that is its part of the product.": of_used_inputs,
    },
    container=tuple,
    trials=(never_builds_the_hessian, stays_at_the_point, leaves_inputs_alone),
)
