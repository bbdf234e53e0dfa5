// The metrics of a file that a run wrote, as an engine computes them.
#pragma once

#include <string>

#include "data/dataset.h"
#include "trainer/loop/evaluate.h"

namespace amp {

// The file is read back, without any precision plan: what it has in 16-bit types (--export_precision fp16, mixed) is
// rounded to these, everything else computes in fp32.
Metrics evaluate_export(const std::string& path, Objective objective, const Dataset& data, int64_t batch_size,
                        const SessionOptions& options);

}  // namespace amp
