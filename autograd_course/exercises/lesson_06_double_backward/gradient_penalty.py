"""Gradient penalty

1. You need the gradient with respect to the samples, not the parameters. But the samples do not
   require grad. Later, the training differentiates the penalty with respect to the parameters.
   What must the gradient have for this to work?
2. Create a leaf of your own from x. Call torch.autograd.grad on the summed scores with
   create_graph=True. Compute one norm for each sample over all its other dimensions, and return the
   mean of (norm - 1)².
3. gradient.flatten(1).norm(dim=1) is the norm of each sample. It is safe at zero, where the
   derivative of a square root is infinite. Do not call .backward(), because it would add to the
   .grad of the parameters.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_06_double_backward._arguments import ask_for_no_gradient
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong


def gradient_penalty(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the mean over the samples of ``(‖∂critic/∂x‖ - 1)²``."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return (norms - 1).square().mean()


def penalized(
    norms: Callable[[Tensor], Tensor], penalty: Callable[[Tensor], Tensor], scale: bool = False
) -> Callable[..., Tensor]:
    """Return a suspect that computes ``norms`` of the gradient and then their ``penalty``.

    With ``scale``, it differentiates the mean of the scores instead of their sum.
    """

    def suspect(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        scores = critic(x)
        total = scores.mean() if scale else scores.sum()
        (gradient,) = torch.autograd.grad(total, x)
        return penalty(norms(gradient))

    return suspect


def each_norm(gradient: Tensor, order: float = 2) -> Tensor:
    """Return the norm of each sample's gradient."""
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), order, dim=1)
    return norms


def norms_over(*dims: int) -> Callable[[Tensor], Tensor]:
    """Return a function that takes norms over all ``dims`` that exist, or else the last dim."""

    def norms(gradient: Tensor) -> Tensor:
        existing = [dim for dim in dims if dim < gradient.ndim] or [gradient.ndim - 1]
        found: Tensor = torch.linalg.vector_norm(gradient, dim=existing)
        return found

    return norms


def squared(norms: Tensor) -> Tensor:
    """Return the mean of ``(norm - 1)²``."""
    return (norms - 1).square().mean()


