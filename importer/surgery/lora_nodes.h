// Makes the nodes and parameters of adapters. add_lora() (lora.h) calls this for each linear map that it chose.
#pragma once

#include <string>
#include <vector>

#include "importer/surgery/lora.h"

namespace amp {

// Describes one adapter that add_lora() adds: a part of a linear map, its columns, and the rank and alpha.
struct AdapterPlan {
  std::string name, part;
  int64_t first = 0, out = 0, rank = 0;
  double alpha = 0;
};

// Adds the adapters of one linear map to the graph. plans: one per part, or one for the whole map. The caller sorts the
// nodes afterwards. Throws E_LORA (Exit::usage) for dora on convolutions and tables, on weights that are trained, too
// (`base_trains`), and on weights that the graph computes.
std::vector<LoraAdapter> adapt_map(SourceGraph& g, const LinearMap& map, const std::vector<AdapterPlan>& plans,
                                   const LoraOptions& options, bool base_trains);

// Returns W [in, out] of a product in fp32: a stored weight, or the result of dequantization, which is computed by
// `evaluate`. Returns an empty tensor if the graph computes W in another way.
HostTensor dense_weight(const SourceGraph& g, const LinearMap& map, const Evaluator& evaluate);

}  // namespace amp
