// A tensor in host memory that is immutable after its creation: a weight or constant of a model, a column of a batch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace amp {

class HostTensor {
 public:
  HostTensor();
  HostTensor(const HostTensor&);
  HostTensor(HostTensor&&) noexcept;
  HostTensor& operator=(const HostTensor&);
  HostTensor& operator=(HostTensor&&) noexcept;
  ~HostTensor();
  // Makes a view of existing bytes, which `owner` keeps alive. There must be numel(dims) elements.
  HostTensor(DType dtype, Dims dims, std::shared_ptr<const void> owner, const void* bytes);

  // Returns a tensor of uninitialized, 64-byte aligned memory. Fill it through mutable_data() before sharing it.
  static HostTensor empty(DType dtype, Dims dims);
  static HostTensor zeros(DType dtype, Dims dims);
  template <class T>
  static HostTensor of(Dims dims, const std::vector<T>& values);
  template <class T>
  static HostTensor scalar(T v) {
    return of<T>({}, std::vector<T>{v});
  }

  explicit operator bool() const { return bytes_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t numel() const { return numel_; }
  int64_t bytes() const { return numel_ * size_of(dtype_); }
  const void* data() const { return bytes_; }
  void* mutable_data() { return const_cast<void*>(bytes_); }
  template <class T>
  const T* as() const;  // fails unless DTypeOf<T> is dtype()
  template <class T>
  T* as_mutable() {
    return const_cast<T*>(as<T>());
  }

  HostTensor cast(DType to) const;         // returns the tensor itself if it has that type
  HostTensor reshaped(Dims dims) const;    // same bytes, other dims; dims must have the same product
  HostTensor released() const;             // returns a tensor with type and dims, but no bytes; it converts to false
  HostTensor copied() const;               // a copy with separate memory; the tensor itself if it has no bytes
  std::vector<int64_t> to_ints() const;    // dtype() must be an integer type or bool
  std::vector<double> to_doubles() const;  // accepts any dtype()

 private:
  DType dtype_ = DType::f32;
  Dims dims_;
  int64_t numel_ = 0;
  std::shared_ptr<const void> owner_;
  const void* bytes_ = nullptr;
};

void type_mismatch(DType have, DType want);

template <class T>
const T* HostTensor::as() const {
  if (dtype_ != DTypeOf<T>::value) type_mismatch(dtype_, DTypeOf<T>::value);
  return static_cast<const T*>(bytes_);
}

template <class T>
HostTensor HostTensor::of(Dims dims, const std::vector<T>& values) {  // NOLINT: moved below
  HostTensor t = empty(DTypeOf<T>::value, std::move(dims));
  T* p = t.as_mutable<T>();
  for (size_t i = 0; i < values.size() && static_cast<int64_t>(i) < t.numel(); ++i) p[i] = values[i];
  return t;
}

}  // namespace amp
