// BatchNormalization (ONNX 7+) and InstanceNormalization (6+). x is (N, C, ...); scale, bias, mean and var are (C).
// Core operators, with the attribute epsilon:
//
//   BatchNorm(x, scale, bias, mean, var) -> y          y = (x - mean) rstd(var) scale + bias
//   BatchNormTrain(x, scale, bias) -> y, mean, var     mean and biased var of the batch; gradient through y only
//   BatchNormGrad(dy, x, scale, mean, var) {train} -> dx, dscale, dbias
//
// BatchNorm has no gradient to mean and var.
//
// BindOptions::batchnorm_train, not the file, decides whether a node becomes BatchNorm or BatchNormTrain. So an
// inference export can be trained with batch statistics, and a training export is evaluated with its running
// statistics. Only the verb `predict` runs a file as inference engines do (BindOptions::batchnorm_as_written).
//
// Running statistics follow the ONNX operator (opset 14, training_mode = 1), in files of every opset:
//   running = running momentum + batch (1 - momentum),   with the biased variance of the batch.
// (PyTorch's momentum is 1 - momentum. PyTorch uses the unbiased variance, which is n / (n - 1) times the biased one.)
#include "backend/cpu/norm/batch_norm.h"

#include <algorithm>

#include "backend/channels_last.h"
#include "graph/bind.h"
#include "ops/elementwise_op.h"
#include "ops/statistics.h"
#include "ops/term.h"

