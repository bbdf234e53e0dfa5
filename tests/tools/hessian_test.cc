// `grad --hvp`: H v against its closed form, and all errors.
#include <catch2/catch_all.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/safetensors.h"
#include "tests/importer/models.h"
#include "tests/support.h"
#include "tests/tools/verb_run.h"

using namespace amp;
using namespace amp::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string kHeader = "<ir_version: 8, opset_import: [\"\": 17]> ";

HostTensor waves(Dims dims, double step) {
  std::vector<double> v;
  for (int64_t i = 1; i <= numel(dims); ++i) v.push_back(std::sin(step * static_cast<double>(i * i + 3 * i)));
  return HostTensor::of(dims, v).cast(DType::f32);
}

std::string literal(const HostTensor& t) {
  std::string s;
  for (const double v : t.to_doubles()) s += cat(s.empty() ? "" : ", ", v);
  return "{" + s + "}";
}

// The model y = x w1 w2 with 5 rows, and its files.
struct Net {
  TempDir f;
  HostTensor x = waves({5, 4}, 0.3), label = waves({5, 2}, 0.9), w1 = waves({4, 3}, 0.7), w2 = waves({3, 2}, 1.1);
  Net() {
    save(f, test::parse(kHeader + "net (float[5,4] x) => (float[5,2] y) <float[4,3] w1 = " + literal(w1) +
                        ", float[3,2] w2 = " + literal(w2) + "> { h = MatMul(x, w1) y = MatMul(h, w2) }"));
    write_safetensors(f / "data.safetensors", {{"x", x}, {"label", label}});
  }
  Said run(const std::vector<NamedTensor>& v, std::vector<std::string> more = {}) const {
    write_safetensors(f / "v.safetensors", v);
    std::vector<std::string> words = {"grad",  f / "model.onnx",    "--inputs", f / "data.safetensors", "--loss", "mse",
                                      "--hvp", f / "v.safetensors", "--out",    f / "hv.safetensors"};
    words.insert(words.end(), more.begin(), more.end());
    return run_verb(words);
  }
  Said refused(const std::vector<NamedTensor>& v, int code, const std::string& id,
               std::vector<std::string> more = {}) const {
    const Said s = run(v, std::move(more));
    CHECK(s.code == code);
    CHECK(s.id == id);
    CHECK_FALSE(std::filesystem::exists(f / "hv.safetensors"));
    return s;
  }
};

// Row-major matrices in fp64.
struct Matrix {
  size_t rows, cols;
  std::vector<double> v;
  Matrix(size_t r, size_t c) : rows(r), cols(c), v(r * c, 0.0) {}
  explicit Matrix(const HostTensor& t)
      : rows(static_cast<size_t>(t.dims()[0])), cols(static_cast<size_t>(t.dims()[1])), v(t.to_doubles()) {}
  double operator()(size_t i, size_t j) const { return v[i * cols + j]; }
  Matrix t() const {
    Matrix m(cols, rows);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) m.v[j * rows + i] = (*this)(i, j);
    return m;
  }
  Matrix operator*(const Matrix& b) const {
    Matrix m(rows, b.cols);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < b.cols; ++j)
        for (size_t k = 0; k < cols; ++k) m.v[i * b.cols + j] += (*this)(i, k) * b(k, j);
    return m;
  }
  Matrix plus(const Matrix& b, double factor) const {
    Matrix m = *this;
    for (size_t i = 0; i < v.size(); ++i) m.v[i] += factor * b.v[i];
    return m;
  }
};

void same(const HostTensor& have, const Matrix& want, double factor) {
  const std::vector<double> x = have.to_doubles();
  REQUIRE(x.size() == want.v.size());
  for (size_t i = 0; i < x.size(); ++i) CHECK(x[i] == Catch::Approx(factor * want.v[i]).epsilon(1e-5).margin(1e-6));
}

}  // namespace

// L = |x A B - t|^2 / n.  With E = x A B - t and (P, Q) the direction: dE = x P B + x A Q,
// H v = 2/n (x^T (dE B^T + E Q^T), (x A)^T dE + (x P)^T E).
TEST_CASE("grad --hvp writes H v of a product of two layers, and tells v H v") {
  const Net net;
  const HostTensor p = waves({4, 3}, 0.37), q = waves({3, 2}, 0.53);
  const Matrix x(net.x), t(net.label), a(net.w1), b(net.w2), P(p), Q(q);
  const Matrix e = (x * a * b).plus(t, -1), de = (x * P * b).plus(x * a * Q, 1);
  const Matrix first = x.t() * (de * b.t()).plus(e * Q.t(), 1), second = ((x * a).t() * de).plus((x * P).t() * e, 1);
  for (const char* type : {"fp32", "fp64"}) {
    const Said s = net.run({{"w1", p}, {"w2", q}}, {"--dtype", type});
    REQUIRE(s.code == 0);
    const SafeTensors out = read_safetensors(net.f / "hv.safetensors");
    REQUIRE(out.tensors.size() == 2);
    same(*out.find("w1"), first, 2.0 / 10);
    same(*out.find("w2"), second, 2.0 / 10);
    double curvature = 0;
    for (size_t i = 0; i < first.v.size(); ++i) curvature += 0.2 * first.v[i] * P.v[i];
    for (size_t i = 0; i < second.v.size(); ++i) curvature += 0.2 * second.v[i] * Q.v[i];
    const auto line = nlohmann::json::parse(s.out);
    CHECK(line["curvature"].get<double>() == Catch::Approx(curvature).epsilon(1e-5));
    CHECK(line["parameters"] == 2);
  }
}

