// A decayed running sum on a GPU: one thread computes each row, forward or backward in time.
#include <cuda_runtime.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename T>
__global__ void run(const T* x, T a, bool reverse, T* y, int64_t rows, int64_t length) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  T sum = 0;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t t = row * length + (reverse ? length - 1 - step : step);
    y[t] = sum = x[t] + a * sum;
  }
}

template <typename T>
void launch(const Tensor& x, double a, bool reverse, Tensor& y, cudaStream_t stream) {
  const int64_t length = x.size(x.dim() - 1), rows = length ? x.numel() / length : 0;
  if (rows == 0) return;  // a grid without blocks is an error
  const unsigned threads = 128, blocks = unsigned((rows + threads - 1) / threads);
  run<T><<<blocks, threads, 0, stream>>>(
      static_cast<const T*>(x.data_ptr()), static_cast<T>(a), reverse,
      static_cast<T*>(y.data_ptr()), rows, length);
  STD_CUDA_KERNEL_LAUNCH_CHECK();  // raise an error here if the launch failed
}

Tensor decayed_sum(const Tensor& given, double a, bool reverse) {
  STD_TORCH_CHECK(given.dim() > 0, "decayed_sum: x needs at least one dim");
  const int32_t device = given.get_device_index();
  const torch::stable::accelerator::DeviceGuard guard(device);  // the tensor's GPU, not GPU 0
  void* stream = nullptr;  // PyTorch's current stream, not the default one
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  const Tensor x = torch::stable::contiguous(given);
  Tensor y = torch::stable::empty_like(x);
  if (x.scalar_type() == ScalarType::Float) {
    launch<float>(x, a, reverse, y, static_cast<cudaStream_t>(stream));
  } else {
    const bool fits = x.scalar_type() == ScalarType::Double;
    STD_TORCH_CHECK(fits, "decayed_sum: x must be float32 or float64");
    launch<double>(x, a, reverse, y, static_cast<cudaStream_t>(stream));
  }
  return y;
}

STABLE_TORCH_LIBRARY_FRAGMENT(TORCH_EXTENSION_NAME, m) {
  m.def("decayed_sum(Tensor x, float a, bool reverse) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(TORCH_EXTENSION_NAME, CUDA, m) {
  m.impl("decayed_sum", TORCH_BOX(&decayed_sum));
}
