# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/08_attention_challenge.ipynb)
#
# # 08 · The attention challenge
#
# **You will** take scaled dot-product attention apart: its gradient, its memory, and the algorithm
# that computes it without ever storing the matrix of scores.
#
# **You will learn** why one fully masked row can destroy a model, how backward recomputes what
# forward did not save, how to compute a softmax in pieces, and how backward finds out which weights
# dropout removed, without a saved mask.
#
# **You need** lesson 01 and the softmax of lesson 03. One *extra* section builds on lesson 06.
#
# **It takes** about 55 minutes; the *extra* sections take another 10. There are two
# exercises in the lesson itself. The others are in the exercise notebook.

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
from torch.autograd import Function, grad, gradgradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.functions import ScaledDotProductAttention, TiledAttention
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    dropped,
    figure,
    kept_bytes,
    note,
    peak_bytes,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import (
    attention_tiles,
    jacobian_view,
    knowledge_check,
    memory_timeline,
)

# %% [markdown]
# ## A batch with a fully masked row
#
# Attention is a differentiable lookup. It computes the dot product of each of $N$ queries (the rows
# of $Q$) with each of $M$ keys (the rows of $K$). A softmax turns the scores of a query into
# weights that sum to 1. The output is the average of the values (the rows of $V$) with these
# weights:
#
# $$S = \frac{Q K^\top}{\sqrt{E}} + \text{mask}, \qquad P = \operatorname{softmax}(S), \qquad
# O = P V .$$
#
# $E$ is the length of a query. Sequences of different lengths are padded to the same length, and
# the mask hides the padding. It adds $-\infty$ to a score, so the weight is $e^{-\infty} = 0$.
#
# A colleague implements these formulas and trains two small matrices: one for the queries and one
# for the keys. The hidden cell creates the batches. In a few batches, one sequence is empty.


# %%
def composed(q, k, v, mask=0.0):
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores, -1) @ v


# %% jupyter={"source_hidden": true}
device = "cuda" if torch.cuda.is_available() else "cpu"


def batch(rng, size=32, longest=8, width=4):
    """Return queries, keys, values, masks, and the value of the key most similar to each query."""
    length = torch.randint(0, 400, (size, 1, 1), generator=rng).clamp(max=longest)
    keys = torch.randn(size, longest, width, generator=rng)
    values = torch.randn(size, longest, 1, generator=rng)
    query = torch.randn(size, 1, width, generator=rng)
    mask = torch.where(torch.arange(longest) < length, 0.0, -math.inf)
    nearest = (query @ keys.mT + mask).argmax(-1, keepdim=True)
    target = values.gather(1, nearest) * (length > 0)
    return [x.to(device) for x in (query, keys, values, mask, target)]


def train(attend, steps=60):
    """Train two matrices. Return the loss of each step and the matrix of the queries."""
    rng = torch.Generator().manual_seed(0)
    w_q = torch.randn(4, 4, generator=rng).to(device).requires_grad_()
    w_k = torch.randn(4, 4, generator=rng).to(device).requires_grad_()
    optimizer = torch.optim.Adam([w_q, w_k], lr=0.1)
    losses = []
    for _ in range(steps):
        query, keys, values, mask, target = batch(rng)
        loss = (attend(query @ w_q, keys @ w_k, values, mask) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses), w_q


def report(losses, w_q):
    """Print the mean loss of each quarter of the training."""
    for first in range(0, 60, 15):
        mean = losses[first : first + 15].mean().item()
        print(f"mean loss of steps {first + 1:2} to {first + 15}: {mean:.2f}")
    print("finite elements of w_q:", int(w_q.isfinite().sum()), "of", w_q.numel())


# %%
report(*train(composed))

# %% [markdown]
# All scores of an empty sequence are $-\infty$, so its softmax is 0/0, which is `nan`. One `nan` in
# the loss makes every gradient of the step `nan`, and then every parameter.
#
# **Your turn.** The usual patch is one call. An empty sequence should contribute nothing, so
# replace its `nan` with 0: append `.nan_to_num(0)` to the softmax. First vote for what you expect.

# %%
vote("08", "nan-replaced")


