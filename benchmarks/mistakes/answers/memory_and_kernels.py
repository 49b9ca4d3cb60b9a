"""Mistakes in memory patterns, attention and external code. Each cell is a separate module; see benchmarks/repairs.py."""

# %% attention-backward_1
"""The gradient of k is built with the plain q although the scores were computed from the scaled one, so the factor is missing there; the author believed that 1/sqrt(E) belongs to the queries only, because that is where forward applies it."""
WRONG = ["grad_k = grad_scores.mT @ q"]
RIGHT = ["grad_k = grad_scores.mT @ (q * ctx.scale)"]
EXERCISE = "attention-backward"
NAME = "Attention"
# --- code
import math

import torch
from torch import Tensor


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        ctx.scale = 1 / math.sqrt(q.shape[-1])
        scores = (q * ctx.scale) @ k.mT
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        p = torch.softmax(scores, -1)
        if mask is not None:
            # a row that is -inf all through gives nan in softmax
            p = p.masked_fill(~mask, 0.0)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, p = ctx.saved_tensors
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_scores = p * (grad_p - (grad_p * p).sum(-1, keepdim=True))
        grad_q = grad_scores @ k * ctx.scale
        grad_k = grad_scores.mT @ q
        return grad_q, grad_k, grad_v, None

# %% attention-budget_1
"""The row sum D loses its last axis and is subtracted along the keys instead of the queries; the author tested self-attention on one matrix, with as many keys as queries, where the shapes fit and nothing complains."""
WRONG = ["D = torch.sum(grad_output * out, -1)"]
RIGHT = ["D = torch.sum(grad_output * out, -1, keepdim=True)"]
EXERCISE = "attention-budget"
NAME = "LeanAttention"
# --- code
import math

import torch
from torch import Tensor


def scores_of(q, k, mask):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s if mask is None else s.masked_fill(~mask, float("-inf"))


class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        s = scores_of(q, k, mask)
        L = torch.logsumexp(s, -1)
        L = L.masked_fill(L == float("-inf"), 0.0)  # nothing to see: exp(-inf - 0) = 0
        out = torch.exp(s - L.unsqueeze(-1)) @ v
        ctx.save_for_backward(q, k, v, mask, out, L)
        return out

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, mask, out, L = ctx.saved_tensors
        P = torch.exp(scores_of(q, k, mask) - L.unsqueeze(-1))
        dV = P.mT @ grad_output
        dP = grad_output @ v.mT
        D = torch.sum(grad_output * out, -1)
        dS = P * (dP - D) / math.sqrt(q.shape[-1])
        return dS @ k, dS.mT @ q, dV, None

# %% attention-grouped_1
"""Keys and values are kept for backward after they were repeated for every query head, H/G times as large as allowed; the author took k and v as cheap and did not want to repeat them a second time."""
WRONG = ["ctx.save_for_backward(q, keys, values, out, lse)", "q, keys, values, out, lse = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(q, k, v, out, lse)", "q, k, v, out, lse = ctx.saved_tensors", "keys, values = spread(k, ctx.repeats), spread(v, ctx.repeats)"]
EXERCISE = "attention-grouped"
NAME = "GroupedAttention"
# --- code
import math

import torch
from torch import Tensor


def spread(t: Tensor, repeats: int) -> Tensor:
    """(..., G, M, E) -> (..., H, M, E): each head `repeats` times in a row."""
    return t.repeat_interleave(repeats, dim=-3)


def gather(t: Tensor, repeats: int) -> Tensor:
    """The transpose of spread: sum over the query heads of each group."""
    return t.unflatten(-3, (-1, repeats)).sum(-3)


class GroupedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.repeats = q.shape[-3] // k.shape[-3]
        keys = spread(k, ctx.repeats)
        values = spread(v, ctx.repeats)
        scores = q @ keys.mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(scores, dim=-1, keepdim=True)
        out = (scores - lse).exp() @ values
        ctx.save_for_backward(q, keys, values, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, keys, values, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.shape[-1])
        p = (q @ keys.mT * scale - lse).exp()
        grad_v = gather(p.mT @ grad_output, ctx.repeats)
        row = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - row) * scale
        grad_q = grad_s @ keys
        grad_k = gather(grad_s.mT @ q, ctx.repeats)
        return grad_q, grad_k, grad_v

