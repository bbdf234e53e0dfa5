// The memory estimate equals the memory that a Session allocates on the emulated device. Also tests the hint if a model
// does not fit.
#include "trainer/compile/memory_estimate.h"

#include <catch2/catch_all.hpp>
#include <cstring>

#include "base/error.h"
#include "tests/cuda/gpu.h"
#include "tests/emulator/emulated_device.h"
#include "tests/support.h"
#include "tests/zoo/golden.h"
#include "trainer/compile/update_profile.h"
#include "trainer/loop/micro_batches.h"
#include "trainer/loop/step_engine.h"

using namespace amp;
using namespace amp::test;

TEST_CASE("the memory estimate equals the memory of a session", "[cuda]") {
  const auto emulated = cuda::make_emulated_device();
  Device* const device = GENERATE(false, true) ? static_cast<Device*>(emulated.get()) : &cpu_device();
  INFO(device->description());
  const Golden g(test_data() + "/zoo/lenet_relu_dyn18");
  SessionOptions o;
  o.device = device;
  OptimizerConfig adam;
  const MemoryEstimate bill = estimate_memory(g.model.graph, o, adam, g.loss, g.batch, false);
  Session session(g.model.graph, o);
  session.prepare(g.loss, g.batch);
  run_micro_batch(session, g.loss, g.batch, seeds_of(g), false);
  CHECK(bill.activations == session.activation_bytes());
  CHECK(bill.parameters == session.layout().size() * 4);
  CHECK(bill.gradients == session.layout().trained_size() * 4);
  CHECK(bill.moments == 2 * bill.gradients);
  CHECK(bill.copies >= 0);
  CHECK(bill.largest.size() == 3);

  adam.ema_decays = {0.9};
  CHECK(estimate_memory(g.model.graph, o, adam, g.loss, g.batch, false).moments == 3 * bill.gradients);
}

TEST_CASE("gradients that accumulate are not stored in addition to the sum", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  for (const char* entry : {"bert_cls_sdpa_dyn18", "minilm_embed_ts14"}) {
    INFO(entry);
    const Golden g(test_data() + "/zoo/" + entry);
    SessionOptions o;
    o.device = device.get();
    const auto activations = [&](bool accumulate) {
      return estimate_memory(g.model.graph, o, OptimizerConfig{}, g.loss, g.batch, accumulate).activations;
    };
    CHECK(activations(true) <= activations(false) + activations(false) / 50);
  }
}

TEST_CASE("an out-of-memory error names the phase, the requested size and what would fit", "[cuda]") {
  const auto bill_of = [](int64_t batch) {
    MemoryEstimate b;
    b.parameters = 1 << 20;
    b.activations = batch * (64 << 20);
    b.libraries = 256 << 20;
    b.batch = "ids [32,128]";
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
    CHECK_THAT(e.fact(), Catch::Matchers::ContainsSubstring("2,416,967,680 B") &&
                             Catch::Matchers::ContainsSubstring(
                                 "no room for the activations (and 16-bit weights) of ids [32,128]") &&
                             Catch::Matchers::ContainsSubstring("libraries' workspace up to 268,435,456 B") &&
                             Catch::Matchers::ContainsSubstring("Softmax [32,12,128,128]"));
    CHECK_THAT(e.hint(), Catch::Matchers::ContainsSubstring("`batch_size` 8 `gradient_accumulation_steps` 8 "));
  }
  CHECK_THROWS_WITH(require_memory(bill_of(4), 1 << 20, 4, 1, bill_of),
                    Catch::Matchers::ContainsSubstring("no batch size fits"));
}

TEST_CASE("phases are checked in the order in which they are allocated", "[cuda]") {
  MemoryEstimate b;
  b.parameters = b.gradients = b.activations = b.moments = b.libraries = 10;
  b.copies = 5;
  b.batch = "x [4]";
  CHECK(b.short_of(9) == "the weights");
  CHECK(b.short_of(19) == "the gradients");
  CHECK(b.short_of(34) == "the activations (and 16-bit weights) of x [4]");
  CHECK(b.short_of(44) == "the optimizer's moments");
  CHECK(b.short_of(54) == "the libraries' workspace");
  CHECK(b.short_of(55).empty());
}

namespace {

// Allocates weights, a training Program and an update on a device with this much memory. Returns the error's text.
std::string with_memory(const Golden& g, int64_t limit) {
  const auto device = cuda::make_emulated_device();
  device->memory_limit = limit;
  SessionOptions o;
  o.device = device.get();
  try {
    Session session(g.model.graph, o);
    session.prepare(g.loss, g.batch);
    ScheduleConfig constant;
    constant.kind = "constant";
    const StepEngine engine(session, {}, constant, {}, g.loss, 1);
  } catch (const Error& e) {
    CHECK(e.exit() == Exit::memory);
    CHECK(e.id() == "E_OOM");
    return e.fact();
  }
  return "";
}

}  // namespace

TEST_CASE("memory that runs out while a run is set up names the phase", "[cuda]") {
  const Golden g(test_data() + "/zoo/lenet_relu_dyn18");
  const auto device = cuda::make_emulated_device();
  SessionOptions o;
  o.device = device.get();
  const MemoryEstimate b = estimate_memory(g.model.graph, o, {}, g.loss, g.batch, false);
  CHECK(device->memory_in_use() == 0);
  using Catch::Matchers::StartsWith;
  CHECK_THAT(with_memory(g, b.parameters - 1), StartsWith("no memory for the weights: "));
  CHECK_THAT(with_memory(g, b.parameters + b.gradients + b.activations / 2),
             StartsWith("no memory for the activations (and 16-bit weights) of "));
  CHECK_THAT(with_memory(g, b.total() - b.moments), StartsWith("no memory for the optimizer's moments: "));
  CHECK(with_memory(g, b.total() + (1 << 20)).empty());
}

TEST_CASE("the update is timed without changing a weight", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  const Golden g(test_data() + "/zoo/lenet_relu_dyn18");
  SessionOptions o;
  o.device = device.get();
  Session session(g.model.graph, o);
  session.prepare(g.loss, g.batch);
  const HostTensor before = session.host_params();
  OptimizerConfig adam;
  adam.weight_decay = 0.1;
  const std::optional<UpdateProfile> p = profile_update(session, adam, g.loss, 2);
  REQUIRE(p);
  CHECK(p->seconds > 0);
  CHECK(p->copy_bytes_per_s > 0);
  CHECK(p->bytes == session.layout().trained_size() * 32);
  const HostTensor after = session.host_params();
  CHECK(std::memcmp(before.data(), after.data(), static_cast<size_t>(before.bytes())) == 0);
  adam.ema_decays = {0.9};
  CHECK(profile_update(session, adam, g.loss, 1)->bytes == session.layout().trained_size() * 40);
  SessionOptions host;
  Session on_host(g.model.graph, host);
  on_host.prepare(g.loss, g.batch);
  CHECK_FALSE(profile_update(on_host, adam, g.loss, 1));
}
