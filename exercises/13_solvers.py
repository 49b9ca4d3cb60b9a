# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/13_solvers.ipynb)
#
# # 13 · Solvers: exercises
#
# Lesson 13 showed how to differentiate the solution of an equation. Here you will write Functions for a special function from SciPy, for Kepler's equation, for a layer that is iterated to its fixed point, and for a triangular system. You may already have solved `lambert-w` and `kepler` in the lesson.
#
# **Given:** the task, the equation, the solver, and the signatures of all methods. Each class has a separate `forward` and `setup_context`.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - Use `ctx.save_for_backward` to save the tensors that `backward` needs. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - The output has the dtype and the device of the input, even if the solver returns a different dtype.
# - `backward` evaluates a formula that you derive. It calls neither autograd nor PyTorch's own `…_backward` functions. (In exercise 3, it may record one call to the layer.)
# - Where a task says *twice*, the second derivative must also be right.
#
# 12 points, about 60 minutes.

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
import scipy
import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course import diagnose, grade, hint, progress

# %% [markdown]
# ## 1 · A special function of SciPy (3 points · medium · 10 minutes)
#
# *Lambert's W* is the $w$ that solves the equation
#
# $$w \, e^w = x .$$
#
# It gives the current of a solar cell with an internal resistance, and the amount of a substance that an enzyme has not yet converted. PyTorch does not have this function, but SciPy does: `scipy.special.lambertw(array)`. SciPy returns complex numbers, but their imaginary parts are 0 for $x \ge 0$.
#
# **Write** the three methods, for `x` of any shape. Differentiate the equation to find the derivative.
#
# **Constraints:** the Function is differentiable *twice*, even at $x = 0$. Float32 stays float32.


# %% nbgrader={"grade": false, "grade_id": "lambert-w", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LambertW(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "lambert-w-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("lambert-w", LambertW)

# %% [markdown]
# ## 2 · Kepler's equation (2 points · medium · 10 minutes)
#
# The position of a planet on its orbit follows from the angle $E$ that solves the equation
#
# $$E - e \sin E = M .$$
#
# $M$ grows with time, and the eccentricity $e$ says how elongated the orbit is. This solver returns $E$ for $0 \le M \le 2\pi$ and $0 < e < 1$:


# %%
def solve_kepler(M, e):
    """Return the E with E - e sin E = M, for NumPy arrays, M from 0 to 2π."""

    def error(E):
        return E - e * np.sin(E) - M

    def slope(E):
        return 1 - e * np.cos(E)

    return scipy.optimize.newton(error, np.full_like(M, np.pi), slope, tol=1e-13)


# %% [markdown]
# **Write** `setup_context` and `backward`. `M` may have any shape, and `e` is a single number (0-dim).
#
# **Constraints:** the Function is differentiable *twice*. The gradient of `e` has the same shape as `e`.


# %% nbgrader={"grade": false, "grade_id": "kepler", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Kepler(Function):
    @staticmethod
    def forward(M: Tensor, e: Tensor) -> Tensor:
        E = solve_kepler(M.numpy(force=True), e.numpy(force=True))
        return torch.as_tensor(E, dtype=M.dtype, device=M.device)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "kepler-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("kepler", Kepler)

# %% [markdown]
# ## 3 · A fixed-point layer (4 points · hard · 20 minutes)
#
# An equilibrium layer repeatedly applies one layer to its own output until the output no longer changes:
#
# $$z = \tanh(z\, W^\top + x) .$$
#
# `x` and `z` have shape `(rows, n)`, and `W` has shape `(n, n)`. The entries of `W` are small enough that a fixed point exists. The solver is given:


# %%
def settled(step, start: Tensor) -> Tensor:
    """Return the z with z = step(z), found by repeating the step from start."""
    z, near = start, 4 * torch.finfo(start.dtype).eps
    for _ in range(200):
        z, before = step(z), z
        if not z.numel() or (z - before).abs().max() <= near:
            return z
    raise RuntimeError("no convergence after 200 rounds")


# %% [markdown]
# **Write** the three methods. The Function in the lesson takes any $f$, and autograd backpropagates through one call to $f$. Here you know $f$, so `backward` can be a formula that calls `settled` once. (You may also record a single call to the layer, or use `torch.linalg.solve`.)
#
# **Constraint:** you may save `x`, `W` and the solution, but none of the solver's rounds. Do not run the rounds again in `backward`.


# %% nbgrader={"grade": false, "grade_id": "equilibrium-layer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Equilibrium(Function):
    @staticmethod
    def forward(x: Tensor, W: Tensor) -> Tensor:
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


# %% nbgrader={"grade": true, "grade_id": "equilibrium-layer-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("equilibrium-layer", Equilibrium)

# %% [markdown]
# ## 4 · A triangular system, twice (3 points · hard · 20 minutes)
#
# To remove the correlation between random numbers, you factor their covariance as $T T^\top$ and solve $T X = B$. The matrix $T$ is triangular, so the first equation has one unknown, the second has two, and so on. SciPy solves such a system with `scipy.linalg.solve_triangular(T, B, lower=True)`.
#
# `T` has shape `(n, n)`. `B` and `X` have shape `(n, k)`, and each column of `B` is a separate right-hand side. With `lower=False`, SciPy uses the upper half of `T`. **The other half is never read.** It can contain arbitrary numbers, because factorizations leave old values there.
#
# **Write** the three methods.
#
# **Constraints:** the Function is differentiable *twice*. Do not invert a matrix, because `backward` has to solve only one more triangular system.


# %% nbgrader={"grade": false, "grade_id": "triangular-solve", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TriangularSolve(Function):
    @staticmethod
    def forward(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
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
# Look for a `.detach().numpy()` between a parameter and a loss in one of your projects. Which gradient ends there, and did you intend that?
