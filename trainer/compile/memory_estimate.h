// What a training run takes of its device's memory, found without allocating it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/compile/session.h"
#include "trainer/losses/losses.h"

namespace amp {

struct MemoryEstimate {
  int64_t parameters = 0, gradients = 0, moments = 0, activations = 0;  // bytes; moments: of an update, with averages
  int64_t copies = 0;                                                   // 16-bit copies of weights, constants
  int64_t libraries = 0;                                                // what they may ask for while it runs
  std::string batch;                                                    // shapes: "ids [32,128], label [32]"
  std::vector<std::string> largest;                                     // tensors of a micro-batch, for people
  std::string recomputed;                                               // with a budget: Session::recomputed()

  int64_t total() const { return parameters + gradients + moments + activations + copies + libraries; }
  std::string text() const;
  // The first phase of a run that does not fit into so many bytes, for people; empty: all fit.
  std::string short_of(int64_t free) const;
};

// groups: what parameters have of their own. accumulate: several micro-batches a step. batch: the largest one.
// libraries: PluginApi::reserve, or empty. cached: micro-batches of a step on all ranks whose losses are taken together
// (trainer/loop/gradient_cache.h); 0: none are.
MemoryEstimate estimate_memory(const SourceGraph& source, const SessionOptions& options,
                               const OptimizerConfig& optimizer, const Losses& losses, const Tensors& batch,
                               bool accumulate, const std::function<int64_t(const Graph&)>& libraries = {},
                               const std::function<void(FlatLayout&)>& groups = {}, int64_t cached = 0);

// What to do about it, for people: the first half, quarter ... of the batch whose bill is at most `free`, with the
// accumulation that keeps the step the same; or what else may help.
std::string what_fits(int64_t free, int64_t batch_size, int64_t accumulation,
                      const std::function<MemoryEstimate(int64_t batch_size)>& measure);

// E_OOM when the bill is more than `free`: the phase that finds no room, what is asked for, the largest tensors and
// what_fits().
void require_memory(const MemoryEstimate& bill, int64_t free, int64_t batch_size, int64_t accumulation,
                    const std::function<MemoryEstimate(int64_t batch_size)>& measure);

}  // namespace amp
