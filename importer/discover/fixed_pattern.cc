// Detectors of fixed_pattern(). Each tests a property that holds exactly, up to rounding to 32 bits, in the constants
// that it is designed for, and has a probability near zero in random values. A line is a row or a column of the tensor.
// The detectors are:
//
//   repeats       magnitudes recur in a regular order (importer/discover/arrangement.h): blur, Sobel, Haar,
//                 mirrored wavelet filters, DCT, Hadamard, copied channels
//   filter bank   no negative value; every line has one run of non-zero values: mel and triangular filters
//   shares        no negative value; all lines have the same sum: smoothing kernels, row-normalized adjacency
//   graph matrix  symmetric: adjacency, Laplacian, Gram matrix
//   waves         every line follows one linear recurrence of low order: (windowed) Fourier bases, Gabor filters
//   polynomials   every line is a polynomial of its index: trend bases
//   separable     square kernels of rank one or two: Gaussian and Gabor kernels
//   diagonal      one entry in each row and column of a square matrix
//   round         decimals of few digits: color matrices, means and deviations that were typed in
//   typed         in vectors: short decimals, and roots, reciprocals and logarithms of whole numbers
//   orthogonal    orthogonal lines: principal components; orthogonal initializers produce such weights too
#include "importer/discover/fixed_pattern.h"

#include <array>
#include <set>

#include "importer/discover/arrangement.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

// Access to the lines of a tensor: rows along the last dimension, or columns along the first. Dimensions of size 1 are
// left out.
struct Lines {
  const TensorValues& v;
  int64_t count, length, between, step;

  double at(int64_t line, int64_t i) const { return v.at(line * between + i * step); }
  static Lines rows(const TensorValues& v) {
    const int64_t n = v.wide().empty() ? 1 : v.wide().back();
    return {v, v.size() / n, n, n, 1};
  }
  static Lines columns(const TensorValues& v) {
    const int64_t n = v.wide().empty() ? 1 : v.wide().front();
    return {v, v.size() / n, n, 1, v.size() / n};
  }
  // True if `holds` is true for every examined line. If there are more than `most` lines, about `most` evenly spaced
  // lines are examined.
  template <class Holds>
  bool all(int64_t most, const Holds& holds) const {
    const int64_t skip = std::max<int64_t>(1, count / most);
    for (int64_t l = 0; l < count; l += skip) {
      if (!holds(l)) return false;
    }
    return true;
  }
};

// Returns all elements of a tensor of up to 4096 elements, else an evenly spaced sample of a few thousand. The step is
// odd, so that all columns of a table are sampled.
std::vector<double> sample_of(const TensorValues& v) {
  std::vector<double> out;
  const int64_t step = v.sample_step() | 1;
  for (int64_t i = 0; i < v.size(); i += v.size() <= 4096 ? 1 : step) out.push_back(v.at(i));
  return out;
}

// Returns the number of distinct magnitudes, up to rounding. Sets `nonzero` to the number of non-zero elements.
size_t distinct_magnitudes(const std::vector<double>& values, size_t& nonzero) {
  std::vector<double> m;
  double largest = 0;
  for (const double x : values) largest = std::max(largest, std::fabs(x));
  for (const double x : values) {
    if (std::fabs(x) > 1e-7 * largest) m.push_back(std::fabs(x));
  }
  nonzero = m.size();
  std::sort(m.begin(), m.end());
  size_t distinct = 0;
  for (size_t i = 0; i < m.size(); ++i) distinct += i == 0 || m[i] - m[i - 1] > 1e-6 * m[i];
  return distinct;
}

// True if at most seven tenths of the non-zero elements have distinct magnitudes.
bool few_magnitudes(const std::vector<double>& values) {
  size_t nonzero = 0;
  const size_t distinct = distinct_magnitudes(values, nonzero);
  return nonzero >= 4 && distinct * 10 <= nonzero * 7;
}

// True for values that look like weights rounded to few levels or to 16 bits: most are not zero, and magnitudes repeat,
// but in no regular order.
bool few_levels_without_order(const TensorValues& v, const std::vector<double>& values) {
  if (v.size() < kFewestArranged) return false;
  const auto zeros = std::count(values.begin(), values.end(), 0.0);
  return static_cast<size_t>(zeros) * 2 <= values.size() && few_magnitudes(values) && !arranged(v);
}

