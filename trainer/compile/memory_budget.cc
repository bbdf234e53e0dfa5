// Tries recomputation strategies in the order of their cost: none, then norms and elementwise operators, then segments
// of the forward pass (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). The memory plan of each
// resulting graph (backend/program_plan.h) gives the bytes, so nothing is allocated.

#include "trainer/compile/memory_budget.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/program_plan.h"
#include "base/text.h"
#include "ops/passes/recompute.h"
#include "trainer/compile/graph_compiler.h"

namespace amp {

namespace {

int32_t backward_of(const Graph& train) {
  std::vector<ValueId> seeds;
  for (size_t term = 0;; ++term) {
    const ValueId seed = train.input(seed_input(term));
    if (!seed) return backward_begin(train, seeds);
    seeds.push_back(seed);
  }
}

RecomputeChoice choice_of(const std::string& name, const Graph& train, int32_t backward, const Dropped& dropped,
                          const ProgramOptions& options) {
  RecomputeChoice out{name, 0, recompute(train, backward, dropped)};
  out.bytes = plan_program(out.graph, options).arena_bytes;
  return out;
}

// Returns the RecomputeChoice that recomputes everything that needs no matrix product.
RecomputeChoice cheapest(const Graph& train, int32_t backward, const ProgramOptions& options) {
  return choice_of("norms and elementwise operators recomputed", train, backward, drop_cheap(train, backward), options);
}

}  // namespace

std::optional<RecomputeChoice> recompute_freely(const Graph& train, const ProgramOptions& options) {
  constexpr int64_t kShare = 20, kLeast = int64_t{8} << 20;
  // Recomputation of norms does not pay in 16 bits: matrix products take half the time there, so norms take a larger
  // share.
  for (int32_t v = 0; v < train.n_values(); ++v) {
    if (is_low(train.value(ValueId{v}).dtype)) return {};
  }
  const int64_t all = plan_program(train, options).arena_bytes;
  if (all < kLeast) return {};
  RecomputeChoice out = cheapest(train, backward_of(train), options);
  if (all - out.bytes < std::max(kLeast, all / kShare)) return {};
  return out;
}

RecomputeChoice recompute_within(const Graph& train, const ProgramOptions& options, int64_t bytes) {
  RecomputeChoice best{"nothing recomputed", plan_program(train, options).arena_bytes, train};
  if (best.bytes <= bytes) return best;
  const int32_t backward = backward_of(train);
  // Stores `choice` if it needs fewer bytes than the best choice so far. Returns whether it was stored and fits in the
  // budget.
  const auto fits = [&](RecomputeChoice&& choice) {
    if (choice.bytes >= best.bytes) return false;
    if (const double share = products_again(choice.graph); share > 0)
      choice.name += cat(" (", std::lround(100 * share), " % of the forward products again)");
    best = std::move(choice);
    return best.bytes <= bytes;
  };
  if (fits(cheapest(train, backward, options))) return best;
  for (const int segments : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    if (fits(choice_of(cat("recomputed in ", segments, " segments"), train, backward,
                       drop_segments(train, backward, segments), options)))
      return best;
  }
  return best;
}

}  // namespace amp
