"""Mistakes of honest attempts at lessons 01 to 05; see benchmarks/repairs.py."""

# %% square_1
"""The output is saved instead of the input, and x is recovered as sqrt(y). The square loses the sign of x, so sqrt(y) is |x| and the gradient has the wrong sign wherever x is negative."""
WRONG = ["ctx.save_for_backward(y)", "(y,) = ctx.saved_tensors", "return 2 * y.sqrt() * grad_output"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return 2 * x * grad_output"]
NAME = "Square"
EXERCISE = "square"
# --- code
import torch
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        y = x**2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return 2 * y.sqrt() * grad_output


# %% scaled-sigmoid_1
"""With sigma = y / gain, the derivative is slope * y * (gain - y) / gain. The division by gain is lost when gain is factored out of (1 - y / gain), so the gradient is too large by the factor gain."""
WRONG = ["return ctx.slope * y * (ctx.gain - y) * grad_output, None, None"]
RIGHT = ["return ctx.slope * y * (ctx.gain - y) / ctx.gain * grad_output, None, None"]
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
        return ctx.slope * y * (ctx.gain - y) * grad_output, None, None


# %% weighted-sum_1
"""The three gradients are right but are returned in the order in which the formula names the variables (w, x, y). backward must return them in the order of the arguments of forward (x, y, w); all shapes agree, so nothing raises."""
WRONG = ["return grad_w, grad_x, grad_y"]
RIGHT = ["return grad_x, grad_y, grad_w"]
NAME = "WeightedSum"
EXERCISE = "weighted-sum"
# --- code
import torch
from torch.autograd import Function


class WeightedSum(Function):
    @staticmethod
    def forward(ctx, x, y, w):
        ctx.save_for_backward(x, y, w)
        return w * x + (1 - w) * y

    @staticmethod
    def backward(ctx, grad_output):
        x, y, w = ctx.saved_tensors
        grad_w = (x - y) * grad_output
        grad_x = w * grad_output
        grad_y = (1 - w) * grad_output
        return grad_w, grad_x, grad_y


# %% clipped-relu_1
"""The mask is computed from the output, which always lies in [0, ceiling], so with >= and <= it is true everywhere and the gradient also passes where the input was clipped. With the output saved, only the strict comparison can tell clipped elements apart (gradient 0 at both kinks)."""
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
"""ctx.needs_input_grad has one entry for each argument that was passed to apply, not for each parameter of forward. If the bias is not given, it has only two entries, and index 2 raises an IndexError in backward."""
WRONG = ["if ctx.needs_input_grad[2]:"]
RIGHT = ["if len(ctx.needs_input_grad) > 2 and ctx.needs_input_grad[2]:"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        y = x @ weight.t()
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_weight = rows.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = None
        if ctx.needs_input_grad[2]:
            grad_bias = rows.sum(0)
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The derivatives of r are x/r and y/r, but those of theta are -y/r**2 and x/r**2. Factoring a common 1/r out of both terms drops one division by r in the theta terms."""
WRONG = ["grad_x = (x * grad_r - y * grad_theta) / r", "grad_y = (y * grad_r + x * grad_theta) / r"]
RIGHT = ["grad_x = (x * grad_r - y / r * grad_theta) / r", "grad_y = (y * grad_r + x / r * grad_theta) / r"]
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
        grad_x = (x * grad_r - y * grad_theta) / r
        grad_y = (y * grad_r + x * grad_theta) / r
        return grad_x, grad_y


# %% repair-cube_1
"""grad_output is inside the parentheses that are squared, so the backward is quadratic in grad_output. A vector-Jacobian product is linear in grad_output: multiply by it once, outside the square."""
WRONG = ["return 3 * (x * grad_output) ** 2"]
RIGHT = ["return 3 * x**2 * grad_output"]
NAME = "Cube"
EXERCISE = "repair-cube"
# --- code
import torch
from torch.autograd import Function


class BrokenCube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2


class Cube(BrokenCube):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * (x * grad_output) ** 2


# %% repair-multiply_1
"""The saved tensors are unpacked in swapped order and the returned products are swapped as well. The two swaps cancel, so x again gets x * grad_output and y gets y * grad_output; the gradient of each factor is the other factor."""
WRONG = ["y, x = ctx.saved_tensors"]
RIGHT = ["x, y = ctx.saved_tensors"]
NAME = "Multiply"
EXERCISE = "repair-multiply"
# --- code
import torch
from torch.autograd import Function


class Multiply(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad_output):
        y, x = ctx.saved_tensors
        return y * grad_output, x * grad_output


# %% repair-mean_1
"""The mean is over the last dimension only, so n is the length of that dimension. ctx.shape.numel() is the number of all elements, so the gradient is too small by the number of rows (right only for a vector)."""
WRONG = ["return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape.numel()"]
RIGHT = ["return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape[-1]"]
NAME = "Mean"
EXERCISE = "repair-mean"
# --- code
import torch
from torch.autograd import Function


class BrokenMean(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.unsqueeze(-1).expand(ctx.shape)


class Mean(BrokenMean):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape.numel()


# %% repair-absolute_1
"""x / |x| is the sign of x except at x = 0, where it is 0/0 = nan. The gradient there must be a number between -1 and 1 times grad_output."""
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
"""backward returns a gradient for the exponent, which is a Python number and not a tensor. Autograd only accepts None for an input that is not a tensor, and raises an error."""
WRONG = ["grad_exponent = (x**p * x.log() * grad_output).sum()"]
RIGHT = ["grad_exponent = None"]
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
        grad_x = p * x ** (p - 1) * grad_output
        grad_exponent = (x**p * x.log() * grad_output).sum()
        return grad_x, grad_exponent


# %% snake_1
"""sin^2(a x) means the square of the sine, but the code takes the sine of the square. The output is wrong; backward follows the given derivative and therefore does not belong to this output."""
WRONG = ["return x + torch.sin((a * x) ** 2) / a"]
RIGHT = ["return x + torch.sin(a * x) ** 2 / a"]
NAME = "Snake"
EXERCISE = "snake"
# --- code
import torch
from torch.autograd import Function


class Snake(Function):
    @staticmethod
    def forward(x, a):
        return x + torch.sin((a * x) ** 2) / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        ctx.save_for_backward(x)
        ctx.a = a

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (1 + torch.sin(2 * ctx.a * x)), None


# %% sort-with-indices_1
"""gather applies the permutation of the sort a second time, but backward needs its inverse: the gradient of values[i] belongs to x[indices[i]], which is a scatter. Both agree only if the permutation is its own inverse, for example a swap of two elements."""
WRONG = ["return grad_values.gather(-1, indices), None"]
RIGHT = ["return torch.zeros_like(grad_values).scatter(-1, indices, grad_values), None"]
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
        return grad_values.gather(-1, indices), None


# %% strided-gain_1
"""The shape of the gradient of x is reconstructed as output length times stride. The output has ceil(n / stride) elements, so this is only n if stride divides n; otherwise the gradient is longer than x. The shape of x has to be stored in setup_context."""
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
        kept = x[..., ::stride]
        if training:
            return gain * kept
        return kept.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        if training:
            saved_x = x if ctx.needs_input_grad[1] else None
            saved_gain = gain if ctx.needs_input_grad[0] else None
            ctx.save_for_backward(saved_x, saved_gain)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x = grad_output.new_zeros(shape)
            grad_x[..., :: ctx.stride] = grad_output * gain if ctx.training else grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = grad_output * x[..., :: ctx.stride]
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""backward scales grad_output in place. Only the input x may be overwritten here; grad_output belongs to the engine and may be shared with another branch of the graph, which then receives the changed gradient."""
WRONG = ["grad_output[output <= 0] *= ctx.slope", "return grad_output, None"]
RIGHT = ["grad_x = torch.where(output > 0, grad_output, ctx.slope * grad_output)", "return grad_x, None"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x, slope):
        x.copy_(torch.where(x > 0, x, slope * x))
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, slope = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(output)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output):
        (output,) = ctx.saved_tensors
        grad_output[output <= 0] *= ctx.slope
        return grad_output, None


# %% frozen-target_1
"""The early exit returns one None, but forward has three inputs, and backward must return one value for each of them. If only the target or the weight requires a gradient, PyTorch raises an error about the number of gradients."""
WRONG = ["return None"]
RIGHT = ["return None, None, None"]
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
        if not ctx.needs_input_grad[0]:
            return None
        prediction, target, weight = ctx.saved_tensors
        grad_prediction = 2 * weight * (prediction - target) / prediction.numel()
        return grad_output * grad_prediction, None, None


# %% gather-rows_1
"""The number of rows of the gradient is guessed from the largest index. Rows at the end of the table that are never read still need a gradient of 0, so the gradient has too few rows; the shape of the table has to be stored."""
WRONG = ["_, index = inputs", "ctx.save_for_backward(index)", "rows = int(index.max()) + 1"]
RIGHT = ["table, index = inputs", "ctx.save_for_backward(index)\nctx.rows = table.shape[0]", "rows = ctx.rows"]
NAME = "GatherRows"
EXERCISE = "gather-rows"
# --- code
import torch
from torch.autograd import Function


class GatherRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, index = inputs
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        rows = int(index.max()) + 1
        width = grad_output.shape[-1]
        grad_table = grad_output.new_zeros(rows, width)
        grad_table.index_add_(0, index.reshape(-1), grad_output.reshape(-1, width))
        return grad_table, None


# %% swish_1
"""The derivative sigma(x) + y (1 - sigma(x)) needs the sigmoid of the input, but only y is saved and the sigmoid is taken of y. x cannot be recovered from y because Swish is not monotonic, so x must be saved."""
WRONG = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors", "s = torch.sigmoid(y)"]
RIGHT = ["ctx.save_for_backward(inputs[0])", "(x,) = ctx.saved_tensors", "s = torch.sigmoid(x)\ny = x * s"]
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
"""The derivative with respect to x is copied from Swish and lacks the inner derivative beta of sigma(beta x). In addition, sum() returns a 0-dim gradient even if beta has the shape (1,)."""
WRONG = ["grad_x = grad_output * (s + x * s * (1 - s))", "grad_beta = (grad_output * x * x * s * (1 - s)).sum()"]
RIGHT = ["grad_x = grad_output * (s + beta * x * s * (1 - s))", "grad_beta = (grad_output * x * x * s * (1 - s)).sum().reshape(beta.shape)"]
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
        x, beta = inputs
        ctx.save_for_backward(x, beta)

    @staticmethod
    def backward(ctx, grad_output):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        grad_x = grad_output * (s + x * s * (1 - s))
        grad_beta = (grad_output * x * x * s * (1 - s)).sum()
        return grad_x, grad_beta


# %% broadcast-multiply_1
"""Broadcasting aligns shapes at the last dimension, but the helper counts the dimensions of length 1 from the front, while the gradient still has its extra leading dimensions. It then sums the wrong dimension whenever the input has fewer dimensions than the output."""
WRONG = ["gradient = gradient.sum(dim, keepdim=True)"]
RIGHT = ["gradient = gradient.sum(dim - len(shape), keepdim=True)"]
NAME = "BroadcastMultiply"
EXERCISE = "broadcast-multiply"
# --- code
import torch
from torch.autograd import Function


def reduce_to(gradient, shape):
    for dim, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(dim, keepdim=True)
    while gradient.dim() > len(shape):
        gradient = gradient.sum(0)
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
"""The count of ties follows the caller's keepdim. It is divided into a tensor that still has dim, so it must always keep that dimension; with keepdim=False it broadcasts along the wrong dimension, and either raises or divides by the counts of other slices."""
WRONG = ["count = ties.sum(ctx.dim, keepdim=ctx.keepdim)"]
RIGHT = ["count = ties.sum(ctx.dim, keepdim=True)"]
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
        x, dim, *rest = inputs
        ctx.save_for_backward(x)
        ctx.dim = dim
        ctx.keepdim = bool(rest and rest[0])

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        ties = x == x.amax(ctx.dim, keepdim=True)
        count = ties.sum(ctx.dim, keepdim=ctx.keepdim)
        if not ctx.keepdim:
            grad_output = grad_output.unsqueeze(ctx.dim)
        return grad_output * ties / count, None, None


# %% soft-rank_1
"""The two unsqueezes are exchanged, so entry (i, j) is x_j - x_i and the sum over j counts the larger numbers instead of the smaller ones. The ranks come out in descending order, while backward (where the sign of the difference does not matter) is that of the ascending ranks."""
WRONG = ["difference = (x.unsqueeze(-2) - x.unsqueeze(-1)) / tau"]
RIGHT = ["difference = (x.unsqueeze(-1) - x.unsqueeze(-2)) / tau"]
NAME = "SoftRank"
EXERCISE = "soft-rank"
# --- code
import torch
from torch.autograd import Function


class SoftRank(Function):
    @staticmethod
    def forward(x, tau):
        difference = (x.unsqueeze(-2) - x.unsqueeze(-1)) / tau
        return 0.5 + torch.sigmoid(difference).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, tau = inputs
        ctx.save_for_backward(x)
        ctx.tau = tau

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid((x.unsqueeze(-1) - x.unsqueeze(-2)) / ctx.tau)
        slope = s * (1 - s) / ctx.tau
        g = grad_output.unsqueeze(-1) - grad_output.unsqueeze(-2)
        return (slope * g).sum(-1), None


# %% gelu_1
"""The density is taken from the derivative of erf at x, exp(-x**2) / sqrt(pi), but the argument of erf is x / sqrt(2). The right density is exp(-x**2 / 2) / sqrt(2 pi)."""
WRONG = ["density = torch.exp(-(x**2)) / math.sqrt(math.pi)"]
RIGHT = ["density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)"]
NAME = "GELU"
EXERCISE = "gelu"
# --- code
import math

import torch
from torch.autograd import Function


class GELU(Function):
    @staticmethod
    def forward(x):
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        share = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        density = torch.exp(-(x**2)) / math.sqrt(math.pi)
        return grad_output * (share + x * density)


# %% repair-share_1
"""The sum now runs over the right dimension, but keepdim=True is lost. The result has one dimension less and is aligned at the last dimension, so for dim=-1 it is subtracted across the wrong dimension (silently for a square matrix, with an error otherwise)."""
WRONG = ["common = (grad_output * x / total).sum(ctx.dim)"]
RIGHT = ["common = (grad_output * x / total).sum(ctx.dim, keepdim=True)"]
NAME = "Share"
EXERCISE = "repair-share"
# --- code
import torch
from torch.autograd import Function


class BrokenShare(Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.dim = dim
        return x / x.sum(dim, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(-1, keepdim=True)
        return (grad_output - common) / total, None


class Share(BrokenShare):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(ctx.dim)
        return (grad_output - common) / total, None


# %% repair-temperature_1
"""The derivative of x / t with respect to t is -x / t**2. The gradient of x, which contains 1 / t, is reused for the temperature and multiplied by -x only, so one division by t is missing."""
WRONG = ["grad_temperature = -(grad_x * x).sum()"]
RIGHT = ["grad_temperature = -(grad_x * x / temperature).sum()"]
NAME = "Tempered"
EXERCISE = "repair-temperature"
# --- code
import torch
from torch.autograd import Function


class Tempered(Function):
    @staticmethod
    def forward(ctx, x, temperature):
        ctx.save_for_backward(x, temperature)
        return torch.tanh(x / temperature)

    @staticmethod
    def backward(ctx, grad_output):
        x, temperature = ctx.saved_tensors
        y = torch.tanh(x / temperature)
        grad_x = grad_output * (1 - y**2) / temperature
        grad_temperature = -(grad_x * x).sum()
        return grad_x, grad_temperature


# %% repair-film_1
"""Only the case of a frozen x is repaired with a placeholder. If gamma is frozen and beta is trained, nothing is appended for gamma, and the gradient of beta moves into the place of gamma; every skipped input needs a None in its own place."""
WRONG = ["if needs[2]:"]
RIGHT = ["if not needs[1]:\n    gradients.append(None)\nif needs[2]:"]
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
        needs = ctx.needs_input_grad
        gradients = []
        gradients.append(grad_output * gamma if needs[0] else None)
        if needs[1]:
            gradients.append((grad_output * x).sum(0))
        if needs[2]:
            gradients.append(grad_output.sum(0))
        return (*gradients, *[None] * (3 - len(gradients)))


# %% repair-floor-log_1
"""detach() does not copy: the detached tensor shares its storage with x, so clamp_ still overwrites the caller's spectrum. The output and the gradient are right, but the silent frames disappear from the input as before."""
WRONG = ["clamped = x.detach().clamp_(min=floor)"]
RIGHT = ["clamped = x.clamp(min=floor)"]
NAME = "FloorLog"
EXERCISE = "repair-floor-log"
# --- code
import torch
from torch.autograd import Function


class FloorLog(Function):
    @staticmethod
    def forward(ctx, x, floor):
        clamped = x.detach().clamp_(min=floor)
        ctx.save_for_backward(clamped)
        ctx.floor = floor
        return clamped.log()

    @staticmethod
    def backward(ctx, grad_output):
        (clamped,) = ctx.saved_tensors
        return torch.where(clamped > ctx.floor, grad_output / clamped, 0), None


# %% repair-distance_1
"""reshape(-1, 1) makes one column of all upstream gradients, which fits x only if x has exactly two dimensions. grad_output has the shape of x without its last dimension, so it needs a new last dimension and must keep all others."""
WRONG = ["upstream = grad_output.reshape(-1, 1)"]
RIGHT = ["upstream = grad_output.unsqueeze(-1)"]
NAME = "Distance"
EXERCISE = "repair-distance"
# --- code
import torch
from torch.autograd import Function


class BrokenDistance(Function):
    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x, target)
        return (x - target).square().sum(-1) / 2

    @staticmethod
    def backward(ctx, grad_output):
        x, target = ctx.saved_tensors
        upstream = grad_output.reshape(-1)[0]
        return (x - target) * upstream, (target - x) * upstream


class Distance(BrokenDistance):
    @staticmethod
    def backward(ctx, grad_output):
        x, target = ctx.saved_tensors
        upstream = grad_output.reshape(-1, 1)
        return (x - target) * upstream, (target - x) * upstream


# %% repair-rotation_1
"""contiguous() returns a new tensor and does not change grad_output. Its result is thrown away, so as_strided still reads the numbers in the order of the storage, which is wrong for a transposed grad_output."""
WRONG = ["grad_output.contiguous()"]
RIGHT = ["grad_output = grad_output.contiguous()"]
NAME = "Rotate"
EXERCISE = "repair-rotation"
# --- code
import math

import torch
from torch.autograd import Function


def turn(like, angle):
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class BrokenRotate(Function):
    @staticmethod
    def forward(ctx, x, angle):
        ctx.angle = angle
        return x @ turn(x, angle)

    @staticmethod
    def backward(ctx, grad_output):
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


class Rotate(BrokenRotate):
    @staticmethod
    def backward(ctx, grad_output):
        grad_output.contiguous()
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None


# %% repair-color-table_1
"""The repeated indices now add up, but the gradient is still built in the default dtype float32, and the contributions are rounded to float32 to make index_add_ accept them. For a float64 table, backward returns a gradient of the wrong dtype and precision."""
WRONG = ["grad_table = torch.zeros(len(table))", "grad_table.index_add_(0, index, ((1 - fraction) * grad_output).float())", "grad_table.index_add_(0, index + 1, (fraction * grad_output).float())"]
RIGHT = ["grad_table = torch.zeros_like(table)", "grad_table.index_add_(0, index, (1 - fraction) * grad_output)", "grad_table.index_add_(0, index + 1, fraction * grad_output)"]
NAME = "LookUp"
EXERCISE = "repair-color-table"
# --- code
import torch
from torch.autograd import Function


class LookUp(Function):
    @staticmethod
    def forward(ctx, table, index, fraction):
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]

    @staticmethod
    def backward(ctx, grad_output):
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros(len(table))
        grad_table.index_add_(0, index, ((1 - fraction) * grad_output).float())
        grad_table.index_add_(0, index + 1, (fraction * grad_output).float())
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


# %% repair-log-cosh_1
"""Only the overflow for large positive x is repaired. For large negative x, exp(-2 x) overflows to inf, and (1 - inf) / (1 + inf) is nan; the exponent must never be positive, so it needs |x| and the sign outside (or tanh)."""
WRONG = ["small = (-2 * x).exp()", "return grad_output * (1 - small) / (1 + small)"]
RIGHT = ["small = (-2 * x.abs()).exp()", "return grad_output * x.sign() * (1 - small) / (1 + small)"]
NAME = "LogCosh"
EXERCISE = "repair-log-cosh"
# --- code
import math

import torch
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
        small = (-2 * x).exp()
        return grad_output * (1 - small) / (1 + small)


# %% repair-softsign_1
"""The output is still an attribute of ctx, which forms a reference cycle; clearing it in backward only hides the leak. A graph that is never differentiated still leaks, and a second backward on a retained graph finds None. save_for_backward stores the output without a cycle."""
WRONG = ["ctx.y = y", "y, ctx.y = ctx.y, None"]
RIGHT = ["ctx.save_for_backward(y)", "(y,) = ctx.saved_tensors"]
NAME = "Softsign"
EXERCISE = "repair-softsign"
# --- code
import torch
from torch.autograd import Function


class Softsign(Function):
    @staticmethod
    def forward(ctx, x):
        y = x / (1 + x.abs())
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, ctx.y = ctx.y, None
        return grad_output * (1 - y.abs()) ** 2


# %% repair-solver_1
"""The states are reversed, but the steps are not, so each state is combined with the step of another iteration. It only works if all steps are equal or the sequence of steps is symmetric."""
WRONG = ["for state, h in zip(reversed(states), ctx.steps):"]
RIGHT = ["for state, h in zip(reversed(states), reversed(ctx.steps)):"]
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
        states = ctx.saved_tensors
        for state, h in zip(reversed(states), ctx.steps):
            grad_output = grad_output * (1 - h * state.cos())
        return grad_output, None


# %% repair-rms-norm_1
"""The output y is now saved, which autograd can track, but r is still an intermediate of forward that was saved without a graph. The second derivative therefore treats r as a constant; r must be recomputed from the saved x in backward."""
WRONG = ["ctx.save_for_backward(y, r)", "y, r = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x, y)", "x, y = ctx.saved_tensors\nr = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()"]
NAME = "RMSNorm"
EXERCISE = "repair-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x):
        r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        y = x * r
        ctx.save_for_backward(y, r)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, r = ctx.saved_tensors
        return r * (grad_output - y * (grad_output * y).mean(-1, keepdim=True))


# %% repair-dropout_1
"""backward draws from the generator that forward has already used. Its state has advanced, so it draws a different mask; the generator must be seeded again (or the mask saved)."""
WRONG = ["generator = ctx.generator"]
RIGHT = ["generator = ctx.generator.manual_seed(ctx.seed)"]
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
        ctx.p = p
        ctx.seed = seed
        ctx.generator = torch.Generator(x.device).manual_seed(seed)
        return x * draw(x, p, ctx.generator) / (1 - p)

    @staticmethod
    def backward(ctx, grad_output):
        generator = ctx.generator
        mask = draw(grad_output, ctx.p, generator)
        return grad_output * mask / (1 - ctx.p), None, None


# %% sign-ste_1
"""torch.where with two Python numbers returns the default dtype float32, whatever the dtype of x. The output must have the dtype of x, so the two values have to be made from x."""
WRONG = ["return torch.where(x >= 0, 1.0, -1.0)"]
RIGHT = ["return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)"]
NAME = "SignSTE"
EXERCISE = "sign-ste"
# --- code
import torch
from torch.autograd import Function


class SignSTE(Function):
    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clone()


# %% clipped-sign_1
"""grad_output is multiplied by the value of the surrogate, clip(x), instead of its derivative. The derivative of the clip is 1 inside [-1, 1] and 0 outside, so the gradient is scaled by x inside and does not stop outside."""
WRONG = ["return grad_output * x.clamp(-1, 1)"]
RIGHT = ["return grad_output * (x.abs() <= 1)"]
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
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.clamp(-1, 1)


# %% ternary-ste_1
"""The windows of the two clips are joined with a logical or. Each clip contributes one half to the slope, so where the windows overlap the slope is 1; the masks must be added, not joined."""
WRONG = ["grad_x = grad_output * 0.5 * (upper | lower)"]
RIGHT = ["grad_x = grad_output * 0.5 * (upper.to(x.dtype) + lower.to(x.dtype))"]
NAME = "TernarySTE"
EXERCISE = "ternary-ste"
# --- code
import torch
from torch.autograd import Function


class TernarySTE(Function):
    @staticmethod
    def forward(x, threshold):
        return (x >= threshold).to(x.dtype) - (x < -threshold).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, threshold = ctx.saved_tensors
        upper = (x - threshold).abs() <= 1
        lower = (x + threshold).abs() <= 1
        grad_x = grad_output * 0.5 * (upper | lower)
        grad_threshold = (grad_output * 0.5 * (lower.to(x.dtype) - upper.to(x.dtype))).sum()
        return grad_x, grad_threshold


# %% round-ste_1
"""floor(v + 0.5) always rounds a half up, but torch.round rounds it to the even neighbor. Numbers exactly halfway between two grid points land on the wrong one, for example 0.5 steps on 1 instead of 0."""
WRONG = ["return step * torch.floor(x / step + 0.5)"]
RIGHT = ["return step * torch.round(x / step)"]
NAME = "RoundSTE"
EXERCISE = "round-ste"
# --- code
import torch
from torch.autograd import Function


class RoundSTE(Function):
    @staticmethod
    def forward(x, step):
        return step * torch.floor(x / step + 0.5)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.clone(), None


# %% fake-quantize_1
"""The derivative with respect to the step subtracts the clamped quotient everywhere. Where the clamp is active, its derivative is 0 and only the rounded level remains (low or high), but here level - clamped is 0, so clipped elements contribute nothing to the gradient of the step."""
WRONG = ["grad_step = (grad_output * (level - clamped)).sum()"]
RIGHT = ["grad_step = (grad_output * (level - clamped * inside)).sum()"]
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
        ctx.low = low
        ctx.high = high

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        ratio = x / step
        inside = (ratio >= ctx.low) & (ratio <= ctx.high)
        clamped = ratio.clamp(ctx.low, ctx.high)
        level = torch.round(clamped)
        grad_x = grad_output * inside
        grad_step = (grad_output * (level - clamped)).sum()
        return grad_x, grad_step, None, None
