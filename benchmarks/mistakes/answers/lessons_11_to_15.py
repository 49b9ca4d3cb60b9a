# %% split-rms-norm_1
"""rstd is returned as a second output but is never marked with mark_non_differentiable. Autograd therefore takes it for a differentiable output (rstd.requires_grad is True), and backward silently drops the gradient that arrives for it, although no gradient may flow through rstd."""
WRONG = ["ctx.save_for_backward(x, weight, rstd)"]
RIGHT = ["ctx.mark_non_differentiable(rstd)\nctx.save_for_backward(x, weight, rstd)"]
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
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_y, grad_rstd):
        x, weight, rstd = ctx.saved_tensors
        normed, g = x * rstd, grad_y * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_y * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None

# %% split-rms-norm_2
"""In the second term of the gradient of x the factor 1/n is missing. It comes from the mean inside the root: the derivative of the mean square with respect to x is 2 x / n, so the products have to be averaged over the row, not added up."""
WRONG = ["along = (g * x).sum(-1, keepdim=True)"]
RIGHT = ["along = (g * x).mean(-1, keepdim=True)"]
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
        x, weight, eps = inputs
        rstd = output[1]
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_y, _):
        x, weight, rstd = ctx.saved_tensors
        g = grad_y * weight
        along = (g * x).sum(-1, keepdim=True)
        grad_x = g * rstd - x * rstd**3 * along
        grad_weight = (grad_y * x * rstd).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None

# %% split-rms-norm_3
"""The normalized row is recovered from the output as y / weight. Where a weight is 0 this is 0 / 0, so the gradients of x and weight become NaN; the normalized row has to come from x * rstd."""
WRONG = ["normed, g = y / weight, grad_y * weight"]
RIGHT = ["normed, g = x * rstd, grad_y * weight"]
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
        y, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, y, rstd)

    @staticmethod
    def backward(ctx, grad_y, _):
        x, weight, y, rstd = ctx.saved_tensors
        normed, g = y / weight, grad_y * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_y * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None

# %% per-sample-gradients_1
"""The sample gets a batch dim of one but its target does not, so the loss compares a prediction of shape (1, ...) with a target without the batch dim. mse_loss hides this by broadcasting, but a loss such as cross_entropy with class numbers fails."""
WRONG = ["return loss(prediction, target)"]
RIGHT = ["return loss(prediction, target.unsqueeze(0))"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def sample_loss(parameters, sample, target):
        prediction = torch.func.functional_call(model, parameters, (sample.unsqueeze(0),))
        return loss(prediction, target)

    per_sample = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))
    gradients = per_sample(parameters, x, y)
    return tuple(gradients.values())

# %% per-sample-gradients_2
"""The gradients are divided by the batch size, as if they were the samples' shares of the batch gradient. The gradient asked for is that of the loss of a batch of one, whose mean is over one sample only, so every result is too small by the factor N."""
WRONG = ["return tuple(gradients[name] / len(x) for name in parameters)"]
RIGHT = ["return tuple(gradients[name] for name in parameters)"]
NAME = "per_sample_gradients"
EXERCISE = "per-sample-gradients"
# --- code
import torch


def per_sample_gradients(model, loss, x, y):
    parameters = dict(model.named_parameters())

    def sample_loss(parameters, sample, target):
        prediction = torch.func.functional_call(model, parameters, (sample[None],))
        return loss(prediction, target[None])

    per_sample = torch.func.vmap(torch.func.grad(sample_loss), in_dims=(None, 0, 0))
    gradients = per_sample({name: p.detach() for name, p in parameters.items()}, x, y)
    return tuple(gradients[name] / len(x) for name in parameters)

# %% vmap-solve_1
"""The rule moves the batch dims of both arguments to the front, so the result has its batch dim at 0, but the rule reports the dim where b had it. vmap then takes the wrong dim of the result for the batch as soon as the samples of b do not lie along dim 0 (or b is shared)."""
WRONG = ["return Solve.apply(a, b), in_dims[1]"]
RIGHT = ["return Solve.apply(a, b), 0"]
NAME = "Solve"
EXERCISE = "vmap-solve"
# --- code
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a, b):
        return torch.linalg.solve(a.detach(), b.detach()[..., None])[..., 0]

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
        if in_dims[0] is None:
            a = a.expand(info.batch_size, *a.shape)
        else:
            a = a.movedim(in_dims[0], 0)
        if in_dims[1] is None:
            b = b.expand(info.batch_size, *b.shape)
        else:
            b = b.movedim(in_dims[1], 0)
        return Solve.apply(a, b), in_dims[1]

