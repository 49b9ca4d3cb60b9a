# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/12_compile_and_operators.ipynb)
#
# # 12 · torch.compile and custom operators: exercises
#
# You will remove graph breaks from a Function, wrap a NumPy routine as a custom operator, and make a loss safe under autocast. You may already have solved `repair-graph-breaks` in the lesson.
#
# **Given:** the task, the formulas, and code that works with an ordinary call to `backward()`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every exercise:** values and gradients stay right, and each gradient has the shape, dtype and device of its input. Large inputs, such as ±1000, give no nan, in float32 either. (In exercise 3, autograd may convert the dtype.) When the grader compiles something for the first time, grading takes a few seconds longer.
#
# 8 points, about 40 minutes (15 of them for the exercises with ★, which need an *extra* section).

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
import numpy as np
import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function

from autograd_course import grade, hint, progress
from autograd_course.lesson import show_error

# %% [markdown]
# ## 1 · Repair: graph breaks (2 points · medium · 10 minutes)
#
# The Huber loss is a parabola near zero and a straight line beyond $\delta$, so an outlier has a gradient of constant size:
#
# $$y = \begin{cases} x^2/2 & |x| \le \delta \\ \delta\,(|x| - \delta/2) & \text{else.} \end{cases}$$
#
# The Function below works in eager mode. It looks at values to save work, it counts outliers for a log, and it lets autograd compute its slope. The compiler stops in all three places.


# %%
class BrokenHuber(Function):
    outliers = 0

    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        if x.abs().max() <= delta:  # no outlier, so the parabola is enough
            return x**2 / 2
        BrokenHuber.outliers += 1
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            y = BrokenHuber.forward(x, ctx.delta)
        return torch.autograd.grad(y, x, grad_output)[0], None


errors = torch.tensor([-3.0, -0.4, 0.2, 1.5], dtype=torch.float64)
with show_error(characters=200):
    torch.compile(BrokenHuber.apply, backend="eager", fullgraph=True)(errors, 1.0)


# %% [markdown]
# **Write** a `forward` and a `backward` that return the same values and gradients. There must be no counter.
#
# **Constraint:** `torch.compile` turns the Function into one graph, even without `fullgraph=True`.


# %% nbgrader={"grade": false, "grade_id": "repair-graph-breaks", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Huber(Function):
    @staticmethod
    def forward(x: Tensor, delta: float) -> Tensor:
        ### BEGIN SOLUTION
        return torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2))
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, ctx.delta = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
        ### BEGIN SOLUTION
        (x,) = ctx.saved_tensors
        return x.clamp(-ctx.delta, ctx.delta) * grad_output, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-graph-breaks-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-graph-breaks", Huber)

# %% [markdown]
# ## 2 · A custom operator (4 points · hard · 15 minutes)
#
# A vendor's library contains a fast routine that you cannot change. Read its docstring: the routine works in place.


# %%
def vendor_sums(series: np.ndarray, width: int) -> np.ndarray:
    """Return the sums of `width` neighbors along the last axis.

    Works in place: the routine overwrites `series`, and the result is a view of it. A row of n
    numbers gives n - width + 1 sums.
    """
    np.cumsum(series, axis=-1, out=series)
    series[..., width:] -= series[..., :-width].copy()
    return series[..., width - 1 :]


print(vendor_sums(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 3))


# %% [markdown]
# **Write** the four functions of an operator that calls the routine: the operator, its fake, and the two functions for autograd. `x` is on the CPU and may have any number of leading dims. You may run the cell as often as you like, because each definition replaces the previous one.
#
# Each element of `x` is part of up to `width` windows. So $\partial L/\partial x_t$ is also a sum of neighbors, taken from `grad_output` padded with zeros at both ends.
#
# **Constraints:** the operator passes `opcheck`, can be differentiated twice, and compiles into one graph.


