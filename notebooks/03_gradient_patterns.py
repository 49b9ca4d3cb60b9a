# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/03_gradient_patterns.ipynb)
#
# # 03 · Gradient patterns
#
# **You will** derive and write the backward of the operations that most layers consist of: lookups,
# elementwise functions, broadcasting, matrix products, reductions and softmax.
#
# **You will learn** one rule from which all these formulas follow, what to save for each of them,
# and which mistakes `gradcheck` does not find.
#
# **You need** [lesson 01](01_template.ipynb), and the separate `forward` and `setup_context` from
# [lesson 02](02_ctx_rules.ipynb).
#
# **It takes** about 60 minutes; the *extra* sections take another 20. There are two
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
from torch.autograd import Function, grad, gradcheck
from torch.nn.functional import leaky_relu

from autograd_course import diagnose, grade, gradient_flow, hint  # noqa: F401
from autograd_course.functions import Square
from autograd_course.lesson import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    figure,
    note,
    predict,
    show_error,
    vote,
)
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## More ratings, and no better scores
#
# We have 2,000 ratings of 60 films and want to learn one score for each film. For each rating, the
# model looks up the score of the film and squares the difference between the two. This loss is
# smallest if each score is the average of the film's ratings.
#
# A colleague wrote the lookup as a custom Function. `forward` reads rows of the table. `backward`
# writes each gradient to the row that it belongs to.


# %%
class ReadRows(Function):
    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table[index] = grad_output
        return grad_table, None


# %% jupyter={"source_hidden": true}
rng = torch.Generator().manual_seed(0)
quality = 3 + 5 * torch.rand(60, generator=rng)
popularity = 1 / torch.arange(1.0, 61)
film = torch.multinomial(popularity, 2000, replacement=True, generator=rng)
stars = (quality[film] + 1.5 * torch.randn(2000, generator=rng)).round().clamp(0, 10)


def fit(read, steps=300):
    """Learn one score for each film. Return the scores and the loss of each step."""
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


def report(scores):
    """Print what was learned about film 2."""
    own = stars[film == 2]
    print(f"film 2: {len(own)} ratings, average {own.mean():.1f}, last one {own[-1]:.1f}")
    print(f"film 2: learned score {abs(scores[2]):.1f}")


# %% jupyter={"source_hidden": true}
scores, losses = fit(ReadRows.apply)
true_scores, true_losses = fit(lambda table, index: table[index])

with figure(columns=2, height=3.6) as (watched, errors):
    watched.plot(losses, color=ORANGE)
    watched.plot(true_losses, color=BLUE)
    watched.set(title="what the author watched", xlabel="step", ylabel="loss", ylim=(-2, 40))
    note(watched, "colleague's Function", (130, 6.5), ORANGE)
    note(watched, "autograd", (150, -0.9), BLUE)

    counts = torch.bincount(film, minlength=60)
    for found, color, marker in ((scores, ORANGE, "x"), (true_scores, BLUE, "o")):
        errors.scatter(counts, (found - quality).abs(), s=20, c=color, marker=marker, lw=1)
    errors.set_xscale("log")
    errors.set_ylim(-0.5, 4.6)
    errors.set(title="error of each film's score", xlabel="ratings", ylabel="|score − quality|")
    note(errors, "colleague: no better with more ratings", (4, 4.2), ORANGE)
    note(errors, "autograd", (150, -0.36), BLUE)

# %% [markdown]
# The loss falls to a seventh of its initial value (left, orange). If autograd differentiates
# `table[index]` itself, the loss falls further (blue), and films with many ratings get accurate
# scores (right). With the colleague's Function, more ratings do not help. Look at film 2:

# %%
report(scores)

# %% [markdown]
# The learned score is the last rating in the list. The line `grad_table[index] = grad_output`
# overwrites the row, so it keeps only one of the row's 134 gradients.
#
# **Your turn.** The row must collect all 134 gradients. Change the marked line so that it adds, and
# run the cell. The learned score should become 3.5.


# %%
class Repaired(ReadRows):
    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        grad_table = grad_output.new_zeros(ctx.shape)
        grad_table[index] = grad_output  # change this line
        return grad_table, None


report(fit(Repaired.apply)[0])

