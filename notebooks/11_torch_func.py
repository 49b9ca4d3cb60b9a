# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/11_beyond_eager.ipynb)
#
# # 11 · Beyond eager
#
# **You will** give one Function, step by step, what the rest of PyTorch asks of it: per-sample
# gradients, forward mode, compilation, mixed precision, several processes; and hand a foreign loop
# to the compiler as an operator.
#
# **You will learn** the split form with `setup_context`, `vmap` generated and by hand, `jvp`, what
# `torch.compile` sees and where it stops, `torch.library.custom_op` with `opcheck`, and which of
# these to take when.
#
# **You need** lessons 01 and 02: `ctx`, vector-Jacobian products, `diagnose`.
#
# **It takes** 35 minutes with two of the three checkpoints; the sections marked *in depth*,
# another 30, can wait until an exercise needs them. The exercises come after it.

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
import inspect
import logging
import os
import tempfile

# The compiler keeps its results here, and not in your home folder. One thread suffices.
caches = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches.name
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function, gradcheck
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.library import custom_op, opcheck
from torch.utils.checkpoint import checkpoint

from autograd_course import diagnose
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, predict, replicas
from autograd_course.visualize import function_lab, knowledge_check

logging.getLogger("torch").setLevel(logging.ERROR)  # a compiler's notes name paths of this machine

# %% [markdown]
# ## One bad reading
#
# A tide gauge reports the level of the sea every eighteen minutes. Five of the 120 reports are
# garbage: the transmission failed, and the log says 30 meters. A small net is to learn the tide
# all the same. Its activation suits periodic data: the *snake*, with a learned frequency $a$
# (Ziyin et al. 2020),
#
# $$y = x + \frac{\sin^2(a x)}{a}, \qquad
# \frac{\partial y}{\partial x} = 1 + \sin(2 a x), \qquad
# \frac{\partial y}{\partial a} = \frac{x \sin(2 a x)}{a} - \frac{\sin^2(a x)}{a^2} .$$
#
# A colleague has written it, as we have written all Functions so far. It is right.


# %%
class OldSnake(Function):
    """y = x + sin²(a x)/a; ∂L/∂x = (1 + sin 2ax)·g, ∂L/∂a = Σ (x sin(2ax)/a - sin²(ax)/a²)·g."""

    @staticmethod
    def forward(ctx, x, a):
        ctx.save_for_backward(x, a)
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        wave = torch.sin(2 * a * x)
        by_a = x * wave / a - (torch.sin(a * x) / a) ** 2
        return grad_output * (1 + wave), (grad_output * by_a).sum()


x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
a = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(OldSnake.apply, (x, a)))

# %% [markdown]
# A squared error of $30^2$ outweighs everything else, so the usual advice is to *clip*: shorten the
# gradient to a given length. First that of the whole batch, as `clip_grad_norm_` does it.

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = torch.Generator().manual_seed(0)
hours = torch.linspace(0, 36, 120)[:, None]
tide = 1.5 * torch.sin(2 * math.pi * hours / 12.4) + 0.5 * torch.sin(math.pi * hours / 12.4 + 1)
tide = tide.squeeze(1)
gauge = tide + 0.1 * torch.randn(120, generator=rng)
bad = torch.randperm(120, generator=rng)[:5]
gauge[bad] = 30.0
when, gauge, tide = (hours / 6 - 3).to(device), gauge.to(device), tide.to(device)


class Net(nn.Module):
    def __init__(self, snake):
        super().__init__()
        self.first, self.last = nn.Linear(1, 24), nn.Linear(24, 1)
        self.a = nn.Parameter(torch.tensor(2.0))
        self.snake = snake

    def forward(self, x):
        return self.last(self.snake(self.first(x), self.a)).squeeze(-1)


def of_batch(net):
    """The gradient of the mean loss, shortened to length 1."""
    net.zero_grad()
    (net(when) - gauge).square().mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)


# %% [markdown]
# The training loop takes the way to compute gradients as an argument.


# %%
def fit(snake, compute_gradients, steps=200):
    torch.manual_seed(0)
    net = Net(snake).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        compute_gradients(net)
        optimizer.step()
    return net(when).detach()


by_batch = fit(OldSnake.apply, of_batch)
print(f"typical error: {(by_batch - tide).square().mean().sqrt():.0f} meters")

# %% [markdown]
# Meters off, in spite of the clipping. The five readings have taken over the sum before anybody
# clipped it: what is shortened is its length, what is spoiled its direction. What must be clipped
# is the gradient of each *sample*, before they are averaged: then no reading counts for much more
# than another. Training with differential privacy does the same.
#
# So 120 gradients are wanted in each step. A loop takes 120 backward passes. `torch.func` promises
# all of them in one: `grad` makes a function into its gradient function, `vmap` runs that over a
# batch.


# %%
def sample_gradients(net):
    """The gradient of each sample's loss, by parameter, the samples along axis 0."""

    def loss(parameters, x, y):
        prediction = functional_call(net, parameters, (x,))  # net(x), with these parameters
        return (prediction - y).square()

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, when, gauge)


def lengths(grads):
    return torch.stack([g.reshape(len(g), -1).norm(dim=1) for g in grads.values()]).norm(dim=0)


def of_each(net):
    """Each sample's gradient, shortened to length 1; their mean goes into .grad."""
    grads = sample_gradients(net)
    factors = (1 / lengths(grads)).clamp(max=1)
    for name, p in net.named_parameters():
        p.grad = torch.einsum("n,n...->...", factors, grads[name]) / len(when)


try:
    fit(OldSnake.apply, of_each)
except RuntimeError as error:
    print(str(error).partition(" For more")[0])

# %% [markdown]
# The Function is right, and of no use here.

