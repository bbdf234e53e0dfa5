// Floating masters of integer weights are the values that ONNX defines for DequantizeLinear, (x - zero point) * scale,
// and give the integers back.
#include "importer/quantized/quantized_weights.h"

#include <catch2/catch_all.hpp>

#include "models.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Form {
  const char* name;
  std::string scale, zero, attributes;  // initializers s and z, attributes of DequantizeLinear
  std::vector<double> want;             // masters of {{1, 2, 3, 4}, {-5, -6, -7, -8}}
};

}  // namespace

TEST_CASE("masters of integer weights are their dequantized values, and give the integers back", "[quantized]") {
  const Form form = GENERATE(
      Form{"per tensor", "float s = {0.5}", "int8 z = {1}", "", {0, 0.5, 1, 1.5, -3, -3.5, -4, -4.5}},
      Form{"the axis by default is 1",
           "float[4] s = {0.5,1,2,4}",
           "int8[4] z = {0,1,0,1}",
           "",
           {0.5, 1, 6, 12, -2.5, -7, -14, -36}},
      Form{"axis 1",
           "float[4] s = {0.5,1,2,4}",
           "int8[4] z = {0,1,0,1}",
           "<axis = 1>",
           {0.5, 1, 6, 12, -2.5, -7, -14, -36}},
      Form{"axis -1",
           "float[4] s = {0.5,1,2,4}",
           "int8[4] z = {0,1,0,1}",
           "<axis = -1>",
           {0.5, 1, 6, 12, -2.5, -7, -14, -36}},
      Form{"axis 0", "float[2] s = {0.5,2}", "int8[2] z = {0,1}", "<axis = 0>", {0.5, 1, 1.5, 2, -12, -14, -16, -18}},
      Form{"axis -2", "float[2] s = {0.5,2}", "int8[2] z = {0,1}", "<axis = -2>", {0.5, 1, 1.5, 2, -12, -14, -16, -18}},
      Form{"blocks of 2 along axis 1",
           "float[2,2] s = {0.5,1,2,4}",
           "int8[2,2] z = {0,1,0,1}",
           "<axis = 1, block_size = 2>",
           {0.5, 1, 2, 3, -10, -12, -32, -36}});
  INFO(form.name);
  const TempDir f;
  ImportOptions options;
  options.train_quantized = true;
  const Imported m = import_text(f,
                                 R"(<ir_version: 10, opset_import: ["" : 21]> g (float[N,2] x) => (float[N,4] y)
    <int8[2,4] W = {1,2,3,4,-5,-6,-7,-8}, )" +
                                     form.scale + ", " + form.zero + R"(>
    { w = DequantizeLinear )" + form.attributes +
                                     R"( (W, s, z)  y = MatMul (x, w) })",
                                 options);
  const SourceValue& master = value(m.graph, "W/master");
  CHECK(master.data.to_doubles() == form.want);
  CHECK(master.trainable);
  std::map<int, HostTensor> values{{m.graph.find("W/master"), master.data}};
  quantize_masters(m.graph, values);
  REQUIRE(values.size() == 1);
  CHECK(values.begin()->first == m.graph.find("W"));
  CHECK(values.begin()->second.to_doubles() == std::vector<double>{1, 2, 3, 4, -5, -6, -7, -8});
}
