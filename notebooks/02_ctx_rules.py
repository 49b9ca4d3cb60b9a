# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/02_ctx_rules.ipynb)
#
# # 02 · The rules of ctx
#
# **You will** break the rules of `ctx` on purpose and see the consequences: wrong gradients, memory
# that is not freed, and error messages.
#
# **You will learn** what `ctx` is and how long it exists, what to pass to `save_for_backward`, what
# `backward` must not change, and what else a Function can tell autograd through `ctx`.
#
# **You need** [lesson 01](01_template.ipynb): a Function, `save_for_backward`, `gradcheck`.
#
# **It takes** about 55 minutes; the *extra* sections take another 25. There are two
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
import gc
import math
import weakref

import numpy as np
import torch
from torch.autograd import Function, grad, gradcheck
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose, grade, gradient_flow, hint  # noqa: F401
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, show_error, vote
from autograd_course.visualize import knowledge_check, memory_timeline

# %% [markdown]
# ## A swing that does not go up
#
# A motor can push a swing sixty times. It is too weak to lift the swing in one go, so it has to
# push at the right moments. Gradient descent through a simulation searches for sixty pushes that
# bring the swing upright, to 180°. A NumPy routine computes the pull of gravity, so a colleague
# wrote a Function for it. The Function passes `gradcheck`.


# %%
class Pull(Function):
    """y = sin(angle), computed by NumPy; ∂L/∂angle = cos(angle) · ∂L/∂y."""

    @staticmethod
    def forward(ctx, angle):
        ctx.angle = angle
        return torch.as_tensor(np.sin(angle.numpy(force=True)))

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * torch.cos(ctx.angle)


angles = torch.tensor([0.0, 0.7, -2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Pull.apply, angles))


# %% jupyter={"source_hidden": true}
def simulate_in_place(pull, pushes, dt=0.2):
    """Yield the angle and the speed after each push."""
    angle = torch.zeros((), dtype=torch.float64)
    speed = torch.zeros((), dtype=torch.float64)
    for push in pushes:
        speed = speed + dt * (push - pull(angle))
        angle += dt * speed
        yield angle, speed