# %% [markdown]
# ## The whole thing, working
#
# Two changes: `forward` loses its `ctx`, and what it did with it moves to a method `setup_context`
# (you met it in lesson 02). And one line says that `vmap` may derive its own rule. `backward` is
# the same.


# %%
class Snake(Function):
    """As OldSnake, in the split form."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, a):
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        ctx.save_for_backward(x, a)

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        wave = torch.sin(2 * a * x)
        by_a = x * wave / a - (torch.sin(a * x) / a) ** 2
        return grad_output * (1 + wave), (grad_output * by_a).sum()


by_sample = fit(Snake.apply, of_each)
error = (by_sample - tide).square().mean().sqrt()
print("typical error below 10 centimeters:", bool(error < 0.1))

# %% jupyter={"source_hidden": true}
torch.manual_seed(0)
first_lengths = lengths(sample_gradients(Net(Snake.apply).to(device))).cpu()
h, good = hours.squeeze(), torch.ones(120, dtype=torch.bool)
good[bad] = False

with figure(columns=2, width=9.0, height=3.5) as (learned, sizes):
    learned.plot(h[good], gauge.cpu()[good], ".", color=GRAY, markersize=4)
    learned.plot(h, by_batch.cpu(), color=ORANGE)
    learned.plot(h, by_sample.cpu(), color=BLUE)
    for place in h[bad]:
        arrow = {"arrowstyle": "->", "color": GRAY}
        learned.annotate("", (place, 6.4), (place, 5.7), arrowprops=arrow)
    note(learned, "five readings of 30 m, far above", (6.0, 5.0), GRAY)
    note(learned, "the batch clipped", (0.2, 3.7), ORANGE)
    note(learned, "each sample clipped", (9.2, -2.5), BLUE)
    learned.set(title="what was learned", xlabel="hours", ylabel="level [m]", ylim=(-3, 6.6))

    sizes.semilogy(h[good], first_lengths[good], ".", color=BLUE)
    sizes.semilogy(h[bad], first_lengths[bad], "o", color=ORANGE)
    sizes.axhline(1, color=GRAY, linestyle="--", linewidth=1)
    note(sizes, "the five", (0.5, 230), ORANGE)
    note(sizes, "clipped to", (0.5, 0.62), GRAY)
    sizes.set(title="length of each sample's gradient, at first", xlabel="hours", ylim=(0.2, 600))

# %% [markdown]
# The same data, the same net, the same Adam. What the better run needed was a Function that can be
# *transformed*.

# %% [markdown]
# ## Two forms of one Function
#
# Why must `ctx` go out of `forward`? `ctx` is the node of one graph. In `vmap(grad(f))` there are
# two transforms, one inside the other, and each takes the call in its turn: one runs `forward` for
# the batch, the other makes a node for the gradient. So computing and keeping must be two things
# that can be asked for separately.
#
# | | joint form | split form |
# | --- | --- | --- |
# | compute | `forward(ctx, x, a)` | `forward(x, a)` |
# | save, mark | in `forward` | `setup_context(ctx, inputs, output)` |
# | an intermediate that `backward` needs | `ctx.save_for_backward(s)` | a further output |
# | `torch.func.grad`, `vjp`, `jvp`, `vmap`, `hessian` | refused | possible |
#
# Nothing else changes. The lab takes both forms: drag $x$ and $a$, and watch which lines run in
# which method.

# %%
function_lab({"Snake": Snake, "OldSnake": OldSnake}, torch.tensor(1.5), x=0.6, names=("x", "a"))

# %% [markdown]
# The third row of the table is the price. `setup_context` sees inputs and outputs, nothing in
# between. Say that $\sin(ax)$ is expensive and `backward` is to reuse it: then it is returned. An
# output that is not meant to be differentiated is marked, and users get one output from a plain
# function. (Lesson 06 tells what that costs: the second derivative.)


# %%
class KeepingSine(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, a):
        sine = torch.sin(a * x)
        return x + sine**2 / a, sine

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        _, sine = output
        ctx.mark_non_differentiable(sine)
        ctx.save_for_backward(x, a, sine)

    @staticmethod
    def backward(ctx, grad_output, _):
        x, a, sine = ctx.saved_tensors
        wave = 2 * sine * torch.cos(a * x)  # sin 2t = 2 sin t cos t
        by_a = x * wave / a - (sine / a) ** 2
        return grad_output * (1 + wave), (grad_output * by_a).sum()


def snake(x, a):
    y, _ = KeepingSine.apply(x, a)
    return y


x, a = x.detach(), a.detach()
wanted = grad(lambda x: Snake.apply(x, a).sum())(x)
print("the same gradient:", torch.allclose(grad(lambda x: snake(x, a).sum())(x), wanted))

# %% [markdown]
# There is no way around that output: `forward` has no `ctx` on which to put a value, and one put
# elsewhere (a global, the class) is overwritten by the next call, as lesson 02 has shown.

# %% [markdown]
# ## vmap, generated
#
# $$\operatorname{vmap}(f)\,(x_1, \dots, x_N) \;=\; \bigl(f(x_1), \dots, f(x_N)\bigr)$$
#
# **Common belief: "`vmap` calls my function once for each sample."** Count:


# %%
calls = []


class Watched(Snake):
    @staticmethod
    def forward(x, a):
        calls.append(f"forward  x {tuple(x.shape)}, a {tuple(a.shape)}")
        return Snake.forward(x, a)

    @staticmethod
    def backward(ctx, grad_output):
        calls.append(f"backward g {tuple(grad_output.shape)}")
        return Snake.backward(ctx, grad_output)


batch = torch.randn(120, 3, generator=rng, dtype=torch.float64)
per_sample = vmap(grad(lambda a, x: Watched.apply(x, a).sum()), in_dims=(None, 0))(a, batch)
print(*calls, sep="\n")
print("gradients of a:", tuple(per_sample.shape))

# %% [markdown]
# Once. `forward` was given a tensor that *says* it has three elements: a sample. Inside are all
# 120, and each operation on it is done on all at once. So `forward` and `backward` are written for
# one sample, and `sum()` adds up one sample, not the batch. `in_dims=(None, 0)` says that `a` is
# shared and `x` has its samples along axis 0. The gradient of the *shared* `a` has a batch
# dimension: one for each sample, 120 numbers that add up to the ordinary one.

# %%
total = grad(lambda a: Snake.apply(batch, a).sum())(a)
looped = torch.stack([grad(lambda a, x=x: Snake.apply(x, a).sum())(a) for x in batch])
print("sum of them is the batch's gradient:", torch.allclose(per_sample.sum(), total))
print("each is what the loop gives:        ", torch.allclose(per_sample, looped))

# %% [markdown]
# ### Checkpoint 1
#
# `vmap` can be nested. A grid of $6 \times 20$ samples, each of 3 numbers, is a tensor of shape
# `(6, 20, 3)`. In `vmap(vmap(f))` of it, how many dimensions does the `x` have that `forward` sees?

# %%
grid = torch.randn(6, 20, 3)
seen = []


class Dimensions(Snake):
    @staticmethod
    def forward(x, a):
        seen.append(x.dim())
        return Snake.forward(x, a)


vmap(vmap(lambda x: Dimensions.apply(x, torch.tensor(2.0))))(grid)

predict(..., seen[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# One. Each `vmap` hides one dimension: the outer the 6, the inner the 20. What is left is one
# sample, of shape `(3,)`.
#
# </details>

# %% [markdown]
# ### Where the generated rule ends
#
# **Common belief: "`generate_vmap_rule = True` makes it work."** It promises that `forward` and
# `backward` (and `jvp`) consist of PyTorch operations that treat all samples alike. Four Functions
# that cannot keep it:


# %%
def with_forward(forward):
    return type("Other", (Snake,), {"forward": staticmethod(forward)})


def into_own_zeros(x, a):
    y = torch.zeros(3)
    y += x  # y has no batch dimension, x has
    return y


attempts = {
    "a branch on values": lambda x, a: x if x.max() > 1 else a * x,
    "NumPy": lambda x, a: torch.from_numpy(np.sin(x.numpy())),
    "in place, into a new tensor": into_own_zeros,
    "random numbers": lambda x, a: x * torch.rand_like(x),
}
for what, forward in attempts.items():
    function = with_forward(forward)
    try:
        vmap(lambda x, f=function: f.apply(x, torch.tensor(2.0)))(grid[0])
    except RuntimeError as error:
        print(f"{what}:\n    {str(error).partition('. ')[0]}")

# %% [markdown]
# One answer for 120 different samples does not exist, nor does one memory address. The repairs:
#
# | | instead |
# | --- | --- |
# | `if x.max() > 1` | `torch.where`, `clamp` |
# | `x.item()`, `x.numpy()` | stay in tensors, or write the rule by hand: next section |
# | `torch.zeros(3)`, then `+=` | out of place, or `x.new_zeros`, which is batched like `x` |
# | random numbers | the caller says `randomness="same"` or `"different"` |

# %% [markdown]
# ## vmap, by hand
#
# Some code knows nothing of batches. Here is a recurrence, the exponential smoothing of a series,
#
# $$y_t = k\, y_{t-1} + (1-k)\, x_t ,$$
#
# as a loop in NumPy. It stands for whatever PyTorch cannot look into: C, Fortran, a vendor's
# library. Its transpose is the same recurrence run from the end, so `backward` is one more call of
# the Function, which makes it differentiable as often as you like.


# %%
def smoothed(x: Tensor, keep: float) -> Tensor:
    """The recurrence along the last axis, in NumPy."""
    series = x.detach().cpu().numpy()
    y, state = np.empty_like(series), 0.0
    for t in range(series.shape[-1]):
        state = keep * state + (1 - keep) * series[..., t]
        y[..., t] = state
    return torch.from_numpy(y).to(x.device)


class Smooth(Function):
    """y_t = k·y_{t-1} + (1-k)·x_t; ∂L/∂x is the same recurrence over g, backward in time."""

    @staticmethod
    def forward(x, keep):
        return smoothed(x, keep)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.keep = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return Smooth.apply(grad_output.flip(-1), ctx.keep).flip(-1), None

    @staticmethod
    def vmap(info, in_dims, x, keep):
        return Smooth.apply(x.movedim(in_dims[0], 0), keep), 0


# %% [markdown]
# The fourth method is the rule. It gets the *whole* tensors, batch dimension included, and calls
# the Function on them:
#
# - `in_dims`: for each argument where the batch is: an axis, or `None` if it has none;
# - `info.batch_size`, `info.randomness`;
# - returned are the outputs, and for each the axis where the batch is now (`out_dims`).
#
# The recurrence runs along the *last* axis, and the batch may lie there. So it is moved to the
# front, before anything else.

# %%
series = torch.randn(4, 7, generator=rng, dtype=torch.float64)
rows = torch.stack([Smooth.apply(row, 0.8) for row in series])
print("samples in rows:   ", torch.equal(vmap(lambda x: Smooth.apply(x, 0.8))(series), rows))
columns = vmap(lambda x: Smooth.apply(x, 0.8), in_dims=1)(series.T)
print("samples in columns:", torch.equal(columns, rows))
slopes = vmap(grad(lambda x: Smooth.apply(x, 0.8)[-1]))(series)
print("per-sample slopes: ", slopes[0].numpy().round(3))

# %% [markdown]
# `diagnose` runs rules against a loop, along several axes and with shared arguments, forward and
# backward. A rule that takes a batch in front for granted is right in the first test that comes to
# mind:


# %%
class Hasty(Smooth):
    @staticmethod
    def backward(ctx, grad_output):
        return Hasty.apply(grad_output.flip(-1), ctx.keep).flip(-1), None

    @staticmethod
    def vmap(info, in_dims, x, keep):
        return Hasty.apply(x, keep), in_dims[0]


diagnose(Hasty, (torch.randn(5, dtype=torch.float64), 0.8))

# %% [markdown]
# ### Checkpoint 2
#
# *In depth: a rule for two arguments, either of which may be shared. Exercise 3 needs it.*
#
# Yours to finish: how well does a series $x$ match a template $t$, $y = \sum_i x_i t_i$, once more
# in NumPy. Its rule expects that both have their batch along axis 0. Make it right for every
# `in_dims`, `None` included, and run the cell again.


# %%
class Match(Function):
    @staticmethod
    def forward(x, t):
        return torch.from_numpy(np.asarray((x.detach().numpy() * t.detach().numpy()).sum(-1)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, t = ctx.saved_tensors
        needs_x, needs_t = ctx.needs_input_grad
        g = grad_output[..., None]
        return g * t if needs_x else None, g * x if needs_t else None

    @staticmethod
    def vmap(info, in_dims, x, t):
        return Match.apply(x, t), 0


diagnose(Match, (torch.randn(3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)))

# %% [markdown]
# <details><summary>Why</summary>
#
# Move what has a batch dimension to the front, give one to what has none:
#
# ```python
#     def vmap(info, in_dims, x, t):
#         x, t = (
#             v.expand(info.batch_size, *v.shape) if dim is None else v.movedim(dim, 0)
#             for v, dim in zip((x, t), in_dims)
#         )
#         return Match.apply(x, t), 0
# ```
#
# `expand` copies nothing, and its own backward sums the shared tensor's gradient over the samples.
# (Here `x * t` would broadcast a shared tensor by itself. Most kernels do not.)
#
# </details>

# %% [markdown]
# ## Forward mode
#
# *In depth: for sensitivities and for Hessians. Exercise 4 needs it.*
#
# `backward` multiplies a vector by the Jacobian from the left, $g^\top J$. *Forward mode*
# multiplies from the right: a change of the inputs, the *tangents* $(\dot x, \dot a)$, is pushed to
# the change of the output,
#
# $$\dot y = \frac{\partial y}{\partial x}\,\dot x + \frac{\partial y}{\partial a}\,\dot a .$$
#
# The method is `jvp`. It gets one tangent for each input, and what was kept for it by
# `save_for_forward`: the same tensors as for backward, in the same order. (A generated vmap rule
# keeps one list of batch axes for the two. Where they differ, backward through `vmap` raises.)
#
# What holds of `grad_output` holds of a tangent: other operations on the same input read it, so it
# is not changed in place (unless forward so changes that input). And `jacfwd` runs `jvp` under
# `vmap`, where a tangent stands for many directions: no `.item()`.


# %%
class FullSnake(Snake):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, x_tangent, a_tangent):
        x, a = ctx.saved_tensors
        wave = torch.sin(2 * a * x)
        by_a = x * wave / a - (torch.sin(a * x) / a) ** 2
        return x_tangent * (1 + wave) + a_tangent * by_a


one = torch.ones((), dtype=torch.float64)
_, slope = jvp(lambda a: FullSnake.apply(x, a), (a,), (one,))
print("∂y/∂a, all five at once:", slope.numpy().round(3))
by_rows = jacrev(lambda a: FullSnake.apply(x, a))(a)
print("row by row, the same:", torch.allclose(slope, by_rows))
inputs = (x.clone().requires_grad_(), a.clone().requires_grad_())
print("gradcheck:", gradcheck(FullSnake.apply, inputs, check_forward_ad=True))

# %% [markdown]
# Which mode is a matter of counting. Reverse mode costs one pass for each *output*, forward mode
# one for each *input*. A loss has one output and a million inputs: reverse. The sensitivity of a
# whole curve to one frequency: forward. For a full Jacobian, `jacrev` and `jacfwd` run `vmap` over
# these passes, and so ask for a vmap rule too.
#
# And both together make the cheap Hessian of lesson 06: `hessian` is forward over reverse. It needs
# everything that the Function has by now.


# %%
def bend(snake):
    return hessian(lambda x: snake(x, a).square().sum())(x).diag()


expected = bend(lambda x, a: x + torch.sin(a * x) ** 2 / a)
print("Hessian of FullSnake is right:", torch.allclose(bend(FullSnake.apply), expected))
try:
    bend(Snake.apply)
except NotImplementedError as error:
    print("Snake:", error)

# %% [markdown]
# ### The graph of a tangent
#
# *In depth: for gradients of a forward-mode derivative, as in score matching or in the loss of a
# network that is to obey a differential equation.*
#
# The other order, reverse over forward, differentiates the tangent. It runs no backward of yours:
# it follows the operations of `jvp`, which are recorded as any others are. So what lesson 06 says
# of backward holds here too. To save a sine, this one keeps the slope that forward has at hand:


# %%
class Cached(FullSnake):
    @staticmethod
    def setup_context(ctx, inputs, output):
        FullSnake.setup_context(ctx, inputs, output)
        x, a = inputs
        ctx.slope = 1 + torch.sin(2 * a * x)

    @staticmethod
    def jvp(ctx, x_tangent, a_tangent):
        x, a = ctx.saved_tensors
        by_a = x * (ctx.slope - 1) / a - (torch.sin(a * x) / a) ** 2
        return x_tangent * ctx.slope + a_tangent * by_a


def curvature(snake):
    ones = torch.ones_like(x)
    return grad(lambda x: jvp(lambda x: snake(x, a), (x,), (ones,))[1].sum())(x)


leaves = (x.clone().requires_grad_(), a.clone().requires_grad_())
print("gradcheck:", gradcheck(Cached.apply, leaves, check_forward_ad=True))
print("d²y/dx²:  ", (2 * a * torch.cos(2 * a * x)).numpy().round(3))
print("FullSnake:", curvature(FullSnake.apply).numpy().round(3))
print("Cached:   ", curvature(Cached.apply).numpy().round(3))
diagnose(Cached, (x, a))

# %% [markdown]
# Forward runs without a graph, so an intermediate of forward is a constant to `jvp`. Zeros, and no
# error. Saved inputs and outputs lead back; whatever else `jvp` needs, it computes from them.

# %% [markdown]
# ## What a Function can do
#
# *In depth: the Functions of this lesson side by side, for when you have read "Forward mode".*
#
# Four Functions, five uses; every field is a run.

# %%
uses = {
    "backward()": lambda f: f(x.clone().requires_grad_()).sum().backward(),
    "func.grad": lambda f: grad(lambda x: f(x).sum())(x),
    "vmap": lambda f: vmap(f)(batch),
    "jvp": lambda f: jvp(f, (x,), (x,)),
    "hessian": lambda f: hessian(lambda x: f(x).sum())(x),
}
functions = {
    "OldSnake": lambda x: OldSnake.apply(x, a),
    "Snake": lambda x: Snake.apply(x, a),
    "FullSnake": lambda x: FullSnake.apply(x, a),
    "Smooth": lambda x: Smooth.apply(x, 0.8),
}


def works(use, f):
    try:
        use(f)
    except (RuntimeError, NotImplementedError):
        return False
    return True


print(f"{'':10}", *(f"{use:11}" for use in uses))
for name, f in functions.items():
    print(f"{name:10}", *(f"{'yes' if works(use, f) else '–':11}" for use in uses.values()))

# %% [markdown]
# Each row is what its author has written: the joint form serves `backward()` only; the split form
# adds `func.grad`; a rule adds `vmap`; `jvp` adds the last two.

# %% [markdown]
# ## torch.compile
#
# A compiler wants to see the whole computation before it runs, as a graph of operations. So
# `torch.compile` *traces*: it goes through your Python once with *fake tensors*, which have a
# shape, a dtype and no values, and writes down what is called. What it has written goes to a
# *backend*. The usual backend makes C++ or Triton of it; any function can be one, and this one only
# notes the names of the operations. (`aot_autograd` stands before it and traces the backward pass
# ahead of time, so that the backend gets two graphs.)

# %%
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def traced(f, *args):
    """Compile f, run it forward and backward; return the operations of each graph."""
    found = []

    def backend(graph, example_inputs):
        calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        names = [call.__name__.partition(".")[0] for call in calls]
        found.append([name for name in names if name != "detach"])  # it computes nothing
        return make_boxed_func(graph)

    torch._dynamo.reset()  # forget what was compiled before
    compiled = torch.compile(f, backend=aot_autograd(fw_compiler=backend))
    compiled(*args).sum().backward()
    return found


# %% [markdown]
# **Common belief: "to the compiler a custom Function is a black box."**

# %%
x32 = torch.linspace(-2, 2, 5, requires_grad=True)
a32 = torch.tensor(1.5)
forward_graph, backward_graph = traced(lambda x: torch.tanh(Snake.apply(x, a32)), x32)
print("forward: ", *forward_graph)
print("backward:", *backward_graph)

# %% [markdown]
# Both methods lie open: `forward` became part of one graph and `backward`, traced at the same time,
# part of another, together with the derivative of the `tanh` behind it. Now the compiler may fuse
# all of that into one loop. (What is computed and not used, the gradient of `a32`, has been left
# out.) So nothing is lost by a Function, and nothing of this fusing is gained by writing one.

# %% [markdown]
# ### Compiled in earnest
#
# *In depth: the same with the usual backend, and whether its numbers are those of eager mode. They
# are.*
#
# The backend is *inductor*, with C++ where there is a compiler. The next cell says which backend it
# got on your machine.


# %% tags=["nbval-ignore-output"]
def activated(x):
    return torch.tanh(Snake.apply(x, a32))


def compiled_run(backend):
    torch._dynamo.reset()
    x = x32.detach().requires_grad_()
    y = torch.compile(activated, backend=backend, fullgraph=True)(x)
    y.sum().backward()
    return y.detach(), x.grad


try:
    backend, found = "inductor", compiled_run("inductor")
except Exception:  # no C++ compiler, or one that does not work: trace all the same
    backend, found = "aot_eager", compiled_run("aot_eager")
print("compiled by", backend)

# %%
(eager_grad,) = torch.autograd.grad(activated(x32).sum(), x32)
y, x_grad = found
print("values as in eager mode:   ", torch.allclose(y, activated(x32), atol=1e-6))
print("gradients as in eager mode:", torch.allclose(x_grad, eager_grad, atol=1e-6))

# %% [markdown]
# ### Graph breaks
#
# *In depth: what the compiler cannot write down. In short: it breaks the graph silently, so test
# with `fullgraph=True`; and it unrolls a NumPy loop, nine operations a step for ours. Exercise 5
# needs it.*
#
# Where tracing comes to something that it cannot write down, it does not fail: the graph ends,
# Python runs that piece, and a new graph begins. The result is right and the gain is gone,
# silently. `fullgraph=True` turns a break into an error; use it in tests. Four ways to break:


# %%
class Branching(Snake):
    @staticmethod
    def forward(x, a):
        if x.abs().max() > 100:
            raise ValueError("x is too large")
        return Snake.forward(x, a)


class Printing(Snake):
    @staticmethod
    def forward(x, a):
        print(end="")
        return Snake.forward(x, a)


class Counting(Snake):
    calls = 0

    @staticmethod
    def forward(x, a):
        Counting.calls += 1
        return Snake.forward(x, a)


class AskingAutograd(Snake):
    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (grad_x,) = torch.autograd.grad(Snake.forward(x, a), x, grad_output)
        return grad_x, None


# %%
def first_break(f, *args):
    """What stops fullgraph=True, in the tracer's words."""
    torch._dynamo.reset()
    try:
        torch.compile(f, backend="eager", fullgraph=True)(*args)
    except Exception as error:
        return str(error).splitlines()[0]
    return "one graph"


