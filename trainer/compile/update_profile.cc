// Compares the update with a plain copy on the same device, because memory bandwidth limits an optimizer step. If
// UpdateProfile::share() is near 1, the update is as fast as the device permits.

#include "trainer/compile/update_profile.h"

#include <algorithm>
#include <chrono>

#include "trainer/loop/micro_batches.h"
#include "trainer/loop/step_engine.h"

namespace amp {

namespace {

// Returns the mean seconds of one `work`, which is launched `repeats` times without waiting in between.
template <class F>
double seconds_of(Device& device, int repeats, F&& work) {
  using Clock = std::chrono::steady_clock;
  device.synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) work();
  device.synchronize();
  return std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-9) / repeats;
}

}  // namespace

int64_t update_bytes(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies) {
  const int64_t moments = spec.optimizer.moments();
  // The gradient is read twice, because its norm is needed before the first update. Weight, moments and moving average
  // are each read and written.
  int64_t bytes = spec.elements * 4 * (2 + 2 * (1 + moments + spec.optimizer.averages()));
  for (const ParamCache::Copy& c : copies) {
    const bool trains =
        std::any_of(spec.spans.begin(), spec.spans.end(), [&](const UpdateSpan& s) { return s.slot == c.slot; });
    if (trains) bytes += c.tensor.bytes();
  }
  return bytes;
}

std::map<std::string, double> profile_operators(Session& session, const Losses& losses, const Tensors& batch,
                                                int repeats) {
  std::map<std::string, double> sum;
  double share = 0;  // weight of the current run in the average; 0 for the first run, which warms up
  const Instrumentation look{[&](Program& p) {
    for (const Program::TimedStep& s : p.run_timed()) sum[std::string(s.op)] += (s.end - s.begin) * share;
  }};
  const std::vector<double> seeds(LossAccumulator(losses).seeds(1).size(), 1);
  for (int r = -1; r < repeats; ++r) {
    share = r < 0 ? 0 : 1.0 / repeats;
    run_micro_batches(session, losses, {batch}, seeds, &look);
  }
  return sum;
}

std::optional<UpdateProfile> profile_update(Session& session, const OptimizerConfig& optimizer, const Losses& losses,
                                            int repeats) {
  Device& device = session.device();
  if (!device.traits().reports_late) return {};  // without late results, the host does the update
  ScheduleConfig still;
  still.kind = "constant";
  UpdateSpec spec = describe_update(session, optimizer, still, {}, losses, 0);
  spec.lr = nullptr;  // a null schedule means a learning rate of 0, so the weights do not change
  session.zero_grads();
  session.stage_statistics();
  UpdateProfile out;
  {
    const std::unique_ptr<DeviceUpdate> update = device.make_update(spec);
    update->set_copies(session.copies().copies());
    update->begin(std::vector<double>(static_cast<size_t>(spec.terms), 1));
    const auto once = [&] {
      update->apply();
      while (update->take(false)) {
      }
    };
    for (int i = 0; i < 3; ++i) once();  // the kernels are launched one by one, then recorded, then replayed
    out.seconds = seconds_of(device, repeats, once);
  }
  out.bytes = update_bytes(spec, session.copies().copies());
  // The copy reads and writes as many bytes as the update, within limits: each of its buffers has between 1 MiB and 1
  // GiB.
  const int64_t size = std::clamp<int64_t>(out.bytes / 2, 1 << 20, 1 << 30);
  const DeviceMemory from = device.allocate(size), to = device.allocate(size);
  const auto copy = [&] { device.copy(to.get(), from.get(), size); };
  copy();
  out.copy_bytes_per_s = 2 * static_cast<double>(size) / seconds_of(device, repeats, copy);
  return out;
}

}  // namespace amp
