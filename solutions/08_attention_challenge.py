# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/08_attention_challenge.ipynb)
#
# # 08 · The attention challenge: exercises
#
# Lesson 08 took attention apart. Here you write it yourself, in six tiers. Each tier adds one constraint, so start from a copy of an earlier tier. Tier 6 builds on tier 3, so you can skip the two tiers with ★. Between the tiers there are four short exercises. You may have solved `masked-softmax` and `merge-halves` in the lesson already.
#
# **Given:** the task, the formulas, the signatures of all functions and methods, and one helper for dropout. Most tiers save an intermediate of forward, such as $P$ or the log-sum-exp. `setup_context` sees only inputs and outputs, so these tiers have a combined `forward`. Tier 5 makes the log-sum-exp an output and has a separate `forward` and `setup_context`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line. In a function or a class, also replace the `raise` below it.
#
# **Constraints for every tier:**
#
# - Your code does not call PyTorch's own `scaled_dot_product_attention`.
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save the tensors that backward needs with `ctx.save_for_backward`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
#
# 22 points, about 184 minutes (80 of them for the exercises with ★, which need an *extra* section). At the end, a leaderboard compares your tiers with PyTorch's own attention.

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
from torch.autograd import Function

from autograd_course import grade, hint, progress
from autograd_course.lesson import dropped, leaderboard

# %% [markdown]
# ## Warm-up · Masked softmax (1 point · easy · 8 minutes)
#
# A softmax over the last dim of the scores, with a boolean mask that is True where the query sees the key:
#
# $$p_{ij} = \frac{m_{ij}\, e^{s_{ij}}}{\sum_k m_{ik}\, e^{s_{ik}}}, \qquad \text{and } p_{ij} = 0 \text{ in a fully masked row.}$$
#
# `s` and `mask` have the same shape. The gradient of a masked score is 0.
#
# **Write** the three methods. In a fully masked row, the sum is 0, and both passes must return zeros there.


# %% nbgrader={"grade": false, "grade_id": "masked-softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MaskedSoftmax(Function):
    @staticmethod
    def forward(s: Tensor, mask: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        p = torch.softmax(s.masked_fill(~mask, -math.inf), -1)
        return p.masked_fill(~mask, 0)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (p,) = ctx.saved_tensors
        return p * (grad_output - (p * grad_output).sum(-1, keepdim=True)), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "masked-softmax-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("masked-softmax", MaskedSoftmax)

# %% [markdown]
# ## Tier 1 · Forward (2 points · medium · 15 minutes)
#
# $$S = \frac{Q K^\top}{\sqrt{E}} + \text{mask}, \qquad P = \operatorname{softmax}(S), \qquad O = P V .$$
#
# | tensor | shape |
# | --- | --- |
# | `q` | `(..., N, E)`: N queries, any number of leading dimensions |
# | `k` | `(..., M, E)`: M keys |
# | `v` | `(..., M, F)`: a value for each key |
# | `mask` | `None`, or a tensor that broadcasts to `(..., N, M)`. A boolean mask is True where the query sees the key. A floating-point mask is added to the scores and is $-\infty$ where the query does not see the key |
# | result | `(..., N, F)` |
#
# **Write** the function. It is a plain function, because this tier is not about autograd yet. If you write the softmax with `exp` and sums, you can reuse its parts in the later tiers.
#
# **Constraints:** nothing overflows, even if the scores are large. A query that sees no key gets zeros.


# %% nbgrader={"grade": false, "grade_id": "attention-forward", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    ### BEGIN SOLUTION
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    high = s.amax(-1, keepdim=True)
    weights = torch.exp(s - high.masked_fill(high == -math.inf, 0))
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1) @ v
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-forward-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("attention-forward", attend)

# %% [markdown]
# ## Tier 2 · Backward (3 points · medium · 20 minutes)
#
# Now write attention as a Function. From here on, `mask` is a boolean tensor or `None`, and the caller may leave it out. `ctx.needs_input_grad` then has three entries. $dO$ is the gradient of the output. You need $dV$, $dP$, $dS$, $dQ$ and $dK$, in this order.
#
# **Write** both methods. Save any tensors that you like, even $P$. The later tiers do not allow $P$.


