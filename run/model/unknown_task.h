// Models whose task is not known: no flag names a loss, and the outputs are not those of a classifier.
#pragma once

#include <string>

#include "graph/source.h"
#include "importer/discover/output_evidence.h"
#include "run/data/data_kind.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

// Describes an output that does not look like a classifier's. Empty if a flag (--loss, --task, --output, --num_labels,
// --head, --head_from, --cut_at) or the model's own loss decides, or if the outputs may be a classifier's.
// pooled: the data have one label per image.
OutputEvidence unknown_task(const RunSpec& spec, const SourceGraph& graph, bool pooled);

// As unknown_task(), without regard to flags.
OutputEvidence inspect_task(const SourceGraph& graph, bool pooled);

// Texts for errors and reports: the fact, and the flags that decide.
std::string describe_unknown_task(const OutputEvidence& look);
extern const char* const kUnknownTaskHint;

// Exit::usage E_LOSS_UNKNOWN if unknown_task() finds such an output, for images with one label each and for tensors.
void require_known_task(const RunSpec& spec, const SourceGraph& graph, DataKind kind, Task task);

}  // namespace amp
