# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/14_external_code.ipynb)
#
# # 14 · External code: C++, CUDA, Triton
#
# **You will** build a C++ operator in this notebook, put it into a training where it silently stops
# a layer from learning, and write the Function that repairs it.
#
# **You will learn** how to register an operator, which part of its gradient you must supply, what a
# kernel may assume about memory, and which rules CUDA C++ and Triton kernels must follow.
#
# **You need** lesson 01 (a Function, `gradcheck`, `diagnose`). From lesson 13 it helps to know that
# `backward` solves the transposed system. To build the operator you need a C++ compiler. Without
# one, the cells say so and a loop in Python takes its place.
#
# **It takes** about 35 minutes; the *extra* sections take another 15. The exercises come after it.

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
import importlib.util
import time
import warnings

import torch
from torch.autograd import Function, gradcheck, gradgradcheck

from autograd_course import diagnose
from autograd_course.lesson import (
    BLUE,
    ORANGE,
    SOURCES,
    BuildError,
    benchmark_results,
    build,
    figure,
    note,
    predict,
    show_warning,
)
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## A layer that never trains
#
# A room keeps nine tenths of its warmth each hour. If $x_t$ is the heat that enters in hour $t$,
# the room's temperature above that of the street is
#
# $$y_t = x_t + 0.9\, y_{t-1} .$$
#
# Each step needs the step before, so this is a loop, and loops are slow in Python. Somebody has
# written it in C++. The next cell compiles it, which takes some seconds the first time. If you have
# no compiler, it uses `in_python` instead.


# %%
@torch.no_grad()
def in_python(x, a, reverse):
    """Compute the same as the C++ operator; the result has no graph either."""
    steps, y, sums = x.unbind(-1), torch.zeros(x.shape[:-1], dtype=x.dtype), []
    for x_t in reversed(steps) if reverse else steps:
        y = x_t + a * y
        sums.append(y)
    return torch.stack(sums[::-1] if reverse else sums, -1)


torch.set_default_dtype(torch.float64)
try:
    kernel = build(SOURCES / "decayed_sum.cpp")
    decayed_sum = kernel.decayed_sum
except BuildError as error:
    kernel, decayed_sum = None, in_python
    print(error)
print(decayed_sum(torch.ones(4), 0.5, False).tolist(), "forward in time")
print(decayed_sum(torch.ones(4), 0.5, True).tolist(), "backward in time")

# %% [markdown]
# Now we train a small model on 200 hours of measurements. A linear layer computes the heat from
# what is on in each hour: the sun, the radiator, the oven. Then comes the operator, and after it a
# parameter for the error of the thermometer.

# %%
rng = torch.Generator().manual_seed(0)
hours = (torch.rand(200, 3, generator=rng) < 0.3).double()  # sun, radiator, oven: on or off
measured = decayed_sum(hours @ torch.tensor([0.5, 1.0, 0.2]), 0.9, False) + 2


def train(operation, steps=400):
    """Return the layer's weights and the thermometer's error, before and after, and the losses."""
    weights = torch.tensor([0.1, 0.1, 0.1], requires_grad=True)
    error = torch.tensor(0.0, requires_grad=True)
    optimizer, losses = torch.optim.Adam([weights, error], lr=0.2), []
    for _ in range(steps):
        loss = (operation(hours @ weights) + error - measured).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return weights.tolist(), error.item(), losses


with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    weights, error, alone_losses = train(lambda heat: decayed_sum(heat, 0.9, False))
print("weights: ", ", ".join(f"{weight:.2f}" for weight in weights), " right: 0.50, 1.00, 0.20")
print(f"error of the thermometer: {error:.2f}  right: 2.00")
print(f"loss: {alone_losses[0]:.1f} at the first step, {alone_losses[-1]:.1f} at the last")

