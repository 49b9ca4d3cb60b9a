# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/05_straight_through.ipynb)
#
# # 05 · The straight-through estimator
#
# **You will** train networks through a sign and a rounding, whose derivative is zero, and test the
# gradient that you use instead.
#
# **You will learn** how to specify such a gradient, how to test and choose it, how wrong it is, and
# how to quantize with a learned step.
#
# **You need** lesson 01: what `backward` returns, what `gradcheck` compares, and what `diagnose`
# reports. You also need `setup_context` from lesson 02.
#
# **It takes** about 60 minutes; the *extra* sections take another 15. There are two
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
from torch.autograd import Function, gradcheck
from torch.nn.functional import cross_entropy, hardtanh

from autograd_course import diagnose, functions, grade, hint  # noqa: F401
from autograd_course.lesson import (
    BLUE,
    GRAY,
    ORANGE,
    figure,
    load_digits,
    note,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import compare_flows, knowledge_check, ste_lab

# %% [markdown]
# ## A net that cannot move
#
# A classifier for handwritten digits must run on a chip that cannot multiply. So every weight must
# be +1 or −1. Then a product is an addition or a subtraction, and a weight takes one bit. During
# training we store a real number for each weight, the *latent* weight. The forward pass uses its
# *sign*, and the optimizer changes the real number.
#
# The data are 1797 images of digits with 8 × 8 gray values each. We hold out one image in five to
# test the net. The net has two layers and 64 hidden values, and `train` runs 100 steps of Adam.
# After each step it clamps the latent weights to $[-1, 1]$, because a weight that is far out takes
# a long time to come back.

# %% jupyter={"source_hidden": true}
images, labels = load_digits()
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
images, labels = images[order], labels[order]
seen, unseen = slice(0, 1437), slice(1437, None)


def net(x, weights, binarize, squash=torch.tanh):
    # each sum has 64 terms, so we divide it by √64 to stay in the range of tanh
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
# You pass `train` the function that turns the latent weights into ±1. The obvious choice is
# `torch.sign`.

# %%
sign_weights, sign_losses, sign_right = train(torch.sign)
print(f"loss: {sign_losses[0]:.4f} at the start, {sign_losses[-1]:.4f} after 100 steps")
print("largest gradient of any weight:", max(w.grad.abs().max().item() for w in sign_weights))
print(f"right among unseen digits: {sign_right:.0%}")

# %% [markdown]
# PyTorch raised no error and gave no warning. The optimizer ran 100 times, but no weight moved,
# because every gradient is zero. This gradient is *correct*. If you change a latent weight of 0.2
# by a millionth, its sign stays the same, and so does the loss.

# %% [markdown]
# ## Your first straight-through estimator
#
# Here is the sign function as a Function. Its `backward` returns the true gradient, which is zero.
# (At 0, it returns +1. `torch.sign` returns 0 there, which would be a third weight.)
#
# **Your turn.** Return `grad_output` unchanged, as if the sign were not there, and run the cell.


# %%
class Sign(Function):
    """y = +1 where x ≥ 0, else −1."""

    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass  # backward needs nothing from forward

    @staticmethod
    def backward(ctx, grad_output):
        return 0 * grad_output  # type the new gradient here


print(f"right among unseen digits: {train(Sign.apply)[2]:.0%}")

# %% [markdown]
# With `return grad_output`, the net gets 94% of the unseen digits right. Yet this gradient is
# wrong: we know that the true gradient is zero. A Function that runs a step function in `forward`
# and passes a gradient through it in `backward` is called a *straight-through estimator* (STE). The
# gradient is called a *surrogate gradient*.
#
# The rest of the lesson answers three questions. What exactly did we claim? How can you test a
# gradient that is wrong on purpose? And when does a wrong gradient train a net?
#
# The most common version is the *clipped* STE. It passes the gradient only where the latent weight
# is inside $[-1, 1]$, so that the optimizer does not push a weight further and further out.


# %%
class Binarize(Function):
    """y = ±1; by design, backward passes grad_output where |x| ≤ 1."""

    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x.abs() <= 1)

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
    note(axes, f"torch.sign: {sign_right:.0%} right, no change", (45, 2.75), ORANGE)
    note(axes, f"Binarize: {ste_right:.0%} right with one bit per weight", (4, 0.12), BLUE)
    note(axes, f"real weights: {real_right:.0%} right", (31, 1.12), GRAY)

