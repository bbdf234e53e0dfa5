// Decisions about a Program that are made before memory is allocated.
#include "backend/program_plan.h"

#include <catch2/catch_all.hpp>
#include <deque>

#include "tests/backend/small_nets.h"

using namespace amp;
using namespace amp::test;

namespace {

// Options with addresses for parameters and gradients. The tests only plan, so the memory is not read.
struct Somewhere {
  explicit Somewhere(const Graph& g) {
    for (const HostTensor& p : random_params(g, 1)) {
      memory.push_back(p);
      options.params.push_back({memory.back().mutable_data(), p.dtype(), p.dims()});
      options.grads.push_back({memory.back().mutable_data(), p.dtype(), p.dims()});
    }
  }
  std::deque<HostTensor> memory;
  ProgramOptions options;
};

bool overlap(const BufferLife& a, const BufferLife& b) {
  const bool together = a.first <= b.last && b.first <= a.last;
  return together && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

TEST_CASE("buffers that live at the same time do not overlap, and every computed value has a place") {
  for (const Net& net : small_nets()) {
    INFO(net.name);
    const Graph g = training_graph(net.text);
    const Somewhere s(g);
    const ProgramPlan plan = plan_program(g, s.options);
    size_t overlaps = 0, homeless = 0;
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      CHECK(plan.buffers[i].offset + plan.buffers[i].bytes <= plan.arena_bytes);
      for (size_t j = 0; j < i; ++j) overlaps += overlap(plan.buffers[i], plan.buffers[j]);
    }
    for (int32_t i = 0; i < g.n_values(); ++i) {
      const auto root = static_cast<size_t>(plan.root[static_cast<size_t>(i)]);
      const ValueKind kind = g.value(ValueId{static_cast<int32_t>(root)}).kind;
      const bool computed = kind == ValueKind::temp || kind == ValueKind::input;
      homeless += computed && plan.buffer[root] < 0 && !plan.pinned[root];
    }
    CHECK(overlaps == 0);
    CHECK(homeless == 0);
  }
}

TEST_CASE("gradients are computed in the gradient arena, or moved there once") {
  const bool accumulate = GENERATE(false, true);
  size_t in_place = 0;
  for (const Net& net : small_nets()) {
    INFO(net.name << (accumulate ? ", accumulating" : ""));
    const Graph g = training_graph(net.text);
    Somewhere s(g);
    s.options.accumulate = accumulate;
    const ProgramPlan plan = plan_program(g, s.options);
    std::vector<int> moved(g.param_grads.size(), 0);
    for (const std::vector<size_t>& after : plan.moved_after) {
      for (const size_t i : after) ++moved[i];
    }
    for (size_t i = 0; i < moved.size(); ++i) {
      const Graph::ParamGrad& p = g.param_grads[i];
      const auto root = static_cast<size_t>(plan.root[static_cast<size_t>(p.value.index)]);
      const bool pinned = plan.pinned[root] == s.options.grads[static_cast<size_t>(p.slot)].data;
      CHECK(moved[i] == (pinned ? 0 : 1));
      // A gradient that a kernel writes to the arena is added to the sum of earlier micro-batches by that kernel.
      const NodeId node = g.value(ValueId{static_cast<int32_t>(root)}).producer;
      if (pinned) CHECK(plan.adds[static_cast<size_t>(node.index)] == accumulate);
      in_place += pinned;
    }
  }
  CHECK(in_place > 0);
}
