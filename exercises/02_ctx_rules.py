# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/02_ctx_rules.ipynb)
#
# # 02 · The rules of ctx: exercises
#
# First, you will write five Functions that follow the rules from lesson 02. You may already have solved `snake` and `sort-with-indices` in the lesson. Then you will read four broken Functions and find the wrong line in each one. At the end, you will predict how many times `backward` runs.
#
# **Given:** the task, the formula for forward, and the name of each class with the signatures of its methods. Each class has a separate `forward` and `setup_context`. The grader also accepts a combined `forward(ctx, …)` without `setup_context`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line. In a class, also replace the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save tensors with `ctx.save_for_backward`. Store numbers, shapes and flags as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - Your code changes no tensor in place that it did not create, unless the exercise asks for it.
#
# 16 points, about 87 minutes (28 of them for the exercises with ★, which need an *extra* section).

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
from torch import Tensor
from torch.autograd import Function

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import show_error

# %% [markdown]
# ## 1 · Snake (2 points · easy · 10 minutes)
#
# $$y = x + \frac{\sin^2(a x)}{a}, \qquad \frac{\partial y}{\partial x} = 1 + \sin(2 a x)$$
#
# Networks that generate audio use this activation, because it can represent periodic signals. `x` is a tensor of any shape, and `a` is a Python number.
#
# **Write** the three methods. For each of the two arguments, decide how `backward` gets it.
#
# **Constraint:** save nothing but $x$. If you compose this function from PyTorch operations, autograd saves $a x$ and $\sin(a x)$.


# %% nbgrader={"grade": false, "grade_id": "snake", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Snake(Function):
    @staticmethod
    def forward(x: Tensor, a: float) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "snake-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("snake", Snake)

# %% [markdown]
# ## 2 · Sort, with the indices (2 points · medium · 10 minutes)
#
# $$\text{values}_i = x_{\text{indices}_i}, \qquad \text{values}_0 \le \text{values}_1 \le \dots$$
#
# This function sorts along the last dimension, and `descending=True` reverses the order. `forward` returns the pair `(values, indices)`, and it may call `torch.sort(x, dim=-1, descending=descending)`.
#
# **Write** the three methods. `backward` also receives a gradient for the indices. It has no meaning, so ignore it. In `setup_context`, mark the indices as non-differentiable. PyTorch already treats integers this way, so the mark only informs the reader and is not graded.
#
# **Constraint:** save nothing but the indices. `backward` only needs to know where each number went.


# %% nbgrader={"grade": false, "grade_id": "sort-with-indices", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SortWithIndices(Function):
    @staticmethod
    def forward(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, bool], output: tuple[Tensor, Tensor]) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "sort-with-indices-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("sort-with-indices", SortWithIndices)

# %% [markdown]
# ## 3 · Strided gain (3 points · medium · 20 minutes)
#
# A layer keeps every `stride`-th element of the last dimension. In training, it multiplies the kept elements by a learned `gain`. Otherwise, it returns them unchanged:
#
# $$y_{\dots i} = \begin{cases} \text{gain}_{\dots i} \cdot x_{\dots\, i \cdot \text{stride}} & \text{in training} \\ x_{\dots\, i \cdot \text{stride}} & \text{otherwise.} \end{cases}$$
#
# | argument | |
# | --- | --- |
# | `x` | a tensor with at least one dimension |
# | `gain` | a tensor with the shape of the output, `x[..., ::stride].shape` |
# | `stride`, `training` | a positive integer and a flag |
#
# **Write** the three methods. If the layer leaves out an element, that element's gradient is 0.
#
# **Constraints:**
#
# - `backward` computes a gradient only where `ctx.needs_input_grad` says that it is needed.
# - When `training` is False, save no tensor. `backward` then does not need the values of `x` or `gain`.
# - The output is a new tensor. A slice is a view, and PyTorch does not allow the caller to change it in place.


# %% nbgrader={"grade": false, "grade_id": "strided-gain", "locked": false, "schema_version": 3, "solution": true, "task": false}
class StridedGain(Function):
    @staticmethod
    def forward(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, int, bool], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "strided-gain-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("strided-gain", StridedGain)

