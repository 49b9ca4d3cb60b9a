# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/07_memory_patterns.ipynb)
#
# # 07 · The same gradient in less memory
#
# **You will** reduce the memory of a training step from 132 MiB to less than 16 MiB. The loss and
# all gradients stay the same.
#
# **You will learn** which tensors autograd saves between forward and backward, how to count their
# bytes, and four ways to use less memory: save something smaller, recompute it, never build it, or
# reconstruct it from the output.
#
# **You need** [lesson 01](01_template.ipynb) and the separate `setup_context` of
# [lesson 02](02_ctx_rules.ipynb).
#
# **It takes** about 60 minutes; the *extra* sections take another 25. There are two
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
import torch
from torch import nn
from torch.autograd import Function, grad, gradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import cross_entropy, gelu, linear
from torch.utils import checkpoint as torch_checkpoint
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.functions import AddReLU, LinearReLU, checkpoint
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
    vote,
)
from autograd_course.visualize import knowledge_check, memory_timeline

KiB, MiB = 1024, 1024**2

# %% [markdown]
# ## A step that does not fit
#
# Here is one training step of a small language model. Each of 1024 tokens becomes a vector of 64
# numbers. Eight residual blocks transform these vectors, and the head computes a score for each of
# 8192 words. The parameters take 5 MiB, and our accelerator has 16 MiB for everything else. (A real
# accelerator has thousands of times more memory, and a real model needs it.)
#
# `peak_bytes` runs one forward and one backward pass. It returns the largest number of bytes that
# were in use at the same time. On the CPU it counts the memory of tensors, so every machine gives
# the same number.


# %% jupyter={"source_hidden": true}
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


# %%
def step(words, target):
    return cross_entropy(head(blocks(embedding(words))), target)


print(f"peak: {peak_bytes(step, words, target) / MiB:.1f} MiB of 16 MiB")
for kept in kept_tensors(step, words, target)[:4]:
    kind = "already resident (a parameter)" if kept.anyway else "saved for backward"
    print(f"{kept.bytes / MiB:5.1f} MiB  {kept.shape!s:13} {kind}")
print(f"{kept_bytes(step, words, target) / MiB:5.1f} MiB saved for backward in all")

# %% [markdown]
# The step needs eight times as much memory as we have. The usual answer is a smaller batch. But
# first look at the list. It shows the largest tensors that autograd saves in the forward pass
# because backward needs them. A parameter is *already resident*: it is in memory with or without
# this step. The other tensors are *saved activations*. The largest one takes 32 MiB. It has one
# number for every combination of the 1024 tokens and the 8192 words. The rest belongs to the
# blocks, and we start there.
#
# ## Save what the next layer saves
#
# The network below has a ReLU between two linear layers. The ReLU's backward needs to know where
# its input was positive. So this Function saves the input, `h`. `kept_bytes` counts the bytes of
# the saved activations.
#
# **Your turn.** The output of a ReLU is positive exactly where its input is. In `setup_context`,
# save `output` instead of `h`, and run the cell. How many KiB are still saved?


# %%
class ReLU(Function):
    """y = max(h, 0); ∂L/∂h = ∂L/∂y where h > 0, and 0 elsewhere."""

    @staticmethod
    def forward(h):
        return h.clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (h,) = inputs
        ctx.save_for_backward(h)  # save the output here

    @staticmethod
    def backward(ctx, grad_output):
        (saved,) = ctx.saved_tensors
        return grad_output * (saved > 0)


