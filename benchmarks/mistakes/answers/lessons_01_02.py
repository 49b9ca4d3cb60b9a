"""Mistakes of learners in lessons 01 and 02; see benchmarks/repairs.py."""

# %% square_1
"""ctx.saved_tensors is always a tuple, even for one tensor. Without unpacking, x is that tuple, so 2 * x repeats the tuple instead of doubling the tensor, and backward raises an error."""
WRONG = ["x = ctx.saved_tensors"]
RIGHT = ["(x,) = ctx.saved_tensors"]
NAME = "Square"
EXERCISE = "square"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x = ctx.saved_tensors
        return 2 * x * grad_output


# %% scaled-sigmoid_1
"""The formula y * (1 - y) holds only for the plain sigmoid. Here y contains the factor gain, so the sigmoid itself is y / gain and the second factor must be 1 - y / gain."""
WRONG = ["return grad_output * ctx.slope * y * (1 - y), None, None"]
RIGHT = ["return grad_output * ctx.slope * y * (1 - y / ctx.gain), None, None"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: float, slope: float) -> Tensor:
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        return grad_output * ctx.slope * y * (1 - y), None, None


# %% scaled-sigmoid_2
"""The gradient is right, but the intermediate sigmoid is saved instead of the output y. That tensor is kept alive only for this backward and costs additional memory, so the constraint to save nothing but y is broken."""
WRONG = ["ctx.save_for_backward(s)", "(s,) = ctx.saved_tensors", "grad_x = grad_output * ctx.gain * ctx.slope * s * (1 - s)"]
RIGHT = ["ctx.save_for_backward(y)", "(y,) = ctx.saved_tensors", "grad_x = grad_output * ctx.slope * y * (1 - y / ctx.gain)"]
NAME = "ScaledSigmoid"
EXERCISE = "scaled-sigmoid"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: float, slope: float) -> Tensor:
        s = torch.sigmoid(slope * x)
        y = gain * s
        ctx.save_for_backward(s)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (s,) = ctx.saved_tensors
        grad_x = grad_output * ctx.gain * ctx.slope * s * (1 - s)
        return grad_x, None, None


# %% weighted-sum_1
"""w occurs in both terms of the sum, so its derivative is x - y. The gradient for w counts only the term w * x and misses -y from (1 - w) * y."""
WRONG = ["grad_w = x * grad_output"]
RIGHT = ["grad_w = (x - y) * grad_output"]
NAME = "WeightedSum"
EXERCISE = "weighted-sum"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class WeightedSum(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, w)
        return w * x + (1 - w) * y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, y, w = ctx.saved_tensors
        grad_x = w * grad_output
        grad_y = (1 - w) * grad_output
        grad_w = x * grad_output
        return grad_x, grad_y, grad_w


# %% clipped-relu_1
"""The two comparisons treat the kinks differently: the gradient is 0 at x = 0 but 1 at x = ceiling, because one comparison is strict and the other is not. The convention must be the same at both kinks."""
WRONG = ["inside = (x > 0) & (x <= ctx.ceiling)"]
RIGHT = ["inside = (x > 0) & (x < ctx.ceiling)"]
NAME = "ClippedReLU"
EXERCISE = "clipped-relu"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x: Tensor, ceiling: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.ceiling = ceiling
        return x.clamp(0, ceiling)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        inside = (x > 0) & (x <= ctx.ceiling)
        return grad_output * inside, None


# %% clipped-relu_2
"""The mask is computed from the clipped output, which always lies in [0, ceiling]. With >= and <= it is true everywhere, so clipped elements also pass the gradient on; from the output only strict comparisons can tell where the input was clipped."""
WRONG = ["inside = (y >= 0) & (y <= ctx.ceiling)"]
RIGHT = ["inside = (y > 0) & (y < ctx.ceiling)"]
NAME = "ClippedReLU"
EXERCISE = "clipped-relu"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x: Tensor, ceiling: float) -> Tensor:
        y = torch.clamp(x, min=0, max=ceiling)
        ctx.save_for_backward(y)
        ctx.ceiling = ceiling
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        inside = (y >= 0) & (y <= ctx.ceiling)
        return torch.where(inside, grad_output, torch.zeros_like(grad_output)), None


