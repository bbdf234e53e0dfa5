// FusedAttention, FusedAttentionGrad (ops/fused_attention.h). No matrix of scores is kept: results by tensor cores
// where the operands are 16-bit (attention_tiles.cuh), else in fp32 (attention_plain.cuh); gradients without atomics,
// dk and dv by who owns keys, dq by who owns queries.
#include "backend/cuda/attention.h"
#include "backend/cuda/staged.h"
#include "ops/cuda/attention_plain.cuh"
#include "ops/cuda/attention_tiles_grad.cuh"

namespace amp::cuda {
namespace {

constexpr int kWidest = 128;  // head that the tensor cores' kernels take

Dims dims_of(const KernelArgs& a, size_t i) { return a.has(i) ? a.in[i].dims : Dims{}; }

struct Task {
  AttentionForm f;
  AttentionProblem p;
  DType type = DType::f32;  // tensor cores: of all operands; else not asked
  bool tiled = false;

  explicit Task(const KernelArgs& a)
      : f(attention_form(a.attrs(), a.in[0].dims, dims_of(a, 1), dims_of(a, 2), dims_of(a, 3), dims_of(a, 4))) {
    if (in_double(a)) no_fp64(a);
    const int64_t blocks = (f.longest_query() + f.longest_key() + 128) / 64 * std::max<int64_t>(f.units(), 1);
    constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
    if (f.longest_query() > kLimit / 2 || f.longest_key() > kLimit / 2 || f.width > kLimit / 2 ||
        f.value_width > kLimit / 2 || blocks * ((std::max(f.width, f.value_width) + 63) / 64 + 1) > kLimit)
      fail(Exit::unsupported, "E_SHAPE", cat(a.node.op->name, ": too large for a CUDA kernel"));
    p.q = f.q, p.k = f.k, p.v = f.v, p.y = f.y;
    p.queries = f.queries, p.keys = f.keys;
    p.heads = static_cast<int>(f.heads), p.width = static_cast<int>(f.width),
    p.value_width = static_cast<int>(f.value_width);
    p.scale = static_cast<float>(f.scale), p.fill = static_cast<float>(f.fill);
    p.empty_rows_zero = f.empty_rows_zero;
    if (a.has(3)) p.mask = a.in[3];
    std::copy_n(f.mask, 4, p.mask_stride);
    if (a.has(4)) p.offsets = static_cast<const int64_t*>(a.in[4].data);
    p.sequences = f.sequences, p.longest = f.max_len;
    p.state = a.state;
    p.threshold = f.dropout.threshold, p.site = f.dropout.site, p.keep = static_cast<float>(f.dropout.scale);
    const int64_t cells = f.batch * f.heads * f.queries * f.keys;
    p.per_sample = f.sequences || f.samples == f.batch || cells == 0 ? 0 : cells / f.samples;
    p.in_fours = f.longest_key() % 4 == 0 && p.per_sample % 4 == 0;

    type = a.in[0].dtype;
    const auto same = [&](size_t i) { return f.packed || a.in[i].dtype == type; };
    const auto fits = [](const AttentionForm::Strides& s) {
      return s.offset % 8 == 0 && s.batch % 8 == 0 && s.token % 8 == 0 && s.head % 8 == 0;
    };
    tiled = is_low(type) && same(1) && same(2) && f.width % 8 == 0 && f.value_width % 8 == 0 && f.width > 0 &&
            f.value_width > 0 && std::max(f.width, f.value_width) <= kWidest && fits(f.q) && fits(f.k) && fits(f.v) &&
            fits(f.y);
  }
  int query_tiles() const { return static_cast<int>((f.longest_query() + 63) / 64); }
  int key_tiles() const { return static_cast<int>((f.longest_key() + 63) / 64); }
  int parts(int64_t columns) const { return static_cast<int>(std::max<int64_t>((columns + 63) / 64, 1)); }
};

bool aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

// f(type, width, kind) as constants: the type is 16-bit, the width 32, 64 or 128. Kernels are made for a kind where
// heads are as wide as most are, 64; others ask as they run.
template <class F>
Kernel by_width(const Task& t, const F& f) {
  using Any = AttentionKind<true, true>;
  const auto typed = [&](auto type) -> Kernel {
    const int64_t widest = std::max(t.f.width, t.f.value_width);
    if (widest <= 32) return f(type, std::integral_constant<int, 32>{}, Any{});
    if (widest > 64) return f(type, std::integral_constant<int, 128>{}, Any{});
    constexpr std::integral_constant<int, 64> usual{};
    if (t.p.mask) return f(type, usual, Any{});
    if (t.p.threshold != 0) return f(type, usual, AttentionKind<false, true>{});
    return f(type, usual, AttentionKind<false, false>{});
  };
  if (t.type == DType::f16) return typed(std::integral_constant<DType, DType::f16>{});
  return typed(std::integral_constant<DType, DType::bf16>{});
}

Kernel clear_tail(CudaDevice& d, const Task& t, const Ref& data, const AttentionForm::Strides& place, int64_t width,
                  float* lse, float* rest) {
  if (!t.f.sequences && !t.p.offsets) return [] {};
  const AttentionTail tail{data, place, t.p.offsets + t.f.sequences, t.f.queries, t.p.heads, static_cast<int>(width),
                           lse,  rest};
  return [&d, tail, grid = loop_grid(d, t.f.queries * t.f.heads * width)] { launch(d, grid, tail); };
}

template <class K>
Kernel launches(CudaDevice& d, int64_t blocks, const K& kernel) {
  return [&d, blocks, kernel] { launch_large(d, {blocks, K::kThreads, K::kShared}, kernel); };
}

const uint16_t* bits(const void* p) { return static_cast<const uint16_t*>(p); }

// A mask as a library adds it. Finite numbers stay finite.
struct ToBias {
  Ref mask, bias;
  float fill, lowest;
  DEV void operator()(int64_t i) const {
    float v = mask.type == DType::boolean ? (load<float>(mask, i) != 0 ? 0.0f : fill) : load<float>(mask, i);
    if (v < lowest && v != -INFINITY) v = lowest;
    store(bias, i, v);
  }
};

// Sets `found` if a library would compute a row of the mask wrongly. A library keeps only the logarithm of a row's sum
// of exponentials, which is rounded by more than 2^-14 if the row's largest bias is beyond 1024. And it adds the fill
// of a boolean mask to hidden scores instead of replacing them, which differs where a row sees no key. One warp a row.
struct FindRounding {
  static constexpr bool cooperative = true;
  static constexpr int max_threads = 256;
  Ref mask;
  int64_t rows, keys;
  int32_t* found;
  DEV void operator()() const {
    for (int64_t row = global_index() / 32; row < rows; row += global_threads() / 32) {
      float most = -INFINITY;
      for (int64_t j = lane(); j < keys; j += 32) most = Maximum{}(most, load<float>(mask, row * keys + j));
      most = warp_reduce(most, Maximum{});
      const bool fine = mask.type == DType::boolean ? most > 0 : fabsf(most) <= 1024;
      if (lane() == 0 && !fine) *found = 1;
    }
  }
};

// What a library may be asked for: it draws no bits of ours, and what it does with a query that sees nothing is not
// known.
class ByLibrary {
 public:
  ByLibrary(const KernelArgs& a, Carver& carve, const Task& t, bool backward) {
    const bool usable = !t.p.mask || (a.in[3].dims[3] == t.f.keys && (!t.p.hides() || fill_hides(t.f.fill)));
    wanted_ = t.tiled && t.p.threshold == 0 && !t.f.sequences && !a.has(4) && !t.f.empty_rows_zero && usable &&
              t.f.units() > 0 && t.f.queries > 0 && t.f.keys > 0;
    if (!wanted_) return;
    if (t.p.mask) {
      what_.bias = a.in[3].dims;
      bias_ = a.in[3].dtype == t.type ? a.in[3] : Tensor{carve.take<uint16_t>(a.in[3].numel()), t.type, a.in[3].dims};
      rounds_ = carve.take<int32_t>(1);
    }
    what_.backward = backward;
    what_.type = t.type;
    what_.batch = t.f.batch, what_.heads = t.f.heads, what_.queries = t.f.queries, what_.keys = t.f.keys;
    what_.width = t.f.width, what_.value_width = t.f.value_width;
    const auto place = [](const AttentionForm::Strides& s) { return HeadStrides{s.batch, s.token, s.head}; };
    what_.q = place(t.f.q), what_.k = place(t.f.k), what_.v = place(t.f.v), what_.y = place(t.f.y);
    what_.scale = t.f.scale;
  }
  // The kernels of make(t), or the library once it is trusted. o: all but the bias. rest: forward's output 2, which is
  // 0 where lse is the library's.
  template <class Make>
  Kernel guard(const KernelArgs& a, const Task& t, AttentionOperands o, float* rest, const Make& make) const {
    const Kernel own = make(t);
    if (!wanted_) return own;
    CudaDevice& d = device_of(a);
    auto library = d.attention(what_);
    if (!library) return own;
    o.bias = bias_.data;
    o.rounds = rounds_;
    Kernel look = [] {}, mend = [] {};
    if (rounds_) {
      const Dims& dims = a.in[3].dims;
      const FindRounding body{a.in[3], dims[0] * dims[1] * dims[2], dims[3], rounds_};
      look = [&d, body, grid = loop_grid(d, body.rows * 32)] {
        d.fill(body.found, 0, sizeof *body.found);
        launch(d, grid, body);
      };
      Task gated = t;
      gated.p.gate = rounds_;
      mend = make(gated);
    }
    Kernel fill = [] {};
    if (bias_.data && bias_.data != a.in[3].data) {
      const ToBias body{a.in[3], bias_, t.p.fill, t.type == DType::f16 ? -65504.0f : -3.3895e38f};
      fill = [&d, body, n = a.in[3].numel()] { for_each(d, n, body); };
    }
    const auto guarded = std::make_shared<GuardedAttention>(d, what_, std::move(library));
    const int64_t rest_bytes = rest ? t.f.batch * t.f.heads * t.f.queries * int64_t{sizeof(float)} : 0;
    return [=, &d] {
      if (guarded->dropped()) return own();
      fill();
      look();
      if (!guarded->run(o, own)) return;
      if (rest) d.fill(rest, 0, rest_bytes);
      mend();
    };
  }

