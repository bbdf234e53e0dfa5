// Matrix products for all combinations of storage types against fp64, at the boundaries of all blocks. Results do not
// depend on the number of threads.
#include "backend/cpu/gemm/packed_gemm.h"

#include <omp.h>

#include <catch2/catch_all.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/gemm/gemm_cut.h"
#include "backend/parallel.h"
#include "base/host_tensor.h"

using namespace amp;
using namespace amp::cpu;

namespace {

struct Case {
  int64_t m, n, k;
};

// Returns uniform random numbers in [-1, 1), rounded to type t.
HostTensor draw(Dims dims, unsigned seed, DType t) {
  std::mt19937 bits(seed);
  std::vector<double> x(static_cast<size_t>(numel(dims)));
  for (double& v : x) v = static_cast<double>(bits()) * 0x1p-31 - 1;
  return HostTensor::of<double>(dims, x).cast(t);
}

struct Run {
  HostTensor a, b, bias, c;
  PackedGemm g;

  Run(const Case& s, bool ta, bool tb, DType at, DType bt, DType ct, bool with_bias)
      : a(draw(ta ? Dims{s.k, s.m} : Dims{s.m, s.k}, 1, at)),
        b(draw(tb ? Dims{s.n, s.k} : Dims{s.k, s.n}, 2, bt)),
        bias(draw({s.n}, 3, bt)),
        c(HostTensor::zeros(ct, {s.m, s.n})) {
    g.m = s.m;
    g.n = s.n;
    g.k = s.k;
    g.alpha = 0.75f;
    g.a = {a.data(), at, ta ? s.m : s.k, ta};
    g.b = {b.data(), bt, tb ? s.k : s.n, tb};
    g.c = c.mutable_data();
    g.c_dtype = ct;
    g.ldc = s.n;
    if (with_bias) {
      g.bias = bias.data();
      g.bias_dtype = bt;
    }
  }
  void all_threads() {
    std::vector<char> workspace(static_cast<size_t>(g.workspace()) + 64);
    g.run(workspace.data() + (64 - reinterpret_cast<uintptr_t>(workspace.data()) % 64));
  }
  // Returns the largest error divided by its bound, which covers fp32 sums and the rounding of the result.
  double excess() const {
    const std::vector<double> x = a.to_doubles(), y = b.to_doubles(), z = bias.to_doubles(), got = c.to_doubles();
    const double rounding = g.c_dtype == DType::f32 ? 0x1p-24 : g.c_dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    double worst = 0;
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < g.k; ++p) {
          const double u = x[static_cast<size_t>(g.a.trans ? p * g.m + i : i * g.k + p)];
          const double v = y[static_cast<size_t>(g.b.trans ? j * g.k + p : p * g.n + j)];
          sum += u * v;
          size += std::abs(u * v);
        }
        double want = g.alpha * sum;
        size *= g.alpha;
        if (g.bias) {
          want += z[static_cast<size_t>(j)];
          size += std::abs(z[static_cast<size_t>(j)]);
        }
        // Bound of a sum of k terms that is rounded at each step: (k + 3) u with u = 2^-24. Pairs of bf16 round twice
        // per step, hence 2^-23.
        const double allowed = (static_cast<double>(g.k) + 3) * 0x1p-23 * size + rounding * std::abs(want) + 0x1p-25;
        worst = std::max(worst, std::abs(got[static_cast<size_t>(i * g.n + j)] - want) / allowed);
      }
    }
    return worst;
  }
};

}  // namespace

