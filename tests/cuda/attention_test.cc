// Fused attention on the emulated device beyond the cases of the operator table: selected kernels, head widths up to
// and beyond the largest for tensor cores, many tiles, dropout, mixed types.
#include <algorithm>
#include <catch2/catch_all.hpp>
#include <cmath>
#include <limits>

#include "backend/cuda/emulator.h"
#include "backend/interpreter.h"
#include "tests/cuda/against_cpu.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Shape {
  int64_t batch, heads, queries, keys, width, value_width;
};

OpCase attention(const Shape& s, const Attrs& more = {}) {
  const auto dims = [&](int64_t tokens, int64_t width) {
    return more.i("heads_first", 0) ? Dims{s.batch, s.heads, tokens, width} : Dims{s.batch, tokens, s.heads, width};
  };
  OpCase c{{{dims(s.queries, s.width)}, {dims(s.keys, s.width)}, {dims(s.keys, s.value_width)}}, more};
  c.attrs.set("scale", 0.8 / std::sqrt(static_cast<double>(s.width)));
  return c;
}
OpCase packed(const Shape& s, const Attrs& more = {}) {
  OpCase c{{{{s.batch, s.queries, 3, s.heads, s.width}}}, more};
  c.attrs.set("scale", 0.8 / std::sqrt(static_cast<double>(s.width)));
  c.attrs.set("packed", int64_t{1});
  return c;
}
OpCase masked(OpCase c, const Dims& dims, bool boolean) {
  const Draw draw = [=](int64_t n, Rng& rng) {
    std::vector<double> v = (boolean ? coin() : uniform(-1, 1))(n, rng);
    for (size_t i = 0; i < v.size(); ++i) {
      if (boolean && i % static_cast<size_t>(dims[3]) == 0) v[i] = 1;
      if (!boolean && i % 3 == 1) v[i] = -30000;
    }
    return v;
  };
  c.in.push_back({dims, draw, boolean ? Role::boolean : Role::held});
  return c;
}
OpCase sequences(OpCase c, std::vector<double> offsets, int64_t longest) {
  while (c.in.size() < 4) c.in.push_back({{}, uniform(0, 1), Role::absent});
  c.in.push_back({{static_cast<int64_t>(offsets.size())}, [=](int64_t, Rng&) { return offsets; }, Role::integer});
  c.attrs.set("max_len", longest);
  return c;
}
Attrs dropping(double ratio, int64_t rows) { return {{"ratio", ratio}, {"site", int64_t{3}}, {"rows", rows}}; }

// Returns the type names of the kernels that the last node launched.
std::string launched() {
  std::string all;
  for (const cuda::Event& e : device().events()) all += e.what + ' ';
  return all;
}

}  // namespace

namespace {

std::vector<OpCase> over_many_tiles() {
  return {
      attention({1, 2, 200, 150, 64, 64}),
      attention({1, 1, 70, 130, 128, 128}),
      attention({1, 2, 70, 66, 96, 40}, {{"heads_first", int64_t{1}}}),
      attention({1, 1, 65, 70, 136, 24}),  // width 136 exceeds that of the tensor cores' kernels
      attention({1, 1, 70, 65, 20, 130}),
      packed({1, 2, 131, 131, 32, 32}),
      masked(attention({2, 2, 70, 130, 16, 16}), {2, 1, 1, 130}, false),
      masked(attention({1, 2, 70, 130, 16, 16}), {1, 2, 70, 130}, false),
      masked(attention({1, 2, 70, 130, 16, 16}), {1, 2, 1, 130}, true),
      masked(attention({1, 2, 70, 130, 16, 16}, {{"fill", -3.0}}), {1, 1, 70, 130}, true),
      masked(attention({1, 2, 70, 130, 16, 16}), {1, 2, 70, 1}, false),
      sequences(packed({1, 2, 300, 300, 16, 16}), {0, 129, 129, 193, 194, 280}, 130),
  };
}

std::vector<OpCase> with_dropout() {
  return {
      attention({2, 2, 70, 132, 16, 16}, dropping(0.3, 2)),  // 132 keys: a multiple of four
      attention({2, 2, 70, 131, 16, 16}, dropping(0.3, 2)),  // 131 keys: not a multiple of four
      attention({4, 1, 66, 68, 16, 16}, dropping(0.3, 2)),   // 4 batch entries for 2 samples
      attention({1, 4, 33, 68, 16, 16}, dropping(0.3, 3)),   // 3 samples in 1 batch entry: samples end within it
      attention({2, 1, 33, 68, 16, 16}, dropping(0.3, 5)),   // 5 samples do not divide 2 batch entries evenly
      // max_len is a multiple of four.
      sequences(packed({1, 2, 150, 150, 16, 16}, dropping(0.3, 1)), {0, 66, 66, 140}, 76),
      sequences(packed({1, 2, 150, 150, 16, 16}, dropping(0.3, 1)), {0, 66, 67, 140}, 75),
  };
}

void agree(Device& d, const std::vector<OpCase>& cases, const std::function<void(bool)>& around_second) {
  uint64_t k = 40;
  for (const OpCase& c : cases) {
    for (const DType t : {DType::f32, DType::f16, DType::bf16})
      agree_with_cpu(d, "FusedAttention", c, t, k, around_second);
    ++k;
  }
}

}  // namespace

