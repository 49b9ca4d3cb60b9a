# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/08_attention_challenge.ipynb)
#
# # 08 · The attention challenge
#
# **You will** take scaled dot-product attention apart, down to the Function that PyTorch runs for
# you: its gradient, what it keeps, how it does without the matrix that defines it.
#
# **You will learn** why a fully masked row poisons a whole model, how backward rebuilds what
# forward did not keep, how a softmax is computed in pieces, and how dropout is undone without its
# mask.
#
# **You need** lesson 01 (`ctx`, vector-Jacobian products, `diagnose`); for one section lesson 06.
#
# **It takes** about 60 minutes. The exercises
# come after it, in six tiers.

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
from torch.autograd import Function, grad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose
from autograd_course.functions import ScaledDotProductAttention, TiledAttention
from autograd_course.lesson import BLUE, GRAY, ORANGE, dropped, figure, note, peak_bytes, predict
from autograd_course.visualize import (
    attention_tiles,
    jacobian_view,
    knowledge_check,
    memory_timeline,
)

# %% [markdown]
# ## A batch with a fully masked row
#
# Attention is a lookup that can be differentiated. Each of $N$ queries (rows of $Q$) is compared
# with each of $M$ keys (rows of $K$) by a dot product; a softmax turns a query's scores into
# weights that sum to 1; the result is the values (rows of $V$), mixed by these weights:
#
# $$S = \frac{Q K^\top}{\sqrt{E}} + \text{mask}, \qquad P = \operatorname{softmax}(S), \qquad
# O = P V .$$
#
# The mask says what may not be looked at: $-\infty$ on a score makes its weight $e^{-\infty} = 0$.
# Sequences of different lengths are padded to one length, and the padding is masked.
#
# A colleague wrote the three formulas down:

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"


def composed(q, k, v, mask=0.0):
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores, -1) @ v


# %% [markdown]
# The task is a small one: a sequence holds up to eight pairs of a key and a value, and a query
# asks for the value whose key is most like it. Two matrices, for queries and keys, are to be
# learned, in 60 steps.


# %%
def batch(rng, size=32, longest=8, width=4):
    length = torch.randint(0, 400, (size, 1, 1), generator=rng).clamp(max=longest)
    keys = torch.randn(size, longest, width, generator=rng)
    values = torch.randn(size, longest, 1, generator=rng)
    query = torch.randn(size, 1, width, generator=rng)
    mask = torch.where(torch.arange(longest) < length, 0.0, -math.inf)
    nearest = (query @ keys.mT + mask).argmax(-1, keepdim=True)
    target = values.gather(1, nearest) * (length > 0)
    return [x.to(device) for x in (query, keys, values, mask, target)]


def train(attend, steps=60):
    rng = torch.Generator().manual_seed(0)
    w_q, w_k = (torch.randn(4, 4, generator=rng).to(device).requires_grad_() for _ in range(2))
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
    for first in range(0, 60, 15):
        mean = losses[first : first + 15].mean().item()
        print(f"mean loss of steps {first + 1:2} to {first + 15}: {mean:.2f}")
    print("numbers that are left in w_q:", int(w_q.isfinite().sum()), "of", w_q.numel())


report(*train(composed))

# %% [markdown]
# One sequence among hundreds was empty. All its scores were $-\infty$, its softmax was 0/0, and
# one `nan` in the loss makes every gradient of the step `nan`, and every parameter.
#
# The usual patch is one call: replace `nan` by 0, since an empty sequence should give nothing
# anyway.