for function in (Snake, Branching, Printing, Counting, AskingAutograd):
    reason = first_break(lambda x, f=function: f.apply(x, a32), x32)
    print(f"{function.__name__:15} {reason}")

# %% [markdown]
# A fake tensor has no values, so nothing can depend on one: that is the first. The others do
# something besides computing. `backward` counts as much as `forward`, since it is traced at the
# same time. `diagnose(F, inputs, level="full")` asks the same and calls it `compile-mismatch`.
#
# **Common belief: "NumPy breaks the graph."** Often not. The tracer knows much of NumPy and puts
# PyTorch's operations in its place. Of our recurrence, that is not what one would wish:

# %%
for length in (4, 8):
    ones = torch.ones(length, requires_grad=True)
    forward_graph, _ = traced(lambda x: Smooth.apply(x, 0.8), ones)
    print(f"{length} steps: {len(forward_graph)} operations")

# %% [markdown]
# The loop has been unrolled, nine operations for each step. A series of a thousand would make a
# graph of nine thousand; and code in C is not followed at all. For such code there is a way to say
# "one operation, do not look inside": "A custom operator".

# %% [markdown]
# ### Checkpoint 3
#
# What has been traced is valid for arguments *like those seen*. A number that is no tensor becomes
# a constant of the graph; another value means another compilation, in which PyTorch replaces the
# constant by a symbol, so that the third will do for all that follow, if it can. A *tensor* is an
# input in any case.
#
# Below, six values are passed to one compiled function, once as Python floats and once as tensors.
# How many compilations are there in all?


