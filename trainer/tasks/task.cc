#include "trainer/tasks/task.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metric.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/answers.h"
#include "trainer/tasks/entities.h"

namespace amp {

namespace {

struct TaskInfo {
  Task task;
  const char *name, *loss, *best;
  std::vector<std::string> metrics;
};
const std::vector<TaskInfo>& infos() {
  static const std::vector<TaskInfo> all = {
      {Task::none, "none", "", "loss", {}},
      {Task::classification, "classification", "cross_entropy", "accuracy", {"accuracy", "macro_f1"}},
      {Task::token,
       "token",
       "cross_entropy",
       "accuracy",
       {"accuracy", "macro_f1", "entity_precision", "entity_recall", "entity_f1"}},
      {Task::language, "language", "causal_lm", "loss", {"accuracy", "perplexity"}},
      {Task::seq2seq, "seq2seq", "cross_entropy", "loss", {"accuracy", "perplexity"}},
      {Task::regression, "regression", "mse", "loss", {"mse", "mae", "pearson", "spearman"}},
      {Task::multilabel, "multilabel", "bce_logits", "micro_f1", {"micro_f1", "macro_f1", "exact_match"}},
      {Task::span, "span", "qa_span", "exact_match", {"exact_match", "span_f1"}},
      {Task::segmentation, "segmentation", "cross_entropy_nchw", "miou", {"miou", "dice", "accuracy"}},
      {Task::retrieval, "retrieval", "multiple_negatives", "accuracy", {"accuracy", "mrr"}}};
  return all;
}
const TaskInfo& info(Task t) {
  for (const TaskInfo& i : infos()) {
    if (i.task == t) return i;
  }
  bug("task without description");
}

std::vector<int64_t> whole(const HostTensor& t) {
  if (!is_float(t.dtype())) return t.to_ints();
  std::vector<int64_t> out;
  for (const double v : t.to_doubles()) out.push_back(std::llround(v));
  return out;
}

std::vector<float> floats(const HostTensor& t) {
  const HostTensor f = t.cast(DType::f32);
  return {f.as<float>(), f.as<float>() + f.numel()};
}

// Class ids of outputs [..., C] for labels [...], or [B, C, ...] for [B, ...]: C, and the largest of each in the
// label's order.
std::pair<int64_t, std::vector<int64_t>> class_ids(const HostTensor& out, const HostTensor& label, bool second) {
  const Dims& d = out.dims();
  const std::vector<float> x = floats(out);
  const bool last =
      d.size() < 3 || (!second && label.numel() * d.back() == out.numel() && label.dims().size() + 1 == d.size() &&
                       std::equal(label.dims().begin(), label.dims().end(), d.begin()));
  if (last) return {d.back(), argmax_rows(x.data(), d.back() ? out.numel() / d.back() : 0, d.back())};
  const int64_t classes = d[1], places = out.numel() / std::max<int64_t>(1, d[0] * classes);
  std::vector<float> row(static_cast<size_t>(classes));
  std::vector<int64_t> ids;
  for (int64_t b = 0; b < d[0]; ++b) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t c = 0; c < classes; ++c)
        row[static_cast<size_t>(c)] = x[static_cast<size_t>((b * classes + c) * places + p)];
      ids.push_back(argmax_rows(row.data(), 1, classes)[0]);
    }
  }
  return {classes, ids};
}

