// Losses as parts of the graph. A run minimizes
//   sum over terms of  weight * (sum of the term over the accumulation step) / (items of the term in it).
// Items are counted from the labels (for losses without labels, from the number of rows), so they are known before the
// first micro-batch. The seed of the backward pass is loss_scale * weight / items. Therefore k micro-batches equal one
// large batch for every loss whose rows are independent (docs/losses.md lists the others). A term without items adds
// neither loss nor gradient.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace amp {

using Tensors = std::map<std::string, HostTensor>;  // by name: graph inputs and labels, or outputs

// One loss. docs/losses.md lists formulas, shapes and items of every kind; trainer/losses/loss.h defines a kind.
struct LossSpec {
  std::string kind = "cross_entropy";
  std::vector<std::string> outputs = {};  // the model outputs, as the user names them
  std::vector<std::string> reads = {};    // values to read instead of the outputs: logits before a trailing softmax
  // Losses with a teacher: values of the graph to read in place of the teacher's outputs, in the order of outputs.
  // Empty: the batch has these outputs.
  std::vector<std::string> reference = {};
  std::string label = {};  // tensor of the batch; empty: the kind's default ("label", or none)
  double weight = 1;
  bool bypass = true;      // read the logits before a trailing softmax or sigmoid
  int64_t sides = 0;       // number of rows per pair or triple, if they alternate in one output; 0: the kind's default
  std::string input = {};  // losses of a gradient: the value with respect to which the output is differentiated
  std::map<std::string, std::vector<double>> given = {};  // parameters that are not at their default
  // Lists given by class name, and class_weights=balanced. They become `given` once classes and labels are known.
  std::map<std::string, std::map<std::string, double>> by_class = {};
  bool balanced = false;

  // Return the value of a parameter, as given or by default. The kind must have the parameter.
  double number(const std::string& parameter) const;
  const std::vector<double>& list(const std::string& parameter) const;  // empty: none given
  bool has(const std::string& parameter) const;
  void set(const std::string& parameter, std::vector<double> value);
  int64_t ignore_index() const;  // -100 for kinds that have none

  std::string label_name() const;  // name of the batch's tensor with the labels; empty: the loss needs no label
  const std::vector<std::string>& values() const { return reads.empty() ? outputs : reads; }
};

// All losses of a run.
struct Losses {
  Losses() = default;
  Losses(LossSpec one) : parts{std::move(one)} {}  // implicit: a run often has a single loss
  std::vector<LossSpec> parts;

  std::vector<std::string> outputs() const;  // the outputs of all parts, each name once
  std::vector<std::string> labels() const;   // the labels of all parts, each name once
  bool wants_teacher() const;                // a loss reads a teacher's outputs from the batch
  std::string key() const;                   // losses with different graphs have different keys
};

// Name of the tensor [B] of answers' marks: 1 for desirable answers, else 0.
inline constexpr const char* kDesirable = "desirable";

// Returns the name under which a batch stores the teacher's values for the model output `output`.
std::string teacher_name(const std::string& output);

const std::vector<std::string>& loss_kinds();

// Returns only the losses whose items depend on other rows of the batch.
Losses losses_across_rows(const Losses& losses);

// Returns the number of rows per item if a single output contains alternating pairs or triples; else 1.
int64_t rows_together(const LossSpec& spec);

struct LossInputs {
  std::vector<ValueId> outputs;  // graph values of spec.values(), in order
  ValueId label;                 // invalid if the loss needs none
  ValueId second_label = {};     // LossRule::second_label; invalid if the loss needs none
  std::vector<ValueId> teacher;  // distill: the teacher's values, in the order of outputs
  int64_t rows = 0;              // number of rows of the batch
  // For losses with LossRule::in_parts: only these items are summed, each compared with all rows. item_count 0: all
  // items.
  int64_t first_item = 0, item_count = 0;
};

// Adds the loss to the graph and returns the sum of each term: scalars in fp32 (fp64), under any precision plan of the
// outputs. Throws E_DATA_SHAPE (Exit::data) if labels do not match the outputs.
std::vector<ValueId> build_loss(Builder& b, const LossSpec& spec, const LossInputs& in);

std::vector<double> term_weights(const LossSpec& spec);
// Returns the number of items per term, the divisor of its sum. label may be absent if the loss needs none.
std::vector<double> count_items(const LossSpec& spec, const HostTensor& label, int64_t rows = 0);
int64_t batch_rows(const Losses& losses, const Tensors& batch);

// LossAccumulator: sums and items per term over an accumulation step (or a whole evaluation).
class LossAccumulator {
 public:
  // whole_set: for evaluation. A loss that is the root of a mean is then the root over all items. Otherwise it is the
  // mean of the micro-batches' roots, which training minimizes. With whole_set, count() and add() must alternate.
  explicit LossAccumulator(const Losses& losses, bool whole_set = false);
  // Adds the items of a micro-batch before it runs. items: counted() of another LossAccumulator.
  void count(const Tensors& batch);
  void count(const std::vector<double>& items);
  const std::vector<double>& counted() const { return counted_; }
  void add(const std::vector<double>& sums);  // adds the sums that Session returned for the batch
  std::vector<double> seeds(double scale) const;
  double loss() const;                                     // 0 without items; non-finite if a sum is
  double items() const;                                    // number of items of all terms
  std::vector<double>& items_by_term() { return items_; }  // mutable, to add the items of other ranks

 private:
  const Losses& losses_;
  std::vector<double> weights_, items_, sums_;
  std::vector<double> counted_;  // indexed by term: number of items of the last batch
  std::vector<bool> roots_;
};

}  // namespace amp
