# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/12_compile_and_operators.ipynb)
#
# # 12 · torch.compile and custom operators
#
# **You will** compile a model that contains a NumPy loop, see the compiled graph grow with the
# data, and turn the loop into a custom operator: a single operation for data of any length.
#
# **You will learn** which parts of a Function `torch.compile` records and where it stops, how to
# define an operator with `torch.library.custom_op`, what `opcheck` does and does not test, and when
# to write a Function, an operator or both.
#
# **You need** lessons 01 and 02. Three sections use `vmap` and `jvp`, which lesson 11 explains.
#
# **It takes** about 55 minutes; the *extra* sections take another 5. You will solve one exercise
# here. The others are in the exercise notebook.

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
import inspect
import logging
import os
import tempfile
import threading

# The compiler stores its results here instead of in your home folder. One thread is enough.
caches = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches.name
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import numpy as np
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function, gradcheck
from torch.func import grad, hessian, jvp, vmap
from torch.library import custom_op, opcheck
from torch.utils.checkpoint import checkpoint

from autograd_course import grade, hint  # noqa: F401
from autograd_course.lesson import (
    BLUE,
    ORANGE,
    figure,
    note,
    predict,
    replicas,
    show_error,
    vote,
)
from autograd_course.visualize import jacobian_view, knowledge_check

logging.getLogger("torch").setLevel(logging.ERROR)  # a compiler's notes name paths of this machine
torch._C._functorch._set_vmap_fallback_warning_enabled(False)  # this warning contains the time

# %% [markdown]
# ## A loop in a compiled model
#
# A tide gauge sends its readings in series of different lengths. The first layer of our model
# smooths each series with weights that decay exponentially into the past:
#
# $$y_t = k\, y_{t-1} + (1-k)\, x_t$$
#
# A colleague wrote this recurrence as a loop in NumPy. The loop stands in for any code that is not
# made of PyTorch operations, such as C, Fortran or a vendor's library. The transpose of the
# recurrence is the same recurrence run from end to start, so `backward` calls the Function again.


# %%
def smoothed(x: Tensor, keep: float) -> Tensor:
    """Run the recurrence along the last dim, in NumPy."""
    series = x.detach().cpu().numpy()
    y, state = np.empty_like(series), 0.0
    for t in range(series.shape[-1]):
        state = keep * state + (1 - keep) * series[..., t]
        y[..., t] = state
    return torch.from_numpy(y).to(x.device)


class Smooth(Function):
    """y_t = k·y_{t-1} + (1-k)·x_t; ∂L/∂x is the same recurrence over g, backward in time."""

    @staticmethod
    def forward(x, keep):
        return smoothed(x, keep)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.keep = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return Smooth.apply(grad_output.flip(-1), ctx.keep).flip(-1), None


sample = torch.linspace(-1, 1, 6, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(lambda x: Smooth.apply(x, 0.8), sample))

# %% [markdown]
# The Function is correct. Now compile the model to make it faster. `torch.compile` *traces* your
# code: it runs the Python code once, records the operations as a graph, and passes the graph to a
# *backend*. The default backend generates C++ or Triton code. The hidden cell defines a backend
# that only records the names of the operations. The function `trace` in the same cell compiles a
# function, calls it, and returns the operations of each graph. If a gradient is needed,
# `aot_autograd` also traces the backward pass, and the backend receives two graphs.


# %% jupyter={"source_hidden": true}
def trace(f, *series):
    """Compile f once and call it with each series. Return the operations of each graph."""
    found = []

    def backend(graph, example_inputs):
        calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
        names = [call.__name__.partition(".")[0] for call in calls]
        found.append([name for name in names if name != "detach"])  # it computes nothing
        return make_boxed_func(graph)

    torch._dynamo.reset()  # forget what was compiled before
    compiled = torch.compile(f, backend=aot_autograd(fw_compiler=backend))
    for x in series:
        y = compiled(x)
        if y.requires_grad:
            y.sum().backward()
    return found


# %% [markdown]
# **Your turn.** Run the next cell. Then replace 3 with other lengths, and find out how many
# operations each reading adds.

# %%
length = 3


def model(x):
    return torch.tanh(Smooth.apply(x, 0.8))


(operations,) = trace(model, torch.linspace(-1, 1, length))
print(f"a series of {length} readings: {len(operations)} operations")

