// The kernels of AddNorm, AddNormGrad and AddNormGradSums (ops/add_norm.h). A kernel reads a row once and keeps it in
// registers. Sums over rows are added in the order of columns.cuh, so that their bits equal those of the separate
// operators.
#include "backend/cuda/row_part.cuh"
#include "ops/add_norm.h"
#include "ops/cuda/add_norm_elements.cuh"
#include "ops/cuda/norm_sums.cuh"

namespace amp::cuda {
namespace {

template <int V, class T, bool kDrops>
struct Forward {
  using Branch = typename T::Branch;
  using Sum = typename T::Sum;
  static constexpr int W = RowPart<V>::W, G = RowPart<V>::kGroups;
  Branch a;
  Sum x;
  Ref scale, bias, b;
  // Null: the residual is x itself. Otherwise it is LayerNorm(x), computed again with these statistics.
  const float *x_mean, *x_rstd;
  Ref x_scale, x_bias;
  Sum y, s;
  Branch copy;
  float *mean, *rstd;
  int64_t n;
  float epsilon;
  bool rms;
  Drop drop;
  Rounding round_sum, round_dropped;

  // Computes W elements of s = x + dropout(a + b) and stores them. p: a on entry, s on return. residual: x, or the norm
  // of x. i: the first element's index in the row. at: its index in s.
  DEV void sum(const Drop::Row& dropped, int64_t at, int64_t i, float (&p)[W], const float (&residual)[W]) const {
    if (b) {
      float q[W];
      load_some(b, i, q);
      for (int w = 0; w < W; ++w) p[w] = rounded_sum(p[w], q[w]);
      round_sum(p);
    }
    if constexpr (kDrops) {
      drop(dropped, i, p);
      round_dropped(p);
    }
    for (int w = 0; w < W; ++w) p[w] = rounded_sum(p[w], residual[w]);
    const Ref to = s;
    Rounding{to.type}(p);
    store_some(to, at, p);
  }
  DEV void operator()(int64_t row, const RowTeam& team) const {
    // All operands are loaded before the first store: after a store, the compiler would assume that operands have
    // changed.
    const RowPart<V, Branch> branch(a, row * n, n, team);
    const RowPart<V, Sum> residual(x, row * n, n, team);
    Drop::Row dropped;
    if constexpr (kDrops) dropped = drop.begin(row);
    const float xm = x_mean ? x_mean[row] : 0, xk = x_mean ? x_rstd[row] : 0;
    float held[G][W];
    // Loads elements of s from registers or, if V is 0, from memory, to which the same thread wrote them.
    const auto get = [&](auto g, int64_t i, float(&p)[W]) {
      if constexpr (V > 0) {
        for (int w = 0; w < W; ++w) p[w] = held[g][w];
      } else {
        load_some(s, row * n + i, p);
      }
    };
    float m = 0, var = 0;
    RowPart<V>::each(n, team, [&](auto g, int64_t i) {
      float p[W], q[W];
      branch.get(g, i, p);
      residual.get(g, i, q);
      if (x_mean) {
        float f[W], c[W] = {};
        load_some(x_scale, i, f);
        if (x_bias) load_some(x_bias, i, c);
        for (int w = 0; w < W; ++w) q[w] = normalized(q[w], xm, xk, f[w], c[w]);
      }
      sum(dropped, row * n + i, i, p, q);
      for (int w = 0; w < W; ++w) {
        if constexpr (V > 0) held[g][w] = p[w];
        m += p[w];
      }
    });
    m = rms ? 0.0f : team.reduce(m, 0.0f, cuda::Sum{}) / static_cast<float>(n);
    RowPart<V>::each(n, team, [&](auto g, int64_t i) {
      float p[W];
      get(g, i, p);
      for (int w = 0; w < W; ++w) var += (p[w] - m) * (p[w] - m);
    });
    var = team.reduce(var, 0.0f, cuda::Sum{}) / static_cast<float>(n);
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
      for (int w = 0; w < W; ++w) p[w] = normalized(p[w], m, k, f[w], c[w]);
      if (y) {
        const Ref to = y;
        Rounding{to.type}(p);
        store_some(to, row * n + i, p);
      }
      if (copy) store_some(copy, row * n + i, p);
    });
  }
};