# %% vmap-solve_2
"""A shared argument is expanded as if it were exactly one matrix or one vector. With leading batch dims (for example under a second vmap), expand(batch_size, -1) stretches an existing dim instead of adding a new one in front, so the call fails or pairs the wrong samples."""
WRONG = [
    "a = a.expand(info.batch_size, -1, -1)",
    "b = b.expand(info.batch_size, -1)",
]
RIGHT = [
    "a = a.expand(info.batch_size, *a.shape)",
    "b = b.expand(info.batch_size, *b.shape)",
]
NAME = "Solve"
EXERCISE = "vmap-solve"
# --- code
import torch
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a, b):
        return torch.linalg.solve(a.detach(), b.detach()[..., None])[..., 0]

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
        a_dim, b_dim = in_dims
        if a_dim is None:
            a = a.expand(info.batch_size, -1, -1)
        else:
            a = a.movedim(a_dim, 0)
        if b_dim is None:
            b = b.expand(info.batch_size, -1)
        else:
            b = b.movedim(b_dim, 0)
        return Solve.apply(a, b), 0

# %% jvp-smooth-maximum_1
"""The tensors are saved for backward only. In forward mode ctx.saved_tensors contains what save_for_forward has saved, so jvp finds nothing there."""
WRONG = ["ctx.save_for_backward(x, t, output)"]
RIGHT = ["ctx.save_for_backward(x, t, output)\nctx.save_for_forward(x, t, output)"]
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
        x, t = inputs
        ctx.save_for_backward(x, t, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return (p * x_tangent).sum(-1) + t_tangent * (y - (p * x).sum(-1)) / t

# %% jvp-smooth-maximum_2
"""The sum over all rows is copied from backward into jvp. Backward adds up the rows because all of them share one temperature, but forward mode has to report the change of each row by itself, so here every row gets the total of all rows."""
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
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

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

# %% jvp-smooth-maximum_3
"""The derivative with respect to the temperature is (y - sum p x) / t, but only the sum is divided by t because the parentheses are missing. The tangent from the temperature is wrong unless t is 1."""
WRONG = ["slope = y - (p * x).sum(-1) / t"]
RIGHT = ["slope = (y - (p * x).sum(-1)) / t"]
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
        x, t = inputs
        ctx.save_for_backward(x, t, output)
        ctx.save_for_forward(x, t, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent, t_tangent):
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        slope = y - (p * x).sum(-1) / t
        return (p * x_tangent).sum(-1) + slope * t_tangent

# %% repair-graph-breaks_1
"""Beyond delta the slope is taken as +delta on both sides. The derivative of delta * |x| is delta * sign(x), so the gradient of negative outliers has the wrong sign."""
WRONG = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)"]
RIGHT = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign())"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x, delta):
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)
        return grad_output * slope, None

# %% repair-graph-breaks_2
"""The shortcut for inputs without outliers is only rewritten with torch.all. Python still has to know a value of the tensor to choose the branch, so the compiler still breaks the graph there; only torch.where for every element avoids the decision."""
WRONG = ["return parabola if torch.all(x.abs() <= delta) else torch.where(x.abs() <= delta, parabola, line)"]
RIGHT = ["return torch.where(x.abs() <= delta, parabola, line)"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x, delta):
        parabola = x**2 / 2
        line = delta * (x.abs() - delta / 2)
        return parabola if torch.all(x.abs() <= delta) else torch.where(x.abs() <= delta, parabola, line)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.clamp(-ctx.delta, ctx.delta), None

# %% operator-window-sums_1
"""The input is copied, but the result is the routine's view of that copy: its rows are still n elements apart in memory. The fake promises a contiguous tensor, so the strides of the operator and of its fake disagree for an input with leading dims (opcheck and compiled code notice it)."""
WRONG = ["return torch.from_numpy(vendor_sums(x.numpy(force=True).copy(), width))"]
RIGHT = ["return torch.from_numpy(vendor_sums(x.numpy(force=True).copy(), width).copy())"]
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
    return torch.from_numpy(vendor_sums(x.numpy(force=True).copy(), width))


@window_sums.register_fake
def fake(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output):
    ctx.width = inputs[1]


