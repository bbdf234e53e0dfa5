// Ranks as processes with one TCP connection per pair (tcp_rendezvous.h), without MPI.
#pragma once

#include <memory>

#include "trainer/comm/communicator.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/tcp_endpoint.h"

namespace amp {

// Collective. Connects all ranks; errors and timeouts are those of rendezvous_by_tcp(). The communicator throws
// E_RANK_LOST when it sends to or receives from a lost rank.
std::unique_ptr<Communicator> connect_tcp(const TcpEndpoint& place, const RankAccess& access, double connect_timeout,
                                          double heartbeat_timeout);

}  // namespace amp
