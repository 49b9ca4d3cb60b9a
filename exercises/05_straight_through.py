# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator: exercises
#
# Lesson 05 gave quantizers a gradient that is wrong on purpose, and said which one. Here you write the common ones, and then train a net with one of them.
#
# **Given:** for every Function the formula of `forward`, and its *surrogate*: the differentiable function whose derivative `backward` returns.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. Every Function has three methods: `forward` computes the output, `setup_context` saves what `backward` needs, and `backward` returns the gradients. (If you prefer `forward(ctx, x)` without `setup_context`, the grader accepts it too.)
#
# **Constraints for every exercise:**
#
# - The grader compares `forward` with its formula, and `backward` with the derivative of the surrogate. Both must be exact: a gradient that is wrong by design is not a gradient that is roughly right.
# - `backward` is a formula that you write down, not a call to autograd.
# - Keep tensors for `backward` with `ctx.save_for_backward`, and numbers as attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
#
# 16 points, about 75 minutes (10 of them for the exercises with ★, which need an *extra* section).

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
# Write one class, grade it, and only then begin the next. Call `hint("sign-ste")` in a cell of its own if you are stuck. The first call gives a nudge, the second one the idea, and the third one nearly the answer.
#
# To look at your class before you grade it, pass the surrogate to `diagnose`:
# `diagnose(SignSTE, (torch.randn(3, 4),), surrogate=lambda x: x.clone())`. Without `surrogate=` it would compare your gradient with the true one, which is zero.

# %% [markdown]
# ## 1 · Sign, straight through (1 point · easy · 5 minutes)
#
# $$y = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases} \qquad\text{surrogate:}\quad \tilde y = x$$
#
# A binary weight has two values, so zero must get one of them. Here it gets +1. (`torch.sign` has a third value: it returns 0 at 0.)
#
# **Write** the three methods. `backward` returns what it would return if `forward` were the surrogate. If `backward` needs nothing from `forward`, the body of `setup_context` is `pass`.
#
# **Constraint:** the output at exactly 0 is +1, whatever the sign of that zero, and the output has the dtype of `x`.


# %% nbgrader={"grade": false, "grade_id": "sign-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "sign-ste-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("sign-ste", SignSTE)

# %% [markdown]
# ## 2 · Sign, clipped straight-through ★ (2 points · easy · 7 minutes · needs "Where the gradient stops")
#
# `forward` is the same, but the surrogate is different:
#
# $$\tilde y = \min(\max(x, -1), 1)$$
#
# With the identity as the surrogate, the optimizer pushes a latent weight further and further out, even if its sign was decided long ago. Such a weight takes just as long to come back. The clipped estimator stops the gradient as soon as $x$ has left the interval.
#
# **Write** the three methods.
#
# **Constraint:** the gradient still passes at exactly $x = -1$ and $x = 1$, because a training loop that clamps its weights puts them there. (PyTorch's rule for kinks would give 0. A surrogate is your choice, so state it.)


# %% nbgrader={"grade": false, "grade_id": "clipped-sign", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ClippedSignSTE(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "clipped-sign-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("clipped-sign", ClippedSignSTE)

# %% [markdown]
# ## 3 · Three levels from two signs (3 points · medium · 15 minutes)
#
# A chip can skip a weight that is 0. So we add a third level, and learn where it begins:
#
# $$y = \begin{cases} +1 & x \ge t \\ 0 & -t \le x < t \\ -1 & x < -t \end{cases}$$
#
# The threshold $t > 0$ is a tensor with one number (0-dim), which is learned like a weight.
#
# This staircase has two jumps, so it is the mean of two signs, one for each jump: $y = \tfrac12\,\text{sign}(x - t) + \tfrac12\,\text{sign}(x + t)$, with the sign of exercise 1. You can write every staircase as a constant plus a weighted sum of signs, and give each sign its own surrogate.
#
# **Surrogate:** each of the two signs is replaced by the clip of exercise 2:
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
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "ternary-ste-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("ternary-ste", TernarySTE)

# %% [markdown]
# ## 4 · Round to a grid, straight through (2 points · easy · 5 minutes)
#
# $$y = \text{step} \cdot \operatorname{round}\!\left(\frac{x}{\text{step}}\right) \qquad\text{surrogate:}\quad \text{the same with } \operatorname{round}(v) \text{ replaced by } v$$
#
# `step` is a positive Python number. A number halfway between two grid points goes to the even multiple, as with `torch.round`.
#
# **Write** the three methods. The surrogate is simpler than it looks.