# %%
def patched(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + mask
    weights = torch.softmax(scores, -1)  # append the call here
    return weights @ v


report(*train(patched))

# %% [markdown]
# With the patch, no loss is `nan`, but all elements of `w_q` still are. From then on, the model
# returns 0 for every input, and its loss stays near 0.9. So now the loss does not even show the
# problem. Here is the patched softmax of two rows, of which the second is fully masked:

# %%
scores = torch.tensor([[1.0, 2.0], [-math.inf, -math.inf]], dtype=torch.float64)
scores.requires_grad_()
weights = torch.softmax(scores, -1).nan_to_num(0)
(gradient,) = grad(weights[:, 0].sum(), scores)
print("patched weights:", weights.detach().numpy().round(2).tolist())
print("gradient:       ", gradient.numpy().round(2).tolist())

# %% [markdown]
# The weights are right, but the gradient is not. Backward computes the derivative of a softmax from
# the softmax's own *output*, and autograd saved this output before the patch. The gradient that
# arrives there is 0, and $0 \cdot \text{nan} = \text{nan}$. So the tensors that backward reads must
# also be right. In a Function, you choose these tensors.

# %% [markdown]
# ## The whole thing, working
#
# Here is a complete attention Function. The rest of the lesson explains it, and then reduces its
# memory step by step. Its `forward` is combined, because `setup_context` does not see the weights
# $P$ that backward needs.


# %%
def softmax_rows(s):
    """Return the softmax of each row (zeros if the row is -∞) and its log-sum-exp."""
    high = s.amax(-1, keepdim=True)
    high = high.masked_fill(high == -math.inf, 0)
    weights = torch.exp(s - high)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1), high + total.log()


class Attention(Function):
    """O = softmax(Q Kᵀ/√E + mask) V."""

    @staticmethod
    def forward(ctx, q, k, v, mask=0.0):
        p, _ = softmax_rows(q @ k.mT / math.sqrt(q.shape[-1]) + mask)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, p = ctx.saved_tensors
        grad_v = p.mT @ grad_output
        grad_p = grad_output @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, grad_v, None


report(*train(Attention.apply))

# %% [markdown]
# The data and the empty sequences are the same as before, but there is no `nan`.
#
# ## Fully masked rows
#
# Three lines of `softmax_rows` are there for numerical reasons:
#
# - `s - high` subtracts the largest score of each row. This does not change the softmax, and no
#   exponent is above 0. Without it, `exp` overflows in float32 for inputs of 89 or more.
# - `high.masked_fill(high == -inf, 0)` is for a fully masked row. Its largest score is $-\infty$,
#   and $-\infty - (-\infty)$ would be `nan`. If you subtract 0, the exponentials are 0.
# - `total.masked_fill(total == 0, 1)` divides these zeros by 1 instead of by their sum, which is 0.
#
# So the weights of a fully masked row are zeros, and so is its output. In the backward pass, every
# gradient of this row is multiplied by the weights, so it is also zero.
#
# Many people mask with a large negative number instead of $-\infty$. The next cell tries both
# values, in our `Attention` and in PyTorch's own attention.

# %%
vote("08", "built-in-masked-row")

# %%
q, k = torch.randn(1, 4), torch.randn(3, 4)
v = torch.tensor([[10.0], [20.0], [60.0]])
for name, attend in (("Attention", Attention.apply), ("PyTorch", scaled_dot_product_attention)):
    for hidden in (-1e9, -math.inf):
        out = attend(q, k, v, torch.full((1, 3), hidden))
        print(f"{name:9}, all keys masked by {hidden:>6g}: output {out.item():.1f}")

# %% [markdown]
# PyTorch follows the same convention: a fully masked row gives zeros. With $-10^9$, you do not get
# `nan` either. But then all scores of the row are the same large negative number, and the softmax
# of equal scores is uniform. The query that should see nothing gets the mean of all values,
# including the padding. You get no error, and a gradient flows into the padding.
#
# ## Backward, one product at a time
#
# Backward goes through the formulas in reverse order. In the table, $dX$ is short for
# $\partial L / \partial X$, and $\circ$ multiplies elementwise:
#
# | step | forward | backward |
# | --- | --- | --- |
# | mix | $O = P V$ | $dV = P^\top dO$ and $dP = dO\, V^\top$ |
# | softmax | $P = \operatorname{softmax}(S)$ | $dS = P \circ (dP - D)$ |
# | compare | $S = Q K^\top / \sqrt{E}$ | $dQ = dS\, K / \sqrt{E}$ and $dK = dS^\top Q / \sqrt{E}$ |
#
# $D$ has one number for each row, $D = \operatorname{rowsum}(P \circ dP)$.
#
# Lesson 03 derived the backward of a matrix product. The shapes tell you which factor to transpose.
# Of all products of $dS$ $(N, M)$ and $Q$ $(N, E)$, only $dS^\top Q$ has the shape of $K$,
# $(M, E)$.
#
# The softmax is the interesting step. Its Jacobian for one row is $\operatorname{diag}(p) - p
# p^\top$. Each weight depends on every score of its row, because all weights are divided by the
# same sum. The first part gives $P \circ dP$. The second part subtracts $P \circ D$. If you leave
# it out, the gradient still looks reasonable:


# %%
class Softmax(Function):
    @staticmethod
    def forward(s):
        return torch.softmax(s, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_p):
        (p,) = ctx.saved_tensors
        return p * grad_p


row = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64)
jacobian_view(Softmax, row)

# %% [markdown]
# The left matrix is the Jacobian of `forward`, the middle one is what `backward` computes, and the
# right one is the difference. The diagonal is too large, and all other entries are missing. If one
# weight rises, the others fall, and this `backward` does not pass that on to the scores.
#
# ### Exercise 1: masked softmax
#
# Now write a softmax with a boolean mask, which is True where the query sees the key. `mask` and
# `s` have the same shape. A masked weight is 0, and a fully masked row contains only zeros. The
# gradient of a masked score is 0. Save a tensor that makes backward right even in a fully masked
# row. If you are stuck, run `hint("masked-softmax")` in a new cell.


# %%
class MaskedSoftmax(Function):
    @staticmethod
    def forward(s, mask):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("masked-softmax", MaskedSoftmax)

# %% [markdown]
# ## What attention saves for backward
#
# Attention also needs a lot of memory. `kept_bytes` counts the bytes that a call saves for
# backward. It does not count the inputs, because they exist anyway.

# %%
lengths = (256, 512, 1024, 2048)
print("queries and keys:", *(f"{n:>9}" for n in lengths))
for name, attend in (("autograd", composed), ("Attention", Attention.apply)):
    saved = [kept_bytes(attend, *torch.randn(3, n, 64)) / 2**20 for n in lengths]
    print(f"{name:17}", *(f"{mebibytes:5.2f} MiB" for mebibytes in saved))

# %% [markdown]
# Twice the length takes four times the memory, because $P$ has $N \cdot M$ elements. At 65,536
# tokens, it takes 16 GiB for a single head of a single layer. So far, the Function saves as much as
# autograd. But a Function can do better, because you choose what backward is computed from.
#
# ## Save one number for each row
#
# Backward needs $P$ in two places: as a factor, and inside $D$. You can compute both without saving
# $P$.
#
# **Recompute $P$.** Backward has $Q$ and $K$, so it can recompute $S$. To get the softmax from $S$,
# it needs one more number for each row, the *log-sum-exp*
#
# $$L_i = \log \sum_j e^{S_{ij}}, \qquad P_{ij} = e^{S_{ij} - L_i} .$$
#
# **Compute $D$ without $P$.** Write out $D$ for a row $i$, insert $dP = dO\,V^\top$, and exchange
# the sums:
#
# $$D_i = \sum_j P_{ij}\, dP_{ij} = \sum_j P_{ij} \sum_f dO_{if} V_{jf}
# = \sum_f dO_{if} \sum_j P_{ij} V_{jf} = \sum_f dO_{if}\, O_{if} .$$
#
# The sum over all keys becomes a sum over the few features of the *output*. So backward needs $Q$,
# $K$, $V$, $O$ and $L$, and the size of each of them is linear in the number of tokens.
#
# A mask takes two more lines of code. Backward masks the recomputed $S$ as forward did. In a fully
# masked row, $S$ and $L$ are both $-\infty$, and $S - L$ would be `nan`, so subtract 0 instead of
# $L$ there.