# %% [markdown]
# With one bit per weight, the net classifies as well as with 64 bits per weight.
#
# ### Two backward passes
#
# *Extra: watch the gradient with and without an STE.*
#
# The next picture shows how an STE changes the backward pass. The loss is
# $(\text{round}(x) \cdot y)^2$, once with `torch.round` and once with a rounding whose `backward`
# returns `grad_output`. Step with → and ←.


# %%
def plain(x, y):
    return (torch.round(x) * y) ** 2


def straight(x, y):
    return (functions.RoundSTE.apply(x) * y) ** 2


compare_flows({"round": plain, "round with STE": straight}, torch.tensor(1.3), torch.tensor(3.0))

# %% [markdown]
# In the forward pass, both have the same values. In the backward pass, the same gradient arrives at
# the rounding. Without the STE, it ends there.
#
# ### Three ways to lose a gradient
#
# How does PyTorch treat the other functions that return steps? Vote for what you expect before you
# run the cell. Some of the beliefs in this lesson are true.

# %%
vote("05", "rounding-raises")

# %%
for name, f in (
    ("torch.round", torch.round),
    ("torch.sign", torch.sign),
    ("x > 0", lambda x: (x > 0).float()),
    ("argmax", lambda x: x.argmax().float()),
    ("x // 1", lambda x: x // 1),
    ("heaviside", lambda x: torch.heaviside(x, torch.ones(3))),
):
    print(name)
    x = torch.tensor([-1.5, 0.2, 0.7], requires_grad=True)
    with show_error():
        f(x).sum().backward()
        print("gradient", x.grad.tolist())

# %% [markdown]
# A gradient can end in three ways.
#
# - `round` and `sign` have a derivative, which is zero, and return it without a warning. So do
#   `floor`, `ceil` and `trunc`.
# - Comparisons, `argmax` and `int()` return booleans or integers, which have no node in the graph.
#   The cell raises an error only because nothing else requires a gradient. If a later layer of your
#   net requires a gradient, you see no error.
# - `//` and `heaviside` always raise an error when you ask for a gradient.
#
# Nor does a falling loss prove that the gradient gets through. The next cell trains the same net
# with real weights and *binary activations*: the sign replaces the tanh.

# %%
for name, squash in (("torch.sign", torch.sign), ("Binarize", Binarize.apply)):
    weights, losses, right = train(lambda w: w, squash=squash)
    share = (weights[0].grad != 0).double().mean().item()
    print(f"{name:11} loss {losses[0]:.1f} → {losses[-1]:.1f}, {right:.0%} of unseen digits right")
    print(f"            {share:.0%} of the weights in the first layer get a gradient")

# %% [markdown]
# With `torch.sign`, the net gets four digits out of five right, and its first layer is still as
# random as before the first step. Only the last layer has learned anything, and its inputs are
# random features. This form of the bug is expensive, because it looks like a mediocre result. So
# look at the gradient of the *first* layer after the first step.

# %% [markdown]
# ## Declare the surrogate
#
# An STE has two functions. `forward` runs a step function $q$. `backward` returns the
# vector-Jacobian product of a differentiable function $h$, the *surrogate*:
#
# $$y = q(x), \qquad \frac{\partial L}{\partial x} := h'(x)\,\frac{\partial L}{\partial y},
# \qquad \frac{\partial L}{\partial y}\ \text{taken at}\ q(x).$$
#
# For `Sign`, $h(x) = x$. For `Binarize`, $h(x) = \min(\max(x, -1), 1)$. We write $:=$ because this
# is a decision and not a derivative. To *declare* the surrogate means to write it into the
# docstring.
#
# Only this one node uses $h$. The rest of the net sees $q(x)$, so autograd computes
# $\partial L / \partial y$ at the quantized value. Therefore a net with an STE is not the same as a
# net that has $h$ in place of $q$.
#
# A step function with several jumps is a constant plus a weighted sum of signs, one sign for each
# jump. Each of these signs can have its own surrogate.
#
# ### Exercise 1: sign, straight through
#
# Now write all three methods yourself. The surrogate is $h(x) = x$. The output at 0 is +1, and it
# has the dtype of `x`. `grade` compares `forward` with its formula, and `backward` with the
# derivative of the surrogate. If you are stuck, run `hint("sign-ste")` in a new cell.


# %%
class SignSTE(Function):
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
grade("sign-ste", SignSTE)

# %% [markdown]
# ### Without a Function
#
# *Extra: an STE in one line of plain autograd, and where it fails.*
#
# You can also write $h(x) + \text{detach}(q(x) - h(x))$. In the forward pass, $h$ cancels out. In
# the backward pass, the detached part is a constant, so only $h'$ remains. (Papers and JAX call
# `detach` a *stop-gradient*.)

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
# The two are equal. To try something out quickly, write the line. For code that you keep, write a
# Function, because it has a name and a docstring and saves only a mask, which takes one byte per
# element.
#
# Is the output of this line exactly $q(x)$? That depends on the order of the operations and on the
# size of the values. Between 0 and 1 we can try *every* number of a format. Here $p$ is the soft
# value of the chosen entry, and 1 is the hard value:

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
# If you write `hard - soft.detach() + soft`, the sample of a softmax is exactly hard. If you put
# the plus first, it is not, and a later comparison with 1 fails. If $h(x)$ is large, the line is
# wrong in any order: the sign of 300 in bfloat16 becomes 0, and the sign of infinity becomes `nan`.
# A Function returns $q(x)$ itself, so nothing is rounded.

# %% [markdown]
# ## Test what is wrong by design
#
# `Binarize` does what we want. Does it pass `gradcheck`?

# %%
vote("05", "ste-fails-gradcheck")

# %%
x = torch.tensor([-1.7, -0.4, 0.3, 2.2], dtype=torch.float64, requires_grad=True)
with show_error(1000):
    gradcheck(Binarize.apply, x)

# %% [markdown]
# It fails. `numerical` is the derivative of `forward`, which is zero, and `analytical` is what
# `backward` returned. But you can still test an STE, because it has a right answer: the derivative
# of the surrogate. The surrogate is an ordinary function, and autograd differentiates it. Note the
# random `grad_output`. With a plain `.sum()`, you would not notice if `backward` ignored it.


# %%
def difference(f, surrogate, x):
    """Return the largest difference between f's backward and the derivative of the surrogate."""
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
    (returned,) = torch.autograd.grad(f(x), x, g)
    (declared,) = torch.autograd.grad(surrogate(x), x, g)
    return (returned - declared).abs().max().item()


def clip(x):
    return x.clamp(-1, 1)


print(f"from the clip:     {difference(Binarize.apply, clip, x):.2f}")
print(f"from the identity: {difference(Binarize.apply, lambda x: 1 * x, x):.2f}")

# %% [markdown]
# `diagnose` makes the same comparison and runs all the tests from lesson 01: other inputs,
# linearity and unusual shapes. If you pass no surrogate, `diagnose` reports that the Function looks
# like an STE and asks for its surrogate.

# %%
diagnose(Binarize, x)

# %%
diagnose(Binarize, x, surrogate=clip)

# %% [markdown]
# Here is a buggy version. Its mask forgets the lower side. Does training show the bug?

# %%
vote("05", "half-window")


# %%
class HalfWindow(Binarize):
    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x <= 1)


