// Measures GFLOP/s of fused attention and of its gradient on one thread, in processor time of this thread, so that
// other load on the machine matters less. Products of fully masked blocks count as if they were computed.
//   attention_speed [ROUNDS [PART OF A CASE'S NAME [float32|bfloat16]]]
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/arena.h"
#include "backend/kernel.h"
#include "bench/timing.h"
#include "graph/graph.h"

using namespace amp;

namespace {

enum class Mask { none, causal, causal_added, keys };
struct Case {
  const char* name;
  int64_t batch, heads, queries, keys, width;
  Mask mask = Mask::none;
  int64_t sequences = 0;  // number of packed sequences, of lengths from queries / 2 to `queries`
  double dropout = 0;
};
const Case cases[] = {
    {"minilm-l6 s128 b16", 16, 12, 128, 128, 32},
    {"minilm-l6 s128 b1", 1, 12, 128, 128, 32},
    {"bert-base s128 b1", 1, 12, 128, 128, 64},
    {"minilm-l6 dropout", 16, 12, 128, 128, 32, Mask::none, 0, 0.1},
    {"bert-base s128 b16", 16, 12, 128, 128, 64},
    {"bert-base s512 b2", 2, 12, 512, 512, 64},
    {"bert-base padded keys", 16, 12, 128, 128, 64, Mask::keys},
    {"gpt2 s256 b4 causal", 4, 12, 256, 256, 64, Mask::causal},
    {"gpt2 s256 b4 causal added", 4, 12, 256, 256, 64, Mask::causal_added},
    {"minilm-l3 s32 b32", 32, 12, 32, 32, 32},
    {"minilm-l3 s27 b32", 32, 12, 27, 27, 32},
    {"minilm-l3 packed 24-48", 1, 12, 48, 48, 32, Mask::none, 32},
    {"cross 128 by 77", 8, 8, 128, 77, 64},
    {"narrow heads s128", 16, 12, 128, 128, 16},
    {"one query", 16, 12, 1, 128, 32},
};

// A graph of one node, and the memory of its values, laid out as in a Program.
class Node1 {
 public:
  ValueId value(DType t, Dims d) { return graph_.add_input("", t, std::move(d)); }
  void run_on(const char* op, const std::vector<ValueId>& in, const Attrs& attrs) {
    node_ = graph_.add_node(core_op(op), in, attrs, {});
    arena_.require(int64_t{1} << 30);  // reserves addresses, because the arena must not move
    const Node& n = graph_.node(node_);
    args_ = std::make_unique<KernelArgs>(KernelArgs{n, {}, {}, nullptr, &state_});
    for (const ValueId v : n.in) args_->in.push_back(v ? tensor(v) : Tensor{});
    for (const ValueId v : n.out) args_->out.push_back(tensor(v));
    args_->workspace = room(n.op->workspace ? n.op->workspace(graph_, n) : 0);
    run_ = find_kernel(DeviceKind::cpu, op)(*args_);
  }
  Tensor& in(size_t i) { return args_->in[i]; }
  Tensor& out(size_t i) { return args_->out[i]; }
  void operator()() const { run_(); }

 private:
  void* room(int64_t bytes) {
    used_ += (bytes + 63) / 64 * 64;
    arena_.require(used_);
    return static_cast<char*>(arena_.base()) + used_ - (bytes + 63) / 64 * 64;
  }
  Tensor tensor(ValueId v) {
    const Value& x = graph_.value(v);
    return {room(numel(x.dims) * size_of(x.dtype)), x.dtype, x.dims};
  }
  Graph graph_;
  NodeId node_;
  RunState state_{1, 0, 0};
  HostArena arena_;
  int64_t used_ = 0;
  std::unique_ptr<KernelArgs> args_;
  Kernel run_;
};

void fill(const Tensor& t, float scale, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(t.numel()));
  for (float& x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f) * scale;
  }
  convert(DType::f32, v.data(), t.dtype, t.data, t.numel());
}

std::vector<int64_t> offsets_of(const Case& k) {
  std::vector<int64_t> at{0};
  for (int64_t i = 0; i < k.sequences; ++i) at.push_back(at.back() + k.queries / 2 + i * 7 % (k.queries / 2 + 1));
  return at;
}

