# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/06_double_backward.ipynb)
#
# # 06 · Gradients of gradients
#
# **You will** differentiate through `backward`: train a net on slopes, compute Hessian-vector
# products, take a Newton step, and see each of them go wrong without an error.
#
# **You will learn** when PyTorch records a `backward`, which saved tensors a second derivative can
# see, three ways to repair a Function that it cannot, and what `@once_differentiable` does not do.
#
# **You need** lesson 01: `ctx`, vector-Jacobian products, `gradcheck`, `diagnose`.
#
# **It takes** about 60 minutes; the *extra* sections take another 30. The exercises come after it.

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

from autograd_course import diagnose
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, peak_bytes, predict
from autograd_course.visualize import compare_flows, jacobian_view, knowledge_check

# %% [markdown]
# ## A hill from its slopes
#
# A rover crosses six meters of a hill. Its tilt sensor writes down the slope every ten
# centimeters; what we want is the height. So let a small net $h(x)$ be the height, and train it
# until its *derivative* $h'(x)$ agrees with the measured slopes (and $h$ is 0 where the rover
# started):
#
# $$L = \frac{1}{N}\sum_i \bigl(h'(x_i) - \text{slope}_i\bigr)^2 + h(0)^2 .$$
#
# The same loss trains models of molecules on measured forces, and nets that solve differential
# equations. It contains a gradient, and training differentiates it once more.
#
# The activation is the softplus, $y = \log(1 + e^x)$, whose derivative is the logistic
# $\sigma(x)$. A colleague has written it as a Function. It computes $\sigma$ once, in `forward`,
# and keeps it, so that `backward` is a single product. `gradcheck` likes it.


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

# %% [markdown]
# The training loop. `create_graph=True` asks that the slope be differentiable itself, and the rest
# is as always.

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = torch.Generator().manual_seed(1)
way = torch.linspace(0, 6, 61)[:, None]
height = 0.5 * torch.sin(1.5 * way) + 0.1 * way
measured = 0.75 * torch.cos(1.5 * way) + 0.1 + 0.02 * torch.randn(way.shape, generator=rng)
way, height, measured = way.to(device), height.to(device), measured.to(device)


def fit(activation, steps=400):
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


custom_hill, custom_losses = fit(Softplus.apply)
for step in (0, 199, 399):
    print(f"loss after {step + 1:>3} steps: {custom_losses[step]:.2f}")

# %% [markdown]
# It falls to a seventh and flattens out. One would try a larger net next. But first the same run
# once more with PyTorch's own softplus, whose values and gradients are the same:

# %%
true_hill, true_losses = fit(softplus)
print(f"loss after 400 steps, torch's softplus: {true_losses[-1]:.2f}")
for name, hill in (("colleague's", custom_hill), ("torch's", true_hill)):
    print(f"{name:12} softplus: off by up to {100 * (hill - height).abs().max():.0f} cm")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, built):
    for losses, color in ((custom_losses, ORANGE), (true_losses, BLUE)):
        watched.semilogy(losses, color=color)
    watched.set(title="two runs, one architecture", xlabel="step", ylabel="loss")
    note(watched, "the colleague's softplus", (195, 0.12), ORANGE)
    note(watched, "torch's softplus", (205, 0.0075), BLUE)

    places = way.cpu().squeeze()
    built.plot(places, height.cpu(), color=GRAY, linewidth=6, alpha=0.45)
    built.plot(places, true_hill.cpu(), color=BLUE)
    built.plot(places, custom_hill.cpu(), color=ORANGE, linestyle="--")
    note(built, "the hill", (0.75, 0.7), GRAY)
    note(built, "the colleague's", (1.95, 0.62), ORANGE)
    note(built, "torch's", (4.95, 1.12), BLUE)
    built.set(
        title="what was learned", xlabel="meters driven", ylabel="height [m]", ylim=(-0.5, 1.3)
    )

# %% [markdown]
# The same values, the same gradients, and another hill. Nothing raised, nothing warned,
# `gradcheck` passed. What differs is the gradient of the gradient, and nobody has looked at that.

# %% [markdown]
# ## The whole thing, working
#
# The repair is small: save $x$ in place of $\sigma(x)$, and compute $\sigma$ in `backward`.


