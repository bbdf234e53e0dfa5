// The kernels of ScatterElementsAdd (ops/gather.cc), ScatterElements (ops/scatter_elements.cc) and ScatterNDRows
// (ops/shape_ops.cc). Updates of the same element are combined in order, without float atomics, so that results are the
// same in every run. A line consists of the elements along the axis. In a short line, the thread of an element's first
// update combines all updates of the element. The updates of long lines are sorted (scatter_rows.cuh). If updates
// replace the element, an integer atomic maximum finds the last one.
#include "ops/cuda/scatter_rows.cuh"

namespace amp::cuda {
namespace {

// Finds all updates of a line that have the same target element. The thread of the first update handles them, in order.
struct Meeting {
  Ref indices;
  Lines lines;
  Divisor along, inner;  // `along`: extent of the indices' axis; `inner`: product of the extents after it

  // If update i is the first one of its target, calls f(update) in order for all updates of that target and returns
  // true. Otherwise, and if the index of update i is out of range, returns false.
  template <class F>
  DEV bool all(int64_t i, F f) const {
    int64_t o = i;
    const int64_t column = inner.take(o), mine = along.take(o);
    const int64_t base = o * along.value() * inner.value() + column;
    const int64_t k = wrapped(load<int64_t>(indices, i), lines.n);
    if (k < 0) return false;
    for (int64_t j = 0; j < mine; ++j) {
      if (wrapped(load<int64_t>(indices, base + j * inner.value()), lines.n) == k) return false;
    }
    f(i);
    for (int64_t j = mine + 1; j < along.value(); ++j) {
      const int64_t other = base + j * inner.value();
      if (wrapped(load<int64_t>(indices, other), lines.n) == k) f(other);
    }
    return true;
  }
  DEV int64_t target(int64_t i) const {
    return lines.base.offset(i) + wrapped(load<int64_t>(indices, i), lines.n) * lines.stride;
  }
};

Meeting meeting(const Tensor& idx, const Dims& data, int64_t axis) {
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < idx.dims.size(); ++d) inner *= idx.dims[d];
  return {idx, Lines(data, idx.dims, axis), Divisor(std::max<int64_t>(idx.dims[static_cast<size_t>(axis)], 1)),
          Divisor(std::max<int64_t>(inner, 1))};
}

// Lines longer than this are sorted, because comparing all indices of a line with each other takes quadratic time.
constexpr int64_t kLongLine = 2048;

struct AddMeeting {
  Meeting meet;
  Ref x, y;
  DEV void operator()(int64_t i) const {
    float sum = 0;
    if (meet.all(i, [&](int64_t j) { sum += load<float>(x, j); })) store(y, meet.target(i), sum);
  }
};

struct ElementPlace {
  Ref indices;
  Lines lines;
  int64_t nowhere;
  DEV int64_t operator()(int64_t i) const {
    const int64_t k = wrapped(load<int64_t>(indices, i), lines.n);
    return k < 0 ? nowhere : lines.base.offset(i) + k * lines.stride;
  }
};

Kernel scatter_add(const KernelArgs& a, Carver& carver) {
  const Tensor &x = a.in[0], &idx = a.in[1], &y = a.out[0];
  require_index_type(idx);
  if (x.dtype == DType::f64 || y.dtype == DType::f64) no_fp64(a);
  const int64_t axis = a.attrs().i("axis", 0);
  if (idx.dims[static_cast<size_t>(axis)] > kLongLine || idx.numel() == 0 || y.numel() == 0) {
    const RowSums s{x, y, 1, idx.numel(), y.numel(), 1};
    return sum_rows(a, carver, s, ElementPlace{idx, Lines(y.dims, idx.dims, axis), s.n});
  }
  if (carver.measuring()) return {};
  const AddMeeting body{meeting(idx, y.dims, axis), x, y};
  return [&d = device_of(a), y, body, n = idx.numel()] {
    d.fill(y.data, 0, y.bytes());
    for_each(d, n, body);
  };
}

// ---- Replacement: the last update of a row is used ----

// Finds the largest i with place(i) == row, for every row.
template <class Place>
struct Elect {
  Place place;
  int32_t* last;  // per row of y: the largest i; -1 at first
  int64_t n;
  DEV void operator()(int64_t i) const {
    const int64_t row = place(i);
    if (row >= 0 && row < n) atomic_max(last + row, static_cast<int32_t>(i));
  }
};
template <class Place, class T>
struct Replace {
  Place place;
  const int32_t* last;
  Ref u, y;
  int64_t n;
  Divisor inner;
  DEV void operator()(int64_t e) const {
    int64_t i = e;
    const int64_t column = inner.take(i), row = place(i);
    if (row >= 0 && row < n && last[row] == i) store(y, row * inner.value() + column, load<T>(u, e));
  }
};

// Returns a kernel that copies x to y and then replaces rows of `inner` elements: row i of u replaces row place(i) of
// y, which has n rows. If several rows of u have the same place, the last one is used. Throws E_CUDA_SIZE
// (Exit::unsupported) for 2^31 indices or more.
template <class Place>
Kernel replace_rows(const KernelArgs& a, Carver& carver, const Place& place, int64_t n, int64_t inner) {
  const Tensor &x = a.in[0], &idx = a.in[1], &u = a.in[2], &y = a.out[0];
  if (idx.numel() >= int64_t{1} << 31)
    fail(Exit::unsupported, "E_CUDA_SIZE", cat(a.node.op->name, " on CUDA takes fewer than 2^31 indices"));
  int32_t* const last = carver.take<int32_t>(n);
  if (carver.measuring()) return {};
  CudaDevice& d = device_of(a);
  const Kernel copy = d.convert(x, y);
  if (u.numel() == 0 || y.numel() == 0) return copy;
  const auto finish = [&](auto zero) -> Kernel {
    const Replace<Place, decltype(zero)> replace{place, last, u, y, n, Divisor(inner)};
    return [&d, copy, replace, elect = Elect<Place>{place, last, n}, k = idx.numel(), total = u.numel()] {
      copy();
      d.fill(elect.last, 0xff, elect.n * 4);
      for_each(d, k, elect);
      for_each(d, total, replace);
    };
  };
  if (!is_float(u.dtype)) return finish(int64_t{0});
  return u.dtype == DType::f64 ? finish(0.0) : finish(0.0f);
}

struct PlainPlace {  // place of ScatterNDRows, whose row numbers are not negative
  Ref rows;
  DEV int64_t operator()(int64_t i) const { return load<int64_t>(rows, i); }
};
Kernel scatter_nd(const KernelArgs& a, Carver& carver) {
  require_index_type(a.in[1]);
  return replace_rows(a, carver, PlainPlace{a.in[1]}, a.attrs().i("n", 1), a.attrs().i("inner", 1));
}

// ---- ScatterElements with the reductions none, mul, max, min ----

enum Reduction : int64_t { kNone, kMul, kMax, kMin };

template <class T>
struct CombineMeeting {
  Meeting meet;
  Ref u, y;
  int64_t reduction;
  DEV void operator()(int64_t i) const {
    const int64_t k = wrapped(load<int64_t>(meet.indices, i), meet.lines.n);
    if (k < 0) return;
    const int64_t to = meet.target(i);
    T v = load<T>(y, to);
    const bool first = meet.all(i, [&](int64_t j) {
      const T w = load<T>(u, j);
      if (reduction == kMul)
        v = static_cast<T>(v * w);
      else if (reduction == kMax)
        v = w > v || w != w ? w : v;
      else
        v = w < v || w != w ? w : v;
    });
    if (first) store(y, to, v);
  }
};

template <class T>
Kernel combine(const KernelArgs& a) {
  const Tensor &x = a.in[0], &idx = a.in[1], &u = a.in[2], &y = a.out[0];
  CudaDevice& d = device_of(a);
  const Kernel copy = d.convert(x, y);
  if (u.numel() == 0) return copy;
  const CombineMeeting<T> body{meeting(idx, y.dims, a.attrs().i("axis", 0)), u, y, a.attrs().i("reduction", kNone)};
  return [&d, copy, body, n = idx.numel()] {
    copy();
    for_each(d, n, body);
  };
}

Kernel scatter_elements(const KernelArgs& a, Carver& carver) {
  require_index_type(a.in[1]);
  const Tensor &idx = a.in[1], &y = a.out[0];
  if (a.attrs().i("reduction", kNone) == kNone) {
    const ElementPlace place{idx, Lines(y.dims, idx.dims, a.attrs().i("axis", 0)), -1};
    return replace_rows(a, carver, place, y.numel(), 1);
  }
  if (carver.measuring()) return {};
  if (!is_float(y.dtype)) return combine<int64_t>(a);
  if (y.dtype == DType::f64) no_fp64(a);
  return combine<float>(a);
}

const RegisterKernel kernels[] = {
    {DeviceKind::cuda, "ScatterElementsAdd", with_workspace<scatter_add>, measure_workspace<scatter_add>},
    {DeviceKind::cuda, "ScatterElements", with_workspace<scatter_elements>, measure_workspace<scatter_elements>},
    {DeviceKind::cuda, "ScatterNDRows", with_workspace<scatter_nd>, measure_workspace<scatter_nd>}};

}  // namespace
}  // namespace amp::cuda
