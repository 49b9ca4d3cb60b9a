# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/11_beyond_eager.ipynb)
#
# # 11 · Beyond eager: exercises
#
# Lesson 11 handed a Function to the rest of PyTorch: to `torch.func`, to the compiler, to autocast. Here you do it yourself, seven times, with Functions that already work in an ordinary `backward()`.
#
# **Given:** the task, the formulas, mostly a Function that is right as far as it goes.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every exercise:** values and gradients stay right, and each gradient has the shape and the dtype of its input. (Exercise 7 lets the engine convert the dtype.) The first grading that compiles something takes some seconds longer than the others.
#
# 18 points, about 90 minutes.

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
import numpy as np
import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.func import functional_call, grad, vmap

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · Split an old Function (2 points · medium · 20 minutes)
#
# Language models normalize each row by its root mean square:
#
# $$y = x \, r \, w, \qquad r = \frac{1}{\sqrt{\tfrac{1}{n}\sum_i x_i^2 + \varepsilon}} .$$
#
# This one has trained well for years. Then somebody wanted per-sample gradients.


# %%
class OldRMSNorm(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.rstd = rstd
        ctx.save_for_backward(x, weight)
        return x * rstd * weight

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        normed, g = x * ctx.rstd, grad_output * weight
        grad_x = ctx.rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


x = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.5, -0.5]], dtype=torch.float64)
try:
    grad(lambda x: OldRMSNorm.apply(x, torch.ones(3), 1e-5).sum())(x)
except RuntimeError as error:
    print(str(error).partition(". ")[0])


# %% [markdown]
# **Write** the class `RMSNorm` in the split form: `forward(x, weight, eps)`, `setup_context` and `backward`. `apply` returns two tensors, `(y, rstd)`, as PyTorch's own normalizations do: that is how forward hands to backward what it has worked out. No gradient is meant to come through `rstd`.
#
# **Constraint:** `torch.func.grad` and `vmap` take it. Its vmap rule may be generated.

# %% nbgrader={"grade": false, "grade_id": "split-rms-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
RMSNorm = ...


