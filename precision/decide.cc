// Decider runs the steps that decide.h lists, in that order. follow_inputs() is PyTorch's autocast rule, paint_all() is
// TensorFlow's. The op-list's rules are applied last, so that they override propagation. follow_inputs() also applies
// them during propagation, because the types of later nodes depend on them.
#include "precision/decide.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "precision/float_types.h"
#include "precision/paint.h"
#include "precision/plan_graph.h"
#include "precision/rule_match.h"
#include "precision/safety.h"
#include "precision/units.h"

namespace amp {

std::string_view name_of(Compute c) {
  static constexpr std::string_view names[] = {"fp32", "fp16", "bf16"};
  return names[static_cast<size_t>(c)];
}

Compute compute_of(DType t) {
  check(t == DType::f32 || is_low(t), "a plan computes in float32, float16 or bfloat16");
  return t == DType::f16 ? Compute::f16 : t == DType::bf16 ? Compute::bf16 : Compute::f32;
}

DType dtype_of(Compute c) { return c == Compute::f16 ? DType::f16 : c == Compute::bf16 ? DType::bf16 : DType::f32; }

bool PrecisionPlan::any_low() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const Decision& d) { return d.compute != Compute::f32; });
}

bool PrecisionPlan::any_f16() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const Decision& d) { return d.compute == Compute::f16; });
}

namespace {

class Decider {
 public:
  Decider(const SourceGraph& g, const OpList& list, DType low)
      : g_(g), list_(list), low_(compute_of(low)), p_(make_plan_graph(g, list)), state_(p_.vertices.size()) {
    plan_.low = low;
    plan_.list = list;
    plan_.warnings = list.warnings;
    plan_.nodes.resize(g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      if (!p_.eligible[i]) plan_.nodes[i] = {Compute::f32, "not-float", p_.wide[i] ? "float64" : "", "not-float"};
    }
  }

  PrecisionPlan run() {
    unsafe_ = unsafe_nodes(g_, p_.types, p_.in_unit, plan_.low, plan_.warnings);
    rules_ = match_rules(g_, list_.rules, p_.units, p_.eligible);
    refuse_impossible();
    for (size_t v = 0; v < p_.vertices.size(); ++v) classify(v);
    if (list_.propagation == Propagation::paint) {
      paint_all();
    } else {
      follow_inputs();
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) apply_rule(static_cast<int>(n));
    cast_booleans();
    warn();
    return std::move(plan_);
  }

 private:
  struct State {  // the properties of a vertex before propagation
    std::string cls, rule, pass = "class";
  };

  const Unit* unit_of(size_t v) const { return p_.vertices[v].unit < 0 ? nullptr : &p_.units[at(p_.vertices[v].unit)]; }

  const OpClassEntry* entry(size_t v) const {
    if (const Unit* u = unit_of(v)) return list_.find("", u->kind == "Linear" ? "MatMul" : u->kind);
    const SourceNode& n = g_.nodes[at(p_.vertices[v].nodes[0])];
    const bool modes = n.op == "Resize" || n.op == "Upsample";
    return list_.find(n.domain, n.op, modes ? n.attrs.s("mode", "nearest") : "");
  }

  // Throws E_PLAN_NO_KERNEL if a rule requests 16 bits but matches only nodes without 16-bit arithmetic. Usually such a
  // rule has a misspelled name.
  void refuse_impossible() const {
    for (size_t r = 0; r < list_.rules.size(); ++r) {
      const PrecisionRule& rule = list_.rules[r];
      const bool low =
          rule.precision == Precision::low || rule.precision == Precision::fp16 || rule.precision == Precision::bf16;
      if (!low || rules_.matched[r] || rules_.no_floats[r] < 0) continue;
      const int n = rules_.no_floats[r];
      std::vector<std::string> names;
      for (size_t i = 0; i < g_.nodes.size(); ++i) {
        if (p_.eligible[i]) names.push_back(rule.node.empty() ? g_.nodes[i].op : g_.nodes[i].name);
      }
      const std::string near = nearest(rule.node.empty() ? rule.op : rule.node, names);
      fail(Exit::usage, "E_PLAN_NO_KERNEL",
           cat(rule.source, " asks for ", name_of(rule.precision), ", but ", g_.describe_node(n),
               p_.wide[at(n)] ? " computes in float64" : " does not compute with floating numbers"),
           near.empty() ? "no other node matches the rule" : cat("did you mean '", printable(near), "'?"));
    }
  }

