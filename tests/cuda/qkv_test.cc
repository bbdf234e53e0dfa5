// The projections of q, k and v as one product (ops/passes/qkv.h) on the emulated device. The update keeps the weights
// adjacent; their gradients are computed separately.
#include "ops/passes/qkv.h"

#include <catch2/catch_all.hpp>

#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"
#include "tests/trainer/merged_bert.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the update stores weights of q, k and v adjacent in 16 bits", "[cuda][qkv]") {
  const SourceGraph source = small_bert();
  const auto device = cuda::make_emulated_device();
  SessionOptions o = in_bf16(source);
  o.device = device.get();
  const Losses losses = bert_loss();
  const Tensors batch = bert_batch();
  Session session(source, o);
  session.prepare(losses, batch);
  const auto graph = session.train_graph(losses, batch);
  int parted = 0;
  for (int32_t n = 0; n < graph->n_nodes(); ++n) {
    const Node& node = graph->node(NodeId{n});
    parted += node.op->name == "MatMulBiasGrad" && node.attrs.i("parts", 1) == 3;
  }
  CHECK(parted == 2);
  train_and_check_copies(session, *device, losses, batch);
}

TEST_CASE("gradients of parts have the bits of the whole gradient, split", "[cuda][qkv]") {
  const auto device = cuda::make_emulated_device();
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const int64_t of : {1, 0}) {
      // The operands are x, shape (rows, 5), and dY, shape (rows, 3 * 8).
      std::vector<HostTensor> in{draw({70, 5}, 1, type), draw({70, 24}, 2, type)};
      if (of == 0) std::swap(in[0], in[1]);
      Attrs attrs{{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", of}};
      OnDevice whole(*device, "MatMulBiasGrad", in, attrs, DType::f32);
      const std::vector<HostTensor> all = whole.run(in);
      attrs.set("parts", int64_t{3});
      OnDevice apart(*device, "MatMulBiasGrad", in, attrs, DType::f32);
      const std::vector<HostTensor> parts = apart.run(in);
      REQUIRE(parts.size() == 6);
      const auto *c = all[0].as<float>(), *sums = all[1].as<float>();
      for (int64_t p = 0; p < 3; ++p) {
        const auto *got = parts[static_cast<size_t>(p)].as<float>(),
                   *got_sums = parts[static_cast<size_t>(3 + p)].as<float>();
        for (int64_t i = 0; i < 40; ++i) {
          const int64_t at = of == 1 ? i / 8 * 24 + p * 8 + i % 8 : p * 40 + i;
          REQUIRE(got[i] == c[at]);
        }
        for (int64_t i = 0; i < 8; ++i) REQUIRE(got_sums[i] == sums[p * 8 + i]);
      }
    }
  }
}

// The arena has the model's order: weight, bias, weight, bias, ...
TEST_CASE("gradients of parts at one stride are one launch, those at others are not", "[cuda][qkv]") {
  const auto device = cuda::make_emulated_device();
  constexpr int64_t kRows = 20, kFrom = 5, kPart = 8, kStride = kFrom * kPart + kPart;
  const HostTensor x = draw({kRows, kFrom}, 1), dy = draw({kRows, 3 * kPart}, 2);
  const Attrs attrs{{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", int64_t{1}}, {"parts", int64_t{3}}};
  const auto want = on_cpu("MatMulBiasGrad", {x, dy}, attrs);
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{0, 1, 2}, {0, 2, 1}, {2, 1, 0}}) {
    for (const bool accumulate : {false, true}) {
      std::vector<float> arena(3 * kStride, 0.5f);
      Graph g;
      const ValueId a = g.add_input("x", DType::f32, x.dims()), b = g.add_input("dy", DType::f32, dy.dims());
      const Node& node = g.node(g.add_node(core_op("MatMulBiasGrad"), {a, b}, attrs, {}));
      std::vector<char> scratch(static_cast<size_t>(device->workspace(g, node)) + 64);
      KernelArgs args{node, {}, {}, nullptr, nullptr, device.get()};
      args.workspace = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
      for (const HostTensor* t : {&x, &dy}) args.in.push_back({const_cast<void*>(t->data()), t->dtype(), t->dims()});
      for (const int64_t p : order) args.out.push_back({arena.data() + p * kStride, DType::f32, {kFrom, kPart}});
      for (const int64_t p : order)
        args.out.push_back({arena.data() + p * kStride + kFrom * kPart, DType::f32, {kPart}});
      const Kernel run = device->kernel(accumulate ? "MatMulBiasGrad+=" : "MatMulBiasGrad")(args);
      device->keep_events(true);
      device->events().clear();
      run();
      int products = 0;
      for (const cuda::Event& e : device->events()) products += e.kind == cuda::Event::gemm;
      CHECK(products == (order[1] == 1 && order[0] == 0 ? 1 : 3));
      for (size_t i = 0; i < 6; ++i) {
        const std::vector<double> expected = want[i].to_doubles();
        const auto* got = args.out[i].as<float>();
        for (size_t k = 0; k < expected.size(); ++k)
          REQUIRE(std::abs(static_cast<double>(got[k]) - expected[k] - (accumulate ? 0.5 : 0)) < 1e-5);
      }
    }
  }
}