up, down = nn.Linear(64, 256), nn.Linear(256, 64)
x = torch.randn(256, 64, requires_grad=True)
print("saved:", kept_bytes(lambda x: down(ReLU.apply(up(x))), x) // KiB, "KiB")

# %% [markdown]
# The output of the ReLU is also the input of the layer `down`, and `down` saves its input anyway,
# because the gradient of its weight needs it. Both saved tensors have the same *storage*, which is
# the block of memory that holds their elements. `kept_bytes` counts each storage once, so the ReLU
# now adds nothing. (It does not count inputs and parameters, because they are already resident.)
# `torch.relu` also saves its output.
#
# ### Exercise 1: ELU from its output
#
# The ELU is $y = x$ for $x > 0$ and $y = \alpha\,(e^x - 1)$ elsewhere, with a positive number
# $\alpha$. Write it so that it saves the output and nothing else. How do you get the slope
# $\alpha e^x$ from $y$?


# %%
class ELU(Function):
    @staticmethod
    def forward(x, alpha):
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
grade("elu-by-output", ELU)

# %% [markdown]
# ## What autograd saves, and until when
#
# You can watch what autograd saves. `saved_tensors_hooks` takes two functions. Autograd calls the
# first function with each tensor that a node saves, and stores the result in place of the tensor.
# It calls the second function when backward reads the tensor.


# %%
def pack_hook(tensor):
    print(f"  save {tuple(tensor.shape)!s:11} {tensor.nbytes // KiB:4} KiB")
    return tensor


def unpack_hook(tensor):
    print(f"  read {tuple(tensor.shape)}")
    return tensor


with saved_tensors_hooks(pack_hook, unpack_hook):
    print("h = up(x)")
    h = up(x)
    print("y = h * sigmoid(h)")
    y = h * torch.sigmoid(h)
print("backward")
y.sum().backward()

# %% [markdown]
# The linear layer saves $x$ and its transposed weight. Both are already resident. The sigmoid saves
# its output, and the product saves both factors. The output of the sigmoid is one of these factors,
# so two nodes save the same tensor. So this swish needs two saved activations of 256 KiB each: $h$
# and $\sigma(h)$.
#
# Autograd releases the saved tensors of a node as soon as the backward pass has finished with this
# node, unless you pass `retain_graph=True`. Without a backward pass, they stay in memory as long as
# the result exists. For example, a list of validation losses can fill the memory if you compute
# them without `no_grad` and do not call `.item()`.
#
# Can you release `h` earlier yourself? Vote before you run the cell below. Some of the beliefs in
# this lesson are true.

# %%
vote("07", "del-frees-memory")


# %%
def with_del(x):
    h = up(x)
    y = h * torch.sigmoid(h)
    del h
    return y


def without_del(x):
    h = up(x)
    return h * torch.sigmoid(h)


print("with del:   ", kept_bytes(with_del, x) // KiB, "KiB saved")
print("without del:", kept_bytes(without_del, x) // KiB, "KiB saved")

# %% [markdown]
# `del h` removes only your reference. The graph has its own reference to the same tensor. (A hook
# can store something else in place of the tensor. For example, `torch.autograd.graph.save_on_cpu`
# stores a copy in the memory of the CPU.)
#
# ## Save something smaller
#
# If no other node saves the output, it costs as much as the input. In this case, save less than a
# float for each element. A ReLU needs only the sign of its input, so a boolean mask is enough. A
# `torch.bool` takes one byte, which is a quarter of a float32. You can also pack eight elements
# into one byte, so that each element takes one bit:


# %%
def powers(device):
    return 2 ** torch.arange(8, dtype=torch.uint8, device=device)  # 1, 2, 4, … 128


def pack(mask):
    """Return eight elements in one byte. The last byte is padded with zeros."""
    flat = mask.reshape(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % 8)])
    return (padded.reshape(-1, 8) * powers(mask.device)).sum(1, dtype=torch.uint8)


def unpack(packed, shape):
    """Return the mask of this shape."""
    bits = (packed[:, None] & powers(packed.device)) != 0
    return bits.reshape(-1)[: shape.numel()].reshape(shape)


class MaskReLU(ReLU):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output > 0)


class PackedReLU(ReLU):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(pack(output > 0))
        ctx.shape = output.shape

    @staticmethod
    def backward(ctx, grad_output):
        (packed,) = ctx.saved_tensors
        return grad_output * unpack(packed, ctx.shape)


# %% [markdown]
# The next cell measures each ReLU twice. First the ReLU is alone, and no other node saves its input
# or output. Then it is between two linear layers.


# %%
def measure(name, relu):
    alone = kept_bytes(lambda x: relu(2 * x), torch.randn(256, 256))
    inside = kept_bytes(lambda x: down(relu(up(x))), x)
    print(f"saves {name:7} alone {alone // KiB:4} KiB   between layers {inside // KiB:4} KiB")


measure("output", torch.relu)
measure("mask", MaskReLU.apply)
measure("bits", PackedReLU.apply)

# %% [markdown]
# Between two layers, the output costs nothing extra, so the masks only add bytes. If no other
# operation saves the output of the ReLU, the packed mask takes 1/32 as much memory as the output.
# Masks also help other operations. For `torch.maximum(a, b)`, autograd saves both inputs, although
# a mask of the elements with $a > b$ is enough.
#
# ### Checkpoint: a packed mask
#
# This dropout mask has 1000 rows of 100 elements. How many bytes does it take if you pack it?

# %%
mask = torch.rand(1000, 100) > 0.1

predict(..., pack(mask).nbytes)