def of_one_score(pick: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a suspect that differentiates one of the scores instead of their sum."""

    def suspect(critic: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(pick(critic(x)).sum(), x)
        return squared(each_norm(gradient))

    return suspect


EACH_SAMPLE = " An image has more dims, and each sample has one norm over all of them."
SUSPECTS: dict[str, Callable[..., Tensor]] = {
    "1 is subtracted from each element of the gradient. First take the norm of each sample, and "
    "then subtract 1.": penalized(lambda gradient: gradient, squared),
    "This takes the largest absolute value of each gradient. The formula has the Euclidean "
    "norm.": penalized(lambda gradient: each_norm(gradient, float("inf")), squared),
    "1 is added to the norms. The formula subtracts it.": penalized(
        each_norm, lambda norms: (norms + 1).square().mean()
    ),
    "This is the root of the penalty. The formula has no root around the mean.": penalized(
        each_norm, lambda norms: (norms - 1).square().mean().sqrt()
    ),
    "There is one penalty for each sample. The result is their mean, a single number.": penalized(
        each_norm, lambda norms: (norms - 1).square()
    ),
    "There is one penalty for each sample, in a column. The result is their mean, a single "
    "number.": penalized(each_norm, lambda norms: (norms - 1).square().unsqueeze(1)),
    "This is the gradient of a single score, so all other samples have the gradient 0. Take the "
    "sum of the scores.": of_one_score(lambda scores: scores[0]),
    "This is the gradient of a single score, so every other sample has the gradient 0. Take the "
    "sum of the scores.": of_one_score(lambda scores: scores.max()),
    "There is one norm for the whole batch. The formula has one norm for each sample.": penalized(
        lambda gradient: torch.linalg.vector_norm(gradient), squared
    ),
    "The norms are only over dim 1." + EACH_SAMPLE: penalized(norms_over(1), squared),
    "The norms are only over the last dim." + EACH_SAMPLE: penalized(
        lambda gradient: torch.linalg.vector_norm(gradient, dim=-1), squared
    ),
    "The norms are over dims 2 and 3, without dim 1." + EACH_SAMPLE: penalized(
        norms_over(2, 3), squared
    ),
    "The norms are over the samples. Each sample has one norm over its own elements.": penalized(
        lambda gradient: torch.linalg.vector_norm(gradient.flatten(1), dim=0), squared
    ),
    "The mean of the norms is taken before 1 is subtracted and the result is squared. First square "
    "the distance of each norm from 1, and then take the mean.": penalized(
        each_norm, lambda norms: (norms.mean() - 1).square()
    ),
    "These are the squares of the norms. The square root is missing.": penalized(
        lambda gradient: each_norm(gradient).square(), squared
    ),
    "The distance from 1 is not squared: this is the mean of its absolute value.": penalized(
        each_norm, lambda norms: (norms - 1).abs().mean()
    ),
    "The distance from 1 is not squared.": penalized(each_norm, lambda norms: (norms - 1).mean()),
    "1 is not subtracted from the norms. This penalizes how far they are from 0.": penalized(
        each_norm, lambda norms: norms.square().mean()
    ),
    "This is the sum over the samples. The formula has their mean.": penalized(
        each_norm, lambda norms: (norms - 1).square().sum()
    ),
    "Only norms above 1 are penalized. The formula also penalizes those below 1.": penalized(
        each_norm, lambda norms: (norms - 1).clamp(min=0).square().mean()
    ),
    "These are sums of absolute values. The formula has the Euclidean norm.": penalized(
        lambda gradient: each_norm(gradient, 1), squared
    ),
    "Each norm is divided by the root of the number of elements: this takes the mean of the "
    "squares. A norm takes their sum.": penalized(
        lambda gradient: gradient.flatten(1).square().mean(1).sqrt(), squared
    ),
    "This is the gradient of the mean of the scores, so each gradient is divided by N. Take the "
    "sum of the scores instead.": penalized(each_norm, squared, scale=True),
}


def critic(rng: torch.Generator, *shape: int, column: bool = False) -> tuple[Any, ...]:
    """Return a small random critic and a batch of samples.

    If there are several samples, some have gradient norms below 1 and others above 1.
    """
    count = torch.Size(shape[1:]).numel()
    weight, last = normal(rng, count, 7), 2 * normal(rng, 7, 1)

    def score(x: Tensor) -> Tensor:
        scores = torch.tanh(x.flatten(1) @ weight) @ last
        return scores if column else scores.squeeze(1)

    x = normal(rng, *shape)
    if len(x) > 1:
        leaf = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(score(leaf).sum(), leaf)
        least, most = gradient.flatten(1).norm(dim=1).aminmax()
        last /= (least * most).sqrt()
    return score, x


def critic_net(rng: torch.Generator) -> torch.nn.Module:
    """Return a small critic with random weights."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    net = net.double().cpu()
    for parameter in net.parameters():
        parameter.data = normal(rng, *parameter.shape)
    return net


def samples(rng: torch.Generator) -> Tensor:
    """Return a random batch of samples for ``critic_net``."""
    return normal(rng, 5, 3)


def _far_penalty(came: Any, net: torch.nn.Module, x: Tensor) -> Verdict | None:
    """Compare a penalty with the one from finite differences of the critic."""
    step = 1e-5 * torch.eye(x.shape[1], dtype=x.dtype)[:, None]
    with torch.no_grad():
        slopes = (net(x + step) - net(x - step))[..., 0] / 2e-5
    right = (slopes.norm(dim=0) - 1).square().mean()
    return far_result(torch.as_tensor(came).detach(), right, f"for {len(x)} rows,")


def leaves_samples_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the caller's samples still do not require grad after the call."""
    rng = generator()
    net, x = critic_net(rng), samples(rng)
    came = routine(net, x)
    return ask_for_no_gradient(x) or _far_penalty(came, net, x)


def leaves_gradients_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Check that computing the penalty does not change the ``.grad`` of any parameter."""
    rng = generator()
    net, x = critic_net(rng), samples(rng)
    came = routine(net, x)
    filled = [name for name, parameter in net.named_parameters() if parameter.grad is not None]
    if not filled:
        return _far_penalty(came, net, x)
    return wrong(
        f"right, but your function has filled the .grad of the critic's {filled[0]}. .backward() "
        "adds to the .grad of every leaf. torch.autograd.grad returns the gradient that you ask "
        "for, and changes no .grad."
    )


def reaches_the_parameters(routine: Callable[..., Any]) -> Verdict | None:
    """Compare the gradients of the parameters to finite differences of the penalty."""
    rng = generator()
    net, x = critic_net(rng), samples(rng)
    penalty = routine(net, x)
    if not isinstance(penalty, Tensor):
        return wrong(
            "the value is right, but it is a Python number, so it has no graph, and the critic's "
            "parameters get no gradient from it. Return a tensor, without .item() or float()."
        )
    if not penalty.requires_grad:
        return wrong(
            "the value is right, but it has no graph, so the critic's parameters get no gradient "
            "from it. Which argument makes autograd record how the gradient was computed? If you "
            "pass it, look for detach, .data or no_grad after it."
        )
    if verdict := _far_penalty(penalty, net, x):
        return verdict
    penalty.backward()
    for name, parameter in net.named_parameters():
        direction = normal(rng, *parameter.shape).to(parameter)
        expected = _slope(routine, net, x, parameter, direction)
        came = 0.0 if parameter.grad is None else float((direction * parameter.grad).sum())
        if abs(came - expected) > 1e-5 * max(1.0, abs(expected)):
            return wrong(
                f"the value is right, but its gradient with respect to the critic's {name} is "
                f"wrong: in a random direction, the gradient gives the slope {came:.4g}, should be "
                f"{expected:.4g}. Is a part of the graph cut off, by detach, .data or .item()?"
            )
    return None


def _slope(
    routine: Callable[..., Any],
    net: torch.nn.Module,
    x: Tensor,
    parameter: Tensor,
    direction: Tensor,
) -> float:
    """Return the slope of the penalty if a parameter moves in this direction."""
    values, step = [], 1e-5
    for offset in (step, -2 * step, step):  # up, down past the start, and back
        parameter.data += offset * direction
        values.append(float(routine(net, x).detach()))
    return (values[0] - values[1]) / (2 * step)


def stays_finite_where_flat(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the penalty's gradient is finite even if the critic is flat at some samples."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    net = net.double().cpu()
    for parameter in net.parameters():
        parameter.data = torch.ones_like(parameter)
    x = torch.tensor([[1.0, 1.0, 1.0], [-2.0, -2.0, -2.0]], dtype=torch.float64)
    routine(net, x).backward()
    for name, parameter in net.named_parameters():
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            return wrong(
                "where the critic is flat, its gradient is 0, and there the gradient of the "
                f"penalty with respect to {name} is {float(parameter.grad.sum())}. A square root "
                "is infinitely steep at 0. Use PyTorch's norm, which has the gradient 0 there, or "
                "add a tiny number under the root."
            )
    return None


EXERCISE = RoutineExercise(
    answer="gradient_penalty",
    points=3,
    difficulty="medium",
    minutes=9,
    section="A gradient penalty",
    constraints="its gradient reaches the critic's parameters, finite also where the critic is "
    "flat, and the samples stay as they are",
    reference=gradient_penalty,
    samplers={
        "a batch of 6 rows": lambda rng: critic(rng, 6, 4),
        "a critic that returns a column": lambda rng: critic(rng, 5, 3, column=True),
        "a batch of images": lambda rng: critic(rng, 3, 2, 2, 2),
        "a batch of one": lambda rng: critic(rng, 1, 4),
    },
    suspects=SUSPECTS,
    trials=(
        leaves_gradients_alone,
        leaves_samples_alone,
        reaches_the_parameters,
        stays_finite_where_flat,
    ),
)