TEST_CASE("fused attention over many tiles on CUDA is the CPU's", "[cuda]") {
  agree(device(), over_many_tiles(), cuda::emulator::reversed);
}

TEST_CASE("fused attention with dropout on CUDA is the CPU's", "[cuda]") {
  agree(device(), with_dropout(), cuda::emulator::reversed);
}

TEST_CASE("fused attention on the GPU is the CPU's", "[gpu]") {
  const auto gpu = gpu_or_skip();
  agree(*gpu, over_many_tiles(), nullptr);
  agree(*gpu, with_dropout(), nullptr);
}

TEST_CASE("fused attention on CUDA drops the elements that Dropout drops", "[cuda]") {
  // The values and the upstream gradient are identity matrices, so y is p after dropout, and dv is p transposed.
  const auto identity = [](int64_t batch, int64_t tokens, int64_t heads) {
    HostTensor t = HostTensor::zeros(DType::f32, {batch, tokens, heads, 64});
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < tokens; ++i) {
        for (int64_t n = 0; n < heads; ++n) t.as_mutable<float>()[((b * tokens + i) * heads + n) * 64 + i] = 1;
      }
    }
    return t.cast(DType::f16);
  };
  const int64_t B = 2, N = 2;
  for (const int64_t keys : {64, 61}) {
    for (const int64_t rows : {2, 1, 4}) {
      Attrs a = dropping(0.4, rows);
      a.set("scale", 0.1);
      const HostTensor q = draw({B, 50, N, 32}, 1, DType::f16), k = draw({B, keys, N, 32}, 2, DType::f16),
                       v = identity(B, keys, N), dy = identity(B, 50, N);
      Graph g;
      const auto input = [&](const HostTensor& t) { return t ? g.add_input("x", t.dtype(), t.dims()) : ValueId{}; };
      const HostTensor none;
      const auto run = [&](const char* op, const std::vector<HostTensor>& in) {
        std::vector<ValueId> ids;
        for (const HostTensor& t : in) ids.push_back(input(t));
        const Node& node = g.node(g.add_node(core_op(op), ids, a, {}));
        std::vector<std::pair<DType, Dims>> shapes;
        for (const ValueId o : node.out) shapes.emplace_back(g.value(o).dtype, g.value(o).dims);
        const std::vector<HostTensor> want = evaluate_node(core_op(op), in, a, shapes),
                                      got = run_on_device(g, node, in);
        INFO(op << " with " << keys << " keys, " << rows << " rows");
        for (const size_t o : {std::string(op) == "FusedAttention" ? size_t{0} : size_t{2}}) {
          const std::vector<double> x = got[o].to_doubles(), y = want[o].to_doubles();
          size_t differ = 0, zeros = 0;
          for (size_t i = 0; i < x.size(); ++i) {
            differ += (x[i] == 0) != (y[i] == 0);
            zeros += x[i] == 0;
          }
          CHECK(differ == 0);
          CHECK((zeros > x.size() / 4 && zeros < x.size() * 3 / 4));
        }
        return want;
      };
      const std::vector<HostTensor> y = run("FusedAttention", {q, k, v});
      run("FusedAttentionGrad", {q, k, v, none, none, y[0], y[1], dy, y[2]});
    }
  }
}

