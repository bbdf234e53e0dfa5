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

// Chooses and logs the losses (run/prepare/losses.h), and the task from --task or the losses. head: the output of a
// head, if there is one. Metrics that settings name (--require, --metric_for_best_model) are checked against the task.
Objective choose_objective(const RunSpec& spec, const SourceGraph& graph, const std::string& head, Task task,
                           const Log& log);

// The model of --teacher. It reads logits before trailing softmaxes.
struct OpenTeacher {
  Imported model;
  std::unique_ptr<Teacher> teacher;
  // inputs that the teacher needs in addition to `fed`
  std::vector<InputSpec> inputs(const std::vector<InputSpec>& fed) const;
};
std::unique_ptr<OpenTeacher> open_teacher(const RunSpec& spec, const Losses& losses,
                                          const Log& log);  // null if no loss distills

// Checks that prevent late failures and wrong training: class labels without a model output (Exit::data, E_DATA_LABEL),
// and batches that split pairs or triples of rows (Exit::usage, E_PAIRS; check_pairs).
void check_labels(const SourceGraph& graph, const Losses& losses, const Dataset& data);
// Checks the labels of losses that the declared dims leave open: unknown class dimension, or one that the shapes of
// outputs and labels decide. Uses the shapes that the first sample gives.
void check_labels(const Session& session, const Losses& losses, const Dataset& data);
int64_t rows_per_item(const Losses& losses);  // batch rows per item: 2 for a pair
// Warns if cosine_mse is given labels outside of [-1, 1], such as scores from 0 to 5.
void log_cosine_targets(const Losses& losses, const Dataset& data, const Log& log);
// batch_size is 0 if it counts tokens.
void check_pairs(const Losses& losses, const Dataset& data, int64_t batch_size, bool shuffled);

Gate gate_of(const std::string& text);  // Exit::usage if the text is not a gate
void check_gates(const std::vector<std::string>& gates, const Metrics* metrics,
                 const std::string& hint = {});  // Exit::gate, E_GATE

}  // namespace amp
