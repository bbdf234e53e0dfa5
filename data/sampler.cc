// Implements the Sampler: permutations, length-grouped batches, buckets, weighted draws and the division of batches
// among ranks. All random numbers are Philox(seed; stream, epoch, index), so an epoch's order can be computed again
// without replay. The grouped order sorts within chunks of batches, as Hugging Face's LengthGroupedSampler does, and
// then shuffles the batches. A change of any order changes the results of existing seeds and of resumed runs.
#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace amp {

namespace {

// The Philox streams of the different draws.
enum Stream : uint64_t { kSamples = 0x73616d70, kBatches = 0x62617463, kDraws = 0x64726177 };

// Shuffles by Fisher-Yates; draw i is Philox(seed; stream, epoch, i).
void shuffle(std::span<int64_t> items, uint64_t seed, Stream stream, int64_t epoch) {
  for (size_t i = items.size(); i > 1; --i) {
    const PhiloxBlock r = philox(seed, stream << 32 | static_cast<uint32_t>(epoch), i);
    std::swap(items[i - 1], items[philox_below(r.v[0], r.v[1], i)]);
  }
}

// Returns a number in [0, 1) from 53 random bits.
double uniform(const PhiloxBlock& r) {
  return (static_cast<double>(r.v[0] >> 5) * 67108864.0 + static_cast<double>(r.v[1] >> 6)) / 9007199254740992.0;
}

// Returns the cumulative sums of the weights.
std::vector<double> summed(const std::vector<double>& weights) {
  std::vector<double> out;
  double sum = 0;
  for (const double w : weights) {
    check(w >= 0, "Sampler: a negative weight");
    out.push_back(sum += w);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    fail(Exit::data, "E_WEIGHTS", "no sample has a chance to be drawn", "every label is ignored, or its weight is 0");
  return out;
}

}  // namespace

std::vector<double> class_weights(std::span<const int64_t> labels, int64_t ignore) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t l : labels) ++counts[l];
  std::vector<double> out;
  for (const int64_t l : labels) out.push_back(l == ignore ? 0.0 : 1.0 / static_cast<double>(counts[l]));
  return out;
}

Sampler::Sampler(int64_t samples, std::span<const int32_t> lengths, const SamplerOptions& options,
                 std::span<const int32_t> buckets)
    : samples_(samples),
      lengths_(lengths.begin(), lengths.end()),
      buckets_(buckets.begin(), buckets.end()),
      counts_{samples},
      options_(options) {
  if (samples < 1) fail(Exit::data, "E_DATA_EMPTY", "there are no samples", "the training data needs at least one");
  for (const auto& [value, name] : {std::pair{options.batch_size, "batch_size"},
                                    {options.accumulation, "gradient_accumulation_steps"},
                                    {options.chunk_batches, "chunk_batches"}}) {
    if (value < 1) fail(Exit::usage, "E_OPTION", cat(name, " is ", value, ", it must be at least 1"));
  }
  check(lengths_.empty() || static_cast<int64_t>(lengths_.size()) == samples, "Sampler: one length a sample");
  check(!options.every_rank || (!options.in_tokens && samples >= options.ranks), "Sampler: every rank gets a row");
  check(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, "Sampler: no such rank");
  options_.batch_size = options.global_batch();
  if (!buckets_.empty()) {
    const auto [low, high] = std::minmax_element(buckets_.begin(), buckets_.end());
    check(static_cast<int64_t>(buckets_.size()) == samples && *low >= 0, "Sampler: one bucket a sample");
    check(lengths_.empty() && !options.in_tokens, "Sampler: buckets cannot be combined with lengths");
    counts_.assign(static_cast<size_t>(*high) + 1, 0);
    for (const int32_t b : buckets_) ++counts_[static_cast<size_t>(b)];
  }
  if (lengths_.empty() && options_.order == Order::grouped) options_.order = Order::shuffled;
  by_bucket_ = !buckets_.empty() && options_.order == Order::by_length;
  if (lengths_.empty() && options_.order == Order::by_length) options_.order = Order::file;
  if (options.weights) {
    check(static_cast<int64_t>(options.weights->size()) == samples, "Sampler: one weight a sample");
    chances_ = summed(*options.weights);
  }
}

