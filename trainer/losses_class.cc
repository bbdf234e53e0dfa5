// Cross-entropy and its relatives: logits against class ids.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses_parts.h"

namespace amp::losses {

namespace {

struct Rows {
  ValueId logits;  // [N, C]
  ValueId label;   // int64 [N]
};

// Logits [..., C] against label [...]; or, where that does not fit, logits [B, C, ...] against label [B, ...].
Rows rows_of(Builder& b, const LossSpec& spec, ValueId out, ValueId label) {
  const Dims d = b.dims(out);
  Dims dl = b.dims(label);
  if (is_float(b.dtype(label))) {
    fail(Exit::data, "E_DATA_LABEL",
         cat("label is ", name_of(b.dtype(label)), ", the loss ", spec.kind, " takes class ids"),
         "store them as int64; or is --task regression or multilabel meant?");
  }
  if (d.size() >= 2 && dl.size() == d.size() && dl.back() == 1 && d.back() != 1) dl.pop_back();
  const bool last = !d.empty() && dl == Dims(d.begin(), d.end() - 1) && spec.kind != "cross_entropy_nchw";
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

ValueId weight_table(Builder& b, const LossSpec& spec, int64_t classes, DType t) {
  const auto& w = spec.class_weights;
  if (w.size() != 1 && static_cast<int64_t>(w.size()) != classes) {
    fail(Exit::usage, "E_LOSS", cat(w.size(), " class_weights for ", classes, " classes"), "give one a class");
  }
  std::vector<double> all = w;
  all.resize(static_cast<size_t>(classes), w[0]);
  return b.constant(HostTensor::of<double>({classes}, all).cast(t));
}

// Rows whose label counts, with what the label picks from them.
struct Picked {
  ValueId ignored;   // bool [N]
  ValueId log_prob;  // [N, C]
  ValueId own;       // [N]: log-probability of the label
  ValueId weight;    // [N]: of the label's class; invalid without class weights
};
Picked pick(Builder& b, const LossSpec& spec, const Rows& r) {
  const int64_t n = b.dims(r.logits)[0], classes = b.dims(r.logits)[1];
  Picked p;
  p.ignored = ignored(b, spec, r.label);
  // A negative label would count from the end: as C it is refused when the batch runs.
  const ValueId negative = b.op("Less", {r.label, b.scalar(0, DType::i64)});
  const ValueId checked = b.op("Where", {negative, b.scalar(static_cast<double>(classes), DType::i64), r.label});
  const ValueId label = b.op("Where", {p.ignored, b.scalar(0, DType::i64), checked});
  p.log_prob = b.op("LogSoftmax", {r.logits});
  p.own = b.reshape(b.op("GatherElements", {p.log_prob, b.reshape(label, {n, 1})}, {{"axis", int64_t{1}}}), {n});
  if (!spec.class_weights.empty()) p.weight = lookup(b, weight_table(b, spec, classes, b.dtype(p.own)), label);
  return p;
}

ValueId sum_valid(Builder& b, const Picked& p, ValueId per_row) {
  return total(b, b.op("Where", {p.ignored, b.scalar(0, b.dtype(per_row)), per_row}));
}

// (1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c), as torch.nn.CrossEntropyLoss
ValueId entropy(Builder& b, const LossSpec& spec, const Rows& r) {
  const double e = spec.label_smoothing;
  if (spec.class_weights.empty() && e == 0)
    return b.op("CrossEntropy", {r.logits, r.label}, {{"ignore_index", spec.ignore_index}});
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

double weight_of(const LossSpec& spec, int64_t label) {
  const auto& w = spec.class_weights;
  if (label == spec.ignore_index) return 0;
  if (w.empty()) return 1;
  if (w.size() == 1) return w[0];
  return label >= 0 && label < static_cast<int64_t>(w.size()) ? w[static_cast<size_t>(label)]
                                                              : 1;  // refused when the batch runs
}

// gamma-th power of x >= 0 with a gradient that stays finite
ValueId power(Builder& b, ValueId x, double gamma) {
  if (gamma == 1) return x;
  if (gamma == 2) return square(b, x);
  return b.op("Pow", {b.op("Clip", {x}, {{"min", 1e-12}}), b.scalar(gamma, b.dtype(x))});
}

// sigmoid form, Lin et al. 2017 eq. 5: alpha_t (1 - p_t)^gamma (-log p_t), elementwise
ValueId binary_focal(Builder& b, const LossSpec& spec, ValueId x, ValueId label) {
  const ValueId y = float_label(b, x, label);
  const ValueId other = shifted(b, scaled(b, y, -1), 1);
  const ValueId entropy = sub(b, b.op("Softplus", {x}), mul(b, x, y));
  const ValueId p = b.op("Sigmoid", {x});
  // 1 - p_t = p + y - 2 p y
  ValueId l = entropy;
  if (spec.gamma != 0) l = mul(b, l, power(b, add(b, p, mul(b, y, shifted(b, scaled(b, p, -2), 1))), spec.gamma));
  if (spec.alpha >= 0) l = mul(b, l, add(b, scaled(b, y, spec.alpha), scaled(b, other, 1 - spec.alpha)));
  return total(b, b.op("Where", {b.reshape(ignored(b, spec, label), b.dims(x)), b.scalar(0, b.dtype(x)), l}));
}

}  // namespace

Sums cross_entropy(Builder& b, const LossSpec& spec, const LossInputs& in) {
  return {entropy(b, spec, rows_of(b, spec, in.outputs[0], in.label))};
}

Sums causal_lm(Builder& b, const LossSpec& spec, const LossInputs& in) {  // logits at s against the label at s + 1
  const Dims d = b.dims(in.outputs[0]);
  if (d.size() != 3 || b.dims(in.label) != Dims{d[0], d[1]})
    label_shape(b, in.outputs[0], in.label, "token ids [B, S] for logits [B, S, V]");
  const int64_t n = d[1] - 1;
  if (n == 0) return {b.scalar(0, b.dtype(in.outputs[0]))};
  return {entropy(b, spec, rows_of(b, spec, slice(b, in.outputs[0], 1, 0, n), slice(b, in.label, 1, 1, n)))};
}

Sums qa_span(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const Dims d = b.dims(in.label);
  if (d.size() != 2 || d[1] != 2) label_shape(b, in.outputs[0], in.label, "first and last token [B, 2]");
  Sums sums;
  for (int64_t i = 0; i < 2; ++i) {
    const ValueId column = b.reshape(slice(b, in.label, 1, i, 1), {d[0]});
    sums.push_back(entropy(b, spec, rows_of(b, spec, in.outputs[static_cast<size_t>(i)], column)));
  }
  return sums;
}

Sums nll_probs(Builder& b, const LossSpec&, const LossInputs& in) {
  const Dims d = b.dims(in.outputs[0]);
  if (d.size() != 2 || numel(b.dims(in.label)) != d[0])
    label_shape(b, in.outputs[0], in.label, "one class id per row of probabilities");
  const ValueId index = b.reshape(b.cast(in.label, DType::i64), {d[0], 1});
  const ValueId p = b.op("GatherElements", {in.outputs[0], index}, {{"axis", int64_t{1}}});
  return {b.op("Neg", {total(b, b.op("Log", {p}))})};
}

Sums focal(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId out = in.outputs[0];
  if (numel(b.dims(out)) == numel(b.dims(in.label))) return {binary_focal(b, spec, out, in.label)};
  // class ids: (1 - p_y)^gamma w_y (-log p_y)
  const Picked p = pick(b, spec, rows_of(b, spec, out, in.label));
  ValueId l = p.own;
  if (spec.gamma != 0)
    l = mul(b, l,
            power(b, b.op("Clip", {shifted(b, scaled(b, b.op("Exp", {p.own}), -1), 1)}, {{"min", 0.0}}), spec.gamma));
  if (p.weight) l = mul(b, l, p.weight);
  return {b.op("Neg", {sum_valid(b, p, l)})};
}

Counts count_classes(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (is_float(label.dtype())) return {static_cast<double>(label.numel())};  // refused when the loss is built
  double n = 0;
  for (const int64_t y : label.to_ints()) n += weight_of(spec, y);
  return {n};
}

Counts count_causal(const LossSpec& spec, const HostTensor& label, int64_t) {
  if (label.rank() != 2) return {0};  // refused when the loss is built
  double n = 0;
  const std::vector<int64_t> ids = label.to_ints();
  for (size_t i = 0; i < ids.size(); ++i) n += static_cast<int64_t>(i) % label.dims()[1] ? weight_of(spec, ids[i]) : 0;
  return {n};
}

Counts count_span(const LossSpec& spec, const HostTensor& label, int64_t) {
  Counts n{0, 0};
  const std::vector<int64_t> ids = label.to_ints();
  for (size_t i = 0; i < ids.size(); ++i) n[i % 2] += ids[i] != spec.ignore_index;
  return n;
}

Counts count_focal(const LossSpec& spec, const HostTensor& label, int64_t rows) {
  return spec.class_weights.empty() ? count_valid(spec, label, rows) : count_classes(spec, label, rows);
}

}  // namespace amp::losses
