# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/11_torch_func.ipynb)
#
# # 11 · torch.func: vmap and forward mode
#
# **You will** change a Function so that `torch.func` can use it, and compute the gradient of every
# sample in a batch in one pass.
#
# **You will learn** why `torch.func` needs a separate `setup_context`, how `vmap` runs your
# Function with a generated rule or with a rule of your own, and how to add forward mode.
#
# **You need** lessons 01 and 02: vector-Jacobian products, `setup_context`, `diagnose`.
#
# **It takes** about 60 minutes; the *extra* sections take another 5. You will solve one exercise
# here. The others are in the exercise notebook.

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

import numpy as np
import torch
from torch import nn
from torch.autograd import Function, gradcheck
from torch.func import functional_call, grad, hessian, jvp, vmap

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, predict, show_error, vote
from autograd_course.visualize import function_lab, knowledge_check

# %% [markdown]
# ## One bad reading
#
# A tide gauge reports the sea level every eighteen minutes. Five of its 120 readings are wrong: the
# transmission failed, and the log says 30 meters. A small network should still learn the tide. Its
# activation is the *snake*, which suits periodic data because it learns a frequency $a$ (Ziyin et
# al. 2020):
#
# $$y = x + \frac{\sin^2(a x)}{a}$$
#
# A colleague wrote the snake as a Function with a combined `forward(ctx, x, a)`, as in lesson 01.
# The Function is right.


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

# %% jupyter={"source_hidden": true}
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


def clip_batch(net):
    """Compute the gradient of the mean loss and clip it to norm 1."""
    net.zero_grad()
    (net(when) - gauge).square().mean().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)


# %% jupyter={"source_hidden": true}
def fit(snake, compute_gradients, steps=200):
    torch.manual_seed(0)
    net = Net(snake).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        compute_gradients(net)
        optimizer.step()
    return net(when).detach()


def sample_gradients(net):
    """Return the gradient of each sample's loss by parameter, with the samples along dim 0."""

    def loss(parameters, x, y):
        prediction = functional_call(net, parameters, (x,))  # net(x), with these parameters
        return (prediction - y).square()

    parameters = {name: p.detach() for name, p in net.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, when, gauge)


def norms(grads):
    return torch.stack([g.reshape(len(g), -1).norm(dim=1) for g in grads.values()]).norm(dim=0)


def clip_samples(net):
    """Clip each sample's gradient to norm 1, and put the mean into .grad."""
    grads = sample_gradients(net)
    factors = (1 / norms(grads)).clamp(max=1)
    for name, p in net.named_parameters():
        p.grad = torch.einsum("n,n...->...", factors, grads[name]) / len(when)


def typical_error(prediction):
    """Return the root mean square error in meters."""
    return (prediction - tide).square().mean().sqrt().item()


# %% [markdown]
# The squared error of a wrong reading is about 900, so these five readings outweigh all the others.
# The usual remedy is to *clip* the gradient: if its norm is larger than a limit, you scale it down
# to the limit. There are two ways to do this.
#
# - `clip_batch` computes the gradient of the whole batch and clips it.
# - `clip_samples` clips the gradient of each *sample* and then averages the results, so no reading
#   counts much more than another. Training with differential privacy does the same.
#
# `clip_samples` needs 120 gradients in every step, but it does not run 120 backward passes.
# Instead, it uses `torch.func`: `grad` turns a function into its gradient function, and `vmap` runs
# this function over a batch. The hidden cells define the two clipping functions and `fit`, which
# trains the network.

# %%
by_batch = fit(OldSnake.apply, clip_batch)
print(f"clip_batch: typical error {typical_error(by_batch):.0f} meters")
print("clip_samples:")
with show_error():
    by_sample = fit(OldSnake.apply, clip_samples)

# %% [markdown]
# With `clip_batch`, the network is off by meters. The five readings dominate the sum before it is
# clipped. Clipping makes the gradient shorter, but its direction is already wrong. With
# `clip_samples`, PyTorch raises an error. The Function is right, but `torch.func` cannot use it.
#
# **Your turn.** The next cell contains the snake in the form that `torch.func` needs, with a
# separate `setup_context` as in lesson 02. It still needs two changes. Make them one at a time, and
# run the cell before and after each change.


