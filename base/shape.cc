#include "base/shape.h"

#include <algorithm>

#include "base/error.h"

namespace amp {

std::string to_string(std::span<const int64_t> dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    fail(Exit::model, "E_DIM_OVERFLOW", cat("size overflows 64 bits: ", a, " x ", b));
  return r;
}

int64_t numel(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) {
    if (d < 0) fail(Exit::model, "E_DIM_NEG", cat("negative dimension in shape ", to_string(dims)));
    n = checked_mul(n, d);
  }
  return n;
}

int64_t normalize_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    fail(Exit::model, "E_ATTR", cat("axis ", axis, " is out of range for rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Dims broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) {
      fail(Exit::model, "E_SHAPE", cat("shapes do not broadcast: ", to_string(a), " and ", to_string(b)));
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

Dims row_major_strides(std::span<const int64_t> dims) {
  Dims s(dims.size());
  int64_t n = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    s[i] = n;
    n *= dims[i];
  }
  return s;
}

}  // namespace amp
