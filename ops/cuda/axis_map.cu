// The kernel of AxisMap (ops/axis_map.cc), which computes Resize, and Pad in modes reflect, edge and wrap.
#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/ref.cuh"

namespace amp::cuda {
namespace {

// Uploads a table of a kernel when the kernel is prepared. Returns the table's address. keep: receives the memory,
// which the kernel must own.
template <class T, class From>
const T* upload_table(CudaDevice& d, std::vector<DeviceMemory>& keep, const std::vector<From>& v) {
  const std::vector<T> host(v.begin(), v.end());
  const int64_t bytes = static_cast<int64_t>(host.size() * sizeof(T));
  keep.push_back(d.allocate(std::max<int64_t>(bytes, 1)));
  d.upload(keep.back().get(), host.data(), bytes);
  return static_cast<const T*>(keep.back().get());
}

template <class T>
struct AxisMapKernel {
  Ref x, y;
  const int32_t *begin, *index;
  const T* weight;
  int64_t n;  // extent of the axis in x
  Divisor rows, inner;
  DEV void operator()(int64_t i) const {
    int64_t o = i;
    const int64_t column = inner.take(o), j = rows.take(o);
    T sum = 0;
    for (int32_t t = begin[j]; t < begin[j + 1]; ++t)
      sum = static_cast<T>(sum + weight[t] * load<T>(x, (o * n + index[t]) * inner.value() + column));
    store(y, i, sum);
  }
};

template <class T>
Kernel typed(const KernelArgs& a) {
  const Tensor &x = a.in[0], &y = a.out[0];
  const size_t axis = static_cast<size_t>(a.attrs().i("axis", 0));
  const std::vector<int64_t> begin = a.attrs().ints("begin"), index = a.attrs().ints("index");
  int64_t inner = 1;
  for (size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  if (y.numel() == 0) return [] {};
  check(x.dims[axis] <= 0x7fffffff && index.size() <= 0x7fffffff, "an axis of 2^31 elements");
  CudaDevice& d = device_of(a);
  std::vector<DeviceMemory> keep;
  AxisMapKernel<T> body{x,
                        y,
                        upload_table<int32_t>(d, keep, begin),
                        upload_table<int32_t>(d, keep, index),
                        upload_table<T>(d, keep, a.attrs().floats("weight")),
                        x.dims[axis],
                        Divisor(y.dims[axis]),
                        Divisor(inner)};
  return [&d, keep, body, total = y.numel()] { for_each(d, total, body); };
}

Kernel axis_map(const KernelArgs& a) {
  if (!is_float(a.in[0].dtype)) return typed<int64_t>(a);
  if (a.in[0].dtype == DType::f64 || a.out[0].dtype == DType::f64) no_fp64(a);
  return typed<float>(a);
}

const RegisterKernel kernel{DeviceKind::cuda, "AxisMap", axis_map};

}  // namespace
}  // namespace amp::cuda
