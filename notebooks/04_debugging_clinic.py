# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/04_debugging_clinic.ipynb)
#
# # 04 · The debugging clinic
#
# **You will** examine Functions that nobody here wrote, one of which ships with PyTorch, say what
# is wrong with them, and repair them.
#
# **You will learn** five questions to ask a Function, in an order in which each answer can be
# trusted; how to read a wrong Jacobian; how to hunt a `nan`; and what `gradcheck` never asks.
#
# **You need** lesson 01. Lessons 02 and 03 help: most of the patients have been there.
#
# **It takes** about 60 minutes; the *extra* sections take another 15. The exercises come after it.

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
import math
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.autograd import Function, grad, gradcheck, gradgradcheck
from torch.autograd.functional import jacobian
from torch.nn.functional import local_response_norm
from torch.nn.modules import _functions as shipped

from autograd_course import diagnose
from autograd_course.functions import LocalResponseNorm
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    check_element,
    compare_forward,
    compare_magnitudes,
    figure,
    five_steps,
    note,
    predict,
    run_backward,
    run_gradcheck,
)
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## The same layer twice
#
# Sixteen gas sensors stand in a row. Each is damped by its neighbors, the more the stronger these
# are excited, so that the reading of sensor $c$ under a stimulus $x$ is
#
# $$y_c = \frac{x_c}{s_c^{\,\beta}}, \qquad s_c = k + \frac{\alpha}{n} \sum_{j \in W(c)} x_j^2 ,$$
#
# where $W(c)$ is the window of $n$ sensors around $c$. What we want is the stimulus: find the $x$
# that explains the readings, by gradient descent through the formula. Eyes work like this, and so
# did the first nets that won image contests: there it is called *local response normalization*.
#
# PyTorch has it twice: as a function, `F.local_response_norm`, and as a module,
# `nn.CrossMapLRN2d`, whose arguments are the same and whose backward was written by hand. So here
# are the readings of one afternoon, computed from a stimulus that we happen to know, and both
# layers to find it.

# %%
n, alpha, beta, k = 3, 2.0, 0.5, 1.0
sensor = torch.arange(16, dtype=torch.float64)
stimulus = 0.3 + 2 * torch.exp(-0.5 * (sensor / 1.5) ** 2)
stimulus += torch.exp(-0.5 * ((sensor - 9) / 2) ** 2)
windows = [stimulus[max(0, c - 1) : c + 2] for c in range(16)]
scale = torch.stack([k + alpha / n * window.square().sum() for window in windows])
readings = (stimulus / scale**beta).reshape(1, 16, 1, 1)


def find(layer, steps=300):
    x = torch.ones(1, 16, 1, 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.1)
    losses = []
    for _ in range(steps):
        loss = (layer(x) - readings).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return x.detach().flatten(), losses


by_module, module_losses = find(nn.CrossMapLRN2d(n, alpha, beta, k))
by_function, function_losses = find(lambda x: local_response_norm(x, n, alpha, beta, k))
for name, losses in (("module", module_losses), ("function", function_losses)):
    print(f"{name:9} loss at first {losses[0]:.3f}, in the end below 1e-12: {losses[-1] < 1e-12}")

# %% [markdown]
# Both runs end at zero, twelve digits of it. **Common belief: "the loss went to zero, so the layer
# and its gradient are right."** Look at what they found.

