"""Mistakes in the template and in the rules of ctx. Each cell is a separate module; see benchmarks/repairs.py."""

# %% clipped-relu_1
"""Builds the mask from the output, which lies between 0 and ceiling everywhere, so that the clipped elements get a gradient too; the author believed the output shows where the input was inside."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(output)"]
RIGHT = ["ctx.save_for_backward(inputs[0])"]
EXERCISE = "clipped-relu"
NAME = "ClippedReLU"
# --- code
import torch


def inside(t, ceiling):
    """1 on the closed interval [0, ceiling], edges included."""
    return (t >= 0) & (t <= ceiling)


class ClippedReLU(torch.autograd.Function):
    @staticmethod
    def forward(x, ceiling):
        return x.clamp(0, ceiling)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.ceiling = inputs[1]
        # like for ReLU, the output is enough to know which elements passed
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (t,) = ctx.saved_tensors
        return grad_output * inside(t, ctx.ceiling), None

# %% clipped-relu_2
"""Two: the upper edge is excluded, as the author writes intervals half-open out of habit; and the buffer for the gradient has the default dtype instead of the input's, which only float32 tests let pass."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["passed = (x >= 0) & (x < ctx.ceiling)", "grad_x = torch.zeros(x.shape)"]
RIGHT = ["passed = (x >= 0) & (x <= ctx.ceiling)", "grad_x = torch.zeros_like(x)"]
EXERCISE = "clipped-relu"
NAME = "ClippedReLU"
# --- code
import torch
from torch import Tensor


class ClippedReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, ceiling: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.ceiling = ceiling
        return torch.clamp(x, min=0.0, max=ceiling)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        passed = (x >= 0) & (x < ctx.ceiling)
        # start from nothing and let through what was not clipped
        grad_x = torch.zeros(x.shape)
        grad_x[passed] = grad_output[passed]
        return grad_x, None

# %% frozen-target_1
"""Returns minus the gradient for the target as well; the author believed that the detach inside forward already stops whatever backward returns for it."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad, -grad, None"]
RIGHT = ["return grad, None, None"]
EXERCISE = "frozen-target"
NAME = "FrozenTargetLoss"
# --- code
import torch
from torch.autograd import Function


class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction, target, weight):
        # bootstrap: the target is a constant for this loss
        target = target.detach()
        return (weight * (prediction - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if not ctx.needs_input_grad[0]:
            return None, None, None
        prediction, target, weight = ctx.saved_tensors
        grad = 2 * weight * (prediction - target) * grad_output / prediction.numel()
        # p - t: what p gets, t gets with the opposite sign (detached above)
        return grad, -grad, None

# %% frozen-target_2
"""Takes grad_output out as a Python number because the loss is a scalar; first derivatives are right, but the second derivative no longer knows of grad_output."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["scale = 2 * grad_output.item() / prediction.numel()"]
RIGHT = ["scale = 2 * grad_output / prediction.numel()"]
EXERCISE = "frozen-target"
NAME = "FrozenTargetLoss"
# --- code
import torch
from torch import Tensor


class FrozenTargetLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(prediction, target, weight)
        error = prediction - target
        return torch.sum(weight * error * error) / prediction.numel()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        grad_prediction = None
        if ctx.needs_input_grad[0]:
            prediction, target, weight = ctx.saved_tensors
            # a loss is one number, and so is its gradient
            scale = 2 * grad_output.item() / prediction.numel()
            grad_prediction = scale * weight * (prediction - target)
        return grad_prediction, None, None

