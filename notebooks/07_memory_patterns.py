# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/07_memory_patterns.ipynb)
#
# # 07 · The same gradient in less memory
#
# **You will** take a training step that needs 132 MiB, and bring it under 16 MiB without changing
# the loss or a gradient.
#
# **You will learn** what autograd keeps between forward and backward, how to measure it to the
# byte, and five ways to keep less: save something smaller, pack it, compute it again, reconstruct
# it, never build it.
#
# **You need** lesson 01: `ctx`, saved tensors, vector-Jacobian products.
#
# **It takes** about 55 minutes; the *extra* sections take another 40. The exercises come after it.

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
from torch import nn
from torch.autograd import Function, grad, gradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy, linear
from torch.utils import checkpoint as torch_checkpoint
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose
from autograd_course.functions import AddReLU, LinearReLU, checkpoint, linear_cross_entropy
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    figure,
    kept_bytes,
    kept_tensors,
    note,
    peak_bytes,
    predict,
)
from autograd_course.visualize import knowledge_check, memory_timeline

KiB, MiB = 1024, 1024**2

# %% [markdown]
# ## A step that does not fit
#
# A small language model: each of 1024 tokens becomes a vector of 64 numbers, eight residual blocks
# work on it, and the head scores each of 8192 words as the next one. The loss is the cross
# entropy. A quarter of a million parameters in the blocks, a million in embedding and head: 5 MiB
# in all, nothing that should trouble anybody.


# %%
class Block(nn.Module):
    """x + W₂·dropout(swish(W₁·norm(x)))"""

    def __init__(self, width=64, wide=256):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x):
        h = self.up(self.norm(x))
        h = h * torch.sigmoid(h)
        return x + self.down(self.dropout(h))


torch.manual_seed(0)
TOKENS, WORDS = 1024, 8192
embedding = nn.Embedding(WORDS, 64)
blocks = nn.Sequential(*[Block() for _ in range(8)])
head = nn.Linear(64, WORDS, bias=False)
words, target = torch.randint(WORDS, (2, TOKENS))

# %% [markdown]
# Our card has 16 MiB beside the weights (let it be a card from a museum; a real one has five
# thousand times as much, and a real model too). `peak_bytes` runs forward and backward once and
# says the most that was in use at any moment. It counts the storages of tensors, so the number
# does not depend on the machine.

# %%
CARD = 16 * MiB


def step(words, target):
    return cross_entropy(head(blocks(embedding(words))), target)


def fits(step):
    peak = peak_bytes(step, words, target)
    verdict = "fits" if peak <= CARD else "OUT OF MEMORY"
    print(f"peak {peak / MiB:6.1f} MiB, card {CARD // MiB} MiB: {verdict}")


fits(step)

# %% [markdown]
# Eight times too much. The usual answer is an eighth of the batch: worse gradients, or eight
# steps in place of one. But first let us see what all that memory is *for*. `kept_tensors` lists
# what autograd holds on to between forward and backward.

# %%
for kept in kept_tensors(step, words, target)[:4]:
    owner = "a parameter, there anyway" if kept.anyway else "kept for backward"
    print(f"{kept.bytes / MiB:5.1f} MiB  {kept.shape!s:13} {owner}")
print(f"{kept_bytes(step, words, target) / MiB:5.1f} MiB  kept in all, parameters aside")

# %% [markdown]
# One tensor of 32 MiB leads the list: for each of 1024 tokens, a number for each of 8192 words.
# During backward two more of that size are alive with it. The rest is some fifty activations of the
# blocks. We begin with the giant.

# %% [markdown]
# ## The whole thing, working
#
# The *logits* $z = x W^\top$ are a matrix of tokens × words, and nobody wants it: we want the loss,
# one number. For a single row with class $t$,
#
# $$\ell = \log\sum_j e^{z_j} - z_t, \qquad \frac{\partial \ell}{\partial z} =
# \operatorname{softmax}(z) - \text{one-hot}(t),$$
#
# and no row needs another one. So take 64 rows at a time: compute their logits, their loss *and
# their gradient*, add up, and forget the logits. What stays for backward is $\partial L/\partial
# x$ and $\partial L/\partial W$ themselves, no larger than $x$ and $W$.


# %%
class ChunkedLoss(Function):
    """L = mean over rows of cross_entropy(x Wᵀ, target), 64 rows at a time."""

    @staticmethod
    def forward(ctx, x, weight, target):
        loss, n = x.new_zeros(()), len(x)
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for begin in range(0, n, 64):
            rows = slice(begin, begin + 64)
            logits = x[rows] @ weight.t()
            loss += cross_entropy(logits, target[rows], reduction="sum") / n
            slope = torch.softmax(logits, 1)
            slope[torch.arange(len(slope)), target[rows]] -= 1
            grad_x[rows] = slope @ weight / n
            grad_weight += slope.t() @ x[rows] / n
        ctx.save_for_backward(grad_x, grad_weight)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        grad_x, grad_weight = ctx.saved_tensors
        return grad_output * grad_x, grad_output * grad_weight, None


# %% [markdown]
# The same loss, the same gradients, a ninth of the memory:


# %%
def plain_head(x, weight):
    return cross_entropy(x @ weight.t(), target)


def chunked_head(x, weight):
    return ChunkedLoss.apply(x, weight, target)


x, weight = torch.randn(TOKENS, 64, requires_grad=True), head.weight
values = [f(x, weight) for f in (plain_head, chunked_head)]
gradients = [grad(value, (x, weight)) for value in values]
same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients, strict=True)]
print("same loss:", torch.allclose(*values), " same gradients:", all(same))
for name, f in (("plain", plain_head), ("chunked", chunked_head)):
    print(f"{name:8} head: peak {peak_bytes(f, x, weight) / MiB:6.1f} MiB")


