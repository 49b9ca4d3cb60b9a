# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/09_more_patterns.ipynb)
#
# # 09 · More gradient patterns
#
# **You will** write a loss whose gradient is finite wherever the loss itself is finite. You will
# also write the backward pass of a normalization, a convolution and a complex product. At the end,
# you will change a gradient on purpose.
#
# **You will learn** why a finite value can have a `nan` gradient, what a symmetry tells you about a
# gradient, how to test linear functions of any size, and how to test a gradient that you have
# changed on purpose.
#
# **You need** lesson 03: a copy in the forward pass becomes a sum in the backward pass.
#
# **It takes** about 60 minutes; the *extra* sections take another 5. The exercises are in the
# exercise notebook.

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
from torch.nn.functional import pad, softplus

from autograd_course import diagnose
from autograd_course.functions import Conv1d
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, predict, show_error, vote
from autograd_course.visualize import knowledge_check

# %% [markdown]
# ## A loss of zero, and then nan
#
# A model reads four sensors on a machine and predicts whether the machine will fail. It computes a
# score $z$. For an example with the label $y$ (0 or 1), the loss is $\log(1 + e^z) - y\,z$.
#
# The author of the next cell knows that $e^z$ overflows for large $z$. For such $z$, the logarithm
# equals $z$ up to rounding, so the code returns $z$. The value is right everywhere.


# %%
def guarded(z):
    return torch.where(z > 20, z, torch.log1p(torch.exp(z)))


z = torch.tensor([-200.0, 0.0, 30.0, 200.0])
print("guarded: ", guarded(z).tolist())
print("built in:", softplus(z).tolist())

# %% [markdown]
# The data set has 2,000 readings. One of them was recorded in millivolts instead of volts. Its
# numbers are a thousand times too large, but they point in the right direction. The score predicts
# that the machine will fail, and it did. Training reaches this example at step 50. Before some
# cells in this lesson, you will vote on what the result will be. Each vote tests a common belief,
# and some of these beliefs are true.

# %%
vote("09", "where-protects-the-gradient")

# %%
rng = torch.Generator().manual_seed(0)
readings = torch.randn(2000, 4, generator=rng)
odd = 1007
readings[odd] = torch.tensor([1300.0, -900.0, 200.0, 700.0])
direction = torch.tensor([1.0, -2.0, 0.5, 1.5])
noise = torch.randn(2000, generator=rng)
failed = (readings @ direction + noise > 0).float()


def train(log1pexp):
    weight = torch.zeros(4, requires_grad=True)
    losses = []
    for rows in torch.arange(2000).split(20):
        z = readings[rows] @ weight
        loss = (log1pexp(z) - failed[rows] * z).mean()
        (gradient,) = torch.autograd.grad(loss, weight)
        weight = (weight - 0.5 * gradient).detach().requires_grad_()
        losses.append(loss.item())
    return losses, weight.detach()


losses, weight = train(guarded)
step = odd // 20
for k in range(step - 1, step + 3):
    print(f"step {k}: loss {losses[k]:.2f}")
print("weights:", weight.tolist())

# %% [markdown]
# The loss at step 50 is finite and right. In fact, the loss of the odd example is exactly 0,
# because the model is right and certain. So the gradient of this example should also be 0. But the
# next loss is `nan`, and the weights never recover.

# %% [markdown]
# ## The whole thing, working
#
# The derivative of $\log(1 + e^x)$ is the sigmoid $\sigma(x)$, which is between 0 and 1 for every
# $x$. A Function can return exactly this gradient. The `forward` below uses only
# $e^{-\lvert x\rvert}$, which cannot overflow.


# %%
class Log1pExp(Function):
    """y = log(1 + exp x); ∂L/∂x = σ(x) g."""

    @staticmethod
    def forward(x):
        return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


stable_losses, weight = train(Log1pExp.apply)
ratios = weight / weight[0]
print(f"last loss: {stable_losses[-1]:.2f}")
print("weights, relative to the first:", [round(w, 1) for w in ratios.tolist()])
print("true weights:                  ", direction.tolist())


