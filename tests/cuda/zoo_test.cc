// Imported models on the emulated device: gradients and ten steps of SGD and AdamW against PyTorch's, as on the CPU.
#include <catch2/catch_all.hpp>

#include "tests/cuda/gpu.h"
#include "tests/cuda/trained.h"
#include "tests/emulator/emulated_device.h"
#include "tests/ops/one_node.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("models on the emulated CUDA device agree with PyTorch", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const auto& entry : zoo_entries()) {
    DYNAMIC_SECTION(entry.filename().string()) {
      const Golden g(entry);
      check_gradients(g, *device);
      for (const auto& [method, run] : g.runs) check_trajectory(g, method, *device);
    }
  }
}

TEST_CASE("a token outside the vocabulary is refused before it is copied to the device", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  Golden g(test_data() + "/zoo/bert_cls_eager_ts14");
  SessionOptions o;
  o.device = device.get();
  Session session(g.model.graph, o);
  run_gradients(session, g);
  HostTensor& ids = g.batch.at("input_ids");
  const HostTensor good = ids;
  for (const int64_t bad : {int64_t{1} << 40, int64_t{-100000}}) {
    std::vector<int64_t> v = good.to_ints();
    v.back() = bad;
    ids = HostTensor::of<int64_t>(good.dims(), v);
    CHECK_THROWS_WITH(run_gradients(session, g), Catch::Matchers::ContainsSubstring("is outside a table of"));
  }
}

TEST_CASE("training on the emulated CUDA device repeats its bits", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const DType low = GENERATE(DType::f32, DType::f16, DType::bf16);
  const Golden g(zoo_entries().back());
  CHECK(same_bits(trained(g, *device, low, 4), trained(g, *device, low, 4)));
}
