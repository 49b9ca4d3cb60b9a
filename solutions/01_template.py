# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/01_template.ipynb)
#
# # 01 · A Function from end to end: exercises
#
# Lesson 01 showed the parts of a Function. Here, you will write six Functions, find the wrong line in another one, and predict what `backward` receives. You may already have solved `square` and `scaled-sigmoid` in the lesson.
#
# The five repairs at the end are optional. Do them if you want more practice.
#
# **Given:** the task, the formula for forward, and the name and signature of each class.
#
# **To write:** where a cell says `# YOUR CODE HERE`, replace that line. In a class, also replace the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you derive and write down. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - `ctx.save_for_backward` saves all tensors that `backward` needs. Numbers, shapes and flags are attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - Every shape works: matrices, single numbers (0-dim), dimensions of length 1.
#
# 20 points, about 93 minutes (21 of them for the optional exercises).

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
# ## How to work
#
# A grader cell follows each exercise. Run it as often as you like. It runs your class on inputs of several shapes and says `passed`, or it names the rule that your class breaks and an element that shows the mistake.
# An exercise that you have not started is `not attempted`, so you can run the whole notebook at any time.
#
# If you are stuck, run `hint("square")` in a new cell. The first call gives a small hint, the second one gives the idea, and the third one almost gives the answer.
# `progress()` shows what you have solved, even after a kernel restart.
#
# Write one class, grade it, and only then start the next one.

# %% [markdown]
# ## 1 · Square (1 point · easy · 7 minutes)
#
# Forward computes the elementwise $y = x^2$. Backward receives $g = \partial L / \partial y$ as `grad_output` and returns
#
# $$\frac{\partial L}{\partial x} = \frac{\partial y}{\partial x} \, g .$$
#
# **Write** both methods. `x` may have any shape.


# %% nbgrader={"grade": false, "grade_id": "square", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Square(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x)
        return x * x
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "square-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("square", Square)

# %% [markdown]
# ## 2 · Scaled sigmoid (2 points · medium · 10 minutes)
#
# This sigmoid rises to `gain` with the steepness `slope`. Both parameters are Python numbers:
#
# $$y = \text{gain} \cdot \sigma(\text{slope} \cdot x), \qquad \sigma(t) = \frac{1}{1 + e^{-t}} .$$
#
# **Write** both methods. Write the derivative in terms of $y$. The two numbers get `None`.
#
# **Constraint:** save nothing but the output $y$. The next layer usually saves $y$ anyway, so your Function needs no additional memory.


# %% nbgrader={"grade": false, "grade_id": "scaled-sigmoid", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: float, slope: float) -> Tensor:
        ### BEGIN SOLUTION
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain, ctx.slope = gain, slope
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        return ctx.slope * y * (1 - y / ctx.gain) * grad_output, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "scaled-sigmoid-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("scaled-sigmoid", ScaledSigmoid)

# %% [markdown]
# ## 3 · Weighted sum (2 points · easy · 7 minutes)
#
# Blend two tensors $x$ and $y$ with a third tensor $w$ of the same shape:
#
# $$z = w \, x + (1 - w) \, y .$$
#
# **Write** both methods. All three inputs are tensors, so backward returns three gradients, in the order of the arguments of forward.


# %% nbgrader={"grade": false, "grade_id": "weighted-sum", "locked": false, "schema_version": 3, "solution": true, "task": false}
class WeightedSum(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, y, w)
        return w * x + (1 - w) * y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, y, w = ctx.saved_tensors
        return w * grad_output, (1 - w) * grad_output, (x - y) * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "weighted-sum-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("weighted-sum", WeightedSum)

# %% [markdown]
# ## 4 · Clipped ReLU with a stated convention (2 points · easy · 7 minutes)
#
# $$y = \min(\max(x, 0), \text{ceiling})$$
#
# At the kinks $x = 0$ and $x = \text{ceiling}$, no derivative exists, so you choose a convention. PyTorch's documented rule gives 0 at both (as `relu6` does), whereas `torch.clamp` in PyTorch 2.13 gives 1 at both.
#
# **Write** both methods. `ceiling` is a positive Python number.
#
# **Constraint:** the gradient is the same at both kinks, either 0 at both or 1 at both.


# %% nbgrader={"grade": false, "grade_id": "clipped-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ClippedReLU(Function):
    @staticmethod
    def forward(ctx, x: Tensor, ceiling: float) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward((x > 0) & (x < ceiling))
        return x.clamp(0, ceiling)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (inside,) = ctx.saved_tensors
        return grad_output * inside, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "clipped-relu-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("clipped-relu", ClippedReLU)

