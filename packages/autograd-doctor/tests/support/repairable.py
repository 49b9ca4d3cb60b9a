"""A table of Functions with a mistake, and the lines that the search must change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x * x
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class Swish(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, s = ctx.saved_tensors
        slope = s + x * (1 - s)
        return grad_output * slope


class MeanOfEachRow(Function):
    """The mean over the last dim; backward adds a dim, and throws the result away."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        grad = grad_output / ctx.shape[-1]
        grad.unsqueeze(-1)
        return grad.expand(ctx.shape)


class MeanAlongTheLastDim(Function):
    """The mean over the last dim; backward divides by the number of all elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape.numel()


class RowsByTheirLargestIndex(Function):
    """Rows of a table; backward guesses how many rows the table has."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return table[index]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        rows = int(index.max()) + 1
        grad = grad_output.new_zeros(rows, grad_output.shape[-1])
        return grad.index_add(0, index, grad_output), None


class ShareOfTheTotal(Function):
    """Numbers divided by their sum; a sum in backward lacks the dim of the sum in forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.sum(-1, keepdim=True)
        ctx.save_for_backward(x, total)
        return x / total

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, total = ctx.saved_tensors
        common = (grad_output * x / total).sum(-1)
        return (grad_output - common) / total


class SpreadOut(Function):
    """Backward guesses the length of the input, even though it is stored."""

    @staticmethod
    def forward(x: Tensor, step: int) -> Tensor:
        return x[..., ::step].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.step = inputs
        ctx.length = x.shape[-1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        length = grad_output.shape[-1] * ctx.step
        grad_x = grad_output.new_zeros(*grad_output.shape[:-1], length)
        grad_x[..., :: ctx.step] = grad_output
        return grad_x, None


class ProductUnlessXIsFrozen(Function):
    """If x is frozen, y gets no gradient either."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        if not ctx.needs_input_grad[0]:
            return None, None
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x


class ExpInChunks(Function):
    """Saves x where backward needs the joined chunks of the result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        chunks = []
        total = x.new_zeros(())
        for part in x.split(2):
            chunks.append(torch.exp(-part))
            total = total + chunks[-1].sum()
        ctx.save_for_backward(x)
        return total

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return -grad_output * y


class GateWithoutTails(Function):
    """Treats the derivative of the sigmoid as 0 in its tails."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor) -> Tensor:
        ctx.save_for_backward(x, gate)
        return x * torch.sigmoid(gate)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, gate = ctx.saved_tensors
        s = torch.sigmoid(gate)
        grad_gate = grad_output * x * s * (1 - s)
        return grad_output * s, torch.where(gate.abs() > 4, torch.zeros_like(s), grad_gate)


