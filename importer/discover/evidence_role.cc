// Evidence from patterns of several nodes: power iteration of a spectral norm, random Fourier features, codebooks,
// scalers of inputs and targets. Each test follows readers or producers for a few steps, and fails if another node
// reads a value in between.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "importer/discover/evidence_position.h"
#include "importer/discover/fixed_pattern.h"
#include "importer/discover/tensor_values.h"

namespace amp {
namespace {

bool rearranges(const SourceNode& n, int input) { return n.op != "Concat" && is_view(n, input); }

int64_t wide_dims(const HostTensor& t) {
  return std::count_if(t.dims().begin(), t.dims().end(), [](int64_t d) { return d != 1; });
}

// True for at least 16 values that fill the interval from 0 to 2 pi.
bool full_turn(const HostTensor& t) {
  if (!t || !is_float(t.dtype()) || t.numel() < 16 || t.numel() > (1 << 20) || wide_dims(t) > 1) return false;
  const std::vector<double> x = t.to_doubles();
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  return *least >= 0 && *least < 1 && *most > 5 && *most <= 6.2832;
}

}  // namespace

void PositionEvidence::weigh_roles(int v, const std::vector<Use>& uses, std::vector<Evidence>& out) const {
  if (power_iteration(v)) out.push_back({"a vector of a power iteration: it only scales a weight down", -9});
  if (const double w = fourier_features(v); w != 0)
    out.push_back({"a projection of Fourier features: Cos reads its product", w});
  if (random_phase(v)) out.push_back({"phases of random Fourier features", -12});
  if (lerp_center(v)) out.push_back({"subtracted, and added again later: a running average", -4});
  if (whitening(v, uses) || whitening_mean(v, uses))
    out.push_back({"a product after a subtracted mean: principal components or a whitening", -4});
  if (scaler(v, uses)) out.push_back({"it standardizes a graph input, and its inverse is applied later: a scaler", -7});
  if (codebook(v)) out.push_back({"a codebook: the nearest of its rows is looked up", -1.5});
  if (rounded_copy(v))
    out.push_back({"a weight over its quantization step, computed by the exporter and rounded", -12});
  if (joined_token(v)) out.push_back({"joined to tokens, all of which a table of positions is added to", 12});
  if (rotary(v)) out.push_back({"rotary frequencies: it reaches Cos or Sin with positions only", -9});
}

bool PositionEvidence::learnable(int v) const {
  if (!reached_[static_cast<size_t>(v)] || rotary(v) || power_iteration(v) || fourier_features(v) != 0) return false;
  const std::vector<Use> all = uses(v);
  return !std::all_of(all.begin(), all.end(), [](const Use& u) { return blocks_gradient(u.at(), u.site_input); });
}

// True for a vector u or v of a spectral norm, which computes sigma = u . (W v) and W / sigma. Such a vector is only
// multiplied by weights, and the result only divides values that are computed from weights.
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
      if (reads_data(n)) return false;
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

// True if convolutions or products use the output of the node `wave` (a Sin or Cos) as a weight. The output is then a
// filter bank that the graph computes from the frequencies.
bool PositionEvidence::becomes_kernel(const SourceNode& wave) const {
  std::set<int> seen(wave.outputs.begin(), wave.outputs.end());
  std::vector<int> open(wave.outputs.begin(), wave.outputs.end());
  bool kernel = false;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (const int user : consumers_[static_cast<size_t>(at)]) {
      if (!live_[static_cast<size_t>(user)]) continue;
      const SourceNode& n = node(user);
      const bool meets_data = reads_data(n);
      if (meets_data && !one_of(n.op, {"Conv", "MatMul", "Gemm"})) return false;
      kernel = kernel || meets_data;
      for (const int o : n.outputs) {
        if (!meets_data && o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  return kernel;
}

// Detects W in cos(x W + b), with or without a sine of the same product. A sine without a cosine is an activation
// (SIREN). The evidence is strongest if x holds coordinates or b holds phases between 0 and 2 pi, because W was then
// sampled once and kept fixed.
double PositionEvidence::fourier_features(int v) const {
  if (wide_dims(value(v).data) < 2) return 0;
  std::set<int> seen = {v};
  std::vector<int> open = {v};
  bool product = false, cosine = false, sine = false, phases = false, coordinates = false;
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
      if (multiplies && product) continue;  // this product belongs to a later layer
      if (!multiplies && !rearranges(n, input) && !one_of(n.op, {"Add", "Mul"})) continue;
      if (one_of(n.op, {"Add", "Mul"}) &&
          !std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return i != at && constant(i); }))
        continue;
      product = product || multiplies;
      for (const int i : n.inputs) {
        if (i < 0 || i == at) continue;
        phases = phases || (n.op != "Mul" && full_turn(value(i).data));
        coordinates = coordinates || (multiplies && input_like_[static_cast<size_t>(i)]);
      }
      for (const int o : n.outputs) {
        if (o >= 0 && seen.insert(o).second) open.push_back(o);
      }
    }
  }
  if (!product || !cosine) return 0;
  return phases ? -9 : sine && coordinates ? -7 : sine ? -4 : -3;
}

