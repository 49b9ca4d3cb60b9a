"""What the exercises of lesson 06 allow to be kept, and to be there at once."""

from typing import Any

import torch
from autograd_doctor import Finding
from torch.autograd import Function

from autograd_course.grader.checks import peaks_at_most
from autograd_course.grader.checks.calling import applied, found, storage

ROWS, WIDTH, WORDS, CHUNK = 512, 4, 64, 8


def keeps_no_intermediate(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that every saved tensor is an input or an output."""
    given, outputs = applied(function, inputs)
    known = {storage(tensor) for tensor in (*given, *outputs)}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) not in known:
            return found(
                "oversaved",
                f"Saved tensor number {position}, of shape {tuple(saved.shape)}, is neither an "
                "input nor the output: it lives until backward for this Function alone.",
                {"position": position, "shape": tuple(saved.shape)},
                "Whoever comes next keeps the output anyway, the very tensor that forward returns. "
                "Can backward read from it what it needs?",
            )
    return None


def stops_at_zero(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that no gradient passes where what the ReLU gets is exactly 0."""
    x, weight = (torch.tensor([row], dtype=torch.float64) for row in ((1.0, -1.0), (1.0, 1.0)))
    given, outputs = applied(function, (x, weight, torch.zeros(1, dtype=torch.float64)))
    (gradient,) = torch.autograd.grad(outputs[0].sum(), given[0])
    if not gradient.any():
        return None
    return found(
        "kink-convention",
        "where x Wᵀ + b is exactly 0, the gradient passes; this exercise asks for 0 there, as "
        "torch.relu has it. Everywhere else it is right.",
        {"at": 0.0},
        "At a kink no derivative exists, so the author chooses. Which comparison in backward "
        "includes 0?",
    )


def forgets_the_halves(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that neither of the first two inputs is saved."""
    given, outputs = applied(function, inputs)
    halves = {storage(tensor): name for tensor, name in zip(given, ("x1", "x2"), strict=False)}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) in halves:
            name = halves[storage(saved)]
            return found(
                "oversaved",
                f"Saved tensor number {position} is {name}, an input: this exercise allows the "
                "outputs, from which a whole stack of couplings can be walked back.",
                {"position": position, "input": name},
                "Save the outputs, and solve forward's lines for what backward needs, the last "
                "line first.",
            )
    return None


def never_builds_the_logits(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that the matrix of rows × words never exists, on more rows than the samples have."""
    rng = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, WIDTH, generator=rng, dtype=torch.float64) for n in (ROWS, WORDS))
    target = torch.randint(WORDS, (ROWS,), generator=rng)
    # Gradients and running sums three times over, some vectors, and eight chunks.
    allowed = 3 * (x.nbytes + weight.nbytes) + 8 * (ROWS + CHUNK * WORDS) * x.itemsize
    told = f"{ROWS} rows and {WORDS} words, in chunks of {CHUNK}"
    return peaks_at_most(lambda *_: allowed, told)(function, (x, weight, target, CHUNK))
