// Second derivatives of every core operator: H v by autodiff applied twice against differences of first gradients in
// fp64, with random upstream gradients and directions. Also checks that decompositions (OpDef::decomposition) give the
// operators' values and gradients. A list names the operators without a second gradient.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>
#include <set>

#include "backend/interpreter.h"
#include "backend/parallel.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/decompositions.h"
#include "tests/ops/case_run.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

// Operators whose gradients are kernels without a derivative.
const std::set<std::string> kWithout = {"GridSample", "RoiAlign"};
// Operators that have no second gradient in some forms: attention over packed sequences, which padding removal makes.
const std::set<std::string> kPartly = {"FusedAttention"};

constexpr double kStep = 0x1p-12;
constexpr double kTolerance = 1e-6;  // relative: truncation and rounding errors of the five-point rule

std::vector<ValueId> add_operands(Graph& g, const OpCase& c) {
  std::vector<ValueId> in;
  for (size_t i = 0; i < c.in.size(); ++i) {
    const Operand& o = c.in[i];
    const std::string name = cat("in", i);
    if (o.role == Role::absent)
      in.push_back({});
    else if (o.role == Role::value)
      in.push_back(g.add_param(static_cast<int>(i), name, DType::f64, o.dims));
    else
      in.push_back(g.add_input(name,
                               o.role == Role::integer   ? DType::i64
                               : o.role == Role::byte    ? DType::u8
                               : o.role == Role::boolean ? DType::boolean
                                                         : DType::f64,
                               o.dims));
  }
  return in;
}

std::vector<ValueId> params_of(const Graph& g) {
  std::vector<ValueId> out;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::param) out.push_back(ValueId{i});
  }
  return out;
}

// Returns a graph of the node with its outputs "yK", and the gradients of sum_k <dyK, yK>. If `expanded`, the node is
// decomposed before and after differentiation.
Graph first_order(const std::string& op, const OpCase& c, bool expanded) {
  Graph g;
  {
    Builder b(g, cpu_evaluator());
    const std::vector<ValueId> y = b.ops(op, add_operands(g, c), c.attrs);
    for (const size_t k : c.seeded) g.outputs.push_back({cat("y", k), y.at(k)});
  }
  if (expanded) g = decompose_operators(std::move(g), cpu_evaluator());
  {
    Builder b(g, cpu_evaluator());
    const std::vector<ValueId> wrt = params_of(g);
    Autodiff ad(b, wrt);
    for (const Graph::Output& o : g.outputs) {
      const Value y = g.value(o.value);
      ad.seed(o.value, g.add_input("d" + o.name, y.dtype, y.dims));
    }
    ad.run();
    for (const ValueId w : wrt) {
      if (const ValueId d = ad.grad(w)) g.param_grads.push_back({g.value(w).slot, d});
    }
  }
  return expanded ? decompose_operators(std::move(g), cpu_evaluator()) : g;
}

// Returns the operators for which autodiff has no rule.
std::string blocker(const Graph& g) {
  std::vector<ValueId> wrt = params_of(g), targets;
  for (const auto& p : g.param_grads) targets.push_back(p.value);
  for (const Graph::Output& o : g.outputs) {
    if (const ValueId dy = g.input("d" + o.name)) wrt.push_back(dy);
  }
  const std::vector<NodeId> nodes = gradient_blockers(g, wrt, targets);
  return nodes.empty() ? "" : g.node(nodes[0]).op->name;
}

// Adds outputs "hvI" and "jvK": the derivatives of sum_I <gradient I, vI> with respect to operand I and to dyK.
void differentiate_again(Graph& g) {
  Builder b(g, cpu_evaluator());
  std::vector<ValueId> wrt = params_of(g);
  std::vector<std::pair<std::string, ValueId>> names;
  for (const ValueId w : wrt) names.emplace_back(cat("hv", g.value(w).slot), w);
  for (const Graph::Output& o : g.outputs) {
    if (const ValueId dy = g.input("d" + o.name)) {
      wrt.push_back(dy);
      names.emplace_back("jv" + o.name.substr(1), dy);
    }
  }
  Autodiff ad(b, wrt);
  for (const auto& p : g.param_grads) {
    const Value d = g.value(p.value);
    ad.seed(p.value, g.add_input(cat("v", p.slot), d.dtype, d.dims));
  }
  ad.run();
  for (const auto& [name, v] : names) {
    if (const ValueId d = ad.grad(v)) g.outputs.push_back({name, d});
  }
}

