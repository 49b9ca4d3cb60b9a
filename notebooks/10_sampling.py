# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/10_sampling.ipynb)
#
# # 10 · Sampling: gradients through a random choice
#
# **You will** train an encoder that must choose one of sixteen codes at random, although a random
# choice has no gradient.
#
# **You will learn** how to test a Function that samples, when its gradient is the true one and when
# it is a surrogate, and which bias ReinMax corrects.
#
# **You need** surrogates and `diagnose(…, surrogate=…)` from lesson 05, and the gradient of a
# softmax from lesson 03.
#
# **It takes** about 40 minutes. The exercises are in the exercise notebook.

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
from torch.nn.functional import one_hot

from autograd_course import diagnose
from autograd_course.functions import GumbelSoftmax, ReinMax
from autograd_course.lesson import figure, gumbel_noise, load_digits, predict, show_error, vote
from autograd_course.visualize import compare_flows, knowledge_check

# %% [markdown]
# ## An encoder that never learns
#
# We want to store an image of a digit in four bits. An encoder reads the 64 pixels and computes
# sixteen *logits* $\ell$. Then we draw one of sixteen codes with the probabilities
# $\text{softmax}(\ell)$. The decoder is a table of sixteen images. It returns the image for the
# code that was drawn. We train the encoder and the decoder so that the decoded image resembles the
# original.
#
# The data are the digits from lesson 05. We hold out one image in five to test the result.

# %%
images, _ = load_digits()
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
seen, unseen = images[order][:1437], images[order][1437:]


def compress(choose, steps=100):
    """Train an encoder and a decoder. Return both, and their loss in training and in use."""
    rng = torch.Generator().manual_seed(0)
    encoder = (0.1 * torch.randn(64, 16, generator=rng, dtype=torch.float64)).requires_grad_()
    start = 0.1 * torch.randn(16, 64, generator=rng, dtype=torch.float64)
    decoder = (seen.mean(0) + start).requires_grad_()
    optimizer = torch.optim.Adam([encoder, decoder], lr=0.05)
    for _ in range(steps):
        code = choose(seen @ encoder, rng)
        loss = (code @ decoder - seen).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    likeliest = one_hot((unseen @ encoder).argmax(-1), 16).double()
    used = (likeliest @ decoder - unseen).square().mean()
    return encoder, decoder.detach(), loss.item(), used.item()


# %% [markdown]
# `torch.multinomial` draws from a distribution. We report the error relative to that of a decoder
# that always returns the mean image, rounded to the nearest 5%.

# %%
vote("10", "multinomial-raises")

# %%
blank = (seen - seen.mean(0)).square().mean().item()


def percent(error):
    return f"{5 * round(20 * error / blank)} %"


def drawn(logits, rng):
    index = torch.multinomial(logits.softmax(-1), 1, generator=rng)
    return one_hot(index[:, 0], 16).double()


encoder, blurred, trained, used = compress(drawn)
print("error relative to the mean image:", percent(used))
print("gradient of the encoder:", encoder.grad)

# %% [markdown]
# PyTorch raises no error and the optimizer runs, but the encoder has no gradient at all.
# `multinomial` returns integers, so the graph ends there. The decoder does get a gradient. But each
# code is drawn for all kinds of digits, so each of the sixteen images becomes the mean image.
#
# ## The whole thing, working
#
# Here is a Function that makes the same random choice and also passes a gradient. It takes the
# random numbers as an argument, and the next section explains why. As in lesson 05, `backward` uses
# a surrogate: it returns the vector-Jacobian product of a softmax.


# %%
class Choose(Function):
    """One-hot at the largest logit + noise; surrogate: softmax(logits + noise)."""

    @staticmethod
    def forward(logits, noise):
        return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        logits, noise = ctx.saved_tensors
        p = (logits + noise).softmax(-1)
        return p * (grad_output - (grad_output * p).sum(-1, keepdim=True)), None


def with_noise(choose):
    return lambda logits, rng: choose(logits, gumbel_noise(logits.detach(), rng))


_, codes, trained, used = compress(with_noise(Choose.apply))
print("error relative to the mean image:", percent(used))

