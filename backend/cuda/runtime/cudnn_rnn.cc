#include "backend/cuda/runtime/cudnn_rnn.h"

#include <cuda_runtime.h>
#include <cudnn.h>

#include <vector>

#include "backend/cuda/runtime/cudnn.h"
#include "backend/cuda/runtime/cudnn_descriptor.h"
#include "base/error.h"

namespace amp::cuda {

namespace {

using RnnDescriptor = Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using DataDescriptor =
    Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using DropoutDescriptor =
    Descriptor<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;

cudnnRNNMode_t mode_of(RecurrentCell c) {
  switch (c) {
    case RecurrentCell::rnn_tanh:
      return CUDNN_RNN_TANH;
    case RecurrentCell::rnn_relu:
      return CUDNN_RNN_RELU;
    case RecurrentCell::lstm:
      return CUDNN_LSTM;
    case RecurrentCell::gru:
      return CUDNN_GRU;
  }
  bug("a kind of recurrent cell");
}

class Layer final : public LibraryRecurrence {
 public:
  Layer(CudaDevice& device, Cudnn& cudnn, const Recurrence& what)
      : device_(device),
        owner_(cudnn.handle()),
        handle_(cudnn.raw()),
        stream_(static_cast<cudaStream_t>(device.stream())),
        what_(what),
        gates_(library_gates(what.cell)) {}

  bool prepare(Cudnn& cudnn, bool tf32) {
    const int T = static_cast<int>(what_.time), B = static_cast<int>(what_.batch), H = static_cast<int>(what_.hidden);
    const int G = static_cast<int>(gates_.size());
    type_ = what_.type == DType::f16    ? CUDNN_DATA_HALF
            : what_.type == DType::bf16 ? CUDNN_DATA_BFLOAT16
                                        : CUDNN_DATA_FLOAT;
    const cudnnMathType_t math = what_.type != DType::f32 ? CUDNN_TENSOR_OP_MATH
                                 : tf32                   ? CUDNN_DEFAULT_MATH
                                                          : CUDNN_FMA_MATH;
    const bool gru = what_.cell == RecurrentCell::gru;
    if (!good(cudnnSetDropoutDescriptor(none_, handle_, 0.0f, nullptr, 0, 0)) ||
        !good(cudnnSetRNNDescriptor_v8(rnn_, CUDNN_RNN_ALGO_STANDARD, mode_of(what_.cell),
                                       gru ? CUDNN_RNN_SINGLE_REC_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL,
                                       CUDNN_LINEAR_INPUT, type_, CUDNN_DATA_FLOAT, math, G * H, H, H, 1, none_, 0)))
      return false;
    const std::vector<int> lengths(static_cast<size_t>(B), T);
    const auto data = [&](const DataDescriptor& d, int width) {
      return good(cudnnSetRNNDataDescriptor(d, type_, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, T, B, width,
                                            lengths.data(), nullptr));
    };
    const int dims[3] = {1, B, H}, steps[3] = {B * H, H, 1};
    if (!data(x_, G * H) || !data(y_, H) || !good(cudnnSetTensorNdDescriptor(state_, type_, 3, dims, steps)) ||
        !good(cudnnGetRNNWeightSpaceSize(handle_, rnn_, &weight_bytes_)) ||
        !good(cudnnGetRNNTempSpaceSizes(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, x_, &work_bytes_, &reserve_bytes_)))
      return false;
    if (work_bytes_ > static_cast<size_t>(Cudnn::kMostWorkspace)) return false;
    weights_ = device_.allocate(static_cast<int64_t>(weight_bytes_));  // zeros
    gradients_ = device_.allocate(static_cast<int64_t>(weight_bytes_));
    reserve_ = device_.allocate(static_cast<int64_t>(reserve_bytes_));
    no_gradient_ = device_.allocate(what_.time * what_.batch * what_.hidden * size_of(what_.type));
    work_ = cudnn.workspace(static_cast<int64_t>(work_bytes_));
    lengths_ = device_.allocate(4 * what_.batch);
    const std::vector<int32_t> on_device(static_cast<size_t>(B), T);
    device_.upload(lengths_.get(), on_device.data(), 4 * what_.batch);
    return find_weights();
  }

  std::string name() const override { return "cuDNN"; }
  bool may_wait() const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream_, &status) == cudaSuccess && status == cudaStreamCaptureStatusNone;
  }

  bool forward(const RecurrenceOperands& o) override {
    const int64_t block = what_.hidden * what_.hidden * size_of(what_.type);
    for (size_t q = 0; q < gates_.size(); ++q)
      device_.copy(recurrent_[q], static_cast<const char*>(o.R) + gates_[q] * block, block);
    if (bias_) {
      if (o.rb)
        device_.copy(bias_, o.rb, what_.hidden * size_of(what_.type));
      else
        device_.fill(bias_, 0, what_.hidden * size_of(what_.type));
    }
    return good(cudnnRNNForward(handle_, rnn_, CUDNN_FWD_MODE_TRAINING, lengths(), x_, o.xg, y_, o.y, state_, o.h0, o.h,
                                state_, o.c0, o.c, weight_bytes_, weights_.get(), work_bytes_, work_.get(),
                                reserve_bytes_, reserve_.get()));
  }

