// Subsets of the data that a run uses: `limit_train`, `limit_val`, `val_split`.
#pragma once

#include <memory>

#include "base/log.h"
#include "data/dataset.h"
#include "run/data/data_needs.h"
#include "trainer/losses/losses.h"

namespace amp {

struct DataSpec;
struct RunSpec;

// Returns at most `limit` samples, chosen by `limit_order`; 0: all. `together`: number of consecutive samples that a
// loss compares. A random choice keeps or drops these samples together.
std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> data, int64_t limit, const RunSpec& spec,
                                 int64_t together = 1);
// Returns the number of consecutive rows that a loss compares, or 1 if each sample already holds all of its rows.
int64_t rows_in_turn(const Losses& losses, const Dataset& data);

// Moves the fraction `val_split` of data.train to data.val. Samples that come from one row stay together. Throws
// E_VAL_SPLIT (exit 5) if data.train or data.val would be empty.
void split_validation(const RunSpec& spec, TrainData& data);

// Checks the labels that are left after limits and the split, if there are several classes. Throws E_DATA_LABEL if all
// training samples are of one class. Warns if all validation samples are.
void check_classes_left(const DataSpec& spec, const std::vector<std::string>& classes, const TrainData& data,
                        const Log& log);

}  // namespace amp
