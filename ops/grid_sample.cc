// GridSample (ONNX 16: bilinear, bicubic; 20: linear, cubic, any rank) and AffineGrid (20). The kernels are in
// backend/cpu/grid_sample.cc.
#include "backend/cpu/grid_sample.h"

#include "ops/compose.h"
#include "ops/elementwise_op.h"

namespace amp {
namespace {

void infer(InferCtx& c) {
  const Dims x = c.in(0).dims, grid = c.in(1).dims;
  if (x.size() < 3 || x.size() > 5 || grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != static_cast<int64_t>(x.size()) - 2) {
    fail(Exit::model, "E_SHAPE", cat("GridSample of ", to_string(x), " at ", to_string(grid)));
  }
  Dims y{x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  c.out(c.in(0).dtype, y);
}
void infer_grad(InferCtx& c) {
  c.out(c.in(0).dtype, c.in(0).dims);
  c.out(c.in(1).dtype, c.in(1).dims);
}
void grad(GradBuilder& g) {
  const auto d = g.b.ops("GridSampleGrad", {g.in(0), g.in(1), g.dy(0)}, g.attrs());
  g.add_grad(0, d[0]);
  g.add_grad(1, d[1]);
}

const RegisterOp ops[] = {RegisterOp{op_with_workspace<grid_sample>("GridSample", infer, grad)},
                          RegisterOp{op_with_workspace<grid_sample_grad>("GridSampleGrad", infer_grad, nullptr)}};
const RegisterKernel kernels[] = {RegisterKernel{DeviceKind::cpu, "GridSample", with_workspace<grid_sample>},
                                  RegisterKernel{DeviceKind::cpu, "GridSampleGrad", with_workspace<grid_sample_grad>}};

void lower_grid_sample(Lowering& l) {
  const std::string mode = l.attrs.s("mode", l.version() < 20 ? "bilinear" : "linear"),
                    padding = l.attrs.s("padding_mode", "zeros");
  const int64_t m = mode == "nearest"                        ? 0
                    : mode == "linear" || mode == "bilinear" ? 1
                    : mode == "cubic" || mode == "bicubic"   ? 2
                                                             : -1;
  const int64_t p = padding == "zeros" ? 0 : padding == "border" ? 1 : padding == "reflection" ? 2 : -1;
  if (m < 0) l.unsupported("mode '" + mode + "'");
  if (p < 0) l.unsupported("padding_mode '" + padding + "'");
  if (!is_float(l.b.dtype(l.in(0)))) l.unsupported("sampling of integers");
  l.out(0, l.b.op("GridSample", {l.in(0), l.in(1)},
                  {{"mode", m}, {"padding", p}, {"align", l.attrs.i("align_corners", 0)}}));
}

// Lowers AffineGrid: multiplies theta (N, d, d + 1) by the homogeneous coordinates of all points, a constant matrix.
void lower_affine_grid(Lowering& l) {
  Builder& b = l.b;
  const std::vector<int64_t> size = l.ints(1);
  const bool align = l.attrs.i("align_corners", 0) != 0;
  if (size.size() < 3) fail(Exit::model, "E_SHAPE", cat("AffineGrid of size ", to_string(size)));
  const size_t d = size.size() - 2;
  const Dims space(size.begin() + 2, size.end());
  const int64_t points = numel(space);
  std::vector<double> base(static_cast<size_t>(points) * (d + 1), 1);
  for (int64_t i = 0; i < points; ++i) {
    int64_t rest = i;
    for (size_t k = d; k-- > 0;) {  // column 0 is the innermost dimension
      const double n = static_cast<double>(space[k]), at = static_cast<double>(rest % space[k]);
      base[static_cast<size_t>(i) * (d + 1) + (d - 1 - k)] =
          align ? (n > 1 ? 2 * at / (n - 1) - 1 : -1) : (2 * at + 1) / n - 1;
      rest /= space[k];
    }
  }
  const ValueId coordinates =
      b.constant(HostTensor::of<double>({1, points, static_cast<int64_t>(d) + 1}, base).cast(b.dtype(l.in(0))));
  const ValueId y =
      b.op("MatMul", {coordinates, l.in(0)}, {{"transA", int64_t{0}}, {"transB", int64_t{1}}, {"alpha", 1.0}});
  Dims out{size[0]};
  out.insert(out.end(), space.begin(), space.end());
  out.push_back(static_cast<int64_t>(d));
  l.out(0, b.reshape(y, out));
}

const RegisterOnnx onnx[] = {RegisterOnnx{{"GridSample", lower_grid_sample, 16, {}}},
                             RegisterOnnx{{"AffineGrid", lower_affine_grid, 20, {}}}};

}  // namespace
}  // namespace amp