# %% [markdown]
# ## Why += is not enough
#
# Most people type `+=`, and the score does not change. `grad_table[index] += grad_output` reads the
# rows, adds the gradients, and writes the results back. If a row occurs twice in the index, both
# results start from the same old value, and the second one overwrites the first. `index_add` adds
# one gradient after the other. Here, row 2 occurs twice in the index, with the gradients 1 and 100:

# %%
index = torch.tensor([2, 0, 2])
g = torch.tensor([1.0, 10.0, 100.0])

assigned = torch.zeros(4)
assigned[index] = g
plus_equals = torch.zeros(4)
plus_equals[index] += g
print("=         ", assigned.tolist())
print("+=        ", plus_equals.tolist())
print("index_add ", torch.zeros(4).index_add(0, index, g).tolist())

# %% [markdown]
# (For a large index or on a GPU, `=` and `+=` may keep either of the two gradients, because several
# threads write at once.)
#
# With $y_i = \text{table}[\text{index}_i]$ and $g_i = \partial L/\partial y_i$, the gradient of row
# $r$ is the sum over all reads of this row:
#
# $$\frac{\partial L}{\partial\,\text{table}_r} = \sum_{i\,:\ \text{index}_i = r} g_i .$$
#
# Use `index_add` in your `Repaired`, and run that cell again.
#
# <details><summary>The repair</summary>
#
# ```python
# return grad_table.index_add(0, index, grad_output), None
# ```
#
# Film 2 then has the score 3.5, as with autograd.
#
# </details>

# %% [markdown]
# ## Copies forward, sums backward
#
# If you read a row twice, you make two copies of it. The lookup is one case of a rule that covers
# most of this lesson. Suppose that you use a value $x_j$ in several places. If $x_j$ changes, the
# loss changes through each of them, and these changes add up:
#
# $$\frac{\partial L}{\partial x_j} = \sum_{\text{uses } i \text{ of } x_j}
# g_i\,\frac{\partial y_i}{\partial x_j} .$$
#
# **A copy in the forward is a sum in the backward.** Copying is a linear map $y = M x$ with a
# matrix of zeros and ones. Its Jacobian is $M$, so its backward multiplies by the transpose,
# $M^\top g$. (For linear maps, the transpose is also called the *adjoint*.) The converse is also
# true. A sum multiplies by $M^\top$, so its backward multiplies by $M$, which copies. The table
# lists the pairs that you will meet:
#
# | forward | backward | where you meet it |
# | --- | --- | --- |
# | use twice, `expand` | `sum` | a variable used again, broadcasting |
# | `sum` | `expand` | every reduction |
# | read at `index` | add at `index` | embedding, `gather`, convolution, pooling |
# | `x @ W` | `g @ W.T` | every linear map: its transpose |
# | slice | pad with zeros | cropping, `narrow`, `chunk` |
# | permute, reshape | the inverse operation | no arithmetic at all |
#
# Below, $y = x^2$ is used twice, in a product with $x$ and in a sine. $x$ itself is also used
# twice.


# %%
def reused(x):
    y = Square.apply(x)
    return y * x + torch.sin(y)


gradient_flow(reused, torch.tensor(2.0))

# %% [markdown]
# When the picture opens, the backward pass is complete. Click on it and press → to start from the
# beginning. Two edges leave `Square`, so two gradients come back to it in the backward pass. It
# adds them before it passes anything on. Between Functions, the autograd engine computes this sum
# for you. *Inside* a Function, you compute it yourself: if your `forward` uses a value twice, your
# `backward` must add the gradients of both uses.
#
# ### Checkpoint 1
#
# The loss below uses $y = x^2$ twice: $L = x\,y + y$ at $x = 3$. Draw its graph. Which edges leave
# $x$, and which leave $y$? What is `x.grad`?

# %%
x = torch.tensor(3.0, requires_grad=True)
y = Square.apply(x)
(x * y + y).backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# $y$ receives $x = 3$ from the product and 1 from its second use, so 4 in total. The square turns
# this into $4 \cdot 2x = 24$. The product also sends $y = 9$ to $x$ directly. The sum is 33.
#
# </details>

