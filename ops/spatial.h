// Attributes that Conv, ConvTranspose and the pools share: kernel_shape, strides, dilations, pads, auto_pad; and the
// lowering of 1-d forms to 2-d ones of height 1.
#pragma once

#include "graph/lower.h"

namespace amp {

struct Spatial {
  Dims kernel, strides, dilations, begin, end;  // one number per spatial axis; begin and end are pads

  int64_t reach(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  // Outputs along axis i of an input of extent n; a data error where no window fits. ceil: a last window may hang over,
  // unless it would start in the end padding.
  int64_t out(size_t i, int64_t n, bool ceil = false) const;
  Attrs attrs() const;     // of the core operator, kernel included
  void push_front_unit();  // one more leading axis, of extent 1
};

enum class AutoPad {
  dilated,    // SAME_*: the padding with which an input of n elements has ceil(n / stride) outputs
  undilated,  // ... of windows that were not dilated, negative where strides leave elements over: onnxruntime's pools
  left,       // the operator reads auto_pad its own way
};

// kernel: known from the weight, or empty to require the attribute. in: the input's spatial dims. Model error for a
// malformed attribute.
Spatial read_spatial(const Lowering&, const Dims& in, Dims kernel, AutoPad same = AutoPad::dilated);

// (A, B, L) -> (A, B, 1, L); other ranks are left alone.
ValueId with_height(Builder&, ValueId);
// Back to dims without the height when the source was 1-d.
ValueId without_height(Builder&, ValueId, bool was_1d);

}  // namespace amp
