# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator: exercises
#
# In lesson 05, you replaced the zero gradient of a step function with the gradient of a surrogate. Here you write five straight-through estimators (STEs), predict what they return, find the mistake in another one, and train a net. You may have solved `sign-ste` and `round-ste` in the lesson already.
#
# **Given:** the formula for `forward` and the *surrogate* of each Function. The surrogate is the differentiable function whose vector-Jacobian product `backward` returns.
#
# **To write:** where a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. Each Function has three methods: `forward` computes the output, `setup_context` saves what `backward` needs, and `backward` returns the gradients. (The grader also accepts a combined `forward(ctx, x)` without `setup_context`.)
#
# **Constraints for every exercise:**
#
# - The grader compares `forward` with its formula, and `backward` with the derivative of the surrogate. Both must be exact.
# - `backward` is a formula that you derive and write down. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - `ctx.save_for_backward` saves all tensors that `backward` needs. Store numbers as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
#
# 18 points, about 87 minutes.

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
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import cross_entropy, linear

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import load_digits

# %% [markdown]
# ## How to work
#
# Write one class, grade it, and only then start the next one. If you are stuck, run `hint("sign-ste")` in a new cell. The first call gives a small hint, the second gives the idea, and the third almost gives away the answer.
#
# To test your class before you grade it, pass the surrogate to `diagnose`:
# `diagnose(SignSTE, (torch.randn(3, 4),), surrogate=lambda x: x.clone())`. Without `surrogate=`, `diagnose` compares your gradient with the true one, which is zero.

# %% [markdown]
# ## 1 · Sign, straight through (1 point · easy · 5 minutes)
#
# $$y = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases} \qquad\text{surrogate:}\quad \tilde y = x$$
#
# A binary weight has two values, so the sign of 0 must be one of them. Here it is +1. (`torch.sign` returns 0 there.)
#
# **Write** the three methods. `backward` returns what it would return if `forward` were the surrogate. If `backward` needs nothing from `forward`, the body of `setup_context` is `pass`.
#
# **Constraint:** the output at exactly 0 is +1, whatever the sign of that zero, and the output has the dtype of `x`.


# %% nbgrader={"grade": false, "grade_id": "sign-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.where(x >= 0, 1.0, -1.0).to(x)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        pass
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return grad_output
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sign-ste-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("sign-ste", SignSTE)

# %% [markdown]
# ## 2 · Sign, clipped straight-through (2 points · easy · 7 minutes)
#
# `forward` is the same, and its output has the dtype of $x$. The surrogate is different:
#
# $$\tilde y = \min(\max(x, -1), 1)$$
#
# With the identity as the surrogate, the optimizer may keep pushing a latent weight further from zero, even though its sign no longer changes. Such a weight takes a long time to come back. The clipped STE stops the gradient where $x$ is outside the interval.
#
# **Write** the three methods.
#
# **Constraint:** the gradient still passes at exactly $x = -1$ and $x = 1$, because a training loop that clamps its weights puts them there. (PyTorch's rule for kinks would give 0. A surrogate is your choice, so say what you chose.)


# %% nbgrader={"grade": false, "grade_id": "clipped-sign", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ClippedSignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.where(x >= 0, 1.0, -1.0).to(x)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        (x,) = inputs
        ctx.save_for_backward(x.abs() <= 1)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (inside,) = ctx.saved_tensors
        return grad_output * inside
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "clipped-sign-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("clipped-sign", ClippedSignSTE)

# %% [markdown]
# ## 3 · Four gradients (1 point · medium · 7 minutes)
#
# `SignSTE` and `ClippedSignSTE` are the Functions of exercises 1 and 2, and `x` is 0.4. What is the gradient of each loss with respect to `x`? Predict four numbers without running anything.
#
# - **a** `loss = (3 * SignSTE.apply(x) - 1) ** 2`
# - **b** `loss = x * SignSTE.apply(x)`
# - **c** `loss = ClippedSignSTE.apply(4 * x)`
# - **d** `loss = torch.sign(x) * SignSTE.apply(x)`
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-straight-through", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ...]
### BEGIN SOLUTION
prediction = [12, 1.4, 0, 1]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-straight-through-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-straight-through", prediction)

