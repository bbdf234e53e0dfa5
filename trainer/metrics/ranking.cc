// Metrics of the order of probabilities: area under the ROC curve, average precision and top-5 accuracy.
#include <algorithm>
#include <numeric>

#include "trainer/metrics/metric.h"

namespace amp {

namespace {

// Counts for one class versus the rest. Rows are in descending order of the class's probability; rows with an equal
// probability form a group.
struct Curve {
  std::vector<std::pair<int64_t, int64_t>> groups;  // for each group: number of rows of the class and of other classes
  int64_t own = 0, others = 0;
};

Curve curve(const ClassScores& s, int64_t c) {
  std::vector<int64_t> order(static_cast<size_t>(s.rows()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return s.probability(a, c) > s.probability(b, c); });
  Curve out;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool fresh = i == 0 || s.probability(order[i], c) != s.probability(order[i - 1], c);
    if (fresh) out.groups.emplace_back(0, 0);
    const bool own = s.labels[static_cast<size_t>(order[i])] == c;
    ++(own ? out.groups.back().first : out.groups.back().second);
    ++(own ? out.own : out.others);
  }
  return out;
}

// Returns P(a row of the class has a higher probability than a row of other classes) + P(equal) / 2.
double area(const Curve& c) {
  if (c.own == 0 || c.others == 0) return kUndefined;
  double pairs = 0;
  auto below = static_cast<double>(c.others);
  for (const auto& [own, others] : c.groups) {
    below -= static_cast<double>(others);
    pairs += static_cast<double>(own) * (below + static_cast<double>(others) / 2);
  }
  return pairs / (static_cast<double>(c.own) * static_cast<double>(c.others));
}

// Returns the average precision, which is the sum of (increase of recall) * precision.
double precision_mean(const Curve& c) {
  if (c.own == 0) return 0;
  double sum = 0, own = 0, all = 0;
  for (const auto& [mine, others] : c.groups) {
    own += static_cast<double>(mine);
    all += static_cast<double>(mine + others);
    sum += static_cast<double>(mine) / static_cast<double>(c.own) * (own / all);
  }
  return sum;
}

bool usable(const ClassScores& s) {
  const auto& p = s.probabilities;
  return s.has_probabilities() && std::none_of(p.begin(), p.end(), [](double v) { return v != v; });
}

// Returns value() of class 1 if there are two classes, else the mean of value() of each class versus all others.
template <class F>
double over_classes(const ClassScores& s, F&& value) {
  if (!usable(s)) return kUndefined;
  if (s.classes == 2) return value(curve(s, 1));
  double sum = 0;
  for (int64_t c = 0; c < s.classes; ++c) sum += value(curve(s, c));
  return sum / static_cast<double>(s.classes);
}

double auroc(const ClassScores& s) { return over_classes(s, area); }
double average_precision(const ClassScores& s) { return over_classes(s, precision_mean); }

double top5(const ClassScores& s) {
  if (!usable(s)) return kUndefined;
  int64_t found = 0;
  for (int64_t r = 0; r < s.rows(); ++r) {
    const int64_t label = s.labels[static_cast<size_t>(r)];
    // Number of classes ranked before the label. Among equal probabilities the higher class comes first, as in
    // scikit-learn.
    int64_t before = 0;
    for (int64_t c = 0; c < s.classes; ++c)
      before += s.probability(r, c) > s.probability(r, label) ||
                (s.probability(r, c) == s.probability(r, label) && c > label);
    found += before < 5;
  }
  return static_cast<double>(found) / static_cast<double>(s.rows());
}

const ClassMetricRegistration ranking_metrics[] = {
    {{"auroc", auroc}},
    {{"average_precision", average_precision}},
    {{.name = "top5_accuracy", .value = top5, .least_classes = 6}},
};

}  // namespace

}  // namespace amp
