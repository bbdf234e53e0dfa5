// Tests how adapters begin: the initial values of each kind, and PiSSA's singular values against exact ones.
#include <onnx/defs/parser.h>

#include "importer/surgery/lora.h"
#include "importer/surgery/low_rank.h"
#include "surgery.h"

using namespace amp;
using namespace amp::test;

namespace {

LoraResult adapted_with(SourceGraph& g, const std::string& text, bool keep = false) {
  LoraOptions o = parse_lora(text);
  o.keep = keep;
  return add_lora(g, o);
}

double deviation(const std::vector<double>& x) {
  double square = 0;
  for (const double v : x) square += v * v / static_cast<double>(x.size());
  return std::sqrt(square);
}

Tensors bert_ids() { return pick(tensors_of(kData + "lora.safetensors"), {"input_ids", "attention_mask"}); }

HostTensor logits_of(const SourceGraph& g) {
  Session s(g, {});
  return s.forward({g.find("logits")}, bert_ids()).at("logits");
}

}  // namespace

TEST_CASE("gaussian: A has deviation 1/r; zero: A is zero and B is not") {
  Imported m = import_model(kData + "bert.onnx"), zero = import_model(kData + "bert.onnx");
  std::vector<double> a, b;
  for (const LoraAdapter& l : adapted_with(m.graph, "r=8,init=gaussian").adapters) {
    for (const double x : m.graph.value(l.a).data.to_doubles()) a.push_back(x);
    for (const double x : m.graph.value(l.b).data.to_doubles()) b.push_back(x);
  }
  CHECK(deviation(a) == Catch::Approx(1.0 / 8).epsilon(0.05));
  CHECK(deviation(b) == 0);
  for (const LoraAdapter& l : adapted_with(zero.graph, "r=8,init=zero").adapters) {
    CHECK(deviation(zero.graph.value(l.a).data.to_doubles()) == 0);
    // Uniform in +-1/sqrt(in) has deviation 1 / sqrt(3 in).
    CHECK(deviation(zero.graph.value(l.b).data.to_doubles()) ==
          Catch::Approx(1 / std::sqrt(3.0 * static_cast<double>(l.in))).epsilon(0.15));
  }
}

TEST_CASE("adapters of a table begin with A zero and B normal, whatever the others do") {
  Imported m = import_model(kData + "bert.onnx");
  const LoraResult r = adapted_with(m.graph, "r=8,targets=embedding");
  REQUIRE(r.adapters.size() == 3);
  for (const LoraAdapter& l : r.adapters) {
    CHECK(deviation(m.graph.value(l.a).data.to_doubles()) == 0);
    CHECK(deviation(m.graph.value(l.b).data.to_doubles()) == Catch::Approx(1).epsilon(0.2));
  }
}

TEST_CASE("the principal part has the largest singular values, and is exact for a matrix of that rank") {
  // W = U S V^T with U and V from Givens rotations, so that all singular values are known.
  const int64_t in = 12, out = 9;
  const std::vector<double> singular = {9, 7, 5, 3, 2, 1, 0.5, 0.2, 0.1};
  std::vector<double> w(static_cast<size_t>(in * out));
  for (int64_t i = 0; i < out; ++i) w[static_cast<size_t>(i * out + i)] = singular[static_cast<size_t>(i)];
  for (int k = 0; k < 200; ++k) {
    const double c = std::cos(k + 0.3), s = std::sin(k + 0.3);
    const auto turn = [&](int64_t p, int64_t q, int64_t step, int64_t n, int64_t along) {
      for (int64_t i = 0; i < n; ++i) {
        double &x = w[static_cast<size_t>(p * step + i * along)], &y = w[static_cast<size_t>(q * step + i * along)];
        const double a = x;
        x = c * a - s * y;
        y = s * a + c * y;
      }
    };
    turn(k % in, (k * 5 + 1 + k / in) % in == k % in ? (k + 1) % in : (k * 5 + 1 + k / in) % in, out, out, 1);
    turn(k % out, (k * 4 + 1 + k / out) % out == k % out ? (k + 1) % out : (k * 4 + 1 + k / out) % out, 1, in, out);
  }
  HostTensor t = HostTensor::of<double>({in, out}, w).cast(DType::f32);
  for (const int64_t r : {1, 3, 9, 12}) {
    INFO("r " << r);
    const LowRank p = principal(t, r, 7);
    const HostTensor rest = with_product(t, false, p.left, p.right, -1, 0);
    double square = 0, want = 0;
    for (const double x : rest.to_doubles()) square += x * x;
    for (size_t i = static_cast<size_t>(r); i < singular.size(); ++i) want += singular[i] * singular[i];
    // By Eckart and Young, the smallest distance of a matrix of rank r is the root of the sum of the other squared
    // singular values.
    CHECK(std::sqrt(square) == Catch::Approx(std::sqrt(want)).epsilon(1e-4).margin(1e-5));
    const std::vector<double> left = column_squares(p.left);
    for (int64_t k = 0; k < std::min<int64_t>(r, out); ++k)
      CHECK(left[static_cast<size_t>(k)] == Catch::Approx(singular[static_cast<size_t>(k)]).epsilon(1e-4));
  }
}

