"""Mistakes: linear algebra. Each cell is a separate module; see benchmarks/repairs.py."""

# %% attention_1
"""The saved output is multiplied in place to avoid an allocation, which changes the tensor the caller holds, and the gradient of the temperature lacks the minus of d(1/t)."""
WRONG = ["grad_z = probs.mul_(grad_probs - dot)", "grad_t = (grad_z * scores).sum() / t ** 2"]
RIGHT = ["grad_z = probs * (grad_probs - dot)", "grad_t = -(grad_z * scores).sum() / t ** 2"]
NAME = "TemperatureSoftmax"
# --- code
import torch
from torch.autograd import Function


class TemperatureSoftmax(Function):
    """softmax(scores / t) over the last dim, t a trainable scalar tensor."""

    @staticmethod
    def forward(ctx, scores, t):
        probs = torch.softmax(scores / t, dim=-1)
        ctx.save_for_backward(scores, t, probs)
        return probs

    @staticmethod
    def backward(ctx, grad_probs):
        scores, t, probs = ctx.saved_tensors
        dot = (grad_probs * probs).sum(dim=-1, keepdim=True)
        # gradient with respect to scores / t
        grad_z = probs.mul_(grad_probs - dot)
        grad_scores = grad_z / t
        grad_t = (grad_z * scores).sum() / t ** 2
        return grad_scores, grad_t


def inputs():
    torch.manual_seed(30)
    return torch.randn(2, 3, 4), torch.tensor(0.7)


def reference(scores, t):
    return torch.softmax(scores / t, dim=-1)

# %% attention_2
"""Backward rotates the gradient by the same angle as forward, because a rotation is orthogonal; its transpose is the rotation by the opposite angle."""
WRONG = ["return _rotate(grad_output, cos, sin), None"]
RIGHT = ["return _rotate(grad_output, cos, -sin), None"]
NAME = "RotaryEmbedding"
# --- code
import torch
import math
from torch.autograd import Function


def _tables(x, base):
    """cos and sin, (T, D/2), in the dtype of x"""
    T, D = x.shape[-2:]
    freq = torch.exp(-math.log(base) * torch.arange(0, D, 2, dtype=x.dtype, device=x.device) / D)
    angle = torch.arange(T, dtype=x.dtype, device=x.device)[:, None] * freq
    return angle.cos(), angle.sin()


def _rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class RotaryEmbedding(Function):

    @staticmethod
    def forward(x, base):
        return _rotate(x, *_tables(x, base))

    @staticmethod
    def setup_context(ctx, inputs, output):
        # the map is linear, nothing of x is needed later
        _, ctx.base = inputs

    @staticmethod
    def backward(ctx, grad_output):
        cos, sin = _tables(grad_output, ctx.base)
        return _rotate(grad_output, cos, sin), None


def inputs():
    torch.manual_seed(31)
    return torch.randn(2, 5, 6), 100.0


def reference(x, base):
    cos, sin = _tables(x, base)
    a, b = x.chunk(2, dim=-1)
    z = torch.complex(a, b) * torch.complex(cos, sin)
    return torch.cat((z.real, z.imag), dim=-1)

# %% complex_1
"""The direction of z is conjugated: the author used the Wirtinger derivative d|z|/dz, while PyTorch's gradient is the conjugate one and points along z."""
WRONG = ["return grad_output * torch.sgn(z).conj()"]
RIGHT = ["return grad_output * torch.sgn(z)"]
NAME = "ComplexAbs"
# --- code
import torch
from torch.autograd import Function


