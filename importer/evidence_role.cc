// Roles that a tensor plays in a pattern of several nodes: the vectors of a spectral norm's power iteration, random
// Fourier features, codebooks, scalers of targets.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "importer/evidence_position.h"

namespace amp {
namespace {

bool rearranges(const SourceNode& n, int input) { return n.op != "Concat" && is_view(n, input); }

int64_t wide_dims(const HostTensor& t) {
  return std::count_if(t.dims().begin(), t.dims().end(), [](int64_t d) { return d != 1; });
}

}  // namespace

bool PositionEvidence::learnable(int v) const {
  if (!reached_[static_cast<size_t>(v)] || rotary(v) || power_iteration(v) || fourier_features(v) != 0) return false;
  const std::vector<Use> all = uses(v);
  return !std::all_of(all.begin(), all.end(), [](const Use& u) { return blocks_gradient(u.at(), u.site_input); });
}

// sigma = u . (W v), W / sigma: a vector that meets weights only, in products, and whose result only divides what is
// computed from weights.
bool PositionEvidence::power_iteration(int v) const {
  if (value(v).data.numel() < 2 || wide_dims(value(v).data) > 1) return false;
  std::set<int> seen = {v};
  std::vector<int> open = {v};
  bool multiplied = false, divides = false;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (std::find(g_.outputs.begin(), g_.outputs.end(), at) != g_.outputs.end()) return false;
    for (const int user : consumers_[static_cast<size_t>(at)]) {
      if (!live_[static_cast<size_t>(user)]) continue;
      const SourceNode& n = node(user);
      const auto data = [&](int i) { return i >= 0 && carries_data_[static_cast<size_t>(i)]; };
      if (std::any_of(n.inputs.begin(), n.inputs.end(), data)) return false;
      const int input = static_cast<int>(std::find(n.inputs.begin(), n.inputs.end(), at) - n.inputs.begin());
      if ((n.op == "Div" && input == 1 && n.inputs[0] != at) || n.op == "Reciprocal") {
        divides = true;
        continue;
      }
      const bool product = one_of(n.op, {"MatMul", "Mul", "Gemm", "Einsum"});
      multiplied = multiplied || product;
      if (!product && !rearranges(n, input) && !one_of(n.op, {"ReduceSum", "Abs", "Max", "Clip", "Add"})) return false;
      for (const int o : n.outputs) {
        if (o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  return multiplied && divides;
}

// cos(x W + b), or cos and sin of it. Sin alone is an activation (SIREN).
double PositionEvidence::fourier_features(int v) const {
  if (wide_dims(value(v).data) < 2) return 0;
  std::set<int> seen = {v};
  std::vector<int> open = {v};
  bool product = false, cosine = false, sine = false;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int user : consumers_[static_cast<size_t>(at)]) {
      if (!live_[static_cast<size_t>(user)]) continue;
      const SourceNode& n = node(user);
      const int input = static_cast<int>(std::find(n.inputs.begin(), n.inputs.end(), at) - n.inputs.begin());
      cosine = cosine || n.op == "Cos";
      sine = sine || n.op == "Sin";
      const bool multiplies = one_of(n.op, {"MatMul", "Gemm"});
      if (multiplies && product) continue;  // another layer
      if (!multiplies && !rearranges(n, input) && !one_of(n.op, {"Add", "Mul"})) continue;
      if (one_of(n.op, {"Add", "Mul"}) &&
          !std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return i != at && constant(i); }))
        continue;
      product = product || multiplies;
      for (const int o : n.outputs) {
        if (o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  return product && cosine ? (sine ? -4 : -3) : 0;
}

// A table that a product compares with data, and whose row is looked up by the place of the best.
bool PositionEvidence::codebook(int v) const {
  bool looked_up = false, compared = false;
  for (const Use& u : uses(v)) {
    if (u.graph != &g_) return false;
    const SourceNode& n = u.at();
    compared = compared || one_of(n.op, {"MatMul", "Gemm", "Sub", "Mul", "Pow", "Einsum"});
    if (n.op != "Gather" || u.site_input != 0) continue;
    int indices = n.inputs.size() > 1 ? n.inputs[1] : -1;
    for (int steps = 0; steps < 6 && indices >= 0; ++steps) {
      const int p = value(indices).producer;
      if (p < 0) break;
      if (one_of(node(p).op, {"ArgMin", "ArgMax", "TopK"})) {
        looked_up = true;
        break;
      }
      indices = rearranges(node(p), 0) ? node(p).inputs[0] : -1;
    }
  }
  return looked_up && compared;
}

// y * scale + mean behind the last layer's bias: targets were standardised. Both steps must be there.
bool PositionEvidence::unstandardises(const Use& u, const HostTensor& data) const {
  if (u.graph != &g_ || wide_dims(data) > 1) return false;
  const auto affine = [&](const SourceNode& n, const char* op) {
    return n.op == op && n.inputs.size() == 2 && std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) {
             return constant(i) && is_float(value(i).data.dtype()) && wide_dims(value(i).data) <= 1;
           });
  };
  const SourceNode& n = u.at();
  const SourceNode* scale = &n;
  if (n.op == "Add") {  // the Mul before it
    const auto before = std::find_if(n.inputs.begin(), n.inputs.end(), [&](int i) {
      return i >= 0 && value(i).producer >= 0 && affine(node(value(i).producer), "Mul");
    });
    if (before == n.inputs.end()) return false;
    scale = &node(value(*before).producer);
  }
  if (!affine(*scale, "Mul") || scale->outputs.empty()) return false;
  const std::vector<int>& users = consumers_[static_cast<size_t>(scale->outputs[0])];
  if (users.size() != 1 || !affine(node(users[0]), "Add")) return false;
  int out = node(users[0]).outputs[0];
  for (int steps = 0; steps < 4; ++steps) {
    if (std::find(g_.outputs.begin(), g_.outputs.end(), out) != g_.outputs.end()) break;
    const std::vector<int>& next = consumers_[static_cast<size_t>(out)];
    if (next.size() != 1 || !rearranges(node(next[0]), 0)) return false;
    out = node(next[0]).outputs[0];
  }
  if (std::find(g_.outputs.begin(), g_.outputs.end(), out) == g_.outputs.end()) return false;
  // What is scaled is a layer's result with its own bias; right behind a norm scale and shift are the norm's.
  for (const int i : scale->inputs) {
    const int p = i < 0 ? -1 : value(i).producer;
    if (p < 0) continue;
    const SourceNode& layer = node(p);
    if (one_of(layer.op, {"Gemm", "Conv", "ConvTranspose"})) return layer.inputs.size() > 2 && layer.inputs[2] >= 0;
    if (layer.op == "Add")
      return std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int k) { return constant(k); });
    return one_of(layer.op, {"Tanh", "Sigmoid", "Squeeze", "Reshape"});
  }
  return false;
}

}  // namespace amp
