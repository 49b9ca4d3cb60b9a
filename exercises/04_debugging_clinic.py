# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/04_debugging_clinic.ipynb)
#
# # 04 · The debugging clinic: exercises
#
# This notebook contains twelve short broken Functions. Each is modeled on a bug that somebody found in a public project. For each one, you get its owner's report, a run that shows the problem, and the code. You may have solved `predict-ratios` and `repair-share` in the lesson already.
#
# Exercises 1 to 8 are the core: start here, and solve them all. Exercises 9 to 13 are optional: choose those that are close to your own work.
#
# The exercises do not depend on each other.
#
# **Given:** the owner's report and the complete broken class.
#
# **To write:** the repaired class. For six of the Functions, you first name the line that is wrong and an experiment that shows the mistake. Wherever a cell says `# YOUR CODE HERE`, replace that line. In a class, also replace the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions.
# - Save tensors with `ctx.save_for_backward`. Store numbers, shapes and flags as attributes of `ctx`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - Even after the repair, `forward` computes what its owner wants.
#
# 24 points, about 140 minutes (59 of them for the optional exercises).

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

import torch
from torch import Tensor
from torch.autograd import Function, grad, gradcheck

from autograd_course import diagnose, grade, hint, progress
from autograd_course.lesson import five_steps

# %% [markdown]
# ## How to work
#
# `diagnose` finds the mistake in all twelve Functions. Here you practice finding it yourself:
#
# 1. Read the owner's report and the code. Then write one sentence into the empty cell: which line do you suspect, and what would you see if you were right?
# 2. Run the cheapest experiment that could prove you wrong: a print, a second call, one element by hand, a `breakpoint()`, `five_steps`.
# 3. Repair the cause, not the symptom. The grader knows the usual repairs of a symptom. If your class derives from the broken one, it keeps the `forward`. If both methods are empty, write both.
# 4. When you have passed, call `diagnose` on the broken class. Which of its lines would have helped you most?
#
# Six of the twelve pass `gradcheck`. Three have **two mistakes**, and the first one hides the second. If `grade` says `wrong` again but names another rule, you have repaired the first one.
#
# A cell `suspect = ...` asks which numbered line is wrong and which of four experiments shows it. `suspect = "1a"` means line 1 and experiment a. An experiment shows the mistake if the given Function and a correct one give different results. For a hint, run `hint("name-temperature")` in a new cell.

# %% [markdown]
# ## Core exercises
#
# ### 1 · Three ratios (1 point · easy · 4 minutes)
#
# Step 3 of the lesson divides the norm of the gradient that `backward` returns by the norm of the true gradient. Here we divide element by element, so a ratio can be negative. `x` has 8 elements, and the loss is `5 * y.sum()`. Predict the ratio for each of these three mistakes without running anything.
#
# - **a** `y = x.mean()`, and `backward` returns `grad_output * torch.ones_like(x)`.
# - **b** `y = 1 / x`, and `backward` returns `grad_output / x**2`.
# - **c** `y = x.exp()`, and `backward` returns `x.exp()`.
#
# **Put** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-ratios", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ...]
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "predict-ratios-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-ratios", prediction)

# %% [markdown]
# ### 2 · Shares along another dim (1 point · easy · 5 minutes)
#
# **The owner reports:** "Our Function turns positive numbers into shares of their sum, $y = x / \sum x$, along the dimension `dim`. Our tests use `dim=-1`, and they pass. A user calls it with `dim=0`, for shares of a column, and says that the model only trains if they transpose the table before and after the call. I do not believe it."


# %%
class BrokenShare(Function):
    @staticmethod
    def forward(ctx, x: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.dim = dim
        return x / x.sum(dim, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.dim, keepdim=True)
        common = (grad_output * x / total).sum(-1, keepdim=True)
        return (grad_output - common) / total, None


x = torch.tensor([[1.0, 2.0, 0.5], [3.0, 1.0, 2.0]], dtype=torch.float64, requires_grad=True)
for dim in (-1, 0):
    passes = gradcheck(BrokenShare.apply, (x, dim), raise_exception=False)
    print(f"dim={dim:>2}: gradcheck", "passes" if passes else "fails")

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-share", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Share(BrokenShare):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-share-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-share", Share)

# %% [markdown]
# ### 3 · The temperature that does not move (1 + 2 points · easy + medium · 5 + 10 minutes)
#
# **The owner reports:** "We squash our scores by $y = \tanh(x / t)$ with a learned temperature $t$. The loss falls, but $t$ has not moved for weeks. It requires a gradient, and it is in the optimizer. I checked both twice. `gradcheck` passes."


