#include "importer/half_constants.h"

#include <cmath>

#include "importer/patch.h"

namespace amp {

Narrowed narrow_constant(const HostTensor& wide, const HalfType& type, const ConstantUse& use,
                         const std::string& name) {
  Narrowed out;
  if (use.weight) {
    out.value = narrow(wide, type.dtype(), name);
    return out;
  }
  const float largest = type.largest();
  HostTensor fitted = HostTensor::empty(DType::f32, wide.dims());
  const float* from = wide.as<float>();
  float* to = fitted.as_mutable<float>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const float x = to[i] = from[i];
    const bool beyond = std::isfinite(x) ? std::fabs(x) > largest || x == -largest : x < 0 && !use.nan_guard;
    if (use.bound && std::isfinite(x) && std::fabs(x) > largest) {
      to[i] = std::copysign(largest, x);
      out.clamped = true;
    } else if (!use.bound && beyond) {
      to[i] = std::copysign(largest / 2, x);
      out.masked = true;
    } else if (wide.numel() == 1 && x != 0 && std::fabs(x) < type.smallest()) {
      to[i] = std::copysign(type.smallest(), x);
      out.raised = true;
    }
  }
  out.value = fitted.cast(type.dtype());
  return out;
}

}  // namespace amp
