// Tests what `check` reports on models without tensors that could be trained.
#include "run/check/check.h"

#include <onnx/defs/parser.h>

#include <catch2/catch_all.hpp>
#include <fstream>

#include "run/spec/spec.h"
#include "tests/support.h"

using namespace amp;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("check says that numbers in attributes cannot be trained", "[check]") {
  const test::TempDir f;
  onnx::ModelProto proto;
  REQUIRE(onnx::OnnxParser(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
                             linear (float[N, 2] x) => (float[N, 1] y) {
                               z = ai.onnx.ml.LinearRegressor <coefficients = [1.5, 2.5], intercepts = [0.5]> (x)
                               y = Relu(z)
                             })")
              .Parse(proto)
              .IsOK());
  std::ofstream(f / "model.onnx") << proto.SerializeAsString();
  RunSpec spec;
  spec.model.model = f / "model.onnx";
  const CheckReport r = check_model(spec);
  CHECK_FALSE(r.trains);
  CHECK_THAT(r.todo, ContainsSubstring("attributes of operators"));
}