# %% [markdown]
# ## 4 · Three levels from two signs (3 points · medium · 15 minutes)
#
# A chip can skip a weight that is 0. So we add 0 as a third level, and let the net learn the threshold $t$ between the levels:
#
# $$y = \begin{cases} +1 & x \ge t \\ 0 & -t \le x < t \\ -1 & x < -t \end{cases}$$
#
# The threshold $t > 0$ is a 0-dim tensor. The net learns it like a weight.
#
# This step function has two jumps, so it is the mean of two signs, one for each jump: $y = \tfrac12\,\text{sign}(x - t) + \tfrac12\,\text{sign}(x + t)$, with the sign of exercise 1.
#
# **Surrogate:** replace each of the two signs with the clip of exercise 2:
#
# $$\tilde y = \tfrac12\,\text{clip}(x - t) + \tfrac12\,\text{clip}(x + t), \qquad \text{clip}(v) = \min(\max(v, -1), 1)$$
#
# **Write** the three methods. `backward` returns a gradient for `x` and one for `threshold`.
#
# **Constraints:** each clip still passes the gradient at exactly −1 and 1. The gradient of the threshold has the shape of the threshold.


# %% nbgrader={"grade": false, "grade_id": "ternary-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TernarySTE(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return (x >= threshold).to(x) - (x < -threshold).to(x)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, threshold = ctx.saved_tensors
        upper = ((x - threshold).abs() <= 1).to(x)
        lower = ((x + threshold).abs() <= 1).to(x)
        grad_x = grad_output * (lower + upper) / 2
        grad_threshold = (grad_output * (lower - upper)).sum() / 2
        return grad_x, grad_threshold
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "ternary-ste-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("ternary-ste", TernarySTE)

# %% [markdown]
# ## 5 · Round to a grid, straight through (2 points · easy · 5 minutes)
#
# $$y = \text{step} \cdot \operatorname{round}\!\left(\frac{x}{\text{step}}\right) \qquad\text{surrogate:}\quad \text{the same with } \operatorname{round}(v) \text{ replaced by } v$$
#
# `step` is a positive Python number. A number halfway between two grid points is rounded to the even multiple, as in `torch.round`.
#
# **Write** the three methods. Simplify the surrogate first.


# %% nbgrader={"grade": false, "grade_id": "round-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RoundSTE(Function):
    @staticmethod
    def forward(x: Tensor, step: float) -> Tensor:
        ### BEGIN SOLUTION
        return step * torch.round(x / step)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        pass
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        return grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "round-ste-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("round-ste", RoundSTE)

# %% [markdown]
# ## 6 · A two-bit activation (1 point · medium · 8 minutes)
#
# This activation clips its input to $[0, \alpha]$ and rounds it to four levels. The net learns the bound $\alpha$. (The method is called *PACT*.)
#
# $$y = s \cdot \operatorname{round}\!\left(\frac{\min(\max(x, 0), \alpha)}{s}\right), \quad s = \frac{\alpha}{3} \qquad\text{surrogate:}\quad \tilde y = \min(\max(x, 0), \alpha)$$
#
# Below, two units learn to return 1. The unit that starts at 0.1 does not move, although the surrogate has slope 1 there.


# %%
class QuantizedActivation(Function):
    @staticmethod
    def forward(x: Tensor, alpha: Tensor) -> Tensor:
        step = alpha / 3  # 1
        return step * torch.round(torch.minimum(x.clamp(min=0), alpha) / step)  # 2

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(output, inputs[1])  # 3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors  # 4
        inside = (x > 0) & (x < alpha)  # 5
        return grad_output * inside, (grad_output * (x >= alpha)).sum()  # 6


alpha = torch.tensor(1.0)
for start in (0.1, 0.5):
    x = torch.tensor(start, requires_grad=True)
    for _ in range(20):
        loss = (QuantizedActivation.apply(x, alpha) - 1) ** 2
        (gradient,) = torch.autograd.grad(loss, x)
        x = (x - 0.2 * gradient).detach().requires_grad_()
    print(f"start {start}: x = {x.item():.1f} and a loss of {loss.item():.1f} after 20 steps")

# %% [markdown]
# Which line is wrong, and which experiment shows it? `suspect = "1a"` means line 1 and experiment a. An experiment shows the mistake if this Function and a correct one give different results. All experiments use $\alpha = 1$.
#
# - **a** Run `gradcheck` at x = −1, 0.5 and 2.
# - **b** Compare both gradients with those of the surrogate at x = −1, 0.4, 0.6 and 2.
# - **c** Double `grad_output`, and see whether both gradients double.
# - **d** Compare both gradients with those of the surrogate at x = 0.9.

# %% nbgrader={"grade": false, "grade_id": "card-activation", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
### BEGIN SOLUTION
suspect = "3d"
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "card-activation-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-activation", suspect)

