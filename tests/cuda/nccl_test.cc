// Ranks with one GPU each and NCCL for the sums, with emulated devices and a libnccl whose ranks are threads
// (tests/nccl/fake_nccl.h). NCCL itself is only tested on a machine with a GPU, by the last test, for one rank.
#include "backend/cuda/nccl.h"

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdlib>

#include "tests/cuda/gpu.h"
#include "tests/emulator/emulated_device.h"
#include "tests/errors.h"
#include "tests/nccl/fake_nccl.h"
#include "tests/trainer/ranked_run.h"
#include "trainer/comm/device_communicator.h"

using namespace amp;
using namespace amp::test;

namespace {

// Makes the fake NCCL the library during its lifetime.
class Fake {
 public:
  Fake() : library_(dlopen(FAKE_NCCL, RTLD_NOW)) {
    REQUIRE(library_);
    ::setenv("ONNX_AMP_NCCL_LIBRARY", FAKE_NCCL, 1);
    of<void()>("fake_nccl_reset")();
  }
  ~Fake() {
    of<void()>("fake_nccl_reset")();
    ::unsetenv("ONNX_AMP_NCCL_LIBRARY");
  }
  std::string calls() const { return of<const char*()>("fake_nccl_calls")(); }
  void fail(const char* function, int at, int code) const {
    of<void(const char*, int, int)>("fake_nccl_fail")(function, at, code);
  }
  void break_all(int code) const { of<void(int)>("fake_nccl_break")(code); }
  void release(int code) const { of<void(int)>("fake_nccl_release")(code); }

 private:
  template <class F>
  F* of(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library_, name));
  }
  void* library_;
};

std::unique_ptr<Device> emulated() { return cuda::make_emulated_device(); }

// Sums x over the ranks on a separate emulated device. Returns the sum.
std::vector<float> sum_on(Communicator& rank, std::vector<float> x) {
  const std::unique_ptr<Device> device = emulated();
  const std::unique_ptr<DeviceCommunicator> ranks = join_devices(*device, rank);
  ranks->sum({Tensor{x.data(), DType::f32, {static_cast<int64_t>(x.size())}}});
  return x;
}

}  // namespace

TEST_CASE("K GPUs of B samples train like one of K B", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.config.max_steps = 20;
  SECTION("AdamW") {}
  SECTION("SAM") { job.config.optimizer.sam_rho = 0.05; }
  SECTION("clipped, averaged") {
    job.config.optimizer.max_grad_norm = 0.1;
    job.config.optimizer.ema_decays = {0.9};
  }
  SECTION("a rule with curvature") {
    job.config.optimizer.rule = "sophia_h";
    job.config.optimizer.settings = rule_settings("sophia_h", {});
    job.config.optimizer.settings.hessian_interval = 2;
  }
  SECTION("a rule of whole tensors") {
    job.config.optimizer.rule = "adafactor";
    job.config.optimizer.settings = rule_settings("adafactor", {});
  }
  const std::vector<Replica> cpu = job.run(1, 8);
  job.device = emulated;
  const std::vector<Replica> one = job.run(1, 8);
  REQUIRE(fake.calls().empty());  // one rank does not communicate
  CHECK(furthest(one[0].losses, cpu[0].losses) <= 1e-5);
  for (const int size : {2, 4}) {
    INFO(size << " ranks");
    const std::vector<Replica> ranks = job.run(size, 8);
    REQUIRE(ranks[0].losses.size() == 20);
    require_equal(ranks);
    CHECK(furthest(ranks[0].losses, one[0].losses) <= 1e-5);
    CHECK(furthest(ranks[0].params[0], one[0].params[0]) <= 1e-6);
    CHECK(job.run(size, 8)[0].params == ranks[0].params);
  }
}

TEST_CASE("GPUs exchange gradients in 16 bits as the CPU's ranks do", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.config.max_steps = 20;
  const std::vector<Replica> cpu = job.run(1, 8);
  job.config.grad_reduce_dtype = GENERATE(DType::f16, DType::bf16);
  const std::vector<Replica> sent = job.run(2, 8);
  job.device = emulated;
  const std::vector<Replica> ranks = job.run(2, 8);
  require_equal(ranks);
  CHECK(ranks[0].params != cpu[0].params);
  // A sum over two ranks is rounded once on both devices. Gradients differ by fp32 rounding.
  CHECK(furthest(ranks[0].losses, sent[0].losses) <= 2e-3);
  CHECK(furthest(ranks[0].params[0], sent[0].params[0]) <= 1e-6);
  if (job.config.grad_reduce_dtype == DType::f16) require_skipped_together(job);
}

TEST_CASE("an overflow on one GPU makes all GPUs skip the step", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.device = emulated;
  require_skipped_together(job);
}

