"""Mistakes: indexing and state. Each cell is a separate module; see benchmarks/repairs.py."""

# %% ball_projection_1
"""The radius gets gradient from every row, though rows inside the ball are passed through and do not depend on it; the mask used for x was thought unnecessary for a scalar."""
WRONG = ["grad_radius = radial.sum()"]
RIGHT = ["grad_radius = radial[outside].sum()"]
NAME = "ProjectOntoBall"
# --- code
import torch
from torch.autograd import Function


class ProjectOntoBall(Function):
    """Rows of x longer than radius are shortened to it, the others stay. radius: 0-dim tensor."""

    @staticmethod
    def forward(ctx, x, radius):
        ctx.save_for_backward(x, radius)
        norm = x.norm(dim=-1, keepdim=True)
        return torch.where(norm > radius, x * (radius / norm), x)

    @staticmethod
    def backward(ctx, grad):
        x, radius = ctx.saved_tensors
        norm = x.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        outside = norm > radius
        unit = x / norm

        radial = (grad * unit).sum(-1, keepdim=True)
        # outside, only the part along the sphere gets through
        shrunk = (radius / norm) * (grad - radial * unit)
        grad_x = torch.where(outside, shrunk, grad)
        grad_radius = radial.sum()
        return grad_x, grad_radius


def inputs():
    torch.manual_seed(0)
    scale = torch.tensor([0.2, 3.0, 1.0, 0.1, 2.0], dtype=torch.float64).unsqueeze(1)
    return torch.randn(5, 3, dtype=torch.float64) * scale, torch.tensor(1.0, dtype=torch.float64)


def reference(x, radius):
    norm = x.norm(dim=-1, keepdim=True)
    return x * torch.minimum(radius / norm, torch.ones_like(norm))

# %% bilinear_1
"""The y derivative was copied from the x line together with its pixel scale (W - 1) / 2, which is right only for square images."""
WRONG = ["grad_y = grad * d_fy * (W - 1) / 2"]
RIGHT = ["grad_y = grad * d_fy * (H - 1) / 2"]
NAME = "BilinearSample"
# --- code
import torch
from torch.autograd import Function


def corners(image, points):
    """Pixel coordinates, the fractions in the cell, and the cell's four pixels."""
    H, W = image.shape
    px = (points[:, 0] + 1) / 2 * (W - 1)
    py = (points[:, 1] + 1) / 2 * (H - 1)
    x0 = px.detach().floor().long().clamp(0, W - 2)
    y0 = py.detach().floor().long().clamp(0, H - 2)
    values = image[y0, x0], image[y0, x0 + 1], image[y0 + 1, x0], image[y0 + 1, x0 + 1]
    return x0, y0, px - x0, py - y0, values


class BilinearSample(Function):
    """image (H, W) at points (N, 2), given as (x, y) in [-1, 1] with aligned corners."""

    @staticmethod
    def forward(ctx, image, points):
        ctx.save_for_backward(image, points)
        _, _, fx, fy, (v00, v01, v10, v11) = corners(image, points)
        top = v00 * (1 - fx) + v01 * fx
        bottom = v10 * (1 - fx) + v11 * fx
        return top * (1 - fy) + bottom * fy

    @staticmethod
    def backward(ctx, grad):
        image, points = ctx.saved_tensors
        H, W = image.shape
        x0, y0, fx, fy, (v00, v01, v10, v11) = corners(image, points)

        # image: hand each gradient out to the four pixels
        grad_image = torch.zeros_like(image)
        for dy, dx, weight in ((0, 0, (1 - fy) * (1 - fx)), (0, 1, (1 - fy) * fx),
                               (1, 0, fy * (1 - fx)), (1, 1, fy * fx)):
            grad_image = grad_image.index_put((y0 + dy, x0 + dx), grad * weight, accumulate=True)

        # points: derivative within the cell, times pixels per unit
        d_fx = (v01 - v00) * (1 - fy) + (v11 - v10) * fy
        d_fy = (v10 - v00) * (1 - fx) + (v11 - v01) * fx
        grad_x = grad * d_fx * (W - 1) / 2
        grad_y = grad * d_fy * (W - 1) / 2
        return grad_image, torch.stack([grad_x, grad_y], dim=1)


def inputs():
    torch.manual_seed(0)
    return torch.randn(4, 6, dtype=torch.float64), torch.rand(5, 2, dtype=torch.float64) * 1.8 - 0.9


def reference(image, points):
    out = torch.nn.functional.grid_sample(image[None, None], points[None, None],
                                          mode="bilinear", align_corners=True)
    return out[0, 0, 0]

# %% cat_1
"""Backward returns one gradient for each tensor but none for dim; the author thought that integer arguments do not count as inputs."""
WRONG = ["return tuple(pieces)"]
RIGHT = ["return (None,) + tuple(pieces)"]
NAME = "Concat"
# --- code
import torch
from torch.autograd import Function


class Concat(Function):

    @staticmethod
    def forward(ctx, dim, *tensors):
        ctx.dim = dim
        ctx.sizes = [t.size(dim) for t in tensors]
        return torch.cat(tensors, dim)

    @staticmethod
    def backward(ctx, grad_output):
        pieces = torch.split(grad_output, ctx.sizes, dim=ctx.dim)
        return tuple(pieces)


def inputs():
    torch.manual_seed(0)
    return 1, torch.randn(2, 3), torch.randn(2, 1), torch.randn(2, 2)


def reference(dim, *tensors):
    return torch.cat(tensors, dim)

# %% cumprod_1
"""Input and output are kept as attributes of ctx, thought to be the same as save_for_backward with less writing; it bypasses the check for in-place changes and makes a reference cycle with the output."""
WRONG = ["ctx.rates, ctx.levels = rates, output", "rates, levels = ctx.rates, ctx.levels"]
RIGHT = ["ctx.save_for_backward(rates, output)", "rates, levels = ctx.saved_tensors"]
NAME = "CompoundGrowth"
# --- code
import torch
from torch.autograd import Function


