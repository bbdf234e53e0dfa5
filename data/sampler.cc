#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace amp {

namespace {

enum Stream : uint64_t { kSamples = 0x73616d70, kBatches = 0x62617463 };  // keeps the two shuffles apart

// Fisher-Yates; draw i is Philox(seed; stream, epoch, i).
void shuffle(std::span<int64_t> items, uint64_t seed, Stream stream, int64_t epoch) {
  for (size_t i = items.size(); i > 1; --i) {
    const PhiloxBlock r = philox(seed, stream << 32 | static_cast<uint32_t>(epoch), i);
    std::swap(items[i - 1], items[philox_below(r.v[0], r.v[1], i)]);
  }
}

}  // namespace

Sampler::Sampler(int64_t samples, std::span<const int32_t> lengths, const SamplerOptions& options)
    : samples_(samples), lengths_(lengths.begin(), lengths.end()), options_(options) {
  if (samples < 1) fail(Exit::data, "E_DATA_EMPTY", "there are no samples");
  for (const auto& [value, name] : {std::pair{options.batch_size, "batch_size"},
                                    {options.accumulation, "gradient_accumulation_steps"},
                                    {options.chunk_batches, "chunk_batches"}}) {
    if (value < 1) fail(Exit::usage, "E_OPTION", cat(name, " is ", value, ", it must be at least 1"));
  }
  check(lengths_.empty() || static_cast<int64_t>(lengths_.size()) == samples, "Sampler: one length a sample");
  check(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, "Sampler: no such rank");
  options_.batch_size = options.global_batch();
  batches_ = (samples - 1) / options_.batch_size + 1;
  if (lengths_.empty() && options_.order == Order::grouped) options_.order = Order::shuffled;
  if (lengths_.empty() && options_.order == Order::by_length) options_.order = Order::file;
}

std::vector<int64_t> Sampler::epoch_order(int64_t epoch) const {
  std::vector<int64_t> order(static_cast<size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  if (options_.order == Order::shuffled || options_.order == Order::grouped) {
    shuffle(order, options_.seed, kSamples, epoch);
  }
  if (options_.order == Order::grouped) group(order, epoch);
  if (options_.order == Order::by_length) {
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)];
    });
  }
  return order;
}

void Sampler::group(std::vector<int64_t>& order, int64_t epoch) const {
  // Longest first, so that the short last batch, which stays last, gets the shortest samples of its chunk.
  const int64_t chunk =
      options_.batch_size > samples_ / options_.chunk_batches ? samples_ : options_.batch_size * options_.chunk_batches;
  for (int64_t start = 0; start < samples_; start += chunk) {
    const auto begin = order.begin() + start, end = order.begin() + std::min(samples_, start + chunk);
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) {
      return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)];
    });
  }
  std::vector<int64_t> full(static_cast<size_t>(samples_ / options_.batch_size));
  std::iota(full.begin(), full.end(), 0);
  shuffle(full, options_.seed, kBatches, epoch);
  std::vector<int64_t> out;
  out.reserve(order.size());
  for (const int64_t b : full) {
    const auto begin = order.begin() + b * options_.batch_size;
    out.insert(out.end(), begin, begin + options_.batch_size);
  }
  out.insert(out.end(), order.begin() + static_cast<std::ptrdiff_t>(out.size()), order.end());
  order.swap(out);
}

Window Sampler::next() {
  if (cached_epoch_ != state_.epoch) {
    cached_ = epoch_order(state_.epoch);
    cached_epoch_ = state_.epoch;
  }
  Window w;
  w.at = state_;
  const int64_t first = state_.window * options_.accumulation;
  for (int64_t b = first; b < std::min(batches_, first + options_.accumulation); ++b) {
    const int64_t start = b * options_.batch_size;
    const int64_t end = std::min(samples_, start + options_.batch_size), share = options_.batch_size / options_.ranks;
    const int64_t from = std::min(end, start + options_.rank * share), to = std::min(end, from + share);
    if (from < to) {
      w.micro.emplace_back(cached_.begin() + from, cached_.begin() + to);
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
  state_ = state.window < windows_per_epoch() ? state : SamplerState{state.epoch + 1, 0};
}

}  // namespace amp