def search(pull, simulate, steps=60):
    """Return the loss of every step, and the angles in degrees of the last simulation."""
    wish = torch.full((60,), 0.3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([wish], lr=0.1)
    losses = []
    for _ in range(steps):
        path = []
        for state in simulate(pull, 0.4 * torch.tanh(wish)):
            path.append(math.degrees(state[0].item()))
        angle, speed = state
        loss = 1 + torch.cos(angle) + speed**2 / 2  # 0 if upright and at rest
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, path


# %% jupyter={"source_hidden": true}
def simulate_out_of_place(pull, pushes, dt=0.2):
    angle = torch.zeros((), dtype=torch.float64)
    speed = torch.zeros((), dtype=torch.float64)
    for push in pushes:
        speed = speed + dt * (push - pull(angle))
        angle = angle + dt * speed
        yield angle, speed


losses, path = search(Pull.apply, simulate_in_place)
true_losses, true_path = search(torch.sin, simulate_out_of_place)

with figure(columns=2, height=3.5) as (descent, motion):
    descent.plot(losses, color=ORANGE, linestyle="--")
    descent.plot(true_losses, color=BLUE)
    descent.set(title="the search", xlabel="step of the optimizer", ylabel="loss", ylim=(0, 2.6))
    note(descent, "with Pull", (34, 1.85), ORANGE)
    note(descent, "with the right gradient", (22, 0.3), BLUE)

    motion.axhline(180, color=GRAY, linewidth=1, linestyle=":")
    motion.axhline(-180, color=GRAY, linewidth=1, linestyle=":")
    motion.plot(path, color=ORANGE, linestyle="--")
    motion.plot(true_path, color=BLUE)
    motion.set(title="the swing it found", xlabel="push", ylabel="angle in degrees")
    motion.set(yticks=(-180, -90, 0, 90, 180), ylim=(-200, 200))
    note(motion, "upright", (1, 155 if true_path[-1] > 0 else -172), GRAY)

# %% [markdown]
# With `Pull`, the loss stops falling, and the swing turns back at 110° (dashed). PyTorch raised no
# error, so the motor seems to be too weak. But with the right gradient, the swing goes up (solid).
# To find the reason, replace `Pull` with PyTorch's own sine:

# %%
with show_error():
    search(torch.sin, simulate_in_place)

# %% [markdown]
# (`[…]` marks where `show_error` shortened the message.) The simulation updates the angle by
# `angle += …`. This overwrites the tensor that `sin` saved for its backward pass, and PyTorch
# notices.
#
# **Your turn.** Change one line so that each step creates a new tensor for the angle. Run the cell
# with the colleague's Function. The swing should now reach 172°.


# %%
def simulate(pull, pushes, dt=0.2):
    angle = torch.zeros((), dtype=torch.float64)
    speed = torch.zeros((), dtype=torch.float64)
    for push in pushes:
        speed = speed + dt * (push - pull(angle))
        angle += dt * speed  # change this line
        yield angle, speed


losses, path = search(Pull.apply, simulate)
print(f"loss after 60 steps: {losses[-1]:.1f}")
print(f"highest point: {max(map(abs, path)):.0f}°")

# %% [markdown]
# <details><summary>The line</summary>
#
# `angle = angle + dt * speed`
#
# </details>
#
# The graph has sixty nodes for the pull of gravity. Each node stored the angle, but they all stored
# the same tensor. So all sixty used the cosine of the last angle in the backward pass.
#
# You have worked around the bug. PyTorch allows you to update a tensor in place, and the formula in
# `backward` is right. The bug itself is the line `ctx.angle = angle`. It bypasses the check that
# raised the error for `torch.sin`.

# %% [markdown]
# ## Separate forward and setup_context
#
# Here is the Function without the bug, in the form with three methods that you saw in lesson 01.
# PyTorch recommends this form. `forward` receives only the inputs. `setup_context` receives `ctx`,
# the tuple of all inputs, and the output. It saves the tensors and sets the attributes. This
# version has a second argument, a number.


# %%
class Gravity(Function):
    """y = strength · sin(angle); ∂L/∂angle = strength · cos(angle) · ∂L/∂y."""

    @staticmethod
    def forward(angle, strength):
        return torch.as_tensor(strength * np.sin(angle.numpy(force=True)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        angle, strength = inputs
        ctx.save_for_backward(angle)
        ctx.strength = strength

    @staticmethod
    def backward(ctx, grad_output):
        (angle,) = ctx.saved_tensors
        return grad_output * ctx.strength * torch.cos(angle), None


def gravity(angle):
    return Gravity.apply(angle, 1.0)


print("gradcheck:", gradcheck(gravity, angles))
with show_error():
    search(gravity, simulate_in_place)

# %% [markdown]
# With `Gravity`, the in-place simulation raises an error instead of giving a wrong gradient.
#
# `Pull` has a *combined* `forward`, which receives `ctx` and does the work of both methods. You
# wrote this form in lesson 01, and you will find it in older code. It works with `backward()` and
# `torch.compile`. But the transforms in `torch.func` (`grad`, `vmap`, `jvp`) run `forward` without
# a `ctx`, so they accept only the separate form. Lesson 11 uses them.
#
# `setup_context` cannot see intermediate results of `forward`. If `backward` needs one, recompute
# it, return it as an additional output, or save it in a combined `forward`. A saved intermediate
# has no graph, so second derivatives through it are wrong without an error (lesson 06). Unless you
# save an intermediate, write the separate form.
#
# | in `setup_context` | purpose |
# | --- | --- |
# | `ctx.save_for_backward(x, y)` | keep tensors for `backward` |
# | `ctx.name = value` | keep everything else: numbers, shapes, flags |
# | `ctx.mark_dirty(x)` | declare that `forward` overwrote the input `x` and returns it |
# | `ctx.mark_non_differentiable(m)` | declare that the output `m` has no gradient |
# | `ctx.set_materialize_grads(False)` | receive `None` instead of zeros for unused outputs |
#
# | in `backward` | |
# | --- | --- |
# | `ctx.saved_tensors` | the saved tensors, in the same order |
# | `ctx.name` | an attribute |
# | `ctx.needs_input_grad` | for each argument, whether its gradient is needed |
#
# ### Exercise 1: snake
#
# Networks that generate audio use the activation $y = x + \sin^2(a x) / a$, because it can
# represent periodic signals. Its derivative is $1 + \sin(2 a x)$, and `a` is a Python number. Save
# only `x`.


# %%
class Snake(Function):
    @staticmethod
    def forward(x, a):
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
grade("snake", Snake)

# %% [markdown]
# ## What ctx is, and how long it lives
#
# The autograd graph consists of *nodes*, one for each recorded operation, and `y.grad_fn` is the
# node that produced `y`. For a custom Function, this node is the `ctx`. The next cell shows how
# long it exists: `weakref.finalize` prints a line when Python deletes it.
#
# Vote before you run the cell. Some of the statements that you vote on are true.

# %%
vote("02", "ctx-after-backward")


# %%
class Diary(Function):
    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)
        weakref.finalize(ctx, print, "  ctx is deleted")

    @staticmethod
    def backward(ctx, grad_output):
        print("  backward reads", len(ctx.saved_tensors), "saved tensor")
        return 2 * grad_output


x = torch.ones(3, requires_grad=True)
y = Diary.apply(x)
print("y.grad_fn is", y.grad_fn.name())
y.sum().backward()
print("after the backward pass:")
with show_error():
    print(y.grad_fn.saved_tensors)
print("del y:")
del y
print("under no_grad:")
with torch.no_grad():
    y = Diary.apply(x)

# %% [markdown]
# The backward pass frees only the tensors in `save_for_backward`. The node and its attributes exist
# as long as something refers to the graph. Here, this is `y`. In a training loop, it is often the
# loss. Under `no_grad`, Python deletes `ctx` at once.
#
# Each call of `apply` creates its own `ctx`. Do not store anything on the class, because all calls
# share it. One backward pass visits each node once: if you use `y` twice, autograd first adds up
# the gradients of both uses and then calls `backward`.
#
# ### Look inside a node
#
# *Extra: a live picture of what a node stores.*
#
# Click on the picture, go to the custom node with ↓ and press Enter. The picture shows the saved
# tensor with its size in bytes and, below it, `ctx.strength`.

# %%
gradient_flow(
    lambda angle, push: push * Gravity.apply(angle, 2.0), torch.tensor(0.5), torch.ones(())
)

# %% [markdown]
# ## What goes where, and what goes wrong otherwise
#
# Tensors belong in `save_for_backward`, and everything else is an attribute. The first Function
# below follows this rule, while the second one breaks it. Both compute $y = \tanh x$ with the
# derivative $1 - \tanh^2 x$, and both pass `gradcheck`.


# %%
class Saved(Function):
    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (1 - torch.tanh(x) ** 2)


class InputOnCtx(Saved):
    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.x = x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * (1 - torch.tanh(ctx.x) ** 2)


# %% [markdown]
# ### The version check
#
# Each tensor has a counter, `_version`, which increases with every in-place change.
# `save_for_backward` stores the version together with the tensor, and `ctx.saved_tensors` compares
# it with the current one. An attribute has no such check.

# %%
vote("02", "saved-as-attribute")

# %%
x = torch.tensor([0.5], requires_grad=True)
h = 1 * x
y = InputOnCtx.apply(h)
h += 3
(gradient,) = grad(y, x)
print(f"gradient {gradient.item():.3f}, should be {1 - math.tanh(0.5) ** 2:.3f}")

# %% [markdown]
# `backward` read the new values of `h`. With `Saved` in place of `InputOnCtx`, PyTorch raises the
# error that you saw for the swing. Does the check also work for a change under `no_grad`?

# %%
vote("02", "write-under-no-grad")

# %%
weight = torch.tensor([0.5], requires_grad=True)
y = Saved.apply(weight)
with torch.no_grad():
    weight -= 0.1
print("version:", weight._version)
with show_error():
    y.backward()

# %% [markdown]
# The version counter belongs to the tensor, and `no_grad` does not turn it off. (Tensors from
# `torch.inference_mode()` have no version counter. If you save one for a backward pass, PyTorch
# raises an error.)
#
# ### Memory that is not freed
#
# A third version stores its *output* as an attribute. The next picture compares the memory of all
# three versions in a two-layer network.


# %%
class OutputOnCtx(Saved):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.y = output

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * (1 - ctx.y**2)


def two_layers(version):
    return lambda x: version.apply(2 * version.apply(3 * x))


versions = (Saved, InputOnCtx, OutputOnCtx)
memory_timeline(
    {version.__name__: two_layers(version) for version in versions}, torch.ones(256, 256)
)

# %% [markdown]
# The dashed lines mark the end of the forward pass and the end of the backward pass. In the narrow
# strip on the right, the program deletes the results. In the third picture, it then also runs the
# garbage collector.
#
# - `Saved` frees each tensor as soon as its own `backward` has run.
# - `InputOnCtx` frees nothing until the program deletes the results. A training loop usually keeps
#   `loss` until the next step assigns a new one. So the *next* forward pass runs while the old
#   activations still take up memory.
# - `OutputOnCtx` keeps its tensors even longer. The output refers to its node (`y.grad_fn`), and
#   the node refers to the output (`ctx.y`). Python frees such a *reference cycle* only when its
#   garbage collector runs. `save_for_backward(output)` avoids the cycle.
#
# ### Hooks that see no attribute
#
# *Extra: for readers who use activation checkpointing or offloading. Lesson 07 works with these
# hooks.*
#
# Activation checkpointing discards activations and recomputes them in the backward pass
# (*rematerialization*). Like offloading, it is built on *saved-tensor hooks*: autograd calls such a
# hook for each saved tensor, and the hook may store something smaller instead. Autograd calls no
# hook for an attribute. In the next cell, checkpointing should free `h` after the forward pass.


# %%
def block(x, version):
    h = x + 1
    hidden.append(weakref.ref(h))
    return version.apply(h)


for version in (Saved, InputOnCtx):
    hidden = []
    y = checkpoint(block, torch.ones(3, requires_grad=True), version, use_reentrant=False)
    print(f"{version.__name__:10} h still exists: {hidden[0]() is not None}")

# %% [markdown]
# With `InputOnCtx`, checkpointing saves no memory, and PyTorch gives no warning.
#
# ### When Python cleans up
#
# *Extra: for readers who want to know how long a reference cycle stays in memory.*
#
# Python runs the garbage collector after it has created a certain number of objects. It counts
# objects rather than bytes, and a training step creates few objects. The next cell turns the
# collector off, runs ten steps, and counts the graphs that still exist.

# %%
gc.collect()
gc.disable()
for version in versions:
    nodes = []
    for _ in range(10):
        y = version.apply(torch.ones(1000, requires_grad=True))
        y.sum().backward()
        nodes.append(weakref.ref(y.grad_fn))
    del y
    existing = sum(node() is not None for node in nodes)
    print(f"{version.__name__:12} {existing:2} graphs, {existing * 4000:5} bytes")
gc.enable()
collected = gc.collect()

# %% [markdown]
# `save_for_backward` stores an output without the reference to its node, and restores this
# reference in `ctx.saved_tensors`. In a combined `forward`, you can also save an intermediate
# result with `save_for_backward`. Older PyTorch documentation recommended an attribute of `ctx`
# ([pytorch#81223](https://github.com/pytorch/pytorch/issues/81223)).
#
# ### Values that are not tensors
#
# *Reference: look here when you save a number, or when `ctx.saved_tensors` is empty.*
#
# `save_for_backward` accepts only tensors, and `None` for an optional tensor. If you pass a number,
# PyTorch raises a `TypeError`, but not on this line. `save_for_backward` only stores its arguments,
# and PyTorch checks them after `forward` and `setup_context` have returned. Therefore, the
# traceback points to `apply`.
#
# For the same reason, `ctx.saved_tensors` is still empty inside `forward` and `setup_context`, and
# unpacking it fails with "not enough values to unpack". A second call to `save_for_backward`
# replaces the first one, so call it only once.

# %% [markdown]
# ## needs_input_grad, measured
#
# Some inputs need no gradient, for example a frozen weight or an image. If `backward` computes a
# gradient for them, autograd discards it. `ctx.needs_input_grad` is a tuple that contains `True` or
# `False` for each argument of `forward`.
#
# ### Checkpoint 1
#
# Here is $y = x W^\top$. `backward` always computes two matrix products, and the cell counts their
# operations. Change `backward` so that it computes a gradient only if it is needed and returns
# `None` otherwise. Each printed line names the frozen input. In the lines for `x` and `weight`, the
# count should fall from 8.4 to 4.2 million.


# %%
class Product(Function):
    @staticmethod
    def forward(x, weight):
        return x @ weight.T

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight
        grad_weight = grad_output.T @ x
        return grad_x, grad_weight


for frozen in ("nothing", "x", "weight"):
    x = torch.ones(64, 256, requires_grad=frozen != "x")
    weight = torch.ones(128, 256, requires_grad=frozen != "weight")
    y = Product.apply(x, weight).sum()
    with FlopCounterMode(display=False) as counter:
        y.backward()
    print(f"frozen: {frozen:8} {counter.get_total_flops() / 1e6:.1f} million operations")

# %% [markdown]
# <details><summary>One solution</summary>
#
# ```python
# needs_x, needs_weight = ctx.needs_input_grad
# grad_x = grad_output @ weight if needs_x else None
# grad_weight = grad_output.T @ x if needs_weight else None
# ```
#
# </details>
#
# `needs_input_grad` saves time and never changes a result. If your gradients change when you use
# it, look for a bug in your branches.

# %% [markdown]
# ## What backward must not touch
#
# `backward` receives `grad_output` and the saved tensors. It must not change either of them in
# place. Here is what happens if it changes `grad_output`.

# %%
vote("02", "grad-output-in-place")


# %%
class Twice(Function):
    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.mul_(2)


print("gradcheck:", gradcheck(Twice.apply, angles))


def two_x_plus_5a(x, a):
    return Twice.apply(x) + 5 * a


def five_a_plus_2x(x, a):
    return 5 * a + Twice.apply(x)


weights = torch.tensor([1.0, 2.0, 3.0])
for total in (two_x_plus_5a, five_a_plus_2x):
    x = torch.ones(3, requires_grad=True)
    a = torch.ones(3, requires_grad=True)
    (weights * total(x, a)).sum().backward()
    print(f"{total.__name__:14} gradients: x {x.grad.tolist()}  a {a.grad.tolist()}")
print(f"{'':14} should be: x {(2 * weights).tolist()}  a {(5 * weights).tolist()}")

# %% [markdown]
# In `5a + 2x`, the gradient of `a` is wrong, although `a` never went through `Twice`. The two terms
# of a sum have the same gradient, so autograd passes the same tensor to both terms. In a residual
# block $h + f(h)$, `a` is the skip connection. In the backward pass, autograd first runs the branch
# that the forward pass computed last. So the bug may come and go when you reorder other code.
#
# `gradcheck` misses this bug, because its graph has one branch. `diagnose` finds it, because it
# compares `grad_output` before and after the call.
#
# ### Saved tensors
#
# *Extra: for readers whose `backward` works in place, or to whom `diagnose` reports
# `mutates-saved`.*
#
# `save_for_backward` copies nothing, so a saved tensor is the caller's own tensor. This `backward`
# uses it as working memory. The gradient is right, but the caller's activation changes:


# %%
class Scribbling(Saved):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return x.tanh_().square_().neg_().add_(1) * grad_output  # 1 - tanh²(x), inside x


x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
h = 1 * x
y = Scribbling.apply(h).sum()
y.backward(retain_graph=True)
print("h was", x.tolist(), "and is", [round(v, 2) for v in h.tolist()])
print("a second backward pass:")
with show_error():
    y.backward()

# %% [markdown]
# The version check finds the change, but only in a second backward pass. Code that reads `h` after
# the first backward pass gets the wrong values, and PyTorch raises no error.

# %% [markdown]
# ## Outputs without a gradient
#
# Some outputs have no meaningful gradient, for example a mask, an index or a count. Integer and
# boolean tensors never require a gradient, so you need not declare them. A mask of floats is
# different: autograd treats it as differentiable unless you mark it.


# %%
class Gate(Function):
    """kept = x · mask, and the mask is 1 where |x| > 0.5."""

    @staticmethod
    def forward(x):
        mask = (x.abs() > 0.5).to(x.dtype)
        return x * mask, mask

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask = output
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx, grad_kept, grad_mask):
        (mask,) = ctx.saved_tensors
        return grad_kept * mask


class MarkedGate(Gate):
    @staticmethod
    def setup_context(ctx, inputs, output):
        _, mask = output
        ctx.save_for_backward(mask)
        ctx.mark_non_differentiable(mask)


x = torch.tensor([-1.0, 0.2, 0.7], requires_grad=True)
for gate in (Gate, MarkedGate):
    kept, mask = gate.apply(x)
    penalty = mask.mean()  # the share of open gates
    print(f"{gate.__name__}: the penalty requires grad: {penalty.requires_grad}")
    with show_error():
        print("gradient", grad(penalty, x)[0].tolist())

# %% [markdown]
# With `Gate`, the penalty looks differentiable, but its gradient is always zero, so it has no
# effect. With `MarkedGate`, the penalty is a constant, and PyTorch raises an error if you
# differentiate it. If you add it to another loss, PyTorch raises no error, but
# `penalty.requires_grad` is false, which tells you that the penalty has no gradient.
#
# `backward` has a parameter for each output, even for a marked one. It receives zeros for the mask,
# and you ignore them.
#
# ### Exercise 2: sort, with the indices
#
# `forward` sorts `x` along the last dimension and returns the pair `(values, indices)`, like
# `torch.sort`. Save only the indices, and mark them as non-differentiable. PyTorch already treats
# integers this way, so the mark is for the reader and is not graded. `backward` moves each gradient
# back to where its value came from, and `scatter` can do this.


# %%
class SortWithIndices(Function):
    @staticmethod
    def forward(x, descending=False):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("sort-with-indices", SortWithIndices)

# %% [markdown]
# ## Zeros or None: set_materialize_grads
#
# If the loss does not use an output, `backward` receives zeros for it (lesson 01) and turns them
# into zeros for its inputs. What does an optimizer with weight decay do with these zeros? In the
# next cell, the parameters `a` and `b` go through one Function, and the loss uses only the first
# output.

# %%
vote("02", "zeros-or-no-gradient")


# %%
class TwoHeads(Function):
    @staticmethod
    def forward(a, b):
        return 2 * a, 3 * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(True)  # the default

    @staticmethod
    def backward(ctx, grad_first, grad_second):
        return 2 * grad_first, 3 * grad_second


class TwoHeadsWithNone(TwoHeads):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad_first, grad_second):
        grad_a = None if grad_first is None else 2 * grad_first
        grad_b = None if grad_second is None else 3 * grad_second
        return grad_a, grad_b