class SquareOfItsInputs(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class ProductOfItsInputs(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return y * grad_output, x * grad_output


class TwoFactors(Function):
    """Two steps of a recurrence; backward empties the list that belongs to ctx."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factors = [2.0, 3.0]
        return 6 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        factors = ctx.factors
        while factors:
            grad_output = grad_output * factors.pop()
        return grad_output


class TwoFactorsBackward(Function):
    """Two steps of a recurrence; forward stores an iterator, which ends after one pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        factors = [2.0, 3.0]
        ctx.factors = reversed(factors)
        return 6 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        for factor in ctx.factors:
            grad_output = grad_output * factor
        return grad_output


def reversed_memory(x: Tensor) -> Tensor:
    return x.as_strided((x.numel(),), (1,)).flip(0).reshape(x.shape)


class ReversedMemory(Function):
    """All elements in reverse order; both methods read the memory of their argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return reversed_memory(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return reversed_memory(grad_output)


class Triple(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, z)
        return x * y * z**2

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, z, y = ctx.saved_tensors
        return grad_output * y * z**2, grad_output * x * z**2, 2 * grad_output * x * y * z


class ToPolar(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r, angle = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(r, angle)
        return r, angle

    @staticmethod
    def backward(ctx: Any, grad_r: Tensor, grad_angle: Tensor) -> tuple[Tensor, Tensor]:
        r, angle = ctx.saved_tensors
        cos, sin = torch.cos(angle), torch.sin(angle)
        grad_x = grad_r * cos + grad_angle * sin / r
        grad_y = grad_r * sin + grad_angle * cos / r
        return grad_x, grad_y


class Softmax(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(dim=0, keepdim=True))


class Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.T @ x, grad_output.mean(0)


class Scaled(Function):
    @staticmethod
    def forward(x: Tensor, gain: float) -> Tensor:
        return torch.tanh(gain * x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, gain = inputs
        ctx.gain = gain
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return grad_output * (1 - y**2), None


class Quotient(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x / y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x / y**2


class Running(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.cumsum(x, dim=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return torch.cumsum(grad_output, dim=0).flip(0)


class UnitRows(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        length = x.norm(dim=-1, keepdim=True)
        y = x / length
        ctx.save_for_backward(y, length)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        y, length = ctx.saved_tensors
        along = (grad_output * y).sum()
        return (grad_output - y * along) / length


class MeanSquare(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square().mean()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x


class Sorted(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values, order = x.sort(-1)
        ctx.save_for_backward(order)
        return values

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (order,) = ctx.saved_tensors
        return grad_output.gather(-1, order)


class Embedding(Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table[index] = grad_output
        return grad_table, None


class Affine(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, slope: float) -> Tensor:
        ctx.slope = slope
        return slope * x + bias

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        return ctx.slope * grad_output, None, None


class Power(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x**exponent

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return ctx.exponent * x ** (ctx.exponent - 1) * grad_output


class Distances(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square().sum(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output[0] * 2 * x


@dataclass(frozen=True)
class Mistake:
    """A wrong Function, and the changed lines of its repair."""

    what: str
    wrong: type[Function]
    inputs: Callable[[], tuple[Any, ...]]
    before: list[str]
    after: list[str]


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 1 + torch.rand(*shape, generator=generator, dtype=torch.float64)


def complex_draw(*shape: int) -> Tensor:
    return torch.complex(draw(*shape), draw(*shape, seed=1))


MISTAKES = [
    Mistake(
        "the output saved for the input",
        Square,
        lambda: (draw(3, 4) - 1.5,),
        ["ctx.save_for_backward(y)"],
        ["ctx.save_for_backward(x)"],
    ),
    Mistake(
        "a factor forgotten",
        Swish,
        lambda: (draw(3, 4) - 1.5,),
        ["slope = s + x * (1 - s)"],
        ["slope = s + x * (1 - s) * s"],
    ),
    Mistake(
        "saved tensors unpacked in another order",
        Triple,
        lambda: (draw(3), draw(3, seed=1), draw(3, seed=2)),
        ["x, z, y = ctx.saved_tensors"],
        ["x, y, z = ctx.saved_tensors"],
    ),
    Mistake(
        "a sign",
        ToPolar,
        lambda: (draw(4), draw(4, seed=1)),
        ["grad_x = grad_r * cos + grad_angle * sin / r"],
        ["grad_x = grad_r * cos - grad_angle * sin / r"],
    ),
    Mistake(
        "another dim",
        Softmax,
        lambda: (draw(3, 4),),
        ["return y * (grad_output - (grad_output * y).sum(dim=0, keepdim=True))"],
        ["return y * (grad_output - (grad_output * y).sum(dim=-1, keepdim=True))"],
    ),
    Mistake(
        "a mean for a sum",
        Linear,
        lambda: (draw(5, 3), draw(2, 3, seed=1), draw(2, seed=2)),
        ["return grad_output @ weight, grad_output.T @ x, grad_output.mean(0)"],
        ["return grad_output @ weight, grad_output.T @ x, grad_output.sum(0)"],
    ),
    Mistake(
        "the inner derivative forgotten",
        Scaled,
        lambda: (draw(3, 4) - 1.5, 0.7),
        ["return grad_output * (1 - y**2), None"],
        ["return grad_output * ctx.gain * (1 - y**2), None"],
    ),
    Mistake(
        "two mistakes",
        Quotient,
        lambda: (draw(3), draw(3, seed=1)),
        ["return grad_output * y, grad_output * x / y**2"],
        ["return grad_output / y, -grad_output * x / y**2"],
    ),
    Mistake(
        "a sum over everything",
        UnitRows,
        lambda: (draw(3, 4),),
        ["along = (grad_output * y).sum()"],
        ["along = (grad_output * y).sum(-1, keepdim=True)"],
    ),
    Mistake(
        "1/N forgotten",
        MeanSquare,
        lambda: (draw(3, 4),),
        ["return grad_output * 2 * x"],
        ["return grad_output * 2 * x / x.numel()"],
    ),
    Mistake(
        "gathered where it should be scattered",
        Sorted,
        lambda: (draw(3, 5),),
        ["return grad_output.gather(-1, order)"],
        ["return torch.zeros_like(grad_output).scatter(-1, order, grad_output)"],
    ),
    Mistake(
        "assigned where an index repeats",
        Embedding,
        lambda: (draw(6, 3), torch.tensor([0, 2, 2, 5])),
        ["grad_table[index] = grad_output"],
        ["grad_table.index_put_((index,), grad_output, accumulate=True)"],
    ),
    Mistake(
        "no gradient for the bias",
        Affine,
        lambda: (draw(5, 3), draw(3), 0.7),
        ["return ctx.slope * grad_output, None, None"],
        ["return ctx.slope * grad_output, grad_output.sum(0), None"],
    ),
    Mistake(
        "a None forgotten",
        Power,
        lambda: (draw(3), 3),
        ["return ctx.exponent * x ** (ctx.exponent - 1) * grad_output"],
        ["return ctx.exponent * x ** (ctx.exponent - 1) * grad_output, None"],
    ),
    Mistake(
        "only the first row of grad_output",
        Distances,
        lambda: (draw(3, 4),),
        ["return grad_output[0] * 2 * x"],
        ["return grad_output[:, None] * 2 * x"],
    ),
]


# --------------------------------------------------------------------------------------------------
# More ways to be wrong.
# --------------------------------------------------------------------------------------------------


class Softplus(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.nn.functional.softplus(x, beta)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x), None


class Suffix(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return x.cumsum(dim)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        d = ctx.dim
        return grad_output.flip(d).cumsum(d), None


def folded(grad: Tensor, like: Tensor) -> Tensor:
    """Sum a gradient over the rows that were broadcast."""
    return grad.sum(1) if grad.shape != like.shape else grad


class Shifted(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(shift)
        return x + shift

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (shift,) = ctx.saved_tensors
        return grad_output, folded(grad_output, shift)


class Gram(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return a @ a.mT

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        return grad_output @ a


class Stacked(Function):
    @staticmethod
    def forward(ctx: Any, dim: int, *tensors: Tensor) -> Tensor:
        ctx.dim = dim
        return torch.stack(tensors, dim)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        return tuple(grad_output.unbind(ctx.dim))


class RowSums(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x * x).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class Bessel(Function):
    """No edit makes the gradient right."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.special.i0(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * torch.asinh(x)


class Wave(Function):
    """The gradient of x has a wrong sign. No edit makes the gradient of y right."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return torch.sin(x) + torch.lgamma(y)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return -grad_output * torch.cos(x), grad_output * torch.asinh(y)


MISTAKES += [
    Mistake(
        "not flipped before",
        Running,
        lambda: (draw(5),),
        ["return torch.cumsum(grad_output, dim=0).flip(0)"],
        ["return torch.cumsum(grad_output.flip(0), dim=0).flip(0)"],
    ),
    Mistake(
        "the inner derivative forgotten in an argument",
        Softplus,
        lambda: (draw(3, 4) - 1.5, 1.7),
        ["return grad_output * torch.sigmoid(x), None"],
        ["return grad_output * torch.sigmoid(ctx.beta * x), None"],
    ),
    Mistake(
        "not flipped back",
        Suffix,
        lambda: (draw(3, 4), 1),
        ["return grad_output.flip(d).cumsum(d), None"],
        ["return grad_output.flip(d).cumsum(d).flip(d), None"],
    ),
    Mistake(
        "a mistake in a function that backward calls",
        Shifted,
        lambda: (draw(3, 4), draw(4, seed=1)),
        ["return grad.sum(1) if grad.shape != like.shape else grad"],
        ["return grad.sum(0) if grad.shape != like.shape else grad"],
    ),
    Mistake(
        "a matrix that forward contains twice",
        Gram,
        lambda: (draw(3, 4),),
        ["return grad_output @ a"],
        ["return (grad_output + grad_output.mT) @ a"],
    ),
    Mistake(
        "a None forgotten before a tuple",
        Stacked,
        lambda: (0, draw(3), draw(3, seed=1)),
        ["return tuple(grad_output.unbind(ctx.dim))"],
        ["return None, *tuple(grad_output.unbind(ctx.dim))"],
    ),
    Mistake(
        "a dimension too few",
        RowSums,
        lambda: (draw(3, 4),),
        ["return 2 * x * grad_output"],
        ["return 2 * x * grad_output.unsqueeze(-1)"],
    ),
]


class Parts(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return torch.cat([rows @ w for rows in x.split(2)])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        grad_w = torch.zeros_like(w)
        for rows, g in zip(x.split(2), grad_output.split(2), strict=True):
            grad_w = (rows * g[:, None]).sum(0)
        return grad_output[:, None] * w, grad_w


class Lookup(Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(table, index)
        return table[index]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        table, index = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table[index] += grad_output
        return grad_table, None


class Sparse(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, row: Tensor, col: Tensor) -> Tensor:
        ctx.save_for_backward(row, col)
        return torch.zeros_like(x).index_add_(0, row, x[col])

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        row, col = ctx.saved_tensors
        grad_x = torch.zeros_like(grad_output)
        grad_x.index_add_(0, row, grad_output[col])
        return grad_x, None, None


class ComplexProduct(Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        z, w = ctx.saved_tensors
        return grad_output * w, grad_output * z.conj()


class Recurrence(Function):
    """The state of a row stays the same after its end."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, lengths: Tensor) -> Tensor:
        states = [torch.ones_like(x[:, 0])]
        for t in range(x.shape[1]):
            states.append(torch.where(t < lengths, states[-1] * w + x[:, t], states[-1]))
        ctx.save_for_backward(torch.stack(states), w, lengths)
        return states[-1]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        states, w, lengths = ctx.saved_tensors
        g, grad_w = grad_output, torch.zeros_like(w)
        grad_x = grad_output.new_zeros(len(g), len(states) - 1)
        for t in range(len(states) - 2, -1, -1):
            grad_x[:, t] = g * (t < lengths)
            grad_w += (g * states[t]).sum()
            g = torch.where(t < lengths, g * w, g)
        return grad_x, grad_w, None


class MaskedMean(Function):
    """The deviation from the mean of the elements in the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        weight = mask.to(x)
        count = weight.sum(-1, keepdim=True)
        ctx.save_for_backward(weight, count)
        mean = (x * weight).sum(-1, keepdim=True) / count
        return (x - mean) * weight

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        weight, count = ctx.saved_tensors  # noqa: RUF059
        grad = grad_output * weight
        return (grad - grad.mean(-1, keepdim=True)) * weight, None


class Flagged(Function):
    """Each name gets the flag of the previous argument."""

    @staticmethod
    def forward(ctx: Any, index: Tensor, table: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(index, table, scale)
        return table[index] * scale

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        index, table, scale = ctx.saved_tensors
        of_table, of_scale = ctx.needs_input_grad[:2]
        grad_table = grad_scale = None
        if of_table:
            grad_table = torch.zeros_like(table).index_add(0, index, grad_output * scale)
        if of_scale:
            grad_scale = (grad_output * table[index]).sum()
        return None, grad_table, grad_scale


class Repeated(Function):
    """The copies of ``repeat_interleave`` are neighbors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: int) -> Tensor:
        ctx.shape, ctx.times = x.shape, times
        return x.repeat_interleave(times, dim=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        copies, dim = ctx.times, ctx.shape[1]
        return grad_output.view(copies, -1, dim).sum(0), None


class Unfolded(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, times: int) -> Tensor:
        ctx.times = times
        return x.repeat_interleave(times, dim=-2)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.unflatten(-2, (ctx.times, -1)).sum(dim=-3), None


class Applied(Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(matrix, x)
        return torch.einsum("ijb,jb->ib", matrix, x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        matrix, x = ctx.saved_tensors
        grad_matrix = torch.einsum("ib,jb->ijb", grad_output, x)
        return grad_matrix, torch.einsum("ijb,jb->ib", matrix, grad_output)


class Blended(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, share: float) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.share = share
        return share * x.sin() + (1 - share) * y.sin()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        share = ctx.share
        return grad_output * (1 - share) * x.cos(), grad_output * share * y.cos(), None


class Reordered(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return x[order]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (order,) = ctx.saved_tensors
        return grad_output[order], None


class Last(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: Tensor) -> Tensor:
        ctx.save_for_backward(x, lengths)
        return x[torch.arange(len(x)), lengths - 1].exp()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        x, lengths = ctx.saved_tensors
        rows = torch.arange(len(x))
        grad_x = torch.zeros_like(x)
        grad_x[rows, lengths] = grad_output
        return grad_x * x.exp(), None


class Behind(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.cumsum(0)
        ctx.save_for_backward(y)
        return y.log()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return (grad_output / y).cumsum(0)


class Turned(Function):
    @staticmethod
    def forward(ctx: Any, phase: Tensor, length: Tensor) -> Tensor:
        y = torch.polar(length.exp(), phase)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        return (y.conj() * grad_output).real, (y.conj() * grad_output).real


class Reflected(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pad: int) -> Tensor:
        n = ctx.n = x.shape[-1]
        ctx.pad = pad
        return torch.cat([x, x[..., n - pad - 1 : n - 1].flip(-1)], -1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        n, pad = ctx.n, ctx.pad
        grad_x = grad_output[..., :n].clone()
        grad_x[..., n - pad :] += grad_output[..., n:].flip(-1)
        return grad_x, None


class Spread(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        h, w = x.shape
        return x.sum() / (h + w * w)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        h, w = x.shape
        return grad_output / (h + h * w) * torch.ones_like(x)


class Cross(Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(u, v)
        return torch.linalg.cross(u, v)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        u, v = ctx.saved_tensors
        grad_u = torch.linalg.cross(v, grad_output)
        return grad_u, torch.linalg.cross(u, grad_output)


class Angle(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        r = torch.hypot(x, y)
        ctx.save_for_backward(x, y, r)
        return torch.atan2(y, x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y, r = ctx.saved_tensors
        along = r * grad_output
        return -along * y / r, along * x / r


MISTAKES += [
    Mistake(
        "a slice one place too far",
        Reflected,
        lambda: (draw(2, 6), 2),
        ["grad_x[..., n - pad :] += grad_output[..., n:].flip(-1)"],
        ["grad_x[..., n - pad - 1:-1] += grad_output[..., n:].flip(-1)"],
    ),
    Mistake(
        "another length",
        Spread,
        lambda: (draw(3, 5),),
        ["return grad_output / (h + h * w) * torch.ones_like(x)"],
        ["return grad_output / (h + w * w) * torch.ones_like(x)"],
    ),
    Mistake(
        "the arguments of a cross product",
        Cross,
        lambda: (draw(4, 3), draw(4, 3, seed=1)),
        ["return grad_u, torch.linalg.cross(u, grad_output)"],
        ["return grad_u, -torch.linalg.cross(u, grad_output)"],
    ),
    Mistake(
        "multiplied instead of divided",
        Angle,
        lambda: (draw(4) + 2, draw(4, seed=1)),
        ["along = r * grad_output"],
        ["along = grad_output / r"],
    ),
    Mistake(
        "a sum that each part overwrites",
        Parts,
        lambda: (draw(5, 2), draw(2, seed=1)),
        ["grad_w = (rows * g[:, None]).sum(0)"],
        ["grad_w += (rows * g[:, None]).sum(0)"],
    ),
    Mistake(
        "several contributions to one element",
        Lookup,
        lambda: (draw(4), torch.tensor([0, 2, 2])),
        ["grad_table[index] += grad_output"],
        ["grad_table.index_put_((index,), grad_output, accumulate=True)"],
    ),
    Mistake(
        "rows and columns of a sparse matrix",
        Sparse,
        lambda: (draw(3, 2), torch.tensor([0, 1, 1, 2]), torch.tensor([2, 2, 0, 0])),
        ["grad_x.index_add_(0, row, grad_output[col])"],
        ["grad_x.index_add_(0, col, grad_output[row])"],
    ),
    Mistake(
        "steps that do not count",
        Recurrence,
        lambda: (draw(3, 4), draw(1)[0], torch.tensor([4, 2, 3])),
        ["grad_w += (g * states[t]).sum()"],
        ["grad_w += (g * states[t] * (t < lengths)).sum()"],
    ),
    Mistake(
        "a mean over the elements that count",
        MaskedMean,
        lambda: (draw(3, 5), torch.arange(5) < torch.tensor([[3], [5], [2]])),
        ["return (grad - grad.mean(-1, keepdim=True)) * weight, None"],
        ["return (grad - grad.sum(-1, keepdim=True) / count) * weight, None"],
    ),
    Mistake(
        "flags of other arguments",
        Flagged,
        lambda: (torch.tensor([0, 2, 2]), draw(3, 4), draw(1)[0]),
        ["of_table, of_scale = ctx.needs_input_grad[:2]"],
        ["of_table, of_scale = ctx.needs_input_grad[1:]"],
    ),
    Mistake(
        "a conjugate",
        ComplexProduct,
        lambda: (complex_draw(3, 4), complex_draw(3, 4)),
        ["return grad_output * w, grad_output * z.conj()"],
        ["return grad_output * w.conj(), grad_output * z.conj()"],
    ),
    Mistake(
        "neighbors that are copies",
        Repeated,
        lambda: (draw(3, 4), 2),
        ["return grad_output.view(copies, -1, dim).sum(0), None"],
        ["return grad_output.view(-1, copies, dim).sum(1), None"],
    ),
    Mistake(
        "neighbors that are copies, with unflatten",
        Unfolded,
        lambda: (draw(2, 3, 4), 2),
        ["return grad_output.unflatten(-2, (ctx.times, -1)).sum(dim=-3), None"],
        ["return grad_output.unflatten(-2, (-1, ctx.times)).sum(dim=-2), None"],
    ),
    Mistake(
        "a matrix that is not transposed in an equation",
        Applied,
        lambda: (draw(3, 3, 2), draw(3, 2)),
        ['return grad_matrix, torch.einsum("ijb,jb->ib", matrix, grad_output)'],
        ['return grad_matrix, torch.einsum("jib,jb->ib", matrix, grad_output)'],
    ),
    Mistake(
        "a share and the rest",
        Blended,
        lambda: (draw(3, 4), draw(3, 4), 0.3),
        ["return grad_output * (1 - share) * x.cos(), grad_output * share * y.cos(), None"],
        ["return grad_output * share * x.cos(), grad_output * (1 - share) * y.cos(), None"],
    ),
    Mistake(
        "a permutation that is not undone",
        Reordered,
        lambda: (draw(4, 2), torch.tensor([2, 0, 3, 1])),
        ["return grad_output[order], None"],
        ["return grad_output[order.argsort()], None"],
    ),
    Mistake(
        "the element before",
        Last,
        lambda: (draw(3, 5), torch.tensor([1, 4, 2])),
        ["grad_x[rows, lengths] = grad_output"],
        ["grad_x[rows, lengths - 1] = grad_output"],
    ),
    Mistake(
        "a sum from the start",
        Behind,
        lambda: (draw(5) + 3,),
        ["return (grad_output / y).cumsum(0)"],
        ["return (grad_output / y).flip(0).cumsum(0).flip(0)"],
    ),
    Mistake(
        "the imaginary part",
        Turned,
        lambda: (draw(4), draw(4, seed=1)),
        ["return (y.conj() * grad_output).real, (y.conj() * grad_output).real"],
        ["return (y.conj() * grad_output).imag, (y.conj() * grad_output).real"],
    ),
]


# --------------------------------------------------------------------------------------------------
# Mistakes whose repair needs a formula. No other single edit is right.
# --------------------------------------------------------------------------------------------------


class SoftCap(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cap: float) -> Tensor:
        out = cap * torch.tanh(x / cap)
        ctx.save_for_backward(out)
        ctx.cap = cap
        return out

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (out,) = ctx.saved_tensors
        slope = 1 - out.square()
        return grad_output * slope, None


class HardSwish(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.clamp(x + 3, 0, 6) / 6

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        slope = torch.where(x > -3, (2 * x + 3) / 6, torch.zeros_like(x))
        return grad_output * slope


class Decibel(Function):
    @staticmethod
    def forward(ctx: Any, power: Tensor, floor: float) -> Tensor:
        ctx.save_for_backward(power)
        ctx.floor = floor
        return power.clamp(min=floor).log()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (power,) = ctx.saved_tensors
        return grad_output / power.clamp(min=ctx.floor), None


class Gated(Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, n: Tensor, w: Tensor) -> Tensor:
        z = torch.sigmoid(n @ w)
        ctx.save_for_backward(h, n, w, z)
        return z * h

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        h, n, w, z = ctx.saved_tensors
        d_pre = grad_output * h * z * (1 - z)
        grad_n = d_pre @ w.T
        return grad_output, grad_n, n.T @ d_pre


class Whiten(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        std = x.std(dim=0)
        y = (x - x.mean(dim=0)) / std
        ctx.save_for_backward(y, std)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        y, std = ctx.saved_tensors
        along = y * (grad_output * y).mean(dim=0)
        return (grad_output - grad_output.mean(dim=0) - along) / std


def running_sum(x: Tensor, reverse: bool) -> Tensor:
    return x.flip(-1).cumsum(-1).flip(-1) if reverse else x.cumsum(-1)


class EitherWay(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, reverse: bool = False) -> Tensor:
        ctx.reverse = reverse
        return running_sum(x, reverse)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return running_sum(grad_output, ctx.reverse), None


class Polar(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        r, theta = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(r, theta)
        return r, theta

    @staticmethod
    def backward(ctx: Any, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, ...]:
        r, theta = ctx.saved_tensors  # noqa: RUF059 - the mistake is to forget `r`
        c, s = theta.cos(), theta.sin()
        dr, dtheta = (c, s), (-s, c)
        return tuple(a * grad_r + b * grad_theta for a, b in zip(dr, dtheta, strict=True))


class WeightNorm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor, v: Tensor) -> Tensor:
        norm = v.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, g, v, norm)
        return x @ (g * v / norm).T

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, g, v, norm = ctx.saved_tensors  # noqa: RUF059 - the mistake is to forget `g`
        grad_x = grad_output @ v
        grad_w = grad_output.T @ x
        grad_g = (grad_w * v).sum(dim=1, keepdim=True) / norm
        grad_v = (grad_w - v * grad_g / norm) / norm
        return grad_x, grad_g, grad_v


MISTAKES += [
    Mistake(
        "a scale twice, as the output is saved",
        SoftCap,
        lambda: (2 * draw(3, 4), 1.7),
        ["slope = 1 - out.square()"],
        ["slope = 1 - out.square() / ctx.cap ** 2"],
    ),
    Mistake(
        "a region forgotten",
        HardSwish,
        lambda: (10 * draw(4, 5) - 15,),
        ["slope = torch.where(x > -3, (2 * x + 3) / 6, torch.zeros_like(x))"],
        [
            "slope = torch.where(x + 3 < 6, torch.where(x > -3, (2 * x + 3) / 6, "
            "torch.zeros_like(x)), 1.0)"
        ],
    ),
    Mistake(
        "the mask of a clamp forgotten",
        Decibel,
        lambda: (draw(3, 4) - 0.5, 0.7),
        ["return grad_output / power.clamp(min=ctx.floor), None"],
        ["return grad_output / power.clamp(min=ctx.floor) * (power > ctx.floor), None"],
    ),
    Mistake(
        "a factor of forward forgotten in one gradient",
        Gated,
        lambda: (draw(3, 4), draw(3, 2, seed=1), draw(2, 4, seed=2)),
        ["return grad_output, grad_n, n.T @ d_pre"],
        ["return grad_output * z, grad_n, n.T @ d_pre"],
    ),
    Mistake(
        "the biased variance",
        Whiten,
        lambda: (draw(5, 3),),
        ["along = y * (grad_output * y).mean(dim=0)"],
        ["along = y * ((grad_output * y).sum(dim=0) / (grad_output.shape[0] - 1))"],
    ),
    Mistake(
        "a flag that has to be the opposite",
        EitherWay,
        lambda: (draw(3, 4), False),
        ["return running_sum(grad_output, ctx.reverse), None"],
        ["return running_sum(grad_output, not ctx.reverse), None"],
    ),
    Mistake(
        "a factor in a comprehension",
        Polar,
        lambda: (draw(3), draw(3, seed=1)),
        ["return tuple(a * grad_r + b * grad_theta for a, b in zip(dr, dtheta, strict=True))"],
        ["return tuple(a * grad_r + b * grad_theta / r for a, b in zip(dr, dtheta, strict=True))"],
    ),
    Mistake(
        "two formulas",
        WeightNorm,
        lambda: (draw(4, 3), draw(2, 1, seed=1).abs(), draw(2, 3, seed=2)),
        ["grad_x = grad_output @ v", "grad_v = (grad_w - v * grad_g / norm) / norm"],
        [
            "grad_x = grad_output @ (g * v / norm)",
            "grad_v = (grad_w - v * grad_g / norm) / norm * g",
        ],
    ),
]


# A number, a shape, a slice, or the same factor in several places


class SmoothTarget(Function):
    """The target's class gets ``1 - rate + rate / n``, and every other class ``rate / n``."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(target)
        ctx.rate, ctx.shape = rate, scores.shape
        picked = scores.gather(1, target[:, None])[:, 0]
        return (1 - rate) * picked + rate * scores.mean(dim=1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (target,) = ctx.saved_tensors
        weights = torch.full(ctx.shape, ctx.rate / ctx.shape[1], dtype=grad_output.dtype)
        weights.scatter_(1, target[:, None], 1 - ctx.rate)
        return grad_output[:, None] * weights, None, None


class MeanOfValid(Function):
    """The mean of the elements at or above a limit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limit = limit
        valid = x >= limit
        return (x * valid).sum() / valid.sum()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        valid = x >= ctx.limit
        return grad_output * valid / x.numel(), None


def gates(shape: torch.Size, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64)


class RowGates(Function):
    """Multiply each row by a random number, which backward draws again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int) -> Tensor:
        ctx.gate_shape, ctx.seed = (*x.shape[:1], 1), seed
        return x * gates(ctx.gate_shape, seed)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return grad_output * gates(grad_output.shape, ctx.seed), None


class Correlation(Function):
    """A valid correlation with a filter."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        return torch.nn.functional.conv1d(x[:, None], taps[None, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, taps = ctx.saved_tensors
        n = taps.shape[0]
        wide = torch.nn.functional.pad(grad_output, (n - 1, n - 1))
        grad_x = torch.nn.functional.conv1d(wide[:, None], taps[None, None])[:, 0]
        grad_taps = (x.unfold(1, grad_output.shape[1], 1) * grad_output[:, None]).sum((0, 2))
        return grad_x, grad_taps


class LogOdds(Function):
    """``-(1 - p) * log(p)`` of the target's probability p; backward writes into a tensor."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, target: Tensor) -> Tensor:
        logs = scores.log_softmax(dim=1)
        ctx.save_for_backward(logs, target)
        log = logs.gather(1, target[:, None])
        return -(1 - log.exp()) * log

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        logs, target = ctx.saved_tensors
        log = logs.gather(1, target[:, None])
        p = log.exp()
        slope = log - (1 - p)
        change = -logs.exp()
        change.scatter_add_(1, target[:, None], torch.ones_like(p))
        return grad_output * slope * change, None


class GatedSquare(Function):
    """``y ** 2 * exp(-y)`` for ``y = x * sigmoid(g)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
        ctx.save_for_backward(x, g)
        y = x * torch.sigmoid(g)
        return y**2 * torch.exp(-y)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, g = ctx.saved_tensors
        gate = torch.sigmoid(g)
        slope = (2 * x - x**2) * torch.exp(-x)
        d_y = grad_output * slope
        return d_y * gate, d_y * x * gate * (1 - gate)


class Temper(Function):
    """A softmax with a temperature, which is a single number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, t: Tensor) -> Tensor:
        y = torch.softmax(x / t, dim=-1)
        ctx.save_for_backward(x, t, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, ...]:
        x, t, y = ctx.saved_tensors
        inner = y * (grad_output - (grad_output * y).sum(-1, keepdim=True))
        return inner / t, -(inner * x).sum() / t


MISTAKES += [
    Mistake(
        "a power in the gradient of a single number",
        Temper,
        lambda: (draw(3, 4), draw(1).squeeze()),
        ["return inner / t, -(inner * x).sum() / t"],
        ["return inner / t, -(inner * x).sum() / t / t"],
    ),
    Mistake(
        "a number that lacks a term",
        SmoothTarget,
        lambda: (draw(3, 5), torch.tensor([4, 0, 2]), 0.3),
        ["weights.scatter_(1, target[:, None], 1 - ctx.rate)"],
        ["weights.scatter_(1, target[:, None], 1 - ctx.rate + ctx.rate / weights.shape[-1])"],
    ),
    Mistake(
        "a count of all elements",
        MeanOfValid,
        lambda: (draw(3, 5), 1.4),
        ["return grad_output * valid / x.numel(), None"],
        ["return grad_output * valid / valid.sum(), None"],
    ),
    Mistake(
        "another shape than the one kept",
        RowGates,
        lambda: (draw(3, 4), 3),
        ["return grad_output * gates(grad_output.shape, ctx.seed), None"],
        ["return grad_output * gates(ctx.gate_shape, ctx.seed), None"],
    ),
    Mistake(
        "a filter that is not flipped",
        Correlation,
        lambda: (draw(2, 7), draw(3, seed=1)),
        ["grad_x = torch.nn.functional.conv1d(wide[:, None], taps[None, None])[:, 0]"],
        ["grad_x = torch.nn.functional.conv1d(wide[:, None], taps.flip(-1)[None, None])[:, 0]"],
    ),
    Mistake(
        "a factor of one term, and a later call in place",
        LogOdds,
        lambda: (draw(3, 4), torch.tensor([1, 3, 0])),
        ["slope = log - (1 - p)"],
        ["slope = log * p - (1 - p)"],
    ),
    Mistake(
        "a factor forgotten everywhere",
        GatedSquare,
        lambda: (draw(3, 4), draw(3, 4, seed=1)),
        ["slope = (2 * x - x**2) * torch.exp(-x)"],
        ["slope = (2 * (x * gate) - (x * gate)**2) * torch.exp(-(x * gate))"],
    ),
]


class CausalMean(Function):
    """The mean of ``width`` values: each value and the values before it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, width: int) -> Tensor:
        ctx.width = width
        return torch.nn.functional.pad(x, (width - 1, 0)).unfold(1, width, 1).mean(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        n = grad_output.shape[1]
        around = torch.nn.functional.pad(grad_output, (ctx.width - 1, ctx.width - 1))
        padded = around.unfold(1, ctx.width, 1).mean(-1)
        return padded[:, :n], None


class Steps(Function):
    """A spring after some steps. The stiffness is the last argument."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, steps: int, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        return q * k

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, Tensor | None]:
        q, k = ctx.saved_tensors
        grad_k = grad_output * q
        grad_k = grad_k if ctx.needs_input_grad[1] else None
        return grad_output * k, None, grad_k


class FixedPoint(Function):
    """Solve ``y = cos(y) / 2 + x``. A single iteration is far from the solution."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, iterations: int) -> Tensor:
        y = x.clone()
        for _ in range(iterations):
            y = torch.cos(y) / 2 + x
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return grad_output / (1 + torch.sin(y) / 2), None


MISTAKES += [
    Mistake(
        "the wrong end cut off",
        CausalMean,
        lambda: (draw(3, 5), 3),
        ["return padded[:, :n], None"],
        ["return padded[:, -n:], None"],
    ),
    Mistake(
        "another input's flag",
        Steps,
        lambda: (draw(4).requires_grad_(), 3, draw(4).requires_grad_()),
        ["grad_k = grad_k if ctx.needs_input_grad[1] else None"],
        ["grad_k = grad_k if ctx.needs_input_grad[2] else None"],
    ),
    Mistake(
        "the start saved for the solution",
        FixedPoint,
        lambda: (draw(4), 60),
        ["ctx.save_for_backward(x)"],
        ["ctx.save_for_backward(y)"],
    ),
]


class SwishByOutput(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        sigma = torch.sigmoid(y)
        return grad_output * (sigma + y * (1 - sigma))


MISTAKES += [
    Mistake(
        "an input that is not saved",
        SwishByOutput,
        lambda: (draw(3, 4),),
        ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors", "sigma = torch.sigmoid(y)"],
        [
            "ctx.save_for_backward(output, inputs[0])",
            "y, x = ctx.saved_tensors",
            "sigma = torch.sigmoid(x)",
        ],
    ),
]


class SortedWeights(Function):
    """The sum of the sorted values, each multiplied by its position."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values, order = x.sort(dim=0)
        ctx.save_for_backward(order)
        return (values * torch.arange(len(x), dtype=x.dtype)[:, None]).sum(0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (order,) = ctx.saved_tensors
        return order.to(grad_output.dtype) * grad_output


class Slope(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.sign().to(torch.uint8))
        return x.abs()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (sign,) = ctx.saved_tensors
        return grad_output * sign


class Springs(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, start: Tensor, end: Tensor) -> Tensor:
        ctx.save_for_backward(x, start, end)
        return (x[start] - x[end]).square() / 2

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, start, end = ctx.saved_tensors
        pull = grad_output * (x[start] - x[end])
        grad_x = torch.zeros_like(x)
        grad_x[start] += pull
        grad_x[end] -= pull
        return grad_x, None, None


MISTAKES += [
    Mistake(
        "an order in the place of ranks",
        SortedWeights,
        lambda: (draw(5, 3),),
        ["return order.to(grad_output.dtype) * grad_output"],
        ["return order.argsort(0).to(grad_output.dtype) * grad_output"],
    ),
    Mistake(
        "a sign in an unsigned integer",
        Slope,
        lambda: (draw(4, 3) - 1.5,),
        ["ctx.save_for_backward(x.sign().to(torch.uint8))"],
        ["ctx.save_for_backward(x.sign().to(torch.int8))"],
    ),
    Mistake(
        "two sums at repeated indices",
        Springs,
        lambda: (draw(4, 2), torch.tensor([0, 0, 1, 0]), torch.tensor([1, 2, 2, 3])),
        ["grad_x[start] += pull", "grad_x[end] -= pull"],
        [
            "grad_x.index_put_((start,), pull, accumulate=True)",
            "grad_x.index_put_((end,), -pull, accumulate=True)",
        ],
    ),
]


class Upsample(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Tensor) -> Tensor:
        ctx.save_for_backward(source)
        ctx.shape = x.shape
        return 2 * x[:, source]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (source,) = ctx.saved_tensors
        grad_x = grad_output.new_zeros(ctx.shape)
        grad_x[:, source] += 2 * grad_output
        return grad_x, None


class Length(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        difference = x - y
        length = difference.square_().add_(1.0).sqrt_()
        ctx.save_for_backward(difference, length)
        return length.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        difference, length = ctx.saved_tensors
        grad = grad_output * difference / length
        return grad, -grad


MISTAKES += [
    Mistake(
        "a sum at repeated columns",
        Upsample,
        lambda: (draw(3, 4), torch.tensor([0, 0, 1, 3, 3])),
        ["grad_x[:, source] += 2 * grad_output"],
        ["grad_x.index_add_(1, source, 2 * grad_output)"],
    ),
    Mistake(
        "a saved tensor overwritten",
        Length,
        lambda: (draw(3, 4), draw(3, 4).flip(0)),
        ["length = difference.square_().add_(1.0).sqrt_()"],
        ["length = difference.square().add(1.0).sqrt()"],
    ),
]


class GroupedHeads(Function):
    """Repeat each head for neighboring queries. ``sum(1)`` fits only if both counts are equal."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        ctx.save_for_backward(q, k)
        return q * k.repeat_interleave(len(q) // len(k), dim=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        grad_q = grad_output * k.repeat_interleave(len(q) // len(k), dim=0)
        return grad_q, (grad_output * q).reshape(-1, len(k), k.shape[1]).sum(0)


class FirstFrame(Function):
    """A running mean that starts with its first value. After the loop, ``t`` is always 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, s: Tensor) -> Tensor:
        means = [x[0]]
        for t in range(1, len(x)):
            means.append((1 - s) * means[-1] + s * x[t])
        ctx.save_for_backward(x, s, torch.stack(means))
        return torch.stack(means)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, s, means = ctx.saved_tensors
        grad_x, grad_s = torch.empty_like(x), torch.zeros_like(s)
        total = torch.zeros_like(grad_output[0])
        for t in range(len(x) - 1, 0, -1):
            total = grad_output[t] + total
            grad_x[t] = s * total
            grad_s += (total * (x[t] - means[t - 1])).sum()
            total = (1 - s) * total
        grad_x[0] = s * (grad_output[0] + total)
        return grad_x, grad_s


class Gate(Function):
    """A recurrence whose index is -1 in the first step."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, x: Tensor, h0: Tensor) -> Tensor:
        h, state = torch.empty_like(x), h0
        for t in range(len(x)):
            state = a[t] * state + x[t]
            h[t] = state
        ctx.save_for_backward(a, h, h0)
        return h

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, h, h0 = ctx.saved_tensors
        grad_a, grad_x = torch.empty_like(a), torch.empty_like(h)
        total = torch.zeros_like(h0)
        for t in reversed(range(len(h))):
            total = total + grad_output[t]
            before = h[t - 1]
            grad_a[t], grad_x[t] = total * before, total
            total = total * a[t]
        return grad_a, grad_x, total


class Transmittance(Function):
    """The product of the elements after each one, as a sum of logarithms."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        after = x.flip(0).cumsum(0).flip(0) - x
        ctx.save_for_backward(after.exp())
        return after.exp()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return (grad_output * y).cumsum(0)


class Causal(Function):
    """A convolution by FFT. Only forward pads to twice the length."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor) -> Tensor:
        length = x.shape[-1]
        n = 2 * length
        y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(kernel, n=n), n=n)
        ctx.save_for_backward(x, kernel)
        return y[..., :length]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, kernel = ctx.saved_tensors
        length = x.shape[-1]
        n = grad_output.shape[-1]
        spectrum = torch.fft.rfft(grad_output, n=n)
        grad_x = torch.fft.irfft(spectrum * torch.fft.rfft(kernel, n=n).conj(), n=n)
        grad_kernel = torch.fft.irfft((spectrum * torch.fft.rfft(x, n=n).conj()).sum(0), n=n)
        return grad_x[..., :length], grad_kernel[..., :length]


def drawn_mask(shape: torch.Size, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=dtype) > 0.5


class Redrawn(Function):
    """A mask that is drawn again in backward, but with another dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int) -> Tensor:
        ctx.seed = seed
        return x * drawn_mask(x.shape, seed, x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * drawn_mask(grad_output.shape, ctx.seed), None


class Windows(Function):
    """Windows of an image. Backward swaps the numbers of windows along both sides."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        h, w = x.shape
        ctx.shape, ctx.size = x.shape, size
        return x.reshape(h // size, size, w // size, size).transpose(1, 2).reshape(-1, size, size)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (h, w), size = ctx.shape, ctx.size
        grad = grad_output.reshape(w // size, h // size, size, size)
        return grad.transpose(1, 2).reshape(h, w), None


class MeanOfRows(Function):
    """Subtract the mean of each row. Backward loses the dim of the mean."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output - grad_output.mean(dim=1)


MISTAKES += [
    Mistake(
        "the last state in the first step",
        Gate,
        lambda: (draw(4, 3), draw(4, 3, seed=1), draw(3, seed=2)),
        ["before = h[t - 1]"],
        ["before = h[t - 1] if t > 0 else h0"],
    ),
    Mistake(
        "a running sum with its own element",
        Transmittance,
        lambda: (draw(5, 2) - 1.5,),
        ["return (grad_output * y).cumsum(0)"],
        ["return (grad_output * y).cumsum(0) - grad_output * y"],
    ),
    Mistake(
        "a length that forward computes differently",
        Causal,
        lambda: (draw(2, 5) - 1.5, draw(5, seed=1)),
        ["n = grad_output.shape[-1]"],
        ["n = 2 * length"],
    ),
    Mistake(
        "a dtype that forward passes to a helper",
        Redrawn,
        lambda: (draw(3, 4), 5),
        ["return grad_output * drawn_mask(grad_output.shape, ctx.seed), None"],
        ["return grad_output * drawn_mask(grad_output.shape, ctx.seed, grad_output.dtype), None"],
    ),
    Mistake(
        "two lengths exchanged",
        Windows,
        lambda: (draw(4, 6), 2),
        ["grad = grad_output.reshape(w // size, h // size, size, size)"],
        ["grad = grad_output.reshape(h // size, w // size, size, size)"],
    ),
    Mistake(
        "a dim that has to stay",
        MeanOfRows,
        lambda: (draw(4, 4),),
        ["return grad_output - grad_output.mean(dim=1)"],
        ["return grad_output - grad_output.mean(dim=1, keepdim=True)"],
    ),
]


class Standardized(Function):
    """A z-score. Its backward averages over n, but the deviation divides by n - 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        std, mean = torch.std_mean(x, dim=dim, keepdim=True)
        z = (x - mean) / std
        ctx.save_for_backward(z, std)
        ctx.dim = dim
        return z

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        z, std = ctx.saved_tensors
        mean = grad_output.mean(dim=ctx.dim, keepdim=True)
        along = (grad_output * z).mean(dim=ctx.dim, keepdim=True)
        return (grad_output - mean - z * along) / std, None


class Centered(Function):
    """Subtract the mean of a row's positive elements from these elements."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        positive = (x > 0).to(x.dtype)
        ctx.save_for_backward(positive)
        mean = (x * positive).sum(-1, keepdim=True) / positive.sum(-1, keepdim=True)
        return (x - mean) * positive

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        grad = grad_output * positive
        mean = grad.mean(-1, keepdim=True)
        return positive * (grad_output - mean)


class Peaks(Function):
    """A peak follower. At a new peak, no gradient flows to earlier steps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, decay: float) -> Tensor:
        peaks, attack = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
        peak = torch.zeros_like(x[0])
        for t in range(len(x)):
            attack[t] = x[t] > decay * peak
            peak = torch.maximum(x[t], decay * peak)
            peaks[t] = peak
        ctx.save_for_backward(attack)
        ctx.decay = decay
        return peaks

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (attack,) = ctx.saved_tensors
        grad_x, carry = torch.zeros_like(grad_output), torch.zeros_like(grad_output[0])
        for t in reversed(range(len(attack))):
            total = grad_output[t] + carry
            grad_x[t] = torch.where(attack[t], total, grad_x[t])
            carry = ctx.decay * total
        return grad_x, None


class Periodogram(Function):
    """A spectrum of a real signal. For an even length, the last bin occurs once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        bins = torch.fft.rfft(x)
        ctx.save_for_backward(bins)
        ctx.length = x.shape[-1]
        return bins.real.square() + bins.imag.square()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (bins,) = ctx.saved_tensors
        share = torch.ones(bins.shape[-1], dtype=grad_output.dtype, device=grad_output.device)
        share[1:] = 0.5
        grad = torch.fft.irfft(2.0 * grad_output * bins * share, n=ctx.length)
        return ctx.length * grad


MISTAKES += [
    Mistake(
        "a mean over n instead of n - 1",
        Standardized,
        lambda: (draw(5, 3), 0),
        ["along = (grad_output * z).mean(dim=ctx.dim, keepdim=True)"],
        [
            "along = (grad_output * z).sum(dim=ctx.dim, keepdim=True) / "
            "(grad_output.shape[ctx.dim] - 1)"
        ],
    ),
    Mistake(
        "a mean over all elements",
        Centered,
        lambda: (draw(3, 6) - 1.5,),
        ["mean = grad.mean(-1, keepdim=True)"],
        ["mean = grad.sum(-1, keepdim=True) / positive.sum(-1, keepdim=True)"],
    ),
    Mistake(
        "a mask in a recurrence",
        Peaks,
        lambda: (draw(6, 2), 0.9),
        ["carry = ctx.decay * total"],
        ["carry = ctx.decay * total * ~attack[t]"],
    ),
    Mistake(
        "the last bin of a spectrum",
        Periodogram,
        lambda: (draw(3, 8) - 1.5,),
        ["share[1:] = 0.5"],
        ["share[1:(ctx.length + 1) // 2] = 0.5"],
    ),
    Mistake(
        "a result that backward ignores",
        MeanOfEachRow,
        lambda: (draw(4, 4),),
        ["grad.unsqueeze(-1)"],
        ["grad = grad.unsqueeze(-1)"],
    ),
    Mistake(
        "the number of all elements",
        MeanAlongTheLastDim,
        lambda: (draw(3, 4),),
        ["return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape.numel()"],
        ["return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape[-1]"],
    ),
    Mistake(
        "the shape of an input that backward guesses",
        RowsByTheirLargestIndex,
        lambda: (draw(5, 2), torch.tensor([1, 3, 0])),
        ["ctx.save_for_backward(index)", "rows = int(index.max()) + 1"],
        [
            "ctx.save_for_backward(index)",
            "ctx.table_shape = table.shape",
            "rows = ctx.table_shape[0]",
        ],
    ),
    Mistake(
        "a sum without its dim, where the shapes do not fit",
        ShareOfTheTotal,
        lambda: (draw(3, 4),),
        ["common = (grad_output * x / total).sum(-1)"],
        ["common = (grad_output * x / total).sum(-1, keepdim=True)"],
    ),
    Mistake(
        "a list that belongs to ctx",
        TwoFactors,
        lambda: (draw(3, 4),),
        ["factors = ctx.factors"],
        ["factors = list(ctx.factors)"],
    ),
    Mistake(
        "an iterator on ctx",
        TwoFactorsBackward,
        lambda: (draw(3, 4),),
        ["ctx.factors = reversed(factors)"],
        ["ctx.factors = list(reversed(factors))"],
    ),
    Mistake(
        "a length that is stored, but guessed",
        SpreadOut,
        lambda: (draw(2, 7), 2),
        ["length = grad_output.shape[-1] * ctx.step"],
        ["length = ctx.length"],
    ),
    Mistake(
        "the joined chunks saved",
        ExpInChunks,
        lambda: (draw(5, 3),),
        ["ctx.save_for_backward(x)"],
        ["ctx.save_for_backward(torch.cat(chunks))"],
    ),
    Mistake(
        "a branch that backward must not have",
        GateWithoutTails,
        lambda: (draw(4, 3), 5 * draw(4, 3)),
        ["return grad_output * s, torch.where(gate.abs() > 4, torch.zeros_like(s), grad_gate)"],
        ["return grad_output * s, grad_gate"],
    ),
]
