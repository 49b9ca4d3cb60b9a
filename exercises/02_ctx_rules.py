# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/02_ctx_rules.ipynb)
#
# # 02 · The rules of ctx: exercises
#
# Four Functions that cannot be written well without the rules of lesson 02, then four cards: a broken Function, what somebody observed, and the question which rule it breaks.
#
# **Given:** the task, the formula of forward, the name and the signature of every class.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and, in a class, the `raise` below it.
#
# **Constraints for every exercise:**
#
# - `backward` is a formula that you write down, not a call of autograd.
# - Tensors go through `ctx.save_for_backward`; numbers, shapes and flags are attributes of `ctx`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - Nothing is changed in place that is not yours, unless the exercise asks for it.
#
# 13 points, about 75 minutes (30 of them for the exercises with ★, which need an *extra* section).

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

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · Strided gain: the whole of ctx in one Function (3 points · medium · 20 minutes)
#
# A layer keeps every `stride`-th element of the last axis. While `training` is True it multiplies what it keeps by a learned `gain`; otherwise it passes it on unchanged:
#
# $$y_{\dots i} = \begin{cases} \text{gain}_{\dots i} \cdot x_{\dots\, i \cdot \text{stride}} & \text{in training} \\ x_{\dots\, i \cdot \text{stride}} & \text{otherwise.} \end{cases}$$
#
# | argument | |
# | --- | --- |
# | `x` | a tensor of one axis or more |
# | `gain` | a tensor of the shape of the output, `x[..., ::stride].shape` |
# | `stride`, `training` | a positive integer and a flag |
#
# **Write** both methods. An element that was left out has the gradient 0.
#
# **Constraints:**
#
# - A gradient is computed only where `ctx.needs_input_grad` says that one is wanted.
# - When `training` is False, nothing is kept for backward: no value of a tensor is needed then.
# - The output is a tensor of its own. A slice is a view, and your users may want to write into what they get.


# %% nbgrader={"grade": false, "grade_id": "strided-gain", "locked": false, "schema_version": 3, "solution": true, "task": false}
class StridedGain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "strided-gain-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("strided-gain", StridedGain)

# %% [markdown]
# ## 2 · Leaky ReLU in place ★ (2 points · easy · 10 minutes · needs "Writing in place: mark_dirty")
#
# $$x \leftarrow \begin{cases} x & x > 0 \\ \text{slope} \cdot x & \text{otherwise} \end{cases}$$
#
# The activation overwrites its input, so that a network needs one tensor here instead of two. What backward must know can be read off the output, since `slope`, a Python number, is positive.
#
# **Write** both methods.
#
# **Constraint:** `x` itself is overwritten and returned, and autograd is told so.


# %% nbgrader={"grade": false, "grade_id": "leaky-relu-in-place", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LeakyReLUInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, slope: float) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "leaky-relu-in-place-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("leaky-relu-in-place", LeakyReLUInPlace)

# %% [markdown]
# ## 3 · Sort, with the indices (2 points · medium · 10 minutes)
#
# $$\text{values}_i = x_{\text{indices}_i}, \qquad \text{values}_0 \le \text{values}_1 \le \dots$$
#
# along the last axis; with `descending=True` the other way round. forward returns the pair `(values, indices)`; `torch.sort(x, dim=-1, descending=descending)` is allowed.
#
# **Write** both methods. backward gets a second gradient, that of the indices, which means nothing. Say in forward that the indices have none. For integers that is a note to the reader, since PyTorch knows, and it is not graded.
#
# **Constraint:** nothing but the indices is kept. Where a number went is all that its gradient needs to know.


# %% nbgrader={"grade": false, "grade_id": "sort-with-indices", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SortWithIndices(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "sort-with-indices-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("sort-with-indices", SortWithIndices)

# %% [markdown]
# ## 4 · Loss with a frozen target ★ (2 points · easy · 10 minutes · needs "A frozen target and its 1/N")
#
# $$L = \frac{1}{N} \sum_{i=1}^{N} w_i \, (p_i - t_i)^2$$
#
# over all $N$ elements of prediction $p$, target $t$ and weight $w$, three tensors of one shape. In training by bootstrap the target comes out of the same network, and no gradient may flow into it; the weights are given from outside.
#
# **Write** both methods; forward returns a single number (0-dim).
#
# **Constraints:**
#
# - Target and weight get `None`, whether or not they ask for a gradient.
# - Nothing is computed when the prediction asks for none.


