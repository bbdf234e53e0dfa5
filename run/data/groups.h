// --eval_group_by: the groups of samples that metrics are told apart by.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"
#include "run/spec/spec.h"

namespace amp {

// `data`, opened from `path`, with the groups that spec asks for; as it is where it asks for none. E_GROUPS (usage) for
// tensors, and for sequences that are of several rows.
std::unique_ptr<Dataset> with_groups(const RunSpec& spec, const std::string& path, std::unique_ptr<Dataset> data);

}  // namespace amp
