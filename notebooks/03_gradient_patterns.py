# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/03_gradient_patterns.ipynb)
#
# # 03 · Gradient patterns
#
# **You will** derive and write the backward of nearly everything that tensors go through:
# products, sums, maxima, softmax, normalization, convolution, lookups; and bend a gradient on
# purpose.
#
# **You will learn** one rule from which these formulas follow, what to save for each of them,
# which mistakes `gradcheck` lets pass, and when a hook does what you wanted a Function for.
#
# **You need** lesson 01: what `backward` is asked for, and what `gradcheck` compares.
#
# **It takes** 35 minutes with the three checkpoints; the sections marked *in depth*, another 35,
# can wait until an exercise needs them. The exercises come after it.

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

import torch
from torch.autograd import Function, gradcheck
from torch.nn.functional import leaky_relu, max_pool2d, pad

from autograd_course import diagnose, gradient_flow
from autograd_course.functions import Conv1d, Square
from autograd_course.lesson import BLUE, GRAY, GREEN, ORANGE, figure, note, predict
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## More ratings, and no better scores
#
# Sixty films, two thousand ratings from 0 to 10, and one score a film to be learned from them. The
# model is the smallest there is: look the film's score up, compare it with the rating, square. The
# score that minimizes this loss is the film's average rating.
#
# The lookup is a custom Function, as it would be for a table that is stored compressed. A
# colleague wrote it: `forward` reads rows, `backward` writes each row's gradient where the row
# came from.


