// Parts of a dataset: some of its samples, and a share held out for validation.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"

namespace amp {

// Samples of another dataset under numbers of their own; in batches they keep the other's. The other is shared.
std::unique_ptr<Dataset> make_subset(std::shared_ptr<const Dataset> data, std::vector<int64_t> samples);

// The class of every sample; empty where labels are no classes.
std::vector<int64_t> strata_of(const Dataset& data);

struct SampleSplit {
  std::vector<int64_t> train, held_out;  // each in the file's order
};
// round(fraction * n) samples held out, at random by seed. Where samples have strata (classes), of each its share, by
// largest remainder. Samples of one row (source_rows) stay together. E_VAL_SPLIT (exit 5) when a side would be empty.
SampleSplit split_samples(const Dataset& data, double fraction, uint64_t seed);

// Places of `limit` samples, at random by seed, in the file's order; where samples have strata, of each its share.
// together: so many samples in turn are one item, which is kept whole. Samples of one row (source_rows) stay together
// too: fewer than `limit` where the next row does not fit, but at least one row.
std::vector<int64_t> draw_samples(const Dataset& data, int64_t limit, int64_t together, uint64_t seed);

}  // namespace amp