# %%
class BrokenTempered(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # 1
        ctx.save_for_backward(x)  # 2
        return torch.tanh(x / temperature)  # 3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        y = torch.tanh(x / temperature)  # 4
        return grad_output * (1 - y**2) / temperature  # 5


temperature = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
BrokenTempered.apply(x).square().sum().backward()
print("gradient of x:          ", [round(g, 3) for g in x.grad.tolist()])
print("gradient of temperature:", temperature.grad)

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Print the norm of the gradient of `x` in each training step.
# - **b** Print how many inputs the node `y.grad_fn` has an edge to.
# - **c** Run `gradcheck` on `x`.
# - **d** Compare the output with `torch.tanh(x / temperature)`.

# %% nbgrader={"grade": false, "grade_id": "name-temperature", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-temperature-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-temperature", suspect)

# %% [markdown]
# **Repair it.** `temperature` is a zero-dimensional tensor. Decide how it should reach `forward`, and derive its gradient.


# %% nbgrader={"grade": false, "grade_id": "repair-temperature", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Tempered(Function):
    @staticmethod
    def forward(ctx, x: Tensor, temperature: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-temperature-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-temperature", Tempered)

# %% [markdown]
# ### 4 · Scale and shift on a frozen backbone (1 point · easy · 9 minutes)
#
# **The owner reports:** "We use feature-wise linear modulation (FiLM): $y = \gamma x + \beta$, with a scale and a shift for each column, on top of a backbone. If we train it together with the backbone, everything is fine. Now we freeze the backbone and train only $\gamma$ and $\beta$. $\beta$ does not move at all, and $\gamma$ moves in a strange way. `gradcheck` passes."


# %%
class BrokenFiLM(Function):
    @staticmethod
    def forward(ctx, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, gamma)
        return x * gamma + beta

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        x, gamma = ctx.saved_tensors
        needs_x, needs_gamma, needs_beta = ctx.needs_input_grad
        gradients = []
        if needs_x:
            gradients.append(grad_output * gamma)
        if needs_gamma:
            gradients.append((grad_output * x).sum(0))
        if needs_beta:
            gradients.append(grad_output.sum(0))
        return (*gradients, *[None] * (3 - len(gradients)))


features = torch.tensor([[1.0, -2.0], [3.0, 0.5], [2.0, 4.0]], dtype=torch.float64)
for frozen in (False, True):
    x = features.clone().requires_grad_(not frozen)
    gamma = torch.ones(2, dtype=torch.float64, requires_grad=True)
    beta = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    BrokenFiLM.apply(x, gamma, beta).sum().backward()
    shown = [None if t.grad is None else t.grad.tolist() for t in (gamma, beta)]
    print("backbone", "frozen: " if frozen else "trained:", "gamma", shown[0], "beta", shown[1])

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-film", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FiLM(BrokenFiLM):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-film-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-film", FiLM)

# %% [markdown]
# ### 5 · The silence that disappears (1 + 2 points · easy + medium · 5 + 9 minutes)
#
# **The owner reports:** "Our speech model starts with $y = \log(\max(x, \text{floor}))$, so that silence does not become $-\infty$. A second head counts the silent frames in the same spectrum, to weight the loss. Since we switched to our own log, it has not found a single one. If I call the two heads in the other order, it finds them."


# %%
class BrokenFloorLog(Function):
    @staticmethod
    def forward(ctx, x: Tensor, floor: float) -> Tensor:
        x.data.clamp_(min=floor)  # 1: saves a copy
        ctx.save_for_backward(x)  # 2
        return x.log()  # 3

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors  # 4
        return grad_output / x, None  # 5


floor = 0.1
spectrum = torch.tensor([0.5, 0.02, 2.0, 0.01, 1.0], dtype=torch.float64, requires_grad=True)
print("silent frames before the log:", int((spectrum < floor).sum()))
BrokenFloorLog.apply(spectrum, floor)
print("silent frames after it:      ", int((spectrum < floor).sum()))

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the output with `x.clamp(min=floor).log()`, for a copy of `x`.
# - **b** Compare the gradient with $1/x$ where $x$ is above the floor.
# - **c** Call the Function on two copies of `x`, and compare the outputs.
# - **d** Copy `x`, and compare it with the copy after the call.

# %% nbgrader={"grade": false, "grade_id": "name-floor-log", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-floor-log-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-floor-log", suspect)

# %% [markdown]
# **Repair it.** This Function has two mistakes. Repair the first one, and then check the new class as well.


# %% nbgrader={"grade": false, "grade_id": "repair-floor-log", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FloorLog(Function):
    @staticmethod
    def forward(ctx, x: Tensor, floor: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-floor-log-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-floor-log", FloorLog)

# %% [markdown]
# ### 6 · One word decides for all (1 + 1 points · medium + easy · 8 + 4 minutes)
#
# **The owner reports:** "This is a fused distance of each row to its target, $y_i = \frac12 \lVert x_i - t_i \rVert^2$. Each row is a word, and the loss is a weighted mean, in which padding has the weight 0. If the padding comes first, nothing trains. If it comes last, everything trains, even the padding. All values are right."


# %%
class BrokenDistance(Function):
    @staticmethod
    def forward(ctx, x: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(x, target)  # 1
        return (x - target).square().sum(-1) / 2  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        x, target = ctx.saved_tensors  # 3
        upstream = grad_output.reshape(-1)[0]  # 4: the upstream gradient of the loss
        return (x - target) * upstream, (target - x) * upstream  # 5


words = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
for weights in ([0.0, 1.0, 1.0], [1.0, 1.0, 0.0]):
    x = words.clone().requires_grad_()
    loss = BrokenDistance.apply(x, torch.zeros_like(x)) @ torch.tensor(weights, dtype=torch.float64)
    print("weights", weights, "gradient", grad(loss, x)[0].tolist())

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the gradient with the one from autograd, for a loss with the weights 1, 2 and 3.
# - **b** Compare the gradient with the one from autograd, for the loss `.sum()`.
# - **c** Double the loss, and see whether the gradient doubles.
# - **d** Exchange `x` and `target`, and compare the outputs.

# %% nbgrader={"grade": false, "grade_id": "name-distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-distance-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-distance", suspect)


# %% nbgrader={"grade": false, "grade_id": "repair-distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Distance(BrokenDistance):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-distance-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-distance", Distance)

# %% [markdown]
# ### 7 · Right until transposed (1 + 1 points · medium + easy · 9 + 3 minutes)
#
# **The owner reports:** "Our Function rotates points in the plane by an angle. The last dimension holds the two coordinates. `gradcheck` passes. Our model uses the shape (batch, time, 2), and it learns. A colleague uses (time, batch, 2) and calls `transpose` after the rotation, and their model does not learn. The run below computes the loss without and with the `transpose`. The two values are equal."
#
# This `backward` behaves like a compiled kernel, which gets the address of a tensor and reads the numbers in the order in which they are stored.


# %%
def turn(like: Tensor, angle: float) -> Tensor:
    """Return the matrix that rotates row vectors by an angle."""
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class BrokenRotate(Function):
    @staticmethod
    def forward(ctx, x: Tensor, angle: float) -> Tensor:
        ctx.angle = angle  # 1
        return x @ turn(x, angle)  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # read two numbers at a time
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))  # 3
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None  # 4


x = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2).requires_grad_()
weight = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(2, 3, 2)
across = weight.transpose(0, 1).contiguous()
plain = (BrokenRotate.apply(x, 0.7) * weight).sum()
transposed = (BrokenRotate.apply(x, 0.7).transpose(0, 1) * across).sum()
print("same loss:    ", torch.allclose(plain, transposed))
print("same gradient:", torch.allclose(grad(plain, x)[0], grad(transposed, x)[0]))

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Run `gradcheck` with several angles.
# - **b** Pass an `x` that is a transposed view, and compare the gradient with the gradient of a contiguous copy.
# - **c** Pass the same numbers as `grad_output` twice: once contiguous, and once with other strides.
# - **d** Double `grad_output`, and see whether the gradient doubles.

