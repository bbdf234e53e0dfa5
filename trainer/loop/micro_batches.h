// Runs the micro-batches of an accumulation step one after the other. The step engine uses it, and so do callers that
// only need losses and gradients.
#pragma once

#include <functional>
#include <vector>

#include "backend/gradient_watch.h"
#include "trainer/compile/session.h"

namespace amp {

// Accumulates the gradients of all micro-batches in the gradient arena and updates the staged statistics. Without
// micro-batches the gradients are 0 and the statistics unchanged. before: for each micro-batch, the number of rows in
// the earlier micro-batches of the accumulation step. Random nodes add it to the index of a row, so that each row has
// its own random numbers. watch: notified on the host of finished gradients during the last micro-batch.
void launch_micro_batches(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                          const std::vector<int64_t>& before, LossTerms& terms, const Instrumentation* look = nullptr,
                          GradientWatch* watch = nullptr);

// As launch_micro_batches(), but calls launch(m, accumulate) to run micro-batch m.
void launch_each(Session& session, const std::vector<int64_t>& before,
                 const std::function<void(size_t m, bool accumulate)>& launch, GradientWatch* watch = nullptr);

// Returns for each micro-batch the number of rows before it. rows: number of rows of each micro-batch.
std::vector<int64_t> rows_before(const std::vector<int64_t>& rows);

// As launch_micro_batches(), but waits and returns the sum of each loss term. seeds: seeds of the backward pass by
// term.
std::vector<double> run_micro_batches(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                                      const std::vector<double>& seeds, const Instrumentation* look = nullptr);

// Runs a single micro-batch and returns the sum of each loss term. Updates the staged statistics (without resetting
// them) and writes or (accumulate) adds gradients.
std::vector<double> run_micro_batch(Session& session, const Losses& losses, const Tensors& batch,
                                    const std::vector<double>& seeds, bool accumulate = false,
                                    const Instrumentation* look = nullptr);

}  // namespace amp
