// Padding removal: losses and gradients equal those of the padded graph, with the same dropout, for any shapes between
// embeddings and loss. Masks that hide other positions than padding prevent packing.
#include "ops/passes/padding.h"

#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "ops/passes/fused_operators.h"
#include "ops/passes/qkv.h"
#include "tests/backend/run_training.h"
#include "tests/backend/small_nets.h"
#include "trainer/compile/packing.h"

using namespace amp;
using namespace amp::test;

namespace {

constexpr int64_t kBatch = 3, kLength = 7;
constexpr RunState kState{11, 3, 6};

// A small BERT layer with dropout after every operator that may have it: (3, 7) tokens, two heads of size 4.
const std::string kEncoder = R"(
    input ids int64 3 7
    input there int64 3 7
    param table 11 8
    param places 9 8
    param gamma 8
    param beta 8
    param Wq 8 8
    param Wk 8 8
    param Wv 8 8
    param bv 8
    param Wo 8 8
    param U 8 16
    param D 16 8
    const one = 1
    const low = -10000
    e = GatherRows(table, ids) {outer=1; n=11; inner=8; dims=[3 7 8]}
    p = Slice(places) {starts=[0 0]; steps=[1 1]; dims=[7 8]}
    p = Reshape(p) {dims=[1 7 8]}
    e = Add(e, p)
    n, m, r = LayerNorm(e, gamma, beta) {n=8; epsilon=1e-5; rms=0}
    n = Dropout(n) {ratio=0.2; site=1; rows=3}
    f = Cast(there) {to=1}
    f = Sub(one, f)
    f = Mul(f, low)
    mask = Reshape(f) {dims=[3 1 1 7]}
    q = MatMul(n, Wq)
    q = Reshape(q) {dims=[3 7 2 4]}
    q = Transpose(q) {perm=[0 2 1 3]}
    k = MatMul(n, Wk)
    k = Reshape(k) {dims=[3 7 2 4]}
    k = Transpose(k) {perm=[0 2 3 1]}
    v = MatMul(n, Wv)
    v = Add(v, bv)
    v = Reshape(v) {dims=[3 7 2 4]}
    v = Transpose(v) {perm=[0 2 1 3]}
    s = MatMul(q, k) {alpha=0.5}
    s = Add(s, mask)
    s = Softmax(s)
    s = Dropout(s) {ratio=0.1; site=2; rows=3}
    o = MatMul(s, v)
    o = Transpose(o) {perm=[0 2 1 3]}
    o = Reshape(o) {dims=[21 8]}
    o = MatMul(o, Wo)
    o = Reshape(o) {dims=[3 7 8]}
    o = Dropout(o) {ratio=0.3; site=3; rows=3}
    e = Add(n, o)
    h = MatMul(e, U)
    h = Gelu(h)
    a, b = Split(h) {axis=2; sizes=[8 8]}
    h = Concat(b, a) {axis=2}
    h = MatMul(h, D)
    e = Add(e, h)
)";
const std::map<std::string, std::string> kHeads = {
    {"first token", R"(
    input label int64 3
    param W 8 5
    c = Slice(e) {starts=[0 0 0]; steps=[1 1 1]; dims=[3 1 8]}
    c = Reshape(c) {dims=[3 8]}
    y = MatMul(c, W)
    loss = CrossEntropy(y, label) {ignore_index=-100}
    output loss)"},
    {"masked mean", R"(
    param W 8 5
    w = Cast(there) {to=1}
    w = Reshape(w) {dims=[3 7 1]}
    c = Mul(e, w)
    c = ReduceSum(c) {axes=[1]; keepdims=0}
    d = ReduceSum(w) {axes=[1]; keepdims=0}
    c = Div(c, d)
    y = MatMul(c, W)
    y = Mul(y, y)
    loss = ReduceSum(y) {axes=[0 1]; keepdims=0}
    output loss)"},
    {"every token", R"(
    input label int64 3 7
    param W 8 5
    y = MatMul(e, W)
    y = Reshape(y) {dims=[21 5]}
    l = Reshape(label) {dims=[21]}
    loss = CrossEntropy(y, l) {ignore_index=-100}
    output loss)"},
};

