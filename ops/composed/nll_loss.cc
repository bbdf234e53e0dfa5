// NegativeLogLikelihoodLoss (ONNX 12) and SoftmaxCrossEntropyLoss (12): losses that are part of a model, with class
// weights and ignore_index.
//   loss_i = -w[t_i] x[i, t_i];  mean divides by the sum of w[t_i] over the targets that are not ignored.
#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/compose.h"

namespace amp {
namespace {

// Return the permutations from (N, C, ...) to (N, ..., C), and back.
std::vector<int64_t> classes_last(size_t rank) {
  std::vector<int64_t> p(rank);
  std::iota(p.begin(), p.end(), int64_t{0});
  p.erase(p.begin() + 1);
  p.push_back(1);
  return p;
}
std::vector<int64_t> classes_second(size_t rank) {
  std::vector<int64_t> p(rank);
  std::iota(p.begin(), p.end(), int64_t{0});
  p.pop_back();
  p.insert(p.begin() + 1, static_cast<int64_t>(rank) - 1);
  return p;
}

// Returns the loss for the log-probabilities x, whose last axis holds the classes.
ValueId nll(Lowering& l, ValueId x) {
  Builder& b = l.b;
  const DType t = b.dtype(x);
  const Dims target_dims = l.dims(1);
  const int64_t classes = b.dims(x).back(), rows = numel(target_dims);
  const std::string reduction = l.attrs.s("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    fail(Exit::model, "E_ATTR", "reduction '" + reduction + "'");
  ValueId target = b.reshape(b.cast(l.in(1), DType::i64), {rows}), kept;
  if (l.attrs.has("ignore_index")) {
    const ValueId ignore = b.scalar(static_cast<double>(l.attrs.i("ignore_index", 0)), DType::i64);
    const ValueId ignored = b.op("Equal", {target, ignore});
    kept = b.op("Where", {ignored, b.scalar(0, t), b.scalar(1, t)});
    target = b.op("Where", {ignored, b.scalar(0, DType::i64), target});
  }
  ValueId weight = kept;
  if (l.has(2)) {
    weight = lookup(b, l.in(2), target);
    if (kept) weight = mul(b, weight, kept);
  }
  ValueId loss = b.op("Neg", {b.op("GatherElements", {b.reshape(x, {rows, classes}), b.reshape(target, {rows, 1})},
                                   {{"axis", int64_t{1}}})});
  loss = b.reshape(loss, {rows});
  if (weight) loss = mul(b, loss, weight);
  if (reduction == "none") return b.reshape(loss, target_dims);
  const ValueId sum = b.reduce_sum(loss, {0}, false);
  if (reduction == "sum") return sum;
  return weight ? div(b, sum, b.reduce_sum(weight, {0}, false)) : scaled(b, sum, 1 / static_cast<double>(rows));
}

void lower_nll(Lowering& l) { l.out(0, nll(l, l.b.transpose(l.in(0), classes_last(l.dims(0).size())))); }

void lower_sce(Lowering& l) {
  Builder& b = l.b;
  const size_t rank = l.dims(0).size();
  const ValueId log_prob = b.op("LogSoftmax", {b.transpose(l.in(0), classes_last(rank))});
  l.out(0, nll(l, log_prob));
  if (l.wanted(1)) l.out(1, b.transpose(log_prob, classes_second(rank)));
}

const RegisterOnnx nll_loss_onnx[] = {RegisterOnnx{{"NegativeLogLikelihoodLoss", lower_nll, 12, {}}},
                                      RegisterOnnx{{"SoftmaxCrossEntropyLoss", lower_sce, 12, {}}}};

}  // namespace
}  // namespace amp