TEST_CASE("local steps between averages on GPUs train as on the CPU", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.config.sync_every = 3;
  job.config.max_steps = 12;
  job.config.optimizer.ema_decays = {0.9};
  job.config.save_steps = 6;
  job.config.save_total_limit = 0;
  const bool normed = GENERATE(false, true);
  if (normed) job.use_batch_norm();
  const std::vector<Replica> cpu = job.run(2, 8);
  const auto saved = [&](int64_t step) {
    return load_checkpoint(checkpoint_path(job.config.output_dir + "/checkpoints", step));
  };
  const Checkpoint want = saved(12);
  std::filesystem::remove_all(job.config.output_dir + "/checkpoints");
  job.device = emulated;
  const std::vector<Replica> ranks = job.run(2, 8);
  CHECK(ranks[0].losses == ranks[1].losses);
  CHECK(ranks[0].params[0] != ranks[1].params[0]);
  CHECK(furthest(ranks[0].losses, cpu[0].losses) <= 1e-5);
  CHECK(furthest(ranks[0].mean, cpu[0].mean) <= 1e-6);
  const Checkpoint end = saved(12), middle = saved(6);
  REQUIRE(end.tensors.size() == want.tensors.size());
  for (const auto& [name, t] : want.tensors) {
    INFO(name);
    if (name.starts_with("param/") || name.starts_with("ema/"))
      CHECK(furthest(end.tensors.at(name).to_doubles(), t.to_doubles()) <= 1e-5);
  }
  const std::vector<Replica> resumed = job.run(2, 8, &middle);
  for (size_t r = 0; r < 2; ++r) CHECK(resumed[r].params.back() == ranks[r].params.back());
  if (normed) return;
  job.config.scale.init = 1024;
  job.options.low = DType::f16;
  job.options.compute.assign(job.graph.nodes.size(), DType::f16);
  job.inject = [](int rank, int64_t step) { return rank == 1 && step == 4; };
  for (const Replica& r : job.run(2, 8)) {
    for (size_t s = 0; s < r.skipped.size(); ++s) CHECK(r.skipped[s] == (s == 4));
  }
}

TEST_CASE("a sharded optimizer on GPUs gives the same bits as an unsharded one", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun plain(folder / "plain"), sharded(folder / "sharded");
  const std::string what = GENERATE(from_range(kSharded));
  INFO(what);
  for (RankedRun* const job : {&plain, &sharded}) {
    job->device = emulated;
    use_sharded(*job, what);
  }
  require_shared_alike(plain, sharded);
}

TEST_CASE("a GPU with a sharded optimizer has only the moments of its shard", "[nccl]") {
  const std::unique_ptr<Device> device = emulated();
  std::vector<float> params(64, 1), grads(64, 0.5f);
  UpdateSpec spec;
  spec.optimizer.ema_decays = {0.5};
  spec.optimizer.shards = 2;
  spec.lr = [](int64_t) { return 0.1; };
  spec.max_steps = 1;
  spec.params = params.data();
  spec.grads = grads.data();
  spec.elements = 64;
  UpdateSpan span;
  span.count = 64;
  spec.spans = {span};
  spec.own = ElementRange{32, 32};
  int asked = 0;
  spec.gather = [&] { ++asked; };
  const std::unique_ptr<DeviceUpdate> update = device->make_update(spec);
  update->begin({1});
  update->apply();
  CHECK(asked == 1);
  CHECK(std::count(params.begin(), params.end(), 1.0f) == 32);
  CHECK(params[31] == 1);
  CHECK(params[32] != 1);
  for (const auto which : {DeviceUpdate::Moment::m, DeviceUpdate::Moment::v, DeviceUpdate::Moment::ema})
    CHECK(update->moment(which)->numel() == 32);
}

TEST_CASE("running statistics are averaged over the GPUs by their samples", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.use_batch_norm();
  const std::vector<Replica> cpu = job.run(4, 8);
  job.device = emulated;
  const std::vector<Replica> ranks = job.run(4, 8);
  require_equal(ranks);
  CHECK(std::abs(ranks[0].mean.at(0)) > 1e-3);
  CHECK(furthest(ranks[0].mean, cpu[0].mean) <= 1e-6);
}

TEST_CASE("synchronized batch normalization uses the rows of all GPUs", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.use_batch_norm();
  const std::vector<Replica> cpu = job.run(1, 8);
  job.device = emulated;
  job.options.sync_batchnorm = job.config.sampler.every_rank = true;
  const std::vector<Replica> ranks = job.run(4, 8);
  require_equal(ranks);
  CHECK(furthest(ranks[0].losses, cpu[0].losses) <= 1e-5);
  CHECK(furthest(ranks[0].mean, cpu[0].mean) <= 1e-6);
}

