"""What the routines of lesson 05 are put to, once their results are right."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.memory import Largest
from torch import Tensor

from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong

SIZE = 100  # inputs of the function whose Hessian is not to be built
FEW = 10  # and of the same function, smaller: what two passes cost does not depend on the size


def valley(x: Tensor) -> Tensor:
    """Return Rosenbrock's function of a vector: each element is coupled to its neighbor."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def never_builds_the_hessian(routine: Callable[..., Any]) -> Verdict | None:
    """Ask for the product with a Hessian of 100 rows; neither it nor its rows may be made."""
    small, watch = _watched(routine, FEW), _watched(routine, SIZE)
    if watch.elements >= SIZE * SIZE:
        return wrong(
            f"right, but for {SIZE} inputs a tensor of {watch.elements:,} elements is built: the "
            "Hessian. Differentiate one number that holds the vector, not each gradient by itself."
        )
    if watch.operations > 2 * small.operations:
        return wrong(
            f"right, but it takes {small.operations:,} operations for {FEW} inputs and "
            f"{watch.operations:,} for {SIZE}; two backward passes take as many for both. Is there "
            "a loop over the elements of the gradient?"
        )
    return None


def _watched(routine: Callable[..., Any], size: int) -> Largest:
    rng = torch.Generator().manual_seed(0)
    watch = Largest()
    with watch:
        routine(valley, (normal(rng, size),), (normal(rng, size),))
    return watch


def leaves_inputs_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the caller's tensors do not come back asking for gradients."""
    rng = torch.Generator().manual_seed(4)
    x, vector = normal(rng, SIZE), normal(rng, SIZE)
    routine(valley, (x,), (vector,))
    return _asks_for_no_gradient(x, vector)


def leaves_samples_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the caller's samples do not come back asking for gradients."""
    x = samples()
    routine(critic_net(), x)
    return _asks_for_no_gradient(x)


def _asks_for_no_gradient(*given: Tensor) -> Verdict | None:
    if not any(tensor.requires_grad for tensor in given):
        return None
    return wrong(
        "right, but afterwards the caller's own tensors require grad, and whatever is done with "
        "them is recorded: requires_grad_() works in place. Make leaves of your own, by detach()."
    )


def stays_at_the_point(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that the function is evaluated at the inputs alone: elsewhere are differences."""
    rng = torch.Generator().manual_seed(3)
    x, vector = normal(rng, SIZE), normal(rng, SIZE)
    seen: list[bool] = []

    def watched(at: Tensor) -> Tensor:
        with contextlib.suppress(RuntimeError):  # what traces f has no values to compare
            seen.append(bool((at == x).all()))
        return valley(at)

    routine(watched, (x.clone(),), (vector,))
    if all(seen):
        return None
    return wrong(
        "right to within rounding, but f is evaluated beside the inputs too: a quotient of "
        "differences loses digits, more of them the more steeply f bends. Differentiate the "
        "gradient instead."
    )


def critic_net() -> torch.nn.Module:
    """Return the same small critic each time, without touching the random state."""
    rng = torch.Generator().manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    net = net.double().cpu()
    for parameter in net.parameters():
        parameter.data = normal(rng, *parameter.shape)
    return net


def samples() -> Tensor:
    """Return a batch for the critic."""
    return normal(torch.Generator().manual_seed(2), 5, 3)


def leaves_gradients_alone(routine: Callable[..., Any]) -> Verdict | None:
    """Ask that nothing is added to the parameters' ``.grad`` by computing the penalty."""
    net = critic_net()
    routine(net, samples())
    filled = [name for name, parameter in net.named_parameters() if parameter.grad is not None]
    if not filled:
        return None
    return wrong(
        f"right, but computing the penalty has filled the .grad of the critic's {filled[0]}: "
        ".backward() adds to the gradients of all leaves. torch.autograd.grad returns the one that "
        "is asked for, and adds to none."
    )


def reaches_the_parameters(routine: Callable[..., Any]) -> Verdict | None:
    """Differentiate the penalty by the parameters, and compare with differences."""
    net = critic_net()
    penalty = routine(net, samples())
    if not isinstance(penalty, Tensor) or not penalty.requires_grad:
        return wrong(
            "the value is right, but it is a plain number: it has no graph, so no parameter of the "
            "critic will feel it. Who records how the gradient was computed?"
        )
    penalty.backward()
    for name, parameter in net.named_parameters():
        expected = _slope(routine, net, parameter)
        came = 0.0 if parameter.grad is None else float(parameter.grad.sum())
        if abs(came - expected) > 1e-5 * max(1.0, abs(expected)):
            return wrong(
                f"the value is right, its gradient by the critic's {name} is not: its elements add "
                f"up to {came:.4g}, should be {expected:.4g}. Is part of the way cut off, by "
                "detach, .data or .item()?"
            )
    return None


def _slope(routine: Callable[..., Any], net: torch.nn.Module, parameter: Tensor) -> float:
    """Return how the penalty changes if all elements of a parameter grow alike."""
    values, step = [], 1e-5
    for offset in (step, -2 * step, step):  # there, to the other side, and back
        parameter.data += offset
        values.append(float(routine(net, samples()).detach()))
    return (values[0] - values[1]) / (2 * step)


def stays_finite_where_flat(routine: Callable[..., Any]) -> Verdict | None:
    """Differentiate the penalty of a critic that does not depend on some of its samples."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    net = net.double().cpu()
    for parameter in net.parameters():
        parameter.data = torch.ones_like(parameter)
    x = torch.tensor([[1.0, 1.0, 1.0], [-2.0, -2.0, -2.0]], dtype=torch.float64)
    routine(net, x).backward()
    for name, parameter in net.named_parameters():
        if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
            return wrong(
                "where the critic is flat the gradient is 0, and there the penalty's own gradient "
                f"by {name} is {float(parameter.grad.sum())}: a square root is infinitely steep at "
                "0. torch's norm is careful there; or add a tiny number under the root."
            )
    return None
