// AddNorm, AddNormGrad (ops/add_norm.h).
#include "backend/cuda/row_part.cuh"
#include "ops/add_norm.h"

namespace amp::cuda {
namespace {

// Rounded where separate nodes would round: never part of a fused multiply-add.
DEV float plus(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// What an intermediate result is stored as in separate nodes.
struct Rounding {
  DType type = DType::f32;
  explicit Rounding(std::optional<DType> t = std::nullopt) : type(t.value_or(DType::f32)) {}
  DEV float operator()(float v) const {
    if (type == DType::f16) return half_to_float(float_to_half(v));
    if (type == DType::bf16) return bf16_to_float(float_to_bf16(v));
    return v;
  }
};

struct Drop {
  const RunState* state = nullptr;
  uint32_t threshold = 0, site = 0;
  float scale = 1;
  int64_t per_sample = 1, n = 1;
  const int64_t* tokens = nullptr;  // of each row, or null: rows are where they stand
  Drop(const KernelArgs& a, int64_t elements, size_t tokens_in)
      : state(a.state),
        per_sample(elements_per_sample(a.attrs(), elements)),
        n(a.attrs().i("n", 1)),
        tokens(a.has(tokens_in) ? a.in[tokens_in].as<int64_t>() : nullptr) {
    const DropoutBits bits = dropout_bits(a.attrs());
    threshold = bits.threshold;
    site = bits.site;
    scale = static_cast<float>(bits.scale);
  }
  HD explicit operator bool() const { return threshold != 0; }
  // Groups of four elements are never cut by a sample's end.
  bool whole_groups() const { return threshold == 0 || per_sample % 4 == 0; }
  // W elements of a row from i on; four begin at a multiple of four.
  template <int W>
  DEV void operator()(int64_t row, int64_t i, float (&v)[W]) const {
    const int64_t at = (tokens ? tokens[row] : row) * n + i;
    const int64_t sample = quotient(at, per_sample), k = at - sample * per_sample;
    const PhiloxBlock bits =
        philox4x32({{static_cast<uint32_t>(k / 4), static_cast<uint32_t>(state->samples_before + sample),
                     static_cast<uint32_t>(state->step), site}},
                   static_cast<uint32_t>(state->seed), static_cast<uint32_t>(state->seed >> 32));
    if constexpr (W == 4) {
      for (int w = 0; w < 4; ++w) v[w] = bits.v[w] < threshold ? 0.0f : v[w] * scale;
    } else {
      const int lane = static_cast<int>(k % 4);
      const uint32_t b = lane == 0 ? bits.v[0] : lane == 1 ? bits.v[1] : lane == 2 ? bits.v[2] : bits.v[3];
      v[0] = b < threshold ? 0.0f : v[0] * scale;
    }
  }
};

template <int V>
struct Forward {
  static constexpr int W = RowPart<V>::W, G = RowPart<V>::kGroups;
  Ref a, x, scale, bias, b, y, s, copy;
  float *mean, *rstd;
  int64_t n;
  float epsilon;
  bool rms;
  Drop drop;
  Rounding round_sum, round_dropped, round_s, round_y;

  // Four elements stay in registers; single ones are read again where this thread has written them.
  DEV void sum(int64_t row, int64_t i, float (&p)[W]) const {
    const int64_t at = row * n + i;
    float q[W];
    load_some(a, at, p);
    if (b) {
      load_some(b, i, q);
      for (int w = 0; w < W; ++w) p[w] = round_sum(plus(p[w], q[w]));
    }
    if (drop) {
      drop(row, i, p);
      for (int w = 0; w < W; ++w) p[w] = round_dropped(p[w]);
    }
    load_some(x, at, q);
    for (int w = 0; w < W; ++w) p[w] = round_s(plus(p[w], q[w]));
    store_some(s, at, p);
  }
  DEV void operator()(int64_t row, const RowTeam& team) const {
    float held[G][W];
    const auto get = [&](auto g, int64_t i, float(&p)[W]) {
      if constexpr (V > 0) {
        for (int w = 0; w < W; ++w) p[w] = held[g][w];
      } else {
        load_some(s, row * n + i, p);
      }
    };
    float m = 0, var = 0;
    RowPart<V>::each(n, team, [&](auto g, int64_t i) {
      float p[W];
      sum(row, i, p);
      for (int w = 0; w < W; ++w) {
        if constexpr (V > 0) held[g][w] = p[w];
        m += p[w];
      }
    });
    m = rms ? 0.0f : team.reduce(m, 0.0f, Sum{}) / static_cast<float>(n);
    RowPart<V>::each(n, team, [&](auto g, int64_t i) {
      float p[W];
      get(g, i, p);
      for (int w = 0; w < W; ++w) var += (p[w] - m) * (p[w] - m);
    });
    var = team.reduce(var, 0.0f, Sum{}) / static_cast<float>(n);
    const float k = 1 / sqrtf(var + epsilon);
    if (team.leads()) {
      mean[row] = m;
      rstd[row] = k;
    }
    RowPart<V>::each(n, team, [&](auto g, int64_t i) {
      float p[W], f[W], c[W] = {};
      get(g, i, p);
      load_some(scale, i, f);
      if (bias) load_some(bias, i, c);
      for (int w = 0; w < W; ++w) p[w] = round_y((p[w] - m) * k * f[w] + c[w]);
      store_some(y, row * n + i, p);
      if (copy) store_some(copy, row * n + i, p);
    });
  }
};

template <int V>
struct Backward {
  static constexpr int W = RowPart<V>::W;
  Ref s, scale, dy, more, ds, da, copy;
  const float *mean, *rstd;
  int64_t n;
  bool rms;
  Drop drop;
  Rounding round_norm, round_ds, round_da;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const RowPart<V> part(s, row * n, n, team), grad(dy, row * n, n, team);
    const float m = mean[row], k = rstd[row];
    float avg = 0, dot = 0;
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W], f[W];
      part.get(g, i, p);
      grad.get(g, i, d);
      load_some(scale, i, f);
      for (int w = 0; w < W; ++w) {
        avg += d[w] * f[w];
        dot += d[w] * f[w] * (p[w] - m);
      }
    });
    avg = rms ? 0.0f : team.reduce(avg, 0.0f, Sum{}) / static_cast<float>(n);
    dot = team.reduce(dot, 0.0f, Sum{}) * k / static_cast<float>(n);
    part.each(n, team, [&](auto g, int64_t i) {
      const int64_t at = row * n + i;
      float p[W], d[W], f[W];
      part.get(g, i, p);
      grad.get(g, i, d);
      load_some(scale, i, f);
      for (int w = 0; w < W; ++w) p[w] = k * (d[w] * f[w] - avg - (p[w] - m) * k * dot);
      if (more) {
        load_some(more, at, d);
        for (int w = 0; w < W; ++w) p[w] = plus(round_norm(p[w]), d[w]);
      }
      for (int w = 0; w < W; ++w) p[w] = round_ds(p[w]);
      store_some(ds, at, p);
      if (drop) {
        drop(row, i, p);
        for (int w = 0; w < W; ++w) p[w] = round_da(p[w]);
      }
      if (da) store_some(da, at, p);
      if (copy) store_some(copy, at, p);
    });
  }
};

