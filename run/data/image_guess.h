// Chooses image transforms by the model's image input, for runs whose settings and model folder name none.
#pragma once

#include <string>

#include "data/image_dataset.h"
#include "graph/source.h"

namespace amp {

struct ImageGuess {
  std::string training, evaluation;  // pipelines (data/transforms/pipeline.h)
};

// Size: the input's. If it is free, 224 for color images; the size of the first image for gray images, for masks and up
// to 64 pixels per side, reduced to a multiple of 2, 4 ... 64 if the model takes no other size.
// Values: ImageNet's normalization for color, 0 to 1 for gray; less if the graph starts with a scaling of its own.
// Augmentation of color images: torchvision's for ImageNet above 64 pixels per side, else a padded random crop and a
// horizontal flip. Masks: a horizontal flip. Gray images: none.
ImageGuess guess_transforms(const SourceGraph& graph, const ImageInput& input, bool masks,
                            const std::string& first_image);

// E_IMAGE_SIZES (exit 2) for a size that the model does not take or, with `masks`, for which it returns another size.
void require_size(const SourceGraph& graph, const ImageInput& input, bool masks, ImageSize size);

std::string describe(const ImageInput& input);  // "input 'x' takes NCHW, 3 channels, 224 x 224"

}  // namespace amp