class CompoundGrowth(Function):
    # rates -> levels, levels[t] = prod_{s <= t} (1 + rates[s]); rates > -1

    @staticmethod
    def forward(rates):
        return (1 + rates).cumprod(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (rates,) = inputs
        ctx.rates, ctx.levels = rates, output

    @staticmethod
    def backward(ctx, grad_levels):
        rates, levels = ctx.rates, ctx.levels
        weighted = grad_levels * levels
        tail = weighted.flip(-1).cumsum(-1).flip(-1)
        return tail / (1 + rates)


def inputs():
    torch.manual_seed(0)
    return (torch.rand(2, 5, dtype=torch.float64) * 0.2 - 0.05,)


def reference(rates):
    return torch.cumprod(1 + rates, dim=-1)

# %% cumsum_1
"""The reversed running sum of the gradient is not flipped back, because the author thought of flip and cumsum as the whole transposed operation."""
WRONG = ["suffix = g.flip(d).cumsum(d)"]
RIGHT = ["suffix = g.flip(d).cumsum(d).flip(d)"]
NAME = "ExclusiveCumsum"
# --- code
import torch
from torch.autograd import Function


class ExclusiveCumsum(Function):
    """out[t] = x[0] + ... + x[t-1]"""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        return x.cumsum(dim) - x

    @staticmethod
    def backward(ctx, g):
        # x[s] appears in all later outputs: sum of g over t > s
        d = ctx.dim
        suffix = g.flip(d).cumsum(d)
        return suffix - g, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 5), 1


def reference(x, dim):
    head = torch.zeros_like(x.narrow(dim, 0, 1))
    return torch.cat([head, x.narrow(dim, 0, x.shape[dim] - 1).cumsum(dim)], dim)

# %% ema_1
"""The gradient of the decay has only the term of the previous average; that x is weighted by 1 - decay, which depends on the decay too, was forgotten."""
WRONG = ["grad_decay = grad_decay + (total * y[t - 1]).sum()"]
RIGHT = ["grad_decay = grad_decay + (total * (y[t - 1] - x[t])).sum()"]
NAME = "ExpMovingAverage"
# --- code
import torch
from torch.autograd import Function


class ExpMovingAverage(Function):
    """y[0] = x[0], y[t] = decay * y[t-1] + (1 - decay) * x[t]; x is (time, features)."""

    @staticmethod
    def forward(ctx, x, decay):
        ys = [x[0]]
        for t in range(1, x.shape[0]):
            ys.append(decay * ys[-1] + (1 - decay) * x[t])
        y = torch.stack(ys)
        ctx.save_for_backward(x, decay, y)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, decay, y = ctx.saved_tensors
        grad_x = [None] * x.shape[0]
        grad_decay = torch.zeros_like(decay)
        carry = torch.zeros_like(x[0])          # gradient that reaches y[t] from the future
        for t in range(x.shape[0] - 1, 0, -1):
            total = grad_y[t] + carry
            grad_x[t] = (1 - decay) * total
            grad_decay = grad_decay + (total * y[t - 1]).sum()
            carry = decay * total
        grad_x[0] = grad_y[0] + carry
        return torch.stack(grad_x), grad_decay


def inputs():
    torch.manual_seed(0)
    return torch.randn(6, 2, dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)


def reference(x, decay):
    y = [x[0]]
    for row in x[1:]:
        y.append(torch.lerp(row, y[-1], decay))
    return torch.stack(y)

# %% embedding_1
"""The gradients are returned with the trainable tensor's first, in the belief that autograd only asks for gradients of tensors that require them, in that order; forward takes the indices first."""
WRONG = ["return grad_weight, None"]
RIGHT = ["return None, grad_weight"]
NAME = "EmbeddingLookup"
# --- code
import math

import torch
from torch.autograd import Function


class EmbeddingLookup(Function):
    """Transformer style embedding: rows of `weight`, scaled by sqrt(d_model)."""

    @staticmethod
    def forward(ctx, indices, weight):
        d_model = weight.shape[1]
        ctx.save_for_backward(indices)
        ctx.num_rows = weight.shape[0]
        ctx.scale = math.sqrt(d_model)
        return weight[indices] * ctx.scale

    @staticmethod
    def backward(ctx, grad_output):
        (indices,) = ctx.saved_tensors
        d_model = grad_output.shape[-1]
        flat_grad = grad_output.reshape(-1, d_model) * ctx.scale
        grad_weight = grad_output.new_zeros(ctx.num_rows, d_model)
        # a token may occur several times, so rows have to be accumulated
        grad_weight = grad_weight.index_add(0, indices.reshape(-1), flat_grad)
        return grad_weight, None


def inputs():
    torch.manual_seed(0)
    indices = torch.tensor([[0, 2, 2], [4, 1, 0]])
    return indices, torch.randn(6, 4)


def reference(indices, weight):
    return torch.nn.functional.embedding(indices, weight) * math.sqrt(weight.shape[1])

# %% gather_1
"""Backward writes the gradients back with scatter_, taken for the inverse of gather; where an index occurs twice only one of the gradients survives."""
WRONG = ["grad_x = grad_x.scatter(ctx.dim, index, grad_out)"]
RIGHT = ["grad_x = grad_x.scatter_add(ctx.dim, index, grad_out)"]
NAME = "TakeAlong"
# --- code
import torch
from torch.autograd import Function