# %% leaky-relu-in-place_1
"""Does not call mark_dirty; the author believed that autograd notices the in-place change by itself, through the tensor's version counter."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = []
RIGHT = ["ctx.mark_dirty(x)"]
EXERCISE = "leaky-relu-in-place"
NAME = "LeakyReLUInPlace"
# --- code
import torch
from torch import Tensor


class LeakyReLUInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        # mul_ on the negative part; autograd follows in-place changes by the version counter
        x.mul_(torch.where(x > 0, torch.ones_like(x), torch.full_like(x, slope)))
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        # slope > 0, so the output has the sign of the input
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None

# %% leaky-relu-in-place_2
"""Assigns the result to the name x instead of writing it into the tensor x, and marks this new tensor as dirty; the author took the assignment for overwriting."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["x = torch.where(x > 0, x, slope * x)"]
RIGHT = ["x.copy_(torch.where(x > 0, x, slope * x))"]
EXERCISE = "leaky-relu-in-place"
NAME = "LeakyReLUInPlace"
# --- code
import torch
from torch.autograd import Function


class LeakyReLUInPlace(Function):
    """x <- leaky_relu(x)"""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        x = torch.where(x > 0, x, slope * x)
        ctx.mark_dirty(x)  # x was overwritten
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        y = ctx.saved_tensors[0]
        factor = torch.ones_like(y)
        factor[y <= 0] = ctx.slope
        return grad_output * factor, None

# %% linear_1
"""Forms the gradient of the weight as a batched product, which keeps the leading axes instead of summing over them and does not exist for a vector x; the author took transpose(-2, -1) for the general form of .t()."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_weight = grad_output.transpose(-2, -1) @ x"]
RIGHT = ["grad_weight = grad_output.reshape(-1, weight.shape[0]).t() @ x.reshape(-1, weight.shape[1])"]
EXERCISE = "linear"
NAME = "Linear"
# --- code
import torch


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        if bias is not None:
            y = y + bias
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors

        # (..., out) @ (out, in) -> (..., in)
        grad_x = grad_output @ weight

        # (..., out, n) @ (..., n, in) -> (out, in), with any leading axes
        grad_weight = grad_output.transpose(-2, -1) @ x

        grad_bias = None
        if ctx.has_bias:
            # the bias is added to every row, so add up all rows
            grad_bias = grad_output.reshape(-1, weight.shape[0]).sum(0)

        return grad_x, grad_weight, grad_bias

# %% linear_2
"""Two: the bias gets the mean over the rows instead of their sum, as the author thinks of gradients as batch averages; and without a bias backward returns only two values, as if no bias meant no third place."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_x, grad_w", "return grad_x, grad_w, g.mean(dim=0)"]
RIGHT = ["return grad_x, grad_w, None", "return grad_x, grad_w, g.sum(dim=0)"]
EXERCISE = "linear"
NAME = "Linear"
# --- code
import torch
from torch.autograd import Function


def _rows(t):
    """Merge all leading axes into one."""
    return t.reshape(-1, t.shape[-1])


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, bias = ctx.saved_tensors
        g = _rows(grad_output)
        grad_x = (g @ weight).reshape(x.shape)
        grad_w = g.t() @ _rows(x)
        if bias is None:
            return grad_x, grad_w
        return grad_x, grad_w, g.mean(dim=0)

# %% repair-absolute_1
"""Writes the sign as x / |x|, which is NaN at 0 where any slope from -1 to 1 would do; the author read 'any slope is accepted' as 'zero needs no care'."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_output * x / x.abs()"]
RIGHT = ["return grad_output * x.sign()"]
EXERCISE = "repair-absolute"
NAME = "Absolute"
# --- code
import torch


class BrokenAbsolute(torch.autograd.Function):
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
        # |x|' = x / |x|: +1 on the right, -1 on the left
        return grad_output * x / x.abs()

# %% repair-cube_1
"""Lets autograd do the work inside backward, against the constraint that backward is a formula, and thereby cuts off the second derivative; the author believed a nested torch.autograd.grad to be the safest derivative of all."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = [
    "with torch.enable_grad():",
    "x = x.detach().requires_grad_()",
    "y = x**3",
    "(grad_x,) = torch.autograd.grad(y, x, grad_output)",
    "return grad_x",
]
RIGHT = ["return 3 * x**2 * grad_output"]
EXERCISE = "repair-cube"
NAME = "Cube"
# --- code
import torch
from torch import Tensor


