// What a model's image input tells of the transforms that it wants.
#pragma once

#include <string>

#include "data/image_dataset.h"
#include "graph/source.h"

namespace amp {

struct ImageGuess {
  std::string training, evaluation;
};

// Size: the input's; where it is free 224 for colours, that of the first image for small or grey ones and for
// masks, less what is over a multiple of 2, 4 ... 64 where the model takes no other.
// Values: ImageNet's normalisation for colours, 0 to 1 for grey; what the graph begins with tells of its own scaling.
// Augmentation: torchvision's for ImageNet from 64 pixels on, a shifted crop and a mirror image below, none for grey.
ImageGuess guess_transforms(const SourceGraph& graph, const ImageInput& input, bool masks,
                            const std::string& first_image);

// E_IMAGE_SIZES (exit 2) for a size that the model does not take, or, with masks, gives back as another one.
void require_size(const SourceGraph& graph, const ImageInput& input, bool masks, ImageSize size);

std::string describe(const ImageInput& input);  // "input 'x' takes NCHW, 3 channels, 224 x 224"

}  // namespace amp
