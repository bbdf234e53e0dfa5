// The settings that change the model before it trains: cut_at, num_labels, head, head_from, pooling, dropout, lora.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/bind.h"
#include "importer/read/import.h"
#include "importer/surgery/dropout.h"
#include "importer/surgery/lora.h"
#include "run/prepare/common.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct Shaped {
  std::vector<std::string> outputs;  // what the loss takes; empty: the flags say nothing, the verb's own rule holds
  std::string head;                  // the kind of head: classification, ... or none
  std::vector<std::string> lines;    // what was done, for people
};

// --cut_at, then the model's own head (resized by --num_labels) or a new one. classes: in the data; 0: they do not say.
// task: what the data are for ("classification", ...; "none": they do not say), which decides the kind of a new head.
// Exit::usage E_NUM_LABELS: the model has a classifier of another size and no flag says what to do with it.
Shaped shape_model(const RunSpec& spec, Job job, Imported& model, int64_t classes, const std::string& task);

// The output that holds an embedding of texts, added where the model has none (shape_model with task "embedding"); what
// was chosen is told.
Shaped shape_embedding(const RunSpec& spec, Job job, Imported& model, const Log& log);
// Output sentence_embedding by the modules.json of a sentence-transformers folder. Returns what was done; empty: there
// is none.
std::vector<std::string> add_sentence_embedding(SourceGraph& graph, const std::string& folder);
// Classes of an output that a loss for `task` reads: of its classifier, else of its shape. 0: none, or not known.
int64_t classes_of_output(const SourceGraph& graph, int output, Task task);
// Outputs of the trained head that shape_model() will keep; 0: it adds a new head. likely: numbers of classes that make
// an output that does not end in a classifier, or is called an embedding, a head all the same.
int64_t kept_outputs(const RunSpec& spec, const SourceGraph& graph, Task task, const std::vector<int64_t>& likely);

// dropout, then lora, on a model whose loss outputs are known.
struct Trainable {
  std::vector<DropoutSpot> dropout;
  std::vector<LoraAdapter> lora;
  bool keep_lora = false;  // --lora_export keep
};
Trainable make_trainable(const RunSpec& spec, SourceGraph& graph, const std::vector<int>& outputs, const Log& log);

// check: what a run with these flags would change, without an error when it cannot be.
struct Preparation {
  std::vector<std::string> lines;
  std::vector<DropoutSpot> dropout;
};
Preparation look_ahead(const RunSpec& spec, Imported model);

// Shapes to bind for looking at a model: batch 2, `length` tokens, the file's where it is static.
BindOptions probe_options(const SourceGraph& g, const std::vector<int>& outputs, int64_t length);
// Sizes of open dimensions that are tried in turn: few tokens; images, of which networks want so many pixels.
inline constexpr std::array<int64_t, 5> kProbedSizes = {3, 16, 64, 224, 640};
// The shapes for the first of these that the graph can be bound for; the first one's error where it is none.
std::vector<Dims> probe_some_size(const SourceGraph& g, const std::vector<int>& outputs);

}  // namespace amp