def sample(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


print("gradcheck:", gradcheck(Log1pExp.apply, sample(3)))

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.0) as (axes,):
    axes.plot(stable_losses, color=BLUE)
    axes.plot(losses, color=ORANGE)
    axes.axvline(step, color=GRAY, linestyle="--", linewidth=1)
    axes.set(title="one odd example", xlabel="step", ylabel="loss", ylim=(0, 0.8))
    note(axes, "guarded: nan from here on", (step + 1, 0.62), ORANGE)
    note(axes, "Log1pExp", (step + 20, 0.04), BLUE)

# %% [markdown]
# ## log1pexp: zero times infinity
#
# Where does the `nan` come from? The next cell compares three versions at three inputs. The first
# version, `naive`, has no guard:


# %%
def naive(x):
    return torch.log1p(torch.exp(x))


def with_gradient(f, x):
    x = torch.tensor(x, requires_grad=True)
    y = f(x)
    (gradient,) = torch.autograd.grad(y, x)
    return f"{y.item():7.3f} and {gradient.item():5.3f}"


print("value and gradient at 1, 50, 100")
for name, f in (("naive", naive), ("guarded", guarded), ("Log1pExp", Log1pExp.apply)):
    print(f"{name:9}", "   ".join(with_gradient(f, x) for x in (1.0, 50.0, 100.0)))

# %% [markdown]
# Autograd multiplies the derivatives of the two steps, $\frac{1}{1 + e^x}$ and $e^x$. At $x = 100$,
# the first factor is 0 and the second is infinite, so the product is `nan`. (In float32, $e^x$
# overflows at about 89.)
#
# `torch.where` does not protect the gradient. It only selects values. Its backward sends a gradient
# of 0 into the branch that was not selected, and autograd still multiplies this 0 by
# $e^x = \infty$. You can protect the *argument* of the branch, as in `torch.exp(x.clamp(max=20))`.
# Alternatively, you can simplify the product on paper and write a Function that computes the
# result. (In your own code, call `torch.nn.functional.softplus`, which does the same.)
#
# ### Checkpoint 1
#
# The difference $\log(1 + e^x) - \log(1 + e^{-x})$ is always $x$. If you compute it with
# `Log1pExp`, what is its gradient at $x = 200$?

# %%
x = torch.tensor(200.0, requires_grad=True)
(Log1pExp.apply(x) - Log1pExp.apply(-x)).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# The first term gives $\sigma(200) = 1$, and the second gives $\sigma(-200) = 0$. So the gradient
# is 1, which is the derivative of $x$. The naive version gives `nan`.
#
# </details>

# %% [markdown]
# ## Log-sum-exp and the fully masked row
#
# The log-sum-exp $\operatorname{lse}(x) = \log\sum_j e^{x_j}$ takes the logarithms of some numbers
# and returns the logarithm of their sum. Cross entropy, attention and most sequence models contain
# a log-sum-exp. If you compute the formula literally, it overflows for large inputs. The usual
# remedy is to subtract the maximum $m$ first: $m + \log\sum_j e^{x_j - m}$. This version is stable
# for large inputs. But the last row below is fully masked: padding has turned all of its entries
# into $-\infty$.


# %%
def max_trick(x):
    m = x.amax(-1, keepdim=True)
    return (m + (x - m).exp().sum(-1, keepdim=True).log()).squeeze(-1)


def rounded(tensor):
    return [round(value, 3) for value in tensor.tolist()]


inf = float("inf")
x = torch.tensor([[1000.0, 999.0], [-inf, 0.5], [-inf, -inf]], requires_grad=True)
print("literal:  ", rounded(x.exp().sum(-1).log()))
print("max trick:", rounded(max_trick(x)))
print("built in: ", rounded(torch.logsumexp(x, -1)))

# %% [markdown]
# $-\infty - (-\infty)$ is `nan`. The built-in returns $-\infty$, the logarithm of an empty sum. So
# use the built-in, and leave the fully masked row out of the loss. What gradient does this row get?

# %%
vote("09", "row-outside-the-loss")

