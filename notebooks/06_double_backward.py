# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/06_double_backward.ipynb)
#
# # 06 · Gradients of gradients
#
# **You will** differentiate through `backward`. You train a network on slopes, compute
# Hessian-vector products, and add a gradient penalty. You also see how each of them can go wrong
# without an error.
#
# **You will learn** when autograd records `backward`, which saved tensors a second derivative can
# use, three ways to repair a Function, and why `@once_differentiable` may be silent.
#
# **You need** lessons 01 and 02: vector-Jacobian products, `setup_context`, `gradcheck`.
#
# **It takes** about 60 minutes; the *extra* sections take another 35. There are two
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
from torch.autograd import Function, grad, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable
from torch.autograd.functional import hessian
from torch.nn.functional import softplus

from autograd_course import diagnose, grade, hint  # noqa: F401
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    figure,
    kept_bytes,
    note,
    peak_bytes,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import compare_flows, jacobian_view, knowledge_check

# %% [markdown]
# ## A hill from its slopes
#
# A rover drives six meters over a hill. Its tilt sensor measures the slope every ten centimeters,
# but you want to know the height. So you train a small network $h(x)$ until its *derivative*
# $h'(x)$ agrees with the measured slopes, and $h$ is 0 at the start:
#
# $$L = \frac{1}{N}\sum_i \bigl(h'(x_i) - \text{slope}_i\bigr)^2 + h(0)^2 .$$
#
# This loss contains a gradient, and training differentiates that gradient again. PyTorch calls this
# *double backward*. The same kind of loss is used to train models of molecules on forces, and to
# train networks that solve differential equations.
#
# The network's activation is the softplus. Its derivative is the sigmoid $\sigma(x)$. A colleague
# wrote it as a Function: `forward` computes $\sigma$ and saves it, so `backward` is a single
# multiplication. It passes `gradcheck`.


# %%
class Softplus(Function):
    """y = log(1 + exp x); ∂L/∂x = σ(x)·∂L/∂y."""

    @staticmethod
    def forward(ctx, x):
        sigma = torch.sigmoid(x)
        ctx.save_for_backward(sigma)
        return softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (sigma,) = ctx.saved_tensors
        return grad_output * sigma


x = torch.tensor([-2.0, 0.3, 5.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Softplus.apply, x))

# %% jupyter={"source_hidden": true}
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = torch.Generator().manual_seed(1)
way = torch.linspace(0, 6, 61)[:, None]
height = 0.5 * torch.sin(1.5 * way) + 0.1 * way
measured = 0.75 * torch.cos(1.5 * way) + 0.1 + 0.02 * torch.randn(way.shape, generator=rng)
way, height, measured = way.to(device), height.to(device), measured.to(device)


def fit(activation, steps=400):
    """Train a network on the slopes. Return its heights and the loss of each step."""
    torch.manual_seed(1)
    first, last = torch.nn.Linear(1, 32).to(device), torch.nn.Linear(32, 1).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.02)
    losses = []
    for _ in range(steps):
        x = way.clone().requires_grad_()
        h = last(activation(first(x - 3)))
        (slope,) = grad(h.sum(), x, create_graph=True)
        loss = (slope - measured).square().mean() + h[0].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return h.detach(), losses


def error_in_cm(hill):
    """Return the largest error of the heights in centimeters."""
    return 100 * (hill - height).abs().max().item()


# %% [markdown]
# The hidden cell defines `fit`, which trains the network. Call it with this Function and with
# PyTorch's own softplus:

# %%
custom_hill, custom_losses = fit(Softplus.apply)
true_hill, true_losses = fit(softplus)
print(f"colleague's: loss {custom_losses[-1]:.2f}, error {error_in_cm(custom_hill):.0f} cm")
print(f"PyTorch's:   loss {true_losses[-1]:.2f}, error {error_in_cm(true_hill):.0f} cm")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, built):
    for losses, color in ((custom_losses, ORANGE), (true_losses, BLUE)):
        watched.semilogy(losses, color=color)
    watched.set(title="two runs of the same network", xlabel="step", ylabel="loss")
    note(watched, "the colleague's softplus", (195, 0.12), ORANGE)
    note(watched, "PyTorch's softplus", (205, 0.0075), BLUE)

    places = way.squeeze().cpu()
    built.plot(places, height.cpu(), color=GRAY, linewidth=6, alpha=0.45)
    built.plot(places, true_hill.cpu(), color=BLUE)
    built.plot(places, custom_hill.cpu(), color=ORANGE, linestyle="--")
    note(built, "the hill", (0.75, 0.7), GRAY)
    note(built, "the colleague's", (1.95, 0.62), ORANGE)
    note(built, "PyTorch's", (4.75, 1.12), BLUE)
    built.set(
        title="what each run learned", xlabel="distance [m]", ylabel="height [m]", ylim=(-0.5, 1.3)
    )

