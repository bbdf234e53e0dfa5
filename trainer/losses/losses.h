// Losses as graph. A run minimises
//   sum over terms of  weight * (sum of the term over the window) / (items of the term in the window),
// a window being the micro-batches of one optimizer step. Items follow from the labels (for losses without labels, from
// the number of rows), so they are known before the first micro-batch: backward starts at loss_scale * weight / items,
// and k micro-batches equal one large batch for every loss whose rows do not see each other (docs/losses.md names the
// others). A term without items adds neither loss nor gradient.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace amp {

using Tensors = std::map<std::string, HostTensor>;  // by name: graph inputs and labels, or outputs

// One loss. Formulas, shapes and items of every kind: docs/losses.md; what a kind is made of: trainer/losses/loss.h.
struct LossSpec {
  std::string kind = "cross_entropy";
  std::vector<std::string> outputs = {};  // the model outputs it is about, as the user names them
  std::vector<std::string> reads = {};    // the values it computes on instead: logits before a trailing softmax
  std::string label = {};                 // tensor of the batch; empty: the kind's default ("label", or none)
  double weight = 1;
  bool bypass = true;      // take the logits behind a trailing softmax or sigmoid
  int64_t sides = 0;       // of pairs and triples in one output: rows in turn; 0: as many as the kind takes
  std::string input = {};  // of losses of a gradient: the value that it is with respect to
  std::map<std::string, std::vector<double>> given = {};  // parameters that are not at their default
  // Lists that are given by class name, and class_weights=balanced: become `given` once classes and labels are known.
  std::map<std::string, std::map<std::string, double>> by_class = {};
  bool balanced = false;

  // Parameters of the kind's row, as given or by default; asking for another is a bug.
  double number(const std::string& parameter) const;
  const std::vector<double>& list(const std::string& parameter) const;  // empty: none given
  bool has(const std::string& parameter) const;
  void set(const std::string& parameter, std::vector<double> value);
  int64_t ignore_index() const;  // -100 for kinds that have none

  std::string label_name() const;  // of the batch's tensor; empty: it needs none
  const std::vector<std::string>& values() const { return reads.empty() ? outputs : reads; }
};

// All losses of a run.
struct Losses {
  Losses() = default;
  Losses(LossSpec one) : parts{std::move(one)} {}  // a single loss is a run's losses, so this is implicit
  std::vector<LossSpec> parts;

  std::vector<std::string> outputs() const;  // each once
  std::vector<std::string> labels() const;   // each once
  bool wants_teacher() const;
  std::string key() const;  // differs when the graph of the losses does
};

// A teacher's output for model output NAME travels in the batch under this name.
std::string teacher_name(const std::string& output);

const std::vector<std::string>& loss_kinds();
void check_loss_kind(const std::string& kind);  // usage error with the nearest name

// Those whose items depend on other rows of the batch, without the others.
Losses losses_across_rows(const Losses& losses);

// How many rows of a batch make one item, where a single output holds pairs or triples in turn; else 1.
int64_t rows_together(const LossSpec& spec);

struct LossInputs {
  std::vector<ValueId> outputs;  // core values of spec.values(), in order
  ValueId label;                 // invalid when the loss takes none
  std::vector<ValueId> teacher;  // distill: as outputs
  int64_t rows = 0;              // of the batch
  // Of a loss that can be built so (LossRule::in_parts): the sum of these items alone, among all rows; count 0: of all.
  int64_t first_item = 0, item_count = 0;
};

// The sum of each term: scalars in fp32 (fp64), whatever the plan does to the outputs. Exit::data (E_DATA_SHAPE) for
// labels that do not fit the outputs.
std::vector<ValueId> build_loss(Builder& b, const LossSpec& spec, const LossInputs& in);

std::vector<double> term_weights(const LossSpec& spec);
// What each term's sum is divided by. label may be absent when the loss takes none.
std::vector<double> count_items(const LossSpec& spec, const HostTensor& label, int64_t rows = 0);
int64_t batch_rows(const Losses& losses, const Tensors& batch);

// The sums and items of a window (or of a whole evaluation), term by term.
class LossWindow {
 public:
  // whole_set: losses that are the root of a mean are that of all items, not a mean of the batches' roots. Each batch
  // is then counted and added in turn. (Training minimises what its micro-batches' gradients are of: the mean.)
  explicit LossWindow(const Losses& losses, bool whole_set = false);
  void count(const Tensors& batch);              // items of a micro-batch, before it runs
  void count(const std::vector<double>& items);  // the same, counted by term by another window's counted()
  const std::vector<double>& counted() const { return counted_; }
  void add(const std::vector<double>& sums);  // what Session returned for it
  std::vector<double> seeds(double scale) const;
  double loss() const;                                     // 0 when nothing was counted; non-finite when a sum is
  double items() const;                                    // of all terms
  std::vector<double>& items_by_term() { return items_; }  // for those who count with other ranks

 private:
  const Losses& losses_;
  std::vector<double> weights_, items_, sums_;
  std::vector<double> counted_;  // items of the batch counted last
  std::vector<bool> roots_;
};

}  // namespace amp
