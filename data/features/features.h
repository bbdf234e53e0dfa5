// Features: how the columns of a table become numbers for a model. Fitted on the training rows alone, the same for the
// same rows; kept as JSON with the run and in the model, so that evaluation and prediction compute the same.
//
//   category      its place among the training data's values, from 1 in their order (numbers by size, else by bytes);
//                 0: unknown, or missing
//   number        missing ones filled, then scaled: scikit-learn's SimpleImputer, StandardScaler, QuantileTransformer
//   indicator     1 where a number was missing
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

// What is asked of a table.
struct FeatureSchema {
  std::vector<std::string> categorical, continuous, dates;  // dates: their parts are columns
  std::vector<Join> joins;
  std::string target;
  Filling filling = Filling::median;
  Scaling scaling = Scaling::standard;
  TargetForm target_form = TargetForm::plain;
};

struct CategoryMap {
  std::string column;
  std::vector<std::string> values;  // of codes 1, 2, ...
  int64_t codes() const { return static_cast<int64_t>(values.size()) + 1; }
};

struct NumberMap {
  std::string column;
  double fill = 0;
  bool missing = false;    // some of the training rows lack it
  bool indicator = false;  // is fed to the model too
  Scaling scaling = Scaling::standard;
  double mean = 0, scale = 1;
  std::vector<double> quantiles = {};  // at equal distances from 0 to 1
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
  static Features parse(const std::string& json);  // Exit::model, E_FEATURES when it is none
};

// rows: those to learn from; of the target's transform too, where it is a number (regression).
Features fit_features(const FeatureTable& table, const FeatureSchema& schema, std::span<const int64_t> rows,
                      bool regression);

// A table's features by column, in the order of `Features`.
struct FeatureValues {
  std::vector<std::vector<int64_t>> codes;
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<uint8_t>> missing;  // of each number
  struct Unknown {
    std::string column, example, where;
    int64_t rows = 0;
  };
  std::vector<Unknown> unknown;  // categories that the training data lack
};
// E_DATA_NUMBER, with the place, for a text among numbers.
FeatureValues feature_values(const FeatureTable& table, const Features& features);

// The target's numbers, transformed. E_DATA_LABEL, with the place, for one that is missing, no number, or not defined
// for the transform.
std::vector<float> target_numbers(const FeatureTable& table, const std::string& target,
                                  const TargetTransform& transform);

// A column's number: finite, or true or false as 1 and 0; NaN where it is missing. E_DATA_NUMBER.
double cell_number(const FeatureTable& table, const std::string& column, std::string_view text, int64_t row);
std::optional<double> read_number(std::string_view text);  // nothing for a text
// Numbers by size if all are, else texts by their bytes.
void sort_values(std::vector<std::string>& values);

}  // namespace amp