# %% [markdown]
# <details><summary>Why</summary>
#
# There are 100,000 elements, and eight of them share a byte, so the mask takes 12,500 bytes. As
# `torch.bool` it would take 100,000, and as float32 400,000.
#
# </details>
#
# ### A view keeps the whole storage
#
# A slice looks small, but it is a *view*. It shares the storage of the tensor from which you took
# it. If you save a view, the whole storage stays in memory.

# %%
scores = torch.exp(x.detach())
column = scores[:, 0]
copy = column.clone()
for name, tensor in (("column", column), ("copy", copy)):
    print(f"{name:6} {tensor.nbytes:5} bytes in a storage of {tensor.untyped_storage().nbytes()}")

# %% [markdown]
# If you save `column`, all of `scores` stays in memory until backward. So save a copy instead.
# `kept_bytes` counts whole storages, so it shows the difference. A sum of `.nbytes` does not.
#
# We now have two measures. `kept_bytes` counts what is saved between forward and backward, and
# these bytes add up over the layers. `peak_bytes` tells you whether the step fits. In your own code
# on a GPU, `torch.cuda.max_memory_allocated()` returns the peak.

# %% [markdown]
# ## Recompute a cheap value
#
# The derivative of swish needs $h$ and $\sigma(h)$, and you cannot compute them from the output or
# from a mask. But $\sigma(h)$ is cheap to compute from $h$. So save $h$, and *recompute*
# $\sigma(h)$ in backward. The literature also calls this *rematerialization*.


# %%
class Swish(Function):
    """y = h·σ(h); ∂L/∂h = (σ + h·σ·(1 - σ))·∂L/∂y. Saves h only."""

    @staticmethod
    def forward(h):
        return h * torch.sigmoid(h)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (h,) = ctx.saved_tensors
        s = torch.sigmoid(h)
        return grad_output * (s + h * s * (1 - s))


