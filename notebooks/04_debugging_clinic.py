# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/04_debugging_clinic.ipynb)
#
# # 04 · The debugging clinic
#
# **You will** examine Functions that other people wrote, find what is wrong with them, and repair
# them. One of them ships with PyTorch.
#
# **You will learn** five checks, ordered so that you can trust the answer to each one. You will
# also read a wrong Jacobian, stop inside `backward` with a debugger, and see which mistakes
# `gradcheck` does not find.
#
# **You need** [lesson 01](01_template.ipynb), [lesson 02](02_ctx_rules.ipynb) and [lesson
# 03](03_gradient_patterns.ipynb).
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
import inspect
import io
import linecache
import os
import pdb
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.autograd import Function, detect_anomaly, grad, gradcheck, gradgradcheck
from torch.autograd.functional import jacobian
from torch.nn.functional import local_response_norm, pad, softplus
from torch.nn.modules import _functions as shipped

from autograd_course import diagnose, grade, hint  # noqa: F401
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
    show_error,
    vote,
)
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## The same layer twice
#
# We have a row of sixteen gas sensors. Each sensor is damped by its neighbors: the more they are
# excited, the less it reads. For a stimulus $x$, sensor $c$ reads
#
# $$y_c = x_c \,\Bigl(k + \frac{\alpha}{n} \sum_{j \in W(c)} x_j^2\Bigr)^{-\beta} ,$$
#
# where $W(c)$ is the window of $n$ sensors around $c$. We know the readings, and we search for the
# stimulus by gradient descent. In neural networks this formula is called *local response
# normalization*. PyTorch has two versions of it: autograd differentiates the function
# `F.local_response_norm`, and the module `nn.CrossMapLRN2d` has a `backward` that somebody wrote by
# hand. Here is the search with both.

# %% jupyter={"source_hidden": true}
n, alpha, beta, k = 3, 2.0, 0.5, 1.0
sensor = torch.arange(16, dtype=torch.float64)
stimulus = 0.3 + 2 * torch.exp(-0.5 * (sensor / 1.5) ** 2)
stimulus += torch.exp(-0.5 * ((sensor - 9) / 2) ** 2)
windows = [stimulus[max(0, c - 1) : c + 2] for c in range(16)]
scale = torch.stack([k + alpha / n * window.square().sum() for window in windows])
readings = (stimulus / scale**beta).reshape(1, 16, 1, 1)


def find(layer, steps=300):
    """Search for the stimulus. Return it, and the loss of each step."""
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


# %%
by_function, function_losses = find(lambda x: local_response_norm(x, n, alpha, beta, k))
by_module, module_losses = find(nn.CrossMapLRN2d(n, alpha, beta, k))
print(f"function: loss {function_losses[0]:.3f} at first, {function_losses[-1]:.10f} at the end")
print(f"module:   loss {module_losses[0]:.3f} at first, {module_losses[-1]:.10f} at the end")

# %% [markdown]
# Both losses reach zero. Before you run the next cell, vote on what it will show. Some of the
# beliefs in this lesson are true.

# %%
vote("04", "loss-reaches-zero")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.5) as (watched, found):
    for losses, color, style in ((function_losses, BLUE, "-"), (module_losses, ORANGE, "--")):
        watched.semilogy([max(loss, 1e-17) for loss in losses], color=color, linestyle=style)
    watched.set(title="what you watch", xlabel="step", ylabel="loss", ylim=(1e-17, 1))
    note(watched, "function", (95, 1e-12), BLUE)
    note(watched, "module", (175, 1e-7), ORANGE)

    found.plot(sensor, stimulus, color=GRAY, linewidth=7, alpha=0.4)
    found.plot(sensor, by_function, color=BLUE)
    found.plot(sensor, by_module, color=ORANGE, linestyle="--")
    note(found, "true (gray) and found by the function", (0.2, 0.1), BLUE)
    note(found, "found by the module", (6, 3.45), ORANGE)
    found.set(title="what was found", xlabel="sensor", ylabel="excitation", ylim=(0, 3.8))

# %% [markdown]
# With the module, the stimulus is more than twice too high at 13 of the 16 sensors. A loss of zero
# only says that *this* `forward` maps the stimulus to the readings. It does not say that this is
# the right `forward`. It also says little about the gradient: the search can reach zero with a
# wrong gradient, and this gradient is wrong, as you will see.
#
# Here we knew the true stimulus. Usually you only have a loss curve and a suspicion.

# %% [markdown]
# ## Five checks at once
#
# `five_steps` runs five checks of a Function in a fixed order. Below, it checks the Function inside
# the module.
#
# **Your turn.** The first check compares `forward` with a reference, so it needs one. Replace
# `None` with `local_response_norm`, run the cell again, and compare the first line of the two
# reports.

# %%
torch.manual_seed(0)
x = torch.randn(1, 6, 1, 1, dtype=torch.float64)
call = (x, n, alpha, beta, k)
reference = None  # type the reference here
five_steps(shipped.CrossMapLRN2d, call, reference)

# %% [markdown]
# Without a reference, step 3 fails, so you would start working on `backward`. With the reference,
# step 1 fails: four of six outputs are wrong. Read the report from the top. Start working at the
# first ✗. The report explains only this one. A later ✗ may be a consequence of the first one or a
# second mistake. You will find out when you run the checks again after the first repair.
#
# `diagnose(…).steps` contains the same five lines.

