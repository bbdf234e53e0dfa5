// Subsets of a dataset: chosen samples, and samples held out for validation.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"

namespace amp {

// Returns a view of some samples of a shared dataset. The view numbers them from 0. Batch::samples keeps the indices of
// the underlying dataset.
std::unique_ptr<Dataset> make_subset(std::shared_ptr<const Dataset> data, std::vector<int64_t> samples);

// Returns the class of every sample; empty if labels are not classes.
std::vector<int64_t> strata_of(const Dataset& data);

struct SampleSplit {
  std::vector<int64_t> train, held_out;  // both in the order of the file
};
// Holds out round(fraction * n) samples, drawn at random by seed. If labels are classes, each class contributes in
// proportion to its size (largest remainder method). Samples of one table row (Dataset::source_rows) stay together and
// count as one. Throws E_VAL_SPLIT (exit 5) if one of the two sets would be empty.
SampleSplit split_samples(const Dataset& data, double fraction, uint64_t seed);

// Returns the indices of `limit` random samples by seed, in the order of the file, stratified by class. together:
// number of consecutive samples that stay together. Samples of one table row (Dataset::source_rows) stay together as
// well. The result is then smaller than `limit` if the samples of the next row do not fit, but it has those of at least
// one row.
std::vector<int64_t> draw_samples(const Dataset& data, int64_t limit, int64_t together, uint64_t seed);

}  // namespace amp
