// The gradient arena is divided into buckets of about 4 MiB. A large embedding table gets a separate bucket, because
// only its nonzero rows are exchanged. cost() records the overlap of the sums with the backward pass.

#include "trainer/comm/gradient_reducer.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/steady_seconds.h"

namespace amp {

namespace {

constexpr int64_t kBucket = 1 << 20;  // number of elements of a bucket: 4 MiB
constexpr int64_t kTable = 1 << 18;   // smallest number of elements of a matrix whose rows are checked for zeros
constexpr int64_t kTableRows = 2048;  // smallest number of rows of such a matrix
constexpr int kMostDense = 4;  // after this many sums with too many nonzero rows, a bucket's rows are no longer checked

// Returns the number of columns if the parameter may be an embedding table with few used rows, else 0.
int64_t columns_of(const Chunk& c) {
  if (c.dims.size() != 2 || c.numel < kTable || c.dims[0] < kTableRows || c.dims[0] < 2 * c.dims[1]) return 0;
  return c.dims[1];
}

std::vector<int32_t> ascending(const Tensor& indices, int64_t rows) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t row = indices.dtype == DType::i64 ? indices.as<int64_t>()[i] : indices.as<int32_t>()[i];
    out.push_back(static_cast<int32_t>(row < 0 ? row + rows : row));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

GradientReducer::GradientReducer(Communicator& ranks, const FlatLayout& layout, DeviceMemory grads, DType sent)
    : ranks_(ranks), grads_(std::move(grads)), sent_(sent), bucket_of_(layout.chunks().size(), -1) {
  cut(layout);
  order_.resize(buckets_.size());
  // Until rank 0 has broadcast its order, the last layers are assumed to finish backward first.
  std::iota(order_.rbegin(), order_.rend(), 0);
  for (const Bucket& b : buckets_) open_.push_back(b.slots);
}

void GradientReducer::cut(const FlatLayout& layout) {
  std::vector<size_t> slots;
  for (size_t s = 0; s < layout.chunks().size(); ++s) {
    if (!layout.chunks()[s].frozen) slots.push_back(s);
  }
  std::sort(slots.begin(), slots.end(),
            [&](size_t a, size_t b) { return layout.chunks()[a].offset < layout.chunks()[b].offset; });
  for (size_t i = 0; i < slots.size(); ++i) {
    const Chunk& c = layout.chunks()[slots[i]];
    const int64_t end = i + 1 < slots.size() ? layout.chunks()[slots[i + 1]].offset : layout.trained_size();
    const int64_t columns = columns_of(c);
    const bool joins =
        !buckets_.empty() && columns == 0 && buckets_.back().columns == 0 && end - buckets_.back().begin <= kBucket;
    if (!joins) buckets_.push_back({i == 0 ? 0 : c.offset, 0, columns});
    buckets_.back().end = columns > 0 ? c.offset + c.numel : end;
    ++buckets_.back().slots;
    bucket_of_[slots[i]] = static_cast<int>(buckets_.size()) - 1;
  }
}

void GradientReducer::begin() {
  held_ = false;
  began_ = steady_seconds();
}

void GradientReducer::done(int slot, const Tensor* rows) {
  const int b = bucket_of_.at(static_cast<size_t>(slot));
  if (b < 0) return;
  int& open = open_[static_cast<size_t>(b)];
  check(open > 0, "GradientReducer: a gradient is finished twice");
  Bucket& bucket = buckets_[static_cast<size_t>(b)];
  if (rows && bucket.columns > 0) bucket.rows = ascending(*rows, (bucket.end - bucket.begin) / bucket.columns);
  if (--open > 0) return;
  finished_.push_back(b);
  if (!held_ && agreed_) start_finished();
}

void GradientReducer::start_finished() {
  for (; next_ < order_.size() && open_[static_cast<size_t>(order_[next_])] == 0; ++next_) {
    const int b = order_[next_];
    Bucket& bucket = buckets_[static_cast<size_t>(b)];
    auto sum = std::make_shared<RankSum>();
    sum->memory = grads_;
    sum->data = {static_cast<float*>(grads_.get()) + bucket.begin, static_cast<size_t>(bucket.end - bucket.begin)};
    sum->sent = sent_;
    sum->columns = bucket.dense < kMostDense ? bucket.columns : 0;
    sum->rows = std::exchange(bucket.rows, std::nullopt);
    started_.push_back({sum, ranks_.start_sum(sum), b});
  }
}

void GradientReducer::start() {
  std::fill(open_.begin(), open_.end(), 0);
  start_finished();
}

void GradientReducer::finish() {
  start();
  const double begin = steady_seconds();
  cost_ = {};
  if (began_ > 0) cost_.run = {began_, begin - began_};
  began_ = 0;
  for (Started& s : started_) {
    s.handle.get();
    cost_.seconds += s.sum->seconds;
    cost_.sums.push_back({s.sum->began, s.sum->seconds, static_cast<int64_t>(s.sum->data.size())});
    buckets_[static_cast<size_t>(s.bucket)].dense += s.sum->columns > 0 && !s.sum->by_rows;
  }
  cost_.waited = steady_seconds() - begin;
  cost_.wait = {begin, cost_.waited};
  if (!agreed_) agree_on_order();
  started_.clear();
  finished_.clear();
  next_ = 0;
  for (size_t b = 0; b < buckets_.size(); ++b) open_[b] = buckets_[b].slots;
}

// Broadcasts the order in which rank 0 finished its buckets in the first step. Buckets that rank 0 did not finish come
// last.
void GradientReducer::agree_on_order() {
  for (const int b : order_) {
    if (std::find(finished_.begin(), finished_.end(), b) == finished_.end()) finished_.push_back(b);
  }
  std::string bytes(reinterpret_cast<const char*>(finished_.data()), finished_.size() * sizeof(int));
  ranks_.broadcast(bytes, 0);
  check(bytes.size() == order_.size() * sizeof(int), "GradientReducer: ranks have other buckets");
  std::memcpy(order_.data(), bytes.data(), bytes.size());
  agreed_ = true;
}

}  // namespace amp
