// Fused operators at the limits of their formulas: saturated, tied, zero, huge and tiny operands, and operands shifted
// by a large number. Values and gradients of the fp32 kernels are compared with the operator's decomposition
// (OpDef::decomposition, or the nodes from which a pass fused it) in fp64. This detects backward kernels that recompute
// a value from a rounded forward result.
//
// Generated from the table of operators. Every operator with a decomposition or a fused gradient kernel must be covered
// by tests/ops/op_cases.h or by a network below; the last test enforces that.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <functional>
#include <set>

#include "backend/interpreter.h"
#include "backend/parallel.h"
#include "graph/autodiff.h"
#include "graph/decompositions.h"
#include "ops/matmul_gelu.h"
#include "ops/norm_sums.h"
#include "ops/passes/add_norm_fusion.h"
#include "ops/passes/batch_norm_fusion.h"
#include "ops/passes/fuse.h"
#include "tests/backend/small_nets.h"
#include "tests/ops/case_run.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

struct Kind {
  const char* name;
  Draw draw;
};
Draw signed_powers(double lo, double hi) {
  return [=](int64_t n, Rng& rng) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back((uniform01(rng) < 0.5 ? -1 : 1) * std::pow(10, lo + (hi - lo) * uniform01(rng)));
    return v;
  };
}
Draw constant(double c) {
  return [=](int64_t n, Rng&) { return std::vector<double>(static_cast<size_t>(n), c); };
}
// Draws the value c for one of `every` elements, and 0 for the others.
Draw spikes(double c, int64_t every) {
  return [=](int64_t n, Rng&) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i) v.push_back(i % every == 0 ? c : 0);
    return v;
  };
}
// Draws c plus small numbers; the sums are exact in fp32.
Draw shifted(double c) {
  const double step = std::abs(c) * 0x1p-10;
  return [=](int64_t n, Rng& rng) {
    std::vector<double> v;
    for (int64_t i = 0; i < n; ++i)
      v.push_back(static_cast<double>(static_cast<float>(c + step * std::floor(8 * uniform01(rng)))));
    return v;
  };
}
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{{"saturated", signed_powers(1.2, 2)},
                                     {"tied", constant(0.75)},
                                     {"zero", constant(0)},
                                     {"huge", signed_powers(4, 9)},
                                     {"tied and huge", constant(1e9)},
                                     {"tied and low", constant(-1e9)},
                                     {"shifted", shifted(1e6)},
                                     {"tiny", signed_powers(-30, -8)},
                                     {"a spike", spikes(1e4, 3)},
                                     {"ones and zeros", spikes(1, 2)}};
  return all;
}

bool is_fused(const OpDef& op) { return op.decomposition || (!op.gradient && !op.not_differentiable); }
bool has_fused(const Graph& g) {
  for (int32_t n = 0; n < g.n_nodes(); ++n) {
    if (is_fused(*g.node(NodeId{n}).op)) return true;
  }
  return false;
}
void add_operators(const Graph& g, std::set<std::string>& to) {
  for (int32_t n = 0; n < g.n_nodes(); ++n) to.insert(g.node(NodeId{n}).op->name);
}

// Adds the gradients of sum_k <dyK, yK> with respect to the parameters.
void differentiate(Graph& g) {
  Builder b(g, cpu_evaluator());
  std::vector<ValueId> wrt;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    if (g.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
  }
  Autodiff ad(b, wrt);
  for (const Graph::Output& o : std::vector<Graph::Output>(g.outputs)) {
    const Value y = g.value(o.value);
    ad.seed(o.value, g.add_input("d" + o.name, y.dtype, y.dims));
  }
  ad.run();
  for (const ValueId w : wrt) {
    if (const ValueId d = ad.grad(w)) g.param_grads.push_back({g.value(w).slot, d});
  }
}

Graph training(const std::string& op, const OpCase& c, DType t, bool expanded) {
  Graph g;
  {
    Builder b(g, cpu_evaluator());
    std::vector<ValueId> in;
    for (size_t i = 0; i < c.in.size(); ++i) {
      const Operand& o = c.in[i];
      if (o.role == Role::absent)
        in.push_back({});
      else if (o.role == Role::value)
        in.push_back(g.add_param(static_cast<int>(i), "x", t, o.dims));
      else
        in.push_back(g.add_input(cat("in", i),
                                 o.role == Role::integer   ? DType::i64
                                 : o.role == Role::byte    ? DType::u8
                                 : o.role == Role::boolean ? DType::boolean
                                                           : t,
                                 o.dims));
    }
    const std::vector<ValueId> y = b.ops(op, in, c.attrs);
    for (const size_t k : c.seeded) g.outputs.push_back({cat("y", k), y.at(k)});
  }
  if (expanded) g = decompose_operators(std::move(g), cpu_evaluator());
  differentiate(g);
  return expanded ? decompose_operators(std::move(g), cpu_evaluator()) : prune(g);
}