# %%
class Edited(Function):
    generate_vmap_rule = False  # 1. write True

    @staticmethod
    def forward(x, a):
        return x + torch.sin(a * x) ** 2 / a

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward()  # 2. pass *inputs, which are x and a

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        wave = torch.sin(2 * a * x)
        by_a = x * wave / a - (torch.sin(a * x) / a) ** 2
        return grad_output * (1 + wave), (grad_output * by_a).sum()


with show_error():
    edited = fit(Edited.apply, clip_samples)
    print(f"typical error {100 * typical_error(edited):.0f} centimeters")

# %% [markdown]
# ## The whole thing, working
#
# Here is the Function with both changes. `forward` has no `ctx`. Everything that it did with `ctx`
# is now in `setup_context`. The line `generate_vmap_rule = True` tells PyTorch to derive the rule
# for `vmap` from your methods. `backward` has not changed.


# %%
class Snake(Function):
    """Has the same values and gradients as OldSnake, but a separate setup_context."""

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


by_sample = fit(Snake.apply, clip_samples)
print(f"clip_batch:   typical error {typical_error(by_batch):.0f} meters")
print(f"clip_samples: typical error {100 * typical_error(by_sample):.0f} centimeters")

# %% jupyter={"source_hidden": true}
torch.manual_seed(0)
first_norms = norms(sample_gradients(Net(Snake.apply).to(device))).cpu()
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
    note(learned, "clip_batch", (0.2, 3.7), ORANGE)
    note(learned, "clip_samples", (9.2, -2.5), BLUE)
    learned.set(title="what was learned", xlabel="hours", ylabel="level [m]", ylim=(-3, 6.6))

    sizes.semilogy(h[good], first_norms[good], ".", color=BLUE)
    sizes.semilogy(h[bad], first_norms[bad], "o", color=ORANGE)
    sizes.axhline(1, color=GRAY, linestyle="--", linewidth=1)
    note(sizes, "30 m", (0.5, 230), ORANGE)
    note(sizes, "limit", (0.5, 0.62), GRAY)
    sizes.set(title="gradient norm of each sample, step 1", xlabel="hours", ylim=(0.2, 600))

# %% [markdown]
# Both runs use the same data, the same network and the same optimizer. The better run needs a
# Function that `torch.func` can *transform*.

# %% [markdown]
# ## Two forms of one Function
#
# Why does `forward` have to give up its `ctx`? `ctx` is a node in one graph. `vmap(grad(f))` nests
# two transforms, and each of them handles the call: `vmap` runs `forward` for the whole batch, and
# `grad` creates a node for the gradient. So PyTorch must be able to run the two jobs of a combined
# `forward` separately: computing the output and saving what `backward` needs.
#
# | | combined `forward` | separate `forward` and `setup_context` |
# | --- | --- | --- |
# | compute | `forward(ctx, x, a)` | `forward(x, a)` |
# | save, mark | in `forward` | `setup_context(ctx, inputs, output)` |
# | an intermediate for `backward` | `ctx.save_for_backward(s)` | return it, or recompute it |
# | `torch.func.grad`, `vjp`, `jvp`, `vmap`, `hessian` | raise an error | possible |
#
# Nothing else changes. The lab below shows both forms. Drag $x$ and $a$, and watch which lines run
# in which method.

# %%
function_lab({"Snake": Snake, "OldSnake": OldSnake}, torch.tensor(1.5), x=0.6, names=("x", "a"))