# %%
class LeanAttention(Function):
    """O = softmax(Q Kᵀ/√E) V; backward recomputes the weights."""

    @staticmethod
    def forward(ctx, q, k, v):
        p, lse = softmax_rows(q @ k.mT / math.sqrt(q.shape[-1]))
        out = p @ v
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, out, lse = ctx.saved_tensors
        p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse)
        D = (grad_output * out).sum(-1, keepdim=True)
        grad_s = p * (grad_output @ v.mT - D) / math.sqrt(q.shape[-1])
        return grad_s @ k, grad_s.mT @ q, p.mT @ grad_output


inputs = [torch.randn(6, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
true = grad(composed(*inputs).cos().sum(), inputs)
lean = grad(LeanAttention.apply(*inputs).cos().sum(), inputs)
for name, a, b in zip("qkv", true, lean, strict=True):
    print(f"gradient of {name}: largest difference from autograd {(a - b).abs().max():.6f}")

# %% jupyter={"source_hidden": true}
with figure(height=3.6) as (axes,):
    for name, attend, color, at in (
        ("autograd", composed, GRAY, (560, 5.0)),
        ("Attention: the same", Attention.apply, ORANGE, (560, 3.2)),
        ("LeanAttention: O and L", LeanAttention.apply, BLUE, (1050, 0.155)),
    ):
        sizes = [kept_bytes(attend, *torch.randn(3, n, 64)) / 2**20 for n in lengths]
        style = "--" if color == ORANGE else "-"
        axes.loglog(lengths, sizes, style, color=color, marker="o", markersize=4, base=2)
        note(axes, name, at, color)
    axes.set(title="saved for backward", xlabel="queries and keys", ylabel="MiB")
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.set_yticks([1 / 8, 1, 8], ["1/8", "1", "8"])

# %% [markdown]
# ### Checkpoint 1
#
# Each value has 64 features. How many numbers does `LeanAttention` save for each query, in addition
# to $Q$, $K$ and $V$? (The cell divides by four, because a float32 has four bytes.)

# %%
numbers_per_query = kept_bytes(LeanAttention.apply, *torch.randn(3, 512, 64)) / 4 / 512

predict(..., numbers_per_query)

# %% [markdown]
# <details><summary>Why</summary>
#
# A row of $O$ has 64 numbers, and $L$ adds one more. If the next layer saves its input $O$, as a
# linear layer does, then the two share this memory.
#
# </details>
#
# What does the recomputation cost? The next cell counts the matrix products of forward and backward
# together. Nearly all the work is in these products.

# %%
vote("08", "recompute-costs-one-product")


# %%
def products(attend):
    inputs = [torch.randn(128, 32, requires_grad=True) for _ in range(3)]
    with FlopCounterMode(display=False) as counted:
        attend(*inputs).sum().backward()
    return counted.get_total_flops() // (2 * 128 * 128 * 32)


for function in (Attention, LeanAttention):
    print(f"{function.__name__:13} {products(function.apply)} matrix products")

# %% [markdown]
# Six become seven. Backward repeats only $Q K^\top$ and not the whole forward. In a single GPU
# kernel, this can even be *faster* than saving $P$. One more matrix product may take less time than
# writing $N \cdot M$ numbers to memory and reading them back.
#
# ## A softmax in pieces
#
# `LeanAttention` does not save the scores, but it computes all of them at once, first in the
# forward pass and again in the backward pass. The next step is to compute them one *tile* at a
# time. A tile contains the scores of some queries and some keys. The next tile then reuses the same
# memory.
#
# A softmax divides by the sum of the whole row. But you can begin before the row is complete if you
# divide at the end. Each query keeps three running values: the maximum $m$ so far, the sum $\ell$,
# and the output $A$ before the division. A tile of scores $S$ updates them:
#
# $$m' = \max(m, \operatorname{rowmax} S), \quad r = e^{m - m'}, \quad W = e^{S - m'}, \quad
# \ell' = r\,\ell + \operatorname{rowsum} W, \quad A' = r A + W V .$$
#
# After the last tile, $O = A / \ell$ and $L = m + \log \ell$. This is the *online softmax*. The
# factor $r$ is the key idea. $\ell$ and $A$ are sums of terms with the factor $e^{S - m}$. When the
# maximum rises from $m$ to $m'$, each of these terms shrinks by the same factor $e^{m - m'}$.
#
# ### Checkpoint 2
#
# A row has two tiles, and each tile has two scores. The scores are 0 and 0 in the first tile, and
# $\log 4$ and 0 in the second one. After the first tile, $m = 0$ and $\ell = 2$. What is $\ell$
# after the second tile?

# %%
m, total = torch.tensor(-math.inf), torch.tensor(0.0)
for tile in torch.tensor([[0.0, 0.0], [math.log(4), 0.0]]):
    new = torch.maximum(m, tile.max())
    total = torch.exp(m - new) * total + torch.exp(tile - new).sum()
    m = new

predict(..., total)

# %% [markdown]
# <details><summary>Why</summary>
#
# The maximum rises from 0 to $\log 4$, so $r = 1/4$ and the old sum 2 becomes 1/2. The new tile
# adds 1 and 1/4, and the result is 1.75. To check this, add the four exponentials without
# subtracting a maximum: $1 + 1 + 4 + 1 = 7 = 4 \cdot 1.75$.
#
# </details>
#
# Watch it run with eight queries, eight keys and tiles of 2×2. On the left is the matrix of scores.
# Only the marked tile exists at any time. Next to it are the tensors in memory, with the running
# maximum and sum. Press → and ← to step. Find a step in which a maximum rises, and see what happens
# to the sums. Then choose the causal mask, and see which tiles are skipped.

# %%
torch.manual_seed(0)
attention_tiles(2 * torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 4), block=(2, 2))

# %% [markdown]
# ### Exercise 2: merge two halves
#
# A sequence is so long that two GPUs share its keys. Each GPU computes the attention of all queries
# to its own half of the keys, and returns the output `out` of shape `(..., N, F)` and the
# log-sum-exp `lse` of shape `(..., N, 1)`. Write the function that merges the two results into the
# output and the log-sum-exp for all keys. The log-sum-exps may be in the thousands. If a query sees
# no key of a half, this half has the `lse` $-\infty$ and an `out` of zeros. A query may even see no
# key at all. If you are stuck, run `hint("merge-halves")` in a new cell.


# %%
def merge(out_a, lse_a, out_b, lse_b):
    # YOUR CODE HERE
    raise NotImplementedError


# %%
grade("merge-halves", merge)

# %% [markdown]
# ## Backward in pieces
#
# Backward is easier. $L$ and $D$ have one number for each row. A tile that knows them needs nothing
# from the other tiles. It recomputes its own $P = e^{S - L}$ and its own
# $dS = P \circ (dO\,V^\top - D)$. Then it *adds* its share to $dQ$ of its queries and to $dK$ and
# $dV$ of its keys. The order of the tiles does not matter, and backward visits each tile once.
#
# This is the second use of the formula for $D$. $\operatorname{rowsum}(P \circ dP)$ needs a whole
# row of $P$, so a single tile could not compute it. $\operatorname{rowsum}(dO \circ O)$ needs no
# $P$.
#
# The course's `TiledAttention` works like this. The next cell shows the *peak*: the most memory
# that all tensors except the inputs take at one time during the forward and backward passes. You
# know what `Attention` and `LeanAttention` save. What peak do you expect for `LeanAttention`?

# %%
vote("08", "lean-peak")


# %%
def tiles(q, k, v):
    return TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (64, 64))[0]