  // Determines the class of a vertex: from the op-list, then replaced for safety (safety.h), then replaced by rules.
  void classify(size_t v) {
    State& s = state_[v];
    PaintVertex& paint = p_.paint[v];
    const std::vector<int>& nodes = p_.vertices[v].nodes;
    const Unit* unit = unit_of(v);
    const OpClassEntry* e = entry(v);
    s.cls = e ? std::string(name_of(e->cls)) : "unlisted";
    s.rule = e ? cat(name_of(e->cls), " list of ", e->source) : cat("unlisted in ", list_.name, ": infer");
    if (unit) s.rule += cat(" (", unit->kind, " of ", nodes.size(), " nodes)");
    if (!e) unlisted_.insert(unit ? unit->kind : g_.nodes[at(nodes[0])].op);
    paint.cls = e ? e->cls : OpClass::infer;
    // Masks, positions and tables stay fp32: they are computed only from integers and constants, are cheap, and often
    // exceed the range of 16 bits.
    if (std::none_of(nodes.begin(), nodes.end(), [&](int n) { return reads_data(n); })) {
      paint.fixed = true;
      s.pass = "no-weights";
    }
    for (const int n : nodes) {
      const auto u = unsafe_.find(n);
      if (u == unsafe_.end()) continue;
      paint.cls = OpClass::deny;
      s.pass = "safety";
      s.rule = u->second;
    }
    seed_from_rules(nodes, paint);
  }

  // Replaces a vertex's class by the type of the rules if all nodes of the vertex have rules that agree. Propagation
  // then takes it into account and places casts where they are cheap.
  void seed_from_rules(const std::vector<int>& nodes, PaintVertex& paint) const {
    const int first = rules_.of_node[at(nodes[0])];
    for (const int n : nodes) {
      const int r = rules_.of_node[at(n)];
      if (r < 0 || list_.rules[at(r)].precision != list_.rules[at(first)].precision) return;
    }
    const Precision p = list_.rules[at(first)].precision;
    const bool low = p == Precision::low || p == Precision::fp16 || p == Precision::bf16;
    paint.cls = low ? OpClass::allow : p == Precision::fp32 ? OpClass::deny : OpClass::clear;
    if (low) paint.fixed = false;
  }

  bool reads_data(int n) const {
    const std::vector<int>& in = g_.nodes[at(n)].inputs;
    return std::any_of(in.begin(), in.end(), [&](int v) { return v >= 0 && p_.carries[at(v)]; });
  }

  std::string shown(int v) const {
    const SourceNode& n = g_.nodes[at(p_.vertices[at(v)].nodes.back())];
    const Unit* u = unit_of(at(v));
    return cat("node '", printable(n.name), "' (", u ? u->kind : printable(n.op), ")");
  }

  void set(size_t v, Compute c, const std::string& rule, const std::string& pass) {
    for (const int n : p_.vertices[v].nodes) plan_.nodes[at(n)] = {c, state_[v].cls, rule, pass};
  }

  void paint_all() {
    const std::vector<Painted> painted = paint(p_.paint);
    for (size_t v = 0; v < painted.size(); ++v) {
      const State& s = state_[v];
      const Painted& p = painted[v];
      if (s.pass == "safety" || p.pass == PaintPass::cls || (p_.paint[v].fixed && !p.low)) {
        set(v, p.low ? low_ : Compute::f32, s.rule, s.pass);
      } else {
        set(v, p.low ? low_ : Compute::f32, p.cause < 0 ? s.rule : shown(p.cause), std::string(name_of(p.pass)));
      }
    }
  }

  void follow_inputs() {
    std::vector<char> done(p_.vertices.size(), 0);
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (p_.vertex_of[i] < 0 || done[at(p_.vertex_of[i])]) continue;
      const size_t v = at(p_.vertex_of[i]);
      done[v] = 1;
      const PaintVertex& paint = p_.paint[v];
      if (paint.fixed || paint.cls == OpClass::deny) {
        set(v, Compute::f32, state_[v].rule, state_[v].pass);
      } else if (paint.cls == OpClass::allow) {
        set(v, low_, state_[v].rule, "class");
      } else {
        set(v, widest_input(p_.vertices[v].nodes[0], unit_of(v)), state_[v].rule, "inputs");
      }
      for (const int n : p_.vertices[v].nodes) apply_rule(n);  // the types of later nodes depend on the rule's type
    }
  }

