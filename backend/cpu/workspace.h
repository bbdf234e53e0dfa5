// Shared code of the larger CPU kernels: allocation within a node's workspace, and operands in the computing type.
//
// A kernel with workspace is one function Kernel prepare(const KernelArgs&, Carver&). It runs twice. The first run
// measures: tensors have shapes but no usable addresses, and must not be accessed. The second run prepares, so the
// measured size is the size that the kernel takes.
#pragma once

#include <cstdint>

#include "backend/kernel.h"
#include "backend/parallel.h"

namespace amp {

class Carver {
 public:
  // Without a base, it only measures.
  explicit Carver(void* base)
      : base_(base ? static_cast<char*>(base) : reinterpret_cast<char*>(kNowhere)), measuring_(base == nullptr) {}
  bool measuring() const { return measuring_; }
  int64_t bytes() const { return used_; }
  // Returns n elements, 64-byte aligned. While measuring, the address must not be accessed. It is not null, because
  // kernels add offsets to it.
  template <class T>
  T* take(int64_t n) {
    char* p = base_ + used_;
    used_ += (checked_mul(n, static_cast<int64_t>(sizeof(T))) + 63) / 64 * 64;
    return reinterpret_cast<T*>(p);
  }

 private:
  static constexpr uintptr_t kNowhere = 64;  // in the first page of memory, whose access ends the program
  char* base_;
  bool measuring_;
  int64_t used_ = 0;
};

using PrepareWithWorkspace = Kernel (*)(const KernelArgs&, Carver&);

// The functions that are registered for `prepare`: one makes the kernel, one returns the size of its workspace.
template <PrepareWithWorkspace prepare>
Kernel with_workspace(const KernelArgs& a) {
  char none[64];
  Carver c(a.workspace ? a.workspace : none);  // a.workspace is null if the node needs no workspace
  return prepare(a, c);
}
template <PrepareWithWorkspace prepare>
int64_t measure_workspace(const Graph& g, const Node& n) {
  static char present;  // a placeholder address that is not null; it is not accessed
  KernelArgs a{n, {}, {}, nullptr, nullptr};
  for (const ValueId v : n.in) a.in.push_back(v ? Tensor{&present, g.value(v).dtype, g.value(v).dims} : Tensor{});
  for (const ValueId v : n.out) a.out.push_back(Tensor{&present, g.value(v).dtype, g.value(v).dims});
  Carver c(nullptr);
  prepare(a, c);
  return c.bytes();
}

// Returns the OpDef of an operator whose CPU kernel is `prepare`.
template <PrepareWithWorkspace prepare>
OpDef op_with_workspace(const char* name, decltype(OpDef::infer) infer, decltype(OpDef::gradient) gradient) {
  OpDef d;
  d.name = name;
  d.infer = infer;
  d.gradient = gradient;
  d.workspace = measure_workspace<prepare>;
  return d;
}

// A tensor in computing type T: in place if it is stored in that type, otherwise a copy in the workspace.
template <class T>
struct Staged {
  Tensor stored;
  T* data = nullptr;
  bool copied = false;

  explicit operator bool() const { return data != nullptr || copied; }
  void load() const {
    if (copied) convert_all(stored.dtype, stored.data, DTypeOf<T>::value, data);
  }
  void store() const {
    if (copied) convert_all(DTypeOf<T>::value, data, stored.dtype, stored.data);
  }

 private:
  void convert_all(DType from, const void* src, DType to, void* dst) const {
    parallel_ranges(stored.numel(), 32768, [&](int64_t b, int64_t e) {
      convert(from, static_cast<const char*>(src) + b * size_of(from), to, static_cast<char*>(dst) + b * size_of(to),
              e - b);
    });
  }
};

template <class T>
Staged<T> stage(Carver& c, const Tensor& t) {
  if (!t.data) return {};
  if (t.dtype == DTypeOf<T>::value) return {t, static_cast<T*>(t.data), false};
  return {t, c.take<T>(t.numel()), true};
}

}  // namespace amp
