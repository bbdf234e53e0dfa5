// Implements subset.h: views of a dataset's samples, stratified splits and stratified random samples. Samples are
// ordered by Philox keys, and each stratum (class) contributes in proportion to its size (largest remainder method).
// Samples of one table row form one unit, which is drawn as a whole, so that windows of a text are not divided between
// training and validation data.
#include "data/subset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "data/dataset_wrapper.h"

namespace amp {

namespace {

class Subset final : public DatasetWrapper {
 public:
  Subset(std::shared_ptr<const Dataset> data, std::vector<int64_t> samples)
      : DatasetWrapper(std::move(data)), samples_(std::move(samples)) {
    const auto lengths = data_->lengths();
    const auto rows = data_->source_rows();
    const auto buckets = data_->buckets();
    for (const int64_t s : samples_) {
      if (!rows.empty()) rows_.push_back(rows[static_cast<size_t>(s)]);
      if (!lengths.empty()) lengths_.push_back(lengths[static_cast<size_t>(s)]);
      if (!buckets.empty()) buckets_.push_back(buckets[static_cast<size_t>(s)]);
    }
  }
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  std::span<const int32_t> lengths() const override { return lengths_; }
  std::span<const int32_t> buckets() const override { return buckets_; }
  std::span<const int64_t> source_rows() const override { return rows_; }
  Batch batch(std::span<const int64_t> samples) const override { return data_->batch(inner(samples)); }
  HostTensor labels_of(std::span<const int64_t> samples) const override { return data_->labels_of(inner(samples)); }
  Batch training_batch(std::span<const int64_t> samples, int64_t epoch) const override {
    return data_->training_batch(inner(samples), epoch);
  }
  std::shared_ptr<const Dataset> for_evaluation() const override {
    std::shared_ptr<const Dataset> data = data_->for_evaluation();
    return data ? std::make_shared<Subset>(std::move(data), samples_) : nullptr;
  }
  std::string where(int64_t sample) const override { return data_->where(samples_.at(static_cast<size_t>(sample))); }

