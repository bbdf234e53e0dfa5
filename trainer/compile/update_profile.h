// Where a training step's time goes: operators of a micro-batch, and how fast a device's update is beside what the same
// device copies.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainer/compile/session.h"
#include "trainer/losses/losses.h"

namespace amp {

// Seconds by operator of a training micro-batch, each operator's share of `repeats` runs averaged. Gradients are those
// of the sum of all loss terms; staged statistics are left in disorder.
std::map<std::string, double> profile_operators(Session& session, const Losses& losses, const Tensors& batch,
                                                int repeats);

// What an update reads and writes at the least.
int64_t update_bytes(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies);

struct UpdateProfile {
  double seconds = 0;           // of one update: norm, unscaling, clipping, optimizer, EMA, 16-bit copies
  int64_t bytes = 0;            // it reads and writes so many at least
  double copy_bytes_per_s = 0;  // of a plain copy on the device, bytes read and bytes written
  double share() const { return static_cast<double>(bytes) / seconds / copy_bytes_per_s; }
};

// After prepare(). Runs `repeats` updates with a learning rate of 0 on moments of their own, so nothing of the session
// changes but its gradients, which become 0; needs memory for them. Empty where the host does the update itself.
std::optional<UpdateProfile> profile_update(Session& session, const OptimizerConfig& optimizer, const Losses& losses,
                                            int repeats);

}  // namespace amp
