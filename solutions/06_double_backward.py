# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/06_double_backward.ipynb)
#
# # 06 · Gradients of gradients: exercises
#
# Lesson 06 showed what a second derivative can see of a Function, and what it cannot. Here you write four Functions that are right twice, two routines that differentiate a gradient, and repair a Function that spoils both.
#
# **Given:** the task, the formula of forward, the name and the signature of every class and function.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - The second derivative must be right as well: the grader differentiates your gradient and compares with differences.
# - `backward` is a formula that you derive and write down, not a call of autograd.
# - Tensors that backward needs are kept by `ctx.save_for_backward`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
#
# 16 points, about 70 minutes.

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

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · Cube, twice (1 point · easy · 7 minutes)
#
# $$y = x^3, \qquad \frac{\partial y}{\partial x} = 3x^2 .$$
#
# The formula is simple; the question is what backward computes it *from*. A tensor that forward works out on the way, such as $x^2$, is a constant to backward.
#
# **Write** both methods. `x` may have any shape.


# %% nbgrader={"grade": false, "grade_id": "cube-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        return x**3
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "cube-twice-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("cube-twice", Cube)

# %% [markdown]
# ## 2 · Exponential, twice (1 point · easy · 8 minutes)
#
# $$y = e^x, \qquad \frac{\partial y}{\partial x} = e^x = y .$$
#
# **Write** both methods.
#
# **Constraint:** save nothing but the output. To autograd the output is a *tensor*, not a number: a second tensor of the same values is something else.


