# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/08_attention_challenge.ipynb)
#
# # 08 · The attention challenge: exercises
#
# Lesson 08 took attention apart. Here you put it together yourself, in six tiers. Each tier keeps everything the previous one did and adds one constraint. Start each tier from a copy of your last one.
#
# **Given:** the task, the formulas, the name and the signature of every function and class, and one helper for dropout.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every tier:**
#
# - PyTorch's own `scaled_dot_product_attention` is not called.
# - `backward` is a formula that you write down, not a call of autograd.
# - Tensors that backward needs are kept by `ctx.save_for_backward`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
#
# 18 points, about 160 minutes: two evenings. At the end, a leaderboard measures your tiers against PyTorch's own.

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
import itertools
import math

import torch
from torch import Tensor

from autograd_course import grade, hint, progress
from autograd_course.lesson import dropped, leaderboard

# %% [markdown]
# ## Tier 1 · Forward (2 points · medium · 15 minutes)
#
# $$S = \frac{Q K^\top}{\sqrt{E}} + \text{mask}, \qquad P = \operatorname{softmax}(S), \qquad O = P V .$$
#
# | tensor | shape |
# | --- | --- |
# | `q` | `(..., N, E)`: N queries, any number of leading axes |
# | `k` | `(..., M, E)`: M keys |
# | `v` | `(..., M, F)`: a value for each key |
# | `mask` | `None`, or of a shape that broadcasts to `(..., N, M)`: boolean, True where the query sees the key; or floating, added to the scores, with $-\infty$ where it does not |
# | result | `(..., N, F)` |
#
# **Write** the function: here a plain one, autograd is not the point yet.
#
# **Constraints:** nothing overflows, however large the scores. A query that sees no key gets zeros.


# %% nbgrader={"grade": false, "grade_id": "attention-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    # YOUR CODE HERE
    raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-forward-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("attention-forward", attend)

# %% [markdown]
# ## Tier 2 · Backward (3 points · medium · 20 minutes)
#
# The same as a Function. From here on a `mask` is boolean, or `None`. With $dO$ for what arrives at the output, you need $dV$, $dP$, $dS$, $dQ$ and $dK$, in this order.
#
# **Write** both methods. Save what you like, also $P$: that is the last time.


# %% nbgrader={"grade": false, "grade_id": "attention-backward", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-backward-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-backward", Attention)

# %% [markdown]
# ## Tier 3 · Budget (3 points · medium · 25 minutes)
#
# $P$ has $N \times M$ elements; at 65,536 tokens and in float32 that is 16 GiB for a single head. Now backward rebuilds it:
#
# $$P = e^{S - L}, \qquad L_i = \log \sum_j e^{S_{ij}}, \qquad D = \operatorname{rowsum}(dO \circ O) .$$
#
# **Write** both methods. forward still returns the output alone.
#
# **Constraint:** kept for backward are `q`, `k`, `v`, the mask, the output, and one number for each query. The grader counts the bytes of a call with 128 queries.


# %% nbgrader={"grade": false, "grade_id": "attention-budget", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LeanAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-budget-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-budget", LeanAttention)

# %% [markdown]
# ## Tier 4 · Tiles (5 points · hard · 55 minutes)
#
# Tier 3 does not *keep* the scores, but it makes them, twice. Now nothing of their size is ever made: forward and backward go through tiles of `block` queries and `block` keys.
#
# - `causal`: query $i$ sees the keys $0 \dots i$.
# - `dropout_p`, `seed`: after the softmax, some weights become 0 and the others are multiplied by $1 / (1 - p)$. Which ones depends on the seed and on the weight's place in the whole matrix, so that any tile can be made again. The helper below does it; all heads share one pattern.
# - N and M need not be multiples of `block`.


# %%
def dropout_factor(i: int, j: int, tile: Tensor, p: float, seed: int) -> Tensor:
    """0 or 1 / (1 - p) for each weight of a tile whose first query is i and first key is j."""
    if not p:
        return torch.ones_like(tile)
    rows = torch.arange(i, i + tile.shape[-2], device=tile.device)
    columns = torch.arange(j, j + tile.shape[-1], device=tile.device)
    return (~dropped(rows, columns, p, seed)).to(tile.dtype) / (1 - p)


