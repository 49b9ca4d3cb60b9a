# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/04_debugging_clinic.ipynb)
#
# # 04 · The debugging clinic: exercises
#
# A ward of twelve patients. Each is a custom Function of a few lines, modeled on a bug that was found in a public project, and each has a chart: what its owner reports, a run that shows it, and the code.
#
# **Given:** the chart, and the sick class, complete.
#
# **To write:** for each patient the repaired class; for six of them first the line that is wrong, and an experiment that shows it. Wherever a cell says `# YOUR CODE HERE`, replace that line and, in a class, the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you write down, not a call to autograd.
# - Tensors go through `ctx.save_for_backward`; numbers, shapes and flags are attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - What the owner wants from forward stays as it is.
#
# 24 points, about 140 minutes (5 of them for the exercises with ★, which need an *extra* section). The patients do not depend on each other; six are a good afternoon.

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
# The doctor knows all twelve. So the exercise is not to run `diagnose`, it is to need it less:
#
# 1. Read the chart, and write a *hypothesis* into the cell below it: which line, and what would be seen if it were that? One sentence, before anything is run.
# 2. Test it with the cheapest experiment that could refute it: a print, a second call, an example by hand, `five_steps`.
# 3. Only then `diagnose`. Were you right? If not, what in the chart would have told you?
# 4. Repair the cause. The grader knows the usual ways to treat the symptom. A repaired class that derives from the sick one keeps its forward; where you see both methods, both are yours.
#
# Half of the patients pass `gradcheck`. Three have **two bugs**, of which the first hides the second: a repair that is told `wrong` under a *new* name is half a success.
#
# A cell `suspect = ...` asks which numbered line is wrong and which of four experiments shows it. `suspect = "1a"` means line 1 and experiment a. An experiment shows the mistake if a correct Function would give a different result. `hint("name-temperature")` gives a nudge.

# %% [markdown]
# ## Admission: who knows of what
#
# ### 1 · The temperature that stays (1 + 2 points · easy + medium · 5 + 10 minutes)
#
# **The owner:** "Our scores are squashed by $y = \tanh(x / t)$ with a learned temperature. The loss falls, but the curve of $t$ on the dashboard is a horizontal line, for weeks now. It requires grad, and it is in the optimizer, I checked twice. `gradcheck` passes."


# %%
class SickTempered(Function):
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
SickTempered.apply(x).square().sum().backward()
print("gradient of x:          ", [round(g, 3) for g in x.grad.tolist()])
print("gradient of temperature:", temperature.grad)

# %%
# My hypothesis:
# diagnose(SickTempered, x)

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
# **Repair it.** `temperature` is a tensor without axes. Find out how it should come in, then derive its gradient.


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
# ### 2 · Scale and shift on a frozen backbone (1 point · easy · 9 minutes)
#
# **The owner:** "Feature-wise linear modulation, FiLM: $y = \gamma x + \beta$, a scale and a shift for each column, on top of a backbone. Trained together with the backbone everything is fine. Now we freeze the backbone and fine-tune the two, and it goes wrong: $\beta$ does not move at all, and $\gamma$ moves in a strange way. `gradcheck` passes, of course."


# %%
class SickFiLM(Function):
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
    SickFiLM.apply(x, gamma, beta).sum().backward()
    shown = [None if t.grad is None else t.grad.tolist() for t in (gamma, beta)]
    print("backbone", "frozen: " if frozen else "trained:", "gamma", shown[0], "beta", shown[1])

# %%
# My hypothesis:
# diagnose(SickFiLM, (torch.randn(4, 2), torch.randn(2), torch.randn(2)))


# %% nbgrader={"grade": false, "grade_id": "repair-film", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FiLM(SickFiLM):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-film-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-film", FiLM)

# %% [markdown]
# ### 3 · The silence that was not silent (1 + 2 points · easy + medium · 5 + 9 minutes)
#
# **The owner:** "The front end of our speech model: $y = \log(\max(x, \text{floor}))$, so that silence does not become $-\infty$. A second head looks at the same spectrum and counts the silent frames, to weight the loss. Since our own log is in use, it finds not a single one. And if I swap the two heads, it finds them."


# %%
class SickFloorLog(Function):
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
SickFloorLog.apply(spectrum, floor)
print("silent frames after it:      ", int((spectrum < floor).sum()))

