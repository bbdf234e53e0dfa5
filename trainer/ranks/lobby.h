// Where the processes of one machine meet before MPI starts: MPI's own start waits for ever for a process that dies or
// is stopped in it, where the launcher ends nobody. So they connect by a Unix socket whose name the launcher's job
// gives, and watch each other (liveness.h) from there on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/ranks/connections.h"

namespace amp {

struct LobbyPlace {
  int rank = 0, size = 1;
  std::string name;  // of the job, for this machine and user
};

// Of Open MPI's launcher, where all ranks are on this machine; none: they meet once MPI has started.
std::optional<LobbyPlace> lobby_place();

// As connect_ranks(). E_RANK_LOST: one of them left. E_MPI: some did not come within so many seconds.
std::vector<Connected> meet_in_lobby(const LobbyPlace& place, double patience);

}  // namespace amp
