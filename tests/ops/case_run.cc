// Builds the graph of an operator case with random inputs, differentiates it with seeded outputs, and runs it in the
// naive interpreter. 16-bit types round only floating operands that Role permits.
#include "tests/ops/case_run.h"

#include <cmath>

#include "backend/interpreter.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "tests/ops/one_node.h"

namespace amp::test {

namespace {
DType type_of(Role role, DType floating) {
  switch (role) {
    case Role::value:
    case Role::held:
      return floating;
    case Role::stat:
      return is_low(floating) ? DType::f32 : floating;
    case Role::integer:
      return DType::i64;
    case Role::byte:
      return DType::u8;
    case Role::boolean:
      return DType::boolean;
    case Role::absent:
      break;
  }
  return floating;
}
}  // namespace

CaseRun::CaseRun(const std::string& op, const OpCase& c, DType type, bool gradient, Surrogate surrogate) : case_(c) {
  Builder b(graph_, cpu_evaluator());
  std::vector<ValueId> in, wrt;
  for (size_t i = 0; i < c.in.size(); ++i) {
    const std::string name = cat("in", i);
    const DType t = type_of(c.in[i].role, type);
    if (c.in[i].role == Role::absent) {
      in.push_back({});
    } else if (c.in[i].role == Role::value) {
      in.push_back(graph_.add_param(static_cast<int>(i), name, t, c.in[i].dims));
      wrt.push_back(in.back());
    } else {
      in.push_back(graph_.add_input(name, t, c.in[i].dims));
    }
  }
  outputs_ = surrogate ? std::vector{surrogate(b, in, c.attrs)} : b.ops(op, in, c.attrs);
  n_outputs_ = outputs_.size();
  for (size_t k = 0; k < outputs_.size(); ++k) graph_.outputs.push_back({cat("y", k), outputs_[k]});
  forward_nodes_ = graph_.n_nodes();
  if (!gradient) return;
  Autodiff ad(b, wrt);
  for (const size_t k : c.seeded) {
    const Value y = b.value(outputs_.at(k));
    ad.seed(outputs_[k], graph_.add_input(cat("dy", k), y.dtype, y.dims));
  }
  ad.run();
  for (const ValueId w : wrt) {
    if (const ValueId g = ad.grad(w)) graph_.param_grads.push_back({graph_.value(w).slot, g});
  }
}

CaseResult CaseRun::operator()(const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy) const {
  return run(graph_, in, dy);
}

CaseResult CaseRun::run(const Graph& g, const std::vector<HostTensor>& in, const std::vector<HostTensor>& dy) const {
  std::map<std::string, HostTensor> feeds;
  for (size_t i = 0; i < in.size(); ++i) {
    if (case_.in[i].role != Role::value) feeds[cat("in", i)] = in[i];
  }
  for (size_t k = 0; k < dy.size(); ++k) feeds[cat("dy", case_.seeded[k])] = dy[k];
  const Interpreted r = interpret(g, feeds, in);
  CaseResult out;
  for (size_t k = 0; k < n_outputs_; ++k) out.outputs.push_back(r.outputs.at(cat("y", k)));
  for (const auto& [slot, g] : r.param_grads) out.grads[static_cast<size_t>(slot)] = g;
  return out;
}

std::vector<HostTensor> CaseRun::random_upstream(uint64_t seed) const {
  std::vector<HostTensor> out;
  for (const size_t k : case_.seeded) {
    const Value& y = graph_.value(outputs_.at(k));
    out.push_back(random_tensor(y.dims, seed + k).cast(y.dtype).cast(DType::f64));
  }
  return out;
}

std::vector<HostTensor> draw_inputs(const OpCase& c, uint64_t seed) {
  Rng rng(seed);
  std::vector<HostTensor> out;
  for (const Operand& o : c.in) {
    out.push_back(HostTensor::of<double>(o.dims, o.draw(numel(o.dims), rng)).cast(type_of(o.role, DType::f64)));
  }
  return out;
}

std::vector<HostTensor> rounded(const std::vector<HostTensor>& in, DType to) {
  std::vector<HostTensor> out;
  for (const HostTensor& t : in) out.push_back(is_float(t.dtype()) ? t.cast(to).cast(DType::f64) : t);
  return out;
}

std::string describe(const std::string& op, const OpCase& c) {
  std::string s = op;
  for (const Operand& o : c.in)
    s += cat(' ', o.role == Role::value ? "f" : o.role == Role::integer ? "i" : "-", to_string(o.dims));
  return s + ' ' + c.attrs.key();
}

double largest(const std::vector<double>& v) {
  double m = 0;
  for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}

}  // namespace amp::test