# %%
def compilations(arguments):
    count = []

    def backend(graph, example_inputs):
        count.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, a: x + torch.sin(a * x) ** 2 / a, backend=backend)
    for argument in arguments:
        compiled(x32, argument)
    return len(count)


values = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
predict(..., compilations(values) + compilations([torch.tensor(v) for v in values]))

# %% [markdown]
# <details><summary>Why</summary>
#
# Two and one, so 3. The first float is baked in; at the second PyTorch notices that it changes and
# makes it a symbol; four more come for nothing. The tensor is an input from the start. The same
# goes for shapes: the second length makes the length a symbol. Something that cannot become one (a
# string, a dict of options) compiles again each time, until a limit of eight is reached; then the
# function stays in Python, with a line in the log.
#
# </details>

# %% [markdown]
# ## A custom operator
#
# An *operator* is what PyTorch's own functions are made of: an entry in a table, with a name, a
# typed signature, and for each system that meets it, an implementation. `torch.library.custom_op`
# makes one of a Python function. What it does inside nobody looks at, so a loop in NumPy is not
# unrolled, and code in C, which the compiler cannot follow, has a place in its graph.


# %%
@custom_op("tides::smooth", mutates_args=())
def smooth(x: Tensor, keep: float) -> Tensor:
    return smoothed(x, keep)


