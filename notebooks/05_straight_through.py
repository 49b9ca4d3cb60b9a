# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator
#
# **You will** train networks through a sign, a rounding and a random draw, none of which has a
# usable gradient, and test the gradient that you put in its place.
#
# **You will learn** how such a gradient is declared and checked, how to choose one, where it is
# wrong and by how much, and the correct backward of learned quantization and of Gumbel-softmax.
#
# **You need** lesson 01: what `backward` returns, what `gradcheck` compares, what `diagnose` says.
#
# **It takes** 35 minutes with two of the three checkpoints; the sections marked *in depth*,
# another 20, can wait. The exercises come after it.

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
from torch.autograd import Function, gradcheck
from torch.nn.functional import cross_entropy, hardtanh, one_hot

from autograd_course import diagnose
from autograd_course.functions import FakeQuantize, GumbelSoftmax, ReinMax, RoundSTE
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    figure,
    gumbel_noise,
    load_digits,
    note,
    predict,
)
from autograd_course.visualize import compare_flows, knowledge_check, ste_lab

# %% [markdown]
# ## A net that cannot move
#
# A classifier for handwritten digits is to run on a chip without a multiplier. So every weight is
# to be +1 or −1: one bit to store, and a product becomes an addition or a subtraction. The plan:
# keep a real number behind each weight, take its *sign* in the forward pass, and let the optimizer
# move the real number (the *latent* weight).
#
# The data are 1797 images of handwritten digits, 8 × 8 gray values each; one in five is kept back.
# Two layers, 64 hidden values, full-batch training. After each step the latent weights are clamped
# to $[-1, 1]$: a sign does not care how large they are, and what is far out takes long to come
# back.

# %%
images, labels = load_digits()
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order], labels[order]
seen, unseen = slice(0, 1437), slice(1437, None)


def net(x, weights, binarize, squash=torch.tanh):
    # 64 terms a sum: the division by √64 keeps it in the range of tanh
    hidden = squash(x @ binarize(weights[0]) / 8)
    return hidden @ binarize(weights[1]) / 8


