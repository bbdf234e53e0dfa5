// Chooses image transforms by the model's image input. Used if neither the settings nor the model's folder name
// transforms.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/image_dataset.h"
#include "graph/source.h"

namespace amp {

struct ImageSpec;

// Returns the model's image input: the first one with four dimensions, or with three for gray images. The layout is
// `image_layout`, or is found by the dimension of 1 or 3 channels. Throws E_IMAGE_INPUT (exit 5) if there is no such
// input.
ImageInput image_input(const ImageSpec& images, const SourceGraph& graph, const std::vector<InputSpec>& inputs);

struct ImageGuess {
  std::string training, evaluation;  // pipelines (data/transforms/pipeline.h)
};

// Returns the transforms for an image input. Their parts are chosen as follows.
// Size: that of the input. If the input's size is free, 224 for color images, and the size of the first image for gray
// images, for masks and for images of up to 64 pixels per side. The size of the first image is reduced to a multiple of
// 2, 4, ... or 64 if the model does not take it.
// Values: ImageNet's normalization for color, 0 to 1 for gray. A scaling or normalization that the graph itself does at
// its start is left out.
// Augmentation: for color images larger than 64 pixels per side torchvision's recipe for ImageNet; for smaller ones a
// padded random crop and a horizontal flip; for masks a horizontal flip; for gray images none.
ImageGuess guess_transforms(const SourceGraph& graph, const ImageInput& input, bool masks,
                            const std::string& first_image);

// Throws E_IMAGE_SIZES (Exit::usage) if the model does not take images of this size or, with `masks`, returns another
// size for them.
void require_size(const SourceGraph& graph, const ImageInput& input, bool masks, ImageSize size);

std::string describe(const ImageInput& input);  // "input 'x' takes NCHW, 3 channels, 224 x 224"

}  // namespace amp
