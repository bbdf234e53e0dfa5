// Measures GFLOP/s of convolution and its two gradients on one thread, next to oneDNN's primitives in the layouts that
// oneDNN prefers. Conversions between layouts are not timed, because a chain of convolutions in these layouts needs
// none.
//   conv_speed [ROUNDS [PART OF A CASE'S NAME [bf16]]]
// The two implementations alternate, and the medians of the rounds are printed. With bf16, images, weights and results
// are bf16, and gradients of weights are fp32.
#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backend/cpu/conv/conv.h"
#include "bench/timing.h"

using namespace amp;

namespace {

struct Case {
  const char* name;
  int64_t n, c, size, m, kernel, stride, pad, groups;
};
const Case cases[] = {
    {"resnet stem 7x7/2", 8, 3, 128, 64, 7, 2, 3, 1},
    {"resnet 3x3 64 32", 8, 64, 32, 64, 3, 1, 1, 1},
    {"resnet 3x3/2 64-128 32", 8, 64, 32, 128, 3, 2, 1, 1},
    {"resnet 3x3 128 16", 8, 128, 16, 128, 3, 1, 1, 1},
    {"resnet 1x1/2 64-128 32", 8, 64, 32, 128, 1, 2, 0, 1},
    {"resnet 3x3 256 8", 8, 256, 8, 256, 3, 1, 1, 1},
    {"resnet 3x3/2 256-512 8", 8, 256, 8, 512, 3, 2, 1, 1},
    {"resnet 3x3 512 4", 8, 512, 4, 512, 3, 1, 1, 1},
    {"resnet 3x3 512 4 n 32", 32, 512, 4, 512, 3, 1, 1, 1},
    {"resnet 3x3 256 14", 2, 256, 14, 256, 3, 1, 1, 1},
    {"resnet50 1x1 64-256 32", 4, 64, 32, 256, 1, 1, 0, 1},
    {"resnet50 1x1 256-64 32", 4, 256, 32, 64, 1, 1, 0, 1},
    {"resnet50 1x1 512-2048 4", 4, 512, 4, 2048, 1, 1, 0, 1},
    {"unet 3x3 16 128", 2, 16, 128, 16, 3, 1, 1, 1},
    {"unet 3x3 96-32 128", 2, 96, 128, 32, 3, 1, 1, 1},
    {"unet 3x3 32 128", 2, 32, 128, 32, 3, 1, 1, 1},
    {"unet 3x3 64 64", 2, 64, 64, 64, 3, 1, 1, 1},
    {"unet 3x3 256 16", 2, 256, 16, 256, 3, 1, 1, 1},
    {"unet 3x3 512-256 16", 2, 512, 16, 256, 3, 1, 1, 1},
    {"mobilenet 1x1 32-16 48", 8, 32, 48, 16, 1, 1, 0, 1},
    {"mobilenet 1x1 96-24 24", 8, 96, 24, 24, 1, 1, 0, 1},
    {"mobilenet depthwise 96 48/2", 8, 1, 48, 1, 3, 2, 1, 96},
    {"mobilenet depthwise 384 6", 8, 1, 6, 1, 3, 1, 1, 384},
    {"convnext depthwise 7x7 96 24", 8, 1, 24, 1, 7, 1, 3, 96},
    {"convnext 1x1 96-384 24", 8, 96, 24, 384, 1, 1, 0, 1},
};

struct Prepared {
  std::vector<char> workspace;
  Kernel run;
};
template <class F>
Prepared prepare(F&& make) {
  Carver measure(nullptr);
  make(measure);
  Prepared p;
  p.workspace.resize(static_cast<size_t>(measure.bytes()) + 64);
  Carver carve(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p.workspace.data()) + 63) / 64 * 64));
  p.run = make(carve);
  return p;
}

