// Compares the `pytorch` preset with CUDA autocast, node by node (tests/data/precision/make_pytorch_autocast.py).
#include <catch2/catch_all.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "precision/decide.h"
#include "stripped_models.h"
#include "tests/support.h"

namespace amp {

namespace {

struct Row {
  std::string output, op, type, call;
};

std::map<std::string, std::vector<Row>> golden_rows() {
  std::ifstream in(test::test_data("precision/pytorch_autocast.txt"));
  std::map<std::string, std::vector<Row>> out;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string entry;
    Row r;
    std::getline(fields, entry, '\t');
    std::getline(fields, r.output, '\t');
    std::getline(fields, r.op, '\t');
    std::getline(fields, r.type, '\t');
    std::getline(fields, r.call, '\t');
    out[entry].push_back(r);
  }
  return out;
}

}  // namespace

TEST_CASE("the pytorch preset gives every node the type CUDA autocast computes it in") {
  const std::map<std::string, std::vector<Row>> golden = golden_rows();
  const std::vector<NamedTensor> models = stripped_models();
  REQUIRE(models.size() == 22);
  for (const NamedTensor& m : models) {
    DYNAMIC_SECTION(m.name) {
      const SourceGraph g = stripped_model(m);
      const PrecisionPlan plan = decide(g, preset("pytorch"), DType::f16);
      const std::vector<Row>& rows = golden.at(m.name);
      std::map<std::string, size_t> node_of;
      for (size_t n = 0; n < g.nodes.size(); ++n) {
        for (const int o : g.nodes[n].outputs) {
          if (o >= 0) node_of[g.values[static_cast<size_t>(o)].name] = n;
        }
      }
      std::vector<char> seen(g.nodes.size(), 0);
      for (const Row& r : rows) {
        INFO(r.output << " (" << r.op << "): " << r.call);
        REQUIRE(node_of.count(r.output) == 1);
        const size_t n = node_of.at(r.output);
        seen[n] = 1;
        const Decision& d = plan.nodes[n];
        INFO(d.cls << ", " << d.pass << ", " << d.rule);
        // "-" marks Python numbers, which the plan must not make 16-bit.
        CHECK(name_of(d.compute) == (r.type == "-" ? "fp32" : r.type));
        if (r.type != "-") CHECK(d.cls != "not-float");
      }
      // Values that PyTorch does not compute as floats are not 16-bit.
      for (size_t n = 0; n < g.nodes.size(); ++n) {
        INFO(g.describe_node(static_cast<int>(n)));
        if (!seen[n]) CHECK(plan.nodes[n].compute == Compute::f32);
      }
    }
  }
}

}  // namespace amp