# %% [markdown]
# And the step?


# %%
def step_chunked(words, target):
    return ChunkedLoss.apply(blocks(embedding(words)), head.weight, target)


fits(step_chunked)

# %% [markdown]
# From 132 to 47. What is left belongs to the blocks, and there no single tensor is to blame. For
# that we need to know more exactly what is kept. We come back to the card at the end, and to
# `ChunkedLoss` too: it has a secret.

# %% [markdown]
# ## What is kept, by whom, until when
#
# A backward formula needs numbers from forward. Each node of the graph holds on to its own, and
# the graph holds on to its nodes. *By whom* can be asked of the engine: `saved_tensors_hooks` calls
# the first of two functions for each tensor that a node saves, and the second when backward wants
# it back. Whatever the first returns is kept in the tensor's place.

# %%
up = nn.Linear(64, 256)
x = torch.randn(256, 64, requires_grad=True)


def packed(tensor):
    print(f"  keep     {tuple(tensor.shape)!s:11} {tensor.nbytes // KiB:4} KiB")
    return tensor


def unpacked(tensor):
    print(f"  give back {tuple(tensor.shape)}")
    return tensor


with saved_tensors_hooks(packed, unpacked):
    print("h = up(x)")
    h = up(x)
    print("y = h * sigmoid(h)")
    y = h * torch.sigmoid(h)
print("backward")
y.sum().backward()

# %% [markdown]
# The linear layer keeps $x$ and, transposed, its weight; both exist anyway. The sigmoid keeps its
# output, the product both factors. Read closely: five are kept, but the sigmoid's output is two of
# them, one tensor kept by two nodes. So what swish costs is $h$ and $\sigma(h)$, 256 KiB each.
# Honest counting goes by *storages*, the blocks of memory that tensors look at, and takes each
# once.
#
# *Until when:* each is released as soon as backward has passed its node; with `retain_graph=True`
# it is not. And a graph through which no backward ever goes keeps everything as long as its result
# lives: a list of validation losses, computed without `no_grad` and never reduced by `.item()`,
# fills any card.
#
# **Common belief: "`del h` frees the memory."** It takes away your name for it; the graph keeps its
# own.


# %%
def tidy(x):
    h = up(x)
    y = h * torch.sigmoid(h)
    del h
    return y


def untidy(x):
    h = up(x)
    return h * torch.sigmoid(h)