# %% [markdown]
# `torch.compile` supports much of NumPy and replaces NumPy functions with PyTorch operations. So it
# has *unrolled* the loop: each reading adds nine operations, and 1,000 readings would add 9,000.
# The next cell calls one compiled model with ten series of 2, 3, …, 11 readings.

# %%
lengths = range(2, 12)
ten_series = [torch.linspace(-1, 1, length) for length in lengths]
by_loop = trace(model, *ten_series)
print("operations of each graph:", *map(len, by_loop))

# %% [markdown]
# Each length needs its own graph. After eight graphs, PyTorch gives up. It runs the last two series
# in plain Python, and only the log says so. The results are right, but PyTorch has compiled the
# model eight times, and each graph works for only one length.

# %% [markdown]
# ## The whole thing, working
#
# You need a way to tell the compiler to treat the loop as one operation and not to look inside. A
# *custom operator* does this. It has four parts:


# %%
@custom_op("tides::smooth", mutates_args=())
def smooth(x: Tensor, keep: float) -> Tensor:
    return smoothed(x, keep)


@smooth.register_fake
def _(x, keep):
    return torch.empty_like(x)  # shape, dtype, strides and device, but no values


def setup_context(ctx, inputs, output):
    ctx.keep = inputs[1]


def backward(ctx, grad_output):
    return smooth(grad_output.flip(-1), ctx.keep).flip(-1), None


smooth.register_autograd(backward, setup_context=setup_context)

# %%
by_operator = trace(lambda x: torch.tanh(smooth(x, 0.8)), *ten_series)
for graph in by_operator:
    print(*graph)

# %% jupyter={"source_hidden": true}
with figure(width=5.0, height=3.2) as (ax,):
    ax.plot(lengths[: len(by_loop)], [len(graph) for graph in by_loop], "o", color=ORANGE)
    ax.plot(lengths, [len(by_operator[-1])] * len(lengths), "o", color=BLUE)
    ax.axvline(9.5, color=ORANGE, linestyle="--", linewidth=1)
    note(ax, "the loop: one graph for each length", (2.1, 80), ORANGE)
    note(ax, "not\ncompiled", (9.65, 40), ORANGE)
    note(ax, "the operator: two graphs for all lengths", (2.1, 9), BLUE)
    ax.set(title="operations of the graph", xlabel="readings in the series", ylim=(0, 92))

# %% [markdown]
# Two graphs are enough for all ten series, and each graph has two operations. The first graph is
# for the series of two readings. When a series of a different length arrives, PyTorch traces the
# model again and replaces the length with a symbol.
#
# The rest of this lesson explains both sides: what the compiler does with a Function, and what an
# operator promises.

# %% [markdown]
# ## What a Function can do
#
# `loss.backward()` is not the only way to use a Function. Here are four Functions for
# $y = x + \sin^2 x$. Each adds a method or a line to the previous one.


