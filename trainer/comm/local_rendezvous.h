// Connects the processes of one machine before MPI starts. MPI_Init waits forever for a process that dies or is stopped
// in MPI_Init, unless the launcher ends the other processes. So the processes first connect by a Unix socket named
// after the launcher's job. From then on they detect failures (failure_detector.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/connections.h"

namespace amp {

struct LocalEndpoint {
  int rank = 0, size = 1;
  std::string name;  // the job's name; unique for machine and user
};

// Returns the endpoint from the variables of Open MPI's launcher. Empty if they are missing or if not all ranks run on
// this machine.
std::optional<LocalEndpoint> local_endpoint();

// Connects as connect_ranks() does. Throws E_RANK_LOST if a process ends, E_MPI if some processes do not arrive within
// connect_timeout seconds, and E_RANKS if the tokens differ.
std::vector<Connected> rendezvous_on_this_machine(const LocalEndpoint& place, const RankAccess& access,
                                                  double connect_timeout);

}  // namespace amp