# %% [markdown]
# ## Five checks in this order
#
# The order matters. Each check costs more than the one before, and its answer means something only
# if the earlier checks have passed.
#
# | step | what it asks | what it cannot see |
# | --- | --- | --- |
# | 1 forward | Are the values right? | anything about `backward` |
# | 2 contract | Does `backward` run, and does the result fit the arguments? | wrong numbers |
# | 3 magnitudes | Does the gradient have the right norm? | its direction |
# | 4 one element | Is this element right? | the other elements |
# | 5 gradcheck | Is every entry of the Jacobian right? | see "What gradcheck does not ask" |
#
# We go through these steps with an example, the weighted norm of each row of $x$:
# $y_i = \sqrt{\sum_j w_j\, x_{ij}^2}$. Its gradients are
#
# $$\frac{\partial L}{\partial x_{ij}} = g_i \, \frac{w_j x_{ij}}{y_i}, \qquad
# \frac{\partial L}{\partial w_j} = \sum_i g_i \, \frac{x_{ij}^2}{2 y_i} .$$

# %% [markdown]
# ### Step 1: forward and a reference
#
# The author of the first version forgot the square root. The `backward` is right for the sum that
# this `forward` computes.


# %%
def norm(x, w):
    return (w * x.square()).sum(-1).sqrt()


class WithoutRoot(Function):
    @staticmethod
    def forward(x, w):
        return (w * x.square()).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        g = grad_output[:, None]
        return 2 * g * w * x, (g * x.square()).sum(0)


rows = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.8, -1.0]], dtype=torch.float64)
w = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
print(run_gradcheck(WithoutRoot, (rows, w)))
print(compare_forward(WithoutRoot, (rows, w), norm))

# %% [markdown]
# `gradcheck` passes, because it compares `backward` with *this* `forward`, and the two agree. So
# compare `forward` with something else first: a slow loop, the formula in float64, a table in a
# paper or an older library. The reference does not need to be differentiable for this step.

# %% [markdown]
# ### Step 2: the contract
#
# The next version has the square root, but its `backward` does not sum the gradient of $w$ over the
# rows.


# %%
class UnsummedNorm(Function):
    @staticmethod
    def forward(x, w):
        return norm(x, w)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, w, y = ctx.saved_tensors
        g = (grad_output / y)[:, None]
        return g * w * x, g * x.square() / 2


# %%
vote("04", "forgotten-sum")

# %%
w_leaf = w.clone().requires_grad_()
(of_function,) = grad(UnsummedNorm.apply(rows, w_leaf).sum(), w_leaf)
(by_autograd,) = grad(norm(rows, w_leaf).sum(), w_leaf)
print("gradient of w:", of_function.numpy().round(4), "should be", by_autograd.numpy().round(4))
run_backward(UnsummedNorm, (rows, w))

# %% [markdown]
# Autograd expects a gradient with the same shape as `w`, so it sums the result of `backward` to
# this shape. `run_backward` calls `backward` directly, so it sees the result *before* autograd sums
# it, casts it or fills in zeros. It checks that there is one value for each argument, with the
# right shape and dtype, and that all numbers are finite. Repair such a gradient even if training
# does not need it, because other callers of `backward` do not sum it.
#
# If `backward` raises an error, you also see it in this step. The [index of error
# messages](../docs/error_messages.md) explains the cause and the repair.

# %% [markdown]
# ### Step 3: magnitudes
#
# This version sums the gradient but has another mistake. Step 3 takes one random $g$ and the loss
# $L = \sum_i g_i y_i$. For each input, it compares the norm of the gradient from `backward` with
# the norm of the gradient from finite differences of `forward`.


# %%
class DoubledNorm(UnsummedNorm):
    @staticmethod
    def backward(ctx, grad_output):
        x, w, y = ctx.saved_tensors
        g = (grad_output / y)[:, None]
        return g * w * x, (g * x.square()).sum(0)


print(compare_magnitudes(DoubledNorm, (rows, w)))
print("\nThe same with 3x:")
print(*compare_magnitudes(DoubledNorm, (3 * rows, w)).parts, sep="\n")

# %% [markdown]
# The ratio is 2, and it is also 2 for other inputs. So a constant is wrong, and you only have to
# look at the factors in one formula. (The derivative of a square root contains $\tfrac12$.) You
# should recognize these ratios:
#
# | ratio | what is wrong |
# | --- | --- |
# | 2 or ½ | the derivative of a square or a root |
# | $N$ or $1/N$ | a mean |
# | $N/(N-1)$ | a variance |
# | the value of an argument | a scale, a temperature |
# | 0 | a gradient that never arrives |
#
# A ratio can be the product of two mistakes. A forgotten 2 and a forgotten $1/N$ give the ratio
# $N/2$, and with $N = 2$ you would not see them at all. So test with sizes such as 5 and 7.
#
# ### Exercise 1: three ratios
#
# `x` has 8 elements, and the loss is `5 * y.sum()`. For each of these three mistakes, predict the
# ratio: the gradient from `backward` divided by the true gradient. Do not run them.
#
# - **a** `y = x.mean()`, and `backward` returns `grad_output * torch.ones_like(x)`.
# - **b** `y = 1 / x`, and `backward` returns `grad_output / x**2`.
# - **c** `y = x.exp()`, and `backward` returns `x.exp()`.
#
# Write the three numbers into the list. For a hint, run `hint("predict-ratios")` in a new cell.

# %%
prediction = [..., ..., ...]

# %%
grade("predict-ratios", prediction)