# %% [markdown]
# ## Indices that repeat
#
# `gather`, `index_select`, `x[index]` and an embedding read at indices, so their backward adds at
# these indices. If a forward adds at indices, as `scatter_add` does, its backward reads there.

# %%
index = torch.tensor([[0, 0, 3], [1, 2, 1]])
g = torch.tensor([[1.0, 10.0, 100.0], [1.0, 10.0, 100.0]])
x = torch.zeros(2, 4, requires_grad=True)
print("gather reads, its backward adds:      ", grad(x.gather(1, index), x, g)[0].tolist())

source = torch.zeros(2, 3, requires_grad=True)
G = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
y = torch.zeros(2, 4).scatter_add(1, index, source)
print("scatter_add adds, its backward reads: ", grad(y, source, G)[0].tolist())

# %% [markdown]
# The colleague tested `ReadRows` with `gradcheck`, on a table of four numbers and the index
# `[2, 0, 3]`. Vote before you run the same test. Some of the beliefs in this lesson are true.

# %%
vote("03", "unique-index")

# %%
table = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(ReadRows.apply, (table, torch.tensor([2, 0, 3]))))
diagnose(ReadRows, (table, torch.tensor([2, 0, 2])), repair=False)

# %% [markdown]
# The index is also an input, so test index values that cause trouble. Some rows should occur more
# than once, and some not at all. (We passed such an index to `diagnose`.)
#
# One more line in this Function matters. `grad_output.new_zeros(shape)` takes its dtype and device
# from the gradient. `torch.zeros(shape)` would use the defaults, usually float32 on the CPU.
#
# ### Exercise 1: rows of a table
#
# Now write a lookup that works for any table and any index. `table` has the shape $(V, D)$, `index`
# has any shape, and the output has the shape of `index` followed by $D$. If you are stuck, run
# `hint("gather-rows")` in a new cell.


# %%
class GatherRows(Function):
    @staticmethod
    def forward(table, index):
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
grade("gather-rows", GatherRows)

# %% [markdown]
# ## Elementwise functions
#
# The simplest pattern makes no copies: $y_i = f(x_i)$. The Jacobian is diagonal, and `backward`
# returns $g \odot f'(x)$. You only have to decide what to *save*. If you can write $f'$ in terms of
# the output, save the output, because the next layer usually keeps it anyway.


# %%
class Tanh(Function):
    """y = tanh x; ∂L/∂x = (1 - y²) ∂L/∂y."""

    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

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
# *Extra: what a slope of at most a quarter does to a deep network.*
#
# The third line of the table has consequences. $y\,(1-y)$ is never more than $\tfrac14$, so each
# sigmoid removes at least three quarters of the gradient that arrives. Here are four layers in a
# row:

# %%
torch.manual_seed(0)
layers = []
for _ in range(4):
    layers += [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid())]
net = torch.nn.Sequential(*layers)

gradient_flow(lambda x: net(x).sum(), torch.randn(4, 8), depth=1, step=13)

# %% [markdown]
# Read the norms of the gradients from right to left. They shrink from 5.66 to 0.0025, so the layer
# that sees the data learns almost nothing. There is no bug here: this *is* the gradient of this
# forward. It is one reason why networks use ReLU, residual connections and normalization. Click on
# ▸ to open a layer.
#
# ### At a kink
#
# *Extra: which gradient to return where no derivative exists. Lesson 05 has weights that lie on a
# kink.*
#
# For the mask of a ReLU, you can write `x > 0` or `x >= 0`. The two differ only at $x = 0$, where
# no derivative exists. PyTorch
# [documents a rule](https://docs.pytorch.org/docs/stable/notes/autograd.html#gradients-for-non-differentiable-functions)
# for such points:
#
# 1. If the function is convex near the point, use the subgradient of minimum norm.
# 2. If it is concave there, use the supergradient of minimum norm.
# 3. Otherwise, define the gradient by continuity. If several values are possible, any of them will
#    do.
#
# A *subgradient* is the slope of a line that touches a convex function at the point and never lies
# above the function. At a kink of a convex function of one variable, all slopes between the left
# slope and the right slope are subgradients.


# %%
def at_zero(f):
    x = torch.zeros(1, requires_grad=True)
    return grad(f(x).sum(), x)[0].item()