# %%
# My hypothesis:
# diagnose(SickFloorLog, (torch.tensor([0.5, 0.02, 2.0, 0.01, 1.0]), floor))

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the output with `x.clamp(min=floor).log()`, for a copy of `x`.
# - **b** Compare the gradient with $1/x$ where $x$ is above the floor.
# - **c** Call it on two copies of `x`, and compare the outputs.
# - **d** Copy `x`, and compare it with the copy after the call.

# %% nbgrader={"grade": false, "grade_id": "name-floor-log", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-floor-log-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-floor-log", suspect)

# %% [markdown]
# **Repair it.** This is one of the patients with two bugs. Mend the first one, then examine what you have.


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
# ## What arrives from upstream
#
# ### 4 · The word that mutes the sentence (1 + 1 points · medium + easy · 8 + 4 minutes)
#
# **The owner:** "A fused distance of each row to its target, $y_i = \frac12 \lVert x_i - t_i \rVert^2$. Each row is a word, and the loss is a weighted mean: padding has weight 0. Where padding stands in front, nothing trains. Where it stands at the end everything does, even the padding. The values are right to the last digit."


# %%
class SickDistance(Function):
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
    loss = SickDistance.apply(x, torch.zeros_like(x)) @ torch.tensor(weights, dtype=torch.float64)
    print("weights", weights, "gradient", grad(loss, x)[0].tolist())

# %%
# My hypothesis:
# diagnose(SickDistance, (words, torch.zeros_like(words)))

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Compare the gradient with that of autograd, for a loss with the weights 1, 2 and 3.
# - **b** Compare the gradient with that of autograd, for the loss `.sum()`.
# - **c** Double the loss, and see whether the gradient doubles.
# - **d** Exchange `x` and `target`, and compare the values.

# %% nbgrader={"grade": false, "grade_id": "name-distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-distance-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-distance", suspect)


# %% nbgrader={"grade": false, "grade_id": "repair-distance", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Distance(SickDistance):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-distance-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-distance", Distance)

# %% [markdown]
# ### 5 · Right until transposed (1 + 1 points · medium + easy · 9 + 3 minutes)
#
# **The owner:** "It rotates points of the plane by an angle, the pairs in the last axis. `gradcheck` passes. Our model has (batch, time, 2) and learns; a colleague's has (time, batch, 2), so there is a `transpose` right behind the rotation, and it does not. Below is the same loss, written both ways. The values agree."
#
# Its backward stands for a compiled kernel: such a kernel gets the address of a tensor's memory, and walks through it.


# %%
def turn(like: Tensor, angle: float) -> Tensor:
    """The matrix that rotates row vectors by an angle."""
    c, s = math.cos(angle), math.sin(angle)
    return like.new_tensor([[c, s], [-s, c]])


