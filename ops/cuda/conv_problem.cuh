// Code that the kernels of convolutions in both layouts share (conv.cu, conv_channels_last.cu).
#pragma once

#include <algorithm>

#include "backend/channels_last.h"
#include "backend/cuda/convolution.h"
#include "backend/cuda/staged.h"
#include "ops/cuda/conv_kernels.cuh"

namespace amp::cuda {

// Return kernels of Conv, ConvGradX, ConvGradW in channels-last layout (prepare functions: backend/cpu/workspace.h).
Kernel conv_last(const KernelArgs& a, Carver& carve);
Kernel conv_last_grad_x(const KernelArgs& a, Carver& carve);
Kernel conv_last_grad_w(const KernelArgs& a, Carver& carve);

struct ConvProblem {
  const KernelArgs& a;
  ConvShape s;
  DType in, out;  // types that products read and write
  DeviceWindow window;
  int64_t k, p, gm, gc,
      in_size;  // k: weights per output channel; p: outputs per channel; gm, gc: output and input channels of a group

  ConvProblem(const KernelArgs& args, const ConvShape& shape, const Tensor& result)
      : a(args),
        s(shape),
        in(common_type(args.in[0], args.in[1])),
        out(result.dtype == in ? in : DType::f32),
        window(shape.window),
        k(shape.c * shape.taps()),
        p(shape.out_size()),
        gm(shape.groups * shape.m),
        gc(shape.groups * shape.c),
        in_size(shape.in_size()) {
    if (in == DType::f64 || in_double(args)) no_fp64(args);
    if (s.n * std::max(gc * s.taps(), gm) >= (int64_t{1} << 31))
      fail(Exit::unsupported, "E_CUDA_SIZE", cat(args.node.op->name, ": too large for a CUDA kernel"));
  }
  bool empty() const { return s.n == 0 || k == 0 || p == 0 || gm == 0 || in_size == 0; }
  bool depthwise() const { return s.groups > 1 && s.c == 1; }
  // Returns whether im2col's columns would equal the input, so that im2col can be omitted.
  bool pointwise() const {
    return std::all_of(s.window.begin(), s.window.end(), [](const WindowAxis& w) {
      return w.kernel == 1 && w.stride == 1 && w.pad == 0 && w.in == w.out;
    });
  }
  // The default limit on the bytes of workspace for columns. The attribute column_bytes replaces it. One image is
  // processed even if it exceeds the limit.
  static constexpr int64_t kMostColumns = int64_t{256} << 20;
  int64_t images_at_a_time(int64_t bytes_of_one) const {
    return std::clamp<int64_t>(a.attrs().i("column_bytes", kMostColumns) / std::max<int64_t>(bytes_of_one, 1), 1,
                               std::max<int64_t>(s.n, 1));
  }
};

inline const char* at(const void* base, int64_t element, DType t) {
  return static_cast<const char*>(base) + element * size_of(t);
}
inline char* at(void* base, int64_t element, DType t) { return static_cast<char*>(base) + element * size_of(t); }

template <template <class> class Body, class... A>
void launch_rows(CudaDevice& d, int64_t rows, int64_t n, DType type, const void* from, void* to, const A&... more) {
  if (size_of(type) == 2)
    for_each_row(d, rows, n, Body<uint16_t>{static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), more...});
  else
    for_each_row(d, rows, n, Body<uint32_t>{static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), more...});
}

// each() calls f(first image, number of images, product) for each chunk of images. The last chunk may be shorter.
template <class P>
class ImageChunks {
 public:
  template <class Make>
  ImageChunks(int64_t n, int64_t step, Make make)
      : n_(n), step_(step), whole_(make(step)), rest_(n % step ? make(n % step) : whole_) {}
  template <class F>
  void each(F f) const {
    for (int64_t i = 0; i < n_; i += step_) f(i, std::min(step_, n_ - i), i + step_ <= n_ ? whole_ : rest_);
  }

 private:
  int64_t n_, step_;
  P whole_, rest_;
};

// Reserves workspace for a weight gradient that a library computes in its operands' 16-bit type. Returns null if the
// product itself writes that type.
inline void* take_rounded(const ConvProblem& q, Carver& carve, const Tensor& dw) {
  return q.out == q.in ? nullptr : carve.take<char>(dw.numel() * size_of(q.in));
}

// Returns a kernel that runs `own`, the project's kernel, until the library's result has agreed with it once, and
// then runs the library. `own` adds the bias itself. rounded: the result of take_rounded() for a weight gradient.
inline Kernel guarded(const ConvProblem& q, ConvolutionKind kind, ConvolutionOperands o, const Dims& result, Kernel own,
                      const Tensor& bias = {}, void* rounded = nullptr) {
  if (q.out != q.in && !rounded) return own;
  CudaDevice& d = device_of(q.a);
  Convolution what{kind, q.s, q.in, std::nullopt, has_channels_last(q.a.attrs())};
  if (bias.data) what.bias = bias.dtype;
  auto library = d.convolution(what);
  if (!library) return own;
  if (rounded) library = std::make_shared<WidenedGradient>(d, std::move(library), Tensor{rounded, q.in, result});
  o.bias = bias.data;
  const auto guard = std::make_shared<GuardedConvolution>(d, what, std::move(library), Tensor{nullptr, q.out, result});
  return [=, own = std::move(own)] { guard->run(o, own); };
}

// Returns a kernel that converts the operands a and b, runs `work`, and converts the result c.
inline Kernel staged(const Staged& a, const Staged& b, const Staged& c, Kernel work) {
  return [=, work = std::move(work)] {
    a.move();
    b.move();
    work();
    c.move();
  };
}

inline Kernel fill(CudaDevice& d, const Tensor& y, const Tensor& bias, int64_t channels, int64_t n) {
  const FillChannels body{y, bias.data ? Ref(bias) : Ref(), std::max<int64_t>(channels, 1), std::max<int64_t>(n, 1)};
  return [&d, body, total = y.numel()] { for_each(d, total, body); };
}

}  // namespace amp::cuda