bool filter_bank(const Lines& lines, const std::vector<double>& values) {
  if (lines.count < 3 || lines.length < 8) return false;
  const auto zeros = std::count(values.begin(), values.end(), 0.0);
  if (static_cast<size_t>(zeros) * 10 < values.size() * 3) return false;
  if (std::any_of(values.begin(), values.end(), [](double x) { return x < 0; })) return false;
  return lines.all(64, [&](int64_t l) {
    int runs = 0;
    for (int64_t i = 0; i < lines.length; ++i) {
      if (lines.at(l, i) < 0) return false;
      runs += lines.at(l, i) > 0 && (i == 0 || lines.at(l, i - 1) == 0);
    }
    return runs <= 1;
  });
}

// True if no value is negative and all lines have the same sum.
bool shares(const Lines& lines) {
  if (lines.count < 2 || lines.length < 3) return false;
  double want = 0;
  return lines.all(64, [&](int64_t l) {
    double sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) {
      if (!(lines.at(l, i) >= 0)) return false;
      sum += lines.at(l, i);
    }
    if (l == 0) want = sum;
    return sum > 0 && std::fabs(sum - want) <= 2e-6 * static_cast<double>(lines.length) * want;
  });
}

bool kernel(const TensorValues& v) { return v.wide().size() >= 2 && v.wide().back() == v.wide()[v.wide().size() - 2]; }

Lines kernels(const TensorValues& v) {
  const int64_t n = v.wide().back() * v.wide().back();
  return {v, v.size() / n, n, n, 1};
}

bool symmetric_matrix(const TensorValues& v) {
  if (!v.matrix() || v.wide()[0] != v.wide()[1] || v.wide()[0] < 4) return false;
  const int64_t n = v.wide()[0];
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(v.at(i * n + i)));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const double a = v.at(i * n + j), b = v.at(j * n + i);
      if (!(std::fabs(a - b) <= 1e-4 * std::max({std::fabs(a), std::fabs(b), largest}))) return false;
    }
  }
  return true;
}

// True if a linear recurrence of low order explains the whole line. The coefficients are fitted by least squares. The
// normal equations get a small ridge term, because pure sinusoids make them singular. Random values leave about half of
// their energy unexplained.
bool predictable(const Lines& lines, int64_t line) {
  constexpr int64_t kMost = 512;
  constexpr int kOrder = 10;
  // Zeros at both ends are skipped: the window of a transform may be shorter than the transform.
  int64_t first = 0, n = lines.length;
  while (first < n && lines.at(line, first) == 0) ++first;
  while (n > first && lines.at(line, n - 1) == 0) --n;
  n = std::min(n - first, kMost);
  if (n == 0) return true;  // a line of zeros fits any recurrence
  if (n < 12) return false;
  const auto x = [&](int64_t i) { return lines.at(line, first + i); };
  const int p = static_cast<int>(std::min<int64_t>(kOrder, n / 4));
  std::array<std::array<double, kOrder + 1>, kOrder> a = {};
  double energy = 0;
  for (int64_t t = p; t < n; ++t) {
    energy += x(t) * x(t);
    for (int i = 0; i < p; ++i) {
      for (int j = 0; j < p; ++j) a[size_t(i)][size_t(j)] += x(t - 1 - i) * x(t - 1 - j);
      a[size_t(i)][size_t(p)] += x(t - 1 - i) * x(t);
    }
  }
  if (!std::isfinite(energy)) return false;
  if (energy == 0) return true;
  for (int i = 0; i < p; ++i) a[size_t(i)][size_t(i)] += 1e-10 * energy + 1e-30;
  for (int k = 0; k < p; ++k) {  // Gauss-Jordan; the matrix is positive definite, so pivoting is not needed
    const double pivot = a[size_t(k)][size_t(k)];
    for (int j = k; j <= p; ++j) a[size_t(k)][size_t(j)] /= pivot;
    for (int i = 0; i < p; ++i) {
      const double f = a[size_t(i)][size_t(k)];
      for (int j = k; i != k && j <= p; ++j) a[size_t(i)][size_t(j)] -= f * a[size_t(k)][size_t(j)];
    }
  }
  double left = 0;
  for (int64_t t = p; t < n; ++t) {
    double r = x(t);
    for (int i = 0; i < p; ++i) r -= a[size_t(i)][size_t(p)] * x(t - 1 - i);
    left += r * r;
  }
  return left <= 1e-6 * energy;
}

bool waves_along(const Lines& lines) {
  return lines.length >= 12 && lines.all(16, [&](int64_t l) { return predictable(lines, l); });
}