@smooth.register_fake
def _(x, keep):
    return torch.empty_like(x)  # shape, dtype, strides, device: no values


def setup_context(ctx, inputs, output):
    ctx.keep = inputs[1]


def backward(ctx, grad_output):
    return smooth(grad_output.flip(-1), ctx.keep).flip(-1), None


smooth.register_autograd(backward, setup_context=setup_context)

# %% [markdown]
# - The **signature** is read from the annotations. `mutates_args=()` promises that no argument is
#   changed; and what is returned must be new memory, neither an input nor a view of one.
# - The **fake** tells the tracer what comes out. It may use shapes and numbers, no values.
# - **Autograd** gets two functions that you know by now: the split form without the class.
#
# For a series of any length, in one graph:

# %%
series32 = torch.linspace(-1, 1, 1000, requires_grad=True)
forward_graph, backward_graph = traced(lambda x: torch.tanh(smooth(2 * x, 0.8)), series32)
print("forward: ", *forward_graph)
print("backward:", *backward_graph)

# %% [markdown]
# ### opcheck
#
# All of these are promises. `opcheck` holds them against a run: does the signature tell the truth
# (nothing mutated, nothing aliased), is autograd registered the right way, does the fake say what
# the operator gives, does all of it survive tracing, forward and backward?

# %%
sample = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
for test, outcome in opcheck(smooth, (sample, 0.8)).items():
    print(f"{test:28} {outcome}")


