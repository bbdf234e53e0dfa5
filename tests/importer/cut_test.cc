// Cuts of a model at a value or a node, and the checksum of the base on which an adapter was trained.
#include "importer/surgery/cut.h"

#include <catch2/catch_all.hpp>

#include "importer/adapter/slots.h"
#include "models.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("a model is cut at a value, or at the first output of a node", "[surgery]") {
  const TempDir f;
  onnx::ModelProto m = parse(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,1] v, int64[N,1] i)
    <float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, int64[1] k = {1}>
    { h = MatMul (x, w)  v, i = TopK (h, k) })");
  m.mutable_graph()->mutable_node(1)->set_name("top");
  const SourceGraph g = import_model(save(f, m)).graph;
  const auto cut_at = [&](const std::string& name) {
    SourceGraph cut = g;
    std::vector<std::string> lines;
    return cut.value(cut_graph(cut, name, lines)).name;
  };
  CHECK(cut_at("top") == "v");
  for (const char* name : {"v", "i", "h"}) CHECK(cut_at(name) == name);
  CHECK_THROWS_AS(cut_at("none"), Error);
}

TEST_CASE("the checksum of a base depends on every byte of its adapted weights", "[adapter]") {
  const TempDir f;
  SourceGraph g = import_text(f, kMlp).graph;
  std::vector<AdapterSite> sites(2);
  sites[0].weight = g.find("w0");
  sites[1].weight = g.find("w1");
  const int32_t sum = base_checksum(g, sites);
  CHECK(is_base_checksum(sum));
  CHECK_FALSE(is_base_checksum(1));
  for (const char* name : {"w0", "w1"}) {
    HostTensor& data = g.values[static_cast<size_t>(g.find(name))].data;
    const HostTensor before = data;
    for (int64_t at = 0; at < before.numel(); ++at) {
      std::vector<double> changed = before.to_doubles();
      changed[static_cast<size_t>(at)] += 0.5;
      data = HostTensor::of<double>(before.dims(), changed).cast(DType::f32);
      INFO(name << ' ' << at);
      CHECK(base_checksum(g, sites) != sum);
    }
    data = before;
  }
  g.values[static_cast<size_t>(g.find("b0"))].data = HostTensor::of<float>({3}, {9, 9, 9});
  CHECK(base_checksum(g, sites) == sum);
}