# %% [markdown]
# ## 5 · Linear with an optional bias (3 points · medium · 15 minutes)
#
# $$y = x W^\top + b$$
#
# | tensor | shape |
# | --- | --- |
# | `x` | `(..., in)`: any number of leading dimensions, or none |
# | `weight` | `(out, in)` |
# | `bias` | `(out,)`, or `None`, or not given |
# | `y` | `(..., out)` |
#
# **Write** both methods. backward always returns three values. What belongs in the third place if there is no bias?
# Let the shapes guide you: only a few products of $g$ with a saved tensor have the shape of $W$.


# %% nbgrader={"grade": false, "grade_id": "linear", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Linear(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        y = x @ weight.t()
        return y + bias if ctx.has_bias else y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        ### BEGIN SOLUTION
        x, weight = ctx.saved_tensors
        rows = grad_output.reshape(-1, weight.shape[0])
        grad_weight = rows.t() @ x.reshape(-1, weight.shape[1])
        grad_bias = rows.sum(0) if ctx.has_bias else None
        return grad_output @ weight, grad_weight, grad_bias
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "linear-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("linear", Linear)

# %% [markdown]
# ## 6 · To polar coordinates: two outputs (3 points · medium · 15 minutes)
#
# $$r = \sqrt{x^2 + y^2}, \qquad \theta = \operatorname{atan2}(y, x)$$
#
# backward receives one gradient for each output, $g_r$ and $g_\theta$, and each input collects gradients from both:
#
# $$\frac{\partial L}{\partial x} = \frac{\partial r}{\partial x} g_r + \frac{\partial \theta}{\partial x} g_\theta, \qquad
# \frac{\partial L}{\partial y} = \frac{\partial r}{\partial y} g_r + \frac{\partial \theta}{\partial y} g_\theta .$$
#
# **Write** both methods. forward returns the pair `(r, theta)`, and you may use `torch.hypot` and `torch.atan2`.
# If a loss uses only one of the outputs, the gradient of the other arrives as zeros, so you need no special case.