print("gradcheck:", gradcheck(Swish.apply, torch.linspace(-2, 2, 5).double().requires_grad_()))
print("h * sigmoid(h):", kept_bytes(without_del, x) // KiB, "KiB saved")
print("Swish:         ", kept_bytes(lambda x: Swish.apply(up(x)), x) // KiB, "KiB saved")

# %% [markdown]
# (The built-in `torch.nn.functional.silu` does the same.)
#
# ### Exercise 2: SwiGLU
#
# Many language models use $y = a\,\sigma(a)\,b$ in their blocks. If you compose it from PyTorch
# operations, autograd saves four tensors: $a$, $\sigma(a)$, their product, and $b$. Write a
# Function that saves only $a$ and $b$.


# %%
class SwiGLU(Function):
    @staticmethod
    def forward(a, b):
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
grade("swiglu", SwiGLU)

# %% [markdown]
# ### Does a Function always save memory?
#
# So far, each Function has reduced the number of saved bytes. Does this always work?

# %%
vote("07", "addition-saves-nothing")


# %%
def composed_gelu(x):
    return x * 0.5 * (1 + torch.erf(x / 2**0.5))


a, b = torch.randn(2, 256, 64)
for name, saved in (
    ("a + b", kept_bytes(lambda a, b: 2 * a + 2 * b, a, b)),
    ("a * b", kept_bytes(lambda a, b: (2 * a) * (2 * b), a, b)),
    ("built-in gelu", kept_bytes(lambda a: gelu(2 * a), a)),
    ("composed gelu", kept_bytes(lambda a: composed_gelu(2 * a), a)),
):
    print(f"{name:14} {saved // KiB:4} KiB saved")

# %% [markdown]
# For a sum, autograd saves nothing, so no Function can save less. The built-in `gelu` saves only
# its input. A GELU composed of several operations saves three tensors, while a Function would save
# only one. So look for a built-in first, and measure with `kept_bytes` before you write your own.
# Sometimes algebra is enough. For example, a batch norm in eval mode only scales and shifts its
# input by fixed numbers. So you can fold it into the weights of the convolution before it.
#
# For each Function, ask these questions in this order:
#
# 1. Does the *output* determine the derivative, and does the next layer save it?
# 2. Is something *smaller* enough: a sign, a mask, indices, one number for each row?
# 3. Can backward *recompute* the value from what is saved anyway?
#
# ### Fuse two operations
#
# If one Function computes two operations, they can share memory. A fused `relu(linear(x))` applies
# the ReLU *in place* to the result of the linear layer. This is allowed, because the Function
# created this tensor and no other code uses it. (Lesson 02 has the rules for changing an *input* in
# place.) A fused `relu(a + b)` overwrites the sum in the same way, and saves packed bits. The
# course package contains both Functions.

# %%
a, b = torch.randn(2, 256, 256)
h, weight, bias = torch.randn(256, 64), torch.randn(256, 64), torch.randn(256)


def linear_then_relu(x, weight, bias):
    return torch.relu(linear(x, weight, bias))


print(f"relu(a + b)     {kept_bytes(lambda a, b: torch.relu(a + b), a, b) // KiB:4} KiB saved")
print(f"AddReLU         {kept_bytes(AddReLU, a, b) // KiB:4} KiB saved")
for name, f in (("relu(linear(x))", linear_then_relu), ("LinearReLU", LinearReLU)):
    peak = peak_bytes(f, h, weight, bias, backward=False)
    print(f"{name:15} {peak // KiB:4} KiB peak in forward")

# %% [markdown]
# ## Recompute a whole block
#
# You can also recompute a whole block. Save only the *input* of the block, and run the block again
# in backward. This is called *checkpointing*. Forward runs the block without a graph. Backward
# builds the graph of this one block, differentiates it, and drops it:


# %%
class Again(Function):
    """y = block(x); backward recomputes it. A first attempt, with four faults."""

    @staticmethod
    def forward(x, block):
        return block(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.block = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()  # a leaf: the graph built here begins with it
        with torch.enable_grad():  # grad mode is off in backward
            y = ctx.block(x)
        return grad(y, x, grad_output)[0], None


block = Block().eval()
x = torch.randn(TOKENS, 64, requires_grad=True)
(one,), (two,) = grad(block(x).sum(), x), grad(Again.apply(x, block).sum(), x)
print("same gradient for x:", torch.allclose(one, two, atol=1e-6))
small, row = nn.Linear(3, 2).double(), torch.randn(3, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Again.apply, (row, small)))
print(f"block: {kept_bytes(block, x) / MiB:.1f} MiB saved")
print(f"Again: {kept_bytes(Again, x, block) / MiB:.1f} MiB saved")

# %% [markdown]
# The saved activations go down from 3.3 MiB to nothing, and `gradcheck` passes. But `Again` has
# four faults.
#
# **The parameters.** The second run has grad mode on. Do the weights of the block get a gradient?

# %%
vote("07", "checkpoint-trains-parameters")

# %%
block.zero_grad()
Again.apply(x, block).sum().backward()
print("gradient of a weight:", block.up.weight.grad)

# %% [markdown]
# They do not, but PyTorch raises no error. `grad(y, x, …)` computes only the gradient of $x$. The
# inputs of this Function are `x` and `block`, and `block` is not a tensor. So you must also pass
# the parameters, as in `Again.apply(x, block, *block.parameters())`, and backward must return a
# gradient for each of them.
#
# **The random numbers.** Dropout draws new ones in the second run:

# %%
dropout, ones = nn.Dropout(0.5), torch.ones(8, requires_grad=True)
torch.manual_seed(0)
y = Again.apply(ones, dropout)
y.sum().backward()
print("forward multiplied by ", y.tolist())
print("backward multiplied by", ones.grad.tolist())

# %% [markdown]
# This is the gradient of a network that never ran, but again PyTorch raises no error. So forward
# must store the state of the random number generator with `torch.get_rng_state()`. Backward sets
# this state with `torch.set_rng_state()` before the second run. It does so inside
# `torch.random.fork_rng()`, which restores the current state afterwards.
#
# **The buffers.** A batch norm in training mode counts its batches:

# %%
norm = nn.BatchNorm1d(64)
Again.apply(x, norm).sum().backward()
print("Again:                 ", norm.num_batches_tracked.item(), "batches counted, 1 expected")

norm = nn.BatchNorm1d(64)
torch_checkpoint.checkpoint(norm, x, use_reentrant=False).sum().backward()
print("torch.utils.checkpoint:", norm.num_batches_tracked.item(), "batches counted, 1 expected")

# %% [markdown]
# So the running mean moves almost twice as far as it should. PyTorch's own checkpoint has the same
# effect. The course's `autograd_course.functions.checkpoint` restores the buffers.
#
# **Autocast.** Inside a block `with torch.autocast(…)`, matrix products run in half precision. The
# backward pass usually runs outside of this block. Then the first run computes in bfloat16, but the
# second run computes in float32. So forward must store the autocast state, and backward must
# restore it.
#
# ### What to use in practice
#
# Use `torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)`. It is not a Function. The
# block records its graph as usual, but saved-tensor hooks store a placeholder in place of each
# saved tensor. When backward reads the first placeholder, a hook runs the block again and fills all
# placeholders. So this checkpoint finds the parameters itself. It also restores the random state
# and the autocast state.
#
# ## How many segments
#
# You can put one checkpoint around the whole network. Or you can cut the network into *segments*
# and put a checkpoint around each segment.
#
# The next cell runs four layers, each a linear layer with a swish, in four ways. Choose one of them
# in the table and play it. The memory grows in the forward pass and shrinks in the backward pass.
# With four segments, each spike in the backward pass is a segment that runs again. The red dashed
# line marks a budget of 384 KiB. The table shows the peak of the *saved* tensors. If you tick the
# box, the picture also contains gradients and temporary results. `peak_bytes` also counts these.

# %%
vote("07", "one-checkpoint")

# %% jupyter={"source_hidden": true}
layers = [nn.Linear(128, 128) for _ in range(4)]


def composed(x, part=slice(0, 4)):
    for layer in layers[part]:
        h = layer(x)
        x = h * torch.sigmoid(h)
    return x


def saves_h(x):
    for layer in layers:
        x = Swish.apply(layer(x))
    return x


# `composed` is not a module, so `uses` tells the course's checkpoint which parameters it uses.
def four_segments(x):
    for i, layer in enumerate(layers):
        x = checkpoint(composed, x, part=slice(i, i + 1), uses=[layer])
    return x


def one_segment(x):
    return checkpoint(composed, x, uses=layers)


variants = {
    "composed": composed,
    "Swish saves h": saves_h,
    "4 segments": four_segments,
    "1 segment": one_segment,
}
memory_timeline(variants, torch.randn(128, 128), budget=384 * KiB)

# %% [markdown]
# Only the version with four segments stays below the line. With one segment, nothing is saved
# between the passes. But then backward recomputes all layers at once, and their graph needs as much
# memory as it would without a checkpoint. If you cut $n$ layers into $k$ segments, autograd saves
# $k$ inputs, and the segment that runs again has $n/k$ layers:
#
# $$\text{memory} \sim k + \frac{n}{k}, \qquad \text{smallest at } k = \sqrt n .$$
#
# ### What it costs
#
# The second run takes time. How much more does a training step have to compute?

# %%
vote("07", "one-more-forward")

# %%
deep = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(36)]


def segmented(x, k):
    size = len(deep) // k
    for begin in range(0, len(deep), size):
        part = nn.Sequential(*deep[begin : begin + size])
        x = torch_checkpoint.checkpoint(part, x, use_reentrant=False)
    return x


def work(run, *arguments):
    """Return the multiplications of forward and backward, in units of one forward."""
    x = torch.randn(64, 32, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        y = run(x, *arguments)
        forward = counter.get_total_flops()
        y.sum().backward()
    return counter.get_total_flops() / forward


print(f"no checkpoint: {work(nn.Sequential(*deep)):.1f} forwards")
for k in (6, 36):
    print(f"{k:>2} segments:   {work(segmented, k):.1f} forwards")

# %% [markdown]
# A backward pass costs as much as two forwards, and the second run costs one more. So the step
# takes a third more computation, whatever the number of segments.
#
# ### Thirty-six layers
#
# *Extra: for readers who want to see the formula measured.*
#
# The next cell measures the peak of the 36 layers for different $k$.

# %%
x = torch.randn(2048, 32)
counts = (1, 2, 3, 4, 6, 9, 12, 18, 36)
without = peak_bytes(nn.Sequential(*deep), x)
peaks = {k: peak_bytes(segmented, x, k) for k in counts}
print(f"no checkpoint: {without / MiB:4.1f} MiB")
for k in (1, 6, 36):
    print(f"k = {k:<2}:        {peaks[k] / MiB:4.1f} MiB")

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
    note(axes, "long segments to recompute", (1.45, 8.3), BLUE)
    note(axes, "many saved inputs", (10, 7.4), BLUE)

# %% [markdown]
# ## Never build the logits
#
# Now we come to the largest tensor. The *logits* $z = x W^\top$ form a matrix with a row for each
# token and a column for each word, but we need only the loss. For one row with the right word $t$,
#
# $$\ell = \log\sum_j e^{z_j} - z_t, \qquad \frac{\partial \ell}{\partial z} =
# \operatorname{softmax}(z) - \text{one-hot}(t) .$$
#
# Each row can be computed independently. So the Function below takes 64 rows at a time. It computes
# their logits, their loss *and their gradient*, and then drops the logits. It saves
# $\partial L/\partial x$ and $\partial L/\partial W$, which are as large as $x$ and $W$. They are
# intermediates of `forward`, so this Function has a combined `forward`.


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


# %%
def plain_head(x, weight):
    return cross_entropy(x @ weight.t(), target)


def chunked_head(x, weight):
    return ChunkedLoss.apply(x, weight, target)


x, weight = torch.randn(TOKENS, 64, requires_grad=True), head.weight
plain, chunked = (grad(f(x, weight), (x, weight)) for f in (plain_head, chunked_head))
same = [torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, chunked, strict=True)]
print("same gradients:", all(same))
for name, f in (("plain", plain_head), ("chunked", chunked_head)):
    print(f"{name:8} head: peak {peak_bytes(f, x, weight) / MiB:6.1f} MiB")

# %% [markdown]
# The gradients are the same, and the peak is nine times lower. The plain head holds three matrices
# of 32 MiB at once, because backward creates two more while the saved one is still in memory.
#
# ### The price of early gradients
#
# *Extra: you need this section for exercise 10. It explains when `forward` may compute gradients.*
#
# `ChunkedLoss` computes its gradients before any `grad_output` exists. This is right because the
# loss $\ell$ is *one number*. Whatever the caller does with it, $g$ is also a single number. So
# backward multiplies the finished gradients by $g$.
#
# With one loss for each row, $g$ has an entry for each row. For $x$, a plain product is still
# enough, because row $i$ of the gradient belongs to $g_i$. But
# $\partial L/\partial W = \sum_i g_i\, (p_i - \text{one-hot}_i)\, x_i^\top$ is a sum over rows,
# where $p_i$ is the softmax of row $i$. After `forward` has added the terms, backward can no longer
# weight them.


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
# If the caller takes the sum or the mean of the losses, all $g_i$ are equal and the bug does not
# show. If the caller masks the padding or weights the samples, the gradient of the weight is wrong.
# A correct Function saves $x$, $W$, the target, and one number for each row (its log-sum-exp). Its
# backward knows $g$, and recomputes the logits of each chunk. You will write it in exercise 10.
#
# Early gradients have a second disadvantage. They are constants, so a second derivative through
# `ChunkedLoss` is wrong. Lesson 06 shows how its backward can raise an error in this case.
#
# For your own model, use `linear_cross_entropy` from the course package. If the loss is one number,
# it computes the gradients early. If there is one loss for each row, it recomputes the logits. It
# also supports ignored targets and label smoothing.

# %% [markdown]
# ## The step fits
#
# Now combine the chunked head, the swish that saves one tensor, and a checkpoint around each block.
# Each block is one segment. A block saves about half a dozen tensors, but a checkpoint around it
# saves only one.


# %%
class LeanBlock(Block):
    def forward(self, x):
        return x + self.down(self.dropout(Swish.apply(self.up(self.norm(x)))))


lean = nn.Sequential(*[LeanBlock() for _ in blocks])
lean.load_state_dict(blocks.state_dict())


def step_chunked(words, target):
    return ChunkedLoss.apply(blocks(embedding(words)), head.weight, target)


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
    "+ swish saves h": step_lean,
    "+ checkpoints": step_checkpointed,
}
peaks = {name: peak_bytes(f, words, target) / MiB for name, f in steps.items()}
for name, peak in peaks.items():
    print(f"{name:15} {peak:6.1f} MiB")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=2.9) as (axes,):
    for place, peak in enumerate(peaks.values()):
        color = GREEN if peak <= 16 else ORANGE
        axes.barh(-place, peak, color=color, height=0.6)
        note(axes, f"{peak:.0f} MiB", (max(peak, 16) + 1.5, -place - 0.1), color)
    axes.axvline(16, color=GRAY, linestyle="--", linewidth=1)
    note(axes, "the accelerator", (17.5, -2.58), GRAY)
    axes.set_yticks([0, -1, -2, -3], list(peaks))
    axes.set(title="one training step", xlabel="peak [MiB]", xlim=(0, 150))

