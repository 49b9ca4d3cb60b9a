# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/07_memory_patterns.ipynb)
#
# # 07 · The same gradient in less memory: exercises
#
# Lesson 07 showed five ways to save fewer tensors between forward and backward. Here you write four Functions and a checkpoint, each within a budget of bytes.
#
# **Given:** the task, the formula of forward, and the signatures of all methods and functions. A class has a separate `forward` and `setup_context` if backward needs only inputs and outputs. If backward needs an intermediate of forward, the class has a combined `forward`, and the exercise says why.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace this line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - The gradients are right. Once they are, the grader counts the bytes that your Function keeps, including attributes of `ctx`. It counts each storage once. A list or a NumPy array that replaces a tensor counts like a tensor.
# - `backward` computes a formula that you write down. It does not call autograd. (The checkpoint is the exception, because a checkpoint has to call autograd.)
# - Save the tensors that backward needs with `ctx.save_for_backward`.
# - `backward` returns each gradient in the shape and the dtype of its input.
#
# 16 points, about 105 minutes (55 of them for the exercises with ★, which need an *extra* section).

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

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import kept_bytes, kept_tensors, peak_bytes

# %% [markdown]
# `kept_bytes(F, x, …)`, `kept_tensors(F, x, …)` and `peak_bytes(F, x, …)` measure your Function as the grader does. Use them when the grader says that your Function keeps too much.

# %% [markdown]
# ## 1 · Linear and ReLU in one (2 points · easy · 9 minutes)
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
# **Constraints:** save nothing but inputs and the output. Only this Function would need the matrix before the ReLU, or a mask of it, so do not keep them until backward. At exactly 0 the gradient is 0, as in `torch.relu`.


# %% nbgrader={"grade": false, "grade_id": "fused-linear-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LinearReLU(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return torch.addmm(bias, x, weight.t()).clamp_(min=0)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        x, weight, y = ctx.saved_tensors
        g = grad_output * (y > 0)
        return g @ weight, g.t() @ x, g.sum(0)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fused-linear-relu-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("fused-linear-relu", LinearReLU)

# %% [markdown]
# ## 2 · Leaky ReLU with a packed mask (3 points · medium · 15 minutes)
#
# $$y = \begin{cases} x & x > 0 \\ \text{slope} \cdot x & \text{else} \end{cases}$$
#
# `slope` is a Python number that may be negative, so the sign of the output does not tell you the sign of the input. No other layer keeps the input either.
#
# **Write** both methods. `x` may have any shape and any number of elements. The packed mask is neither an input nor an output. So use a combined `forward`, which computes the mask once for the output and for backward.
#
# **Constraints:** save one bit per element, rounded up to whole bytes: 13 elements take 2 bytes. Write the packing yourself, as in the lesson: eight elements of the mask are the eight binary digits of one `torch.uint8`.


