// Implements HostTensor. Copies of a HostTensor share its bytes; conversions and copied() allocate new bytes, aligned
// to cache lines.
#include "base/host_tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "base/error.h"

namespace amp {

void type_mismatch(DType have, DType want) {
  bug(cat("tensor is ", name_of(have), ", code asked for ", name_of(want)));
}

HostTensor::HostTensor() = default;
HostTensor::HostTensor(const HostTensor&) = default;
HostTensor::HostTensor(HostTensor&&) noexcept = default;
HostTensor& HostTensor::operator=(const HostTensor&) = default;
HostTensor& HostTensor::operator=(HostTensor&&) noexcept = default;
HostTensor::~HostTensor() = default;

HostTensor::HostTensor(DType dtype, Dims dims, std::shared_ptr<const void> owner, const void* bytes)
    : dtype_(dtype), dims_(std::move(dims)), numel_(amp::numel(dims_)), owner_(std::move(owner)), bytes_(bytes) {}

HostTensor HostTensor::empty(DType dtype, Dims dims) {
  const int64_t bytes = checked_mul(amp::numel(dims), size_of(dtype));
  void* p = std::aligned_alloc(64, static_cast<size_t>((bytes + 127) / 64 * 64));
  if (!p) throw std::bad_alloc();
  return HostTensor(dtype, std::move(dims),
                    std::shared_ptr<const void>(p, [](const void* q) { std::free(const_cast<void*>(q)); }), p);
}

HostTensor HostTensor::zeros(DType dtype, Dims dims) {
  const int64_t bytes = checked_mul(amp::numel(dims), size_of(dtype));
  // A large tensor is a new anonymous mapping: its pages are zero, and they use no memory until they are touched.
  if (bytes >= (int64_t{1} << 20)) {
    const auto size = static_cast<size_t>(bytes);
    void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return HostTensor(dtype, std::move(dims),
                      std::shared_ptr<const void>(p, [size](const void* q) { munmap(const_cast<void*>(q), size); }), p);
  }
  HostTensor t = empty(dtype, std::move(dims));
  std::memset(t.mutable_data(), 0, static_cast<size_t>(t.bytes()));
  return t;
}

HostTensor HostTensor::released() const { return HostTensor(dtype_, dims_, nullptr, nullptr); }

HostTensor HostTensor::copied() const {
  if (!bytes_) return *this;
  HostTensor t = empty(dtype_, dims_);
  std::memcpy(t.mutable_data(), bytes_, static_cast<size_t>(bytes()));
  return t;
}

HostTensor HostTensor::cast(DType to) const {
  if (to == dtype_) return *this;
  if (!bytes_) return HostTensor(to, dims_, nullptr, nullptr);
  HostTensor t = empty(to, dims_);
  convert(dtype_, bytes_, to, t.mutable_data(), numel_);
  return t;
}

HostTensor HostTensor::reshaped(Dims dims) const {
  check(amp::numel(dims) == numel_, "reshaped: element count differs");
  return HostTensor(dtype_, std::move(dims), owner_, bytes_);
}

std::vector<int64_t> HostTensor::to_ints() const {
  const HostTensor t = cast(DType::i64);
  return {t.as<int64_t>(), t.as<int64_t>() + numel_};
}

std::vector<double> HostTensor::to_doubles() const {
  const HostTensor t = cast(DType::f64);
  return {t.as<double>(), t.as<double>() + numel_};
}

}  // namespace amp
