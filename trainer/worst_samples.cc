#include "trainer/worst_samples.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

constexpr double kNone = -1;  // no error: it is not kept
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::span<const float> values_of(const JudgedRow& r, size_t output = 0) {
  const HostTensor& out = r.outputs[output];
  const int64_t width = out.numel() / r.rows;  // of a pair: of both its rows
  return {out.as<float>() + r.row * width, static_cast<size_t>(width)};
}

std::vector<double> labels_of(const JudgedRow& r) {
  const HostTensor& label = r.label;
  const int64_t width = label.numel() / r.rows;
  std::vector<double> out(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    const int64_t at = r.row * width + i;
    out[static_cast<size_t>(i)] =
        label.dtype() == DType::i64 ? static_cast<double>(label.as<int64_t>()[at]) : label.as<float>()[at];
  }
  return out;
}

double loss_of(double p) { return p > 0 ? -std::log(p) : std::isnan(p) ? kInfinity : 750; }  // exp(-750) is 0
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// ---- one class a row

std::vector<double> probabilities_of(const JudgedRow& r) {
  const std::span<const float> x = values_of(r);
  const bool given = r.loss.kind.find("prob") != std::string::npos;
  if (x.size() == 1) {
    const double yes = given ? x[0] : sigmoid(x[0]);
    return {1 - yes, yes};
  }
  std::vector<double> p(x.begin(), x.end());
  if (!given) softmax(x, p);
  return p;
}

size_t largest(std::span<const double> p) {
  return static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

double class_error(const JudgedRow& r) {
  const std::vector<double> p = probabilities_of(r);
  const double label = labels_of(r).at(0);
  if (label < 0 || label >= static_cast<double>(p.size())) return kNone;
  const auto want = static_cast<size_t>(label);
  if (std::any_of(p.begin(), p.end(), [](double v) { return std::isnan(v); })) return kInfinity;
  return largest(p) == want ? kNone : loss_of(p[want]);
}

void describe_class(const JudgedRow& r, const std::vector<std::string>& names, JudgedSample& out) {
  const std::vector<double> p = probabilities_of(r);
  const size_t best = largest(p);
  out.label = class_name(names, static_cast<int64_t>(labels_of(r).at(0)));
  out.predicted = class_name(names, static_cast<int64_t>(best));
  out.probability = p[best];
}

// ---- any number of classes

double set_error(const JudgedRow& r) {
  const std::span<const float> x = values_of(r);
  const std::vector<double> label = labels_of(r);
  double sum = 0;
  bool wrong = false;
  for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
    if (label[i] < 0) continue;  // left out
    const double p = sigmoid(x[i]);
    sum += loss_of(label[i] >= 0.5 ? p : 1 - p);
    wrong |= !((p > 0.5) == (label[i] >= 0.5)) || std::isnan(p);
  }
  return wrong ? sum : kNone;
}

void describe_set(const JudgedRow& r, const std::vector<std::string>& names, JudgedSample& out) {
  const std::span<const float> x = values_of(r);
  const std::vector<double> label = labels_of(r);
  std::vector<std::string> want, got;
  for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
    if (label[i] >= 0.5) want.push_back(class_name(names, static_cast<int64_t>(i)));
    if (x[i] > 0) got.push_back(class_name(names, static_cast<int64_t>(i)));
  }
  out.label = join(want, ", ");
  out.predicted = join(got, ", ");
}

// ---- numbers

std::vector<double> numbers_of(const JudgedRow& r) {
  if (!loss_rule(r.loss.kind).embeddings) {
    const std::span<const float> x = values_of(r);
    return {x.begin(), x.end()};
  }
  const std::span<const float> both = values_of(r);  // two rows of a pair, one after the other
  const std::vector<double> wide(both.begin(), both.end());
  return pair_cosines(wide, r.outputs[0].dims().back());
}

double number_error(const JudgedRow& r, const TargetTransform& target) {
  const std::vector<double> x = numbers_of(r), label = labels_of(r);
  double square = 0;
  for (size_t i = 0; i < x.size() && i < label.size(); ++i) {
    const double d = target.inverse(x[i]) - target.inverse(label[i]);
    square += d * d;
  }
  return std::isnan(square) ? kInfinity : std::sqrt(square);
}

void describe_number(const JudgedRow& r, const TargetTransform& target, JudgedSample& out) {
  const auto text = [&](const std::vector<double>& values) {
    std::vector<std::string> parts;
    for (const double v : values) parts.push_back(cat(shown(target.inverse(v))));
    return join(parts, ", ");
  };
  out.label = text(labels_of(r));
  out.predicted = text(numbers_of(r));
}

