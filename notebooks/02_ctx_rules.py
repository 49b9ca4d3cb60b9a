# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/02_ctx_rules.ipynb)
#
# # 02 · The rules of ctx
#
# **You will** break each rule of `ctx` once, on purpose, and watch what it costs: a wrong gradient,
# memory that stays, work for nothing, or one of eight error messages.
#
# **You will learn** what `ctx` is and how long it lives, what belongs in `save_for_backward` and
# what does not, what `backward` must leave alone, and how a Function tells the engine that it
# works in place, that an output has no gradient, or that it takes `None` for zeros.
#
# **You need** [lesson 01](01_template.ipynb): a Function, `save_for_backward`, `gradcheck`.
#
# **It takes** about 60 minutes; the *extra* sections take another 35. The exercises come after it.

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
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from autograd_course import diagnose, gradient_flow
from autograd_course.lesson import BLUE, GRAY, ORANGE, figure, note, predict, show_error, vote
from autograd_course.visualize import knowledge_check, memory_timeline

# %% [markdown]
# ## A swing that does not go up
#
# A swing hangs at rest. A motor may push it sixty times, each time with at most 40 % of the force
# that would hold it out horizontally. It cannot lift the swing in one go; it has to pump. Which
# sixty pushes bring it upright, to 180°, and at rest up there?
#
# With $\theta$ the angle, $\omega$ the speed and $u$ the push, one step of the simulation is
#
# $$\omega \leftarrow \omega + \Delta t\,(u - \sin\theta), \qquad
# \theta \leftarrow \theta + \Delta t\,\omega ,$$
#
# and gradient descent through all sixty steps finds the pushes. A colleague has taken the pull of
# gravity from a NumPy routine, and so needs a Function. The formula of its `backward` is right, and
# `gradcheck` passes it.


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

# %% [markdown]
# The simulation, with the angle updated in place, as one writes it to spare an allocation a step;
# and the search for the pushes.


# %%
def simulate(pull, pushes, dt=0.2):
    angle = torch.zeros((), dtype=torch.float64)
    speed = torch.zeros((), dtype=torch.float64)
    for push in pushes:
        speed = speed + dt * (push - pull(angle))
        angle += dt * speed
        yield angle, speed


def search(pull, simulate, steps=60):
    """The loss of every step, and the angles in degrees of the last simulation."""
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


losses, path = search(Pull.apply, simulate)
print(f"loss after  1 step:  {losses[0]:.1f}")
print(f"loss after 60 steps: {losses[-1]:.1f}")
print(f"highest point: {max(map(abs, path)):.0f}°")

# %% [markdown]
# No exception, no warning. The swing gets above the horizontal, which is 90°, and no further, and
# the loss has stopped falling. It seems that the motor is too weak. Before you order a bigger one,
# replace the Function by PyTorch's own sine:

# %%
with show_error():
    search(torch.sin, simulate)

# %% [markdown]
# The same loop, and PyTorch raises an error. (`[…]` marks where `show_error` has cut the message.)
# PyTorch has found the fault at once: `angle += …` overwrites the memory from which the sine's
# gradient needs the old values. Change one line so that each step has an angle of its own, and run
# the *unchanged* Function again:


# %%
def simulate_anew(pull, pushes, dt=0.2):
    angle = torch.zeros((), dtype=torch.float64)
    speed = torch.zeros((), dtype=torch.float64)
    for push in pushes:
        speed = speed + dt * (push - pull(angle))
        angle = angle + dt * speed  # was: angle += dt * speed
        yield angle, speed


true_losses, true_path = search(Pull.apply, simulate_anew)
print(f"loss after 60 steps: {true_losses[-1]:.1f}")
print(f"highest point: {max(map(abs, true_path)):.0f}°")

# %% jupyter={"source_hidden": true}
with figure(columns=2, height=3.5) as (descent, motion):
    descent.plot(losses, color=ORANGE, linestyle="--")
    descent.plot(true_losses, color=BLUE)
    descent.set(title="the search", xlabel="step of the optimizer", ylabel="loss", ylim=(0, 2.6))
    note(descent, "angle += …", (34, 1.85), ORANGE)
    note(descent, "angle = angle + …", (22, 0.3), BLUE)

    motion.axhline(180, color=GRAY, linewidth=1, linestyle=":")
    motion.axhline(-180, color=GRAY, linewidth=1, linestyle=":")
    motion.plot(path, color=ORANGE, linestyle="--")
    motion.plot(true_path, color=BLUE)
    motion.set(title="the swing it found", xlabel="push", ylabel="angle in degrees")
    motion.set(yticks=(-180, -90, 0, 90, 180), ylim=(-200, 200))
    note(motion, "upright", (1, 155 if true_path[-1] > 0 else -172), GRAY)