// True for square kernels of rank two or less.
bool separable(const TensorValues& v) {
  const auto n = v.wide().empty() ? 0 : v.wide().back();
  if (!kernel(v) || n < 5 || n > 64) return false;
  const Lines all = kernels(v);
  return all.all(8, [&](int64_t l) {
    std::vector<double> m(static_cast<size_t>(n * n));
    double largest = 0;
    for (int64_t i = 0; i < n * n; ++i) largest = std::max(largest, std::fabs(m[size_t(i)] = all.at(l, i)));
    if (largest == 0) return true;
    for (int rank = 0; rank < 2; ++rank) {  // subtract the rank-1 part given by the largest element's row and column
      const auto top =
          std::max_element(m.begin(), m.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
      const int64_t r = (top - m.begin()) / n, c = (top - m.begin()) % n;
      const double pivot = *top;
      if (pivot == 0) return true;
      std::vector<double> row(m.begin() + r * n, m.begin() + (r + 1) * n);
      for (int64_t i = 0; i < n; ++i) {
        const double f = m[size_t(i * n + c)] / pivot;
        for (int64_t j = 0; j < n; ++j) m[size_t(i * n + j)] -= f * row[size_t(j)];
      }
    }
    return std::all_of(m.begin(), m.end(), [&](double x) { return std::fabs(x) <= 1e-5 * largest; });
  });
}

// Returns a bound on the error of rounding x to 32 bits, multiplied by `unit`.
double decimal_rounding(double x, double unit) { return 1.2e-7 * std::fabs(x) * unit + 1e-9; }

// True if all values are decimals of at most `digits` places, as typed numbers are. A random float passes with a
// probability of about 1e-7 * 10^digits.
bool round_decimals(const std::vector<double>& values, int digits) {
  const double unit = std::pow(10.0, digits);
  return std::all_of(values.begin(), values.end(), [&](double x) {
    return std::fabs(x) < 1e4 && std::fabs(x * unit - std::round(x * unit)) <= decimal_rounding(x, unit);
  });
}

// Returns whether all values are decimals of at most 7 places, with so few places that random values would be such
// decimals with a probability below 1e-9.
bool typed_decimals(const std::vector<double>& values) {
  for (int digits = 0; digits <= 7; ++digits) {
    if (!round_decimals(values, digits)) continue;
    double chance = 0;
    for (const double x : values) chance += std::log10(std::min(1.0, 2 * decimal_rounding(x, std::pow(10.0, digits))));
    return chance < -9;
  }
  return false;
}

// True if all values are square roots, all are reciprocals or all are logarithms of whole numbers such as lengths,
// counts or class frequencies.
bool images_of_whole_numbers(const std::vector<double>& values) {
  constexpr std::array<double (*)(double), 3> inverse = {[](double x) { return x * x; }, [](double x) { return 1 / x; },
                                                         [](double x) { return std::exp(std::min(x, 16.0)); }};
  return std::any_of(inverse.begin(), inverse.end(), [&](auto f) {
    double chance = 0;
    for (const double x : values) {
      const double y = f(x), rounding = 4 * decimal_rounding(y, 1);
      if (!(std::fabs(y) >= 1 && std::fabs(y) < 1e6 && std::fabs(y - std::round(y)) <= rounding)) return false;
      chance += std::log10(std::min(1.0, 2 * rounding));
    }
    return chance < -9;
  });
}

// True for a square matrix with one non-zero element in each row and column: a diagonal matrix or a scaled permutation.
bool one_entry_a_line(const TensorValues& v) {
  if (!v.matrix() || v.wide()[0] != v.wide()[1] || v.wide()[0] < 3) return false;
  const int64_t n = v.wide()[0];
  std::set<int64_t> columns;
  for (int64_t i = 0; i < n; ++i) {
    int64_t entries = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (v.at(i * n + j) == 0) continue;
      columns.insert(j);
      if (++entries > 1) return false;
    }
  }
  return static_cast<int64_t>(columns.size()) == n;
}

// True if the elements of every line are a polynomial of low degree in their index, as in trend bases and Vandermonde
// matrices. The differences of order degree + 1 are then zero. Each difference is one test, and at least eight tests
// are required, because random values pass a test with a probability of about 1e-5.
bool polynomial_lines(const Lines& lines) {
  constexpr int64_t kLongest = 32;
  const int64_t n = std::min(lines.length, kLongest);
  if (n < 4 || lines.count < 2) return false;
  int64_t equations = 0;
  bool varies = false;
  const bool all = lines.all(16, [&](int64_t l) {
    std::vector<double> d(static_cast<size_t>(n));
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(d[size_t(i)] = lines.at(l, i)));
    for (int64_t degree = 0; degree <= std::min<int64_t>(n - 2, 6); ++degree) {
      for (int64_t i = 0; i + 1 + degree < n; ++i) d[size_t(i)] = d[size_t(i + 1)] - d[size_t(i)];
      const int64_t left = n - 1 - degree;
      // Each difference doubles the rounding error.
      const double rounding = 2e-7 * largest * std::pow(2.0, static_cast<double>(degree + 1));
      if (std::all_of(d.begin(), d.begin() + left, [&](double x) { return std::fabs(x) <= rounding; })) {
        equations += left;
        varies = varies || degree > 0;
        return true;
      }
    }
    return false;
  });
  return all && varies && equations >= 8;
}