// ---- a class for each token

template <class F>
void each_token(const JudgedRow& r, const F& f) {  // f(label, probabilities), outputs (B, T, C)
  const std::span<const float> x = values_of(r);
  const std::vector<double> label = labels_of(r);
  const Dims& d = r.outputs[0].dims();
  if (d.size() != 3 || d[1] != static_cast<int64_t>(label.size())) return;
  const auto classes = static_cast<size_t>(d[2]);
  std::vector<double> p(classes);
  for (size_t t = 0; t < label.size(); ++t) {
    if (label[t] < 0 || label[t] >= static_cast<double>(classes)) continue;
    softmax(x.subspan(t * classes, classes), p);
    f(static_cast<size_t>(label[t]), p);
  }
}

double token_error(const JudgedRow& r) {
  double sum = 0;
  each_token(r, [&](size_t want, const std::vector<double>& p) {
    if (largest(p) != want || std::isnan(p[want])) sum += loss_of(p[want]);
  });
  return sum > 0 ? sum : kNone;
}

void describe_tokens(const JudgedRow& r, const std::vector<std::string>& names, JudgedSample& out) {
  std::vector<std::string> want, got;
  each_token(r, [&](size_t label, const std::vector<double>& p) {
    want.push_back(class_name(names, static_cast<int64_t>(label)));
    got.push_back(class_name(names, static_cast<int64_t>(largest(p))));
  });
  out.label = join(want, " ");
  out.predicted = join(got, " ");
}

// ---- answers in passages

std::string answer_of(const JudgedRow& r, const AnswerKey& key, const AnswerOptions& options) {
  AnswerSearch search(key, options);
  const int64_t sample[] = {r.sample};
  search.add(values_of(r, 0), values_of(r, 1), sample);
  return search.found().empty() ? "" : search.answer(search.found().begin()->second).text;
}

double span_error(const JudgedRow& r, const AnswerKey* key, const AnswerOptions& options) {
  if (!key || r.outputs.size() < 2) return kNone;
  const std::vector<double> ends = labels_of(r);
  const AnswerKey::Window& window = key->windows.at(static_cast<size_t>(r.sample));
  const std::vector<Answer>& answers = key->questions[window.question].answers;
  // windows of a question beside the one that holds its answer
  if (!answers.empty() && ends.at(0) == static_cast<double>(window.none)) return kNone;
  double error = 0;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const std::span<const float> x = values_of(r, i);
    if (ends.at(i) < 0 || ends[i] >= static_cast<double>(x.size())) return kNone;
    std::vector<double> p(x.size());
    softmax(x, p);
    error += loss_of(p[static_cast<size_t>(ends[i])]);
  }
  const std::string said = normalize_answer(answer_of(r, *key, options));
  const bool right = answers.empty() ? said.empty() : std::any_of(answers.begin(), answers.end(), [&](const Answer& a) {
    return normalize_answer(a.text) == said;
  });
  return right ? kNone : error;
}

void describe_span(const JudgedRow& r, const AnswerKey& key, const AnswerOptions& options, JudgedSample& out) {
  const Question& q = key.questions[key.windows.at(static_cast<size_t>(r.sample)).question];
  out.label = q.answers.empty() ? "" : q.answers[0].text;
  out.predicted = answer_of(r, key, options);
  out.question = q.text;
  out.passage = key.passages[q.passage];
}

// ---- a class for each pixel

struct Place {
  int64_t classes, height, width;
};

std::optional<Place> place_of(const JudgedRow& r) {
  const Dims& d = r.outputs[0].dims();
  if (d.size() != 4 || r.label.numel() != d[0] * d[2] * d[3]) return std::nullopt;
  return Place{d[1], d[2], d[3]};
}

Mask predicted_mask(const JudgedRow& r, const Place& at) {
  const std::span<const float> x = values_of(r);
  Mask out(at.width, at.height, 1);
  const auto pixels = out.data.size();
  const float yes = r.loss.kind.find("prob") != std::string::npos ? 0.5f : 0.0f;
  for (size_t i = 0; i < pixels; ++i) {
    size_t best = at.classes == 1 && x[i] > yes ? 1 : 0;
    for (size_t c = 1; c < static_cast<size_t>(at.classes); ++c) {
      if (x[c * pixels + i] > x[best * pixels + i]) best = c;
    }
    out.data[i] = static_cast<int16_t>(best);
  }
  return out;
}