ways = {
    "autograd": composed,
    "Attention": Attention.apply,
    "LeanAttention": LeanAttention.apply,
    "tiles": tiles,
}
print("queries and keys:", *(f"{n:>9}" for n in (256, 512, 1024)))
for name, attend in ways.items():
    peaks = [peak_bytes(attend, *torch.randn(3, n, 32)) / 2**20 for n in (256, 512, 1024)]
    print(f"{name:17}", *(f"{mebibytes:5.1f} MiB" for mebibytes in peaks))

# %% [markdown]
# `LeanAttention` saves almost nothing, but it computes the whole matrix of scores in both passes.
# So its peak is as high as autograd's. Only the tiles have a low peak. With twice as many tokens,
# the tiles need about twice as much memory, while the other three versions need four times as much.
#
# The next picture shows what is *saved*, as a timeline for 64 queries. Select one of the four and
# step through its events:

# %%
memory_timeline(ways, *torch.randn(3, 64, 8))

# %% [markdown]
# ## Heads that share keys
#
# A model that generates text keeps the keys and values of all previous tokens in memory. With
# *grouped queries*, several heads of queries read one head of keys, so there are fewer keys to
# keep. The forward pass repeats $K$ and $V$. In the backward pass, the gradients of all readers add
# up, as they do for every tensor that is read several times:

