// Nodes in front of a model that make its inputs of a table's raw cells, so that an engine takes rows as they are: each
// column is an input (N, 1), texts for categories (LabelEncoder of ai.onnx.ml), doubles for numbers, NaN where one is
// missing. Behind an output: what brings a transformed target back to its own units.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace amp {

struct RawColumn {
  std::string name;
  bool category = false;
  std::vector<std::string> values = {};  // of codes 1, 2, ...; all others: 0
  double fill = 0, mean = 0, scale = 1;  // of numbers
};

struct RawInput {
  struct Feature {
    size_t column = 0;
    bool indicator = false;  // 1 where the number is missing
  };
  std::string name;  // of the model's input
  std::vector<Feature> features;
};

enum class RawOutput : uint8_t { plain, exp, expm1, affine };

struct RawRows {
  std::vector<RawColumn> columns;
  std::vector<RawInput> inputs;
  std::string output;  // that is brought back
  RawOutput form = RawOutput::plain;
  double mean = 0, scale = 1;  // of affine
};

}  // namespace amp
