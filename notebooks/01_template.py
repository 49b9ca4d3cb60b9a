# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/01_template.ipynb)
#
# # 01 · A Function from end to end
#
# **You will** write custom `torch.autograd.Function`s and test their gradients.
#
# **You will learn** what `backward` computes, what `ctx` is for, what `backward` must return, when
# a Function is worth writing, and what `gradcheck` can and cannot see.
#
# **You need** to know the chain rule and to have written a PyTorch training loop yourself.
#
# **It takes** about 60 minutes; the *extra* sections take another 30. There are two
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
import warnings

import torch
from torch import nn
from torch.autograd import Function, grad, gradcheck
from torch.nn.functional import leaky_relu, relu6

from autograd_course import diagnose, functions, grade, gradient_flow, hint  # noqa: F401
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    figure,
    note,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import function_lab, knowledge_check

# %% [markdown]
# ## A wrong gradient looks like a right one
#
# A town puts up a mobile flood wall before each storm. The more rain is forecast, the higher the
# wall is, and it should hold back nine floods out of ten. A colleague fitted the height to 200
# storms with a custom Function: `forward` computes the loss, and `backward` computes its gradient.
# The loss fell and flattened out (left). But the wall holds back only about half of the floods
# (right). One line of `backward` is wrong, and PyTorch did not notice, because PyTorch never
# compares a `backward` with its `forward`. That comparison is your job, and this lesson teaches it.
# At the end, you will repair the colleague's Function. You do not need to read the code for the
# picture now.


# %% jupyter={"source_hidden": true}
class PinballLoss(Function):
    @staticmethod
    def forward(ctx, prediction, target, q):
        ctx.save_for_backward(prediction, target)
        ctx.q = q
        error = target - prediction
        return torch.maximum(q * error, (q - 1) * error).mean()

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        slope = ctx.q * torch.sign(prediction - target)
        return grad_output * slope / slope.numel(), None, None


