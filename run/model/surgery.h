// Changes the model before training: cut_at, num_labels, head, head_from, pooling, dropout, lora.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "importer/read/import.h"
#include "importer/surgery/dropout.h"
#include "run/model/adapters.h"
#include "run/spec/job.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct ModelSpec;
struct RunSpec;

struct SurgeryResult {
  // Outputs that the loss reads; empty: surgery chose none, and the job chooses by its own rule.
  std::vector<std::string> outputs;
  std::string head;                // kind of head: classification, ... or none
  std::vector<std::string> lines;  // changes, for the log
};

// Applies `cut_at`, then keeps the model's own head (resized by `num_labels`) or attaches a new one. classes: number of
// classes in the data; 0: not known. head: the kind of a new head that the task needs ("classification", ...), or
// "none". Exit::usage E_NUM_LABELS: the model's classifier has another number of outputs than the data have classes and
// no setting decides, or the number of outputs of a new head is not known.
SurgeryResult apply_surgery(const RunSpec& spec, Job job, Imported& model, int64_t classes, const std::string& head);

// Finds the output that holds an embedding of texts, or adds one as apply_surgery() does for the head "embedding". Logs
// the choice.
SurgeryResult apply_embedding_surgery(const RunSpec& spec, Job job, Imported& model, const Log& log);
// Adds the output sentence_embedding as modules.json of a sentence-transformers folder describes it. Returns lines for
// the log. Does nothing and returns no lines if there is no modules.json, or if the graph has an embedding already.
std::vector<std::string> add_sentence_embedding(SourceGraph& graph, const std::string& folder);
// Returns the number of classes of an output that a loss for `task` reads, by its declared or inferred shape; 0 if it
// has no classes or the number is unknown.
int64_t classes_of_output(const SourceGraph& graph, int output, Task task);
// Returns the number of classes of the existing head that apply_surgery() will keep, or 0 if it will add a new head.
// likely: numbers of classes for which an output counts as a head even if it does not end in a classifier or has the
// name of an embedding.
int64_t kept_outputs(const ModelSpec& model, const SourceGraph& graph, Task task, const std::vector<int64_t>& likely);

// Inserts dropout, then LoRA adapters. Call it after the outputs for the loss are chosen.
Trainable make_trainable(const RunSpec& spec, Imported& model, const std::vector<int>& outputs, const Log& log);

// For `check`: describes the changes that a run with these settings would make. Errors of the model become lines of the
// result.
struct SurgeryPreview {
  std::vector<std::string> lines;
  std::vector<DropoutSpot> dropout;
};
SurgeryPreview preview_surgery(const RunSpec& spec, Imported model);

}  // namespace amp
