// Describes preprocessing and postprocessing of tables as ONNX nodes, so that an inference engine takes unprocessed
// rows of the table. Each column becomes an input (N, 1): text for categories (LabelEncoder of ai.onnx.ml), doubles for
// numbers, NaN for missing values. Nodes after an output convert a scaled target back to the units of its column.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace amp {

struct RawColumn {
  std::string name;
  bool category = false;
  std::vector<std::string> values = {};  // categories: the values of codes 1, 2, ...; all other values have code 0
  double fill = 0, mean = 0, scale = 1;  // numbers: fill replaces a missing one; then (number - mean) / scale
};

struct RawInput {
  struct Feature {
    size_t column = 0;
    bool indicator = false;  // the feature is 1 if the column's number is missing, else 0
  };
  std::string name;  // name of the model's input
  std::vector<Feature> features;
};

enum class RawOutput : uint8_t { plain, exp, expm1, affine };

struct RawRows {
  std::vector<RawColumn> columns;
  std::vector<RawInput> inputs;
  std::string output;  // name of the output that is converted back
  RawOutput form = RawOutput::plain;
  double mean = 0, scale = 1;  // RawOutput::affine: output * scale + mean
};

}  // namespace amp
