#include "trainer/metrics.h"

#include <cmath>

#include "base/error.h"

namespace amp {

void LossAverage::add_sum(double sum, double items) {
  if (items <= 0) return;  // a batch of ignored labels only: 0/0 is no loss
  sum_ += sum;
  items_ += items;
}

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
    ++classes_[static_cast<size_t>(want)].labelled;
    if (got >= 0 && got < n) ++classes_[static_cast<size_t>(got)].predicted;
    if (got != want) continue;
    ++correct_;
    ++classes_[static_cast<size_t>(want)].both;
  }
}

double Classification::macro_f1() const {
  double sum = 0;
  int64_t present = 0;
  for (const Class& c : classes_) {
    if (c.labelled + c.predicted == 0) continue;
    ++present;
    sum += 2 * static_cast<double>(c.both) / static_cast<double>(c.labelled + c.predicted);
  }
  return present ? sum / static_cast<double>(present) : 0;
}

}  // namespace amp
