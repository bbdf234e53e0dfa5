// Accumulators of metrics. They keep counts and sums. Only Regression also keeps the numbers, for correlations and for
// the registered NumberMetrics.

#include "trainer/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace amp {

std::vector<int64_t> argmax_rows(const float* logits, int64_t rows, int64_t classes) {
  std::vector<int64_t> out(static_cast<size_t>(rows), -1);
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * classes;
    int64_t best = 0;
    bool nan = false;
    for (int64_t c = 0; c < classes; ++c) {
      nan |= std::isnan(x[c]);
      if (x[c] > x[best]) best = c;
    }
    if (!nan && classes > 0) out[static_cast<size_t>(r)] = best;
  }
  return out;
}

void softmax(std::span<const float> x, std::span<double> out) {
  const float top = x.empty() ? 0 : *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += out[i] = std::exp(static_cast<double>(x[i]) - top);
  for (size_t i = 0; i < x.size(); ++i) out[i] /= sum;
}

std::vector<double> pair_cosines(std::span<const double> x, int64_t width) {
  const auto h = static_cast<size_t>(width);
  std::vector<double> out;
  for (size_t i = 0; i + 2 * h <= x.size(); i += 2 * h) {
    double uv = 0, uu = 0, vv = 0;
    for (size_t k = i; k < i + h; ++k) {
      uv += x[k] * x[k + h];
      uu += x[k] * x[k];
      vv += x[k + h] * x[k + h];
    }
    out.push_back(uv / (std::max(std::sqrt(uu), 1e-8) * std::max(std::sqrt(vv), 1e-8)));
  }
  return out;
}

double Hits::f1() const {
  return labeled + predicted ? 2 * static_cast<double>(both) / static_cast<double>(labeled + predicted) : 0;
}
double Hits::iou() const {
  return labeled + predicted ? static_cast<double>(both) / static_cast<double>(labeled + predicted - both) : 0;
}

namespace {
// Returns the mean over classes. A class without labels and predictions counts as 0 if absent_too; otherwise it is
// skipped.
double mean_of(const std::vector<Hits>& classes, double (Hits::*value)() const, bool absent_too) {
  double sum = 0;
  int64_t n = 0;
  for (const Hits& c : classes) {
    if (!absent_too && c.labeled + c.predicted == 0) continue;
    ++n;
    sum += (c.*value)();
  }
  return n ? sum / static_cast<double>(n) : 0;
}
}  // namespace

Classification::Classification(int64_t classes) : classes_(static_cast<size_t>(classes)) {}

void Classification::add(std::span<const int64_t> predicted, std::span<const int64_t> labels, int64_t ignore) {
  check(predicted.size() == labels.size(), "Classification::add: lengths differ");
  const auto n = static_cast<int64_t>(classes_.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t want = labels[i], got = predicted[i];
    if (want == ignore) continue;
    if (want < 0 || want >= n) {
      fail(Exit::data, "E_DATA_LABEL", cat("label ", want, " of a model with ", n, " classes"),
           cat("labels are 0..", n - 1, "; ", ignore, " marks an item to leave out"));
    }
    ++count_;
    ++classes_[static_cast<size_t>(want)].labeled;
    if (got >= 0 && got < n) ++classes_[static_cast<size_t>(got)].predicted;
    if (got != want) continue;
    ++correct_;
    ++classes_[static_cast<size_t>(want)].both;
  }
}

double Classification::macro_f1() const { return mean_of(classes_, &Hits::f1, false); }
double Classification::mean_iou() const { return mean_of(classes_, &Hits::iou, false); }

Multilabel::Multilabel(int64_t labels) : labels_(static_cast<size_t>(labels)) {}

void Multilabel::add(std::span<const float> scores, std::span<const float> truth, float threshold, float ignore) {
  const size_t n = labels_.size();
  check(scores.size() == truth.size() && n > 0 && scores.size() % n == 0, "Multilabel::add: lengths differ");
  for (size_t i = 0; i < scores.size(); i += n) {
    bool all = true, any = false;
    for (size_t k = 0; k < n; ++k) {
      if (truth[i + k] == ignore) continue;
      any = true;
      const bool got = scores[i + k] > threshold, want = truth[i + k] >= 0.5f;
      ++count_;
      correct_ += got == want;
      all &= got == want;
      labels_[k].predicted += got;
      labels_[k].labeled += want;
      labels_[k].both += got && want;
    }
    rows_ += any;
    exact_ += any && all;
  }
}

double Multilabel::micro_f1() const {
  Hits all;
  for (const Hits& l : labels_) {
    all.both += l.both;
    all.labeled += l.labeled;
    all.predicted += l.predicted;
  }
  return all.f1();
}
double Multilabel::macro_f1() const { return mean_of(labels_, &Hits::f1, true); }
double Multilabel::mean_iou() const { return mean_of(labels_, &Hits::iou, true); }

void Regression::add(std::span<const double> predicted, std::span<const double> wanted) {
  check(predicted.size() == wanted.size(), "Regression::add: lengths differ");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = predicted[i] - wanted[i];
    square_ += d * d;
    absolute_ += std::abs(d);
  }
  n_ += static_cast<double>(wanted.size());
  kept_ = kept_ && n_ <= 16777216;
  if (!kept_) {
    predicted_.clear();
    wanted_.clear();
    return;
  }
  predicted_.insert(predicted_.end(), predicted.begin(), predicted.end());
  wanted_.insert(wanted_.end(), wanted.begin(), wanted.end());
}

namespace {
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double n = static_cast<double>(x.size());
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n, my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return xx > 0 && yy > 0 ? xy / (std::sqrt(xx) * std::sqrt(yy)) : kUndefined;
}

std::vector<double> ranks(const std::vector<double>& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  std::vector<double> rank(x.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i + 1;
    while (j < order.size() && x[order[j]] == x[order[i]]) ++j;
    for (size_t k = i; k < j; ++k) rank[order[k]] = (static_cast<double>(i) + static_cast<double>(j - 1)) / 2;
    i = j;
  }
  return rank;
}
bool finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
}
}  // namespace

double Regression::pearson() const {
  return kept_ && finite(predicted_) ? correlation(predicted_, wanted_) : kUndefined;
}
double Regression::spearman() const {
  return kept_ && finite(predicted_) ? correlation(ranks(predicted_), ranks(wanted_)) : kUndefined;
}

void Spans::add(std::span<const float> start, std::span<const float> end, std::span<const int64_t> labels,
                int64_t ignore) {
  const size_t rows = labels.size() / 2, tokens = rows ? start.size() / rows : 0;
  check(start.size() == end.size() && rows * tokens == start.size(), "Spans::add: lengths differ");
  for (size_t r = 0; r < rows; ++r) {
    const int64_t first = labels[2 * r], last = labels[2 * r + 1];
    if (first == ignore || last == ignore) continue;
    const float *s = &start[r * tokens], *e = &end[r * tokens];
    size_t best_start = 0, best_end = 0, top = 0;
    for (size_t i = 1; i < tokens; ++i) {
      if (s[i] > s[top]) top = i;
      if (s[top] + e[i] > s[best_start] + e[best_end]) best_start = top, best_end = i;
    }
    ++rows_;
    const auto a = static_cast<int64_t>(best_start), b = static_cast<int64_t>(best_end);
    exact_ += a == first && b == last;
    const int64_t common = std::max<int64_t>(0, std::min(b, last) - std::max(a, first) + 1);
    const int64_t both = (b - a + 1) + std::max<int64_t>(0, last - first + 1);
    f1_ += 2 * static_cast<double>(common) / static_cast<double>(both);
  }
}

}  // namespace amp