  // Returns the widest type among the floating-point inputs (PyTorch's rule). Weights, inputs and tables count as fp32
  // tensors. One-element constants count as Python numbers, which do not widen the type.
  Compute widest_input(int node, const Unit* unit) const {
    bool any = false;
    Compute widest = Compute::f32;
    const auto see = [&](int value) {
      const SourceValue& s = g_.values[at(value)];
      const bool number = s.data && s.data.numel() == 1 && (s.kind == SourceKind::constant || s.data.rank() == 0);
      if (!is_float(p_.types[at(value)]) || number) return;
      const Compute c = s.producer < 0 ? Compute::f32 : plan_.nodes[at(s.producer)].compute;
      widest = any && c != widest ? Compute::f32 : c;
      any = true;
    };
    if (unit) {
      see(unit->input);
      return widest;
    }
    const SourceNode& n = g_.nodes[at(node)];
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] >= 0 && is_data_input(n, k) && (promotes(n) || !any)) see(n.inputs[k]);
    }
    return widest;
  }

  void apply_rule(int n) {
    const int r = rules_.of_node[at(n)];
    if (r < 0) return;
    const PrecisionRule& rule = list_.rules[at(r)];
    Decision& d = plan_.nodes[at(n)];
    switch (rule.precision) {
      case Precision::fp32:
        d.compute = Compute::f32;
        break;
      case Precision::fp16:
        d.compute = Compute::f16;
        break;
      case Precision::bf16:
        d.compute = Compute::bf16;
        break;
      case Precision::low:
        d.compute = low_;
        break;
      case Precision::follow:
        d.compute = widest_input(n, nullptr);
        break;
    }
    d.rule = rule.source + (rule.why.empty() ? "" : ": " + rule.why);
    d.pass = "rule";
  }

  // Sets the type of a Cast from bool to 16 bits if all readers of the Cast compute in 16 bits (TensorFlow's rule).
  // Casts from other types are excluded: 0 and 1 are exact in 16 bits, but integers are not.
  void cast_booleans() {
    const std::vector<std::vector<int>> users = g_.consumers();
    for (size_t i = 0; low_ != Compute::f32 && i < g_.nodes.size(); ++i) {
      const SourceNode& n = g_.nodes[i];
      if (n.op != "Cast" || !p_.eligible[i] || rules_.of_node[i] >= 0 || n.inputs.empty() || n.inputs[0] < 0) continue;
      const std::vector<int>& readers = users[at(n.outputs[0])];
      if (p_.types[at(n.inputs[0])] != DType::boolean || readers.empty()) continue;
      if (std::all_of(readers.begin(), readers.end(), [&](int u) { return plan_.nodes[at(u)].compute == low_; })) {
        plan_.nodes[i] = {low_, plan_.nodes[i].cls, "all its readers are low", "paint: cast of booleans"};
      }
    }
  }

  void warn() {
    const auto say = [&](auto... parts) { plan_.warnings.push_back(cat(parts...)); };
    for (const auto& [n, why] : unsafe_) {
      const Decision& d = plan_.nodes[at(n)];
      if (d.compute == Compute::f32) continue;
      say(g_.describe_node(n), " is ", name_of(d.compute), " by ", d.rule, ", although ", why);
    }
    for (size_t r = 0; r < list_.rules.size(); ++r) {
      if (!rules_.matched[r]) say(list_.rules[r].source, " matches no node");
    }
    for (const std::string& op : unlisted_) {
      say("operator '", printable(op), "' is unlisted in ", list_.name, ": treated as infer");
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto it = list_.recorded.find(g_.nodes[n].name);
      if (it == list_.recorded.end() || it->second == name_of(plan_.nodes[n].compute)) continue;
      say("the plan file records ", printable(it->second), " for ", g_.describe_node(static_cast<int>(n)),
          ", its lists and rules give ", name_of(plan_.nodes[n].compute), ": change rules, not nodes");
    }
  }

  const SourceGraph& g_;
  const OpList& list_;
  const Compute low_;
  PlanGraph p_;
  std::vector<State> state_;  // indexed by vertex of the PlanGraph
  std::map<int, std::string> unsafe_;
  RuleMatches rules_;
  std::set<std::string> unlisted_;
  PrecisionPlan plan_;
};

}  // namespace

PrecisionPlan decide(const SourceGraph& g, const OpList& list, DType low) {
  const std::string fingerprint = graph_fingerprint(g);
  if (!list.graph.empty() && list.graph != fingerprint) {
    fail(Exit::usage, "E_PLAN_GRAPH",
         cat("the plan ", printable(list.name), " was made for another graph: ", printable(list.graph),
             ", this one is ", fingerprint),
         "remove its \"graph\" and \"nodes\" to use its lists and rules on this model");
  }
  PrecisionPlan plan = Decider(g, list, low).run();
  plan.fingerprint = fingerprint;
  return plan;
}

}  // namespace amp