# %% nbgrader={"grade": false, "grade_id": "name-rotation", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-rotation-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-rotation", suspect)


# %% nbgrader={"grade": false, "grade_id": "repair-rotation", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Rotate(BrokenRotate):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-rotation-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-rotation", Rotate)

# %% [markdown]
# ### 8 · A thousand pixels count as a dozen (2 points · medium · 10 minutes)
#
# **The owner reports:** "We learn a color curve, a table with linear interpolation between its entries. A pixel at entry $i$ plus a fraction $f$ gets $y = (1 - f)\, \text{table}_i + f\, \text{table}_{i+1}$. It learns, but very slowly, as if only a few pixels of each image counted. For the loss `y.sum()`, the gradient of the table should add up to the number of pixels, because the two weights of each pixel add up to 1. The run below shows that it does not. I have never run it in float64."
#
# This Function has two mistakes.


# %%
class BrokenLookUp(Function):
    @staticmethod
    def forward(ctx, table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
        ctx.save_for_backward(table, index, fraction)
        return (1 - fraction) * table[index] + fraction * table[index + 1]

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, Tensor]:
        table, index, fraction = ctx.saved_tensors
        grad_table = torch.zeros(len(table))
        grad_table[index] = (1 - fraction) * grad_output
        grad_table[index + 1] += fraction * grad_output
        return grad_table, None, (table[index + 1] - table[index]) * grad_output


