# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/09_more_patterns.ipynb)
#
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/09_more_patterns.ipynb)
#
# # 09 · More gradient patterns
#
# **You will** write a loss whose gradient is finite wherever its value is, and the backward of a
# normalization, a convolution and a complex product. At the end you will change a gradient on
# purpose.
#
# **You will learn** why a finite value can have a `nan` gradient, what a symmetry tells you about a
# gradient, a test for linear maps of any size, and how to test a gradient that is meant to differ.
#
# **You need** lesson 03: a copy in the forward is a sum in the backward.
#
# **It takes** about 55 minutes; the *extra* sections take another 5. The exercises come after it.

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
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, predict
from autograd_course.visualize import knowledge_check

# %% [markdown]
# ## A loss of zero, and then nan
#
# A model reads four sensors of a machine and predicts whether the machine will fail. It computes a
# score $z$, and the loss of an example with the label $y$, 0 or 1, is $\log(1 + e^z) - y\,z$.
#
# The author knows that $e^z$ overflows. For large $z$ the logarithm is $z$ itself, so the code
# returns $z$ there. The value is right everywhere.


# %%
def guarded(z):
    return torch.where(z > 20, z, torch.log1p(torch.exp(z)))


z = torch.tensor([-200.0, 0.0, 30.0, 200.0])
print("guarded: ", guarded(z).tolist())
print("built in:", softplus(z).tolist())

# %% [markdown]
# The data are 2,000 readings. One of them was recorded in millivolts instead of volts. Its numbers
# are a thousand times too large, but they point in the right direction: it looks like a machine
# that will fail, and the machine did fail.

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
# Step 50 reads the odd example. The loss of this step is finite and right. The odd example even has
# a loss of exactly 0, because the model is right and certain. Its gradient should be 0 as well. But
# the next loss is `nan`, and the weights never recover.

# %% [markdown]
# ## The whole thing, working
#
# The derivative of $\log(1 + e^x)$ is the sigmoid $\sigma(x)$, which is between 0 and 1 for every
# $x$. A Function can say so. Its `forward` uses only $e^{-\lvert x\rvert}$, which cannot overflow.


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
# Where does the `nan` come from? Take away the guard, and look at three inputs:


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
# Autograd multiplies the derivatives of the two steps, $\frac{1}{1 + e^x}$ and $e^x$. At $x = 100$
# the first factor is 0 and the second is infinite, so the product is `nan`. (In float32, $e^x$
# overflows at about 89.)
#
# **Common belief: "`torch.where` protects the gradient too."** It selects values. Its backward
# sends 0 into the branch that was not selected, and this 0 is multiplied by $e^x = \infty$ all the
# same. You need to protect the *argument* of the branch, as in `torch.exp(x.clamp(max=20))`. Or
# write a Function: you simplify the product on paper, before it is computed. (In your own code,
# call `torch.nn.functional.softplus`. It does the same.)
#
# ### Checkpoint 1
#
# The difference $\log(1 + e^x) - \log(1 + e^{-x})$ is always $x$. What is the gradient that
# `Log1pExp` gives at $x = 200$?

# %%
x = torch.tensor(200.0, requires_grad=True)
(Log1pExp.apply(x) - Log1pExp.apply(-x)).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# The first term gives $\sigma(200) = 1$ and the second $\sigma(-200) = 0$. So the gradient is 1,
# the derivative of $x$. The naive version gives `nan`.
#
# </details>

# %% [markdown]
# ## Log-sum-exp and the fully masked row
#
# $\operatorname{lse}(x) = \log\sum_j e^{x_j}$ adds numbers that are given by their logarithms.
# Cross entropy, attention and most sequence models contain one. Computed literally, it overflows.
# So people subtract the maximum $m$ first: $m + \log\sum_j e^{x_j - m}$.
#
# **Common belief: "with the max trick, log-sum-exp is stable."** For large numbers it is. The last
# row below is what padding leaves, a fully masked row of $-\infty$.


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
# $-\infty - (-\infty)$ is `nan`. The built-in is better: an empty sum is 0, and its logarithm is
# $-\infty$. So use the built-in, and leave the fully masked rows out of the loss. Then look at the
# gradient:

# %%
values = torch.logsumexp(x, -1)
total = values[values > -inf].sum()  # the empty row takes no part
(gradient,) = torch.autograd.grad(total, x)
print("loss:", round(total.item(), 3))
for row in gradient:
    print("gradient of a row:", rounded(row))

# %% [markdown]
# The loss is finite, and the masked row is not in it. Its gradient is `nan` all the same, because
# the upstream 0 is multiplied by $e^{-\infty - (-\infty)}$. Attention *adds* the mask to the
# scores. Then a weight from which this row was computed adds the `nan` to its other contributions,
# and is `nan` after the next step. (Scores that are masked by `masked_fill` or `torch.where` are
# safe. The backward of these writes zeros where the mask is, and drops the gradient that arrives
# there.)
#
# This is a good reason to write a Function: it has the same value as the built-in, and the gradient
# that you want.


# %%
class LogSumExp(Function):
    """y = log Σ exp x over the last dim; ∂L/∂x = exp(x - y) g, and 0 where y = -∞."""

    @staticmethod
    def forward(ctx, x):
        m = x.amax(-1, keepdim=True)
        m = torch.where(m.isinf(), 0, m)  # -∞ - (-∞) is nan, -∞ - 0 is not
        y = (m + torch.exp(x - m).sum(-1, keepdim=True).log()).squeeze(-1)
        ctx.save_for_backward(x, y)
        return y

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
# $e^{x - y}$ is the softmax, recomputed from input and output. Why not compute it in `forward` and
# save it? `gradcheck` accepts that. But look at the second derivatives (the *Hessian*):


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
    print(f"{function.__name__:12} second derivatives all zero: {not hessian.any()}")

# %% [markdown]
# A saved intermediate is a constant when you differentiate the gradient again. *Save inputs and
# outputs, and recompute the rest.* Lesson 06 gives the reasons and the exceptions.

# %% [markdown]
# ## Normalization is a projection
#
# Batch normalization without its parameters is $y = (x - \mu)/s$ over the batch, where $s^2$ is the
# variance. The obvious backward, $g/s$, treats two things as constants that are not: $\mu$ and $s$
# depend on every $x_j$. If you count all paths, you get
#
# $$\frac{\partial L}{\partial x} = \frac1s\Bigl(g - \operatorname{mean}(g)
# - y\,\operatorname{mean}(g \odot y)\Bigr).$$


# %%
class Standardize(Function):
    """y = (x - μ)/s over dim 0; ∂L/∂x = (g - mean(g) - y mean(g y)) / s."""

    @staticmethod
    def forward(ctx, x):
        y = (x - x.mean(0)) / x.std(0, correction=0)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        bracket = grad_output - grad_output.mean(0) - y * (grad_output * y).mean(0)
        return bracket / x.std(0, correction=0)


x = sample(6)
print("gradcheck:", gradcheck(Standardize.apply, x))

# %% [markdown]
# What is the bracket? As a map of $g$ it is a matrix $P$. Let us see what $P$ does to its own
# results, to a vector of ones, and to $y$.

# %%
P = torch.autograd.functional.jacobian(Standardize.apply, x.detach()) * x.std(correction=0)
y = Standardize.apply(x)
for name, left, right in (
    ("P(P g) = P g", P @ P, P),
    ("P 1 = 0     ", P.sum(1), 0 * y),
    ("P y = 0     ", P @ y, 0 * y),
):
    print(name, torch.allclose(left, right))