class TakeAlong(Function):

    @staticmethod
    def forward(x, index, dim):
        return x.gather(dim, index)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, index, dim = inputs
        ctx.save_for_backward(index)
        ctx.dim = dim
        ctx.in_shape = x.shape

    @staticmethod
    def backward(ctx, grad_out):
        index, = ctx.saved_tensors
        grad_x = grad_out.new_zeros(ctx.in_shape)
        grad_x = grad_x.scatter(ctx.dim, index, grad_out)
        return grad_x, None, None


def inputs():
    torch.manual_seed(3)
    x = torch.randn(3, 5)
    index = torch.tensor([[0, 0, 4, 1], [2, 3, 3, 3], [1, 0, 2, 4]])
    return x, index, 1


def reference(x, index, dim):
    return torch.gather(x, dim, index)

# %% iir_1
"""The filter's output is kept in a class attribute between forward and backward, as one keeps state in a module; a second call before backward overwrites it."""
WRONG = ["FirstOrderIIR.response = y", "y = FirstOrderIIR.response"]
RIGHT = ["ctx.save_for_backward(x, coeffs, y)", "x, coeffs, y = ctx.saved_tensors"]
NAME = "FirstOrderIIR"
# --- code
import torch
from torch.autograd import Function


class FirstOrderIIR(Function):
    """y[t] = b0 x[t] + b1 x[t-1] - a1 y[t-1], coeffs = (b0, b1, a1)."""

    response = None

    @staticmethod
    def forward(ctx, x, coeffs):
        b0, b1, a1 = coeffs
        y = []
        last_x = last_y = x.new_zeros(())
        for sample in x:
            last_y = b0 * sample + b1 * last_x - a1 * last_y
            last_x = sample
            y.append(last_y)
        y = torch.stack(y)
        ctx.save_for_backward(x, coeffs)
        FirstOrderIIR.response = y
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, coeffs = ctx.saved_tensors
        y = FirstOrderIIR.response
        b0, b1, a1 = coeffs

        # the adjoint filter runs backwards in time
        lam = []
        later = torch.zeros_like(a1)
        for g in reversed(grad_y.unbind()):
            later = g - a1 * later
            lam.append(later)
        lam = torch.stack(lam[::-1])

        zero = lam.new_zeros(1)
        grad_x = b0 * lam + b1 * torch.cat([lam[1:], zero])
        grad_b0 = (lam * x).sum()
        grad_b1 = (lam[1:] * x[:-1]).sum()
        grad_a1 = -(lam[1:] * y[:-1]).sum()
        return grad_x, torch.stack([grad_b0, grad_b1, grad_a1])


def inputs():
    torch.manual_seed(0)
    return torch.randn(7, dtype=torch.float64), torch.tensor([0.6, 0.3, -0.5], dtype=torch.float64)


def reference(x, coeffs):
    b0, b1, a1 = coeffs
    drive = b0 * x + b1 * torch.cat([x.new_zeros(1), x[:-1]])
    y = [drive[0]]
    for d in drive[1:]:
        y.append(d - a1 * y[-1])
    return torch.stack(y)

# %% implicit_fixed_point_1
"""The linear system of the implicit function theorem is solved with I - J instead of its transpose; the author carried the forward sensitivity equation over to the vector-Jacobian product."""
WRONG = ["u = torch.linalg.solve(eye - J, grad_z.unsqueeze(-1)).squeeze(-1)"]
RIGHT = ["u = torch.linalg.solve((eye - J).mT, grad_z.unsqueeze(-1)).squeeze(-1)"]
NAME = "FixedPoint"
# --- code
import torch
from torch.autograd import Function


class FixedPoint(Function):
    """z = tanh(W z + x), solved by iteration, for each row x of a batch (|W| < 1)."""

    @staticmethod
    def forward(ctx, x, W):
        z = torch.zeros_like(x)
        for _ in range(200):
            z = torch.tanh(z @ W.t() + x)
        ctx.save_for_backward(z, W)
        return z

    @staticmethod
    def backward(ctx, grad_z):
        z, W = ctx.saved_tensors
        # implicit function theorem: dz = J dz + D dx with D = diag(1 - z^2), J = D W
        D = 1 - z ** 2
        J = D.unsqueeze(-1) * W
        eye = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        u = torch.linalg.solve(eye - J, grad_z.unsqueeze(-1)).squeeze(-1)
        grad_x = D * u
        grad_W = grad_x.t() @ z
        return grad_x, grad_W


def inputs():
    torch.manual_seed(0)
    W = torch.randn(4, 4, dtype=torch.float64)
    W = 0.6 * W / torch.linalg.matrix_norm(W, 2)
    return torch.randn(3, 4, dtype=torch.float64), W


def reference(x, W):
    z = torch.zeros_like(x)
    for _ in range(200):
        z = torch.tanh(z @ W.t() + x)
    return z

# %% interp_1
"""Weight and slope are computed in forward and saved, so a second derivative silently treats them as constants; the author thought that a backward made of PyTorch operations is differentiable by itself, whatever the saved tensors are."""
WRONG = ["ctx.save_for_backward(left, weight, slope)", "left, weight, slope = ctx.saved_tensors"]
RIGHT = ["ctx.save_for_backward(query, table)", "left, weight, slope = locate(*ctx.saved_tensors, ctx.start, ctx.step)"]
NAME = "TableInterp"
# --- code
import torch
from torch.autograd import Function


def locate(query, table, start, step):
    """Cell of each query, the place within the cell, and the slope there."""
    position = (query - start) / step
    left = position.detach().floor().long().clamp(0, table.numel() - 2)
    slope = (table[left + 1] - table[left]) / step
    return left, position - left, slope