# %% attention-tiled_1
"""When the running maximum rises, the unfinished output is rescaled but the running sum is not; the author thought of the sum as a mere count of weights that grows, and with the largest score in the first tile it comes out right."""
WRONG = ["total = total + p.sum(-1, keepdim=True)"]
RIGHT = ["total = total * shrink + p.sum(-1, keepdim=True)"]
EXERCISE = "attention-tiled"
NAME = "TiledAttention"
# --- code
import math

import torch
from torch import Tensor


def dropout_factor(i: int, j: int, tile: Tensor, p: float, seed: int) -> Tensor:
    """0 or 1 / (1 - p) for each weight of a tile whose first query is i and first key is j."""
    if not p:
        return torch.ones_like(tile)
    from autograd_course.functions.attention import dropped

    rows = torch.arange(i, i + tile.shape[-2], device=tile.device)
    columns = torch.arange(j, j + tile.shape[-1], device=tile.device)
    return (~dropped(rows, columns, p, seed)).to(tile.dtype) / (1 - p)


def tile_scores(q, k, i, j, block, causal):
    """Scores of the queries from i and the keys from j, -inf where causality forbids it."""
    qi, kj = q[..., i : i + block, :], k[..., j : j + block, :]
    s = qi @ kj.mT / math.sqrt(q.shape[-1])
    if causal:
        rows = torch.arange(i, i + s.shape[-2], device=s.device)
        columns = torch.arange(j, j + s.shape[-1], device=s.device)
        s = s.masked_fill(columns > rows[:, None], -math.inf)
    return s


class TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal=False, dropout_p=0.0, seed=0, block=16) -> Tensor:
        N, M = q.shape[-2], k.shape[-2]
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        lse = q.new_empty(q.shape[:-1])
        for i in range(0, N, block):
            here = slice(i, i + block)
            size = min(block, N - i)
            top = q.new_full((*q.shape[:-2], size, 1), -math.inf)
            total = torch.zeros_like(top)
            acc = q.new_zeros(*q.shape[:-2], size, v.shape[-1])
            for j in range(0, M, block):
                if causal and j > i + size - 1:
                    break
                s = tile_scores(q, k, i, j, block, causal)
                new_top = torch.maximum(top, s.amax(-1, keepdim=True))
                shrink = torch.exp(top - new_top)
                p = torch.exp(s - new_top)
                total = total + p.sum(-1, keepdim=True)
                p = p * dropout_factor(i, j, p, dropout_p, seed)
                acc = acc * shrink + p @ v[..., j : j + block, :]
                top = new_top
            out[..., here, :] = acc / total
            lse[..., here] = (top + total.log()).squeeze(-1)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = causal, dropout_p, seed, block
        return out

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        causal, dropout_p, seed, block = ctx.options
        scale = 1 / math.sqrt(q.shape[-1])
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for i in range(0, q.shape[-2], block):
            here = slice(i, i + block)
            g, qi = grad_output[..., here, :], q[..., here, :]
            D = (g * out[..., here, :]).sum(-1, keepdim=True)
            for j in range(0, k.shape[-2], block):
                if causal and j > i + g.shape[-2] - 1:
                    break
                there = slice(j, j + block)
                kj, vj = k[..., there, :], v[..., there, :]
                p = torch.exp(tile_scores(q, k, i, j, block, causal) - lse[..., here, None])
                factor = dropout_factor(i, j, p, dropout_p, seed)
                dv[..., there, :] += (p * factor).mT @ g
                ds = p * ((g @ vj.mT) * factor - D) * scale
                dq[..., here, :] += ds @ kj
                dk[..., there, :] += ds.mT @ qi
        return dq, dk, dv, None, None, None, None

# %% attention-twice_1
"""The gradient that arrives at the log-sum-exp enters the scores with a minus; the author carried the sign over from D, which stands beside it in the bracket and has the same shape."""
WRONG = ["inner = grad_out @ v.mT - D - grad_lse[..., None]"]
RIGHT = ["inner = grad_out @ v.mT - D + grad_lse[..., None]"]
EXERCISE = "attention-twice"
NAME = "TwiceAttention"
# --- code
import torch
from torch import Tensor


