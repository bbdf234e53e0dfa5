#include "run/evaluate/finite_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "base/dtype.h"
#include "base/text.h"

namespace amp {

namespace {

template <class T>
int64_t count_bad(const HostTensor& t) {
  const T* const x = t.as<T>();
  return std::count_if(x, x + t.numel(), [](T v) { return std::isnan(v) || v == std::numeric_limits<T>::infinity(); });
}

}  // namespace

void FiniteOutputs::observe(const std::string& output, const HostTensor& values) {
  if (!is_float(values.dtype())) return;
  Count& c = outputs_[output];
  c.all += values.numel();
  c.bad += values.dtype() == DType::f64   ? count_bad<double>(values)
           : values.dtype() == DType::f32 ? count_bad<float>(values)
                                          : count_bad<float>(values.cast(DType::f32));
}

void FiniteOutputs::warn(const Log& log) const {
  for (const auto& [name, c] : outputs_) {
    if (c.bad == 0) continue;
    log.warning(cat("W_NOT_FINITE: ", with_thousands(c.bad), " of ", with_thousands(c.all), " values of output '",
                    printable(name), "' are NaN or infinite"));
  }
}

}  // namespace amp