class TableInterp(Function):
    """Linear interpolation in a table of equidistant values.

    table[k] belongs to start + k * step; queries beyond the ends are extrapolated.
    """

    @staticmethod
    def forward(ctx, query, table, start, step):
        left, weight, slope = locate(query, table, start, step)
        ctx.size, ctx.start, ctx.step = table.numel(), start, step
        ctx.save_for_backward(left, weight, slope)
        return table[left] + weight * slope * step

    @staticmethod
    def backward(ctx, grad_output):
        left, weight, slope = ctx.saved_tensors
        grad_query = grad_output * slope
        grad_table = grad_output.new_zeros(ctx.size)
        grad_table = grad_table.index_add(0, left, grad_output * (1 - weight))
        grad_table = grad_table.index_add(0, left + 1, grad_output * weight)
        return grad_query, grad_table, None, None


def inputs():
    torch.manual_seed(0)
    query = torch.tensor([-0.83, -0.1, 0.31, 0.44, 0.93], dtype=torch.float64)
    table = torch.randn(5, dtype=torch.float64)
    return query, table, -1.0, 0.5


def reference(query, table, start, step):
    position = (query - start) / step
    left = position.detach().floor().long().clamp(0, table.numel() - 2)
    return torch.lerp(table[left], table[left + 1], position - left)

# %% lennard_jones_1
"""Backward returns the bare derivatives without multiplying by grad_output, which was taken to be always 1 because the energy is a scalar."""
WRONG = ["return d_positions, d_epsilon, d_sigma"]
RIGHT = ["return grad_output * d_positions, grad_output * d_epsilon, grad_output * d_sigma"]
NAME = "LennardJones"
# --- code
import torch
from torch.autograd import Function


def pair_terms(positions, sigma):
    i, j = torch.triu_indices(len(positions), len(positions), offset=1)
    diff = positions[i] - positions[j]
    r2 = diff.pow(2).sum(-1)
    s6 = (sigma ** 2 / r2) ** 3
    return i, j, diff, r2, s6


class LennardJones(Function):
    """Energy of a cluster: sum over pairs of 4 eps ((sigma/r)^12 - (sigma/r)^6)."""

    @staticmethod
    def forward(ctx, positions, epsilon, sigma):
        ctx.save_for_backward(positions, epsilon, sigma)
        *_, s6 = pair_terms(positions, sigma)
        return 4 * epsilon * (s6 ** 2 - s6).sum()

    @staticmethod
    def backward(ctx, grad_output):
        positions, epsilon, sigma = ctx.saved_tensors
        i, j, diff, r2, s6 = pair_terms(positions, sigma)

        # dE/d(r^2) of each pair; d(r^2)/dx_i = 2 (x_i - x_j)
        d_r2 = 4 * epsilon * (3 * s6 - 6 * s6 ** 2) / r2
        on_i = 2 * d_r2.unsqueeze(-1) * diff
        d_positions = torch.zeros_like(positions).index_add(0, i, on_i).index_add(0, j, -on_i)

        d_epsilon = 4 * (s6 ** 2 - s6).sum()
        d_sigma = 4 * epsilon * (12 * s6 ** 2 - 6 * s6).sum() / sigma
        return d_positions, d_epsilon, d_sigma


def inputs():
    torch.manual_seed(0)
    corners = torch.tensor([[0., 0, 0], [1.2, 0, 0], [0, 1.2, 0], [0, 0, 1.2]], dtype=torch.float64)
    positions = corners + 0.05 * torch.randn(4, 3, dtype=torch.float64)
    return positions, torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.1, dtype=torch.float64)


def reference(positions, epsilon, sigma):
    s6 = (sigma / torch.nn.functional.pdist(positions)) ** 6
    return 4 * epsilon * (s6 ** 2 - s6).sum()

# %% linear_recurrence_1
"""On the way from h[t] back to h[t-1] the gradient is multiplied by the coefficient of the step it arrives at, a[t-1], instead of that of the step it goes through, a[t]."""
WRONG = ["carry = lam * a[t - 1]"]
RIGHT = ["carry = lam * a[t]"]
NAME = "LinearRecurrence"
# --- code
import torch
from torch.autograd import Function


class LinearRecurrence(Function):
    """h[t] = a[t] * h[t-1] + b[t], starting from h0. a, b: (T, D), h0: (D,)"""

    @staticmethod
    def forward(a, b, h0):
        h = torch.empty_like(b)
        state = h0
        for t in range(len(b)):
            state = a[t] * state + b[t]
            h[t] = state
        return h

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, h0 = inputs
        ctx.save_for_backward(a, h0, output)

    @staticmethod
    def backward(ctx, grad_h):
        a, h0, h = ctx.saved_tensors
        previous = torch.cat([h0.unsqueeze(0), h[:-1]])
        adjoint = []
        carry = torch.zeros_like(h0)
        for t in reversed(range(len(a))):
            lam = grad_h[t] + carry
            adjoint.append(lam)
            # hand it on to the state before
            carry = lam * a[t - 1]
        adjoint = torch.stack(adjoint[::-1])
        return adjoint * previous, adjoint, carry


def inputs():
    torch.manual_seed(0)
    return torch.rand(5, 3), torch.randn(5, 3), torch.randn(3)


def reference(a, b, h0):
    states = [h0]
    for a_t, b_t in zip(a, b):
        states.append(a_t * states[-1] + b_t)
    return torch.stack(states[1:])

# %% masked_fill_1
"""detach() was taken for a copy, so forward overwrites the caller's x; and the gradient of the filled-in value is summed over the complement of the mask (thought of as a keep-mask)."""
WRONG = ["out = x.detach()  # a copy outside of the graph, to write into", "grad_token = grad_output[~mask].sum()"]
RIGHT = ["out = x.clone()", "grad_token = grad_output[mask].sum()"]
NAME = "FillWithToken"
# --- code
import torch
from torch.autograd import Function


class FillWithToken(Function):
    """Replaces the masked positions of x by a learned scalar."""

    @staticmethod
    def forward(ctx, x, mask, token):
        ctx.save_for_backward(mask)
        out = x.detach()  # a copy outside of the graph, to write into
        out[mask] = token
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        grad_x = grad_output.masked_fill(mask, 0.0)
        grad_token = grad_output[~mask].sum()
        return grad_x, None, grad_token