# %%
class Recomputed(Function):
    """y = log(1 + exp x); ∂L/∂x = σ(x)·∂L/∂y, with σ computed from x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


hill, losses = fit(Recomputed.apply)
print(f"loss after 400 steps: {losses[-1]:.2f}")
print(f"off by up to {100 * (hill - height).abs().max():.0f} cm")

# %% [markdown]
# Why does it matter *where* a number is computed, if it is the same number? That is this lesson.

# %% [markdown]
# ## When backward is recorded
#
# A gradient can be differentiated again if the operations that computed it have been recorded,
# like those of any forward. **Common belief: "inside a Function nothing is recorded, in forward
# and backward alike."** Look from inside:


# %%
class Asking(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        print(f"  in backward, grad mode is {'on' if torch.is_grad_enabled() else 'off'}")
        return Recomputed.backward(ctx, grad_output)


x = torch.tensor([-1.0, 2.0], requires_grad=True)
for create_graph in (False, True):
    print(f"create_graph={create_graph}")
    (g,) = grad(Asking.apply(x).sum(), x, create_graph=create_graph)
    print("  the gradient has a graph:", g.requires_grad)

# %% [markdown]
# In `forward` grad mode is off, always. In `backward` it is on if and only if the caller asked for
# `create_graph=True`. Then `backward` is ordinary code: every operation on a tensor that has a
# graph is recorded, and what it returns can be differentiated once more.
#
# So a Function is differentiable twice, or a hundred times, *for free*, if `backward` is made of
# differentiable operations on tensors that have a graph. Which of them do?

# %% [markdown]
# ## What carries a graph
#
# This Function saves three tensors of three kinds: its input, something computed on the way (an
# *intermediate*), and its output. Then it looks at each in `backward`.


# %%
class Witness(Function):
    @staticmethod
    def forward(ctx, x):
        sigma = torch.sigmoid(x)
        y = softplus(x)
        ctx.save_for_backward(x, sigma, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, sigma, y = ctx.saved_tensors
        for name, tensor in (("input x", x), ("intermediate σ", sigma), ("output y", y)):
            print(f"{name:15} requires grad: {tensor.requires_grad!s:6} made by", made_by(tensor))
        return grad_output * sigma


def made_by(tensor):
    return tensor.grad_fn.name() if tensor.grad_fn else "nobody"


x = torch.tensor([-1.0, 2.0], requires_grad=True)
(g,) = grad(Witness.apply(2 * x).sum(), x, create_graph=True)

# %% [markdown]
# The input comes out of `saved_tensors` with the graph that led to it (here a multiplication), the
# output with the graph that leads through this very Function. The intermediate was computed in
# `forward`, where nothing is recorded: to `backward` it is a *constant*. A constant has derivative
# zero, and that is what a second derivative through it will be.
#
# | saved | in `backward` it is |
# | --- | --- |
# | an input | a node of the graph |
# | an output | a node of the graph, behind this Function |
# | anything else from `forward` | a constant |
#
# An output is the very *tensor* that `forward` returns, not its numbers: a copy of it, the same
# formula computed twice, the output with an axis kept are intermediates too.
#
# And zero is not an error. The engine has no way to know that the constant had once been a function
# of $x$.

# %% [markdown]
# ## Two paths through a gradient
#
# What exactly is lost? Let $y = f(x)$ and let $g = \partial L/\partial y$ arrive. `backward`
# returns $v = g \, f'(x)$, a function of two things, and $x$ reaches it along both:
#
# $$\frac{dv}{dx} \;=\; \underbrace{\frac{\partial g}{\partial y}\, f'(x)^2}_{\text{through } g}
# \;+\; \underbrace{g \, f''(x)}_{\text{through } f'(x)} .$$
#
# The first path runs through the upstream gradient, which autograd looks after. The second runs
# through what `backward` read from `ctx`, and it is yours. Save $f'(x)$ as an intermediate, and
# the first path stays while the second is cut: the second derivative is not zero but *incomplete*,
# which is harder to notice. That is what happened on the hill.
#
# Take $L = y^2/2$, so that $g = y$ and $v = y\,\sigma(x)$. Below is the graph of $v$, for both
# Functions: the backward pass was recorded, and can be drawn like any forward. Step through it
# with → and ←.


# %%
def gradient_of_half_square(f):
    def gradient(x):
        y = f(x)
        return grad(y, x, grad_outputs=y, create_graph=True)[0]

    return gradient


flows = {
    "σ saved in forward": gradient_of_half_square(Softplus.apply),
    "σ recomputed in backward": gradient_of_half_square(Recomputed.apply),
}
compare_flows(flows, torch.tensor(1.0))

# %% [markdown]
# In the second picture, `Sigmoid` hangs on $x$ and brings back its share, $g f''$. In the first
# that path does not exist: the product was taken with a number.
#
# ### Checkpoint 1
#
# A cube that keeps an intermediate: $y = x^3$, with $s = x^2$ computed in `forward` and saved;
# `backward` returns $3 s \, g$. The loss is again $y^2/2 = x^6/2$. Its first derivative is $3x^5$,
# its second $15 x^4$, so 15 at $x = 1$. What does autograd return?


# %%
class ThriftyCube(Function):
    @staticmethod
    def forward(ctx, x):
        s = x * x
        ctx.save_for_backward(s)
        return s * x

    @staticmethod
    def backward(ctx, grad_output):
        (s,) = ctx.saved_tensors
        return 3 * s * grad_output


x = torch.tensor(1.0, requires_grad=True)
(first,) = grad(ThriftyCube.apply(x) ** 2 / 2, x, create_graph=True)
(second,) = grad(first, x)

predict(..., second)

# %% [markdown]
# <details><summary>Why</summary>
#
# The first derivative is $g \cdot 3s$ with $g = y$. The path through $g$ gives $3s \cdot dy/dx = 3
# \cdot 3 = 9$. The path through $s$ would give $g \cdot 3 \cdot 2x = 6$, but $s$ is a constant. 9
# instead of 15, and no error.
#
# </details>

# %% [markdown]
# ## Three repairs
#
# ### Compute it again
#
# `Recomputed` above: save inputs or outputs, and compute from them what is missing. First see
# whether the *output* will do, since the next layer keeps it anyway (lesson 01). Since
# $e^{-y} = 1/(1 + e^x)$, we have $\sigma(x) = 1 - e^{-y}$ (and `expm1` computes $e^t - 1$ without
# losing digits at small $t$):


# %%
class FromOutput(Function):
    """y = log(1 + exp x); ∂L/∂x = (1 - exp(-y))·∂L/∂y."""

    @staticmethod
    def forward(ctx, x):
        y = softplus(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * -torch.expm1(-y)


# %% [markdown]
# To differentiate this gradient, autograd goes through `expm1` to $y$, from $y$ through this
# Function to $x$, and so calls `FromOutput.backward` a second time. That is how one formula serves
# every order.

# %% [markdown]
# ### Return it as an output
#
# *Extra: for readers whose intermediate is too expensive to compute twice. Lesson 08 returns one.*
#
# Sometimes the intermediate is expensive and should not be computed twice. Then make it an
# *output*: outputs carry a graph. It is differentiable like any other, so `backward` gets a
# gradient for it too, and must use it. Users see one output through a plain function.


# %%
class WithSlope(Function):
    """y = log(1 + exp x), s = σ(x); ∂L/∂x = s·∂L/∂y + s(1 - s)·∂L/∂s."""

    @staticmethod
    def forward(ctx, x):
        y, s = softplus(x), torch.sigmoid(x)
        ctx.save_for_backward(s)
        return y, s

    @staticmethod
    def backward(ctx, grad_y, grad_s):
        (s,) = ctx.saved_tensors
        return s * grad_y + s * (1 - s) * grad_s


def two_outputs(x):
    y, _ = WithSlope.apply(x)
    return y


# %% [markdown]
# **Common belief: "nobody uses the second output, so its gradient is always zero and can be left
# out."** In the first backward pass, yes. But `backward` itself uses $s$, and in the second pass
# that use sends a gradient back to it.


# %%
class HalfHearted(WithSlope):
    @staticmethod
    def backward(ctx, grad_y, grad_s):
        (s,) = ctx.saved_tensors
        return s * grad_y


def second_derivative(f, at=1.0):
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    (first,) = grad(f(x) ** 2 / 2, x, create_graph=True)
    return grad(first, x)[0].item()


print(f"with grad_s:    {second_derivative(two_outputs):.4f}")
print(f"without grad_s: {second_derivative(lambda x: HalfHearted.apply(x)[0]):.4f}")
print(f"torch:          {second_derivative(softplus):.4f}")

# %% [markdown]
# ### A second Function for backward
#
# *Extra: for readers whose gradient comes from a kernel or from NumPy.*
#
# What if the gradient comes from a kernel or from NumPy, which autograd cannot record at all? Then
# `backward` is, once more, code that autograd cannot see, and lesson 01 has the answer: write a
# Function. `backward` calls it, and *its* `backward` is the double backward.
#
# It takes whatever the gradient depends on. Of $v = g\,\sigma(x)$ with the upstream gradient $h$
# for $v$, the two derivatives are $h\,\sigma(x)$ for $g$ and $h\,g\,\sigma(x)(1-\sigma(x))$ for
# $x$. The intermediate may be handed in as well, as a number without a gradient: nothing is
# computed twice, unless somebody differentiates twice.


# %%
class SoftplusBackward(Function):
    """v = g·σ(x), with σ given; ∂/∂g = σ(x)·h, ∂/∂x = g·σ(x)(1 - σ(x))·h."""

    @staticmethod
    def forward(ctx, g, x, sigma):
        ctx.save_for_backward(g, x)
        return g * sigma  # here a kernel could stand

    @staticmethod
    def backward(ctx, h):
        g, x = ctx.saved_tensors
        sigma = torch.sigmoid(x)  # from an input, so that the third derivative is right too
        return h * sigma, h * g * sigma * (1 - sigma), None


class WithSecondFunction(Softplus):
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
# *Reference: the values and bytes of all these ways, side by side. If you have the choice, compute
# again.*
#
# All four are right to any order. Here are the first four derivatives at $x = 1$, and the bytes
# that each keeps for backward, per float32 element.


# %%
def derivatives(f, count=4):
    x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    value, found = f(x), []
    for _ in range(count):
        (value,) = grad(value, x, create_graph=True)
        found.append(f"{value.item():8.4f}")
    return " ".join(found)


def bytes_kept(f):
    kept = {}

    def pack(tensor):
        kept[tensor.data_ptr()] = tensor.nbytes // tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        f(torch.ones(64, requires_grad=True))
    return sum(kept.values())


ways = {
    "torch": softplus,
    "from the input": Recomputed.apply,
    "from the output": FromOutput.apply,
    "two outputs": two_outputs,
    "second Function": WithSecondFunction.apply,
}
for name, f in ways.items():
    print(f"{name:16} {derivatives(f)}   {bytes_kept(f)} bytes")

# %% [markdown]
# | repair | take it when |
# | --- | --- |
# | from the output | the derivative is a function of the output: costs next to nothing |
# | from the input | the derivative is cheap to compute again: the usual choice |
# | a further output | it is expensive, and has a simple derivative of its own |
# | a second Function | `backward` itself is code that autograd cannot record |

# %% [markdown]
# ## How to test it
#
# **Common belief: "gradcheck passes, so the Function is right."** It says that the *first*
# derivative is. Whatever `backward` does to its graph, it does not see:


# %%
class Detaching(Recomputed):
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
for function in (Softplus, Detaching, UsingData, Recomputed):
    passed = gradgradcheck(function.apply, x, raise_exception=False)
    print(
        f"{function.__name__:11} gradcheck {gradcheck(function.apply, x)}, gradgradcheck {passed}"
    )

# %% [markdown]
# `gradgradcheck` is `gradcheck` applied to the gradient: it makes random upstream gradients that
# require grad, and compares the derivatives of $v(x, g)$ by $x$ *and* by $g$ with differences. It
# passes where `backward` is differentiable and right. If yours promises a second derivative, this
# line belongs in its tests.
#
# `diagnose` examines second derivatives as well, and mentions a wrong one as a note, because most
# Functions are never differentiated twice. With `double_backward=True` you say that yours is, and a
# wrong second derivative becomes an error.

# %%
diagnose(Softplus, (x,), double_backward=True)

# %% [markdown]
# ## What once_differentiable does not do
#
# *Extra: for readers who use PyTorch's decorator for Functions that are differentiable once. It
# often fails silently.*
#
# Perhaps you do not want to support second derivatives. PyTorch has a decorator for it, which
# runs `backward` with grad mode off. **Common belief: "`@once_differentiable` makes a second
# derivative raise."** Four ways to use one cube, $y = x^3$ at $x = 1$:


# %%
class CubeOnce(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


def by_backward(total, x):
    total.backward()
    return x.grad


def by_grad(total, x):
    return grad(total, x)[0]


def penalized(f, loss, differentiate):
    """The derivative of x + v², where v is the gradient of the loss."""
    x = torch.tensor(1.0, requires_grad=True)
    (v,) = grad(loss(f(x)), x, create_graph=True)
    try:
        return f"{differentiate(x + v**2, x).item():.0f}"
    except RuntimeError as error:
        return f"raises: {str(error)[:30]} …"


# %%
losses_of = {"L = y": lambda y: 1 * y, "L = y²/2": lambda y: y**2 / 2}
ways_to_derive = {".backward()": by_backward, "autograd.grad": by_grad}
for what, loss in losses_of.items():
    for how, differentiate in ways_to_derive.items():
        right = penalized(lambda x: x**3, loss, differentiate)
        came = penalized(CubeOnce.apply, loss, differentiate)
        print(f"{what:9} {how:14} should be {right:>3}, {came}")

# %% [markdown]
# It raises in one of four. The decorator leaves a node in the graph that raises when a gradient
# passes through it. But
#
# - where `grad_output` does not require grad (behind a plain sum, or any linear loss), there is no
#   such node: the gradient comes back without a graph, and whatever is made of it is a constant.
# - `torch.autograd.grad(total, x)` visits only nodes on the way to $x$, and that node leads
#   nowhere. The term is dropped.
#
# A gradient penalty, which is added to another loss, then has no effect, and nothing is said.
#
# ### Refuse aloud
#
# Since grad mode in `backward` says whether a graph is wanted, the Function can say no itself:


# %%
class CubeRefusing(CubeOnce):
    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():
            raise RuntimeError("this cube is differentiable once")
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad_output


x = torch.tensor(1.0, requires_grad=True)
print("once:", grad(CubeRefusing.apply(x), x)[0].item())
try:
    grad(CubeRefusing.apply(x), x, create_graph=True)
except RuntimeError as error:
    print("with create_graph=True:", error)

# %% [markdown]
# The price: `torch.func.grad` (lesson 11) always runs `backward` with grad mode on, so there this
# Function refuses even the first derivative. Being loud at the wrong moment beats being silent.
#
# ### A fast path
#
# The same question allows a `backward` with two ways: one that spares memory when nobody wants a
# graph, and one that can be differentiated. In-place arithmetic is such a saving, and it is
# forbidden on tensors whose old value a graph still needs.


# %%
class InPlace(Recomputed):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x).mul_(grad_output)  # one buffer, not two


class TwoWays(InPlace):
    @staticmethod
    def backward(ctx, grad_output):
        way = Recomputed if torch.is_grad_enabled() else InPlace
        return way.backward(ctx, grad_output)


for function in (InPlace, TwoWays):
    try:
        print(f"{function.__name__}: second derivative {second_derivative(function.apply):.4f}")
    except RuntimeError as error:
        print(f"{function.__name__}: {str(error).split(':')[0]}")

# %% [markdown]
# ## Forward mode is another thing
#
# *Extra: for readers who want to write a `jvp`. It does nothing for a second derivative.*
#
# **Common belief: "a Function with a `jvp` method supports second derivatives."** `jvp` is the
# derivative in *forward mode*: it pushes a change of the input, a *tangent*, forward to a change
# of the output, $J t$. Double backward never calls it, and `gradcheck` only with
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
print("gradcheck, forward mode too:", gradcheck(SoftplusWithJvp.apply, x, check_forward_ad=True))
print("gradgradcheck:", gradgradcheck(SoftplusWithJvp.apply, x, raise_exception=False))

# %% [markdown]
# ## The Hessian
#
# For a loss $L(x)$ of $n$ numbers, the second derivatives form an $n \times n$ matrix, the
# *Hessian* $H_{ij} = \partial^2 L / \partial x_i \partial x_j$. It is the Jacobian of the gradient
# function, so it is built as any Jacobian is: one backward pass of the gradient for each row.
#
# The classic victim is log-sum-exp, a smooth maximum, $y = \log\sum_i e^{x_i}$. Its gradient is
# the softmax, which is at hand in `forward`. Its Hessian is $\operatorname{diag}(p) - p\,p^\top$,
# and with a saved $p$:


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
        x = x if x.requires_grad else x.detach().requires_grad_()
        return grad(LogSumExp.apply(x), x, create_graph=True)[0]


jacobian_view(gradient, torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64))

# %% [markdown]
# The function on stage is the gradient, and its Jacobian is the Hessian. On the left by
# differences: the true one. In the middle what autograd makes of it: nothing at all.
#
# `torch.autograd.functional.hessian` has a `strict` flag that objects to a gradient without a
# graph. But it objects to nothing less: let any other path survive, and the incomplete Hessian
# passes.

# %%
x = torch.tensor([0.0, 1.0, 2.0, 0.5], dtype=torch.float64)
energies = {"logsumexp": LogSumExp.apply, "½ logsumexp²": lambda x: LogSumExp.apply(x) ** 2 / 2}
for name, energy in energies.items():
    try:
        found = hessian(energy, x, strict=True)
        print(f"{name:13} accepted, diagonal", found.diag().numpy().round(2).tolist())
    except RuntimeError as error:
        print(f"{name:13} raises: …", str(error).split(". ")[0].split("jacobian of ")[1])
true = hessian(lambda x: torch.logsumexp(x, -1) ** 2 / 2, x)
print(f"{'':13} true:     diagonal", true.diag().numpy().round(2).tolist())


# %% [markdown]
# Repaired from the output (the softmax is $e^{x - y}$), it serves for the rest of the lesson:


# %%
class SmoothMax(Function):
    """y = log Σ exp x over the last axis; ∂L/∂x = exp(x - y)·∂L/∂y."""

    @staticmethod
    def forward(ctx, x):
        y = torch.logsumexp(x, -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output[..., None] * torch.exp(x - y[..., None])


p = torch.softmax(x, -1)
print("H = diag(p) - ppᵀ:", torch.allclose(hessian(SmoothMax.apply, x), p.diag() - p.outer(p)))

# %% [markdown]
# ## Never build it: Hessian-vector products
#
# The Hessian of a million parameters has $10^{12}$ entries, eight terabytes in float64. As with
# the Jacobian, one rarely needs the matrix but its product with a vector, $Hv$: how does the
# gradient change if I go along $v$? Conjugate gradients, influence functions, the largest
# eigenvalue all ask for nothing else.
#
# **Reverse over reverse.** Multiply the gradient by $v$, which gives one number, and differentiate
# that: $\nabla_x (\nabla L \cdot v) = H v$. Two backward passes for any $n$. (A backward pass gives
# $v^\top H$, lesson 01; as $H$ is symmetric, that is $Hv$. And `grad(g, x, grad_outputs=v)` does
# the multiplication itself. For an input on which the gradient does not depend it raises;
# `materialize_grads=True` makes it return zeros. Of several gradients, one that is constant has no
# graph: given as an output of its own it raises all the same, in the sum of the products it does
# no harm.)
#
# **Forward over reverse.** Push $v$ through the computation of the gradient as a change of $x$, a
# *tangent*: the change of the gradient *is* $Hv$. `torch.func` composes the two modes.

# %%
torch.manual_seed(0)
A = torch.randn(12, 4, dtype=torch.float64)
b = torch.randn(12, dtype=torch.float64)


def energy(x, smooth_max=SmoothMax.apply):
    return smooth_max(A @ x + b) + 0.15 * x.square().sum()


def composed(x):
    return energy(x, lambda z: torch.logsumexp(z, -1))


x = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
v = torch.tensor([1.0, 0.0, -2.0, 0.5], dtype=torch.float64)
(g,) = grad(energy(x), x, create_graph=True)
(reverse,) = grad(g @ v, x)
_, forward = torch.func.jvp(torch.func.grad(composed), (x.detach(),), (v,))

print("H v, from the matrix:   ", (hessian(composed, x.detach()) @ v).numpy().round(4))
print("reverse over reverse:   ", reverse.numpy().round(4))
print("forward over reverse:   ", forward.numpy().round(4))

# %% [markdown]
# ### Forward over reverse, and its price
#
# *Extra: for readers who want to compute Hessian-vector products in forward mode. Exercise 5 needs
# only the first way.*
#
# **Common belief: "forward over reverse keeps no graph of the gradient, so it takes less memory."**
# In its place it keeps a tangent beside every tensor. Twenty layers, and the most bytes alive at
# any moment (`peak_bytes` wants a result that requires a gradient, hence the last line of `most`):


# %%
def deep(x):
    for _ in range(20):
        x = torch.tanh(x @ mix)
    return x.square().sum()


def reverse_over_reverse(x, v):
    x.requires_grad_()
    (g,) = grad(deep(x), x, create_graph=True)
    return grad(g, x, grad_outputs=v)[0]


def forward_over_reverse(x, v):
    return torch.func.jvp(torch.func.grad(deep), (x,), (v,))[1]


def most(product):
    def run(x):
        return product(x.detach(), torch.ones_like(x)) + 0 * x

    return peak_bytes(run, state, backward=False) / 2**20


mix, state = torch.randn(64, 64) / 8, torch.randn(256, 64)
ways = (reverse_over_reverse, forward_over_reverse)
both = [way(state.clone(), torch.ones_like(state)) for way in ways]
print("the same product:", torch.allclose(*both, atol=1e-3))
for way in ways:
    print(f"{way.__name__:21} {most(way):.1f} MiB")

# %% [markdown]
# So measure before you choose. (Speed is another question, and so is a compiler, which may drop
# what it does not need.)
#
# Through a custom Function forward over reverse needs what forward mode needs: a `jvp` (and, for
# `torch.func`, the form with `setup_context` that lesson 11 introduces). Without it, it raises, and
# does not guess:


# %%
class SplitSmoothMax(SmoothMax):
    @staticmethod
    def forward(x):
        return torch.logsumexp(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)


def split_energy(x):
    return energy(x, SplitSmoothMax.apply)


try:
    torch.func.jvp(torch.func.grad(split_energy), (x.detach(),), (v,))
except NotImplementedError as error:
    print(error)

# %% [markdown]
# ### Checkpoint 2
#
# $L = x_0^2 \, x_1$ at $x = (1, 2)$, and $v = (1, 1)$. What is the *first* entry of $Hv$? No
# matrix is needed: write down $\nabla L \cdot v$, then differentiate it by $x_0$.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
(g,) = grad(x[0] ** 2 * x[1], x, create_graph=True)
(product,) = grad(g.sum(), x)

predict(..., product[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# $\nabla L = (2 x_0 x_1,\; x_0^2)$, so $\nabla L \cdot v = 2 x_0 x_1 + x_0^2$. By $x_0$: $2 x_1 +
# 2 x_0 = 6$.
#
# </details>

# %% [markdown]
# ## A Newton step
#
# *Extra: for readers who want to see what an incomplete Hessian does to an optimizer. No exercise
# needs this section.*
#
# Gradient descent knows the slope, Newton's method the curvature too: it goes to the minimum of
# the parabola that has both, $x \leftarrow x - H^{-1} \nabla L$. Close to a minimum the number of
# right digits then doubles with each step. Below, the energy of the last section, minimized with
# the repaired Function and with the one that keeps its softmax.


# %%
def newton(smooth_max, steps=7):
    x, norms = torch.zeros(4, dtype=torch.float64), []
    for _ in range(steps):
        x.requires_grad_()
        (g,) = grad(energy(x, smooth_max), x, create_graph=True)
        H = torch.stack([grad(g_i, x, retain_graph=True)[0] for g_i in g])
        norms.append(g.norm().item())
        x = (x - torch.linalg.solve(H, g)).detach()
    return norms


right, wrong = newton(SmoothMax.apply), newton(LogSumExp.apply)
print("repaired, size of the gradient:", *(f"{norm:.0e}" for norm in right[:5]))
print("saved softmax:                 ", *(f"{norm:.0e}" for norm in wrong[:5]))

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.4) as (axes,):
    axes.semilogy([max(norm, 1e-16) for norm in right], color=BLUE, marker="o")
    axes.semilogy(wrong, color=ORANGE, marker="o")
    axes.axhline(2e-16, color=GRAY, linestyle="--", linewidth=1)
    axes.set(title="Newton's method", xlabel="step", ylabel="size of the gradient")
    note(axes, "a saved softmax: Hessian incomplete", (2.2, 2e-2), ORANGE)
    note(axes, "repaired", (3.55, 2e-7), BLUE)
    note(axes, "float64 has no more digits", (0, 6e-16), GRAY)

# %% [markdown]
# Five steps to the last digit, against a run that walks away from the minimum. The quadratic term
# kept the wrong Hessian invertible, so that no solver complained; it just said that the energy has
# hardly any curvature, and the steps became too long.

# %% [markdown]
# ## A gradient penalty
#
# Some nets may not become steep: critics, which score samples in a Wasserstein GAN, or energies,
# which are low where data are likely. So one adds the size of their *input* gradient to the loss.
# As an example an energy, $E(x) = \log\sum\exp(Wx + b)$ for each row of a batch, and the penalty
# $\frac1N\sum_i \lVert \nabla_x E(x_i)\rVert^2$. The penalty is worth something only if it reaches
# $W$ and $b$.
#
# Four ways to write it; one of them uses PyTorch's decorator `once_differentiable`, which runs
# `backward` with grad mode off. All give the same value. How much of its gradient arrives?


# %%
class SmoothMaxOnce(SmoothMax):
    backward = staticmethod(once_differentiable(SmoothMax.backward))


def penalty_gradients(smooth_max, create_graph=True):
    """The value of the penalty, and what it sends to the weight and to the bias."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 5).double()
    x = torch.randn(64, 2, dtype=torch.float64, requires_grad=True)
    (slope,) = grad(smooth_max(layer(x)).sum(), x, create_graph=create_graph)
    penalty = slope.square().sum(1).mean()
    loss = smooth_max(layer(x)).mean()  # the critic's own loss, on a graph of its own
    (loss + penalty).backward()
    own = grad(smooth_max(layer(x)).mean(), layer.parameters())
    weight, bias = (p.grad - g for p, g in zip(layer.parameters(), own, strict=True))
    return penalty.item(), weight, bias