using Feeds = std::map<std::string, HostTensor>;
using Numbers = std::map<std::string, std::vector<double>>;

Numbers run(const Graph& g, const Feeds& feeds, const std::vector<HostTensor>& in) {
  const Interpreted r = interpret(g, feeds, in);
  Numbers out;
  for (const auto& [name, t] : r.outputs) out[name] = t.to_doubles();
  for (const auto& [slot, t] : r.param_grads) out[cat("g", slot)] = t.to_doubles();
  return out;
}

// scale: the largest element of the wanted tensor. worst: the largest difference from the wanted tensor.
struct Error {
  double scale = 0, worst = 0;
  std::string where;
  void add(const std::string& name, const std::vector<double>& got, const std::vector<double>& want) {
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      scale = std::max(scale, std::abs(want[i]));
      const double d =
          got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])) ? 0 : std::abs(got[i] - want[i]);
      if (d <= worst) continue;
      worst = std::isnan(d) ? INFINITY : d;
      where = cat(name, '[', i, "]: got ", got[i], ", wanted ", want[i]);
    }
  }
};

struct Count {
  size_t nodes = 0, curved = 0, controls = 0;
};

class Check {
 public:
  Check(const OpCase& c, const Graph& first, Graph spelled, size_t index)
      : first_(first), in_(draw_inputs(c, 100 + index)) {
    second_ = std::move(spelled);
    differentiate_again(second_);
    for (size_t i = 0; i < c.in.size(); ++i) {
      if (c.in[i].role == Role::value)
        v_[cat("v", i)] = random_tensor(c.in[i].dims, 31 * index + i + 1);
      else
        feeds_[cat("in", i)] = in_[i];
    }
    for (const Graph::Output& o : first.outputs)
      feeds_["d" + o.name] = random_tensor(first.value(o.value).dims, 17 * index + 5);
  }

  // Checks that values and first gradients of the decomposed graph equal those of the operators' kernels.
  void definitions() const {
    const Numbers want = run(first_, feeds_, in_), got = seconds();
    Error e;
    for (const auto& [name, x] : want) {
      const auto it = got.find(name);  // missing if the result does not depend on the operand
      e.add(name, it == got.end() ? std::vector<double>(x.size(), 0.0) : it->second, x);
    }
    INFO("spelled out: " << e.where);
    CHECK(e.worst <= 1e-11 * std::max(1.0, e.scale));
  }

  void products(Count& count, bool rounds) const {
    Numbers want;
    for (const auto& [steps, weight] : {std::pair{1, 8.0}, {-1, -8.0}, {2, -1.0}, {-2, 1.0}}) {
      for (const auto& [name, x] : run(first_, feeds_, moved(steps * kStep))) {
        std::vector<double>& sum = want[name];
        sum.resize(x.size(), 0);
        for (size_t i = 0; i < x.size(); ++i) sum[i] += weight * x[i] / (12 * kStep);
      }
    }
    const Numbers got = seconds();
    Error e, j;
    std::vector<double> all;
    for (const auto& [name, x] : want) {
      const auto it = got.find((name[0] == 'g' ? "hv" : "jv") + name.substr(1));
      const std::vector<double> y = it == got.end() ? std::vector<double>(x.size(), 0.0) : it->second;
      if (name[0] == 'g')
        e.add("H v of operand " + name.substr(1), y, x);
      else if (!rounds)
        j.add("J v of output " + name.substr(1), y, x);
    }
    INFO(e.where << "; " << j.where);
    const double allowed = kTolerance * std::max(1.0, e.scale);
    CHECK(e.worst <= allowed);
    CHECK(j.worst <= kTolerance * std::max(1.0, j.scale));
    ++count.nodes;
    if (e.scale < 1e-3) return;
    ++count.curved;
    for (const double wrong : {1.01, -1.0, 0.0}) {  // a wrong H v by these factors must be detected
      CHECK(std::abs(wrong - 1) * e.scale > allowed + e.worst);
      ++count.controls;
    }
  }