print(f"right among unseen digits: {train(HalfWindow.apply)[2]:.0%}, before {ste_right:.0%}")
diagnose(HalfWindow, x, surrogate=clip)

# %% [markdown]
# Training does not show it, because the loop clamps the weights, so no weight is ever below −1. The
# bug appears when somebody trains without the clamp. The test finds it at once.
#
# So ask two separate questions. *Does `backward` return the derivative of the surrogate?* A test
# says yes or no. *Is the surrogate any good?* Only an experiment can answer that. If you ask only
# the second question, a bug in `backward` looks like a poor estimator.
#
# ### Checkpoint 1
#
# Finish this sign Function with the surrogate $h(x) = \tanh(x)$. Its `backward` returns `None`.
# Replace `None`, and run the cell again. (Recall that $\tanh' = 1 - \tanh^2$.)


# %%
class TanhSign(Function):
    """y = ±1; surrogate tanh(x)."""

    @staticmethod
    def forward(x):
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        return None  # get x, and multiply grad_output by the slope of tanh


diagnose(TanhSign, x, surrogate=torch.tanh)

# %% [markdown]
# <details><summary>Why</summary>
#
# ```python
# (x,) = ctx.saved_tensors
# return grad_output * (1 - torch.tanh(x) ** 2)
# ```
#
# You cannot save the output instead of $x$, because $y = \pm 1$ does not determine $x$.
#
# </details>

