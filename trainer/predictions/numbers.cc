// Numbers of a regression, or how near the two sides of a pair are.
#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metrics.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

class Numbers final : public Predictions {
 public:
  Numbers(const LossSpec& loss, const PredictionContext& context)
      : pairs_(loss_rule(loss.kind).embeddings), target_(context.target), rows_(context.rows) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    std::vector<double> x = outputs.at(0).to_doubles();
    const int64_t width = pairs_ ? 1 : width_of(outputs[0], batch.rows);
    if (pairs_) x = pair_cosines(x, outputs[0].dims().back());
    if (values_.empty()) {
      width_ = width;
      values_.resize(static_cast<size_t>(rows_ * width));
    }
    if (width != width_ || static_cast<int64_t>(x.size()) != batch.rows * width) bug("batches of different widths");
    for (int64_t r = 0; r < batch.rows; ++r) {
      for (int64_t i = 0; i < width; ++i) {
        values_[static_cast<size_t>(batch.samples[static_cast<size_t>(r)] * width + i)] =
            target_.inverse(x[static_cast<size_t>(r * width + i)]);
      }
    }
  }

  std::vector<PredictedField> row(int64_t row) const override {
    if (width_ == 1) return {{"prediction", number(values_[static_cast<size_t>(row)])}};
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (int64_t i = 0; i < width_; ++i) all.push_back(number(values_[static_cast<size_t>(row * width_ + i)]));
    return {{"prediction", std::move(all)}};
  }

  std::vector<NamedTensor> tensors() const override {
    const Dims dims = width_ == 1 ? Dims{rows_} : Dims{rows_, width_};
    return {{"prediction", HostTensor::of<double>(dims, values_).cast(DType::f32)}};
  }

 private:
  bool pairs_;
  TargetTransform target_;
  int64_t rows_, width_ = 0;
  std::vector<double> values_;
};

const PredictionRegistration numbers_predictions{Task::regression, make<Numbers>};

}  // namespace

}  // namespace amp