void fill_mask(const Case& k, const Tensor& t) {
  if (k.mask == Mask::causal_added) {
    float* m = t.as<float>();
    for (int64_t i = 0; i < k.queries * k.keys; ++i) m[i] = i % k.keys <= i / k.keys ? 0.0f : -3.4028235e38f;
    return;
  }
  bool* m = t.as<bool>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    m[i] = k.mask == Mask::keys ? i % k.keys < k.keys / 2 + i / k.keys % 2 * 40 : i % k.keys <= i / k.keys % k.queries;
  }
}

struct Pair {
  Node1 forward, backward;
};
void build(const Case& k, DType t, Pair& p) {
  const std::vector<int64_t> offsets = offsets_of(k);
  const int64_t queries = k.sequences ? offsets.back() : k.queries, keys = k.sequences ? queries : k.keys;
  Attrs a{{"scale", 1.0 / std::sqrt(static_cast<double>(k.width))}};
  if (k.sequences) a.set("max_len", k.queries);
  if (k.dropout > 0) a.set("ratio", k.dropout), a.set("site", int64_t{1}), a.set("rows", k.batch);
  const Dims q{k.batch, queries, k.heads, k.width}, kv{k.batch, keys, k.heads, k.width};
  const auto inputs = [&](Node1& n) {
    std::vector<ValueId> in{n.value(t, q), n.value(t, kv), n.value(t, kv), {}, {}};
    if (k.mask == Mask::causal) in[3] = n.value(DType::boolean, {1, 1, queries, keys});
    if (k.mask == Mask::causal_added) in[3] = n.value(DType::f32, {1, 1, queries, keys});
    if (k.mask == Mask::keys) in[3] = n.value(DType::boolean, {k.batch, 1, 1, keys});
    if (k.sequences) in[4] = n.value(DType::i64, {k.sequences + 1});
    return in;
  };
  std::vector<ValueId> in = inputs(p.forward);
  p.forward.run_on("FusedAttention", in, a);
  in = inputs(p.backward);
  const ValueId y = p.backward.value(t, q), lse = p.backward.value(DType::f32, {k.batch, k.heads, queries}),
                dy = p.backward.value(t, q), rest = p.backward.value(DType::f32, {k.batch, k.heads, queries});
  in.insert(in.end(), {y, lse, dy, rest});
  p.backward.run_on("FusedAttentionGrad", in, a);
  for (Node1* n : {&p.forward, &p.backward}) {
    for (size_t i = 0; i < 3; ++i) fill(n->in(i), 1.5f, static_cast<uint32_t>(i) + 1);
    if (k.mask != Mask::none) fill_mask(k, n->in(3));
    if (k.sequences) std::copy(offsets.begin(), offsets.end(), n->in(4).as<int64_t>());
  }
  p.forward();
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 5}, {1, 6}, {2, 8}})
    std::memcpy(p.backward.in(to).data, p.forward.out(from).data, static_cast<size_t>(p.forward.out(from).bytes()));
  fill(p.backward.in(7), 1, 7);
}

void measure(const Case& k, DType t, int rounds) {
  Pair p;
  build(k, t, p);
  double cells = static_cast<double>(k.batch * k.queries * k.keys);
  if (k.sequences) {
    const std::vector<int64_t> at = offsets_of(k);
    cells = 0;
    for (size_t i = 1; i < at.size(); ++i) cells += static_cast<double>((at[i] - at[i - 1]) * (at[i] - at[i - 1]));
  }
  const double product = 2 * cells * static_cast<double>(k.heads * k.width);
  std::vector<double> forward, backward;
  for (int r = -1; r < rounds; ++r) {
    const double begin = thread_seconds();
    p.forward();
    const double middle = thread_seconds();
    p.backward();
    const double end = thread_seconds();
    if (r >= 0) forward.push_back(middle - begin), backward.push_back(end - middle);
  }
  const double f = median(forward), b = median(backward);
  std::printf("%-28s %-8s  %8.3f ms %6.1f   %8.3f ms %6.1f\n", k.name, name_of(t).data(), f * 1e3,
              2 * product / f * 1e-9, b * 1e3, 5 * product / b * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::printf("%-38s  %18s   %18s\n", "ms and GFLOP/s", "forward", "gradient");
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const Case& k : cases) {
      if (argc > 2 && !std::strstr(k.name, argv[2])) continue;
      if (argc < 4 || name_of(t) == argv[3]) measure(k, t, rounds);
    }
  }
}
