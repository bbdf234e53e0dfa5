#include "tests/cuda/deviation.h"

#include <cstdio>
#include <cstdlib>
#include <map>

namespace amp::test {

namespace {

struct Deviations {
  std::map<std::string, double> largest;
  ~Deviations() {
    if (!std::getenv("ONNX_AMP_DEVIATIONS")) return;
    for (const auto& [name, value] : largest) std::printf("deviation %.3g %s\n", value, name.c_str());
  }
};

}  // namespace

void note_deviation(const std::string& name, double of_allowed) {
  static Deviations d;
  double& largest = d.largest[name];
  if (!(of_allowed <= largest)) largest = of_allowed;  // the condition is also true for NaN
}

}  // namespace amp::test
