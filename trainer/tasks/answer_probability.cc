#include "trainer/tasks/answer_probability.h"

#include <algorithm>
#include <cmath>

namespace amp {

double answer_probability(const LossSpec& loss, const HostTensor& logits, const HostTensor& label, int64_t row,
                          bool mean) {
  const int64_t length = logits.dims().at(1), width = logits.dims().at(2);
  const auto* const ids = label.as<int64_t>() + row * length;
  double sum = 0, n = 0;
  for (int64_t s = 0; s + 1 < length; ++s) {
    if (ids[s + 1] == loss.ignore_index()) continue;
    const float* const x = logits.as<float>() + (row * length + s) * width;
    const double top = *std::max_element(x, x + width);
    double all = 0;
    for (int64_t c = 0; c < width; ++c) all += std::exp(x[c] - top);
    sum += x[ids[s + 1]] - top - std::log(all);
    ++n;
  }
  return mean && n > 0 ? sum / n : sum;
}

std::vector<HostTensor> in_fp32(const std::vector<HostTensor>& outputs) {
  std::vector<HostTensor> out;
  for (const HostTensor& t : outputs) out.push_back(t.cast(DType::f32));
  return out;
}

}  // namespace amp
