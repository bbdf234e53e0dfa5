// The memory bill: what a Session really takes of the emulated device, and what is advised when it does not fit.
#include "trainer/memory_bill.h"

#include <catch2/catch_all.hpp>

#include "backend/cuda/emulated_device.h"
#include "base/error.h"
#include "tests/cuda/gpu.h"
#include "tests/zoo/golden.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the memory bill is what a session takes", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const Golden g(test_data() + "/zoo/lenet_relu_dyn18");
  SessionOptions o;
  o.device = device.get();
  OptimizerConfig adam;
  const MemoryBill bill = measure_memory(g.model.graph, o, adam, g.loss, g.batch, false);
  Session session(g.model.graph, o);
  session.prepare(g.loss, g.batch);
  session.train_micro(g.loss, g.batch, seeds_of(g), false);
  CHECK(bill.activations == session.activation_bytes());
  CHECK(bill.parameters == session.layout().size() * 4);
  CHECK(bill.gradients == session.layout().trained_size() * 4);
  CHECK(bill.moments == 2 * bill.gradients);
  CHECK(bill.copies >= 0);
  CHECK(bill.largest.size() == 3);

  adam.ema_decay = 0.9;
  CHECK(measure_memory(g.model.graph, o, adam, g.loss, g.batch, false).moments == 3 * bill.gradients);
}

TEST_CASE("gradients that accumulate are not held beside the sum", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const char* entry : {"bert_cls_sdpa_dyn18", "minilm_embed_ts14"}) {
    INFO(entry);
    const Golden g(test_data() + "/zoo/" + entry);
    SessionOptions o;
    o.device = device.get();
    const auto activations = [&](bool accumulate) {
      return measure_memory(g.model.graph, o, OptimizerConfig{}, g.loss, g.batch, accumulate).activations;
    };
    CHECK(activations(true) <= activations(false) + activations(false) / 50);
  }
}

TEST_CASE("out of memory names what was asked for and what would fit", "[cuda]") {
  const auto bill_of = [](int64_t batch) {
    MemoryBill b;
    b.parameters = 1 << 20;
    b.activations = batch * (64 << 20);
    b.largest = {"Softmax [32,12,128,128]"};
    return b;
  };
  require_memory(bill_of(32), int64_t{3} << 30, 32, 2, bill_of);
  try {
    require_memory(bill_of(32), int64_t{1} << 30, 32, 2, bill_of);
    FAIL("it does not fit");
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::memory);
    CHECK(e.id() == "E_OOM");
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("2,148,532,224 B") &&
                             Catch::Matchers::ContainsSubstring("Softmax [32,12,128,128]"));
    CHECK_THAT(e.hint(), Catch::Matchers::ContainsSubstring("--batch_size 8 --gradient_accumulation_steps 8 "));
  }
  CHECK_THROWS_WITH(require_memory(bill_of(4), 1 << 20, 4, 1, bill_of),
                    Catch::Matchers::ContainsSubstring("no batch size fits"));
}
