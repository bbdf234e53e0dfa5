#include "trainer/losses.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "ops/compose.h"
#include "trainer/losses_parts.h"

namespace amp {

const std::vector<LossRule>& loss_rules() {
  using namespace losses;
  using P = std::vector<std::string>;
  static const P classes = {"ignore_index", "class_weights", "label_smoothing"};
  static const std::vector<LossRule> rules = {
      {"cross_entropy", cross_entropy, count_classes, 1, 1, "label", classes},
      {"cross_entropy_nchw", cross_entropy, count_classes, 1, 1, "label", classes},
      {"masked_lm", cross_entropy, count_classes, 1, 1, "label", classes},
      {"causal_lm", causal_lm, count_causal, 1, 1, "label", classes},
      {"qa_span", qa_span, count_span, 2, 2, "label", {"ignore_index"}, {0.5, 0.5}},
      {"nll_probs", nll_probs, count_all},
      {"focal", focal, count_focal, 1, 1, "label", {"gamma", "alpha", "ignore_index", "class_weights"}},
      {"bce_logits", bce_logits, count_valid, 1, 1, "label", {"pos_weight", "ignore_index"}},
      {"mse", mse, count_all},
      {"l1", l1, count_all},
      {"huber", huber, count_all, 1, 1, "label", {"delta"}},
      {"rmspe", rmspe, count_nonzero, 1, 1, "label", {}, {1}, true},
      {"rmspe_exp", rmspe_exp, count_all, 1, 1, "label", {}, {1}, true},
      {"kl", kl, count_rows_of_last},
      {"distill", distill, count_distill, 1, 1, "", {"temperature", "ignore_index"}},
      {"dice", dice, count_dice, 1, 1, "label", {"smooth", "ignore_index"}},
      {"dice_ce",
       dice_ce,
       count_dice_ce,
       1,
       1,
       "label",
       {"smooth", "ignore_index", "class_weights", "label_smoothing", "pos_weight"},
       {1, 1}},
      {"cosine", cosine, count_label_rows, 1, 1, "label", {"margin"}},
      {"cosine_mse", cosine_mse, count_all},
      {"triplet", triplet, count_groups_of_3, 1, 3, "", {"margin"}},
      {"multiple_negatives", multiple_negatives, count_groups_of_2, 1, 3, "", {"scale"}},
      {"model", model, count_rows, 1, 1, ""}};
  return rules;
}

const std::vector<std::string>& loss_kinds() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> names;
    for (const LossRule& r : loss_rules()) names.push_back(r.name);
    return names;
  }();
  return kinds;
}

const LossRule& loss_rule(const std::string& kind) {
  for (const LossRule& r : loss_rules()) {
    if (kind == r.name) return r;
  }
  const std::string near = nearest(kind, loss_kinds());
  fail(Exit::usage, "E_LOSS", cat("unknown loss '", printable(kind), "'"),
       near.empty() ? "known: " + join(loss_kinds(), ", ") : "did you mean '" + near + "'?");
}
void check_loss_kind(const std::string& kind) { loss_rule(kind); }

int64_t rows_together(const LossSpec& spec) {
  if (spec.outputs.size() > 1) return 1;
  if (spec.sides > 0) return spec.sides;
  if (spec.kind == "triplet") return 3;
  return spec.kind == "cosine_mse" || spec.kind == "multiple_negatives"
             ? 2
             : 1;  // cosine's label says whether it has pairs
}

bool compares_rows(const LossSpec& spec) {
  return spec.kind == "cosine" || spec.kind == "cosine_mse" || spec.kind == "triplet" ||
         spec.kind == "multiple_negatives";
}

bool has_parameter(const std::string& kind, const std::string& name) {
  const std::vector<std::string>& all = loss_rule(kind).parameters;
  return std::find(all.begin(), all.end(), name) != all.end();
}

std::string teacher_name(const std::string& output) { return "teacher/" + output; }

std::string LossSpec::label_name() const { return label.empty() ? loss_rule(kind).label : label; }

namespace {
template <class F>
std::vector<std::string> distinct(const Losses& losses, F&& names) {
  std::vector<std::string> out;
  for (const LossSpec& s : losses.parts) {
    for (const std::string& n : names(s)) {
      if (!n.empty() && std::find(out.begin(), out.end(), n) == out.end()) out.push_back(n);
    }
  }
  return out;
}
}  // namespace

