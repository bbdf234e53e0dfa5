// What a node computes and moves at the least, by its shapes alone: what measured times are held against
// (trainer/compile/step_profile.h), and what a step on paper is made of (backend/cuda/dry_device.h).
#pragma once

#include "backend/kernel.h"

namespace amp {

struct NodeWork {
  double flops = 0;  // of products: multiplication and addition are two; elementwise arithmetic is not counted
  int64_t read = 0, written = 0;  // bytes of operands and results, each once
  int64_t bytes() const { return read + written; }
};

// accumulates: the outputs are added to what is there.
NodeWork node_work(const KernelArgs& args, bool accumulates = false);

// Operators that are products register how many operations they take (ops/); all others count none.
using CountFlops = double (*)(const KernelArgs&);
struct RegisterFlops {
  RegisterFlops(std::string_view op, CountFlops count);
};

}  // namespace amp