# %%
for c in (0, 2, 9, 15):
    found = f"module {by_module[c]:.2f}, function {by_function[c]:.2f}"
    print(f"sensor {c:>2}: {found}, true {stimulus[c]:.2f}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.5) as (watched, found):
    for losses, color, style in ((function_losses, BLUE, "-"), (module_losses, ORANGE, "--")):
        watched.semilogy([max(loss, 1e-17) for loss in losses], color=color, linestyle=style)
    watched.set(title="two runs, one formula", xlabel="step", ylabel="loss", ylim=(1e-17, 1))
    note(watched, "function", (95, 1e-12), BLUE)
    note(watched, "module", (175, 1e-7), ORANGE)

    found.plot(sensor, stimulus, color=GRAY, linewidth=7, alpha=0.4)
    found.plot(sensor, by_function, color=BLUE)
    found.plot(sensor, by_module, color=ORANGE, linestyle="--")
    note(found, "the stimulus, and what the function finds", (0.2, 0.1), BLUE)
    note(found, "what the module finds", (6, 3.45), ORANGE)
    found.set(title="what was found", xlabel="sensor", ylabel="excitation", ylim=(0, 3.8))

# %% [markdown]
# The module's answer is more than twice too high over most of the row. Its loss cannot tell: a
# loss of zero says that *this* forward maps the answer to the readings, and says nothing of
# whether this forward is the right one. Nor does it speak for the gradient: a descent that ends at
# zero stops there, whatever detours a wrong gradient took. (This one's is wrong too, as you will
# see.)
#
# Here it was easy: there was a second layer, and the truth. Usually there is a loss curve and a
# bad feeling. The clinic is for that.

# %% [markdown]
# ## The whole thing, working
#
# Five questions, each a small function of plain PyTorch, and one that asks all five in order. The
# patient is the Function inside the module; what stands beside it is the sensor's formula as
# PyTorch's own operations compute it.

# %%
torch.manual_seed(0)
x = torch.randn(1, 6, 1, 1, dtype=torch.float64)
print(five_steps(shipped.CrossMapLRN2d, (x, n, alpha, beta, k), local_response_norm))

# %% [markdown]
# Read it from above: the first ✗ is where to work, and only that one is explained. What breaks
# below it may be a consequence, or a second bug; that is not decided now.
#
# Two other ways to the same five lines: `diagnose(…).steps` has them from what the doctor saw on
# its own runs, and `autograd-course check … --html report.html` puts them below its report. The
# next section is about the lines, the one after about a picture of lines 3 to 5, and then we
# operate.

# %% [markdown]
# ## Five questions in this order
#
# The order is not taste. Each question costs more than the one before, and its answer means
# something only if the earlier ones have been answered well.
#
# | step | asks | cannot see |
# | --- | --- | --- |
# | 1 forward | are the values right? | anything of backward |
# | 2 contract | does backward run, and fit the arguments? | whether its numbers are right |
# | 3 magnitudes | is the gradient as long as it should be? | its direction |
# | 4 one element | every number of one entry, by hand | the other entries |
# | 5 gradcheck | every entry of the Jacobian | what it never asks: a section of its own |
#
# A training case to walk through: the weighted length of each row of $x$,
#
# $$y_i = \sqrt{\textstyle\sum_j w_j\, x_{ij}^2}, \qquad
# \frac{\partial L}{\partial x_{ij}} = g_i \, \frac{w_j x_{ij}}{y_i}, \qquad
# \frac{\partial L}{\partial w_j} = \sum_i g_i \, \frac{x_{ij}^2}{2 y_i} .$$

# %% [markdown]
# ### Step 1: forward beside a reference
#
# **Common belief: "run gradcheck first, it tests everything."** The first version forgets the
# square root, and its backward is that of what it does compute.


# %%
def length(x, w):
    return (w * x.square()).sum(-1).sqrt()


class WithoutRoot(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (w * x.square()).sum(-1)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * g[:, None] * w * x, (g[:, None] * x.square()).sum(0)


rows = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.8, -1.0]], dtype=torch.float64)
w = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
print(run_gradcheck(WithoutRoot, (rows, w)))
print(compare_forward(WithoutRoot, (rows, w), length))

# %% [markdown]
# `gradcheck` compares backward with *this* forward, and these two agree. That is all it can know.
# So something has to stand beside forward: a slow loop, the formula in float64, a paper's table,
# an older library. It need not be differentiable for this step.

# %% [markdown]
# ### Step 2: the contract
#
# The root is back. The next version returns the weight's gradient without summing it over the
# rows. `run_backward` calls `backward` directly on the graph's node, as the engine does, and looks
# at what comes back *before* the engine sums, casts or fills in anything: one value an argument,
# its shape, its dtype, and every number finite.


# %%
class Length(Function):
    @staticmethod
    def forward(ctx, x, w):
        y = length(x, w)
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w, y = ctx.saved_tensors
        ratio = (g / y)[:, None]
        return ratio * w * x, ratio * x.square()


print(run_backward(Length, (rows, w)))

# %% [markdown]
# The sum is forgotten, and the engine, which expected the shape of `w`, silently makes up for it
# (lesson 01). Only the raw value shows it. And where backward raises, this step is the one that
# tells what: for a message that says little, the [index of error
# messages](../docs/error_messages.md) has cause and repair.

# %% [markdown]
# ### Step 3: magnitudes
#
# Summed now. For one random $g$, the loss $L = \sum_i g_i y_i$ has one gradient for each input.
# How long is it, and how long is the one that central differences of forward find?


