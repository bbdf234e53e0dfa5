// Subsets of the data that a run uses: --limit_train, --limit_val, --val_split.
#pragma once

#include <memory>

#include "base/log.h"
#include "data/dataset.h"
#include "run/data/data.h"
#include "trainer/losses/losses.h"

namespace amp {

struct DataSpec;
struct RunSpec;

// At most `limit` samples, chosen by --limit_order; 0: all. together: consecutive samples that form one item of a loss.
std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> data, int64_t limit, const RunSpec& spec,
                                 int64_t together = 1);
// Consecutive rows that a loss compares. 1 if each sample holds all of its rows (sides).
int64_t rows_in_turn(const Losses& losses, const Dataset& data);

// --val_split: moves this fraction of data.train to data.val. Samples of one row stay together. E_VAL_SPLIT (exit 5): a
// side would be empty.
void split_validation(const RunSpec& spec, TrainData& data);

// Checks the data after limits and the split, if there are several classes. E_DATA_LABEL: all training samples are of
// one class. A warning if all validation samples are.
void check_classes_left(const DataSpec& spec, const std::vector<std::string>& classes, const TrainData& data,
                        const Log& log);

}  // namespace amp
