// Tests which tensors are running statistics, and how statistics are separated from other uses of their tensors.
#include "importer/read/doc.h"
#include "importer/write/export.h"
#include "models.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

namespace {

ImportOptions training() {
  ImportOptions o;
  o.batchnorm_train = true;
  return o;
}

// `zero` is the bias and mean of the first norm and the mean of the second. `one` is the scale and variance of the
// first norm. The third norm is a second call of the second norm's module.
const char* const kMerged = R"(
  <ir_version: 3, opset_import: ["" : 13]>
  g (float[N,2] x, float[2] zero, float[2] one, float[2] s, float[2] b, float[2] v) => (float[N,2] y)
  <float[2] zero = {0,0}, float[2] one = {1,1}, float[2] s = {2,3}, float[2] b = {4,5}, float[2] m = {6,7}, float[2] v = {8,9}>
  { p = BatchNormalization (x, one, zero, zero, one)  q = BatchNormalization (p, s, b, zero, v)
    y = BatchNormalization (q, s, b, zero, v) })";

const char* const kPlain = R"(
  <ir_version: 8, opset_import: ["" : 15]> g (float[N,2] x) => (float[N,2] y)
  <float[2] s = {1,2}, float[2] b = {3,4}, float[2] m = {5,6}, float[2] v = {7,8}>
  { p = BatchNormalization (x, s, b, m, v)  y = BatchNormalization (p, s, b, m, v) })";

std::vector<float> floats(const HostTensor& t) { return {t.as<float>(), t.as<float>() + t.numel()}; }

}  // namespace

TEST_CASE("statistics are state only when batch statistics are asked for", "[statistics]") {
  const TempDir f;
  CHECK(value(import_text(f, kPlain).graph, "m").kind == SourceKind::constant);
  const Imported m = import_text(f, kPlain, training());
  for (const char* name : {"m", "v"}) {
    const SourceValue& v = value(m.graph, name);
    CHECK(v.kind == SourceKind::parameter);
    CHECK(!v.trainable);
  }
  CHECK(value(m.graph, "m").reason.find("running mean of") == 0);
  CHECK(value(m.graph, "s").trainable);
  CHECK(m.doc->separated.empty());  // not separated: one module is applied twice
}

TEST_CASE("statistics merged with other tensors get a value of their own", "[statistics]") {
  const TempDir f;
  const Imported m = import_text(f, kMerged, training());
  const SourceGraph& g = m.graph;
  CHECK(value(g, "zero").trainable);
  CHECK(value(g, "one").trainable);
  CHECK(m.doc->separated.size() == 3);  // mean and variance of the first norm, one mean for the others
  CHECK(g.nodes[1].inputs[3] == g.nodes[2].inputs[3]);
  CHECK(value(g, "v").reason.find("running variance") == 0);  // only this module reads v

  // Without a change the file stays the same. Changed statistics become separate initializers.
  export_model(*m.doc, g, {}, {}, f / "same.onnx");
  CHECK(bytes_of(f / "same.onnx") == bytes_of(f / "model.onnx"));
  std::vector<TrainedTensor> trained;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const SourceValue& v = g.values[i];
    if (v.kind != SourceKind::parameter) continue;
    const float c = static_cast<float>(i);
    trained.push_back({static_cast<int>(i), !v.trainable ? HostTensor::of<float>({2}, {c, c + 0.5f}) : v.data});
  }
  export_model(*m.doc, g, trained, {}, f / "moved.onnx");
  const Imported again = import_model(f / "moved.onnx");
  REQUIRE(again.graph.nodes.size() == 3);
  for (size_t n = 0; n < 3; ++n) {
    for (const size_t input : {3, 4}) {
      const int was = g.nodes[n].inputs[input], now = again.graph.nodes[n].inputs[input];
      INFO("node " << n << " input " << input);
      CHECK(floats(again.graph.values[static_cast<size_t>(now)].data) ==
            std::vector<float>{static_cast<float>(was), static_cast<float>(was) + 0.5f});
    }
  }
  CHECK(floats(value(again.graph, "zero").data) == std::vector<float>{0, 0});
  CHECK(floats(value(again.graph, "one").data) == std::vector<float>{1, 1});
}