def backward(ctx, grad_output):
    padded = F.pad(grad_output, (ctx.width - 1, ctx.width - 1))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)

# %% operator-window-sums_2
"""The fake creates its result with torch.empty, which uses the default dtype float32 instead of the dtype of x. For float64 inputs the fake disagrees with the operator, so opcheck fails and compiled code assumes the wrong dtype."""
WRONG = ["return torch.empty(*x.shape[:-1], x.shape[-1] - width + 1)"]
RIGHT = ["return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import torch


def vendor_sums(series, width):
    series.cumsum(axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: torch.Tensor, width: int) -> torch.Tensor:
    copy = x.detach().numpy().copy()
    return torch.from_numpy(vendor_sums(copy, width).copy())


@window_sums.register_fake
def fake(x: torch.Tensor, width: int) -> torch.Tensor:
    return torch.empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output):
    _, ctx.width = inputs


def backward(ctx, grad_output):
    border = ctx.width - 1
    return window_sums(torch.nn.functional.pad(grad_output, (border, border)), ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)

# %% repair-autocast_1
"""Only forward is protected. Without custom_bwd, a backward() that is called inside the autocast block runs with autocast on, so the scores and the gradients are computed in bfloat16 again."""
WRONG = ["def backward(ctx, grad_output):"]
RIGHT = ['@torch.amp.custom_bwd(device_type="cpu")\ndef backward(ctx, grad_output):']
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

# %% repair-autocast_2
"""The inputs are always converted to float32, also without autocast. There the Function must not convert anything: float64 inputs lose half of their digits and the loss comes back in float32."""
WRONG = ["q, k = q.float(), k.float()"]
RIGHT = ['if torch.is_autocast_enabled("cpu"):\n    q, k = q.float(), k.float()']
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    def forward(ctx, q, k, temperature):
        q, k = q.float(), k.float()
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        with torch.autocast("cpu", enabled=False):
            scores = q @ k.t() / temperature
            return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            p = torch.softmax(q @ k.t() / ctx.temperature, 1)
            slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
            return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None

# %% lambert-w_1
"""The formula w / (x (1 + w)) is 0 / 0 at x = 0, and torch.where only repairs the first derivative there. The second derivative still goes through the branch that is not chosen and becomes NaN (and the constant branch has no slope anyway); exp(-w) / (1 + w) is right everywhere."""
WRONG = ["slope = torch.where(x == 0, torch.ones_like(x), w / (x * (1 + w)))"]
RIGHT = ["slope = torch.exp(-w) / (1 + w)"]
NAME = "LambertW"
EXERCISE = "lambert-w"
# --- code
import torch
from torch.autograd import Function


class LambertW(Function):
    @staticmethod
    def forward(x):
        wide = x.detach().double()
        w = torch.log1p(wide)
        for _ in range(40):
            e = torch.exp(w)
            w = w - (w * e - wide) / (e * (1 + w))
        return w.to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        slope = torch.where(x == 0, torch.ones_like(x), w / (x * (1 + w)))
        return grad_output * slope

# %% lambert-w_2
"""The solver works in float64 and its result is returned as it is. For a float32 input the output is float64, so the dtype of the input is lost."""
WRONG = ["return w"]
RIGHT = ["return w.to(x.dtype)"]
NAME = "LambertW"
EXERCISE = "lambert-w"
# --- code
import torch
from torch.autograd import Function


class LambertW(Function):
    @staticmethod
    def forward(x):
        target = x.detach().to(torch.float64)
        w = torch.log1p(target)
        for _ in range(40):
            e = torch.exp(w)
            w = w - (w * e - target) / (e * (1 + w))
        return w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (w,) = ctx.saved_tensors
        return grad_output / (torch.exp(w) * (1 + w))

# %% kepler_1
"""Two mistakes: M is saved although the derivatives have to be evaluated at the solution E, and the sign of the gradient of e is wrong. Differentiating E - e sin E = M with respect to e gives (1 - e cos E) dE = + sin E de."""
WRONG = [
    "ctx.save_for_backward(M, e)",
    "grad_e = -(grad_M * torch.sin(angle)).sum()",
]
RIGHT = [
    "ctx.save_for_backward(output, e)",
    "grad_e = (grad_M * torch.sin(angle)).sum()",
]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import math

import torch
from torch.autograd import Function


