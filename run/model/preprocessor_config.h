// What a file beside a model says of the images that it takes: preprocessor_config.json of Hugging Face's image
// processors, config.json of timm's models (pretrained_cfg).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/log.h"

namespace amp {

struct ImageProcessing {
  std::string evaluation, training;  // pipelines (data/transforms/pipeline.h)
};

// Of such a file's contents; masks: training keeps whole images. `why`: what is not understood, where nothing is
// returned; "" when the file does not speak of images.
std::optional<ImageProcessing> read_image_processing(const nlohmann::json& config, bool masks, std::string& why);

// Of the files in the model's folder. One that is not understood is told of in a note.
std::optional<ImageProcessing> image_processing_beside(const std::string& model, bool masks, const Log& log);

}  // namespace amp