TEST_CASE("a sample's dropout in fused attention does not depend on its micro-batch", "[cuda]") {
  Attrs a = dropping(0.4, 2);
  a.set("scale", 0.2);
  const auto run = [&](const HostTensor& q, const RunState& state) {
    Graph g;
    const ValueId x = g.add_input("x", q.dtype(), q.dims());
    Attrs b = a;
    b.set("rows", q.dims()[0]);
    const Node& node = g.node(g.add_node(core_op("FusedAttention"), {x, x, x}, b, {}));
    return run_on_device(g, node, {q, q, q}, state)[0].to_doubles();
  };
  for (const DType t : {DType::f16, DType::f32}) {
    const HostTensor both = draw({2, 40, 1, 16}, 5, t);
    HostTensor second = HostTensor::empty(t, {1, 40, 1, 16});
    std::memcpy(second.mutable_data(), static_cast<const char*>(both.data()) + second.bytes(),
                static_cast<size_t>(second.bytes()));
    RunState state{(uint64_t{7} << 32) + 9, 11, 20};
    const std::vector<double> two = run(both, state);
    state.samples_before = 21;
    const std::vector<double> one = run(second, state);
    CHECK(std::equal(one.begin(), one.end(), two.begin() + static_cast<int64_t>(one.size())));
    state.step = 12;
    CHECK(run(second, state) != one);
  }
}

TEST_CASE("tensor cores compute fused attention of supported types and widths", "[cuda]") {
  struct Row {
    OpCase c;
    DType type;
    bool tiled;
  };
  for (const Row& r :
       {Row{attention({1, 1, 5, 6, 64, 64}), DType::f16, true}, Row{attention({1, 1, 5, 6, 128, 8}), DType::bf16, true},
        Row{attention({1, 1, 5, 6, 64, 64}), DType::f32, false},
        Row{attention({1, 1, 5, 6, 60, 64}), DType::f16, false},
        Row{attention({1, 1, 5, 6, 136, 64}), DType::f16, false}}) {
    device().events().clear();
    device().keep_events(true);
    agree_with_cpu("FusedAttention", r.c, r.type, 1);
    device().keep_events(false);
    const std::string all = launched();
    for (const char* kernel : {"AttentionForward", "AttentionGradKeys", "AttentionGradQueries"})
      CHECK((all.find(kernel) != std::string::npos) == r.tiled);
    CHECK((all.find("PlainForward") == std::string::npos) == r.tiled);
  }
}

TEST_CASE("fused attention on CUDA takes operands and results of different types", "[cuda]") {
  const auto emulated = cuda::make_emulated_device();
  const Attrs a{{"scale", 0.2}};
  for (const DType k_type : {DType::f16, DType::f32}) {
    const HostTensor q = draw({2, 33, 2, 16}, 1, DType::f16), k = draw({2, 20, 2, 16}, 2, k_type),
                     v = draw({2, 20, 2, 24}, 3, DType::f16);
    const std::vector<HostTensor> want = on_cpu("FusedAttention", {q, k, v}, a);
    OnDevice node(*emulated, "FusedAttention", {q, k, v}, a, DType::f32);
    const std::vector<HostTensor> got = node.run({q, k, v});
    CHECK(worst(got[0], want[0]) < 2e-3);
    CHECK(worst(got[1], want[1]) < 2e-6);
    const std::vector<HostTensor> back{q, k, v, {}, {}, got[0], got[1], draw({2, 33, 2, 24}, 4), got[2]};
    const std::vector<HostTensor> slopes = on_cpu("FusedAttentionGrad", back, a);
    OnDevice grad(*emulated, "FusedAttentionGrad", back, a, DType::f32);
    const std::vector<HostTensor> mine = grad.run(back);
    for (size_t i = 0; i < 3; ++i) CHECK(worst(mine[i], slopes[i]) < 3e-3);
  }
}