# %%
def patched(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + mask
    return torch.softmax(scores, -1).nan_to_num(0) @ v


report(*train(patched))

# %% [markdown]
# **Common belief: "a `nan` that is replaced in forward is gone."** Look twice: every parameter is
# lost as before, and now the loss does not even say so. It is the loss of a model that answers 0.
#
# What happened? Forward is repaired, and the loss of the fatal step is finite. But the derivative
# of a softmax is computed from its *output*, and that is still `nan`. What arrives there is 0, and
# $0 \cdot \text{nan} = \text{nan}$: the parameters are gone. Then all weights are `nan`, and
# the patch makes zeros of them, step after step. What backward reads must be right too, and in a
# Function that is in our hands.

# %% [markdown]
# ## The whole thing, working
#
# Here is a complete attention as a Function. The rest of the lesson explains it and then takes
# away, piece by piece, what it keeps.


# %%
def softmax_rows(s):
    """The softmax of each row, zeros in a row of -∞; and its log-sum-exp."""
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
# The same data, the same empty sequence, and no `nan`.
#
# ## Rows that see nothing
#
# Three lines of `softmax_rows` are about numbers, not about mathematics:
#
# - `s - high`: subtracting a row's largest score changes nothing in a softmax, and no exponent is
#   above 0. Without it `exp` overflows in float32 from 89 on.
# - `high.masked_fill(high == -inf, 0)`: in a fully masked row the largest score is $-\infty$, and
#   $-\infty - (-\infty)$ would be `nan`. With 0 the exponentials are 0, as they should be.
# - `total.masked_fill(total == 0, 1)`: their sum is 0 then, and 0/1 is 0.
#
# So the weights of a fully masked row are zeros, and its output is zeros. In backward everything
# that is multiplied by them is zero, too. PyTorch's own `scaled_dot_product_attention` has the same
# convention.
#
# **Common belief: "$-10^9$ in place of $-\infty$ avoids all that."** It avoids the `nan`:

# %%
q, k = torch.randn(1, 4), torch.randn(3, 4)
v = torch.tensor([[10.0], [20.0], [60.0]])
for hidden in (-1e9, -math.inf):
    out = Attention.apply(q, k, v, torch.full((1, 3), hidden))
    print(f"everything masked by {hidden:>6g}: output {out.item():.1f}")

# %% [markdown]
# Each score of the row is the same large negative number, and the softmax of equal scores is
# uniform: the query that may see nothing gets the mean of everything, padding included. No error,
# and a gradient that flows into the padding.
#
# ## Backward, one product at a time
#
# Backward goes through the formulas in reverse order. With $dO = \partial L / \partial O$:
#
# | step | forward | backward |
# | --- | --- | --- |
# | mix | $O = P V$ | $dV = P^\top dO$ and $dP = dO\, V^\top$ |
# | softmax | $P = \operatorname{softmax}(S)$ | $dS = P \circ (dP - D)$ |
# | compare | $S = Q K^\top / \sqrt{E}$ | $dQ = dS\, K / \sqrt{E}$ and $dK = dS^\top Q / \sqrt{E}$ |
#
# with one number $D_i$ for each row, $D = \operatorname{rowsum}(P \circ dP)$.
#
# The two matrix products are those of lesson 03, and shapes alone lead you: of all products of
# $dS$ $(N, M)$ with $Q$ $(N, E)$, only $dS^\top Q$ has the shape of $K$, $(M, E)$.
#
# The softmax is the interesting step. Its Jacobian for one row is $\operatorname{diag}(p) - p
# p^\top$: each weight depends on every score of the row, since all share a sum. The first part
# gives $P \circ dP$; the second subtracts from each entry $p_j \sum_k p_k\, dp_k$, one number $D$
# for the whole row. Leave it out, and the gradient looks quite reasonable:


# %%
class Softmax(Function):
    @staticmethod
    def forward(ctx, s):
        p = torch.softmax(s, -1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, grad_p):
        (p,) = ctx.saved_tensors
        return p * grad_p


row = torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.float64)
jacobian_view(Softmax, row)

# %% [markdown]
# Left what forward does, in the middle what backward believes, right by how much it is off. The
# diagonal is too large, and what is beside it is missing: "more of this weight means less of the
# others" never reaches the scores.
#
# ### Checkpoint 1
#
# Finish `Softmax.backward` below, until `diagnose` has nothing to say. `D` keeps its axis: it is
# one number for each row.


# %%
class FinishedSoftmax(Softmax):
    @staticmethod
    def backward(ctx, grad_p):
        (p,) = ctx.saved_tensors
        return p * grad_p


diagnose(FinishedSoftmax, (row.repeat(2, 1),))