# %%
class Summed(Length):
    @staticmethod
    def backward(ctx, g):
        grad_x, grad_w = Length.backward(ctx, g)
        return grad_x, grad_w.sum(0)


print(compare_magnitudes(Summed, (rows, w)))
print("\nat three times the x:")
print(*compare_magnitudes(Summed, (3 * rows, w)).parts, sep="\n")

# %% [markdown]
# A ratio of 2, on any input: a constant. That one number has narrowed the search to the factors of
# one formula, and the derivative of a square root has a $\tfrac12$ in it. Ratios worth knowing by
# sight: 2 and ½ (a square, a root), $N$ or $1/N$ (a mean), $N/(N-1)$ (a variance), the value of an
# argument (a scale, a temperature), 0 (a gradient that never comes). If the ratio moves when the
# input does, look for a missing term or a region in place of a constant.

# %% [markdown]
# ### Step 4: one element by hand
#
# With the ½, and another bug: someone wrote the weight's gradient with a minus. The length of a
# vector has no sign. So take one element and write down everything: the index, the step
# $\varepsilon$, $L(x + \varepsilon)$, $L(x - \varepsilon)$, their quotient, and what `backward` has
# there. In plain PyTorch:


# %%
class Halved(Summed):
    @staticmethod
    def backward(ctx, g):
        grad_x, grad_w = Summed.backward(ctx, g)
        return grad_x, -grad_w / 2


def loss(w):
    return Halved.apply(rows, w)[0]


epsilon, j = 1e-5, 1
up, down = w.clone(), w.clone()
up[j] += epsilon
down[j] -= epsilon
leaf = w.clone().requires_grad_()
(by_backward,) = grad(loss(leaf), leaf)

print(f"L(w + ε) = {loss(up):.9f}, L(w - ε) = {loss(down):.9f}")
print(f"quotient = {(loss(up) - loss(down)) / (2 * epsilon):.4f}")
print(f"backward = {by_backward[j]:.4f}")
print(f"formula  = {rows[0, j] ** 2 / (2 * length(rows, w)[0]):.4f}")

# %% [markdown]
# Three numbers that should be one. Quotient and formula agree, `backward` does not: then the bug
# is in the code. If the *formula* were the odd one out, it would be on paper. The tool does the
# same for a random $g$ and, unless told otherwise, takes the element that is furthest off.

# %%
print(compare_magnitudes(Halved, (rows, w)))
print(check_element(Halved, (rows, w)))

# %% [markdown]
# ### Step 5: gradcheck
#
# The minus is gone. Last, and only now, the full comparison, in which every entry of the Jacobian
# is asked for by itself: no cancellation, no lucky $g$.


# %%
class Right(Summed):
    @staticmethod
    def backward(ctx, g):
        grad_x, grad_w = Summed.backward(ctx, g)
        return grad_x, grad_w / 2


print(five_steps(Right, (rows, w), length))

# %% [markdown]
# ### Checkpoint 1
#
# $y = \frac1N\sum_i x_i^2$ over $N = 8$ numbers. Its author has forgotten two things: `backward`
# returns `x * g`. Which ratio, backward's length to that of the differences, will step 3 print?


# %%
class MeanSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().mean()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return x * g


x = torch.linspace(-1, 2, 8, dtype=torch.float64).requires_grad_()
(claimed,) = grad(MeanSquare.apply(x), x)
(true,) = grad(x.square().mean(), x)

predict(..., claimed.norm() / true.norm())

# %% [markdown]
# <details><summary>Why</summary>
#
# The gradient is $\frac{2}{N} x$. Without the 2 and without the $\frac1N$ it is $N/2 = 4$ times
# too long. A ratio may be a product of two bugs, and with $N = 2$ they would have hidden each
# other: test with sizes that are no small whole factors of anything.
#
# </details>

# %% [markdown]
# ## Reading a Jacobian
#
# Steps 3 and 4 say *that* and *how much*. The picture of the two Jacobians says *where*, and the
# pattern of what is wrong is often the name of the bug. (Row $i$ is output $i$, column $j$ is input
# $j$; `gradcheck` prints its matrices the other way around.) On stage: $y = x \cdot \bar x$, each
# number times the mean of all, with a backward that takes the mean for a constant. Click into the
# cells, or walk with the arrow keys.


