# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/03_gradient_patterns.ipynb)
#
# # 03 · Gradient patterns: exercises
#
# Lesson 03 showed how a gradient goes back through a copy, a sum, a maximum and an index. Here you write seven Functions yourself. Each of them has one place where people go wrong.
#
# **Given:** the formula and the signature of `forward`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it. The stubs have a separate `setup_context`, which gets the tuple of inputs and the output, and decides what `backward` will need.
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you derive and write down, not a call to autograd.
# - Tensors that backward needs are kept by `ctx.save_for_backward`. Numbers, shapes and flags are attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - Where an exercise forbids a built-in, the grader watches the operations that really run, so another name for it does not help.
#
# 15 points, about 90 minutes. The exercises do not build on one another, so you can do them in any order. Stuck? Call `hint("gelu")` in a cell of its own. The first hint is a nudge, the second one gives the idea, and the third one is almost the answer.

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
# GELU is the activation of most transformers. It multiplies each number by the share of a normal distribution that lies below it.
#
# $$y = x \, \Phi(x), \qquad \Phi(x) = \tfrac12 \left(1 + \operatorname{erf}\frac{x}{\sqrt 2}\right)$$
#
# $\Phi$ is the distribution function of the normal distribution, so its derivative is the density $\varphi(x) = e^{-x^2/2} / \sqrt{2\pi}$.
#
# **Write** the three methods. Use `torch.erf`: the exact GELU, not its approximation by tanh.
#
# **Constraint:** no built-in `gelu`.


# %% nbgrader={"grade": false, "grade_id": "gelu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GELU(torch.autograd.Function):
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


# %% nbgrader={"grade": true, "grade_id": "gelu-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("gelu", GELU)

# %% [markdown]
# ## 2 · Swish: what must be saved? (2 points · easy · 8 minutes)
#
# $$y = x \, \sigma(x)$$
#
# The sigmoid of lesson 01 needs only its output. What does Swish need? You can write its derivative with $x$ alone, with $x$ and $\sigma(x)$, or with $y$ and $\sigma(x)$. One tensor of the size of $x$ is enough. Which one?
#
# **Write** the three methods.
#
# **Constraints:** what is kept for backward takes no more memory than $x$. No built-in `silu`.


# %% nbgrader={"grade": false, "grade_id": "swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Swish(torch.autograd.Function):
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


# %% nbgrader={"grade": true, "grade_id": "swish-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("swish", Swish)

# %% [markdown]
# ## 3 · Swish with a learnable β (2 points · medium · 15 minutes)
#
# $$y = x \, \sigma(\beta x)$$
#
# $\beta$ is a tensor of one element, a parameter of the network. Its shape is `()` or `(1,)`.
#
# **Write** the three methods. Every element of $y$ depends on $\beta$. What does this mean for the gradient of $\beta$?
#
# **Constraint:** the gradient of $\beta$ leaves `backward` in the shape of $\beta$.


# %% nbgrader={"grade": false, "grade_id": "learnable-swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LearnableSwish(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, beta: Tensor) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "learnable-swish-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("learnable-swish", LearnableSwish)

# %% [markdown]
# ## 4 · Multiply with broadcasting (3 points · medium · 15 minutes)
#
# $z = x \, y$, for any two shapes that broadcast: a matrix and a vector, a column and a row, or a scalar and a 3-D tensor.
#
# **Write** the three methods. You may write a helper above the class, or in it.
#
# **Constraint:** `backward` itself returns gradients in the shapes of $x$ and $y$. In a training run you would not notice the difference, because the engine sums what is too large without a warning. The grader looks at what `backward` returns.


# %% nbgrader={"grade": false, "grade_id": "broadcast-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BroadcastMultiply(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "broadcast-multiply-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("broadcast-multiply", BroadcastMultiply)

# %% [markdown]
# ## 5 · Maximum with ties (2 points · medium · 15 minutes)
#
# $$y = \max_j x_j$$
#
# along `dim`, with or without `keepdim`. Where several elements of a slice share the maximum, no derivative exists. PyTorch uses two conventions for this. `torch.max(x, dim)` gives the whole gradient to the element whose index it returns. `torch.amax` shares it, as PyTorch's rule for convex functions says.
#
# After a ReLU, or among small integers, ties are common.
#
# **Write** the three methods. `forward` may call `amax`.
#
# **Constraint:** $c$ equal maxima get $1/c$ of the gradient each, as with `torch.amax`.


# %% nbgrader={"grade": false, "grade_id": "max-with-ties", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MaxWithTies(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "max-with-ties-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("max-with-ties", MaxWithTies)

# %% [markdown]
# ## 6 · Soft rank (3 points · medium · 15 minutes)
#
# The rank of a number is one plus the number of smaller ones. It is a step function and has no useful gradient. Make each comparison soft, with a temperature $\tau$, a Python number:
#
# $$r_i = \tfrac12 + \sum_j \sigma\left(\frac{x_i - x_j}{\tau}\right)$$
#
# The sum includes $j = i$, which gives the second half. For small $\tau$ these are the ranks 1 to $n$. $x$ has any number of dims, and the ranks are along the last one.
#
# **Write** the three methods. $x_k$ affects its own rank, and the ranks of all others.
#
# **Constraint:** no $n \times n$ matrix is kept between forward and backward.


# %% nbgrader={"grade": false, "grade_id": "soft-rank", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftRank(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, tau: float) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "soft-rank-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("soft-rank", SoftRank)

# %% [markdown]
# ## 7 · Rows of a table (2 points · easy · 9 minutes)
#
# This is an embedding: `y = table[index]`. `table` has the shape $(V, D)$. `index` is a tensor of integers from 0 to $V - 1$ and has any shape. `y` has the shape of `index`, followed by $D$. Words occur more than once in a text, so indices repeat. Some rows are never read.
#
# **Write** the three methods. `index` gets `None`.


# %% nbgrader={"grade": false, "grade_id": "gather-rows", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(table: Tensor, index: Tensor) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "gather-rows-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("gather-rows", GatherRows)

# %% [markdown]
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# These patterns cover most of what a layer does. Lesson 04 shows how to find the mistake in a `backward` that somebody else wrote.