# %% [markdown]
# <details><summary>Why</summary>
#
# `D = (p * grad_p).sum(-1, keepdim=True)` and `return p * (grad_p - D)`. No Jacobian is built: the
# vector-Jacobian product is a product, a row sum and a subtraction.
#
# </details>

# %% [markdown]
# ## What attention keeps
#
# The second hurt of attention is its size. Let us ask which tensors are kept for backward, by the
# hooks of saved tensors, which see each of them. Inputs are alive anyway and do not count.


# %%
def kept_bytes(attend, length, width=64):
    inputs = [torch.randn(length, width, requires_grad=True) for _ in range(3)]
    own = {x.untyped_storage().data_ptr() for x in inputs}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        out = attend(*inputs)
    size = {place: x.untyped_storage().nbytes() for place, x in kept.items()}
    del out
    return sum(bytes_ for place, bytes_ in size.items() if place not in own)


lengths = (256, 512, 1024, 2048)
for name, attend in (("autograd's own", composed), ("Attention", Attention.apply)):
    mebibytes = [f"{kept_bytes(attend, n) / 2**20:6.2f}" for n in lengths]
    print(f"{name:15} MiB kept for", *(f"{n}:{m}" for n, m in zip(lengths, mebibytes, strict=True)))

# %% [markdown]
# Twice the length, four times the bytes: $P$ has $N^2$ numbers. At 65,536 tokens it takes 16 GiB,
# for a single head of a single layer. The Function has gained nothing over autograd, and this is
# the point at which a Function can: *we* choose what backward is computed from.
#
# ## Keep a number, not a row
#
# $P$ is needed in two places: for itself, and inside $D$. Both can be had without keeping it.
#
# **$P$ is rebuilt.** $S$ is a product of $Q$ and $K$, which are there. What a softmax needs beyond
# $S$ is one number a row, the *log-sum-exp*
#
# $$L_i = \log \sum_j e^{S_{ij}}, \qquad P_{ij} = e^{S_{ij} - L_i} .$$
#
# **$D$ needs no $P$.** Write it out for a row $i$, put in $dP = dO\,V^\top$, and exchange the sums:
#
# $$D_i = \sum_j P_{ij}\, dP_{ij} = \sum_j P_{ij} \sum_f dO_{if} V_{jf}
# = \sum_f dO_{if} \sum_j P_{ij} V_{jf} = \sum_f dO_{if}\, O_{if} .$$
#
# The sum over all keys is a sum over the few features of the *output*. Backward needs $Q$, $K$,
# $V$, $O$ and $L$, and all of them grow with $N$.
#
# With a mask, two things are to be minded: the rebuilt $S$ is masked as the first one was, and in
# a fully masked row $S$ and $L$ are both $-\infty$, so that $S - L$ is `nan`. Subtract 0 there.


# %%
class LeanAttention(Function):
    """O = softmax(Q Kᵀ/√E) V, keeping no weights."""

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
right = grad(composed(*inputs).cos().sum(), inputs)
found = grad(LeanAttention.apply(*inputs).cos().sum(), inputs)
print("gradients agree:", all(torch.allclose(a, b) for a, b in zip(right, found, strict=True)))

# %% jupyter={"source_hidden": true}
with figure(height=3.6) as (axes,):
    for name, attend, color, at in (
        ("autograd's own", composed, GRAY, (560, 5.0)),
        ("P kept: the same", Attention.apply, ORANGE, (560, 3.2)),
        ("O and L kept", LeanAttention.apply, BLUE, (1050, 0.155)),
    ):
        sizes = [kept_bytes(attend, n) / 2**20 for n in lengths]
        style = "--" if color == ORANGE else "-"
        axes.loglog(lengths, sizes, style, color=color, marker="o", markersize=4, base=2)
        note(axes, name, at, color)
    axes.set(title="kept for backward", xlabel="queries and keys", ylabel="MiB")
    axes.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axes.set_yticks([1 / 8, 1, 8], ["1/8", "1", "8"])

# %% [markdown]
# ### Checkpoint 2
#
# With 64 features in each value, how many numbers does `LeanAttention` keep for each query, beside
# $Q$, $K$ and $V$? (A float32 has four bytes.)

