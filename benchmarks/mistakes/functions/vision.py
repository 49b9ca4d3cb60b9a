"""Mistakes: held out, vision, audio, recommenders and graphs. Each cell is a separate module; see benchmarks/repairs.py."""

# %% luma_gamma_1
"""The gradient of gamma takes the logarithm of the saved output instead of the logarithm of the luma that is raised to gamma."""
WRONG = ["grad_gamma = (grad_out * out * out.clamp(min=1e-12).log()).sum()"]
RIGHT = ["grad_gamma = (grad_out * out * luma.log()).sum()"]
NAME = "LumaGamma"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

REC709 = (0.2126, 0.7152, 0.0722)


class LumaGamma(Function):
    """Gray image (B, H, W) = (weights . rgb + eps) ** gamma, for rgb (B, 3, H, W) in [0, 1]."""

    @staticmethod
    def forward(ctx, rgb, gamma, eps=1e-3):
        weights = rgb.new_tensor(REC709).view(1, 3, 1, 1)
        luma = (rgb * weights).sum(dim=1) + eps
        out = luma.pow(gamma)
        ctx.save_for_backward(luma, gamma, weights, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        luma, gamma, weights, out = ctx.saved_tensors
        grad_luma = grad_out * gamma * luma.pow(gamma - 1)
        grad_rgb = grad_luma.unsqueeze(1) * weights
        grad_gamma = (grad_out * out * out.clamp(min=1e-12).log()).sum()
        return grad_rgb, grad_gamma, None


def inputs():
    torch.manual_seed(0)
    return torch.rand(2, 3, 2, 3, dtype=torch.float64) * 0.8 + 0.1, torch.tensor(2.2, dtype=torch.float64), 1e-3


def reference(rgb, gamma, eps=1e-3):
    weights = torch.tensor([0.2126, 0.7152, 0.0722], dtype=rgb.dtype)
    return (torch.einsum("bchw,c->bhw", rgb, weights) + eps) ** gamma

# %% saturation_1
"""The saturation is (max - min) / (max + eps); the gradient of max lacks the term of the quotient rule that comes from the denominator."""
WRONG = ["grad_max = grad_sat / denom"]
RIGHT = ["grad_max = grad_sat * (low + ctx.eps) / denom**2"]
NAME = "HsvSaturation"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class HsvSaturation(Function):
    """Saturation channel of HSV for images (B, 3, H, W)."""

    @staticmethod
    def forward(rgb, eps):
        high, high_index = rgb.max(dim=1, keepdim=True)
        low, low_index = rgb.min(dim=1, keepdim=True)
        return (high - low) / (high + eps), high, low, high_index, low_index

    @staticmethod
    def setup_context(ctx, inputs, output):
        rgb, eps = inputs
        _, high, low, high_index, low_index = output
        ctx.save_for_backward(high, low, high_index, low_index)
        ctx.mark_non_differentiable(high, low, high_index, low_index)
        ctx.shape = rgb.shape
        ctx.eps = eps

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_sat, *_):
        high, low, high_index, low_index = ctx.saved_tensors
        denom = high + ctx.eps
        grad_max = grad_sat / denom
        grad_min = -grad_sat / denom
        grad_rgb = grad_sat.new_zeros(ctx.shape)
        grad_rgb.scatter_add_(1, high_index, grad_max)
        grad_rgb.scatter_add_(1, low_index, grad_min)
        return grad_rgb, None


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 3, 2, 2, dtype=torch.float64) + 0.2, 1e-2


def reference(rgb, eps):
    high, high_index = rgb.max(dim=1, keepdim=True)
    low, low_index = rgb.min(dim=1, keepdim=True)
    return (high - low) / (high + eps), high.detach(), low.detach(), high_index, low_index

# %% patchify_1
"""backward applies the permutation of forward again instead of its inverse, and reshape accepts the result because the number of elements fits."""
WRONG = ["grad = grad.permute(0, 2, 4, 3, 5, 1)"]
RIGHT = ["grad = grad.permute(0, 5, 1, 3, 2, 4)"]
NAME = "Patchify"
# --- code
import torch
from torch.autograd import Function


class Patchify(Function):
    """Images (B, C, H, W) to tokens (B, H/p * W/p, p * p * C), as in ViT."""

    @staticmethod
    def forward(ctx, image, patch):
        b, c, h, w = image.shape
        rows, cols = h // patch, w // patch
        ctx.image_shape = image.shape
        ctx.grid = (b, rows, cols, patch, patch, c)
        tokens = image.reshape(b, c, rows, patch, cols, patch)
        tokens = tokens.permute(0, 2, 4, 3, 5, 1)
        return tokens.reshape(b, rows * cols, patch * patch * c)

    @staticmethod
    def backward(ctx, grad_tokens):
        grad = grad_tokens.reshape(ctx.grid)
        grad = grad.permute(0, 2, 4, 3, 5, 1)
        return grad.reshape(ctx.image_shape), None


def inputs():
    torch.manual_seed(2)
    return torch.randn(2, 3, 4, 6, dtype=torch.float64), 2


def reference(image, patch):
    b, c, h, w = image.shape
    columns = torch.nn.functional.unfold(image, patch, stride=patch)
    columns = columns.reshape(b, c, patch * patch, -1)
    return columns.permute(0, 3, 2, 1).reshape(b, -1, patch * patch * c)