# %% nbgrader={"grade": false, "grade_id": "attention-backward", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Attention(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        high = s.amax(-1, keepdim=True)
        weights = torch.exp(s - high.masked_fill(high == -math.inf, 0))
        total = weights.sum(-1, keepdim=True)
        p = weights / total.masked_fill(total == 0, 1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        ### BEGIN SOLUTION
        q, k, v, p = ctx.saved_tensors
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        grad_s = grad_s / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, grad_v, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-backward-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-backward", Attention)

# %% [markdown]
# ## Card · nan after twenty steps (1 point · easy · 6 minutes)
#
# A colleague wrote the tier below. It saves only the inputs, and it passes `gradcheck`. The model has one parameter, which makes the softmax sharper. Between step 20 and step 30, this parameter becomes `nan`.


# %%
class InputsOnly(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)  # 1
        ctx.save_for_backward(q, k, v)  # 2
        return p @ v  # 3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors  # 4
        weights = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]))  # 5
        p = weights / weights.sum(-1, keepdim=True)  # 6
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))  # 7
        grad_s = grad_s / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_output  # 8


rng = torch.Generator().manual_seed(0)
queries, keys = torch.randn(32, 4, generator=rng), 2 * torch.randn(6, 4, generator=rng)
values = torch.randn(6, 1, generator=rng)
target = values[(queries @ keys.mT).argmax(-1)]
sharpness = torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.Adam([sharpness], lr=2.0)
for step in range(1, 61):
    loss = (InputsOnly.apply(sharpness * queries, keys, values) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}, sharpness {sharpness.item():.0f}")

# %% [markdown]
# **Write** the number of the wrong line and the letter of the experiment that shows it, for example `"1a"`. An experiment shows the mistake if this Function and a correct one give different results.
#
# - **a** Run `gradcheck` on normally distributed inputs.
# - **b** Multiply `q` by 1,000, and check that all gradients are finite.
# - **c** Multiply `q` by 1,000, and compare the output with that of tier 1.
# - **d** Double `grad_output`, and check that the gradients double.

# %% nbgrader={"grade": false, "grade_id": "card-late-nan", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
### BEGIN SOLUTION
suspect = "5b"
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "card-late-nan-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-late-nan", suspect)

# %% [markdown]
# ## Tier 3 · Budget (3 points · medium · 25 minutes)
#
# $P$ has $N \times M$ elements. With 65,536 tokens in float32, it takes 16 GiB for a single head. Now backward recomputes it:
#
# $$P = e^{S - L}, \qquad L_i = \log \sum_j e^{S_{ij}}, \qquad D = \operatorname{rowsum}(dO \circ O) .$$
#
# **Write** both methods. `forward` still returns only the output.
#
# **Constraint:** save only `q`, `k`, `v`, the mask, the output, and one number for each query. The grader counts the bytes that a call with 128 queries saves.


# %% nbgrader={"grade": false, "grade_id": "attention-budget", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LeanAttention(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        high = s.amax(-1, keepdim=True)
        high = high.masked_fill(high == -math.inf, 0)
        weights = torch.exp(s - high)
        total = weights.sum(-1, keepdim=True)
        out = weights @ v / total.masked_fill(total == 0, 1)
        ctx.save_for_backward(q, k, v, mask, out, high + total.log())
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        ### BEGIN SOLUTION
        q, k, v, mask, out, lse = ctx.saved_tensors
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            s = s.masked_fill(~mask, -math.inf)
        p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0))
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ v.mT - delta) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-budget-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-budget", LeanAttention)