ways = {
    "repaired": penalty_gradients(SmoothMax.apply),
    "saved softmax": penalty_gradients(LogSumExp.apply),
    "once_differentiable": penalty_gradients(SmoothMaxOnce.apply),
    "create_graph forgotten": penalty_gradients(SmoothMax.apply, create_graph=False),
}
_, true_weight, true_bias = ways["repaired"]
print(f"{'':23} penalty   error of ∂W   error of ∂b")
for name, (value, weight, bias) in ways.items():
    off_w, off_b = (
        (g - t).norm() / t.norm() for g, t in ((weight, true_weight), (bias, true_bias))
    )
    print(f"{name:23} {value:7.3f} {off_w:13.0%} {off_b:13.0%}")

# %% [markdown]
# Without `create_graph` the penalty is a number, and nothing arrives. With a saved softmax, or
# with the decorator, what passes through $p$ is lost: the bias, which acts through $p$ alone, gets
# nothing, the weight a gradient that is a quarter off. None of the three raises.
#
# ### When it raises
#
# *Extra: for readers to whom PyTorch suggests `retain_graph=True`, which does not repair a
# forgotten `create_graph`.*
#
# **Common belief: "it raised, and `retain_graph=True` repaired it."** Use one graph for loss and
# penalty and forget `create_graph`, and PyTorch does raise. Its message suggests a repair:

# %%
layer = torch.nn.Linear(2, 5)
x = torch.ones(3, 2, requires_grad=True)
for options in ({}, {"retain_graph": True}, {"create_graph": True}):
    layer.zero_grad()
    E = SmoothMax.apply(layer(x))
    (slope,) = grad(E.sum(), x, **options)
    try:
        (0 * E.sum() + slope.square().sum()).backward()
        arrived = bool(layer.weight.grad.any())
        print(f"{options or 'no option'}: runs; does the penalty arrive? {arrived}")
    except RuntimeError as error:
        print(f"{options or 'no option'}: {str(error)[:54]} …")

# %% [markdown]
# `retain_graph` keeps the graph of the *forward* for a second pass; only `create_graph` makes one
# of the *backward*. (It implies the other.) A test for any penalty: is its gradient there, and
# does it agree with differences?

# %% [markdown]
# ### Checkpoint 3
#
# Yours to finish: $y = \arctan x$, with the derivative $1/(1 + x^2)$. The version below is right
# once. Make it right twice, and run the cell again.


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
# <details><summary>Why</summary>
#
# `slope` is an intermediate. Save the input, `ctx.save_for_backward(x)`, and return `grad_output /
# (1 + x**2)`. (With the output it would be $\cos^2 y$: right, but where $|x|$ is large, $y$ is next
# to $\pi/2$ and knows few digits of $x$: in float32 the slope at $10^6$ is 6 % off.)
#
# </details>

