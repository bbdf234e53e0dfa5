// Without class weights and label smoothing, the loss is the fused operator CrossEntropy; otherwise it consists of
// LogSoftmax and a gather. Labels that are not classes are not checked here, because the gather fails when the batch
// runs.

#include "trainer/losses/class_rows.h"

#include "base/error.h"
#include "ops/compose.h"

namespace amp::losses {

namespace {

const std::vector<double>& weights_of(const LossSpec& spec) {
  static const std::vector<double> none;
  return spec.has("class_weights") ? spec.list("class_weights") : none;
}

ValueId weight_table(Builder& b, const LossSpec& spec, int64_t classes, DType t) {
  const std::vector<double>& w = weights_of(spec);
  if (w.size() != 1 && static_cast<int64_t>(w.size()) != classes) {
    fail(Exit::usage, "E_LOSS", cat(w.size(), " class_weights for ", classes, " classes"), "give one a class");
  }
  std::vector<double> all = w;
  all.resize(static_cast<size_t>(classes), w[0]);
  return b.constant(HostTensor::of<double>({classes}, all).cast(t));
}

}  // namespace

namespace {

// Returns whether the shapes are [..., C] and [...]. A label's shape [..., 1] is first reduced to [...].
bool classes_last(const Dims& out, Dims& label) {
  if (out.size() >= 2 && label.size() == out.size() && label.back() == 1 && out.back() != 1) label.pop_back();
  return !out.empty() && label == Dims(out.begin(), out.end() - 1);
}

}  // namespace

ClassRows class_rows(Builder& b, const LossSpec& spec, ValueId out, ValueId label, bool second_axis) {
  const Dims d = b.dims(out);
  Dims dl = b.dims(label);
  if (is_float(b.dtype(label))) {
    fail(Exit::data, "E_DATA_LABEL",
         cat("label is ", name_of(b.dtype(label)), ", the loss ", spec.kind, " takes class ids"),
         "store them as int64; or is `task` regression or multilabel meant?");
  }
  const bool last = classes_last(d, dl) && !second_axis;
  ValueId rows = out;
  if (!last) {
    Dims without = d;
    if (d.size() >= 2) without.erase(without.begin() + 1);
    if (d.size() < 2 || dl != without)
      label_shape(b, out, label, "one class id per row of logits [..., C], or per place of logits [B, C, ...]");
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < b.rank(out); ++i) {
      if (i != 1) perm.push_back(i);
    }
    perm.push_back(1);
    rows = b.transpose(out, perm);
  }
  const int64_t n = numel(dl);
  return {b.reshape(rows, {n, b.dims(rows).back()}), b.reshape(b.cast(label, DType::i64), {n})};
}

// A gather would count a negative label from the end. Replacing it by `classes` makes the gather fail instead.
ValueId lookup_index(Builder& b, ValueId ignored, ValueId label, int64_t classes) {
  const ValueId negative = b.op("Less", {label, b.scalar(0, DType::i64)});
  const ValueId checked = b.op("Where", {negative, b.scalar(static_cast<double>(classes), DType::i64), label});
  return b.op("Where", {ignored, b.scalar(0, DType::i64), checked});
}

Picked pick(Builder& b, const LossSpec& spec, const ClassRows& r) {
  const int64_t n = b.dims(r.logits)[0], classes = b.dims(r.logits)[1];
  Picked p;
  p.ignored = ignored(b, spec, r.label);
  const ValueId label = lookup_index(b, p.ignored, r.label, classes);
  p.log_prob = b.op("LogSoftmax", {r.logits});
  p.own = b.reshape(b.op("GatherElements", {p.log_prob, b.reshape(label, {n, 1})}, {{"axis", int64_t{1}}}), {n});
  if (!weights_of(spec).empty()) p.weight = lookup(b, weight_table(b, spec, classes, b.dtype(p.own)), label);
  return p;
}

ValueId sum_valid(Builder& b, const Picked& p, ValueId per_row) {
  return total(b, b.op("Where", {p.ignored, b.scalar(0, b.dtype(per_row)), per_row}));
}

