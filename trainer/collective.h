// Collective: what the ranks of a run do together. Every rank holds a replica of the model and calls the same
// collectives in the same order. A sum is that of the ranks in their order, whatever carries it: the same bits on every
// rank, in every run, for threads and for processes.
//
// A rank that fails ends the group: whoever waits for it is told by E_RANK_LOST (exit 10) instead of waiting for ever.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace amp {

class Error;

enum class Reduction : uint8_t { sum, max };

// A sum over the ranks that goes on beside the caller.
struct RankSum {
  std::shared_ptr<void> memory;  // kept until then
  std::span<float> data;
  // Of a matrix most of whose rows may be zero on every rank: only the others are exchanged, where that is less. All
  // bits are those of the whole sum. 0: it is none.
  int64_t columns = 0;
  std::optional<std::vector<int32_t>> rows = {};  // that may be other than zero, ascending; empty: to be found
  // f16 or bf16: ranks exchange their values divided by the number of ranks, so that the sum is in fp16's range,
  // rounded to 16 bits (as the fp16 and bf16 hooks of PyTorch's DistributedDataParallel); they are added in fp32 and
  // the result is rounded once more: the same bits on all ranks, whether rows were exchanged or all.
  DType sent = DType::f32;
  // Once it has ended:
  double began = 0;      // seconds of the steady clock
  double seconds = 0;    // that it took, the wait for other ranks included
  bool by_rows = false;  // only rows that are not zero were exchanged
};

class Collective {
 public:
  using Handle = std::future<void>;  // of one that was started; get() waits, and throws what went wrong
  struct Share {
    int64_t begin = 0, count = 0;
  };

  Collective(int rank, int size) : rank_(rank), size_(size) {}
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool leads() const { return rank_ == 0; }  // the rank that logs, evaluates and writes

  // Each element becomes that of all ranks, reduced. T: float, double. A NaN of any rank stays one, in a maximum too.
  template <class T>
  void all_reduce(std::span<T> data, Reduction how);
  // The same for a rank's own share alone; the other elements keep what they held.
  template <class T>
  void reduce_scatter(std::span<T> data, Reduction how);
  // Each rank's share becomes that of all ranks.
  template <class T>
  void all_gather(std::span<T> data);
  void broadcast(std::string& bytes, int root);  // of any length
  void barrier();
  // A rank that is gone, in words; "" where none is, or nobody can tell without waiting for it.
  virtual std::string gone() const { return {}; }
  // What carries data beside it (NCCL) has found, on a thread of its own, that another rank is gone.
  void lost(const Error& e) const {
    if (when_lost_) when_lost_(e);
  }
  void when_lost(std::function<void(const Error&)> handler) { when_lost_ = std::move(handler); }
  // Goes on beside the caller, who leaves its data alone until get(). Collectives run one after the other, in the order
  // of the calls.
  Handle start_sum(std::shared_ptr<RankSum> sum);

  // n elements cut into as many shares as there are ranks, on borders of 16 elements; the last ones may be empty.
  Share share(int64_t n, int rank) const;

 protected:
  struct Block {  // elements of a type that the carrier need not know
    char* data = nullptr;
    int64_t count = 0, size = 0;
    // of: as many elements of each rank, in their order; the first become the result.
    void (*reduce)(Reduction, std::span<char* const> of, int64_t count) = nullptr;
  };
  virtual void do_reduce_scatter(const Block& block, Reduction how) = 0;
  virtual void do_all_gather(const Block& block) = 0;
  virtual void do_broadcast(char* data, int64_t bytes, int root) = 0;
  virtual void do_barrier() = 0;
  void finish();  // to be called by destructors of the carriers: nothing is under way afterwards

 private:
  template <class T>
  void reduce_all(std::span<T> data, Reduction how);
  template <class T>
  void sum_sent_as(RankSum& sum);
  template <class T>
  bool sum_rows(const RankSum& sum);  // false: the whole is less, nothing was done
  template <class T>
  void sum_whole(const RankSum& sum);
  Handle start(std::function<void()> work);
  void run(std::function<void()> work);  // in its turn, waited for
  void work_off();

  const int rank_, size_;
  std::function<void(const Error&)> when_lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> queue_;
  bool ended_ = false;
  std::thread worker_;      // only once something was started
  std::vector<char> sent_;  // of a sum in 16 bits
};

// A run of one rank: everything is there already.
Collective& one_rank();

// Ranks that are threads of this process.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size);
  ~ThreadGroup();
  Collective& rank(int r) { return *ranks_.at(static_cast<size_t>(r)); }
  // Everybody who waits, or will, gets E_RANK_LOST with this. The first reason counts.
  void fail(const std::string& why);

 private:
  class Meeting;
  class Rank;
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<Collective>> ranks_;
};

}  // namespace amp