# %%
q = torch.randn(4, 5, 3, dtype=torch.float64)
k = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
v = torch.randn(2, 6, 3, dtype=torch.float64)
repeated = k.detach().repeat_interleave(2, 0).requires_grad_()

shared = ScaledDotProductAttention.apply(q, k, v)[0]
alone = Attention.apply(q, repeated, v.repeat_interleave(2, 0))
print("outputs agree:", torch.allclose(shared, alone))

(grad_shared,) = grad(shared.cos().sum(), k)
(grad_alone,) = grad(alone.cos().sum(), repeated)
print("gradients of the repeated keys:", tuple(grad_alone.shape))
print("gradient of the shared keys:   ", tuple(grad_shared.shape))
summed = grad_alone.unflatten(0, (2, 2)).sum(1)
print("the second is the sum of the first over each group:", torch.allclose(grad_shared, summed))

# %% [markdown]
# Two mistakes are common here. The first is to call `repeat` instead of `repeat_interleave`. Then
# heads 0 and 2 get the same keys instead of heads 0 and 1. The shapes fit and the model trains, but
# it is a different model. The second is a backward that returns the gradient of the first head of
# each group, or the mean over the group. This result also has the right shape.

# %% [markdown]
# ## Dropout without a mask
#
# *Extra: you need this section for tier 4 of the exercises.*
#
# Dropout sets some weights to 0 and multiplies the others by $1/(1-p)$. Backward needs the same
# pattern. A saved boolean mask takes $N \cdot M$ bytes, so backward should draw the pattern again.
#
# With tiles, forward goes through the matrix one row of tiles at a time. Backward collects $dK$ and
# $dV$, so it goes through it one column of tiles at a time. The next cell draws the pattern of four
# tiles in both orders. First it sets the same seed for both, and then it uses a hash function
# without a generator.

# %%
vote("08", "same-seed")

# %%
by_rows = [(0, 0), (0, 2), (2, 0), (2, 2)]
by_columns = [(0, 0), (2, 0), (0, 2), (2, 2)]


def drawn(order):
    rng, pattern = torch.Generator().manual_seed(3), torch.zeros(4, 4, dtype=torch.bool)
    for i, j in order:
        pattern[i : i + 2, j : j + 2] = torch.rand(2, 2, generator=rng) < 0.5
    return pattern


def hashed(order):
    pattern = torch.zeros(4, 4, dtype=torch.bool)
    for i, j in order:
        rows, columns = torch.arange(i, i + 2), torch.arange(j, j + 2)
        pattern[i : i + 2, j : j + 2] = dropped(rows, columns, 0.5, seed=3)
    return pattern


for name, pattern in (("a seeded generator", drawn), ("a hash of the position", hashed)):
    same = int((pattern(by_rows) == pattern(by_columns)).sum())
    print(f"{name:22}: {same} of 16 weights agree between forward and backward")

# %% [markdown]
# A seed restores the *sequence* of random numbers. But in the backward pass, many of these numbers
# belong to different weights than in the forward pass, so the two patterns differ. The gradient is
# wrong, but PyTorch raises no error.
#
# So use a *function* of the position instead of a sequence. A hash of the seed, the row and the
# column decides whether dropout removes the weight $(i, j)$. Each tile can compute its part at any
# time and in any order, and it always gets the same answer. The course's function is called
# `dropped`. GPU kernels use a random number generator of this kind, such as Philox.
#
# The formula for $D$ also holds with dropout. Let $Z$ be the pattern of zeros and $1/(1-p)$. Then
# $O = (P \circ Z) V$ and $dP = Z \circ (dO\, V^\top)$, and $\operatorname{rowsum}(dO \circ O)$ is
# still the row sum of $P \circ dP$.

# %% [markdown]
# ## Differentiable twice
#
# *Extra: you need this section for tier 5 of the exercises. It builds on lesson 06.*
#
# The gradient of `LeanAttention` is right. Ask `diagnose` for the second derivative:

