# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/03_gradient_patterns.ipynb)
#
# # 03 · Gradient patterns: exercises
#
# Lesson 03 showed how a gradient goes back through a copy, a sum, a maximum and an index. Here, you will write six Functions, find the wrong line in another one, and predict five gradients. You may already have solved `gather-rows` and `broadcast-multiply` in the lesson.
#
# Exercise 9 is optional. Do it if you want more practice.
#
# **Given:** the formula for forward, and the name of each class with the signatures of its methods. Each class has a separate `forward` and `setup_context`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line. In a class, also replace the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` computes a formula that you derive and write down. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save tensors with `ctx.save_for_backward`. Store numbers, shapes and flags as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - Where an exercise forbids a built-in, the grader watches the operations that run, so another name for the built-in does not help.
#
# 17 points, about 97 minutes (9 of them for the optional exercises).
#
# You can do the exercises in any order. If you are stuck, call `hint("swish")` in a new cell. The first hint is a nudge, the second one gives the idea, and the third one almost gives the answer.

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
from torch.autograd import Function

from autograd_course import grade, hint, progress

# %% [markdown]
# ## 1 · Rows of a table (2 points · easy · 9 minutes)
#
# This is an embedding: `y = table[index]`. `table` has the shape $(V, D)$. `index` is an integer tensor of any shape, with values from 0 to $V - 1$. `y` has the shape of `index`, followed by $D$. Words occur more than once in a text, so indices repeat. Some rows are never read.
#
# **Write** the three methods. `index` gets `None`.


# %% nbgrader={"grade": false, "grade_id": "gather-rows", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GatherRows(Function):
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
# ## 2 · Swish: what must be saved? (2 points · easy · 8 minutes)
#
# $$y = x \, \sigma(x)$$
#
# The sigmoid from lesson 01 needs only its output. What does Swish need? You can write its derivative in terms of $x$ alone, of $x$ and $\sigma(x)$, or of $y$ and $\sigma(x)$. One tensor the size of $x$ is enough. Which one?
#
# **Write** the three methods.
#
# **Constraints:** what you save for backward takes no more memory than $x$. An input or the output counts, too. No built-in `silu`.


# %% nbgrader={"grade": false, "grade_id": "swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Swish(Function):
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
# $\beta$ is a one-element tensor, a parameter of the network. Its shape is `()` or `(1,)`.
#
# **Write** the three methods. Every element of $y$ depends on $\beta$. What does this mean for the gradient of $\beta$?
#
# **Constraint:** `backward` returns the gradient of $\beta$ with the shape of $\beta$.


# %% nbgrader={"grade": false, "grade_id": "learnable-swish", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LearnableSwish(Function):
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
# **Constraint:** `backward` itself returns gradients with the shapes of $x$ and $y$. In a training run, you would not notice the difference, because the engine sums a gradient that is too large without a warning. The grader looks at what `backward` returns.


# %% nbgrader={"grade": false, "grade_id": "broadcast-multiply", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BroadcastMultiply(Function):
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
# This is the maximum along `dim`, with or without `keepdim`. If several elements of a slice tie, no derivative exists. PyTorch uses two conventions for this. `torch.max(x, dim)` gives the whole gradient to the element whose index it returns. `torch.amax` shares it, as PyTorch's rule for convex functions says.
#
# After a ReLU, or among small integers, ties are common.
#
# **Write** the three methods. `forward` may call `amax`.
#
# **Constraint:** each of $c$ equal maxima gets $1/c$ of the gradient, as with `torch.amax`.


# %% nbgrader={"grade": false, "grade_id": "max-with-ties", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MaxWithTies(Function):
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
# The rank of a number is one plus the count of smaller numbers. It is a step function and has no useful gradient. Make each comparison soft with a temperature $\tau$, which is a Python number:
#
# $$r_i = \tfrac12 + \sum_j \sigma\left(\frac{x_i - x_j}{\tau}\right)$$
#
# The sum includes $j = i$, which contributes another $\sigma(0) = \tfrac12$. For small $\tau$, these are the ranks 1 to $n$. $x$ may have several dims. The ranks are computed along the last one.
#
# **Write** the three methods. $x_k$ affects its own rank, and the ranks of all others.
#
# **Constraint:** no $n \times n$ matrix is kept between forward and backward.


