// The sum of a matrix most of whose rows are zero: what a table's gradient is where a batch looks up few of its rows.
// Ranks exchange the rows that they have instead of all, and add them in their order: the bits of the whole sum.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "trainer/collective.h"

namespace amp {

namespace {

constexpr int64_t kAlign = 16;  // elements of a share begin at such borders

// -0 is a value: it is another sum's sign.
std::vector<int32_t> rows_with_values(std::span<const float> data, int64_t columns) {
  std::vector<int32_t> out;
  const auto width = static_cast<size_t>(columns);
  const auto* const bits = reinterpret_cast<const char*>(data.data());
  for (size_t r = 0; r * width < data.size(); ++r) {
    uint32_t any = 0;
    for (size_t c = 0; c < width && any == 0;) {  // some at a time: most rows are looked at whole
      for (const size_t end = std::min(width, c + 64); c < end; ++c) {
        uint32_t x;
        std::memcpy(&x, bits + (r * width + c) * sizeof x, sizeof x);
        any |= x;
      }
    }
    if (any) out.push_back(static_cast<int32_t>(r));
  }
  return out;
}

// The rows of one rank, in a share of what is gathered: their numbers, then themselves.
struct SentRows {
  const float* share = nullptr;
  int64_t count = 0, most = 0, columns = 0, next = 0;
  int32_t number(int64_t i) const {
    int32_t n;
    std::memcpy(&n, share + i, sizeof n);
    return n;
  }
  // That row, if it is the next of this rank's; else null.
  const float* take(int32_t row) {
    if (next == count || number(next) != row) return nullptr;
    return share + most + columns * next++;
  }
};

void add_rows(std::vector<SentRows>& ranks, int64_t columns, std::span<float> data) {
  while (true) {
    int32_t row = INT32_MAX;
    for (const SentRows& r : ranks) row = r.next < r.count ? std::min(row, r.number(r.next)) : row;
    if (row == INT32_MAX) return;
    float* const out = data.data() + row * columns;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const float* const from = ranks[r].take(row);
      for (int64_t c = 0; c < columns; ++c) {
        const float x = from ? from[c] : 0.0F;  // added too: it makes a -0 the 0 that it is in the whole sum
        out[c] = r == 0 ? x : out[c] + x;
      }
    }
  }
}

}  // namespace

bool Collective::sum_rows(const RankSum& sum) {
  const std::span<float> data = sum.data;
  const int64_t columns = sum.columns;
  const auto n = static_cast<int64_t>(data.size()), ranks = int64_t{size()};
  const std::vector<int32_t> own = sum.rows ? *sum.rows : rows_with_values(data, columns);
  std::vector<double> counts(static_cast<size_t>(kAlign * ranks), 0.0);
  const auto count_of = [&](int64_t r) { return static_cast<int64_t>(counts[static_cast<size_t>(kAlign * r)]); };
  counts[static_cast<size_t>(kAlign * rank())] = static_cast<double>(own.size());
  do_all_gather({reinterpret_cast<char*>(counts.data()), kAlign * ranks, sizeof(double), nullptr});
  int64_t most = 0;
  for (int64_t r = 0; r < ranks; ++r) most = std::max(most, count_of(r));
  const int64_t share = (most * (columns + 1) + kAlign - 1) / kAlign * kAlign;
  if (share * ranks >= 2 * n) return false;  // each sends its share to all others, or its part twice
  if (most == 0) return true;
  std::vector<float> sent(static_cast<size_t>(share * ranks));
  float* const mine = sent.data() + share * rank();
  std::memcpy(mine, own.data(), own.size() * sizeof(int32_t));
  for (size_t i = 0; i < own.size(); ++i)
    std::copy_n(data.data() + own[i] * columns, columns, mine + most + static_cast<int64_t>(i) * columns);
  do_all_gather({reinterpret_cast<char*>(sent.data()), share * ranks, sizeof(float), nullptr});
  std::vector<SentRows> of;
  for (int64_t r = 0; r < ranks; ++r) of.push_back({sent.data() + share * r, count_of(r), most, columns});
  add_rows(of, columns, data);
  return true;
}

Collective::Handle Collective::start_sum(std::shared_ptr<RankSum> sum) {
  return start([this, sum = std::move(sum)] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    sum->by_rows = sum->columns > 0 && sum_rows(*sum);
    if (!sum->by_rows) reduce_all(sum->data, Reduction::sum);
    sum->seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  });
}

}  // namespace amp