TEST_CASE("init=pissa changes nothing at first, and merged or kept exports compute the same") {
  const Imported plain = import_model(kData + "bert.onnx");
  for (const bool keep : {false, true}) {
    INFO("keep " << keep);
    Imported m = import_model(kData + "bert.onnx");
    const LoraResult r = adapted_with(m.graph, "r=4,alpha=8,init=pissa,targets=attention,targets=*pooler*", keep);
    CHECK(r.adapters.size() == 9);
    for (const LoraAdapter& l : r.adapters) {
      CHECK(deviation(m.graph.value(l.a).data.to_doubles()) > 0);
      CHECK(difference(m.graph.value(l.weight).data, plain.graph.value(l.weight).data) > 0.05);
    }
    const HostTensor logits = logits_of(plain.graph);
    CHECK(difference(logits_of(m.graph), logits) < 1e-5);
    const TempDir f;
    Session s(m.graph, {});
    export_model(*m.doc, m.graph, merge_lora(m.graph, r.adapters, all_parameters(s)), {}, f / "out.onnx");
    const Imported again = import_model(f / "out.onnx");
    CHECK(difference(logits_of(again.graph), logits) < 1e-5);
    CHECK((again.graph.nodes.size() == plain.graph.nodes.size()) == !keep);
  }
}

TEST_CASE("init=pissa divides the parts of a packed weight separately") {
  const Imported plain = import_model(kData + "gpt2.onnx");
  Imported m = import_model(kData + "gpt2.onnx");
  const LoraResult r = adapted_with(m.graph, "r=2,alpha=2,init=pissa,targets=qkv");
  REQUIRE(r.adapters.size() == 6);
  std::map<int, HostTensor> sums;
  for (const LoraAdapter& l : r.adapters) {
    HostTensor& w = sums.try_emplace(l.weight, m.graph.value(l.weight).data).first->second;
    w = with_product(w, l.transposed, m.graph.value(l.a).data, m.graph.value(l.b).data, l.scale, l.first);
  }
  for (const auto& [v, w] : sums) CHECK(difference(w, plain.graph.value(v).data) < 1e-6);
}

TEST_CASE("variants are refused where they cannot be computed") {
  const auto refused = [](const std::string& file, const std::string& text, const std::string& trainable = "") {
    Imported m = import_model(test_data(file));
    LoraOptions o = parse_lora(text);
    o.evaluate = cpu_evaluator();
    if (!trainable.empty()) o.trainable = {trainable};
    const Error e = error_of([&] { add_lora(m.graph, o); });
    CHECK(e.exit() == Exit::usage);
    CHECK(e.id() == "E_LORA");
    return e.fact();
  };
  CHECK(refused("surgery/bert.onnx", "dora=true,targets=embedding").find("tables") != std::string::npos);
  CHECK(refused("surgery/conv.onnx", "dora=true,targets=conv").find("convolutions") != std::string::npos);
  CHECK(refused("surgery/bert.onnx", "dora=true,targets=q", "*query*").find("trains this weight") != std::string::npos);
  CHECK(refused("llm/llama-int4/model.onnx", "init=pissa").find("floating-point") != std::string::npos);
  CHECK(refused("surgery/bert.onnx", "init=pissa,targets=embedding").find("floating-point matrix") !=
        std::string::npos);
  CHECK(refused("surgery/bert.onnx", "targets=nothing_*").find("matches no linear map") != std::string::npos);
  CHECK(refused("surgery/bert.onnx", "targets=q,rank_pattern=down:4").find("rank_pattern=down") != std::string::npos);
  CHECK(refused("surgery/bert.onnx", "targets=q,alpha_pattern=*kye*:4").find("alpha_pattern") != std::string::npos);
  CHECK(error_of([&] { parse_lora("dora=true,init=pissa"); }).id() == "E_LORA");
}
