// If (ONNX 1+), Loop (1+), Scan (9+) whose conditions and iteration counts are known when the graph is bound to input
// shapes (graph/bind.h). The chosen branch is inlined, a loop's body is unrolled. Conditions and counts that depend on
// data are rejected.
#include <algorithm>

#include "base/error.h"
#include "graph/bind.h"
#include "graph/limits.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

std::map<std::string, ValueId> captured(const Lowering& l) {
  std::map<std::string, ValueId> out;
  const auto it = l.attrs.items().find(kCaptures);
  if (it == l.attrs.items().end()) return out;
  const auto& names = std::get<std::vector<std::string>>(it->second);
  for (size_t i = 0; i < names.size(); ++i) out[names[i]] = l.in(l.n_in() - names.size() + i);
  return out;
}

const SourceGraph& body_of(const Lowering& l, const std::string& attribute) {
  const auto graph = l.attrs.graph(attribute);
  if (!graph) fail(Exit::model, "E_ATTR", cat(l.node.op, " lacks its graph '", attribute, "'"));
  return *graph;  // the node's attributes own the graph
}

[[noreturn]] void depends_on_data(const std::string& what) {
  fail(Exit::unsupported, "E_DYNAMIC",
       cat(what, " depends on the data; here it must follow from the shapes of the inputs"),
       "re-export the model without this control flow, or name an output before it with `output`");
}

int64_t known(const Lowering& l, ValueId v, const std::string& what) {
  const HostTensor* t = l.b.constant_of(v);
  if (!t) depends_on_data(what);
  if (t->numel() != 1) fail(Exit::model, "E_ATTR", cat(what, " has ", t->numel(), " elements"));
  return t->to_ints()[0];
}

// Throws E_NODES (Exit::unsupported) if there are more iterations than a graph may have nodes. bind() counts the added
// nodes separately.
void budget(int64_t turns) {
  if (turns > limits().graph_nodes) refuse_nodes("loops are unrolled");
}

void lower_if(Lowering& l) {
  const SourceGraph& branch = body_of(l, known(l, l.in(0), "the condition of If") ? "then_branch" : "else_branch");
  if (l.n_out() > branch.outputs.size()) fail(Exit::model, "E_ATTR", "If has more outputs than its branch");
  std::vector<bool> wanted;
  for (size_t i = 0; i < l.n_out(); ++i) wanted.push_back(l.wanted(i));
  const auto out = bind_body(branch, {}, captured(l), wanted, l.options, l.b);
  for (size_t i = 0; i < l.n_out(); ++i) l.out(i, out[i]);
}

// Stacks the results of all iterations along a new axis.
ValueId stack(Builder& b, std::vector<ValueId> parts, int64_t axis) {
  for (ValueId& p : parts) {
    Dims d = b.dims(p);
    d.insert(d.begin() + normalize_axis(axis, static_cast<int64_t>(d.size()) + 1), 1);
    p = b.reshape(p, d);
  }
  const int64_t at = normalize_axis(axis, b.rank(parts.at(0)));
  return parts.size() == 1 ? parts[0] : concat(b, std::move(parts), at);
}
// Returns the stack of zero iterations, an empty tensor. `one` has the shape of an iteration's result.
ValueId stack_none(Builder& b, ValueId one, int64_t axis) {
  Dims d = b.dims(one);
  d.insert(d.begin() + normalize_axis(axis, static_cast<int64_t>(d.size()) + 1), 0);
  return filled(b, 0, b.dtype(one), d);
}

// Lowers Loop. Inputs: count, condition, carried values. The body gets iteration number, condition and carried values.
// It returns condition, carried values, and an entry for each stacked output.
void lower_loop(Lowering& l) {
  Builder& b = l.b;
  const SourceGraph& body = body_of(l, "body");
  const auto outer = captured(l);
  if (l.n_in() < outer.size() + 2 || body.inputs.size() < 2 || body.outputs.size() + 1 < body.inputs.size() ||
      body.inputs.size() > l.n_in() - outer.size()) {
    fail(Exit::model, "E_ATTR", "Loop and its body disagree on the number of values");
  }
  const size_t carried = body.inputs.size() - 2, stacked = body.outputs.size() - 1 - carried;
  const int64_t turns = l.has(0) ? known(l, l.in(0), "the number of turns of Loop") : INT64_MAX;
  bool go = !l.has(1) || known(l, l.in(1), "the first condition of Loop") != 0;
  std::vector<ValueId> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(l.in(i + 2));
  std::vector<std::vector<ValueId>> parts(stacked);
  const std::vector<bool> all(body.outputs.size(), true);
  const auto turn = [&](int64_t t) {
    std::vector<ValueId> in{b.scalar(static_cast<double>(t), DType::i64), b.scalar(1, DType::boolean)};
    in.insert(in.end(), state.begin(), state.end());
    return bind_body(body, in, outer, all, l.options, b);
  };
  for (int64_t t = 0; go && t < turns; ++t) {
    budget(turns == INT64_MAX ? t : turns);
    const auto out = turn(t);
    if (t + 1 < turns) go = known(l, out[0], "the condition of Loop") != 0;
    std::copy_n(out.begin() + 1, carried, state.begin());
    for (size_t k = 0; k < stacked; ++k) parts[k].push_back(out[1 + carried + k]);
  }
  for (size_t i = 0; i < carried; ++i) l.out(i, state[i]);
  for (size_t k = 0; k < stacked; ++k) {
    if (l.wanted(carried + k))
      l.out(carried + k, parts[k].empty() ? stack_none(b, turn(0)[1 + carried + k], 0) : stack(b, parts[k], 0));
  }
}

