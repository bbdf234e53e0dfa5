#include "trainer/losses.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace amp {

const std::vector<std::string>& loss_kinds() {
  static const std::vector<std::string> kinds = {"cross_entropy", "cross_entropy_nchw", "nll_probs", "bce_logits", "mse", "causal_lm", "qa_span",
                                                 "rmspe_exp", "cosine_mse"};
  return kinds;
}

void check_loss_kind(const std::string& kind) {
  const auto& kinds = loss_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return;
  const std::string near = nearest(kind, kinds);
  fail(Exit::usage, "E_LOSS", cat("unknown loss '", printable(kind), "'"),
       near.empty() ? "known: " + join(kinds, ", ") : "did you mean '" + near + "'?");
}

namespace {

[[noreturn]] void label_shape(const Builder& b, ValueId out, ValueId label, const std::string& want) {
  fail(Exit::data, "E_DATA_SHAPE",
       cat("label has shape ", to_string(b.dims(label)), ", the output ", to_string(b.dims(out)), ": the loss wants ", want));
}

ValueId slice(Builder& b, ValueId x, size_t axis, int64_t start, int64_t count) {
  Dims d = b.dims(x);
  std::vector<int64_t> starts(d.size(), 0);
  starts[axis] = start;
  d[axis] = count;
  return b.op("Slice", {x}, {{"starts", starts}, {"steps", std::vector<int64_t>(d.size(), 1)}, {"dims", d}});
}

ValueId total(Builder& b, ValueId x) { return b.reduce_sum(b.reshape(x, {numel(b.dims(x))}), {0}, false); }

ValueId cross_entropy(Builder& b, const LossSpec& spec, ValueId logits, ValueId label) {
  const Dims d = b.dims(logits), dl = b.dims(label);
  if (d.empty() || dl != Dims(d.begin(), d.end() - 1)) label_shape(b, logits, label, "one class id per row of logits");
  const int64_t rows = numel(dl);
  return b.op("CrossEntropy", {b.reshape(logits, {rows, d.back()}), b.reshape(b.cast(label, DType::i64), {rows})}, {{"ignore_index", spec.ignore_index}});
}

// The label in the output's shape ([B] against [B, 1] included) and type.
ValueId float_label(Builder& b, ValueId out, ValueId label) {
  if (numel(b.dims(label)) != numel(b.dims(out))) label_shape(b, out, label, "the output's shape");
  return b.reshape(b.cast(label, b.dtype(out)), b.dims(out));
}

ValueId square(Builder& b, ValueId x) { return b.op("Mul", {x, x}); }

// a.b / (max(|a|, eps) max(|b|, eps)), rows of x [2n, h] in pairs; eps 1e-8 as torch.nn.functional.cosine_similarity
ValueId pair_cosine(Builder& b, ValueId x) {
  const Dims d = b.dims(x);
  if (d.size() != 2 || d[0] % 2) fail(Exit::data, "E_DATA_SHAPE", cat("cosine_mse wants [2n, h] embeddings, got ", to_string(d)));
  const ValueId pairs = b.reshape(x, {d[0] / 2, 2, d[1]});
  const auto side = [&](int64_t i) { return b.reshape(slice(b, pairs, 1, i, 1), {d[0] / 2, d[1]}); };
  const ValueId u = side(0), v = side(1);
  const auto norm = [&](ValueId y) { return b.op("Clip", {b.op("Sqrt", {b.reduce_sum(square(b, y), {1}, false)})}, {{"min", 1e-8}}); };
  const ValueId dot = b.reduce_sum(b.op("Mul", {u, v}), {1}, false);
  return b.op("Div", {dot, b.op("Mul", {norm(u), norm(v)})});
}

}  // namespace

std::vector<LossTerm> build_loss(Builder& b, const LossSpec& spec, const std::vector<ValueId>& outputs, ValueId label) {
  const std::string& kind = spec.kind;
  const ValueId out = outputs.at(0);
  const DType t = b.dtype(out);
  if (kind == "cross_entropy") return {{cross_entropy(b, spec, out, label)}};
  if (kind == "cross_entropy_nchw") {
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < b.rank(out); ++i) {
      if (i != 1) perm.push_back(i);
    }
    perm.push_back(1);
    return {{cross_entropy(b, spec, b.transpose(out, perm), label)}};
  }
  if (kind == "causal_lm") {
    const int64_t s = b.dims(out).at(1);
    return {{cross_entropy(b, spec, slice(b, out, 1, 0, s - 1), slice(b, label, 1, 1, s - 1))}};
  }
  if (kind == "qa_span") {
    std::vector<LossTerm> terms;
    for (int64_t i = 0; i < 2; ++i) {
      const ValueId column = b.reshape(slice(b, label, 1, i, 1), {b.dims(label)[0]});
      terms.push_back({cross_entropy(b, spec, outputs.at(static_cast<size_t>(i)), column), 0.5});
    }
    return terms;
  }
  if (kind == "nll_probs") {
    const Dims d = b.dims(out);
    if (d.size() != 2 || numel(b.dims(label)) != d[0]) label_shape(b, out, label, "one class id per row of probabilities");
    const ValueId p = b.op("GatherElements", {out, b.reshape(b.cast(label, DType::i64), {d[0], 1})}, {{"axis", int64_t{1}}});
    return {{b.op("Neg", {total(b, b.op("Log", {p}))})}};
  }
  if (kind == "mse") return {{total(b, square(b, b.op("Sub", {out, float_label(b, out, label)})))}};
  if (kind == "bce_logits") {  // softplus(x) - x y
    const ValueId y = float_label(b, out, label);
    return {{total(b, b.op("Sub", {b.op("Softplus", {out}), b.op("Mul", {out, y})}))}};
  }
  if (kind == "rmspe_exp") {  // n sqrt(mean r^2), r = 1 - e^(o - y): an item counts the root once
    const ValueId y = float_label(b, out, label);
    const ValueId r = b.op("Sub", {b.scalar(1, t), b.op("Exp", {b.op("Sub", {out, y})})});
    const double n = static_cast<double>(numel(b.dims(out)));
    const ValueId mean = b.op("Mul", {total(b, square(b, r)), b.scalar(1 / n, t)});
    return {{b.op("Mul", {b.op("Sqrt", {mean}), b.scalar(n, t)})}};
  }
  if (kind == "cosine_mse") {
    const ValueId c = pair_cosine(b, out);
    return {{total(b, square(b, b.op("Sub", {c, float_label(b, c, label)})))}};
  }
  bug("unknown loss " + kind);
}

std::vector<double> count_items(const LossSpec& spec, const HostTensor& label) {
  const auto valid = [&](const std::vector<int64_t>& ids) {
    return static_cast<double>(std::count_if(ids.begin(), ids.end(), [&](int64_t i) { return i != spec.ignore_index; }));
  };
  const std::string& kind = spec.kind;
  if (kind == "cross_entropy" || kind == "cross_entropy_nchw") return {valid(label.to_ints())};
  if (kind == "causal_lm" || kind == "qa_span") {
    const std::vector<int64_t> ids = label.to_ints();
    const int64_t cols = label.dims().at(1);
    std::vector<int64_t> first, rest;
    for (size_t i = 0; i < ids.size(); ++i) (static_cast<int64_t>(i) % cols == 0 ? first : rest).push_back(ids[i]);
    if (kind == "causal_lm") return {valid(rest)};
    return {valid(first), valid(rest)};
  }
  return {static_cast<double>(label.numel())};
}

}  // namespace amp
