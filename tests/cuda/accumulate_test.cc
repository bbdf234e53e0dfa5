// Kernels that add to their outputs ("MatMul+=") against plain kernels followed by an addition, on the CPU and in the
// emulator.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <set>

#include "backend/cuda/emulator.h"
#include "backend/interpreter.h"
#include "backend/program_plan.h"
#include "tests/cuda/against_cpu.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/case_run.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

// Returns the largest difference between start + plain and got, relative to the largest element of start and plain.
double excess(const HostTensor& got, const HostTensor& start, const HostTensor& plain) {
  const std::vector<double> x = got.to_doubles(), s = start.to_doubles(), p = plain.to_doubles();
  double difference = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(x[i] - (s[i] + p[i]));
    difference = std::max(difference, std::isnan(d) ? INFINITY : d);
  }
  return difference / std::max({largest(s), largest(p), 1e-30});
}

// Runs every node of the operator's cases with fp32 outputs, both ways. Returns the number of nodes.
size_t check_sums(Device& d, const std::string& op, DType type) {
  size_t nodes = 0;
  const OpSpec& spec = op_specs().at(op);
  for (size_t k = 0; k < spec.cases.size(); ++k) {
    const OpCase& c = spec.cases[k];
    const CaseRun run(op, c, type, false);
    const std::vector<HostTensor> in = draw_inputs(c, 300 + k);
    for (int32_t n = 0; n < run.graph().n_nodes(); ++n) {
      const Node& node = run.graph().node(NodeId{n});
      if (node.op->name != op) continue;
      Graph g;  // the same node with fp32 outputs
      std::vector<HostTensor> operands, start;
      std::vector<ValueId> inputs;
      std::vector<std::pair<DType, Dims>> outputs;
      for (const ValueId v : node.in) {
        if (!v) {
          operands.emplace_back();
          inputs.emplace_back();
          continue;
        }
        const Value& x = run.graph().value(v);
        const bool input = x.kind == ValueKind::input;
        REQUIRE((input || x.kind == ValueKind::param));
        operands.push_back(in.at(input ? static_cast<size_t>(std::stoi(x.name.substr(2))) : static_cast<size_t>(x.slot))
                               .cast(x.dtype));
        inputs.push_back(g.add_input(cat("in", inputs.size()), x.dtype, x.dims));
      }
      std::vector<HostTensor> before;  // values that are added to; 0 for outputs that are overwritten
      for (const ValueId v : node.out) {
        const bool sums = static_cast<int64_t>(outputs.size()) >= node.attrs.i(kFirstSum, 0);
        outputs.emplace_back(DType::f32, run.graph().value(v).dims);
        start.push_back(draw(outputs.back().second, 17 * k + outputs.size()));
        before.push_back(sums ? start.back() : HostTensor::zeros(DType::f32, outputs.back().second));
      }
      const Node& wide = g.node(g.add_copy(node, inputs, outputs));
      const std::vector<HostTensor> plain = run_on_device(d, g, wide, operands),
                                    got = run_on_device(d, g, wide, operands, {}, op + "+=", start);
      INFO(describe(op, c) << "(case " << k << ") in " << name_of(type));
      for (size_t i = 0; i < got.size(); ++i) CHECK(excess(got[i], before[i], plain[i]) <= 1e-6);
      if (&d == &device()) cuda::emulator::reversed(true);
      const std::vector<HostTensor> again = run_on_device(d, g, wide, operands, {}, op + "+=", start);
      cuda::emulator::reversed(false);
      for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], again[i]));
      ++nodes;
    }
  }
  return nodes;
}

}  // namespace

TEST_CASE("kernels that accumulate add the results of the plain kernels", "[cuda]") {
  std::set<std::string> found;
  for (const OpDef* op : all_core_ops()) {
    for (Device* d : {&cpu_device(), static_cast<Device*>(&device())}) {
      if (!d->kernel(op->name + "+=")) continue;
      found.insert(op->name);
      for (const DType type : {DType::f32, DType::f16, DType::bf16}) CHECK(check_sums(*d, op->name, type) > 0);
    }
  }
  for (const char* op : {"MatMul", "ScatterRows"}) CHECK(found.count(op));
}