for heads in (TwoHeads, TwoHeadsWithNone):
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([a, b], lr=0.1, weight_decay=0.5)
    for _ in range(10):
        first, second = heads.apply(a, b)
        optimizer.zero_grad()
        first.square().sum().backward()
        optimizer.step()
    print(f"{heads.__name__:16} b.grad = {b.grad}, b after 10 steps = {b[0].item():.2f}")

# %% [markdown]
# The loss does not use `b`, and yet `b` has lost 40% of its value. If a gradient is zero, the
# optimizer still applies weight decay and momentum. If it is `None`, the optimizer skips the
# parameter ([pytorch#58511](https://github.com/pytorch/pytorch/issues/58511)). If you return
# `None`, PyTorch also needs no memory for the zeros. But then `backward` needs a branch for each
# output. If you forget one, PyTorch raises a `TypeError` about `NoneType` as soon as a loss does
# not use this output.

# %% [markdown]
# ## Bugs that raise no error
#
# Most bugs in this lesson raise no error: `ctx.x = x`, a changed `grad_output`, an unmarked mask.
# `diagnose` looks for them. It names the bug in the colleague's Function and proposes a repair:

# %%
diagnose(Pull, (angles,))

# %% [markdown]
# ## Writing in place: mark_dirty
#
# *Extra: you need this section for exercises 4 and 8. It is about Functions that overwrite their
# input.*
#
# A Function may overwrite a large input to save memory, but it has to declare this with
# `ctx.mark_dirty`. The next cell multiplies a tensor by a factor in place, with and without the
# declaration.


