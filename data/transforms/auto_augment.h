// The operations of RandAugment and TrivialAugment, by torchvision's names.
#pragma once

#include <string>

#include "data/transforms/transform.h"

namespace amp {

// Applies ShearX, ShearY, TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize, Solarize,
// AutoContrast, Equalize or Identity. Only the geometric operations change the mask.
void augment(ImageSample& sample, const std::string& operation, double magnitude);

}  // namespace amp
