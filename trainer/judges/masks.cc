// A class for each pixel: the share of wrong ones.
#include <algorithm>
#include <optional>

#include "trainer/judges/judge.h"

namespace amp {

namespace {

struct PixelError {
  int64_t classes, height, width;
};

std::optional<PixelError> place_of(const JudgedRow& r) {
  const Dims& d = r.outputs[0].dims();
  if (d.size() != 4 || r.label.numel() != d[0] * d[2] * d[3]) return std::nullopt;
  return PixelError{d[1], d[2], d[3]};
}

Mask label_mask(const JudgedRow& r, const PixelError& at) {
  Mask out(at.width, at.height, 1);
  const std::vector<double> label = labels_of(r);
  std::transform(label.begin(), label.end(), out.data.begin(),
                 [](double v) { return v < 0 ? kNoClass : static_cast<int16_t>(v); });
  return out;
}

class MasksJudge final : public Judge {
 public:
  MasksJudge(const LossSpec& loss, const MetricContext&)
      : yes_(loss.kind.find("prob") != std::string::npos ? 0.5f : 0.0f) {}

  double error(const JudgedRow& r) const override {
    const std::optional<PixelError> at = place_of(r);
    if (!at) return kNone;
    const Mask want = label_mask(r, *at), got = predicted_mask(r, *at);
    int64_t wrong = 0, all = 0;
    for (size_t i = 0; i < want.data.size(); ++i) {
      all += want.data[i] != kNoClass;
      wrong += want.data[i] != kNoClass && want.data[i] != got.data[i];
    }
    return wrong ? static_cast<double>(wrong) / static_cast<double>(all) : kNone;
  }

  void describe(const JudgedRow& r, JudgedSample& out) const override {
    out.label_mask = label_mask(r, *place_of(r));
    out.predicted_mask = predicted_mask(r, *place_of(r));
  }

  bool shows(const JudgedRow& r) const override { return place_of(r).has_value(); }

 private:
  Mask predicted_mask(const JudgedRow& r, const PixelError& at) const {
    const std::span<const float> x = values_of(r);
    Mask out(at.width, at.height, 1);
    const auto pixels = out.data.size();
    for (size_t i = 0; i < pixels; ++i) {
      size_t best = at.classes == 1 && x[i] > yes_ ? 1 : 0;
      for (size_t c = 1; c < static_cast<size_t>(at.classes); ++c) {
        if (x[c * pixels + i] > x[best * pixels + i]) best = c;
      }
      out.data[i] = static_cast<int16_t>(best);
    }
    return out;
  }

  float yes_;  // one channel: above it
};

const JudgeRegistration masks_judge{Task::segmentation, judge<MasksJudge>};

}  // namespace

}  // namespace amp