namespace amp {
namespace {

void check_channels(const InferCtx& c, size_t x, size_t first) {
  const Dims& dims = c.in(x).dims;
  if (dims.size() < 2) fail(Exit::model, "E_SHAPE", cat("batch normalization of ", to_string(c.in(x).dims)));
  for (size_t i = first; i < c.n_in(); ++i) {
    if (c.in(i).dims != Dims{has_channels_last(c.attrs) ? dims.back() : dims[1]}) {
      fail(Exit::model, "E_SHAPE",
           cat("batch normalization of ", to_string(c.in(x).dims), " with a vector ", to_string(c.in(i).dims)));
    }
  }
}
void infer_batch_norm(InferCtx& c) {
  check_channels(c, 0, 1);
  infer_same(c);
}
void infer_batch_norm_train(InferCtx& c) {
  check_channels(c, 0, 1);
  infer_same(c);
  const DType t = is_low(c.in(0).dtype) ? DType::f32 : c.in(0).dtype;  // statistics are not stored in 16 bits
  for (int i = 0; i < 2; ++i) c.out(t, c.in(1).dims);
}
void infer_batch_norm_grad(InferCtx& c) {
  check_channels(c, 1, 2);
  c.out(c.in(0).dtype, c.in(0).dims);
  for (int i = 0; i < 2; ++i) c.out(c.in(2).dtype, c.in(2).dims);
}

void add_grads(GradBuilder& g, ValueId mean, ValueId var, bool train) {
  const Attrs a{{"epsilon", g.attrs().f("epsilon", 1e-5)}, {"train", int64_t{train}}};
  const auto d = g.b.ops("BatchNormGrad", {g.dy(0), g.in(0), g.in(1), mean, var}, a);
  for (size_t i = 0; i < 3; ++i) g.add_grad(i, d[i]);
}
void grad_batch_norm(GradBuilder& g) { add_grads(g, g.in(3), g.in(4), false); }
void grad_batch_norm_train(GradBuilder& g) {
  if (g.has_dy(0)) add_grads(g, g.out(1), g.out(2), true);
}

// Returns the dims (1, C, 1 ...), with which a vector (C) broadcasts against x (N, C, ...).
Dims channel_row(const Dims& x) {
  Dims row(x.size(), 1);
  row[1] = x[1];
  return row;
}
std::vector<int64_t> all_but_channels(const Dims& x) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i != 1) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

// Decomposes BatchNormGrad. In the training form, mean and var are recomputed from x, so that the result depends only
// on dy, x and scale.
std::vector<ValueId> decompose_grad(Builder& b, const std::vector<ValueId>& in, const Attrs& a) {
  const Term dy(b, in[0]), x(b, in[1]);
  const Dims channel = channel_row(x.dims());
  const std::vector<int64_t> axes = all_but_channels(x.dims());
  const auto row = [&](ValueId v) { return Term(b, b.cast(v, b.dtype(x))).shaped(channel); };
  const bool train = a.i("train", 0) != 0;
  const Term centered = x - (train ? x.mean(axes) : row(in[3]));
  const Term var = train ? (centered * centered).mean(axes) : row(in[4]);
  const Term rstd = (var + a.f("epsilon", 1e-5)).to("Sqrt").to("Reciprocal"), h = centered * rstd;
  const Term g = dy * row(in[2]), rest = train ? g - g.mean(axes) - h * (g * h).mean(axes) : g;
  const auto total = [&](Term t) { return b.cast(b.reduce_sum(t, axes, false), b.dtype(in[2])); };
  return {rstd * rest, total(dy * h), total(dy)};
}
OpDef grad_def() {
  OpDef d = op_with_workspace<batch_norm_grad>("BatchNormGrad", infer_batch_norm_grad, nullptr);
  d.decomposition = decompose_grad;
  return d;
}

const RegisterOp ops[] = {
    RegisterOp{op_with_workspace<batch_norm>("BatchNorm", infer_batch_norm, grad_batch_norm)},
    RegisterOp{op_with_workspace<batch_norm_train>("BatchNormTrain", infer_batch_norm_train, grad_batch_norm_train)},
    RegisterOp{grad_def()}};
const RegisterKernel kernels[] = {RegisterKernel{DeviceKind::cpu, "BatchNorm", with_workspace<batch_norm>},
                                  RegisterKernel{DeviceKind::cpu, "BatchNormTrain", with_workspace<batch_norm_train>},
                                  RegisterKernel{DeviceKind::cpu, "BatchNormGrad", with_workspace<batch_norm_grad>}};

bool moves(const Lowering& l, size_t i) { return l.has(i) && l.b.value(l.in(i)).kind == ValueKind::param; }

// Returns the running statistic of input i after this batch. If training updates the statistic, the result becomes the
// graph's output "statistic.SLOT"; a module that is applied again continues from it. The new nodes get no source node
// as origin, so that no precision plan rounds the result.
ValueId blend(Lowering& l, size_t i, ValueId batch) {
  Builder& b = l.b;
  ValueId running = l.in(i);
  Graph::Output* moved = nullptr;
  if (moves(l, i)) {
    auto& outputs = b.mutable_graph().outputs;
    const std::string name = statistic_output(b.value(running).slot);
    const auto it =
        std::find_if(outputs.begin(), outputs.end(), [&](const Graph::Output& o) { return o.name == name; });
    moved = it != outputs.end() ? &*it : &outputs.emplace_back(Graph::Output{name, running});
    running = moved->value;
  }
  const DType t = b.dtype(running);
  const double momentum = l.attrs.f("momentum", 0.9);
  const Origin node = b.origin;
  b.origin = Origin{-1, "running statistic"};
  const ValueId now = b.op("Add", {b.op("Mul", {running, b.scalar(momentum, t)}),
                                   b.op("Mul", {b.cast(batch, t), b.scalar(1 - momentum, t)})});
  b.origin = node;
  if (moved) moved->value = now;
  return now;
}

// Returns an unfused BatchNorm, for statistics that the graph itself computes (for example, those of a standardized
// weight). Gradients pass through these statistics.
ValueId by_elements(Lowering& l, ValueId x) {
  Builder& b = l.b;
  const Dims per_channel = channel_row(b.dims(x));
  const auto row = [&](size_t i) { return b.cast(b.reshape(l.in(i), per_channel), b.dtype(x)); };
  const ValueId var = b.op("Add", {row(4), b.scalar(l.attrs.f("epsilon", 1e-5), b.dtype(x))});
  const ValueId normal = b.op("Div", {b.op("Sub", {x, row(3)}), b.op("Sqrt", {var})});
  return b.op("Add", {b.op("Mul", {normal, row(1)}), row(2)});
}

// Returns an unfused BatchNormTrain whose statistics cover the samples of all ranks (torch.nn.SyncBatchNorm). Gradients
// pass through its two sums over the ranks. Its nodes get no source node as origin, so that no precision plan rounds
// them.
std::vector<ValueId> over_ranks(Builder& b, ValueId input, ValueId scale, ValueId bias, double epsilon) {
  const Origin node = b.origin;
  b.origin = Origin{-1, "synchronized batch normalization"};
  const Term x(b, input);
  const int64_t channels = x.dims()[1];
  const Dims row = channel_row(x.dims());
  const std::vector<int64_t> axes = all_but_channels(x.dims());
  const auto all = [&](ValueId v) { return Term(b, b.op("RanksSum", {v})); };
  const double items = static_cast<double>(numel(x.dims()) / channels);
  const Term sums = all(b.op("Concat", {b.reduce_sum(x, axes, false), b.expand(b.scalar(items, b.dtype(x)), {1})},
                             {{"axis", int64_t{0}}}));
  const Term count(b, slice(b, sums, 0, channels, 1)), mean = Term(b, slice(b, sums, 0, 0, channels)) / count;
  const Term centered = x - mean.shaped(row);
  const Term var = all(b.reduce_sum(centered * centered, axes, false)) / count;
  const Term rstd = (var + epsilon).to("Sqrt").to("Reciprocal");
  const auto wide = [&](ValueId v) { return Term(b, b.cast(v, b.dtype(x))).shaped(row); };
  const Term y = centered * rstd.shaped(row) * wide(scale) + wide(bias);
  b.origin = node;
  return {y, mean, var};
}

// Lowers BatchNormalization. Outputs: y, running mean and running var after this batch; before opset 14 also saved mean
// and saved var of the batch.
void lower_batch_norm(Lowering& l) {
  Builder& b = l.b;
  if (l.version() < 9 && l.attrs.i("spatial", 1) == 0) l.unsupported("spatial = 0");
  const Attrs a{{"epsilon", l.attrs.f("epsilon", 1e-5)}};
  ValueId x = l.in(0), y, mean, var;
  const bool vector = l.rank(0) == 1;  // x (N) has one channel
  if (vector) x = b.reshape(x, {l.dims(0)[0], 1});
  const bool in_training_form = l.version() >= 14 ? l.attrs.i("training_mode", 0) != 0 : l.n_out() > 1;
  const bool empty = numel(l.dims(0)) == 0;  // an empty batch has no statistics, so the running ones are kept
  if (!empty && (l.options.batchnorm_train || (l.options.batchnorm_as_written && in_training_form))) {
    const auto out = l.options.sync_batchnorm ? over_ranks(b, x, l.in(1), l.in(2), a.f("epsilon", 1e-5))
                                              : b.ops("BatchNormTrain", {x, l.in(1), l.in(2)}, a);
    y = out[0];
    if (l.wanted(1) || moves(l, 3)) mean = blend(l, 3, out[1]);
    if (l.wanted(2) || moves(l, 4)) var = blend(l, 4, out[2]);
    if (l.wanted(3)) l.out(3, out[1]);
    if (l.wanted(4)) l.out(4, out[2]);
  } else {
    const auto computed = [&](size_t i) { return b.value(l.in(i)).kind == ValueKind::temp; };
    y = computed(3) || computed(4) ? by_elements(l, x) : b.op("BatchNorm", {x, l.in(1), l.in(2), l.in(3), l.in(4)}, a);
    mean = l.in(3);
    var = l.in(4);
    l.out(3, mean);
    l.out(4, var);
  }
  l.out(0, vector ? b.reshape(y, l.dims(0)) : y);
  l.out(1, mean);
  l.out(2, var);
}

// Normalizes each (image, channel) by its own statistics, which is a batch normalization of one image with N*C
// channels.
void lower_instance_norm(Lowering& l) {
  Builder& b = l.b;
  const Dims x = l.dims(0);
  if (x.size() < 3 || l.dims(1) != Dims{x[1]} || l.dims(2) != Dims{x[1]}) {
    fail(Exit::model, "E_SHAPE", cat("InstanceNormalization of ", to_string(x), " with scale ", to_string(l.dims(1))));
  }
  const int64_t channels = checked_mul(x[0], x[1]);
  const auto per_image = [&](ValueId v) { return b.reshape(b.expand(v, {x[0], x[1]}), {channels}); };
  Dims dims{1, channels};
  dims.insert(dims.end(), x.begin() + 2, x.end());
  const auto y = b.ops("BatchNormTrain", {b.reshape(l.in(0), dims), per_image(l.in(1)), per_image(l.in(2))},
                       {{"epsilon", l.attrs.f("epsilon", 1e-5)}});
  l.out(0, b.reshape(y[0], x));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"BatchNormalization", lower_batch_norm, 7, {}}},
                             RegisterOnnx{{"InstanceNormalization", lower_instance_norm, 6, {}}}};

}  // namespace

std::string statistic_output(int slot) { return cat("statistic.", slot); }

std::vector<int> running_statistics(const SourceGraph& g) {
  std::vector<int> as_statistic(g.values.size(), 0), uses(g.values.size(), 0), out;
  for (const SourceNode& n : g.nodes) {
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] < 0) continue;
      const auto v = static_cast<size_t>(n.inputs[i]);
      ++uses[v];
      as_statistic[v] += n.op == "BatchNormalization" && n.domain.empty() && (i == 3 || i == 4);
    }
  }
  for (size_t v = 0; v < uses.size(); ++v) {
    const SourceValue& value = g.values[v];
    if (value.kind == SourceKind::parameter && !value.trainable && uses[v] > 0 && uses[v] == as_statistic[v])
      out.push_back(static_cast<int>(v));
  }
  return out;
}

}  // namespace amp
