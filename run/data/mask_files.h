// Writes predicted masks as PNG files into a folder, named after their images.
#pragma once

#include <string>
#include <vector>

#include "trainer/tasks/predictions.h"

namespace amp {

struct ImageSpec;

bool names_folder(const std::string& out);  // one that exists, or a name with a trailing slash

// Pixels have the values that --mask_values gives to the classes. If --eval_transforms only resizes, masks are resized
// to the size of their images (nearest pixel); otherwise they keep the size of the model's output. A second image "b"
// is written as "b_2.png".
void write_masks(const std::string& folder, const ImageSpec& settings, const std::vector<std::string>& images,
                 const Predictions& predictions);

}  // namespace amp