# %% nbgrader={"grade": false, "grade_id": "soft-rank", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftRank(Function):
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
# ## 7 · Mean pooling: which line? (1 point · easy · 6 minutes)
#
# Many language models represent a sentence by the mean of its token vectors. In a batch, short sentences are padded, and a mask says which tokens are real. `tokens` has the shape (sentences, length, features), and the boolean `mask` has the shape (sentences, length).
#
# Somebody wrote this Function and tested it with sentences of equal length. On padded batches, the model learns little from short sentences. In the run below, gradient descent should move the mean of each sentence to 1. Sentence 0 has four tokens, and sentence 1 has one.


# %%
class MeanPool(Function):
    @staticmethod
    def forward(tokens: Tensor, mask: Tensor) -> Tensor:
        count = mask.sum(1, keepdim=True)  # 1
        return (tokens * mask.unsqueeze(2)).sum(1) / count  # 2

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _, mask = inputs
        ctx.save_for_backward(mask)  # 3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors  # 4
        each = grad_output / mask.shape[1]  # 5
        return each.unsqueeze(1) * mask.unsqueeze(2), None  # 6


mask = torch.tensor([[True, True, True, True], [True, False, False, False]])
tokens = torch.zeros(2, 4, 3, dtype=torch.float64, requires_grad=True)
for _ in range(10):
    loss = (MeanPool.apply(tokens, mask) - 1).square().sum()
    (gradient,) = torch.autograd.grad(loss, tokens)
    tokens = (tokens - 0.2 * gradient).detach().requires_grad_()
for sentence in (0, 1):
    distance = 1 - MeanPool.apply(tokens, mask)[sentence, 0].item()
    print(f"sentence {sentence}: {distance:.2f} away from 1")
print("with the right gradient: 0.35 and 0.01")

# %% [markdown]
# Which line is wrong, and which experiment shows it? `suspect = "1a"` means line 1 and experiment a. An experiment shows the mistake if this Function and a correct one give different results.
#
# - **a** Compare the output for a padded sentence with the mean of its real tokens.
# - **b** Run `gradcheck` on a batch without padding.
# - **c** Add up the gradient of a padded sentence over all its tokens, and compare the sum with `grad_output`.
# - **d** Compare the gradient of the padding with zero.

# %% nbgrader={"grade": false, "grade_id": "locate-mean-pooling", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "locate-mean-pooling-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("locate-mean-pooling", suspect)

# %% [markdown]
# ## 8 · Five gradients (1 point · easy · 5 minutes)
#
# Predict five numbers without running anything.
#
# - **a** `x` has the shape (1,), and `w` is `torch.ones(2, 3)`. The loss is `(x * w).sum()`. What is `x.grad[0]`?
# - **b** `x` is `[3, 1, 3]`, and the loss is `4 * x.amax(0)`. What is `x.grad[0]`?
# - **c** `x` has the shape (2, 4), and the loss is `(3 * x.mean(1)).sum()`. What is `x.grad[0, 0]`?
# - **d** `table` has four numbers, `index` is `[2, 0, 2]`, and `w` is `[1, 10, 100]`. The loss is `(w * table[index]).sum()`. What is `table.grad[2]`?
# - **e** `x` has three equal elements, and the loss is `x.softmax(0).sum()`. What is `x.grad[0]`?
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-patterns", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ..., ...]
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "predict-patterns-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-patterns", prediction)

# %% [markdown]
# ## 9 · GELU (optional · 1 point · easy · 9 minutes)
#
# GELU is the activation of most transformers. It multiplies each number by the share of a normal distribution that lies below it.
#
# $$y = x \, \Phi(x), \qquad \Phi(x) = \tfrac12 \left(1 + \operatorname{erf}\frac{x}{\sqrt 2}\right)$$
#
# $\Phi$ is the distribution function of the normal distribution, so its derivative is the density $\varphi(x) = e^{-x^2/2} / \sqrt{2\pi}$.
#
# **Write** the three methods. Use `torch.erf`. It gives the exact GELU, not the tanh approximation.
#
# **Constraint:** no built-in `gelu`.


# %% nbgrader={"grade": false, "grade_id": "gelu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GELU(Function):
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
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# These patterns cover most of what a layer does. Lesson 04 shows how to find the mistake in a `backward` that somebody else wrote.