# %% [markdown]
# ### Step 4: one element by hand
#
# The next version has the factor ½, but the gradient of $w$ has the wrong sign. A norm does not
# depend on the sign, so step 3 passes. Take one element and write everything down: $L$ with the
# element moved up by $\varepsilon$ and down by $\varepsilon$, their difference quotient, and the
# gradient from `backward`.


# %%
class NegatedNorm(UnsummedNorm):
    @staticmethod
    def backward(ctx, grad_output):
        x, w, y = ctx.saved_tensors
        g = (grad_output / y)[:, None]
        return g * w * x, -(g * x.square()).sum(0) / 2


def loss(w):
    return NegatedNorm.apply(rows, w)[0]


epsilon, j = 1e-5, 1
up, down = w.clone(), w.clone()
up[j] += epsilon
down[j] -= epsilon
leaf = w.clone().requires_grad_()
(by_backward,) = grad(loss(leaf), leaf)

print(f"L(w + ε) = {loss(up):.9f}, L(w - ε) = {loss(down):.9f}")
print(f"quotient = {(loss(up) - loss(down)) / (2 * epsilon):.4f}")
print(f"backward = {by_backward[j]:.4f}")
print(f"formula  = {rows[0, j] ** 2 / (2 * norm(rows, w)[0]):.4f}")

# %% [markdown]
# The quotient agrees with the formula on paper, but `backward` does not. So the mistake is in the
# code. If the quotient agreed with `backward` instead, the mistake would be in your derivation.
# `check_element` does the same for a random $g$ and takes the element with the largest error:

# %%
print(compare_magnitudes(NegatedNorm, (rows, w)))
print(check_element(NegatedNorm, (rows, w)))

# %% [markdown]
# ### Step 5: gradcheck
#
# Now the formula is right. `gradcheck` comes last. It compares each entry of the Jacobian
# separately, so errors cannot cancel.


# %%
class WeightedNorm(UnsummedNorm):
    @staticmethod
    def backward(ctx, grad_output):
        x, w, y = ctx.saved_tensors
        g = (grad_output / y)[:, None]
        return g * w * x, (g * x.square()).sum(0) / 2


five_steps(WeightedNorm, (rows, w), norm)

# %% [markdown]
# ## Stop inside backward
#
# You will often want to look at the values inside `backward`. `WeightedNorm` returns `nan` for a
# row of zeros, such as padding. Where does the `nan` come from?


# %% jupyter={"source_hidden": true}
class ScriptedPdb(pdb.Pdb):
    """A debugger that takes its commands from a list and prints no paths."""

    def __init__(self, commands):
        super().__init__(stdin=io.StringIO("\n".join(commands) + "\n"), nosigint=True)
        self.use_rawinput = False

    def precmd(self, line):
        print(line)
        return super().precmd(line)

    def print_stack_entry(self, frame_lineno, prompt_prefix=""):
        frame, line = frame_lineno
        code = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
        print(f"> {code.strip()}")


@contextmanager
def type_commands(*commands):
    """Type commands at the prompt of breakpoint()."""
    debugger = ScriptedPdb(commands)
    before = sys.breakpointhook
    sys.breakpointhook = lambda: debugger.set_trace(sys._getframe(1))
    try:
        yield
    finally:
        sys.breakpointhook = before


# %%
vote("04", "breakpoint-in-backward")


# %%
class WatchedNorm(UnsummedNorm):
    @staticmethod
    def backward(ctx, grad_output):
        x, w, y = ctx.saved_tensors
        breakpoint()
        g = (grad_output / y)[:, None]
        return g * w * x, (g * x.square()).sum(0) / 2


padded_rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
with type_commands("p y.detach()", "p grad_output", "next", "p g", "up 5", "continue"):
    lengths = WatchedNorm.apply(padded_rows, torch.ones(2))
    lengths.sum().backward()

# %% [markdown]
# `breakpoint()` opens Python's debugger in `backward`. (The helper `type_commands` types the
# commands into its prompt. In your own code, leave out the `with` line and type the commands
# yourself.) You see that `y` contains a 0. After the next line, `g` contains an `inf`, and the
# product with the row of zeros is `nan`.
#
# `up` moves to the caller. On a CPU, `backward` runs in the thread that called `.backward()`, so
# you arrive at the line with this call. (For operations on a GPU, autograd uses another thread, and
# `up` does not lead there.) You do not arrive at the line that called `apply`, because `forward`
# has already returned. *Anomaly mode* remembers this line. Turn it on before the forward pass:


# %% jupyter={"source_hidden": true}
@contextmanager
def show_forward_line():
    """Print the warning of anomaly mode, and of its traceback only the lines of this notebook."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            for warning in caught[1:]:
                first, *traceback = str(warning.message).splitlines()
                print(f"{warning.category.__name__}: {first}\n  […]")
                mine = [code for place, code in pairwise(traceback) if "ipykernel" in place]
                print(*mine[-1:])


# %%
with show_error(), show_forward_line(), detect_anomaly():
    lengths = WeightedNorm.apply(padded_rows, torch.ones(2))
    lengths.sum().backward()

# %% [markdown]
# Anomaly mode checks the gradients that each node returns. It raises an error at the first node
# that returns a `nan`, and a warning shows the line of the forward pass that created this node. You
# get the same warning if a `backward` itself raises an error. Anomaly mode makes every run slower,
# so turn it off again afterwards.
#
# To watch a whole network, register a hook on its modules with `register_full_backward_hook`. The
# hooks run from the last module to the first, and the hook of a container runs after the hooks of
# its parts. (If no input of the container requires a gradient, PyTorch warns, and the container's
# hook runs before them.)

# %% [markdown]
# ## Where a nan comes from
#
# *Extra: you need this section for exercise 9. Also read it if your training produces a `nan`. In
# short: look for the first number that is not finite. Anomaly mode reports only `nan`.*
#
# You often see a `nan` far from the place where it comes from. Here is a square root with a
# hand-written `backward`, and two ways to protect it from numbers that are not positive. The first
# one calls `where` after the square root. The second one multiplies by a mask before the square
# root. Both return the right values.


# %%
class Root(Function):
    @staticmethod
    def forward(x):
        return x.sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output / (2 * y)


def select_after(x):
    return torch.where(x > 0, Root.apply(x), 0.0)


def mask_before(x):
    return Root.apply(x * (x > 0))


def gradient_of(f):
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    return grad(f(x).sum(), x)[0].tolist()


for f in (select_after, mask_before):
    print(f"{f.__name__:12} values {f(torch.tensor([0.0, 4.0])).tolist()}", end=", ")
    print("gradient", gradient_of(f))

# %% [markdown]
# Now run both of them, and `Root` alone, in anomaly mode.

# %%
vote("04", "anomaly-mode-blames")

# %%
for f in (select_after, mask_before, Root.apply):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with show_error(), detect_anomaly():
            print(gradient_of(f))

# %% [markdown]
# The first message is right. `where` sends a gradient of 0 to the branch that it did not select,
# and `Root` divides it by $2 \cdot 0$. (A repair such as `nan_to_num` hides this `nan` and every
# other one.)
#
# The second message names a multiplication, but this multiplication is right. It multiplied the 0
# of the mask by the gradient that `Root` had returned, and this gradient was `inf`. The last line
# shows why you saw no message about `Root`: anomaly mode checks for `nan` but not for `inf`. An
# infinity passes from node to node until one of them multiplies it by zero or subtracts two
# infinities, and anomaly mode names *this* node.
#
# So look for the first number that is *not finite*. Put a hook on each intermediate. Gradients flow
# backward from the loss, so the first hook that finds something is the closest to the origin.


# %%
def first_not_finite(loss, **steps):
    """Name the first tensor, or gradient of a tensor, that is not finite."""
    found = []
    for name, tensor in steps.items():
        if not tensor.isfinite().all():
            return f"forward: {name} is {tensor.tolist()}"

        def look(g, name=name):
            if not g.isfinite().all():
                found.append(f"backward: the gradient of {name} is {g.tolist()}")

        tensor.register_hook(look)
    loss.backward()
    return found[0] if found else "all finite"


x = torch.tensor([0.0, 4.0], requires_grad=True)
product = x * (x > 0)
root = Root.apply(product)
print(first_not_finite(root.sum(), x=x, product=product, root=root))

# %% [markdown]
# The gradient of `root` is finite, but the gradient of `product` is not. So the infinity comes from
# `Root`. Do not change `Root`, because the slope of the square root at 0 *is* infinite. Change its
# input: wherever the value will not be used, pass a harmless number.


# %%
def safe_root(x):
    positive = x > 0
    return torch.where(positive, Root.apply(torch.where(positive, x, 1.0)), 0.0)


print("values  ", safe_root(torch.tensor([0.0, 4.0])).tolist())
print("gradient", gradient_of(safe_root))

# %% [markdown]
# ## Reading a Jacobian
#
# Steps 3 and 4 tell you that a gradient is wrong and by how much. A picture of the Jacobians tells
# you *where*, and the pattern often tells you *why*. (Row $i$ is output $i$, and column $j$ is
# input $j$. `gradcheck` prints the transposed matrices.) The Function below multiplies each number
# by the mean of all numbers, and its `backward` treats the mean as a constant. Click a cell, or
# move with the arrow keys.


# %%
class TimesMean(Function):
    @staticmethod
    def forward(x):
        return x * x.mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.mean()


jacobian_view(TimesMean, torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64))

# %% [markdown]
# Look at the third map, the error. Each of its rows is constant, so it is a column times a row of
# ones, a matrix *of rank 1*. This is the pattern of a forgotten statistic. All outputs depend on
# one number, the mean, and `backward` leaves out the path through it.
#
# Here are four more patterns. In each pair, the Jacobian of `forward` is on the left, and the
# Jacobian that `backward` uses is on the right.

# %% jupyter={"source_hidden": true}
ramp = torch.linspace(0.5, 2, 8, dtype=torch.float64)
three = torch.ones(1, 1, 3, dtype=torch.float64)


def window_sum(x, before=1, after=1):
    return torch.conv1d(pad(x, (before, after))[None, None], three)[0, 0]


# By title: forward, and the gradient that a wrong backward returns.
gallery = {
    "a forgotten transpose": (lambda x: x.cumsum(0), lambda g: g.cumsum(0)),
    "a window off by one": (window_sum, lambda g: window_sum(g, 2, 0)),
    "a slope beyond the bound": (lambda x: x.clamp(max=1.3), lambda g: g),
    "the order of the dims": (
        lambda x: x.reshape(2, 4).T.reshape(-1),
        lambda g: g.reshape(2, 4).T.reshape(-1),
    ),
}
with figure(columns=4, width=8.6, height=2.6) as places:
    for axes, (title, (forward, backward)) in zip(places, gallery.items(), strict=True):
        right = jacobian(forward, ramp)
        wrong = torch.stack([backward(one_hot) for one_hot in torch.eye(8, dtype=torch.float64)])
        gap = torch.full((8, 1), torch.nan)
        pair = torch.cat([gap, right, gap, wrong, gap], 1)
        axes.imshow(pair.numpy(), cmap="Blues", vmin=-0.1, vmax=1.2)
        axes.set_title(title, fontsize=9.5)
        axes.set_xticks([4.5, 13.5], ["forward", "backward"])
        axes.tick_params(length=0)
        axes.set(yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)

# %% [markdown]
# | pattern of the error | usual mistake |
# | --- | --- |
# | mirrored across the diagonal | the linear map instead of its transpose |
# | a band in the wrong place | an index off by one, padding on the wrong side |
# | only some rows or columns | a region: a mask, a bound, an edge |
# | right numbers in wrong places | an order: `reshape`, not a transpose; a wrong permutation |
# | everything but the diagonal | missing cross terms: a softmax, a norm, a sort |
# | constant along a row or a column (rank 1) | a shared statistic treated as a constant |
# | a multiple of the right map | a constant factor, see step 3 |
# | nonzero where it should be zero | elements of a batch that influence each other |
#
# ### Exercise 2: shares along another dim
#
# This Function turns positive numbers into shares of their sum along the dimension `dim`. Its owner
# reports: "Our tests pass, and they use `dim=-1`. A user calls it with `dim=0` and says that the
# model only trains if they transpose the table before and after the call."


# %%
class BrokenShare(Function):
    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.dim = dim
        return x / x.sum(dim, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(-1, keepdim=True)
        return (grad_output - common) / total, None


def shares_of_columns(x):
    return BrokenShare.apply(x, 0)


table = torch.tensor([[1.0, 2.0, 0.5], [3.0, 1.0, 2.0]], dtype=torch.float64)
jacobian_view(shares_of_columns, table)

# %% [markdown]
# According to the first map, which outputs does an element influence? And according to the second
# map? Repair `backward`. For a hint, run `hint("repair-share")` in a new cell.


# %%
class Share(BrokenShare):
    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("repair-share", Share)

# %% [markdown]
# ### Checkpoint 1
#
# *Extra: one more forgotten statistic to find and repair.*
#
# Here is the mistake of `TimesMean` again, with the norm instead of the mean. The Function divides
# each row by its norm, $y = x / \lVert x \rVert$, and its `backward` treats the norm as a constant.
# For a row of 4 nonzero numbers, how many of the 16 entries of the Jacobian are wrong?


# %%
def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


class Unit(Function):
    @staticmethod
    def forward(x):
        return unit(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output / x.norm(dim=-1, keepdim=True)


x = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
wrong = ~torch.isclose(jacobian(Unit.apply, x), jacobian(unit, x))

predict(..., wrong.sum())

# %% [markdown]
# <details><summary>Why</summary>
#
# All 16 are wrong. You may have counted only the 12 entries off the diagonal, where `backward` has
# zeros. But
# $\partial y_i / \partial x_j = \delta_{ij} / \lVert x \rVert - x_i x_j / \lVert x \rVert^3$. The
# missing part is the outer product $x x^\top / \lVert x \rVert^3$, and its diagonal is not zero.
#
# </details>
#
# Now repair `Unit` above, and run these two cells until both reports have no ✗.

# %%
table = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.2, -1.0]], dtype=torch.float64)
print(five_steps(Unit, table, unit))
diagnose(Unit, table, reference=unit)

# %% [markdown]
# <details><summary>The repair</summary>
#
# With $u = x / \lVert x \rVert$, the gradient is $(g - u\,(u \cdot g)) / \lVert x \rVert$. It has
# no component along $u$, because $u$ does not change if $x$ only gets longer.
#
# ```python
# u = unit(x)
# along = (u * grad_output).sum(-1, keepdim=True)
# return (grad_output - u * along) / x.norm(dim=-1, keepdim=True)
# ```
#
# </details>

# %% [markdown]
# ## A patient from PyTorch itself
#
# Back to the sensors. PyTorch's class has about 100 lines, because it writes into buffers. Here are
# the same formulas in 40 lines, with the same two mistakes. The sum over the window is a running
# sum: from one channel to the next, one square enters the window and another one leaves it.


# %%
def running_sums(squares, n):
    """Sum the squares in the window of n channels around each channel."""
    channels, side = squares.shape[1], n // 2
    total = squares[:, : side + 1].sum(1)
    sums = [total]
    for c in range(1, channels):
        if c + side < channels:
            total = total + squares[:, c + side]  # enters the window
        if c > side + 1:
            total = total - squares[:, c - side - 1]  # leaves the window
        sums.append(total)
    return torch.stack(sums, 1)


def sums_in_backward(ratio, n):
    """Sum ratio in the window of n channels around each channel."""
    padded = pad(ratio, (0, 0, 0, 0, n // 2 + 1, n // 2 - 1))
    return padded.unfold(1, n, 1).sum(-1)


class RunningNorm(Function):
    """CrossMapLRN2d in short, for odd n. backward needs the scale, so forward is combined."""

    @staticmethod
    def forward(ctx, x, n, alpha, beta, k):
        scale = k + alpha / n * running_sums(x.square(), n)
        y = x / scale**beta
        ctx.save_for_backward(x, y, scale)
        ctx.settings = n, alpha, beta
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y, scale = ctx.saved_tensors
        n, alpha, beta = ctx.settings
        shared = sums_in_backward(grad_output * y / scale, n)
        grad_x = grad_output / scale**beta - 2 * alpha * beta / n * x * shared
        return grad_x, None, None, None, None


# %% jupyter={"source_hidden": true}
torch.manual_seed(0)
x = torch.randn(1, 6, 1, 1, dtype=torch.float64)
call = (x, n, alpha, beta, k)
leaf = x.clone().requires_grad_()
short, long = [f.apply(leaf, *call[1:]) for f in (RunningNorm, shipped.CrossMapLRN2d)]
by_short, by_long = [grad(y.square().sum(), leaf)[0] for y in (short, long)]
print("RunningNorm and PyTorch's class differ")
print(f"by {(short - long).abs().max():.6f} in the values", end=" ")
print(f"and by {(by_short - by_long).abs().max():.6f} in the gradient.")
print("\nThese lines of PyTorch's class contain the mistakes:")
for line in inspect.getsource(shipped.CrossMapLRN2d).splitlines():
    if "c > pre_pad" in line or "inversePrePad = int" in line:
        print(line.strip())

# %% [markdown]
# ### Checkpoint 2
#
# Step 1 failed, so start with `forward`. The outputs are wrong from channel 2 on. With windows of 3
# channels, `side` is 1, and channel 2 is the first one whose window no longer contains channel 0.
# Which line of `running_sums` is wrong? Change it above, run that cell, and then run the next one.

# %%
five_steps(RunningNorm, call, local_response_norm)

# %% [markdown]
# <details><summary>The repair</summary>
#
# `c > side + 1` has to be `c >= side + 1`. At channel 2, the condition $2 > 2$ is false, so the
# square of channel 0 never leaves the window, and it damps all other channels. In the search at the
# beginning, the stimulus is strong at sensor 0, so the search raised it everywhere to make up for
# the damping. The code was ported from Lua, where indices start at 1.
#
# </details>
#
# The next cell sums over each window separately, so it cannot contain this mistake.


# %%
def running_sums(squares, n):  # noqa: F811
    """Sum the squares in the window of n channels around each channel."""
    return pad(squares, (0, 0, 0, 0, n // 2, n // 2)).unfold(1, n, 1).sum(-1)


print(compare_forward(RunningNorm, call, local_response_norm))
print(compare_magnitudes(RunningNorm, call))

# %% [markdown]
# Step 1 now passes, but step 3 still fails. So `backward` contains a second mistake. The ratio is
# not one of those in the table, so look for a pattern. The next cell shows seven channels.


# %%
def channels(x):
    return RunningNorm.apply(x.reshape(1, 7, 1, 1), n, alpha, beta, k).flatten()


jacobian_view(channels, torch.linspace(0.8, 1.5, 7, dtype=torch.float64))

# %% [markdown]
# On the left is a band around the diagonal: each channel and its two neighbors. The band of
# `backward` has the right width but is shifted by one. Each channel gets a gradient from the two
# channels before it and none from the channel after it.
#
# `sums_in_backward` puts `n // 2 + 1` zeros in front. This number also counts from 1. The fix
# is to pad with `n // 2` zeros on each side:


# %%
def sums_in_backward(ratio, n):  # noqa: F811
    """Sum ratio in the window of n channels around each channel."""
    padded = pad(ratio, (0, 0, 0, 0, n // 2, n // 2))
    return padded.unfold(1, n, 1).sum(-1)


found, _ = find(lambda x: RunningNorm.apply(x, n, alpha, beta, k))
print("largest error of the stimulus:", f"{(found - stimulus).abs().max():.4f}")
five_steps(RunningNorm, call, local_response_norm)

# %% [markdown]
# People used this layer for years without noticing the two wrong indices. The default is
# $\alpha = 10^{-4}$, so the damping hardly matters if the activations are small. Neural networks
# also learn around a wrong layer, as long as it is always wrong in the same way.

# %% [markdown]
# ### What diagnose still finds
#
# *Extra: the second derivative of the repaired class, and what it keeps in memory.*
#
# The five steps find nothing more, but `diagnose` has a note about the second derivative:

# %%
diagnose(RunningNorm, call, reference=local_response_norm)

# %% [markdown]
# `scale` is an intermediate of `forward`, and autograd treats it as a constant when you
# differentiate `backward`. (PyTorch's class raises an error there, because its `backward` writes
# into buffers with `out=`. It also stores `scale` on `ctx`, which keeps it in memory too long, as
# lesson 02 shows.) The course package's version saves only $x$, recomputes the scale and uses
# ordinary operations:

# %%
diagnose(LocalResponseNorm, call, reference=local_response_norm, double_backward=True)

# %% [markdown]
# ## What gradcheck does not ask
#
# If step 5 passes, what can still be wrong? `gradcheck` uses your inputs in float64, one forward
# pass followed by one backward pass, and contiguous cotangents that are zero except at one element.
# A mistake that needs anything else stays hidden. All of the following Functions pass `gradcheck`.
# They compute $y = x^2$, unless the table says otherwise.
#
# | `backward` | what shows the mistake |
# | --- | --- |
# | clips: `2 * x * g.clamp(-1, 1)` | a cotangent that is not one-hot |
# | writes into `g`: `g.mul_(2 * x)` | comparing `g` before and after the call |
# | reads the `x` of the last call from a global | two forward passes before one backward pass |
# | assumes a layout: `g.view(-1)` | a transposed `g`, from a `.T` after the Function |
# | returns float32: `(2 * x * g).float()` | the dtype before autograd casts it |
# | overflows: $y = \log(1 + e^x)$, `g * e / (1 + e)` with `e = x.exp()` | inputs such as 1000 |
# | treats $x$ as a constant: `2 * x.detach() * g` | a second derivative |
# | misses a bound: $y = \min(x^2, 100)$, `2 * x * g` | an input beyond the bound |
#
# Hidden cells define these eight Functions. `gradgradcheck` compares second derivatives.


# %% jupyter={"source_hidden": true}
class Squared(Function):
    """y = x², to derive wrong Functions from."""

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class Clips(Squared):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g.clamp(-1, 1)


class WritesIntoG(Squared):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.mul_(2 * x)


class ReadsGlobal(Squared):
    @staticmethod
    def forward(x):
        last["x"] = x
        return x**2

    @staticmethod
    def backward(ctx, g):
        return 2 * last["x"] * g


last = {}


# %% jupyter={"source_hidden": true}
class AssumesLayout(Squared):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g.view(-1).view(x.shape)


class ReturnsFloat32(Squared):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (2 * x * g).float()


class Overflows(Squared):
    @staticmethod
    def forward(x):
        return softplus(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp() / (1 + x.exp())


# %% jupyter={"source_hidden": true}
class DetachesX(Squared):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * g


class MissesBound(Squared):
    @staticmethod
    def forward(x):
        return (x**2).clamp(max=100.0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


# %%
def verdict(check, function, x):
    try:
        return "passes" if check(function.apply, x, raise_exception=False) else "fails"
    except RuntimeError:
        return "raises"


tour = (Clips, WritesIntoG, ReadsGlobal, AssumesLayout)
tour += (ReturnsFloat32, Overflows, DetachesX, MissesBound)
x = torch.tensor([[1.0, -2.0, 0.5], [2.0, 0.3, -1.0]], dtype=torch.float64)
leaf = x.clone().requires_grad_()
print(f"{'':16}gradcheck  gradgradcheck  diagnose")
for function in tour:
    once, twice = verdict(gradcheck, function, leaf), verdict(gradgradcheck, function, leaf)
    findings = diagnose(function, x).findings
    found = findings[0].rule if findings else "nothing found"
    print(f"{function.__name__:16}{once:11}{twice:15}{found}")

# %% [markdown]
# (`gradgradcheck` raises for `WritesIntoG` only because its `g` is a leaf that requires a gradient.
# In training, nothing raises.)
#
# `diagnose` finds seven of the eight. The last one is your job. The bound is far from this example,
# so neither `gradcheck` nor `diagnose` can know about it. You have to read `forward`, find its
# branches, and pass an example for each.
#
# There are more mistakes of this kind. If `forward` uses a tensor that is not one of its arguments,
# this tensor gets no gradient. If `backward` returns a gradient at the wrong position, it may be
# right as long as every input requires a gradient. If `backward` changes an attribute of `ctx`, the
# second backward pass is wrong. If `forward` stores an output as an attribute of `ctx`, all
# gradients are right, but memory usage grows. The exercises contain each of these mistakes.

# %% [markdown]
# ### Give diagnose other inputs
#
# *Extra: for readers whose Function has branches that the example does not reach.*
#
# A *sampler* draws inputs that `diagnose` should try as well:


# %%
def draws(rng):
    return (9 * torch.randn(4, 8, generator=rng, dtype=torch.float64),)


diagnose(MissesBound, x, sampler=draws)

# %% [markdown]
# ### A second derivative that is wrong
#
# *Extra: you need this section for exercise 12.*
#
# Some losses contain a gradient, for example a penalty on its norm. To train with such a loss,
# PyTorch differentiates `backward`. It records the operations in `backward`, but it has recorded
# nothing in `forward`. So a saved *input* is connected to the graph, whereas a saved *intermediate*
# is a constant. The Functions below both compute $y = x^3$, with the derivative $3x^2$.


# %%
class CubeBySlope(Function):
    @staticmethod
    def forward(ctx, x):
        slope = 3 * x**2
        ctx.save_for_backward(slope)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return slope * grad_output


class CubeByInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


for function in (CubeBySlope, CubeByInput):
    x = torch.tensor(2.0, requires_grad=True)
    (first,) = grad(function.apply(x) + x**2, x, create_graph=True)
    (second,) = grad(first, x)
    print(f"{function.__name__}: first derivative {first:.0f}, second derivative {second:.0f}")

# %% [markdown]
# The loss $x^3 + x^2$ has the second derivative $6x + 2 = 14$. The first Function loses the $6x$
# term, and PyTorch does not warn you. So save inputs, and in `backward`, compute what you need from
# them.
#
# ### When forward draws random numbers
#
# *Extra: you need this section for exercise 13.*
#
# Dropout draws a random mask in `forward`, and `backward` needs the same mask. You can save the
# mask, or you can pass a *seed* as an argument and draw the mask again. Use your own generator,
# because `torch.manual_seed` changes the random numbers of the whole program.

# %%
for seed in (1, 1, 2):
    generator = torch.Generator().manual_seed(seed)
    print(f"seed {seed}:", (torch.rand(8, generator=generator) >= 0.4).int().tolist())

# %% [markdown]
# With the seed as an argument, the output depends only on the arguments. So `gradcheck` and
# `diagnose` can test the Function like any other.

# %% [markdown]
# ## What people say
#
# ### Sentences and their answers
#
# *Reference: look here when you review a `backward`, your own or another author's.*
#
# You will hear these sentences in every project:
#
# | sentence | answer |
# | --- | --- |
# | "The loss falls." | It also fell for the wrong wall (lesson 01), and to zero in this lesson. |
# | "gradcheck passes." | The eight wrong Functions above also pass. |
# | "It fails, but only a little." | A fixed ratio is a mistake. Avoid the kink, and use float64. |
# | "Then I raise `atol`." | You can raise it until everything passes, including the next mistake. |
# | "My float32 run is fine." | Test in float64, and then compare float32 with it. |
# | "It must be the optimizer." | Keep the parameters fixed and compare *one* gradient. |
# | "It runs with `retain_graph=True`." | Find out why PyTorch asked for it. |
# | "It has been in use for years." | So has `CrossMapLRN2d`. |
#
# You can see these warning signs without running anything:
#
# | in a `backward` | what it often means |
# | --- | --- |
# | a `return` without `grad_output` | it ignores the upstream gradient |
# | `grad_output` in a comparison, a `clamp`, a power | it is not linear in `grad_output` |
# | `.data`, `.detach()`, `.item()`, NumPy | the second derivative is lost |
# | `grad_output.view(…)`, `.data_ptr()` | it fails for a transposed or expanded gradient |
# | `torch.zeros(…)` without `_like` | a wrong dtype or device |
# | a method that ends in `_` | it may change a tensor of another Function |
# | `ctx.x = x`, a global, a class attribute | freed late, shared, or invisible to hooks |
# | `except: return None` | the parameter will never move |
# | a test with `atol=1e-2`, `nondet_tol=1` | somebody silenced a failing test |
#
# ### Adam and a constant factor
#
# *Extra: for readers who train with Adam.*
#
# A loss is the sum of $(x - 3)^2$ and $x^2$. The gradient of the first term is four times too
# large. Adam divides each gradient by its typical size. Does it remove the factor?

# %%
vote("04", "adam-divides")


# %%
class Attraction(Function):
    """y = (x - 3)², with a gradient that is four times too large."""

    @staticmethod
    def forward(x):
        return (x - 3) ** 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 4 * 2 * (x - 3) * grad_output


def minimum(first_loss):
    x = torch.tensor(0.0, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        (first_loss(x) + x**2).backward()
        optimizer.step()
    return x.item()


print(f"right gradient:        x = {minimum(lambda x: (x - 3) ** 2):.2f}")
print(f"four times the first:  x = {minimum(Attraction.apply):.2f}")

# %% [markdown]
# It does not. Adam divides by the size of the *sum*, so a factor in one term changes the result.
# Examples of such terms are a second loss, a regularizer, or another path to the same parameter.

# %% [markdown]
# ## Before it ships
#
# Before you give a Function to other people, go through this list:
#
# 1. `forward` agrees with a reference, including for 0, for large, negative and equal numbers, and
#    for empty tensors.
# 2. The five steps pass on a small example with different sizes, none of them 1 or 2.
# 3. There is an example on each side of every branch, and none on a kink.
# 4. `diagnose` finds no error. You resolved each warning or wrote down why it does not matter.
# 5. You ran it the way people will use it: with a frozen input, without a bias, in float32, and
#    with a batch of one.
# 6. Second derivatives are right, or raise an error.
# 7. The docstring gives the formula, the shapes, what is saved, and what the gradient is *not*.
# 8. The check runs in CI, so that all this stays true.

# %% [markdown]
# ### The doctor as a command
#
# *Reference: look here when you want to check a file, before a commit or in CI.*
#
# On the command line, you give `diagnose` the name of a Function and describe the inputs in a few
# characters: `f64[5]` is a vector of five normal numbers in float64. The file in the next cell
# contains a cube that saves its slope.

# %%
cube = """
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
    Path(folder, "cubes.py").write_text(cube)
    plain = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(check, cwd=folder, env=plain, capture_output=True, text=True)
