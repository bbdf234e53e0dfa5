// Batch normalization on the CPU: inference, training and gradient, with an optional activation.
// Statistics use two passes: the mean, then centered squares with a correction of the mean's rounding error. Loops
// over channels are in channel_blocks.h and are instantiated for storage type, layout and activation.

#include "backend/cpu/norm/batch_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "backend/cpu/norm/channel_blocks.h"

namespace amp {

namespace {

using namespace channel_blocks;

template <class T>
T rstd(T var, double epsilon) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(var) + epsilon));
}

// The operands of a kernel. x, dy and out have the storage type S of the functions below; the other tensors have one T
// per channel.
template <class T>
struct NormOperands {
  explicit NormOperands(const Dims& x) : l(x) {}
  Layout l;
  double epsilon = 0;
  bool train = false;
  NormActivation activation = NormActivation::none;
  T low = 0, high = 0;
  const void *x = nullptr, *dy = nullptr;
  void* out = nullptr;  // result: y or dx
  const T *scale = nullptr, *bias = nullptr;
  T *mean = nullptr, *var = nullptr, *dscale = nullptr, *dbias = nullptr;
};

// Applies the activation to y, or its gradient to dy, with NaN handled as in the functors of Relu and Clip. Works on an
// element or a vector. activation: a NormActivation, or kAny to read it at run time.
constexpr int kAny = -1;
template <int activation, class T>
struct Cut {
  AMP_INLINE explicit Cut(const NormOperands<T>& k)
      : kind(activation == kAny ? k.activation : static_cast<NormActivation>(activation)),
        low(kind == NormActivation::relu ? T(0) : k.low),
        high(k.high) {}
  template <class V>
  AMP_INLINE void apply(V& y) const {
    if (kind == NormActivation::none) return;
    const V least = V{} + low, most = V{} + high;
    choose(y < least, least, y);
    if (kind == NormActivation::clip) choose(y > most, most, y);
  }
  // Sets dy to 0 where the activation clipped y.
  template <class V>
  AMP_INLINE void gradient(const V& y, V& dy) const {
    if (kind == NormActivation::none) return;
    const V least = V{} + low, most = V{} + high;
    if (kind == NormActivation::relu) {
      choose(y > least, dy, V{}, dy);
    } else {
      choose((y >= least) & (y <= most), dy, V{}, dy);
    }
  }

 private:
  template <class M, class V>
  AMP_INLINE static void choose(const M& where, const V& yes, const V& no, V& to) {
    if constexpr (std::is_same_v<V, T>) {
      to = where ? yes : no;
    } else {
      to = reinterpret_cast<V>((where & reinterpret_cast<M>(yes)) | (~where & reinterpret_cast<M>(no)));
    }
  }
  template <class M, class V>
  AMP_INLINE static void choose(const M& where, const V& yes, V& to) {
    choose(where, yes, to, to);
  }
  NormActivation kind;
  T low, high;
};

// Returns the greatest number that is at most `limit` after rounding to bf16. Rounding is monotonic, so this is a
// binary search over floats in order.
float most_rounded_to(float limit) {
  const auto number = [](int64_t order) {
    return std::bit_cast<float>(static_cast<uint32_t>(order >= 0 ? order : 0x80000000 - order));
  };
  int64_t low = -0x7f800000, high = 0x7f800000;  // -infinity and infinity in the order of number()
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (static_cast<float>(BFloat16(number(middle))) <= limit)
      low = middle;
    else
      high = middle - 1;
  }
  return number(low);
}