def inputs():
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    mask = torch.tensor([[True, False, False, True],
                         [False, False, True, False],
                         [False, False, False, False]])
    return x, mask, torch.tensor(0.5)


def reference(x, mask, token):
    return torch.where(mask, token, x)

# %% ode_step_1
"""The step is recomputed in backward without enable_grad; the author thought requires_grad_() on the detached inputs is enough to record a graph there."""
WRONG = []
RIGHT = ["with torch.enable_grad():"]
NAME = "MidpointStep"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def velocity(y, W):
    return torch.tanh(y @ W.t())


def midpoint(y, W, dt):
    half = y + 0.5 * dt * velocity(y, W)
    return y + dt * velocity(half, W)


class MidpointStep(Function):
    """One step of y' = tanh(W y) that keeps no intermediates: backward runs the step again."""

    @staticmethod
    def forward(ctx, y, W, dt):
        ctx.save_for_backward(y, W)
        ctx.dt = dt
        return midpoint(y, W, dt)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_next):
        y, W = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        y_next = midpoint(y, W, ctx.dt)
        grad_y, grad_W = torch.autograd.grad(y_next, (y, W), grad_next)
        return grad_y, grad_W, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 4), torch.randn(4, 4) / 2, 0.1


def reference(y, W, dt):
    return midpoint(y, W, dt)

# %% pairwise_distance_1
"""Backward divides by the distance without a guard, since random points never coincide; where a landmark is one of the points, 0 / 0 makes the gradient nan."""
WRONG = ["unit = diff / dist.unsqueeze(-1)"]
RIGHT = ["unit = diff / dist.clamp_min(1e-12).unsqueeze(-1)"]
NAME = "PairwiseDistance"
# --- code
import torch
from torch.autograd import Function


class PairwiseDistance(Function):
    """Distances of points (N, D) from landmarks (M, D), as (N, M)."""

    @staticmethod
    def forward(points, landmarks):
        diff = points[:, None, :] - landmarks[None, :, :]
        return diff.pow(2).sum(-1).sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        points, landmarks = inputs
        ctx.save_for_backward(points, landmarks, output)

    @staticmethod
    def backward(ctx, grad_dist):
        points, landmarks, dist = ctx.saved_tensors
        diff = points[:, None, :] - landmarks[None, :, :]
        unit = diff / dist.unsqueeze(-1)
        pull = grad_dist.unsqueeze(-1) * unit
        return pull.sum(1), -pull.sum(0)


def inputs():
    torch.manual_seed(0)
    points = torch.randn(5, 3)
    # landmarks are picked among the points, plus one at the origin
    landmarks = torch.cat([points[[0, 3]], torch.zeros(1, 3)])
    return points, landmarks


def reference(points, landmarks):
    return torch.cdist(points, landmarks, compute_mode="donot_use_mm_for_euclid_dist")

# %% polar_1
"""set_materialize_grads(False) was added as an optimisation although backward computes with both gradients; when only one of the outputs is used, the other one's gradient is None."""
WRONG = ["ctx.set_materialize_grads(False)    # don't allocate zeros for nothing"]
RIGHT = []
NAME = "ToPolar"
# --- code
import torch
from torch.autograd import Function


class ToPolar(Function):
    """(x, y) -> (radius, angle)"""

    @staticmethod
    def forward(x, y):
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        radius, _ = output
        ctx.set_materialize_grads(False)    # don't allocate zeros for nothing
        ctx.save_for_backward(x, y, radius)

    @staticmethod
    def backward(ctx, grad_radius, grad_angle):
        x, y, radius = ctx.saved_tensors
        per_radius = grad_radius / radius
        per_angle = grad_angle / radius ** 2
        grad_x = per_radius * x - per_angle * y
        grad_y = per_radius * y + per_angle * x
        return grad_x, grad_y


def inputs():
    torch.manual_seed(0)
    return torch.randn(5), torch.randn(5)


def reference(x, y):
    return (x ** 2 + y ** 2).sqrt(), torch.atan2(y, x)

# %% quaternion_1
"""The factors of the cross product in the gradient of the vector part stand in the wrong order, copied from the order in forward, which turns the sign of that term."""
WRONG = ["middle = 2 * w * torch.linalg.cross(g, v)"]
RIGHT = ["middle = 2 * w * torch.linalg.cross(v, g)"]
NAME = "QuaternionRotate"
# --- code
import torch
from torch.autograd import Function


def dot(a, b):
    return (a * b).sum(-1, keepdim=True)


class QuaternionRotate(Function):
    """v + 2 w (u x v) + 2 u x (u x v) for q = (w, u); a rotation where |q| = 1."""

    @staticmethod
    def forward(ctx, q, v):
        ctx.save_for_backward(q, v)
        w, u = q[..., :1], q[..., 1:]
        uv = torch.linalg.cross(u, v)
        return v + 2 * w * uv + 2 * torch.linalg.cross(u, uv)

    @staticmethod
    def backward(ctx, g):
        q, v = ctx.saved_tensors
        w, u = q[..., :1], q[..., 1:]

        # v: the opposite rotation
        ug = torch.linalg.cross(u, g)
        grad_v = g - 2 * w * ug + 2 * torch.linalg.cross(u, ug)

        # w: only in the middle term
        grad_w = 2 * dot(g, torch.linalg.cross(u, v))

        # u: middle term, and u x (u x v) = u (u.v) - v (u.u)
        middle = 2 * w * torch.linalg.cross(g, v)
        last = 2 * (g * dot(u, v) + v * dot(g, u) - 2 * u * dot(g, v))
        return torch.cat([grad_w, middle + last], dim=-1), grad_v