# %%
class ReadRows(Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table[index] = grad_output
        return grad_table, None


# %% [markdown]
# The data, and three hundred steps of training. As usual, few films are rated by many and many by
# few.

# %%
rng = torch.Generator().manual_seed(0)
quality = 3 + 5 * torch.rand(60, generator=rng)
popularity = 1 / torch.arange(1.0, 61)
film = torch.multinomial(popularity, 2000, replacement=True, generator=rng)
stars = (quality[film] + 1.5 * torch.randn(2000, generator=rng)).round().clamp(0, 10)


def fit(read, steps=300):
    scores = torch.zeros(60, requires_grad=True)
    optimizer = torch.optim.Adam([scores], lr=0.1)
    losses = []
    for _ in range(steps):
        loss = ((read(scores, film) - stars) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return scores.detach(), losses


scores, losses = fit(ReadRows.apply)
print(f"loss after 1 step: {losses[0]:.2f}, after {len(losses)}: {losses[-1]:.2f}")

# %%
for k in range(3):
    own = stars[film == k]
    learned = f"average {own.mean():.1f}, learned {abs(scores[k]):.1f}"
    print(f"film {k}: {len(own)} ratings, {learned}, last rating in the list {own[-1]:.0f}")

# %% [markdown]
# The loss has fallen to a seventh. And film 2, which a hundred and thirty-four people rated, 3.5
# on average, has a score of 0, because 0 is what the last of them gave. Of every film's ratings
# one counts. (Which one is not even defined where `index` repeats; on a GPU it may change from run
# to run.)
#
# Now the same model with `table[index]` differentiated by autograd.

# %%
true_scores, true_losses = fit(lambda table, index: table[index])
print(f"loss after {len(true_losses)}: {true_losses[-1]:.2f}")
print(f"film 2, learned: {true_scores[2]:.1f}")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.6) as (watched, errors):
    watched.plot(losses, color=ORANGE)
    watched.plot(true_losses, color=BLUE)
    watched.set(title="what the author watched", xlabel="step", ylabel="loss", ylim=(0, 40))
    note(watched, "by hand", (200, 6.5), ORANGE)
    note(watched, "by autograd", (120, 0.3), BLUE)

    counts = torch.bincount(film, minlength=60)
    for found, color, marker in ((scores, ORANGE, "x"), (true_scores, BLUE, "o")):
        errors.scatter(counts, (found - quality).abs(), s=20, c=color, marker=marker, lw=1)
    errors.set_xscale("log")
    errors.set_ylim(-0.5, 4.6)
    errors.set(
        title="how far a film's score is off", xlabel="ratings it has", ylabel="|score − quality|"
    )
    note(errors, "by hand: no better for more ratings", (4, 4.2), ORANGE)
    note(errors, "by autograd", (150, -0.36), BLUE)

# %% [markdown]
# An average of four hundred ratings should be twenty times as exact as a single one. It is not
# better at all: more data does not help a gradient that keeps one number and drops the rest.
#
# The formula was not wrong; each row's gradient does go back to where the row came from. What is
# missing is a *plus*. The line `grad_table[index] = grad_output` overwrites, where a row that was
# read 134 times has 134 gradients to collect.

# %% [markdown]
# ## The whole thing, working
#
# With $y_i = \text{table}[\text{index}_i]$ and $g_i = \partial L/\partial y_i$,
#
# $$\frac{\partial L}{\partial\,\text{table}_r} = \sum_{i\,:\ \text{index}_i = r} g_i .$$
#
# `index_add` is this sum. One line has changed.


# %%
class AddRows(ReadRows):
    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        return grad_table.index_add(0, index, grad_output), None


repaired_scores, _ = fit(AddRows.apply)
print("same scores as by autograd:", torch.allclose(repaired_scores, true_scores, atol=1e-3))

table = torch.arange(4.0, dtype=torch.float64, requires_grad=True)
index = torch.tensor([2, 0, 2, 2])
print("gradcheck, overwriting:", gradcheck(ReadRows.apply, (table, index), raise_exception=False))
print("gradcheck, adding:     ", gradcheck(AddRows.apply, (table, index)))

# %% [markdown]
# ## Copies forward, sums backward
#
# Reading a row twice makes two copies of it. That is one case of a rule that covers most of this
# lesson. Let a value $x_j$ be used in several places. The loss feels a change of $x_j$ through
# every one of them, so
#
# $$\frac{\partial L}{\partial x_j} = \sum_{\text{uses } i \text{ of } x_j}
# g_i\,\frac{\partial y_i}{\partial x_j} .$$
#
# **A copy in the forward is a sum in the backward.** Copying is a linear map, $y = M x$ with a
# matrix of zeros and ones. Its Jacobian is $M$ itself, so its backward is the transpose,
# $M^\top g$; and since transposing twice leads back, a sum in the forward is a copy in the
# backward. The whole list:
#
# | forward | backward | where you meet it |
# | --- | --- | --- |
# | use twice, `expand` | `sum` | a variable used again, broadcasting |
# | `sum` | `expand` | every reduction |
# | read at `index` | add at `index` | embedding, `gather`, convolution, pooling |
# | `x @ W` | `g @ W.T` | every linear map: its transpose |
# | slice | pad with zeros | cropping, `narrow`, `chunk` |
# | permute, reshape | the inverse of it | no arithmetic at all |
#
# Watch the plus happen. Below, $y = x^2$ is used twice, in a product with $x$ and in a sine, and
# $x$ itself is used twice.


# %%
def reused(x):
    y = Square.apply(x)
    return y * x + torch.sin(y)


gradient_flow(reused, torch.tensor(2.0))

# %% [markdown]
# The picture opens at its end. Click on it and press → to start from the beginning. First the
# values arrive at the loss, then the gradients come back: where two edges left a node, two
# gradients arrive, and the node passes nothing on until it has both. Between Functions the engine
# does this sum for you. *Inside* a Function nobody does: whatever your `forward` uses twice, your
# `backward` must add up.
#
# ### Checkpoint 1
#
# $y = x^2$ is used in $x\,y$ and once more by itself: $L = x\,y + y$ at $x = 3$. Follow the edges:
# what is `x.grad`?

# %%
x = torch.tensor(3.0, requires_grad=True)
y = Square.apply(x)
(x * y + y).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# $y$ collects $x = 3$ from the product and 1 from the second use: 4. Through the square that
# becomes $4 \cdot 2x = 24$. The product sends $y = 9$ to $x$ directly. Together 33.
#
# </details>

# %% [markdown]
# ## Element by element
#
# The simplest pattern has no fan-out: $y_i = f(x_i)$, so $J$ is diagonal and `backward` returns
# $g \odot f'(x)$. What remains to decide is what to *save*. Where $f'$ can be written with the
# output, save that: the next layer mostly keeps it anyway.


# %%
class Tanh(Function):
    """y = tanh x; ∂L/∂x = (1 - y²) ∂L/∂y."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * (1 - y**2)


x = torch.linspace(-2, 2, 5, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Tanh.apply, x))

# %% [markdown]
# | $y$ | $f'$ | save |
# | --- | --- | --- |
# | $e^x$ | $y$ | output |
# | $\tanh x$ | $1 - y^2$ | output |
# | $\sigma(x)$ | $y\,(1 - y)$ | output |
# | $\sqrt x$ | $1/(2y)$ | output |
# | $\max(x, 0)$ | 1 where $y > 0$, else 0 | output, or a mask |
# | $x^2$, $\lvert x\rvert$ | $2x$, $\operatorname{sign} x$ | input, or its sign |
# | $x\,\Phi(x)$ (GELU) | $\Phi(x) + x\,\varphi(x)$ | input |
#
# ### Four sigmoids
#
# *In depth: what a slope of at most a quarter does to a deep net. Skip it if you know why
# gradients vanish.*
#
# The table's third line has consequences. $y\,(1-y)$ is never more than $\tfrac14$, so each
# sigmoid takes at least three quarters of what arrives. Four layers in a row:

# %%
torch.manual_seed(0)
layers = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid()) for _ in range(4))
net = torch.nn.Sequential(*layers)

gradient_flow(lambda x: net(x).sum(), torch.randn(4, 8), depth=1, step=13)

# %% [markdown]
# Read the norms of the gradients from right to left: they shrink from 5.66 to 0.0025, and the
# layer that sees the data learns next to nothing. Nothing here is wrong; this *is* the gradient of
# that forward. (Hence ReLU, residual connections, normalization.) A click on ▸ opens a layer.
#
# ### At a kink
#
# *In depth: which slope to return where there is none. Skip it on a first reading; lesson 05 has
# weights that lie on a kink.*
#
# **Common belief: "for a ReLU's mask, `x > 0` or `x >= 0` makes no difference."** At $x = 0$ no
# derivative exists, and whoever writes the backward chooses. PyTorch's own functions choose
# differently, `clamp` even from one version to another: 1 up to 2.13, 0 from 2.14 on.


# %%
def at_zero(f):
    x = torch.zeros(1, requires_grad=True)
    return torch.autograd.grad(f(x).sum(), x)[0].item()


print("relu             ", at_zero(torch.relu))
print("clamp(min=0)     ", at_zero(lambda x: x.clamp(min=0)))
print("maximum(x, 0)    ", at_zero(lambda x: torch.maximum(x, torch.zeros(1))))
print("leaky_relu, 0.25 ", at_zero(lambda x: leaky_relu(x, 0.25)))
print("abs              ", at_zero(torch.abs))

# %% [markdown]
# Does anybody ever stand exactly at a kink? A parameter that starts at zero does. Let us find the
# $w$ with $f(w) = 1$, from $w = 0$, with two functions whose *values* are the same everywhere:

# %%
zero = torch.zeros(())
for name, f in (("relu", torch.relu), ("maximum(w, 0)", lambda w: torch.maximum(w, zero))):
    w = torch.zeros((), requires_grad=True)
    for _ in range(50):
        (gradient,) = torch.autograd.grad((f(w) - 1) ** 2, w)
        w = (w - 0.1 * gradient).detach().requires_grad_()
    print(f"{name:13} w after 50 steps: {w.item():.2f}")

# %% [markdown]
# So write into the docstring which convention you follow. Given a `reference=`, `diagnose` reports
# a difference at the kink alone as `kink-convention`, which is no error.

# %% [markdown]
# ### What must be saved?
#
# **Common belief: "an activation can save its output instead of its input."** Only if the output
# *determines* the derivative. Swish, $y = x\,\sigma(x)$, first falls and then rises. So two inputs
# have the same output; bisection finds them.


# %%
def swish(x):
    return x * torch.sigmoid(x)


def swish_slope(x):
    s = torch.sigmoid(x)
    return s + swish(x) * (1 - s)


def where_swish_is(y, low, high):
    for _ in range(60):
        middle = (low + high) / 2
        same_side = (swish(middle) - y) * (swish(low) - y) > 0
        low, high = (middle, high) if same_side else (low, middle)
    return middle


y = torch.tensor(-0.2, dtype=torch.float64)
valley = torch.tensor(-1.2785, dtype=torch.float64)
left, right = (where_swish_is(y, valley, end) for end in (valley - 5, valley + 1.2785))
for x in (left, right):
    print(f"x = {x:.3f}   y = {swish(x):.3f}   slope {swish_slope(x):+.3f}")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.2) as (axes,):
    xs = torch.linspace(-5, 2, 300)
    axes.plot(xs, swish(xs), color=BLUE)
    axes.axhline(-0.2, color=GRAY, linestyle="--", linewidth=1)
    for x, color in ((left, ORANGE), (right, GREEN)):
        near = torch.tensor([-0.7, 0.7]) + x
        axes.plot(near, y + swish_slope(x) * (near - x), color=color, linewidth=3)
        axes.plot([x], [y], "o", color=color)
    axes.set(title="swish: one output, two slopes", xlabel="x", ylabel="y", ylim=(-0.6, 1))
    note(axes, f"slope {swish_slope(left):+.2f}", (left - 0.4, -0.45), ORANGE)
    note(axes, f"slope {swish_slope(right):+.2f}", (right + 0.2, -0.42), GREEN)

# %% [markdown]
# The same $y$, and slopes of opposite sign: no formula in $y$ alone can give both. Save $x$ and
# compute $\sigma(x)$ again. ($\sigma(x)$ would do as well, with $f' = \sigma + y\,(1 - \sigma)$;
# but a tensor that is neither input nor output has no graph, and the *second* derivative then
# comes out wrong without a word. Lesson 06 is about that.)
#
# So before you save, ask what the derivative still depends on. It may be very little: for the soft
# threshold of the next section it is a sign.

# %% [markdown]
# ## Broadcasting is a copy
#
# When shapes differ, broadcasting repeats the smaller tensor along the missing axes. Repeating is
# copying, so backward sums over exactly the axes that were repeated: those put in front, which
# vanish again, and those stretched from length 1, which stay with length 1. `sum_to_shape` does it
# for every pattern; it can be read in a minute. (PyTorch has it as `g.sum_to_size(shape)`.)


# %%
def sum_to_shape(gradient, shape):
    added = gradient.dim() - len(shape)
    stretched = [added + k for k, n in enumerate(shape) if n == 1 < gradient.shape[added + k]]
    axes = [*range(added), *stretched]
    return (gradient.sum(axes, keepdim=True) if axes else gradient).reshape(shape)


class Multiply(Function):
    """y = a·b for shapes that broadcast; ∂L/∂a = Σ g·b and ∂L/∂b = Σ g·a, over a's, b's copies."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        return sum_to_shape(grad_output * b, a.shape), sum_to_shape(grad_output * a, b.shape)


def sample(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


for a, b in ((sample(2, 3), sample(3)), (sample(4, 1), sample(2, 1, 3)), (sample(2), sample())):
    print(f"{tuple(a.shape)} times {tuple(b.shape)}:", gradcheck(Multiply.apply, (a, b)))

# %% [markdown]
# Why the `if axes`? **Common belief: "summing over no axes changes nothing."** Ask PyTorch:

# %%
print("torch.ones(2, 3).sum(()) =", torch.ones(2, 3).sum(()).item())

# %% [markdown]
# An empty list of axes means *all* of them, in `sum`, `mean` and `amax` alike.
#
# **Common belief: "a backward that forgets this sum crashes."** Forget it:


# %%
class Unreduced(Multiply):
    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        return grad_output * b, grad_output * a


a, b = sample(2, 3), sample(3)
y = Unreduced.apply(a, b)
raw = Unreduced.backward(y.grad_fn, torch.ones_like(y))[1]
seen = []
y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: seen.append(grad_inputs[1].shape))
y.sum().backward()
print("gradcheck:", gradcheck(Unreduced.apply, (a, b)))
print("right:    ", torch.allclose(b.grad, a.sum(0)))
print("b is", tuple(b.shape), "– backward returned", tuple(raw.shape), end=", ")
print("a hook on the node saw", tuple(seen[0]))

# %% [markdown]
# The engine knows the shape of $b$ and sums what broadcasting could have repeated, even before a
# hook on the node gets to look. So the bug works, until a forward repeats along *another* axis
# than the engine would guess.
#
# ### Where the engine guesses wrong
#
# *In depth: that forward. Come back when `diagnose` says `unreduced-broadcast`.*
#
# A vector with one number for each row:


# %%
class ScaleRows(Function):
    """y = x scaled row by row: s has one number for each row of x."""

    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return x * s[:, None]

    @staticmethod
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return grad_output * s[:, None], grad_output * x  # the sum over axis 1 is missing


for rows, columns in ((2, 3), (3, 3)):
    x, s = sample(rows, columns), sample(rows)
    try:
        ScaleRows.apply(x, s).sum().backward()
        print(f"{rows}×{columns}: accepted; right: {torch.allclose(s.grad, x.sum(1))}")
    except RuntimeError as error:
        print(f"{rows}×{columns}: {str(error).partition(' but')[0]}")

# %% [markdown]
# With a square matrix, the shape that people like to try first, the engine sums over the rows
# where it should have summed over the columns, and the gradient is wrong. `diagnose` looks at what
# `backward` itself returned: `unreduced-broadcast` is a warning where the engine's sum is right,
# and an error where it is not.
#
# ### One parameter for all
#
# *In depth: a learned slope and a learned threshold. Exercise 3 asks for the slope.*
#
# A parameter that all elements share is the same pattern. A learned Swish,
# $y = x\,\sigma(\beta x)$, copies its slope $\beta$ to every $x_i$, so
# $\partial L/\partial\beta = \sum_i g_i\,x_i^2\,\sigma'(\beta x_i)$: one number, collected from
# all.
#
# The *soft threshold* has such a parameter too. It shrinks every element by $t$, and makes zero
# what is smaller than that. All that its backward needs of $x$ is on which side it was beyond $t$:


# %%
class SoftThreshold(Function):
    """y = sign(x) max(|x| - t, 0); where |x| > t, ∂L/∂x = g and ∂L/∂t collects -sign(x) g."""

    @staticmethod
    def forward(ctx, x, t):
        side = torch.where(x.abs() > t, x.sign(), 0)
        ctx.save_for_backward(side)
        ctx.shape = t.shape
        return side * (x.abs() - t)

    @staticmethod
    def backward(ctx, grad_output):
        (side,) = ctx.saved_tensors
        return side.abs() * grad_output, sum_to_shape(-side * grad_output, ctx.shape)


x = torch.tensor([[-2.0, 0.3, 1.5], [0.1, -0.7, 3.0]], dtype=torch.float64, requires_grad=True)
for t in (torch.tensor(0.5), torch.tensor([[0.5], [1.0]]), torch.tensor([0.2, 0.5, 1.0])):
    t = t.double().requires_grad_()
    print(f"t of shape {tuple(t.shape)!s:6}", gradcheck(SoftThreshold.apply, (x, t)))

# %% [markdown]
# ### Checkpoint 2
#
# Yours to finish. $d_{ij} = x_i - x_j$, all differences of a vector: `x[:, None] - x[None, :]`.
# Each $x_k$ is copied along row $k$ and, with a minus, along column $k$. What does `backward`
# return? (Soft ranks, in the exercises, are built on this.)


# %%
class Differences(Function):
    @staticmethod
    def forward(ctx, x):
        return x[:, None] - x[None, :]

    @staticmethod
    def backward(ctx, grad_output):
        return None  # grad_output is n×n; collect for each x_k what its two uses send back


diagnose(Differences, (torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64),))