using Feeds = std::map<std::string, HostTensor>;
using Numbers = std::map<std::string, std::vector<double>>;

Numbers run(const Graph& g, const Feeds& feeds, const std::vector<HostTensor>& params) {
  Feeds of_type;
  for (int32_t i = 0; i < g.n_values(); ++i) {
    const Value& v = g.value(ValueId{i});
    if (v.kind == ValueKind::input) of_type[v.name] = feeds.at(v.name).cast(v.dtype);
  }
  const Interpreted r = interpret(g, of_type, params);
  Numbers out;
  for (const auto& [name, t] : r.outputs) out[name] = t.to_doubles();
  for (const auto& [slot, t] : r.param_grads) out[cat("gradient ", slot)] = t.to_doubles();
  return out;
}
Feeds upstream(const Graph& g) {
  Feeds out;
  uint64_t seed = 5;
  for (const Graph::Output& o : g.outputs)
    out["d" + o.name] = random_tensor(g.value(o.value).dims, ++seed).cast(DType::f32).cast(DType::f64);
  return out;
}

bool finite(const std::vector<double>& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return std::abs(x) < 1e37; });
}
double difference(const std::vector<double>& got, const std::vector<double>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got[i] - want[i]);
    if (!(d <= worst)) worst = std::isnan(d) ? INFINITY : d;
  }
  return worst;
}
// Returns whether the operator's results are normal fp32 numbers. Larger and smaller results have no gradient in fp32.
bool in_range(const Numbers& want) {
  return std::all_of(want.begin(), want.end(), [](const auto& named) {
    return named.first[0] != 'y' || std::all_of(named.second.begin(), named.second.end(), [](double x) {
             return x == 0 || (std::abs(x) > 1e-37 && std::abs(x) < 1e37);
           });
  });
}

struct Allowed {
  double tolerance;      // relative to a tensor's largest element
  bool cancels = false;  // terms of the formula may cancel to a small result
};

// Returns the product of the largest operands and the largest upstream gradient, which bounds the terms of a gradient.
// copies: number of times that a term multiplies each operand.
double largest_terms(const Feeds& feeds, const std::vector<HostTensor>& params, int copies = 1) {
  double up = 0, product = 1;
  for (const auto& [name, t] : feeds) up = name[0] == 'd' ? std::max(up, largest(t.to_doubles())) : up;
  for (const HostTensor& t : params) {
    if (t && is_float(t.dtype())) product *= std::pow(std::max(1.0, largest(t.to_doubles())), copies);
  }
  return up * product;
}

// Compares results: fused (fp32), plain (decomposed, fp32) and want (decomposed, fp64). If the decomposition loses
// digits in fp32, the fused operator may have up to four times its error. If terms cancel to 0, their rounding
// error remains.
void compare(const Numbers& fused, const Numbers& plain, const Numbers& want, const Allowed& a, double terms) {
  if (!in_range(want)) return;
  for (const auto& [name, x] : want) {
    const auto got = fused.find(name), other = plain.find(name);
    REQUIRE(got != fused.end());
    const std::vector<double> zeros(x.size(), 0.0), &p = other == plain.end() ? zeros : other->second;
    if (!finite(x) || !finite(p)) continue;
    const bool rounding = a.cancels || largest(x) <= 1e-12 * terms;
    const double off = difference(got->second, x), plain_off = difference(p, x),
                 allowed = std::max({a.tolerance * largest(x), 4 * plain_off, rounding ? 1e-6 * terms : 1e-36});
    INFO(name << ": off by " << off << " of " << largest(x) << ", the decomposition by " << plain_off << "; terms of "
              << terms);
    CHECK(off <= allowed);
  }
}

