// A table's features as the inputs of a model: which of them go to which input, and batches of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/features/features.h"

namespace amp {

// A feature: a category's code, a number, or the indicator of a number that is missing.
struct FeatureRef {
  enum class Kind : uint8_t { code, number, indicator };
  Kind kind = Kind::number;
  size_t index = 0;  // in Features
};

// What an input is fed with: (N, features), or (N) for one feature where the input has one dimension.
struct FeatureInput {
  InputSpec input;
  std::vector<FeatureRef> features = {};
  bool label = false;  // of a model that computes its own loss
};

// By name first: an input called as a column takes it. Then by kind: an input of integers takes the categories' codes,
// one of floats the numbers, behind them the indicators, and the codes where no input of integers is left. Indicators
// are chosen (Features::indicator) where the input has room for them, or says nothing of its width.
// E_FEATURE_INPUT for an input that nothing is left for, or features without an input; E_FEATURE_WIDTH with both
// numbers.
std::vector<FeatureInput> assign_features(Features& features, const std::vector<InputSpec>& inputs,
                                          bool choose_indicators);

std::string name_of(const Features& features, const FeatureRef& ref);       // a column's; of an indicator COLUMN_na
std::string describe(const Features& features, const FeatureInput& input);  // "input 'x' takes 2 numbers: a, b"

struct FeatureLabels {
  std::vector<float> numbers;
  std::vector<int64_t> classes;
  std::vector<std::string> names = {};  // of the classes
};

// values: of the same table. labels: numbers, classes or none.
std::unique_ptr<Dataset> make_feature_dataset(const FeatureTable& table, const Features& features,
                                              const FeatureValues& values, const std::vector<FeatureInput>& inputs,
                                              FeatureLabels labels);
// Labels alone, to part samples by.
std::unique_ptr<Dataset> make_label_dataset(const FeatureTable& table, FeatureLabels labels);

}  // namespace amp
