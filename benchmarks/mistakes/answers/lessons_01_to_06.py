"""Mistakes: held out, exercises of lessons 01 to 06. Each cell is a separate module; see benchmarks/repairs.py."""

# %% scaled-sigmoid_1
"""The derivative gain * slope * s * (1 - s) holds for the plain sigmoid s, but the saved y is gain * s. In terms of y the factor is slope * y * (1 - y / gain), so the result is only right for gain = 1."""
WRONG = ["return grad_output * ctx.gain * ctx.slope * y * (1 - y), None, None"]
RIGHT = ["return grad_output * ctx.slope * y * (1 - y / ctx.gain), None, None"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x, gain, slope):
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * ctx.gain * ctx.slope * y * (1 - y), None, None


# %% clipped-relu_1
"""The mask is computed from the clipped output, which always lies in [0, ceiling]. With inclusive comparisons it is True everywhere, so the gradient also passes where the input was clipped; with the output saved, only strict comparisons tell the two cases apart."""
WRONG = ["inside = (y >= 0) & (y <= ctx.ceiling)"]
RIGHT = ["inside = (y > 0) & (y < ctx.ceiling)"]
NAME = "ClippedReLU"
EXERCISE = "clipped-relu"
# --- code
import torch
from torch.autograd import Function


class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x, ceiling):
        y = x.clamp(0, ceiling)
        ctx.save_for_backward(y)
        ctx.ceiling = ceiling
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inside = (y >= 0) & (y <= ctx.ceiling)
        return grad_output * inside, None


