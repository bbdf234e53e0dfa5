// Fits the statistics of features on the training rows. The formulas, including the order of floating-point operations,
// are those of scikit-learn and numpy, so that tests can compare with them.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "data/features/features.h"

namespace amp {

namespace {

CategoryMap fit_category(const FeatureTable& table, const std::string& name, std::span<const int64_t> rows) {
  const FeatureColumn column = table.column(name);
  std::unordered_set<std::string_view> seen;
  std::string_view last;  // text of the previous row, which is often the same: saves a search in `seen`
  for (const int64_t r : rows) {
    const std::string_view text = column.texts[static_cast<size_t>(r)];
    if (text != last) seen.insert(last = text);
  }
  seen.erase(std::string_view());
  CategoryMap out{name, {seen.begin(), seen.end()}};
  sort_values(out.values);
  return out;
}

// Returns numpy.percentile's linear interpolation of sorted numbers; p from 0 to 1.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double t = at - static_cast<double>(below), a = sorted[below], b = sorted[below + 1];
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

void fit_scale(std::vector<double> x, NumberMap& out) {
  if (out.scaling == Scaling::standard) {
    const auto n = static_cast<double>(x.size());
    out.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double squares = 0, rest = 0;  // corrected two-pass algorithm, as in scikit-learn
    for (const double v : x) {
      squares += (v - out.mean) * (v - out.mean);
      rest += v - out.mean;
    }
    const double variance = (squares - rest * rest / n) / n;
    // scikit-learn treats a column as constant if its variance is at most `bound`.
    const double bound = n * 2.2e-16 * variance + std::pow(n * out.mean * 2.2e-16, 2);
    out.scale = variance <= bound ? 1 : std::sqrt(variance);
  } else if (out.scaling == Scaling::quantiles) {
    constexpr size_t kMost = 1000;
    const size_t count = std::min(kMost, x.size());
    std::sort(x.begin(), x.end());
    for (size_t i = 0; i < count; ++i)
      out.quantiles.push_back(percentile(x, count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1)));
  }
}

NumberMap fit_number(const FeatureTable& table, const std::string& name, const FeatureSchema& schema,
                     std::span<const int64_t> rows) {
  const FeatureColumn column = table.column(name);
  std::vector<double> x;
  for (const int64_t r : rows) {
    const double v = cell_number(table, name, column.texts[static_cast<size_t>(r)], r);
    if (!std::isnan(v)) x.push_back(v);
  }
  if (x.empty())
    fail(Exit::data, "E_DATA_NUMBER",
         cat(table.table().name(), ":1: column '", printable(name), "' has no number in the ", rows.size(),
             " training rows"),
         "leave it out of `continuous`");
  NumberMap out{name};
  out.missing = x.size() < rows.size();
  out.scaling = schema.scaling;
  if (schema.filling == Filling::mean) {
    out.fill = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  } else {
    std::vector<double> order = x;
    const auto half = order.begin() + std::ssize(order) / 2;
    std::nth_element(order.begin(), half, order.end());
    out.fill = order.size() % 2 ? *half : (*std::max_element(order.begin(), half) + *half) / 2;
  }
  x.resize(rows.size(), out.fill);
  fit_scale(std::move(x), out);
  return out;
}

TargetTransform fit_target(const FeatureTable& table, const FeatureSchema& schema, std::span<const int64_t> rows) {
  TargetTransform out{schema.target_form};
  if (out.form != TargetForm::standard) return out;
  const FeatureColumn column = table.column(schema.target);
  NumberMap map{schema.target};
  std::vector<double> x;
  for (const int64_t r : rows) x.push_back(cell_number(table, schema.target, column.texts[static_cast<size_t>(r)], r));
  fit_scale(std::move(x), map);
  out.mean = map.mean;
  out.scale = map.scale;
  return out;
}

}  // namespace

Features fit_features(const FeatureTable& table, const FeatureSchema& schema, std::span<const int64_t> rows,
                      bool regression) {
  Features out;
  out.dates = schema.dates;
  out.joins = schema.joins;
  out.target = schema.target;
  for (const std::string& c : schema.categorical) out.categories.push_back(fit_category(table, c, rows));
  for (const std::string& c : schema.continuous) out.numbers.push_back(fit_number(table, c, schema, rows));
  if (regression) out.target_transform = fit_target(table, schema, rows);
  return out;
}

}  // namespace amp