using tag = dnnl::memory::format_tag;
struct Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<dnnl::primitive> primitives;
  std::vector<std::unordered_map<int, dnnl::memory>> arguments;

  Library(const Case& k, bool bf16) {
    using dnnl::memory;
    const int64_t out = (k.size + 2 * k.pad - k.kernel) / k.stride + 1;
    const auto f32 = memory::data_type::f32, type = bf16 ? memory::data_type::bf16 : f32;
    const memory::desc x({k.n, k.groups * k.c, k.size, k.size}, type, tag::any),
        y({k.n, k.groups * k.m, out, out}, type, tag::any);
    const memory::dims w_dims = k.groups > 1 ? memory::dims{k.groups, k.m, k.c, k.kernel, k.kernel}
                                             : memory::dims{k.m, k.c, k.kernel, k.kernel};
    const memory::desc w(w_dims, type, tag::any), dw(w_dims, f32, tag::any);
    const memory::dims stride{k.stride, k.stride}, pad{k.pad, k.pad};
    const auto train = dnnl::prop_kind::forward_training;
    const auto direct = dnnl::algorithm::convolution_auto;
    const dnnl::convolution_forward::primitive_desc forward({train, direct, x, w, y, stride, pad, pad}, engine);
    const dnnl::convolution_backward_data::primitive_desc data(
        {dnnl::algorithm::convolution_direct, x, w, y, stride, pad, pad}, engine, forward);
    const dnnl::convolution_backward_weights::primitive_desc weights(
        {dnnl::algorithm::convolution_direct, x, dw, y, stride, pad, pad}, engine, forward);
    const auto fresh = [&](const memory::desc& d) {
      memory m(d, engine);
      std::memset(m.get_data_handle(), 0, d.get_size());
      return m;
    };
    primitives = {dnnl::convolution_forward(forward), dnnl::convolution_backward_data(data),
                  dnnl::convolution_backward_weights(weights)};
    arguments = {{{DNNL_ARG_SRC, fresh(forward.src_desc())},
                  {DNNL_ARG_WEIGHTS, fresh(forward.weights_desc())},
                  {DNNL_ARG_DST, fresh(forward.dst_desc())}},
                 {{DNNL_ARG_DIFF_SRC, fresh(data.diff_src_desc())},
                  {DNNL_ARG_WEIGHTS, fresh(data.weights_desc())},
                  {DNNL_ARG_DIFF_DST, fresh(data.diff_dst_desc())}},
                 {{DNNL_ARG_SRC, fresh(weights.src_desc())},
                  {DNNL_ARG_DIFF_WEIGHTS, fresh(weights.diff_weights_desc())},
                  {DNNL_ARG_DIFF_DST, fresh(weights.diff_dst_desc())}}};
  }
  void run(size_t i) {
    primitives[i].execute(stream, arguments[i]);
    stream.wait();
  }
};

void measure(const Case& k, int rounds, bool bf16) {
  const int64_t out = (k.size + 2 * k.pad - k.kernel) / k.stride + 1;
  ConvShape s;
  s.n = k.n, s.groups = k.groups, s.c = k.c, s.m = k.m;
  for (size_t i = 1; i < 3; ++i) s.window[i] = WindowAxis{k.size, out, k.kernel, k.stride, 1, k.pad, k.pad};
  const auto filled = [](int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 7919 % 1009) * 1e-3f - 0.5f;
    return v;
  };
  const auto stored = [&](std::vector<float>& v) {  // with bf16, converts v in place
    if (!bf16) return StoredOut(v.data());
    from_float(v.data(), reinterpret_cast<BFloat16*>(v.data()), static_cast<int64_t>(v.size()));
    StoredOut of(v.data());
    of.dtype = DType::bf16;
    return of;
  };
  auto x_of = filled(s.n * s.groups * s.c * s.in_size()), w_of = filled(s.groups * s.m * s.c * s.taps()),
       y_of = filled(s.n * s.groups * s.m * s.out_size());
  auto dy_of = y_of, dx_of = x_of, dw = w_of;
  const StoredOut x = stored(x_of), w = stored(w_of), y = stored(y_of), dy = stored(dy_of), dx = stored(dx_of);
  Prepared ours[] = {prepare([&](Carver& c) { return fastest_conv(s, c, x, w, {}, y); }),
                     prepare([&](Carver& c) { return fastest_conv_grad_x(s, c, dy, w, dx); }),
                     prepare([&](Carver& c) { return fastest_conv_grad_w(s, c, x, dy, dw.data()); })};
  Library library(k, bf16);
  const double flops = 2.0 * static_cast<double>(s.n * s.groups * s.m * s.c * s.taps() * s.out_size());
  std::printf("%-30s", k.name);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<double> a, b;
    for (int r = -1; r < rounds; ++r) {
      const double t = thread_seconds_of([&] { ours[i].run(); }), u = thread_seconds_of([&] { library.run(i); });
      if (r >= 0) a.push_back(flops / t * 1e-9), b.push_back(flops / u * 1e-9);
    }
    std::printf("  %6.1f %6.1f", median(a), median(b));
  }
  std::printf("   %.3f GFLOP\n", flops * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  std::printf("%-30s  %13s  %13s  %13s\n", "GFLOP/s: ours, oneDNN", "y", "dx", "dw");
  for (const Case& k : cases) {
    if (argc < 3 || std::strstr(k.name, argv[2])) measure(k, rounds, argc > 3 && std::strcmp(argv[3], "bf16") == 0);
  }
}