# %% [markdown]
# <details><summary>Why</summary>
#
# ```python
# return grad_output.sum(1) - grad_output.sum(0)
# ```
#
# The row of $x_k$ is summed along axis 1, its column along axis 0 and negative. Each half alone is
# a plausible backward, with half of the uses forgotten.
#
# </details>

# %% [markdown]
# ## Matrix products from their shapes
#
# In $Y = A B$ the entry $A_{ik}$ is used for every $j$: $Y_{ij} = \sum_k A_{ik} B_{kj}$. Collect
# from its uses, $\partial L/\partial A_{ik} = \sum_j G_{ij} B_{kj}$, and that is
# $(G B^\top)_{ik}$; in the same way $\partial L/\partial B = A^\top G$.
#
# You need not remember it, because the shapes know. Give the three matrices different lengths and
# try every product of two of them, transposed or not:

# %%
G, A, B = sample(2, 5), sample(2, 3), sample(3, 5)
factors = {"G": G, "A": A, "B": B, "Gᵀ": G.T, "Aᵀ": A.T, "Bᵀ": B.T}
for wanted, target in (("A", A), ("B", B)):
    fitting = [
        f"{left} {right}"
        for left, first in factors.items()
        for right, second in factors.items()
        if left[0] != right[0]
        and first.shape[1] == second.shape[0]
        and (first @ second).shape == target.shape
    ]
    print(f"the gradient of {wanted} can only be", *fitting)

