// Minimum coverage of the cases of every operator: at least 20 different nodes, every supported rank, every position of
// an axis, sizes of 0, broadcast operands.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <iostream>
#include <set>

#include "base/error.h"
#include "graph/op.h"
#include "tests/ops/case_run.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr size_t kDifferentNodes = 20;
constexpr size_t kHighestRank = 5;

// Core operators that do not support all ranks from 0 to 5. The rank of a node is the rank of its first differentiated
// operand, and the largest rank of its operands if the node is elementwise.
struct Ranks {
  std::vector<const char*> ops;
  size_t lowest, highest;
  const char* why;
};
const std::vector<Ranks> kRanks = {
    {{"AxisMap", "Concat", "CumSum", "GatherElements", "GatherRows", "LogSoftmax", "ScatterElements",
      "ScatterElementsAdd", "Softmax", "Split", "TopK"},
     1,
     kHighestRank,
     "they work along an axis"},
    {{"BatchNorm", "BatchNormTrain"}, 2, kHighestRank, "(N, C, ...)"},
    {{"Det", "Inverse"}, 2, kHighestRank, "square matrices"},
    {{"MatMul"}, 2, kHighestRank, "matrices; lowering gives vectors a second dim"},
    {{"AveragePool", "AveragePoolGrad", "Conv", "ConvGradW", "ConvGradX", "GridSample", "MaxPool"},
     3,
     kHighestRank,
     "(N, C, spatial): one to three spatial dims"},
    {{"RoiAlign"}, 4, 4, "(N, C, H, W)"},
    {{"CrossEntropy"}, 2, 2, "(rows, classes); lowering flattens the rest"},
    {{"TokenDropout"}, 1, kHighestRank, "tokens are an axis"},
    {{"FusedAttention"}, 4, 5, "(B, S, N, H), packed (B, S, 3, N, H)"},
    {{"GRU", "LSTM", "RNN"}, 3, 3, "(time, batch, gates)"}};

std::pair<size_t, size_t> ranks_of(const std::string& op) {
  for (const Ranks& r : kRanks) {
    if (std::find(r.ops.begin(), r.ops.end(), op) != r.ops.end()) return {r.lowest, r.highest};
  }
  return {0, kHighestRank};
}

// Returns true if the operands (or the input and the dims that it is expanded to) differ in the dims that broadcast.
bool broadcasts(const std::string& op, const OpCase& c) {
  if (op == "Expand") return c.in[0].dims != c.attrs.ints("dims");
  std::set<Dims> seen;
  for (size_t i = 0; i < c.in.size(); ++i) {
    Dims d = c.in[i].dims;
    if (op == "MatMul" && i > 1) continue;  // input 2 is a bias
    if (op == "MatMul") d.resize(d.size() - 2);
    seen.insert(d);
  }
  return seen.size() > 1;
}

// Coverage by the cases of one operator. Only cases whose gradient is compared with differences count.
struct Span {
  std::set<std::string> nodes;  // nodes of the operator that were not replaced by a simpler operator
  std::set<size_t> ranks, axes;
  size_t empty = 0, broadcasting = 0;

  void add(const std::string& op, const OpCase& c, bool elementwise) {
    size_t rank = 0;
    bool differentiated = false, none = false;
    for (const Operand& o : c.in) {
      if (o.role != Role::value) continue;
      if (!differentiated || elementwise) rank = std::max(rank, o.dims.size());
      differentiated = true;
      none = none || numel(o.dims) == 0;
    }
    if (!c.finite_differences || !differentiated) return;
    const CaseRun run(op, c, DType::f64, false);
    bool computes = false;
    for (int32_t i = 0; i < run.graph().n_nodes(); ++i) {
      const Node& n = run.graph().node(NodeId{i});
      computes = computes || n.op->name == op;
    }
    ranks.insert(rank);
    if (!computes) return;  // no coverage: the graph simplified the case to the identity
    std::string key = describe(op, c);
    for (const size_t k : c.seeded) key += cat(" y", k);
    nodes.insert(key);
    for (const int64_t a : c.attrs.ints("axes", {c.attrs.i("axis", 0)})) axes.insert(static_cast<size_t>(a));
    empty += none;
    broadcasting += broadcasts(op, c);
  }
};

Span span_of(const std::string& op) {
  Span span;
  for (const OpCase& c : op_specs().at(op).cases) span.add(op, c, op_specs().at(op).elementwise);
  return span;
}

}  // namespace

TEST_CASE("every core operator has cases") {
  for (const OpDef* op : all_core_ops()) {
    INFO("operator " << op->name << " needs an entry in tests/ops/op_cases_*.cc");
    const auto it = op_specs().find(op->name);
    REQUIRE(it != op_specs().end());
    CHECK(!it->second.cases.empty());
    const bool differentiated = std::any_of(it->second.cases.begin(), it->second.cases.end(),
                                            [](const OpCase& c) { return c.finite_differences; });
    CHECK(differentiated == (op->gradient != nullptr));
    if (it->second.elementwise) CHECK(it->second.cases.size() >= kDifferentNodes);
  }
  for (const auto& [name, spec] : op_specs()) {
    INFO("no such core operator: " << name);
    CHECK(find_core_op(name) != nullptr);
  }
}

TEST_CASE("the gradient of every core operator is checked on shapes of every kind") {
  size_t operators = 0, nodes = 0;
  std::pair<size_t, std::string> fewest{SIZE_MAX, ""};
  for (const OpDef* op : all_core_ops()) {
    if (!op->gradient) continue;
    const Span span = span_of(op->name);
    INFO(op->name);
    CHECK(span.nodes.size() >= kDifferentNodes);
    const auto [lowest, highest] = ranks_of(op->name);
    for (size_t r = lowest; r <= highest; ++r) {
      INFO("rank " << r);
      CHECK(span.ranks.count(r));
    }
    CHECK(span.empty > 0);
    const Attrs& a = op_specs().at(op->name).cases.front().attrs;
    if (a.has("axis") || a.has("axes")) CHECK(span.axes == std::set<size_t>{0, 1, 2, 3, 4});
    ++operators;
    nodes += span.nodes.size();
    fewest = std::min(fewest, {span.nodes.size(), op->name});
  }
  for (const char* op :
       {"Add", "Div", "Expand", "MatMul", "Max", "Min", "Mod", "Mul", "PRelu", "Pow", "Quantize", "Sub", "Where"}) {
    INFO(op);
    CHECK(span_of(op).broadcasting >= 8);
  }
  for (const Ranks& r : kRanks) {
    for (const char* op : r.ops) CHECK(find_core_op(op) != nullptr);
  }
  std::cout << "cases with gradients: " << operators << " operators, " << nodes << " different nodes, at least "
            << fewest.first << " each (" << fewest.second << ")\n";
}