# %% [markdown]
# The motor was strong enough. Before, sixty nodes of the graph stored the angle, and all of them
# stored the same tensor, which `+=` overwrote. In the backward pass, all sixty took the cosine of
# the *last* angle.
#
# Writing in place is legal, and `gradcheck` was right about the formula. The bug is the line
# `ctx.angle = angle`. It turned PyTorch's check off.

# %% [markdown]
# ## The whole thing, working
#
# Here is the Function as it should be, with a number to carry along as well. The tensor goes
# through `save_for_backward`; the number is an attribute.


# %%
class Gravity(Function):
    """y = strength · sin(angle); ∂L/∂angle = strength · cos(angle) · ∂L/∂y."""

    @staticmethod
    def forward(ctx, angle, strength):
        ctx.save_for_backward(angle)
        ctx.strength = strength
        return torch.as_tensor(strength * np.sin(angle.numpy(force=True)))

    @staticmethod
    def backward(ctx, grad_output):
        (angle,) = ctx.saved_tensors
        return grad_output * ctx.strength * torch.cos(angle), None


def gravity(angle):
    return Gravity.apply(angle, 1.0)


print("gradcheck:", gradcheck(gravity, angles))
print(f"angle = angle + …  up to {max(map(abs, search(gravity, simulate_anew)[1])):.0f}°")
print("angle += …")
with show_error():
    search(gravity, simulate)

# %% [markdown]
# This Function is right if the loop is right, and raises an error if it is not. `ctx` can do the
# following for you, and the lesson breaks each rule on purpose:
#
# | in forward | what it is for |
# | --- | --- |
# | `ctx.save_for_backward(x, y)` | tensors for backward, watched and freed |
# | `ctx.name = value` | everything else: numbers, shapes, flags |
# | `ctx.mark_dirty(x)` | "I have overwritten this input and return it" |
# | `ctx.mark_non_differentiable(m)` | "this output has no gradient" |
# | `ctx.set_materialize_grads(False)` | "give me `None` instead of zeros" |
#
# | in backward | |
# | --- | --- |
# | `ctx.saved_tensors` | what was saved, in that order |
# | `ctx.name` | the attributes |
# | `ctx.needs_input_grad` | for each argument: does anybody want its gradient? |

# %% [markdown]
# ## Separate forward and setup_context
#
# `Gravity` has a *combined* `forward`: one method computes the output and stores what backward
# needs. You will meet this form in older code. PyTorch recommends a *separate* `forward` and
# `setup_context`. Here `forward` receives the inputs only and is plain code. A third static method,
# `setup_context`, receives `ctx`, the tuple of all inputs, and the output. It saves the tensors and
# sets the attributes.


# %%
class SeparateGravity(Function):
    """y = strength · sin(angle), with a separate forward and setup_context."""

    @staticmethod
    def forward(angle, strength):
        return strength * torch.sin(angle)

    @staticmethod
    def setup_context(ctx, inputs, output):
        angle, strength = inputs
        ctx.save_for_backward(angle)
        ctx.strength = strength

    @staticmethod
    def backward(ctx, grad_output):
        (angle,) = ctx.saved_tensors
        return grad_output * ctx.strength * torch.cos(angle), None


print("gradcheck:", gradcheck(lambda t: SeparateGravity.apply(t, 2.0), angles))
for function in (SeparateGravity, Gravity):
    print(f"torch.func.grad of {function.__name__}:")
    with show_error():
        gradient = torch.func.grad(lambda t, f=function: f.apply(t, 2.0))(torch.tensor(0.0))
        print(f"{gradient.item():.1f}")

# %% [markdown]
# `ctx` has the same methods and the same rules in both forms. The transforms `torch.func.grad`,
# `vmap` and `jvp` run `forward` without a `ctx`, so they accept only the separate form. Lesson 11
# uses them.
#
# `setup_context` sees inputs and outputs, but no intermediate of `forward`. If backward needs an
# intermediate, you can recompute it, return it as one more output, or use a combined `forward`.
#
# Write new Functions in the separate form. The exercises and the cheat sheet use it from now on.
# Most examples of this lesson show what happens to `ctx` while `forward` runs, so they have a
# combined `forward`.

# %% [markdown]
# ## What ctx is, and how long it lives
#
# A graph consists of *nodes*, one for each recorded operation, and `y.grad_fn` is the node that
# made `y`. For a Function, `ctx` **is** that node. The next cell shows when a node begins and
# ceases to exist. The Function prints each event, and `weakref.finalize` calls a function when an
# object ceases to exist.
#
# Before some cells you vote for what you expect. Some of the beliefs are true.

# %%
vote("02", "ctx-after-backward")


# %%
class Diary(Function):
    @staticmethod
    def forward(ctx, x):
        print("  forward:  a ctx is born")
        weakref.finalize(ctx, print, "  the ctx is gone")
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        print("  backward: the same ctx,", len(ctx.saved_tensors), "tensor saved")
        return 2 * grad_output