def fit(loss_function, steps=300):
    """Fit a line to the floods. Return the line and the loss of each step."""
    line = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([line], lr=0.1)
    losses = []
    for _ in range(steps):
        loss = loss_function(line[0] + line[1] * rain, level, 0.9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return line.detach(), losses


def share_held(line):
    """Return the share of floods that a wall of this height holds back."""
    return (level < line[0] + line[1] * rain).float().mean().item()


# %% jupyter={"source_hidden": true}
rng = torch.Generator().manual_seed(0)
rain = torch.rand(200, generator=rng)
level = 1 + 2 * rain + (0.3 + 1.2 * rain) * torch.empty(200).exponential_(generator=rng)
custom_line, custom_losses = fit(PinballLoss.apply)
true_line, _ = fit(
    lambda prediction, target, q: torch.maximum(
        q * (target - prediction), (q - 1) * (target - prediction)
    ).mean()
)

with figure(columns=2, height=3.6) as (watched, built):
    watched.plot(custom_losses, color=ORANGE)
    watched.set(
        title="what the author watched", xlabel="step", ylabel="pinball loss", ylim=(0, 2.8)
    )
    note(watched, "falls, flattens, looks done", (110, 0.72), ORANGE)

    over = level > custom_line[0] + custom_line[1] * rain
    for held, marker, color in ((~over, "o", GRAY), (over, "x", ORANGE)):
        built.scatter(rain[held], level[held], s=14, marker=marker, color=color, lw=0.9)
    ends = torch.tensor([0.0, 1.0])
    for line, color, dash in ((true_line, BLUE, "-"), (custom_line, ORANGE, "--")):
        built.plot(ends, line[0] + line[1] * ends, color=color, linestyle=dash)
    note(built, f"right gradient: holds {share_held(true_line):.0%}", (0.02, 4.9), BLUE)
    note(built, f"built: holds {share_held(custom_line):.0%}, × go over it", (0.33, 0.5), ORANGE)
    built.set(title="what was built", xlabel="forecast rain", ylabel="river level", ylim=(0, 10))

# %% [markdown]
# ## Your first Function
#
# A custom Function is a class with two static methods. `forward` computes the output. Here is
# $y = x^2$ with only a `forward`. You call `.apply`, never `forward` itself.


# %%
class Square(Function):
    @staticmethod
    def forward(ctx, x):
        return x**2


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = Square.apply(x)
y

# %% [markdown]
# The values are right, and `grad_fn` shows that $y$ is part of the autograd graph. Now ask for
# gradients:

# %% tags=["raises-exception"]
y.sum().backward()

# %% [markdown]
# Autograd records nothing inside `forward`, because grad mode is off there. So you have to write
# `backward`. It needs $x$, so `forward` saves $x$ on `ctx`, which carries data from `forward` to
# `backward`.
#
# **Your turn.** The derivative of $x^2$ is $2x$. Replace `0 * x` with the gradient and run the
# cell. It should print 2, 4 and 6.


# %%
class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 0 * x  # type the gradient here


x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
Square.apply(x).sum().backward()
print("gradient of the sum:", x.grad.tolist())

# %% [markdown]
# ## What backward is asked for
#
# Most people type `2 * x` and see the three numbers that they expect. The next cell computes the
# gradients of two losses: the sum of the three squares, and their weighted sum with the weights 1,
# 10 and 100. Before you run it, vote for what you expect. Some of the statements that you vote on
# are true.

# %%
vote("01", "only-the-derivative")


# %%
class DerivativeOnly(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x


weights = torch.tensor([1.0, 10.0, 100.0])
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
(plain,) = grad(DerivativeOnly.apply(x).sum(), x)
(weighted,) = grad((weights * DerivativeOnly.apply(x)).sum(), x)
print("sum:         ", plain.tolist(), "should be", (2 * x).tolist())
print("weighted sum:", weighted.tolist(), "should be", (weights * 2 * x).tolist())

# %% [markdown]
# It is right only for the plain sum. The weights reach `backward` through `grad_output`, and this
# `backward` ignores it.
#
# When the backward pass arrives at $y = f(x)$, autograd already has the gradient of the loss $L$
# with respect to $y$. It passes this gradient to `backward` as `grad_output`, also called the
# *upstream gradient*, the *cotangent*, or $g$. Your `backward` returns the gradient with respect to
# $x$. The chain rule connects the two through the Jacobian $J$ of $f$:
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i \, \frac{\partial y_i}{\partial x_j}
# \qquad\text{that is}\qquad \frac{\partial L}{\partial x} = g^\top J .$$
#
# This is the *vector-Jacobian product* (VJP). An elementwise function such as the square has a
# diagonal $J$, so the sum has a single term, $g_i \, f'(x_i)$. After a plain `.sum()`, every $g_i$
# is 1, which hides the mistake. So always test with weights. The VJP is *linear* in $g$: doubling
# $g$ doubles the gradient. You will also use this as a test.
#
# ### Exercise 1: square
#
# Now write both methods yourself, in place of the comments and the `raise` lines. `grade` tests
# your class on inputs of several shapes and records the result. If you are stuck, run
# `hint("square")` in a new cell.


# %%
class Square(Function):
    @staticmethod
    def forward(ctx, x):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("square", Square)

# %% [markdown]
# ## A function that autograd cannot differentiate
#
# Autograd differentiates $x^2$ without your help. Here is a Function that you really need. A spring
# gets stiffer as you stretch it: it takes a force of $y + y^3$ to stretch it by $y$. How far does a
# given force stretch it? We find $y$ by *bisection*, which halves an interval again and again.


# %%
def stretch(force):
    """Return the y that solves y + y³ = force, for forces between -1010 and 1010."""
    low = torch.full_like(force, -10.0)
    high = torch.full_like(force, 10.0)
    for _ in range(60):
        middle = (low + high) / 2
        too_far = middle + middle**3 > force
        high = torch.where(too_far, middle, high)
        low = torch.where(too_far, low, middle)
    return middle


force = torch.tensor([-2.0, 2.0, 10.0], dtype=torch.float64, requires_grad=True)
y = stretch(force)
print("y =", y.numpy().round(4).tolist())

# %% tags=["raises-exception"]
y.sum().backward()

# %% [markdown]
# The values are right, but $y$ has no `grad_fn`. The force enters only through a comparison, and
# autograd does not differentiate comparisons.
#
# But you know the derivative. The force is $y + y^3$, and it changes by $1 + 3y^2$ for each unit of
# $y$. So $y$ changes by $1 / (1 + 3y^2)$ for each unit of force. `forward` calls the bisection, and
# `backward` states the gradient:


# %%
class Stretch(Function):
    """y + y³ = force, solved for y; ∂L/∂force = ∂L/∂y / (1 + 3 y²)."""

    @staticmethod
    def forward(ctx, force):
        y = stretch(force)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output / (1 + 3 * y**2)


(gradient,) = grad(Stretch.apply(force).sum(), force)
print("gradient: ", gradient.numpy().round(4).tolist())
print("gradcheck:", gradcheck(Stretch.apply, force))

# %% [markdown]
# `gradcheck` compares `backward` with finite differences of `forward`. It returns `True` if they
# agree and raises an error if they do not.
#
# Watch the Function run. The arrow keys move from line to line, first through `forward` and then
# through `backward`. Next to each line, you see the value that it produced. Drag the point: the
# broad line has the slope that `backward` returned, and the dashed line has the slope of `forward`
# itself.

# %%
function_lab(Stretch, x=2.0)

# %% [markdown]
# ### Checkpoint 1
#
# The force 2 stretches the spring to $y = 1$, where the derivative is $1/4$. The loss below is
# $6y + y^2$. What is `force.grad`? Work out `grad_output` first, type your number in place of
# `...`, and run the cell.

# %%
force = torch.tensor(2.0, requires_grad=True)
y = Stretch.apply(force)
(6 * y + y**2).backward()

predict(..., force.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# The loss has the derivative $6 + 2y = 8$, and this 8 arrives as `grad_output`. Your `backward`
# multiplies it by the local derivative $1/4$, which gives 2.
#
# </details>

# %% [markdown]
# ### Why no Jacobian is ever built
#
# *Extra: how much memory `backward` saves you, and a test that it is linear in $g$. `diagnose` runs
# this test for you.*
#
# For four elements, we can afford to build $J$ and multiply it by $g$:

# %%
force = torch.tensor([-2.0, 0.0, 2.0, 10.0], dtype=torch.float64, requires_grad=True)
g = torch.tensor([1.0, -2.0, 0.0, 3.0], dtype=torch.float64)

J = torch.autograd.functional.jacobian(Stretch.apply, force)
(vjp,) = grad(Stretch.apply(force), force, grad_outputs=g)
print("gᵀJ:             ", (g @ J).numpy().round(4).tolist())
print("backward returns:", vjp.numpy().round(4).tolist())

for n in (4, 1_000, 1_000_000):
    print(f"{n:>9,} elements: {n * 8:>9,} bytes of gradient, {n * n * 8:>17,} bytes of J")

# %% [markdown]
# One layer's activation can easily have a million elements. Its Jacobian would take eight
# terabytes, and nearly all of its entries would be zeros. The VJP takes as much memory as $x$. This
# is why reverse mode asks you for $g^\top J$ and never for $J$.
#
# The product is linear in $g$. Twice the gradient in gives twice the gradient out, and a sum of two
# gradients gives the sum of the two results.


# %%
def backward(g):
    return grad(Stretch.apply(force), force, grad_outputs=g)[0].numpy().round(4).tolist()


h = torch.tensor([0.5, 0.5, -1.0, 2.0], dtype=torch.float64)
print("g    ", backward(g))
print("2g   ", backward(2 * g))
print("h    ", backward(h))
print("g + h", backward(g + h))

# %% [markdown]
# ## See it flow
#
# *Extra: step through a backward pass in a picture, as in lesson 00.*
#
# The next picture shows a graph with three operations. A square takes $x = 2$. A clipped ReLU,
# $\min(\max(y, 0), 6)$, takes $y = 3$. The loss is the sum of the two results. The square and the
# clipped ReLU are custom Functions from the course package.


# %%
def loss(x, y):
    return functions.Square.apply(x) + functions.ClippedReLU.apply(y, 6.0)


gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))

# %% [markdown]
# Click on the picture and press → to start at the beginning. First, the values travel to the loss.
# Then the gradient 1 travels back against the arrows, and each edge multiplies it by a local
# factor. `loss.backward()` does exactly this in a network of any size.
#
# ### Two things to try
#
# Drag $y$ below zero. Which factor becomes zero, and which gradient no longer arrives? Then end the
# cell with `gradient_flow(lambda x: loss(x, x), torch.tensor(2.0))`. It sends one input into both
# branches. Two gradients meet and *add up*: an input that is used twice collects gradients from
# both uses.

# %% [markdown]
# ## When to write one
#
# | reason | example |
# | --- | --- |
# | autograd cannot differentiate the forward | a search, a solver, NumPy, a C++ or CUDA kernel |
# | you want a different gradient | straight-through estimators, clipped or reversed gradients |
# | you know a better formula | stable where the composition gives `nan`, or cheaper |
# | you want to save memory | save a mask or the output, recompute the rest |
#
# If the forward is a composition of PyTorch operations and none of these reasons applies, leave it
# to autograd. Its derivatives have been tested for years, and yours can only equal them. Yours does
# not automatically save memory, either, as lesson 07 shows. To clip a gradient at one place, a hook
# is enough: `y.register_hook(lambda g: g.clamp(-1, 1))`.

# %% [markdown]
# ## Anatomy
#
# ### The class is never instantiated
#
# *Reference: what you get without `.apply`. Read it when `diagnose` reports `missing-staticmethod`
# or `backward-never-called`.*
#
# `forward` and `backward` are static methods, because there is no `self`. One class serves every
# call, and each call gets its own `ctx`. `.apply` creates this `ctx`, runs `forward` with it and
# adds the node to the graph. If you forget `.apply`, Python constructs an object of the class:

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = Stretch(torch.tensor([8.0]))

print(f"{caught[0].category.__name__}: {caught[0].message}")
print("a Stretch:", isinstance(result, Stretch))
print("a tensor: ", isinstance(result, torch.Tensor))

# %% [markdown]
# PyTorch emits only a warning. Python shows it for code in your main script or notebook and hides
# it for code in imported modules. `forward` has not run, and some later line fails because it
# expected a tensor.
#
# ### ctx is the node
#
# *Extra: how to look at a `ctx` from outside. Lesson 02 comes back to it.*
#
# The `ctx` that `forward` receives is the node that you later find in the graph as `y.grad_fn`. So
# you can look at what a Function keeps:

# %%
force = torch.tensor([2.0, 10.0], requires_grad=True)
y = Stretch.apply(force)
print("node: ", y.grad_fn.name())
print("saved:", [t.detach().numpy().round(4).tolist() for t in y.grad_fn.saved_tensors])
print("next: ", y.grad_fn.next_functions[0][0].name(), "– the leaf, where gradients are stored")

# %% [markdown]
# ### What goes where on ctx
#
# Pass all tensors to `ctx.save_for_backward(...)` in one call, and read them from
# `ctx.saved_tensors`. PyTorch frees them after the backward pass, and it raises an error if your
# code changed one of them in place. Store everything else (numbers, shapes, flags) as attributes,
# such as `ctx.factor = factor`. A tensor that you store as an attribute is neither checked nor
# freed. Lesson 02 shows what can then go wrong.
#
# ### What backward returns
#
# `backward` returns one value for each argument of `forward` after `ctx`, in the same order. Each
# value is a gradient with exactly the input's shape, or `None` for an argument that has no
# gradient. A number never has a gradient. If you return `None` for a parameter, PyTorch raises no
# error, and the parameter never learns.
#
# If the shape is wrong, autograd sums the gradient to the input's shape without a message. It
# raises an error only if broadcasting cannot explain the shape. If `backward` returns too few
# values, PyTorch raises `returned an incorrect number of gradients (expected 2, got 1)`.
#
# #### Three mistakes
#
# *Extra: too few values, a missing gradient and a wrong shape. PyTorch accepts two of them.*
#
# If `backward` returns `None` for an input that needs a gradient, autograd takes it to mean that
# the loss does not depend on this input. If it returns a gradient that is too large, for example
# (2, 3) for an input of shape (3,), autograd sums it to (3,). If no sum gives the input's shape,
# autograd raises an error.


# %%
class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return factor * x

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None


class ScaleReturnsNone(Scale):
    @staticmethod
    def backward(ctx, grad_output):
        return None, None


class ScaleReturnsTwoRows(Scale):
    @staticmethod
    def backward(ctx, grad_output):
        return (ctx.factor * grad_output).expand(2, 3), None


for function in (Scale, ScaleReturnsNone, ScaleReturnsTwoRows):
    x = torch.ones(3, requires_grad=True)
    function.apply(x, 2.0).sum().backward()
    print(f"{function.__name__:20} gradient: {x.grad}")

# %% [markdown]
# With the second Function, a parameter never moves. The third Function returned two rows for an
# input that has one row. Autograd added them up, so the gradient is twice as large as it should be.
# Returning one value too few raises an error:


# %% tags=["raises-exception"]
class ScaleReturnsOneValue(Scale):
    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output


ScaleReturnsOneValue.apply(x, 2.0).sum().backward()

# %% [markdown]
# ### A third method: setup_context
#
# For new code, PyTorch recommends a `forward` without `ctx`. A third method, `setup_context`, saves
# what `backward` needs. You will write three methods from lesson 02 on.


# %%
class StretchInThree(Stretch):  # with the same backward
    @staticmethod
    def forward(force):
        return stretch(force)

    @staticmethod
    def setup_context(ctx, inputs, output):  # inputs is a tuple
        ctx.save_for_backward(output)


force = torch.tensor([-2.0, 2.0, 10.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(StretchInThree.apply, force))

# %% [markdown]
# ## A template with an optional argument
#
# You can use the next Function as a template. It scales and shifts each channel along the last
# dimension, $y = s \odot x + b$, and the caller may leave out the shift $b$. Every row uses the
# same $s$ and $b$, so their gradients are *sums* over the rows.

# %%
vote("01", "extra-none")


# %%
class ScaleShift(Function):
    """y = scale·x + shift along the last dimension; x is (..., C), scale and shift are (C,)."""

    @staticmethod
    def forward(ctx, x, scale, shift=None):
        ctx.save_for_backward(x, scale)
        ctx.has_shift = shift is not None
        y = x * scale
        if ctx.has_shift:
            y = y + shift
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        channels = len(scale)
        grad_x = grad_output * scale
        grad_scale = (grad_output * x).reshape(-1, channels).sum(0)
        grad_shift = None
        if ctx.has_shift:
            grad_shift = grad_output.reshape(-1, channels).sum(0)
        return grad_x, grad_scale, grad_shift


# %%
torch.manual_seed(0)
x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
scale = torch.randn(3, dtype=torch.float64, requires_grad=True)
shift = torch.randn(3, dtype=torch.float64, requires_grad=True)
print("gradcheck with a shift:   ", gradcheck(ScaleShift.apply, (x, scale, shift)))
print("gradcheck without a shift:", gradcheck(ScaleShift.apply, (x, scale)))

# %% [markdown]
# We check the Function with a shift and without one, because each call takes another branch.
#
# `ctx.needs_input_grad` tells `backward` which of the *passed* arguments need a gradient. It has no
# entry for an argument that was left out. You may skip the other gradients to save time. If you
# compute them anyway, autograd throws them away.
#
# ### Train it in a module
#
# A Function has no parameters. They belong to an `nn.Module`, which passes them to `.apply`. The
# next cell calibrates three sensors: it learns the scale and the shift of each one.


# %%
class Calibration(nn.Module):
    def __init__(self, sensors):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(sensors))
        self.shift = nn.Parameter(torch.zeros(sensors))

    def forward(self, x):
        return ScaleShift.apply(x, self.scale, self.shift)


layer = Calibration(3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
measured = torch.randn(200, 3)
true = measured * torch.tensor([1.0, 2.0, 3.0]) - 4
for _ in range(100):
    error = (layer(measured) - true).square().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
print("scale:", layer.scale.detach().numpy().round(2))
print("shift:", layer.shift.detach().numpy().round(2))

# %% [markdown]
# ## Save the output instead of the input
#
# `Stretch` saved its output $y$ instead of its input, because its derivative $1 / (1 + 3y^2)$ does
# not need the input. Many functions allow this. For example, the derivative of $y = \tanh x$ is
# $1 - y^2$.
#
# Why prefer the output, if it is as large as the input? The next layer usually saves it anyway, as
# its own input, and then PyTorch keeps only one tensor for both. This works only if the output
# determines the derivative. $x^2$ has lost the sign of $x$, so `Square` has to save the input.
#
# ### Exercise 2: scaled sigmoid
#
# Write $y = \text{gain} \cdot \sigma(\text{slope} \cdot x)$, where `gain` and `slope` are Python
# numbers. Save only $y$. The sigmoid has the derivative $\sigma' = \sigma (1 - \sigma)$, and
# $\sigma$ is $y / \text{gain}$.


# %%
class ScaledSigmoid(Function):
    @staticmethod
    def forward(ctx, x, gain, slope):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("scaled-sigmoid", ScaledSigmoid)

# %% [markdown]
# ## Several inputs, several outputs
#
# For several inputs, `backward` returns several gradients, as in `ScaleShift`. For several
# *outputs*, `forward` returns a tuple, and `backward` receives one gradient for each output. An
# input collects gradients from every output that depends on it:
# $\partial L/\partial x = \sum_k g_k^\top J_k$. The next Function returns the sine and the cosine
# of one angle.

# %%
vote("01", "output-not-used")


# %%
class SinCos(Function):
    """s = sin x, c = cos x; ∂L/∂x = c·∂L/∂s - s·∂L/∂c."""

    @staticmethod
    def forward(ctx, x):
        s = torch.sin(x)
        c = torch.cos(x)
        ctx.save_for_backward(s, c)
        return s, c

    @staticmethod
    def backward(ctx, grad_s, grad_c):
        print("backward receives", grad_s.tolist(), "and", grad_c.tolist())
        s, c = ctx.saved_tensors
        return c * grad_s - s * grad_c


x = torch.tensor([0.0, 1.0], requires_grad=True)
s, c = SinCos.apply(x)
s.sum().backward()

# %% [markdown]
# It receives zeros. Autograd fills in what is missing, so the formula needs no `if`. (Lesson 02
# shows how to receive `None` instead.) If the loss uses both outputs, their two contributions add
# up.

# %% [markdown]
# ## From the formula to the proof
#
# A joystick should ignore small movements. In its *dead zone*, $|x| \le w$, the output is 0.
# Outside of it, $x$ moves toward 0 by $w$. In one formula, this is $y = x - \min(\max(x, -w), w)$.
# The gradient passes only outside of the zone:
#
# $$\frac{\partial L}{\partial x} =
# \begin{cases} g & |x| > w \\ 0 & \text{otherwise.}\end{cases}$$
#
# At the two *kinks*, $-w$ and $w$, no derivative exists, so you choose a convention and state it in
# the docstring. Here, the slopes on the two sides are 0 and 1. PyTorch's documented rule takes the
# slope that is closest to 0, so we return 0 at both kinks.
#
# What should `forward` save? A boolean mask is enough, and it takes one byte for each element. The
# second class below is a buggy copy whose mask ignores the left side. Its outputs are the same.


# %%
class DeadZone(Function):
    """y = x - min(max(x, -width), width); the gradient is 0 at both kinks."""

    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x.abs() > width)
        return x - x.clamp(-width, width)

    @staticmethod
    def backward(ctx, grad_output):
        (outside,) = ctx.saved_tensors
        return grad_output * outside, None


class OneSided(DeadZone):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x > width)
        return x - x.clamp(-width, width)