# %% [markdown]
# ### setup_context in full
#
# PyTorch calls `setup_context` after each call to `forward`, even if no input requires grad.
#
# | | |
# | --- | --- |
# | `inputs` | a tuple of all arguments of `forward`, including defaults: `x, a = inputs` |
# | `output` | what `forward` returned: a tensor, or a tuple of several outputs |
# | belongs here | `save_for_backward`, `save_for_forward`, all `mark_…` and `set_…` methods |
# | numbers, shapes, flags | attributes, such as `ctx.keep = keep` |
# | grad mode | off, so a tensor that you compute here is a constant in `backward` |
#
# `setup_context` sees the inputs and the output of `forward`, but no intermediate results. Suppose
# that $\sin(ax)$ is expensive and that `backward` should reuse it. The usual way is to return
# $\sin(ax)$ as a second output. If callers should not differentiate this output, mark it as
# non-differentiable, and give them a plain function that drops it.


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
print("Snake:      ", grad(lambda x: Snake.apply(x, a).sum())(x).numpy().round(3))
print("KeepingSine:", grad(lambda x: snake(x, a).sum())(x).numpy().round(3))

# %% [markdown]
# An extra output is not the only way. The table lists four ways and what each one costs:
#
# | where the intermediate is computed | second derivative | cost |
# | --- | --- | --- |
# | in `forward`, returned and marked | silently wrong (lesson 06) | an extra output |
# | in `setup_context`, saved there | silently wrong | computed twice |
# | in `backward` | right | computed twice, nothing saved |
# | before `.apply`, passed as an argument | right | autograd also saves its own graph |
#
# If you pass the intermediate as an argument, `backward` must return `None` for it. Do not store it
# on the class or in a global variable: the next call overwrites it, as lesson 02 showed.

# %% [markdown]
# ## vmap, generated
#
# `vmap` applies a function to each sample of a batch and stacks the results:
#
# $$\operatorname{vmap}(f)\,(x_1, \dots, x_N) \;=\; \bigl(f(x_1), \dots, f(x_N)\bigr)$$
#
# For each of 120 samples of three numbers, the next cell computes the gradient with respect to a
# shared $a$. It prints each call to `forward` and `backward`. Vote before you run it. Each vote in
# this lesson tests a common belief, and some of these beliefs are true.

# %%
vote("11", "one-call")


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
# `vmap` calls each method once. The tensor that `forward` receives *reports* the shape of a single
# three-element sample. In fact, the tensor contains all 120 samples, and each operation works on
# all of them at once. So you write `forward` and `backward` for one sample: `sum()` adds up one
# sample, not the batch.
#
# `in_dims=(None, 0)` says that all samples share `a`, and that the samples of `x` lie along dim 0.
# The gradient of the *shared* `a` has a batch dim: it contains one number for each sample. These
# 120 numbers are the same as those from a loop, and they add up to the ordinary gradient.


# %%
def summed(a, x):
    return Snake.apply(x, a).sum()


total = grad(summed)(a, batch)
looped = torch.stack([grad(summed)(a, row) for row in batch])
print("vmap, first samples:", per_sample[:4].numpy().round(3))
print("loop, first samples:", looped[:4].numpy().round(3))
print(f"sum of the 120: {per_sample.sum():.3f}, gradient of the batch: {total:.3f}")

# %% [markdown]
# ### Checkpoint 1
#
# You can nest `vmap`. A grid of $6 \times 20$ samples, each with 3 numbers, is a tensor of shape
# `(6, 20, 3)`. You call `vmap(vmap(f))` on it, and `f` calls a Function. How many dims does the
# tensor `x` in `forward` have?

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
# One. Each `vmap` hides one dim: the outer `vmap` hides the 6, and the inner `vmap` hides the 20.
# One sample of shape `(3,)` is left.
#
# </details>

# %% [markdown]
# ### What breaks a generated rule
#
# With `generate_vmap_rule = True`, you promise that `forward`, `backward` and `jvp` consist of
# PyTorch operations that do the same thing for every sample. Here are four Functions with a
# generated rule.

# %%
vote("11", "rule-for-all")


# %%
class Branching(Snake):
    @staticmethod
    def forward(x, a):
        return x if x.max() > 1 else a * x


class CallingNumPy(Snake):
    @staticmethod
    def forward(x, a):
        return torch.from_numpy(np.sin(x.numpy()))


