// The kernels of Conv, ConvGradX and ConvGradW in channels-last layout (ops/passes/channels_last.h). One product per
// group covers all positions of some images. im2col writes a row for each window. Sums are fp32. A library replaces
// these kernels after validation, as in conv.cu.
#include "ops/cuda/conv_problem.cuh"

namespace amp::cuda {
namespace {

ConvShape shape_of(const KernelArgs& a, const Tensor& x, const Tensor& w, const Tensor& y) {
  return conv_shape(channels_first(x.dims), channels_first(w.dims), channels_first(y.dims), a.attrs());
}

// The layout of the matrices of a group. x and y are (rows, channels of the group), as parts of matrices with the
// channels of all groups; columns are (rows, k), weights (m, k).
class Groups {
 public:
  explicit Groups(const ConvProblem& q) : q_(q), apart_(q.s.groups > 1) {}
  // Return distances in elements: next_... from one group to the next, others from one row of the columns to the next.
  int64_t next_y() const { return q_.s.m; }
  int64_t next_w() const { return q_.s.m * q_.k; }
  int64_t next_columns(int64_t rows) const { return q_.pointwise() ? q_.s.c : rows * q_.k; }
  int64_t row_of_columns() const { return q_.pointwise() ? q_.gc : q_.k; }
  // Returns the stride to set in a Gemm (stride_a ...) for an operand. 0: its address is the same in all calls.
  // Otherwise the address differs between calls by groups or, if `chunks`, by chunks of images.
  int64_t step(int64_t group, int64_t chunk, bool chunks) const { return apart_ ? group : chunks ? chunk : 0; }

 private:
  const ConvProblem& q_;
  bool apart_;
};

// The columns (im2col's result) of a convolution. of() returns the columns of the images from `first` on: either
// written to the workspace, or the input itself.
struct Columns {
  char* place = nullptr;  // workspace for columns; null: the input itself is used
  DeviceWindow window;
  int64_t k, gc, c, in_size, p;
  DType type;

  Columns(const ConvProblem& q, char* at)
      : place(at), window(q.window), k(q.k), gc(q.gc), c(q.s.c), in_size(q.in_size), p(q.p), type(q.in) {}
  const void* of(CudaDevice& d, const void* x, int64_t first, int64_t images) const {
    const void* const from = at(x, first * in_size * gc, type);
    if (!place) return from;
    launch_rows<Im2colLast>(d, images * p, k / c * gc, type, from, place, window, images * p, k, SmallDivisor(gc),
                            SmallDivisor(c));
    return place;
  }
};

using PlaceProduct = std::function<void(const void*, const void*, void*)>;

}  // namespace

Kernel conv_last(const KernelArgs& a, Carver& carve) {
  const ConvProblem q(a, shape_of(a, a.in[0], a.in[1], a.out[0]), a.out[0]);
  const Tensor bias = a.has(2) ? a.in[2] : Tensor{};
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], bias, q.gm, 1);
  const Staged x = Staged::input(a, carve, a.in[0], q.in), w = Staged::input(a, carve, a.in[1], q.in),
               y = Staged::output(a, carve, a.out[0], q.out);
  const int64_t image = q.s.groups * q.k * q.p,
                step = q.pointwise() ? q.s.n : q.images_at_a_time(image * size_of(q.in));
  const Columns columns(q, q.pointwise() ? nullptr : carve.take<char>(step * image * size_of(q.in)));
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Tensor result{y.data, q.out, a.out[0].dims};
  const Groups groups(q);
  const ImageChunks<PlaceProduct> chunks(q.s.n, step, [&](int64_t images) {
    Gemm g{images * q.p, q.s.m, q.k};
    g.trans_b = true;
    g.lda = groups.row_of_columns();
    g.ldc = q.gm;
    g.stride_a = groups.step(groups.next_columns(images * q.p), 0, false);
    g.stride_b = groups.step(groups.next_w(), 0, false);
    g.stride_c = groups.step(groups.next_y(), step * q.p * q.gm, step < q.s.n);
    g.in = q.in;
    g.out = q.out;
    g.beta = bias.data ? 1 : 0;
    return d.gemm(g);
  });
  const Kernel fill_bias = bias.data ? fill(d, result, bias, q.gm, 1) : Kernel([] {});
  const Kernel own = [=, &d, in = q.in, out = q.out, to = q.gm * q.p, p = q.p, n = q.s.groups, next_w = groups.next_w(),
                      m = q.s.m, groups_of = groups.next_columns(1)] {
    fill_bias();
    chunks.each([&](int64_t first, int64_t images, const PlaceProduct& product) {
      const void* const rows = columns.of(d, x.data, first, images);
      const int64_t next = columns.place ? images * p * groups_of : groups_of;
      for (int64_t i = 0; i < n; ++i)
        product(at(rows, i * next, in), at(w.data, i * next_w, in), at(result.data, first * to + i * m, out));
    });
  };
  return staged(x, w, y,
                guarded(q, ConvolutionKind::forward, {x.data, w.data, nullptr, y.data}, a.out[0].dims, own, bias));
}

