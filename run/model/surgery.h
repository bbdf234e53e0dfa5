// Changes the model before training: cut_at, num_labels, head, head_from, pooling, dropout, lora.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "graph/bind.h"
#include "importer/read/import.h"
#include "importer/surgery/dropout.h"
#include "importer/surgery/lora.h"
#include "run/spec/job.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct ModelSpec;
struct RunSpec;

struct SurgeryResult {
  std::vector<std::string> outputs;  // outputs for the loss; empty: not chosen by flags, the verb chooses by its rule
  std::string head;                  // kind of head: classification, ... or none
  std::vector<std::string> lines;    // changes, for the log
};

// Applies --cut_at, then keeps the model's own head (resized by --num_labels) or attaches a new one. classes: of the
// data; 0: not known. head: the kind of a new head that the task needs ("classification", ...), or "none". Exit::usage
// E_NUM_LABELS: the classifier has another size and no flag decides, or the size of a new head is not known.
SurgeryResult apply_surgery(const RunSpec& spec, Job job, Imported& model, int64_t classes, const std::string& head);

// Finds the output that holds an embedding of texts, or adds one (apply_surgery() with head "embedding"); logs the
// choice.
SurgeryResult apply_embedding_surgery(const RunSpec& spec, Job job, Imported& model, const Log& log);
// Adds the output sentence_embedding by modules.json of a sentence-transformers folder. Returns lines for the log;
// empty: there is no modules.json, or the graph has an embedding.
std::vector<std::string> add_sentence_embedding(SourceGraph& graph, const std::string& folder);
// Number of classes of an output that a loss for `task` reads, by its declared or inferred shape. 0: none, or not
// known.
int64_t classes_of_output(const SourceGraph& graph, int output, Task task);
// Number of outputs of the existing head that apply_surgery() will keep; 0: it adds a new head. likely: numbers of
// classes by which an output counts as a head although it does not end in a classifier, or is named as an embedding.
int64_t kept_outputs(const ModelSpec& model, const SourceGraph& graph, Task task, const std::vector<int64_t>& likely);

// Inserts dropout, then LoRA adapters. The outputs for the loss must be known.
struct Trainable {
  std::vector<DropoutSpot> dropout;
  std::vector<LoraAdapter> lora;
  bool keep_lora = false;  // --lora_export keep
};
Trainable make_trainable(const RunSpec& spec, SourceGraph& graph, const std::vector<int>& outputs, const Log& log);

// For `check`: the changes that a run with these flags would make. Errors of the model become lines.
struct SurgeryPreview {
  std::vector<std::string> lines;
  std::vector<DropoutSpot> dropout;
};
SurgeryPreview preview_surgery(const RunSpec& spec, Imported model);

// Input shapes for shape inference: the declared sizes; open dimensions are 2 rows, `length` tokens or
// pixels, otherwise 1.
BindOptions probe_options(const SourceGraph& g, const std::vector<int>& outputs, int64_t length);
// Sizes of open dimensions that are tried in this order: few tokens, then sides of images.
inline constexpr std::array<int64_t, 5> kProbedSizes = {3, 16, 64, 224, 640};
// Shapes of all values for the first of these sizes that works. If none does, throws the error of the first one.
std::vector<Dims> probe_some_size(const SourceGraph& g, const std::vector<int>& outputs);

}  // namespace amp