# %% [markdown]
# ### Broken promises
#
# *In depth: what `opcheck` finds, and what it cannot: a wrong gradient. So run `gradcheck` too.
# Exercise 6 asks for both.*
#
# `declared` makes an operator of a function and a fake:


# %%
def declared(name, function, fake):
    operator = custom_op(f"tides::{name}", function, mutates_args=())
    operator.register_fake(fake)
    return operator


def smooth_in_place(x: Tensor) -> Tensor:
    x.mul_(0.8)
    return x.clone()


def last_value(x: Tensor) -> Tensor:
    return x[..., -1].clone()


wrong = {
    "changes its input": declared("in_place", smooth_in_place, torch.empty_like),
    "a fake of another shape": declared("last", last_value, torch.empty_like),
}
for what, operator in wrong.items():
    try:
        opcheck(operator, (torch.ones(2, 6),))
    except Exception as error:
        test, _, why = str(error).partition("opcheck(op, ...): ")[2].partition(" failed with ")
        reason = why.partition(" (scroll")[0].rpartition(": ")[2]
        print(f"{what}: {test}\n    {reason}")

# %% [markdown]
# Unchecked, neither raises in eager mode. A wrong fake is found out when something is compiled that
# relies on it, or not at all.
#
# **Common belief: "`opcheck` passes, so the gradient is right."** It tests that everything is
# registered as it should be. It knows nothing of the mathematics:


# %%
def doubled_backward(ctx, grad_output):
    return 2 * backward(ctx, grad_output)[0], None


doubled = declared("doubled", smoothed, lambda x, keep: torch.empty_like(x))
doubled.register_autograd(doubled_backward, setup_context=setup_context)
for name, operator in {"smooth": smooth, "doubled": doubled}.items():
    outcomes = set(opcheck(operator, (sample, 0.8)).values())
    right = gradcheck(lambda x, f=operator: f(x, 0.8), sample, raise_exception=False)
    print(f"{name:8} opcheck {outcomes}, gradcheck {right}")

# %% [markdown]
# So both, always; and `diagnose`, which takes any callable.

# %% [markdown]
# ### Together with a Function
#
# *In depth: for an operator that `torch.func` is to differentiate, too. In short: around it goes a
# Function in the split form.*
#
# An operator with `register_autograd` is made for compiling and exporting. **Common belief: "where
# a transform is not supported, it raises."** Ask for the derivative of our operator in the two
# modes of `torch.func`:

# %%
still = sample.detach()
try:
    grad(lambda x: smooth(x, 0.8).sum())(still)
except RuntimeError as error:
    print("grad raises:", str(error).partition(", it")[0])
_, change = jvp(lambda x: smooth(x, 0.8), (still,), (torch.ones_like(still),))
print("jvp gives:  ", change.numpy())
print("right:      ", smooth(torch.ones_like(still), 0.8).numpy().round(3))  # it is linear

# %% [markdown]
# Reverse mode refuses. Forward mode treats the operator as a constant: zeros, and not a word.
#
# But nobody says that an operator must have a gradient. Let it be the kernel alone, and put a
# Function in the split form around it. The tracer goes into the Function and stops at the operator;
# `torch.func` sees the Function.


# %%
class SmoothOperator(Smooth):
    @staticmethod
    def forward(x, keep):
        return smooth(x, keep)

    @staticmethod
    def backward(ctx, grad_output):
        return SmoothOperator.apply(grad_output.flip(-1), ctx.keep).flip(-1), None

    @staticmethod
    def vmap(info, in_dims, x, keep):
        return SmoothOperator.apply(x.movedim(in_dims[0], 0), keep), 0


forward_graph, _ = traced(lambda x: torch.tanh(SmoothOperator.apply(2 * x, 0.8)), series32)
print("forward:", *forward_graph)
again = vmap(grad(lambda x: SmoothOperator.apply(x, 0.8)[-1]))(series)
print("per-sample slopes as before:", torch.equal(again, slopes))

# %% [markdown]
# **Common belief: "an operator can be defined once; running the cell again needs a new kernel."**

# %%
for _ in range(2):
    declared("again", last_value, lambda x: x[..., -1].clone())
print("defined twice")

# %% [markdown]
# `custom_op` replaces the old definition, and what was registered for it goes with it. Keep the
# four pieces in one cell, as above, and run it as often as you like. (`torch.library.define`, the
# older and lower interface, is the one that raises.)

# %% [markdown]
# ## Autocast
#
# *In depth: for a Function in mixed precision. Exercise 7 needs it.*
#
# Under `torch.autocast` a matrix product takes float32 and computes in bfloat16 (on a GPU in
# float16, unless a dtype is given). It is switched on around the forward pass of a whole model, by
# somebody else. The backward pass runs after it, with autocast off. Here is a linear layer as in
# lesson 01; it prints what its `backward` meets.