class TwiceAttention(torch.autograd.Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT * q.shape[-1] ** -0.5
        lse = torch.logsumexp(scores, -1)
        return torch.exp(scores - lse[..., None]) @ v, lse

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # all five are inputs or outputs, so the second derivative finds its way
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        p = torch.exp(q @ k.mT * scale - lse[..., None])
        D = (grad_out * out).sum(-1, keepdim=True)
        inner = grad_out @ v.mT - D - grad_lse[..., None]
        ds = p * inner * scale
        return ds @ k, ds.mT @ q, p.mT @ grad_out

# %% checkpointed-block_1
"""Backward sets the random state back to that of forward for the second run and leaves it there, so later draws repeat old ones; the author checked that the dropout masks agree and thought that was all of it."""
WRONG = ["with torch.enable_grad():"]
RIGHT = ["with torch.random.fork_rng(devices=[]), torch.enable_grad():"]
EXERCISE = "checkpointed-block"
NAME = "checkpointed"
# --- code
import torch
from torch import Tensor, nn


def checkpointed(block: nn.Module, x: Tensor) -> Tensor:
    # parameters are handed in one by one: autograd only knows about what apply() is given
    return Checkpointed.apply(block, x, *block.parameters())


class Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block = block
        ctx.save_for_backward(x, torch.get_rng_state())
        return block(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        x, rng_state = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        x = x.detach().requires_grad_(needs[0])
        with torch.enable_grad():
            torch.set_rng_state(rng_state)  # same dropout as in forward
            y = ctx.block(x)
        candidates = [x, *ctx.block.parameters()]
        wanted = [t for t, need in zip(candidates, needs) if need]
        found = iter(torch.autograd.grad(y, wanted, grad_output, allow_unused=True))
        return None, *(next(found) if need else None for need in needs)

# %% chunked-row-losses_1
"""The softmax is multiplied by the upstream gradient, and then a plain 1 is subtracted for the target, although the one-hot has to be multiplied too; with loss.sum() every upstream gradient is 1 and the author's comparison agreed."""
WRONG = ["grad_z[torch.arange(len(grad_z)), target[rows]] -= 1"]
RIGHT = ["grad_z[torch.arange(len(grad_z)), target[rows]] -= grad_output[rows]"]
EXERCISE = "chunked-row-losses"
NAME = "RowLosses"
# --- code
import torch
from torch import Tensor


class RowLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
        lse = x.new_empty(len(x))
        losses = x.new_empty(len(x))
        for start in range(0, len(x), chunk):
            rows = slice(start, start + chunk)
            z = x[rows] @ weight.t()
            lse[rows] = torch.logsumexp(z, -1)
            losses[rows] = lse[rows] - z.gather(-1, target[rows, None]).squeeze(-1)
        ctx.save_for_backward(x, weight, target, lse)
        ctx.chunk = chunk
        return losses

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight, target, lse = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, len(x), ctx.chunk):
            rows = slice(start, start + ctx.chunk)
            # softmax from the saved log-sum-exp, then the one-hot
            grad_z = (x[rows] @ weight.t() - lse[rows, None]).exp_()
            grad_z *= grad_output[rows, None]
            grad_z[torch.arange(len(grad_z)), target[rows]] -= 1
            grad_x[rows] = grad_z @ weight
            grad_weight += grad_z.t() @ x[rows]
        return grad_x, grad_weight, None, None

# %% equilibrium-layer_1
"""The adjoint equation goes through W transposed, as the forward round does, where backward has to go through W itself; the author copied the step, and no shape objects to it because W is square."""
WRONG = ["return grad_output + (u * slope) @ W.t()"]
RIGHT = ["return grad_output + (u * slope) @ W"]
EXERCISE = "equilibrium-layer"
NAME = "Equilibrium"
# --- code
import torch
from torch import Tensor


def settled(step, start: Tensor) -> Tensor:
    """Return the z with z = step(z), found by repeating the step from start."""
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("not settled after 200 rounds")


class Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, W: Tensor) -> Tensor:
        return settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        W, z = ctx.saved_tensors
        slope = 1 - z * z  # of tanh, at the solution

        def adjoint(u):
            return grad_output + (u * slope) @ W.t()

        grad_x = settled(adjoint, grad_output) * slope
        return grad_x, grad_x.t() @ z