def solve_kepler(M, e):
    E = torch.full_like(M, math.pi)
    for _ in range(100):
        E = E - (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
    return E


class Kepler(Function):
    @staticmethod
    def forward(M, e):
        return solve_kepler(M.detach(), e.detach())

    @staticmethod
    def setup_context(ctx, inputs, output):
        M, e = inputs
        ctx.save_for_backward(M, e)

    @staticmethod
    def backward(ctx, grad_output):
        angle, e = ctx.saved_tensors
        grad_M = grad_output / (1 - e * torch.cos(angle))
        grad_e = -(grad_M * torch.sin(angle)).sum()
        return grad_M, grad_e

# %% kepler_2
"""e is kept as a Python number. The first derivatives are right, but backward no longer depends on the tensor e, so in the second derivative the term that comes directly from e is missing."""
WRONG = [
    "M, ctx.e = inputs[0], inputs[1].item()",
    "ctx.save_for_backward(output)",
    "(E,) = ctx.saved_tensors",
    "grad_M = grad_output / (1 - ctx.e * torch.cos(E))",
]
RIGHT = [
    "M, e = inputs",
    "ctx.save_for_backward(output, e)",
    "E, e = ctx.saved_tensors",
    "grad_M = grad_output / (1 - e * torch.cos(E))",
]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import math

import torch
from torch.autograd import Function


def solve_kepler(M, e):
    E = torch.full_like(M, math.pi)
    for _ in range(100):
        E = E - (E - e * torch.sin(E) - M) / (1 - e * torch.cos(E))
    return E


class Kepler(Function):
    @staticmethod
    def forward(M, e):
        return solve_kepler(M.detach(), e.detach())

    @staticmethod
    def setup_context(ctx, inputs, output):
        M, ctx.e = inputs[0], inputs[1].item()
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (E,) = ctx.saved_tensors
        grad_M = grad_output / (1 - ctx.e * torch.cos(E))
        return grad_M, (grad_M * torch.sin(E)).sum()

# %% equilibrium-layer_1
"""grad_output is sent back through one call to the layer only. The layer's input z depends on x and W too, so the gradient has to be summed over all rounds, that is, the linear equation u = grad_output + (gradient of u with respect to z) has to be solved first."""
WRONG = ["u = grad_output"]
RIGHT = ["u = settled(lambda u: grad_output + torch.autograd.grad(f, z, u, retain_graph=True)[0], grad_output)"]
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
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, W, z = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            f = torch.tanh(z @ W.t() + x)
        u = grad_output
        grad_x, grad_W = torch.autograd.grad(f, (x, W), u)
        return grad_x, grad_W

# %% equilibrium-layer_2
"""In the backward equation the slope of tanh stands on the wrong side of the product with W. Going back through the layer means first tanh and then the product, so u = g + (u * slope) W; here W comes first and slope second, which belongs to another unknown."""
WRONG = ["u = settled(lambda u: grad_output + slope * (u @ W), grad_output)"]
RIGHT = ["u = settled(lambda u: grad_output + (slope * u) @ W, grad_output)"]
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
        return settled(lambda z: torch.tanh(z @ W.T + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: grad_output + slope * (u @ W), grad_output)
        grad_x = slope * u
        grad_W = grad_x.T @ z
        return grad_x, grad_W

# %% equilibrium-layer_3
"""The slope of tanh is computed from tanh(z), but the solution z is already the output of tanh. Its slope is 1 - z**2; a second tanh evaluates the derivative at the wrong point."""
WRONG = ["slope = 1 - torch.tanh(z) ** 2"]
RIGHT = ["slope = 1 - z**2"]
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
        return settled(lambda z: torch.tanh(z @ W.mT + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output):
        W, z = ctx.saved_tensors
        slope = 1 - torch.tanh(z) ** 2
        v = settled(lambda v: slope * (grad_output + v @ W), slope * grad_output)
        return v, v.mT @ z

# %% triangular-solve_1
"""The gradient of T is always cut to the lower half, also for lower=False. There the solver reads the upper half, so the real gradient is lost and only the diagonal is right (the rest lies in the half that is never read)."""
WRONG = ["grad_T = -(grad_B @ X.mT).tril()"]
RIGHT = ["grad_T = -(grad_B @ X.mT).tril() if ctx.lower else -(grad_B @ X.mT).triu()"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import torch
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T, B, lower=True):
        return torch.linalg.solve_triangular(T.detach(), B.detach(), upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        T, _, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        grad_T = -(grad_B @ X.mT).tril()
        return grad_T, grad_B, None

# %% triangular-solve_2
"""backward solves with the transpose of T but keeps the flag lower. The transpose of a lower triangular matrix is upper triangular, so the solver reads the half that contains arbitrary numbers; the flag has to be flipped."""
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
        return torch.linalg.solve_triangular(T.detach(), B.detach(), upper=not lower)

    @staticmethod
    def setup_context(ctx, inputs, output):
        T, B, lower = inputs
        ctx.save_for_backward(T, output)
        ctx.lower = lower

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, ctx.lower)
        grad_T = -grad_B @ X.mT
        return torch.tril(grad_T) if ctx.lower else torch.triu(grad_T), grad_B, None

# %% triangular-solve_3
"""The two factors of the gradient of T are swapped. From dX = -inv(T) dT X follows -grad_B X^T; X grad_B^T is its transpose, which has the same shape because T is square, so nothing complains."""
WRONG = ["grad_T = -X @ grad_B.mT"]
RIGHT = ["grad_T = -grad_B @ X.mT"]
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
        T, B, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output):
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        grad_T = -X @ grad_B.mT
        if ctx.lower:
            grad_T = grad_T.tril()
        else:
            grad_T = grad_T.triu()
        return grad_T, grad_B, None

# %% soft-threshold-function_1
"""The gradient of the threshold counts every surviving element with -1. A higher threshold moves positive numbers down but negative numbers up, so the factor is -sign(y); the elements with a negative y have the wrong sign."""
WRONG = ["grad_t = -(grad_output * kept).sum()"]
RIGHT = ["grad_t = -(grad_output * y.sign()).sum()"]
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
        kept = y != 0
        grad_x = grad_output * kept
        grad_t = -(grad_output * kept).sum()
        return grad_x, grad_t.reshape(ctx.shape)

# %% soft-threshold-function_2
"""The gradient of x is multiplied by sign(y). The sign occurs twice, once as the factor in front and once as the derivative of |x|, and the two cancel: the slope is 1 for all elements that are not 0, so the negative ones get the wrong sign."""
WRONG = ["grad_x = grad_output * direction"]
RIGHT = ["grad_x = grad_output * direction.abs()"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
        return torch.sign(x) * F.relu(x.abs() - threshold)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, threshold = inputs
        ctx.threshold_shape = threshold.shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (output,) = ctx.saved_tensors
        direction = torch.sign(output)
        grad_x = grad_output * direction
        grad_threshold = -(grad_output * direction).sum().reshape(ctx.threshold_shape)
        return grad_x, grad_threshold

# %% any-batch_1
"""After the export, model.train(training) sets the mode of the whole model. It also changes the layers that had a mode of their own, for example a frozen normalization in eval mode; the mode of each module has to be remembered and restored."""
WRONG = [
    "training = model.training",
    "model.train(training)",
]
RIGHT = [
    "training = [(module, module.training) for module in model.modules()]",
    "for module, mode in training:\n    module.training = mode",
]
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

# %% any-batch_2
"""The batch dim gets an upper bound of 1000, taken from the sentence in the task. The program has to accept batches of any size, but with this bound it refuses every larger batch."""
WRONG = ['batch = torch.export.Dim("batch", min=1, max=1000)']
RIGHT = ['batch = torch.export.Dim("batch")']
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch


def ship(model, example):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    batch = torch.export.Dim("batch", min=1, max=1000)
    try:
        return torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    finally:
        for module, mode in modes.items():
            module.training = mode

# %% lost-gradients_1
"""Each model gets its own random grad_outputs. The gradients of two different losses are compared, so nearly every parameter is reported although nothing was lost; the same g has to go back through both."""
WRONG = ["g = torch.randn_like(y)"]
RIGHT = ["g = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(0))"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def lost_gradients(model, shipped, x):
    def gradients(net):
        y = net(x)
        g = torch.randn_like(y)
        parameters = {name: p for name, p in net.named_parameters() if p.requires_grad}
        if not y.requires_grad:
            return {name: torch.zeros_like(p) for name, p in parameters.items()}
        grads = torch.autograd.grad(
            y, list(parameters.values()), g, allow_unused=True, materialize_grads=True
        )
        return dict(zip(parameters, grads))

    expected, arrived = gradients(model), gradients(shipped)
    return [
        name
        for name, gradient in expected.items()
        if not torch.allclose(gradient, arrived[name], rtol=1e-3, atol=1e-6)
    ]

# %% lost-gradients_2
"""allow_unused returns None for a parameter that is not used, and every None of the shipped model counts as lost. A parameter that neither model uses is None in both and must not count; the missing gradients have to be treated as zeros and then compared."""
WRONG = ["return torch.autograd.grad(y, chosen, g, allow_unused=True)"]
RIGHT = ["return torch.autograd.grad(y, chosen, g, allow_unused=True, materialize_grads=True)"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch


def lost_gradients(model, shipped, x):
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    eager_y, shipped_y = model(x), shipped(x)
    g = torch.randn_like(eager_y)

    def gradients(net, y):
        parameters = dict(net.named_parameters())
        chosen = [parameters[name] for name in names]
        if not y.requires_grad:
            return [torch.zeros_like(p) for p in chosen]
        return torch.autograd.grad(y, chosen, g, allow_unused=True)

    lost = []
    for name, a, b in zip(names, gradients(model, eager_y), gradients(shipped, shipped_y)):
        if b is None or not torch.allclose(a, b, rtol=1e-3, atol=1e-6):
            lost.append(name)
    return lost

# %% reversal-that-travels_1
"""The value is right, but x itself already contributes the gradient 1, so the whole gradient is 1 - strength instead of -strength. The detached difference needs the factor 1 + strength."""
WRONG = ["return x + strength * (x.detach() - x)"]
RIGHT = ["return x + (1 + strength) * (x.detach() - x)"]
NAME = "reverse"
EXERCISE = "reversal-that-travels"
# --- code
import torch


def reverse(x: torch.Tensor, strength: float) -> torch.Tensor:
    return x + strength * (x.detach() - x)

# %% eight-bits_1
"""The scale is computed from the weight with its graph, and only the rounding is passed straight through. So a second gradient flows through the scale to the largest element of each row; the scale has to be a constant for the gradient to be the identity."""
WRONG = ["largest = weight.abs().amax(dim=1, keepdim=True)"]
RIGHT = ["largest = weight.detach().abs().amax(dim=1, keepdim=True)"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight: torch.Tensor) -> torch.Tensor:
    largest = weight.abs().amax(dim=1, keepdim=True)
    scale = (largest / 127.5).clamp(min=torch.finfo(weight.dtype).eps)
    scaled = weight / scale
    integers = scaled.detach().round().clamp(-128, 127)
    return (integers + (scaled - scaled.detach())) * scale

# %% eight-bits_2
"""Only the rounding is passed straight through, the clamp is not. The positive maximum of a row is 127.5 before and 128 after rounding, so the clamp cuts it to 127 and its gradient becomes 0; the clamp belongs inside the detached part."""
WRONG = ["integers = (scaled + (scaled.round() - scaled).detach()).clamp(-128, 127)"]
RIGHT = ["integers = scaled + (scaled.round().clamp(-128, 127) - scaled).detach()"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch


def eight_bits(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        scale = weight.abs().amax(1, keepdim=True) / 127.5
        scale = scale.clamp(min=torch.finfo(weight.dtype).eps)
    scaled = weight / scale
    integers = (scaled + (scaled.round() - scaled).detach()).clamp(-128, 127)
    return integers * scale

# %% the-sorter_1
"""Rounding to multiples of 1/2 between -1 and 1 gives five values (-1, -1/2, 0, 1/2, 1), not four: the four steps were counted instead of their ends. Four values from -1 to 1 are 2/3 apart."""
WRONG = ["levels = (x * 2).round() / 2"]
RIGHT = ["levels = ((x + 1) * 1.5).round() / 1.5 - 1"]
NAME = "deliver"
EXERCISE = "the-sorter"
# --- code
import torch
import torch.nn.functional as F


def four_levels(x: torch.Tensor) -> torch.Tensor:
    x = torch.tanh(x)
    levels = (x * 2).round() / 2
    return levels.detach() + (x - x.detach())


class Sorter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 64)
        self.last = torch.nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = four_levels(self.first(images))
        hidden = four_levels(self.second(hidden))
        return self.last(hidden)


def deliver(images: torch.Tensor, labels: torch.Tensor) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    net = Sorter()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()
    net.eval()
    batch = torch.export.Dim("batch")
    return torch.export.export(net, (images[:8],), dynamic_shapes=({0: batch},))
