// How ranks that know where the first one listens get a connection each with each.
//
// All connect to the first one and say who they are. Once all are there it tells them of each other, and every rank
// connects to those before it. With a connection for every pair each link carries about twice the gradients' size a
// step, whatever the number of ranks (MessageRank: each rank adds a share of them); by way of the first one, its link
// would carry that times their number.
#pragma once

#include <vector>

#include "trainer/ranks/connections.h"
#include "trainer/ranks/sockets.h"
#include "trainer/ranks/tcp_place.h"

namespace amp {

struct TcpPeer {
  Socket socket;  // of this process itself: none
  RankProcess process;
};

// By all ranks together, each in its place; gives those of all ranks, in their order. Whoever is no rank of this job is
// sent away. E_RANKS (exit 10): the ranks disagree about the job, by what differs; or some of them did not come within
// `patience` seconds, by their numbers. E_RANK_LOST: one of them left before all were connected, or
// gave no sign of life for `silence` seconds and a few once it had come.
std::vector<TcpPeer> meet_by_tcp(const TcpPlace& place, double patience, double silence);

}  // namespace amp
