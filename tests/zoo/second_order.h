// Golden runs of second-order optimizers on imported models: weights after ten steps
// (tests/data/zoo/make_second_order.py).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "tests/zoo/golden.h"

namespace amp::test {

struct SecondOrderSetup {
  int64_t parts = 1;  // micro-batches per step
  double scale = 1;   // loss scale
  Device* device = &cpu_device();
  int64_t overflow = -1;  // attempted step that overflows; -1: none
};

struct SecondOrderRun {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> params;
};

Tensors rows_of(const Tensors& batch, int64_t from, int64_t count);  // returns these rows of every tensor

SecondOrderRun train_second_order(const Golden& g, const nlohmann::json& run, const SecondOrderSetup& setup);

// Returns the largest difference from a golden element.
double distance(const SafeTensors& golden, const std::string& run, const SecondOrderRun& have);

}  // namespace amp::test