# %% [markdown]
# One candidate each. (With square matrices every one of them fits, so a test of a matrix product
# never uses square ones.)
#
# For batches the formula holds matrix by matrix, and a batch axis that was broadcast is summed
# over, as in every broadcast. Together:


# %%
class MatMul(Function):
    """Y = A B on the last two axes, batches broadcast; ∂L/∂A = G Bᵀ, ∂L/∂B = Aᵀ G."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = sum_to_shape(grad_output @ b.mT, a.shape)
        grad_b = sum_to_shape(a.mT @ grad_output, b.shape)
        return grad_a, grad_b


print("matrices:        ", gradcheck(MatMul.apply, (sample(2, 3), sample(3, 5))))
print("batch and matrix:", gradcheck(MatMul.apply, (sample(4, 2, 3), sample(3, 5))))
print("batch of 1 and 4:", gradcheck(MatMul.apply, (sample(1, 2, 3), sample(4, 3, 2))))

# %% [markdown]
# ## Reductions
#
# A sum is the transpose of a copy, so its backward *expands*: every element that went in gets the
# gradient of the sum it went into. A mean is a sum over $N$, where $N$ counts the elements that
# were reduced, not all. The only trouble is in the shapes: with `keepdim=False` the reduced axes
# are gone, and have to come back with length 1 before anything can expand.


# %%
class Mean(Function):
    """y = the mean over some axes; ∂L/∂x = g / N, expanded."""

    @staticmethod
    def forward(ctx, x, dims, keepdim=False):
        kept = x.mean(dims, keepdim=True)
        ctx.shape, ctx.kept = x.shape, kept.shape  # kept: the reduced axes have length 1
        return kept if keepdim else x.mean(dims)

    @staticmethod
    def backward(ctx, grad_output):
        count = math.prod(ctx.shape) / math.prod(ctx.kept)
        return grad_output.reshape(ctx.kept).expand(ctx.shape) / count, None, None


x = sample(2, 3, 4)
for arguments in ((0,), (-1, True), ((0, 2),), ((0, 2), True)):
    print(f"{arguments!s:15}", gradcheck(Mean.apply, (x, *arguments)))

# %% [markdown]
# One `reshape` to the kept shape serves `keepdim` of either kind, one axis and several. And the
# Function saves no tensor at all: the backward of a linear map does not depend on where it is
# taken.
#
# ### Max, and what ties do
#
# *In depth: who gets the gradient when several have won. Exercise 6 needs it.*
#
# A maximum passes its gradient to the element that won. If several did, there is a kink, and
# PyTorch again has more than one convention:

# %%
for name, f in (
    ("amax(0)", lambda x: x.amax(0)),
    ("max()", lambda x: x.max()),
    ("max(0).values", lambda x: x.max(0).values),
    ("topk(1).values", lambda x: x.topk(1).values.sum()),
):
    x = torch.tensor([3.0, 1.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x)
    print(f"{name:15} the two winners get {sorted(g[[0, 2]].tolist())}, the loser {g[1]:.0f}")

# %% [markdown]
# **Common belief: "with floating-point numbers there are no ties."** Take a ReLU, then a
# max-pooling over windows of 2×2:

# %%
activations = torch.relu(torch.randn(1, 1, 400, 400, generator=rng))
pooled = max_pool2d(activations, 2)
print(f"windows in which all four are 0: {(pooled == 0).float().mean():.0%}")

# %% [markdown]
# One in sixteen. (Behind this ReLU it happens not to matter who wins, since the ReLU's own gradient
# is 0 there. Behind a rounding that passes gradients on, as in lesson 05, it does.) For a maximum
# whose winners share equally, divide the mask of the winners by their number. The mask alone would
# give the *whole* gradient to each of them.


# %%
class SharedMax(Function):
    """y = max over dim; the winners share the gradient, as in torch.amax."""

    @staticmethod
    def forward(ctx, x, dim):
        y = x.amax(dim, keepdim=True)
        ctx.save_for_backward(x == y)
        ctx.dim = dim
        return y.squeeze(dim)

    @staticmethod
    def backward(ctx, grad_output):
        (winner,) = ctx.saved_tensors
        shares = winner.to(grad_output.dtype) / winner.sum(ctx.dim, keepdim=True)
        return shares * grad_output.unsqueeze(ctx.dim), None


x = torch.tensor([[3.0, 1.0, 3.0], [0.0, 2.0, 1.0]], requires_grad=True)
SharedMax.apply(x, 1).sum().backward()
print(x.grad.tolist())

# %% [markdown]
# ## Softmax without a Jacobian
#
# In a softmax, $y_i = e^{x_i}/\sum_j e^{x_j}$, every output depends on every input of its row,
# through the common denominator:
#
# $$\frac{\partial y_i}{\partial x_j} = y_i\,(\delta_{ij} - y_j), \qquad
# J = \operatorname{diag}(y) - y\,y^\top,$$
#
# with $\delta_{ij}$ equal to 1 for $i = j$ and else 0. A diagonal and an outer product: $g^\top J$
# can be had without the matrix,
#
# $$\frac{\partial L}{\partial x} = y \odot \Bigl(g - \sum_i g_i\,y_i\Bigr).$$
#
# **Common belief: "the derivative of softmax is $y\,(1-y)$."** That is its diagonal. Here are
# both.


# %%
class Softmax(Function):
    """y = softmax of the last axis; ∂L/∂x = y ∘ (g - Σ g y)."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))