class BrokenCube(torch.autograd.Function):
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
        # backward runs without grad mode, so switch it on and differentiate the cube
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = x**3
        (grad_x,) = torch.autograd.grad(y, x, grad_output)
        return grad_x

# %% repair-mean_1
"""Divides by the length of the first axis although the mean goes over the last; the author thought of n as the number of samples, and a vector cannot tell the two apart."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["n = ctx.shape[0]"]
RIGHT = ["n = ctx.shape[-1]"]
EXERCISE = "repair-mean"
NAME = "Mean"
# --- code
import torch
from torch import Tensor


class BrokenMean(torch.autograd.Function):
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
        n = ctx.shape[0]
        return (grad_output / n).unsqueeze(-1).expand(ctx.shape)

# %% repair-multiply_1
"""Multiplies grad_output in place for the first gradient and then uses it again for the second, which so has a factor y too much; the author took mul_ for a cheaper mul on a tensor that is backward's own."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_x = grad_output.mul_(y)"]
RIGHT = ["grad_x = grad_output * y"]
EXERCISE = "repair-multiply"
NAME = "Multiply"
# --- code
import torch
from torch import Tensor


class BrokenMultiply(torch.autograd.Function):
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
        # dz/dx = y and dz/dy = x: they were swapped
        grad_x = grad_output.mul_(y)
        grad_y = grad_output * x
        return grad_x, grad_y

# %% repair-power_1
"""Returns a gradient for the exponent, a Python number, which autograd refuses; the author knew that two values are due and took the second to be the derivative with respect to p."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["grad_exponent = (x**p * x.log() * grad_output).sum()", "return grad_x, grad_exponent"]
RIGHT = ["return grad_x, None"]
EXERCISE = "repair-power"
NAME = "Power"
# --- code
import torch
from torch import Tensor


class BrokenPower(torch.autograd.Function):
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
    def backward(ctx, grad_output: Tensor):
        (x,) = ctx.saved_tensors
        p = ctx.exponent
        # forward has two arguments, so two gradients: d/dx x^p = p x^(p-1), d/dp x^p = x^p log x
        grad_x = p * x ** (p - 1) * grad_output
        grad_exponent = (x**p * x.log() * grad_output).sum()
        return grad_x, grad_exponent

# %% scaled-sigmoid_1
"""Forgets the inner derivative: the author took the well-known s(1 - s) as the derivative with respect to x, although it is with respect to slope * x."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["dy_dx = ctx.gain * s * (1 - s)"]
RIGHT = ["dy_dx = ctx.gain * ctx.slope * s * (1 - s)"]
EXERCISE = "scaled-sigmoid"
NAME = "ScaledSigmoid"
# --- code
import torch


class ScaledSigmoid(torch.autograd.Function):
    """gain * sigmoid(slope * x); only the output is kept for backward."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, gain: float, slope: float) -> torch.Tensor:
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx, grad_output: torch.Tensor):
        (y,) = ctx.saved_tensors
        s = y / ctx.gain  # back to the plain sigmoid
        dy_dx = ctx.gain * s * (1 - s)
        return dy_dx * grad_output, None, None

# %% scaled-sigmoid_2
"""Saves output / gain, a new tensor, where only the output itself may be kept; the author thought that anything computed from y counts as y and wanted to spare backward the division."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(output / gain)", "(s,) = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(output)", "s = ctx.saved_tensors[0] / ctx.gain"]
EXERCISE = "scaled-sigmoid"
NAME = "ScaledSigmoid"
# --- code
import torch
from torch.autograd import Function


