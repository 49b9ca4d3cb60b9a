# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/notebooks/14_external_code.ipynb)
#
# # 14 · External code: C++, CUDA, Triton
#
# **You will** build a C++ operator in this notebook, see how it silently stops a layer from
# learning, and write a Function that fixes this.
#
# **You will learn** how to register an operator, which part of its gradient you must supply, what a
# kernel may assume about memory, and which rules CUDA C++ and Triton kernels must follow.
#
# **You need** lessons 01 and 02. To build the operator, you need a C++ compiler. If you do not have
# one, the cells tell you so, and the lesson uses a Python loop instead.
#
# **It takes** about 40 minutes; the *extra* sections take another 15. You solve one exercise
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
import importlib.util
import time
import warnings

import torch
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.nn.functional import softshrink

from autograd_course import diagnose, grade, hint  # noqa: F401
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
    show_error,
    show_warning,
    vote,
)
from autograd_course.visualize import jacobian_view, knowledge_check

# %% [markdown]
# ## A layer that never trains
#
# Each hour, a room keeps nine tenths of its warmth. If $x_t$ is the heat that enters in hour $t$,
# the difference between the indoor and outdoor temperatures is
#
# $$y_t = x_t + 0.9\, y_{t-1} .$$
#
# Each step needs the result of the previous step, so the computation is a loop, and loops are slow
# in Python. A colleague wrote the loop in C++. The next cell compiles it, which takes a few seconds
# the first time, and runs it on a tensor of four ones.


# %% jupyter={"source_hidden": true}
@torch.no_grad()
def in_python(x, a, reverse):
    """Compute the same values as the C++ operator. The result has no graph either."""
    steps, y, sums = x.unbind(-1), torch.zeros(x.shape[:-1], dtype=x.dtype), []
    for x_t in reversed(steps) if reverse else steps:
        y = x_t + a * y
        sums.append(y)
    return torch.stack(sums[::-1] if reverse else sums, -1)


torch.set_default_dtype(torch.float64)

# %%
try:
    kernel = build(SOURCES / "decayed_sum.cpp")
    decayed_sum = kernel.decayed_sum
except BuildError as error:
    kernel, decayed_sum = None, in_python  # the same loop in Python
    print(error)
print("forward in time: ", decayed_sum(torch.ones(4), 0.5, False).tolist())
print("backward in time:", decayed_sum(torch.ones(4), 0.5, True).tolist())

# %% [markdown]
# A small model should learn how much the sun, the radiator and the oven heat the room. The data are
# 200 hours of measurements. A linear layer computes the heat $x$, the operator computes the
# temperature $y$, and one more parameter corrects the thermometer's constant error. The hidden cell
# defines `train`, which runs 400 steps of Adam. It suppresses warnings, which are easy to miss in a
# long training log anyway.

# %% jupyter={"source_hidden": true}
rng = torch.Generator().manual_seed(0)
hours = (torch.rand(200, 3, generator=rng) < 0.3).double()  # sun, radiator, oven: on or off
measured = decayed_sum(hours @ torch.tensor([0.5, 1.0, 0.2]), 0.9, False) + 2


def train(operation, steps=400):
    """Train the model, print what it learned, and return the loss of each step."""
    weights = torch.tensor([0.1, 0.1, 0.1], requires_grad=True)
    error = torch.tensor(0.0, requires_grad=True)
    optimizer, losses = torch.optim.Adam([weights, error], lr=0.2), []
    for _ in range(steps):
        loss = (operation(hours @ weights) + error - measured).square().mean()
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    learned = ", ".join(f"{weight:.2f}" for weight in weights.tolist())
    print(f"loss:    {losses[0]:.1f} at the first step, {losses[-1]:.1f} at the last")
    print(f"weights: {learned}, should be 0.50, 1.00, 0.20")
    print(f"error:   {error.item():.2f}, should be 2.00")
    return losses


# %%
alone_losses = train(lambda heat: decayed_sum(heat, 0.9, False))

# %% [markdown]
# The loss falls, and PyTorch raises no error. But the weights still have their initial value, 0.1.
# Only the thermometer's parameter has changed, and it has learned the wrong value to compensate for
# the layer. What happens to the gradient?

# %%
vote("14", "operator-gradient")

