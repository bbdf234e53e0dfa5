// Models that no exporter wrote: an architecture with drawn weights, or a Hugging Face checkpoint, as an ONNX file; and
// the way back, a trained file as a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace amp {

struct BuildSpec {
  std::string model = {};   // create: an architecture's name; convert: a checkpoint's folder
  std::string config = {};  // create: keys that differ from the architecture's own, a JSON object or a file of one
  std::string head = {};  // what the model ends in (models/architecture.h); empty: the usual, or as the checkpoint says
  uint64_t seed = 42;     // of weights that are drawn
};

struct BuiltModel {
  std::string architecture, head;
  int64_t parameters = 0;  // elements, without running statistics
};

// Weights as the architecture's authors draw them. Exit::unsupported E_ARCHITECTURE, E_CONFIG; Exit::usage
// E_CONFIG_KEY.
BuiltModel create_model(const BuildSpec& spec, const std::string& out, const Log& log = {});

// config.json and safetensors. Tokenizer files are copied beside `out`, where a run finds them. Weights of a head that
// the checkpoint lacks are drawn, and said. Errors as above, and of CheckpointWeights (models/weights.h).
BuiltModel convert_checkpoint(const BuildSpec& spec, const std::string& out, const Log& log = {});

// model.safetensors under the checkpoint's own names and config.json into `folder`, from a file that one of these
// wrote, trained or not; tokenizer files from beside it, or from the folder `beside`. Exit::usage E_NOT_CONVERTED:
// another file.
void write_checkpoint(const std::string& model, const std::string& folder, const Log& log = {},
                      const std::string& beside = {});

}  // namespace amp