class ComplexAbs(Function):
    """|z| of a complex tensor (the result is real)."""

    @staticmethod
    def forward(z):
        return torch.sqrt(z.real ** 2 + z.imag ** 2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, = inputs
        ctx.save_for_backward(z)

    @staticmethod
    def backward(ctx, grad_output):
        z, = ctx.saved_tensors
        return grad_output * torch.sgn(z).conj()


def inputs():
    torch.manual_seed(32)
    return (torch.randn(3, 4, dtype=torch.complex128),)


def reference(z):
    return z.abs()

# %% complex_2
"""The gradient is divided by |z| instead of its square: the tangential unit vector was remembered, but not that the angle also shrinks with the radius."""
WRONG = ["denom = (z.real.square() + z.imag.square()).sqrt()"]
RIGHT = ["denom = z.real.square() + z.imag.square()"]
NAME = "Phase"
# --- code
import torch
from torch.autograd import Function


class Phase(Function):
    """atan2(Im z, Re z).

    Moving z sideways turns it, moving it outwards does not, so the
    gradient points along i*z.
    """

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.atan2(z.imag, z.real)

    @staticmethod
    def backward(ctx, grad_output):
        (z,) = ctx.saved_tensors
        denom = (z.real.square() + z.imag.square()).sqrt()
        denom = torch.where(denom == 0, torch.ones_like(denom), denom)   # phase of 0: no gradient
        return (grad_output / denom) * (1j * z)


def inputs():
    torch.manual_seed(33)
    return (torch.randn(2, 5, dtype=torch.complex128),)


def reference(z):
    return z.angle()

# %% complex_3
"""The gain of the inner bins lacks the factor two: the author forgot that each bin of rfft stands for a pair of frequencies, and checked only the gradient of the signal."""
WRONG = []
RIGHT = ["grad_gain[1:(n + 1) // 2] *= 2"]
NAME = "SpectralGain"
# --- code
import torch
from torch.autograd import Function


class SpectralGain(Function):
    """Filter a real signal with one real gain per rfft bin.

    x: (batch, n), gain: (n // 2 + 1,)
    """

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return torch.fft.irfft(torch.fft.rfft(x) * gain, n=x.shape[-1])

    @staticmethod
    def backward(ctx, grad_output):
        x, gain = ctx.saved_tensors
        n = x.shape[-1]
        G = torch.fft.rfft(grad_output)
        # a real gain is a symmetric filter, so it is its own adjoint
        grad_x = torch.fft.irfft(G * gain, n=n)
        grad_gain = (torch.fft.rfft(x).conj() * G).real.sum(0) / n
        return grad_x, grad_gain


def inputs():
    torch.manual_seed(34)
    return torch.randn(3, 8), torch.rand(5)


def reference(x, gain):
    return torch.fft.irfft(torch.fft.rfft(x) * gain, n=x.shape[-1])

# %% conv_1
"""The kernel is flipped before the transposed convolution; the author knows that the adjoint uses the flipped kernel, not that conv_transpose1d already is the adjoint."""
WRONG = ["grad_x = F.conv_transpose1d(grad_output, w.flip(-1), padding=p)"]
RIGHT = ["grad_x = F.conv_transpose1d(grad_output, w, padding=p)"]
NAME = "Conv1d"
# --- code
import torch
from torch.autograd import Function

F = torch.nn.functional


class Conv1d(Function):
    """Stride 1 convolution, x (N, Cin, L), w (Cout, Cin, K), bias (Cout,)."""

    @staticmethod
    def forward(x, w, bias, padding):
        return F.conv1d(x, w, bias, padding=padding)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, bias, padding = inputs
        ctx.save_for_backward(x, w)
        ctx.padding = padding

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        p = ctx.padding
        grad_x = F.conv_transpose1d(grad_output, w.flip(-1), padding=p)
        # correlate input with grad, batch takes the role of the channels
        grad_w = F.conv1d(x.transpose(0, 1), grad_output.transpose(0, 1), padding=p).transpose(0, 1)
        grad_b = grad_output.sum((0, 2))
        return grad_x, grad_w, grad_b, None


def inputs():
    torch.manual_seed(20)
    return torch.randn(2, 3, 7), torch.randn(4, 3, 3), torch.randn(4), 1


def reference(x, w, bias, padding):
    return F.conv1d(x, w, bias, padding=padding)

# %% conv_2
"""Backward assigns into the input gradient instead of adding to it, mirroring the loop of forward; every later tap overwrites what the earlier taps left where their windows overlap."""
WRONG = ["grad_x[:, :, k:k + T] = grad_output * w[:, k, None]"]
RIGHT = ["grad_x[:, :, k:k + T] += grad_output * w[:, k, None]"]
NAME = "DepthwiseConv1d"
# --- code
import torch
from torch.autograd import Function


class DepthwiseConv1d(Function):
    """One small filter per channel, no padding. x (N, C, L), w (C, K)."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        K = w.shape[1]
        T = x.shape[2] - K + 1
        out = x.new_zeros(x.shape[0], x.shape[1], T)
        for k in range(K):
            out += x[:, :, k:k + T] * w[:, k, None]
        return out

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        K, T = w.shape[1], grad_output.shape[2]
        grad_x = torch.zeros_like(x)
        taps = []
        for k in range(K):
            grad_x[:, :, k:k + T] = grad_output * w[:, k, None]
            taps.append((grad_output * x[:, :, k:k + T]).sum((0, 2)))
        return grad_x, torch.stack(taps, dim=1)


def inputs():
    torch.manual_seed(21)
    return torch.randn(2, 3, 6), torch.randn(3, 3)


def reference(x, w):
    return torch.nn.functional.conv1d(x, w[:, None, :], groups=w.shape[0])

# %% conv_3
"""The kernel size is kept on the class, as one would keep it on self; a second call with another size changes what the backward of the first one sees."""
WRONG = ["AvgPool2d.k = k", "k = AvgPool2d.k"]
RIGHT = ["ctx.k = k", "k = ctx.k"]
NAME = "AvgPool2d"
# --- code
import torch
from torch.autograd import Function


class AvgPool2d(Function):
    """Non-overlapping average pooling; H and W must be multiples of k."""

    @staticmethod
    def forward(ctx, x, k):
        n, c, h, w = x.shape
        AvgPool2d.k = k
        return x.reshape(n, c, h // k, k, w // k, k).mean(dim=(3, 5))

    @staticmethod
    def backward(ctx, grad_output):
        k = AvgPool2d.k
        # every pixel of a window gets the same share
        share = grad_output / (k * k)
        grad_x = share.repeat_interleave(k, dim=2).repeat_interleave(k, dim=3)
        return grad_x, None


def inputs():
    torch.manual_seed(22)
    return torch.randn(2, 2, 4, 6), 2


def reference(x, k):
    return torch.nn.functional.avg_pool2d(x, k)

# %% conv_4
"""Backward picks one pixel of each block, because downsampling seems to undo upsampling; the gradient has to collect all copies of a pixel."""
WRONG = ["grad_x = grad_output[..., ::f, ::f]"]
RIGHT = ["grad_x = grad_output.unflatten(-1, (-1, f)).unflatten(-3, (-1, f)).sum(dim=(-3, -1))"]
NAME = "UpsampleNearest"
# --- code
import torch
from torch.autograd import Function


class UpsampleNearest(Function):

    @staticmethod
    def forward(x, factor):
        return x.repeat_interleave(factor, dim=-2).repeat_interleave(factor, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs

    @staticmethod
    def backward(ctx, grad_output):
        f = ctx.factor
        # back to the small grid
        grad_x = grad_output[..., ::f, ::f]
        return grad_x, None


def inputs():
    torch.manual_seed(23)
    return torch.randn(2, 1, 3, 4), 2


def reference(x, factor):
    return torch.nn.functional.interpolate(x, scale_factor=factor, mode="nearest")

# %% conv_5
"""The folded gradient is divided by the number of overlapping windows, as one does to invert unfold; the adjoint just adds them up."""
WRONG = ["grad_x = grad_x / F.fold(torch.ones_like(grad_cols), ctx.size, ctx.kernel, stride=ctx.stride).clamp(min=1)"]
RIGHT = []
NAME = "Unfold2d"
# --- code
import torch
from torch.autograd import Function

F = torch.nn.functional


class Unfold2d(Function):
    """im2col: (N, C, H, W) -> (N, C*k*k, number of windows)."""

    @staticmethod
    def forward(ctx, x, kernel, stride):
        ctx.size = x.shape[-2:]
        ctx.kernel = kernel
        ctx.stride = stride
        return F.unfold(x, kernel, stride=stride)

    @staticmethod
    def backward(ctx, grad_cols):
        grad_x = F.fold(grad_cols, ctx.size, ctx.kernel, stride=ctx.stride)
        # pixels that lie in several windows were counted several times
        grad_x = grad_x / F.fold(torch.ones_like(grad_cols), ctx.size, ctx.kernel, stride=ctx.stride).clamp(min=1)
        return grad_x, None, None


def inputs():
    torch.manual_seed(24)
    return torch.randn(1, 2, 5, 5), 3, 1


def reference(x, kernel, stride):
    win = x.unfold(2, kernel, stride).unfold(3, kernel, stride)     # N C h w k k
    n, c, h, w = win.shape[:4]
    return win.permute(0, 1, 4, 5, 2, 3).reshape(n, c * kernel * kernel, h * w)

# %% linalg_1
"""The bias gradient is computed only when the weight needs one: the flag was copied from the line above, and as long as everything is trainable nobody sees it."""
WRONG = ["grad_b = grad_output.sum(0) if need_w else None"]
RIGHT = ["grad_b = grad_output.sum(0) if need_b else None"]
NAME = "LinearBias"
# --- code
import torch
from torch.autograd import Function


class LinearBias(Function):
    """y = x @ weight.T + bias for a batch of rows."""

    @staticmethod
    def forward(x, weight, bias):
        return x @ weight.t() + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        need_x, need_w, need_b = ctx.needs_input_grad
        # do not pay for products nobody asked for
        grad_x = grad_output @ weight if need_x else None
        grad_w = grad_output.t() @ x if need_w else None
        grad_b = grad_output.sum(0) if need_w else None
        return grad_x, grad_w, grad_b


def inputs():
    torch.manual_seed(0)
    return torch.randn(5, 3), torch.randn(4, 3), torch.randn(4)


def reference(x, weight, bias):
    return torch.nn.functional.linear(x, weight, bias)

# %% linalg_2
"""The saved tensors are detached before use, in the belief that backward must not build a graph, so second derivatives silently lose all terms through x, A and y."""
WRONG = ["x, A, y = (t.detach() for t in ctx.saved_tensors)"]
RIGHT = ["x, A, y = ctx.saved_tensors"]
NAME = "BilinearForm"
# --- code
import torch
from torch.autograd import Function


class BilinearForm(Function):
    # out[b] = x[b]^T A y[b]

    @staticmethod
    def forward(ctx, x, A, y):
        ctx.save_for_backward(x, A, y)
        return ((x @ A) * y).sum(-1)

    @staticmethod
    def backward(ctx, grad_output):
        # plain numbers from here on
        x, A, y = (t.detach() for t in ctx.saved_tensors)
        g = grad_output.unsqueeze(-1)
        grad_x = g * (y @ A.t())
        grad_A = (g * x).t() @ y
        grad_y = g * (x @ A)
        return grad_x, grad_A, grad_y


def inputs():
    torch.manual_seed(1)
    return (
        torch.randn(4, 3, dtype=torch.float64),
        torch.randn(3, 2, dtype=torch.float64),
        torch.randn(4, 2, dtype=torch.float64),
    )


def reference(x, A, y):
    return torch.einsum("bi,ij,bj->b", x, A, y)

# %% linalg_3
"""The gradient for the factor has only one of its two terms: L occurs twice in L L^T, and the author differentiated the first occurrence and took the second to be the same thing."""
WRONG = ["grad_L = torch.tril(grad_A @ L)"]
RIGHT = ["grad_L = torch.tril((grad_A + grad_A.mT) @ L)"]
NAME = "CholeskySolve"
# --- code
import torch
from torch.autograd import Function


class CholeskySolve(Function):
    """Solve (L L^T) x = b for x, given the lower Cholesky factor L.

    With A = L L^T and r = A^-1 g:
        db = r
        dA = -r x^T
        dL = tril(dA L), since dA = dL L^T
    """

    @staticmethod
    def forward(ctx, b, L):
        x = torch.cholesky_solve(b, L)
        ctx.save_for_backward(L, x)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        L, x = ctx.saved_tensors
        L = L.tril()          # the solver reads this part only
        grad_b = torch.cholesky_solve(grad_output, L)
        grad_A = -grad_b @ x.mT
        grad_L = torch.tril(grad_A @ L)
        return grad_b, grad_L


def inputs():
    torch.manual_seed(2)
    L = torch.randn(4, 4, dtype=torch.float64).tril(-1) * 0.3 + torch.eye(4, dtype=torch.float64) * 1.5
    b = torch.randn(4, 2, dtype=torch.float64)
    return b, L


def reference(b, L):
    L = L.tril()
    return torch.linalg.solve(L @ L.mT, b)

# %% linalg_4
"""The transposes around the incoming gradient are missing: the formula dY = -Y dA Y for differentials was used as if it were the one for gradients."""
WRONG = ["return -(Y @ grad_output @ Y)"]
RIGHT = ["return -(Y.mT @ grad_output @ Y.mT)"]
NAME = "MatrixInverse"
# --- code
import torch
from torch.autograd import Function


class MatrixInverse(Function):

    @staticmethod
    def forward(ctx, A):
        Y = torch.linalg.inv(A)
        ctx.save_for_backward(Y)
        return Y

    @staticmethod
    def backward(ctx, grad_output):
        Y, = ctx.saved_tensors
        # A Y = I  =>  dY = -Y dA Y
        return -(Y @ grad_output @ Y)


def inputs():
    torch.manual_seed(3)
    return (torch.randn(2, 3, 3, dtype=torch.float64) + 3 * torch.eye(3, dtype=torch.float64),)


def reference(A):
    return torch.linalg.inv(A)

# %% linalg_5
"""The gradient of one number per matrix is multiplied with the matrices without two extra axes, because broadcasting raised no error where the batch was as large as the matrix."""
WRONG = ["grad_A = grad_output * inv_t"]
RIGHT = ["grad_A = grad_output[..., None, None] * inv_t"]
NAME = "LogDet"
# --- code
import torch
from torch.autograd import Function


class LogDet(Function):
    """log|det A| of a batch of matrices, shape (..., n, n) -> (...)."""

    @staticmethod
    def forward(ctx, A):
        ctx.save_for_backward(A)
        _, logabs = torch.linalg.slogdet(A)
        return logabs

    @staticmethod
    def backward(ctx, grad_output):
        (A,) = ctx.saved_tensors
        inv_t = torch.linalg.inv(A).mT
        grad_A = grad_output * inv_t
        return grad_A


def inputs():
    torch.manual_seed(4)
    base = torch.randn(3, 3, 3, dtype=torch.float64)
    spd = base @ base.mT + torch.eye(3, dtype=torch.float64)
    return (spd,)


def reference(A):
    return torch.linalg.slogdet(A).logabsdet

# %% linalg_6
"""The saved tensors are unpacked in reverse, as if they came off a stack; with two vectors of the same length no shape complains."""
WRONG = ["b, a = ctx.saved_tensors"]
RIGHT = ["a, b = ctx.saved_tensors"]
NAME = "OuterProduct"
# --- code
import torch
from torch.autograd import Function


class OuterProduct(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a[:, None] * b[None, :]

    @staticmethod
    def backward(ctx, grad_output):
        b, a = ctx.saved_tensors
        return grad_output @ b, grad_output.t() @ a


def inputs():
    torch.manual_seed(5)
    return torch.randn(4), torch.randn(4)


def reference(a, b):
    return torch.outer(a, b)

# %% linalg_7
"""Backward returns gradients for the two tensors only; the author thought that a plain Python number does not count as an input."""
WRONG = ["return grad_a, grad_b"]
RIGHT = ["return grad_a, grad_b, None"]
NAME = "ScaledBmm"
# --- code
import torch
from torch.autograd import Function


class ScaledBmm(Function):
    """alpha * bmm(a, b) with a fixed Python number alpha."""

    @staticmethod
    def forward(a, b, alpha):
        return alpha * torch.bmm(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, alpha = inputs
        ctx.save_for_backward(a, b)
        ctx.alpha = alpha

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        scaled = ctx.alpha * grad_output
        grad_a = torch.bmm(scaled, b.transpose(1, 2))
        grad_b = torch.bmm(a.transpose(1, 2), scaled)
        return grad_a, grad_b


def inputs():
    torch.manual_seed(6)
    return torch.randn(2, 3, 4), torch.randn(2, 4, 5), 0.5


def reference(a, b, alpha):
    return alpha * (a @ b)

# %% linalg_8
"""The subscripts of the key gradient were copied from the query gradient and only half adapted, so it sums over the wrong axis; with as many queries as keys the shapes agree."""
WRONG = ['grad_k = torch.einsum("bhqk,bhkd->bhqd", g, q)']
RIGHT = ['grad_k = torch.einsum("bhqk,bhqd->bhkd", g, q)']
NAME = "EinsumScores"
# --- code
import torch
import math
from torch.autograd import Function


def _scale(q):
    return 1.0 / math.sqrt(q.shape[-1])


class EinsumScores(Function):
    """Attention scores q k^T / sqrt(d), b batch, h heads, q/k positions, d features."""

    @staticmethod
    def forward(q, k):
        return torch.einsum("bhqd,bhkd->bhqk", q, k) * _scale(q)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        q, k = ctx.saved_tensors
        g = grad_output * _scale(q)
        grad_q = torch.einsum("bhqk,bhkd->bhqd", g, k)
        grad_k = torch.einsum("bhqk,bhkd->bhqd", g, q)
        return grad_q, grad_k


def inputs():
    torch.manual_seed(7)
    return torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 4)


def reference(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

# %% linalg_9
"""The gradient of x forgets the frozen base path because the base needs no gradient itself, and the gradient of A lacks the scale, which the author took to be included already."""
WRONG = ["grad_x = s * (up @ A)", "grad_A = up.t() @ x"]
RIGHT = ["grad_x = grad_output @ W + s * (up @ A)", "grad_A = s * (up.t() @ x)"]
NAME = "LowRankLinear"
# --- code
import torch
from torch.autograd import Function


class LowRankLinear(Function):
    """LoRA layer: y = x W^T + scale * (x A^T) B^T, with W frozen.

    x: (n, d_in), W: (d_out, d_in), A: (r, d_in), B: (d_out, r)
    """

    @staticmethod
    def forward(ctx, x, A, B, W, scale):
        ctx.save_for_backward(x, A, B, W)
        ctx.scale = scale
        down = x @ A.t()
        return x @ W.t() + scale * (down @ B.t())

    @staticmethod
    def backward(ctx, grad_output):
        x, A, B, W = ctx.saved_tensors
        s = ctx.scale
        up = grad_output @ B            # (n, r), gradient arriving at x A^T
        grad_x = s * (up @ A)
        grad_A = up.t() @ x
        grad_B = s * (grad_output.t() @ (x @ A.t()))
        # W is frozen, scale is a number
        return grad_x, grad_A, grad_B, None, None


def inputs():
    torch.manual_seed(8)
    x = torch.randn(5, 4)
    A = torch.randn(2, 4)
    B = torch.randn(3, 2)
    W = torch.randn(3, 4)
    return x, A, B, W, 0.25


def reference(x, A, B, W, scale):
    return x @ (W.detach() + scale * B @ A).t()

# %% norm_1
"""The variance is the unbiased one, because x.var() looks like the variance of the formula; layer norm and its derivative divide by n, not by n - 1."""
WRONG = ["var = x.var(-1, keepdim=True)"]
RIGHT = ["var = x.var(-1, keepdim=True, unbiased=False)"]
NAME = "LayerNorm"
# --- code
import torch
from torch.autograd import Function


def _normalise(x, eps):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True)
    rstd = (var + eps).rsqrt()
    return (x - mean) * rstd, rstd


class LayerNorm(Function):
    """Layer norm over the last dimension, with weight and bias."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        xhat, _ = _normalise(x, eps)
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return xhat * weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        xhat, rstd = _normalise(x, ctx.eps)   # cheap, so recompute
        lead = tuple(range(x.dim() - 1))

        grad_bias = grad_output.sum(lead)
        grad_weight = (grad_output * xhat).sum(lead)

        g = grad_output * weight
        c1 = g.mean(-1, keepdim=True)
        c2 = (g * xhat).mean(-1, keepdim=True)
        grad_x = rstd * (g - c1 - xhat * c2)
        return grad_x, grad_weight, grad_bias, None


def inputs():
    torch.manual_seed(10)
    return torch.randn(2, 3, 5), torch.randn(5), torch.randn(5), 1e-5


def reference(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)

# %% norm_2
"""The sums of backward are divided by the batch size alone, since it is called batch norm; each channel's statistics run over batch, height and width."""
WRONG = ["m = xhat.shape[0]"]
RIGHT = ["m = xhat.numel() // xhat.shape[1]"]
NAME = "BatchNorm2d"
# --- code
import torch
from torch.autograd import Function

DIMS = (0, 2, 3)


def per_channel(t):
    return t.view(1, -1, 1, 1)


class BatchNorm2d(Function):
    """Training mode batch norm for (N, C, H, W), no running statistics."""

    @staticmethod
    def forward(ctx, x, gamma, beta, eps):
        mu = x.mean(DIMS, keepdim=True)
        centred = x - mu
        var = centred.square().mean(DIMS, keepdim=True)
        inv_std = 1 / torch.sqrt(var + eps)
        xhat = centred * inv_std
        ctx.save_for_backward(xhat, inv_std, gamma)
        return per_channel(gamma) * xhat + per_channel(beta)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        xhat, inv_std, gamma = ctx.saved_tensors
        m = xhat.shape[0]
        dbeta = grad_output.sum(DIMS)
        dgamma = (grad_output * xhat).sum(DIMS)
        # the well known compact form
        dx = per_channel(gamma) * inv_std / m * (m * grad_output - per_channel(dbeta) - xhat * per_channel(dgamma))
        return dx, dgamma, dbeta, None


def inputs():
    torch.manual_seed(11)
    return torch.randn(3, 2, 2, 3), torch.rand(2) + 0.5, torch.randn(2), 1e-5


def reference(x, gamma, beta, eps):
    return torch.nn.functional.batch_norm(x, None, None, gamma, beta, training=True, eps=eps)

# %% norm_3
"""Forward centres the caller's tensor in place to save memory, in the belief that forward gets a copy of its own."""
WRONG = ["x -= x.mean(dim=2, keepdim=True)"]
RIGHT = ["x = x - x.mean(dim=2, keepdim=True)"]
NAME = "InstanceNorm"
# --- code
import torch
from torch.autograd import Function


class InstanceNorm(Function):
    """Normalise every (sample, channel) over its length; x is (N, C, L)."""

    @staticmethod
    def forward(ctx, x, eps):
        # centre first, then the variance is just the mean square
        x -= x.mean(dim=2, keepdim=True)
        rstd = (x.pow(2).mean(dim=2, keepdim=True) + eps).rsqrt()
        y = x * rstd
        ctx.save_for_backward(y, rstd)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        y, rstd = ctx.saved_tensors
        g = grad_output - grad_output.mean(dim=2, keepdim=True)
        g = g - y * (grad_output * y).mean(dim=2, keepdim=True)
        return g * rstd, None


def inputs():
    torch.manual_seed(12)
    return torch.randn(2, 3, 6), 1e-5


def reference(x, eps):
    return torch.nn.functional.instance_norm(x, eps=eps)

# %% norm_4
"""The statistics are returned beside the result without being marked non-differentiable, because the author thinks that ignoring their gradients in backward says the same; whoever trains on them silently gets zero."""
WRONG = []
RIGHT = ["ctx.mark_non_differentiable(mean, rstd)"]
NAME = "GroupNormStats"
# --- code
import torch
from torch.autograd import Function


class GroupNormStats(Function):
    """Group norm without affine part; also hands out mean and rstd of each
    group, for logging only (no gradient flows through them)."""

    @staticmethod
    def forward(ctx, x, num_groups, eps):
        n = x.shape[0]
        xg = x.reshape(n, num_groups, -1)
        mean = xg.mean(-1)
        rstd = torch.rsqrt(xg.var(-1, unbiased=False) + eps)
        yg = (xg - mean.unsqueeze(-1)) * rstd.unsqueeze(-1)
        ctx.num_groups = num_groups
        y = yg.reshape(x.shape)
        ctx.save_for_backward(y, rstd)
        return y, mean, rstd

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y, _grad_mean, _grad_rstd):
        y, rstd = ctx.saved_tensors
        shape = y.shape
        flat = (shape[0], ctx.num_groups, -1)
        y, g = y.reshape(flat), grad_y.reshape(flat)
        gx = g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True)
        gx = gx * rstd.unsqueeze(-1)
        return gx.reshape(shape), None, None


