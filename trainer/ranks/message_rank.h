// Collectives of ranks that are processes, made of messages. A carrier moves bytes from rank to rank and nothing else:
// sums are made here, in the order of the ranks, so that they are those of ranks that are threads, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/collective.h"

namespace amp {

struct RankMessage {
  int rank = 0;  // from, or to
  char* data = nullptr;
  int64_t bytes = 0;
};

class MessageRank : public Collective {
 public:
  using Collective::Collective;

 private:
  // Waits for all of them. At most one message to each other rank and one from it; those of two ranks arrive in the
  // order of the calls. E_RANK_LOST.
  virtual void exchange(const std::vector<RankMessage>& sent, const std::vector<RankMessage>& received) = 0;

  void do_reduce_scatter(const Block& block, Reduction how) final;
  void do_all_gather(const Block& block) final;
  void do_broadcast(char* data, int64_t bytes, int root) final;
  void do_barrier() final;

  std::vector<char> space_;
};

}  // namespace amp
