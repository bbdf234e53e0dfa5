// The operations that RandAugment and TrivialAugment choose among, by torchvision's names.
#pragma once

#include <string>

#include "data/transforms/transform.h"

namespace amp {

// ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize,
// AutoContrast, Equalize, Identity; of masks the geometry alone.
void augment(ImageSample& sample, const std::string& operation, double magnitude);

}  // namespace amp
