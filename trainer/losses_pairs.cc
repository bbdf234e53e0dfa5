// Losses on embeddings: pairs and triples of rows. A model with one output gives them in turn (rows 2i and 2i + 1, or
// 3i, 3i + 1, 3i + 2); a model with an output for each side gives them side by side. And the loss that the model itself
// computes.
#include "base/error.h"
#include "ops/compose.h"
#include "trainer/losses_parts.h"

namespace amp::losses {

namespace {

// n matrices [rows, H]; as many as spec.sides says.
std::vector<ValueId> sides(Builder& b, const LossSpec& spec, const LossInputs& in, size_t n) {
  std::vector<ValueId> out;
  if (in.outputs.size() > 1) {
    for (const ValueId v : in.outputs) {
      if (b.rank(v) != 2 || b.dims(v) != b.dims(in.outputs[0])) {
        fail(Exit::data, "E_DATA_SHAPE",
             cat(spec.kind, " wants embeddings [n, h] of one shape, got ", to_string(b.dims(in.outputs[0])), " and ",
                 to_string(b.dims(v))));
      }
      out.push_back(v);
    }
    return out;
  }
  const Dims d = b.dims(in.outputs[0]);
  const int64_t k = spec.sides > 0 ? spec.sides : static_cast<int64_t>(n);
  if (d.size() != 2 || d[0] % k)
    fail(Exit::data, "E_DATA_SHAPE", cat(spec.kind, " wants [", k, "n, h] embeddings, got ", to_string(d)),
         "the batch size must be a multiple, and --shuffle false keeps rows together");
  const ValueId groups = b.reshape(in.outputs[0], {d[0] / k, k, d[1]});
  for (int64_t i = 0; i < k; ++i) out.push_back(b.reshape(slice(b, groups, 1, i, 1), {d[0] / k, d[1]}));
  return out;
}

// |x| per row, at least 1e-8 as torch.nn.functional.cosine_similarity has it
ValueId norm(Builder& b, ValueId x) {
  return b.op("Sqrt", {b.op("Clip", {b.reduce_sum(square(b, x), {1}, true)}, {{"min", 1e-16}})});
}

ValueId row_cosine(Builder& b, ValueId u, ValueId v) {
  const int64_t n = b.dims(u)[0];
  const ValueId dot = b.reduce_sum(mul(b, u, v), {1}, false);
  return div(b, dot, b.reshape(mul(b, norm(b, u), norm(b, v)), {n}));
}

// |u - v + 1e-6| per row, as torch.nn.functional.pairwise_distance
ValueId distance(Builder& b, ValueId u, ValueId v) {
  return safe_sqrt(b, b.reduce_sum(square(b, shifted(b, sub(b, u, v), 1e-6)), {1}, false));
}

}  // namespace

// A label in the output's shape: 1 - cos(output, label) a row. A label of 1 and -1 a pair: 1 - cos, or max(0, cos -
// margin).
Sums cosine(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const ValueId x = in.outputs[0];
  const DType t = b.dtype(x);
  if (b.dims(in.label) == b.dims(x) && b.rank(x) == 2) {
    return {total(b, shifted(b, scaled(b, row_cosine(b, x, b.cast(in.label, t)), -1), 1))};
  }
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const ValueId c = row_cosine(b, s[0], s[1]);
  if (numel(b.dims(in.label)) != numel(b.dims(c)))
    label_shape(b, x, in.label, "1 or -1 per pair, or embeddings in the output's shape");
  const ValueId alike = b.op("Greater", {b.reshape(b.cast(in.label, t), b.dims(c)), b.scalar(0, t)});
  return {total(b, b.op("Where", {alike, shifted(b, scaled(b, c, -1), 1),
                                  b.op("Relu", {shifted(b, c, -spec.margin.value_or(0))})}))};
}

Sums cosine_mse(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const ValueId c = row_cosine(b, s[0], s[1]);
  return {total(b, square(b, sub(b, c, float_label(b, c, in.label))))};
}

Sums triplet(Builder& b, const LossSpec& spec, const LossInputs& in) {  // max(0, |a - p| - |a - n| + margin)
  const std::vector<ValueId> s = sides(b, spec, in, 3);
  if (s.size() != 3)
    fail(Exit::usage, "E_LOSS_IO",
         "triplet takes one output with rows anchor, positive, negative in turn, or three outputs");
  return {total(b, b.op("Relu", {shifted(b, sub(b, distance(b, s[0], s[1]), distance(b, s[0], s[2])),
                                         spec.margin.value_or(1))}))};
}

// Cross-entropy of scale cos(anchor_i, candidate_j) with the own positive i as the class; candidates are all positives
// of the micro-batch, and all negatives where there is a third side.
Sums multiple_negatives(Builder& b, const LossSpec& spec, const LossInputs& in) {
  const std::vector<ValueId> s = sides(b, spec, in, 2);
  const int64_t n = b.dims(s[0])[0];
  const ValueId candidates = s.size() == 3 ? concat(b, {s[1], s[2]}, 0) : s[1];
  const ValueId anchors = div(b, s[0], norm(b, s[0])), others = div(b, candidates, norm(b, candidates));
  const ValueId scores = b.op("MatMul", {anchors, others}, {{"transB", int64_t{1}}, {"alpha", spec.scale}});
  std::vector<int64_t> own(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) own[static_cast<size_t>(i)] = i;
  return {
      b.op("CrossEntropy", {scores, b.constant(HostTensor::of<int64_t>({n}, own))}, {{"ignore_index", int64_t{-100}}})};
}

// The mean of the output, times the rows of the batch.
Sums model(Builder& b, const LossSpec&, const LossInputs& in) {
  const ValueId x = in.outputs[0];
  return {scaled(b, total(b, x), static_cast<double>(in.rows) / static_cast<double>(numel(b.dims(x))))};
}

Counts count_label_rows(const LossSpec&, const HostTensor& label, int64_t) {
  return {label.rank() == 0 ? 1.0 : static_cast<double>(label.dims()[0])};
}
Counts count_groups_of_2(const LossSpec& spec, const HostTensor&, int64_t rows) {
  return {static_cast<double>(spec.outputs.size() > 1 ? rows : rows / rows_together(spec))};
}
Counts count_groups_of_3(const LossSpec& spec, const HostTensor&, int64_t rows) {
  return {static_cast<double>(spec.outputs.size() > 1 ? rows : rows / 3)};
}
Counts count_rows(const LossSpec&, const HostTensor&, int64_t rows) { return {static_cast<double>(rows)}; }

}  // namespace amp::losses
