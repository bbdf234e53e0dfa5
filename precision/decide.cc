#include "precision/decide.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "precision/float_types.h"
#include "precision/paint.h"
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

size_t at(int i) { return static_cast<size_t>(i); }

class Decider {
 public:
  Decider(const SourceGraph& g, const OpList& list, DType low)
      : g_(g), list_(list), low_(compute_of(low)), types_(value_types(g)), data_(carries_data(g, types_)) {
    plan_.low = low;
    plan_.list = list;
    plan_.warnings = list.warnings;
    plan_.nodes.resize(g.nodes.size());
  }

  PrecisionPlan run() {
    find_eligible();
    make_vertices();
    unsafe_ = unsafe_nodes(g_, types_, in_unit_, plan_.low, plan_.warnings);
    rules_ = match_rules(g_, list_.rules, units_, eligible_);
    classify();
    if (list_.propagation == Propagation::paint) {
      paint_all();
    } else {
      follow_inputs();
    }
    apply_rules();
    cast_booleans();
    warn();
    return std::move(plan_);
  }

 private:
  struct Vertex {
    std::vector<int> nodes;
    const Unit* unit = nullptr;
    PaintVertex paint;
    std::string cls, rule, pass = "class";
  };

  bool floating(int v) const { return v >= 0 && is_float(types_[at(v)]); }

