# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/exercises/14_external_code.ipynb)
#
# # 14 · External code: exercises
#
# Lesson 14 gave a gradient to a loop in C++. Here you write an operator in C++ yourself, and then the Function around it.
#
# **Given:** the task, a complete operator to begin with, and the name and the signature of every class and function.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for the Function:**
#
# - Keep tensors that backward needs with `ctx.save_for_backward`.
# - Each gradient has the shape and the dtype of its input when it leaves `backward`.
# - The output has the dtype and the device of the input.
# - `backward` is a formula that you write down, not a call to autograd.
# - Where a task says *twice*, the second derivative must be right as well.
#
# 5 points, about 40 minutes. The first exercise needs a C++ compiler. Without one, the grader says so, and you can still solve the second exercise.

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
from autograd_course.lesson import build

# %% [markdown]
# ## 1 · Soft threshold in C++: the operator (3 points · hard · 30 minutes)
#
# The soft threshold sets small numbers to 0, because they are noise, and makes all other numbers smaller by the same amount:
#
# $$y = \operatorname{sign}(x) \cdot \max(|x| - t,\, 0) .$$
#
# Sparse regressions and many denoisers use it. In PyTorch it takes five operations, and each of them reads all of the memory. In C++ it is one loop.
#
# Begin with this complete operator. It multiplies every number by a factor, and it cannot do everything that an operator should:


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
# The first result is right. The second is wrong: the input is a column, `data_ptr` is the address of its first element, and the loop reads the elements that follow in memory. The third call raises an error, because the input is float32.


# %% [markdown]
# **Write** the source of an operator `soft_threshold(Tensor x, float t) -> Tensor`. (`float` in a schema is a `double` in C++.) `source()` returns it as text: begin with a copy of `MODEL`. The lesson's `decayed_sum.cpp` has the other pieces. The function below builds and calls it. To see what the compiler says, call `build(source())` in a new cell.
#
# **Constraints:** `x` may have any shape and any layout: transposed, every second column, expanded. It may be float32 or float64, and the result has its dtype. Any other dtype raises an error. `x` itself stays as it is.


# %% nbgrader={"grade": false, "grade_id": "soft-threshold-operator", "locked": false, "schema_version": 3, "solution": true, "task": false}
def source() -> str:
    # YOUR CODE HERE
    raise NotImplementedError


def soft_threshold(x: Tensor, threshold: float) -> Tensor:
    return build(source()).soft_threshold(x, threshold)


# %% nbgrader={"grade": true, "grade_id": "soft-threshold-operator-grade", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
grade("soft-threshold-operator", soft_threshold)

# %% [markdown]
# ## 2 · Soft threshold in C++: the Function (2 points · medium · 10 minutes)
#
# No gradient passes through the operator alone. **Write** the Function around it. The threshold is now a tensor with a single number. It is learned, so it gets a gradient too, and both gradients are right *twice*. At $|x| = t$ there is no derivative, and any choice is fine.
#
# **Constraint:** save nothing but the output. What backward needs to know about `x` can be read from `y`.
#
# If exercise 1 is still open, let `forward` compute `y` with PyTorch's operations: this exercise is about the gradient.


# %% nbgrader={"grade": false, "grade_id": "soft-threshold-function", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftThreshold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, threshold: Tensor) -> Tensor:
        # YOUR CODE HERE
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, Tensor]:
        # YOUR CODE HERE
        raise NotImplementedError


# %% nbgrader={"grade": true, "grade_id": "soft-threshold-function-grade", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
grade("soft-threshold-function", SoftThreshold)

# %% [markdown]
# ## Where you are


# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Where next
#
# Look for a C++ or CUDA operator in one of your projects. Who wrote its backward, and has anybody tested it with a `grad_output` that is not contiguous?
