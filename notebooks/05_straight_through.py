# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator
#
# **You will** train networks through a sign and a rounding, which have no usable gradient, and test
# the gradient that you put in its place.
#
# **You will learn** how to declare such a gradient and test it, how to choose one, where it is
# wrong and by how much, and how to quantize with a step that is learned.
#
# **You need** lesson 01: what `backward` returns, what `gradcheck` compares, and what `diagnose`
# reports.
#
# **It takes** about 55 minutes; the *extra* sections take another 15. The exercises come after it.

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
from torch.nn.functional import cross_entropy, hardtanh

from autograd_course import diagnose
from autograd_course.functions import FakeQuantize, RoundSTE
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, load_digits, note, predict
from autograd_course.visualize import compare_flows, knowledge_check, ste_lab

# %% [markdown]
# ## A net that cannot move
#
# A classifier for handwritten digits must run on a chip without a multiplier. So every weight must
# be +1 or −1: it takes one bit, and a product becomes an addition or a subtraction. The plan is to
# keep a real number behind each weight, which we call the *latent* weight. The forward pass takes
# its *sign*, and the optimizer moves the real number.
#
# The data are 1797 images of handwritten digits with 8 × 8 gray values each. One image in five is
# kept back. The net has two layers and 64 hidden values, and each step uses all images. After each
# step we clamp the latent weights to $[-1, 1]$: the sign does not depend on how large they are, and
# a weight that is far out takes long to come back.

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
# The forward pass needs only `torch.sign`.

# %%
sign_weights, sign_losses, sign_right = train(torch.sign)
print(f"loss: {sign_losses[0]:.4f} at the start, {sign_losses[-1]:.4f} after 100 steps")
print("largest gradient of any weight:", max(w.grad.abs().max().item() for w in sign_weights))
print(f"right among unseen digits: {sign_right:.0%}")

# %% [markdown]
# PyTorch raised no exception and gave no warning. The optimizer has run 100 times, and not one
# weight has moved. The gradient is there, it has the right shape, and it is zero everywhere. This
# is *true*: if you change a latent weight of 0.2 by a millionth, its sign stays the same. As a
# function of the latent weights, the loss is a landscape of flat terraces.

# %% [markdown]
# ## The whole thing, working
#
# Here is a Function with the same staircase in forward and a different backward. It returns
# `grad_output` as if the sign were not there, except where the latent weight is outside $[-1, 1]$.
# (At 0 it returns +1. `torch.sign` returns 0 there, which would be a third value.)


# %%
class Binarize(Function):
    """y = ±1; by design, backward passes grad_output where |x| ≤ 1."""

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
# With one bit per weight the net does as well as with sixty-four. And its gradient is wrong. It is
# not just inaccurate: we know the true gradient, and it is zero. This is a *straight-through
# estimator* (STE). The rest of the lesson answers three questions. What exactly did we claim? How
# can you test a gradient that is wrong on purpose? And when does a wrong gradient train?
#
# Watch the gradients flow with and without an STE for the rounding. The loss is
# $(\text{round}(x) \cdot y)^2$. Step with → and ←.


# %%
def plain(x, y):
    return (torch.round(x) * y) ** 2


def straight(x, y):
    return (RoundSTE.apply(x) * y) ** 2


compare_flows({"round": plain, "round with STE": straight}, torch.tensor(1.3), torch.tensor(3.0))

# %% [markdown]
# In forward, the two have the same values. In backward, the same gradient arrives at the rounding.
# Without the STE, it ends there.
#
# ### Three dead ends
#
# **Common belief: "rounding is not differentiable, so PyTorch raises an error."** Try it.


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
# A gradient can end in three ways. The first four functions have a derivative, which is zero, and
# return it without a warning. Functions that return booleans or integers leave no node in the
# graph. Here that raises an error, because nothing else requires a gradient. In a net whose last
# layer does, you see no error either. Only the last two always raise when you ask for a gradient.
#
# **Common belief: "the loss falls, so the gradient gets through."** We train the same net, this
# time with real weights. The sign replaces the tanh of the hidden *activations*.

# %%
for name, squash in (("torch.sign", torch.sign), ("Binarize", Binarize.apply)):
    weights, losses, right = train(lambda w: w, squash=squash)
    moved = "moved" if weights[0].grad.any() else "never moved"
    print(f"{name:11} loss {losses[0]:.1f} → {losses[-1]:.1f}, {right:.0%} right", end=" ")
    print(f"among unseen digits; the first layer {moved}")

# %% [markdown]
# With `torch.sign` the net gets four digits out of five right, and its first layer is still as
# random as in the first step. The last layer has learned to read random features. This form of the
# bug is more expensive, because it looks like a result. After the first step, look at the gradient
# of the *first* layer.