# %%
def make(f, b):
    """Return a Function: forward f(x), backward b(x, g)."""

    class Patient(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return f(x)

        @staticmethod
        def backward(ctx, g):
            return b(*ctx.saved_tensors, g)

    return Patient


TimesMean = make(lambda x: x * x.mean(), lambda x, g: g * x.mean())
jacobian_view(TimesMean, torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))

# %% [markdown]
# Look at the third map. Each of its rows is constant: the difference is a column times a row of
# ones, a matrix *of rank 1*. That is what a forgotten statistic looks like: all outputs passed
# through one number, the mean, and the path through it is missing.
#
# Four more patterns. Left in each pair what forward does, right what backward believes.

# %% jupyter={"source_hidden": true}
ramp = torch.linspace(0.5, 2, 8, dtype=torch.float64)
three = torch.ones(1, 1, 3, dtype=torch.float64)


def window_sum(x, left=1, right=1):
    return torch.conv1d(nn.functional.pad(x, (left, right))[None, None], three)[0, 0]


gallery = {
    "the map, not its transpose": (make(lambda x: x.cumsum(0), lambda x, g: g.cumsum(0)), ramp),
    "a window off by one": (make(window_sum, lambda x, g: window_sum(g, 2, 0)), ramp),
    "a slope beyond the bound": (make(lambda x: x.clamp(max=1.3), lambda x, g: g), ramp),
    "order of axes": (
        make(lambda x: x.reshape(2, 4).T.reshape(-1), lambda x, g: g.reshape(2, 4).T.reshape(-1)),
        ramp,
    ),
}
with figure(columns=4, width=8.6, height=2.6) as places:
    for axes, (name, (patient, at)) in zip(places, gallery.items(), strict=True):
        drawn = jacobian_view(patient, at).view.pair
        both = [torch.tensor(m) for m in (drawn.differences, drawn.backward)]
        gap = torch.full((8, 1), math.nan)
        pair = torch.cat([gap, both[0], gap, both[1], gap], 1)
        axes.imshow(pair.numpy(), cmap="Blues", vmin=-0.1, vmax=1.2)
        axes.set_title(name, fontsize=9.5)
        axes.set_xticks([4.5, 13.5], ["forward", "backward"])
        axes.tick_params(length=0)
        axes.set(yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)

# %% [markdown]
# | what is wrong in the map | what it is, most of the time |
# | --- | --- |
# | mirrored at the diagonal | the linear map was applied, not its transpose |
# | a band beside the band | an index off by one, a padding on the wrong side |
# | some rows or columns, all of them elsewhere right | a region: a mask, a bound, an edge |
# | right numbers in wrong places | an order: `reshape` for a transpose, an inverse permutation |
# | only the diagonal is right | cross terms: a softmax, a norm, a sort |
# | constant along a row or a column (rank 1) | a shared statistic that was held fixed |
# | the same map, darker | a constant; see step 3 |
# | blocks that should be empty | examples of a batch that reach into each other |

# %% [markdown]
# ### Checkpoint 2
#
# *Extra: for readers who want to count how many entries one forgotten statistic makes wrong.
# Checkpoint 3 repairs this Function.*
#
# The same bug with the spread in place of the mean: $y = x / \lVert x \rVert$ at a vector of 4
# numbers, none of them zero. The backward takes the norm for a constant: $g / \lVert x \rVert$.
# How many of the 16 entries of its Jacobian are wrong?

# %%
ToUnit = make(lambda x: x / x.norm(), lambda x, g: g / x.norm())
x = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
claimed, true = (jacobian(f, x) for f in (ToUnit.apply, lambda x: x / x.norm()))

predict(..., (~torch.isclose(claimed, true)).sum())

# %% [markdown]
# <details><summary>Why</summary>
#
# All 16. It is tempting to count only the 12 beside the diagonal, where backward has zeros. But
# $\partial y_i / \partial x_j = \delta_{ij} / \lVert x \rVert - x_i x_j / \lVert x \rVert^3$, and
# what is missing is the outer product $x x^\top / \lVert x \rVert^3$, which has a diagonal too.
#
# </details>

# %% [markdown]
# ## A patient from PyTorch itself
#
# Back to the sensors. Step 1 broke, so forward comes first. Its source keeps a running sum of
# squares: from channel to channel the window takes one in and lets one out. Here is the line that
# lets out, in the code that is installed on this machine:

# %%
source = inspect.getsource(shipped.CrossMapLRN2d)
for line in source.splitlines():
    if "c > pre_pad" in line or "pre_pad = int" in line or "inversePrePad = int" in line:
        print(line.strip())