x = torch.tensor([0.5, 3.0, -7.0], dtype=torch.float64, requires_grad=True)
print("DeadZone:", gradcheck(DeadZone.apply, (x, 1.0)))

# %% tags=["raises-exception"]
gradcheck(OneSided.apply, (x, 1.0))

# %% [markdown]
# `analytical` is what `backward` returned, and `numerical` is what `forward` does. `gradcheck`
# prints $J$ transposed, so each row belongs to an input element. The matrices disagree in the third
# row, which belongs to the input -7. This input is to the left of the dead zone. Now leave it out
# and check the same buggy Function again.

# %%
few = torch.tensor([0.5, 3.0], dtype=torch.float64, requires_grad=True)
print("OneSided, without the input -7:", gradcheck(OneSided.apply, (few, 1.0)))

# %% [markdown]
# `gradcheck` tests the inputs that you pass and no others. Pass a few elements, with one on each
# side of each kink. Pass float64 inputs: float32 rounds too coarsely for finite differences, and
# `gradcheck` then rejects correct code. Stay away from the kinks themselves, because a finite
# difference across a kink mixes the slopes of both sides.
#
# Check each Function before you write the next one. A check of a whole network tells you only that
# something is wrong, not where.
#
# ### The gradient at a kink
#
# *Extra: the rule that PyTorch documents, and an operation that does not follow it.*
#
# [The rule](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions)
# has two parts:
#
# - If the function is convex or concave around the kink, look at all slopes between the left slope
#   and the right slope, and take the one closest to 0. For a convex function, this is called the
#   *subgradient of minimum norm*, and for a concave one the *supergradient of minimum norm*.
# - Otherwise, take the limit of the gradients nearby, which may be infinite.

