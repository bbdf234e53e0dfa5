// Registry of losses, and the functions that all losses share: sums and item counts of their terms, and the division
// of each sum by its count. Each loss registers its LossRule from its own file before main() starts. The registry is
// sorted by name, so its order does not depend on the linker.

#include "trainer/losses/losses.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "trainer/losses/loss.h"

namespace amp {

namespace {
std::vector<LossRule>& rules() {
  static std::vector<LossRule> all;
  return all;
}
}  // namespace

LossRegistration::LossRegistration(LossRule rule) {
  const auto at = std::lower_bound(rules().begin(), rules().end(), rule, [](const LossRule& a, const LossRule& b) {
    return std::string_view(a.name) < b.name;
  });
  rules().insert(at, std::move(rule));
}

const std::vector<LossRule>& loss_rules() { return rules(); }

const LossParameter* LossRule::parameter(const std::string& wanted) const {
  for (const LossParameter& p : parameters) {
    if (wanted == p.name) return &p;
  }
  return nullptr;
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

std::string kind_called(const std::string& name) {
  for (const LossRule& r : loss_rules()) {
    if (std::find(r.synonyms.begin(), r.synonyms.end(), name) != r.synonyms.end()) return r.name;
  }
  return name;
}

Losses losses_across_rows(const Losses& losses) {
  Losses out = losses;
  std::erase_if(out.parts, [](const LossSpec& s) { return !loss_rule(s.kind).across_rows; });
  return out;
}

int64_t rows_together(const LossSpec& spec) {
  if (spec.outputs.size() > 1) return 1;
  return spec.sides > 0 ? spec.sides : loss_rule(spec.kind).rows_in_turn;
}

bool LossSpec::has(const std::string& parameter) const { return loss_rule(kind).parameter(parameter); }

double LossSpec::number(const std::string& parameter) const {
  const LossParameter* const p = loss_rule(kind).parameter(parameter);
  if (!p) bug(cat("the loss ", kind, " has no parameter ", parameter));
  const auto it = given.find(parameter);
  return it == given.end() ? p->preset : it->second.at(0);
}

const std::vector<double>& LossSpec::list(const std::string& parameter) const {
  static const std::vector<double> none;
  if (!has(parameter)) bug(cat("the loss ", kind, " has no parameter ", parameter));
  if (by_class.count(parameter) || (balanced && parameter == "class_weights"))
    fail(Exit::usage, "E_LOSS", cat(parameter, " by name, or balanced, needs the classes and labels of `train`"),
         cat("give a number for each class: ", parameter, "=1:2.5"));
  const auto it = given.find(parameter);
  return it == given.end() ? none : it->second;
}

void LossSpec::set(const std::string& parameter, std::vector<double> value) {
  const LossParameter* const p = loss_rule(kind).parameter(parameter);
  if (!p) bug(cat("the loss ", kind, " has no parameter ", parameter));
  const bool preset = p->form == ParameterForm::list ? value.empty() : value == std::vector<double>{p->preset};
  if (preset)
    given.erase(parameter);
  else
    given[parameter] = std::move(value);
}

int64_t LossSpec::ignore_index() const {
  constexpr const char* name = losses::kIgnoreIndexParameter.name;
  return static_cast<int64_t>(has(name) ? number(name) : losses::kIgnoreIndexParameter.preset);
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
  return distinct(*this, [](const LossSpec& s) {
    return std::vector<std::string>{s.label_name(), loss_rule(s.kind).second_label};
  });
}
bool Losses::wants_teacher() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const LossSpec& s) { return loss_rule(s.kind).teacher && s.reference.empty(); });
}
// This function is called for every micro-batch, so it stores raw bytes instead of formatted numbers.
std::string Losses::key() const {
  std::string out;
  const auto number = [&](double x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  for (const LossSpec& s : parts) {
    out += s.kind + '(' + join(s.outputs, ",") + '|' + join(s.reads, ",") + '|' + join(s.reference, ",") + '|' +
           s.label + '|' + s.input + '|';
    number(static_cast<double>(s.sides));
    for (const auto& [name, values] : s.given) {
      out += name + '=';
      for (const double x : values) number(x);
    }
    out += ')';
  }
  return out;
}

// ---- the losses of a run
std::vector<ValueId> build_loss(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const LossRule& rule = loss_rule(spec.kind);
  if (in.outputs.size() < rule.min_outputs || in.outputs.size() > rule.max_outputs) {
    fail(Exit::usage, "E_LOSS_IO",
         cat("the loss ", spec.kind, " takes ", rule.min_outputs,
             rule.max_outputs > rule.min_outputs ? cat(" to ", rule.max_outputs) : "", " outputs, ", in.outputs.size(),
             " given"),
         "name them with `output` A `output` B, or \"outputs\" in the loss");
  }
  for (const ValueId v : in.outputs) {
    if (!is_float(b.dtype(v)))
      fail(Exit::usage, "E_LOSS_IO",
           cat("the loss ", spec.kind, " cannot take an output of type ", name_of(b.dtype(v))),
           "name a floating output with `output`");
  }
  // An empty output has loss 0, because the mean or maximum of no elements is undefined.
  for (const ValueId v : in.outputs) {
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

LossAccumulator::LossAccumulator(const Losses& losses, bool whole_set) : losses_(losses) {
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

void LossAccumulator::count(const Tensors& batch) {
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

void LossAccumulator::count(const std::vector<double>& items) {
  check(items.size() == items_.size(), "LossAccumulator::count: another number of terms");
  counted_ = items;
  for (size_t i = 0; i < items.size(); ++i) items_[i] += items[i];
}

void LossAccumulator::add(const std::vector<double>& sums) {
  check(sums.size() == sums_.size(), "LossAccumulator::add: another number of terms");
  for (size_t i = 0; i < sums.size(); ++i) {
    // A root loss returns n sqrt(q / n), where q is the sum of squares over the batch. The square of this value,
    // divided by n, is q.
    sums_[i] += !roots_[i] ? sums[i] : counted_[i] > 0 ? sums[i] * sums[i] / counted_[i] : 0;
  }
}

std::vector<double> LossAccumulator::seeds(double scale) const {
  std::vector<double> out;
  for (size_t i = 0; i < items_.size(); ++i) out.push_back(items_[i] > 0 ? scale * weights_[i] / items_[i] : 0);
  return out;
}

double LossAccumulator::loss() const {
  double sum = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    const double mean = items_[i] > 0 ? sums_[i] / items_[i] : 0;
    sum += weights_[i] * (roots_[i] ? std::sqrt(mean) : mean);
  }
  return sum;
}

double LossAccumulator::items() const {
  double n = 0;
  for (const double i : items_) n += i;
  return n;
}

}  // namespace amp