// Which output of AddNormGradSums is summed over the rows, which gives the gradient of the branch's bias.
enum class Branch : uint8_t { none, ds, da, copy };

template <int V, class T, bool kDrops>
struct Backward {
  using Low = typename T::Branch;
  using Sum = typename T::Sum;
  static constexpr int W = RowPart<V>::W;
  static constexpr bool kHeld = V > 0;
  Sum s;
  Ref scale;
  Sum dy, dy_more, more, ds;
  Low da, copy;
  const float *mean, *rstd;
  int64_t n;
  bool rms;
  Drop drop;
  Rounding round_norm;
  ChunkSums sums;
  Branch summed;
  // mine: this warp's partial sums, to which the row is added; null if nothing is summed.
  DEV void operator()(int64_t row, const RowTeam& team, float* mine) const {
    const RowPart<V, Sum> part(s, row * n, n, team), grad(dy, row * n, n, team), rest(dy_more, row * n, n, team),
        added(more, row * n, n, team);
    const auto get_dy = [&](auto g, int64_t i, float(&d)[W]) {
      grad.get(g, i, d);
      if (!dy_more) return;
      float e[W];
      rest.get(g, i, e);
      for (int w = 0; w < W; ++w) d[w] = rounded_sum(d[w], e[w]);
    };
    const float m = mean[row], k = rstd[row];
    float avg = 0, dot = 0;
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W], f[W];
      part.get(g, i, p);
      get_dy(g, i, d);
      load_some(scale, i, f);
      for (int w = 0; w < W; ++w) {
        avg += d[w] * f[w];
        dot += d[w] * f[w] * (p[w] - m);
      }
    });
    avg = rms ? 0.0f : team.reduce(avg, 0.0f, cuda::Sum{}) / static_cast<float>(n);
    dot = team.reduce(dot, 0.0f, cuda::Sum{}) * k / static_cast<float>(n);
    Drop::Row dropped;
    if constexpr (kDrops) dropped = drop.begin(row);
    part.each(n, team, [&](auto g, int64_t i) {
      float p[W], d[W], f[W];
      part.get(g, i, p);
      get_dy(g, i, d);
      load_some(scale, i, f);
      if (kHeld && mine) {
        float terms[W];
        for (int w = 0; w < W; ++w) terms[w] = scale_term(d[w], p[w], m, k);
        sums.add(mine, 0, i, terms);
        sums.add(mine, 1, i, d);
      }
      for (int w = 0; w < W; ++w) p[w] = k * (d[w] * f[w] - avg - (p[w] - m) * k * dot);
      if (more) {
        round_norm(p);
        added.get(g, i, d);
        for (int w = 0; w < W; ++w) p[w] = rounded_sum(p[w], d[w]);
      }
      store_gradients(dropped, row * n + i, i, p, mine);
    });
  }

 private:
  // Stores p as ds, p after dropout as da, and a 16-bit copy of da or, without da, of ds. Adds the output that `summed`
  // names to the sums in `mine`.
  DEV void store_gradients(const Drop::Row& dropped, int64_t at, int64_t i, float (&p)[W], float* mine) const {
    const Ref to = ds;
    Rounding{to.type}(p);
    store_some(to, at, p);
    if (kHeld && mine && summed == Branch::ds) sums.add(mine, 2, i, p);
    if constexpr (kDrops) {
      const Ref branch = da;
      drop(dropped, i, p);
      Rounding{branch.type}(p);
      store_some(branch, at, p);
      if (kHeld && mine && summed == Branch::da) sums.add(mine, 2, i, p);
    }
    if (!copy) return;
    const Ref low = copy;
    Rounding{low.type}(p);
    store_some(low, at, p);
    if (kHeld && mine && summed == Branch::copy) sums.add(mine, 2, i, p);
  }
};