// Classes, whatever lies around them: rows, tokens, pixels.
class ClassMetrics final : public TaskMetrics {
 public:
  ClassMetrics(Task task, const LossSpec& loss, const std::vector<std::string>& names)
      : task_(task), loss_(loss), class_names_(names) {
    if (task == Task::token && are_entity_tags(names)) names_ = names;
  }

  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    HostTensor out = outputs.at(0);
    std::vector<int64_t> wanted = whole(label);
    if (out.numel() == label.numel()) return add_binary(floats(out), wanted);
    auto [classes, ids] = class_ids(out, label, task_ == Task::segmentation);
    if (loss_rule(loss_.kind).next_token) shift(label.dims().at(1), ids, wanted);
    if (!classes_) classes_ = std::make_unique<Classification>(classes);
    classes_->add(ids, wanted, loss_.ignore_index());
    if (task_ == Task::classification) keep_scores(out, classes, ids, wanted);
    if (!names_.empty() && label.rank() == 2) add_entities(label.dims()[1], ids, wanted);
  }

  MetricValues values(double loss) const override {
    const Classification none(0);
    const Classification& c = classes_ ? *classes_ : none;
    if (binary_)
      return {{"miou", binary_->mean_iou()}, {"dice", binary_->macro_f1()}, {"accuracy", binary_->accuracy()}};
    if (task_ == Task::segmentation)
      return {{"miou", c.mean_iou()}, {"dice", c.macro_f1()}, {"accuracy", c.accuracy()}};
    if (writes_text(task_)) return {{"accuracy", c.accuracy()}, {"perplexity", std::exp(loss)}};
    MetricValues out = {{"accuracy", c.accuracy()}, {"macro_f1", c.macro_f1()}};
    if (task_ == Task::classification) {
      for (const ClassMetric& m : class_metrics()) out.emplace_back(m.name, m.value(scores_));
    }
    if (!names_.empty()) {
      out.emplace_back("entity_precision", entities_.precision());
      out.emplace_back("entity_recall", entities_.recall());
      out.emplace_back("entity_f1", entities_.f1());
    }
    return out;
  }

  std::string details() const override {
    return task_ == Task::classification ? class_details(scores_, class_names_) : std::string();
  }

 private:
  // Probabilities where a row of logits belongs to each label.
  void keep_scores(const HostTensor& out, int64_t classes, const std::vector<int64_t>& ids,
                   const std::vector<int64_t>& wanted) {
    scores_.classes = classes;
    const bool rows = out.rank() > 0 &&
                      (out.dims().back() == classes || out.numel() == static_cast<int64_t>(ids.size())) &&
                      (out.rank() < 3 || out.numel() == static_cast<int64_t>(ids.size()) * out.dims().back());
    const std::vector<float> logits = rows ? floats(out) : std::vector<float>();
    add_class_scores(scores_, logits, wanted, ids, loss_.ignore_index(), loss_.kind == "nll_probs");
  }

  // One logit: class 1, or the foreground, by a probability above 0.5.
  void add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted) {
    if (task_ == Task::segmentation) {
      if (!binary_) binary_ = std::make_unique<Multilabel>(1);
      return binary_->add(logits, std::vector<float>(wanted.begin(), wanted.end()), 0,
                          static_cast<float>(loss_.ignore_index()));
    }
    if (!classes_) classes_ = std::make_unique<Classification>(2);
    std::vector<int64_t> ids;
    for (const float x : logits) ids.push_back(std::isnan(x) ? -1 : x > 0);
    classes_->add(ids, wanted, loss_.ignore_index());
    if (task_ != Task::classification) return;
    scores_.classes = 2;
    add_class_scores(scores_, logits, wanted, ids, loss_.ignore_index(), loss_.kind == "nll_probs");
  }

  // A row is a text, its words the places whose label counts.
  void add_entities(int64_t length, const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted) {
    const auto name = [&](int64_t id) {
      return id >= 0 && id < static_cast<int64_t>(names_.size()) ? names_[static_cast<size_t>(id)] : "O";
    };
    for (size_t row = 0; row < wanted.size(); row += static_cast<size_t>(length)) {
      std::vector<std::string> got, want;
      for (size_t i = row; i < row + static_cast<size_t>(length); ++i) {
        if (wanted[i] == loss_.ignore_index()) continue;
        got.push_back(name(ids[i]));
        want.push_back(name(wanted[i]));
      }
      entities_.add(got, want);
    }
  }

  // Position s predicts the label at s + 1.
  static void shift(int64_t length, std::vector<int64_t>& ids, std::vector<int64_t>& wanted) {
    std::vector<int64_t> from, to;
    for (size_t i = 0; i + 1 < wanted.size(); ++i) {
      if (static_cast<int64_t>(i + 1) % length == 0) continue;
      from.push_back(ids[i]);
      to.push_back(wanted[i + 1]);
    }
    ids = from;
    wanted = to;
  }

  Task task_;
  LossSpec loss_;
  std::unique_ptr<Classification> classes_;
  std::unique_ptr<Multilabel> binary_;
  ClassScores scores_;  // Task::classification
  std::vector<std::string> class_names_;
  std::vector<std::string> names_;  // of entities; empty: others
  EntityScores entities_;
};

