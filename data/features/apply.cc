// Applies fitted features to a table: category codes, scaled numbers and indicators of missing values. The results
// equal scikit-learn's SimpleImputer, StandardScaler and QuantileTransformer, which tests compare.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "data/features/features.h"

namespace amp {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Returns numpy.interp(x, xs, ys) for sorted xs and ys[i] = i / (n - 1). If x occurs several times in xs, `up` selects
// the last occurrence; otherwise the first is used.
double place_among(const std::vector<double>& xs, double x, bool up) {
  const auto at = up ? std::upper_bound(xs.begin(), xs.end(), x) : std::lower_bound(xs.begin(), xs.end(), x);
  const auto n = static_cast<double>(xs.size() - 1);
  if (at == xs.begin()) return 0;
  if (at == xs.end()) return 1;
  const double below = *(at - 1), above = *at, i = static_cast<double>(at - xs.begin() - 1);
  return (i + (x - below) / (above - below)) / n;
}

}  // namespace

double NumberMap::apply(double x) const {
  if (std::isnan(x)) x = fill;
  if (scaling == Scaling::standard) return (x - mean) / scale;
  if (scaling == Scaling::none) return x;
  if (quantiles.size() < 2 || x == quantiles.front()) return 0;
  if (x == quantiles.back()) return 1;
  return 0.5 * (place_among(quantiles, x, true) + place_among(quantiles, x, false));
}

int64_t Features::indicators() const {
  return std::count_if(numbers.begin(), numbers.end(), [](const NumberMap& n) { return n.indicator; });
}

std::optional<double> read_number(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return 1;
  if (text == "false" || text == "False" || text == "FALSE") return 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  double v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(v)) return std::nullopt;
  return v;
}

double cell_number(const FeatureTable& table, const std::string& column, std::string_view text, int64_t row) {
  if (text.empty()) return kMissing;
  if (const std::optional<double> v = read_number(text)) return *v;
  fail(Exit::data, "E_DATA_NUMBER",
       cat(table.where(row, column), ": '", printable(text), "' in column '", printable(column), "' is no number"),
       "name the column with `categorical`, or correct the row; an empty field, NA and null are missing numbers");
}

void sort_values(std::vector<std::string>& values) {
  std::vector<std::pair<double, std::string>> numbers;
  for (const std::string& v : values) {
    const bool word = !v.empty() && (v[0] == 't' || v[0] == 'T' || v[0] == 'f' || v[0] == 'F');
    const std::optional<double> x = word ? std::nullopt : read_number(v);
    if (!x) {
      std::sort(values.begin(), values.end());
      return;
    }
    numbers.emplace_back(*x, v);
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::move(numbers[i].second);
}

FeatureValues feature_values(const FeatureTable& table, const Features& features) {
  FeatureValues out;
  for (const CategoryMap& m : features.categories) {
    std::unordered_map<std::string_view, int64_t> codes;
    for (size_t i = 0; i < m.values.size(); ++i) codes[m.values[i]] = static_cast<int64_t>(i) + 1;
    const FeatureColumn column = table.column(m.column);
    FeatureValues::Unknown unknown{m.column, {}, {}};
    std::vector<int64_t>& ids = out.codes.emplace_back();
    ids.reserve(column.texts.size());
    for (int64_t r = 0; r < table.rows(); ++r) {
      const std::string_view text = column.texts[static_cast<size_t>(r)];
      if (r > 0 && text == column.texts[static_cast<size_t>(r) - 1] && ids.back() != 0) {
        ids.push_back(ids.back());
        continue;
      }
      const auto at = codes.find(text);
      ids.push_back(at == codes.end() ? 0 : at->second);
      if (at != codes.end() || text.empty()) continue;
      if (unknown.rows++ > 0) continue;
      unknown.example = text;
      unknown.where = table.where(r, m.column);
    }
    if (unknown.rows) out.unknown.push_back(std::move(unknown));
  }
  for (const NumberMap& m : features.numbers) {
    const FeatureColumn column = table.column(m.column);
    std::vector<float>& x = out.numbers.emplace_back();
    std::vector<uint8_t>& missing = out.missing.emplace_back();
    for (int64_t r = 0; r < table.rows(); ++r) {
      const double v = cell_number(table, m.column, column.texts[static_cast<size_t>(r)], r);
      missing.push_back(std::isnan(v));
      x.push_back(static_cast<float>(m.apply(v)));
    }
  }
  return out;
}

double target_number(const FeatureTable& table, const std::string& target, std::string_view text, int64_t row,
                     const TargetTransform& transform) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    fail(Exit::data, "E_DATA_LABEL", cat(table.where(row, target), ": ", what), hint);
  };
  if (text.empty())
    refuse(cat("no value in the target column '", printable(target), "'"),
           "fill it in, remove the row, or skip such rows with `skip_bad_rows`");
  const std::optional<double> y = read_number(text);
  if (!y)
    refuse(cat("'", printable(text), "' in the target column '", printable(target), "' is no number"),
           "`task` classification takes texts as classes");
  if (!transform.takes(*y))
    refuse(cat("the target is ", text, ", ",
               transform.form == TargetForm::log ? "log takes numbers above 0" : "log1p numbers above -1"),
           transform.form == TargetForm::log ? "`target_transform` log1p takes 0 too; or remove such rows"
                                             : "train without `target_transform`, or remove such rows");
  return *y;
}

std::vector<float> target_numbers(const FeatureTable& table, const std::string& target,
                                  const TargetTransform& transform) {
  const FeatureColumn column = table.column(target);
  std::vector<float> out;
  for (int64_t r = 0; r < table.rows(); ++r) {
    const double y = target_number(table, target, column.texts[static_cast<size_t>(r)], r, transform);
    out.push_back(static_cast<float>(transform.forward(y)));
  }
  return out;
}

}  // namespace amp