class IntoZeros(Snake):
    @staticmethod
    def forward(x, a):
        y = torch.zeros(3)
        y += x  # y has no batch dim, but x has one
        return y


class Random(Snake):
    @staticmethod
    def forward(x, a):
        return x * torch.rand_like(x)


for function in (Branching, CallingNumPy, IntoZeros, Random):
    print(f"{function.__name__}:")
    with show_error(characters=200):
        vmap(function.apply, in_dims=(0, None))(grid[0], torch.tensor(2.0))

# %% [markdown]
# All four break the promise. For example, `x.max() > 1` has 20 answers, one for each sample, but
# Python can take only one branch. You can repair all four Functions:
#
# | instead of | write |
# | --- | --- |
# | `if x.max() > 1` | `torch.where`, `clamp` |
# | `x.item()`, `x.numpy()` | PyTorch operations, or your own rule (next section) |
# | `torch.zeros(3)`, then `+=` | `x.new_zeros(3)`, which is batched like `x`; or `y = y + x` |
# | random numbers | the caller passes `randomness="same"` or `"different"` to `vmap` |

# %% [markdown]
# ## vmap, by hand
#
# Some code cannot work on a batched tensor. An example is exponential smoothing, a recurrence
# computed by a NumPy loop:
#
# $$y_t = k\, y_{t-1} + (1-k)\, x_t$$
#
# PyTorch cannot look into this loop, as it cannot look into C, Fortran or a vendor's library. The
# transpose of this recurrence is the same recurrence, run from the last step to the first. So
# `backward` calls the Function again, and you can differentiate the Function as often as you like.


# %%
def smoothed(x, keep):
    """Run the recurrence along the last dim, in NumPy."""
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
# The fourth method is the rule. PyTorch passes it the *whole* tensors, including the batch dim, and
# the rule calls the Function on them:
#
# - `in_dims` says where the batch of each argument is: the position of a dim, or `None` if the
#   argument has no batch;
# - `info.batch_size` and `info.randomness` describe the call to `vmap`;
# - the rule returns the outputs, and also the position of the batch in each output (`out_dims`).
#
# The recurrence runs along the *last* dim, but the batch may be in this dim. So the rule first
# moves the batch to the front. The next cell tries samples in rows and samples in columns:

# %%
series = torch.randn(4, 7, generator=rng, dtype=torch.float64)
rows = torch.stack([Smooth.apply(row, 0.8) for row in series])
by_rows = vmap(lambda x: Smooth.apply(x, 0.8))(series)
by_columns = vmap(lambda x: Smooth.apply(x, 0.8), in_dims=1)(series.T)
print("loop:              ", rows[0, :4].numpy().round(3))
print("samples in rows:   ", by_rows[0, :4].numpy().round(3))
print("samples in columns:", by_columns[0, :4].numpy().round(3))
slopes = vmap(grad(lambda x: Smooth.apply(x, 0.8)[-1]))(series)
print("per-sample slopes: ", slopes[0].numpy().round(3))

# %% [markdown]
# `diagnose` compares a rule with a loop. It puts the batch in several places and lets the samples
# share some arguments, in both the forward and the backward pass. The next rule assumes that the
# batch is always in front. A test with samples in rows would not find this mistake.


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
# Now suppose that a kernel has two arguments, and all samples share one of them. Most kernels
# expect a batch dim in both. For the shared argument, `in_dims` contains `None`, and the rule adds
# the batch dim with `t.expand(info.batch_size, *t.shape)`. `expand` copies nothing, and its
# backward sums the gradient of the shared tensor over the samples.
#
# ### Exercise 1: vmap-solve
#
# NumPy solves the linear system $A y = b$. The kernel takes a matrix and a vector, and both can
# have leading batch dims. Write the rule. It must accept any `in_dims`, including `None` for one of
# the two arguments, and must call the kernel only once. If you are stuck, run `hint("vmap-solve")`
# in a new cell.