# %% nbgrader={"grade": false, "grade_id": "frozen-target", "locked": false, "schema_version": 3, "solution": true, "task": false}
class FrozenTargetLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
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
# On each: a Function that somebody wrote, and a run in which something is odd. Name the rule that it breaks, as `diagnose` would, for instance `name = "flipped-sign"`. The names of this lesson are
#
# | | |
# | --- | --- |
# | on ctx | `tensor-on-ctx`, `ctx-cycle`, `non-tensor-saved`, `saved-tensors-in-forward`, `shared-state` |
# | in forward | `mutates-input`, `wrong-mark-dirty`, `returns-view`, `wrong-non-differentiable`, `captured-tensor` |
# | in backward | `mutates-grad-output`, `mutates-saved`, `none-grad-output`, `wasted-gradient`, `not-reentrant`, `frozen-input` |
#
# What a name means, `!autograd-course explain shared-state` says. You could also ask `diagnose`. Read first: in a code review there is no one to ask. Then ask it, and see whether you agree.

# %% [markdown]
# ### 5 · The skip connection (1 point · easy · 5 minutes)
#
# A ReLU in a residual block, $y = h + \operatorname{relu}(h)$. The slope is 1 for negative and 2 for positive $h$. `gradcheck` passes the Function; a sum of two branches does not come out right.


# %%
class Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        grad_output[~positive] = 0
        return grad_output


x = torch.tensor([-2.0, -1.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(Rectify.apply, x))
for name, relu in (("torch.relu", torch.relu), ("Rectify", Rectify.apply)):
    h = 1 * x
    (gradient,) = torch.autograd.grad(h + relu(h), x, grad_outputs=torch.ones_like(x))
    print(f"h + {name}(h): {gradient.tolist()}")

# %% nbgrader={"grade": false, "grade_id": "card-skip-connection", "locked": false, "schema_version": 3, "solution": true, "task": false}
name = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-skip-connection-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-skip-connection", name)

# %% [markdown]
# ### 6 · Mean and spread (1 point · easy · 5 minutes)
#
# Two statistics of a tensor from one Function. Its author tested it with a loss that uses both.


# %%
class MeanSpread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.mean(), (x - x.mean()).square().mean()

    @staticmethod
    def backward(ctx, grad_mean: Tensor, grad_spread: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return (grad_mean + 2 * (x - x.mean()) * grad_spread) / x.numel()


for used in ("mean and spread", "spread"):
    mean, spread = MeanSpread.apply(x)
    try:
        (gradient,) = torch.autograd.grad(mean + spread if "mean" in used else spread, x)
        print(f"a loss of {used}: {gradient.tolist()}")
    except TypeError as error:
        print(f"a loss of {used}: {error}")

# %% nbgrader={"grade": false, "grade_id": "card-two-outputs", "locked": false, "schema_version": 3, "solution": true, "task": false}
name = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-two-outputs-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-two-outputs", name)

# %% [markdown]
# ### 7 · A tenth of the gradient ★ (1 point · medium · 8 minutes · needs "Writing in place: mark_dirty")
#
# A layer that passes everything on unchanged and lets a tenth of the gradient back, by intention. After `sin` it works. After `exp` it does not.


# %%
class Tenth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return 0.1 * grad_output


x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
for function in (torch.sin, torch.exp):
    try:
        (gradient,) = torch.autograd.grad(Tenth.apply(function(x)).sum(), x)
        print(f"after {function.__name__}: {gradient.tolist()}")
    except RuntimeError as error:
        print(f"after {function.__name__}: {str(error).partition(':')[0]}")

# %% nbgrader={"grade": false, "grade_id": "card-gradient-scale", "locked": false, "schema_version": 3, "solution": true, "task": false}
name = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-gradient-scale-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-gradient-scale", name)

# %% [markdown]
# ### 8 · The twins (1 point · easy · 5 minutes)
#
# A square. Alone it is right; in a network that compares two inputs it is used twice, and then the first gradient is wrong.


# %%
class Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        Weigh.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        return 2 * Weigh.x * grad_output


a = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
b = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
print("alone:   ", torch.autograd.grad(Weigh.apply(a), a)[0].item(), "– true: 6.0")
both = torch.autograd.grad(Weigh.apply(a) + Weigh.apply(b), (a, b))
print("together:", *(gradient.item() for gradient in both), "– true: 6.0 10.0")

# %% nbgrader={"grade": false, "grade_id": "card-twins", "locked": false, "schema_version": 3, "solution": true, "task": false}
name = ...
# YOUR CODE HERE

# %% nbgrader={"grade": true, "grade_id": "card-twins-grade", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
grade("card-twins", name)

# %% [markdown]
# ## Where you are
#
# The table below comes from your progress file, so it also counts what you solved on another day.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Take a Function of your own, or one from a library that you use, and go through the summary table of lesson 02 line by line. `autograd-course check module:Function` does the same from a terminal.