# %% fused-linear-relu_1
"""The mask of the ReLU is taken from the output with >=, which is true everywhere because an output of ReLU is never negative; the author had 'not negative passes' in mind, as for the matrix before the ReLU."""
WRONG = ["grad_z = grad_output * (y >= 0)"]
RIGHT = ["grad_z = grad_output * (y > 0)"]
EXERCISE = "fused-linear-relu"
NAME = "LinearReLU"
# --- code
import torch
from torch import Tensor


class LinearReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        y = torch.relu(x @ weight.t() + bias)
        # the output tells where the ReLU was open, so z itself may go
        ctx.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, y = ctx.saved_tensors
        grad_z = grad_output * (y >= 0)
        grad_x = grad_z @ weight
        grad_weight = grad_z.t() @ x
        grad_bias = grad_z.sum(0)
        return grad_x, grad_weight, grad_bias

# %% invertible-coupling_1
"""Two slips: what flows into the first tanh is only grad_y1 and not the sum with what comes back from y2, and the gradient of w is built with the saved y2 where x2 belongs; both names looked right beside the formula for v, which was written first and copied."""
WRONG = ["d1 = grad_y1 * (1 - t1 * t1)", "grad_w = y2.t() @ d1"]
RIGHT = ["d1 = total1 * (1 - t1 * t1)", "grad_w = x2.t() @ d1"]
EXERCISE = "invertible-coupling"
NAME = "Coupling"
# --- code
import torch
from torch import Tensor


class Coupling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        y1 = x1 + torch.tanh(x2 @ w)
        y2 = x2 + torch.tanh(y1 @ v)
        ctx.save_for_backward(y1, y2, w, v)
        return y1, y2

    @staticmethod
    def backward(ctx, grad_y1: Tensor, grad_y2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y1, y2, w, v = ctx.saved_tensors
        # undo the second half of forward; x1 is not needed
        t2 = torch.tanh(y1 @ v)
        x2 = y2 - t2
        t1 = torch.tanh(x2 @ w)

        # y2 = x2 + tanh(y1 v)
        d2 = grad_y2 * (1 - t2 * t2)
        grad_v = y1.t() @ d2
        total1 = grad_y1 + d2 @ v.t()

        # y1 = x1 + tanh(x2 w)
        d1 = grad_y1 * (1 - t1 * t1)
        grad_w = y2.t() @ d1
        grad_x2 = grad_y2 + d1 @ w.t()
        return total1, grad_x2, grad_w, grad_v

# %% jvp-smooth-maximum_1
"""What jvp reads is saved for backward only, and the call of save_for_forward is missing; the author believed that one place serves both methods, because both read ctx.saved_tensors."""
WRONG = []
RIGHT = ["ctx.save_for_forward(x, temperature, output)"]
EXERCISE = "jvp-smooth-maximum"
NAME = "SmoothMaximum"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, temperature: Tensor) -> Tensor:
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, temperature = inputs
        ctx.save_for_backward(x, temperature, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent: Tensor, t_tangent: Tensor) -> Tensor:
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        along_x = (p * x_tangent).sum(-1)
        along_t = (y - (p * x).sum(-1)) / t * t_tangent
        return along_x + along_t

# %% lambert-w_1
"""The derivative is written as W / (x (1 + W)), as it stands in the tables, which is 0/0 at x = 0 although the true value there is 1; the author derived it for x > 0 and did not try the edge."""
WRONG = ["return grad_output * w / (x * (1 + w))"]
RIGHT = ["return grad_output * torch.exp(-w) / (1 + w)"]
EXERCISE = "lambert-w"
NAME = "LambertW"
# --- code
import torch
from torch import Tensor


def lambert_w(x: Tensor) -> Tensor:
    """Newton's method on w e^w = x, for x >= 0 (no SciPy on this machine)."""
    w = torch.log1p(x)
    for _ in range(30):
        w = w - (w - x * torch.exp(-w)) / (1 + w)
    return w


