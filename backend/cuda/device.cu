// Implements the parts of CudaDevice that need no driver: conversions, additions and checks of indices as kernels,
// workspace queries, and the start of NCCL. A failed check of an index is packed into the 64-bit flag that
// check_index_flag() reads.
#include "backend/cuda/device.h"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/nccl.h"
#include "backend/cuda/raw.cuh"
#include "backend/cuda/ref.cuh"
#include "backend/cuda/strided_copy.h"

namespace amp::cuda {

namespace {

// Converts an element by way of T: float between fp32 and 16-bit types, double from other floating types or to other
// types, uint64_t from u64, int64_t from other integers.
template <class T>
struct Convert {
  Ref from, to;
  DEV void operator()(int64_t i) const { store(to, i, load<T>(from, i)); }
};
struct Convert4 {
  Ref from, to;
  DEV void operator()(int64_t i) const {
    float v[4];
    load4(from, 4 * i, v);
    store4(to, 4 * i, v);
  }
};

template <class T>
struct Add {
  T* y;
  const T* x;
  DEV void operator()(int64_t i) const { y[i] += x[i]; }
};

struct ConvertRows {
  Ref from, to;
  int64_t row, pitch;
  DEV void operator()(int64_t i) const {
    const int64_t r = quotient(i, row);
    store(to, r * pitch + i - r * row, load<float>(from, i));
  }
};

// The flag packs two numbers: an index clamped to 48 bits, and the number of the check, counted from 1.
constexpr int64_t kFlagIndex = int64_t{1} << 47;
struct CheckIndices {
  Ref indices;
  IndexBound bound;
  int64_t number;
  int64_t* flag;
  DEV void operator()(int64_t i) const {
    const int64_t k = load<int64_t>(indices, i);
    if (bound.holds(k)) return;
    const int64_t near = k < -kFlagIndex ? -kFlagIndex : k >= kFlagIndex ? kFlagIndex - 1 : k;
    *flag = near * 65536 + number;  // if several indices are out of bounds, any of them is reported
  }
};

bool is_32_or_16(DType t) { return t == DType::f32 || is_low(t); }

}  // namespace

void no_fp64(const KernelArgs& a) {
  fail(Exit::unsupported, "E_DTYPE", cat(a.node.op->name, ": fp64 is not computed on CUDA"),
       "use `device` cpu for `dtype` fp64");
}

int64_t CudaDevice::workspace(const Graph& g, const Node& n) const {
  const MeasureWorkspace measure = find_workspace(DeviceKind::cuda, n.op->name);
  return measure ? measure(g, n) : 0;
}

Kernel CudaDevice::convert(const Tensor& from, const Tensor& to) {
  const int64_t n = to.numel();
  if (from.dtype == to.dtype) {
    const Dims flat{n};
    return strided_copy(*this, {from.data, from.dtype, flat}, {0, {1}}, {to.data, to.dtype, flat}, {0, {1}}, flat);
  }
  if (is_32_or_16(from.dtype) && is_32_or_16(to.dtype)) {
    if (n % 4 == 0) return [this, n, body = Convert4{from, to}] { for_each(*this, n / 4, body); };
    return [this, n, body = Convert<float>{from, to}] { for_each(*this, n, body); };
  }
  if (is_float(from.dtype)) return [this, n, body = Convert<double>{from, to}] { for_each(*this, n, body); };
  if (from.dtype == DType::u64) return [this, n, body = Convert<uint64_t>{from, to}] { for_each(*this, n, body); };
  return [this, n, body = Convert<int64_t>{from, to}] { for_each(*this, n, body); };
}

Kernel CudaDevice::add(const Tensor& to, const Tensor& v) {
  check(to.dtype == v.dtype && (v.dtype == DType::f32 || v.dtype == DType::f64),
        "gradients are accumulated in fp32 or fp64");
  const int64_t n = to.numel();
  if (v.dtype == DType::f32) {
    return [this, n, body = Add<float>{static_cast<float*>(to.data), static_cast<const float*>(v.data)}] {
      for_each(*this, n, body);
    };
  }
  return [this, n, body = Add<double>{static_cast<double*>(to.data), static_cast<const double*>(v.data)}] {
    for_each(*this, n, body);
  };
}

Kernel CudaDevice::convert_rows(const Tensor& from, const Tensor& to, int64_t row, int64_t pitch) {
  check(is_32_or_16(from.dtype) && is_32_or_16(to.dtype), "rows are converted between 32- and 16-bit types");
  return [this, n = from.numel(), body = ConvertRows{from, to, row, pitch}] { for_each(*this, n, body); };
}

std::unique_ptr<DeviceCommunicator> CudaDevice::join(const RankContact& contact) {
  return std::make_unique<NcclRanks>(nccl::load(), *this, contact);
}

int64_t* CudaDevice::index_flag() {
  if (!flag_) flag_ = allocate(8);
  return static_cast<int64_t*>(flag_.get());
}

Kernel CudaDevice::check_indices(const Tensor& indices, const IndexBound& bound, const std::string& what) {
  int64_t* const flag = index_flag();
  size_t n = 0;
  while (n < checks_.size() && !(checks_[n].bound == bound && checks_[n].what == what)) ++n;
  if (n == checks_.size()) checks_.push_back({bound, what});
  check(n < 65535, "too many different checks of indices");
  const CheckIndices body{indices, bound, static_cast<int64_t>(n) + 1, flag};
  return [this, body, count = indices.numel()] { for_each(*this, count, body); };
}

void CudaDevice::check_index_flag(int64_t flag) {
  if (flag == 0) return;
  fill(flag_.get(), 0, 8);
  const Check& c = checks_.at(static_cast<size_t>((flag & 65535) - 1));
  refuse_index(c.bound, flag >> 16, c.what);
}

}  // namespace amp::cuda