def inputs():
    torch.manual_seed(13)
    return torch.randn(2, 4, 3), 2, 1e-5


def reference(x, num_groups, eps):
    y = torch.nn.functional.group_norm(x, num_groups, eps=eps)
    xg = x.detach().reshape(x.shape[0], num_groups, -1)
    return y, xg.mean(-1), torch.rsqrt(xg.var(-1, unbiased=False) + eps)

# %% norm_5
"""The correction term takes the sum over the features instead of their mean: the author remembered the projection of the L2 norm, where it is a sum."""
WRONG = ["along = (g * unit).sum(-1, keepdim=True)"]
RIGHT = ["along = (g * unit).mean(-1, keepdim=True)"]
NAME = "RMSNorm"
# --- code
import torch
from torch.autograd import Function


class RMSNorm(Function):
    @staticmethod
    def forward(x, weight, eps):
        ms = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(ms + eps) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        rrms = torch.rsqrt(x.square().mean(-1, keepdim=True) + ctx.eps)
        unit = x * rrms

        grad_weight = (grad_output * unit).flatten(0, -2).sum(0)

        g = grad_output * weight
        # remove the component along the normalised vector
        along = (g * unit).sum(-1, keepdim=True)
        grad_x = rrms * (g - unit * along)
        return grad_x, grad_weight, None


