// DeviceCommunicator for devices that compute in host memory. It forwards to the Communicator: HostRanks reduces
// gradients in every step; LocalRanks (local SGD) only exchanges losses and a flag for non-finite gradients. Other
// devices create their own DeviceCommunicator (NCCL).
#include "trainer/comm/device_communicator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace amp {

namespace {

// Base class of HostRanks and LocalRanks with the operations that they share.
class RanksOnHost : public DeviceCommunicator {
 public:
  explicit RanksOnHost(Communicator& ranks) : ranks_(ranks) {}

  void average(const std::vector<Tensor>& data) final {
    for (const Tensor& t : data) {
      const std::span<float> all(t.as<float>(), static_cast<size_t>(t.numel()));
      ranks_.all_reduce(all, Reduction::sum);
      for (float& x : all) x /= static_cast<float>(ranks_.size());
    }
  }
  // Requires that the ranges are the shards of Communicator::shard().
  void gather(const Tensor& data, const std::vector<ElementRange>&) final {
    ranks_.all_gather(std::span(data.as<float>(), static_cast<size_t>(data.numel())));
  }

 protected:
  Communicator& ranks_;
};

class HostRanks final : public RanksOnHost {
 public:
  HostRanks(Communicator& ranks, GradientReducer* early) : RanksOnHost(ranks), early_(early) {}

  void sum(const std::vector<Tensor>& data) override {
    if (early_) {
      const bool gradients =
          std::any_of(data.begin(), data.end(), [&](const Tensor& t) { return early_->sums(t.data); });
      gradients ? early_->start() : early_->hold();  // the order of sums must be the same on all ranks
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
  GradientReducer* early_;
};

class LocalRanks final : public RanksOnHost {
 public:
  using RanksOnHost::RanksOnHost;

  void sum(const std::vector<Tensor>& data) override {
    double broken[] = {0.0};
    float* own = nullptr;
    for (const Tensor& t : data) {
      const auto n = static_cast<size_t>(t.numel());
      if (t.dtype == DType::f64) {
        ranks_.all_reduce(std::span(t.as<double>(), n), Reduction::sum);
      } else if (n > 0) {
        own = t.as<float>();
        if (!all_finite(own, static_cast<int64_t>(n))) broken[0] = 1;
      }
    }
    ranks_.all_reduce(std::span<double>(broken), Reduction::max);
    if (broken[0] > 0 && own) *own = std::numeric_limits<float>::infinity();
  }

 private:
  static bool all_finite(const float* x, int64_t n) {
    bool bad = false;
#pragma omp parallel for reduction(|| : bad) if (n > 1 << 16)
    for (int64_t i = 0; i < n; ++i) bad = bad || !std::isfinite(x[i]);
    return !bad;
  }
};

void require_alike(Device& device, Communicator& ranks) {
  const bool host = device.traits().host_memory;
  std::array<double, 2> any{host ? 1.0 : 0.0, host ? 0.0 : 1.0};
  ranks.all_reduce(std::span<double>(any), Reduction::max);
  if (any[0] > 0 && any[1] > 0)
    fail(Exit::distributed, "E_RANKS",
         cat("some ranks compute on the CPU, rank ", ranks.rank(), " on: ", device.description()),
         "give all of them the same `device`");
}

RankContact contact_of(Communicator& ranks) {
  RankContact contact;
  contact.rank = ranks.rank();
  contact.size = ranks.size();
  contact.from_first = [&ranks](std::string& bytes) { ranks.broadcast(bytes, 0); };
  contact.lost = [&ranks](const Error& e) { ranks.lost(e); };
  return contact;
}

}  // namespace

std::unique_ptr<DeviceCommunicator> join_local(Device& device, Communicator& ranks) {
  require_alike(device, ranks);
  if (device.traits().host_memory) return std::make_unique<LocalRanks>(ranks);
  RankContact contact = contact_of(ranks);
  contact.local = true;
  return device.join(contact);
}

std::unique_ptr<DeviceCommunicator> join_devices(Device& device, Communicator& ranks, GradientReducer* early,
                                                 const CompressedGradients& gradients) {
  require_alike(device, ranks);
  if (device.traits().host_memory) return std::make_unique<HostRanks>(ranks, early);
  RankContact contact = contact_of(ranks);
  contact.gradients = gradients;
  return device.join(contact);
}

}  // namespace amp