class ScaledSigmoid(Function):
    @staticmethod
    def forward(x, gain, slope):
        return gain * torch.sigmoid(slope * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, gain, slope = inputs
        ctx.gain, ctx.slope = gain, slope
        # only the output is needed, x can go; divide once here rather than in every backward
        ctx.save_for_backward(output / gain)

    @staticmethod
    def backward(ctx, grad_output):
        (s,) = ctx.saved_tensors
        # d/dx gain * sigma(slope x) = gain * slope * s * (1 - s)
        return grad_output * ctx.gain * ctx.slope * s * (1 - s), None, None

# %% sort-with-indices_1
"""Applies the permutation once more (gather) instead of undoing it (scatter); the author thought that the gradient takes the same way as the values."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return grad_values.gather(-1, indices), None"]
RIGHT = ["return torch.zeros_like(grad_values).scatter(-1, indices, grad_values), None"]
EXERCISE = "sort-with-indices"
NAME = "SortWithIndices"
# --- code
import torch
from torch import Tensor


class SortWithIndices(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(x, dim=-1, descending=descending)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        # a sort only moves numbers around, so the gradients are moved by the same indices
        return grad_values.gather(-1, indices), None

# %% sort-with-indices_2
"""Puts the indices on ctx as an attribute, believing that save_for_backward is only for inputs that require grad; so autograd neither keeps the tensor safely nor notices when the caller changes it."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.indices = indices", "indices = ctx.indices"]
RIGHT = ["ctx.save_for_backward(indices)", "(indices,) = ctx.saved_tensors"]
EXERCISE = "sort-with-indices"
NAME = "SortWithIndices"
# --- code
import torch


class SortWithIndices(torch.autograd.Function):
    @staticmethod
    def forward(x, descending=False):
        values, indices = torch.sort(x, dim=-1, descending=descending)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, indices = output
        ctx.mark_non_differentiable(indices)
        # integers, no gradient, not an input: a plain attribute will do
        ctx.indices = indices

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        indices = ctx.indices
        grad_x = torch.empty_like(grad_values)
        # send each gradient back to the place its number came from
        grad_x.scatter_(-1, indices, grad_values)
        return grad_x, None

# %% square_1
"""Keeps the output instead of the input and takes its root in backward; the author wanted to save memory and forgot that the root of x squared is |x|, so the gradient of a negative x has the wrong sign."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(y)", "(y,) = ctx.saved_tensors", "return 2 * y.sqrt() * grad_output"]
RIGHT = ["ctx.save_for_backward(x)", "(x,) = ctx.saved_tensors", "return 2 * x * grad_output"]
EXERCISE = "square"
NAME = "Square"
# --- code
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.square()
        # the next layer holds on to y anyway, so keeping y costs nothing
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        # dy/dx = 2x, and x is the root of y
        (y,) = ctx.saved_tensors
        return 2 * y.sqrt() * grad_output

# %% square_2
"""Computes the gradient in place in the saved tensor, believing that save_for_backward keeps a private copy; it is the caller's x that is overwritten."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return x.mul_(2).mul_(grad_output)"]
RIGHT = ["return 2 * x * grad_output"]
EXERCISE = "square"
NAME = "Square"
# --- code
import torch
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        # The saved copy is not needed after this, so reuse its memory: 2 x g
        return x.mul_(2).mul_(grad_output)

# %% strided-gain_1
"""Returns a view of the input outside training; the author believed that slicing with a step copies, since the result has another layout in memory."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["return kept"]
RIGHT = ["return kept.clone()"]
EXERCISE = "strided-gain"
NAME = "StridedGain"
# --- code
import torch
from torch import Tensor


class StridedGain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        ctx.shape = x.shape
        ctx.stride = stride
        ctx.training = training

        kept = x[..., ::stride]  # every stride-th element, gathered into a tensor of its own
        if training:
            # for grad_gain we need x, for grad_x the gain
            ctx.save_for_backward(x, gain)
            return gain * kept
        return kept

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        grad_x = grad_gain = None
        if ctx.training:
            x, gain = ctx.saved_tensors
            if ctx.needs_input_grad[1]:
                grad_gain = grad_output * x[..., :: ctx.stride]
            grad_kept = grad_output * gain if ctx.needs_input_grad[0] else None
        else:
            grad_kept = grad_output
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.new_zeros(ctx.shape)
            grad_x[..., :: ctx.stride] = grad_kept
        return grad_x, grad_gain, None, None

# %% strided-gain_2
"""Two: the tensors are saved outside training as well, in the belief that saving inputs costs nothing; and the condition for gain's gradient is a copy of x's with the index not adapted."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["ctx.save_for_backward(x, gain)", "if ctx.training and ctx.needs_input_grad[0]:"]
RIGHT = ["ctx.save_for_backward(*((x, gain) if training else ()))", "if ctx.training and ctx.needs_input_grad[1]:"]
EXERCISE = "strided-gain"
NAME = "StridedGain"
# --- code
import torch