def inputs():
    torch.manual_seed(0)
    q = torch.nn.functional.normalize(torch.randn(4, 4, dtype=torch.float64), dim=-1)
    return q, torch.randn(4, 3, dtype=torch.float64)


def reference(q, v):
    w, u = q[..., :1], q[..., 1:]
    t = 2 * torch.cross(u, v, dim=-1)
    return v + w * t + torch.cross(u, t, dim=-1)

# %% ray_sphere_1
"""The derivative along the direction lacks the factor t (the ray is o + t d), and the centre was given the origin's gradient unchanged although only their difference counts, with opposite signs."""
WRONG = ["grad_d = grad_o", "grad_center = grad_o.sum(0)"]
RIGHT = ["grad_d = grad_o * t.unsqueeze(-1)", "grad_center = -grad_o.sum(0)"]
NAME = "RaySphere"
# --- code
import torch
from torch.autograd import Function


def dot(a, b):
    return (a * b).sum(-1)


class RaySphere(Function):
    """Distance t along the rays o + t d to the first hit of a sphere; 0 for rays that miss it.

    Differentiated implicitly: F = |o + t d - c|^2 - r^2 = 0, so dt = -dF / (2 n.d)
    with n = o + t d - c.
    """

    @staticmethod
    def forward(ctx, o, d, center, radius):
        oc = o - center
        a, b = dot(d, d), dot(d, oc)
        disc = b * b - a * (dot(oc, oc) - radius ** 2)
        hit = disc > 0
        t = (-b - disc.clamp_min(0).sqrt()) / a
        t = torch.where(hit, t, torch.zeros_like(t))
        ctx.save_for_backward(o, d, center, radius, t, hit)
        return t

    @staticmethod
    def backward(ctx, grad_t):
        o, d, center, radius, t, hit = ctx.saved_tensors
        n = o + t.unsqueeze(-1) * d - center
        s = torch.where(hit, grad_t / dot(n, d), torch.zeros_like(t))

        grad_o = -s.unsqueeze(-1) * n
        grad_d = grad_o
        grad_center = grad_o.sum(0)
        grad_radius = (s * radius).sum()
        return grad_o, grad_d, grad_center, grad_radius


def inputs():
    torch.manual_seed(0)
    o = torch.randn(5, 3, dtype=torch.float64) * 0.2 - torch.tensor([0., 0., 4.], dtype=torch.float64)
    d = torch.tensor([[0., 0, 1], [0.05, 0, 1], [0, 0.1, 0.8], [1, 0, 0], [-0.05, 0.02, 0.5]], dtype=torch.float64)
    center = torch.tensor([0.1, -0.1, 0.3], dtype=torch.float64)
    return o, d, center, torch.tensor(1.5, dtype=torch.float64)


def reference(o, d, center, radius):
    oc = o - center
    a, b = dot(d, d), dot(d, oc)
    disc = b * b - a * (dot(oc, oc) - radius ** 2)
    hit = disc > 0
    safe = torch.where(hit, disc, torch.ones_like(disc))
    return torch.where(hit, (-b - safe.sqrt()) / a, torch.zeros_like(disc))

# %% reflect_pad_1
"""On the right side the folded-back gradient is added one place too far, onto the last element too, as for symmetric padding; reflection leaves the edge element out."""
WRONG = ["grad_x[..., n - pad:] += grad_right.flip(-1)"]
RIGHT = ["grad_x[..., n - pad - 1:n - 1] += grad_right.flip(-1)"]
NAME = "ReflectPad1d"
# --- code
import torch
from torch.autograd import Function


class ReflectPad1d(Function):
    # x: (batch, channels, length) -> (batch, channels, length + 2 * pad)

    @staticmethod
    def forward(ctx, x, pad):
        n = x.shape[-1]
        ctx.pad, ctx.n = pad, n
        left = x[..., 1:pad + 1].flip(-1)
        right = x[..., n - pad - 1:n - 1].flip(-1)
        return torch.cat([left, x, right], dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        pad, n = ctx.pad, ctx.n
        grad_left = grad_output[..., :pad]
        grad_right = grad_output[..., pad + n:]
        grad_x = grad_output[..., pad:pad + n].clone()
        # the padding came from inside: fold it back
        grad_x[..., 1:pad + 1] += grad_left.flip(-1)
        grad_x[..., n - pad:] += grad_right.flip(-1)
        return grad_x, None


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 2, 6, dtype=torch.float64), 2


def reference(x, pad):
    return torch.nn.functional.pad(x, (pad, pad), mode="reflect")

# %% roll_1
"""The backward of a shift shifts the gradient in the same direction as the data; the author reasoned that a permutation of positions has itself as its gradient."""
WRONG = ["return roll_rows(grad_output, shifts), None"]
RIGHT = ["return roll_rows(grad_output, -shifts), None"]
NAME = "RollRows"
# --- code
import torch
from torch.autograd import Function


def roll_rows(x, shifts):
    """Row i of x, moved shifts[i] places to the right, cyclically."""
    length = x.shape[1]
    where_from = torch.arange(length, device=x.device) - shifts.unsqueeze(1)
    return x.gather(1, where_from % length)


class RollRows(Function):
    @staticmethod
    def forward(x, shifts):
        return roll_rows(x, shifts)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, grad_output):
        (shifts,) = ctx.saved_tensors
        return roll_rows(grad_output, shifts), None


def inputs():
    torch.manual_seed(0)
    return torch.randn(3, 5), torch.tensor([1, -2, 0])


def reference(x, shifts):
    return torch.stack([torch.roll(row, int(s)) for row, s in zip(x, shifts)])

