// Builds ONNX files without an exporter: from an architecture with random weights, or from a Hugging Face checkpoint.
// write_checkpoint() converts a trained file back to a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"

namespace amp {

struct BuildSpec {
  std::string model = {};  // for create: an architecture's name; for convert: a checkpoint's folder
  // For create: keys that differ from the architecture's own, as a JSON object or the name of a file with one.
  std::string config = {};
  // For create: a JSON object of keys that the data determine; `config` overrides them.
  std::string derived = {};
  // A head of models/architecture.h; empty: the architecture's first head, or the checkpoint's.
  std::string head = {};
  uint64_t seed = 42;  // for random weights
};

struct BuiltModel {
  std::string architecture, head;
  int64_t parameters = 0;  // number of elements, without running statistics
};

// Writes `out` with random weights, drawn as the architecture's authors do. Throws E_ARCHITECTURE and E_CONFIG
// (Exit::unsupported), and E_CONFIG_KEY (Exit::usage).
BuiltModel create_model(const BuildSpec& spec, const std::string& out, const Log& log = {});

// Converts a checkpoint's config.json and safetensors to `out`. Copies tokenizer files to the folder of `out`, where
// runs find them. Initializes head weights that the checkpoint lacks at random, with a warning. Throws the errors of
// create_model() and those of CheckpointWeights (models/weights.h).
BuiltModel convert_checkpoint(const BuildSpec& spec, const std::string& out, const Log& log = {});

// Writes model.safetensors (with the checkpoint's tensor names) and config.json into `folder`. `model` is a file from
// create_model() or convert_checkpoint(), trained or not; for other files E_NOT_CONVERTED (Exit::usage) is thrown.
// Tokenizer files are copied from the model's folder, or from `beside`.
void write_checkpoint(const std::string& model, const std::string& folder, const Log& log = {},
                      const std::string& beside = {});

}  // namespace amp
