// The kernels of BatchNorm, BatchNormTrain and BatchNormGrad (ops/batch_norm.cc). x is (N, C, inner), or (N, inner, C)
// in channels-last layout. For channels-last layout, Layout treats every position as an image with inner = 1. The mean
// and then the variance are computed in two passes, in fp32.
#include "backend/channels_last.h"
#include "backend/cuda/columns.cuh"
#include "backend/cuda/divide.cuh"

namespace amp::cuda {
namespace {

class Layout {
 public:
  Layout(const Dims& d, const Attrs& a) : n_(d.at(0)), channels_(d.at(1)) {
    if (has_channels_last(a)) {
      channels_ = d.back();
      n_ = amp::numel(d) / std::max<int64_t>(1, channels_);
    } else {
      for (size_t i = 2; i < d.size(); ++i) inner_ *= d[i];
    }
    by_inner_ = Divisor(std::max<int64_t>(1, inner_));
    by_channels_ = Divisor(std::max<int64_t>(1, channels_));
  }
  HD int64_t n() const { return n_; }
  HD int64_t channels() const { return channels_; }
  HD int64_t inner() const { return inner_; }
  int64_t numel() const { return n_ * channels_ * inner_; }
  // Returns the number of elements of a channel. It is at least 1, so that the statistics of an empty tensor are 0.
  float count() const { return static_cast<float>(std::max<int64_t>(1, n_ * inner_)); }
  // Returns the number of threads along the columns (columns.cuh). In channels-last layout, neighboring threads read
  // neighboring channels.
  int lanes() const { return inner_ == 1 ? 32 : 1; }
  int64_t rows() const { return n_ * inner_; }  // elements of a channel

  // Returns the offset in memory of element i of a channel, where i counts over (N, inner).
  DEV int64_t at(int64_t i, int64_t channel) const {
    const int64_t image = by_inner_(i);
    return (image * channels_ + channel) * inner_ + i - image * inner_;
  }
  DEV int64_t channel_of(int64_t i) const {
    int64_t line = by_inner_(i);
    return by_channels_.take(line);
  }

 private:
  int64_t n_, channels_, inner_ = 1;
  Divisor by_inner_, by_channels_;
};

DEV float rstd_of(const Ref& var, int64_t channel, float epsilon) {
  return 1 / sqrtf(load<float>(var, channel) + epsilon);
}

// A thread processes W neighboring elements of one channel (C = 1), or one element of each of C neighboring channels (W
// = 1). W * C is 1 or 4. Returns the channel of the thread's element k, minus the channel of its first element.
template <int C>
DEV constexpr int channel_at(int k) {
  return C == 1 ? 0 : k;
}

// Computes y = (x - mean) a + b. The subtraction comes first, because it avoids cancellation if the mean is large.
template <int W, int C>
struct Normalize {
  static constexpr int K = W * C;
  Ref x, scale, bias, mean, var, y;
  Layout layout;
  float epsilon;
  DEV void operator()(int64_t group) const {
    const int64_t i = group * K, c = layout.channel_of(i);
    float a[C], m[C], b[C], v[K];
    for (int k = 0; k < C; ++k) {
      a[k] = load<float>(scale, c + k) * rstd_of(var, c + k, epsilon);
      m[k] = load<float>(mean, c + k);
      b[k] = load<float>(bias, c + k);
    }
    load_some(x, i, v);
    for (int k = 0; k < K; ++k) v[k] = (v[k] - m[channel_at<C>(k)]) * a[channel_at<C>(k)] + b[channel_at<C>(k)];
    store_some(y, i, v);
  }
};

// A Body of columns.cuh that computes the mean of each channel, or the variance about a given mean. What columns.cuh
// calls a row is here W elements of the channel.
template <bool Variance, int W, int C>
struct Moment {
  using Value = float;
  static constexpr int kSums = 1, kWidth = C, K = W * C, min_blocks = 3;
  using Loaded = Raw<float, K>;
  struct Context {
    float mean[C];
  };
  Ref x, mean, out;
  Layout layout;
  float count;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t channel) const {
    Context c;
    for (int k = 0; k < C; ++k) c.mean[k] = Variance ? load<float>(mean, channel + k) : 0.0f;
    return c;
  }
  DEV Loaded fetch(int64_t, int64_t row, int64_t channel) const {
    return amp::cuda::fetch<float, K>(x, layout.at(row * W, channel));
  }
  DEV void add(float (&acc)[1][C], const Loaded& l, const Context& c) const {
    float v[K];
    unpack(x, l, v);
    for (int k = 0; k < K; ++k) {
      const float from_mean = v[k] - c.mean[channel_at<C>(k)];
      acc[0][channel_at<C>(k)] += Variance ? from_mean * from_mean : v[k];
    }
  }
  DEV void store(int, int64_t channel, float sum) const { amp::cuda::store(out, channel, sum / count); }
};

// A Body of columns.cuh that computes dbias, dscale, and sums (2, C): sum dy, then sum dy (x - mean).
template <int W, int C>
struct GradSums {
  using Value = float;
  static constexpr int kSums = 2, kWidth = C, K = W * C, min_blocks = 2;
  struct Context {
    float mean[C];
  };
  struct Loaded {
    Raw<float, K> dy, x;
  };
  Ref dy, x, mean, var, dscale, dbias;
  Layout layout;
  float epsilon;
  float* sums;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t channel) const {
    Context c;
    for (int k = 0; k < C; ++k) c.mean[k] = load<float>(mean, channel + k);
    return c;
  }
  DEV Loaded fetch(int64_t, int64_t row, int64_t channel) const {
    const int64_t at = layout.at(row * W, channel);
    return {amp::cuda::fetch<float, K>(dy, at), amp::cuda::fetch<float, K>(x, at)};
  }
  DEV void add(float (&acc)[2][C], const Loaded& l, const Context& c) const {
    float d[K], v[K];
    unpack(dy, l.dy, d);
    unpack(x, l.x, v);
    for (int k = 0; k < K; ++k) {
      acc[0][channel_at<C>(k)] += d[k];
      acc[1][channel_at<C>(k)] += d[k] * (v[k] - c.mean[channel_at<C>(k)]);
    }
  }
  DEV void store(int which, int64_t channel, float sum) const {
    sums[which * layout.channels() + channel] = sum;
    if (which == 0)
      amp::cuda::store(dbias, channel, sum);
    else
      amp::cuda::store(dscale, channel, sum * rstd_of(var, channel, epsilon));
  }
};

