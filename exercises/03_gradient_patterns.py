# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/03_gradient_patterns.ipynb)
#
# # 03 · Gradient patterns: exercises
#
# Lesson 03 showed how a gradient goes back through a copy, a sum, a maximum, a norm, a window, an index. Here you write them: twelve Functions, each with the one place in it where people go wrong.
#
# **Given:** forward's formula and signature and, where that is not plain, which gradient is asked for.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you derive and write down, not a call of autograd.
# - Tensors that backward needs are kept by `ctx.save_for_backward`; numbers, shapes and flags are attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - Where an exercise forbids a built-in, the grader watches the operations that really run, so another name for it does not help.
#
# 29 points, about 185 minutes (135 of them for the exercises with ★, which need an *extra* section). The exercises do not build on one another; take first what you need. Stuck? `hint("gelu")` in a cell of its own gives a nudge, a second call the idea, a third nearly the answer.

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
import math

import torch
from torch import Tensor

from autograd_course import grade, hint, progress

# %% [markdown]
# ## 1 · GELU (1 point · easy · 9 minutes)
#
# The activation of most transformers: every number is weighed by the share of a normal distribution that lies below it.
#
# $$y = x \, \Phi(x), \qquad \Phi(x) = \tfrac12 \left(1 + \operatorname{erf}\frac{x}{\sqrt 2}\right)$$
#
# $\Phi$ is the distribution function of the normal distribution, so its derivative is the density $\varphi(x) = e^{-x^2/2} / \sqrt{2\pi}$.
#
# **Write** both methods, with `torch.erf`: the exact GELU, not its approximation by tanh.
#
# **Constraint:** no built-in `gelu`.


# %% nbgrader={"grade": false, "grade_id": "gelu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GELU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "gelu-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("gelu", GELU)

# %% [markdown]
# ## 2 · Swish: what must be saved? (2 points · easy · 8 minutes)
#
# $$y = x \, \sigma(x)$$
#
# The sigmoid of lesson 01 was content with its output. Is Swish? The derivative can be written with $x$ alone, with $x$ and $\sigma(x)$, or with $y$ and $\sigma(x)$. One tensor of the size of $x$ is enough, if it is the right one: which?
#
# **Write** both methods.
#
# **Constraints:** what is kept for backward takes no more memory than $x$. No built-in `silu`.


# %% nbgrader={"grade": false, "grade_id": "swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "swish-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("swish", Swish)

# %% [markdown]
# ## 3 · Swish with a learnable β ★ (2 points · medium · 15 minutes · needs "One parameter for all")
#
# $$y = x \, \sigma(\beta x)$$
#
# $\beta$ is a tensor of one element, a parameter of the network. Its shape is `()` or `(1,)`.
#
# **Write** both methods. Every element of $y$ depends on $\beta$; what does that make of its gradient?
#
# **Constraint:** the gradient of $\beta$ leaves `backward` in the shape of $\beta$.


# %% nbgrader={"grade": false, "grade_id": "learnable-swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LearnableSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, beta: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "learnable-swish-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("learnable-swish", LearnableSwish)

# %% [markdown]
# ## 4 · Multiply with broadcasting (3 points · medium · 15 minutes)
#
# $z = x \, y$, for any two shapes that broadcast: a matrix and a vector, a column and a row, a number and three axes.
#
# **Write** both methods. You may write a helper above the class, or in it.
#
# **Constraint:** `backward` itself returns gradients in the shapes of $x$ and $y$. In a training run you would not notice the difference, because the engine sums what is too large in silence; the grader looks at what `backward` returns.


# %% nbgrader={"grade": false, "grade_id": "broadcast-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BroadcastMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "broadcast-multiply-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("broadcast-multiply", BroadcastMultiply)

# %% [markdown]
# ## 5 · Log-sum-exp ★ (3 points · hard · 25 minutes · needs "Log-sum-exp and the empty row")
#
# $$y = \log \sum_j e^{x_j}$$
#
# along the axis `dim`, which may be counted from the back. With `keepdim=True` the axis stays, with length 1.
#
# - Numbers in the thousands must give numbers, not `inf`.
# - An entry of $-\infty$ counts for nothing and has gradient 0. Masks are made of such entries.
# - A slice that is all $-\infty$ gives $-\infty$; its gradient is asked to be 0. (Here you are to do better than `torch.logsumexp`, whose gradient is `nan` there.)
#
# **Write** both methods.
#
# **Constraint:** no built-in `logsumexp`, `log_softmax` or `logaddexp`.


# %% nbgrader={"grade": false, "grade_id": "log-sum-exp", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "log-sum-exp-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("log-sum-exp", LogSumExp)

# %% [markdown]
# ## 6 · Maximum with ties ★ (2 points · medium · 15 minutes · needs "Max, and what ties do")
#
# $$y = \max_j x_j$$
#
# along `dim`, with or without `keepdim`. Where several elements of a slice share the maximum, no derivative exists there, and a convention is needed. PyTorch itself has two: `torch.max(x, dim)` gives everything to the one whose index it returns, `torch.amax` shares.
#
# After a ReLU, or among small integers, ties are the rule.
#
# **Write** both methods. Forward may call `amax`.
#
# **Constraint:** $c$ equal maxima get $1/c$ of the gradient each, as with `torch.amax`.


# %% nbgrader={"grade": false, "grade_id": "max-with-ties", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MaxWithTies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "max-with-ties-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("max-with-ties", MaxWithTies)