// Gradients, loss sums and statistics are one group of sums per step, for any number of micro-batches.
TEST_CASE("a step has one group of sums", "[nccl]") {
  const Fake fake;
  const TempDir folder;
  RankedRun job(folder / "run");
  job.device = emulated;
  job.use_batch_norm();
  job.config.sampler.accumulation = 2;
  job.config.max_steps = 5;
  job.run(2, 8);
  const std::string calls = fake.calls();
  CHECK(std::count(calls.begin(), calls.end(), '(') == 2 * 5);
  // 4 sums per step: gradients, losses, mean, variance.
  CHECK(std::count(calls.begin(), calls.end(), '+') == 2 * 5 * 4);
}

TEST_CASE("NCCL's message about a failure is reported", "[nccl]") {
  const Fake fake;
  std::thread later;
  const auto release_later = [&](int code) {  // releases a rank that waits for a missing rank
    later = std::thread([&fake, code] {
      std::this_thread::sleep_for(std::chrono::milliseconds(900));
      fake.release(code);
    });
  };
  SECTION("the ranks do not find each other") {
    fake.fail("ncclCommInitRank", 1, 6);
    release_later(6);
    expect_error(
        "E_NCCL_ERROR", "of 2: remote process exited (said by the fake)",
        [] { on_ranks(2, [](Communicator& rank) {
               sum_on(rank, {1, 2});
             }); }, Exit::distributed);
  }
  SECTION("a sum is refused") {
    fake.fail("ncclAllReduce", 1, 6);
    release_later(6);
    expect_error(
        "E_RANK_LOST", "of 2: remote process exited (said by the fake)",
        [] { on_ranks(2, [](Communicator& rank) {
               sum_on(rank, {1, 2});
             }); }, Exit::distributed);
  }
  SECTION("an error that NCCL finds while a rank waits") {
    std::string told;
    expect_error(
        "E_RANK_LOST", "remote process exited",
        [&] {
          on_ranks(2, [&](Communicator& rank) {
            if (rank.is_root()) {
              sum_on(rank, {1, 2});  // the other rank does not call sum()
              return;
            }
            const std::unique_ptr<Device> device = emulated();
            const std::unique_ptr<DeviceCommunicator> ranks = join_devices(*device, rank);
            fake.break_all(6);
            release_later(6);
            try {
              rank.barrier();
            } catch (const Error& e) {
              told = e.fact();
              throw;
            }
          });
        },
        Exit::distributed);
    CHECK_THAT(told, Catch::Matchers::ContainsSubstring("remote process exited"));
  }
  if (later.joinable()) later.join();
}

TEST_CASE("a missing or old NCCL is named in the error", "[nccl]") {
  const Fake fake;
  expect_error(
      "E_NCCL", "several ranks on GPUs need NCCL: ", [] { cuda::nccl::open("/nonexistent/libnccl.so"); },
      Exit::unsupported);
  expect_error(
      "E_NCCL", "ncclGetVersion", [] { cuda::nccl::open("libm.so.6"); }, Exit::unsupported);
  fake.fail("ncclGetVersion", 0, 1);
  expect_error(
      "E_NCCL", "at least 21800", [] { cuda::nccl::open(FAKE_NCCL); }, Exit::unsupported);
}

TEST_CASE("ranks on a GPU and on the CPU are refused", "[nccl]") {
  const Fake fake;
  expect_error(
      "E_RANKS", "some ranks compute on the CPU",
      [] {
        on_ranks(2, [](Communicator& rank) {
          const std::unique_ptr<Device> device = emulated();
          join_devices(rank.is_root() ? cpu_device() : *device, rank);
        });
      },
      Exit::distributed);
}

TEST_CASE("GPU: NCCL sums over one rank, recorded and not", "[gpu][nccl]") {
  const std::shared_ptr<Device> device = gpu_or_skip();
  const DType sent = GENERATE(DType::f32, DType::f16, DType::bf16);
  const HostTensor x = normal({1000}, 1, 5);
  const DeviceMemory memory = device->allocate(x.bytes()), terms = device->allocate(8);
  RankContact alone;
  alone.from_first = [](std::string&) {};
  alone.gradients = {{memory.get(), DType::f32, x.dims()}, sent};
  std::unique_ptr<DeviceCommunicator> ranks;
  try {
    ranks = device->join(alone);
  } catch (const Error& e) {
    if (e.id() != "E_NCCL" || e.exit() != Exit::unsupported) throw;
    SKIP(e.what());
  }
  device->upload(memory.get(), x.data(), x.bytes());
  const std::vector<Tensor> data{{memory.get(), DType::f32, x.dims()}, {terms.get(), DType::f64, {1}}};
  ranks->sum(data);
  const std::unique_ptr<Recording> recording = device->record([&] { ranks->sum(data); });
  REQUIRE(recording);
  recording->replay();
  const std::vector<double> want = sent == DType::f32 ? x.to_doubles() : x.cast(sent).to_doubles();
  CHECK(device->read(data[0]).to_doubles() == want);
}