# %% linear_1
"""The bias is broadcast over all leading dimensions, so its gradient is the sum over all of them. sum(0) is only right for exactly one leading dimension: with more, dimensions are left over, and with none it sums over the features."""
WRONG = ["grad_bias = grad_output.sum(0) if ctx.has_bias else None"]
RIGHT = ["grad_bias = rows.sum(0) if ctx.has_bias else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.T
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_x = grad_output @ weight
        grad_weight = rows.T @ x.reshape(-1, weight.shape[1])
        grad_bias = grad_output.sum(0) if ctx.has_bias else None
        return grad_x, grad_weight, grad_bias


# %% linear_2
"""backward returns a tensor for the bias even if there was no bias. An argument that is not a tensor (or was not given) must get None, otherwise the engine raises an error."""
WRONG = ["ctx.save_for_backward(x, weight)", "return grad_x, grad_weight, rows.sum(0)"]
RIGHT = ["ctx.save_for_backward(x, weight)\nctx.has_bias = bias is not None", "return grad_x, grad_weight, rows.sum(0) if ctx.has_bias else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        y = x @ weight.T
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        n_out, n_in = weight.shape
        grad_x = grad_output @ weight
        rows = grad_output.reshape(-1, n_out)
        grad_weight = rows.T @ x.reshape(-1, n_in)
        return grad_x, grad_weight, rows.sum(0)


# %% to-polar_1
"""These are the derivatives of atan2(x, y), with the two arguments exchanged. For theta = atan2(y, x) they are -y / r**2 for x and +x / r**2 for y, so the angular part of both gradients has the wrong sign."""
WRONG = ["grad_x = grad_r * x / r + grad_theta * y / r**2", "grad_y = grad_r * y / r - grad_theta * x / r**2"]
RIGHT = ["grad_x = grad_r * x / r - grad_theta * y / r**2", "grad_y = grad_r * y / r + grad_theta * x / r**2"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x, y):
        r = torch.hypot(x, y)
        theta = torch.atan2(y, x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        x, y, r = ctx.saved_tensors
        grad_x = grad_r * x / r + grad_theta * y / r**2
        grad_y = grad_r * y / r - grad_theta * x / r**2
        return grad_x, grad_y


# %% repair-absolute_1
"""x / |x| is the sign of x everywhere except at 0, where it is 0 / 0 = nan. The slope there may be anything from -1 to 1, but not nan; x.sign() gives 0."""
WRONG = ["return grad_output * x / x.abs()"]
RIGHT = ["return grad_output * x.sign()"]
NAME = "Absolute"
EXERCISE = "repair-absolute"
# --- code
import torch
from torch.autograd import Function


class BrokenAbsolute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x > 0)


class Absolute(BrokenAbsolute):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x / x.abs()


# %% repair-power_1
"""The number of gradients is now right, but the second one is a tensor. The exponent is a Python number and no tensor, so its gradient must be None; the engine refuses anything else."""
WRONG = ["return grad_x, (grad_output * x**p * x.log()).sum()"]
RIGHT = ["return grad_x, None"]
NAME = "Power"
EXERCISE = "repair-power"
# --- code
import torch
from torch.autograd import Function


class BrokenPower(Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return ctx.exponent * x ** (ctx.exponent - 1) * grad_output


class Power(BrokenPower):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        p = ctx.exponent
        grad_x = grad_output * p * x ** (p - 1)
        return grad_x, (grad_output * x**p * x.log()).sum()


# %% snake_1
"""The Python number a is wrapped in a tensor so that save_for_backward accepts it. A number belongs in an attribute of ctx: the exercise allows only x to be saved, and the new tensor is float32 on the CPU, whatever x is."""
WRONG = ["ctx.save_for_backward(x, torch.tensor(a))", "x, a = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)\nctx.a = a", "(x,) = ctx.saved_tensors\na = ctx.a"]
NAME = "Snake"
EXERCISE = "snake"
# --- code
import torch
from torch.autograd import Function


class Snake(Function):
    @staticmethod
    def forward(x, a):
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        ctx.save_for_backward(x, torch.tensor(a))

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        return grad_output * (1 + torch.sin(2 * a * x)), None


# %% sort-with-indices_1
"""gather repeats the permutation of forward instead of undoing it. values[i] came from x[indices[i]], so the gradient at place i must be written to place indices[i] (scatter); both agree only for permutations that are their own inverse, such as a single swap."""
WRONG = ["grad_x = grad_values.gather(-1, indices)"]
RIGHT = ["grad_x = torch.zeros_like(grad_values).scatter(-1, indices, grad_values)"]
NAME = "SortWithIndices"
EXERCISE = "sort-with-indices"
# --- code
import torch
from torch.autograd import Function


class SortWithIndices(Function):
    @staticmethod
    def forward(x, descending=False):
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        (indices,) = ctx.saved_tensors
        grad_x = grad_values.gather(-1, indices)
        return grad_x, None


# %% strided-gain_1
"""Without training, forward returns a slice, which is a view of x and shares its memory. The output must be a new tensor: PyTorch raises an error when the caller changes a view from a custom Function in place."""
WRONG = ["return kept"]
RIGHT = ["return kept.clone()"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        kept = x[..., ::stride]
        if training:
            return gain * kept
        return kept

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.shape = x.shape
        ctx.stride = stride
        ctx.training = training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.new_zeros(ctx.shape)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% strided-gain_2
"""The length of the last dimension of x is reconstructed as output length times stride. The slice rounds up, so this is too long whenever the stride does not divide the length; the shape of x has to be stored."""
WRONG = ["ctx.stride = stride", "shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)"]
RIGHT = ["ctx.stride = stride\nctx.shape = x.shape", "shape = ctx.shape"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x, gain, stride, training):
        y = x[..., ::stride].clone()
        return y * gain if training else y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x, grad_gain = None, None
        if ctx.needs_input_grad[0]:
            shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x = torch.zeros(shape, dtype=grad_output.dtype, device=grad_output.device)
            if ctx.training:
                grad_x[..., :: ctx.stride] = grad_output * ctx.saved_tensors[1]
            else:
                grad_x[..., :: ctx.stride] = grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * ctx.saved_tensors[0][..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""backward overwrites grad_output. Only forward may work in place here: grad_output does not belong to the Function, and the engine may pass the same tensor to other nodes, whose gradients are then wrong."""
WRONG = ["grad_output[y <= 0] *= ctx.slope"]
RIGHT = ["grad_output = torch.where(y > 0, grad_output, ctx.slope * grad_output)"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x, slope):
        x[x <= 0] *= slope
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, slope = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(output)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_output[y <= 0] *= ctx.slope
        return grad_output, None


# %% frozen-target_1
"""The check asks whether any input needs a gradient. backward only runs if at least one does, so the check never applies; if only the target or the weight requires a gradient, the gradient of the prediction is computed for nothing. Only needs_input_grad[0] counts."""
WRONG = ["if not any(ctx.needs_input_grad):"]
RIGHT = ["if not ctx.needs_input_grad[0]:"]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction, target, weight):
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not any(ctx.needs_input_grad):
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        slope = 2 * weight * (prediction - target) / prediction.numel()
        return grad_output * slope, None, None


# %% gather-rows_1
"""one_hot without a number of classes takes the largest index plus one. If the last rows of the table are never read, the gradient has too few rows; the number of rows of the table has to be stored and passed."""
WRONG = ["ctx.save_for_backward(index)", "onehot = torch.nn.functional.one_hot(index.reshape(-1))"]
RIGHT = ["ctx.save_for_backward(index)\nctx.rows = table.shape[0]", "onehot = torch.nn.functional.one_hot(index.reshape(-1), ctx.rows)"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
import torch.nn.functional
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(index.reshape(-1))
        rows = grad_output.reshape(-1, grad_output.shape[-1])
        return onehot.to(rows.dtype).T @ rows, None


# %% swish_1
"""The formula s + y * (1 - s) needs s = sigmoid(x), but only y is saved and s is computed from y. x cannot be recovered from y, because Swish is not monotonic, so x is the tensor to save."""
WRONG = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors", "s = torch.sigmoid(y)"]
RIGHT = ["ctx.save_for_backward(*inputs)", "(x,) = ctx.saved_tensors", "s = torch.sigmoid(x)\ny = x * s"]
NAME = "Swish"
EXERCISE = "swish"
# --- code
import torch
from torch.autograd import Function


class Swish(Function):
    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        s = torch.sigmoid(y)
        return grad_output * (s + y * (1 - s))


# %% learnable-swish_1
"""sum() always returns a zero-dimensional tensor, but beta may have the shape (1,). The gradient must be reshaped to the shape of beta."""
WRONG = ["grad_beta = (grad_output * x**2 * slope).sum()"]
RIGHT = ["grad_beta = (grad_output * x**2 * slope).sum().reshape(beta.shape)"]
NAME = "LearnableSwish"
EXERCISE = "learnable-swish"
# --- code
import torch
from torch.autograd import Function


class LearnableSwish(Function):
    @staticmethod
    def forward(x, beta):
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        slope = s * (1 - s)
        grad_x = grad_output * (s + beta * x * slope)
        grad_beta = (grad_output * x**2 * slope).sum()
        return grad_x, grad_beta


# %% broadcast-multiply_1
"""If an input has as many dimensions as the output, extra is 0 and the tuple of dimensions is empty. sum(()) does not leave the tensor alone, it sums over all dimensions, so the gradient collapses to one number."""
WRONG = ["gradient = gradient.sum(tuple(range(extra)))"]
RIGHT = ["gradient = gradient.sum(tuple(range(extra))) if extra else gradient"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(gradient, shape):
    extra = gradient.dim() - len(shape)
    gradient = gradient.sum(tuple(range(extra)))
    for dim, size in enumerate(shape):
        if size == 1 and gradient.dim() == len(shape):
            gradient = gradient.sum(dim, keepdim=True)
    return gradient


class BroadcastMultiply(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return reduce_to(grad_output * y, x.shape), reduce_to(grad_output * x, y.shape)


# %% max-with-ties_1
"""Without keepdim, the reduced dimension is put back at the end, although it was removed at dim. For any other dim the maxima and gradients no longer line up with x: an error, or, for a square matrix, silently wrong gradients."""
WRONG = ["y, grad_output = y.unsqueeze(-1), grad_output.unsqueeze(-1)"]
RIGHT = ["y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)"]
NAME = "MaxWithTies"
EXERCISE = "max-with-ties"
# --- code
import torch
from torch.autograd import Function


class MaxWithTies(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        return x.amax(dim, keepdim=keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim = inputs[:2]
        ctx.save_for_backward(x, output)
        ctx.dim = dim

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if y.dim() < x.dim():
            y, grad_output = y.unsqueeze(-1), grad_output.unsqueeze(-1)
        mask = (x == y).to(x.dtype)
        return grad_output * mask / mask.sum(ctx.dim, keepdim=True), None, None


# %% soft-rank_1
"""The influence of x_k on the ranks of the others is the sum over j of g_j * slope_jk, so the sum runs over the index of the ranks, dim -2. The slopes are symmetric, but g_j * slope_jk is not: summed over dim -1, the second term cancels the first and every gradient is 0."""
WRONG = ["others = (grad_output.unsqueeze(-1) * slope).sum(-1)"]
RIGHT = ["others = (grad_output.unsqueeze(-1) * slope).sum(-2)"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        difference = (x.unsqueeze(-1) - x.unsqueeze(-2)) / tau
        return 0.5 + torch.sigmoid(difference).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.tau = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        own = grad_output * slope.sum(-1)
        others = (grad_output.unsqueeze(-1) * slope).sum(-1)
        return own - others, None


# %% repair-film_1
"""Filling up with None at the front instead of at the end only repairs the owner's case, a frozen x. The position of each gradient must be that of its input: if gamma or beta is frozen, the gradients still go to the wrong inputs."""
WRONG = ["return (*[None] * (3 - len(grads)), *grads)"]
RIGHT = ["return tuple(grads.pop(0) if needed else None for needed in ctx.needs_input_grad)"]
NAME = "FiLM"
EXERCISE = "repair-film"
# --- code
import torch
from torch.autograd import Function


class BrokenFiLM(Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x, gamma)
        return x * gamma + beta

    @staticmethod
    def backward(ctx, grad_output):
        x, gamma = ctx.saved_tensors
        needs_x, needs_gamma, needs_beta = ctx.needs_input_grad
        gradients = []
        if needs_x:
            gradients.append(grad_output * gamma)
        if needs_gamma:
            gradients.append((grad_output * x).sum(0))
        if needs_beta:
            gradients.append(grad_output.sum(0))
        return (*gradients, *[None] * (3 - len(gradients)))


class FiLM(BrokenFiLM):
    @staticmethod
    def backward(ctx, grad_output):
        x, gamma = ctx.saved_tensors
        grads = []
        if ctx.needs_input_grad[0]:
            grads.append(grad_output * gamma)
        if ctx.needs_input_grad[1]:
            grads.append((grad_output * x).sum(0))
        if ctx.needs_input_grad[2]:
            grads.append(grad_output.sum(0))
        return (*[None] * (3 - len(grads)), *grads)


# %% repair-floor-log_1
"""Below the floor the gradient should be 0, but it is computed as grad_output / x times 0. For complete silence, x = 0, this is infinity times 0 = nan; the division must not reach the result there (torch.where, or divide by the clamped x)."""
WRONG = ["return grad_output / x * (x > ctx.floor), None"]
RIGHT = ["return grad_output / x.clamp(min=ctx.floor) * (x > ctx.floor), None"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x, floor):
        ctx.save_for_backward(x)
        ctx.floor = floor
        return x.clamp(min=floor).log()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output / x * (x > ctx.floor), None


# %% repair-color-table_1
"""Only the first of the two writes accumulates. += with an index tensor reads, adds and writes back once per entry, so of several pixels at the same entry only one counts for the upper neighbor; this write also needs accumulate=True (or index_add)."""
WRONG = ["grad_table[index + 1] += grad_output * fraction"]
RIGHT = ["grad_table.index_put_((index + 1,), grad_output * fraction, accumulate=True)"]
NAME = "LookUp"
EXERCISE = "repair-color-table"
# --- code
import torch
from torch.autograd import Function


class BrokenLookUp(Function):
    @staticmethod
    def forward(ctx, table, index, fraction):
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]

    @staticmethod
    def backward(ctx, grad_output):
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros(len(table))
        grad_table[index] = (1 - fraction) * grad_output
        grad_table[index + 1] += fraction * grad_output
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


class LookUp(BrokenLookUp):
    @staticmethod
    def backward(ctx, grad_output):
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table.index_put_((index,), grad_output * (1 - fraction), accumulate=True)
        grad_table[index + 1] += grad_output * fraction
        grad_fraction = (table[index + 1] - table[index]) * grad_output
        return grad_table, None, grad_fraction


# %% repair-log-cosh_1
"""This form of tanh no longer overflows for large positive x, but for large negative x exp(-2x) is infinity, and -inf / inf is nan. The outlier with the other sign still breaks the training; torch.tanh is stable on both sides."""
WRONG = ["tanh = (1 - (-2 * x).exp()) / (1 + (-2 * x).exp())"]
RIGHT = ["tanh = torch.tanh(x)"]
NAME = "LogCosh"
EXERCISE = "repair-log-cosh"
# --- code
import math

import torch
import torch.nn.functional
from torch.autograd import Function


class BrokenLogCosh(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        up, down = x.exp(), (-x).exp()
        return grad_output * (up - down) / (up + down)


class LogCosh(BrokenLogCosh):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        tanh = (1 - (-2 * x).exp()) / (1 + (-2 * x).exp())
        return grad_output * tanh


# %% repair-solver_1
"""Only the steps are reversed, the saved states are not. So each state is combined with the step size of another step, which is only right if all step sizes are equal or mirror-symmetric."""
WRONG = ["for h, state in zip(reversed(ctx.steps), ctx.saved_tensors):"]
RIGHT = ["for h, state in zip(reversed(ctx.steps), reversed(ctx.saved_tensors)):"]
NAME = "Solve"
EXERCISE = "repair-solver"
# --- code
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(ctx, x, steps):
        states = []
        for h in steps:
            states.append(x)
            x = x - h * x.sin()
        ctx.save_for_backward(*states)
        ctx.steps = steps
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        for h, state in zip(reversed(ctx.steps), ctx.saved_tensors):
            grad_output = grad_output * (1 - h * state.cos())
        return grad_output, None


# %% repair-dropout_1
"""The generator has moved on when backward uses it: the same object gives the next random numbers, not the same ones, so backward again draws another mask. It must be set back to the seed (or the mask must be saved)."""
WRONG = ["ctx.generator = generator", "keep = draw(grad_output, ctx.p, ctx.generator)"]
RIGHT = ["ctx.seed = seed", "generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)\nkeep = draw(grad_output, ctx.p, generator)"]
NAME = "Dropout"
EXERCISE = "repair-dropout"
# --- code
import torch
from torch.autograd import Function


def draw(x, p, generator=None):
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class Dropout(Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        generator = torch.Generator(x.device).manual_seed(seed)
        ctx.p = p
        ctx.generator = generator
        return x * draw(x, p, generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        keep = draw(grad_output, ctx.p, ctx.generator)
        return grad_output * keep / (1 - ctx.p), None, None


# %% sign-ste_1
"""copysign looks at the sign bit, so it gives -1 for negative zero. The sign of 0 must be +1 for both zeros; a comparison with 0 treats them alike."""
WRONG = ["return torch.copysign(torch.ones_like(x), x)"]
RIGHT = ["return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))"]
NAME = "SignSTE"
EXERCISE = "sign-ste"
# --- code
import torch
from torch.autograd import Function


class SignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.copysign(torch.ones_like(x), x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


# %% clipped-sign_1
"""The gradient itself is clipped to [-1, 1], not the input. The derivative of the surrogate clip(x) is 1 where |x| <= 1 and 0 elsewhere, so backward has to multiply grad_output by this mask, for which x must be saved."""
WRONG = ["pass", "return grad_output.clamp(-1, 1)"]
RIGHT = ["ctx.save_for_backward(*inputs)", "(x,) = ctx.saved_tensors\nreturn grad_output * (x.abs() <= 1)"]
NAME = "ClippedSignSTE"
EXERCISE = "clipped-sign"
# --- code
import torch
from torch.autograd import Function


class ClippedSignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clamp(-1, 1)


# %% ternary-ste_1
"""Two mistakes. torch.sign(0) is 0, so at exactly x = t and x = -t the output is 0.5 and -0.5 instead of 1 and 0; and the threshold enters the second clip with a plus sign, so its gradient is (lower - upper) / 2, not -(lower + upper) / 2."""
WRONG = ["return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2", "grad_threshold = -(grad_output * (upper + lower) / 2).sum()"]
RIGHT = ["return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)", "grad_threshold = (grad_output * (lower - upper) / 2).sum()"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return (torch.sign(x - threshold) + torch.sign(x + threshold)) / 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x.dtype)
        lower = ((x + threshold).abs() <= 1).to(x.dtype)
        grad_x = grad_output * (upper + lower) / 2
        grad_threshold = -(grad_output * (upper + lower) / 2).sum()
        return grad_x, grad_threshold


# %% fake-quantize_1
"""The term -x/s comes from the derivative of clamp(x / s), which is 0 outside the bounds. Clamped elements contribute only their level, low or high, to the gradient of the step, so x/s must be multiplied by the mask."""
WRONG = ["grad_step = (grad_output * (level - v)).sum()"]
RIGHT = ["grad_step = (grad_output * (level - v * inside)).sum()"]
NAME = "FakeQuantize"
EXERCISE = "fake-quantize"
# --- code
import torch
from torch.autograd import Function


class FakeQuantize(Function):
    @staticmethod
    def forward(x, step, low, high):
        return step * torch.round(torch.clamp(x / step, low, high))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, low, high = inputs
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        level = torch.round(v.clamp(ctx.low, ctx.high))
        grad_x = grad_output * inside
        grad_step = (grad_output * (level - v)).sum()
        return grad_x, grad_step, None, None


# %% logsumexp-hessian_1
"""exp(x) / exp(y) overflows for large x, and inf / inf is nan (0 / 0 for very negative x), although forward avoids exactly this. The softmax must be computed as exp(x - y), whose exponent is never positive."""
WRONG = ["softmax = x.exp() / y.exp().unsqueeze(-1)"]
RIGHT = ["softmax = (x - y.unsqueeze(-1)).exp()"]
NAME = "LogSumExp"
EXERCISE = "logsumexp-hessian"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x):
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        softmax = x.exp() / y.exp().unsqueeze(-1)
        return grad_output.unsqueeze(-1) * softmax


# %% hessian-vector-product_1
"""Each gradient is only differentiated with respect to its own input, so only the diagonal blocks of the Hessian are used. The mixed derivatives between different inputs are missing; the inner products with all vectors must be summed first and then differentiated with respect to all inputs."""
WRONG = ["return tuple(product(g, v, (x,))[0] for g, v, x in zip(gradients, vectors, leaves))"]
RIGHT = ["inner = sum((g * v).sum() for g, v in zip(gradients, vectors))\nreturn product(inner, torch.ones_like(inner), leaves)"]
NAME = "hvp"
EXERCISE = "hessian-vector-product"
# --- code
import torch


def product(gradient, vector, leaves):
    if not gradient.requires_grad:
        return tuple(torch.zeros_like(leaf) for leaf in leaves)
    return torch.autograd.grad(
        gradient, leaves, grad_outputs=vector, retain_graph=True, materialize_grads=True
    )


def hvp(f, inputs, vectors):
    leaves = tuple(t.detach().clone().requires_grad_() for t in inputs)
    gradients = torch.autograd.grad(
        f(*leaves), leaves, create_graph=True, materialize_grads=True
    )
    return tuple(product(g, v, (x,))[0] for g, v, x in zip(gradients, vectors, leaves))


# %% gradient-penalty_1
"""The square root has an infinite slope at 0. Where the critic is flat, the chain rule multiplies it by 2 * 0, and the gradient of the parameters is nan; vector_norm defines the slope at 0 as 0."""
WRONG = ["norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()"]
RIGHT = ["norms = torch.linalg.vector_norm(gradient.reshape(len(x), -1), dim=1)"]
NAME = "gradient_penalty"
EXERCISE = "gradient-penalty"
# --- code
import torch


def gradient_penalty(critic, x):
    samples = x.detach().clone().requires_grad_()
    scores = critic(samples)
    (gradient,) = torch.autograd.grad(scores.sum(), samples, create_graph=True)
    norms = gradient.reshape(len(x), -1).square().sum(1).sqrt()
    return (norms - 1).square().mean()