# %% [markdown]
# ## Prediction · What is saved for backward (1 point · easy · 4 minutes)
#
# There are 100 queries and 1,000 keys. Each query, key and value has 8 features. The tensors are float32, and there is no mask. How many *elements* does each of these calls save for backward, in addition to `q`, `k` and `v`?
#
# - **a** your tier 2, which saves $P$;
# - **b** your tier 3;
# - **c** `torch.softmax(q @ k.mT / math.sqrt(8), -1) @ v`, differentiated by autograd;
# - **d** your tier 3 with 1,000 queries and 100 keys.
#
# **Write** the four numbers into the list, without running any code. If two operations save the same tensor, count it once.

# %% nbgrader={"grade": false, "grade_id": "predict-saved-elements", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ...]
### BEGIN SOLUTION
prediction = [100_000, 900, 100_000, 9_000]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-saved-elements-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-saved-elements", prediction)

# %% [markdown]
# ## Warm-up · Merge two halves (1 point · easy · 6 minutes)
#
# Two GPUs share the keys of a long sequence. Each GPU computes the attention of all queries to its own half of the keys and returns two tensors:
#
# | tensor | shape |
# | --- | --- |
# | `out_a`, `out_b` | `(..., N, F)`: the output for the keys of this half |
# | `lse_a`, `lse_b` | `(..., N, 1)`: the log-sum-exp $L$ of the scores of this half |
#
# **Write** the function that returns the output and the log-sum-exp for all keys. If a query sees no keys of a half, this half has $L = -\infty$ and an output of zeros. If it sees no keys at all, the result has the same values.
#
# **Constraint:** nothing overflows, even if the log-sum-exps are in the thousands.


# %% nbgrader={"grade": false, "grade_id": "merge-halves", "locked": false, "schema_version": 3, "solution": true, "task": false}
def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    ### BEGIN SOLUTION
    lse = torch.logaddexp(lse_a, lse_b)
    safe = lse.masked_fill(lse == -math.inf, 0)
    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b, lse
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "merge-halves-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("merge-halves", merge)

# %% [markdown]
# ## Tier 4 · Tiles ★ (5 points · hard · 55 minutes · needs "Dropout without a mask")
#
# Tier 3 does not *save* the matrix of scores, but it computes the whole matrix twice. Now no tensor has this size at any time. `forward` and `backward` both loop over tiles of `block` queries and `block` keys.
#
# - `causal`: if it is True, query $i$ sees the keys $0 \dots i$.
# - `dropout_p`, `seed`: after the softmax, dropout sets some weights to 0 and multiplies the others by $1 / (1 - p)$. The seed and the position of a weight in the whole matrix decide whether the weight is dropped, so backward can recompute any tile. The helper below does this. All heads share one pattern.
# - N and M need not be multiples of `block`.


# %%
def dropout_factor(i: int, j: int, tile: Tensor, p: float, seed: int) -> Tensor:
    """Return 0 or 1 / (1 - p) for each weight of a tile with first query i and first key j."""
    if not p:
        return torch.ones_like(tile)
    rows = torch.arange(i, i + tile.shape[-2], device=tile.device)
    columns = torch.arange(j, j + tile.shape[-1], device=tile.device)
    return (~dropped(rows, columns, p, seed)).to(tile.dtype) / (1 - p)


# %% [markdown]
# For each block of queries, forward keeps a running maximum $m$, a running sum $\ell$ and an output that has not been divided yet. Backward knows $L$ and needs no running values. Write a function outside the class that computes the scores of one tile with its causal mask, and call it in both passes.
#
# **Write** both methods and any helper functions.
#
# **Constraints:** for 128 queries of width 4 and `block=16`, no operation of either pass returns a tensor of more than 1,024 elements, which are four tiles. `block` sets the size of the tiles: with 24 queries and `block=2`, no tensor has more elements than `q`. At no point, in either pass, do the tensors take more than half of the memory that the full 128×128 matrix would need. The saved tensors stay within the budget of tier 3.


