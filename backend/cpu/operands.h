// All floating-point operands of a kernel, converted to the computing type (backend/cpu/workspace.h).
#pragma once

#include <vector>

#include "backend/cpu/workspace.h"

namespace amp {

// Call load() before and store() after the computation. Inputs that are not floating-point are not converted.
template <class T>
struct Operands {
  std::vector<Staged<T>> in, out;
  Operands(const KernelArgs& a, Carver& c) {
    for (const Tensor& t : a.in) in.push_back(t.data && is_float(t.dtype) ? stage<T>(c, t) : Staged<T>{});
    for (const Tensor& t : a.out) out.push_back(stage<T>(c, t));
  }
  const T* input(size_t i) const { return i < in.size() ? in[i].data : nullptr; }
  T* output(size_t i) const { return out[i].data; }
  void load() const {
    for (const auto& s : in) s.load();
  }
  void store() const {
    for (const auto& s : out) s.store();
  }
};

}  // namespace amp