# %%
values = torch.logsumexp(x, -1)
total = values[values > -inf].sum()  # without the fully masked row
(gradient,) = torch.autograd.grad(total, x)
print("loss:", round(total.item(), 3))
for row in gradient:
    print("gradient of a row:", rounded(row))

# %% [markdown]
# The loss is finite, and the masked row is not part of it. Still, the gradient of this row is
# `nan`, because autograd multiplies the upstream gradient 0 by $e^{-\infty - (-\infty)}$. Attention
# often *adds* the mask to the scores. In that case, this `nan` reaches the weights used to compute
# the scores, and the next optimizer step turns those weights into `nan`. (If you mask the scores
# with `masked_fill` or `torch.where`, you are safe, because their backward writes zeros at the
# masked positions.)
#
# This is a good reason to write a Function. The next one returns the same values as the built-in,
# but it has the gradient you want.


# %%
class LogSumExp(Function):
    """y = log Σ exp x over the last dim; ∂L/∂x = exp(x - y) g, and 0 where y = -∞."""

    @staticmethod
    def forward(x):
        m = x.amax(-1, keepdim=True)
        m = torch.where(m == -inf, 0, m)  # -∞ - (-∞) is nan, -∞ - 0 is not
        return (m + torch.exp(x - m).sum(-1, keepdim=True).log()).squeeze(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        y = torch.where(y == -inf, 0, y)
        return torch.exp(x - y.unsqueeze(-1)) * grad_output.unsqueeze(-1)


values = LogSumExp.apply(x)
(gradient,) = torch.autograd.grad(values[values > -inf].sum(), x)
print("values:", rounded(values))
for row in gradient:
    print("gradient of a row:", rounded(row))
print("gradcheck:", gradcheck(LogSumExp.apply, sample(2, 4)))

# %% [markdown]
# $e^{x - y}$ is the softmax, recomputed from the input and the output. The next Function computes
# the softmax in `forward` instead and saves it. It passes `gradcheck`. But look at its second
# derivatives (the *Hessian*):


# %%
class SavedSoftmax(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.softmax(x, -1))  # neither input nor output
        return torch.logsumexp(x, -1)

    @staticmethod
    def backward(ctx, grad_output):
        (softmax,) = ctx.saved_tensors
        return softmax * grad_output.unsqueeze(-1)


x = sample(3)
print("gradcheck:", gradcheck(SavedSoftmax.apply, x))
for function in (LogSumExp, SavedSoftmax):
    hessian = torch.autograd.functional.hessian(function.apply, x.detach())
    print(
        f"{function.__name__:12} second derivatives:", "not zero" if hessian.any() else "all zero"
    )

# %% [markdown]
# A saved intermediate acts as a constant when you differentiate the gradient again. So save inputs
# and outputs, and recompute the rest. Lesson 06 gives the reasons and the exceptions.

# %% [markdown]
# ## Normalization is a projection
#
# Without its parameters, batch normalization is $y = (x - \mu)/s$, where $\mu$ is the mean of the
# batch and $s^2$ is its variance. The obvious backward, $g/s$, treats $\mu$ and $s$ as constants.
# But both depend on every $x_j$. If you take all paths into account, you get
#
# $$\frac{\partial L}{\partial x} = \frac1s\Bigl(g - \operatorname{mean}(g)
# - y\,\operatorname{mean}(g \odot y)\Bigr).$$


# %%
class Standardize(Function):
    """y = (x - μ)/s over dim 0; ∂L/∂x = (g - mean(g) - y mean(g y)) / s."""

    @staticmethod
    def forward(x):
        return (x - x.mean(0)) / x.std(0, correction=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        bracket = grad_output - grad_output.mean(0) - y * (grad_output * y).mean(0)
        return bracket / x.std(0, correction=0)


x = sample(6)
print("gradcheck:", gradcheck(Standardize.apply, x))

# %% [markdown]
# The expression in parentheses is linear in $g$, so it is the product of a matrix $P$ and the
# vector $g$. The next cell tests three equations. It applies $P$ to its own results, to a vector of
# ones, and to $y$. For each equation, it prints the largest difference between the two sides.

# %%
P = torch.autograd.functional.jacobian(Standardize.apply, x.detach()) * x.std(correction=0)
y = Standardize.apply(x)
for name, left, right in (
    ("P(P g) = P g", P @ P, P),
    ("P 1 = 0     ", P.sum(1), 0 * y),
    ("P y = 0     ", P @ y, 0 * y),
):
    print(f"{name}  difference {(left - right).abs().max():.6f}")

# %% [markdown]
# $P$ is a *projection*: applying it twice gives the same result as applying it once. It removes the
# components in the two directions in which $x$ can move without changing $y$. The first direction
# is a shift of the whole batch (along the ones), and the second is a stretch (along $y$). So for
# any normalization, you know which components its gradient must not have. (In practice, the
# $\varepsilon$ under the square root lets a stretch change $y$ slightly, so this component is not
# exactly zero.) If you leave out the two terms, `diagnose` finds that they are missing:


# %%
class MeanAndStdFixed(Standardize):
    @staticmethod
    def backward(ctx, grad_output):
        x, _ = ctx.saved_tensors
        return grad_output / x.std(0, correction=0)


diagnose(MeanAndStdFixed, (torch.arange(6.0, dtype=torch.float64) ** 2,))

# %% [markdown]
# ### Checkpoint 2
#
# Now finish a `backward` yourself. The vector $y = x/\lVert x\rVert$ has norm 1 for every $x$. Only
# a stretch of $x$ leaves $y$ unchanged. So the gradient of $x$ has no component along $y$. What
# must `backward` return?


# %%
class Unit(Function):
    @staticmethod
    def forward(x):
        return x / x.norm()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        return None  # ctx.saved_tensors holds x and y


diagnose(Unit, (torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64),))

# %% [markdown]
# <details><summary>Why</summary>
#
# ```python
# x, y = ctx.saved_tensors
# return (grad_output - y * (grad_output * y).sum()) / x.norm()
# ```
#
# Because $y$ has norm 1, $\sum_i g_i y_i$ is the component of $g$ along $y$. The code subtracts
# this component from $g$ and divides the rest by the norm of $x$.
#
# </details>

# %% [markdown]
# ## Convolution
#
# A kernel slides over a signal, and every output depends on one window of the signal. The windows
# overlap, so several windows read the same sample of the signal. All windows use the same kernel.
# So the forward pass copies both the samples and the kernel, and both gradients are sums.
#
# Write all $T$ windows of $K$ samples as the rows of a matrix. Then the convolution is a
# matrix-vector product. Because the windows overlap, `forward` reads some samples more than once.
# So `backward` adds the gradient of each window at the window's position.


# %%
def positions(length, size, stride):
    """Return the indices of all windows, shape (T, K): row t is t·stride, t·stride + 1, …"""
    starts = torch.arange(0, length - size + 1, stride)
    return starts[:, None] + torch.arange(size)


class Convolve(Function):
    """y[t] = Σ_k w[k] x[stride·t + k - padding], for one signal x and one kernel w."""

    @staticmethod
    def forward(x, w, stride, padding):
        at = positions(len(x) + 2 * padding, len(w), stride)
        return pad(x, (padding, padding))[at] @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        p = ctx.padding
        at = positions(len(x) + 2 * p, len(w), ctx.stride)
        to_windows = grad_output[:, None] * w  # (T, K): the gradient of each window
        padded = x.new_zeros(len(x) + 2 * p)
        grad_x = padded.index_add(0, at.flatten(), to_windows.flatten())[p : p + len(x)]
        grad_w = grad_output @ pad(x, (p, p))[at]
        return grad_x, grad_w, None, None


print("stride 1, no padding:", gradcheck(Convolve.apply, (sample(7), sample(3), 1, 0)))
print("stride 2, padding 1: ", gradcheck(Convolve.apply, (sample(7), sample(3), 2, 1)))
print("stride 3, gaps:      ", gradcheck(Convolve.apply, (sample(8), sample(2), 3, 0)))

# %% [markdown]
# If forward pads the signal, backward removes the padding. If the stride is larger than the kernel
# size, some samples are not in any window, so their gradient is zero.
#
# With channels, there is also an ordinary matrix product over the channels, and *groups* split this
# product into blocks. The course's `Conv1d` supports both. If a function is linear in $x$, its
# backward is its transpose. So for all $x$ and $g$, the numbers $\langle f(x), g\rangle$ and
# $\langle x, \text{backward}(g)\rangle$ are equal. Can you turn this into a test?

# %%
vote("09", "one-pass-test")

# %%
x, w = sample(8, 6, 100), sample(4, 3, 5)  # two groups: 6 channels in, 3 for each group
y = Conv1d.apply(x, w, 2, 1, 2)  # stride 2, padding 1, 2 groups
g = torch.randn_like(y)
grad_x, grad_w = torch.autograd.grad(y, (x, w), g)
print("elements of x and of y:", x.numel(), "and", y.numel())
print(f"x: the two numbers differ by {((y * g).sum() - (x * grad_x).sum()).abs():.6f}")
print(f"w: the two numbers differ by {((y * g).sum() - (w * grad_w).sum()).abs():.6f}")

# %% [markdown]
# This *adjoint test*, also called the dot-product test, costs one forward and one backward pass,
# regardless of the input size. `gradcheck` would need two forward passes for each element of `x`.
# The adjoint test works for any linear function, such as convolution, resampling, padding,
# gathering, the FFT, or a projector in tomography.
#
# ### Checkpoint 3
#
# The kernel $(1, 2, 4)$ slides over a signal of five samples, with stride 1 and without padding.
# The loss is the sum of the three outputs. What is the gradient of the *second* sample?

# %%
x = torch.zeros(5, requires_grad=True)
kernel = torch.tensor([1.0, 2.0, 4.0])
Convolve.apply(x, kernel, 1, 0).sum().backward()

predict(..., x.grad[1])

# %% [markdown]
# <details><summary>Why</summary>
#
# Two windows read the second sample. It is the second sample of the first window, where it is
# multiplied by 2. It is also the first sample of the second window, where it is multiplied by 1. So
# the gradient is 3.
#
# </details>

# %% [markdown]
# ## Complex numbers and the conjugate
#
# All of these patterns also work for complex tensors, with one addition. In PyTorch, the gradient
# of a real loss is
# $\partial L/\partial \operatorname{Re} z + i\,\partial L/\partial \operatorname{Im} z$. This is
# the direction of steepest ascent, so the step `z - lr * z.grad` decreases the loss. (It is twice
# the *Wirtinger derivative* with respect to $\bar z$.)
#
# Is $g\,b$ also the gradient of the product $y = a\,b$ with respect to $a$, as it is for real
# numbers? The next cell uses gradient descent to find the complex $a$ for which $a\,b = 1$. It
# first tries $g\,b$, and then the version with the conjugate, $g\,\bar b$.

# %%
vote("09", "complex-product-rule")


# %%
class WithoutConjugate(Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        return grad_output * b, grad_output * a


class WithConjugate(WithoutConjugate):
    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        return grad_output * b.conj(), grad_output * a.conj()


b = torch.tensor(0.6 + 0.8j, dtype=torch.complex128)
for function in (WithoutConjugate, WithConjugate):
    a = torch.zeros((), dtype=torch.complex128, requires_grad=True)
    for _ in range(31):
        error = (function.apply(a, b) - 1).abs().square()
        (gradient,) = torch.autograd.grad(error, a)
        a = (a - 0.1 * gradient).detach().requires_grad_()
    print(f"{function.__name__:16} error 1.000 at first, {error.item():.3f} after 30 steps")

# %% [markdown]
# Without the conjugate, the steps go uphill. The right gradient is
#
# $$\frac{\partial L}{\partial a} = g\,\bar b .$$
#
# For complex numbers, the transpose becomes the conjugate transpose. For real inputs, both formulas
# give the same result, so a test with real inputs cannot find the mistake. Test complex code with
# complex numbers. `diagnose` calls this mistake `missing-conjugate`.

# %% [markdown]
# ## A gradient of your own
#
# Until now, `backward` had to compute the derivative of `forward`. Sometimes you want a different
# gradient: for a target that must not move, for a layer that should learn more slowly, or for a
# feature that should *unlearn* something. Often, you do not need a Function for this. `x.detach()`
# has the value of `x` but passes no gradient (other libraries call it *stop-gradient*). The rest is
# arithmetic:


# %%
def gradient_scaled(x, factor):
    """Return x, with its gradient multiplied by factor."""
    return factor * x + (1 - factor) * x.detach()


x = torch.tensor([1.0, -2.0], requires_grad=True)
for factor in (1.0, 0.25, 0.0, -1.0):
    y = gradient_scaled(x, factor)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    print(f"factor {factor:5}: value {y.tolist()}, gradient {gradient[0]:.2f}")

# %% [markdown]
# A factor of 0 stops the gradient. A negative factor gives a *gradient reversal*: the layers after
# it learn to decrease a loss, while the layers before it learn to increase the same loss. For
# example, suppose that a classifier after the reversal predicts which camera took a picture. Then
# the layers before the reversal learn to hide which camera was used.
#
# ### A reversal as a Function
#
# Written as a Function, the reversal has no rounding errors, because `forward` does no arithmetic:


# %%
class GradientReversal(Function):
    """y = x; ∂L/∂x = -strength · g."""

    @staticmethod
    def forward(x, strength):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


x = sample(3)
print("gradcheck:", gradcheck(GradientReversal.apply, (x, 1.0), raise_exception=False))
diagnosis = diagnose(GradientReversal, (x, 1.0))
declared = diagnose(GradientReversal, (x, 1.0), intentional=("flipped-sign",))
print("diagnose: ", [finding.rule for finding in diagnosis.findings])
print("declared: ", [finding.rule for finding in declared.findings])

# %% [markdown]
# `gradcheck` fails, because this gradient is not the derivative. But you can still test the
# Function. `intentional=` declares the one difference that you want, and `diagnose` checks
# everything else as before.
#
# `forward` returns `x.clone()`, although the values do not change. The next cell shows why. Its
# Function returns `x` itself, and an in-place activation follows:


# %%
class ReturnsItsInput(GradientReversal):
    @staticmethod
    def forward(x, strength):
        return x


y = ReturnsItsInput.apply(x, 1.0)
print("shares its memory with x:", y.data_ptr() == x.data_ptr())
with show_error():
    y.relu_()

# %% [markdown]
# If `forward` returns its input, autograd returns a view of it, and the next in-place operation
# raises an error. Returning a copy, or `x * 1`, is safe. You get the same problem if `forward`
# creates a tensor and returns a view of it. For example, if `forward` returns `y.squeeze(dim)`,
# calling `relu_()` on the result raises an error.
#
# ### A bound that can be crossed back
#
# *Extra: for a parameter that must stay above a bound.*
#
# Suppose that a standard deviation must stay above 0.1, so it goes through `clamp(min=0.1)`. If the
# parameter falls below 0.1, its gradient is 0, and it can never come back. The usual remedy also
# passes the gradient on if a descent step would move the parameter *up*, that is, if $g$ is
# negative:


# %%
class LowerBound(Function):
    """y = max(x, bound); g passes where x is above the bound, or where descent would raise x."""

    @staticmethod
    def forward(x, bound):
        return x.clamp(min=bound)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, bound = inputs
        ctx.save_for_backward(x >= bound)

    @staticmethod
    def backward(ctx, grad_output):
        (above,) = ctx.saved_tensors
        return torch.where(above | (grad_output < 0), grad_output, 0), None


for name, bounded in (("clamp", torch.clamp), ("LowerBound", LowerBound.apply)):
    x = torch.tensor(-1.0, requires_grad=True)
    for _ in range(100):
        (gradient,) = torch.autograd.grad((bounded(x, 0.1) - 2) ** 2, x)
        x = (x - 0.1 * gradient).detach().requires_grad_()
    print(f"{name:10} from -1 to {x.item():.2f} in 100 steps; the optimum is 2")

x = torch.tensor([-1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(LowerBound.apply, (x, 0.1)))
diagnose(LowerBound, (x, 0.1))

# %% [markdown]
# The parameter learns, and `LowerBound` passes `gradcheck`. But its `backward` is not the backward
# of *any* function. A vector-Jacobian product is linear in $g$, but the result of this `backward`
# depends on the sign of $g$. (`gradcheck` passes only zeros and ones to `backward`, never a
# negative number.) A clipped gradient, `grad_output.clamp(-1, 1)`, is not linear in $g$ either. If
# you want such a gradient, declare it with `intentional=("nonlinear-in-grad-output",)`. And
# remember that the gradient of $-L$ is no longer the negative of the gradient of $L$.

# %% [markdown]
# ## Hooks instead of a Function
#
# *Reference: look here when you want to log or clip a gradient without a Function.*
#
# Sometimes you only want to look at a gradient, or change it for one experiment. In that case,
# register a *hook* on the tensor. A hook is a function that receives the complete gradient and can
# return a different one.


# %%
rng = torch.Generator().manual_seed(0)
norms = []


def log(g):
    norms.append(g.norm().item())  # returns None, so the gradient does not change


def clip(g):
    return g.clamp(-1, 1)


def noise(g):
    return g + 0.1 * torch.randn(g.shape, generator=rng)


x = torch.tensor([3.0, -0.5], requires_grad=True)
for hook in (log, clip, noise):
    handle = x.register_hook(hook)
    (gradient,) = torch.autograd.grad((x**2).sum() + x.sum(), x)
    print(f"{hook.__name__:6}", rounded(gradient))
    handle.remove()
(gradient,) = torch.autograd.grad((x**2).sum() + x.sum(), x)
print("none  ", rounded(gradient))
print("logged norms:", [round(norm, 3) for norm in norms])

# %% [markdown]
# The loss uses $x$ twice, but the log has one entry. A tensor's hook runs once, on the *sum* of the
# gradients from all uses. Return a new tensor from the hook. Do not change $g$ in place, because
# other code may also use it. Save the handle that `register_hook` returns. A hook stays active
# until you remove it, so if you ran the cell again without removing it, you would add a second
# hook.
#
# | you want to | use |
# | --- | --- |
# | look at a gradient or log its norm | a hook on the tensor |
# | clip or perturb it for one experiment | a hook, which you remove with its handle |
# | clip the gradients of all parameters together | `clip_grad_norm_`, after `backward()` |
# | stop or scale a gradient inside a model | `detach`, as above |
# | change it as part of the model, wherever the model is used | a Function |
# | change it with values that only `forward` knows | a Function |

# %% [markdown]
# ## Do you know it?
#
# Answer six questions. If an answer is wrong, you will see why, and you can try again.

# %%
knowledge_check("09")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# # inside backward(ctx, grad_output), with g = grad_output
# g * torch.sigmoid(x)                             # log(1 + exp(x))
# torch.exp(x - y) * g                             # log-sum-exp; y = -∞ replaced by 0
# (g - g.mean(0) - y * (g * y).mean(0)) / s        # normalization over dim 0
# g * b.conj()                                     # complex a * b
# -strength * g                                    # gradient reversal; forward: x.clone()
# ```
#
# | | |
# | --- | --- |
# | `nan` | a finite value can have a `nan` gradient; `torch.where` does not protect it |
# | couplings | count every path; a symmetry shows which components are zero |
# | linear maps | $\langle f(x), g\rangle = \langle x, \text{backward}(g)\rangle$, at any size |
# | complex inputs | conjugate the local derivative; test with complex numbers |
# | wrong on purpose | declare it (`intentional=`), and test the rest |
# | log or clip for now | a hook, which you remove afterwards |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/09_more_patterns.ipynb), you will write six of
# these Functions, from log-sum-exp to gradient reversal. [Lesson 10](10_sampling.ipynb) is about
# sampling.