# %% [markdown]
# `pre_pad` is 2 for windows of 3. Channel 2 is the first that must let one out, channel 0; but
# $2 > 2$ is false, so channel 0 is never let out and damps the whole row. That was the stimulus:
# strong at sensor 0, and everything behind it overestimated to make up for the damping. The code
# came from a language that counts from 1, where the comparison was right.
#
# So, the operation: take the source, change one character, make the class anew.


# %%
def operated(source, *repairs):
    """Return the class that a source defines, after text replacements that must all apply."""
    for wrong, right in repairs:
        assert source.count(wrong) == 1, f"PyTorch has changed: {wrong!r} is not there"
        source = source.replace(wrong, right)
    names = dict(vars(shipped))
    exec(source, names)
    return names["CrossMapLRN2d"]


let_out = ("if c > pre_pad:", "if c >= pre_pad:")
HalfWell = operated(source, let_out)
torch.manual_seed(0)
x = torch.randn(1, 6, 1, 1, dtype=torch.float64)
call = (x, n, alpha, beta, k)
print(five_steps(HalfWell, call, local_response_norm))

# %% [markdown]
# Forward is right, and what broke below was no consequence: the gradient is wrong by itself. The
# ratio is no round number, so look for the pattern, in a row of seven channels.


# %%
def channels(x):
    return HalfWell.apply(x.reshape(1, 7, 1, 1), n, alpha, beta, k).flatten()


jacobian_view(channels, torch.linspace(0.8, 1.5, 7, dtype=torch.float64))

# %% [markdown]
# (The doctor has no name for this one, only `gradient-mismatch`. The picture says more.) Left a
# band around the diagonal: each channel and its two neighbors. Backward's band has the same width
# and lies one place off: a channel is told of the two channels before it, and not of the one
# behind. Backward pads its array of ratios, and the offset of that padding again counts from 1.
# Second operation:

# %%
offset = (
    "inversePrePad = int(ctx.size - (ctx.size - 1) / 2)",
    "inversePrePad = int(ctx.size - (ctx.size - 1) / 2) - 1",
)
Well = operated(source, let_out, offset)
print(five_steps(Well, call, local_response_norm))

# %% [markdown]
# Two indices, after years in which the layer ran in real nets. Why did nobody notice? Its default
# is $\alpha = 10^{-4}$: with small activations the whole damping hardly matters, right or wrong.
# And nets are forgiving: they learn around a wrong layer, as long as it is wrong in the same way
# tomorrow.

# %% [markdown]
# ### Is the doctor satisfied?
#
# The five steps find nothing more. The doctor still finds two things: memory that is freed late,
# and a second derivative that is missing.

# %%
diagnose(Well, call, reference=local_response_norm)

# %% [markdown]
# No error, and still something to do: $s$ is kept as `ctx.scale`, an attribute, which outlives the
# backward pass and which no saved-tensor hook sees (lesson 02); and a second derivative raises,
# because backward writes into buffers with `out=`. The course's own version is a few lines of
# ordinary operations, saves $x$ alone, and computes $s$ again.

# %%
health = diagnose(LocalResponseNorm, call, reference=local_response_norm, double_backward=True)
print(health)
print(health.steps)
found, _ = find(lambda x: LocalResponseNorm.apply(x, n, alpha, beta, k))
print("finds the stimulus:", torch.allclose(found, stimulus, atol=1e-3))

# %% [markdown]
# ## Where a nan comes from
#
# *Extra: exercise 8 needs this section, and so does everybody whose training shows a `nan`. In
# short: look for the first number that is not finite. Anomaly mode reports only `nan`.*
#
# A `nan` says that something went wrong some time ago. Where it is *seen* and where it is *made*
# are different places. Here is a root, written by hand, and two ways to keep it away from numbers
# that are not positive: choose after the root, or multiply by a mask before it. The values are
# right in both.