// Computes y = (x - mean) a + b. The subtraction comes first to avoid cancellation with a large mean.
template <class T, class S, bool columns, int activation>
void normalize(const NormOperands<T>& k, const Channels& channels) {
  simd_for<T>([&]() AMP_INLINE {
    const Layout l = k.l;
    const Block<columns> block(l, channels);
    const Cut<activation, T> cut(k);
    const S* const x = static_cast<const S*>(k.x);
    S* const y = static_cast<S*>(k.out);
    constexpr int64_t kMost = Block<columns>::kMost;
    T m[kMost], a[kMost], b[kMost], rates[kMost] = {};
    for (int64_t c = 0; c < block.channels(); ++c)
      rates[c] = k.scale[block.channel + c] * rstd(k.var[block.channel + c], k.epsilon);
    block.spread(k.mean + block.channel, m);
    block.spread(rates, a);
    block.spread(k.bias + block.channel, b);
    each_element<T>(l, block, [&](const auto& of, int64_t i, auto& v) AMP_INLINE {
      auto p = v, q = v;
      load(x + i, v);
      of(m, p);
      v -= p;
      of(a, p);
      of(b, q);
      v = v * p + q;
      cut.apply(v);
      store(v, y + i);
    });
  });
}

template <class T, class S, bool columns>
void statistics(const NormOperands<T>& k, const Channels& channels) {
  simd_for<T>([&]() AMP_INLINE {
    const Layout l = k.l;
    const Block<columns> block(l, channels);
    constexpr int64_t kMost = Block<columns>::kMost;
    double sum[kMost][1], centered[kMost][2];
    T m[kMost];
    const S* const in = static_cast<const S*>(k.x);
    T *const means = k.mean + block.channel, *const vars = k.var + block.channel;
    channel_sums<T, 1>(l, block, sum, [&](const auto&, int64_t i, auto& term) AMP_INLINE { load(in + i, term[0]); });
    const double count = l.divisor();
    for (int64_t c = 0; c < block.channels(); ++c) means[c] = static_cast<T>(sum[c][0] / count);
    block.spread(means, m);
    channel_sums<T, 2>(l, block, centered, [&](const auto& of, int64_t i, auto& term) AMP_INLINE {
      auto p = term[0];
      load(in + i, term[1]);
      of(m, p);
      term[1] -= p;
      term[0] = term[1] * term[1];
    });
    // The first mean is rounded. If it is large, its error contributes to the deviation. The mean of the remainder
    // corrects mean and variance (Chan, Golub and LeVeque, Algorithms for computing the sample variance, 1983).
    for (int64_t c = 0; c < block.channels(); ++c) {
      const double missed = centered[c][1] / count, var = centered[c][0] / count - missed * missed;
      means[c] = static_cast<T>(static_cast<double>(means[c]) + missed);
      vars[c] = static_cast<T>(var < 0 ? 0 : var);  // the comparison keeps NaN
    }
  });
}

// Computes dscale and dbias of channels from their sums of dy and of dy (x - mean). `one` contains scale rstd and
// receives p; `two` receives q. p and q are the factors of dx = a dy - p - q (x - mean).
template <class T, bool columns>
AMP_INLINE inline void store_sums(const NormOperands<T>& k, const Block<columns>& block, const double (*sum)[2], T* one,
                                  T* two) {
  for (int64_t c = 0; c < block.channels(); ++c) {
    const T r = rstd(k.var[block.channel + c], k.epsilon);
    k.dscale[block.channel + c] = static_cast<T>(sum[c][1]) * r;
    k.dbias[block.channel + c] = static_cast<T>(sum[c][0]);
    const double per = k.train ? static_cast<double>(one[c]) / k.l.divisor() : 0;
    one[c] = static_cast<T>(per * sum[c][0]);
    two[c] = static_cast<T>(per * sum[c][1] * static_cast<double>(r) * static_cast<double>(r));
  }
}