# %% [markdown]
# ## Declare the surrogate
#
# `forward` runs a staircase $q$. `backward` returns the vector-Jacobian product of another function
# $h$, which is called the *surrogate*:
#
# $$y = q(x), \qquad \frac{\partial L}{\partial x} := h'(x)\,\frac{\partial L}{\partial y},
# \qquad \frac{\partial L}{\partial y}\ \text{taken at}\ q(x).$$
#
# For `Binarize`, $q$ is the sign and $h(x) = \min(\max(x, -1), 1)$. We write $:=$ because this is
# not a derivative but a decision. State it in the docstring, where readers of the Function look for
# it. The rest stays true: autograd computes the upstream gradient at the quantized value, which
# really ran. Only this node uses $h$. So a net with an STE is not the same as a net that has $h$ in
# place of $q$.
#
# A staircase with several jumps is a constant plus a weighted sum of signs, one for each jump. Each
# of these signs can have its own surrogate.
#
# ### Without a Function
#
# *Extra: the same in one line, and where it breaks.*
#
# You can also write a surrogate in one line of plain autograd:
# $h(x) + \text{detach}(q(x) - h(x))$. In forward, $h$ cancels. In backward, the detached part (a
# *stop-gradient*) is a constant, and $h'$ remains.

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
# The two are equal. The line is the better choice for a quick trial. For code that stays, write a
# Function: it keeps only a mask (one byte per element), and it has a name and a docstring.
#
# **Common belief: "after the detach trick, the output of forward is only nearly hard."** That
# depends on the size of the values and on the order of the operations. Between 0 and 1 we can try
# *every* number of a format. Here $p$ is the soft value of the chosen entry, and 1 the hard one:

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
# If you write `hard - soft.detach() + soft`, the sample of a softmax is exactly hard. If you write
# the plus first, it is not, and a comparison with 1 fails somewhere far away. And where $h(x)$ is
# large, the trick breaks: the sign of 300 in bfloat16 is 0, and that of infinity is `nan`. A
# Function returns $q(x)$ and cannot round it away.

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
# `gradcheck` compares `backward` with the derivative of `forward`, but we want the derivative of
# the surrogate. The surrogate is an ordinary function, and autograd differentiates it. So a
# gradient that is wrong by design still has a right answer. By hand the test takes three lines.
# Note the random `grad_output`: with a plain `.sum()` you would not notice if `backward` ignored
# it.


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
# `diagnose` runs the same test, and everything that lesson 01 showed: other inputs, linearity,
# unusual shapes. Without a surrogate, `diagnose` reports that the Function looks like an STE and
# asks for one.

# %%
diagnose(Binarize, x)

# %%
diagnose(Binarize, x, surrogate=lambda x: x.clamp(-1, 1))

# %% [markdown]
# Here is a buggy variant of a kind that you will meet: its window forgets one side. Training does
# not show the bug, but the test does.


# %%
class HalfWindow(Binarize):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x <= 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


print(f"right among unseen digits: {train(HalfWindow.apply)[2]:.0%}")
diagnose(HalfWindow, x, surrogate=lambda x: x.clamp(-1, 1))

# %% [markdown]
# The net does as well as before, because the training loop clamps its weights. The bug appears when
# somebody trains without clamping.
#
# So there are two separate questions. *Does `backward` return the derivative of the surrogate?* A
# test gives a yes-or-no answer. *Is the surrogate any good?* Only an experiment can
# answer this, and the next sections do. If you ask only the second question, by training, then a
# bug in `backward` looks like a poor estimator.
#
# ### Checkpoint 1
#
# Finish this sign with the surrogate $h(x) = \tanh(x)$. `backward` returns `None`. Replace it, and
# run the cell again. (Recall $\tanh' = 1 - \tanh^2$.)


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
# Saving the output is not enough: $y = \pm 1$ does not tell you what $x$ was.
#
# </details>

# %% [markdown]
# ## Choose a surrogate
#
# For a sign, these are the usual surrogates:
#
# | surrogate | $h'(x)$ | what it does far from the jump |
# | --- | --- | --- |
# | identity | 1 | passes everything, so a latent value may run away |
# | clipped | 1 for $\lvert x\rvert \le 1$, else 0 | stops, so a value outside stays outside |
# | tanh | $1 - \tanh^2 x$ | fades |
# | sigmoid window | $k\,\sigma(kx)\,(1 - \sigma(kx))$, scaled | fades, faster for a larger $k$ |
#
# (Lesson 10 adds surrogates for a choice that is *sampled*.)
#
# Choose a quantizer and a surrogate, and drag $x$. The plot on the left shows the staircase and the
# surrogate. The plot on the right shows the slope of the surrogate, which `backward` returns. The
# dashed *chord* connects two points of the staircase, one unit to the left of $x$ and one unit to
# the right. Its slope is that of the staircase, seen from afar. Below, small nets learn a
# checkerboard, each with a different surrogate. They are trained already. *Train again* starts
# over.

