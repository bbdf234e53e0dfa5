// Sampler: the order of samples, divided into micro-batches and accumulation steps. An epoch's order is a pure function
// of (seed, epoch), so a run resumes in the middle of an epoch from the two numbers of a SamplerState, without replay.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace amp {

enum class Order : uint8_t {
  file,      // the order of the data
  shuffled,  // a new permutation each epoch
  grouped,   // shuffled, sorted by length within chunks of chunk_batches batches, then the batches shuffled
  // longest samples first, or samples of the first bucket first, in every epoch: least padding, for evaluation
  by_length,
};

struct SamplerOptions {
  Order order = Order::shuffled;
  int64_t batch_size = 32;   // number of samples, or of tokens (in_tokens)
  int64_t accumulation = 1;  // number of micro-batches per step
  int64_t chunk_batches = 50;
  uint64_t seed = 42;
  // true: batch_size counts tokens, as Paddle's in_tokens does. A micro-batch takes samples while their number times
  // the greatest length is at most batch_size. A sample that is longer than batch_size is a batch by itself. Without
  // lengths every sample counts as one token.
  bool in_tokens = false;
  // Weights of the samples, for shuffled and grouped. An epoch draws as many samples as there are, with replacement,
  // with probabilities proportional to the weights (PyTorch's WeightedRandomSampler). Null: an epoch has every sample
  // once.
  std::shared_ptr<const std::vector<double>> weights = {};
  // For data-parallel training: a micro-batch has batch_size samples (or tokens) per rank. The Sampler of every rank
  // computes the same micro-batch, and takes the part of its rank.
  int64_t ranks = 1, rank = 0;
  // true: every rank gets samples of every micro-batch. The short last micro-batch of an epoch is divided evenly, and
  // left out if it has fewer samples than there are ranks. Cannot be combined with in_tokens.
  bool every_rank = false;
  // true: leaves out the short last micro-batch of an epoch, or of each bucket. Cannot be combined with in_tokens.
  bool whole_batches = false;
  int64_t global_batch() const { return batch_size * ranks; }
};

// Position of the next accumulation step; stored in checkpoints.
struct SamplerState {
  int64_t epoch = 0;
  int64_t window = 0;
  bool operator==(const SamplerState&) const = default;
};

struct Window {
  // Sample indices of this rank, per micro-batch. The last batch and the last window of an epoch may be short; at the
  // end of an epoch a rank may get no samples.
  std::vector<std::vector<int64_t>> micro;
  // For each micro-batch: index, among the samples of this window on all ranks, of the first one that this rank takes.
  std::vector<int64_t> first;
  int64_t samples = 0;    // number of samples on all ranks
  int64_t per_epoch = 0;  // number of windows in this epoch
  SamplerState at, next;  // position of this window and of the one after it
  bool last_of_epoch = false;
};

class Sampler {
 public:
  // lengths: one per sample, for grouped and by_length. Without lengths, grouped becomes shuffled, and by_length
  // becomes file. buckets: one per sample, from 0; empty: no buckets. A batch holds samples of one bucket in the
  // epoch's order and is emitted when it is full. At the end of an epoch each bucket may emit a short batch (see
  // every_rank). Buckets cannot be combined with lengths. Throws E_DATA_EMPTY without samples, E_OPTION (Exit::usage)
  // for a batch_size, accumulation or chunk_batches below 1, and E_WEIGHTS if all weights are 0.
  Sampler(int64_t samples, std::span<const int32_t> lengths, const SamplerOptions& options,
          std::span<const int32_t> buckets = {});

  // The numbers of batches and windows differ between epochs with in_tokens, and with both buckets and weights.
  int64_t batches_per_epoch(int64_t epoch = 0) const;
  int64_t windows_per_epoch(int64_t epoch = 0) const {
    return (batches_per_epoch(epoch) - 1) / options_.accumulation + 1;
  }
  int64_t windows_of(double epochs) const;  // number of windows of this many epochs, rounded up

  Window next();  // returns the next window; there is always one
  const SamplerState& state() const { return state_; }
  void seek(const SamplerState& state);  // sets the position; one after the epoch's end means the next epoch

  // Returns the samples of an epoch in order; with buckets, only those that are in batches.
  std::vector<int64_t> epoch_order(int64_t epoch) const;

 private:
  struct Epoch {
    int64_t number = -1;
    // begins: index in `order` of each batch's first sample, then the end of the last batch
    std::vector<int64_t> order, begins;
  };
  const Epoch& epoch(int64_t number) const;
  std::vector<int64_t> draw(int64_t epoch) const;
  std::vector<int64_t> cut(const std::vector<int64_t>& order) const;
  void sort_chunks(std::vector<int64_t>& order, int64_t chunk) const;
  void group(Epoch& epoch) const;
  void part(Epoch& epoch) const;
  bool epochs_differ() const { return options_.in_tokens || (!buckets_.empty() && !chances_.empty()); }
  int64_t least() const {  // smallest number of samples of a batch
    return options_.whole_batches ? options_.batch_size : options_.every_rank ? options_.ranks : 1;
  }
  int64_t require_batches(int64_t batches) const;
  int64_t samples_ = 0;
  std::vector<int32_t> lengths_, buckets_;
  bool by_bucket_ = false;       // Order::by_length orders batches by bucket
  std::vector<int64_t> counts_;  // number of samples per bucket; one element if there are no buckets
  SamplerOptions options_;
  std::vector<double> chances_;  // cumulative weights
  SamplerState state_;
  mutable Epoch cached_;
};

// Returns sample weights with which each class is drawn equally often: 1 / count of the sample's label, and 0 for
// `ignore`.
std::vector<double> class_weights(std::span<const int64_t> labels, int64_t ignore = -100);

}  // namespace amp
