// Finds the first non-finite value of a step. Every node's output of one micro-batch is checked on the host, without
// fusion. A depth-first search then starts at the non-finite losses (or parameter gradients) and follows non-finite
// operands. The result is the earliest value that is not finite although all its operands are finite.

#include "trainer/compile/first_nonfinite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "graph/op.h"
#include "trainer/loop/micro_batches.h"

namespace amp {

namespace {

bool finite(const HostTensor& t) {
  if (!is_float(t.dtype())) return true;
  const std::vector<double> v = t.to_doubles();
  return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
}

class Trace {
 public:
  Trace(Session& session, const Losses& losses, const Tensors& batch, const std::vector<double>& seeds)
      : session_(session) {
    session.stage_statistics();
    const Program::Observer see = [&](const Node& node, size_t output, const Tensor& t) {
      mark(node.out[output], !finite(HostTensor(t.dtype, t.dims, nullptr, t.data)));
    };
    const Instrumentation look{[&](Program& p) {
                                 graph_ = p.graph();
                                 p.run(see);
                               },
                               false};
    const std::vector<double> sums = run_micro_batch(session, losses, batch, seeds, false, &look);
    bad_.resize(static_cast<size_t>(graph_->n_values()), 0);
    for (int32_t i = 0; i < graph_->n_values(); ++i) {
      const Value& v = graph_->value(ValueId{i});
      if (v.kind == ValueKind::input && batch.count(v.name)) mark(ValueId{i}, !finite(batch.at(v.name)));
      if (v.kind == ValueKind::param) mark(ValueId{i}, !finite(session.param(v.slot)));
    }
    loss_finite_ = std::all_of(sums.begin(), sums.end(), [](double x) { return std::isfinite(x); });
    for (const auto& p : graph_->param_grads) mark(p.value, !finite(session.grad(p.slot)));
    // Views have no kernel, so the observer is not called for them.
    for (int32_t n = 0; n < graph_->n_nodes(); ++n) {
      const Node& node = graph_->node(NodeId{n});
      if (node.op->view) mark(node.out[0], bad(node.in[0]) || bad(node.out[0]));
    }
  }

  // Describes the earliest value that is not finite although all its operands are finite; "" if there is none. Searches
  // among the values that reach a non-finite loss. If all losses are finite, it searches among those that reach any
  // graph output or parameter gradient.
  std::string origin() const {
    std::vector<ValueId> ends;
    for (const auto& o : graph_->outputs) {
      // Running statistics are graph outputs too. They are followed only if the loss is finite.
      if (loss_finite_ || o.name.rfind("loss.", 0) == 0) ends.push_back(o.value);
    }
    for (const auto& p : graph_->param_grads) {
      if (loss_finite_) ends.push_back(p.value);
    }
    std::vector<char> seen(bad_.size(), 0);
    ValueId first;
    while (!ends.empty()) {
      const ValueId v = ends.back();
      ends.pop_back();
      if (!v || seen[static_cast<size_t>(v.index)] || !bad(v)) continue;
      seen[static_cast<size_t>(v.index)] = 1;
      const Value& x = graph_->value(v);
      bool inherited = false;
      if (x.kind == ValueKind::temp) {
        for (const ValueId in : graph_->node(x.producer).in) {
          inherited |= in && bad(in);
          ends.push_back(in);
        }
      }
      if (!inherited && (!first || v < first)) first = v;
    }
    return first ? describe(first) : "";
  }

 private:
  void mark(ValueId v, bool bad) {
    const auto i = static_cast<size_t>(v.index);
    // The vector grows during the run, because the number of values of the graph is unknown before.
    if (i >= bad_.size()) bad_.resize(i + 1, 0);
    bad_[i] = bad;
  }
  bool bad(ValueId v) const { return bad_[static_cast<size_t>(v.index)] != 0; }

  std::string describe(ValueId v) const {
    const Value& x = graph_->value(v);
    if (x.kind == ValueKind::input) return cat("the input '", printable(x.name), "' is not finite");
    if (x.kind == ValueKind::param) return cat("the weight '", printable(x.name), "' is not finite");
    const Origin& o = x.kind == ValueKind::temp ? graph_->node(x.producer).origin : Origin{};
    const std::string where = o.source_node < 0 ? "the loss" : session_.source().describe_node(o.source_node);
    const bool backward = std::strcmp(o.role, "gradient of") == 0;
    return cat("the first non-finite ",
               backward ? "value of the backward pass arises at " : "activation is the output of ", where,
               ", stored as ", name_of(x.dtype));
  }

  Session& session_;
  std::shared_ptr<const Graph> graph_;
  std::vector<char> bad_;  // indexed by value: 1 if it has a non-finite element
  bool loss_finite_ = true;
};

}  // namespace

std::string first_nonfinite_value(Session& session, const Losses& losses, const std::vector<Tensors>& batches,
                                  const std::vector<double>& seeds) {
  int64_t row = 0;
  for (const Tensors& batch : batches) {
    session.state().samples_before = row;
    row += batch_rows(losses, batch);
    const std::string found = Trace(session, losses, batch, seeds).origin();
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace amp