  // Nodes that compute with floats. Others have no compute type: shape arithmetic, masks of booleans, casts to
  // integers, bodies of control flow, and float64, which stays what the file says.
  void find_eligible() {
    static const std::set<std::string_view> never = {"Shape", "Size", "If", "Loop", "Scan", "Constant"};
    eligible_.assign(g_.nodes.size(), 0);
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const SourceNode& n = g_.nodes[i];
      bool any = std::any_of(n.outputs.begin(), n.outputs.end(), [&](int v) { return floating(v); });
      bool wide = false;
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        any = any || (floating(n.inputs[k]) && is_data_input(n, k));
        wide = wide || (n.inputs[k] >= 0 && types_[at(n.inputs[k])] == DType::f64);
      }
      wide = wide || std::any_of(n.outputs.begin(), n.outputs.end(),
                                 [&](int v) { return v >= 0 && types_[at(v)] == DType::f64; });
      if ((n.op == "Cast" || n.op == "CastLike") && !n.outputs.empty() && !floating(n.outputs[0])) any = false;
      eligible_[i] = any && !wide && !(n.domain.empty() && never.count(n.op));
      if (!eligible_[i]) plan_.nodes[i] = {Compute::f32, "not-float", wide ? "float64" : "", "not-float"};
    }
  }

  const OpClassEntry* entry(const SourceNode& n) const {
    std::string mode;
    if (n.op == "Resize" || n.op == "Upsample") mode = n.attrs.s("mode", "nearest");
    return list_.find(n.domain, n.op, mode);
  }

  void make_vertices() {
    std::vector<Unit> found = find_units(g_);
    // A kind the list does not name is no operator of its world: its nodes speak for themselves.
    std::erase_if(found, [&](const Unit& u) {
      return !list_.classes.count(u.kind) && !list_.classes.count("ai.onnx::" + u.kind) && !list_.classes.count("*");
    });
    units_ = std::move(found);
    if (list_.propagation == Propagation::inputs) add_linear();
    in_unit_.assign(g_.nodes.size(), 0);
    vertex_of_.assign(g_.nodes.size(), -1);
    std::vector<const Unit*> unit_of(g_.nodes.size(), nullptr);
    for (const Unit& u : units_) {
      const bool whole = std::all_of(u.nodes.begin(), u.nodes.end(), [&](int n) { return eligible_[at(n)]; });
      for (const int n : u.nodes) {
        in_unit_[at(n)] = u.kind != "Linear";
        if (whole) unit_of[at(n)] = &u;
      }
    }
    std::map<const Unit*, int> made;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (!eligible_[i]) continue;
      const auto known = unit_of[i] ? made.find(unit_of[i]) : made.end();
      vertex_of_[i] = known != made.end() ? known->second : static_cast<int>(vertices_.size());
      if (known == made.end()) {
        vertices_.emplace_back().unit = unit_of[i];
        if (unit_of[i]) made[unit_of[i]] = vertex_of_[i];
      }
      vertices_[at(vertex_of_[i])].nodes.push_back(static_cast<int>(i));
    }
    connect();
  }

  void add_linear() {
    std::vector<char> taken(g_.nodes.size(), 0);
    for (const Unit& u : units_) {
      for (const int n : u.nodes) taken[at(n)] = 1;
    }
    for (Unit& u : find_linear(g_)) {
      if (std::none_of(u.nodes.begin(), u.nodes.end(), [&](int n) { return taken[at(n)]; })) {
        units_.push_back(std::move(u));
      }
    }
  }

  void connect() {
    const auto link = [&](int from, int to) {
      if (from < 0 || to < 0 || from == to) return;
      vertices_[at(from)].paint.out.push_back(to);
      vertices_[at(to)].paint.in.push_back(from);
    };
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const SourceNode& n = g_.nodes[i];
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        const int v = n.inputs[k];
        if (!floating(v) || g_.values[at(v)].producer < 0 || !is_data_input(n, k)) continue;
        link(vertex_of_[at(g_.values[at(v)].producer)], vertex_of_[i]);
      }
    }
  }

  // Class of each vertex: list, then safety, then rules.
  void classify() {
    for (Vertex& v : vertices_) {
      const SourceNode& first = g_.nodes[at(v.nodes[0])];
      const OpClassEntry* e = nullptr;
      if (v.unit && v.unit->kind == "Linear") {
        e = list_.find("", "MatMul");
      } else {
        e = v.unit ? list_.find("", v.unit->kind) : entry(first);
      }
      v.cls = e ? std::string(name_of(e->cls)) : "unlisted";
      v.rule = e ? cat(name_of(e->cls), " list of ", e->source) : cat("unlisted in ", list_.name, ": infer");
      if (v.unit) v.rule += cat(" (", v.unit->kind, " of ", v.nodes.size(), " nodes)");
      if (!e) unlisted_.insert(v.unit ? v.unit->kind : first.op);
      v.paint.cls = e ? e->cls : OpClass::infer;
      if (std::none_of(v.nodes.begin(), v.nodes.end(), [&](int n) { return has_data(n); })) {
        v.paint.fixed = true;
        v.pass = "no-weights";
      }
      for (const int n : v.nodes) {
        const auto u = unsafe_.find(n);
        if (u == unsafe_.end()) continue;
        v.paint.cls = OpClass::deny;
        v.pass = "safety";
        v.rule = u->second;
      }
      seed_from_rules(v);
    }
  }

  // A rule that speaks for all nodes of a vertex takes its class's place, so that casts move to where they are cheap.
  void seed_from_rules(Vertex& v) {
    const int r = rules_.of_node[at(v.nodes[0])];
    for (const int n : v.nodes) {
      if (rules_.of_node[at(n)] < 0 ||
          list_.rules[at(rules_.of_node[at(n)])].precision != list_.rules[at(r)].precision) {
        return;
      }
    }
    const Precision p = list_.rules[at(r)].precision;
    v.paint.cls = p == Precision::fp32 ? OpClass::deny : p == Precision::follow ? OpClass::clear : OpClass::allow;
    if (p != Precision::fp32 && p != Precision::follow) v.paint.fixed = false;
  }

  bool has_data(int n) const {
    const SourceNode& node = g_.nodes[at(n)];
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int v) { return v >= 0 && data_[at(v)]; });
  }

  std::string shown(int vertex) const {
    const SourceNode& n = g_.nodes[at(vertices_[at(vertex)].nodes.back())];
    const Unit* u = vertices_[at(vertex)].unit;
    return cat("node '", printable(n.name), "' (", u ? u->kind : printable(n.op), ")");
  }

  void set(const Vertex& v, Compute c, const std::string& rule, const std::string& pass) {
    for (const int n : v.nodes) plan_.nodes[at(n)] = {c, v.cls, rule, pass};
  }

  void paint_all() {
    std::vector<PaintVertex> graph;
    for (const Vertex& v : vertices_) graph.push_back(v.paint);
    const std::vector<Painted> painted = paint(graph);
    for (size_t i = 0; i < vertices_.size(); ++i) {
      const Vertex& v = vertices_[i];
      const Painted& p = painted[i];
      if (v.pass == "safety") {
        set(v, Compute::f32, v.rule, v.pass);
      } else if (p.low || (!v.paint.fixed && p.pass != PaintPass::cls)) {
        set(v, p.low ? low_ : Compute::f32, p.cause < 0 ? v.rule : shown(p.cause), std::string(name_of(p.pass)));
      } else {
        set(v, Compute::f32, v.rule, v.pass);
      }
    }
  }

  // PyTorch: the type of the widest floating input. Weights, inputs and tables are fp32 tensors; one-element constants
  // are Python numbers and do not promote.
  Compute widest_input(const Vertex& v) const {
    bool any = false;
    Compute widest = Compute::f32;
    const auto see = [&](int value) {
      const SourceValue& s = g_.values[at(value)];
      const int64_t elements = s.data ? s.data.numel() : -1;
      if (!floating(value) || (elements == 1 && (s.kind == SourceKind::constant || s.data.rank() == 0))) return;
      const Compute c = s.producer < 0 ? Compute::f32 : plan_.nodes[at(s.producer)].compute;
      widest = any && c != widest ? Compute::f32 : c;
      any = true;
    };
    if (v.unit) {
      see(v.unit->input);
      return widest;
    }
    const SourceNode& n = g_.nodes[at(v.nodes[0])];
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] >= 0 && is_data_input(n, k) && (k == 0 || promotes(n) || !any)) see(n.inputs[k]);
    }
    return widest;
  }

  void follow_inputs() {
    std::vector<char> done(vertices_.size(), 0);
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      if (vertex_of_[i] < 0 || done[at(vertex_of_[i])]) continue;
      done[at(vertex_of_[i])] = 1;
      const Vertex& v = vertices_[at(vertex_of_[i])];
      if (v.paint.fixed || v.pass == "safety" || v.paint.cls == OpClass::deny) {
        set(v, Compute::f32, v.rule, v.pass);
      } else if (v.paint.cls == OpClass::allow) {
        set(v, low_, v.rule, "class");
      } else {
        set(v, widest_input(v), v.rule, "inputs");
      }
      for (const int n : v.nodes) apply_rule(n);  // what follows sees the rule's type
    }
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
      case Precision::follow: {
        Vertex alone;
        alone.nodes = {n};
        d.compute = widest_input(alone);
        break;
      }
    }
    d.rule = rule.source + (rule.why.empty() ? "" : ": " + rule.why);
    d.pass = "rule";
  }

  void apply_rules() {
    for (size_t n = 0; n < g_.nodes.size(); ++n) apply_rule(static_cast<int>(n));
    for (const auto& [n, why] : unsafe_) {
      if (eligible_[at(n)] && plan_.nodes[at(n)].compute != Compute::f32) {
        plan_.warnings.push_back(cat(g_.describe_node(n), " is ", name_of(plan_.nodes[at(n)].compute), " by ",
                                     plan_.nodes[at(n)].rule, ", although ", why));
      }
    }
  }

  // TensorFlow: an existing Cast all of whose readers are low casts straight to low. From bool only: 0 and 1 are exact,
  // integers are not.
  void cast_booleans() {
    const std::vector<std::vector<int>> users = g_.consumers();
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const SourceNode& n = g_.nodes[i];
      if (n.op != "Cast" || !eligible_[i] || rules_.of_node[i] >= 0 || n.inputs.empty() || n.inputs[0] < 0) continue;
      if (types_[at(n.inputs[0])] != DType::boolean || users[at(n.outputs[0])].empty()) continue;
      const std::vector<int>& readers = users[at(n.outputs[0])];
      if (std::all_of(readers.begin(), readers.end(),
                      [&](int u) { return eligible_[at(u)] && plan_.nodes[at(u)].compute == low_; }) &&
          low_ != Compute::f32) {
        plan_.nodes[i].compute = low_;
        plan_.nodes[i].rule = "all its readers are low";
        plan_.nodes[i].pass = "paint: cast of booleans";
      }
    }
  }

  void warn() {
    for (size_t r = 0; r < list_.rules.size(); ++r) {
      if (!rules_.matched[r]) plan_.warnings.push_back(list_.rules[r].source + " matches no node");
    }
    for (const std::string& op : unlisted_) {
      plan_.warnings.push_back(cat("operator '", printable(op), "' is unlisted in ", list_.name, ": treated as infer"));
    }
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      const auto it = list_.recorded.find(g_.nodes[n].name);
      if (it != list_.recorded.end() && it->second != name_of(plan_.nodes[n].compute)) {
        plan_.warnings.push_back(cat("the plan file records ", printable(it->second), " for ",
                                     g_.describe_node(static_cast<int>(n)), ", its lists and rules give ",
                                     name_of(plan_.nodes[n].compute), ": change rules, not nodes"));
      }
    }
  }

  const SourceGraph& g_;
  const OpList& list_;
  const Compute low_;
  const std::vector<DType> types_;
  const std::vector<char> data_;
  std::vector<char> eligible_, in_unit_;
  std::vector<Unit> units_;
  std::vector<int> vertex_of_;  // by node, -1: not eligible
  std::vector<Vertex> vertices_;
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
