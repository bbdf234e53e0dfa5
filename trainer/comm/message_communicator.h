// Collectives between processes, built from point-to-point messages. The transport only copies bytes. Sums are computed
// here in the order of the ranks, so they have the same bits as those of ranks that are threads.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/comm/communicator.h"

namespace amp {

struct RankMessage {
  int rank = 0;  // the rank that sends (when receiving) or receives (when sending) the message
  char* data = nullptr;
  int64_t bytes = 0;
};

class MessageCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

 private:
  // Sends and receives at most one message per other rank and waits for all of them. Messages between two ranks arrive
  // in the order of the calls. Throws E_RANK_LOST.
  virtual void exchange(const std::vector<RankMessage>& sent, const std::vector<RankMessage>& received) = 0;

  void do_reduce_scatter(const Block& block, Reduction how) final;
  void do_all_gather(const Block& block) final;
  void do_broadcast(char* data, int64_t bytes, int root) final;
  void do_barrier() final;

  std::vector<char> space_;
};

}  // namespace amp