# %%
numbers_per_query = kept_bytes(LeanAttention.apply, 512) / 4 / 512

predict(..., numbers_per_query)

# %% [markdown]
# <details><summary>Why</summary>
#
# A row of $O$ has 64 numbers, and $L$ adds one. And $O$ costs nothing where the next layer keeps
# it for itself, as a linear layer does.
#
# </details>

# %% [markdown]
# **Common belief: "what is not kept is paid for by doing the work twice."** Count the
# multiplications of matrices, where nearly all the work is:


# %%
def products(attend):
    inputs = [torch.randn(128, 32, requires_grad=True) for _ in range(3)]
    with FlopCounterMode(display=False) as counted:
        attend(*inputs).sum().backward()
    return counted.get_total_flops() // (2 * 128 * 128 * 32)


for function in (Attention, LeanAttention):
    print(f"{function.__name__:13} {products(function.apply)} products of matrices")

# %% [markdown]
# Six become seven: of the whole forward only $Q K^\top$ is repeated. On a GPU this is often
# *faster* than keeping $P$, because one more product of matrices takes less time than writing $N^2$
# numbers to memory and reading them back.
#
# ## A softmax in pieces
#
# `LeanAttention` keeps no scores, but it makes them, all at once, twice. The next step is to make
# them a *tile* at a time: some queries and some keys, their scores, then the next tile, in the
# same memory.
#
# **Common belief: "a softmax cannot begin before its whole row is there, because it divides by the
# sum."** Divide last, and keep what the sum was measured from. For each query three things run
# along its row: the maximum $m$ so far, the sum $\ell$, and the output $A$ that is not divided
# yet. A tile of scores $S$ updates them,
#
# $$m' = \max(m, \operatorname{rowmax} S), \quad r = e^{m - m'}, \quad W = e^{S - m'}, \quad
# \ell' = r\,\ell + \operatorname{rowsum} W, \quad A' = r A + W V ,$$
#
# and after the last tile $O = A / \ell$ and $L = m + \log \ell$. This is the *online softmax*. The
# factor $r$ is the whole trick: $\ell$ and $A$ are sums of terms with $e^{S - m}$, and when the
# maximum rises from $m$ to $m'$, each term summed so far shrinks by the one factor $e^{m - m'}$.
#
# ### Checkpoint 3
#
# Two tiles of two scores each: first 0 and 0, then $\log 4$ and 0. After the first tile $m = 0$
# and $\ell = 2$. What is $\ell$ after the second?

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
# adds 1 and 1/4: together 1.75. Measured from 0 the sum is $4 \cdot 1.75 = 7 = 1 + 1 + 4 + 1$, as
# it should be.
#
# </details>

# %% [markdown]
# Watch it run. Eight queries, eight keys, tiles of 2×2: on the left the score matrix, of which
# only the marked tile exists at any time; beside it what is alive in memory, with the running
# maximum and sum. Step with → and ←. Find a step at which a maximum rises, and see what happens to
# the sums; then switch to causal, and see which tiles are never visited.

# %%
torch.manual_seed(0)
attention_tiles(2 * torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 4), block=(2, 2))

# %% [markdown]
# ## Backward in pieces
#
# Backward is easier. Given $L$ and $D$, both one number a row, a tile needs nothing from the other
# tiles: it rebuilds its own $P = e^{S - L}$ and its own $dS = P \circ (dO\,V^\top - D)$. Then it
# *adds* its share: to $dQ$ of its queries, to $dK$ and $dV$ of its keys. The order of the tiles
# does not matter, and none is visited twice.
#
# That is why the trick with $D$ is worth more than the memory it saves: $\operatorname{rowsum}(P
# \circ dP)$ runs over a whole row of $P$, and no tile could have computed it alone.
#
# The course's `TiledAttention` does this. Here is the most memory that all tensors together take
# at one time during forward and backward, beside the inputs:


# %%
def tiles(q, k, v):
    return TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (64, 64))[0]


def peak(attend, length, width=32):
    inputs = [torch.randn(length, width, requires_grad=True) for _ in range(3)]
    return peak_bytes(attend, *inputs) / 2**20