# %%
class Solve(Function):
    @staticmethod
    def forward(a, b):
        y = np.linalg.solve(a.detach().numpy(), b.detach().numpy()[..., None])
        return torch.from_numpy(y[..., 0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad_output):
        a, y = ctx.saved_tensors
        grad_b = Solve.apply(a.mT, grad_output)
        grad_a = -grad_b[..., :, None] * y[..., None, :] if ctx.needs_input_grad[0] else None
        return grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, a, b):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("vmap-solve", Solve)

# %% [markdown]
# ## Forward mode
#
# `backward` multiplies the Jacobian by a vector from the left: $g^\top J$. *Forward mode*
# multiplies it by a vector from the right. It takes a change in the inputs, the *tangents*
# $(\dot x, \dot a)$, and computes the resulting change in the output:
#
# $$\dot y = \frac{\partial y}{\partial x}\,\dot x + \frac{\partial y}{\partial a}\,\dot a$$
#
# The method is called `jvp`, for *Jacobian-vector product*. It receives one tangent for each input.
# In `jvp`, `ctx.saved_tensors` contains what you passed to `save_for_forward`. Pass the same
# tensors to `save_for_forward` and `save_for_backward`, in the same order. (A generated vmap rule
# keeps one list of batch dims for both. If the tensors differ, backward through `vmap` raises an
# error.)
#
# Treat a tangent like `grad_output`. Do not change it in place, because other operations on the
# same input also read it. Do not call `.item()` on it either: `jacfwd` runs `jvp` under `vmap`, so
# one tangent represents many directions.


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


inputs = (x.clone().requires_grad_(), a.clone().requires_grad_())
print("gradcheck:", gradcheck(FullSnake.apply, inputs, check_forward_ad=True))

# %% [markdown]
# With `check_forward_ad=True`, `gradcheck` also compares `jvp` with finite differences. `jvp` and
# `backward` multiply the same Jacobian by a vector, but from different sides. (JAX needs only the
# forward rule: you write a `custom_jvp`, and JAX *transposes* it into a backward pass. This works
# because a `jvp` is linear in its tangents. In PyTorch, you write both methods.)
#
# The next cell computes the derivatives of five outputs with respect to the single input $a$, once
# in forward mode and once with a backward pass for each output.

# %%
vote("11", "one-pass")


# %%
class Counted(FullSnake):
    @staticmethod
    def jvp(ctx, x_tangent, a_tangent):
        calls.append("jvp")
        return FullSnake.jvp(ctx, x_tangent, a_tangent)

    @staticmethod
    def backward(ctx, grad_output):
        calls.append("backward")
        return FullSnake.backward(ctx, grad_output)


calls = []
one = torch.ones((), dtype=torch.float64)
_, by_forward = jvp(lambda a: Counted.apply(x, a), (a,), (one,))
leaf = a.clone().requires_grad_()
y = Counted.apply(x, leaf)
by_reverse = [torch.autograd.grad(y_i, leaf, retain_graph=True)[0] for y_i in y]

print(f"forward mode, {calls.count('jvp')} pass:  ", by_forward.numpy().round(3))
print(f"reverse mode, {calls.count('backward')} passes:", torch.stack(by_reverse).numpy().round(3))

# %% [markdown]
# To choose a mode, count the passes. Reverse mode costs one pass for each *output*, and forward
# mode costs one pass for each *input*. A loss has one output and a million inputs, so use reverse
# mode. A curve that depends on one frequency has many outputs and one input, so use forward mode.
# For a full Jacobian, `jacrev` and `jacfwd` run these passes under `vmap`, so your Function needs a
# vmap rule.
#
# `hessian` combines the modes: it runs forward mode over reverse mode (lesson 06). `FullSnake` has
# everything that `hessian` needs, but `Snake` has no `jvp`:


# %%
def bend(snake):
    return hessian(lambda x: snake(x, a).square().sum())(x).diag()


def snake_of_operations(x, a):
    return x + torch.sin(a * x) ** 2 / a


