// Tests in the emulator the check of a library's matrix products with epilogues, and the fallback for unsupported
// epilogues.
#include "backend/cuda/library_product.h"

#include <catch2/catch_all.hpp>
#include <cmath>
#include <iostream>
#include <sstream>

#include "tests/cuda/fake_clock.h"
#include "tests/cuda/on_device.h"
#include "tests/ops/one_node.h"

using namespace amp;
using namespace amp::test;

namespace {

// A fake library that sums in plain loops and can add an error. It supports fp32 only.
struct FakeProduct final : WithClock<cuda::LibraryProduct> {
  cuda::EpilogueProduct what;
  double error = 0, extra_error = 0;
  bool refuses = false, waits = true;
  int* all_runs = nullptr;
  FakeProduct() { memory = true; }

  bool may_wait() const override { return waits; }
  bool run(const void* a, const void* b, void* c, void* extra) override {
    ++runs;
    ++*all_runs;
    if (refuses) return false;
    const cuda::Gemm& g = what.gemm;
    const auto *x = static_cast<const float*>(a), *y = static_cast<const float*>(b);
    auto *to = static_cast<float*>(c), *more = static_cast<float*>(extra);
    const auto at_a = [&](int64_t i, int64_t k) {
      return static_cast<double>(x[g.trans_a ? k * g.m + i : i * g.k + k]);
    };
    const auto at_b = [&](int64_t k, int64_t j) {
      return static_cast<double>(y[g.trans_b ? j * g.k + k : k * g.n + j]);
    };
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < g.k; ++k) sum += at_a(i, k) * at_b(k, j);
        float& r = to[i * g.n + j];
        r = static_cast<float>(sum + error) + (g.beta != 0 ? r : 0.0f);
      }
    }
    const bool of_a = what.epilogue == cuda::Epilogue::sums_a;
    for (int64_t i = 0; i < (of_a ? g.m : g.n); ++i) {
      double sum = extra_error;
      for (int64_t k = 0; k < g.k; ++k) sum += of_a ? at_a(i, k) : at_b(k, i);
      more[i] = static_cast<float>(sum);
    }
    return true;
  }
};

struct Setting {
  int64_t of = 1;
  double error = 0, extra_error = 0;
  bool refuses = false;
};

struct Outcome {
  std::vector<std::vector<HostTensor>> results;
  int runs = 0;
  std::string warning;
  std::vector<cuda::EpilogueProduct> asked;
};

