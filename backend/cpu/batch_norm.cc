#include "backend/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "backend/cpu/channel_blocks.h"

namespace amp {

namespace {

using namespace channel_blocks;

template <class T>
T rstd(T var, double epsilon) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(var) + epsilon));
}

// What is behind y, and where its gradient passes: as the functors of Relu and Clip have it, NaN included. An element,
// or a vector of them.
template <NormActivation activation, class T>
struct Cut {
  explicit Cut(const Attrs& a)
      : low(activation == NormActivation::relu ? T(0)
                                               : static_cast<T>(a.f("min", -std::numeric_limits<double>::infinity()))),
        high(static_cast<T>(a.f("max", std::numeric_limits<double>::infinity()))) {}
  template <class V>
  AMP_INLINE void apply(V& y) const {
    if constexpr (activation == NormActivation::none) return;
    const V least = V{} + low, most = V{} + high;
    choose(y < least, least, y);
    if constexpr (activation == NormActivation::clip) choose(y > most, most, y);
  }
  // dy, or 0 where y was cut.
  template <class V>
  AMP_INLINE void gradient(const V& y, V& dy) const {
    if constexpr (activation == NormActivation::none) return;
    const V least = V{} + low, most = V{} + high;
    if constexpr (activation == NormActivation::relu) {
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
  T low, high;
};

// fn.operator()<activation>() for the node's attribute.
template <class Fn>
Kernel with_cut(const KernelArgs& args, const Fn& fn) {
  switch (static_cast<NormActivation>(args.attrs().i("activation", 0))) {
    case NormActivation::relu:
      return fn.template operator()<NormActivation::relu>();
    case NormActivation::clip:
      return fn.template operator()<NormActivation::clip>();
    case NormActivation::none:
      break;
  }
  return fn.template operator()<NormActivation::none>();
}

// A tensor of all elements as S: bf16 where it lies, else as an image in fp32 or fp64.
template <class S>
struct InPlace {
  S* data;
  void load() const {}
  void store() const {}
};
template <class S>
auto elements(Carver& carve, const Tensor& t) {
  if constexpr (std::is_same_v<S, BFloat16>)
    return InPlace<S>{static_cast<S*>(t.data)};
  else
    return stage<S>(carve, t);
}

// y = (x - mean) a + b: subtracting first keeps what a large mean would cancel.
template <class T, class S, class C>
AMP_INLINE inline void normalize(const Layout& l, const Block& block, const S* x, const T* mean, const T* var,
                                 const T* scale, const T* bias, double epsilon, const C& cut, S* y) {
  T m[Block::kMost], a[Block::kMost], b[Block::kMost], rates[Block::kMost] = {};
  for (int64_t c = 0; c < block.channels; ++c)
    rates[c] = scale[block.channel + c] * rstd(var[block.channel + c], epsilon);
  block.spread(mean + block.channel, m);
  block.spread(rates, a);
  block.spread(bias + block.channel, b);
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
}

template <class T, class S, NormActivation activation>
Kernel inference(const KernelArgs& args, Carver& carve) {
  const auto x = elements<S>(carve, args.in[0]), y = elements<S>(carve, args.out[0]);
  const auto scale = stage<T>(carve, args.in[1]), bias = stage<T>(carve, args.in[2]);
  const auto mean = stage<T>(carve, args.in[3]), var = stage<T>(carve, args.in[4]);
  const Layout l(args.in[0].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  const Cut<activation, T> cut(args.attrs());
  return [=] {
    x.load();
    for (const auto* t : {&scale, &bias, &mean, &var}) t->load();
    each_channel_block(l, [&](const Block& block) AMP_INLINE {
      normalize<T>(l, block, x.data, mean.data, var.data, scale.data, bias.data, epsilon, cut, y.data);
    });
    y.store();
  };
}

template <class T, class S, NormActivation activation>
Kernel training(const KernelArgs& args, Carver& carve) {
  const auto x = elements<S>(carve, args.in[0]), y = elements<S>(carve, args.out[0]);
  const auto scale = stage<T>(carve, args.in[1]), bias = stage<T>(carve, args.in[2]);
  const auto mean = stage<T>(carve, args.out[1]), var = stage<T>(carve, args.out[2]);
  const Layout l(args.in[0].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  const Cut<activation, T> cut(args.attrs());
  return [=] {
    x.load();
    for (const auto* t : {&scale, &bias}) t->load();
    each_channel_block(l, [&](const Block& block) AMP_INLINE {
      double sum[Block::kMost][1];
      T m[Block::kMost];
      const S* in = x.data;
      T *means = mean.data + block.channel, *vars = var.data + block.channel;
      channel_sums<T, 1>(l, block, sum, [&](const auto&, int64_t i, auto& term) AMP_INLINE { load(in + i, term[0]); });
      const double count = l.divisor();
      for (int64_t c = 0; c < block.channels; ++c) means[c] = static_cast<T>(sum[c][0] / count);
      block.spread(means, m);
      channel_sums<T, 1>(l, block, sum, [&](const auto& of, int64_t i, auto& term) AMP_INLINE {
        auto p = term[0];
        load(in + i, term[0]);
        of(m, p);
        term[0] -= p;
        term[0] *= term[0];
      });
      for (int64_t c = 0; c < block.channels; ++c) vars[c] = static_cast<T>(sum[c][0] / count);
      normalize<T>(l, block, in, mean.data, var.data, scale.data, bias.data, epsilon, cut, y.data);
    });
    y.store();
    for (const auto* t : {&mean, &var}) t->store();
  };
}

// dscale = sum dy xhat, dbias = sum dy; dx = scale rstd (dy - [train] (dbias + xhat dscale) / count).
template <class T, class S, NormActivation activation>
Kernel gradient(const KernelArgs& args, Carver& carve) {
  const auto dy = elements<S>(carve, args.in[0]), x = elements<S>(carve, args.in[1]);
  const auto scale = stage<T>(carve, args.in[2]);
  const auto mean = stage<T>(carve, args.in[3]), var = stage<T>(carve, args.in[4]);
  const auto bias = args.has(5) ? stage<T>(carve, args.in[5]) : Staged<T>{};
  const auto dx = elements<S>(carve, args.out[0]);
  const auto dscale = stage<T>(carve, args.out[1]), dbias = stage<T>(carve, args.out[2]);
  const Layout l(args.in[1].dims);
  const double epsilon = args.attrs().f("epsilon", 1e-5);
  const Cut<activation, T> cut(args.attrs());
  const bool train = args.attrs().i("train", 0) != 0;
  return [=] {
    for (const auto* t : {&dy, &x}) t->load();
    for (const auto* t : {&scale, &mean, &var}) t->load();
    if (bias.data) bias.load();
    each_channel_block(l, [&](const Block& block) AMP_INLINE {
      const S *in = x.data, *grad = dy.data;
      S* out = dx.data;
      const int64_t first = block.channel;
      double sum[Block::kMost][2];  // of dy, of dy (x - mean)
      T one[Block::kMost] = {}, two[Block::kMost] = {};
      T m[Block::kMost], a[Block::kMost], shift[Block::kMost];  // y = a (x - mean) + shift
      for (int64_t c = 0; c < block.channels; ++c) {
        one[c] = scale.data[first + c] * rstd(var.data[first + c], epsilon);
        two[c] = bias.data ? bias.data[first + c] : T(0);
      }
      block.spread(mean.data + first, m);
      block.spread(one, a);
      block.spread(two, shift);
      // g: dy to what is before the activation; centred: x - mean
      const auto differentiated = [&](const auto& of, int64_t i, auto& g, auto& centred) AMP_INLINE {
        auto y = g, v = g;
        load(in + i, centred);
        of(m, v);
        centred -= v;
        of(a, v);
        of(shift, y);
        y = centred * v + y;
        cut.gradient(y, g);
      };
      channel_sums<T, 2>(l, block, sum, [&](const auto& of, int64_t i, auto& term) AMP_INLINE {
        load(grad + i, term[0]);
        differentiated(of, i, term[0], term[1]);
        term[1] *= term[0];
      });
      T p[Block::kMost], q[Block::kMost];  // dx = a dy - p - q (x - mean)
      for (int64_t c = 0; c < block.channels; ++c) {
        const T r = rstd(var.data[first + c], epsilon);
        dscale.data[first + c] = static_cast<T>(sum[c][1]) * r;
        dbias.data[first + c] = static_cast<T>(sum[c][0]);
        const double per = train ? static_cast<double>(one[c]) / l.divisor() : 0;
        one[c] = static_cast<T>(per * sum[c][0]);
        two[c] = static_cast<T>(per * sum[c][1] * static_cast<double>(r) * static_cast<double>(r));
      }
      block.spread(one, p);
      block.spread(two, q);
      each_element<T>(l, block, [&](const auto& of, int64_t i, auto& g) AMP_INLINE {
        auto centred = g, rate = g, left = g, right = g;
        load(grad + i, g);
        differentiated(of, i, g, centred);
        of(a, rate);
        if (train) {
          of(p, left);
          of(q, right);
          g = rate * g - left - right * centred;
        } else {
          g = rate * g;
        }
        store(g, out + i);
      });
    });
    dx.store();
    for (const auto* t : {&dscale, &dbias}) t->store();
  };
}

// fn.operator()<T, S>(): what is computed in, and what tensors of all elements are read and written as. Columns go by
// way of images: their sums are contracted otherwise when they are read as bf16, and a bit may change.
template <class Fn>
Kernel with_types(const KernelArgs& a, std::initializer_list<const Tensor*> whole, const Fn& fn) {
  if (in_double(a)) return fn.template operator()<double, double>();
  const auto planes_of_bf16 = [](const Tensor* t) {
    return t->dtype == DType::bf16 && Layout(t->dims).inner >= Block::kPlane;
  };
  if (std::all_of(whole.begin(), whole.end(), planes_of_bf16)) return fn.template operator()<float, BFloat16>();
  return fn.template operator()<float, float>();
}

}  // namespace

Kernel batch_norm(const KernelArgs& a, Carver& c) {
  return with_cut(a, [&]<NormActivation n>() {
    return with_types(a, {&a.in[0], &a.out[0]}, [&]<class T, class S>() { return inference<T, S, n>(a, c); });
  });
}
Kernel batch_norm_train(const KernelArgs& a, Carver& c) {
  return with_cut(a, [&]<NormActivation n>() {
    return with_types(a, {&a.in[0], &a.out[0]}, [&]<class T, class S>() { return training<T, S, n>(a, c); });
  });
}
Kernel batch_norm_grad(const KernelArgs& a, Carver& c) {
  return with_cut(a, [&]<NormActivation n>() {
    return with_types(a, {&a.in[0], &a.in[1], &a.out[0]}, [&]<class T, class S>() { return gradient<T, S, n>(a, c); });
  });
}

}  // namespace amp