# %% avg_pool_border_1
"""forward divides each window by the number of its pixels inside the image; backward divides by the full window size, which is wrong at the border."""
WRONG = ["share = grad_out / (k * k)"]
RIGHT = ["share = grad_out / count"]
NAME = "AvgPoolNoPad"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def window_sum(x, k):
    """Sum over k x k windows with stride 1 and zero padding, k odd."""
    kernel = x.new_ones(1, 1, k, k)
    return F.conv2d(x, kernel, padding=k // 2)


class AvgPoolNoPad(Function):
    """Box filter (B, 1, H, W) that does not count the padding."""

    @staticmethod
    def forward(ctx, x, k):
        count = window_sum(torch.ones_like(x[:1]), k)
        ctx.save_for_backward(count)
        ctx.k = k
        return window_sum(x, k) / count

    @staticmethod
    def backward(ctx, grad_out):
        (count,) = ctx.saved_tensors
        k = ctx.k
        share = grad_out / (k * k)
        # the box is symmetric: its adjoint is the same window sum
        return window_sum(share, k), None


def inputs():
    torch.manual_seed(3)
    return torch.randn(2, 1, 4, 5, dtype=torch.float64), 3


def reference(x, k):
    return F.avg_pool2d(x, k, stride=1, padding=k // 2, count_include_pad=False)

# %% grid_sample_1
"""Two slips: the gradient of the normalized coordinates lacks the factor (W - 1) / 2 or (H - 1) / 2 of the map to pixels, and the gradient of the image is written with an indexed +=, which loses pixels that two samples share."""
WRONG = ["grad_grid = torch.stack([grad_x, grad_y], dim=-1)", "grad_image[:, yy, xx] += weight * grad_out"]
RIGHT = ["grad_grid = torch.stack([grad_x * (w - 1) / 2, grad_y * (h - 1) / 2], dim=-1)", "grad_image.index_put_((torch.arange(c)[:, None], yy, xx), weight * grad_out, accumulate=True)"]
NAME = "BilinearSample"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def to_pixels(grid, h, w):
    x = (grid[:, 0] + 1) * (w - 1) / 2
    y = (grid[:, 1] + 1) * (h - 1) / 2
    x0 = x.floor().long().clamp(0, w - 2)
    y0 = y.floor().long().clamp(0, h - 2)
    return x0, y0, x - x0, y - y0


class BilinearSample(Function):
    """Samples image (C, H, W) at grid (N, 2) in [-1, 1], align_corners=True."""

    @staticmethod
    def forward(ctx, image, grid):
        _, h, w = image.shape
        x0, y0, fx, fy = to_pixels(grid, h, w)
        ctx.save_for_backward(image, grid)
        top = image[:, y0, x0] * (1 - fx) + image[:, y0, x0 + 1] * fx
        bottom = image[:, y0 + 1, x0] * (1 - fx) + image[:, y0 + 1, x0 + 1] * fx
        return top * (1 - fy) + bottom * fy

    @staticmethod
    def backward(ctx, grad_out):
        image, grid = ctx.saved_tensors
        c, h, w = image.shape
        x0, y0, fx, fy = to_pixels(grid, h, w)
        a, b = image[:, y0, x0], image[:, y0, x0 + 1]
        d, e = image[:, y0 + 1, x0], image[:, y0 + 1, x0 + 1]
        grad_x = (grad_out * ((b - a) * (1 - fy) + (e - d) * fy)).sum(0)
        grad_y = (grad_out * ((d - a) * (1 - fx) + (e - b) * fx)).sum(0)
        grad_grid = torch.stack([grad_x, grad_y], dim=-1)
        grad_image = torch.zeros_like(image)
        for dy, wy in ((0, 1 - fy), (1, fy)):
            for dx, wx in ((0, 1 - fx), (1, fx)):
                weight, yy, xx = wy * wx, y0 + dy, x0 + dx
                grad_image[:, yy, xx] += weight * grad_out
        return grad_image, grad_grid


def inputs():
    torch.manual_seed(4)
    return torch.randn(2, 3, 4, dtype=torch.float64), torch.rand(5, 2, dtype=torch.float64) * 1.8 - 0.9


def reference(image, grid):
    return F.grid_sample(image[None], grid[None, None], align_corners=True)[0, :, 0]

# %% iou_loss_1
"""The gradient of the intersection lacks the part that goes through the union, which contains minus the intersection."""
WRONG = ["grad_inter = -grad_out / union"]
RIGHT = ["grad_inter = -grad_out * (union + inter) / union**2"]
NAME = "IoULoss"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def area(box):
    return (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])


class IoULoss(Function):
    """1 - IoU of predicted and target boxes (N, 4), x1 y1 x2 y2. Targets are constants."""

    @staticmethod
    def forward(ctx, pred, target):
        top_left = torch.maximum(pred[:, :2], target[:, :2])
        bottom_right = torch.minimum(pred[:, 2:], target[:, 2:])
        side = (bottom_right - top_left).clamp(min=0)
        inter = side[:, 0] * side[:, 1]
        union = area(pred) + area(target) - inter
        ctx.save_for_backward(pred, target, side, inter, union)
        return 1 - inter / union

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        pred, target, side, inter, union = ctx.saved_tensors
        grad_inter = -grad_out / union
        grad_area = grad_out * inter / union**2

        # inter = side_x * side_y
        grad_side = torch.stack([grad_inter * side[:, 1], grad_inter * side[:, 0]], dim=1)
        grad_side = grad_side * (side > 0)
        grad_tl = -grad_side * (pred[:, :2] > target[:, :2])
        grad_br = grad_side * (pred[:, 2:] < target[:, 2:])

        # area = width * height
        size = pred[:, 2:] - pred[:, :2]
        grad_size = grad_area[:, None] * size.flip(1)
        return torch.cat([grad_tl - grad_size, grad_br + grad_size], dim=1), None


def inputs():
    pred = torch.tensor([[0.1, 0.2, 1.3, 1.1], [0.5, -0.4, 1.6, 0.7], [-1.0, -1.0, 0.3, 0.2]], dtype=torch.float64)
    target = torch.tensor([[0.0, 0.4, 1.0, 1.5], [0.2, -0.1, 1.9, 0.5], [-0.7, -1.3, 0.6, -0.1]], dtype=torch.float64)
    return pred.requires_grad_(), target


def reference(pred, target):
    lt = torch.maximum(pred[:, :2], target[:, :2])
    rb = torch.minimum(pred[:, 2:], target[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    total = (pred[:, 2:] - pred[:, :2]).prod(dim=1) + (target[:, 2:] - target[:, :2]).prod(dim=1)
    return 1 - inter / (total - inter)

# %% fourier_features_1
"""backward casts the phase to float32 with .float() to save memory, so that the gradient of a float64 input has only single precision."""
WRONG = ["phase = (ctx.scale * x.unsqueeze(-1) * freqs).float()"]
RIGHT = ["phase = ctx.scale * x.unsqueeze(-1) * freqs"]
NAME = "FourierFeatures"
# --- code
import math

import torch
from torch.autograd import Function


class FourierFeatures(Function):
    """NeRF encoding of coordinates (N, D): sin and cos at octaves, (N, D, 2 * F)."""

    @staticmethod
    def forward(x, freqs, scale):
        phase = scale * x.unsqueeze(-1) * freqs
        return torch.cat([phase.sin(), phase.cos()], dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, freqs, scale = inputs
        ctx.save_for_backward(x, freqs)
        ctx.scale = scale

    @staticmethod
    def backward(ctx, grad_out):
        x, freqs = ctx.saved_tensors
        phase = (ctx.scale * x.unsqueeze(-1) * freqs).float()
        g_sin, g_cos = grad_out.chunk(2, dim=-1)
        grad_phase = g_sin * phase.cos() - g_cos * phase.sin()
        grad_x = ctx.scale * (grad_phase * freqs).sum(dim=-1)
        return grad_x, None, None


def inputs():
    torch.manual_seed(5)
    x = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    return x, 2.0 ** torch.arange(3, dtype=torch.float64), math.pi


def reference(x, freqs, scale):
    phase = scale * torch.einsum("nd,f->ndf", x, freqs)
    return torch.cat([torch.sin(phase), torch.cos(phase)], dim=-1)

# %% bag_mean_1
"""The padding index is left out of the mean in forward, but backward also adds the gradient to the row of the padding index."""
WRONG = ["share = grad_bag / count"]
RIGHT = ["share = grad_bag / count * keep"]
NAME = "MeanBag"
# --- code
import torch
from torch.autograd import Function


class MeanBag(Function):
    """Mean of the embeddings of each bag. ids (B, L) are padded with padding_idx."""

    @staticmethod
    def forward(ctx, table, ids, padding_idx=0):
        keep = (ids != padding_idx).unsqueeze(-1).to(table.dtype)
        count = keep.sum(dim=1, keepdim=True).clamp(min=1)
        ctx.save_for_backward(ids, keep, count)
        ctx.rows = table.shape[0]
        return (table[ids] * keep).sum(dim=1) / count.squeeze(1)

    @staticmethod
    def backward(ctx, grad_out):
        ids, keep, count = ctx.saved_tensors
        b, length = ids.shape
        dim = grad_out.shape[-1]
        grad_bag = grad_out.unsqueeze(1).expand(b, length, dim)
        share = grad_bag / count
        grad_table = grad_out.new_zeros(ctx.rows, dim)
        grad_table.index_add_(0, ids.reshape(-1), share.reshape(-1, dim))
        return grad_table, None, None


def inputs():
    torch.manual_seed(6)
    ids = torch.tensor([[3, 1, 0, 0], [2, 3, 3, 1], [4, 0, 0, 0]])
    return torch.randn(6, 3, dtype=torch.float64), ids, 0


def reference(table, ids, padding_idx=0):
    return torch.nn.functional.embedding_bag(ids, table, mode="mean", padding_idx=padding_idx)

# %% gcn_propagate_1
"""backward sends the messages along the edges in the direction of forward, from src to dst, instead of back from dst to src."""
WRONG = ["grad_x.index_add_(0, dst, grad_out[src] * norm)"]
RIGHT = ["grad_x.index_add_(0, src, grad_out[dst] * norm)"]
NAME = "GCNPropagate"
# --- code
import torch
from torch.autograd import Function


def edge_norm(src, dst, nodes, dtype):
    one = torch.ones(src.shape[0], dtype=dtype)
    out_degree = torch.zeros(nodes, dtype=dtype).index_add_(0, src, one).clamp(min=1)
    in_degree = torch.zeros(nodes, dtype=dtype).index_add_(0, dst, one).clamp(min=1)
    return (out_degree[src] * in_degree[dst]).rsqrt().unsqueeze(-1)


class GCNPropagate(Function):
    """One step D_in^-1/2 A D_out^-1/2 x on a directed graph with edges (2, E)."""

    @staticmethod
    def forward(ctx, x, edges):
        src, dst = edges
        norm = edge_norm(src, dst, x.shape[0], x.dtype)
        ctx.save_for_backward(edges, norm)
        return torch.zeros_like(x).index_add_(0, dst, x[src] * norm)

    @staticmethod
    def backward(ctx, grad_out):
        edges, norm = ctx.saved_tensors
        src, dst = edges
        grad_x = torch.zeros_like(grad_out)
        grad_x.index_add_(0, dst, grad_out[src] * norm)
        return grad_x, None


def inputs():
    torch.manual_seed(7)
    edges = torch.tensor([[0, 1, 2, 0, 3, 4, 2], [1, 2, 3, 3, 4, 1, 0]])
    return torch.randn(5, 2, dtype=torch.float64), edges


def reference(x, edges):
    n = x.shape[0]
    adj = torch.zeros(n, n, dtype=x.dtype)
    adj[edges[1], edges[0]] = 1
    left = adj.sum(1).clamp(min=1) ** -0.5
    right = adj.sum(0).clamp(min=1) ** -0.5
    return (left[:, None] * adj * right) @ x

# %% edge_softmax_1
"""The softmax runs over the edges into each node, but the correction term of backward sums over all edges of the graph."""
WRONG = ["dot = (grad_out * alpha).sum(dim=0, keepdim=True)"]
RIGHT = ["dot = torch.zeros(ctx.nodes, alpha.shape[1], dtype=alpha.dtype).index_add_(0, dst, grad_out * alpha)[dst]"]
NAME = "EdgeSoftmax"
# --- code
import torch
from torch.autograd import Function


class EdgeSoftmax(Function):
    """Attention weights of GAT: softmax of scores (E, heads) over the edges with the same dst."""

    @staticmethod
    def forward(ctx, scores, dst, nodes):
        heads = scores.shape[1]
        index = dst.unsqueeze(-1).expand(-1, heads)
        peak = scores.new_full((nodes, heads), float("-inf"))
        peak = peak.scatter_reduce(0, index, scores, reduce="amax")
        weight = (scores - peak[dst]).exp()
        total = scores.new_zeros(nodes, heads).index_add_(0, dst, weight)
        alpha = weight / total[dst]
        ctx.save_for_backward(alpha, dst)
        ctx.nodes = nodes
        return alpha

    @staticmethod
    def backward(ctx, grad_out):
        alpha, dst = ctx.saved_tensors
        dot = (grad_out * alpha).sum(dim=0, keepdim=True)
        grad_scores = alpha * (grad_out - dot)
        return grad_scores, None, None


def inputs():
    torch.manual_seed(8)
    return torch.randn(7, 2, dtype=torch.float64), torch.tensor([0, 1, 1, 2, 0, 2, 2]), 4


def reference(scores, dst, nodes):
    out = torch.zeros_like(scores)
    for node in range(nodes):
        mine = (dst == node).to(scores.dtype)[:, None]
        shifted = scores.exp() * mine
        out = out + shifted / shifted.sum(dim=0, keepdim=True).clamp(min=1e-300)
    return out

# %% power_spectrogram_1
"""irfft counts each inner frequency twice, for the half of the spectrum that rfft leaves out; backward forgets to halve these bins."""
WRONG = ["half = spectrum * (2 * grad_power)"]
RIGHT = ["half = spectrum * (2 * grad_power) * bin_weights(ctx.n, grad_power)"]
NAME = "PowerSpectrogram"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def bin_weights(n, like):
    """1 for the bins that rfft has once, 1/2 for those whose mirror image it leaves out."""
    weights = torch.full((n // 2 + 1,), 0.5, dtype=like.dtype)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return weights


class PowerSpectrogram(Function):
    """|rfft(window * frame)|^2 of frames (B, T) cut from signals, (B, frames, T // 2 + 1)."""

    @staticmethod
    def forward(ctx, signal, window, hop):
        n = window.shape[0]
        frames = signal.unfold(-1, n, hop)
        spectrum = torch.fft.rfft(frames * window, n=n)
        ctx.save_for_backward(spectrum, window)
        ctx.n, ctx.hop, ctx.length = n, hop, signal.shape[-1]
        return spectrum.real**2 + spectrum.imag**2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_power):
        spectrum, window = ctx.saved_tensors
        half = spectrum * (2 * grad_power)
        grad_frames = torch.fft.irfft(half, n=ctx.n) * ctx.n * window
        grad_signal = grad_power.new_zeros(grad_power.shape[0], ctx.length)
        for t in range(grad_frames.shape[1]):
            start = t * ctx.hop
            grad_signal[:, start : start + ctx.n] += grad_frames[:, t]
        return grad_signal, None, None


def inputs():
    torch.manual_seed(9)
    window = torch.hann_window(6, dtype=torch.float64)
    return torch.randn(2, 12, dtype=torch.float64, requires_grad=True), window, 3


def reference(signal, window, hop):
    spec = torch.stft(signal, window.shape[0], hop, window=window, center=False, return_complex=True)
    return spec.abs().pow(2).transpose(1, 2)

# %% log_mel_1
"""forward clamps the mel power at a floor before the logarithm; backward passes the gradient also where the floor replaced the power."""
WRONG = ["grad_mel = grad_out / mel.clamp(min=ctx.floor)"]
RIGHT = ["grad_mel = grad_out / mel.clamp(min=ctx.floor) * (mel > ctx.floor)"]
NAME = "LogMel"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LogMel(Function):
    """log(max(power @ bank, floor)) for power (B, T, F) and a mel filter bank (F, M)."""

    @staticmethod
    def forward(ctx, power, bank, floor):
        mel = power @ bank
        ctx.save_for_backward(power, bank, mel)
        ctx.floor = floor
        return mel.clamp(min=floor).log()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        power, bank, mel = ctx.saved_tensors
        grad_mel = grad_out / mel.clamp(min=ctx.floor)
        grad_power = grad_bank = None
        if ctx.needs_input_grad[0]:
            grad_power = grad_mel @ bank.t()
        if ctx.needs_input_grad[1]:
            grad_bank = torch.einsum("btf,btm->fm", power, grad_mel)
        return grad_power, grad_bank, None


def inputs():
    torch.manual_seed(10)
    power = torch.rand(2, 3, 5, dtype=torch.float64)
    return power, torch.rand(5, 4, dtype=torch.float64), 1.2


def reference(power, bank, floor):
    mel = torch.einsum("btf,fm->btm", power, bank)
    return torch.where(mel > floor, mel, torch.full_like(mel, floor)).log()

# %% glu_1
"""The gradients of value and gate are concatenated in the wrong order: chunk returns the value first."""
WRONG = ["return torch.cat([grad_gate, grad_value], dim=ctx.dim), None"]
RIGHT = ["return torch.cat([grad_value, grad_gate], dim=ctx.dim), None"]
NAME = "GatedLinear"
# --- code
import torch
from torch.autograd import Function


class GatedLinear(Function):
    """value * sigmoid(gate), both halves of x along dim."""

    @staticmethod
    def forward(x, dim):
        value, gate = x.chunk(2, dim=dim)
        return value * torch.sigmoid(gate)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dim = inputs
        ctx.save_for_backward(x)
        ctx.dim = dim

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        value, gate = x.chunk(2, dim=ctx.dim)
        s = torch.sigmoid(gate)
        grad_value = grad_out * s
        grad_gate = grad_out * value * s * (1 - s)
        return torch.cat([grad_gate, grad_value], dim=ctx.dim), None


def inputs():
    torch.manual_seed(11)
    return torch.randn(2, 6, 3, dtype=torch.float64), 1


def reference(x, dim):
    return torch.nn.functional.glu(x, dim=dim)

# %% swiglu_1
"""The derivative of SiLU is s * (1 + a * (1 - s)); the factor s in front of the second term is lost."""
WRONG = ["grad_a = grad_hidden * b * (s + a * (1 - s))"]
RIGHT = ["grad_a = grad_hidden * b * (s + a * s * (1 - s))"]
NAME = "SwiGLU"
# --- code
import torch
from torch.autograd import Function


class SwiGLU(Function):
    """silu(x @ w_gate) * (x @ w_up), for x (N, D) and weights (D, H)."""

    @staticmethod
    def forward(ctx, x, w_gate, w_up):
        a = x @ w_gate
        b = x @ w_up
        ctx.save_for_backward(x, w_gate, w_up)
        return a * torch.sigmoid(a) * b

    @staticmethod
    def backward(ctx, grad_hidden):
        x, w_gate, w_up = ctx.saved_tensors
        # a and b are cheap to compute again
        a, b = x @ w_gate, x @ w_up
        s = torch.sigmoid(a)
        grad_a = grad_hidden * b * (s + a * (1 - s))
        grad_b = grad_hidden * a * s
        grad_x = grad_a @ w_gate.t() + grad_b @ w_up.t()
        return grad_x, x.t() @ grad_a, x.t() @ grad_b


def inputs():
    torch.manual_seed(12)
    return torch.randn(4, 3, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)


def reference(x, w_gate, w_up):
    return torch.nn.functional.silu(x @ w_gate) * (x @ w_up)

# %% moe_combine_1
"""Two slips: backward treats the sum that renormalizes the top k weights as a constant, and it forgets to multiply the gradient of the expert outputs by these weights."""
WRONG = ["grad_top = grad_w / total", "grad_experts.scatter_(1, wide, grad_out.unsqueeze(1).expand_as(chosen))"]
RIGHT = ["grad_top = (grad_w - (grad_w * weights).sum(dim=1, keepdim=True)) / total", "grad_experts.scatter_(1, wide, grad_out.unsqueeze(1) * weights.unsqueeze(-1))"]
NAME = "TopKMixture"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class TopKMixture(Function):
    """Sum of the k best experts (N, E, D), weighted by their renormalized softmax of logits (N, E)."""

    @staticmethod
    def forward(ctx, logits, experts, k):
        probs = logits.softmax(dim=1)
        top, index = probs.topk(k, dim=1)
        total = top.sum(dim=1, keepdim=True)
        weights = top / total
        wide = index.unsqueeze(-1).expand(-1, -1, experts.shape[-1])
        chosen = experts.gather(1, wide)
        ctx.save_for_backward(probs, total, weights, index, chosen)
        ctx.shape = experts.shape
        return (weights.unsqueeze(-1) * chosen).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        probs, total, weights, index, chosen = ctx.saved_tensors
        wide = index.unsqueeze(-1).expand_as(chosen)

        grad_w = (grad_out.unsqueeze(1) * chosen).sum(dim=-1)
        grad_top = grad_w / total
        grad_probs = torch.zeros_like(probs).scatter_(1, index, grad_top)
        grad_logits = probs * (grad_probs - (grad_probs * probs).sum(dim=1, keepdim=True))

        grad_experts = grad_out.new_zeros(ctx.shape)
        grad_experts.scatter_(1, wide, grad_out.unsqueeze(1).expand_as(chosen))
        return grad_logits, grad_experts, None


def inputs():
    torch.manual_seed(13)
    return torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, 2, dtype=torch.float64), 2


def reference(logits, experts, k):
    top, index = logits.topk(k, dim=1)
    weights = torch.softmax(top, dim=1)
    picked = torch.stack([experts[i, index[i]] for i in range(len(index))])
    return torch.einsum("nk,nkd->nd", weights, picked)

# %% rms_norm_1
"""The correction term sums over the features instead of taking their mean: the mean inside the root mean square gives a factor 1/d."""
WRONG = ["dot = (gw * x_hat).sum(dim=-1, keepdim=True)"]
RIGHT = ["dot = (gw * x_hat).mean(dim=-1, keepdim=True)"]
NAME = "RMSNorm"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class RMSNorm(Function):
    """weight * x / sqrt(mean(x^2) + eps) over the last dimension."""

    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        inv_rms = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, inv_rms)
        return x * inv_rms * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, weight, inv_rms = ctx.saved_tensors
        x_hat = x * inv_rms
        gw = grad_out * weight
        dot = (gw * x_hat).sum(dim=-1, keepdim=True)
        grad_x = inv_rms * (gw - x_hat * dot)
        grad_weight = (grad_out * x_hat).flatten(0, -2).sum(dim=0)
        return grad_x, grad_weight, None


def inputs():
    torch.manual_seed(14)
    return torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64), 1e-6


def reference(x, weight, eps=1e-6):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)

# %% group_norm_1
"""Two slips: the variance of forward is the unbiased one (the default of var), for which the formulas of backward do not hold, and backward does not multiply grad_output by the weight before the correction terms."""
WRONG = ["var, mean = torch.var_mean(grouped, dim=2, keepdim=True)", "gy = grad_out.reshape(b, groups, -1)"]
RIGHT = ["var, mean = torch.var_mean(grouped, dim=2, keepdim=True, unbiased=False)", "gy = (grad_out * weight.view(1, c, 1)).reshape(b, groups, -1)"]
NAME = "GroupNorm1d"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class GroupNorm1d(Function):
    """Group normalization of x (B, C, L) with weight and bias (C,)."""

    @staticmethod
    def forward(ctx, x, weight, bias, groups, eps):
        b, c, length = x.shape
        grouped = x.reshape(b, groups, -1)
        var, mean = torch.var_mean(grouped, dim=2, keepdim=True)
        inv_std = (var + eps).rsqrt()
        x_hat = (grouped - mean) * inv_std
        ctx.save_for_backward(x_hat, inv_std, weight)
        ctx.groups = groups
        return x_hat.reshape(b, c, length) * weight.view(1, c, 1) + bias.view(1, c, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x_hat, inv_std, weight = ctx.saved_tensors
        b, c, length = grad_out.shape
        groups = ctx.groups
        gy = grad_out.reshape(b, groups, -1)
        m1 = gy.mean(dim=2, keepdim=True)
        m2 = (gy * x_hat).mean(dim=2, keepdim=True)
        grad_x = inv_std * (gy - m1 - x_hat * m2)
        grad_weight = (grad_out * x_hat.reshape(b, c, length)).sum(dim=(0, 2))
        grad_bias = grad_out.sum(dim=(0, 2))
        return grad_x.reshape(b, c, length), grad_weight, grad_bias, None, None


def inputs():
    torch.manual_seed(15)
    return torch.randn(2, 4, 3, dtype=torch.float64), torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64), 2, 1e-5


def reference(x, weight, bias, groups, eps):
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)