class MultilabelMetrics final : public TaskMetrics {
 public:
  explicit MultilabelMetrics(const LossSpec& loss) : ignore_(static_cast<float>(loss.ignore_index())) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    const Dims& d = outputs.at(0).dims();
    if (!metric_) metric_ = std::make_unique<Multilabel>(d.size() < 2 ? 1 : d.back());
    metric_->add(floats(outputs[0]), floats(label), 0, ignore_);  // logits: 0 is a probability of 0.5
  }
  MetricValues values(double) const override {
    const Multilabel none(1);
    const Multilabel& m = metric_ ? *metric_ : none;
    return {{"micro_f1", m.micro_f1()}, {"macro_f1", m.macro_f1()}, {"exact_match", m.exact_match()}};
  }

 private:
  float ignore_;
  std::unique_ptr<Multilabel> metric_;
};

class RegressionMetrics final : public TaskMetrics {
 public:
  RegressionMetrics(const LossSpec& loss, const TargetTransform& target)
      : pairs_(loss_rule(loss.kind).embeddings), target_(target) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    std::vector<double> x = outputs.at(0).to_doubles(), wanted = label.to_doubles();
    if (pairs_) x = pair_cosines(x, outputs[0].dims().back());
    for (auto* numbers : {&x, &wanted}) {
      for (double& v : *numbers) v = target_.inverse(v);
    }
    metric_.add(x, wanted);
  }
  MetricValues values(double) const override {
    MetricValues out = {{"mse", metric_.mse()},
                        {"mae", metric_.mae()},
                        {"pearson", metric_.pearson()},
                        {"spearman", metric_.spearman()}};
    for (const NumberMetric& m : number_metrics())
      out.emplace_back(m.name, m.value({metric_.predicted(), metric_.wanted()}));
    return out;
  }

 private:
  bool pairs_;
  TargetTransform target_;
  Regression metric_;
};

class SpanMetrics final : public TaskMetrics {
 public:
  explicit SpanMetrics(const LossSpec& loss) : ignore_(loss.ignore_index()) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor& label, std::span<const int64_t>) override {
    spans_.add(floats(outputs.at(0)), floats(outputs.at(1)), label.to_ints(), ignore_);
  }
  MetricValues values(double) const override {
    return {{"exact_match", spans_.exact_match()}, {"span_f1", spans_.f1()}};
  }

 private:
  int64_t ignore_;
  Spans spans_;
};

// Of anchors and candidates: rows in turn, or an output for each side.
class RetrievalMetrics final : public TaskMetrics {
 public:
  explicit RetrievalMetrics(const LossSpec& loss) : sides_(loss.outputs.size() > 1 ? 1 : rows_together(loss)) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor&, std::span<const int64_t>) override {
    const int64_t width = outputs.at(0).dims().back();
    if (sides_ > 1) return nearest_.add(floats(outputs[0]), width, sides_);
    std::vector<std::vector<float>> sides;
    for (const HostTensor& t : outputs) sides.push_back(floats(t));
    std::vector<float> rows;
    const size_t h = static_cast<size_t>(width);
    for (size_t at = 0; at < sides[0].size(); at += h) {
      for (const std::vector<float>& s : sides) rows.insert(rows.end(), s.begin() + at, s.begin() + at + h);
    }
    nearest_.add(rows, width, static_cast<int64_t>(sides.size()));
  }
  MetricValues values(double) const override {
    const Nearest::Scores s = nearest_.scores();
    return {{"accuracy", s.accuracy}, {"mrr", s.mrr}};
  }
  std::span<const CandidateRank> ranks() const override { return nearest_.ranks(); }

 private:
  int64_t sides_;
  Nearest nearest_;
};

// Spans of texts.
class AnswerMetrics final : public TaskMetrics {
 public:
  AnswerMetrics(const AnswerKey& key, const AnswerOptions& options) : scores_(key, options), options_(options) {}
  void add(const std::vector<HostTensor>& outputs, const HostTensor&, std::span<const int64_t> samples) override {
    scores_.add(floats(outputs.at(0)), floats(outputs.at(1)), samples);
  }
  MetricValues values(double) const override {
    MetricValues out = {
        {"exact_match", scores_.exact_match()}, {"span_f1", scores_.f1()}, {kSpanJaccard, scores_.jaccard()}};
    if (!options_.may_have_none) return out;
    for (auto& value : scores_.by_kind()) out.push_back(std::move(value));
    return out;
  }

