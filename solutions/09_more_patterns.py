# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/09_more_patterns.ipynb)
#
# # 09 · More gradient patterns: exercises
#
# Lesson 09 showed how a gradient flows back through a log-sum-exp, a normalization, a convolution and a complex product. Here, you will write six Functions of this kind. The first five compute a true gradient, while the last one changes its gradient on purpose.
#
# **Given:** the formula for `forward` and the signatures of all methods. Only exercise 6 states the gradient, because it is a design choice.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. The stubs have a separate `setup_context`, which receives the inputs (as a tuple) and the output. It saves what `backward` needs.
#
# **Constraints for every exercise:**
#
# - `backward` computes a formula that you derive and write down. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save the tensors that `backward` needs with `ctx.save_for_backward`. Store numbers, shapes and flags as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - Some exercises forbid a built-in. The grader records the operations that actually run, so it also finds a built-in that you call by a different name.
#
# 16 points, about 111 minutes. Only *Convolution with stride, padding and groups* builds on the exercise before it. If you are stuck, run `hint("log-sum-exp")` in a new cell. The first call gives a small hint, the second one gives the idea, and the third one almost gives away the answer.

# %% tags=["setup"] jupyter={"source_hidden": true}
# Install the course on Colab.
# Elsewhere `make lab` has done so, and this cell does nothing.
import sys

if "google.colab" in sys.modules:
    import importlib.util
    import subprocess

    from google.colab import output

    if importlib.util.find_spec("autograd_course") is None:
        address = "git+https://github.com/autograd-course/autograd_course@main"
        doctor = address + "#subdirectory=packages/autograd-doctor"
        course = "autograd-course @ " + address
        pip = [sys.executable, "-m", "pip", "install", "--quiet", doctor, course]
        subprocess.run(pip, check=True)
    output.enable_custom_widget_manager()

# %% jupyter={"source_hidden": true}
import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course import grade, hint, progress

# %% [markdown]
# ## 1 · Log-sum-exp (3 points · hard · 25 minutes)
#
# $$y = \log \sum_j e^{x_j}$$
#
# along `dim`, which may be negative. With `keepdim=True`, the output keeps this dim with size 1.
#
# - Inputs in the thousands must not overflow to `inf`.
# - An entry of $-\infty$ adds nothing to the sum, and its gradient is 0. Masks contain such entries.
# - A slice that contains only $-\infty$ gives $-\infty$, and its gradient must be 0. (For such a slice, the gradient of `torch.logsumexp` is `nan`.)
#
# **Write** the three methods.
#
# **Constraint:** no built-in `logsumexp`, `log_softmax` or `logaddexp`.


