# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/01_template.ipynb)
#
# # 01 · A Function from end to end
#
# **You will** write custom `torch.autograd.Function`s, see what each line of one is for, and test
# their gradients until you have a reason to believe them.
#
# **You will learn** what `backward` is asked for (a vector-Jacobian product), what `ctx` carries,
# what may be returned, when a Function pays and when it does not, and what `gradcheck` can and
# cannot see.
#
# **You need** the chain rule and one PyTorch training loop that you have written yourself.
#
# **It takes** 35 minutes with the three checkpoints; the sections marked *in depth*, another 25,
# can wait. The exercises come after it.

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

import numpy as np
import torch
from torch.autograd import Function, gradcheck
from torch.nn.functional import gelu, relu6

from autograd_course import diagnose, gradient_flow
from autograd_course.functions import Square
from autograd_course.lesson import BLUE, GRAY, GREEN, ORANGE, figure, note, predict
from autograd_course.visualize import function_lab, knowledge_check, tangent

# %% [markdown]
# ## A wall for nine floods out of ten
#
# Two hundred storms: how much rain fell, how high the river rose. A flood wall is to hold nine
# floods out of ten, so the line we want runs not through the middle of the points but above
# ninety percent of them. The loss whose minimum is that line is the *pinball loss*. With $e =
# \text{target} - \text{prediction}$,
#
# $$\ell_q(e) = \max\bigl(q\,e,\ (q-1)\,e\bigr), \qquad q = 0.9,$$
#
# so a flood above the line costs nine times what one equally far below it costs.
#
# A colleague has written it as a custom Function: `forward` computes the loss, `backward` its
# gradient. PyTorch will call the one and then the other, and believe both.


# %%
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


# %% [markdown]
# The training loop is the ordinary one: a line with two parameters, 300 steps of gradient
# descent.

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = torch.Generator().manual_seed(0)
rain = torch.rand(200, generator=rng)
level = 1 + 2 * rain + (0.3 + 1.2 * rain) * torch.empty(200).exponential_(generator=rng)
rain, level = rain.to(device), level.to(device)


