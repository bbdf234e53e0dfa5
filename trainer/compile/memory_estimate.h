// Estimates the device memory of a training run without allocating it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/compile/session.h"
#include "trainer/losses/losses.h"

namespace amp {

struct MemoryEstimate {
  // bytes; moments: those of the optimizer, and moving averages
  int64_t parameters = 0, gradients = 0, moments = 0, activations = 0;
  int64_t copies = 0;                // bytes of 16-bit copies of weights, and of constants
  int64_t libraries = 0;             // bytes of workspace that the device's libraries may allocate
  std::string batch;                 // shapes: "ids [32,128], label [32]"
  std::vector<std::string> largest;  // descriptions of the largest tensors of a micro-batch
  std::string recomputed;            // with a budget: Session::recomputed()

  int64_t total() const { return parameters + gradients + moments + activations + copies + libraries; }
  std::string text() const;
  // Describes the first phase of a run whose memory does not fit into `free` bytes; empty: all phases fit.
  std::string short_of(int64_t free) const;
};

// Estimates the memory. groups: sets per-parameter options, or empty. accumulate: whether a step has several
// micro-batches. batch: the largest one. libraries: PluginApi::reserve, or empty. cached: number of a step's
// micro-batches on all ranks that share losses across rows (trainer/loop/gradient_cache.h); 0: no gradient cache.
MemoryEstimate estimate_memory(const SourceGraph& source, const SessionOptions& options,
                               const OptimizerConfig& optimizer, const Losses& losses, const Tensors& batch,
                               bool accumulate, const std::function<int64_t(const Graph&)>& libraries = {},
                               const std::function<void(FlatLayout&)>& groups = {}, int64_t cached = 0);

// The memory of a Session that computes outputs of a batch (Session::forward). Values are bytes.
struct ForwardEstimate {
  int64_t weights = 0;      // parameters, 16-bit copies and constants
  int64_t activations = 0;  // of all batches that were measured
  int64_t outputs = 0;      // of the copies that forward() returns; the largest of the batches
  int64_t total() const { return weights + activations + outputs; }
};
ForwardEstimate estimate_forward(const SourceGraph& source, const SessionOptions& options,
                                 const std::vector<int>& outputs, const std::vector<Tensors>& batches,
                                 bool full_precision);

// Returns advice for the user. It tries half of the batch size, a quarter, and so on, and names the first that needs at
// most `free` bytes, with the accumulation that keeps the step the same. If none fits, the advice names other options.
std::string what_fits(int64_t free, int64_t batch_size, int64_t accumulation,
                      const std::function<MemoryEstimate(int64_t batch_size)>& measure);

// Fails with E_OOM if the estimate exceeds `free`. The message names the phase that does not fit, the bytes of each
// part, the largest tensors and what_fits().
void require_memory(const MemoryEstimate& bill, int64_t free, int64_t batch_size, int64_t accumulation,
                    const std::function<MemoryEstimate(int64_t batch_size)>& measure);

}  // namespace amp