// Computes dscale = sum dy xhat, dbias = sum dy, and dx = scale rstd (dy - s). In training s = (dbias + xhat dscale)
// / count, otherwise 0.
template <class T, class S, bool columns, int activation>
void differentiate(const NormOperands<T>& k, const Channels& channels) {
  simd_for<T>([&]() AMP_INLINE {
    const Layout l = k.l;
    const Block<columns> block(l, channels);
    const Cut<activation, T> cut(k);
    const bool train = k.train;
    const S *const in = static_cast<const S*>(k.x), *const grad = static_cast<const S*>(k.dy);
    S* const out = static_cast<S*>(k.out);
    const int64_t first = block.channel;
    constexpr int64_t kMost = Block<columns>::kMost;
    double sum[kMost][2];  // sums of dy and of dy (x - mean)
    T one[kMost] = {}, two[kMost] = {};
    T m[kMost], a[kMost], shift[kMost];  // y = a (x - mean) + shift
    for (int64_t c = 0; c < block.channels(); ++c) {
      one[c] = k.scale[first + c] * rstd(k.var[first + c], k.epsilon);
      two[c] = k.bias ? k.bias[first + c] : T(0);
    }
    block.spread(k.mean + first, m);
    block.spread(one, a);
    block.spread(two, shift);
    // g: dy before the activation; centered: x - mean.
    const auto differentiated = [&](const auto& of, int64_t i, auto& g, auto& centered) AMP_INLINE {
      auto y = g, v = g;
      load(in + i, centered);
      of(m, v);
      centered -= v;
      of(a, v);
      of(shift, y);
      y = centered * v + y;
      cut.gradient(y, g);
    };
    channel_sums<T, 2>(l, block, sum, [&](const auto& of, int64_t i, auto& term) AMP_INLINE {
      load(grad + i, term[0]);
      differentiated(of, i, term[0], term[1]);
      term[1] *= term[0];
    });
    store_sums(k, block, sum, one, two);
    T p[kMost], q[kMost];
    block.spread(one, p);
    block.spread(two, q);
    each_element<T>(l, block, [&](const auto& of, int64_t i, auto& g) AMP_INLINE {
      auto centered = g, rate = g, left = g, right = g;
      load(grad + i, g);
      differentiated(of, i, g, centered);
      of(a, rate);
      if (train) {
        of(p, left);
        of(q, right);
        g = rate * g - left - right * centered;
      } else {
        g = rate * g;
      }
      store(g, out + i);
    });
  });
}

template <class T>
using OfChannels = void (*)(const NormOperands<T>&, const Channels&);

// Prepares a kernel. whole: the tensors that have more than one value per channel. If all of them are bf16, they are
// used in place; otherwise they are converted to fp32 or fp64. Columns (channel_blocks.h) are always converted: the
// compiler contracts their sums differently for bf16, and a bit may change.
template <class T>
class Prepared {
 public:
  Prepared(const KernelArgs& args, Carver& carve, std::initializer_list<const Tensor*> whole)
      : k(whole.begin()[0]->dims), carve_(carve) {
    k.epsilon = args.attrs().f("epsilon", 1e-5);
    k.train = args.attrs().i("train", 0) != 0;
    k.activation = static_cast<NormActivation>(args.attrs().i("activation", 0));
    if (k.activation != NormActivation::relu)
      k.low = static_cast<T>(args.attrs().f("min", -std::numeric_limits<double>::infinity()));
    k.high = static_cast<T>(args.attrs().f("max", std::numeric_limits<double>::infinity()));
    bf16_ = !in_columns(k.l) && !std::is_same_v<T, double> &&
            std::all_of(whole.begin(), whole.end(), [](const Tensor* t) { return t->dtype == DType::bf16; });
  }
  T* read(const Tensor& t) { return staged(t, reads_); }
  T* written(const Tensor& t) { return staged(t, writes_); }
  const void* elements_read(const Tensor& t) { return bf16_ ? t.data : read(t); }
  void* elements_written(const Tensor& t) { return bf16_ ? t.data : written(t); }

  // Returns fn.operator()<S, columns, activation>() for the operands.
  template <class Fn>
  OfChannels<T> variant(const Fn& fn) const {
    const bool columns = in_columns(k.l);
    if constexpr (std::is_same_v<T, double>) {
      return columns ? fn.template operator()<T, true, kAny>() : fn.template operator()<T, false, kAny>();
    } else {
      const auto of = [&]<NormActivation n>() {
        constexpr int a = static_cast<int>(n);
        if (bf16_) return fn.template operator()<BFloat16, false, a>();
        return columns ? fn.template operator()<T, true, a>() : fn.template operator()<T, false, a>();
      };
      switch (k.activation) {
        case NormActivation::relu:
          return of.template operator()<NormActivation::relu>();
        case NormActivation::clip:
          return of.template operator()<NormActivation::clip>();
        case NormActivation::none:
          break;
      }
      return of.template operator()<NormActivation::none>();
    }
  }