def fit(loss_function, steps=300):
    line = torch.zeros(2, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([line], lr=0.1)
    losses = []
    for _ in range(steps):
        loss = loss_function(line[0] + line[1] * rain, level, 0.9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return line.detach(), losses


custom_line, custom_losses = fit(PinballLoss.apply)
print("loss after   1 step: ", f"{custom_losses[0]:.2f}")
print("loss after 100 steps:", f"{custom_losses[99]:.2f}")
print("loss after 300 steps:", f"{custom_losses[-1]:.2f}")

# %% [markdown]
# The loss falls to less than a fifth and flattens out. No exception, no warning, no `nan`. If this
# were your run, you would write the line into the report.
#
# Now the same `forward`, line for line, but differentiated by autograd instead of by hand.


# %%
def pinball_loss(prediction, target, q):
    error = target - prediction
    return torch.maximum(q * error, (q - 1) * error).mean()


true_line, true_losses = fit(pinball_loss)


def share_held(line):
    return (level < line[0] + line[1] * rain).float().mean().item()


print(
    f"the wall fitted with the hand-written backward holds {share_held(custom_line):.0%} of floods"
)
print(f"the wall fitted with autograd's own backward holds   {share_held(true_line):.0%} of floods")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, built):
    watched.plot(custom_losses, color=ORANGE)
    watched.set(
        title="what the author watched", xlabel="step", ylabel="pinball loss", ylim=(0, 2.8)
    )
    note(watched, "falls, flattens, looks done", (110, 0.72), ORANGE)

    over = (level > custom_line[0] + custom_line[1] * rain).cpu()
    for held, marker, color in ((~over, "o", GRAY), (over, "x", ORANGE)):
        built.scatter(rain.cpu()[held], level.cpu()[held], s=14, marker=marker, color=color, lw=0.9)
    ends = torch.tensor([0.0, 1.0])
    for line, color, dash in ((true_line.cpu(), BLUE, "-"), (custom_line.cpu(), ORANGE, "--")):
        built.plot(ends, line[0] + line[1] * ends, color=color, linestyle=dash)
    note(built, f"asked for: holds {share_held(true_line):.0%}", (0.02, 4.9), BLUE)
    note(built, f"built: {1 - share_held(custom_line):.0%} come over it (×)", (0.4, 0.5), ORANGE)
    built.set(title="what was built", xlabel="rain", ylabel="river level", ylim=(0, 10))

# %% [markdown]
# About every second flood comes over the wall. The two runs differ in `backward` alone. The
# colleague's gives the slope $q$ to both sides of the line, where the side below should have had
# $1 - q$. With equal weights above and below, the descent goes to the median; and the loss, which
# is computed rightly, falls all the same, because the median lies on the way.
#
# PyTorch never compares a `backward` with its `forward`: its autograd engine calls what you wrote
# and hands the result on. The comparing is your work, and what this lesson is about. The
# colleague's Function will be back.

# %% [markdown]
# ## The whole thing, working
#
# Here is a complete and correct Function; the rest of the lesson explains it. PyTorch has no cube
# root (`x ** (1 / 3)` is `nan` for negative `x`), NumPy has one. But autograd records PyTorch
# operations only, and what happens in NumPy leaves no trace in the graph. A Function fills the
# gap: we compute the value however we like, and say ourselves how a gradient goes back through
# it.
#
# With $y = \sqrt[3]{x}$ the derivative is $\tfrac{1}{3} x^{-2/3} = \tfrac{1}{3 y^2}$, and infinite
# at 0.


# %%
class CubeRoot(Function):
    """y = ∛x, computed by NumPy; ∂L/∂x = ∂L/∂y / (3 y²)."""

    @staticmethod
    def forward(ctx, x):
        y = torch.as_tensor(np.cbrt(x.numpy(force=True)), device=x.device)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output / (3 * y**2)


x = torch.tensor([-8.0, 1.0, 27.0], dtype=torch.float64, requires_grad=True)
y = CubeRoot.apply(x)
y.sum().backward()
print("y      =", y.detach().numpy().round(4).tolist())
print("x.grad =", x.grad.numpy().round(4).tolist())
print("gradcheck:", gradcheck(CubeRoot.apply, x))

# %% [markdown]
# `forward` takes the inputs and returns the output; grad mode is off inside it, as under
# `torch.no_grad()`, so nothing in there is recorded. `backward` takes the gradient of the loss
# with respect to the *output*, called `grad_output`, and returns the gradient with respect to the
# *input*. `ctx` carries what the one leaves for the other. You call `CubeRoot.apply`, never
# `forward`. And `gradcheck` compares `backward` with finite differences of `forward`: the
# comparison that the engine does not make.
#
# Watch it run. The marked line is the one that runs, beside each stands what it left behind; the
# arrow keys go from line to line, first through `forward`, then through `backward`. Drag the point:
# the broad line has the slope that `backward` returned, the dashed one that of `forward` itself.

# %%
function_lab(CubeRoot, x=1.0)

# %% [markdown]
# ## What backward is asked for
#
# A loss $L$ is one number. When the reverse pass arrives at our node $y = f(x)$, everything
# between $y$ and the loss has been summed up in $g = \partial L / \partial y$, one number for
# every element of $y$. What is wanted is $\partial L / \partial x$, one number for every element
# of $x$. The chain rule connects the two through the Jacobian of $f$:
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i \, \frac{\partial y_i}{\partial x_j}
# \qquad\text{that is}\qquad \frac{\partial L}{\partial x} = g^\top J .$$
#
# `backward` computes this product, the *vector-Jacobian product* (VJP): upstream gradient times
# local derivative, summed over every output that the input reaches. As a product with a matrix it
# is linear in $g$: twice in gives twice out. Where $f$ works element by element, $J$ is diagonal
# and the sum has a single term, $g_i \, f'(x_i)$.
#
# **Common belief: "`backward` returns the derivative."** Let us write it so, and test it the way
# people do, on a `.sum()`.


# %%
class DerivativeOnly(CubeRoot):
    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return 1 / (3 * y**2)


def gradient_at_8(f, factor):
    """The gradient of sum(factor · f(x)) at x = 8, where the cube root's own derivative is 1/12."""
    x = torch.tensor([8.0], requires_grad=True)
    return torch.autograd.grad((factor * f(x)).sum(), x)[0].item()


for function in (CubeRoot, DerivativeOnly):
    plain, weighted = (gradient_at_8(function.apply, factor) for factor in (1, 100))
    print(f"{function.__name__:15} of sum(y): {plain:.4f}   of sum(100·y): {weighted:.4f}")

# %% [markdown]
# Behind a plain `.sum()` every $g_i$ is 1, and the mistake is invisible. Multiply the loss by a
# hundred and the wrong Function does not notice. A test that ends in `.sum()` tests the one
# upstream gradient for which forgetting it does not matter.

# %% [markdown]
# ### Why no Jacobian is ever built
#
# *In depth: the size of what `backward` spares you, and a test that it is linear in $g$. Skip it
# on a first reading; `diagnose` makes that test for you.*
#
# For four elements we can afford to build $J$ and do the product the long way:

# %%
x = torch.tensor([1.0, 8.0, 27.0, 64.0], dtype=torch.float64, requires_grad=True)
g = torch.tensor([1.0, -2.0, 0.0, 3.0], dtype=torch.float64)

J = torch.autograd.functional.jacobian(CubeRoot.apply, x)
(vjp,) = torch.autograd.grad(CubeRoot.apply(x), x, grad_outputs=g)
print("J has", J.numel(), "entries,", int((J != 0).sum()), "of them not zero")
print("gᵀJ equals what backward returned:", torch.allclose(g @ J, vjp))

for n in (4, 1_000, 1_000_000):
    print(f"{n:>9,} elements: {n * 8:>9,} bytes of gradient, {n * n * 8:>17,} bytes of J")

# %% [markdown]
# A million elements is one layer's activation, and its Jacobian takes eight terabytes, nearly all
# of them zeros. The VJP takes as much as $x$ itself. That is the bargain of reverse mode: never
# $J$, only $g^\top J$, and `backward` is your formula for it.
#
# One property follows at once, and we shall test for it later: **`backward` is linear in `g`.** A
# matrix product cannot do otherwise. No gradient in gives no gradient out, twice in gives twice
# out, and the answer to a sum is the sum of the answers.


# %%
def backward(g):
    return torch.autograd.grad(CubeRoot.apply(x), x, grad_outputs=g)[0]


h = torch.tensor([0.5, 0.5, -1.0, 2.0], dtype=torch.float64)
print("nothing in, nothing out:", torch.equal(backward(0 * g), torch.zeros_like(x)))
print("twice in, twice out:    ", torch.allclose(backward(2 * g), 2 * backward(g)))
print("a sum in, a sum out:    ", torch.allclose(backward(g + h), backward(g) + backward(h)))

# %% [markdown]
# ### Checkpoint 1
#
# At $x = 1$ the cube root is 1 and its derivative 1/3. The loss below is $6y + y^2$. What is
# `x.grad`? Work out the upstream gradient first, put your number in place of `...`, run the cell.

# %%
x = torch.tensor(1.0, requires_grad=True)
y = CubeRoot.apply(x)
(6 * y + y**2).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# $\partial L/\partial y = 6 + 2y = 8$ arrives as `grad_output`; backward multiplies it by the
# local derivative 1/3, which makes 8/3.
#
# </details>

# %% [markdown]
# ## See it flow
#
# The same bookkeeping on a graph of several nodes. Below, $x = 2$ goes through a square, $y = 3$
# through a ReLU, the two are added, and the sum is the loss. Square and ReLU are Functions of the
# kind above; the picture is drawn from the graph that PyTorch built, with values and gradients
# caught by hooks as they pass.


# %%
class ReLU(Function):
    """y = max(x, 0); the gradient passes where x > 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (positive,) = ctx.saved_tensors
        return grad_output * positive


def loss(x, y):
    return Square.apply(x) + ReLU.apply(y)


gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))

# %% [markdown]
# The picture opens at its end, with all values and gradients in place. Click on it and press → to
# start from the beginning. The values arrive at the loss; then the gradient 1 starts there and runs
# back, and each edge shows the local factor by which it is multiplied. In a network of any size,
# `loss.backward()` is this, over and over. Enter opens the node that has the focus and shows what
# its Function saved.
#
# ### Two things to try
#
# *In depth: experiments with the picture, for when there is time.*
#
# Drag $y$ below zero: which factor becomes zero, and what no longer arrives?
# Then send one input into both branches, with `gradient_flow(lambda x: loss(x, x),
# torch.tensor(2.0))` as the last line of the cell, and see two gradients meet and *add*: an input
# that is used twice collects from both uses.

# %% [markdown]
# ## When to write one
#
# | reason | for instance |
# | --- | --- |
# | autograd cannot see the forward | NumPy, a C++ or CUDA kernel, a simulator |
# | the gradient is meant to differ | straight-through estimators, clipped or reversed gradients |
# | a better formula than the recorded one | stable where the composition gives `nan`, or cheaper |
# | less memory | save a mask or the output, recompute the rest |
# | the forward is an algorithm | a solver: by the implicit function theorem, one linear solve |
#
# And when not: whenever the forward composes PyTorch operations and none of these applies. Then
# autograd chains derivatives that others have tested for years, and yours can at best equal the
# result.
#
# ### Is it leaner?
#
# *In depth: a count of operations and bytes, for three Functions that one meets in tutorials. It
# can wait until lesson 07, which is about memory.*
#
# **Common belief: "a hand-written backward is leaner than autograd's."** We can count. A dispatch
# mode sees every operation that autograd sends on for execution; saved-tensor hooks see every
# tensor that autograd keeps for backward. The counts are the same on every machine, which timings
# are not. How the next cell counts is not the point; the table further down is.

# %%
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode


class CountOperations(TorchDispatchMode):
    total = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.total += operation is not torch.ops.aten.detach.default  # bookkeeping, no arithmetic
        return operation(*args, **(kwargs or {}))


def price(f, *inputs):
    """Operations in forward and in backward, and megabytes kept in between."""
    kept = {}

    def pack(tensor):
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with CountOperations() as forward, saved_tensors_hooks(pack, lambda tensor: tensor):
        y = f(*inputs)
    g = torch.ones_like(y)
    with CountOperations() as backward:
        torch.autograd.grad(y, inputs, g)
    return forward.total, backward.total, sum(kept.values()) / 1e6


# %% [markdown]
# Three candidates that one meets in tutorials: an addition, a ReLU (the one above) and a GELU,
# $x\,\Phi(x)$, whose derivative is $\Phi(x)+x\,\varphi(x)$, with $\Phi$ the normal distribution
# function and $\varphi$ its density.


# %%
class MyAdd(Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output


class MyGELU(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return composed_gelu(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        Phi = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        phi = torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        return grad_output * (Phi + x * phi)


def composed_gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


# %%
a = torch.ones(1000, 1000, requires_grad=True)
b = torch.ones(1000, 1000, requires_grad=True)
candidates = {
    "a + b": (torch.add, a, b),
    "MyAdd": (MyAdd.apply, a, b),
    "torch.relu": (torch.relu, a),
    "ReLU by hand": (ReLU.apply, a),
    "gelu, built in": (gelu, a),
    "MyGELU": (MyGELU.apply, a),
    "GELU composed": (composed_gelu, a),
}
print(f"{'':15}{'ops forward':>12}{'ops backward':>14}{'MB kept':>9}")
for name, (f, *inputs) in candidates.items():
    forward, backward, megabytes = price(f, *inputs)
    print(f"{name:15}{forward:>12}{backward:>14}{megabytes:>9.0f}")

# %% [markdown]
# `MyAdd` buys nothing: what autograd does for an addition is already nothing. `MyGELU` makes
# sixteen passes over memory, forward and back, where the built-in `gelu` makes two, and keeps as
# much.
#
# Read the other lines too, for they tell the other side. Against the *composed* GELU the
# hand-written one keeps a third of the memory. Our ReLU keeps a boolean mask, a quarter of what
# `torch.relu` keeps (a byte an element; not, as is often said, a bit), and pays with more
# operations. Memory can be a reason. But look for a built-in first, and count before you believe.

# %% [markdown]
# ## Anatomy
#
# ### The class is never instantiated
#
# *In depth: what you get without `.apply`. Come back when `diagnose` says `missing-staticmethod`
# or `backward-never-called`.*
#
# `forward` and `backward` are static methods, because there is no `self`: one class serves every
# call, and each call gets a `ctx` of its own. `.apply` makes that `ctx`, runs `forward` with it
# and hooks the node into the graph.
#
# **Common belief: "forgetting `.apply` raises an error."** It gives a `DeprecationWarning`, which
# Python shows for code of the main program and hides for code of imported modules; and then it
# returns something.

# %%
x = torch.tensor([8.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = CubeRoot(x)

print("warning:      ", str(caught[0].message).split("> ")[1].split(".")[0])
print("a CubeRoot?   ", isinstance(result, CubeRoot))
print("a tensor?     ", isinstance(result, torch.Tensor))

# %% [markdown]
# No `forward` has run. The crash comes later, in some other line that wanted a tensor.
#
# ### ctx is the node
#
# *In depth: how to look at a `ctx` from outside. Lesson 02 comes back to it.*
#
# What `forward` receives as `ctx` is the very object that ends up in the graph as `y.grad_fn`. So
# you can look at it from outside, which is the quickest way to see what a Function keeps.

# %%
x = torch.tensor([8.0, 27.0], requires_grad=True)
y = CubeRoot.apply(x)
print("node: ", y.grad_fn.name())
print("saved:", [t.detach().numpy().round(4).tolist() for t in y.grad_fn.saved_tensors])
print("next: ", y.grad_fn.next_functions[0][0].name(), "– the leaf x, where gradients are stored")

# %% [markdown]
# ### What goes where on ctx
#
# Tensors go through `ctx.save_for_backward(...)`, in one call, and come back as
# `ctx.saved_tensors`. Saved so, they are freed by the backward pass (unless `retain_graph=True`),
# and an in-place change made in between is noticed. Everything else (numbers, shapes, flags)
# becomes an attribute, `ctx.dim = dim`. What goes wrong otherwise is the subject of lesson 02.
#
# ### What backward returns
#
# One value for each argument that `forward` received (`ctx` aside), in the same order: a gradient
# of exactly the input's shape, or `None` for what has no gradient.
#
# #### Every mistake at once
#
# *In depth: what the engine refuses, and what it lets pass. Exercise 11 and the rules
# `wrong-arity` and `gradient-shape` send you here.*
#
# `attempt` makes a Function of two inputs, $y = \text{factor} \cdot x$, whose backward returns what
# we pass.


# %%
def attempt(*gradients):
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            return factor * x

        @staticmethod
        def backward(ctx, grad_output):
            return gradients

    x = torch.ones(3, requires_grad=True)
    try:
        Scale.apply(x, 2.0).sum().backward()
    except RuntimeError as error:
        return str(error).split("Backward ")[1]
    return f"accepted, x.grad is {None if x.grad is None else x.grad.tolist()}"


g = torch.full((3,), 2.0)
print("g, None            ", attempt(g, None))
print("g                  ", attempt(g))
print("g, None, None      ", attempt(g, None, None))
print("g, None, g         ", attempt(g, None, g))
print("g of shape 2, None ", attempt(g[:2], None))
print("g of 2 rows, None  ", attempt(g.expand(2, 3), None))
print("None, None         ", attempt(None, None))

# %% [markdown]
# Three of these deserve a second look.
#
# **Common belief: "one value too many is an error."** Not if it is `None`: trailing `None`s are
# dropped. (So an optional argument that was left out needs no special case in `return`.)
#
# **Common belief: "a wrong shape is an error."** Only if it cannot be summed down to the input's
# shape. Two rows came back for an input that has one; the engine added them up, in silence, and
# `x.grad` is twice too big.
#
# And `None` for an input that does need a gradient is no error either. It says: this input has no
# influence. The parameter behind it will never move.

# %% [markdown]
# ## A template with an optional argument
#
# *In depth: a Function to copy from when an argument may be left out, as in exercise 5.*
#
# Here is a Function to copy from. It scales and shifts each channel, $y = s \odot x + b$ along
# the last axis, and the shift $b$ may be left out. Since $s$ and $b$ are used in every row, their
# gradients are *sums* over the rows: an input that fans out in the forward collects in the
# backward.
#
# `ctx.needs_input_grad` says for each argument whether anybody wants its gradient. Skipping the
# work where nobody does saves time and changes no result; a superfluous gradient is thrown away.
# Beware of one thing: it has an entry for every argument that was *passed*, and a default that
# was left out was not passed.


# %%
class ScaleShift(Function):
    """y = scale·x + shift along the last axis; x is (..., C), scale and shift are (C,)."""

    @staticmethod
    def forward(ctx, x, scale, shift=None):
        ctx.save_for_backward(x, scale)
        ctx.has_shift = shift is not None
        y = x * scale
        return y + shift if ctx.has_shift else y

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        grad_x = grad_scale = grad_shift = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output * scale
        if ctx.needs_input_grad[1]:
            grad_scale = (grad_output * x).reshape(-1, len(scale)).sum(0)
        if ctx.has_shift and ctx.needs_input_grad[2]:
            grad_shift = grad_output.reshape(-1, len(scale)).sum(0)
        return grad_x, grad_scale, grad_shift


# %%
torch.manual_seed(0)
x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
scale, shift = torch.randn(2, 3, dtype=torch.float64).unbind()
scale.requires_grad_()
shift.requires_grad_()
print("with a shift:    ", gradcheck(ScaleShift.apply, (x, scale, shift)))
print("shift is None:   ", gradcheck(ScaleShift.apply, (x, scale, None)))
print("shift left out:  ", gradcheck(ScaleShift.apply, (x, scale)))
print("scale is frozen: ", gradcheck(ScaleShift.apply, (x, scale.detach(), shift)))

# %% [markdown]
# Four ways to call it, four checks. An optional argument doubles the ways in which a Function can
# be called, and a branch that no check enters is a branch that nobody has tested.

# %% [markdown]
# ## Save the output instead of the input
#
# Some derivatives are functions of the *result*. For $y = a\,\sigma(x)$,
#
# $$\frac{\partial y}{\partial x} = a\,\sigma(x)\,\bigl(1 - \sigma(x)\bigr)
# = y\,\Bigl(1 - \frac{y}{a}\Bigr),$$
#
# so $x$ is not needed again. (`CubeRoot` did it already.) Why prefer the output, when it has the
# same size? Because it rarely costs anything: the next layer keeps it anyway, as its input. Not
# every function allows this: the output must determine the derivative. $x^2$ has lost the sign of
# $x$, and there the input has to be saved.


# %%
class GainSigmoid(Function):
    """y = a·σ(x), where a is a number; ∂L/∂x = y (1 - y/a) ∂L/∂y."""

    @staticmethod
    def forward(ctx, x, gain):
        y = gain * torch.sigmoid(x)
        ctx.save_for_backward(y)
        ctx.gain = gain
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y * (1 - y / ctx.gain), None


# %% [markdown]
# ### What it keeps
#
# *In depth: the bytes, counted as in "Is it leaner?" above.*

# %%
x = torch.ones(1000, 1000, requires_grad=True)
weight = torch.ones(1000, 1000, requires_grad=True)
_, _, composed = price(lambda x, w: (3.0 * torch.sigmoid(x)) @ w, x, weight)
_, _, by_hand = price(lambda x, w: GainSigmoid.apply(x, 3.0) @ w, x, weight)
print(f"composed sigmoid and matrix product keep {composed:.0f} MB")
print(f"GainSigmoid      and matrix product keep {by_hand:.0f} MB")

# %% [markdown]
# The matrix product keeps its two inputs, 8 MB, and the saved output is one of them: the sigmoid
# keeps nothing of its own.

# %% [markdown]
# ## Several inputs, several outputs
#
# Several inputs you have seen: one return value each. Several *outputs* mirror them: `forward`
# returns a tuple, and `backward` receives one gradient for each. An input collects from every
# output that it reaches: $\partial L/\partial x = \sum_k g_k^\top J_k$.
#
# Sine and cosine of one angle make a good pair, since each is the other's derivative up to a
# sign:


# %%
class SinCos(Function):
    """s = sin x, c = cos x; ∂L/∂x = c·∂L/∂s - s·∂L/∂c."""

    @staticmethod
    def forward(ctx, x):
        s, c = torch.sin(x), torch.cos(x)
        ctx.save_for_backward(s, c)
        return s, c

    @staticmethod
    def backward(ctx, grad_s, grad_c):
        s, c = ctx.saved_tensors
        return c * grad_s - s * grad_c


class Watched(SinCos):
    @staticmethod
    def backward(ctx, grad_s, grad_c):
        print("backward got", grad_s.tolist(), "and", grad_c.tolist())
        return SinCos.backward(ctx, grad_s, grad_c)


x = torch.tensor([0.0, 1.0], requires_grad=True)
s, c = Watched.apply(x)
s.sum().backward()
print("gradcheck:", gradcheck(SinCos.apply, x.detach().double().requires_grad_()))

# %% [markdown]
# The cosine was not used, and its gradient arrived as zeros: the engine fills in what is missing,
# and the formula above needs no `if`. (Lesson 02 shows how to ask for `None` instead.)
#
# ### Checkpoint 2
#
# Both outputs used: $L = 3 \sin x + 5 \cos x$ at $x = 0$. What is `x.grad`?

# %%
x = torch.tensor(0.0, requires_grad=True)
s, c = SinCos.apply(x)
(3 * s + 5 * c).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# 3 arrives for the sine and 5 for the cosine, and the two contributions add: $3 \cos 0 - 5 \sin 0
# = 3$.
#
# </details>

# %% [markdown]
# ## From the formula to the proof
#
# Now one Function in the order in which you would really write it. A *clipped ReLU*,
# $y=\min(\max(x,0),c)$, passes gradient where it did not clip:
#
# $$\frac{\partial L}{\partial x} =
# \begin{cases} g & 0 < x < c \\ 0 & \text{otherwise.}\end{cases}$$
#
# First decision: what happens *at* the two kinks, where no derivative exists? Any value between
# the one-sided derivatives is defensible, and PyTorch itself is not of one mind, so say which
# convention you follow.

# %%
kinks = torch.tensor([0.0, 6.0], requires_grad=True)
for name, f in (("relu6", relu6), ("clamp(0, 6)", lambda x: x.clamp(0, 6))):
    (g,) = torch.autograd.grad(f(kinks).sum(), kinks)
    print(f"{name:12} gradient at 0 and at 6: {g.tolist()}")

# %% [markdown]
# We follow `relu6`: no gradient at the kinks. (So does `clamp` from PyTorch 2.14 on: what nobody
# has promised may change.) Second decision: what to save? A mask is enough, a
# byte an element. Third: the ceiling is a number, no tensor, so its gradient is `None`.
#
# Beside the right one stands a twin whose mask forgets the ceiling. Its values are the same.


# %%
class ClippedReLU(Function):
    """y = min(max(x, 0), ceiling); gradient 0 at both kinks, as torch's relu6 has it."""

    @staticmethod
    def forward(ctx, x, ceiling):
        ctx.save_for_backward((x > 0) & (x < ceiling))
        return x.clamp(0, ceiling)

    @staticmethod
    def backward(ctx, grad_output):
        (inside,) = ctx.saved_tensors
        return grad_output * inside, None


class ForgetfulReLU(ClippedReLU):
    @staticmethod
    def forward(ctx, x, ceiling):
        ctx.save_for_backward(x > 0)
        return x.clamp(0, ceiling)


x = torch.tensor([-2.0, 0.5, 3.0, 7.0], dtype=torch.float64, requires_grad=True)
print("ClippedReLU:", gradcheck(ClippedReLU.apply, (x, 6.0)))

# %%
try:
    gradcheck(ForgetfulReLU.apply, (x, 6.0))
except RuntimeError as error:
    print("ForgetfulReLU:", error)

# %% [markdown]
# `analytical` is what `backward` claims, `numerical` what `forward` does. Row $j$ belongs to
# input element $j$, column $i$ to output element $i$ (the Jacobian, transposed). They disagree in
# one place: the fourth input, 7, the one above the ceiling.
#
# Now leave that input out, and see what `gradcheck` says of the same bug.

# %%
below = torch.tensor([-2.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
print("ForgetfulReLU, inputs up to 3:", gradcheck(ForgetfulReLU.apply, (below, 6.0)))

# %% [markdown]
# `gradcheck` tests the inputs that you give it and no others. Give it one on every side of every
# branch. And keep away from the kinks: a difference taken across one sees half of each side.
#
# ### The place, drawn
#
# *In depth: what went wrong at 7, as a picture.*
#
# `tangent` draws the curve of `forward`, its slope by differences, and the slope that `backward`
# claims.

# %%
tangent(ForgetfulReLU, 7.0, 6.0, span=9.0)

# %% [markdown]
# ## How gradcheck works
#
# *In depth: how the comparison is made, why in float64, and what it costs. Skip it on a first
# reading, and give `gradcheck` few elements, in float64.*
#
# It is short enough to write ourselves. Column by column, it nudges one input element by $\pm h$
# and watches all outputs (a *central difference*, whose error shrinks like $h^2$). Row by row, it
# asks `backward` with a `grad_output` that is 1 at one output element and 0 elsewhere (a
# *one-hot* $g$ reads off one row of $J$). Then it compares the two matrices.


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
    one_hots = torch.eye(len(y), dtype=y.dtype)
    return torch.stack([torch.autograd.grad(y, x, g, retain_graph=True)[0] for g in one_hots])


def forgetful(x):
    return ForgetfulReLU.apply(x, 6.0)


print("numerical  diagonal:", numerical_jacobian(forgetful, x).diagonal().numpy().round(4))
print("analytical diagonal:", analytical_jacobian(forgetful, x).diagonal().numpy().round(4))

# %% [markdown]
# ### Why float64
#
# **Common belief: "the smaller the step, the better the derivative."** Take $\sin$ at 1, whose
# derivative we know, and let the step shrink.

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
# From the left the error first falls with $h^2$, as theory says. Then rounding takes over: the
# two values of $\sin$ agree in almost all their digits, and the difference keeps only what is
# left. At `gradcheck`'s step of $10^{-6}$ a float64 difference has ten good digits, a float32
# difference not even three. So `gradcheck` wants float64 inputs. Given float32 it warns, and with
# its default tolerances it fails correct code:

# %%
x32 = torch.tensor([0.5, 3.0, 7.0], requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    passed = gradcheck(ClippedReLU.apply, (x32, 6.0), raise_exception=False)
print("correct Function, float32 input:", passed)
print("warning:", str(caught[0].message).split(". ")[0])

# %% [markdown]
# ### What it costs
#
# A check that is too expensive is not run. So count the calls that `gradcheck` makes, against the
# 300 forwards and 300 backwards of the run that built the wrong wall.


# %%
class Counted(Function):
    @staticmethod
    def forward(ctx, x):
        Counted.forwards += 1
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad_output):
        Counted.backwards += 1
        (x,) = ctx.saved_tensors
        return grad_output * torch.cos(x)


for n in (3, 10, 30):
    for fast in (False, True):
        Counted.forwards = Counted.backwards = 0
        x = torch.linspace(0, 1, n, dtype=torch.float64, requires_grad=True)
        gradcheck(Counted.apply, x, fast_mode=fast)
        mode = "fast" if fast else "full"
        counts = f"{Counted.forwards:>3} forwards, {Counted.backwards:>3} backwards"
        print(f"{n:>3} elements, {mode}: {counts}")

# %% [markdown]
# Two forwards for each input element, two backwards for each output element (the second to see
# whether the answer repeats), and two of each besides. So check on a *few* elements: a formula
# that is right for them will hardly go wrong on a million, as long as they visit every branch.
# (`fast_mode` compares one random projection of the two matrices instead, at the same cost for
# any size.)
#
# And the opening run? One check of three elements would have been enough:

# %%
prediction = torch.tensor([0.5, 2.0, 3.5], dtype=torch.float64, requires_grad=True)
target = torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64)
print(
    "PinballLoss:", gradcheck(PinballLoss.apply, (prediction, target, 0.9), raise_exception=False)
)

# %% [markdown]
# ### Its parameters
#
# | parameter (default) | what it is for |
# | --- | --- |
# | `eps` (1e-6) | the step $h$. Larger for float32-only code, together with larger tolerances |
# | `atol`, `rtol` (1e-5, 1e-3) | passes up to `atol` + `rtol` · the numerical value's magnitude |
# | `raise_exception` (True) | `False`: return `False` instead of raising, as in the cell above |
# | `nondet_tol` (0) | how much two backwards may differ; for kernels that add in no fixed order |
# | `fast_mode` (False) | one random projection in place of the full matrices |
# | `check_undefined_grad` (True) | an output whose gradient never comes must act like zeros |
# | `check_forward_ad` (False) | compare forward mode (`jvp`) as well; it is not called otherwise |
# | `check_backward_ad` (True) | `False` if only forward mode is to be checked |
# | `check_batched_grad` (False) | the gradient must also work under `vmap` |
# | `check_batched_forward_grad` (False) | the same for forward mode |
# | `check_grad_dtypes` (False) | the gradient has the input's dtype; the engine casts anyway |
# | `masked` (None) | for sparse inputs: ignore entries that are not stored |

# %% [markdown]
# ## What gradcheck cannot see
#
# **Common belief: "gradcheck passed, so backward is right."** Two Functions that pass. The first
# squares, and clips the upstream gradient on the way, as if to keep training calm:


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
print("gradcheck:             ", gradcheck(CalmSquare.apply, x))
(g,) = torch.autograd.grad((10 * CalmSquare.apply(x)).sum(), x)
print("gradient of sum(10·x²):", g.tolist(), "– true:", (20 * x).tolist())

# %% [markdown]
# A one-hot $g$ holds nothing but zeros and a one, and on those clipping does nothing. The
# backward is not linear in $g$, so it is the VJP of no function at all; `gradcheck` never asks a
# question that would show it. Behind a factor of ten `grad_output` is 10, and the slope that
# `backward` claims is a tenth of the true one. Alone the Function looks right; choose it, move
# `grad_output` past 1, and see the claimed slope sink, though `forward` never changed.


# %%
def ten_times(x):
    return 10 * CalmSquare.apply(x)


function_lab({"10 · CalmSquare": ten_times, "CalmSquare": CalmSquare, "Square": Square}, x=1.5)

# %% [markdown]
# ### Right by luck
#
# *In depth: a wrong shape that the engine sums, seen from `gradcheck`'s side. Lesson 03 has more
# on broadcasting.*
#
# The second adds one offset to every row, and forgets that an input which was broadcast collects
# from all rows:


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
# (`ctx` is the node, so `y.grad_fn` lets us call `backward` by hand and see what it returns
# before the engine does.) Here the engine's silent summing, seen above, happens to give the right
# number. Right by luck: whoever calls this backward without the engine in between gets the wrong
# shape. Lesson 04 tours the other blind spots. They are the reason for the next section.

# %% [markdown]
# ## Let the doctor look
#
# `diagnose` takes the class and the inputs, and asks the questions that are missing: is backward
# linear in $g$, are the raw shapes right, and if a value is wrong, *how* is it wrong? It answers
# with the name of a rule and, where one element can show it, with that element as an example. The
# forgetful twin first, on the very inputs on which `gradcheck` let it pass: `diagnose` takes them
# for an example, and tries values beyond them too.

# %%
diagnose(ForgetfulReLU, (below, 6.0))

# %% [markdown]
# Then the calm square, which passed `gradcheck`:

# %%
diagnose(CalmSquare, (x,))

# %% [markdown]
# And the loss that built the wall:

# %%
prediction = torch.linspace(0, 3, 6, dtype=torch.float64, requires_grad=True)
target = torch.tensor([1.0, 0.2, 2.0, 1.0, 3.0, 2.2], dtype=torch.float64)
diagnose(PinballLoss, (prediction, target, 0.9))

# %% [markdown]
# ### The slope under your hand
#
# *In depth: the same bug, to drag.*
#
# Here is the loss for one storm with the river at 1. Left of the target the two slopes
# lie on each other, right of it they part. Drag `q` to 0.5: there $q$ and $1 - q$ are equal and the
# bug is gone, which may be how it got past its author.

# %%
function_lab(PinballLoss, torch.tensor(1.0), 0.9, x=2.0, ranges={"q": (0, 1)})

# %% [markdown]
# Right on one side of the line, and on the other nine times too steep. Nine is $q/(1-q)$: there
# is the $1-q$ that the colleague left out.
#
# ### Checkpoint 3
#
# Yours to finish: the reciprocal, $y = 1/x$, with the *output* saved. `backward` returns `None`,
# and `diagnose` says what that amounts to. Replace it by the right gradient and run the cell
# again.


# %%
class Reciprocal(Function):
    @staticmethod
    def forward(ctx, x):
        y = 1 / x
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        return None  # fetch y from ctx, then write the gradient with y and grad_output


diagnose(Reciprocal, (torch.tensor([-2.0, 0.5, 4.0], dtype=torch.float64),))

# %% [markdown]
# <details><summary>Why</summary>
#
# $\partial y/\partial x = -1/x^2 = -y^2$, hence
#
# ```python
# (y,) = ctx.saved_tensors
# return -(y**2) * grad_output
# ```
#
# Leave out the minus, then `grad_output`: `diagnose` has a name for each.
#
# </details>

# %% [markdown]
# ## One Function at a time
#
# *In depth: for the day on which you write several at once. In short: check each before you write
# the next.*
#
# A last habit. Three Functions in a row, one of them wrong; the check of the whole chain says
# that something is. The check of each, at the values that it meets in the chain, says which.

# %%
chain = {
    "gain sigmoid": lambda x: GainSigmoid.apply(x, 9.0),
    "forgetful relu": lambda x: ForgetfulReLU.apply(x, 6.0),
    "cube root": CubeRoot.apply,
}


def whole(x):
    for f in chain.values():
        x = f(x)
    return x


x = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
print(f"{'the whole chain':16}", gradcheck(whole, x, raise_exception=False))
for name, f in chain.items():
    print(f"{name:16}", gradcheck(f, x, raise_exception=False))
    x = f(x).detach().requires_grad_()

# %% [markdown]
# With three, you could have guessed. With thirty, written before the first was checked, you would
# be searching. Write one, check it, then write the next.

# %% [markdown]
# ## Do you know it?
#
# Twelve questions and one to write about. A wrong answer explains itself and gives nothing else
# away; try again. Without a kernel the questions still stand here, and
# `knowledge_check("01").answer("vjp", "b")` answers one of them in words.

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
# | backward computes | $g^\top J$, never $J$; upstream × local, summed over every path |
# | write one for | code that autograd cannot see, a gradient by design, stability, memory |
# | do not for | what composes; look for a built-in, and count |
# | return | one value an argument, in order, exact shapes; a wrong shape may be summed in silence |
# | save | the output if it determines the derivative, else the input; a mask is a byte an element |
# | several outputs | one `grad_output` each; an unused one arrives as zeros; contributions add |
# | at a kink | no derivative exists: state the convention |
# | test with | `gradcheck`: float64, few elements, each side of each branch, every optional path |
# | and then | `diagnose`: linear in $g$, raw shapes, and what is wrong by name |
# | one at a time | check each before you write the next |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/01_template.ipynb): six Functions to write and five
# broken ones to repair, each graded on the spot. If you are stuck, `hint("square")` gives the first
# of three hints.
#
# [Lesson 02](02_ctx_rules.ipynb) opens `ctx`: what it keeps alive and for how long, and what
# happens to those who put their tensors in the wrong place.