print("kept with del:   ", kept_bytes(tidy, x) // KiB, "KiB")
print("kept without del:", kept_bytes(untidy, x) // KiB, "KiB")

# %% [markdown]
# The hooks are also a lever, since they may keep something else. Half precision, for example, or a
# copy in the main memory of the host (`torch.autograd.graph.save_on_cpu`). Nothing is free. Here
# the gradient pays with digits; and since the hook packs whatever it is shown, one tensor at a
# time, $\sigma(h)$ is kept twice, and $x$ and the weight are copied, which exist anyway. Half
# precision does not halve the 512 KiB:


# %%
def in_half(x):
    with saved_tensors_hooks(lambda t: (t.bfloat16(), t.dtype), lambda kept: kept[0].to(kept[1])):
        return untidy(x)


(exact,), (rough,) = (grad(f(x).sum(), x) for f in (untidy, in_half))
error = (rough - exact).norm() / exact.norm()
print("same gradient:", torch.allclose(exact, rough), f" within 1 %: {error < 0.01}")
print("kept:", kept_bytes(in_half, x) // KiB, "KiB")

# %% [markdown]
# ## Measuring honestly
#
# *Extra: for readers who measure the memory of their own code. In short: a boolean takes a byte, a
# view keeps the whole tensor that it looks at, `kept_bytes` is what waits for backward, and
# `peak_bytes` decides whether the step fits.*
#
# Two mistakes are common when people count bytes.
#
# **Common belief: "a boolean mask costs one bit an element."** A `torch.bool` takes a byte. A mask
# is a quarter of a float32, not a thirty-second.

# %%
mask = x > 0
print("elements:", mask.numel(), " bytes:", mask.nbytes)

# %% [markdown]
# **Common belief: "I keep only a slice, so I keep little."** A view has no memory of its own. Who
# keeps it keeps the storage that it looks at, all of it.


# %%
class FirstColumn(Function):
    """y = exp(2·x₀), with x₀ the first of 64 columns; saves a column of an intermediate."""

    @staticmethod
    def forward(ctx, x, copy):
        column = torch.exp(2 * x)[:, 0]
        ctx.save_for_backward(column.clone() if copy else column)
        return column.clone()

    @staticmethod
    def backward(ctx, grad_output):
        (column,) = ctx.saved_tensors
        grad_x = grad_output.new_zeros(len(column), 64)
        grad_x[:, 0] = 2 * column * grad_output
        return grad_x, None


for copy in (False, True):
    print(f"copy={copy!s:5}  kept: {kept_bytes(FirstColumn, x, copy):6,} bytes")

# %% [markdown]
# `tensor.nbytes` says 1,024 in both cases. `kept_bytes` counts storages, and it counts what is
# *still alive* when the results have been dropped, so that a tensor hidden on `ctx` does not escape
# it either. It leaves out what was there before: inputs and parameters.
#
# Two numbers, then, and they answer two questions:
#
# | | |
# | --- | --- |
# | `kept_bytes` | what waits between forward and backward: adds up over the layers |
# | `peak_bytes` | the most at any moment: decides whether it fits |
#
# On a GPU the allocator knows the peak. This cell asks it, if there is one:

# %% tags=["nbval-ignore-output"]
if torch.cuda.is_available():
    torch.cuda.reset_peak_memory_stats()
    torch.randn(1024, 1024, device="cuda").square().sum()
    print(torch.cuda.max_memory_allocated() // KiB, "KiB at most")
else:
    print("no GPU here; torch.cuda.max_memory_allocated() would answer")

# %% [markdown]
# ## Keep something smaller
#
# What does the backward of a ReLU need? The sign of each input. There are four ways to keep it.


# %%
class ReLU(Function):
    """y = max(x, 0); keep says from what backward learns where x was positive."""

    @staticmethod
    def forward(ctx, x, keep):
        y, mask = x.clamp(min=0), x > 0
        ctx.keep, ctx.shape = keep, x.shape
        ctx.save_for_backward({"input": x, "output": y, "mask": mask, "bits": pack(mask)}[keep])
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (kept,) = ctx.saved_tensors
        positive = unpack(kept, ctx.shape) if ctx.keep == "bits" else kept > 0
        return grad_output * positive, None


def pack(mask):
    """Eight elements in one byte; the last byte is filled up with zeros."""
    flat = mask.reshape(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % 8)]).reshape(-1, 8)
    return (padded * powers(mask.device)).sum(1, dtype=torch.uint8)


def unpack(packed, shape):
    bits = (packed[:, None] & powers(packed.device)).ne(0)
    return bits.reshape(-1)[: shape.numel()].reshape(shape)


def powers(device):
    return 2 ** torch.arange(8, dtype=torch.uint8, device=device)  # 1, 2, 4, … 128


# %% [markdown]
# Measured twice: alone, behind a doubling whose result nobody else keeps; and between two linear
# layers, as a ReLU stands in a network. That makes a difference, because the next layer keeps its
# input, and its input *is* the ReLU's output.

# %%
down = nn.Linear(256, 64)
for keep in ("input", "output", "mask", "bits"):
    alone = kept_bytes(lambda x, keep=keep: ReLU.apply(2 * x, keep), x)
    inside = kept_bytes(lambda x, keep=keep: down(ReLU.apply(up(x), keep)), x)
    print(f"keeps {keep:6}  alone {alone / KiB:5.0f} KiB   between layers {inside / KiB:4.0f} KiB")

# %% [markdown]
# Between layers the output costs nothing more: 256 KiB are kept for the next layer anyway, and
# the ReLU keeps the same storage. (`torch.relu` does so.) Packed bits are the best you can do where
# nobody keeps the output: in front of a residual addition, or for the mask of a dropout. Ask, in
# this order:
#
# 1. Does the *output* determine the derivative, and will the next layer keep it?
# 2. Does something *smaller* suffice: a sign, a mask, indices, one number a row?
# 3. Can it be *computed again* from what is kept anyway?
#
# Swish is a case for the third. Its derivative needs $h$ and $\sigma(h)$, and the output determines
# neither ($h\,\sigma(h)$ falls before it rises). But $\sigma(h)$ is cheap:


# %%
class Swish(Function):
    """y = h·σ(h), σ = logistic; ∂L/∂h = (σ + y(1 - σ))·∂L/∂y. Keeps h alone."""

    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        return h * torch.sigmoid(h)

    @staticmethod
    def backward(ctx, grad_output):
        (h,) = ctx.saved_tensors
        s = torch.sigmoid(h)
        return grad_output * (s + h * s * (1 - s))


print("h * sigmoid(h):", kept_bytes(untidy, x) // KiB, "KiB")
print("Swish:         ", kept_bytes(lambda x: Swish.apply(up(x)), x) // KiB, "KiB")
diagnose(Swish, (torch.linspace(-2, 2, 6, dtype=torch.float64),))

# %% [markdown]
# (`nn.functional.silu` is this Function, built in. What follows has no built-in.)
#
# A hand-written backward is not leaner by itself. Autograd keeps nothing for an addition, and its
# backward runs no operation, so a Function `MyAdd` cannot save anything. The built-in `gelu` keeps
# only its input and runs one operation each way. A GELU composed of `erf` and products keeps three
# tensors, and there a Function that keeps only the input pays. So look for a built-in first, and
# measure with `kept_bytes` before you write your own.
#
# ### Checkpoint 1
#
# A dropout mask for 1000 rows of 100 elements. How many bytes does it take packed?

# %%
mask = torch.rand(1000, 100) > 0.1

predict(..., pack(mask).nbytes)

# %% [markdown]
# <details><summary>Why</summary>
#
# 100,000 elements, eight to a byte: 12,500. As `torch.bool` they would take 100,000, as float32
# 400,000.
#
# </details>
#
# ### Fuse what stands together
#
# Two neighbors in one Function can share. `relu(linear(x))` fused can work *in place* on the linear
# layer's result, so that forward makes one tensor rather than two. That is allowed inside a
# Function: the tensor is its own, and nobody else has seen it. (Changing an *input* in place is
# another matter, with rules of its own: lesson 02.) `relu(a + b)` fused works in place on the sum
# in the same way, and keeps packed bits, as above; the addition keeps nothing.
#
# The course's package has both, as `LinearReLU` and `AddReLU`; you will write the first in the
# exercises.

# %%
a, b = torch.randn(2, 256, 256)
h, weight, bias = torch.randn(256, 64), torch.randn(256, 64), torch.randn(256)


def linear_then_relu(x, weight, bias):
    return torch.relu(linear(x, weight, bias))


print(f"relu(a + b)     {kept_bytes(lambda a, b: torch.relu(a + b), a, b) // KiB:4} KiB kept")
print(f"AddReLU         {kept_bytes(AddReLU, a, b) // KiB:4} KiB kept")
for name, f in (("relu(linear(x))", linear_then_relu), ("LinearReLU", LinearReLU)):
    print(f"{name:15} {peak_bytes(f, h, weight, bias, backward=False) // KiB:4} KiB in forward")

# %% [markdown]
# #### A batch norm that is no layer
#
# *Extra: for readers who want to save memory by algebra alone. No exercise needs this section.*
#
# And a batch norm in eval mode is no layer at all: its mean $\mu$ and deviation $s$ are fixed, so
# it multiplies and adds, which the convolution before it can do as well:
#
# $$\frac{Wx + b - \mu}{s}\,\gamma + \beta \;=\; W'x + b', \qquad W' = \frac{\gamma}{s} W, \quad
# b' = \frac{\gamma}{s}(b - \mu) + \beta .$$

# %%
conv, norm = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16)
images = torch.randn(8, 3, 32, 32)
norm(conv(images))  # one batch, so that the running statistics are not the initial ones
norm.eval()


def folded(images):
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    bias = scale * (conv.bias - norm.running_mean) + norm.bias
    return torch.conv2d(images, scale[:, None, None, None] * conv.weight, bias)


print("same:", torch.allclose(norm(conv(images)), folded(images), atol=1e-5))
print(f"conv, then norm: {kept_bytes(lambda i: norm(conv(i)), images) // KiB:4} KiB kept")
print(f"folded:          {kept_bytes(folded, images) // KiB:4} KiB kept")

# %% [markdown]
# No Function was needed: written like this, autograd differentiates the folded weight back to
# $W$, $\gamma$ and $\beta$. First look for the algebra.

# %% [markdown]
# ## Compute it again
#
# What Swish does with one sigmoid can be done with a whole block: keep its *input* only, forget
# everything else, and run the block a second time when backward comes by. This is called
# *checkpointing*. Forward runs without a graph; backward builds the graph of this one block, goes
# back through it, and drops it:


# %%
class Again(Function):
    """y = block(x); backward computes it once more. A first attempt, with four faults."""

    @staticmethod
    def forward(ctx, x, block):
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()  # a leaf: the graph built here begins at it
        with torch.enable_grad():  # off in backward, as in forward
            y = ctx.block(x)
        return grad(y, x, grad_output)[0], None


block = Block().eval()
x = torch.randn(TOKENS, 64, requires_grad=True)
(one,), (two,) = grad(block(x).sum(), x), grad(Again.apply(x, block).sum(), x)
print("same gradient for x:", torch.allclose(one, two, atol=1e-6))
small, row = nn.Linear(3, 2).double(), torch.randn(3, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Again.apply, (row, small)))
print(f"block: {kept_bytes(block, x) / MiB:.1f} MiB kept")
print(f"Again: {kept_bytes(Again, x, block) / MiB:.1f} MiB kept")

# %% [markdown]
# From 3.3 MiB to nothing, and `gradcheck` passes. The four faults are elsewhere.
#
# **Common belief: "the parameters get their gradients inside."** `grad(y, x, …)` asks for $x$
# alone. And were they asked for, backward would have nowhere to return them: to the engine, this
# Function has the inputs `x` and `block`, and the second is no tensor.

# %%
block.zero_grad()
Again.apply(x, block).sum().backward()
print("gradients of parameters:", {p.grad for p in block.parameters()})

# %% [markdown]
# `None`: this block never trains, and nothing says so. The parameters must be *inputs* of the
# Function, `Again.apply(x, block, *block.parameters())`, and backward returns a gradient for each.
#
# **Common belief: "the same function on the same input gives the same output."** Not if it draws
# random numbers.

# %%
dropout, ones = nn.Dropout(0.5), torch.ones(8, requires_grad=True)
torch.manual_seed(0)
y = Again.apply(ones, dropout)
y.sum().backward()
print("forward multiplied by ", y.tolist())
print("backward multiplied by", ones.grad.tolist())

# %% [markdown]
# The second run draws a mask of its own, and the gradient belongs to a network that was never run.
# Nothing is raised. So the state of the random number generator must be kept
# (`torch.get_rng_state()`), and put in force for the second run (inside `torch.random.fork_rng()`,
# which gives the present state back afterwards).
#
# **Common belief: "recomputing has no side effects."** A batch norm in training mode counts:

# %%
norm = nn.BatchNorm1d(64)
Again.apply(x, norm).sum().backward()
print("one batch, counted", norm.num_batches_tracked.item(), "times")

norm = nn.BatchNorm1d(64)
torch_checkpoint.checkpoint(norm, x, use_reentrant=False).sum().backward()
print("torch.utils.checkpoint:", norm.num_batches_tracked.item(), "times")

# %% [markdown]
# The running mean moves almost twice as far as `momentum` says. PyTorch's own checkpoint leaves
# that to you as well; the course's, `autograd_course.functions.checkpoint`, puts buffers back.
#
# ### The fourth fault
#
# *Extra: for readers who use checkpoints under autocast. A table compares all four faults.*
#
# **Common belief: "backward runs under the same settings as forward."** *Autocast*, which lets
# matrix products compute in half precision, is such a setting: it holds inside a `with` block, and
# backward mostly runs outside of it. Then the second run computes in float32 what the first
# computed in bfloat16. All four faults, with three ways side by side:


# %%
def trains(run):
    layer = nn.Linear(64, 1)
    run(layer, x).sum().backward()
    return layer.weight.grad is not None


def same_mask(run):
    ones = torch.ones(64, requires_grad=True)
    y = run(nn.Dropout(0.5), ones)
    return torch.equal(grad(y.sum(), ones)[0], y)


def batches_counted(run):
    norm = nn.BatchNorm1d(64)
    run(norm, x).sum().backward()
    return norm.num_batches_tracked.item()


def same_precision(run):
    layer, seen = nn.Linear(64, 1), []
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        y = run(nn.Sequential(layer, nn.Sigmoid()), x)
    y.sum().backward()
    return seen == [torch.bfloat16, torch.bfloat16]  # of the first run and of the second


# %%
ways = {
    "a first attempt": lambda module, x: Again.apply(x, module),
    "torch's checkpoint": lambda m, x: torch_checkpoint.checkpoint(m, x, use_reentrant=False),
    "course's checkpoint": checkpoint,
}
print(f"{'':20} trains   same mask   batches counted   same precision")
for name, run in ways.items():
    told = f"{trains(run)!s:8} {same_mask(run)!s:11} {batches_counted(run):<17}"
    print(f"{name:20} {told} {same_precision(run)}")

# %% [markdown]
# ## How many segments
#
# A network can be checkpointed as a whole, or cut into *segments*, each with a checkpoint of its
# own. **Common belief: "best as a whole, then nothing is kept."** Nothing is kept *between* the
# passes. But backward begins by running the whole segment again, and at that moment all of its
# graph exists after all.
#
# Four layers of linear and swish, kept in four ways. Choose one in the table and play it: forward
# fills, backward drains. With four segments, each tooth in backward is a segment that runs again.
# The red dashed line is a budget of 384 KiB. The peak in the table is that of what is *kept*; what
# `peak_bytes` counts besides, gradients and momentary results, comes with the checkbox.

# %%
layers = [nn.Linear(128, 128) for _ in range(4)]


def composed(x, part=slice(0, 4)):
    for layer in layers[part]:
        h = layer(x)
        x = h * torch.sigmoid(h)
    return x


def keeps_h(x):
    for layer in layers:
        x = Swish.apply(layer(x))
    return x


def four_segments(x):
    for i, layer in enumerate(layers):
        x = checkpoint(composed, x, part=slice(i, i + 1), uses=[layer])
    return x


def one_segment(x):
    return checkpoint(composed, x, uses=layers)


variants = {
    "composed": composed,
    "Swish keeps h": keeps_h,
    "4 segments": four_segments,
    "1 segment": one_segment,
}
memory_timeline(variants, torch.randn(128, 128), budget=384 * KiB)

# %% [markdown]
# (`composed` is no module, so the course's `checkpoint` must be told by `uses` which parameters it
# reaches. If it reaches one that it was not told of, backward raises.)
#
# Only four segments stay under the line. One segment waits with nothing in its hands, and then
# needs as much as if there were no checkpoint. With $n$ layers in $k$ segments, $k$ inputs are
# kept, and the segment that is at work has $n/k$ layers:
#
# $$\text{memory} \sim k + \frac{n}{k}, \qquad \text{least at } k = \sqrt n .$$
#
# ### Thirty-six layers
#
# *Extra: for readers who want to see the formula measured. A checkpoint costs a third more work,
# for any $k$.*
#
# Thirty-six layers, measured:

# %%
deep = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(36)]
x = torch.randn(2048, 32)
counts = (1, 2, 3, 4, 6, 9, 12, 18, 36)


def in_segments(k):
    size = len(deep) // k
    parts = [nn.Sequential(*deep[begin : begin + size]) for begin in range(0, len(deep), size)]

    def run(x):
        for part in parts:
            x = checkpoint(part, x)
        return x

    return run


without = peak_bytes(nn.Sequential(*deep), x)
peaks = {k: peak_bytes(in_segments(k), x) for k in counts}
print(f"no checkpoint: {without / MiB:4.1f} MiB")
for k in (1, 6, 36):
    print(f"{k:>2} segments:   {peaks[k] / MiB:4.1f} MiB")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.4) as (axes,):
    axes.axhline(without / MiB, color=GRAY, linestyle="--", linewidth=1)
    axes.plot(counts, [peaks[k] / MiB for k in counts], color=BLUE, marker="o")
    axes.set(
        title="36 layers in k segments",
        xlabel="k",
        ylabel="peak [MiB]",
        ylim=(0, 11.5),
        xscale="log",
    )
    axes.set_xticks(counts, [str(k) for k in counts])
    axes.minorticks_off()
    note(axes, "no checkpoint", (9, 10.1), GRAY)
    note(axes, "√36 = 6", (5.3, 2.3), BLUE)
    note(axes, "long segments run again", (1.45, 8.3), BLUE)
    note(axes, "many inputs kept", (10, 7.4), BLUE)

