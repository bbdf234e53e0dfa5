// Descriptors of cuDNN's.
#pragma once

#include <cudnn.h>

namespace amp::cuda {

inline bool good(cudnnStatus_t s) { return s == CUDNN_STATUS_SUCCESS; }

// Destroyed with its owner.
template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class Descriptor {
 public:
  Descriptor() { made_ = good(create(&value_)); }
  ~Descriptor() {
    if (made_) destroy(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator T() const { return value_; }

 private:
  T value_{};
  bool made_ = false;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

}  // namespace amp::cuda