# %% tags=["solution-only"]
def tile_scores(q_i: Tensor, k_j: Tensor, i: int, j: int, causal: bool) -> Tensor:
    """Return the scores of one tile. i and j are the positions of its first query and key."""
    s = q_i @ k_j.mT / math.sqrt(q_i.shape[-1])
    rows = torch.arange(i, i + s.shape[-2], device=s.device)
    columns = torch.arange(j, j + s.shape[-1], device=s.device)
    return s.masked_fill(columns > rows[:, None], -math.inf) if causal else s


# %% tags=["solution-only"]
def online_softmax(q_i: Tensor, i: int, k: Tensor, v: Tensor, options) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp of a block of queries, of which i is the first."""
    causal, dropout_p, seed, block = options
    high = q_i.new_full((*q_i.shape[:-1], 1), -math.inf)
    total, mixed = torch.zeros_like(high), q_i.new_zeros(*q_i.shape[:-1], v.shape[-1])
    for j in range(0, k.shape[-2], block):
        s = tile_scores(q_i, k[..., j : j + block, :], i, j, causal)
        before, high = high, torch.maximum(high, s.amax(-1, keepdim=True))
        rescale, weights = torch.exp(before - high), torch.exp(s - high)
        total = rescale * total + weights.sum(-1, keepdim=True)
        weights = weights * dropout_factor(i, j, s, dropout_p, seed)
        mixed = rescale * mixed + weights @ v[..., j : j + block, :]
    return mixed / total, high + total.log()


# %% nbgrader={"grade": false, "grade_id": "attention-tiled", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TiledAttention(Function):
    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, v: Tensor, causal=False, dropout_p=0.0, seed=0, block=16
    ) -> Tensor:
        ### BEGIN SOLUTION
        ctx.options = causal, dropout_p, seed, block
        rows = [
            online_softmax(q[..., i : i + block, :], i, k, v, ctx.options)
            for i in range(0, q.shape[-2], block)
        ]
        out, lse = (torch.cat(parts, -2) for parts in zip(*rows, strict=True))
        ctx.save_for_backward(q, k, v, out, lse)
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        ### BEGIN SOLUTION
        q, k, v, out, lse = ctx.saved_tensors
        causal, dropout_p, seed, block = ctx.options
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_q, grad_k, grad_v = (torch.zeros_like(x) for x in (q, k, v))
        for i, j in itertools.product(range(0, q.shape[-2], block), range(0, k.shape[-2], block)):
            rows, columns = slice(i, i + block), slice(j, j + block)
            q_i, k_j, g_i = q[..., rows, :], k[..., columns, :], grad_output[..., rows, :]
            s = tile_scores(q_i, k_j, i, j, causal)
            p, factor = torch.exp(s - lse[..., rows, :]), dropout_factor(i, j, s, dropout_p, seed)
            grad_v[..., columns, :] += (factor * p).mT @ g_i
            grad_p = factor * (g_i @ v[..., columns, :].mT)
            grad_s = p * (grad_p - delta[..., rows, :]) / math.sqrt(q.shape[-1])
            grad_q[..., rows, :] += grad_s @ k_j
            grad_k[..., columns, :] += grad_s.mT @ q_i
        return grad_q, grad_k, grad_v, None, None, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-tiled-grade", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
grade("attention-tiled", TiledAttention)

# %% [markdown]
# ## Tier 5 · Differentiable twice ★ (3 points · hard · 25 minutes · needs "Differentiable twice")
#
# Your tier 3 computes the right gradient. But its *second* derivative is wrong, and PyTorch does not raise an error. Lesson 06 explains why: one of the saved tensors is an intermediate.
#
# So now the log-sum-exp becomes an output of shape `(..., N)`, and backward also receives a gradient for it:
#
# $$L_i = \log \sum_j e^{S_{ij}}, \qquad \frac{\partial L_i}{\partial S_{ij}} = P_{ij} .$$
#
# **Write** the three methods, without a mask. `forward` returns the pair `(out, lse)`. All saved tensors are now inputs or outputs, so `forward` and `setup_context` are separate.
#
# **Constraints:** the first and second derivatives must be correct. The saved tensors stay within the budget of tier 3.


# %% nbgrader={"grade": false, "grade_id": "attention-twice", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TwiceAttention(Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        s = q @ k.mT / math.sqrt(q.shape[-1])
        high = s.amax(-1, keepdim=True)
        weights = torch.exp(s - high)
        total = weights.sum(-1, keepdim=True)
        return weights @ v / total, (high + total.log()).squeeze(-1)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(*inputs, *output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        q, k, v, out, lse = ctx.saved_tensors
        p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse.unsqueeze(-1))
        delta = (grad_out * out).sum(-1) - grad_lse
        grad_s = p * (grad_out @ v.mT - delta.unsqueeze(-1)) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-twice-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("attention-twice", TwiceAttention)

# %% [markdown]
# ## Tier 6 · Grouped queries (2 points · medium · 20 minutes)
#
# Start from tier 3. Now several query heads share one head of keys and values. `q` has shape `(..., H, N, E)`, `k` and `v` have shapes `(..., G, M, E)` and `(..., G, M, F)`, and $H$ is a multiple of $G$. Query head $h$ reads key head $\lfloor h / (H/G) \rfloor$. With $H = 4$ and $G = 2$, query heads 0 and 1 read the first key head, and query heads 2 and 3 read the second one.
#
# **Write** both methods, without a mask. `forward` returns only the output.
#
# **Constraint:** the saved tensors must fit in the budget of tier 3, which counts `k` and `v` once, without repetition.


# %% nbgrader={"grade": false, "grade_id": "attention-grouped", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GroupedAttention(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        group = q.shape[-3] // k.shape[-3]
        s = q @ k.repeat_interleave(group, -3).mT / math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        out = torch.exp(s - lse) @ v.repeat_interleave(group, -3)
        ctx.save_for_backward(q, k, v, out, lse)
        return out
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        q, k, v, out, lse = ctx.saved_tensors
        heads = k.shape[-3]
        keys, values = (x.repeat_interleave(q.shape[-3] // heads, -3) for x in (k, v))
        p = torch.exp(q @ keys.mT / math.sqrt(q.shape[-1]) - lse)
        delta = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ values.mT - delta) / math.sqrt(q.shape[-1])
        grad_k, grad_v = grad_s.mT @ q, p.mT @ grad_output
        per_group = (g.unflatten(-3, (heads, -1)).sum(-3) for g in (grad_k, grad_v))
        return grad_s @ keys, *per_group
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-grouped-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("attention-grouped", GroupedAttention)

# %% [markdown]
# ## The leaderboard
#
# The leaderboard runs the forward and backward passes of each of your tiers and of PyTorch's own attention on this machine. It shows the time (the best of three runs) and the peak memory of all tensors except the inputs. It saves the history next to your progress. Try something faster, run the cell again, and compare.
#
# The leaderboard leaves out tiers that you have not written yet. Tier 4 is slow, because its loops run in Python and start one small operation after another. Tiles become *fast* when a single kernel does all the work. But you can already see how much memory they save.

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
# ## One kernel, if you have a GPU
#
# This task is not graded, because it needs a GPU. Triton comes with PyTorch for CUDA. Write the forward of tier 4 as a kernel. Each program handles one block of queries and loops over the blocks of keys. It uses `tl.dot` for the two products and keeps the running maximum, sum and output in registers.
#
# First check it with `torch.testing.assert_close(your_function(q, k, v), attend(q, k, v), rtol=2e-3, atol=2e-3)`. The tolerance is large because `tl.dot` may round float32 to fewer digits. Then add it to the leaderboard as `{"kernel": your_function}`. Compare it with the course's `TritonAttention` in `autograd_course.functions.attention`, whose kernels also run backward. The cell above includes `TritonAttention` on machines with a GPU.

# %% [markdown]
# ## Where you are

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# You have written the algorithm behind `scaled_dot_product_attention`. Use PyTorch's version in your models. If you need a bias, a mask or a score function that no kernel supports, you now know how to write its backward and how to test it.
