// Attributes shared by Conv, ConvTranspose and pools: kernel_shape, strides, dilations, pads, auto_pad; and the
// lowering of 1-d forms to 2-d ones with height 1.
#pragma once

#include "graph/lower.h"

namespace amp {

struct Spatial {
  Dims kernel, strides, dilations, begin, end;  // one number per spatial axis; begin and end are pads

  int64_t reach(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  // Returns the number of outputs along axis i for an input of extent n; a data error if no window fits. ceil: the last
  // window may extend past the end, unless it would start in the end padding.
  int64_t out(size_t i, int64_t n, bool ceil = false) const;
  Attrs attrs() const;     // attributes of the core operator, including kernel
  void push_front_unit();  // adds a leading axis of extent 1
};

enum class AutoPad {
  dilated,    // SAME_*: padding with which n input elements have ceil(n / stride) outputs
  undilated,  // as if windows were not dilated; negative if strides leave elements over: onnxruntime's pools
  left,       // the operator handles auto_pad itself
};

// kernel: taken from the weight, or empty to require the attribute. in: the input's spatial dims. Model error for
// an invalid attribute.
Spatial read_spatial(const Lowering&, const Dims& in, Dims kernel, AutoPad same = AutoPad::dilated);

// (A, B, L) -> (A, B, 1, L); other ranks are unchanged.
ValueId with_height(Builder&, ValueId);
// Removes the height if the source was 1-d.
ValueId without_height(Builder&, ValueId, bool was_1d);

}  // namespace amp
