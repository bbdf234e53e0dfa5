#include "run/model/unknown_task.h"

#include "backend/interpreter.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/bind.h"
#include "importer/discover/output_activation.h"
#include "run/model/probe.h"
#include "run/settings/asked_objective.h"
#include "run/spec/spec.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {
// Returns the shapes of all values for two images. These have the declared size or, if the size is open, a usual size.
// Returns nothing if the graph cannot be bound.
std::vector<Dims> probed(const SourceGraph& g) {
  for (const int64_t side : {64, 224, 640}) {
    try {
      return probe_shapes(g, ParamTable(g), probe_options(g, g.outputs, side), cpu_evaluator());
    } catch (const Error& e) {
      if (e.exit() == Exit::internal) throw;
    }
  }
  return {};
}
}  // namespace

const char* const kUnknownTaskHint =
    "`loss` KIND with its targets as tensors (`train` FILE.npz) trains it, `output` NAME chooses the output; a "
    "classifier of whole images is put on it by `task` classification or `num_labels` N, and `head_from` TENSOR says "
    "what it reads; assigning boxes to anchors, as detection needs it, is not built";

OutputEvidence unknown_task(const RunSpec& spec, const SourceGraph& g, bool pooled) {
  const bool asked = !requested_losses(spec.objective).parts.empty() || requested_task(spec.objective) != Task::none ||
                     !spec.model.output.empty() || spec.model.head != "auto" || !spec.model.head_from.empty() ||
                     !spec.model.cut_at.empty() || spec.model.num_labels > 0;
  if (asked || own_losses(g).size() == 1) return {};
  return inspect_task(g, pooled);
}

OutputEvidence inspect_task(const SourceGraph& g, bool pooled) { return inspect_outputs(g, probed(g), pooled); }

std::string describe_unknown_task(const OutputEvidence& look) {
  return cat("output '", printable(look.output), "' looks like ", look.what, ", not like a classifier's (", look.why,
             "), and no `loss` says how to train it");
}

void require_known_task(const RunSpec& spec, const SourceGraph& g, DataKind kind, Task task) {
  const bool whole = kind == DataKind::images && !task_rule(task).has_masks();
  if (!whole && kind != DataKind::tensors) return;
  if (const OutputEvidence look = unknown_task(spec, g, whole))
    fail(Exit::usage, "E_LOSS_UNKNOWN", describe_unknown_task(look), kUnknownTaskHint);
}

}  // namespace amp
