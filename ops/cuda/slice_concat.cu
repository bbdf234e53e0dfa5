// Slice, SliceGrad, Concat, Split, Expand (ops/slice_concat.cc) and Transpose (ops/transpose.cc): strided copies.
#include "backend/cuda/strided_copy.h"
#include "ops/slice_concat.h"

namespace amp::cuda {
namespace {

Kernel slice(const KernelArgs& a) {
  return strided_copy(device_of(a), a.in[0], slice_region(a.in[0].dims, a.attrs()), a.out[0], whole(a.out[0].dims),
                      a.out[0].dims);
}

Kernel slice_grad(const KernelArgs& a) {
  CudaDevice& d = device_of(a);
  const Tensor y = a.out[0];
  const Kernel copy = strided_copy(d, a.in[0], whole(a.in[0].dims), y, slice_region(y.dims, a.attrs()), a.in[0].dims);
  if (a.in[0].numel() == y.numel()) return copy;  // every element is written
  return [&d, y, copy] {
    d.fill(y.data, 0, y.bytes());
    copy();
  };
}

Kernel in_order(const std::vector<Kernel>& copies) {
  return [copies] {
    for (const Kernel& k : copies) k();
  };
}
Kernel concat(const KernelArgs& a) {
  std::vector<Kernel> copies;
  for_each_part(a.in, a.out[0].dims, a.attrs(), [&](const Tensor& x, const Region& r) {
    copies.push_back(strided_copy(device_of(a), x, whole(x.dims), a.out[0], r, x.dims));
  });
  return in_order(copies);
}
Kernel split(const KernelArgs& a) {
  std::vector<Kernel> copies;
  for_each_part(a.out, a.in[0].dims, a.attrs(), [&](const Tensor& y, const Region& r) {
    copies.push_back(strided_copy(device_of(a), a.in[0], r, y, whole(y.dims), y.dims));
  });
  return in_order(copies);
}

Kernel expand(const KernelArgs& a) {
  return strided_copy(device_of(a), a.in[0], expanded(a.in[0].dims, a.out[0].dims), a.out[0], whole(a.out[0].dims),
                      a.out[0].dims);
}

Kernel transpose(const KernelArgs& a) {
  const Dims strides = row_major_strides(a.in[0].dims);
  Region from;
  for (const int64_t p : a.attrs().ints("perm")) from.strides.push_back(strides[static_cast<size_t>(p)]);
  return strided_copy(device_of(a), a.in[0], from, a.out[0], whole(a.out[0].dims), a.out[0].dims);
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "Slice", slice},   {DeviceKind::cuda, "SliceGrad", slice_grad},
                                  {DeviceKind::cuda, "Concat", concat}, {DeviceKind::cuda, "Split", split},
                                  {DeviceKind::cuda, "Expand", expand}, {DeviceKind::cuda, "Transpose", transpose}};

}  // namespace
}  // namespace amp::cuda
