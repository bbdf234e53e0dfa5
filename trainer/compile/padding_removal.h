// PaddingRemoval: decides which micro-batches of a session are computed without padding. It plans each bucket from its
// graph and checks each batch's contents (trainer/compile/packing.h). PaddingGuard compares some results
// (trainer/compile/padding_guard.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/log.h"
#include "trainer/compile/padding_guard.h"
#include "trainer/compile/program_cache.h"

namespace amp {

class PaddingRemoval {
 public:
  // The arguments must outlive this object.
  PaddingRemoval(const GraphCompiler& compiler, ProgramCache& programs, const RunState& state, bool enabled, Log log)
      : compiler_(compiler), programs_(programs), state_(state), enabled_(enabled), log_(std::move(log)) {}

  // Returns how this batch is packed; empty if it keeps its padding. compare: runs the guard's comparison first if it
  // is due.
  std::optional<Packing> packing(const GraphRequest& r, bool compare);
  // Returns whether losses and outputs with packing equal those with padding; true if no comparison is due. run:
  // computes a request. A difference disables padding removal, with a warning.
  using Run = std::function<LossesAndOutputs(const GraphRequest&, const Packing*)>;
  bool agrees(const GraphRequest& r, const Run& run);
  // As GraphCompiler::compose(), but removes padding if packing is not null.
  std::shared_ptr<Graph> compose(const GraphRequest& r, const Packing* packing);

  PaddingGuard& guard() { return guard_; }

 private:
  std::shared_ptr<const PaddingPlan> plan(const GraphRequest& r);
  PaddingGuard::Verdict compare(const Losses& losses, const Tensors& batch);
  PaddingGuard::Verdict compare(const GraphRequest& r, const Run& run);
  bool low_precision() const;
  LossesAndGradients losses_and_gradients(const GraphCompiler& compiler, const GraphRequest& r, const Packing* packing);

  const GraphCompiler& compiler_;
  ProgramCache& programs_;
  const RunState& state_;
  const bool enabled_;
  const Log log_;
  BoundedCache<GraphKey, std::shared_ptr<const PaddingPlan>> plans_;
  PaddingGuard guard_;
  bool said_why_ = false;  // whether the log already has the reason why padding is kept
};

}  // namespace amp
