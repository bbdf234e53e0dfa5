// LossRule: definition of a kind of loss. Each loss is one file in this folder. The file builds the graph, counts the
// items and registers a LossRule (docs/adding_a_loss.md). Everything else reads the rule: parsing, printing, metadata,
// the key of compiled Programs, default outputs, metrics, docs/losses.md.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "trainer/losses/losses.h"
#include "trainer/tasks/task_name.h"

namespace amp {

enum class ParameterForm : uint8_t { number, whole, list };  // list: one number for all classes, or one per class

// A parameter of a loss, as given by `--loss KIND,name=value` and JSON.
struct LossParameter {
  const char* name;
  ParameterForm form = ParameterForm::number;
  double preset = 0;                                      // the default; lists have none
  double low = -std::numeric_limits<double>::infinity();  // smallest permitted value
  bool above_low = false;                                 // low itself is not permitted
  double high = std::numeric_limits<double>::infinity();  // exclusive upper bound
  const char* note = "";                                  // for docs/losses.md
};

// Position of the class axis in the output's shape, so that labels can be checked before the first step.
//   of_rows              [..., C], or [B, C, ...] if the label does not match that
//   of_tokens            [B, S, C]
//   of_places            [B, C, ...]
//   tokens               [B, S]; the classes are the tokens
//   of_rows_or_elements  as of_rows, or one binary label per element
enum class ClassAxis : uint8_t { none, of_rows, of_tokens, of_places, tokens, of_rows_or_elements };

// An entry of docs/losses.md: the outputs and labels that the loss takes, the formula of an item's loss, and what
// counts as an item. A loss has one entry for each form of output and label.
struct LossDoc {
  const char *takes, *item, *items;
};

using Sums = std::vector<ValueId>;   // sum of each term: rank 0, in the outputs' floating type
using Counts = std::vector<double>;  // number of items of each term

struct LossRule {
  const char* name;
  std::vector<LossDoc> doc;
  Sums (*build)(Builder&, const LossSpec&, const LossInputs&);
  Counts (*count)(const LossSpec&, const HostTensor& label, int64_t rows);
  std::vector<LossParameter> parameters = {};
  std::vector<std::string> synonyms = {};
  Task task = Task::none;             // the task whose metrics can be computed from its outputs and labels
  const char* label = "label";        // default name of the label; "": none needed
  const char* second_label = "";      // name of another tensor of labels; "": none
  std::vector<double> weights = {1};  // weight of each term of the loss; a loss is a weighted sum of its terms
  bool root = false;         // the sum is n sqrt(mean) over n items; sums of several batches combine by their squares
  bool across_rows = false;  // an item depends on other rows of the batch, so --gradient_cache applies
  bool in_parts = false;     // build() supports LossInputs::first_item and item_count; requires one term
  // Outputs.
  size_t min_outputs = 1, max_outputs = 1;
  std::vector<std::string> default_outputs = {};  // used if the model has outputs of these names
  bool own_output = false;                        // its output is the loss that the model itself computes
  bool teacher = false;                           // also reads a teacher's outputs
  bool own_reference = false;  // with `teacher`: if no teacher is given, it is the model before training
  // Logits.
  bool after_softmax = false, after_sigmoid = false;  // reads the logits if the model ends with this operator
  const char* on_logits = "";                         // kind of loss to use on these logits; "": this kind
  ClassAxis classes = ClassAxis::none;
  int64_t more_classes = 0;    // classes beyond the axis's extent: outputs are thresholds between classes
  bool next_token = false;     // the output at position s predicts the label at s + 1
  bool hidden_tokens = false;  // for text: predicts tokens that are masked in the input (data/language/masking.h)
  // For a loss of a gradient: returns the loss's sum, given the gradient of build()'s sum with respect to
  // LossSpec::input [B, ...]. Null: the loss is computed from outputs.
  ValueId (*of_gradient)(Builder&, const LossSpec&, ValueId gradient) = nullptr;
  // Samples labels from the distribution that the outputs define. uniform: numbers in [0, 1) in the label's shape.
  // Ignored labels stay ignored. Null: labels cannot be sampled.
  ValueId (*draw)(Builder&, const LossSpec&, const LossInputs&, ValueId uniform) = nullptr;
  // Embeddings: the loss compares rows.
  bool embeddings = false;
  int64_t rows_in_turn = 1;  // rows per item, if a single output contains alternating sides

  const LossParameter* parameter(const std::string& wanted) const;  // null: no parameter of that name
};

const std::vector<LossRule>& loss_rules();           // sorted by name
const LossRule& loss_rule(const std::string& kind);  // unknown: E_LOSS (usage) with the nearest name
std::string kind_called(const std::string& name);    // resolves a synonym to its kind; returns other names unchanged

// Returns the number of classes of an output for labels of these dims; 0 if the label does not contain class ids.
int64_t class_count(ClassAxis axis, const Dims& out, const Dims& label);

// Registers a loss. Use at namespace scope of the loss's file: `const LossRegistration registered{{...}};`
struct LossRegistration {
  LossRegistration(LossRule rule);
};

namespace losses {

// ---- parameters of several losses
inline constexpr LossParameter kIgnoreIndexParameter = {"ignore_index", ParameterForm::whole, -100};
inline constexpr LossParameter kClassWeights = {"class_weights", ParameterForm::list, 0, 0};
inline constexpr LossParameter kLabelSmoothing = {"label_smoothing", ParameterForm::number, 0, 0, false, 1};
inline constexpr LossParameter kPosWeight = {
    "pos_weight", ParameterForm::list, 0, 0, true, std::numeric_limits<double>::infinity(), "one, or one a class"};

// ---- graph
ValueId total(Builder& b, ValueId x);  // sum of all elements, rank 0
ValueId square(Builder& b, ValueId x);
ValueId safe_sqrt(Builder& b, ValueId x);                     // the gradient at 0 is 0 instead of infinite
ValueId float_label(Builder& b, ValueId out, ValueId label);  // the label in the output's shape and type
ValueId residual(Builder& b, const LossInputs& in);           // output - label
[[noreturn]] void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want);
// Returns whether each label is ignore_index: bool in the label's shape.
ValueId ignored(Builder& b, const LossSpec& spec, ValueId label);
// Returns the Kullback-Leibler divergence sum_c p (log p - log q) per row of the last axis. Elements with p = 0 add 0.
ValueId divergence(Builder& b, ValueId p, ValueId log_p, ValueId log_q);
// Returns the sum of the binary cross-entropy softplus(x) - x y over valid labels, with pos_weight.
ValueId binary_entropy(Builder& b, const LossSpec& spec, ValueId x, ValueId label);

// ---- counts of items
Counts count_all(const LossSpec&, const HostTensor& label, int64_t);         // all elements of the label
Counts count_valid(const LossSpec&, const HostTensor& label, int64_t);       // label elements other than ignore_index
Counts count_rows(const LossSpec&, const HostTensor&, int64_t rows);         // rows of the batch
Counts count_label_rows(const LossSpec&, const HostTensor& label, int64_t);  // rows of the label
Counts count_groups(const LossSpec& spec, const HostTensor&, int64_t rows);  // number of items: rows / rows_together()

}  // namespace losses
}  // namespace amp
