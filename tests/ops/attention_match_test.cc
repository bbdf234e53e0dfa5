// Attention in its spellings becomes one operator with the same numbers, dropped elements and all; what only looks like it
// stays as it is.
#include <catch2/catch_all.hpp>

#include "backend/program.h"
#include "graph/passes.h"
#include "ops/composites.h"
#include "tests/backend/small_nets.h"
#include "tests/ops/composite_check.h"

using namespace amp;
using namespace amp::test;

namespace {

// q, k, v as (B, S, N, H), moved to (B, N, S, H).
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
           {"empty rows", "s = MatMul(q, kt)\nm = Where(keep, zero, inf)\ns = Add(s, m)\np = Softmax(s)\nn = IsNaN(p)\np = Where(n, zero, p)"},
           {"flattened", "s = MatMul(q, kt)\ns = Reshape(s) {dims=[30 6]}\np = Softmax(s)\np = Reshape(p) {dims=[2 3 5 6]}"}}) {
    DYNAMIC_SECTION(name) {
      const std::string whole = kHeads + text + kTail;
      CHECK(formed(whole).find("FusedAttention") != std::string::npos);
      CHECK(count(formed(whole), "MatMul") + count(formed(whole), "Softmax") + count(formed(whole), "Transpose") == 0);
      same_numbers(whole, 1e-9);
    }
  }
}

TEST_CASE("attention over heads that come first, or are the batch", "[attention]") {
  for (const char* text : {"param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\ns = MatMul(q, k) {transB=1}\np = Softmax(s)\no = MatMul(p, v)\noutput o",
                           "param q 6 5 4\nparam k 6 6 4\nparam v 6 6 7\ninput m 6 1 6\nt = Transpose(k) {perm=[0 2 1]}\ns = MatMul(q, t)\ns = Add(s, "
                           "m)\np = Softmax(s)\no = MatMul(p, v)\noutput o",
                           // The transpose of a flattened batch of heads, put back.
                           "param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\nf = Reshape(k) {dims=[6 6 4]}\nt = Transpose(f) {perm=[0 2 1]}\nt = "
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
  // A mask that learns, scores that others read, probabilities that are an output, a mask that is scaled too.
  unchanged(kHeads + "param bias 1 3 5 6\ns = MatMul(q, kt)\ns = Add(s, bias)\np = Softmax(s)" + kTail);
  unchanged(kHeads + "s = MatMul(q, kt)\np = Softmax(s)\nr = Exp(s)\np = Mul(p, r)" + kTail);
  unchanged(kHeads + "s = MatMul(q, kt)\np = Softmax(s)\nt = ReduceSum(s) {axes=[0 1 2 3]; keepdims=0}\no = MatMul(p, v)\no = Mul(o, t)\noutput o");
  unchanged(kHeads + "s = MatMul(q, kt)\ns = Add(s, hide)\ns = Mul(s, c)\np = Softmax(s)" + kTail);
  CHECK(formed(kHeads + "s = MatMul(q, kt)\np = Softmax(s)\no = MatMul(p, v)\noutput p\noutput o").find("Fused") == std::string::npos);
}

TEST_CASE("attention is formed where the plan lets it", "[attention]") {
  const std::string text =
      "param q 2 3 5 4\nparam k 2 3 6 4\nparam v 2 3 6 7\ns = MatMul(q, k) {transB=1} @0\np = Softmax(s) @1\no = MatMul(p, v) @2\noutput o";
  const DType h = DType::f16, f = DType::f32;
  CHECK(formed(text, {h, f, h}) == "FusedAttention");
  CHECK(formed(text, {h, h, h}) == "FusedAttention");
  CHECK(formed(text, {f, f, f}) == "FusedAttention");
  CHECK(formed(text, {h, f, f}) == "MatMul Softmax MatMul");
  CHECK(formed(text, {f, h, f}) == "MatMul Softmax MatMul");
}

TEST_CASE("fused attention drops what the Dropout operator drops", "[attention]") {
  const std::string text = kHeads + "s = MatMul(q, kt)\ns = Add(s, hide)\np = Softmax(s)\np = Dropout(p) {ratio=0.3; site=5; rows=2}\no = MatMul(p, v)\n" +
                           "h = Mul(o, o)\nloss = ReduceSum(h) {axes=[0 1 2 3]; keepdims=0}\noutput loss";
  const Graph spelled = training_graph(text);
  Graph fused = form_composites(prune(CoreText(text).graph), {}, cpu_evaluator());
  REQUIRE(ops_of(fused).find("Dropout") == std::string::npos);
  {
    Builder b(fused, cpu_evaluator());
    std::vector<ValueId> wrt;
    for (int32_t i = 0; i < fused.n_values(); ++i) {
      if (fused.value(ValueId{i}).kind == ValueKind::param) wrt.push_back(ValueId{i});
    }
    Autodiff ad(b, wrt);
    ad.seed(fused.outputs[0].value, fused.add_input("seed", DType::f32, {}));
    ad.run();
    for (const ValueId w : wrt) fused.param_grads.push_back({fused.value(w).slot, ad.grad(w)});
    fused = prune(fused);
  }
  const RunState state{11, 3, 7};
  const std::vector<HostTensor> params = random_params(spelled, 2);
  const auto run = [&](const Graph& g) {
    std::vector<HostTensor> grads;
    ProgramOptions o;
    const auto arena = cpu_device().make_arena();
    o.arena = arena.get();
    o.state = &state;
    for (const HostTensor& p : params) {
      grads.push_back(HostTensor::zeros(DType::f32, p.dims()));
      o.params.push_back({const_cast<void*>(p.data()), DType::f32, p.dims()});
      o.grads.push_back({grads.back().mutable_data(), DType::f32, p.dims()});
    }
    Program program(std::make_shared<Graph>(g), o);
    for (const auto& [name, t] : random_inputs(g, 9)) program.set_input(name, name == "seed" ? HostTensor::scalar<double>(1) : t);
    program.run();
    std::vector<double> all = program.read("loss").to_doubles();
    for (const HostTensor& t : grads) {
      const std::vector<double> v = t.to_doubles();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  };
  const std::vector<double> a = run(spelled), b = run(fused);
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (const double x : a) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= 2e-6 * largest);
}