x = torch.ones(3, requires_grad=True)
y = Diary.apply(x)
print("y.grad_fn is", y.grad_fn.name())
y.sum().backward()
print("after backward:")
with show_error():
    print(y.grad_fn.saved_tensors)
print("y is deleted:")
del y
print("under no_grad:")
with torch.no_grad():
    y = Diary.apply(x)

# %% [markdown]
# `backward` frees only the tensors in `save_for_backward`. The node and its attributes stay as long
# as `y` does. Each call has a `ctx` of its own. Under `no_grad`, `ctx` ceases to exist at once.
#
# Look inside a node. Click on the picture, go to the custom node with ↓ and open it with Enter. It
# shows its saved tensor with its bytes, and `ctx.strength` below it.

# %%
gradient_flow(
    lambda angle, push: push * Gravity.apply(angle, 2.0), torch.tensor(0.5), torch.ones(())
)

# %% [markdown]
# ## What goes where, and what goes wrong otherwise
#
# Tensors go through `save_for_backward`, and everything else becomes an attribute. There are five
# reasons, and you can run each one. The example is $y = \tanh x$ with
# $\partial y/\partial x = 1 - y^2$, in three versions that all pass `gradcheck`.


# %%
class Saved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (1 - torch.tanh(x) ** 2)


class InputOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * (1 - torch.tanh(ctx.x) ** 2)


class OutputOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = torch.tanh(x)
        return ctx.y

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * (1 - ctx.y**2)


versions = (Saved, InputOnCtx, OutputOnCtx)
print([gradcheck(version.apply, angles) for version in versions])

# %% [markdown]
# ### Run 1: the version check
#
# Every tensor counts how often it was written to; `_version` is the counter. `save_for_backward`
# stores the count together with the tensor, and `ctx.saved_tensors` compares it. An attribute is
# only a reference. `1 * x` stands for a layer whose result is also used elsewhere.

# %%
vote("02", "saved-as-attribute")

# %%
for version in (Saved, InputOnCtx):
    x = torch.tensor([0.5], requires_grad=True)
    h = 1 * x
    y = version.apply(h)
    before = h._version
    h += 3
    print(f"{version.__name__}: version {before} → {h._version}")
    with show_error():
        (gradient,) = torch.autograd.grad(y, x)
        print(f"gradient {gradient.item():.3f}, true is {1 - math.tanh(0.5) ** 2:.3f}")

# %% [markdown]
# ### Checkpoint 1
#
# The square, kept as `ctx.x = x`. What comes out for $x = 3$, when somebody adds 1 to the tensor
# before the backward pass? Put your number in place of `...`.


# %%
class SquareOnCtx(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x**2

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.x * grad_output


x = torch.tensor(3.0, requires_grad=True)
h = 1 * x
y = SquareOnCtx.apply(h)
h += 1
y.backward()

predict(..., x.grad)

# %% [markdown]
# <details><summary>Why</summary>
#
# Forward computed $y = 9$ from $h = 3$, so the gradient is $2 \cdot 3 = 6$. But `ctx.x` and `h`
# are the same tensor, which holds 4 when backward reads it: $2 \cdot 4 = 8$.
#
# </details>

# %% [markdown]
# ### Run 2: the hooks
#
# *Extra: for readers who use activation checkpointing or offloading. Lesson 07 works with these
# hooks.*
#
# Activation checkpointing (drop what forward computed, compute it again for backward),
# offloading to the host's memory and compression all work by *saved-tensor hooks*: functions
# through which the engine sends whatever is saved, and which may put something smaller in its
# place. An attribute never passes by. Below, a hook counts bytes; and a block runs under
# `checkpoint`, whose promise is that the hidden `h` does not survive the forward pass.


# %%
def bytes_seen(function):
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t.nbytes) or t, lambda t: t):
        function(torch.ones(1000, requires_grad=True))
    return sum(seen)


def survives(function):
    hidden = []

    def block(x):
        h = x + 1
        hidden.append(weakref.ref(h))
        return function(h)

    y = checkpoint(block, torch.ones(1000, requires_grad=True), use_reentrant=False)
    return hidden[0]() is not None and y.requires_grad


for version in (Saved, InputOnCtx):
    f = version.apply
    print(f"{version.__name__:11} hooks see {bytes_seen(f)} bytes; ", end="")
    print(f"under checkpoint h survives: {survives(f)}")

# %% [markdown]
# Somebody wraps your layer in `checkpoint` because memory is short, and nothing gets smaller. There
# is no message for that either.
#
# ### Runs 3 and 4: freeing, and the reference cycle
#
# Two layers of each version, forward and backward. The picture is measured in the real run: what is
# kept, by whom, and until when.


# %%
def two_layers(version):
    return lambda x: version.apply(2 * version.apply(3 * x))