class Case {
 public:
  Case(const std::string& op, const OpSpec& spec, const OpCase& c)
      : c_(c),
        // If a row attends to one key, the terms dy v^T and d = sum dy y of its score gradient are equal. They are
        // summed in different orders, so their difference is a rounding error.
        allowed_{std::max(1e-5, 4 * spec.fp32_tolerance), op == "FusedAttention"},
        fused_(training(op, c, DType::f32, false)),
        plain_(training(op, c, DType::f32, true)),
        wide_(training(op, c, DType::f64, true)) {}
  bool interesting() const { return has_fused(fused_); }
  void check(uint64_t seed) const {
    std::vector<size_t> values;
    for (size_t i = 0; i < c_.in.size(); ++i) {
      if (c_.in[i].role == Role::value && numel(c_.in[i].dims) > 0) values.push_back(i);
    }
    for (const Kind& kind : kinds()) {
      for (size_t which = 0; which <= values.size(); ++which) {  // the operands one by one, then all of them
        if (which == values.size() && values.size() < 2) continue;
        OpCase c = c_;
        for (size_t i = 0; i < values.size(); ++i) {
          if (i == which || which == values.size()) c.in[values[i]].draw = kind.draw;
        }
        const std::vector<HostTensor> in = rounded(draw_inputs(c, seed), DType::f32);
        Feeds feeds = upstream(fused_);
        for (size_t i = 0; i < in.size(); ++i) feeds[cat("in", i)] = in[i];
        std::vector<HostTensor> narrow;
        for (const HostTensor& t : in) narrow.push_back(t && is_float(t.dtype()) ? t.cast(DType::f32) : t);
        INFO(kind.name << (which == values.size() ? std::string(", all") : cat(", operand ", values[which])));
        compare(run(fused_, feeds, narrow), run(plain_, feeds, narrow), run(wide_, feeds, in), allowed_,
                largest_terms(feeds, in, c_.attrs.i("packed", 0) ? 3 : 1));
      }
    }
  }

 private:
  const OpCase& c_;
  Allowed allowed_;
  Graph fused_, plain_, wide_;
};

// Networks whose nodes a pass fuses to one operator. Some operators are made only by passes; they have no other cases
// that can be differentiated. T stands for the type.
struct Network {
  const char* name;
  std::string text;
  std::function<Graph(const Graph&)> pass;
  std::vector<const char*> forms;
};
std::string residual(bool norm_first) {
  const std::string sum = norm_first ? "s = Add(x, b)\n" : "s = Add(b, x)\n", on = norm_first ? "s" : "two";
  return "param x T 4 6 16\nparam U T 16 16\nparam u T 16\nparam V T 16 16\nparam g T 16\nparam h T 16\n"
         "b = MatMul(x, U)\nb = Add(b, u)\n" +
         sum + "two, m1, r1 = LayerNorm(s, g, h) {n=16; epsilon=1e-5; rms=0}\nb = MatMul(two, V)\ne = Add(" + on +
         ", b)\ny, m2, r2 = LayerNorm(e, g) {n=16; epsilon=1e-5; rms=1}\noutput y";
}
std::string activated(const std::string& activation) {
  return "param x T 3 5 7\nparam g T 5\nparam h T 5\nn, m, v = BatchNormTrain(x, g, h) {epsilon=1e-5}\ny = " +
         activation + "\noutput y";
}
const std::vector<Network>& networks() {
  const auto sums = [](const Graph& g) { return merge_norm_sums(fuse_norms(g)); };
  const auto chains = [](const Graph& g) { return fuse_elementwise(g); };
  static const std::vector<Network> all{
      {"norm before the branch", residual(true), fuse_norms, {"AddNorm", "AddNormGrad"}},
      {"norm of the sum", residual(false), fuse_norms, {"AddNorm"}},
      {"norm before the branch, with its sums", residual(true), sums, {"AddNormGradSums"}},
      {"norm of the sum, with its sums", residual(false), sums, {"AddNormGradSums"}},
      {"BatchNorm and Relu", activated("Relu(n)"), activate_batch_norms, {"BatchNormGrad"}},
      {"BatchNorm and Clip", activated("Clip(n) {min=0.0; max=0.5}"), activate_batch_norms, {"BatchNormGrad"}},
      {"a product and GELU",
       "param x T 6 8\nparam U T 8 16\nparam u T 16\nparam V T 16 8\nh = MatMul(x, U, u)\na = GeluTanh(h)\n"
       "y = MatMul(a, V)\noutput y",
       fuse_gelu,
       {"MatMulGelu", "MatMulGeluGrad"}},
      {"a chain",
       "param a T 4 6\nparam b T 4 6\nc = Mul(a, b)\nd = Sigmoid(c)\nd = Add(d, a)\nd = Tanh(d)\nd = Softplus(d)\n"
       "d = Gelu(d)\ny = Mul(d, b)\noutput y",
       chains,
       {"Fused"}}};
  return all;
}
Graph training(const Network& net, DType t, bool fused) {
  std::string text = net.text;
  for (size_t at; (at = text.find(" T ")) != std::string::npos;)
    text.replace(at, 3, t == DType::f64 ? " fp64 " : " fp32 ");
  Graph g = CoreText(text).graph;
  differentiate(g);
  g = prune(g);
  return fused ? net.pass(g) : g;
}
void check(const Network& net) {
  const Graph fused = training(net, DType::f32, true), plain = training(net, DType::f32, false),
              wide = training(net, DType::f64, false);
  for (const char* op : net.forms) {
    std::set<std::string> ops;
    add_operators(fused, ops);
    INFO(net.name << " should form " << op);
    CHECK(ops.count(op));
  }
  std::vector<Dims> dims;
  for (int32_t i = 0; i < wide.n_values(); ++i) {
    const Value& v = wide.value(ValueId{i});
    if (v.kind != ValueKind::param) continue;
    dims.resize(std::max(dims.size(), static_cast<size_t>(v.slot) + 1));
    dims[static_cast<size_t>(v.slot)] = v.dims;
  }
  for (const Kind& kind : kinds()) {
    for (size_t which = 0; which < dims.size(); ++which) {
      INFO(net.name << ": " << kind.name << ", operand " << which);
      Rng rng(70 + which);
      std::vector<HostTensor> params, narrow;
      for (size_t i = 0; i < dims.size(); ++i) {
        const Draw draw = i == which ? kind.draw : uniform(-1, 1);
        narrow.push_back(HostTensor::of<double>(dims[i], draw(numel(dims[i]), rng)).cast(DType::f32));
        params.push_back(narrow.back().cast(DType::f64));
      }
      const Feeds feeds = upstream(wide);
      compare(run(fused, feeds, narrow), run(plain, feeds, narrow), run(wide, feeds, params), {2e-5},
              largest_terms(feeds, params));
    }
  }
}