 private:
  Numbers seconds() const {
    Feeds f = feeds_;
    f.insert(v_.begin(), v_.end());
    return run(second_, f, in_);
  }
  std::vector<HostTensor> moved(double h) const {
    std::vector<HostTensor> x = in_;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto v = v_.find(cat("v", i));
      if (v == v_.end()) continue;
      std::vector<double> at = x[i].to_doubles();
      const std::vector<double> d = v->second.to_doubles();
      for (size_t k = 0; k < at.size(); ++k) at[k] += h * d[k];
      x[i] = HostTensor::of(x[i].dims(), at);
    }
    return x;
  }

  const Graph& first_;
  Graph second_;
  std::vector<HostTensor> in_;
  Feeds feeds_, v_;
};

}  // namespace

TEST_CASE("products with second derivatives of all core operators are differences of first gradients", "[hessian]") {
  const WithThreads one(1);  // a case is too little work for several threads
  static Count all;          // the test case runs once per section
  static std::set<std::string> without, covered;
  for (const auto& [op, spec] : op_specs()) {
    if (!find_core_op(op) || !core_op(op).gradient) continue;
    DYNAMIC_SECTION(op) {
      Count count;
      for (size_t i = 0; i < spec.cases.size(); ++i) {
        const OpCase& c = spec.cases[i];
        if (!c.finite_differences) continue;
        INFO(describe(op, c) << "(case " << i << "; again: test_ops \"[hessian]\" -c " << op << ')');
        const Graph first = first_order(op, c, false);
        Graph spelled = first_order(op, c, true);
        if (const std::string at = blocker(spelled); !at.empty()) {
          INFO(at << " has no gradient");
          CHECK((kWithout.count(op) || kPartly.count(op)));
          if (kWithout.count(op)) without.insert(op);
          continue;
        }
        const Check check(c, first, std::move(spelled), i);
        check.definitions();
        // A straight-through gradient is the derivative of another function, so its second derivatives are not
        // compared.
        if (!spec.surrogate) check.products(count, spec.zero_gradient || c.attrs.has("to"));
      }
      CHECK((count.nodes > 0 || spec.surrogate || kWithout.count(op)));
      covered.insert(op);
      all.nodes += count.nodes;
      all.curved += count.curved;
      all.controls += count.controls;
    }
  }
  static const struct Report {
    ~Report() {
      std::cout << "second derivatives: " << covered.size() << " operators, " << all.nodes << " nodes, " << all.curved
                << " of them curved, " << all.controls << " wrong products told apart; without: " << without.size()
                << '\n';
    }
  } report;
}

TEST_CASE("operators listed as having no second gradient have none", "[hessian]") {
  for (const std::string& op : kWithout) {
    INFO(op);
    const OpSpec& spec = op_specs().at(op);
    CHECK(std::none_of(spec.cases.begin(), spec.cases.end(), [&](const OpCase& c) {
      return c.finite_differences && blocker(first_order(op, c, true)).empty();
    }));
  }
}

// Operators without a gradient although they could be differentiated.
TEST_CASE("an operator without a gradient is spelled out, or stands in a list", "[hessian]") {
  const std::set<std::string> listed = {
      "BitShift",       "BitwiseAnd",  "BitwiseNot",      "BitwiseOr", "BitwiseXor",  // operators on integers
      "AddNorm",        "AddNormGrad", "AddNormGradSums", "NormSums",  "MatMulGelu",
      "MatMulGeluGrad",                            // formed when a graph is finished
      "LSTMGrad",       "GRUGrad",     "RNNGrad",  // the layers that contain them are decomposed before
      "GridSampleGrad", "RoiAlignGrad"};           // the gradients of kWithout
  for (const OpDef* op : all_core_ops()) {
    if (op->gradient || op->not_differentiable || op->decomposition) continue;
    INFO(op->name << " needs a definition, or a place in the list");
    CHECK(listed.count(op->name));
  }
}