# %% [markdown]
# The loss falls and nothing raises an error, but the layer's weights are still the 0.1 that they
# started with. Only the thermometer's parameter has learned, and it has learned a wrong value to
# make up for the layer.
#
# **Common belief: "it is a PyTorch operator, so it is differentiable."** Autograd records
# operations on tensors. It cannot see a loop on pointers, and nobody has told it the derivative of
# this one. The result even says that it requires a gradient:

# %%
x = torch.ones(4, requires_grad=True)
y = decayed_sum(x, 0.5, False)
if kernel:
    print("requires grad:", y.requires_grad)
    with show_warning():
        y.sum().backward()
    print("x.grad:", x.grad)

# %% [markdown]
# The graph contains a node that passes no gradient on. The only sign is a warning, and in a
# training loop it scrolls away. (If you call C++ through NumPy or `ctypes`, there is no warning,
# and the result has no `grad_fn` at all.)

# %% [markdown]
# ## The whole thing, working
#
# A Function supplies the derivative. The loop solves a linear system with ones on the diagonal and
# $-a$ just below it. `backward` solves the transposed system (lesson 13). There $-a$ is just above
# the diagonal, so the loop runs backward in time:
#
# $$u_t = g_t + a\, u_{t+1}, \qquad \frac{\partial L}{\partial x_t} = u_t, \qquad
# \frac{\partial L}{\partial a} = \sum_t u_t\, y_{t-1} .$$
#
# The operator has a switch for the direction, so it serves both passes:


# %%
class DecayedSum(Function):
    """y[t] = x[t] + a·y[t-1]; u[t] = g[t] + a·u[t+1], ∂L/∂x = u, ∂L/∂a = Σ u[t]·y[t-1]."""

    @staticmethod
    def forward(ctx, x, a, operator, reverse=False):
        y = operator(x, a.item(), reverse)
        ctx.save_for_backward(y, a)
        ctx.call = operator, reverse
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y, a), (operator, reverse) = ctx.saved_tensors, ctx.call
        u = DecayedSum.apply(grad_output, a, operator, not reverse)
        grad_a = None
        if ctx.needs_input_grad[1]:
            before, after = (u, y) if reverse else (y, u)
            grad_a = (before[..., :-1] * after[..., 1:]).sum()
        return u, grad_a, None, None


a = torch.tensor(0.9, requires_grad=True)
weights, error, losses = train(lambda heat: DecayedSum.apply(heat, a, decayed_sum))
print("weights: ", ", ".join(f"{weight:.2f}" for weight in weights), " right: 0.50, 1.00, 0.20")
print(f"error of the thermometer: {error:.2f}  right: 2.00")

x = torch.randn(2, 6, generator=rng, requires_grad=True)
print("gradcheck:    ", gradcheck(DecayedSum.apply, (x, a, decayed_sum)))
print("gradgradcheck:", gradgradcheck(DecayedSum.apply, (x, a, decayed_sum)))

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.2) as (axes,):
    axes.semilogy(alone_losses, color=ORANGE)
    axes.semilogy(losses, color=BLUE)
    axes.set(title="the training", xlabel="step", ylabel="loss")
    note(axes, "the operator alone", (200, 2), ORANGE)
    note(axes, "the operator in a Function", (215, 1.2e-2), BLUE)

# %% [markdown]
# `backward` calls the Function itself, so the second derivative is right too. The picture below
# shows the Jacobian of one row of six steps. On the left is what `forward` does. Each output
# depends on its own input and on those before it, so the map is a triangle, and its entries are
# powers of $a$. In the middle is what `backward` claims.

# %%
jacobian_view(DecayedSum, x[0], a, decayed_sum)

# %% [markdown]
# ### Checkpoint 1
#
# Three inputs are all 1, and $a = 0.5$. The loss is the last sum, $y_2$. Which gradient does the
# *first* input get? Run the formula for $u$ backward in time, and replace the dots by a number.

# %%
x = torch.ones(3, requires_grad=True)
DecayedSum.apply(x, torch.tensor(0.5), decayed_sum)[2].backward()

