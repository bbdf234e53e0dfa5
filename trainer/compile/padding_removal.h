// PaddingRemoval: which micro-batches of a session are computed without their padding. The plan of a bucket is made
// from its graph (trainer/compile/packing.h); a batch is packed if what it holds allows; the guard (trainer/compile/padding_guard.h)
// compares now and then.
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
  // All must outlive it.
  PaddingRemoval(const GraphCompiler& compiler, ProgramCache& programs, const RunState& state, bool enabled, Log log)
      : compiler_(compiler), programs_(programs), state_(state), enabled_(enabled), log_(std::move(log)) {}

  // How this batch is packed; nothing: it keeps its padding. compare: when the guard asks for it.
  std::optional<Packing> packing(const GraphRequest& r, bool compare);
  // Whether a batch, computed with packing, has the losses and outputs that it has with its padding; run: computes a
  // request. A difference ends padding removal, with a warning.
  using Run = std::function<LossesAndOutputs(const GraphRequest&, const Packing*)>;
  bool agrees(const GraphRequest& r, const Run& run);
  // GraphCompiler::compose(), without padding where there is a packing.
  std::shared_ptr<Graph> compose(const GraphRequest& r, const Packing* packing);

  PaddingGuard& guard() { return guard_; }

 private:
  const PaddingPlan& plan(const GraphRequest& r);
  PaddingGuard::Verdict compare(const Losses& losses, const Tensors& batch);
  PaddingGuard::Verdict compare(const GraphRequest& r, const Run& run);
  bool low_precision() const;
  LossesAndGradients losses_and_gradients(const GraphRequest& r, const Packing* packing);

  const GraphCompiler& compiler_;
  ProgramCache& programs_;
  const RunState& state_;
  const bool enabled_;
  const Log log_;
  std::map<GraphKey, PaddingPlan> plans_;
  PaddingGuard guard_;
  bool said_why_ = false;  // why padding stays
};

}  // namespace amp
