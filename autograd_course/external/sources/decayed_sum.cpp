// A decayed running sum along the last dim: y[t] = x[t] + a · y[t-1], or + a · y[t+1] if reversed.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename T>
void run(const T* x, T a, bool reverse, T* y, int64_t rows, int64_t length) {
  for (int64_t row = 0; row < rows; ++row, x += length, y += length) {
    T sum = 0;
    for (int64_t step = 0; step < length; ++step) {
      const int64_t t = reverse ? length - 1 - step : step;
      y[t] = sum = x[t] + a * sum;
    }
  }
}

template <typename T>
void run(const Tensor& x, double a, bool reverse, Tensor& y) {
  const int64_t length = x.size(x.dim() - 1), rows = length ? x.numel() / length : 0;
  run<T>(static_cast<const T*>(x.data_ptr()), static_cast<T>(a), reverse,
         static_cast<T*>(y.data_ptr()), rows, length);
}

Tensor decayed_sum(const Tensor& given, double a, bool reverse) {
  STD_TORCH_CHECK(given.dim() > 0, "decayed_sum: x needs at least one dim");
  const Tensor x = torch::stable::contiguous(given);  // the loops above read memory in order
  Tensor y = torch::stable::empty_like(x);
  if (x.scalar_type() == ScalarType::Float) {
    run<float>(x, a, reverse, y);
  } else {
    const bool fits = x.scalar_type() == ScalarType::Double;
    STD_TORCH_CHECK(fits, "decayed_sum: x must be float32 or float64");
    run<double>(x, a, reverse, y);
  }
  return y;
}

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
  m.def("decayed_sum(Tensor x, float a, bool reverse) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CPU, m) {
  m.impl("decayed_sum", TORCH_BOX(&decayed_sum));
}