// True for phases b between 0 and 2 pi in cos(x W + b).
bool PositionEvidence::random_phase(int v) const {
  if (!full_turn(value(v).data)) return false;
  const std::vector<Use> all = uses(v);
  return std::all_of(all.begin(), all.end(), [&](const Use& u) {
    if (u.graph != &g_ || !(after_product(u) || (u.at().op == "Gemm" && u.site_input == 2))) return false;
    int sum = u.at().outputs[0];
    for (int steps = 0; steps < 4; ++steps) {
      const std::vector<int>& next = consumers_[static_cast<size_t>(sum)];
      if (next.size() != 1) return false;
      if (node(next[0]).op == "Cos") return true;
      if (!rearranges(node(next[0]), 0)) return false;
      sum = node(next[0]).outputs[0];
    }
    return false;
  });
}

// Detects the center in center + psi * (x - center), the truncation of a latent code. The center is not trained,
// because its gradient nearly cancels. Some layers first add a vector and subtract it again later; because of this
// order they are not detected.
bool PositionEvidence::lerp_center(int v) const {
  if (wide_dims(value(v).data) > 1) return false;
  int subtracted = -1, added = -1;
  for (const Use& u : uses(v)) {
    if (u.graph != &g_) return false;
    if (u.at().op == "Sub" && u.site_input == 1 && subtracted < 0)
      subtracted = u.node;
    else if (u.at().op == "Add" && added < 0)
      added = u.node;
    else
      return false;
  }
  return subtracted >= 0 && subtracted < added;
}

bool PositionEvidence::without_bias(const SourceNode& product) const {
  if (product.inputs.size() > 2 && product.inputs[2] >= 0) return false;
  int out = product.outputs.empty() ? -1 : product.outputs[0];
  for (int steps = 0; steps < 4 && out >= 0; ++steps) {
    const std::vector<int>& next = consumers_[static_cast<size_t>(out)];
    if (next.size() != 1) return true;
    const SourceNode& n = node(next[0]);
    if (n.op == "Add") return !std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) { return constant(i); });
    if (!rearranges(n, 0)) return true;
    out = n.outputs[0];
  }
  return true;
}

// True for W in (x - mean) W without a bias, where x - mean is not divided by a deviation. Also true for W in x W
// without a bias, where x is a graph input and the rows or columns of W are orthogonal.
bool PositionEvidence::whitening(int v, const std::vector<Use>& uses) const {
  return std::all_of(uses.begin(), uses.end(), [&](const Use& u) {
    const SourceNode& n = u.at();
    if (u.graph != &g_ || !one_of(n.op, {"MatMul", "Gemm"}) || u.site_input > 1 || !without_bias(n)) return false;
    int other = n.inputs[u.site_input == 0 ? 1 : 0];
    if (other >= 0 && input_like_[static_cast<size_t>(other)]) {
      const auto pattern = fixed_pattern(value(v).data);
      if (pattern && !pattern->certain) return true;
    }
    for (int steps = 0; steps < 4 && other >= 0; ++steps) {
      const int p = value(other).producer;
      if (p < 0) return false;
      if (node(p).op == "Sub") return constant(node(p).inputs[1]) && wide_dims(value(node(p).inputs[1]).data) == 1;
      if (!rearranges(node(p), 0)) return false;
      other = node(p).inputs[0];
    }
    return false;
  });
}

// True for the mean in (x - mean) W without a bias.
bool PositionEvidence::whitening_mean(int v, const std::vector<Use>& uses) const {
  return wide_dims(value(v).data) == 1 && std::all_of(uses.begin(), uses.end(), [&](const Use& u) {
           if (u.graph != &g_ || u.at().op != "Sub" || u.site_input != 1) return false;
           int out = u.at().outputs[0];
           for (int steps = 0; steps < 4; ++steps) {
             const std::vector<int>& next = consumers_[static_cast<size_t>(out)];
             if (next.size() != 1) return false;
             const SourceNode& n = node(next[0]);
             if (one_of(n.op, {"MatMul", "Gemm"})) {
               const bool weights = n.inputs.size() >= 2 && n.inputs[0] == out && constant(n.inputs[1]);
               return weights && without_bias(n);
             }
             if (!rearranges(n, 0)) return false;
             out = n.outputs[0];
           }
           return false;
         });
}

