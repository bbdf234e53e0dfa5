// Converts the elements of a floating tensor to double in pieces, because logits of a language model are large.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/host_tensor.h"

namespace amp {

// Calls f(index, number) for every element.
template <class F>
void each_number(const HostTensor& t, const F& f) {
  constexpr int64_t kAtOnce = 4096;
  double x[kAtOnce];
  for (int64_t from = 0; from < t.numel(); from += kAtOnce) {
    const int64_t n = std::min(kAtOnce, t.numel() - from);
    convert(t.dtype(), static_cast<const char*>(t.data()) + from * size_of(t.dtype()), DType::f64, x, n);
    for (int64_t i = 0; i < n; ++i) f(from + i, x[i]);
  }
}

}  // namespace amp
