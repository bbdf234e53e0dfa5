// A small BERT, its session in bf16 and the 16-bit copies of its weights, for tests of merged projections
// (ops/passes/qkv.h).
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "backend/device.h"
#include "backend/param_cache.h"
#include "bench/roofline/bert.h"
#include "precision/decide.h"
#include "precision/op_list.h"
#include "trainer/loop/step_engine.h"

namespace amp::test {

// Reads a 16-bit copy whose rows of c.row elements are c.pitch elements apart.
inline HostTensor gathered(Device& d, const ParamCache::Copy& c) {
  const Tensor& t = c.tensor;
  HostTensor out = HostTensor::empty(t.dtype, t.dims);
  const int64_t width = size_of(t.dtype);
  for (int64_t at = 0; at < t.numel(); at += c.row)
    d.download(static_cast<char*>(out.mutable_data()) + at * width,
               static_cast<const char*>(t.data) + at / c.row * c.pitch * width, c.row * width);
  return out;
}

inline SourceGraph small_bert() {
  BertConfig c;
  c.layers = 2;
  c.hidden = 24;
  c.heads = 3;
  c.intermediate = 32;
  c.vocabulary = 11;
  c.positions = 9;
  SourceGraph g = bert_graph(c);
  double at = 0;
  for (SourceValue& v : g.values) {
    if (v.kind != SourceKind::parameter) continue;
    v.data = HostTensor::empty(DType::f32, v.data.dims());
    for (int64_t i = 0; i < v.data.numel(); ++i)
      v.data.as_mutable<float>()[i] = static_cast<float>(std::sin(at += 0.7));
  }
  return g;
}

inline LossSpec bert_loss() {
  LossSpec loss;
  loss.outputs = loss.reads = {"logits"};
  loss.label = "label";
  return loss;
}
inline Tensors bert_batch() {
  return {{"input_ids", HostTensor::of<int64_t>({2, 3}, {1, 10, 3, 0, 7, 2})},
          {"label", HostTensor::of<int64_t>({2}, {1, 0})}};
}
inline SessionOptions in_bf16(const SourceGraph& source) {
  SessionOptions o;
  o.low = DType::bf16;
  for (const Decision& d : decide(source, preset("O1"), o.low).nodes) o.compute.push_back(dtype_of(d.compute));
  return o;
}

// Checks that exactly the copies of q's, k's and v's weights and biases are adjacent, and that they equal the master
// weights.
inline void check_joined_copies(Session& session, Device& device) {
  int joined = 0;
  for (const ParamCache::Copy& c : session.copies().copies()) {
    if (c.row == 0) continue;
    ++joined;
    const HostTensor want = session.param(c.slot).cast(DType::bf16), got = gathered(device, c);
    CHECK(std::memcmp(got.data(), want.data(), static_cast<size_t>(want.bytes())) == 0);
  }
  CHECK(joined == 2 * 6);
}

// Runs three steps that change the parameters, and checks the copies after each.
inline void train_and_check_copies(Session& session, Device& device, const Losses& losses, const Tensors& batch) {
  ScheduleConfig schedule;
  schedule.kind = "constant";
  schedule.lr = 1e-2;
  schedule.total_steps = 3;
  LossScaleConfig scale;
  scale.mode = LossScaleConfig::Mode::off;
  StepEngine engine(session, {}, schedule, scale, losses, 3);
  check_joined_copies(session, device);
  const auto last = [&] { return session.param(session.copies().copies().back().slot).to_doubles(); };
  const std::vector<double> before = last();
  for (int step = 0; step < 3; ++step) {
    LossAccumulator counted(losses);
    counted.count(batch);
    engine.submit({step, &losses, {batch}, {1}, false}, counted);
    REQUIRE(engine.take(true).has_value());
    check_joined_copies(session, device);
  }
  CHECK(last() != before);
  session.set_params(session.host_params());
  check_joined_copies(session, device);
}

}  // namespace amp::test
