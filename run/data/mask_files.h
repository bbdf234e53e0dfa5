// Writes predicted masks as PNG files into a folder, named after their images.
#pragma once

#include <string>
#include <vector>

#include "trainer/tasks/predictions.h"

namespace amp {

struct ImageSpec;

bool names_folder(const std::string& out);  // true for an existing folder, or a name with a trailing slash

// Writes one PNG file per image. Pixels have the values that `mask_values` gives to the classes. If `eval_transforms`
// only resizes, masks are resized to the size of their images (nearest pixel); otherwise they keep the size of the
// model's output. If two images are named "b", the mask of the second is "b_2.png".
void write_masks(const std::string& folder, const ImageSpec& settings, const std::vector<std::string>& images,
                 const Predictions& predictions);

}  // namespace amp