Graph plain_graph(const std::string& text) { return fuse_operators(prune(CoreText(text).graph), {}, cpu_evaluator()); }

// Returns a batch of sequences of these lengths; labels of padded tokens are ignored.
Tensors batch(const std::vector<int64_t>& lengths, const Graph& g) {
  std::vector<int64_t> ids, there, label;
  for (size_t b = 0; b < lengths.size(); ++b) {
    for (int64_t s = 0; s < kLength; ++s) {
      const bool is = s < lengths[b];
      ids.push_back(is ? (5 * s + 3 * static_cast<int64_t>(b)) % 11 : 0);
      there.push_back(is);
      label.push_back(is ? s % 5 : -100);
    }
  }
  Tensors t{{"ids", HostTensor::of<int64_t>({kBatch, kLength}, ids)},
            {"there", HostTensor::of<int64_t>({kBatch, kLength}, there)}};
  const ValueId l = g.input("label");
  if (l && g.value(l).dims.size() == 2)
    t["label"] = HostTensor::of<int64_t>({kBatch, kLength}, label);
  else
    t["label"] = HostTensor::of<int64_t>({kBatch}, {1, 4, 2});
  return t;
}

Graph without_padding(const Graph& g, int64_t tokens) {
  Unpadded u = remove_padding(g, *find_padding_mask(g, cpu_evaluator()), tokens, {{"label", -100}}, cpu_evaluator());
  CHECK(u.seen_by.empty());
  return std::move(u.graph);
}

}  // namespace

TEST_CASE("a graph without padding has the padded one's loss and gradients", "[padding]") {
  for (const auto& [name, head] : kHeads) {
    DYNAMIC_SECTION(name) {
      const Graph padded = plain_graph(kEncoder + head);
      const auto mask = find_padding_mask(padded, cpu_evaluator());
      REQUIRE(mask);
      CHECK(mask->input == "there");
      CHECK(mask->places.batch == kBatch);
      CHECK(mask->places.length == kLength);
      const std::vector<HostTensor> params = random_params(padded, 2);
      const Graph whole = with_gradients(padded);
      for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{7, 2, 4}, {1, 1, 1}, {3, 6, 5}}) {
        Tensors inputs = batch(lengths, padded);
        const std::vector<double> want = loss_and_gradients(whole, inputs, params, kState);
        const auto packing = pack_tokens(inputs.at("there"));
        REQUIRE(packing);
        CHECK(packing->tokens < kBatch * kLength);
        inputs.insert(packing->inputs.begin(), packing->inputs.end());
        const Graph packed = with_gradients(without_padding(padded, packing->tokens));
        CHECK(ops_of(packed).find("TokenDropout") != std::string::npos);
        // The encoder computes nothing at padded positions.
        for (int32_t n = 0; n < packed.n_nodes(); ++n) {
          const Node& node = packed.node(NodeId{n});
          if (node.op->name == "MatMul" || node.op->name == "Gelu")
            CHECK(packed.value(node.out[0]).dims[0] != kBatch * kLength);
          if (node.op->name == "LayerNorm") CHECK(packed.value(node.out[0]).dims == Dims{1, packing->tokens, 8});
        }
        const std::vector<double> got = loss_and_gradients(packed, inputs, params, kState);
        CHECK(largest_difference(got, want) <= 2e-6);
      }
    }
  }
}

