#include "trainer/comm/message_communicator.h"

#include <cstring>

namespace amp {

void MessageCommunicator::do_reduce_scatter(const Block& block, Reduction how) {
  const Shard mine = shard(block.count, rank());
  const int64_t bytes = mine.count * block.size;
  if (static_cast<int64_t>(space_.size()) < bytes * size()) space_.resize(static_cast<size_t>(bytes * size()));
  std::vector<RankMessage> sent, received;
  const auto of = [&](int r) { return space_.data() + r * bytes; };
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const Shard theirs = shard(block.count, r);
    sent.push_back({r, block.data + theirs.begin * block.size, theirs.count * block.size});
    received.push_back({r, of(r), bytes});
  }
  char* const own = block.data + mine.begin * block.size;
  if (bytes > 0) std::memcpy(of(rank()), own, static_cast<size_t>(bytes));
  exchange(sent, received);
  if (bytes == 0) return;
  std::vector<char*> all;
  for (int r = 0; r < size(); ++r) all.push_back(of(r));
  block.reduce(how, all, mine.count);
  std::memcpy(own, of(0), static_cast<size_t>(bytes));
}

void MessageCommunicator::do_all_gather(const Block& block) {
  const auto message = [&](int to, int whose) {
    const Shard s = shard(block.count, whose);
    return RankMessage{to, block.data + s.begin * block.size, s.count * block.size};
  };
  std::vector<RankMessage> sent, received;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sent.push_back(message(r, rank()));
    received.push_back(message(r, r));
  }
  exchange(sent, received);
}

void MessageCommunicator::do_broadcast(char* data, int64_t bytes, int root) {
  std::vector<RankMessage> sent;
  for (int r = 0; r < size() && rank() == root; ++r) {
    if (r != root) sent.push_back({r, data, bytes});
  }
  exchange(sent, rank() == root ? std::vector<RankMessage>{} : std::vector<RankMessage>{{root, data, bytes}});
}

void MessageCommunicator::do_barrier() {
  std::vector<char> in(static_cast<size_t>(size())), out(static_cast<size_t>(size()));
  std::vector<RankMessage> sent, received;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    sent.push_back({r, &out[static_cast<size_t>(r)], 1});
    received.push_back({r, &in[static_cast<size_t>(r)], 1});
  }
  exchange(sent, received);
}

}  // namespace amp
