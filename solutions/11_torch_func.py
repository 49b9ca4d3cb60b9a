# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/11_torch_func.ipynb)
#
# # 11 · torch.func: exercises
#
# You will make three Functions work with `torch.func`, and you will compute per-sample gradients. At the end, you will predict what `forward` receives under `vmap`. All three Functions already work with an ordinary `backward()`. You may already have solved `vmap-solve` in the lesson.
#
# **Given:** the task, the formulas, and usually a Function that is missing only the methods you will write.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:** values and gradients stay correct, and each gradient has the shape, dtype and device of its input. Large inputs, such as ±1000, give no nan, in float32 either.
#
# 11 points, about 54 minutes.

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
from torch.autograd import Function
from torch.func import functional_call, grad, vmap

from autograd_course import grade, hint, progress
from autograd_course.lesson import show_error

# %% [markdown]
# ## 1 · Split an old Function (2 points · medium · 20 minutes)
#
# Language models normalize each row by its root mean square:
#
# $$y = x \, r \, w, \qquad r = \frac{1}{\sqrt{\tfrac{1}{n}\sum_i x_i^2 + \varepsilon}} .$$
#
# The Function below has worked well in training for years. But now a colleague wants per-sample gradients, and `torch.func.grad` raises an error.


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
with show_error():
    grad(lambda x: OldRMSNorm.apply(x, torch.ones(3), 1e-5).sum())(x)


# %% [markdown]
# **Write** the class `RMSNorm` with a separate `forward(x, weight, eps)` and `setup_context`, and with `backward`. `apply` returns two tensors, `(y, rstd)`, because `backward` needs `rstd`. PyTorch's own normalizations do the same. No gradient flows through `rstd`. `x` may have any shape, and its rows lie along the last dim.
#
# **Constraint:** `torch.func.grad` and `vmap` accept the class. PyTorch may generate its vmap rule.

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
# Some methods need the gradient of each sample's own loss. They clip the gradient of each sample, measure how noisy a batch's gradient is, or find the samples from which a model has learned the least.
#
# `model` is any module. `x` contains $N$ samples along dim 0, and `y` contains their targets. `loss(prediction, target)` is a function such as `F.mse_loss`, which returns one number for a batch. The gradient of sample $i$ is the gradient of `loss(model(x[i : i + 1]), y[i : i + 1])`, which treats the sample as a batch of one. (Models expect a batch dim, but `vmap` hides it.)
#
# **Write** the function. It returns a tuple with one tensor for each parameter, in the order of `model.named_parameters()`. Each tensor has the shape `(N, *parameter.shape)`.
#
# **Constraint:** the model is called once, however large $N$ is.


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
# NumPy computes the solution $y$ of the linear system $A y = b$. The gradient takes one more solve, with the transpose of $A$: if $\lambda = A^{-\top} g$, then $\partial L/\partial b = \lambda$ and $\partial L/\partial A = -\lambda y^\top$. The kernel takes a matrix and a vector, and both can have leading batch dims. Only the vmap rule is missing.
#
# **Write** `vmap`. Samples may lie along any dim of `a` and of `b`, and all samples may share one of the two arguments.
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
# The temperature $t$ smooths the maximum of a row. Let $p = \text{softmax}(x/t)$. Then
#
# $$y = t \log \sum_i e^{x_i / t}, \qquad \frac{\partial y}{\partial x_i} = p_i, \qquad
# \frac{\partial y}{\partial t} = \frac{y - \sum_i p_i x_i}{t} .$$
#
# `x` may have any shape, and its rows lie along the last dim. How do *all* outputs change if the temperature rises a little? One pass of forward mode answers this question.
#
# **Write** `setup_context` and `jvp`. Each tangent has the shape of its input, and the result has the shape of `y`.
#
# **Constraints:** the Hessian, computed forward over reverse, is also right. Save tensors with the two `save_for_…` methods of `ctx`, not as attributes of `ctx`. Pass both methods the same tensors in the same order.


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
# ## 5 · What forward receives (1 point · easy · 4 minutes)
#
# `Half` is a Function with one input and a generated rule (`generate_vmap_rule = True`). `Whole` is the same Function with a handwritten rule, `return Whole.apply(x.movedim(in_dims[0], 0)), 0`. `x` has the shape (4, 5, 3). In each of these programs, `forward` receives a tensor. How many elements does this tensor report? Predict four numbers before you run anything.
#
# - **a** `vmap(Half.apply)(x)`
# - **b** `vmap(Half.apply, in_dims=2)(x)`
# - **c** `vmap(vmap(Half.apply))(x)`
# - **d** `vmap(Whole.apply)(x)`
#
# **Write** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-vmap-elements", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ...]
### BEGIN SOLUTION
prediction = [15, 20, 3, 60]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-vmap-elements-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-vmap-elements", prediction)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Run `diagnose(F, inputs, level="full")` on a Function from your own project. The report tells you which `torch.func` transforms cannot use it yet. Lesson 12 continues with the compiler.
