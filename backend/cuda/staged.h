// Staged: an operand in the type that a library requires. It is used in place if it is stored in this type, and
// otherwise copied through the node's workspace.
#pragma once

#include "backend/cpu/workspace.h"
#include "backend/cuda/device.h"

namespace amp::cuda {

struct Staged {
  void* data = nullptr;
  Kernel move = [] {};  // converts the operand; call it before the work for an input, after it for an output

  static Staged input(const KernelArgs& a, Carver& c, const Tensor& t, DType type) {
    return stage(a, c, t, type, true);
  }
  static Staged output(const KernelArgs& a, Carver& c, const Tensor& t, DType type) {
    return stage(a, c, t, type, false);
  }

 private:
  static Staged stage(const KernelArgs& a, Carver& c, const Tensor& t, DType type, bool in) {
    Staged s;
    s.data = t.data;
    if (!t.data || t.dtype == type) return s;
    s.data = c.take<char>(t.numel() * size_of(type));
    if (c.measuring()) return s;
    const Tensor other{s.data, type, t.dims};
    s.move = in ? device_of(a).convert(t, other) : device_of(a).convert(other, t);
    return s;
  }
};

// Returns the type in which a product of two operands is computed: the operands' type if they have the same, otherwise
// fp32.
inline DType common_type(const Tensor& a, const Tensor& b) { return a.dtype == b.dtype ? a.dtype : DType::f32; }

}  // namespace amp::cuda