# %% [markdown]
# ## Do you know it?
#
# Ten questions. A wrong answer explains itself; try again.

# %%
knowledge_check("06")

# %% [markdown]
# ## Summary
#
# ```python
# class F(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x):
#         y = ...
#         ctx.save_for_backward(x, y)          # inputs and outputs: they carry a graph
#         return y                             # an intermediate that backward needs: return it too
#
#     @staticmethod
#     def backward(ctx, grad_output):          # recorded if and only if create_graph=True
#         x, y = ctx.saved_tensors
#         return grad_output * ...             # differentiable operations on x, y, grad_output
#
# assert gradcheck(F.apply, x) and gradgradcheck(F.apply, x)
# diagnose(F, (x,), double_backward=True)
#
# (g,) = grad(f(x), x, create_graph=True)      # a gradient that can be differentiated
# (Hv,) = grad(g, x, grad_outputs=v)           # never H
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | grad mode in `backward` | on if and only if `create_graph=True` (and under `torch.func.grad`) |
# | carries a graph | `grad_output`, saved inputs, saved outputs |
# | is a constant | intermediates of forward, `.detach()`, `.data`, NumPy |
# | what is lost | the path through $f'(x)$; the one through $g$ stays: incomplete, not zero |
# | repairs | compute again; one more output, its gradient used; a second Function |
# | test | `gradgradcheck`; `gradcheck` sees the first derivative only |
# | `@once_differentiable` | often silent; refuse where `torch.is_grad_enabled()` |
# | `jvp` | forward mode; double backward does not call it |
# | Hessian | one pass a row; $Hv$ by two passes in all |
# | penalty | `create_graph=True`; `retain_graph=True` only silences the error |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/06_double_backward.ipynb): Functions that are right
# twice, a log-sum-exp with the right Hessian, a Hessian-vector product, a gradient penalty, and a
# Function whose Hessian is zero, to be repaired.
#
# [Lesson 07](07_memory_patterns.ipynb) is about what all this keeps in memory, and how to keep
# less.
