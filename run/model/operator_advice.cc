// Advice for operators that cannot train, and the refusal of graphs that need such an operator. The advice names what
// the user can do with the exporter; operators without advice get a general hint.
#include "run/model/operator_advice.h"

#include <algorithm>
#include <set>

#include "base/cat.h"
#include "base/error.h"
#include "base/text.h"
#include "graph/bind.h"
#include "importer/surgery/edit.h"

namespace amp {

namespace {
// Returns why an operator of decoders has no gradient here; empty for other operators.
std::string inference_only(const std::string& op) {
  if (one_of(op, {"QMoE", "MoE"}))
    return "a mixture of experts: neither its choice of experts nor its packed weights can be differentiated here; "
           "train a dense model of the family";
  if (op == "PagedAttention")
    return "it reads a paged cache that a server manages: build the folder with GroupQueryAttention";
  if (one_of(op, {"LinearAttention", "CausalConvWithState", "GatedDeltaNet", "SelectiveScan"}))
    return "it carries a recurrent state from token to token, whose gradient over a sequence is not implemented; train "
           "a model of the family with attention in all layers";
  if (one_of(op, {"DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention"}))
    return "it computes one new token beside a cache: build the folder with MultiHeadAttention or GroupQueryAttention";
  return {};
}
}  // namespace

std::string operator_advice(const SourceGraph& g, const SourceNode& n) {
  if (n.domain == "ai.onnx.ml") {
    if (n.op.rfind("TreeEnsemble", 0) == 0)
      return "decision trees have no gradients: forests and boosted trees cannot be trained by gradient descent";
    if (n.op == "ZipMap") {
      const bool named = !n.inputs.empty() && n.inputs[0] >= 0;
      return cat("export it again without ZipMap: to_onnx(..., options={'zipmap': False})",
                 named ? cat("; or leave it out with `output` '", printable(g.value(n.inputs[0]).name), "'") : "");
    }
    if (one_of(n.op, {"LinearRegressor", "SVMClassifier", "SVMRegressor"}))
      return "a linear model or SVM of scikit-learn is one operator without weights to train: `create tabular` makes a "
             "network for tables";
  }
  if (n.domain == "com.microsoft") {
    const std::string why = inference_only(n.op);
    return why.empty() ? "save the model without onnxruntime's fusions (optimization level basic)" : why;
  }
  if (n.domain == "org.pytorch.aten") return "export it again without ATen fallback (operator_export_type)";
  if (n.domain.empty() && n.op == "NonMaxSuppression")
    return "it chooses among a detector's boxes and has no gradient: name an output before it with `output`";
  return {};
}

namespace {
// Returns the names, as shown to users, of the trainable parameters from which the node can be reached.
std::set<std::string> blocked_parameters(const SourceGraph& g, int node) {
  std::vector<int> from = g.nodes[static_cast<size_t>(node)].inputs;
  std::erase(from, -1);
  const std::vector<char> needed = upstream_of(g, from);
  std::set<std::string> names;
  for (size_t v = 0; v < needed.size(); ++v) {
    if (needed[v] && g.values[v].kind == SourceKind::parameter && g.values[v].trainable)
      names.insert(g.shown(static_cast<int>(v)));
  }
  return names;
}
}  // namespace

void require_known_operators(const SourceGraph& g, const std::vector<int>& outputs) {
  const std::vector<int> unknown = unknown_operators(g, outputs);
  if (unknown.empty()) return;
  std::vector<std::string> lines, hints;
  for (const int n : unknown) {
    const std::string hint = operator_advice(g, g.nodes[static_cast<size_t>(n)]);
    if (!hint.empty() && std::find(hints.begin(), hints.end(), hint) == hints.end()) hints.push_back(hint);
    const auto blocked = blocked_parameters(g, n);
    std::string line = g.describe_node(n);
    if (!blocked.empty())
      line +=
          cat(" blocks ", blocked.size(), " parameters (", *blocked.begin(), blocked.size() > 1 ? ", ..." : "", ")");
    lines.push_back(line);
    if (lines.size() == 20) {
      lines.push_back(cat("... and ", unknown.size() - 20, " more"));
      break;
    }
  }
  fail(Exit::unsupported, "E_OP_UNSUPPORTED",
       cat(unknown.size(), " nodes have an operator that is not supported:\n  ", join(lines, "\n  ")),
       hints.empty() ? "`check` lists every node; a part that the loss does not need can be left out by `output`"
                     : join(hints, "; "));
}

}  // namespace amp