def train(binarize, steps=100, squash=torch.tanh):
    rng = torch.Generator().manual_seed(0)
    start = [torch.rand(64, n, generator=rng, dtype=torch.float64) for n in (64, 10)]
    weights = [(0.6 * (w - 0.5)).requires_grad_() for w in start]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    losses = []
    for _ in range(steps):
        loss = cross_entropy(net(images[seen], weights, binarize, squash), labels[seen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for w in weights:
                w.clamp_(-1, 1)
        losses.append(loss.item())
    guesses = net(images[unseen], weights, binarize, squash).argmax(-1)
    return weights, losses, (guesses == labels[unseen]).double().mean().item()


# %% [markdown]
# PyTorch has `torch.sign`, and the forward pass needs nothing else.

# %%
sign_weights, sign_losses, sign_right = train(torch.sign)
print(f"loss: {sign_losses[0]:.4f} at the start, {sign_losses[-1]:.4f} after 100 steps")
print("largest gradient of any weight:", max(w.grad.abs().max().item() for w in sign_weights))
print(f"right among unseen digits: {sign_right:.0%}")

# %% [markdown]
# No exception, no warning; the optimizer has run 100 times, and not one weight has moved. The
# gradient is there, it has the right shape, and it is zero everywhere. Which is *true*: nudge a
# latent weight of 0.2 by a millionth, and its sign stays what it was. The loss, as a function of
# the latent weights, is a landscape of flat terraces.

# %% [markdown]
# ## The whole thing, working
#
# Here is a Function with the same staircase forward and another backward. It returns `grad_output`
# as if the sign were not there at all, except where the latent weight is outside $[-1, 1]$. (At 0
# it takes +1, where `torch.sign` has 0, a third value.)


# %%
class Binarize(Function):
    """y = ±1; backward passes grad_output where |x| ≤ 1, by declaration."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.abs() <= 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (inside,) = ctx.saved_tensors
        return grad_output * inside


binary_weights, ste_losses, ste_right = train(Binarize.apply)
real_weights, real_losses, real_right = train(lambda w: w)
print(f"right among unseen digits: torch.sign   {sign_right:.0%}")
print(f"                           Binarize     {ste_right:.0%}")
print(f"                           real weights {real_right:.0%}")

# %% jupyter={"source_hidden": true}
with figure(width=7.0, height=3.4) as (axes,):
    axes.plot(sign_losses, color=ORANGE, linestyle="--")
    axes.plot(ste_losses, color=BLUE)
    axes.plot(real_losses, color=GRAY, linestyle=":")
    axes.set(title="loss on the digits, weights ±1", xlabel="step", ylabel="loss", ylim=(0, 3.4))
    note(axes, f"torch.sign: {sign_right:.0%} right, to the end", (45, 2.75), ORANGE)
    note(axes, f"Binarize: {ste_right:.0%} right with one bit a weight", (4, 0.12), BLUE)
    note(axes, f"real weights: {real_right:.0%} right", (31, 1.12), GRAY)

# %% [markdown]
# With one bit a weight the net does as well as with sixty-four. And its gradient is wrong: not
# inaccurate, wrong, for we know the true one, and it is zero. This is a *straight-through
# estimator* (STE), and the rest of the lesson is about three questions. What exactly did we claim?
# How does one test a gradient that is wrong on purpose? And when does a wrong gradient train?
#
# See the difference flow. The loss is $(\text{round}(x) \cdot y)^2$, with and without an STE for
# the rounding; step with → and ←.


# %%
def plain(x, y):
    return (torch.round(x) * y) ** 2


def straight(x, y):
    return (RoundSTE.apply(x) * y) ** 2


compare_flows({"round": plain, "round with STE": straight}, torch.tensor(1.3), torch.tensor(3.0))

# %% [markdown]
# Forward the two are the same, number by number. Backward the gradient arrives at the rounding with
# the same value; on the left it ends there.
#
# ### Three dead ends
#
# **Common belief: "rounding is not differentiable, so PyTorch raises."** Ask it.


# %%
def ask(f):
    x = torch.tensor([-1.5, 0.2, 0.7], requires_grad=True)
    try:
        f(x).sum().backward()
    except RuntimeError as error:
        return f"raises: {str(error).split(' and ')[0]}"
    return f"x.grad = {x.grad.tolist()}"


print("torch.round    ", ask(torch.round))
print("torch.floor    ", ask(torch.floor))
print("torch.ceil     ", ask(torch.ceil))
print("torch.sign     ", ask(torch.sign))
print("x > 0          ", ask(lambda x: (x > 0).float()))
print("argmax         ", ask(lambda x: x.argmax().float()))
print("int()          ", ask(lambda x: x.int().float()))
print("x // 1         ", ask(lambda x: x // 1))
print("heaviside      ", ask(lambda x: torch.heaviside(x, torch.ones(3))))

# %% [markdown]
# Three ways to end. A staircase that has a derivative returns it: zeros, in silence. What makes
# booleans or integers leaves no node in the graph; here that raises, because nothing else requires
# a gradient, but in a net whose last layer does, it is silent too. Only the last two raise whenever
# a gradient is asked of them.
#
# **Common belief: "the loss falls, so the gradient gets through."** Same net, real weights this
# time; the sign sits on the hidden *activations*, where the tanh was.

# %%
for name, squash in (("torch.sign", torch.sign), ("Binarize", Binarize.apply)):
    weights, losses, right = train(lambda w: w, squash=squash)
    moved = "moved" if weights[0].grad.any() else "never moved"
    print(f"{name:11} loss {losses[0]:.1f} → {losses[-1]:.1f}, {right:.0%} right", end=" ")
    print(f"among unseen digits; the first layer {moved}")

# %% [markdown]
# Four digits out of five, by a net whose first layer is as random as it was on the first step. The
# last layer has learned to read random features. That is the more expensive form of this bug,
# because it looks like a result. After the first step, look at the gradient of the *first* layer.

# %% [markdown]
# ## Declare the surrogate
#
# Forward runs a staircase $q$. Backward returns the vector-Jacobian product of another function,
# $h$, the *surrogate*:
#
# $$y = q(x), \qquad \frac{\partial L}{\partial x} := h'(x)\,\frac{\partial L}{\partial y},
# \qquad \frac{\partial L}{\partial y}\ \text{taken at}\ q(x).$$
#
# For `Binarize`, $q$ is the sign and $h(x) = \min(\max(x, -1), 1)$. The sign $:=$ is honest: this
# is no derivative but a decision, and whoever reads the Function must find it in its docstring.
# Note what stays true: the upstream gradient is computed at the quantized value, the one that
# really ran. Only this one node tells another story, so a net with an STE is not the same as a net
# that has $h$ in place of $q$.
#
# ### Without a Function
#
# *In depth: the same in one line, and where it breaks. Skip it on a first reading: a Function
# says more and cannot round its value away.*
#
# A surrogate can also be declared in one line of plain autograd,
# $h(x) + \text{detach}(q(x) - h(x))$. Forward, $h$ cancels; backward, what is detached is a
# constant, and $h'$ remains.

# %%
x = torch.tensor([-3.0, -0.4, 0.0, 0.9, 1.5], dtype=torch.float64, requires_grad=True)
g = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0], dtype=torch.float64)


def detached(x):
    h = x.clamp(-1, 1)
    return h + (torch.where(x >= 0, 1.0, -1.0) - h).detach()


for name, f in (("Function", Binarize.apply), ("detach", detached)):
    y = f(x)
    (grad,) = torch.autograd.grad(y, x, g)
    print(f"{name:9} y = {y.tolist()}  gradient = {grad.tolist()}")

# %% [markdown]
# Equal. It is the better choice for a quick trial, and a Function for what stays: the Function
# keeps a mask (a byte an element) and has a name and a docstring to declare in.
#
# **Common belief: "after the detach trick the forward is only nearly hard."** It depends on the
# sizes and on the order. Between 0 and 1 one can try *every* number that a format has. With $p$ the
# soft value of the chosen entry and 1 the hard one:

# %%
for dtype in (torch.float16, torch.bfloat16):
    p = torch.arange(2**15, dtype=torch.int16).view(dtype)  # all bit patterns without a sign
    p = p[(p >= 0) & (p <= 1)]
    one = torch.ones_like(p)
    good, bad = (one - p) + p, (one + p) - p
    print(f"1 - p + p is not 1 for {int((good != 1).sum()):>4} of {len(p)} numbers,", end=" ")
    print(f"1 + p - p for {int((bad != 1).sum()):>4}")

x = torch.tensor([0.3, 3.0, 300.0, float("inf")], dtype=torch.bfloat16)
print("sign by x + (sign(x) - x):", (x + (torch.sign(x) - x)).tolist())

# %% [markdown]
# Written `hard - soft.detach() + soft`, the sample of a softmax comes out exactly hard. Written
# with the plus first, it does not, and a comparison with 1 fails somewhere far away. And where
# $h(x)$ is large the trick breaks: the sign of 300 in bfloat16 is 0, and that of infinity is `nan`.
# A Function returns $q(x)$ and cannot round it away.

# %% [markdown]
# ## Test what is wrong by design
#
# **Common belief: "an STE fails gradcheck, so its gradient cannot be tested."** The first half is
# true:

# %%
x = torch.tensor([-1.7, -0.4, 0.3, 2.2], dtype=torch.float64, requires_grad=True)
try:
    gradcheck(Binarize.apply, x)
except RuntimeError as error:
    print(str(error).partition("\n")[0])

# %% [markdown]
# `gradcheck` compares with the derivative of `forward`, and we have announced that we want another.
# So compare with *that*: the surrogate is an ordinary function, and autograd differentiates it.
# What is wrong by design has a right answer all the same. By hand the test is three lines; mind the
# random `grad_output`, for behind a `.sum()` it could be forgotten unnoticed.


# %%
def agrees(f, surrogate, x):
    """Whether f's backward is the vector-Jacobian product of the surrogate."""
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    (returned,) = torch.autograd.grad(f(x), x, g)
    (declared,) = torch.autograd.grad(surrogate(x), x, g)
    return torch.allclose(returned, declared)


print("Binarize is the clip:    ", agrees(Binarize.apply, lambda x: x.clamp(-1, 1), x))
print("Binarize is the identity:", agrees(Binarize.apply, lambda x: 1 * x, x))

# %% [markdown]
# `diagnose` does it with everything that lesson 01 showed: other inputs, linearity, raw shapes. If
# nothing is declared, it says what the thing looks like and asks for a declaration.

# %%
diagnose(Binarize, x)

# %%
diagnose(Binarize, x, surrogate=lambda x: x.clamp(-1, 1))

# %% [markdown]
# And a twin of the kind that one really meets: its window forgot one side. Training does not show
# it, the test does.


# %%
class HalfWindow(Binarize):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x <= 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


print(f"right among unseen digits: {train(HalfWindow.apply)[2]:.0%}")
diagnose(HalfWindow, x, surrogate=lambda x: x.clamp(-1, 1))

# %% [markdown]
# The net does as well as before, because the training loop clamps its weights. The bug waits for
# the first user who does not.
#
# So there are two questions, and they must not be mixed. *Does backward do what I declared?* That
# is a test; it has a right and a wrong. *Is what I declared any good?* That is an experiment, and
# the next sections are about it. If only the second is asked, by training, then a bug in the
# backward looks like a poor estimator.
#
# ### Checkpoint 1
#
# Yours to finish: the sign with the surrogate $h(x) = \tanh(x)$. `backward` returns `None`; replace
# it, and run the cell again. (Recall $\tanh' = 1 - \tanh^2$.)


# %%
class TanhSign(Function):
    """y = ±1; declared surrogate tanh(x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        return None  # fetch x, and multiply grad_output by the slope of tanh


diagnose(TanhSign, x, surrogate=torch.tanh)

# %% [markdown]
# <details><summary>Why</summary>
#
# ```python
# (x,) = ctx.saved_tensors
# return grad_output * (1 - torch.tanh(x) ** 2)
# ```
#
# Saving the output would not do: $y = \pm 1$ has forgotten where $x$ was.
#
# </details>

# %% [markdown]
# ## Choose a surrogate
#
# For a sign, these are the usual ones:
#
# | surrogate | $h'(x)$ | what it does far from the jump |
# | --- | --- | --- |
# | identity | 1 | passes everything; a latent value may run away |
# | clipped | 1 for $\lvert x\rvert \le 1$, else 0 | stops; what is outside stays outside |
# | tanh | $1 - \tanh^2 x$ | fades |
# | sigmoid window | $k\,\sigma(kx)\,(1 - \sigma(kx))$, scaled | fades, the faster the larger $k$ |
# | ReinMax | two softmaxes, for *sampled* choices | below, where something is sampled |
#
# Choose a quantizer and a surrogate, and drag $x$. On the left is the staircase, with the surrogate
# whose slope backward returns; on the right that slope. The dashed *chord* runs from the staircase
# one to the left of $x$ to the staircase one to its right: how steep the staircase is, seen from
# afar. Below, small nets learn a checkerboard, each with another surrogate. They are trained
# already; *Train again* starts over.

# %%
ste_lab("sign", "clipped", x=0.4)

# %% [markdown]
# A Function of your own goes in as a class, alone or beside others:
# `ste_lab({"mine": Binarize, "beside": "tanh"})`. The net called *zero (true)* uses the derivative
# itself, and fits what its last layer can. The identity, which never stops, does little better
# here.
#
# **Common belief: "the closer the surrogate is to the staircase, the better the gradient."** Then a
# steep tanh, $h(x) = \tanh(kx)$ with a large $k$, should be best.


# %%
class SteepSign(Function):
    """y = ±1; declared surrogate tanh(k·x)."""

    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ctx.k * (1 - torch.tanh(ctx.k * x) ** 2), None


steepness = (1, 10, 100, 1000)
steep_right = [train(lambda w, k=k: SteepSign.apply(w, k), steps=50)[2] for k in steepness]
for k, right in zip(steepness, steep_right, strict=True):
    print(f"k = {k:>4}: {right:.0%} right")

# %% [markdown]
# The closer to the staircase, the closer to its gradient, which is zero nearly everywhere: only a
# weight within about $1/k$ of the jump is told anything. A useful surrogate is as wide as the
# latent values are spread. That it is *wrong* is its merit.
#
# ### Where the gradient stops
#
# *In depth: why `Binarize` has `<=` and not `<`. Exercise 2 needs it; until then take `<=` where
# weights are clamped to the bounds.*
#
# At $\lvert x \rvert = 1$ exactly, does the clipped estimator pass? It is a kink, there is no
# derivative, and PyTorch's functions differ:

# %%
bounds = torch.tensor([-1.0, 1.0], requires_grad=True)
one = torch.ones(())
for name, f in (
    ("clamp(-1, 1)", lambda x: x.clamp(-1, 1)),
    ("hardtanh", hardtanh),
    ("min(max(x, -1), 1)", lambda x: torch.minimum(torch.maximum(x, -one), one)),
):
    (g,) = torch.autograd.grad(f(bounds).sum(), bounds)
    print(f"{name:19} gradient at the bounds: {g.tolist()}")

# %% [markdown]
# (From PyTorch 2.14 on, `clamp` stops at both bounds, too.)
#
# **Common belief: "single points do not matter."** These two do, because the training loop *puts*
# weights there: it clamps them to $[-1, 1]$ after each step. In the net above:

# %%
share = (binary_weights[1].abs() == 1).double().mean().item()
print(f"output weights exactly at a bound after training: about {share:.1f} of all")


def follow(binarize, w=0.9, lr=0.3):
    """One weight: ten steps in which the loss pushes it up, ten in which it pushes it down."""
    w = torch.tensor(w, requires_grad=True)
    for target in [1.5] * 10 + [-1.5] * 10:
        (grad,) = torch.autograd.grad((binarize(w) - target).square(), w)
        w = (w - lr * grad).clamp(-1, 1).detach().requires_grad_()
    return w.item()


class StrictBinarize(Binarize):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.abs() < 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


print("ends at, with |x| ≤ 1:", follow(Binarize.apply))
print("ends at, with |x| < 1:", follow(StrictBinarize.apply))
print(f"the net, with |x| < 1: {train(StrictBinarize.apply)[2]:.0%} right")

# %% [markdown]
# Most of a layer lies exactly on the kink. With `<` a weight that touches the bound is glued to it:
# ten steps of a gradient that says *go back*, and it is told nothing. (The net above does not
# suffer: Adam goes on for a while in the direction of earlier gradients, and carries weights off
# the bound. So the bug hides, until somebody trains with plain descent.) State the convention, and
# take `<=` if you clamp.

# %% [markdown]
# ## The bias, made visible
#
# How wrong is it, and what would be right? A single rounding has slope 0, which nobody wants to
# follow. But round with a little noise, $y = \text{round}(x + u)$ with $u$ uniform in
# $[-\tfrac12, \tfrac12)$, and the *expected* loss has a slope worth following: as $x$ moves from
# one integer to the next, the higher level becomes more likely. Now there is a true gradient to
# compare with. The difference between it and the mean of the estimator is the estimator's *bias*.
#
# Two losses: a parabola, and the same parabola with ripples that are as long as one step.

# %%
noise = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000 - 0.5  # an even grid for u
positions = torch.linspace(-2.96, 2.96, 75, dtype=torch.float64)


def parabola(y):
    return y**2 / 4


def rippled(y):
    return y**2 / 4 + 0.15 * torch.sin(2 * torch.pi * y)


def slopes(loss, x, h=0.02):
    """The slope of the expected loss, and the mean of the straight-through gradient."""
    up, down = (loss((x + d + noise).round()).mean() for d in (h, -h))
    leaf = x.clone().requires_grad_()
    (estimated,) = torch.autograd.grad(loss(RoundSTE.apply(leaf + noise)).mean(), leaf)
    return (up - down).item() / (2 * h), estimated.item()


for loss in (parabola, rippled):
    for x in (-0.6, 0.6):
        true, estimated = slopes(loss, torch.tensor(x, dtype=torch.float64))
        print(f"{loss.__name__:9} at {x:4}: true {true:5.2f}, straight through {estimated:5.2f}")

# %% jupyter={"source_hidden": true}
fine = torch.linspace(-3, 3, 400, dtype=torch.float64)
with figure(columns=2, height=3.6) as panels:
    for axes, loss in zip(panels, (parabola, rippled), strict=True):
        pairs = [slopes(loss, x) for x in positions]
        axes.plot(fine, loss(fine), color=GRAY, linewidth=1.2, linestyle=":")
        axes.plot(positions, [true for true, _ in pairs], color=BLUE)
        axes.plot(positions, [estimated for _, estimated in pairs], color=ORANGE, linestyle="--")
        axes.axhline(0, color=GRAY, linewidth=0.8)
        axes.set(title=f"{loss.__name__}: slope of the loss", xlabel="x", ylim=(-1.7, 2.8))
    left, right = panels
    note(left, "true", (1.15, 0.15), BLUE)
    note(left, "straight through", (-0.95, 1.1), ORANGE)
    note(left, "the loss itself", (-2.8, 2.4), GRAY)
    note(right, "true, the same as on the left", (-0.75, -1.0), BLUE)
    note(right, "straight through", (-2.2, 1.35), ORANGE)

# %% [markdown]
# On the left the estimator (dashed) runs as a straight line through the middle of the true stairs.
# It is biased nearly everywhere, by up to half a stair; but it has the right sign, and on average
# over a step it is right. For a *linear* loss the two coincide: $\mathbb E[y] = x$, so passing the
# gradient straight through is exactly right.
#
# On the right nothing has happened to the truth: rounding only ever sees the loss at integers, and
# there the ripples are zero. The estimator takes the *slope* of $L$ at the integers, and that is
# all ripple. Training comes to rest where the dashed line is zero, near $-1.9$; the true slope
# there is $-0.75$, and the minimum is at 0.
#
# So the bias grows with how much $L$ bends between one level and the next. Fine levels and a loss
# that is smooth at their scale: it hardly matters. Coarse levels, or something sharp behind the
# quantizer: it does.

# %% [markdown]
# ### Resting in the wrong place
#
# **Common belief: "biased or not, it converges to the same point, only slower."** A coin shows
# heads, $b = 1$, with probability $p = \sigma(\theta)$, and we pay $(b - 0.49)^2$. Tails is
# cheaper, 0.2401 against 0.2601, so the best coin never shows heads. The estimator passes the
# gradient as if $b$ were $p$.


# %%
class Coin(Function):
    """b = 1 where u < σ(θ), else 0; declared surrogate σ(θ)."""

    @staticmethod
    def forward(ctx, theta, u):
        ctx.save_for_backward(theta)
        return (u < torch.sigmoid(theta)).to(theta.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (theta,) = ctx.saved_tensors
        p = torch.sigmoid(theta)
        return grad_output * p * (1 - p), None


def expected_loss(theta, u):
    p = torch.sigmoid(theta)
    return p * (1 - 0.49) ** 2 + (1 - p) * 0.49**2


def drawn_loss(theta, u):
    return (Coin.apply(theta, u) - 0.49) ** 2


every_u = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000


def descend(loss, steps=300, lr=6.0):
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        (grad,) = torch.autograd.grad(loss(theta.expand(1000), every_u).mean(), theta)
        theta = (theta - lr * grad).detach().requires_grad_()
    return torch.sigmoid(theta).item()


print(f"by the true gradient:  heads in {descend(expected_loss):.0%} of throws")
print(f"straight through:      heads in {descend(drawn_loss):.0%} of throws")

# %% [markdown]
# Even averaged over every possible throw, so without any noise, the estimator comes to rest at 49 %
# heads: there the mean of $2(b - 0.49)$ is zero. More data does not help, nor a smaller learning
# rate. A bias is not noise.
#
# ### Checkpoint 2
#
# With a coin at $p = 0.25$: the estimator's mean of $\partial L/\partial b$ is
# $\mathbb E[2(b - 0.49)]$. What is it? (The true slope $dL/dp$ is $+0.02$, whatever $p$.)

# %%
theta = torch.tensor(0.25).double().logit()
b = Coin.apply(theta.expand(1000), every_u)

predict(..., (2 * (b - 0.49)).mean())

# %% [markdown]
# <details><summary>Why</summary>
#
# $2 \cdot (0.25 - 0.49) = -0.48$: more than twenty times too large, and of the wrong sign. The
# estimator wants *more* heads.
#
# </details>
#
# Where does that leave the binary net, which trained so well? In a net, a loss depends on thousands
# of such draws or signs, each a small part of a sum; along each of them it is nearly linear, and
# there the estimator is nearly right. The coin is all of its loss. As a rule: many small
# contributions, fine levels, a smooth loss, and a check that the *quantized* net really improves.

# %% [markdown]
# ## Quantize with a learned step
#
# Between one bit and thirty-two lies what one really deploys: two, four, eight bits a weight. A
# *fake quantizer* rounds to the grid and stays in floating point, so that training sees what the
# chip will do:
#
# $$v = x / s, \qquad n = \text{clamp}(\text{round}(v),\ \text{low},\ \text{high}), \qquad
# y = s\,n .$$
#
# With two bits the levels are $n \in \{-2, -1, 0, 1\}$. How wide is the step $s$? Let it be
# learned, with the rest (*learned step size quantization*, LSQ). For $x$ the gradient is the
# clipped estimator. For $s$, hold the rounding error $n - v$ fixed, as the identity does for a
# rounding, and differentiate $s\,(v + (n - v))$ with $v = x/s$ by the product rule:
#
# $$\frac{\partial L}{\partial s} := \sum_i g_i \cdot
# \begin{cases} n_i - v_i & \text{low} \le v_i \le \text{high} \\
# n_i & \text{otherwise.}\end{cases}$$
#
# A *sum*, because one step serves all elements. (The paper divides it by
# $\sqrt{N \cdot \text{high}}$, so that the step does not outrun the weights. Adam, used below, does
# not notice such a factor.)
#
# Declared in one line of autograd, the surrogate reads:


# %%
def on_the_grid(x, step, low, high):
    v = (x / step).clamp(low, high)
    return step * (v + (v.round() - v).detach())


x = torch.tensor([-1.1, -0.35, 0.1, 0.27, 0.9], dtype=torch.float64)
step = torch.tensor(0.25, dtype=torch.float64)
print("x         ", x.tolist())
print("quantized ", FakeQuantize.apply(x, step, -2, 1).tolist())
diagnose(FakeQuantize, (x, step, -2, 1), surrogate=on_the_grid)

# %% [markdown]
# **Common belief: "$y = s\,n$, so the gradient of the step is $n$."** It forgets that $n$ depends
# on $s$ as well: of the same $x$, a wider step makes fewer. `diagnose` has a name for what is left
# out, here the $-v$.


# %%
class LevelTimesStep(FakeQuantize):
    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        v = x / step
        n = v.round().clamp(ctx.low, ctx.high)
        inside = (v >= ctx.low) & (v <= ctx.high)
        return grad_output * inside, (grad_output * n).sum(), None, None


diagnose(LevelTimesStep, (x, step, -2, 1), surrogate=on_the_grid)

# %% [markdown]
# ### Down to two bits
#
# *In depth: the learned step at work. Exercises 3 and 4 need only what stands above.*
#
# The net with real weights from above, brought down to two bits: first by rounding alone, then
# with 50 further steps of training through the quantizer (*quantization-aware training*). Each from
# three steps to begin with: one that fits, one that is fifteen times too narrow, one three times
# too wide.


# %%
def quantized_net(x, weights, steps):
    first, second = (FakeQuantize.apply(w, s, -2, 1) for w, s in zip(weights, steps, strict=True))
    return torch.tanh(x @ first / 8) @ second / 8


def quantize(width, updates, learn_step):
    weights = [w.detach().clone().requires_grad_() for w in real_weights]
    steps = [(width * w.detach().abs().mean()).requires_grad_(learn_step) for w in weights]
    groups = [{"params": weights}, {"params": steps if learn_step else [], "lr": 0.02}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    for _ in range(updates):
        loss = cross_entropy(quantized_net(images[seen], weights, steps), labels[seen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    guesses = quantized_net(images[unseen], weights, steps).argmax(-1)
    return (guesses == labels[unseen]).double().mean().item()


print(f"real weights: {real_right:.0%}\n")
print("two bits a weight          step fits   too narrow   too wide")
for name, updates, learn_step in (
    ("rounded, not trained", 0, False),
    ("trained, step fixed", 50, False),
    ("trained, step learned", 50, True),
):
    rights = [quantize(width, updates, learn_step) for width in (1.5, 0.1, 4.5)]
    print(f"{name:25}{rights[0]:>11.0%}{rights[1]:>13.0%}{rights[2]:>11.0%}")

# %% [markdown]
# A step that fits leaves little to repair. From a narrow one, training recovers a part of what was
# lost, and with a learned step all of it. Not from every start: where the step is so wide that
# every weight rounds to zero, the hidden values are zero, so are all gradients, and no estimator
# has anything to pass on. Begin narrow rather than wide.
#
# ### PyTorch's fake quantizer
#
# *In depth: for the day on which you compare yours with it.*
#
# PyTorch has a fake quantizer, whose backward is the clipped estimator for $x$. Its public form
# knows no gradient for the step, and says so:

# %%
x = torch.tensor([-0.6, 0.1, 0.3, 0.36, 0.4], dtype=torch.float32, requires_grad=True)
y = torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -2, 1)
print("x / step", *(f"{v:6.2f}" for v in (x / 0.25).tolist()))
print("gradient", *(f"{v:6.2f}" for v in torch.autograd.grad(y.sum(), x)[0].tolist()))
step = torch.tensor(0.25, requires_grad=True)
try:
    torch.fake_quantize_per_tensor_affine(x, step, torch.tensor(0), -2, 1)
except RuntimeError as error:
    print("a step that requires grad:", str(error).split("' is ")[1].split(". ")[0])

# %% [markdown]
# Compare the two lines: 1.20 and 1.44 lie above `high`, which is 1, and yet the gradient passes.
# PyTorch clips by the *rounded* level, LSQ by $v$ itself; the windows differ by half a step on each
# side. Neither is wrong. But compare an implementation with another, and this is where they part.

# %% [markdown]
# ## Sample a choice
#
# *In depth: this section, to the end of checkpoint 3. Skip it on a first reading; exercises 5 and
# 6 need "Soft" and "Hard".*
#
# A net may have to *choose*: one of sixteen codes, one expert, one word. A choice drawn from
# $\text{softmax}(\ell)$ has no gradient for two reasons: it is discrete, and it is random. The
# *Gumbel-max trick* separates the two. Add independent noise $n_k = -\log(-\log u_k)$ to the
# logits, take the largest, and this *is* a draw from the softmax:

# %%
logits = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
rng = torch.Generator().manual_seed(0)
draws = (logits + gumbel_noise(logits.expand(100_000, 3), rng)).argmax(-1)
print("softmax:", *(f"{p:.2f}" for p in logits.softmax(-1).tolist()))
print("drawn:  ", *(f"{(draws == k).double().mean():.2f}" for k in range(3)))

# %% [markdown]
# The randomness is an *input* now. Given the noise, what is left is a deterministic function of the
# logits, which can be differentiated, and tested again with the same noise. So give a sampling
# Function its noise as an argument.
#
# ### Soft
#
# Replace the largest by a softmax with temperature $\tau$: $p = \text{softmax}((\ell + n)/\tau)$. A
# small $\tau$ brings $p$ close to one-hot, and its slope with it to zero nearly everywhere, as the
# steep tanh did; a large one blurs the choice. For any $\tau$ it is smooth, so it has a true
# gradient, and there is nothing to declare:
#
# $$\frac{\partial L}{\partial \ell} = \frac{1}{\tau}\,
# p \odot \bigl(g - \textstyle\sum_k g_k p_k\bigr).$$
#
# **Common belief: "for Gumbel-softmax, backward returns `grad_output`; it is an STE after all."**
# Not for the soft sample. At fixed noise `gradcheck` itself can say so.


# %%
class SoftSample(Function):
    """p = softmax((logits + noise) / τ); the gradient passed as if there were no softmax."""

    @staticmethod
    def forward(ctx, logits, noise, temperature):
        return ((logits + noise) / temperature).softmax(-1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None, None


rng = torch.Generator().manual_seed(1)
logits = torch.randn(4, 5, generator=rng, dtype=torch.float64, requires_grad=True)
noise = gumbel_noise(logits.detach(), rng)
for f in (SoftSample, GumbelSoftmax):
    print(f"{f.__name__:14}", gradcheck(f.apply, (logits, noise, 0.5), raise_exception=False))

# %% [markdown]
# ### Hard
#
# A soft sample is no choice: it is a mixture. If the forward must choose, it returns the one-hot of
# the largest, and backward declares the soft sample as its surrogate. Note which $p$ enters the
# formula: the soft one. The one-hot in its place gives $y \odot (g - g \cdot y) = 0$, always.

# %%
hard = GumbelSoftmax.apply(logits, noise, 0.5, True)
print("values in a hard sample:", hard.unique().tolist())


def soft_sample(logits, noise, temperature, hard):
    return ((logits + noise) / temperature).softmax(-1)


diagnose(GumbelSoftmax, (logits, noise, 0.5, True), surrogate=soft_sample)

# %% [markdown]
# Does it matter which? Compress each digit into *one of sixteen* codes: an encoder gives sixteen
# logits, a code is drawn, and a decoder, which is nothing but sixteen images, turns it back. Three
# ways to train it: soft; hard, with the soft surrogate; hard, with the identity, $h(\ell) = \ell$,
# which is what `return grad_output` declares. In use there is no noise and no mixture: one code,
# the likeliest.


# %%
class IdentitySample(Function):
    """One-hot at the largest logit + noise; declared surrogate: the logits themselves."""

    @staticmethod
    def forward(ctx, logits, noise):
        return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


def compress(sample, steps=100):
    rng = torch.Generator().manual_seed(0)
    encoder = (0.1 * torch.randn(64, 16, generator=rng, dtype=torch.float64)).requires_grad_()
    start = 0.1 * torch.randn(16, 64, generator=rng, dtype=torch.float64)
    decoder = (images[seen].mean(0) + start).requires_grad_()
    optimizer = torch.optim.Adam([encoder, decoder], lr=0.05)
    for _ in range(steps):
        logits = images[seen] @ encoder
        code = sample(logits, gumbel_noise(logits.detach(), rng))
        loss = (code @ decoder - images[seen]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    chosen = one_hot((images[unseen] @ encoder).argmax(-1), 16).double()
    return loss.item(), (chosen @ decoder - images[unseen]).square().mean().item(), decoder.detach()


# %%
blank = (images[seen] - images[seen].mean(0)).square().mean().item()
ways = {
    "soft": lambda logits, noise: GumbelSoftmax.apply(logits, noise, 1.0),
    "hard, soft surrogate": lambda logits, noise: GumbelSoftmax.apply(logits, noise, 1.0, True),
    "hard, identity": IdentitySample.apply,
}
print("error, to the nearest 5 % of the mean image's   in training   in use")
for name, sample in ways.items():
    trained, used, codes = compress(sample)
    print(f"{name:44}{5 * round(20 * trained / blank):>12}%{5 * round(20 * used / blank):>8}%")

# %% jupyter={"source_hidden": true}
tiles = torch.full((2 * 9, 8 * 9), float("nan"), dtype=torch.float64)
for k, code in enumerate(codes.clamp(-1, 1).reshape(16, 8, 8)):
    row, column = 9 * (k // 8), 9 * (k % 8)
    tiles[row : row + 8, column : column + 8] = code
with figure(width=8.0, height=2.3) as (axes,):
    axes.imshow(tiles, cmap="gray_r")
    axes.set(title="the sixteen codes, as the decoder draws them")
    axes.axis("off")

# %% [markdown]
# Trained soft, the loss promises more than it keeps: it was earned with mixtures, and in use there
# are none. Trained hard, the loss of training is that of use. And the identity, wrong as the
# gradient of a soft sample, is a legal surrogate of a hard one; here it does no worse. No formula
# tells that beforehand. What is not legal is to return it *without saying so*: declared, it can be
# tested, and compared.
#
# ### ReinMax
#
# For a sampled choice there is a true gradient once more, that of the expected loss,
# $\sum_k p_k L(k)$. For few choices we can compute it, and the mean of an estimator over all draws
# as well. The plain estimator declares $p = \text{softmax}(\ell)$; it was right where the loss is
# linear. *ReinMax* averages the slope at both ends, as the trapezoidal rule does. With
# $m = (p + y)/2$ and $J(q)^\top g = q \odot (g - g \cdot q)$,
#
# $$\frac{\partial L}{\partial \ell} := 2\,J(m)^\top g - \tfrac12\,J(p)^\top g .$$


# %%
def straight_softmax(logits, noise):
    p = logits.softmax(-1)
    hard = one_hot((logits + noise).argmax(-1), len(logits)).to(p)
    return hard - p.detach() + p


def gradients(loss, logits, *estimators):
    """The gradient of the expected loss, then the mean of each estimator over all draws."""
    leaf = logits.clone().requires_grad_()
    choices = torch.eye(len(logits), dtype=logits.dtype)
    p = leaf.softmax(-1)
    yield torch.autograd.grad(sum(p[k] * loss(choices[k]) for k in range(len(p))), leaf)[0]
    for estimator in estimators:
        drawn = [loss(estimator(leaf, 1e3 * choice)) for choice in choices]  # this noise decides
        mean = sum(p[k].item() * drawn[k] for k in range(len(p)))
        yield torch.autograd.grad(mean, leaf)[0]


logits = torch.tensor([0.5, -0.3, 0.1], dtype=torch.float64)
levels = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
for power in (1, 2, 3):
    found = gradients(
        lambda y, power=power: (y @ levels - 0.49) ** power, logits, straight_softmax, ReinMax.apply
    )
    print(f"loss of degree {power}")
    for name, grad in zip(("true", "straight", "ReinMax"), found, strict=True):
        print(f"   {name:9}", *(f"{v:7.2f}" for v in grad.tolist()))

# %% [markdown]
# Degree 1: all agree. Degree 2: the straight-through estimator is off, ReinMax is exact. Degree 3:
# neither is, and ReinMax is even farther away; second order is a promise about losses that bend
# gently, not about all. It costs one more softmax. Where choices are few and each weighs much, as
# with the coin, it is worth trying.
#
# ### Checkpoint 3
#
# The coin again, as a choice between $b = 0$ and $b = 1$, at $p = 0.25$ and with the loss
# $(b - 0.49)^2$. What is the second component of ReinMax's mean gradient? (The true slope:
# $dL/dp = 0.02$, and $dp/d\ell_2 = p\,(1 - p)$.)

# %%
coin = torch.tensor([0.75, 0.25], dtype=torch.float64).log()
_, mean = gradients(lambda y: (y[1] - 0.49) ** 2, coin, ReinMax.apply)

predict(..., mean[1])

# %% [markdown]
# <details><summary>Why</summary>
#
# The loss is quadratic, so ReinMax's mean is the true gradient:
# $0.02 \cdot 0.25 \cdot 0.75 = 0.00375$. A coin that is trained by it ends where it should, at
# tails.
#
# </details>

# %% [markdown]
# ## Do you know it?
#
# Ten questions and one to write about: when does a biased estimator still train?

# %%
knowledge_check("05")

# %% [markdown]
# ## Summary
#
# ```python
# class Quantizer(torch.autograd.Function):
#     """y = q(x). Declared surrogate: h(x) = …; ∂L/∂x := h′(x) ∂L/∂y. At the bounds: …"""
#
#     @staticmethod
#     def forward(ctx, x):
#         ctx.save_for_backward(x.abs() <= 1)       # what h′ needs, a mask if that is all
#         return q(x)                               # exactly what will be deployed
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         (inside,) = ctx.saved_tensors
#         return grad_output * inside               # h′(x) · grad_output: still linear in it
#
# diagnose(Quantizer, x, surrogate=h)               # does backward do what is declared?
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | round, sign, floor | have a gradient, zero; no error, and the loss may fall all the same |
# | the estimator | runs $q$ forward and answers with $h'$; a decision, so write it down |
# | test | against the surrogate, never by training alone |
# | choose | as wide as the values are spread; steep is not better |
# | at the bounds | `<=` if weights are clamped there, or they stick |
# | in one line | `h + (q - h).detach()`, mind large values; for probabilities, the minus first |
# | bias | grows with the bend of $L$ between two levels; linear: none |
# | learned step | $\sum g\,(n - v)$ inside, $\sum g\,n$ outside: the rounding error held constant |
# | sampled choice | noise is an input; soft: true gradient, $1/\tau$; hard: declare the soft one |
# | trust | the quantized net's own loss, measured without noise and without mixtures |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/05_straight_through.ipynb): six estimators to write,
# each tested against its surrogate, and a binary net to train on the digits.
#
# [Lesson 06](06_double_backward.ipynb) differentiates a gradient once more, and shows how a saved
# intermediate makes the second derivative vanish in silence.