# %% nbgrader={"grade": false, "grade_id": "operator-window-sums", "locked": false, "schema_version": 3, "solution": true, "task": false}
@torch.library.custom_op("exercises::window_sums", mutates_args=())
def window_sums(x: Tensor, width: int) -> Tensor:
    ### BEGIN SOLUTION
    return torch.from_numpy(vendor_sums(x.numpy().copy(), width).copy())
    ### END SOLUTION


@window_sums.register_fake
def fake(x: Tensor, width: int) -> Tensor:
    ### BEGIN SOLUTION
    return x.new_empty((*x.shape[:-1], x.shape[-1] - width + 1))
    ### END SOLUTION


def setup_context(ctx, inputs, output) -> None:
    ### BEGIN SOLUTION
    ctx.width = inputs[1]
    ### END SOLUTION


def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None]:
    ### BEGIN SOLUTION
    beyond = ctx.width - 1
    return window_sums(torch.nn.functional.pad(grad_output, (beyond, beyond)), ctx.width), None
    ### END SOLUTION


window_sums.register_autograd(backward, setup_context=setup_context)


# %% nbgrader={"grade": true, "grade_id": "operator-window-sums-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("operator-window-sums", window_sums)

# %% [markdown]
# ## 3 · Repair: a loss under autocast ★ (2 points · medium · 15 minutes · needs "Autocast")
#
# In contrastive learning, each query $q_i$ should be closer to its own key $k_i$ than to the other keys. The loss is the cross entropy of the scores at a low temperature $\tau$:
#
# $$L_i = \log \sum_j e^{s_{ij}} - s_{ii}, \qquad s = \frac{q k^\top}{\tau} .$$
#
# With unit vectors and $\tau = 0.02$, the scores reach 50. In bfloat16, the neighbors of 50 are 49.75 and 50.25. The probabilities depend on differences between scores, so rounding can change a probability by a fifth.


# %%
class BrokenContrast(Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(q, k)
        ctx.temperature = temperature
        scores = q @ k.t() / temperature
        return torch.logsumexp(scores, 1) - scores.diagonal()

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        q, k = ctx.saved_tensors
        p = torch.softmax(q @ k.t() / ctx.temperature, 1)
        slope = (p - torch.eye(len(q), dtype=p.dtype, device=p.device)) * grad_output[:, None]
        return slope @ k / ctx.temperature, slope.t() @ q / ctx.temperature, None


rng = torch.Generator().manual_seed(0)
q = torch.nn.functional.normalize(torch.randn(12, 8, generator=rng))
k = torch.nn.functional.normalize(q + torch.randn(12, 8, generator=rng))
losses = BrokenContrast.apply(q, k, 0.02)
with torch.autocast("cpu", dtype=torch.bfloat16):
    error = (BrokenContrast.apply(q, k, 0.02) - losses).abs().max()
print(f"second loss {losses[1]:.1f}, largest error under autocast {error:.1f}")


# %% [markdown]
# **Write** the class `Contrast` with the same formulas. Both methods must compute in float32 whenever autocast is on. The inputs are float32, or bfloat16 if an earlier layer returns bfloat16. Some training loops call `backward()` inside the autocast block. Without autocast, the Function must not convert anything, so that the grader can pass float64.
#
# **Constraint:** under autocast, the losses and their gradients are the same as without it. The grader works on the CPU.

# %% nbgrader={"grade": false, "grade_id": "repair-autocast", "locked": false, "schema_version": 3, "solution": true, "task": false}
Contrast = ...


### BEGIN SOLUTION
class Contrast(BrokenContrast):
    forward = staticmethod(
        custom_fwd(BrokenContrast.forward, device_type="cpu", cast_inputs=torch.float32)
    )
    backward = staticmethod(custom_bwd(BrokenContrast.backward, device_type="cpu"))


### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "repair-autocast-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("repair-autocast", Contrast)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Run `diagnose(F, inputs, level="full")` on a Function from your own project. The report tells you what breaks under `torch.func`, `torch.compile` and autocast.
