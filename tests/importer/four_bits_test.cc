// Tests weights of type INT4 and UINT4, as ONNX Runtime's quantizer stores them
// (tests/data/importer/make_four_bits.py).
#include <catch2/catch_all.hpp>
#include <cmath>

#include "base/safetensors.h"
#include "base/text.h"
#include "models.h"
#include "run.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("files with 4-bit weights compute what ONNX Runtime computes, and their scales do not train", "[weights]") {
  for (const char* name : {"operators", "operators_signed", "qdq", "qdq_signed"}) {
    INFO(name);
    const std::string stem = cat(test_data("importer/four_bits_"), name);
    const Imported m = import_model(stem + ".onnx");
    std::map<std::string, HostTensor> data;
    for (const NamedTensor& t : read_safetensors(stem + ".safetensors").tensors) data[t.name] = t.tensor;
    const Run r = run(m.graph, {{"ids", data.at("ids")}}, true);
    const Numbers got = r.out.at("y").to_doubles(), want = data.at("y").to_doubles();
    REQUIRE(got.size() == want.size());
    // ONNX Runtime computes the sums of 32 products below 1 in another order. It rounds A to 8 bits only on request,
    // which is not made here.
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - want[i]) < 2e-6);
    for (const SourceValue& v : m.graph.values) {
      if (v.name.find("scales") != std::string::npos) CHECK_FALSE(v.trainable);
      if (v.name == "fc1.bias") CHECK(v.trainable);
    }
    CHECK(r.grads.count("fc1.bias"));
  }
}

TEST_CASE("4-bit weights stay as they are when their masters are asked for", "[weights]") {
  ImportOptions options;
  options.train_quantized = true;
  const Imported m = import_model(test_data("importer/four_bits_qdq.onnx"), options);
  for (const SourceNode& n : m.graph.nodes) CHECK(n.op != "QuantizeLinear");
}

TEST_CASE("a 4-bit tensor of the wrong size, or where it would be clipped to 8 bits, is refused", "[weights]") {
  const TempDir folder;
  onnx::ModelProto m = parse(R"(<ir_version: 10, opset_import: ["" : 21]>
      g (float[4] x) => (float[4] y) <float s = {0.5}> { q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) })");
  onnx::TensorProto* z = m.mutable_graph()->add_initializer();
  z->set_name("z");
  z->set_data_type(onnx::TensorProto::UINT4);
  z->add_int32_data(7);
  expect(import_error(save(folder, m)), Exit::unsupported, "E_TYPE", "'z' has 4 bits");
  z->add_int32_data(7);
  expect(import_error(save(folder, m)), Exit::model, "E_TENSOR_SIZE", "needs 1 bytes");
}