class SickRotate(Function):
    @staticmethod
    def forward(ctx, x: Tensor, angle: float) -> Tensor:
        ctx.angle = angle  # 1
        return x @ turn(x, angle)  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # the memory, two numbers at a time
        rows = grad_output.as_strided((grad_output.numel() // 2, 2), (2, 1))  # 3
        return (rows @ turn(rows, -ctx.angle)).view(grad_output.shape), None  # 4


x = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2).requires_grad_()
weight = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(2, 3, 2)
across = weight.transpose(0, 1).contiguous()
plain = (SickRotate.apply(x, 0.7) * weight).sum()
transposed = (SickRotate.apply(x, 0.7).transpose(0, 1) * across).sum()
print("same loss:    ", torch.allclose(plain, transposed))
print("same gradient:", torch.allclose(grad(plain, x)[0], grad(transposed, x)[0]))

# %%
# My hypothesis:
# diagnose(SickRotate, (x, 0.7))

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Run `gradcheck` with several angles.
# - **b** Pass an `x` that is a transposed view, and compare the gradient with that of a contiguous copy.
# - **c** Pass the same `grad_output` twice, once contiguous and once as a transposed view of a transposed copy.
# - **d** Double `grad_output`, and see whether the gradient doubles.

# %% nbgrader={"grade": false, "grade_id": "name-rotation", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-rotation-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-rotation", suspect)


# %% nbgrader={"grade": false, "grade_id": "repair-rotation", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Rotate(SickRotate):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-rotation-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-rotation", Rotate)

# %% [markdown]
# ## Wrong numbers
#
# ### 6 · Shares along another axis (1 point · easy · 5 minutes)
#
# **The owner:** "Positive numbers to shares of their sum: $y = x / \sum x$ along an axis `dim`. It has tests, with `dim=-1`. Somebody now uses it with `dim=0`, for shares of a column, and says that their model only trains since they transpose before and after. Superstition, if you ask me."


# %%
class SickShare(Function):
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
    passes = gradcheck(SickShare.apply, (x, dim), raise_exception=False)
    print(f"dim={dim:>2}: gradcheck", "passes" if passes else "fails")

# %%
# My hypothesis:
# diagnose(SickShare, (x, 0))


# %% nbgrader={"grade": false, "grade_id": "repair-share", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Share(SickShare):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-share-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-share", Share)

# %% [markdown]
# ### 7 · One pixel teaches (2 points · medium · 10 minutes)
#
# **The owner:** "A learned color curve: a table, read between its entries. A pixel at entry $i$ plus a fraction $f$ gets $y = (1 - f)\, \text{table}_i + f\, \text{table}_{i+1}$. It does learn, but as if an image had a dozen pixels. For `y.sum()` the gradient of the table should add up to the number of pixels, because the two weights of each pixel add up to 1. See for yourself. In float64 I never ran it."
#
# Two bugs again.


# %%
class SickLookUp(Function):
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
(gradient,) = grad(SickLookUp.apply(table, index, fraction).sum(), table)
print(f"{len(index)} pixels; the gradient of the table adds up to {gradient.sum():.0f}")

# %%
# My hypothesis:
# diagnose(SickLookUp, (table, torch.tensor([0, 2, 2, 5]), torch.rand(4)))


# %% nbgrader={"grade": false, "grade_id": "repair-color-table", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LookUp(SickLookUp):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-color-table-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-color-table", LookUp)

# %% [markdown]
# ### 8 · nan since the outlier ★ (1 point · easy · 5 minutes · needs "Where a nan comes from")
#
# **The owner:** "A robust loss, $y = \log \cosh x$: a parabola for small errors, a straight line for large ones. It ran for 300 steps, then came one bad measurement, and since then every weight is `nan`. The loss of that step was a perfectly normal 199. `gradcheck` passes. I wrote `nan_to_num` behind it for now."


# %%
class SickLogCosh(Function):
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
loss = SickLogCosh.apply(errors)
print("loss    ", [round(value, 3) for value in loss.tolist()])
print("gradient", [round(value, 3) for value in grad(loss.sum(), errors)[0].tolist()])

# %%
# My hypothesis:
# diagnose(SickLogCosh, errors)


# %% nbgrader={"grade": false, "grade_id": "repair-log-cosh", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LogCosh(SickLogCosh):
    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "repair-log-cosh-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("repair-log-cosh", LogCosh)

# %% [markdown]
# ## What it remembers
#
# ### 9 · Memory that grows (1 point · easy · 10 minutes)
#
# **The owner:** "$y = x / (1 + |x|)$, and since $\partial y / \partial x = (1 - |y|)^2$ we keep only the output; we are careful with memory. The gradients are right, `gradcheck` passes. But memory grows for a minute or two, falls, grows again, and on a bad day it does not fall in time. `del y` does not help."


# %%
class SickSoftsign(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.y = x / (1 + x.abs())
        return ctx.y

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return grad_output * (1 - ctx.y.abs()) ** 2


gc.collect()
gc.disable()  # so that memory goes when nobody holds it, or not at all
x, outputs = torch.ones(3, requires_grad=True), []
for _ in range(5):
    y = SickSoftsign.apply(x)
    y.sum().backward()
    outputs.append(weakref.ref(y))
    del y
print("outputs that nobody uses and that are still there:", sum(r() is not None for r in outputs))
gc.enable()

# %%
# My hypothesis:
# diagnose(SickSoftsign, torch.randn(3))


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
# ### 10 · Only the first loss trains (1 + 1 points · medium · 9 + 10 minutes)
#
# **The owner:** "A solver of $\dot x = -\sin x$ by Euler steps, $x \leftarrow x - h \sin x$ for each $h$ of `steps`. Two heads hang on its result, and we take the gradient of each loss for itself, to balance them. The first one, whichever it is, is right. The second comes out too long, and always the same, whatever the state was. PyTorch asked for `retain_graph=True`, so I gave it that."


# %%
class SickSolve(Function):
    @staticmethod
    def forward(ctx, x: Tensor, steps: tuple[float, ...]) -> Tensor:
        states = []
        for h in steps:
            states.append(x)  # 1
            x = x - h * x.sin()
        ctx.save_for_backward(*states)  # 2
        ctx.tape = list(enumerate(steps))  # 3
        return x.clone()  # 4: for no steps, not the input itself

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        states = ctx.saved_tensors
        while ctx.tape:  # 5
            i, h = ctx.tape.pop()  # 6
            grad_output = grad_output * (1 - h * states[i].cos())  # 7
        return grad_output, None


x = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
y = SickSolve.apply(x, (0.1, 0.2))
for call in ("first ", "second"):
    (gradient,) = grad(y.sum(), x, retain_graph=True)
    print(call, "gradient of the same loss:", [round(g, 3) for g in gradient.tolist()])

# %%
# My hypothesis:
# diagnose(SickSolve, (x, (0.1, 0.2)))

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Call it twice, and ask for the gradient of each result once.
# - **b** Compare the first gradient with that of the same loop without a Function.
# - **c** Do the same with three other steps.
# - **d** Print the attributes of `y.grad_fn` that are lists before and after the first gradient.

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
# ### 11 · The penalty that misleads (2 points · medium · 10 minutes)
#
# **The owner:** "A norm without mean, $y = r x$ with $r = (\text{mean}(x^2) + 10^{-6})^{-1/2}$ for each row. In training it does what the plain formula does, digit by digit. Then we added a penalty on the gradient of the input. The penalty's *value* is the same with both, too. What the net learns from it is not."


# %%
def rms_norm(x: Tensor) -> Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


class SickRMSNorm(Function):
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
for norm in (rms_norm, SickRMSNorm.apply):
    (gradient,) = grad(norm(x).pow(3).sum(), x, create_graph=True)
    penalty = gradient.square().sum()
    (learned,) = grad(penalty, x)
    print(f"penalty {penalty:.3f}, its gradient", [round(g, 2) for g in learned[0].tolist()])

# %%
# My hypothesis:
# diagnose(SickRMSNorm, x, reference=rms_norm, double_backward=True)


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
# ### 12 · Two masks (1 + 2 points · easy + medium · 5 + 10 minutes)
#
# **The owner:** "Dropout that keeps nothing: each element survives with probability $1 - p$ and is then divided by $1 - p$, and because the mask would cost memory, backward makes a new one. Without dropout the net trains. With $p = 0.4$ it diverges, and with a lower learning rate it diverges later."


# %%
def draw(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Which elements are kept; without a generator PyTorch's common one is used."""
    return torch.rand(x.shape, generator=generator, device=x.device) >= p


class SickDropout(Function):
    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        ctx.p = p  # 1
        return x * draw(x, p) / (1 - p)  # 2

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output * draw(grad_output, ctx.p), None  # 3


torch.manual_seed(0)
x = torch.ones(10, dtype=torch.float64, requires_grad=True)
y = SickDropout.apply(x, 0.4)
print("output:  ", " ".join(f"{value:4.2f}" for value in y))
print("gradient:", " ".join(f"{value:4.2f}" for value in grad(y.sum(), x)[0]))

# %%
# My hypothesis:
# diagnose(SickDropout, (x, 0.4))

# %% [markdown]
# Which line is wrong, and which experiment shows it?
#
# - **a** Count how many outputs are zero.
# - **b** Pass ones in and ones back, and compare where the output and the gradient are zero.
# - **c** Set the seed and run forward and backward, twice, and compare the two gradients.
# - **d** Set `p` to 0, and compare output and gradient with those of the identity.

# %% nbgrader={"grade": false, "grade_id": "name-dropout", "locked": false, "schema_version": 3, "solution": true, "task": false}
suspect = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "name-dropout-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("name-dropout", suspect)

# %% [markdown]
# **Repair it**, and make it repeatable: forward takes a `seed` too, and its mask is `draw(x, p, generator)` with `generator = torch.Generator(x.device).manual_seed(seed)`. You may keep the mask or draw it again. Two bugs, a last time.


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
# ## 13 · Three ratios (1 point · easy · 4 minutes)
#
# Step 3 divides the gradient that `backward` returns by the true one. `x` has 8 elements, and the loss is `5 * y.sum()`. Predict the ratio for each of these three mistakes, without running anything.
#
# - **a** `y = x.mean()`, and `backward` returns `grad_output * torch.ones_like(x)`.
# - **b** `y = 1 / x`, and `backward` returns `grad_output / x**2`.
# - **c** `y = x.exp()`, and `backward` returns `x.exp()`.
#
# **Write** the numbers into the list.

# %% nbgrader={"grade": false, "grade_id": "predict-ratios", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = [..., ..., ...]
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "predict-ratios-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("predict-ratios", prediction)

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Each passed grader names the public issue that its patient is modeled on. Read two or three of them: how the symptom was reported, what was suspected first, how many months it took, and which test has stood guard since. Then write that test for a Function of your own.
