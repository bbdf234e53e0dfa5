// TensorValues: the elements of a floating-point tensor as doubles, for functions that examine values. Tensors may be
// large. A test of all elements stops at the first that decides it; other tests use a sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/dtype.h"
#include "base/host_tensor.h"

namespace amp {

class TensorValues {
 public:
  explicit TensorValues(const HostTensor& t) : t_(t) {
    for (const int64_t d : t.dims()) {
      if (d != 1) wide_.push_back(d);
    }
  }

  double at(int64_t i) const {
    switch (t_.dtype()) {
      case DType::f32:
        return t_.as<float>()[i];
      case DType::f64:
        return t_.as<double>()[i];
      case DType::f16:
        return static_cast<float>(t_.as<Half>()[i]);
      default:
        return static_cast<float>(t_.as<BFloat16>()[i]);
    }
  }
  const HostTensor& tensor() const { return t_; }
  int64_t sample_step() const { return std::max<int64_t>(1, size() / kSample); }
  int64_t size() const { return t_.numel(); }
  const Dims& wide() const { return wide_; }  // dims other than 1
  bool matrix() const { return wide_.size() == 2; }

  // Returns all distinct values, sorted; empty if there are more than `most`.
  std::vector<double> distinct(size_t most) const {
    std::vector<double> found;
    for (int64_t i = 0; i < size(); ++i) {
      const double x = at(i);
      if (std::find(found.begin(), found.end(), x) != found.end()) continue;
      if (found.size() == most || std::isnan(x)) return {};
      found.push_back(x);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // True if all elements are equal, or if there are only two distinct values. Newly initialized scales, biases and
  // statistics are of this kind. Below 8 elements two distinct values are not accepted, since short learned vectors
  // have them as well.
  bool constant_valued() const { return !distinct(size() < 8 ? 1 : 2).empty(); }

  bool sampled(const std::function<bool(double)>& holds) const {
    const int64_t step = sample_step();
    for (int64_t i = 0; i < size(); i += step) {
      if (!holds(at(i))) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kSample = 4096;

  const HostTensor& t_;
  Dims wide_;
};

}  // namespace amp