ways = {
    "autograd's own": composed,
    "P kept": Attention.apply,
    "O and L kept": LeanAttention.apply,
    "tiles": tiles,
}
for name, attend in ways.items():
    print(f"{name:15}", *(f"{n}: {peak(attend, n):5.1f} MiB " for n in (256, 512, 1024)))

# %% [markdown]
# Keeping less and *making* less are two things. `LeanAttention` keeps almost nothing, but at its
# peak it holds several matrices of scores, as many as autograd's own way. With twice as many tokens
# the tiles take about twice the memory, and every other way four times as much.
#
# And what is *kept*, as a timeline for 64 queries. Choose a way and walk through its events:

# %%
memory_timeline(ways, *(torch.randn(64, 8) for _ in range(3)))

# %% [markdown]
# ## Dropout without a mask
#
# Dropout sets some weights to 0 and multiplies the others by $1/(1-p)$. Backward needs the same
# pattern again, and a boolean mask of it is once more $N^2$, a byte each. So: draw it again.
#
# **Common belief: "keep the seed, and set it again in backward."** That restores the *sequence* of
# random numbers. Forward goes by rows of tiles; backward, which collects $dK$ and $dV$, goes by
# columns. Let us draw four tiles both ways from one seed:

# %%
by_rows = [(i, j) for i in (0, 2) for j in (0, 2)]
by_columns = [(i, j) for j in (0, 2) for i in (0, 2)]


def drawn(order):
    rng, pattern = torch.Generator().manual_seed(3), torch.zeros(4, 4, dtype=torch.bool)
    for i, j in order:
        pattern[i : i + 2, j : j + 2] = torch.rand(2, 2, generator=rng) < 0.5
    return pattern


def hashed(order):
    pattern = torch.zeros(4, 4, dtype=torch.bool)
    for i, j in order:
        pattern[i : i + 2, j : j + 2] = dropped(
            torch.arange(i, i + 2), torch.arange(j, j + 2), 0.5, seed=3
        )
    return pattern


for name, pattern in (("a seeded generator", drawn), ("a hash of the place", hashed)):
    same = (pattern(by_rows) == pattern(by_columns)).sum()
    print(f"{name:19}: {same} of 16 weights agree between forward and backward")

# %% [markdown]
# A gradient for another pattern than that of forward is simply wrong, at some entries, and
# training goes on. What is needed is not a sequence but a *function*: whether weight $(i, j)$ goes
# is decided by a hash of seed, row and column. Any tile can ask for its part, at any time, in any
# order, and gets the same answer. The course's is called `dropped`; GPU kernels do it with a
# random number generator of this kind (Philox).
#
# $D$ survives dropout unchanged. With a pattern $Z'$ of zeros and $1/(1-p)$ we have $O = (P \circ
# Z') V$, and $\operatorname{rowsum}(dO \circ O)$ is the row sum over $P \circ dP$ still, when $dP
# = Z' \circ (dO\, V^\top)$.

# %% [markdown]
# ## Differentiable twice
#
# `LeanAttention` has the right gradient. Ask for its second derivative:

# %%
inputs = [torch.randn(3, 2, dtype=torch.float64) for _ in range(3)]
for function in (LeanAttention, ScaledDotProductAttention):
    found = diagnose(function, inputs, double_backward=True).findings
    errors = [f.rule for f in found if f.severity == "error"]
    print(f"{function.__name__:25} {errors or 'both derivatives are right'}")