print("relu             ", at_zero(torch.relu))
print("clamp(min=0)     ", at_zero(lambda x: x.clamp(min=0)))
print("maximum(x, 0)    ", at_zero(lambda x: torch.maximum(x, torch.zeros(1))))
print("leaky_relu, 0.25 ", at_zero(lambda x: leaky_relu(x, 0.25)))
print("abs              ", at_zero(torch.abs))

# %% [markdown]
# `relu`, `leaky_relu` and `abs` are convex. For `relu` and `abs`, the slope closest to 0 is 0, and
# for `leaky_relu`, it is 0.25. `maximum` is a convex function of *two* arguments. Where they are
# equal, its subgradients are $(t, 1 - t)$, and the shortest one is $(\tfrac12, \tfrac12)$. `clamp`
# does not follow the rule in PyTorch 2.13, where it returns 1.
#
# Does an input ever lie exactly on a kink? A parameter that starts at zero does. The next cell
# starts at $w = 0$ and searches for the $w$ for which $f(w) = 1$. It does this for two functions
# that have the same *values*:

# %%
zero = torch.zeros(())
for name, f in (("relu", torch.relu), ("maximum(w, 0)", lambda w: torch.maximum(w, zero))):
    w = torch.zeros((), requires_grad=True)
    for _ in range(50):
        (gradient,) = grad((f(w) - 1) ** 2, w)
        w = (w - 0.1 * gradient).detach().requires_grad_()
    print(f"{name:13} w after 50 steps: {w.item():.2f}")

# %% [markdown]
# Both functions follow the rule. But with a gradient of 0, the parameter never moves. So state in
# the docstring which gradient your Function returns at a kink. If it differs from a `reference=`
# only there, `diagnose` reports `kink-convention`, which is not an error.

# %% [markdown]
# ### What must be saved?
#
# Swish, $y = x\,\sigma(x)$, first falls and then rises. Its derivative is
# $\sigma(x)\,(1 + x\,(1 - \sigma(x)))$. The next cell computes it at two inputs with the same
# output.

# %%
vote("03", "output-is-enough")


# %%
def swish(x):
    return x * torch.sigmoid(x)


x = torch.tensor([-2.396205, -0.544982], requires_grad=True)
y = swish(x)
(slopes,) = grad(y.sum(), x)
for k in range(2):
    print(f"x = {x[k]:.3f}   y = {y[k]:.3f}   slope {slopes[k]:+.3f}")

# %% jupyter={"source_hidden": true}
with figure(width=6.6, height=3.2) as (axes,):
    xs = torch.linspace(-5, 2, 300)
    axes.plot(xs, swish(xs), color=BLUE)
    axes.axhline(-0.2, color=GRAY, linestyle="--", linewidth=1)
    for at, slope, color in zip(x.tolist(), slopes.tolist(), (ORANGE, GREEN), strict=True):
        near = torch.tensor([-0.7, 0.7]) + at
        axes.plot(near, slope * (near - at) - 0.2, color=color, linewidth=3)
        axes.plot([at], [-0.2], "o", color=color)
    axes.set(title="swish: one output, two slopes", xlabel="x", ylabel="y", ylim=(-0.6, 1))
    note(axes, f"slope {slopes[0]:+.2f}", (x[0].item() - 0.4, -0.45), ORANGE)
    note(axes, f"slope {slopes[1]:+.2f}", (x[1].item() + 0.2, -0.42), GREEN)

# %% [markdown]
# The outputs are equal, but the slopes have opposite signs. So no formula in $y$ alone gives both
# slopes. Save $x$ and recompute $\sigma(x)$. (If you save $\sigma(x)$ instead, the *second*
# derivative is wrong without a warning, because a saved intermediate has no graph. Lesson 06
# explains this.)

# %% [markdown]
# ## Broadcasting is a copy
#
# If two shapes differ, broadcasting repeats a tensor along the dims that it lacks, and along its
# dims of size 1. Repeating is copying, so `backward` sums over exactly the dims that were repeated.
# In the result, the dims that broadcasting added in front are gone, and the dims that it expanded
# have size 1 again. `sum_to_shape` does this for all shapes. (The method `g.sum_to_size(shape)`
# does the same.)


