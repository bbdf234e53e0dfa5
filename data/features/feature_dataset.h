// Assigns the features of a table to the inputs of a model, and makes datasets of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/features/features.h"

namespace amp {

// A feature: a category code, a number, or the indicator of a missing number.
struct FeatureRef {
  enum class Kind : uint8_t { code, number, indicator };
  Kind kind = Kind::number;
  size_t index = 0;  // index in Features::categories (code) or Features::numbers
};

// The features that one graph input is fed with, as a tensor (N, number of features), or (N) for one feature if the
// input has one dimension.
struct FeatureInput {
  InputSpec input;
  std::vector<FeatureRef> features = {};
  bool label = false;  // true: the input takes the label, in a model that computes its loss itself
};

// Assigns features to inputs. First by name: an input with the name of a column takes it. Then by kind: an input of
// integers takes the category codes; an input of floats takes the numbers, then the indicators, then the codes if no
// input of integers is left. choose_indicators: sets NumberMap::indicator of numbers with missing values if the input's
// width allows it or is unknown. Throws E_FEATURE_INPUT for an input without features or features without an input.
// Throws E_FEATURE_WIDTH with the expected and the given number of features if they differ.
std::vector<FeatureInput> assign_features(Features& features, const std::vector<InputSpec>& inputs,
                                          bool choose_indicators);

std::string name_of(const Features& features, const FeatureRef& ref);  // name of the column; COLUMN_na for an indicator
std::string describe(const Features& features, const FeatureInput& input);  // such as "input 'x' takes 2: a, b"

struct FeatureLabels {
  std::vector<float> numbers;
  std::vector<int64_t> classes;
  std::vector<std::string> names = {};  // names of the classes
};

// Makes a dataset of features and labels. values: the feature values computed from `table`. labels: at most one of
// numbers and classes is set.
std::unique_ptr<Dataset> make_feature_dataset(const FeatureTable& table, const Features& features,
                                              const FeatureValues& values, const std::vector<FeatureInput>& inputs,
                                              FeatureLabels labels);
// Makes a dataset of labels only, for stratified splits.
std::unique_ptr<Dataset> make_label_dataset(const FeatureTable& table, FeatureLabels labels);

}  // namespace amp