class DiagonalSoftmax(Softmax):
    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y * (1 - y)


logits = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0], dtype=torch.float64)
jacobian_view(DiagonalSoftmax, logits)

# %% [markdown]
# Rows are outputs, columns are inputs. The diagonals agree; what is missing is how each score
# takes weight from all the others. The right one:

# %%
jacobian_view(Softmax, logits)

# %% [markdown]
# There is a check that needs no second implementation. Adding one number to all scores of a row
# changes no weight, so no gradient can point that way: *each row of it must sum to zero*.

# %%
g = torch.arange(5.0, dtype=torch.float64)
for function in (Softmax, DiagonalSoftmax):
    x = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function.apply(x), x, g)
    print(f"{function.__name__:15} the gradient sums to {abs(gradient.sum()):.2f}")

# %% [markdown]
# Every symmetry of a forward (shift, scale, rotation) gives such a check.
#
# ### Checkpoint 3
#
# The weights below come out as $y = (\tfrac12, \tfrac14, \tfrac14)$, and the loss is $4\,y_0$.
# What is the gradient of the first score? You need no Jacobian.

# %%
x = torch.tensor([0.5, 0.25, 0.25]).log().requires_grad_()
(4 * Softmax.apply(x)[0]).backward()

predict(..., x.grad[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# $g = (4, 0, 0)$, so $\sum_i g_i y_i = 2$, and $y_0\,(g_0 - 2) = \tfrac12 \cdot 2 = 1$. The other
# two get $\tfrac14\,(0 - 2) = -\tfrac12$ each; together zero.
#
# </details>

# %% [markdown]
# ## Log-sum-exp and the empty row
#
# *In depth: a gradient that is `nan` though the loss is finite. Exercise 5 needs it; lesson 08
# meets the empty row again.*
#
# $\operatorname{lse}(x) = \log\sum_j e^{x_j}$ adds numbers that are given by their logarithms;
# cross entropy, attention and most sequence models contain one. Taken literally it overflows, so
# one takes the maximum $m$ out first: $m + \log\sum_j e^{x_j - m}$.
#
# **Common belief: "with the max trick, log-sum-exp is stable."** For large numbers it is. The last
# row below is what padding leaves: everything masked, $-\infty$ throughout.


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
# $-\infty - (-\infty)$ is `nan`. The built-in knows better: a sum of nothing is 0, and its
# logarithm $-\infty$. So take the built-in, and leave the empty rows out of the loss. And then
# look at the gradient:

# %%
values = torch.logsumexp(x, -1)
total = values[values > -inf].sum()  # the empty row takes no part
(gradient,) = torch.autograd.grad(total, x)
print("loss:", round(total.item(), 3))
for row in gradient:
    print("gradient of a row:", rounded(row))

# %% [markdown]
# The loss is finite, the empty row is not in it, and its gradient is `nan` all the same: the
# upstream 0 was multiplied by $e^{-\infty - (-\infty)}$. Where the mask was *added* to the scores,
# as attention adds it, a weight from which this row was computed collects the `nan` together with
# all its other contributions, and is `nan` after the next step. (Scores that were masked by
# `masked_fill` or `torch.where` are spared: the backward of these writes zeros where the mask is,
# and drops whatever arrives there.) Here is a reason for a Function that the built-in does not
# answer: the same value, with the gradient that is meant.


# %%
class LogSumExp(Function):
    """y = log Σ exp x over the last axis; ∂L/∂x = exp(x - y) g, and 0 where y = -∞."""

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
# $e^{x - y}$ is the softmax, rebuilt from input and output. Why not compute it in `forward` and
# save it? `gradcheck` has nothing against it. But look at the second derivatives (the *Hessian*):


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
# An intermediate is a constant to whoever differentiates the gradient once more. Keep the rule,
# *save inputs and outputs, recompute the rest*; lesson 06 has the reasons and the ways around.
# (Masks, signs and indices, which we saved above, are an exception: their derivative is zero
# anyway.)

# %% [markdown]
# ## Normalization is a projection
#
# *In depth: all paths through a mean and a variance. Exercise 7 needs it. One thing to take
# along: test small, for what is wrong by one in $N$ hides in large inputs.*
#
# Batch normalization without its parameters: $y = (x - \mu)/s$ over the batch, where $s^2$ is the
# variance. The obvious backward, $g/s$, holds two things fixed that are not: $\mu$ and $s$ depend
# on every $x_j$. Counting all paths gives
#
# $$\frac{\partial L}{\partial x} = \frac1s\Bigl(g - \operatorname{mean}(g)
# - y\,\operatorname{mean}(g \odot y)\Bigr).$$


# %%
class Standardize(Function):
    """y = (x - μ)/s over axis 0; ∂L/∂x = (g - mean(g) - y mean(g y)) / s."""

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
# What is that bracket? As a map of $g$ it is a matrix $P$. Let us ask what $P$ does to three
# things: to its own results, to the ones, and to $y$.

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
# It is a *projection*: doing it twice does no more than doing it once. What it removes are the two
# directions in which $x$ can move without changing $y$: shift the whole batch (the ones), or
# stretch it (along $y$). Symmetries again: of any normalization, by layer, by group, of a weight,
# you know beforehand which components its gradient must not have. (With an $\varepsilon$ under the
# root, as in practice, a stretch does change $y$ a little, and that component is only nearly zero.)
# Leave the two terms out, and `diagnose` sees what is missing:


# %%
class MeanAndStdFixed(Standardize):
    @staticmethod
    def backward(ctx, grad_output):
        x, _ = ctx.saved_tensors
        return grad_output / x.std(0, correction=0)


diagnose(MeanAndStdFixed, (torch.arange(6.0, dtype=torch.float64) ** 2,))

# %% [markdown]
# **Common belief: "the bigger the test, the stricter it is."** The derivative of the unbiased
# variance is $2\,(x_i - \mu)/(N-1)$. Divide by $N$ instead, and let `gradcheck` look:


# %%
class Variance(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.var()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * (x - x.mean()) / len(x)  # N; it is N - 1


for n in (5, 2000):
    x = torch.linspace(-1, 1, n, dtype=torch.float64, requires_grad=True)
    print(f"N = {n:>4}:", gradcheck(Variance.apply, x, raise_exception=False))

# %% [markdown]
# At 2000 elements the two differ by half a thousandth, and `rtol` forgives a whole one. What is
# wrong by one in $N$ hides in large inputs. Test small.

# %% [markdown]
# ## Convolution
#
# *In depth: two fan-outs in one forward. Exercise 10 needs it.*
#
# A kernel slides over a signal, and every output looks at one window of it. Windows overlap, so
# each sample of the signal is *read several times*; and every output uses *the same* kernel. Two
# fan-outs, and the two gradients are the two sums.
#
# With all windows laid out as rows of a matrix ($T$ windows of $K$ samples), the convolution is a
# matrix-vector product. Taking windows is reading at repeated indices; its backward adds each
# window's gradient back to where the window lay.


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
# Padding in the forward is cutting in the backward. Where the stride is longer than the kernel,
# some samples are never read and their gradient stays zero, with nothing to be done about it.
#
# Channels add an ordinary matrix product over the channels, and *groups* cut that product into
# blocks. The course's `Conv1d` has all of it. Here is a test for it that is cheaper than
# `gradcheck` and works at any size. For a map that is linear in $x$, backward is the transpose, so
# for any $x$ and $g$ the two numbers $\langle f(x), g\rangle$ and
# $\langle x, \text{backward}(g)\rangle$ are equal:

# %%
x, w = sample(8, 6, 100), sample(4, 3, 5)  # two groups: 6 channels in, 3 for each group
y = Conv1d.apply(x, w, 2, 1, 2)  # stride 2, padding 1, 2 groups
g = torch.randn_like(y)
grad_x, grad_w = torch.autograd.grad(y, (x, w), g)
print("y is", tuple(y.shape))
print("in x:", torch.allclose((y * g).sum(), (x * grad_x).sum()))
print("in w:", torch.allclose((y * g).sum(), (w * grad_w).sum()))

# %% [markdown]
# This *dot-product test* costs one forward and one backward. It holds for convolution, resampling,
# padding, gathering, FFT, a projector in tomography: whatever is linear.

# %% [markdown]
# ## Indices that repeat
#
# *In depth: the films once more, and the test that would have caught them. Exercise 9 needs it.*
#
# Back to the films. `gather`, `index_select`, `x[index]` and an embedding read; their backward
# adds. And the other way round: where a forward adds at indices, its backward reads there.

# %%
x, source = sample(2, 4), sample(2, 3)
index = torch.tensor([[0, 0, 3], [1, 2, 1]])
g = torch.randn(2, 3, dtype=torch.float64)
G = torch.randn(2, 4, dtype=torch.float64)

(of_reading,) = torch.autograd.grad(x.gather(1, index), x, g)
print("gather reads, backward adds: ", torch.equal(of_reading, (0 * x).scatter_add(1, index, g)))
(of_adding,) = torch.autograd.grad(x.scatter_add(1, index, source), source, G)
print("scatter adds, backward reads:", torch.equal(of_adding, G.gather(1, index)))

# %% [markdown]
# **Common belief: "I have run gradcheck on it."** The colleague had, too, with an index that
# happens not to repeat:

# %%
table = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(ReadRows.apply, (table, torch.tensor([2, 0, 3]))))
diagnose(ReadRows, (table, torch.tensor([2, 0, 2])))

# %% [markdown]
# An index is an input like any other: test with the values that make trouble. For indices those
# are repeats, and rows that nobody reads.
#
# A line from the same Function deserves a look, `grad_output.new_zeros(shape)`. **Common belief:
# "`torch.zeros(shape)` is the same."** It has the default dtype and device, mostly float32 on the
# CPU, whatever the gradient has:

# %%
grad_output = torch.ones(3, dtype=torch.float64)
try:
    torch.zeros(4).index_add(0, torch.tensor([2, 0, 2]), grad_output)
except RuntimeError as error:
    print(error)
added = grad_output.new_zeros(4).index_add(0, torch.tensor([2, 0, 2]), grad_output)
print("with new_zeros:", added.tolist())

# %% [markdown]
# ## Complex numbers and the conjugate
#
# *In depth: skip it unless your tensors are complex. Exercise 11 needs it.*
#
# For complex tensors all the patterns stay, with one addition. PyTorch's gradient of a real loss
# is $\partial L/\partial \operatorname{Re} z + i\,\partial L/\partial \operatorname{Im} z$, the
# direction of steepest ascent, so that `z - lr * z.grad` descends. For $y = a\,b$ this makes
#
# $$\frac{\partial L}{\partial a} = g\,\bar b .$$
#
# The transpose of the real world becomes the conjugate transpose. **Common belief: "the product
# rule is the product rule."** Let us find the complex $a$ for which $a\,b = 1$, with and without
# the bar:


# %%
class ComplexMultiply(Multiply):
    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = sum_to_shape(grad_output * b.conj(), a.shape)
        return grad_a, sum_to_shape(grad_output * a.conj(), b.shape)


b = torch.tensor(0.6 + 0.8j, dtype=torch.complex128)
first = {}
for name, function in (("without", Multiply), ("with", ComplexMultiply)):
    a = torch.zeros((), dtype=torch.complex128, requires_grad=True)
    for _ in range(31):
        error = (function.apply(a, b) - 1).abs().square()
        (gradient,) = torch.autograd.grad(error, a)
        first.setdefault(name, gradient)
        a = (a - 0.1 * gradient).detach().requires_grad_()
    print(f"{name:7} conjugate: the error, 1 at first, is {error.item():.3f} after 30 steps")
angle = (first["without"] / first["with"]).angle().rad2deg().abs()
print(f"angle between the two first steps: {angle:.0f}°")

# %% [markdown]
# More than a right angle: without the bar the step goes uphill. On real inputs the two are the
# same, and no test with real inputs can tell them apart. Test complex code with complex numbers;
# the rule is called `missing-conjugate`.

# %% [markdown]
# ## A gradient of your own
#
# Until now backward had to be the derivative of forward. Sometimes you want another one, for a
# part of the computation: a target that must not move, a layer that should learn slower, a feature
# that should *unlearn* something. The mildest of these need no Function. `x.detach()` has the
# value of `x` and no gradient, and the rest is arithmetic:


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
# Factor 0 is a stop, a negative one a *gradient reversal*: what lies behind it learns to make a
# loss small, what lies before it to make it large. A classifier of the *camera* placed behind a
# reversal teaches the features before it to forget which camera took the picture.
#
# ### A reversal as a Function
#
# *In depth: how such a Function is declared, tested and returned. Exercise 12 asks for it.*
#
# The reversal without the rounding of two products:


# %%
class GradientReversal(Function):
    """y = x; ∂L/∂x = -strength · g."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.clone()

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
# Of course `gradcheck` fails: this is not the derivative, by design. Which is no reason to leave
# the Function untested. `intentional=` declares the one deviation that is meant, and everything
# else is examined as ever.
#
# Why `x.clone()`, when nothing changes? **Common belief: "an identity may return its input."**


# %%
class ReturnsItsInput(GradientReversal):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x


y = ReturnsItsInput.apply(x, 1.0)
print("shares its memory with x:", y.data_ptr() == x.data_ptr())
try:
    y.mul_(2)  # as an in-place activation would
except RuntimeError as error:
    print(str(error).partition(". ")[0])

# %% [markdown]
# Autograd makes a view of it, and the next in-place operation fails. A copy, or `x * 1`, is safe.
# The same goes for a view of a tensor that forward has made itself: `SharedMax` above returns
# `y.squeeze(dim)`, and a `relu_()` behind it raises. `x.amax(dim)` at once would be no view.
#
# ### A bound that can be crossed back
#
# *In depth: skip it unless a parameter of yours has a bound.*
#
# A last one, which looks harmless. A standard deviation must stay above 0.1, so it goes through
# `clamp(min=0.1)`. If the parameter once falls below, its gradient is 0, and it can never come
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
# It trains, `gradcheck` passes it, and it is not the backward of *any* function, because a
# vector-Jacobian product is linear in $g$ and this asks for its sign. (`gradcheck` sends ones and
# zeros, never a negative number.) The same goes for `grad_output.clamp(-1, 1)`, the clipped
# gradient, and for every other bound. One may want it; then say so, with
# `intentional=("nonlinear-in-grad-output",)`, and do not be surprised that scaling the loss by
# $-1$ no longer scales the gradient.

# %% [markdown]
# ## Hooks instead of a Function
#
# *In depth: for looking at a gradient from outside. Come back when you want to log or clip one.*
#
# If all you want is to look at a gradient, or to change one for the time being, from outside, put
# a *hook* on a tensor: a function that gets the gradient when it is complete, and may return
# another.


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
# The loss uses $x$ twice, and the log has one entry: a tensor's hook runs once, on the *sum* over
# all uses. Return a new tensor, do not change $g$ in place, for others may hold it. And keep the
# handle: a hook that nobody removes stays, and a second run of the cell adds a second one.
#
# | you want to | take |
# | --- | --- |
# | look at a gradient, log its norm | a hook on the tensor |
# | clip or perturb it for one experiment | a hook, and its handle to remove it |
# | clip the gradients of all parameters together | `clip_grad_norm_`, after `backward()` |
# | stop or scale a gradient inside a model | `detach`, as above |
# | change it as part of the model, wherever the model goes | a Function |
# | change it by something that only `forward` knew | a Function |

# %% [markdown]
# ## Do you know it?
#
# Ten questions and one to write about. A wrong answer explains itself and gives nothing else away;
# try again.

# %%
knowledge_check("03")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# # inside backward(ctx, grad_output), with g = grad_output
# g * slope(y)                                     # element by element; else slope(x)
# sum_to_shape(g * b, a.shape)                     # a * b, where a was broadcast
# g @ b.mT, a.mT @ g                               # a @ b
# g.reshape(kept).expand(x.shape)                  # a sum; a mean: / count
# mask / mask.sum(dim, keepdim=True) * g           # a maximum, its winners sharing
# y * (g - (g * y).sum(dim, keepdim=True))         # softmax
# torch.exp(x - y) * g                             # log-sum-exp; y = -∞ replaced by 0
# (g - g.mean(0) - y * (g * y).mean(0)) / s        # normalization over axis 0
# g.new_zeros(shape).index_add(0, index, g)        # table[index]
# g * b.conj()                                     # complex a * b
# ```
#
# | | |
# | --- | --- |
# | one rule | a copy forward is a sum backward; a sum forward is a copy backward |
# | save | inputs and outputs, recompute the rest; ask what the slope still depends on |
# | broadcasting | sum to the input's shape yourself; the engine guesses, mostly right |
# | `sum(dim=())` | reduces everything |
# | kinks and ties | choose a convention, write it down |
# | couplings (softmax, norms) | every path counts; no Jacobian; symmetry tells what must be zero |
# | linear maps | $\langle f(x), g\rangle = \langle x, \text{backward}(g)\rangle$, at any size |
# | `-inf` rows | a finite value may have a `nan` gradient; look at both |
# | test inputs | small, not square, with repeats and ties, complex where complex is allowed |
# | wrong on purpose | declare it (`intentional=`), and have the rest examined |
# | only looking, or for now | a hook, and remove it |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/03_gradient_patterns.ipynb) ask for a dozen of these
# backwards, from GELU to gradient reversal, each graded on the spot. The course's own versions
# stand in `autograd_course/functions`, one a module; look at them after you have written yours.
#
# [Lesson 04](04_debugging_clinic.ipynb) shows how to find the mistake in a `backward` that somebody
# else wrote.