TEST_CASE("grad --hvp: a loss that is linear in a parameter has no curvature: exactly 0") {
  const TempDir f;
  save(f, test::parse(kHeader + "net (float[5,4] x) => (float l) <float[4,3] w = " + literal(waves({4, 3}, 0.7)) +
                      "> { h = MatMul(x, w) l = ReduceMean<keepdims = 0>(h) }"));
  write_safetensors(f / "data.safetensors", {{"x", waves({5, 4}, 0.3)}});
  write_safetensors(f / "v.safetensors", {{"w", waves({4, 3}, 0.2)}});
  must_run({"grad", f / "model.onnx", "--inputs", f / "data.safetensors", "--loss", "model", "--hvp",
            f / "v.safetensors", "--out", f / "hv.safetensors"});
  const SafeTensors out = read_safetensors(f / "hv.safetensors");
  REQUIRE(out.find("w"));
  for (const double h : out.find("w")->to_doubles()) CHECK(h == 0);
}

TEST_CASE("grad --hvp names what is missing, unknown, of another shape or frozen in v") {
  const Net net;
  const HostTensor p = waves({4, 3}, 0.37), q = waves({3, 2}, 0.53);
  const int data = static_cast<int>(Exit::data);
  CHECK_THAT(net.refused({{"w1", p}}, data, "E_HVP_NAME").fact, ContainsSubstring("w2"));
  CHECK_THAT(net.refused({{"w1", p}, {"w2", q}, {"w3", q}}, data, "E_HVP_NAME").fact, ContainsSubstring("w3"));
  const Said shape = net.refused({{"w1", q}, {"w2", q}}, data, "E_HVP_SHAPE");
  CHECK_THAT(shape.fact, ContainsSubstring("w1") && ContainsSubstring("[3,2]") && ContainsSubstring("[4,3]"));
  const Said integers = net.refused({{"w1", HostTensor::of<int64_t>({4, 3}, std::vector<int64_t>(12, 1))}, {"w2", q}},
                                    data, "E_HVP_SHAPE");
  CHECK_THAT(integers.fact, ContainsSubstring("w1"));
  CHECK_THAT(net.refused({{"w1", p}, {"w2", q}}, data, "E_HVP_NAME", {"--freeze", "w1"}).fact, ContainsSubstring("w1"));
}

TEST_CASE("grad --hvp is computed in fp32 or fp64") {
  const Net net;
  const std::vector<NamedTensor> v{{"w1", waves({4, 3}, 0.37)}, {"w2", waves({3, 2}, 0.53)}};
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--dtype", "fp16"}, {"--use_bf16"}, {"--dtype", "bf16"}})
    net.refused(v, static_cast<int>(Exit::usage), "E_USAGE", flags);
}

TEST_CASE("grad --hvp refuses an operator without a second gradient by name") {
  const TempDir f;
  save(f, test::parse(kHeader + "net (float[1,1,4,4] x, float[1,2,2,2] at) => (float[1,1,2,2] y) <float[1,1,1,1] w = "
                                "{0.7}> { h = Mul(x, w) s = Tanh(h) g = GridSample(s, at) y = Mul(g, g) }"));
  write_safetensors(
      f / "data.safetensors",
      {{"x", waves({1, 1, 4, 4}, 0.3)}, {"at", waves({1, 2, 2, 2}, 0.8)}, {"label", waves({1, 1, 2, 2}, 0.4)}});
  write_safetensors(f / "v.safetensors", {{"w", waves({1, 1, 1, 1}, 0.2)}});
  const std::vector<std::string> words = {
      "grad", f / "model.onnx", "--inputs",           f / "data.safetensors", "--loss", "mse", "--trainable",
      "w",    "--out",          f / "out.safetensors"};
  must_run(words);
  std::vector<std::string> twice = words;
  twice.insert(twice.end(), {"--hvp", f / "v.safetensors"});
  const Said s = run_verb(twice);
  CHECK(s.code == static_cast<int>(Exit::unsupported));
  CHECK(s.id == "E_NO_SECOND_GRADIENT");
  CHECK_THAT(s.fact, ContainsSubstring("GridSample"));
  CHECK_FALSE(s.hint.empty());
}