table = torch.linspace(0, 1, 9, requires_grad=True)
place = torch.linspace(0, 7.75, 32 * 32)
index, fraction = place.long(), place.frac()
(gradient,) = grad(BrokenLookUp.apply(table, index, fraction).sum(), table)
print(f"{len(index)} pixels; the gradient of the table adds up to {gradient.sum():.0f}")

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-color-table", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LookUp(BrokenLookUp):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-color-table-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-color-table", LookUp)

# %% [markdown]
# ## Optional exercises
#
# You have solved the core set. The next five Functions are about overflow, memory, repeated backward passes, second derivatives and random numbers.
#
# ### 9 · nan since the outlier ★ (optional · 1 point · easy · 5 minutes · needs "Where a nan comes from")
#
# **The owner reports:** "This is a robust loss, $y = \log \cosh x$. It is a parabola for small errors and a straight line for large ones. It ran for 300 steps. Then one bad measurement arrived, and now every weight is `nan`. The loss at that step was normal: 199. `gradcheck` passes. For now I call `nan_to_num` on the result."


# %%
class BrokenLogCosh(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        up, down = x.exp(), (-x).exp()
        return grad_output * (up - down) / (up + down)


errors = torch.tensor([0.5, -3.0, 200.0], requires_grad=True)
loss = BrokenLogCosh.apply(errors)
print("loss    ", [round(value, 3) for value in loss.tolist()])
print("gradient", [round(value, 3) for value in grad(loss.sum(), errors)[0].tolist()])

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-log-cosh", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogCosh(BrokenLogCosh):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-log-cosh-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-log-cosh", LogCosh)

# %% [markdown]
# ### 10 · Memory that grows (optional · 1 point · easy · 10 minutes)
#
# **The owner reports:** "Our Function computes $y = x / (1 + |x|)$. Its derivative is $(1 - |y|)^2$, so we keep only the output to save memory. The gradients are right, and `gradcheck` passes. But memory use grows for a minute or two, falls, and grows again. On an unlucky day, it does not fall fast enough. `del y` does not help."


# %%
class BrokenSoftsign(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.y = x / (1 + x.abs())
        return ctx.y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * (1 - ctx.y.abs()) ** 2


gc.collect()
gc.disable()  # from here on, only reference counts free memory
x, outputs = torch.ones(3, requires_grad=True), []
for _ in range(5):
    y = BrokenSoftsign.apply(x)
    y.sum().backward()
    outputs.append(weakref.ref(y))
    del y
print("outputs that are deleted and still in memory:", sum(r() is not None for r in outputs))
gc.enable()

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-softsign", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Softsign(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-softsign-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-softsign", Softsign)

# %% [markdown]
# ### 11 · Only the first loss trains (optional · 1 + 1 points · medium · 9 + 10 minutes)
#
# **The owner reports:** "This Function solves $\dot x = -\sin x$ with Euler steps: $x \leftarrow x - h \sin x$ for each $h$ in `steps`. Two heads use its result. We compute the gradient of each loss separately, to balance them. Whichever gradient we compute first is right. The second one is too large, and it does not depend on the state at all. PyTorch asked for `retain_graph=True`, so I added it."


# %%
class BrokenSolve(Function):
    @staticmethod
    def forward(ctx, x: Tensor, steps: tuple[float, ...]) -> Tensor:
        states = []
        for h in steps:
            states.append(x)  # 1
            x = x - h * x.sin()
        ctx.save_for_backward(*states)  # 2
        ctx.tape = list(enumerate(steps))  # 3
        return x.clone()  # 4: a new tensor, even without steps

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        states = ctx.saved_tensors
        while ctx.tape:  # 5
            i, h = ctx.tape.pop()  # 6
            grad_output = grad_output * (1 - h * states[i].cos())  # 7
        return grad_output, None


