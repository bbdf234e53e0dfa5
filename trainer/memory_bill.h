// What a training run takes of its device's memory, found without allocating it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/losses.h"
#include "trainer/optimizer.h"
#include "trainer/session.h"

namespace amp {

struct MemoryBill {
  int64_t parameters = 0, gradients = 0, moments = 0, activations = 0;  // bytes; moments: with the EMA
  int64_t copies = 0;                                                   // 16-bit copies of weights, constants
  std::vector<std::string> largest;                                     // tensors of a micro-batch, for people

  int64_t total() const { return parameters + gradients + moments + activations + copies; }
  std::string text() const;
};

// accumulate: several micro-batches a step. batch: the largest one.
MemoryBill measure_memory(const SourceGraph& source, const SessionOptions& options, const OptimizerConfig& optimizer,
                          const Losses& losses, const Tensors& batch, bool accumulate);

// E_OOM when the bill, and a reserve for libraries and graphs, is more than `free`: what is asked for, the largest
// tensors, and the first half, quarter ... of the batch that fits, with the accumulation that keeps the step the same.
void require_memory(const MemoryBill& bill, int64_t free, int64_t batch_size, int64_t accumulation,
                    const std::function<MemoryBill(int64_t batch_size)>& measure);

}  // namespace amp
