// Compares packed with padded results. Differences are measured relative to the largest element of each tensor, because
// packing changes the order of sums. Tolerances are wider than rounding errors, and far smaller than the effect of a
// padding token that is read by mistake.

#include "trainer/compile/padding_guard.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "trainer/tasks/each_number.h"

namespace amp {

namespace {

constexpr int kFirst = 3;
constexpr int64_t kEvery = 256, kEveryEvaluation = 64;
// Largest difference between two gradients, relative to the largest element: kTolerance in fp32, kLowTolerance if the
// plan has 16-bit nodes. A different order of rounding causes far smaller differences, and a padding token that is read
// by mistake causes far larger ones.
constexpr double kTolerance = 1e-3, kLowTolerance = 5e-2;
// Gradients below this size, relative to the largest of all gradients, count as rounding errors.
constexpr double kFloor = 1e-3;

double largest(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}
bool all_finite(const std::vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
}
// Returns whether all elements differ by at most `limit`; false if a or b contains NaN.
bool close(const std::vector<double>& a, const std::vector<double>& b, double limit) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= limit)) return false;
  }
  return true;
}

// Returns whether element i of a tensor with dims d is at a padded position.
bool is_padded(const Dims& d, int64_t i, TokenForm form, const std::vector<int64_t>& lengths) {
  const auto batch = static_cast<int64_t>(lengths.size());
  int64_t inner = 1;
  for (size_t k = form.flat ? 1 : form.axis + 1; k < d.size(); ++k) inner *= d[k];
  const int64_t length = form.flat ? d[0] / batch : d[form.axis];
  int64_t row = length;
  for (size_t k = 1; !form.flat && k < form.axis; ++k) row *= d[k];
  const int64_t place = i / inner % length, sample = i / inner / row;
  return place >= lengths[static_cast<size_t>(sample)];
}

bool same_number(double a, double b, double limit) {
  if (std::isfinite(a) && std::isfinite(b)) return std::abs(a - b) <= limit;
  return std::isnan(a) ? std::isnan(b) : a == b;
}

HostTensor rows_of(const HostTensor& t, const std::vector<size_t>& rows) {
  Dims d = t.dims();
  const auto bytes = static_cast<size_t>(t.bytes() / std::max<int64_t>(d[0], 1));
  d[0] = static_cast<int64_t>(rows.size());
  HostTensor out = HostTensor::empty(t.dtype(), d);
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(static_cast<char*>(out.mutable_data()) + i * bytes,
                static_cast<const char*>(t.data()) + rows[i] * bytes, bytes);
  return out;
}

}  // namespace

PaddingGuard::Verdict PaddingGuard::compare(const LossesAndGradients& padded, const LossesAndGradients& packed,
                                            bool low_precision) {
  const double tolerance = low_precision ? kLowTolerance : kTolerance;
  std::vector<std::vector<double>> want;
  double top = 0;
  bool sound = all_finite(padded.terms) && largest(padded.terms) > 0;
  for (const HostTensor& g : padded.gradients) {
    want.push_back(g.to_doubles());
    sound = sound && all_finite(want.back());
    top = std::max(top, largest(want.back()));
  }
  if (!sound || top == 0) return Verdict::says_nothing;
  if (packed.gradients.size() != want.size() || !close(padded.terms, packed.terms, tolerance * largest(padded.terms)))
    return Verdict::different;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!close(want[i], packed.gradients[i].to_doubles(), tolerance * std::max(largest(want[i]), kFloor * top)))
      return Verdict::different;
  }
  return Verdict::equal;
}

bool LossesAndOutputs::finite() const {
  bool finite = all_finite(terms);
  for (const auto& [name, t] : outputs) {
    if (is_float(t.dtype())) each_number(t, [&](int64_t, double x) { finite = finite && std::isfinite(x); });
  }
  return finite;
}

PaddingGuard::Verdict PaddingGuard::compare(const LossesAndOutputs& padded, const LossesAndOutputs& packed,
                                            const std::map<std::string, TokenForm>& tokens,
                                            const std::vector<int64_t>& lengths, bool low_precision) {
  const double tolerance = low_precision ? kLowTolerance : kTolerance;
  const auto finite_top = [](const std::vector<double>& v) {
    double top = 0;
    for (const double x : v) top = std::max(top, std::isfinite(x) ? std::abs(x) : 0);
    return top;
  };
  double top = finite_top(padded.terms);
  for (size_t i = 0; i < padded.terms.size(); ++i) {
    if (!same_number(padded.terms[i], packed.terms.at(i), tolerance * top)) return Verdict::different;
  }
  bool said = all_finite(padded.terms) && top > 0;
  for (const auto& [name, t] : padded.outputs) {
    const std::vector<double> want = t.to_doubles(), got = packed.outputs.at(name).to_doubles();
    const auto form = tokens.find(name);
    const double limit = tolerance * finite_top(want);
    for (size_t i = 0; i < want.size(); ++i) {
      const bool padding = form != tokens.end() && is_padded(t.dims(), static_cast<int64_t>(i), form->second, lengths);
      if (!padding && !same_number(want[i], got.at(i), limit)) return Verdict::different;
    }
    said = said || limit > 0;
  }
  return said ? Verdict::equal : Verdict::says_nothing;
}

bool PaddingGuard::due_evaluation() {
  if (off_) return false;
  return counts_.evaluated++ % kEveryEvaluation == 0 || counts_.agreed_evaluations < kFirst;
}

bool PaddingGuard::on_evaluation(Verdict v) {
  if (v == Verdict::equal) ++counts_.agreed_evaluations;
  off_ = off_ || v == Verdict::different;
  return v == Verdict::different;
}

bool PaddingGuard::due(const RunState& state) {
  if (off_ || state.samples_before != 0 || state.step == last_step_) return false;
  last_step_ = state.step;
  return counts_.agreed < kFirst || state.step % kEvery == 0;
}

bool PaddingGuard::on_verdict(Verdict v) {
  if (v == Verdict::equal) ++counts_.agreed;
  off_ = off_ || v == Verdict::different;
  return v == Verdict::different;
}

Tensors few_rows(const Losses& losses, const Tensors& batch, const HostTensor& mask) {
  constexpr size_t kRows = 4;
  const int64_t n = mask.dims().at(0);
  const bool apart =
      std::all_of(losses.parts.begin(), losses.parts.end(), [](const LossSpec& s) { return rows_together(s) == 1; }) &&
      std::all_of(batch.begin(), batch.end(),
                  [&](const auto& named) { return named.second.rank() > 0 && named.second.dims()[0] == n; });
  if (!apart || n <= static_cast<int64_t>(kRows)) return batch;
  const std::vector<double> there = mask.to_doubles();
  const auto length = static_cast<int64_t>(there.size()) / n;
  std::vector<double> tokens;
  for (int64_t b = 0; b < n; ++b)
    tokens.push_back(std::accumulate(there.begin() + b * length, there.begin() + (b + 1) * length, 0.0));
  std::vector<size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tokens[a] < tokens[b]; });
  std::vector<size_t> rows{order[0], order[1], order[order.size() - 2], order.back()};
  std::sort(rows.begin(), rows.end());
  Tensors few;
  for (const auto& [name, t] : batch) few[name] = rows_of(t, rows);
  return few;
}

}  // namespace amp
