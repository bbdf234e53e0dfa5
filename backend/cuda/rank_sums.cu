#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/rank_sums.h"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {

struct PackGradients {
  Ref gradients, sent;
  float part;
  DEV void operator()(int64_t i) const {
    float x[4];
    load4(gradients, 4 * i, x);
    for (int k = 0; k < 4; ++k) x[k] *= part;
    store4(sent, 4 * i, x);
  }
};

struct UnpackGradients {
  Ref sent, gradients;
  float ranks;
  DEV void operator()(int64_t i) const {
    float x[4];
    load4(sent, 4 * i, x);
    for (int k = 0; k < 4; ++k) x[k] *= ranks;
    store4(gradients, 4 * i, x);
  }
};

struct Divide {
  float* data;
  float n;
  DEV void operator()(int64_t i) const { data[i] = data[i] / n; }
};

struct SetFlag {
  float* flag;
  DEV void operator()(int64_t) const { *flag = 0; }
};

struct FlagNonfinite {
  const float* data;
  float* flag;
  DEV void operator()(int64_t i) const {
    if (data[i] - data[i] != 0.0f) *flag = 1;  // no race: every thread that writes stores the same value
  }
};

struct Spoil {
  const float* flag;
  float* data;
  DEV void operator()(int64_t) const {
    if (*flag != 0) *data = INFINITY;
  }
};

void pack_gradients(CudaDevice& d, const Tensor& gradients, const Tensor& sent, int ranks) {
  check(gradients.numel() % 4 == 0, "gradients are padded");
  for_each(d, gradients.numel() / 4, PackGradients{gradients, sent, 1.0f / static_cast<float>(ranks)});
}

void unpack_gradients(CudaDevice& d, const Tensor& sent, const Tensor& gradients, int ranks) {
  for_each(d, gradients.numel() / 4, UnpackGradients{sent, gradients, static_cast<float>(ranks)});
}

void divide(CudaDevice& d, const Tensor& data, int n) {
  for_each(d, data.numel(), Divide{data.as<float>(), static_cast<float>(n)});
}

void flag_nonfinite(CudaDevice& d, const std::vector<Tensor>& tensors, const Tensor& flag) {
  for_each(d, 1, SetFlag{flag.as<float>()});
  for (const Tensor& t : tensors) for_each(d, t.numel(), FlagNonfinite{t.as<float>(), flag.as<float>()});
}

void set_infinite(CudaDevice& d, const Tensor& flag, const Tensor& tensor) {
  for_each(d, 1, Spoil{flag.as<float>(), tensor.as<float>()});
}

}  // namespace amp::cuda
