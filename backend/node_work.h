// A lower bound of a node's arithmetic and memory traffic, computed from its shapes. Measured times are compared with
// it (trainer/compile/step_profile.h), and the time of a step is estimated from it (tests/emulator/dry_device.h).
#pragma once

#include "backend/kernel.h"

namespace amp {

struct NodeWork {
  // Operations of matrix products (a multiplication and an addition are two); elementwise arithmetic is not counted.
  double flops = 0;
  int64_t read = 0, written = 0;  // bytes of operands and results, each counted once
  int64_t bytes() const { return read + written; }
};

// Returns the work of a node. accumulates: the kernel adds to its outputs, so it also reads them.
NodeWork node_work(const KernelArgs& args, bool accumulates = false);

// Registers the function that counts a product's operations. Operators without one count zero operations.
using CountFlops = double (*)(const KernelArgs&);
struct RegisterFlops {
  RegisterFlops(std::string_view op, CountFlops count);
};

}  // namespace amp