# %%
def sum_to_shape(gradient, shape):
    while gradient.dim() > len(shape):  # dims that broadcasting added in front
        gradient = gradient.sum(0)
    for dim, size in enumerate(shape):
        if size == 1:  # a dim that broadcasting may have expanded
            gradient = gradient.sum(dim, keepdim=True)
    return gradient


class Add(Function):
    """y = a + b for shapes that broadcast; ∂L/∂a and ∂L/∂b are sums of g over the copies."""

    @staticmethod
    def forward(a, b):
        return a + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.a_shape, ctx.b_shape = a.shape, b.shape

    @staticmethod
    def backward(ctx, grad_output):
        return sum_to_shape(grad_output, ctx.a_shape), sum_to_shape(grad_output, ctx.b_shape)


def sample(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


for a, b in ((sample(2, 3), sample(3)), (sample(4, 1), sample(2, 1, 3)), (sample(2), sample())):
    print(f"{tuple(a.shape)} plus {tuple(b.shape)}:", gradcheck(Add.apply, (a, b)))

# %% [markdown]
# Do not collect these dims in a list for one call of `sum`. If no dim was broadcast, the list is
# empty, and `sum([])` sums over *all* dims.
#
# Now leave out the two sums. In the next cell, `b` has the shape (3,), and `backward` returns a
# gradient of shape (2, 3) for it.

# %%
vote("03", "forgotten-sum")


# %%
class AddUnreduced(Add):
    @staticmethod
    def backward(ctx, grad_output):
        print("backward returns the shape", tuple(grad_output.shape), "for both inputs")
        return grad_output, grad_output


a = torch.zeros(2, 3, requires_grad=True)
b = torch.zeros(3, requires_grad=True)
weights = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
(weights * AddUnreduced.apply(a, b)).sum().backward()
print("b.grad:", b.grad.tolist())

# %% [markdown]
# The autograd engine knows the shape of $b$ and sums over the dims that broadcasting could have
# repeated. So this `backward` also passes `gradcheck`. But the sum is your job. Code that calls
# `backward` directly gets the wrong shape. The engine aligns shapes from the right. If your forward
# computes `x * s[:, None]`, it repeats `s` along dim 1. For a square `x`, however, the engine sums
# over dim 0, and the gradient is wrong.
#
# ### Exercise 2: multiply with broadcasting
#
# Write $z = x\,y$ for any two shapes that broadcast. `backward` itself returns gradients with the
# shapes of $x$ and $y$. You may use `sum_to_shape`.


# %%
class BroadcastMultiply(Function):
    @staticmethod
    def forward(x, y):
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
grade("broadcast-multiply", BroadcastMultiply)

# %% [markdown]
# ### One parameter for all elements
#
# A parameter that all elements share follows the same pattern. A learned Swish, $y =
# x\,\sigma(\beta x)$, copies $\beta$ to every $x_i$. So $\partial L/\partial\beta = \sum_i
# g_i\,x_i^2\,\sigma'(\beta x_i)$ is one number, a sum over all elements.
#
# ### Where the engine guesses wrong
#
# *Extra: a forward that repeats along another dim. Read it when `diagnose` reports
# `unreduced-broadcast`.*
#
# In the next cell, the vector `s` has one number for each row of `x`:


# %%
class ScaleRows(Function):
    """y = x scaled row by row: s has one number for each row of x."""

    @staticmethod
    def forward(x, s):
        return x * s[:, None]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return grad_output * s[:, None], grad_output * x  # the sum over dim 1 is missing


x = torch.arange(1.0, 10.0).reshape(3, 3)
s = torch.ones(3, requires_grad=True)
ScaleRows.apply(x, s).sum().backward()
print("gradient of s:", s.grad.tolist(), "should be", x.sum(1).tolist())

s = torch.ones(2, requires_grad=True)
with show_error():
    ScaleRows.apply(x[:2], s).sum().backward()

# %% [markdown]
# For the square matrix, the engine sums over the rows instead of the columns, and the gradient is
# wrong. For the 2×3 matrix, it raises an error. People often try a square matrix first. `diagnose`
# looks at what `backward` itself returns. `unreduced-broadcast` is a warning if the engine's sum is
# right, and an error if it is not.
#
# ### A threshold for all elements
#
# *Extra: a backward that needs only the sign of its output.*
#
# The *soft threshold* moves every element towards zero by $t$, and sets elements smaller than $t$
# to zero. The sign of the output tells `backward` all that it needs to know about $x$. An element
# above $t$ has a positive output, an element below $-t$ has a negative output, and all others have
# the output 0.


# %%
class SoftThreshold(Function):
    """y = sign(x) max(|x| - t, 0); where |x| > t, ∂L/∂x = g and ∂L/∂t = Σ -sign(x) g."""

    @staticmethod
    def forward(x, t):
        return x.sign() * (x.abs() - t).clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, t = inputs
        ctx.save_for_backward(output)
        ctx.shape = t.shape

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        side = y.sign()
        return side.abs() * grad_output, sum_to_shape(-side * grad_output, ctx.shape)


x = torch.tensor([[-2.0, 0.3, 1.5], [0.1, -0.7, 3.0]], dtype=torch.float64, requires_grad=True)
for t in (torch.tensor(0.5), torch.tensor([[0.5], [1.0]]), torch.tensor([0.2, 0.5, 1.0])):
    t = t.double().requires_grad_()
    print(f"t of shape {tuple(t.shape)!s:6}", gradcheck(SoftThreshold.apply, (x, t)))

# %% [markdown]
# ### Checkpoint 2
#
# Now finish a `backward` yourself. `forward` returns the matrix $d_{ij} = x_i - x_j$ of all
# pairwise differences. It copies each $x_k$ along row $k$ and, with a minus sign, along column $k$.
# What does `backward` return? (The exercise on soft ranks builds on this.)


# %%
class Differences(Function):
    @staticmethod
    def forward(x):
        return x[:, None] - x[None, :]

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass  # backward needs no tensor

    @staticmethod
    def backward(ctx, grad_output):
        return None  # grad_output is n×n; add up the gradients of all uses of each x_k


diagnose(Differences, (torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64),), repair=False)

