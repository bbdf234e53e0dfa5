#include "run/steps/fed_data.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "run/prepare/objective.h"

namespace amp {

void FedData::keep(const Batch& batch) {
  batch_ = batch;
  for (auto* tensors : {&batch_.inputs, &batch_.more_labels}) {
    for (auto& [name, tensor] : *tensors) tensor = tensor.copied();
  }
  batch_.labels = batch_.labels.copied();
}

void FedData::observe(const InputRanges& ranges) {
  for (const auto& [name, range] : ranges) {
    const auto [known, added] = ranges_.emplace(name, range);
    if (added) continue;
    known->second.whole = known->second.whole && range.whole;
    known->second.low = std::min(known->second.low, range.low);
    known->second.high = std::max(known->second.high, range.high);
  }
}

Batch FedData::batch(std::span<const int64_t>) const {
  if (!kept())
    fail(Exit::usage, "E_FED_DATA", "a setting reads the training data before the program has fed any",
         "leave out `weighted_sampling`, class_weights=balanced and `amp_level` auto; a precision plan that was "
         "measured before is a `precision_plan`");
  return batch_;
}

CheckedBatch check_fed(const Tensors& tensors, const SourceGraph& graph, const DataNeeds& needs, const Losses& losses) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
  CheckedBatch out;
  out.data = open_tensors(std::move(named), "the fed batch", graph, needs, std::numeric_limits<int64_t>::max());
  check_labels(graph, losses, *out.data);
  const int64_t first[] = {0};
  out.batch = out.data->batch(first);
  return out;
}

}  // namespace amp