# %%
torch.manual_seed(0)
inputs = [torch.randn(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
diagnose(LeanAttention, inputs, double_backward=True)

# %% [markdown]
# Lesson 06 explains why. The inputs and outputs that backward reads have a graph, whereas an
# intermediate is a constant. $Q$, $K$ and $V$ are inputs, $O$ is an output, and $L$ is neither.
#
# So make $L$ an output. `forward` returns the pair $(O, L)$, and a plain function around the
# Function returns only $O$ to the users. Then backward also receives a gradient for $L$. It is zero
# in the first backward pass, but not in the second. Because
# $\partial L_i / \partial S_{ij} = P_{ij}$, this gradient joins $D$:
#
# $$dS = P \circ (dP - D + dL) .$$
#
# The course's `ScaledDotProductAttention` does this. PyTorch's fused kernels do not support a
# second derivative and raise an error:


# %%
def twice(*inputs):
    return ScaledDotProductAttention.apply(*inputs)[0]


print("gradgradcheck:", gradgradcheck(twice, inputs))
q, k, v = (x[None, None] for x in inputs)  # the fused kernel expects a batch and heads
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    out = scaled_dot_product_attention(q, k, v)
    (first,) = grad(out.square().sum(), q, create_graph=True)
with show_error():
    grad(first.sum(), q)

# %% [markdown]
# Under `sdpa_kernel(SDPBackend.MATH)`, PyTorch composes its attention from plain operations. Then
# it has a second derivative, but it needs memory for $N \cdot M$ elements.
#
# ## On a GPU
#
# In Python, tiles save memory but cost time, because each tile is a dozen small operations. On a
# GPU, the same loop is *one kernel*. The scores of a tile never leave the fast memory next to the
# arithmetic units. Attention is usually limited by the traffic to the slow memory and not by
# arithmetic. So a kernel that computes more and moves less data can be faster. This algorithm is
# FlashAttention, and your formulas are its formulas.
#
# | you need | use |
# | --- | --- |
# | attention, also masked, causal or grouped | `torch.nn.functional.scaled_dot_product_attention` |
# | your own score function or mask | `torch.nn.attention.flex_attention`, compiled |
# | a second derivative | plain operations, or a Function as above |
# | another function of rows that are too long to save | this lesson |

# %% [markdown]
# ## Do you know it?
#
# Answer nine questions. If an answer is wrong, you see why and can try again.

# %%
knowledge_check("08")

# %% [markdown]
# ## Summary
#
# ```python
# class Attention(torch.autograd.Function):
#     @staticmethod
#     def forward(q, k, v):
#         s = q @ k.mT / math.sqrt(q.shape[-1])        # a mask: -∞ here, and again in backward
#         p, lse = softmax_rows(s)                     # fully masked row: p is 0, lse is -∞
#         return p @ v, lse                            # lse is an output, so it has a graph
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         ctx.save_for_backward(*inputs, *output)      # nothing of size N·M
#
#     @staticmethod
#     def backward(ctx, grad_out, grad_lse):
#         q, k, v, out, lse = ctx.saved_tensors
#         s = q @ k.mT / math.sqrt(q.shape[-1])
#         p = torch.exp(s - lse)                       # fully masked row: subtract 0, not -∞
#         D = (grad_out * out).sum(-1, keepdim=True) - grad_lse
#         grad_s = p * (grad_out @ v.mT - D) / math.sqrt(q.shape[-1])
#         return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | fully masked row | zeros: subtract 0, divide by 1; no `nan` in any tensor that backward reads |
# | softmax backward | $P \circ (dP - D)$ with one number $D$ for each row; no Jacobian |
# | save | $Q$, $K$, $V$, $O$, $L$: linear in the length; seven products instead of six |
# | $D$ | $\operatorname{rowsum}(dO \circ O)$, so a tile needs no other tile |
# | online softmax | when the maximum rises, multiply sum *and* output by $e^{m - m'}$ |
# | dropout | a hash of seed, row and column, because the order of the tiles changes |
# | second derivative | return $L$ as an output, and use its gradient |
# | shared keys | their gradient is the sum over the heads that read them |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/08_attention_challenge.ipynb) have six tiers, from a
# forward that never overflows to tiles in both passes. A leaderboard compares the speed and memory
# of your answers. On a GPU it also measures `TritonAttention`, which computes the same tiles in one
# kernel for each pass (`autograd_course/functions/attention/triton_kernels.py`).
#
# This is the last lesson of the core path. The lessons after it are electives, which you can take
# in any order. [Lesson 11](11_torch_func.ipynb) makes your Functions work with `vmap` and forward
# mode.
