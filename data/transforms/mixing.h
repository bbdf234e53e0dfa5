// Batches whose images are mixed two and two, and their labels with them: mixup (Zhang et al., ICLR 2018) and CutMix
// (Yun et al., ICCV 2019), by batch as timm's Mixup does it: the first image of a batch with its last, the second with
// the last but one.
#pragma once

#include <memory>

#include "data/image_dataset.h"

namespace amp {

struct MixingOptions {
  double mixup = 0, cutmix = 0;  // alpha of Beta(alpha, alpha), which the share of an image is drawn from; 0: not done
  double probability = 1;        // that a batch is mixed
  double switch_probability = 0.5;  // that it is by CutMix, where both are done
  int64_t off_epoch = 0;            // from this epoch on nothing is mixed; 0: to the end
  uint64_t seed = 42;
};

// One batch's draw: `share` of each image stays; CutMix replaces rows [top, bottom) and columns [left, right).
struct Mix {
  double share = 1;
  bool cut = false;
  int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// A pure function of (seed, epoch, the batch's first sample).
Mix draw_mix(const MixingOptions& options, int64_t epoch, int64_t sample, int64_t height, int64_t width);
// CutMix's rectangle about pixel (y, x), of 1 - share of the area before it is cut off at the borders; its share is
// what is left outside.
Mix cut_about(int64_t y, int64_t x, double share, int64_t height, int64_t width);

// images: float32, in the layout's dimensions.
void mix_images(HostTensor& images, ImageInput::Layout layout, const Mix& mix);
// Class ids (rows) become probabilities (rows, classes); floating labels keep their shape.
HostTensor mix_labels(const HostTensor& labels, int64_t classes, double share);

// data: images of `input` with labels that are class ids, which become probabilities (rows, classes), or floating
// numbers, which are mixed as they are. classes: until check_label_range tells the model's. Only training's batches are
// mixed.
std::unique_ptr<Dataset> make_mixed_dataset(std::shared_ptr<const Dataset> data, const ImageInput& input,
                                            int64_t classes, const MixingOptions& options);

}  // namespace amp