# %% [markdown]
# ## 4 · Leaky ReLU in place ★ (2 points · easy · 10 minutes · needs "Writing in place: mark_dirty")
#
# $$x \leftarrow \begin{cases} x & x > 0 \\ \text{slope} \cdot x & \text{otherwise} \end{cases}$$
#
# This activation overwrites its input, so the network stores one tensor here instead of two. `slope` is a positive Python number. Therefore, the input and the output have the same sign, and `backward` needs only the output.
#
# **Write** the three methods. `setup_context` runs after `forward`, so `inputs` then contains the overwritten `x`.
#
# **Constraint:** `forward` overwrites and returns `x` itself, and your code tells autograd about it.


# %% nbgrader={"grade": false, "grade_id": "leaky-relu-in-place", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LeakyReLUInPlace(Function):
    @staticmethod
    def forward(x: Tensor, slope: float) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "leaky-relu-in-place-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("leaky-relu-in-place", LeakyReLUInPlace)

# %% [markdown]
# ## 5 · Loss with a frozen target ★ (2 points · easy · 10 minutes · needs "A frozen target and its 1/N")
#
# $$L = \frac{1}{N} \sum_{i=1}^{N} w_i \, (p_i - t_i)^2$$
#
# The mean is over all $N$ elements of the prediction $p$, the target $t$ and the weight $w$. The three tensors have the same shape. When a network learns from its own output, it also computes the target, but no gradient may flow into the target. The weights are constants.
#
# **Write** the three methods. `forward` returns a single number (0-dim).
#
# **Constraints:**
#
# - Target and weight get `None`, even if they require a gradient.
# - `backward` computes nothing when the prediction requires no gradient.