# %%
ste_lab("sign", "clipped", x=0.4)

# %% [markdown]
# You can pass your own Function as a class, alone or next to others:
# `ste_lab({"mine": Binarize, "beside": "tanh"})`. The net called *zero (true)* uses the true
# derivative, so only its last layer learns. The identity, which never stops, does little better
# here.
#
# **Common belief: "the closer the surrogate is to the staircase, the better the gradient."** If so,
# a steep tanh, $h(x) = \tanh(kx)$ with a large $k$, should be best.


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
# The closer the surrogate is to the staircase, the closer its gradient is to zero nearly
# everywhere. Only a weight within about $1/k$ of the jump gets a gradient. A useful surrogate is as
# wide as the latent values are spread. It is useful *because* it is wrong.
#
# ### Where the gradient stops
#
# *Extra: why `Binarize` has `<=` and not `<`.*
#
# Does the clipped estimator pass the gradient at exactly $\lvert x \rvert = 1$? The clip has a kink
# there and no derivative. PyTorch's note [Autograd
# mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html) documents a rule for kinks.
# Where a function is convex, PyTorch returns the subgradient of minimum norm. Where it is concave,
# it returns the supergradient of minimum norm. Elsewhere it goes by continuity. At both bounds of a
# clip the slopes on the two sides are 0 and 1, so the rule gives 0. Here is what the functions do:

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
# `hardtanh` follows the rule. So do `minimum` and `maximum`: they have two inputs, which share the
# slope, and $(\tfrac12, \tfrac12)$ is the shortest vector that shares it. In PyTorch 2.13 `clamp`
# breaks the rule. [PyTorch 2.14 corrects this](https://github.com/pytorch/pytorch/issues/184574):
# there, `clamp` stops at both bounds.
#
# A surrogate is your own function, so the choice is yours. `Binarize` passes the gradient at the
# bounds.
#
# **Common belief: "single points do not matter."** These two matter, because the training loop
# *puts* weights there: it clamps them to $[-1, 1]$ after each step. In the net above:

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
# Most weights of the last layer are exactly on the kink. With `<`, a weight that reaches the bound
# stays there: for ten steps the loss pushes it back, and its gradient is zero. (The net above does
# not suffer. Adam continues for a while in the direction of earlier gradients, and carries weights
# off the bound. So the bug stays hidden until somebody trains with plain gradient descent.) State
# the convention in the docstring, and use `<=` if you clamp.

# %% [markdown]
# ## The bias, made visible
#
# How wrong is the estimator, and what would be right? A single rounding has the slope 0, which is
# of no use. But add a little noise before you round: $y = \text{round}(x + u)$, with $u$ uniform in
# $[-\tfrac12, \tfrac12)$. Then the *expected* loss has a useful slope: as $x$ moves from one
# integer to the next, the higher level becomes more likely. So there is a true gradient to compare
# with. The difference between the mean of the estimator and the true gradient is the estimator's
# *bias*.
#
# We compare two losses: a parabola, and the same parabola with ripples that are as long as one
# step.

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
# On the left, the estimator (dashed) is a straight line through the middle of the true stairs. It
# is biased nearly everywhere, by up to half a stair. But it has the right sign, and on average over
# a step it is right. For a *linear* loss the two are equal: $\mathbb E[y] = x$, so passing the
# gradient straight through is exactly right.
#
# On the right, the true slope is the same: rounding sees the loss only at integers, where the
# ripples are zero. But the estimator uses the *slope* of $L$ at the integers, and the ripples
# dominate it. Training stops where the dashed line is zero, near $-1.9$. The true slope there is
# $-0.75$, and the minimum is at 0.
#
# So the bias grows with how much $L$ bends between one level and the next. It hardly matters if the
# levels are fine and the loss is smooth at their scale. It does matter if the levels are coarse, or
# if something sharp follows the quantizer.

# %% [markdown]
# ### Resting in the wrong place
#
# **Common belief: "a biased estimator converges to the same point, only slower."** A coin shows
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
# We averaged over every possible throw, so there is no noise. Still, the estimator stops at 49 %
# heads, where the mean of $2(b - 0.49)$ is zero. More data does not help, and neither does a
# smaller learning rate. A bias is not noise.
#
# ### Checkpoint 2
#
# For a coin with $p = 0.25$, the mean of the estimated $\partial L/\partial b$ is
# $\mathbb E[2(b - 0.49)]$. What is it? (The true slope $dL/dp$ is $+0.02$ for every $p$.)

# %%
theta = torch.tensor(0.25).double().logit()
b = Coin.apply(theta.expand(1000), every_u)

predict(..., (2 * (b - 0.49)).mean())