# %%
x = torch.ones(4, requires_grad=True)
y = decayed_sum(x, 0.5, False)
if kernel:
    print("y.requires_grad:", y.requires_grad)
    with show_warning():
        y.sum().backward()
    print("x.grad:", x.grad)

# %% [markdown]
# Autograd records operations on tensors. It cannot see a loop over pointers, and our code does not
# define a derivative for this operator. So the graph contains a node that does not pass on any
# gradient. The only sign is a warning. If you call C++ through NumPy or `ctypes`, you do not even
# get a warning, because the result has no `grad_fn`.
#
# **Your turn.** The heat $x_t$ raises the temperature by 1 in hour $t$, by 0.9 in the next hour, by
# 0.81 in the hour after that, and so on. So the gradient of $x_t$ is
# $g_t + 0.9\,g_{t+1} + 0.81\,g_{t+2} + \dots$ This is the same sum, but backward in time, and the
# operator can compute it. In the last line of `backward`, replace `grad_output` with a call to
# `decayed_sum`, and run the cell.


# %%
class Edited(Function):
    @staticmethod
    def forward(x, a):
        return decayed_sum(x, a, False)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.a = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None  # change this line


losses = train(lambda heat: Edited.apply(heat, 0.9))

# %% [markdown]
# ## The whole thing, working
#
# In the complete Function, the factor $a$ is a tensor that also gets a gradient. The loop solves a
# linear system for $y$. The matrix of this system has ones on the diagonal and $-a$ just below it.
# `backward` therefore solves the *transposed* system, also called the *adjoint* system (lesson 13).
# Its matrix has $-a$ just above the diagonal, so the loop runs backward in time:
#
# $$u_t = g_t + a\, u_{t+1}, \qquad \frac{\partial L}{\partial x_t} = u_t, \qquad
# \frac{\partial L}{\partial a} = \sum_t u_t\, y_{t-1} .$$


