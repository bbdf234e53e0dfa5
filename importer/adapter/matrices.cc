#include "importer/adapter/matrices.h"

#include <algorithm>
#include <cstring>

namespace amp {

HostTensor matrix_block(const HostTensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  HostTensor out = HostTensor::empty(DType::f32, {rows, columns});
  const int64_t width = t.dims()[1];
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(t.as<float>() + (row + i) * width + column, columns, out.as_mutable<float>() + i * columns);
  return out;
}

void set_block(HostTensor& to, const HostTensor& from, int64_t row, int64_t column) {
  const int64_t rows = from.dims()[0], columns = from.dims()[1], width = to.dims()[1];
  for (int64_t i = 0; i < rows; ++i)
    std::copy_n(from.as<float>() + i * columns, columns, to.as_mutable<float>() + (row + i) * width + column);
}

HostTensor multiplied(const HostTensor& t, double factor) {
  if (factor == 1) return t;
  HostTensor out = HostTensor::empty(DType::f32, t.dims());
  for (int64_t i = 0; i < t.numel(); ++i) out.as_mutable<float>()[i] = static_cast<float>(t.as<float>()[i] * factor);
  return out;
}

HostTensor vector_range(const HostTensor& t, int64_t from, int64_t size) {
  if (!t) return t;
  return matrix_block(t.reshaped({1, t.numel()}), 0, 1, from, size).reshaped({size});
}

bool same_values(const HostTensor& a, const HostTensor& b) {
  return a.dims() == b.dims() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

}  // namespace amp