# %% [markdown]
# <details><summary>Why</summary>
#
# ```python
# return grad_output.sum(1) - grad_output.sum(0)
# ```
#
# Sum the row of $x_k$ over dim 1. Sum its column over dim 0 and subtract the result. Each half
# alone looks like a plausible backward formula, but it misses half of the uses.
#
# </details>

# %% [markdown]
# ## Matrix products from their shapes
#
# Let $Y = A B$, that is, $Y_{ij} = \sum_k A_{ik} B_{kj}$, and let $G = \partial L/\partial Y$ be
# the upstream gradient. In row $i$ of $Y$, each column $j$ uses $A_{ik}$ once. Sum over its uses:
# $\partial L/\partial A_{ik} = \sum_j G_{ij} B_{kj} = (G B^\top)_{ik}$. In the same way,
# $\partial L/\partial B = A^\top G$.
#
# You do not have to remember these formulas, because the shapes determine them. Suppose that $A$ is
# 2×3 and $B$ is 3×5. Then $G$ is 2×5. The gradient of $A$ must be 2×3, and the only product of two
# of these matrices (transposed or not) that has this shape is $G B^\top$. The gradient of $B$ must
# be 3×5, and the only such product is $A^\top G$. With square matrices, all products fit, so never
# test a matrix product with square matrices.
#
# For batches, the formula is the same for each pair of matrices. If a batch dim was broadcast, sum
# over it, as you do after every broadcast:


# %%
class MatMul(Function):
    """Y = A B on the last two dims, batches broadcast; ∂L/∂A = G Bᵀ, ∂L/∂B = Aᵀ G."""

    @staticmethod
    def forward(a, b):
        return a @ b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        grad_a = sum_to_shape(grad_output @ b.mT, a.shape)
        grad_b = sum_to_shape(a.mT @ grad_output, b.shape)
        return grad_a, grad_b


print("matrices:        ", gradcheck(MatMul.apply, (sample(2, 3), sample(3, 5))))
print("batch and matrix:", gradcheck(MatMul.apply, (sample(4, 2, 3), sample(3, 5))))