# %%
class Combined(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + torch.sin(x) ** 2

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (1 + torch.sin(2 * x))


class Separate(Combined):
    @staticmethod
    def forward(x):
        return x + torch.sin(x) ** 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class WithVmap(Separate):
    generate_vmap_rule = True


class WithJvp(WithVmap):
    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * (1 + torch.sin(2 * x))


# %% jupyter={"source_hidden": true}
point = torch.linspace(-2, 2, 5)
x = point.clone().requires_grad_()


def compile_and_run(f):
    torch._dynamo.reset()
    torch.compile(f, backend="eager", fullgraph=True)(x).sum().backward()


uses = {
    "backward": lambda f: f(x).sum().backward(),
    "checkpoint": lambda f: checkpoint(f, x, use_reentrant=False).sum().backward(),
    "compile": compile_and_run,
    "func.grad": lambda f: grad(lambda x: f(x).sum())(point),
    "vmap": lambda f: vmap(f)(point),
    "jvp": lambda f: jvp(f, (point,), (point,)),
    "hessian": lambda f: hessian(lambda x: f(x).sum())(point),
}


def works(use, f):
    try:
        use(f)
    except (RuntimeError, NotImplementedError):
        return False
    return True


# %% [markdown]
# The next cell uses each Function in seven ways and prints a table of the results. Vote before you
# run the cell. Some of the beliefs in this lesson are true.

# %%
vote("12", "combined-form")

# %%
print(f"{'':10}", *(f"{use:10}" for use in uses))
for function in (Combined, Separate, WithVmap, WithJvp):
    found = [works(use, function.apply) for use in uses.values()]
    print(f"{function.__name__:10}", *(f"{'yes' if it else '–':10}" for it in found))

# %% [markdown]
# The combined `forward(ctx, x)` works with `backward()`, with checkpoint and with `torch.compile`.
# It also works with `DistributedDataParallel` (see "Tools around a Function"). But it does not work
# with `torch.func`. A separate `setup_context` adds support for `func.grad`, a vmap rule adds
# `vmap`, and a `jvp` method adds the last two.
#
# But `jvp` also takes something away: PyTorch 2.13 cannot trace a Function that defines `jvp`.
# Without `fullgraph=True`, PyTorch breaks the graph before and after this Function. So define `jvp`
# only if you need forward mode.

# %% [markdown]
# ## torch.compile
#
# While `torch.compile` traces your code, it uses *fake tensors*. A fake tensor has a shape and a
# dtype, but no values. How much of a custom Function does the compiler see?

# %%
vote("12", "black-box")

# %%
forward_graph, backward_graph = trace(lambda x: torch.tanh(Separate.apply(x)), x)
print("forward: ", *forward_graph)
print("backward:", *backward_graph)

# %% [markdown]
# The compiler looks inside both methods. `forward` became part of one graph. `backward` was traced
# at the same time and became part of another graph, together with the derivative of `tanh`. A
# backend can fuse each graph into one loop. So a Function does not stop the compiler, but it does
# not help the compiler either.

# %% [markdown]
# ### Compiled with inductor
#
# *Extra: for readers who want to see the numbers that the default backend computes.*
#
# The default backend is called *inductor*. It needs a C++ compiler, or a GPU and Triton. The next
# cell prints which backend it used on your machine.


# %% tags=["nbval-ignore-output"]
def activated(x):
    return torch.tanh(Separate.apply(x))


def compiled_run(backend):
    torch._dynamo.reset()
    leaf = point.clone().requires_grad_()
    y = torch.compile(activated, backend=backend, fullgraph=True)(leaf)
    y.sum().backward()
    return y.detach(), leaf.grad


try:
    backend, found = "inductor", compiled_run("inductor")
except Exception:  # no C++ compiler, or one that does not work: trace anyway
    backend, found = "aot_eager", compiled_run("aot_eager")
print("compiled by", backend)

# %%
(eager_grad,) = torch.autograd.grad(activated(x).sum(), x)
y, x_grad = found
print("value, compiled:   ", y.numpy().round(3))
print("value, eager:      ", activated(point).numpy().round(3))
print("gradient, compiled:", x_grad.numpy().round(3))
print("gradient, eager:   ", eager_grad.numpy().round(3))

# %% [markdown]
# ### Checkpoint 1
#
# A graph is valid for arguments *like those of the first call*. A number that is not a tensor
# becomes a constant in the graph. When its value changes, PyTorch traces again and replaces the
# number with a symbol, as it did with the length. A *tensor* is always an input to the graph.
#
# The next cell calls one compiled function with six values of $a$, first as Python floats and then
# as tensors. How many graphs does PyTorch compile in total?


# %%
def snake(x, a):
    return x + torch.sin(a * x) ** 2 / a


def compilations(arguments):
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(snake, backend=backend)
    for argument in arguments:
        compiled(point, argument)
    return len(graphs)


values = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
predict(..., compilations(values) + compilations([torch.tensor(v) for v in values]))

# %% [markdown]
# <details><summary>Why</summary>
#
# PyTorch compiles two graphs for the floats and one for the tensors, so the total is 3. The first
# float becomes a constant. When the second float arrives, PyTorch replaces the constant with a
# symbol, and the other four floats reuse this graph. A tensor is an input from the start. Some
# values, such as strings, cannot become symbols. PyTorch compiles a new graph for each of these
# values, up to the limit of eight. A loop over the length has the same effect, because unrolling
# the loop fixes the length.
#
# </details>

# %% [markdown]
# ### Graph breaks
#
# When the compiler encounters code that it cannot trace, it does not raise an error. It ends the
# graph, lets Python run this code, and begins a new graph. This is called a *graph break*. Here are
# four Functions that break the graph:


# %%
class Branching(Separate):
    @staticmethod
    def forward(x):
        if x.abs().max() > 100:
            raise ValueError("x is too large")
        return Separate.forward(x)


class Printing(Separate):
    @staticmethod
    def forward(x):
        print(end="")
        return Separate.forward(x)


class Counting(Separate):
    calls = 0

    @staticmethod
    def forward(x):
        Counting.calls += 1
        return Separate.forward(x)


class AskingAutograd(Separate):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (grad_x,) = torch.autograd.grad(Separate.forward(x), x, grad_output)
        return grad_x


# %% [markdown]
# The next cell compiles $\tanh(f(2x))$ for each Function $f$ and compares the result with that of
# eager mode.

# %%
vote("12", "break-keeps-result")


# %%
def compare(function):
    """Compile tanh(f(2x)). Return the number of graphs and the largest error."""
    graphs = []

    def composed(x):
        return torch.tanh(function.apply(2 * x))

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    error = torch.compile(composed, backend=backend)(x) - composed(x)
    return len(graphs), error.abs().max()


for function in (Separate, Branching, Printing, Counting, AskingAutograd):
    graphs, error = compare(function)
    print(f"{function.__name__:14} graphs: {graphs}, largest error: {error:.0e}")

# %% [markdown]
# The results are right, but the graph is in pieces, so the backend can fuse fewer operations.
# PyTorch shows no message. In your tests, pass `fullgraph=True`, which turns a graph break into an
# error:

# %%
for function in (Branching, Printing, Counting, AskingAutograd):
    torch._dynamo.reset()
    print(f"{function.__name__}:")
    with show_error(characters=200):
        torch.compile(function.apply, backend="eager", fullgraph=True)(x)

# %% [markdown]
# `Branching` needs a value, but a fake tensor has none. The other three Functions do something
# other than compute values. A break in `backward` matters as much as a break in `forward`, because
# the compiler traces both methods at the same time. `diagnose(F, inputs, level="full")` runs the
# same test and reports `compile-mismatch`.
#
# A debugger does not stop in compiled code. The page [A breakpoint in
# backward](../docs/breakpoints.md#compiled-code) shows how to turn compilation off.
#
# ### Exercise 1: repair-graph-breaks
#
# The Huber loss is $x^2/2$ for $|x| \le \delta$ and $\delta\,(|x| - \delta/2)$ otherwise. The next
# Function works in eager mode, but the compiler stops in three places.


# %%
class BrokenHuber(Function):
    outliers = 0

    @staticmethod
    def forward(x, delta):
        if x.abs().max() <= delta:  # no outlier, so the parabola is enough
            return x**2 / 2
        BrokenHuber.outliers += 1
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = BrokenHuber.forward(x, ctx.delta)
        return torch.autograd.grad(y, x, grad_output)[0], None


# %% [markdown]
# Write `forward` and `backward` so that `torch.compile` produces one graph. Leave out the counter.
# If you are stuck, run `hint("repair-graph-breaks")` in a new cell.


# %%
class Huber(Function):
    @staticmethod
    def forward(x, delta):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        # YOUR CODE HERE
        raise NotImplementedError


# %%
grade("repair-graph-breaks", Huber)

# %% [markdown]
# ## A custom operator
#
# PyTorch's own functions are *operators*. Each operator is an entry in a table. It has a name, a
# typed signature, and one implementation for each part of PyTorch that calls it. `custom_op` adds
# your Python function to this table. Each part of the definition is a promise:
#
# - The **signature** comes from the annotations. `mutates_args=()` promises that the operator
#   changes none of its arguments. The result must be in new memory, so it cannot be an input or a
#   view of an input.
# - The **fake** tells the compiler what the result looks like. It may use shapes and Python
#   numbers, but not the values of tensors.
# - **Autograd** gets two functions that you know as methods of a Function: `setup_context` and
#   `backward`.
#
# In a training step on a series of 1,000 readings, the loop is one operation in the forward pass
# and one in the backward pass:

# %%
series = torch.linspace(-1, 1, 1000, requires_grad=True)
forward_graph, backward_graph = trace(lambda x: torch.tanh(smooth(2 * x, 0.8)), series)
print("forward: ", *forward_graph)
print("backward:", *backward_graph)

# %% [markdown]
# ### opcheck
#
# `opcheck` runs the operator and checks whether it keeps its promises. It asks four questions. Does
# the operator leave its arguments unchanged and return new memory? Is autograd registered
# correctly? Does the fake agree with the real result? Can PyTorch trace the forward and backward
# passes?

# %%
for test, outcome in opcheck(smooth, (sample, 0.8)).items():
    print(f"{test:28} {outcome}")

# %% [markdown]
# ### Checkpoint 2
#
# This operator breaks three of its promises. Run the cell and read what `opcheck` reports. Change
# the cell until `opcheck` passes. (You can define an operator as often as you like. Each definition
# replaces the previous one, so you have to register its parts again.)


# %%
@custom_op("tides::late_half", mutates_args=())
def late_half(x: Tensor) -> Tensor:
    x.mul_(2)
    return x[..., x.shape[-1] // 2 :]


late_half.register_fake(lambda x: torch.empty_like(x))

with show_error(characters=400):
    opcheck(late_half, (torch.ones(2, 6),))

# %% [markdown]
# <details><summary>Why</summary>
#
# The operator changes `x` and returns a view of it. The fake also has the wrong shape.
#
# ```python
# def late_half(x: Tensor) -> Tensor:
#     return 2 * x[..., x.shape[-1] // 2 :]
#
# late_half.register_fake(lambda x: torch.empty_like(x[..., x.shape[-1] // 2 :]))
# ```
#
# Without `opcheck`, eager mode raises an error only for the view. It does not notice that `x` has
# changed, and it does not use the fake. PyTorch notices a wrong fake only when a compiled model
# relies on it, if at all.
#
# </details>

# %% [markdown]
# ### A gradient that opcheck does not check
#
# The next operator is the same as `smooth`, but its backward returns twice the right gradient.

# %%
vote("12", "opcheck-and-gradients")


# %%
@custom_op("tides::doubled", mutates_args=())
def doubled(x: Tensor, keep: float) -> Tensor:
    return smoothed(x, keep)


def doubled_backward(ctx, grad_output):
    return 2 * backward(ctx, grad_output)[0], None


doubled.register_fake(lambda x, keep: torch.empty_like(x))
doubled.register_autograd(doubled_backward, setup_context=setup_context)
for name, operator in {"smooth": smooth, "doubled": doubled}.items():
    outcomes = set(opcheck(operator, (sample, 0.8)).values())
    right = gradcheck(operator, (sample, 0.8), raise_exception=False)
    print(f"{name:8} opcheck {outcomes}, gradcheck {right}")

# %%
jacobian_view(doubled, sample, 0.8)

# %% [markdown]
# `opcheck` tests the registration, but it does not know the right formula. Each entry of the matrix
# that `backward` computes is twice as large as it should be. So always run both `opcheck` and
# `gradcheck`. Instead of `gradcheck`, you can run `diagnose`, which accepts any callable.

# %% [markdown]
# ## Together with a Function
#
# `register_autograd` makes an operator ready for training, compilation and export, but not for
# `torch.func`. The next cell differentiates our operator in both modes of `torch.func`:

# %%
vote("12", "transform-raises")

# %%
still = sample.detach()
print("reverse mode:")
with show_error():
    grad(lambda x: smooth(x, 0.8).sum())(still)
print("forward mode:")
with show_error():
    _, change = jvp(lambda x: smooth(x, 0.8), (still,), (torch.ones_like(still),))
    print("jvp gives:", change.numpy())
    print("right is: ", smooth(torch.ones_like(still), 0.8).numpy().round(3))  # it is linear

# %% [markdown]
# Reverse mode raises an error. Forward mode treats the operator's result as a constant and returns
# zeros without an error.
#
# However, you do not have to register a gradient. Put only the kernel into the operator, and call
# the operator in the `forward` of a Function with a separate `setup_context`. The compiler looks
# inside the Function, but not inside the operator. `torch.func` sees only the Function.


# %%
class SmoothOperator(Function):
    @staticmethod
    def forward(x, keep):
        return smooth(x, keep)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.keep = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return SmoothOperator.apply(grad_output.flip(-1), ctx.keep).flip(-1), None

    @staticmethod
    def vmap(info, in_dims, x, keep):
        return SmoothOperator.apply(x.movedim(in_dims[0], 0), keep), 0


forward_graph, _ = trace(lambda x: torch.tanh(SmoothOperator.apply(2 * x, 0.8)), series)
print("forward:", *forward_graph)
rows = torch.stack([still, -still])
slopes = vmap(grad(lambda x: SmoothOperator.apply(x, 0.8)[-1]))(rows)
print("vmap of grad:", slopes[0].numpy().round(3))
with show_error():
    jvp(lambda x: SmoothOperator.apply(x, 0.8), (still,), (torch.ones_like(still),))

# %% [markdown]
# `jvp` now raises an error instead of returning zeros. If you need forward mode, add a `jvp` method
# to the Function, and accept that the compiler breaks the graph there.

# %% [markdown]
# ## Which one to choose
#
# | you have | what to write | why |
# | --- | --- | --- |
# | operations whose derivative autograd knows | no Function | everything already works |
# | your own gradient | a Function with `setup_context` and a vmap rule | most uses work |
# | your own gradient, and Hessians | such a Function with `jvp` | forward mode; breaks the graph |
# | foreign code, eager mode only | a Function, with `vmap` if you need it | it is the shortest |
# | foreign code, compiled or exported | a `custom_op` with all four parts | one opaque operation |
# | foreign code, also in `torch.func` | a Function that calls a `custom_op` | each does its part |
# | an old combined Function, only for training | nothing new | compile and DDP accept it |
#
# The page [Function, custom operator, hook or torch.func](../docs/function_or_operator.md) runs an
# example of each choice. [What survives](../docs/what_survives.md) shows what each kind of Function
# does under compile, export, ONNX, DDP, autocast and checkpoint.

# %% [markdown]
# ## More about operators
#
# *Reference: look here when you need `vmap`, an operator that writes in place, or Triton.*
#
# **vmap.** Without a rule, `vmap` calls an operator once for each sample, and PyTorch warns of "a
# performance drop". (This notebook disables the warning.) `register_vmap` takes a rule with the
# same arguments as a Function's `vmap` method (lesson 11). Then one call is enough:

# %%
shapes = []


@custom_op("tides::counted", mutates_args=())
def counted(x: Tensor) -> Tensor:
    shapes.append(tuple(x.shape))
    return smoothed(x, 0.8)


vmap(counted)(torch.ones(3, 4))
print("without a rule:", shapes)


@counted.register_vmap
def _(info, in_dims, x):
    return counted(x.movedim(in_dims[0], 0)), 0


shapes.clear()
vmap(counted)(torch.ones(3, 4))
print("with a rule:   ", shapes)

# %% [markdown]
# **In place.** An operator may write into an argument if `mutates_args` names this argument and the
# operator does not return a view of it. PyTorch then increments the tensor's version, so autograd
# notices if `backward` needs the old values. You cannot register a gradient for such an operator:


# %%
@custom_op("tides::smooth_", mutates_args=("x",))
def smooth_(x: Tensor, keep: float) -> None:
    x.numpy()[:] = smoothed(x, keep).numpy()


series = torch.ones(4)
smooth_(series, 0.8)
print(series.numpy().round(3), "version:", series._version)
with show_error():
    smooth_.register_autograd(backward, setup_context=setup_context)

# %% [markdown]
# **Triton.** If the kernel is written in Triton, use `torch.library.triton_op` instead of
# `custom_op`, and call the kernel through `torch.library.wrap_triton`. According to PyTorch's
# documentation, the compiler then sees the kernel instead of an opaque operation. This needs a GPU,
# so no cell here runs it. Lesson 14 shows a Triton kernel.

# %% [markdown]
# ## Autocast
#
# *Reference: look here when you train in mixed precision. Exercise 3 needs this section.*
#
# Under `torch.autocast`, a matrix product of float32 tensors is computed in bfloat16. (On a GPU, it
# is computed in float16 unless you choose a dtype.) Usually, the training script enables autocast
# around the forward pass of the whole model. The backward pass runs later, when autocast is off.
# Here is a linear layer like the one in lesson 01. It prints the dtypes that its `backward`
# receives.


# %%
class Project(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        print(f"backward: g {grad_output.dtype}, weight {weight.dtype}")
        return grad_output @ weight, grad_output.T @ x


def train_mixed(project):
    """Call the layer under autocast, and run backward outside of it."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(8, 3, generator=rng)
    weight = torch.randn(4, 3, generator=rng).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = project(x, weight)
    y.square().mean().backward()
    print(f"y {y.dtype}, gradient {weight.grad.dtype}")


with show_error():
    train_mixed(Project.apply)

# %% [markdown]
# `forward` saved its inputs in float32 and returned bfloat16, so `grad_output` is bfloat16. Without
# a Function, autograd would have recorded the casts as operations, and the backward of a cast is a
# cast in the other direction. In a Function, you have to cast the tensors yourself. Two decorators
# help:
#
# - `custom_fwd` stores on `ctx` whether autocast was on, and `custom_bwd` restores this state for
#   `backward`. Then both methods compute in bfloat16.
# - With `cast_inputs=torch.float32`, `forward` receives float32 inputs, and both methods run with
#   autocast off. Use this argument if the Function needs full precision.


# %%
on = {"device_type": "cpu"}


class AsForward(Project):
    forward = staticmethod(custom_fwd(Project.forward, **on))
    backward = staticmethod(custom_bwd(Project.backward, **on))


class InFloat32(Project):
    forward = staticmethod(custom_fwd(Project.forward, **on, cast_inputs=torch.float32))
    backward = staticmethod(custom_bwd(Project.backward, **on))


for function in (AsForward, InFloat32):
    print(f"{function.__name__}:")
    train_mixed(function.apply)

# %% [markdown]
# With a separate `setup_context`, `forward` has no `ctx` on which `custom_fwd` could store
# anything. So this decorator does not work on `forward`:


# %%
class SeparateProject(Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(x, weight):
        return x @ weight.T

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, grad_output.T @ x


class SeparateRight(SeparateProject):
    @staticmethod
    def forward(x, weight):
        return x @ weight.T

    @staticmethod
    @custom_fwd(device_type="cpu")
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


for function in (SeparateProject, SeparateRight):
    print(f"{function.__name__}:")
    with show_error():
        train_mixed(function.apply)

# %% [markdown]
# Put `custom_fwd` on `setup_context`, which receives `ctx`. (`cast_inputs` does not help there,
# because `forward` has already computed with the original inputs. Instead, cast the inputs in
# `forward` and `grad_output` in `backward` yourself.)

# %% [markdown]
# ## Tools around a Function
#
# *Reference: look here when you use checkpoint, several processes, threads or compiled autograd.*
#
# These tools run *around* a Function. They decide when, how often and where PyTorch calls its
# methods.
#
# ### Recomputed by checkpoint
#
# `torch.utils.checkpoint` (lesson 07) drops the saved tensors and runs `forward` again during the
# backward pass. This is also called *rematerialization*.

# %%
calls = []


class Watched(Separate):
    @staticmethod
    def forward(x):
        calls.append("forward")
        return Separate.forward(x)

    @staticmethod
    def backward(ctx, grad_output):
        calls.append("backward")
        return Separate.backward(ctx, grad_output)


checkpoint(lambda x: Watched.apply(x).sum(), x, use_reentrant=False).backward()
print(*calls)

# %% [markdown]
# The second `forward` runs *inside* `backward`, when `backward` reads its saved tensors. So
# `forward` must not count its calls, use random numbers other than PyTorch's, or change anything
# outside the Function. With `use_reentrant=False`, which PyTorch recommends, `backward` can unpack
# `ctx.saved_tensors` only once. A second access raises an error, so assign the tensors to variables
# in the first line of `backward`.
#
# ### In several processes
#
# `DistributedDataParallel` (DDP) runs the same model in several processes, each with its share of
# the batch, and averages the gradients. Your Function does not have to know about the other
# processes. It only has to *return* its gradients. DDP puts a hook on each parameter, and autograd
# calls the hook when it adds a returned gradient to the parameter's `.grad`.
#
# The next cells run two layers in two processes. Both layers compute the same values. The first
# layer passes its weight to a Function that returns the gradient. The second layer does not pass
# its weight as an argument. Instead, its Function writes to the weight's `.grad`:

# %%
print(inspect.getsource(replicas._Writing))

# %% [markdown]
# In one process, both layers give the right gradient. Now each of the two processes gets four of
# the eight samples. (This takes a few seconds, because two Python processes start.)

# %%
layers = {"returned": replicas.Returned, "written": replicas.Written}
torch.manual_seed(0)
samples = torch.randn(8, 3)
in_processes = replicas.gradients(list(layers.values()), [samples[:4], samples[4:]])

for (name, layer), (first, second) in zip(layers.items(), in_processes, strict=True):
    alone = layer()
    alone(samples).square().mean().backward()
    print(f"{name}:")
    print("  process 1:  ", first.numpy().round(3))
    print("  process 2:  ", second.numpy().round(3))
    print("  whole batch:", alone.weight.grad.numpy().round(3))

# %% [markdown]
# The gradient of the `written` layer never reached the hook. After an optimizer step, the two
# processes would have different weights, but PyTorch does not raise an error. (At the next step,
# DDP complains about parameters "not used in producing loss" and suggests
# `find_unused_parameters=True`. With that setting, training continues, and each process trains its
# own model.) If `backward` does not return a gradient, everything that listens to gradients misses
# it: DDP, tensor hooks and `torch.autograd.grad`.
#
# ### In another thread
#
# On the CPU, `backward` runs in the thread that calls `loss.backward()`, but `forward` may have run
# in a different thread. For tensors on a GPU, the autograd engine uses a separate thread for each
# device. (The next cell does not show this, because it would need a GPU.) So `backward` must not
# read a `threading.local`. Store what it needs on `ctx`.

# %%
settings = threading.local()
settings.scale = 2.0


class Scaled(Function):
    @staticmethod
    def forward(x):
        return settings.scale * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        with show_error():
            print("thread:", threading.current_thread().name)
            print("scale: ", settings.scale)
        return grad_output


y = Scaled.apply(x)
thread = threading.Thread(target=y.sum().backward, name="worker")
thread.start()
thread.join()

# %% [markdown]
# ### In compiled autograd
#
# `torch.compile` traces `backward` together with `forward`. In contrast, *compiled autograd* waits
# for the backward pass and records all of it, including your `backward` and the accumulation into
# `.grad`. In a program, you enable it with `torch._dynamo.config.compiled_autograd = True`. In the
# next cell, `forward` runs in eager mode, and compiled autograd records the backward pass. The cell
# prints the operations of our `backward` and the accumulation into `.grad`:

# %%
names = []


def backend(graph, example_inputs):
    names.extend(node.name for node in graph.graph.nodes if node.op == "call_function")
    return graph.forward


y = torch.tanh(Separate.apply(x)).sum()
with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
    y.backward()
print(*[name for name in names if name in ("mul", "sin", "add", "grads", "accumulate_grad")])

# %% [markdown]
# ## Do you know it?
#
# Answer six questions. If an answer is wrong, you see why and can try again. Two questions are
# about reference sections.

# %%
knowledge_check("12")

# %% [markdown] tags=["cheat-sheet"]
# ## Summary
#
# ```python
# @custom_op("lib::f", mutates_args=())
# def f(x: Tensor, k: float) -> Tensor: ...         # new memory, nothing changed
# f.register_fake(lambda x, k: torch.empty_like(x))
# f.register_autograd(backward, setup_context=setup_context)
# opcheck(f, (x, 0.5)); gradcheck(lambda x: f(x, 0.5), x)
# ```

# %% [markdown] tags=["cheat-sheet"]
# | | |
# | --- | --- |
# | combined `forward(ctx, …)` | works with `backward()`, compile, checkpoint, DDP |
# | `torch.compile` | traces both methods; breaks are silent: test with `fullgraph=True` |
# | `custom_op` | one opaque operation; `torch.func.grad` raises, `jvp` gives 0 |
# | `opcheck` | tests the registration; `gradcheck` tests the mathematics |
# | autocast | `g` has the output's dtype; `custom_fwd` goes where `ctx` is |
# | DDP, checkpoint | return gradients, never write them; `forward` may run twice |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/12_compile_and_operators.ipynb), you will remove
# graph breaks, build an operator that passes `opcheck` and compiles into one graph, and make a loss
# safe under autocast.
#
# [Lesson 13](13_solvers.ipynb) shows how to differentiate a solver's result.
