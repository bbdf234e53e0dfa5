// A window's micro-batches, one after the other: the one way in which they are run, by the step engine and by those who
// want losses and gradients alone.
#pragma once

#include <functional>
#include <vector>

#include "backend/gradient_watch.h"
#include "trainer/compile/session.h"

namespace amp {

// Afterwards the gradient arena holds the gradients of the whole window, the staged statistics are where it leaves
// them; without micro-batches nothing was added to either. before: of each one, the rows of the window that come before
// it, which is what random nodes count. watch: told of the window's gradients, on the host, as its last micro-batch
// finishes them.
void launch_window(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                   const std::vector<int64_t>& before, LossTerms& terms, const Instrumentation* look = nullptr,
                   GradientWatch* watch = nullptr);

// The same with another way to run micro-batch m: what every window begins with, then each in its place.
void launch_each(Session& session, const std::vector<int64_t>& before,
                 const std::function<void(size_t m, bool accumulate)>& launch, GradientWatch* watch = nullptr);

// Of micro-batches that follow each other.
std::vector<int64_t> rows_before(const std::vector<int64_t>& rows);

// The same for whoever waits for it: backward starts at these seeds, the result is the sum of each loss term.
std::vector<double> run_window(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                               const std::vector<double>& seeds, const Instrumentation* look = nullptr);

// A single micro-batch, as one of a window's: statistics move on, gradients are written or, accumulating, added.
std::vector<double> run_micro(Session& session, const Losses& losses, const Tensors& batch,
                              const std::vector<double>& seeds, bool accumulate = false,
                              const Instrumentation* look = nullptr);

}  // namespace amp