std::vector<std::string> Losses::outputs() const {
  return distinct(*this, [](const LossSpec& s) { return s.outputs; });
}
std::vector<std::string> Losses::labels() const {
  return distinct(*this, [](const LossSpec& s) { return std::vector<std::string>{s.label_name()}; });
}
bool Losses::wants_teacher() const {
  return std::any_of(parts.begin(), parts.end(), [](const LossSpec& s) { return s.kind == "distill"; });
}
std::string Losses::key() const {  // made for every micro-batch: no formatting
  std::string out;
  const auto number = [&](double x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  for (const LossSpec& s : parts) {
    out += s.kind + '(' + join(s.outputs, ",") + '|' + join(s.reads, ",") + '|' + s.label + '|';
    for (const double x : {static_cast<double>(s.ignore_index), s.label_smoothing, s.delta, s.gamma, s.alpha, s.smooth,
                           s.margin.value_or(NAN), s.scale, s.temperature, static_cast<double>(s.sides)})
      number(x);
    for (const double x : s.class_weights) number(x);
    out += '|';
    for (const double x : s.pos_weight) number(x);
    out += ')';
  }
  return out;
}

// ---- what the families share
// ----------------------------------------------------------------------------------------------
namespace losses {

ValueId total(Builder& b, ValueId x) { return b.reduce_sum(b.reshape(x, {numel(b.dims(x))}), {0}, false); }
ValueId square(Builder& b, ValueId x) { return mul(b, x, x); }
ValueId safe_sqrt(Builder& b, ValueId x) { return b.op("Sqrt", {b.op("Clip", {x}, {{"min", 1e-30}})}); }

void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want) {
  fail(Exit::data, "E_DATA_SHAPE",
       cat("label has shape ", to_string(b.dims(label)), ", the output ", to_string(b.dims(out)), ": the loss wants ",
           want));
}

ValueId float_label(Builder& b, ValueId out, ValueId label) {  // [B] against [B, 1] included
  if (numel(b.dims(label)) != numel(b.dims(out))) label_shape(b, out, label, "the output's shape");
  return b.reshape(b.cast(label, b.dtype(out)), b.dims(out));
}

ValueId ignored(Builder& b, const LossSpec& spec, ValueId label) {
  return b.op("Equal", {label, b.scalar(static_cast<double>(spec.ignore_index), b.dtype(label))});
}

Counts count_all(const LossSpec&, const HostTensor& label, int64_t) { return {static_cast<double>(label.numel())}; }
Counts count_valid(const LossSpec& spec, const HostTensor& label, int64_t) {
  const std::vector<double> y = label.to_doubles();
  const auto skipped = std::count(y.begin(), y.end(), static_cast<double>(spec.ignore_index));
  return {static_cast<double>(y.size()) - static_cast<double>(skipped)};
}

}  // namespace losses

// ---- the losses of a run
// ----------------------------------------------------------------------------------------------------
std::vector<ValueId> build_loss(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const LossRule& rule = loss_rule(spec.kind);
  if (in.outputs.size() < rule.min_outputs || in.outputs.size() > rule.max_outputs) {
    fail(Exit::usage, "E_LOSS_IO",
         cat("the loss ", spec.kind, " takes ", rule.min_outputs,
             rule.max_outputs > rule.min_outputs ? cat(" to ", rule.max_outputs) : "", " outputs, ", in.outputs.size(),
             " given"),
         "name them with --output A --output B, or \"outputs\" in the loss");
  }
  for (const ValueId v : in.outputs) {
    if (!is_float(b.dtype(v)))
      fail(Exit::usage, "E_LOSS_IO",
           cat("the loss ", spec.kind, " cannot take an output of type ", name_of(b.dtype(v))),
           "name a floating output with --output");
  }
  for (const ValueId v : in.outputs) {  // nothing to learn from; means and maxima of nothing are not asked for
    if (numel(b.dims(v)) == 0) return std::vector<ValueId>(rule.weights.size(), b.scalar(0, b.dtype(v)));
  }
  return rule.build(b, spec, in);
}

std::vector<double> term_weights(const LossSpec& spec) {
  std::vector<double> w = loss_rule(spec.kind).weights;
  for (double& x : w) x *= spec.weight;
  return w;
}

std::vector<double> count_items(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return loss_rule(spec.kind).count(spec, label, rows);
}

int64_t batch_rows(const Losses& losses, const Tensors& batch) {
  const std::vector<std::string> labels = losses.labels();
  int64_t rows = 0;
  for (const auto& [name, t] : batch) {
    if (t.rank() > 0 && std::find(labels.begin(), labels.end(), name) == labels.end())
      rows = std::max(rows, t.dims()[0]);
  }
  return rows;
}

LossWindow::LossWindow(const Losses& losses, bool whole_set) : losses_(losses) {
  for (const LossSpec& s : losses.parts) {
    for (const double w : term_weights(s)) {
      weights_.push_back(w);
      roots_.push_back(whole_set && loss_rule(s.kind).root);
    }
  }
  items_.resize(weights_.size());
  counted_.resize(weights_.size());
  sums_.resize(weights_.size());
}

void LossWindow::count(const Tensors& batch) {
  const int64_t rows = batch_rows(losses_, batch);
  size_t term = 0;
  for (const LossSpec& s : losses_.parts) {
    const std::string name = s.label_name();
    const auto label = batch.find(name);
    if (!name.empty() && label == batch.end()) {
      fail(Exit::data, "E_DATA_COLUMN", cat("the data has no '", printable(name), "'"),
           cat("the loss ", s.kind, " needs a column (tensor) of that name"));
    }
    for (const double n : count_items(s, name.empty() ? HostTensor() : label->second, rows)) {
      counted_[term] = n;
      items_[term++] += n;
    }
  }
}

void LossWindow::add(const std::vector<double>& sums) {
  check(sums.size() == sums_.size(), "LossWindow::add: another number of terms");
  for (size_t i = 0; i < sums.size(); ++i) {
    // n sqrt(q / n) of the batch, q its sum of squares
    sums_[i] += !roots_[i] ? sums[i] : counted_[i] > 0 ? sums[i] * sums[i] / counted_[i] : 0;
  }
}

std::vector<double> LossWindow::seeds(double scale) const {
  std::vector<double> out;
  for (size_t i = 0; i < items_.size(); ++i) out.push_back(items_[i] > 0 ? scale * weights_[i] / items_[i] : 0);
  return out;
}

double LossWindow::loss() const {
  double sum = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const double mean = items_[i] > 0 ? sums_[i] / items_[i] : 0;
    sum += weights_[i] * (roots_[i] ? std::sqrt(mean) : mean);
  }
  return sum;
}

double LossWindow::items() const {
  double n = 0;
  for (const double i : items_) n += i;
  return n;
}

}  // namespace amp