Kernel conv_last_grad_x(const KernelArgs& a, Carver& carve) {
  const ConvProblem q(a, shape_of(a, a.out[0], a.in[1], a.in[0]), a.out[0]);
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], {}, 1, 1);
  const bool direct = q.pointwise();
  const Staged dy = Staged::input(a, carve, a.in[0], q.in), w = Staged::input(a, carve, a.in[1], q.in),
               dx = Staged::output(a, carve, a.out[0], q.out);
  const int64_t image = q.s.groups * q.k * q.p, step = direct ? q.s.n : q.images_at_a_time(image * 4);
  float* const columns = direct ? nullptr : carve.take<float>(step * image);
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Groups groups(q);
  const ImageChunks<PlaceProduct> chunks(q.s.n, step, [&](int64_t images) {
    Gemm g{images * q.p, q.k, q.s.m};
    g.lda = q.gm;
    g.ldc = groups.row_of_columns();
    g.stride_a = groups.step(groups.next_y(), step * q.p * q.gm, step < q.s.n);
    g.stride_b = groups.step(groups.next_w(), 0, false);
    g.stride_c = groups.step(groups.next_columns(images * q.p), 0, false);
    g.in = q.in;
    g.out = direct ? q.out : DType::f32;
    return d.gemm(g);
  });
  const Ref result = Tensor{dx.data, q.out, a.out[0].dims};
  const Kernel own = [=, &d, in = q.in, out = q.out, window = q.window, from = q.gm * q.p, to = q.gc * q.in_size,
                      p = q.p, k = q.k, gc = q.gc, c = q.s.c, m = q.s.m, n = q.s.groups, next_w = groups.next_w()] {
    chunks.each([&](int64_t first, int64_t images, const PlaceProduct& product) {
      for (int64_t i = 0; i < n; ++i) {
        void* const c_at = columns ? static_cast<void*>(columns + i * images * p * k)
                                   : static_cast<void*>(at(result.data, i * c, out));
        product(at(dy.data, first * from + i * m, in), at(w.data, i * next_w, in), c_at);
      }
      if (columns) for_each(d, images * to, Col2imLast{columns, result, first * to, window, images * p, k, gc, c});
    });
  };
  return staged(dy, w, dx,
                guarded(q, ConvolutionKind::grad_x, {dy.data, w.data, nullptr, dx.data}, a.out[0].dims, own));
}

Kernel conv_last_grad_w(const KernelArgs& a, Carver& carve) {
  ConvProblem q(a, shape_of(a, a.in[0], a.out[0], a.in[1]), a.out[0]);
  if (q.empty()) return carve.measuring() ? Kernel{} : fill(device_of(a), a.out[0], {}, 1, 1);
  const int64_t image = q.s.groups * q.k * q.p,
                step = q.pointwise() ? q.s.n : q.images_at_a_time(image * size_of(q.in));
  if (step < q.s.n) q.out = DType::f32;  // the chunks' results are added in fp32
  const Staged x = Staged::input(a, carve, a.in[0], q.in), dy = Staged::input(a, carve, a.in[1], q.in),
               dw = Staged::output(a, carve, a.out[0], q.out);
  void* const rounded = take_rounded(q, carve, a.out[0]);
  const Columns columns(q, q.pointwise() ? nullptr : carve.take<char>(step * image * size_of(q.in)));
  if (carve.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Groups groups(q);
  const auto make = [&](int64_t images, bool add) {
    Gemm g{q.s.m, q.k, images * q.p};
    g.trans_a = true;
    g.lda = q.gm;
    g.ldb = groups.row_of_columns();
    g.stride_a = groups.step(groups.next_y(), step * q.p * q.gm, step < q.s.n);
    g.stride_b = groups.step(groups.next_columns(images * q.p), 0, false);
    g.stride_c = groups.step(groups.next_w(), 0, false);
    g.in = q.in;
    g.out = q.out;
    g.beta = add ? 1 : 0;
    return d.gemm(g);
  };
  const PlaceProduct begin = make(step, false);
  const ImageChunks<PlaceProduct> more(q.s.n, step, [&](int64_t images) { return make(images, true); });
  const Kernel own = [=, &d, in = q.in, out = q.out, from = q.gm * q.p, p = q.p, m = q.s.m, n = q.s.groups,
                      next_w = groups.next_w(), groups_of = groups.next_columns(1)] {
    more.each([&](int64_t first, int64_t images, const PlaceProduct& add) {
      const void* const rows = columns.of(d, x.data, first, images);
      const int64_t next = columns.place ? images * p * groups_of : groups_of;
      for (int64_t i = 0; i < n; ++i)
        (first == 0 ? begin : add)(at(dy.data, first * from + i * m, in), at(rows, i * next, in),
                                   at(dw.data, i * next_w, out));
    });
  };
  return staged(
      x, dy, dw,
      guarded(q, ConvolutionKind::grad_w, {x.data, dy.data, nullptr, dw.data}, a.out[0].dims, own, {}, rounded));
}

}  // namespace amp::cuda
