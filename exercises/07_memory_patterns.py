# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/07_memory_patterns.ipynb)
#
# # 07 · The same gradient in less memory: exercises
#
# Lesson 07 showed how to save fewer bytes between forward and backward. Here you write seven Functions and a checkpoint, each within a memory budget. You also predict how many bytes four programs save, and you find a line that wastes memory. You may have solved `elu-by-output` and `swiglu` in the lesson already.
#
# **Given:** the task, the formula for forward, and the signatures of all methods and functions. If backward needs only inputs and outputs, the class has separate `forward` and `setup_context` methods. If backward needs an intermediate of forward, the class has a combined `forward`, and the exercise says why.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line. In a class or a function, also replace the `raise` below it.
#
# **Constraints for every Function:**
#
# - The gradients are right. If they are, the grader counts the bytes that your Function saves, including attributes of `ctx`. It counts each storage once. A list or a NumPy array that replaces a tensor counts as a tensor.
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions. (The checkpoint is the exception, because a checkpoint has to call autograd.)
# - Save the tensors that backward needs with `ctx.save_for_backward`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
#
# 24 points, about 139 minutes (55 of them for the exercises with ★, which need an *extra* section).

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
from torch import Tensor, nn
from torch.autograd import Function

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import kept_bytes, kept_tensors, peak_bytes

# %% [markdown]
# `kept_bytes(F, x, …)`, `kept_tensors(F, x, …)` and `peak_bytes(F, x, …)` measure your Function as the grader does. Use them if the grader says that your Function saves too much.

# %% [markdown]
# ## 1 · ELU from its output (2 points · easy · 8 minutes)
#
# $$y = \begin{cases} x & x > 0 \\ \alpha\,(e^x - 1) & \text{otherwise} \end{cases}$$
#
# `alpha` is a positive Python number. The next layer usually saves $y$, so a Function that saves only $y$ needs no memory of its own.
#
# **Write** the three methods. `x` may have any shape. At exactly 0, you may return either slope.
#
# **Constraint:** save nothing but the output $y$.


# %% nbgrader={"grade": false, "grade_id": "elu-by-output", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ELU(Function):
    @staticmethod
    def forward(x: Tensor, alpha: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, float], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "elu-by-output-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("elu-by-output", ELU)

# %% [markdown]
# ## 2 · Maximum, saved as a mask (2 points · easy · 8 minutes)
#
# $$y = \max(a, b)$$
#
# The gradient goes to the larger of the two. `torch.maximum` saves both inputs, which takes eight bytes for each element in float32.
#
# **Write** the three methods. `a` and `b` have the same shape, which can be arbitrary. Where they are equal, you may give the gradient to either of them.
#
# **Constraint:** save at most one byte for each element.


# %% nbgrader={"grade": false, "grade_id": "maximum-by-mask", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Maximum(Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "maximum-by-mask-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("maximum-by-mask", Maximum)

# %% [markdown]
# ## 3 · SwiGLU that recomputes (2 points · easy · 9 minutes)
#
# $$y = a \, \sigma(a) \, b, \qquad \sigma(t) = \frac{1}{1 + e^{-t}}$$
#
# Many language models have this gate in each block. Composed of PyTorch operations, it saves four tensors. Libraries with fused kernels, such as Liger-Kernel, save two and recompute the rest.
#
# **Write** the three methods. `a` and `b` have the same shape, which can be arbitrary.
#
# **Constraint:** save nothing but `a` and `b`.


# %% nbgrader={"grade": false, "grade_id": "swiglu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SwiGLU(Function):
    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "swiglu-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("swiglu", SwiGLU)

# %% [markdown]
# ## 4 · Linear and ReLU in one (2 points · easy · 9 minutes)
#
# $$y = \max(x W^\top + b,\ 0)$$
#
# | tensor | shape |
# | --- | --- |
# | `x` | `(rows, in)` |
# | `weight` | `(out, in)` |
# | `bias` | `(out,)` |
# | `y` | `(rows, out)` |
#
# **Write** the three methods.
#
# **Constraints:** save nothing but inputs and the output. Do not save the matrix before the ReLU, or a mask of it, because no other operation needs them. At exactly 0, the gradient is 0, as in `torch.relu`.