// Detects a mean or deviation that is used twice: to standardize a graph input, as in (input - mean) / deviation, and
// to undo this later, as in y * deviation + mean.
bool PositionEvidence::scaler(int v, const std::vector<Use>& uses) const {
  const HostTensor& data = value(v).data;
  if (wide_dims(data) > 1) return false;
  bool applied = false, undone = false;
  for (const Use& u : uses) {
    const SourceNode& n = u.at();
    if (u.graph != &g_) return false;
    const bool forward = one_of(n.op, {"Sub", "Div"}) && u.site_input == 1;
    if (!forward && n.op != "Add" && n.op != "Mul") return false;
    applied = applied || (forward && standardizes(u, data));
    undone = undone || !forward;
  }
  return applied && undone;
}

// True for a or b in x * a + b, which an exporter writes for a BatchNormalization of a graph input x. The caller checks
// that x is a graph input. Short decimals are excluded. Scalers have another form: they subtract and divide.
bool PositionEvidence::input_norm(const Use& u, const HostTensor& data) const {
  if (u.graph != &g_ || data.numel() < 2 || wide_dims(data) != 1 || printed_decimals(data)) return false;
  const auto affine = [&](const SourceNode& n, const char* op) {
    return n.op == op && std::any_of(n.inputs.begin(), n.inputs.end(),
                                     [&](int i) { return constant(i) && value(i).data.numel() == data.numel(); });
  };
  const SourceNode& n = u.at();
  if (affine(n, "Mul")) {
    const std::vector<int>& next = consumers_[static_cast<size_t>(n.outputs[0])];
    return next.size() == 1 && affine(node(next[0]), "Add");
  }
  return affine(n, "Add") && std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) {
           return i >= 0 && value(i).producer >= 0 && affine(node(value(i).producer), "Mul");
         });
}

// True for a product of data and a tensor, without a bias, that belongs to a larger module and not to one of the
// module's layers. A product that is a graph output is excluded, because it is a head.
bool PositionEvidence::raw_product(const Use& u) const {
  const SourceNode& n = u.at();
  if (u.graph != &g_ || u.site_input > 1 || !one_of(n.op, {"MatMul", "Gemm", "Conv", "ConvTranspose"})) return false;
  const int other = n.inputs[u.site_input == 0 ? 1 : 0];
  if (!carries_data(other) || !scopes_.raw(n) || !without_bias(n)) return false;
  return std::find(g_.outputs.begin(), g_.outputs.end(), n.outputs[0]) == g_.outputs.end();
}

// Returns the evidence against a tensor that a larger module, and not one of its layers, reads; 0 if there is none.
// Such a tensor is a parameter or a buffer of the module, and parameters usually have other evidence from their names.
// If many of the file's weights are read in this way, this is the author's style and not evidence.
double PositionEvidence::outside_of_layers(int v, const Use& u, Naming naming) const {
  const bool folded = naming == Naming::folded;
  if ((naming != Naming::module && !folded) || raw_is_usual_ || !reached_[static_cast<size_t>(v)]) return 0;
  if (raw_product(u)) return folded ? -4.5 : -3;
  if (u.graph != &g_ || !scopes_.raw(u.at())) return 0;
  if (u.at().op == "Gather") return folded ? -2.5 : -1.5;
  return after_product(u) ? (folded ? -4 : -3) : 0;
}

// True for the bias of a convolution or product whose matrix has a fixed pattern. False if the bias or the matrix has
// only one or two distinct values.
bool PositionEvidence::fixed_product(int v, const std::vector<Use>& uses) const {
  if (!learned_ || value(v).data.numel() < 2 || TensorValues(value(v).data).constant_valued()) return false;
  return std::all_of(uses.begin(), uses.end(), [&](const Use& u) {
    const SourceNode& n = u.at();
    if (u.graph != &g_ || u.site_input != 2 || !one_of(n.op, {"Conv", "ConvTranspose", "Gemm"})) return false;
    if (!constant(n.inputs[1]) || TensorValues(value(n.inputs[1]).data).constant_valued()) return false;
    const auto pattern = fixed_pattern(value(n.inputs[1]).data);
    return pattern && pattern->certain;
  });
}

// True for a table that arithmetic compares with data, and from which the graph then looks up the best-matching row.
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

// True for the scale or mean in y * scale + mean after the bias of the last layer, which undoes the standardization of
// targets. Both steps must be present.
bool PositionEvidence::unstandardizes(const Use& u, const HostTensor& data) const {
  if (u.graph != &g_ || wide_dims(data) > 1) return false;
  const auto affine = [&](const SourceNode& n, const char* op) {
    return n.op == op && n.inputs.size() == 2 && std::any_of(n.inputs.begin(), n.inputs.end(), [&](int i) {
             return constant(i) && is_float(value(i).data.dtype()) && wide_dims(value(i).data) <= 1;
           });
  };
  const SourceNode& n = u.at();
  const SourceNode* scale = &n;
  if (n.op == "Add") {  // find the Mul before the Add
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
  // The scaled value must be the result of a layer with a bias. After a norm, scale and shift belong to the norm.
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