# %% [markdown]
# And the price? Count multiplications. (PyTorch's counter puts hooks on modules, which do not go
# together with a backward inside of a Function. So here it is PyTorch's checkpoint that is
# counted.)


# %%
def segmented(x):
    for begin in range(0, len(deep), 6):
        part = nn.Sequential(*deep[begin : begin + 6])
        x = torch_checkpoint.checkpoint(part, x, use_reentrant=False)
    return x


def work(run):
    with FlopCounterMode(display=False) as counter:
        y = run(x)
        forward = counter.get_total_flops()
        y.sum().backward()
    return counter.get_total_flops() / forward


x.requires_grad_()
print(f"no checkpoint: {work(nn.Sequential(*deep)):.1f} forwards")
print(f"6 segments:    {work(segmented):.1f} forwards")

# %% [markdown]
# Backward costs two forwards, so the second run makes four out of three: a third more work, for any
# $k$.
#
# ### Checkpoint 2
#
# One hundred layers, each with an output of 1 MiB, in 5 segments. By the formula above, how many
# MiB are needed: 5 inputs that are kept, and the outputs of the segment that runs again?

# %%
layers_in_all, segments = 100, 5

predict(..., segments + layers_in_all / segments)

# %% [markdown]
# <details><summary>Why</summary>
#
# 5 inputs and 100/5 = 20 outputs: 25 MiB. Ten segments would need 10 + 10 = 20, no checkpoint 100.
#
# </details>