# %% nbgrader={"grade": false, "grade_id": "fused-linear-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LinearReLU(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "fused-linear-relu-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("fused-linear-relu", LinearReLU)

# %% [markdown]
# ## 5 · Leaky ReLU with a packed mask (3 points · medium · 15 minutes)
#
# $$y = \begin{cases} x & x > 0 \\ \text{slope} \cdot x & \text{otherwise} \end{cases}$$
#
# `slope` is a Python number that may be negative, so the sign of the output does not determine the sign of the input. No other layer saves the input either.
#
# **Write** both methods. `x` may have any shape and any number of elements. The packed mask is neither an input nor an output. So use a combined `forward`, which computes the mask once for the output and for backward.
#
# **Constraints:** save one bit per element, rounded up to whole bytes: 13 elements take 2 bytes. Write the packing yourself, as in the lesson: eight elements of the mask are the eight binary digits of one `torch.uint8`.


# %% nbgrader={"grade": false, "grade_id": "packed-leaky-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class PackedLeakyReLU(Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "packed-leaky-relu-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("packed-leaky-relu", PackedLeakyReLU)

# %% [markdown]
# ## 6 · Predict: how many KiB are saved (1 point · easy · 5 minutes)
#
# `x` is a float32 tensor of shape `(256, 64)`, so it takes 64 KiB. Each program has one output. How many KiB does `kept_bytes(program, x)` report? It counts each storage once and does not count what is already resident, such as `x`.


# %%
def a(x):
    h = 2 * x
    return h + torch.relu(h)


def b(x):
    h = 2 * x
    return h * torch.sigmoid(h)


def c(x):
    return (2 * x) * (x > 0)


def d(x):
    return torch.exp(2 * x)[:, :1]


# %% [markdown]
# **Write** the four numbers, in the order a, b, c, d. Predict the numbers first. Then run the programs.

# %% nbgrader={"grade": false, "grade_id": "predict-saved-bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ...]
# YOUR CODE HERE


# %% nbgrader={"grade": true, "grade_id": "predict-saved-bytes-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-saved-bytes", prediction)

# %% [markdown]
# ## 7 · Card: the first share (1 point · easy · 5 minutes)
#
# This Function returns the share of the first class, $y_i = e^{x_{i0}} / \sum_j e^{x_{ij}}$. Besides $x$, it should save two numbers for each row. All its gradients are right, but training runs out of memory between forward and backward.


