// The kernels of FusedAttention and FusedAttentionGrad (ops/fused_attention.h). The matrix of scores is not stored.
// 16-bit operands use tensor cores (attention_tiles.cuh), other operands use fp32 arithmetic (attention_plain.cuh).
// Gradients need no atomics: one kernel computes dk and dv with one block per tile of keys, another kernel computes dq
// with one block per tile of queries. A library may replace the kernels (attention_library.cuh).
#include "backend/cuda/staged.h"
#include "ops/cuda/attention_library.cuh"
#include "ops/cuda/attention_plain.cuh"
#include "ops/cuda/attention_tiles_grad.cuh"

namespace amp::cuda {
namespace {

bool aligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(),
                     [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
}

// Calls f(type, width, kind) with compile-time constants and returns its kernel: a 16-bit type, and width 32, 64 or
// 128. Only width 64, the most common one, has kernels without code for masks or dropout. Kernels of other widths
// branch at run time.
template <class F>
Kernel by_width(const AttentionTask& t, const F& f) {
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

Kernel clear_tail(CudaDevice& d, const AttentionTask& t, const Ref& data, const AttentionForm::Strides& place,
                  int64_t width, float* lse, float* rest) {
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

void* from(void* base, int64_t element) { return static_cast<uint16_t*>(base) + element; }

Kernel forward(const KernelArgs& a, Carver& carve) {
  const AttentionTask t(a);
  const Tensor& y = a.out[0];
  const Staged out = t.tiled ? Staged::output(a, carve, y, t.type) : Staged{};
  const AttentionByLibrary library(a, carve, t, false);
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
  const auto tiled = [&](const AttentionTask& task) {
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

Kernel dots(CudaDevice& d, const AttentionTask& t, const Tensor& y, const Tensor& dy, float* to) {
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

GradKernels plain_gradients(CudaDevice& d, const AttentionTask& t, const GradOperands& o) {
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

// Returns the gradient kernels on tensor cores. y and dy are 16-bit. result(0), (1), (2) are the addresses of dq, dk
// and dv, also 16-bit.
template <class Result>
GradKernels tiled_gradients(CudaDevice& d, const AttentionTask& t, const GradOperands& o, const void* y, const void* dy,
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
  const AttentionTask t(a);
  const Tensor &y = a.in[5], &dy = a.in[7];
  std::vector<Staged> out;
  const Staged upstream = t.tiled ? Staged::input(a, carve, dy, t.type) : Staged{};
  for (size_t i = 0; i < a.out.size() && t.tiled; ++i) out.push_back(Staged::output(a, carve, a.out[i], t.type));
  const AttentionByLibrary library(a, carve, t, true);
  const Staged result = t.tiled ? Staged::input(a, carve, y, t.type) : Staged{};  // a copy of y in 16 bits
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
    const auto tiled = [&](const AttentionTask& task) -> Kernel {
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

// Returns the bytes of the dropout mask that a library reads for the node; 0 if it reads none. The node's gradient
// needs a mask of the same size.
int64_t bytes_of_kept(const Graph& g, const Node& n) {
  const auto dims = [&](size_t i) { return i < n.in.size() && n.in[i] ? g.value(n.in[i]).dims : Dims{}; };
  const AttentionForm f = attention_form(n.attrs, dims(0), dims(1), dims(2), dims(3), dims(4));
  const DType t = g.value(n.in[0]).dtype;
  const int64_t bytes = f.units() * f.queries * f.keys * size_of(t);
  return is_low(t) && f.dropout.threshold != 0 && f.sequences == 0 && bytes <= kMostKept ? bytes : 0;
}
const RegisterDropoutUser dropout_user{"FusedAttention", bytes_of_kept};

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "FusedAttention", with_workspace<forward>, measure_workspace<forward>},
    {DeviceKind::cuda, "FusedAttentionGrad", with_workspace<backward>, measure_workspace<backward>}};

}  // namespace
}  // namespace amp::cuda
