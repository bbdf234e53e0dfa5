// Reads image transforms from files in a model's folder: preprocessor_config.json of Hugging Face's image processors,
// and config.json of timm's models (pretrained_cfg).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/log.h"

namespace amp {

struct ImageProcessing {
  std::string evaluation, training;  // pipelines (data/transforms/pipeline.h)
};

// Converts the contents of such a file. masks: the training transforms must keep whole images. Returns nothing if the
// file has no image processor (`why` is empty), or one that cannot be expressed (`why` names the key).
std::optional<ImageProcessing> read_image_processing(const nlohmann::json& config, bool masks, std::string& why);

// Reads the files in the model's folders. Logs a note for one that cannot be expressed.
std::optional<ImageProcessing> image_processing_of(const std::string& model, bool masks, const Log& log);

}  // namespace amp