# %%
at = torch.tensor(0.0, requires_grad=True)
print("relu at 0,       slopes 0 and 1:   ", grad(torch.relu(at), at)[0])
print("leaky_relu at 0, slopes 0.01 and 1:", grad(leaky_relu(at), at)[0])
at = torch.tensor(6.0, requires_grad=True)
print("relu6 at 6,      slopes 1 and 0:   ", grad(relu6(at), at)[0])

# %% [markdown]
# Not every operation follows the rule. In PyTorch 2.13, `torch.clamp` has the gradient 1 at both of
# its bounds.

# %% [markdown]
# ## How gradcheck works
#
# *Extra: how `gradcheck` works, why it needs float64, what it costs, and its parameters.*
#
# You can write it yourself. For each input element, take a *central difference*: move the element
# by $\pm h$ and see how all outputs change. This gives one column of the Jacobian, with an error of
# order $h^2$. For each output element, call `backward` with a *one-hot* $g$, which is 1 at this
# element and 0 elsewhere. This gives one row. Then compare the two matrices.


# %%
def numerical_jacobian(f, x, h=1e-6):
    columns = []
    for j in range(len(x)):
        nudge = torch.zeros_like(x)
        nudge[j] = h
        columns.append((f(x + nudge) - f(x - nudge)) / (2 * h))
    return torch.stack(columns, dim=1).detach()


