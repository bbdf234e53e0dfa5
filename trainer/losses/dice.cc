// Soft Dice loss of segmentation masks (Milletari et al. 2016, arXiv:1606.04797), and its sum with cross-entropy.
#include <algorithm>

#include "ops/compose.h"
#include "trainer/losses/class_rows.h"

namespace amp::losses {

namespace {

bool is_binary(const Builder& b, ValueId out, ValueId label) { return numel(b.dims(out)) == numel(b.dims(label)); }

// Predicted probabilities (p) and labels (truth, one-hot) as [B, C, P] for P positions; both are 0 at ignored
// positions. C is 1 (sigmoid) if the label has as many elements as the output.
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
  // One-hot encoding by lookup in an identity matrix, so that a label that is not a class fails when the batch runs.
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

Sums dice(Builder& b, const LossSpec& spec, const LossInputs& in) {
  // The loss of a sample is 1 - mean over classes of (2 sum p g + s) / (sum p + sum g + s).
  const Masks m = masks(b, spec, in.outputs[0], in.label);
  const double smooth = spec.number("smooth"), classes = static_cast<double>(b.dims(m.p)[1]);
  const auto places = [&](ValueId x) { return b.reduce_sum(x, {2}, false); };
  const ValueId top = shifted(b, scaled(b, places(mul(b, m.p, m.truth)), 2), smooth);
  const ValueId bottom = shifted(b, add(b, places(m.p), places(m.truth)), smooth);
  const ValueId per_sample =
      scaled(b, b.reduce_sum(shifted(b, scaled(b, div(b, top, bottom), -1), 1), {1}, false), 1 / classes);
  // A sample without a valid position adds 0 to the sum and is not counted as an item.
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
    sums.push_back(entropy(b, spec, class_rows(b, spec, in.outputs[0], in.label, true)));
  }
  return sums;
}

Counts count_dice(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (label.rank() == 0 || label.numel() == 0) return {0};
  const std::vector<double> y = label.to_doubles();
  const size_t places = y.size() / static_cast<size_t>(label.dims()[0]);
  const auto ignore_index = static_cast<double>(spec.ignore_index());
  double samples = 0;
  for (size_t i = 0; i < y.size(); i += places) {
    samples += std::any_of(&y[i], &y[i] + places, [&](double v) { return v != ignore_index; });
  }
  return {samples};
}

Counts count_dice_ce(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  const Counts entropies =
      spec.list("class_weights").empty() ? count_valid(spec, label, rows) : count_classes(spec, label, rows);
  return {count_dice(spec, label, rows)[0], entropies[0]};
}

constexpr LossParameter kSmooth = {"smooth", ParameterForm::number, 1e-5, 0};

const LossRegistration alone{{
    .name = "dice",
    .doc = {{"logits [B, C, ...], ids [B, ...]; or one class, 0/1",
             "1 - mean over classes of (2 sum p g + s)/(sum p + sum g + s), s: smooth", "samples with a valid place"}},
    .build = dice,
    .count = count_dice,
    .parameters = {kSmooth, kIgnoreIndexParameter},
    .task = Task::segmentation,
    .after_softmax = true,
    .after_sigmoid = true,
    .classes = ClassAxis::of_places,
}};

const LossRegistration with_entropy{{
    .name = "dice_ce",
    .doc = {{"as dice", "dice plus cross_entropy_nchw (bce_logits for one class)", "each its own"}},
    .build = dice_ce,
    .count = count_dice_ce,
    .parameters = {kSmooth, kIgnoreIndexParameter, kClassWeights, kLabelSmoothing, kPosWeight},
    .synonyms = {"dice+ce"},
    .task = Task::segmentation,
    .weights = {1, 1},
    .after_softmax = true,
    .after_sigmoid = true,
    .classes = ClassAxis::of_places,
}};

}  // namespace

}  // namespace amp::losses