# %% nbgrader={"grade": false, "grade_id": "frozen-target", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FrozenTargetLoss(Function):
    @staticmethod
    def forward(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "frozen-target-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("frozen-target", FrozenTargetLoss)

# %% [markdown]
# ## Four cards
#
# Each card shows a broken Function with numbered lines, and a run in which something is wrong. Say which line is wrong and which of four experiments shows the mistake. For example, `suspect = "1a"` means line 1 and experiment a.
#
# An experiment shows the mistake if this Function and a correct one give different results. First decide by reading the code, as in a code review. Then run the experiment, and run `diagnose` to see what it says.

# %% [markdown]
# ### 6 · The skip connection (1 point · easy · 5 minutes)
#
# This is a ReLU in a residual block, $y = h + \operatorname{relu}(h)$. The slope should be 1 for negative and 2 for positive $h$. The Function passes `gradcheck`, but the gradient of the sum of the two branches is wrong.


# %%
class Rectify(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)  # 1
        return x.clamp(min=0)  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors  # 3
        grad_output[~positive] = 0  # 4
        return grad_output  # 5


x = torch.tensor([-2.0, -1.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(Rectify.apply, x))
for name, relu in (("torch.relu", torch.relu), ("Rectify", Rectify.apply)):
    h = 1 * x
    (gradient,) = torch.autograd.grad(h + relu(h), x, grad_outputs=torch.ones_like(x))
    print(f"h + {name}(h): {gradient.tolist()}")

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Run `gradcheck` on a larger input.
# - **b** Compare its gradient with that of `torch.relu` for a random `grad_output`.
# - **c** Copy the `grad_output` that you pass in, and compare it with the copy after backward.
# - **d** Run backward twice on one graph, with a new `grad_output` each time, and compare both gradients with those of `torch.relu`.

# %% nbgrader={"grade": false, "grade_id": "card-skip-connection", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-skip-connection-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-skip-connection", suspect)

# %% [markdown]
# ### 7 · Mean and spread (1 point · easy · 5 minutes)
#
# This Function returns two statistics of a tensor. Its author tested it with a loss that uses both.


# %%
class MeanSpread(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)  # 1
        ctx.save_for_backward(x)  # 2
        return x.mean(), (x - x.mean()).square().mean()  # 3

    @staticmethod
    def backward(ctx, grad_mean: Tensor, grad_spread: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # 4
        return (grad_mean + 2 * (x - x.mean()) * grad_spread) / x.numel()  # 5


x = torch.tensor([1.0, 2.0, 4.0, 5.0], dtype=torch.float64, requires_grad=True)
mean, spread = MeanSpread.apply(x)
(gradient,) = torch.autograd.grad(mean + spread, x)
print("loss mean + spread:", gradient.tolist())
mean, spread = MeanSpread.apply(x)
print("loss spread:")
with show_error():
    torch.autograd.grad(spread, x)

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the gradient of the loss `mean + spread` with that of autograd.
# - **b** Use a loss that depends on only one of the two outputs.
# - **c** Use a loss that weights the two outputs by 2 and 3.
# - **d** Pass a matrix instead of a vector, with the loss `mean + spread`.

# %% nbgrader={"grade": false, "grade_id": "card-two-outputs", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-two-outputs-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-two-outputs", suspect)

# %% [markdown]
# ### 8 · A tenth of the gradient ★ (1 point · medium · 8 minutes · needs "Writing in place: mark_dirty")
#
# This layer returns its input unchanged and deliberately passes back only a tenth of the gradient. It works after `sin`, but it raises an error after `exp`.


# %%
class Tenth(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)  # 1
        return x  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return 0.1 * grad_output  # 3


x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
for function in (torch.sin, torch.exp):
    print(f"after {function.__name__}:")
    with show_error():
        (gradient,) = torch.autograd.grad(Tenth.apply(function(x)).sum(), x)
        print("gradient", gradient.tolist())

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the values of `x` before and after the call.
# - **b** Double `grad_output`, and see whether the gradient doubles.
# - **c** Compare the gradient after `sin` with a tenth of the true one, for a random input.
# - **d** Print the `_version` of the argument before and after the call.

# %% nbgrader={"grade": false, "grade_id": "card-gradient-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-gradient-scale-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-gradient-scale", suspect)

# %% [markdown]
# ### 9 · The twins (1 point · easy · 5 minutes)
#
# This Function squares its input. If a network calls it once, the gradient is right. A network that compares two inputs calls it twice, and then the gradient of the first input is wrong.


# %%
class Weigh(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        Weigh.x = x  # 1
        return x * x  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return 2 * Weigh.x * grad_output  # 3


a = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
b = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
print("one call: ", torch.autograd.grad(Weigh.apply(a), a)[0].item(), "should be 6.0")
both = torch.autograd.grad(Weigh.apply(a) + Weigh.apply(b), (a, b))
print("two calls:", *(gradient.item() for gradient in both), "should be 6.0 10.0")

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Call it on two different inputs, then ask for the gradient of the first result.
# - **b** Call it twice on the same input, then ask for both gradients.
# - **c** Run `gradcheck` on a vector.
# - **d** Double `grad_output`, and see whether the gradient doubles.

# %% nbgrader={"grade": false, "grade_id": "card-twins", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-twins-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-twins", suspect)

# %% [markdown]
# ## 10 · How often backward runs (1 point · easy · 4 minutes)
#
# `Double` is a Function with one input, and `x` requires a gradient. How many times does autograd call `Double.backward` in each of these programs? Predict four numbers before you run anything.
#
# - **a** `y = Double.apply(x) + Double.apply(x)`, then `grad(y, x)`.
# - **b** `y = Double.apply(x)`, then `grad(y + y * y, x)`.
# - **c** `y = Double.apply(x)`, then `grad(y, x, retain_graph=True)` twice.
# - **d** `y = Double.apply(x)` under `torch.no_grad()`, then `grad(x * y, x)`.
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-backward-calls", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ..., ...]
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "predict-backward-calls-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-backward-calls", prediction)

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also shows the exercises that you solved earlier.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Take a Function that you wrote, or one from a library that you use, and check it for each mistake that the summary table of lesson 02 lists. In a terminal, `autograd-course check module:Function` looks for the same mistakes.