def analytical_jacobian(f, x):
    y = f(x)
    rows = []
    for one_hot in torch.eye(len(y), dtype=y.dtype):
        rows.append(grad(y, x, one_hot, retain_graph=True)[0])
    return torch.stack(rows)


def one_sided(x):
    return OneSided.apply(x, 1.0)


print("numerical  diagonal:", numerical_jacobian(one_sided, x).diagonal().numpy().round(4))
print("analytical diagonal:", analytical_jacobian(one_sided, x).diagonal().numpy().round(4))

# %% [markdown]
# ### Why float64
#
# Does a smaller step always give a better derivative? Take $\sin$ at 1, whose derivative we know,
# and let the step shrink.

# %% jupyter={"source_hidden": true}
steps = [10 ** (-k / 4) for k in range(2, 49)]


def error_of(h, dtype):
    x = torch.tensor(1.0, dtype=dtype)
    h = torch.tensor(h, dtype=dtype)
    slope = (torch.sin(x + h) - torch.sin(x - h)) / (2 * h)
    return abs(slope.item() / math.cos(1.0) - 1)


with figure(width=6.6, height=3.8) as (axes,):
    for dtype, color in ((torch.float32, ORANGE), (torch.float64, BLUE)):
        axes.loglog(steps, [error_of(h, dtype) for h in steps], color=color, marker=".")
    axes.axvline(1e-6, color=GREEN, linestyle=":")
    axes.axhline(1e-3, color=GRAY, linestyle="--", linewidth=1)
    axes.invert_xaxis()
    axes.set(
        title="error of a central difference of sin at 1", xlabel="step h", ylabel="relative error"
    )
    note(axes, "float32", (3e-9, 1.2e-1), ORANGE)
    note(axes, "float64", (3e-9, 1.5e-6), BLUE)
    note(axes, "gradcheck's eps", (0.8e-6, 2e-12), GREEN)
    note(axes, "gradcheck's rtol", (3e-10, 1.7e-3))