# %% unit_vectors_1
"""forward returns the unit vectors and their norms, both differentiable; backward ignores the gradient of the norms."""
WRONG = ["grad_x = (grad_unit - unit * radial) / norm"]
RIGHT = ["grad_x = (grad_unit - unit * radial) / norm + unit * grad_norm"]
NAME = "UnitVectors"
# --- code
import torch
from torch.autograd import Function


class UnitVectors(Function):
    """Embeddings (N, D) on the sphere, and their norms (N, 1) for a regularizer."""

    @staticmethod
    def forward(ctx, x):
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        unit = x / norm
        ctx.save_for_backward(unit, norm)
        return unit, norm

    @staticmethod
    def backward(ctx, grad_unit, grad_norm):
        unit, norm = ctx.saved_tensors
        # the part along the vector does not change its direction
        radial = (unit * grad_unit).sum(dim=-1, keepdim=True)
        grad_x = (grad_unit - unit * radial) / norm
        return grad_x


def inputs():
    torch.manual_seed(16)
    return (torch.randn(4, 3, dtype=torch.float64),)


def reference(x):
    norm = (x * x).sum(dim=-1, keepdim=True).sqrt()
    return x / norm, norm

# %% rotary_1
"""backward rotates by the angle of forward again instead of rotating back, because it calls the same helper with the same sign of sin."""
WRONG = ["grad_x = rotate(grad_out, cos, sin)"]
RIGHT = ["grad_x = rotate(grad_out, cos, -sin)"]
NAME = "RotaryEmbedding"
# --- code
import torch
from torch.autograd import Function