# %% [markdown]
# ## Choose a surrogate
#
# For a sign, these surrogates are common:
#
# | surrogate | $h'(x)$ | far from the jump |
# | --- | --- | --- |
# | identity | 1 | passes everything, so a latent value may run away |
# | clipped | 1 for $\lvert x\rvert \le 1$, else 0 | passes nothing, so a value stays outside |
# | tanh | $1 - \tanh^2 x$ | decreases smoothly to 0 |
# | sigmoid window | $k\,\sigma(kx)\,(1 - \sigma(kx))$, scaled | decreases faster for a larger $k$ |
#
# (Lesson 10 adds surrogates for a choice that is *sampled*.)
#
# In the next picture, choose a quantizer and a surrogate, and drag $x$. The left plot shows the
# step function (the *staircase*) and the surrogate. The right plot shows the slope of the
# surrogate. `backward` multiplies by this slope. The dashed *chord* connects the points of the step
# function one unit to the left and one unit to the right of $x$. Below, small nets have learned a
# checkerboard, each with a different surrogate. *Train again* trains them from another starting
# point.

# %%
ste_lab("sign", "clipped", x=0.4)

# %% [markdown]
# The net called *zero (true)* uses the true derivative, so only its last layer learns. The identity
# does little better here. You can also pass your own Function, alone or next to others:
# `ste_lab({"mine": Binarize, "tanh": "tanh"})`.
#
# The surrogate $h(x) = \tanh(kx)$ comes closer to the sign as $k$ grows.

# %%
vote("05", "closer-is-better")


# %%
class SteepSign(Function):
    """y = ±1; surrogate tanh(k·x)."""

    @staticmethod
    def forward(x, k):
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.k = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * ctx.k * (1 - torch.tanh(ctx.k * x) ** 2), None


for k in (1, 10, 100, 1000):
    _, _, right = train(lambda w, k=k: SteepSign.apply(w, k), steps=50)
    print(f"k = {k:>4}: {right:.0%} right")