# %% [markdown]
# ## Invert instead of keeping
#
# *Extra: exercise 3 needs this section. The memory of networks that are built of couplings does not
# have to grow with their depth.*
#
# A checkpoint keeps its input. What if the input could be had from the *output*? Split the
# activations into halves, and let each half be changed by the other one only, by addition:
#
# $$y_1 = x_1 + F(x_2), \quad y_2 = x_2 + G(y_1) \qquad\Longrightarrow\qquad x_2 = y_2 - G(y_1),
# \quad x_1 = y_1 - F(x_2) .$$
#
# $F$ and $G$ may be any networks; they are never inverted, only run again. A stack of such
# *couplings* keeps its last outputs, whatever its depth: backward walks down, and at each step
# subtracts to get what it stood on.


# %%
def pulled(module, x, g):
    """Run a module again: its value, the gradient for x, those for the parameters."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = module(x)
        grad_x, *rest = grad(y, (x, *module.parameters()), g)
    return y.detach(), grad_x, rest


class Reversible(Function):
    @staticmethod
    def forward(ctx, pairs, x1, x2, *parameters):
        for f, g in pairs:
            x1 = x1 + f(x2)
            x2 = x2 + g(x1)
        ctx.pairs = pairs  # holds the parameters; they are arguments so that gradients reach them
        ctx.save_for_backward(x1, x2)
        return x1, x2

    @staticmethod
    def backward(ctx, grad1, grad2):
        (y1, y2), found = ctx.saved_tensors, []
        for f, g in reversed(ctx.pairs):
            value, through_g, rest_g = pulled(g, y1, grad2)
            y2, grad1 = y2 - value, grad1 + through_g
            value, through_f, rest_f = pulled(f, y2, grad1)
            y1, grad2 = y1 - value, grad2 + through_f
            found = [*rest_f, *rest_g, *found]
        return None, grad1, grad2, *found


# %% [markdown]
# Read the gradients with the formulas beside them: $x_2$ reaches the loss through $y_2$ and through
# $F$, and $y_1$ through $y_2$'s $G$ as well, so each gradient collects twice.


# %%
def pairs_of(depth, dtype=torch.float32):
    def half():
        return nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32)).to(dtype)

    return [(half(), half()) for _ in range(depth)]


def ordinary(pairs, x1, x2):
    for f, g in pairs:
        x1 = x1 + f(x2)
        x2 = x2 + g(x1)
    return x1, x2


def reversible(pairs, x1, x2):
    return Reversible.apply(pairs, x1, x2, *parameters_of(pairs))


def parameters_of(pairs):
    return [p for pair in pairs for half in pair for p in half.parameters()]


x1, x2 = torch.randn(2, 512, 32)
pairs = pairs_of(4)
one, two = (
    grad(sum(y.sum() for y in f(pairs, x1, x2)), parameters_of(pairs))
    for f in (ordinary, reversible)
)
close = (torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(one, two, strict=True))
print("same gradients:", all(close))
for depth in (1, 4, 16):
    pairs = pairs_of(depth)
    kept = [kept_bytes(f, pairs, x1, x2) // KiB for f in (ordinary, reversible)]
    print(f"{depth:>2} couplings: ordinary {kept[0]:5} KiB kept, reversible {kept[1]} KiB")

# %% [markdown]
# Constant in depth. **Common belief: "invertible in theory is invertible in the machine."** The
# subtraction gives back $x_2$ up to rounding, each coupling starts from the error of the one above,
# and the gradients are computed at the reconstructed points. So measure the drift:


# %%
def drift(depth, dtype, scale):
    torch.manual_seed(0)
    pairs = pairs_of(depth, dtype)
    with torch.no_grad():
        for p in parameters_of(pairs):
            p.mul_(scale)
        x1, x2 = torch.randn(2, 64, 32).to(dtype)
        y1, y2 = ordinary(pairs, x1, x2)
        for f, g in reversed(pairs):
            y2 = y2 - g(y1)
            y1 = y1 - f(y2)
    return ((y1 - x1).norm() / x1.norm()).item()


for dtype, scale, bound in (
    (torch.float64, 1, 1e-13),
    (torch.float32, 1, 1e-5),
    (torch.float32, 4, 1e-5),
):
    error = drift(32, dtype, scale)
    print(f"{dtype!s:14} weights × {scale}: relative error below {bound:g}: {error < bound}")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.4) as (axes,):
    depths = (1, 2, 4, 8, 16, 32, 64)
    for dtype, scale, color, name, at in (
        (torch.float64, 1, GREEN, "float64", (20, 3e-14)),
        (torch.float32, 1, BLUE, "float32", (20, 5e-6)),
        (torch.float32, 4, ORANGE, "float32, weights four times as large", (1, 1e-2)),
    ):
        axes.loglog(depths, [drift(d, dtype, scale) for d in depths], color=color, marker="o")
        note(axes, name, at, color)
    axes.set(title="error of the reconstructed input", xlabel="couplings", ylabel="relative error")
    axes.set_xticks(depths, [str(d) for d in depths])
    axes.minorticks_off()

# %% [markdown]
# Well-behaved weights: nothing to fear. Large ones amplify whatever error there is, at each
# coupling anew. And as everywhere where something runs again: no dropout without its state, no
# batch norm that counts twice. `Reversible` cares for neither; `autograd_course.functions.coupled`
# does.

# %% [markdown]
# ## Never build it, and the price of being early
#
# *Extra: exercise 5 and checkpoint 3 need this section. It explains how `ChunkedLoss` works.*
#
# Back to `ChunkedLoss`. Its gradients are computed in `forward`, before any `grad_output` exists.
# How can that be right? Because the loss is *one number*: whatever comes after it, $\partial
# L/\partial x = g \cdot \partial \ell/\partial x$ with a single scalar $g$, and backward multiplies
# by it.
#
# **Common belief: "then the loss of each row can be computed that way too."** With one loss a row,
# $g$ has an entry for each row. For $x$ that is no harm: row $i$ of the gradient belongs to $g_i$.
# But $\partial L/\partial W = \sum_i g_i\, (p_i - \text{one-hot}_i)\, x_i^\top$ is a sum over rows,
# and in a sum that is already added up, the terms can no longer be weighted.


# %%
class EarlyRows(Function):
    """A cross entropy for each row, with the gradients of their plain sum. Wrong for the weight."""

    @staticmethod
    def forward(ctx, x, weight, target):
        logits = x @ weight.t()
        slope = torch.softmax(logits, 1)
        slope[torch.arange(len(x)), target] -= 1
        ctx.save_for_backward(slope @ weight, slope.t() @ x)
        return cross_entropy(logits, target, reduction="none")

    @staticmethod
    def backward(ctx, grad_output):
        grad_x, grad_weight = ctx.saved_tensors
        return grad_output[:, None] * grad_x, grad_output.mean() * grad_weight, None


def rows(x, weight, target):
    return cross_entropy(x @ weight.t(), target, reduction="none")


torch.manual_seed(0)
x, weight = torch.randn(2, 4, 3, dtype=torch.float64)
diagnose(EarlyRows, (x, weight, torch.tensor([0, 3, 1, 2])), reference=rows)

# %% [markdown]
# With a loss of `.sum()` or `.mean()` behind it, every $g_i$ is the same and nobody notices; with
# padding masked out or samples weighted, the weight's gradient is wrong. The honest way for rows is
# to keep $x$, $W$, the target, and one number a row (the log of the sum), and to compute each
# chunk's logits *again* in backward, when $g$ is there. You will write it in the exercises.
#
# There is a second price: what has been computed early is a constant. A second derivative through
# `ChunkedLoss` is lost, as lesson 06 explains, and its backward should refuse one:


# %%
class HonestChunkedLoss(ChunkedLoss):
    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("ChunkedLoss cannot be differentiated twice")
        return ChunkedLoss.backward(ctx, grad_output)


x = torch.randn(TOKENS, 64, requires_grad=True)
loss = HonestChunkedLoss.apply(x, head.weight, target)
try:
    grad(loss, x, create_graph=True)
except RuntimeError as error:
    print(error)

# %% [markdown]
# ### Checkpoint 3
#
# Yours to finish: $y = |x|$, of which backward needs the signs, kept as packed bits by the two
# helpers from above. Run the cell, then repair the last line of `backward`.


# %%
class Absolute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(pack(x > 0))
        ctx.shape = x.shape
        return x.abs()

    @staticmethod
    def backward(ctx, grad_output):
        (bits,) = ctx.saved_tensors
        positive = unpack(bits, ctx.shape)
        return grad_output * positive


diagnose(Absolute, (torch.tensor([-2.0, -0.5, 0.5, 1.0], dtype=torch.float64),))

# %% [markdown]
# <details><summary>Why</summary>
#
# A product with a mask gives 0 where $x < 0$; the slope there is −1. So `torch.where(positive,
# grad_output, -grad_output)`. Thirty-two times less memory than keeping $x$.
#
# </details>

# %% [markdown]
# ## What to use in practice
#
# Use `torch.utils.checkpoint.checkpoint(fn, x, use_reentrant=False)`. It is no Function: it lets
# the block record its graph as always, and by saved-tensor hooks puts a placeholder in the place
# of each saved tensor. The first that backward asks for makes it run the block again, which fills
# all of them. So it finds the parameters by itself, and restores random state and autocast.
#
# ### For large vocabularies
#
# *Reference: use this chunked head if your model has a large vocabulary.*
#
# For heads with large vocabularies the course's package has `linear_cross_entropy`: chunks of rows,
# any reduction, ignored targets, label smoothing. It computes early where the loss is one number,
# and again in backward where it is one a row.

# %%
x, row_weights = torch.randn(TOKENS, 64, requires_grad=True), torch.rand(TOKENS)


def weighted(losses):
    return (row_weights * losses).sum()


def plain_rows(x, weight):
    return weighted(cross_entropy(linear(x, weight), target, reduction="none"))


def chunked_rows(x, weight):
    return weighted(linear_cross_entropy(x, weight, target, reduction="none", chunk=64))


for name, f in (("cross_entropy(linear(…))", plain_rows), ("linear_cross_entropy", chunked_rows)):
    print(f"{name:24} {peak_bytes(f, x, head.weight) / MiB:5.1f} MiB at most")

# %% [markdown]
# ### Read once
#
# *Extra: for readers whose Functions run inside a checkpoint. In short: read `ctx.saved_tensors`
# once, on the first line.*
#
# PyTorch's checkpoint asks one thing of *your* Functions. **Common belief: "`ctx.saved_tensors`
# is an attribute like any other."** Each reading unpacks anew, and a placeholder can be redeemed
# once:


# %%
class ReadsTwice(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, 2 * x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        slope = ctx.saved_tensors[1]
        return grad_output * slope.to(ctx.saved_tensors[0].dtype)


x = torch.ones(3, requires_grad=True)
print("alone:           ", grad(ReadsTwice.apply(x).sum(), x)[0].tolist())
try:
    y = torch_checkpoint.checkpoint(ReadsTwice.apply, x, use_reentrant=False)
    grad(y.sum(), x)
except torch_checkpoint.CheckpointError as error:
    print("under checkpoint:", str(error).split(". ")[0].removeprefix("torch.utils.checkpoint: "))

# %% [markdown]
# So unpack once, on the first line: `x, slope = ctx.saved_tensors`.
#
# *Selective* checkpointing chooses by operation: keep the results of what is expensive (matrix
# products; `addmm` is that of a linear layer), compute again what is cheap (everything element by
# element).

# %%
KEEP = torch_checkpoint.CheckpointPolicy.MUST_SAVE
AGAIN = torch_checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


def policy(ctx, operation, *args, **kwargs):
    return KEEP if operation is torch.ops.aten.addmm.default else AGAIN


def contexts():
    return torch_checkpoint.create_selective_checkpoint_contexts(policy)


def full(x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=False)


def selective(x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=False, context_fn=contexts)


block, x = Block(), torch.randn(TOKENS, 64)
for name, f in (("no checkpoint", block), ("selective", selective), ("checkpoint", full)):
    print(f"{name:13}: {kept_bytes(f, x) / MiB:4.2f} MiB kept")

# %% [markdown]
# ## The step, once more
#
# All of it together: the chunked head, a swish that keeps one tensor, and a checkpoint around each
# block. (One block is one segment here: inside it are half a dozen tensors, at its entrance one.)


# %%
class LeanBlock(Block):
    def forward(self, x):
        return x + self.down(self.dropout(Swish.apply(self.up(self.norm(x)))))


lean = nn.Sequential(*[LeanBlock() for _ in blocks])
lean.load_state_dict(blocks.state_dict())


def step_lean(words, target):
    return ChunkedLoss.apply(lean(embedding(words)), head.weight, target)


def step_checkpointed(words, target):
    x = embedding(words)
    for block in lean:
        x = torch_checkpoint.checkpoint(block, x, use_reentrant=False)
    return ChunkedLoss.apply(x, head.weight, target)


steps = {
    "plain": step,
    "+ chunked head": step_chunked,
    "+ swish keeps h": step_lean,
    "+ checkpoints": step_checkpointed,
}
at_most = {name: peak_bytes(f, words, target) / MiB for name, f in steps.items()}
for name, peak in at_most.items():
    print(f"{name:15} {peak:6.1f} MiB")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=2.9) as (axes,):
    for place, peak in enumerate(at_most.values()):
        color = GREEN if peak <= CARD / MiB else ORANGE
        axes.barh(-place, peak, color=color, height=0.6)
        note(axes, f"{peak:.0f} MiB", (max(peak, CARD / MiB) + 1.5, -place - 0.1), color)
    axes.axvline(CARD / MiB, color=GRAY, linestyle="--", linewidth=1)
    note(axes, "the card", (17.5, -2.58), GRAY)
    axes.set_yticks([0, -1, -2, -3], list(at_most))
    axes.set(title="one training step", xlabel="peak [MiB]", xlim=(0, 150))

# %% [markdown]
# It fits, with the full batch. And it is the same step: from the same random state, the same loss
# and the same gradients, in every parameter.


# %%
def all_gradients(step, model):
    torch.manual_seed(1)
    loss = step(words, target)
    parameters = [*model.parameters(), *embedding.parameters(), *head.parameters()]
    return loss, grad(loss, parameters)


first_loss, first = all_gradients(step, blocks)
last_loss, last = all_gradients(step_checkpointed, lean)
print("same loss:", torch.allclose(first_loss, last_loss))
pairs = zip(first, last, strict=True)
print("same gradients:", all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in pairs))

# %% [markdown]
# ## Do you know it?
#
# Ten questions. A wrong answer explains itself; try again.

# %%
knowledge_check("07")

# %% [markdown]
# ## Summary
#
# ```python
# class Checkpointed(torch.autograd.Function):     # in practice: torch.utils.checkpoint
#     @staticmethod
#     def forward(ctx, run, x, *parameters):        # parameters are inputs, or they never train
#         ctx.run, ctx.state = run, ...             # random state, autocast, as forward found them
#         ctx.save_for_backward(x, *parameters)
#         return run(x)                             # grad mode is off: nothing is recorded
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         x, *parameters = ctx.saved_tensors        # read once
#         x = x.detach().requires_grad_()           # a leaf
#         with ..., torch.enable_grad():            # random state restored, grad mode on
#             y = ctx.run(x)
#         return None, *torch.autograd.grad(y, (x, *parameters), grad_output)
#
# kept_bytes(f, x)     # what waits for backward
# peak_bytes(f, x)     # what decides whether it fits
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | keeps | costs |
# | --- | --- | --- |
# | output instead of input | nothing of its own, if the next layer keeps it | nothing |
# | boolean mask | a byte an element | nothing |
# | packed mask | a bit an element | packing |
# | fused neighbors | what both can share | a formula to derive and test |
# | recompute inside (Swish) | the input | cheap operations twice |
# | checkpoint, $k$ of $n$ layers | $k + n/k$, least at $\sqrt n$ | one more forward |
# | selective checkpoint | the expensive results | the cheap part of a forward |
# | invertible | the last output, at any depth | one more forward, rounding drift |
# | chunks, gradients in forward | the gradients | scalar $g$ only; no second derivative |
# | chunks, again in backward | inputs and one number a row | the logits twice |

# %% [markdown] tags=["cheat-sheet"]
# | running twice | must restore or avoid |
# | --- | --- |
# | parameters | are inputs of the Function |
# | random numbers | state kept, and put in force for the second run |
# | buffers | batch norm counts again unless its buffers are put back |
# | autocast | the precision that forward ran in |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/07_memory_patterns.ipynb): a fused layer and a packed
# mask to a byte budget, a coupling that keeps its outputs, a checkpoint with dropout and
# parameters, and a cross entropy for each row that never builds the logits.
#
# [Lesson 08](08_attention_challenge.ipynb) puts all of it into one Function: attention without the
# attention matrix.
