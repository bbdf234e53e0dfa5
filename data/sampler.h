// Sampler: the order of samples, cut into micro-batches and accumulation windows. An epoch's order is a pure function
// of (seed, epoch), so a run resumes in the middle of an epoch from two numbers, without replay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace amp {

enum class Order : uint8_t {
  file,       // as the data lies
  shuffled,   // a new permutation each epoch
  grouped,    // shuffled; sorted by length inside chunks of chunk_batches batches; then the batches are shuffled
  by_length,  // the same in every epoch, longest first: least padding, for evaluation
};

struct SamplerOptions {
  Order order = Order::shuffled;
  int64_t batch_size = 32;
  int64_t accumulation = 1;  // micro-batches in a window
  int64_t chunk_batches = 50;
  uint64_t seed = 42;
  // Data parallel training: a micro-batch holds batch_size samples for each rank; which ones they are does not depend
  // on how many ranks share it.
  int64_t ranks = 1, rank = 0;
  int64_t global_batch() const { return batch_size * ranks; }
};

// Where the next window begins; what a checkpoint keeps.
struct SamplerState {
  int64_t epoch = 0;
  int64_t window = 0;
  bool operator==(const SamplerState&) const = default;
};

struct Window {
  // Sample indices; the epoch's last batch may be short, its last window too. Of several ranks, what this one gets: at
  // an epoch's end that may be nothing.
  std::vector<std::vector<int64_t>> micro;
  std::vector<int64_t> first;  // of each micro-batch: how many samples of the window come before it, on all ranks
  int64_t samples = 0;         // of all ranks
  SamplerState at, next;       // this window's place, and where to go on after it
  bool last_of_epoch = false;
};

class Sampler {
 public:
  // lengths: of each sample, for grouped and by_length; empty turns these into shuffled and file.
  // E_DATA_EMPTY without samples; Exit::usage, E_OPTION, for sizes below 1.
  Sampler(int64_t samples, std::span<const int32_t> lengths, const SamplerOptions& options);

  int64_t batches_per_epoch() const { return batches_; }
  int64_t windows_per_epoch() const { return (batches_ - 1) / options_.accumulation + 1; }

  Window next();  // endless
  const SamplerState& state() const { return state_; }
  void seek(const SamplerState& state);  // a window past the epoch's end is the start of the next epoch

  // All samples of an epoch in order, before they are cut.
  std::vector<int64_t> epoch_order(int64_t epoch) const;

 private:
  void group(std::vector<int64_t>& order, int64_t epoch) const;
  int64_t samples_ = 0, batches_ = 0;
  std::vector<int32_t> lengths_;
  SamplerOptions options_;
  SamplerState state_;
  int64_t cached_epoch_ = -1;
  std::vector<int64_t> cached_;
};

}  // namespace amp
