// Follows an output backward through Identity and Cast to its activation. The meaning of Softmax's axis changed in
// opset 13, which over_classes() accounts for.
#include "importer/discover/output_activation.h"

#include <algorithm>

#include "importer/surgery/edit.h"

namespace amp {

namespace {

bool floating_cast(const SourceNode& n) {
  const int64_t to = n.attrs.i("to", 0);  // TensorProto values of float, float16, double, bfloat16
  return n.op == "Cast" && (to == 1 || to == 10 || to == 11 || to == 16);
}

bool over_classes(const SourceGraph& g, const SourceNode& n) {
  const SourceValue& x = g.values[static_cast<size_t>(n.outputs.at(0))];
  const SourceValue& in = g.values[static_cast<size_t>(n.inputs.at(0))];
  const int64_t axis = n.attrs.i("axis", n.version < 13 ? 1 : -1);
  if (axis == -1) return true;
  const int64_t rank = x.rank_known    ? static_cast<int64_t>(x.dims.size())
                       : in.rank_known ? static_cast<int64_t>(in.dims.size())
                                       : -1;
  if (rank < 0) return false;
  if (axis == rank - 1) return true;
  // For [B, C, ...], axis 1 separates the classes only since opset 13. Before, Softmax flattened all dims from the axis
  // on into one dim.
  return n.version >= 13 && (axis == 1 || axis == 1 - rank);
}

const SourceNode* producer_of(const SourceGraph& g, int value) {
  const int p = value < 0 ? -1 : g.value(value).producer;
  return p < 0 ? nullptr : &g.nodes[static_cast<size_t>(p)];
}

// True for Sub(1, p), where p is `positive`.
bool is_opposite(const SourceGraph& g, int value, int positive) {
  const SourceNode* n = producer_of(g, value);
  if (!n || !n->domain.empty() || n->op != "Sub" || n->inputs.size() != 2 || n->inputs[1] != positive) return false;
  const SourceValue& one = g.value(n->inputs[0]);
  return one.data && one.data.numel() == 1 && is_float(one.data.dtype()) && one.data.to_doubles()[0] == 1;
}

bool is_sigmoid(const SourceGraph& g, int value) {
  const auto end = output_activation(g, value);
  return end && end->op == "Sigmoid";
}

bool learns(const SourceGraph& g, int value) {
  const std::vector<char> needed = upstream_of(g, {value});
  for (size_t v = 0; v < needed.size(); ++v) {
    if (needed[v] && g.values[v].kind == SourceKind::parameter && g.values[v].trainable) return true;
  }
  return false;
}

}  // namespace

std::optional<OutputActivation> output_activation(const SourceGraph& g, int value) {
  for (int v = value; v >= 0;) {
    const int producer = g.values[static_cast<size_t>(v)].producer;
    if (producer < 0) return std::nullopt;
    const SourceNode& n = g.nodes[static_cast<size_t>(producer)];
    if (!n.domain.empty() || n.inputs.empty() || n.inputs[0] < 0) return std::nullopt;
    if (n.op == "Identity" || floating_cast(n)) {
      v = n.inputs[0];
      continue;
    }
    const bool softmax = n.op == "Softmax" || n.op == "LogSoftmax";
    if (n.op != "Sigmoid" && !(softmax && over_classes(g, n))) return std::nullopt;
    return OutputActivation{n.op, n.inputs[0]};
  }
  return std::nullopt;
}

bool ends_in_probabilities(const SourceGraph& g, int value) {
  const SourceNode* n = producer_of(g, value);
  while (n && n->domain.empty() && (n->op == "Identity" || floating_cast(*n)) && !n->inputs.empty())
    n = producer_of(g, value = n->inputs[0]);
  if (!n) return false;
  if (n->domain == "ai.onnx.ml") {
    if (n->op == "Normalizer") return n->attrs.s("norm", "MAX") == "L1";
    const std::string post = n->attrs.s("post_transform", "NONE");
    return n->op == "LinearClassifier" && n->outputs.size() > 1 && n->outputs[1] == value &&
           (post == "SOFTMAX" || post == "LOGISTIC");
  }
  if (!n->domain.empty() || n->op != "Concat" || n->inputs.size() != 2) return false;
  return is_opposite(g, n->inputs[0], n->inputs[1]) && is_sigmoid(g, n->inputs[1]);
}

std::vector<int> own_losses(const SourceGraph& g) {
  std::vector<int> all, named;
  for (const int v : g.outputs) {
    const SourceValue& x = g.values[static_cast<size_t>(v)];
    const bool scalar =
        x.rank_known && std::all_of(x.dims.begin(), x.dims.end(), [](const Dim& d) { return d.value == 1; });
    if (x.kind != SourceKind::temp || !scalar || (x.dtype_known && !is_float(x.dtype)) || !learns(g, v)) continue;
    all.push_back(v);
    std::string name = x.name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
    if (name.ends_with("loss")) named.push_back(v);
  }
  return named.empty() ? all : named;
}

}  // namespace amp