# %%
class Project(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        print(f"backward: g {grad_output.dtype}, weight {weight.dtype}")
        return grad_output @ weight, grad_output.T @ x


def mixed(project):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(8, 3, generator=rng)
    weight = torch.randn(4, 3, generator=rng).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = project(x, weight)
    try:
        y.square().mean().backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"y {y.dtype}, gradient {weight.grad.dtype}"


print(mixed(Project.apply))

# %% [markdown]
# `forward` saved what it was *given*, in float32, and returned bfloat16, so a bfloat16 $g$ comes
# back. In eager code the engine would have recorded the casts as operations, and their backward
# casts back. In a Function that is yours to do. Two decorators do it:
#
# - `custom_fwd` notes on `ctx` whether autocast was on, `custom_bwd` brings that state back for
#   `backward`: both methods then compute in bfloat16;
# - with `cast_inputs=torch.float32`, `forward` gets float32 and runs with autocast off, and so does
#   `backward`. For Functions that need the digits.


# %%
on = {"device_type": "cpu"}


class AsForward(Project):
    forward = staticmethod(custom_fwd(Project.forward, **on))
    backward = staticmethod(custom_bwd(Project.backward, **on))


class InFloat32(Project):
    forward = staticmethod(custom_fwd(Project.forward, **on, cast_inputs=torch.float32))
    backward = staticmethod(custom_bwd(Project.backward, **on))


for function in (AsForward, InFloat32):
    print(f"{function.__name__}: {mixed(function.apply)}")

# %% [markdown]
# **Common belief: "put `custom_fwd` on `forward` and `custom_bwd` on `backward`."** In the split
# form there is no `ctx` in `forward` on which anything could be noted:


# %%
class SplitProject(Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(x, weight):
        return x @ weight.T

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.T @ x


class SplitRight(SplitProject):
    forward = staticmethod(lambda x, weight: x @ weight.T)
    setup_context = staticmethod(custom_fwd(SplitProject.setup_context, **on))


for function in (SplitProject, SplitRight):
    print(f"{function.__name__}: {mixed(function.apply)}")

# %% [markdown]
# `setup_context` has the `ctx`, so the decorator belongs there. (`cast_inputs` does not help in
# that place: what is cast is not what `forward` computed with. Cast in `forward`, and `grad_output`
# in `backward`, by hand.)

# %% [markdown]
# ## In company
#
# *In depth: for checkpoint and for several processes. In short: `forward` may run twice, and
# gradients are returned, never written.*
#
# A Function seldom runs alone. Two tools that run *around* it decide when, how often, and in which
# process its methods are called.
#
# `torch.utils.checkpoint` (lesson 07) drops what was saved and runs `forward` again in the backward
# pass:

# %%
calls.clear()
x = torch.randn(3, generator=rng, dtype=torch.float64, requires_grad=True)
checkpoint(lambda x: Watched.apply(x, a).sum(), x, use_reentrant=False).backward()
print(*(call.split()[0] for call in calls))

# %% [markdown]
# The second `forward` runs *inside* `backward`, at the moment when that asks for its saved tensors.
# So `forward` may not count its calls, draw from random numbers other than PyTorch's, or change
# anything outside. And with `use_reentrant=False`, the form to use, `ctx.saved_tensors` can be
# unpacked once in each backward, twice raises: read it into names in the first line.
#
# `DistributedDataParallel` runs the same model in several processes, each with its share of the
# batch, and averages the gradients over them while they arrive. **Common belief: "in a Function I
# have to take care of the other processes."** What an ordinary one has to do is what it does
# anyway: *return* its gradients. DDP puts a hook on each parameter, and the hook is called when
# autograd brings the parameter its gradient.
#
# Below, two processes on this machine, in two layers of the same numbers. One takes its weight as
# an argument and returns its gradient. The other finds the weight by itself and writes `.grad`:

# %%
print(inspect.getsource(replicas._Writing))

# %% [markdown]
# Alone, both give the right gradient. Now with four of eight samples in each process (this takes a
# few seconds: two Pythons start):

# %%
layers = {"returned": replicas.Returned, "written": replicas.Written}
torch.manual_seed(0)
samples = torch.randn(8, 3)
in_processes = replicas.gradients(list(layers.values()), [samples[:4], samples[4:]])

for (name, layer), (first, second) in zip(layers.items(), in_processes, strict=True):
    alone = layer()
    alone(samples).square().mean().backward()
    agree = torch.allclose(first, second)
    whole = torch.allclose(first, alone.weight.grad, atol=1e-5)
    print(f"{name}: the processes agree {agree}, the whole batch's gradient {whole}")

# %% [markdown]
# The written gradient never met the hook. After one step the two processes have different weights,
# and nothing was said. (At the next step DDP does complain, of parameters "not used in producing
# loss", and suggests `find_unused_parameters=True`. With that it trains on, each process a model of
# its own.) A gradient that does not go through `backward`'s return value is lost to all that
# listens there: DDP, tensor hooks, `torch.autograd.grad`.

# %% [markdown]
# ## Which one to take
#
# | you have | write | because |
# | --- | --- | --- |
# | operations whose derivative autograd knows | no Function | all of it comes free |
# | a gradient of your own | a Function, split, `generate_vmap_rule` | by sample, compiled, DDP |
# | … and Hessians or sensitivities | … with `jvp` | forward over reverse |
# | foreign code, eager only | a Function, with a `vmap` if wanted | the least ceremony |
# | foreign code, compiled or exported | `custom_op`, fake, autograd | one opaque node |
# | both, and `torch.func` too | a Function around a `custom_op` | each does its part |
# | an old Function that only trains | leave it | `backward()`, compile, DDP take it |

# %% [markdown]
# ## Do you know it?
#
# Eleven questions. A wrong answer explains itself; try again.

# %%
knowledge_check("11")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# class F(torch.autograd.Function):
#     generate_vmap_rule = True                     # or a method vmap, not both
#
#     @staticmethod
#     def forward(x, a):                            # PyTorch operations on one sample
#         return ...
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):       # save, mark; custom_fwd belongs here
#         ctx.save_for_backward(*inputs)
#         ctx.save_for_forward(*inputs)
#
#     @staticmethod
#     def backward(ctx, grad_output): ...           # gᵀ J
#
#     @staticmethod
#     def jvp(ctx, x_tangent, a_tangent): ...       # J t
#
#     @staticmethod
#     def vmap(info, in_dims, x, a):                # by hand: whole tensors in
#         ...
#         return F.apply(x, a), out_dim
#
# @custom_op("lib::f", mutates_args=())
# def f(x: Tensor, k: float) -> Tensor: ...         # new memory, nothing changed
# f.register_fake(lambda x, k: torch.empty_like(x))
# f.register_autograd(backward, setup_context=setup_context)
# opcheck(f, (x, 0.5)); gradcheck(lambda x: f(x, 0.5), x)
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | `torch.func` | the split form only; an intermediate becomes an output |
# | `vmap` | one call; `forward` sees one sample; no branch on values, no NumPy |
# | `vmap` by hand | `in_dims`, each an axis or `None`; say where the batch went |
# | shared parameter | its per-sample gradient has a batch dimension |
# | `jvp` | with `save_for_forward`; `gradcheck(…, check_forward_ad=True)` |
# | `torch.compile` | traces both methods; breaks are silent: test with `fullgraph=True` |
# | `custom_op` | one opaque node; fake, autograd; `torch.func.grad` refuses, `jvp` gives 0 |
# | `opcheck` | registration; `gradcheck`: mathematics |
# | autocast | `g` comes in the output's dtype; `custom_fwd` goes where `ctx` is |
# | DDP, checkpoint | gradients are returned, never written; `forward` may run twice |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/11_beyond_eager.ipynb): split an old Function, write a
# vmap rule and a `jvp`, and build an operator that passes `opcheck` and compiles in one graph.
#
# Lesson 13 takes up foreign code in earnest: SciPy, solvers, C++ and Triton.
