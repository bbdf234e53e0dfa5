// Losses on numbers, probabilities and masks.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses_parts.h"

namespace amp::losses {

namespace {

ValueId residual(Builder& b, const LossInputs& in) {
  return sub(b, in.outputs[0], float_label(b, in.outputs[0], in.label));
}

// pos_weight along the axis whose extent it has: the last one, else axis 1.
ValueId positive_weight(Builder& b, const LossSpec& spec, ValueId x) {
  const auto& w = spec.pos_weight;
  const Dims d = b.dims(x);
  const int64_t n = static_cast<int64_t>(w.size());
  Dims shape(d.size(), 1);
  if (n > 1) {
    const size_t axis = !d.empty() && d.back() == n ? d.size() - 1 : 1;
    if (axis >= d.size() || d[axis] != n) {
      fail(Exit::usage, "E_LOSS", cat(n, " values of pos_weight for an output of shape ", to_string(d)),
           "give one a class, or one for all");
    }
    shape[axis] = n;
  }
  return b.constant(HostTensor::of<double>(shape, w).cast(b.dtype(x)));
}

// softplus(x) - x y; with a weight of positives: (1 - y) x + (1 + (w - 1) y) softplus(-x), as
// torch.nn.BCEWithLogitsLoss
ValueId binary_entropy(Builder& b, const LossSpec& spec, ValueId x, ValueId label) {
  const ValueId y = float_label(b, x, label);
  ValueId l;
  if (spec.pos_weight.empty()) {
    l = sub(b, b.op("Softplus", {x}), mul(b, x, y));
  } else {
    const ValueId w = shifted(b, mul(b, y, shifted(b, positive_weight(b, spec, x), -1)), 1);
    l = add(b, mul(b, shifted(b, scaled(b, y, -1), 1), x), mul(b, w, b.op("Softplus", {scaled(b, x, -1)})));
  }
  return total(b, b.op("Where", {b.reshape(ignored(b, spec, label), b.dims(x)), b.scalar(0, b.dtype(x)), l}));
}

// sum_c p (log p - log q) per row of the last axis; p = 0 adds nothing
ValueId divergence(Builder& b, ValueId p, ValueId log_p, ValueId log_q) {
  const ValueId zero = b.scalar(0, b.dtype(p));
  const ValueId parts = b.op("Where", {b.op("Equal", {p, zero}), zero, mul(b, p, sub(b, log_p, log_q))});
  return b.reduce_sum(parts, {b.rank(p) - 1}, false);
}

bool is_binary(const Builder& b, ValueId out, ValueId label) { return numel(b.dims(out)) == numel(b.dims(label)); }

// Probabilities and truth as [B, C, P] with ignored places 0 in both: C = 1 (sigmoid) when the label has the output's
// size.
struct Masks {
  ValueId p, truth;
};
Masks masks(Builder& b, const LossSpec& spec, ValueId out, ValueId label) {
  const Dims d = b.dims(out), dl = b.dims(label);
  const DType t = b.dtype(out);
  const ValueId zero = b.scalar(0, t);
  const int64_t batch = d.at(0);
  if (is_binary(b, out, label)) {
    const int64_t places = numel(d) / batch;
    const ValueId skip = b.reshape(ignored(b, spec, label), {batch, 1, places});
    const ValueId y = b.reshape(b.cast(label, t), {batch, 1, places});
    const ValueId p = b.reshape(b.op("Sigmoid", {out}), {batch, 1, places});
    return {b.op("Where", {skip, zero, p}), b.op("Where", {skip, zero, y})};
  }
  Dims without = d;
  if (d.size() >= 2) without.erase(without.begin() + 1);
  if (d.size() < 2 || dl != without || is_float(b.dtype(label))) {
    label_shape(b, out, label,
                "one integer class id per place of logits [B, C, ...], or the output's shape for a single class");
  }
  const int64_t classes = d[1], places = numel(dl) / batch;
  const ValueId skip = b.reshape(ignored(b, spec, label), {batch, 1, places});
  const ValueId x = b.transpose(b.reshape(out, {batch, classes, places}), {0, 2, 1});
  const ValueId p = b.transpose(b.op("Softmax", {x}), {0, 2, 1});
  // One-hot rows of an identity matrix: a label that is no class is refused when the batch runs.
  std::vector<double> eye(static_cast<size_t>(classes * classes));
  for (int64_t c = 0; c < classes; ++c) eye[static_cast<size_t>(c * classes + c)] = 1;
  const ValueId ids = b.reshape(b.cast(label, DType::i64), {batch, 1, places});
  const ValueId no = b.scalar(static_cast<double>(classes), DType::i64), none = b.scalar(0, DType::i64);
  const ValueId checked = b.op("Where", {b.op("Less", {ids, none}), no, ids});
  const ValueId index = b.reshape(b.op("Where", {skip, none, checked}), {batch, places});
  const ValueId hot =
      b.transpose(lookup(b, b.constant(HostTensor::of<double>({classes, classes}, eye).cast(t)), index), {0, 2, 1});
  return {b.op("Where", {skip, zero, p}), b.op("Where", {skip, zero, hot})};
}

}  // namespace

Sums bce_logits(Builder& b, const LossSpec& spec, const LossInputs& in) {
  return {binary_entropy(b, spec, in.outputs[0], in.label)};
}
Sums mse(Builder& b, const LossSpec&, const LossInputs& in) { return {total(b, square(b, residual(b, in)))}; }
Sums l1(Builder& b, const LossSpec&, const LossInputs& in) { return {total(b, b.op("Abs", {residual(b, in)}))}; }

Sums huber(Builder& b, const LossSpec& spec, const LossInputs& in) {  // c (r - c / 2), c = r cut to [-delta, delta]
  const ValueId r = residual(b, in);
  const ValueId c = b.op("Clip", {r}, {{"min", -spec.delta}, {"max", spec.delta}});
  return {total(b, mul(b, c, sub(b, r, scaled(b, c, 0.5))))};
}

// n sqrt(mean ((y - o) / y)^2) over the n labels that are not 0: an item counts the root once
Sums rmspe(Builder& b, const LossSpec&, const LossInputs& in) {
  const ValueId o = in.outputs[0], y = float_label(b, o, in.label);
  const DType t = b.dtype(o);
  const ValueId zero = b.scalar(0, t), one = b.scalar(1, t), none = b.op("Equal", {y, zero});
  const ValueId r = b.op("Where", {none, zero, div(b, sub(b, y, o), b.op("Where", {none, one, y}))});
  const ValueId n = total(b, b.expand(b.op("Where", {none, zero, one}), b.dims(o)));
  return {safe_sqrt(b, mul(b, n, total(b, square(b, r))))};
}

Sums rmspe_exp(Builder& b, const LossSpec&, const LossInputs& in) {  // n sqrt(mean r^2), r = 1 - e^(o - y)
  const ValueId r = shifted(b, scaled(b, b.op("Exp", {residual(b, in)}), -1), 1);
  const double n = static_cast<double>(numel(b.dims(in.outputs[0])));
  return {scaled(b, safe_sqrt(b, scaled(b, total(b, square(b, r)), 1 / n)), n)};
}

Sums kl(Builder& b, const LossSpec&, const LossInputs& in) {  // label: probabilities in the output's shape
  const ValueId x = in.outputs[0];
  if (b.dims(in.label) != b.dims(x) || !is_float(b.dtype(in.label)))
    label_shape(b, x, in.label, "probabilities in the output's shape");
  const ValueId p = b.cast(in.label, b.dtype(x));
  return {total(b, divergence(b, p, b.op("Log", {b.op("Clip", {p}, {{"min", 1e-38}})}), b.op("LogSoftmax", {x})))};
}

// T^2 KL(softmax(teacher / T) || softmax(student / T)), rows of the last axis averaged within a batch row.
Sums distill(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId x = in.outputs[0], z = in.teacher.at(0);
  const Dims d = b.dims(x);
  if (b.dims(z) != d) {
    fail(Exit::usage, "E_TEACHER",
         cat("the teacher's output has shape ", to_string(b.dims(z)), ", the model's ", to_string(d)),
         "both must give the same logits");
  }
  const double t = spec.temperature;
  const ValueId log_p = b.op("LogSoftmax", {scaled(b, z, 1 / t)});
  ValueId rows = divergence(b, b.op("Exp", {log_p}), log_p, b.op("LogSoftmax", {scaled(b, x, 1 / t)}));
  double factor = t * t;
  if (in.label) {  // places whose label is ignored do not count
    if (numel(b.dims(in.label)) != numel(b.dims(rows))) label_shape(b, x, in.label, "one label per row of logits");
    rows = b.op("Where", {b.reshape(ignored(b, spec, in.label), b.dims(rows)), b.scalar(0, b.dtype(x)), rows});
  } else {
    factor *= static_cast<double>(in.rows) / static_cast<double>(numel(b.dims(rows)));
  }
  return {scaled(b, total(b, rows), factor)};
}

Sums dice(Builder& b, const LossSpec& spec, const LossInputs& in) {
  // per sample: 1 - mean over classes of (2 sum p g + s) / (sum p + sum g + s)
  const Masks m = masks(b, spec, in.outputs[0], in.label);
  const double classes = static_cast<double>(b.dims(m.p)[1]);
  const auto places = [&](ValueId x) { return b.reduce_sum(x, {2}, false); };
  const ValueId top = shifted(b, scaled(b, places(mul(b, m.p, m.truth)), 2), spec.smooth);
  const ValueId bottom = shifted(b, add(b, places(m.p), places(m.truth)), spec.smooth);
  const ValueId per_sample =
      scaled(b, b.reduce_sum(shifted(b, scaled(b, div(b, top, bottom), -1), 1), {1}, false), 1 / classes);
  // A sample without a valid place is no item.
  const int64_t batch = b.dims(in.label)[0];
  const ValueId valid = b.op("Where", {b.reshape(ignored(b, spec, in.label), {batch, numel(b.dims(in.label)) / batch}),
                                       b.scalar(0, DType::f32), b.scalar(1, DType::f32)});
  const ValueId empty = b.op("Equal", {b.reduce_sum(valid, {1}, false), b.scalar(0, DType::f32)});
  return {total(b, b.op("Where", {empty, b.scalar(0, b.dtype(per_sample)), per_sample}))};
}

Sums dice_ce(Builder& b, const LossSpec& spec, const LossInputs& in) {
  Sums sums = dice(b, spec, in);
  if (is_binary(b, in.outputs[0], in.label)) {
    sums.push_back(binary_entropy(b, spec, in.outputs[0], in.label));
  } else {
    LossSpec entropy = spec;
    entropy.kind = "cross_entropy_nchw";
    sums.push_back(cross_entropy(b, entropy, in)[0]);
  }
  return sums;
}

Counts count_nonzero(const LossSpec&, const HostTensor& label, int64_t) {
  const std::vector<double> y = label.to_doubles();
  return {static_cast<double>(y.size()) - static_cast<double>(std::count(y.begin(), y.end(), 0.0))};
}

Counts count_rows_of_last(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 0 || label.numel() == 0 ? 0.0 : static_cast<double>(label.numel() / label.dims().back())};
}

Counts count_distill(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return label ? count_valid(spec, label, rows) : Counts{static_cast<double>(rows)};
}

Counts count_dice(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (label.rank() == 0 || label.numel() == 0) return {0};
  const std::vector<double> y = label.to_doubles();
  const size_t places = y.size() / static_cast<size_t>(label.dims()[0]);
  double samples = 0;
  for (size_t i = 0; i < y.size(); i += places) {
    samples +=
        std::any_of(&y[i], &y[i] + places, [&](double v) { return v != static_cast<double>(spec.ignore_index); });
  }
  return {samples};
}

Counts count_dice_ce(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return {count_dice(spec, label, rows)[0], count_focal(spec, label, rows)[0]};
}

}  // namespace amp::losses
