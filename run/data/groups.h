// `eval_group_by`: groups of samples for which metrics are computed separately.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"

namespace amp {

struct RunSpec;

// Adds the groups of `eval_group_by` to `data`, which was opened from `path`. Returns `data` unchanged if the setting
// is empty. Throws E_GROUPS (Exit::usage) for tensors, and for sequences that are packed from several rows.
std::unique_ptr<Dataset> with_groups(const RunSpec& spec, const std::string& path, std::unique_ptr<Dataset> data);

}  // namespace amp