# %% linear_1
"""The bias is shared by all leading dimensions, so its gradient must be summed over all of them. sum(0) sums over the first dimension only: that is right for a matrix, but wrong if x has more leading dimensions (the result has too many dimensions) or none (it sums over the output features)."""
WRONG = ["grad_bias = grad_output.sum(0) if ctx.has_bias else None"]
RIGHT = ["grad_bias = rows_g.sum(0) if ctx.has_bias else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.T
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows_x = x.reshape(-1, x.shape[-1])
        rows_g = grad_output.reshape(-1, grad_output.shape[-1])
        grad_x = grad_output @ weight
        grad_weight = rows_g.T @ rows_x
        grad_bias = grad_output.sum(0) if ctx.has_bias else None
        return grad_x, grad_weight, grad_bias


# %% linear_2
"""The factors of the weight gradient are in the wrong order: x^T g has the shape (in, out), which is the transpose of the gradient. The weight has the shape (out, in), so the product must be g^T x."""
WRONG = ["grad_weight = x.T @ g"]
RIGHT = ["grad_weight = g.T @ x"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        output = x @ weight.T
        return output if bias is None else output + bias

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        out_features, in_features = weight.shape
        grad_x = grad_output @ weight
        x = x.reshape(-1, in_features)
        g = grad_output.reshape(-1, out_features)
        grad_weight = x.T @ g
        grad_bias = None
        if ctx.has_bias:
            grad_bias = g.sum(dim=0)
        return grad_x, grad_weight, grad_bias


# %% linear_3
"""backward returns a bias gradient even if there is no bias. If the caller passes no bias, backward must return None in its place. Otherwise autograd raises an error."""
WRONG = ["ctx.save_for_backward(x, weight)", "grad_bias = g.sum(0)"]
RIGHT = ["ctx.save_for_backward(x, weight)\nctx.has_bias = bias is not None", "grad_bias = g.sum(0) if ctx.has_bias else None"]
NAME = "Linear"
EXERCISE = "linear"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Linear(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = x @ weight.T
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        g = grad_output.reshape(-1, weight.shape[0])
        grad_x = grad_output @ weight
        grad_weight = g.T @ x.reshape(-1, weight.shape[1])
        grad_bias = g.sum(0)
        return grad_x, grad_weight, grad_bias


# %% to-polar_1
"""The derivatives of atan2(y, x) are -y / (x^2 + y^2) and x / (x^2 + y^2), so the denominator is r squared. The code divides by r, as in the derivatives of r itself."""
WRONG = ["grad_x = x / r * grad_r - y / r * grad_theta", "grad_y = y / r * grad_r + x / r * grad_theta"]
RIGHT = ["grad_x = x / r * grad_r - y / r**2 * grad_theta", "grad_y = y / r * grad_r + x / r**2 * grad_theta"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r = torch.hypot(x, y)
        theta = torch.atan2(y, x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        x, y, r = ctx.saved_tensors
        grad_x = x / r * grad_r - y / r * grad_theta
        grad_y = y / r * grad_r + x / r * grad_theta
        return grad_x, grad_y


# %% to-polar_2
"""The derivative of theta with respect to x has the wrong sign. The inner derivative of y / x with respect to x is -y / x^2, so dtheta/dx is -y / (x^2 + y^2)."""
WRONG = ["dtheta_dx = y / (x**2 + y**2)"]
RIGHT = ["dtheta_dx = -y / (x**2 + y**2)"]
NAME = "ToPolar"
EXERCISE = "to-polar"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class ToPolar(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        r = torch.hypot(x, y)
        dr_dx = x / r
        dr_dy = y / r
        dtheta_dx = y / (x**2 + y**2)
        dtheta_dy = x / (x**2 + y**2)
        grad_x = dr_dx * grad_r + dtheta_dx * grad_theta
        grad_y = dr_dy * grad_r + dtheta_dy * grad_theta
        return grad_x, grad_y


# %% repair-cube_1
"""The incoming gradient is added to the derivative instead of multiplied by it. By the chain rule, the gradient is the product of the local derivative 3 x^2 and grad_output."""
WRONG = ["return 3 * x**2 + grad_output"]
RIGHT = ["return 3 * x**2 * grad_output"]
NAME = "Cube"
EXERCISE = "repair-cube"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class BrokenCube(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2


class Cube(BrokenCube):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 + grad_output


# %% repair-multiply_1
"""Only the first gradient was repaired. The derivative of x * y with respect to y is x, but the second gradient still multiplies grad_output by y."""
WRONG = ["return y * grad_output, y * grad_output"]
RIGHT = ["return y * grad_output, x * grad_output"]
NAME = "Multiply"
EXERCISE = "repair-multiply"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class BrokenMultiply(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return x * grad_output, y * grad_output


class Multiply(BrokenMultiply):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return y * grad_output, y * grad_output


# %% repair-mean_1
"""The mean runs over the last dimension only, so n is the size of that dimension. The code divides by the number of all elements of x, which is too much as soon as x has more than one row."""
WRONG = ["n = ctx.shape.numel()"]
RIGHT = ["n = ctx.shape[-1]"]
NAME = "Mean"
EXERCISE = "repair-mean"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class BrokenMean(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output.unsqueeze(-1).expand(ctx.shape)


class Mean(BrokenMean):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        n = ctx.shape.numel()
        return grad_output.unsqueeze(-1).expand(ctx.shape) / n


# %% repair-absolute_1
"""x / |x| is the sign of x only for x != 0. At x = 0 it is 0 / 0, so the gradient is nan instead of a slope from -1 to 1."""
WRONG = ["return grad_output * x / x.abs()"]
RIGHT = ["return grad_output * x.sign()"]
NAME = "Absolute"
EXERCISE = "repair-absolute"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class BrokenAbsolute(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (x > 0)


class Absolute(BrokenAbsolute):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * x / x.abs()


# %% repair-power_1
"""backward returns a tensor as the gradient of the exponent. The exponent is a Python number, not a tensor, so its place must hold None, and autograd raises an error otherwise."""
WRONG = ["return grad_x, x**ctx.exponent * torch.log(x) * grad_output"]
RIGHT = ["return grad_x, None"]
NAME = "Power"
EXERCISE = "repair-power"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class BrokenPower(Function):
    @staticmethod
    def forward(ctx, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return ctx.exponent * x ** (ctx.exponent - 1) * grad_output


class Power(BrokenPower):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        grad_x = ctx.exponent * x ** (ctx.exponent - 1) * grad_output
        return grad_x, x**ctx.exponent * torch.log(x) * grad_output


# %% snake_1
"""Parentheses are missing: only the sine is multiplied by grad_output, and the 1 is added without it. The whole derivative 1 + sin(2 a x) must be multiplied by grad_output."""
WRONG = ["grad_x = 1 + torch.sin(2 * ctx.a * x) * grad_output"]
RIGHT = ["grad_x = (1 + torch.sin(2 * ctx.a * x)) * grad_output"]
NAME = "Snake"
EXERCISE = "snake"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Snake(Function):
    @staticmethod
    def forward(x: Tensor, a: float) -> Tensor:
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, a = inputs
        ctx.save_for_backward(x)
        ctx.a = a

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        grad_x = 1 + torch.sin(2 * ctx.a * x) * grad_output
        return grad_x, None


# %% snake_2
"""save_for_backward accepts only tensors (or None), but a is a Python number, so the call raises an error. Numbers are stored as attributes of ctx."""
WRONG = ["ctx.save_for_backward(x, a)", "x, a = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(x)\nctx.a = a", "(x,) = ctx.saved_tensors\na = ctx.a"]
NAME = "Snake"
EXERCISE = "snake"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Snake(Function):
    @staticmethod
    def forward(x: Tensor, a: float) -> Tensor:
        return x + torch.sin(a * x).square() / a

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, a = inputs
        ctx.save_for_backward(x, a)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x, a = ctx.saved_tensors
        return grad_output * (1 + torch.sin(2 * a * x)), None


# %% sort-with-indices_1
"""gather applies the sorting permutation a second time instead of undoing it. values_i came from position indices_i, so grad_values_i must be written to that position, which is a scatter."""
WRONG = ["grad_x = grad_values.gather(-1, indices)"]
RIGHT = ["grad_x = torch.zeros_like(grad_values).scatter(-1, indices, grad_values)"]
NAME = "SortWithIndices"
EXERCISE = "sort-with-indices"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SortWithIndices(Function):
    @staticmethod
    def forward(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, bool], output: tuple[Tensor, Tensor]) -> None:
        values, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        grad_x = grad_values.gather(-1, indices)
        return grad_x, None


# %% strided-gain_1
"""When training is False, forward returns a slice, which is a view of x. The output must be a new tensor, because PyTorch does not allow the caller to change a view from a Function in place."""
WRONG = ["return kept"]
RIGHT = ["return kept.clone()"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        kept = x[..., ::stride]
        if training:
            return gain * kept
        return kept

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        x, gain, stride, training = inputs
        ctx.shape = x.shape
        ctx.stride = stride
        ctx.training = training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
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
"""The length of the last dimension is reconstructed as the output length times stride. That is too long whenever the length of x is not a multiple of stride, so the gradient does not have the shape of x; the shape of x itself must be stored."""
WRONG = ["ctx.stride = stride", "shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)"]
RIGHT = ["ctx.stride = stride\nctx.shape = x.shape", "shape = ctx.shape"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        if training:
            return gain * x[..., ::stride]
        return x[..., ::stride].clone()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        x, gain, stride, training = inputs
        ctx.stride = stride
        ctx.training = training
        if training:
            ctx.save_for_backward(x, gain)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad_x, grad_gain = None, None
        if ctx.training:
            x, gain = ctx.saved_tensors
        if ctx.needs_input_grad[0]:
            shape = (*grad_output.shape[:-1], grad_output.shape[-1] * ctx.stride)
            grad_x = torch.zeros(shape, dtype=grad_output.dtype, device=grad_output.device)
            if ctx.training:
                grad_x[..., :: ctx.stride] = gain * grad_output
            else:
                grad_x[..., :: ctx.stride] = grad_output
        if ctx.needs_input_grad[1] and ctx.training:
            grad_gain = x[..., :: ctx.stride] * grad_output
        return grad_x, grad_gain, None, None


# %% strided-gain_3
"""torch.zeros without a dtype creates float32 zeros on the CPU. Writing a float64 gradient into them rounds it, and the returned gradient does not have the dtype of x."""
WRONG = ["grad_x = torch.zeros(ctx.shape)"]
RIGHT = ["grad_x = torch.zeros(ctx.shape, dtype=grad_output.dtype, device=grad_output.device)"]
NAME = "StridedGain"
EXERCISE = "strided-gain"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class StridedGain(Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        y = x[..., ::stride].clone()
        if training:
            y = gain * y
        return y

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        x, gain, stride, training = inputs
        if training:
            ctx.save_for_backward(x, gain)
        ctx.shape = x.shape
        ctx.stride = stride
        ctx.training = training

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        grad_x = None
        grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
            if ctx.needs_input_grad[1]:
                grad_gain = grad_output * x[..., :: ctx.stride]
        if ctx.needs_input_grad[0]:
            grad_kept = grad_output * gain if ctx.training else grad_output
            grad_x = torch.zeros(ctx.shape)
            grad_x[..., :: ctx.stride] = grad_kept
        return grad_x, grad_gain, None, None


# %% leaky-relu-in-place_1
"""forward overwrites and returns x, but the code does not tell autograd with ctx.mark_dirty(x). Autograd then treats the output as an input that is passed through unchanged and not as the new value of x, so backward cannot unpack the saved output and raises an error."""
WRONG = ["ctx.save_for_backward(output)"]
RIGHT = ["ctx.mark_dirty(x)\nctx.save_for_backward(output)"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x: Tensor, slope: float) -> Tensor:
        x.copy_(torch.where(x > 0, x, slope * x))
        return x

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, slope = inputs
        ctx.slope = slope
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None


# %% leaky-relu-in-place_2
"""For elements that are not positive, backward returns the slope itself instead of the slope times grad_output. The chain rule needs the factor grad_output in both branches."""
WRONG = ["grad_x = torch.where(y > 0, grad_output, ctx.slope)"]
RIGHT = ["grad_x = torch.where(y > 0, grad_output, ctx.slope * grad_output)"]
NAME = "LeakyReLUInPlace"
EXERCISE = "leaky-relu-in-place"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x: Tensor, slope: float) -> Tensor:
        x[x <= 0] *= slope
        return x

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        x, slope = inputs
        ctx.mark_dirty(x)
        ctx.save_for_backward(output)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        grad_x = torch.where(y > 0, grad_output, ctx.slope)
        return grad_x, None


# %% frozen-target_1
"""The loss is the mean over all N elements, but the gradient divides by the size of the first dimension only. That agrees with N for vectors and is too large a gradient for matrices; a single number has no first dimension at all."""
WRONG = ["n = prediction.shape[0]"]
RIGHT = ["n = prediction.numel()"]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        prediction, target, weight = inputs
        ctx.save_for_backward(prediction, target, weight)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        n = prediction.shape[0]
        grad_prediction = 2 / n * weight * (prediction - target) * grad_output
        return grad_prediction, None, None


# %% frozen-target_2
"""backward never looks at ctx.needs_input_grad, so it computes the gradient of the prediction even if the prediction requires none (for example if only the target requires a gradient). The constraint says that it computes nothing then."""
WRONG = ["prediction, target, weight = ctx.saved_tensors"]
RIGHT = ["if not ctx.needs_input_grad[0]:\n    return None, None, None\nprediction, target, weight = ctx.saved_tensors"]
NAME = "FrozenTargetLoss"
EXERCISE = "frozen-target"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return torch.mean(weight * (prediction - target).square())

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        prediction, target, weight = ctx.saved_tensors
        grad_prediction = 2 * weight * (prediction - target) / prediction.numel() * grad_output
        return grad_prediction, None, None
