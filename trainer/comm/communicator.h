// Communicator: collective operations of the ranks of a run. Every rank has a replica of the model and calls the same
// collectives in the same order. Sums are computed in the order of the ranks for every transport, so they have the same
// bits on every rank, in every run, for threads and for processes.
//
// If a rank fails, all ranks that wait for it throw E_RANK_LOST (exit 10).
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

// An asynchronous sum over the ranks.
struct RankSum {
  std::shared_ptr<void> memory;  // owns data until the sum is complete
  std::span<float> data;
  // Number of columns of the matrix in `data` if most of its rows may be zero on every rank, else 0. Only nonzero rows
  // are exchanged if that is less data. The result has the same bits as a sum of all rows.
  int64_t columns = 0;
  // indices of the rows that may be nonzero, ascending; not set: they are searched for
  std::optional<std::vector<int32_t>> rows = {};
  // Type of the exchanged values. For f16 and bf16, values are divided by the number of ranks and rounded to 16 bits
  // before they are sent, as in the fp16 and bf16 hooks of PyTorch's DistributedDataParallel. The division keeps the
  // sum in fp16's range. Values are added in fp32 and the result is rounded once more, so all ranks get the same bits,
  // whether only nonzero rows or all elements are exchanged.
  DType sent = DType::f32;
  // Results:
  double began = 0;      // start time in seconds of the steady clock
  double seconds = 0;    // duration, including the wait for other ranks
  bool by_rows = false;  // whether only nonzero rows were exchanged
};

class Communicator {
 public:
  using Handle = std::future<void>;  // handle of a started sum; get() waits and rethrows its error
  struct Shard {
    int64_t begin = 0, count = 0;
  };

  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }  // the root logs, evaluates and writes files

  // Reduces each element over all ranks, in place. T: float, double. NaN propagates, also through max.
  template <class T>
  void all_reduce(std::span<T> data, Reduction how);
  // Reduces only the elements of this rank's shard(); all other elements keep their values.
  template <class T>
  void reduce_scatter(std::span<T> data, Reduction how);
  // Copies each rank's shard() to all ranks.
  template <class T>
  void all_gather(std::span<T> data);
  void broadcast(std::string& bytes, int root);  // bytes may have any length
  void barrier();
  // Returns a description of a lost rank; "" if there is none, or if the call would have to wait to detect one.
  virtual std::string lost_rank() const { return {}; }
  // Reports a lost rank that another transport (NCCL) found. Called on that transport's thread.
  void lost(const Error& e) const {
    if (when_lost_) when_lost_(e);
  }
  void when_lost(std::function<void(const Error&)> handler) { when_lost_ = std::move(handler); }
  // Starts an asynchronous sum. The caller must not access sum->data until get(). Collectives run one after the other,
  // in the order of the calls.
  Handle start_sum(std::shared_ptr<RankSum> sum);

  // Returns the shard of a rank when n elements are divided among all ranks at multiples of 16. The last shards may be
  // empty.
  Shard shard(int64_t n, int rank) const;

 protected:
  // an array of type-erased elements (`count` elements of `size` bytes); the transport only copies bytes
  struct Block {
    char* data = nullptr;
    int64_t count = 0, size = 0;
    // of: for each rank, in the order of the ranks, an array of `count` elements. The first array receives the result.
    void (*reduce)(Reduction, std::span<char* const> of, int64_t count) = nullptr;
  };
  virtual void do_reduce_scatter(const Block& block, Reduction how) = 0;
  virtual void do_all_gather(const Block& block) = 0;
  virtual void do_broadcast(char* data, int64_t bytes, int root) = 0;
  virtual void do_barrier() = 0;
  void finish();  // waits for all started sums; destructors of derived classes call it

 private:
  template <class T>
  void reduce_all(std::span<T> data, Reduction how);
  template <class T>
  void sum_compressed(RankSum& sum);
  template <class T>
  bool sum_rows(const RankSum& sum);  // false: exchanging all elements is cheaper, and nothing was done
  template <class T>
  void sum_whole(const RankSum& sum);
  Handle start(std::function<void()> work);
  void run(std::function<void()> work);  // queues the work and waits for it
  void work_off();

  const int rank_, size_;
  std::function<void(const Error&)> when_lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> queue_;
  bool ended_ = false;
  std::thread worker_;      // created by the first start()
  std::vector<char> sent_;  // buffer of 16-bit sums
};

// Returns the communicator of a run with one rank.
Communicator& one_rank();

// Ranks as threads of this process.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size);
  ~ThreadGroup();
  Communicator& rank(int r) { return *ranks_.at(static_cast<size_t>(r)); }
  // Makes all current and later waits throw E_RANK_LOST with this reason. Only the first call has an effect.
  void fail(const std::string& why);

 private:
  class Barrier;
  class Rank;
  std::unique_ptr<Barrier> barrier_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace amp
