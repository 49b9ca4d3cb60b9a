# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/06_double_backward.ipynb)
#
# # 06 · Gradients of gradients: exercises
#
# Lesson 06 showed which saved tensors a second derivative can use. Here you write four Functions that support double backward, and two routines that differentiate a gradient. Then you repair a Function, predict a second derivative, and find the wrong line in a colleague's code. You may have solved `cube-twice` and `exp-twice` in the lesson already.
#
# **Given:** the task, the formula for forward, and the signatures of all methods and functions. Each new class has a separate `forward` and `setup_context`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - The second derivative must also be right. The grader differentiates your gradient and compares it with finite differences.
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save the tensors that backward needs with `ctx.save_for_backward`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
#
# 17 points, about 79 minutes (10 of them for the exercises with ★, which need an *extra* section).

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

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · Cube, twice (1 point · easy · 7 minutes)
#
# $$y = x^3, \qquad \frac{\partial y}{\partial x} = 3x^2 .$$
#
# The formula is simple. The question is which tensor backward should read. An intermediate of forward, such as $x^2$, is a constant in backward.
#
# **Write** the three methods. `x` may have any shape.


# %% nbgrader={"grade": false, "grade_id": "cube-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Cube(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return x**3
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs)
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
# **Write** the three methods.
#
# **Constraint:** save nothing but the output. For autograd, the output is a *tensor*, not its values: a second tensor with the same values is not the output.


# %% nbgrader={"grade": false, "grade_id": "exp-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Exp(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return x.exp()
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(output)
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
# ## 3 · Hyperbolic sine from its output (2 points · easy · 8 minutes)
#
# $$y = \sinh x, \qquad \frac{\partial y}{\partial x} = \cosh x .$$
#
# **Write** the three methods.
#
# **Constraint:** save nothing but the output $y$. So express $\cosh x$ in terms of $y$ alone. The functions sinh and cosh satisfy an identity, just like sine and cosine.


# %% nbgrader={"grade": false, "grade_id": "sinh-by-output", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Sinh(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.sinh(x)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(output)
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
# Over the last dimension of `x`,
#
# $$y = \log \sum_i e^{x_i}, \qquad \frac{\partial y}{\partial x_i} = p_i = e^{x_i - y},
# \qquad \frac{\partial^2 y}{\partial x_i \partial x_j} = p_i \, (\delta_{ij} - p_j) .$$
#
# `y` has one dimension fewer than `x`, and so does `grad_output`. Use `torch.logsumexp` in forward, because it does not overflow. Choose the tensors from which backward computes the softmax.
#
# **Write** the three methods.
#
# **Constraint:** the Hessian is the one above, not zero.


# %% nbgrader={"grade": false, "grade_id": "logsumexp-hessian", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogSumExp(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.logsumexp(x, -1)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        (x,) = inputs
        ctx.save_for_backward(x, output)
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
# A model has many parameter tensors, not one vector. You get a scalar function `f(*inputs)`, a tuple `inputs` of tensors, and a tuple `vectors` of tensors with the same shapes. The product of the whole Hessian with the vectors is one tensor for each input:
#
# $$(Hv)_k = \sum_l \frac{\partial^2 f}{\partial x_k \, \partial x_l} \, v_l .$$
#
# The tensors in `inputs` do not require grad. They must not require grad afterwards either, so create leaves of your own. `f` may be linear in one of them. Then its part of the product is zero.
#
# **Write** the function. It returns a tuple.
#
# **Constraints:** the Hessian has $n^2$ entries and must never be built, neither at once nor row by row. Two backward passes are enough for any $n$. Also, `f` is evaluated only at `inputs`: finite differences only approximate the product.


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
# A Wasserstein critic should have a gradient of norm 1 everywhere. So the training penalizes how far the norm of the gradient is from 1 at the samples $x_1, \dots, x_N$:
#
# $$\frac{1}{N} \sum_{i=1}^{N} \bigl(\lVert \nabla_{x_i} \, \text{critic}(x_i) \rVert_2 - 1\bigr)^2 .$$
#
# `x` has shape `(N, ...)`. A sample may be a row or an image with several dimensions, and each sample has one norm over all its dimensions. `critic(x)` has shape `(N,)` or `(N, 1)`. Each score depends only on its own sample, so one backward pass computes all gradients. `x` does not require grad.
#
# **Write** the function. It returns a tensor with a single number.
#
# **Constraints:** differentiating the result with respect to the critic's parameters gives the right gradient. This gradient is finite even where the critic is flat. Your function changes no `.grad`, and `x` itself stays as it is.


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
# This Function is a fused cross entropy. For each row of `logits` and its class in `target`, it computes $\log\sum_j e^{x_j} - x_\text{target}$. Its values and gradients are right. But an engineer who wants to quantize the model needs the Hessian of the loss, and autograd returns zeros.