x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
y = BrokenSolve.apply(x, (0.1, 0.2))
for call in ("first ", "second"):
    (gradient,) = grad(y.sum(), x, retain_graph=True)
    print(call, "gradient of the same loss:", [round(g, 3) for g in gradient.tolist()])

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Call the Function twice, and compute the gradient of each result once.
# - **b** Compare the first gradient with the gradient of the same loop without a Function.
# - **c** Do the same as in **b**, with three other steps.
# - **d** Before and after the first gradient, print the attributes of `y.grad_fn` that are lists.

# %% nbgrader={"grade": false, "grade_id": "name-solver", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-solver-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-solver", suspect)


# %% nbgrader={"grade": false, "grade_id": "repair-solver", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Solve(Function):
    @staticmethod
    def forward(ctx, x: Tensor, steps: tuple[float, ...]) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-solver-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-solver", Solve)

# %% [markdown]
# ### 12 · The penalty that misleads ★ (optional · 2 points · medium · 10 minutes · needs "A second derivative that is wrong")
#
# **The owner reports:** "This is a normalization without a mean: $y = r x$ with $r = (\text{mean}(x^2) + 10^{-6})^{-1/2}$ for each row. In training, it gives the same numbers as the plain formula. Then we added a penalty on the gradient of the input. The *value* of the penalty is still the same. But the gradient of the penalty is different, so the network learns something else."


# %%
def rms_norm(x: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


class BrokenRMSNorm(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        ctx.save_for_backward(x, r)
        return x * r

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        x, r = ctx.saved_tensors
        return r * grad_output - r**3 * x * (grad_output * x).mean(-1, keepdim=True)


x = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.8, -1.0]], dtype=torch.float64, requires_grad=True)
for norm in (rms_norm, BrokenRMSNorm.apply):
    (gradient,) = grad(norm(x).pow(3).sum(), x, create_graph=True)
    penalty = gradient.square().sum()
    (learned,) = grad(penalty, x)
    print(f"penalty {penalty:.3f}, its gradient", [round(g, 2) for g in learned[0].tolist()])

# %%
# Your hypothesis, and the cheapest experiment that could refute it:


# %% nbgrader={"grade": false, "grade_id": "repair-rms-norm", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RMSNorm(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-rms-norm-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-rms-norm", RMSNorm)

# %% [markdown]
# ### 13 · Two masks ★ (optional · 1 + 2 points · easy + medium · 5 + 10 minutes · needs "When forward draws random numbers")
#
# **The owner reports:** "Our dropout keeps nothing in memory. Each element survives with probability $1 - p$ and is then divided by $1 - p$. The mask would cost memory, so `backward` draws a new one. Without dropout, the network trains. With $p = 0.4$, it diverges, and with a lower learning rate, it diverges later."


# %%
def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Return which elements dropout keeps. Without a generator, use PyTorch's global one."""
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class BrokenDropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        ctx.p = p  # 1
        return x * draw(x, p) / (1 - p)  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * draw(grad_output, ctx.p), None  # 3


torch.manual_seed(0)
x = torch.ones(10, dtype=torch.float64, requires_grad=True)
y = BrokenDropout.apply(x, 0.4)
print("output:  ", " ".join(f"{value:4.2f}" for value in y))
print("gradient:", " ".join(f"{value:4.2f}" for value in grad(y.sum(), x)[0]))

# %%
# Your hypothesis, and the cheapest experiment that could refute it:

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Count how many outputs are zero.
# - **b** Pass ones to forward and ones to backward, and compare where the output and the gradient are zero.
# - **c** Twice, set the seed and run forward and backward. Compare the two gradients.
# - **d** Set `p` to 0, and compare the output and the gradient with those of the identity.

# %% nbgrader={"grade": false, "grade_id": "name-dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-dropout-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-dropout", suspect)

# %% [markdown]
# **Repair it**, and make it repeatable. `forward` also takes a `seed`, and its mask is `draw(x, p, generator)` with `generator = torch.Generator(x.device).manual_seed(seed)`. You may save the mask or draw it again. This Function also has two mistakes.


# %% nbgrader={"grade": false, "grade_id": "repair-dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Dropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float, seed: int) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-dropout-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-dropout", Dropout)

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# When a repair passes, `grade` names the public issue that the exercise is modeled on. Read two or three of these issues. What did the users report, what did people suspect first, how long did it take to find the mistake, and which test would find it today? Then write such a test for a Function of your own.
