// Sampler: the order of samples, cut into micro-batches and accumulation windows. An epoch's order is a pure function
// of (seed, epoch), so a run resumes in the middle of an epoch from two numbers, without replay.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace amp {

enum class Order : uint8_t {
  file,       // as the data lies
  shuffled,   // a new permutation each epoch
  grouped,    // shuffled; sorted by length inside chunks of chunk_batches batches; then the batches are shuffled
  by_length,  // the same in every epoch, longest first, or the first bucket: least padding, for evaluation
};

struct SamplerOptions {
  Order order = Order::shuffled;
  int64_t batch_size = 32;   // samples, or tokens
  int64_t accumulation = 1;  // micro-batches in a window
  int64_t chunk_batches = 50;
  uint64_t seed = 42;
  // batch_size counts tokens, as Paddle's in_tokens: a micro-batch takes the next sample while samples * its longest
  // one stay within batch_size; a longer sample is alone. grouped: by length first, batches of all lengths in any
  // order. Without lengths every sample is one token.
  bool in_tokens = false;
  // Of shuffled and grouped: an epoch is as many draws as there are samples, with replacement, each sample's chance its
  // weight's share (PyTorch's WeightedRandomSampler). Null: every sample once.
  std::shared_ptr<const std::vector<double>> weights = {};
  // Data parallel training: a micro-batch holds batch_size samples (or tokens) for each rank; which ones they are does
  // not depend on how many ranks share it.
  int64_t ranks = 1, rank = 0;
  // Every rank gets rows of every micro-batch: an epoch's short last one is shared out evenly, and left out where it
  // has fewer rows than there are ranks. Not with in_tokens.
  bool every_rank = false;
  // An epoch's short last micro-batch, or one of each bucket, is left out. Not with in_tokens.
  bool whole_batches = false;
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
  int64_t per_epoch = 0;       // windows of its epoch
  SamplerState at, next;       // this window's place, and where to go on after it
  bool last_of_epoch = false;
};

class Sampler {
 public:
  // lengths: of each sample, for grouped and by_length; empty turns these into shuffled and file.
  // buckets: of each sample, from 0, or empty. Batches hold samples of one bucket in the epoch's order, and come when
  // their bucket has filled one; at the epoch's end a short one of each bucket, as every_rank has it. Not with lengths.
  // E_DATA_EMPTY without samples; Exit::usage, E_OPTION, for sizes below 1; E_WEIGHTS when no sample has a chance.
  Sampler(int64_t samples, std::span<const int32_t> lengths, const SamplerOptions& options,
          std::span<const int32_t> buckets = {});

  // By tokens, and by buckets with weights, these differ from epoch to epoch.
  int64_t batches_per_epoch(int64_t epoch = 0) const;
  int64_t windows_per_epoch(int64_t epoch = 0) const {
    return (batches_per_epoch(epoch) - 1) / options_.accumulation + 1;
  }
  int64_t windows_of(double epochs) const;  // the last one's share rounded up

  Window next();  // endless
  const SamplerState& state() const { return state_; }
  void seek(const SamplerState& state);  // a window past the epoch's end is the start of the next epoch

  // All samples of an epoch in order, before they are cut; of buckets, those of its batches.
  std::vector<int64_t> epoch_order(int64_t epoch) const;

 private:
  struct Epoch {
    int64_t number = -1;
    std::vector<int64_t> order, begins;  // of batches, and the end of the last
  };
  const Epoch& epoch(int64_t number) const;
  std::vector<int64_t> draw(int64_t epoch) const;
  std::vector<int64_t> cut(const std::vector<int64_t>& order) const;
  void sort_chunks(std::vector<int64_t>& order, int64_t chunk) const;
  void group(Epoch& epoch) const;
  void part(Epoch& epoch) const;
  bool epochs_differ() const { return options_.in_tokens || (!buckets_.empty() && !chances_.empty()); }
  int64_t least() const {  // rows of a batch
    return options_.whole_batches ? options_.batch_size : options_.every_rank ? options_.ranks : 1;
  }
  int64_t require_batches(int64_t batches) const;
  int64_t samples_ = 0;
  std::vector<int32_t> lengths_, buckets_;
  bool by_bucket_ = false;       // the epoch's order is that of the buckets
  std::vector<int64_t> counts_;  // samples of each bucket; without buckets all
  SamplerOptions options_;
  std::vector<double> chances_;  // sums of weights
  SamplerState state_;
  mutable Epoch cached_;
};

// Weights for which each class is drawn as often as any other: 1 / how often its label occurs; 0 for `ignore`.
std::vector<double> class_weights(std::span<const int64_t> labels, int64_t ignore = -100);

}  // namespace amp
