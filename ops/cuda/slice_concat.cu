// The kernels of Slice, SliceGrad, Concat, Split and Expand (ops/slice_concat.cc) and Transpose (ops/transpose.cc). All
// are strided copies (backend/cuda/strided_copy.h). Concat and Split of 2 to 8 parts take one launch, which copies
// units of up to 16 bytes. With more parts, each part is a separate copy.
#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
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
  if (a.in[0].numel() == y.numel()) return copy;  // then the copy writes every element
  return [&d, y, copy] {
    d.fill(y.data, 0, y.bytes());
    copy();
  };
}

// Concatenates parts into a joined tensor (joins), or splits a joined tensor into parts, in one launch. Each row of the
// joined tensor contains a row of each part, side by side. Sizes are in units of T.
constexpr size_t kMostParts = 8;
template <class T, bool joins>
struct SideBySide {
  T* joined;
  T* part[kMostParts];
  int64_t end[kMostParts];  // where each part ends in a row of the joined tensor
  int parts;
  Divisor width;  // elements per row of the joined tensor
  DEV void operator()(int64_t i) const {
    int64_t row = i;
    const int64_t column = width.take(row);
    int64_t begin = 0;
    int k = 0;
    while (k + 1 < parts && column >= end[k]) begin = end[k++];
    T* const other = part[k] + row * (end[k] - begin) + (column - begin);
    if constexpr (joins)
      joined[i] = *other;
    else
      *other = joined[i];
  }
};

struct alignas(16) Sixteen {
  uint64_t v[2];
};

// Returns a kernel that runs SideBySide. Returns an empty Kernel for a single part, for too many parts and for an empty
// tensor.
template <bool joins>
Kernel side_by_side(const KernelArgs& a, const Tensor& joined, const std::vector<Tensor>& parts) {
  if (parts.size() < 2 || parts.size() > kMostParts || joined.numel() == 0) return {};
  const auto axis = static_cast<size_t>(a.attrs().i("axis", 0));
  int64_t rows = 1;
  for (size_t d = 0; d < axis; ++d) rows *= joined.dims[d];
  uint64_t bits = reinterpret_cast<uintptr_t>(joined.data) | 16;
  for (const Tensor& t : parts) bits |= reinterpret_cast<uintptr_t>(t.data) | static_cast<uint64_t>(t.bytes() / rows);
  const auto of = [&](auto unit) -> Kernel {
    using T = decltype(unit);
    SideBySide<T, joins> body{static_cast<T*>(joined.data), {}, {}, 0, {}};
    int64_t end = 0;
    for (const Tensor& t : parts) {
      if (t.numel() == 0) continue;
      end += t.bytes() / rows / static_cast<int64_t>(sizeof(T));
      body.part[body.parts] = static_cast<T*>(t.data);
      body.end[body.parts++] = end;
    }
    body.width = Divisor(end);
    return [&d = device_of(a), body, n = rows * end] { for_each(d, n, body); };
  };
  switch (bits & (~bits + 1)) {
    case 16:
      return of(Sixteen{});
    case 8:
      return of(uint64_t{});
    case 4:
      return of(uint32_t{});
    case 2:
      return of(uint16_t{});
    default:
      return of(uint8_t{});
  }
}

Kernel in_order(const std::vector<Kernel>& copies) {
  return [copies] {
    for (const Kernel& k : copies) k();
  };
}
Kernel concat(const KernelArgs& a) {
  if (const Kernel together = side_by_side<true>(a, a.out[0], a.in)) return together;
  std::vector<Kernel> copies;
  for_each_part(a.in, a.out[0].dims, a.attrs(), [&](const Tensor& x, const Region& r) {
    copies.push_back(strided_copy(device_of(a), x, whole(x.dims), a.out[0], r, x.dims));
  });
  return in_order(copies);
}
Kernel split(const KernelArgs& a) {
  if (const Kernel together = side_by_side<false>(a, a.in[0], a.out)) return together;
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
