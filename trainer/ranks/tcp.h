// Ranks that are processes with a TCP connection for each pair of them (tcp_meeting.h): no MPI is needed.
#pragma once

#include <memory>

#include "trainer/collective.h"
#include "trainer/ranks/tcp_place.h"

namespace amp {

// By all ranks together, each in its place. Errors and seconds as of meet_by_tcp(); afterwards E_RANK_LOST as soon as
// a message is awaited from, or sent to, a rank that is gone.
std::unique_ptr<Collective> connect_tcp(const TcpPlace& place, double patience, double silence);

}  // namespace amp