class LambertW(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return lambert_w(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, w = ctx.saved_tensors
        # w e^w = x, both sides differentiated: (1 + w) e^w dw = dx
        return grad_output * w / (x * (1 + w))

# %% operator-window-sums_1
"""The vendor's routine gets the tensor's own memory and overwrites the input; the author copies the result, and thought that this is the copy that the docstring calls for."""
WRONG = ["series = x.detach().numpy()"]
RIGHT = ["series = x.detach().numpy().copy()"]
EXERCISE = "operator-window-sums"
NAME = "window_sums"
# --- code
import numpy as np
import torch
from torch import Tensor


def vendor_sums(series: np.ndarray, width: int) -> np.ndarray:
    """Return the sums of `width` neighbors along the last axis.

    Works in place: `series` is overwritten, and the result is a part of its memory. From n numbers
    in a row come n - width + 1 sums.
    """
    np.cumsum(series, axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: Tensor, width: int) -> Tensor:
    series = x.detach().numpy()
    sums = vendor_sums(series, width)
    # the result is a part of the vendor's memory: hand out one of our own
    return torch.from_numpy(sums.copy())


@window_sums.register_fake
def fake(x: Tensor, width: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], x.shape[-1] - width + 1)


def setup_context(ctx, inputs, output) -> None:
    _, ctx.width = inputs


def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
    more = ctx.width - 1
    padded = torch.nn.functional.pad(grad_output, (more, more))
    return window_sums(padded, ctx.width), None


window_sums.register_autograd(backward, setup_context=setup_context)

# %% packed-leaky-relu_1
"""Unpacking puts the eight digits along the first axis and flattens, so the bits come out in transposed order; the author tried it with up to eight elements, where one byte makes both orders the same."""
WRONG = ["bits = (packed >> SHIFTS[:, None]) & 1"]
RIGHT = ["bits = (packed[:, None] >> SHIFTS) & 1"]
EXERCISE = "packed-leaky-relu"
NAME = "PackedLeakyReLU"
# --- code
import torch
from torch import Tensor

SHIFTS = torch.arange(8, dtype=torch.uint8)


def pack(mask: Tensor) -> Tensor:
    """Eight booleans to a byte, the first one in the lowest digit."""
    flat = mask.flatten().to(torch.uint8)
    flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 8))
    return (flat.view(-1, 8) << SHIFTS).sum(-1, dtype=torch.uint8)


def unpack(packed: Tensor, shape: torch.Size) -> Tensor:
    bits = (packed >> SHIFTS[:, None]) & 1
    return bits.flatten()[: shape.numel()].view(shape).bool()


class PackedLeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        positive = x > 0
        ctx.save_for_backward(pack(positive))
        ctx.slope = slope
        return torch.where(positive, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (packed,) = ctx.saved_tensors
        positive = unpack(packed, grad_output.shape)
        return torch.where(positive, grad_output, ctx.slope * grad_output), None

# %% repair-autocast_1
"""Only forward is decorated, so a backward that runs inside the autocast block multiplies in bfloat16; the author believed that backward works in the precision of the tensors that were saved."""
WRONG = []
RIGHT = ['@custom_bwd(device_type="cpu")']
EXERCISE = "repair-autocast"
NAME = "Contrast"
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

# %% repair-color-table_1
"""The table's gradient is collected with += at an index with repetitions, where only the last pixel of each entry counts; the author believed that += (instead of the = in the sick class) accumulates."""
WRONG = ["grad_table[index] += (1 - fraction) * grad_output", "grad_table[index + 1] += fraction * grad_output"]
RIGHT = ["grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True)", "grad_table.index_put_((index + 1,), fraction * grad_output, accumulate=True)"]
EXERCISE = "repair-color-table"
NAME = "LookUp"
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
        grad_table = torch.zeros_like(table)  # also its dtype
        grad_table[index] += (1 - fraction) * grad_output
        grad_table[index + 1] += fraction * grad_output
        grad_fraction = (table[index + 1] - table[index]) * grad_output
        return grad_table, None, grad_fraction

# %% repair-dropout_1
"""Backward draws its mask from forward's generator, which has moved on and gives other numbers, and it forgets the division by 1 - p; the author took a seeded generator to repeat itself, and the scale to be a matter of forward."""
WRONG = ["ctx.generator = generator", "generator = ctx.generator", "return grad_output * kept, None, None"]
RIGHT = ["ctx.seed = seed", "generator = torch.Generator(grad_output.device).manual_seed(ctx.seed)", "return grad_output * kept / (1 - ctx.p), None, None"]
EXERCISE = "repair-dropout"
NAME = "Dropout"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Which elements are kept; without a generator PyTorch's common one is used."""
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
        # the same mask once more
        generator = ctx.generator
        kept = draw(grad_output, ctx.p, generator)
        return grad_output * kept, None, None

# %% repair-film_1
"""Backward returns only the gradients that are asked for and leaves out the others instead of holding their places with None; the author read needs_input_grad as the list of what has to be returned."""
WRONG = ["return tuple(g for g, need in zip(gradients, ctx.needs_input_grad) if need)"]
RIGHT = ["return tuple(g if need else None for g, need in zip(gradients, ctx.needs_input_grad))"]
EXERCISE = "repair-film"
NAME = "FiLM"
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
        # in the order of forward's arguments
        gradients = [grad_output * gamma, (grad_output * x).sum(0), grad_output.sum(0)]
        return tuple(g for g, need in zip(gradients, ctx.needs_input_grad) if need)

# %% repair-floor-log_1
"""Backward zeroes the silent places in grad_output itself, which belongs to autograd and may be shared with other branches; the author thought the gradient passed in is a private copy and saved an allocation."""
WRONG = ["g = grad_output.masked_fill_(x < ctx.floor, 0.0)"]
RIGHT = ["g = grad_output.masked_fill(x < ctx.floor, 0.0)"]
EXERCISE = "repair-floor-log"
NAME = "FloorLog"
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
        # below the floor the output is constant
        g = grad_output.masked_fill_(x < ctx.floor, 0.0)
        return g / x.clamp(min=ctx.floor), None

# %% repair-graph-breaks_1
"""The straight part of forward has its bracket in the wrong place, delta (|x| - delta) / 2, so its slope is half of what backward says; at the joint, and in the parabola, where the author looked, it is easily overlooked."""
WRONG = ["line = delta * (size - delta) / 2"]
RIGHT = ["line = delta * (size - delta / 2)"]
EXERCISE = "repair-graph-breaks"
NAME = "Huber"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        size = x.abs()
        parabola = x * x / 2
        line = delta * (size - delta) / 2
        return torch.where(size <= delta, parabola, line)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * x.clamp(-ctx.delta, ctx.delta), None

# %% repair-log-cosh_1
"""tanh is rewritten with exp(-2|x|) so that it cannot overflow, and the sign of x is lost on the way; the author checked the outlier of the chart, which is positive."""
WRONG = ["return grad_output * (1 - e) / (1 + e)"]
RIGHT = ["return grad_output * x.sign() * (1 - e) / (1 + e)"]
EXERCISE = "repair-log-cosh"
NAME = "LogCosh"
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
        # (e^x - e^-x) / (e^x + e^-x), numerator and denominator divided by the larger one
        e = torch.exp(-2 * x.abs())
        return grad_output * (1 - e) / (1 + e)

# %% repair-rms-norm_1
"""The helper that both methods use runs under no_grad, so the second derivative takes r for a constant; the author held that nothing inside a Function is recorded anyway, which is true of forward only."""
WRONG = ["@torch.no_grad()"]
RIGHT = []
EXERCISE = "repair-rms-norm"
NAME = "RMSNorm"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function

EPS = 1e-6


@torch.no_grad()
def inverse_rms(x: Tensor) -> Tensor:
    return (x.square().mean(-1, keepdim=True) + EPS).rsqrt()


class RMSNorm(Function):
    """y = x r; r is computed again in backward, so that only an input is saved."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * inverse_rms(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        r = inverse_rms(x)
        projection = (grad_output * x).mean(-1, keepdim=True)
        return r * grad_output - r**3 * x * projection

# %% repair-softsign_1
"""The output is kept as a detached attribute of ctx instead of by save_for_backward; the author knew that detach breaks the cycle, and did not see that it also makes the second derivative treat y as a constant."""
WRONG = ["ctx.y = output.detach()", "y = ctx.y"]
RIGHT = ["ctx.save_for_backward(output)", "(y,) = ctx.saved_tensors"]
EXERCISE = "repair-softsign"
NAME = "Softsign"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class Softsign(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x / (1 + x.abs())

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.y = output.detach()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        y = ctx.y
        return grad_output * (1 - y.abs()).square()

# %% repair-temperature_1
"""The derivative of x / t with respect to t is written as -x / t, one power of t short; the author differentiated 1/t in the head, and at t = 1, where they tried it, nothing shows."""
WRONG = ["dz_dt = -x / temperature"]
RIGHT = ["dz_dt = -x / temperature**2"]
EXERCISE = "repair-temperature"
NAME = "Tempered"
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
        grad_z = grad_output * (1 - y**2)  # z = x / t
        dz_dx = 1 / temperature
        dz_dt = -x / temperature
        return grad_z * dz_dx, (grad_z * dz_dt).sum()

# %% soft-threshold-function_1
"""Elements below -t get no gradient because survival is read as y > 0, and the threshold's gradient is a bare sum without the threshold's shape; the author had ReLU in mind, and tried only a threshold without axes."""
WRONG = ["grad_x = grad_output * (y > 0)", "grad_threshold = -(grad_output * y.sign()).sum()"]
RIGHT = ["grad_x = grad_output * (y != 0)", "grad_threshold = -(grad_output * y.sign()).sum().reshape(ctx.threshold_shape)"]
EXERCISE = "soft-threshold-function"
NAME = "SoftThreshold"
# --- code
import torch
from torch import Tensor


class SoftThreshold(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        # exercise 4 is still open: plain PyTorch for now
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.threshold_shape = inputs[1].shape
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        (y,) = ctx.saved_tensors
        grad_x = grad_output * (y > 0)
        grad_threshold = -(grad_output * y.sign()).sum()
        return grad_x, grad_threshold

# %% split-rms-norm_1
"""The class says nothing about vmap, so vmap refuses it; the author believed that a separate setup_context alone makes a Function fit for all of torch.func."""
WRONG = []
RIGHT = ["generate_vmap_rule = True"]
EXERCISE = "split-rms-norm"
NAME = "RMSNorm"
# --- code
import torch
from torch import Tensor
from torch.autograd import Function


class RMSNorm(Function):
    """Root mean square normalization; returns (y, rstd), the latter for backward only."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        return x * rstd * weight, rstd

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight, _ = inputs
        _, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_y: Tensor, _grad_rstd) -> tuple[Tensor, Tensor, None]:
        x, weight, rstd = ctx.saved_tensors
        normed, g = x * rstd, grad_y * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_y * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None

