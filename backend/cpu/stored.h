// Views of floats in their storage type (32 or 16 bits), for kernels that convert when they load and store.
#pragma once

#include "backend/kernel.h"

namespace amp {

struct StoredOut {
  void* data = nullptr;
  DType dtype = DType::f32;

  StoredOut() = default;
  StoredOut(float* to) : data(to) {}
  StoredOut(void* to, DType type) : data(to), dtype(type) {}
  StoredOut(const Tensor& t) : data(t.data), dtype(t.dtype) {}
  void* at(int64_t element) const { return static_cast<char*>(data) + element * size_of(dtype); }
};

struct Stored {
  const void* data = nullptr;
  DType dtype = DType::f32;

  Stored() = default;
  Stored(const void* from, DType type) : data(from), dtype(type) {}
  Stored(const float* from) : data(from) {}
  Stored(const StoredOut& of) : data(of.data), dtype(of.dtype) {}
  Stored(const Tensor& t) : data(t.data), dtype(t.dtype) {}
  explicit operator bool() const { return data != nullptr; }
  const void* at(int64_t element) const { return static_cast<const char*>(data) + element * size_of(dtype); }
};

}  // namespace amp