 private:
  std::vector<int64_t> inner(std::span<const int64_t> samples) const {
    std::vector<int64_t> out;
    for (const int64_t s : samples) out.push_back(samples_.at(static_cast<size_t>(s)));
    return out;
  }
  std::vector<int64_t> samples_;
  std::vector<int32_t> lengths_, buckets_;
  std::vector<int64_t> rows_;
};

// Divides `wanted` items among strata in proportion to their sizes (largest remainder method). all: the sum of the
// sizes.
std::vector<int64_t> shares(const std::vector<int64_t>& sizes, int64_t wanted, int64_t all) {
  std::vector<int64_t> out;
  std::vector<std::pair<double, size_t>> remainders;
  int64_t given = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double share = static_cast<double>(wanted) * static_cast<double>(sizes[i]) / static_cast<double>(all);
    out.push_back(static_cast<int64_t>(share));
    given += out.back();
    remainders.emplace_back(share - std::floor(share), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (size_t i = 0; given < wanted; ++i, ++given) ++out[remainders[i % remainders.size()].second];
  return out;
}

}  // namespace

std::vector<int64_t> strata_of(const Dataset& data) {
  std::vector<int64_t> out;
  constexpr int64_t kAtOnce = 1024;
  for (int64_t at = 0; at < data.size(); at += kAtOnce) {
    std::vector<int64_t> samples(static_cast<size_t>(std::min(kAtOnce, data.size() - at)));
    std::iota(samples.begin(), samples.end(), at);
    const HostTensor labels = data.labels_of(samples);
    if (!labels || is_float(labels.dtype()) || labels.numel() != static_cast<int64_t>(samples.size())) return {};
    for (const int64_t label : labels.to_ints()) out.push_back(label);
  }
  return out;
}

std::unique_ptr<Dataset> make_subset(std::shared_ptr<const Dataset> data, std::vector<int64_t> samples) {
  return std::make_unique<Subset>(std::move(data), std::move(samples));
}

namespace {

using Units = std::vector<std::vector<int64_t>>;  // groups of samples that stay together

// Groups the samples of `together` consecutive table rows or, if the rows are not known, `together` consecutive
// samples.
Units units_of(const Dataset& data, int64_t together = 1) {
  const std::span<const int64_t> rows = data.source_rows();
  Units units;
  std::map<int64_t, size_t> known;
  for (int64_t s = 0; s < data.size(); ++s) {
    const size_t unit = rows.empty()
                            ? static_cast<size_t>(s / together)
                            : known.emplace(rows[static_cast<size_t>(s)] / together, units.size()).first->second;
    if (unit == units.size()) units.emplace_back();
    units[unit].push_back(s);
  }
  return units;
}

// Returns the indices of all units in an order drawn by seed. Each stratum has its share of the first `wanted` units.
std::vector<int64_t> drawn_order(const Dataset& data, const Units& units, int64_t wanted, uint64_t seed,
                                 uint64_t stream) {
  const auto n = static_cast<int64_t>(units.size());
  const std::vector<int64_t> strata = n == data.size() ? strata_of(data) : std::vector<int64_t>();
  std::map<int64_t, std::vector<int64_t>> members;
  for (int64_t u = 0; u < n; ++u) members[strata.empty() ? 0 : strata[static_cast<size_t>(u)]].push_back(u);
  std::vector<int64_t> sizes;
  for (const auto& [stratum, of_it] : members) sizes.push_back(static_cast<int64_t>(of_it.size()));
  const std::vector<int64_t> counts = shares(sizes, wanted, n);
  const auto key = [&](int64_t u) {
    const PhiloxBlock b = philox(seed, stream, static_cast<uint64_t>(u));
    return uint64_t{b.v[0]} << 32 | b.v[1];
  };
  std::vector<int64_t> first, others;
  size_t k = 0;
  for (auto& [stratum, of_it] : members) {
    std::stable_sort(of_it.begin(), of_it.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
    const auto cut = of_it.begin() + counts[k++];
    first.insert(first.end(), of_it.begin(), cut);
    others.insert(others.end(), cut, of_it.end());
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

}  // namespace

SampleSplit split_samples(const Dataset& data, double fraction, uint64_t seed) {
  const Units units = units_of(data);
  const auto n = static_cast<int64_t>(units.size());
  const int64_t wanted = std::llround(fraction * static_cast<double>(n));
  if (wanted < 1 || wanted >= n)
    fail(Exit::data, "E_VAL_SPLIT",
         cat("a share of ", fraction, " of ", n, " samples leaves none for ", wanted < 1 ? "validation" : "training"),
         "give another `val_split`, or a file with `val`");
  constexpr uint64_t kStream = 0x76616c;  // differs from the sampler's streams
  const std::vector<int64_t> order = drawn_order(data, units, wanted, seed, kStream);
  SampleSplit out;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<int64_t>& samples = units[static_cast<size_t>(order[static_cast<size_t>(i)])];
    std::vector<int64_t>& side = i < wanted ? out.held_out : out.train;
    side.insert(side.end(), samples.begin(), samples.end());
  }
  std::sort(out.train.begin(), out.train.end());
  std::sort(out.held_out.begin(), out.held_out.end());
  return out;
}

std::vector<int64_t> draw_samples(const Dataset& data, int64_t limit, int64_t together, uint64_t seed) {
  const Units units = units_of(data, together);
  const auto n = static_cast<int64_t>(units.size());
  constexpr uint64_t kStream = 0x6c696d;  // differs from the streams of sampler and split
  const int64_t wanted = n == data.size() ? limit : n;
  std::vector<int64_t> out;
  for (const int64_t u : drawn_order(data, units, wanted, seed, kStream)) {
    const std::vector<int64_t>& samples = units[static_cast<size_t>(u)];
    if (!out.empty() && static_cast<int64_t>(out.size() + samples.size()) > limit) break;
    out.insert(out.end(), samples.begin(), samples.end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace amp
