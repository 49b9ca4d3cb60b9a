# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/13_external_code.ipynb)
#
# # 13 · External code: exercises
#
# Lesson 13 took solvers that PyTorch cannot see, and a loop in C++, and gave each a gradient. Here you do so with a special function of SciPy, with a layer that is run to its fixed point, and with a triangular system; then you write an operator in C++, and the Function around it.
#
# **Given:** the task, the equation that is solved, the solver, and the name and the signature of every class and function.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for every Function:**
#
# - Tensors that backward needs are kept by `ctx.save_for_backward`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - The output has the dtype and the device of the input, whatever the solver returns.
# - `backward` is a formula that you write down, not a call of autograd. (Exercise 2 may record one round of its layer.)
# - Where a task says *twice*, the second derivative must be right as well.
#
# 15 points, about 90 minutes. The fourth exercise needs a C++ compiler; where there is none, the grader says so, and the others can be solved all the same.

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
from autograd_course.lesson import build

# %% [markdown]
# ## 1 · A special function of SciPy (3 points · medium · 10 minutes)
#
# What current does a solar cell deliver through its own resistance? How much is left of a substance that an enzyme works on? Both times an unknown stands beside its own exponential, and the answer is *Lambert's W*: the $w$ for which
#
# $$w \, e^w = x .$$
#
# No formula made of PyTorch's functions gives it. SciPy has it: `scipy.special.lambertw(array)`. It was written for complex numbers, and that is what it returns, also where $x \ge 0$ and their imaginary parts are 0, as here.
#
# **Write** both methods, for `x` of any shape. Nobody gives you the derivative: differentiate the equation.
#
# **Constraints:** right *twice*, also at $x = 0$. Float32 stays float32.


# %% nbgrader={"grade": false, "grade_id": "lambert-w", "locked": false, "schema_version": 3, "solution": true, "task": false}
class LambertW(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        w = scipy.special.lambertw(x.numpy(force=True)).real
        w = torch.as_tensor(w, dtype=x.dtype, device=x.device)
        ctx.save_for_backward(w)
        return w
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (w,) = ctx.saved_tensors
        return grad_output * torch.exp(-w) / (1 + w)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lambert-w-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("lambert-w", LambertW)

# %% [markdown]
# ## 2 · A fixed-point layer (4 points · hard · 20 minutes)
#
# An equilibrium layer applies one and the same layer to its own output, again and again, until nothing changes any more:
#
# $$z = \tanh(z\, W^\top + x) .$$
#
# `x` and `z` have shape `(rows, n)`, `W` has shape `(n, n)` and is small enough for a fixed point to exist. The solver is given:


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
# **Write** both methods. The lesson's Function takes any $f$ and lets autograd go back through one call of it. Here $f$ is known: one round is a product and a tanh, so backward can be a formula with one call of `settled` in it. (Recording a single round is allowed too. So is `torch.linalg.solve`.)
#
# **Constraint:** kept are `x`, `W` and the solution, and no round of the solver; nor does backward run the rounds again.


# %% nbgrader={"grade": false, "grade_id": "equilibrium-layer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, W: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        z = settled(lambda z: torch.tanh(z @ W.t() + x), torch.zeros_like(x))
        ctx.save_for_backward(W, z)
        return z
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        W, z = ctx.saved_tensors
        slope = 1 - z**2
        u = settled(lambda u: grad_output + (u * slope) @ W, grad_output)
        v = u * slope
        return v, v.t() @ z
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "equilibrium-layer-grade", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
grade("equilibrium-layer", Equilibrium)

# %% [markdown]
# ## 3 · A triangular system, twice (3 points · hard · 20 minutes)
#
# To make correlated numbers uncorrelated, one factors their covariance as $T T^\top$ and solves $T X = B$. $T$ is triangular, so the first equation has one unknown, the second one more, and so on. SciPy does it: `scipy.linalg.solve_triangular(T, B, lower=True)`.
#
# `T` has shape `(n, n)`, and `B` and `X` have shape `(n, k)`: every column is a right-hand side of its own. With `lower=False` the upper half of `T` is used. **The other half is never read**, whatever it holds: factorizations leave old numbers there.
#
# **Write** both methods.
#
# **Constraints:** right *twice*. Nobody inverts a matrix: backward solves one more triangular system.


# %% nbgrader={"grade": false, "grade_id": "triangular-solve", "locked": false, "schema_version": 3, "solution": true, "task": false}
class TriangularSolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        ### BEGIN SOLUTION
        arrays = T.numpy(force=True), B.numpy(force=True)
        X = scipy.linalg.solve_triangular(*arrays, lower=lower)
        X = torch.as_tensor(X, dtype=B.dtype, device=B.device)
        ctx.save_for_backward(T, X)
        ctx.lower = lower
        return X
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        ### BEGIN SOLUTION
        T, X = ctx.saved_tensors
        U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)
        grad_T = -U @ X.mT
        return grad_T.tril() if ctx.lower else grad_T.triu(), U, None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "triangular-solve-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("triangular-solve", TriangularSolve)