predict(..., x.grad[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# `backward` receives $g = (0, 0, 1)$. Backward in time, $u_2 = 1$, then $u_1 = 0 + 0.5 \cdot 1 =
# 0.5$, and $u_0 = 0 + 0.5 \cdot 0.5 = 0.25$.
#
# </details>

# %% [markdown]
# ## A C++ operator, built on the spot
#
# When is C++ worth it? Not for code that composes tensor operations: those already run in C++. It
# is worth it for a *loop* whose step needs the step before. You find such loops in filters, moving
# averages, discounted rewards and linear recurrent networks.
#
# Here is the source. It contains a loop on plain pointers, and around it a function of tensors,
# which takes care of memory layout and dtype:

# %%
source = (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")
print(source[: source.index("STABLE_TORCH_LIBRARY_FRAGMENT")].rstrip())

# %% [markdown]
# The source ends with the registration. A *schema* tells PyTorch what goes in and what comes out.
# An implementation is registered for one *dispatch key*, and PyTorch chooses the key by the device
# of the tensors. The source uses neither Python nor pybind11.
#
# ```cpp
# STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
#   m.def("decayed_sum(Tensor x, float a, bool reverse) -> Tensor");
# }
#
# STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
#   m.impl("decayed_sum", TORCH_BOX(&decayed_sum));
# }
# ```
#
# `build` compiles the source with `torch.utils.cpp_extension.load` and keeps the result, so the
# next call and the next session compile nothing. (A source that includes the better-known
# `torch/extension.h` takes the compiler about twenty times as long, because that header contains
# all of PyTorch. The headers under `torch/csrc/stable` contain only the part that stays the same
# from version to version. A library that you built once keeps working.)

# %% [markdown]
# ### What the operator saves
#
# *Extra: nodes and time, compared with a loop in Python.*
#
# In PyTorch the loop makes two operations per step. PyTorch calls and records each of them, and
# calls it again in backward. The next cell counts the nodes of the graph for one row of a thousand
# steps, and it measures the time. Times depend on the machine, so the cell asks only for their
# ratio.


# %%
def looped(x, a):
    y, sums = torch.zeros(x.shape[:-1]), []
    for x_t in x.unbind(-1):
        y = x_t + a * y
        sums.append(y)
    return torch.stack(sums, -1)


def nodes(y):
    """How many nodes the graph of y has, leaves not counted."""
    found, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found and not hasattr(node, "variable"):
            found.add(node)
            todo += [before for before, _ in node.next_functions]
    return len(found)


def seconds(f, *inputs):
    """The fastest of five forward passes."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*inputs)
        times.append(time.perf_counter() - start)
    return min(times)


x = torch.randn(1, 1000, generator=torch.Generator().manual_seed(1), requires_grad=True)
if kernel:
    faster = seconds(looped, x, a) / seconds(DecayedSum.apply, x, a, decayed_sum)
    print("the same values:", torch.allclose(looped(x, a), DecayedSum.apply(x, a, decayed_sum)))
    print("nodes of the loop:", nodes(looped(x, a)))
    print("nodes of the Function:", nodes(DecayedSum.apply(x, a, decayed_sum)))
    print("more than twenty times as fast:", faster > 20)

# %% [markdown]
# ## When the source is wrong
#
# `build` compiles in a separate process. If the compiler fails, `build` turns its output into one
# sentence about *your* line. Here is a misspelled variable:

# %%
misspelled = source.replace("sum = x[t]", "sun = x[t]")
try:
    build(misspelled)
except BuildError as error:
    print(f"line {error.line}:", misspelled.splitlines()[(error.line or 1) - 1].strip())

# %% [markdown]
# (`print(error)` adds the compiler's own words, which differ between compilers.)
#
# The compiler checks types. It does not check memory. `x.data_ptr()` is the address of the first
# element, and the loop assumes that the second element comes right after it. The call of
# `contiguous` guarantees this. Remove it and build again. `gradcheck` accepts the result, because
# it tests only contiguous tensors. But in a real network `grad_output` is often a view, for
# instance if a transpose or a `.sum()` follows the operator. And users slice their inputs:

# %%
x = torch.randn(2, 6, generator=rng, requires_grad=True)
if kernel:
    careless = build(source.replace("torch::stable::contiguous(given)", "given"), name="careless")
    print("gradcheck:", gradcheck(DecayedSum.apply, (x, a, careless.decayed_sum)))
    print(diagnose(DecayedSum, (x, a, careless.decayed_sum)))

# %% [markdown]
# ### Checkpoint 2
#
# The cell below keeps the `grad_output` that arrives at `y`, a tensor with 2 · 3 elements. How many
# numbers does its memory hold, from which a kernel without `contiguous` would read six?

# %%
arrived = []
y = 2 * torch.ones(2, 3, requires_grad=True)
y.register_hook(arrived.append)
y.sum().backward()

predict(..., arrived[0].untyped_storage().nbytes() // arrived[0].element_size())

# %% [markdown]
# <details><summary>Why</summary>
#
# The gradient of a sum is 1 for every element. So autograd creates a single 1 and expands it to the
# shape $(2, 3)$ with the strides $(0, 0)$. From Python you see six ones. A kernel that reads six
# numbers from the pointer gets one right number, and then memory that belongs to something else.
#
# </details>

# %% [markdown]
# ## On a GPU: CUDA C++ and Triton
#
# *Extra: for readers who write kernels for a GPU.*
#
# In CUDA C++ the operator differs only where it distributes the work. Each row gets one thread, and
# `<<<blocks, threads, 0, stream>>>` starts the threads.

# %%
cuda_source = (SOURCES / "decayed_sum.cu").read_text(encoding="utf-8")
begin, end = (cuda_source.index(mark) for mark in ("template", "STABLE_TORCH_LIBRARY_FRAGMENT"))
print(cuda_source[begin:end].rstrip())

# %% [markdown]
# The next cell needs a GPU and the CUDA toolkit. It builds the source with `nvcc`, runs the
# Function of this lesson with it, and compares the result with the CPU. Without a GPU or the
# toolkit it says so and does nothing. (The authors have compiled this source with CUDA 13.0. They
# have not run it on a GPU. If you have one, this cell is the test.)

# %% tags=["nbval-ignore-output"]
if not torch.cuda.is_available():
    print("No GPU here: the cell would build decayed_sum.cu and compare it with the CPU.")
else:
    try:
        on_gpu = build(SOURCES / "decayed_sum.cu", name="on_gpu").decayed_sum
        x = torch.randn(1000, 300, device="cuda", requires_grad=True)
        y = DecayedSum.apply(x, a, on_gpu)
        print("values: ", torch.allclose(y.cpu(), decayed_sum(x.detach().cpu(), a.item(), False)))
    except BuildError as error:
        print(error)

# %% [markdown]
# **Triton** compiles a kernel that you write in Python. The kernel works on whole blocks of numbers
# instead of single threads. A loop over time would use one lane of many. But you can *join* two
# stretches of time. A stretch multiplies what comes in by $A$ and adds $S$. If a stretch with $A'$
# and $S'$ follows, the two together are a stretch with $A A'$ and $A' S + S'$. Joining is
# associative, so you can join the stretches in pairs, in $\log_2 T$ rounds instead of $T$ steps.
# This is called an *associative scan*.

# %%
triton_source = (SOURCES.parent / "triton_decayed_sum.py").read_text(encoding="utf-8")
begin, end = (triton_source.index(mark) for mark in ("@triton.jit", "def triton_decayed_sum"))
print(triton_source[begin:end].rstrip())

# %% [markdown]
# You use it like the other operators, in the same Function: `DecayedSum.apply(x, a,
# triton_decayed_sum)`. The next cell needs a GPU and Triton, which comes with the CUDA builds of
# PyTorch.

# %% tags=["nbval-ignore-output"]
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from autograd_course.lesson import triton_decayed_sum

    x = torch.randn(100, 300, device="cuda", requires_grad=True)
    y, truth = DecayedSum.apply(x, a, triton_decayed_sum), looped(x.cpu(), a)
    print("Triton agrees with the loop:", torch.allclose(y.cpu(), truth))
else:
    print("No GPU or no Triton here: the cell would run the kernel and compare it with the loop.")

# %% [markdown]
# Which of the two is faster depends on the device, so measure it. The cell below shows the figures
# in `benchmarks/results`, each with the device on which it was measured. If there are none, it says
# so:

# %%
print(benchmark_results("decayed_sum"))

# %% [markdown]
# ## Streams and devices
#
# *Reference: for operators that others will call, on a GPU or under `torch.compile`.*
#
# Other code runs before and after your kernel. PyTorch's own operators follow these rules, and
# yours must follow them too:
#
# | rule | where | otherwise |
# | --- | --- | --- |
# | use PyTorch's *current stream* | `aoti_torch_get_current_cuda_stream` | reads too early |
# | run on the *tensor's* GPU | `DeviceGuard`, `torch.cuda.device(x.device)` | fails on GPU 1 |
# | put outputs next to the inputs | `empty_like`, `device=x.device` | crashes on untested devices |
# | ask for launch errors | `STD_CUDA_KERNEL_LAUNCH_CHECK` | they appear at some later call |
# | do not wait | no `.item()`, no `.cpu()` | the GPU idles while Python waits |
# | take memory from PyTorch | `empty_like`, not `cudaMalloc` | waits; the allocator does not know |
#
# The Function above breaks one of these rules: `a.item()` waits for the GPU if `a` is there. The
# Triton kernel could take the tensor instead. A SciPy Function breaks most of them. On a GPU it is
# right if it copies as in lesson 13, but it is slow.
#
# One device exists on every machine and shows missing rules without a GPU. Tensors on the `meta`
# device have a shape and a dtype, and no numbers. `torch.compile` and `torch.export` trace with
# such tensors. An operator that is implemented only for `CPU` cannot be called with them:

# %%
if kernel:
    without_numbers = torch.empty(2, 3, device="meta")
    try:
        kernel.decayed_sum(without_numbers, 0.5, False)
    except NotImplementedError as error:
        print("…", str(error).split(": ")[1].split(". ")[0])

    @torch.library.register_fake(f"{kernel.name}::decayed_sum")
    def shape_only(x, a, reverse):
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    print(kernel.decayed_sum(without_numbers, 0.5, False).shape)

# %% [markdown]
# ## Do you know it?
#
# Four questions. A wrong answer explains itself; try again.

# %%
knowledge_check("14")

# %% [markdown]
# ## Summary
#
# ```python
# operators = build(Path("mine.cpp"))                  # torch.ops.<name>, without autograd
#
# class Loop(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x, a):
#         y = operators.loop(x, a.item(), False)       # in C++
#         ctx.save_for_backward(y, a)
#         return y
#
#     @staticmethod
#     def backward(ctx, grad_output):
#         y, a = ctx.saved_tensors
#         u = operators.loop(grad_output, a.item(), True)  # transposed: backward in time
#         return u, (u[1:] * y[:-1]).sum()
# ```

# %% [markdown]
# | | |
# | --- | --- |
# | a C++ operator | no autograd, no layout, no meta device, unless you write them |
# | an operator alone | its result requires grad, and backward stops there with a warning |
# | `data_ptr()` | call `contiguous` first: behind `.sum()`, `grad_output` holds one number |
# | a recurrence | transposed, it runs backward in time; on a GPU, an associative scan |
# | on a GPU | current stream, tensor's device, ask for launch errors, do not wait |

# %% [markdown]
# ## Where next
#
# [The exercises of this lesson](../exercises/14_external_code.ipynb): an operator in C++ that you
# write yourself, and the Function around it.
#
# [Lesson 15](15_ship_it.ipynb) takes Functions out of Python altogether: export, ONNX, and what
# becomes of a custom gradient on the way.
