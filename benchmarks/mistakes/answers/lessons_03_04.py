"""Mistakes of learners in lessons 03 and 04; see benchmarks/repairs.py."""

# %% gather-rows_1
"""Indexed += on a tensor does not accumulate: where an index occurs several times, only one of the upstream rows is added and the others are lost. The contributions of all uses of a row must be summed."""
WRONG = ["grad_table[index] += grad_output"]
RIGHT = ["grad_table.index_put_((index,), grad_output, accumulate=True)"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table: Tensor, index: Tensor) -> Tensor:
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table[index] += grad_output
        return grad_table, None


# %% gather-rows_2
"""The number of rows of the table is taken from the largest index instead of from the table. If the last rows are never read, the gradient has fewer rows than the table."""
WRONG = ["ctx.rows = int(index.max()) + 1"]
RIGHT = ["ctx.rows = table.shape[0]"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table: Tensor, index: Tensor) -> Tensor:
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.rows = int(index.max()) + 1

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.rows, grad_output.shape[-1])
        grad_table.index_put_((index,), grad_output, accumulate=True)
        return grad_table, None


# %% swish_1
"""The derivative of the sigmoid is s * (1 - s). The second term of the product rule lacks the factor s."""
WRONG = ["return grad_output * (s + x * (1 - s))"]
RIGHT = ["return grad_output * (s + x * s * (1 - s))"]
NAME = "Swish"
EXERCISE = "swish"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Swish(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + x * (1 - s))