bool orthogonal(const Lines& lines) {
  if (lines.count < 3 || lines.length < lines.count) return false;
  const int64_t used = std::min<int64_t>(lines.count, 16);
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < lines.length; ++i) sum += lines.at(a, i) * lines.at(b, i);
    return sum;
  };
  for (int64_t a = 0; a < used; ++a) {
    const double length = dot(a, a);
    if (!(length > 0)) return false;
    for (int64_t b = 0; b < a; ++b) {
      if (std::fabs(dot(a, b)) > 1e-4 * std::sqrt(length * dot(b, b))) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<FixedPattern> fixed_pattern(const HostTensor& data) {
  const TensorValues v(data);
  const std::vector<double> values = sample_of(v);
  if (v.size() == 2 && round_decimals(values, 3)) return FixedPattern{"decimals of few digits", false};
  if (v.size() < 3) return {};
  if (!std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) return {};
  const Lines rows = Lines::rows(v), columns = Lines::columns(v);
  const bool whole = values.size() >= 8 && round_decimals(values, 0);
  if (whole && v.wide().size() >= 2) return FixedPattern{"whole numbers only", true};
  if (v.wide().size() >= 2) {
    if (one_entry_a_line(v)) return FixedPattern{"a diagonal matrix or a permutation", true};
    if (symmetric_matrix(v)) return FixedPattern{"a symmetric matrix", true};
    if (filter_bank(rows, values) || filter_bank(columns, values))
      return FixedPattern{"a bank of filters: no negative value, one run of others in each line", true};
    if (shares(rows) || shares(columns) || (kernel(v) && shares(kernels(v))))
      return FixedPattern{"no negative value, and lines of equal sum", true};
    if (waves_along(rows) || waves_along(columns))
      return FixedPattern{"its lines are waves: filters or a transform", true};
    if (polynomial_lines(rows) || polynomial_lines(columns))
      return FixedPattern{"its lines are polynomials: a trend or a ramp", true};
    if (few_levels_without_order(v, values)) return {};
    if (few_magnitudes(values)) return FixedPattern{"its magnitudes repeat: filters or a transform", true, true};
    if (separable(v)) return FixedPattern{"separable kernels", true};
    if ((values.size() >= 6 && round_decimals(values, 5)) || typed_decimals(values))
      return FixedPattern{"decimals of few digits", true};
    if (v.matrix() && (orthogonal(rows) || orthogonal(columns))) return FixedPattern{"orthogonal lines", false};
    return {};
  }
  if (v.size() >= 12 && waves_along(rows)) return FixedPattern{"samples of a smooth curve", false};
  if (few_levels_without_order(v, values)) return {};
  if (size_of(data.dtype()) >= 4 && values.size() >= 3 && (typed_decimals(values) || images_of_whole_numbers(values)))
    return FixedPattern{"decimals of few digits, or functions of whole numbers", false, false, true};
  if (round_decimals(values, 4)) return FixedPattern{"decimals of few digits", false};
  if (v.size() >= 6 && few_magnitudes(values)) return FixedPattern{"its magnitudes repeat", false};
  return {};
}

bool printed_decimals(const HostTensor& data) {
  constexpr int64_t kMostLooked = 64;
  const TensorValues v(data);
  for (int64_t i = 0; i < std::min(v.size(), kMostLooked); ++i) {
    const double x = v.at(i);
    if (x == 0) continue;
    // x * unit has six digits before the decimal point.
    const double unit = std::pow(10.0, 5 - std::floor(std::log10(std::fabs(x))));
    if (!(std::fabs(x * unit - std::round(x * unit)) <= decimal_rounding(x, unit))) return false;
  }
  return true;
}

bool unstructured(const HostTensor& data, int64_t fewest) {
  const TensorValues v(data);
  if (v.size() < fewest) return false;
  size_t nonzero = 0;
  const std::vector<double> values = sample_of(v);
  const size_t distinct = distinct_magnitudes(values, nonzero);
  if (nonzero * 10 < values.size() * 5) return false;
  // Repeated values in random order are weights that were rounded, so only repeated values in a regular order are
  // rejected.
  if (distinct * 10 < nonzero * 9 && (v.size() < kFewestArranged || arranged(v))) return false;
  const auto pattern = fixed_pattern(data);
  return !pattern || !pattern->certain;
}

}  // namespace amp