# %% nbgrader={"grade": false, "grade_id": "exp-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        y = x.exp()
        ctx.save_for_backward(y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        return y * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "exp-twice-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("exp-twice", Exp)

# %% [markdown]
# ## 3 · Hyperbolic sine by its output (2 points · easy · 8 minutes)
#
# $$y = \sinh x, \qquad \frac{\partial y}{\partial x} = \cosh x .$$
#
# **Write** both methods.
#
# **Constraint:** save nothing but the output $y$. So write $\cosh x$ with $y$ alone; the hyperbola has an identity for it, as the circle has one for sine and cosine.


# %% nbgrader={"grade": false, "grade_id": "sinh-by-output", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Sinh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        y = torch.sinh(x)
        ctx.save_for_backward(y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        return (1 + y**2).sqrt() * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sinh-by-output-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("sinh-by-output", Sinh)

# %% [markdown]
# ## 4 · Log-sum-exp with its Hessian (3 points · medium · 10 minutes)
#
# Over the last axis of `x`,
#
# $$y = \log \sum_i e^{x_i}, \qquad \frac{\partial y}{\partial x_i} = p_i = e^{x_i - y},
# \qquad \frac{\partial^2 y}{\partial x_i \partial x_j} = p_i \, (\delta_{ij} - p_j) .$$
#
# The last axis is gone in `y`, and so in `grad_output`. Use `torch.logsumexp` in forward: it does not overflow, and knows what a row of $-\infty$ gives. What counts here is what backward is made of.
#
# **Write** both methods.
#
# **Constraint:** the Hessian is the one above, not zero.


# %% nbgrader={"grade": false, "grade_id": "logsumexp-hessian", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        y = torch.logsumexp(x, -1)
        ctx.save_for_backward(x, y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        x, y = ctx.saved_tensors
        return torch.exp(x - y.unsqueeze(-1)) * grad_output.unsqueeze(-1)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "logsumexp-hessian-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("logsumexp-hessian", LogSumExp)

# %% [markdown]
# ## 5 · Hessian-vector product (3 points · medium · 10 minutes)
#
# Models have many parameter tensors, not one vector. Given a scalar function `f(*inputs)`, a tuple `inputs` of tensors, and a tuple `vectors` of tensors of the same shapes, the product of the whole Hessian with the vectors is again one tensor for each input:
#
# $$(Hv)_k = \sum_l \frac{\partial^2 f}{\partial x_k \, \partial x_l} \, v_l .$$
#
# The tensors in `inputs` do not require grad, and shall not afterwards, so make leaves of your own. And `f` may be linear in one of them; then its part of the product is zeros.
#
# **Write** the function. It returns a tuple.
#
# **Constraint:** the Hessian has $n^2$ entries and is never built, neither at once nor row by row. Two backward passes are enough for any $n$. And `f` is evaluated at `inputs` alone: a quotient of differences is not the product, but near it.


# %% nbgrader={"grade": false, "grade_id": "hessian-vector-product", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hvp(f, inputs: tuple[Tensor, ...], vectors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    ### BEGIN SOLUTION
    leaves = tuple(x.detach().requires_grad_() for x in inputs)
    grads = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    directional = sum((g * v).sum() for g, v in zip(grads, vectors, strict=True))
    return torch.autograd.grad(directional, leaves, materialize_grads=True)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "hessian-vector-product-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("hessian-vector-product", hvp)

# %% [markdown]
# ## 6 · Gradient penalty (3 points · medium · 9 minutes)
#
# A Wasserstein critic is to have slope 1 everywhere. So one penalizes, at samples $x_1, \dots, x_N$, what its gradient is longer or shorter than that:
#
# $$\frac{1}{N} \sum_{i=1}^{N} \bigl(\lVert \nabla_{x_i} \, \text{critic}(x_i) \rVert_2 - 1\bigr)^2 .$$
#
# `x` has shape `(N, ...)`: rows, or images with several axes, and one norm over all of them for each sample. `critic(x)` has shape `(N,)` or `(N, 1)`. Each score depends on its own sample only, so one backward pass gets all the gradients. `x` does not require grad.
#
# **Write** the function. It returns a tensor with a single number.
#
# **Constraints:** differentiating the result by the critic's parameters gives the right gradient, finite also where the critic is flat. Computing it changes nobody's `.grad`, and `x` itself stays as it is.


# %% nbgrader={"grade": false, "grade_id": "gradient-penalty", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gradient_penalty(critic, x: Tensor) -> Tensor:
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gradient-penalty-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("gradient-penalty", gradient_penalty)

# %% [markdown]
# ## 7 · Repair: a Hessian of zeros (2 points · medium · 10 minutes)
#
# A fused cross entropy: for each row of `logits` and its class in `target`, $\log\sum_j e^{x_j} - x_\text{target}$. To be quick, its forward works out the whole gradient at once, $p - \text{onehot}(\text{target})$, and backward only multiplies. Training with it is right to the last digit. Somebody then computed the curvature of the loss, and found that there is none.


# %%
class BrokenCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor) -> Tensor:
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        ctx.save_for_backward(torch.softmax(logits, -1) - onehot)
        return torch.logsumexp(logits, -1) - picked

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return slope * grad_output.unsqueeze(-1), None


logits = torch.tensor([[0.5, -1.0, 2.0], [-0.3, 1.5, 0.8]], dtype=torch.float64)
target = torch.tensor([2, 0])
diagnose(BrokenCrossEntropy, (logits, target), double_backward=True, repair=False)


# %% [markdown]
# **Write** both methods again: what is saved, and what backward makes of it. The values of forward stay the same. `target` holds integers and has no gradient.


# %% nbgrader={"grade": false, "grade_id": "repair-hessian", "locked": false, "schema_version": 3, "solution": true, "task": false}
class CrossEntropy(BrokenCrossEntropy):
    @staticmethod
    def forward(ctx, logits: Tensor, target: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(logits, target)
        picked = logits.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return torch.logsumexp(logits, -1) - picked
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        logits, target = ctx.saved_tensors
        onehot = torch.nn.functional.one_hot(target, logits.shape[-1])
        return (torch.softmax(logits, -1) - onehot) * grad_output.unsqueeze(-1), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-hessian-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-hessian", CrossEntropy)

# %% [markdown]
# ## 8 · A path is missing (1 point · medium · 7 minutes)
#
# This `Cube` saves an intermediate, so a path is missing in its second derivative:
#
# ```python
# class Cube(Function):
#     @staticmethod
#     def forward(ctx, x):
#         square = x * x
#         ctx.save_for_backward(square)
#         return square * x
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         (square,) = ctx.saved_tensors
#         return 3 * square * grad_output
# ```
#
# The loss is $L = y^2$ with $y = x^3$, at $x = 1$. Which first and which second derivative does autograd compute with `create_graph=True`? Predict two numbers, without running anything. The true ones are $6$ and $30$.
#
# **Write** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-second-derivative", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ...]
### BEGIN SOLUTION
prediction = [6, 18]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-second-derivative-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-second-derivative", prediction)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# A test for the road: take a Function that you use in a real project, and run `diagnose(F, inputs, double_backward=True)` on it. If it passes, you may build a penalty on it. If it does not, you now know three repairs, and a fourth: refuse aloud.