# %% swish_2
"""Input and output are both saved, so twice the memory of x is kept for backward. x alone is enough, because sigmoid(x) and y can be computed again from it."""
WRONG = ["ctx.save_for_backward(x, output)", "x, y = ctx.saved_tensors", "return grad_output * (y + s * (1 - y))"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return grad_output * (s + x * s * (1 - s))"]
NAME = "Swish"
EXERCISE = "swish"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Swish(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (y + s * (1 - y))


# %% learnable-swish_1
"""The inner derivative of sigmoid(beta * x) with respect to x is beta. The second term of the gradient of x lacks this factor, so it is right only for beta = 1."""
WRONG = ["grad_x = grad_output * (s + x * s * (1 - s))"]
RIGHT = ["grad_x = grad_output * (s + beta * x * s * (1 - s))"]
NAME = "LearnableSwish"
EXERCISE = "learnable-swish"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LearnableSwish(Function):
    @staticmethod
    def forward(x: Tensor, beta: Tensor) -> Tensor:
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, beta = inputs
        ctx.save_for_backward(x, beta)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        grad_x = grad_output * (s + x * s * (1 - s))
        grad_beta = (grad_output * x**2 * s * (1 - s)).sum().reshape(beta.shape)
        return grad_x, grad_beta


# %% learnable-swish_2
"""The sum over all elements has the shape (). If beta has the shape (1,), the gradient of beta does not have the shape of beta."""
WRONG = ["grad_beta = (grad_output * x**2 * s * (1 - s)).sum()"]
RIGHT = ["grad_beta = (grad_output * x**2 * s * (1 - s)).sum().reshape(beta.shape)"]
NAME = "LearnableSwish"
EXERCISE = "learnable-swish"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LearnableSwish(Function):
    @staticmethod
    def forward(x: Tensor, beta: Tensor) -> Tensor:
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, beta = inputs
        ctx.save_for_backward(x, beta)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        grad_x = grad_output * (s + beta * x * s * (1 - s))
        grad_beta = (grad_output * x**2 * s * (1 - s)).sum()
        return grad_x, grad_beta


# %% broadcast-multiply_1
"""The helper sums only the leading dims that broadcasting added. Dims of size 1 that were stretched, as in a column times a row, are not summed, so the gradient is too large."""
WRONG = ["return gradient"]
RIGHT = ["for dim, size in enumerate(shape):\n    if size == 1:\n        gradient = gradient.sum(dim, keepdim=True)\nreturn gradient"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def reduce_to(gradient: Tensor, shape: torch.Size) -> Tensor:
    while gradient.dim() > len(shape):
        gradient = gradient.sum(0)
    return gradient


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return reduce_to(grad_output * y, x.shape), reduce_to(grad_output * x, y.shape)


# %% broadcast-multiply_2
"""The upstream gradient is summed to the shape of the input before it is multiplied by the other factor. The other factor varies along the summed dims, so it belongs inside the sum, and the product is broadcast to the large shape again."""
WRONG = ["grad_x = unbroadcast(grad_output, x.shape) * y", "grad_y = unbroadcast(grad_output, y.shape) * x"]
RIGHT = ["grad_x = unbroadcast(grad_output * y, x.shape)", "grad_y = unbroadcast(grad_output * x, y.shape)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def unbroadcast(g: Tensor, shape: torch.Size) -> Tensor:
    while g.dim() > len(shape):
        g = g.sum(0)
    for dim, size in enumerate(shape):
        if size == 1 and g.shape[dim] != 1:
            g = g.sum(dim, keepdim=True)
    return g


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        grad_x = unbroadcast(grad_output, x.shape) * y
        grad_y = unbroadcast(grad_output, y.shape) * x
        return grad_x, grad_y


# %% max-with-ties_1
"""Every one of c equal maxima gets the whole gradient instead of 1/c of it, because the mask is not divided by the number of maxima along dim."""
WRONG = ["mask = (x == y).to(grad_output.dtype)"]
RIGHT = ["mask = (x == y).to(grad_output.dtype)\nmask = mask / mask.sum(ctx.dim, keepdim=True)"]
NAME = "MaxWithTies"
EXERCISE = "max-with-ties"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class MaxWithTies(Function):
    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        return x.amax(dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, dim, keepdim = inputs
        ctx.save_for_backward(x)
        ctx.dim = dim
        ctx.keepdim = keepdim

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        y = x.amax(ctx.dim, keepdim=True)
        mask = (x == y).to(grad_output.dtype)
        if not ctx.keepdim:
            grad_output = grad_output.unsqueeze(ctx.dim)
        return grad_output * mask, None, None


# %% max-with-ties_2
"""Without keepdim, grad_output lacks the reduced dim, but only the saved maximum gets it back. The upstream gradient is then broadcast along the wrong dim, or the shapes do not fit at all."""
WRONG = ["y = y.unsqueeze(ctx.dim)"]
RIGHT = ["y = y.unsqueeze(ctx.dim)\ngrad_output = grad_output.unsqueeze(ctx.dim)"]
NAME = "MaxWithTies"
EXERCISE = "max-with-ties"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class MaxWithTies(Function):
    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        return torch.amax(x, dim=dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
        is_max = x == y
        count = is_max.sum(dim=ctx.dim, keepdim=True)
        return grad_output * is_max / count, None, None


# %% soft-rank_1
"""Only the effect of x_k on its own rank is counted. x_k also lowers the ranks of all others, so the sum over i of grad_output_i times the slope must be subtracted."""
WRONG = ["return grad_output * slope.sum(-1), None"]
RIGHT = ["return grad_output * slope.sum(-1) - (grad_output.unsqueeze(-1) * slope).sum(-2), None"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x: Tensor, tau: float) -> Tensor:
        differences = x.unsqueeze(-1) - x.unsqueeze(-2)
        return 0.5 + torch.sigmoid(differences / tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, tau = inputs
        ctx.save_for_backward(x)
        ctx.tau = tau

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        return grad_output * slope.sum(-1), None


# %% soft-rank_2
"""The inner derivative of (x_i - x_j) / tau is 1 / tau. It is missing in the slope of the sigmoid, so the gradient is too small by the factor tau."""
WRONG = ["slope = s * (1 - s)"]
RIGHT = ["slope = s * (1 - s) / ctx.tau"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x: Tensor, tau: float) -> Tensor:
        differences = x.unsqueeze(-1) - x.unsqueeze(-2)
        return 0.5 + torch.sigmoid(differences / tau).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, tau = inputs
        ctx.save_for_backward(x)
        ctx.tau = tau

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s)
        return (slope * (grad_output.unsqueeze(-1) - grad_output.unsqueeze(-2))).sum(-1), None


# %% gelu_1
"""By the product rule, the derivative of x * Phi(x) is Phi(x) + x * phi(x). The factor x in the second term is missing."""
WRONG = ["return grad_output * (cdf + pdf)"]
RIGHT = ["return grad_output * (cdf + x * pdf)"]
NAME = "GELU"
EXERCISE = "gelu"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


class GELU(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        return grad_output * (cdf + pdf)


# %% gelu_2
"""The constant of the density is wrong: the derivative of erf brings 1 / sqrt(pi), but the inner derivative 1 / sqrt(2) of erf(x / sqrt(2)) is missing. The density is divided by sqrt(2 * pi)."""
WRONG = ["pdf = torch.exp(-x.square() / 2) / math.sqrt(math.pi)"]
RIGHT = ["pdf = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)"]
NAME = "GELU"
EXERCISE = "gelu"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


class GELU(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-x.square() / 2) / math.sqrt(math.pi)
        return grad_output * (cdf + x * pdf)


# %% repair-share_1
"""The sum along dim is taken without keepdim, so common loses that dim. It is then subtracted along the wrong dim, or its shape does not fit, unless dim is the first one."""
WRONG = ["common = (grad_output * x / total).sum(ctx.dim)"]
RIGHT = ["common = (grad_output * x / total).sum(ctx.dim, keepdim=True)"]
NAME = "Share"
EXERCISE = "repair-share"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Share(Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim = dim
        return x / x.sum(dim, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(ctx.dim)
        return (grad_output - common) / total, None


# %% repair-temperature_1
"""The derivative of x / t with respect to t is -x / t**2. The minus sign is missing, so the temperature moves in the wrong direction."""
WRONG = ["grad_t = (slope * x / temperature**2).sum()"]
RIGHT = ["grad_t = -(slope * x / temperature**2).sum()"]
NAME = "Tempered"
EXERCISE = "repair-temperature"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Tempered(Function):
    @staticmethod
    def forward(ctx, x: Tensor, temperature: Tensor) -> Tensor:
        ctx.save_for_backward(x, temperature)
        return torch.tanh(x / temperature)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, temperature = ctx.saved_tensors
        y = torch.tanh(x / temperature)
        slope = grad_output * (1 - y**2)
        grad_x = slope / temperature
        grad_t = (slope * x / temperature**2).sum()
        return grad_x, grad_t


# %% repair-film_1
"""The gradient of beta is computed only if gamma needs a gradient: the condition was copied from the line above. If gamma is frozen and beta is not, beta gets None."""
WRONG = ["grad_beta = grad_output.sum(0) if needs_gamma else None"]
RIGHT = ["grad_beta = grad_output.sum(0) if needs_beta else None"]
NAME = "FiLM"
EXERCISE = "repair-film"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FiLM(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, gamma)
        return x * gamma + beta

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma = ctx.saved_tensors
        needs_x, needs_gamma, needs_beta = ctx.needs_input_grad
        grad_x = grad_output * gamma if needs_x else None
        grad_gamma = (grad_output * x).sum(0) if needs_gamma else None
        grad_beta = grad_output.sum(0) if needs_gamma else None
        return grad_x, grad_gamma, grad_beta


# %% repair-floor-log_1
"""The gradient below the floor is masked by a multiplication with 0 after the division by x. For digital silence, x = 0, the quotient is infinite, and infinity times 0 is nan."""
WRONG = ["return grad_output / x * (x >= ctx.floor), None"]
RIGHT = ["return grad_output / x.clamp(min=ctx.floor) * (x >= ctx.floor), None"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x: Tensor, floor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.floor = floor
        return x.clamp(min=floor).log()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output / x * (x >= ctx.floor), None


# %% repair-distance_1
"""The upstream gradient is flattened to one column, which fits only a matrix of rows. If x has more batch dims, its shape does not match; a dim has to be added at the end instead."""
WRONG = ["upstream = grad_output.reshape(-1, 1)"]
RIGHT = ["upstream = grad_output.unsqueeze(-1)"]
NAME = "Distance"
EXERCISE = "repair-distance"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Distance(Function):
    @staticmethod
    def forward(ctx, x: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(x, target)
        return (x - target).square().sum(-1) / 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, target = ctx.saved_tensors
        upstream = grad_output.reshape(-1, 1)
        return (x - target) * upstream, (target - x) * upstream


# %% repair-rotation_1
"""contiguous() returns a new tensor and does not change grad_output. Its result is thrown away, so as_strided still reads the numbers in the order in which they are stored."""
WRONG = ["grad_output.contiguous()"]
RIGHT = ["grad_output = grad_output.contiguous()"]
NAME = "Rotate"
EXERCISE = "repair-rotation"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


def turn(like: Tensor, angle: float) -> Tensor:
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class Rotate(Function):
    @staticmethod
    def forward(ctx, x: Tensor, angle: float) -> Tensor:
        ctx.angle = angle
        return x @ turn(x, angle)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        grad_output.contiguous()
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


# %% repair-color-table_1
"""Only the contribution to the left entry is accumulated. Indexed += for the right entry keeps just one of the pixels that share an entry, so the others are lost."""
WRONG = ["grad_table[index + 1] += fraction * grad_output"]
RIGHT = ["grad_table.index_put_((index + 1,), fraction * grad_output, accumulate=True)"]
NAME = "LookUp"
EXERCISE = "repair-color-table"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LookUp(Function):
    @staticmethod
    def forward(ctx, table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, Tensor]:
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True)
        grad_table[index + 1] += fraction * grad_output
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


# %% repair-log-cosh_1
"""exp(-2x) no longer overflows for large positive x, but it does for large negative x. Then the quotient is infinity by infinity, which is nan; the exponent must use the absolute value."""
WRONG = ["e = (-2 * x).exp()", "return grad_output * (1 - e) / (1 + e)"]
RIGHT = ["e = (-2 * x.abs()).exp()", "return grad_output * x.sign() * (1 - e) / (1 + e)"]
NAME = "LogCosh"
EXERCISE = "repair-log-cosh"
# --- code
import math

import torch
from torch import Tensor
from torch.autograd import Function


class LogCosh(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        e = (-2 * x).exp()
        return grad_output * (1 - e) / (1 + e)


# %% repair-softsign_1
"""A detached copy of the output is stored as an attribute of ctx instead of with save_for_backward. The cycle is gone, but the copy has no graph, so second derivatives are silently wrong, and autograd does not notice if y is changed in place."""
WRONG = ["ctx.y = y.detach()", "y = ctx.y"]
RIGHT = ["ctx.save_for_backward(y)", "(y,) = ctx.saved_tensors"]
NAME = "Softsign"
EXERCISE = "repair-softsign"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Softsign(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y = x / (1 + x.abs())
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        y = ctx.y
        return grad_output * (1 - y.abs()) ** 2


# %% repair-solver_1
"""The assignment gives the same list a second name and does not copy it. pop still empties ctx.tape, so the second backward pass finds nothing to do."""
WRONG = ["tape = ctx.tape"]
RIGHT = ["tape = list(ctx.tape)"]
NAME = "Solve"
EXERCISE = "repair-solver"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(ctx, x: Tensor, steps: tuple[float, ...]) -> Tensor:
        states = []
        for h in steps:
            states.append(x)
            x = x - h * x.sin()
        ctx.save_for_backward(*states)
        ctx.tape = list(enumerate(steps))
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        states = ctx.saved_tensors
        tape = ctx.tape
        while tape:
            i, h = tape.pop()
            grad_output = grad_output * (1 - h * states[i].cos())
        return grad_output, None


# %% repair-rms-norm_1
"""backward computes r again without the 1e-6 that forward adds. The gradient belongs to another function; for small rows it is clearly wrong, and for a row of zeros it is nan."""
WRONG = ["r = x.square().mean(-1, keepdim=True).rsqrt()"]
RIGHT = ["r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
NAME = "RMSNorm"
EXERCISE = "repair-rms-norm"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        r = x.square().mean(-1, keepdim=True).rsqrt()
        return r * grad_output - r**3 * x * (grad_output * x).mean(-1, keepdim=True)


# %% repair-dropout_1
"""The generator is kept in ctx and used again in backward. Its state has advanced in forward, so backward draws another mask; it must be seeded again, or the mask saved."""
WRONG = ["ctx.generator = generator", "keep = draw(grad_output, ctx.p, ctx.generator)"]
RIGHT = ["ctx.seed = seed", "generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)\nkeep = draw(grad_output, ctx.p, generator)"]
NAME = "Dropout"
EXERCISE = "repair-dropout"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class Dropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float, seed: int) -> Tensor:
        generator = torch.Generator(x.device).manual_seed(seed)
        ctx.p = p
        ctx.generator = generator
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        keep = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * keep / (1 - ctx.p), None, None
