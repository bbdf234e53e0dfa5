// Mixes the images of a batch in pairs, with their labels: mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV
// 2019). As in timm's Mixup in batch mode, the first image is paired with the last, the second with the last but one.
#pragma once

#include <memory>

#include "data/image_dataset.h"

namespace amp {

struct MixingOptions {
  double mixup = 0, cutmix = 0;     // alpha of Beta(alpha, alpha), the distribution of an image's share; 0: disabled
  double probability = 1;           // probability that a batch is mixed
  double switch_probability = 0.5;  // probability of CutMix if both are enabled
  int64_t off_epoch = 0;            // no mixing from this epoch on; 0: never ends
  uint64_t seed = 42;
};

// The random choice for a batch: `share` is the weight (mixup) or the share of the area (CutMix) that an image keeps.
// CutMix replaces rows [top, bottom) and columns [left, right).
struct Mix {
  double share = 1;
  bool cut = false;
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// Returns the random choice for a batch, a pure function of (seed, epoch, the batch's first sample).
Mix draw_mix(const MixingOptions& options, int64_t epoch, int64_t sample, int64_t height, int64_t width);
// Returns CutMix's rectangle around pixel (y, x). It covers 1 - share of the area and is clipped at the borders.
// Mix::share is the share of the area that is outside of the clipped rectangle.
Mix cut_about(int64_t y, int64_t x, double share, int64_t height, int64_t width);

// Mixes the images of a batch in pairs, in place. images: float32 in the given layout.
void mix_images(HostTensor& images, ImageInput::Layout layout, const Mix& mix);
// Converts class ids (rows) to mixed probabilities (rows, classes). Floating-point labels are mixed and keep their
// shape.
HostTensor mix_labels(const HostTensor& labels, int64_t classes, double share);

// Makes a dataset whose training batches are mixed. Labels of data: class ids, which become probabilities (rows,
// classes), or floating-point numbers, which are mixed directly. classes: the number of classes until
// check_label_range() sets the model's number.
std::unique_ptr<Dataset> make_mixed_dataset(std::shared_ptr<const Dataset> data, const ImageInput& input,
                                            int64_t classes, const MixingOptions& options);

}  // namespace amp
