// Golden runs of rules of the second order on imported models: weights after ten steps
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
  int64_t parts = 1;  // micro-batches of the window
  double scale = 1;   // of the loss
  Device* device = &cpu_device();
  int64_t overflow = -1;  // this attempted step
};

struct SecondOrderRun {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> params;
};

Tensors rows_of(const Tensors& batch, int64_t from, int64_t count);  // of every tensor

SecondOrderRun train_second_order(const Golden& g, const nlohmann::json& run, const SecondOrderSetup& setup);

// The largest difference of a golden element.
double distance(const SafeTensors& golden, const std::string& run, const SecondOrderRun& have);

}  // namespace amp::test
