// Predicted masks as PNG files in a folder, named after their images.
#pragma once

#include <string>
#include <vector>

#include "run/spec/spec.h"
#include "trainer/predictions/predictions.h"

namespace amp {

bool names_folder(const std::string& out);  // that is there, or "masks/"

// Pixels are the values that --mask_values gives the classes. Where --eval_transforms only brings images to a size,
// masks have their images' own size, by the nearest pixel; else that of the model's output. A second "b": "b_2.png".
void write_masks(const std::string& folder, const RunSpec& spec, const std::vector<std::string>& images,
                 const Predictions& predictions);

}  // namespace amp
