// Predictions: what a model predicts for each row of its input, as named fields and as arrays: labels and
// probabilities, numbers, answers, tags, embeddings, the loss of a text. A task's file implements it; run/ writes the
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
  char joint = 0;  // stands between an array's elements in a table's cell; 0: the cell is JSON
};

class Predictions {
 public:
  virtual ~Predictions() = default;
  // outputs: what the loss computes on, in the order of its values(). Batches come in any order, each sample once.
  virtual void add(const std::vector<HostTensor>& outputs, const Batch& batch) = 0;
  virtual std::vector<PredictedField> row(int64_t row) const = 0;
  virtual std::vector<NamedTensor> tensors() const = 0;         // the same in numbers, a row each
  virtual int64_t cut() const { return 0; }                     // rows whose end has no prediction
  virtual const Image* mask(int64_t) const { return nullptr; }  // of segmentation: a class a pixel
};

struct PredictionContext {
  int64_t rows = 0;                       // of the input: texts, questions
  std::vector<std::string> classes = {};  // their names; others are called by their number
  const AnswerKey* answers = nullptr;     // of questions
  AnswerOptions answer_options = {};
  std::span<const TaggedText> tagged = {};     // of words
  std::vector<std::string> text_columns = {};  // sides of one encoder have a name each
  std::span<const int64_t> source_rows = {};   // of each sample, where a row may have several; else samples are rows
  TargetTransform target = {};                 // numbers are reported in the units before it
  const Tokenizer* tokenizer = nullptr;        // of texts whose masks are filled
  int64_t top_k = 5;                           // tokens reported for each mask
};

// By the task's row.
bool has_predictions(Task task);
std::unique_ptr<Predictions> make_predictions(Task task, const LossSpec& loss, const PredictionContext& context);

// ---- for the tasks' files

// As a float's shortest decimal: nine digits at most, and the same float again.
double shown(double value);
nlohmann::ordered_json number(double value);  // shown; null when it is not finite
std::string class_name(const std::vector<std::string>& classes, int64_t id);
// Elements a row of an output with `rows` rows; E_TASK when they do not divide.
int64_t width_of(const HostTensor& output, int64_t rows);

}  // namespace amp
