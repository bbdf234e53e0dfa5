// Parts of the data that a run uses: --limit_train, --limit_val, --val_split.
#pragma once

#include <memory>

#include "base/log.h"
#include "data/dataset.h"
#include "run/data/data.h"
#include "run/spec/spec.h"
#include "trainer/losses/losses.h"

namespace amp {

// `limit` samples, as --limit_order chooses them; 0: all. together: so many in turn are one item of a loss.
std::unique_ptr<Dataset> limited(std::unique_ptr<Dataset> data, int64_t limit, const RunSpec& spec,
                                 int64_t together = 1);
// Rows in turn that a loss compares: 1 where samples have a side for each.
int64_t rows_in_turn(const Losses& losses, const Dataset& data);

// --val_split: the share goes from train to val. E_VAL_SPLIT for questions, whose windows must not be parted.
void split_validation(const RunSpec& spec, TrainData& data);

// What remains after limits and the split: E_DATA_LABEL where all training samples are of one class though the data
// has several, a warning where all validation samples are.
void check_classes_left(const RunSpec& spec, const std::vector<std::string>& classes, const TrainData& data,
                        const Log& log);

}  // namespace amp
