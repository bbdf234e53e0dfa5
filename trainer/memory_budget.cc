#include "trainer/memory_budget.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "backend/program_plan.h"
#include "base/text.h"
#include "ops/passes/recompute.h"
#include "trainer/graph_compiler.h"

namespace amp {

namespace {

// Calls see(choice) for each, until it says that it has seen enough.
void each_choice(const Graph& train, const ProgramOptions& options, const std::function<bool(RecomputeChoice&&)>& see) {
  std::vector<ValueId> seeds;
  for (size_t term = 0;; ++term) {
    const ValueId seed = train.input(seed_input(term));
    if (!seed) break;
    seeds.push_back(seed);
  }
  int64_t least = plan_program(train, options).arena_bytes;
  if (see({"nothing recomputed", least, train})) return;
  const int32_t backward = backward_begin(train, seeds);
  const auto enough = [&](const std::string& name, const Dropped& dropped) {
    RecomputeChoice choice{name, 0, recompute(train, backward, dropped)};
    if (const double share = products_again(choice.graph); share > 0)
      choice.name += cat(" (", std::lround(100 * share), " % of the forward products again)");
    choice.bytes = plan_program(choice.graph, options).arena_bytes;
    if (choice.bytes >= least) return false;
    least = choice.bytes;
    return see(std::move(choice));
  };
  if (enough("norms and elementwise operators recomputed", drop_cheap(train, backward))) return;
  for (const int segments : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    if (enough(cat("recomputed in ", segments, " segments"), drop_segments(train, backward, segments))) return;
  }
}

}  // namespace

std::vector<RecomputeChoice> recompute_choices(const Graph& train, const ProgramOptions& options) {
  std::vector<RecomputeChoice> out;
  each_choice(train, options, [&](RecomputeChoice&& c) {
    out.push_back(std::move(c));
    return false;
  });
  return out;
}

RecomputeChoice recompute_freely(const Graph& train, const ProgramOptions& options) {
  constexpr int64_t kShare = 20, kLeast = int64_t{8} << 20;
  for (int32_t v = 0; v < train.n_values(); ++v) {  // products of 16-bit floats take half the time, norms do not
    if (is_low(train.value(ValueId{v}).dtype)) return {"", 0, train};
  }
  RecomputeChoice out{"", 0, train};
  int64_t all = 0;
  each_choice(train, options, [&](RecomputeChoice&& c) {
    if (all == 0) {
      all = c.bytes;
      return all < kLeast;
    }
    if (products_again(c.graph) == 0 && all - c.bytes >= std::max(kLeast, all / kShare)) out = std::move(c);
    return true;
  });
  return out;
}

RecomputeChoice recompute_within(const Graph& train, const ProgramOptions& options, int64_t bytes) {
  std::optional<RecomputeChoice> last;
  each_choice(train, options, [&](RecomputeChoice&& c) {
    last = std::move(c);
    return last->bytes <= bytes;
  });
  return std::move(*last);
}

}  // namespace amp