# %% [markdown]
# Both activations have the same values and the same first derivative, but the networks learn
# different hills. PyTorch raised no error, and `gradcheck` passed. The difference is in the
# gradient of the gradient, and no check has looked at that.
#
# **Your turn.** Move the call to `torch.sigmoid` from `forward` to `backward`: save `x`, and return
# `grad_output * torch.sigmoid(saved)`. No value changes. Run the cell before and after your change.


# %%
class Edited(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.sigmoid(x))  # change this line
        return softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (saved,) = ctx.saved_tensors
        return grad_output * saved  # and this line


hill, losses = fit(Edited.apply)
print(f"loss {losses[-1]:.2f}, error {error_in_cm(hill):.0f} cm")

# %% [markdown]
# ## The whole thing, working
#
# Here is the repaired Function with a separate `setup_context`. The rest of the lesson uses it.


# %%
class Recomputed(Function):
    """y = log(1 + exp x); ∂L/∂x = σ(x)·∂L/∂y, with σ computed from x."""

    @staticmethod
    def forward(x):
        return softplus(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


hill, losses = fit(Recomputed.apply)
print(f"loss {losses[-1]:.2f}, error {error_in_cm(hill):.0f} cm")

# %% [markdown]
# The number $\sigma(x)$ is the same in both Functions. Why does it matter where you compute it?

# %% [markdown]
# ## When backward is recorded
#
# Autograd can differentiate a gradient if it has recorded the operations that computed it. For a
# custom Function, these are the operations in `backward`. The next cell prints the grad mode from
# inside `backward`. Vote before you run it. Some of the beliefs in this lesson are true.

# %%
vote("06", "recorded-in-backward")


# %%
class PrintsGradMode(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        print("  in backward, grad mode is on:", torch.is_grad_enabled())
        return Recomputed.backward(ctx, grad_output)


x = torch.tensor([-1.0, 2.0], requires_grad=True)
for create_graph in (False, True):
    print(f"create_graph={create_graph}")
    (g,) = grad(PrintsGradMode.apply(x).sum(), x, create_graph=create_graph)
    print("  the gradient has a graph:    ", g.requires_grad)

# %% [markdown]
# In `forward` and `setup_context`, grad mode is always off. In `backward`, it is on only if the
# caller passes `create_graph=True` (or uses `torch.func.grad`, see lesson 11). In that case,
# `backward` is ordinary code: autograd records every operation on a tensor that has a graph, and
# you can differentiate the result again.
#
# So you can differentiate a Function as often as you like, without extra code, if its `backward`
# consists of differentiable operations on tensors that have a graph. Which tensors have one?

# %% [markdown]
# ## Which saved tensors have a graph
#
# The next Function saves three tensors: its input, its output, and an *intermediate*, which is any
# other tensor that `forward` computes. Its `backward` prints the node that computed each of them.

# %%
vote("06", "saved-output")


# %%
def node_name(tensor):
    return tensor.grad_fn.name() if tensor.grad_fn else "no graph"


class PrintsSaved(Function):
    @staticmethod
    def forward(ctx, x):
        sigma = torch.sigmoid(x)
        y = softplus(x)
        ctx.save_for_backward(x, sigma, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, sigma, y = ctx.saved_tensors
        print("input x:       ", node_name(x))
        print("intermediate σ:", node_name(sigma))
        print("output y:      ", node_name(y))
        return grad_output * sigma


x = torch.tensor([-1.0, 2.0], requires_grad=True)
(g,) = grad(PrintsSaved.apply(2 * x).sum(), x, create_graph=True)

# %% [markdown]
# The input comes back with the graph that computed it, here a multiplication. The output comes back
# with a graph that goes through this Function. But autograd records nothing in `forward`, so the
# intermediate is a *constant* in `backward`. Its derivative is zero. This is not an error, because
# autograd cannot know that the constant once depended on $x$.
#
# | saved tensor | in `backward` it is |
# | --- | --- |
# | an input | part of the graph |
# | an output | part of the graph, after this Function |
# | any other tensor from `forward` | a constant |
#
# The output is the *tensor* that `forward` returns. Another tensor with the same values is an
# intermediate, for example a clone, the same formula computed a second time, or the output with a
# kept dimension.

# %% [markdown]
# ## Two paths through a gradient
#
# What is lost? Let $y = f(x)$, and let $g = \partial L/\partial y$ be the upstream
# gradient. `backward` returns $v = g \, f'(x)$. Both factors depend on $x$, so the derivative has
# two terms:
#
# $$\frac{dv}{dx} \;=\; \underbrace{\frac{\partial g}{\partial y}\, f'(x)^2}_{\text{through } g}
# \;+\; \underbrace{g \, f''(x)}_{\text{through } f'(x)} .$$
#
# Autograd takes care of the first path, because `grad_output` has a graph. The second path goes
# through the tensors that `backward` reads from `ctx`, so it depends on your code. If $f'(x)$ is a
# saved intermediate, the second path is cut, but the first one remains. The second derivative is
# not zero but *incomplete*, which is harder to notice. This is what happened on the hill.
#
# Take $L = y^2/2$. Then $g = y$ and $v = y\,\sigma(x)$. Autograd recorded the backward pass, so you
# can look at its graph. The next cell shows the graph of $v$ for both Functions. In the picture,
# $v$ is called `loss`. Step through it with → and ←.


# %%
def gradient_of(f):
    def v(x):
        y = f(x)
        return grad(y, x, grad_outputs=y, create_graph=True)[0]

    return v


flows = {
    "σ saved in forward": gradient_of(Softplus.apply),
    "σ recomputed in backward": gradient_of(Recomputed.apply),
}
compare_flows(flows, torch.tensor(1.0))

# %% [markdown]
# With the recomputed σ, the node `Sigmoid` connects $v$ to $x$ and adds $g f''(x)$ to the
# gradient. With the saved σ, this path does not exist, because $y$ was multiplied by a constant.
#
# ### Exercise 1: cube-twice
#
# Write $y = x^3$ so that its second derivative is also right. Which tensor does `backward` need?
# Save it in `setup_context`. `grade` also differentiates your gradient. If you are stuck, run
# `hint("cube-twice")` in a new cell.


# %%
class Cube(Function):
    @staticmethod
    def forward(x):
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
grade("cube-twice", Cube)

# %% [markdown]
# ## Three repairs
#
# ### Recompute
#
# You have already seen the simplest repair: save inputs or outputs, and recompute the rest in
# `backward`. First check whether the *output* is enough. The next layer usually saves it anyway
# (lesson 01). Here the output $y$ is enough, because $e^{-y} = 1/(1 + e^x)$, and so
# $\sigma(x) = 1 - e^{-y}$. `torch.expm1(t)` computes $e^t - 1$ accurately even for a small $t$.


# %%
class FromOutput(Function):
    """y = log(1 + exp x); ∂L/∂x = (1 - exp(-y))·∂L/∂y."""

    @staticmethod
    def forward(x):
        return softplus(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * -torch.expm1(-y)


print("gradgradcheck:", gradgradcheck(FromOutput.apply, x.double()))

# %% [markdown]
# To differentiate this gradient, autograd goes through `expm1` to $y$, and from $y$ through this
# Function to $x$. So it calls `FromOutput.backward` a second time. This is why one formula is
# enough for every order.
#
# ### Exercise 2: exp-twice
#
# Write $y = e^x$, whose derivative is $y$ itself. Save nothing but the output.


# %%
class Exp(Function):
    @staticmethod
    def forward(x):
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
grade("exp-twice", Exp)

# %% [markdown]
# ### Return the intermediate as an output
#
# *Extra: for readers whose intermediate is too expensive to recompute. Lesson 08 uses this repair.*
#
# Outputs have a graph. So if you do not want to compute an intermediate twice, return it as a
# second *output*. Then `backward` receives a gradient for it and must use this gradient. A plain
# function hides the second output from your users.


# %%
class WithSlope(Function):
    """y = log(1 + exp x), s = σ(x); ∂L/∂x = s·∂L/∂y + s(1 - s)·∂L/∂s."""

    @staticmethod
    def forward(x):
        return softplus(x), torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, s = output
        ctx.save_for_backward(s)

    @staticmethod
    def backward(ctx, grad_y, grad_s):
        (s,) = ctx.saved_tensors
        return s * grad_y + s * (1 - s) * grad_s


def two_outputs(x):
    y, _ = WithSlope.apply(x)
    return y


# %% [markdown]
# The loss does not use $s$, so you may expect `grad_s` to be always zero and leave it out. In the
# first backward pass, it is zero. But `backward` itself uses $s$, so $s$ receives a gradient in the
# second pass.


# %%
class WithoutGradS(WithSlope):
    @staticmethod
    def backward(ctx, grad_y, grad_s):
        (s,) = ctx.saved_tensors
        return s * grad_y


def without_grad_s(x):
    y, _ = WithoutGradS.apply(x)
    return y


def second_derivative(f, at=1.0):
    """Return the second derivative of f(x)²/2."""
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    (first,) = grad(f(x) ** 2 / 2, x, create_graph=True)
    return grad(first, x)[0].item()


print(f"with grad_s:    {second_derivative(two_outputs):.4f}")
print(f"without grad_s: {second_derivative(without_grad_s):.4f}")
print(f"PyTorch's:      {second_derivative(softplus):.4f}")

# %% [markdown]
# ### A second Function for backward
#
# *Extra: you need this section for exercise 9. It is for gradients that come from a kernel or from
# NumPy.*
#
# If a kernel or NumPy computes the gradient, autograd cannot record `backward`. Lesson 01 has the
# answer to code that autograd cannot differentiate: write a Function. `backward` calls this second
# Function, and the `backward` of the second Function is the double backward.
#
# The second Function takes everything that the gradient depends on. Here the gradient is
# $v = g\,\sigma(x)$. If $h$ is the upstream gradient of $v$, then the gradient with respect to $g$
# is $h\,\sigma(x)$, and the gradient with respect to $x$ is $h\,g\,\sigma(x)(1-\sigma(x))$. You can
# also pass the intermediate σ, whose gradient is `None`. Then `backward` recomputes σ only if you
# differentiate twice.


# %%
class SoftplusBackward(Function):
    """v = g·σ(x), with σ given; ∂/∂g = σ(x)·h, ∂/∂x = g·σ(x)(1 - σ(x))·h."""

    @staticmethod
    def forward(g, x, sigma):
        return g * sigma  # you could call a kernel here

    @staticmethod
    def setup_context(ctx, inputs, output):
        g, x, _ = inputs
        ctx.save_for_backward(g, x)

    @staticmethod
    def backward(ctx, h):
        g, x = ctx.saved_tensors
        sigma = torch.sigmoid(x)  # from an input, so the third derivative is right, too
        return h * sigma, h * g * sigma * (1 - sigma), None


class WithSecondFunction(Function):
    @staticmethod
    def forward(ctx, x):
        sigma = torch.sigmoid(x)
        ctx.save_for_backward(x, sigma)
        return softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        x, sigma = ctx.saved_tensors
        return SoftplusBackward.apply(grad_output, x, sigma)


# %% [markdown]
# ### What each costs
#
# *Reference: look here when you choose one of these repairs.*
#
# In all versions, the derivatives of every order are right. The next cell prints the first four
# derivatives at $x = 1$, and the bytes that each version keeps for backward per float32 element.
# The input is the result of another operation, `1 * x`, so it also counts.


# %%
def derivatives(f, count=4):
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    value = f(x)
    found = []
    for _ in range(count):
        (value,) = grad(value, x, create_graph=True)
        found.append(f"{value.item():8.4f}")
    return " ".join(found)


ways = {
    "PyTorch's": softplus,
    "from the input": Recomputed.apply,
    "from the output": FromOutput.apply,
    "two outputs": two_outputs,
    "second Function": WithSecondFunction.apply,
}
for name, f in ways.items():

    def after_a_layer(x, f=f):
        return f(1 * x)

    kept = kept_bytes(after_a_layer, torch.ones(64, requires_grad=True)) // 64
    print(f"{name:16} {derivatives(f)}   {kept} bytes")

# %% [markdown]
# | repair | choose it if |
# | --- | --- |
# | recompute from the output | the output determines the derivative; it is often saved anyway |
# | recompute from the input | the derivative is cheap to recompute; the usual choice |
# | one more output | the intermediate is expensive and has a simple derivative |
# | a second Function | autograd cannot record `backward` |

# %% [markdown]
# ## How to test it
#
# `gradcheck` compares only first derivatives, so it cannot see what `backward` does to its graph.
# The first derivatives of the next four Functions are right. Two of them cut the graph, one with
# `detach()` and one with `.data`.


# %%
class UsingDetach(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x.detach())


class UsingData(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x.data)


x = torch.tensor([-2.0, 0.3, 5.0], dtype=torch.float64, requires_grad=True)
for function in (Softplus, UsingDetach, UsingData, Recomputed):
    first = gradcheck(function.apply, x)
    second = gradgradcheck(function.apply, x, raise_exception=False)
    print(f"{function.__name__:11} gradcheck {first}, gradgradcheck {second}")

# %% [markdown]
# `gradgradcheck` is `gradcheck` for the gradient $v(x, g)$. It takes a random $g$, differentiates
# $v$ with respect to $x$ *and* $g$, and compares the result with finite differences of $v$. If your
# Function supports double backward, put this line into its tests.
#
# `diagnose` also checks second derivatives. It reports a wrong one as a note, because most programs
# differentiate a Function only once. If you pass `double_backward=True`, it reports an error.
#
# ### Checkpoint 1: repair it
#
# Here is $y = \arctan x$, with the derivative $1/(1 + x^2)$. This Function is not twice
# differentiable. Change it so that it supports double backward, and run the cell again. The report
# should then contain no errors.


# %%
class Arctan(Function):
    @staticmethod
    def forward(ctx, x):
        slope = 1 / (1 + x**2)
        ctx.save_for_backward(slope)
        return torch.atan(x)

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return grad_output * slope


x = torch.tensor([-2.0, 0.5, 1.0], dtype=torch.float64)
diagnose(Arctan, (x,), double_backward=True, repair=False)

# %% [markdown]
# <details><summary>The repair</summary>
#
# `slope` is an intermediate. Save the input with `ctx.save_for_backward(x)`, and return
# `grad_output / (1 + x**2)`. The output $y$ also determines the slope, which is $\cos^2 y$. But
# this formula is inaccurate for large $|x|$, where $y$ is close to $\pi/2$: in float32, the slope
# at $10^6$ is off by 6%.
#
# </details>

# %% [markdown]
# ## When once_differentiable is silent
#
# *Extra: for readers whose `backward` cannot be differentiated.*
#
# [PyTorch's note on extending autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
# says that a Function that does not support double backward should decorate its `backward` with
# `@once_differentiable`, so that double backward raises an error. The decorator runs `backward`
# with grad mode off. But PyTorch does not always raise the error.
#
# Here is a cube with the decorator. The next cell computes the gradient $v$ of a loss with
# `create_graph=True`, and then differentiates $x + v^2$. In a training loop, $v^2$ would be a
# gradient penalty, and $x$ would be the rest of the loss.


# %%
class CubeOnce(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


def gradient_of_total(f, loss, how):
    """Return the derivative of x + v² at 1, where v is the gradient of the loss."""
    x = torch.tensor(1.0, requires_grad=True)
    (v,) = grad(loss(f(x)), x, create_graph=True)
    total = x + v**2
    if how == ".backward()":
        total.backward()
        return x.grad.item()
    return grad(total, x)[0].item()


def plain_cube(x):
    return x**3


def linear_loss(y):
    return 2 * y


def square_loss(y):
    return y**2 / 2


# %%
vote("06", "once-raises")

# %%
for loss in (linear_loss, square_loss):
    for how in (".backward()", "autograd.grad"):
        right = gradient_of_total(plain_cube, loss, how)
        print(f"{loss.__name__} with {how}: {right} is right, CubeOnce gives")
        with show_error():
            print(gradient_of_total(CubeOnce.apply, loss, how))

# %% [markdown]
# PyTorch raises an error in one of the four cases. In the other three, it drops $v^2$, so only the
# derivative of $x$ remains, which is 1. The decorator adds a node to the graph, and this node
# raises the error when a gradient arrives. There are two situations in which no gradient arrives:
#
# - If `grad_output` does not require grad, the decorator adds no node. This is the case for every
#   loss that is linear in $y$, such as a plain sum. Then the gradient has no graph, and everything
#   that you compute from it is a constant.
# - `torch.autograd.grad(total, x)` visits only the nodes on a path to $x$. The node is not on such
#   a path, so autograd drops the term.
#
# ### Raise the error yourself
#
# The grad mode in `backward` tells you whether the caller wants a graph. So the Function can raise
# the error itself:


# %%
class CubeRaising(CubeOnce):
    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("CubeRaising does not support double backward")
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


x = torch.tensor(1.0, requires_grad=True)
print("first derivative:", grad(CubeRaising.apply(x), x)[0].item())
with show_error():
    grad(CubeRaising.apply(x), x, create_graph=True)

# %% [markdown]
# This has a price. `torch.func.grad` (lesson 11) always runs `backward` with grad mode on, so it
# cannot even compute the first derivative of this Function. But an error that you do not need is
# better than a wrong gradient that you do not see.
#
# ### A fast path
#
# With the same check, `backward` can have two versions: one that saves memory when the caller wants
# no graph, and one that can be differentiated. In-place arithmetic saves memory, but it overwrites
# a value that the graph of the gradient still needs.


# %%
class InPlace(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x).mul_(grad_output)  # needs one buffer instead of two


class TwoVersions(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            return Recomputed.backward(ctx, grad_output)
        return InPlace.backward(ctx, grad_output)


for function in (InPlace, TwoVersions):
    print(f"{function.__name__}:")
    with show_error():
        print(f"second derivative {second_derivative(function.apply):.4f}")

# %% [markdown]
# ## A jvp does not help
#
# *Extra: for readers who write a `jvp` for forward mode.*
#
# The method `jvp` computes the derivative in *forward mode*. It takes a small change of the input,
# the *tangent* $t$, and returns the change of the output, $J t$. Double backward never calls it, so
# a Function with a `jvp` may still lack a second derivative. `gradcheck` tests the `jvp` only with
# `check_forward_ad=True`.


# %%
class SoftplusWithJvp(Function):
    @staticmethod
    def forward(ctx, x):
        sigma = torch.sigmoid(x)
        ctx.save_for_backward(sigma)
        ctx.save_for_forward(sigma)
        return softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (sigma,) = ctx.saved_tensors
        return grad_output * sigma

    @staticmethod
    def jvp(ctx, tangent):
        (sigma,) = ctx.saved_tensors
        return tangent * sigma


x = torch.tensor([-2.0, 0.3, 5.0], dtype=torch.float64, requires_grad=True)
print("gradcheck with forward mode:", gradcheck(SoftplusWithJvp.apply, x, check_forward_ad=True))
print("gradgradcheck:", gradgradcheck(SoftplusWithJvp.apply, x, raise_exception=False))

# %% [markdown]
# ## The Hessian
#
# For a loss $L(x)$ of $n$ numbers, the second derivatives form an $n \times n$ matrix, the
# *Hessian* $H_{ij} = \partial^2 L / \partial x_i \partial x_j$. It is the Jacobian of the gradient.
# So you can compute it row by row, with one backward pass through the gradient for each row.
#
# Log-sum-exp is a smooth maximum, $y = \log\sum_i e^{x_i}$. Its gradient is the softmax $p$, and
# its Hessian is $\operatorname{diag}(p) - p\,p^\top$. This version computes the softmax in
# `forward` and saves it:


# %%
class LogSumExp(Function):
    @staticmethod
    def forward(ctx, x):
        p = torch.softmax(x, -1)
        ctx.save_for_backward(p)
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return grad_output[..., None] * p


def gradient(x):
    with torch.enable_grad():
        if not x.requires_grad:
            x = x.detach().requires_grad_()
        return grad(LogSumExp.apply(x), x, create_graph=True)[0]


jacobian_view(gradient, torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64))

# %% [markdown]
# The function in the picture is the gradient, so its Jacobian is the Hessian. On the left is the
# true Hessian, computed with finite differences. In the middle is what autograd computes. All of
# its entries are zero, because here `grad_output` is the constant 1, and the path through $p$ is
# cut.
#
# The softmax is $e^{x - y}$, so you can recompute it from the input and the output:


# %%
class SmoothMax(Function):
    """y = log Σ exp x over the last dimension; ∂L/∂x = exp(x - y)·∂L/∂y."""

    @staticmethod
    def forward(x):
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output[..., None] * torch.exp(x - y[..., None])


x = torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64)
p = torch.softmax(x, -1)
print("first row of the Hessian:", hessian(SmoothMax.apply, x)[0].numpy().round(4))
print("first row of the formula:", (p.diag() - p.outer(p))[0].numpy().round(4))

# %% [markdown]
# ### What strict=True catches
#
# *Extra: for readers who call `torch.autograd.functional.hessian`.*
#
# With `strict=True`, `hessian` raises an error if the gradient does not depend on the input. But if
# any other path remains, it accepts the incomplete Hessian:


# %%
def half_square(x):
    return LogSumExp.apply(x) ** 2 / 2


def true_half_square(x):
    return torch.logsumexp(x, -1) ** 2 / 2


print("logsumexp:")
with show_error():
    hessian(LogSumExp.apply, x, strict=True)
print("logsumexp² / 2:")
found = hessian(half_square, x, strict=True).diag()
print("diagonal", found.numpy().round(2))
print("right is", hessian(true_half_square, x).diag().numpy().round(2))

# %% [markdown]
# ## Hessian-vector products
#
# The Hessian of a million parameters has $10^{12}$ entries, which take eight terabytes in float64.
# But you rarely need the matrix. Conjugate gradients, influence functions and the search for the
# largest eigenvalue need only its product with a vector, $Hv$. This product tells you how the
# gradient changes if you move along $v$.
#
# The usual way is *reverse over reverse*. Multiply the gradient by $v$, which gives a single
# number, and differentiate this number: $\nabla_x (\nabla L \cdot v) = H v$. (A backward pass
# computes $v^\top H$, and $H$ is symmetric.) The next cell counts how often `backward` runs.

# %%
vote("06", "product-in-two-passes")


# %%
class CountedSmoothMax(SmoothMax):
    @staticmethod
    def backward(ctx, grad_output):
        CountedSmoothMax.calls += 1
        return SmoothMax.backward(ctx, grad_output)


x = torch.linspace(-1, 1, 100, dtype=torch.float64, requires_grad=True)
v = torch.linspace(0, 5, 100, dtype=torch.float64)

CountedSmoothMax.calls = 0
by_matrix = hessian(CountedSmoothMax.apply, x) @ v
print(f"{CountedSmoothMax.calls:3} calls, first entries of H v:", by_matrix[:3].numpy().round(4))

CountedSmoothMax.calls = 0
(g,) = grad(CountedSmoothMax.apply(x), x, create_graph=True)
(product,) = grad(g @ v, x)
print(f"{CountedSmoothMax.calls:3} calls, first entries of H v:", product[:3].numpy().round(4))

# %% [markdown]
# The matrix takes one call for the gradient and one for each of its 100 rows. The product takes two
# calls, whatever the size.
#
# `grad(g, x, grad_outputs=v)` does the multiplication for you. Two things can go wrong if you have
# several inputs:
#
# - If the gradient does not depend on an input, `grad` raises an error. With
#   `materialize_grads=True` it returns zeros.
# - If one of several gradients is constant, it has no graph, and `grad` raises an error if you pass
#   it as an output. If you add up the products first, the constant gradient does no harm.
#
# ### Checkpoint 2
#
# Let $L = x_0^2 \, x_1$ at $x = (1, 2)$, and $v = (1, 1)$. What is the *first* entry of $Hv$? You
# do not need the matrix. Write down $\nabla L \cdot v$, and differentiate it with respect to $x_0$.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
(g,) = grad(x[0] ** 2 * x[1], x, create_graph=True)
(product,) = grad(g.sum(), x)

predict(..., product[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# $\nabla L = (2 x_0 x_1,\; x_0^2)$, so $\nabla L \cdot v = 2 x_0 x_1 + x_0^2$. Its derivative with
# respect to $x_0$ is $2 x_1 + 2 x_0 = 6$.
#
# </details>

# %% [markdown]
# ### Forward over reverse
#
# *Extra: for readers who want to compute Hessian-vector products in forward mode. Exercise 5 needs
# only reverse over reverse.*
#
# The other way is *forward over reverse*. It pushes $v$ through the computation of the gradient as
# a tangent, and the tangent of the gradient is $Hv$. `torch.func` composes the two modes:

# %%
torch.manual_seed(0)
A = torch.randn(12, 4, dtype=torch.float64)
b = torch.randn(12, dtype=torch.float64)


def energy(x, smooth_max):
    return smooth_max(A @ x + b) + 0.15 * x.square().sum()


def true_logsumexp(z):
    return torch.logsumexp(z, -1)


def true_energy(x):
    return energy(x, true_logsumexp)


x = torch.linspace(-1, 1, 4, dtype=torch.float64)
v = torch.tensor([1.0, 0.0, -2.0, 0.5], dtype=torch.float64)
_, forward = torch.func.jvp(torch.func.grad(true_energy), (x,), (v,))
print("from the matrix:     ", (hessian(true_energy, x) @ v).numpy().round(4))
print("forward over reverse:", forward.numpy().round(4))

# %% [markdown]
# A custom Function in this computation needs a `jvp`. Without it, PyTorch raises an error:


# %%
def custom_energy(x):
    return energy(x, SmoothMax.apply)


with show_error():
    torch.func.jvp(torch.func.grad(custom_energy), (x,), (v,))

# %% [markdown]
# You may have read that forward over reverse takes less memory, because it keeps no graph of the
# gradient. But it keeps a tangent for every tensor. The next cell measures the peak memory of both
# ways for twenty layers. (`peak_bytes` needs a result with a graph, so `run` adds `0 * x`.)


# %%
def deep(x):
    for _ in range(20):
        x = torch.tanh(x @ mix)
    return x.square().sum()


def reverse_over_reverse(x, v):
    x = x.detach().requires_grad_()
    (g,) = grad(deep(x), x, create_graph=True)
    return grad(g, x, grad_outputs=v)[0]


def forward_over_reverse(x, v):
    return torch.func.jvp(torch.func.grad(deep), (x,), (v,))[1]


mix, state = torch.randn(64, 64) / 8, torch.randn(256, 64)
for product in (reverse_over_reverse, forward_over_reverse):

    def run(x, product=product):
        return product(x.detach(), torch.ones_like(x)) + 0 * x

    peak = peak_bytes(run, state, backward=False)
    print(f"{product.__name__}: {peak / 2**20:.1f} MiB")

# %% [markdown]
# So measure before you choose. `torch.compile` may change the result, because it can free tensors
# that it does not need.

# %% [markdown]
# ## A Newton step
#
# *Extra: for readers who want to see what an incomplete Hessian does to an optimizer.*
#
# Gradient descent uses only the gradient. Newton's method also uses the Hessian: it fits a parabola
# and jumps to its minimum, $x \leftarrow x - H^{-1} \nabla L$. Close to the minimum, each step
# doubles the number of correct digits. The next cell minimizes the energy of the last section, with
# `SmoothMax` and with `LogSumExp`, which saves its softmax.


# %%
def newton(smooth_max, steps=7):
    """Return the norm of the gradient before each step."""
    x = torch.zeros(4, dtype=torch.float64)
    norms = []
    for _ in range(steps):
        x.requires_grad_()
        (g,) = grad(energy(x, smooth_max), x, create_graph=True)
        H = torch.stack([grad(g_i, x, retain_graph=True)[0] for g_i in g])
        norms.append(g.norm().item())
        x = (x - torch.linalg.solve(H, g)).detach()
    return norms


repaired, saved = newton(SmoothMax.apply), newton(LogSumExp.apply)
print("softmax recomputed, norm of the gradient:", *(f"{norm:.0e}" for norm in repaired[:5]))
print("softmax saved, norm of the gradient:     ", *(f"{norm:.0e}" for norm in saved[:5]))

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.4) as (axes,):
    axes.semilogy([max(norm, 1e-16) for norm in repaired], color=BLUE, marker="o")
    axes.semilogy(saved, color=ORANGE, marker="o")
    axes.axhline(2e-16, color=GRAY, linestyle="--", linewidth=1)
    axes.set(title="Newton's method", xlabel="step", ylabel="norm of the gradient")
    note(axes, "softmax saved, Hessian incomplete", (2.2, 2e-2), ORANGE)
    note(axes, "softmax recomputed", (3.55, 2e-7), BLUE)
    note(axes, "float64 has no more digits", (0, 6e-16), GRAY)

# %% [markdown]
# With the right Hessian, Newton's method needs five steps to reach the last digit. With the
# incomplete one, it moves away from the minimum. The quadratic term of the energy keeps the wrong
# Hessian invertible, so the solver raises no error. But this Hessian is much too small, so the
# steps are too long.

# %% [markdown]
# ## A gradient penalty
#
# Some networks should not become steep, for example the critic of a Wasserstein GAN. So the
# training adds a *gradient penalty* to the loss: the squared norm of the gradient with respect to
# the *input*. Take the energy $E(x) = \log\sum\exp(Wx + b)$ for each row of a batch, and the
# penalty $\frac1N\sum_i \lVert \nabla_x E(x_i)\rVert^2$. The penalty has an effect only if its
# gradient reaches $W$ and $b$.
#
# The next cell computes this penalty in four ways. One of them uses PyTorch's decorator
# `once_differentiable`, which runs `backward` with grad mode off.

# %%
vote("06", "penalty-arrives")


# %%
class SmoothMaxOnce(SmoothMax):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        return SmoothMax.backward(ctx, grad_output)


def penalty_gradients(function, create_graph=True):
    """Return the penalty, and its gradients with respect to W and b."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 5).double()
    x = torch.randn(64, 2, dtype=torch.float64, requires_grad=True)
    (slope,) = grad(function.apply(layer(x)).sum(), x, create_graph=create_graph)
    penalty = slope.square().sum(1).mean()
    rest = 0 * (layer.weight.sum() + layer.bias.sum())  # stands for the rest of the loss
    (penalty + rest).backward()
    return penalty.item(), layer.weight.grad, layer.bias.grad


ways = {
    "softmax recomputed": penalty_gradients(SmoothMax),
    "softmax saved": penalty_gradients(LogSumExp),
    "once_differentiable": penalty_gradients(SmoothMaxOnce),
    "without create_graph": penalty_gradients(SmoothMax, create_graph=False),
}
_, true_weight, true_bias = ways["softmax recomputed"]
for name, (penalty, weight, bias) in ways.items():
    off_w = (weight - true_weight).norm() / true_weight.norm()
    off_b = (bias - true_bias).norm() / true_bias.norm()
    print(f"{name:20} penalty {penalty:.3f}, error of ∂W {off_w:4.0%}, of ∂b {off_b:4.0%}")

# %% [markdown]
# Without `create_graph`, the penalty is a constant, and its gradient is zero. With a saved softmax
# or the decorator, the path through the softmax is lost. The bias acts only through the softmax, so
# it gets no gradient, and the gradient of $W$ is off by a quarter.
#
# None of the three raises an error.
# [PyTorch's note](https://docs.pytorch.org/docs/stable/notes/extending.html) says that double
# backward raises an error if you use `@once_differentiable`. But the decorator can raise an error
# only if `grad_output` requires grad. After a plain sum, it does not, and the term is silently
# lost. So compare the gradient of each penalty with finite differences.
#
# ### retain_graph does not repair it
#
# *Extra: for readers who have followed PyTorch's suggestion to pass `retain_graph=True`.*
#
# If the loss and the penalty share one graph and you forget `create_graph=True`, PyTorch raises an
# error. The message suggests a fix:

# %%
torch.manual_seed(0)
layer = torch.nn.Linear(2, 5)
x = torch.ones(3, 2, requires_grad=True)
for options in ({}, {"retain_graph": True}, {"create_graph": True}):
    layer.zero_grad()
    total_energy = SmoothMax.apply(layer(x)).sum()
    (slope,) = grad(total_energy, x, **options)
    print(options)
    with show_error(characters=500):
        (0 * total_energy + slope.square().sum()).backward()
        print(f"norm of the gradient of W: {layer.weight.grad.norm():.2f}")

# %% [markdown]
# With `retain_graph=True`, the error is gone, but the penalty has no effect. `retain_graph` keeps
# the graph of the *forward* pass. Only `create_graph` makes a graph of the *backward* pass, and it
# also retains the graph of the forward pass.

# %% [markdown]
# ## Do you know it?
#
# Answer ten questions. If an answer is wrong, you see why and can try again. Three questions are
# about extra sections.

# %%
knowledge_check("06")

# %% [markdown]
# ## Summary
#
# ```python
# class F(torch.autograd.Function):
#     @staticmethod
#     def forward(x):
#         return ...                           # also return an intermediate that backward needs
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         ctx.save_for_backward(*inputs, output)   # inputs and outputs have a graph
#
#     @staticmethod
#     def backward(ctx, grad_output):          # recorded only if create_graph=True
#         x, y = ctx.saved_tensors
#         return grad_output * ...             # differentiable operations on x, y, grad_output
#
# assert gradcheck(F.apply, x) and gradgradcheck(F.apply, x)
# diagnose(F, (x,), double_backward=True)
#
# (g,) = grad(f(x), x, create_graph=True)      # a gradient that can be differentiated
# (Hv,) = grad(g, x, grad_outputs=v)           # the product without H
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | grad mode in `backward` | on only if `create_graph=True` (and under `torch.func.grad`) |
# | has a graph | `grad_output`, saved inputs, saved outputs |
# | is a constant | intermediates of `forward`, `.detach()`, `.data`, NumPy |
# | what is lost | the path through $f'(x)$; the one through $g$ stays: incomplete, not zero |
# | repairs | recompute; one more output, and use its gradient; a second Function |
# | test | `gradgradcheck`; `gradcheck` sees the first derivative only |
# | `@once_differentiable` | often silent; raise an error if `torch.is_grad_enabled()` |
# | `jvp` | forward mode; double backward does not call it |
# | Hessian | one pass per row; $Hv$ takes two passes in all |
# | penalty | `create_graph=True`; `retain_graph=True` only hides the error |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/06_double_backward.ipynb) you write Functions that
# support double backward, a log-sum-exp with the right Hessian, a Hessian-vector product and a
# gradient penalty. You also find and repair wrong second derivatives.
#
# [Lesson 07](07_memory_patterns.ipynb) is about what a Function keeps in memory, and how to keep
# less.
