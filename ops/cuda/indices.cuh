// Indices that arrive as data. Negative ones count from the end. The host refuses those of a batch that are out of
// range before anything is launched (E_DATA_TOKEN_RANGE), so kernels only see to it that a bad one, which a model may
// still compute, reads and writes nothing outside: what is gathered there is the nearest row, what is scattered there
// is dropped.
#pragma once

#include "backend/cuda/ref.cuh"

namespace amp::cuda {

// -1: out of range
DEV int64_t wrapped(int64_t k, int64_t n) {
  k = k < 0 ? k + n : k;
  return k < 0 || k >= n ? -1 : k;
}
DEV int64_t clamped(int64_t k, int64_t n) {
  k = k < 0 ? k + n : k;
  return k < 0 ? 0 : k >= n ? n - 1 : k;
}

inline void require_index_type(const Tensor& t) {
  if (t.dtype != DType::i64 && t.dtype != DType::i32)
    fail(Exit::model, "E_ATTR", cat("indices are ", name_of(t.dtype), ", not int32 or int64"));
}

// GatherElements and the scatters along an axis: where in the data update i goes, given its index along the axis.
struct Lines {
  Axes base;                  // of the updates' dims, with the data's strides; 0 along the axis
  int64_t n = 0, stride = 1;  // of the axis in the data

  Lines(const Dims& data, const Dims& indices, int64_t axis) {
    Dims strides = row_major_strides(data);
    n = data[static_cast<size_t>(axis)];
    stride = strides[static_cast<size_t>(axis)];
    strides[static_cast<size_t>(axis)] = 0;
    base = make_axes(indices, strides);
  }
};

}  // namespace amp::cuda
