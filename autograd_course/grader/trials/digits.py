"""Trial: train a network with binary weights on handwritten digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.digits import HELD_OUT, Digits, split_digits
from autograd_course.grader.checks.operators import HINT, OwnOperators
from autograd_course.grader.exercise import Trial
from autograd_course.grader.trials.optimizing import Training, watched
from autograd_course.grader.trials.products import WithoutProducts, weights_used
from autograd_course.grader.verdict import Verdict, wrong

digits = split_digits  # an older version of lesson 15 imports this name
Net = Callable[[Tensor], Any]
GUESSING = 0.3  # a constant guess gets about 10% right


def learns_binary_digits(asked: float) -> Trial:
    """Return a trial that tests ``train(images, labels) -> net``.

    The network must multiply only by -1 and +1, and it must have learned these weights. It must
    correctly classify at least the fraction ``asked`` of the held-out digits.
    """

    def trial(train: Callable[[Tensor, Tensor], Any]) -> Verdict | None:
        shown, held_out = split_digits()
        torch.manual_seed(0)  # the training gives the same net in every run
        with watched() as training:
            net = train(*shown)
        if isinstance(net, torch.nn.Module):
            net.eval()
        return (
            _not_a_net(net, held_out.images)
            or _not_binary(net, held_out.images)
            or _not_learned(_accuracy(net, held_out), asked, training)
            or _not_by_products(net, held_out)
        )

    return trial


def _not_a_net(net: Any, images: Tensor) -> Verdict | None:
    if not callable(net):
        return wrong(
            f"the function returns {'None' if net is None else f'a {type(net).__name__}'}; this "
            "exercise asks for the trained net, which can be called with images."
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
    """Check the weights by which the network multiplies. Its parameters can have any values."""
    half = len(images) // 2
    with OwnOperators() as own:
        used = list(weights_used(net, images[:half], images[half : 2 * half]))
    if own.told:
        return wrong(f"{own.told} {HINT}")
    if not used:
        return wrong(
            "the grader found no matrix product with weights between the images and the scores. "
            "Multiply with @ or linear, so that the grader can see the weights."
        )
    for weight in used:
        if bool((weight.abs() != 1).any()):
            values = weight.unique()
            return wrong(
                f"one product in the forward pass uses weights of shape {tuple(weight.shape)} with "
                f"{len(values)} different values, from {values[0]:.2g} to {values[-1]:.2g}. This "
                "exercise allows only -1 and +1. The optimizer changes real-valued weights, but "
                "forward must multiply with their sign. To scale a sum, divide the product, not "
                "the weights."
            )
    return None


def _not_by_products(net: Net, held_out: Digits) -> Verdict | None:
    """Check that the net recognizes digits by its products. Without them, it can only guess."""
    with WithoutProducts():
        accuracy = _accuracy(net, held_out)
    if accuracy <= GUESSING:
        return None
    return wrong(
        f"if all products with weights return zeros, the net still gets {accuracy:.0%} of "
        f"{HELD_OUT} held-out digits right. So the binary weights do not recognize the digits."
    )


def _accuracy(net: Net, held_out: Digits) -> float:
    with torch.no_grad():
        guesses = net(held_out.images).argmax(-1)
    return float((guesses.cpu() == held_out.labels).double().mean())


def _not_learned(accuracy: float, asked: float, training: Training) -> Verdict | None:
    reached = f"the net gets {accuracy:.0%} of {HELD_OUT} held-out digits right"
    if training.steps and (untaught := training.untaught()):
        return wrong(
            f"{reached}, but its weights did not learn: in {training.steps} steps the gradient of "
            f"{_shapes(untaught)} was always zero. What does your backward do with grad_output? "
            "Does autograd connect the weights to the loss?"
        )
    if accuracy >= asked and training.passes:
        return None
    if accuracy >= asked:
        return wrong(
            f"{reached}, but the grader saw no backward pass, so the weights were not learned. "
            "Train the latent weights with the gradient of a loss."
        )
    return wrong(f"{reached}; this exercise asks for {asked:.0%}. {_why(training)}")


def _why(training: Training) -> str:
    if not training.steps:
        return (
            "The grader saw no step of an optimizer from torch.optim. Do you call optimizer.step()?"
        )
    if not training.weights:
        return "The optimizer has no weight matrix. Pass net.parameters() to it."
    if unflipped := training.unflipped():
        return (
            f"Gradients arrive, but in {training.steps} steps no element of {_shapes(unflipped)} "
            "changed its sign. The optimizer needs real-valued weights, because many small steps "
            "can move them across zero."
        )
    return (
        f"Gradients arrive, and signs changed in {training.steps} steps. Does each loss depend on "
        "the binary weights? Do the scores have a reasonable size? Do more steps or a larger "
        "learning rate help?"
    )


def _shapes(tensors: Sequence[Tensor]) -> str:
    shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
    return f"the weights of shape {shapes}"