# %% [markdown]
# $P$ is a *projection*: to apply it twice is the same as to apply it once. It removes the two
# directions in which $x$ can move without changing $y$. One is a shift of the whole batch (the
# ones), and the other is a stretch (along $y$). So you know for every normalization which
# components its gradient must not have. (In practice there is an $\varepsilon$ under the root. Then
# a stretch changes $y$ a little, and this component is only nearly zero.) Leave the two terms out,
# and `diagnose` sees what is missing:


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
# Now finish a `backward` yourself. $y = x/\lVert x\rVert$ has length 1 for every $x$. Only one
# direction leaves $y$ unchanged, a stretch of $x$. So the gradient of $x$ has no component along
# $y$. What does `backward` return?


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
# $y$ has length 1, so $\sum_i g_i y_i$ is the length of $g$ along $y$, and the bracket has no
# component along $y$.
#
# </details>

# %% [markdown]
# ## Convolution
#
# A kernel slides over a signal, and every output looks at one window of the signal. The windows
# overlap, so each sample of the signal is *read several times*. All outputs use *the same* kernel.
# These are two copies in the forward, so the two gradients are sums.
#
# Lay out all windows as rows of a matrix, $T$ windows of $K$ samples. Then the convolution is a
# matrix-vector product. To take the windows is to read at repeated indices. So the backward adds
# the gradient of each window where the window was.


# %%
def positions(length, size, stride):
    """Where each window looks, (T, K): row t is t·stride, t·stride + 1, …"""
    starts = torch.arange(0, length - size + 1, stride)
    return starts[:, None] + torch.arange(size)


class Convolve(Function):
    """y[t] = Σ_k w[k] x[stride·t + k - padding], for one signal x and one kernel w."""

    @staticmethod
    def forward(ctx, x, w, stride, padding):
        at = positions(len(x) + 2 * padding, len(w), stride).to(x.device)
        ctx.save_for_backward(x, w, at)
        ctx.padding = padding
        return pad(x, (padding, padding))[at] @ w

    @staticmethod
    def backward(ctx, grad_output):
        x, w, at = ctx.saved_tensors
        p = ctx.padding
        to_windows = grad_output[:, None] * w  # (T, K): what each window sends back
        padded = x.new_zeros(len(x) + 2 * p)
        grad_x = padded.index_add(0, at.flatten(), to_windows.flatten())[p : p + len(x)]
        grad_w = grad_output @ pad(x, (p, p))[at]
        return grad_x, grad_w, None, None


print("stride 1, no padding:", gradcheck(Convolve.apply, (sample(7), sample(3), 1, 0)))
print("stride 2, padding 1: ", gradcheck(Convolve.apply, (sample(7), sample(3), 2, 1)))
print("stride 3, gaps:      ", gradcheck(Convolve.apply, (sample(8), sample(2), 3, 0)))

# %% [markdown]
# Padding in the forward is cutting in the backward. If the stride is longer than the kernel, some
# samples are never read, and their gradient is zero.
#
# Channels add an ordinary matrix product over the channels, and *groups* cut this product into
# blocks. The course's `Conv1d` has both. Here is a test for it that is cheaper than `gradcheck` and
# works at any size. For a map that is linear in $x$, backward is the transpose. So for all $x$ and
# $g$ the two numbers $\langle f(x), g\rangle$ and $\langle x, \text{backward}(g)\rangle$ are equal:

# %%
x, w = sample(8, 6, 100), sample(4, 3, 5)  # two groups: 6 channels in, 3 for each group
y = Conv1d.apply(x, w, 2, 1, 2)  # stride 2, padding 1, 2 groups
g = torch.randn_like(y)
grad_x, grad_w = torch.autograd.grad(y, (x, w), g)
print("y is", tuple(y.shape))
print("in x:", torch.allclose((y * g).sum(), (x * grad_x).sum()))
print("in w:", torch.allclose((y * g).sum(), (w * grad_w).sum()))

