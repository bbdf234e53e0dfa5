// Semantic segmentation: predicts a class for each pixel. Outputs are [B, classes, H, W], or have one channel for the
// foreground. The error of a sample is its share of wrong pixels.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"
#include "trainer/losses/loss.h"
#include "trainer/metrics/metrics.h"
#include "trainer/tasks/class_metrics.h"
#include "trainer/tasks/task_rule.h"

namespace amp {

namespace {

class SegmentationMetrics final : public ClassMetrics {
 public:
  SegmentationMetrics(const LossSpec& loss, const MetricContext&) : ClassMetrics(loss, true) {}

  MetricValues values(double) const override {
    if (binary_)
      return {{"miou", binary_->mean_iou()}, {"dice", binary_->macro_f1()}, {"accuracy", binary_->accuracy()}};
    return {{"miou", classes().mean_iou()}, {"dice", classes().macro_f1()}, {"accuracy", classes().accuracy()}};
  }

 private:
  // Outputs of one channel are scored for the foreground only.
  void add_binary(const std::vector<float>& logits, const std::vector<int64_t>& wanted) override {
    if (!binary_) binary_ = std::make_unique<Multilabel>(1);
    binary_->add(logits, std::vector<float>(wanted.begin(), wanted.end()), 0, static_cast<float>(loss_.ignore_index()));
  }

  std::unique_ptr<Multilabel> binary_;  // metrics of outputs with one channel
};

constexpr int64_t kMostClasses = 256;  // a mask stores a pixel's class in a byte

// Returns the value above which a pixel of a one-channel output is foreground: 0 for logits, 0.5 for probabilities.
float foreground_above(const LossSpec& loss) { return loss.kind.find("prob") != std::string::npos ? 0.5f : 0.0f; }

// Writes each pixel's class: the channel with the largest value, the first among equal values. With one channel, the
// class is 1 for values above `yes`, else 0.
template <class T>
void write_classes(std::span<const float> x, size_t channels, float yes, std::vector<T>& out) {
  const size_t pixels = out.size();
  for (size_t i = 0; i < pixels; ++i) {
    size_t best = channels == 1 && x[i] > yes ? 1 : 0;
    for (size_t c = 1; c < channels; ++c) {
      if (x[c * pixels + i] > x[best * pixels + i]) best = c;
    }
    out[i] = static_cast<T>(best);
  }
}

class Masks final : public Predictions {
 public:
  Masks(const LossSpec& loss, const PredictionContext& context)
      : yes_(foreground_above(loss)), names_(context.classes), masks_(static_cast<size_t>(context.rows)) {}

  void add(const std::vector<HostTensor>& outputs, const Batch& batch) override {
    const HostTensor out = outputs.at(0).cast(DType::f32);
    const Dims d = out.dims();
    if (d.size() != 4 || d[0] != batch.rows || d[1] < 1 || d[1] > kMostClasses)
      fail(Exit::usage, "E_TASK",
           cat("the model's output of shape ", to_string(d), " is no mask of [B, classes, H, W]"),
           "give the task that the model is for with `task`");
    classes_ = std::max<int64_t>(2, d[1]);
    const int64_t width = d[1] * d[2] * d[3];
    for (int64_t r = 0; r < batch.rows; ++r) {
      Image mask(d[3], d[2], 1);
      write_classes({out.as<float>() + r * width, static_cast<size_t>(width)}, static_cast<size_t>(d[1]), yes_,
                    mask.data);
      masks_.at(static_cast<size_t>(batch.samples[static_cast<size_t>(r)])) = std::move(mask);
    }
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
             "write them as images: `out` names a folder");
      to = std::copy(m.data.begin(), m.data.end(), to);
    }
    return {{"predicted_mask", all}};
  }

  const Image* mask(int64_t row) const override { return &masks_[static_cast<size_t>(row)]; }

 private:
  const float yes_;
  const std::vector<std::string> names_;
  std::vector<Image> masks_;
  int64_t classes_ = 2;
};

struct MaskShape {
  int64_t classes, height, width;
};

std::optional<MaskShape> shape_of(const SampleRow& r) {
  const Dims& d = r.outputs[0].dims();
  if (d.size() != 4 || r.label.numel() != d[0] * d[2] * d[3]) return std::nullopt;
  return MaskShape{d[1], d[2], d[3]};
}

Mask label_mask(const SampleRow& r, const MaskShape& at) {
  Mask out(at.width, at.height, 1);
  const std::vector<double> label = labels_of(r);
  std::transform(label.begin(), label.end(), out.data.begin(),
                 [](double v) { return v < 0 ? kNoClass : static_cast<int16_t>(v); });
  return out;
}

class MaskError final : public PerSampleError {
 public:
  MaskError(const LossSpec& loss, const MetricContext&) : yes_(foreground_above(loss)) {}

  double error(const SampleRow& r) const override {
    const std::optional<MaskShape> at = shape_of(r);
    if (!at) return kNone;
    const Mask want = label_mask(r, *at), got = predicted_mask(r, *at);
    int64_t wrong = 0, all = 0;
    for (size_t i = 0; i < want.data.size(); ++i) {
      all += want.data[i] != kNoClass;
      wrong += want.data[i] != kNoClass && want.data[i] != got.data[i];
    }
    return wrong ? static_cast<double>(wrong) / static_cast<double>(all) : kNone;
  }

  void describe(const SampleRow& r, SampleRecord& out) const override {
    out.label_mask = label_mask(r, *shape_of(r));
    out.predicted_mask = predicted_mask(r, *shape_of(r));
  }

  bool shows(const SampleRow& r) const override { return shape_of(r).has_value(); }

 private:
  Mask predicted_mask(const SampleRow& r, const MaskShape& at) const {
    Mask out(at.width, at.height, 1);
    write_classes(values_of(r), static_cast<size_t>(at.classes), yes_, out.data);
    return out;
  }

  float yes_;
};

const TaskRegistration segmentation_row{{
    .name = "segmentation",
    .labels = LabelForm::masks,
    .images = true,
    .named_classes = true,
    .head = "segmentation",
    .output_rank = 4,
    .class_axis = 1,
    .outputs = ClassOutputs::one_each_or_yes_no,
    .loss = "cross_entropy_nchw",
    .binary_loss = "bce_logits",
    .losses_of = {Task::classification, Task::multilabel},
    .metrics = {{"miou"}, {"dice"}, {"accuracy"}},
    .best = "miou",
    .metrics_from = MetricsFrom::data,
    .make_metrics = metrics_as<SegmentationMetrics>,
    .make_predictions = predictions_as<Masks>,
    .make_error = error_as<MaskError>,
}};

}  // namespace

}  // namespace amp
