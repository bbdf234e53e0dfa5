// Predictions: collects what a model predicts for each row of its input, as named fields and as arrays (labels and
// probabilities, numbers, answers, tags, embeddings, the loss of a text). A task's file implements it; run/ writes the
// files.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "data/dataset.h"
#include "data/features/target.h"
#include "data/images/image.h"
#include "data/questions.h"
#include "data/tagged_text.h"
#include "data/tokenizer.h"
#include "trainer/losses/losses.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/task_name.h"

namespace amp {

struct PredictedField {
  std::string name;
  nlohmann::ordered_json value;
  char joint = 0;  // separator of an array's elements in a table's cell; 0: the cell contains JSON
};

class Predictions {
 public:
  virtual ~Predictions() = default;
  // outputs: the values that the loss reads, in the order of LossSpec::values(). Batches come in any order, each sample
  // once.
  virtual void add(const std::vector<HostTensor>& outputs, const Batch& batch) = 0;
  virtual std::vector<PredictedField> row(int64_t row) const = 0;
  virtual std::vector<NamedTensor> tensors() const = 0;  // the predictions as arrays with one row per input row
  virtual int64_t cut() const { return 0; }              // number of rows whose truncated end has no prediction
  // Returns, for segmentation, an image with one class per pixel; else null.
  virtual const Image* mask(int64_t) const { return nullptr; }
};

struct PredictionContext {
  int64_t rows = 0;                       // number of rows of the input: texts, questions
  std::vector<std::string> classes = {};  // class names; a class without a name is called by its number
  const AnswerKey* answers = nullptr;     // question answering only
  AnswerOptions answer_options = {};
  std::span<const TaggedText> tagged = {};     // tagged words only
  std::vector<std::string> text_columns = {};  // text columns of the embeddings of one encoder, one name per side
  // input row of each sample, if a row may have several; empty: samples are rows
  std::span<const int64_t> source_rows = {};
  TargetTransform target = {};           // numbers are reported in the units before this transform
  const Tokenizer* tokenizer = nullptr;  // only for texts with masks to fill
  int64_t top_k = 5;                     // tokens reported for each mask
};

// Returns whether predictions are defined for the task (TaskRule::make_predictions).
bool has_predictions(Task task);
// Creates the object that computes the predictions of a task (TaskRule::make_predictions).
std::unique_ptr<Predictions> make_predictions(Task task, const LossSpec& loss, const PredictionContext& context);

// ---- for the tasks' files

// Returns the value of the shortest decimal (at most nine digits) that reads back as the same float.
double shown(double value);
nlohmann::ordered_json number(double value);  // shown(value); null if it is not finite
std::string class_name(const std::vector<std::string>& classes, int64_t id);
// Returns the number of elements per row of an output with `rows` rows. Throws E_TASK if the rows do not divide it
// evenly.
int64_t width_of(const HostTensor& output, int64_t rows);

}  // namespace amp
