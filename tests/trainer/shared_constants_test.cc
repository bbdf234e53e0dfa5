// Tests that equal constants of several graphs are in memory only once, and that quantized weights are not dequantized
// in memory.
#include "trainer/compile/shared_constants.h"

#include <catch2/catch_all.hpp>

#include "backend/measuring_device.h"
#include "tests/trainer/small_run.h"
#include "trainer/compile/memory_estimate.h"
#include "trainer/loop/micro_batches.h"

using namespace amp;
using namespace amp::test;

namespace {

HostTensor filled(int64_t n, float value, float last) {
  HostTensor t = HostTensor::empty(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) t.as_mutable<float>()[i] = i + 1 < n ? value : last;
  return t;
}

const void* data_of(const Graph& g, int32_t i) { return g.value(ValueId{i}).constant.data(); }

}  // namespace

TEST_CASE("equal constants of several graphs are shared, others are not") {
  constexpr int64_t kLarge = 20000;
  SharedConstants shared;
  Graph first, second;
  for (Graph* g : {&first, &second}) {
    g->add_constant(filled(kLarge, 1, 1));
    g->add_constant(filled(100, 1, 1));                          // too small to matter
    g->add_constant(filled(kLarge, 1, 1).reshaped({2, 10000}));  // other dims
    shared.share(*g);
  }
  CHECK(data_of(first, 0) == data_of(second, 0));
  CHECK(data_of(first, 1) != data_of(second, 1));
  CHECK(data_of(first, 2) == data_of(second, 2));
  CHECK(second.value(ValueId{2}).dims == Dims{2, 10000});
  CHECK(shared.on_device().size() == 2);
  Graph third;
  third.add_constant(filled(kLarge, 1, 2));  // this constant differs in the last element
  shared.share(third);
  CHECK(data_of(third, 0) != data_of(first, 0));
  const HostTensor own = filled(kLarge, 1, 1);
  shared.clear();
  Graph fourth;
  fourth.add_constant(own);
  shared.share(fourth);
  CHECK(data_of(fourth, 0) == own.data());
}

TEST_CASE("equal constants of one graph are shared, and released with the last graph that has them") {
  SharedConstants shared;
  Graph first, second;
  for (int layer = 0; layer < 30; ++layer) first.add_constant(filled(1000, 1, 1));
  second.add_constant(filled(1000, 1, 1));
  second.add_constant(filled(1000, 2, 2));
  const SharedConstants::Addresses of_first = shared.share(first), of_second = shared.share(second);
  CHECK(of_first.size() == 1);
  CHECK(data_of(first, 0) == data_of(first, 29));
  CHECK(data_of(first, 0) == data_of(second, 0));
  CHECK(shared.bytes() == 2 * 4000);
  shared.release(of_first);
  CHECK(shared.bytes() == 2 * 4000);
  shared.release(of_second);
  CHECK(shared.bytes() == 0);
  CHECK(shared.on_device().empty());
}

TEST_CASE("share copies a constant that shares the memory of a larger constant") {
  SharedConstants shared;
  Graph g;
  const HostTensor whole = filled(4000, 1, 2);
  g.add_constant(whole);
  g.add_constant(HostTensor(DType::f32, {1000}, std::make_shared<HostTensor>(whole), whole.data()));
  CHECK(shared.share(g).size() == 2);
  CHECK(data_of(g, 1) != data_of(g, 0));
  CHECK(shared.on_device().count(data_of(g, 1)) == 1);
}

TEST_CASE("the memory of a quantized weight is that of its bits, for any number of batch sizes") {
  constexpr int64_t kIn = 256, kOut = 2048, kPacked = kOut * kIn / 2 + kOut * kIn / 32 * 4;
  SourceGraph g = random_graph(
      "input x\nparam W 256 256\nconst data = 0\nconst scales = 0\nh = MatMul(x, W)\n"
      "y = com.microsoft::MatMulNBits{K=256,N=2048,bits=4,block_size=32}(h, data, scales)\noutput y",
      "W 0.1");
  const auto set = [&](const std::string& name, HostTensor t) {
    SourceValue& v = g.values[static_cast<size_t>(g.find(name))];
    v.dtype = t.dtype();
    v.dims.clear();
    for (const int64_t d : t.dims()) v.dims.push_back({d, {}});
    v.data = std::move(t);
  };
  set("data", HostTensor::zeros(DType::u8, {kOut, kIn / 32, 16}));
  set("scales", HostTensor::zeros(DType::f32, {kOut, kIn / 32}));
  LossSpec loss;
  loss.outputs = {"y"};
  loss.label = "label";
  const Losses losses{{loss}};
  const auto batch = [](int64_t rows) {
    return Tensors{{"x", normal({rows, kIn}, 1, 1)}, {"label", HostTensor::zeros(DType::i64, {rows})}};
  };
  MeasuringDevice device(cpu_device());
  SessionOptions o;
  o.device = &device;
  const int64_t estimated = estimate_memory(g, o, OptimizerConfig{}, losses, batch(3), false).copies;
  CHECK(estimated >= kPacked);
  CHECK(estimated < kPacked + kPacked / 8);
  Session session(g, o);
  session.prepare(losses, batch(1));
  const auto after = [&](int64_t rows) {
    run_micro_batch(session, losses, batch(rows), LossAccumulator(losses).seeds(1), false);
    return device.memory_in_use() - session.activation_bytes();
  };
  const int64_t first = after(1);
  int64_t last = first;
  for (int64_t rows = 2; rows <= 50; ++rows) last = after(rows);
  CHECK(last - first < kPacked / 8);
}
