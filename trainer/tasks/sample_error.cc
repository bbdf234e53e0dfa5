#include "trainer/tasks/sample_error.h"

#include <algorithm>
#include <cmath>

namespace amp {

std::span<const float> values_of(const SampleRow& r, size_t output) {
  const HostTensor& out = r.outputs[output];
  const int64_t width = out.numel() / r.rows;
  return {out.as<float>() + r.row * width, static_cast<size_t>(width)};
}

std::vector<double> labels_of(const SampleRow& r) {
  const HostTensor& label = r.label;
  const int64_t width = label.numel() / r.rows;
  std::vector<double> out(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    const int64_t at = r.row * width + i;
    out[static_cast<size_t>(i)] =
        label.dtype() == DType::i64 ? static_cast<double>(label.as<int64_t>()[at]) : label.as<float>()[at];
  }
  return out;
}

double minus_log(double p) {  // 750 for p = 0, because exp(-750) is 0 in double
  return p > 0 ? -std::log(p) : std::isnan(p) ? PerSampleError::kInfinity : 750;
}

size_t largest(std::span<const double> p) {
  return static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
}

}  // namespace amp