# %% [markdown]
# ## 7 · Fake quantization with a learned step (4 points · hard · 20 minutes)
#
# $$y = s \cdot \operatorname{round}\bigl(\operatorname{clamp}(x / s,\ \text{low},\ \text{high})\bigr)$$
#
# | argument | what it is |
# | --- | --- |
# | `x` | a tensor of any shape |
# | `step` | the step $s > 0$, a tensor with one number (0-dim), which the net learns like a weight |
# | `low`, `high` | the smallest and the largest level, as Python numbers: −4 and 3 for three bits |
#
# The quantization is "fake" because $y$ is a float, although it takes only as many values as there are integers from `low` to `high`.
#
# **Surrogate:** treat the *derivative* of the rounding as 1, but keep using the rounded value everywhere else. Differentiate the clamp normally, and apply it before the rounding.
#
# The order of the clamp and the rounding does not change $y$, because the bounds are integers, but it changes the gradient. Take `high` = 3 and $x/s = 3.3$. The clamp changes 3.3 to 3, so no gradient passes. If the rounding came first, the clamp would get 3, which is within the bounds.
#
# **Write** the three methods. `forward` returns $y$, and `backward` returns one value for each of the four arguments. To find the gradient of $s$, write $y$ as a product and differentiate both factors.
#
# **Constraints:** the gradient of $x$ still passes where $x/s$ is exactly `low` or `high`. The gradient of $s$ has the shape of $s$.
# (Published recipes also divide the gradient of $s$ by a constant. That belongs in the training loop, not here.)


# %% nbgrader={"grade": false, "grade_id": "fake-quantize", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FakeQuantize(Function):
    @staticmethod
    def forward(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        ### BEGIN SOLUTION
        return step * torch.round(x / step).clamp(low, high)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ### BEGIN SOLUTION
        x, step, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x, step)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        ### BEGIN SOLUTION
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        by_step = torch.where(inside, v.round() - v, v.clamp(ctx.low, ctx.high))
        return grad_output * inside, (grad_output * by_step).sum(), None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fake-quantize-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("fake-quantize", FakeQuantize)

# %% [markdown]
# ## 8 · A binary net on real digits (4 points · medium · 20 minutes)
#
# `load_digits` returns 1797 handwritten digits of 8×8 pixels, with values from −1 to 1. We shuffle the images, because images that are next to each other come from the same writer.

# %%
images, labels = load_digits()
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order].float(), labels[order]
print("images:", tuple(images.shape), " labels:", tuple(labels.shape))

# %% [markdown]
# The layer is given. It has real-valued, *latent* weights, which the optimizer changes in small steps. `forward` multiplies by their signs. The layer has no bias. It uses *your* `ClippedSignSTE`, so solve exercise 2 first.


# %%
class BinaryLinear(nn.Module):
    """y = x sign(W)ᵀ, where W holds the latent weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, ClippedSignSTE.apply(self.weight))


# %% [markdown]
# **Write** `train_binary_net(images, labels)`, which builds a net, trains it and returns it. `images` has the shape `(n, 64)`, and `labels` has the shape `(n,)`. The net takes images and returns scores of shape `(n, 10)`. The largest score is the digit that the net predicts.
#
# **Constraints:** the grader trains the net once on 1397 digits and then checks three things.
#
# - Every matrix product in the net's forward pass uses only weights of −1 and +1. The grader looks at the products that really run, not at your parameters. Normalization layers may have real-valued parameters.
# - The weights were learned: gradients other than zero arrived at them.
# - At least 90% of 400 digits that it has not seen are right. (Guessing gives 10%.)
#
# Training may take 30 seconds on the CPU. A network the size of the one in the lesson takes about one second. If the net is an `nn.Module`, the grader puts it into `eval()` mode before it asks for predictions.
#
# Before you grade, test your net in a new cell, with your own split:
#
#     net = train_binary_net(images[:1400], labels[:1400]).eval()
#     print((net(images[1400:]).argmax(1) == labels[1400:]).float().mean())


# %% nbgrader={"grade": false, "grade_id": "binary-digits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_binary_net(images: Tensor, labels: Tensor) -> nn.Module:
    ### BEGIN SOLUTION
    net = nn.Sequential(
        BinaryLinear(64, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        BinaryLinear(64, 10),
        nn.BatchNorm1d(10),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(100):
        loss = cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "binary-digits-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("binary-digits", train_binary_net)

# %% [markdown]
# When the net has passed, try two experiments. You keep your points. First, make the `backward` of `ClippedSignSTE` return `grad_output * 0`, which is the true gradient, and grade the net again. How accurate is it now, and which layers still learn?
# Then use `SignSTE` in the layer. Does the clip make a difference on this small problem?
#
# ## In words
#
# All gradients that you wrote here are biased. The essay question at the end of lesson 05's knowledge check asks when a biased estimator still trains, and when the bias hurts.
# Your essay is not graded. `knowledge_check("05")` in the lesson shows the question, with a rubric to compare your answer with.

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Once you have passed all the exercises, you can give any step function a surrogate gradient, name the surrogate, and test it. Lesson 06 differentiates a gradient, and shows what `backward` must look like so that the second derivative is right. Lesson 10 applies the estimators from this lesson to random choices.
