#include "trainer/tasks/probabilities.h"

#include "base/error.h"

namespace amp {

void Probabilities::add(const std::vector<HostTensor>& outputs, const Batch& batch) {
  const HostTensor out = outputs.at(0).cast(DType::f32);
  const int64_t width = width_of(out, batch.rows);
  const int64_t classes = classes_of(width);
  if (classes_ == 0) {
    classes_ = classes;
    values_.resize(static_cast<size_t>(rows_ * classes));
  }
  if (classes != classes_) bug("batches of different numbers of classes");
  for (int64_t r = 0; r < batch.rows; ++r) {
    const std::span<const float> x(out.as<float>() + r * width, static_cast<size_t>(width));
    fill(x, std::span(values_).subspan(static_cast<size_t>(batch.samples[static_cast<size_t>(r)] * classes),
                                       static_cast<size_t>(classes)));
  }
}

nlohmann::ordered_json Probabilities::by_name(int64_t row) const {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  const std::span<const double> p = of(row);
  for (int64_t c = 0; c < classes_; ++c) out[class_name(names_, c)] = number(p[static_cast<size_t>(c)]);
  return out;
}

NamedTensor Probabilities::probabilities() const {
  return {"probabilities", HostTensor::of<double>({rows_, classes_}, values_).cast(DType::f32)};
}

}  // namespace amp