TEST_CASE("packed products of every mix of types are those of fp64") {
  const std::vector<Case> cases = {{1, 1, 1},      {14, 32, 8},    {15, 33, 9},   {57, 65, 17},    {3, 1, 2051},
                                   {29, 47, 31},   {1, 530, 40},   {113, 70, 64}, {56, 520, 16},   {7, 12, 0},
                                   {70, 33, 1070}, {2, 32, 17500}, {9, 70, 300},  {31, 450, 1070}, {29, 40, 1024}};
  const std::vector<DType> types = {DType::f32, DType::f16, DType::bf16};
  for (const Case& s : cases) {
    for (const DType at : types) {
      for (const DType bt : types) {
        for (const DType ct : types) {
          for (int form = 0; form < 4; ++form) {
            Run r(s, form & 1, form & 2, at, bt, ct, form != 1);
            r.all_threads();
            INFO(s.m << " x " << s.n << " x " << s.k << ' ' << name_of(at) << ' ' << name_of(bt) << " -> "
                     << name_of(ct) << " transposed " << form);
            CHECK(r.excess() <= 1);
            Run here(s, form & 1, form & 2, at, bt, ct, form != 1);
            here.g.run_here();
            CHECK(std::memcmp(here.c.data(), r.c.data(), static_cast<size_t>(r.c.bytes())) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("packed products have the same bits on any number of threads") {
  const int before = omp_get_max_threads();
  for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
    for (const Case& s : {Case{300, 200, 150}, {20, 1100, 130}, {130, 70, 4500}, {120, 500, 1300}}) {
      for (const bool trans_a : {true, false}) {
        omp_set_num_threads(1);
        Run one(s, trans_a, false, t, t, t, true);
        one.all_threads();
        omp_set_num_threads(5);
        Run many(s, trans_a, false, t, t, t, true);
        many.all_threads();
        CHECK(std::memcmp(one.c.data(), many.c.data(), static_cast<size_t>(one.c.bytes())) == 0);
      }
    }
  }
  omp_set_num_threads(before);
}

TEST_CASE("a packed product sums the lanes of an operand in order, once each") {
  // The shapes are wide and tall, with one and with several blocks of the depth, and with B in
  // several chunks of columns.
  const std::vector<Case> cases = {{150, 90, 700},   {90, 210, 700}, {20, 30, 3}, {7, 40, 0},
                                   {40, 1300, 9000}, {0, 40, 9},     {9, 0, 30}};
  for (const Case& s : cases) {
    for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
      INFO(s.m << " x " << s.n << " x " << s.k << ' ' << name_of(t));
      Run r(s, true, false, t, t, DType::f32, false);
      std::vector<float> of_a(static_cast<size_t>(s.m), 7), of_b(static_cast<size_t>(s.n), 7);
      r.g.a_sums = of_a.data();
      r.g.b_sums = of_b.data();
      r.all_threads();
      const auto column_sums = [&](const HostTensor& x, int64_t columns) {
        const HostTensor x32 = x.cast(DType::f32);
        std::vector<float> sums(static_cast<size_t>(columns), 0);
        for (int64_t i = 0; i < x.numel(); ++i) sums[static_cast<size_t>(i % columns)] += x32.as<float>()[i];
        return sums;
      };
      CHECK(of_a == column_sums(r.a, s.m));
      CHECK(of_b == column_sums(r.b, s.n));
      std::fill(of_a.begin(), of_a.end(), 7.0f);
      std::fill(of_b.begin(), of_b.end(), 7.0f);
      r.g.run_here();
      CHECK(of_a == column_sums(r.a, s.m));
      CHECK(of_b == column_sums(r.b, s.n));
    }
  }
}

TEST_CASE("of the tasks that read the same lanes, one sums them") {
  // Rows and columns are both divided: several tasks pack the same rows of A (first shape) or columns of B (second).
  // If all of them added the sums, they would race but mostly give the right result; TSan reports the race.
  const WithThreads four(4);
  for (const Case& s : {Case{90, 130, 700}, Case{90, 180, 700}}) {
    for (const DType t : {DType::f32, DType::bf16}) {
      Run r(s, true, false, t, t, DType::f32, false);
      const GemmCut cut(r.g, 4);
      REQUIRE(cut.row_tasks > 1);
      REQUIRE(cut.column_tasks > 1);
      std::vector<float> of_a(static_cast<size_t>(s.m)), of_b(static_cast<size_t>(s.n)), a = of_a, b = of_b;
      r.g.a_sums = of_a.data();
      r.g.b_sums = of_b.data();
      for (int again = 0; again < 20; ++again) {
        r.all_threads();
        if (again == 0) a = of_a, b = of_b;
        CHECK(of_a == a);
        CHECK(of_b == b);
      }
    }
  }
}