# %% [markdown]
# It does not. As $h$ gets smaller, the error first falls as $h^2$. Then rounding takes over. Two
# values of $\sin$ agree in almost all of their digits, and the difference keeps only the rest. At
# the step $10^{-6}$ that `gradcheck` uses, a float64 difference has ten good digits, whereas a
# float32 difference has about two. So pass float64 inputs. With float32 inputs, `gradcheck`
# warns you, and its default tolerances reject correct code.
#
# ### What it costs
#
# The next cell counts the calls to `forward` and `backward` for one check.


# %%
class CountedSin(Function):
    @staticmethod
    def forward(ctx, x):
        CountedSin.forwards += 1
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad_output):
        CountedSin.backwards += 1
        (x,) = ctx.saved_tensors
        return grad_output * torch.cos(x)


for n in (3, 10, 30):
    for fast in (False, True):
        CountedSin.forwards = CountedSin.backwards = 0
        x = torch.linspace(0, 1, n, dtype=torch.float64, requires_grad=True)
        gradcheck(CountedSin.apply, x, fast_mode=fast)
        mode = "fast" if fast else "full"
        counts = f"{CountedSin.forwards:>3} forwards, {CountedSin.backwards:>3} backwards"
        print(f"{n:>3} elements, {mode}: {counts}")