# %% [markdown]
# The closer the surrogate is to the sign, the closer its gradient is to the gradient of the sign,
# which is zero nearly everywhere. Only a weight within about $1/k$ of the jump gets a gradient. A
# good surrogate is about as wide as the latent values are spread. It is useful *because* it differs
# from the sign.
#
# ### Where the gradient stops
#
# *Extra: why `Binarize` uses `<=` and not `<`.*
#
# Does the clipped STE pass the gradient at exactly $\lvert x \rvert = 1$? The clip has a kink
# there, so it has no derivative. Lesson 01 showed the rule that PyTorch
# [documents](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions):
# where a function is convex or concave, take the slope of minimum norm. At both bounds of a clip,
# the slopes on the two sides are 0 and 1, so the rule gives 0. Here is what PyTorch's functions
# return:

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
# `hardtanh` follows the rule. So do `minimum` and `maximum`: at a tie, their two inputs share the
# slope, and $(\tfrac12, \tfrac12)$ is the shortest way to share it. In PyTorch 2.13, `clamp`
# does not follow the rule and returns 1. ([PyTorch 2.14 corrects
# this](https://github.com/pytorch/pytorch/issues/184574) and returns 0.)
#
# The surrogate is your own function, so you choose. `Binarize` passes the gradient at the bounds.
# Individual points may seem unimportant, but these two matter, because the training loop *puts*
# weights there when it clamps them. In the net above:

# %%
share = (binary_weights[1].abs() == 1).double().mean().item()
print(f"output weights exactly at a bound after training: about {share:.1f} of all")


def follow(binarize, w=0.9, lr=0.3):
    """Train one weight. The loss pushes it up for ten steps and then down for ten steps."""
    w = torch.tensor(w, requires_grad=True)
    for target in [1.5] * 10 + [-1.5] * 10:
        (grad,) = torch.autograd.grad((binarize(w) - target).square(), w)
        w = (w - lr * grad).clamp(-1, 1).detach().requires_grad_()
    return w.item()


class StrictBinarize(Binarize):
    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x.abs() < 1)


print("with |x| ≤ 1 the weight ends at", follow(Binarize.apply))
print("with |x| < 1 the weight ends at", follow(StrictBinarize.apply))
print(f"with |x| < 1 the net gets {train(StrictBinarize.apply)[2]:.0%} right")

# %% [markdown]
# Most weights of the last layer are exactly on the kink. With `<`, a weight that reaches the bound
# stays there. For ten steps the loss pushes it back, but its gradient is zero. The net above does
# not suffer, because Adam continues for a while in the direction of earlier gradients and moves the
# weights off the bound. With plain gradient descent, the bug appears. So use `<=` if you clamp, and
# say so in the docstring.

# %% [markdown]
# ## The bias of the estimator
#
# How wrong is an STE? The true slope of a single rounding is 0, so it is not useful as a
# comparison. But add a little noise before you round: $y = \text{round}(x + u)$, with $u$ uniform
# in $[-\tfrac12, \tfrac12)$. As $x$ moves from one integer to the next, the higher integer becomes
# more likely. So the *expected* loss changes continuously, and it has a true gradient. The *bias*
# of the estimator is the difference between its mean and this true gradient.
#
# We compare two losses. The first one is a parabola. The second one is the same parabola with
# ripples, whose period is the distance between two levels.

# %%
noise = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000 - 0.5  # an even grid for u
positions = torch.linspace(-2.96, 2.96, 75, dtype=torch.float64)


def parabola(y):
    return y**2 / 4


def rippled(y):
    return y**2 / 4 + 0.15 * torch.sin(2 * torch.pi * y)


def slopes(loss, x, h=0.02):
    """Return the slope of the expected loss, and the mean of the straight-through gradient."""
    up, down = (loss((x + d + noise).round()).mean() for d in (h, -h))
    leaf = x.clone().requires_grad_()
    (estimated,) = torch.autograd.grad(loss(functions.RoundSTE.apply(leaf + noise)).mean(), leaf)
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
# On the left, the estimator (dashed) is a straight line through the middle of the true steps. It is
# biased nearly everywhere, but its sign is right, and so is its average over one step. For a
# *linear* loss, the two are equal: $\mathbb E[y] = x$, so passing the gradient through unchanged is
# exact.
#
# On the right, the true slope is the same, because rounding sees the loss only at integers, where
# the ripples are zero. But the estimator uses the *slope* of $L$ at the integers, where the ripples
# dominate. Training stops where the dashed line is zero, near $-1.9$. The true slope at this point
# is $-0.75$, and the minimum is at 0.
#
# So the bias depends on how much $L$ bends between two levels. It is small if the levels are fine
# and the loss is smooth at their scale. It is large if the levels are coarse, or if a sharp
# function follows the quantizer.

