"""The exercises of lesson 02: four Functions that need the rules of ctx, then four cards."""

from collections.abc import Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.calls import as_tuple
from autograd_course.grader.checks import backward_is_a_formula, keeps_at_most, no_tensor_on_ctx
from autograd_course.grader.checks.calling import applied, found, node, storage
from autograd_course.grader.exercise import Check, Exercise, FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_02_cards import CARDS
from autograd_course.grader.judging.passes import applied as called
from autograd_course.grader.judging.passes import differentiable
from autograd_course.grader.sampling import around, normal, positive, shaped

LESSON = "02_ctx_rules"
TITLE = "The rules of ctx"


def strided_gain(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
    """Return every ``stride``-th element of the last axis, in training times ``gain``."""
    kept = x[..., ::stride]
    return kept * gain if training else kept.clone()


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return ``x`` where it is positive, ``slope · x`` elsewhere."""
    return torch.nn.functional.leaky_relu(x, slope)


def sort_with_indices(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the values sorted along the last axis, and where each of them was."""
    values, indices = torch.sort(x, dim=-1, descending=descending)
    return values, indices


def frozen_target(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean squared error, with target and weight held fixed."""
    return (weight.detach() * (prediction - target.detach()) ** 2).mean()


def in_evaluation(check: Check) -> Check:
    """Return the check, made on a call whose last argument, ``training``, is False."""
    return lambda function, inputs: check(function, (*inputs[:-1], False))


def works_in_place(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that the output lies in the input's own memory."""
    given = differentiable(inputs)
    before = storage(given[0])  # x.data = … would give it other memory
    if storage(as_tuple(called(function, given))[0]) == before:
        return None
    return found(
        "wrong-mark-dirty",
        "forward returns other memory than that of x; this exercise asks for x itself, "
        "overwritten.",
        {},
        "Which operations end in an underscore, and what do they return? Then say to autograd what "
        "was done.",
    )


def saves_no_values(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that what is saved are places, not numbers: they may take as many bytes."""
    _, outputs = applied(function, inputs)
    for position, saved in enumerate(getattr(node(outputs), "saved_tensors", ())):
        if saved is not None and saved.is_floating_point():
            return found(
                "oversaved",
                f"Saved tensor number {position} holds values ({str(saved.dtype)[6:]}); this "
                "exercise allows the indices only.",
                {"position": position},
                "Where did each value go? Forward knows it already, and backward need not sort "
                "again.",
            )
    return None


def gives_only_the_prediction_a_gradient(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Ask that target and weight get ``None``: zeros would be a gradient, to an optimizer too."""
    _, outputs = applied(function, inputs)
    returned = as_tuple(function.backward(node(outputs), torch.ones_like(outputs[0])))
    for name, gradient in zip(("target", "weight"), returned[1:], strict=False):
        if gradient is not None:
            return found(
                "extra-gradient",
                f"backward returns a tensor for {name}; this exercise asks for None.",
                {"argument": name},
                "Zeros are a gradient: an optimizer with weight decay acts on them. None is none.",
            )
    return None


def signal(
    rng: torch.Generator, shape: tuple[int, ...], stride: int, training: bool
) -> tuple[Any, ...]:
    """Return the arguments of a strided gain, ``gain`` of the output's shape."""
    kept = (*shape[:-1], -(-shape[-1] // stride))
    return normal(rng, *shape), normal(rng, *kept), stride, training


STRIDED_INPUTS: Mapping[str, Sampler] = {
    "stride 2, in training": lambda rng: signal(rng, (2, 7), 2, True),
    "stride 2, not in training": lambda rng: signal(rng, (2, 7), 2, False),
    "stride 1": lambda rng: signal(rng, (5,), 1, True),
    "stride 1, not in training": lambda rng: signal(rng, (2, 3), 1, False),
    "stride 3, three axes, one of length 1": lambda rng: signal(rng, (2, 1, 6), 3, True),
    "a stride longer than the axis": lambda rng: signal(rng, (3, 2), 4, True),
}

LEAKY_INPUTS: Mapping[str, Sampler] = {
    "a matrix, slope 0.1": lambda rng: (around(rng, (0.0,), 3, 5), 0.1),
    "a vector, slope 0.5": lambda rng: (around(rng, (0.0,), 4), 0.5),
    "three axes, one of length 1": lambda rng: (around(rng, (0.0,), 2, 1, 3), 0.01),
    "a single number (0-dim)": lambda rng: (around(rng, (0.0,)), 0.2),
}

SORT_INPUTS: Mapping[str, Sampler] = {
    "a 3×5 matrix": lambda rng: (normal(rng, 3, 5),),
    "a vector": lambda rng: (normal(rng, 6),),
    "descending": lambda rng: (normal(rng, 2, 4), True),
    "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
}

WRITE: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="strided-gain",
        lesson=LESSON,
        title="Strided gain",
        points=3,
        reference=strided_gain,
        samplers=STRIDED_INPUTS,
        asked=("wasted-gradient", "returns-view"),
        hints=(
            "Four arguments go in. Which are tensors that backward reads, which are plain facts "
            "about the call? And of x, when it is not multiplied: is its value needed at all?",
            "backward needs the stride, the flag and the shape of x as attributes; x and gain as "
            "saved tensors, in training only. The gradient of x is zero wherever an element was "
            "left out, so begin with zeros of the shape of x and of the dtype of grad_output.",
            "grad_x = grad_output.new_zeros(ctx.shape), then grad_x[..., ::ctx.stride] = "
            "grad_output, in training times gain. gain's gradient is grad_output times the kept "
            "elements of x. Ask ctx.needs_input_grad before each, return None for stride and "
            "training, and .clone() the slice where forward returns it as it is.",
        ),
        read='lesson 02, "The whole thing, working"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            in_evaluation(no_tensor_on_ctx),
            in_evaluation(
                keeps_at_most(
                    lambda x, gain, stride, training: 0,
                    "when training is False, backward needs no tensor",
                )
            ),
        ),
        bounds="a gradient is computed only where one is wanted, the output is no view, and "
        "nothing is kept when training is False",
    ),
    FunctionExercise(
        id="leaky-relu-in-place",
        lesson=LESSON,
        title="Leaky ReLU in place",
        points=2,
        reference=leaky_relu,
        samplers=LEAKY_INPUTS,
        hints=(
            "When backward runs, x holds y. Can you tell from y alone on which side of 0 the input "
            "was? The slope is positive.",
            "Three things: change x by an operation in place, say so to autograd, return x itself. "
            "Where the output is negative, the local derivative is the slope.",
            "In forward: x.copy_(torch.where(x > 0, x, slope * x)), ctx.mark_dirty(x), "
            "ctx.save_for_backward(x), return x. In backward: grad_output where the saved tensor "
            "is positive, slope times grad_output elsewhere, and None for the slope.",
        ),
        read='lesson 02, "Writing in place: mark_dirty"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, works_in_place),
        bounds="x itself is overwritten and returned",
    ),
    FunctionExercise(
        id="sort-with-indices",
        lesson=LESSON,
        title="Sort, with the indices",
        points=2,
        reference=sort_with_indices,
        samplers=SORT_INPUTS,
        asked=("wrong-non-differentiable",),
        hints=(
            "Sorting moves numbers and changes none of them. Where does the gradient of the "
            "largest value belong? And what can be the gradient of an index?",
            "values[i] = x[indices[i]], so each gradient goes back to the place that its index "
            "names: the opposite of gathering. backward gets a second gradient, that of the "
            "indices, and has no use for it.",
            "Save the indices. Then torch.zeros_like(grad_values).scatter(-1, indices, "
            "grad_values), and None for descending. Integers need no mark; "
            "ctx.mark_non_differentiable(indices) says it for the reader.",
        ),
        read='lesson 02, "Outputs without a gradient"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            keeps_at_most(
                lambda x, descending=False: 8 * x.numel(), "the indices, 8 bytes an element"
            ),
            saves_no_values,
        ),
        bounds="nothing but the indices is kept",
    ),
    FunctionExercise(
        id="frozen-target",
        lesson=LESSON,
        title="Loss with a frozen target",
        points=2,
        reference=frozen_target,
        samplers=shaped(positive, count=3),
        asked=("wasted-gradient",),
        hints=(
            "Write the mean as a sum with a factor in front. What becomes of that factor when you "
            "differentiate with respect to one element of the prediction?",
            "∂L/∂prediction = 2/N · weight · (prediction - target), with N the number of all "
            "elements, times grad_output, which is a single number here. Of the other two the "
            "exercise says what their gradient is.",
            "Save all three. Return 2 * weight * (prediction - target) * grad_output / "
            "prediction.numel() where ctx.needs_input_grad[0] is True, else None; then None, None.",
        ),
        read='lesson 02, "A frozen target and its 1/N"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, gives_only_the_prediction_a_gradient),
        bounds="target and weight get no gradient, whether or not they ask for one",
    ),
)

EXERCISES: tuple[Exercise, ...] = (*WRITE, *CARDS)
