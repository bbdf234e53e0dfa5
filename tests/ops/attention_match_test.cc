// Unfused attention in its variants becomes one operator with the same numbers, including dropout. Subgraphs that only
// resemble attention are kept.
#include <catch2/catch_all.hpp>

#include "graph/passes.h"
#include "ops/passes/fused_operators.h"
#include "tests/backend/run_training.h"
#include "tests/backend/small_nets.h"
#include "tests/ops/composite_check.h"

using namespace amp;
using namespace amp::test;

namespace {

// q, k, v as (B, S, N, H), transposed to (B, N, S, H).
const std::string kHeads = R"(
    param x 2 5 3 4
    param y 2 6 3 4
    param z 2 6 3 7
    input hide 2 1 1 6
    input more 5 6
    input keep bool 2 1 5 6
    const c = 0.5
    const zero = 0
    const low = -10000
    const inf = -inf
    q = Transpose(x) {perm=[0 2 1 3]}
    k = Transpose(y) {perm=[0 2 1 3]}
    kt = Transpose(y) {perm=[0 2 3 1]}
    v = Transpose(z) {perm=[0 2 1 3]}
)";
const std::string kTail = R"(
    o = MatMul(p, v)
    o = Transpose(o) {perm=[0 2 1 3]}
    output o
)";

size_t count(const std::string& ops, const std::string& op) {
  size_t n = 0;
  for (size_t at = ops.find(op); at != std::string::npos; at = ops.find(op, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("spellings of attention", "[attention]") {
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"plain", "s = MatMul(q, kt)\np = Softmax(s)"},
           {"transposed in the product", "s = MatMul(q, k) {transB=1; alpha=0.5}\np = Softmax(s)"},
           {"scaled behind", "s = MatMul(q, kt)\ns = Div(s, c)\np = Softmax(s)"},
           {"scaled before", "a = Mul(q, c)\nb = Mul(kt, c)\ns = MatMul(a, b)\np = Softmax(s)"},
           {"mask", "s = MatMul(q, kt)\ns = Mul(s, c)\ns = Add(s, hide)\np = Softmax(s)"},
           {"two masks", "s = MatMul(q, kt)\ns = Add(hide, s)\ns = Add(s, more)\np = Softmax(s)"},
           {"where", "s = MatMul(q, kt)\ns = Where(keep, s, low)\np = Softmax(s)"},
           {"where not", "n = Not(keep)\ns = MatMul(q, kt)\ns = Where(n, low, s)\np = Softmax(s)"},
           {"empty rows",
            "s = MatMul(q, kt)\nm = Where(keep, zero, inf)\ns = Add(s, m)\np = Softmax(s)\nn = IsNaN(p)\np = Where(n, "
            "zero, p)"},
           {"flattened",
            "s = MatMul(q, kt)\ns = Reshape(s) {dims=[30 6]}\np = Softmax(s)\np = Reshape(p) {dims=[2 3 5 6]}"}}) {
    DYNAMIC_SECTION(name) {
      const std::string whole = kHeads + text + kTail;
      CHECK(formed(whole).find("FusedAttention") != std::string::npos);
      CHECK(count(formed(whole), "MatMul") + count(formed(whole), "Softmax") + count(formed(whole), "Transpose") == 0);
      same_numbers(whole, 1e-9);
    }
  }
}

TEST_CASE("attention over heads that come first, or are the batch", "[attention]") {
  for (const char* text :
       {"param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\ns = MatMul(q, k) {transB=1}\np = Softmax(s)\no = MatMul(p, "
        "v)\noutput o",
        "param q 6 5 4\nparam k 6 6 4\nparam v 6 6 7\ninput m 6 1 6\nt = Transpose(k) {perm=[0 2 1]}\ns = MatMul(q, "
        "t)\ns = Add(s, "
        "m)\np = Softmax(s)\no = MatMul(p, v)\noutput o",
        // Heads are flattened into the batch dimension, which is then transposed. A later node reverses the transpose.
        "param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\nf = Reshape(k) {dims=[6 6 4]}\nt = Transpose(f) {perm=[0 2 "
        "1]}\nt = "
        "Reshape(t) {dims=[2 3 4 6]}\ns = MatMul(q, t)\np = Softmax(s)\no = MatMul(p, v)\noutput o"}) {
    INFO(text);
    CHECK(formed(text).find("FusedAttention") != std::string::npos);
    CHECK(formed(text).find("MatMul") == std::string::npos);
    same_numbers(text, 1e-9);
  }
}

TEST_CASE("what only looks like attention is left alone", "[attention]") {
  const auto unchanged = [](const std::string& text) {
    INFO(text);
    CHECK(formed(text).find("FusedAttention") == std::string::npos);
    same_numbers(text, 1e-9);
  };
  // Kept unfused: a trained mask, scores with other readers, probabilities as output, a scaled mask.
  unchanged(kHeads + "param bias 1 3 5 6\ns = MatMul(q, kt)\ns = Add(s, bias)\np = Softmax(s)" + kTail);
  unchanged(kHeads + "s = MatMul(q, kt)\np = Softmax(s)\nr = Exp(s)\np = Mul(p, r)" + kTail);
  unchanged(kHeads +
            "s = MatMul(q, kt)\np = Softmax(s)\nt = ReduceSum(s) {axes=[0 1 2 3]; keepdims=0}\no = MatMul(p, v)\no = "
            "Mul(o, t)\noutput o");
  unchanged(kHeads + "s = MatMul(q, kt)\ns = Add(s, hide)\ns = Mul(s, c)\np = Softmax(s)" + kTail);
  CHECK(formed(kHeads + "s = MatMul(q, kt)\np = Softmax(s)\no = MatMul(p, v)\noutput p\noutput o").find("Fused") ==
        std::string::npos);
}

TEST_CASE("attention is formed where the plan lets it", "[attention]") {
  const std::string text =
      "param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\ns = MatMul(q, k) {transB=1} @0\np = Softmax(s) @1\no = "
      "MatMul(p, v) @2\noutput o";
  const DType h = DType::f16, f = DType::f32;
  CHECK(formed(text, {h, f, h}) == "FusedAttention");
  CHECK(formed(text, {h, h, h}) == "FusedAttention");
  CHECK(formed(text, {f, f, f}) == "FusedAttention");
  CHECK(formed(text, {h, f, f}) == "MatMul Softmax MatMul");
  CHECK(formed(text, {f, h, f}) == "MatMul Softmax MatMul");
}

TEST_CASE("fused attention drops what the Dropout operator drops", "[attention]") {
  const std::string text = kHeads +
                           "s = MatMul(q, kt)\ns = Add(s, hide)\np = Softmax(s)\np = Dropout(p) {ratio=0.3; site=5; "
                           "rows=2}\no = MatMul(p, v)\n" +
                           "h = Mul(o, o)\nloss = ReduceSum(h) {axes=[0 1 2 3]; keepdims=0}\noutput loss";
  const Graph spelled = prune(CoreText(text).graph), fused = fuse_operators(spelled, {}, cpu_evaluator());
  REQUIRE(ops_of(fused).find("Dropout") == std::string::npos);
  const RunState state{11, 3, 7};
  const std::vector<HostTensor> params = random_params(spelled, 2);
  const auto inputs = random_inputs(spelled, 9);
  const std::vector<double> want = loss_and_gradients(with_gradients(spelled), inputs, params, state);
  CHECK(largest_difference(loss_and_gradients(with_gradients(fused), inputs, params, state), want) <= 2e-6);
  CHECK(largest_difference(loss_and_gradients(with_gradients(fused), inputs, params, {11, 4, 7}), want) > 1e-3);
}
