// Evaluates a model on data without training: loss and metrics, gradients, Hessian products. Predictions are in
// run/evaluate/predict.h.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "trainer/loop/evaluate.h"

namespace amp {

struct RunSpec;

// Returns loss and metrics of spec.model.model on spec.data.val. Settings that are not given come from the model's
// metadata.
Metrics evaluate_model(const RunSpec& spec, const Log& log = {});

// Computes the loss of one batch and the gradient of every trainable parameter. The gradients are written as
// safetensors in fp32 under the parameters' ONNX names, for comparison with other frameworks.
// If the plan contains fp16, the loss is scaled: the scale starts at the run's initial value and is lowered until every
// gradient is finite. The written gradients are unscaled.
struct GradientsReport {
  double loss = 0;
  size_t parameters = 0;
  bool padding_removed = false;
  std::optional<double> loss_scale;
};
// `dump_graph`: a file for the training graph as text; empty: it is not written.
GradientsReport write_gradients(const RunSpec& spec, const std::string& inputs, const std::string& out,
                                const std::string& dump_graph = {}, const Log& log = {});

// Computes H v, where H holds the second derivatives of one batch's loss with respect to every trainable parameter that
// has a gradient. v is read from `direction`, one tensor per parameter under the same names. The product is written in
// the format of the gradients. Runs in fp32 or fp64, with padding.
struct HessianReport {
  double loss = 0;
  size_t parameters = 0;
  double curvature = 0;  // the dot product of v and H v
};
HessianReport write_hessian_product(const RunSpec& spec, const std::string& inputs, const std::string& direction,
                                    const std::string& out, const std::string& dump_graph = {}, const Log& log = {});

}  // namespace amp