# %% scatter_add_1
"""Forward adds into the caller's tensor with scatter_add_; the author thought that inside forward, where no graph is recorded, in-place work is free of consequences."""
WRONG = ["out = base.scatter_add_(0, index, src)"]
RIGHT = ["out = base.scatter_add(0, index, src)"]
NAME = "ScatterAddRows"
# --- code
import torch
from torch.autograd import Function


class ScatterAddRows(Function):
    """out = base, with src[i] added to row index[i].

    Used to sum messages into the nodes of a graph.
    """

    @staticmethod
    def forward(ctx, base, index, src):
        # scatter_add wants an index of the shape of src
        index = index.unsqueeze(1).expand_as(src)
        ctx.save_for_backward(index)
        out = base.scatter_add_(0, index, src)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        (index,) = ctx.saved_tensors
        grad_base = grad_src = None
        if ctx.needs_input_grad[0]:
            grad_base = grad_out.clone()
        if ctx.needs_input_grad[2]:
            grad_src = grad_out.gather(0, index)
        return grad_base, None, grad_src


def inputs():
    torch.manual_seed(0)
    base = torch.randn(4, 3, dtype=torch.float64)
    index = torch.tensor([0, 3, 3, 1, 0])
    src = torch.randn(5, 3, dtype=torch.float64)
    return base, index, src


def reference(base, index, src):
    return base.index_add(0, index, src)

# %% segment_mean_1
"""Backward divides by the number of all values, as the gradient of x.mean() does, instead of by the size of each value's own segment."""
WRONG = ["n = segments.numel()"]
RIGHT = ["n = torch.bincount(segments)[segments].unsqueeze(1)"]
NAME = "SegmentMean"
# --- code
import torch
from torch.autograd import Function


class SegmentMean(Function):
    @staticmethod
    def forward(values, segments, num_segments):
        sums = values.new_zeros(num_segments, values.shape[1])
        sums.index_add_(0, segments, values)
        counts = torch.bincount(segments, minlength=num_segments)
        # empty segments give zero
        return sums / counts.clamp(min=1).unsqueeze(1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, segments, _ = inputs
        ctx.save_for_backward(segments)

    @staticmethod
    def backward(ctx, grad_output):
        (segments,) = ctx.saved_tensors
        # every value gets its segment's gradient, times 1/n from the mean
        n = segments.numel()
        return grad_output[segments] / n, None, None


def inputs():
    torch.manual_seed(1)
    return torch.randn(6, 2), torch.tensor([0, 0, 1, 3, 3, 3]), 4


def reference(values, segments, num_segments):
    onehot = torch.nn.functional.one_hot(segments, num_segments).to(values.dtype)
    return onehot.t() @ values / onehot.sum(0).clamp(min=1).unsqueeze(1)

# %% soft_dtw_1
"""In the weight of the diagonal step the division by gamma was forgotten, unnoticed because the author tried it with gamma = 1."""
WRONG = ["diag = torch.exp(R[i + 1, j + 1] - R[i, j] - cost[i + 1, j + 1])"]
RIGHT = ["diag = torch.exp((R[i + 1, j + 1] - R[i, j] - cost[i + 1, j + 1]) / gamma)"]
NAME = "SoftDTW"
# --- code
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def softmin(values, gamma):
    return -gamma * torch.logsumexp(-torch.stack(values) / gamma, dim=0)


class SoftDTW(Function):
    """Soft-DTW (Cuturi & Blondel 2017) of a cost matrix D of shape (n, m)."""

    @staticmethod
    def forward(ctx, D, gamma):
        n, m = D.shape
        R = D.new_full((n + 2, m + 2), float("inf"))
        R[0, 0] = 0
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                R[i, j] = D[i - 1, j - 1] + softmin([R[i - 1, j], R[i, j - 1], R[i - 1, j - 1]], gamma)
        ctx.save_for_backward(D, R)
        ctx.gamma = gamma
        return R[n, m].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        D, R = ctx.saved_tensors
        n, m = D.shape
        gamma = ctx.gamma

        # border: nothing comes from outside, except at the far corner
        cost = D.new_zeros(n + 2, m + 2)
        cost[1:-1, 1:-1] = D
        R = R.clone()
        R[:, -1] = R[-1, :] = -float("inf")
        R[-1, -1] = R[n, m]

        E = torch.zeros_like(R)
        E[-1, -1] = 1
        for i in range(n, 0, -1):
            for j in range(m, 0, -1):
                down = torch.exp((R[i + 1, j] - R[i, j] - cost[i + 1, j]) / gamma)
                right = torch.exp((R[i, j + 1] - R[i, j] - cost[i, j + 1]) / gamma)
                diag = torch.exp(R[i + 1, j + 1] - R[i, j] - cost[i + 1, j + 1])
                E[i, j] = down * E[i + 1, j] + right * E[i, j + 1] + diag * E[i + 1, j + 1]
        return grad_output * E[1:-1, 1:-1], None


def inputs():
    torch.manual_seed(0)
    return torch.rand(3, 4, dtype=torch.float64), 0.5


def reference(D, gamma):
    n, m = D.shape
    inf = D.new_full((), float("inf"))
    table = {(0, 0): D.new_zeros(())}
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = [table[p] for p in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if p in table]
            table[i, j] = D[i - 1, j - 1] + softmin(before, gamma)
    return table[n, m]

# %% sort_1
"""The gradient is sent back with gather, which applies the sorting permutation again instead of its inverse; and the float ranks are not marked as non-differentiable because backward ignores their gradient anyway."""
WRONG = ["return grad_values.gather(-1, order)"]
RIGHT = ["ctx.mark_non_differentiable(ranks)", "return torch.zeros_like(grad_values).scatter(-1, order, grad_values)"]
NAME = "SortWithRanks"
# --- code
import torch
from torch.autograd import Function


class SortWithRanks(Function):
    """Sorted values along the last dimension, and every element's rank (as floats)."""

    @staticmethod
    def forward(ctx, x):
        values, order = torch.sort(x, dim=-1)
        ranks = order.argsort(dim=-1).to(x.dtype)
        ctx.save_for_backward(order)
        return values, ranks

    @staticmethod
    def backward(ctx, grad_values, grad_ranks):
        # ranks are piecewise constant, grad_ranks plays no part
        (order,) = ctx.saved_tensors
        return grad_values.gather(-1, order)


def inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 5, dtype=torch.float64),)


