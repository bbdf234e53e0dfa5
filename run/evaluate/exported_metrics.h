// Computes the metrics of an exported file as an inference engine would.
#pragma once

#include <string>

#include "data/dataset.h"
#include "trainer/loop/evaluate.h"

namespace amp {

// Reads the file without a precision plan. Values (weights and results of nodes) that have a 16-bit type in the file
// (`export_precision` fp16, mixed) are rounded to that type; everything else computes in fp32.
// adapter: applied to the model (run/model/adapters.h); empty: none.
Metrics evaluate_export(const std::string& path, const std::string& adapter, Objective objective, const Dataset& data,
                        int64_t batch_size, const SessionOptions& options);

}  // namespace amp
