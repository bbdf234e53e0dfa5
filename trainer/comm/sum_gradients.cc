// Asynchronous sum of gradients (Communicator::start_sum): only nonzero rows or all elements, in fp32 or compressed to
// 16 bits. The compressed all-reduce adds in fp32. It rounds each rank's values before they are sent, and it rounds the
// result.
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/compressed_values.h"

namespace amp {

namespace {

// Adds 16-bit values in fp32, in the order of the ranks, and rounds the result once.
template <class T>
void reduce_sent(Reduction how, std::span<char* const> of, int64_t count) {
  check(how == Reduction::sum, "values in 16 bits are summed");
  const auto at = [&](size_t r, int64_t i) { return reinterpret_cast<T*>(of[r]) + i; };
  using Sent = CompressedValues<T>;
  Sent::in_pieces(count, [&](int64_t begin, int64_t n) {
    typename Sent::Piece sum, x;
    Sent::load(at(0, begin), sum.data(), n);
    for (size_t r = 1; r < of.size(); ++r) {
      Sent::load(at(r, begin), x.data(), n);
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) sum[i] += x[i];
    }
    from_float(sum.data(), at(0, begin), n);
  });
}

}  // namespace

template <class T>
void Communicator::sum_whole(const RankSum& sum) {
  if constexpr (CompressedValues<T>::exact) {
    reduce_all(sum.data, Reduction::sum);
  } else {
    const CompressedValues<T> values{size()};
    const auto n = static_cast<int64_t>(sum.data.size());
    sent_.resize(sum.data.size() * sizeof(T));
    T* const sent = reinterpret_cast<T*>(sent_.data());
    values.pack(sum.data.data(), sent, n);
    const Block block{sent_.data(), n, sizeof(T), reduce_sent<T>};
    do_reduce_scatter(block, Reduction::sum);
    do_all_gather(block);
    values.unpack(sent, sum.data.data(), n);
  }
}

template <class T>
void Communicator::sum_compressed(RankSum& sum) {
  sum.by_rows = sum.columns > 0 && sum_rows<T>(sum);
  if (!sum.by_rows) sum_whole<T>(sum);
}

Communicator::Handle Communicator::start_sum(std::shared_ptr<RankSum> sum) {
  return start([this, sum = std::move(sum)] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    if (size() == 1 || sum->sent == DType::f32)
      sum_compressed<float>(*sum);
    else if (sum->sent == DType::f16)
      sum_compressed<Half>(*sum);
    else
      sum_compressed<BFloat16>(*sum);
    sum->began = std::chrono::duration<double>(begin.time_since_epoch()).count();
    sum->seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  });
}

}  // namespace amp