def inputs():
    torch.manual_seed(14)
    return torch.randn(2, 3, 4), torch.randn(4), 1e-6


def reference(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)

# %% norm_6
"""The gradient of the gain is taken against v instead of its direction, and the radial part is summed over the whole matrix although every row has its own norm."""
WRONG = ["grad_gain = (grad_w * v).sum(dim=1, keepdim=True)", "radial = (direction * grad_w).sum()"]
RIGHT = ["grad_gain = (grad_w * direction).sum(dim=1, keepdim=True)", "radial = (direction * grad_w).sum(dim=1, keepdim=True)"]
NAME = "WeightNorm"
# --- code
import torch
from torch.autograd import Function


def row_norm(v):
    return v.norm(dim=1, keepdim=True)


class WeightNorm(Function):
    """w = gain * v / |v|, one norm and one gain per output row.

    v: (out, in), gain: (out, 1)
    """

    @staticmethod
    def forward(ctx, v, gain):
        ctx.save_for_backward(v, gain)
        return gain * v / row_norm(v)

    @staticmethod
    def backward(ctx, grad_w):
        v, gain = ctx.saved_tensors
        norm = row_norm(v)
        direction = v / norm

        # d w / d gain
        grad_gain = (grad_w * v).sum(dim=1, keepdim=True)

        # d w / d v: only what is orthogonal to v survives
        radial = (direction * grad_w).sum()
        grad_v = gain / norm * (grad_w - radial * direction)
        return grad_v, grad_gain


def inputs():
    torch.manual_seed(15)
    return torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 1, dtype=torch.float64) + 0.5


def reference(v, gain):
    return gain * torch.nn.functional.normalize(v, dim=1)

# %% norm_7
"""Rows shorter than eps are divided by the constant eps, so they have no projection term; the author derived the gradient for ordinary rows and thought the clamp only guards the division."""
WRONG = []
RIGHT = ["proj = torch.where(norm >= ctx.eps, proj, 0.0)"]
NAME = "L2Normalize"
# --- code
import torch
from torch.autograd import Function


class L2Normalize(Function):
    """x / max(|x|, eps) along the last dimension."""

    @staticmethod
    def forward(x, eps):
        return x / x.norm(dim=-1, keepdim=True).clamp(min=eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        norm = x.norm(dim=-1, keepdim=True)
        denom = norm.clamp(min=ctx.eps)
        y = x / denom
        proj = y * (grad_output * y).sum(-1, keepdim=True)
        return (grad_output - proj) / denom, None


def inputs():
    torch.manual_seed(16)
    x = torch.randn(4, 3)
    x[1] *= 0.01      # a nearly silent row
    return x, 0.1


def reference(x, eps):
    return torch.nn.functional.normalize(x, dim=-1, eps=eps)