# %%
class DecayedSum(Function):
    """y[t] = x[t] + a·y[t-1]; u[t] = g[t] + a·u[t+1], ∂L/∂x = u, ∂L/∂a = Σ u[t]·y[t-1]."""

    @staticmethod
    def forward(x, a, operator, reverse=False):
        return operator(x, a.item(), reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, a, ctx.operator, ctx.reverse = inputs
        ctx.save_for_backward(a, output)

    @staticmethod
    def backward(ctx, grad_output):
        a, y = ctx.saved_tensors
        u = DecayedSum.apply(grad_output, a, ctx.operator, not ctx.reverse)
        grad_a = None
        if ctx.needs_input_grad[1]:
            earlier, later = (u, y) if ctx.reverse else (y, u)
            grad_a = (earlier[..., :-1] * later[..., 1:]).sum()
        return u, grad_a, None, None


a = torch.tensor(0.9, requires_grad=True)
losses = train(lambda heat: DecayedSum.apply(heat, a, decayed_sum))

# %% jupyter={"source_hidden": true}
with figure(width=6.8, height=3.2) as (axes,):
    axes.semilogy(alone_losses, color=ORANGE)
    axes.semilogy(losses, color=BLUE)
    axes.set(title="two runs of the same model", xlabel="step", ylabel="loss")
    note(axes, "the operator alone", (200, 2), ORANGE)
    note(axes, "the operator in a Function", (215, 1.2e-2), BLUE)

# %% [markdown]
# `backward` does not call the operator directly. Instead, it calls `DecayedSum.apply` in the
# opposite direction. How does this affect the second derivative?

# %%
vote("14", "operator-twice")

# %%
x = torch.randn(2, 6, generator=rng, requires_grad=True)
with show_error():
    print("gradcheck:    ", gradcheck(DecayedSum.apply, (x, a, decayed_sum)))
    print("gradgradcheck:", gradgradcheck(DecayedSum.apply, (x, a, decayed_sum)))

# %% [markdown]
# Autograd records the call in `backward`, because `DecayedSum` is a Function with a derivative. If
# `backward` called the operator directly, the result would not pass on any gradient, and the second
# derivative would be wrong.
#
# The next picture shows the Jacobian for one row of six steps. The left matrix comes from
# `forward`. Each output depends on the input of the same step and on all earlier inputs, so the
# matrix is triangular, and its nonzero entries are powers of $a$. The middle matrix comes from
# `backward`.

# %%
jacobian_view(DecayedSum, x[0], a, decayed_sum)

# %% [markdown]
# ### Checkpoint 1
#
# All three inputs are 1, and $a = 0.5$. The loss is the last sum, $y_2$. What gradient does the
# *first* input get? Apply the formula for $u$ backward in time, and replace the dots with a number.

# %%
x = torch.ones(3, requires_grad=True)
DecayedSum.apply(x, torch.tensor(0.5), decayed_sum)[2].backward()

predict(..., x.grad[0])

# %% [markdown]
# <details><summary>Why</summary>
#
# `backward` receives $g = (0, 0, 1)$. Going backward in time, we get $u_2 = 1$, then
# $u_1 = 0 + 0.5 \cdot 1 = 0.5$, and $u_0 = 0 + 0.5 \cdot 0.5 = 0.25$.
#
# </details>
#
# ### Exercise 1: soft threshold
#
# The *soft threshold* sets small numbers to 0 and moves all other numbers toward 0 by $t$:
# $y = \operatorname{sign}(x) \cdot \max(|x| - t,\, 0)$. Here, it is an operator without a gradient.
# Write a Function that calls it. `threshold` is a tensor with a single number, and it also gets a
# gradient. Save nothing but the output, and support double backward. If you are stuck, run
# `hint("soft-threshold-function")` in a new cell. In the exercise notebook, you will write this
# operator in C++.


# %%
@torch.no_grad()
def soft_threshold(x, threshold):
    return softshrink(x, threshold)


class SoftThreshold(Function):
    @staticmethod
    def forward(x, threshold):
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
grade("soft-threshold-function", SoftThreshold)

# %% [markdown]
# ## A C++ operator, built on the spot
#
# When is C++ worth the effort? If your code composes tensor operations, it already runs in C++. But
# C++ helps if each step of a *loop* needs the result of the previous step. Filters, moving
# averages, discounted rewards and linear recurrent networks contain such loops.
#
# The source below contains a loop over plain pointers. The function `decayed_sum` takes tensors and
# handles their memory layout and dtype:

# %%
source = (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")
print(source[: source.index("STABLE_TORCH_LIBRARY_FRAGMENT")].rstrip())

# %% [markdown]
# The source ends with the registration. A *schema* tells PyTorch the types of the inputs and the
# result. You register each implementation for one *dispatch key*, and PyTorch chooses the key based
# on the tensors' device. The source needs neither Python nor pybind11.
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
# next session does not compile it again. The headers under `torch/csrc/stable` contain only the
# part of PyTorch that does not change between versions. A library built with them also works with
# later versions of PyTorch. Most examples on the web include `torch/extension.h` instead. That
# header includes all of PyTorch and takes much longer to compile. It does not work with `build`,
# which allows only the stable headers.

# %% [markdown]
# ### What the operator saves
#
# *Extra: how many nodes and how much time the operator saves, compared with a Python loop.*
#
# A loop in PyTorch calls two operations per step. Autograd records both and visits both again in
# the backward pass. The next cell counts the nodes in the graph for one row of a thousand steps.


# %%
def looped(x, a):
    y, sums = torch.zeros(x.shape[:-1]), []
    for x_t in x.unbind(-1):
        y = x_t + a * y
        sums.append(y)
    return torch.stack(sums, -1)


def nodes(y):
    """Return the number of nodes in the graph of y, without the leaves."""
    found, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found and not hasattr(node, "variable"):
            found.add(node)
            todo += [before for before, _ in node.next_functions]
    return len(found)


x = torch.randn(1, 1000, generator=torch.Generator().manual_seed(1), requires_grad=True)
difference = (looped(x, a) - DecayedSum.apply(x, a, decayed_sum)).abs().max()
print(f"largest difference: {difference:.4f}")
print("nodes of the loop:    ", nodes(looped(x, a)))
print("nodes of the Function:", nodes(DecayedSum.apply(x, a, decayed_sum)))

# %% [markdown]
# The next cell measures the forward pass. The times depend on your machine, so this notebook does
# not store them.


# %% tags=["nbval-ignore-output"]
def seconds(f, *inputs):
    """Return the time of the fastest of five forward passes."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        f(*inputs)
        times.append(time.perf_counter() - start)
    return min(times)


if kernel:
    slow, fast = seconds(looped, x, a), seconds(DecayedSum.apply, x, a, decayed_sum)
    print(f"loop: {1e6 * slow:.0f} µs, Function: {1e6 * fast:.0f} µs, ratio: {slow / fast:.0f}")
    assert slow > 5 * fast

# %% [markdown]
# ## When the source is wrong
#
# `build` compiles in a separate process. If compilation fails, `build` raises a `BuildError` that
# names the line in your source. In the next cell, a variable is misspelled:

# %%
misspelled = source.replace("sum = x[t]", "sun = x[t]")
try:
    build(misspelled)
except BuildError as error:
    if error.line:
        print(f"line {error.line}:", misspelled.splitlines()[error.line - 1].strip())

# %% [markdown]
# `print(error)` also shows the compiler's message, which differs between compilers.
#
# The compiler checks types, but it does not check how you use memory. `x.data_ptr()` is the address
# of the first element, and the loop assumes that the second element follows directly after it. The
# call to `contiguous` guarantees this. The next cell removes the call, builds the source again, and
# tests the result with `gradcheck` and with `diagnose`.

# %%
vote("14", "layout-gradcheck")

# %%
x = torch.randn(2, 6, generator=rng, requires_grad=True)
if kernel:
    careless = build(source.replace("torch::stable::contiguous(given)", "given"), name="careless")
    print("gradcheck:", gradcheck(DecayedSum.apply, (x, a, careless.decayed_sum)))
    print(diagnose(DecayedSum, (x, a, careless.decayed_sum)))

# %% [markdown]
# `gradcheck` accepts the result, because it tests only contiguous tensors. But in a real network,
# `grad_output` is often a view, for example if a transpose or a `.sum()` follows the operator.
# Users also pass slices as inputs.

# %% [markdown]
# ### Checkpoint 2
#
# The cell below stores the `grad_output` that arrives at `y`, a 2 × 3 tensor. A kernel without
# `contiguous` would read six numbers from the memory of this `grad_output`. How many numbers does
# the memory contain?

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
# shape $(2, 3)$ with strides $(0, 0)$. In Python, you see six ones. A kernel that reads six
# numbers, starting at the pointer, gets one correct number and then reads memory that belongs to
# something else.
#
# </details>

# %% [markdown]
# ## Tensors without numbers
#
# A tensor on the `meta` device has a shape and a dtype, but no numbers. `torch.compile` and
# `torch.export` use such tensors to trace a model. This device exists on every machine. So even
# without a GPU, you can see what happens when an operator does not support a device.

# %%
vote("14", "meta-device")

# %%
if kernel:
    without_numbers = torch.empty(2, 3, device="meta")
    with show_error():
        kernel.decayed_sum(without_numbers, 0.5, False)

# %% [markdown]
# We registered an implementation only for `CPU`. Every other device needs its own implementation.
# The `meta` device needs a *fake* implementation, which returns a tensor of the right shape and
# dtype:

# %%
if kernel:

    @torch.library.register_fake(f"{kernel.name}::decayed_sum")
    def shape_only(x, a, reverse):
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    print(kernel.decayed_sum(without_numbers, 0.5, False).shape)

# %% [markdown]
# ## On a GPU: CUDA C++ and Triton
#
# *Extra: for readers who write kernels for a GPU.*
#
# The CUDA C++ version differs only in how it distributes the work. Each thread computes one row,
# and `<<<blocks, threads, 0, stream>>>` starts the threads.

# %%
cuda_source = (SOURCES / "decayed_sum.cu").read_text(encoding="utf-8")
begin, end = (cuda_source.index(mark) for mark in ("template", "STABLE_TORCH_LIBRARY_FRAGMENT"))
print(cuda_source[begin:end].rstrip())

# %% [markdown]
# **The next cell needs** an NVIDIA GPU and the CUDA toolkit with `nvcc`. It builds the source, runs
# this lesson's Function with the new operator, and compares the result with the one from the CPU.
# If the GPU or the toolkit is missing, the cell only tells you so. We have compiled this source
# with CUDA 13.0, but we have not run it on a GPU. If you have a GPU, this cell is the test.

# %% tags=["nbval-ignore-output"]
if not torch.cuda.is_available():
    print("No GPU: this cell would build decayed_sum.cu and compare its result with the CPU.")
else:
    try:
        on_gpu = build(SOURCES / "decayed_sum.cu", name="on_gpu").decayed_sum
        x = torch.randn(1000, 300, device="cuda", requires_grad=True)
        y = DecayedSum.apply(x, a, on_gpu)
        print("values: ", torch.allclose(y.cpu(), decayed_sum(x.detach().cpu(), a.item(), False)))
    except BuildError as error:
        print(error)

# %% [markdown]
# **Triton** compiles kernels written in Python. You write such a kernel for blocks of numbers
# instead of individual threads, so a loop over time would leave most of the GPU idle. But you can
# *join* two neighboring stretches of time. A stretch multiplies its incoming value by $A$ and adds
# $S$. If a stretch with $A'$ and $S'$ follows, the two together form a stretch with $A A'$ and
# $A' S + S'$. This operation is associative, so the kernel can join the stretches in pairs, then
# join these pairs, and so on. It needs $\log_2 T$ rounds instead of $T$ steps. The method is called
# an *associative scan*.

# %%
triton_source = (SOURCES.parent / "triton_decayed_sum.py").read_text(encoding="utf-8")
begin, end = (triton_source.index(mark) for mark in ("@triton.jit", "def triton_decayed_sum"))
print(triton_source[begin:end].rstrip())

# %% [markdown]
# You use it like the other operators, in the same Function: `DecayedSum.apply(x, a,
# triton_decayed_sum)`. **The next cell needs** an NVIDIA GPU and Triton, which is part of the CUDA
# builds of PyTorch.

# %% tags=["nbval-ignore-output"]
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from autograd_course.lesson import triton_decayed_sum

    x = torch.randn(100, 300, device="cuda", requires_grad=True)
    y, truth = DecayedSum.apply(x, a, triton_decayed_sum), looped(x.cpu(), a)
    print("Triton agrees with the loop:", torch.allclose(y.cpu(), truth))
else:
    print("No GPU or no Triton: this cell would run the kernel and compare it with the loop.")

# %% [markdown]
# Whether CUDA C++ or Triton is faster depends on the device, so measure both. The next cell does
# not need a GPU. It prints the timings stored in `benchmarks/results` and the device they were
# measured on. If there are no timings, it tells you so.

# %%
print(benchmark_results("decayed_sum"))

# %% [markdown]
# ## Streams and devices
#
# *Reference: for operators that other people call on a GPU or with `torch.compile`.*
#
# Other code runs before and after your kernel. PyTorch's own operators follow the rules below, and
# your operator must also follow them:
#
# | rule | how | otherwise |
# | --- | --- | --- |
# | use PyTorch's *current stream* | `aoti_torch_get_current_cuda_stream` | it reads too early |
# | run on the *tensor's* GPU | `DeviceGuard`, `torch.cuda.device(x.device)` | it fails on GPU 1 |
# | create outputs on the input's device | `empty_like`, `device=x.device` | it crashes on a GPU |
# | check for launch errors | `STD_CUDA_KERNEL_LAUNCH_CHECK` | a later call reports them |
# | do not wait | no `.item()`, no `.cpu()` | the GPU is idle while Python waits |
# | allocate with PyTorch | `empty_like`, not `cudaMalloc` | it waits, and memory is not reused |
#
# The Function above breaks one of these rules: if `a` is on a GPU, `a.item()` waits for the GPU.
# The Triton kernel could take the tensor instead. A Function that calls SciPy breaks most of them.
# It gives the right result on a GPU if it copies tensors as in lesson 13, but it is slow.

# %% [markdown]
# ## Do you know it?
#
# Answer four questions. If an answer is wrong, you see why and can try again.

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
#     def forward(x, a):
#         return operators.loop(x, a.item(), False)    # in C++
#
#     @staticmethod
#     def setup_context(ctx, inputs, output):
#         ctx.save_for_backward(output, inputs[1])
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
# | a C++ operator | has no autograd and no `meta` device unless you write them |
# | an operator alone | its result requires grad, but backward stops there with a warning |
# | double backward | `backward` calls the Function, not the operator |
# | `data_ptr()` | call `contiguous` first: after `.sum()`, `grad_output` stores one number |
# | a recurrence | its transpose runs backward in time; on a GPU, use an associative scan |
# | on a GPU | use the current stream and the tensor's device, check for launch errors, never wait |

# %% [markdown]
# ## Where next
#
# In [the exercises of this lesson](../exercises/14_external_code.ipynb), you write an operator in
# C++ and the Function around it.
#
# In [lesson 15](15_ship_it.ipynb), Functions leave Python. You export a model, convert it to ONNX,
# and see what happens to a custom gradient.
