// Communicator: a queue of collectives on one worker thread, and the two implementations that need no transport: one
// rank, and ranks as threads (ThreadGroup). An all-reduce is a reduce-scatter followed by an all-gather. The rank that
// owns an element reduces it in the order of the ranks, so all ranks get the same bits.

#include "trainer/comm/communicator.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace amp {

namespace {

template <class T>
void reduce_values(Reduction how, std::span<char* const> of, int64_t count) {
  T* const a = reinterpret_cast<T*>(of[0]);
  for (size_t r = 1; r < of.size(); ++r) {
    const T* const b = reinterpret_cast<const T*>(of[r]);
    if (how == Reduction::sum) {
      for (int64_t i = 0; i < count; ++i) a[i] += b[i];
    } else {
      for (int64_t i = 0; i < count; ++i) a[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];
    }
  }
}

class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, 1) {}

 private:
  void do_reduce_scatter(const Block&, Reduction) override {}
  void do_all_gather(const Block&) override {}
  void do_broadcast(char*, int64_t, int) override {}
  void do_barrier() override {}
};

}  // namespace

Communicator& one_rank() {
  static OneRank rank;
  return rank;
}

Communicator::~Communicator() { finish(); }

void Communicator::finish() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

Communicator::Shard Communicator::shard(int64_t n, int rank) const {
  constexpr int64_t kAlign = 16;
  const int64_t blocks = (n + kAlign - 1) / kAlign, each = (blocks + size_ - 1) / size_ * kAlign;
  const int64_t begin = std::min(n, each * rank), end = std::min(n, begin + each);
  return {begin, end - begin};
}

Communicator::Handle Communicator::start(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  Handle handle = task.get_future();
  if (size() == 1) {
    task();
    return handle;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    if (!worker_.joinable()) worker_ = std::thread([this] { work_off(); });
  }
  changed_.notify_all();
  return handle;
}

void Communicator::run(std::function<void()> work) {
  if (size() == 1) return;
  // The collectives that are already in the queue must run first.
  if (worker_.joinable())
    start(std::move(work)).get();
  else
    work();
}

void Communicator::work_off() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::packaged_task<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

template <class T>
void Communicator::reduce_all(std::span<T> data, Reduction how) {
  const Block block{reinterpret_cast<char*>(data.data()), static_cast<int64_t>(data.size()), sizeof(T),
                    reduce_values<T>};
  do_reduce_scatter(block, how);
  do_all_gather(block);
}

template <class T>
void Communicator::all_reduce(std::span<T> data, Reduction how) {
  run([&] { reduce_all(data, how); });
}

template <class T>
void Communicator::reduce_scatter(std::span<T> data, Reduction how) {
  run([&] {
    do_reduce_scatter(
        {reinterpret_cast<char*>(data.data()), static_cast<int64_t>(data.size()), sizeof(T), reduce_values<T>}, how);
  });
}

template <class T>
void Communicator::all_gather(std::span<T> data) {
  run([&] {
    do_all_gather({reinterpret_cast<char*>(data.data()), static_cast<int64_t>(data.size()), sizeof(T), nullptr});
  });
}

template void Communicator::reduce_all(std::span<float>, Reduction);
template void Communicator::reduce_all(std::span<double>, Reduction);
template void Communicator::all_reduce(std::span<float>, Reduction);
template void Communicator::all_reduce(std::span<double>, Reduction);
template void Communicator::reduce_scatter(std::span<float>, Reduction);
template void Communicator::reduce_scatter(std::span<double>, Reduction);
template void Communicator::all_gather(std::span<float>);
template void Communicator::all_gather(std::span<double>);

void Communicator::broadcast(std::string& bytes, int root) {
  run([&] {
    uint64_t length = bytes.size();
    do_broadcast(reinterpret_cast<char*>(&length), sizeof length, root);
    bytes.resize(length);
    do_broadcast(bytes.data(), static_cast<int64_t>(length), root);
  });
}

void Communicator::barrier() {
  run([&] { do_barrier(); });
}

// ---- Ranks as threads. Each rank publishes the address of its data. Between two waits at a barrier, each rank reads
// the data of the others.
class ThreadGroup::Barrier {
 public:
  explicit Barrier(int size) : shown_(static_cast<size_t>(size), nullptr) {}

  // Blocks until all ranks have called wait().
  void wait() {
    std::unique_lock lock(mutex_);
    if (!failed_) {
      const int64_t round = round_;
      if (++here_ == static_cast<int>(shown_.size())) {
        here_ = 0;
        ++round_;
        all_here_.notify_all();
        return;
      }
      all_here_.wait(lock, [&] { return round_ != round || failed_; });
      if (round_ != round) return;
    }
    amp::fail(Exit::distributed, "E_RANK_LOST", why_);
  }
  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) return;
      failed_ = true;
      why_ = why;
    }
    all_here_.notify_all();
  }
  // Returns the published address of a rank, by reference. A rank sets it before a wait(); the others read it between
  // that wait() and the next.
  char*& shown(int rank) { return shown_[static_cast<size_t>(rank)]; }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<char*> shown_;
  int here_ = 0;
  int64_t round_ = 0;
  bool failed_ = false;
  std::string why_;
};

class ThreadGroup::Rank final : public Communicator {
 public:
  Rank(Barrier& barrier, int rank, int size) : Communicator(rank, size), barrier_(barrier) {}
  ~Rank() override { finish(); }

 private:
  void do_reduce_scatter(const Block& block, Reduction how) override {
    barrier_.shown(rank()) = block.data;
    barrier_.wait();
    const Shard mine = shard(block.count, rank());
    const int64_t begin = mine.begin * block.size, bytes = mine.count * block.size;
    // The sum starts with rank 0's values on every rank, so its bits do not depend on the shard's owner.
    std::vector<char> sum(static_cast<size_t>(bytes));
    if (bytes > 0) {
      std::memcpy(sum.data(), barrier_.shown(0) + begin, static_cast<size_t>(bytes));
      std::vector<char*> of{sum.data()};
      for (int r = 1; r < size(); ++r) of.push_back(barrier_.shown(r) + begin);
      block.reduce(how, of, mine.count);
      std::memcpy(block.data + begin, sum.data(), static_cast<size_t>(bytes));
    }
    barrier_.wait();
  }
  void do_all_gather(const Block& block) override {
    barrier_.shown(rank()) = block.data;
    barrier_.wait();
    for (int r = 0; r < size(); ++r) {
      const Shard s = shard(block.count, r);
      if (r != rank() && s.count > 0)
        std::memcpy(block.data + s.begin * block.size, barrier_.shown(r) + s.begin * block.size,
                    static_cast<size_t>(s.count * block.size));
    }
    barrier_.wait();
  }
  void do_broadcast(char* data, int64_t bytes, int root) override {
    barrier_.shown(rank()) = data;
    barrier_.wait();
    if (rank() != root && bytes > 0) std::memcpy(data, barrier_.shown(root), static_cast<size_t>(bytes));
    barrier_.wait();
  }
  void do_barrier() override { barrier_.wait(); }

  Barrier& barrier_;
};

ThreadGroup::ThreadGroup(int size) : barrier_(std::make_unique<Barrier>(size)) {
  for (int r = 0; r < size; ++r) {
    ranks_.push_back(std::make_unique<Rank>(*barrier_, r, size));
    ranks_.back()->when_lost([this](const Error& e) { fail(e.fact()); });
  }
}
ThreadGroup::~ThreadGroup() = default;
void ThreadGroup::fail(const std::string& why) { barrier_->fail(why); }

}  // namespace amp