  bool backward(const RecurrenceOperands& o) override {
    const void* const dy = o.dy ? o.dy : no_gradient_.get();
    if (!good(cudnnRNNBackwardData_v8(handle_, rnn_, lengths(), y_, o.y, dy, x_, o.dxg, state_, o.h0, o.dh, o.dh0,
                                      state_, o.c0, o.dc, o.dc0, weight_bytes_, weights_.get(), work_bytes_,
                                      work_.get(), reserve_bytes_, reserve_.get())))
      return false;
    device_.fill(gradients_.get(), 0, static_cast<int64_t>(weight_bytes_));
    // The gradient of the zeros and ones is nobody's, so that any numbers will do for the input.
    if (!good(cudnnRNNBackwardWeights_v8(handle_, rnn_, CUDNN_WGRAD_MODE_ADD, lengths(), x_, o.dxg, state_, o.h0, y_,
                                         o.y, weight_bytes_, gradients_.get(), work_bytes_, work_.get(), reserve_bytes_,
                                         reserve_.get())))
      return false;
    const int64_t block = what_.hidden * what_.hidden * size_of(what_.type);
    for (size_t q = 0; q < gates_.size(); ++q)
      device_.copy(static_cast<char*>(o.dR) + gates_[q] * block, gradient_of(recurrent_[q]), block);
    if (bias_ && o.drb) device_.copy(o.drb, gradient_of(bias_), what_.hidden * size_of(what_.type));
    return true;
  }

 private:
  const int32_t* lengths() const { return static_cast<const int32_t*>(lengths_.get()); }
  const char* gradient_of(const void* weight) const {
    return static_cast<const char*>(gradients_.get()) +
           (static_cast<const char*>(weight) - static_cast<const char*>(weights_.get()));
  }

  // Where the library keeps gate `id`'s matrix (rows, columns close), or its bias.
  bool locate(int id, int64_t elements, void** matrix, void** bias) {
    const TensorDescriptor m, b;
    if (!good(cudnnGetRNNWeightParams(handle_, rnn_, 0, weight_bytes_, weights_.get(), id, m, matrix, b, bias)))
      return false;
    cudnnDataType_t type;
    int rank = 0, dims[3] = {}, steps[3] = {};
    if (!good(cudnnGetTensorNdDescriptor(m, 3, &type, &rank, dims, steps)) || rank != 3) return false;
    return *matrix && type == type_ && int64_t{dims[0]} * dims[1] * dims[2] == elements && steps[2] == 1 &&
           steps[1] == dims[2];
  }

  // The input's matrices get their ones, once; where the recurrent ones lie is noted.
  bool find_weights() {
    const auto G = static_cast<int64_t>(gates_.size()), H = what_.hidden, size = size_of(what_.type);
    for (int64_t q = 0; q < G; ++q) {
      void *matrix = nullptr, *bias = nullptr;
      if (!locate(static_cast<int>(q), H * G * H, &matrix, &bias)) return false;
      HostTensor ones = HostTensor::zeros(DType::f32, {H, G * H});
      for (int64_t k = 0; k < H; ++k) ones.as_mutable<float>()[k * G * H + gates_[static_cast<size_t>(q)] * H + k] = 1;
      const HostTensor stored = ones.cast(what_.type);
      device_.upload(matrix, stored.data(), H * G * H * size);
      if (!locate(static_cast<int>(G + q), H * H, &matrix, &bias)) return false;
      recurrent_.push_back(matrix);
      if (what_.cell == RecurrentCell::gru && q == 2) bias_ = bias;  // of the new state's gate, behind the reset
    }
    return what_.cell != RecurrentCell::gru || bias_;
  }

  CudaDevice& device_;
  std::shared_ptr<void> owner_;
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  Recurrence what_;
  std::vector<int> gates_;
  cudnnDataType_t type_ = CUDNN_DATA_FLOAT;
  RnnDescriptor rnn_;
  DropoutDescriptor none_;
  DataDescriptor x_, y_;
  TensorDescriptor state_;
  size_t weight_bytes_ = 0, work_bytes_ = 0, reserve_bytes_ = 0;
  DeviceMemory weights_, gradients_, reserve_, no_gradient_, work_, lengths_;
  std::vector<void*> recurrent_;
  void* bias_ = nullptr;
};

}  // namespace

std::shared_ptr<LibraryRecurrence> plan_recurrence(CudaDevice& device, Cudnn& cudnn, const Recurrence& what,
                                                   bool tf32) {
  if (what.type == DType::f32 && !tf32) return nullptr;
  constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
  if (what.time * what.batch * what.hidden * 4 > kLimit || what.time * what.batch * what.hidden == 0) return nullptr;
  if (!cudnn.open()) return nullptr;
  const auto layer = std::make_shared<Layer>(device, cudnn, what);
  try {
    if (!layer->prepare(cudnn, tf32)) return nullptr;
  } catch (const Error& e) {
    if (e.id() != "E_OOM") throw;
    return nullptr;  // then without
  }
  return layer;
}

}  // namespace amp::cuda
