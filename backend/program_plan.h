// What is decided of a Graph before a Program of it allocates or launches anything: which values share their bytes
// (views, outputs that overwrite an input, gradients computed right in the gradient arena), how long each buffer lives
// and where in the arena it lies, what each step does with gradients.
#pragma once

#include <optional>
#include <vector>

#include "backend/gradient_scratch.h"
#include "backend/program.h"

namespace amp {

// Attribute of a node whose outputs from this one on are sums over rows: the kernel NAME+= adds to these alone.
inline constexpr const char* kFirstSum = "first_sum";

struct ProgramPlan {
  std::vector<int32_t> root;   // by value: whose bytes it has; itself, or one that computes them
  std::vector<void*> pinned;   // by root: its place in the gradient arena; null: it has none
  std::vector<int> buffer;     // by root: which of `buffers` holds it; -1: it lies elsewhere
  std::vector<int> workspace;  // by node: which of `buffers` is its scratch; -1: it wants none
  std::vector<BufferLife> buffers;
  int64_t arena_bytes = 0;

  std::vector<bool> cached;  // by node: no step, a parameter's copy that the ParamCache keeps, or read for one alone
  std::vector<bool> adds;    // by node: its outputs are added to what is in the gradient arena
  // Gradients (indices of Graph::param_grads) that are moved, or added, into the arena: by the node after which; the
  // last entry: after all.
  std::vector<std::vector<size_t>> moved_after;
  // All gradients, by the node behind which they are finished, those of moved_after once they are moved; the last
  // entry: after all.
  std::vector<std::vector<size_t>> finished_after;
};

// A cast of parameters that lie side by side along an axis: the ParamCache keeps it too, where the device's traits
// say so.
struct JoinedParams {
  struct Part {
    int slot;
    Dims dims;
  };
  std::vector<Part> parts;
  size_t axis = 0;
};
std::optional<JoinedParams> joined_params(const Graph& g, const Node& cast);

ProgramPlan plan_program(const Graph& g, const ProgramOptions& o);

}  // namespace amp