# %%
class FirstShare(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        exps = torch.exp(x)  # 1
        total = exps.sum(1)  # 2
        first = exps[:, 0]  # 3
        ctx.save_for_backward(x, first, total)  # 4
        return first / total  # 5

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, first, total = ctx.saved_tensors  # 6
        grad_x = -torch.exp(x) * (grad_output * first / total**2)[:, None]  # 7
        grad_x[:, 0] += grad_output * first / total  # 8
        return grad_x  # 9


y = FirstShare.apply(torch.randn(1024, 64, requires_grad=True))
print("saved tensors:", [tuple(tensor.shape) for tensor in y.grad_fn.saved_tensors])

# %% [markdown]
# Which line wastes memory, and which experiment shows it? `suspect = "1a"` means line 1 and experiment a.
#
# - **a** Add up `tensor.nbytes` over `y.grad_fn.saved_tensors`.
# - **b** Call `kept_bytes(FirstShare, x)`.
# - **c** Run `gradcheck` on a small input.
# - **d** Count the tensors in `y.grad_fn.saved_tensors`.

# %% nbgrader={"grade": false, "grade_id": "card-saved-view", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE


# %% nbgrader={"grade": true, "grade_id": "card-saved-view-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-saved-view", suspect)

# %% [markdown]
# ## 8 · A checkpoint of your own (4 points · hard · 25 minutes)
#
# `checkpointed(block, x)` returns `block(x)`. `block` is an `nn.Module` with parameters and dropout. Between forward and backward, your Function saves the input of the block and none of its intermediate results.
#
# **Write** the Function and `checkpointed`, which calls it. Deciding what to pass to `.apply` is half of the exercise. Your Function has to read the state of the random number generator *before* it runs the block, and `setup_context` runs afterwards. So use a combined `forward`.
#
# **Constraints:**
#
# - The gradients of `x` and of every parameter are those of `block(x)`, both with `.backward()` and with `torch.autograd.grad`.
# - Dropout draws the same mask in both runs. After your backward, the random state is the same as without the second run. (CPU only; no autocast, no batch norm.)
# - Frozen parameters work, and so does an `x` that requires no gradient, such as the input of the first layer.


# %% nbgrader={"grade": false, "grade_id": "checkpointed-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def checkpointed(block: nn.Module, x: Tensor) -> Tensor:
    # YOUR CODE HERE
    raise NotImplementedError


class Checkpointed(Function):
    @staticmethod
    def forward(ctx, *inputs):
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "checkpointed-block-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("checkpointed-block", checkpointed)

# %% [markdown]
# ## 9 · A coupling that saves its outputs ★ (3 points · hard · 25 minutes · needs "Reconstruct the input")
#
# $$y_1 = x_1 + \tanh(x_2 w), \qquad y_2 = x_2 + \tanh(y_1 v)$$
#
# | tensor | shape |
# | --- | --- |
# | `x1`, `y1` | `(rows, a)` |
# | `x2`, `y2` | `(rows, b)` |
# | `w` | `(b, a)` |
# | `v` | `(a, b)` |
#
# **Write** the three methods. `forward` returns the pair `(y1, y2)`, and `backward` returns four gradients. In backward, go through the lines of forward from the last one to the first.
#
# **Constraint:** save only the two outputs and the two weights. Backward uses them to reconstruct what it needs of `x1` and `x2`.


# %% nbgrader={"grade": false, "grade_id": "invertible-coupling", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Coupling(Function):
    @staticmethod
    def forward(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_y1: Tensor, grad_y2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "invertible-coupling-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("invertible-coupling", Coupling)

# %% [markdown]
# ## 10 · A loss for each row, without the logits ★ (4 points · hard · 30 minutes · needs "The price of early gradients")
#
# The logits of row $i$ are $z_i = W x_i$, and the right word is $t_i$:
#
# $$\ell_i = \log\sum_j e^{z_{ij}} - z_{i t_i}, \qquad
# \frac{\partial \ell_i}{\partial z_i} = \operatorname{softmax}(z_i) - \text{one-hot}(t_i) .$$
#
# | argument | shape |
# | --- | --- |
# | `x` | `(rows, width)` |
# | `weight` | `(words, width)` |
# | `target` | `(rows,)`, integers |
# | `chunk` | a Python number: how many rows to process at a time |
# | the result | `(rows,)`: one loss for each row |
#
# The lesson's `ChunkedLoss` returns one number, so its forward can compute the gradients. Here each row has its own $g_i$, because the caller may weight the rows or mask the padding. So the Function can compute the gradients only in backward.
#
# **Write** both methods. You may call `torch.logsumexp` and `torch.softmax`. Backward needs a number for each row that is neither an input nor an output, so use a combined `forward`.
#
# **Constraints:** the full matrix of logits must never exist, neither in forward nor in backward. Nor may the chunks' gradients of the weight all exist at the same time. Besides its inputs, the Function saves at most two numbers for each row.


# %% nbgrader={"grade": false, "grade_id": "chunked-row-losses", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RowLosses(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "chunked-row-losses-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("chunked-row-losses", RowLosses)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Take the training step of a real project and run `kept_tensors(step, batch)` on it. The first five lines of the list usually contain a surprise. Which pattern from this lesson would save that memory?
