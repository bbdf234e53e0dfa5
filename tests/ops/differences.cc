// Finite differences of <dy, f(x)> by the five-point rule in fp64, along single elements and random directions, and the
// comparison of a gradient with them.
#include "tests/ops/differences.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tests/ops/one_node.h"

namespace amp::test {
namespace {

constexpr double kStep = 0x1p-10;  // a power of two, so that lattice points stay exact in short types
constexpr double kTolerance = 1e-6;

double dot(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, const std::vector<size_t>& which) {
  long double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    const std::vector<double> x = a[k].to_doubles(), y = b[which[k]].to_doubles();
    for (size_t i = 0; i < x.size(); ++i) sum += static_cast<long double>(x[i]) * y[i];
  }
  return static_cast<double>(sum);
}

// Returns the derivative of <dy, f(x)> as input i moves along d: the five-point rule, error O(h^4).
double slope(const CaseRun& f, const OpCase& c, const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy,
             size_t i, const std::vector<double>& d) {
  const std::vector<double> at = in[i].to_doubles();
  double sum = 0;
  for (const auto& [steps, weight] : {std::pair{1, 8.0}, {-1, -8.0}, {2, -1.0}, {-2, 1.0}}) {
    std::vector<double> moved = at;
    for (size_t k = 0; k < moved.size(); ++k) moved[k] += steps * kStep * d[k];
    std::vector<HostTensor> x = in;
    x[i] = HostTensor::of(in[i].dims(), moved);
    sum += weight * dot(dy, f(x).outputs, c.seeded);
  }
  return sum / (12 * kStep);
}

}  // namespace

std::vector<Probe> probe(const CaseRun& f, const OpCase& c, const std::vector<HostTensor>& in,
                         const std::vector<HostTensor>& dy, size_t i, const std::vector<double>& grad) {
  const size_t n = grad.size();
  std::vector<size_t> elements;
  if (n <= 48) {
    for (size_t k = 0; k < n; ++k) elements.push_back(k);
  } else {
    const auto peak =
        std::max_element(grad.begin(), grad.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    elements = {static_cast<size_t>(peak - grad.begin()), n / 3};
    if (n < 5000) elements.insert(elements.end(), {0, n - 1});
  }
  std::vector<Probe> out;
  const auto add = [&](std::vector<double> d) {
    double length = 0;
    for (const double x : d) length += x * x;
    out.push_back({d, slope(f, c, in, dy, i, d), std::sqrt(length)});
  };
  for (const size_t k : elements) {
    std::vector<double> d(n, 0.0);
    d[k] = 1;
    add(d);
  }
  const bool exact = c.attrs.has("to");  // Cast: a short type rounds values between lattice points
  for (uint64_t trial = 0; trial < (n < 5000 ? 2 : 1) && n > 48 && !exact; ++trial) {
    Rng rng(77 + trial);
    std::vector<double> d(n);
    for (double& x : d) x = 2 * uniform01(rng) - 1;
    add(d);
  }
  return out;
}

Verdict judge(const std::vector<Probe>& probes, const std::vector<double>& grad, double scale) {
  Verdict v;
  for (size_t p = 0; p < probes.size(); ++p) {
    const Probe& x = probes[p];
    double want = 0;
    for (size_t k = 0; k < grad.size(); ++k) want += grad[k] * x.direction[k];
    const double allowed = kTolerance * std::max(scale, 1e-6) * std::max(1.0, x.length);
    const double excess = std::abs(want - x.slope) / allowed;
    if (!(excess <= v.excess)) {
      v.excess = std::isnan(excess) ? INFINITY : excess;
      v.text = cat("probe ", p, ": gradient says ", want, ", differences say ", x.slope, ", allowed ", allowed);
    }
  }
  return v;
}

}  // namespace amp::test