// Runs the node three times.
Outcome run_thrice(const Setting& s, const std::vector<HostTensor>& in) {
  Outcome o;
  const auto device = cuda::make_emulated_device();
  device->products = [&](const cuda::EpilogueProduct& p) {
    const auto fake = std::make_shared<FakeProduct>();
    fake->what = p;
    fake->error = s.error;
    fake->extra_error = s.extra_error;
    fake->refuses = s.refuses;
    fake->all_runs = &o.runs;
    o.asked.push_back(p);
    return fake;
  };
  std::ostringstream said;
  OnDevice node(*device, "MatMulBiasGrad", in, {{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", s.of}},
                DType::f32);
  for (int i = 0; i < 3; ++i) {  // redirected only here, because Catch2 redirects std::cerr around assertions
    std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
    o.results.push_back(node.run(in));
    std::cerr.rdbuf(before);
  }
  o.warning = said.str();
  return o;
}

}  // namespace

TEST_CASE("a library's product with sums is used after it has agreed", "[cuda]") {
  const std::vector<HostTensor> in{draw({40, 12}, 1), draw({40, 20}, 2)};
  for (const int64_t of : {0, 1}) {
    const auto want = on_cpu("MatMulBiasGrad", in, {{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", of}});
    const Outcome o = run_thrice({of}, in);
    REQUIRE(o.asked.size() == 1);
    CHECK(o.asked[0].epilogue == (of == 0 ? cuda::Epilogue::sums_a : cuda::Epilogue::sums_b));
    CHECK((o.asked[0].gemm.m == 12 && o.asked[0].gemm.n == 20 && o.asked[0].gemm.k == 40 && o.asked[0].gemm.beta == 0));
    CHECK(o.runs == 3);
    CHECK(o.warning == "");
    for (const auto& r : o.results) {
      for (size_t i = 0; i < 2; ++i) {
        CHECK(worst(r[i], want[i]) < 1e-6);
        CHECK(same_bits(r[i], o.results[0][i]));  // all runs, also the first, in which the library is validated
      }
    }
  }
}

TEST_CASE("a library's wrong product is dropped for good", "[cuda]") {
  const std::vector<HostTensor> in{draw({40, 12}, 1), draw({40, 20}, 2)};
  const auto want = on_cpu("MatMulBiasGrad", in, {{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", int64_t{1}}});
  for (const Setting& s : {Setting{1, 3.0, 0}, Setting{1, 0, 3.0}, Setting{1, NAN, 0}, Setting{1, 0, 0, true}}) {
    const Outcome o = run_thrice(s, in);
    CHECK(o.runs == 1);
    CHECK_THAT(o.warning, Catch::Matchers::ContainsSubstring("W_LIBRARY: a library") &&
                              Catch::Matchers::ContainsSubstring(s.refuses ? "refuses" : "is off by"));
    for (const auto& r : o.results) {
      for (size_t i = 0; i < 2; ++i) CHECK(worst(r[i], want[i]) < 1e-6);
    }
  }
}

TEST_CASE("zeros do not validate a library", "[cuda]") {
  const std::vector<HostTensor> zeros{HostTensor::zeros(DType::f32, {6, 4}), HostTensor::zeros(DType::f32, {6, 8})};
  const Outcome o = run_thrice({1, 3.0, 0}, zeros);
  CHECK(o.runs == 3);
  CHECK(o.warning == "");
  for (const auto& r : o.results) CHECK(same_bits(r[0], HostTensor::zeros(DType::f32, {4, 8})));
}

TEST_CASE("accumulating, a library's product adds once", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  int runs = 0;
  device->products = [&](const cuda::EpilogueProduct& p) {
    CHECK(p.gemm.beta == 1);
    const auto fake = std::make_shared<FakeProduct>();
    fake->what = p;
    fake->all_runs = &runs;
    return fake;
  };
  const HostTensor x = draw({30, 5}, 1), dy = draw({30, 8}, 2), start = draw({5, 8}, 3), start_sums = draw({8}, 4);
  const Attrs attrs{{"transA", int64_t{1}}, {"transB", int64_t{0}}, {"of", int64_t{1}}};
  Graph g;
  const Node& node =
      g.node(g.add_node(core_op("MatMulBiasGrad"),
                        {g.add_input("x", DType::f32, {30, 5}), g.add_input("dy", DType::f32, {30, 8})}, attrs, {}));
  HostTensor c = draw({5, 8}, 3), sums = draw({8}, 4);
  std::vector<char> scratch(static_cast<size_t>(device->workspace(g, node)) + 64);
  KernelArgs a{node, {}, {}, nullptr, nullptr, device.get()};
  a.workspace = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  for (const HostTensor* t : {&x, &dy}) a.in.push_back({const_cast<void*>(t->data()), t->dtype(), t->dims()});
  for (HostTensor* t : {&c, &sums}) a.out.push_back({t->mutable_data(), t->dtype(), t->dims()});
  const Kernel add = device->kernel("MatMulBiasGrad+=")(a);
  const auto once = on_cpu("MatMulBiasGrad", {x, dy}, attrs);
  for (int round = 1; round <= 3; ++round) {
    add();
    const auto expect = [&](const HostTensor& from, const HostTensor& each, const HostTensor& got) {
      const std::vector<double> f = from.to_doubles(), e = each.to_doubles(), r = got.to_doubles();
      for (size_t i = 0; i < r.size(); ++i) REQUIRE(std::abs(r[i] - (f[i] + round * e[i])) < 1e-4);
    };
    expect(start, once[0], c);
    expect(start_sums, once[1], sums);
  }
  CHECK(runs == 3);
}

// A checked product as in MatMulBiasGrad+=: it adds a b to c, and its extra result is `sums`. The project's kernel is a
// plain loop.
struct Accumulating {
  std::unique_ptr<cuda::EmulatedDevice> device = cuda::make_emulated_device();
  std::shared_ptr<FakeProduct> fake = std::make_shared<FakeProduct>();
  int runs = 0;
  std::vector<float> a{1, 2, 3, 4}, b{5, 6, 7, 8}, c{100, 200, 300, 400}, sums{0, 0};
  static constexpr float kOwn = 1.00001f;  // marks the project's result by a change within the tolerance
  std::vector<float> want(float factor) const {
    return {100 + factor * 19, 200 + factor * 22, 300 + factor * 43, 400 + factor * 50};
  }

  Accumulating() {
    fake->all_runs = &runs;
    fake->what.gemm = {2, 2, 2};
    fake->what.gemm.beta = 1;
    fake->what.epilogue = cuda::Epilogue::sums_b;
    fake->memory.reset();
  }
  void run(cuda::GuardedProduct& guard) {
    guard.run(a.data(), b.data(), c.data(), sums.data(), [this] {
      const std::vector<float> next = want(kOwn);
      const std::vector<float> base{100, 200, 300, 400};
      for (size_t i = 0; i < 4; ++i) c[i] += next[i] - base[i];
      sums = {12, 14};
    });
  }
};

TEST_CASE("a library's product that is slower is dropped, and timing does not change results", "[cuda]") {
  for (const bool faster : {true, false}) {
    Accumulating x;
    x.fake->own_ms = faster ? 2 : 0.5;
    cuda::GuardedProduct guard(*x.device, x.fake->what, x.fake);
    x.run(guard);
    CHECK(x.fake->timed == 2);
    CHECK(x.fake->memory == faster);
    CHECK(static_cast<bool>(guard) == faster);
    const std::vector<float> want = x.want(faster ? 1.0f : x.kOwn);
    for (size_t i = 0; i < 4; ++i) CHECK(x.c[i] == Catch::Approx(want[i]).epsilon(1e-7));
    CHECK(x.sums == std::vector<float>{12, 14});
    const int before = x.runs;
    x.c = {100, 200, 300, 400};
    x.run(guard);
    CHECK(x.runs == before + (faster ? 1 : 0));
    for (size_t i = 0; i < 4; ++i) CHECK(x.c[i] == Catch::Approx(want[i]).epsilon(1e-7));
  }
}

TEST_CASE("a product that is stored as slower is validated at most once and not timed", "[cuda]") {
  Accumulating x;
  x.fake->memory = false;
  cuda::GuardedProduct guard(*x.device, x.fake->what, x.fake);
  x.run(guard);
  CHECK(x.fake->timed == 0);
  CHECK_FALSE(static_cast<bool>(guard));
  for (size_t i = 0; i < 4; ++i) CHECK(x.c[i] == Catch::Approx(x.want(x.kOwn)[i]).epsilon(1e-7));
}

TEST_CASE("without memory for the comparison, a product continues without its library", "[cuda]") {
  Accumulating x;
  cuda::GuardedProduct guard(*x.device, x.fake->what, x.fake);
  x.device->memory_limit = x.device->memory_in_use() + 16;
  x.run(guard);
  CHECK(x.runs == 0);
  for (size_t i = 0; i < 4; ++i) CHECK(x.c[i] == Catch::Approx(x.want(x.kOwn)[i]).epsilon(1e-7));
  x.device->memory_limit = 0;
  x.run(guard);
  CHECK(x.runs > 0);
}

TEST_CASE("a decision about one product holds for all with its key", "[cuda]") {
  for (const double error : {0.0, 30.0}) {
    Accumulating x;
    x.fake->shared_key = "the same";
    x.fake->memory = true;
    x.fake->error = error;
    cuda::GuardedProduct first(*x.device, x.fake->what, x.fake), second(*x.device, x.fake->what, x.fake);
    std::ostringstream said;
    std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
    x.run(first);
    const int runs = x.runs;
    x.run(second);
    std::cerr.rdbuf(before);
    CHECK(x.runs == runs + (error == 0 ? 1 : 0));
    CHECK((said.str().find("W_LIBRARY") != std::string::npos) == (error != 0));
  }
}

TEST_CASE("a bias that the library does not support is added by a kernel", "[cuda]") {
  const auto device = cuda::make_emulated_device();
  device->refuses_bias = true;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const std::vector<HostTensor> in{draw({3, 7, 10}, 1, type), draw({10, 6}, 2, type), draw({6}, 3, type)};
    const HostTensor want = on_cpu("MatMul", in, {})[0];
    for (const DType out : {type, DType::f32}) {
      OnDevice node(*device, "MatMul", in, {}, out);
      CHECK(worst(node.run(in)[0], want) < (out == DType::f32 ? 2e-6 : out == DType::f16 ? 2e-3 : 1.6e-2));
    }
  }
}
