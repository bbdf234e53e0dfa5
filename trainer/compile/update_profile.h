// Times of a training step: operators of a micro-batch, and the device's update compared with its copy bandwidth.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "trainer/compile/session.h"
#include "trainer/losses/losses.h"

namespace amp {

// Returns the seconds per operator of a training micro-batch, averaged over `repeats` runs after a warm-up. All loss
// terms have the seed 1. Overwrites gradients and staged statistics.
std::map<std::string, double> profile_operators(Session& session, const Losses& losses, const Tensors& batch,
                                                int repeats);

// Returns a lower bound of the bytes that an update reads and writes.
int64_t update_bytes(const UpdateSpec& spec, const std::vector<ParamCache::Copy>& copies);

struct UpdateProfile {
  double seconds = 0;           // time of one update: norm, unscaling, clipping, optimizer, EMA, 16-bit copies
  int64_t bytes = 0;            // update_bytes()
  double copy_bytes_per_s = 0;  // bandwidth of a plain copy on the device, counting bytes read and bytes written
  double share() const { return static_cast<double>(bytes) / seconds / copy_bytes_per_s; }
};

// Requires session.prepare(). Runs `repeats` updates with a learning rate of 0 on temporary moments, for which it
// allocates memory. The session does not change, except that its gradients become 0. Empty if the host does the update.
std::optional<UpdateProfile> profile_update(Session& session, const OptimizerConfig& optimizer, const Losses& losses,
                                            int repeats);

}  // namespace amp