ValueId entropy(Builder& b, const LossSpec& spec, const ClassRows& r) {
  const double e = spec.has("label_smoothing") ? spec.number("label_smoothing") : 0;
  if (weights_of(spec).empty() && e == 0)
    return b.op("CrossEntropy", {r.logits, r.label}, {{"ignore_index", spec.ignore_index()}});
  const Picked p = pick(b, spec, r);
  const int64_t classes = b.dims(r.logits)[1];
  ValueId row = scaled(b, p.weight ? mul(b, p.own, p.weight) : p.own, e - 1);
  if (e > 0) {
    ValueId all = p.log_prob;
    if (p.weight) all = mul(b, all, weight_table(b, spec, classes, b.dtype(all)));
    row = sub(b, row, scaled(b, b.reduce_sum(all, {1}, false), e / static_cast<double>(classes)));
  }
  return sum_valid(b, p, row);
}

bool are_probabilities(Builder& b, const LossInputs& in) {
  const Dims d = b.dims(in.outputs[0]);
  return is_float(b.dtype(in.label)) && d.size() == 2 && b.dims(in.label) == d;
}

ValueId soft_entropy(Builder& b, const LossSpec& spec, ValueId logits, ValueId label) {
  const double e = spec.number("label_smoothing");
  const int64_t classes = b.dims(logits)[1];
  const DType type = b.dtype(logits);
  ValueId y = b.cast(label, type);
  if (e > 0) y = add(b, scaled(b, y, 1 - e), b.scalar(e / static_cast<double>(classes), type));
  if (!weights_of(spec).empty()) y = mul(b, y, weight_table(b, spec, classes, type));
  return scaled(b, total(b, mul(b, y, b.op("LogSoftmax", {logits}))), -1);
}

ValueId draw_classes(Builder& b, const LossSpec& spec, ValueId out, ValueId label, ValueId uniform, bool second_axis) {
  const ClassRows r = class_rows(b, spec, out, label, second_axis);
  const int64_t n = b.dims(r.logits)[0], classes = b.dims(r.logits)[1];
  const ValueId up_to = b.op("CumSum", {b.op("Softmax", {r.logits})}, {{"axis", int64_t{1}}});
  const ValueId at = mul(b, b.reshape(uniform, {n, 1}), slice(b, up_to, 1, classes - 1, 1));
  // Inverse transform sampling selects the first class whose cumulative probability exceeds the uniform number, else
  // the last class.
  const ValueId below = b.op("LessOrEqual", {slice(b, up_to, 1, 0, classes - 1), at});
  const ValueId drawn = b.reduce_sum(b.cast(below, DType::i64), {1}, false);
  const ValueId kept = b.op("Where", {ignored(b, spec, r.label), r.label, drawn});
  return b.cast(b.reshape(kept, b.dims(label)), b.dtype(label));
}

std::vector<double> label_weights(const LossSpec& spec, const std::vector<int64_t>& ids) {
  const std::vector<double>& w = weights_of(spec);
  const int64_t ignore_index = spec.ignore_index(), classes = static_cast<int64_t>(w.size());
  std::vector<double> out;
  for (const int64_t y : ids) {
    // An id that is not a class has weight 1 here; the graph's gather reports it when the batch runs.
    out.push_back(y == ignore_index ? 0 : classes == 1 ? w[0] : y >= 0 && y < classes ? w[static_cast<size_t>(y)] : 1);
  }
  return out;
}

Counts count_classes(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (is_float(label.dtype())) return {static_cast<double>(label.rank() > 0 ? label.dims()[0] : 1)};
  double n = 0;
  for (const double w : label_weights(spec, label.to_ints())) n += w;
  return {n};
}

}  // namespace amp::losses

namespace amp {

int64_t class_count(ClassAxis axis, const Dims& out, const Dims& label) {
  if (axis == ClassAxis::none || out.size() < 2) return 0;
  if (axis == ClassAxis::tokens || axis == ClassAxis::of_places) return out[1];
  if (axis == ClassAxis::of_rows_or_elements && numel(out) == numel(label)) return 0;
  Dims places = label;
  if (axis == ClassAxis::of_tokens || losses::classes_last(out, places)) return out.back();
  return out[1];
}

}  // namespace amp