# %%
class BrokenCrossEntropy(Function):
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


def total(logits: Tensor) -> Tensor:
    return BrokenCrossEntropy.apply(logits, torch.tensor([2, 0])).sum()


logits = torch.tensor([[0.5, -1.0, 2.0], [-0.3, 1.5, 0.8]], dtype=torch.float64)
hessian = torch.autograd.functional.hessian(total, logits)
print("largest entry of the Hessian:", hessian.abs().max().item())


# %% [markdown]
# **Write** both methods again. The values of forward stay the same. `target` contains integers and has no gradient. Change as little as you can, and keep the combined `forward` of the given code.


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
# This `Cube` saves an intermediate, so a path is missing from its second derivative:
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
# The loss is $L = y^2$ with $y = x^3$, at $x = 1$. The true derivatives are $6$ and $30$. Which first and second derivatives does autograd compute with `create_graph=True`? Predict the two numbers before you run anything.
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-second-derivative", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ...]
### BEGIN SOLUTION
prediction = [6, 18]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-second-derivative-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-second-derivative", prediction)

# %% [markdown]
# ## 9 · A copied pattern ★ (1 point · medium · 10 minutes · needs "A second Function for backward")
#
# A colleague wants to replace the leaky ReLU in a critic with the swish $y = x\,\sigma(x)$. To do this, she copied the project's leaky ReLU, whose `backward` calls a second Function, and changed the formulas. The new Function passes `gradcheck`, but a gradient penalty now has a wrong gradient with respect to the weight `w`.


# %%
def slope(x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    return s + x * s * (1 - s)  # 1


class SwishBackward(Function):
    @staticmethod
    def forward(ctx, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # 2
        return g * slope(x)  # 3

    @staticmethod
    def backward(ctx, h: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors  # 4
        return h * slope(x), None  # 5


class Swish(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # 6
        return x * torch.sigmoid(x)  # 7

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # 8
        return SwishBackward.apply(grad_output, x)  # 9


# %%
x = torch.tensor([-2.0, 0.7, 1.5], dtype=torch.float64, requires_grad=True)
w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(Swish.apply, x))
for name, swish in (("PyTorch's silu", torch.nn.functional.silu), ("Swish", Swish.apply)):
    (gradient,) = torch.autograd.grad(swish(w * x).sum(), x, create_graph=True)
    (of_penalty,) = torch.autograd.grad(gradient.square().sum(), w)
    print(f"gradient of the penalty with {name}: {of_penalty.item():.3f}")

# %% [markdown]
# Which line is wrong, and which experiment shows it? An experiment shows the mistake if this Function and a correct one give different results. `suspect = "1a"` means line 1 and experiment a.
#
# - **a** Run `gradcheck` on 50 numbers between −5 and 5.
# - **b** Compute the gradient with `create_graph=True`, differentiate it with respect to `grad_output`, and compare the result with that of `silu`.
# - **c** Compute the gradient with `create_graph=True`, differentiate it with respect to `x`, and compare the result with that of `silu`.
# - **d** Double `grad_output`, and compare the two gradients.

# %% nbgrader={"grade": false, "grade_id": "card-second-function", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
### BEGIN SOLUTION
suspect = "5c"
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "card-second-function-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-second-function", suspect)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Take a Function from a real project, and run `diagnose(F, inputs, double_backward=True)` on it. If the report shows no error, you can use the gradient of your Function in a penalty. If it does, you know three ways to fix it. If none of them fits, raise an error in `backward`.
