// Straight-through gradients: a QuantizeLinear-DequantizeLinear pair passes gradients unchanged where nothing is
// clipped.
#include <catch2/catch_all.hpp>
#include <cmath>

#include "tests/ops/case_run.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the gradient of Quantize passes where nothing is clipped") {
  // With scale 0.5 and zero point 3, uint8 can represent numbers from -1.5 to 126.
  const std::vector<double> x = {-1.6, -1.5, -0.3, 0, 0.8, 125.9, 126.2, 127, 300}, dy = {1, 2, -3, 4, 5, 6, 7, 8, 9};
  // -1.6 / 0.5 is rounded to -3, and 126.2 / 0.5 to 252. Both are in range, so their gradients pass.
  const bool passes[] = {true, true, true, true, true, true, true, false, false};
  const OpCase c{{{{9}}, {{}}, {{}, {}, Role::held}}, {{"low", 0.0}, {"high", 255.0}}, {0}, false};
  const CaseRun run("Quantize", c, DType::f64, true);
  const CaseResult r =
      run({HostTensor::of<double>({9}, x), HostTensor::scalar<double>(0.5), HostTensor::scalar<double>(3)},
          {HostTensor::of<double>({9}, dy)});
  const std::vector<double> y = r.outputs[0].to_doubles(), dx = r.grads.at(0).to_doubles();
  double scale = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    INFO("x = " << x[i]);
    CHECK(y[i] == std::min(255.0, std::max(0.0, std::nearbyint(x[i] / 0.5) + 3)));
    CHECK(dx[i] == (passes[i] ? dy[i] / 0.5 : 0));
    scale -= passes[i] ? dy[i] * x[i] / 0.25 : 0;
  }
  CHECK(r.grads.at(1).to_doubles()[0] == Catch::Approx(scale));
}