# %% triangular-solve_1
"""The gradient of T is always cut to the lower half, also for lower=False; the author had the default in mind and passed the flag on to the solver alone."""
WRONG = ["grad_T = full.tril()"]
RIGHT = ["grad_T = full.tril() if ctx.lower else full.triu()"]
EXERCISE = "triangular-solve"
NAME = "TriangularSolve"
# --- code
import torch
from torch import Tensor


class TriangularSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        # PyTorch has SciPy's solver too; it reads one half of T only
        X = torch.linalg.solve_triangular(T, B, upper=not lower)
        ctx.save_for_backward(T, X)
        ctx.lower = lower
        return X

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        T, X = ctx.saved_tensors
        # dX = T^-1 (dB - dT X); the transpose of a lower triangle is an upper one
        grad_B = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        full = -grad_B @ X.mT
        # the half that is never read has no gradient
        grad_T = full.tril()
        return grad_T, grad_B, None

# %% vmap-solve_1
"""The rule reports b's old axis as the place of the samples in the result, although it has moved the samples to the front; the author read the second value as where the samples came from."""
WRONG = ["return Solve.apply(a, b), b_dim"]
RIGHT = ["return Solve.apply(a, b), 0"]
EXERCISE = "vmap-solve"
NAME = "Solve"
# --- code
import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function


class Solve(Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        y = np.linalg.solve(a.detach().numpy(), b.detach().numpy()[..., None])
        return torch.from_numpy(y[..., 0])

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor]:
        a, y = ctx.saved_tensors
        grad_b = Solve.apply(a.mT, grad_output)
        grad_a = -grad_b[..., :, None] * y[..., None, :] if ctx.needs_input_grad[0] else None
        return grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, a: Tensor, b: Tensor) -> tuple[Tensor, int]:
        a_dim, b_dim = in_dims
        # bring the samples to the front, or give a shared one an axis for them
        a = a.expand(info.batch_size, *a.shape) if a_dim is None else a.movedim(a_dim, 0)
        b = b.expand(info.batch_size, *b.shape) if b_dim is None else b.movedim(b_dim, 0)
        return Solve.apply(a, b), b_dim