# %% [markdown]
# `gradcheck` runs two forwards for each input element and two backwards for each output element,
# plus two more of each. So check a *few* elements. A formula that is right for them is very likely
# right for a million, as long as they visit every branch. (`fast_mode` compares one random
# projection of the two matrices, at the same cost for any size.)
#
# ### Its parameters
#
# | parameter (default) | purpose |
# | --- | --- |
# | `eps` (1e-6) | the step $h$; use a larger one for float32-only code, with larger tolerances |
# | `atol`, `rtol` (1e-5, 1e-3) | the allowed difference is `atol` + `rtol` · the numerical value |
# | `raise_exception` (True) | `False`: return `False` instead of raising an error |
# | `nondet_tol` (0) | how much two backwards may differ, for kernels that add in no fixed order |
# | `fast_mode` (False) | compare one random projection instead of the full matrices |
# | `check_undefined_grad` (True) | check that a missing output gradient acts like zeros |
# | `check_forward_ad` (False) | also compare forward mode (`jvp`), which is not called otherwise |
# | `check_backward_ad` (True) | `False`: check forward mode only |
# | `check_batched_grad` (False) | check that the gradient also works under `vmap` |
# | `check_batched_forward_grad` (False) | the same for forward mode |
# | `check_grad_dtypes` (False) | check that the gradient has the input's dtype |
# | `masked` (None) | for sparse inputs: ignore entries that are not stored |

# %% [markdown]
# ## What gradcheck cannot see
#
# The Function below squares its input. Its `backward` clips `grad_output` to keep training stable.

# %%
vote("01", "gradcheck-passed")


# %%
class CalmSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output.clamp(-1, 1)


x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
(g,) = grad((10 * CalmSquare.apply(x)).sum(), x)
print("gradcheck:             ", gradcheck(CalmSquare.apply, x))
print("gradient of sum(10·x²):", g.tolist(), "should be", (20 * x).tolist())

# %% [markdown]
# `gradcheck` returns `True`, so passing it does not prove that `backward` is right. By default, it
# calls `backward` only with zeros, and with a $g$ that is 1 at one element and 0 at all others.
# Clipping does not change these numbers. This `backward` is not linear in $g$, so it is not a
# vector-Jacobian product. With a factor of ten after the square, the gradient is a tenth of what it
# should be.
#
# `gradcheck` also misses a `backward` that changes `grad_output` in place, for example with
# `grad_output.mul_(2)`. Lesson 02 shows which gradients are then wrong.
#
# ### The slope under your hand
#
# *Extra: the same bug in the Function lab.*
#
# On its own, the Function looks right. Choose `CalmSquare` in the menu below, drag `grad_output`
# past 1, and watch how the slope that `backward` claims decreases, although `forward` has not
# changed.


# %%
def ten_times(x):
    return 10 * CalmSquare.apply(x)


function_lab({"10 · CalmSquare": ten_times, "CalmSquare": CalmSquare}, x=1.5)

# %% [markdown]
# ### A wrong shape that passes
#
# *Extra: a gradient of the wrong shape that passes `gradcheck`, because autograd sums it. Lesson 03
# has more on broadcasting.*
#
# This Function adds one offset to every row. Its `backward` forgets to sum over the rows:


# %%
class AddOffset(Function):
    @staticmethod
    def forward(ctx, x, offset):
        return x + offset

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output  # offset is (3,), grad_output is (2, 3)


rows = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
offset = torch.zeros(3, dtype=torch.float64, requires_grad=True)
y = AddOffset.apply(rows, offset)
raw = AddOffset.backward(y.grad_fn, torch.ones_like(y))[1]
y.sum().backward()
print("gradcheck:      ", gradcheck(AddOffset.apply, (rows, offset)))
print("backward returns", tuple(raw.shape), "for an offset of shape", tuple(offset.shape))
print("offset.grad     ", offset.grad.tolist())

# %% [markdown]
# (`ctx` is the node, so we can pass `y.grad_fn` to `backward` and see what it returns.) Autograd
# sums the gradient over the rows, and this is the sum that `backward` forgot. But code that calls
# this `backward` directly gets the wrong shape.

# %% [markdown]
# ## Let the doctor look
#
# `diagnose` takes the class and example inputs, and also asks what `gradcheck` does not ask: is
# `backward` linear in $g$, and are the shapes right before autograd sums them? Its report names a
# rule, an example and usually the line. Here, it examines `CalmSquare`:

# %%
diagnose(CalmSquare, (x,))

# %% [markdown]
# Like `gradcheck`, `diagnose` needs an example that visits every branch.
#
# ## The colleague's Function
#
# ### Checkpoint 2: repair it
#
# Here is the loss behind the wrong wall. With $e = \text{target} - \text{prediction}$, it is
#
# $$\ell_q(e) = \max\bigl(q\,e,\ (q-1)\,e\bigr), \qquad q = 0.9,$$
#
# so a flood above the line costs nine times as much as a flood that is equally far below it. One
# line of `backward` is wrong. What is the slope of the loss with respect to the *prediction* when
# the prediction is too low, and when it is too high? Repair the line and run the cell. `fit` trains
# the wall again, and it should then hold back 90% of the floods.


# %%
class RepairedLoss(Function):
    @staticmethod
    def forward(ctx, prediction, target, q):
        ctx.save_for_backward(prediction, target)
        ctx.q = q
        error = target - prediction
        return torch.maximum(q * error, (q - 1) * error).mean()

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        slope = ctx.q * torch.sign(prediction - target)
        return grad_output * slope / slope.numel(), None, None


line, losses = fit(RepairedLoss.apply)
print(f"the wall holds back {share_held(line):.0%} of the floods")
prediction = torch.linspace(0, 8, 9, requires_grad=True)  # below and above the level

