// Detects models whose task is not known: no setting names a loss, and the outputs are not those of a classifier.
#pragma once

#include <string>

#include "graph/source.h"
#include "importer/discover/output_evidence.h"
#include "run/data/data_kind.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct RunSpec;

// Returns evidence about an output that does not look like a classifier's. Returns nothing if one of the settings
// `loss`, `task`, `output`, `num_labels`, `head`, `head_from`, `cut_at` or the model's own loss decides what is
// trained, or if the outputs may be a classifier's. pooled: the data have one label per image.
OutputEvidence unknown_task(const RunSpec& spec, const SourceGraph& graph, bool pooled);

// Does the same as unknown_task(), but ignores the settings.
OutputEvidence inspect_task(const SourceGraph& graph, bool pooled);

// The error E_LOSS_UNKNOWN: describe_unknown_task() returns its text, which describes the evidence. The hint names the
// settings that define a loss or a head.
std::string describe_unknown_task(const OutputEvidence& look);
extern const char* const kUnknownTaskHint;

// Throws E_LOSS_UNKNOWN (Exit::usage) if unknown_task() returns an output. Only image data with one label per image and
// tensors are checked.
void require_known_task(const RunSpec& spec, const SourceGraph& graph, DataKind kind, Task task);

}  // namespace amp
