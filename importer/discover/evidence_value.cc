// Evidence from values: tests for masks, ramps, geometric series, sinusoids, grids and the patterns of
// fixed_pattern.cc. The weight of a finding depends on the Naming and on the ValueContext. Large tensors are sampled.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "base/dtype.h"
#include "base/text.h"
#include "importer/discover/arrangement.h"
#include "importer/discover/evidence.h"
#include "importer/discover/fixed_pattern.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

using Weights = std::array<double, 4>;  // indexed by Naming: module, folded, made_up, none

constexpr int64_t kRows = 64, kColumns = 16;

// True if x[i+1] - x[i] is constant, as in arange and linspace.
bool arithmetic(const std::function<double(int64_t)>& x, int64_t n) {
  if (n < 4 || x(1) == x(0)) return false;
  const double step = (x(n - 1) - x(0)) / static_cast<double>(n - 1);
  const double tolerance = 1e-5 * std::max({std::fabs(x(0)), std::fabs(x(n - 1)), std::fabs(step)});
  for (int64_t i = 1; i < n; ++i) {
    if (!(std::fabs(x(i) - x(0) - step * static_cast<double>(i)) <= tolerance)) return false;
  }
  return true;
}

// True if x[i+1] / x[i] is constant, as in the slopes of ALiBi and in inverse frequencies.
bool geometric(const std::function<double(int64_t)>& x, int64_t n) {
  if (n < 4 || x(0) == 0) return false;
  const double ratio = x(1) / x(0);
  if (!(ratio > 0) || std::fabs(ratio - 1) < 1e-6) return false;
  for (int64_t i = 1; i + 1 < n; ++i) {
    if (!(std::fabs(x(i + 1) - ratio * x(i)) <= 1e-4 * std::fabs(x(i + 1)))) return false;
  }
  return true;
}

// The kind of a sequence in which x[i+1] + x[i-1] = c x[i] for some c. Samples of one sinusoid, ramps and constants
// (flat) satisfy this equation.
enum class Wave { none, flat, ramp, sinusoid };
Wave wave(const std::function<double(int64_t)>& x, int64_t n) {
  double top = 0, bottom = 0, largest = 0;
  for (int64_t i = 1; i + 1 < n; ++i) {
    top += x(i) * (x(i + 1) + x(i - 1));
    bottom += x(i) * x(i);
  }
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x(i)));
  if (!std::isfinite(largest)) return Wave::none;
  if (largest == 0) return Wave::flat;
  const double c = bottom > 0 ? top / bottom : 3;
  if (std::fabs(c) > 2.0001) return Wave::none;
  bool same = true;
  for (int64_t i = 1; i + 1 < n; ++i) {
    if (std::fabs(x(i + 1) + x(i - 1) - c * x(i)) > 1e-4 * largest) return Wave::none;
    same = same && std::fabs(x(i) - x(0)) <= 1e-6 * largest;
  }
  return same ? Wave::flat : std::fabs(c - 2) < 1e-6 ? Wave::ramp : Wave::sinusoid;
}

// Returns the kind of wave in the rows or columns of a matrix; Wave::none if neither all rows nor all columns are
// waves.
Wave waves(const TensorValues& v) {
  if (!v.matrix()) return Wave::none;
  const int64_t rows = v.wide()[0], columns = v.wide()[1];
  const auto along = [&](int64_t lines, int64_t between, int64_t length, int64_t step) {
    if (length < 6) return Wave::none;
    Wave most = Wave::flat;
    const int64_t skip = std::max<int64_t>(1, lines / kColumns);
    for (int64_t l = 0; l < lines; l += skip) {
      const Wave w = wave([&](int64_t i) { return v.at(l * between + i * step); }, std::min(length, kRows));
      if (w == Wave::none) return w;
      most = std::max(most, w);
    }
    return most;
  };
  return std::max(along(columns, 1, rows, columns), along(rows, columns, columns, 1));
}

bool identity(const TensorValues& v) {
  if (!v.matrix() || v.wide()[0] != v.wide()[1]) return false;
  const int64_t n = v.wide()[0];
  for (int64_t i = 0; i < n * n; ++i) {
    if (v.at(i) != (i % n == i / n ? 1 : 0)) return false;
  }
  return true;
}

bool symmetric(const TensorValues& v) {
  if (!v.matrix() || v.wide()[0] != v.wide()[1] || v.wide()[0] < 4) return false;
  const int64_t n = v.wide()[0];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      if (v.at(i * n + j) != v.at(j * n + i)) return false;
    }
  }
  return true;
}