print("$ autograd-course check cubes:Cube --inputs 'f64[5]' --double-backward")
print(done.stdout, "exit code", done.returncode)

# %% [markdown]
# The first derivative is right, but the second one is silently wrong. With `--double-backward` this
# is an error. In a test suite, `assert_gradients(Cube, x, double_backward=True)` from
# `autograd_course` runs the same check.

# %% [markdown]
# ## Do you know it?
#
# Answer nine questions. If an answer is wrong, you see why and can try again.

# %%
knowledge_check("04")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# print(five_steps(F, inputs, reference))   # the first ✗ is where to work
# compare_forward(F, inputs, reference)     # 1 the values
# run_backward(F, inputs)                   # 2 count, shapes, dtypes, finite: before the engine
# compare_magnitudes(F, inputs)             # 3 norms, and their ratio
# check_element(F, inputs)                  # 4 L(x + ε), L(x - ε), quotient, backward
# run_gradcheck(F, inputs)                  # 5 every entry
# jacobian_view(F, *inputs)                 # where, and in what pattern
# diagnose(F, inputs, reference=f)          # the mistake by name, and what gradcheck does not ask
# ```
#
# | | |
# | --- | --- |
# | order | cheap checks first; an answer means something only if the earlier checks passed |
# | the ratio stays | a constant: 2, ½, $N$, $1/N$, $N/(N-1)$, an argument |
# | the ratio changes | a missing term, a region |
# | an error of rank 1 | a statistic treated as a constant |
# | a shifted band | an index off by one |
# | a mirrored map | the map instead of its transpose |
# | `nan` | find the first number that is *not finite*; anomaly mode reports only `nan` |
# | gradcheck passes | it does not ask: other $g$, its layout, state, large inputs, other branches |
# | ship | `autograd-course check module:F --inputs … --warnings` |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/04_debugging_clinic.ipynb) contain twelve broken
# Functions, modeled on bugs in public projects. Find each mistake and repair it.
#
# [Lesson 05](05_straight_through.ipynb) is about gradients that are wrong on purpose, for functions
# whose true derivative is zero almost everywhere.