// Calls the body for every row. A block processes one chunk of rows at a time. The block's teams (its warps, or the
// whole block) take the rows of a chunk in turn.
template <class Body>
struct ChunkKernel {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  Body body;
  int64_t rows, chunk;
  bool whole_block;
  DEV void operator()() const {
    const RowTeam team(whole_block);
    const int64_t teams = whole_block ? 1 : block_threads() / 32, chunks = quotient(rows + chunk - 1, chunk);
    const bool sums = Body::kHeld && body.sums;
    for (int64_t c = block_index(); c < chunks; c += grid_blocks()) {
      float* const mine = sums ? body.sums.begin(team) : nullptr;
      const int64_t after = (c + 1) * chunk, end = after < rows ? after : rows;
      for (int64_t r = c * chunk + (whole_block ? 0 : warp()); r < end; r += teams) body(r, team, mine);
      if (sums) body.sums.end_chunk(c);
    }
  }
};
template <class Body>
Kernel chunks_kernel(const KernelArgs& a, const Body& body, int64_t rows) {
  const bool whole_block = team_size(body.n) > 32;
  ChunkKernel<Body> k{body, rows, whole_block ? 1 : std::min<int64_t>(kChunkWarps, rows), whole_block};
  Grid grid{0, whole_block ? team_size(body.n) : static_cast<int>(32 * k.chunk), 32 * 8};
  if (body.sums) {
    k.chunk = chunk_rows(rows);
    grid.shared = ChunkSums::shared_bytes(body.sums.count, body.n);
  }
  CudaDevice& d = device_of(a);
  grid.blocks = std::min((rows + k.chunk - 1) / k.chunk, int64_t{d.multiprocessors()} * 32);
  return [&d, k, grid] { launch(d, grid, k); };
}

template <class Body>
Kernel rows_kernel(const KernelArgs& a, const Body& body, int64_t rows) {
  return [&d = device_of(a), body, rows] { for_each_row(d, rows, body.n, body); };
}

// Returns the Kernel that make(V, types, drops) returns, where the arguments are compile-time constants. V: the number
// of groups of four elements that a thread holds; 0: rows are not held. types: the storage types. drops: whether there
// is dropout. branch, sum: the tensors that have the size of s, by role. Uncommon combinations of types use AnyTypes,
// with which every load branches on the type.
template <class Make>
Kernel by_kind(const Drop& drop, std::initializer_list<Tensor> branch, std::initializer_list<Tensor> sum,
               const Make& make) {
  const auto all = [](std::initializer_list<Tensor> tensors, DType t) {
    return std::all_of(tensors.begin(), tensors.end(), [t](const Tensor& x) { return !x.data || x.dtype == t; });
  };
  const int64_t groups = drop.n % 4 == 0 ? (drop.n / 4 + team_size(drop.n) - 1) / team_size(drop.n) : 0;
  const auto drops = [&](auto v, auto types) -> Kernel {
    return drop ? make(v, types, std::true_type{}) : make(v, types, std::false_type{});
  };
  if (!drop.whole_rows() || groups == 0 || groups > 8) return drops(std::integral_constant<int, 0>{}, AnyTypes{});
  const auto held = [&](auto types) -> Kernel {
    if (groups <= 3) return drops(std::integral_constant<int, 3>{}, types);
    if (groups <= 6) return drops(std::integral_constant<int, 6>{}, types);
    return drops(std::integral_constant<int, 8>{}, types);
  };
  if (all(sum, DType::f32)) {
    if (all(branch, DType::bf16)) return held(MixedTypes<DType::bf16>{});
    if (all(branch, DType::f16)) return held(MixedTypes<DType::f16>{});
    if (all(branch, DType::f32)) return held(MixedTypes<DType::f32>{});
  }
  return drops(std::integral_constant<int, 8>{}, AnyTypes{});
}

Kernel forward(const KernelArgs& args) {
  if (in_double(args)) no_fp64(args);
  const Attrs& t = args.attrs();
  const AddNormOutputs out(args);
  const Tensor &y = out.y, &s = out.s, &copy = out.copy;
  const int64_t n = t.i("n", 1);
  if (s.numel() == 0) return [] {};
  const Drop drop(args, s.numel(), 5);
  const auto optional = [&](size_t i) { return args.has(i) ? Ref(args.in[i]) : Ref(); };
  return by_kind(drop, {args.in[0], copy}, {args.in[1], y, s}, [&](auto v, auto types, auto drops) -> Kernel {
    using Kind = Forward<decltype(v)::value, decltype(types), decltype(drops)::value>;
    return rows_kernel(args,
                       Kind{args.in[0],
                            args.in[1],
                            args.in[2],
                            optional(3),
                            optional(4),
                            args.has(6) ? args.in[6].as<float>() : nullptr,
                            args.has(6) ? args.in[7].as<float>() : nullptr,
                            optional(8),
                            optional(9),
                            y,
                            s,
                            copy,
                            out.mean.as<float>(),
                            out.rstd.as<float>(),
                            n,
                            static_cast<float>(t.f("epsilon", 1e-5)),
                            t.i("rms", 0) != 0,
                            drop,
                            Rounding(type_attribute(t, "sum")),
                            Rounding(type_attribute(t, "dropped"))},
                       s.numel() / n);
  });
}