# %% nbgrader={"grade": false, "grade_id": "packed-leaky-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
class PackedLeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        ### BEGIN SOLUTION
        flat = (x > 0).reshape(-1)
        padded = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
        bits = 2 ** torch.arange(8, device=x.device)
        ctx.save_for_backward((padded * bits).sum(1, dtype=torch.uint8))
        ctx.shape, ctx.slope = x.shape, slope
        return torch.where(x > 0, x, slope * x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (packed,) = ctx.saved_tensors
        bits = 2 ** torch.arange(8, device=packed.device)
        flat = (packed[:, None] & bits).ne(0).reshape(-1)
        positive = flat[: ctx.shape.numel()].reshape(ctx.shape)
        return torch.where(positive, grad_output, ctx.slope * grad_output), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "packed-leaky-relu-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("packed-leaky-relu", PackedLeakyReLU)

# %% [markdown]
# ## 3 · A coupling that keeps its outputs ★ (3 points · hard · 25 minutes · needs "Invert instead of keeping")
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
# **Write** the three methods. `forward` returns the pair `(y1, y2)`, and `backward` returns four gradients. In backward, start from the end: $y_2$ first, then $y_1$.
#
# **Constraint:** of the activations, save the outputs only. Backward reconstructs from them what it needs of the inputs.


# %% nbgrader={"grade": false, "grade_id": "invertible-coupling", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Coupling(torch.autograd.Function):
    @staticmethod
    def forward(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        y1 = x1 + torch.tanh(x2 @ w)
        y2 = x2 + torch.tanh(y1 @ v)
        return y1, y2
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ### BEGIN SOLUTION
        _, _, w, v = inputs
        ctx.save_for_backward(*output, w, v)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_y1: Tensor, grad_y2: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ### BEGIN SOLUTION
        y1, y2, w, v = ctx.saved_tensors
        b = torch.tanh(y1 @ v)
        grad_b = grad_y2 * (1 - b**2)
        grad_y1 = grad_y1 + grad_b @ v.t()
        x2 = y2 - b
        a = torch.tanh(x2 @ w)
        grad_a = grad_y1 * (1 - a**2)
        return grad_y1, grad_y2 + grad_a @ w.t(), x2.t() @ grad_a, y1.t() @ grad_b
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "invertible-coupling-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("invertible-coupling", Coupling)

# %% [markdown]
# ## 4 · A checkpoint of your own (4 points · hard · 25 minutes)
#
# `checkpointed(block, x)` returns `block(x)`. `block` is an `nn.Module` with parameters and dropout. Between forward and backward, nothing of the block is kept but its input.
#
# **Write** the Function and `checkpointed`, which calls it. Deciding what to pass to `.apply` is half of the exercise. Your Function has to read the state of the random number generator *before* it runs the block, and `setup_context` runs afterwards. So use a combined `forward`.
#
# **Constraints:**
#
# - The gradients of `x` and of every parameter are those of `block(x)`, both with `.backward()` and with `torch.autograd.grad`.
# - Dropout draws the same mask in both runs. After your backward, the random state is the same as if there had been no second run. (CPU only; no autocast, no batch norm.)
# - Frozen parameters work, and so does an `x` that requires no gradient, such as the input of the first layer.


# %% nbgrader={"grade": false, "grade_id": "checkpointed-block", "locked": false, "schema_version": 3, "solution": true, "task": false}
def checkpointed(block: nn.Module, x: Tensor) -> Tensor:
    ### BEGIN SOLUTION
    return Checkpointed.apply(block, x, *block.parameters())
    ### END SOLUTION


class Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        ### BEGIN SOLUTION
        block, x, *parameters = inputs
        ctx.block, ctx.random_state = block, torch.get_rng_state()
        ctx.save_for_backward(x, *parameters)
        return block(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        ### BEGIN SOLUTION
        x, *parameters = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        x = x.detach().requires_grad_(needs[0])
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.random_state)
            y = ctx.block(x)
        given = zip((x, *parameters), needs, strict=True)
        found = iter(torch.autograd.grad(y, [t for t, need in given if need], grad_output))
        return None, *(next(found) if need else None for need in needs)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "checkpointed-block-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("checkpointed-block", checkpointed)

# %% [markdown]
# ## 5 · A loss for each row, without the logits ★ (4 points · hard · 30 minutes · needs "Never build it, and the price of being early")
#
# The logits of row $i$ are $z_i = W x_i$, and its word is $t_i$:
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
# The lesson's `ChunkedLoss` returned one number, so its forward could already compute the gradients. Here each row has its own $g_i$, because the caller may weight the rows or mask the padding. So the Function can compute the gradient only in backward.
#
# **Write** both methods. You may call `torch.logsumexp` and `torch.softmax`. Backward needs a number for each row that is neither an input nor an output, so use a combined `forward`.
#
# **Constraints:** the matrix of all logits never exists, in forward or in backward. Besides its inputs, the Function saves two numbers per row at most.


# %% nbgrader={"grade": false, "grade_id": "chunked-row-losses", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RowLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
        ### BEGIN SOLUTION
        log_sums, losses = x.new_empty(len(x)), x.new_empty(len(x))
        for begin in range(0, len(x), chunk):
            rows = slice(begin, begin + chunk)
            logits = x[rows] @ weight.t()
            log_sums[rows] = torch.logsumexp(logits, 1)
            losses[rows] = log_sums[rows] - logits.gather(1, target[rows, None]).squeeze(1)
        ctx.save_for_backward(x, weight, target, log_sums)
        ctx.chunk = chunk
        return losses
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None, None]:
        ### BEGIN SOLUTION
        x, weight, target, log_sums = ctx.saved_tensors
        grad_x, grad_weight = torch.empty_like(x), torch.zeros_like(weight)
        for begin in range(0, len(x), ctx.chunk):
            rows = slice(begin, begin + ctx.chunk)
            slope = torch.exp(x[rows] @ weight.t() - log_sums[rows, None])
            slope[torch.arange(len(slope)), target[rows]] -= 1
            slope *= grad_output[rows, None]
            grad_x[rows] = slope @ weight
            grad_weight += slope.t() @ x[rows]
        return grad_x, grad_weight, None, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "chunked-row-losses-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("chunked-row-losses", RowLosses)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Take the training step of a real project and run `kept_tensors(step, batch)` on it. The first five lines of the list usually contain a surprise. Which of the five ways helps there?
