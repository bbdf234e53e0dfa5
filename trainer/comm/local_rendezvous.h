// Connects the processes of one machine before MPI starts. MPI_Init waits forever for a process that dies or is stopped
// in it if the launcher does not end the others. So the processes first connect by a Unix socket named after the
// launcher's job, and detect failures (failure_detector.h) from there on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/connections.h"

namespace amp {

struct LocalEndpoint {
  int rank = 0, size = 1;
  std::string name;  // of the job; unique for machine and user
};

// From the variables of Open MPI's launcher, if all ranks run on this machine; otherwise empty.
std::optional<LocalEndpoint> local_endpoint();

// Connects as connect_ranks() does. Throws E_RANK_LOST if a process leaves, E_MPI if some do not arrive within
// connect_timeout seconds.
std::vector<Connected> rendezvous_on_this_machine(const LocalEndpoint& place, double connect_timeout);

}  // namespace amp