// True if the columns of a table repeat their values exactly, as coordinates of a grid do. Columns of learned 32-bit
// numbers do not repeat.
bool repeats(const TensorValues& v, const HostTensor& t) {
  if (size_of(t.dtype()) < 4 || v.wide().size() < 2) return false;
  const int64_t columns = v.wide().back(), rows = v.size() / columns;
  if (rows < 8) return false;
  const int64_t used = std::min<int64_t>(rows, 4 * kRows), skip = std::max<int64_t>(1, columns / kColumns);
  bool moving = false;
  for (int64_t c = 0; c < columns; c += skip) {
    std::set<double> seen;
    for (int64_t r = 0; r < used; ++r) seen.insert(v.at(r * columns + c));
    if (static_cast<int64_t>(seen.size()) > used / 2) return false;
    moving = moving || seen.size() > 1;
  }
  return moving && arranged(v);
}

bool irregular(const TensorValues& v) {
  std::set<double> seen;
  int64_t looked = 0;
  v.sampled([&](double x) {
    seen.insert(x);
    ++looked;
    return true;
  });
  return static_cast<int64_t>(seen.size()) * 10 >= looked * 9 || (v.size() >= kFewestArranged && !arranged(v));
}

// True for the square or fourth root of a whole number, and for the reciprocal of such a root. Attention computes such
// a scale from a shape. Whole numbers and their reciprocals are excluded, because parameters are initialized to such
// values (-10, 0.1).
bool root_of_whole(double x) {
  if (!(x > 0) || x == std::floor(x) || std::fabs(1 / x - std::round(1 / x)) <= 1e-6 / x) return false;
  const double square = x * x, fourth = square * square;
  for (const double y : {square, 1 / square, fourth, 1 / fourth}) {
    const double whole = std::round(y);
    if (whole >= 2 && whole <= 4096 && std::fabs(y - whole) <= 1e-6 * whole) return true;
  }
  return false;
}

class Look {
 public:
  Look(const HostTensor& data, Naming naming, const ValueContext& context)
      : data_(data), v_(data), naming_(naming), context_(context) {}

  std::optional<Evidence> evidence() const {
    if (v_.size() == 1 && root_of_whole(v_.at(0))) return weigh("a root of a whole number: a scale", {0, -8, -6, 0});
    if (v_.size() < 2) return {};
    const std::vector<double> few = v_.distinct(2);
    if (few.size() == 1) return constant_valued(few[0]);
    if (few.size() == 2) return two_values(few);
    if (auto e = position_table()) return e;
    if (auto e = pattern()) return e;
    if (v_.size() >= 8 && v_.sampled([](double x) { return x == std::floor(x); }))
      return weigh("whole numbers only", {-2, -3, -3, 0});
    if (repeats(v_, data_)) return weigh("its columns repeat their values: a grid of coordinates", {-2, -4, -4, 0});
    if (symmetric(v_)) return weigh("a symmetric matrix", {-1, -2, -2, 0});
    // Learned or randomly initialized values do not repeat. This counts most for generated names, because such a name
    // is no evidence.
    if (v_.size() >= 4 && irregular(v_)) return weigh("no regularity in its values", {0.5, 0.5, 1.5, 0.5});
    return {};
  }

 private:
  Evidence weigh(const char* text, const Weights& w) const { return {text, w[static_cast<size_t>(naming_)]}; }

  std::optional<Evidence> constant_valued(double x) const {
    if (x == 0 && data_.rank() >= 3 && data_.dims()[0] > 1 && v_.wide().size() >= 2)
      return weigh("all zeros, a batch of them: a first state", {0, -9, -9, 0});
    // If other biases of the file are trained, a converter created this constant for the bias input of an operator.
    if (context_.product_bias && context_.biases_learned && v_.size() >= 2) {
      if (x == 0) return weigh("all zeros, other biases are not", {0, -1, -5, -3});
      if (std::fabs(x) <= 1e-4) return weigh("an epsilon", {-6, -6, -6, -6});
    }
    if (context_.starts_regular) return {};
    if (context_.in_product && context_.learned) {
      const bool filter = v_.wide().size() > 1 || data_.dims().back() > 1;
      if (x != 0 && filter) return weigh("a box: all elements equal", {-10, -10, -10, -10});
      if (x != 0) return weigh("a box: all elements equal", {-4, -5, -5, -5});
      return weigh("all zeros, in a weight's place", {0, -2, -4, -3.5});
    }
    return weigh(x == 0 ? "all zeros" : "all elements equal", {0, -2, -2, 0});
  }

