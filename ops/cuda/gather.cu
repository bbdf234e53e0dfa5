// The kernels of GatherRows and GatherElements (ops/gather.cc). Each thread copies one unit of the output from the
// element that the unit's index names. If both tensors have the same type, a unit is up to 16 bytes, as wide as the
// addresses and row lengths allow, and is copied without conversion. Indices out of range are clamped (indices.cuh).
#include "backend/cuda/divide.cuh"
#include "backend/cuda/launch.cuh"
#include "ops/cuda/indices.cuh"

namespace amp::cuda {
namespace {

// A mover copies one unit. Bytes copies without conversion, if both tensors have the same type; Converted converts one
// element, ConvertedFour four.
template <class T>
struct Bytes {
  const T* x;
  T* y;
  DEV void operator()(int64_t from, int64_t to) const { y[to] = x[from]; }
};
template <class T>
struct Converted {
  Ref x, y;
  DEV void operator()(int64_t from, int64_t to) const { store(y, to, load<T>(x, from)); }
};
struct ConvertedFour {
  Ref x, y;
  DEV void operator()(int64_t from, int64_t to) const {
    float v[4];
    load4(x, 4 * from, v);
    store4(y, 4 * to, v);
  }
};
struct alignas(16) Sixteen {
  uint64_t v[2];
};

// Calls f(mover, elements per unit) for the widest mover that the addresses allow, and returns its kernel. Elements are
// copied in contiguous runs of `run` elements that begin at multiples of `run`.
template <class F>
Kernel with_mover(const Tensor& x, const Tensor& y, int64_t run, F f) {
  const int64_t size = size_of(x.dtype);
  const auto fits = [&](int64_t unit) {
    const auto of = [unit](const void* p) {
      return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(unit) == 0;
    };
    return unit >= size && run * size % unit == 0 && of(x.data) && of(y.data);
  };
  const auto bytes = [&](auto unit) -> Kernel {
    using T = decltype(unit);
    return f(Bytes<T>{static_cast<const T*>(x.data), static_cast<T*>(y.data)}, static_cast<int64_t>(sizeof(T)) / size);
  };
  if (x.dtype == y.dtype) {
    if (fits(16)) return bytes(Sixteen{});
    if (fits(8)) return bytes(uint64_t{});
    if (fits(4)) return bytes(uint32_t{});
    if (fits(2)) return bytes(uint16_t{});
    return bytes(uint8_t{});
  }
  if (!is_float(x.dtype) && !is_float(y.dtype)) return f(Converted<int64_t>{x, y}, int64_t{1});
  if (x.dtype == DType::f64 || y.dtype == DType::f64) return f(Converted<double>{x, y}, int64_t{1});
  if (run % 4 == 0) return f(ConvertedFour{x, y}, int64_t{4});
  return f(Converted<float>{x, y}, int64_t{1});
}

// Copies rows of x (outer, n, inner) to y (outer, k, inner).
template <class Move>
struct GatherRows {
  Move move;
  Ref indices;
  int64_t n;
  Divisor inner, k;  // `inner` is counted in units of the mover
  DEV void operator()(int64_t i) const {
    int64_t o = i;
    const int64_t column = inner.take(o), j = k.take(o);
    move((o * n + clamped(load<int64_t>(indices, j), n)) * inner.value() + column, i);
  }
};

Kernel gather_rows(const KernelArgs& a) {
  const Tensor &x = a.in[0], &idx = a.in[1], &y = a.out[0];
  require_index_type(idx);
  const int64_t n = a.attrs().i("n", 1), inner = a.attrs().i("inner", 1);
  CudaDevice& d = device_of(a);
  if (y.numel() == 0) return [] {};
  if (n == 0) fail(Exit::data, "E_DATA_TOKEN_RANGE", "an index into a table of 0 rows");
  return with_mover(x, y, inner, [&](auto move, int64_t unit) -> Kernel {
    const GatherRows<decltype(move)> body{move, idx, n, Divisor(inner / unit), Divisor(idx.numel())};
    return [&d, body, total = y.numel() / unit] { for_each(d, total, body); };
  });
}

template <class Move>
struct GatherElements {
  Move move;
  Ref indices;
  Lines lines;
  DEV void operator()(int64_t i) const {
    move(lines.base.offset(i) + clamped(load<int64_t>(indices, i), lines.n) * lines.stride, i);
  }
};

Kernel gather_elements(const KernelArgs& a) {
  const Tensor &x = a.in[0], &idx = a.in[1], &y = a.out[0];
  require_index_type(idx);
  CudaDevice& d = device_of(a);
  if (y.numel() == 0) return [] {};
  const Lines lines(x.dims, idx.dims, a.attrs().i("axis", 0));
  if (lines.n == 0) fail(Exit::data, "E_DATA_TOKEN_RANGE", "an index into an axis of 0");
  return with_mover(x, y, 1, [&](auto move, int64_t) -> Kernel {
    const GatherElements<decltype(move)> body{move, idx, lines};
    return [&d, body, total = y.numel()] { for_each(d, total, body); };
  });
}

const RegisterKernel kernels[] = {{DeviceKind::cuda, "GatherRows", gather_rows},
                                  {DeviceKind::cuda, "GatherElements", gather_elements}};

}  // namespace
}  // namespace amp::cuda