TEST_CASE("q, k and v by one product", "[qkv]") {
  for (const bool packed : {false, true}) {
    Graph g = plain_graph(kEncoder + kHeads.at("first token"));
    Tensors inputs = batch({7, 2, 4}, g);
    const std::vector<HostTensor> params = random_params(g, 2);
    if (packed) {
      const auto packing = pack_tokens(inputs.at("there"));
      g = without_padding(g, packing->tokens);
      inputs.insert(packing->inputs.begin(), packing->inputs.end());
    }
    const auto products = [](const Graph& x) {
      size_t n = 0;
      for (int32_t i = 0; i < x.n_nodes(); ++i) n += x.node(NodeId{i}).op->name == "MatMul";
      return n;
    };
    // One of the three projections has a bias, so they are not joined.
    CHECK(products(merge_qkv(g, {}, cpu_evaluator())) == products(g));
    std::string alike = kEncoder + kHeads.at("first token");
    alike.replace(alike.find("v = Add(v, bv)"), 14, "e = Mul(e, one)");
    g = plain_graph(alike);
    if (packed) g = without_padding(g, pack_tokens(inputs.at("there"))->tokens);
    const Graph merged = merge_qkv(g, {}, cpu_evaluator());
    CHECK(products(merged) == products(g) - 2);
    std::vector<HostTensor> used = params;
    CHECK(largest_difference(loss_and_gradients(with_gradients(merged), inputs, used, kState),
                             loss_and_gradients(with_gradients(g), inputs, used, kState)) <= 2e-6);
  }
}

TEST_CASE("a mask that hides anything but padding is no proof", "[padding]") {
  const auto found = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return find_padding_mask(plain_graph(text + kHeads.at("first token")), cpu_evaluator()).has_value();
  };
  CHECK(found(kEncoder, "const low = -10000", "const low = -20000"));
  CHECK(!found(kEncoder, "const low = -10000", "const low = -10"));  // a padded key keeps a weight above 0
  // The mask hides the real tokens instead of the padding.
  CHECK(!found(kEncoder, "f = Sub(one, f)", "f = Mul(f, one)"));
  CHECK(!found(kEncoder, "s = Add(s, mask)", "s = Mul(s, one)"));  // the scores have no mask
  const std::string causal =
      "const triangle 1 1 7 7 = 0 -10000 -10000 -10000 -10000 -10000 -10000 0 0 -10000 -10000 -10000 -10000 -10000 0 0 "
      "0 -10000 -10000 -10000 -10000 0 0 0 0 "
      "-10000 -10000 -10000 0 0 0 0 0 -10000 -10000 0 0 0 0 0 0 -10000 0 0 0 0 0 0 0\n";
  CHECK(!found(kEncoder, "s = Add(s, mask)", causal + "s = Add(s, mask)\ns = Add(s, triangle)"));
  CHECK(!found(kEncoder, "s = Add(s, mask)", causal + "s = Add(s, triangle)"));
}

TEST_CASE("tokens of a batch", "[padding]") {
  const auto mask = [](std::vector<int64_t> v, int64_t length) {
    return HostTensor::of<int64_t>({static_cast<int64_t>(v.size()) / length, length}, v);
  };
  std::vector<int64_t> m(4 * 20, 0);
  // The four sequences have 3, 4, 5 and 6 tokens.
  for (size_t b = 0; b < 4; ++b) std::fill_n(m.begin() + static_cast<std::ptrdiff_t>(20 * b), 3 + b, 1);
  const auto p = pack_tokens(mask(m, 20));
  REQUIRE(p);
  CHECK(p->tokens == 24);
  CHECK(p->inputs.at("padding.offsets").to_ints() == std::vector<int64_t>{0, 3, 7, 12, 18});
  std::vector<int64_t> places = p->inputs.at("padding.tokens").to_ints();
  CHECK(places[3] == 20);
  CHECK(p->inputs.at("padding.positions").to_ints()[6] == 3);
  CHECK(p->inputs.at("padding.samples").to_ints()[17] == 3);
  std::sort(places.begin(), places.end());
  CHECK(std::unique(places.begin(), places.end()) == places.end());

  CHECK(!pack_tokens(mask(std::vector<int64_t>(80, 1), 20)));  // nothing to save: no sequence is padded
  m[0] = 0;
  CHECK(!pack_tokens(mask(m, 20)));  // the first sequence is padded on the left
  std::fill_n(m.begin(), 20, 0);
  CHECK(!pack_tokens(mask(m, 20)));  // a sequence without tokens
  m[0] = 2;
  CHECK(!pack_tokens(mask(m, 20)));  // the meaning of other mask values is not known
  m[0] = 1;
  m[2] = 1;
  CHECK(!pack_tokens(mask(m, 20)));  // the mask has a hole between two tokens
}
