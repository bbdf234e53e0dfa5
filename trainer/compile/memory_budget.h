// How much of the forward pass is computed again in backward (ops/passes/recompute.h), so that the activations of a
// training graph fit into a number of bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/program.h"

namespace amp {

// A way of keeping less: what it keeps, and what a micro-batch's activations then take.
struct RecomputeChoice {
  std::string name;  // for people: "nothing recomputed", "norms and elementwise operators recomputed", ...
  int64_t bytes = 0;
  Graph graph;
};

// All of them, from what recomputes nothing on; each recomputes more than the one before. A choice that takes no fewer
// bytes than an earlier one is left out. options: what the Program would be made with.
std::vector<RecomputeChoice> recompute_choices(const Graph& train, const ProgramOptions& options);

// What costs next to no time is computed again where nobody asked for it: norms and elementwise operators of an fp32
// graph, if that saves a twentieth of the activations and 8 MiB at least.
std::optional<RecomputeChoice> recompute_freely(const Graph& train, const ProgramOptions& options);

// The first that fits into so many bytes; the smallest where none does.
RecomputeChoice recompute_within(const Graph& train, const ProgramOptions& options, int64_t bytes);

}  // namespace amp
