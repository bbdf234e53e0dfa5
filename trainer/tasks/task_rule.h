// TaskRule: the definition of a task. Each task is one file in this folder that registers such a row
// (docs/adding_a_task.md). The row states how labels are read, which head, loss and metrics belong to the task, and how
// its predictions and per-sample errors are computed. The rest of the program reads the row. run/ compares tasks only
// to infer one from data or from a model.
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

// The content of a row of text data.
enum class TextForm : uint8_t {
  columns,            // columns of texts, and a label column if the task reads one
  tagged_words,       // words with a tag each: a CoNLL file, or columns of a table
  questions,          // questions about passages: SQuAD's JSON, or columns of a table
  own_tokens,         // texts whose own tokens are the labels
  source_and_target,  // a text and the text to write for it
};

// The number of outputs that a head has for a number of classes.
enum class ClassOutputs : uint8_t {
  one_each,
  one_each_or_yes_no,  // as one_each, but a single output distinguishes two classes
  thresholds,          // K - 1 for K ordered classes; output k predicts whether the label is above k
};

// Selects the task of a run's metrics if the setting `task` is not given.
enum class MetricsFrom : uint8_t {
  loss,            // the task of the first loss
  data,            // this task, if the data are made for it and the losses fit it
  data_sans_loss,  // as data, but only if no loss was given
};

struct TaskMetric {
  std::string name;
  bool lower_is_better = false;
};

struct TaskRule {
  const char* name;
  std::vector<std::string_view> synonyms = {};  // other names that the setting `task` accepts
  // Data.
  std::optional<LabelForm> labels = {};  // how the label column is read; empty: the task reads none
  TextForm text = TextForm::columns;
  bool images = false, tables = false;  // whether image files (or tables of features) can have the task's labels
  bool named_classes = false;           // whether its classes have names
  bool ordered_classes = false;         // whether its classes have an order, which is part of the data
  // Whether outputs are embeddings. Each text column is then a separate sequence for the same encoder.
  bool embeddings = false;
  // Model.
  const char* head = "none";               // kind of a new head (importer/surgery/head.h)
  size_t output_rank = 2, class_axis = 1;  // shape of outputs that have one element per class
  ClassOutputs outputs = ClassOutputs::one_each;
  // Loss.
  const char* loss = "";
  const char* binary_loss = "";                    // for outputs with an extent of 1 on class_axis; "": `loss`
  std::vector<Task> losses_of = {};                // tasks whose losses fit too
  std::vector<std::string_view> more_losses = {};  // further losses that fit
  // Metrics.
  std::vector<TaskMetric> metrics = {};                  // metrics that the console shows
  std::vector<std::string> (*more_metrics)() = nullptr;  // names of further metrics
  std::vector<std::string> (*some_metrics)() = nullptr;  // names of metrics that only some data have
  const char* best = "loss";                             // the metric that selects the best model
  std::string (*best_of)(const std::vector<std::string>& classes) = nullptr;  // replaces `best`, given the class names
  MetricsFrom metrics_from = MetricsFrom::loss;
  std::unique_ptr<TaskMetrics> (*make_metrics)(const LossSpec&, const MetricContext&) = nullptr;
  // make_predictions (make_error) is null if predictions (per-sample errors) are not computed for this task.
  std::unique_ptr<Predictions> (*make_predictions)(const LossSpec&, const PredictionContext&) = nullptr;
  std::unique_ptr<PerSampleError> (*make_error)(const LossSpec&, const MetricContext&) = nullptr;

  // Task that exported models record, whose data have the same columns; "": this task.
  const char* recorded_as = "";

  bool writes_text() const { return text == TextForm::own_tokens || text == TextForm::source_and_target; }
  bool from_table() const { return text != TextForm::tagged_words && text != TextForm::questions; }
  bool has_masks() const { return labels == LabelForm::masks; }
  bool has_classes() const { return labels == LabelForm::classes; }  // one class per row
  bool has_numbers() const { return labels == LabelForm::numbers; }
  int64_t classes_of(int64_t head_outputs) const;  // number of classes that a head with that many outputs distinguishes
  int64_t outputs_for(int64_t classes) const;
};

const std::vector<TaskRule>& task_rules();     // sorted by name, without Task::none
const TaskRule& task_rule(Task task);          // the row of Task::none has only defaults
std::string task_names(bool TaskRule::*with);  // names of the tasks whose member `with` is true: "a, b and c"

// Registers a task. Use at namespace scope of the task's file: `const TaskRegistration registered{{...}};`
struct TaskRegistration {
  TaskRegistration(TaskRule rule);
};

// Functions for the row's make_... members, which construct a T from the loss and the context.
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
