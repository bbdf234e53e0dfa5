// Pointwise convolution as matrix products of the stored operands (conv_pointwise.h). If there are few products, all
// threads share each product; otherwise each thread computes whole products.

#include "backend/cpu/conv/conv_pointwise.h"

#include <algorithm>

#include "backend/cpu/gemm/packed_gemm.h"

namespace amp {

namespace {

using cpu::PackedGemm;

// Returns a kernel that computes one product per image and group. With at least four products, each thread computes
// whole products and uses its own scratch memory.
template <class Product>
Kernel each_image(const ConvShape& s, Carver& carve, const Product& product) {
  const int64_t items = s.n * s.groups;
  if (items >= 4) {
    return [=] { parallel_for(items, [&](int64_t i) { product(i).run_here(); }); };
  }
  char* workspace = carve.take<char>(product(0).workspace());
  return [=] {
    for (int64_t i = 0; i < items; ++i) product(i).run(workspace);
  };
}

PackedGemm::Operand matrix(const Stored& of, int64_t first, int64_t ld, bool trans) {
  return {of.at(first), of.dtype, ld, trans};
}
void result(PackedGemm& p, const StoredOut& of, int64_t first, int64_t ld) {
  p.c = of.at(first), p.c_dtype = of.dtype, p.ldc = ld;
}

}  // namespace

bool conv_pointwise_fits(const ConvShape& s) {
  constexpr int64_t kFewest = 64;  // minimum number of pixels, which are the columns of the product
  return std::all_of(s.window.begin(), s.window.end(),
                     [](const WindowAxis& a) {
                       return a.kernel == 1 && a.stride == 1 && a.pad == 0 && a.pad_end == 0 && a.in == a.out;
                     }) &&
         s.n > 0 && s.out_size() >= kFewest && std::min(s.c, s.m) >= 8;
}

Kernel conv_pointwise(const ConvShape& s, Carver& carve, const Stored& x, const Stored& w, const Stored& bias,
                      const StoredOut& y) {
  return each_image(s, carve, [=](int64_t item) {
    const int64_t pixels = s.out_size(), g = item % s.groups;
    PackedGemm p;
    p.m = s.m, p.n = pixels, p.k = s.c;
    p.a = matrix(w, g * s.m * s.c, s.c, false);
    p.b = matrix(x, item * s.c * pixels, pixels, false);
    result(p, y, item * s.m * pixels, pixels);
    if (bias) p.row_bias = bias.at(g * s.m), p.bias_dtype = bias.dtype;
    return p;
  });
}

Kernel conv_pointwise_grad_x(const ConvShape& s, Carver& carve, const Stored& dy, const Stored& w,
                             const StoredOut& dx) {
  return each_image(s, carve, [=](int64_t item) {
    const int64_t pixels = s.out_size();
    PackedGemm p;
    p.m = s.c, p.n = pixels, p.k = s.m;
    p.a = matrix(w, item % s.groups * s.m * s.c, s.c, true);
    p.b = matrix(dy, item * s.m * pixels, pixels, false);
    result(p, dx, item * s.c * pixels, pixels);
    return p;
  });
}

Kernel conv_pointwise_grad_w(const ConvShape& s, Carver& carve, const Stored& x, const Stored& dy, float* dw) {
  const auto product = [=](int64_t item) {
    const int64_t pixels = s.out_size();
    PackedGemm p;
    p.m = s.m, p.n = s.c, p.k = pixels;
    p.a = matrix(dy, item * s.m * pixels, pixels, false);
    p.b = matrix(x, item * s.c * pixels, pixels, true);
    p.c = dw + item % s.groups * s.m * s.c, p.ldc = s.c;
    p.accumulate = item >= s.groups;
    return p;
  };
  char* workspace = carve.take<char>(product(0).workspace());
  return [=] {
    for (int64_t i = 0; i < s.n * s.groups; ++i) product(i).run(workspace);
  };
}

}  // namespace amp