std::vector<int64_t> Sampler::draw(int64_t epoch) const {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < samples_; ++i) {
    const double at =
        uniform(philox(options_.seed, kDraws << 32 | static_cast<uint32_t>(epoch), static_cast<uint64_t>(i))) *
        chances_.back();
    const auto found = std::upper_bound(chances_.begin(), chances_.end() - 1, at);
    order.push_back(found - chances_.begin());
  }
  return order;
}

// Returns the index in `order` of each batch's first sample, then the end of the last batch.
std::vector<int64_t> Sampler::cut(const std::vector<int64_t>& order) const {
  std::vector<int64_t> begins = {0};
  int64_t longest = 0;
  for (int64_t i = 0; i < samples_; ++i) {
    const auto sample = static_cast<size_t>(order[static_cast<size_t>(i)]);
    const int64_t length = !options_.in_tokens || lengths_.empty() ? 1 : lengths_[sample];
    longest = std::max(longest, length);
    if (i > begins.back() && i + 1 - begins.back() > options_.batch_size / std::max<int64_t>(1, longest)) {
      begins.push_back(i);
      longest = length;
    }
  }
  begins.push_back(samples_);
  return begins;
}

const Sampler::Epoch& Sampler::epoch(int64_t number) const {
  if (cached_.number == number) return cached_;
  Epoch& e = cached_;
  const bool random = options_.order == Order::shuffled || options_.order == Order::grouped;
  if (random && !chances_.empty()) {
    e.order = draw(number);
  } else {
    e.order.resize(static_cast<size_t>(samples_));
    std::iota(e.order.begin(), e.order.end(), 0);
    if (random) shuffle(e.order, options_.seed, kSamples, number);
  }
  e.number = number;
  if (options_.order == Order::grouped) {
    group(e);
    return e;
  }
  if (options_.order == Order::by_length) sort_chunks(e.order, samples_);
  if (buckets_.empty()) {
    e.begins = cut(e.order);
  } else {
    part(e);
  }
  return e;
}

void Sampler::part(Epoch& e) const {
  std::vector<int64_t> out;
  e.begins = {0};
  const auto close = [&](std::vector<int64_t>& batch) {
    out.insert(out.end(), batch.begin(), batch.end());
    e.begins.push_back(static_cast<int64_t>(out.size()));
    batch.clear();
  };
  if (by_bucket_)
    std::stable_sort(e.order.begin(), e.order.end(), [&](int64_t a, int64_t b) {
      return buckets_[static_cast<size_t>(a)] < buckets_[static_cast<size_t>(b)];
    });
  std::vector<std::vector<int64_t>> open(counts_.size());
  for (const int64_t sample : e.order) {
    std::vector<int64_t>& batch = open[static_cast<size_t>(buckets_[static_cast<size_t>(sample)])];
    batch.push_back(sample);
    if (static_cast<int64_t>(batch.size()) == options_.batch_size) close(batch);
  }
  for (std::vector<int64_t>& batch : open) {
    if (static_cast<int64_t>(batch.size()) >= least()) close(batch);
  }
  e.order.swap(out);
}

// Sorts each chunk by length, longest first.
void Sampler::sort_chunks(std::vector<int64_t>& order, int64_t chunk) const {
  for (int64_t start = 0; start < samples_; start += chunk) {
    const auto begin = order.begin() + start, end = order.begin() + std::min(samples_, start + chunk);
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) {
      return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)];
    });
  }
}