class StridedGain(torch.autograd.Function):
    @staticmethod
    def forward(x, gain, stride, training):
        y = x[..., ::stride].clone()
        if training:
            y *= gain
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gain, stride, training = inputs
        # both are inputs and alive anyway
        ctx.save_for_backward(x, gain)
        ctx.x_shape = x.shape
        ctx.stride = stride
        ctx.training = training

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = None
        grad_gain = None

        if ctx.needs_input_grad[0]:
            g = grad_output
            if ctx.training:
                g = g * ctx.saved_tensors[1]
            grad_x = torch.zeros(ctx.x_shape, dtype=g.dtype, device=g.device)
            grad_x[..., :: ctx.stride] = g

        if ctx.training and ctx.needs_input_grad[0]:
            grad_gain = grad_output * ctx.saved_tensors[0][..., :: ctx.stride]

        return grad_x, grad_gain, None, None

# %% to-polar_1
"""Computes the angle as atan(y / x), the formula from school, which is off by pi for negative x; the derivatives are those of atan2, so gradients look right everywhere."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["theta = torch.atan(y / x)"]
RIGHT = ["theta = torch.atan2(y, x)"]
EXERCISE = "to-polar"
NAME = "ToPolar"
# --- code
import torch
from torch import Tensor


class ToPolar(torch.autograd.Function):
    """(x, y) -> (r, theta)."""

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        r = torch.sqrt(x * x + y * y)
        theta = torch.atan(y / x)
        ctx.save_for_backward(x, y, r)
        return r, theta

    @staticmethod
    def backward(ctx, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        x, y, r = ctx.saved_tensors
        r_squared = r * r
        # dr/dx = x/r, dr/dy = y/r, dtheta/dx = -y/r^2, dtheta/dy = x/r^2
        grad_x = x / r * grad_r - y / r_squared * grad_theta
        grad_y = y / r * grad_r + x / r_squared * grad_theta
        return grad_x, grad_y

# %% to-polar_2
"""The minus sign of the angle's derivative stands at y instead of x, a slip in deriving atan2(y, x), whose arguments the author took in the order (x, y)."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["dtheta_dx, dtheta_dy = sin / r, -cos / r"]
RIGHT = ["dtheta_dx, dtheta_dy = -sin / r, cos / r"]
EXERCISE = "to-polar"
NAME = "ToPolar"
# --- code
import torch


class ToPolar(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        # r and theta say everything, x and y are not needed
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx, grad_r, grad_theta):
        r, theta = ctx.saved_tensors
        cos, sin = theta.cos(), theta.sin()
        dr_dx, dr_dy = cos, sin
        dtheta_dx, dtheta_dy = sin / r, -cos / r
        return (
            dr_dx * grad_r + dtheta_dx * grad_theta,
            dr_dy * grad_r + dtheta_dy * grad_theta,
        )

# %% weighted-sum_1
"""Unpacks the saved tensors in another order than they were saved, namely in that of the formula (w first); all three have one shape, so nothing complains."""
# The text of every wrong line, exactly as in the code below but stripped, and its replacement.
WRONG = ["w, x, y = ctx.saved_tensors"]
RIGHT = ["x, y, w = ctx.saved_tensors"]
EXERCISE = "weighted-sum"
NAME = "WeightedSum"
# --- code
import torch
from torch import Tensor


class WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return w * x + (1 - w) * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # z = w x + (1 - w) y
        w, x, y = ctx.saved_tensors
        grad_x = grad_output * w
        grad_y = grad_output * (1 - w)
        grad_w = grad_output * (x - y)
        return grad_x, grad_y, grad_w