# %% [markdown]
# ### A biased estimator stops in the wrong place
#
# A coin shows heads, $b = 1$, with probability $p = \sigma(\theta)$, and we pay $(b - 0.49)^2$.
# Tails costs 0.2401 and heads costs 0.2601, so the best coin never shows heads. The estimator
# passes the gradient as if $b$ were $p$. To remove all noise, we average over all possible tosses.


# %%
class Coin(Function):
    """b = 1 where u < σ(θ), else 0; surrogate σ(θ)."""

    @staticmethod
    def forward(theta, u):
        return (u < torch.sigmoid(theta)).to(theta.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        theta, _ = inputs
        ctx.save_for_backward(theta)

    @staticmethod
    def backward(ctx, grad_output):
        (theta,) = ctx.saved_tensors
        p = torch.sigmoid(theta)
        return grad_output * p * (1 - p), None


# %%
vote("05", "biased-only-slower")


# %%
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


print(f"by the true gradient:  heads in {descend(expected_loss):.0%} of tosses")
print(f"straight through:      heads in {descend(drawn_loss):.0%} of tosses")

# %% [markdown]
# The estimator stops at 49% heads, where the mean of $2(b - 0.49)$ is zero. More data and a
# smaller learning rate do not help, because a bias is not noise.
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
# $2 \cdot (0.25 - 0.49) = -0.48$. This is 24 times as large as the true slope and has the wrong
# sign: the estimator asks for *more* heads.
#
# </details>
#
# Then why did the binary net train so well? Its loss depends on thousands of signs, and each of
# them is a small part of a sum. Along each of them, the loss is nearly linear, so the estimator is
# nearly right. The loss of the coin depends on the coin alone. As a rule, an STE works if there are
# many small contributions, fine levels and a smooth loss. Always check that the *quantized* net
# improves.

# %% [markdown]
# ## Quantize to a grid
#
# In practice, a weight gets two, four or eight bits. Then the levels are multiples of a *step* $s$:
#
# $$y = s \cdot \text{round}(x / s).$$
#
# A Function that rounds to this grid and returns floating-point numbers is called a *fake
# quantizer*. With it, training sees the values that the chip will use.
#
# ### Exercise 2: round to a grid
#
# Write the three methods. `step` is a positive Python number. For the surrogate, replace
# $\text{round}(v)$ with $v$ in the formula. What is left of it? If you are stuck, run
# `hint("round-ste")`.


# %%
class RoundSTE(Function):
    @staticmethod
    def forward(x, step):
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
grade("round-ste", RoundSTE)

# %% [markdown]
# ## Quantize with a learned step
#
# With two bits, there are four levels, $n \in \{-2, -1, 0, 1\}$. So the quantizer also clamps:
#
# $$v = x / s, \qquad n = \text{clamp}(\text{round}(v),\ \text{low},\ \text{high}), \qquad
# y = s\,n .$$
#
# How wide should the step be? The net can learn it together with the weights (*learned step size
# quantization*, LSQ). The gradient of $x$ is the same as in the clipped STE. For $s$, treat the
# rounding error $n - v$ as a constant. Then differentiate $y = s\,(v + (n - v))$ with $v = x/s$ by
# the product rule:
#
# $$\frac{\partial L}{\partial s} := \sum_i g_i \cdot
# \begin{cases} n_i - v_i & \text{low} \le v_i \le \text{high} \\
# n_i & \text{otherwise.}\end{cases}$$
#
# It is a *sum*, because all elements share the step. (The paper divides it by
# $\sqrt{N \cdot \text{high}}$, so that the step does not change faster than the weights. With Adam,
# such a factor makes no difference.)
#
# Here is the surrogate in plain autograd. `detach` makes the rounding error a constant, which
# papers call a *stop-gradient*.


# %%
def on_the_grid(x, step, low, high):
    v = (x / step).clamp(low, high)
    return step * (v + (v.round() - v).detach())


x = torch.tensor([-1.1, -0.35, 0.1, 0.27, 0.9], dtype=torch.float64)
step = torch.tensor(0.25, dtype=torch.float64)
print("x         ", x.tolist())
print("quantized ", functions.FakeQuantize.apply(x, step, -2, 1).tolist())
diagnose(functions.FakeQuantize, (x, step, -2, 1), surrogate=on_the_grid)

# %% [markdown]
# A common mistake is to differentiate $y = s\,n$ as if $n$ were a constant, which gives the
# gradient $n$. But $n$ also depends on $s$: with a wider step, the same $x$ has a smaller level.
# `diagnose` reports the missing term $-v$ as `missing-dependency`.


# %%
class LevelTimesStep(functions.FakeQuantize):
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
# *Extra: the learned step in use.*
#
# We take the net with real weights from above and quantize it to two bits. First we only round its
# weights. Then we train it for 50 more steps through the quantizer (*quantization-aware training*).
# We start from three steps: one that fits, one that is fifteen times too narrow, and one that is
# three times too wide.


# %%
def quantized_net(x, weights, steps):
    first = functions.FakeQuantize.apply(weights[0], steps[0], -2, 1)
    second = functions.FakeQuantize.apply(weights[1], steps[1], -2, 1)
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
print("two bits per weight        step fits   too narrow   too wide")
for name, updates, learn_step in (
    ("rounded, not trained", 0, False),
    ("trained, step fixed", 50, False),
    ("trained, step learned", 50, True),
):
    rights = [quantize(width, updates, learn_step) for width in (1.5, 0.1, 4.5)]
    print(f"{name:25}{rights[0]:>11.0%}{rights[1]:>13.0%}{rights[2]:>11.0%}")

# %% [markdown]
# If the step fits, rounding alone costs little accuracy. If the step is too narrow, training
# recovers part of the lost accuracy, and with a learned step, it recovers all of it. If the step is
# too wide, every weight rounds to zero. Then the hidden values and all gradients are zero, and no
# estimator can help. So start with a narrow step rather than a wide one.
#
# ### PyTorch's fake quantizer
#
# *Reference: look here when you compare your quantizer with PyTorch's.*
#
# The `backward` of PyTorch's fake quantizer is a clipped STE for $x$. The public function has no
# gradient for the step, and raises an error if you ask for one:

# %%
x = torch.tensor([-0.6, 0.1, 0.3, 0.36, 0.4], dtype=torch.float32, requires_grad=True)
y = torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -2, 1)
print("x / step", *(f"{v:6.2f}" for v in (x / 0.25).tolist()))
print("gradient", *(f"{v:6.2f}" for v in torch.autograd.grad(y.sum(), x)[0].tolist()))
step = torch.tensor(0.25, requires_grad=True)
with show_error():
    torch.fake_quantize_per_tensor_affine(x, step, torch.tensor(0), -2, 1)

# %% [markdown]
# Compare the two lines. 1.20 and 1.44 are above `high`, which is 1, but the gradient passes.
# PyTorch compares the *rounded* level with the bounds, whereas LSQ compares $v$ itself. So the
# windows differ by half a step on each side. Both are legitimate, but two implementations can
# differ here.

# %% [markdown]
# ## Do you know it?
#
# Answer eight questions, and answer one more in your own words: when does a biased estimator still
# train?

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
#     def forward(x):
#         return q(x)                               # exactly what will be deployed
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         (x,) = inputs
#         ctx.save_for_backward(x.abs() <= 1)       # what h′ needs; here a mask is enough
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
# In [the exercises of this lesson](../exercises/05_straight_through.ipynb), you will write more
# estimators, find the mistake in one, and train a binary net on the digits.
#
# [Lesson 06](06_double_backward.ipynb) differentiates a gradient, and shows how a saved
# intermediate makes a second derivative wrong without a warning.