template <class Body>
Kernel rows_kernel(const KernelArgs& a, const Body& body, int64_t rows) {
  return [&d = device_of(a), body, rows] { for_each_row(d, rows, body.n, body); };
}
// As by_length, with fewer variants to compile (each takes minutes); one element at a time where a sample's end would
// cut a group.
template <class Make>
Kernel by_groups(int64_t n, const Drop& drop, const Make& make) {
  const int64_t groups = n % 4 == 0 ? (n / 4 + team_size(n) - 1) / team_size(n) : 0;
  if (!drop.whole_groups() || groups == 0 || groups > 8) return make(std::integral_constant<int, 0>{});
  return make(std::integral_constant<int, 8>{});
}

Kernel forward(const KernelArgs& args) {
  if (in_double(args)) no_fp64(args);
  const Attrs& t = args.attrs();
  const Tensor &y = args.out[0], &s = args.out[1];
  const int64_t n = t.i("n", 1);
  if (s.numel() == 0) return [] {};
  const Drop drop(args, s.numel(), 5);
  const auto optional = [&](size_t i) { return args.has(i) ? Ref(args.in[i]) : Ref(); };
  return by_groups(n, drop, [&](auto v) -> Kernel {
    return rows_kernel(
        args,
        Forward<decltype(v)::value>{args.in[0], args.in[1], args.in[2], optional(3), optional(4), y, s,
                                    args.out.size() > 4 ? Ref(args.out[4]) : Ref(), args.out[2].as<float>(),
                                    args.out[3].as<float>(), n, static_cast<float>(t.f("epsilon", 1e-5)),
                                    t.i("rms", 0) != 0, drop, Rounding(type_attribute(t, "sum")),
                                    Rounding(type_attribute(t, "dropped")), Rounding(s.dtype), Rounding(y.dtype)},
        s.numel() / n);
  });
}

Kernel backward(const KernelArgs& args) {
  if (in_double(args)) no_fp64(args);
  const Attrs& t = args.attrs();
  const Tensor& ds = args.out[0];
  const int64_t n = t.i("n", 1);
  if (ds.numel() == 0) return [] {};
  const Drop drop(args, ds.numel(), 6);
  const bool drops = t.f("ratio", 0) > 0;
  const Ref da = drops ? Ref(args.out[1]) : Ref(), copy = t.has("copy") ? Ref(args.out.back()) : Ref();
  return by_groups(n, drop, [&](auto v) -> Kernel {
    return rows_kernel(
        args,
        Backward<decltype(v)::value>{args.in[0], args.in[1], args.in[4], args.has(5) ? Ref(args.in[5]) : Ref(), ds, da,
                                     copy, args.in[2].as<float>(), args.in[3].as<float>(), n, t.i("rms", 0) != 0, drop,
                                     Rounding(type_attribute(t, "norm")), Rounding(ds.dtype),
                                     Rounding(drops ? args.out[1].dtype : ds.dtype)},
        ds.numel() / n);
  });
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "AddNorm", forward}, {DeviceKind::cuda, "AddNormGrad", backward}};

}  // namespace
}  // namespace amp::cuda
