// Models whose task cannot be told: no flag names a loss, and the outputs are not those of a classifier.
#pragma once

#include <string>

#include "importer/discover/output_look.h"
#include "run/prepare/prepare.h"

namespace amp {

// What an output looks like that is no classifier's; empty where a flag (--loss, --task, --output, --num_labels,
// --head, --head_from, --cut_at) or the model's own loss decides, or nothing speaks against a classifier.
// pooled: the data have one label an image.
OutputLook unknown_task(const RunSpec& spec, const SourceGraph& graph, bool pooled);

// The same whatever the flags say.
OutputLook look_at_task(const SourceGraph& graph, bool pooled);

// The fact and the flags that decide, for people.
std::string describe_unknown_task(const OutputLook& look);
extern const char* const kUnknownTaskHint;

// Exit::usage E_LOSS_UNKNOWN for images with one label each and for tensors.
void require_known_task(const RunSpec& spec, const SourceGraph& graph, DataKind kind, Task task);

}  // namespace amp
