// Connects every pair of ranks by TCP, given the endpoint at which rank 0 listens.
//
// All ranks connect to rank 0 and identify themselves. Then rank 0 sends every rank the addresses of all others, and
// every rank connects to the ranks with a lower number. With one connection per pair, each link carries about twice the
// size of the gradients per step for any number of ranks (MessageCommunicator: each rank adds one shard). With a star,
// rank 0's link would carry that amount times the number of ranks.
#pragma once

#include <vector>

#include "trainer/comm/connections.h"
#include "trainer/comm/sockets.h"
#include "trainer/comm/tcp_endpoint.h"

namespace amp {

struct TcpPeer {
  Socket socket;  // not open for this process itself
  RankProcess process;
};

// Collective. Returns the peers in the order of the ranks. Connections of other programs or jobs, and of processes
// without the token, are closed and counted in a note. Throws E_RANKS (exit 10) if processes with the token disagree
// about the run (with the difference), if some ranks do not connect within connect_timeout seconds (with their
// numbers), or, on the other ranks, if rank 0 has another token. Throws E_RANK_LOST if a rank leaves before all are
// connected, or does not respond for heartbeat_timeout seconds and a margin.
std::vector<TcpPeer> rendezvous_by_tcp(const TcpEndpoint& place, const RankAccess& access, double connect_timeout,
                                       double heartbeat_timeout);

}  // namespace amp
