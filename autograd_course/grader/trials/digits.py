"""Train a net of binary weights on handwritten digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.digits import HELD_OUT, Digits, split_digits
from autograd_course.grader.exercise import Trial
from autograd_course.grader.trials.optimizing import Training, watched
from autograd_course.grader.trials.products import weights_used
from autograd_course.grader.verdict import Verdict, wrong

digits = split_digits  # the name that lesson 15 imported
Net = Callable[[Tensor], Any]


def learns_binary_digits(asked: float) -> Trial:
    """Return a trial of ``train(images, labels) -> net``.

    The net must multiply with -1 and +1 only, must have learned which, and must get the share
    ``asked`` of the held-out digits right.
    """

    def trial(train: Callable[[Tensor, Tensor], Any]) -> Verdict | None:
        shown, held_out = split_digits()
        with watched() as training:
            net = train(*shown)
        if isinstance(net, torch.nn.Module):
            net.eval()
        return (
            _not_a_net(net, held_out.images)
            or _not_binary(net, held_out.images)
            or _not_learned(_accuracy(net, held_out), asked, training)
        )

    return trial


def _not_a_net(net: Any, images: Tensor) -> Verdict | None:
    if not callable(net):
        return wrong(
            f"the function returns {'None' if net is None else f'a {type(net).__name__}'}; this "
            "exercise asks for the trained net, something that can be called with images."
        )
    with torch.no_grad():
        scores = net(images)
    right = (len(images), 10)
    if isinstance(scores, Tensor) and scores.shape == right:
        return None
    got = tuple(scores.shape) if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
    return wrong(
        f"for images of shape {tuple(images.shape)} the net returns {got}; this exercise "
        f"asks for scores of shape {right}, one for each digit."
    )


def _not_binary(net: Net, images: Tensor) -> Verdict | None:
    """Look at the weights in the products, not at the parameters: those may well be real."""
    half = len(images) // 2
    used = list(weights_used(net, images[:half], images[half : 2 * half]))
    if not used:
        return wrong(
            "no matrix product with weights was seen on the way from the images to the scores: "
            "multiply by @ or linear, so that the grader can look at the weights."
        )
    for weight in used:
        if bool((weight.abs() != 1).any()):
            values = weight.unique()
            return wrong(
                f"one product in the forward pass uses weights of shape {tuple(weight.shape)} with "
                f"{len(values)} different values, from {values[0]:.2g} to {values[-1]:.2g}; asked "
                "for are -1 and +1 only. Real-valued weights are what the optimizer changes; what "
                "forward multiplies with is their sign. To scale a sum, divide the product, not "
                "the weights."
            )
    return None


def _accuracy(net: Net, held_out: Digits) -> float:
    with torch.no_grad():
        guesses = net(held_out.images).argmax(-1)
    return float((guesses.cpu() == held_out.labels).double().mean())


def _not_learned(accuracy: float, asked: float, training: Training) -> Verdict | None:
    reached = f"the net gets {accuracy:.0%} of {HELD_OUT} held-out digits right"
    if training.steps and (untaught := training.untaught()):
        return wrong(
            f"{reached}, but its weights never learned: in {training.steps} steps only zeros "
            f"arrived as the gradient of {_shapes(untaught)}. What does your backward make of "
            "grad_output, and do the weights reach the loss through it?"
        )
    if accuracy >= asked:
        return None
    return wrong(f"{reached}; this exercise asks for {asked:.0%}. {_why(training)}")


def _why(training: Training) -> str:
    if not training.steps:
        return "No step of an optimizer from torch.optim was seen: is optimizer.step() called?"
    if not training.weights:
        return "The optimizer was not given any weight matrix: pass it net.parameters()."
    if unflipped := training.unflipped():
        return (
            f"Gradients do arrive, but in {training.steps} steps no element of "
            f"{_shapes(unflipped)} changed its sign. The optimizer must have a real-valued weight "
            "that many small steps can carry across zero."
        )
    return (
        f"Gradients arrive, and signs changed in {training.steps} steps. Does the loss of every "
        "step already see the binary weights? Is the size of the scores that the loss gets "
        "reasonable? Do more steps help, or a larger learning rate?"
    )


def _shapes(tensors: Sequence[Tensor]) -> str:
    shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
    return f"the weights of shape {shapes}"
