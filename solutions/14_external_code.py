# %% [markdown]
# [Open in Colab](https://colab.research.google.com/github/autograd-course/autograd_course/blob/main/solutions/14_external_code.ipynb)
#
# # 14 · External code: exercises
#
# In lesson 14 you added a gradient to a loop in C++. Here you write an operator in C++ yourself, and then the Function around it. You may already have solved `soft-threshold-function` in the lesson.
#
# **Given:** the task, a complete operator to start from, and the signatures of all functions and methods.
#
# **To write:** wherever a cell says `# YOUR CODE HERE`, replace that line and the `raise` below it.
#
# **Constraints for the Function:**
#
# - Save the tensors that backward needs with `ctx.save_for_backward`. Keep no tensor anywhere else, such as in a global variable.
# - `backward` returns each gradient with the shape, dtype and device of its input.
# - Large inputs, such as ±1000, give no nan, in float32 either.
# - The output has the dtype and the device of the input.
# - `backward` computes a formula that you derived. It calls neither autograd nor PyTorch's own `…_backward` functions.
#
# 5 points, about 40 minutes. The first exercise needs a C++ compiler. If you have no compiler, the grader tells you so, and you can still solve the second exercise.

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
from autograd_course.lesson import build, show_error

# %% [markdown]
# ## 1 · Soft threshold in C++: the operator (3 points · hard · 30 minutes)
#
# The *soft threshold* sets small numbers to 0, because they are probably noise. It moves all other numbers toward 0 by the same amount:
#
# $$y = \operatorname{sign}(x) \cdot \max(|x| - t,\, 0) .$$
#
# Sparse regression and many denoisers use it. In PyTorch, it takes five operations, each of which reads and writes a whole tensor. In C++, it takes only one loop.
#
# Start from this complete operator, which multiplies every number by a factor. It is correct only for some inputs:


# %%
MODEL = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

Tensor scaled(const Tensor& x, double factor) {
  STD_TORCH_CHECK(x.scalar_type() == ScalarType::Double, "scaled: x must be float64");
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
with show_error():
    scaled = build(MODEL, name="model").scaled
    for given in (x.double(), x.double()[:, 0], x):
        print(given.tolist(), "→", scaled(given, 10.0).tolist())

# %% [markdown]
# The first result is right. The second one is wrong, because the input is a column of a matrix. `data_ptr` is the address of its first element, and the loop reads the elements that follow in memory. The third call raises an error, because the input is float32.


# %% [markdown]
# **Write** the source of an operator `soft_threshold(Tensor x, float t) -> Tensor`. A `float` in a schema is a `double` in C++. `source()` returns the source as text. Start from a copy of `MODEL`, and keep its `#include` lines. The source of `decayed_sum` in the lesson shows the other parts that you need. The function `soft_threshold` below builds the operator and calls it. To see the compiler's messages, call `build(source())` in a new cell.
#
# **Constraints:**
#
# - `x` may have any shape and any memory layout. For example, it may be transposed, expanded, or a slice with every second column.
# - `x` may be float32 or float64, and the result has the same dtype. For any other dtype, the operator raises an error.
# - The operator does not change `x`.


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
# ## 2 · Soft threshold in C++: the Function (2 points · medium · 10 minutes)
#
# No gradient passes through the operator alone. **Write** a Function that calls it. The threshold is now a tensor with a single number. The model learns this number, so it also gets a gradient. At $|x| = t$, the soft threshold has no derivative, and the grader accepts any value there.
#
# If you have not solved exercise 1 yet, compute `y` with PyTorch's operations in `forward`. This exercise is about the gradient.
#
# **Constraints:**
#
# - Save nothing but the output. It contains all that backward needs to know about `x`.
# - The Function supports double backward.


# %% nbgrader={"grade": false, "grade_id": "soft-threshold-function", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SoftThreshold(Function):
    @staticmethod
    def forward(x: Tensor, threshold: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return soft_threshold(x, threshold.item())
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ### BEGIN SOLUTION
        ctx.save_for_backward(output)
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
# Look for a C++ or CUDA operator in one of your projects. Does a test call its `backward` with a non-contiguous `grad_output`? If not, run `diagnose` on it.