# %% nbgrader={"grade": false, "grade_id": "round-ste", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RoundSTE(Function):
    @staticmethod
    def forward(x: Tensor, step: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "round-ste-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("round-ste", RoundSTE)

# %% [markdown]
# ## 5 · Fake quantization with a learned step (4 points · hard · 20 minutes)
#
# $$y = s \cdot \operatorname{round}\bigl(\operatorname{clamp}(x / s,\ \text{low},\ \text{high})\bigr)$$
#
# | argument | what it is |
# | --- | --- |
# | `x` | a tensor of any shape |
# | `step` | $s > 0$, the step of exercise 4, but now a tensor with one number (0-dim), which is learned like a weight |
# | `low`, `high` | the smallest and the largest level, as Python numbers: −4 and 3 for three bits |
#
# The quantization is "fake" because $y$ is stored as a float, although it takes only the values that the integers from `low` to `high` can express.
#
# **Surrogate:** treat the *derivative* of the rounding as 1, but keep using the rounded value everywhere else. Differentiate the clamp normally, and apply it before the rounding. (The order of the two does not change $y$, because the bounds are integers. But it changes the gradient. With `high` = 3 and $x/s = 3.3$ the clamp has cut something off, so no gradient passes. After the rounding, the clamp would see 3, which is within the bounds.)
#
# **Write** the three methods. `forward` returns $y$, and `backward` returns one value for each of the four arguments. To find the gradient of $s$, write $y$ as a product and differentiate both factors.
#
# **Constraints:** the gradient of $x$ still passes where $x/s$ is exactly `low` or `high`. The gradient of $s$ has the shape of $s$.
# (Published recipes also scale the gradient of $s$ down to help the optimizer. That belongs in the training loop, not here.)


# %% nbgrader={"grade": false, "grade_id": "fake-quantize", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FakeQuantize(Function):
    @staticmethod
    def forward(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "fake-quantize-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("fake-quantize", FakeQuantize)

# %% [markdown]
# ## 6 · A binary net on real digits (4 points · medium · 20 minutes)
#
# `load_digits` returns 1797 handwritten digits of 8×8 pixels, with values from −1 to 1. We shuffle the images, because images that are next to each other come from the same writer.

# %%
images, labels = load_digits()
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order].float(), labels[order]
print("images:", tuple(images.shape), " labels:", tuple(labels.shape))

# %% [markdown]
# The layer is given. It owns real-valued, *latent* weights, which the optimizer changes in small steps. `forward` multiplies with their signs. The layer has no bias, and it uses *your* `ClippedSignSTE`, so solve exercise 2 first.


# %%
class BinaryLinear(nn.Module):
    """y = x sign(W)ᵀ, where W holds the latent weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-0.1, 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, ClippedSignSTE.apply(self.weight))


# %% [markdown]
# **Write** `train_binary_net(images, labels)`, which builds a net, trains it and returns it. `images` has the shape `(n, 64)` and `labels` `(n,)`. The net takes images and returns scores of shape `(n, 10)`. The largest score is the digit that the net predicts.
#
# **Constraints:** the grader trains the net on 1397 digits, once, and then checks three things.
#
# - Every matrix product of the net's forward uses weights of −1 and +1 only. The grader looks at the products that really run, not at your parameters. Normalization layers may have real-valued parameters.
# - The weights were learned: gradients other than zero arrived at them.
# - At least 90% of 400 digits that it has not seen are right. (Guessing gives 10%.)
#
# Training may take 30 seconds on the CPU. A net of the lesson's size takes about one. If the net is an `nn.Module`, the grader puts it into `eval()` mode before it asks for predictions.
#
# Before you grade, try your net in a cell of your own, on a split of your own:
#
#     net = train_binary_net(images[:1400], labels[:1400]).eval()
#     print((net(images[1400:]).argmax(1) == labels[1400:]).float().mean())


# %% nbgrader={"grade": false, "grade_id": "binary-digits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_binary_net(images: Tensor, labels: Tensor) -> nn.Module:
    # YOUR CODE HERE
    raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "binary-digits-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("binary-digits", train_binary_net)

# %% [markdown]
# Two experiments for when the net has passed (you keep the points that you earned). First, return `grad_output * 0` from the backward of `ClippedSignSTE`, which is the true gradient, and grade the net again. How much of the accuracy is left, and which layer earned it?
# Then use `SignSTE` in the layer. Does the clip make a difference on this small problem?
#
# ## In words
#
# All gradients that you wrote here are biased: they point where the surrogate falls, not where the loss falls. The essay at the end of lesson 05's knowledge check asks why this trains at all: when does a biased estimator still train, and when does the bias hurt?
# The essay is not graded. `knowledge_check("05")` in the lesson opens it, with a rubric to compare your answer with.

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When you have passed all six, you can give any step function a gradient, say which one it is, and test it. Lesson 06 differentiates twice: it shows what `backward` itself must look like so that the gradient of a gradient is right. Lesson 10 uses the estimators of this lesson for random choices.