void Sampler::group(Epoch& e) const {
  int64_t rows = options_.batch_size;
  if (options_.in_tokens) {  // rows: number of samples of mean length that fit in a batch
    const int64_t tokens = std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0});
    rows = std::max<int64_t>(1, options_.batch_size / std::max<int64_t>(1, tokens / samples_));
  }
  // The order within a chunk is longest first, so that the short last batch, which stays last, gets the shortest
  // samples.
  sort_chunks(e.order, rows > samples_ / options_.chunk_batches ? samples_ : rows * options_.chunk_batches);
  const std::vector<int64_t> begins = cut(e.order);
  // The last batch is not moved unless it is full. Batches whose size is counted in tokens are never considered full.
  const int64_t batches = static_cast<int64_t>(begins.size()) - 1;
  const bool short_last = options_.in_tokens || begins.back() - begins[begins.size() - 2] < options_.batch_size;
  std::vector<int64_t> full(static_cast<size_t>(batches - short_last));
  std::iota(full.begin(), full.end(), 0);
  shuffle(full, options_.seed, kBatches, e.number);
  if (short_last) full.push_back(batches - 1);
  std::vector<int64_t> out;
  e.begins = {0};
  for (const int64_t b : full) {
    const auto from = begins[static_cast<size_t>(b)], to = begins[static_cast<size_t>(b) + 1];
    out.insert(out.end(), e.order.begin() + from, e.order.begin() + to);
    e.begins.push_back(static_cast<int64_t>(out.size()));
  }
  e.order.swap(out);
}

std::vector<int64_t> Sampler::epoch_order(int64_t number) const { return epoch(number).order; }

// Returns `batches`. Throws E_DATA_EMPTY or E_RANKS_SETTING if it is 0, for example because every bucket has fewer
// samples than there are ranks.
int64_t Sampler::require_batches(int64_t batches) const {
  if (batches < 1 && options_.whole_batches)
    fail(Exit::data, "E_DATA_EMPTY",
         cat("the model takes batches of ", options_.batch_size, ", and the data has no whole one"),
         "short batches are left out where padding would count: batch statistics, a loss inside the model");
  if (batches < 1)
    fail(Exit::usage, "E_RANKS_SETTING", cat("no micro-batch has a row for each of ", options_.ranks, " ranks"),
         "take fewer ranks, or fewer sizes");
  return batches;
}

int64_t Sampler::batches_per_epoch(int64_t number) const {
  if (epochs_differ()) return require_batches(static_cast<int64_t>(epoch(number).begins.size()) - 1);
  int64_t batches = 0;
  for (const int64_t n : counts_) batches += n / options_.batch_size + (n % options_.batch_size >= least() ? 1 : 0);
  return require_batches(batches);
}

int64_t Sampler::windows_of(double epochs) const {
  if (!epochs_differ()) return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(windows_per_epoch())));
  int64_t windows = 0, number = 0;
  for (; static_cast<double>(number + 1) <= epochs; ++number) windows += windows_per_epoch(number);
  const double rest = epochs - static_cast<double>(number);
  return windows +
         (rest > 0 ? static_cast<int64_t>(std::ceil(rest * static_cast<double>(windows_per_epoch(number)))) : 0);
}

Window Sampler::next() {
  const Epoch& e = epoch(state_.epoch);
  const int64_t batches = batches_per_epoch(state_.epoch);
  Window w;
  w.at = state_;
  w.per_epoch = windows_per_epoch(state_.epoch);
  const int64_t first = state_.window * options_.accumulation;
  for (int64_t b = first; b < std::min(batches, first + options_.accumulation); ++b) {
    const int64_t start = e.begins[static_cast<size_t>(b)], end = e.begins[static_cast<size_t>(b) + 1];
    int64_t from = start + (end - start) * options_.rank / options_.ranks,
            to = start + (end - start) * (options_.rank + 1) / options_.ranks;
    if (!options_.in_tokens && !options_.every_rank) {
      const int64_t share = options_.batch_size / options_.ranks;
      from = std::min(end, start + options_.rank * share);
      to = std::min(end, from + share);
    }
    if (from < to) {
      w.micro.emplace_back(e.order.begin() + from, e.order.begin() + to);
      w.first.push_back(w.samples + from - start);
    }
    w.samples += end - start;
  }
  seek({state_.epoch, state_.window + 1});
  w.next = state_;
  w.last_of_epoch = state_.window == 0;
  return w;
}

void Sampler::seek(const SamplerState& state) {
  check(state.epoch >= 0 && state.window >= 0, "Sampler: negative state");
  state_ = state.window < windows_per_epoch(state.epoch) ? state : SamplerState{state.epoch + 1, 0};
}

}  // namespace amp
