// BatchNorm, BatchNormTrain, BatchNormGrad (ops/batch_norm.cc). x is (N, C, inner); statistics in two passes, fp32.
#include "backend/cuda/columns.cuh"
#include "backend/cuda/divide.cuh"

namespace amp::cuda {
namespace {

class Layout {
 public:
  explicit Layout(const Dims& d) : n_(d.at(0)), channels_(d.at(1)) {
    for (size_t i = 2; i < d.size(); ++i) inner_ *= d[i];
    by_inner_ = Divisor(std::max<int64_t>(1, inner_));
    by_channels_ = Divisor(std::max<int64_t>(1, channels_));
  }
  HD int64_t n() const { return n_; }
  HD int64_t channels() const { return channels_; }
  HD int64_t inner() const { return inner_; }
  int64_t numel() const { return n_ * channels_ * inner_; }
  float count() const { return static_cast<float>(std::max<int64_t>(1, n_ * inner_)); }  // statistics of nothing are 0
  int lanes() const { return inner_ == 1 ? 32 : 1; }  // channels side by side where they lie so

  // Where element i of a channel's (N, inner) lies.
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

// y = (x - mean) a + b: subtracting first keeps what a large mean would cancel. W neighbours are of one channel.
template <int W>
struct Normalize {
  Ref x, scale, bias, mean, var, y;
  Layout layout;
  float epsilon;
  DEV void operator()(int64_t group) const {
    const int64_t i = group * W, c = layout.channel_of(i);
    const float a = load<float>(scale, c) * rstd_of(var, c, epsilon), m = load<float>(mean, c),
                b = load<float>(bias, c);
    float v[W];
    load_some(x, i, v);
    for (int w = 0; w < W; ++w) v[w] = (v[w] - m) * a + b;
    store_some(y, i, v);
  }
};

// A channel's mean, or its variance about a mean that is known. A row is W elements.
template <bool Variance, int W>
struct Moment {
  using Value = float;
  using Loaded = Raw<float, W>;
  static constexpr int kSums = 1, kWidth = 1;
  struct Context {
    float mean;
  };
  Ref x, mean, out;
  Layout layout;
  float count;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t channel) const { return {Variance ? load<float>(mean, channel) : 0.0f}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t channel) const {
    return amp::cuda::fetch<float, W>(x, layout.at(row * W, channel));
  }
  DEV void add(float (&acc)[1][1], const Loaded& l, const Context& c) const {
    float v[W];
    unpack(x, l, v);
    for (int w = 0; w < W; ++w) acc[0][0] += Variance ? (v[w] - c.mean) * (v[w] - c.mean) : v[w];
  }
  DEV void store(int, int64_t channel, float sum) const { amp::cuda::store(out, channel, sum / count); }
};

// sums: sum dy, then sum dy (x - mean), by channel.
template <int W>
struct GradSums {
  using Value = float;
  static constexpr int kSums = 2, kWidth = 1;
  struct Context {
    float mean;
  };
  struct Loaded {
    Raw<float, W> dy, x;
  };
  Ref dy, x, mean, var, dscale, dbias;
  Layout layout;
  float epsilon;
  float* sums;
  DEV float identity() const { return 0; }
  DEV float combine(float a, float b) const { return a + b; }
  DEV Context begin(int64_t channel) const { return {load<float>(mean, channel)}; }
  DEV Loaded fetch(int64_t, int64_t row, int64_t channel) const {
    const int64_t at = layout.at(row * W, channel);
    return {amp::cuda::fetch<float, W>(dy, at), amp::cuda::fetch<float, W>(x, at)};
  }
  DEV void add(float (&acc)[2][1], const Loaded& l, const Context& c) const {
    float d[W], v[W];
    unpack(dy, l.dy, d);
    unpack(x, l.x, v);
    for (int w = 0; w < W; ++w) {
      acc[0][0] += d[w];
      acc[1][0] += d[w] * (v[w] - c.mean);
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

// dx = scale rstd (dy - [train] (sum dy + xhat sum dy xhat) / count)
template <bool Train, int W>
struct GradX {
  Ref dy, x, scale, mean, var, dx;
  Layout layout;
  float epsilon, count;
  const float* sums;
  DEV void operator()(int64_t group) const {
    const int64_t i = group * W, c = layout.channel_of(i);
    const float r = rstd_of(var, c, epsilon), a = load<float>(scale, c) * r;
    float d[W], v[W];
    load_some(dy, i, d);
    if constexpr (Train) {
      const float m = load<float>(mean, c), per = a / count;
      const float p = per * sums[c], q = per * sums[layout.channels() + c] * r * r;
      load_some(x, i, v);
      for (int w = 0; w < W; ++w) d[w] = a * d[w] - p - q * (v[w] - m);
    } else {
      for (int w = 0; w < W; ++w) d[w] *= a;
    }
    store_some(dx, i, d);
  }
};

template <class Body>
Kernel each_group(const KernelArgs& a, int64_t groups, const Body& body) {
  return [&d = device_of(a), groups, body] { for_each(d, groups, body); };
}

template <int W>
Kernel inference(const KernelArgs& a, const Layout& l, const Ref& mean, const Ref& var) {
  return each_group(a, l.numel() / W,
                    Normalize<W>{a.in[0], a.in[1], a.in[2], mean, var, a.out[0], l,
                                 static_cast<float>(a.attrs().f("epsilon", 1e-5))});
}
template <int W>
Kernel training(const KernelArgs& a, Carver& carver, const Layout& l) {
  const int64_t rows = l.n() * l.inner() / W;
  const Kernel mean = reduce_columns(a, carver, 1, rows, l.channels(),
                                     Moment<false, W>{a.in[0], Ref(), a.out[1], l, l.count()}, l.lanes());
  const Kernel var = reduce_columns(a, carver, 1, rows, l.channels(),
                                    Moment<true, W>{a.in[0], a.out[1], a.out[2], l, l.count()}, l.lanes());
  if (carver.measuring()) return {};
  const Kernel y = inference<W>(a, l, a.out[1], a.out[2]);
  return [mean, var, y] {
    mean();
    var();
    y();
  };
}
template <int W>
Kernel gradient(const KernelArgs& a, Carver& carver, const Layout& l) {
  const auto epsilon = static_cast<float>(a.attrs().f("epsilon", 1e-5));
  float* const sums = carver.take<float>(2 * l.channels());
  const GradSums<W> body{a.in[0], a.in[1], a.in[3], a.in[4], a.out[1], a.out[2], l, epsilon, sums};
  const Kernel sum = reduce_columns(a, carver, 1, l.n() * l.inner() / W, l.channels(), body, l.lanes());
  if (carver.measuring()) return {};
  const auto finish = [&](auto train) -> Kernel {
    return each_group(a, l.numel() / W,
                      GradX<decltype(train)::value, W>{a.in[0], a.in[1], a.in[2], a.in[3], a.in[4], a.out[0], l,
                                                       epsilon, l.count(), sums});
  };
  const Kernel dx = a.attrs().i("train", 0) != 0 ? finish(std::true_type{}) : finish(std::false_type{});
  return [sum, dx] {
    sum();
    dx();
  };
}

Kernel batch_norm(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[0].dims);
  return l.inner() % 4 == 0 ? inference<4>(a, l, a.in[3], a.in[4]) : inference<1>(a, l, a.in[3], a.in[4]);
}
Kernel batch_norm_train(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[0].dims);
  return l.inner() % 4 == 0 ? training<4>(a, carver, l) : training<1>(a, carver, l);
}
Kernel batch_norm_grad(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const Layout l(a.in[1].dims);
  return l.inner() % 4 == 0 ? gradient<4>(a, carver, l) : gradient<1>(a, carver, l);
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "BatchNorm", batch_norm},
    {DeviceKind::cuda, "BatchNormTrain", with_workspace<batch_norm_train>, measure_workspace<batch_norm_train>},
    {DeviceKind::cuda, "BatchNormGrad", with_workspace<batch_norm_grad>, measure_workspace<batch_norm_grad>}};

}  // namespace
}  // namespace amp::cuda