memory_timeline(
    {version.__name__: two_layers(version) for version in versions}, torch.ones(256, 256)
)

# %% [markdown]
# The dashed lines are the end of forward and the end of backward; in the narrow strip to the right
# of them the results are dropped, and in the third picture the garbage collector is called. All
# three keep the same 512 KiB at the first line. Then they part:
#
# - `Saved` gives back each tensor as soon as its own `backward` has run.
# - `InputOnCtx` gives nothing back until the results are dropped, and the graph with them. In a
#   training loop, `loss` usually exists until the next iteration replaces it, so the *next* forward
#   pass runs while the old activations are still in memory.
# - `OutputOnCtx` keeps them even then. The output holds its node (`y.grad_fn`), and the node holds
#   the output (`ctx.y`): a *reference cycle*. Only the garbage collector finds such cycles, and it
#   runs only now and then.
#
# #### When Python cleans up
#
# *Extra: for readers who want to know how long such a cycle lasts, how `save_for_backward` avoids
# it, and why some code keeps intermediates on `ctx`.*
#
# Python cleans up such a cycle when it has counted enough new objects. It counts objects, not
# bytes, and a training step makes few of them. Until then the old graphs pile up. Here are ten
# steps with the collector switched off, and what is left when they are over:

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
    alive = sum(node() is not None for node in nodes)
    print(f"{version.__name__:12} {alive:2} graphs alive, {alive * 4000:5} bytes")
gc.enable()
collected = gc.collect()

# %% [markdown]
# `save_for_backward` knows the cycle and avoids it: of an output it keeps the data without the link
# back to the node, and ties the link again when you ask for `ctx.saved_tensors`.
#
# `save_for_backward` takes any tensor, intermediate results too. For years PyTorch's manual told
# you to store intermediate results as attributes, and you still meet code that does
# ([pytorch#81223](https://github.com/pytorch/pytorch/issues/81223)). Hooks do not see such an
# attribute, and backward does not free it. Only the version check is not missed, because no other
# code can write to an intermediate result. (Lesson 06 shows what a *saved* intermediate result does
# to second derivatives.)
#
# ### Run 5: what is no tensor
#
# *Reference: look here when `save_for_backward` raises, or does not raise where you expect it to.*
#
# And the other way round, a number in `save_for_backward`?


