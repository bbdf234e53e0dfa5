// The kernels of Cast (ops/cast.cc) and Where (ops/select.cc).
#include "backend/cuda/elementwise.cuh"

namespace amp::cuda {
namespace {

Kernel cast(const KernelArgs& a) { return device_of(a).convert(a.in[0], a.out[0]); }

template <class T>
struct Where {
  Ref condition, x, z, y;
  Axes at_condition, at_x, at_z;
  DEV void operator()(int64_t i) const {
    const bool c = load<int>(condition, at_condition.offset(i)) != 0;
    store(y, i, c ? load<T>(x, at_x.offset(i)) : load<T>(z, at_z.offset(i)));
  }
};

// Returns the strides with which an operand of dims `of` is read under NumPy broadcasting to `dims`; 0 for repeated
// axes.
Dims broadcast_strides(const Dims& of, const Dims& dims) {
  Dims s(dims.size(), 0);
  int64_t running = 1;
  for (size_t d = 0; d < of.size(); ++d) {
    const size_t from = of.size() - 1 - d, to = dims.size() - 1 - d;
    s[to] = of[from] == 1 ? 0 : running;
    running *= of[from];
  }
  return s;
}

template <class T>
Kernel typed_where(const KernelArgs& a) {
  CudaDevice& d = device_of(a);
  const Dims& dims = a.out[0].dims;
  const auto axes = [&](const Tensor& t) { return make_axes(dims, broadcast_strides(t.dims, dims)); };
  const Where<T> body{a.in[0], a.in[1], a.in[2], a.out[0], axes(a.in[0]), axes(a.in[1]), axes(a.in[2])};
  return [&d, body, n = a.out[0].numel()] { for_each(d, n, body); };
}
Kernel where(const KernelArgs& a) {
  if (!is_float(a.in[1].dtype)) return typed_where<int64_t>(a);
  return typed_where<float>(a);
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "Cast", cast}, {DeviceKind::cuda, "Where", where}};

}  // namespace
}  // namespace amp::cuda
