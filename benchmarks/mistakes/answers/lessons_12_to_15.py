"""Mistakes of learners in lessons 12 to 15; see benchmarks/repairs.py."""

# %% repair-graph-breaks_1
"""The slope of delta * |x| is delta * sign(x), but the backward uses delta alone. Negative outliers therefore get a gradient with the wrong sign."""
WRONG = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)"]
RIGHT = ["slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta * x.sign())"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        slope = torch.where(x.abs() <= ctx.delta, x, ctx.delta)
        return grad_output * slope, None


# %% repair-graph-breaks_2
"""Indexing with a boolean mask makes a tensor whose size depends on the values (a nonzero in disguise), so the compiler still breaks the graph there. Values and gradients are right in eager mode, but the Function is not one graph; torch.where keeps all shapes static."""
WRONG = ["y[large] = delta * (x[large].abs() - delta / 2)"]
RIGHT = ["y = torch.where(large, delta * (x.abs() - delta / 2), y)"]
NAME = "Huber"
EXERCISE = "repair-graph-breaks"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        y = x**2 / 2
        large = x.abs() > delta
        y[large] = delta * (x[large].abs() - delta / 2)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        slope = x.clamp(-ctx.delta, ctx.delta)
        return grad_output * slope, None


# %% operator-window-sums_1
"""x.numpy() shares its memory with x, and the vendor's routine works in place, so the operator overwrites its input although it is declared with mutates_args=(). The routine has to work on a copy."""
WRONG = ["series = x.numpy(force=True)"]
RIGHT = ["series = x.numpy(force=True).copy()"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def vendor_sums(series: np.ndarray, width: int) -> np.ndarray:
    np.cumsum(series, axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: Tensor, width: int) -> Tensor:
    series = x.numpy(force=True)
    sums = vendor_sums(series, width)
    return torch.from_numpy(sums.copy())


@window_sums.register_fake
def fake(x: Tensor, width: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output) -> None:
    _, ctx.width = inputs


def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
    padding = ctx.width - 1
    padded = F.pad(grad_output, (padding, padding))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% operator-window-sums_2
"""The gradient is padded with width zeros at each end instead of width - 1. The window sums of the padded gradient then have two elements more than x, so the gradient has the wrong shape and is shifted by one."""
WRONG = ["padding = ctx.width"]
RIGHT = ["padding = ctx.width - 1"]
NAME = "window_sums"
EXERCISE = "operator-window-sums"
# --- code
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def vendor_sums(series: np.ndarray, width: int) -> np.ndarray:
    np.cumsum(series, axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: Tensor, width: int) -> Tensor:
    series = x.numpy(force=True).copy()
    sums = vendor_sums(series, width)
    return torch.from_numpy(sums.copy())


@window_sums.register_fake
def fake(x: Tensor, width: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output) -> None:
    _, ctx.width = inputs


def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
    padding = ctx.width
    padded = F.pad(grad_output, (padding, padding))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)


# %% repair-autocast_1
"""custom_fwd without cast_inputs only records the autocast state; autocast stays on inside forward. The matrix product is therefore still computed in bfloat16, and custom_bwd repeats that in backward."""
WRONG = ["@custom_fwd(device_type=\"cpu\")"]
RIGHT = ["@custom_fwd(device_type=\"cpu\", cast_inputs=torch.float32)"]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, q: Tensor, k: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% repair-autocast_2
"""backward is not decorated with custom_bwd, so it runs under whatever autocast state is active when backward() is called. In a loop that calls backward() inside the autocast block, its matrix products are computed in bfloat16."""
WRONG = ["@staticmethod\ndef backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:"]
RIGHT = ["@staticmethod\n@custom_bwd(device_type=\"cpu\")\ndef backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:"]
NAME = "Contrast"
EXERCISE = "repair-autocast"
# --- code
import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function


class Contrast(Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, q: Tensor, k: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


# %% lambert-w_1
"""The form w / (x (1 + w)) follows from e^w = x / w, which divides by zero at x = 0: both numerator and denominator vanish and the gradient there is nan instead of 1. The form 1 / (e^w (1 + w)) is valid everywhere."""
WRONG = ["slope = w / (x * (1 + w))"]
RIGHT = ["slope = 1 / (torch.exp(w) * (1 + w))"]
NAME = "LambertW"
EXERCISE = "lambert-w"
# --- code
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


class LambertW(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        w = scipy.special.lambertw(x.numpy(force=True)).real
        return torch.as_tensor(w, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, w = ctx.saved_tensors
        slope = w / (x * (1 + w))
        return grad_output * slope


# %% lambert-w_2
"""The product rule is missing when w e^w = x is differentiated: d/dw (w e^w) = e^w + w e^w = e^w (1 + w), but only the derivative w e^w of the exponential is used. The first term is lost (and the gradient is infinite at x = 0)."""
WRONG = ["return grad_output / (torch.exp(w) * w)"]
RIGHT = ["return grad_output / (torch.exp(w) * (1 + w))"]
NAME = "LambertW"
EXERCISE = "lambert-w"
# --- code
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


class LambertW(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        w = scipy.special.lambertw(x.numpy(force=True)).real
        return torch.as_tensor(w, dtype=x.dtype, device=x.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (w,) = ctx.saved_tensors
        return grad_output / (torch.exp(w) * w)


# %% kepler_1
"""Differentiating E - e sin E = M with respect to e gives dE/de (1 - e cos E) = sin E, because E itself depends on e. The division by 1 - e cos E is missing in the gradient of e."""
WRONG = ["grad_e = (grad_output * torch.sin(E)).sum()"]
RIGHT = ["grad_e = (grad_M * torch.sin(E)).sum()"]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import numpy as np
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


def solve_kepler(M, e):
    def error(E):
        return E - e * np.sin(E) - M

    def slope(E):
        return 1 - e * np.cos(E)

    return scipy.optimize.newton(error, np.full_like(M, np.pi), slope, tol=1e-13)


class Kepler(Function):
    @staticmethod
    def forward(M: Tensor, e: Tensor) -> Tensor:
        E = solve_kepler(M.numpy(force=True), e.numpy(force=True))
        return torch.as_tensor(E, dtype=M.dtype, device=M.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        M, e = inputs
        ctx.save_for_backward(e, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        e, E = ctx.saved_tensors
        grad_M = grad_output / (1 - e * torch.cos(E))
        grad_e = (grad_output * torch.sin(E)).sum()
        return grad_M, grad_e


# %% kepler_2
"""e is kept as a Python number, so backward treats it as a constant. The first derivatives are right, but the direct dependence of the gradients on e is lost in double backward, and the second derivatives with respect to e are wrong; e must go through save_for_backward."""
WRONG = ["ctx.save_for_backward(output)\nctx.e = e.item()", "(E,) = ctx.saved_tensors\ne = ctx.e"]
RIGHT = ["ctx.save_for_backward(output, e)", "E, e = ctx.saved_tensors"]
NAME = "Kepler"
EXERCISE = "kepler"
# --- code
import numpy as np
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


def solve_kepler(M, e):
    def error(E):
        return E - e * np.sin(E) - M

    def slope(E):
        return 1 - e * np.cos(E)

    return scipy.optimize.newton(error, np.full_like(M, np.pi), slope, tol=1e-13)


class Kepler(Function):
    @staticmethod
    def forward(M: Tensor, e: Tensor) -> Tensor:
        E = solve_kepler(M.numpy(force=True), e.numpy(force=True))
        return torch.as_tensor(E, dtype=M.dtype, device=M.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        M, e = inputs
        ctx.save_for_backward(output)
        ctx.e = e.item()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (E,) = ctx.saved_tensors
        e = ctx.e
        grad_M = grad_output / (1 - e * torch.cos(E))
        grad_e = (grad_M * torch.sin(E)).sum()
        return grad_M, grad_e


# %% equilibrium-layer_1
"""The adjoint equation needs the transposed Jacobian. The layer computes z W^T, so its vector-Jacobian product multiplies by W, not by W^T again; the gradients are only right for a symmetric W."""
WRONG = ["v = settled(lambda v: grad_output + (v * slope) @ W.t(), grad_output)"]
RIGHT = ["v = settled(lambda v: grad_output + (v * slope) @ W, grad_output)"]
NAME = "Equilibrium"
EXERCISE = "equilibrium-layer"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def settled(step, start: Tensor) -> Tensor:
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


class Equilibrium(Function):
    @staticmethod
    def forward(x: Tensor, W: Tensor) -> Tensor:
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        x, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        v = settled(lambda v: grad_output + (v * slope) @ W.t(), grad_output)
        grad_x = v * slope
        grad_W = grad_x.t() @ z
        return grad_x, grad_W


# %% equilibrium-layer_2
"""The gradient is only propagated through one application of the layer. z also appears on the right-hand side, so the adjoint equation v = g + (v * slope) W has to be solved; using v = g ignores that z depends on itself."""
WRONG = ["v = grad_output"]
RIGHT = ["v = settled(lambda v: grad_output + (v * slope) @ W, grad_output)"]
NAME = "Equilibrium"
EXERCISE = "equilibrium-layer"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def settled(step, start: Tensor) -> Tensor:
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


class Equilibrium(Function):
    @staticmethod
    def forward(x: Tensor, W: Tensor) -> Tensor:
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        x, W = inputs
        ctx.save_for_backward(W, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        v = grad_output
        grad_x = v * slope
        grad_W = grad_x.t() @ z
        return grad_x, grad_W


# %% triangular-solve_1
"""The transpose of a lower triangular matrix is upper triangular, so the flag has to be flipped in backward. With the unchanged flag, SciPy reads the other half of T^T, which holds arbitrary numbers."""
WRONG = ["grad_B = TriangularSolve.apply(T.t(), grad_output, ctx.lower)"]
RIGHT = ["grad_B = TriangularSolve.apply(T.t(), grad_output, not ctx.lower)"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        X = scipy.linalg.solve_triangular(T.numpy(force=True), B.numpy(force=True), lower=lower)
        return torch.as_tensor(X, dtype=B.dtype, device=B.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        T, B, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.t(), grad_output, ctx.lower)
        grad_T = -grad_B @ X.t()
        grad_T = grad_T.tril() if ctx.lower else grad_T.triu()
        return grad_T, grad_B, None


# %% triangular-solve_2
"""The gradient of T is always cut to the lower half, but with lower=False the solver reads the upper half. The strict upper part of the gradient is then lost, and the unread half gets values that should be zero."""
WRONG = ["grad_T = grad_T.tril()"]
RIGHT = ["grad_T = grad_T.tril() if ctx.lower else grad_T.triu()"]
NAME = "TriangularSolve"
EXERCISE = "triangular-solve"
# --- code
import scipy
import torch
from torch import Tensor
from torch.autograd import Function


class TriangularSolve(Function):
    @staticmethod
    def forward(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        X = scipy.linalg.solve_triangular(T.numpy(force=True), B.numpy(force=True), lower=lower)
        return torch.as_tensor(X, dtype=B.dtype, device=B.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        T, B, ctx.lower = inputs
        ctx.save_for_backward(T, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        T, X = ctx.saved_tensors
        grad_B = TriangularSolve.apply(T.t(), grad_output, not ctx.lower)
        grad_T = -grad_B @ X.t()
        grad_T = grad_T.tril()
        return grad_T, grad_B, None


# %% soft-threshold-operator_1
"""empty_like keeps the strides of its argument. For a transposed x, y gets transposed memory, but the loop fills it in the order of the contiguous copy, so the results land in the wrong places; y must be made like the contiguous copy."""
WRONG = ["Tensor y = torch::stable::empty_like(x);"]
RIGHT = ["Tensor y = torch::stable::empty_like(flat);"]
NAME = "soft_threshold"
EXERCISE = "soft-threshold-operator"
# --- code
import torch
from torch import Tensor
from torch.utils import cpp_extension


def build(text: str):
    name = "soft_threshold_" + format(hash(text) & 0xFFFFFFFF, "x")
    cpp_extension.load_inline(name, text, is_python_module=False, no_implicit_headers=True)
    return getattr(torch.ops, name)


def source() -> str:
    return r"""
#include <cmath>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename T>
void run(const Tensor& x, Tensor& y, double t) {
  const T* from = static_cast<const T*>(x.data_ptr());
  T* to = static_cast<T*>(y.data_ptr());
  const T limit = static_cast<T>(t);
  for (int64_t i = 0; i < x.numel(); ++i) {
    T rest = std::abs(from[i]) - limit;
    if (rest < 0) rest = 0;
    to[i] = from[i] < 0 ? -rest : rest;
  }
}

Tensor soft_threshold(const Tensor& x, double t) {
  STD_TORCH_CHECK(
      x.scalar_type() == ScalarType::Double || x.scalar_type() == ScalarType::Float,
      "soft_threshold: x must be float32 or float64");
  Tensor flat = torch::stable::contiguous(x);
  Tensor y = torch::stable::empty_like(x);
  if (x.scalar_type() == ScalarType::Double) {
    run<double>(flat, y, t);
  } else {
    run<float>(flat, y, t);
  }
  return y;
}

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
  m.def("soft_threshold(Tensor x, float t) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
  m.impl("soft_threshold", TORCH_BOX(&soft_threshold));
}
"""


def soft_threshold(x: Tensor, threshold: float) -> Tensor:
    return build(source()).soft_threshold(x, threshold)


# %% soft-threshold-function_1
"""The soft threshold also has slope 1 for x < -t, where y is negative. The mask y > 0 (as for a ReLU) sets the gradient of all these elements to zero; it should be y != 0."""
WRONG = ["grad_x = grad_output * (y > 0)"]
RIGHT = ["grad_x = grad_output * (y != 0)"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        x, threshold = inputs
        ctx.shape = threshold.shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        grad_x = grad_output * (y > 0)
        grad_threshold = -(grad_output * y.sign()).sum().reshape(ctx.shape)
        return grad_x, grad_threshold


# %% soft-threshold-function_2
"""dy/dt is -sign(x), not -1: for negative numbers a larger threshold moves y up. The sign is missing, so elements with x < -t contribute to the gradient of the threshold with the wrong sign."""
WRONG = ["grad_threshold = -(grad_output * (y != 0)).sum().reshape(ctx.shape)"]
RIGHT = ["grad_threshold = -(grad_output * y.sign()).sum().reshape(ctx.shape)"]
NAME = "SoftThreshold"
EXERCISE = "soft-threshold-function"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SoftThreshold(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        x, threshold = inputs
        ctx.shape = threshold.shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        grad_x = grad_output * (y != 0)
        grad_threshold = -(grad_output * (y != 0)).sum().reshape(ctx.shape)
        return grad_x, grad_threshold


# %% any-batch_1
"""train() switches every layer to training mode. A layer that was frozen in eval mode before the call (or a whole model in eval mode) does not get its own mode back; the mode of each layer has to be stored and restored."""
WRONG = ["model.eval()", "model.train()"]
RIGHT = ["modes = [(layer, layer.training) for layer in model.modules()]\nmodel.eval()", "for layer, mode in modes:\nlayer.training = mode"]
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch
from torch import Tensor, nn
from torch.export import Dim


def ship(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    model.eval()
    program = torch.export.export(model, (example,), dynamic_shapes=({0: Dim("batch")},))
    model.train()
    return program


# %% any-batch_2
"""The range of the dynamic batch dimension is limited to 1000, the number from the text. The exported program contains a check of this range and rejects larger batches, but it has to take batches of any size."""
WRONG = ["program = torch.export.export(model, (example,), dynamic_shapes=({0: Dim(\"batch\", min=1, max=1000)},))"]
RIGHT = ["program = torch.export.export(model, (example,), dynamic_shapes=({0: Dim(\"batch\")},))"]
NAME = "ship"
EXERCISE = "any-batch"
# --- code
import torch
from torch import Tensor, nn
from torch.export import Dim


def ship(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    program = torch.export.export(model, (example,), dynamic_shapes=({0: Dim("batch", min=1, max=1000)},))
    for layer, mode in modes:
        layer.training = mode
    return program


# %% lost-gradients_1
"""With g = 1 for every output, the gradient of a softmax is zero, because its outputs always sum to one. Both models then get (nearly) zero gradients, and a lost gradient is not found; g has to be random or otherwise not constant."""
WRONG = ["g = torch.ones_like(y)"]
RIGHT = ["g = torch.randn_like(y)"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch
from torch import Tensor, nn


def lost_gradients(model: nn.Module, shipped: nn.Module, x: Tensor) -> list[str]:
    with torch.no_grad():
        y = model(x)
    g = torch.ones_like(y)

    def gradients(net: nn.Module) -> dict[str, Tensor]:
        params = {name: p for name, p in net.named_parameters() if p.requires_grad}
        output = net(x)
        if not output.requires_grad:
            return {name: torch.zeros_like(p) for name, p in params.items()}
        grads = torch.autograd.grad(output, list(params.values()), g, allow_unused=True)
        return dict(zip(params, grads))

    expected, actual = gradients(model), gradients(shipped)
    lost = []
    for name, a in expected.items():
        b = actual.get(name)
        if a is None and b is None:
            continue
        a = torch.zeros_like(b) if a is None else a
        b = torch.zeros_like(a) if b is None else b
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-6):
            lost.append(name)
    return lost


# %% lost-gradients_2
"""A new random g is drawn for each of the two models, so the gradients differ even if none was lost. The same g has to go back through both."""
WRONG = ["grads = torch.autograd.grad(output, list(params.values()), torch.randn_like(output), allow_unused=True)"]
RIGHT = ["grads = torch.autograd.grad(output, list(params.values()), g, allow_unused=True)"]
NAME = "lost_gradients"
EXERCISE = "lost-gradients"
# --- code
import torch
from torch import Tensor, nn


def lost_gradients(model: nn.Module, shipped: nn.Module, x: Tensor) -> list[str]:
    with torch.no_grad():
        y = model(x)
    g = torch.randn_like(y)

    def gradients(net: nn.Module) -> dict[str, Tensor]:
        params = {name: p for name, p in net.named_parameters() if p.requires_grad}
        output = net(x)
        if not output.requires_grad:
            return {name: torch.zeros_like(p) for name, p in params.items()}
        grads = torch.autograd.grad(output, list(params.values()), torch.randn_like(output), allow_unused=True)
        return dict(zip(params, grads))

    expected, actual = gradients(model), gradients(shipped)
    lost = []
    for name, a in expected.items():
        b = actual.get(name)
        if a is None and b is None:
            continue
        a = torch.zeros_like(b) if a is None else a
        b = torch.zeros_like(a) if b is None else b
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-5 * float(a.abs().max())):
            lost.append(name)
    return lost


# %% reversal-that-travels_1
"""The value is right, but the x in front of the sum still carries the gradient 1, so the gradient is 1 - strength instead of -strength. That term has to be detached as well."""
WRONG = ["return x + strength * (x.detach() - x)"]
RIGHT = ["return x.detach() + strength * (x.detach() - x)"]
NAME = "reverse"
EXERCISE = "reversal-that-travels"
# --- code
import torch
from torch import Tensor


def reverse(x: Tensor, strength: float) -> Tensor:
    return x + strength * (x.detach() - x)


# %% round-away-in-onnx_1
"""ONNX's Round rounds halves to the nearest even number, like torch.round. The chip rounds halves away from zero, so 0.5, 2.5 and their negatives come out wrong; it has to be the floor of |x| / step + 1/2."""
WRONG = ["whole = op.Round(size)"]
RIGHT = ["whole = op.Floor(op.Add(size, 0.5))"]
NAME = "round_away_in_onnx"
EXERCISE = "round-away-in-onnx"
# --- code
def round_away_in_onnx(x, step: float):
    from onnxscript import opset18 as op

    size = op.Div(op.Abs(x), step)
    whole = op.Round(size)
    return op.Mul(op.Mul(op.Sign(x), whole), step)


# %% eight-bits_1
"""The maximum is taken over dim 0, which gives one scale for each column. The scale belongs to a row, so the maximum has to run over the columns (dim 1)."""
WRONG = ["scale = (weight.detach().abs().amax(dim=0, keepdim=True) / 127.5).clamp(min=eps)"]
RIGHT = ["scale = (weight.detach().abs().amax(dim=1, keepdim=True) / 127.5).clamp(min=eps)"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch
from torch import Tensor


def eight_bits(weight: Tensor) -> Tensor:
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.detach().abs().amax(dim=0, keepdim=True) / 127.5).clamp(min=eps)
    rounded = scale * (weight.detach() / scale).round().clamp(-128, 127)
    return rounded + (weight - weight.detach())


# %% eight-bits_2
"""Only the rounding is bypassed; the gradient still goes through the clamp and through the scale. The clamp blocks it where the largest positive weight of a row rounds to 128, and the scale sends an extra gradient to the largest weight of each row. It has to pass straight through the whole computation."""
WRONG = ["whole = (ratio + (ratio.round() - ratio).detach()).clamp(-128, 127)", "return scale * whole"]
RIGHT = ["whole = ratio.round().clamp(-128, 127)", "return (scale * whole).detach() + weight - weight.detach()"]
NAME = "eight_bits"
EXERCISE = "eight-bits"
# --- code
import torch
from torch import Tensor


def eight_bits(weight: Tensor) -> Tensor:
    eps = torch.finfo(weight.dtype).eps
    scale = (weight.abs().amax(dim=1, keepdim=True) / 127.5).clamp(min=eps)
    ratio = weight / scale
    whole = (ratio + (ratio.round() - ratio).detach()).clamp(-128, 127)
    return scale * whole


# %% the-sorter_1
"""Rounding to halves between -1 and 1 gives the five values -1, -0.5, 0, 0.5 and 1. Four levels have only three steps between them, so the grid must have a step of 2/3."""
WRONG = ["levels = (2 * (x + 1)).round() / 2 - 1"]
RIGHT = ["levels = (1.5 * (x + 1)).round() / 1.5 - 1"]
NAME = "deliver"
EXERCISE = "the-sorter"
# --- code
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim


def four_levels(x: Tensor) -> Tensor:
    x = x.clamp(-1, 1)
    levels = (2 * (x + 1)).round() / 2 - 1
    return levels.detach() + (x - x.detach())


class Sorter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.second = nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = four_levels(self.first(images))
        return self.second(hidden)


def deliver(images: Tensor, labels: Tensor) -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    net = Sorter()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()
    net.eval()
    return torch.export.export(net, (images[:8],), dynamic_shapes=({0: Dim("batch")},))
