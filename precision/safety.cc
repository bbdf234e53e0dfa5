// One forward pass propagates three properties of values: derived from a huge constant; unscaled integer of a
// quantizer; small constant that 16 bits would lose (this one only reaches the direct readers). epsilon.cc adds the
// paths of epsilons.
#include "precision/safety.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "graph/quantizer.h"
#include "precision/epsilon.h"
#include "precision/float_types.h"
#include "precision/range.h"
#include "precision/units.h"

namespace amp {

namespace {

// Returns the element of largest magnitude if it is beyond fp16's range, else 0.
double beyond_half(const HostTensor& t) {
  double worst = 0;
  const auto see = [&](double v) {
    if (std::abs(v) > kMaxHalf && !(std::abs(v) <= std::abs(worst))) worst = v;
  };
  if (t.dtype() == DType::f32) {
    const float* p = t.as<float>();
    for (int64_t i = 0; i < t.numel(); ++i) see(p[i]);
  } else {
    for (const double v : t.to_doubles()) see(v);
  }
  return worst;
}

// Returns whether 16 bits would round most elements of a weight to 0, or to a subnormal number with an error of at
// least 10 %.
bool fades(const HostTensor& t) {
  constexpr float kFew = 5 * 0x1p-24F;
  if (t.dtype() != DType::f32) return false;
  const float* p = t.as<float>();
  int64_t small = 0, other = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (p[i] != 0) ++(std::abs(p[i]) < kFew ? small : other);
  }
  return small > other;
}

bool reads_as_bound(const SourceNode& n) { return n.op == "Clip" || n.op == "Max" || n.op == "Min" || n.op == "Pad"; }

// Returns whether the operator's result is an integer if all operands are integers.
bool keeps_integers(const SourceNode& n) {
  static const std::set<std::string_view> ops = {
      "Round",   "Clip",      "Add",      "Sub",   "Cast",  "Transpose",     "Reshape", "Flatten",
      "Squeeze", "Unsqueeze", "Identity", "Slice", "Split", "Concat",        "Gather",  "Pad",
      "Relu",    "MaxPool",   "MatMul",   "Gemm",  "Conv",  "ConvTranspose", "Sum",     "ReduceSum"};
  return n.domain.empty() && ops.count(n.op);
}

}  // namespace

std::map<int, std::string> unsafe_nodes(const SourceGraph& g, const std::vector<DType>& types,
                                        const std::vector<UnitSafety>& in_unit, DType low,
                                        std::vector<std::string>& warnings) {
  std::map<int, std::string> out;
  std::vector<std::string> huge(g.values.size()), lost(g.values.size());
  std::vector<char> integers(g.values.size(), 0);  // indexed by value: 1 for quantized values that are not scaled yet
  for (size_t v = 0; v < g.values.size(); ++v) {
    const SourceValue& value = g.values[v];
    const bool weight = value.kind == SourceKind::parameter;
    if (!value.data || !is_float(value.data.dtype()) || (weight && low != DType::f16)) continue;
    if (const double worst = beyond_half(value.data); worst != 0) {
      huge[v] = cat(weight ? "weight '" : "constant '", printable(g.shown(static_cast<int>(v))), "' holds ", worst,
                    ", beyond fp16's 65504");
      if (weight) warnings.push_back(huge[v] + ": the nodes that read it stay fp32");
    } else if (value.data.numel() == 1) {
      const double c = value.data.to_doubles()[0];
      if (is_lost(c, low)) {
        lost[v] = cat(weight ? "weight '" : "constant '", printable(value.name), "' = ", c, " would be ",
                      rounded(c, low), " in ", name_of(low));
      }
    } else if (weight && fades(value.data)) {
      lost[v] = cat("most of weight '", printable(g.shown(static_cast<int>(v))), "' is too small for fp16");
    }
  }
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const SourceNode& n = g.nodes[i];
    std::string reason, passed_on;
    const bool reads = std::any_of(n.inputs.begin(), n.inputs.end(),
                                   [&](int v) { return v >= 0 && integers[static_cast<size_t>(v)]; });
    if (n.attrs.has(kStraightThrough) || (reads && keeps_integers(n))) {
      for (const int o : n.outputs) {
        if (o >= 0) integers[static_cast<size_t>(o)] = 1;
      }
    }
    if (reads || n.attrs.has(kQuantizerData)) reason = "it computes with the integers of a quantizer";
    if (in_unit[i] == UnitSafety::all) continue;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] < 0) continue;
      const auto v = static_cast<size_t>(n.inputs[k]);
      const bool constant = g.values[v].kind == SourceKind::constant;
      if (!huge[v].empty() && !(constant && reads_as_bound(n))) reason = passed_on = huge[v];
      if (!lost[v].empty() && in_unit[i] == UnitSafety::none && reason.empty()) reason = lost[v];
    }
    const HostTensor* fill = n.op == "ConstantOfShape" || n.op == "Constant" ? n.attrs.tensor("value") : nullptr;
    if (fill && is_float(fill->dtype()) && beyond_half(*fill) != 0) {
      reason = passed_on = cat("its value ", beyond_half(*fill), " is beyond fp16's 65504");
    }
    if (!reason.empty()) out[static_cast<int>(i)] = reason;
    if (passed_on.empty() || !keeps_range(n)) continue;
    for (const int o : n.outputs) {
      if (o >= 0 && is_float(types[static_cast<size_t>(o)])) huge[static_cast<size_t>(o)] = passed_on;
    }
  }
  std::vector<char> skip(g.nodes.size());
  for (size_t i = 0; i < skip.size(); ++i) skip[i] = in_unit[i] != UnitSafety::none;
  out.merge(epsilon_nodes(g, skip, low));
  return out;
}

std::vector<char> epsilon_in_fp32(const SourceGraph& g, DType low) {
  std::vector<char> skip(g.nodes.size(), 0), wide(g.nodes.size(), 0);
  for (const Unit& u : find_units(g)) {
    for (const int n : u.nodes) skip[at(n)] = keeps_epsilon(g, u);
  }
  for (const auto& [n, why] : epsilon_nodes(g, skip, low)) wide[at(n)] = 1;
  return wide;
}

}  // namespace amp