# %% jupyter={"source_hidden": true}
with figure(columns=2, width=8.0, height=2.4) as panels:
    pictures = {"multinomial: no gradient": blurred, "Choose: a surrogate gradient": codes}
    for axes, (title, decoder) in zip(panels, pictures.items(), strict=True):
        tiles = torch.full((4 * 9, 4 * 9), float("nan"), dtype=torch.float64)
        for k, code in enumerate(decoder.clamp(-1, 1).reshape(16, 8, 8)):
            row, column = 9 * (k // 4), 9 * (k % 4)
            tiles[row : row + 8, column : column + 8] = code
        axes.imshow(tiles, cmap="gray_r")
        axes.set(title=title)
        axes.axis("off")

# %% [markdown]
# The left panel shows the sixteen images that the decoder learned with `multinomial`. All of them
# are the same blur. The right panel shows the images that it learned with `Choose`. Most of them
# look like digits, because the encoder now learns which images should get the same code. (The noisy
# images belong to codes that the encoder rarely uses.)
#
# The next figure shows how the gradient flows in a small example. `Choose` picks one of three
# numbers, and the loss is $(y - 2)^2$, where $y$ is the chosen number. Use the → and ← keys to step
# through it.

# %%
fixed_noise = torch.tensor([0.2, -0.1, 0.4], dtype=torch.float64)


def plain(logits, numbers):
    choice = one_hot((logits + fixed_noise).argmax(), 3).double()
    return (choice @ numbers - 2) ** 2


def straight(logits, numbers):
    return (Choose.apply(logits, fixed_noise) @ numbers - 2) ** 2


small_logits = torch.tensor([0.5, 1.0, -1.0], dtype=torch.float64)
numbers = torch.tensor([1.0, 3.0, 0.0], dtype=torch.float64)
compare_flows({"argmax": plain, "Choose": straight}, small_logits, numbers)

# %% [markdown]
# Both versions compute the same loss, and both produce a gradient for the numbers. With `argmax`,
# the logits are not even in the graph. `Choose` adds them to the graph and passes a gradient to
# them.
#
# ## Noise is an input
#
# A random choice has no gradient for two reasons: it is discrete, and it is random. The *Gumbel-max
# trick* separates the two. Draw independent noise $n_k = -\log(-\log u_k)$, where $u_k$ is uniform
# between 0 and 1. Add it to the logits and choose the largest sum. Then the probability of each
# choice is exactly its softmax probability:

# %%
logits = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
rng = torch.Generator().manual_seed(0)
draws = (logits + gumbel_noise(logits.expand(100_000, 3), rng)).argmax(-1)
print("softmax:", *(f"{p:.2f}" for p in logits.softmax(-1).tolist()))
print("drawn:  ", *(f"{(draws == k).double().mean():.2f}" for k in range(3)))

# %% [markdown]
# The noise does not depend on the logits, so it can be an *input*. For fixed noise, the choice is a
# deterministic function of the logits, so you can test it. The next Function draws its noise inside
# `forward` instead. Its `backward` is right.

# %%
vote("10", "noise-drawn-inside")


# %%
class DrawsInside(Function):
    """softmax(logits + noise), with noise that forward draws itself."""

    @staticmethod
    def forward(ctx, logits):
        p = (logits + gumbel_noise(logits)).softmax(-1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, grad_output):
        (p,) = ctx.saved_tensors
        return p * (grad_output - (grad_output * p).sum(-1, keepdim=True))


rng = torch.Generator().manual_seed(1)
logits = torch.randn(4, 5, generator=rng, dtype=torch.float64, requires_grad=True)
noise = gumbel_noise(logits.detach(), rng)
print("noise drawn inside:", gradcheck(DrawsInside.apply, logits, raise_exception=False))
print("noise as an input: ", gradcheck(GumbelSoftmax.apply, (logits, noise), raise_exception=False))

# %% [markdown]
# Both Functions have the same `backward`. But `DrawsInside` returns a new sample on each call, so a
# finite difference compares two different draws. Therefore, a Function that samples should take its
# noise as an argument. Then you can repeat a draw and test its gradient.
#
# ### Checkpoint 1
#
# `Choose` gives each logit a gradient. If you add up the gradients of one row of logits, the sum is
# the same for every `grad_output`. What is this sum? (Hint: what happens to a softmax if you add
# the same number to all logits?)

# %%
row = logits[:1]
(gradient,) = torch.autograd.grad(Choose.apply(row, noise[:1]), row, torch.randn(1, 5).double())

predict(..., gradient.sum())

# %% [markdown]
# <details><summary>Why</summary>
#
# It is zero. If you add the same number to all logits, the softmax does not change. So the gradient
# has no component in this direction, and its entries add up to zero. You can use this as a quick
# test for any estimator that differentiates a softmax.
#
# </details>

# %% [markdown]
# ## Soft
#
# Instead of a choice, `forward` can also return the surrogate itself. This *soft* sample is a
# softmax with a temperature $\tau$: $p = \text{softmax}((\ell + n)/\tau)$. If $\tau$ is small, $p$
# is close to one-hot and the slope is nearly zero almost everywhere, as with the steep tanh in
# lesson 05. If $\tau$ is large, $p$ mixes several choices. For every $\tau$, the soft sample is
# smooth, so it has a true gradient and needs no surrogate:
#
# $$\frac{\partial L}{\partial \ell} = \frac{1}{\tau}\,
# p \odot \bigl(g - \textstyle\sum_k g_k p_k\bigr).$$
#
# A straight-through estimator such as `RoundSTE` returns `grad_output`. Is that also right here?

# %%
vote("10", "passes-grad-output")


# %%
class PassesGrad(Function):
    """p = softmax((logits + noise) / τ), with a backward that ignores the softmax."""

    @staticmethod
    def forward(logits, noise, temperature):
        return ((logits + noise) / temperature).softmax(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None, None


for f in (PassesGrad, GumbelSoftmax):
    print(f.__name__)
    with show_error(100):
        gradcheck(f.apply, (logits, noise, 0.5))

# %% [markdown]
# `return grad_output` is wrong here, because the derivative of the soft sample is that of a
# softmax.
#
# ## Hard
#
# A soft sample is not a choice but a mixture. If `forward` must choose, it returns the one-hot
# vector of the largest entry, and `backward` uses the soft sample as its surrogate. `Choose` does
# this with $\tau = 1$. The formula needs the soft $p$. If you use the one-hot $y$ instead, you
# always get $y \odot (g - g \cdot y) = 0$.

# %%
hard = GumbelSoftmax.apply(logits, noise, 0.5, True)
print("values in a hard sample:", hard.unique().tolist())


def soft_sample(logits, noise, temperature, hard):
    return ((logits + noise) / temperature).softmax(-1)


diagnose(GumbelSoftmax, (logits, noise, 0.5, True), surrogate=soft_sample)

# %% [markdown]
# Does it matter which gradient you choose? We train the sixteen codes in three ways:
#
# - *soft*: `forward` returns the soft sample, and `backward` returns its true gradient.
# - *hard, soft surrogate*: `forward` returns the hard sample, and `backward` uses the soft sample
#   as the surrogate.
# - *hard, identity*: `forward` returns the hard sample, and the surrogate is the identity
#   $h(\ell) = \ell$, so `backward` returns `grad_output`.
#
# At inference time, the encoder adds no noise and mixes no codes. It picks the most likely code.
# The column *in use* below shows the error at inference time.


# %%
class IdentitySample(Choose):
    """One-hot at the largest logit + noise; surrogate: the logits."""

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


ways = {
    "soft": lambda logits, noise: GumbelSoftmax.apply(logits, noise, 1.0),
    "hard, soft surrogate": Choose.apply,
    "hard, identity": IdentitySample.apply,
}
print("error                 in training   in use")
for name, sample in ways.items():
    _, _, trained, used = compress(with_noise(sample))
    print(f"{name:22}{percent(trained):>11}{percent(used):>9}")

# %% [markdown]
# With soft samples, the error is larger at inference time than in training, because the decoder was
# trained on mixtures, which do not occur at inference time. With hard samples, the two errors are
# close.
#
# The identity is not the gradient of a soft sample. But it is a legitimate surrogate for a
# hard sample, and here, it performs at least as well as the soft surrogate. No formula could have
# told you that in advance. State which surrogate you use, so that you can test it and compare it
# with others.
#
# ## ReinMax
#
# A sampled choice does have a true gradient: the gradient of the *expected* loss,
# $\sum_k p_k L(k)$. If there are few choices, we can compute this gradient. We can also compute the
# mean of an estimator over all draws. The difference between the two is the estimator's bias.
#
# The straight-through estimator with the surrogate $p = \text{softmax}(\ell)$ is right on average
# if the loss is linear in $y$. *ReinMax* averages the slopes at two points, like the trapezoidal
# rule. With $m = (p + y)/2$ and $J(q)^\top g = q \odot (g - g \cdot q)$, it returns
#
# $$\frac{\partial L}{\partial \ell} := 2\,J(m)^\top g - \tfrac12\,J(p)^\top g .$$


# %%
def straight_softmax(logits, noise):
    p = logits.softmax(-1)
    hard = one_hot((logits + noise).argmax(-1), len(logits)).to(p)
    return hard - p.detach() + p


def gradients(loss, logits, *estimators):
    """Yield the gradient of the expected loss, then the mean of each estimator over all draws."""
    leaf = logits.clone().requires_grad_()
    choices = torch.eye(len(logits), dtype=logits.dtype)
    p = leaf.softmax(-1)
    yield torch.autograd.grad(sum(p[k] * loss(choices[k]) for k in range(len(p))), leaf)[0]
    for estimator in estimators:
        losses = [loss(estimator(leaf, 1e3 * choice)) for choice in choices]  # noise decides
        mean = sum(p[k].item() * losses[k] for k in range(len(p)))
        yield torch.autograd.grad(mean, leaf)[0]


three_logits = torch.tensor([0.5, -0.3, 0.1], dtype=torch.float64)
levels = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
for power in (1, 2, 3):

    def loss(y, power=power):
        return (y @ levels - 0.49) ** power

    print(f"loss of degree {power}")
    found = gradients(loss, three_logits, straight_softmax, ReinMax.apply)
    for name, grad in zip(("true", "straight", "ReinMax"), found, strict=True):
        print(f"   {name:9}", *(f"{v:7.2f}" for v in grad.tolist()))

# %% [markdown]
# For degree 1, all three agree. For degree 2, ReinMax is exact, but the straight-through estimator
# is not. For degree 3, neither is exact, and ReinMax actually has the larger error. ReinMax is
# guaranteed to be exact on average only if the loss is at most quadratic in $y$. It costs one more
# vector-Jacobian product. Try it if there are few choices and each of them has a large effect.
#
# ### Checkpoint 2
#
# The coin from lesson 05 comes up heads ($b = 1$) with probability $p$, and the loss is
# $(b - 0.49)^2$. Here, the coin is a choice between tails and heads, with $p = 0.25$. What is the
# second component of ReinMax's mean gradient? (The true slope is $dL/dp = 0.02$, and
# $dp/d\ell_2 = p\,(1 - p)$.)

# %%
coin = torch.tensor([0.75, 0.25], dtype=torch.float64).log()
_, mean = gradients(lambda y: (y[1] - 0.49) ** 2, coin, ReinMax.apply)

predict(..., mean[1])

# %% [markdown]
# <details><summary>Why</summary>
#
# The loss is quadratic, so the mean of ReinMax is the true gradient,
# $0.02 \cdot 0.25 \cdot 0.75 = 0.00375$. In lesson 05, training with the straight-through estimator
# stopped at 49% heads. With ReinMax, it reaches the optimum: the coin always comes up tails.
#
# </details>

# %% [markdown]
# ## Do you know it?
#
# Answer five questions about choices, noise and estimators.

# %%
knowledge_check("10")

# %% [markdown]
# ## Summary
#
# ```python
# class Choose(torch.autograd.Function):
#     """One-hot at the largest logit + noise. Surrogate: softmax((logits + noise) / τ)."""
#
#     @staticmethod
#     def forward(logits, noise, temperature):      # the noise is an input
#         return one_hot((logits + noise).argmax(-1), logits.shape[-1]).to(logits)
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         logits, noise, ctx.temperature = inputs
#         ctx.save_for_backward(logits, noise)
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         logits, noise = ctx.saved_tensors
#         p = ((logits + noise) / ctx.temperature).softmax(-1)    # the soft sample
#         grad = p * (grad_output - (grad_output * p).sum(-1, keepdim=True))
#         return grad / ctx.temperature, None, None
#
# diagnose(Choose, (logits, noise, 1.0), surrogate=soft_sample)
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | `multinomial`, `argmax` | return integers, so nothing before them is trained |
# | noise | is an input, so that a draw can be repeated and its gradient tested |
# | soft sample | has a true gradient, with the factor $1/\tau$; but it is a mixture |
# | hard sample | has a surrogate: the soft sample at the same noise |
# | ReinMax | also uses the slope at $(p + y)/2$: exact on average for a quadratic loss |
# | trust | the loss at inference time, without noise or mixtures |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/10_sampling.ipynb), you will write a soft and a
# hard Gumbel-softmax, and ReinMax.
#
# [Lesson 11](11_torch_func.ipynb) is about `torch.func`.