constexpr size_t kMostCases = 12;  // largest number of cases of an operator

}  // namespace

TEST_CASE("fused operators at their limits are their decompositions", "[saturation]") {
  const WithThreads one(1);
  for (const auto& [op, spec] : op_specs()) {
    if (!find_core_op(op) || !core_op(op).gradient) continue;
    DYNAMIC_SECTION(op) {
      size_t tried = 0;
      for (size_t i = 0; i < spec.cases.size() && tried < kMostCases; ++i) {
        if (!spec.cases[i].finite_differences) continue;
        const Case c(op, spec, spec.cases[i]);
        if (!c.interesting()) break;
        INFO(describe(op, spec.cases[i]) << "(case " << i << "; again: test_ops \"[saturation]\" -c " << op << ')');
        c.check(40 + i);
        ++tried;
      }
    }
  }
}

TEST_CASE("what passes fuse is, at its limits, what it was made of", "[saturation]") {
  const WithThreads one(1);
  for (const Network& net : networks()) check(net);
}

TEST_CASE("every fused operator has a case at its limits", "[saturation]") {
  const std::set<std::string> of_integers = {"BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"};
  std::set<std::string> ops{"NormSums"};  // not formed here; AddNormGradSums has the same kernel
  for (const auto& [op, spec] : op_specs()) {
    if (!find_core_op(op) || !core_op(op).gradient) continue;
    size_t tried = 0;
    for (size_t i = 0; i < spec.cases.size() && tried < kMostCases; ++i) {
      if (!spec.cases[i].finite_differences) continue;
      const Graph g = training(op, spec.cases[i], DType::f32, false);
      if (!has_fused(g)) break;
      add_operators(g, ops);
      ++tried;
    }
  }
  for (const Network& net : networks()) add_operators(training(net, DType::f32, true), ops);
  for (const OpDef* op : all_core_ops()) {
    if (!is_fused(*op) || of_integers.count(op->name)) continue;
    INFO(op->name << " needs a case in tests/ops/op_cases_*.cc that reaches it by its forward operator, or a network");
    CHECK(ops.count(op->name));
  }
}
