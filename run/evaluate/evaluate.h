// A model on data, without training: its loss and metrics, its gradients. Its outputs: run/evaluate/predict.h.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "run/spec/spec.h"
#include "trainer/loop/evaluate.h"

namespace amp {

// Loss and metrics of spec.model on spec.val. What the model says of its training stands for what is not asked for.
Metrics evaluate_model(const RunSpec& spec, const Log& log = {});

// The loss of one batch and the gradient of every trainable parameter, written as safetensors in fp32 under the
// parameters' ONNX names. For checks against other frameworks. Where the plan has fp16, the loss is scaled as a run's
// first applied step would have it: down from the first scale until every gradient is finite; what is written is
// unscaled.
struct GradientsReport {
  double loss = 0;
  size_t parameters = 0;
  bool padding_removed = false;
  std::optional<double> loss_scale;
};
// dump_graph: a file for the training graph as text; empty: none.
GradientsReport write_gradients(const RunSpec& spec, const std::string& inputs, const std::string& out,
                                const std::string& dump_graph = {}, const Log& log = {});

// H v of the loss of one batch: H its second derivatives with respect to every trainable parameter that has a gradient,
// v read from `direction`, a tensor for each under the same names. Written as the gradients are. In fp32 or fp64;
// padding is computed.
struct HessianReport {
  double loss = 0;
  size_t parameters = 0;
  double curvature = 0;  // v H v
};
HessianReport write_hessian_product(const RunSpec& spec, const std::string& inputs, const std::string& direction,
                                    const std::string& out, const std::string& dump_graph = {}, const Log& log = {});

}  // namespace amp