# %% [markdown]
# ## Reductions
#
# A sum is the transpose of a copy, so its backward *expands*: every element gets the gradient of
# the sum that it is part of. A mean also divides by $N$, the number of elements in each mean (not
# in all of $x$). With `keepdim=False`, the reduced dims are gone, and you must restore them with
# size 1 before you can expand.


# %%
class Mean(Function):
    """y = the mean over several dims; ∂L/∂x = g / N, expanded."""

    @staticmethod
    def forward(x, dims, keepdim=False):
        return x.mean(dims, keepdim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dims, _ = inputs
        ctx.shape = x.shape
        ctx.kept = list(x.shape)  # the shape with keepdim=True: the reduced dims have size 1
        for dim in dims:
            ctx.kept[dim] = 1
        ctx.count = x.numel() // output.numel()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.reshape(ctx.kept).expand(ctx.shape) / ctx.count, None, None


x = sample(2, 3, 4)
for arguments in (((0,),), ((-1,), True), ((0, 2),), ((0, 2), True)):
    print(f"{arguments!s:15}", gradcheck(Mean.apply, (x, *arguments)))

# %% [markdown]
# One `reshape` to the kept shape works for both values of `keepdim`, and for one dim as well as
# several. The Function saves no tensor, because the backward of a linear map does not depend on its
# input.
#
# ### Max, and what ties do
#
# A maximum passes its gradient to the largest element. If several elements tie, the maximum has a
# kink. After a ReLU, this is common, because many elements are 0. The next cell computes the
# maximum of `[3, 1, 3]` and its gradient with four functions. The vote is about the first one,
# `amax`.

# %%
vote("03", "tied-maximum")

# %%
for name, f in (
    ("amax(0)", lambda x: x.amax(0)),
    ("max()", lambda x: x.max()),
    ("max(0).values", lambda x: x.max(0).values),
    ("topk(1).values", lambda x: x.topk(1).values.sum()),
):
    x = torch.tensor([3.0, 1.0, 3.0], requires_grad=True)
    (g,) = grad(f(x), x)
    print(f"{name:15} the two winners get {sorted(g[[0, 2]].tolist())}, the loser {g[1]:.0f}")

# %% [markdown]
# PyTorch's functions follow two conventions. `amax` and `max()` follow the documented rule for
# kinks of a convex function (lesson 01): of all valid gradients, take the one with the smallest
# norm. Here, this means equal shares. `max(0)` and `topk` also return an index, and give the whole
# gradient to the element at that index.
#
# If the winners should share the gradient equally, multiply the gradient by their mask, `x == y`,
# and divide it by the number of winners. The mask alone would give the *whole* gradient to each of
# them. An exercise asks for this Function.

# %% [markdown]
# ### An error that large inputs hide
#
# *Extra: why you should test on small inputs.*
#
# A larger test is not always a stricter test. The derivative of the unbiased variance is
# $2\,(x_i - \mu)/(N-1)$. Divide by $N$ instead, and run `gradcheck`:


# %%
class Variance(Function):
    @staticmethod
    def forward(x):
        return x.var()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * (x - x.mean()) / len(x)  # should be len(x) - 1


for n in (5, 2000):
    x = torch.linspace(-1, 1, n, dtype=torch.float64, requires_grad=True)
    print(f"N = {n:>4}:", gradcheck(Variance.apply, x, raise_exception=False))

# %% [markdown]
# For 2000 elements, the gradients are at most 0.001, and the two results differ by 0.05% of that.
# `gradcheck` allows a difference of `atol` (0.00001) plus `rtol` (0.1% of the value). Each of these
# two alone is larger than this difference. An error of this kind gets smaller as $N$ grows, so test
# on small inputs.

# %% [markdown]
# ## Softmax without a Jacobian
#
# In a softmax, $y_i = e^{x_i}/\sum_j e^{x_j}$, every output depends on every input of its row,
# because all outputs share the denominator:
#
# $$\frac{\partial y_i}{\partial x_j} = y_i\,(\delta_{ij} - y_j), \qquad
# J = \operatorname{diag}(y) - y\,y^\top,$$
#
# where $\delta_{ij}$ is 1 for $i = j$ and 0 otherwise. $J$ is a diagonal matrix minus an outer
# product, so you can compute $g^\top J$ without the matrix:
#
# $$\frac{\partial L}{\partial x} = y \odot \Bigl(g - \sum_i g_i\,y_i\Bigr).$$
#
# In the picture below, rows are outputs and columns are inputs. If an input grows, its own output
# grows (the diagonal), and all other outputs shrink.


# %%
class Softmax(Function):
    """y = softmax of the last dim; ∂L/∂x = y ∘ (g - Σ g y)."""

    @staticmethod
    def forward(x):
        return torch.softmax(x, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))