def rotate(x, cos, sin):
    """Rotates the pairs (x[..., 2i], x[..., 2i + 1])."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class RotaryEmbedding(Function):
    """Rotary position embedding of x (B, T, D) for positions (T,)."""

    @staticmethod
    def forward(x, positions, base):
        d = x.shape[-1]
        freqs = base ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
        angle = positions[:, None].to(x.dtype) * freqs
        cos, sin = angle.cos(), angle.sin()
        return rotate(x, cos, sin), cos, sin

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin = output
        ctx.mark_non_differentiable(cos, sin)
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad_out, _cos, _sin):
        cos, sin = ctx.saved_tensors
        grad_x = rotate(grad_out, cos, sin)
        return grad_x, None, None


def inputs():
    torch.manual_seed(17)
    return torch.randn(2, 3, 4, dtype=torch.float64), torch.arange(3), 100.0


def reference(x, positions, base):
    d = x.shape[-1]
    angle = positions[:, None] * base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2), angle.cos(), angle.sin()

# %% relative_bias_1
"""backward builds the table index as key minus query instead of query minus key, so the gradient arrives in the table in reverse order."""
WRONG = ["index = position[None, :] - position[:, None] + t - 1"]
RIGHT = ["index = position[:, None] - position[None, :] + t - 1"]
NAME = "RelativeBias"
# --- code
import torch
from torch.autograd import Function


class RelativeBias(Function):
    """scores (B, H, T, T) + table (2T - 1, H) at query - key, as in Swin."""

    @staticmethod
    def forward(ctx, scores, table):
        t = scores.shape[-1]
        position = torch.arange(t, device=scores.device)
        index = position[:, None] - position[None, :] + (t - 1)
        ctx.table_shape = table.shape
        return scores + table[index].permute(2, 0, 1)

    @staticmethod
    def backward(ctx, grad_out):
        t = grad_out.shape[-1]
        rows, heads = ctx.table_shape
        position = torch.arange(t, device=grad_out.device)
        index = position[None, :] - position[:, None] + t - 1
        per_pair = grad_out.sum(dim=0).permute(1, 2, 0).reshape(-1, heads)
        grad_table = grad_out.new_zeros(rows, heads)
        grad_table.index_add_(0, index.reshape(-1), per_pair)
        return grad_out, grad_table


def inputs():
    torch.manual_seed(18)
    return torch.randn(2, 2, 3, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)


def reference(scores, table):
    t = scores.shape[-1]
    rows = [torch.stack([table[i - j + t - 1] for j in range(t)]) for i in range(t)]
    return scores + torch.stack(rows).permute(2, 0, 1)

# %% soft_sort_1
"""The scores enter the distances twice, unsorted and sorted; the gradient lacks the path through the sorted scores."""
WRONG = ["grad_scores = grad_plain"]
RIGHT = ["grad_scores = grad_plain.scatter_add(0, order, grad_sorted)"]
NAME = "SoftSort"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SoftSort(Function):
    """Relaxed permutation matrix softmax(-(sort(s) - s)^2 / tau), (n, n) for scores (n,)."""

    @staticmethod
    def forward(ctx, scores, tau):
        ordered, order = scores.sort(descending=True)
        gap = ordered[:, None] - scores[None, :]
        perm = torch.softmax(-(gap**2) / tau, dim=1)
        ctx.save_for_backward(gap, perm, order)
        ctx.tau = tau
        return perm

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_perm):
        gap, perm, order = ctx.saved_tensors
        grad_logits = perm * (grad_perm - (grad_perm * perm).sum(dim=1, keepdim=True))
        grad_gap = grad_logits * (-2 * gap / ctx.tau)
        grad_sorted = grad_gap.sum(dim=1)
        grad_plain = -grad_gap.sum(dim=0)
        grad_scores = grad_plain
        return grad_scores, None


def inputs():
    torch.manual_seed(19)
    return torch.randn(5, dtype=torch.float64), 0.8


def reference(scores, tau):
    ordered = scores.sort(descending=True).values
    return torch.softmax(-((ordered.unsqueeze(1) - scores.unsqueeze(0)) ** 2) / tau, dim=1)

# %% gaussian_nll_1
"""Two slips: the gradient of the variance divides the squared error by var instead of var squared, and the target receives the gradient of the mean without the minus sign."""
WRONG = ["grad_var = 0.5 * scale * (1 / v - diff**2 / v)", "grad_target = grad_mean"]
RIGHT = ["grad_var = 0.5 * scale * (1 / v - diff**2 / v**2)", "grad_target = -grad_mean"]
NAME = "GaussianNLL"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class GaussianNLL(Function):
    """Mean of (log var + (target - mean)^2 / var) / 2, with var at least eps."""

    @staticmethod
    def forward(ctx, mean, target, var, eps=1e-4):
        v = var.clamp(min=eps)
        diff = target - mean
        ctx.save_for_backward(diff, var)
        ctx.eps = eps
        return 0.5 * (v.log() + diff**2 / v).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):
        diff, var = ctx.saved_tensors
        v = var.clamp(min=ctx.eps)
        scale = grad_loss / diff.numel()
        grad_mean = -scale * diff / v
        grad_target = grad_mean
        grad_var = 0.5 * scale * (1 / v - diff**2 / v)
        grad_var = grad_var * (var > ctx.eps)
        return grad_mean, grad_target, grad_var, None


def inputs():
    torch.manual_seed(20)
    return torch.randn(3, 2, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64), torch.rand(3, 2, dtype=torch.float64) + 0.3, 1e-4


def reference(mean, target, var, eps=1e-4):
    v = torch.where(var > eps, var, torch.full_like(var, eps))
    return (0.5 * torch.log(v) + (mean - target) ** 2 / (2 * v)).mean()

# %% calibration_1
"""Samples with ignore_index do not count in the loss, but their rows of the logits still receive the gradient softmax minus one-hot."""
WRONG = ["grad_z = (probs - one_hot) * grad_loss / count"]
RIGHT = ["grad_z = (probs - one_hot) * valid.unsqueeze(1) * grad_loss / count"]
NAME = "CalibratedCrossEntropy"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class CalibratedCrossEntropy(Function):
    """Cross entropy of logits (N, C) / exp(log_t), mean over the labels that count."""

    @staticmethod
    def forward(ctx, logits, log_t, labels, ignore_index=-100):
        z = logits / log_t.exp()
        valid = labels != ignore_index
        safe = labels.clamp(min=0)
        count = valid.sum().clamp(min=1)
        log_probs = z.log_softmax(dim=1)
        picked = log_probs.gather(1, safe.unsqueeze(1)).squeeze(1)
        ctx.save_for_backward(z, log_probs, log_t, safe, valid, count)
        return -(picked * valid).sum() / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):
        z, log_probs, log_t, safe, valid, count = ctx.saved_tensors
        probs = log_probs.exp()
        one_hot = F.one_hot(safe, z.shape[1]).to(z.dtype)
        grad_z = (probs - one_hot) * grad_loss / count
        grad_logits = grad_z / log_t.exp()
        grad_log_t = -(grad_z * z).sum()
        return grad_logits, grad_log_t, None, None


def inputs():
    torch.manual_seed(21)
    return torch.randn(5, 3, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64), torch.tensor([2, -100, 0, 1, -100]), -100


def reference(logits, log_t, labels, ignore_index=-100):
    return F.cross_entropy(logits * torch.exp(-log_t), labels, ignore_index=ignore_index)

# %% elman_rnn_1
"""The gradient of the recurrent weight uses the state after the step instead of the state before it: an index that is off by one."""
WRONG = ["grad_u = grad_u + d_pre.t() @ states[t + 1]"]
RIGHT = ["grad_u = grad_u + d_pre.t() @ states[t]"]
NAME = "ElmanScan"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class ElmanScan(Function):
    """h[t] = tanh(x[t] + h[t-1] @ u.T) for x (T, B, H), which is already projected."""

    @staticmethod
    def forward(ctx, x, h0, u):
        states = [h0]
        for step in x:
            states.append(torch.tanh(step + states[-1] @ u.t()))
        states = torch.stack(states)  # (T + 1, B, H), states[0] is h0
        ctx.save_for_backward(states, u)
        return states[1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        states, u = ctx.saved_tensors
        grad_x = torch.zeros_like(grad_out)
        grad_u = torch.zeros_like(u)
        grad_h = torch.zeros_like(states[0])
        for t in reversed(range(grad_out.shape[0])):
            h = states[t + 1]
            d_pre = (grad_out[t] + grad_h) * (1 - h * h)
            grad_x[t] = d_pre
            grad_u = grad_u + d_pre.t() @ states[t + 1]
            grad_h = d_pre @ u
        return grad_x, grad_h, grad_u


def inputs():
    torch.manual_seed(22)
    return torch.randn(3, 2, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)


def reference(x, h0, u):
    outs, h = [], h0
    for t in range(x.shape[0]):
        h = torch.tanh(x[t] + torch.einsum("bi,oi->bo", h, u))
        outs.append(h)
    return torch.stack(outs)

# %% selective_scan_1
"""Two slips: the gradient of dt lacks the path through the input term dt * b * x, and the gradient of A lacks the inner derivative dt of the exponent."""
WRONG = ["grad_a = grad_a + (d_log * prev).sum(0)", "grad_dt[:, t] = (d_log * prev * a).sum(-1)"]
RIGHT = ["grad_a = grad_a + (d_log * prev * dt[:, t, None]).sum(0)", "grad_dt[:, t] = (d_log * prev * a).sum(-1) + (carry * b[:, t]).sum(-1) * x[:, t]"]
NAME = "SelectiveScan"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SelectiveScan(Function):
    """Mamba recurrence of one channel, h = exp(dt a) h + dt b x and y = c . h.

    x and dt are (B, T), a is (N,), b and c are (B, T, N).
    """

    @staticmethod
    def forward(ctx, x, dt, a, b, c):
        decay = torch.exp(dt.unsqueeze(-1) * a)
        h = torch.zeros_like(b[:, 0])
        states = [h]
        for t in range(x.shape[1]):
            h = decay[:, t] * h + (dt[:, t] * x[:, t]).unsqueeze(-1) * b[:, t]
            states.append(h)
        states = torch.stack(states, dim=1)
        ctx.save_for_backward(x, dt, a, b, c, states)
        return (states[:, 1:] * c).sum(dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        x, dt, a, b, c, states = ctx.saved_tensors
        decay = torch.exp(dt.unsqueeze(-1) * a)
        grad_x, grad_dt = torch.zeros_like(x), torch.zeros_like(dt)
        grad_a, grad_b = torch.zeros_like(a), torch.zeros_like(b)
        grad_c = grad_y.unsqueeze(-1) * states[:, 1:]
        carry = torch.zeros_like(b[:, 0])
        for t in reversed(range(x.shape[1])):
            carry = carry + grad_y[:, t, None] * c[:, t]
            prev = states[:, t]
            d_log = carry * decay[:, t]
            grad_a = grad_a + (d_log * prev).sum(0)
            grad_dt[:, t] = (d_log * prev * a).sum(-1)
            grad_x[:, t] = (carry * b[:, t]).sum(-1) * dt[:, t]
            grad_b[:, t] = carry * (dt[:, t] * x[:, t]).unsqueeze(-1)
            carry = d_log
        return grad_x, grad_dt, grad_a, grad_b, grad_c


def inputs():
    torch.manual_seed(23)
    return (
        torch.randn(2, 3, dtype=torch.float64),
        torch.rand(2, 3, dtype=torch.float64) + 0.2,
        -torch.rand(2, dtype=torch.float64) - 0.5,
        torch.randn(2, 3, 2, dtype=torch.float64),
        torch.randn(2, 3, 2, dtype=torch.float64),
    )


def reference(x, dt, a, b, c):
    h, ys = 0, []
    for t in range(x.shape[1]):
        h = torch.exp(dt[:, t, None] * a) * h + dt[:, t, None] * b[:, t] * x[:, t, None]
        ys.append(torch.einsum("bn,bn->b", h, c[:, t]))
    return torch.stack(ys, dim=1)

# %% fo_pool_1
"""grad_out[t] is a view, and += writes the carried gradient into the incoming gradient, which other branches of the graph may share."""
WRONG = ["g += carry"]
RIGHT = ["g = g + carry"]
NAME = "ForgetPool"
# --- code
import torch
from torch.autograd import Function


class ForgetPool(Function):
    """f-pooling of QRNN: h[t] = f[t] * h[t-1] + (1 - f[t]) * z[t], for z and f (T, B, H)."""

    @staticmethod
    def forward(ctx, z, f):
        h = torch.zeros_like(z[0])
        out = []
        for z_t, f_t in zip(z, f, strict=True):
            h = f_t * h + (1 - f_t) * z_t
            out.append(h)
        out = torch.stack(out)
        ctx.save_for_backward(z, f, out)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        z, f, out = ctx.saved_tensors
        grad_z, grad_f = torch.empty_like(z), torch.empty_like(f)
        carry = torch.zeros_like(z[0])
        for t in reversed(range(z.shape[0])):
            g = grad_out[t]
            g += carry
            before = out[t - 1] if t > 0 else torch.zeros_like(z[0])
            grad_z[t] = g * (1 - f[t])
            grad_f[t] = g * (before - z[t])
            carry = g * f[t]
        return grad_z, grad_f


def inputs():
    torch.manual_seed(24)
    return torch.randn(3, 2, 2, dtype=torch.float64), torch.rand(3, 2, 2, dtype=torch.float64)


def reference(z, f):
    h, out = torch.zeros_like(z[0]), []
    for t in range(z.shape[0]):
        h = z[t] + f[t] * (h - z[t])
        out.append(h)
    return torch.stack(out)

# %% drop_path_1
"""backward draws the mask again, but from the global generator instead of the seeded one, so it drops other samples than forward did."""
WRONG = ["keep = torch.rand(grad_out.shape[0], dtype=grad_out.dtype) >= ctx.rate"]
RIGHT = ["keep = torch.rand(grad_out.shape[0], generator=torch.Generator().manual_seed(ctx.seed), dtype=grad_out.dtype) >= ctx.rate"]
NAME = "DropPath"
# --- code
import torch
from torch.autograd import Function


class DropPath(Function):
    """skip + branch, where branch (B, ...) is dropped for whole samples. The mask is not stored."""

    @staticmethod
    def forward(ctx, skip, branch, rate, seed):
        generator = torch.Generator().manual_seed(seed)
        keep = torch.rand(branch.shape[0], generator=generator, dtype=branch.dtype) >= rate
        scale = keep.to(branch.dtype) / (1 - rate)
        ctx.rate, ctx.seed = rate, seed
        return skip + branch * scale.view(-1, 1, 1)

    @staticmethod
    def backward(ctx, grad_out):
        keep = torch.rand(grad_out.shape[0], dtype=grad_out.dtype) >= ctx.rate
        scale = keep.to(grad_out.dtype) / (1 - ctx.rate)
        return grad_out, grad_out * scale.view(-1, 1, 1), None, None


def inputs():
    torch.manual_seed(25)
    return torch.randn(6, 2, 2, dtype=torch.float64), torch.randn(6, 2, 2, dtype=torch.float64), 0.4, 7


def reference(skip, branch, rate, seed):
    keep = torch.rand(branch.shape[0], generator=torch.Generator().manual_seed(seed), dtype=branch.dtype) >= rate
    return skip + branch * (keep.to(branch.dtype) / (1 - rate))[:, None, None]

# %% frozen_bn_1
"""The folded scale and the input are kept on the class, so a second call before backward overwrites them and both calls use the values of the second."""
WRONG = ["FrozenBatchNorm.cached = (x, scale, running_mean)", "x, scale, mean = FrozenBatchNorm.cached"]
RIGHT = ["ctx.save_for_backward(x, scale, running_mean)", "x, scale, mean = ctx.saved_tensors"]
NAME = "FrozenBatchNorm"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FrozenBatchNorm(Function):
    """Batch norm with fixed statistics: weight * (x - mean) / sqrt(var + eps) + bias, x (B, C, L)."""

    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, eps=1e-5):
        inv_std = (running_var + eps).rsqrt()
        scale = weight * inv_std
        ctx.inv_std = inv_std
        FrozenBatchNorm.cached = (x, scale, running_mean)
        shift = bias - running_mean * scale
        return x * scale.view(1, -1, 1) + shift.view(1, -1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, scale, mean = FrozenBatchNorm.cached
        grad_x = grad_out * scale.view(1, -1, 1)
        centered = x - mean.view(1, -1, 1)
        grad_weight = (grad_out * centered).sum(dim=(0, 2)) * ctx.inv_std
        grad_bias = grad_out.sum(dim=(0, 2))
        return grad_x, grad_weight, grad_bias, None, None, None


def inputs():
    torch.manual_seed(26)
    d = torch.float64
    x = torch.randn(2, 3, 4, dtype=d, requires_grad=True)
    weight, bias = torch.randn(3, dtype=d, requires_grad=True), torch.randn(3, dtype=d, requires_grad=True)
    return x, weight, bias, torch.randn(3, dtype=d), torch.rand(3, dtype=d) + 0.5, 1e-5


def reference(x, weight, bias, running_mean, running_var, eps=1e-5):
    return torch.nn.functional.batch_norm(x, running_mean, running_var, weight, bias, False, 0.1, eps)

# %% focal_loss_1
"""The probability is kept as an attribute of ctx, computed inside forward, so the second derivative treats it as a constant and is wrong without an error."""
WRONG = ["p = ctx.p"]
RIGHT = ["p = torch.sigmoid(logits)"]
NAME = "FocalLoss"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class FocalLoss(Function):
    """-(1 - p)^gamma log p of the positive class, elementwise, for logits of any shape."""

    @staticmethod
    def forward(ctx, logits, gamma):
        ctx.save_for_backward(logits)
        ctx.p = torch.sigmoid(logits)
        ctx.gamma = gamma
        return -((1 - ctx.p) ** gamma) * F.logsigmoid(logits)

    @staticmethod
    def backward(ctx, grad_out):
        (logits,) = ctx.saved_tensors
        p = ctx.p
        gamma = ctx.gamma
        # d(1-p)^gamma = -gamma (1-p)^gamma p, dlog p = 1 - p
        modulator = (1 - p) ** gamma
        slope = gamma * modulator * p * F.logsigmoid(logits) - modulator * (1 - p)
        return grad_out * slope, None


def inputs():
    torch.manual_seed(27)
    return torch.randn(3, 4, dtype=torch.float64), 2.0


def reference(logits, gamma):
    return -torch.sigmoid(-logits) ** gamma * torch.log(torch.sigmoid(logits))

# %% color_matrix_1
"""The gradient of the square color matrix is transposed: the einsum writes input times output instead of output times input."""
WRONG = ['grad_matrix = torch.einsum("bihw,bohw->io", image, grad_out)']
RIGHT = ['grad_matrix = torch.einsum("bihw,bohw->oi", image, grad_out)']
NAME = "ColorTransform"
# --- code
import torch
from torch.autograd import Function


class ColorTransform(Function):
    """matrix @ pixel + offset for images (B, 3, H, W)."""

    @staticmethod
    def forward(image, matrix, offset):
        return torch.einsum("oi,bihw->bohw", matrix, image) + offset.view(1, -1, 1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        image, matrix, _ = inputs
        ctx.save_for_backward(image, matrix)

    @staticmethod
    def backward(ctx, grad_out):
        image, matrix = ctx.saved_tensors
        grad_image = torch.einsum("oi,bohw->bihw", matrix, grad_out)
        grad_matrix = torch.einsum("bihw,bohw->io", image, grad_out)
        grad_offset = grad_out.sum(dim=(0, 2, 3))
        return grad_image, grad_matrix, grad_offset


def inputs():
    torch.manual_seed(28)
    return torch.rand(2, 3, 2, 2, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)


def reference(image, matrix, offset):
    return torch.nn.functional.conv2d(image, matrix[:, :, None, None], offset)

# %% upsample_1
"""forward was extended by an option, align, but backward still returns one gradient less than forward has inputs."""
WRONG = ["return grad_x, None"]
RIGHT = ["return grad_x, None, None"]
NAME = "LinearUpsample"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def source_positions(n_in, n_out, align, like):
    position = torch.arange(n_out, dtype=like.dtype, device=like.device)
    if align:
        position = position * (n_in - 1) / (n_out - 1)
    else:
        position = ((position + 0.5) * n_in / n_out - 0.5).clamp(min=0)
    left = position.floor().long().clamp(max=n_in - 2)
    return left, position - left


class LinearUpsample(Function):
    """Resizes x (B, C, n) to (B, C, size) by linear interpolation."""

    @staticmethod
    def forward(x, size, align):
        left, frac = source_positions(x.shape[-1], size, align, x)
        return x[..., left] * (1 - frac) + x[..., left + 1] * frac

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.size, ctx.align = inputs
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, grad_out):
        left, frac = source_positions(ctx.shape[-1], ctx.size, ctx.align, grad_out)
        grad_x = grad_out.new_zeros(ctx.shape)
        grad_x.index_add_(-1, left, grad_out * (1 - frac))
        grad_x.index_add_(-1, left + 1, grad_out * frac)
        return grad_x, None


def inputs():
    torch.manual_seed(29)
    return torch.randn(2, 2, 4, dtype=torch.float64), 7, True


def reference(x, size, align):
    return F.interpolate(x, size=size, mode="linear", align_corners=align)

# %% complex_score_1
"""The tail enters the score conjugated, so its gradient is g * head * relation without a conjugate; the author conjugates here as for the other two."""
WRONG = ["grad_tail = g * (head * relation).conj()"]
RIGHT = ["grad_tail = g * head * relation"]
NAME = "ComplExScore"
# --- code
import torch
from torch.autograd import Function


class ComplExScore(Function):
    """Re(sum head * relation * conj(tail)) for complex embeddings (N, D)."""

    @staticmethod
    def forward(ctx, head, relation, tail):
        ctx.save_for_backward(head, relation, tail)
        return (head * relation * tail.conj()).sum(dim=-1).real

    @staticmethod
    def backward(ctx, grad_score):
        head, relation, tail = ctx.saved_tensors
        g = grad_score.unsqueeze(-1)
        grad_head = g * (relation * tail.conj()).conj()
        grad_relation = g * (head * tail.conj()).conj()
        grad_tail = g * (head * relation).conj()
        return grad_head, grad_relation, grad_tail


def inputs():
    torch.manual_seed(30)
    return tuple(torch.randn(3, 2, dtype=torch.complex128) for _ in range(3))


def reference(head, relation, tail):
    return torch.einsum("nd,nd,nd->n", head, relation, tail.conj()).real

# %% depthwise_1
"""The guard for the weight asks needs_input_grad[1], which is the dilation; the weight is input 2, so its gradient is always None."""
WRONG = ["if ctx.needs_input_grad[1]:"]
RIGHT = ["if ctx.needs_input_grad[2]:"]
NAME = "CausalDepthwise"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


class CausalDepthwise(Function):
    """y[t] = sum_j weight[c, j] x[t - j * dilation] for x (B, C, T) and weight (C, K)."""

    @staticmethod
    def forward(ctx, x, dilation, weight):
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        t = x.shape[-1]
        y = torch.zeros_like(x)
        for j in range(weight.shape[1]):
            y = y + weight[:, j, None] * F.pad(x, (j * dilation, 0))[..., :t]
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved_tensors
        t = x.shape[-1]
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(x)
            for j in range(weight.shape[1]):
                shift = j * ctx.dilation
                grad_x = grad_x + weight[:, j, None] * F.pad(grad_y, (0, shift))[..., shift : shift + t]
        if ctx.needs_input_grad[1]:
            shifted = [F.pad(x, (j * ctx.dilation, 0))[..., :t] for j in range(weight.shape[1])]
            grad_weight = torch.stack([(grad_y * s).sum(dim=(0, 2)) for s in shifted], dim=1)
        return grad_x, None, grad_weight


def inputs():
    torch.manual_seed(31)
    return torch.randn(2, 2, 6, dtype=torch.float64), 2, torch.randn(2, 3, dtype=torch.float64)


def reference(x, dilation, weight):
    padded = F.pad(x, ((weight.shape[1] - 1) * dilation, 0))
    return F.conv1d(padded, weight.flip(1)[:, None], dilation=dilation, groups=x.shape[1])

# %% mixer_block_1
"""The block is recomputed in backward to save memory, but with the exact GELU, while forward uses the tanh approximation."""
WRONG = ["hidden = F.gelu(xd @ w1d)"]
RIGHT = ['hidden = F.gelu(xd @ w1d, approximate="tanh")']
NAME = "MixerBlock"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class MixerBlock(Function):
    """x + gelu(x @ w1) @ w2. Saves the inputs only and recomputes the hidden layer in backward."""

    @staticmethod
    def forward(ctx, x, w1, w2):
        ctx.save_for_backward(x, w1, w2)
        hidden = F.gelu(x @ w1, approximate="tanh")
        return x + hidden @ w2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, w1, w2 = ctx.saved_tensors
        with torch.enable_grad():
            xd, w1d, w2d = (t.detach().requires_grad_() for t in (x, w1, w2))
            hidden = F.gelu(xd @ w1d)
            out = xd + hidden @ w2d
        return torch.autograd.grad(out, (xd, w1d, w2d), grad_out)


def inputs():
    torch.manual_seed(32)
    return torch.randn(3, 2, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)


def reference(x, w1, w2):
    return x + F.linear(F.gelu(F.linear(x, w1.t()), approximate="tanh"), w2.t())

# %% total_variation_1
"""Each difference x[i + 1] - x[i] gives minus its gradient to the left pixel; backward adds it instead of subtracting it in the horizontal direction."""
WRONG = ["grad_x[..., :, :-1] += gh"]
RIGHT = ["grad_x[..., :, :-1] -= gh"]
NAME = "TotalVariation"
# --- code
import torch
from torch.autograd import Function


class TotalVariation(Function):
    """Sum of sqrt(d^2 + eps^2) over the horizontal and vertical differences of images (B, C, H, W)."""

    @staticmethod
    def forward(x, eps):
        dh = x[..., :, 1:] - x[..., :, :-1]
        dv = x[..., 1:, :] - x[..., :-1, :]
        return (dh**2 + eps**2).sqrt().sum() + (dv**2 + eps**2).sqrt().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        dh = x[..., :, 1:] - x[..., :, :-1]
        dv = x[..., 1:, :] - x[..., :-1, :]
        gh = grad_out * dh / (dh**2 + ctx.eps**2).sqrt()
        gv = grad_out * dv / (dv**2 + ctx.eps**2).sqrt()
        grad_x = torch.zeros_like(x)
        grad_x[..., :, 1:] += gh
        grad_x[..., :, :-1] += gh
        grad_x[..., 1:, :] += gv
        grad_x[..., :-1, :] -= gv
        return grad_x, None


def inputs():
    torch.manual_seed(33)
    return torch.rand(1, 2, 3, 4, dtype=torch.float64), 0.1


def reference(x, eps):
    return ((x.diff(dim=-1) ** 2 + eps**2) ** 0.5).sum() + ((x.diff(dim=-2) ** 2 + eps**2) ** 0.5).sum()

# %% token_shift_1
"""forward mixes in the previous token, so backward must shift the gradient to earlier positions; it shifts it to later ones, with the helper of forward."""
WRONG = ["grad_x = grad_out * mix + previous(grad_out * (1 - mix))"]
RIGHT = ["grad_x = grad_out * mix + F.pad(grad_out * (1 - mix), (0, 0, 0, 1))[:, 1:]"]
NAME = "TokenShift"
# --- code
import torch
import torch.nn.functional as F
from torch.autograd import Function


def previous(x):
    """x (B, T, D) one step later in time, zeros first."""
    return F.pad(x, (0, 0, 1, 0))[:, :-1]


class TokenShift(Function):
    """mix * x[t] + (1 - mix) * x[t - 1] per channel, as in RWKV."""

    @staticmethod
    def forward(ctx, x, mix):
        ctx.save_for_backward(x, mix)
        return x * mix + previous(x) * (1 - mix)

    @staticmethod
    def backward(ctx, grad_out):
        x, mix = ctx.saved_tensors
        grad_x = grad_mix = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_out * mix + previous(grad_out * (1 - mix))
        if ctx.needs_input_grad[1]:
            grad_mix = (grad_out * (x - previous(x))).sum(dim=(0, 1))
        return grad_x, grad_mix


def inputs():
    torch.manual_seed(34)
    return torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)


def reference(x, mix):
    shifted = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    return torch.lerp(shifted, x, mix)
