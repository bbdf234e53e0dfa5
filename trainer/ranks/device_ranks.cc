#include "trainer/ranks/device_ranks.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace amp {

namespace {

// Of devices that compute in the host's memory.
class HostRanks final : public DeviceRanks {
 public:
  HostRanks(Collective& ranks, GradientSums* early) : ranks_(ranks), early_(early) {}

  void sum(const std::vector<Tensor>& data) override {
    if (early_) {
      const bool gradients =
          std::any_of(data.begin(), data.end(), [&](const Tensor& t) { return early_->sums(t.data); });
      gradients ? early_->start() : early_->hold();  // ranks make the same sums in the same order
    }
    for (const Tensor& t : data) {
      if (early_ && early_->sums(t.data)) {
        early_->finish();
        continue;
      }
      const auto n = static_cast<size_t>(t.numel());
      if (t.dtype == DType::f64)
        ranks_.all_reduce(std::span(t.as<double>(), n), Reduction::sum);
      else
        ranks_.all_reduce(std::span(t.as<float>(), n), Reduction::sum);
    }
  }

 private:
  Collective& ranks_;
  GradientSums* early_;
};

}  // namespace

std::unique_ptr<DeviceRanks> join_devices(Device& device, Collective& ranks, GradientSums* early) {
  const bool host = device.traits().host_memory;
  std::array<double, 2> any{host ? 1.0 : 0.0, host ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(any), Reduction::max);
  if (any[0] > 0 && any[1] > 0)
    fail(Exit::distributed, "E_RANKS",
         cat("some ranks compute on the CPU, rank ", ranks.rank(), " on: ", device.description()),
         "give all of them the same --device");
  if (host) return std::make_unique<HostRanks>(ranks, early);
  RankContact contact;
  contact.rank = ranks.rank();
  contact.size = ranks.size();
  contact.from_first = [&ranks](std::string& bytes) { ranks.broadcast(bytes, 0); };
  contact.lost = [&ranks](const Error& e) { ranks.lost(e); };
  return device.join(contact);
}

}  // namespace amp
