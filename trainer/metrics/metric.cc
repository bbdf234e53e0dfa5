// Registries of metrics, sorted by name, and the values shared by several metrics: softmax probabilities, confusion
// matrix and scores per class.

#include "trainer/metrics/metric.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace amp {

namespace {

template <class Metric>
std::vector<Metric>& rows() {
  static std::vector<Metric> all;
  return all;
}

template <class Metric>
void insert(Metric metric) {
  std::vector<Metric>& all = rows<Metric>();
  const auto at = std::upper_bound(all.begin(), all.end(), metric,
                                   [](const Metric& a, const Metric& b) { return a.name < b.name; });
  all.insert(at, std::move(metric));
}

}  // namespace

ClassMetricRegistration::ClassMetricRegistration(ClassMetric metric) { insert(std::move(metric)); }
NumberMetricRegistration::NumberMetricRegistration(NumberMetric metric) { insert(std::move(metric)); }
const std::vector<ClassMetric>& class_metrics() { return rows<ClassMetric>(); }
const std::vector<NumberMetric>& number_metrics() { return rows<NumberMetric>(); }

void require_applies(const std::string& metric, int64_t classes, const std::string& flag) {
  for (const ClassMetric& m : class_metrics()) {
    if (m.name != metric || m.applies(classes)) continue;
    const bool few = classes < m.least_classes;
    fail(Exit::usage, "E_METRIC",
         cat(flag, ": '", metric, "' is for ", few ? "at least " : "at most ", few ? m.least_classes : m.most_classes,
             " classes, there are ", classes),
         few ? "with so few classes its value does not depend on the model: accuracy says more"
             : "macro_f1 is the mean over all classes");
  }
}

void add_class_scores(ClassScores& s, std::span<const float> logits, std::span<const int64_t> labels,
                      std::span<const int64_t> predicted, int64_t ignore, bool are_probabilities) {
  const size_t width = labels.empty() ? 0 : logits.size() / labels.size();
  check(labels.size() == predicted.size() && width * labels.size() == logits.size(),
        "add_class_scores: lengths differ");
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignore) continue;
    s.labels.push_back(labels[i]);
    s.predicted.push_back(predicted[i]);
    s.kept = s.kept && width > 0 && s.probabilities.size() <= 16777216;
    if (!s.kept) continue;
    const std::span<const float> x = logits.subspan(i * width, width);
    const size_t at = s.probabilities.size();
    s.probabilities.resize(at + static_cast<size_t>(s.classes));
    const std::span<double> p = std::span(s.probabilities).subspan(at);
    if (width == 1) {
      p[1] = are_probabilities ? x[0] : 1 / (1 + std::exp(-static_cast<double>(x[0])));
      p[0] = 1 - p[1];
    } else if (are_probabilities) {
      std::copy(x.begin(), x.end(), p.begin());
    } else {
      softmax(x, p);
    }
  }
  if (!s.kept) s.probabilities.clear();
}

std::string class_details(const ClassScores& s, const std::vector<std::string>& names) {
  if (s.classes > 200 || s.labels.empty()) return {};
  nlohmann::ordered_json per_class = nlohmann::ordered_json::object();
  const std::vector<ClassReport> reports = class_reports(s);
  for (size_t c = 0; c < reports.size(); ++c) {
    const ClassReport& r = reports[c];
    per_class[c < names.size() ? names[c] : std::to_string(c)] = {
        {"precision", r.precision}, {"recall", r.recall}, {"f1", r.f1}, {"support", r.support}};
  }
  const nlohmann::ordered_json j = {{"confusion_matrix", confusion_matrix(s)}, {"per_class", per_class}};
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<std::vector<int64_t>> confusion_matrix(const ClassScores& s) {
  std::vector<std::vector<int64_t>> m(static_cast<size_t>(s.classes),
                                      std::vector<int64_t>(static_cast<size_t>(s.classes)));
  for (size_t i = 0; i < s.labels.size(); ++i) {
    if (s.predicted[i] >= 0) ++m[static_cast<size_t>(s.labels[i])][static_cast<size_t>(s.predicted[i])];
  }
  return m;
}

std::vector<ClassReport> class_reports(const ClassScores& s) {
  std::vector<ClassReport> out(static_cast<size_t>(s.classes));
  std::vector<int64_t> both(out.size());
  for (size_t i = 0; i < s.labels.size(); ++i) {
    const auto label = static_cast<size_t>(s.labels[i]);
    ++out[label].support;
    if (s.predicted[i] < 0) continue;
    ++out[static_cast<size_t>(s.predicted[i])].predicted;
    both[label] += s.predicted[i] == s.labels[i];
  }
  for (size_t c = 0; c < out.size(); ++c) {
    out[c].precision = ratio(both[c], out[c].predicted);
    out[c].recall = ratio(both[c], out[c].support);
    out[c].f1 = ratio(2 * both[c], out[c].predicted + out[c].support);
  }
  return out;
}

}  // namespace amp