// Returns the kernel of the gradient. The first `outputs` outputs of args are those of AddNormGrad; the others are
// sums.
Kernel backward(const KernelArgs& args, size_t outputs, const ChunkSums& sums, Branch summed) {
  const Attrs& t = args.attrs();
  const Tensor& ds = args.out[0];
  const Drop drop(args, ds.numel(), 6);
  const Tensor da = drop ? args.out[1] : Tensor{}, copy = t.has("copy") ? args.out[outputs - 1] : Tensor{},
               more = args.has(5) ? args.in[5] : Tensor{}, dy_more = args.has(7) ? args.in[7] : Tensor{};
  return by_kind(drop, {da, copy}, {args.in[0], args.in[4], dy_more, more, ds},
                 [&](auto v, auto types, auto drops) -> Kernel {
                   using Kind = Backward<decltype(v)::value, decltype(types), decltype(drops)::value>;
                   return chunks_kernel(args,
                                        Kind{args.in[0], args.in[1], args.in[4], dy_more, more, ds, da, copy,
                                             args.in[2].as<float>(), args.in[3].as<float>(), drop.n, t.i("rms", 0) != 0,
                                             drop, Rounding(type_attribute(t, "norm")), sums, summed},
                                        ds.numel() / drop.n);
                 });
}
Kernel backward(const KernelArgs& args) {
  if (in_double(args)) no_fp64(args);
  if (args.out[0].numel() == 0) return [] {};
  return backward(args, args.out.size(), {}, Branch::none);
}

// Returns the kernel of AddNormGradSums. If warps hold whole rows, one kernel computes the gradient and the sums.
// Otherwise a second kernel computes the sums.
template <bool accumulate>
Kernel backward_and_sums(const KernelArgs& args, Carver& carver) {
  if (in_double(args)) no_fp64(args);
  const Attrs& t = args.attrs();
  const AddNormSums parts(t, args.out.size());
  const int64_t rows = args.out[0].numel() / t.i("n", 1);
  const Drop drop(args, args.out[0].numel(), 6);
  if (!drop.whole_rows() || !sums_by_chunks(1, rows, drop.n)) {
    const KernelArgs of_sums = norm_sums_args(args, parts);
    const Kernel sum = prepare_norm_sums(of_sums, carver, accumulate);
    if (carver.measuring()) return {};
    return [sum, grad = rows > 0 ? backward(args, parts.first, {}, Branch::none) : Kernel([] {})] {
      grad();
      sum();
    };
  }
  ChunkSums sums;
  sums.count = static_cast<int>(args.out.size() - parts.first);
  sums.accumulate = accumulate;
  sums.n = drop.n;
  sums.chunks = (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
  sums.partial = carver.take<float>(sums.chunks * sums.count * sums.n);
  sums.classes = carver.take<float>(kChunkClasses * sums.count * sums.n);
  if (carver.measuring()) return {};
  std::copy(args.out.begin() + static_cast<ptrdiff_t>(parts.first), args.out.end(), sums.out);
  const DeviceMemory done = device_of(args).allocate(4 * (kChunkClasses + 1));
  sums.done = static_cast<uint32_t*>(done.get());
  const Branch summed = !parts.of_branch                ? Branch::none
                        : *parts.of_branch == 0         ? Branch::ds
                        : drop && *parts.of_branch == 1 ? Branch::da
                                                        : Branch::copy;
  return [done, run = backward(args, parts.first, sums, summed)] { run(); };
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "AddNorm", forward},
                                  {DeviceKind::cuda, "AddNormGrad", backward},
                                  {DeviceKind::cuda, "AddNormGradSums", with_workspace<backward_and_sums<false>>,
                                   measure_workspace<backward_and_sums<false>>},
                                  {DeviceKind::cuda, "AddNormGradSums+=", with_workspace<backward_and_sums<true>>}};

}  // namespace
}  // namespace amp::cuda