# %% nbgrader={"grade": false, "grade_id": "to-polar", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ToPolar(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        r = torch.hypot(x, y)
        ctx.save_for_backward(x, y)
        return r, torch.atan2(y, x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_r: Tensor, grad_theta: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, y = ctx.saved_tensors
        r = torch.hypot(x, y)
        grad_x = x / r * grad_r - y / r**2 * grad_theta
        grad_y = y / r * grad_r + x / r**2 * grad_theta
        return grad_x, grad_y
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "to-polar-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("to-polar", ToPolar)

# %% [markdown]
# ## 7 · Smooth L1: which line? (1 point · easy · 7 minutes)
#
# Object detectors compare the coordinates of two boxes with the smooth L1 loss. With $e = \text{prediction} - \text{target}$, it is
#
# $$\ell(e) = \begin{cases} e^2 / (2\beta) & |e| < \beta \\ |e| - \beta/2 & \text{otherwise.} \end{cases}$$
#
# Somebody wrote this Function and tested it with $\beta = 1$. A new detector uses $\beta = 1/9$, but it learns slowly. In the run below, twenty steps of gradient descent should move a coordinate from 1 to the target 0.


# %%
class SmoothL1(Function):
    @staticmethod
    def forward(ctx, prediction: Tensor, target: Tensor, beta: float) -> Tensor:
        error = prediction - target  # 1
        ctx.save_for_backward(error)  # 2
        ctx.beta = beta  # 3
        inside = error.abs() < beta  # 4
        return torch.where(inside, error**2 / (2 * beta), error.abs() - beta / 2)  # 5

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        (error,) = ctx.saved_tensors  # 6
        slope = error.clamp(-ctx.beta, ctx.beta)  # 7
        return grad_output * slope, -grad_output * slope, None  # 8


target = torch.zeros(1, dtype=torch.float64)
for beta in (1.0, 1 / 9):
    box = torch.ones(1, dtype=torch.float64, requires_grad=True)
    for _ in range(20):
        (gradient,) = torch.autograd.grad(SmoothL1.apply(box, target, beta).sum(), box)
        box = (box - 0.1 * gradient).detach().requires_grad_()
    print(f"beta = {beta:.2f}: the coordinate is {box.item():.2f}")
print("with the right gradient: 0.12 and 0.00")

# %% [markdown]
# Which line is wrong, and which of four experiments shows it? `suspect = "1a"` means line 1 and experiment a.
#
# An experiment shows the mistake if this Function and a correct one give different results. First decide by reading the code, as in a code review. Then run the experiment.
#
# - **a** Run `gradcheck` with `beta=1.0` and errors between −3 and 3.
# - **b** Run `gradcheck` with `beta=0.5` and errors between −3 and 3.
# - **c** Double `grad_output`, and see whether the gradient doubles.
# - **d** Compare the output with that of `torch.nn.functional.smooth_l1_loss` for `beta=0.5`.

# %% nbgrader={"grade": false, "grade_id": "locate-smooth-l1", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
### BEGIN SOLUTION
suspect = "7b"
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "locate-smooth-l1-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("locate-smooth-l1", suspect)

# %% [markdown]
# ## 8 · What backward receives (1 point · easy · 4 minutes)
#
# What does `Square.backward` receive as `grad_output`? Predict five numbers without running anything. In the first four questions, `x` is 3 and `y = Square.apply(x)` is 9.
#
# - **a** The loss is `5 * y`.
# - **b** The loss is `y * y`.
# - **c** The loss is `y + 4 * y`.
# - **d** The loss is `2 * x * y`.
# - **e** Here `x` has four elements, `y = Square.apply(x)`, and the loss is `y.mean()`. What is the first element of `grad_output`?
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-grad-output", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ..., ...]
### BEGIN SOLUTION
prediction = [5, 18, 5, 6, 0.25]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-grad-output-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-grad-output", prediction)

# %% [markdown]
# ## Optional: repair five broken backwards
#
# These five exercises are for more practice. A colleague has left the company, leaving five Functions behind. Every `forward` is right. Four of the `backward` methods run without an error but return wrong gradients, and the fifth raises an error.
#
# Write a subclass of the broken class, so that you keep its `forward`, and override `backward`.
#
# For the first two Functions, you will see a report from `diagnose`. It names the **rule** that the Function breaks and usually gives an **example** (one element of a gradient, with its actual and its expected value) and a **hint**.
# For the other three, read the code and find the mistake yourself. If you are stuck, run `diagnose` on the broken class in a new cell.

# %% [markdown]
# ### 9 · Cube (optional · 1 point · easy · 5 minutes)
#
# $y = x^3$


# %%
class BrokenCube(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2


x = torch.tensor([[0.5, -1.0, 2.0], [-0.3, 1.5, 0.8]], dtype=torch.float64)
diagnose(BrokenCube, (x,), repair=False)


# %% [markdown]
# A loss of `y.sum()` would not show this mistake, because every element of `grad_output` would be 1.


# %% nbgrader={"grade": false, "grade_id": "repair-cube", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Cube(BrokenCube):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-cube-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-cube", Cube)

# %% [markdown]
# ### 10 · Multiply (optional · 1 point · easy · 4 minutes)
#
# $z = x \, y$, for two tensors of the same shape.


# %%
class BrokenMultiply(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return x * grad_output, y * grad_output


y = torch.tensor([[2.0, 0.4, -1.2], [0.9, -0.7, 3.0]], dtype=torch.float64)
diagnose(BrokenMultiply, (x, y), repair=False)


# %% nbgrader={"grade": false, "grade_id": "repair-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Multiply(BrokenMultiply):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, y = ctx.saved_tensors
        return y * grad_output, x * grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-multiply-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-multiply", Multiply)

# %% [markdown]
# ### 11 · Mean (optional · 1 point · easy · 4 minutes)
#
# The mean over the last dimension, which has $n$ elements: $y_i = \frac{1}{n} \sum_j x_{ij}$
#
# The mistake is easy to miss, because every gradient points in the right direction. Training still works, but as if the learning rate were $n$ times as large.


# %%
class BrokenMean(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return x.mean(-1)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output.unsqueeze(-1).expand(ctx.shape)


# %% nbgrader={"grade": false, "grade_id": "repair-mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Mean(BrokenMean):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape[-1]
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-mean-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-mean", Mean)

# %% [markdown]
# ### 12 · Absolute value (optional · 1 point · easy · 4 minutes)
#
# $y = |x|$. At $x = 0$, you may return any slope from −1 to 1.


# %%
class BrokenAbsolute(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * (x > 0)


# %% nbgrader={"grade": false, "grade_id": "repair-absolute", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Absolute(BrokenAbsolute):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return grad_output * x.sign()
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-absolute-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-absolute", Absolute)

# %% [markdown]
# ### 13 · Power (optional · 1 point · easy · 4 minutes)
#
# $y = x^p$, with a Python number $p$. This one raises an error. Call it and run the backward pass to read the message.


# %%
class BrokenPower(Function):
    @staticmethod
    def forward(ctx, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.exponent = exponent
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return ctx.exponent * x ** (ctx.exponent - 1) * grad_output


# %% nbgrader={"grade": false, "grade_id": "repair-power", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Power(BrokenPower):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return ctx.exponent * x ** (ctx.exponent - 1) * grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-power-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-power", Power)

# %% [markdown]
# ## Where you are
#
# The table comes from your progress file, so it also counts what you solved on other days.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When you have passed the first eight exercises, you can write and check any Function whose backward is a formula. [Lesson 02](../notebooks/02_ctx_rules.ipynb) is about `ctx`: what it is, how long it lives, and what goes wrong if you break its rules.
# Before you go on, take ten minutes and run `diagnose` on a Function of your own.
