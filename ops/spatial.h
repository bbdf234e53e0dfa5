// The attributes that Conv, ConvTranspose and pools share: kernel_shape, strides, dilations, pads, auto_pad.
// Also lowers 1-d forms to 2-d forms with height 1.
#pragma once

#include "graph/lower.h"

namespace amp {

struct Spatial {
  Dims kernel, strides, dilations, begin, end;  // one number per spatial axis; begin and end are the pads

  int64_t reach(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
  // Returns the number of outputs along axis i for an input of extent n; throws a data error if no window fits. ceil:
  // whether the last window may extend past the end, unless it would start in the end padding.
  int64_t out(size_t i, int64_t n, bool ceil = false) const;
  Attrs attrs() const;     // returns the attributes of the core operator, including kernel
  void push_front_unit();  // inserts a first axis of extent 1
};

enum class AutoPad {
  dilated,    // SAME_*: pads so that n input elements give ceil(n / stride) outputs
  undilated,  // as if windows were not dilated; pads may be negative (as in onnxruntime's pools)
  left,       // auto_pad is ignored here; the operator applies it itself
};

// Reads and checks the attributes. kernel: from the weight; if it is empty, the attribute is required. in: the
// input's spatial dims. Throws a model error for an invalid attribute.
Spatial read_spatial(const Lowering&, const Dims& in, Dims kernel, AutoPad same = AutoPad::dilated);

// Reshapes (A, B, L) to (A, B, 1, L). Other ranks are unchanged.
ValueId with_height(Builder&, ValueId);
// Removes the height that with_height() has added, if was_1d.
ValueId without_height(Builder&, ValueId, bool was_1d);

}  // namespace amp
