// Decides whether values are arranged (a fixed filter or transform) or look random (a trained weight). A line is a row
// or column of the tensor. The decision is a permutation test. Each row is divided by its largest magnitude. A run is k
// neighboring elements of a line; runs that are equal up to sign and direction count as one. Weights have about as many
// distinct runs as the same lines after shuffling; filters and transforms have far fewer. k is chosen so that shuffled
// lines rarely repeat a run.
#include "importer/discover/arrangement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace amp {
namespace {

constexpr int64_t kMostElements = 4096;
constexpr size_t kFewestRuns = 8, kLongestRun = 12;

using Line = std::vector<int>;  // 0 for a zero; for other values the rank of the magnitude, with the value's sign

// Returns the largest magnitude in a sample of the row. Dividing by it removes the per-row scale of a quantizer.
// Returns 1 for short rows (coordinates, 3x3 kernels), which have no per-row scale.
double row_scale(const TensorValues& v, int64_t row, int64_t length) {
  if (length < 8) return 1;
  double most = 0;
  for (int64_t i = 0; i < length; i += std::max<int64_t>(1, length / 256)) {
    const double x = std::fabs(v.at(row * length + i));
    if (std::isfinite(x)) most = std::max(most, x);
  }
  return most > 0 ? most : 1;
}

// Returns the levels of evenly spaced lines, about kMostElements in total. A line has `length` elements that are `step`
// apart.
std::vector<Line> lines_of(const TensorValues& v, int64_t count, int64_t length, int64_t between, int64_t step) {
  const int64_t most = std::max<int64_t>(1, kMostElements / length), skip = std::max<int64_t>(1, count / most);
  const int64_t used = std::min(length, kMostElements);
  std::vector<double> scales;  // if the lines are columns (step > 1): the factor by which each row is divided
  for (int64_t i = 0; i < used && step > 1; ++i) scales.push_back(row_scale(v, i, step));
  std::vector<std::vector<double>> taken;
  std::vector<double> magnitudes;
  for (int64_t l = 0; l < count; l += skip) {
    const double scale = step > 1 ? 1 : row_scale(v, l, length);
    taken.emplace_back();
    for (int64_t i = 0; i < used; ++i) {
      const double x = v.at(l * between + i * step) / (step > 1 ? scales[static_cast<size_t>(i)] : scale);
      taken.back().push_back(std::isfinite(x) ? x : 0);
      magnitudes.push_back(std::fabs(taken.back().back()));
    }
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  const double zero = 1e-7 * magnitudes.back();
  std::vector<double> levels;  // the smallest magnitude of each level
  double last = 0;
  for (const double m : magnitudes) {
    if (m > zero && m - last > 1e-6 * m) levels.push_back(m);
    last = m;
  }
  std::vector<Line> out;
  for (const std::vector<double>& values : taken) {
    out.emplace_back();
    for (const double x : values) {
      const auto rank = std::upper_bound(levels.begin(), levels.end(), std::fabs(x)) - levels.begin();
      out.back().push_back(std::fabs(x) <= zero ? 0 : static_cast<int>(x < 0 ? -rank : rank));
    }
  }
  return out;
}

// Returns a hash that is the same for a run, its mirror image and the negatives of both.
uint64_t canonical_run(const int* run, size_t k) {
  std::array<int, kLongestRun> best = {}, next = {};
  for (int form = 0; form < 4; ++form) {
    for (size_t i = 0; i < k; ++i) next[i] = (form & 1 ? -1 : 1) * run[form & 2 ? k - 1 - i : i];
    if (form == 0 || next < best) best = next;
  }
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < k; ++i) hash = (hash ^ static_cast<uint32_t>(best[i])) * 1099511628211u;
  return hash;
}

struct Runs {
  size_t all = 0, distinct = 0;
};

Runs runs_of(const std::vector<Line>& lines, size_t k) {
  std::vector<uint64_t> seen;
  for (const Line& line : lines) {
    for (size_t i = 0; i + k <= line.size(); ++i) {
      const int* run = line.data() + i;
      if (std::any_of(run, run + k, [](int x) { return x != 0; })) seen.push_back(canonical_run(run, k));
    }
  }
  const size_t all = seen.size();
  std::sort(seen.begin(), seen.end());
  return {all, static_cast<size_t>(std::unique(seen.begin(), seen.end()) - seen.begin())};
}

// Shuffles each line with a fixed seed (Fisher-Yates, linear congruential generator), so that results are reproducible.
std::vector<Line> shuffled(std::vector<Line> lines) {
  uint64_t state = 88172645463325252u;
  for (Line& line : lines) {
    for (size_t i = line.size(); i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(line[i - 1], line[(state >> 33) % i]);
    }
  }
  return lines;
}

bool recurring(const std::vector<Line>& lines) {
  double levels = 0;  // average number of distinct levels per line
  size_t elements = 0;
  for (const Line& line : lines) {
    levels += static_cast<double>(std::set<int>(line.begin(), line.end()).size()) / static_cast<double>(lines.size());
    elements += line.size();
  }
  const size_t length = lines.front().size();
  size_t k = 2;
  for (double runs = levels * levels / 4; k < std::min(length, kLongestRun) && (k < 3 || runs < 8.0 * double(elements));
       ++k)
    runs *= levels;
  if (length < k) return false;
  const Runs real = runs_of(lines, k);
  return real.all >= kFewestRuns && real.distinct * 4 < runs_of(shuffled(lines), k).distinct * 3;
}

bool compute_arranged(const TensorValues& v) {
  const Dims& d = v.wide();
  const int64_t n = d.back(), first = d.front();
  if (recurring(lines_of(v, v.size() / n, n, n, 1))) return true;
  if (d.size() < 2) return false;
  if (recurring(lines_of(v, v.size() / first, first, 1, v.size() / first))) return true;
  const int64_t kernel = n * d[d.size() - 2];
  return d.size() >= 3 && recurring(lines_of(v, v.size() / kernel, kernel, kernel, 1));
}

struct Stored {
  HostTensor tensor;  // keeps the tensor alive, so that its address is not reused
  bool arranged;
};
// Keys are address and shape; nullopt if no StoredArrangements exists.
thread_local std::optional<std::map<std::pair<const void*, Dims>, Stored>> stored_arrangements;

}  // namespace

StoredArrangements::StoredArrangements() { stored_arrangements.emplace(); }

StoredArrangements::~StoredArrangements() { stored_arrangements.reset(); }

bool arranged(const TensorValues& v) {
  if (v.wide().empty() || v.size() < kFewestArranged) return true;
  if (!stored_arrangements) return compute_arranged(v);
  const auto key = std::pair(v.tensor().data(), v.wide());
  const auto known = stored_arrangements->find(key);
  if (known != stored_arrangements->end() && known->second.tensor.dtype() == v.tensor().dtype())
    return known->second.arranged;
  const bool result = compute_arranged(v);
  stored_arrangements->insert_or_assign(key, Stored{v.tensor(), result});
  return result;
}

}  // namespace amp
