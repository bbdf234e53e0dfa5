// A task: one file in this folder that registers a row (docs/adding_a_task.md). The row states how labels are read,
// which head, loss and metrics belong to the task, and how its predictions and per-sample errors are computed. The rest
// of the program reads the row: run/ does not compare tasks, except where it infers one from data or from a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels.h"
#include "trainer/tasks/predictions.h"
#include "trainer/tasks/sample_error.h"
#include "trainer/tasks/task.h"

namespace amp {

// What the rows of text data hold.
enum class TextForm : uint8_t {
  columns,            // columns of texts, and a label column if the task reads one
  tagged_words,       // words with a tag each: a CoNLL file, or columns of a table
  questions,          // questions about passages: SQuAD's JSON, or columns of a table
  own_tokens,         // texts whose own tokens are the labels
  source_and_target,  // a text and the text to write for it
};

// How many outputs a head has for so many classes.
enum class ClassOutputs : uint8_t {
  one_each,
  one_each_or_yes_no,  // one_each; a single output distinguishes two classes
  thresholds,          // K - 1 for K ordered classes: output k is about labels above k
};

// What decides the metrics of a run without `task`.
enum class MetricsFrom : uint8_t {
  loss,            // the task of the first loss
  data,            // this task, if the data are for it and the losses fit
  data_sans_loss,  // the same, only if no loss was asked for
};

struct TaskMetric {
  std::string name;
  bool lower_is_better = false;
};

struct TaskRule {
  const char* name;
  std::vector<std::string_view> synonyms = {};  // of the setting `task`
  // Data.
  std::optional<LabelForm> labels = {};  // how the label column is read; none: the task reads none
  TextForm text = TextForm::columns;
  bool images = false, tables = false;  // image files and tables of features have labels for it
  bool named_classes = false;           // its classes have names
  bool ordered_classes = false;         // the order of the classes is a part of the data
  bool embeddings = false;              // outputs are embeddings; text columns are texts for one encoder
  // Model.
  const char* head = "none";               // kind of a new head (importer/surgery/head.h)
  size_t output_rank = 2, class_axis = 1;  // of outputs whose class_axis has a place for each class
  ClassOutputs outputs = ClassOutputs::one_each;
  // Loss.
  const char* loss = "";
  const char* binary_loss = "";                    // for an output whose class_axis is 1; "": the same
  std::vector<Task> losses_of = {};                // losses of these tasks fit too
  std::vector<std::string_view> more_losses = {};  // and these losses
  // Metrics.
  std::vector<TaskMetric> metrics = {};                                       // those that the console shows
  std::vector<std::string> (*more_metrics)() = nullptr;                       // names of the others
  std::vector<std::string> (*some_metrics)() = nullptr;                       // names of those that only some data have
  const char* best = "loss";                                                  // chooses the best model
  std::string (*best_of)(const std::vector<std::string>& classes) = nullptr;  // the same by the names of classes
  MetricsFrom metrics_from = MetricsFrom::loss;
  std::unique_ptr<TaskMetrics> (*make_metrics)(const LossSpec&, const MetricContext&) = nullptr;
  // Null: predictions (errors) are not computed for this task.
  std::unique_ptr<Predictions> (*make_predictions)(const LossSpec&, const PredictionContext&) = nullptr;
  std::unique_ptr<PerSampleError> (*make_error)(const LossSpec&, const MetricContext&) = nullptr;

  bool writes_text() const { return text == TextForm::own_tokens || text == TextForm::source_and_target; }
  bool from_table() const { return text != TextForm::tagged_words && text != TextForm::questions; }
  bool has_masks() const { return labels == LabelForm::masks; }
  bool has_classes() const { return labels == LabelForm::classes; }  // one for a row
  bool has_numbers() const { return labels == LabelForm::numbers; }
  int64_t classes_of(int64_t head_outputs) const;  // classes that a head of so many outputs distinguishes
  int64_t outputs_for(int64_t classes) const;
};

const std::vector<TaskRule>& task_rules();     // by name, without Task::none
const TaskRule& task_rule(Task task);          // that of Task::none has only defaults
std::string task_names(bool TaskRule::*with);  // "a, b and c"

// At namespace scope of the task's file: `const TaskRegistration registered{{...}};`
struct TaskRegistration {
  TaskRegistration(TaskRule rule);
};

// Values of the row's make_... members: a T is made from the loss and the context.
template <class T>
std::unique_ptr<TaskMetrics> metrics_as(const LossSpec& loss, const MetricContext& context) {
  return std::make_unique<T>(loss, context);
}
template <class T>
std::unique_ptr<Predictions> predictions_as(const LossSpec& loss, const PredictionContext& context) {
  return std::make_unique<T>(loss, context);
}
template <class T>
std::unique_ptr<PerSampleError> error_as(const LossSpec& loss, const MetricContext& context) {
  return std::make_unique<T>(loss, context);
}

}  // namespace amp
