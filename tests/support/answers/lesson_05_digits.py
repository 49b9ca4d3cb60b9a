"""Answers to the training exercise of lesson 05: nets, and ways to train them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear

from answers.making import Wrong, solved

SOLVED = solved("05_straight_through")


class Weighted(nn.Module):
    """A layer without bias. It applies ``seen`` to its weights before it multiplies by them."""

    def __init__(self, inputs: int, outputs: int, seen: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))
        self.seen = seen

    def forward(self, x: Any) -> Any:
        return linear(x, self.seen(self.weight))


def net_of(first: Any, second: Any, width: int = 64) -> Any:
    return nn.Sequential(
        Weighted(64, width, first),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        Weighted(width, 10, second),
        nn.BatchNorm1d(10),
    )


def fitted(
    net: Any, images: Any, labels: Any, steps: int = 100, learning_rate: float = 0.01
) -> Any:
    optimizer = torch.optim.Adam(net.parameters(), lr=learning_rate)
    for _ in range(steps):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


straight, clipped = SOLVED["SignSTE"].apply, SOLVED["ClippedSignSTE"].apply


def detached(w: Any) -> Any:
    """Implement the estimator without a Function: the sign's value and the identity's gradient."""
    return w + (torch.where(w >= 0, 1.0, -1.0) - w).detach()


def trains_without_the_clip(images: Any, labels: Any) -> Any:
    return fitted(net_of(straight, straight), images, labels)


def trains_by_detaching(images: Any, labels: Any) -> Any:
    return fitted(net_of(detached, detached), images, labels)


def trains_in_small_batches(images: Any, labels: Any) -> Any:
    """Train with momentum on small batches. Latent weights stay in [-1, 1]. Return a function."""
    net = net_of(clipped, clipped)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(8):
        for batch in torch.randperm(len(labels)).split(64):
            loss = cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                net[0].weight.clamp_(-1, 1), net[3].weight.clamp_(-1, 1)
    return lambda images: net.eval()(images)


def trains_as_the_lesson(images: Any, labels: Any) -> Any:
    """Train plain tensors as weights, with a plain function as the net and no normalization."""
    weights = [(0.6 * (torch.rand(64, n) - 0.5)).requires_grad_() for n in (64, 10)]

    def net(images: Any) -> Any:
        hidden = torch.tanh(images @ clipped(weights[0]) / 8)
        return hidden @ clipped(weights[1]) / 8

    optimizer = torch.optim.Adam(weights, lr=0.02)
    for _ in range(120):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            weights[0].clamp_(-1, 1), weights[1].clamp_(-1, 1)
    return net


class AlsoBinaryActivations(nn.Module):
    """Uses signs of weights and hidden values. The mean size of the weights scales the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Weighted(64, 256, clipped), Weighted(256, 10, clipped)
        self.norm = nn.BatchNorm1d(256, affine=False)

    def forward(self, x: Any) -> Any:
        hidden = clipped(self.norm(self.first(x)))
        return self.second(hidden) * self.second.weight.abs().mean(1)


def trains_binary_activations(images: Any, labels: Any) -> Any:
    return fitted(AlsoBinaryActivations(), images, labels, steps=150)


def plain_sign(w: Any) -> Any:
    return torch.where(w >= 0, 1.0, -1.0) + 0 * w


def as_it_is(w: Any) -> Any:
    return w


def no_estimator(images: Any, labels: Any) -> Any:
    return fitted(net_of(plain_sign, plain_sign), images, labels)


def random_features(images: Any, labels: Any) -> Any:
    """In a wide layer, random signs with a trained normalization are nearly good enough."""
    return fitted(net_of(plain_sign, plain_sign, width=256), images, labels, steps=60)


def real_weights(images: Any, labels: Any) -> Any:
    return fitted(net_of(as_it_is, as_it_is), images, labels)


def last_layer_real(images: Any, labels: Any) -> Any:
    return fitted(net_of(clipped, as_it_is), images, labels)


def signs_taken_afterwards(images: Any, labels: Any) -> Any:
    net = fitted(net_of(as_it_is, as_it_is), images, labels)
    for layer in (net[0], net[3]):
        layer.seen = clipped
    return net


def stores_the_signs(images: Any, labels: Any) -> Any:
    """Overwrites the weights by their signs, so that small steps are lost."""

    class Stored(Weighted):
        def forward(self, x: Any) -> Any:
            self.weight.data = self.seen(self.weight.data)
            return linear(x, self.weight)

    net = net_of(None, None)
    net[0], net[3] = Stored(64, 64, clipped), Stored(64, 10, clipped)
    return fitted(net, images, labels)


def never_steps(images: Any, labels: Any) -> Any:
    net = net_of(clipped, clipped)
    cross_entropy(net(images), labels).backward()
    return net


def a_few_steps(images: Any, labels: Any) -> Any:
    return fitted(net_of(clipped, clipped), images, labels, steps=4)


def returns_the_loss(images: Any, labels: Any) -> Any:
    return fitted(net_of(clipped, clipped), images, labels, steps=1), 0.1


def returns_labels(images: Any, labels: Any) -> Any:
    net = fitted(net_of(clipped, clipped), images, labels, steps=1)
    return lambda images: net(images).argmax(-1)


def wrong_digits(mistake: str, says: str, train: Any) -> Wrong:
    return Wrong("binary-digits", mistake, says, train)


WRONG_DIGITS = [
    wrong_digits(
        "no estimator", "its weights did not learn: in 100 steps the gradient", no_estimator
    ),
    wrong_digits("random features", "its weights did not learn", random_features),
    wrong_digits("real weights", "weights of shape (64, 64) with 4096 different", real_weights),
    wrong_digits("a real last layer", "weights of shape (64, 10) with 640", last_layer_real),
    wrong_digits("signs afterwards", "depend on the binary weights?", signs_taken_afterwards),
    wrong_digits("stores the signs", "changed its sign", stores_the_signs),
    wrong_digits("never steps", "Do you call optimizer.step()?", never_steps),
    wrong_digits("a few steps", "Do more steps or a larger", a_few_steps),
    wrong_digits(
        "returns two", "the function returns a tuple; this exercise asks for", returns_the_loss
    ),
    wrong_digits(
        "returns labels", "the net returns (400,); this exercise asks for scores", returns_labels
    ),
]
