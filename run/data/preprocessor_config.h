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

// Converts the contents of one of the two files. With `masks`, the training transforms keep whole images. Returns
// nothing if the file has no image processor (`why` is then empty), or one that a pipeline cannot express (`why` names
// the key).
std::optional<ImageProcessing> read_image_processing(const nlohmann::json& config, bool masks, std::string& why);

// Reads and converts the files in the model's folders. Logs a note for a file that cannot be converted.
std::optional<ImageProcessing> image_processing_of(const std::string& model, bool masks, const Log& log);

}  // namespace amp
