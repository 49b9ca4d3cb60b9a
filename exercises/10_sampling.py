# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/10_sampling.ipynb)
#
# # 10 · Sampling: exercises
#
# In lesson 10, you passed a gradient through a random choice. Here, you will write the three estimators from that lesson.
#
# **Given:** the formula for each Function's `forward` and a description of the gradient that its `backward` must return. This is the true gradient, the derivative of a *surrogate*, or a given formula.
#
# **To write:** where a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. Each Function has three methods: `forward` computes the output, `setup_context` saves what `backward` needs, and `backward` returns the gradients. (The grader also accepts a combined `forward(ctx, logits, …)` without `setup_context`.)
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you derive and write down. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save all tensors that `backward` needs with `ctx.save_for_backward`. Store numbers as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - The last dimension holds the classes to choose from. The tensors may have any number of dimensions before it.
#
# 8 points, about 40 minutes.

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
from torch.nn.functional import one_hot

from autograd_course import grade, hint, progress

# %% [markdown]
# ## How to work
#
# Write one class, grade it, and only then start the next one. If you are stuck, run `hint("gumbel-soft")` in a new cell. The first call gives a small hint, the second gives the idea, and the third almost gives away the answer.

# %% [markdown]
# ## 1 · Gumbel-softmax, soft (3 points · medium · 15 minutes)
#
# $$y = \operatorname{softmax}\!\left(\frac{\text{logits} + \text{noise}}{\tau}\right) \quad\text{over the last dimension}$$
#
# The caller draws the noise and passes it to `apply`. For fixed noise, nothing is random, so $y$ is an ordinary function of the logits, and you can test its gradient.
#
# **Write** the three methods. There is no surrogate here: `backward` returns the true gradient of the logits. `temperature` is $\tau$, a positive Python number. The noise is not learned, so `backward` returns `None` for it, and also for the temperature. (In fact, the noise has the same gradient as the logits. You may return this gradient instead of `None`.)


# %% nbgrader={"grade": false, "grade_id": "gumbel-soft", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GumbelSoftmax(Function):
    @staticmethod
    def forward(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "gumbel-soft-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("gumbel-soft", GumbelSoftmax)

# %% [markdown]
# ## 2 · Gumbel-softmax, hard (2 points · easy · 10 minutes)
#
# Now `forward` chooses. It returns 1 at the largest entry of $\text{logits} + \text{noise}$ along the last dimension and 0 elsewhere, in the dtype of the logits. If there is a tie, one of the largest is chosen.
#
# **Surrogate:** the soft sample from exercise 1, with the same noise and temperature.
#
# **Write** the three methods. `setup_context` receives the inputs and the output, and the output is one-hot. How does `backward` get the soft sample?


# %% nbgrader={"grade": false, "grade_id": "gumbel-hard", "locked": false, "schema_version": 3, "solution": true, "task": false}
class HardGumbelSoftmax(Function):
    @staticmethod
    def forward(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "gumbel-hard-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gumbel-hard", HardGumbelSoftmax)

# %% [markdown]
# ## 3 · ReinMax (3 points · medium · 15 minutes)
#
# `forward` is the same as in exercise 2: $y$ is one-hot at the largest entry of $\text{logits} + \text{noise}$, in the dtype of the logits. There is no temperature. `backward` averages the slopes at two points. With
#
# $$p = \text{softmax}(\text{logits}), \qquad m = \frac{p + y}{2}, \qquad J(q)^\top g = q \odot \Bigl(g - \sum_k g_k\,q_k\Bigr),$$
#
# the gradient that it returns for the logits is
#
# $$2\,J(m)^\top g - \tfrac12\,J(p)^\top g .$$
#
# **Write** the three methods. The noise only determines which $y$ is drawn, so `backward` returns `None` for it.
#
# **Constraint:** the probabilities $p$ do not contain the noise.


# %% nbgrader={"grade": false, "grade_id": "reinmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ReinMax(Function):
    @staticmethod
    def forward(logits: Tensor, noise: Tensor) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "reinmax-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("reinmax", ReinMax)

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts exercises that you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When you have passed all three, you can train through a random choice. You also know that only the soft sample has a true gradient.
# (If your hard Gumbel-softmax saves the soft sample instead of recomputing it, a penalty on its gradient has no effect, and PyTorch does not warn you. Lesson 06 shows why.)