print("PyTorch:  ", bend(snake_of_operations).numpy().round(3))
print("FullSnake:", bend(FullSnake.apply).numpy().round(3))
print("Snake:")
with show_error():
    bend(Snake.apply)

# %% [markdown]
# ### The graph of a tangent
#
# *Extra: for readers who differentiate a forward-mode derivative, as in score matching or in a
# network that must satisfy a differential equation.*
#
# Reverse mode over forward mode differentiates the tangent. It does not call your `backward`.
# Instead, autograd records the operations in `jvp` and differentiates them. So lesson 06's rules
# for `backward` also apply to `jvp`. The next Function computes its slope once, in `setup_context`,
# and uses it in `jvp`. Its values, gradients and tangents are right.

# %%
vote("11", "tangent-graph")


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
# `Cached` returns zeros, and PyTorch raises no error. `setup_context` runs without a graph, so the
# slope that it computes is a constant in `jvp`. Only saved inputs and outputs are still connected
# to the graph, so compute everything else from them in `jvp`.

# %% [markdown]
# ## Per-sample gradients
#
# You can now understand `sample_gradients`, which `clip_samples` calls:
#
# ```python
# def loss(parameters, x, y):
#     prediction = functional_call(net, parameters, (x,))
#     return (prediction - y).square()
#
# parameters = {name: p.detach() for name, p in net.named_parameters()}
# gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, when, gauge)
# ```
#
# - `functional_call(net, parameters, (x,))` runs the network with the parameters in the dict. So
#   the loss is a function of the parameters, and `grad` can differentiate it.
# - `grad` differentiates with respect to the first argument, the dict, and returns a dict.
# - `in_dims=(None, 0, 0)` says that all samples share the parameters, and that the data has one row
#   per sample.
#
# Inside `vmap`, a sample has no batch dim. Our network accepts that, but a layer such as
# `nn.Flatten` expects a batch dim. In that case, use `unsqueeze` to pass it a batch of one. For the
# next two layers, even that is not enough:

# %%
layers = {"dropout": nn.Dropout(), "batch norm": nn.BatchNorm1d(3)}
for name, layer in layers.items():
    print(f"{name}:")
    with show_error(characters=200):
        vmap(layer)(batch.float().unsqueeze(1))  # each sample has the shape (1, 3)

# %% [markdown]
# For dropout, pass `randomness="different"` to `vmap`. Batch norm cannot be repaired: it mixes the
# samples in a batch, so a single sample has no gradient of its own. Use group norm instead.

# %% [markdown]
# ### Checkpoint 2
#
# `clip_batch` computes the gradient of the *mean* loss. Now add up the 120 per-sample gradients. By
# what factor is the sum larger than the gradient of the mean loss?

# %%
net = Net(Snake.apply).to(device)
(net(when) - gauge).square().mean().backward()
summed = sample_gradients(net)["last.bias"].sum()

predict(..., summed / net.last.bias.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# By a factor of 120. The mean divides the sum of the losses by 120, so it also divides the sum of
# their gradients. `clip_samples` divides by `len(when)` for the same reason.
#
# </details>

# %% [markdown]
# ## Do you know it?
#
# Answer six questions. If an answer is wrong, you will see why, and you can try again.

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
#     def setup_context(ctx, inputs, output):       # save, mark
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
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | `torch.func` | needs a separate `setup_context`; return or recompute an intermediate |
# | `vmap` | one call; `forward` sees one sample; no branch on values, no NumPy |
# | `vmap` by hand | `in_dims`: a dim or `None` for each argument; return where the batch is |
# | shared parameter | its per-sample gradient has a batch dim |
# | `jvp` | with `save_for_forward`; `gradcheck(…, check_forward_ad=True)` |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/11_torch_func.ipynb), you will split
# `setup_context` off an old `forward`, compute per-sample gradients, and write a vmap rule and a
# `jvp`.
#
# [Lesson 12](12_compile_and_operators.ipynb) passes Functions to `torch.compile` and turns a NumPy
# loop into a single operation in the compiled graph.