 private:
  // Beside a key that is seen, a key whose score is replaced by this has a weight of 0, as where this is added.
  static bool fill_hides(double fill) { return fill <= -100 && !std::isinf(fill); }

  bool wanted_ = false;
  Attention what_;
  Tensor bias_;
  int32_t* rounds_ = nullptr;  // there is a mask: AttentionOperands::rounds
};

void* from(void* base, int64_t element) { return static_cast<uint16_t*>(base) + element; }

Kernel forward(const KernelArgs& a, Carver& carve) {
  const Task t(a);
  const Tensor& y = a.out[0];
  const Staged out = t.tiled ? Staged::output(a, carve, y, t.type) : Staged{};
  const ByLibrary library(a, carve, t, false);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Ref q = a.in[0], k = t.f.packed ? q : Ref(a.in[1]), v = t.f.packed ? q : Ref(a.in[2]);
  float *const lse = a.out[1].as<float>(), *const rest = a.out[2].as<float>();
  const Kernel tail = clear_tail(d, t, y, t.f.y, t.f.value_width, lse, rest);
  const int64_t blocks = t.f.units() * t.query_tiles();
  if (!t.tiled || !aligned({q.data, k.data, v.data, out.data})) {
    const int parts = t.parts(t.f.value_width);
    PlainForward body{{}, t.p, q, k, v, y, lse, rest, t.query_tiles(), parts};
    const Kernel work = launches(d, blocks * parts, body);
    return [=] {
      work();
      tail();
    };
  }
  const auto tiled = [&](const Task& task) {
    return by_width(task, [&](auto type, auto width, auto kind) -> Kernel {
      AttentionForward<type, width, decltype(kind)> body;
      body.p = task.p;
      body.q = bits(q.data), body.k = bits(k.data), body.v = bits(v.data);
      body.y = static_cast<uint16_t*>(out.data), body.lse = lse, body.rest = rest;
      body.tiles = t.query_tiles();
      return launches(d, blocks, body);
    });
  };
  AttentionOperands o;
  o.q = from(q.data, t.f.q.offset), o.k = from(k.data, t.f.k.offset), o.v = from(v.data, t.f.v.offset);
  o.y = out.data, o.lse = lse;
  const Kernel guarded = library.guard(a, t, o, rest, tiled);
  return [=] {
    guarded();
    out.move();
    tail();
  };
}

Kernel dots(CudaDevice& d, const Task& t, const Tensor& y, const Tensor& dy, float* to) {
  const int64_t rows = t.f.batch * t.f.heads * t.f.queries;
  const Grid grid{std::clamp<int64_t>((rows + 15) / 16, 1, int64_t{d.multiprocessors()} * 16), 256, 0};
  const auto with = [&](auto w) -> Kernel {
    const AttentionDots<decltype(w)::value> body{
        y, dy, to, t.f.y, rows, t.f.queries, t.p.heads, t.p.value_width, t.f.heads_first};
    return [&d, grid, body] { launch(d, grid, body); };
  };
  if (rows == 0) return [] {};
  if (t.f.value_width % 4 == 0) return with(std::integral_constant<int, 4>{});
  return with(std::integral_constant<int, 1>{});
}

struct GradOperands {
  Ref q, k, v, dy;
  const float *lse, *rest;
  float* d;
  Ref dq, dk, dv;
};
struct GradKernels {
  Kernel first, second;
};

GradKernels plain_gradients(CudaDevice& d, const Task& t, const GradOperands& o) {
  PlainGradKeys of_keys;
  of_keys.p = t.p;
  of_keys.q = o.q, of_keys.k = o.k, of_keys.v = o.v, of_keys.dy = o.dy;
  of_keys.lse = o.lse, of_keys.rest = o.rest, of_keys.d = o.d;
  of_keys.tiles = t.key_tiles(), of_keys.parts = t.parts(std::max(t.f.width, t.f.value_width));
  of_keys.dk = o.dk, of_keys.dv = o.dv;
  PlainGradQueries of_queries;
  static_cast<PlainBackward&>(of_queries) = of_keys;
  of_queries.tiles = t.query_tiles(), of_queries.parts = t.parts(t.f.width);
  of_queries.dq = o.dq;
  return {launches(d, t.f.units() * t.key_tiles() * of_keys.parts, of_keys),
          launches(d, t.f.units() * t.query_tiles() * of_queries.parts, of_queries)};
}

// On tensor cores. y, dy: in 16 bits; result(0), (1), (2): where dq, dk and dv go, so too.
template <class Result>
GradKernels tiled_gradients(CudaDevice& d, const Task& t, const GradOperands& o, const void* y, const void* dy,
                            const Result& result) {
  const auto set = [&](auto& body, int64_t tiles) {
    body.p = t.p;
    body.q = bits(o.q.data), body.k = bits(o.k.data), body.v = bits(o.v.data), body.dy = bits(dy);
    body.lse = o.lse, body.rest = o.rest, body.d = o.d;
    body.tiles = tiles;
    return launches(d, t.f.units() * tiles, body);
  };
  const Kernel queries = by_width(t, [&](auto type, auto width, auto kind) -> Kernel {
    AttentionGradQueries<type, width, decltype(kind)> body;
    body.y = bits(y), body.dq = static_cast<uint16_t*>(result(0));
    return set(body, t.query_tiles());
  });
  const Kernel keys = by_width(t, [&](auto type, auto width, auto kind) -> Kernel {
    AttentionGradKeys<type, width, decltype(kind)> body;
    body.dk = static_cast<uint16_t*>(result(1)), body.dv = static_cast<uint16_t*>(result(2));
    return set(body, t.key_tiles());
  });
  return {queries, keys};
}

Kernel backward(const KernelArgs& a, Carver& carve) {
  const Task t(a);
  const Tensor &y = a.in[5], &dy = a.in[7];
  std::vector<Staged> out;
  const Staged upstream = t.tiled ? Staged::input(a, carve, dy, t.type) : Staged{};
  for (size_t i = 0; i < a.out.size() && t.tiled; ++i) out.push_back(Staged::output(a, carve, a.out[i], t.type));
  const ByLibrary library(a, carve, t, true);
  const Staged result = t.tiled ? Staged::input(a, carve, y, t.type) : Staged{};  // for the library
  float* const sums = carve.take<float>(t.f.batch * t.f.heads * t.f.queries);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Ref q = a.in[0], k = t.f.packed ? q : Ref(a.in[1]), v = t.f.packed ? q : Ref(a.in[2]);
  const float *const lse = a.in[6].as<float>(), *const rest = a.in[8].as<float>();
  const Ref dq = a.out[0], dk = t.f.packed ? dq : Ref(a.out[1]), dv = t.f.packed ? dq : Ref(a.out[2]);
  const Kernel tail_q = clear_tail(d, t, dq, t.f.q, t.f.width, nullptr, nullptr),
               tail_k = clear_tail(d, t, dk, t.f.k, t.f.width, nullptr, nullptr),
               tail_v = clear_tail(d, t, dv, t.f.v, t.f.value_width, nullptr, nullptr);
  const auto pointer = [&](size_t i) { return t.f.packed ? out[0].data : out[i].data; };
  const GradOperands of{q, k, v, dy, lse, rest, sums, dq, dk, dv};
  Kernel work;
  if (!t.tiled || !aligned({q.data, k.data, v.data, result.data, upstream.data, pointer(0), pointer(1), pointer(2)})) {
    work = [dot = dots(d, t, y, dy, sums), grad = plain_gradients(d, t, of)] {
      dot();
      grad.first();
      grad.second();
    };
    out.clear();
  } else {
    const auto tiled = [&](const Task& task) -> Kernel {
      return [grad = tiled_gradients(d, task, of, result.data, upstream.data, pointer)] {
        grad.first();
        grad.second();
      };
    };
    AttentionOperands o;
    o.q = from(q.data, t.f.q.offset), o.k = from(k.data, t.f.k.offset), o.v = from(v.data, t.f.v.offset);
    o.y = result.data, o.lse = const_cast<float*>(lse), o.dy = upstream.data;
    o.dq = from(pointer(0), t.f.q.offset), o.dk = from(pointer(1), t.f.k.offset), o.dv = from(pointer(2), t.f.v.offset);
    work = library.guard(a, t, o, nullptr, tiled);
  }
  return [=] {
    if (!out.empty()) {
      upstream.move();
      result.move();
    }
    work();
    for (const Staged& s : out) s.move();
    tail_q();
    tail_k();
    tail_v();
  };
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "FusedAttention", with_workspace<forward>, measure_workspace<forward>},
    {DeviceKind::cuda, "FusedAttentionGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