# %% [markdown]
# This *adjoint test*, also called the dot-product test, costs one forward and one backward. It
# works for everything that is linear: convolution, resampling, padding, gathering, the FFT, or a
# projector in tomography.
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
# Two windows read the second sample. It is second in the first window, where it is multiplied by 2,
# and first in the second window, where it is multiplied by 1. Together 3.
#
# </details>

# %% [markdown]
# ## Complex numbers and the conjugate
#
# For complex tensors all the patterns stay, with one addition. PyTorch's gradient of a real loss is
# $\partial L/\partial \operatorname{Re} z + i\,\partial L/\partial \operatorname{Im} z$, the
# direction of steepest ascent, so that `z - lr * z.grad` descends. (It is twice the *Wirtinger
# derivative* with respect to $\bar z$.) For $y = a\,b$ it is
#
# $$\frac{\partial L}{\partial a} = g\,\bar b .$$
#
# The transpose of the real case becomes the conjugate transpose. **Common belief: "the product rule
# is the product rule."** Let us find the complex $a$ for which $a\,b = 1$, with and without the
# conjugate:


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
    print(f"{function.__name__:16} the error, 1 at first, is {error.item():.3f} after 30 steps")

# %% [markdown]
# Without the conjugate the steps go uphill. For real inputs the two are the same, so no test with
# real inputs can tell them apart. Test complex code with complex numbers. The rule of `diagnose` is
# called `missing-conjugate`.

# %% [markdown]
# ## A gradient of your own
#
# Until now, backward had to be the derivative of forward. Sometimes you want another gradient: for
# a target that must not move, a layer that should learn slower, or a feature that should *unlearn*
# something. The simplest of these need no Function. `x.detach()` has the value of `x` and no
# gradient (other libraries call this *stop-gradient*), and the rest is arithmetic:


# %%
def gradient_scaled(x, factor):
    """x, with its gradient multiplied by factor."""
    return factor * x + (1 - factor) * x.detach()


x = torch.tensor([1.0, -2.0], requires_grad=True)
for factor in (1.0, 0.25, 0.0, -1.0):
    y = gradient_scaled(x, factor)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    print(f"factor {factor:5}: value {y.tolist()}, gradient {gradient[0]:.2f}")

# %% [markdown]
# A factor of 0 stops the gradient. A negative factor is a *gradient reversal*: the layers after it
# learn to make a loss small, and the layers before it learn to make it large. Put a classifier of
# the *camera* behind a reversal, and the features before it forget which camera took the picture.
#
# ### A reversal as a Function
#
# As a Function, the reversal does not round two products:


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
# Of course `gradcheck` fails, because this gradient is not the derivative. But you can still test
# the Function. `intentional=` declares the one difference that you want, and `diagnose` checks
# everything else as before.
#
# Why `x.clone()`, if nothing changes? **Common belief: "an identity may return its input."**


# %%
class ReturnsItsInput(GradientReversal):
    @staticmethod
    def forward(x, strength):
        return x


y = ReturnsItsInput.apply(x, 1.0)
print("shares its memory with x:", y.data_ptr() == x.data_ptr())
try:
    y.mul_(2)  # as an in-place activation would
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %% [markdown]
# Autograd returns a view of the input, and the next in-place operation raises an error. A copy, or
# `x * 1`, is safe. A view of a tensor that `forward` made itself has the same problem: if `forward`
# returns `y.squeeze(dim)`, a `relu_()` after it raises.
#
# ### A bound that can be crossed back
#
# *Extra: for a parameter that must stay within a bound.*
#
# This one looks harmless. A standard deviation must stay above 0.1, so it goes through
# `clamp(min=0.1)`. If the parameter once falls below 0.1, its gradient is 0, and it can never come
# back. The usual remedy lets a gradient pass if descent would move the parameter *up*, which is
# where $g$ is negative:


# %%
class LowerBound(Function):
    """y = max(x, bound); g passes where x is above the bound, or would be moved up to it."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x >= bound)
        return x.clamp(min=bound)

    @staticmethod
    def backward(ctx, grad_output):
        (above,) = ctx.saved_tensors
        return torch.where(above | (grad_output < 0), grad_output, 0), None


bounds = {"clamp": lambda x: x.clamp(min=0.1), "LowerBound": lambda x: LowerBound.apply(x, 0.1)}
for name, bounded in bounds.items():
    x = torch.tensor(-1.0, requires_grad=True)
    for _ in range(100):
        (gradient,) = torch.autograd.grad((bounded(x) - 2) ** 2, x)
        x = (x - 0.1 * gradient).detach().requires_grad_()
    print(f"{name:10} from -1, wanted 2, after 100 steps: {x.item():.2f}")

x = torch.tensor([-1.0, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(LowerBound.apply, (x, 0.1)))
diagnose(LowerBound, (x, 0.1))

# %% [markdown]
# It trains, and `gradcheck` accepts it. But it is not the backward of *any* function, because a
# vector-Jacobian product is linear in $g$, and this one depends on the sign of $g$. (`gradcheck`
# sends ones and zeros, never a negative number.) The same is true of a clipped gradient,
# `grad_output.clamp(-1, 1)`. If you want such a gradient, say so with
# `intentional=("nonlinear-in-grad-output",)`. And remember that a loss multiplied by $-1$ no longer
# has the gradient multiplied by $-1$.

# %% [markdown]
# ## Hooks instead of a Function
#
# *Reference: how to look at a gradient from outside, to log or to clip it.*
#
# Sometimes you only want to look at a gradient, or to change it for one experiment. Then put a
# *hook* on a tensor. A hook is a function that gets the complete gradient and may return another
# one.


# %%
def noisy(g):
    return g + 0.1 * torch.randn(g.shape, generator=rng)


rng = torch.Generator().manual_seed(0)
log = []
hooks = {
    "log": lambda g: log.append(g.norm().item()),  # append returns None: nothing is changed
    "clip": lambda g: g.clamp(-1, 1),
    "noise": noisy,
}
x = torch.tensor([3.0, -0.5], requires_grad=True)
for name, hook in hooks.items():
    handle = x.register_hook(hook)
    (gradient,) = torch.autograd.grad((x**2).sum() + x.sum(), x)
    print(f"{name:6}", rounded(gradient))
    handle.remove()
(gradient,) = torch.autograd.grad((x**2).sum() + x.sum(), x)
print("none  ", rounded(gradient), "– and the log:", [round(norm, 3) for norm in log])

# %% [markdown]
# The loss uses $x$ twice, and the log has one entry, because a tensor's hook runs once, on the
# *sum* over all uses. Return a new tensor, and do not change $g$ in place, because others may hold
# it. Keep the handle as well: a hook stays until you remove it, and a second run of the cell adds a
# second one.
#
# | you want to | use |
# | --- | --- |
# | look at a gradient, log its norm | a hook on the tensor |
# | clip or perturb it for one experiment | a hook, and its handle to remove it |
# | clip the gradients of all parameters together | `clip_grad_norm_`, after `backward()` |
# | stop or scale a gradient inside a model | `detach`, as above |
# | change it as part of the model, wherever the model goes | a Function |
# | change it by something that only `forward` knows | a Function |

# %% [markdown]
# ## Do you know it?
#
# Six questions. A wrong answer explains itself and does not reveal the right one, so you can try
# again.

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
# | `nan` | a finite value may have a `nan` gradient; `torch.where` does not protect it |
# | couplings | every path counts; symmetry tells what must be zero |
# | linear maps | $\langle f(x), g\rangle = \langle x, \text{backward}(g)\rangle$, at any size |
# | complex inputs | conjugate the local derivative; test with complex numbers |
# | wrong on purpose | declare it (`intentional=`), and test the rest |
# | only looking, or for now | a hook, and remove it |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/09_more_patterns.ipynb) ask for six of these
# Functions, from log-sum-exp to gradient reversal. Lesson 10 is about sampling.