# %% [markdown]
# Forward keeps, for each block of queries, a running maximum $m$, a running sum $\ell$ and an output that is not divided yet. Backward knows $L$ and needs nothing that runs. A function outside of the class, which computes the scores of one tile with its causal mask, serves both.
#
# **Write** both methods, and what else you need.
#
# **Constraints:** for 128 queries of width 4 and `block=16`, no operation of either pass returns a tensor of more than 1,024 elements: four tiles. Another `block` makes tiles of that size: with 24 queries and `block=2`, no tensor has more elements than `q`. Both passes together never hold more than half of what all 128×128 scores would take. What is kept is the budget of tier 3.


# %% nbgrader={"grade": false, "grade_id": "attention-tiled", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal=False, dropout_p=0.0, seed=0, block=16) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-tiled-grade", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
grade("attention-tiled", TiledAttention)

# %% [markdown]
# ## Tier 5 · Differentiable twice (3 points · hard · 25 minutes)
#
# Your tier 3 has the right gradient. Its *second* derivative is wrong, without an error, and you know from lesson 06 why: one of the saved tensors is an intermediate.
#
# So now the log-sum-exp becomes an output, of shape `(..., N)`, and a gradient arrives for it too:
#
# $$L_i = \log \sum_j e^{S_{ij}}, \qquad \frac{\partial L_i}{\partial S_{ij}} = P_{ij} .$$
#
# **Write** both methods, without mask. forward returns the pair `(out, lse)`.
#
# **Constraints:** both derivatives are right; the budget is that of tier 3.


# %% nbgrader={"grade": false, "grade_id": "attention-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TwiceAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-twice-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-twice", TwiceAttention)

# %% [markdown]
# ## Tier 6 · Grouped queries (2 points · medium · 20 minutes)
#
# `q` has shape `(..., H, N, E)`, `k` and `v` have shapes `(..., G, M, E)` and `(..., G, M, F)`, and $H$ is a multiple of $G$: query head $h$ reads key head $\lfloor h / (H/G) \rfloor$. With $H = 4$ and $G = 2$, heads 0 and 1 read the first, heads 2 and 3 the second.
#
# **Write** both methods, without mask. forward returns the output alone.
#
# **Constraint:** the budget of tier 3, where `k` and `v` count as they were given.


# %% nbgrader={"grade": false, "grade_id": "attention-grouped", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GroupedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "attention-grouped-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("attention-grouped", GroupedAttention)

# %% [markdown]
# ## The leaderboard
#
# Forward and backward of each of your tiers, and of PyTorch's own, on this machine: time (the best of three), and the peak of the memory that tensors take beyond the inputs. The history is kept beside your progress: try something faster, run the cell again, and see whether it was.
#
# A tier that is not written yet is left out. Do not be discouraged by the time of tier 4: your loops run in Python, one small operation after the other. What makes tiles *fast* is one kernel for all of it; what they do to memory you see here already.

# %% tags=["nbval-ignore-output"]
from autograd_course.lesson import TritonAttention

kernel = {"one kernel": TritonAttention} if torch.cuda.is_available() else {}
leaderboard(
    {
        "tier 1": attend,
        "tier 2": Attention,
        "tier 3": LeanAttention,
        "tier 4": lambda q, k, v: TiledAttention.apply(q, k, v, False, 0.0, 0, 128),
        "tier 5": TwiceAttention,
        **kernel,
    }
)

# %% [markdown]
# ## For those with a GPU: one kernel
#
# Not graded, because most machines that open this notebook could not run it. Triton comes with PyTorch for CUDA. Write the forward of tier 4 as a kernel: one program for each block of queries, a loop over the blocks of keys inside, `tl.dot` for the two products, the running maximum, sum and output in registers. Hand it to the leaderboard as `{"kernel": your_function}`, and to `torch.testing.assert_close(your_function(q, k, v), attend(q, k, v), rtol=2e-3, atol=2e-3)` before that: `tl.dot` may round float32 to fewer digits. Then compare it with the course's own, `TritonAttention` in `autograd_course.functions.attention`, whose kernels also run backward; the cell above enters it wherever it can run.

# %% [markdown]
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# You have written what stands behind `scaled_dot_product_attention`. Use that one in your models. Keep yours for the day when you need a bias, a mask or a score function for which there is no kernel: you know how to write its backward, and how to find out that it is right.
