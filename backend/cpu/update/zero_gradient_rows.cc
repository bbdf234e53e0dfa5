#include "backend/cpu/update/zero_gradient_rows.h"

#include <algorithm>

namespace amp {

static constexpr int64_t kLeastRows = 1024, kLeastRow = 16;  // minimum rows of a table, and minimum elements of a row

ZeroGradientRows::ZeroGradientRows(const std::vector<UpdateSpan>& spans) : tables_(spans.size()) {
  for (size_t i = 0; i < spans.size(); ++i) {
    const UpdateSpan& s = spans[i];
    if (s.dims.size() != 2 || s.dims[0] < kLeastRows || s.dims[1] < kLeastRow) continue;
    tables_[i] = {s.begin, s.dims[1], std::vector<uint8_t>(static_cast<size_t>(s.dims[0]), 0)};
  }
}

template <class T>
kernel::ShardStats ZeroGradientRows::inspect(size_t span, int64_t begin, int64_t count, const T* grads) {
  kernel::ShardStats out;
  each_row(span, begin, count, [&](std::atomic_ref<uint8_t> state, int64_t from, int64_t to) {
    const kernel::ShardStats row = kernel::inspect(grads + from, to - from);
    out.found_inf |= row.found_inf;
    out.sum_squares += row.sum_squares;
    out.max_abs = std::max(out.max_abs, row.max_abs);
    if ((row.found_inf || row.max_abs != 0) && state.load(std::memory_order_relaxed) == kZero)
      state.store(kNew, std::memory_order_relaxed);
  });
  return out;
}

template <class T>
void ZeroGradientRows::inspect_moments(size_t span, int64_t begin, int64_t count, const T* moments) {
  each_row(span, begin, count, [&](std::atomic_ref<uint8_t> state, int64_t from, int64_t to) {
    const kernel::ShardStats row = kernel::inspect(moments + from, to - from);
    if (row.found_inf || row.max_abs != 0) state.store(kOld, std::memory_order_relaxed);
  });
}

void ZeroGradientRows::mark_nonzero(size_t span, int64_t begin, int64_t count) {
  each_row(span, begin, count,
           [](std::atomic_ref<uint8_t> state, int64_t, int64_t) { state.store(kOld, std::memory_order_relaxed); });
}

template kernel::ShardStats ZeroGradientRows::inspect(size_t, int64_t, int64_t, const float*);
template kernel::ShardStats ZeroGradientRows::inspect(size_t, int64_t, int64_t, const double*);
template void ZeroGradientRows::inspect_moments(size_t, int64_t, int64_t, const float*);
template void ZeroGradientRows::inspect_moments(size_t, int64_t, int64_t, const double*);

}  // namespace amp
