#include "run/model/operator_advice.h"

#include "base/cat.h"
#include "base/text.h"

namespace amp {

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
  if (n.domain == "com.microsoft") return "save the model without onnxruntime's fusions (optimization level basic)";
  if (n.domain == "org.pytorch.aten") return "export it again without ATen fallback (operator_export_type)";
  if (n.domain.empty() && n.op == "NonMaxSuppression")
    return "it chooses among a detector's boxes and has no gradient: name an output before it with `output`";
  return {};
}

}  // namespace amp