# %% [markdown]
# ## 4 · Soft threshold in C++: the operator (3 points · hard · 30 minutes)
#
# What is small is noise, and what is large is too large by as much:
#
# $$y = \operatorname{sign}(x) \cdot \max(|x| - t,\, 0) .$$
#
# Every sparse regression and many a denoiser has this step. Written with PyTorch it is five operations, and each goes through all of the memory; in C++ it is one loop.
#
# Here is a complete operator to begin with. It multiplies every number by a factor, and it can do less than an operator should:


# %%
MODEL = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor scaled(const Tensor& x, double factor) {
  STD_TORCH_CHECK(x.scalar_type() == ScalarType::Double, "scaled: x is to be float64");
  Tensor y = torch::stable::empty_like(x);
  const double* from = static_cast<const double*>(x.data_ptr());
  double* to = static_cast<double*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = factor * from[i];
  }
  return y;
}

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
  m.def("scaled(Tensor x, float factor) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
  m.impl("scaled", TORCH_BOX(&scaled));
}
"""

# %%
x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
for given in (x.double(), x.double()[:, 0], x):
    try:
        print(given.tolist(), "→", build(MODEL, name="model").scaled(given, 10.0).tolist())
    except RuntimeError as error:
        print(given.tolist(), "→", str(error).splitlines()[0].rpartition(", ")[2])

# %% [markdown]
# The first is right. The second, a column, is wrong: `data_ptr` is the address of its first element, and the loop takes what lies behind that. The third is refused.


# %% [markdown]
# **Write** the source of an operator `soft_threshold(Tensor x, float t) -> Tensor`. (`float` in a schema is a `double` in C++.) `source()` returns it as text: begin with a copy of `MODEL`. The lesson's `decayed_sum.cpp` has the other pieces. The function below builds and calls it; to see what the compiler says, call `build(source())` in a cell of your own.
#
# **Constraints:** `x` may have any shape and any layout: transposed, every second column, expanded. It may be float32 or float64, and the result has its dtype; any other dtype is refused by an error. `x` itself stays as it is.


# %% nbgrader={"grade": false, "grade_id": "soft-threshold-operator", "locked": false, "schema_version": 3, "solution": true, "task": false}
def source() -> str:
    ### BEGIN SOLUTION
    return r"""
    #include <torch/csrc/stable/library.h>
    #include <torch/csrc/stable/ops.h>
    #include <torch/csrc/stable/tensor.h>
    using torch::headeronly::ScalarType;
    using torch::stable::Tensor;

    template <typename T>
    void run(const Tensor& x, T t, Tensor& y) {
      const T* from = static_cast<const T*>(x.data_ptr());
      T* to = static_cast<T*>(y.data_ptr());
      for (int64_t i = 0; i < x.numel(); ++i) {
        to[i] = from[i] > t ? from[i] - t : from[i] < -t ? from[i] + t : T(0);
      }
    }
    Tensor soft_threshold(const Tensor& given, double t) {
      const auto dtype = given.scalar_type();
      STD_TORCH_CHECK(dtype == ScalarType::Float || dtype == ScalarType::Double, "wrong dtype");
      const Tensor x = torch::stable::contiguous(given);
      Tensor y = torch::stable::empty_like(x);
      dtype == ScalarType::Float ? run<float>(x, t, y) : run<double>(x, t, y);
      return y;
    }
    STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
      m.def("soft_threshold(Tensor x, float t) -> Tensor");
    }
    STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
      m.impl("soft_threshold", TORCH_BOX(&soft_threshold));
    }
    """
    ### END SOLUTION


def soft_threshold(x: Tensor, threshold: float) -> Tensor:
    return build(source()).soft_threshold(x, threshold)


# %% nbgrader={"grade": true, "grade_id": "soft-threshold-operator-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("soft-threshold-operator", soft_threshold)

# %% [markdown]
# ## 5 · Soft threshold in C++: the Function (2 points · medium · 10 minutes)
#
# To autograd the operator is a dead end. **Write** the Function around it. The threshold is now a tensor with a single number, and it is learned: it gets a gradient too, and right *twice*. At $|x| = t$ there is no derivative, and any choice is fine.
#
# **Constraint:** nothing but the output is kept. What backward has to know of `x` can be read from `y`.
#
# If exercise 4 is still open, let `forward` compute `y` by PyTorch's operations: this exercise is about the gradient.


# %% nbgrader={"grade": false, "grade_id": "soft-threshold-function", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftThreshold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, threshold: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        y = soft_threshold(x, threshold.item())
        ctx.save_for_backward(y)
        return y
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        (y,) = ctx.saved_tensors
        return grad_output * (y != 0), -(grad_output * y.sign()).sum()
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "soft-threshold-function-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("soft-threshold-function", SoftThreshold)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Look into a project of yours for a `.detach().numpy()` on the way to a loss. Which gradient ends there, and did anybody mean it to?