# %%
class Root(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (2 * y)


def chosen_after(x):
    return torch.where(x > 0, Root.apply(x), 0.0)


def masked_before(x):
    return Root.apply(x * (x > 0))


def gradient_of(f):
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    return grad(f(x).sum(), x)[0].tolist()


for f in (chosen_after, masked_before):
    print(f"{f.__name__:14} values {f(torch.tensor([0.0, 4.0])).tolist()}", end=", ")
    print("gradient", gradient_of(f))

# %% [markdown]
# Under `torch.autograd.detect_anomaly()` PyTorch tests the gradients that each node returns, and
# raises at the first that holds a `nan`. (It also warns with a traceback of the *forward* line
# that made the node; left out here. And it is slow, so not for every day.) **Common belief:
# "anomaly mode names the operation that is to blame."**


# %%
def blamed(f):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            try:
                return f"nothing, though the gradient is {gradient_of(f)}"
            except RuntimeError as error:
                return str(error)


for name, f in {"after": chosen_after, "before": masked_before, "root alone": Root.apply}.items():
    print(f"{name:11} {blamed(f)}")

# %% [markdown]
# The first one, yes: the choice sent a gradient of 0 to the branch that it did not take, and the
# root divided it by $2 \cdot 0$: $0/0$. (That is why a repair after the fact does not help: in
# lesson 08 it was `nan_to_num`.)
#
# The second blames a multiplication. It is innocent: it multiplied by the mask's 0 what it got, and
# it got `inf`, from the root. And that `inf` was not worth a word: the last line shows that anomaly
# mode looks for `nan` alone. An infinity travels until something multiplies it by zero or subtracts
# it from itself, and *that* node is blamed.
#
# So look for the first number that is *not finite*. A hook on each intermediate will do; gradients
# arrive from the loss backward, so the first to complain is nearest to the origin.


# %%
def first_not_finite(loss, **steps):
    complaints = []
    for name, tensor in steps.items():
        if not tensor.isfinite().all():
            return f"forward: {name} is {tensor.tolist()}"

        def look(g, name=name):
            if not g.isfinite().all():
                complaints.append(f"backward: the gradient of {name} is {g.tolist()}")

        tensor.register_hook(look)
    loss.backward()
    return complaints[0] if complaints else "all finite"


x = torch.tensor([0.0, 4.0], requires_grad=True)
product = x * (x > 0)
root = Root.apply(product)
print(first_not_finite(root.sum(), x=x, product=product, root=root))

# %% [markdown]
# The gradient of `root` was fine, that of `product` is not: it was made in between, by `Root`. The
# repair is not in `Root` (the slope of a root at 0 *is* infinite), but before it: give it a
# harmless number wherever its value will not be used.


# %%
def safe_root(x):
    positive = x > 0
    return torch.where(positive, Root.apply(torch.where(positive, x, 1.0)), 0.0)


print("values  ", safe_root(torch.tensor([0.0, 4.0])).tolist())
print("gradient", gradient_of(safe_root))

# %% [markdown]
# ## What gradcheck does not ask
#
# Step 5 passed: what can still be wrong? `gradcheck` sends one-hot, contiguous $g$s to float64
# leaves, one forward and one backward in turn, at your example. Whatever takes something else to
# show stays hidden. A tour; each of these Functions passes.

# %%
last = {}


def remembering(x):
    last["x"] = x
    return x**2


tour = {
    "clips g": make(lambda x: x**2, lambda x, g: 2 * x * g.clamp(-1, 1)),
    "writes into g": make(lambda x: x**2, lambda x, g: g.mul_(2 * x)),
    "state outside ctx": make(remembering, lambda x, g: 2 * last["x"] * g),
    "assumes g's memory": make(lambda x: x**2, lambda x, g: 2 * x * g.view(-1).view(x.shape)),
    "hard-coded float32": make(lambda x: x**2, lambda x, g: (2 * x * g).float()),
    "overflows at 1000": make(nn.functional.softplus, lambda x, g: g * x.exp() / (1 + x.exp())),
    "a constant inside": make(lambda x: x**3, lambda x, g: 3 * x.detach() ** 2 * g),
    "a bound, untested": make(lambda x: (x**2).clamp(max=100.0), lambda x, g: 2 * x * g),
}


# %%
def verdict(check, patient, x):
    try:
        return "passes" if check(patient.apply, x, raise_exception=False) else "fails"
    except RuntimeError:
        return "raises"


x = torch.tensor([[1.0, -2.0, 0.5], [2.0, 0.3, -1.0]], dtype=torch.float64)
leaf = x.clone().requires_grad_()
print(f"{'':20}gradcheck  gradgradcheck  diagnose")
for name, patient in tour.items():
    once, twice = (verdict(check, patient, leaf) for check in (gradcheck, gradgradcheck))
    found = diagnose(patient, x).findings
    print(f"{name:20}{once:11}{twice:15}{found[0].rule if found else 'nothing found'}")

# %% [markdown]
# What each would have taken to be seen: a $g$ that is not one-hot; a look at $g$ afterward; two
# calls before one backward; an expanded or transposed $g$, as a `.sum()` or a `.T` behind the
# Function sends it; the raw gradient's dtype; large inputs; a second derivative; an example beyond
# the bound. (`gradgradcheck` *raises* in the second row for another reason: its $g$ requires grad,
# and into such a leaf nobody may write. Training sends a $g$ that does not, and there the sibling
# branch gets a wrong gradient, as lesson 02 has shown.)
#
# The last one is for you. The bound at 100 is far from this example, so neither `gradcheck` nor
# the doctor can know of it: it varies the example a little, and what it does with large numbers is
# to look for a result that overflows. Only whoever has read `forward` knows which branches there
# are.

# %% [markdown]
# ### Tell the doctor of other inputs
#
# *Extra: for readers whose Function has branches that the example does not reach.*
#
# A *sampler* says what other inputs are like:


# %%
def draws(rng):
    return (9 * torch.randn(4, 8, generator=rng, dtype=torch.float64),)


print(diagnose(tour["a bound, untested"], x, sampler=draws))

# %% [markdown]
# More of the kind, each with the lesson that shows it: a tensor that is reached without being an
# argument, whose gradient never comes (07); a gradient that is right only because the engine sums
# it (01); a `jvp` that is wrong and not asked for (06); $N$ against $N - 1$ at an $N$ so large that
# the tolerance covers it (03); and all that happens under `vmap`, `torch.compile`, autocast (11).

# %% [markdown]
# ## When the gradient is an estimate
#
# Some Functions use random numbers, as dropout does, or estimate their gradient from samples. You
# can still test them exactly if you *freeze the noise*: pass the noise or its seed as an argument,
# and use the same numbers in both passes. [Lesson 13](13_solvers.ipynb) tests such estimates,
# measures their error and chooses the step of a finite difference.

# %% [markdown]
# ## What people say
#
# Debugging is also an argument with oneself.
#
# ### Sentences and their answers
#
# *Reference: look here when you review a `backward`, your own or another author's.*
#
# These sentences come up in every project:
#
# | one says | the answer |
# | --- | --- |
# | "The loss falls." | So it did for a wrong wall (01), a frozen layer (05), and above, to zero. |
# | "gradcheck passes." | So it does for the eight of the tour. |
# | "It fails, but only a little." | A fixed ratio is a bug. At a kink or in float32: move, cast. |
# | "Then I raise `atol`." | Until it passes. So will the next bug. |
# | "My float32 run is fine." | Test in float64, then compare float32 with that. |
# | "It must be the optimizer." | Compare *one* gradient, with the parameters held still. |
# | "`retain_graph=True` made it run." | It silenced a message that was right (06). |
# | "It has been in use for years." | So has `CrossMapLRN2d`. |
#
# One more is better run than answered. **Common belief: "a constant factor in a gradient does no
# harm, Adam divides it out."** Two terms pull at $x$: $(x - 3)^2$ and $x^2$. The first one's
# gradient comes out four times too long.

# %%
Attracted = make(lambda x: (x - 3) ** 2, lambda x, g: 4 * 2 * (x - 3) * g)


def minimum(first_term):
    x = torch.tensor(0.0, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        (first_term(x) + x**2).backward()
        optimizer.step()
    return x.item()


print(f"right gradient: x = {minimum(lambda x: (x - 3) ** 2):.2f}")
print(f"four times it:  x = {minimum(Attracted.apply):.2f}")

# %% [markdown]
# Adam divides by the size of the *sum*. A factor on one of its terms changes what is minimized:
# weight decay, a second loss, a regularizer, another path to the same parameter.
#
# And red flags, which one can see without running anything:
#
# | in a `backward` | what it often means |
# | --- | --- |
# | a `return` without `grad_output` in it | upstream is ignored |
# | `grad_output` in a comparison, a `clamp`, a power | not linear in it |
# | `.data`, `.detach()`, `.item()`, NumPy | the second derivative is lost |
# | `grad_output.view(…)`, `.data_ptr()` | $g$ is often expanded or transposed |
# | `torch.zeros(…)` without `_like` | wrong dtype or device |
# | a method that ends in `_` | someone else's tensor is changed |
# | `ctx.x = x`, a global, a class attribute | freed late, shared, unseen by hooks |
# | `except: return None` | the parameter will never move |
# | a test with `atol=1e-2`, `nondet_tol=1` | somebody has given up |

# %% [markdown]
# ### Checkpoint 3
#
# Your patient: $y = x / \lVert x \rVert$, row by row, with a backward that takes the norm for a
# constant. Repair it, and run the cell until both the steps and the doctor are content.


# %%
def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


class Unit(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return unit(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / x.norm(dim=-1, keepdim=True)


x = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.2, -1.0]], dtype=torch.float64)
print(five_steps(Unit, x, unit))
diagnose(Unit, x, reference=unit)

# %% [markdown]
# <details><summary>Why</summary>
#
# With $u = x / \lVert x \rVert$, the gradient is $(g - u\,(u \cdot g)) / \lVert x \rVert$: what $g$
# has along $u$ is removed, because a vector that moves along itself does not turn. So, with
# `u = unit(x)`, return
# `(g - u * (u * g).sum(-1, keepdim=True)) / x.norm(dim=-1, keepdim=True)`.
#
# </details>

# %% [markdown]
# ## Before it ships
#
# Before a Function leaves your hands:
#
# 1. `forward` equals a reference, also at the ends: 0, large, negative, empty, ties.
# 2. The five steps pass on a small example whose sizes are all different, and none of them 1 or 2.
# 3. There is an example on every side of every branch, and none on a kink.
# 4. `diagnose` finds no error; each warning is repaired, or the reason for it written down.
# 5. It runs as it will be used: a frozen input, no bias, float32, a batch of one.
# 6. Second derivatives are right, or refused aloud.
# 7. The docstring has formula, shapes, what is saved, and what the gradient is *not*.
# 8. The check runs in CI, so that all this stays true.

# %% [markdown]
# ### The doctor as a command
#
# *Reference: look here when you want to check a file, before a commit or in CI.*
#
# The doctor takes a Function by name, and the inputs are described in a few characters: `f64[5]` is
# five normal numbers in float64. Here is a small file with a cube that keeps its slope:

# %%
patient = """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        slope = 3 * x**2
        ctx.save_for_backward(slope)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return slope * grad_output
"""
check = [sys.executable, "-m", "autograd_course.cli", "check", "cubes:Cube", "--inputs", "f64[5]"]
check.append("--double-backward")
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "cubes.py").write_text(patient)
    plain = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(check, cwd=folder, env=plain, capture_output=True, text=True)
