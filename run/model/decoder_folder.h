// Configuration of a language model's folder: genai_config.json (onnxruntime-genai) and config.json (Hugging Face).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "importer/read/import.h"

namespace amp {

struct ModelSpec;

struct DecoderFolder {
  std::string file;                     // name of the decoder's ONNX file; empty: not configured
  int64_t head_size = -1;               // -1: unknown
  int64_t context = -1;                 // largest length of a sequence in tokens, from genai_config.json; -1: unknown
  std::vector<std::string> past_names;  // patterns of the names of caches, as "past_key_values.%d.key"
};

// Returns the folder that contains `file`; "." for a name without a folder.
std::string folder_of(const std::string& file);

// Reads the files in `folder`; a folder without them gives an empty DecoderFolder. Throws E_RUN (Exit::usage) if
// genai_config.json cannot be parsed, or if its decoder consists of several files or reads the output of another file.
DecoderFolder decoder_folder(const std::string& folder);

// Returns the context length that genai_config.json beside a model file gives; -1: unknown.
int64_t context_length(const std::string& model_file);

// Imports an exported file for comparison on data that feed the inputs `fed`. Caches of a decoder are empty, unless the
// data feed them.
Imported import_fed(const std::string& path, const std::vector<std::string>& fed);

// Returns the options for importing the model file `path`, from `past` and the configuration in the file's folder.
PastOptions past_options(const ModelSpec& model, const std::string& path);

}  // namespace amp
