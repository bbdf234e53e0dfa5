// A lower bound of a node's arithmetic and memory traffic, from its shapes only. Measured times are compared with
// it (trainer/compile/step_profile.h), and the estimate of a step is built from it (tests/emulator/dry_device.h).
#pragma once

#include "backend/kernel.h"

namespace amp {

struct NodeWork {
  double flops = 0;  // of products: a multiplication and an addition count two; elementwise arithmetic is not counted
  int64_t read = 0, written = 0;  // bytes of operands and results, each counted once
  int64_t bytes() const { return read + written; }
};

// accumulates: the kernel adds to its outputs.
NodeWork node_work(const KernelArgs& args, bool accumulates = false);

// Products register their number of operations (ops/). All other operators count zero.
using CountFlops = double (*)(const KernelArgs&);
struct RegisterFlops {
  RegisterFlops(std::string_view op, CountFlops count);
};

}  // namespace amp
