"""Per-sample gradients

1. You need a function whose gradient with respect to the parameters is the gradient of one sample.
   It must take the parameters as an argument instead of reading them from the model.
2. torch.func.functional_call(model, parameters, (x,)) runs the model with the parameters that you
   pass. Under vmap, a sample has no batch dim. Add one with x.unsqueeze(0) before you call the
   model, and do the same for the target.
3. Write a function of_one(parameters, x, y) that returns loss(functional_call(model, parameters,
   (x.unsqueeze(0),)), y.unsqueeze(0)). Then call vmap(grad(of_one), in_dims=(None, 0, 0)) on three
   arguments: a dict of the parameters, x, and y. The result is a dict. Return its values as a
   tuple.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.extension import OperationRecorder
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, mse_loss

from autograd_course.functions import SmoothMaximum
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong

Loss = Callable[[Tensor, Tensor], Tensor]


def per_sample_gradients(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Return one tensor per parameter, with the gradients of all samples stacked along dim 0."""
    parameters = list(model.parameters())
    rows = [
        torch.autograd.grad(loss(model(x[i : i + 1]), y[i : i + 1]), parameters)
        for i in range(len(x))
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


class Gated(nn.Module):
    """A linear layer and a smooth maximum over its outputs, with a learned temperature.

    The output weights are a buffer, not a parameter.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.temperature = nn.Linear(3, 5), nn.Parameter(torch.tensor(0.5))
        self.register_buffer("weight", torch.tensor([1.0, 2.0, 1.0, 2.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each row."""
        call: Any = SmoothMaximum.apply
        result: Tensor = call(self.weight * self.layer(x), self.temperature)
        return result


def filled(model: nn.Module, rng: torch.Generator) -> nn.Module:
    """Return the model in float64, with random parameters."""
    model = model.double().cpu()
    for parameter in model.parameters():
        parameter.data = normal(rng, *parameter.shape).abs() / 2 + 0.1
    return model


class Counted(nn.Linear):
    """A layer that calls ``seen`` whenever it runs, with or without hooks, also as a copy."""

    seen: Callable[[], None]

    def forward(self, x: Tensor) -> Tensor:
        """Call ``seen``, and return the result of the linear layer."""
        self.seen()
        return super().forward(x)


def layers(
    rng: torch.Generator, count: int = 6, first: type[nn.Linear] = nn.Linear
) -> tuple[Any, ...]:
    """Return a small net, a loss, and a batch of samples."""
    net = filled(nn.Sequential(first(3, 4), nn.Tanh(), nn.Linear(4, 2)), rng)
    return net, mse_loss, normal(rng, count, 3), normal(rng, count, 2)


def gated(rng: torch.Generator) -> tuple[Any, ...]:
    """Return a :class:`Gated` net, a loss, and a batch of samples."""
    return filled(Gated(), rng), mse_loss, normal(rng, 4, 3), normal(rng, 4)


def images(rng: torch.Generator) -> tuple[Any, ...]:
    """Return a convolutional classifier (which needs a batch dim), a loss, and images."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    labels = torch.randint(3, (5,), generator=rng, device="cpu")
    return filled(net, rng), cross_entropy, normal(rng, 5, 1, 4, 4), labels


def of_the_batch(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Return the gradient of the loss for the whole batch, repeated for each sample."""
    grads = torch.autograd.grad(loss(model(x), y), list(model.parameters()))
    return tuple(g.expand(len(x), *g.shape) for g in grads)


def shares(model: nn.Module, loss: Loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Return the per-sample gradients divided by the number of samples."""
    return tuple(g / len(x) for g in per_sample_gradients(model, loss, x, y))


def with_all_targets(
    model: nn.Module, loss: Loss, x: Tensor, y: Tensor, *, all_inputs: bool = False
) -> tuple[Tensor, ...]:
    """Return the gradients of a loss that compares each sample with all targets, or vice versa."""
    parameters = list(model.parameters())
    rows = []
    for i in range(len(x)):
        one = slice(i, i + 1)
        outputs, targets = (model(x), y[one]) if all_inputs else (model(x[one]), y)
        outputs, targets = (t.expand(len(x), *t.shape[1:]) for t in (outputs, targets))
        rows.append(torch.autograd.grad(loss(outputs, targets), parameters))
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


Way = Callable[..., Any]


def _vmapped(
    *,
    x: Callable[[Tensor], Tensor] = lambda x: x.unsqueeze(0),
    y: Callable[[Tensor], Tensor] = lambda y: y.unsqueeze(0),
    dims: Any = (None, 0, 0),
    transform: Callable[[Way, Any], Way] = lambda of_one, dims: vmap(grad(of_one), dims),
    collect: Callable[[nn.Module], Any] = lambda model: _detached(model),
) -> Callable[..., tuple[Tensor, ...]]:
    """Return the solution with one step replaced, such as ``in_dims`` or the transforms."""

    def changed(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> Any:
        def of_one(parameters: Any, one: Tensor, target: Tensor) -> Tensor:
            return loss(functional_call(model, parameters, (x(one),)), y(target))

        gradients = transform(of_one, dims)(collect(model), inputs, targets)
        return tuple(gradients.values())

    return changed


def _detached(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _itself(tensor: Tensor) -> Tensor:
    return tensor


RAISING: dict[str, Callable[..., Any]] = {
    "vmap hides the batch dim, and the model expects one: add a dim of size 1 to x.": _vmapped(
        x=_itself
    ),
    "vmap hides the batch dim, and the loss expects one: add a dim of size 1 to y, as to x.": (
        _vmapped(y=_itself)
    ),
    "The model expects the batch dim in front, so add the dim of size 1 as dim 0.": _vmapped(
        x=lambda x: x.unsqueeze(1)
    ),
    "vmap takes the parameters apart too. All samples share them, so their entry of in_dims is "
    "None. x and y are mapped over dim 0.": _vmapped(dims=(0, 0, 0)),
    "All samples share the parameters, so their entry of in_dims is None. The entry of x is 0.": (
        _vmapped(dims=(0, None, 0))
    ),
    "The samples lie along dim 0 of x, so its entry of in_dims is 0.": (
        _vmapped(dims=(None, 1, 0))
    ),
    "in_dims needs one entry for each argument: None for the parameters, 0 for x and 0 for y.": (
        _vmapped(dims=(None, 0))
    ),
    "grad needs a function that returns one number, but vmap returns a loss for each sample. Apply "
    "grad to the loss of one sample, and vmap to the result.": _vmapped(
        transform=lambda of_one, dims: grad(vmap(of_one, dims))
    ),
    "This gradient is a tensor, not a dict. grad differentiates with respect to the argument that "
    "argnums names. The dict of parameters must be this argument.": _vmapped(
        transform=lambda of_one, dims: vmap(grad(of_one, argnums=1), dims)
    ),
    "functional_call looks up parameters by name, so give it a dict: names and parameters.": (
        _vmapped(collect=lambda model: list(model.parameters()))
    ),
}


def with_own_loss(
    own: Loss,
) -> Callable[[nn.Module, Loss, Tensor, Tensor], tuple[Tensor, ...]]:
    """Return a routine that differentiates ``own`` instead of the loss that it receives."""
    return lambda model, loss, x, y: per_sample_gradients(model, own, x, y)


SAMPLES = 30


def runs_once(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the routine calls the model once for the whole batch and fills no ``.grad``."""
    rng = generator()
    model, loss, x, y = layers(rng, SAMPLES, Counted)
    calls: list[int] = []
    model[0].seen = lambda: calls.append(1)
    with OperationRecorder() as recording:
        came = routine(model, loss, x, y)
    if len(calls) != 1:
        return wrong(
            f"right, but for {SAMPLES} samples, the model is called {len(calls)} times. Write the "
            "loss of one sample as a function of the parameters. Apply grad to it, and then vmap."
        )
    if (runs := recording.names.count("tanh")) > 1:
        return wrong(
            f"right, but for {SAMPLES} samples, the tanh layer of the model runs {runs} times. Do "
            "not run the layers yourself. Apply grad and vmap to a function that calls the model."
        )
    filled_in = [name for name, p in model.named_parameters() if p.grad is not None]
    if filled_in:
        return wrong(
            f"right, but your function changes .grad of {filled_in[0]}. Return gradients instead."
        )
    # The gradient of a weighted sum of the losses is the weighted sum of the gradients.
    weights = normal(rng, SAMPLES)
    total = (weights * (model(x) - y).square().mean(1)).sum()
    right = torch.autograd.grad(total, list(model.parameters()))
    came = came if isinstance(came, tuple) and len(came) == len(right) else (None,) * len(right)
    sums = [_weighted(each, weights) for each in came]
    verdicts = (
        far_result(*pair, f"for {SAMPLES} samples") for pair in zip(sums, right, strict=True)
    )
    return next(filter(None, verdicts), None)


def _weighted(gradients: Any, weights: Tensor) -> Tensor | None:
    """Return the weighted sum over the samples, or ``None`` if dim 0 does not hold the samples."""
    if not isinstance(gradients, Tensor) or gradients.shape[:1] != weights.shape:
        return None
    total: Tensor = torch.tensordot(weights, gradients, 1)
    return total


EXERCISE = RoutineExercise(
    answer="per_sample_gradients",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Per-sample gradients",
    constraints="the model is called once for the whole batch",
    reference=per_sample_gradients,
    samplers={
        "two layers": layers,
        "a classifier of images, which needs a batch of one: (1, channels, …)": images,
        "a model with a Function and a buffer in it": gated,
        "a batch of one": lambda rng: layers(rng, 1),
    },
    suspects={
        "state_dict contains the buffers too, such as running statistics. Differentiate only the "
        "parameters: named_parameters.": _vmapped(
            collect=lambda model: {k: value.detach() for k, value in model.state_dict().items()}
        ),
        "Every sample has the gradient of the whole batch. Differentiate the loss of one sample.": (
            of_the_batch
        ),
        "All gradients are 0, because the loss does not depend on the parameters that you "
        "differentiate. Run the model with the parameters that of_one receives: functional_call.": (
            lambda model, loss, x, y: tuple(
                x.new_zeros(len(x), *p.shape) for p in model.parameters()
            )
        ),
        "There is one gradient for the whole batch. Apply vmap to get one for each sample, along "
        "dim 0.": lambda model, loss, x, y: tuple(
            torch.autograd.grad(loss(model(x), y), list(model.parameters()))
        ),
        "The gradients of the samples are added. Return one for each sample, along dim 0.": (
            lambda model, loss, x, y: tuple(
                g.sum(0) for g in per_sample_gradients(model, loss, x, y)
            )
        ),
        "Each sample is compared with the targets of all samples. vmap must also map over y, with "
        "0 as its entry of in_dims.": with_all_targets,
        "Each target is compared with the predictions of all samples. vmap must also map over x, "
        "with 0 as its entry of in_dims.": (
            lambda *given: with_all_targets(*given, all_inputs=True)
        ),
        "They are too large by a factor N. The gradient of a sample is that of its own loss.": (
            lambda *given: tuple(g * len(given[2]) for g in per_sample_gradients(*given))
        ),
        "The samples lie along dim 1. They must lie along dim 0, which is the default of "
        "out_dims.": lambda *given: tuple(
            g.movedim(0, min(1, g.ndim - 1)) for g in per_sample_gradients(*given)
        ),
        "Each gradient is flattened. It must keep the shape of its parameter.": (
            lambda *given: tuple(g.reshape(len(g), -1) for g in per_sample_gradients(*given))
        ),
        "You add the squared errors yourself. Call the argument loss, which can be any loss.": (
            with_own_loss(lambda prediction, y: (prediction - y).square().sum())
        ),
        "You compute the mean squared error yourself. Call the argument loss, which can be any "
        "loss.": with_own_loss(lambda prediction, y: (prediction - y).square().mean()),
        "They are too small by a factor N. They are shares of a mean over the batch, not "
        "gradients of each sample's own loss.": shares,
    },
    raising=RAISING,
    container=tuple,
    trials=(runs_once,),
)
