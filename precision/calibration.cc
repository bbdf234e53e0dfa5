// Derives a loss scale and fp32 rules from histograms of values and gradients (range.h). Groups of nodes whose values
// overflow 16 bits at any loss scale are set apart first. Then the loss scale is chosen so that few of the other groups
// have large gradient errors. These other groups are ranked by error.
#include "precision/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "precision/float_types.h"
#include "precision/plan_graph.h"
#include "precision/units.h"

namespace amp {

namespace {

constexpr double kHeadroom = 2;
constexpr double kMaxScale = 16777216;  // 2^24
// A larger relative error (PlanGroup::error) than this is more than rounding.
constexpr double kPoor = 0x1p-6;

std::string digits(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

class Judge {
 public:
  Judge(const SourceGraph& g, const PrecisionPlan& plan, const std::vector<NodeRanges>& nodes,
        const std::vector<ValueRange>& inputs)
      : g_(g), plan_(plan), nodes_(nodes), leaves_(inputs), p_(make_plan_graph(g, plan.list)) {
    leaves_.resize(g.values.size());
    for (size_t v = 0; v < g.values.size(); ++v) {
      const SourceValue& value = g.values[v];
      if (value.kind != SourceKind::parameter || !value.data || !is_float(value.data.dtype())) continue;
      const HostTensor data = value.data.cast(DType::f32);
      leaves_[v].add(data.as<float>(), data.numel());
    }
    groups_.resize(p_.vertices.size());
    ranges_.resize(p_.vertices.size());
    for (size_t v = 0; v < p_.vertices.size(); ++v) {
      for (const int n : p_.vertices[v].nodes) {
        ranges_[v].value.merge(nodes[at(n)].value);
        ranges_[v].gradient.merge(nodes[at(n)].gradient);
        if (plan.nodes[at(n)].compute != Compute::f32) groups_[v].nodes.push_back(n);
      }
    }
  }

  Calibration run() {
    find_overflow();
    choose_scale();
    for (size_t v = 0; v < groups_.size(); ++v) {
      PlanGroup& group = groups_[v];
      if (group.nodes.empty()) continue;
      if (!group.why.empty()) {
        group.error = std::numeric_limits<double>::infinity();
        out_.overflow.push_back(group);
      } else {
        explain(v, group);
        out_.ranked.push_back(group);
      }
    }
    std::stable_sort(out_.ranked.begin(), out_.ranked.end(), [](const PlanGroup& a, const PlanGroup& b) {
      return a.error != b.error ? a.error > b.error : a.nodes[0] > b.nodes[0];
    });
    return std::move(out_);
  }

 private:
  bool too_large(const ValueRange& r) const { return plan_.low == DType::f16 && r.max() * kHeadroom > kMaxHalf; }

  const ValueRange* range_of(int value) const {
    const int n = value < 0 ? -1 : g_.values[at(value)].producer;
    if (n < 0) return value < 0 || g_.values[at(value)].kind == SourceKind::constant ? nullptr : &leaves_[at(value)];
    const int v = p_.vertex_of[at(n)];
    return v < 0 ? &nodes_[at(n)].value : &ranges_[at(v)].value;
  }

  std::string reach(const ValueRange& r) const {
    const double share = r.overflow(DType::f16);
    std::string out = cat(digits(r.max()), r.max() > kMaxHalf ? ", beyond fp16's 65504" : ", near fp16's 65504");
    if (share > 0) out += cat(" (", digits(100 * share), " % of the elements beyond)");
    return out;
  }

  void find_overflow() {
    for (size_t v = 0; v < groups_.size(); ++v) {
      PlanGroup& group = groups_[v];
      if (group.nodes.empty()) continue;
      if (too_large(ranges_[v].value)) group.why = "what it computes reaches " + reach(ranges_[v].value);
      for (const int n : group.nodes) {
        const SourceNode& node = g_.nodes[at(n)];
        for (size_t k = 0; k < node.inputs.size() && group.why.empty(); ++k) {
          const ValueRange* r = range_of(node.inputs[k]);
          if (!r || !is_data_input(node, k) || !too_large(*r)) continue;
          group.why = cat("it reads '", printable(g_.shown(node.inputs[k])), "', which reaches ", reach(*r));
        }
      }
    }
  }

  // Chooses the loss scale. If a few groups have far larger gradients than the rest, keeping these groups in fp32 may
  // allow a larger scale for the rest.
  void choose_scale() {
    if (plan_.low != DType::f16) return;
    std::vector<size_t> order;
    for (size_t v = 0; v < groups_.size(); ++v) {
      if (!groups_[v].nodes.empty() && groups_[v].why.empty() && ranges_[v].gradient.max() > 0) order.push_back(v);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return ranges_[a].gradient.max() > ranges_[b].gradient.max(); });
    size_t best = 0, best_cost = order.size() + 1;
    for (size_t out = 0; out < std::min<size_t>(order.size(), 32); ++out) {
      const double scale = scale_for(ranges_[order[out]].gradient.max());
      size_t cost = out;
      for (size_t i = out; i < order.size(); ++i) {
        cost += ranges_[order[i]].gradient.rounding_error(DType::f16, scale) > kPoor;
      }
      if (cost >= best_cost) continue;
      best = out;
      best_cost = cost;
    }
    out_.loss_scale = order.empty() ? 65536 : scale_for(ranges_[order[best]].gradient.max());
    for (size_t i = 0; i < best; ++i) {
      groups_[order[i]].why =
          cat("its gradients reach ", digits(ranges_[order[i]].gradient.max()), ": at a loss scale that fits them (",
              digits(scale_for(ranges_[order[i]].gradient.max())), ") other nodes' gradients would vanish");
    }
  }
  static double scale_for(double gradient) {
    return std::clamp(std::exp2(std::floor(std::log2(kMaxHalf / kHeadroom / gradient))), 1.0, kMaxScale);
  }

  void explain(size_t v, PlanGroup& group) const {
    const double scale = plan_.low == DType::f16 ? out_.loss_scale : 1;
    const auto see = [&](const ValueRange& r, double by, const std::string& what) {
      const double error = r.rounding_error(plan_.low, by);
      if (!(error > group.error)) return;
      group.error = error;
      const double lost = r.underflow(plan_.low, by);
      group.why = cat(what, " would be off by ", digits(error), " of their norm in ", name_of(compute_of(plan_.low)));
      if (lost > 0) group.why += cat(", ", digits(100 * lost), " % of them 0");
      if (by != 1) group.why += cat(", at loss scale ", digits(by));
    };
    see(ranges_[v].value, 1, "its values");
    see(ranges_[v].gradient, scale, "its gradients");
    for (const int n : group.nodes) {
      const SourceNode& node = g_.nodes[at(n)];
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueRange* r = range_of(node.inputs[k]);
        if (r && is_data_input(node, k)) see(*r, 1, cat("'", printable(g_.shown(node.inputs[k])), "'s elements"));
      }
    }
  }