 private:
  AnswerScores scores_;
  AnswerOptions options_;
};

}  // namespace

Task task_from_name(const std::string& name) {
  for (const TaskInfo& i : infos()) {
    if (name == i.name) return i.task;
  }
  return Task::none;
}
bool writes_text(Task task) { return task == Task::language || task == Task::seq2seq; }
std::string name_of(Task task) { return info(task).name; }
std::string default_loss(Task task) { return info(task).loss; }

Task task_of(const LossSpec& loss) { return loss_rule(loss.kind).task; }

bool fits(Task task, const LossSpec& loss) {
  const Task t = task_of(loss);
  if (task == Task::none || t == Task::none || t == task) return true;
  const bool classes = t == Task::classification || t == Task::language;
  if (task == Task::classification && loss.kind == "bce_logits") return true;  // one logit: yes or no
  if (task == Task::classification || task == Task::token) return classes;
  if (task == Task::seq2seq) return t == Task::classification;  // causal_lm would look a place further
  return task == Task::segmentation && (t == Task::classification || t == Task::multilabel);
}

std::vector<std::string> metric_names(Task task) {
  std::vector<std::string> names = {"loss"};
  names.insert(names.end(), info(task).metrics.begin(), info(task).metrics.end());
  for (const ClassMetric& m : class_metrics()) {
    if (task == Task::classification) names.push_back(m.name);
  }
  for (const NumberMetric& m : number_metrics()) {
    if (task == Task::regression) names.push_back(m.name);
  }
  return names;
}

// Those too that only some data have.
static std::vector<std::string> possible_names(Task task) {
  std::vector<std::string> names = metric_names(task);
  if (task != Task::span) return names;
  names.emplace_back(kSpanJaccard);
  for (const std::string& name : AnswerScores::kind_names()) names.push_back(name);
  return names;
}
std::vector<std::string> brief_metrics(Task task) { return info(task).metrics; }
std::vector<std::string> all_metric_names() {
  std::vector<std::string> names;
  for (const TaskInfo& i : infos()) {
    for (const std::string& m : possible_names(i.task)) {
      if (std::find(names.begin(), names.end(), m) == names.end()) names.push_back(m);
    }
  }
  return names;
}
std::string best_metric(Task task, const std::vector<std::string>& classes) {
  return task == Task::token && are_entity_tags(classes) ? "entity_f1" : info(task).best;
}

bool lower_is_better(const std::string& metric) {
  static const std::array<const char*, 4> lower = {"loss", "mse", "mae", "perplexity"};
  const auto is_it = [&](const auto& m) { return m.name == metric && m.lower_is_better; };
  return std::any_of(lower.begin(), lower.end(), [&](const char* l) { return metric == l; }) ||
         std::any_of(class_metrics().begin(), class_metrics().end(), is_it) ||
         std::any_of(number_metrics().begin(), number_metrics().end(), is_it);
}

void check_metric(Task task, const std::string& name, const std::string& flag) {
  const std::vector<std::string> names = possible_names(task);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  fail(Exit::usage, "E_METRIC",
       cat(flag, ": there is no '", printable(name), "' here",
           task == Task::none ? "" : cat(", the task is ", name_of(task))),
       cat("metrics: ", join(names, ", "), task == Task::none ? "; --task chooses others" : ""));
}

std::unique_ptr<TaskMetrics> make_metrics(Task task, const LossSpec& loss, const MetricContext& context) {
  switch (task) {
    case Task::none:
      return nullptr;
    case Task::classification:
    case Task::token:
    case Task::language:
    case Task::seq2seq:
    case Task::segmentation:
      return std::make_unique<ClassMetrics>(task, loss, context.classes);
    case Task::multilabel:
      return std::make_unique<MultilabelMetrics>(loss);
    case Task::regression:
      return std::make_unique<RegressionMetrics>(loss, context.target);
    case Task::retrieval:
      return std::make_unique<RetrievalMetrics>(loss);
    case Task::span:
      if (context.answers) return std::make_unique<AnswerMetrics>(*context.answers, context.answer_options);
      return std::make_unique<SpanMetrics>(loss);
  }
  bug("task without metrics");
}

}  // namespace amp
