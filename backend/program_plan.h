// Decisions about a Graph that are made before its Program allocates or launches anything. They say which values share
// their bytes (views, outputs that overwrite an input, gradients computed directly in the gradient arena), and what
// each step does with gradients. They also contain lifetimes and offsets of buffers.
#pragma once

#include <optional>
#include <vector>

#include "backend/gradient_scratch.h"
#include "backend/program.h"

namespace amp {

// Attribute of a node with several outputs: the index of the first output that is a sum over rows. All later outputs
// are such sums too. The kernel NAME+=, which is used if gradients are accumulated, adds only these sums to existing
// contents.
inline constexpr const char* kFirstSum = "first_sum";

struct ProgramPlan {
  std::vector<int32_t> root;   // indexed by value: the value whose bytes it shares (itself, or another one)
  std::vector<void*> pinned;   // indexed by root: its address in the gradient arena; null: none
  std::vector<int> buffer;     // indexed by root: its index in `buffers`; -1: stored elsewhere
  std::vector<int> workspace;  // indexed by node: index of its scratch in `buffers`; -1: none
  std::vector<BufferLife> buffers;
  int64_t arena_bytes = 0;

  // Indexed by node: true if the node has no step. This is so if the ParamCache keeps its result (a parameter's copy),
  // if only such a copy reads it, or if its readers compute its result (OpDef::deferred).
  std::vector<bool> cached;
  std::vector<bool> adds;  // indexed by node: whether its outputs are added to the gradient arena's contents
  // Gradients (indices of Graph::param_grads) that are moved or added into the arena, by the index of the node after
  // which this happens. Last element: at the end of the run.
  std::vector<std::vector<size_t>> moved_after;
  // All gradients, by the index of the node after which they are final. Gradients in moved_after are final when they
  // have been moved. Last element: at the end of the run.
  std::vector<std::vector<size_t>> finished_after;
};

// A cast of several parameters that are concatenated along an axis. On devices with the trait merges_qkv, the
// ParamCache keeps its result too.
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
