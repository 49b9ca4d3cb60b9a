"""Strided gain

1. forward has four arguments. Which of them are tensors that backward reads, and which are numbers
   and flags? When `x` is not multiplied by `gain`, does backward need the values of `x`?
2. backward needs the stride, the flag and the shape of x as attributes. It needs x and gain as
   saved tensors, but only in training. The gradient of x is zero for each element that forward left
   out. So start with zeros that have the shape of x and the dtype of grad_output.
3. Let grad_x = grad_output.new_zeros(ctx.shape), then assign grad_output to grad_x[...,
   ::ctx.stride]. In training, multiply grad_output by gain first. The gradient of gain is
   grad_output times the kept elements of x. Check ctx.needs_input_grad before you compute each
   gradient, return None for stride and training, and .clone() the slice if forward returns it
   unchanged.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Generator, Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_tensor_on_ctx
from autograd_course.grader.checks.calling import found
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import Check, FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by, returning


def strided_gain(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
    """Return every ``stride``-th element of the last dim, multiplied by ``gain`` in training."""
    kept = x[..., ::stride]
    return kept * gain if training else kept.clone()


def signal(rng: Generator, shape: tuple[int, ...], stride: int, training: bool) -> tuple[Any, ...]:
    """Return random arguments for ``StridedGain``. ``gain`` has the shape of the output."""
    kept = (*shape[:-1], -(-shape[-1] // stride))
    return normal(rng, *shape), normal(rng, *kept), stride, training


def in_evaluation(check: Check) -> Check:
    """Return a check that runs ``check`` on the same call with ``training=False``."""
    return lambda function, inputs: check(function, (*inputs[:-1], False))


def spread(x: Tensor, values: Tensor, stride: int) -> Tensor:
    """Return zeros shaped like ``x``, with ``values`` at every ``stride``-th element."""
    out = values.new_zeros(x.shape)
    out[..., ::stride] = values
    return out


def scaled_in_evaluation(
    x: Tensor, gain: Tensor, stride: int, training: bool, g: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return gradients in which gain multiplies the gradient of x even if ``training`` is False."""
    return spread(x, g * gain, stride), g * x[..., ::stride] if training else None


def gain_by_the_first(
    x: Tensor, gain: Tensor, stride: int, training: bool, g: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Compute the gradient of gain from the first elements of x, not from every stride-th one."""
    first = g * x[..., : g.shape[-1]]
    return spread(x, g * gain if training else g, stride), first if training else None


def repeated(
    x: Tensor, gain: Tensor, stride: int, training: bool, g: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Give each element of x that forward left out the gradient of its neighbor."""
    each = (g * gain if training else g).repeat_interleave(stride, -1)[..., : x.shape[-1]]
    return each, g * x[..., ::stride] if training else None


def at_the_first(
    x: Tensor, gain: Tensor, stride: int, training: bool, g: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Assign grad_output to the first elements of x, not to every stride-th one."""
    out = torch.zeros_like(x)
    out[..., : g.shape[-1]] = g * gain if training else g
    return out, g * x[..., ::stride] if training else None


def without_evaluation(
    x: Tensor, gain: Tensor, stride: int, training: bool, g: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return zeros as the gradient of x if training is False."""
    if not training:
        return torch.zeros_like(x), None
    return spread(x, g * gain, stride), g * x[..., ::stride]


takes_the_other_length = raises_except_for(
    lambda x, gain, stride, training: (x, x.clone(), 1, training) if stride > 1 else None,
    "x is longer than the output.",
    "`backward` works for stride 1. With a longer stride, x is longer than grad_output. Compare "
    "the lengths of the tensors in this line with both of them.",
)


def asks_the_wrong_flag(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the needs_input_grad flag of x controls the gradient of gain."""
    x, gain, stride, _ = inputs
    given = x.detach().clone(), gain.detach().clone().requires_grad_()
    output = function.apply(*given, stride, True)
    returned = as_tuple(function.backward(output.grad_fn, torch.ones_like(output)))
    if returned[1] is not None:
        return None
    return found(
        "frozen-input",
        "A flag decides about the wrong gradient.",
        {},
        "If only gain requires grad, `backward` returns no gradient for gain. Each flag of "
        "ctx.needs_input_grad decides about one gradient. They are in the order of forward.",
    )


def multiplies_the_length(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if backward assumes that x is as long as the output times stride."""
    x, _, stride, _ = inputs
    length, kept = returned_by(function, inputs)[0].shape[-1], len(range(0, x.shape[-1], stride))
    if length == x.shape[-1] or length != kept * stride:
        return None
    return found(
        "gradient-shape",
        "The length is computed from the output.",
        {"length": length},
        f"The gradient has the length {length}, which is the length {kept} of the output times the "
        f"stride {stride}. The stride does not always divide the length of x. Keep x.shape.",
    )


EXERCISE = FunctionExercise(
    answer="StridedGain",
    points=3,
    difficulty="medium",
    minutes=20,
    section="Separate forward and setup_context",
    constraints="a gradient is computed only if it is needed, the output is not a view, and "
    "nothing is saved when training is False",
    reference=strided_gain,
    samplers={
        "stride 2, in training": lambda rng: signal(rng, (2, 7), 2, True),
        "stride 2, not in training": lambda rng: signal(rng, (2, 7), 2, False),
        "stride 1": lambda rng: signal(rng, (5,), 1, True),
        "stride 1, not in training": lambda rng: signal(rng, (2, 3), 1, False),
        "stride 3, three dimensions, one of length 1": lambda rng: signal(rng, (2, 1, 6), 3, True),
        "a stride longer than the dimension": lambda rng: signal(rng, (3, 2), 4, True),
    },
    asked=("wasted-gradient", "returns-view"),
    suspects={
        "The result is multiplied by gain, although training is False.": (
            lambda x, gain, stride, training: x[..., ::stride] * gain
        ),
        "The result is not multiplied by gain, although training is True.": (
            lambda x, gain, stride, training: x[..., ::stride].clone()
        ),
        "These are the first elements of the last dim. This exercise keeps every stride-th one.": (
            lambda x, gain, stride, training: strided_gain(
                x[..., : gain.shape[-1]], gain, 1, training
            )
        ),
    },
    gradient_suspects={
        "When training is False, `forward` does not multiply by gain. `backward` still multiplies "
        "the gradient of x by it.": returning(strided_gain, scaled_in_evaluation),
        "Each gain was multiplied by one kept element of x. `backward` multiplies by the first "
        "elements of x, not by every stride-th one.": returning(strided_gain, gain_by_the_first),
        "`backward` also gives a gradient to the elements that `forward` left out. The output does "
        "not depend on them, so theirs is 0.": returning(strided_gain, repeated),
        "The gradients go to the first elements of x. `forward` took every stride-th element, so "
        "they belong there.": returning(strided_gain, at_the_first),
        "When training is False, the gradient of x is 0 everywhere. `forward` still returns the "
        "kept elements, so grad_output passes to them.": returning(
            strided_gain, without_evaluation
        ),
    },
    causes=(multiplies_the_length, takes_the_other_length, asks_the_wrong_flag),
    checks=(
        *CONDUCT,
        in_evaluation(no_tensor_on_ctx),
        in_evaluation(
            keeps_at_most(
                lambda x, gain, stride, training: 0,
                "when training is False, backward needs no tensor",
            )
        ),
    ),
)