def reference(x):
    values, order = x.sort(dim=-1)
    return values, order.argsort(dim=-1).to(x.dtype)

# %% spherical_harmonics_1
"""The constant of the x^2 - y^2 harmonic was taken to be the same as that of xy, xz and yz; it is half as large, so forward gives a wrong value (and backward is consistent with it)."""
WRONG = ["C2_DIFF = 0.5 * math.sqrt(15 / math.pi)"]
RIGHT = ["C2_DIFF = 0.25 * math.sqrt(15 / math.pi)"]
NAME = "SphericalHarmonics2"
# --- code
import math

import torch
from torch.autograd import Function

# real spherical harmonics up to degree 2, in the order m = -l .. l
C0 = 0.5 * math.sqrt(1 / math.pi)
C1 = math.sqrt(3 / (4 * math.pi))
C2_MIXED = 0.5 * math.sqrt(15 / math.pi)        # xy, yz, xz
C2_Z = 0.25 * math.sqrt(5 / math.pi)            # 3 z^2 - 1
C2_DIFF = 0.5 * math.sqrt(15 / math.pi)


class SphericalHarmonics2(Function):
    """Unit directions (N, 3) -> basis values (N, 9)."""

    @staticmethod
    def forward(ctx, directions):
        ctx.save_for_backward(directions)
        x, y, z = directions.unbind(-1)
        return torch.stack([
            torch.full_like(x, C0),
            C1 * y, C1 * z, C1 * x,
            C2_MIXED * x * y, C2_MIXED * y * z, C2_Z * (3 * z * z - 1),
            C2_MIXED * x * z, C2_DIFF * (x * x - y * y),
        ], dim=-1)

    @staticmethod
    def backward(ctx, grad):
        (directions,) = ctx.saved_tensors
        x, y, z = directions.unbind(-1)
        _, g1, g2, g3, g4, g5, g6, g7, g8 = grad.unbind(-1)
        dx = C1 * g3 + C2_MIXED * (y * g4 + z * g7) + 2 * C2_DIFF * x * g8
        dy = C1 * g1 + C2_MIXED * (x * g4 + z * g5) - 2 * C2_DIFF * y * g8
        dz = C1 * g2 + C2_MIXED * (y * g5 + x * g7) + 6 * C2_Z * z * g6
        return torch.stack([dx, dy, dz], dim=-1)


def inputs():
    torch.manual_seed(0)
    return (torch.nn.functional.normalize(torch.randn(4, 3, dtype=torch.float64), dim=-1),)


def reference(directions):
    x, y, z = directions.unbind(-1)
    return torch.stack([
        0.28209479177387814 * torch.ones_like(x),
        0.4886025119029199 * y, 0.4886025119029199 * z, 0.4886025119029199 * x,
        1.0925484305920792 * x * y, 1.0925484305920792 * y * z,
        0.31539156525252005 * (3 * z * z - 1),
        1.0925484305920792 * x * z, 0.5462742152960396 * (x * x - y * y),
    ], dim=-1)

# %% stack_1
"""Backward multiplies grad_output in place to save memory, thinking that it belongs to this node alone; autograd may hand the same tensor to other nodes or hand out an expanded one."""
WRONG = ["grad_stacked = grad_output.mul_(per_tensor)"]
RIGHT = ["grad_stacked = grad_output * per_tensor"]
NAME = "WeightedStack"
# --- code
import torch
from torch.autograd import Function


class WeightedStack(Function):
    """Stacks tensors of one shape along a new first dimension, each times its weight."""

    @staticmethod
    def forward(weights, *tensors):
        stacked = torch.stack(tensors)
        return stacked * weights.view(-1, *[1] * tensors[0].dim())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        weights, *tensors = ctx.saved_tensors
        # d/dw_k = <grad_k, tensor_k>
        grad_weights = torch.stack([(g * t).sum() for g, t in zip(grad_output, tensors)])
        per_tensor = weights.view(-1, *[1] * tensors[0].dim())
        # grad_output isn't needed any more from here on
        grad_stacked = grad_output.mul_(per_tensor)
        return (grad_weights, *grad_stacked.unbind(0))


def inputs():
    torch.manual_seed(0)
    return torch.rand(3), torch.randn(2, 4), torch.randn(2, 4), torch.randn(2, 4)


def reference(weights, *tensors):
    return torch.stack([w * t for w, t in zip(weights, tensors)])

# %% topk_1
"""Backward takes one gradient only, in the belief that an output marked non-differentiable is left out of backward's arguments."""
WRONG = ["def backward(ctx, grad_values):"]
RIGHT = ["def backward(ctx, grad_values, grad_indices):"]
NAME = "TopK"
# --- code
import torch
from torch.autograd import Function


class TopK(Function):
    @staticmethod
    def forward(scores, k):
        values, indices = scores.topk(k, dim=-1)
        return values, indices

    @staticmethod
    def setup_context(ctx, inputs, output):
        scores, k = inputs
        _, indices = output
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = scores.shape

    @staticmethod
    def backward(ctx, grad_values):
        (indices,) = ctx.saved_tensors
        grad_scores = grad_values.new_zeros(ctx.shape)
        return grad_scores.scatter(-1, indices, grad_values), None


def inputs():
    torch.manual_seed(0)
    return torch.randn(2, 6), 3


def reference(scores, k):
    return tuple(torch.topk(scores, k, dim=-1))