Mask label_mask(const JudgedRow& r, const Place& at) {
  Mask out(at.width, at.height, 1);
  const std::vector<double> label = labels_of(r);
  std::transform(label.begin(), label.end(), out.data.begin(),
                 [](double v) { return v < 0 ? kNoClass : static_cast<int16_t>(v); });
  return out;
}

double mask_error(const JudgedRow& r) {
  const std::optional<Place> at = place_of(r);
  if (!at) return kNone;
  const Mask want = label_mask(r, *at), got = predicted_mask(r, *at);
  int64_t wrong = 0, all = 0;
  for (size_t i = 0; i < want.data.size(); ++i) {
    all += want.data[i] != kNoClass;
    wrong += want.data[i] != kNoClass && want.data[i] != got.data[i];
  }
  return wrong ? static_cast<double>(wrong) / static_cast<double>(all) : kNone;
}

bool smaller(const JudgedSample& a, const JudgedSample& b) {  // the earlier one of equals is kept
  return a.error != b.error ? a.error > b.error : a.sample < b.sample;
}

}  // namespace

void WorstSamples::begin(const Objective& objective, const Dataset& data) {
  heap_.clear();
  shown_.clear();
  loss_ = measured_loss(objective);
  task_ = loss_ ? objective.task : Task::none;
  classes_ = objective.classes;
  answers_ = data.answers();
  options_ = objective.answers;
  target_ = objective.target;
}

double WorstSamples::error_of(const JudgedRow& row) const {
  switch (task_) {
    case Task::classification:
      return class_error(row);
    case Task::multilabel:
      return set_error(row);
    case Task::regression:
      return number_error(row, target_);
    case Task::token:
      return token_error(row);
    case Task::span:
      return span_error(row, answers_, options_);
    case Task::segmentation:
      return mask_error(row);
    default:
      return kNone;
  }
}

void WorstSamples::describe(const JudgedRow& row, JudgedSample& out) const {
  switch (task_) {
    case Task::classification:
      return describe_class(row, classes_, out);
    case Task::multilabel:
      return describe_set(row, classes_, out);
    case Task::regression:
      return describe_number(row, target_, out);
    case Task::token:
      return describe_tokens(row, classes_, out);
    case Task::span:
      return describe_span(row, *answers_, options_, out);
    case Task::segmentation:
      out.label_mask = label_mask(row, *place_of(row));
      out.predicted_mask = predicted_mask(row, *place_of(row));
      return;
    default:
      return;
  }
}

void WorstSamples::add(const std::vector<HostTensor>& outputs, const HostTensor& label,
                       std::span<const int64_t> samples) {
  if (task_ == Task::none || !label) return;
  std::vector<HostTensor> wide;
  for (const HostTensor& o : outputs) wide.push_back(o.cast(DType::f32));
  const HostTensor read = is_float(label.dtype()) ? label.cast(DType::f32) : label.cast(DType::i64);
  const auto rows = static_cast<int64_t>(samples.size());
  const auto apart = [&](const HostTensor& t) { return t.numel() >= rows && t.numel() % rows == 0; };
  if (rows == 0 || !apart(read) || !std::all_of(wide.begin(), wide.end(), apart)) return;
  for (int64_t r = 0; r < rows; ++r) {
    const JudgedRow row{*loss_, wide, read, r, rows, samples[static_cast<size_t>(r)]};
    JudgedSample judged;
    judged.sample = row.sample;
    judged.error = error_of(row);
    if (task_ == Task::segmentation) keep_first(row, judged);
    if (judged.error <= 0 || (heap_.size() == most_ && !smaller(judged, heap_.front()))) continue;
    describe(row, judged);
    heap_.push_back(std::move(judged));
    std::push_heap(heap_.begin(), heap_.end(), smaller);
    if (heap_.size() <= most_) continue;
    std::pop_heap(heap_.begin(), heap_.end(), smaller);
    heap_.pop_back();
  }
}

// Of the lowest numbers.
void WorstSamples::keep_first(const JudgedRow& row, JudgedSample judged) {
  if (!place_of(row) || (shown_.size() == always_ && judged.sample >= shown_.back().sample)) return;
  judged.error = std::max(0.0, judged.error);
  describe(row, judged);
  const auto after =
      std::find_if(shown_.begin(), shown_.end(), [&](const JudgedSample& s) { return s.sample > judged.sample; });
  shown_.insert(after, std::move(judged));
  if (shown_.size() > always_) shown_.pop_back();
}

std::vector<JudgedSample> WorstSamples::worst() const {
  std::vector<JudgedSample> out = heap_;
  std::sort(out.begin(), out.end(), smaller);
  return out;
}

}  // namespace amp
