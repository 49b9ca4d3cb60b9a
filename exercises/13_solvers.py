# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/13_solvers.ipynb)
#
# # 13 · Solvers: exercises
#
# Lesson 13 gave a gradient to solvers that PyTorch cannot see. Here you do the same for a special function of SciPy, for a layer that runs to its fixed point, and for a triangular system.
#
# **Given:** the task, the equation that is solved, the solver, and the name and the signature of every class and function.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - Keep tensors that backward needs with `ctx.save_for_backward`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - The output has the dtype and the device of the input, whatever the solver returns.
# - `backward` is a formula that you write down, not a call to autograd. (Exercise 2 may record one round of its layer.)
# - Where a task says *twice*, the second derivative must be right as well.
#
# 10 points, about 50 minutes.

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
import scipy
import torch
from torch import Tensor

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · A special function of SciPy (3 points · medium · 10 minutes)
#
# What current does a solar cell deliver through its own resistance? How much is left of a substance that an enzyme works on? In both problems an unknown is multiplied by its own exponential, and the answer is *Lambert's W*: the $w$ for which
#
# $$w \, e^w = x .$$
#
# You cannot write it as a formula of PyTorch's functions. SciPy has it: `scipy.special.lambertw(array)`. SciPy's function returns complex numbers. Here $x \ge 0$, so their imaginary parts are 0.
#
# **Write** both methods, for `x` of any shape. Find the derivative yourself: differentiate the equation.
#
# **Constraints:** right *twice*, also at $x = 0$. Float32 stays float32.


# %% nbgrader={"grade": false, "grade_id": "lambert-w", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LambertW(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "lambert-w-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("lambert-w", LambertW)

# %% [markdown]
# ## 2 · A fixed-point layer (4 points · hard · 20 minutes)
#
# An equilibrium layer applies the same layer to its own output, again and again, until nothing changes any more:
#
# $$z = \tanh(z\, W^\top + x) .$$
#
# `x` and `z` have shape `(rows, n)`, `W` has shape `(n, n)`, and its entries are so small that a fixed point exists. The solver is given:


# %%
def settled(step, start: Tensor) -> Tensor:
    """Return the z with z = step(z), found by repeating the step from start."""
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("not settled after 200 rounds")


# %% [markdown]
# **Write** both methods. The lesson's Function takes any $f$, and autograd goes back through one call of it. Here you know $f$: one round is a product and a tanh. So backward can be a formula that calls `settled` once. (You may also record a single round, or use `torch.linalg.solve`.)
#
# **Constraint:** save `x`, `W` and the solution, but no round of the solver. Do not run the rounds again in backward.


# %% nbgrader={"grade": false, "grade_id": "equilibrium-layer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, W: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "equilibrium-layer-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("equilibrium-layer", Equilibrium)

# %% [markdown]
# ## 3 · A triangular system, twice (3 points · hard · 20 minutes)
#
# To make correlated numbers uncorrelated, you factor their covariance as $T T^\top$ and solve $T X = B$. $T$ is triangular, so the first equation has one unknown, the second has two, and so on. SciPy solves it: `scipy.linalg.solve_triangular(T, B, lower=True)`.
#
# `T` has shape `(n, n)`, and `B` and `X` have shape `(n, k)`: each column of `B` is a separate right-hand side. With `lower=False` the upper half of `T` is used. **The other half is never read**, whatever it contains: factorizations leave old numbers there.
#
# **Write** both methods.
#
# **Constraints:** right *twice*. Do not invert a matrix: backward solves one more triangular system.


# %% nbgrader={"grade": false, "grade_id": "triangular-solve", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TriangularSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "triangular-solve-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("triangular-solve", TriangularSolve)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Look for a `.detach().numpy()` on the way to a loss in one of your projects. Which gradient ends there, and was that intended?