# %% nbgrader={"grade": false, "grade_id": "log-sum-exp", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogSumExp(Function):
    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        ### BEGIN SOLUTION
        shift = x.amax(dim, keepdim=True)
        shift = shift.masked_fill(shift == -torch.inf, 0)
        y = shift + torch.log(torch.exp(x - shift).sum(dim, keepdim=True))
        return y if keepdim else y.squeeze(dim)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        x, ctx.dim, ctx.keepdim = inputs
        ctx.save_for_backward(x, output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        ### BEGIN SOLUTION
        x, y = ctx.saved_tensors
        if not ctx.keepdim:
            y, grad_output = y.unsqueeze(ctx.dim), grad_output.unsqueeze(ctx.dim)
        y = y.masked_fill(y == -torch.inf, 0)  # exp(-inf - 0) is 0, exp(-inf + inf) is nan
        return grad_output * torch.exp(x - y), None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "log-sum-exp-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("log-sum-exp", LogSumExp)

# %% [markdown]
# ## 2 · Batch normalization (3 points · hard · 20 minutes)
#
# $x$ has the shape $(N, C, \dots)$, and dim 1 contains the channels. For each channel, $\mu$ is the mean and $v$ is the biased variance (divided by the number of elements $m$, not by $m - 1$):
#
# $$y = \frac{x - \mu}{\sqrt{v + \varepsilon}}$$
#
# There is no learned scale or shift, and no running average.
#
# **Write** the three methods. `eps` is a Python number. $\mu$ and $v$ also depend on $x$, so there are three paths from each element of $x$ to the loss.
#
# **Constraint:** no built-in normalization.


# %% nbgrader={"grade": false, "grade_id": "batch-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BatchNorm(Function):
    @staticmethod
    def forward(x: Tensor, eps: float) -> Tensor:
        ### BEGIN SOLUTION
        dims = [dim for dim in range(x.dim()) if dim != 1]
        variance = x.var(dims, unbiased=False, keepdim=True)
        return (x - x.mean(dims, keepdim=True)) / torch.sqrt(variance + eps)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        x, ctx.eps = inputs
        ctx.save_for_backward(x, output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        x, y = ctx.saved_tensors
        dims = [dim for dim in range(x.dim()) if dim != 1]
        scale = torch.rsqrt(x.var(dims, unbiased=False, keepdim=True) + ctx.eps)
        centered = grad_output - grad_output.mean(dims, keepdim=True)
        along_y = y * (grad_output * y).mean(dims, keepdim=True)
        return scale * (centered - along_y), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "batch-norm-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("batch-norm", BatchNorm)

# %% [markdown]
# ## 3 · One-dimensional convolution (2 points · medium · 15 minutes)
#
# This is the convolution used in neural networks, here without stride, padding or groups:
#
# $$y_{n,o,t} = \sum_{c} \sum_{k} w_{o,c,k} \; x_{n,\, c,\, t + k}$$
#
# | tensor | shape |
# | --- | --- |
# | `x` | `(N, C, L)` |
# | `weight` | `(O, C, K)` |
# | `y` | `(N, O, T)`, where `T = L - K + 1` |
#
# **Write** the three methods. `x.unfold(-1, K, 1)` cuts `x` into its `T` windows without copying. The rest is products, except for one step: `backward` must add the gradients of overlapping windows.
#
# **Constraint:** no built-in convolution, either in forward or in backward. `torch.nn.grad` and the transposed convolution call the same built-ins.


# %% nbgrader={"grade": false, "grade_id": "plain-conv1d", "locked": false, "schema_version": 3, "solution": true, "task": false}
class PlainConv1d(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        windows = x.unfold(-1, weight.shape[-1], 1)
        return torch.einsum("nctk,ock->not", windows, weight)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, weight = ctx.saved_tensors
        steps, taps = grad_output.shape[-1], weight.shape[-1]
        grad_weight = torch.einsum("nctk,not->ock", x.unfold(-1, taps, 1), grad_output)
        grad_windows = torch.einsum("not,ock->nctk", grad_output, weight)
        grad_x = x.new_zeros(x.shape)
        for k in range(taps):
            grad_x[..., k : k + steps] += grad_windows[..., k]
        return grad_x, grad_weight
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "plain-conv1d-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("plain-conv1d", PlainConv1d)

# %% [markdown]
# ## 4 · Convolution with stride, padding and groups (4 points · hard · 30 minutes)
#
# Now add a stride $s$, a padding $p$ (zeros on both sides) and $G$ groups:
#
# $$y_{n,o,t} = \sum_{c} \sum_{k} w_{o,c,k} \; \tilde x_{n,\, c',\, s t + k}$$
#
# | tensor | shape |
# | --- | --- |
# | `x` | `(N, C, L)` |
# | `weight` | `(O, C // G, K)` |
# | `y` | `(N, O, T)`, where `T = (L + 2p - K) // s + 1` |
#
# $\tilde x$ is the padded $x$. The channels and the outputs are divided into $G$ equal blocks. The outputs of block $b$ depend only on the channels of block $b$ ($c'$ is channel $c$ of this block). If $L + 2p - K$ is not a multiple of $s$, no window contains the last elements, and their gradient is 0.
#
# **Write** the three methods. Start from your previous answer. `padded.unfold(-1, K, s)` cuts the padded input into windows. Add the stride, the padding and the groups one at a time, and grade your class when it has all three.
#
# **Constraint:** no built-in convolution, either in forward or in backward. `torch.nn.grad` and the transposed convolution call the same built-ins.


# %% nbgrader={"grade": false, "grade_id": "conv1d", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Conv1d(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
        ### BEGIN SOLUTION
        padded = torch.nn.functional.pad(x, (padding, padding))
        windows = padded.unfold(-1, weight.shape[-1], stride).unflatten(1, (groups, -1))
        kernels = weight.unflatten(0, (groups, -1))
        return torch.einsum("ngctk,gock->ngot", windows, kernels).flatten(1, 2)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        x, weight, *ctx.geometry = inputs
        ctx.save_for_backward(x, weight)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        ### BEGIN SOLUTION
        x, weight = ctx.saved_tensors
        stride, padding, groups = ctx.geometry
        (length, taps), steps = (x.shape[-1], weight.shape[-1]), grad_output.shape[-1]
        padded = torch.nn.functional.pad(x, (padding, padding))
        windows = padded.unfold(-1, taps, stride).unflatten(1, (groups, -1))
        kernels, g = weight.unflatten(0, (groups, -1)), grad_output.unflatten(1, (groups, -1))
        grad_weight = torch.einsum("ngctk,ngot->gock", windows, g).flatten(0, 1)
        grad_windows = torch.einsum("ngot,gock->ngctk", g, kernels).flatten(1, 2)
        grad_padded = padded.new_zeros(padded.shape)
        for k in range(taps):
            reached = slice(k, k + stride * (steps - 1) + 1, stride)
            grad_padded[..., reached] += grad_windows[..., k]
        return grad_padded[..., padding : padding + length], grad_weight, None, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "conv1d-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("conv1d", Conv1d)

# %% [markdown]
# ## 5 · Complex product (2 points · medium · 15 minutes)
#
# The Function computes the elementwise product $y = z \, w$ of two tensors of the same shape. One or both of them are complex.
#
# **Write** the three methods. In PyTorch, the gradient of a real loss $L$ with respect to $z = a + b\,i$ is $\partial L/\partial a + i\,\partial L/\partial b$, the direction in which $L$ grows fastest. The incoming gradient $g$ is the same expression for $y$. Derive the gradients for $z$ and $w$.
#
# **Constraint:** the gradient of a real input is real. If it is complex, the autograd engine raises an error that does not explain the cause.


# %% nbgrader={"grade": false, "grade_id": "complex-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ComplexMultiply(Function):
    @staticmethod
    def forward(z: Tensor, w: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return z * w
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        z, w = ctx.saved_tensors
        grad_z, grad_w = grad_output * w.conj(), grad_output * z.conj()
        return (
            grad_z if z.is_complex() else grad_z.real,
            grad_w if w.is_complex() else grad_w.real,
        )
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "complex-multiply-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("complex-multiply", ComplexMultiply)

# %% [markdown]
# ## 6 · Gradient reversal (2 points · easy · 6 minutes)
#
# In domain-adversarial training, a classifier learns to tell two domains apart, while the layers below it learn to make this impossible. Between them is a Function that changes nothing in the forward pass and reverses the gradient in the backward pass:
#
# $$y = x, \qquad \frac{\partial L}{\partial x} := -\text{strength} \cdot g$$
#
# This gradient is wrong on purpose, so `gradcheck` would fail. The grader compares your gradient with the formula above.
#
# **Write** the three methods. `strength` is a Python number.
#
# **Constraint:** forward returns a new tensor. Many published versions return `x` or `x.view_as(x)`. With these versions, training stops with an error if the next layer has `inplace=True`.


# %% nbgrader={"grade": false, "grade_id": "gradient-reversal", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GradientReversal(Function):
    @staticmethod
    def forward(x: Tensor, strength: float) -> Tensor:
        ### BEGIN SOLUTION
        return x.clone()
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        _, ctx.strength = inputs
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        return -ctx.strength * grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gradient-reversal-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gradient-reversal", GradientReversal)

# %% [markdown]
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# [Lesson 10](../notebooks/10_sampling.ipynb) is about sampling.
