// The regions that Slice, SliceGrad, Concat, Split and Expand copy (attributes: ops/slice_concat.cc).
#pragma once

#include "backend/strided_copy.h"

namespace amp {

// Returns the region that the attributes starts and steps select in a tensor with these dims.
inline Region slice_region(const Dims& dims, const Attrs& a) {
  Region r{0, row_major_strides(dims)};
  const auto starts = a.ints("starts"), steps = a.ints("steps");
  for (size_t d = 0; d < dims.size(); ++d) {
    r.offset += starts[d] * r.strides[d];
    r.strides[d] *= steps[d];
  }
  return r;
}

inline Region whole(const Dims& dims) { return {0, row_major_strides(dims)}; }

// Calls f(part, the part's region of the joined tensor) for tensors that are concatenated along the axis.
template <class F>
void for_each_part(const std::vector<Tensor>& parts, const Dims& joined, const Attrs& a, F f) {
  const size_t axis = static_cast<size_t>(a.i("axis", 0));
  const Dims strides = row_major_strides(joined);
  int64_t at = 0;
  for (const Tensor& t : parts) {
    f(t, Region{at * strides[axis], strides});
    at += t.dims[axis];
  }
}

// Returns the region that reads a tensor with dims `in` broadcast to `out` by NumPy's rules.
inline Region expanded(const Dims& in, const Dims& out) {
  Region r{0, Dims(out.size(), 0)};
  const Dims s = row_major_strides(in);
  const size_t shift = out.size() - in.size();
  for (size_t d = 0; d < in.size(); ++d) r.strides[d + shift] = in[d] == 1 ? 0 : s[d];
  return r;
}

}  // namespace amp
