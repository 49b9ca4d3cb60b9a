"""Mistakes of honest attempts at lessons 09 to 15; see benchmarks/repairs.py."""

# %% log-sum-exp_1
"""The shift that prevents overflow is the largest entry of the whole tensor, not of each slice along dim. A slice that lies far below the global maximum then underflows (all exponentials are 0), so its log is -inf instead of a finite number, and its gradient is lost."""
WRONG = ["top = x.max()"]
RIGHT = ["top = x.amax(dim, keepdim=True)"]
NAME = "LogSumExp"
EXERCISE = "log-sum-exp"
# --- code
import torch
from torch.autograd import Function


class LogSumExp(Function):
    @staticmethod
    def forward(x, dim, keepdim=False):
        top = x.max()
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        y = (x - top).exp().sum(dim, keepdim=True).log() + top
        return y if keepdim else y.squeeze(dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim, *rest = inputs
        ctx.keepdim = rest[0] if rest else False
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y = y.unsqueeze(ctx.dim)
            grad_output = grad_output.unsqueeze(ctx.dim)
        y = torch.where(y == -torch.inf, torch.zeros_like(y), y)
        return grad_output * torch.exp(x - y), None, None


# %% batch-norm_1
"""m must be the number of elements that share one mean, N times all dims after the channels. Here it is only the batch size N, so for inputs with more than two dims the paths through the mean and the variance are too large by the number of positions."""
WRONG = ["m = x.shape[0]"]
RIGHT = ["m = x.numel() // x.shape[1]"]
NAME = "BatchNorm"
EXERCISE = "batch-norm"
# --- code
import torch
from torch.autograd import Function


class BatchNorm(Function):
    @staticmethod
    def forward(x, eps):
        dims = [0, *range(2, x.dim())]
        mean = x.mean(dims, keepdim=True)
        var = (x - mean).square().mean(dims, keepdim=True)
        return (x - mean) / torch.sqrt(var + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.eps = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        dims = [0, *range(2, x.dim())]
        m = x.shape[0]
        centered = x - x.mean(dims, keepdim=True)
        rstd = (centered.square().mean(dims, keepdim=True) + ctx.eps).rsqrt()
        grad_var = (grad_output * centered).sum(dims, keepdim=True) * -0.5 * rstd**3
        grad_mean = -(grad_output * rstd).sum(dims, keepdim=True)
        grad_x = grad_output * rstd + grad_var * 2 * centered / m + grad_mean / m
        return grad_x, None


# %% conv1d_1
"""The slice that removes the padding ends at -padding. Without padding this is [0:-0], which is [0:0], so the gradient of x is empty and has the wrong shape. It works only when padding is greater than 0."""
WRONG = ["grad_x = grad_padded[..., padding:-padding]"]
RIGHT = ["grad_x = grad_padded[..., padding : padding + x.shape[-1]]"]
NAME = "Conv1d"
EXERCISE = "conv1d"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class Conv1d(Function):
    @staticmethod
    def forward(x, weight, stride, padding, groups):
        n, c, _ = x.shape
        o, per_group, k = weight.shape
        windows = F.pad(x, (padding, padding)).unfold(-1, k, stride)
        windows = windows.reshape(n, groups, per_group, -1, k)
        kernels = weight.reshape(groups, o // groups, per_group, k)
        y = torch.einsum("ngctk,gock->ngot", windows, kernels)
        return y.reshape(n, o, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.stride, ctx.padding, ctx.groups = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.stride, ctx.padding, ctx.groups
        n, c, length = x.shape
        o, per_group, k = weight.shape
        steps = grad_output.shape[-1]
        g = grad_output.reshape(n, groups, o // groups, steps)
        kernels = weight.reshape(groups, o // groups, per_group, k)

        padded = F.pad(x, (padding, padding))
        windows = padded.unfold(-1, k, stride).reshape(n, groups, per_group, steps, k)
        grad_weight = torch.einsum("ngot,ngctk->gock", g, windows).reshape(weight.shape)

        per_window = torch.einsum("ngot,gock->ngctk", g, kernels).reshape(n, c, steps, k)
        grad_padded = torch.zeros_like(padded)
        for i in range(k):
            grad_padded[..., i : i + stride * (steps - 1) + 1 : stride] += per_window[..., i]
        grad_x = grad_padded[..., padding:-padding]
        return grad_x, grad_weight, None, None, None


# %% complex-multiply_1
"""The conjugate stands on the incoming gradient instead of on the other factor. With PyTorch's convention (dL/da + i dL/db) the gradient of z is g * conj(w); conj(g) * w is its conjugate, which is the convention of other libraries, so the imaginary parts have the wrong sign."""
WRONG = ["grad_z = grad_output.conj() * w", "grad_w = grad_output.conj() * z"]
RIGHT = ["grad_z = grad_output * w.conj()", "grad_w = grad_output * z.conj()"]
NAME = "ComplexMultiply"
EXERCISE = "complex-multiply"
# --- code
import torch
from torch.autograd import Function


class ComplexMultiply(Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        z, w = ctx.saved_tensors
        grad_z = grad_output.conj() * w
        grad_w = grad_output.conj() * z
        if not z.is_complex():
            grad_z = grad_z.real
        if not w.is_complex():
            grad_w = grad_w.real
        return grad_z, grad_w


# %% gradient-reversal_1
"""x[:] copies a Python list, but for a tensor it is a view of the same memory. The output is therefore not a new tensor, and an in-place layer after it changes x or stops with an error."""
WRONG = ["return x[:]"]
RIGHT = ["return x.clone()"]
NAME = "GradientReversal"
EXERCISE = "gradient-reversal"
# --- code
import torch
from torch.autograd import Function


class GradientReversal(Function):
    @staticmethod
    def forward(x, strength):
        return x[:]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.strength = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


# %% gumbel-soft_1
"""The temperature must divide the sum of logits and noise. Here it divides only the logits, so the noise has the wrong weight whenever the temperature is not 1, and the sample itself is wrong."""
WRONG = ["return torch.softmax(logits / temperature + noise, -1)"]
RIGHT = ["return torch.softmax((logits + noise) / temperature, -1)"]
NAME = "GumbelSoftmax"
EXERCISE = "gumbel-soft"
# --- code
import torch
from torch.autograd import Function


class GumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        return torch.softmax(logits / temperature + noise, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.temperature = inputs[2]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        inner = (grad_output * y).sum(-1, keepdim=True)
        return y * (grad_output - inner) / ctx.temperature, None, None


# %% gumbel-hard_1
"""Two mistakes in backward: the recomputed soft sample does not contain the noise, so it is not the sample of exercise 1 but the plain softmax, and the Jacobian lacks the factor 1/temperature."""
WRONG = ["soft = torch.softmax(logits / ctx.temperature, -1)", "return soft * (grad_output - inner), None, None"]
RIGHT = ["soft = torch.softmax((logits + noise) / ctx.temperature, -1)", "return soft * (grad_output - inner) / ctx.temperature, None, None"]
NAME = "HardGumbelSoftmax"
EXERCISE = "gumbel-hard"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits, noise, temperature):
        winner = (logits + noise).argmax(-1)
        return F.one_hot(winner, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, noise, ctx.temperature = inputs
        ctx.save_for_backward(logits, noise)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        soft = torch.softmax(logits / ctx.temperature, -1)
        inner = (grad_output * soft).sum(-1, keepdim=True)
        return soft * (grad_output - inner), None, None


# %% reinmax_1
"""The inner sum of J(m)^T g must use m in both places. Here the sum over g_k still uses p, copied from the line for p, so the first term is not the softmax Jacobian at m and the gradients of a row no longer add up to 0."""
WRONG = ["at_m = m * (grad_output - (grad_output * p).sum(-1, keepdim=True))"]
RIGHT = ["at_m = m * (grad_output - (grad_output * m).sum(-1, keepdim=True))"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        winner = (logits + noise).argmax(-1)
        return F.one_hot(winner, logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = torch.softmax(logits, -1)
        m = (p + y) / 2
        at_p = p * (grad_output - (grad_output * p).sum(-1, keepdim=True))
        at_m = m * (grad_output - (grad_output * p).sum(-1, keepdim=True))
        return 2 * at_m - at_p / 2, None


# %% reinmax_2
"""one_hot without num_classes takes the largest index in this batch plus 1 as the number of classes. If the last class is not drawn anywhere, the output has too few columns and does not have the shape of the logits."""
WRONG = ["y = F.one_hot((logits + noise).argmax(-1))"]
RIGHT = ["y = F.one_hot((logits + noise).argmax(-1), logits.shape[-1])"]
NAME = "ReinMax"
EXERCISE = "reinmax"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def slope(q, g):
    return q * (g - (g * q).sum(-1, keepdim=True))


class ReinMax(Function):
    @staticmethod
    def forward(logits, noise):
        y = F.one_hot((logits + noise).argmax(-1))
        return y.to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, _ = inputs
        ctx.save_for_backward(logits, output)

    @staticmethod
    def backward(ctx, grad_output):
        logits, y = ctx.saved_tensors
        p = logits.softmax(-1)
        return 2 * slope((p + y) / 2, grad_output) - 0.5 * slope(p, grad_output), None


# %% split-rms-norm_1
"""apply returns two outputs now, so autograd calls backward with one gradient for each output. This backward accepts only one and raises a TypeError, even though rstd is marked as non-differentiable."""
WRONG = ["def backward(ctx, grad_output):"]
RIGHT = ["def backward(ctx, grad_output, grad_rstd):"]
NAME = "RMSNorm"
EXERCISE = "split-rms-norm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, eps):
        rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        return x * rstd * weight, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        _, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, rstd = ctx.saved_tensors
        normed, g = x * rstd, grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


# %% per-sample-gradients_1
"""The prediction has a batch dim of one, but the target of the sample has none. A loss that broadcasts may hide this, but cross_entropy gets a prediction of shape (1, classes) and a 0-dim target and fails: the target also needs its batch dim back."""
WRONG = ["return loss(prediction, target)"]
RIGHT = ["return loss(prediction, target.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    params = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(params, sample, target):
        prediction = torch.func.functional_call(model, params, (sample.unsqueeze(0),))
        return loss(prediction, target)

    per_sample = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))
    return tuple(per_sample(params, x, y).values())


# %% vmap-solve_1
"""The test for a shared argument is the truth value of in_dims[i], but dim 0 is false as well as None. Samples along dim 0 are therefore treated as shared and get one more batch dim, so the result has the wrong shape. The test must be `is not None`."""
WRONG = ["a = a.movedim(in_dims[0], 0) if in_dims[0] else a.expand(info.batch_size, *a.shape)", "b = b.movedim(in_dims[1], 0) if in_dims[1] else b.expand(info.batch_size, *b.shape)"]
RIGHT = ["a = a.movedim(in_dims[0], 0) if in_dims[0] is not None else a.expand(info.batch_size, *a.shape)", "b = b.movedim(in_dims[1], 0) if in_dims[1] is not None else b.expand(info.batch_size, *b.shape)"]
NAME = "Solve"
EXERCISE = "vmap-solve"
# --- code
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a, b):
        y = torch.linalg.solve(a.detach(), b.detach()[..., None])
        return y[..., 0].clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        a, y = ctx.saved_tensors
        grad_b = Solve.apply(a.mT, grad_output)
        grad_a = -grad_b[..., :, None] * y[..., None, :] if ctx.needs_input_grad[0] else None
        return grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, a, b):
        a = a.movedim(in_dims[0], 0) if in_dims[0] else a.expand(info.batch_size, *a.shape)
        b = b.movedim(in_dims[1], 0) if in_dims[1] else b.expand(info.batch_size, *b.shape)
        return Solve.apply(a, b), 0


# %% jvp-smooth-maximum_1
"""The sum over all rows was copied from backward. There it collects the gradient of the single temperature, but in forward mode the temperature moves every output by its own amount, so each row must keep its own term. With the sum, every output gets the total of all rows."""
WRONG = ["from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()"]
RIGHT = ["from_t = t_tangent * (y - (p * x).sum(-1)) / t"]
NAME = "SmoothMaximum"
EXERCISE = "jvp-smooth-maximum"
# --- code
import torch
from torch.autograd import Function


class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, temperature):
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, temperature = inputs
        ctx.save_for_backward(x, temperature, output)
        ctx.save_for_forward(x, temperature, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        from_x = (p * x_tangent).sum(-1)
        from_t = (t_tangent * (y - (p * x).sum(-1)) / t).sum()
        return from_x + from_t


# %% predict-vmap-elements_1
"""Under two nested vmaps the generated rule runs forward with a tensor that hides both batch dims, so forward sees the shape (3,) and 3 elements. The answer 15 is right for one vmap only, where only the dim of size 4 is hidden."""
WRONG = ["prediction = [15, 20, 15, 60]"]
RIGHT = ["prediction = [15, 20, 3, 60]"]
NAME = "prediction"
EXERCISE = "predict-vmap-elements"
# --- code
prediction = [15, 20, 15, 60]


# %% repair-graph-breaks_1
"""Indexing with a boolean mask produces a tensor whose size depends on the values. The compiler cannot know this size, so it still breaks the graph at x[far]; torch.where computes both branches with a fixed shape."""
WRONG = ["y[far] = delta * (x[far].abs() - delta / 2)"]
RIGHT = ["y = torch.where(far, delta * (x.abs() - delta / 2), y)"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x, delta):
        y = x**2 / 2
        far = x.abs() > delta
        y[far] = delta * (x[far].abs() - delta / 2)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.clamp(-ctx.delta, ctx.delta), None


# %% operator-window-sums_1
"""The routine returns a view of the longer working array, so the operator's output has the strides (and offset) of that array. The fake promises a contiguous tensor, so the two disagree for inputs with more than one row, and opcheck and compiled code fail. The result must be copied."""
WRONG = ["return torch.from_numpy(sums)"]
RIGHT = ["return torch.from_numpy(sums.copy())"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import torch
import torch.nn.functional as F


def vendor_sums(series, width):
    series.cumsum(axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
    sums = vendor_sums(x.numpy().copy(), width)
    return torch.from_numpy(sums)


@window_sums.register_fake
def fake(x, width):
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output):
    ctx.width = inputs[1]


def backward(ctx, grad_output):
    padded = F.pad(grad_output, (ctx.width - 1, ctx.width - 1))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% operator-window-sums_2
"""contiguous() copies only if the tensor is not contiguous already. For an ordinary input the NumPy array shares the memory of x, so the vendor's routine overwrites the input, although the operator declares mutates_args=()."""
WRONG = ["series = x.contiguous().numpy()"]
RIGHT = ["series = x.numpy().copy()"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import torch
import torch.nn.functional as F


def vendor_sums(series, width):
    series.cumsum(axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
    series = x.contiguous().numpy()
    return torch.from_numpy(vendor_sums(series, width).copy())


@window_sums.register_fake
def fake(x, width):
    shape = list(x.shape)
    shape[-1] -= width - 1
    return x.new_empty(shape)


def setup_context(ctx, inputs, output):
    _, ctx.width = inputs


def backward(ctx, grad_output):
    border = ctx.width - 1
    return window_sums(F.pad(grad_output, (border, border)), ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% repair-autocast_1
"""Only forward is protected. Without custom_bwd, a backward() that is called inside the autocast block computes its matrix products in bfloat16, so the probabilities and the gradients are rounded."""
WRONG = ["def backward(ctx, grad_output):"]
RIGHT = ["@torch.amp.custom_bwd(device_type=\"cpu\")\ndef backward(ctx, grad_output):"]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, q, k, temperature):
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% lambert-w_1
"""backward computes w again with the bare solver, which autograd does not record. The first derivative is right, but w counts as a constant when backward is differentiated, so the second derivative is zero. w must come from the saved output or from LambertW.apply."""
WRONG = ["w = lambertw(x)"]
RIGHT = ["w = LambertW.apply(x)"]
NAME = "LambertW"
EXERCISE = "lambert-w"
# --- code
import math

import torch
from torch.autograd import Function


def solve(value):
    w = math.log1p(value)
    for _ in range(60):
        e = math.exp(w)
        w -= (w * e - value) / (e * (1 + w))
    return w


def lambertw(x):
    values = [solve(value) for value in x.detach().double().flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype, device=x.device).reshape(x.shape)


class LambertW(Function):
    @staticmethod
    def forward(x):
        return lambertw(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        w = lambertw(x)
        return grad_output / (torch.exp(w) * (1 + w))


# %% kepler_1
"""setup_context computes the sine and the slope and saves these intermediate results. Autograd does not record operations there, so backward sees them as constants: the first derivative is right, but the second one lacks every term from E and e. The input e and the output E must be saved."""
WRONG = ["ctx.save_for_backward(output.sin(), 1 - e * output.cos())", "sine, slope = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(e, output)", "e, E = ctx.saved_tensors\nsine, slope = E.sin(), 1 - e * E.cos()"]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import math

import torch
from torch.autograd import Function


def solve_kepler(M, e):
    E = math.pi
    for _ in range(100):
        E -= (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
    return E


class Kepler(Function):
    @staticmethod
    def forward(M, e):
        E = [solve_kepler(m, e.item()) for m in M.detach().double().flatten().tolist()]
        return torch.tensor(E, dtype=M.dtype, device=M.device).reshape(M.shape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        M, e = inputs
        ctx.save_for_backward(output.sin(), 1 - e * output.cos())

    @staticmethod
    def backward(ctx, grad_output):
        sine, slope = ctx.saved_tensors
        grad_M = grad_output / slope
        grad_e = (grad_M * sine).sum()
        return grad_M, grad_e


# %% equilibrium-layer_1
"""z is already the result of the tanh, so the slope of the tanh at the fixed point is 1 - z**2. Here the tanh is applied to z once more, so the slope belongs to a different point and both gradients are wrong."""
WRONG = ["slope = 1 - torch.tanh(z) ** 2"]
RIGHT = ["slope = 1 - z ** 2"]
NAME = "Equilibrium"
EXERCISE = "equilibrium-layer"
# --- code
import torch
from torch.autograd import Function


def settled(step, start):
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


class Equilibrium(Function):
    @staticmethod
    def forward(x, W):
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - torch.tanh(z) ** 2
        total = settled(lambda v: grad_output + (v * slope) @ W, grad_output)
        grad_x = total * slope
        return grad_x, grad_x.t() @ z


# %% triangular-solve_1
"""The gradient of T is cut with tril in every case. With lower=False the function reads the upper half, so the gradient must be cut with triu; here the half that is never read gets a gradient and the one that is used gets none."""
WRONG = ["grad_T = (-grad_B @ X.mT).tril()"]
RIGHT = ["grad_T = -grad_B @ X.mT\ngrad_T = grad_T.tril() if ctx.lower else grad_T.triu()"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T, B, lower=True):
        return torch.linalg.solve_triangular(T, B, upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        T, _, *rest = inputs
        ctx.lower = rest[0] if rest else True
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        grad_T = (-grad_B @ X.mT).tril()
        return grad_T, grad_B, None


# %% triangular-solve_2
"""The transpose of a lower triangular matrix is upper triangular, so the system in backward needs the opposite flag. With the same flag the solver reads the half of T that must never be read (and the diagonal), and both gradients are wrong."""
WRONG = ["grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)"]
RIGHT = ["grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T, B, lower=True):
        return torch.linalg.solve_triangular(T, B, upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.lower = inputs[2] if len(inputs) > 2 else True
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)
        grad_T = -grad_B @ X.mT
        grad_T = torch.tril(grad_T) if ctx.lower else torch.triu(grad_T)
        return grad_T, grad_B, None


# %% soft-threshold-function_1
"""The slope of y in x is 1 wherever y is not 0, on both sides: the sign in front and the slope of |x| cancel. Here only one of the two signs is used, so the gradient of x has the wrong sign for negative numbers."""
WRONG = ["grad_x = grad_output * y.sign()"]
RIGHT = ["grad_x = grad_output * (y != 0)"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[1].shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_x = grad_output * y.sign()
        grad_threshold = -(grad_output * y.sign()).sum().reshape(ctx.shape)
        return grad_x, grad_threshold


# %% soft-threshold-function_2
"""A larger threshold moves positive outputs down but negative outputs up, so the gradient of the threshold is -sum(g * sign(y)). Here the sign of y is missing, and every surviving element counts as positive."""
WRONG = ["grad_threshold = -(grad_output * kept).sum()"]
RIGHT = ["grad_threshold = -(grad_output * y.sign()).sum()"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return torch.sign(x) * torch.relu(x.abs() - threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.threshold_shape = inputs[1].shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        kept = (y != 0).to(grad_output.dtype)
        grad_threshold = -(grad_output * kept).sum()
        return grad_output * kept, grad_threshold.reshape(ctx.threshold_shape)


# %% any-batch_1
"""Only the mode of the whole model is remembered. model.train(training) sets every layer to this mode, so a layer that was in eval mode during training (for example a frozen one) is in training mode afterwards. The mode of each layer must be remembered and restored."""
WRONG = ["training = model.training", "model.train(training)"]
RIGHT = ["modes = [(layer, layer.training) for layer in model.modules()]", "for layer, mode in modes:\n    layer.train(mode)"]
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch


def ship(model, example):
    training = model.training
    model.eval()
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    model.train(training)
    return program


# %% lost-gradients_1
"""A parameter whose gradient is None in only one model is skipped. But None in the shipped model is exactly how a cut graph shows itself: the parameter no longer has a path to the output. Only if both are None (or zero) is the parameter unused; otherwise None counts as zero."""
WRONG = ["pairs = [(n, a, b) for n, a, b in zip(names, ours, theirs) if a is not None and b is not None]"]
RIGHT = ["pairs = [(n, torch.zeros_like(p) if a is None else a, torch.zeros_like(p) if b is None else b) for n, p, a, b in zip(names, params, ours, theirs)]"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def gradients(model, names, x, g):
    params = dict(model.named_parameters())
    y = model(x)
    if not y.requires_grad:
        return [None] * len(names)
    return torch.autograd.grad(y, [params[n] for n in names], g, allow_unused=True)


def lost_gradients(model, shipped, x):
    names = [name for name, _ in model.named_parameters()]
    params = list(model.parameters())
    g = torch.randn_like(model(x).detach())
    ours = gradients(model, names, x, g)
    theirs = gradients(shipped, names, x, g)
    pairs = [(n, a, b) for n, a, b in zip(names, ours, theirs) if a is not None and b is not None]
    return [n for n, a, b in pairs if (a - b).abs().max() > 1e-3 * a.abs().max() + 1e-7]


# %% reversal-that-travels_1
"""The value is (2 - strength) * x, which equals x only for strength 1. The gradient is right, but for any other strength the detached part does not cancel the recorded part, so the output is wrong."""
WRONG = ["return 2 * x.detach() - strength * x"]
RIGHT = ["return x.detach() - strength * (x - x.detach())"]
NAME = "reverse"
EXERCISE = "reversal-that-travels"
# --- code
import torch


def reverse(x, strength):
    return 2 * x.detach() - strength * x


# %% eight-bits_1
"""Only the rounding passes the gradient straight through. The gradient also runs through the clamp, which cuts it off for the largest positive weight of a row (127.5 rounds to 128), and through the scale, which depends on the largest weight. The whole computation must be detached."""
WRONG = ["return quantized"]
RIGHT = ["return quantized.detach() + (weight - weight.detach())"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight):
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=eps)
    steps = weight / scale
    steps = steps + (steps.round() - steps).detach()
    quantized = scale * steps.clamp(-128, 127)
    return quantized


# %% the-sorter_1
"""Rounding to multiples of one half between -1 and 1 gives five levels (-1, -0.5, 0, 0.5, 1), not four. Four levels have three steps between -1 and 1, so the step is 2/3."""
WRONG = ["levels = torch.round(x.detach() * 2) / 2"]
RIGHT = ["levels = torch.round((x.detach() + 1) * 1.5) / 1.5 - 1"]
NAME = "deliver"
EXERCISE = "the-sorter"
# --- code
import torch
import torch.nn.functional as F


def four_levels(x):
    x = x.clamp(-1, 1)
    levels = torch.round(x.detach() * 2) / 2
    return levels + (x - x.detach())


class Sorter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 10)

    def forward(self, images):
        return self.second(four_levels(self.first(images)))


def deliver(images, labels):
    torch.manual_seed(0)
    net = Sorter()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()
    net.eval()
    batch = torch.export.Dim("batch")
    return torch.export.export(net, (images[:8],), dynamic_shapes=({0: batch},))
