# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/10_sampling.ipynb)
#
# # 10 · Sampling: exercises
#
# Lesson 10 let a gradient through a random choice. Here you write its three estimators.
#
# **Given:** for every Function the formula of `forward`, and what `backward` returns: the true gradient, the derivative of a *surrogate*, or a formula.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. Every Function has three methods: `forward` computes the output, `setup_context` saves what `backward` needs, and `backward` returns the gradients. (If you prefer `forward(ctx, logits, …)` without `setup_context`, the grader accepts it too.)
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you write down, not a call to autograd.
# - Keep tensors for `backward` with `ctx.save_for_backward`, and numbers as attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - The choice is along the last dimension. The tensors may have any number of dimensions before it.
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
# Write one class, grade it, and only then begin the next. Call `hint("gumbel-soft")` in a cell of its own if you are stuck. The first call gives a nudge, the second one the idea, and the third one nearly the answer.

# %% [markdown]
# ## 1 · Gumbel-softmax, soft (3 points · medium · 15 minutes)
#
# $$y = \operatorname{softmax}\!\left(\frac{\text{logits} + \text{noise}}{\tau}\right) \quad\text{over the last dimension}$$
#
# The caller draws the noise and passes it in. That makes $y$ an ordinary function of its inputs, so you can test its gradient: at fixed noise, nothing is random.
#
# **Write** the three methods. There is no surrogate here: `backward` returns the true gradient of the logits. `temperature` is $\tau$, a positive Python number. The noise is not learned, so it gets `None`, and so does the temperature. (The gradient of the noise equals that of the logits. Returning it is not wrong either.)


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
# Now `forward` decides: it returns 1 at the largest entry of $\text{logits} + \text{noise}$ along the last dimension and 0 elsewhere, in the dtype of the logits. At a tie one of the largest is chosen, not both.
#
# **Surrogate:** the soft sample of exercise 1, at the same noise and temperature.
#
# **Write** the three methods. `setup_context` sees the inputs and the output, and the output is one-hot. So think about where `backward` gets the soft sample from.


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
# `forward` is that of exercise 2: $y$ is one-hot at the largest entry of $\text{logits} + \text{noise}$, in the dtype of the logits. There is no temperature. `backward` averages the slope at two points. With
#
# $$p = \text{softmax}(\text{logits}), \qquad m = \frac{p + y}{2}, \qquad J(q)^\top g = q \odot \Bigl(g - \sum_k g_k\,q_k\Bigr),$$
#
# it returns for the logits
#
# $$2\,J(m)^\top g - \tfrac12\,J(p)^\top g .$$
#
# **Write** the three methods. The noise only decides which $y$ is drawn, so it gets `None`.
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
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When you have passed all three, you can train through a random choice, and you know which of these gradients is true: only that of the soft sample.
# (If your hard Gumbel-softmax saves the soft sample instead of recomputing it, a penalty on its gradient is dropped in silence. Lesson 06 shows why.)