  std::optional<Evidence> two_values(const std::vector<double>& few) const {
    if (context_.operand && few[1] == 0 && few[0] <= -50)
      return weigh("a mask: two values, 0 and one far below", {-9, -9, -9, -9});
    if (identity(v_)) return weigh("the identity matrix", {-4, -4, -4, context_.learned ? -5.0 : 0.0});
    if (context_.learned && v_.wide().size() >= 2 && few[0] == -few[1] && v_.size() >= 16 && !binary_weights(few[1]))
      return weigh("two values of opposite sign: a transform", {-8, -8, -8, -7});
    const Dims& dims = data_.dims();
    const bool square = dims.size() >= 2 && dims[dims.size() - 1] == dims[dims.size() - 2];
    if (few[0] == 0 && few[1] == 1) {
      if (context_.starts_regular) return {};
      const bool matrix = context_.learned && v_.wide().size() >= 2;
      return weigh("a mask: zeros and ones only", {matrix ? -8.0 : -4.0, matrix ? -8.0 : -5.0, -5,
                                                   (context_.operand && square) || matrix ? -7.0 : 0.0});
    }
    if (context_.starts_regular) return {};
    if (v_.size() < 4) return pattern();
    if (binary_weights(few[1]) && few[0] == -few[1]) return {};
    if (context_.learned && v_.wide().size() >= 2) return weigh("two values only", {-5, -5, -5, -4});
    return weigh("two values only", {-1, -2, -2, 0});
  }

  // True for signs in random order that are multiplied by a trained scale. Scales of 1, of 1 / n and of 1 / sqrt(n) for
  // a whole number n count as not trained.
  bool binary_weights(double scale) const {
    const double inverse = 1 / (scale * scale);
    return std::fabs(inverse - std::round(inverse)) > 1e-5 * inverse && v_.size() >= kFewestArranged && !arranged(v_);
  }

  std::optional<Evidence> position_table() const {
    const auto element = [&](int64_t i) { return v_.at(i); };
    const Wave w = waves(v_);
    if (w == Wave::sinusoid) return weigh("sampled sinusoids: a table of positions", {-10, -8, -8, -7});
    const bool in_product = context_.in_product && context_.learned;
    if (w == Wave::ramp && in_product) return weigh("equal steps, in a weight's place", {-10, -10, -10, -9});
    if (w == Wave::ramp) return weigh("equal steps", {-2.5, -6, -4, 0});
    if (v_.wide().size() != 1) return {};
    if (arithmetic(element, v_.size())) {
      if (!in_product) return weigh("equal steps", {-2.5, -6, -4, -1});
      // This evidence outweighs an exporter's list of parameters. Some detectors register the bins 0, 1, 2, ... of a
      // distribution over distances as a parameter, which is not trained.
      const bool whole = v_.at(0) == std::floor(v_.at(0)) && std::fabs(v_.at(1) - v_.at(0)) == 1;
      return weigh("equal steps, in a weight's place", {whole ? -20.0 : -10.0, -10, -10, -9});
    }
    if (geometric(element, v_.size())) return weigh("a geometric series", {-3, -4, -4, -1});
    return {};
  }

  // Returns the evidence from fixed_pattern(). Requires that the file has weights without structure, because in files
  // written by hand all values are round.
  std::optional<Evidence> pattern() const {
    if (!context_.learned) return {};
    const auto found = fixed_pattern(data_);
    if (!found) return {};
    if (found->typed) return weigh(found->text, {-5.5, -6, -6, -5});
    if (context_.starts_regular && v_.wide().size() < 2) return {};
    if (!found->certain && (v_.wide().size() >= 2 || !context_.in_product)) return weigh(found->text, {-3, -3, -3, -2});
    if (!found->certain) return weigh(found->text, {-6, -6, -6, -5});
    if (found->repetition && !context_.in_product) {
      if (gathered())
        return Evidence{"few values that no function gives, each repeated: a table that was looked up", 0.5};
      return weigh(found->text, {-3, -2, -3, -3});
    }
    if (context_.in_product) return weigh(found->text, {-9.5, -8, -8, -7});
    return weigh(found->text, {-5, -6, -5, -5});
  }

  // True if the gaps between sorted distinct values have irregular sizes, as in random numbers. A function of distance
  // has even or steadily shrinking gaps.
  bool gathered() const {
    std::set<double> seen;
    for (int64_t i = 0; i < v_.size() && seen.size() < 4096; ++i) seen.insert(v_.at(i));
    const std::vector<double> x(seen.begin(), seen.end());
    if (x.size() < 8 || x.front() >= 0 || x.back() <= 0) return false;
    int64_t like = 0;
    for (size_t i = 0; i + 2 < x.size(); ++i) {
      const double a = x[i + 1] - x[i], b = x[i + 2] - x[i + 1];
      like += a < 2 * b && b < 2 * a;
    }
    return static_cast<size_t>(like) * 10 <= (x.size() - 2) * 6;
  }

  const HostTensor& data_;
  const TensorValues v_;
  const Naming naming_;
  const ValueContext& context_;
};

}  // namespace

std::vector<Evidence> value_evidence(const HostTensor& data, Naming naming, const ValueContext& context) {
  std::vector<Evidence> out;
  if (!TensorValues(data).sampled([](double x) { return x > -1e30; }))
    out.push_back({"holds minus infinity or the like: a mask", -9});
  if (auto e = Look(data, naming, context).evidence(); e && e->weight != 0) out.push_back(*e);
  return out;
}

}  // namespace amp
