// The class of each pixel.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/predictions/predictions.h"

namespace amp {

namespace {

constexpr int64_t kMostClasses = 256;  // a mask's pixel is a byte

class Masks final : public Predictions {
 public:
  Masks(const LossSpec& loss, const PredictionContext& context)
      : loss_(loss), names_(context.classes), masks_(static_cast<size_t>(context.rows)) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const Dims d = out.dims();
    if (d.size() != 4 || d[0] != batch.rows || d[1] < 1 || d[1] > kMostClasses)
      fail(Exit::usage, "E_TASK",
           cat("the model's output of shape ", to_string(d), " is no mask of [B, classes, H, W]"),
           "give the task that the model is for with --task");
    classes_ = std::max<int64_t>(2, d[1]);
    for (int64_t r = 0; r < batch.rows; ++r)
      masks_.at(static_cast<size_t>(batch.samples[static_cast<size_t>(r)])) =
          best_of(out.as<float>() + r * d[1] * d[2] * d[3], d[1], d[2], d[3]);
  }

  std::vector<PredictedField> row(int64_t row) const override {
    const Image& mask = masks_[static_cast<size_t>(row)];
    std::vector<int64_t> counts(static_cast<size_t>(classes_));
    for (const uint8_t v : mask.data) ++counts[v];
    nlohmann::ordered_json shares = nlohmann::ordered_json::object();
    for (int64_t c = 0; c < classes_; ++c)
      shares[class_name(names_, c)] =
          number(static_cast<double>(counts[static_cast<size_t>(c)]) / static_cast<double>(mask.data.size()));
    return {{"share", shares}};
  }

  std::vector<NamedTensor> tensors() const override {
    const Image& first = masks_.at(0);
    HostTensor all = HostTensor::empty(DType::u8, {static_cast<int64_t>(masks_.size()), first.height, first.width});
    uint8_t* to = all.as_mutable<uint8_t>();
    for (const Image& m : masks_) {
      if (m.width != first.width || m.height != first.height)
        fail(Exit::data, "E_IMAGE_SIZE", "the masks are of several sizes, an array has one",
             "write them as images: --out names a folder");
      to = std::copy(m.data.begin(), m.data.end(), to);
    }
    return {{"predicted_mask", all}};
  }

  const Image* mask(int64_t row) const override { return &masks_[static_cast<size_t>(row)]; }

 private:
  // The largest channel; of one channel yes or no, by its sigmoid or, where the loss takes these, its probability.
  Image best_of(const float* x, int64_t channels, int64_t height, int64_t width) const {
    Image out(width, height, 1);
    const int64_t pixels = height * width;
    const float yes = loss_.kind.find("prob") != std::string::npos ? 0.5f : 0.0f;
    for (int64_t i = 0; i < pixels; ++i) {
      int64_t best = channels == 1 ? x[i] > yes : 0;
      for (int64_t c = 1; c < channels; ++c) {
        if (x[c * pixels + i] > x[best * pixels + i]) best = c;
      }
      out.data[static_cast<size_t>(i)] = static_cast<uint8_t>(best);
    }
    return out;
  }

  const LossSpec loss_;
  const std::vector<std::string> names_;
  std::vector<Image> masks_;
  int64_t classes_ = 2;
};

const PredictionRegistration masks_predictions{Task::segmentation, make<Masks>};

}  // namespace

}  // namespace amp
