// The objective of a run: task, losses and teacher, and the checks of data against them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "importer/read/import.h"
#include "run/settings/values.h"
#include "trainer/compile/session.h"
#include "trainer/loop/evaluate.h"

namespace amp {

struct RunSpec;

// Chooses and logs the losses (run/prepare/losses.h), and the task from `task` or the losses. head: the output of a
// head; empty: there is none. Checks that the metrics that settings name (`require`, `metric_for_best_model`) exist for
// the task. references: see choose_losses().
Objective choose_objective(const RunSpec& spec, const SourceGraph& graph, const std::string& head, Task task,
                           const Log& log, bool references = false);

// The model of `teacher`. If its outputs end in a softmax, the logits before it are used.
struct OpenTeacher {
  Imported model;
  std::unique_ptr<Teacher> teacher;
  // Returns the inputs that the teacher needs in addition to `fed`.
  std::vector<InputSpec> inputs(const std::vector<InputSpec>& fed) const;
};
// Returns null if no loss distills.
std::unique_ptr<OpenTeacher> open_teacher(const RunSpec& spec, const Losses& losses, const Log& log);

// Checks the data against the losses before training. Throws E_DATA_LABEL (Exit::data) for class labels that have no
// output of the model, and E_PAIRS (Exit::usage) for batches that would split pairs or triples of rows (check_pairs).
void check_labels(const SourceGraph& graph, const Losses& losses, const Dataset& data);
// Checks the labels of losses whose number of classes the declared dims do not determine, with the shapes that the
// first sample gives.
void check_labels(const Session& session, const Losses& losses, const Dataset& data);
int64_t rows_per_item(const Losses& losses);  // number of batch rows that a loss reads together: 2 for a pair
// Warns if cosine_mse is given labels outside of [-1, 1], such as scores from 0 to 5.
void log_cosine_targets(const Losses& losses, const Dataset& data, const Log& log);
// Throws E_PAIRS if a batch would split rows that a loss reads together. batch_size: number of samples, or 0 if batches
// are counted in tokens.
void check_pairs(const Losses& losses, const Dataset& data, int64_t batch_size, bool shuffled);

Gate gate_of(const std::string& text);  // throws Exit::usage if the text is not a gate
// The outcome of a gate. value: the final value of its metric; NaN if there is none.
struct GateResult {
  std::string text;
  double value = 0;
  bool met = false;
};
std::vector<GateResult> gate_results(const std::vector<std::string>& gates, const Metrics* metrics);
// Throws E_GATE (Exit::gate) if the metrics do not meet a gate. The error lists all that are not met.
void check_gates(const std::vector<std::string>& gates, const Metrics* metrics, const std::string& hint = {});

}  // namespace amp