# %% [markdown]
# Lesson 06 has the reason. What backward reads has a graph if it is an input or an output, and is
# a constant otherwise. $Q$, $K$, $V$ are inputs, $O$ is an output. $L$ is neither.
#
# The repair is to make it one: forward returns the pair $(O, L)$, and users see the first through
# a plain function. Then a gradient arrives for $L$ too, zero at first, and not zero in the second
# pass. Since $\partial L_i / \partial S_{ij} = P_{ij}$, it joins $D$:
#
# $$dS = P \circ (dP - D + dL) .$$
#
# The course's `ScaledDotProductAttention` does this. PyTorch's fused kernels do not: ask one for a
# second derivative, and it raises `derivative for aten::… is not implemented`, which is the honest
# thing to do. Its composition of plain operations (`sdpa_kernel(SDPBackend.MATH)`) can, in $N^2$
# memory.
#
# ## Heads that share keys
#
# A model that generates text keeps the keys and values of everything it has read. With *grouped
# queries*, several heads of queries read one head of keys, and there is less to keep. For forward
# that is a repetition of $K$ and $V$; in backward a tensor that is read several times collects
# from all its readers:

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
print("one gradient a reader:", tuple(grad_alone.shape), " of what is shared:", tuple(k.shape))
print("it is their sum:", torch.allclose(grad_shared, grad_alone.unflatten(0, (2, 2)).sum(1)))

# %% [markdown]
# Two mistakes are popular here. `repeat` in place of `repeat_interleave` gives heads 0 and 2 the
# same keys, not 0 and 1: the shapes fit, the model trains, and is another one. And a backward that
# takes the first head of each group, or the mean, has the right shape as well.
#
# ## On a GPU
#
# In Python, tiles save memory and cost time: each tile is a dozen small operations. On a GPU the
# same loop is *one kernel*. A tile's scores live and die in the fast memory beside the arithmetic
# units, and since attention is limited by traffic to the slow memory, not by arithmetic, the
# kernel that computes more is the faster one. That is FlashAttention; your formulas are its
# formulas.
#
# | you need | use |
# | --- | --- |
# | attention, also masked, causal, grouped | `torch.nn.functional.scaled_dot_product_attention` |
# | a score or a mask of your own | `torch.nn.attention.flex_attention`, compiled |
# | a second derivative | plain operations, or a Function as above |
# | another function of rows that are too long to keep | this lesson |

# %% [markdown]
# ## Do you know it?
#
# Nine questions. A wrong answer explains itself; try again.

# %%
knowledge_check("08")

# %% [markdown]
# ## Summary
#
# ```python
# class Attention(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, q, k, v):
#         s = q @ k.mT / math.sqrt(q.shape[-1])        # a mask: -∞ here, and again in backward
#         p, lse = softmax_rows(s)                     # a row of -∞: p is 0, lse -∞
#         out = p @ v
#         ctx.save_for_backward(q, k, v, out, lse)     # nothing with a column for each key
#         return out, lse                              # an output: it carries a graph
#
#     @staticmethod
#     def backward(ctx, grad_out, grad_lse):
#         q, k, v, out, lse = ctx.saved_tensors
#         s = q @ k.mT / math.sqrt(q.shape[-1])
#         p = torch.exp(s - lse)                       # a fully masked row: subtract 0, not -∞
#         D = (grad_out * out).sum(-1, keepdim=True) - grad_lse
#         grad_s = p * (grad_out @ v.mT - D) / math.sqrt(q.shape[-1])
#         return grad_s @ k, grad_s.mT @ q, p.mT @ grad_out
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | a fully masked row | zeros: shift by 0, divide by 1; no `nan` in what backward reads, either |
# | softmax backward | $P \circ (dP - D)$, one number $D$ for a row, no Jacobian |
# | kept | $Q$, $K$, $V$, $O$, $L$: linear in the length; seven products instead of six |
# | $D$ | $\operatorname{rowsum}(dO \circ O)$, so a tile needs no other tile |
# | online softmax | when the maximum rises, sum *and* output times $e^{m - m'}$ |
# | dropout | a hash of seed, row and column, not a generator: tiles come in another order |
# | second derivative | $L$ is returned, and its gradient used |
# | shared keys | their gradient is the sum over the heads that read them |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/08_attention_challenge.ipynb): six tiers, from a
# forward that nothing overflows to tiles in both passes, and a leaderboard that measures yours. On
# a GPU it also enters `TritonAttention`, the same tiles in one kernel a pass
# (`autograd_course/functions/attention/triton_kernels.py`).
#
# This is the last lesson of the core path. The lessons after it are electives: take them in any
# order. [Lesson 11](11_torch_func.ipynb) makes your Functions work with `vmap` and forward mode.