TEST_CASE("NaN and infinity propagate in fused attention on CUDA, only within their rows", "[cuda]") {
  for (const DType t : {DType::f32, DType::f16}) {
    const Dims dims{1, 70, 1, 16};
    HostTensor q = draw(dims, 1);
    q.as_mutable<float>()[3 * 16 + 2] = NAN;
    q.as_mutable<float>()[66 * 16 + 2] = INFINITY;
    q = q.cast(t);
    const HostTensor k = draw(dims, 2, t), v = draw(dims, 3, t);
    Graph g;
    std::vector<ValueId> ids;
    for (int i = 0; i < 3; ++i) ids.push_back(g.add_input("x", t, dims));
    const Node& node = g.node(g.add_node(core_op("FusedAttention"), ids, {{"scale", 1.0}}, {}));
    const std::vector<HostTensor> got = run_on_device(g, node, {q, k, v});
    const std::vector<double> y = got[0].to_doubles(), lse = got[1].to_doubles();
    for (size_t i = 0; i < 70; ++i) {
      const bool broken = i == 3 || i == 66;
      CHECK(std::isnan(lse[i]) == broken);
      for (size_t h = 0; h < 16; ++h) CHECK(std::isnan(y[i * 16 + h]) == broken);
    }
  }
}

TEST_CASE("a query whose keys are all masked gives NaN or zeros on CUDA, by attribute", "[cuda]") {
  for (const int64_t zeros : {0, 1}) {
    for (const DType t : {DType::f32, DType::f16}) {
      const Dims dims{1, 70, 1, 16};
      HostTensor mask = HostTensor::zeros(DType::f32, {1, 1, 70, 70});
      for (int64_t j = 0; j < 70; ++j) mask.as_mutable<float>()[5 * 70 + j] = -INFINITY;
      // Row 6 has no visible key in its first tile.
      for (int64_t j = 0; j < 66; ++j) mask.as_mutable<float>()[6 * 70 + j] = -INFINITY;
      const std::vector<HostTensor> in{draw(dims, 1, t), draw(dims, 2, t), draw(dims, 3, t), mask};
      Graph g;
      std::vector<ValueId> ids;
      for (const HostTensor& x : in) ids.push_back(g.add_input("x", x.dtype(), x.dims()));
      const Attrs a{{"scale", 1.0}, {"empty_rows_zero", zeros}};
      const Node& node = g.node(g.add_node(core_op("FusedAttention"), ids, a, {}));
      const std::vector<HostTensor> got = run_on_device(g, node, in);
      const std::vector<double> y = got[0].to_doubles(), lse = got[1].to_doubles();
      CHECK((zeros ? lse[5] == kInf : std::isnan(lse[5])));
      for (size_t h = 0; h < 16; ++h) {
        CHECK((zeros ? y[5 * 16 + h] == 0 : std::isnan(y[5 * 16 + h])));
        CHECK(std::isfinite(y[6 * 16 + h]));
      }
      // A row of NaN must not change gradients if its upstream gradient is 0.
      std::vector<double> upstream = draw(dims, 4, t).to_doubles();
      if (!zeros) std::fill_n(upstream.begin() + 5 * 16, 16, 0.0);
      const HostTensor dy = HostTensor::of<double>(dims, upstream).cast(t);
      for (const HostTensor& x : {HostTensor(), got[0], got[1], dy, got[2]})
        ids.push_back(x ? g.add_input("x", x.dtype(), x.dims()) : ValueId{});
      const Node& back = g.node(g.add_node(core_op("FusedAttentionGrad"), ids, a, {}));
      const std::vector<HostTensor> slopes =
          run_on_device(g, back, {in[0], in[1], in[2], mask, {}, got[0], got[1], dy, got[2]});
      for (const HostTensor& s : slopes) {
        for (const double x : s.to_doubles()) CHECK(std::isfinite(x));
      }
      for (size_t h = 0; h < 16; ++h) CHECK(slopes[0].to_doubles()[5 * 16 + h] == 0);
    }
  }
}
