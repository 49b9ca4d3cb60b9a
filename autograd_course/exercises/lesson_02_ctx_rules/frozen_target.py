"""Loss with a frozen target

1. Write the mean as a sum with a factor in front. What happens to this factor when you
   differentiate with respect to one element of the prediction?
2. ∂L/∂prediction = 2/N · weight · (prediction - target), times grad_output, which is a single
   number here. N is the total number of elements. The exercise says what backward returns for the
   other two inputs.
3. Save all three tensors. Return 2 * weight * (prediction - target) * grad_output /
   prediction.numel() if ctx.needs_input_grad[0] is True, otherwise None. Return None for target and
   None for weight.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found, node
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive, shaped
from autograd_course.grader.suspecting import returned_by, returning


def frozen_target(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean squared error, with no gradient for the target or the weight."""
    return (weight.detach() * (prediction - target.detach()) ** 2).mean()


def gives_only_the_prediction_a_gradient(
    function: type[Function], inputs: tuple[Any, ...]
) -> Finding | None:
    """Check that backward returns ``None``, not zeros, for the target and the weight."""
    _, outputs = applied(function, inputs)
    returned = as_tuple(function.backward(node(outputs), torch.ones_like(outputs[0])))
    for name, gradient in zip(("target", "weight"), returned[1:], strict=False):
        if gradient is not None:
            return found(
                "extra-gradient",
                f"`backward` returns a tensor for {name}. This exercise asks for None.",
                {"argument": name},
                "An optimizer with weight decay acts on a gradient of zeros. It skips None.",
            )
    return None


def averages_the_gradient(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the gradient of the prediction is a single number."""
    gradient, *_ = returned_by(function, inputs)
    if inputs[0].ndim == 0 or gradient.shape != ():
        return None
    return found(
        "gradient-shape",
        "The gradient is a single number.",
        {},
        "The loss is a single number, but each element of the prediction has a gradient of its "
        "own. So backward takes no sum or mean. It divides each element by N.",
    )


def asks_all_flags(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the prediction gets a gradient only when another input requires one."""
    prediction, target, weight = (tensor.detach().clone() for tensor in inputs)
    if returned_by(function, inputs)[0] is None:
        return None
    output = function.apply(prediction.requires_grad_(), target, weight)
    if as_tuple(function.backward(output.grad_fn, torch.ones_like(output)))[0] is not None:
        return None
    return found(
        "frozen-input",
        "The flags of the other inputs are asked.",
        {},
        "The prediction gets its gradient only if target or weight requires one, too. Only its own "
        "flag counts, which is the first one of ctx.needs_input_grad.",
    )


def by_the_weights(prediction: Tensor, target: Tensor, weight: Tensor, g: Tensor) -> Tensor:
    """Return the gradient of a mean that divides by the sum of the weights."""
    return 2 * weight * (prediction - target) / weight.sum() * g


EXERCISE = FunctionExercise(
    answer="FrozenTargetLoss",
    points=2,
    difficulty="easy",
    minutes=10,
    section="A frozen target and its 1/N",
    constraints="target and weight get no gradient, even if they require one",
    reference=frozen_target,
    samplers=shaped(positive, count=3),
    suspects={
        "This is the sum over all elements. The loss is their mean.": lambda p, t, w: (
            w * (p - t) ** 2
        ).sum(),
        "The weighted sum is divided by the sum of the weights. The formula divides by N, the "
        "number of elements.": lambda p, t, w: (w * (p - t) ** 2).sum() / w.sum(),
        "The sum is divided by the size of dim 0. The formula divides by the number of all "
        "elements.": lambda p, t, w: (w * (p - t) ** 2).sum() / (len(p) if p.ndim else 1),
        "The weight is squared, too. The formula squares only the difference.": lambda p, t, w: (
            (w * (p - t)) ** 2
        ).mean(),
        "The means of the weights and of the squares are taken separately. First multiply them "
        "element by element, and then take the mean.": lambda p, t, w: (
            w.mean() * ((p - t) ** 2).mean()
        ),
        "The weights are missing.": lambda p, t, w: ((p - t) ** 2).mean(),
        "The difference is not squared.": lambda p, t, w: (w * (p - t)).mean(),
        "This is the absolute difference, not its square.": lambda p, t, w: (
            w * (p - t).abs()
        ).mean(),
        "The mean is only over the last dim. The loss is a single number.": lambda p, t, w: (
            w * (p - t) ** 2
        ).mean(-1),
    },
    gradient_suspects={
        "`backward` divides by the sum of the weights. `forward` divides by the number of "
        "elements.": returning(frozen_target, by_the_weights),
        "`backward` does not subtract the target.": returning(
            frozen_target, lambda p, t, w, g: 2 * w * p / p.numel() * g
        ),
    },
    asked=("wasted-gradient",),
    causes=(averages_the_gradient, asks_all_flags),
    checks=(*CONDUCT, gives_only_the_prediction_a_gradient),
)
