// The loops of the optimizer over one shard, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "base/update_rules.h"

namespace amp::kernel {

struct ShardStats {
  bool found_inf = false;
  double sum_squares = 0;  // of the elements as they are
  double max_abs = 0;      // meaningless when found_inf
};

// The order of additions is fixed (16 lanes), so the sum has the same bits on every instruction set.
template <class T>
ShardStats inspect(const T* g, int64_t n);

template <class T>
struct ShardSpans {
  T* p;
  const T* g;
  T* m;    // null: not kept
  T* v;    // null: not kept
  T* ema;  // null: not kept
  int64_t n;
};

// What happens to a gradient element before the method sees it, and to the EMA after: uniform over the shard.
template <class T>
struct Around {
  T inv;    // 1 / loss scale
  T clip;   // coefficient of norm clipping, 1 for none
  T limit;  // value clipping, infinity for none
  T ema_decay;
};

template <class T>
void sgd(const ShardSpans<T>& s, const Around<T>& a, const SgdScalars<T>& c);

template <class T>
void adam(const ShardSpans<T>& s, const Around<T>& a, const AdamScalars<T>& c);

}  // namespace amp::kernel
