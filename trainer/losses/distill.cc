// Distillation (Hinton et al. 2015, arXiv:1503.02531): KL divergence from the teacher's probabilities at a temperature.
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses/loss.h"

namespace amp::losses {

namespace {

// Returns the sum over the batch's rows of T^2 KL(softmax(teacher / T) || softmax(student / T)), averaged over the
// positions of each row. If there are labels, returns the sum over all positions with a valid label instead.
Sums distill(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId x = in.outputs[0], z = in.teacher.at(0);
  const Dims d = b.dims(x);
  if (b.dims(z) != d) {
    fail(Exit::usage, "E_TEACHER",
         cat("the teacher's output has shape ", to_string(b.dims(z)), ", the model's ", to_string(d)),
         "both must give the same logits");
  }
  const double t = spec.number("temperature");
  const ValueId log_p = b.op("LogSoftmax", {scaled(b, z, 1 / t)});
  ValueId rows = divergence(b, b.op("Exp", {log_p}), log_p, b.op("LogSoftmax", {scaled(b, x, 1 / t)}));
  double factor = t * t;
  if (in.label) {
    if (numel(b.dims(in.label)) != numel(b.dims(rows))) label_shape(b, x, in.label, "one label per row of logits");
    rows = b.op("Where", {b.reshape(ignored(b, spec, in.label), b.dims(rows)), b.scalar(0, b.dtype(x)), rows});
  } else {
    factor *= static_cast<double>(in.rows) / static_cast<double>(numel(b.dims(rows)));
  }
  return {scaled(b, total(b, rows), factor)};
}

Counts count_distill(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return label ? count_valid(spec, label, rows) : Counts{static_cast<double>(rows)};
}

const LossRegistration distill_row{{
    .name = "distill",
    .doc = {{"logits, the teacher's logits", "T² KL(softmax(z/T), softmax(x/T))",
             "batch rows, each the mean of its places; with a label: its valid labels"}},
    .build = distill,
    .count = count_distill,
    .parameters = {{"temperature", ParameterForm::number, 1, 0, true}, kIgnoreIndexParameter},
    .synonyms = {"kd", "distillation"},
    .label = "",
    .teacher = true,
    .after_softmax = true,
}};

}  // namespace

}  // namespace amp::losses
