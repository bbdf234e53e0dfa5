// ai.onnx.ml LinearClassifier (version 1): scores x w^T + b, probabilities by post_transform, and the label of the
// largest score. Weights are attributes of the node, so they are not trained; gradients pass to x.
#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

// Returns the scores (rows, classes).
ValueId scores(const Lowering& l) {
  Builder& b = l.b;
  const DType f = l.float_type();
  const std::vector<double> weights = l.attrs.floats("coefficients"), bias = l.attrs.floats("intercepts");
  const int64_t width = l.dims(0).back(), classes = width > 0 ? std::ssize(weights) / width : 0;
  if (classes * width != std::ssize(weights) || (!bias.empty() && std::ssize(bias) != classes))
    fail(Exit::model, "E_ATTR",
         cat("LinearClassifier: ", weights.size(), " coefficients and ", bias.size(), " intercepts for ", width,
             " columns"));
  if (classes < 2) l.unsupported("coefficients of one class");
  const ValueId w = b.constant(HostTensor::of<double>({classes, width}, weights).cast(f));
  const ValueId y = b.op("MatMul", {b.cast(l.in(0), f), w}, {{"transB", int64_t{1}}});
  return bias.empty() ? y : add(b, y, b.constant(HostTensor::of<double>({classes}, bias).cast(f)));
}

ValueId probabilities(const Lowering& l, ValueId scores) {
  const std::string post = l.attrs.s("post_transform", "NONE");
  if (post == "SOFTMAX") return l.b.op("Softmax", {scores});
  if (post == "LOGISTIC") return l.b.op("Sigmoid", {scores});
  if (post != "NONE") l.unsupported("post_transform '" + post + "'");
  return scores;
}

void lower_linear_classifier(Lowering& l) {
  Builder& b = l.b;
  const ValueId y = scores(l);
  if (l.wanted(0)) {
    const std::vector<int64_t> labels = l.attrs.ints("classlabels_ints");
    if (labels.empty()) l.unsupported("labels that are texts: name the output of probabilities with `output`");
    if (std::ssize(labels) != b.dims(y)[1])
      fail(Exit::model, "E_ATTR",
           cat("LinearClassifier: ", labels.size(), " labels for ", b.dims(y)[1], " rows of coefficients"));
    const ValueId best =
        b.op("ArgMax", {y}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}, {"select_last_index", int64_t{0}}});
    l.out(0, lookup(b, b.constant(HostTensor::of<int64_t>({std::ssize(labels)}, labels)), best));
  }
  if (l.wanted(1)) l.out(1, probabilities(l, y));
}

const RegisterOnnx linear_classifier_onnx[] = {
    RegisterOnnx{{"LinearClassifier", lower_linear_classifier, 1, "ai.onnx.ml"}}};

}  // namespace
}  // namespace amp
