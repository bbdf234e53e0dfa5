// Results do not depend on the number of threads: outputs and gradients of every operator, including large cases with
// several shards.
#include <catch2/catch_all.hpp>
#include <iostream>

#include "backend/parallel.h"
#include "graph/op.h"
#include "tests/ops/case_run.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("every operator gives the same bits for any number of threads", "[elementwise]") {
  for (const auto& [op, spec] : op_specs()) {
    DYNAMIC_SECTION(op) {
      int64_t most = 0;
      for (size_t k = 0; k < spec.cases.size(); ++k) {
        const OpCase& c = spec.cases[k];
        const std::vector<HostTensor> in = draw_inputs(c, 700 + k);
        int64_t elements = numel(c.attrs.ints("dims"));
        for (const HostTensor& t : in) elements += t.numel();
        most = std::max(most, elements);
        if (elements < 1000 && k > 0) continue;  // small cases have one shard; one of them suffices
        for (const DType type : {DType::f32, DType::bf16}) {
          INFO(describe(op, c) << "(case " << k << ") in " << name_of(type));
          const CaseRun run(op, c, type, core_op(op).gradient != nullptr);
          const std::vector<HostTensor> dy = core_op(op).gradient ? run.random_upstream(k) : std::vector<HostTensor>{};
          const CaseResult one = [&] {
            const WithThreads t(1);
            return run(in, dy);
          }();
          for (int n = 2; n <= (type == DType::f32 ? 3 : 2); ++n) {
            const WithThreads t(n);
            const CaseResult many = run(in, dy);
            for (size_t i = 0; i < one.outputs.size(); ++i) CHECK(same_bits(one.outputs[i], many.outputs[i]));
            for (const auto& [i, g] : one.grads) CHECK(same_bits(g, many.grads.at(i)));
          }
        }
      }
      INFO("a case of several shards is needed; the largest has " << most << " elements");
      CHECK(most >= 2000);
    }
  }
}
