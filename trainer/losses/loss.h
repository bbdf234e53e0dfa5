// A loss: one file in this folder that builds its graph, counts its items and registers itself with a row that says all
// the rest that is known of it (docs/adding_a_loss.md). Everything else goes by the row: parsing, printing, metadata,
// the key of compiled Programs, default outputs, metrics, docs/losses.md.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "trainer/losses/losses.h"
#include "trainer/tasks/task_name.h"

namespace amp {

enum class ParameterForm : uint8_t { number, whole, list };  // list: numbers, one for all or one a class

// A parameter of a loss, as `--loss KIND,name=value` and JSON give it.
struct LossParameter {
  const char* name;
  ParameterForm form = ParameterForm::number;
  double preset = 0;  // of a list: none
  double low = -std::numeric_limits<double>::infinity();
  bool above_low = false;                                 // low itself is refused
  double high = std::numeric_limits<double>::infinity();  // refused
  const char* note = "";                                  // for docs/losses.md
};

// Where the number of classes stands in the output's shape, for labels to be checked before the first step.
// Where an output has its classes: [..., C], or where that does not fit [B, C, ...]; [B, S, C]; [B, C, ...]; [B, S],
// whose classes are the tokens; as of_rows, or a yes or no for each element.
enum class ClassAxis : uint8_t { none, of_rows, of_tokens, of_places, tokens, of_rows_or_elements };

// What docs/losses.md says: a line for each form of output and label.
struct LossDoc {
  const char *takes, *item, *items;
};

using Sums = std::vector<ValueId>;   // of a loss's terms: rank 0, in the outputs' floating type
using Counts = std::vector<double>;  // of their items

struct LossRule {
  const char* name;
  std::vector<LossDoc> doc;
  Sums (*build)(Builder&, const LossSpec&, const LossInputs&);
  Counts (*count)(const LossSpec&, const HostTensor& label, int64_t rows);
  std::vector<LossParameter> parameters = {};
  std::vector<std::string> synonyms = {};
  Task task = Task::none;             // whose metrics can be taken from its outputs and labels
  const char* label = "label";        // the default; "": none needed
  std::vector<double> weights = {1};  // of its terms
  bool root = false;                  // n sqrt(mean) of its n items: roots do not add, their squares do
  bool across_rows = false;           // an item depends on other rows of the batch: what --gradient_cache is for
  bool in_parts = false;              // of one term: build() takes LossInputs::first_item, item_count
  // Outputs.
  size_t min_outputs = 1, max_outputs = 1;
  std::vector<std::string> default_outputs = {};  // where the model has outputs of these names
  bool own_output = false;                        // its output is the loss that the model itself computes
  bool teacher = false;                           // reads a teacher's outputs too
  // Logits.
  bool after_softmax = false, after_sigmoid = false;  // takes the logits before such an ending
  const char* on_logits = "";                         // the kind that is the same on these logits; "": this one
  ClassAxis classes = ClassAxis::none;
  bool next_token = false;     // position s is about the label at s + 1
  bool hidden_tokens = false;  // of texts, about tokens that the model does not see (data/language/masking.h)
  // Of a gradient: from that of `build`'s sum with respect to LossSpec::input [B, ...], the loss's sum. Null: of
  // outputs.
  ValueId (*of_gradient)(Builder&, const LossSpec&, ValueId gradient) = nullptr;
  // Labels as the model's outputs would have them, by uniform numbers [0, 1) in the label's shape; where the label is
  // ignored it stays so. Null: none can be drawn.
  ValueId (*draw)(Builder&, const LossSpec&, const LossInputs&, ValueId uniform) = nullptr;
  // Embeddings: the loss compares rows.
  bool embeddings = false;
  int64_t rows_in_turn = 1;  // rows of a single output that make one item

  const LossParameter* parameter(const std::string& wanted) const;  // null: it has none of that name
};

const std::vector<LossRule>& loss_rules();           // by name
const LossRule& loss_rule(const std::string& kind);  // E_LOSS (usage) with the nearest name when unknown
std::string kind_called(const std::string& name);    // of a synonym: the kind; else the name

// The number of classes that an output of these dims has for labels of those; 0: the label holds no class ids.
int64_t class_count(ClassAxis axis, const Dims& out, const Dims& label);

// At namespace scope of the loss's file: `const LossRegistration registered{{...}};`
struct LossRegistration {
  LossRegistration(LossRule rule);
};

namespace losses {

// ---- parameters that several losses have
inline constexpr LossParameter kIgnoreIndexParameter = {"ignore_index", ParameterForm::whole, -100};
inline constexpr LossParameter kClassWeights = {"class_weights", ParameterForm::list, 0, 0};
inline constexpr LossParameter kLabelSmoothing = {"label_smoothing", ParameterForm::number, 0, 0, false, 1};
inline constexpr LossParameter kPosWeight = {
    "pos_weight", ParameterForm::list, 0, 0, true, std::numeric_limits<double>::infinity(), "one, or one a class"};

// ---- graph
ValueId total(Builder& b, ValueId x);  // sum of all elements, rank 0
ValueId square(Builder& b, ValueId x);
ValueId safe_sqrt(Builder& b, ValueId x);                     // gradient 0, not infinite, at 0
ValueId float_label(Builder& b, ValueId out, ValueId label);  // in the output's shape and type
ValueId residual(Builder& b, const LossInputs& in);           // output - label
[[noreturn]] void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want);
// Where a label is ignore_index, bool in the label's shape; invalid when no label can be (then nothing is masked).
ValueId ignored(Builder& b, const LossSpec& spec, ValueId label);
// sum_c p (log p - log q) per row of the last axis; p = 0 adds nothing
ValueId divergence(Builder& b, ValueId p, ValueId log_p, ValueId log_q);
// The sum of softplus(x) - x y where the label counts, with pos_weight.
ValueId binary_entropy(Builder& b, const LossSpec& spec, ValueId x, ValueId label);

// ---- items
Counts count_all(const LossSpec&, const HostTensor& label, int64_t);         // every element
Counts count_valid(const LossSpec&, const HostTensor& label, int64_t);       // elements other than ignore_index
Counts count_rows(const LossSpec&, const HostTensor&, int64_t rows);         // rows of the batch
Counts count_label_rows(const LossSpec&, const HostTensor& label, int64_t);  // rows of the label
Counts count_groups(const LossSpec& spec, const HostTensor&, int64_t rows);  // rows_together()

}  // namespace losses
}  // namespace amp