  // Returns a kernel that runs `first` (may be null), then `second`, on each thread's channels.
  Kernel kernel(OfChannels<T> first, OfChannels<T> second) {
    return [k = k, reads = std::move(reads_), writes = std::move(writes_), first, second] {
      for (const Staged<T>& t : reads) t.load();
      each_channels(k.l, [&](const Channels& channels) {
        if (first) first(k, channels);
        second(k, channels);
      });
      for (const Staged<T>& t : writes) t.store();
    };
  }

  NormOperands<T> k;

 private:
  T* staged(const Tensor& t, std::vector<Staged<T>>& to) { return to.emplace_back(stage<T>(carve_, t)).data; }
  Carver& carve_;
  bool bf16_ = false;
  std::vector<Staged<T>> reads_, writes_;
};

template <class T>
OfChannels<T> normalizing(const Prepared<T>& p) {
  return p.variant([]<class S, bool columns, int n>() -> OfChannels<T> { return normalize<T, S, columns, n>; });
}

template <class T>
Kernel inference(const KernelArgs& a, Carver& c) {
  Prepared<T> p(a, c, {&a.in[0], &a.out[0]});
  p.k.x = p.elements_read(a.in[0]);
  p.k.scale = p.read(a.in[1]);
  p.k.bias = p.read(a.in[2]);
  p.k.mean = p.read(a.in[3]);
  p.k.var = p.read(a.in[4]);
  p.k.out = p.elements_written(a.out[0]);
  return p.kernel(nullptr, normalizing(p));
}

template <class T>
Kernel training(const KernelArgs& a, Carver& c) {
  Prepared<T> p(a, c, {&a.in[0], &a.out[0]});
  p.k.x = p.elements_read(a.in[0]);
  p.k.scale = p.read(a.in[1]);
  p.k.bias = p.read(a.in[2]);
  p.k.out = p.elements_written(a.out[0]);
  p.k.mean = p.written(a.out[1]);
  p.k.var = p.written(a.out[2]);
  return p.kernel(p.variant([]<class S, bool columns, int>() -> OfChannels<T> { return statistics<T, S, columns>; }),
                  normalizing(p));
}

template <class T>
Kernel gradient(const KernelArgs& a, Carver& c) {
  Prepared<T> p(a, c, {&a.in[1], &a.in[0], &a.out[0]});
  p.k.dy = p.elements_read(a.in[0]);
  p.k.x = p.elements_read(a.in[1]);
  p.k.scale = p.read(a.in[2]);
  p.k.mean = p.read(a.in[3]);
  p.k.var = p.read(a.in[4]);
  if (a.has(5)) p.k.bias = p.read(a.in[5]);
  if (std::is_same_v<T, float> && a.attrs().i("cut_rounded", 0)) {
    p.k.low =
        static_cast<T>(-most_rounded_to(static_cast<float>(-p.k.low)));  // negative numbers round like positive ones
    p.k.high = static_cast<T>(most_rounded_to(static_cast<float>(p.k.high)));
  }
  p.k.out = p.elements_written(a.out[0]);
  p.k.dscale = p.written(a.out[1]);
  p.k.dbias = p.written(a.out[2]);
  return p.kernel(nullptr, p.variant([]<class S, bool columns, int n>() -> OfChannels<T> {
    return differentiate<T, S, columns, n>;
  }));
}

}  // namespace

Kernel batch_norm(const KernelArgs& a, Carver& c) {
  return in_double(a) ? inference<double>(a, c) : inference<float>(a, c);
}
Kernel batch_norm_train(const KernelArgs& a, Carver& c) {
  return in_double(a) ? training<double>(a, c) : training<float>(a, c);
}
Kernel batch_norm_grad(const KernelArgs& a, Carver& c) {
  return in_double(a) ? gradient<double>(a, c) : gradient<float>(a, c);
}

}  // namespace amp
