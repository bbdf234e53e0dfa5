// Checks that a graph pass preserves outputs and gradients bit for bit.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "backend/interpreter.h"
#include "tests/backend/small_nets.h"
#include "tests/ops/one_node.h"

namespace amp::test {

inline int count(const Graph& g, const std::string& op) {
  int n = 0;
  for (int32_t i = 0; i < g.n_nodes(); ++i) n += g.node(NodeId{i}).op->name == op;
  return n;
}

// Checks that outputs are equal bit for bit, and gradients up to `rounding`, because sums may be grouped differently.
inline void check_equal(const Graph& a, const Graph& b, double rounding = 0) {
  const auto inputs = random_inputs(a, 3);
  const auto params = random_params(a, 4);
  const Interpreted x = interpret(a, inputs, params), y = interpret(b, inputs, params);
  for (const auto& [name, t] : x.outputs) {
    INFO("output " << name);
    CHECK(same_bits(t, y.outputs.at(name)));
  }
  REQUIRE(x.param_grads.size() == y.param_grads.size());
  for (const auto& [slot, t] : x.param_grads) {
    INFO("gradient " << slot);
    CHECK((rounding > 0 ? distance(t, y.param_grads.at(slot)) < rounding : same_bits(t, y.param_grads.at(slot))));
  }
}

}  // namespace amp::test
