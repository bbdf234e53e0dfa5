// Prefetch: a background thread makes the next items in order, at most `capacity` ahead. The sequence does not depend
// on timing. An exception of make() is rethrown to the consumer in place of its item and ends the sequence.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace amp {

template <class T>
class Prefetch {
 public:
  // make is called only on the background thread; nullopt ends the sequence. The destructor waits for the call in
  // progress, so everything that make refers to has to outlive the Prefetch.
  Prefetch(std::function<std::optional<T>()> make, size_t capacity)
      : make_(std::move(make)), capacity_(capacity < 1 ? 1 : capacity), thread_([this] { run(); }) {}
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Waits for the next item. Returns nullopt after the last one, also when called again.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<T> item(std::move(ready_.front()));
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  // Returns the result of make_(). If make_ throws, stores the exception in `error` and returns nullopt. This is a
  // function because `item = make_()` within a try block is wrong: g++ 12 lets make_ write into item, which keeps an
  // incomplete value if make_ throws.
  std::optional<T> attempt(std::exception_ptr& error) {
    try {
      return make_();
    } catch (...) {
      error = std::current_exception();
      return std::nullopt;
    }
  }

  // Appends the item and returns true. Stores the exception in `error` if there is no memory for it.
  bool keep(std::optional<T>& item, std::exception_ptr& error) {
    if (!item) return false;
    try {
      ready_.push_back(std::move(*item));
      return true;
    } catch (...) {
      error = std::current_exception();
      return false;
    }
  }

  void run() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < capacity_; });
        if (stop_) return;
      }
      std::exception_ptr error;
      std::optional<T> item = attempt(error);
      bool more = false;
      {
        const std::lock_guard lock(mutex_);
        more = keep(item, error);
        error_ = error;
        ended_ = !more;
      }
      changed_.notify_all();
      if (!more) return;
    }
  }

  std::function<std::optional<T>()> make_;
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  bool stop_ = false, ended_ = false;
  std::thread thread_;  // declared last: the thread uses all other members
};

}  // namespace amp
