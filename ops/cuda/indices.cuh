// Indices that are read from tensors. Negative indices count from the end. The host rejects a batch with an index out
// of range before any launch (E_DATA_TOKEN_RANGE). The model itself may still compute an index out of range. Kernels
// then stay within the tensor: a gather reads the nearest row, a scatter drops the update.
#pragma once

#include "backend/cuda/ref.cuh"

namespace amp::cuda {

// Returns the index, converted to a non-negative one; -1 if k is out of range.
DEV int64_t wrapped(int64_t k, int64_t n) {
  k = k < 0 ? k + n : k;
  return k < 0 || k >= n ? -1 : k;
}
// Returns the index in [0, n) that is nearest to k.
DEV int64_t clamped(int64_t k, int64_t n) {
  k = k < 0 ? k + n : k;
  return k < 0 ? 0 : k >= n ? n - 1 : k;
}

inline void require_index_type(const Tensor& t) {
  if (t.dtype != DType::i64 && t.dtype != DType::i32)
    fail(Exit::model, "E_ATTR", cat("indices are ", name_of(t.dtype), ", not int32 or int64"));
}

// Locates the elements of GatherElements and of scatters along an axis. Element i of the indices refers to the data at
// offset base.offset(i) + index * stride.
struct Lines {
  Axes base;                  // the indices' dims with the data's strides; stride 0 along the axis
  int64_t n = 0, stride = 1;  // extent and stride of the axis in the data

  Lines(const Dims& data, const Dims& indices, int64_t axis) {
    Dims strides = row_major_strides(data);
    n = data[static_cast<size_t>(axis)];
    stride = strides[static_cast<size_t>(axis)];
    strides[static_cast<size_t>(axis)] = 0;
    base = make_axes(indices, strides);
  }
};

}  // namespace amp::cuda
