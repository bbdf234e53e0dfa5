// Builds ONNX files without an exporter: from an architecture with random weights, or from a Hugging Face checkpoint.
// write_checkpoint() converts a trained file back to a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace amp {

struct BuildSpec {
  std::string model = {};   // create: an architecture's name; convert: a checkpoint's folder
  std::string config = {};  // create: keys that differ from the architecture's own; a JSON object, or a file with one
  std::string head = {};    // models/architecture.h; empty: the architecture's first one, or the checkpoint's
  uint64_t seed = 42;       // for random weights
};

struct BuiltModel {
  std::string architecture, head;
  int64_t parameters = 0;  // number of elements, without running statistics
};

// Writes `out` with weights that are initialized as the architecture's authors do. Exit::unsupported E_ARCHITECTURE,
// E_CONFIG; Exit::usage E_CONFIG_KEY.
BuiltModel create_model(const BuildSpec& spec, const std::string& out, const Log& log = {});

// Converts config.json and safetensors to `out`. Copies tokenizer files to the folder of `out`, where runs find them.
// Initializes head weights that the checkpoint lacks at random, with a warning. Errors: as above, and those of
// CheckpointWeights (models/weights.h).
BuiltModel convert_checkpoint(const BuildSpec& spec, const std::string& out, const Log& log = {});

// Writes model.safetensors (with the checkpoint's tensor names) and config.json into `folder`. `model` is a file that
// one of the functions above wrote, trained or not; for others Exit::usage E_NOT_CONVERTED. Tokenizer files are copied
// from the model's folder, or from `beside`.
void write_checkpoint(const std::string& model, const std::string& folder, const Log& log = {},
                      const std::string& beside = {});

}  // namespace amp