logits = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0], dtype=torch.float64)
jacobian_view(Softmax, logits)

# %% [markdown]
# One check needs no second implementation. If you add one number to all inputs of a row, the
# outputs do not change. So *each row of the gradient must sum to zero*.
#
# ### Only the diagonal
#
# *Extra: a wrong softmax in the picture, and the check that finds it.*
#
# You may have read that the derivative of softmax is $y\,(1-y)$. That is only the diagonal of $J$:


# %%
class DiagonalSoftmax(Softmax):
    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y * (1 - y)


jacobian_view(DiagonalSoftmax, logits)

# %% [markdown]
# The diagonal is right, but all other entries are missing. The sum of the gradient also shows the
# mistake:

# %%
g = torch.arange(5.0, dtype=torch.float64)
for function in (Softmax, DiagonalSoftmax):
    x = logits.clone().requires_grad_()
    (gradient,) = grad(function.apply(x), x, g)
    print(f"{function.__name__:15} the gradient sums to {abs(gradient.sum()):.2f}")

# %% [markdown]
# ### Checkpoint 3
#
# The weights below are $y = (\tfrac12, \tfrac14, \tfrac14)$, and the loss is $4\,y_0$. What is the
# gradient with respect to the first score? You need no Jacobian.

# %%
x = torch.tensor([0.5, 0.25, 0.25]).log().requires_grad_()
(4 * Softmax.apply(x)[0]).backward()

predict(..., x.grad[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# $g = (4, 0, 0)$, so $\sum_i g_i y_i = 2$, and $y_0\,(g_0 - 2) = \tfrac12 \cdot 2 = 1$. Each of the
# other two gets $\tfrac14\,(0 - 2) = -\tfrac12$. The three sum to zero.
#
# </details>

# %% [markdown]
# ## Do you know it?
#
# Answer seven questions, and answer one more in your own words. If an answer is wrong, you will
# see why and can try again.

# %%
knowledge_check("03")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# # inside backward(ctx, grad_output), with g = grad_output
# g * slope(y)                                     # elementwise; or slope(x)
# sum_to_shape(g * b, a.shape)                     # a * b, where a was broadcast
# g @ b.mT, a.mT @ g                               # a @ b
# g.reshape(kept).expand(x.shape)                  # a sum; a mean: / count
# g * mask / mask.sum(dim, keepdim=True)           # a maximum, its winners sharing; g keeps the dim
# y * (g - (g * y).sum(dim, keepdim=True))         # softmax
# g.new_zeros(shape).index_add(0, index, g)        # table[index]
# ```
#
# | | |
# | --- | --- |
# | one rule | a copy forward is a sum backward; a sum forward is a copy backward |
# | save | inputs and outputs, recompute the rest; ask what the slope depends on |
# | broadcasting | sum to the input's shape yourself; the engine guesses, usually right |
# | `sum(dim=())` | reduces everything |
# | kinks and ties | convex: the subgradient of minimum norm; say what you return |
# | softmax | each output depends on its whole row; each row of the gradient sums to zero |
# | test inputs | small, not square, with repeats and ties |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/03_gradient_patterns.ipynb) ask for more backward
# formulas, up to soft ranks. You will also find a wrong line in a pooling layer and predict five
# gradients. The course's own versions of the Functions that you write are in
# `autograd_course/functions`, one per module. Look at them after you have written yours.
#
# [Lesson 04](04_debugging_clinic.ipynb) shows how to find the mistake in a `backward` that somebody
# else wrote. [Lesson 09](09_more_patterns.ipynb) continues with stability, normalization,
# convolution and complex numbers. You can read it at any time.
