// Selects how much of the forward pass the backward pass recomputes (activation checkpointing, ops/passes/recompute.h),
// so that the activations of a training graph fit into a number of bytes.
#pragma once

#include <optional>
#include <string>

#include "backend/program.h"

namespace amp {

// One recomputation strategy applied to a training graph.
struct RecomputeChoice {
  std::string name;   // for logs: "nothing recomputed", "norms and elementwise operators recomputed", ...
  int64_t bytes = 0;  // activation memory of a micro-batch
  Graph graph;
};

// Applies recomputation that costs almost no time and needs no budget: of norms and elementwise operators of an fp32
// graph. Returns empty unless it saves at least 5 % of the activations and 8 MiB.
std::optional<RecomputeChoice> recompute_freely(const Graph& train, const ProgramOptions& options);

// Returns the first choice, in the order of increasing recomputation, that needs at most `bytes`; the smallest if none
// fits. options: those of the Program that will run the graph.
RecomputeChoice recompute_within(const Graph& train, const ProgramOptions& options, int64_t bytes);

}  // namespace amp
