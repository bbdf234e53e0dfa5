// What a run is judged by, task, losses, teacher.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/dataset.h"
#include "importer/read/import.h"
#include "run/settings/values.h"
#include "run/spec/spec.h"
#include "trainer/compile/session.h"
#include "trainer/loop/evaluate.h"

namespace amp {

Task asked_task(const RunSpec& spec);  // --task; none: auto
// Text columns are sides of one encoder: a loss on embeddings was asked for, or the task that has one.
bool wants_sides(const RunSpec& spec);
bool lacks_output(const RunSpec& spec);  // neither --output nor a loss names what is read
Task sides_task(const RunSpec& spec);    // then: regression where a loss takes labels, else retrieval

// Losses (run/prepare/losses.h), told to the user, and the task that they or --task mean. head: the output of a head, if
// there is one. Metrics that the flags name (--require, --metric_for_best_model) are checked against the task.
Objective choose_objective(const RunSpec& spec, const SourceGraph& graph, const std::string& head, Task task,
                           const Log& log);

// --teacher, opened, with its logits in place of trailing softmaxes.
struct OpenTeacher {
  Imported model;
  std::unique_ptr<Teacher> teacher;
  std::vector<InputSpec> inputs(const std::vector<InputSpec>& fed) const;  // that it needs beyond those
};
std::unique_ptr<OpenTeacher> open_teacher(const RunSpec& spec, const Losses& losses,
                                          const Log& log);  // null when no loss distils

// What would fail, or teach wrong pairs, after hours: class labels that the model has no output for (Exit::data,
// E_DATA_LABEL); batches that part pairs or triples of rows (Exit::usage, E_PAIRS).
void check_labels(const SourceGraph& graph, const Losses& losses, const Dataset& data);
// The same where the file leaves the classes' dimension open, or where the shapes of outputs and labels say which it
// is: by the shapes that the first sample gives.
void check_labels(const Session& session, const Losses& losses, const Dataset& data);
int64_t rows_per_item(const Losses& losses);  // rows of a batch that one item takes: a pair's 2
// A warning where cosine_mse is given numbers that no cosine can be: scores from 0 to 5.
void tell_cosine_targets(const Losses& losses, const Dataset& data, const Log& log);
// batch_size: 0 where it counts tokens.
void check_pairs(const Losses& losses, const Dataset& data, int64_t batch_size, bool shuffled);

Gate gate_of(const std::string& text);  // Exit::usage when it is none
void check_gates(const std::vector<std::string>& gates, const Metrics* metrics,
                 const std::string& hint = {});  // Exit::gate, E_GATE

}  // namespace amp