// Computes dx = scale rstd (dy - (sum dy + xhat sum dy xhat) / count), or scale rstd dy if Train is false.
template <bool Train, int W, int C>
struct GradX {
  static constexpr int K = W * C;
  Ref dy, x, scale, mean, var, dx;
  Layout layout;
  float epsilon, count;
  const float* sums;
  DEV void operator()(int64_t group) const {
    const int64_t i = group * K, channel = layout.channel_of(i);
    float d[K], v[K];
    load_some(dy, i, d);
    if constexpr (Train) load_some(x, i, v);
    unrolled<C>([&](auto c) {
      const int64_t at = channel + c;
      const float r = rstd_of(var, at, epsilon), a = load<float>(scale, at) * r;
      const float m = Train ? load<float>(mean, at) : 0.0f, per = a / count;
      const float p = Train ? per * sums[at] : 0.0f, q = Train ? per * sums[layout.channels() + at] * r * r : 0.0f;
      for (int w = 0; w < W; ++w) {
        float& g = d[c + w];
        if constexpr (Train)
          g = a * g - p - q * (v[c + w] - m);
        else
          g *= a;
      }
    });
    store_some(dx, i, d);
  }
};

template <class Body>
Kernel each_group(const KernelArgs& a, int64_t groups, const Body& body) {
  return [&d = device_of(a), groups, body] { for_each(d, groups, body); };
}

template <int W, int C>
Kernel inference(const KernelArgs& a, const Layout& l, const Ref& mean, const Ref& var) {
  return each_group(a, l.numel() / (W * C),
                    Normalize<W, C>{a.in[0], a.in[1], a.in[2], mean, var, a.out[0], l,
                                    static_cast<float>(a.attrs().f("epsilon", 1e-5))});
}
template <int W, int C>
Kernel training(const KernelArgs& a, Carver& carver, const Layout& l) {
  const Kernel mean = reduce_columns(a, carver, 1, l.rows() / W, l.channels(),
                                     Moment<false, W, C>{a.in[0], Ref(), a.out[1], l, l.count()}, l.lanes());
  const Kernel var = reduce_columns(a, carver, 1, l.rows() / W, l.channels(),
                                    Moment<true, W, C>{a.in[0], a.out[1], a.out[2], l, l.count()}, l.lanes());
  if (carver.measuring()) return {};
  const Kernel y = inference<W, C>(a, l, a.out[1], a.out[2]);
  return [mean, var, y] {
    mean();
    var();
    y();
  };
}
template <int W, int C>
Kernel gradient(const KernelArgs& a, Carver& carver, const Layout& l) {
  const auto epsilon = static_cast<float>(a.attrs().f("epsilon", 1e-5));
  float* const sums = carver.take<float>(2 * l.channels());
  const GradSums<W, C> body{a.in[0], a.in[1], a.in[3], a.in[4], a.out[1], a.out[2], l, epsilon, sums};
  const Kernel sum = reduce_columns(a, carver, 1, l.rows() / W, l.channels(), body, l.lanes());
  if (carver.measuring()) return {};
  const auto finish = [&](auto train) -> Kernel {
    return each_group(a, l.numel() / (W * C),
                      GradX<decltype(train)::value, W, C>{a.in[0], a.in[1], a.in[2], a.in[3], a.in[4], a.out[0], l,
                                                          epsilon, l.count(), sums});
  };
  const Kernel dx = a.attrs().i("train", 0) != 0 ? finish(std::true_type{}) : finish(std::false_type{});
  return [sum, dx] {
    sum();
    dx();
  };
}

// Calls f(W, C) for the widest loads that the layout allows, and returns its kernel.
template <class F>
Kernel by_width(const Layout& l, F f) {
  using One = std::integral_constant<int, 1>;
  using Four = std::integral_constant<int, 4>;
  if (l.inner() % 4 == 0) return f(Four(), One());
  return l.inner() == 1 && l.channels() % 4 == 0 ? f(One(), Four()) : f(One(), One());
}
Kernel batch_norm(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[0].dims, a.attrs());
  return by_width(l, [&](auto w, auto c) { return inference<w(), c()>(a, l, a.in[3], a.in[4]); });
}
Kernel batch_norm_train(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[0].dims, a.attrs());
  return by_width(l, [&](auto w, auto c) { return training<w(), c()>(a, carver, l); });
}
Kernel batch_norm_grad(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[1].dims, a.attrs());
  return by_width(l, [&](auto w, auto c) { return gradient<w(), c()>(a, carver, l); });
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "BatchNorm", batch_norm},
    {DeviceKind::cuda, "BatchNormTrain", with_workspace<batch_norm_train>, measure_workspace<batch_norm_train>},
    {DeviceKind::cuda, "BatchNormGrad", with_workspace<batch_norm_grad>, measure_workspace<batch_norm_grad>}};

}  // namespace
}  // namespace amp::cuda
