// Implements mixup and CutMix on batches. Random numbers come from Draws(seed, epoch, first sample of the batch), so
// resumed runs repeat them. Labels become probabilities, which the losses accept in place of class ids.
#include "data/transforms/mixing.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "data/dataset_wrapper.h"
#include "data/transforms/draws.h"

namespace amp {

namespace {

// Draws Gamma(alpha) by Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). An alpha below 1
// is drawn as Gamma(alpha + 1) U^(1 / alpha).
double gamma_draw(Draws& draws, double alpha) {
  if (alpha < 1) {
    const double u = 1 - draws.uniform();
    return gamma_draw(draws, alpha + 1) * std::pow(u, 1 / alpha);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.normal(), v = (1 + c * x) * (1 + c * x) * (1 + c * x);
    if (v <= 0) continue;
    const double u = 1 - draws.uniform();
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double beta_draw(Draws& draws, double alpha) {
  const double a = gamma_draw(draws, alpha), b = gamma_draw(draws, alpha);
  return a + b > 0 ? a / (a + b) : 0.5;  // both may underflow for an alpha near 0
}

// Mixes two rows in place with s = share: x becomes s x + (1 - s) other, and `other` becomes s other + (1 - s) x.
void blend(float* x, float* other, int64_t n, double share) {
  const auto a = static_cast<float>(share), b = static_cast<float>(1 - share);
  for (int64_t i = 0; i < n; ++i) {
    const float p = x[i], q = other[i];
    x[i] = p * a + q * b;
    other[i] = q * a + p * b;
  }
}

void swap_box(float* one, float* other, const Mix& m, bool planes, int64_t channels, int64_t height, int64_t width) {
  const int64_t count = planes ? channels : 1, pixel = planes ? 1 : channels;
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t y = m.top; y < m.bottom; ++y) {
      const int64_t at = (c * height + y) * width;
      std::swap_ranges(one + (at + m.left) * pixel, one + (at + m.right) * pixel, other + (at + m.left) * pixel);
    }
  }
}

int64_t height_axis(ImageInput::Layout layout) { return layout == ImageInput::Layout::nchw ? 2 : 1; }

class MixedDataset final : public DatasetWrapper {
 public:
  MixedDataset(std::shared_ptr<const Dataset> data, const ImageInput& input, int64_t classes,
               const MixingOptions& options)
      : DatasetWrapper(std::move(data)), input_(input), options_(options), classes_(classes) {}

  void check_label_range(int64_t classes, int64_t ignore) const override {
    DatasetWrapper::check_label_range(classes, ignore);
    classes_ = classes;  // number of classes of the model's output
  }
  std::shared_ptr<const Dataset> for_evaluation() const override {
    const auto inner = data_->for_evaluation();
    return inner ? inner : data_;
  }

  Batch training_batch(std::span<const int64_t> samples, int64_t epoch) const override {
    Batch b = data_->training_batch(samples, epoch);
    if (options_.off_epoch > 0 && epoch >= options_.off_epoch) return b;
    HostTensor& fed = b.inputs.at(input_.name);
    HostTensor images = fed.cast(DType::f32);
    const auto axis = static_cast<size_t>(height_axis(input_.layout));
    const Mix mix = draw_mix(options_, epoch, samples[0], images.dims().at(axis), images.dims().at(axis + 1));
    mix_images(images, input_.layout, mix);
    fed = images.cast(fed.dtype());
    b.labels = mix_labels(b.labels, classes_, mix.share);
    b.valid_items = b.rows;
    return b;
  }

 private:
  ImageInput input_;
  MixingOptions options_;
  mutable std::atomic<int64_t> classes_;
};

}  // namespace

Mix draw_mix(const MixingOptions& o, int64_t epoch, int64_t sample, int64_t height, int64_t width) {
  // A bit that is set in no sample index. With it, the random numbers of a batch differ from those of its first sample.
  constexpr int64_t kBatches = int64_t{1} << 43;
  Draws draws(o.seed, epoch, kBatches | sample);
  if (!draws.chance(o.probability)) return {};
  const bool cut = o.cutmix > 0 && (o.mixup <= 0 || draws.chance(o.switch_probability));
  const double share = beta_draw(draws, cut ? o.cutmix : o.mixup);
  if (!cut) return {share};
  const int64_t y = draws.below(height), x = draws.below(width);
  return cut_about(y, x, share, height, width);
}

Mix cut_about(int64_t y, int64_t x, double share, int64_t height, int64_t width) {
  const double side = std::sqrt(1 - share);
  const auto h = static_cast<int64_t>(static_cast<double>(height) * side),
             w = static_cast<int64_t>(static_cast<double>(width) * side);
  Mix m{1, true};
  m.top = std::clamp<int64_t>(y - h / 2, 0, height);
  m.bottom = std::clamp<int64_t>(y + (h + 1) / 2, 0, height);
  m.left = std::clamp<int64_t>(x - w / 2, 0, width);
  m.right = std::clamp<int64_t>(x + (w + 1) / 2, 0, width);
  m.share = 1 - static_cast<double>((m.bottom - m.top) * (m.right - m.left)) / static_cast<double>(height * width);
  return m;
}

void mix_images(HostTensor& images, ImageInput::Layout layout, const Mix& mix) {
  const auto axis = static_cast<size_t>(height_axis(layout));
  const int64_t rows = images.dims().at(0), height = images.dims().at(axis), width = images.dims().at(axis + 1);
  const int64_t size = rows > 0 ? images.numel() / rows : 0, channels = size / (height * width);
  float* const all = images.as_mutable<float>();
  for (int64_t r = 0; r < rows / 2; ++r) {
    float *const one = all + r * size, *const other = all + (rows - 1 - r) * size;
    if (mix.cut) {
      swap_box(one, other, mix, layout == ImageInput::Layout::nchw, channels, height, width);
    } else {
      blend(one, other, size, mix.share);
    }
  }
}

HostTensor mix_labels(const HostTensor& labels, int64_t classes, double share) {
  const int64_t rows = labels.dims().at(0);
  const bool numbers = is_float(labels.dtype());
  HostTensor out = HostTensor::zeros(DType::f32, numbers ? labels.dims() : Dims{rows, classes});
  float* const p = out.as_mutable<float>();
  if (numbers) {
    const std::vector<double> values = labels.to_doubles();
    std::transform(values.begin(), values.end(), p, [](double v) { return static_cast<float>(v); });
  } else {
    const std::vector<int64_t> ids = labels.to_ints();
    for (int64_t r = 0; r < rows; ++r) p[r * classes + ids[static_cast<size_t>(r)]] = 1;
  }
  const int64_t size = rows > 0 ? out.numel() / rows : 0;
  for (int64_t r = 0; r < rows / 2; ++r) blend(p + r * size, p + (rows - 1 - r) * size, size, share);
  return out;
}

std::unique_ptr<Dataset> make_mixed_dataset(std::shared_ptr<const Dataset> data, const ImageInput& input,
                                            int64_t classes, const MixingOptions& options) {
  return std::make_unique<MixedDataset>(std::move(data), input, classes, options);
}

}  // namespace amp
