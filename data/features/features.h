// Features: the statistics that turn columns of a table into numbers for a model. They are fitted on the training rows
// only and are deterministic. They are stored as JSON with the run and in the model, so that evaluation and prediction
// compute the same.
//
// The kinds of features are:
//   category      its index among the training data's values, from 1, sorted (numbers by size, others by bytes);
//                 0: unknown or missing
//   number        missing values filled, then scaled: scikit-learn's SimpleImputer, StandardScaler, QuantileTransformer
//   indicator     1 if a number was missing
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/features/feature_table.h"
#include "data/features/target.h"

namespace amp {

enum class Filling : uint8_t { median, mean };
enum class Scaling : uint8_t { standard, quantiles, none };

// The user's settings for a table.
struct FeatureSchema {
  // names of columns; the parts of dates become further columns
  std::vector<std::string> categorical, continuous, dates;
  std::vector<Join> joins;
  std::string target;
  Filling filling = Filling::median;
  Scaling scaling = Scaling::standard;
  TargetForm target_form = TargetForm::plain;
};

struct CategoryMap {
  std::string column;
  std::vector<std::string> values;  // cell texts that have the codes 1, 2, ...
  int64_t codes() const { return static_cast<int64_t>(values.size()) + 1; }
};

struct NumberMap {
  std::string column;
  double fill = 0;
  bool missing = false;    // some training rows have no value
  bool indicator = false;  // true: whether the number is missing is also a feature
  Scaling scaling = Scaling::standard;
  double mean = 0, scale = 1;
  std::vector<double> quantiles = {};  // quantiles of the training values at equally spaced probabilities from 0 to 1
  double apply(double x) const;
};

struct Features {
  std::vector<CategoryMap> categories;
  std::vector<NumberMap> numbers;
  std::vector<std::string> dates;
  std::vector<Join> joins;
  std::string target;
  TargetTransform target_transform;

  int64_t indicators() const;
  std::string json() const;
  static Features parse(const std::string& json);  // throws E_FEATURES (Exit::model)
};

// Fits the statistics on `rows` of the table. regression: also fits the target's transform.
Features fit_features(const FeatureTable& table, const FeatureSchema& schema, std::span<const int64_t> rows,
                      bool regression);

// Values of the features of all rows of a table: one vector per column, in the order of Features::categories and
// Features::numbers.
struct FeatureValues {
  std::vector<std::vector<int64_t>> codes;
  std::vector<std::vector<float>> numbers;
  // for each column of `numbers`: 1 in the rows where the number was missing
  std::vector<std::vector<uint8_t>> missing;
  struct Unknown {
    std::string column, example, where;
    int64_t rows = 0;
  };
  // categories that the training data do not have, with an example and the number of rows
  std::vector<Unknown> unknown;
};
// Computes the features of all rows. Throws E_DATA_NUMBER with the position if a text in a column of numbers is not a
// number.
FeatureValues feature_values(const FeatureTable& table, const Features& features);

// Returns the transformed numbers of the target. Throws E_DATA_LABEL with the position if one is missing, not a number,
// or outside the domain of the transform.
std::vector<float> target_numbers(const FeatureTable& table, const std::string& target,
                                  const TargetTransform& transform);

// Returns the target of a row, before the transform. Throws the errors of target_numbers(). text: the row's cell.
double target_number(const FeatureTable& table, const std::string& target, std::string_view text, int64_t row,
                     const TargetTransform& transform);

// Parses a cell. Returns 1 for true, 0 for false, and NaN for a missing value. Throws E_DATA_NUMBER for a text that is
// not a finite number.
double cell_number(const FeatureTable& table, const std::string& column, std::string_view text, int64_t row);
std::optional<double> read_number(std::string_view text);  // like cell_number; nullopt if the text is not a number
// Sorts numerically if all values are numbers, else by bytes.
void sort_values(std::vector<std::string>& values);

}  // namespace amp
