// Computes the metrics of an exported file as an inference engine would.
#pragma once

#include <string>

#include "data/dataset.h"
#include "trainer/loop/evaluate.h"

namespace amp {

// Reads the file without a precision plan. Values that the file stores in 16-bit types (`export_precision` fp16, mixed)
// are rounded to them; everything else computes in fp32.
Metrics evaluate_export(const std::string& path, Objective objective, const Dataset& data, int64_t batch_size,
                        const SessionOptions& options);

}  // namespace amp