# %% [markdown]
# <details><summary>Why</summary>
#
# $2 \cdot (0.25 - 0.49) = -0.48$. This is more than twenty times too large and has the wrong sign:
# the estimator asks for *more* heads.
#
# </details>
#
# Then why did the binary net train so well? Its loss depends on thousands of signs, and each of
# them is a small part of a sum. Along each of them the loss is nearly linear, so the estimator is
# nearly right. The loss of the coin depends on the coin alone. As a rule, an STE works with many
# small contributions, fine levels and a smooth loss. Always check that the *quantized* net
# improves.

# %% [markdown]
# ## Quantize with a learned step
#
# In practice, people deploy two, four or eight bits per weight. A *fake quantizer* rounds to the
# grid and stays in floating point, so that training sees what the chip will do:
#
# $$v = x / s, \qquad n = \text{clamp}(\text{round}(v),\ \text{low},\ \text{high}), \qquad
# y = s\,n .$$
#
# With two bits the levels are $n \in \{-2, -1, 0, 1\}$. How wide should the step $s$ be? The net
# can learn it together with the weights (*learned step size quantization*, LSQ). For $x$, the
# gradient is the clipped estimator. For $s$, treat the rounding error $n - v$ as a constant, as the
# identity does for a rounding. Then differentiate $s\,(v + (n - v))$ with $v = x/s$ by the product
# rule:
#
# $$\frac{\partial L}{\partial s} := \sum_i g_i \cdot
# \begin{cases} n_i - v_i & \text{low} \le v_i \le \text{high} \\
# n_i & \text{otherwise.}\end{cases}$$
#
# It is a *sum*, because one step serves all elements. (The paper divides the sum by
# $\sqrt{N \cdot \text{high}}$, so that the step does not change faster than the weights. With Adam,
# which we use below, such a factor makes no difference.)
#
# Here is the surrogate in plain autograd:


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
# **Common belief: "$y = s\,n$, so the gradient of the step is $n$."** This forgets that $n$ depends
# on $s$ too: with a wider step, the same $x$ has a smaller level. `diagnose` reports the missing
# term $-v$ as `missing-dependency`.


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
# *Extra: the learned step at work.*
#
# We quantize the net with real weights from above to two bits. First we only round its weights.
# Then we train it for 50 more steps through the quantizer (*quantization-aware training*). Each
# time we start from three steps: one that fits, one that is fifteen times too narrow, and one that
# is three times too wide.


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
# A step that fits leaves little to repair. From a narrow step, training recovers a part of what was
# lost, and with a learned step it recovers all of it. This does not work from every start. If the
# step is so wide that every weight rounds to zero, the hidden values are zero, and so are all
# gradients. Then no estimator has anything to pass on. Start narrow rather than wide.
#
# ### PyTorch's fake quantizer
#
# *Reference: for when you compare your quantizer with PyTorch's.*
#
# PyTorch has a fake quantizer, whose backward is the clipped estimator for $x$. Its public form has
# no gradient for the step, and raises an error if you ask for one:

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
# Compare the two lines. 1.20 and 1.44 are above `high`, which is 1, and yet the gradient passes.
# PyTorch clips by the *rounded* level, and LSQ clips by $v$ itself. So the windows differ by half a
# step on each side. Neither is wrong, but if you compare two implementations, they differ here.

# %% [markdown]
# ## Do you know it?
#
# Eight questions, and one to write about: when does a biased estimator still train?

# %%
knowledge_check("05")

# %% [markdown]
# ## Summary
#
# ```python
# class Quantizer(torch.autograd.Function):
#     """y = q(x). Surrogate: h(x) = …; ∂L/∂x := h′(x) ∂L/∂y. At the bounds: …"""
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
# diagnose(Quantizer, x, surrogate=h)               # does backward return the derivative of h?
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | round, sign, floor | have a zero gradient; you see no error, and the loss may still fall |
# | the estimator | runs $q$ in forward and uses $h'$ in backward; state $h$ in the docstring |
# | test | against the surrogate, never by training alone |
# | choose | a surrogate as wide as the values are spread; steeper is not better |
# | at the bounds | use `<=` if you clamp weights there, or they get stuck |
# | in one line | `h + (q - h).detach()`; large values round $q$ away |
# | bias | grows with the bend of $L$ between two levels; a linear $L$ has none |
# | learned step | $\sum g\,(n - v)$ inside, $\sum g\,n$ outside: the rounding error held constant |
# | trust | the quantized net's own loss, measured on data it has not seen |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/05_straight_through.ipynb): you write five estimators,
# each tested against its surrogate, and train a binary net on the digits.
#
# [Lesson 06](06_double_backward.ipynb) differentiates a gradient again, and shows how a saved
# intermediate makes the second derivative vanish without a warning.