# %% [markdown]
# ## 7 · Batch normalization ★ (3 points · hard · 20 minutes · needs "Normalization is a projection")
#
# $x$ has the shape $(N, C, \dots)$. For each channel, that is over all axes but axis 1, let $\mu$ be the mean and $v$ the biased variance (divided by the number of elements $m$, not $m - 1$):
#
# $$y = \frac{x - \mu}{\sqrt{v + \varepsilon}}$$
#
# There is no learned scale or shift, and no running average.
#
# **Write** both methods; `eps` is a Python number. $\mu$ and $v$ are made of $x$ too: three paths lead from each $x$ to the loss.
#
# **Constraint:** no built-in normalization.


# %% nbgrader={"grade": false, "grade_id": "batch-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, eps: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "batch-norm-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("batch-norm", BatchNorm)

# %% [markdown]
# ## 8 · Soft rank (3 points · medium · 15 minutes)
#
# The rank of a number is one plus how many are smaller: a step function, without a useful gradient. Make each comparison soft, with a temperature $\tau$, a Python number:
#
# $$r_i = \tfrac12 + \sum_j \sigma\left(\frac{x_i - x_j}{\tau}\right)$$
#
# The sum includes $j = i$, which gives the second half. For small $\tau$ these are the ranks 1 to $n$. $x$ has any number of axes; ranked is along the last.
#
# **Write** both methods. $x_k$ stands in the row of its own rank, and in everybody else's.
#
# **Constraint:** no $n \times n$ matrix is kept between forward and backward.


# %% nbgrader={"grade": false, "grade_id": "soft-rank", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, tau: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "soft-rank-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("soft-rank", SoftRank)

# %% [markdown]
# ## 9 · Rows of a table ★ (2 points · easy · 9 minutes · needs "Indices that repeat")
#
# An embedding: `y = table[index]`. `table` has the shape $(V, D)$, `index` is a tensor of integers from 0 to $V - 1$ of any shape, and `y` has the shape of `index` with $D$ behind it. Words occur more than once in a text, so indices repeat; some rows are never asked for.
#
# **Write** both methods. `index` gets `None`.


# %% nbgrader={"grade": false, "grade_id": "gather-rows", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table: Tensor, index: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "gather-rows-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gather-rows", GatherRows)

# %% [markdown]
# ## 10 · One-dimensional convolution ★ (4 points · hard · 30 minutes · needs "Convolution")
#
# What networks call a convolution, with stride $s$, padding $p$ (zeros on both sides) and $G$ groups:
#
# $$y_{n,o,t} = \sum_{c} \sum_{k} w_{o,c,k} \; \tilde x_{n,\, c',\, s t + k}$$
#
# | tensor | shape |
# | --- | --- |
# | `x` | `(N, C, L)` |
# | `weight` | `(O, C // G, K)` |
# | `y` | `(N, O, T)`, where `T = (L + 2p - K) // s + 1` |
#
# $\tilde x$ is the padded $x$. With $G$ groups, channels and outputs are both cut into $G$ equal blocks, and outputs of block $b$ see the channels of block $b$ only ($c'$ is channel $c$ of that block). When $L + 2p - K$ is no multiple of $s$, elements at the end are not used by any window; their gradient is 0, but they have one.
#
# **Write** both methods. One way: `padded.unfold(-1, K, s)` cuts the padded input into windows without copying. What remains are products, and one step in backward that puts overlapping windows back.
#
# **Constraint:** no built-in convolution, neither in forward nor in backward; `torch.nn.grad` and the transposed convolution are built on the same ones.


# %% nbgrader={"grade": false, "grade_id": "conv1d", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, stride: int, padding: int, groups: int) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "conv1d-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("conv1d", Conv1d)

# %% [markdown]
# ## 11 · Complex product ★ (2 points · medium · 15 minutes · needs "Complex numbers and the conjugate")
#
# $y = z \, w$, element by element, for two tensors of one shape. Either may be complex, and at least one is.
#
# **Write** both methods. PyTorch's gradient of a real loss $L$ with respect to $z = a + b\,i$ is $\partial L/\partial a + i\,\partial L/\partial b$: the direction in which $L$ grows fastest. With $g$ in the same sense for $y$, the one for $z$ follows.
#
# **Constraint:** the gradient of a real input is real. Given a complex one, the engine stops with an error that does not say so.


# %% nbgrader={"grade": false, "grade_id": "complex-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ComplexMultiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z: Tensor, w: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "complex-multiply-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("complex-multiply", ComplexMultiply)

# %% [markdown]
# ## 12 · Gradient reversal ★ (2 points · easy · 6 minutes · needs "A reversal as a Function")
#
# In domain-adversarial training a classifier learns to tell two domains apart, and the layers below are to learn the opposite. Between them stands a Function that changes nothing forward and turns the gradient backward:
#
# $$y = x, \qquad \frac{\partial L}{\partial x} := -\text{strength} \cdot g$$
#
# This gradient is wrong by design. `gradcheck` would fail it, and rightly so: it has to be tested against what was declared. The grader does that.
#
# **Write** both methods; `strength` is a Python number.
#
# **Constraint:** forward returns a tensor of its own. Many published versions return `x` or `x.view_as(x)`; then the first layer with `inplace=True` behind it stops the training with an error.


# %% nbgrader={"grade": false, "grade_id": "gradient-reversal", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, strength: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "gradient-reversal-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gradient-reversal", GradientReversal)

# %% [markdown]
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Twelve patterns cover most of what a layer does. Lesson 04 shows how to find the mistake in a `backward` that somebody else wrote.
