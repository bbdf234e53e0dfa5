// Row-sparse sum of a matrix, for gradients of embedding tables, whose rows are mostly zero. Ranks exchange only their
// nonzero rows and add them in the order of the ranks, so the result has the same bits as the dense sum. The row counts
// are gathered first; if the ranks have too many nonzero rows, nothing is done and the caller uses the dense sum (of
// all elements).
#include <algorithm>
#include <cstring>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/compressed_values.h"

namespace amp {

namespace {

constexpr int64_t kAlign = 16;  // alignment of shards, see Communicator::shard()

// Returns the indices of the rows with a nonzero bit. -0 counts as nonzero, because it affects the sign of a sum.
std::vector<int32_t> rows_with_values(std::span<const float> data, int64_t columns) {
  std::vector<int32_t> out;
  const auto width = static_cast<size_t>(columns);
  const auto* const bits = reinterpret_cast<const char*>(data.data());
  for (size_t r = 0; r * width < data.size(); ++r) {
    uint32_t any = 0;
    for (size_t c = 0; c < width && any == 0;) {  // 64 elements per iteration, so that the inner loop is vectorized
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

// The rows that one rank sent: their indices, followed by their values.
template <class T>
struct SentRows {
  const char* share = nullptr;
  int64_t count = 0, most = 0, columns = 0, next = 0;
  int32_t number(int64_t i) const {
    int32_t n;
    std::memcpy(&n, share + i * int64_t{sizeof n}, sizeof n);
    return n;
  }
  // Returns the values of `row` and advances if `row` is the rank's next row; else returns null.
  const T* take(int32_t row) {
    if (next == count || number(next) != row) return nullptr;
    return reinterpret_cast<const T*>(share + most * int64_t{sizeof(int32_t)}) + columns * next++;
  }
};

template <class T>
void add_rows(std::vector<SentRows<T>>& ranks, int64_t columns, std::span<float> data) {
  const CompressedValues<T> values{static_cast<int>(ranks.size())};
  std::vector<float> x(static_cast<size_t>(columns));
  while (true) {
    int32_t row = INT32_MAX;
    for (const SentRows<T>& r : ranks) row = r.next < r.count ? std::min(row, r.number(r.next)) : row;
    if (row == INT32_MAX) return;
    float* const out = data.data() + row * columns;
    for (size_t r = 0; r < ranks.size(); ++r) {
      // A rank that did not send this row contributes zeros, as in the dense sum, so that -0 + 0 gives 0.
      if (const T* const from = ranks[r].take(row))
        values.load(from, x.data(), columns);
      else
        std::fill(x.begin(), x.end(), 0.0F);
      for (int64_t c = 0; c < columns; ++c) {
        const float v = x[static_cast<size_t>(c)];
        out[c] = r == 0 ? v : out[c] + v;
      }
    }
    values.finish(out, columns);
  }
}

}  // namespace

template <class T>
bool Communicator::sum_rows(const RankSum& sum) {
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
  constexpr int64_t kNumber = sizeof(int32_t), kSize = sizeof(T);
  const int64_t share = (most * (kNumber + columns * kSize) + kAlign - 1) / kAlign * kAlign;  // in bytes
  // The sum by rows exchanges one share per rank (nonzero rows and their indices); the dense sum exchanges the matrix
  // twice.
  if (share * ranks >= 2 * n * kSize) return false;
  if (most == 0) return true;
  std::vector<char> sent(static_cast<size_t>(share * ranks));
  char* const mine = sent.data() + share * rank();
  T* const rows = reinterpret_cast<T*>(mine + most * kNumber);
  std::memcpy(mine, own.data(), own.size() * sizeof(int32_t));
  for (size_t i = 0; i < own.size(); ++i)
    CompressedValues<T>{size()}.pack(data.data() + own[i] * columns, rows + static_cast<int64_t>(i) * columns, columns);
  do_all_gather({sent.data(), share * ranks, 1, nullptr});
  std::vector<SentRows<T>> of;
  for (int64_t r = 0; r < ranks; ++r) of.push_back({sent.data() + share * r, count_of(r), most, columns});
  add_rows<T>(of, columns, data);
  return true;
}

template bool Communicator::sum_rows<float>(const RankSum&);
template bool Communicator::sum_rows<Half>(const RankSum&);
template bool Communicator::sum_rows<BFloat16>(const RankSum&);

}  // namespace amp