  const SourceGraph& g_;
  const PrecisionPlan& plan_;
  const std::vector<NodeRanges>& nodes_;
  std::vector<ValueRange> leaves_;  // ranges of graph inputs and parameters, by value
  PlanGraph p_;
  std::vector<PlanGroup> groups_;   // indexed by vertex of the PlanGraph; without nodes if the group is already fp32
  std::vector<NodeRanges> ranges_;  // indexed by vertex
  Calibration out_;
};

}  // namespace

Calibration summarize_ranges(const SourceGraph& g, const PrecisionPlan& plan, const std::vector<NodeRanges>& nodes,
                             const std::vector<ValueRange>& inputs) {
  return Judge(g, plan, nodes, inputs).run();
}

std::vector<PrecisionRule> rules_for(const SourceGraph& g, const PlanGroup& group) {
  std::vector<PrecisionRule> out;
  for (const int n : group.nodes) {
    PrecisionRule rule;
    // The node's name is used as a glob that matches itself: `*` and `[` are replaced by `?`.
    for (const char c : g.nodes[at(n)].name) rule.node += c == '*' || c == '[' ? '?' : c;
    rule.precision = Precision::fp32;
    rule.why = group.why;
    rule.source = "calibration";
    out.push_back(rule);
  }
  return out;
}

}  // namespace amp