# %%
class ScaleInPlace(Function):
    @staticmethod
    def forward(x, factor):
        return x.mul_(factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, factor = inputs
        ctx.mark_dirty(x)
        ctx.factor = factor

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.factor * grad_output, None


class UnmarkedScale(ScaleInPlace):
    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.factor = inputs


for scale in (ScaleInPlace, UnmarkedScale):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    h = 1 * x
    scale.apply(h, 10.0)
    (gradient,) = grad(h.sum(), x)
    print(f"{scale.__name__:13} h = {h.tolist()}, gradient of h.sum() = {gradient.tolist()}")

# %% [markdown]
# Both Functions changed `h`. After `mark_dirty`, `h` is the output of the new node, as it is after
# `h.relu_()`. Without `mark_dirty`, `h` has new values but its old `grad_fn`, and the gradient is
# wrong.
#
# `mark_dirty(x)` declares two things: `forward` overwrote `x`, and it returns `x` itself. Both must
# be true. If you return another tensor, `apply` raises an error. If you mark a tensor that did not
# change, its version still increases. Then other nodes that saved this tensor raise an error in the
# backward pass, although its values are the same.

# %% [markdown]
# ### Checkpoint 2
#
# This ReLU works in place, and one line is missing. Add it so that the two elements of the gradient
# become 0 and 1.


# %%
class ReLUInPlace(Function):
    @staticmethod
    def forward(x):
        return x.clamp_(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output > 0)

    @staticmethod
    def backward(ctx, grad_output):
        (positive,) = ctx.saved_tensors
        return grad_output * positive


x = torch.tensor([-1.0, 2.0], requires_grad=True)
h = 1 * x
ReLUInPlace.apply(h)
print("gradient of h.sum():", grad(h.sum(), x)[0].tolist())

# %% [markdown]
# <details><summary>The line</summary>
#
# Add `ctx.mark_dirty(*inputs)` to `setup_context`. Both conditions are true: `forward` overwrites
# `x` and returns it.
#
# </details>

# %% [markdown]
# ## Returning an input
#
# *Extra: for readers whose Function returns its input unchanged. It should return `x.clone()`.
# Lesson 09 has such a Function.*
#
# A layer that only reverses or scales the gradient computes nothing in `forward`, so it may seem
# natural to return the input. Two nodes cannot share one tensor, so PyTorch makes the output a
# *view* of the input. The gradients are right, but a later in-place operation raises an error:


# %%
class Reverse(Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output


class ReverseCopy(Reverse):
    @staticmethod
    def forward(x):
        return x.clone()


for reverse in (Reverse, ReverseCopy):
    y = reverse.apply(1 * torch.tensor([-1.0, 2.0], requires_grad=True))
    print(f"{reverse.__name__} returns a view: {y._is_view()}")
    with show_error():
        y.relu_()

# %% [markdown]
# A write into the view would bypass your `backward`, so PyTorch forbids it. `x.clone()` costs a
# copy, but then callers may change the output. A slice of the input is also a view. The result of a
# `reshape` usually is as well. Do not return `x.detach()`: PyTorch then allows the write, and it
# silently changes the caller's `x`.

# %% [markdown]
# ## A frozen target and its 1/N
#
# *Extra: you need this section for exercise 5. It shows how a Function stops a gradient.*
#
# A network that learns from its own output must treat this output as a constant target. Otherwise,
# it moves the target toward the prediction. To stop a gradient (JAX calls this *stop-gradient*),
# return `None` for the target. Here is a squared error:
#
# $$L = \frac1N \sum_i (x_i - t_i)^2, \qquad
# \frac{\partial L}{\partial x_i} = \frac2N\, (x_i - t_i)\, g .$$
#
# People often forget the factor $1/N$ of the mean in `backward`:


# %%
class FrozenTarget(Function):
    @staticmethod
    def forward(x, target):
        return ((x - target) ** 2).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, target = ctx.saved_tensors
        return 2 * (x - target) * grad_output, None


def frozen_target(x, target):
    return ((x - target.detach()) ** 2).mean()


x = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64)
target = torch.tensor([2.0, 0.0, 3.0, 4.0], dtype=torch.float64)
diagnose(FrozenTarget, (x, target), reference=frozen_target, repair=False)

# %% [markdown]
# With four elements, the gradient is too large by a factor of 4. With 256 elements, it is too large
# by a factor of 256. The `reference` holds the target constant with `.detach()`, so `diagnose`
# accepts the `None`.

# %% [markdown]
# ## In-place changes through .data and .detach()
#
# *Extra: for readers whose Functions use `.data` or `.detach()`.*
#
# `.data` and `.detach()` both return a tensor that shares the original's memory but not its graph.
# A write through `.detach()` increases the version, and a write through `.data` does not. So
# `.data` is another way to bypass the version check:

# %%
x = torch.tensor([0.5], requires_grad=True)
h = 1 * x
y = Saved.apply(h)
h.data.add_(3)
print("version of h:", h._version)
print(f"gradient {grad(y, x)[0].item():.3f}, should be {1 - math.tanh(0.5) ** 2:.3f}")

# %% [markdown]
# In `backward`, do not call `.detach()` or `.data` on a saved tensor or on `grad_output`. The first
# derivative stays right, but a second derivative needs the graph that they cut off. `gradcheck`
# does not notice. Lesson 06 is about second derivatives.

# %% [markdown]
# ## Eight error messages
#
# *Reference: look here when one of these messages appears. You do not have to learn them.*
#
# 1. `… has been modified by an inplace operation`: a saved tensor was changed, often by `+=`. Write
#    `h = h + …`, or save the output instead of the input.
# 2. `Trying to backward through the graph a second time`: the first backward pass freed the saved
#    tensors. Run forward again, or pass `retain_graph=True`.
# 3. `save_for_backward can only save variables`: you saved a number or a shape. Use an attribute.
# 4. `returned an incorrect number of gradients`: return one value for each argument of `forward`.
#    The value may be `None`.
# 5. `returned an invalid gradient`: the gradient has the wrong shape. In `backward`, undo what
#    `forward` did to the shape.
# 6. `does not require grad and does not have a grad_fn`: no path leads to a parameter. Look for a
#    mask, an index, `no_grad`, or a tensor that you passed inside a list or a dict.
# 7. `marked as dirty … were not returned as output`: you marked `x` and returned another tensor.
#    Return `x` itself, or do not mark it.
# 8. `is a view and is being modified inplace`: you returned an input or a view of it, and a later
#    operation changed it in place. Return `x.clone()`.
#
# Message 1 also names the shape of the tensor and the operation that created it. With
# `torch.autograd.set_detect_anomaly(True)`, PyTorch also shows the forward call that saved it. The
# [index of error messages](../docs/error_messages.md) has an example of each message.

# %% [markdown]
# ## Do you know it?
#
# Answer nine questions. If an answer is wrong, you will see why and can try again.

# %%
knowledge_check("02")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# class F(torch.autograd.Function):
#     @staticmethod
#     def forward(x, weight, stride):          # returns new tensors, or an x marked dirty
#         return y, mask
#     @staticmethod
#     def setup_context(ctx, inputs, output):  # cannot see intermediates
#         (x, weight, stride), (y, mask) = inputs, output
#         ctx.save_for_backward(x, weight)     # every tensor, in one call
#         ctx.stride = stride                  # everything else
#         ctx.mark_non_differentiable(mask)    # a float output that needs no gradient
#     @staticmethod
#     def backward(ctx, grad_y, grad_mask):    # one for each output; zeros if unused
#         x, weight = ctx.saved_tensors        # do not change them
#         grad_x = grad_y * ... if ctx.needs_input_grad[0] else None  # grad_weight likewise
#         return grad_x, grad_weight, None     # one for each input
# ```

# %% [markdown]
# A combined `forward(ctx, x, weight, stride)` also does the work of `setup_context`. You will find
# it in older code and in Functions that save an intermediate result of `forward`.

# %% [markdown] tags=["cheat-sheet"]
# | mistake | consequence | |
# | --- | --- | --- |
# | `ctx.x = x`, then x changes in place | a wrong gradient | silent |
# | `ctx.x = x` | hooks (checkpoint, offload) miss it; backward does not free it | silent |
# | `ctx.y = output` | a reference cycle, until the garbage collector runs | silent |
# | `save_for_backward(x, 3)` | `TypeError`, after forward has returned | error |
# | `ctx.saved_tensors` in `setup_context` | an empty tuple, so unpacking it raises | error |
# | no use of `needs_input_grad` | wasted work, but right gradients | silent |
# | `grad_output.mul_(…)` | another branch gets a wrong gradient | silent |
# | a saved tensor overwritten | the caller's tensor changes; a second backward raises | late |
# | `.data`, `.detach()` in backward | second derivatives are wrong | silent |
# | an in-place change, no `mark_dirty` | new values, old graph; saving the output raises | silent |
# | `mark_dirty`, no in-place change | saved tensors of other nodes count as changed | error |
# | the input returned | a view that must not be changed in place | error |
# | a float mask, unmarked | a penalty without effect | silent |
# | zeros for an unused output | weight decay changes an unused parameter | silent |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/02_ctx_rules.ipynb) continue with Functions to write
# and four broken ones in which you locate the bug.
#
# [Lesson 03](03_gradient_patterns.ipynb) covers common gradient patterns: products, broadcasting,
# reductions, softmax and gather.