print("$ autograd-course check cubes:Cube --inputs 'f64[5]' --double-backward")
print(done.stdout, "exit code", done.returncode)

# %% [markdown]
# The first derivative is right, and the second one is silently wrong. With `--double-backward` that
# is an error. In a test suite, `assert_gradients(Cube, x, double_backward=True)` from
# `autograd_course` is the same check.

# %% [markdown]
# ## Do you know it?
#
# Eight questions. A wrong answer explains itself; try again.

# %%
knowledge_check("04")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# print(five_steps(F, inputs, reference))   # the first ✗ is where to work
# compare_forward(F, inputs, reference)     # 1 the values
# run_backward(F, inputs)                   # 2 count, shapes, dtypes, finite: before the engine
# compare_magnitudes(F, inputs)             # 3 lengths, and their ratio
# check_element(F, inputs)                  # 4 L(x + ε), L(x - ε), quotient, backward
# run_gradcheck(F, inputs)                  # 5 every entry
# jacobian_view(F, *inputs)                 # where, and in what pattern
# diagnose(F, inputs, reference=f)          # by name, and what gradcheck does not ask
# ```
#
# | | |
# | --- | --- |
# | order | cheap before dear; an answer means something only after the earlier ones |
# | the ratio stays | a constant: 2, ½, $N$, $1/N$, $N/(N-1)$, an argument |
# | the ratio moves | a term, a region |
# | a difference of rank 1 | a statistic that was held fixed |
# | a band beside the band | off by one |
# | a mirrored map | the map in place of its transpose |
# | `nan` | find the first number that is *not finite*; anomaly mode knows `nan` only |
# | gradcheck passes | not asked for: other $g$, its memory, state, large inputs, other branches |
# | ship | `autograd-course check module:F --inputs … --strict` |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/04_debugging_clinic.ipynb): a ward of twelve patients,
# modeled on bugs that were found in public projects. Diagnose, name, repair.
#
# [Lesson 05](05_straight_through.ipynb) is about gradients that are wrong on purpose: what to do
# where the true derivative is zero almost everywhere.
