// The kernels of CrossEntropy and CrossEntropyGrad (ops/cross_entropy.cc). A row's maximum and sum of exponentials are
// computed in one read (online softmax). A label out of range is an error on the CPU. A kernel on a GPU cannot raise an
// error, so such a label gives a loss of NaN, and a loss that is not finite stops the run.
#include <cfloat>

#include "backend/cpu/workspace.h"
#include "backend/cuda/raw.cuh"
#include "backend/cuda/rows.cuh"

namespace amp::cuda {
namespace {

// Calls take(v, index) for all elements of the row that begins at element `at`. v has one element at the row's
// unaligned ends and four elements between them. Each thread issues four loads before it uses the first.
template <class F>
DEV void walk(const Ref& x, int64_t at, int64_t n, const RowTeam& team, F take) {
  const int64_t misaligned = (4 - at % 4) % 4, head = misaligned < n ? misaligned : n;
  const int64_t groups = (n - head) / 4, ends = n - 4 * groups;
  team.for_each(ends, [&](int64_t j) {
    const int64_t i = j < head ? j : j + 4 * groups;
    float v[1];
    load_some(x, at + i, v);
    take(v, i);
  });
  for (int64_t g = team.first(); g < groups; g += 4 * team.step()) {
    Raw<float, 4> raw[4];
    unrolled<4>([&](auto u) {
      const int64_t i = g + u * team.step();
      if (i < groups) raw[u] = fetch<float, 4>(x, at + head + 4 * i);
    });
    unrolled<4>([&](auto u) {
      const int64_t i = g + u * team.step();
      if (i >= groups) return;
      float v[4];
      unpack(x, raw[u], v);
      take(v, head + 4 * i);
    });
  }
}

// Computes in one read of a row its largest element (top) and the sum of e^(x - top) (total).
struct SoftmaxSum {
  float top = -FLT_MAX;  // -infinity would give e^(-inf - -inf), which is NaN
  float total = 0;

  template <int W>
  DEV void add(const float (&v)[W]) {
    float now = top;
    for (int w = 0; w < W; ++w) now = v[w] > now ? v[w] : now;
    if (now > top) {
      total *= expf(top - now);
      top = now;
    }
    for (int w = 0; w < W; ++w) total += expf(v[w] - now);  // a NaN propagates
  }
};

DEV SoftmaxSum softmax_sum(const Ref& x, int64_t at, int64_t n, const RowTeam& team) {
  SoftmaxSum s;
  walk(x, at, n, team, [&](const auto& v, int64_t) { s.add(v); });
  const float top = team.reduce(s.top, -FLT_MAX, Maximum{});
  s.total = team.reduce(s.total * expf(s.top - top), 0.0f, Sum{});
  s.top = top;
  return s;
}

struct Losses {
  Ref x;
  const int64_t* labels;
  float* losses;  // loss of each row
  int64_t n, ignore;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int64_t label = labels[row];
    float loss = 0;
    if (label != ignore) {
      const SoftmaxSum s = softmax_sum(x, row * n, n, team);
      loss = label >= 0 && label < n ? logf(s.total) + (s.top - load<float>(x, row * n + label)) : NAN;
    }
    if (team.leads()) losses[row] = loss;
  }
};

struct SumUp {
  static constexpr bool cooperative = true;
  const float* v;
  float* y;
  int64_t n;
  DEV void operator()() const {
    float sum = 0;
    for (int64_t i = thread_index(); i < n; i += block_threads()) sum += v[i];
    sum = block_reduce(sum, 0.0f, Sum{}, shared_memory<float>());
    if (thread_index() == 0) *y = sum;
  }
};

struct Gradient {
  Ref x, dx;
  const int64_t* labels;
  const float* seed;
  int64_t n, ignore;
  DEV void operator()(int64_t row, const RowTeam& team) const {
    const int64_t label = labels[row], at = row * n;
    if (label == ignore) {
      team.for_each(n, [&](int64_t i) { store(dx, at + i, 0.0f); });
      return;
    }
    const SoftmaxSum s = softmax_sum(x, at, n, team);
    const float hit = label >= 0 && label < n ? *seed : NAN, scale = hit / s.total;
    walk(x, at, n, team, [&](const auto& v, int64_t i) {
      constexpr int W = static_cast<int>(sizeof(v) / sizeof(float));
      float d[W];
      unrolled<W>([&](auto w) { d[w] = expf(v[w] - s.top) * scale - (i + w == label ? hit : 0.0f); });
      store_some(dx, at + i, d);
    });
  }
};

Kernel loss(const KernelArgs& a, Carver& carver) {
  if (in_double(a)) no_fp64(a);
  const int64_t rows = a.in[0].dims.at(0), n = a.in[0].dims.at(1), ignore = a.attrs().i("ignore_index", -100);
  float* const losses = carver.take<float>(rows);
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(a);
  const SumUp sum{losses, a.out[0].as<float>(), rows};
  const Losses body{a.in[0], a.in[1].as<int64_t>(), losses, n, ignore};
  return [&d, body, sum] {
    for_each_row(d, sum.n, body.n, body);
    launch(d, {1, sum.n > 32 ? 256 : 32, 32 * sizeof(float)}, sum);
  };
}

Kernel gradient(const KernelArgs& a) {
  if (in_double(a)) no_fp64(a);
  const int64_t rows = a.in[0].dims.at(0), n = a.in[0].dims.at(1);
  const Gradient body{
      a.in[0], a.out[0], a.in[1].as<int64_t>(), a.in[2].as<float>(), n, a.attrs().i("ignore_index", -100)};
  return [&d = device_of(a), rows, body] { for_each_row(d, rows, body.n, body); };
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "CrossEntropy", with_workspace<loss>, measure_workspace<loss>},
                                  {DeviceKind::cuda, "CrossEntropyGrad", gradient}};

}  // namespace
}  // namespace amp::cuda