// Lowers Scan. Inputs: states, sequences. The body gets the states and an entry of each sequence. It returns the states
// and an entry for each stacked output.
void lower_scan(Lowering& l) {
  Builder& b = l.b;
  const SourceGraph& body = body_of(l, "body");
  const auto outer = captured(l);
  const auto sequences = static_cast<size_t>(l.attrs.i("num_scan_inputs", 0));
  if (sequences == 0 || body.inputs.size() != l.n_in() - outer.size() || sequences > body.inputs.size() ||
      body.inputs.size() - sequences > body.outputs.size()) {
    fail(Exit::model, "E_ATTR", "Scan and its body disagree on the number of values");
  }
  const size_t states = body.inputs.size() - sequences, stacked = body.outputs.size() - states;
  const auto option = [&](const char* name, size_t i, size_t n) {
    const std::vector<int64_t> v = l.attrs.ints(name, std::vector<int64_t>(n, 0));
    if (v.size() != n) fail(Exit::model, "E_ATTR", cat("Scan: ", name, " has ", v.size(), " entries for ", n));
    return v[i];
  };
  std::vector<int64_t> axes;
  int64_t turns = -1;
  for (size_t i = 0; i < sequences; ++i) {
    axes.push_back(normalize_axis(option("scan_input_axes", i, sequences), l.rank(states + i)));
    const int64_t n = l.dims(states + i)[static_cast<size_t>(axes[i])];
    if (turns >= 0 && n != turns)
      fail(Exit::model, "E_SHAPE", cat("Scan over sequences of ", turns, " and ", n, " entries"));
    turns = n;
  }
  budget(turns);
  std::vector<ValueId> state;
  for (size_t i = 0; i < states; ++i) state.push_back(l.in(i));
  std::vector<std::vector<ValueId>> parts(stacked);
  for (int64_t t = 0; t < turns; ++t) {
    budget(turns);
    std::vector<ValueId> in = state;
    for (size_t i = 0; i < sequences; ++i) {
      const int64_t at = option("scan_input_directions", i, sequences) ? turns - 1 - t : t;
      const ValueId one = slice(b, l.in(states + i), axes[i], at, 1);
      Dims d = b.dims(one);
      d.erase(d.begin() + axes[i]);
      in.push_back(b.reshape(one, d));
    }
    const auto out = bind_body(body, in, outer, std::vector<bool>(body.outputs.size(), true), l.options, b);
    std::copy_n(out.begin(), states, state.begin());
    for (size_t k = 0; k < stacked; ++k) parts[k].push_back(out[states + k]);
  }
  for (size_t i = 0; i < states; ++i) l.out(i, state[i]);
  for (size_t k = 0; k < stacked; ++k) {
    if (!l.wanted(states + k)) continue;
    if (parts[k].empty()) l.unsupported("a sequence of no entries");
    if (option("scan_output_directions", k, stacked)) std::reverse(parts[k].begin(), parts[k].end());
    l.out(states + k, stack(b, parts[k], option("scan_output_axes", k, stacked)));
  }
}

void lower_scan_8(Lowering& l) { l.unsupported("the batched form of opset 8"); }

const RegisterOnnx control_flow_onnx[] = {
    RegisterOnnx{{"If", lower_if, 1, {}}}, RegisterOnnx{{"Loop", lower_loop, 1, {}}},
    RegisterOnnx{{"Scan", lower_scan_8, 8, {}}}, RegisterOnnx{{"Scan", lower_scan, 9, {}}}};

}  // namespace
}  // namespace amp