# %%
class PowerSaved(Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.save_for_backward(x, exponent)
        print("the call of save_for_backward is over, and saved_tensors is", ctx.saved_tensors)
        return x**exponent

    @staticmethod
    def backward(ctx, grad_output):
        x, exponent = ctx.saved_tensors
        return grad_output * exponent * x ** (exponent - 1), None


with show_error():
    PowerSaved.apply(torch.ones(2, requires_grad=True), 3)

# %% [markdown]
# The call `save_for_backward(x, 3)` itself does not raise. It only stores its arguments. PyTorch
# checks them after `forward` has returned, and then the traceback points to `apply`. (`None` is
# allowed, for an optional tensor that was left out.)
#
# For the same reason, `ctx.saved_tensors` does not raise in `forward`. It is an empty tuple,
# because PyTorch has not saved anything yet, and unpacking it fails with "not enough values to
# unpack". A second call of `save_for_backward` replaces the first, so call it once.

# %% [markdown]
# ## needs_input_grad, measured
#
# A frozen backbone or an input image needs no gradient. `ctx.needs_input_grad` has a `True` or
# `False` for each argument of the call. Here is $y = x W^\top$ twice. The second Function asks
# before it computes.


# %%
class Product(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.T @ x


class ThriftyProduct(Product):
    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        grad_x = grad_output @ weight if needs_x else None
        grad_weight = grad_output.T @ x if needs_weight else None
        return grad_x, grad_weight


# %% [markdown]
# The next cell counts floating-point operations, because their number is the same on every machine.

# %%
for frozen in ("nothing", "x", "weight"):
    for product in (Product, ThriftyProduct):
        x = torch.ones(64, 256, requires_grad=frozen != "x")
        weight = torch.ones(128, 256, requires_grad=frozen != "weight")
        y = product.apply(x, weight).sum()
        with FlopCounterMode(display=False) as counter:
            y.backward()
        flops = counter.get_total_flops() / 1e6
        got = [name for name, t in (("x", x), ("weight", weight)) if t.grad is not None]
        what = f"frozen: {frozen:8} {product.__name__:15}"
        print(f"{what} {flops:.1f} million operations, gradients of {' and '.join(got)}")

# %% [markdown]
# Two `if`s save half of the work. The last column shows that frozen weights get no gradient without
# the check, either. `Product` computes a gradient for the frozen tensor, and the engine discards
# it, because no edge of the graph leads there. `needs_input_grad` is about efficiency, never about
# correctness. If your results change when you add it, look for a bug in the branches.

# %% [markdown]
# ## What backward must not touch
#
# Two kinds of tensors reach `backward`, and neither belongs to it.
#
# **`grad_output` belongs to the engine**, which may hand the same memory to several nodes. At a sum
# it does: both branches have the same gradient, so both get the same tensor.

# %%
vote("02", "grad-output-in-place")


# %%
class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.mul_(2)


def gradients_of_a_sum(twice):
    """∂/∂x and ∂/∂a of 2x + a, weighted by 1: that is 2 and 1."""
    x = torch.ones(3, requires_grad=True)
    a = torch.ones(3, requires_grad=True)
    both = torch.autograd.grad(twice(x) + a, (x, a), grad_outputs=torch.ones(3))
    return [gradient.tolist() for gradient in both]


print("gradcheck:", gradcheck(Twice.apply, angles))
print("Twice: ", *gradients_of_a_sum(Twice.apply))
print("2 * x: ", *gradients_of_a_sum(lambda x: 2 * x))

# %% [markdown]
# `x` has the right gradient, and `a`, which never went through `Twice`, has a doubled one. In a
# residual block, $h + f(h)$, the skip connection is that `a`. Whether it is hit depends on which of
# the two branches the engine runs first, so the bug comes and goes with harmless changes elsewhere.
#
# `gradcheck` does not find this bug, because its graph has a single branch. `diagnose` compares the
# bytes of `grad_output` before and after.

# %%
diagnose(Twice, (angles,))

# %% [markdown]
# ### Nor what was saved
#
# *Extra: for readers whose `backward` works in place, and for those to whom `diagnose` reports
# `mutates-saved`.*
#
# **A saved tensor belongs to the caller.** Saving copies nothing: what `ctx.saved_tensors` returns
# is the very tensor that forward was given. A `backward` that uses it as scratch paper returns the
# right gradient, and leaves it lying in somebody's activation:


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
print("a second backward:")
with show_error():
    y.backward()

# %% [markdown]
# Here the version check raises an error again, but only because of the second backward pass. A
# logger that reads `h` after the first one silently gets the overwritten values.

# %% [markdown]
# ## Around the alarm: .data and .detach()
#
# *Extra: for readers whose Functions use `.data` or `.detach()`. The first switches the version
# check off, and the second can lose a second derivative, as lesson 06 shows.*
#
# Both give a tensor on the same memory without its history, and both have honest uses. They differ
# in one thing: a write through `.detach()` counts, one through `.data` does not. So `.data` is the
# second way to switch the version check off:

# %%
for view_of in (torch.Tensor.detach, lambda tensor: tensor.data):
    x = torch.tensor([0.5], requires_grad=True)
    h = 1 * x
    y = Saved.apply(h)
    view_of(h).add_(3)
    name = ".detach()" if view_of is torch.Tensor.detach else ".data"
    print(f"written through {name}:")
    with show_error():
        (gradient,) = torch.autograd.grad(y, x)
        print(f"gradient {gradient.item():.3f}, true is 0.786")

# %% [markdown]
# A write under `no_grad`, as an optimizer does it, is another matter.

# %%
vote("02", "write-under-no-grad")

# %%
weight = torch.tensor([0.5], requires_grad=True)
y = Saved.apply(weight)
with torch.no_grad():
    weight -= 0.1
with show_error():
    y.backward()

# %% [markdown]
# In `backward`, `.data` and `.detach()` do damage of another kind. It looks tidy to write
# `x.detach()` there, and `gradcheck` does not object, because a first derivative needs no history.
# A second derivative is the derivative of what `backward` computed, and `.detach()` has cut off its
# history. `gradgradcheck` is `gradcheck` for the gradient itself:


# %%
class TidyCube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0].detach()
        return 3 * x**2 * grad_output


print("gradcheck:    ", gradcheck(TidyCube.apply, angles))
print("gradgradcheck:", gradgradcheck(TidyCube.apply, angles, raise_exception=False))

# %% [markdown]
# Saved tensors come back with the history that they need; leave it on them. Lesson 06 is about
# second derivatives.

# %% [markdown]
# ## A frozen target and its 1/N
#
# *Extra: exercise 4 needs this section. It shows how to stop a gradient, and a factor that is
# easily forgotten.*
#
# There is one honest way to stop a gradient in a Function, and it needs no `.detach()`: return
# `None`. Where a network learns from its own later output (in reinforcement learning, in
# self-distillation), the target must be held fixed, or the network moves the target to meet the
# prediction. A weighted squared error with the target $t$ and the weights $w$ frozen:
#
# $$L = \frac1N \sum_i w_i (x_i - t_i)^2, \qquad
# \frac{\partial L}{\partial x_i} = \frac2N\, w_i (x_i - t_i)\, g ,$$
#
# and for $t$ and $w$ nothing.
#
# People often write `2 * (x - t) * w * g` as the gradient of `((x - t)**2 * w).mean()`, and forget
# the factor $1/N$ of the mean.


# %%
class FrozenTarget(Function):
    @staticmethod
    def forward(ctx, x, target, weight):
        ctx.save_for_backward(x, target, weight)
        return (weight * (x - target) ** 2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        x, target, weight = ctx.saved_tensors
        return 2 * weight * (x - target) * grad_output, None, None


def frozen_target(x, target, weight):
    return (weight.detach() * (x - target.detach()) ** 2).mean()


three = [
    torch.tensor(v, dtype=torch.float64) for v in ([1.0, 2, 3, 5], [2.0, 0, 3, 4], [1.0, 1, 2, 3])
]
diagnose(FrozenTarget, tuple(three), reference=frozen_target)

# %% [markdown]
# Four elements, a factor of 4; with a batch of 256, a learning rate 256 times too large. Our
# `reference` holds target and weights fixed by `.detach()`, which is what `.detach()` is for, and
# so `diagnose` accepts the two `None`s.

# %% [markdown]
# ## Writing in place: mark_dirty
#
# *Extra: exercises 2 and 7 need this section. It is about Functions that overwrite their input.
# Before you have read it, do not write in place.*
#
# For a large activation it pays to overwrite the input: no second tensor, and what `backward` needs
# can often be read off the output. A leaky ReLU with a positive slope keeps signs, so the output
# still tells on which side the input was. But a Function that overwrites its input has to say so.


# %%
class LeakyInPlace(Function):
    """x ← x where x > 0, slope · x elsewhere."""

    @staticmethod
    def forward(ctx, x, slope):
        x.copy_(torch.where(x > 0, x, slope * x))
        ctx.mark_dirty(x)  # overwritten, and returned
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None


class Unannounced(LeakyInPlace):
    @staticmethod
    def forward(ctx, x, slope):
        x.copy_(torch.where(x > 0, x, slope * x))
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x


for leaky in (LeakyInPlace, Unannounced):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    h = 1 * x
    leaky.apply(h, 0.1)
    (gradient,) = torch.autograd.grad(h.sum(), x)
    values, slopes = ([round(v, 2) for v in t.tolist()] for t in (h, gradient))
    print(f"{leaky.__name__:12} h = {values}, gradient of its sum {slopes}")

# %% [markdown]
# Both have changed `h`. But only `mark_dirty` tells the graph about it. It moves `h` to the new
# node, as after `h.relu_()`. Without it, the values are new and the history is old, and the
# gradient is that of a computation which did not take place.
#
# `mark_dirty` is a statement with two halves, *I have overwritten this* and *this is what I
# return*, and both must be true. Return something else and `apply` raises (among the eight
# messages below). And if nothing was overwritten?
#
# One mark too many does harm. A marked tensor counts as changed, even though not a single byte has
# changed. Any Function that saved it earlier now sees a version mismatch. `exp` saves its output:


# %%
class Announced(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


x = torch.zeros(2, requires_grad=True)
h = x.exp()
before = h._version
y = Announced.apply(h)
print("version", before, "→", h._version)
with show_error():
    y.sum().backward()

# %% [markdown]
# ### Checkpoint 2
#
# A ReLU in place, by a colleague who has not read this section. One line is missing; `diagnose`
# says what that amounts to. Put it in, and run the cell again. (The warning below the error is a
# consequence, the subject of the next section, and goes away with it.)


# %%
class ReLUInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * (y > 0)


diagnose(ReLUInPlace, (angles,))

# %% [markdown]
# <details><summary>Why</summary>
#
# `ctx.mark_dirty(x)`, anywhere in `forward`. Then `x` is announced as overwritten and is what is
# returned: both halves of the statement hold. Saving it after the change is right as well, because
# it is the output that backward reads.
#
# </details>

# %% [markdown]
# ## Returning an input
#
# *Extra: for readers whose Function returns its input unchanged. It should return `x.clone()`.
# Lesson 09 has such a Function.*
#
# A layer that acts on the gradient alone, a reversal or a scale, has nothing to compute in forward,
# so one returns what came in. PyTorch then makes the output a *view* of the input: another tensor
# on the same memory, since two nodes cannot share one tensor. The gradients are right. The trouble
# comes with the next in-place layer:


# %%
class Reverse(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output


class ReverseCopy(Reverse):
    @staticmethod
    def forward(ctx, x):
        return x.clone()


class ReverseDetached(Reverse):
    @staticmethod
    def forward(ctx, x):
        return x.detach()


for reverse in (Reverse, ReverseCopy, ReverseDetached):
    h = 1 * torch.tensor([-1.0, 2.0], requires_grad=True)
    y = reverse.apply(h)
    print(f"{reverse.__name__:15} is the input: {y is h}, is a view: {y._is_view()}")
    with show_error():
        y.relu_()
        print("relu_ works, and h is", h.tolist())

# %% [markdown]
# A write into a view goes around the node that made it, and around your `backward`, so PyTorch
# forbids it. `x.clone()` costs a copy and leaves your users free. The same holds for a slice or a
# `reshape` of the input. `x.detach()` only hides the fact: the memory is shared and nobody forbids
# the write, so `h` changes behind the back of whoever still uses it.

# %% [markdown]
# ## Outputs without a gradient
#
# Some outputs are answers, not quantities: a mask, an index, a count. Integer and boolean tensors
# cannot require a gradient, and need no word from you. A mask kept as floats, to be multiplied
# with, does: without a word it looks differentiable.


# %%
class Gate(Function):
    """kept = x · mask, where the mask is 1 for |x| > 0.5; also returned: mask and their number."""

    @staticmethod
    def forward(ctx, x):
        mask = (x.abs() > 0.5).to(x.dtype)
        ctx.save_for_backward(mask)
        return x * mask, mask, mask.sum().long()

    @staticmethod
    def backward(ctx, grad_kept, grad_mask, grad_count):
        (mask,) = ctx.saved_tensors
        return grad_kept * mask


class MarkedGate(Gate):
    @staticmethod
    def forward(ctx, x):
        kept, mask, count = Gate.forward(ctx, x)
        ctx.mark_non_differentiable(mask)
        return kept, mask, count


x = torch.tensor([-1.0, 0.2, 0.7], requires_grad=True)
for gate in (Gate, MarkedGate):
    kept, mask, count = gate.apply(x)
    requires = [t.requires_grad for t in (kept, mask, count)]
    print(f"{gate.__name__:10} kept, mask, count require a gradient: {requires}")
    print("a penalty on the share of open gates:")
    with show_error():
        (gradient,) = torch.autograd.grad(mask.mean(), x)
        print("gradient", gradient.tolist())

# %% [markdown]
# The first penalty is part of the loss, is watched on a dashboard, and does nothing. The second
# stops at its first step and says why. Note that `backward` has a parameter for every output, with
# a gradient or without; for the mask and the count it receives zeros, which you ignore.

# %% [markdown]
# ## Zeros or None: set_materialize_grads
#
# If the loss does not use an output, its gradient arrives as zeros (lesson 01), and backward turns
# them into zeros for the inputs. What does an optimizer with weight decay do with these zeros? Two
# parameters, `a` and `b`, go through one Function, and the loss uses the first output only.

# %%
vote("02", "zeros-or-no-gradient")


# %%
class TwoHeads(Function):
    @staticmethod
    def forward(ctx, a, b):
        return 2 * a, 3 * b

    @staticmethod
    def backward(ctx, grad_first, grad_second):
        return 2 * grad_first, 3 * grad_second


class TwoHeadsWithNone(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return 2 * a, 3 * b

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
    grad = None if b.grad is None else b.grad.tolist()
    print(f"{heads.__name__:16} b.grad = {grad}, b after 10 steps = {b[0].item():.2f}")

# %% [markdown]
# The loss never used `b`, and yet `b` has lost 40 % of its size. If a gradient is zero, the
# optimizer applies weight decay and momentum. If it is `None`, the optimizer skips the parameter
# ([pytorch#58511](https://github.com/pytorch/pytorch/issues/58511)). With `None`, autograd also
# does not create zeros. In return, you need an `if` for every output. If you forget one, you get a
# `TypeError` about `NoneType` as soon as a loss does not use this output.
#
# ### Checkpoint 3
#
# *Extra: for readers who want to check the last run with a number.*
#
# The optimizer's step is $b \leftarrow b - 0.1\,(\nabla b + 0.5\, b)$. The same `TwoHeads`, and now
# *twenty* steps: where is `b`, which began at 1?

# %%
a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([a, b], lr=0.1, weight_decay=0.5)
for _ in range(20):
    first, second = TwoHeads.apply(a, b)
    optimizer.zero_grad()
    first.square().sum().backward()
    optimizer.step()

predict(..., b)

# %% [markdown]
# <details><summary>Why</summary>
#
# With $\nabla b = 0$ each step multiplies $b$ by $1 - 0.1 \cdot 0.5 = 0.95$, and $0.95^{20} \approx
# 0.358$. A gradient of zeros is a gradient.
#
# </details>

# %% [markdown]
# ## Eight messages, and what they want
#
# *Reference: look here when one of these messages appears. You do not have to learn them.*
#
# All that was broken so far, and what is still left to break, ends in one of eight messages, or
# in none. Here they are, provoked one after the other. `of` makes a Function from two lambdas;
# each entry of `mistakes` is a mistake in its shortest form.


# %%
def of(forward, backward=lambda ctx, g: g):
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("F", (Function,), methods).apply


def saving(ctx, x):
    ctx.save_for_backward(x)
    return x**2


def marking(ctx, x):
    ctx.mark_dirty(x.mul_(2))
    return x.clone()


def changed_before_backward(h):
    y = of(saving, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)(h)
    h.add_(1)
    y.sum().backward()


def backward_twice(h):
    y = of(saving, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)(h).sum()
    y.backward()
    y.backward()


mistakes = {
    1: changed_before_backward,
    2: backward_twice,
    3: of(lambda ctx, x: ctx.save_for_backward(x, 3)),
    4: lambda h: of(saving, lambda ctx, g: (g, g))(h).sum().backward(),
    5: lambda h: of(saving, lambda ctx, g: g[:2])(h).sum().backward(),
    6: lambda h: of(lambda ctx, x: x > 0)(h).sum().backward(),
    7: of(marking),
    8: lambda h: of(lambda ctx, x: x)(h).add_(1),
}

# %%
for number, mistake in mistakes.items():
    print(f"Message {number}")
    with show_error():
        mistake(1 * torch.ones(3, requires_grad=True))

# %% [markdown]
# | | cause | repair |
# | --- | --- | --- |
# | 1 | a saved tensor was written to, often by `+=` | `h = h + …`; or save the output instead |
# | 2 | the first backward freed what was saved | run forward again, or `retain_graph=True` |
# | 3 | a number or a shape in `save_for_backward` | an attribute, `ctx.exponent = 3` |
# | 4 | more or fewer values than forward has arguments | one for each, if only `None` |
# | 5 | the shape does not sum down to the input's | undo what forward did to the shape |
# | 6 | no path to a parameter: a mask, an index, `no_grad` | find where the path ends |
# | 7 | `mark_dirty(x)`, and something else returned | return `x` itself, or do not mark |
# | 8 | the input or a view of it returned, then written to | return `x.clone()` |
#
# Number 1 tells you which tensor it was, by its shape and the operation that made it.
# `torch.autograd.set_detect_anomaly(True)` also shows the line of forward that saved it.
#
# ## What says nothing at all
#
# `ctx.x = x`, a write into `grad_output`, a write in place that was not announced, `.data`: none
# of them raises. For those you have `diagnose`:

# %%
diagnose(Pull, (angles,))

# %% [markdown]
# `diagnose` names the bug in the colleague's Function.

# %% [markdown]
# ## Do you know it?
#
# Nine questions. After a wrong answer, try again.

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
#     def setup_context(ctx, inputs, output):  # sees no intermediate of forward
#         (x, weight, stride), (y, mask) = inputs, output
#         ctx.save_for_backward(x, weight)     # every tensor, in one call
#         ctx.stride = stride                  # everything else
#         ctx.mark_non_differentiable(mask)    # a float output that needs no gradient
#     @staticmethod
#     def backward(ctx, grad_y, grad_mask):    # one for each output; zeros if unused
#         x, weight = ctx.saved_tensors        # read, never written
#         grad_x = grad_y * ... if ctx.needs_input_grad[0] else None
#         return grad_x, grad_weight, None     # one for each input
# ```

# %% [markdown]
# A combined `forward(ctx, x, weight, stride)` does the work of `setup_context` too. Older code has
# it, and so has a Function that saves an intermediate of `forward`.

# %% [markdown] tags=["cheat-sheet"]
# | what was done | what follows | |
# | --- | --- | --- |
# | `ctx.x = x`, then a write to x | a wrong gradient | silent |
# | `ctx.x = x` | hooks (checkpoint, offload) miss it; not freed by backward | silent |
# | `ctx.y = output` | a reference cycle, until the garbage collector runs | silent |
# | `save_for_backward(x, 3)` | `TypeError`, after forward has returned | loud |
# | `ctx.saved_tensors` in forward | an empty tuple | silent |
# | no look at `needs_input_grad` | work for nothing, no wrong number | silent |
# | `grad_output.mul_(…)` | a sibling branch gets a wrong gradient | silent |
# | a saved tensor overwritten | the caller's tensor is spoiled; a second backward raises | half |
# | `.data`, `.detach()` in backward | second derivatives are wrong | silent |
# | a write without `mark_dirty` | new values, old history | silent |
# | `mark_dirty` without a write | others' saved tensors count as changed | loud |
# | the input returned | a view, into which nobody may write | loud |
# | a float mask, unmarked | a penalty without effect | silent |
# | zeros for an unused output | weight decay moves what nobody used | silent |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/02_ctx_rules.ipynb): four Functions that need these
# rules, and four cards on which a broken one is to be named. If you are stuck,
# `hint("strided-gain")` gives the first of three hints.
#
# [Lesson 03](03_gradient_patterns.ipynb) goes through the patterns of gradients: products,
# broadcasting, reductions, softmax, gather.