### BEGIN SOLUTION
class RMSNorm(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        return x * rstd * weight, rstd

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight, _ = inputs
        _, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(x, weight, rstd)

    @staticmethod
    def backward(ctx, grad_output: Tensor, grad_rstd: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, rstd = ctx.saved_tensors
        normed, g = x * rstd, grad_output * weight
        grad_x = rstd * (g - normed * (g * normed).mean(-1, keepdim=True))
        grad_weight = (grad_output * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x, grad_weight, None


### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "split-rms-norm-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("split-rms-norm", RMSNorm)

# %% [markdown]
# ## 2 · Per-sample gradients (2 points · medium · 10 minutes)
#
# Clipping each sample, measuring how noisy a batch is, finding the samples that a model has learned least from: all begin with the gradient of each sample's own loss.
#
# `model` is any module, `x` holds $N$ samples along axis 0, `y` their targets, and `loss(prediction, target)` is one number for a batch, such as `F.mse_loss`. The gradient of sample $i$ is that of `loss(model(x[i : i + 1]), y[i : i + 1])`: a batch of one. (Models insist on a batch axis, and `vmap` takes it away.)
#
# **Write** the function. It returns a tuple with one tensor for each parameter, in the order of `model.named_parameters()`, of shape `(N, *parameter.shape)`.
#
# **Constraint:** the model is called once, whatever $N$.


# %% nbgrader={"grade": false, "grade_id": "per-sample-gradients", "locked": false, "schema_version": 3, "solution": true, "task": false}
def per_sample_gradients(model, loss, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    ### BEGIN SOLUTION
    def of_one(parameters, x, y):
        prediction = functional_call(model, parameters, (x.unsqueeze(0),))
        return loss(prediction, y.unsqueeze(0))

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    gradients = vmap(grad(of_one), in_dims=(None, 0, 0))(parameters, x, y)
    return tuple(gradients.values())
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "per-sample-gradients-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("per-sample-gradients", per_sample_gradients)

# %% [markdown]
# ## 3 · A vmap rule for NumPy (3 points · medium · 10 minutes)
#
# The solution $y$ of the linear system $A y = b$, computed by NumPy. Its gradient is one more system, with the transpose: $\lambda = A^{-\top} g$ gives $\partial L/\partial b = \lambda$ and $\partial L/\partial A = -\lambda y^\top$. The kernel takes a matrix and a vector, and also any leading axes before both. All of that is given; what is missing is the rule.
#
# **Write** `vmap`. Samples may lie along any axis of `a` and of `b`, and one of the two may be shared by all samples.
#
# **Constraint:** the kernel is called once for the whole batch.


# %% nbgrader={"grade": false, "grade_id": "vmap-solve", "locked": false, "schema_version": 3, "solution": true, "task": false}
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
        ### BEGIN SOLUTION
        a, b = (
            tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip((a, b), in_dims, strict=True)
        )
        return Solve.apply(a, b), 0
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "vmap-solve-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("vmap-solve", Solve)

# %% [markdown]
# ## 4 · Forward mode for a smooth maximum (3 points · medium · 10 minutes)
#
# The maximum of a row, made smooth by a temperature $t$, with $p = \text{softmax}(x/t)$:
#
# $$y = t \log \sum_i e^{x_i / t}, \qquad \frac{\partial y}{\partial x_i} = p_i, \qquad
# \frac{\partial y}{\partial t} = \frac{y - \sum_i p_i x_i}{t} .$$
#
# `x` has any shape, the last axis is the row. How do *all* outputs move when the temperature rises a little? One pass of forward mode tells.
#
# **Write** `setup_context` and `jvp`. Both tangents have the shapes of their inputs; the result has the shape of `y`.
#
# **Constraints:** the Hessian, forward over reverse, is right too. Tensors are kept by the two methods that `ctx` has for it, not as its attributes.


# %% nbgrader={"grade": false, "grade_id": "jvp-smooth-maximum", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SmoothMaximum(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, temperature: Tensor) -> Tensor:
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return p * grad_output[..., None], (grad_output * (y - (p * x).sum(-1)) / t).sum()

    @staticmethod
    def jvp(ctx, x_tangent: Tensor, t_tangent: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        return (p * x_tangent).sum(-1) + t_tangent * (y - (p * x).sum(-1)) / t
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "jvp-smooth-maximum-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("jvp-smooth-maximum", SmoothMaximum)

# %% [markdown]
# ## 5 · Repair: graph breaks (2 points · medium · 10 minutes)
#
# The Huber loss is a parabola near zero and a straight line beyond $\delta$, so that an outlier pulls with a constant force:
#
# $$y = \begin{cases} x^2/2 & |x| \le \delta \\ \delta\,(|x| - \delta/2) & \text{else.} \end{cases}$$
#
# The Function below is right in eager mode. It looks at values to spare work, counts for a log, and lets autograd work out its slope. The compiler stops at all three.


# %%
class BrokenHuber(Function):
    outliers = 0

    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        if x.abs().max() <= delta:  # no outlier: the parabola is enough
            return x**2 / 2
        BrokenHuber.outliers += 1
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = BrokenHuber.forward(x, ctx.delta)
        return torch.autograd.grad(y, x, grad_output)[0], None


errors = torch.tensor([-3.0, -0.4, 0.2, 1.5], dtype=torch.float64)
for finding in diagnose(BrokenHuber, (errors, 1.0), level="full").findings:
    if finding.rule == "compile-mismatch":
        print(finding.message.partition(":")[0])


# %% [markdown]
# **Write** `forward` and `backward` again. The same values, no counter.
#
# **Constraint:** `torch.compile` makes one graph of it, also without `fullgraph=True`.


# %% nbgrader={"grade": false, "grade_id": "repair-graph-breaks", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        ### BEGIN SOLUTION
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return x.clamp(-ctx.delta, ctx.delta) * grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-graph-breaks-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-graph-breaks", Huber)

# %% [markdown]
# ## 6 · A custom operator (4 points · hard · 15 minutes)
#
# Somebody else's library has a fast routine, and you may not change it. Read its docstring: it treats memory as such routines do.


# %%
def vendor_sums(series: np.ndarray, width: int) -> np.ndarray:
    """Return the sums of `width` neighbors along the last axis.

    Works in place: `series` is overwritten, and the result is a part of its memory. From n numbers
    in a row come n - width + 1 sums.
    """
    np.cumsum(series, axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


print(vendor_sums(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 3))


# %% [markdown]
# **Write** the four functions of an operator around it: the operator, its fake, and autograd's two. `x` has any leading axes; it lies on the CPU. You may run the cell as often as you like: the definition replaces the one before.
#
# An element of `x` is part of up to `width` windows. So $\partial L/\partial x_t$ is a sum of neighbors too, of `grad_output`, with zeros beyond its ends.
#
# **Constraints:** `opcheck` passes; the operator can be differentiated twice; it compiles into one graph.


# %% nbgrader={"grade": false, "grade_id": "operator-window-sums", "locked": false, "schema_version": 3, "solution": true, "task": false}
@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: Tensor, width: int) -> Tensor:
    ### BEGIN SOLUTION
    return torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy())
    ### END SOLUTION


@window_sums.register_fake
def fake(x: Tensor, width: int) -> Tensor:
    ### BEGIN SOLUTION
    return x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1))
    ### END SOLUTION


def setup_context(ctx, inputs, output) -> None:
    ### BEGIN SOLUTION
    ctx.width = inputs[1]
    ### END SOLUTION


def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
    ### BEGIN SOLUTION
    beyond = ctx.width - 1
    return window_sums(torch.nn.functional.pad(grad_output, (beyond, beyond)), ctx.width), None
    ### END SOLUTION


window_sums.register_autograd(backward, setup_context=setup_context)


# %% nbgrader={"grade": true, "grade_id": "operator-window-sums-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("operator-window-sums", window_sums)

# %% [markdown]
# ## 7 · Repair: a loss under autocast (2 points · medium · 15 minutes)
#
# In contrastive learning each query $q_i$ is to be nearest to its own key $k_i$. The loss is a cross entropy over scores at a low temperature $\tau$:
#
# $$L_i = \log \sum_j e^{s_{ij}} - s_{ii}, \qquad s = \frac{q k^\top}{\tau} .$$
#
# With unit vectors and $\tau = 0.02$ the scores reach 50. In bfloat16 the neighbors of 50 are 49.75 and 50.25. Differences of scores are what decides, so a probability may come out off by a fifth.


# %%
class BrokenContrast(Function):
    @staticmethod
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


rng = torch.Generator().manual_seed(0)
q = torch.nn.functional.normalize(torch.randn(12, 8, generator=rng))
k = torch.nn.functional.normalize(q + torch.randn(12, 8, generator=rng))
losses = BrokenContrast.apply(q, k, 0.02)
with torch.autocast("cpu", dtype=torch.bfloat16):
    error = (BrokenContrast.apply(q, k, 0.02) - losses).abs().max()
print(f"a loss of {losses[1]:.1f} and others are off by up to {error:.1f} under autocast")


# %% [markdown]
# **Write** the class `Contrast`: the same formulas, in float32 in both methods whenever autocast is on. Inputs come in float32 or, from a layer before, in bfloat16. Some training loops run `backward()` inside the autocast block. And without autocast nothing is converted: the grader's float64 must pass through.
#
# **Constraint:** under autocast the losses and their gradients are those without it. The grader works on the CPU.

# %% nbgrader={"grade": false, "grade_id": "repair-autocast", "locked": false, "schema_version": 3, "solution": true, "task": false}
Contrast = ...


### BEGIN SOLUTION
class Contrast(BrokenContrast):
    forward = staticmethod(
        custom_fwd(BrokenContrast.forward, device_type="cpu", cast_inputs=torch.float32)
    )
    backward = staticmethod(custom_bwd(BrokenContrast.backward, device_type="cpu"))


### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-autocast-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-autocast", Contrast)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# A test for the road: take a Function of a project of yours and run `diagnose(F, inputs, level="full")`. What it says of transforms, compiling and autocast is a list of those who cannot use it yet.