# %% [markdown]
# If you are stuck, run `diagnose(RepairedLoss, (prediction, level[:9], 0.9))` in a new cell.
#
# <details><summary>The repair</summary>
#
# Where the prediction is too low, the slope is $-q$. Where it is too high, the slope is $1 - q$,
# but the colleague wrote $q$. With equally steep slopes on both sides, gradient descent goes to the
# median, which holds back half of the floods.
#
# ```python
# too_high = (prediction > target).to(prediction.dtype)
# slope = too_high - ctx.q
# ```
#
# `torch.where(prediction > target, 1 - ctx.q, -ctx.q)` gives the same numbers, but always in
# float32, whatever the dtype of the prediction. `diagnose` warns about that.
#
# </details>
#
# ### Where the two slopes part
#
# *Extra: the same bug in the Function lab.*
#
# Here is the colleague's loss for one storm, with the river level at 1. To the left of 1, the two
# slopes agree, but to the right, they differ by a factor of nine. Drag `q` to 0.5. There, $q$ and
# $1 - q$ are equal, and the bug disappears. That may be why the author never saw it.

# %%
function_lab(PinballLoss, torch.tensor(1.0), 0.9, x=2.0, ranges={"q": (0, 1)})

# %% [markdown]
# ## A test for your own project
#
# The next cell needs only PyTorch, so you can copy it into the tests of your own project. It is for
# a Function with one output, and the first dimension of `x` is the batch. `check_gradients` runs
# `gradcheck` and then tests what `gradcheck` leaves out.

# %%
import torch
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.testing import assert_close


def check_gradients(f, x, *others):
    inputs = [t.detach().double().requires_grad_() for t in (x, *others)]
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)  # leave this out if you need no second derivatives

    y = f(*inputs)
    g = torch.randn_like(y)
    kept = g.clone()
    expected = grad(y, inputs, g, retain_graph=True)
    assert_close(g, kept, msg="backward changes grad_output")
    doubled = grad(y, inputs, 2 * g)
    assert_close(doubled, tuple(2 * e for e in expected), msg="not linear in grad_output")

    strided = [torch.stack((t, t), -1)[..., 0].detach().requires_grad_() for t in inputs]
    g_strided = torch.stack((g, g), -1)[..., 0]
    found = grad(f(*strided), strided, g_strided)
    assert_close(found, expected, msg="wrong for tensors that are not contiguous")

    single = [t.detach().float().requires_grad_() for t in inputs]
    y = f(*single)
    assert y.dtype == torch.float32, "float32 goes in, and another dtype comes out"
    found = tuple(d.double() for d in grad(y, single, g.float()))
    assert_close(found, expected, rtol=1e-3, atol=1e-4, msg="wrong in float32")

    empty = [inputs[0][:0].detach().requires_grad_(), *inputs[1:]]
    grad(f(*empty).sum(), empty)  # an empty batch must not raise an error


check_gradients(ScaleShift.apply, torch.randn(4, 3), torch.randn(3), torch.randn(3))
print("ScaleShift passes.")

# %% [markdown]
# `CalmSquare` passed `gradcheck`, but it fails here:

# %%
with show_error():
    check_gradients(CalmSquare.apply, torch.tensor([1.0, 2.0, 3.0]))

# %% [markdown]
# ## Do you know it?
#
# Answer twelve questions, and answer one more in your own words. If an answer is wrong, you will
# see why and can try again.

# %%
knowledge_check("01")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# class F(torch.autograd.Function):
#     """The formula first: y = …; ∂L/∂x = …"""
#
#     @staticmethod
#     def forward(ctx, x, number, optional=None):
#         y = ...                                   # any code; nothing is recorded
#         ctx.save_for_backward(x, y)               # tensors: inputs and outputs, in one call
#         ctx.number = number                       # everything else
#         return y
#
#     @staticmethod
#     def backward(ctx, grad_output):               # one gradient for each output
#         x, y = ctx.saved_tensors
#         grad_x = grad_output * ...                # upstream × local: linear in grad_output
#         return grad_x, None, None                 # one for each input; None where there is none
#
# y = F.apply(x, 2.0)                               # never F(x)
# ```
#
# | | |
# | --- | --- |
# | `backward` computes | $g^\top J$, never $J$: upstream × local, summed over every path |
# | write one for | code that autograd cannot see, a gradient by design, stability, memory |
# | do not write one for | a composition of PyTorch operations; look for a built-in first |
# | return | one value for each argument, in order, in the input's shape |
# | save | the output if it determines the derivative, else the input; a mask is a byte an element |
# | several outputs | one `grad_output` each; an unused one arrives as zeros; contributions add up |
# | at a kink | the slope closest to 0, or another convention that you document |
# | test with | `gradcheck`: float64, few elements, each side of each kink, every optional path |
# | and then | `diagnose`: linear in $g$, shapes before autograd sums, the mistake by name |
# | one at a time | check each Function before you write the next |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/01_template.ipynb) continue with Functions to write, a
# wrong line to find and five optional repairs. `grade` tells you at once whether an answer is
# right.
#
# [Lesson 02](02_ctx_rules.ipynb) is about `ctx`: what it keeps alive and for how long, and what
# goes wrong if you store a tensor in the wrong place.