# %% [markdown]
# The step now fits into memory, even with the full batch. It is still the same step: if it starts
# from the same random state, it gives the same loss and the same gradient for every parameter.


# %% jupyter={"source_hidden": true}
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
# ## Reconstruct the input
#
# *Extra: you need this section for exercise 9. In a network of couplings, the saved bytes do not
# grow with the depth.*
#
# A checkpoint saves its input. Can backward compute the input from the *output* instead? It can, if
# you split the activations into two halves and only add a function of one half to the other:
#
# $$y_1 = x_1 + F(x_2), \quad y_2 = x_2 + G(y_1) \qquad\Longrightarrow\qquad x_2 = y_2 - G(y_1),
# \quad x_1 = y_1 - F(x_2) .$$
#
# $F$ and $G$ can be arbitrary networks, because backward evaluates them and never inverts them. A
# stack of such *couplings* saves only its last outputs. Backward starts with the last coupling and
# reconstructs the inputs of one coupling after another.


# %%
def vjp(module, x, g):
    """Rerun a module. Return its value, and the gradients for x and for the parameters."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = module(x)
        grad_x, *rest = grad(y, (x, *module.parameters()), g)
    return y.detach(), grad_x, rest


class Reversible(Function):
    @staticmethod
    def forward(pairs, x1, x2, *parameters):
        for f, g in pairs:
            x1 = x1 + f(x2)
            x2 = x2 + g(x1)
        return x1, x2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.pairs = inputs[0]  # the parameters are inputs as well, so they get gradients
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx, grad1, grad2):
        (y1, y2), found = ctx.saved_tensors, []
        for f, g in reversed(ctx.pairs):
            value, through_g, rest_g = vjp(g, y1, grad2)
            y2, grad1 = y2 - value, grad1 + through_g
            value, through_f, rest_f = vjp(f, y2, grad1)
            y1, grad2 = y1 - value, grad2 + through_f
            found = [*rest_f, *rest_g, *found]
        return None, grad1, grad2, *found


# %% [markdown]
# Compare `backward` with the formulas. $x_2$ reaches the loss through $y_2$ and through $F$, and
# $y_1$ reaches it directly and through $G$. So each gradient is a sum of two terms.


# %%
def pairs_of(depth, dtype=torch.float32):
    layers = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()).to(dtype) for _ in range(2 * depth)]
    return list(zip(layers[::2], layers[1::2], strict=True))


def ordinary(pairs, x1, x2):
    for f, g in pairs:
        x1 = x1 + f(x2)
        x2 = x2 + g(x1)
    return x1, x2


def reversible(pairs, x1, x2):
    parameters = [p for f, g in pairs for p in (*f.parameters(), *g.parameters())]
    return Reversible.apply(pairs, x1, x2, *parameters)


pairs = pairs_of(2, torch.float64)
halves = torch.randn(2, 1, 32, dtype=torch.float64, requires_grad=True).unbind()
print("gradcheck:", gradcheck(lambda x1, x2: reversible(pairs, x1, x2), halves))
x1, x2 = torch.randn(2, 512, 32)
for depth in (1, 4, 16):
    pairs = pairs_of(depth)
    without = kept_bytes(ordinary, pairs, x1, x2) // KiB
    print(f"{depth:>2} couplings: ordinary {without:5} KiB saved,", end=" ")
    print("reversible", kept_bytes(reversible, pairs, x1, x2) // KiB, "KiB")

# %% [markdown]
# The number of saved bytes does not depend on the depth. But the subtraction returns $x_2$ only up
# to a rounding error. Each coupling adds to the error of the one after it, and backward computes
# the gradients at the reconstructed points. The picture shows how large this error gets:


# %% jupyter={"source_hidden": true}
def drift(depth, dtype, scale):
    """Return the relative error of the reconstructed input."""
    torch.manual_seed(0)
    pairs = pairs_of(depth, dtype)
    with torch.no_grad():
        for pair in pairs:
            for layer in pair:
                for p in layer.parameters():
                    p.mul_(scale)
        x1, x2 = torch.randn(2, 64, 32).to(dtype)
        y1, y2 = ordinary(pairs, x1, x2)
        for f, g in reversed(pairs):
            y2 = y2 - g(y1)
            y1 = y1 - f(y2)
    return ((y1 - x1).norm() / x1.norm()).item()


with figure(width=6.6, height=3.4) as (axes,):
    depths = (1, 2, 4, 8, 16, 32, 64)
    for dtype, scale, color, name, at in (
        (torch.float64, 1, GREEN, "float64", (20, 3e-14)),
        (torch.float32, 1, BLUE, "float32", (20, 3e-8)),
        (torch.float32, 4, ORANGE, "float32, weights four times as large", (1.4, 3e-5)),
    ):
        axes.loglog(depths, [drift(d, dtype, scale) for d in depths], color=color, marker="o")
        note(axes, name, at, color)
    axes.set(title="error of the reconstructed input", xlabel="couplings", ylabel="relative error")
    axes.set_xticks(depths, [str(d) for d in depths])
    axes.minorticks_off()

# %% [markdown]
# With weights of the usual size, the error stays small. Large weights amplify it at each coupling.
# As in every recomputation, dropout needs its random state, and a batch norm must not count a batch
# twice. `Reversible` ignores both. `autograd_course.functions.coupled` handles both.

# %% [markdown]
# ## Release tensors during backward
#
# *Extra: for readers whose Functions run inside a checkpoint or fuse many operations. In short:
# read `ctx.saved_tensors` once, on the first line.*
#
# Each access to `ctx.saved_tensors` unpacks every saved tensor again. Inside PyTorch's checkpoint,
# each placeholder can be unpacked only once, so a second access raises a `CheckpointError`. Unpack
# all tensors on one line, as in `x, y = ctx.saved_tensors`.
#
# By default, autograd holds the saved tensors and the incoming gradients until your backward
# returns. This matters if a Function has many inputs and its backward creates one gradient after
# another. PyTorch 2.13 added two class attributes that let backward release memory earlier.
#
# | new in PyTorch 2.13 | effect |
# | --- | --- |
# | `clear_saved_tensors_on_access = True` | after the first access, the node drops its references |
# | `boxed_grads_call = True` | `backward(ctx, grads)` gets one list and may remove items from it |
#
# Your backward must also drop its own references. Here it does so with `pop`. Older versions of
# PyTorch do not have these attributes, so the cell checks with `hasattr`.


# %%
class Sines(Function):
    """yᵢ = sin(xᵢ) for any number of tensors."""

    @staticmethod
    def forward(*tensors):
        return tuple(torch.sin(x) for x in tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *grad_outputs):
        return backward_of_sines(ctx, list(grad_outputs))


def backward_of_sines(ctx, grads):
    saved, found = list(ctx.saved_tensors), []
    while saved:
        found.append(grads.pop() * torch.cos(saved.pop()))
    return tuple(reversed(found))


class ClearingSines(Sines):
    clear_saved_tensors_on_access = True


class BoxedSines(Sines):
    boxed_grads_call = True

    @staticmethod
    def backward(ctx, grads):
        return backward_of_sines(ctx, grads)


# %%
def squares(sines, *tensors):
    return sum((y**2).sum() for y in sines.apply(*(2 * x for x in tensors)))


tensors = torch.randn(8, 256, 1024).unbind()
functions = [Sines]
if hasattr(Function, "boxed_grads_call"):
    functions += [ClearingSines, BoxedSines]
for sines in functions:
    peak = peak_bytes(squares, sines, *tensors)
    print(f"{sines.__name__:13} peak {peak / MiB:.0f} MiB")

# %% [markdown]
# If a Function clears its saved tensors, a second access raises an error. So does a second backward
# pass, even with `retain_graph=True`.
#
# ## Choose what to recompute
#
# *Extra: for readers whose checkpoints take too much time.*
#
# *Selective* checkpointing decides for each operation whether to save its result or to recompute
# it. The policy below saves the results of matrix products, because they are expensive, and
# recomputes the rest. (A linear layer calls `addmm`.)

# %%
SAVE = torch_checkpoint.CheckpointPolicy.MUST_SAVE
RECOMPUTE = torch_checkpoint.CheckpointPolicy.PREFER_RECOMPUTE


def policy(ctx, operation, *args, **kwargs):
    return SAVE if operation is torch.ops.aten.addmm.default else RECOMPUTE


def contexts():
    return torch_checkpoint.create_selective_checkpoint_contexts(policy)


def full(x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=False)


def selective(x):
    return torch_checkpoint.checkpoint(block, x, use_reentrant=False, context_fn=contexts)


block, x = Block(), torch.randn(TOKENS, 64)
for name, f in (("no checkpoint", block), ("selective", selective), ("checkpoint", full)):
    print(f"{name:13}: {kept_bytes(f, x) / MiB:4.2f} MiB saved")

# %% [markdown]
# ## Do you know it?
#
# Answer ten questions. If an answer is wrong, you see why and can try again.

# %%
knowledge_check("07")

# %% [markdown]
# ## Summary
#
# ```python
# class Checkpointed(torch.autograd.Function):     # in practice: torch.utils.checkpoint
#     @staticmethod
#     def forward(ctx, run, x, *parameters):        # parameters are inputs, or they never train
#         ctx.run, ctx.state = run, ...             # random state and autocast of this moment
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
# kept_bytes(f, x)     # saved for backward: adds up over the layers
# peak_bytes(f, x)     # the most at any moment: tells whether it fits
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | saves | costs |
# | --- | --- | --- |
# | output instead of input | nothing extra, if the next layer saves it | nothing |
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
# | recomputing | must restore or avoid |
# | --- | --- |
# | parameters | are inputs of the Function |
# | random numbers | save the state in forward, set it for the second run |
# | buffers | batch norm counts twice unless you restore them |
# | autocast | the precision of forward |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/07_memory_patterns.ipynb) you save masks, predict
# saved bytes, find a line that wastes memory, and write a checkpoint that works with dropout and
# parameters.
#
# [Lesson 08](08_attention_challenge.ipynb) combines these patterns in one Function: attention
# without the attention matrix.
